"""The reading interface of bt2, the Python module of babeltrace 2, over tracemill: see `docs/python.md`.

>>> from tracemill import bt2
>>> names = [m.event.name for m in bt2.TraceCollectionMessageIterator("demo/traces/mill") if type(m) is bt2._EventMessageConst]
>>> len(names)
2000
"""

from __future__ import annotations

import collections.abc
from typing import Any, Optional

from .._native import _ClockSnapshotConst, _EventConst, _EventMessageConst
from ._classes import (
    ClockClassOffset,
    EventClassLogLevel,
    _ClockClassConst,
    _DiscardedEventsMessageConst,
    _DiscardedPacketsMessageConst,
    _EventClassConst,
    _MessageIteratorInactivityMessageConst,
    _PacketBeginningMessageConst,
    _PacketConst,
    _PacketEndMessageConst,
    _StreamBeginningMessageConst,
    _StreamClassConst,
    _StreamConst,
    _StreamEndMessageConst,
    _TraceClassConst,
    _TraceConst,
    _UnknownClockSnapshot,
)
from ._errors import (
    ComponentClassType,
    LoggingLevel,
    Stop,
    TryAgain,
    UnknownObject,
    _Error,
    _ErrorCause,
    _MemoryError,
    _OverflowError,
)
from . import _field_classes, _fields, _values
from ._field_classes import *  # noqa: F403
from ._iterator import (
    AutoSourceComponentSpec,
    ComponentSpec,
    QueryExecutor,
    TraceCollectionMessageIterator,
    _FilterComponentClassConst,
    _SinkComponentClassConst,
    _SourceComponentClassConst,
    find_plugin,
    find_plugins,
)
from ._values import create_value

# Classes whose names begin with `_` are as much of the interface as the others.
for _module in (_field_classes, _fields, _values):
    for _name, _class in list(vars(_module).items()):
        if isinstance(_class, type) and _class.__module__.startswith(__name__):
            globals()[_name] = _class

collections.abc.Mapping.register(_EventConst)

__version__ = "2.0.4"

_level = LoggingLevel.NONE


def get_global_logging_level() -> int:
    return _level


def set_global_logging_level(level: int) -> None:
    global _level
    _level = level


def get_minimal_logging_level() -> int:
    return LoggingLevel.NONE


def get_maximal_mip_version() -> int:
    return 0


def get_greatest_operative_mip_version(*_: Any, **__: Any) -> Optional[int]:
    return 0


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"tracemill.bt2 does not offer `{name}`: it has what reads traces, not what makes or processes them")
