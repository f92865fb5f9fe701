#!/usr/bin/env python3
"""Measures `tracemill analyze` with lttng-analyses beside it in the same run.

    bench/lttng_analyses.py PROGRAM FOLDER [--runs N] [--json FILE]

FOLDER holds a kernel trace in a folder `kernel`, such as `kernel_trace FOLDER/kernel 240_000` makes (`docs/benchmarks.md`).
Run it with a Python that has lttng-analyses 0.6.1 and the bindings of Babeltrace 1: on Debian
`apt install python3-babeltrace`, `/usr/bin/python3 -m venv --system-site-packages VENV`, `VENV/bin/pip install
lttnganalyses`. Seconds are those of CPU time, user and system, the least of the runs, which alternate between both
programs; output goes to /dev/null. Exits with 1 when an analysis is less than 60 times as fast, or five in one reading are
less than 200 times as fast as five commands (`docs/kernel.md`, section 4).
"""
import argparse
import json
import os
import platform
import subprocess
import sys

PAIRS = {
    "cpu": "cputop:run",
    "sched": "sched:runstats",
    "irq": "irq:runstats",
    "syscalls": "syscallstats:run",
    "io": "io:runstats",
    "memory": "memtop:run",
}
FIVE = ["cpu", "sched", "irq", "syscalls", "io"]

# It imports from `collections` what has been in `collections.abc` alone since Python 3.10.
START = """
import collections, collections.abc, importlib, sys
for name in collections.abc.__all__:
    setattr(collections, name, getattr(collections.abc, name))
module, function = sys.argv[1].split(":")
sys.argv = sys.argv[1:]
getattr(importlib.import_module("lttnganalyses.cli." + module), function)()
"""


def seconds(command):
    """CPU time of a command, which must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}\n{said.decode(errors='replace')[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    ours = {name: [args.program, "analyze", name, "-j1", args.folder] for name in PAIRS}
    ours["five"] = [args.program, "analyze", ",".join(FIVE), "-j1", args.folder]
    theirs = {name: [sys.executable, "-c", START, run, "--no-progress", args.folder] for name, run in PAIRS.items()}
    least = {}

    def measure(key, command, times):
        for _ in range(times):
            least[key] = min(least.get(key, float("inf")), seconds(command))

    for _ in range(args.runs):
        for name in PAIRS:
            # A run of ours is as short as the clock of processes is coarse.
            measure((name, "ours"), ours[name], 5)
            measure((name, "theirs"), theirs[name], 1)
        measure(("five", "ours"), ours["five"], 5)
    least["five", "theirs"] = sum(least[name, "theirs"] for name in FIVE)
    rows, is_slow = [], False
    for name in [*PAIRS, "five"]:
        own, other = least[name, "ours"], least[name, "theirs"]
        limit = 200 if name == "five" else 60
        is_slow |= other < limit * own
        rows.append({"analysis": name, "tracemill_s": own, "lttng_analyses_s": other, "times": other / own, "limit": limit})
        print(f"{name:9} {own:8.4f} s {other:8.3f} s {other / own:7.0f} times (wanted {limit})", flush=True)
    if args.json:
        about = {"machine": platform.machine(), "cpus": os.cpu_count(), "python": platform.python_version()}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"about": about, "rows": rows}, file, indent=1)
            file.write("\n")
    return 1 if is_slow else 0


if __name__ == "__main__":
    sys.exit(main())
