"""`tracemill.bt2` and `tracemill.babeltrace`: against the JSON lines, and against the real modules where they are."""

import collections
import copy
import datetime
import gc
import json
import math
import numbers
import struct
import subprocess
import sys

import pytest
from conftest import CORPUS, ROOT, TRACES

import tracemill
from tracemill import babeltrace, bt2
from tracemill.babeltrace.babeltrace import _Reading
from tracemill.bt2._classes import World

NAMES = ["mill", "orders", "losses", "overwritten"]
OTHERS = [ROOT / "demo" / "logs", ROOT / "demo" / "calls"] + sorted(CORPUS.glob("trace-cmd/*/trace.dat"))


def events(path, **options):
    found = bt2.TraceCollectionMessageIterator(str(path), **options)
    return [message for message in found if type(message) is bt2._EventMessageConst]


def plain(field):
    """A field as its JSON line has it."""
    if field is None:
        return None
    if isinstance(field, bt2._StructureFieldConst):
        return {name: plain(member) for name, member in field.items()}
    if isinstance(field, bt2._ArrayFieldConst):
        return [plain(element) for element in field]
    if isinstance(field, bt2._VariantFieldConst):
        return plain(field.selected_option)
    if isinstance(field, bt2._EnumerationFieldConst):
        return {"value": int(field), "labels": field.labels}
    if isinstance(field, bt2._BoolFieldConst):
        return bool(field)
    if isinstance(field, bt2._IntegerFieldConst):
        return int(field)
    if isinstance(field, bt2._RealFieldConst):
        value = float(field)
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return str(field)


@pytest.mark.parametrize("name", NAMES)
def test_events_are_those_of_the_lines(name):
    with tracemill.open(TRACES / name) as traces:
        want = [event.to_dict() for event in traces.events()]
    have = events(TRACES / name)
    assert len(have) == len(want) >= 500
    for message, line in zip(have, want):
        event = message.event
        assert (event.name, event.id) == (line["name"], line["id"])
        assert message.default_clock_snapshot.ns_from_origin == line["ns"]
        assert message.default_clock_snapshot.value == line["cycles"]
        # A context that only says where its packet is does not exist here.
        assert plain(event.payload_field) == line["payload"]
        assert plain(event.common_context_field) == line.get("stream_context")
        assert event.packet.context_field["cpu_id"] == line["cpu"] == event["cpu_id"]


@pytest.mark.parametrize("name", NAMES)
def test_version_1_has_the_same_events(name):
    traces = babeltrace.TraceCollection()
    assert list(traces.add_traces_recursive(str(TRACES / name), "ctf")) == [str(TRACES / name)]
    have, want = list(traces.events), events(TRACES / name)
    assert len(have) == len(want)
    for old, message in zip(have, want):
        snapshot = message.default_clock_snapshot
        assert (old.name, old.timestamp, old.cycles) == (message.event.name, snapshot.ns_from_origin, snapshot.value)
        for field in old.field_list_with_scope(babeltrace.CTFScope.EVENT_FIELDS):
            new = message.event.payload_field[field]
            if isinstance(new, bt2._EnumerationFieldConst):
                assert old[field] in new.labels if new.labels else _fails(old, field)
            elif isinstance(new, (bt2._IntegerFieldConst, bt2._RealFieldConst, bt2._StringFieldConst)):
                assert old[field] == new or old[field] != old[field]
        assert old["cpu_id"] == message.event["cpu_id"]
    assert (traces.timestamp_begin, traces.timestamp_end) == (have[0].timestamp, have[-1].timestamp)


