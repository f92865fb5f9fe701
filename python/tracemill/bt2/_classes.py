"""Traces, streams, packets and their classes, and messages that are no events."""

from __future__ import annotations

import collections.abc
import os
import uuid as uuids
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .. import _native
from . import _field_classes as classes
from ._errors import _Error
from ._values import SIGNED, Uncopied, _MapValueConst, check_int, check_str, check_unsigned, const


class EventClassLogLevel:
    EMERGENCY = 0
    ALERT = 1
    CRITICAL = 2
    ERROR = 3
    WARNING = 4
    NOTICE = 5
    INFO = 6
    DEBUG_SYSTEM = 7
    DEBUG_PROGRAM = 8
    DEBUG_PROCESS = 9
    DEBUG_MODULE = 10
    DEBUG_UNIT = 11
    DEBUG_FUNCTION = 12
    DEBUG_LINE = 13
    DEBUG = 14


class _Object(Uncopied):
    """An object that is the same for everybody who asks for it."""

    @property
    def addr(self) -> int:
        return id(self)

    @property
    def user_attributes(self) -> _MapValueConst:
        return _MapValueConst()


class _Listened(_Object):
    """A trace or its class: programs cannot learn here that it is gone."""

    def add_destruction_listener(self, listener: Any) -> Any:
        raise NotImplementedError("tracemill.bt2 does not offer `add_destruction_listener`")

    def remove_destruction_listener(self, listener_handle: Any) -> None:
        raise NotImplementedError("tracemill.bt2 does not offer `remove_destruction_listener`")


class ClockClassOffset:
    def __init__(self, seconds: int = 0, cycles: int = 0) -> None:
        check_int(seconds, *SIGNED)
        check_int(cycles, *SIGNED)
        self._seconds, self._cycles = seconds, cycles

    @property
    def seconds(self) -> int:
        return self._seconds

    @property
    def cycles(self) -> int:
        return self._cycles

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClockClassOffset) and (self.seconds, self.cycles) == (other.seconds, other.cycles)

    __hash__ = None  # type: ignore[assignment]


class _ClockClassConst(_Object):
    def __init__(self, world: World, stream_class: int, of: Dict[str, Any]) -> None:
        self._of, self._world, self._stream_class = of, world, stream_class

    @property
    def name(self) -> Optional[str]:
        return self._of["name"]  # type: ignore[no-any-return]

    @property
    def description(self) -> Optional[str]:
        return self._of["description"]  # type: ignore[no-any-return]

    @property
    def frequency(self) -> int:
        return self._of["frequency"] // self._of["seconds"]  # type: ignore[no-any-return]

    @property
    def precision(self) -> int:
        return self._of["precision"] or 0

    @property
    def offset(self) -> ClockClassOffset:
        seconds, cycles = divmod(self._of["offset_cycles"], self.frequency)
        return ClockClassOffset(self._of["offset_seconds"] + seconds, cycles)

    @property
    def origin_is_unix_epoch(self) -> bool:
        return self._of["is_unix"]  # type: ignore[no-any-return]

    @property
    def uuid(self) -> Optional[uuids.UUID]:
        try:
            return uuids.UUID(self._of["uuid"])
        except (TypeError, ValueError):
            return None

    def cycles_to_ns_from_origin(self, cycles: int) -> int:
        check_unsigned(cycles)
        offset = self.offset
        ns = offset.seconds * 10**9 + (offset.cycles + cycles) * 10**9 // self.frequency
        if not -(2**63) <= ns < 2**63:
            raise OverflowError("cannot convert clock value to nanoseconds from origin for given clock class")
        return ns


