#!/usr/bin/env python3
"""Converts every trace below some folders and compares what comes out.

    round_trip.py PROGRAM FOLDER...            A to CTF 2: `ns`, `name` and `payload` of every line stay
    round_trip.py --back PROGRAM FOLDER...     and back to A: every key but `trace` stays
    round_trip.py --again PROGRAM FOLDER...    A as itself, and once more: the same lines, then the same files
    round_trip.py --rewrite PROGRAM FOLDER...  the same event by event, as every cut is made, instead of by copying
    round_trip.py --to F PROGRAM FOLDER...     A to another format F: it reads without a fault; of CTF as many events, of
                                               logs as far from the first one

Lines come in the order of `print`; those of one time may stand in any order. A folder whose traces cannot be read at
all is left out. The last line counts: `N passed, M failed, K not written`.
"""

import argparse
import collections
import concurrent.futures
import filecmp
import functools
import json
import os
import subprocess
import sys
import tempfile

KEPT = ("ns", "name", "payload")
ALL_BUT_SIZES = ("ns", "cycles", "name", "id", "stream", "cpu", "header", "stream_context", "event_context", "payload")


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, errors="surrogateescape")


def lines(program, path):
    done = run(program, "print", "--quiet", "--format", "jsonl", path)
    if done.returncode not in (0, 3):
        return None
    return [json.loads(line, parse_float=lambda text: ("float", text)) for line in done.stdout.split("\n") if line]


def by_time(events, keys):
    """What is compared: events of one time in any order; those without time where they stand."""
    groups, last = collections.defaultdict(collections.Counter), None
    for event in events:
        last = event.get("ns", last) if event.get("ns") is not None else last
        shown = {key: value for key, value in event.items() if key in keys} if keys else dict(event)
        if not keys:
            shown.pop("trace", None)
        groups[last][json.dumps(shown, sort_keys=True)] += 1
    return groups


def difference(before, after, keys):
    left, right = by_time(before, keys), by_time(after, keys)
    if left == right:
        return None
    for time in sorted(set(left) | set(right), key=lambda time: (time is not None, time or 0)):
        if left[time] != right[time]:
            gone = list((left[time] - right[time]).elements())
            come = list((right[time] - left[time]).elements())
            show = lambda found: found[0][:700] if found else "nothing"
            return f"at {time}: {show(gone)}\n    became {show(come)}"
    return "other lines"


def other_times(before, after):
    """Events that are gone, or have other times: all may be moved, and those without one may have got one."""
    def times(events):
        known = [event["ns"] for event in events if event.get("ns") is not None]
        return collections.Counter(ns - min(known) for ns in known)
    if len(before) != len(after):
        return f"{len(before)} events became {len(after)}"
    gone = times(before) - times(after)
    return f"no event {min(gone)} ns behind the first one" if gone else None


def format_of(program, path):
    done = run(program, "info", "--json", path)
    try:
        traces = json.loads(done.stdout)["traces"]
    except (ValueError, KeyError):
        return None
    formats = {trace["format"] for trace in traces}
    return formats.pop() if len(formats) == 1 else None


def traces_of(program, path):
    """The path, or what is in it when that has traces of several formats."""
    if not os.path.isdir(path) or format_of(program, path):
        return [path]
    # Saved lines are what others are compared with.
    inside = [os.path.join(path, name) for name in sorted(os.listdir(path)) if not name.endswith(".jsonl")]
    return [one for one in inside if format_of(program, one)] or [path]


def same_files(left, right):
    compared = filecmp.dircmp(left, right)
    stack = [compared]
    while stack:
        at = stack.pop()
        if at.left_only or at.right_only:
            return f"only in one: {at.left_only + at.right_only}"
        for name in at.common_files:
            if not filecmp.cmp(os.path.join(at.left, name), os.path.join(at.right, name), shallow=False):
                return f"{name} differs"
        stack.extend(at.subdirs.values())
    return None


# A limit that nothing reaches: a choice of events is never copied.
NO_COPY = ("--limit", str(2**64 - 1))


