#!/usr/bin/env python3
"""Compares `view --tsp` with what the tests of Trace Compass expect of its own server's analyses.

    conformance/tsp/trace_compass.py PROGRAM TRACECOMPASS TEST-TRACES

TRACECOMPASS is a clone of eclipse-tracecompass/org.eclipse.tracecompass, TEST-TRACES one of tracecompass-test-traces. Expected
values are read from there, or stand here where theirs stand in code. Traces with absent files are left out, and said so. Compared:

    events     the events of every trace that `CtfTestTrace` lists; it counts discarded events, too
    states     states of threads (`lttng_kernel_analysis.xml`, `sched_only.xml`), and who runs on a CPU after whom, their arrows
    CPU        the time of threads on CPUs (`cpu_analysis.xml`)
    latencies  of system calls, by name (`bug446190`)
"""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import xml.etree.ElementTree

LINUX = "analysis/org.eclipse.tracecompass.analysis.os.linux.core.tests/testfiles"
GRAPH = "lttng/org.eclipse.tracecompass.lttng2.kernel.core.tests/testfiles/graph"
LISTED = "ctf/src/main/java/org/eclipse/tracecompass/testtraces/ctf/CtfTestTrace.java"
CTF = "ctf/src/main/resources"

wrong = 0


def compare(what, own, theirs):
    global wrong
    is_same = own == theirs
    wrong += not is_same
    print(f"{'ok' if is_same else 'WRONG':7} {what}{'' if is_same else f': {own}, not {theirs}'}")


class Server:
    """The server, and an experiment of one trace at a time."""

    def __init__(self, program, folders):
        words = [program, "view", "--tsp=0", "--no-cache", *folders]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()
        self.trace, self.experiment = None, None

    def ask(self, method, path, **parameters):
        body = json.dumps({"parameters": parameters}).encode() if method == "POST" else None
        request = urllib.request.Request(self.address + path, body, {"Content-Type": "application/json"}, method=method)
        return json.load(urllib.request.urlopen(request))

    def model(self, kind, output, what, **parameters):
        while True:
            answer = self.ask("POST", f"/experiments/{self.experiment['UUID']}/outputs/{kind}/{output}/{what}", **parameters)
            if answer["status"] != "RUNNING":
                return answer["model"]
            time.sleep(0.02)

    def open(self, path):
        if self.experiment:
            self.ask("DELETE", f"/experiments/{self.experiment['UUID']}")
            self.ask("DELETE", f"/traces/{self.trace['UUID']}")
        self.trace = self.ask("POST", "/traces", uri=str(path))
        self.experiment = self.ask("POST", "/experiments", name=str(path), traces=[self.trace["UUID"]])
        while self.experiment["indexingStatus"] != "COMPLETED":
            time.sleep(0.02)
            self.experiment = self.ask("GET", f"/experiments/{self.experiment['UUID']}")

    def rows(self, output):
        """Pieces (begin, end, label) by the labels of a row. There are no more samples than a trace of the tests has ns."""
        tree = self.model("timeGraph", output, "tree")["entries"]
        of = {entry["id"]: tuple(entry["labels"]) for entry in tree if entry.get("hasData", True)}
        begin, end = self.experiment["start"], self.experiment["end"]
        span = {"start": begin, "end": end, "nbTimes": min(end - begin + 1, 65536)}
        states = self.model("timeGraph", output, "states", requested_timerange=span, requested_items=list(of))
        pieces = lambda row: [(state["start"], state["end"], state["label"]) for state in row["states"]]
        return {of[row["entryId"]]: pieces(row) for row in states["rows"]}


def lines_of(path, out):
    """The events of a trace of their tests, which is XML, as JSON lines."""
    with open(out, "w", encoding="utf8") as file:
        for event in xml.etree.ElementTree.parse(path).getroot().iter("event"):
            fields = {
                field.get("name"): field.get("value") if field.get("type") == "string" else int(field.get("value"))
                for field in event
            }
            ns = int(event.get("timestamp"))
            head = {"ns": ns, "cycles": ns, "name": event.get("name"), "stream": 0}
            if "cpu" in fields:
                head["cpu"] = fields.pop("cpu")
            file.write(json.dumps({**head, "payload": fields}) + "\n")
    return out


