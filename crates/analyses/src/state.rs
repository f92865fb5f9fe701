//! Time between occurrences of an event: how long the state lasts that it begins.

use tracemill_engine::filter::KeyBy;
use tracemill_engine::item::Flow;
use tracemill_engine::merge::Note;
use tracemill_model::error::Result;

use crate::report::Report;
use crate::run::{Input, run};
use crate::stats::{Table, entry};
use crate::target::Target;

/// Parameters of the analysis.
pub struct Question<'a> {
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
pub fn report(input: &Input<'_>, question: &Question<'_>, note: &mut dyn FnMut(Note) -> Flow) -> Result<Report> {
    let mut table = Table::new(input.session, question.by, question.regress);
    // Group and time of the last occurrence, and times by group.
    let mut last: Option<(u32, i128)> = None;
    let mut lasts: Vec<Option<i128>> = Vec::new();
    let untimed = run(input, question.event, None, note, |_, ns, event| {
        let group = table.group(event);
        let before = match question.within {
            true => entry(&mut lasts, group).replace(ns).map(|from| (group, from)),
            false => last.replace((group, ns)),
        };
        if let Some((group, from)) = before {
            table.add(group, ns - from);
        }
    })?;
    table.left_out.untimed = untimed;
    Ok(table.report())
}