class _EventClassConst(_Object):
    def __init__(self, stream_class: _StreamClassConst, index: int, of: Tuple[Any, ...]) -> None:
        self._stream_class, self._index, self._of = stream_class, index, of
        self._fields: Optional[Tuple[Any, Any]] = None

    @property
    def stream_class(self) -> _StreamClassConst:
        return self._stream_class

    @property
    def name(self) -> Optional[str]:
        return self._of[2]  # type: ignore[no-any-return]

    @property
    def id(self) -> int:
        return self._of[1]  # type: ignore[no-any-return]

    @property
    def log_level(self) -> Optional[int]:
        level = self._of[3]
        return level if level is None or 0 <= level <= 14 else None

    @property
    def emf_uri(self) -> Optional[str]:
        return self._of[4]  # type: ignore[no-any-return]

    def _classes(self) -> Tuple[Any, Any]:
        if self._fields is None:
            made = self._stream_class._trace._world.read.event_class(self._stream_class._trace._index, self._index)
            specific, payload = (None if of is None else classes.field_class(of) for of in made)
            self._fields = (specific, payload)
        return self._fields

    @property
    def specific_context_field_class(self) -> Any:
        return self._classes()[0]

    @property
    def payload_field_class(self) -> Any:
        return self._classes()[1]


class _StreamClassConst(_Object, collections.abc.Mapping):  # type: ignore[type-arg]
    def __init__(self, trace: _TraceConst, index: int, of: Dict[str, Any]) -> None:
        self._trace, self._index, self._of = trace, index, of
        packet, common = of["packet_context"], of["common_context"]
        self._packet_context = None if packet is None else classes.field_class(packet)
        self._common_context = None if common is None else classes.field_class(common)
        self._clock = None if of["clock"] is None else _ClockClassConst(trace._world, index, of["clock"])
        #: Event classes by id, with their indexes in the trace.
        self._events: Dict[int, int] = {}

    def __getitem__(self, key: int) -> _EventClassConst:
        check_int(key, *SIGNED)
        if key < 0:
            raise OverflowError(f"an id is not negative (got {key})")
        return self._trace._event_class(self._events[key])

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[int]:
        return iter(self._events)

    # An object that is the same for everybody who asks for it.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def trace_class(self) -> _TraceClassConst:
        return self._trace.cls

    @property
    def name(self) -> Optional[str]:
        return self._of["name"]  # type: ignore[no-any-return]

    @property
    def id(self) -> int:
        return self._of["id"]  # type: ignore[no-any-return]

    @property
    def packet_context_field_class(self) -> Any:
        return self._packet_context

    @property
    def event_common_context_field_class(self) -> Any:
        return self._common_context

    @property
    def default_clock_class(self) -> Optional[_ClockClassConst]:
        return self._clock

    @property
    def assigns_automatic_event_class_id(self) -> bool:
        return False

    @property
    def assigns_automatic_stream_id(self) -> bool:
        return False

    @property
    def supports_packets(self) -> bool:
        return True

    @property
    def packets_have_beginning_default_clock_snapshot(self) -> bool:
        return self._of["has_begins"]  # type: ignore[no-any-return]

    @property
    def packets_have_end_default_clock_snapshot(self) -> bool:
        return self._of["has_ends"]  # type: ignore[no-any-return]

    @property
    def supports_discarded_events(self) -> bool:
        return self._of["counts_discarded"]  # type: ignore[no-any-return]

    @property
    def discarded_events_have_default_clock_snapshots(self) -> bool:
        return bool(self._of["counts_discarded"] and self._of["has_begins"] and self._of["has_ends"])

    @property
    def supports_discarded_packets(self) -> bool:
        return self._of["counts_packets"]  # type: ignore[no-any-return]

    @property
    def discarded_packets_have_default_clock_snapshots(self) -> bool:
        return bool(self._of["counts_packets"] and self._of["has_begins"] and self._of["has_ends"])


class _TraceClassConst(_Listened, collections.abc.Mapping):  # type: ignore[type-arg]
    def __init__(self, trace: _TraceConst) -> None:
        self._trace = trace
        self._by_id = {of.id: of for of in trace._stream_classes}

    def __len__(self) -> int:
        return len(self._by_id)

    def __getitem__(self, key: int) -> _StreamClassConst:
        check_unsigned(key)
        return self._by_id[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_id)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def assigns_automatic_stream_class_id(self) -> bool:
        return False


class _StreamConst(_Object):
    def __init__(self, world: World, index: int, of: Tuple[Any, ...]) -> None:
        self._world, self._index = world, index
        trace, at, stream_class, own_id, name = of
        self._trace: _TraceConst = world.traces[trace]
        self._cls: _StreamClassConst = self._trace._stream_classes[stream_class]
        self._id = at if own_id is None else own_id
        self._name = os.path.abspath(name) if name else None

    @property
    def cls(self) -> _StreamClassConst:
        return self._cls

    @property
    def name(self) -> Optional[str]:
        return self._name

    @property
    def id(self) -> int:
        return self._id  # type: ignore[no-any-return]

    @property
    def trace(self) -> _TraceConst:
        return self._trace


