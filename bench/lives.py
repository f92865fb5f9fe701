#!/usr/bin/env python3
"""Bytes that analyses keep of a thread that ended, beside those of the states.

    python3 bench/lives.py TRACEMILL KERNEL_TRACE DIR

KERNEL_TRACE is the program `kernel_trace` of this folder, DIR a folder for two traces of 360 MB in all, in which one event in
24 makes a thread. Memory is that which no file backs, at its peak, looked at 2000 times a second; the figure is what the
larger trace takes more, for each of its threads.
"""

import os
import subprocess
import sys
import time

ANALYSES = [
    "irq",
    "cpu",
    "processes",
    "memory",
    "sched",
    "sched --switches --by thread",
    "syscalls",
    "syscalls --by thread",
    "stats",
    "io --by thread",
    "locks --by thread",
]


def peak(command):
    """The most bytes of memory of a program that no file backs."""
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while program.poll() is None:
        try:
            with open(f"/proc/{program.pid}/status") as status:
                found = [int(line.split()[1]) for line in status if line.startswith("RssAnon")]
        except OSError:
            found = []
        most = max([most, *found])
        time.sleep(0.0005)
    return most * 1024


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    program, maker, folder = sys.argv[1:]
    traces = []
    for events in (4_000_000, 8_000_000):
        trace = os.path.join(folder, f"lives-{events}")
        if not os.path.exists(trace):
            subprocess.run([maker, trace, str(events), "2", "1"], check=True)
        rows = subprocess.run([program, "analyze", "processes", "--format", "csv", trace], capture_output=True, check=True)
        traces.append((trace, rows.stdout.count(b"\n") - 1))
    (small, few), (large, many) = traces
    print(f"{few} and {many} threads")
    states = None
    for analysis in ANALYSES:
        command = [program, "analyze", *analysis.split(), "--jobs", "1", "--format", "csv"]
        found = [min(peak([*command, trace]) for _ in range(3)) for trace in (small, large)]
        each = (found[1] - found[0]) / (many - few)
        states = each if states is None else states
        print(f"{analysis:30} {each:6.0f} bytes a thread, {each - states:5.0f} beside states", flush=True)


if __name__ == "__main__":
    main()
