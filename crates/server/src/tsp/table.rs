//! The table of events.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use tracemill_answers::{Asker, Row, TraceState, read_rows};
use tracemill_codec::text::out::Out;
use tracemill_lod::Index;
use tracemill_render::time::{TimeStyle, WallClock};

use super::experiments::{Experiment, clamp};
use super::outputs::{completed, response};
use super::parameters::Parameters;
use super::refusal::{Answered, Refusal};

/// Lines of one answer at most.
const MOST_LINES: usize = 10_000;
/// Events that are read at once in a search.
const AT_ONCE: usize = 512;
/// Bytes that an expression may take when it is compiled.
const MOST_REGEX: usize = 1 << 20;
/// The tag of lines that match: they are highlighted.
const HIGHLIGHT: u32 = 8;

/// A column. Clients know the last one by its name: they go from lines to times by it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Column {
    Trace,
    Timestamp,
    Cpu,
    Stream,
    EventType,
    Contents,
    Ns,
}

const COLUMNS: [(Column, &str, &str, &str); 7] = [
    (Column::Timestamp, "Timestamp", "TIMESTAMP", "Time of the event in universal time"),
    (Column::Trace, "Trace", "STRING", "Name of the trace"),
    (Column::Cpu, "CPU", "NUMBER", "CPU of the packet that the event is in"),
    (Column::Stream, "Stream", "STRING", "Stream of the event"),
    (Column::EventType, "Event type", "STRING", "Name of the event"),
    (Column::Contents, "Contents", "STRING", "Fields of the event"),
    (Column::Ns, "Timestamp ns", "NUMBER", "Time of the event in ns"),
];

/// The columns.
pub(super) fn columns() -> Value {
    let columns = COLUMNS.iter().enumerate().map(|(id, (_, name, kind, description))| {
        json!({ "id": id, "name": name, "type": kind, "description": description })
    });
    completed(Value::Array(columns.collect()))
}

/// The column of a number that a client sent.
fn column(id: i64) -> Option<Column> {
    COLUMNS.get(usize::try_from(id).ok()?).map(|(column, ..)| *column)
}

/// The expressions of a search: a line matches when each is found in its column.
struct LineSearch(Vec<(Column, Regex)>);

impl LineSearch {
    fn from_parameters(parameters: &Parameters) -> Answered<Option<LineSearch>> {
        let Some(map) = parameters.get("table_search_expressions") else { return Ok(None) };
        let wrong = || Refusal::parameters("`table_search_expressions` is not a map from columns to texts");
        let mut list = Vec::new();
        for (id, text) in map.as_object().ok_or_else(wrong)? {
            let column = id.parse().ok().and_then(column).ok_or_else(wrong)?;
            let text = text.as_str().ok_or_else(wrong)?;
            let regex = RegexBuilder::new(text).size_limit(MOST_REGEX).build();
            list.push((column, regex.map_err(|error| Refusal::parameters(error.to_string()))?));
        }
        Ok((!list.is_empty()).then_some(LineSearch(list)))
    }

    fn matches(&self, of: &mut LineTexts<'_>, row: &Row) -> bool {
        self.0.iter().all(|(column, regex)| regex.is_match(&of.text(*column, row)))
    }

    /// May an event match? Only what the index says is looked at; reading events takes longer.
    fn may_match(&self, of: &LineTexts<'_>, event: usize) -> bool {
        self.0.iter().all(|(column, regex)| match column {
            Column::EventType => of.index.kind(event).is_some_and(|(name, _)| regex.is_match(name)),
            Column::Trace => regex.is_match(of.trace(event)),
            _ => true,
        })
    }

    /// Does the index say all that is looked at?
    fn is_of_index(&self) -> bool {
        self.0.iter().all(|(column, _)| matches!(column, Column::EventType | Column::Trace))
    }

    /// The first event from one on, or the last one up to it, that matches.
    fn find(&self, of: &mut LineTexts<'_>, from: usize, is_next: bool, asker: &Asker) -> Answered<Option<usize>> {
        let end = of.index.events();
        let mut events: Box<dyn Iterator<Item = usize>> = match is_next {
            true => Box::new(from..end),
            false => Box::new((0..end.min(from.saturating_add(1))).rev()),
        };
        let mut batch = Vec::with_capacity(AT_ONCE);
        loop {
            if asker.is_over(&of.state.progress) {
                return Err(Asker::cancelled().into());
            }
            batch.clear();
            // Events that the index rules out are passed over; now and then the loop asks whether the answer is still wanted.
            let seen: Vec<usize> = events.by_ref().take(64 * AT_ONCE).collect();
            if seen.is_empty() {
                return Ok(None);
            }
            for event in seen {
                if self.may_match(of, event) {
                    if self.is_of_index() {
                        return Ok(Some(event));
                    }
                    batch.push(event);
                }
            }
            for part in batch.chunks(AT_ONCE) {
                let mut part = part.to_vec();
                part.sort_unstable();
                let rows = read_rows(of.state, Some(of.index), &part, false)?;
                let found: Vec<usize> = rows.iter().filter(|row| self.matches(of, row)).map(|row| row.event).collect();
                let found = if is_next { found.first() } else { found.last() };
                if let Some(event) = found {
                    return Ok(Some(*event));
                }
            }
        }
    }
}

