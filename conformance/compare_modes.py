#!/usr/bin/env python3
"""Compares the answers of queries that are run in different ways.

    conformance/compare_modes.py PROGRAM DIR... [--only TEXT] [--modes NAME,...]

A query is NAME.sql: lines `-- trace: PATH` (relative to its folder), `-- args: ..`, `-- order: rows`, then SQL. It is run
with one job, with eight, on a cluster inside of the program, and on one of a scheduler and two executors, which are started
here: rows (in any order unless `order: rows`), status, and what stderr says must be those of one job. A program without the
feature `distributed` is run with one job and with eight.
"""

import argparse
import csv
import io
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import time

csv.field_size_limit(1 << 30)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Cluster:
    """A scheduler and two executors."""

    def __init__(self, program, jobs=2):
        self.processes = []
        port = free_port()
        self.address = f"df://127.0.0.1:{port}"
        self.start(program, "scheduler", "--bind", f"127.0.0.1:{port}")
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if self.processes[0].poll() is not None:
                raise SystemExit("the scheduler ends")
            time.sleep(0.05)
        for _ in range(2):
            address = f"127.0.0.1:{free_port()}"
            self.start(program, "executor", "--scheduler", f"127.0.0.1:{port}", "--bind", address, "--jobs", str(jobs))

    def start(self, program, *words):
        quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
        self.processes.append(subprocess.Popen([program, "cluster", *words], **quiet))

    def end(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def read(path):
    """Traces, arguments, whether rows are in order, and the SQL of a query."""
    traces, words, is_ordered, sql = [], [], False, []
    for line in path.read_text(encoding="utf-8").split("\n"):
        head = re.match(r"-- (trace|args|order|status): (.*)", line)
        if not head:
            sql.append(line)
        elif head[1] == "trace":
            traces.append(head[2])
        elif head[1] == "args":
            words = shlex.split(head[2])
        elif head[1] == "order":
            is_ordered = head[2] == "rows"
    return traces, words, is_ordered, "\n".join(sql).strip()


def cell(text):
    """A cell, with fractions as far as the order of sums does not change them."""
    try:
        number = float(text)
    except ValueError:
        return text
    return text if re.fullmatch(r"[+-]?\d+", text) else f"{number:.9g}"


def answer(program, path, more):
    traces, words, is_ordered, sql = read(path)
    command = [program, "sql", *traces, "--format", "csv", *words, *more, "-c", sql]
    try:
        run = subprocess.run(command, cwd=path.parent, capture_output=True, timeout=300, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "it does not end"
    rows = [tuple(map(cell, row)) for row in csv.reader(io.StringIO(run.stdout.decode("utf-8"), newline=""))]
    head, rows = rows[:1], rows[1:]
    # The order in which damage is met is that of threads.
    said = sorted(run.stderr.decode("utf-8", "replace").split("\n"))
    if "panicked" in run.stderr.decode("utf-8", "replace"):
        return f"it breaks off: {said}"
    return {"status": run.returncode, "header": head, "rows": rows if is_ordered else sorted(rows), "stderr": said}


def difference(want, have):
    if isinstance(have, str) or isinstance(want, str):
        return None if want == have else str(have if isinstance(have, str) else want)
    for key in want:
        if want[key] == have[key]:
            continue
        if key == "rows" and len(want[key]) == len(have[key]):
            row, other = next((a, b) for a, b in zip(want[key], have[key]) if a != b)
            return f"a row {row} is {other}"
        if key == "rows":
            return f"{len(have[key])} rows, not {len(want[key])}"
        return f"{key} {have[key]}, not {want[key]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--modes", default="jobs 8,standalone,cluster")
    args = parser.parse_args()
    program = str(pathlib.Path(args.program).resolve())
    modes = {"jobs 8": ["--jobs", "8"]}
    cluster = None
    lacks = subprocess.run([program, "cluster", "scheduler", "--bind", "127.0.0.1:0x"], capture_output=True)
    has_clusters = b"--features distributed" not in lacks.stderr
    try:
        if has_clusters and "standalone" in args.modes:
            modes["standalone"] = ["--cluster", "standalone", "--jobs", "2"]
        if has_clusters and "cluster" in args.modes.split(","):
            cluster = Cluster(program)
            modes["cluster"] = ["--cluster", cluster.address]
        if "jobs 8" not in args.modes:
            del modes["jobs 8"]
        passed = failed = 0
        for path in sorted(path for folder in args.folders for path in folder.rglob("*.sql")):
            if args.only not in path.stem:
                continue
            want = answer(program, path.resolve(), ["--jobs", "1"])
            for mode, words in modes.items():
                why = difference(want, answer(program, path.resolve(), words))
                if why:
                    print(f"FAIL {path.stem}, {mode}: {why[:900]}")
                    failed += 1
                else:
                    passed += 1
    finally:
        if cluster:
            cluster.end()
    print(f"{', '.join(modes)}: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
