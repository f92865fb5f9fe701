"""The iterator over the messages of traces, and queries about traces."""

from __future__ import annotations

import collections.abc
import datetime
import numbers
import os
import traceback
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .. import _native
from .._values import Error
from ._classes import World
from ._components import (
    FS,
    MUXER,
    TRIMMER,
    AutoSourceComponentSpec,
    ComponentSpec,
    _BaseComponentSpec,
    _ComponentClassConst,
    _PluginSet,
    _USER_COMPONENTS,
    check_bool,
    check_log_level,
    is_component_class,
    not_offered,
)
from ._errors import LoggingLevel, TryAgain, UnknownObject, _ComponentClassErrorCause, _Error, _ErrorCause
from ._values import (
    MapValue,
    Uncopied,
    _BoolValueConst,
    _SignedIntegerValueConst,
    _StringValueConst,
    check_str,
    const,
    create_value,
)

Spec = Union[str, ComponentSpec, AutoSourceComponentSpec]


def _ns(time: Any) -> Optional[int]:
    if time is None:
        return None
    if isinstance(time, datetime.datetime):
        time = time.timestamp()
    elif not isinstance(time, numbers.Real):
        raise TypeError(f'"{time}" is not an integral number or a datetime.datetime object')
    return int(time * 1e9)


#: Parameters of `source.ctf.fs` beside its inputs.
_PARAMS = ("clock-class-offset-ns", "clock-class-offset-s", "force-clock-class-origin-unix-epoch", "trace-name")


def _settings(spec: _BaseComponentSpec) -> Tuple[int, Optional[str]]:
    """Clock offset and trace name of a source."""
    params: Dict[str, Any] = dict(spec.params or {})
    params.pop("inputs", None)
    for name in params:
        if name not in _PARAMS:
            raise _Error(f"tracemill.bt2 does not offer the parameter `{name}`; it has {', '.join(_PARAMS)}")
    offset = int(params.get("clock-class-offset-s", 0)) * 10**9 + int(params.get("clock-class-offset-ns", 0))
    trace = params.get("trace-name")
    return offset, None if trace is None else str(trace)


def _messages(paths: Sequence[str], **options: Any) -> _native.CompatMessages:
    wanted: Dict[str, Any] = {
        "begin_ns": None,
        "end_ns": None,
        "trims": [],
        "intersection": False,
        "clock_offset_ns": 0,
        "input_format": None,
        "style": "bt2",
        "only_events": False,
        "jobs": None,
    }
    wanted.update(options)
    return _native.CompatMessages([os.fspath(path) for path in paths], wanted)


