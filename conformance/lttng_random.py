#!/usr/bin/env python3
"""Random traces of legacy LTTng (0.7, 0.8, and 2.0 to 2.6), written by the rules of the formats, and what must come out.

Usage: lttng_random.py PROGRAM [--count N] [--seed S] [--damage] [--convert] [--keep FOLDER] [--write FOLDER]

Each trace is written to a temporary folder and printed as JSON lines; name, time, cycles, CPU and payload of every event
must be those that were written. With --damage bytes are then changed or files cut: the program must end by itself, with
one of its exit codes, and give all events of the files that were not touched. With --convert each trace is also written
as itself (copied, and anew), converted to CTF 2 and back, and all of these must have the same lines; of damaged ones, whose
definitions may say anything, only the events of sound files. Knows nothing of the program's code.
"""

import argparse
import json
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

MAGIC = 0x00D6B7ED
ARCHES = ["", "i386", "ppc", "sh", "s390", "mips", "arm", "ppc64", "x86_64", "c2", "powerpc"]


def pad(at, align, most):
    step = min(align, most)
    return (-at) % step if step else 0


def text(raw):
    return raw.decode("utf-8", "replace")


def real(value):
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


# The facility formats.


class Type:
    """A type of the definition language, with all that its layout needs."""

    def __init__(self, kind, **rest):
        self.kind = kind
        self.__dict__.update({"format": None, "network": False, "size": 0, "labels": [], "kids": [], "named": None})
        self.__dict__.update(rest)


SIGNED = {"int_fixed", "char", "short", "int", "long", "ssize_t"}
WORDS = {
    "char": "signed char", "uchar": "unsigned char", "short": "short", "ushort": "unsigned short", "int": "int",
    "uint": "uint", "long": "long", "ulong": "unsigned long", "pointer": "void *", "size_t": "size_t",
    "ssize_t": "ssize_t", "off_t": "off_t", "string": "string", "enum": "enum", "struct": "struct", "union": "union",
    "sequence": "sequence ",
}
LENGTHS = ["uchar", "ushort", "uint", "ulong", "size_t", "uint_fixed"]
SCALARS = [
    "int_fixed", "uint_fixed", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "pointer", "size_t",
    "ssize_t", "off_t", "float", "enum",
]


