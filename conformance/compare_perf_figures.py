#!/usr/bin/env python3
"""Compares the analyses of kernel traces with the figures that perf computes from the same recordings.

    conformance/compare_perf_figures.py PROGRAM [FILE...]
    conformance/compare_perf_figures.py --can-record

Without files, a load is recorded six times for 0.2 s, which needs root and the kernel's tracepoints; `--can-record` only
says (by its exit status) whether that works here. Needs `perf` (Debian: linux-perf; written for 6.1). Of each file, what it has
the events for is compared:

- `perf sched timehist`: each row (time, CPU, thread, process, name, wait, delay, run time), and the summary of each thread;
- `perf sched latency`: delays of each thread, where the file has `sched_wakeup`;
- `perf lock contention`: waits of each thread, and of each kind of lock;
- `perf trace --summary`: system calls of each thread;
- `perf kwork report` and `latency`: runs and delays of soft interrupts and of works.

Figures that `docs/kernel.md` defines differently are computed from ours as perf defines them, and must then be the same. Rows that
only one of the two can know are counted. The last line is `N equal, M differ`, and the exit status 1 when a figure differs.
"""

import collections
import csv
import io
import json
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

SECONDS = 0.2
RECORDINGS = {
    "sched": ["sched", "record"],
    "wakeups": ["record", "-a", "-m", "4096", "-e", "sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new,sched:sched_stat_runtime"],
    "locks": ["lock", "record", "-m", "4096"],
    "locks-sched": ["record", "-a", "-g", "-m", "4096", "-e", "lock:contention_begin,lock:contention_end,sched:sched_switch,sched:sched_waking"],
    "syscalls": ["trace", "record", "-a", "-m", "8192"],
    "kwork": ["kwork", "-k", "irq,softirq,workqueue", "record", "-m", "4096"],
}
SHOWN = 5


# ---- A load ----------------------------------------------------------------------------------------------------------


def load(seconds):
    """Threads that share a lock, processes that share pipes and a file, sleeps, page faults, and short programs."""
    end = time.monotonic() + seconds
    goes_on = lambda: time.monotonic() < end
    lock = threading.Lock()

    def take_lock():
        while goes_on():
            with lock:
                sum(range(2000))
            time.sleep(0.0003)

    def touch_pages():
        while goes_on():
            with mmap.mmap(-1, 1 << 20) as pages:
                for at in range(0, 1 << 20, 4096):
                    pages[at] = 1

    def run_threads():
        threads = [threading.Thread(target=what) for what in [take_lock] * 4 + [touch_pages] * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def count():
        while goes_on():
            sum(range(20000))

    def sleep():
        while goes_on():
            time.sleep(0.002)

    def answer(source, sink):
        while goes_on():
            os.write(sink, b"x")
            os.read(source, 1)

    def write(file):
        while goes_on():
            os.pwrite(file, b"x" * 65536, 0)

    def shove(sink):
        while goes_on():
            os.write(sink, b"x" * 65536)

    def drain(source):
        while goes_on():
            os.read(source, 65536)

    here, there, shared = os.pipe(), os.pipe(), os.pipe()
    with tempfile.TemporaryFile() as file:
        works = [(run_threads,), (count,), (count,), (sleep,), (answer, here[0], there[1]), (answer, there[0], here[1])]
        works += [(write, file.fileno())] * 2 + [(shove, shared[1])] * 2 + [(drain, shared[0])] * 2
        children = []
        for work, *given in works:
            child = os.fork()
            if child == 0:
                work(*given)
                os._exit(0)
            children.append(child)
        os.write(here[1], b"x")
        while goes_on():
            subprocess.run(["true"])
            time.sleep(0.005)
        # Some wait for the others at a pipe.
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def record(name, folder):
    """A recording of the load."""
    path = os.path.join(folder, f"{name}.data")
    command = ["perf", *RECORDINGS[name], "-o", path, "--", sys.executable, __file__, "--load", str(SECONDS)]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
    if run.returncode != 0 or not os.path.exists(path):
        raise SystemExit(f"perf cannot record {name}: {run.stderr.strip()}")
    return path


def can_record():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "can.data")
        command = ["perf", "record", "-a", "-o", path, "-e", "sched:sched_switch,lock:contention_begin", "--", "true"]
        try:
            return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return False


