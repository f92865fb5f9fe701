"""Events: against the JSON lines of the corpus, and their values."""

import base64
import copy
import gc
import json
import math
import pickle
import threading

import pytest
from conftest import CORPUS, TRACES

import tracemill

LINES = sorted(path for path in CORPUS.glob("c*/*/expected.jsonl") if path.parent.name != "sql")


def shown(value):
    """A value of a field as its JSON line has it."""
    if isinstance(value, tracemill.Enumeration):
        return {"value": int(value), "labels": list(value.labels)}
    if isinstance(value, tracemill.BitMap):
        return {"value": int(value), "flags": list(value.flags)}
    if isinstance(value, tracemill.Blob):
        return {"media_type": value.media_type, "base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: shown(value) for name, value in value.items()}
    return [shown(value) for value in value] if isinstance(value, list) else value


def holds(have, want):
    """Is all that is wanted there? Golden lines do not have every key, and an absent field may be null."""
    if isinstance(want, dict):
        return isinstance(have, dict) and all(holds(have.get(name), value) for name, value in want.items())
    if isinstance(want, list):
        return isinstance(have, list) and len(want) == len(have) and all(map(holds, have, want))
    return want == have and isinstance(want, bool) == isinstance(have, bool)


@pytest.mark.filterwarnings("default::tracemill.TraceWarning")
@pytest.mark.parametrize("path", LINES, ids=lambda path: f"{path.parts[-3]}/{path.parts[-2]}")
def test_lines(path):
    opened = path.parent / "trace" if (path.parent / "trace").exists() else path.parent
    secret = path.parent / "passphrase.txt"
    try:
        traces = tracemill.open(opened, passphrase_file=secret if secret.exists() else None)
    except tracemill.Error:
        pytest.skip("it is opened in another way")
    if len(traces.info()["traces"]) > 1:
        pytest.skip("several traces")
    want = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    have = list(traces.events())
    assert len(want) == len(have)
    for event, line in zip(have, want):
        assert holds(event.to_dict(), line)
        assert holds({"ns": event.ns, "name": event.name, "id": event.id, "cpu": event.cpu}, {
            key: line[key] or "" if key == "name" else line[key] for key in ("ns", "name", "id", "cpu") if key in line
        })
        for scope in ("header", "packet_context", "stream_context", "event_context", "payload"):
            assert holds(shown(getattr(event, scope)), line.get(scope)) or line.get(scope) is None, scope
        for name, value in (line.get("payload") or {}).items():
            if name.isidentifier():
                assert holds(shown(event.get(f"payload.{name}")), value), name


def test_order_and_choice(mill):
    events = list(mill.events())
    assert len(events) == 2000
    assert all(a.ns <= b.ns for a, b in zip(events, events[1:]))
    bells = list(mill.events("mill:bell"))
    assert [event.name for event in bells] == ["mill:bell"] * 8
    names = {event.name for event in mill.events("mill:b*", "mill:dials")}
    assert names == {"mill:bell", "mill:dials"}
    heavy = [event["grams"] for event in mill.events("mill:grind", where="grams > 249")]
    assert heavy and min(heavy) > 249
    assert [event.ns for event in mill.events(limit=3)] == [event.ns for event in events[:3]]
    assert list(mill.events(limit=0)) == list(mill.events("no such class")) == []


def test_options_narrow_events_and_tables():
    with tracemill.open(TRACES / "mill", begin="+20ms", filter="cpu == 0", stream="work_*", jobs=1, memory="64M") as t:
        events = list(t.events(where="grinder == 0"))
        assert events and {event.cpu for event in events} == {0}
        assert {event.stream_name for event in events} == {"work_0"}
        [(count,)] = t.sql('select count(*) from "mill:grind" where grinder = 0')
        assert count == len(events)


def test_values(mill):
    event = next(mill.events("mill:grind"))
    gear = event["gear"]
    assert (gear, gear.label, gear.labels) == (3, "COARSE", ("COARSE",))
    assert gear + 1 == 4 and isinstance(gear, int)
    both = next(event["gear"] for event in mill.events("mill:grind", where="gear == 5"))
    assert both.labels == ("COARSE", "FINE")
    assert pickle.loads(pickle.dumps(both)).labels == copy.copy(both).labels == both.labels
    assert event["payload.grams"] == event["grams"] == event.payload["grams"] == 38.0625
    assert event["vpid"] == event.stream_context["vpid"] == 11571
    assert event["cpu"] == event.cpu == 0
    assert event["name"] == event.name
    assert event["payload"] == event.payload
    assert "grams" in event and "nothing" not in event
    assert event.get("nothing") is None and event.get("nothing", 7) == 7
    with pytest.raises(KeyError, match="nothing"):
        event["nothing"]
    with pytest.raises(KeyError):
        event["this is [no path"]
    assert event.event_context is None
    assert event.trace.endswith("mill")
    assert repr(event).startswith("<tracemill.Event 'mill:grind' ns=")


def test_times(mill):
    event = next(mill.events())
    assert event.ns == 1795249870212652163 == event.time.ns
    assert str(event.time) == "2026-11-21T08:31:10.212652163Z"
    assert event.time.microsecond == 212652 and event.time.utcoffset().total_seconds() == 0
    later = tracemill.Time.of_ns(event.ns + 1)
    assert later > event.time and later != event.time and not later <= event.time
    assert later - event.time == event.time - event.time
    assert pickle.loads(pickle.dumps(later)).ns == later.ns
    import datetime

    second = event.time + datetime.timedelta(seconds=1)
    assert second.ns == event.ns // 1000 * 1000 + 1_000_000_000
    [(time,)] = mill.sql("select time from events limit 1")
    assert time == event.time and time.ns == event.ns


def test_events_outlive_everything():
    traces = tracemill.open(TRACES / "orders")
    iterator = traces.events()
    first = next(iterator)
    traces.close()
    del traces
    rest = list(iterator)
    del iterator
    gc.collect()
    assert first["customer"] == first.payload["customer"]
    assert all(event.to_dict()["ns"] == event.ns for event in rest)


def test_threads_share_traces(mill):
    want = [event.to_dict() for event in mill.events()]
    shared = list(mill.events())
    results, failed = [], []

    def read():
        try:
            results.append([event.to_dict() for event in mill.events()])
            results.append([event.to_dict() for event in shared])
            assert mill.sql("select count(*) as n from events").fetchall()[0].n == 2000
            assert [event.get("grams") for event in shared] == [line["payload"].get("grams") for line in want]
        except BaseException as error:  # noqa: BLE001 (told below)
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed and all(result == want for result in results)