# Traces whose discarded events are in the count of Trace Compass; ours reports them as losses.
DISCARDED = {"HELLO_LOST": 967_700, "DYNSCOPE": 1_000}


def counts(server, traces):
    listed = (traces / LISTED).read_text()
    for name, path, count in re.findall(r'^    (\w+)\("/([^"]+)", (\d+), \d+\)', listed, re.MULTILINE):
        folder = traces / CTF / path
        files = (file for file in folder.rglob("*") if file.is_file())
        if not any(file.name != "metadata" and file.parent.name != "index" for file in files):
            print(f"absent  {name}")
            continue
        server.open(folder)
        compare(f"events of {name}", server.experiment["nbEvents"] + DISCARDED.get(name, 0), int(count))


# Their words for our states. Threads that a dump lists as the kernel's are in user mode there; a wait is of any kind.
WORDS = {"Usermode": ["user", "kernel"], "System call": ["system call"], "Wait for CPU": ["runnable", "new"]}
# Where ours say more: a thread that exits is `exiting` in its last system call, and a `zombie` until it is reaped.
MORE = {("proc30", at) for at in range(57, 81)}


def states(server, compass):
    """Every ns of every thread."""
    folder = compass / LINUX / "kernel_analysis"
    tree = [line.split(",") for line in (folder / "expectedThreadStatusTree").read_text().splitlines()][1:]
    own = {labels[0].rsplit(" ", 1)[0]: (labels, pieces) for labels, pieces in server.rows("threads").items()}
    compare("threads", [(name, labels[1]) for name, (labels, _) in own.items()], [(line[0], line[3]) for line in tree])
    for line in (folder / "expectedThreadStatusRows").read_text().splitlines():
        name, listed = line.split(":")
        listed = listed.split(",")
        differing = []
        for begin, duration, word in zip(map(int, listed[::4]), map(int, listed[1::4]), listed[2::4]):
            # The last ns is that of the last event, after which ours knows nothing.
            for at in range(begin, min(begin + duration, 80)):
                piece = next((label for begin, end, label in own[name][1] if begin <= at < end), None)
                # A number is no state at all. The file ends the list of one thread before its last system call.
                fits = [None] if word.startswith("-") else WORDS.get(word, ["blocked"])
                if piece not in fits and (name, at) not in MORE and not (name == "tid11" and 71 <= at):
                    differing.append((at, piece, word))
        compare(f"states of {name}", differing, [])
    # Their arrows lead from the thread that leaves a CPU to the next one; ours to threads that were woken.
    lines = (folder / "expectedThreadStatusArrows").read_text().splitlines()
    theirs = {tuple(line.split(",")[:3]) for line in lines if line.split(",")[2] != "80"}
    arrows = set()
    for labels, pieces in server.rows("cpus").items():
        if labels[0].endswith("threads"):
            name = lambda piece: piece[2].rsplit(" ", 1)[0]
            arrows |= {(name(a), name(b), str(b[0])) for a, b in zip(pieces, pieces[1:])}
    compare("arrows from thread to thread of a CPU", arrows, theirs)


def states_without_calls(server):
    """Who runs, waits for a CPU or for something else, as the vertices of their graph have it."""
    of = {"1": [(10, 20, "runnable"), (20, 30, "unknown"), (30, 40, "runnable")]}
    of["2"] = [(10, 20, "unknown"), (20, 30, "blocked"), (30, 40, "unknown")]
    compare("states of a graph", {labels[1]: pieces for labels, pieces in server.rows("threads").items()}, of)


