#!/usr/bin/env python3
"""Measures queries beside other readers and other commands, in one run on one machine.

    bench/sql.py PROGRAM --trace FOLDER [--calls FOLDER] [--duckdb PYTHON] [--module PYTHON] [--bindings PYTHON]
                 [--small FOLDER] [--cluster PROGRAM] [--runs N] [--peer-runs N] [--only TEXT] [--json FILE]

FOLDER is a recording of `bench/record/record-ust.sh FOLDER 20000000`: two streams, six classes, of which `plant:tick` has 12
million events. PROGRAM is built with the feature `full`. PYTHON is an interpreter that has DuckDB, that has the module
`tracemill`, or that has babeltrace2's bindings; rows for which one is missing are left out. What is measured event by event in
Python is measured on the trace of --small, a recording of fewer events. Commands of a row alternate; figures are medians. CPU
time is that of the whole process with its children, unless a row says that it is elapsed time. Peers are run --peer-runs times,
as they take long. Output goes to /dev/null; tables for DuckDB go to a folder that is removed.
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

COUNT = "select count(*) from events"
BY_NAME = "select name, count(*) from events group by name"
MEAN = 'select avg(load) from "plant:tick"'
FEW = 'select count(*) from "plant:tick" where worker = 1 and load < 1000'
FEW_WORDS = 'name == "plant:tick" and payload.worker == 1 and payload.load < 1000'
SELF = "select name, sum(self) from calls group by name"
TIMES = "select min(ns) as begin, max(ns) as end_ns from events"

# These questions of DuckDB. Each class is a file of its own.
DUCK = {
    COUNT: "select sum(n) from (select count(*) n from read_parquet('{0}/*.parquet', union_by_name = true))",
    BY_NAME: "select parse_filename(filename), count(*) from read_parquet('{0}/*.parquet', union_by_name = true, "
             "filename = true) group by 1",
    MEAN: "select avg({load}) from read_parquet('{tick}')",
    FEW: "select count(*) from read_parquet('{tick}') where {worker} = 1 and {load} < 1000",
}
DUCK_RUN = "import duckdb, sys; duckdb.sql(sys.argv[1]).fetchall()"

NUMPY = """
import sys, time, tracemill
t = tracemill.open(sys.argv[1])
begin = time.process_time()
n = 0
for batch in t.sql('select ns, worker, seq, load from "plant:tick"').to_arrow().to_batches():
    for column in batch.columns:
        column.to_numpy(zero_copy_only=False)
    n += batch.num_rows
print((time.process_time() - begin) / n)
"""
EVENTS = """
import sys, time, tracemill
t = tracemill.open(sys.argv[1])
begin = time.process_time()
n = total = 0
for e in t.events("plant:tick"):
    total += e["worker"] + e["load"]
    n += 1
print((time.process_time() - begin) / n)
"""
BINDINGS_ALL = """
import bt2, sys, time
begin = time.process_time()
n = 0
for message in bt2.TraceCollectionMessageIterator(sys.argv[1]):
    if type(message) is bt2._EventMessageConst and message.event.name == "plant:tick":
        event = message.event
        values = message.default_clock_snapshot.ns_from_origin, [(k, v) for k, v in event.payload_field.items()]
        n += 1
print((time.process_time() - begin) / n)
"""
BINDINGS_TWO = """
import bt2, sys, time
begin = time.process_time()
n = total = 0
for message in bt2.TraceCollectionMessageIterator(sys.argv[1]):
    if type(message) is bt2._EventMessageConst and message.event.name == "plant:tick":
        total += int(message.event["worker"]) + int(message.event["load"])
        n += 1