class Facility:
    def __init__(self, rng, name, number, machine):
        self.rng, self.name, self.id, self.machine = rng, name, number, machine
        wide = machine.arch_size
        self.int, self.long = rng.choice([4, 4, 4, 2, 8]), rng.choice([wide, 4, 8])
        self.pointer, self.size_t = rng.choice([wide, wide, 4, 8]), rng.choice([wide, 4, 8])
        self.align = rng.choice([machine.alignment, machine.alignment, 0, 1, 2, 4, 8])
        self.types = {}
        for at in range(rng.randrange(3)):
            kind = self.type(2, True)
            kind.named = f"type_{at}"
            self.types[kind.named] = kind
        self.events = []
        for at in range(rng.randrange(1, 7)):
            fields = [(f"f{n}", self.type(0)) for n in range(rng.choice([0, 1, 1, 2, 3, 5, 8]))]
            self.events.append((f"event_{at}", fields, False))

    def scalar(self, kinds=SCALARS):
        rng = self.rng
        kind = Type(rng.choice(kinds))
        if kind.kind in ("int_fixed", "uint_fixed"):
            kind.size = rng.choice([1, 2, 4, 8])
        if kind.kind == "float":
            kind.size = rng.choice([4, 8])
        if kind.kind == "enum":
            value = -1
            for at in range(rng.randrange(1, 6)):
                given = rng.random() < 0.4
                value = rng.randrange(-3, 40) if given else value + 1
                kind.labels.append((f"L{at}", value, given))
        elif rng.random() < 0.15:
            kind.network = True
        if rng.random() < 0.1 and kind.kind not in ("enum", "float"):
            kind.format = rng.choice(["%x", "%#lx", "%d", "%o"])
        return kind

    def type(self, depth, fixed=False):
        rng = self.rng
        draw = rng.random()
        if self.types and draw < 0.1:
            return rng.choice(list(self.types.values()))
        if depth > 2 or draw < 0.6:
            return self.scalar()
        if draw < 0.72 and not fixed:
            return Type("string")
        if draw < 0.8:
            return Type("array", size=rng.randrange(1, 6), kids=[("", self.type(depth + 1, fixed))])
        if draw < 0.88 and not fixed:
            length = self.scalar(LENGTHS)
            length.format = None
            return Type("sequence", kids=[("", length), ("", self.type(depth + 1))])
        names = [(f"m{n}", self.type(depth + 1, fixed)) for n in range(rng.randrange(1, 4))]
        # The format does not say what follows a union of strings: members of unions have fixed sizes.
        if draw < 0.94 and all(self.is_fixed(kind) for _, kind in names):
            return Type("union", kids=names)
        return Type("struct", kids=names)

    def is_fixed(self, kind):
        return kind.kind not in ("string", "sequence") and all(self.is_fixed(kid) for _, kid in kind.kids)

    # Layout.

    def bytes(self, kind):
        return {
            "int_fixed": kind.size, "uint_fixed": kind.size, "float": kind.size, "char": 1, "uchar": 1, "short": 2,
            "ushort": 2, "int": self.int, "uint": self.int, "enum": self.int, "long": self.long, "ulong": self.long,
            "pointer": self.pointer, "size_t": self.size_t, "ssize_t": self.size_t, "off_t": self.size_t,
        }[kind.kind]

    def alignment(self, kind):
        if kind.kind == "string":
            return 1
        if kind.kind == "array":
            return self.alignment(kind.kids[0][1])
        if kind.kind in ("sequence", "struct", "union"):
            return max(self.alignment(kid) for _, kid in kind.kids)
        return self.bytes(kind)

    def pad(self, out, align):
        out.extend(self.rng.randbytes(pad(len(out), self.align, align)))

    def number(self, kind, value, size):
        big = kind.network or self.machine.big
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "big" if big else "little")

    def write(self, kind, out):
        """Appends a random value; its JSON."""
        rng = self.rng
        if kind.kind == "string":
            raw = rng.choice([b"", b"a", b"/etc/passwd", "gr\u00fc\u00df".encode(), b"bad \xff\xe2\x82 bytes", b"some words"])
            out.extend(raw + b"\0")
            self.pad(out, self.pointer)
            return text(raw)
        if kind.kind == "array":
            self.pad(out, self.alignment(kind))
            return [self.write(kind.kids[0][1], out) for _ in range(kind.size)]
        if kind.kind == "sequence":
            length, element = kind.kids[0][1], kind.kids[1][1]
            self.pad(out, max(self.alignment(length), self.alignment(element)))
            count = rng.choice([0, 1, 2, 5])
            out.extend(self.number(length, count, self.bytes(length)))
            self.pad(out, self.alignment(element))
            values = [self.write(element, out) for _ in range(count)]
            self.pad(out, self.pointer)
            return values
        if kind.kind == "struct":
            self.pad(out, self.alignment(kind))
            return {name: self.write(kid, out) for name, kid in kind.kids}
        if kind.kind == "union":
            self.pad(out, self.alignment(kind))
            start, images = len(out), []
            for _, kid in kind.kids:
                part = bytearray(out)
                self.write(kid, part)
                images.append(bytes(part[start:]))
            out.extend(max(images, key=len))
            return {name: self.read(kid, out, start)[0] for name, kid in kind.kids}
        size = self.bytes(kind)
        self.pad(out, size)
        start = len(out)
        out.extend(self.image(kind, size))
        return self.read(kind, out, start)[0]

    def image(self, kind, size):
        rng = self.rng
        if kind.kind == "float":
            return rng.choice([rng.randbytes(size), struct.pack("<f" if size == 4 else "<d", rng.uniform(-9, 9))])
        value = rng.choice([0, 1, rng.randrange(40), -1, rng.getrandbits(64)])
        return self.number(kind, value, size)

    def read(self, kind, out, at):
        """The JSON of a type of fixed size that lies in bytes, and where it ends."""
        if kind.kind == "array":
            at += pad(at, self.align, self.alignment(kind))
            values = []
            for _ in range(kind.size):
                value, at = self.read(kind.kids[0][1], out, at)
                values.append(value)
            return values, at
        if kind.kind == "struct":
            at += pad(at, self.align, self.alignment(kind))
            values = {}
            for name, kid in kind.kids:
                values[name], at = self.read(kid, out, at)
            return values, at
        if kind.kind == "union":
            at += pad(at, self.align, self.alignment(kind))
            both = {name: self.read(kid, out, at) for name, kid in kind.kids}
            return {name: value for name, (value, _) in both.items()}, max(end for _, end in both.values())
        size = self.bytes(kind)
        at += pad(at, self.align, size)
        raw = bytes(out[at : at + size])
        if kind.kind == "float":
            big = kind.network or self.machine.floats_big
            return real(struct.unpack((">" if big else "<") + ("f" if size == 4 else "d"), raw)[0]), at + size
        big = kind.network or self.machine.big
        value = int.from_bytes(raw, "big" if big else "little", signed=kind.kind in SIGNED or kind.kind == "enum")
        if kind.kind == "enum":
            return {"value": value, "labels": [name for name, of, _ in kind.labels if of == value]}, at + size
        return value, at + size

    # Text.

    def xml(self, dialect):
        rng = self.rng
        quote = (lambda value: f'"{value}"') if dialect > 1 else (lambda value: rng.choice([f'"{value}"', f"{value}"]))
        close = {1: "", 2: "", 3: "/"}[dialect]
        if dialect == 1:
            close = rng.choice(["", "/"])
        says = lambda: rng.choice(["", "", " <description>what it is</description> "])

        def of(kind, may_refer=True):
            if kind.named and may_refer:
                return f"<typeref name={quote(kind.named)}{close}>"
            rest = f' format="{kind.format}"' if kind.format else ""
            rest += ' byte_order="network"' if kind.network else ""
            if kind.kind in ("int_fixed", "uint_fixed", "float"):
                rest += f" size={quote(kind.size)}"
            if kind.kind == "enum":
                labels = "".join(
                    f"<label name={quote(name)}{f' value=' + chr(34) + str(value) + chr(34) if given else ''}{close}>{says()}\n"
                    for name, value, given in kind.labels
                )
                return f"<enum{rest}>{labels}</enum>"
            if kind.kind == "array":
                return f"<array size={quote(kind.size)}>{of(kind.kids[0][1])}</array>"
            if kind.kind == "sequence":
                return f"<sequence> {of(kind.kids[0][1])} {of(kind.kids[1][1])} </sequence>"
            if kind.kind in ("struct", "union"):
                return f"<{kind.kind}>{fields(kind.kids)}</{kind.kind}>"
            return f"<{kind.kind}{rest}{close}>"

        def fields(all_of):
            return "".join(f"\n  <field name={quote(name)}>{says()}{of(kind)}</field>" for name, kind in all_of)

        out = "" if dialect == 1 else '<?xml version="1.0"?>\n'
        out += f"<facility name={quote(self.name)}>{says()}\n"
        for name, kind in self.types.items():
            out += f"<type name={quote(name)}>{of(kind, False)}</type>\n"
        for name, own, compact in self.events:
            rest = ' attribute="compact_data"' if compact else ""
            out += f"<event name={quote(name)}{rest}{' per_trace' if dialect == 1 and rng.random() < 0.3 else ''}>{says()}"
            out += f"{fields(own)}\n</event>\n" + rng.choice(["", "/* a comment */\n", "// another <one>\n"] if dialect < 3 else [""])
        return out + "</facility>\n"

    def checksum(self):
        crc = zlib.crc32(self.name.encode())
        more = lambda crc, word: zlib.crc32(word.encode(), crc ^ 0xFFFFFFFF) ^ 0xFFFFFFFF

        def of(crc, kind):
            if kind.kind in ("int_fixed", "uint_fixed"):
                crc = more(crc, f"{'u' if kind.kind[0] == 'u' else ''}int{8 * kind.size}_t")
            elif kind.kind == "float":
                crc = more(crc, "float" if kind.size == 4 else "double")
            elif kind.kind == "array":
                crc = more(crc, f"array {kind.size}")
            else:
                crc = more(crc, WORDS[kind.kind])
            crc = more(crc, kind.format or "")
            for name, kid in kind.kids:
                crc = of(more(crc, name), kid)
            for name, _, _ in kind.labels:
                crc = more(crc, name)
            return crc

        for name, own, _ in self.events:
            crc = more(crc, name)
            for field, kind in own:
                crc = of(more(crc, field), kind)
        return crc


