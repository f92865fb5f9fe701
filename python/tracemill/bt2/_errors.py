"""Errors by their names in bt2."""

from __future__ import annotations

import collections.abc
from typing import Any, Iterator, List, Sequence, Tuple


class ComponentClassType:
    SOURCE = 1
    FILTER = 2
    SINK = 4


class LoggingLevel:
    TRACE = 1
    DEBUG = 2
    INFO = 3
    WARNING = 4
    ERROR = 5
    FATAL = 6
    NONE = 0xFF


class Stop(StopIteration):
    pass


class TryAgain(Exception):
    pass


class UnknownObject(Exception):
    pass


class _ErrorCause:
    def __init__(self, message: str) -> None:
        self._message = message

    @property
    def message(self) -> str:
        return self._message

    @property
    def module_name(self) -> str:
        return "tracemill"

    @property
    def file_name(self) -> str:
        return ""

    @property
    def line_number(self) -> int:
        return 0

    def __str__(self) -> str:
        return f"[{self.module_name}]: {self._message}"


class _ComponentClassErrorCause(_ErrorCause):
    """A query of a component class that a program defines failed."""

    def __init__(self, message: str, component_class_type: int, component_class_name: str) -> None:
        super().__init__(message)
        self._type, self._name = component_class_type, component_class_name

    @property
    def component_class_type(self) -> int:
        return self._type

    @property
    def component_class_name(self) -> str:
        return self._name

    @property
    def plugin_name(self) -> None:
        return None


# Causes that name a component or an iterator: errors here have none, as components of programs are not run.


class _ComponentErrorCause(_ErrorCause):
    pass


class _MessageIteratorErrorCause(_ErrorCause):
    pass


class _Error(Exception, collections.abc.Sequence):  # type: ignore[type-arg]
    """A part of a trace that cannot be read; ``__cause__`` is the `tracemill.Error`, with file and offset."""

    def __init__(self, message: str, earlier: Sequence[_ErrorCause] = ()) -> None:
        super().__init__(message)
        self._causes: Tuple[_ErrorCause, ...] = (*earlier, _ErrorCause(message))

    def __getitem__(self, index: Any) -> Any:
        return self._causes[index]

    def __len__(self) -> int:
        return len(self._causes)

    def __iter__(self) -> Iterator[_ErrorCause]:
        return iter(self._causes)

    @property
    def _messages(self) -> List[str]:
        return [cause.message for cause in self._causes]


class _MemoryError(_Error):
    pass


class _OverflowError(_Error, OverflowError):
    pass
