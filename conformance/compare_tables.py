#!/usr/bin/env python3
"""Compares `convert --to parquet` and `--to arrow` with the JSON lines of the same traces.

    conformance/compare_tables.py PROGRAM TRACE...

Needs the Python package `pyarrow`. Every line must be in the table of all events with its time, cycles, name, ids and CPU,
and in the table of its class with its contexts and payload; the context of its packet in the table of packets.
"""

import base64
import json
import math
import os
import subprocess
import sys
import tempfile

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    sys.exit(f"the Python package `pyarrow` is needed (pip install pyarrow): {error}")

FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
SCOPES = ("header", "stream_context", "event_context", "payload")


class Bad(Exception):
    pass


def read(path):
    if path.endswith(".parquet"):
        return pq.read_table(path)
    with pa.memory_map(path) as source:
        return pa.ipc.open_file(source).read_all()


def is_struct_of(kind, names):
    return pa.types.is_struct(kind) and [kind.field(at).name for at in range(kind.num_fields)] == names


def same(line, value, field):
    """Is the value of a line what a column of this field holds?"""
    kind = field.type
    if line is None:
        return value is None
    if value is None:
        return False
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        # Integers of more than 64 bits are decimal texts.
        return value == (str(line) if isinstance(line, int) and not isinstance(line, bool) else line)
    if pa.types.is_binary(kind):
        return value == base64.b64decode(line["base64"])
    if pa.types.is_floating(kind):
        line = FLOATS.get(line, line)
        return value == line or math.isnan(value) and math.isnan(line)
    if pa.types.is_boolean(kind):
        # A structure without members is there or not.
        return value is True if line == {} or line == [] else value is line
    if pa.types.is_list(kind):
        return len(line) == len(value) and all(same(a, b, kind.value_field) for a, b in zip(line, value))
    if pa.types.is_struct(kind):
        if isinstance(line, dict) and set(line) == {"value", "labels"}:
            if is_struct_of(kind, ["value", "label"]):
                return value["value"] == line["value"] and [value["label"]] == (line["labels"] or [None])
            return value == line
        if isinstance(line, dict) and set(line) == {"value", "flags"}:
            return value["value"] == line["value"] and value["flags"] == list(dict.fromkeys(line["flags"]))
        fields = [kind.field(at) for at in range(kind.num_fields)]
        if isinstance(line, list):
            return len(line) == len(fields) and all(same(a, value[f.name], f) for a, f in zip(line, fields))
        # A variant has a column for each option; those that were not selected are empty.
        known = {f.name for f in fields}
        if not set(line) <= known:
            return False
        return all(same(line.get(f.name), value[f.name], f) for f in fields)
    return type(line) is int and value == line


def compare(program, trace, form, scratch):
    out = os.path.join(scratch, "out")
    made = subprocess.run([program, "convert", "-q", "--to", form, "-o", out, trace], capture_output=True)
    if made.returncode not in (0, 3):
        raise Bad(f"convert ended with {made.returncode}: {made.stderr.decode()[:300]}")
    lines = subprocess.run([program, "print", "-q", "--format", "jsonl", trace], capture_output=True).stdout
    lines = [json.loads(line) for line in lines.splitlines()]
    events = read(f"{out}/events.{form}").to_pylist()
    classes = read(f"{out}/classes.{form}").to_pylist()
    if len(lines) != len(events):
        raise Bad(f"{len(events)} events for {len(lines)} lines")
    if [event["event"] for event in events] != list(range(len(events))):
        raise Bad("events are not numbered from 0")
    tables, packets = {}, {}
    for folder, _, files in os.walk(f"{out}/packet"):
        for file in files:
            table = read(os.path.join(folder, file))
            field = table.schema.field("packet_context") if "packet_context" in table.column_names else None
            packets.update((row["packet"], (row.get("packet_context"), field)) for row in table.to_pylist())
    rows = 0
    for of in classes:
        if of["table"]:
            table = read(os.path.join(out, of["table"]))
            rows += table.num_rows
            tables[of["class"]] = (table.schema, {row["event"]: row for row in table.to_pylist()})
    if rows != len(events):
        raise Bad(f"{rows} rows in the tables of classes for {len(events)} events")
    for number, (line, event) in enumerate(zip(lines, events)):
        for key in ("trace", "ns", "cycles", "name", "id", "stream", "cpu"):
            if event.get(key) != line.get(key):
                raise Bad(f"line {number + 1}: {key} {line.get(key)} became {event.get(key)}")
        schema, own = tables[event["class"]]
        row = own.get(number)
        if row is None:
            raise Bad(f"line {number + 1} is not in the table of its class")
        if row["ns"] != line["ns"]:
            raise Bad(f"line {number + 1}: another time in the table of its class")
        for key in SCOPES:
            if key == "header" and key not in schema.names:
                continue
            if (key in line) != (key in schema.names):
                raise Bad(f"line {number + 1}: {key} is in one of both only")
            if key in line and not same(line[key], row[key], schema.field(key)):
                raise Bad(f"line {number + 1}: {key} {json.dumps(line[key])[:300]} became {str(row[key])[:300]}")
        value, field = packets[event["packet"]]
        if "packet_context" in line and not same(line["packet_context"], value, field):
            raise Bad(f"line {number + 1}: packet_context {line['packet_context']} became {value}")
    return len(events), len(tables), len(packets)


def main():
    program, traces = sys.argv[1], sys.argv[2:]
    passed = failed = 0
    for trace in traces:
        for form in ("parquet", "arrow"):
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    counts = compare(program, trace, form, scratch)
                except Bad as error:
                    failed += 1
                    print(f"FAIL {trace} as {form}: {error}")
                    continue
            passed += 1
            print(f"{trace} as {form}: {counts[0]} events of {counts[1]} classes in {counts[2]} packets")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not traces else 0)


if __name__ == "__main__":
    main()
