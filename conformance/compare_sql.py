#!/usr/bin/env python3
"""Compares the tables of `tracemill sql` with the JSON lines of the same traces.

    conformance/compare_sql.py PROGRAM TRACE... [--seed N]

`events` must hold what the lines say, and each table of a class all of its fields: names, kinds and values of the columns
are made of the lines here, by the rules of `docs/sql.md`. Then the same rows must come with one job and with eight,
`order by ns` must sort, what `salvage.jsonl` beside a damaged trace names must be there, and random conditions must
choose the rows that Python chooses, with SQL's three values, both where the scan decides them and where it does not.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
from collections import Counter

COMMON = ("trace", "event", "ns", "time", "cycles", "cpu", "stream_name", "packet", "class")
SCOPES = ("payload", "event_context", "stream_context", "packet_context", "header")
# Rows of a class that are kept for random conditions.
MOST = 20_000


class Bad(Exception):
    pass


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def literal(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


class Asked:
    """A program and a trace, and how its answers are read."""

    def __init__(self, program, trace):
        self.program, self.trace = program, trace

    def run(self, words, status=(0, 3)):
        run = subprocess.run([self.program, *words], capture_output=True, stdin=subprocess.DEVNULL)
        if run.returncode not in status or b"panicked" in run.stderr:
            raise Bad(f"{words[:1]} {words[-1][:300]}: status {run.returncode}: {run.stderr.decode(errors='replace')[:500]}")
        return run

    def lines(self):
        run = self.run(["print", "-q", "--format", "jsonl", self.trace], status=(0, 1, 3))
        self.status = run.returncode
        if self.status == 1:
            # Traces that cannot be opened have no tables.
            self.run(["sql", "-q", self.trace, "-c", "select * from events"], status=(1,))
        return [json.loads(line) for line in run.stdout.split(b"\n") if line]

    def answers(self, statements, jobs=2):
        """The rows of each of some statements, which all have rows."""
        if not statements:
            return []
        text = ";\n".join(f"select {at} as \"#\";\n{sql}" for at, sql in enumerate(statements))
        out = subprocess.run([self.program, "sql", "-q", "--format", "jsonl", "-j", str(jobs), self.trace, "-f", "-"],
                             input=text.encode(), capture_output=True)
        if out.returncode not in (0, 3) or b"panicked" in out.stderr:
            raise Bad(f"{text[:600]}: status {out.returncode}: {out.stderr.decode(errors='replace')[:500]}")
        self.answered = out.returncode
        answers = []
        for line in out.stdout.split(b"\n"):
            if line:
                row = json.loads(line)
                if list(row) == ["#"]:
                    answers.append([])
                else:
                    answers[-1].append(row)
        if len(answers) != len(statements):
            raise Bad(f"{len(answers)} answers to {len(statements)} statements")
        return answers


def is_labelled(value):
    return isinstance(value, dict) and list(value) == ["value", "labels"]


def is_flagged(value):
    return isinstance(value, dict) and list(value) == ["value", "flags"]


def same(line, column):
    """Is a value of a line, below the first level, what a column shows?"""
    if isinstance(line, dict) and list(line) == ["media_type", "base64"]:
        return column == line["base64"]
    if is_labelled(line):
        if not isinstance(column, dict) or column.get("value") != line["value"]:
            return False
        label = line["labels"][0] if line["labels"] else None
        return column["labels"] == line["labels"] if "labels" in column else column.get("label") == label
    if is_flagged(line):
        return isinstance(column, dict) and column == {"value": line["value"], "flags": list(dict.fromkeys(line["flags"]))}
    if line == {} or line == []:
        # A structure without members is there or not.
        return column is True or column == line or (isinstance(column, dict) and all(v is None for v in column.values()))
    if isinstance(line, dict):
        # Other options of a variant, and members that only other classes have, are empty.
        return isinstance(column, dict) and set(line) <= set(column) and all(same(line.get(k), column[k]) for k in column)
    if isinstance(line, list):
        if isinstance(column, dict):
            # Members of a tuple are named by their place.
            return [str(at) for at in range(len(line))] == list(column) and all(map(same, line, column.values()))
        return isinstance(column, list) and len(line) == len(column) and all(map(same, line, column))
    if isinstance(line, bool) or isinstance(column, bool) or line is None or column is None:
        return line is column
    if isinstance(line, int) and isinstance(column, str):
        return column == str(line)
    return line == column


def as_text(line, text):
    """Is the text of a column the JSON of a value?"""
    try:
        return isinstance(text, str) and (line == text or same(line, json.loads(text)))
    except ValueError:
        return False


def columns_of(line, known):
    """Names and values of the columns of fields of a line, and whether the value may be compared as text."""
    taken, columns = set(COMMON), {}

    def free(name):
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    for scope in SCOPES:
        for member, value in (line.get(scope) or {}).items():
            name = f"{scope}_{member}" if member in taken else member
            while name in taken:
                name += "_"
            if scope in ("packet_context", "header") and name not in known:
                # It has a meaning to the format.
                continue
            taken.add(name)
            if is_labelled(value):
                columns[name] = value["value"]
                columns[free(f"{name}_label")] = value["labels"][0] if value["labels"] else None
                if f"{name}_labels" in known:
                    columns[free(f"{name}_labels")] = value["labels"]
            elif is_flagged(value):
                columns[name] = value["value"]
                columns[free(f"{name}_flags")] = list(dict.fromkeys(value["flags"]))
            else:
                columns[name] = value
    return columns


def compare_events(lines, rows):
    if len(rows) != len(lines):
        raise Bad(f"{len(rows)} events for {len(lines)} lines")
    for number, (line, row) in enumerate(zip(lines, rows)):
        if row["event"] != number:
            raise Bad(f"line {number + 1} is event {row['event']}")
        for key in ("ns", "cycles", "name", "id", "stream", "cpu"):
            want = line.get(key)
            if key == "ns" and want is not None and not -2**63 <= want < 2**63:
                want = None
            if key == "cpu" and want is None and row[key] is not None:
                want = (line.get("packet_context") or {}).get("cpu_id")
            if row[key] != want:
                raise Bad(f"line {number + 1}: {key} {want} became {row[key]}")
        if (row["time"] is not None) and row["ns"] is None:
            raise Bad(f"line {number + 1}: a time without ns")
        for scope in SCOPES:
            text = row[scope]
            if (text is None) != (line.get(scope) is None) or text is not None and json.loads(text) != line[scope]:
                raise Bad(f"line {number + 1}: {scope} {line.get(scope)} became {text}")


def compare_class(table, lines, rows):
    by_number = {row["event"]: row for row in rows}
    if len(by_number) != len(lines) or len(rows) != len(lines):
        raise Bad(f"{table}: {len(rows)} rows for {len(lines)} lines")
    for number, line in lines:
        row = by_number.get(number)
        if row is None:
            raise Bad(f"{table}: event {number} is not there")
        want = columns_of(line, row.keys())
        if missing := [name for name in want if name not in row]:
            raise Bad(f"{table}: no column {missing}; there are {list(row)}")
        for name, value in row.items():
            if name in COMMON:
                continue
            if name not in want:
                # A label of a value that is not there, or a field that only other classes of this name have.
                if value is not None:
                    raise Bad(f"{table}: event {number} has {name} {value}, and its line has not")
            elif not same(want[name], value) and not as_text(want[name], value):
                raise Bad(f"{table}: event {number}: {name} {json.dumps(want[name])[:200]} became {json.dumps(value)[:200]}")


def subset(want, have):
    """Is all of a value in another one, which may know more?"""
    if isinstance(want, dict):
        return isinstance(have, dict) and all(key in have and subset(value, have[key]) for key, value in want.items())
    if isinstance(want, list):
        return isinstance(have, list) and len(want) == len(have) and all(map(subset, want, have))
    return type(want) is type(have) and want == have


def compare_saved(trace, rows):
    """What can be saved of a damaged trace, where a file beside it says so: `salvage.jsonl`."""
    saved = pathlib.Path(trace).parent / "salvage.jsonl"
    if pathlib.Path(trace).name != "trace" or not saved.exists():
        return
    events = [{**row, **{scope: json.loads(row[scope]) for scope in SCOPES if row[scope] is not None}} for row in rows]
    for number, line in enumerate(filter(None, saved.read_text(encoding="utf-8").split("\n"))):
        want = json.loads(line)
        if not any(subset(want, event) for event in events):
            raise Bad(f"line {number + 1} of {saved.name} is no row: {line[:300]}")


def compare_calls(asked, lines):
    """Beginnings of calls of uftrace, with their values."""
    if not any(line.get("name") == "entry" and "symbol" in line.get("payload", {}) for line in lines):
        return
    rows, = asked.answers(["select tid, ns, symbol, args, cpu, dur, retval from calls"
                         # Times without processor come of pairs of events: crates/cli/tests/calls_agree.rs compares them.
                         " where symbol is not null or name not like 'linux:schedule%'"])

    def key(tid, ns, args):
        return tid, ns, json.dumps(args)
    want = Counter(key(of["tid"], line["ns"], of.get("args")) for line in lines
                   if line["name"] == "entry" for of in [line["payload"]])
    have = Counter(key(row["tid"], row["ns"], row["args"] and json.loads(row["args"])) for row in rows)
    if want != have:
        raise Bad(f"calls: missing {list((want - have).items())[:2]}, too many {list((have - want).items())[:2]}")
    values = Counter(json.dumps(line["payload"].get("retval")) for line in lines if line["name"] == "exit")
    for value, count in Counter(json.dumps(row["retval"] and json.loads(row["retval"])) for row in rows).items():
        if value != "null" and count > values[value]:
            raise Bad(f"calls: {count} times the value {value}, and {values[value]} times in the lines")


# Random conditions, with SQL's three values: True, False, None.


def compared(op, value, other):
    if value is None or other is None:
        return None
    return {"=": value == other, "<>": value != other, "<": value < other, "<=": value <= other, ">": value > other,
            ">=": value >= other}[op]


def like(value, pattern):
    if value is None:
        return None
    expression = "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.fullmatch(expression, value, re.S) is not None


def inverse(value):
    return None if value is None else not value


def both(a, b):
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def leaf(dice, name, values):
    column, known = quoted(name), [value for value in values if value is not None]
    kind = dice.randrange(8)
    if kind == 0 or not known:
        return (f"{column} is null", lambda row: row[name] is None) if dice.randrange(2) else \
            (f"{column} is not null", lambda row: row[name] is not None)
    value, other = dice.choice(known), dice.choice(known)
    op = dice.choice(["=", "<>", "<", "<=", ">", ">="])
    if isinstance(value, bool):
        return f"{column} = {literal(value)}", lambda row: compared("=", row[name], value)
    if kind == 1:
        return f"{column} in ({literal(value)}, {literal(other)})", \
            lambda row: None if row[name] is None else row[name] in (value, other)
    if kind == 2:
        low, high = (value, other) if dice.randrange(4) == 0 else (min(value, other), max(value, other))
        return f"{column} between {literal(low)} and {literal(high)}", \
            lambda row: both(compared(">=", row[name], low), compared("<=", row[name], high))
    if kind == 3 and isinstance(value, int) and 0 <= value < 2**63 and all(isinstance(v, int) and -2**63 <= v < 2**63 for v in known):
        mask = dice.choice([1, 3, value | 1, 255])
        want = value & mask
        return f"{column} & {mask} = {want}", \
            lambda row: None if row[name] is None else row[name] & mask == want
    if kind == 4 and isinstance(value, str) and "\\" not in value:
        at = dice.randrange(len(value) + 1)
        pattern = (value[:at] + "%") if dice.randrange(2) else "%" + value[at:]
        if value and dice.randrange(2):
            pattern = value[:at].replace(value[at - 1:at] or "\0", "_", 1) + "%"
        word = dice.choice(["like", "not like"])
        test = (lambda row: like(row[name], pattern)) if word == "like" else (lambda row: inverse(like(row[name], pattern)))
        return f"{column} {word} {literal(pattern)}", test
    return f"{column} {op} {literal(value)}", lambda row: compared(op, row[name], value)


def condition(dice, leaves, depth):
    kind = dice.randrange(4) if depth else 0
    if kind == 0:
        name, values = dice.choice(leaves)
        return leaf(dice, name, values)
    sql, test = condition(dice, leaves, depth - 1)
    if kind == 1:
        return f"not ({sql})", lambda row: inverse(test(row))
    other_sql, other = condition(dice, leaves, depth - 1)
    if kind == 2:
        return f"({sql} and {other_sql})", lambda row: both(test(row), other(row))
    return f"({sql} or {other_sql})", lambda row: inverse(both(inverse(test(row)), inverse(other(row))))


def plain(values):
    """Are the values of a column of one kind that can be compared with literals?"""
    kinds = {type(value) for value in values if value is not None}
    is_real = kinds <= {float, int} and all(-2**53 < value < 2**53 for value in values if value is not None)
    return len(kinds) <= 1 and kinds <= {int, str, bool} or is_real and kinds <= {int, float}


def conditions(dice, tables, count):
    """Statements with the numbers that they must give."""
    statements, wanted = [], []
    for table, rows in tables:
        if not rows:
            continue
        names = [name for name in rows[0] if name not in ("time", "event") and
                 plain([row[name] for row in rows[:MOST]])]
        leaves = [(name, [row[name] for row in rows[:500]]) for name in names]
        if len(rows) > MOST or not leaves:
            continue
        for _ in range(count):
            sql, test = condition(dice, leaves, 3)
            statements.append(f"select count(*) as n from {table} where {sql}")
            wanted.append(sum(test(row) is True for row in rows))
    return statements, wanted


def compare(program, trace, seed):
    asked = Asked(program, trace)
    lines = asked.lines()
    if asked.status == 1:
        return 0, 0, 0
    names = sorted({row["table"] for row in asked.answers(['select "table" from classes'])[0]})
    of_table = {name: [] for name in names}
    for number, line in enumerate(lines):
        of_table.setdefault(line.get("name") or "(no name)", []).append((number, line))
    # Classes that stand for many names.
    has_open = any(name not in names for name in of_table)
    tables = [f"event.{quoted(name)}" for name in names]
    statements = ["select count(*) as n from events", "select * from events"] + [f"select * from {table}" for table in tables]
    counted, events, *classes = asked.answers(statements)
    if counted != [{"n": len(lines)}]:
        raise Bad(f"{counted} events for {len(lines)} lines")
    if asked.status != asked.answered:
        raise Bad(f"status {asked.answered}, and {asked.status} of `print`")
    compare_events(lines, events)
    compare_saved(trace, events)
    if not has_open:
        for name, rows in zip(names, classes):
            compare_class(name, of_table[name], rows)
    compare_calls(asked, lines)
    # Without the number nothing is merged: ranges of packets are read side by side.
    again = []
    for table, rows in zip(["events", *tables], [events, *classes]):
        if rows:
            again.append((table, [name for name in rows[0] if name != "event"], rows))
    statements = [f"select {', '.join(map(quoted, columns))} from {table} order by ns desc" for table, columns, _ in again]
    statements.append("select ns from events order by ns")
    for jobs in (1, 8):
        *answers, sorted_ns = asked.answers(statements, jobs)
        for (table, columns, rows), answer in zip(again, answers):
            want = Counter(json.dumps({name: row[name] for name in columns}) for row in rows)
            have = Counter(json.dumps(row) for row in answer)
            if want != have:
                raise Bad(f"{table} with {jobs} jobs: other rows: {list((want - have) or (have - want))[:1]}")
        times = [row["ns"] for row in events]
        if [row["ns"] for row in sorted_ns] != sorted((t for t in times if t is not None)) + [None] * times.count(None):
            raise Bad(f"`order by ns` does not sort with {jobs} jobs")
    dice = random.Random(f"{seed} {trace}")
    chosen = [(table, rows) for table, _, rows in again]
    chosen = chosen[:1] + dice.sample(chosen[1:], min(4, len(chosen[1:])))
    # A blob is equal to no text that JSON shows of it.
    described = asked.answers([f"describe {table}" for table, _ in chosen])
    blobs = [{row["column_name"] for row in columns if "Binary" in row["data_type"]} for columns in described]
    chosen = [(table, [{name: row[name] for name in row if name not in left_out} for row in rows])
              for (table, rows), left_out in zip(chosen, blobs)]
    statements, wanted = conditions(dice, chosen, 12)
    for settings in ("", "set tracemill.pushdown = false;\n"):
        with_settings = statements[:1] and [settings + statements[0]]
        # The setting stands before the first statement, after its number.
        answers = asked.answers(with_settings + statements[1:])
        for sql, want, answer in zip(statements, wanted, answers):
            if answer != [{"n": want}]:
                raise Bad(f"{settings}{sql}: {answer}, not {want}")
    return len(lines), len(names), len(statements)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    passed = failed = 0
    totals = [0, 0, 0]
    for trace in args.traces:
        try:
            counts = compare(args.program, trace, args.seed)
        except Bad as error:
            failed += 1
            print(f"FAIL {trace}: {error}")
            continue
        passed += 1
        totals = [a + b for a, b in zip(totals, counts)]
    print(f"{totals[0]} events, {totals[1]} tables, {totals[2]} conditions")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
