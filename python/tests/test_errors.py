"""Errors, damage and interrupts: never the end of the interpreter."""

import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest
from conftest import CORPUS, TRACES

import tracemill

ENDLESS = "select count(*) as n from events a, events b, events c where a.ns + b.ns + c.ns = 1"


def test_a_query_that_is_wrong(mill):
    with pytest.raises(tracemill.Error) as caught:
        mill.sql('select 1,\n  gram from "mill:grind"')
    error = caught.value
    assert (error.line, error.column, error.file, error.offset) == (2, 3, None, None)
    assert error.help == 'did you mean `grams`? Its columns are in `describe "mill:grind"`'
    assert str(error).startswith('there is no column `gram` in "mill:grind" (line 2, column 3)\n  |   gram from')
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.line, back.help) == (str(error), 2, error.help)


def test_a_query_that_fails_on_the_way(mill):
    result = mill.sql('select grinder / 0 as x from "mill:grind"')
    ways = [result.fetchall, lambda: next(iter(result))]
    for package, way in (("pyarrow", result.to_arrow), ("polars", result.to_polars)):
        try:
            __import__(package)
            ways.append(way)
        except ImportError:
            pass
    for way in ways:
        with pytest.raises(tracemill.Error, match="division by zero"):
            way()


def test_wrong_options():
    mill = TRACES / "mill"
    for options, words in [
        ({"begin": "soon"}, "soon"),
        ({"filter": "grams >"}, "filter"),
        ({"filter": "grms > 5"}, "grms"),
        ({"stream": "no such stream"}, "no such stream"),
        ({"memory": "much"}, "memory"),
        ({"jobs": 0}, "jobs"),
        ({"clock_offset": "x"}, "clock_offset"),
        ({"input_format": "none"}, "none"),
        ({"spill": "all"}, "spill"),
        ({"no_such_option": 1}, "no_such_option"),
    ]:
        with pytest.raises(tracemill.Error, match=words):
            tracemill.open(mill, **options)
    with pytest.raises(tracemill.Error, match="no-such-folder") as caught:
        tracemill.open("no-such-folder")
    assert caught.value.file == "no-such-folder"
    with pytest.raises(TypeError):
        tracemill.open(5)


def test_clock_offsets():
    first = next(tracemill.open(TRACES / "mill").events()).ns
    for offset in ({"clock_offset": 1.5}, {"clock_offset": {"mill": "1.5"}}, {"clock_offset": [1, "mill=.5"]},
                   {"clock_offset_ns": 1_500_000_000}):
        assert next(tracemill.open(TRACES / "mill", **offset).events()).ns == first + 1_500_000_000


def test_a_wrong_condition_says_where(mill):
    with pytest.raises(tracemill.Error, match="where: line 1, column 1: .*`grms`") as caught:
        mill.events("mill:grind", where="grms > 5")
    assert (caught.value.line, caught.value.column, caught.value.file) == (1, 1, None)


def damaged(folder):
    """A copy of a trace whose last packet of a stream is cut off."""
    shutil.copytree(TRACES / "mill", folder / "mill")
    stream = folder / "mill" / "work_1"
    stream.write_bytes(stream.read_bytes()[:40_000])
    for index in (folder / "mill").rglob("*.idx"):
        index.unlink()
    return folder / "mill"


def test_damage(tmp_path):
    path = damaged(tmp_path)
    with pytest.warns(tracemill.TraceWarning, match="work_1"):
        traces = tracemill.open(path)
        events = list(traces.events())
        [(count,)] = traces.sql("select count(*) from events")
    assert 1000 < len(events) < 2000 and count == len(events)
    assert len(traces.faults) >= 1
    fault = traces.faults[0]
    assert isinstance(fault, tracemill.Error) and fault.file.endswith("work_1") and fault.offset > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(traces.events())) == count, "a fault is told once"
    with pytest.raises(tracemill.Error, match="work_1"):
        strict = tracemill.open(path, strict=True)
        list(strict.events())


