"""The reading interface of bt2, the Python module of babeltrace 2, over tracemill: see `docs/python.md`.

>>> from tracemill import bt2
>>> names = [m.event.name for m in bt2.TraceCollectionMessageIterator("demo/traces/mill") if type(m) is bt2._EventMessageConst]
>>> len(names)
2000
"""

from __future__ import annotations

import collections.abc
from typing import Any, Dict, Iterable, Optional

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
from ._components import (
    AutoSourceComponentSpec,
    ComponentDescriptor,
    ComponentSpec,
    _FilterComponentClassConst,
    _SinkComponentClassConst,
    _SourceComponentClassConst,
    _UserFilterComponent,
    _UserMessageIterator,
    _UserSinkComponent,
    _UserSourceComponent,
    LEVELS,
    check_log_level,
    find_plugin,
    find_plugins,
    not_offered,
)
from ._errors import (
    ComponentClassType,
    LoggingLevel,
    Stop,
    TryAgain,
    UnknownObject,
    _ComponentClassErrorCause,
    _ComponentErrorCause,
    _Error,
    _ErrorCause,
    _MemoryError,
    _MessageIteratorErrorCause,
    _OverflowError,
)
from . import _field_classes, _fields, _values
from ._iterator import Interrupter, QueryExecutor, TraceCollectionMessageIterator
from ._values import create_value

# Classes whose names begin with `_` are as much of the interface as the others.
for _module in (_field_classes, _fields, _values):
    for _name, _class in list(vars(_module).items()):
        if isinstance(_class, type) and _class.__module__ == _module.__name__ and _class not in _values.SHARED:
            globals()[_name] = _class


def _changeable() -> Dict[str, type]:
    """The classes of what can be changed, by their names, for `isinstance`: what is read here is of none of them."""

    def fail(self: Any, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"tracemill.bt2 does not offer `{type(self).__name__}`: it has what reads traces")

    made: Dict[str, type] = {}

    def of(const: type) -> type:
        name = const.__name__[: -len("Const")]
        if name not in made:
            bases = [of(base) for base in const.__bases__ if base.__name__.endswith("Const")]
            made[name] = type(name, (const, *bases), {"__init__": fail, "__module__": __name__})
        return made[name]

    ends = ("FieldConst", "FieldClassConst", "MessageConst", "SelectorConst")
    for name, const in list(globals().items()):
        if name.endswith(ends) and isinstance(const, type) and const is not _EventMessageConst:
            of(const)
    made["_EventMessage"] = type("_EventMessage", (), {"__init__": fail, "__module__": __name__})
    return made


globals().update(_changeable())
collections.abc.Mapping.register(_EventConst)

__version__ = "2.0.4"

_level = LoggingLevel.NONE


def get_global_logging_level() -> int:
    return _level


def set_global_logging_level(level: int) -> None:
    global _level
    if level not in LEVELS:
        raise TypeError(f"'{level}' is not a valid logging level")
    _level = level


def get_minimal_logging_level() -> int:
    return LoggingLevel.NONE


def get_maximal_mip_version() -> int:
    return 0


def get_greatest_operative_mip_version(
    component_descriptors: Iterable[ComponentDescriptor], log_level: int = LoggingLevel.NONE
) -> Optional[int]:
    check_log_level(log_level)
    descriptors = list(component_descriptors)
    if not descriptors:
        raise ValueError("there are no component descriptors")
    for descriptor in descriptors:
        if type(descriptor) is not ComponentDescriptor:
            raise TypeError(f"'{descriptor}' is not a component descriptor")
        if hasattr(descriptor.component_class, "_user_get_supported_mip_versions"):
            raise not_offered(descriptor.component_class)
    return 0


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"tracemill.bt2 does not offer `{name}`: it has what reads traces, not what makes or processes them")