class _TraceEnvironmentConst(Uncopied, collections.abc.Mapping):  # type: ignore[type-arg]
    def __init__(self, entries: Dict[str, Any]) -> None:
        self._entries = entries

    def __getitem__(self, key: str) -> Any:
        check_str(key)
        return self._entries[key]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __copy__(self) -> _TraceEnvironmentConst:
        return _TraceEnvironmentConst(self._entries)


class _TraceConst(_Listened, collections.abc.Mapping):  # type: ignore[type-arg]
    def __init__(self, world: World, index: int) -> None:
        of = world.read.trace(index)
        self._world, self._index, self._of = world, index, of
        self._stream_classes = [_StreamClassConst(self, at, one) for at, one in enumerate(of["stream_classes"])]
        self._event_classes: List[Any] = list(of["event_classes"])
        for at, one in enumerate(self._event_classes):
            self._stream_classes[one[0]]._events[one[1]] = at
        self._environment = _TraceEnvironmentConst({name: const(value) for name, value in of["environment"]})
        self._cls = _TraceClassConst(self)
        self._streams: List[_StreamConst] = []

    def _event_class(self, index: int) -> _EventClassConst:
        known = self._event_classes[index]
        if not isinstance(known, _EventClassConst):
            known = self._event_classes[index] = _EventClassConst(self._stream_classes[known[0]], index, known)
        return known

    def __len__(self) -> int:
        return len(self._streams)

    def __getitem__(self, key: int) -> _StreamConst:
        check_unsigned(key)
        for stream in self._streams:
            if stream.id == key:
                return stream
        raise KeyError(key)

    def __iter__(self) -> Iterator[int]:
        return (stream.id for stream in self._streams)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def cls(self) -> _TraceClassConst:
        return self._cls

    @property
    def name(self) -> Optional[str]:
        return self._world.trace_name or self._of["name"]

    @property
    def uuid(self) -> Optional[uuids.UUID]:
        own = self._of["uuid"]
        return None if own is None else uuids.UUID(bytes=bytes(own))

    @property
    def environment(self) -> _TraceEnvironmentConst:
        return self._environment


class _PacketConst(_Object):
    def __init__(self, world: World, place: _native.PacketPlace) -> None:
        self._world, self._place = world, place
        self._context: Any = world

    @property
    def stream(self) -> _StreamConst:
        return self._world.streams[self._place.stream]

    @property
    def context_field(self) -> Any:
        if self._context is self._world:
            cls = self.stream.cls.packet_context_field_class
            values = None if cls is None else self._place.context()
            self._context = None if values is None else cls._field(values, cls)
        return self._context


class _UnknownClockSnapshot:
    pass


class _MessageConst(Uncopied):
    @property
    def addr(self) -> int:
        return id(self)


def _check_clock(cls: Any) -> None:
    if cls.default_clock_class is None:
        raise ValueError("cannot get default clock snapshot: stream class has no default clock class")


class _StreamMessageConst(_MessageConst):
    def __init__(self, stream: _StreamConst, cycles: Optional[int]) -> None:
        self._stream, self._cycles = stream, cycles

    @property
    def stream(self) -> _StreamConst:
        return self._stream

    @property
    def default_clock_snapshot(self) -> Any:
        _check_clock(self._stream.cls)
        if self._cycles is None:
            return _UnknownClockSnapshot()
        return self._stream._world.snapshot(self._stream, self._cycles)


class _StreamBeginningMessageConst(_StreamMessageConst):
    pass


class _StreamEndMessageConst(_StreamMessageConst):
    pass


class _PacketMessageConst(_MessageConst):
    def __init__(self, packet: _PacketConst, cycles: Optional[int]) -> None:
        self._packet, self._cycles = packet, cycles

    @property
    def packet(self) -> _PacketConst:
        return self._packet

    @property
    def default_clock_snapshot(self) -> Any:
        stream = self._packet.stream
        _check_clock(stream.cls)
        if self._cycles is None:
            raise ValueError("cannot get default clock snapshot: the packet does not have one")
        return stream._world.snapshot(stream, self._cycles)


