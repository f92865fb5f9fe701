//! Queries that were made at random: none breaks off, and those that are wrong or fail say so in words for people.

use std::ops::ControlFlow;
use std::path::Path;

use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;
use tracemill_sql::database::Database;
use tracemill_sql::query::{Answers, Failure, MemoryLimits, Queries, RecordBatch, SchemaRef};

fn queries(traces: &[&str]) -> Queries {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    let paths: Vec<_> = traces.iter().map(|trace| demo.join(trace)).collect();
    let session = Session::open(&FileSystem, &paths, &OpenOptions::new(FORMATS)).expect("it opens");
    let database = Database::new(session, &[], Selection::default(), None, 2).expect("all streams");
    Queries::new(database, MemoryLimits { memory_bytes: 64 << 20, spills: false }).expect("threads")
}

/// Takes rows up to a number.
#[derive(Default)]
struct Some200(usize);

impl Answers for Some200 {
    fn begin(&mut self, _: &SchemaRef) -> Result<(), Error> {
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<ControlFlow<()>, Error> {
        self.0 += batch.num_rows();
        Ok(if self.0 < 200 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

const TABLES: [&str; 18] = [
    "events",
    "\"mill:grind\"",
    "\"mill:stage\"",
    "\"mill:dials\"",
    "event.\"mill:curve\"",
    "`mill:label`",
    "calls",
    "classes",
    "fields",
    "packets",
    "streams",
    "traces",
    "losses",
    "faults",
    "sections",
    "environment",
    "match_pairs('mill:grind', 'mill:*', 'cpu')",
    "nested_pairs('mill:stage', 'mill:bell', '')",
];

const COLUMNS: [&str; 26] = [
    "ns",
    "time",
    "event",
    "cycles",
    "cpu",
    "name",
    "id",
    "stream",
    "class",
    "packet",
    "trace",
    "payload",
    "stage",
    "stage_label",
    "grinder",
    "grams",
    "degrees",
    "dur",
    "self",
    "depth",
    "\"table\"",
    "fields",
    "labels",
    "events",
    "nothing",
    "stock",
];

const LITERALS: [&str; 20] = [
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "18446744073709551615",
    "0.5",
    "1e300",
    "null",
    "true",
    "'mill:bell'",
    "''",
    "'%e'",
    "'2026-11-21T08:31:10Z'",
    "instant('+20ms')",
    "interval '1 day'",
    "[1, 2]",
    "X'00ff'",
    "'🦀'",
    "$low",
    "timestamp '2026-11-21'",
];

const FUNCTIONS: [&str; 40] = [
    "abs",
    "length",
    "upper",
    "bucket",
    "log2_bucket",
    "duration",
    "label",
    "instant",
    "field",
    "sum",
    "avg",
    "count",
    "min",
    "max",
    "median",
    "approx_percentile_cont",
    "stddev",
    "array_agg",
    "since_last",
    "lag",
    "row_number",
    "date_trunc",
    "date_bin",
    "to_timestamp",
    "regexp_match",
    "substr",
    "split_part",
    "array_length",
    "unnest",
    "named_struct",
    "coalesce",
    "nullif",
    "arrow_cast",
    "greatest",
    "power",
    "overlap",
    "match_pairs",
    "round",
    "first_value",
    "repeat",
];

fn expression(dice: &mut Dice, depth: usize) -> String {
    let inner = |dice: &mut Dice| expression(dice, depth.saturating_sub(1));
    match dice.roll(if depth == 0 { 3 } else { 14 }) {
        0 | 1 => dice.one(&COLUMNS).to_string(),
        2 => dice.one(&LITERALS).to_string(),
        3 => {
            format!("({} {} {})", inner(dice), dice.one(&["+", "-", "*", "/", "%", "&", "|", "||", "<<"]), inner(dice))
        }
        4 => format!(
            "{} {} {}",
            inner(dice),
            dice.one(&["=", "<>", "<", ">=", "like", "~", "is distinct from"]),
            inner(dice)
        ),
        5 => format!("({} {} {})", inner(dice), dice.one(&["and", "or"]), inner(dice)),
        6 => format!("not ({})", inner(dice)),
        7 => format!("({} {} null)", inner(dice), dice.one(&["is", "is not"])),
        8 => format!("{}({}, {})", dice.one(&FUNCTIONS), inner(dice), inner(dice)),
        9 => format!("{}({})", dice.one(&FUNCTIONS), inner(dice)),
        10 => format!(
            "cast({} as {})",
            inner(dice),
            dice.one(&["bigint", "text", "double", "boolean", "timestamp", "smallint", "date"])
        ),
        11 => format!("case when {} then {} else {} end", inner(dice), inner(dice), inner(dice)),
        12 => format!("{} in ({}, {})", inner(dice), inner(dice), inner(dice)),
        _ => format!(
            "{}({}) over (partition by {} order by {})",
            dice.one(&FUNCTIONS),
            inner(dice),
            inner(dice),
            inner(dice)
        ),
    }
}

/// A table, its columns of numbers, and those of texts.
type Known = (&'static str, &'static [&'static str], &'static [&'static str]);

const KNOWN: [Known; 8] = [
    (
        "events",
        &["ns", "event", "cycles", "cpu", "id", "stream", "class", "packet"],
        &["name", "payload", "trace", "stream_name"],
    ),
    ("\"mill:grind\"", &["ns", "cpu", "grinder", "lot", "gear", "grams"], &["gear_label", "procname", "trace"]),
    (
        "\"mill:stage\"",
        &["ns", "cycles", "batch", "stage", "stock", "degrees"],
        &["stage_label", "stock_label", "procname"],
    ),
    ("calls", &["ns", "dur", "self", "depth", "tid", "parent"], &["name", "symbol", "lib", "thread"]),
    (
        "packets",
        &["packet", "\"index\"", "\"offset\"", "begin_ns", "timestamp_begin"],
        &["file", "stream_name", "packet_context"],
    ),
    ("classes", &["class", "id", "stream", "events"], &["name", "\"table\"", "trace"]),
    ("fields", &["class"], &["path", "\"column\"", "kind", "type", "labels", "note"]),
    ("match_pairs('mill:grind', 'mill:*', 'cpu')", &["ns", "dur", "begin_class"], &["trace"]),
];

fn number(dice: &mut Dice, of: &Known, depth: usize) -> String {
    let inner = |dice: &mut Dice| number(dice, of, depth.saturating_sub(1));
    match dice.roll(if depth == 0 { 3 } else { 12 }) {
        0 | 1 => dice.one(of.1).to_string(),
        2 => dice.one(&LITERALS[..6]).to_string(),
        3 | 4 => format!("({} {} {})", inner(dice), dice.one(&["+", "-", "*", "%", "/"]), inner(dice)),
        5 => format!("{}({})", dice.one(&["abs", "log2_bucket", "-", "round", "sqrt", "signum"]), inner(dice)),
        6 => format!("bucket({}, {})", inner(dice), dice.one(&["10", "'1ms'", "7", "1"])),
        7 => format!("coalesce({}, {})", inner(dice), inner(dice)),
        8 => format!("length({})", text(dice, of, depth - 1)),
        9 => format!("case when {} then {} else {} end", condition(dice, of, depth - 1), inner(dice), inner(dice)),
        10 => format!(
            "cast({} as {})",
            inner(dice),
            dice.one(&["bigint", "double", "int", "decimal(20, 2)", "bigint unsigned"])
        ),
        _ => format!("nullif({}, {})", inner(dice), inner(dice)),
    }
}

fn text(dice: &mut Dice, of: &Known, depth: usize) -> String {
    let inner = |dice: &mut Dice| text(dice, of, depth.saturating_sub(1));
    match dice.roll(if depth == 0 { 3 } else { 8 }) {
        0 | 1 => dice.one(of.2).to_string(),
        2 => dice.one(&["'mill:bell'", "''", "'%e'", "'🦀'", "'a''b'"]).to_string(),
        3 => format!("upper({})", inner(dice)),
        4 => format!("substr({}, {})", inner(dice), dice.one(&["1", "-3", "2, 4", "9223372036854775807"])),
        5 => format!("({} || {})", inner(dice), inner(dice)),
        6 => format!("cast({} as text)", number(dice, of, depth - 1)),
        _ => format!("duration(cast({} as bigint))", dice.one(of.1)),
    }
}

fn condition(dice: &mut Dice, of: &Known, depth: usize) -> String {
    let inner = |dice: &mut Dice| condition(dice, of, depth.saturating_sub(1));
    match dice.roll(if depth == 0 { 5 } else { 8 }) {
        0 => format!(
            "{} {} {}",
            number(dice, of, 1),
            dice.one(&["=", "<>", "<", ">=", "is distinct from"]),
            number(dice, of, 1)
        ),
        1 => format!("{} {} {}", text(dice, of, 1), dice.one(&["=", "like", "not like", ">"]), text(dice, of, 0)),
        2 => format!("{} is {}", dice.one(of.1), dice.one(&["null", "not null"])),
        3 => format!("{} in ({}, {})", number(dice, of, 1), number(dice, of, 0), number(dice, of, 0)),
        4 => format!("{} between {} and {}", dice.one(of.1), number(dice, of, 0), number(dice, of, 0)),
        5 => format!("not ({})", inner(dice)),
        side => format!("({} {} {})", inner(dice), if side == 6 { "and" } else { "or" }, inner(dice)),
    }
}

/// A query whose kinds fit, so that most of them are answered.
fn sound(dice: &mut Dice) -> String {
    let of = &KNOWN[dice.roll(KNOWN.len())];
    let filter = if dice.roll(3) > 0 { format!(" where {}", condition(dice, of, 3)) } else { String::new() };
    let limit = if dice.roll(2) == 0 { format!(" limit {}", dice.roll(40)) } else { String::new() };
    let sql = match dice.roll(5) {
        0 => {
            let key = if dice.roll(2) == 0 { text(dice, of, 1) } else { number(dice, of, 1) };
            let sums =
                format!("count(*), sum({0}), avg({0}), min({1}), max({1})", number(dice, of, 1), text(dice, of, 1));
            format!("select {key} as k, {sums} from {}{filter} group by {key} order by k", of.0)
        }
        1 => format!("select *, {} as x from {}{filter}", number(dice, of, 2), of.0),
        2 => format!(
            "select {0}, since_last({0}) over (partition by {1} order by {2}) as d from {3}{filter} order by d",
            dice.one(of.1),
            dice.one(of.2),
            number(dice, of, 1),
            of.0
        ),
        3 => format!(
            "select a.x, b.y from (select {0} as k, {1} as x from {2}{filter}) a left join (select {0} as k, {1} as y from {2}) b on a.k = b.k",
            number(dice, of, 0),
            text(dice, of, 1),
            of.0
        ),
        _ => format!("select {}, {} from {}{filter} order by 1 desc, 2", number(dice, of, 2), text(dice, of, 2), of.0),
    };
    sql + &limit
}

fn query(dice: &mut Dice, depth: usize) -> String {
    let from = match dice.roll(8) {
        0 if depth > 0 => format!("({}) q", query(dice, depth - 1)),
        1 => format!("{} a join {} b on a.ns = b.ns", dice.one(&TABLES), dice.one(&TABLES)),
        2 => format!("{} a left join {} b using (trace)", dice.one(&TABLES[6..16]), dice.one(&TABLES[6..16])),
        3 => format!("(select 1) a cross join {} b", dice.one(&TABLES)),
        _ => dice.one(&TABLES).to_string(),
    };
    let chosen = match dice.roll(4) {
        0 => "*".to_string(),
        _ => {
            let count = 1 + dice.roll(3);
            (0..count).map(|_| expression(dice, 2)).collect::<Vec<_>>().join(", ")
        }
    };
    let mut text = format!("select {chosen} from {from}");
    if dice.roll(2) == 0 {
        text += &format!(" where {}", expression(dice, 3));
    }
    if dice.roll(4) == 0 {
        text += &format!(" group by {}", expression(dice, 1));
    }
    if dice.roll(3) == 0 {
        text += &format!(" order by {}", dice.one(&["ns", "1", "event desc", "name, ns", "time"]));
    }
    if dice.roll(2) == 0 {
        text += &format!(" limit {}", dice.one(&["0", "1", "50", "-1", "10 offset 3"]));
    }
    match dice.roll(12) {
        0 => format!("explain {text}"),
        1 => format!("create or replace view v as {text}"),
        2 => format!("({text}) union all (select {} from events)", expression(dice, 1)),
        _ => text,
    }
}

/// A text that is no SQL any more, most of the time.
fn broken(dice: &mut Dice, text: &str) -> String {
    let mut all: Vec<char> = text.chars().collect();
    for _ in 0..1 + dice.roll(3) {
        let at = dice.roll(all.len().max(1)).min(all.len().saturating_sub(1));
        match dice.roll(4) {
            0 => drop(all.remove(at)),
            1 => all.insert(
                at,
                dice.one(&["(", ")", "'", "\"", ";", ",", "é", "\0", "$", "`", "[", "::"])
                    .chars()
                    .next()
                    .unwrap_or(' '),
            ),
            2 => all.truncate(at.max(1)),
            _ => {
                let other = dice.roll(all.len());
                all.swap(at, other);
            }
        }
    }
    all.into_iter().collect()
}

/// Words that no message contains: names inside the query engine.
const INSIDE: [&str; 12] = [
    "mistake of tracemill",
    "Internal error",
    "DataFusion",
    "SchemaError",
    "LogicalPlan",
    "ScalarFunction",
    "Exec",
    "Utf8",
    "Int64",
    "Dictionary(",
    "panicked",
    "bug",
];

#[test]
fn queries_at_random_are_answered_or_refused_in_words() {
    let mut queries = queries(&["traces/mill", "calls/tasting"]);
    let rounds = std::env::var("TRACEMILL_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    let (mut right, mut bad) = (0, Vec::new());
    for seed in 0..rounds {
        let mut dice = Dice(seed);
        dice.roll(2);
        let mut text = if dice.roll(5) < 3 { sound(&mut dice) } else { query(&mut dice, 2) };
        if dice.roll(6) == 0 {
            text = broken(&mut dice, &text);
        }
        match queries.run(&text, &mut Some200::default()) {
            Ok(()) => right += 1,
            Err(Failure::Stopped) => bad.push(format!("{seed}: {text}: stopped")),
            Err(Failure::Wrong(error) | Failure::Failed(error)) => {
                let said = error.message();
                // The text of the query is quoted.
                let own = said.lines().filter(|line| !line.starts_with("  |")).collect::<Vec<_>>().join("\n");
                if let Some(inside) = INSIDE.iter().find(|inside| own.contains(**inside) && !text.contains(**inside)) {
                    bad.push(format!("{seed}: {inside}: {text}\n    {said}"));
                }
            }
        }
    }
    assert!(bad.is_empty(), "{} of {rounds}:\n{}", bad.len(), bad.join("\n"));
    assert!(right * 4 > rounds, "{right} of {rounds} queries are right");
}
