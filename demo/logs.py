#!/usr/bin/env python3
"""Makes the event logs of the demo: the loading dock of the roastery.

    demo/logs.py [OUT_DIR]      # demo/logs when none is given; the same bytes each time

dock.elog is an event log of VPP: its times have an origin, and lie between those of the recorded traces.
belt.cpel is a CPEL log: ticks of 25 MHz without an origin, its second event section out of order.
"""
import pathlib
import random
import struct
import sys

# 2026-11-21 08:31:10 UTC, when the traces of this folder were recorded, in ns; VPP counts from 2017-03-30 14:45:08.
START_NS = 1_795_249_870_000_000_000
VPP_EPOCH_NS = 1_490_885_108 * 10**9


def u32(value):
    return struct.pack(">I", value & 0xFFFFFFFF)


def u64(value):
    """Low word first."""
    return u32(value) + u32(value >> 32)


def cstring(text):
    octets = text.encode()
    assert len(octets) < 128
    return bytes([len(octets) << 1 | 1]) + octets


def elog():
    strings, offsets = b"", {}
    for place in ("ramp", "scale", "cold store"):
        offsets[place] = len(strings)
        strings += place.encode() + b"\0"
    # Format, arguments, enumeration strings.
    types = [
        ("gate %s", "t1", ["open", "closed", "stuck"]),
        ("pallet %d to %s", "i4T4", []),
        ("weight %.2f kg", "f8", []),
        ("label %s", "s0", []),
        ("sensor %08x of %Ld", "i4i8", []),
        ("100%% loaded", "", []),
    ]
    tracks = ["foreman", "forklift 1", "forklift 2"]
    rng = random.Random(7)
    events, time = [], 0.165
    for at in range(150):
        kind = rng.choices(range(len(types)), [20, 60, 40, 20, 9, 1])[0]
        track = rng.randrange(3)
        octets = struct.pack(">HH", kind, track) + u64(struct.unpack(">Q", struct.pack(">d", time))[0])
        if kind == 0:
            octets += bytes([rng.choice([0, 0, 1, 1, 2])])
        elif kind == 1:
            octets += u32(at) + u32(offsets[rng.choice(list(offsets))])
        elif kind == 2:
            octets += u64(struct.unpack(">Q", struct.pack(">d", rng.uniform(-1, 60)))[0])
        elif kind == 3:
            octets += cstring(rng.choice(["Yirgacheffe", "Sidamo", "Santos", "千春", ""]))
        elif kind == 4:
            octets += u32(rng.getrandbits(32)) + u64(rng.getrandbits(40))
        events.append(octets)
        time += rng.uniform(0.001, 0.019)
    out = u32(7) + b"elog v0" + u32(1024)
    for nanoseconds, cycles in ((START_NS + 2 * 10**9, 7_000_000_000), (START_NS, 2_000_000_000)):
        out += u64(nanoseconds - VPP_EPOCH_NS) + u64(cycles)
    out += u32(len(types))
    for at, (text, args, labels) in enumerate(types):
        out += cstring(text) + cstring(args) + u32(at + 1) + u32(len(labels)) + b"".join(map(cstring, labels))
    out += u32(len(tracks)) + b"".join(map(cstring, tracks))
    out += u32(len(strings)) + strings
    return out + u32(len(events)) + b"".join(events)


def cpel():
    table, offsets = b"BeltTable\0", {}

    def text(value):
        if value not in offsets:
            nonlocal table
            offsets[value] = len(table)
            table += value.encode() + b"\0"
        return offsets[value]

    bags = [text(bag) for bag in ("Yirgacheffe", "Sidamo", "Santos")]
    definitions = [(1, "bag", "%s"), (2, "speed", "%d mm/s"), (3, "motor", "status 0x%04x"), (4, "call", "%k")]
    words = [word for code, name, datum in definitions for word in (code, text(name), text(datum))]
    tracks = [word for track in range(2) for word in (track, text("belt %d"))]
    symbols = [word for value, name in ((0x400, "start_belt"), (0x480, "stop_belt")) for word in (value, text(name))]
    table += b"\0" * (-len(table) % 4)

    def section(kind, data):
        return u32(kind) + u32(len(data)) + data

    def records(kind, head, body):
        return section(kind, b"BeltTable".ljust(64, b"\0") + b"".join(map(u32, head + body)))

    rng = random.Random(11)

    def events(first, count, is_sorted):
        time, all_events = first, []
        for _ in range(count):
            time += rng.randrange(20_000, 900_000)
            code = rng.choice([1, 1, 2, 3, 4, 5])
            datum = {1: rng.choice(bags), 2: rng.randrange(80, 400), 3: rng.getrandbits(16), 4: 0x400 + rng.randrange(200)}
            all_events.append([time >> 32, time & 0xFFFFFFFF, rng.randrange(2), code, datum.get(code, 0)])
        if not is_sorted:
            rng.shuffle(all_events)
        return records(5, [count, 25_000_000], [word for event in all_events for word in event])

    sections = [
        section(1, table),
        records(2, [len(symbols) // 2], symbols),
        records(3, [len(definitions)], words),
        records(4, [2], tracks),
        events(0, 40, True),
        events(100_000, 20, False),
    ]
    return bytes([1, 0]) + struct.pack(">HI", len(sections), START_NS // 10**9) + b"".join(sections)


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "logs"
    out.mkdir(parents=True, exist_ok=True)
    (out / "dock.elog").write_bytes(elog())
    (out / "belt.cpel").write_bytes(cpel())


main()
