"""What `babeltrace` of version 1 has to read traces with."""

from __future__ import annotations

import collections.abc
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .. import _native
from .._values import Error
from ..bt2._iterator import _messages, _paths

__version__ = "1.5.11"

__all__ = [
    "ArrayFieldDeclaration",
    "ByteOrder",
    "CTFScope",
    "CTFStringEncoding",
    "CTFTypeId",
    "ClockType",
    "EnumerationFieldDeclaration",
    "Event",
    "EventDeclaration",
    "FieldDeclaration",
    "FieldError",
    "FloatFieldDeclaration",
    "IntegerFieldDeclaration",
    "SequenceFieldDeclaration",
    "StringFieldDeclaration",
    "StructureFieldDeclaration",
    "TraceCollection",
    "TraceHandle",
    "VariantFieldDeclaration",
    "field_error",
]

#: What babeltrace 1 says where it knows no time.
_NO_TIME = 2**64 - 1


class ClockType:
    CLOCK_CYCLES = 0
    CLOCK_REAL = 1


class CTFStringEncoding:
    NONE = 0
    UTF8 = 1
    ASCII = 2
    UNKNOWN = 3


class ByteOrder:
    BYTE_ORDER_NATIVE = 0
    BYTE_ORDER_LITTLE_ENDIAN = 1
    BYTE_ORDER_BIG_ENDIAN = 2
    BYTE_ORDER_NETWORK = 3
    BYTE_ORDER_UNKNOWN = 4


def _constant(names: type, value: int, otherwise: str) -> str:
    return next((name for name, of in vars(names).items() if of == value and name.isupper()), otherwise)


class CTFTypeId:
    UNKNOWN = 0
    INTEGER = 1
    FLOAT = 2
    ENUM = 3
    STRING = 4
    STRUCT = 5
    UNTAGGED_VARIANT = 6
    VARIANT = 7
    ARRAY = 8
    SEQUENCE = 9
    NR_CTF_TYPES = 10

    @staticmethod
    def type_name(id: int) -> str:
        return _constant(CTFTypeId, id, "UNKNOWN_TYPE")


class CTFScope:
    TRACE_PACKET_HEADER = 0
    STREAM_PACKET_CONTEXT = 1
    STREAM_EVENT_HEADER = 2
    STREAM_EVENT_CONTEXT = 3
    EVENT_CONTEXT = 4
    EVENT_FIELDS = 5

    @staticmethod
    def scope_name(scope: int) -> str:
        return _constant(CTFScope, scope, "UNKNOWN_SCOPE")


#: Scopes in the order in which a field is looked for.
_scopes = [
    CTFScope.EVENT_FIELDS,
    CTFScope.EVENT_CONTEXT,
    CTFScope.STREAM_EVENT_CONTEXT,
    CTFScope.STREAM_EVENT_HEADER,
    CTFScope.STREAM_PACKET_CONTEXT,
    CTFScope.TRACE_PACKET_HEADER,
]


def _check_scope(scope: Any) -> None:
    if scope not in _scopes:
        raise ValueError("Invalid scope provided")


