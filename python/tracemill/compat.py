"""Runs a program with `bt2` and `babeltrace` of tracemill: ``python -m tracemill.compat SCRIPT [ARGUMENTS]``.

``python -m tracemill.compat -m MODULE [ARGUMENTS]`` runs a module as ``python -m MODULE`` does.
"""

from __future__ import annotations

import os
import runpy
import sys
import types
from typing import Any, List, Optional


def _renamed(module: types.ModuleType, name: str) -> types.ModuleType:
    """A module under the name by which programs know it."""
    made = types.ModuleType(name, module.__doc__)
    own = {key: value for key, value in vars(module).items() if key not in ("__name__", "__spec__", "__loader__")}
    vars(made).update(own)
    made.__package__ = name.partition(".")[0]
    return made


#: The modules inside of `bt2` whose classes are offered; each has all names that `bt2` has.
_INSIDE = (
    "clock_class clock_snapshot component component_descriptor error event event_class field field_class field_path "
    "integer_range_set interrupter logging message mip packet plugin query_executor stream stream_class trace trace_class "
    "trace_collection_message_iterator value"
).split()


def take_over() -> None:
    """Makes `bt2` and `babeltrace` those of tracemill, for this process and from now on."""
    from . import babeltrace as babeltrace
    from . import bt2 as bt2
    from .babeltrace import babeltrace as inner

    sys.modules["bt2"] = made = _renamed(bt2, "bt2")
    for name in _INSIDE:
        sys.modules[f"bt2.{name}"] = _renamed(bt2, f"bt2.{name}")
    for name in _INSIDE:
        setattr(made, name, sys.modules[f"bt2.{name}"])
    outer = _renamed(babeltrace, "babeltrace")
    outer.babeltrace = sys.modules["babeltrace.babeltrace"] = _renamed(inner, "babeltrace.babeltrace")  # type: ignore[attr-defined]
    sys.modules["babeltrace"] = outer


def main(arguments: Optional[List[str]] = None) -> Any:
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        print(__doc__.strip() if __doc__ else "")
        return 0 if arguments and arguments[0] != "-m" else 2
    take_over()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.realpath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
