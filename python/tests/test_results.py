"""Results: rows, frames, Arrow, and what the traces say of themselves."""

import datetime
import decimal
import json
import subprocess

import pytest
from conftest import TRACES

import tracemill

BY_NAME = "select name, count(*) as n, min(ns) as first from events group by name order by n desc, name"
NAMES = ["mill:grind", "mill:stage", "mill:dials", "mill:curve", "mill:label", "mill:bell"]


def test_rows(mill):
    result = mill.sql(BY_NAME)
    assert result.columns == ["name", "n", "first"]
    assert [row.name for row in result] == NAMES
    assert result.fetchall()[0].n == 1106 == result.fetchall()[0][1]
    odd = mill.sql('select 1 as "a b", 2 as "class", 3 as x')
    assert odd.columns == ["a b", "class", "x"]
    [row] = odd
    assert (row._0, row._1, row.x) == (1, 2, 3)
    twice = mill.sql("select a.ns, b.ns from events a join events b on a.event = b.event limit 1")
    assert twice.columns == ["ns", "ns_2"]


def test_rows_come_before_the_end(mill):
    """The query itself would not end within the day."""
    many = "(select 1 as x from events a, events b) c"
    rows = iter(mill.sql(f"select d.ns from {many}, events d where d.ns > c.x"))
    assert len([next(rows) for _ in range(3)]) == 3


def test_values_of_all_types(mill):
    query = """
        select null as n, true as b, -5 as i, 18446744073709551615 as u, 1.5 as r, cast('NaN' as double) as nan,
            'a''b' as t, arrow_cast('hi', 'Binary') as x, cast('2026-11-21' as date) as d,
            arrow_cast(12345, 'Duration(Nanosecond)') as p, [1, null, 3] as l, {'a': 1, 'b': 'x'} as s,
            cast(1.25 as decimal(10, 2)) as m, cast(12 as decimal(38, 0)) as w
    """
    [row] = mill.sql(query)
    assert (row.n, row.b, row.i, row.u, row.r, row.t) == (None, True, -5, 2**64 - 1, 1.5, "a'b")
    assert row.nan != row.nan and row.x == b"hi" and row.l == [1, None, 3] and row.s == {"a": 1, "b": "x"}
    assert (row.d, row.p) == (datetime.date(2026, 11, 21), datetime.timedelta(microseconds=12))
    assert row.m == decimal.Decimal("1.25") and row.w == 12 and isinstance(row.w, int)


def test_parameters(mill):
    query = "select $x as x"
    for value in (None, True, -7, 2**64 - 1, 0.25, "it's", "7", ""):
        [(back,)] = mill.sql(query, x=value)
        assert back == value and type(back) is type(value)
    bell = next(mill.events("mill:bell"))
    [(count,)] = mill.sql("select count(*) from events where time < $t", t=bell.time)
    assert count == sum(1 for event in mill.events() if event.ns < bell.ns)
    with pytest.raises(tracemill.Error, match=r"\$x"):
        mill.sql(query)
    with pytest.raises(tracemill.Error, match="64 bits"):
        mill.sql(query, x=2**64)
    with pytest.raises(tracemill.Error, match="`list`"):
        mill.sql(query, x=[1])


def test_pyarrow(mill):
    pyarrow = pytest.importorskip("pyarrow")
    result = mill.sql(BY_NAME)
    table = result.to_arrow()
    assert table.column("name").to_pylist() == NAMES
    assert pyarrow.table(result).to_pylist() == table.to_pylist()
    assert pyarrow.schema(result) == table.schema
    reader = pyarrow.RecordBatchReader.from_stream(result)
    assert sum(batch.num_rows for batch in reader) == 6
    loads = mill.sql('select grams from "mill:grind" limit 1').to_arrow().schema.field("grams")
    assert loads.metadata[b"tracemill.path"] == b"payload.grams"


def test_nothing_is_copied(mill):
    """The buffers of pyarrow, and those behind numpy's arrays, are those that were made in Rust."""
    pyarrow = pytest.importorskip("pyarrow")
    result = mill.sql('select ns, grams, stream_name from "mill:grind"')
    stream = result._answer.stream(watch=True)
    reader = pyarrow.RecordBatchReader.from_stream(stream)
    batches = list(reader)
    assert batches
    for batch, addresses in zip(batches, stream.addresses):
        assert [column.buffers()[1].address for column in batch.columns] == addresses
        for at in (0, 1):
            view = batch.column(at).to_numpy(zero_copy_only=True)
            assert view.__array_interface__["data"][0] == addresses[at]
    assert len(stream.addresses) == len(batches)


def test_pandas(mill):
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    frame = mill.sql("select time, ns, name from events order by ns limit 3").to_pandas()
    assert list(frame.columns) == ["time", "ns", "name"]
    assert [time.value for time in frame.time] == list(frame.ns)


def test_polars(mill):
    polars = pytest.importorskip("polars")
    result = mill.sql(BY_NAME)
    frame = result.to_polars()
    assert frame["name"].to_list() == NAMES and frame.equals(polars.DataFrame(result))
    assert polars.from_arrow(result).len() == 6


def test_duckdb(mill):
    duckdb = pytest.importorskip("duckdb")
    result = mill.sql(BY_NAME)  # noqa: F841 (DuckDB finds it by its name)
    assert duckdb.sql("select sum(n) from result").fetchall() == [(2000,)]
    assert duckdb.sql("select name from result where n < 10").fetchall() == [("mill:bell",)]