class Machine:
    def __init__(self, rng):
        self.big = rng.random() < 0.4
        self.arch = rng.randrange(1, 11)
        self.arch_size = rng.choice([4, 8])
        self.alignment = rng.choice([0, 0, 1, 2, 4, 8])
        self.minor = rng.choice([7, 7, 8])
        self.floats_big = rng.random() < 0.5
        self.freq, self.scale = rng.choice([(3_000_000, 1000), (250, 4), (1_000_000, 1000), (999_983, 1000), (1000, 1)])
        self.tsc = rng.choice([1000, 5 << 32, (7 << 32) - 100])
        self.sec, self.usec = rng.choice([(0, 0), (1_140_000_000, 123_456), (5, 999_999)])
        self.truncate = rng.randrange(0, 8)
        self.tscbits = rng.randrange(16, 26)

    def pack(self, form, *values):
        return struct.pack((">" if self.big else "<") + form, *values)

    def ns(self, tsc):
        hz = self.freq * self.scale
        if (self.sec, self.usec) == (0, 0):
            return tsc * 10**9 // hz
        return self.sec * 10**9 + self.usec * 1000 + (tsc - self.tsc) * 10**9 // hz

    def block(self, begin, end, heartbeat, events, lost):
        """A block: `events` appends to what it is given."""
        out = bytearray(self.pack("QQQQII", begin, self.freq, end, self.freq, 0, 0))
        out += self.pack("IIIIBBBBBB", MAGIC, self.arch, 0, 4321 if self.floats_big else 1234, self.arch_size, 0,
                         self.minor, 0, heartbeat, self.alignment)
        if self.minor == 8:
            out += bytes([self.truncate, self.tscbits])
        out += self.pack("IQQQQQ", self.scale, self.freq, self.tsc, 0, self.sec, self.usec)
        events(out)
        out += bytes(lost)
        out[32:40] = self.pack("II", lost, len(out))
        return bytes(out)

    def event(self, out, heartbeat, tsc, facility, number, data, computed=False):
        align = min(self.alignment, self.arch_size)
        out += bytes((-len(out)) % align if align else 0)
        out += self.pack("IBB", tsc & 0xFFFFFFFF, facility, number) if heartbeat else self.pack("QBB", tsc, facility, number)
        out += self.pack("H", 0xFFFF if computed or len(data) > 0xFFFF else len(data))
        out += bytes((-len(out)) % align if align else 0)
        out += data

    def load(self, facility):
        data = facility.name.encode() + b"\0"
        align = min(self.alignment, self.arch_size)
        data += bytes((-len(data)) % align if align else 0)
        return data + self.pack("7I", facility.checksum_told, facility.id, facility.int, facility.long,
                                facility.pointer, facility.size_t, facility.align)


