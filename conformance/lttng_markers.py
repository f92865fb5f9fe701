#!/usr/bin/env python3
"""Compares what tracemill prints of a legacy LTTng 2.x trace with the text dump that LTTV made of it.

    lttng_markers.py PROGRAM FOLDER

FOLDER holds `NAME.tar.gz`, an archive of one trace, and `NAME.lttv-textdump.txt.gz`, the dump, for one or more NAMEs.
Each event must be equal in name, time, file, CPU and every field, and so must their order in each file. What the dump
derives (process, mode, the symbol behind a number) is no part of the trace and is not compared.

The dump of the public trace was edited after it was made: the folder of the trace and the ending of a text file were
replaced everywhere, inside file names that the trace holds too. Strings that differ by these edits alone are counted
and set apart.
"""

import gzip
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

SUFFIX = ".lttv-textdump.txt.gz"
# The replaced part of the dump: our bytes have the first.
EDITS = [("/tmp/trace1/", "traceset/trace_15316events_nolost_newformat/"), (".txt", "")]
EVENT = re.compile(r"^(?P<name>[^\s:]+): (?P<time>\d+\.\d{9}) \((?P<file>[^)]+)\), .*?, \w* ?(?P<rest>\{.*|$)")
NUMBER = re.compile(r"^(-?0x[0-9a-fA-F]+|-?\d+)(?: \[.*\])?$")


class Event:
    """An event as both sides show it."""

    def __init__(self, name, ns, stream, fields):
        self.name, self.ns, self.stream, self.fields = name, ns, stream, fields

    def __eq__(self, other):
        return vars(self) == vars(other)

    def edited(self):
        """The event with the edits of the dump made in its strings."""
        fields = dict(self.fields)
        for name, text in fields.items():
            if isinstance(text, str):
                for ours, theirs in EDITS:
                    text = text.replace(ours, theirs)
                fields[name] = text
        return Event(self.name, self.ns, self.stream, fields)

    def __str__(self):
        return f"{self.stream} {self.ns} {self.name} {self.fields}"


def nanoseconds(text):
    seconds, fraction = text.split(".")
    return int(seconds) * 10**9 + int(fraction)


def fields_of_dump(text, names):
    """Fields `name = value`, of which the names are known: values may hold anything."""
    inner = text.strip()
    if inner.startswith("{"):
        inner = inner[1:].rsplit("}", 1)[0].strip()
    fields, at = {}, 0
    for index, name in enumerate(names):
        begin = f"{name} = "
        if not inner.startswith(begin, at):
            return {"": inner}
        at += len(begin)
        following = f", {names[index + 1]} = " if index + 1 < len(names) else None
        end = inner.find(following, at) if following else len(inner)
        if end < 0:
            return {"": inner}
        fields[name] = value(inner[at:end])
        at = end + 2
    return fields


def value(text):
    number = NUMBER.match(text)
    if number:
        return int(number[1], 0)
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1]
    return text


def events_of_dump(path, ours):
    """The events of the dump, by file; the names of fields come from our events, whose values they must have."""
    names = {event.name: list(event.fields) for events in ours.values() for event in events}
    events, pending = {}, None

    def finish():
        if pending is None:
            return
        found = EVENT.match(pending)
        if not found:
            sys.exit(f"{path}: not an event: {pending!r}")
        stream = found["file"].rsplit("/", 1)[-1]
        fields = fields_of_dump(found["rest"], names.get(found["name"], []))
        event = Event(found["name"], nanoseconds(found["time"]), stream, fields)
        events.setdefault(stream, []).append(event)

    head = re.compile(r"^[A-Za-z0-9_/.-]+\.[^\s:]+: \d+\.\d{9} \(")
    # Bytes that are no UTF-8 are U+FFFD for us.
    with gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="\n") as dump:
        for line in dump:
            if head.match(line):
                finish()
                pending = line.rstrip("\n")
            elif line.startswith(("Trace set contains", "End trace set")) or not line.strip():
                finish()
                pending = None
            elif pending is not None:
                # Text with a line end in it.
                pending += "\n" + line.rstrip("\n")
    finish()
    return events


def events_of_program(program, trace):
    command = [program, "print", "-q", "--strict", "--format", "jsonl", str(trace)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    names = {}
    info = json.loads(subprocess.run([program, "info", "--json", str(trace)], check=True, capture_output=True).stdout)
    for stream in info["traces"][0]["streams"]:
        names.setdefault(stream["class"], {})[int(stream["name"].rsplit("_", 1)[1])] = stream["name"]
    events = {}
    for line in lines:
        line = json.loads(line)
        stream = names[line["stream"]][line["cpu"]]
        event = Event(line["name"], line["ns"], stream, line.get("payload", {}))
        events.setdefault(stream, []).append(event)
    return events


def compare(program, archive):
    name = archive.name.removesuffix(".tar.gz")
    dump = archive.with_name(name + SUFFIX)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        ours = events_of_program(program, folder)
    if not dump.exists():
        print(f"{name}: {sum(map(len, ours.values()))} events, without a dump to compare with")
        return True
    theirs = events_of_dump(dump, ours)
    count, set_apart = sum(map(len, theirs.values())), 0
    for stream in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(stream, []), theirs.get(stream, [])
        for at, (one, two) in enumerate(zip(mine, other)):
            if one != two and one.edited() == two:
                set_apart += 1
            elif one != two:
                print(f"FAIL {name}: event {at} of {stream}\n  ours {one}\n  LTTV {two}")
                return False
        if len(mine) != len(other):
            print(f"FAIL {name}: {len(mine)} events in {stream}, LTTV has {len(other)}")
            return False
    print(f"{name}: {count} events of {len(theirs)} files equal in name, time and every field; {set_apart} set apart for edits")
    return count > 0


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    archives = sorted(pathlib.Path(sys.argv[2]).glob("*.tar.gz"))
    results = [compare(sys.argv[1], archive) for archive in archives]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
