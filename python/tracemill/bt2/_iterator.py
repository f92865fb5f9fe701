"""The iterator over the messages of traces, components by their names, and queries about traces."""

from __future__ import annotations

import collections.abc
import datetime
import numbers
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .. import _native
from .._values import Error
from ._classes import World
from ._errors import LoggingLevel, UnknownObject, _Error
from ._values import MapValue, const, create_value

_OFFERED = "it reads traces: `source.ctf.fs`, `filter.utils.muxer` and `filter.utils.trimmer` are all its components"


class _ComponentClassConst:
    def __init__(self, plugin: str, name: str, description: str) -> None:
        self._plugin, self._name, self._description = plugin, name, description

    @property
    def name(self) -> str:
        return self._name

    @property
    def description(self) -> str:
        return self._description

    @property
    def help(self) -> Optional[str]:
        return None

    @property
    def addr(self) -> int:
        return id(self)


class _SourceComponentClassConst(_ComponentClassConst):
    pass


class _FilterComponentClassConst(_ComponentClassConst):
    pass


class _SinkComponentClassConst(_ComponentClassConst):
    pass


class _PluginComponentClassesConst(collections.abc.Mapping):  # type: ignore[type-arg]
    def __init__(self, plugin: str, kind: str, known: Sequence[_ComponentClassConst]) -> None:
        self._plugin, self._kind, self._known = plugin, kind, {of.name: of for of in known}

    def __getitem__(self, key: str) -> _ComponentClassConst:
        if key not in self._known:
            raise KeyError(f"tracemill.bt2 does not offer the component class `{self._kind}.{self._plugin}.{key}`: {_OFFERED}")
        return self._known[key]

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)


class _Plugin:
    def __init__(self, name: str, sources: Sequence[Any], filters: Sequence[Any]) -> None:
        self._name = name
        self._sources = _PluginComponentClassesConst(name, "source", sources)
        self._filters = _PluginComponentClassesConst(name, "filter", filters)
        self._sinks = _PluginComponentClassesConst(name, "sink", ())

    @property
    def name(self) -> str:
        return self._name

    @property
    def description(self) -> str:
        return "read by tracemill"

    @property
    def source_component_classes(self) -> Mapping[str, Any]:
        return self._sources

    @property
    def filter_component_classes(self) -> Mapping[str, Any]:
        return self._filters

    @property
    def sink_component_classes(self) -> Mapping[str, Any]:
        return self._sinks


class _PluginSet(collections.abc.Sequence):  # type: ignore[type-arg]
    def __init__(self, plugins: Sequence[_Plugin]) -> None:
        self._plugins = plugins

    def __len__(self) -> int:
        return len(self._plugins)

    def __getitem__(self, index: Any) -> Any:
        return self._plugins[index]


_FS = _SourceComponentClassConst("ctf", "fs", "Read traces of any format that tracemill reads")
_MUXER = _FilterComponentClassConst("utils", "muxer", "Sort messages by time: always done")
_TRIMMER = _FilterComponentClassConst("utils", "trimmer", "Keep the messages of a time range")
_PLUGINS = (_Plugin("ctf", (_FS,), ()), _Plugin("utils", (), (_MUXER, _TRIMMER)))


def find_plugins(*_: Any, **__: Any) -> _PluginSet:
    return _PluginSet(_PLUGINS)


def find_plugin(name: str, *_: Any, **__: Any) -> Optional[_Plugin]:
    if not isinstance(name, str):
        raise TypeError(f"'{type(name).__name__}' is not a 'str' object")
    return next((plugin for plugin in _PLUGINS if plugin.name == name), None)


class _BaseComponentSpec:
    def __init__(self, params: Any, obj: Any, logging_level: Optional[int]) -> None:
        self._params, self._obj, self._logging_level = create_value(params), obj, logging_level

    @property
    def params(self) -> Any:
        return self._params

    @property
    def obj(self) -> Any:
        return self._obj

    @property
    def logging_level(self) -> Optional[int]:
        return self._logging_level


