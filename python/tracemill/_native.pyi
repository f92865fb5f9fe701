"""What is written in Rust."""

from typing import Any, Dict, Iterator, List, Optional, Tuple

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
