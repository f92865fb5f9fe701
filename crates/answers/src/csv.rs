//! Tables as CSV, line by line while they are fetched: they may have any length.

use std::sync::Arc;

use serde_json::Value;
use tracemill_codec::text::out::Out;
use tracemill_lod::Index;
use tracemill_render::csv::put_line;

use crate::error::{Answer, ApiError};
use crate::ids::base_id;
use crate::measures::EventChoice;
use crate::query::{Asker, Query};
use crate::rows::RowReader;
use crate::selection;
use crate::state::TraceState;

/// Takes the text of a file.
pub trait TextSink {
    /// Takes some text; false when no more is wanted.
    fn write_text(&mut self, text: Vec<u8>) -> bool;

    /// Is no more wanted? Asked for each row: a filter may leave few, far from each other.
    fn is_gone(&self) -> bool;
}

/// Makes the text of a file.
pub type Write = Box<dyn FnOnce(&mut dyn TextSink) -> Answer<()> + Send + Sync>;

/// Bytes that are passed on together.
const TOGETHER: usize = 128 << 10;

const EVENTS: [&str; 8] = ["event", "ns", "since", "name", "cpu", "trace", "track", "text"];
const NAMES: [&str; 5] = ["name", "events", "gap_min", "gap_p50", "gap_max"];
const CALLS: [&str; 11] = ["name", "calls", "whole", "total", "self", "min", "mean", "p50", "p90", "p99", "max"];

/// The rows of the table that a question is about.
pub(crate) fn events(state: &Arc<TraceState>, query: &Query) -> Answer<Write> {
    let set = query.get("filter").map(|text| state.set_for(text, &query.asker)).transpose()?;
    // Mistakes are reported before anything is fetched.
    EventChoice::new(state, state.whole_index()?, query, set.as_deref())?;
    // The asker of the question has gone on when the file is fetched.
    let (state, query) = (state.clone(), Query { asker: Asker::default(), ..query.clone() });
    Ok(Box::new(move |taker: &mut dyn TextSink| {
        let index: &Index = state.whole_index()?;
        let wanted = EventChoice::new(&state, index, &query, set.as_deref())?;
        let (mut reader, mut before) = (None, None);
        let mut out = Out::default();
        put_line(&mut out, &EVENTS);
        for event in wanted.events() {
            if taker.is_gone() {
                return Ok(());
            }
            let row = RowReader::on(&mut reader, &state, index, event, false);
            let row = row.ok_or_else(|| ApiError::new(500, "fault", "the traces cannot be read any more"))?;
            let (time, (name, track)) = (index.ns(event), index.kind(event).unwrap_or_default());
            let since = before.zip(time).map(|(before, time): (i128, i128)| time - before);
            before = time;
            let text = |number: Option<i128>| number.map_or(String::new(), |number| number.to_string());
            let own = &index.tracks[track];
            let cells = [
                event.to_string(),
                text(time),
                text(since),
                name.to_string(),
                row.cpu.map_or(String::new(), |cpu| cpu.to_string()),
                own.trace.to_string(),
                if own.name.is_empty() { base_id(track) } else { own.name.clone() },
                row.text,
            ];
            put_line(&mut out, &cells);
            if out.written().len() >= TOGETHER && !taker.write_text(std::mem::take(&mut out).written().to_vec()) {
                return Ok(());
            }
        }
        taker.write_text(out.written().to_vec());
        Ok(())
    }))
}

/// The statistics that a question is about: names, and functions after an empty line.
pub(crate) fn statistics(state: &Arc<TraceState>, query: &Query) -> Answer<Write> {
    let set = query.get("filter").map(|text| state.set_for(text, &query.asker)).transpose()?;
    let told = selection::select(state, query, set.as_deref())?;
    Ok(Box::new(move |taker: &mut dyn TextSink| {
        let mut out = Out::default();
        table(&mut out, &NAMES, &told["names"]);
        if told["calls"].as_array().is_some_and(|calls| !calls.is_empty()) {
            out.put(b"\n");
            table(&mut out, &CALLS, &told["calls"]);
        }
        taker.write_text(out.written().to_vec());
        Ok(())
    }))
}

fn table(out: &mut Out, columns: &[&str], rows: &Value) {
    put_line(out, columns);
    for row in rows.as_array().into_iter().flatten() {
        let cells: Vec<String> = columns.iter().map(|column| cell(&row[*column])).collect();
        put_line(out, &cells);
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The parameters of a question in the body of a request, with its asker.
pub(crate) fn question(body: &Value, asker: &Asker) -> Query {
    let tracks: Vec<&str> = body["tracks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let plain = ["begin", "end", "filter"].map(|name| (name, cell(&body[name])));
    let list = plain.into_iter().chain([("tracks", tracks.join(","))]);
    Query { list: list.map(|(name, value)| (name.to_string(), value)).collect(), asker: asker.clone() }
}
