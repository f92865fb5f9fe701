#!/usr/bin/env python3
"""Checks `report` against its own definition: the same statistics, calculated here from `print --format jsonl`.

    report.py PROGRAM TRACE...             every event name of each trace, in all three analyses
    report.py PROGRAM --peers CORPUS       against the saved output of cpelstate, when the program reads its format

Exit status 1 when something differs.
"""
import json
import math
import os
import subprocess
import sys

PERCENTS = (50, 90, 95, 99)


def run(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{arguments}: status {done.returncode}: {done.stderr}")
    return done.stdout


def report(program, trace, *arguments):
    return json.loads(run(program, "report", "-q", "--format", "json", "--by", "name", trace, *arguments))


def statistics(durations):
    count, ordered = len(durations), sorted(durations)
    mean = sum(durations) / count
    rank = lambda percent: ordered[max(1, -(-count * percent // 100)) - 1]
    return {
        "count": count,
        "total": sum(durations),
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "deviation": math.sqrt(sum((ns - mean) ** 2 for ns in durations) / count),
        "percentiles": {str(percent): rank(percent) for percent in PERCENTS},
    }


def line(durations):
    count = len(durations)
    if count < 2:
        return None
    mean_x, mean_y = (count - 1) / 2, sum(durations) / count
    common = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(durations))
    slope = common / sum((x - mean_x) ** 2 for x in range(count))
    return {"slope": slope, "offset": mean_y - slope * mean_x}


def near(a, b):
    return abs(a - b) <= 1e-6 * max(1.0, abs(a), abs(b))


def compare(what, object, wanted, with_lines=False):
    """The groups of a report against durations by group."""
    found = {row["group"]["name"]: row for row in object["groups"]}
    faults = []
    if set(found) != set(wanted):
        faults.append(f"groups {sorted(found)} instead of {sorted(wanted)}")
    for name in set(found) & set(wanted):
        row, want = found[name], statistics(wanted[name])
        for key in ("count", "total", "min", "max"):
            if row[key] != want[key]:
                faults.append(f"{name}: {key} {row[key]} instead of {want[key]}")
        for key in ("mean", "deviation"):
            if not near(row[key], want[key]):
                faults.append(f"{name}: {key} {row[key]} instead of {want[key]}")
        exact = row["percentiles"].pop("exact")
        if exact and row["percentiles"] != want["percentiles"]:
            faults.append(f"{name}: percentiles {row['percentiles']} instead of {want['percentiles']}")
        fit = line(wanted[name])
        for key in ("slope", "offset") if with_lines else ():
            if (row[key] is None) != (fit is None) or (fit and not near(row[key], fit[key])):
                faults.append(f"{name}: {key} {row[key]} instead of {fit and fit[key]}")
    for fault in faults:
        print(f"{what}: {fault}")
    return len(faults)


def check_trace(program, trace):
    lines = [json.loads(line) for line in run(program, "print", "-q", "--format", "jsonl", trace).splitlines()]
    events = [(event["ns"], event["name"]) for event in lines if event.get("ns") is not None]
    names = sorted({name for _, name in events})
    faults = 0

    chain = {}
    for (ns, name), (after, _) in zip(events, events[1:]):
        if after >= ns:
            chain.setdefault(name, []).append(after - ns)
    faults += compare(f"{trace} --state", report(program, trace, "--state", "*", "--regress"), chain, True)

    within, last = {}, {}
    for ns, name in events:
        if name in last and ns >= last[name]:
            within.setdefault(name, []).append(ns - last[name])
        last[name] = ns
    faults += compare(f"{trace} --within", report(program, trace, "--state", "*", "--within"), within)

    for first in names:
        for second in names:
            if first == second or any(c in first + second for c in "*?\\"):
                continue
            # Both events have one lane, and the first says the group.
            stack, durations = [], []
            for ns, name in events:
                if name == first:
                    stack.append([ns, 0])
                elif name == second and stack:
                    begin, inner = stack.pop()
                    if stack:
                        stack[-1][1] += ns - begin
                    durations.append(ns - begin - inner)
            asked = ("--from", first, "--to", second, "--regress", "--lane", "trace")
            wanted = {first: durations} if durations else {}
            faults += compare(f"{trace} {first} {second}", report(program, trace, *asked), wanted, True)
    print(f"{trace}: {len(events)} events, {len(names)} names, {faults} differences")
    return faults


def check_peers(program, corpus):
    """cpelstate divides by the count less one; its figures are rounded to ns."""
    folder = os.path.join(corpus, "real-new")
    rows = {}
    for text in open(os.path.join(folder, "new.cpelstate.txt")):
        words = text.split()
        if "+-" in words:
            at = words.index("+-")
            rows[" ".join(words[: at - 1])] = [words[at - 1], words[at + 1], words[at + 2], words[at + 3]]
    done = subprocess.run(
        [program, "report", "-q", "--format", "json", "--state", "0", os.path.join(folder, "new.cpel")],
        capture_output=True, text=True)
    if done.returncode != 0:
        print(f"new.cpel: status {done.returncode}: {done.stderr}")
        return 1
    found = {}
    for row in json.loads(done.stdout)["groups"]:
        sample = row["deviation"] * math.sqrt(row["count"] / (row["count"] - 1))
        us = lambda ns: f"{ns / 1000:.3f}"
        found[row["label"]] = [us(row["mean"]), us(sample), us(row["total"]), str(row["count"])]
    print(f"new.cpel: {found}")
    if not rows or found != rows:
        print(f"new.cpel: {found} instead of {rows}")
        return 1
    return 0


def main():
    program, *rest = sys.argv[1:]
    if rest[:1] == ["--peers"]:
        formats = run(program, "formats", "--json")
        if "cpel" not in formats:
            print("the program does not read the format of these logs: left out")
            sys.exit(0)
        sys.exit(check_peers(program, rest[1]) > 0)
    sys.exit(sum(check_trace(program, trace) for trace in rest) > 0)


main()
