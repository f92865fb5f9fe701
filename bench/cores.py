#!/usr/bin/env python3
"""Measures two jobs against one, with babeltrace2 and uftrace beside them in the same run.

    bench/cores.py PROGRAM --ctf FOLDER [--calls FOLDER] [--runs N] [--peer-runs N] [--only ROWS] [--json FILE]

The CTF trace is one of `cargo run --release -p tracemill-bench --bin kernel_trace OUT 20_000_000 2`, of two streams; the
recording of calls one of bench/record/record-uftrace.sh. Elapsed seconds are medians of the runs, which alternate between
one job and two; output goes to /dev/null or to a folder that is removed. `twins` is half of what two processes of one job take
that run at once, as a part of what one takes alone: at that moment, on that machine, two threads that share all of the work
could hardly be quicker. `busiest` is the CPU time of the thread that has most of it, as a part of the CPU time of one job, with
two jobs and with --many: the ratio can be no less on as many processors. It comes from runs of its own, as looking at the
threads of a process takes time of a processor. The peers are measured less often, as they take long. Rows that FILE has of an
earlier run stay, unless they are measured again.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TRACE, CALLS, OUT = "TRACE", "CALLS", "OUT"

# Name, arguments, arguments of the peer, and the ratio that is wanted.
ROWS = [
    ("count", ["info", "--count", TRACE], ["babeltrace2", "-o", "dummy", TRACE], 0.58),
    ("text", ["print", TRACE], ["babeltrace2", TRACE], 0.58),
    ("filter on a field", ["print", "--filter", "payload.tid == 1007", TRACE], None, 0.58),
    ("filter by name, few hits", ["print", "--filter", 'name == "sched_process_exit"', TRACE], None, 0.58),
    ("check", ["check", TRACE], None, 0.58),
    ("report --state", ["report", "--state", "sched_switch", "--by", "cpu", TRACE], None, 0.58),
    ("report --from --to", ["report", "--from", "irq_handler_entry", "--to", "irq_handler_exit", "--by", "payload.irq", TRACE],
     None, 0.58),
    ("CTF 2 anew", ["convert", "--to", "ctf2", "--byte-order", "big", "-o", OUT, TRACE],
     ["babeltrace2", "-o", "ctf", "-w", OUT, TRACE], 0.58),
    ("calls: report", ["report", "-d", CALLS], ["uftrace", "report", "--no-pager", "-d", CALLS], 0.65),
    ("calls: graph", ["graph", "-d", CALLS], ["uftrace", "graph", "--no-pager", "-d", CALLS], 0.65),
]


def threads(pid):
    """CPU nanoseconds of each thread of a process."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                yield task, int(file.read().split()[0])
        except OSError:
            pass


def run(command, watches=False):
    """Elapsed and CPU seconds, those of the busiest thread where it `watches`, and the exit status."""
    begin, most = time.perf_counter(), {}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not watches:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, 0.0, process.returncode
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            elapsed = time.perf_counter() - begin
            return elapsed, usage.ru_utime + usage.ru_stime, max(most.values(), default=0) / 1e9, process.returncode
        most.update(threads(process.pid))
        time.sleep(0.003)


def run_twins(commands):
    """Half of the elapsed seconds of commands that run at once."""
    begin = time.perf_counter()
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
    statuses = [process.wait() for process in processes]
    return (time.perf_counter() - begin) / len(commands), 0.0, 0.0, max(statuses, key=abs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--ctf")
    parser.add_argument("--calls")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer-runs", type=int, default=1)
    parser.add_argument("--many", type=int, default=8)
    parser.add_argument("--only", help="names of rows, separated by commas")
    parser.add_argument("--json")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="tracemill-cores-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    out = os.path.join(folder, "out")
    places = {TRACE: args.ctf, CALLS: args.calls, OUT: out}
    rows = []
    print(f"{'':26} {'1 job':>8} {'2 jobs':>8} {'ratio':>6} {'wanted':>6} {'twins':>6} {'busiest':>8} {'of many':>8} "
          f"{'peer':>8} {'times':>6}")
    try:
        for name, own, peer, wanted in ROWS:
            if any(places[word] is None for word in own if word in places):
                continue
            if args.only and name not in args.only.split(","):
                continue
            fill = lambda words: [places.get(word) or word for word in words]
            found, twins, load = {1: [], 2: []}, [], os.getloadavg()[0]
            for _ in range(args.runs):
                for jobs, all_runs in found.items():
                    all_runs.append(run([args.program, *fill(own), "--jobs", str(jobs)]))
                    shutil.rmtree(out, ignore_errors=True)
                words = fill(own)
                other = [word if word != out else out + "2" for word in words]
                twins.append(run_twins([[args.program, *words, "--jobs", "1"] for words in (words, other)]))
                for place in (out, out + "2"):
                    shutil.rmtree(place, ignore_errors=True)
            watched = {2: [], args.many: []}
            for jobs, all_runs in watched.items():
                for _ in range(min(args.runs, 3)):
                    all_runs.append(run([args.program, *fill(own), "--jobs", str(jobs)], watches=True))
                    shutil.rmtree(out, ignore_errors=True)
            of_peer = []
            for _ in range(args.peer_runs if peer else 0):
                of_peer.append(run(fill(peer)))
                shutil.rmtree(out, ignore_errors=True)
            if any(status != 0 for *_, status in found[1] + found[2] + twins + sum(watched.values(), of_peer)):
                print(f"{name:26} one of the programs failed")
                continue
            median = lambda runs, at: statistics.median(run[at] for run in runs)
            one, two = median(found[1], 0), median(found[2], 0)
            busiest, of_many = (median(runs, 2) / median(found[1], 1) for runs in watched.values())
            theirs = median(of_peer, 0) if of_peer else None
            beside = f"{theirs:8.2f} {theirs / one:6.1f}" if theirs else f"{'':8} {'':6}"
            print(f"{name:26} {one:8.3f} {two:8.3f} {two / one:6.2f} {wanted:6.2f} {median(twins, 0) / one:6.2f} {busiest:8.2f} {of_many:8.2f} "
                  f"{beside}", flush=True)
            rows.append({"row": name, "wanted": wanted, "load": load,
                         "one_job": [found[:2] for found in found[1]], "two_jobs": [found[:2] for found in found[2]],
                         "twins": [found[0] for found in twins],
                         "busiest": [[jobs, *found[1:3]] for jobs, runs in watched.items() for found in runs],
                         "peer": [found[:2] for found in of_peer]})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        host = {"machine": platform.machine(), "kernel": platform.release(), "processors": os.cpu_count()}
        if os.path.exists(args.json):
            with open(args.json, encoding="utf-8") as file:
                measured = [row["row"] for row in rows]
                rows = [row for row in json.load(file)["rows"] if row["row"] not in measured] + rows
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"date": time.strftime("%Y-%m-%d"), "host": host, "columns": ["elapsed_s", "cpu_s"],
                       "columns_of_busiest": ["jobs", "cpu_s", "busiest_thread_s"], "rows": rows}, file, indent=1)
            file.write("\n")


sys.exit(main())
