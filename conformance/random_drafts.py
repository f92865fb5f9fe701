#!/usr/bin/env python3
"""Random traces of the CTF drafts, RFC v1.1 and RFC v1.6, and what must be read of them.

    conformance/random_drafts.py target/release/tracemill [--seeds N] [--first SEED] [--keep DIR] [--write]

Each seed makes one trace, by the definition and by nothing of the reader: types, metadata text in one of its many
spellings, packets. The program prints it as JSON lines, which are compared with the expected ones; lines of one time
may stand in any order. So is what `info --packets` says. With `--write` the trace is also
written anew: as itself in the other byte order, through CTF 2 and back, and as the other draft. Needs the Python package `cryptography` for encrypted packets; without it there are none.
"""

import argparse
import bz2
import gzip
import hashlib
import json
import lzma
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:
    AESGCM = None

MAGIC = 0xC1FC1FC1


class Bits:
    """A packet that is being written, bit by bit."""

    def __init__(self, data=b""):
        self.data = bytearray(data)
        self.pos = len(self.data) * 8

    def align(self, bits):
        self.seek(-(-self.pos // bits) * bits)

    def seek(self, pos):
        self.pos = pos
        missing = -(-pos // 8) - len(self.data)
        self.data.extend(b"\0" * max(0, missing))

    def put(self, size, value, big):
        value &= (1 << size) - 1
        at = self.pos
        self.seek(at + size)
        for i in range(size):
            bit = value >> (size - 1 - i if big else i) & 1
            byte, k = divmod(at + i, 8)
            self.data[byte] |= bit << (7 - k if big else k)

    def bytes(self, data):
        assert self.pos % 8 == 0
        at = self.pos // 8
        self.seek(self.pos + len(data) * 8)
        self.data[at:at + len(data)] = data


# Types. `own` is the alignment of the type, `outer` what it asks of the structure around it.


class Int:
    def __init__(self, size, signed=False, align=None, order="native", unit=0, outer=0):
        self.size, self.signed, self.order, self.unit = size, signed, order, unit
        self.given = align
        default = 1 if unit else 8 if size % 8 == 0 else 1
        self.own = align or default
        self.outer = max(self.own, outer)

    def bounds(self):
        return (-(1 << self.size - 1), (1 << self.size - 1) - 1) if self.signed else (0, (1 << self.size) - 1)

    def random(self, r):
        low, high = self.bounds()
        pick = r.random()
        if pick < 0.3:
            return r.choice([low, high, 0, min(high, 1), max(low, -1)])
        if pick < 0.6:
            return max(low, min(high, r.randrange(-100, 200)))
        return r.randrange(low, high + 1)

    def put(self, out, value, big):
        out.put(self.size, value, is_big(self.order, big))
        return value


class Enum(Int):
    def __init__(self, base, labels):
        super().__init__(base.size, base.signed, base.own, base.order)
        self.base, self.labels = base, labels

    def random(self, r):
        if r.random() < 0.7:
            _, low, high = r.choice(self.labels)
            return r.randint(low, high)
        return super().random(r)

    def put(self, out, value, big):
        super().put(out, value, big)
        return {"value": value, "labels": [name for name, low, high in self.labels if low <= value <= high]}


class Float:
    DIGITS = {16: (5, 11), 32: (8, 24), 64: (11, 53)}

    def __init__(self, size, align=None, order="native"):
        self.size, self.order, self.given = size, order, align
        self.own = self.outer = align or 8
        self.unit = 0

    def random(self, r):
        value = r.choice([0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, r.uniform(-1000, 1000), 0.1, 65504.0])
        form = {16: "e", 32: "f", 64: "d"}[self.size]
        return struct.unpack("<" + form, struct.pack("<" + form, value))[0]

    def put(self, out, value, big):
        form = {16: "e", 32: "f", 64: "d"}[self.size]
        out.put(self.size, int.from_bytes(struct.pack(">" + form, value), "big"), is_big(self.order, big))
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return value


class Text:
    own = outer = 8
    unit = 0

    def __init__(self, ascii=False):
        self.ascii = ascii

    def random(self, r):
        pieces = [b"", b"a", b"hello world", "\u00e4\u4e16\U0001f600".encode(), b"\xff", b"x\xe4\xb8", b"\"\\\n", b"\x01"]
        return b"".join(r.choice(pieces) for _ in range(r.randrange(4)))

    def put(self, out, value, big):
        out.bytes(value + b"\0")
        if self.ascii:
            return "".join(chr(b) if b < 0x80 else "\ufffd" for b in value)
        return value.decode("utf-8", "replace")


class Struct:
    unit = 0

    def __init__(self, fields):
        self.fields = fields
        self.own = self.outer = max([kind.outer for _, kind in fields], default=1)

    def random(self, r):
        return [kind.random(r) for _, kind in self.fields]

    def put(self, out, values, big):
        start = out.pos
        return {name: put(out, kind, value, big, start) for (name, kind), value in zip(self.fields, values)}


class Array:
    unit = 0

    def __init__(self, length, element):
        self.length, self.element = length, element
        self.own = self.outer = element.own

    def random(self, r):
        return [self.element.random(r) for _ in range(self.length)]

    def put(self, out, values, big):
        return [put(out, self.element, value, big) for value in values]


class Sequence(Array):
    def __init__(self, length, element):
        self.length, self.element = length, element
        self.own = self.outer = max(length.own, element.own)

    def random(self, r):
        most = min(self.length.bounds()[1], r.choice([0, 1, 2, 5, 9]))
        return [self.element.random(r) for _ in range(r.randint(0, most))]

    def put(self, out, values, big):
        put(out, self.length, len(values), big)
        out.align(self.element.own)
        return [put(out, self.element, value, big) for value in values]


def is_big(order, big):
    return {"native": big, "be": True, "network": True, "le": False}[order]


def put(out, kind, value, big, start=0):
    """Writes a value where its type wants it; gives what a JSON line shows."""
    out.align(kind.own)
    if kind.unit:
        used = (out.pos - start) % kind.unit
        if used + kind.size > kind.unit:
            out.seek(out.pos + kind.unit - used)
    return kind.put(out, value, big)


class Maker:
    """Random types, and their names in a metadata text."""

    def __init__(self, r, dialect, natural):
        self.r, self.dialect, self.natural = r, dialect, natural
        self.text = []
        self.names = {}
        self.count = 0
        # The word size of the machine whose natural alignment it is.
        self.machine = r.choice([32, 64])
        self.plain = {}
        for size in (8, 16, 32, 64):
            self.plain[size] = Int(size, align=self.natural_align(size))

    def natural_align(self, size):
        return min(size, self.machine) if self.natural and size in (8, 16, 32, 64) else None

    def new(self, prefix="t"):
        self.count += 1
        return f"{prefix}{self.count}"

    def integer(self, sizes=None):
        r = self.r
        if r.random() < 0.35:
            return self.plain[r.choice([8, 16, 32, 64])]
        size = r.choice(sizes or [8, 8, 16, 32, 64, 24, r.randint(1, 64), r.randint(1, 12)])
        align = r.choice([None, None, self.natural_align(size), r.choice([1, 2, 4, 8, 16, 32, 64])])
        order = "native"
        # A field of another order must begin on a byte, and end there for what comes after.
        if size % 8 == 0 and (align or 8) >= 8:
            order = r.choice(["native", "native", "be", "le", "network"])
        return Int(size, r.random() < 0.4, align, order)

    def enum(self):
        r = self.r
        base = self.integer([8, 16, 32, r.randint(2, 12)])
        low, high = base.bounds()
        labels = []
        for at in range(r.randint(1, 5)):
            first = r.choice([r.randint(max(low, -20), min(high, 20)), r.randint(low, high)])
            last = first if r.random() < 0.6 else min(high, first + r.randint(0, 9))
            labels.append((r.choice(["ON", "OFF", "struct", "two words", "a-b"]) + str(at), first, last))
        return Enum(base, labels)

    def bit_field(self):
        r = self.r
        unit = self.unit_type()
        size = r.randint(1, unit.size)
        if self.dialect == 11:
            align = r.choice([None, None, None, 8])
            return Int(size, unit.signed, align, "native", unit.size, unit.size)
        return Int(size, unit.signed, 1, "native", unit.size, unit.own)

    def unit_type(self):
        size = self.r.choice([8, 16, 32, 64])
        return Int(size, self.r.random() < 0.4, self.natural_align(size) or 8)

    def element(self, depth):
        return self.kind(depth, False)

    def kind(self, depth, in_struct=True):
        r = self.r
        pick = r.random()
        if depth > 3 or pick < 0.42:
            return self.integer()
        if pick < 0.52:
            return self.enum()
        if pick < 0.60:
            sizes = [32, 64, 32, 64, 16]
            size = r.choice(sizes)
            return Float(size, r.choice([None, None, self.natural_align(size), 8]), r.choice(["native", "native", "be", "le"]))
        if pick < 0.70:
            return Text(r.random() < 0.3)
        if pick < 0.78 and in_struct:
            return self.bit_field()
        if pick < 0.86:
            return self.struct(depth + 1)
        if pick < 0.93:
            return Array(r.choice([0, 1, 2, 3, 7]), self.element(depth + 1))
        length = r.choice([self.plain[8], self.plain[16], self.plain[32], Int(r.randint(3, 16)), Int(8, True)])
        if r.random() < 0.15:
            length = Enum(self.plain[8], [("FEW", 0, 3)])
        return Sequence(length, self.element(depth + 1))

    def struct(self, depth=0, most=5):
        fields = []
        for at in range(self.r.randint(0, most)):
            name = self.r.choice(["a", "len", "name", "value", "x_", "_y", "id", "timestamp"]) + str(at)
            fields.append((name, self.kind(depth)))
        return Struct(fields)

    # Text.

    def number(self, value):
        r = self.r
        if value < 0 or r.random() < 0.7:
            return str(value)
        if r.random() < 0.5:
            return hex(value) + r.choice(["", "u", "UL"])
        return "0" + oct(value)[2:] if value else "0"

    def word(self, text):
        plain = text.replace("_", "a").isalnum() and not text[0].isdigit()
        if plain and self.r.random() < 0.5:
            return text
        return '"' + text + '"'

    def gap(self):
        return self.r.choice([" ", " ", " ", "\n", "\t", " /* note */ ", " // end\n"])

    def boolean(self, value):
        return self.r.choice(["true", "TRUE", "1"] if value else ["false", "FALSE", "0"])


class Text11(Maker):
    """The language of v1.1."""

    def semi(self):
        return self.r.choice([";", "; ", " ;\n"])

    def dot(self):
        return self.r.choice(["", "", "", "."])

    def attributes(self, pairs):
        self.r.shuffle(pairs)
        return "{" + self.gap() + "".join(f"{self.dot()}{key} = {value}{self.semi()}" for key, value in pairs) + "}"

    def int_pairs(self, kind, parent):
        r = self.r
        pairs = [("parent", parent), ("size", self.number(kind.size))]
        if kind.signed or r.random() < 0.3:
            pairs.append(("signed", self.boolean(kind.signed)))
        if kind.order != "native" or r.random() < 0.2:
            pairs.append(("byte_order", kind.order))
        if kind.given:
            pairs.append(("align", self.number(kind.given)))
        return pairs

    def body(self, kind):
        r = self.r
        if isinstance(kind, Enum):
            pairs = self.int_pairs(kind.base, "enum")
            pairs = [(key, value) for key, value in pairs if key != "align"] + [("align", self.number(kind.own))]
            labels = []
            for name, low, high in kind.labels:
                value = self.number(low) if low == high else f"{{ {self.number(low)}, {self.number(high)} }}"
                labels.append(f"{{ {value}, {self.word(name)}{r.choice(['', ','])} }}")
            pairs.append(("map", "{ " + r.choice([", ", " "]).join(labels) + r.choice([",", ""]) + " }"))
            return self.attributes(pairs)
        if isinstance(kind, Int):
            pairs = self.int_pairs(kind, "gcc_bitfield" if kind.unit else "integer")
            if kind.unit:
                pairs.append(("unit_size", self.number(kind.unit)))
            return self.attributes(pairs)
        if isinstance(kind, Float):
            exponent, mantissa = Float.DIGITS[kind.size]
            pairs = [("parent", "floating_point"), ("exp_dig", exponent), ("mant_dig", mantissa), ("byte_order", kind.order)]
            if kind.given:
                pairs.append(("align", kind.given))
            return self.attributes(pairs)
        if isinstance(kind, Text):
            return self.attributes([("parent", "string"), ("encoding", "ASCII" if kind.ascii else "UTF8")])
        if isinstance(kind, Struct):
            fields = []
            for name, field in kind.fields:
                fields.append(f"{{ {self.reference(field)},{self.gap()}{name}{r.choice(['', ','])} }}")
            inner = r.choice([", ", " ", ",\n"]).join(fields)
            return self.attributes([("parent", "struct"), ("fields", "{ " + inner + r.choice([" ", ", " if fields else " "]) + "}")])
        if isinstance(kind, Sequence):
            return self.attributes([("parent", "sequence"), ("length_type", self.reference(kind.length)), ("elem_type", self.reference(kind.element))])
        return self.attributes([("parent", "array"), ("length", self.number(kind.length)), ("elem_type", self.reference(kind.element))])

    def reference(self, kind):
        """A name that may be declared anywhere, or the type itself."""
        r = self.r
        for size, plain in self.plain.items():
            if kind is plain:
                return f"uint{size}_t"
        if isinstance(kind, Text) and not kind.ascii and r.random() < 0.5:
            return "string"
        if id(kind) in self.names:
            return self.names[id(kind)][0]
        if r.random() < 0.5:
            return "type " + self.body(kind)
        name = self.new()
        self.names[id(kind)] = (name, kind)
        if type(kind) is Int and not kind.unit and r.random() < 0.5:
            return self.child(kind, name)
        self.text.append(f"type {name} {self.body(kind)}{r.choice(['', ';'])}")
        return name

    def child(self, kind, name):
        """The same integer as the child of an abstract parent, which another one has."""
        parent, top = self.new("p"), self.new("p")
        self.text.append(f"abstract_type {top} {{ parent = integer; size = {self.r.randint(1, 64)}; signed = true; }}")
        self.text.append(f"abstract_type {parent} {{ parent = {top}; byte_order = {kind.order}; signed = {self.boolean(kind.signed)}; }};")
        pairs = [("parent", parent), ("size", kind.size), ("align", kind.own)]
        self.text.append(f"type {name} {self.attributes(pairs)}")
        return name

    def prelude(self):
        for size, plain in self.plain.items():
            self.text.append(f"type uint{size}_t {self.body(plain)}{self.r.choice(['', ';'])}")


class Text16(Maker):
    """The language of v1.6."""

    def attributes(self, pairs):
        self.r.shuffle(pairs)
        return "{" + self.gap() + " ".join(f"{key} = {value};" for key, value in pairs) + " }"

    def int_body(self, kind):
        pairs = [("size", self.number(kind.size))]
        if kind.signed or self.r.random() < 0.3:
            pairs.append(("signed", self.boolean(kind.signed)))
        if kind.order != "native" or self.r.random() < 0.2:
            pairs.append(("byte_order", kind.order))
        if kind.given:
            pairs.append(("align", self.number(kind.given)))
        return "integer " + self.attributes(pairs)

    def labels(self, kind):
        r = self.r
        labels, following = [], 0
        for name, low, high in kind.labels:
            text = self.word(name)
            if low != high:
                text += f" = {self.number(low)} ... {self.number(high)}"
            elif low != following or r.random() < 0.5:
                text += f" = {self.number(low)}"
            labels.append(text)
            following = high + 1
        return "{ " + ", ".join(labels) + r.choice([",", ""]) + " }"

    def spec(self, kind, depth=0):
        """What stands before a name, for types that are not written with brackets or a colon."""
        r = self.r
        for size, plain in self.plain.items():
            if kind is plain:
                return r.choice(["", "", "const "]) + f"uint{size}_t"
        if id(kind) in self.names:
            return self.names[id(kind)][0]
        if isinstance(kind, Array):
            # Only a typedef can give such a type a name.
            name = self.new()
            self.names[id(kind)] = (name, kind)
            self.text.append("typedef " + self.declarator(kind, name) + ";")
            return name
        body = self.body(kind)
        if r.random() < 0.4:
            return body
        if isinstance(kind, Struct) and r.random() < 0.5:
            name = self.new("s")
            self.text.append(f"struct {name} {body[len('struct'):]};")
            self.names[id(kind)] = (f"struct {name}", kind)
        elif isinstance(kind, Enum) and r.random() < 0.4:
            name, base = self.new("e"), self.spec(kind.base)
            labels = self.labels(kind)
            order = r.choice([f"<{base}> {name}", f"{name} <{base}>"])
            self.text.append(f"enum {order} {labels};")
            self.names[id(kind)] = (f"enum {name}", kind)
        else:
            name = self.new()
            if not isinstance(kind, Struct):
                # All the words are the name.
                name = r.choice([name, f"unsigned {name}", f"struct {name} *", f"{name} long"])
            self.text.append(f"typedef {body} {name};")
            self.names[id(kind)] = (name, kind)
        return self.names[id(kind)][0]

    def body(self, kind):
        r = self.r
        if isinstance(kind, Enum):
            return f"enum <{self.spec(kind.base)}> {self.labels(kind)}"
        if isinstance(kind, Int):
            return self.int_body(kind)
        if isinstance(kind, Float):
            exponent, mantissa = Float.DIGITS[kind.size]
            pairs = [("exp_dig", exponent), ("mant_dig", mantissa), ("byte_order", kind.order)]
            if kind.given:
                pairs.append(("align", kind.given))
            return "floating_point " + self.attributes(pairs)
        if isinstance(kind, Text):
            if kind.ascii:
                return "string { encoding = ASCII; }"
            return r.choice(["string", "string { encoding = UTF8; }", "string { }"])
        fields = []
        for name, field in kind.fields:
            fields.append(self.declarator(field, name) + ";")
        return "struct { " + self.gap().join(fields) + " }"

    def declarator(self, kind, name):
        brackets = ""
        if kind.unit:
            unit = Int(kind.unit, kind.signed, kind.outer)
            return f"{self.spec(unit)} {name}:{kind.size}"
        while isinstance(kind, Array) and id(kind) not in self.names:
            length = self.spec(kind.length) if isinstance(kind, Sequence) else self.number(kind.length)
            brackets += f"[{length}]"
            kind = kind.element
        return f"{self.spec(kind)} {name}{brackets}"

    def prelude(self):
        for size, plain in self.plain.items():
            name = f"uint{size}_t"
            self.text.append(f"typedef {self.int_body(plain)} {name};")


class Trace:
    """One random trace: its folder, and the lines that it must give."""

    def __init__(self, seed):
        r = self.r = random.Random(seed)
        self.dialect = r.choice([11, 16])
        self.big = r.random() < 0.5
        natural = r.random() < 0.3
        self.maker = (Text11 if self.dialect == 11 else Text16)(r, self.dialect, natural)
        self.p32 = max(8, self.maker.plain[32].own)
        self.p64 = max(8, self.maker.plain[64].own)
        self.session = r.randrange(1 << 32)
        self.uuid = bytes(r.randrange(256) for _ in range(16))
        self.key = bytes(r.randrange(256) for _ in range(r.choice([16, 24, 32]))) if AESGCM and r.random() < 0.3 else None
        self.files, self.lines, self.packets = {}, [], []
        self.groups()
        self.metadata()
        self.streams()

    def groups(self):
        r = self.r
        self.blocks = []
        for at in range(r.choice([1, 1, 2, 3])):
            group = {"form": r.choice([1, 2]), "context": None, "event_size": False, "events": []}
            group["extension"] = group["form"]
            group["id"] = r.choice([at, at, at + r.randrange(1000) * 7])
            group["name"] = ["main", "net", "net_rx"][at]
            if r.random() < 0.4:
                group["context"] = self.maker.struct(1, 3)
            if self.dialect == 11:
                group["event_size"] = r.random() < 0.3
            elif r.random() < 0.2:
                group["extension"] = r.choice([1, 2])
            ids = set()
            for event in range(r.randint(1, 4)):
                number = r.choice([event, event, event, r.randrange(200), 31, 65535, r.randrange(1 << 32)])
                if number not in ids:
                    ids.add(number)
                    name = r.choice(["sched_switch", "irq", "two words", "trace"]) + str(event)
                    group["events"].append((number, name, self.maker.struct(0, 6)))
            if self.dialect == 16:
                group["packet"] = self.packet_context()
            self.blocks.append(group)
        numbers = set()
        for group in self.blocks:
            while group["id"] in numbers:
                group["id"] += 1
            numbers.add(group["id"])

    def packet_context(self):
        r, maker = self.r, self.maker
        sized = lambda *sizes: Int(r.choice(sizes), align=r.choice([None, maker.natural_align(32), 8]))
        fields = [("content_size", sized(32, 32, 64, 24)), ("packet_size", sized(32, 32, 64, 24))]
        optional = {
            "timestamp_begin": sized(64), "timestamp_end": sized(64), "events_discarded": sized(16, 32, 64),
            "stream_packet_count": sized(8, 32, 7), "cpu_id": sized(8, 32), "compression_scheme": sized(8, 4),
            "encryption_scheme": sized(8, 3), "checksum_scheme": sized(8, 5), "stream_packet_count_bits": sized(8),
            "checksum": r.choice([sized(32, 64, 16), Array(r.choice([4, 16, 20, 24]), maker.plain[8])]),
            "host": Text(), "other": maker.kind(2),
        }
        chance = r.choice([0.3, 0.9])
        for name, kind in optional.items():
            if r.random() < chance:
                fields.append((name, kind))
        if not any(name == "stream_packet_count" for name, _ in fields):
            fields = [field for field in fields if field[0] != "stream_packet_count_bits"]
        r.shuffle(fields)
        return Struct(fields)

    def metadata(self):
        r, maker = self.r, self.maker
        maker.prelude()
        after, text = [], maker.text
        if self.dialect == 11:
            trace = f"trace {{ major = 1; minor = {maker.number(1)}; "
            if r.random() < 0.3:
                trace += f"session_id = {maker.number(self.session)}; "
            trace += "}"
            for group in self.blocks:
                inner = f"header_type = type{group['form']}; "
                context = f"event_size = {maker.boolean(group['event_size'])}; " if group["event_size"] or r.random() < 0.2 else ""
                if group["context"]:
                    context += f"fields = {maker.reference(group['context'])}; "
                if context:
                    inner += f"context {{ {context} }}{r.choice(['', ';'])} "
                after.append(f"section {{ name = {maker.word(group['name'])}; event {{ {inner} }}{r.choice(['', ';'])} }}")
                for number, name, payload in group["events"]:
                    after.append(
                        f"event {{ id = {maker.number(number)}; name = {maker.word(name)}; section = {maker.word(group['name'])};"
                        f" fields = {maker.reference(payload)}; }}{r.choice(['', ';'])}"
                    )
            declarations = text + after
            if r.random() < 0.5:
                r.shuffle(declarations)
            declarations.insert(r.choice([0, 0, len(declarations)]), trace)
        else:
            text_uuid = self.uuid.hex()
            text_uuid = "-".join([text_uuid[:8], text_uuid[8:12], text_uuid[12:16], text_uuid[16:20], text_uuid[20:]])
            trace = "trace { major = 1; minor = 6; "
            if r.random() < 0.7:
                trace += f'uuid = "{text_uuid}"; '
            if r.random() < 0.3:
                trace += "word_size = 32; "
            trace += "};"
            for group in self.blocks:
                inner = f"header_type = event_header_{group['form']}; "
                if group["extension"] != group["form"] or r.random() < 0.3:
                    inner += f"header_type_ext = event_header_{group['extension']}_ext; "
                if group["context"]:
                    inner += f"context_type = {maker.spec(group['context'])}; "
                packet = maker.spec(group["packet"])
                after.append(f"stream {{ id = {maker.number(group['id'])}; event {{ {inner} }}; packet {{ context_type = {packet}; }}; }};")
                for number, name, payload in group["events"]:
                    after.append(
                        f"event {{ id = {maker.number(number)}; name = {maker.word(name)}; stream = {group['id']};"
                        f" fields = {maker.spec(payload)}; }}{r.choice(['', ';'])}"
                    )
            r.shuffle(after)
            declarations = text + after
            declarations.insert(r.choice([0, 0, len(declarations)]), trace)
        self.files["metadata"] = self.frame(declarations)

    def frame(self, declarations):
        r = self.r
        if r.random() < 0.5:
            return "\n".join(declarations).encode()
        packets, at = b"", 0
        while at < len(declarations):
            step = r.randint(1, 12)
            content = b"".join(text.encode() + b"\0" for text in declarations[at:at + step])
            at += step
            if self.dialect == 16:
                packets += self.u(4, MAGIC) + self.uuid + self.u(4, 0) + content
            else:
                packets += self.packet_11(content, 0, 0, 0, 0, 32)
        return packets

    def u(self, size, value):
        return value.to_bytes(size, "big" if self.big else "little")

    def transform(self, raw, schemes, associated):
        """Compression and encryption."""
        compression, encryption, _ = schemes
        if not raw:
            return raw
        if compression == 1:
            raw = bz2.compress(raw)
        elif compression == 2:
            raw = gzip.compress(raw)
        elif compression == 3:
            raw = lzma.compress(raw)
        if encryption:
            nonce = bytes(self.r.randrange(256) for _ in range(12))
            raw = nonce + AESGCM(self.key).encrypt(nonce, raw, associated)
        return raw

    def digest(self, scheme, data):
        return [b"", hashlib.md5(data).digest(), hashlib.sha1(data).digest(), struct.pack(">I", zlib.crc32(data))][scheme]

    def schemes(self, has):
        r = self.r
        pick = lambda index, choices: r.choice(choices) if has[index] and r.random() < 0.4 else 0
        most = [0, 1, 2] if self.dialect == 11 else [1, 2, 3]
        return pick(0, most), pick(1, [1 if self.key else 0]), pick(2, [1, 2, 3])

    def packet_11(self, raw, count, begin, end, discarded, count_bits):
        schemes = self.schemes((True, True, True))
        stored = self.transform(raw, schemes, self.u(4, self.session))
        checksum = int.from_bytes(self.digest(schemes[2], stored)[:4], "big") if schemes[2] else 0
        padding = self.r.choice([0, 0, 3, 64])
        content_size = 48 + len(stored)
        fields = [
            ("content_size", 4, content_size), ("packet_size", 4, content_size + padding), ("checksum", 4, checksum),
            ("section_packet_count", 4, count), ("timestamp_begin", 8, begin), ("timestamp_end", 8, end),
            ("events_discarded", 4, discarded), ("section_packet_count_bits", 1, count_bits),
            ("compression_scheme", 1, schemes[0]), ("encryption_scheme", 1, schemes[1]), ("checksum_scheme", 1, schemes[2]),
        ]
        self.context = {name: value for name, _, value in fields}
        header = self.u(4, MAGIC) + self.u(4, self.session)
        header += b"".join(self.u(size, value) for _, size, value in fields)
        return header + stored + bytes(self.r.randrange(256) for _ in range(padding))

    def packet_16(self, group, events, start, values):
        """`events` are written behind a context that has `values` but for what is known at the end only."""
        kind = group["packet"]
        names = {name for name, _ in kind.fields}
        schemes = self.schemes(("compression_scheme" in names, "encryption_scheme" in names, "checksum_scheme" in names))
        values.update(compression_scheme=schemes[0], encryption_scheme=schemes[1], checksum_scheme=schemes[2])
        fixed = self.u(4, MAGIC) + self.uuid + self.u(4, group["id"])
        raw = events.data[start:]
        stored = self.transform(bytes(raw), schemes, fixed[4:24])
        padding = self.r.choice([0, 0, 5, 64])
        values["content_size"] = start + len(stored)
        values["packet_size"] = start + len(stored) + padding
        digest = self.digest(schemes[2], stored) if schemes[2] else b""
        for name, field in kind.fields:
            if name != "checksum":
                continue
            if isinstance(field, Array):
                values[name] = list((digest + bytes(24))[:field.length])
            else:
                values[name] = int.from_bytes(digest[:field.size // 8], "big")
        out, shown = self.write_context(group, fixed, values)
        assert len(out.data) == start
        self.context = shown
        return bytes(out.data) + stored + bytes(self.r.randrange(256) for _ in range(padding))

    def write_context(self, group, fixed, values):
        out = Bits(fixed)
        kind = group["packet"]
        shown = put(out, kind, [values[name] for name, _ in kind.fields], self.big)
        out.align(8)
        return out, shown

    def streams(self):
        r = self.r
        for group in self.blocks:
            for at in range(r.choice([1, 1, 2])):
                name = f"{group['name']}{r.choice(['_', '-', '.'])}{at}" if self.dialect == 11 else f"ch{group['id']}_{at}"
                self.files[name] = self.stream(group, name)
        if r.random() < 0.2:
            self.files[".hidden"] = b"no packet"

    def stream(self, group, file):
        r = self.r
        data, clock = b"", r.choice([0, 1000, r.randrange(1 << 40), (1 << 27) - 5, (1 << 32) - 5])
        count, discarded = r.randrange(1 << 32), 0
        # Earlier facts of a packet of the file: significant bits of the counter, and both counters.
        before = {}
        state = 0
        for index in range(r.randint(0, 4)):
            count += r.choice([1, 1, 1, 2, 40])
            discarded += r.choice([0, 0, 0, 1, 5, 1 << 20])
            clock += r.choice([0, 1, 500, r.randrange(1 << 30)])
            begin = clock
            values = {}
            if self.dialect == 16:
                kind = group["packet"]
                values = {name: field.random(r) for name, field in kind.fields}
                names = {name for name, _ in kind.fields}
                if "timestamp_begin" in names:
                    state = begin
                values.update(timestamp_begin=begin, timestamp_end=0, content_size=0, packet_size=0)
                sizes = {name: field.size for name, field in kind.fields if isinstance(field, Int)}
                values["stream_packet_count_bits"] = r.choice([7, 7, 200]) if index == 0 else values_before_bits
                values_before_bits = values["stream_packet_count_bits"]
                stored = {name: value % (1 << sizes[name]) for name, value in
                          (("events_discarded", discarded), ("stream_packet_count", count)) if name in sizes}
                values.update(stored)
                count_bits = sizes.get("stream_packet_count", 0)
                if "stream_packet_count_bits" in names:
                    count_bits = min(count_bits, values_before_bits)
                discarded_bits = sizes.get("events_discarded", 0)
                for name in ("compression_scheme", "encryption_scheme", "checksum_scheme"):
                    values[name] = 0
                for name, field in kind.fields:
                    if name == "checksum":
                        values[name] = [0] * field.length if isinstance(field, Array) else 0
                fixed = bytes(24)
                out, _ = self.write_context(group, fixed, values)
            else:
                state = begin
                stored = {"events_discarded": discarded % (1 << 32), "stream_packet_count": count % (1 << 32)}
                count_bits, discarded_bits = r.choice([32, 8]) if index == 0 else count_bits, 32
                out = Bits(bytes(48))
            start = len(out.data)
            lines = []
            for _ in range(r.randint(0, 6)):
                clock += r.choice([0, 1, 17, r.randrange(1 << 12), 1 << 27, (1 << 32) + 3 if r.random() < 0.2 else 1])
                lines.append(self.event(group, out, clock, state))
                state = clock
            clock += r.choice([0, 10])
            if self.dialect == 16:
                values["timestamp_end"] = clock
                packet = self.packet_16(group, out, start, values)
            else:
                packet = self.packet_11(bytes(out.data[start:]), stored["stream_packet_count"], begin, clock, stored["events_discarded"], count_bits)
            for line in lines:
                line["packet_context"] = self.context
            self.lines += lines
            described = {"file": file, "index": index, "offset": len(data), "events": len(lines)}
            described.update({name: self.context.get(name) for name in ("packet_size", "content_size")})
            described.update({name: self.context.get(name) for name in ("timestamp_begin", "timestamp_end")})
            lost = stored.get("events_discarded", 0) - before.get("events_discarded", 0)
            described["discarded_before"] = lost % (1 << discarded_bits)
            gap = 0
            if count_bits and "stream_packet_count" in before:
                gap = (stored["stream_packet_count"] - before["stream_packet_count"] - 1) % (1 << count_bits)
            described["lost_packets_before"] = gap
            self.packets.append(described)
            before = stored
            data += packet
        return data

    def event(self, group, out, clock, state):
        r, big = self.r, self.big
        number, name, payload = r.choice(group["events"])
        form, extension = group["form"], group["extension"]
        time_bits, reserved = (27, 31) if form == 1 else (32, 65535)
        values = payload.random(r)
        missing = [0] * len(values)
        if self.dialect == 16 and r.random() < 0.3:
            missing = [int(r.random() < 0.4) for _ in values]
        is_long = number >= reserved or clock - state >= 1 << time_bits or any(missing) or r.random() < 0.15
        short = reserved if is_long else number
        stamp = clock & (1 << time_bits) - 1
        out.align(self.p32)
        if form == 1:
            out.put(5, short, big)
            out.put(27, stamp, big)
        else:
            out.put(32, stamp, big)
            out.put(16, short, big)
        line = {"ns": clock, "cycles": clock, "name": name, "id": number, "header": {"id": short, "timestamp": stamp}}
        if is_long:
            if extension == 2:
                out.align(self.p64)
                out.put(64, clock, big)
                out.put(32, number, big)
            else:
                out.put(32, number, big)
                out.put(64, clock, big)
            ext = {"id": number, "timestamp": clock}
            if self.dialect == 11:
                out.align(self.p64 if extension == 1 else self.p32)
            else:
                for bit in missing:
                    out.put(1, bit, big)
                ext["missing_fields"] = missing
            line["header"]["ext"] = ext
        if self.dialect == 16:
            line["stream"] = group["id"]
        context, size_at = group["context"], None
        if group["event_size"]:
            own = max(self.p32, context.own if context else 1)
            out.align(own)
            size_at = out.pos
            out.seek(out.pos + 32)
            line["stream_context"] = {"event_size": 0}
            if context:
                # One structure: bit-fields count from its beginning.
                inner = context.random(r)
                for (field, kind), value in zip(context.fields, inner):
                    line["stream_context"][field] = put(out, kind, value, big, size_at)
        elif context:
            line["stream_context"] = put(out, context, context.random(r), big)
        out.align(payload.own)
        begin = out.pos
        shown = {}
        for (field, kind), value, bit in zip(payload.fields, values, missing):
            shown[field] = None if bit else put(out, kind, value, big, begin)
        line["payload"] = shown
        if size_at is not None:
            size = -(-(out.pos - begin) // 8)
            end = out.pos
            out.pos = size_at
            out.put(32, size, big)
            out.pos = end
            line["stream_context"]["event_size"] = size
        return line

    def write(self, folder):
        os.makedirs(folder)
        for name, data in self.files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)


def same(want, found):
    """Is what is wanted in what was found?"""
    if isinstance(want, dict) and isinstance(found, dict):
        return all(key in found and same(value, found[key]) for key, value in want.items()) and (
            "value" in want or set(found) - set(want) <= {"ext"} and all(found[k] is None for k in set(found) - set(want)))
    if isinstance(want, list) and isinstance(found, list):
        return len(want) == len(found) and all(same(a, b) for a, b in zip(want, found))
    if isinstance(want, float) and isinstance(found, float):
        return want == found and math.copysign(1, want) == math.copysign(1, found)
    return type(want) is type(found) and want == found or (
        isinstance(want, (int, float)) and isinstance(found, (int, float)) and want == found
        and not isinstance(want, bool) and not isinstance(found, bool))


def same_line(want, found):
    return all(key in found and same(value, found[key]) for key, value in want.items())


def compare_packets(trace, text):
    found = json.loads(text)["traces"][0]["packets"]
    want = sorted(trace.packets, key=lambda packet: (packet["file"].encode(), packet["index"]))
    if len(found) != len(want):
        return f"{len(found)} packets, {len(want)} wanted"
    for one, other in zip(want, found):
        if any(other[key] != value for key, value in one.items()):
            return f"wanted {json.dumps(one)}\nfound  {json.dumps(other)}"
    return None


def written(program, folder, out, options, *more):
    done = subprocess.run([program, "convert", "--quiet", "-o", out, *more, folder] + options, capture_output=True)
    if done.returncode != 0:
        return f"convert {' '.join(more)}: {done.stderr.decode(errors='replace')}"
    return None


def stored_anew(lines):
    """Lines without what depends on how packets are stored, and on those without events, which are left out."""
    for line in lines:
        context = dict(line.get("packet_context", {}))
        for name in ("content_size", "packet_size", "checksum", "encryption_scheme", "section_packet_count", "stream_packet_count"):
            context.pop(name, None)
        yield {**line, "packet_context": context}


def read(program, folder, options):
    done = subprocess.run([program, "print", "--format", "jsonl", folder] + options, capture_output=True)
    if done.returncode != 0:
        return None, done.stderr.decode(errors="replace")
    return [json.loads(line) for line in done.stdout.decode().splitlines()], None


def compare_lines(want, found):
    want = sorted(want, key=lambda line: line["ns"])
    if [line["ns"] for line in found] != [line["ns"] for line in want]:
        return f"{len(found)} lines, {len(want)} wanted, or other times"
    left = list(found)
    for line in want:
        at = next((i for i, other in enumerate(left) if same_line(line, other)), None)
        if at is None:
            near = next((other for other in left if other["ns"] == line["ns"]), None)
            return f"wanted {json.dumps(line)}\nfound  {json.dumps(near)}"
        del left[at]
    return None


def compare_written(program, trace, folder, options):
    """The trace, written anew in several ways."""
    own, other = ("ctf1.1", "ctf1.6") if trace.dialect == 11 else ("ctf1.6", "ctf1.1")
    order = "little" if trace.big else "big"
    through = folder + ".ctf2"
    ways = [
        (folder, own, ("--byte-order", order), list(stored_anew(trace.lines))),
        (through, own, (), list(stored_anew(trace.lines))),
    ]
    kept = ("ns", "name", "id", "payload")
    if trace.dialect == 16:
        # Fields that may be missing are sequences in v1.1.
        kept = ("ns", "name", "id")
    ways.append((folder, other, (), [{key: line[key] for key in kept} for line in trace.lines]))
    problem = written(program, folder, through, options, "--to", "ctf2")
    if problem:
        return problem
    for at, (source, to, more, want) in enumerate(ways):
        out = f"{folder}.{at}"
        problem = written(program, source, out, options if source == folder else [], "--to", to, *more)
        if not problem:
            found, problem = read(program, out, [])
            problem = problem or compare_lines(want, list(stored_anew(found)) if to == own else found)
        if problem:
            return f"written as {to} {' '.join(more)} from {os.path.basename(source)}: {problem}"
        shutil.rmtree(out)
    shutil.rmtree(through)
    return None


def compare(program, trace, folder, writes):
    options = []
    if trace.key:
        key = folder + ".key"
        with open(key, "w") as file:
            file.write(trace.key.hex())
        options = ["--key-file", key]
    done = subprocess.run([program, "info", "--packets", "--count", "--json", folder] + options, capture_output=True)
    problem = compare_packets(trace, done.stdout) if done.returncode == 0 else done.stderr.decode(errors="replace")
    if problem:
        return problem
    done = subprocess.run([program, "print", "--format", "jsonl", folder] + options, capture_output=True)
    said = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        return f"status {done.returncode}: {said}"
    found = [json.loads(line) for line in done.stdout.decode().splitlines()]
    problem = compare_lines(trace.lines, found)
    if problem:
        return f"{problem}\n{said}"
    return compare_written(program, trace, folder, options) if writes else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", help="keep traces that differ, with what is wanted, in this folder")
    parser.add_argument("--write", action="store_true", help="write each trace anew too")
    args = parser.parse_args()
    failed = events = 0
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(args.first, args.first + args.seeds):
            trace = Trace(seed)
            events += len(trace.lines)
            folder = os.path.join(scratch, str(seed))
            trace.write(folder)
            problem = compare(args.program, trace, folder, args.write)
            if problem:
                failed += 1
                print(f"seed {seed} (v1.{trace.dialect % 10}): {problem}")
                if args.keep:
                    shutil.copytree(folder, os.path.join(args.keep, str(seed)))
            shutil.rmtree(folder)
    print(f"{args.seeds} traces, {events} events: {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