class TraceCollectionMessageIterator(collections.abc.Iterator):  # type: ignore[type-arg]
    """The messages of one or more traces, in the order of time."""

    def __init__(
        self,
        source_component_specs: Union[Spec, Sequence[Spec]],
        filter_component_specs: Union[ComponentSpec, Sequence[ComponentSpec], None] = None,
        stream_intersection_mode: bool = False,
        begin: Any = None,
        end: Any = None,
        plugin_set: Optional[_PluginSet] = None,
    ) -> None:
        check_bool(stream_intersection_mode)
        if plugin_set is not None and not isinstance(plugin_set, _PluginSet):
            raise TypeError(f"'{type(plugin_set).__name__}' is not a '{_PluginSet}' object")
        begin_ns, end_ns = _ns(begin), _ns(end)
        if isinstance(source_component_specs, (str, ComponentSpec, AutoSourceComponentSpec)):
            source_component_specs = [source_component_specs]
        specs = [AutoSourceComponentSpec(one) if isinstance(one, str) else one for one in source_component_specs]
        if isinstance(filter_component_specs, ComponentSpec):
            filter_component_specs = [filter_component_specs]
        for spec in specs:
            if type(spec) not in (ComponentSpec, AutoSourceComponentSpec):
                raise TypeError(f'"{type(spec)}" object is not a ComponentSpec or AutoSourceComponentSpec')
        trims: List[Tuple[Optional[str], Optional[str], bool]] = []
        for one in filter_component_specs or ():
            if type(one) is not ComponentSpec:
                raise TypeError(f'"{type(one)}" object is not a ComponentSpec')
            params = dict(one.params or {})
            if one.component_class is TRIMMER:
                trims.append(_trim(params))
            elif one.component_class is not MUXER:
                raise not_offered(one.component_class)
            if params:
                raise _Error(f"tracemill.bt2 does not offer the parameter `{next(iter(params))}` of a filter")
        paths: List[str] = []
        for spec in specs:
            if isinstance(spec, AutoSourceComponentSpec):
                paths.append(str(spec.input))
                continue
            if spec.component_class is not FS:
                raise not_offered(spec.component_class)
            inputs = (spec.params or {}).get("inputs")
            if inputs is None:
                raise _Error("missing mandatory `inputs` parameter")
            paths.extend(str(path) for path in inputs)
        autos = [str(spec.input) for spec in specs if isinstance(spec, AutoSourceComponentSpec)]
        self._refuse([path for path in autos if not os.path.exists(path)])
        settings = {_settings(spec) for spec in specs}
        if len(settings) > 1:
            raise _Error("tracemill.bt2 does not offer sources with different parameters in one iterator: use one for each")
        offset, name = next(iter(settings), (0, None))
        try:
            self._messages = _messages(
                paths,
                begin_ns=begin_ns,
                end_ns=end_ns,
                trims=trims,
                intersection=stream_intersection_mode,
                clock_offset_ns=offset,
            )
        except Error as error:
            if autos:
                self._refuse(autos, error)
            raise _Error(str(error)) from error
        except ValueError as error:
            raise _Error(str(error)) from error
        found = [os.path.abspath(path) for path in _paths(self._messages)]
        self._refuse([path for path in autos if not any(_is_below(one, path) for one in found)])
        self._world = World(self._messages, name)

    @staticmethod
    def _refuse(paths: Sequence[str], error: Optional[Exception] = None) -> None:
        if paths:
            why = "" if error is None else f": {error}"
            missing = ", ".join(paths)
            raise RuntimeError(
                f"Some auto source component specs did not produce any component: {missing}{why}"
            ) from error

    def __iter__(self) -> Any:
        # Without a step through this class for each message.
        return self._messages

    def __next__(self) -> Any:
        return next(self._messages)


def _paths(messages: _native.CompatMessages) -> List[str]:
    """The paths of the traces that are read."""
    read = messages.read_traces()
    return [read.trace(index)["path"] for index in range(read.traces())]


def _is_below(trace: str, path: str) -> bool:
    own = os.path.abspath(path)
    return trace == own or trace.startswith(own + os.sep)


def _trim(params: Dict[str, Any]) -> Tuple[Optional[str], Optional[str], bool]:
    """Takes the times of a trimmer out of its parameters, as texts, and whether they are universal time. Numbers are seconds."""
    kinds = {
        "begin": (_SignedIntegerValueConst, _StringValueConst),
        "end": (_SignedIntegerValueConst, _StringValueConst),
        "gmt": (_BoolValueConst,),
    }
    found = {name: params.pop(name) for name in kinds if name in params}
    for name, value in found.items():
        if not isinstance(value, kinds[name]):
            wanted = " or ".join(kind.__name__.strip("_").replace("Const", "") for kind in kinds[name])
            raise _Error(f"the parameter `{name}` of the trimmer is a {wanted}, not a {type(value).__name__}")
    begin, end = (str(found[name]) if name in found else None for name in ("begin", "end"))
    return begin, end, bool(found.get("gmt", False))


