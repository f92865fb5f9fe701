"""What is written in Rust."""

from typing import Any, Dict, Iterator, KeysView, List, Optional, Tuple

from ._values import Error, Time

class Opened:
    def __init__(self, paths: List[str], options: Dict[str, Any]) -> None: ...
    def prepare(self, text: str, parameters: Dict[str, Any], cluster: Optional[str]) -> Answer: ...
    def events(self, names: List[str], condition: Optional[str], limit: Optional[int]) -> Events: ...
    def tables(self) -> List[str]: ...
    def info(self, count: bool, packets: bool) -> str: ...
    def faults(self) -> List[Error]: ...

class Answer:
    @property
    def columns(self) -> List[str]: ...
    def stream(self, watch: bool = False) -> Stream: ...
    def explain(self, analyze: bool) -> Answer: ...

class Stream:
    @property
    def error(self) -> Optional[BaseException]: ...
    @property
    def addresses(self) -> List[List[int]]: ...
    def batch(self) -> Optional[List[Tuple[Any, ...]]]: ...
    def warn(self) -> None: ...
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

class Events(Iterator[Event]):
    """An iterator over the events of traces, in the order of time."""

    def __iter__(self) -> Events: ...
    def __next__(self) -> Event: ...

class Event:
    """An event of a trace.

    It is valid for ever, also when the traces are closed. A field is decoded when it is asked for: ``event["load"]`` looks
    where a word of a filter looks (``payload``, then the contexts), ``event["payload.list[2]"]`` takes a path.
    """

    @property
    def ns(self) -> Optional[int]:
        """Ns since the origin of the clock, which is 1970 where clocks know it; ``None`` without time."""
    @property
    def time(self) -> Optional[Time]:
        """The same as a date in UTC; ``None`` when the clock has no known origin."""
    @property
    def name(self) -> str:
        """The name of its class; empty when it has none."""
    @property
    def id(self) -> int:
        """The numeric id of its class."""
    @property
    def cpu(self) -> Optional[int]:
        """The CPU on which it happened, when the trace says so."""
    @property
    def cycles(self) -> int:
        """The value of its clock."""
    @property
    def trace(self) -> str:
        """The name of its trace."""
    @property
    def stream_name(self) -> str:
        """The name of its stream."""
    @property
    def payload(self) -> Optional[Dict[str, Any]]:
        """The fields of the payload, as a dictionary."""
    @property
    def stream_context(self) -> Optional[Dict[str, Any]]:
        """The context that all events of its stream have, as a dictionary; ``None`` when there is none."""
    @property
    def event_context(self) -> Optional[Dict[str, Any]]:
        """The context of its class, as a dictionary; ``None`` when there is none."""
    @property
    def packet_context(self) -> Optional[Dict[str, Any]]:
        """The context of its packet, as a dictionary; ``None`` when there is none."""
    @property
    def header(self) -> Optional[Dict[str, Any]]:
        """The fields of its header, as a dictionary; ``None`` when there is none."""
    def __getitem__(self, path: str) -> Any: ...
    def __contains__(self, path: str) -> bool: ...
    def get(self, path: str, default: Any = None) -> Any:
        """The value of a field; ``default`` when the event does not have it."""
    def to_dict(self) -> Dict[str, Any]:
        """The event as its JSON line, read: see ``docs/jsonl.md``."""

class CompatMessages(Iterator[Any]):
    def __init__(self, paths: List[str], options: Dict[str, Any]) -> None: ...
    def set_factory(self, factory: object) -> None: ...
    def read_traces(self) -> CompatTraces: ...
    def __iter__(self) -> CompatMessages: ...
    def __next__(self) -> Any: ...

class CompatTraces:
    def traces(self) -> int: ...
    def trace(self, trace: int) -> Dict[str, Any]: ...
    def event_class(self, trace: int, index: int) -> Tuple[Any, Any]: ...
    def streams(self) -> List[Tuple[int, int, int, Optional[int], str]]: ...
    def ends(self) -> Tuple[Optional[int], Optional[int]]: ...
    def stream_times(self, stream: int) -> Tuple[Optional[int], Optional[int]]: ...
    def shared_times(self) -> List[Optional[Tuple[int, int]]]: ...
    def clock_snapshot(self, stream: int, cycles: int, clock_class: object) -> _ClockSnapshotConst: ...

class PacketPlace:
    @property
    def stream(self) -> int: ...
    def context(self) -> Optional[Tuple[Any, ...]]: ...

class OldEvent:
    @property
    def name(self) -> Optional[str]: ...
    @property
    def cycles(self) -> int: ...
    @property
    def timestamp(self) -> Optional[int]: ...
    @property
    def trace(self) -> int: ...
    @property
    def class_index(self) -> int: ...
    def values(self, scope: int) -> Optional[Tuple[Any, ...]]: ...

class _EventMessageConst:
    """An event message."""

    @property
    def event(self) -> _EventConst:
        """The event."""
    @property
    def default_clock_snapshot(self) -> _ClockSnapshotConst:
        """The time of the event; ``ValueError`` when its stream has no clock."""
    @property
    def addr(self) -> int: ...

class _EventConst:
    """An event."""

    @property
    def name(self) -> Optional[str]:
        """The name of its class."""
    @property
    def id(self) -> int:
        """The id of its class."""
    @property
    def cls(self) -> Any:
        """Its class."""
    @property
    def packet(self) -> Any:
        """Its packet."""
    @property
    def stream(self) -> Any:
        """Its stream."""
    @property
    def common_context_field(self) -> Any:
        """The fields that all events of its stream class have."""
    @property
    def specific_context_field(self) -> Any:
        """The context of its class."""
    @property
    def payload_field(self) -> Any:
        """Its payload."""
    @property
    def addr(self) -> int: ...
    def __getitem__(self, key: str) -> Any: ...
    def __contains__(self, key: str) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def keys(self) -> KeysView[str]: ...
    def values(self) -> List[Any]: ...
    def items(self) -> List[Tuple[str, Any]]: ...
    def get(self, key: str, default: Any = None) -> Any: ...

class _ClockSnapshotConst:
    """A value of a clock."""

    @property
    def value(self) -> int:
        """The cycles."""
    @property
    def ns_from_origin(self) -> int:
        """Ns since the origin of the clock."""
    @property
    def clock_class(self) -> Any:
        """The class of the clock."""
    def __lt__(self, other: int) -> bool: ...
    def __le__(self, other: int) -> bool: ...
    def __gt__(self, other: int) -> bool: ...
    def __ge__(self, other: int) -> bool: ...
