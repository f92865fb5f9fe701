#!/usr/bin/env python3
"""Compares `tracemill analyze` with a second program, written from docs/kernel.md, on random kernel traces.

    compare_kernel.py BIN [--seeds FROM-TO] [--keep FOLDER]

Each seed gives one trace and a list of questions. A difference is shown with the seed, the question and both rows; the
events are shown with --keep, which also leaves the trace in the folder. Exit status 0 when there is no difference.
"""

import argparse
import concurrent.futures
import functools
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import kernel_answers
from kernel_answers import Question
from kernel_states import Machine
from kernel_traces import Event, Kernel, Loss, write

ORDERED = ("states", "path")


def played(items, covered, counted):
    """Shows the events to the second machine, each loss behind the last event of its CPU."""
    machine = Machine()
    machine.cover(covered, counted or 0)
    losses = {}
    last = {}
    for item in items:
        if isinstance(item, Loss):
            losses.setdefault(id(last[item.cpu]), []).append(item.cpu)
        else:
            last[item.cpu] = item
    for item in items:
        if isinstance(item, Event):
            machine.take(item.time, item.cpu, item.concept, item.of_concept(), item.name, item.context)
            for cpu in losses.get(id(item), ()):
                machine.lose(cpu)
    machine.finish()
    return machine


def clean(items):
    """Leaves out losses that no packet of their CPU comes before and behind."""
    seen, answer = set(), []
    for at, item in enumerate(items):
        if isinstance(item, Event):
            seen.add(item.cpu)
        elif item.cpu not in seen or not any(isinstance(later, Event) and later.cpu == item.cpu for later in items[at:]):
            continue
        answer.append(item)
    return answer


