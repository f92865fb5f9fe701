"""Execution traces of any format: SQL, Arrow, and events as objects.

>>> import tracemill
>>> with tracemill.open("demo/traces/mill") as t:
...     t.sql("select count(*) as n from events").fetchall()
[Row(n=2000)]
"""

from __future__ import annotations

import collections
import datetime
import json
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import _native
from ._native import Event, Events
from ._values import BitMap, Blob, Enumeration, Error, Time, TraceWarning

if TYPE_CHECKING:
    import types

    import pandas
    import polars
    import pyarrow

__all__ = [
    "BitMap",
    "Blob",
    "Enumeration",
    "Error",
    "Event",
    "Events",
    "Result",
    "Time",
    "TraceWarning",
    "Traces",
    "open",
]

Path = Union[str, "os.PathLike[str]"]
Offset = Union[int, float, str, Sequence[Union[int, float, str]], Mapping[str, Union[int, float, str]]]


def open(
    *traces: Path,
    begin: Optional[str] = None,
    end: Optional[str] = None,
    filter: Optional[str] = None,
    stream: Union[str, Sequence[str], None] = None,
    jobs: Optional[int] = None,
    memory: Union[int, str, None] = None,
    spill: Optional[str] = None,
    input_format: Optional[str] = None,
    clock_offset: Optional[Offset] = None,
    clock_offset_ns: Optional[Offset] = None,
    correlate: Optional[str] = None,
    correlate_by: Optional[str] = None,
    max_unpacked: Union[int, str, None] = None,
    strict: bool = False,
    quiet: bool = False,
    kallsyms: Optional[Path] = None,
    debug_info_target_prefix: Optional[Path] = None,
    debug_info_dir: Optional[Path] = None,
    no_inline: bool = False,
    states: Optional[Path] = None,
    **formats: Any,
) -> Traces:
    """Open all traces in and below the paths, as one session. Only headers are read.

    The options are those of the command line, by name:

    :param begin: events from this time on, such as ``"+1s"`` or ``"2026-11-21 08:31:10"`` (UTC)
    :param end: events up to this time, which is included
    :param filter: events for which this is true, in the language of ``--filter``
    :param stream: events of the streams with this name (globs are allowed) or id, or with these
    :param jobs: threads; all processors, at most 16, otherwise
    :param memory: memory of queries, in bytes or such as ``"512M"``; half of what is free, at most 4 GiB, otherwise
    :param spill: ``"none"`` when nothing may be written for want of memory
    :param input_format: the format of the traces, which is detected otherwise
    :param clock_offset: seconds by which clocks are shifted: a number, ``"TRACE=12"``, a list of these, or a dictionary
    :param clock_offset_ns: the same in nanoseconds
    :param correlate: events that send and receive messages, ``"SEND=RECEIVE"``, from which clocks are corrected
    :param correlate_by: fields by which the two ends of a message are paired
    :param max_unpacked: the largest unpacked size of a compressed file
    :param strict: damage is an error, not a warning
    :param quiet: no warnings but those of damage
    :param kallsyms: the list of the kernel's symbols, by which functions of samples are named
    :param debug_info_target_prefix: the folder with the programs of the recorded machine
    :param debug_info_dir: the folder with the symbols of stripped programs
    :param no_inline: samples have no inlined functions
    :param states: the file that defines states and counters, of which SQL has tables
    :param formats: options of input formats, such as ``ticks_per_us=2`` or ``key_file="key"``
    :raises Error: when nothing can be opened, or an option is wrong
    """
    if spill not in (None, "none"):
        raise Error(f"spill is `none` or left out, not `{spill}`")
    if jobs is not None and jobs < 1:
        raise Error("jobs is a number of threads from 1 on")
    options = {
        "begin": begin,
        "end": end,
        "filter": filter,
        "stream": [] if stream is None else [stream] if isinstance(stream, str) else list(stream),
        "jobs": jobs,
        "memory": None if memory is None else str(memory),
        "spill": spill is None,
        "input_format": input_format,
        "clock_offset": _offsets(clock_offset),
        "clock_offset_ns": _offsets(clock_offset_ns),
        "correlate": correlate,
        "correlate_by": correlate_by,
        "max_unpacked": None if max_unpacked is None else str(max_unpacked),
        "strict": strict,
        "quiet": quiet,
        "symbols": {
            "kallsyms": kallsyms,
            "target_prefix": debug_info_target_prefix,
            "dir": debug_info_dir,
            "no_inline": no_inline,
        },
        "states": states,
        # A switch has no value.
        "settings": {
            name.replace("_", "-"): "" if value is True else os.fspath(value) if isinstance(value, os.PathLike) else str(value)
            for name, value in formats.items()
            if value is not None and value is not False
        },
    }
    return Traces(_native.Opened([os.fspath(trace) for trace in traces], options))


