//! Tables of states: those of CPUs and threads, and those that a file of the user defines.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use tracemill_analyses::kernel::CustomDefinitions;
use tracemill_engine::filter::Expression;
use tracemill_engine::parsed_query;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_sql::database::Database;
use tracemill_sql::query::{MemoryLimits, Queries};
use tracemill_sql::rows::Next;

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name)
}

fn session(name: &str) -> Session {
    Session::open(&FileSystem, &[demo(name)], &OpenOptions::new(FORMATS)).expect("it opens")
}

fn database(name: &str, selection: Selection) -> Database {
    Database::new(session(name), &[], selection, None, 2).expect("all streams")
}

fn definitions() -> Arc<CustomDefinitions> {
    let file = demo("states/orders.states");
    let text = std::fs::read_to_string(&file).expect("it is there");
    Arc::new(CustomDefinitions::read(&file, &text).expect("it is right"))
}

fn queries(database: Database) -> Queries {
    Queries::new(database, MemoryLimits { memory_bytes: 1 << 30, spills: false }).expect("threads")
}

fn orders() -> Queries {
    let mut database = database("traces/orders", Selection::default());
    database.define_states(definitions(), true).expect("the trace has the events");
    queries(database)
}

/// The rows of a query, their values with commas between them.
fn rows(queries: &Queries, text: &str) -> Vec<String> {
    let prepared = queries.prepare(text, &HashMap::new()).unwrap_or_else(|error| panic!("{text}: {:?}", error.error));
    let mut rows = queries.rows(&prepared).expect("it was planned");
    let mut all = Vec::new();
    loop {
        match rows.next(Duration::from_secs(60)).unwrap_or_else(|error| panic!("{text}: {:?}", error.error)) {
            Next::Later => {}
            Next::End => return all,
            Next::Batch(batch) => {
                let options = FormatOptions::default().with_null("-");
                let cells: Vec<_> = (batch.columns().iter())
                    .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("it can be shown"))
                    .collect();
                let row = |at: usize| cells.iter().map(|cell| cell.value(at).to_string()).collect::<Vec<_>>().join(",");
                all.extend((0..batch.num_rows()).map(row));
            }
        }
    }
}

fn refused(queries: &Queries, text: &str) -> String {
    match queries.prepare(text, &HashMap::new()) {
        Err(error) => error.error.message().to_string(),
        Ok(prepared) => match queries.rows(&prepared).and_then(|mut rows| {
            loop {
                match rows.next(Duration::from_secs(60)) {
                    Ok(Next::Later) => {}
                    other => break other,
                }
            }
        }) {
            Err(error) => error.error.message().to_string(),
            Ok(_) => panic!("{text}: it is answered"),
        },
    }
}

#[test]
fn states_of_the_user_are_what_events_say() {
    let queries = orders();
    // Each order is taken once and priced once: its first state lasts from one to the other.
    let found = rows(
        &queries,
        "select count(*), sum(s.dur - (p.ns - t.ns)), min(s.ns - t.ns), max(s.ns - t.ns) from custom_states s
         join \"orders:taken\" t on s.id = t.id join \"orders:priced\" p on s.id = p.id where s.state = 'pricing'",
    );
    let orders = rows(&queries, "select count(*) from \"orders:priced\"");
    assert_eq!(found, [format!("{},0,0,0", orders[0])]);
    let bargains = rows(&queries, "select count(*) from \"orders:priced\" where discount > 0.3");
    let found = rows(&queries, "select count(*) from custom_states where state = 'packing a bargain'");
    assert_eq!(found, bargains);
    // One that is named, and none of the others, can be asked for alone.
    assert_eq!(rows(&queries, "select name from custom_states limit 1"), ["order"]);
}

