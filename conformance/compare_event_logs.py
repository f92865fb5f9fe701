#!/usr/bin/env python3
"""Compare what the program reads of CPEL files and VPP event logs with saved outputs of cpeldump and elog_dump.

    compare_event_logs.py BIN CORPUS_DIR

A case of the corpus is a folder with `trace.cpel` and `expected.cpeldump.txt`, or `trace.elog` and
`expected.elog_dump.txt`; or with `NAME.cpel` and `NAME.cpeldump.txt` and the like. The lines of the peers are made from
ours: the same time, track, event name and text, in their columns. Known differences are set apart, and counted:

cpeldump prints a NUL octet for `%c` of 0; the name of the string table where a format has the offset 0; `%d` for an
event and `0x%08x` for a datum without definition.
elog_dump prints an error text for a line with `%%`; cuts numbers that are longer than their width; rounds the last
digit of times. Exit status 0 when nothing else differs.
"""
import json, pathlib, re, subprocess, sys


def run(binary, *args):
    done = subprocess.run([binary, *args], capture_output=True, timeout=120)
    return done.stdout.decode("utf-8")


def lines_of(binary, trace, *options):
    """Events as JSON, each with its text line without the time."""
    events = [json.loads(line) for line in run(binary, "print", "-q", "--format", "jsonl", *options, trace).split("\n") if line]
    text = run(binary, "print", "-q", "--no-delta", *options, trace).split("\n")[:-1]
    assert len(text) == len(events), "text and JSON lines differ in number"
    for event, line in zip(events, text):
        event["line"] = line.split("] ", 1)[1] if event["ns"] is not None else line
    return events


def tables(binary, trace):
    info = json.loads(run(binary, "info", "--json", "-q", trace))["traces"][0]
    return info, {section["title"]: section["rows"] for section in info["sections"]}


def plain(text):
    """Control characters as a text line shows them."""
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return re.sub("[\x00-\x1f\x7f]", lambda c: short.get(c[0], f"\\x{ord(c[0]):02x}"), text)


def compare_cpel(binary, trace, golden):
    # The peer takes every rate as ticks per second.
    events = lines_of(binary, trace, "--clock-rate-unit", "s")
    _, sections = tables(binary, trace)
    rates = {row["section"]: row["clock_rate"] for row in sections["sections"] if row["type"] == 5}
    formats = {row["code"]: row for row in sections.get("event definitions", [])}
    tracks = {row["track"]: row for row in sections.get("track definitions", [])}
    width = lambda rows, key: max([5] + [len((row[key] or "").encode()) for row in rows])
    # The peer's columns count the name of the table for an offset of 0.
    table = sections["string tables"][0]["name"]
    named = lambda rows, key: [{key: row[key] or table} for row in rows]
    track_width = width(named(tracks.values(), "track_format"), "track_format")
    event_width = width(named(formats.values(), "event_format"), "event_format")
    want = golden.read_bytes().split(b"\n")[:-1]
    have, known, wrong = [], 0, []
    for section in sorted(rates):
        of = [event for event in events if event["stream"] == section]
        micros = [int(event["cycles"] / (rates[section] / 1e6)) for event in of]
        for event, micro in zip(of, micros):
            have.append((event, (micro - micros[0]) % 2**64))
    if len(have) != len(want):
        return 0, [f"{len(want)} lines expected, {len(have)} made"]
    for (event, micro), line in zip(have, want):
        payload = event["payload"]
        name, track, datum = event["name"], payload["track_name"], payload["datum_text"]
        more = f": {plain(datum)}" if datum else ""
        if event["line"] != f"{plain(track)} {plain(name)}{more}":
            wrong.append(f"text line {event['line']!r} of {payload}")
        second, minute, hour = micro // 10**6, micro // (60 * 10**6), micro // (3600 * 10**6)
        time = f"{hour:03}:{minute % 60:02}:{second % 60:02}:{micro // 1000 % 1000:03}:{micro % 1000:03}"
        column = lambda text, size: text + " " * (size - len(text.encode()))
        line = line.decode(errors="replace")
        ours = f"{time} {column(track, track_width)} {column(name, event_width)} {datum}"
        if ours == line:
            continue
        # As the peer does without a definition, or with an offset of 0.
        definition, of_track = formats.get(payload["code"]), tracks.get(payload["track"])
        if definition is None:
            name, datum = str(payload["code"] - (payload["code"] >> 31 << 32)), f"0x{payload['datum']:08x}"
        else:
            name = name if definition["event_format"] is not None else table
            datum = datum if definition["datum_format"] is not None else table
        if of_track is not None and of_track["track_format"] is None:
            track = table
        theirs = f"{time} {column(track, track_width)} {column(name, event_width)} {datum}"
        # The NUL fills a column of a width; ours fills it with a blank.
        if ours in (line.replace("\0", ""), line.replace("\0", " ")) or line == theirs:
            known += 1
        else:
            wrong.append(f"want {line!r}\n    have {theirs!r}")
    return known, wrong


def compare_elog(binary, trace, golden):
    events = lines_of(binary, trace)
    info, _ = tables(binary, trace)
    start = info["environment"]["started_ns"]
    want = golden.read_text(encoding="utf-8", errors="replace").split("\n")[1:-1]
    known, wrong = 0, []
    if len(want) != len(events):
        return 0, [f"{len(want)} lines expected, {len(events)} made"]
    for event, line in zip(events, want):
        payload = event["payload"]
        if event["line"] != f"{plain(payload['track_name'])}: {plain(payload['text'])}":
            wrong.append(f"text line {event['line']!r} of {payload}")
        if "**** CLIB" in line:
            known += 1
            assert "%%" in event["name"]
            continue
        seconds, text = line[:18].strip(), line[19:]
        theirs = int(seconds.split(".")[0] or 0) * 10**9 + int(seconds.split(".")[1])
        ours = f"{payload['track_name'][:24]:<24} {payload['text']}"
        if abs(event["ns"] - start - theirs) > 1:
            wrong.append(f"time {seconds} of the peer, {event['ns'] - start} ns of ours")
        elif text != ours:
            # A number as long as its width is what a cut one looks like.
            cut = re.search(r"%[-+=]?[1-9]\d*[dux]", event["name"]) and len(text) < len(ours)
            known += bool(cut)
            if not cut:
                wrong.append(f"want {text!r}\n    have {ours!r}")
    return known, wrong


def cases(root):
    for golden in sorted(root.rglob("*dump.txt")):
        kind = "cpel" if golden.name.endswith("cpeldump.txt") else "elog"
        stem = golden.name.split(".")[0]
        trace = golden.parent / f"{'trace' if stem == 'expected' else stem}.{kind}"
        if trace.exists():
            yield kind, trace, golden


def main():
    binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
    failed, count = 0, 0
    for kind, trace, golden in cases(root):
        count += 1
        compare = compare_cpel if kind == "cpel" else compare_elog
        known, wrong = compare(binary, str(trace), golden)
        failed += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok'} {trace.parent.name}/{trace.name}: {known} known differences")
        for difference in wrong[:3]:
            print(f"    {difference}")
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed or not count else 0


sys.exit(main())