def order(path, **options):
    """Kinds of messages, with the stream of each and its time."""
    found = []
    for message in bt2.TraceCollectionMessageIterator(str(path), **options):
        kind = type(message).__name__
        if "Packet" in kind and "Discarded" not in kind:
            found.append((kind, message.packet.stream.id, message.default_clock_snapshot.ns_from_origin))
        elif "Stream" in kind:
            found.append((kind, message.stream.id, None))
        elif "Discarded" in kind:
            found.append((kind, message.stream.id, message.beginning_default_clock_snapshot.ns_from_origin))
        else:
            found.append((kind, message.event.stream.id, message.default_clock_snapshot.ns_from_origin))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_messages_are_nested_and_sorted(name):
    open_packets, begun, last = {}, collections.Counter(), 0
    found = order(TRACES / name)
    with tracemill.open(TRACES / name) as traces:
        streams = traces.info(packets=True)["traces"][0]["streams"]
    for kind, _, ns in found:
        if ns is not None:
            assert ns >= last
            last = ns
        begun[kind] += 1
    assert begun["_StreamBeginningMessageConst"] == begun["_StreamEndMessageConst"] == len(streams)
    packets = sum(stream["packets"] for stream in streams)
    assert begun["_PacketBeginningMessageConst"] == begun["_PacketEndMessageConst"] == packets
    discarded = sum(stream["discarded_events"] or 0 for stream in streams)
    messages = bt2.TraceCollectionMessageIterator(str(TRACES / name))
    counted = sum(m.count for m in messages if type(m) is bt2._DiscardedEventsMessageConst)
    assert counted == discarded
    # Each event is inside of a packet of its stream.
    for message in bt2.TraceCollectionMessageIterator(str(TRACES / name)):
        kind = type(message)
        if kind is bt2._PacketBeginningMessageConst:
            assert open_packets.setdefault(id(message.packet.stream), True)
        elif kind is bt2._PacketEndMessageConst:
            del open_packets[id(message.packet.stream)]
        elif kind is bt2._EventMessageConst:
            assert id(message.event.stream) in open_packets


def test_times():
    path = TRACES / "orders"
    all_ns = [message.default_clock_snapshot.ns_from_origin for message in events(path)]
    begin, end = all_ns[100] / 1e9, all_ns[300] / 1e9
    want = [ns for ns in all_ns if int(begin * 1e9) <= ns <= int(end * 1e9)]
    have = [message.default_clock_snapshot.ns_from_origin for message in events(path, begin=begin, end=end)]
    assert have == want and len(want) > 100
    dates = {"begin": datetime.datetime.fromtimestamp(begin), "end": datetime.datetime.fromtimestamp(end)}
    assert abs(len(events(path, **dates)) - len(want)) < 5
    kinds = [kind for kind, _, _ in order(path, begin=begin, end=end)]
    assert kinds[:4] == ["_StreamBeginningMessageConst", "_PacketBeginningMessageConst"] * 2
    assert sorted(kinds[-4:]) == ["_PacketEndMessageConst"] * 2 + ["_StreamEndMessageConst"] * 2
    messages = list(bt2.TraceCollectionMessageIterator(str(path), begin=begin, end=end))
    assert messages[0].default_clock_snapshot.ns_from_origin == int(begin * 1e9)
    assert messages[-1].default_clock_snapshot.ns_from_origin == int(end * 1e9)
    with pytest.raises(TypeError, match="nothing"):
        events(path, begin="nothing")
    assert order(path, begin=end + 3600) == []
    before = list(bt2.TraceCollectionMessageIterator(str(path), end=begin - 3600))
    assert [type(message).__name__ for message in before] == [
        "_StreamBeginningMessageConst", "_StreamBeginningMessageConst", "_StreamEndMessageConst", "_StreamEndMessageConst"
    ]
    assert all(type(message.default_clock_snapshot) is bt2._UnknownClockSnapshot for message in before)


MICROSECONDS = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = 0; } := u8;
typealias integer { size = 32; align = 8; signed = 0; } := u32;
typealias integer { size = 64; align = 8; signed = 0; } := u64;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = "us"; freq = 1000000; };
typealias integer { size = 64; align = 8; map = clock.us.value; } := time_t;
stream { packet.context := struct { u32 content_size; u32 packet_size; time_t timestamp_begin; time_t timestamp_end;
    u8 events_discarded; };
    event.header := struct { u8 id; time_t timestamp; }; };
