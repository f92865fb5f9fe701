"""Component classes by their names, plugins, and specifications of components.

Three of the classes are offered: `source.ctf.fs`, `filter.utils.muxer` and `filter.utils.trimmer`. The others have names, so that
programs can look for them; using one raises an error with its name. So do components of the program itself, whose classes can
only be queried.
"""

from __future__ import annotations

import collections.abc
import inspect
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence

from ._errors import ComponentClassType, LoggingLevel, UnknownObject
from ._values import MapValue, Uncopied, check_int, check_str, check_unsigned, create_value

OFFERED = "it reads traces: `source.ctf.fs`, `filter.utils.muxer` and `filter.utils.trimmer` are all its components"

#: The values of `LoggingLevel`.
LEVELS = {value for name, value in vars(LoggingLevel).items() if name.isupper()}


def check_log_level(level: Any) -> None:
    check_int(level, -(2**63), 2**64 - 1)
    if level not in LEVELS:
        raise ValueError(f"'{level}' is not a valid logging level")


def check_bool(value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"'{type(value).__name__}' is not a 'bool' object")


class _ComponentClassConst(Uncopied):
    _kind = ""

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
    _kind = "source"


class _FilterComponentClassConst(_ComponentClassConst):
    _kind = "filter"


class _SinkComponentClassConst(_ComponentClassConst):
    _kind = "sink"


def not_offered(component_class: Any) -> NotImplementedError:
    """The error of using a component class that only has a name."""
    if isinstance(component_class, _ComponentClassConst):
        name = f"{component_class._kind}.{component_class._plugin}.{component_class.name}"
        return NotImplementedError(f"tracemill.bt2 does not offer the component class `{name}`: {OFFERED}")
    return NotImplementedError(f"tracemill.bt2 does not offer components of your own, as `{component_class.__name__}`: {OFFERED}")


class _UserComponentType(type):
    """The class of classes of components that a program defines. Components are not made; their classes can be queried."""

    _type: int

    def __new__(cls, class_name: str, bases: Any, namespace: Any, **_: Any) -> Any:
        return super().__new__(cls, class_name, bases, namespace)

    def __init__(cls, class_name: str, bases: Any, namespace: Any, **options: Any) -> None:
        super().__init__(class_name, bases, namespace)
        cls._component_name = check_str(options.get("name", class_name))
        cls._lines = inspect.cleandoc(namespace.get("__doc__") or "").strip().splitlines()

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise not_offered(cls)

    def _user_query(cls, priv_query_executor: Any, object_name: str, params: Any, method_obj: Any) -> Any:
        raise UnknownObject(f"the component class `{cls.name}` has no object `{object_name}`")

    @property
    def name(cls) -> str:
        return str(cls._component_name)

    @property
    def description(cls) -> Optional[str]:
        return cls._lines[0] if cls._lines else None

    @property
    def help(cls) -> Optional[str]:
        return "\n".join(cls._lines[2:]) if len(cls._lines) > 2 else None

    @property
    def addr(cls) -> int:
        return id(cls)


class _UserSourceComponent(metaclass=_UserComponentType):
    _type = ComponentClassType.SOURCE


class _UserFilterComponent(metaclass=_UserComponentType):
    _type = ComponentClassType.FILTER


class _UserSinkComponent(metaclass=_UserComponentType):
    _type = ComponentClassType.SINK


class _UserMessageIterator(metaclass=_UserComponentType):
    pass


_USER_COMPONENTS = (_UserSourceComponent, _UserFilterComponent, _UserSinkComponent)


def is_component_class(of: Any, *kinds: type) -> bool:
    """Is it the class of a component of one of these kinds?"""
    return isinstance(of, kinds) or (isinstance(of, _UserComponentType) and issubclass(of, kinds))


class _PluginComponentClassesConst(collections.abc.Mapping):  # type: ignore[type-arg]
    def __init__(self, known: Sequence[_ComponentClassConst]) -> None:
        self._known: Dict[str, _ComponentClassConst] = {of.name: of for of in known}

    def __getitem__(self, key: str) -> _ComponentClassConst:
        return self._known[check_str(key)]

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)


class _Plugin(Uncopied):
    def __init__(self, name: str, description: str, *known: _ComponentClassConst) -> None:
        self._name, self._description, self._known = name, description, known

    @property
    def name(self) -> str:
        return self._name

    @property
    def description(self) -> str:
        return self._description

    @property
    def author(self) -> Optional[str]:
        return None

    license = version = path = author

    @property
    def addr(self) -> int:
        return id(self)

    def _classes(self, kind: type) -> _PluginComponentClassesConst:
        return _PluginComponentClassesConst([of for of in self._known if isinstance(of, kind)])

    @property
    def source_component_classes(self) -> Mapping[str, Any]:
        return self._classes(_SourceComponentClassConst)

    @property
    def filter_component_classes(self) -> Mapping[str, Any]:
        return self._classes(_FilterComponentClassConst)

    @property
    def sink_component_classes(self) -> Mapping[str, Any]:
        return self._classes(_SinkComponentClassConst)


