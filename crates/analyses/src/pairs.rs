//! Durations from one event to another of the same key.

use tracemill_engine::filter::KeyBy;
use tracemill_engine::item::Flow;
use tracemill_engine::merge::Note;
use tracemill_model::error::Result;

use crate::report::Report;
use crate::run::{Input, Wanted, run_of};
use crate::stats::{Table, entry};
use crate::target::Target;

/// Parameters of the analysis.
pub struct Question<'a> {
    /// The event that begins.
    pub from: &'a Target,
    /// The event that ends.
    pub to: &'a Target,
    /// Key that the durations are grouped by, equal for both events of a pair.
    pub by: &'a KeyBy,
    /// Are lines wanted?
    pub regress: bool,
}

/// Measures pairs. The latest beginning of a group counts; an event that is both ends the pair before and begins the
/// next one.
///
/// # Errors
/// Errors of [`Target::bind`].
pub fn report(input: &Input<'_>, question: &Question<'_>, note: &mut dyn FnMut(Note) -> Flow) -> Result<Report> {
    report_of(input, question, None, note, |_, _| {})
}

/// As [`report`], of some events only; `each` is told when each pair begins and ends, in the order of their ends.
///
/// # Errors
/// Errors of [`Target::bind`].
pub fn report_of(
    input: &Input<'_>,
    question: &Question<'_>,
    wanted: Option<Wanted<'_>>,
    note: &mut dyn FnMut(Note) -> Flow,
    mut each: impl FnMut(i128, i128),
) -> Result<Report> {
    let mut table = Table::new(input.session, question.by, question.regress);
    // Time of the open beginning, by group.
    let mut open: Vec<Option<i128>> = Vec::new();
    let targets = (question.from, Some(question.to));
    let untimed = run_of(input, targets, wanted, note, |role, ns, event| {
        let group = table.group(event);
        let begun = entry(&mut open, group);
        if role.ends {
            match begun.take() {
                Some(from) => {
                    table.add(group, ns - from);
                    each(from, ns);
                }
                // An event that is both has nothing to end the first time.
                None => table.left_out.only_ends += u64::from(!role.begins),
            }
        }
        if role.begins && begun.replace(ns).is_some() {
            table.left_out.restarted += 1;
        }
    })?;
    table.left_out.untimed = untimed;
    table.left_out.unfinished = open.iter().flatten().count() as u64;
    Ok(table.report())
}
