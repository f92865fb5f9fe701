//! `tracemill diff --format json`: all facts as one object.

use serde_json::{Value, json};
use tracemill_analyses::diff::{FieldDifference, FieldShape, FirstDifference, SequencePlace, SpreadRow, ValueSpread};
use tracemill_analyses::kernel::{PathCause, PathComparison};

use super::diff::{CountRow, SideFacts, StreamRow, TraceDifference};

/// The object, with a line break at its end.
pub(super) fn object(of: &TraceDifference) -> String {
    let begins = of.sides.each_ref().map(|facts| facts.side.range.map(|(first, _)| first));
    let place = |place: &SequencePlace| json!({"name": of.names.text(place.name), "ns": place.ns});
    let stream = |row: &StreamRow| stream(row, &place);
    let only = |at: usize| json!({"events": of.schema.only[at], "streams": of.only_streams[at]});
    let object = json!({
        "differs": of.is_different(),
        "a": side(&of.sides[0], begins[0]),
        "b": side(&of.sides[1], begins[1]),
        "only_a": only(0),
        "only_b": only(1),
        "fields": of.schema.fields.iter().map(field).collect::<Vec<_>>(),
        "stored_otherwise": of.schema.stored_otherwise.iter().map(field).collect::<Vec<_>>(),
        "counts": of.counts.iter().map(|row| count(of, row)).collect::<Vec<_>>(),
        "order": of.order.iter().map(stream).collect::<Vec<_>>(),
        "values": of.values.iter().map(value).collect::<Vec<_>>(),
        "paths": of.paths.iter().map(path).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}

fn side(of: &SideFacts, begin: Option<i128>) -> Value {
    json!({
        "path": of.path,
        "formats": of.formats,
        "traces": of.traces,
        "streams": of.streams,
        "events": of.side.events,
        "untimed": of.side.untimed,
        "begin_ns": begin,
        "end_ns": of.side.range.map(|(_, last)| last),
        "duration_ns": of.side.duration_ns(),
    })
}

fn shape(of: &Option<FieldShape>) -> Value {
    match of {
        None => Value::Null,
        Some(FieldShape { kind, encoding }) if encoding.is_empty() => json!({ "kind": kind }),
        Some(FieldShape { kind, encoding }) => json!({"kind": kind, "encoding": encoding}),
    }
}

fn field(of: &FieldDifference) -> Value {
    json!({"event": of.event, "field": of.field, "a": shape(&of.sides[0]), "b": shape(&of.sides[1])})
}

fn count(of: &TraceDifference, row: &CountRow) -> Value {
    let rate = |at: usize| of.sides[at].per_second(row.counts[at]);
    json!({
        "name": of.names.text(row.name),
        "a": row.counts[0],
        "b": row.counts[1],
        "difference": row.difference(),
        "a_per_second": rate(0),
        "b_per_second": rate(1),
    })
}

fn stream(row: &StreamRow, place: &dyn Fn(&SequencePlace) -> Value) -> Value {
    let names = row.names.as_ref();
    let places = |list: &[SequencePlace]| list.iter().map(place).collect::<Vec<_>>();
    let first = |FirstDifference { same, before, after }: &FirstDifference| json!({"same_events": same, "before": places(before), "a": places(&after[0]), "b": places(&after[1])});
    json!({
        "a": names.map(|names| &names[0]),
        "b": names.map(|names| &names[1]),
        "first_difference": row.difference.as_ref().map(first),
    })
}

fn value(row: &SpreadRow) -> Value {
    json!({
        "kind": row.metric.kind.name(),
        "of": row.metric.of,
        "part": (!row.metric.part.is_empty()).then_some(&row.metric.part),
        "unit": row.metric.kind.is_time().then_some("ns"),
        "a": spread(&row.sides[0]),
        "b": spread(&row.sides[1]),
        "distance": row.distance,
        "p": row.p,
        "verdict": row.verdict.name(),
    })
}

fn path(of: &PathComparison) -> Value {
    let side =
        |at: usize| json!({"periods": of.periods[at], "of_unknown_threads": of.unknown[at], "mean_ns": of.mean_ns[at]});
    let cause = |cause: &PathCause| {
        let [a, b] = cause.mean_ns;
        json!({
            "why": cause.why, "state": cause.state, "own": cause.is_own, "a_mean_ns": a, "b_mean_ns": b,
            "difference_ns": cause.change(),
        })
    };
    json!({
        "period": of.name,
        "a": side(0),
        "b": side(1),
        "sentence": of.sentence,
        "causes": of.causes.iter().map(cause).collect::<Vec<_>>(),
    })
}

fn spread(of: &ValueSpread) -> Value {
    let (min, max) = of.extremes().unzip();
    let percentile = |hundredths| of.percentile(hundredths);
    json!({
        "count": of.count(),
        "sum": of.sum(),
        "mean": of.mean(),
        "min": min,
        "p50": percentile(50),
        "p90": percentile(90),
        "p99": percentile(99),
        "max": max,
    })
}
