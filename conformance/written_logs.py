#!/usr/bin/env python3
"""Writes traces as CPEL and as event logs of VPP, and reads these with a reader of its own, by the rules of the programs
that open them: cpeldump and G2 for CPEL, elog_dump for VPP's logs. Texts, tracks and times must be those that tracemill
shows of the files.

    written_logs.py PROGRAM TRACE...

The last line counts: `N passed, M failed`.
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile


class Broken(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Broken(what)


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, errors="surrogateescape")


def show(octets):
    return octets.decode("utf-8", "replace")


def expand(template, value, strings):
    """printf of one argument, as far as written files use it."""
    def one(match):
        letter = match.group(1)
        if letter == b"%":
            return b"%"
        if letter == b"s":
            return strings(value)
        signed = value - (1 << 32) if value >> 31 else value
        return {b"d": b"%d" % signed, b"u": b"%d" % value, b"#x": b"%#x" % value if value else b"0",
                b"#o": b"0%o" % value if value else b"0"}[letter]
    return re.sub(rb"%(%|s|d|u|#x|#o)", one, template)


def read_cpel(data):
    """As cpeldump does: big endian and version 1, types 1 to 5 only, string tables before what names them."""
    need(len(data) >= 8 and data[0] == 1, "no big endian file of version 1")
    count = struct.unpack_from(">H", data, 2)[0]
    tables, codes, tracks, events, at = {}, {}, {}, [], 8
    order = []
    for _ in range(count):
        need(at + 8 <= len(data), "a section behind the end")
        kind, length = struct.unpack_from(">II", data, at)
        body = data[at + 8:at + 8 + length]
        at += 8 + length
        need(at <= len(data), "a section longer than the file")
        need(1 <= kind <= 5, f"a section of type {kind}")
        order.append(kind)
        if kind == 1:
            need(length % 4 == 0, "a string table that is not padded")
            need(body.endswith(b"\0"), "a string table without an end")
            name = body[:body.index(b"\0")]
            need(name not in tables, "two string tables of one name")
            tables[name] = body
            continue
        name = body[:64]
        need(b"\0" in name, "a table name without an end")
        need(name.rstrip(b"\0") in tables, "a section before its string table")
        table = tables[name.rstrip(b"\0")]

        def string(offset, table=table):
            need(0 < offset < len(table), f"the offset {offset}")
            return table[offset:table.index(b"\0", offset)]

        number = struct.unpack_from(">I", body, 64)[0]
        size, head = {2: (8, 68), 3: (12, 68), 4: (8, 68), 5: (20, 72)}[kind]
        need(len(body) == head + size * number, "a count that is not that of the section")
        records = [struct.unpack_from(f">{size // 4}I", body, head + size * one) for one in range(number)]
        if kind == 3:
            need(records == sorted(records), "event definitions that are not sorted")
            for code, form, datum in records:
                need(code not in codes and code > 0, "a code twice, or 0")
                codes[code] = (string(form), string(datum))
        elif kind == 4:
            need(records == sorted(records), "track definitions that are not sorted")
            for track, form in records:
                need(track not in tracks and track < 65536, "a track twice, or one that viewers show as a number")
                tracks[track] = string(form)
        elif kind == 5:
            rate = struct.unpack_from(">I", body, 68)[0]
            for high, low, track, code, datum in records:
                need(code in codes and track in tracks, "an event without a definition")
                form, of_datum = codes[code]
                ns = None
                if rate:
                    ns = (high << 32 | low) * 10**9 // (rate if rate >= 100000 else rate * 10**6)
                events.append((ns, show(expand(form, code, string)), show(expand(tracks[track], track, string)),
                               show(expand(of_datum, datum, string))))
    need(at == len(data), "octets behind the last section")
    need(order[:3] == [1, 3, 4] and set(order[3:]) == {5}, f"sections in the order {order}")
    return events


class Octets:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        need(self.at + length <= len(self.data), "the end of the file")
        self.at += length
        return self.data[self.at - length:self.at]

    def number(self, length):
        if length == 8:
            low = self.number(4)
            return self.number(4) << 32 | low
        return int.from_bytes(self.take(length), "big")

    def string(self):
        first = self.take(1)[0]
        if first & 1:
            return self.take(first >> 1)
        if first & 2:
            return self.take(128 + (first >> 2) + (self.take(1)[0] << 6))
        if first & 4:
            return self.take(16512 + (first >> 3) + (int.from_bytes(self.take(3), "little") << 5))
        return self.take(int.from_bytes(self.take(8), "little"))


def read_elog(data):
    octets = Octets(data)
    need(octets.number(4) == 7 and octets.take(7) == b"elog v0", "no magic")
    ring = octets.number(4)
    saved, _, start, _ = (octets.number(8) for _ in range(4))
    need(saved >= start, "a log that was saved before it began")
    start = start if start >= 10**18 else start + 1490885108 * 10**9
    types = []
    for index in range(octets.number(4)):
        form, args = octets.string(), octets.string()
        need(octets.number(4) == index + 1, "the number of a type")
        labels = [octets.string() for _ in range(octets.number(4))]
        args = [(chr(letter), int(size)) for letter, size in zip(args[::2], args[1::2].decode())]
        need(sum(size for _, size in args) <= 20, "more than 20 octets of arguments")
        types.append((form, args, labels))
    tracks = [octets.string() for _ in range(octets.number(4))]
    strings = octets.take(octets.number(4))
    count = octets.number(4)
    need(ring >= count and ring & (ring - 1) == 0, "a ring that is not a power of two, or too small")
    events = []
    for _ in range(count):
        of, track = octets.number(2), octets.number(2)
        need(of < len(types) and track < len(tracks), "a type or a track that is not there")
        seconds = struct.unpack(">d", struct.pack(">Q", octets.number(8)))[0]
        form, args, labels = types[of]
        values = []
        for letter, size in args:
            value = octets.number(size)
            if letter == "t":
                need(value < len(labels), "a string of an enumeration that is not there")
                value = labels[value]
            elif letter == "T":
                need(value < len(strings), "an offset behind the string table")
                value = strings[value:strings.index(b"\0", value)]
            elif letter == "f":
                value = struct.unpack(">d" if size == 8 else ">f", value.to_bytes(size, "big"))[0]
            values.append(value)
        # Floats have too many forms of text to be compared.
        has_floats = any(letter == "f" for letter, _ in args)
        left = iter(values)

        def one(match):
            letter = match.group(1)
            if letter == b"%":
                return b"%"
            value = next(left)
            if letter == b"s":
                return value
            if letter in (b"d", b"Ld"):
                bits = 64 if letter == b"Ld" else 32
                return b"%d" % (value - (1 << bits) if value >> (bits - 1) else value)
            return {b"u": b"%d", b"Lu": b"%d", b"x": b"%x", b"Lx": b"%x"}[letter] % value

        text = None if has_floats else show(re.sub(rb"%(%|s|d|Ld|u|Lu|x|Lx)", one, form))
        events.append((start + int(seconds * 1e9), show(form), show(tracks[track]), text))
    need(octets.at == len(data), "octets behind the last event")
    return events


def check(program, form, trace, output):
    done = run(program, "convert", "--quiet", "--to", form, "-o", output, trace)
    need(done.returncode in (0, 3), done.stderr.strip())
    with open(output, "rb") as file:
        read = (read_cpel if form == "cpel" else read_elog)(file.read())
    shown = run(program, "print", "--quiet", "--format", "jsonl", output)
    need(shown.returncode == 0, "print: " + shown.stderr.strip())
    found = []
    for line in shown.stdout.split("\n"):
        if line:
            event = json.loads(line)
            payload = event["payload"]
            text = payload["datum_text" if form == "cpel" else "text"]
            found.append((event["ns"], event["name"], payload["track_name"], text))
    need(len(read) == len(found), f"{len(read)} events, and {len(found)} that are shown")
    none = lambda event: tuple((value is not None, value or 0 if at == 0 else value or "") for at, value in enumerate(event))
    for left, right in zip(sorted(read, key=none), sorted(found, key=none)):
        left = left if left[3] is not None else left[:3] + (right[3],)
        need(left == right, f"{left} is shown as {right}")
    done = run(program, "check", "--quiet", output)
    need(done.returncode == 0, "check: " + done.stderr.strip())
    return len(read)


def main():
    program, traces = sys.argv[1], sys.argv[2:]
    passed = failed = events = 0
    for trace in traces:
        for form in ("cpel", "elog"):
            # As themselves logs stay what they are.
            if run(program, "info", "--json", trace).stdout.find(f'"format":"{form}"') >= 0:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    events += check(program, form, trace, os.path.join(scratch, "log." + form))
                    passed += 1
                except Broken as broken:
                    failed += 1
                    print(f"FAIL {trace} as {form}: {broken}")
    print(f"{events} events")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
