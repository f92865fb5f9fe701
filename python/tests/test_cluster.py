"""Queries on a cluster: with the feature `distributed`, and TRACEMILL_PROGRAM, a program that has clusters."""

import os
import socket
import subprocess
import time

import pytest
from conftest import TRACES

import tracemill

PROGRAM = os.environ.get("TRACEMILL_PROGRAM")
BY_NAME = "select name, count(*) as n from events where ns >= $from group by name order by n desc, name"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a scheduler with an executor."""
    if not PROGRAM:
        pytest.skip("TRACEMILL_PROGRAM names no program that has clusters")
    port, processes = free_port(), []

    def start(*words):
        quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
        processes.append(subprocess.Popen([PROGRAM, "cluster", *words], **quiet))

    start("scheduler", "--bind", f"127.0.0.1:{port}")
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        assert processes[0].poll() is None, "the scheduler ends"
        time.sleep(0.05)
    start("executor", "--scheduler", f"127.0.0.1:{port}", "--bind", f"127.0.0.1:{free_port()}", "--allow", str(TRACES))
    yield f"df://127.0.0.1:{port}"
    for process in reversed(processes):
        process.kill()
        process.wait()


def test_a_module_without_clusters_says_so(mill):
    if PROGRAM:
        pytest.skip("this module has clusters")
    with pytest.raises(tracemill.Error, match="distributed"):
        mill.sql("select 1", cluster="df://127.0.0.1:50050")


def test_rows_are_those_of_one_process(cluster):
    options = {"filter": "payload.grinder == 1 or name == 'mill:stage'".replace("'", '"'), "begin": "+1ms"}
    with tracemill.open(TRACES / "mill", TRACES / "orders", **options) as traces:
        asked = {"from": traces.sql("select min(ns) as ns from events").fetchall()[0].ns + 5_000_000}
        alone, there = traces.sql(BY_NAME, **asked), traces.sql(BY_NAME, cluster=cluster, **asked)
        assert there.columns == alone.columns
        assert len(alone.fetchall()) > 1
        assert there.fetchall() == alone.fetchall()
        # Each method asks again, and rows come in batches.
        rows = "select trace, ns, payload from events order by ns, payload"
        assert list(traces.sql(rows, cluster=cluster)) == list(traces.sql(rows))


def test_views_and_errors(mill, cluster):
    mill.sql('create view ground as select grams from "mill:grind"', cluster=cluster)
    counted = mill.sql("select count(*) as n from ground", cluster=cluster).fetchall()
    assert counted == mill.sql('select count(*) as n from "mill:grind"').fetchall()
    with pytest.raises(tracemill.Error, match="nowhere"):
        mill.sql("select nowhere from events", cluster=cluster)
    with pytest.raises(tracemill.Error, match="no scheduler"):
        mill.sql("select 1", cluster=f"df://127.0.0.1:{free_port()}")
    with pytest.raises(tracemill.Error, match="inside of Python"):
        mill.sql("select 1", cluster="standalone")


def test_what_cannot_travel(cluster):
    with tracemill.open(TRACES / "mill", clock_offset={"mill": 1}) as traces:
        with pytest.raises(tracemill.Error, match="one trace"):
            traces.sql("select 1", cluster=cluster)
