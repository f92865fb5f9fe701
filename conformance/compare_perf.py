#!/usr/bin/env python3
"""Compares the samples that tracemill reads from perf.data files with those that `perf script` prints.

    conformance/compare_perf.py PROGRAM FILE_OR_FOLDER...
    conformance/compare_perf.py PROGRAM --text FILE_OR_FOLDER...

Needs `perf` (Debian: linux-perf). For each file, samples must be the same and in the same order of time: time in ns, process,
thread, name of the thread, CPU, period, event, and the addresses of the call chain (or of the sample, where it has none).
With `--text` the text that `perf script` prints is read, and its events are compared with those of the file: time in us, thread, CPU,
event, and the fields of tracepoints that both have.

Prints a line for each file and a summary; the exit status is 1 when a file differs.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

LINE = re.compile(
    r"^\s*(?P<comm>.*?)\s+(?P<pid>-?\d+)/(?P<tid>-?\d+)\s+(?:\[(?P<cpu>-?\d+)\]\s+)?(?:(?P<s>\d+)\.(?P<ns>\d{9}):)?"
    r"\s+(?P<period>\d+)\s+(?P<event>.+?):\s*(?P<ip>[0-9a-f]+)?\s*$"
)
FRAME = re.compile(r"^\s+([0-9a-f]+)(\s.*)?$")
FIELDS = ["comm", "pid", "tid", "cpu", "time", "period", "event", "ip"]
# With -D: a sample, and the addresses of its call chain as they are stored. `perf script` itself shows addresses of programs
# as they are in the files of these.
RAW = re.compile(r"^(?:-?\d+ )?(\d+) 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_SAMPLE\(.*\): (-?\d+)/(-?\d+): ")
RAW_FRAME = re.compile(r"^\.\.\.\.\. +\d+: ([0-9a-f]{16})")
MARKERS = 2**64 - 4096


def raw_chains(path):
    """The call chains of samples by time and thread, in the order of perf."""
    run = subprocess.run(["perf", "script", "-D", "-f", "-i", path], capture_output=True, text=True, errors="replace", timeout=600)
    chains, last, is_chain = {}, None, False
    for line in run.stdout.splitlines():
        sample = RAW.match(line)
        if sample:
            last, is_chain = [], False
            chains.setdefault((int(sample[1] or 0), int(sample[3])), []).append(last)
        elif line.startswith("... "):
            is_chain = "chain: nr:" in line
        elif is_chain and last is not None and (frame := RAW_FRAME.match(line)):
            address = int(frame[1], 16)
            if address < MARKERS:
                last.append(address)
        else:
            is_chain = False
    return chains


def perf(path):
    """The samples that perf prints, or the reason why it prints none."""
    fields = list(FIELDS)
    while True:
        command = ["perf", "script", "--ns", "-f", "--no-inline", "--no-itrace", "-F", ",".join(fields), "-i", path]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
        missing = re.search(r"Cannot print '(\w+)' field", run.stderr)
        if not missing or missing[1] not in fields:
            break
        fields.remove(missing[1])
    samples = []
    for line in run.stdout.splitlines():
        found = LINE.match(line)
        frame = None if found else FRAME.match(line)
        if frame and samples:
            samples[-1]["chain"].append(int(frame[1], 16))
            continue
        if not found:
            if line.strip():
                return None, f"a line of perf is not understood: {line[:100]!r}"
            continue
        sample = {"chain": [] if found["ip"] is None else [int(found["ip"], 16)]}
        for key in ("comm", "event"):
            sample[key] = found[key]
        for key in ("pid", "tid", "cpu", "period"):
            sample[key] = None if found[key] is None else int(found[key])
        sample["ns"] = None if found["s"] is None else int(found["s"]) * 10**9 + int(found["ns"])
        samples.append(sample)
    if not samples and run.returncode:
        return None, run.stderr.strip().splitlines()[-1][:120] if run.stderr.strip() else "perf failed"
    return (samples, fields), None


def short(name):
    """The name of a tracepoint without its system."""
    return name.split(":", 1)[1] if re.fullmatch(r"[a-z0-9_]+:[a-z0-9_]{4,}", name, re.I) else name


def own(program, path):
    """Our samples."""
    run = subprocess.run([program, "print", "--format", "jsonl", path], capture_output=True, timeout=600)
    samples = []
    for line in run.stdout.splitlines():
        event = json.loads(line)
        if event["name"].startswith("PERF_RECORD_"):
            continue
        context, payload = event.get("event_context", {}), event.get("payload", {})
        fields = context if "period" in context or "ip" in context else payload
        chain = fields.get("callchain")
        if chain is None:
            chain = (fields.get("callchain_kernel") or []) + (fields.get("callchain_user") or [])
        samples.append({
            "ns": event.get("cycles"),
            "pid": context.get("pid"),
            "tid": context.get("tid"),
            "comm": context.get("comm"),
            "cpu": event.get("cpu", fields.get("cpu")),
            "period": fields.get("period"),
            "event": event["name"],
            "chain": chain if "callchain_kernel" in fields else [fields["ip"]] if "ip" in fields else [],
            "has_branches": "branch_from" in fields,
            "has_chain": "callchain_kernel" in fields,
        })
    return samples, run.stderr.decode(errors="replace").strip()


def differs(theirs, ours, fields):
    """The first difference of two samples."""
    for key in ("ns", "pid", "tid", "cpu", "period"):
        if theirs[key] is not None and ours[key] is not None and theirs[key] != ours[key]:
            return key
    if theirs["comm"] != ours["comm"] and not (ours["comm"] is None and theirs["comm"] == f":{theirs['tid']}"):
        return "comm"
    if short(theirs["event"]) != short(ours["event"]):
        return "event"
    if not ours["has_chain"] and theirs["chain"] and theirs["chain"] != ours["chain"]:
        return "chain"
    return None


def key_of(sample):
    return tuple(str(sample[key]) for key in ("ns", "tid", "event", "cpu"))


def compare(program, path):
    theirs, reason = perf(path)
    ours, messages = own(program, path)
    if theirs is None:
        return None, f"perf: {reason}; ours: {len(ours)} samples"
    theirs, fields = theirs
    if len(theirs) != len(ours):
        return False, f"{len(theirs)} samples of perf, {len(ours)} of ours; {messages[:200]}"
    # Samples of one time may stand in any order.
    order = lambda samples: sorted(samples, key=lambda of: (of["ns"] or 0, of["tid"] or 0, of["cpu"] or 0, short(of["event"]), of["chain"]))
    for sample in theirs + ours:
        if "cpu" not in fields:
            sample["cpu"] = None
    if [of["ns"] for of in theirs] != sorted(of["ns"] for of in theirs if of["ns"] is not None) and theirs and theirs[0]["ns"] is not None:
        order_note = " (perf's own order is not that of time)"
    else:
        order_note = ""
    if not order_note and ours and ours[0]["ns"] is not None and [of["ns"] for of in ours] != [of["ns"] for of in theirs]:
        return False, "the order of times differs"
    for their, our in zip(order(theirs), order(ours)):
        key = differs(their, our, fields)
        if key:
            return False, f"{key}: perf {their.get(key)}, ours {our.get(key)}, at {their['ns']} ns of {their['comm']}"
    if any(of["has_chain"] for of in ours):
        chains = raw_chains(path)
        frames = 0
        for our in ours:
            known = chains.get((our["ns"] or 0, our["tid"])) or [[]]
            chain = [ip for ip in our["chain"] if ip < MARKERS]
            frames += len(chain)
            # perf joins the branch stack to chains of LBR, and leaves out the rest of them.
            if our["has_branches"] and "LBR" in path.upper():
                continue
            if chain not in known:
                return False, f"chain: perf {known}, ours {chain}, at {our['ns']} ns"
        return True, f"{len(ours)} samples with {frames} frames{order_note}"
    return True, f"{len(ours)} samples{order_note}"


def events(program, path):
    """Our events but records that are no samples."""
    run = subprocess.run([program, "print", "--format", "jsonl", path], capture_output=True, timeout=600)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    return [event for event in found if not event["name"].startswith("PERF_RECORD_")], run.returncode


def compare_text(program, path):
    """Compares the text of a file with the file."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as text:
        run = subprocess.run(["perf", "script", "-f", "--no-itrace", "-i", path], stdout=text, stderr=subprocess.PIPE, timeout=300)
        if run.returncode or not os.path.getsize(text.name):
            return None, f"perf: {run.stderr.decode(errors='replace').strip()[-120:]}"
        of_text, status = events(program, text.name)
    of_file, _ = events(program, path)
    if not of_file or of_file[0]["cycles"] is None:
        return None, "the file has no times, or no samples"
    key_of_file = lambda of: (of["cycles"] // 1000, of["event_context"]["tid"], short(of["name"]), of.get("cpu"))
    key_of_text = lambda of: (of["ns"] // 1000, of["header"]["common_pid"], short(of["name"]), of.get("cpu"))
    if sorted(map(str, map(key_of_file, of_file))) != sorted(map(str, map(key_of_text, of_text))):
        return False, f"{len(of_file)} events in the file, {len(of_text)} in its text (status {status}), or not the same ones"
    known = {}
    for event in of_file:
        known.setdefault(key_of_file(event), []).append(event["payload"])
    fields = 0
    for event in of_text:
        payload = {key: value for key, value in event["payload"].items() if key not in ("period", "callchain", "ip", "symbol", "dso", "text")}
        # A word in the text, a number in the file.
        payload.pop("group_dead", None)
        fields += len(payload)
        same = lambda other: all(key not in other or other[key] == value for key, value in payload.items())
        if not any(map(same, known[key_of_text(event)])):
            return False, f"{event['name']} at {event['ns']}: {payload} in the text, {known[key_of_text(event)][:1]} in the file"
    return True, f"{len(of_text)} events, {fields} fields"


def main():
    program, paths = sys.argv[1], []
    is_text = "--text" in sys.argv
    for path in (argument for argument in sys.argv[2:] if argument != "--text"):
        if os.path.isdir(path):
            paths += sorted(os.path.join(path, name) for name in os.listdir(path))
        else:
            paths.append(path)
    counts = {True: 0, False: 0, None: 0}
    for path in paths:
        same, message = compare_text(program, path) if is_text else compare(program, path)
        counts[same] += 1
        print({True: "same     ", False: "DIFFERENT", None: "not read "}[same], os.path.basename(path), message, flush=True)
    print(f"{counts[True]} same, {counts[False]} different, {counts[None]} that perf does not read")
    return 1 if counts[False] or not counts[True] else 0


if __name__ == "__main__":
    sys.exit(main())
