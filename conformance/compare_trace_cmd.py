#!/usr/bin/env python3
"""Compare the events of trace.dat files with what `trace-cmd report -R` says of them.

    compare_trace_cmd.py TRACEMILL FOLDER...

Looks for folders with a `trace.dat` and, beside it, a `raw.txt` (the output of `trace-cmd report -R`); without that the
installed trace-cmd is asked. Each event, its time, CPU, process and every field must be equal. trace-cmd rounds times to
microseconds, shows integers in decimal or hexadecimal, and arrays as `ARRAY[01, 02]` of bytes.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

# `  comm-pid  [cpu]  seconds.micros: name:   field=value ...`
LINE = re.compile(r"^\s*(?P<comm>.*)-(?P<pid>\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<s>\d+)\.(?P<us>\d{6}):\s+(?P<name>\w+):\s*(?P<fields>.*)$")


def raw_lines(folder):
    """The lines that trace-cmd prints for a trace, `None` when nobody knows them."""
    kept = folder / "raw.txt"
    if kept.exists():
        return kept.read_text(errors="replace").splitlines()
    try:
        command = ["trace-cmd", "report", "-R", "-N", "-i", str(folder / "trace.dat")]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None


def same(value, text):
    """Does trace-cmd show a value of ours as this text?"""
    if isinstance(value, str):
        return text == value
    if isinstance(value, list):
        return text == "ARRAY[" + ", ".join(f"{byte:02x}" for byte in value) + "]"
    is_hex = text.startswith("0x")
    try:
        number = int(text, 16 if is_hex else 10)
    except ValueError:
        return False
    # Negative numbers in hexadecimal are shown in their own width.
    return number == value or is_hex and value < 0 and any(number == value % (1 << bits) for bits in (8, 16, 32, 64))


def fields_of(text, names):
    """`a=1 b=two words c=3`, cut where the known names stand."""
    places = []
    at = 0
    for name in names:
        found = re.compile(rf"(?:^|\s){re.escape(name)}=").search(text, at)
        if not found:
            return None
        places.append((found.start(), found.end()))
        at = found.end()
    ends = [start for start, _ in places[1:]] + [len(text)]
    return [text[begin:end].strip() for (_, begin), end in zip(places, ends)]


def compare(program, folder):
    """Lines that differ in a folder, and how many events were compared."""
    lines = raw_lines(folder)
    if lines is None:
        return None
    events = [match for match in map(LINE.match, lines) if match]
    # `cpus=2`, `CPU:1 [42 EVENTS DROPPED]`, `CPU 3 is empty`.
    unread = [line for line in lines if not LINE.match(line) and not line.startswith(("cpus=", "CPU"))]
    command = [program, "print", "--format", "jsonl", str(folder / "trace.dat")]
    ours = [json.loads(line) for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines()]
    wrong = [f"cannot read the line: {line}" for line in unread]
    if len(events) != len(ours):
        wrong.append(f"{len(ours)} events, expected {len(events)}")
    for theirs, event in zip(events, ours):
        expected = {
            "time": int(theirs["s"]) * 1_000_000 + int(theirs["us"]),
            "cpu": int(theirs["cpu"]),
            "pid": int(theirs["pid"]),
            "name": theirs["name"],
        }
        found = {
            "time": (event["ns"] + 500) // 1000,
            "cpu": event["cpu"],
            "pid": event["header"]["common_pid"],
            "name": event["name"],
        }
        payload = event["payload"]
        texts = fields_of(theirs["fields"], list(payload))
        if texts is None:
            wrong.append(f"fields {list(payload)}, expected {theirs['fields']}")
            continue
        pairs = zip(payload.items(), texts)
        other = [f"{name}={value!r}, expected {text}" for (name, value), text in pairs if not same(value, text)]
        if expected != found or other:
            wrong.append(f"{found} {other}, expected {expected}")
    return wrong, len(events)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, failed = sys.argv[1], False
    for root in map(Path, sys.argv[2:]):
        for trace in sorted(root.rglob("trace.dat")):
            result = compare(program, trace.parent)
            if result is None:
                print(f"{trace}: no raw.txt, and no trace-cmd to ask")
                continue
            wrong, count = result
            failed = failed or bool(wrong) or count == 0
            print(f"{trace}: {count} events, {len(wrong)} differences")
            for line in wrong[:20]:
                print(f"  {line}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