class FieldError(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return repr(self.value)


def field_error() -> int:
    """The last error of reading a field: errors are raised here, so there is none."""
    return 0


def _not_made(name: str) -> Any:
    def fail(self: Any) -> None:
        raise NotImplementedError(f"{name} cannot be instantiated")

    return fail


class _Unlabelled:
    """The value of an enumeration that has no label for it."""

    def __init__(self, name: str) -> None:
        self.name = name


def _checked(value: Any) -> Any:
    if type(value) is _Unlabelled:
        raise FieldError(f"Error occurred while accessing field {value.name} of type ENUM")
    return value


class _EventFields:
    """The fields of an event class: their names by scope, and where each name is found first."""

    def __init__(self, scopes: List[Any]) -> None:
        self.classes = scopes
        #: Of each scope the indexes of its fields by name.
        self.by_scope: List[Dict[str, int]] = []
        for scope in scopes:
            members = [] if scope is None else scope[1]
            self.by_scope.append({name: at for at, (name, _) in enumerate(members)})
        self.first: Dict[str, Tuple[int, int]] = {}
        for number in _scopes:
            for name, at in self.by_scope[number].items():
                self.first.setdefault(name, (number, at))
        self.count = sum(map(len, self.by_scope))
        self.keys = list(self.first)


class _Reading:
    """Makes the events of one reading: called by `messages.rs`."""

    def __init__(self, messages: _native.CompatMessages, collection: Optional[TraceCollection]) -> None:
        self.read, self.collection = messages.read_traces(), collection
        self.traces = [self.read.trace(index) for index in range(self.read.traces())]
        self._known: Dict[Tuple[int, int], _EventFields] = {}
        messages.set_factory(self)

    def __call__(self, core: _native.OldEvent) -> Event:
        event: Event = Event.__new__(Event)
        event._e, event._reading = core, self
        return event

    def fields(self, trace: int, index: int) -> _EventFields:
        known = self._known.get((trace, index))
        if known is None:
            of = self.traces[trace]
            stream = of["stream_classes"][of["event_classes"][index][0]]
            specific, payload = self.read.event_class(trace, index)
            header, common = stream["event_header"], stream["common_context"]
            scopes = [of["packet_header"], stream["packet_context"], header, common, specific, payload]
            known = self._known[trace, index] = _EventFields(scopes)
        return known


class Event(collections.abc.Mapping):  # type: ignore[type-arg]
    """An event. It stays valid, also when the next one is read."""

    __slots__ = ("_e", "_reading", "_known")
    _e: _native.OldEvent
    _reading: _Reading

    __init__ = _not_made("Event")

    @property
    def name(self) -> Optional[str]:
        return self._e.name

    @property
    def cycles(self) -> int:
        return _NO_TIME if self._e.timestamp is None else self._e.cycles

    @property
    def timestamp(self) -> int:
        ns = self._e.timestamp
        return _NO_TIME if ns is None else ns

    @property
    def _fields(self) -> _EventFields:
        try:
            return self._known
        except AttributeError:
            self._known: _EventFields = self._reading.fields(self._e.trace, self._e.class_index)
            return self._known

    def field_with_scope(self, field_name: str, scope: int) -> Any:
        _check_scope(scope)
        at = self._fields.by_scope[scope].get(field_name)
        values = None if at is None else self._e.values(scope)
        return None if values is None or at is None else _checked(values[at])

    def field_list_with_scope(self, scope: int) -> List[str]:
        _check_scope(scope)
        return list(self._fields.by_scope[scope])

    @property
    def handle(self) -> Optional[TraceHandle]:
        collection = self._reading.collection
        return None if collection is None else collection._handle_of(self._reading.traces[self._e.trace]["path"])

    @property
    def trace_collection(self) -> Optional[TraceCollection]:
        return self._reading.collection

    def _get(self, field_name: str, otherwise: Any) -> Any:
        found = self._fields.first.get(field_name)
        if found is None:
            return otherwise
        values = self._e.values(found[0])
        return otherwise if values is None else _checked(values[found[1]])

    def __getitem__(self, field_name: str) -> Any:
        value = self._get(field_name, self)
        if value is self:
            raise KeyError(field_name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields.keys)

    def __len__(self) -> int:
        return self._fields.count

    def __contains__(self, field_name: object) -> bool:
        return field_name in self._fields.first

    def keys(self) -> Any:
        return list(self._fields.keys)

    def get(self, field_name: str, default: Any = None) -> Any:
        return self._get(field_name, default)

    def items(self) -> Any:
        for name in self._fields.keys:
            yield name, self[name]


class FieldDeclaration:
    """The declaration of a field."""

    __init__ = _not_made("FieldDeclaration")
    _type = CTFTypeId.UNKNOWN
    _name: str
    _scope: int
    _of: Tuple[Any, ...]

    def __repr__(self) -> str:
        return f"({CTFScope.scope_name(self.scope)}) {CTFTypeId.type_name(self.type)} {self.name}"

    @property
    def name(self) -> str:
        return self._name

    @property
    def type(self) -> int:
        return self._type

    @property
    def scope(self) -> int:
        return self._scope


class IntegerFieldDeclaration(FieldDeclaration):
    __init__ = _not_made("IntegerFieldDeclaration")
    _type = CTFTypeId.INTEGER

    @property
    def signedness(self) -> int:
        return int(self._of[1])

    @property
    def base(self) -> int:
        return int(self._of[3])

    @property
    def byte_order(self) -> int:
        return ByteOrder.BYTE_ORDER_LITTLE_ENDIAN if self._of[4] else ByteOrder.BYTE_ORDER_BIG_ENDIAN

    @property
    def length(self) -> int:
        return int(self._of[2])

    @property
    def encoding(self) -> int:
        return CTFStringEncoding.UTF8 if self._of[5] else CTFStringEncoding.NONE


class EnumerationFieldDeclaration(FieldDeclaration):
    __init__ = _not_made("EnumerationFieldDeclaration")
    _type = CTFTypeId.ENUM


#: A character of a text that is an array or a sequence.
_CHARACTER = ("integer", False, 8, 10, True, True, None)


class ArrayFieldDeclaration(FieldDeclaration):
    __init__ = _not_made("ArrayFieldDeclaration")
    _type = CTFTypeId.ARRAY

    @property
    def length(self) -> int:
        return int(self._of[2] if self._of[0] in ("string", "blob") else self._of[1])

    @property
    def element_declaration(self) -> Optional[FieldDeclaration]:
        return _declaration("", self.scope, self._of[3] if self._of[0] == "array" else _CHARACTER)


class SequenceFieldDeclaration(FieldDeclaration):
    __init__ = _not_made("SequenceFieldDeclaration")
    _type = CTFTypeId.SEQUENCE

    @property
    def element_declaration(self) -> Optional[FieldDeclaration]:
        return _declaration("", self.scope, self._of[3] if self._of[0] == "array" else _CHARACTER)


class FloatFieldDeclaration(FieldDeclaration):
    __init__ = _not_made("FloatFieldDeclaration")
    _type = CTFTypeId.FLOAT


class StructureFieldDeclaration(FieldDeclaration):
    __init__ = _not_made("StructureFieldDeclaration")
    _type = CTFTypeId.STRUCT


class StringFieldDeclaration(FieldDeclaration):
    __init__ = _not_made("StringFieldDeclaration")
    _type = CTFTypeId.STRING


class VariantFieldDeclaration(FieldDeclaration):
    __init__ = _not_made("VariantFieldDeclaration")
    _type = CTFTypeId.VARIANT


def _declaration(name: str, scope: int, of: Tuple[Any, ...]) -> Optional[FieldDeclaration]:
    """The declaration of a field by its description: see `describe.rs`."""
    kind = of[0]
    made: Any
    if kind == "integer":
        made = IntegerFieldDeclaration if of[6] is None else EnumerationFieldDeclaration
    elif kind == "real":
        made = FloatFieldDeclaration
    elif kind == "string" and of[1]:
        made = StringFieldDeclaration
    elif kind in ("string", "blob"):
        made = SequenceFieldDeclaration if of[2] is None else ArrayFieldDeclaration
    elif kind == "array":
        made = SequenceFieldDeclaration if of[1] is None else ArrayFieldDeclaration
    elif kind == "structure":
        made = StructureFieldDeclaration
    elif kind == "variant":
        made = VariantFieldDeclaration
    elif kind == "option":
        return _declaration(name, scope, of[-1])
    else:
        # Bits, which CTF 1.8 does not have, are integers for it.
        made, of = IntegerFieldDeclaration, ("integer", False, of[1], 16, True, False, None)
    declaration: FieldDeclaration = made.__new__(made)
    declaration._name, declaration._scope, declaration._of = name, scope, of
    return declaration


class EventDeclaration:
    """The declaration of an event."""

    __init__ = _not_made("EventDeclaration")
    _reading: _Reading
    _place: Tuple[int, int]

    @property
    def name(self) -> Optional[str]:
        trace, index = self._place
        return self._reading.traces[trace]["event_classes"][index][2]  # type: ignore[no-any-return]

    @property
    def fields(self) -> Iterator[FieldDeclaration]:
        for scope in _scopes:
            yield from self.fields_scope(scope)

    def fields_scope(self, scope: int) -> Iterator[FieldDeclaration]:
        root = self._reading.fields(*self._place).classes[scope]
        for name, of in [] if root is None else root[1]:
            declaration = _declaration(name, scope, of)
            if declaration is not None:
                yield declaration


class TraceHandle:
    """A trace of a collection."""

    __init__ = _not_made("TraceHandle")
    _id: int
    _path: str
    _trace_collection: TraceCollection

    def __repr__(self) -> str:
        return f"Babeltrace TraceHandle: trace_id('{self._id}')"

    @property
    def id(self) -> int:
        return self._id

    @property
    def path(self) -> str:
        return self._path

    def _times(self, end: int) -> List[int]:
        read = _messages([self._path], style="babeltrace").read_traces()
        times = [read.stream_times(index)[end] for index in range(len(read.streams()))]
        return [time for time in times if time is not None]

    @property
    def timestamp_begin(self) -> int:
        """When the first buffer of the trace was begun."""
        return min(self._times(0), default=_NO_TIME)

    @property
    def timestamp_end(self) -> int:
        """When the last buffer of the trace was ended."""
        return max(self._times(1), default=_NO_TIME)

    @property
    def events(self) -> Iterator[EventDeclaration]:
        """The declarations of its events."""
        reading = _Reading(_messages([self._path], style="babeltrace"), self._trace_collection)
        for trace, of in enumerate(reading.traces):
            for index in range(len(of["event_classes"])):
                declaration = EventDeclaration.__new__(EventDeclaration)
                declaration._reading, declaration._place = reading, (trace, index)
                yield declaration


class TraceCollection:
    """Traces that are read together."""

    def __init__(self, intersect_mode: bool = False) -> None:
        self._intersect_mode = intersect_mode
        self._handles: Dict[int, TraceHandle] = {}
        self._next_id = 0

    def _found(self, path: Any) -> Optional[List[str]]:
        """The traces in and below a path; ``None`` when it has none that can be read."""
        try:
            messages = _messages([path], style="babeltrace")
        except Error:
            return None
        return _paths(messages)

    def _add(self, path: str) -> TraceHandle:
        handle: TraceHandle = TraceHandle.__new__(TraceHandle)
        handle._id, handle._path, handle._trace_collection = self._next_id, path, self
        self._handles[self._next_id] = handle
        self._next_id += 1
        return handle

    def _handle_of(self, path: str) -> Optional[TraceHandle]:
        own = os.path.abspath(path)
        return next((handle for handle in self._handles.values() if os.path.abspath(handle.path) == own), None)

    def add_trace(self, path: Any, format_str: str) -> Optional[TraceHandle]:
        """Adds the trace at a path; ``None`` when there is none. The format is found out, whatever is given."""
        if path is None:
            raise NotImplementedError("tracemill.babeltrace does not offer `add_trace` of streams in memory: give a path")
        path = os.fspath(path)
        own = os.path.abspath(path)
        found = self._found(path)
        if not any(os.path.abspath(one) == own for one in found or ()):
            return None
        return self._add(path)

    def add_traces_recursive(self, path: Any, format_str: str) -> Optional[Dict[str, TraceHandle]]:
        """Adds the traces in and below a path: their handles by path; ``None`` when none of them can be read."""
        path = os.fspath(path)
        found = self._found(path) if os.path.exists(path) else []
        if found is None:
            # Folders without a trace are no error.
            has_metadata = any("metadata" in files for _, _, files in os.walk(path))
            return None if has_metadata else {}
        return {one: self._add(one) for one in found}

    def remove_trace(self, trace_handle: TraceHandle) -> None:
        if not isinstance(trace_handle, TraceHandle):
            raise TypeError("in remove_trace, argument 2 must be a TraceHandle instance")
        self._handles.pop(trace_handle._id, None)

    @property
    def intersect_mode(self) -> bool:
        return self._intersect_mode

    def _messages(self, **options: Any) -> Optional[_native.CompatMessages]:
        paths = [handle.path for handle in self._handles.values()]
        if not paths:
            return None
        options.setdefault("intersection", self._intersect_mode)
        return _messages(paths, style="babeltrace", only_events=True, **options)

    @property
    def has_intersection(self) -> int:
        messages = self._messages()
        times = [] if messages is None else messages.read_traces().shared_times()
        return int(any(shared is not None and shared[0] < shared[1] for shared in times))

    def _read(self, **options: Any) -> Iterator[Event]:
        messages = self._messages(**options)
        if messages is None:
            return iter(())
        _Reading(messages, self)
        return messages

    @property
    def events(self) -> Iterator[Event]:
        """All events, in the order of time."""
        if self._intersect_mode and not self.has_intersection:
            return iter(())
        return self._read()

    def events_timestamps(self, timestamp_begin: int, timestamp_end: int) -> Iterator[Event]:
        """The events from one time to another, in ns."""
        return self._read(begin_ns=int(timestamp_begin), end_ns=int(timestamp_end))

    def _time(self, end: int) -> Optional[int]:
        messages = self._messages(intersection=False)
        if messages is None:
            return None
        ns = messages.read_traces().ends()[end]
        return _NO_TIME if ns is None else ns

    @property
    def timestamp_begin(self) -> Optional[int]:
        """The time of the first event."""
        return self._time(0)

    @property
    def timestamp_end(self) -> Optional[int]:
        """The time of the last event."""
        return self._time(1)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"tracemill.babeltrace does not offer `{name}`: it has the reading half of version 1, and no `CTFWriter`"
    )
