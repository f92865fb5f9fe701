#!/usr/bin/env python3
"""Put the same questions to the objects of bt2, by the real module or by tracemill's: `compare_babeltrace.py` compares the answers.

    babeltrace_objects.py FOLDER      writes a CTF 1.8 trace with fields of all kinds

`questions(bt2, path)` yields a line for each question: what operators, functions, indexes, comparisons and attributes of each
object of a trace give, or the class of the error. Objects are messages, events, packets, streams, traces, clocks, their classes,
and fields of each kind with their classes. `values(bt2)` asks values, ranges and constants, which need no trace.
"""
import collections.abc, copy, fractions, math, numbers, operator, pathlib, struct, sys

# A trace with fields of all kinds. Each field is aligned to bytes, so that it can be packed.

METADATA = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = 0; } := u8;
typealias integer { size = 8; align = 8; signed = 1; } := s8;
typealias integer { size = 64; align = 8; signed = 0; base = 16; } := u64;
typealias integer { size = 64; align = 8; signed = 1; } := s64;
trace { major = 1; minor = 8; uuid = "2a6422d0-6cee-11e0-8c08-cb07d7b3a564"; byte_order = le;
    packet.header := struct { integer { size = 32; align = 8; base = 16; } magic; u8 stream_id; }; };
env { text = "a word"; number = -12; };
clock { name = "ticks"; description = "counts"; uuid = "2a6422d0-6cee-11e0-8c08-cb07d7b3a565"; freq = 1000; precision = 10;
    offset_s = 12; offset = 34; absolute = TRUE; };
typealias integer { size = 32; align = 8; map = clock.ticks.value; } := time_t;
stream { id = 3;
    packet.context := struct { time_t timestamp_begin; time_t timestamp_end; u8 cpu_id; };
    event.header := struct { u8 id; time_t timestamp; };
    event.context := struct { s8 _common; u8 _both; }; };
event { name = "numbers"; id = 0; stream_id = 3; loglevel = 5; model.emf.uri = "https://example.org/numbers"; fields := struct {
    u8 _small; s8 _signed; u64 _large; s64 _least; u8 _both;
    floating_point { exp_dig = 8; mant_dig = 24; align = 8; } _single;
    floating_point { exp_dig = 11; mant_dig = 53; align = 8; } _double;
    enum : u8 { one = 1, few = 2 ... 4, some = 3 ... 9, other } _labels;
    enum : s8 { low = -128 ... -1, zero = 0, high = 1 ... 127 } _signs; }; };
event { name = "texts"; id = 1; stream_id = 3; context := struct { string _own; }; fields := struct {
    string _text; integer { size = 8; align = 8; signed = 0; encoding = UTF8; } _characters[5]; }; };
event { name = "containers"; id = 2; stream_id = 3; fields := struct {
    u8 _three[3]; u8 _count; s8 _many[_count]; struct { u8 _first; string _second; } _inner;
    struct { u8 _x; } _points[2]; u8 _square[2][2];
    enum : u8 { number = 0, text = 1, pair = 2 } _tag;
    variant <_tag> { u8 number; string text; struct { s8 _left; s8 _right; } pair; } _choice; }; };
