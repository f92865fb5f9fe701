#!/usr/bin/env python3
"""Compare the events of trace.dat files with those of the text that `trace-cmd report` prints of them.

    compare_ftrace_text.py TRACEMILL TRACE.DAT...

Both are printed by TRACEMILL. The text has whole microseconds and not all fields; each event must have the same CPU, thread,
name and time to the microsecond, and the same value in each field that both have. Options of the report are tried, too.
"""
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

REPORTS = [[], ["-t"], ["-l"]]
# Where the text has names, the file has numbers.
NAMED = {"ip", "parent_ip", "func", "function", "caller", "text"}


def events(tracemill, file):
    command = [tracemill, "print", "--format", "jsonl", "-q", str(file)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def by_place(events, micros):
    found = defaultdict(list)
    for event in events:
        found[micros(event["ns"]), event["cpu"], event["name"], event["header"]["common_pid"]].append(event)
    return found


def compare(tracemill, file, options):
    wrong = Counter()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "report.txt"
        report = subprocess.run(["trace-cmd", "report", *options, "-i", str(file)], capture_output=True, check=True)
        text.write_bytes(report.stdout)
        of_file, of_text = events(tracemill, file), events(tracemill, text)
    is_whole = "-t" in options
    # trace-cmd rounds what it cuts.
    ours = by_place(of_file, lambda ns: ns if is_whole else (ns + 500) // 1000)
    theirs = by_place(of_text, lambda ns: ns if is_whole else ns // 1000)
    for place in sorted(set(ours) | set(theirs)):
        if len(ours[place]) != len(theirs[place]):
            wrong[f"{place[2]}: number of events"] += 1
            continue
        for one, other in zip(ours[place], theirs[place]):
            for name in set(one["payload"]) & set(other["payload"]) - NAMED:
                state = name == "prev_state" and other["payload"][name] == 0 and one["payload"][name] & 255 == 0
                if one["payload"][name] != other["payload"][name] and not state:
                    wrong[f"{place[2]}.{name}: {one['payload'][name]} and {other['payload'][name]}"] += 1
    fields = sum(len(event["payload"]) for event in of_text)
    print(f"{file} {' '.join(options)}: {len(of_file)} events, {len(of_text)} in the text, {fields} fields, {sum(wrong.values())} differ")
    for what, count in wrong.most_common(10):
        print(f"  {count} times {what}")
    return not wrong and len(of_file) == len(of_text)


def main():
    tracemill, files = sys.argv[1], sys.argv[2:]
    results = [compare(tracemill, file, options) for file in files for options in REPORTS]
    sys.exit(0 if results and all(results) else 1)


main()