class _PacketBeginningMessageConst(_PacketMessageConst):
    pass


class _PacketEndMessageConst(_PacketMessageConst):
    pass


class _DiscardedMessageConst(_MessageConst):
    def __init__(self, stream: _StreamConst, begin: Optional[int], end: Optional[int], count: Optional[int]) -> None:
        self._stream, self._begin, self._end, self._count = stream, begin, end, count

    @property
    def stream(self) -> _StreamConst:
        return self._stream

    @property
    def count(self) -> Optional[int]:
        return self._count

    def _snapshot(self, cycles: Optional[int]) -> Any:
        if cycles is None:
            raise ValueError(
                "cannot get default clock snapshot: such a message has no clock snapshots for this stream class"
            )
        return self._stream._world.snapshot(self._stream, cycles)

    @property
    def beginning_default_clock_snapshot(self) -> Any:
        return self._snapshot(self._begin)

    @property
    def end_default_clock_snapshot(self) -> Any:
        return self._snapshot(self._end)


class _DiscardedEventsMessageConst(_DiscardedMessageConst):
    pass


class _DiscardedPacketsMessageConst(_DiscardedMessageConst):
    pass


class _MessageIteratorInactivityMessageConst(_MessageConst):
    """Traces in files have none: it is there to be compared with."""


class World:
    """Makes what the messages of one reading show: called by `messages.rs`."""

    def __init__(self, messages: _native.CompatMessages, trace_name: Optional[str] = None) -> None:
        self.read, self.trace_name = messages.read_traces(), trace_name
        self.traces = [_TraceConst(self, index) for index in range(self.read.traces())]
        self.streams = [_StreamConst(self, index, of) for index, of in enumerate(self.read.streams())]
        for stream in self.streams:
            stream.trace._streams.append(stream)
        messages.set_factory(self)

    def event_info(self, trace: int, index: int) -> Tuple[Any, Any, List[Any]]:
        event_class = self.traces[trace]._event_class(index)
        stream_class = event_class.stream_class
        scopes = [
            stream_class.event_common_context_field_class,
            event_class.specific_context_field_class,
            event_class.payload_field_class,
        ]
        names: Dict[str, Any] = {}
        for scope, cls in [(2, scopes[2]), (1, scopes[1]), (0, scopes[0]), (3, stream_class.packet_context_field_class)]:
            for name, (at, made, field_class) in ({} if cls is None else cls._index).items():
                names.setdefault(name, (scope, at, made, field_class))
        return event_class, names, [None if cls is None else (cls._field, cls) for cls in scopes]

    def packet(self, place: _native.PacketPlace) -> _PacketConst:
        return _PacketConst(self, place)

    def stream(self, index: int) -> _StreamConst:
        return self.streams[index]

    def clock_class(self, stream: int) -> Optional[_ClockClassConst]:
        return self.streams[stream].cls.default_clock_class

    def snapshot(self, stream: _StreamConst, cycles: int) -> Any:
        return self.read.clock_snapshot(stream._index, cycles, stream.cls.default_clock_class)

    def failed(self, error: Exception) -> Exception:
        made = _Error(str(error))
        made.__cause__ = error
        return made

    def mark(
        self,
        kind: int,
        stream: int,
        place: _native.PacketPlace,
        begin: Optional[Tuple[int, int]],
        end: Optional[Tuple[int, int]],
        count: Optional[int],
    ) -> Any:
        of = self.streams[stream]
        cycles = None if begin is None else begin[0]
        if kind == 0:
            return _StreamBeginningMessageConst(of, cycles)
        if kind == 6:
            return _StreamEndMessageConst(of, cycles)
        if kind in (1, 4):
            made = _PacketBeginningMessageConst if kind == 1 else _PacketEndMessageConst
            return made(_PacketConst(self, place), cycles)
        lost = _DiscardedEventsMessageConst if kind == 3 else _DiscardedPacketsMessageConst
        return lost(of, cycles, None if end is None else end[0], count)