event { name = "tick"; id = 0; };
"""


def write_packets(folder, metadata, packets):
    """A trace of packets: begin, end, lost events so far, times of its events."""
    folder.mkdir()
    (folder / "metadata").write_text(metadata)
    data = b""
    for begin, end, lost, times in packets:
        size = 8 * (25 + 9 * len(times))
        data += struct.pack("<IIQQB", size, size, begin, end, lost) + b"".join(struct.pack("<BQ", 0, time) for time in times)
    (folder / "stream").write_bytes(data)


def clock_values(path, **options):
    """Messages other than events, with their clock values, and with counts of losses."""
    for message in bt2.TraceCollectionMessageIterator(str(path), **options):
        name = type(message).__name__.strip("_").replace("MessageConst", "")
        if name.startswith("Discarded"):
            ends = message.beginning_default_clock_snapshot.value, message.end_default_clock_snapshot.value
            yield name, ends, message.count
        elif name != "Event":
            snapshot = message.default_clock_snapshot
            yield name, None if type(snapshot) is bt2._UnknownClockSnapshot else snapshot.value


def test_what_is_cut_counts_whole_cycles(tmp_path):
    path = tmp_path / "trace"
    write_packets(path, MICROSECONDS, [(100, 200, 0, [110, 190]), (300, 400, 3, [310, 390])])
    every = [
        ("StreamBeginning", None),
        ("PacketBeginning", 100),
        ("PacketEnd", 200),
        ("DiscardedEvents", (200, 400), 3),
        ("PacketBeginning", 300),
        ("PacketEnd", 400),
        ("StreamEnd", None),
    ]
    assert list(clock_values(path)) == every

    def trimmed(**params):
        return list(clock_values(path, filter_component_specs=bt2.ComponentSpec.from_named_plugin_and_component_class(
            "utils", "trimmer", params)))

    # Between two values of the clock, 149 and 150, and 349 and 350.
    begun = [("StreamBeginning", 149), ("PacketBeginning", 149)]
    assert trimmed(begin="0.0001495") == begun + every[2:]
    assert [event.default_clock_snapshot.value for event in events(path, begin=190e-6)] == [190, 310, 390]
    lost = [("DiscardedEvents", (250, 400), None)]
    assert trimmed(begin="0.00025") == [("StreamBeginning", 250)] + lost + every[4:]
    lost = [("DiscardedEvents", (200, 349), None)]
    assert trimmed(end="0.0003495") == every[:3] + lost + every[4:5] + [("PacketEnd", 349), ("StreamEnd", 349)]


def test_times_of_trimmers(tmp_path):
    path = tmp_path / "trace"
    metadata = MICROSECONDS.replace("freq = 1000000;", "freq = 1000000; offset_s = 86400;")
    write_packets(path, metadata, [(0, 3_000_000, 0, [1_000_000, 2_000_000])])

    def values(*all_params):
        cls = bt2.find_plugin("utils").filter_component_classes["trimmer"]
        found = events(path, filter_component_specs=[bt2.ComponentSpec(cls, params) for params in all_params])
        return [event.default_clock_snapshot.value // 1_000_000 for event in found]

    # Numbers are seconds; more than one trimmer leave what all of them want.
    assert values({"begin": 86402}) == [2] and values({"end": 86401}) == [1] and values({"begin": -3}) == [1, 2]
    assert values({"begin": "86401.5"}) == [2] and values({"begin": "86401.000000001"}) == [2]
    assert values({"begin": "1970-01-02 00:00:02", "gmt": True}) == [2]
    assert values({"begin": "00:00:01", "end": "00:00:01.999999999", "gmt": True}) == [1]
    assert values({"begin": 86402}, {"end": 86401}) == [] and values({"end": 86402}, {"begin": 86402}) == [2]
    for params, words in [
        ({"begin": "soon"}, "soon"),
        ({"begin": 2.5}, "`begin` of the trimmer"),
        ({"begin": True}, "`begin` of the trimmer"),
        ({"gmt": 1}, "`gmt` of the trimmer"),
        ({"begin": 86402, "end": 86401}, "lies after"),
        ({"from": 1}, "`from`"),
    ]:
        with pytest.raises(bt2._Error, match=words):
            values(params)
    with pytest.raises(bt2._Error, match="lies after"):
        events(path, begin=2, end=1)


def test_packets_without_an_end_are_cut(tmp_path):
    path = tmp_path / "trace"
    lttng = 'env { domain = "ust"; tracer_name = "lttng-ust"; tracer_major = 2; tracer_minor = 11; };\n'
    write_packets(path, MICROSECONDS + lttng, [(100, 0, 0, [110, 190]), (300, 0, 0, [310, 390])])
    with pytest.warns(tracemill.TraceWarning, match="without an end time"):
        messages = list(clock_values(path, end=350e-6))
    assert messages[-3:] == [("PacketBeginning", 300), ("PacketEnd", 350), ("StreamEnd", 350)]


def test_packets_are_cut_by_the_ends_that_they_state(tmp_path):
    path = tmp_path / "trace"
    # Of these versions, events may come after the end of their packet: for searching, it ends where the next begins.
    lttng = 'env { domain = "kernel"; tracer_name = "lttng-modules"; tracer_major = 2; tracer_minor = 8; };\n'
    write_packets(path, MICROSECONDS + lttng, [(100, 200, 0, [110, 190]), (300, 400, 3, [310, 400])])
    second = [("PacketBeginning", 300), ("PacketEnd", 400), ("StreamEnd", None)]
    lost = [("DiscardedEvents", (250, 400), None)]
    assert list(clock_values(path, begin=250e-6)) == [("StreamBeginning", 250)] + lost + second
    first = [("StreamBeginning", None), ("PacketBeginning", 100), ("PacketEnd", 200)]
    lost = [("DiscardedEvents", (200, 250), None)]
    assert list(clock_values(path, end=250e-6)) == first + lost + [("StreamEnd", 250)]


def test_a_rotated_stream_has_the_name_of_its_oldest_file(tmp_path):
    files = {"c_0": [(300, 400, 0, [310])], "c_1": [(100, 200, 0, [110])]}
    for name, packets in files.items():
        write_packets(tmp_path / name, MICROSECONDS, packets)
    trace = tmp_path / "trace"
    trace.mkdir()
    header = "packet.header := struct { u8 stream_instance_id; };"
    (trace / "metadata").write_text(MICROSECONDS.replace("byte_order = le;", f"byte_order = le; {header}"))
    for name in files:
        data = bytearray((tmp_path / name / "stream").read_bytes())
        size = struct.pack("<I", struct.unpack_from("<I", data)[0] + 8)
        (trace / name).write_bytes(b"\0" + size + size + data[8:])
    found = list(bt2.TraceCollectionMessageIterator(str(trace)))
    assert [message.stream.name for message in found if "Stream" in type(message).__name__] == [str(trace / "c_1")] * 2


def test_events_of_version_1_have_the_time_of_their_header(tmp_path):
    metadata = MICROSECONDS.replace("u8 id; time_t timestamp;", "u8 id; u64 number;")
    write_packets(tmp_path / "trace", metadata, [(100, 200, 0, [110, 190])])
    traces = babeltrace.TraceCollection()
    traces.add_trace(str(tmp_path / "trace"), "ctf")
    unknown = 2**64 - 1
    assert [(event.timestamp, event.cycles, event["number"]) for event in traces.events] == [
        (unknown, unknown, 110), (unknown, unknown, 190)
    ]
    assert (traces.timestamp_begin, traces.timestamp_end) == (unknown, unknown)
    # In version 2, events without a time are at the beginning of their packet.
    assert [event.default_clock_snapshot.value for event in events(tmp_path / "trace")] == [100, 100]


def test_stream_intersection():
    path = TRACES / "orders"
    begins, ends = {}, {}
    for message in bt2.TraceCollectionMessageIterator(str(path)):
        if type(message) is bt2._PacketBeginningMessageConst:
            begins.setdefault(message.packet.stream.id, message.default_clock_snapshot.ns_from_origin)
        elif type(message) is bt2._PacketEndMessageConst:
            ends[message.packet.stream.id] = message.default_clock_snapshot.ns_from_origin
    begin, end = max(begins.values()), min(ends.values())
    messages = list(bt2.TraceCollectionMessageIterator(str(path), stream_intersection_mode=True))
    cut = [message for message in messages if "Packet" in type(message).__name__]
    times = [message.default_clock_snapshot.ns_from_origin for message in cut]
    assert min(begins.values()) < begin == min(times) and max(ends.values()) > end == max(times)
    traces = babeltrace.TraceCollection(intersect_mode=True)
    traces.add_trace(str(path), "ctf")
    assert traces.has_intersection == 1
    assert [e.timestamp for e in traces.events] == [
        m.default_clock_snapshot.ns_from_origin for m in messages if type(m) is bt2._EventMessageConst
    ]


def test_numbers_are_numbers():
    event = next(message.event for message in events(TRACES / "mill") if message.event.name == "mill:grind")
    grinder, gear, grams = event["grinder"], event["gear"], event["grams"]
    assert isinstance(grinder, numbers.Integral) and not isinstance(grinder, int)
    assert isinstance(grams, numbers.Real) and not isinstance(grams, numbers.Integral)
    assert type(grinder).__name__ == "_SignedIntegerFieldConst"
    value = int(grinder)
    assert grinder == value and hash(grinder) == hash(value) and repr(grinder) == str(grinder) == str(value)
    assert [grinder + 1, 1 + grinder, grinder - 1, 5 - grinder, grinder * 3] == [
        value + 1, 1 + value, value - 1, 5 - value, value * 3
    ]
    assert [grinder << 2, 7 & grinder, ~grinder, -grinder, grinder % 2, 9 // (grinder + 1)] == [
        value << 2, 7 & value, ~value, -value, value % 2, 9 // (value + 1)
    ]
    assert "abcdef"[grinder] == "abcdef"[value] and range(grinder) == range(value)
    assert grinder < value + 1 <= 100 and max(grinder, -1) == value
    assert float(grams) + 1 == grams + 1 and round(grams) == round(float(grams))
    assert repr(gear) == f"{int(gear)} ({', '.join(gear.labels)})"
    with pytest.raises(TypeError):
        grinder + "1"
    assert grinder != "1" and grinder != None  # noqa: E711


def test_texts_and_containers():
    event = next(message.event for message in events(TRACES / "orders") if message.event.name == "orders:taken")
    customer, payload = event["customer"], event.payload_field
    assert not isinstance(customer, str) and customer == str(customer) and customer[0] == str(customer)[0]
    assert len(customer) == len(str(customer).encode()) and hash(customer) == hash(str(customer))
    assert isinstance(payload, collections.abc.Mapping) and list(payload) == list(payload.cls)
    assert payload == dict(payload) and "customer" in payload and "nothing" not in payload
    with pytest.raises(KeyError):
        payload["nothing"]
    with pytest.raises(KeyError):
        event["nothing"]
    with pytest.raises(TypeError):
        event[1]
    goods = next(field for field in payload.values() if isinstance(field, bt2._ArrayFieldConst))
    assert isinstance(goods, collections.abc.Sequence) and len(goods) == goods.length == len(list(goods))
    with pytest.raises(IndexError):
        goods[len(goods)]
    assert goods == [goods[at] for at in range(len(goods))]


def test_classes():
    message = events(TRACES / "mill")[0]
    stream = message.event.stream
    trace = stream.trace
    assert trace.environment["tracer_name"] == "lttng-ust" and trace.environment["tracer_major"] == 2
    assert isinstance(trace.environment["tracer_major"], bt2._SignedIntegerValueConst)
    assert trace.uuid.version == 4 and len(trace) == 4 and len(trace.cls) == 2
    by_name = {of.name: of for of in stream.cls.values()}
    assert by_name[message.event.name] is message.event.cls and message.event.cls.stream_class is stream.cls
    clock = stream.cls.default_clock_class
    assert (clock.name, clock.frequency, clock.origin_is_unix_epoch) == ("monotonic", 10**9, True)
    snapshot = message.default_clock_snapshot
    assert snapshot.clock_class is clock and snapshot == snapshot.value and snapshot > snapshot.value - 1
    assert clock.cycles_to_ns_from_origin(snapshot.value) == snapshot.ns_from_origin
    grind = next(m.event.cls for m in events(TRACES / "mill") if m.event.name == "mill:grind")
    gear = grind.payload_field_class["gear"].field_class
    assert type(gear).__name__ == "_SignedEnumerationFieldClassConst"
    assert gear["COARSE"].ranges.contains_value(5) and "COARSE" in [of.label for of in gear.mappings_for_value(5)]


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.parent.name + "/" + path.name)
@pytest.mark.filterwarnings("default::tracemill.TraceWarning")
def test_every_format(path):
    """Every field of every event of traces that are no CTF."""
    with tracemill.open(path, quiet=True) as traces:
        want = [(event.name, event.ns) for event in traces.events(limit=500)]
    have = []
    for message in events(path)[:500]:
        event = message.event
        for scope in (event.payload_field, event.common_context_field, event.packet.context_field):
            str(scope)
        try:
            have.append((event.name or "", message.default_clock_snapshot.ns_from_origin))
        except ValueError:
            have.append((event.name or "", None))
    assert have == want and have
    traces = babeltrace.TraceCollection()
    assert traces.add_traces_recursive(str(path), "ctf")
    for old, _ in zip(traces.events, range(500)):
        assert sum(1 for _ in old.items()) == len(old.keys()) and old.name is not None


def test_damage_is_raised_where_it_stands(tmp_path):
    folder = tmp_path / "mill"
    folder.mkdir()
    for file in (TRACES / "mill").iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    damaged = folder / "work_0"
    content = bytearray(damaged.read_bytes())
    content[4096 * 3 : 4096 * 3 + 64] = b"\xff" * 64
    damaged.write_bytes(content)
    iterator, counts, errors = iter(bt2.TraceCollectionMessageIterator(str(folder))), [0], []
    while True:
        try:
            message = next(iterator)
        except StopIteration:
            break
        except bt2._Error as error:
            # Events after it can be read all the same.
            errors.append(error)
            counts.append(0)
            continue
        counts[-1] += type(message) is bt2._EventMessageConst
    assert errors and counts[0] > 10 and counts[-1] > 10 and sum(counts) < 2000
    assert all("work_0" in str(error) and isinstance(error.__cause__, tracemill.Error) for error in errors)
    # Version 1 knows no error: the same events, and warnings.
    traces = babeltrace.TraceCollection()
    traces.add_trace(str(folder), "ctf")
    with pytest.warns(tracemill.TraceWarning, match="work_0") as warned:
        assert sum(1 for _ in traces.events) == sum(counts)
    assert len(warned) >= len(errors)


def test_what_is_not_offered_is_named(tmp_path):
    for module, name in ((bt2, "Graph"), (bt2, "find_plugins_in_path"), (babeltrace, "CTFWriter")):
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)
    with pytest.raises(KeyError, match="dmesg"):
        bt2.ComponentSpec.from_named_plugin_and_component_class("ctf", "dmesg")
    with pytest.raises(KeyError, match="pretty"):
        bt2.ComponentSpec.from_named_plugin_and_component_class("text", "pretty")
    with pytest.raises(NotImplementedError, match="source.text.dmesg"):
        bt2.TraceCollectionMessageIterator(bt2.ComponentSpec.from_named_plugin_and_component_class("text", "dmesg"))

    class Own(bt2._UserSourceComponent, message_iterator_class=bt2._UserMessageIterator):
        pass

    for use in (Own, lambda: bt2.TraceCollectionMessageIterator(bt2.ComponentSpec(Own))):
        with pytest.raises(NotImplementedError, match="Own"):
            use()
    with pytest.raises(NotImplementedError, match="_StringField"):
        bt2._StringField()
    assert issubclass(bt2._SignedEnumerationField, (bt2._SignedEnumerationFieldConst, bt2._IntegerField))
    with pytest.raises(RuntimeError, match="nowhere"):
        bt2.TraceCollectionMessageIterator([str(TRACES / "mill"), str(tmp_path / "nowhere")])
    with pytest.raises(bt2.UnknownObject, match="metadata-info"):
        bt2.QueryExecutor(bt2.find_plugin("ctf").source_component_classes["fs"], "metadata-info", {}).query()


def test_component_classes_of_a_program_can_be_queried():
    seen = []

    class Own(bt2._UserSinkComponent):
        @classmethod
        def _user_query(cls, executor, name, params, method_obj):
            seen.append((executor, executor.logging_level, executor.is_interrupted, params, method_obj))
            if name == "again":
                raise bt2.TryAgain
            return params if name == "same" else 1 // int(name)

    executor = bt2.QueryExecutor(Own, "same", {"a": [1, None], "b": True}, method_obj=seen)
    executor.logging_level = bt2.LoggingLevel.INFO
    executor.default_interrupter.set()
    answer = executor.query()
    assert type(answer) is bt2._MapValueConst and type(answer["a"]) is bt2._ArrayValueConst
    assert answer == {"a": [1, None], "b": True} == seen[0][3] and seen[0][4] is seen
    assert seen[0][1:3] == (bt2.LoggingLevel.INFO, True)
    with pytest.raises(RuntimeError, match="not valid anymore"):
        seen[0][0].logging_level
    assert bt2.QueryExecutor(Own, "same").query() is None
    assert type(bt2.QueryExecutor(Own, "1").query()) is bt2._SignedIntegerValueConst
    with pytest.raises(bt2.TryAgain):
        bt2.QueryExecutor(Own, "again").query()
    with pytest.raises(bt2._Error) as raised:
        bt2.QueryExecutor(Own, "0").query()
    cause = raised.value[0]
    assert "ZeroDivisionError" in cause.message and len(raised.value) == 3
    assert (cause.component_class_type, cause.component_class_name) == (bt2.ComponentClassType.SINK, "Own")

    class Silent(bt2._UserSourceComponent, message_iterator_class=bt2._UserMessageIterator, name="quiet"):
        """Says nothing.

        Never.
        """

    assert (Silent.name, Silent.description, Silent.help) == ("quiet", "Says nothing.", "Never.")
    with pytest.raises(bt2.UnknownObject, match="quiet"):
        bt2.QueryExecutor(Silent, "object").query()


def test_objects_are_not_copied_and_changed_as_bt2_has_it():
    message = events(TRACES / "mill")[0]
    for made in (message, message.event, message.default_clock_snapshot, message.event.payload_field, message.event.stream):
        for copied in (copy.copy, copy.deepcopy):
            with pytest.raises(NotImplementedError):
                copied(made)
    with pytest.raises(TypeError):
        3 in message.event
    number = bt2.create_value(3)
    number.value = 2**63 - 1
    assert number == 2**63 - 1
    with pytest.raises(ValueError, match="a signed 64-bit"):
        number.value = 2**63
    with pytest.raises(TypeError):
        hash(number)
    ranges = bt2.SignedIntegerRangeSet([1, (5, 9)])
    ranges.add((20, 30))
    assert len(ranges) == 3 and ranges.contains_value(25) and not ranges.contains_value(10)
    with pytest.raises(NotImplementedError):
        ranges.discard((20, 30))


def test_components_and_queries():
    fs = bt2.find_plugin("ctf").source_component_classes["fs"]
    path = str(TRACES / "orders")
    spec = bt2.ComponentSpec(fs, {"inputs": [path], "clock-class-offset-ns": 5, "trace-name": "moved"})
    moved = next(message for message in bt2.TraceCollectionMessageIterator(spec) if type(message) is bt2._EventMessageConst)
    first = events(TRACES / "orders")[0]
    assert moved.default_clock_snapshot.ns_from_origin == first.default_clock_snapshot.ns_from_origin + 5
    assert moved.event.stream.trace.name == "moved"
    support = bt2.QueryExecutor(fs, "babeltrace.support-info", {"type": "directory", "input": path}).query()
    assert support["weight"] == 0.75 and support["group"] == str(first.event.stream.trace.uuid)
    support = bt2.QueryExecutor(fs, "babeltrace.support-info", {"type": "directory", "input": "/etc"}).query()
    assert support["weight"] == 0.0
    infos = bt2.QueryExecutor(fs, "babeltrace.trace-infos", {"inputs": [path]}).query()
    assert len(infos[0]["stream-infos"]) == 2
    assert infos[0]["stream-infos"][0]["range-ns"]["begin"] < first.default_clock_snapshot.ns_from_origin


SCRIPT = """
import sys, bt2, babeltrace, babeltrace.babeltrace
print(bt2.__name__, babeltrace.babeltrace.Event.__name__, sys.argv[1:], __name__)
print(sum(type(m) is bt2._EventMessageConst for m in bt2.TraceCollectionMessageIterator(sys.argv[1])))
try:
    bt2.Graph