# By range: the ns that threads ran on CPUs, as `CpuUsageStateProviderTest` has them. What ran before the first switch of a CPU is
# what that switch ends for Trace Compass; for us it is unknown. So ranges begin at the first switches.
CPU_TIMES = {
    (2, 25): {("0", "2"): 18, ("0", "3"): 5, ("1", "1"): 5, ("1", "3"): 5, ("1", "4"): 13},
    (22, 25): {("0", "3"): 3, ("1", "4"): 3},
    (4, 13): {("0", "2"): 9, ("1", "3"): 5, ("1", "4"): 4},
}


def cpu_times(server):
    rows = {labels[0].split(" ")[1]: pieces for labels, pieces in server.rows("cpus").items() if labels[0].endswith("threads")}
    for (begin, end), theirs in CPU_TIMES.items():
        own = {}
        for cpu, pieces in rows.items():
            for piece in pieces:
                ran = min(piece[1], end) - max(piece[0], begin)
                if ran > 0:
                    key = (cpu, piece[2].rsplit(" ", 1)[1])
                    own[key] = own.get(key, 0) + ran
        compare(f"CPU times from {begin} to {end}", own, theirs)


# Count, shortest, longest, mean and standard deviation as their view rounds them: three digits after the point of the unit.
LATENCIES = {
    "Total": ("1801", "1 µs", "5.904 s", "15.628 ms", "175.875 ms"),
    "select": ("58", "13.6 µs", "1.509 s", "192.251 ms", "386.369 ms"),
    "poll": ("2", "6.3 µs", "6.8 µs", "6.55 µs", None),
    "set_tid_address": ("1", "2.3 µs", "2.3 µs", "2.3 µs", None),
    "pipe": ("2", "27.9 µs", "29.7 µs", "28.8 µs", None),
}


def rounded(ns):
    ns = float(ns)
    unit, scale = ("s", 1e9) if ns >= 1e9 else ("ms", 1e6) if ns >= 1e6 else ("µs", 1e3) if ns >= 1e3 else ("ns", 1)
    return f"{ns / scale:.3f}".rstrip("0").rstrip(".") + f" {unit}"


def latencies(server):
    span = {"start": server.experiment["start"], "end": server.experiment["end"]}
    tree = server.model("data", "system-call-statistics", "tree", requested_timerange=span)
    compare("columns", [header["name"] for header in tree["headers"]][:2], ["Name", "Count"])
    rows = {}
    for entry in tree["entries"]:
        # The rows of the range, which is all of it here, are not needed.
        if entry["hasData"]:
            rows.setdefault(entry["labels"][0], entry["labels"][1:])
    compare("names of system calls", len(rows), 55)
    numbers = {name: list(map(float, row)) for name, row in rows.items()}
    counts, totals, least, most, means, deviations = zip(*numbers.values())
    squares = sum(count * (mean**2 + deviation**2) for count, mean, deviation in zip(counts, means, deviations))
    count, total = sum(counts), sum(totals)
    deviation = math.sqrt(squares / count - (total / count) ** 2)
    numbers["Total"] = [count, total, min(least), max(most), total / count, deviation]
    for name, theirs in LATENCIES.items():
        count, _, least, most, mean, deviation = numbers[name]
        # Theirs is the deviation of a sample, ours that of all calls.
        deviation = rounded(deviation * math.sqrt(count / (count - 1))) if count > 2 else None
        compare(f"latencies of {name}", (f"{count:.0f}", rounded(least), rounded(most), rounded(mean), deviation), theirs)


if __name__ == "__main__":
    program, compass, traces = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        server = Server(program, [scratch, traces / CTF])
        made = lambda path: server.open(lines_of(compass / path, scratch / (pathlib.Path(path).stem + ".jsonl")))
        made(f"{LINUX}/kernel_analysis/lttng_kernel_analysis.xml")
        states(server, compass)
        made(f"{GRAPH}/sched_only.xml")
        states_without_calls(server)
        made(f"{LINUX}/cpu_analysis.xml")
        cpu_times(server)
        server.open(traces / CTF / "bug446190")
        latencies(server)
        counts(server, traces)
        server.process.kill()
    print("all is the same" if wrong == 0 else f"{wrong} differ")
    sys.exit(wrong > 0)