#[test]
fn counters_of_the_user_have_their_changes() {
    let queries = orders();
    let taken = rows(&queries, "select count(*) from \"orders:taken\"");
    let found = rows(
        &queries,
        "with c as (select value, lag(value) over (order by ns) as before from custom_counters where name = 'open')
         select count(*) from c where value = coalesce(before, 0) + 1",
    );
    assert_eq!(found, taken, "each order that is taken is one more");
    let cents = rows(&queries, "select sum(cents) from \"orders:priced\"");
    let found = rows(&queries, "select cast(max(value) as bigint) from custom_counters where name = 'takings'");
    assert_eq!(found, cents);
}

#[test]
fn columns_have_types() {
    let queries = orders();
    let prepared = queries.prepare("select * from custom_states", &HashMap::new()).expect("it is right");
    assert_eq!(prepared.columns(), ["trace", "name", "id", "state", "ns", "time", "dur", "cut"]);
    let schema = queries.rows(&prepared).expect("it was planned").schema().clone();
    let of = |name: &str| schema.field_with_name(name).expect(name).data_type().clone();
    assert_eq!(
        (of("id"), of("ns"), of("dur"), of("cut")),
        (DataType::Int64, DataType::Int64, DataType::Int64, DataType::Boolean)
    );
    let prepared = queries.prepare("select * from custom_counters", &HashMap::new()).expect("it is right");
    assert_eq!(prepared.columns(), ["trace", "name", "ns", "time", "value"]);
}

#[test]
fn states_of_a_kernel_cover_the_trace() {
    let queries = queries(database("kernel/bakery", Selection::default()));
    let found = rows(
        &queries,
        "select cpu, sum(dur) = (select max(ns) - min(ns) from events) from cpu_states group by cpu order by cpu",
    );
    assert_eq!(found, ["0,true", "1,true"]);
    // The time that a thread runs is the same in both tables.
    let running = rows(
        &queries,
        "select sum(dur) from thread_states where tid = 641 and (state like 'RUN/%' or state = 'INTERRUPTED')",
    );
    assert_eq!(rows(&queries, "select sum(dur) from cpu_states where tid = 641"), running);
    // They can be joined by time.
    let both = rows(
        &queries,
        "create view c as select ns, dur, tid from cpu_states where tid = 641;
         create view t as select ns, dur, tid from thread_states where tid = 641 and state in ('WAIT', 'WAIT_CPU');
         select count(*) from overlap('c', 't', 'tid')",
    );
    assert_eq!(both, ["0"], "a thread that waits has no CPU");
}

#[test]
fn a_range_cuts_states() {
    let whole = queries(database("kernel/bakery", Selection::default()));
    let middle: i128 = rows(&whole, "select (min(ns) + max(ns)) / 2 from events")[0].parse().expect("a time");
    let selection = Selection { begin_ns: Some(middle), ..Selection::default() };
    let half = queries(database("kernel/bakery", selection));
    let found = rows(&half, "select min(ns), count(*) > 100 from cpu_states where cpu = 0");
    assert_eq!(found, [format!("{middle},true")]);
}

#[test]
fn what_cannot_be_answered_says_why() {
    let plain = queries(database("traces/orders", Selection::default()));
    assert!(refused(&plain, "select * from custom_states").contains("--states FILE"));
    assert!(!plain.table_names().iter().any(|name| name == "custom_states"));
    assert!(orders().table_names().iter().any(|name| name == "custom_states"));
    let opened = session("traces/orders");
    let expression = Expression::parse("id == 1").expect("it is right");
    let filter = expression.bind(&opened, &parsed_query::times(&opened, true, expression.needs())).expect("it fits");
    let mut database = Database::new(opened, &[], Selection::default(), Some(filter), 1).expect("all streams");
    database.define_states(definitions(), true).expect("the trace has the events");
    let filtered = queries(database);
    assert!(refused(&filtered, "select * from custom_states").contains("--filter"));
    let mut other = self::database("traces/mill", Selection::default());
    let error = other.define_states(definitions(), true).expect_err("it has none of the events");
    assert!(error.message().contains("no event has the name or number `orders:taken`"), "{error}");
}
