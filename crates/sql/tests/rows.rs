//! Rows that are asked for: planned before they are wanted, the same each time, and errors with their places.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_sql::database::Database;
use tracemill_sql::query::{MemoryLimits, Queries};
use tracemill_sql::rows::{Next, Parameter, Prepared};

fn queries() -> Queries {
    queries_of(&["mill"])
}

fn queries_of(traces: &[&str]) -> Queries {
    let paths: Vec<_> =
        traces.iter().map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(name)).collect();
    let session = Session::open(&FileSystem, &paths, &OpenOptions::new(FORMATS)).expect("they open");
    let database = Database::new(session, &[], Selection::default(), None, 2).expect("all streams");
    Queries::new(database, MemoryLimits { memory_bytes: 1 << 30, spills: false }).expect("threads")
}

fn prepared(queries: &Queries, text: &str) -> Prepared {
    queries.prepare(text, &HashMap::new()).unwrap_or_else(|error| panic!("{text}: {:?}", error.error))
}

fn count(queries: &Queries, prepared: &Prepared) -> usize {
    let mut rows = queries.rows(prepared).expect("it was planned");
    let mut count = 0;
    loop {
        match rows.next(Duration::from_secs(60)).expect("it runs") {
            Next::Batch(batch) => count += batch.num_rows(),
            Next::Later => {}
            Next::End => return count,
        }
    }
}

#[test]
fn a_query_runs_each_time_that_it_is_asked() {
    let queries = queries();
    let bells = prepared(
        &queries,
        "create view b as select * from \"mill:bell\"; select x.ns, y.ns, x.time from b x join b y on x.ns = y.ns",
    );
    assert_eq!(bells.columns(), ["ns", "ns_2", "time"]);
    assert_eq!((count(&queries, &bells), count(&queries, &bells)), (8, 8));
    assert_eq!(queries.rows(&bells).expect("planned").schema().field(1).name(), "ns_2");
    assert_eq!(count(&queries, &prepared(&queries, "set datafusion.execution.batch_size = 1000")), 0);
    assert!(count(&queries, &queries.explain(&bells, false).expect("it has a plan")) > 0);
}

#[test]
fn parameters_keep_their_types() {
    let queries = queries();
    let asked = |value: Parameter, text: &str| {
        let parameters = HashMap::from([("x".to_string(), value)]);
        let prepared = queries.prepare(text, &parameters).expect("it is right");
        count(&queries, &prepared)
    };
    assert_eq!(asked(Parameter::Text("7".into()), "select 1 where $x = '7'"), 1);
    assert_eq!(asked(Parameter::Text("it's".into()), "select 1 where $x = 'it''s'"), 1);
    assert_eq!(asked(Parameter::Unsigned(u64::MAX), "select 1 where $x = 18446744073709551615"), 1);
    assert_eq!(asked(Parameter::Integer(i64::MIN), "select 1 where $x = -9223372036854775808"), 1);
    assert_eq!(asked(Parameter::Real(0.5), "select 1 where $x = 0.5"), 1);
    assert_eq!(asked(Parameter::Boolean(true), "select 1 where $x"), 1);
    assert_eq!(asked(Parameter::Null, "select 1 where $x is null"), 1);
}

#[test]
fn errors_have_their_place_and_come_before_reading() {
    let queries = queries();
    let refused = |text: &str| queries.prepare(text, &HashMap::new()).err().expect("it is wrong");
    let error = refused("select 1,\n  gram from \"mill:grind\"");
    assert_eq!(error.place, Some((2, 3)));
    assert_eq!(error.help.as_deref(), Some("did you mean `grams`? Its columns are in `describe \"mill:grind\"`"));
    assert!(error.error.message().contains("(line 2, column 3)"), "{:?}", error.error);
    assert!(refused("select 1; select 2").error.message().contains("only the last statement"));
    let late = prepared(&queries, "select grinder / 0 from \"mill:grind\"");
    let mut rows = queries.rows(&late).expect("it is planned");
    let error = loop {
        match rows.next(Duration::from_secs(60)) {
            Ok(Next::Later) => {}
            Ok(next) => panic!("{next:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.error.message(), "a division by zero, in `grinder / 0`");
}

#[test]
fn a_query_that_nobody_wants_any_more_ends() {
    let queries = queries();
    let endless = "select count(*) from events a, events b, events c where a.ns + b.ns + c.ns = 1";
    let endless = prepared(&queries, endless);
    let mut rows = queries.rows(&endless).expect("it is planned");
    assert!(matches!(rows.next(Duration::from_millis(20)), Ok(Next::Later)));
    let begin = std::time::Instant::now();
    drop(rows);
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert_eq!(count(&queries, &prepared(&queries, "select 1")), 1);
}

/// The numbers in the first column.
fn numbers(queries: &Queries, text: &str) -> Vec<i64> {
    let prepared = prepared(queries, text);
    let mut rows = queries.rows(&prepared).expect("it was planned");
    let mut numbers = Vec::new();
    loop {
        match rows.next(Duration::from_secs(60)).expect("it runs") {
            Next::Batch(batch) => {
                let column = batch.column(0).as_primitive::<Int64Type>();
                numbers.extend(column.iter().map(|number| number.expect("each event has a number")));
            }
            Next::Later => {}
            Next::End => return numbers,
        }
    }
}

#[test]
fn rows_of_several_streams_come_in_the_order_of_events() {
    let queries = queries_of(&["mill", "orders", "losses"]);
    let count = count(&queries, &prepared(&queries, "select ns from events")) as i64;
    for rows in [8192, 500, 7, 1] {
        prepared(&queries, &format!("set datafusion.execution.batch_size = {rows}"));
        // With columns of fields, which are gathered by class, and with conditions on fields and on what all events have.
        for text in ["select event, name, payload from events", "select event, stream_name, cpu, packet from events"] {
            assert_eq!(numbers(&queries, text), (0..count).collect::<Vec<_>>(), "{rows} rows: {text}");
        }
        for condition in ["ns % 3 = 0", "field(payload, 'grams') > 20", "name like '%b%' or cpu = 1"] {
            let found = numbers(&queries, &format!("select event, name from events where {condition}"));
            assert!(found.is_sorted() && found.len() > 10, "{rows} rows: {condition}: {}", found.len());
            let times = numbers(&queries, &format!("select ns, event from events where {condition}"));
            assert!(times.is_sorted() && times.len() == found.len(), "{rows} rows: {condition}");
            let sorted = numbers(&queries, &format!("select event from events where {condition} order by event"));
            assert_eq!(found, sorted, "{rows} rows: {condition}");
        }
    }
}
