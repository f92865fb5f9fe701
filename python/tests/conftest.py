"""Where the traces are."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = ROOT / "demo" / "traces"


def folder(variable, beside):
    """A folder that a variable names, or one beside the repository."""
    return pathlib.Path(os.environ.get(variable) or ROOT / beside).resolve()


CORPUS = folder("CORPUS", "../shared/corpus")
TOOLS = folder("TOOLS", "../shared/tools")


@pytest.fixture
def mill():
    import tracemill

    with tracemill.open(TRACES / "mill") as traces:
        yield traces


@pytest.fixture
def orders():
    import tracemill

    with tracemill.open(TRACES / "orders") as traces:
        yield traces