print((time.process_time() - begin) / n)
"""


class Bench:
    def __init__(self, args):
        self.args = args
        self.rows = []
        self.failed = []

    def run(self, command):
        """Elapsed and CPU seconds."""
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"{command[:2]} .. {command[-1][:200]}: status {process.returncode}: {said[-400:]!r}")
        return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime

    def told(self, command):
        """The seconds that a program says."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        return (float(done.stdout), float(done.stdout))

    def row(self, name, own, other, goal, elapsed=False, told=False, peer=False, plus=0.0, add=None):
        """Measures a command against another one; the ratio should be at most `goal`. `add` is a time the other one has too."""
        if self.args.only and not any(text in name for text in self.args.only.split(",")):
            return
        measure = self.told if told else self.run
        runs = {"own": [], "other": []}
        try:
            for at in range(self.args.runs):
                runs["own"].append(measure(own))
                if not peer or at < self.args.peer_runs:
                    runs["other"].append(measure(other))
        except (RuntimeError, subprocess.CalledProcessError) as error:
            self.failed.append(name)
            print(f"{name:58} {error}", flush=True)
            return
        at = 0 if elapsed else 1
        mine, theirs = (statistics.median(run[at] for run in runs[key]) for key in ("own", "other"))
        theirs += add or 0.0
        ratio = (mine - plus) / theirs
        is_met = goal is None or ratio <= goal
        wanted = "" if goal is None else f"{goal:6.2f}"
        print(f"{name:58} {mine:10.4g} {theirs:10.4g} {ratio:7.3f} {wanted:>6} {'' if is_met else 'missed'}", flush=True)
        self.rows.append({"row": name, "goal": goal, "elapsed": elapsed, "own": runs["own"], "other": runs["other"],
                          "added": add, "less": plus, "ratio": ratio})

    def least(self, name, own, most, than=None):
        """Elapsed seconds of a command, or what it takes longer than another one."""
        if self.args.only and not any(text in name for text in self.args.only.split(",")):
            return
        runs, others = [], []
        for _ in range(max(self.args.runs, 5) * 3):
            runs.append(self.run(own)[0])
            others.append(self.run(than)[0] if than else 0.0)
        more = statistics.median(runs) - statistics.median(others)
        print(f"{name:58} {more * 1e3:7.1f} ms {'':23} {most * 1e3:5.0f} {'' if more <= most else 'missed'}", flush=True)
        self.rows.append({"row": name, "most_s": most, "own": runs, "other": others if than else None})


