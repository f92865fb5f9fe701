"""The examples of docs/python.md and of the package give what stands below them."""

import doctest

import pytest
from conftest import ROOT

import tracemill
import tracemill.babeltrace
import tracemill.bt2


def run(text, name, monkeypatch, packages=("pandas", "polars", "pyarrow", "duckdb")):
    for package in packages:
        pytest.importorskip(package)
    monkeypatch.chdir(ROOT)
    # A fence ends an answer, as an empty line does.
    text = text.replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    told = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=told.append)
    assert not told, "".join(told)
    return len(test.examples)


def test_the_page(monkeypatch):
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    assert run(page, "docs/python.md", monkeypatch) >= 18


def test_the_package(monkeypatch):
    assert run(tracemill.__doc__, "tracemill", monkeypatch) == 2


def test_the_page_about_scripts(monkeypatch):
    page = (ROOT / "docs/book/from/babeltrace-scripts.md").read_text(encoding="utf-8")
    assert run(page, "docs/book/from/babeltrace-scripts.md", monkeypatch, ()) >= 12


@pytest.mark.parametrize("module", [tracemill.bt2, tracemill.babeltrace], ids=lambda module: module.__name__)
def test_the_modules_of_babeltrace(module, monkeypatch):
    assert run(module.__doc__, module.__name__, monkeypatch, ()) >= 3