# ---- Both programs ---------------------------------------------------------------------------------------------------


def perf(*words, path):
    words = [*words, "-f", "-i", path]
    # `perf lock` prints its tables as messages.
    run = subprocess.run(["perf", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=300)
    return run.stdout.splitlines()


class Comparison:
    """Figures of one file that are equal, that differ, and that only one of the programs can know."""

    def __init__(self, program, path):
        self.program, self.path = program, path
        self.equal, self.differ, self.apart = 0, 0, collections.Counter()
        # Threads of which a switch is missing, as perf does not record all of its own: for a time, their states are not known.
        self.broken = set()
        # Of each switch, by its time and CPU, the name of the thread that leaves; read when it is asked for.
        self.switch_names = None
        self.has_losses = any("LOST" in line for line in perf("report", "--stats", path=path))
        self.events = {line.strip() for line in perf("evlist", path=path)}

    def rows(self, *words):
        command = [self.program, "analyze", *words, "--format", "csv", self.path]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            raise SystemExit(run.stderr)
        return list(csv.DictReader(io.StringIO(run.stdout)))

    def events_called(self, *names):
        condition = " or ".join(f'name == "{name}"' for name in names)
        command = [self.program, "print", "-q", "--format", "jsonl", "--filter", condition, self.path]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        return [json.loads(line) for line in run.stdout.splitlines()]

    def check(self, what, theirs, ours):
        if theirs == ours:
            self.equal += 1
            return True
        self.differ += 1
        if self.differ <= SHOWN:
            print(f"    {what}: perf {theirs}, tracemill {ours}")
        return False


def number(text):
    return int(text) if text else None


def micros(ns):
    return None if ns is None else ns // 1000


def thousandths(text):
    """`1.234` as 1234."""
    return int(text.replace(".", ""))


# ---- perf sched timehist ---------------------------------------------------------------------------------------------

RUN = re.compile(
    r"^\s*(?P<s>\d+)\.(?P<us>\d{6}) \[(?P<cpu>\d+)\]\s+(?P<comm>.*?)(?:\[(?P<tid>-?\d+)(?:/(?P<pid>-?\d+))?\])?"
    r"\s+(?P<wait>\d+\.\d{3})\s+(?P<delay>\d+\.\d{3})\s+(?P<run>\d+\.\d{3})\s+(?P<state>\S)\s+next: .*\[(?P<next>-?\d+)(?:/-?\d+)?\]\s*$"
)
SUMMARY = re.compile(
    r"^\s*(?P<comm>.*?)\[(?P<tid>-?\d+)(?:/-?\d+)?\]\s+-?\d+\s+(?P<count>\d+)\s+(?P<total>[\d.]+)\s+(?P<min>[\d.]+)\s+(?P<avg>[\d.]+)"
    r"\s+(?P<max>[\d.]+)\s+[\d.]+\s+\d+\s*$"
)
# perf does not know the thread of an event that comes after its exit.
EXITED = -1


def is_same_name(perfs, ours):
    """Workers of the kernel are called by their work in /proc, which perf reads; the event of a switch has the name alone."""
    return perfs == ours or perfs.startswith("kworker/") and ours.startswith("kworker/")


def compare_names(of, what, perfs, own):
    """perf has the names of its records; what the kernel says at the switch itself is newer."""
    if is_same_name(perfs, own["comm"]):
        return of.check(what, perfs, perfs)
    if of.switch_names is None:
        of.switch_names = {(event["ns"], event["cpu"]): event["payload"]["prev_comm"] for event in of.events_called("sched_switch")}
    if of.switch_names.get((int(own["out_ns"]), int(own["cpu"]))) == own["comm"]:
        of.apart["names that perf did not learn"] += 1
        return True
    return of.check(f"{what} name", perfs, own["comm"])


def compare_timehist(of):
    lines = perf("sched", "timehist", "--no-call-graph", "--state", "--next", path=of.path)
    theirs = [match.groupdict() for match in map(RUN.match, lines) if match]
    ours = collections.defaultdict(list)
    found = of.rows("timehist")
    for row in found:
        ours[(int(row["out_ns"]) // 1000, row["cpu"])].append(row)
    # By CPU, the thread that it turned to last; how each thread left last; threads whose last run began unseen.
    turned, left, unseen, sums = {}, {}, set(), collections.defaultdict(list)
    paired = 0
    for row in theirs:
        cpu, tid = row["cpu"].lstrip("0") or "0", row["tid"]
        seen = turned.get(cpu)
        turned[cpu] = row["next"]
        if tid is None:
            continue
        at = int(row["s"]) * 10**6 + int(row["us"])
        fits = lambda own: own["tid"] == tid or int(tid) == EXITED
        own = next(filter(fits, ours.get((at, cpu), [])), None)
        what = f"timehist {at / 10**6:.6f} cpu {cpu} {row['comm']}[{tid}]"
        if own is None:
            of.check(what, "a row", None)
            continue
        ours[(at, cpu)].remove(own)
        paired += 1
        before, left[own["tid"]] = left.get(own["tid"]), own["left"]
        wait, delay, run = (number(own[name]) for name in ("wait_ns", "delay_ns", "running_ns"))
        sums[own["tid"]].append((run, thousandths(row["run"]), int(tid) != EXITED))
        if int(tid) == EXITED:
            of.apart["rows of exited threads, which perf adds up as one"] += 1
        else:
            compare_names(of, what, row["comm"], own)
            of.check(f"{what} pid", row["pid"] or tid, own["pid"])
        if seen != own["tid"]:
            # perf takes the last switch of the CPU as the beginning, whatever thread that turned to.
            of.apart["runs that began unseen"] += 1
            of.check(f"{what} run, wait, delay", (None, None, None), (run, wait, delay))
            # The thread that the CPU had turned to is unknown from then on.
            unseen |= {own["tid"], seen}
            of.broken |= {own["tid"], seen}
            continue
        of.check(f"{what} run", thousandths(row["run"]), micros(run))
        if int(tid) == EXITED:
            continue
        perfs = (thousandths(row["wait"]), thousandths(row["delay"]))
        if own["tid"] in unseen and delay is None:
            # The wake before that run may have been the one that the thread waited for.
            of.apart["delays after such a run, which only perf shows"] += 1
            unseen.discard(own["tid"])
            continue
        unseen.discard(own["tid"])
        if before == "preempted":
            # perf counts a delay from a wake only.
            of.apart["delays after preemption, where perf has none"] += perfs[1] == 0 < (delay or 0)
            of.check(f"{what} wait", (perfs[0], 0, True), (micros(delay), wait, perfs[1] <= (micros(delay) or 0)))
        elif before in ("blocked", "unknown") and delay is None:
            # A wake that came while the thread was still leaving its CPU, or that perf did not record of itself.
            of.apart["delays without a wake"] += 1
            of.check(f"{what} delay", (0, None), (perfs[1], wait))
        elif before in ("blocked", "unknown"):
            of.check(f"{what} wait, delay", perfs, (micros(wait + delay), micros(delay)))
        elif delay is None and perfs[1] > 0:
            # A wake that came before the events of all CPUs begins may not have been the first one.
            of.apart["delays of first runs, which only perf shows"] += 1
            of.check(f"{what} first wait", (0, None), (perfs[0], wait))
        else:
            of.apart["first runs, whose wait perf shows as 0"] += 1
            of.check(f"{what} first wait, delay", perfs, (wait or 0, micros(delay or 0)))
    of.check("timehist rows", paired, len(found))
    compare_sums(of, sums)


def compare_sums(of, runs):
    """The summary of each thread, from our rows."""
    lines = perf("sched", "timehist", "--summary", path=of.path)
    for row in filter(None, map(SUMMARY.match, lines)):
        known = runs.get(row["tid"], [])
        # perf adds up threads that have exited as one, and runs that began unseen.
        if not all(run is not None and is_own for run, _, is_own in known) or int(row["tid"]) == EXITED:
            of.apart["summaries with runs that only perf knows"] += 1
            continue
        ns = [run for run, _, _ in known]
        figures = [micros(figure) for figure in (sum(ns), min(ns, default=0), sum(ns) // max(len(ns), 1), max(ns, default=0))]
        perfs = [thousandths(row[name]) for name in ("total", "min", "avg", "max")]
        of.check(f"summary of {row['comm']}[{row['tid']}]", (int(row["count"]), perfs), (len(ns), figures))


# ---- perf sched latency ----------------------------------------------------------------------------------------------

LATENCY = re.compile(
    r"^\s*(?P<comm>.*?):(?P<tid>\d+)\s+\|\s+(?P<runtime>[\d.]+) ms \|\s+(?P<count>\d+) \| avg:\s*(?P<avg>[\d.]+) ms \| max:\s*(?P<max>[\d.]+) ms"
)


def compare_latency(of):
    """perf counts a delay from a wake, and from a switch out in the state 0, not from one by preemption (256). It takes a thread that
    it meets in another event for one that is runnable from there."""
    woken, met_at = {}, {}
    for row in of.rows("sched", "--log"):
        woken[row["tid"], int(row["run_ns"])] = int(row["latency_ns"])
        met_at.setdefault(row["tid"], int(row["wake_ns"]))
    delays, runnable, left, unseen = collections.defaultdict(list), {}, {}, set()

    def meets(tid, at):
        if met_at.get(tid, at + 1) > at:
            runnable[tid] = at
        met_at[tid] = min(met_at.get(tid, at), at)

    for event in of.events_called("sched_switch", "sched_stat_runtime"):
        at, fields = event["ns"], event["payload"]
        if event["name"] == "sched_stat_runtime":
            meets(str(fields["pid"]), at)
            continue
        prev, following = str(fields["prev_pid"]), str(fields["next_pid"])
        meets(prev, at)
        left[prev] = at
        runnable[prev] = at if fields["prev_state"] == 0 else None
        meets(following, at)
        since = runnable.pop(following, None)
        if since is not None:
            delays[following].append(at - since)
        elif (following, at) in woken:
            delays[following].append(woken[following, at])
            # Our wait has a run in it whose beginning no event shows; perf ends it there.
            if left.get(following, 0) > at - woken[following, at]:
                unseen.add(following)
    for row in filter(None, map(LATENCY.match, perf("sched", "latency", "-p", path=of.path))):
        if row["tid"] in unseen | of.broken:
            of.apart["latencies of threads with a run that began unseen"] += 1
            continue
        own = delays.get(row["tid"], [])
        ours = (len(own), f"{sum(own) / max(len(own), 1) / 1e6:.3f}", f"{max(own, default=0) / 1e6:.3f}")
        of.check(f"latency of {row['comm']}:{row['tid']}", (int(row["count"]), row["avg"], row["max"]), ours)


# ---- perf lock contention --------------------------------------------------------------------------------------------

UNITS = [(10**9, "s"), (10**6, "ms"), (10**3, "us")]
WAIT = r"^\s*(?P<count>\d+)\s+(?P<total>[\d.]+ \S+)\s+(?P<max>[\d.]+ \S+)\s+(?P<avg>[\d.]+ \S+)\s+"
WAIT_OF_THREAD = re.compile(WAIT + r"(?P<tid>-?\d+)\s+(?P<comm>.*)$")
WAIT_OF_KIND = re.compile(WAIT + r"(?P<kind>\S+)\s+(?P<caller>.*)$")


def single(value):
    """A number as a float of C."""
    return struct.unpack("f", struct.pack("f", value))[0]


def as_perf_shows(ns):
    for base, unit in UNITS:
        if ns >= base:
            return f"{single(single(ns) / base):.2f} {unit}"
    return f"{ns} ns"


def compare_contention(of):
    rows = [row for row in of.rows("contention", "--log") if row["kind"] != "futex"]
    threads, kinds = collections.defaultdict(list), collections.Counter()
    for row in rows:
        threads[row["tid"]].append(int(row["duration_ns"]))
        kinds[row["kind"].split(":")[0]] += 1
    idle = 0
    for row in filter(None, map(WAIT_OF_THREAD.match, perf("lock", "contention", "-t", "-E", "1000000", path=of.path))):
        if row["tid"] == "0":
            idle = int(row["count"])
            of.apart["waits of idle CPUs, which are no threads here"] += idle
            continue
        waits = threads.pop(row["tid"], [0])
        if row["tid"] in of.broken:
            of.apart["threads with waits, of which a switch is missing"] += 1
            continue
        ours = (len(waits), *map(as_perf_shows, (sum(waits), max(waits), sum(waits) // len(waits))))
        of.check(f"contention of thread {row['tid']}", (int(row["count"]), row["total"], row["max"], row["avg"]), ours)
    of.check("contention: threads that perf does not show", [], [tid for tid in threads if tid not in of.broken])
    if of.broken:
        return
    theirs = collections.Counter()
    for row in filter(None, map(WAIT_OF_KIND.match, perf("lock", "contention", "-E", "1000000", path=of.path))):
        # A caller that takes a lock in both ways has the way in which it was met first.
        theirs[row["kind"].split(":")[0]] += int(row["count"])
    if idle:
        of.check("contention: waits", sum(theirs.values()), sum(kinds.values()) + idle)
    else:
        of.check("contention: waits by kind of lock", dict(theirs), dict(kinds))


# ---- perf trace ------------------------------------------------------------------------------------------------------

CALLS_OF = re.compile(r"^ (?P<comm>.*) \((?P<tid>\d+)\), \d+ events, ")
CALLS = re.compile(
    r"^\s+(?P<name>\S+)\s+(?P<count>\d+)\s+(?P<errors>\d+)\s+(?P<total>[\d.]+)\s+(?P<min>[\d.]+)\s+(?P<avg>[\d.]+)\s+(?P<max>[\d.]+)\s+[\d.]+%$"
)

SIGRETURN = "rt_sigreturn"


def compare_calls(of):
    """Raw events have the numbers of calls: both programs name them."""
    theirs, ours, tid = collections.defaultdict(list), collections.defaultdict(list), None
    for line in perf("trace", "--summary", path=of.path):
        head, row = CALLS_OF.match(line), CALLS.match(line)
        if head:
            tid = head["tid"]
        elif row:
            theirs[tid].append((row["name"], int(row["count"]), int(row["errors"]), row["total"], row["min"], row["max"]))
    for row in of.rows("syscalls", "--by", "thread"):
        if row["name"] == SIGRETURN:
            of.apart["calls of rt_sigreturn, which perf leaves out"] += 1
            continue
        times = [f"{int(row[name]) / 1e6:.3f}" for name in ("total_ns", "min_ns", "max_ns")]
        ours[row["tid"]].append((row["name"], int(row["count"]), int(row["errors"]), *times))
    for tid, rows in theirs.items():
        own = ours.pop(tid, [])
        for row in list(rows):
            # perf counts a call whose entry it has not seen, with a time of 0.
            without = lambda call: call[0] == row[0] and call[1] == row[1] - 1 and call[3] == row[3] and row[4] == "0.000" and call[5] == row[5]
            same = next((call for call in own if call == row or without(call)), None)
            if same is not None:
                own.remove(same)
                of.apart["calls whose entry was not seen"] += same != row
            elif row[1] == 1 and row[3] == "0.000":
                of.apart["calls whose entry was not seen"] += 1
            else:
                continue
            of.equal += 1
            rows.remove(row)
        of.check(f"calls of thread {tid}", sorted(rows), sorted(own))
    of.check("calls: threads that perf does not show", [], list(ours))


# ---- perf kwork ------------------------------------------------------------------------------------------------------

KWORK = re.compile(
    r"^\s*\((?P<class>[isw])\)(?P<name>.*?)\s+\| (?P<cpu>\d+) \|\s+(?P<sum>[\d.]+) ms \|\s+(?P<count>\d+) \|\s+(?P<max>[\d.]+) ms"
)


SOFTIRQS = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"]


def symbols():
    """Functions of the running kernel by their address."""
    with open("/proc/kallsyms") as file:
        return {int(line.split()[0], 16): line.split()[2] for line in file}


def delays_from_any_raise(of):
    """Delays as perf counts them, of soft interrupts that are raised again before they run: from the last raise. The first one is left
    for a later run whose raise was not seen, however long after it is."""
    raises, delays, again = collections.defaultdict(list), collections.defaultdict(list), set()
    for event in of.events_called("softirq_raise", "softirq_entry"):
        key = (event["cpu"], event["payload"]["vec"])
        if event["name"] == "softirq_raise":
            raises[key].append(event["ns"])
        elif raises[key]:
            delays[key].append(event["ns"] - raises[key].pop())
        if event["name"] == "softirq_entry" and raises[key]:
            again.add(key)
    return {("softirq", SOFTIRQS[vec], cpu, ""): delays[cpu, vec] for cpu, vec in again}


def compare_kwork(of):
    names, runs, delays = None, collections.defaultdict(list), collections.defaultdict(list)
    for row in of.rows("work", "--log"):
        kind, function = row["kind"], row["function"]
        if kind == "work" and function.startswith("0x"):
            names = names or symbols()
            function = names.get(int(function, 16), function)
        # One row of perf is about one work, of which several may have the same function.
        key = (kind, function, int(row["cpu"]), row["object"])
        runs[key].append(int(row["duration_ns"]))
        if row["delay_ns"]:
            delays[key].append(int(row["delay_ns"]))
    for key, times in delays_from_any_raise(of).items():
        if key in delays:
            of.apart["soft interrupts that were raised again before they ran"] += 1
            delays[key] = times
    kinds = {"s": "softirq", "w": "work"}
    for command, found in (("report", runs), ("latency", delays)):
        is_report = command == "report"
        theirs, ours = collections.Counter(), collections.Counter()
        for row in filter(None, map(KWORK.match, perf("kwork", command, path=of.path))):
            if row["class"] in kinds:
                name = row["name"].rsplit(":", 1)[0] if row["class"] == "s" else row["name"]
                theirs[(kinds[row["class"]], name, int(row["cpu"]), int(row["count"]), row["sum"], row["max"])] += 1
        for (kind, function, cpu, _), times in found.items():
            total = sum(times) if is_report else sum(times) // len(times)
            ours[(kind, function, cpu, len(times), f"{total / 1e6:.3f}", f"{max(times) / 1e6:.3f}")] += 1
        both = theirs & ours
        of.equal += sum(both.values())
        theirs, ours = list((theirs - both).elements()), list((ours - both).elements())
        for row in list(ours):
            kind, function, cpu, count = row[:4]
            # perf cuts long names, and prints bytes after the end of some.
            is_name = lambda name: len(os.path.commonprefix([name, function])) >= min(len(function), 15)
            like = [own for own in theirs if own[0] == kind and is_name(own[1]) and own[2] == cpu]
            same = next((own for own in like if own[3:] == row[3:]), None)
            if same is not None:
                of.equal += 1
            elif kind == "work":
                # perf loses a work that another CPU queued, or that ended on another CPU.
                same = next((own for own in like if own[3] < count), None)
                if like and same is None:
                    continue
                of.apart["works of several CPUs, of which perf loses some"] += 1
            else:
                continue
            ours.remove(row)
            if same is not None:
                theirs.remove(same)
        of.check(f"kwork {command}", sorted(theirs), sorted(ours))


def compared(program, path):
    """The comparison of a file, which is shown."""
    of = Comparison(program, path)
    if of.has_losses:
        print(f"{os.path.basename(path)}: left out, since events were lost")
        return of
    for event, compare in COMPARED.items():
        if event in of.events:
            compare(of)
    print(f"{os.path.basename(path)}: {of.equal} figures equal, {of.differ} differ")
    for what, count in of.apart.items():
        print(f"    {count} {what}")
    return of


def main():
    if sys.argv[1:2] == ["--load"]:
        return load(float(sys.argv[2]))
    if sys.argv[1:] == ["--can-record"]:
        return 0 if can_record() else 1
    program, *paths = sys.argv[1:]
    equal = differ = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths or RECORDINGS:
            of = compared(program, path if paths else record(path, folder))
            if not paths and of.differ:
                # A fault of one of the programs shows in each recording, a race of perf's own tables in one.
                print(f"{path}: recorded once more")
                of = compared(program, record(path, folder))
            equal, differ = equal + of.equal, differ + of.differ
    print(f"{equal} equal, {differ} differ")
    return 1 if differ or not equal else 0


COMPARED = {
    "sched:sched_switch": compare_timehist,
    # It passes by `sched_waking`, which `perf sched record` prefers.
    "sched:sched_wakeup": compare_latency,
    "lock:contention_begin": compare_contention,
    "raw_syscalls:sys_enter": compare_calls,
    "workqueue:workqueue_execute_start": compare_kwork,
}

if __name__ == "__main__":
    sys.exit(main())