def queries(bench, program, trace):
    def sql(text, *more):
        return [program, "sql", trace, *more, "-c", text]

    def answer(text):
        done = subprocess.run([program, "sql", "--format", "jsonl", trace, "-c", text], capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout).values())

    count = [program, "info", "--count", "--jobs", "1", trace]
    one = ("--jobs", "1")
    bench.row("count(*): info --count", sql(COUNT, *one), count, 1.2)
    bench.row("count(*), elapsed: 2 jobs to 1", sql(COUNT, "--jobs", "2"), sql(COUNT, *one), 0.6, elapsed=True)
    bench.row("group by name: info --count", sql(BY_NAME, *one), count, 3.0)
    bench.row("avg(load): info --count", sql(MEAN, *one), count, 2.0)
    printed = [program, "print", "--jobs", "1", "--filter", FEW_WORDS, trace]
    bench.row("a filter on two fields: print --filter", sql(FEW, *one), printed, 0.5)
    # Events do not come evenly: of nineteen such times, the one with the median number of events.
    begin, end = answer(TIMES)
    part = (end - begin) // 100
    times = [begin + (end - begin) * place // 20 for place in range(1, 20)]
    parts = [f"select count(*) from events where ns >= {time} and ns < {time + part}" for time in times]
    within = sorted((answer(text), text) for text in parts)[len(parts) // 2][1]
    bench.row("where ns in 1 %: count(*)", sql(within, *one), sql(COUNT, *one), 0.03)
    bench.row("order by ns limit 10: count(*)", sql("select ns from events order by ns limit 10", *one), sql(COUNT, *one), 0.05)
    bench.row("limit 10: count(*)", sql("select * from events limit 10", *one), sql(COUNT, *one), 0.05)
    bench.least("start: select 1 without a trace", [program, "sql", "-c", "select 1"], 0.040)
    bench.least("start: select 1 with the trace, more than info", sql("select 1"), 0.010, [program, "info", trace])


def calls(bench, program, folder):
    own = [program, "sql", folder, "--jobs", "1", "-c", SELF]
    bench.row("calls: sum(self) by name: report", own, [program, "report", "--jobs", "1", "-d", folder], 1.5)


def tables(bench, program, trace, python, folder):
    """DuckDB over tables that `convert` makes."""
    where = os.path.join(folder, "parquet")
    made = bench.run([program, "convert", "--to", "parquet", "-o", where, trace])[1]
    print(f"{'convert --to parquet, for DuckDB: CPU seconds':58} {made:10.4g}")
    files = [os.path.join(base, name) for base, _, names in os.walk(where) for name in names if name.endswith(".parquet")]
    tick = next(path for path in files if "tick" in os.path.basename(path))
    column = {name: f'payload."{name}"' for name in ("load", "worker")}
    for name, text in (("count(*)", COUNT), ("group by name", BY_NAME), ("avg(load)", MEAN), ("a filter on two fields", FEW)):
        asked = DUCK[text].format(os.path.dirname(tick), tick=tick, **column)
        own = [program, "sql", trace, "--jobs", "2", "-c", text]
        bench.row(f"{name}: DuckDB, with the tables made", own, [python, "-c", DUCK_RUN, asked], 0.2, add=made)
        bench.row(f"{name}: DuckDB, tables that are there", own, [python, "-c", DUCK_RUN, asked], None)


def readers(bench, program, trace):
    peer = ["babeltrace2", "-o", "dummy", trace]
    for name, text, goal in (("count(*)", COUNT, 0.1), ("group by name", BY_NAME, 0.2), ("avg(load)", MEAN, 0.2),
                             ("a filter on two fields", FEW, 0.2)):
        bench.row(f"{name}: babeltrace2 -o dummy", [program, "sql", trace, "--jobs", "1", "-c", text], peer, goal, peer=True)


def python(bench, module, bindings, trace, small):
    """Times of one event. Of the large trace each class comes at once: what Python imports once would hide a small one."""
    bench.row("Python: a class to numpy, an event: bindings", [module, "-c", NUMPY, trace], [bindings, "-c", BINDINGS_ALL, small],
              0.01, told=True, peer=True)
    bench.row("Python: events with two fields: bindings", [module, "-c", EVENTS, small], [bindings, "-c", BINDINGS_TWO, small],
              0.1, told=True, peer=True)


def cluster(bench, program, trace):
    """One scheduler and two executors; the executors have a job each."""
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "conformance"))
    from compare_modes import Cluster
    there = Cluster(program, jobs=1)
    try:
        asked = ["--jobs", "2", "-c", 'select worker, avg(load), count(distinct seq % 1000) from "plant:tick" group by worker']
        own = [program, "sql", "--cluster", there.address, trace, *asked]
        # Its executors open the trace once.
        bench.run(own)
        bench.row("a cluster of 2 executors, elapsed less 0.3 s: embedded", own, [program, "sql", trace, *asked], 1.5,
                  elapsed=True, plus=0.3)
    finally:
        there.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--trace")
    parser.add_argument("--calls")
    parser.add_argument("--duckdb")
    parser.add_argument("--module")
    parser.add_argument("--bindings")
    parser.add_argument("--small")
    parser.add_argument("--cluster")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer-runs", type=int, default=1)
    parser.add_argument("--peers", choices=["yes", "no"], default="yes")
    parser.add_argument("--only")
    parser.add_argument("--json")
    args = parser.parse_args()
    bench, load = Bench(args), os.getloadavg()[0]
    folder = tempfile.mkdtemp(prefix="tracemill-sql-")
    print(f"{'':58} {'own, s':>10} {'other, s':>10} {'ratio':>7} {'goal':>6}")
    try:
        if args.trace:
            queries(bench, args.program, args.trace)
            if args.peers == "yes" and shutil.which("babeltrace2"):
                readers(bench, args.program, args.trace)
            if args.duckdb:
                tables(bench, args.program, args.trace, args.duckdb, folder)
        if args.calls:
            calls(bench, args.program, args.calls)
        if args.small and args.module and args.bindings:
            python(bench, args.module, args.bindings, args.trace, args.small)
        if args.cluster:
            cluster(bench, args.cluster, args.trace)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        host = {"machine": platform.machine(), "kernel": platform.release(), "processors": os.cpu_count(), "load": load}
        rows = bench.rows
        if os.path.exists(args.json):
            with open(args.json, encoding="utf-8") as file:
                measured = [row["row"] for row in rows]
                rows = [row for row in json.load(file)["rows"] if row["row"] not in measured] + rows
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"date": time.strftime("%Y-%m-%d"), "host": host, "columns": ["elapsed_s", "cpu_s"], "rows": rows}, file)
            file.write("\n")
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
