//! Conditions that scans decide give what they give above a scan, NULLs and all.

use std::ops::ControlFlow;
use std::path::Path;

use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;
use tracemill_sql::database::Database;
use tracemill_sql::output::{Form, TableFormat, Writer};
use tracemill_sql::query::{Answers, Failure, MemoryLimits, Queries, RecordBatch, SchemaRef};

fn queries(trace: &str, jobs: usize) -> Queries {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(trace);
    let session = Session::open(&FileSystem, &[path], &OpenOptions::new(FORMATS)).expect("it opens");
    let database = Database::new(session, &[], Selection::default(), None, jobs).expect("all streams");
    Queries::new(database, MemoryLimits { memory_bytes: 1 << 30, spills: false }).expect("threads")
}

/// The answer as CSV.
fn asked(queries: &mut Queries, sql: &str) -> String {
    let mut writer = Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None);
    queries.run(sql, &mut writer).unwrap_or_else(|failure| panic!("{sql}: {failure:?}"));
    let bytes = writer.finish().expect("memory takes all").expect("it is given back");
    String::from_utf8(bytes).expect("a text")
}

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn condition(&mut self, parts: &[&str], depth: usize) -> String {
        match self.roll(if depth == 0 { 1 } else { 4 }) {
            0 => parts[self.roll(parts.len())].to_string(),
            1 => format!("not ({})", self.condition(parts, depth - 1)),
            side => {
                let (a, b) = (self.condition(parts, depth - 1), self.condition(parts, depth - 1));
                format!("({a} {} {b})", if side == 2 { "and" } else { "or" })
            }
        }
    }
}

const OF_EVENTS: [&str; 14] = [
    "name = 'mill:bell'",
    "name like 'mill:%e'",
    "name in ('mill:grind', 'mill:label', 'none')",
    "name <> 'mill:grind'",
    "cpu = 1",
    "cpu is null",
    "stream = 0",
    "id between 1 and 3",
    "ns >= instant('+20ms')",
    "ns < instant('+60ms')",
    "time > '2026-11-21T08:31:10.25Z'",
    "field(payload, 'grams') > 8.5",
    "field(payload, 'grinder') is null",
    "field(payload, 'gear') & 1 = 1",
];

const OF_A_CLASS: [&str; 8] = [
    "stage = 3",
    "stage_label = 'brûlé'",
    "stage_label is null",
    "stock_label <> 'NONE'",
    "degrees between 150 and 190.5",
    "vtid in (11580, 11581)",
    "cpu_id <> 0",
    "batch % 2 = 0",
];

#[test]
fn conditions_decided_by_a_scan_are_those_above_it() {
    let (mut below, mut above) = (queries("traces/mill", 2), queries("traces/mill", 1));
    above.run("set tracemill.pushdown = false", &mut One::default()).expect("a setting");
    let mut dice = Dice(7);
    let mut kept = 0;
    for round in 0..120 {
        let (table, sql) = match round % 3 {
            0 => ("\"mill:stage\"", dice.condition(&OF_A_CLASS, 3)),
            _ => ("events", dice.condition(&OF_EVENTS, 3)),
        };
        let sql = format!(
            "select count(*) as n, sum(cast(cycles as double)) as s, min(ns) as first from {table} where {sql}"
        );
        let answers = [asked(&mut below, &sql), asked(&mut above, &sql)];
        // Sums of floats depend on the order of their parts.
        let fields = answers.each_ref().map(|text| {
            let row: Vec<&str> = text.lines().nth(1).expect("a row").split(',').collect();
            (row[0].to_string(), row[2].to_string())
        });
        assert_eq!(fields[0], fields[1], "{sql}");
        kept += usize::from(fields[0].0 != "0");
    }
    assert!(kept > 50, "{kept} conditions were true of something");
}

/// Takes answers until it has a row, and then no more.
#[derive(Default)]
struct One(u64);

impl Answers for One {
    fn begin(&mut self, _: &SchemaRef) -> Result<(), Error> {
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<ControlFlow<()>, Error> {
        self.0 += batch.num_rows() as u64;
        Ok(ControlFlow::Break(()))
    }

    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn who_wants_no_more_rows_gets_none_and_who_is_stopped_ends() {
    static STOP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(true);
    let mut queries = queries("traces/mill", 1);
    let mut one = One::default();
    queries.run("select ns from events", &mut one).expect("it runs");
    assert!(one.0 > 0);
    queries.stop = &STOP;
    assert!(matches!(queries.run("select ns from events", &mut one), Err(Failure::Stopped)));
}