def questions(rng, machine, kernel):
    """Words of the command, the function that answers, and what it is asked."""
    length = machine.now - machine.begin
    begin = machine.begin + rng.randint(0, length)
    ranged = dict(begin=begin, end=begin + rng.randint(1, max(1, length)))
    tid, cpu = rng.choice(kernel.tids), rng.randrange(kernel.cpus)
    pid, comm = rng.choice(sorted(set(kernel.pids.values()))), rng.choice([f"t{tid}", f"new{tid}", "t?", "*1*", "n*"])
    of_cpu, of_tid = (dict(cpus=[cpu]), ["--cpu", str(cpu)]), (dict(tids=[tid]), ["--tid", str(tid)])
    of_pid, of_comm = (dict(pids=[pid]), ["--pid", str(pid)]), (dict(comm=comm), ["--comm", comm])
    spans = [({}, []), (dict(log=True), ["--log"]), (dict(top=3), ["--top", "3"]), (dict(hist=4), ["--hist", "4"]),
             of_cpu, of_tid, of_pid, of_comm, (dict(cpus=[cpu], log=True), ["--cpu", str(cpu), "--log"]),
             (dict(comm=comm, log=True), ["--comm", comm, "--log"]), (dict(least=10), ["--min", "10ns"]),
             (dict(most=20, log=True), ["--max", "20ns", "--log"])]
    plain = {
        "states": [None], "cpu": [None, "process", "cpu"], "stats": [None, "trace", "event"], "processes": [None],
        "sched": [None, "prio", "cpu", "waker", "process"], "irq": [None, "cpu"], "syscalls": [None, "thread", "process", "errno"],
        "io": [None, "thread", "process", "file", "disk", "net"], "memory": [None], "locks": [None, "thread", "process"],
        "contention": [None, "thread", "releaser", "taker"],
    }
    # The name and the process of a thread may become known while a state lasts: questions about those are asked elsewhere.
    chosen = {("states", None): [of_cpu, of_tid], ("cpu", None): [of_tid], ("cpu", "cpu"): [of_cpu], ("stats", None): [of_cpu, of_tid],
              ("stats", "event"): [of_cpu, of_tid], ("processes", None): [of_tid, of_pid, of_comm], ("memory", None): [of_cpu, of_tid, of_pid]}
    steps = ("cpu", "sched", "irq", "syscalls", "io", "locks", "contention")
    for name, keys in plain.items():
        for key in keys:
            by = [] if key is None else ["--by", key]
            options = [({}, []), (ranged, ["--begin", f"{ranged['begin']}ns", "--end", f"{ranged['end']}ns"])]
            if name in ("sched", "irq", "syscalls", "io", "locks", "contention") and key not in ("net", "taker"):
                some = [of for of in spans if not ("log" in of[0] or "top" in of[0] or "hist" in of[0]) or key in (None, "disk")]
                # Interrupts have no thread; a request has that of its issue.
                if name == "irq" or key == "disk":
                    some = [of for of in some if not {"tids", "pids", "comm"} & of[0].keys()]
                if key == "disk":
                    some = [of for of in some if "cpus" not in of[0]]
                options += some[1:]
            options += chosen.get((name, key), [])
            if name in steps and key not in ("disk", "net", "taker"):
                size = max(1, length // rng.randint(1, 5))
                options.append((dict(step=size), ["--step", f"{size}ns"]))
            for of, words in options:
                if "hist" in of or "top" in of or "log" in of:
                    yield [name, *(by if key == "disk" else []), *words], name, dict(of, by=key), {}
                else:
                    yield [name, *by, *words], name, dict(of, by=key), {}
    for of, words in (({}, []), (ranged, ["--begin", f"{ranged['begin']}ns", "--end", f"{ranged['end']}ns"]), of_tid):
        yield ["offcpu", "--log", *words], "offcpu", dict(of, log=True), {}
    for kind in ("disks", "irqs"):
        for of, words in (({}, []), (ranged, ["--begin", f"{ranged['begin']}ns", "--end", f"{ranged['end']}ns"])):
            yield ["states", "--of", kind, *words], "states", of, dict(of=kind)
    yield ["memory", "--slab"], "memory", {}, dict(slab=True)
    yield ["memory", "--by", "site"], "memory", dict(by="site"), dict(slab=True)
    yield ["sched", "--switches"], "sched", {}, dict(switches=True)
    yield ["sched", "--switches", "--by", "thread"], "sched", dict(by="thread"), dict(switches=True)
    for tid in kernel.tids:
        for of, words in (({}, []), (ranged, ["--begin", f"{ranged['begin']}ns", "--end", f"{ranged['end']}ns"])):
            yield ["path", "--tid", str(tid), *words], "path", of, dict(tid=tid)
            yield ["why", "--tid", str(tid), *words], "why", of, dict(tid=tid)


def is_in(want, have):
    if isinstance(want, dict):
        return isinstance(have, dict) and all(key in have and is_in(value, have[key]) for key, value in want.items())
    if isinstance(want, float) or isinstance(have, float):
        return isinstance(have, (int, float)) and want is not None and abs(want - have) <= 1e-9 * max(abs(want), abs(have), 1)
    return type(want) is type(have) and want == have


def difference(want, have, is_ordered):
    if is_ordered:
        for at in range(max(len(want), len(have))):
            one, other = (of[at] if at < len(of) else None for of in (want, have))
            if one is None or other is None or not is_in(one, other):
                return f"row {at}\n    second program  {json.dumps(one)}\n    tracemill       {json.dumps(other)}"
        return None
    left = list(have)
    for row in want:
        fits = [at for at, other in enumerate(left) if is_in(row, other)]
        if not fits:
            near = [other for other in left if all(is_in(value, other.get(key)) for key, value in list(row.items())[:2])]
            return f"a row\n    second program  {json.dumps(row)}\n    tracemill       {json.dumps(near[:3])}"
        del left[fits[0]]
    return f"a row of tracemill only\n    {json.dumps(left[0])}" if left else None


def compared(seed, binary, folder):
    """Differences of a seed, and its events."""
    rng = random.Random(seed)
    kernel = Kernel(seed)
    if kernel.losses:
        kernel.same_times = 0
    items = list(kernel.events(rng.choice([10, 30, 60, 150])))
    items = clean(sorted(items, key=lambda item: (item.time, item.cpu)))
    if not any(isinstance(item, Event) for item in items):
        return [], items
    covered = write(folder, items, kernel.has_context, kernel.counted, lambda cpu: rng.random() < 0.05)
    machine = played(items, covered, kernel.counted)
    differences = []
    for words, name, options, more in questions(rng, machine, kernel):
        run = subprocess.run([binary, "analyze", *words, "--json", str(folder)], capture_output=True, text=True)
        if run.returncode == 1 and ("no event" in run.stderr or "needs" in run.stderr or "lacks" in run.stderr):
            differences.append((words, run.stderr.strip()))
            continue
        if run.returncode not in (0, 3):
            differences.append((words, f"exit status {run.returncode}: {run.stderr.strip()[:300]}"))
            continue
        want, every = getattr(kernel_answers, name)(machine, Question(machine, **options), **more)
        have = json.loads(run.stdout)
        if name == "why":
            have["rows"] = kernel_answers.sums_of_why(have["totals"])
        if want is not None:
            is_ordered = name in ORDERED and "irqs" not in words or any(word in words for word in ("--log", "--top", "--hist")) and name != "offcpu"
            why = difference(want, have["rows"], is_ordered)
            if why:
                differences.append((words, why))
        if every and not is_in(every, have["all"]):
            differences.append((words, f"all\n    second program  {json.dumps(every)}\n    tracemill       {json.dumps(have['all'])}"))
        if words == ["states"]:
            notes = {key: count for key, count in machine.counts.items() if count or key in have["notes"]}
            if not is_in(notes, have["notes"]):
                differences.append((words, f"notes\n    second program  {notes}\n    tracemill       {have['notes']}"))
    return differences, items


def compared_alone(args, seed):
    with tempfile.TemporaryDirectory() as folder:
        return compared(seed, args.binary, args.keep / str(seed) if args.keep else pathlib.Path(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--seeds", default="0-99")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--show", type=int, default=1, help="differences to show of a seed")
    args = parser.parse_args()
    first, last = map(int, args.seeds.split("-")) if "-" in args.seeds else (int(args.seeds),) * 2
    failed = 0
    with concurrent.futures.ProcessPoolExecutor() as pool:
        seeds = range(first, last + 1)
        for seed, (differences, items) in zip(seeds, pool.map(functools.partial(compared_alone, args), seeds)):
            failed += bool(differences)
            if args.keep:
                print(*items, sep="\n")
            for words, why in differences[:args.show]:
                print(f"seed {seed}: analyze {' '.join(words)}: {why}")
    print(f"{last - first + 1 - failed} of {last - first + 1} seeds agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
