"""The examples of docs/python.md and of the package give what stands below them."""

import doctest

import pytest
from conftest import ROOT

import tracemill


def run(text, name, monkeypatch):
    for package in ("pandas", "polars", "pyarrow", "duckdb"):
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