class ComponentSpec(_BaseComponentSpec):
    """A component by its class and its parameters."""

    def __init__(
        self, component_class: Any, params: Any = None, obj: Any = None, logging_level: Optional[int] = LoggingLevel.NONE
    ) -> None:
        super().__init__({"inputs": [params]} if isinstance(params, str) else params, obj, logging_level)
        if not isinstance(component_class, (_SourceComponentClassConst, _FilterComponentClassConst)):
            raise TypeError(f"'{type(component_class).__name__}' is not a source or filter component class")
        self._component_class = component_class

    @property
    def component_class(self) -> Any:
        return self._component_class

    @classmethod
    def from_named_plugin_and_component_class(
        cls,
        plugin_name: str,
        component_class_name: str,
        params: Any = None,
        obj: Any = None,
        logging_level: Optional[int] = LoggingLevel.NONE,
    ) -> ComponentSpec:
        plugin = find_plugin(plugin_name)
        if plugin is None:
            raise ValueError(f"no such plugin: {plugin_name}: {_OFFERED}")
        for classes in (plugin.source_component_classes, plugin.filter_component_classes):
            if component_class_name in classes:
                return cls(classes[component_class_name], params, obj, logging_level)
        raise KeyError(
            f"source or filter component class `{component_class_name}` not found in plugin `{plugin_name}`: {_OFFERED}"
        )


class AutoSourceComponentSpec(_BaseComponentSpec):
    """Traces that are found by a path."""

    def __init__(self, input: Any, params: Any = None, obj: Any = None, logging_level: Optional[int] = None) -> None:
        super().__init__(params, obj, logging_level)
        self._input = input

    @property
    def input(self) -> Any:
        return self._input


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
    wanted = {
        "begin_ns": None,
        "end_ns": None,
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
        if not isinstance(stream_intersection_mode, bool):
            raise TypeError(f"'{type(stream_intersection_mode).__name__}' is not a 'bool' object")
        begin_ns, end_ns = _ns(begin), _ns(end)
        if isinstance(source_component_specs, (str, ComponentSpec, AutoSourceComponentSpec)):
            source_component_specs = [source_component_specs]
        specs = [AutoSourceComponentSpec(one) if isinstance(one, str) else one for one in source_component_specs]
        if isinstance(filter_component_specs, ComponentSpec):
            filter_component_specs = [filter_component_specs]
        for spec in specs:
            if type(spec) not in (ComponentSpec, AutoSourceComponentSpec):
                raise TypeError(f'"{type(spec)}" object is not a ComponentSpec or AutoSourceComponentSpec')
        for one in filter_component_specs or ():
            if type(one) is not ComponentSpec:
                raise TypeError(f'"{type(one)}" object is not a ComponentSpec')
            params = dict(one.params or {})
            if one.component_class is _TRIMMER:
                first, last = (_trim(params.pop(name, None), name) for name in ("begin", "end"))
                begin_ns = first if begin_ns is None else max(begin_ns, begin_ns if first is None else first)
                end_ns = last if end_ns is None else min(end_ns, end_ns if last is None else last)
            elif one.component_class is not _MUXER:
                raise ValueError(f"`{one.component_class.name}` is not a filter: {_OFFERED}")
            if params:
                raise _Error(f"tracemill.bt2 does not offer the parameter `{next(iter(params))}` of a filter")
        paths: List[str] = []
        for spec in specs:
            if isinstance(spec, AutoSourceComponentSpec):
                paths.append(str(spec.input))
                continue
            if spec.component_class is not _FS:
                raise ValueError(f"`{spec.component_class.name}` is not a source: {_OFFERED}")
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
                intersection=stream_intersection_mode,
                clock_offset_ns=offset,
            )
        except Error as error:
            if autos:
                self._refuse(autos, error)
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


def _trim(value: Any, name: str) -> Optional[int]:
    """The ns of a parameter of the trimmer: a number of ns, or a text of seconds."""
    if value is None:
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    seconds, _, digits = str(value).partition(".")
    try:
        return int(seconds) * 10**9 + int((digits + "0" * 9)[:9])
    except ValueError:
        raise _Error(f"tracemill.bt2 reads the parameter `{name}` as a number of ns or as SECONDS.NS, not `{value}`") from None


class QueryExecutor:
    """Questions about traces: `babeltrace.support-info` and `babeltrace.trace-infos`."""

    def __init__(self, component_class: Any, object_name: str, params: Any = None, method_obj: Any = None) -> None:
        if not isinstance(component_class, _ComponentClassConst):
            raise TypeError(f"'{type(component_class).__name__}' object is not a component class object")
        if not isinstance(object_name, str):
            raise TypeError(f"'{type(object_name).__name__}' is not a 'str' object")
        self._class, self._name, self._params = component_class, object_name, create_value(params)

    @property
    def is_interrupted(self) -> bool:
        return False

    def query(self) -> Any:
        params = self._params or MapValue()
        if self._class is not _FS or self._name not in ("babeltrace.support-info", "babeltrace.trace-infos"):
            raise UnknownObject(f"tracemill.bt2 does not offer the query `{self._name}` of `{self._class.name}`")
        return const(_support(params) if self._name.endswith("support-info") else _infos(params))


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
    return {"weight": 0.75} if uuid is None else {"weight": 0.75, "group": str(uuid)}


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