class Interrupter(Uncopied):
    """A flag. Queries here are short, and are not interrupted by it."""

    def __init__(self) -> None:
        self._is_set = False

    @property
    def is_set(self) -> bool:
        return self._is_set

    @property
    def addr(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def reset(self) -> None:
        self._is_set = False


class _PrivateQueryExecutor:
    """An executor as the query method of a program's component class sees it, while it runs."""

    def __init__(self, executor: QueryExecutor) -> None:
        self._executor: Optional[QueryExecutor] = executor

    def _valid(self) -> QueryExecutor:
        if self._executor is None:
            raise RuntimeError("this object is not valid anymore")
        return self._executor

    @property
    def is_interrupted(self) -> bool:
        return self._valid().is_interrupted

    @property
    def logging_level(self) -> int:
        return self._valid().logging_level

    def _invalidate(self) -> None:
        self._executor = None


class QueryExecutor(Uncopied):
    """Questions about traces, `babeltrace.support-info` and `babeltrace.trace-infos`, and to component classes of the program."""

    def __init__(self, component_class: Any, object_name: str, params: Any = None, method_obj: Any = None) -> None:
        if not is_component_class(component_class, _ComponentClassConst, *_USER_COMPONENTS):
            raise TypeError(f"'{component_class}' is not a component class object")
        check_str(object_name)
        if method_obj is not None and isinstance(component_class, _ComponentClassConst):
            raise ValueError("cannot pass a Python object to a non-Python component class")
        self._class, self._name, self._params = component_class, object_name, create_value(params)
        self._method_obj = method_obj
        self._default_interrupter, self._level = Interrupter(), LoggingLevel.NONE
        self._interrupters = [self._default_interrupter]

    @property
    def addr(self) -> int:
        return id(self)

    def add_interrupter(self, interrupter: Interrupter) -> None:
        if not isinstance(interrupter, Interrupter):
            raise TypeError(f"'{type(interrupter).__name__}' is not a '{Interrupter}' object")
        self._interrupters.append(interrupter)

    @property
    def default_interrupter(self) -> Interrupter:
        return self._default_interrupter

    @property
    def is_interrupted(self) -> bool:
        return any(self._interrupters)

    @property
    def logging_level(self) -> int:
        return self._level

    @logging_level.setter
    def logging_level(self, level: int) -> None:
        check_log_level(level)
        self._level = level

    def query(self) -> Any:
        if is_component_class(self._class, *_USER_COMPONENTS):
            return self._own_query()
        params = MapValue() if self._params is None else self._params
        if self._class is not FS:
            raise not_offered(self._class)
        if self._name not in ("babeltrace.support-info", "babeltrace.trace-infos"):
            raise UnknownObject(f"tracemill.bt2 does not offer the query `{self._name}` of `{self._class.name}`")
        return const(_support(params) if self._name.endswith("support-info") else _infos(params))

    def _own_query(self) -> Any:
        """The answer of a component class that a program defines."""
        params = None if self._params is None else const(self._params)
        executor, name = _PrivateQueryExecutor(self), self._class.name
        try:
            return const(self._class._user_query(executor, self._name, params, self._method_obj))
        except (TryAgain, UnknownObject):
            raise
        except Exception as error:
            causes = list(error) if isinstance(error, _Error) else []
            causes.append(_ComponentClassErrorCause(traceback.format_exc(), self._class._type, name))
            causes.append(_ErrorCause(f"the query method of the component class `{name}` failed"))
            raise _Error("cannot query component class", causes) from error
        finally:
            executor._invalidate()


def _support(params: Any) -> Dict[str, Any]:
    path = str(params["input"])
    try:
        messages = _messages([path])
    except Error:
        return {"weight": 0.0}
    if os.path.abspath(path) not in map(os.path.abspath, _paths(messages)):
        return {"weight": 0.0}
    world = World(messages)
    uuid = world.traces[0].uuid
    return {"weight": 0.75} if uuid is None else {"group": str(uuid), "weight": 0.75}


def _infos(params: Any) -> List[Any]:
    try:
        messages = _messages([str(path) for path in params["inputs"]])
    except Error as error:
        raise _Error(str(error)) from error
    world, infos = World(messages), []
    for trace in world.traces:
        streams = []
        for stream in trace._streams:
            info: Dict[str, Any] = {"port-name": f"{trace.uuid or trace._of['path']} | {stream.cls.id} | {stream.id}"}
            first, last = world.read.stream_times(stream._index)
            if first is not None and last is not None:
                info["range-ns"] = {"begin": first, "end": last}
            streams.append(info)
        infos.append({"stream-infos": streams})
    return infos