event { name = "empty"; id = 3; stream_id = 3; };
"""

NUMBERS = [
    (5, -3, 2**64 - 1, -(2**63), 1, 1.5, -0.1, 1, -5),
    (0, 0, 0, 0, 2, 0.0, 0.0, 3, 0),
    (255, 127, 12, -12, 3, -2.25, 1e300, 4, 127),
    (1, -1, 1, -1, 4, float("inf"), float("nan"), 200, 1),
]
TEXTS = [("outer", "a text", b"ab\0de"), ("", "", b"\0\0\0\0\0"), ("x", "Grüße\tto 'you'", b"12345")]
CHOICES = [(0, b"\x2a"), (1, b"word\0"), (2, struct.pack("<bb", -1, 1))]


def write_trace(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    (folder / "metadata").write_text(METADATA)
    events = []

    def event(number, content):
        at = len(events)
        events.append(struct.pack("<BIbB", number, 100 + at, -at, 2 * at) + content)

    for row in NUMBERS:
        event(0, struct.pack("<BbQqBfdBb", *row))
    for own, text, characters in TEXTS:
        event(1, own.encode() + b"\0" + text.encode() + b"\0" + characters)
    for at, (tag, choice) in enumerate(CHOICES):
        many = bytes(range(at * 2))
        inner = struct.pack("<BBB", 1, 2, 3) + bytes([len(many)]) + many + b"\x07in\0" + b"\x08\x09" + b"\1\2\3\4"
        event(2, inner + bytes([tag]) + choice)
    event(3, b"")
    head = struct.pack("<IBIIB", 0xC1FC1FC1, 3, 99, 100 + len(events), 1)
    (folder / "stream").write_bytes(head + b"".join(events))


# Questions. An answer is a text; errors are answers, too.


def name_of(it):
    """The class of an object. Some that cannot be changed are, in 2.0.4, of the class that can."""
    return type(it).__name__.lstrip("_").replace("Const", "")


def show(value):
    """A value of Python as it is, and an object of bt2 by its class and its text."""
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(show, value))})"
    if isinstance(value, type):
        return f"class {value.__name__}"
    text = ascii(value)
    name = name_of(value)
    # Texts of objects without one have an address.
    return f"{name} object" if " object at 0x" in text or " object @ 0x" in text else f"{name} {text}"


def ask(question, *operands):
    try:
        return show(question(*operands))
    except Exception as error:
        return f"! {type(error).__name__}"


UNARY = {
    "repr": repr,
    "str": str,
    "format": format,
    "percent": lambda it: "%s" % it,
    "bool": bool,
    "hash": lambda it: hash(it) == hash(copied(it)),
    "len": len,
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "hex": hex,
    "digits": lambda it: f"{it:d}",
    "point": lambda it: f"{it:.2f}",
    "percent d": lambda it: "%d" % it,
    "percent x": lambda it: "%x" % it,
    "abs": abs,
    "neg": operator.neg,
    "pos": operator.pos,
    "invert": operator.invert,
    "not": operator.not_,
    "round": round,
    "round 0": lambda it: round(it, 0),
    "round 1": lambda it: round(it, 1),
    "round -1": lambda it: round(it, -1),
    "round x": lambda it: round(it, "x"),
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
    "range": lambda it: len(range(it)) if not isinstance(it, numbers.Integral) or abs(int(it)) < 1000 else None,
    "iter": lambda it: list(it),
    "reversed": lambda it: list(reversed(it)),
    "sorted": sorted,
    "bytes": lambda it: bytes(it) if not isinstance(it, numbers.Integral) or abs(int(it)) < 1000 else None,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "dict": dict,
    "keys": lambda it: list(it.keys()),
    "values": lambda it: list(it.values()),
    "items": lambda it: list(it.items()),
    "delete 0": lambda it: operator.delitem(it, 0),
    "set 0": lambda it: operator.setitem(it, 0, 1),
    "delete name": lambda it: operator.delitem(it, "_x"),
    "set name": lambda it: operator.setitem(it, "_x", 1),
    "call": lambda it: it(),
    "with itself": lambda it: it == it,
}
BINARY = {
    name: getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor eq ne lt le gt ge".split()
}
BINARY["divmod"] = divmod
KEYS = [0, 1, 2, -1, 3, 1000, True, 1.0, "x", "_x", "small", "common", "cpu_id", "one", "number", None, (), [], slice(0, 2), 2**64]
KINDS = [
    numbers.Number,
    numbers.Complex,
    numbers.Real,
    numbers.Integral,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Mapping,
    collections.abc.MutableMapping,
    collections.abc.Set,
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Sized,
    collections.abc.Container,
    collections.abc.Hashable,
    collections.abc.Callable,
]


def copied(it):
    """A value of Python that equals a field."""
    if isinstance(it, numbers.Integral):
        return int(it)
    return float(it) if isinstance(it, numbers.Real) else str(it)


def is_small(it):
    return not isinstance(it, numbers.Number) or isinstance(it, complex) or abs(it) < 300


def fits(name, left, right):
    """Can it be computed in a moment?"""
    return name not in ("pow", "lshift", "imul", "mul") or (is_small(left) and is_small(right))


#: Attributes whose values say where an object is, or lead back to one that is asked elsewhere.
PLACES = ("addr", "cls", "trace", "stream", "trace_class", "stream_class", "packet", "event", "clock_class")


def attributes(label, it):
    for name in sorted(name for name in dir(it) if not name.startswith("_")):
        is_method = callable(getattr(type(it), name, None))
        yield f"{label} has {name}"
        if not is_method:
            yield f"{label} .{name} = {ask(getattr, it, name) if name not in PLACES else ''}"
            yield f"{label} set .{name}: {ask(setattr, it, name, None)}"
            yield f"{label} del .{name}: {ask(delattr, it, name)}"


def asked(label, it, operands=()):
    """All about an object."""
    yield f"{label} is {name_of(it)}: {[kind.__name__ for kind in KINDS if isinstance(it, kind)]}"
    for name, question in UNARY.items():
        yield f"{label} {name}: {ask(question, it)}"
    for key in KEYS:
        yield f"{label} [{show(key)}]: {ask(operator.getitem, it, key)}"
        yield f"{label} in {show(key)}: {ask(operator.contains, it, key)}"
        if hasattr(it, "get"):
            yield f"{label} get {show(key)}: {ask(it.get, key, 'otherwise')}"
        for at in ("member_at_index", "option_at_index", "mappings_for_value", "contains", "contains_value", "count", "index"):
            if hasattr(it, at):
                yield f"{label} {at} {show(key)}: {ask(getattr(it, at), key)}"
    for operand in [*OPERANDS, *operands]:
        for name, question in BINARY.items():
            for left, right in ((it, operand), (operand, it)):
                if fits(name, left, right):
                    yield f"{label} {name} {show(left)}, {show(right)}: {ask(question, left, right)}"
    yield from attributes(label, it)


OPERANDS = [0, 1, -1, 3, 7, True, 2.5, -0.5, 2j, fractions.Fraction(1, 3), "", "a text", "x", None, [], [1, 2, 3], (1, 2), {}, {"x": 1}]


def relations(bt2):
    """Which class is a class of which."""
    known = sorted((name, of) for name, of in vars(bt2).items() if isinstance(of, type))
    for name, of in known:
        for other, base in known:
            if name != other and issubclass(of, base):
                yield f"class {name} of {other}"
        for kind in KINDS:
            if issubclass(of, kind):
                yield f"class {name} of {kind.__name__}"
        # Numbers that have names.
        if not name.startswith("_") and name.endswith(("Type", "Level", "Base", "Scope")):
            for constant, value in sorted(vars(of).items()):
                if not constant.startswith("_"):
                    yield f"constant {name}.{constant} = {show(value)}"


class Foreign:
    pass


MADE = {
    "ClockClassOffset": [(), (1,), (1, 2), ("x", 2), (1, "x"), (1.5,), (2**63,), (-(2**63), 0), (True, 1)],
    "SignedIntegerRange": [(), (1,), (1, 2), (-5, 5), (5, -5), (1.5,), ("x",), (2**63,), (-(2**63), 2**63 - 1), (1, 2, 3), (None,)],
    "UnsignedIntegerRange": [(), (1,), (1, 2), (-5, 5), (5, 1), (1.5,), ("x",), (2**64,), (0, 2**64 - 1), (True, 2)],
    "SignedIntegerRangeSet": [(), ([],), ([1, (2, 3)],), ([(-5, 5), (-5, 5)],), (23,), (["x"],), ([(1, 2, 3)],), ([(3, 2)],), ({(1, 2)},)],
    "UnsignedIntegerRangeSet": [(), ([],), ([1, (2, 3)],), ([(-5, 5)],), (23,), (["x"],), (None,)],
    "BoolValue": [(), (True,), (False,), (1,), ("x",), (None,)],
    "SignedIntegerValue": [(), (3,), (-3,), (3.5,), ("x",), (2**63,), (True,), (None,), (-(2**63),)],
    "UnsignedIntegerValue": [(), (3,), (-3,), (3.5,), ("x",), (2**64,), (True,)],
    "RealValue": [(), (3,), (3.5,), ("x",), (True,), (float("nan"),), (2j,)],
    "StringValue": [(), ("a text",), ("",), (3,), (None,)],
    "ArrayValue": [(), ([],), ([1, None, "x", [2], {"x": 1}],), (3,), ("ab",), ([Foreign()],), ({"x": 1},)],
    "MapValue": [(), ({},), ({"x": 1, "_x": None, "list": [1, 2]},), (3,), ({1: 2},), ([("x", 1)],), ({"x": Foreign()},)],
    "create_value": [(None,), (True,), (1,), (-1,), (2**63,), (1.5,), ("x",), ([1, "x"],), ((1, 2),), ({"x": {"x": 1}},), (Foreign(),), (2j,)],
    "Interrupter": [(), (1,)],
    "ComponentSpec": [(), (18,)],
    "AutoSourceComponentSpec": [(), ("x",), (18,), ("x", {"x": 1}), ("x", object()), ("x", None, 3, "x"), ("x", None, 3, 4)],
    "find_plugin": [(), (3,), ("there is none",)],
    "set_global_logging_level": [("x",), (3,), (1234,)],
    "get_global_logging_level": [()],
    "get_maximal_mip_version": [()],
    "get_greatest_operative_mip_version": [([],), (3,), ([Foreign()],)],
}


def changed(label, made):
    """Values that can be changed, changed."""
    changes = {
        "set 0": lambda it: operator.setitem(it, 0, "new"),
        "set 1000": lambda it: operator.setitem(it, 1000, "new"),
        "set object": lambda it: operator.setitem(it, 0, Foreign()),
        "set name": lambda it: operator.setitem(it, "x", [1]),
        "set 3": lambda it: operator.setitem(it, 3, 1),
        "append": lambda it: it.append({"x": 1}),
        "append object": lambda it: it.append(Foreign()),
        "extend": lambda it: it.extend([1, 2]),
        "add": lambda it: it.add((100, 200)),
        "add x": lambda it: it.add("x"),
        "discard": lambda it: it.discard((100, 200)),
        "pop": lambda it: it.pop(),
        "popitem": lambda it: it.popitem(),
        "clear": lambda it: it.clear(),
        "setdefault": lambda it: it.setdefault("z", 1),
        "iadd list": lambda it: operator.iadd(it, [1, "x"]),
        "iadd text": lambda it: operator.iadd(it, "more"),
        "iadd number": lambda it: operator.iadd(it, 3),
        "iand": lambda it: operator.iand(it, 1),
        "value": lambda it: setattr(it, "value", 3),
        "value text": lambda it: setattr(it, "value", "x"),
        "value list": lambda it: setattr(it, "value", [1]),
        "value map": lambda it: setattr(it, "value", {"x": 1}),
        "value true": lambda it: setattr(it, "value", True),
        "value none": lambda it: setattr(it, "value", None),
        "value huge": lambda it: setattr(it, "value", 2**70),
        "value object": lambda it: setattr(it, "value", Foreign()),
    }
    for name, change in changes.items():
        try:
            it = made()
        except Exception:
            return
        if name.startswith("value") and isinstance(it, (collections.abc.Mapping, collections.abc.MutableSequence)):
            # Objects of containers take attributes of any name, or do not.
            continue
        yield f"{label} changed by {name}: {ask(change, it)} -> {ask(lambda: it)} {ask(list, it) if hasattr(it, '__len__') else ''}"


def values(bt2):
    """What needs no trace."""
    yield from relations(bt2)
    objects = [bt2.create_value(value) for value in (True, 3, -1.5, "a text", [1, 2, 3], {"x": 1}, {"x": [None]})]
    for name, arguments in MADE.items():
        for own in arguments:
            label = f"{name}{show(own)}"
            make = getattr(bt2, name)
            yield f"{label}: {ask(make, *own)}"
            try:
                made = make(*own)
            except Exception:
                continue
            if type(made).__module__ == "builtins" or name == "find_plugin" or made is None:
                continue
            yield from asked(label, made, objects)
            yield from changed(label, lambda: make(*own))
            again = make(*own)
            yield f"{label} twice: {ask(operator.eq, made, again)} {ask(operator.ne, made, again)}"


def field_parts(bt2, label, field):
    """A field and the fields in it, each with what it is called."""
    if field is None:
        return
    yield label, field
    if isinstance(field, bt2._StructureFieldConst):
        for name in field:
            yield from field_parts(bt2, f"{label}.{name}", field[name])
    elif isinstance(field, bt2._VariantFieldConst):
        yield from field_parts(bt2, label + "?", field.selected_option)
    elif isinstance(field, bt2._ArrayFieldConst):
        for at in range(min(len(field), 2)):
            yield from field_parts(bt2, f"{label}[{at}]", field[at])


def class_parts(bt2, label, cls):
    """A field class, its members, options and mappings, and the classes in it."""
    if cls is None:
        return
    yield label, cls
    name = type(cls).__name__
    if "Structure" in name or "Variant" in name:
        for member in cls:
            yield f"{label}.{member}", cls[member]
            yield from class_parts(bt2, f"{label}.{member} class", cls[member].field_class)
            if hasattr(cls[member], "ranges"):
                yield f"{label}.{member} ranges", cls[member].ranges
    elif "Enumeration" in name:
        for mapping in cls:
            yield f"{label} {mapping}", cls[mapping]
            yield f"{label} {mapping} ranges", cls[mapping].ranges
            for at, one in enumerate(sorted(cls[mapping].ranges, key=lambda one: one.lower)):
                yield f"{label} {mapping} range {at}", one
    elif "Array" in name and "Bit" not in name:
        yield from class_parts(bt2, f"{label}[]", cls.element_field_class)
    for path in ("selector_field_path", "length_field_path"):
        if getattr(cls, path, None) is not None:
            yield f"{label} {path}", getattr(cls, path)
            for at, item in enumerate(getattr(cls, path)):
                yield f"{label} {path} {at}", item


def parts(bt2, path):
    """The objects of a trace, each with what it is called; of each kind only some."""
    seen = {}

    def is_new(label, often):
        seen[label] = seen.get(label, 0) + 1
        return seen[label] <= often

    last = None
    for message in bt2.TraceCollectionMessageIterator(path):
        kind = name_of(message)
        if is_new(kind, 2):
            yield kind, message
            for name in ("default_clock_snapshot", "beginning_default_clock_snapshot", "end_default_clock_snapshot"):
                snapshot = getattr(message, name, None)
                if snapshot is not None:
                    yield f"{kind} {name}", snapshot
                    yield f"{kind} {name} clock_class", getattr(snapshot, "clock_class", None)
        if kind == "StreamBeginningMessage" and is_new("stream", 2):
            stream = message.stream
            yield "stream", stream
            yield "stream class", stream.cls
            yield "trace", stream.trace
            yield "trace class", stream.cls.trace_class
            yield "environment", stream.trace.environment
            for name in list(stream.trace.environment)[:3]:
                yield f"environment {name}", stream.trace.environment[name]
            yield "clock class", stream.cls.default_clock_class
            if stream.cls.default_clock_class is not None:
                yield "offset", stream.cls.default_clock_class.offset
            yield from class_parts(bt2, "packet context class", stream.cls.packet_context_field_class)
            yield from class_parts(bt2, "common context class", stream.cls.event_common_context_field_class)
        if kind == "PacketBeginningMessage" and is_new("packet", 2):
            yield "packet", message.packet
            yield from field_parts(bt2, "packet context", message.packet.context_field)
        if kind != "EventMessage":
            continue
        event = message.event
        label = f"event {event.name}"
        if is_new(label, 4):
            yield label, event
            for scope in ("payload_field", "specific_context_field", "common_context_field"):
                yield from field_parts(bt2, f"{label} {scope}", getattr(event, scope))
            if last is not None:
                yield f"{label} and the one before", (message.default_clock_snapshot, last)
            last = message.default_clock_snapshot
        if is_new(f"class of {label}", 1):
            yield f"class of {label}", event.cls
            for scope in ("payload_field_class", "specific_context_field_class"):
                yield from class_parts(bt2, f"class of {label} {scope}", getattr(event.cls, scope))


def questions(bt2, path, most=4):
    others, count = [], {}
    for label, it in parts(bt2, path):
        kind = name_of(it)
        count[kind] = count.get(kind, 0) + 1
        if it is None or count[kind] > most:
            continue
        if isinstance(it, tuple):
            for name, question in BINARY.items():
                yield f"{label} {name}: {ask(question, *it)}"
            continue
        yield from asked(label, it, others)
        for operand in (1, "x", [1]):
            yield f"{label} += {show(operand)}: {ask(operator.iadd, it, operand)}"
        # The first field of each kind is an operand for all after it.
        if kind.endswith("Field") and kind not in map(name_of, others):
            others.append(it)


if __name__ == "__main__":
    write_trace(sys.argv[1])
