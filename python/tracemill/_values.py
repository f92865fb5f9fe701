"""Errors, times, and the values of fields that know more than their number."""

from __future__ import annotations

import datetime
from typing import Any, Optional, Tuple

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Error(Exception):
    """What went wrong, in the words of the command line: what was read, where, what was expected, what to try."""

    file: Optional[str]
    """The file of the trace."""
    offset: Optional[int]
    """The byte in the file."""
    line: Optional[int]
    """The line of a text, from 1: of a query, a filter, metadata."""
    column: Optional[int]
    """The column in that line, from 1."""
    help: Optional[str]
    """What to try."""

    def __init__(
        self,
        message: str,
        *,
        file: Optional[str] = None,
        offset: Optional[int] = None,
        line: Optional[int] = None,
        column: Optional[int] = None,
        help: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.file, self.offset, self.line, self.column, self.help = file, offset, line, column, help

    def __reduce__(self) -> Any:
        return (_error, (str(self), self.file, self.offset, self.line, self.column, self.help))


def _error(message: str, *parts: Any) -> Error:
    return Error(message, **dict(zip(("file", "offset", "line", "column", "help"), parts)))


class TraceWarning(UserWarning):
    """A part of a trace that cannot be read, or something to know about a trace."""


class Time(datetime.datetime):
    """A time in UTC. As a ``datetime`` it ends at the microsecond; ``ns``, comparisons and texts have all digits."""

    _ns: int

    @classmethod
    def of_ns(cls, ns: int) -> Time:
        """The time that is ``ns`` after 1970.

        Raises ``OverflowError`` outside of the years 1 to 9999.
        """
        of = _EPOCH + datetime.timedelta(microseconds=ns // 1000)
        time = cls(of.year, of.month, of.day, of.hour, of.minute, of.second, of.microsecond, datetime.timezone.utc)
        time._ns = ns
        return time

    @property
    def ns(self) -> int:
        """Ns since 1970."""
        known: Optional[int] = self.__dict__.get("_ns")
        if known is not None:
            return known
        # Made by arithmetic, as any ``datetime``.
        own: datetime.datetime = self if self.tzinfo else self.replace(tzinfo=datetime.timezone.utc)
        since = own - _EPOCH
        return (since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) * 1000

    def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:
        """The date as tracemill writes it: ``2026-11-21T03:15:26.586497046Z``."""
        if timespec != "auto" or "_ns" not in self.__dict__:
            return super().isoformat(sep, timespec)
        return f"{self:%Y-%m-%d}{sep}{self:%H:%M:%S}.{self.ns % 1_000_000_000:09}Z"

    def __str__(self) -> str:
        return self.isoformat()

    def __repr__(self) -> str:
        return f"tracemill.Time({self.isoformat()!r})"

    def __eq__(self, other: object) -> bool:
        return self.ns == other.ns if isinstance(other, Time) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self.ns < other.ns if isinstance(other, Time) else super().__lt__(other)

    def __le__(self, other: Any) -> bool:
        return self.ns <= other.ns if isinstance(other, Time) else super().__le__(other)

    def __gt__(self, other: Any) -> bool:
        return self.ns > other.ns if isinstance(other, Time) else super().__gt__(other)

    def __ge__(self, other: Any) -> bool:
        return self.ns >= other.ns if isinstance(other, Time) else super().__ge__(other)

    def __hash__(self) -> int:
        # Equal to that of the ``datetime``, which may be equal.
        return super().__hash__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (Time.of_ns, (self.ns,))


def time_of_ns(ns: int) -> Optional[Time]:
    """The time that is ``ns`` after 1970; ``None`` where Python has no dates."""
    try:
        return Time.of_ns(ns)
    except OverflowError:
        return None


def day_of_number(days: int) -> Optional[datetime.date]:
    """The day that is ``days`` after 1970-01-01; ``None`` where Python has no dates."""
    try:
        return datetime.date(1970, 1, 1) + datetime.timedelta(days)
    except OverflowError:
        return None


class Enumeration(int):
    """The value of an enumeration: an integer with its labels."""

    labels: Tuple[str, ...]
    """All labels of the value, in the order of their declaration."""

    def __new__(cls, value: int, labels: Tuple[str, ...] = ()) -> Enumeration:
        made = super().__new__(cls, value)
        made.labels = tuple(labels)
        return made

    @property
    def label(self) -> Optional[str]:
        """The first label of the value; ``None`` when it has none."""
        return self.labels[0] if self.labels else None

    def __getnewargs__(self) -> Any:
        return (int(self), self.labels)


class BitMap(int):
    """The value of a bit map: an integer with the names of the flags that are set."""

    flags: Tuple[str, ...]
    """The flags that are set, in the order of their declaration."""

    def __new__(cls, value: int, flags: Tuple[str, ...] = ()) -> BitMap:
        made = super().__new__(cls, value)
        made.flags = tuple(flags)
        return made

    def __getnewargs__(self) -> Any:
        return (int(self), self.flags)


class Blob(bytes):
    """Bytes with their media type."""

    media_type: str
    """What the trace says of them, such as ``image/png``."""

    def __new__(cls, value: bytes, media_type: str = "application/octet-stream") -> Blob:
        made = super().__new__(cls, value)
        made.media_type = media_type
        return made

    def __getnewargs__(self) -> Any:
        return (bytes(self), self.media_type)