def test_tables(mill):
    assert mill.tables()[:2] == ["events", "calls"] and "mill:grind" in mill.tables()
    heavy = mill.table("mill:grind", columns=["ns", "grams"], where="grams > 249 -- heavy", limit=2)
    assert heavy.columns == ["ns", "grams"]
    assert heavy.fetchall() == mill.sql('select ns, grams from "mill:grind" where grams > 249 limit 2').fetchall()
    assert len(mill.table("event.mill:bell").fetchall()) == len(mill.table("mill:bell").fetchall()) == 8
    assert len(mill.table("streams").fetchall()) == 4
    with pytest.raises(tracemill.Error, match='no table "mill:bel"'):
        mill.table("mill:bel")
    with pytest.raises(tracemill.Error, match="no column `gram`"):
        mill.table("mill:grind", columns=["gram"])


def test_functions_of_samples_have_names(tmp_path):
    """As the program names them: by symbols next to the recording, or those that options name."""
    samples = TRACES.parent / "samples"
    query = "select function, module, count(*) as n from samples where event like 'cpu-clock%' group by 1, 2 order by 3 desc, 1"
    with tracemill.open(samples / "bakery.data") as traces:
        found = {(row.function, row.module): row.n for row in traces.sql(query)}
        stacks = traces.sql("select distinct function from stacks where module = 'bakery'")
        assert {"_start", "begin", "day", "knead"} <= {row.function for row in stacks}
    assert found[("fold", "bakery")] > found[("knead", "bakery")] > 0
    assert ("finish_task_switch.isra.0", "[kernel.kallsyms]") in found
    # Without the program next to it.
    copy = tmp_path / "copy.data"
    copy.write_bytes((samples / "bakery.data").read_bytes())
    with tracemill.open(copy, debug_info_dir=tmp_path) as traces:
        assert not any(row.function == "fold" for row in traces.sql(query))
    root = tmp_path / "root"
    (root / "usr/local/bin").mkdir(parents=True)
    (root / "usr/local/bin/bakery").write_bytes((samples / "bakery").read_bytes())
    options = {"kallsyms": samples / "kallsyms", "debug_info_target_prefix": root, "no_inline": True}
    with tracemill.open(copy, **options) as traces:
        assert {(row.function, row.module): row.n for row in traces.sql(query)} == found


def test_statements(mill, tmp_path):
    mill.sql("create view bells as select * from \"mill:bell\"")
    assert len(mill.sql("select * from bells").fetchall()) == 8
    nothing = mill.sql("create view b2 as select 1 as x")
    assert nothing.columns == [] and nothing.fetchall() == []
    out = tmp_path / "bells.csv"
    written = mill.sql(f"copy (select ns from bells) to '{out}'")
    assert len(out.read_text().splitlines()) == 9
    assert written.fetchall() == [(8,)] == written.fetchall()
    with tracemill.open() as files:
        assert len(files.sql(f"select * from '{out}'").fetchall()) == 8


def test_explain(mill):
    plan = mill.sql("select count(*) from events where cpu = 0").explain()
    assert "DataSourceExec" in plan and "fields=[]" in plan
    assert "events_scanned" in mill.sql("select count(*) from events where cpu = 0").explain(analyze=True)
    assert "DataSourceExec" in mill.sql("explain select ns from events").explain()


def test_info(mill):
    [trace] = mill.info()["traces"]
    assert trace["format"] == "ctf2" or trace["format"].startswith("ctf")
    assert sum(stream["packets"] for stream in trace["streams"]) == 9 and "packets" not in trace
    [counted] = mill.info(count=True, packets=True)["traces"]
    assert sum(stream["events"] for stream in counted["streams"]) == 2000 and len(counted["packets"]) == 9


def test_closed():
    traces = tracemill.open(TRACES / "mill")
    result = traces.sql(BY_NAME)
    traces.close()
    traces.close()
    assert len(result.fetchall()) == 6
    for ask in (lambda: traces.sql("select 1"), traces.tables, traces.info, traces.events):
        with pytest.raises(tracemill.Error, match="closed"):
            ask()


def test_types_are_right(tmp_path):
    """The package says the types that it has."""
    pytest.importorskip("mypy")
    import sys

    # By its name, not by its files: those lie among packages of others, which are not to be looked at.
    run = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "-p", "tracemill"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_everything_is_described():
    for name in tracemill.__all__:
        thing = getattr(tracemill, name)
        assert thing.__doc__, name
        for own in vars(thing) if isinstance(thing, type) else ():
            if not own.startswith("_") and (callable(getattr(thing, own)) or isinstance(vars(thing)[own], property)):
                assert getattr(thing, own).__doc__, f"{name}.{own}"
    json.dumps(tracemill.__all__)


def test_states_of_the_user_are_tables(tmp_path):
    states = TRACES.parent / "states" / "orders.states"
    query = "select state, count(*) as n from custom_states group by state order by state"
    with tracemill.open(TRACES / "orders", states=states) as traces:
        assert traces.sql(query).fetchall() == [("packing", 128), ("packing a bargain", 32), ("pricing", 160)]
        assert traces.sql("select count(*) from custom_counters").fetchall()[0][0] > 400
        assert "custom_states" in traces.tables()
    with tracemill.open(TRACES / "orders") as traces, pytest.raises(tracemill.Error, match="custom_states"):
        traces.sql(query)
    wrong = tmp_path / "wrong.states"
    wrong.write_text("stats order\n")
    with pytest.raises(tracemill.Error, match="wrong.states"):
        tracemill.open(TRACES / "orders", states=wrong)