def _offsets(offset: Optional[Offset]) -> List[str]:
    def text(number: Union[int, float, str]) -> str:
        # Not 1e-09, and no digits that were not written.
        return f"{number:.9f}" if isinstance(number, float) else str(number)

    if offset is None:
        return []
    if isinstance(offset, Mapping):
        return [f"{name}={text(number)}" for name, number in offset.items()]
    if isinstance(offset, (int, float, str)):
        return [text(offset)]
    return [text(number) for number in offset]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Traces:
    """Opened traces. Threads may share them."""

    def __init__(self, opened: _native.Opened) -> None:
        self._opened: Optional[_native.Opened] = opened

    def _open(self) -> _native.Opened:
        if self._opened is None:
            raise Error("the traces are closed")
        return self._opened

    def sql(self, query: str, *, cluster: Optional[str] = None, **parameters: Any) -> Result:
        """Ask in SQL. The query is planned here and run when its rows are asked for.

        Statements before the last one may be such without rows (``create view``, ``set``). ``$name`` in the query is the
        value of ``name``: a number, a text, a time, ``True``, ``False`` or ``None``.

        :param cluster: the scheduler of a cluster that runs the query, such as ``"df://127.0.0.1:50050"``; its executors open
            the traces under the same paths. Views that statements make are known to queries of the same cluster.
        :raises Error: when the query is wrong, or the module was built without clusters
        """
        values = {
            name: value.isoformat() if isinstance(value, datetime.date) else value for name, value in parameters.items()
        }
        return Result(self._open().prepare(query, values, cluster))

    def table(
        self, name: str, columns: Optional[Sequence[str]] = None, where: Optional[str] = None, limit: Optional[int] = None
    ) -> Result:
        """A table: ``events``, ``calls``, ``"mill:tick"``, or another one of :meth:`tables`.

        :param columns: names of columns; all of them otherwise
        :param where: a condition of SQL, such as ``"load > 5"``
        :param limit: rows at most
        :raises Error: when there is no such table or column, or the condition is wrong
        """
        schema, dot, rest = name.partition(".")
        if name not in self.tables() and dot and schema in ("main", "event"):
            table = f"{schema}.{_quoted(rest)}"
        else:
            table = _quoted(name)
        query = f"select {'*' if columns is None else ', '.join(map(_quoted, columns))} from {table}"
        if where is not None:
            # On a line of its own: a comment in it ends there.
            query += f" where (\n{where}\n)"
        if limit is not None:
            query += f" limit {int(limit)}"
        return self.sql(query)

    def events(self, *names: str, where: Optional[str] = None, limit: Optional[int] = None) -> Events:
        """Iterate over events, in the order of ``tracemill print``.

        :param names: names of event classes, with globs; all classes otherwise
        :param where: a condition in the language of ``--filter``, such as ``"worker == 1"``
        :param limit: events at most
        :raises Error: when the condition is wrong
        """
        if limit is not None and limit < 0:
            raise Error("limit is a number of events from 0 on")
        return self._open().events(list(names), where, limit)

    def info(self, *, count: bool = False, packets: bool = False) -> Dict[str, Any]:
        """Describe the traces, as ``tracemill info --json`` does.

        :param count: count every event, instead of reading only headers and indexes
        :param packets: list the packets, too
        """
        info: Dict[str, Any] = json.loads(self._open().info(count, packets))
        return info

    def tables(self) -> List[str]:
        """The names of all tables: those that are always there, then those of event classes."""
        return self._open().tables()

    @property
    def faults(self) -> List[Error]:
        """The parts of the traces that could not be read, so far."""
        return self._open().faults()

    def close(self) -> None:
        """Close the traces. Results and events that are there stay valid."""
        self._opened = None

    def __enter__(self) -> Traces:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[types.TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<tracemill.Traces, closed>" if self._opened is None else "<tracemill.Traces>"


class Result:
    """The answer to a query. It is made when it is asked for, and anew by each method.

    Whatever takes Arrow's C stream interface takes a result as it is: ``pyarrow.table(r)``, ``polars.DataFrame(r)``,
    ``duckdb.sql("select * from r")``.
    """

    def __init__(self, answer: _native.Answer) -> None:
        self._answer = answer

    @property
    def columns(self) -> List[str]:
        """The names of the columns; the second one of a name is ``NAME_2``."""
        return self._answer.columns

    def explain(self, analyze: bool = False) -> str:
        """The plan of the query as text; with ``analyze`` it is run, and figures stand beside the steps."""
        rows = _rows(self._answer.explain(analyze).stream())
        return "\n".join(f"{row[0]}\n{row[1]}" for row in rows)

    def __iter__(self) -> Iterator[Any]:
        """Named tuples, batch by batch. A column whose name is not a word of Python is called ``_1``, by its place."""
        row = collections.namedtuple("Row", self.columns, rename=True)  # type: ignore[misc]
        return map(row._make, _rows(self._answer.stream()))

    def fetchall(self) -> List[Any]:
        """All rows, as named tuples."""
        return list(self)

    def to_arrow(self) -> pyarrow.Table:
        """All rows as a ``pyarrow.Table``."""
        import pyarrow

        with _Taken(self._answer.stream()) as stream:
            return pyarrow.RecordBatchReader.from_stream(stream).read_all()

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a ``pandas.DataFrame``; needs pyarrow, too."""
        import pandas  # noqa: F401 (says what is missing)

        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """All rows as a ``polars.DataFrame``."""
        import polars

        with _Taken(self._answer.stream()) as stream:
            return polars.DataFrame(stream)

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """The rows by Arrow's C stream interface, without a copy."""
        return self._answer.stream().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The types of the columns by Arrow's C interface."""
        return self._answer.stream().__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"<tracemill.Result {self.columns}>"


def _rows(stream: _native.Stream) -> Iterator[Tuple[Any, ...]]:
    while True:
        batch = stream.batch()
        if batch is None:
            return
        yield from batch


class _Taken:
    """A stream that somebody takes; an error of ours is raised as such, and not as the taker's."""

    def __init__(self, stream: _native.Stream) -> None:
        self._stream = stream

    def __enter__(self) -> _native.Stream:
        return self._stream

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[types.TracebackType],
    ) -> None:
        own = self._stream.error
        if error is not None and own is not None:
            raise own from None
        self._stream.warn()