/// The texts of lines.
struct LineTexts<'s> {
    state: &'s TraceState,
    index: &'s Index,
    /// Names of traces.
    names: Vec<&'s str>,
    clock: WallClock,
}

impl LineTexts<'_> {
    fn trace(&self, event: usize) -> &str {
        let trace = self.index.kind(event).map(|(_, track)| self.index.tracks[track].trace);
        trace.map_or("", |trace| self.names[trace])
    }

    fn text(&mut self, column: Column, row: &Row) -> String {
        match column {
            Column::Trace => self.trace(row.event).to_string(),
            Column::Timestamp => row.ns.map_or_else(String::new, |ns| {
                let mut out = Out::default();
                self.clock.write(&mut out, ns);
                String::from_utf8_lossy(out.written()).into_owned()
            }),
            Column::Cpu => row.cpu.map_or_else(String::new, |cpu| cpu.to_string()),
            Column::Stream => row.stream_name.clone(),
            Column::EventType => self.index.kind(row.event).map_or("", |(name, _)| name).to_string(),
            Column::Contents => row.text.clone(),
            Column::Ns => row.ns.map_or_else(String::new, |ns| clamp(ns).to_string()),
        }
    }
}

/// Some lines.
pub(super) fn lines(experiment: &Experiment, parameters: &Parameters, asker: &Asker) -> Answered {
    let count = parameters.needed_number("requested_table_count")?;
    let count = usize::try_from(count).map_err(|_| Refusal::parameters("`requested_table_count` is negative"))?;
    let count = count.min(MOST_LINES);
    let first = parameters.number("requested_table_index")?;
    let times = parameters.numbers("requested_times")?;
    if first.is_none() && times.as_ref().is_none_or(|times| times.is_empty()) {
        let text = "`requested_table_index` or `requested_times` is missing";
        return Err(Refusal::new(400, "Missing query parameters", text));
    }
    let unknown = |id: i64| Refusal::parameters(format!("there is no column {id}"));
    let ids = parameters.numbers("requested_table_column_ids")?.filter(|ids| !ids.is_empty());
    let ids = ids.unwrap_or_else(|| (0..COLUMNS.len() as i64).collect());
    if ids.len() > COLUMNS.len() {
        return Err(Refusal::parameters("a column is asked for twice"));
    }
    let columns = ids.iter().map(|id| column(*id).ok_or_else(|| unknown(*id))).collect::<Answered<Vec<Column>>>()?;
    let search = LineSearch::from_parameters(parameters)?;
    let direction = match parameters.text("table_search_direction")? {
        None => None,
        Some("NEXT") => Some(true),
        Some("PREVIOUS") => Some(false),
        Some(_) => return Err(Refusal::parameters("`table_search_direction` is NEXT or PREVIOUS")),
    };
    let state = &*experiment.state;
    response(state, || {
        let missing = || Refusal::new(500, "The events cannot be read", "there is no index of the events");
        let index = &**state.index().ok_or_else(missing)?;
        let total = index.events();
        let from = match (first, times) {
            (Some(first), _) => {
                usize::try_from(first).map_err(|_| Refusal::parameters("a line has no negative index"))?
            }
            (None, times) => {
                let time = times.and_then(|times| times.first().copied()).unwrap_or_default();
                index.first_from(time.into()).unwrap_or(total)
            }
        };
        let style = match state.input.traces.is_unix {
            true => TimeStyle { gmt: true, date: true, ..TimeStyle::default() },
            false => TimeStyle { seconds: true, ..TimeStyle::default() },
        };
        let mut texts = LineTexts { state, index, names: experiment.names().collect(), clock: WallClock::new(style) };
        let from = match (&search, direction) {
            (Some(search), Some(is_next)) => search.find(&mut texts, from, is_next, asker)?.unwrap_or(total),
            _ => from,
        };
        let from = from.min(total);
        let wanted: Vec<usize> = (from..from.saturating_add(count).min(total)).collect();
        let rows = read_rows(state, Some(index), &wanted, false)?;
        let mut lines = Vec::with_capacity(rows.len());
        let mut found: HashMap<Column, bool> = HashMap::new();
        for row in &rows {
            let is_match = search.as_ref().is_some_and(|search| search.matches(&mut texts, row));
            found.clear();
            for (column, regex) in search.iter().flat_map(|search| &search.0) {
                found.insert(*column, is_match && regex.is_match(&texts.text(*column, row)));
            }
            let cells = columns.iter().map(|column| {
                let mut cell = json!({ "content": texts.text(*column, row) });
                if found.get(column) == Some(&true) {
                    cell["tags"] = HIGHLIGHT.into();
                }
                cell
            });
            let cells: Vec<Value> = cells.collect();
            lines.push(json!({ "index": row.event, "cells": cells, "tags": if is_match { HIGHLIGHT } else { 0 } }));
        }
        Ok(json!({ "columnIds": ids, "lowIndex": from, "size": total, "lines": lines }))
    })
}
