#!/usr/bin/env python3
"""Write a trace.dat as trace-cmd would: for benchmarks, and to compare readers on what no machine at hand records.

    make_trace_dat.py OUT [--events N] [--cpus N] [--version 6|7] [--big] [--long 4|8] [--page BYTES]
                      [--pack zlib] [--lost] [--instance NAME] [--clock NAME] [--offset NS] [--odd]

The events are scheduler switches and wake-ups, system calls, function graph entries and exits, texts at places that the
record states, and arrays. --odd adds discarded events and absolute time stamps to the pages.
"""
import argparse
import random
import struct
import zlib

COMMON = [
    ("unsigned short common_type", 0, 2, 0),
    ("unsigned char common_flags", 2, 1, 0),
    ("unsigned char common_preempt_count", 3, 1, 0),
    ("int common_pid", 4, 4, 1),
]


class Writer:
    """Numbers in one byte order, longs of one size."""

    def __init__(self, big, long_size):
        self.order = ">" if big else "<"
        self.big, self.long_size = big, long_size

    def pack(self, codes, *values):
        """`struct.pack`, in which `l` and `L` are longs of the kernel, without padding."""
        if self.long_size == 8:
            codes = codes.replace("l", "q").replace("L", "Q")
        return struct.pack(self.order + codes, *values)

    def head(self, kind, delta):
        return self.pack("I", kind << 27 | delta if self.big else kind | delta << 5)


def format_file(name, number, fields):
    def lines(fields):
        return "".join(f"\tfield:{d};\toffset:{o};\tsize:{s};\tsigned:{g};\n" for d, o, s, g in fields)

    text = f"name: {name}\nID: {number}\nformat:\n{lines(COMMON)}\n{lines(fields)}\nprint fmt: \"\"\n"
    return text.encode()


class Events:
    """Formats of the events, and their records."""

    def __init__(self, w):
        self.w = w
        size = w.long_size
        at = [8 + n * size for n in range(4)]
        self.ftrace = [
            format_file("funcgraph_entry", 11, [("unsigned long func", 8, size, 0), ("int depth", at[1], 4, 1)]),
            format_file(
                "funcgraph_exit",
                10,
                [("unsigned long func", 8, size, 0), ("int depth", at[1], 4, 1), ("unsigned int overrun", at[1] + 4, 4, 0),
                 ("unsigned long long calltime", at[1] + 8, 8, 0), ("unsigned long long rettime", at[1] + 16, 8, 0)],
            ),
        ]
        self.systems = {
            "sched": [
                format_file(
                    "sched_switch",
                    372,
                    [("char prev_comm[16]", 8, 16, 0), ("pid_t prev_pid", 24, 4, 1), ("int prev_prio", 28, 4, 1),
                     ("long prev_state", 32, size, 1), ("char next_comm[16]", 32 + size, 16, 0),
                     ("pid_t next_pid", 48 + size, 4, 1), ("int next_prio", 52 + size, 4, 1)],
                ),
                format_file(
                    "sched_wakeup",
                    374,
                    [("char comm[16]", 8, 16, 0), ("pid_t pid", 24, 4, 1), ("int prio", 28, 4, 1),
                     ("int target_cpu", 32, 4, 1)],
                ),
            ],
            "syscalls": [
                format_file(
                    "sys_enter_openat",
                    782,
                    [("int __syscall_nr", 8, 4, 1), ("int dfd", 16, size, 0),
                     ("const char * filename", 16 + size, size, 0)],
                ),
            ],
            "net": [
                format_file(
                    "net_dev_xmit",
                    900,
                    [("void * skbaddr", 8, size, 0), ("unsigned int len", at[1], 4, 0), ("int rc", at[1] + 4, 4, 1),
                     ("__data_loc char[] name", at[1] + 8, 4, 0), ("u8 kind", at[1] + 12, 1, 0),
                     ("u16 port", at[1] + 14, 2, 0)],
                ),
            ],
            "misc": [
                format_file("rel", 901, [("int n", 8, 4, 1), ("__rel_loc char[] text", 12, 4, 0)]),
                format_file("mac", 902, [("unsigned char addr[6]", 8, 6, 0), ("s16 x", 14, 2, 1)]),
            ],
        }

    def common(self, number, pid):
        return self.w.pack("HBBi", number, 1, 0, pid)

    def comm(self, name):
        return name.encode().ljust(16, b"\0")

    def record(self, rng, number, cpu):
        """The data of a random event."""
        w, pid = self.w, rng.randrange(1, 30_000)
        names = ["bash", "kworker/0:1", "cc1", "a program"]
        kinds = ["switch", "wakeup", "open", "entry", "exit", "net", "rel", "mac"]
        kind = rng.choices(kinds, [4, 2, 3, 6, 6, 2, 1, 1])[0]
        func = 0x8000_0000 + number % 1000 * 16
        if kind == "switch":
            return self.common(372, pid) + self.comm(rng.choice(names)) + w.pack("iil", pid, 120, rng.choice([0, 1, 2])) \
                + self.comm(rng.choice(names)) + w.pack("ii", number % 30_000, 100)
        if kind == "wakeup":
            return self.common(374, pid) + self.comm(rng.choice(names)) + w.pack("iii", number % 30_000, -1, cpu)
        if kind == "open":
            return self.common(782, pid) + w.pack("i4xLL", 257, 0xFFFFFF9C, 0x7F00_0000 + number)
        if kind == "entry":
            return self.common(11, pid) + w.pack("Li", func, number % 8)
        if kind == "exit":
            return self.common(10, pid) + w.pack("LiIQQ", func, number % 8, 0, number, number + 17)
        if kind == "net":
            place = 8 + w.long_size + 16
            name = f"eth{number % 100}".encode() + b"\0"
            return self.common(900, pid) + w.pack("LIiIBxH", 0x1234_5678, number, -5, place | len(name) << 16, 7, 443) + name
        if kind == "rel":
            text = f"text {number}".encode() + b"\0"
            return self.common(901, pid) + w.pack("iI", -number, 0 | len(text) << 16) + text
        return self.common(902, pid) + bytes([1, 0, 2, 0x80, 255, number % 256]) + w.pack("h", -7)