except AttributeError as error:
    print(error)
"""


def test_a_script_runs_with_both_names_taken_over(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "tracemill.compat", str(script), str(TRACES / "mill"), "--more"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == f"bt2 Event {[str(TRACES / 'mill'), '--more']} __main__"
    assert lines[1] == "2000" and "`Graph`" in lines[2]
    module = [sys.executable, "-m", "tracemill.compat", "-m", "script", str(TRACES / "mill")]
    done = subprocess.run(module, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[1] == "2000"


def test_version_1_declarations_and_handles():
    traces = babeltrace.TraceCollection()
    handle = traces.add_trace(str(TRACES / "mill"), "ctf")
    assert handle.path == str(TRACES / "mill") and handle.timestamp_begin < handle.timestamp_end
    assert traces.add_trace(str(TRACES), "ctf") is None and traces.add_traces_recursive(str(ROOT / "docs"), "ctf") == {}
    declarations = {event.name: list(event.fields_scope(babeltrace.CTFScope.EVENT_FIELDS)) for event in handle.events}
    grinder, lot, gear, grams = declarations["mill:grind"]
    assert isinstance(grinder, babeltrace.IntegerFieldDeclaration) and grinder.length == 32
    assert repr(gear) == "(EVENT_FIELDS) ENUM gear" and isinstance(grams, babeltrace.FloatFieldDeclaration)
    event = next(event for event in traces.events if event.name == "mill:grind")
    assert event.handle is handle and event.trace_collection is traces
    assert event.field_with_scope("grinder", babeltrace.CTFScope.EVENT_FIELDS) == event["grinder"]
    assert event.field_with_scope("grinder", babeltrace.CTFScope.EVENT_CONTEXT) is None
    assert event["magic"] == 0xC1FC1FC1 and event["id"] in ("compact", "extended") and isinstance(event["v"], dict)
    assert event.get("nothing", 5) == 5 and "nothing" not in event
    with pytest.raises(KeyError):
        event["nothing"]
    with pytest.raises(ValueError):
        event.field_with_scope("grinder", 17)
    first, last = traces.timestamp_begin, traces.timestamp_end
    middle = (first + last) // 2
    some = [event.timestamp for event in traces.events_timestamps(first, middle)]
    assert some == [event.timestamp for event in traces.events if event.timestamp <= middle]
    unlabelled = [event for event in traces.events if event.name == "mill:grind" and _fails(event, "gear")]
    assert unlabelled
    traces.remove_trace(handle)
    assert list(traces.events) == []


def _fails(event, name):
    try:
        event[name]
    except babeltrace.FieldError as error:
        return name in str(error)
    return False


def test_traces_are_closed():
    """What refers to a trace does not keep itself alive; what is kept of it can be used."""
    stream = next(iter(bt2.TraceCollectionMessageIterator(str(TRACES / "orders")))).stream
    gc.collect()
    assert [member for event in stream.cls.values() for member in event.payload_field_class]
    kept = [message.event for message in events(TRACES / "orders")][-1]
    gc.collect()
    assert kept.cls.name == kept.name and kept.stream.trace.name and str(kept.packet.context_field)
    del stream, kept

    def opened():
        gc.collect()
        types = [type(one) for one in gc.get_objects()]
        return types.count(World), types.count(_Reading)

    traces = babeltrace.TraceCollection()
    traces.add_trace(str(TRACES / "orders"), "ctf")
    new, old = events(TRACES / "orders")[-1].event, list(traces.events)[-1]
    assert new.cls.name and new.packet.context_field and new.stream.trace and old["cpu_id"] == new["cpu_id"]
    assert opened() == (1, 1)
    del new, old, traces
    assert opened() == (0, 0)


def test_memory_is_flat():
    """Events that are gone are not kept: the pages of the process do not grow with what is read."""
    code = """
import resource, sys
from tracemill import bt2
def read(count):
    for _ in range(count):
        for message in bt2.TraceCollectionMessageIterator(sys.argv[1]):
            if type(message) is bt2._EventMessageConst:
                str(message.event.payload_field)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
first = read(3)
print(read(12) - first)
"""
    done = subprocess.run([sys.executable, "-c", code, str(TRACES / "mill")], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) < 20_000