CORE7 = ["facility_load", "facility_unload", "time_heartbeat", "state_dump_facility_load"]
CORE8 = ["facility_load", "facility_unload", "time_heartbeat", "heartbeat_full", "state_dump_facility_load"]


def facility_trace(rng, root):
    """Writes a trace; the lines of each file."""
    machine = Machine(rng)
    core = CORE7 if machine.minor == 7 else CORE8
    names = rng.sample(["alpha", "fs", "kernel", "beta_arch", "gamma", "x"], rng.randrange(1, 5))
    numbers = rng.sample(range(1, 256), 6)
    facilities = [Facility(rng, name, number, machine) for name, number in zip(names, numbers)]
    compact = None
    if machine.minor == 8 and rng.random() < 0.6:
        compact = Facility(rng, "compact", numbers[5], machine)
        changed = []
        for name, own, _ in compact.events:
            if rng.random() < 0.6:
                first = compact.scalar(["uint", "int", "ushort", "uint_fixed", "enum", "ulong"])
                own, is_compact = [("packed", first), *own], True
            else:
                is_compact = False
            changed.append((name, own, is_compact))
        compact.events = changed
        facilities.append(compact)
    (root / "eventdefs").mkdir(parents=True)
    (root / "control").mkdir()
    dialect = rng.choice([1, 2, 3])
    for facility in facilities:
        facility.checksum_told = facility.checksum()
        name = facility.name
        name += rng.choice(["", f"_{facility.checksum_told}"] + ([f"_{ARCHES[machine.arch]}"] if name.endswith("_arch") else []))
        (root / "eventdefs" / f"{name}.xml").write_text(facility.xml(dialect))
    lines = {}

    def write(file, heartbeat, fill, is_compact=False):
        cpu = int(file.rsplit("_", 1)[1])
        out, tsc = b"", machine.tsc + rng.randrange(1000)
        own = lines.setdefault(file, [])
        for _ in range(rng.randrange(1, 5)):
            begin = tsc
            clock = [begin]

            def events(block):
                fill(block, heartbeat, clock, own, cpu)

            lost = rng.choice([0, 0, 7, 4096])
            out += machine.block(begin, begin, heartbeat, events, lost)
            # The end is known when the events are.
            end = clock[0] + rng.randrange(50)
            at = len(out) - last_len(out, machine)
            out = out[: at + 16] + machine.pack("Q", end) + out[at + 24 :]
            tsc = end + rng.randrange(1, 100)
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_bytes(out)

    def last_len(out, machine):
        # Blocks lie one after the other: walk to the last one.
        at = 0
        while True:
            size = int.from_bytes(out[at + 36 : at + 40], "big" if machine.big else "little")
            if at + size >= len(out):
                return size
            at += size

    def line(name, clock, cpu, payload):
        entry = {"ns": machine.ns(clock), "cycles": clock, "name": name, "cpu": cpu}
        if payload is not None:
            entry["payload"] = payload
        return entry

    def fill_loads(block, heartbeat, clock, own, cpu):
        while fill_loads.left:
            facility = fill_loads.left.pop()
            clock[0] += rng.randrange(1, 50)
            kind = rng.choice(["facility_load", "state_dump_facility_load"])
            data = machine.load(facility)
            machine.event(block, heartbeat, clock[0], 0, core.index(kind), data)
            keys = ["name", "checksum", "id", "int_size", "long_size", "pointer_size", "size_t_size", "has_alignment"]
            values = [facility.name, facility.checksum_told, facility.id, facility.int, facility.long,
                      facility.pointer, facility.size_t, facility.align]
            own.append(line("core." + kind, clock[0], cpu, dict(zip(keys, values))))
            if rng.random() < 0.3:
                break

    def fill(block, heartbeat, clock, own, cpu):
        for _ in range(rng.randrange(0, 30)):
            clock[0] += rng.choice([0, 1, 100, 1 << 20, (1 << 32) - 1 if heartbeat else 1 << 40])
            draw = rng.random()
            if draw < 0.1:
                machine.event(block, heartbeat, clock[0], 0, 2, b"")
                own.append(line("core.time_heartbeat", clock[0], cpu, None))
                continue
            if draw < 0.13:
                machine.event(block, heartbeat, clock[0], 0, 1, machine.pack("I", 9))
                own.append(line("core.facility_unload", clock[0], cpu, {"id": 9}))
                continue
            if draw < 0.16 and machine.minor == 8:
                stamp = clock[0] + rng.choice([0, 1 << 33])
                machine.event(block, heartbeat, clock[0], 0, 3, machine.pack("Q", stamp))
                clock[0] = stamp
                own.append(line("core.heartbeat_full", stamp, cpu, {"tsc": stamp}))
                continue
            facility = rng.choice([one for one in facilities if one is not compact])
            number = rng.randrange(len(facility.events))
            name, fields, _ = facility.events[number]
            data = bytearray()
            payload = {field: facility.write(kind, data) for field, kind in fields} if fields else None
            computed = rng.random() < 0.05
            if not computed and rng.random() < 0.05:
                data += rng.randbytes(rng.randrange(1, 9))
            machine.event(block, heartbeat, clock[0], facility.id, number, bytes(data), computed)
            own.append(line(f"{facility.name}.{name}", clock[0], cpu, payload))

    def fill_compact(block, heartbeat, clock, own, cpu):
        digits = len(compact.events).bit_length()
        low, shift = (1 << machine.tscbits) - 1, machine.truncate
        for _ in range(rng.randrange(0, 30)):
            before = clock[0]
            real_clock = before + rng.choice([0, 1, 100, (low << shift) - 1])
            bits = real_clock >> shift & low
            mask = low << shift
            value = bits << shift
            clock[0] = (before & ~mask) + ((low + 1) << shift if value < before & mask else 0) | value
            number = rng.randrange(len(compact.events))
            name, fields, is_compact = compact.events[number]
            room = 32 - machine.tscbits - digits
            data = rng.getrandbits(room) if room else 0
            align = min(machine.alignment, 4)
            block += bytes((-len(block)) % align if align else 0)
            block += machine.pack("I", bits | number << machine.tscbits | data << machine.tscbits + digits)
            payload, own_data = ({} if fields else None), bytearray()
            for at, (field, kind) in enumerate(fields):
                if at == 0 and is_compact:
                    size = compact.bytes(kind)
                    payload[field] = compact.read(kind, compact.number(kind, data, size), 0)[0]
                else:
                    payload[field] = compact.write(kind, own_data)
            block += own_data
            own.append(line(f"compact.{name}", clock[0], cpu, payload))

    fill_loads.left = list(facilities)
    write("control/facilities_0", rng.random() < 0.7, fill_loads)
    if fill_loads.left:
        write("control/facilities_1", rng.random() < 0.7, lambda *rest: [fill_loads(*rest) for _ in range(20)])
    for file in ["cpu_0", "cpu_3", "flight-cpu_1", "control/processes_0"][: rng.randrange(1, 5)]:
        write(file, rng.random() < 0.7, fill)
    if compact:
        write("compact_0", True, fill_compact, True)
    return lines


