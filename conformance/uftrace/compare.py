#!/usr/bin/env python3
"""Compares the commands that follow calls with those of the installed uftrace, on data folders.

    compare.py PROGRAM [--only WORD] [--show N] [--known FILE] FOLDER...

Every command is run by both on every folder; text is compared byte for byte, Chrome's traces as JSON without when and
by what they were made. FILE has lines `FOLDER-NAME COMMAND...`: differences that are known to be faults of uftrace, which
the README of the format lists. Exit status 0 when nothing else differs.
"""
import argparse
import json
import os
import subprocess
import sys

COMMANDS = [
    "replay",
    "replay -f +time,tid,duration",
    "replay -f time,delta,elapsed,addr,task,module",
    "replay -f none",
    "replay --no-merge",
    "replay -D 3",
    "replay -t 5us",
    "replay --no-libcall",
    "replay --no-event",
    "replay --event-full",
    "replay --column-view",
    "replay --task-newline",
    "replay --libname",
    "report",
    "report -s call,func -f total,self,call,size",
    "report --avg-total",
    "report --avg-self",
    "report -t 5us",
    "graph",
    "graph -f total,self,addr",
    "graph main",
    "graph work",
    "graph -D 3",
    "dump",
    "dump --no-event",
    "dump --chrome",
    "dump --flame-graph",
    "dump --flame-graph --sample-time 1us",
]


def run(command):
    result = subprocess.run(command, capture_output=True, timeout=300)
    return result.stdout, result.stderr, result.returncode


def chrome(text):
    try:
        trace = json.loads(text)
    except ValueError:
        return None
    for key in ("recorded_time", "version"):
        trace.get("metadata", {}).pop(key, None)
    return trace


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--show", type=int, default=6)
    parser.add_argument("--known")
    args = parser.parse_args()
    known = set()
    if args.known:
        with open(args.known, encoding="utf-8") as file:
            known = {line.strip() for line in file if line.strip() and not line.startswith("#")}
    counts = {"equal": 0, "different": 0, "known": 0, "unsupported": 0}
    for folder in args.folders:
        name = os.path.basename(os.path.normpath(folder))
        if name == "trace":
            name = os.path.basename(os.path.dirname(os.path.normpath(folder)))
        for command in COMMANDS:
            if args.only not in command:
                continue
            words = command.split()
            want, _, status = run(["uftrace", words[0], "--no-pager", "--color=no", "-d", folder, *words[1:]])
            have, told, own = run([args.program, *words, "-d", folder])
            if own == 2:
                counts["unsupported"] += 1
                print(f"UNSUPPORTED {name} {command}: {told.decode(errors='replace').splitlines()[0]}")
                continue
            same = have == want
            if "--chrome" in words:
                same = chrome(have) is not None and chrome(have) == chrome(want)
            if same:
                counts["equal"] += 1
                continue
            if f"{name} {command}" in known or f"{name} {words[0]}" in known:
                counts["known"] += 1
                continue
            counts["different"] += 1
            print(f"DIFFERENT {name} {command} (uftrace ended with {status}, tracemill with {own})")
            left, right = (text.decode(errors="replace").splitlines() for text in (want, have))
            shown = 0
            for at in range(max(len(left), len(right))):
                one = left[at] if at < len(left) else "(end)"
                other = right[at] if at < len(right) else "(end)"
                if one != other:
                    print(f"    line {at + 1}\n    uftrace   {one[:200]}\n    tracemill {other[:200]}")
                    shown += 1
                    if shown * 2 > args.show:
                        break
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["different"] else 0


sys.exit(main())
