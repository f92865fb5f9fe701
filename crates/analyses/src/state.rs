//! Time between occurrences of an event: how long the state lasts that it begins.

use std::ops::ControlFlow;

use tracemill_engine::event::Event;
use tracemill_engine::filter::KeyBy;
use tracemill_engine::merge::Note;
use tracemill_model::error::Result;

use crate::pairs;
use crate::report::Report;
use crate::run::{Input, Part, Role, run_parts};
use crate::stats::{Joined, Table};
use crate::target::Target;

/// Parameters of the analysis.
pub struct StateQuery<'a> {
    /// The event.
    pub event: &'a Target,
    /// Key that the durations are grouped by.
    pub by: &'a KeyBy,
    /// Does a state last until the next occurrence of the same group, instead of that of any group?
    pub within: bool,
    /// Are lines wanted?
    pub regress: bool,
}

/// Measures the time between occurrences.
///
/// # Errors
/// Errors of [`Target::bind`].
pub fn report(
    input: &Input<'_>,
    question: &StateQuery<'_>,
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
) -> Result<Report> {
    if question.within {
        // In each group, every occurrence ends the state before and begins one.
        let targets = (question.event, Some(question.event));
        let mut report = pairs::measure(input, targets, question.by, question.regress, note)?;
        report.left_out.unfinished = 0;
        return Ok(report);
    }
    let mut joined = Joined::default();
    // Group and time of the last occurrence.
    let mut last: Option<(u32, i128)> = None;
    let make =
        || Occurrences { table: Table::for_part(input, question.by, question.regress), first_ns: None, last: None };
    let targets = (question.event, None);
    let (parts, untimed) = run_parts(input, targets, question.regress, note, make, |part, edge: Edge| {
        joined.number_groups(part, edge.fresh);
        let (Some(first_ns), Some((group, from))) = (edge.first_ns, edge.last) else { return };
        let own = joined.group(part, group);
        if let Some((before, begun)) = last.replace((own, from)) {
            joined.add(before, first_ns - begun);
        }
    })?;
    joined.left_out.untimed = untimed;
    Ok(joined.report(parts.into_iter().map(|part| part.table).collect()))
}

/// The occurrences of stretches.
struct Occurrences {
    table: Table,
    /// Time of the first one of the stretch.
    first_ns: Option<i128>,
    /// Group and time of its last one so far.
    last: Option<(u32, i128)>,
}

/// The first and the last occurrence of a stretch, and the groups that are new in it.
struct Edge {
    first_ns: Option<i128>,
    last: Option<(u32, i128)>,
    fresh: Vec<Box<[u8]>>,
}

impl Part for Occurrences {
    type Edge = Edge;

    #[inline]
    fn add_event(&mut self, _: Role, ns: i128, event: &Event) {
        let group = self.table.group(event);
        match self.last.replace((group, ns)) {
            Some((before, from)) => self.table.add(before, ns - from),
            None => self.first_ns = Some(ns),
        }
    }

    fn end(&mut self) -> Edge {
        Edge { first_ns: self.first_ns.take(), last: self.last.take(), fresh: self.table.fresh() }
    }
}
