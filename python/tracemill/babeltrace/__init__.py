"""The reading half of the Python module of babeltrace 1, over tracemill: see `docs/python.md`.

>>> from tracemill import babeltrace
>>> traces = babeltrace.TraceCollection()
>>> _ = traces.add_trace("demo/traces/mill", "ctf")
>>> sum(event.name == "mill:grind" for event in traces.events)
1106
"""

from .babeltrace import *  # noqa: F403
from .babeltrace import __getattr__, __version__  # noqa: F401