def pages(w, events, rng, count, cpu, page_size, lost, odd):
    """The pages of a CPU with `count` events."""
    head_size = 8 + w.long_size
    out, time, number = [], 1_000_000_000_000 + cpu * 333, 0
    while number < count:
        start, body, last = time, b"", time
        while number < count:
            time += rng.choice([7, 120, 900, 4000])
            if rng.random() < 0.001:
                time += 1 << 28
            data = events.record(rng, number, cpu)
            data += bytes(-len(data) % 4)
            delta, extend = time - last, b""
            if delta >= 1 << 27:
                extend = w.head(30, delta & 0x7FF_FFFF) + w.pack("I", delta >> 27)
                delta = 0
            elif odd and rng.random() < 0.02:
                extend = w.head(31, (last + 3) & 0x7FF_FFFF) + w.pack("I", (last + 3) >> 27)
                delta -= 3
            elif odd and rng.random() < 0.02:
                extend = w.head(29, 5) + w.pack("I", 12) + bytes(8)
                delta -= 5
            if len(data) <= 112 and rng.random() < 0.9:
                record = w.head(len(data) // 4, delta) + data
            else:
                record = w.head(0, delta) + w.pack("I", len(data) + 4) + data
            if head_size + len(body) + len(extend) + len(record) > page_size:
                break
            body += extend + record
            last = time
            number += 1
        time = last
        flags, behind = 0, b""
        if lost and len(out) % 5 == 4:
            flags = 1 << 31
            if head_size + len(body) + w.long_size <= page_size:
                flags, behind = 3 << 30, w.pack("L", 42)
        out.append((w.pack("QL", start, len(body) | flags) + body + behind).ljust(page_size, b"\0"))
    return out


class File:
    """Both versions of the file around the pages."""

    def __init__(self, args):
        self.args, self.w = args, Writer(args.big, args.long)
        self.events = Events(self.w)
        rng = random.Random(7)
        self.buffers = [("", self.cpus(rng))] + [(name, self.cpus(rng)) for name in args.instance]
        self.clock = f"local [{args.clock}] counter".encode() + b"\0"
        self.options = [(4, self.clock), (5, b"Linux made 6.18\0")]
        if args.offset is not None:
            self.options.append((7, str(args.offset).encode() + b"\0"))

    def cpus(self, rng):
        args = self.args
        share = args.events // args.cpus
        return [pages(self.w, self.events, rng, share, cpu, args.page, args.lost, args.odd) for cpu in range(args.cpus)]

    def start(self):
        return b"\x17\x08\x44tracing%d\0" % self.args.version + bytes([self.args.big, self.args.long]) \
            + self.w.pack("I", self.args.page)

    def header_info(self):
        long_size, page = self.w.long_size, self.args.page
        text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n" \
            f"\tfield: local_t commit;\toffset:8;\tsize:{long_size};\tsigned:1;\n" \
            "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n" \
            f"\tfield: char data;\toffset:{8 + long_size};\tsize:{page - 8 - long_size};\tsigned:0;\n"
        event = b"# compressed entry header\n"
        return b"header_page\0" + self.w.pack("Q", len(text)) + text.encode() + b"header_event\0" \
            + self.w.pack("Q", len(event)) + event

    def formats(self, formats):
        return self.w.pack("I", len(formats)) + b"".join(self.w.pack("Q", len(text)) + text for text in formats)

    def event_formats(self):
        systems = self.events.systems.items()
        content = b"".join(name.encode() + b"\0" + self.formats(formats) for name, formats in systems)
        return self.w.pack("I", len(systems)) + content

    def sized(self, code, content):
        return self.w.pack(code, len(content)) + content

    def option(self, number, content):
        return self.w.pack("HI", number, len(content)) + content

    def write_6(self, out):
        w = self.w
        out.write(self.start() + self.header_info() + self.formats(self.events.ftrace) + self.event_formats())
        out.write(self.sized("I", b"ffffffff81000000 T _stext\n") + self.sized("I", b"") + self.sized("Q", b"1 init\n7 cc1\n"))
        out.write(w.pack("I", self.args.cpus) + b"options  \0")
        for number, content in self.options:
            out.write(self.option(number, content))
        places = []
        for name, _ in self.buffers[1:]:
            places.append(out.tell() + 6)
            out.write(self.option(3, bytes(8) + name.encode() + b"\0"))
        out.write(w.pack("H", 0))
        for at, (_, cpus) in enumerate(self.buffers):
            if at > 0:
                here = out.tell()
                out.seek(places[at - 1])
                out.write(w.pack("Q", here))
                out.seek(here)
            out.write(b"flyrecord\0")
            offset = self.aligned(out.tell() + 16 * len(cpus))
            for data in cpus:
                out.write(w.pack("QQ", offset, len(data) * self.args.page))
                offset += len(data) * self.args.page
            out.write(bytes(self.aligned(out.tell()) - out.tell()))
            for data in cpus:
                out.write(b"".join(data))

    def aligned(self, offset):
        return -(-offset // self.args.page) * self.args.page

    def section(self, out, number, content, pack):
        at = out.tell()
        if pack:
            packed = zlib.compress(content)
            content = self.w.pack("II", len(packed), len(content)) + packed
        out.write(self.w.pack("HHIQ", number, pack, 0, len(content)) + content)
        return at

    def write_7(self, out):
        w, pack = self.w, self.args.pack is not None
        out.write(self.start() + (b"zlib\x001.2.13\0" if pack else b"none\0\0"))
        first = out.tell()
        out.write(bytes(8))
        sections = [(16, self.header_info()), (17, self.formats(self.events.ftrace)), (18, self.event_formats()),
                    (19, self.sized("I", b"ffffffff81000000 T _stext\n")), (20, self.sized("I", b"")),
                    (21, self.sized("Q", b"1 init\n7 cc1\n"))]
        options = [(number, w.pack("Q", self.section(out, number, content, pack))) for number, content in sections]
        options += self.options + [(8, w.pack("I", self.args.cpus))]
        for name, cpus in self.buffers:
            at = out.tell()
            out.write(w.pack("HHIQ", 3, pack, 0, 0))
            out.write(bytes(self.aligned(out.tell()) - out.tell()))
            option = w.pack("Q", at) + name.encode() + b"\0" + self.args.clock.encode() + b"\0"
            option += w.pack("II", self.args.page, len(cpus))
            for cpu, data in enumerate(cpus):
                content, here = b"".join(data), out.tell()
                if pack:
                    step = 10 * self.args.page
                    pieces = [content[at : at + step] for at in range(0, len(content), step)]
                    packed = [zlib.compress(piece) for piece in pieces]
                    content = w.pack("I", len(pieces))
                    for piece, small in zip(pieces, packed):
                        content += w.pack("II", len(small), len(piece)) + small
                option += w.pack("IQQ", cpu, here, len(content) - 4 * pack)
                out.write(content)
            options.append((3, option))
        options.append((0, bytes(8)))
        place = self.section(out, 0, b"".join(self.option(*option) for option in options), False)
        out.seek(first)
        out.write(w.pack("Q", place))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--version", type=int, choices=[6, 7], default=6)
    parser.add_argument("--big", action="store_true")
    parser.add_argument("--long", type=int, choices=[4, 8], default=8)
    parser.add_argument("--page", type=int, default=4096)
    parser.add_argument("--pack", choices=["zlib"])
    parser.add_argument("--lost", action="store_true")
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("--instance", action="append", default=[])
    parser.add_argument("--clock", default="mono")
    parser.add_argument("--offset", type=int)
    args = parser.parse_args()
    with open(args.out, "wb") as out:
        file = File(args)
        file.write_6(out) if args.version == 6 else file.write_7(out)


if __name__ == "__main__":
    main()
