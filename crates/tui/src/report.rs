//! Statistics by function, or by name of event where there are no calls.

use std::sync::Arc;

use tracemill_answers::TraceState;
use tracemill_lod::statistics::{StatisticsRange, sums};

use crate::cursor::{Cursor, CursorMove, next_of};
use crate::range::{Range, ns_range};
use crate::samples::{self, SampledEvents, SampledFunction};
use crate::text::{cut, duration, right, visible};
use crate::work::Work;

/// A function, or a name of events, with its numbers: those of [`KEYS`] in their order.
pub(crate) struct ReportLine {
    name: String,
    /// `None` where there is none.
    numbers: Vec<Option<i128>>,
}

/// The statistics of a range.
pub(crate) struct ReportTable {
    lines: Vec<ReportLine>,
    keys: &'static [ReportColumn],
    /// The events of samples; `None` of calls and of events.
    samples: Option<SampledEvents>,
}

/// A column: its title, whether it counts, and whether it is shown in 80 columns too.
struct ReportColumn {
    title: &'static str,
    is_count: bool,
    is_always: bool,
}

const fn key(title: &'static str, is_count: bool, is_always: bool) -> ReportColumn {
    ReportColumn { title, is_count, is_always }
}

const CALLS: &[ReportColumn] = &[
    key("total", false, true),
    key("self", false, true),
    key("calls", true, true),
    key("min", false, false),
    key("mean", false, false),
    key("p50", false, false),
    key("p90", false, false),
    key("p99", false, true),
    key("max", false, true),
];

const TIMED_SAMPLES: &[ReportColumn] =
    &[key("total", false, true), key("self", false, true), key("samples", true, true)];

const COUNTED_SAMPLES: &[ReportColumn] =
    &[key("total", true, true), key("self", true, true), key("samples", true, true)];

const EVENTS: &[ReportColumn] =
    &[key("events", true, true), key("gap min", false, true), key("gap p50", false, true), key("gap max", false, true)];

/// The screen.
#[derive(Default)]
pub(crate) struct Report {
    table: Work<ReportTable>,
    /// The order of the lines of the table by the key, which is the number of columns for the name.
    order: Vec<usize>,
    key: usize,
    /// Is the table that of traces that have grown since?
    is_old: bool,
    pub(crate) cursor: Cursor,
}

impl Report {
    /// Asks for the statistics, unless that was done; of samples, those of an event.
    pub(crate) fn request(&mut self, state: &Arc<TraceState>, range: Option<Range>, event: Option<&str>) {
        if !self.table.needs(self.is_old) || !state.is_complete() {
            return;
        }
        let (state, event) = (state.clone(), event.map(str::to_string));
        self.is_old = false;
        self.table.refresh(move || table(&state, range, event.as_deref()));
    }

    /// The traces have grown: the table stays until there is another one.
    pub(crate) fn grow(&mut self) {
        self.is_old = true;
    }

    /// The events of the samples that are shown.
    pub(crate) fn samples(&self) -> Option<&SampledEvents> {
        self.table.get()?.samples.as_ref()
    }

    /// Another range is wanted, or more is known.
    pub(crate) fn forget(&mut self) {
        self.table.clear();
        self.order.clear();
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.table.is_running()
    }

    pub(crate) fn poll(&mut self) -> bool {
        let chosen = self.table.is_refreshing().then(|| self.chosen().map(str::to_string)).flatten();
        let is_new = self.table.poll();
        if is_new {
            // The lines of another table are others.
            self.order.clear();
            self.sort();
            let name = |at: &usize| self.table.get().map(|table| &table.lines[*at].name);
            let at = chosen.and_then(|chosen| self.order.iter().position(|at| name(at) == Some(&chosen)));
            self.cursor.at = at.unwrap_or(self.cursor.at);
        }
        is_new
    }

    /// Puts the lines into the order of the key. The cursor stays on its function.
    fn sort(&mut self) {
        let chosen = self.order.get(self.cursor.at).copied();
        let Some(table) = self.table.get() else { return };
        let mut order: Vec<usize> = (0..table.lines.len()).collect();
        let name = |at: usize| &table.lines[at].name;
        match table.keys.get(self.key) {
            Some(_) => order.sort_by(|&a, &b| {
                let number = |at: usize| table.lines[at].numbers[self.key];
                number(b).cmp(&number(a)).then_with(|| name(a).cmp(name(b)))
            }),
            None => order.sort_by(|&a, &b| name(a).cmp(name(b))),
        }
        self.cursor.at = chosen.and_then(|chosen| order.iter().position(|own| *own == chosen)).unwrap_or(0);
        self.order = order;
    }

    /// Takes the next key.
    pub(crate) fn next_key(&mut self) {
        let Some(table) = self.table.get() else { return };
        self.key = (self.key + 1) % (table.keys.len() + 1);
        self.sort();
    }

