#!/usr/bin/env python3
"""Compares `convert --to perfetto` with the JSON lines of the same traces.

    conformance/compare_perfetto.py PROGRAM TRACE...

Needs the Python package `perfetto`, whose messages decode the output. For each trace: every packet belongs to the schema
(no unknown fields), every string and every track is announced before it is used, and the track events and the messages of the
kernel are the events of the lines: number, order, times, names of annotations and their values. An event that has a message
which does not hold all of its fields is a track event, too.
"""

import base64
import collections
import json
import math
import os
import re
import subprocess
import sys
import tempfile

try:
    from google.protobuf import unknown_fields
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
except ImportError as error:
    sys.exit(f"the Python package `perfetto` is needed (pip install perfetto): {error}")

HALF = re.compile("(?<![a-z0-9])(entry|exit|enter|begin|end)(?![a-z0-9])", re.I)
# The process of a child, as its fork says, and the name of a thread, as its exec says.
SAID_BY_OTHERS = ("task_newtask", "task_rename")
FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Bad(Exception):
    pass


def has_unknown(message):
    if len(unknown_fields.UnknownFieldSet(message)):
        return True
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        values = value if hasattr(value, "add") else [value]
        if any(has_unknown(one) for one in values):
            return True
    return False


def read_packets(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        if data[at] != 0x0A:
            raise Bad(f"byte {at}: no packet begins here")
        at += 1
        size = shift = 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        packet = pb.TracePacket()
        packet.ParseFromString(data[at : at + size])
        at += size
        yield packet


class Reader:
    def __init__(self, path):
        self.names, self.categories, self.keys, self.strings = {}, {}, {}, {}
        self.tracks = {}
        self.open = {}
        self.events = []
        self.counters = 0
        self.kernel = 0
        self.spans = 0
        self.snapshots = 0
        # Messages of the kernel, by CPU.
        self.messages = collections.defaultdict(collections.deque)
        for number, packet in enumerate(read_packets(path)):
            if has_unknown(packet):
                raise Bad(f"packet {number}: a field that the schema does not have")
            if packet.HasField("track_descriptor"):
                if packet.trusted_packet_sequence_id != 2 or packet.sequence_flags:
                    raise Bad(f"packet {number}: a track among events")
                self.packet(packet)
                continue
            if packet.trusted_packet_sequence_id != 1:
                raise Bad(f"packet {number}: no sequence")
            if packet.HasField("system_info"):
                continue
            if number == 0 and packet.sequence_flags != 1 or number > 0 and packet.sequence_flags != 2:
                raise Bad(f"packet {number}: sequence flags {packet.sequence_flags}")
            self.packet(packet)

    def packet(self, packet):
        data = packet.interned_data
        for table, entries, text in (
            (self.names, data.event_names, "name"),
            (self.categories, data.event_categories, "name"),
            (self.keys, data.debug_annotation_names, "name"),
            (self.strings, data.debug_annotation_string_values, "str"),
        ):
            for entry in entries:
                if entry.iid in table or entry.iid == 0:
                    raise Bad(f"string {entry.iid} is announced twice")
                value = getattr(entry, text)
                table[entry.iid] = value if isinstance(value, str) else value.decode()
        if packet.HasField("clock_snapshot"):
            self.snapshots += 1
            clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            if clocks.get(6) != packet.timestamp:
                raise Bad("a snapshot of clocks that is not of its time")
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("parent_uuid") and track.parent_uuid not in self.tracks:
                raise Bad(f"track {track.uuid} is below one that was not announced")
            self.tracks[track.uuid] = track
        if packet.HasField("track_event"):
            self.event(packet)
        if packet.HasField("ftrace_events"):
            bundle = packet.ftrace_events
            for event in bundle.event:
                kind = event.WhichOneof("event")
                fields = {field.name: value for field, value in getattr(event, kind).ListFields()}
                self.messages[bundle.cpu].append((event.timestamp, kind, fields))

    def event(self, packet):
        event = packet.track_event
        track = self.tracks.get(event.track_uuid)
        if track is None:
            raise Bad(f"an event on the track {event.track_uuid} that was not announced")
        if event.type == pb.TrackEvent.TYPE_COUNTER:
            if not track.HasField("counter"):
                raise Bad("a counter on a track that is none")
            self.counters += 1
            return
        name = self.names[event.name_iid] if event.name_iid else event.name
        depth = self.open.get(event.track_uuid, 0)
        if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            self.open[event.track_uuid] = depth + 1
        elif event.type == pb.TrackEvent.TYPE_SLICE_END:
            self.open[event.track_uuid] = depth - 1
        if event.type == pb.TrackEvent.TYPE_SLICE_END and not event.category_iids:
            # Of a slice whose own end is missing.
            return
        if track.name.endswith(" runs") or name in ("discarded events", "lost packets"):
            return
        arguments = {}
        for annotation in event.debug_annotations:
            key, value = self.value(annotation)
            arguments[key] = value
        is_begin = event.type == pb.TrackEvent.TYPE_SLICE_BEGIN
        if is_begin and not track.HasField("thread") and track.name == name and "span_id" in (arguments.get("payload") or {}):
            # A span from its first entry to its close, beside the event on its thread.
            self.spans += 1
            return
        self.events.append((packet.timestamp, event.type, name, arguments, track))

    def value(self, of):
        key = self.keys[of.name_iid] if of.name_iid else of.name
        if of.dict_entries:
            return key, dict(self.value(entry) for entry in of.dict_entries)
        if of.array_values:
            return key, [self.value(entry)[1] for entry in of.array_values]
        if of.HasField("string_value_iid"):
            return key, self.strings[of.string_value_iid]
        kind = of.WhichOneof("value")
        return key, None if kind is None else getattr(of, kind)


def same(line, value):
    """Is a value of a line what an annotation holds?"""
    if isinstance(line, dict):
        if set(line) == {"media_type", "base64"}:
            return value == line["base64"] and base64.b64decode(value) is not None
        value = {} if value is None else value
        if not isinstance(value, dict):
            return False
        # An absent value, and a list without labels, has no annotation.
        wanted = {key: one for key, one in line.items() if not (one is None or key in ("labels", "flags") and one == [])}
        return set(value) == set(wanted) and all(same(one, value[key]) for key, one in wanted.items())
    if isinstance(line, list):
        value = [] if value is None else value
        return isinstance(value, list) and len(line) == len(value) and all(map(same, line, value))
    if isinstance(value, float):
        line = FLOATS.get(line, line)
        return isinstance(line, (int, float)) and (value == line or math.isnan(value) and math.isnan(line))
    if isinstance(line, int) and not isinstance(line, bool) and isinstance(value, str):
        return str(line) == value
    if line is None:
        return value is None
    return type(line) is type(value) and line == value


def take_message(reader, line, ns):
    """The next message of the CPU of a line, if it is of this event: its values are values of the line."""
    queue = reader.messages[line.get("cpu")]
    while queue and queue[0][1] in SAID_BY_OTHERS and not line.get("name", "").endswith(queue[0][1]):
        queue.popleft()
    if not queue or queue[0][0] != ns:
        return None
    _, kind, fields = queue[0]
    payload = line.get("payload") or {}
    values = [one["value"] if isinstance(one, dict) and "value" in one else one for one in payload.values()]
    values = [value for one in values for value in (one if isinstance(one, list) else [one])]

    def is_of(value):
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            return value in values or isinstance(value, int) and value % 2**64 in [one % 2**64 for one in values if isinstance(one, int)]
        return all(is_of(one) for one in value)

    # Old kernels mark preemption by a bit that trace_processor reads as another state.
    state = fields.get("prev_state")
    is_masked = state is not None and state in [one & 0xFF for one in values if isinstance(one, int)]
    if not all(is_of(value) for name, value in fields.items() if not (name == "prev_state" and is_masked)):
        return None
    queue.popleft()
    reader.kernel += 1
    return len(fields) == len(payload) and not line.get("stream_context") and not line.get("event_context")


def compare(program, trace, scratch):
    out = os.path.join(scratch, "out.pftrace")
    made = subprocess.run([program, "convert", "-q", "--to", "perfetto", "--force", "-o", out, trace], capture_output=True)
    if made.returncode not in (0, 3):
        raise Bad(f"convert ended with {made.returncode}: {made.stderr.decode()[:300]}")
    lines = subprocess.run([program, "print", "-q", "--format", "jsonl", trace], capture_output=True).stdout
    reader = Reader(out)
    lines = [json.loads(line) for line in lines.splitlines()]
    latest, at = 0, 0
    for number, line in enumerate(lines, 1):
        latest = latest if line["ns"] is None else max(line["ns"], 0)
        if take_message(reader, line, latest):
            continue
        if at == len(reader.events):
            raise Bad(f"line {number}: there is no event for it")
        ns, kind, name, arguments, _ = reader.events[at]
        at += 1
        if ns != latest:
            raise Bad(f"line {number}: {ns} ns for {line['ns']}")
        known = line.get("name", "(no name)")
        # A half of a pair whose other half is missing has the title of the pair.
        if kind == pb.TrackEvent.TYPE_INSTANT and known not in (name, "event") and not HALF.search(known):
            raise Bad(f"line {number}: `{name}` for `{line.get('name')}`")
        for key in ("stream_context", "event_context", "payload"):
            own = dict(line.get(key) or {}) if not isinstance(line.get(key), list) else line[key]
            value = arguments.get(key)
            if isinstance(own, dict) and isinstance(value, dict) and isinstance(own.get("symbol"), str):
                # Names of functions are shown to people.
                own.pop("symbol"), value.pop("symbol", None)
            if not same(own, value):
                raise Bad(f"line {number}: {key} {json.dumps(own)[:300]} became {str(value)[:300]}")
    if at != len(reader.events):
        raise Bad(f"{len(reader.events) - at} events that no line has")
    left = [message for queue in reader.messages.values() for message in queue if message[1] not in SAID_BY_OTHERS]
    if left:
        raise Bad(f"{len(left)} messages that no line has: {left[0]}")
    return reader


def main():
    program, traces = sys.argv[1], sys.argv[2:]
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for trace in traces:
            try:
                reader = compare(program, trace, scratch)
            except Bad as error:
                failed += 1
                print(f"FAIL {trace}: {error}")
                continue
            kinds = [kind for _, kind, _, _, _ in reader.events]
            threads = sum(track.HasField("thread") for track in reader.tracks.values())
            print(
                f"{trace}: {reader.kernel} messages of the kernel, {len(kinds)} track events, {kinds.count(1)} begin, {kinds.count(2)} end, {reader.counters} counted, {reader.spans} spans; "
                f"{len(reader.tracks)} tracks, {threads} threads; {reader.snapshots} snapshots of clocks"
            )
    print(f"{len(traces) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not traces else 0)


if __name__ == "__main__":
    main()