def convert(program, to, source, output, *arguments):
    done = run(program, "convert", "--quiet", *arguments, "--to", to, "-o", output, source)
    if done.returncode not in (0, 3) or not os.path.exists(output):
        return done.stderr.strip().split("\n")[0] or f"status {done.returncode}"
    return None


def check(options, written, path, scratch):
    before = lines(options.program, path)
    if before is None:
        return None
    # Of damaged packets the sizes are those of what is left.
    is_damaged = run(options.program, "print", "--quiet", "--format", "jsonl", path).returncode == 3
    all_keys = ALL_BUT_SIZES if is_damaged else None
    of = format_of(options.program, path)
    if options.again or options.rewrite:
        if of not in written:
            return ("skip", of)
        one, two = os.path.join(scratch, "one"), os.path.join(scratch, "two")
        for source, output in ((path, one), (one, two)):
            error = convert(options.program, of, source, output, *(NO_COPY if options.rewrite else ()))
            if error:
                return ("fail", error)
        found = difference(before, lines(options.program, one) or [], all_keys)
        if found:
            return ("fail", found)
        found = same_files(one, two) if os.path.isdir(one) else (None if filecmp.cmp(one, two, False) else "bytes")
        return ("fail", "twice is not once: " + found) if found else ("pass", "")
    if options.to:
        if of == options.to:
            return ("skip", of)
        return check_other(options, before, path, os.path.join(scratch, "other"))
    ctf2 = os.path.join(scratch, "ctf2")
    error = convert(options.program, "ctf2", path, ctf2)
    if error:
        return ("fail", error)
    if not options.back:
        found = difference(before, lines(options.program, ctf2) or [], KEPT)
        return ("fail", found) if found else ("pass", "")
    if of not in written:
        return ("skip", of)
    back = os.path.join(scratch, "back")
    error = convert(options.program, of, ctf2, back)
    if error:
        return ("fail", error)
    found = difference(before, lines(options.program, back) or [], all_keys)
    return ("fail", found) if found else ("pass", "")


def check_other(options, before, path, output):
    error = convert(options.program, options.to, path, output)
    if error:
        return ("fail", error)
    done = run(options.program, "print", "--quiet", "--format", "jsonl", output)
    if done.returncode != 0:
        return ("fail", done.stderr.strip().split("\n")[0])
    if options.to in ("cpel", "elog"):
        found = other_times(before, lines(options.program, output) or [])
        return ("fail", found) if found else ("pass", "")
    if not options.to.startswith("ctf"):
        return ("pass", "")
    found = done.stdout.count("\n")
    return ("pass", "") if found == len(before) else ("fail", f"{len(before)} events became {found}")


def check_alone(options, written, path):
    with tempfile.TemporaryDirectory() as scratch:
        return check(options, written, path, scratch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--back", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("--to", default="")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    listed = json.loads(run(options.program, "formats", "--json").stdout)
    listed = listed["formats"] if isinstance(listed, dict) else listed
    written = {entry["name"] for entry in listed if entry.get("write")}
    found = []
    for folder in options.folders:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            label = f"{os.path.basename(os.path.normpath(folder))}/{name}"
            if name.endswith(".md") or options.only not in label:
                continue
            # Where a trace lies beside its golden files.
            for inside in ("trace", "uftrace.data"):
                if os.path.exists(os.path.join(path, inside)):
                    path = os.path.join(path, inside)
            found.extend((label, path) for path in traces_of(options.program, path))
    count = collections.Counter()
    with concurrent.futures.ProcessPoolExecutor() as pool:
        checked = functools.partial(check_alone, options, written)
        for (label, _), result in zip(found, pool.map(checked, [path for _, path in found])):
            kind, why = result or ("unreadable", None)
            count[kind] += 1
            if kind == "fail":
                print(f"FAIL {label}: {why}")
    print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} not written, {count['unreadable']} unreadable")
    return 1 if count["fail"] or not count["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())