    pub(crate) fn step(&mut self, step: CursorMove) {
        self.cursor.step(step, self.order.len());
    }

    /// The chosen function.
    pub(crate) fn chosen(&self) -> Option<&str> {
        Some(&self.table.get()?.lines[*self.order.get(self.cursor.at)?].name)
    }

    /// Chooses the next function whose name holds a text.
    pub(crate) fn search(&mut self, text: &str, is_next: bool) -> bool {
        let Some(table) = self.table.get() else { return false };
        let text = text.to_lowercase();
        let names: Vec<String> = self.order.iter().map(|at| table.lines[*at].name.to_lowercase()).collect();
        match next_of(names.len(), self.cursor.at, is_next, |at| names[at].contains(&text)) {
            Some(at) => {
                self.cursor.at = at;
                true
            }
            None => false,
        }
    }

    /// The header, the lines in sight, the chosen one.
    pub(crate) fn lines(&mut self, (width, height): (usize, usize)) -> (String, Vec<String>, Option<usize>) {
        let Some(table) = self.table.get() else { return (String::new(), Vec::new(), None) };
        let (top, height) = (self.cursor.top(height), height.max(1));
        let shown: Vec<usize> =
            (0..table.keys.len()).filter(|&at| width >= 120 || table.keys[at].is_always || at == self.key).collect();
        let columns = |cell: &dyn Fn(usize) -> String, name: &str| {
            let cells: String = shown.iter().map(|&at| format!("{} ", right(&cell(at), 11))).collect();
            cut(&(cells + name), width)
        };
        let title = |at: usize| {
            let title = table.keys[at].title;
            if at == self.key { format!("{title} v") } else { title.to_string() }
        };
        let name_title = if self.key == table.keys.len() { "name ^" } else { "name" };
        let header = columns(&title, name_title);
        let line = |line: &ReportLine| {
            let cell = |at: usize| match (line.numbers[at], table.keys[at].is_count) {
                (None, _) => "-".to_string(),
                (Some(number), true) => number.to_string(),
                (Some(ns), false) => duration(ns),
            };
            columns(&cell, &visible(&line.name))
        };
        let lines: Vec<String> = self.order.iter().skip(top).take(height).map(|at| line(&table.lines[*at])).collect();
        let chosen = (!lines.is_empty()).then(|| self.cursor.at - top);
        (header, lines, chosen)
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

fn table(state: &TraceState, range: Option<Range>, event: Option<&str>) -> ReportTable {
    if let Some(calls) = state.calls() {
        let line = |of: &tracemill_lod::calls::FunctionTotals| {
            let (min, mean, max) = match of.durations() {
                Some((min, mean, max)) => (Some(min), Some(mean), Some(max)),
                None => (None, None, None),
            };
            let percentile = |p| of.percentile(p).map(i128::from);
            ReportLine {
                name: calls.names[of.name as usize].clone(),
                numbers: vec![
                    Some(of.total),
                    Some(of.own),
                    Some(of.calls.into()),
                    min.map(i128::from),
                    mean.map(i128::from),
                    percentile(50),
                    percentile(90),
                    percentile(99),
                    max.map(i128::from),
                ],
            }
        };
        let found = calls.statistics(ns_range(range, calls), None, &|| false).unwrap_or_default();
        return ReportTable { lines: found.iter().map(line).collect(), keys: CALLS, samples: None };
    }
    if let Some((stacks, events)) = samples::stacks(state, range, event) {
        let line = |of: SampledFunction| ReportLine {
            numbers: [of.total, of.own, of.samples].map(|number| Some(number.into())).to_vec(),
            name: of.name,
        };
        let keys = if stacks.unit == "ns" { TIMED_SAMPLES } else { COUNTED_SAMPLES };
        let lines = samples::functions(&stacks).into_iter().map(line).collect();
        return ReportTable { lines, keys, samples: Some(events) };
    }
    let Some(index) = state.index() else { return ReportTable { lines: Vec::new(), keys: EVENTS, samples: None } };
    let sums = sums(index, StatisticsRange { range, ..StatisticsRange::default() }, &|| false).unwrap_or_default();
    let line = |of: &tracemill_lod::statistics::NameStats| {
        let gap = |pick: fn((i64, i64, i64)) -> i64| of.gaps.map(|gaps| i128::from(pick(gaps)));
        let numbers = vec![Some(of.events.into()), gap(|gaps| gaps.0), gap(|gaps| gaps.1), gap(|gaps| gaps.2)];
        ReportLine { name: index.names[of.name as usize].clone(), numbers }
    };
    ReportTable { lines: sums.names.iter().map(line).collect(), keys: EVENTS, samples: None }
}
