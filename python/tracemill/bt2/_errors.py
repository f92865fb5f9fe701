"""Errors by their names in bt2."""

from __future__ import annotations

import collections.abc
from typing import Any, Iterator, List, Tuple


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


# The part of an error that names a failed component: errors here have no such causes, as there are no components.


class _ComponentErrorCause(_ErrorCause):
    pass


class _ComponentClassErrorCause(_ErrorCause):
    pass


class _MessageIteratorErrorCause(_ErrorCause):
    pass


class _Error(Exception, collections.abc.Sequence):  # type: ignore[type-arg]
    """A part of a trace that cannot be read; ``__cause__`` is the `tracemill.Error`, with file and offset."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._causes: Tuple[_ErrorCause, ...] = (_ErrorCause(message),)

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