def test_one_of_two_traces(tmp_path):
    with pytest.warns(tracemill.TraceWarning, match="nothing-here"):
        traces = tracemill.open(TRACES / "mill", tmp_path / "nothing-here")
    assert len(traces.faults) == 1 and len(list(traces.events())) == 2000


def test_sound_traces_have_no_faults(mill):
    list(mill.events())
    mill.sql("select count(*) from events").fetchall()
    assert mill.faults == []


@pytest.mark.skipif(not CORPUS.exists(), reason="there is no corpus")
@pytest.mark.filterwarnings("default::tracemill.TraceWarning")
def test_damaged_traces_of_the_corpus():
    seen = 0
    for path in sorted(CORPUS.glob("*-bad/*")):
        try:
            traces = tracemill.open(path)
            events = [event.payload for event in traces.events()]
            traces.sql("select count(*) from events").fetchall()
            seen += len(events)
        except tracemill.Error as error:
            assert str(error)
    assert seen > 100


def test_random_queries_and_conditions(mill):
    dice = random.Random(7)
    words = ['select', '*', 'from', 'events', '"mill:grind"', 'where', '(', ')', 'grams', '=', "'x", '1', ',', ';', '$a',
             'group by', 'é', '\\', '"', 'and', '==', 'not', '[', 'payload.', 'ns', '\0', '-1', 'limit', 'unnest', 'null']
    for _ in range(400):
        text = " ".join(dice.choices(words, k=dice.randrange(1, 9)))
        for ask in (lambda: mill.sql(text, a=1).fetchall(), lambda: list(mill.events(where=text, limit=5))):
            try:
                ask()
            except (tracemill.Error, ValueError):
                pass
    event = next(mill.events())
    for _ in range(400):
        event.get("".join(dice.choices("payload.grams[]0123 $ctx`\"\\é", k=dice.randrange(0, 12))))


def interrupted(body):
    """Runs a program that gets Ctrl-C after a while; its output and how long it took to end."""
    program = f"import tracemill, sys\nt = tracemill.open({str(TRACES / 'mill')!r})\nr = t.sql({ENDLESS!r})\n" + body
    started = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout.readline() == "ready\n", started.communicate()
    time.sleep(0.7)
    begin = time.monotonic()
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    return out, err, time.monotonic() - begin


WAYS = {
    "fetchall": "r.fetchall()",
    "arrow": "r.to_arrow()",
    "polars": "r.to_polars()",
    # An error of pyarrow, after which the interrupt comes.
    "pyarrow.table": """try:
        pyarrow.table(r)
    except pyarrow.ArrowInvalid as error:
        assert "interrupted" in str(error)
        (lambda: None)()""",
}


@pytest.mark.parametrize("way", WAYS)
def test_interrupt(way):
    package = {"arrow": "pyarrow", "pyarrow.table": "pyarrow", "polars": "polars"}.get(way)
    if package:
        pytest.importorskip(package)
    body = f"""
import pyarrow, polars

def ask(r):
    {WAYS[way]}

# Modules that the call needs are imported by then: imports may swallow an interrupt.
ask(t.sql("select 1 as x"))
print("ready", flush=True)
try:
    ask(r)
except KeyboardInterrupt:
    print("interrupted", t.sql("select 1 as x").fetchall()[0].x)
""".replace("import pyarrow, polars", f"import {package}" if package else "")
    out, err, seconds = interrupted(body)
    assert out == "interrupted 1\n", (out, err)
    assert seconds < 10


def test_other_threads_run_while_a_query_does(mill):
    """The interpreter's lock is not held."""
    counted = 0
    rows = iter(mill.sql(ENDLESS))
    thread = threading.Thread(target=lambda: next(rows, None), daemon=True)
    thread.start()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        counted += 1
        time.sleep(0.001)
    assert thread.is_alive() and counted > 20
