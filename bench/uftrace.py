#!/usr/bin/env python3
"""Measures the commands that follow calls, with uftrace beside them in the same run.

    bench/uftrace.py PROGRAM FOLDER [--runs N] [--range BEGIN~END] [--json FILE]

FOLDER is one that bench/record/record-uftrace.sh made. CPU seconds are those of the process, user and system, the least
of the runs, which alternate between both programs; output goes to /dev/null. `RssAnon` is the largest private memory that
was seen while the program ran. `report` is measured on a short stretch of time too: that of --range (uftrace's `-r`, as
`100ms~101ms`), or a millisecond in the middle of the recording. A run of that takes less than the clock of processes can
tell, so it is the mean of --short-runs runs of both programs, not the least.
"""
import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time

COMMANDS = ["report", "replay", "graph", "dump", "dump --chrome", "dump --flame-graph"]


def private_kib(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def run(command):
    """CPU seconds, the most private memory in KiB, and the exit status."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime, most, process.returncode
        most = max(most, private_kib(process.pid))
        time.sleep(0.002)


def records(folder):
    files = [name for name in os.listdir(folder) if name.endswith(".dat") and name[0].isdigit()]
    return sum(os.path.getsize(os.path.join(folder, name)) for name in files) // 16


def middle(folder):
    """A millisecond in the middle of the recording, counted from the first record."""
    with open(os.path.join(folder, "info"), "rb") as file:
        found = re.search(rb"^elapsed_time:([0-9.]+)", file.read(), re.MULTILINE)
    half = float(found.group(1)) / 2 if found else 0.001
    # Three digits before the point and three after it.
    return f"{half:.3f}s~{half + 0.001:.3f}s" if half >= 0.9 else f"{half * 1e3:.3f}ms~{half * 1e3 + 1:.3f}ms"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--range")
    parser.add_argument("--short-runs", type=int, default=25)
    parser.add_argument("--json")
    args = parser.parse_args()
    count = records(args.folder)
    rows = []
    commands = [command.split() for command in COMMANDS]
    commands.append(["report", "-r", args.range or middle(args.folder)])
    print(f"{count} records of 16 bytes")
    print(f"{'':22} {'uftrace':>9} {'tracemill':>9} {'':>6} {'ns/record':>9} {'RssAnon':>9} {'RssAnon':>9}")
    print(f"{'':22} {'s':>9} {'s':>9} {'times':>6} {'tracemill':>9} {'uftrace':>9} {'tracemill':>9}")
    for words in commands:
        peer = ["uftrace", words[0], "--no-pager", "-d", args.folder, *words[1:]]
        own = [args.program, words[0], "-d", args.folder, *words[1:]]
        is_short = "-r" in words
        seconds = {"uftrace": [], "tracemill": []}
        memory = {"uftrace": 0, "tracemill": 0}
        failed = False
        for _ in range(args.short_runs if is_short else args.runs):
            for name, command in (("uftrace", peer), ("tracemill", own)):
                taken, most, status = run(command)
                failed |= status != 0
                seconds[name].append(taken)
                memory[name] = max(memory[name], most)
        title = " ".join(words[:2])
        if failed:
            print(f"{title:22} one of the programs failed")
            continue
        theirs, ours = (sum(all) / len(all) if is_short else min(all) for all in seconds.values())
        their_memory, our_memory = memory.values()
        print(f"{title:22} {theirs:9.4f} {ours:9.4f} {theirs / max(ours, 1e-4):6.2f} {ours / count * 1e9:9.1f} "
              f"{their_memory / 1024:6.1f} MB {our_memory / 1024:6.1f} MB", flush=True)
        rows.append({"command": " ".join(words), "of_runs": "mean" if is_short else "least", "runs": len(seconds["uftrace"]),
                     "uftrace_s": theirs, "tracemill_s": ours,
                     "uftrace_private_kib": their_memory, "tracemill_private_kib": our_memory})
    if args.json:
        version = subprocess.run(["uftrace", "--version"], capture_output=True, text=True, check=False).stdout.strip()
        host = {"machine": platform.machine(), "kernel": platform.release(), "processors": os.cpu_count()}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"date": time.strftime("%Y-%m-%d"), "host": host, "uftrace": version, "records": count,
                       "rows": rows}, file, indent=1)
            file.write("\n")


sys.exit(main())
