"""The rows of the corpus' queries, compared by the tool that compares those of the program."""

import base64
import csv
import importlib.util
import io
import json
import os
import re

import pytest
from conftest import CORPUS, TOOLS

import tracemill

FOLDER = CORPUS / "sql"
TOOL = TOOLS / "sql.py"
CASES = sorted(FOLDER.glob("*.sql")) if TOOL.exists() else []

# The names of cases whose rows are known to differ; `.ci/run` says which, and why.
DIFFERENT = os.environ.get("EXPECTED_TO_DIFFER", "").split()

if not CASES:
    pytest.skip(f"there are no cases at {FOLDER}, or no {TOOL}", allow_module_level=True)

spec = importlib.util.spec_from_file_location("sql_tool", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def plain(value):
    """A value as JSON has it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (tracemill.Time,)):
        return str(value)
    if isinstance(value, dict):
        return {name: plain(value) for name, value in value.items()}
    if isinstance(value, list):
        return [plain(value) for value in value]
    return value


def cell(value):
    """A value as a cell of the program's CSV."""
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def parameters(case):
    """The values that `-p` gives, with the types that the program gives them."""
    assert case.args[::2] == ["-p"] * (len(case.args) // 2)
    pairs = (pair.split("=", 1) for pair in case.args[1::2])
    return {name: int(text) if text.lstrip("-").isdigit() else text for name, text in pairs}


def asked(case, monkeypatch):
    monkeypatch.chdir(case.path.parent)
    return tracemill.open(*case.traces).sql(case.sql, **parameters(case))


@pytest.mark.filterwarnings("default::tracemill.TraceWarning")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path, monkeypatch, request):
    if path.stem in DIFFERENT:
        request.applymarker(pytest.mark.xfail(strict=True))
    case = tool.Case(path)
    golden, errors, explain = (case.beside(end) for end in (".csv", ".error", ".explain"))
    assert golden is not None or errors is not None or explain is not None
    if errors is not None:
        with pytest.raises(tracemill.Error) as caught:
            asked(case, monkeypatch)
        for pattern in filter(None, errors.split("\n")):
            assert re.search(pattern, str(caught.value), re.I), pattern
        return
    result = asked(case, monkeypatch)
    if golden is not None:
        want = list(csv.reader(io.StringIO(golden, newline="")))
        assert result.columns == want[0]
        have = [list(map(cell, row)) for row in result]
        assert tool.rows_differ(want[1:], have, case.order == "rows") is None
        # The same by Arrow.
        table = result.to_arrow()
        assert (table.column_names, table.num_rows) == (want[0], len(want) - 1)
    for pattern in filter(None, (explain or "").split("\n")):
        assert bool(re.search(pattern.lstrip("!"), result.explain())) != pattern.startswith("!"), pattern