# The marker formats.


def marker_trace(rng, root):
    big, minor = rng.random() < 0.4, rng.randrange(0, 7)
    arch, alignment = rng.choice([4, 8]), rng.choice([0, 0, 4, 8])
    frequency, scale = rng.choice([(1_000_000_000, 1), (1_987_809_000, 1), (1_000_003, 7), (3_000_000, 1000)])
    start = rng.choice([1000, 5 << 30])
    pack = lambda form, *values: struct.pack((">" if big else "<") + form, *values)
    number = lambda value, size, network=False: (value & (1 << 8 * size) - 1).to_bytes(size, "big" if big or network else "little")
    own = minor in (4, 5)
    step = lambda size: 1 if alignment == 0 else size if own else min(size, alignment)
    root.mkdir(parents=True)
    ticks, seconds = (frequency * scale, 1) if minor < 3 else (frequency, scale)
    per = 10**9 * seconds

    def ns(clock):
        return start * per // ticks + (clock - start) * per // ticks

    sizes = {"int": 4, "long": arch, "pointer": arch, "size_t": arch}
    plain = {
        "d": ("int", True), "u": ("int", False), "x": ("int", False), "i": ("int", True), "ld": ("long", True), "lu": ("long", False),
        "lx": ("long", False), "p": ("pointer", False), "zu": ("size_t", False), "lld": (8, True), "llu": (8, False),
        "hd": (2, True), "hu": (2, False),
    }
    channels = rng.sample(["kernel", "fs", "vm_state", "net"], rng.randrange(1, 4))
    markers = {}
    for at, channel in enumerate(channels):
        ids = rng.sample([*range(2, 29), 31, 40, 300, 4095, 65535], rng.randrange(1, 6))
        if minor < 3:
            # The markers of 2.0 to 2.2 are those of the whole trace.
            ids = [] if at else ids
        markers[channel] = {}
        for id_at, id_ in enumerate(ids):
            fields, form = [], []
            for n in range(rng.randrange(0, 6)):
                name = f"f{n}"
                draw = rng.random()
                if draw < 0.2:
                    fields.append((name, "s", 0, False, False))
                    form.append(f"{name} %s")
                elif draw < 0.45:
                    size, signed, network = rng.choice([1, 2, 4, 8]), rng.random() < 0.5, rng.random() < 0.2
                    fields.append((name, "n", size, signed, network))
                    form.append(f"{name} #{'n' if network else ''}{size}{'d' if signed else 'u'}%{rng.choice(['d', 'u', 'lu', 'lld'])}")
                else:
                    key = rng.choice(list(plain))
                    size, signed = plain[key]
                    fields.append((name, "n", sizes.get(size, size), signed, False))
                    form.append(f"{name} %{key}")
            markers[channel][id_] = (f"marker_{at}_{id_at}", fields, " ".join(form) or rng.choice(["", " ", "<none>"]))
    if minor < 3:
        everyone = markers[channels[0]]
        markers = {channel: everyone for channel in channels}
    header_len = 64 if (minor, arch) == (0, 8) else 60 if minor < 2 else 68
    lines = {}

    def payload(values):
        """Bytes from the start of the payload, its alignment, and the JSON."""
        data, most, shown = bytearray(), 1, {}
        for (name, kind, size, signed, network), value in values:
            if kind == "s":
                data.extend(value + b"\0")
                shown[name] = text(value)
                continue
            most = max(most, step(size))
            data.extend(bytes((-len(data)) % step(size)))
            raw = number(value, size, network)
            data.extend(raw)
            shown[name] = int.from_bytes(raw, "big" if big or network else "little", signed=signed)
        return bytes(data), most, shown if values else None

    def put(out, clock, before, id_, values):
        data, most, shown = payload(values)
        out += bytes((-len(out)) % step(4))
        far = clock - before >= 1 << 27
        form = "clock" if far or rng.random() < 0.1 else rng.choice(["size", "id"]) if id_ >= 29 or rng.random() < 0.2 else "short"
        head = {"clock": 29, "size": 30, "id": 31}.get(form, id_)
        out += pack("I", head << 27 | clock & 0x7FFFFFF)
        if form != "short":
            out += pack("H", id_)
        if form in ("clock", "size"):
            out += pack("H", min(len(data), 0xFFFF))
        if form == "clock":
            out += bytes((-len(out)) % step(8))
            out += pack("Q", clock)
        out += bytes((-len(out)) % most)
        out += data
        return shown

    def write(file, fill):
        cpu = int(file.rsplit("_", 1)[1])
        whole, clock = b"", start
        for _ in range(rng.randrange(1, 5)):
            begin = clock
            out = bytearray(header_len)
            clock = fill(out, clock, lines.setdefault(file, []), cpu)
            used, padding = len(out), rng.choice([0, 0, 5, 4096])
            out += bytes(padding)
            size = used if minor >= 5 else padding
            head = pack("QQ", begin, clock) + pack("I", MAGIC) + bytes([2, minor, arch, alignment])
            head += pack("QQQIIIII", 1_262_715_366, 5, frequency, scale, size, len(out), 0, 0)
            out[:header_len] = head[:header_len].ljust(header_len, b"\0")
            whole += out
            clock += rng.randrange(100)
        (root / file).write_bytes(whole)

    def line(name, clock, cpu, shown):
        entry = {"ns": ns(clock), "cycles": clock, "name": name, "cpu": cpu}
        if shown is not None:
            entry["payload"] = shown
        return entry

    left = []
    for channel, own_markers in markers.items():
        for id_, (name, fields, form) in own_markers.items():
            if minor < 3 and channel != channels[0]:
                continue
            left.append((channel, id_, name, form))

    def fill_metadata(out, clock, own_lines, cpu):
        while left:
            channel, id_, name, form = left.pop()
            first = [] if minor < 3 else [(("channel", "s", 0, False, False), channel.encode())]
            named = [*first, (("name", "s", 0, False, False), name.encode())]
            five = [(key, "n", 1, False, False) for key in ("int", "long", "pointer", "size_t", "alignment")]
            values = [*named, (("event_id", "n", 2, False, False), id_)]
            values += list(zip(five, [4, arch, arch, arch, alignment]))
            clock += 5
            own_lines.append(line("metadata.core_marker_id", clock, cpu, put(out, clock, clock - 5, 0, values)))
            clock += 5
            values = [*named, (("format", "s", 0, False, False), form.encode())]
            own_lines.append(line("metadata.core_marker_format", clock, cpu, put(out, clock, clock - 5, 1, values)))
        return clock

    def fill_channel(channel):
        def fill(out, clock, own_lines, cpu):
            for _ in range(rng.randrange(0, 30)):
                if not markers[channel]:
                    break
                before = clock
                clock += rng.choice([0, 1, 1000, (1 << 27) - 1, 1 << 27, 1 << 35])
                id_ = rng.choice(list(markers[channel]))
                name, fields, _ = markers[channel][id_]
                values = []
                for field in fields:
                    is_text = field[1] == "s"
                    values.append((field, rng.choice([b"", b"abc", b"\xffx", b"some words"]) if is_text else rng.choice([0, 1, -1, rng.getrandbits(64)])))
                own_lines.append(line(f"{channel}.{name}", clock, cpu, put(out, clock, before, id_, values)))
            return clock
        return fill

    write("metadata_0", fill_metadata)
    while left:
        write("metadata_1", fill_metadata)
    for channel in channels:
        for cpu in range(rng.randrange(1, 3)):
            write(f"{rng.choice(['', 'flight-'])}{channel}_{cpu}", fill_channel(channel))
    return lines


