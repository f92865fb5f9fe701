#!/usr/bin/env python3
"""Compares the functions of samples with those of `perf report`.

    conformance/compare_perf_report.py PROGRAM FILE...

Needs `perf` (Debian: linux-perf), and the programs and the kernel that were recorded: names come from their symbols. For each
recording, the number of samples in each function itself must be the same, by event, file and name. Functions that neither has a
name for count by their file.

Prints a line for each recording, and what differs; the exit status is 1 when one does.
"""

import collections
import csv
import io
import subprocess
import sys

UNKNOWN = "(unknown)"
# Code without a file.
JIT = "(memory)"
MEMORY = ("//anon", "/dev/zero", "[anon", "/memfd:", "/anon_hugepage", "[heap]", "[stack")


def short(path):
    return path if path.startswith("[") else path.rsplit("/", 1)[-1]


def of_perf(path):
    """Samples by event, file and function."""
    command = ["perf", "report", "--stdio", "--no-children", "-g", "none", "-f", "--no-demangle", "-F", "sample,dso,sym", "-t", "\x1f", "-i", path]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600)
    found, event = collections.Counter(), ""
    for line in run.stdout.splitlines():
        if line.startswith("# Samples:"):
            event = line.split("'")[1]
            # Tracepoints have their system before them here.
            event = event.split(":", 1)[1] if ":" in event and len(event.split(":", 1)[1]) > 4 else event
        cells = [cell.strip() for cell in line.split("\x1f")]
        if line.startswith("#") or len(cells) != 3:
            continue
        # `[.] main`, and `[k] 0xffff..` without a name.
        name = cells[2][4:] if cells[2][:1] == "[" else cells[2]
        name = UNKNOWN if name.startswith("0x") or name.startswith("[unknown]") else name
        file = cells[1]
        file = JIT if file.startswith("[JIT]") else "" if file == "[unknown]" else short(file)
        found[(event, file, name)] += int(cells[0])
    return found


def of_program(program, path):
    command = [program, "report", "--by", "event", "--demangle", "no", "--format", "csv", path]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600)
    if run.returncode != 0:
        raise SystemExit(run.stderr)
    found = collections.Counter()
    for row in csv.DictReader(io.StringIO(run.stdout)):
        count = int(row["samples"])
        name = UNKNOWN if row["function"].startswith("[") else row["function"]
        file = JIT if row["module"].startswith(MEMORY) else row["module"]
        found[(row["event"], file, name)] += count
    return +found


def main():
    program, *paths = sys.argv[1:]
    differ = 0
    for path in paths:
        theirs, ours = of_perf(path), of_program(program, path)
        both = sum((theirs & ours).values())
        print(f"{path}: {sum(ours.values())} samples, perf {sum(theirs.values())}, {both} the same")
        if theirs != ours:
            differ += 1
            for sign, rest in (("perf", theirs - ours), ("tracemill", ours - theirs)):
                for (event, file, name), count in rest.most_common(12):
                    print(f"    only {sign}: {count} {event} {file} {name}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