class _PluginSet(Uncopied, collections.abc.Sequence):  # type: ignore[type-arg]
    def __init__(self, plugins: Sequence[_Plugin]) -> None:
        self._plugins = plugins

    def __len__(self) -> int:
        return len(self._plugins)

    def __getitem__(self, index: Any) -> Any:
        check_unsigned(index)
        return self._plugins[index]


FS = _SourceComponentClassConst("ctf", "fs", "Read traces of any format that tracemill reads")
MUXER = _FilterComponentClassConst("utils", "muxer", "Sort messages by time: always done")
TRIMMER = _FilterComponentClassConst("utils", "trimmer", "Keep the messages of a time range")
_MISSING = "Not offered by tracemill"
_PLUGINS = (
    _Plugin(
        "ctf",
        "Traces of any format that tracemill reads",
        _SourceComponentClassConst("ctf", "lttng-live", _MISSING),
        FS,
        _SinkComponentClassConst("ctf", "fs", _MISSING),
    ),
    _Plugin("lttng-utils", _MISSING, _FilterComponentClassConst("lttng-utils", "debug-info", _MISSING)),
    _Plugin(
        "text",
        _MISSING,
        _SourceComponentClassConst("text", "dmesg", _MISSING),
        _SinkComponentClassConst("text", "details", _MISSING),
        _SinkComponentClassConst("text", "pretty", _MISSING),
    ),
    _Plugin(
        "utils",
        "Order and time ranges of messages",
        MUXER,
        TRIMMER,
        _SinkComponentClassConst("utils", "counter", _MISSING),
        _SinkComponentClassConst("utils", "dummy", _MISSING),
    ),
)


def find_plugins(
    find_in_std_env_var: bool = True,
    find_in_user_dir: bool = True,
    find_in_sys_dir: bool = True,
    find_in_static: bool = True,
    fail_on_load_error: bool = False,
) -> _PluginSet:
    """All plugins, wherever they are looked for: they are part of the module."""
    for flag in (find_in_std_env_var, find_in_user_dir, find_in_sys_dir, find_in_static, fail_on_load_error):
        check_bool(flag)
    return _PluginSet(_PLUGINS)


def find_plugin(
    name: str,
    find_in_std_env_var: bool = True,
    find_in_user_dir: bool = True,
    find_in_sys_dir: bool = True,
    find_in_static: bool = True,
    fail_on_load_error: bool = False,
) -> Optional[_Plugin]:
    check_str(name)
    check_bool(fail_on_load_error)
    return next((plugin for plugin in _PLUGINS if plugin.name == name), None)


class _BaseComponentSpec:
    def __init__(self, params: Any, obj: Any, logging_level: Optional[int]) -> None:
        if logging_level is not None:
            check_log_level(logging_level)
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
        kinds = (_SourceComponentClassConst, _FilterComponentClassConst, _UserSourceComponent, _UserFilterComponent)
        if not is_component_class(component_class, *kinds):
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
            raise ValueError(f"no such plugin: {plugin_name}: {OFFERED}")
        for classes in (plugin.source_component_classes, plugin.filter_component_classes):
            if component_class_name in classes:
                return cls(classes[component_class_name], params, obj, logging_level)
        raise KeyError(
            f"source or filter component class `{component_class_name}` not found in plugin `{plugin_name}`: {OFFERED}"
        )


class AutoSourceComponentSpec(_BaseComponentSpec):
    """Traces that are found by a path."""

    #: The object of specifications that were given none.
    _no_obj = object()

    def __init__(self, input: Any, params: Any = None, obj: Any = _no_obj, logging_level: Optional[int] = None) -> None:
        super().__init__(params, obj, logging_level)
        self._input = input

    @property
    def input(self) -> Any:
        return self._input


class ComponentDescriptor:
    """A component class, with the parameters and the object that it would be made with."""

    def __init__(self, component_class: Any, params: Any = None, obj: Any = None) -> None:
        if not is_component_class(component_class, _ComponentClassConst, *_USER_COMPONENTS):
            raise TypeError(f"'{type(component_class).__name__}' is not a component class")
        if obj is not None and isinstance(component_class, _ComponentClassConst):
            raise ValueError("cannot pass a Python object to a non-Python component")
        self._component_class, self._params, self._obj = component_class, create_value(params), obj

    @property
    def component_class(self) -> Any:
        return self._component_class

    @property
    def params(self) -> Optional[MapValue]:
        return self._params  # type: ignore[no-any-return]

    @property
    def obj(self) -> Any:
        return self._obj