# Comparison.


def key(entry):
    return (entry["ns"] if entry["ns"] is not None else -1, json.dumps(entry, sort_keys=True))


def run(program, root):
    return subprocess.run([program, "print", "--progress", "never", "--format", "jsonl", str(root)], capture_output=True, timeout=60)


def parse(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def only(entry, like=("ns", "cycles", "name", "cpu", "payload")):
    return {name: entry[name] for name in like if name in entry}


def compare(program, root, lines):
    done = run(program, root)
    if done.returncode != 0:
        return f"exit status {done.returncode}: {done.stderr.decode()[:2000]}"
    found = parse(done)
    times = [entry["ns"] for entry in found]
    if times != sorted(times):
        return "the lines are not in the order of time"
    expected = sorted((entry for own in lines.values() for entry in own), key=key)
    found = sorted(map(only, found), key=key)
    for one, other in zip(expected, found):
        if one != other:
            return f"expected {json.dumps(one)}\n   found {json.dumps(other)}\n{done.stderr.decode()[:1000]}"
    if len(expected) != len(found):
        return f"{len(expected)} events were written, {len(found)} came out\n{done.stderr.decode()[:1000]}"
    return None


def damage(rng, root, lines):
    """Changes one file; its name."""
    name = rng.choice(list(lines))
    data = bytearray((root / name).read_bytes())
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data))
        draw = rng.randrange(5)
        if draw == 0:
            data[at] = rng.randrange(256)
        elif draw == 1:
            data[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"])
        elif draw == 2 and rng.random() < 0.3:
            del data[max(at, 1) :]
        elif draw == 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            data[min(at, rng.randrange(1, 120)) % len(data)] ^= 1 << rng.randrange(8)
    (root / name).write_bytes(data)
    return name


def is_of_definitions(touched):
    return "facilities_" in touched or "metadata_" in touched


def check_damaged(program, root, lines, touched):
    done = run(program, root)
    error = done.stderr.decode("utf-8", "replace")
    if done.returncode not in (0, 1, 3) or "panicked" in error:
        return f"exit status {done.returncode}: {error[:2000]}"
    # A change of definitions or of the clock may change everything.
    if is_of_definitions(touched):
        return None
    found = {}
    for entry in map(only, parse(done)):
        text_of = json.dumps(entry, sort_keys=True)
        found[text_of] = found.get(text_of, 0) + 1
    for name, own in lines.items():
        for entry in own if name != touched else []:
            text_of = json.dumps(entry, sort_keys=True)
            if found.get(text_of, 0) == 0:
                return f"damage of {touched} lost an event of {name}: {text_of}\n{error[:1000]}"
            found[text_of] -= 1
    return None


def converted(program, source, target, *options):
    command = [program, "convert", "--progress", "never", *options, "-o", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, timeout=60)
    error = done.stderr.decode("utf-8", "replace")
    return None if done.returncode in (0, 3) else f"{' '.join(command)}: exit status {done.returncode}: {error[:1000]}"


WHOLE_LINE = ("ns", "cycles", "name", "id", "stream", "cpu", "payload")


def check_conversions(program, root, lines, touched):
    """What is written of a trace has its lines."""
    # Damage of what says the version leaves nothing that can be read.
    if touched and is_of_definitions(touched) and run(program, root).returncode == 1:
        return None
    lines_of = lambda folder: sorted((only(entry, WHOLE_LINE) for entry in parse(run(program, folder))), key=key)
    expected = lines_of(root)
    steps = [("copy", root, ["--to", "lttng-legacy"]), ("anew", root, ["--to", "lttng-legacy", "--filter", "true"]),
             ("ctf2", root, ["--to", "ctf2"]), ("back", root.parent / "ctf2", ["--to", "lttng-legacy"]),
             ("big", root.parent / "ctf2", ["--to", "lttng-legacy", "--byte-order", "big"])]
    for name, source, options in steps:
        target = root.parent / name
        why = converted(program, source, target, *options)
        if why:
            return why
        # A folder without any event may be no trace.
        if name == "ctf2" or not expected:
            continue
        if touched:
            why = check_damaged(program, target, lines, touched)
            if why:
                return f"{name}: {why}"
            continue
        found = lines_of(target)
        for one, other in zip(expected, found):
            if one != other:
                return f"{name}: expected {json.dumps(one)}\n   found {json.dumps(other)}"
        if len(expected) != len(found):
            return f"{name}: {len(expected)} events, {len(found)} came out"
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--count", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--damage", action="store_true")
    arguments.add_argument("--convert", action="store_true")
    arguments.add_argument("--keep", help="folder for the traces that fail")
    arguments.add_argument("--write", help="only write the traces, to this folder")
    options = arguments.parse_args()
    failed = events = 0
    for seed in range(options.seed, options.seed + options.count):
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "trace"
            lines = (marker_trace if seed % 3 == 0 else facility_trace)(rng, root)
            events += sum(map(len, lines.values()))
            if options.write:
                shutil.copytree(root, Path(options.write) / str(seed))
                continue
            try:
                touched = None
                if options.damage:
                    touched = damage(rng, root, lines)
                    why = check_damaged(options.program, root, lines, touched)
                else:
                    why = compare(options.program, root, lines)
                if options.convert and not why:
                    why = check_conversions(options.program, root, lines, touched)
            except subprocess.TimeoutExpired:
                why = "it does not end"
            if why:
                failed += 1
                print(f"seed {seed}: {why}")
                if options.keep:
                    shutil.copytree(root, Path(options.keep) / str(seed), dirs_exist_ok=True)
    print(f"{options.count} traces, {events} events, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
