//! Durations of pairs that nest as calls do, without what is nested in them; for regressions.

use std::ops::ControlFlow;

use tracemill_engine::filter::KeyBy;
use tracemill_engine::merge::Note;
use tracemill_model::error::Result;

use crate::groups::Groups;
use crate::report::Report;
use crate::run::{Input, run};
use crate::stats::{Table, entry};
use crate::target::Target;

/// Beginnings that may be open at a time.
const MAX_OPEN: usize = 1 << 20;

/// Parameters of the analysis.
pub struct NestedQuery<'a> {
    /// The event that begins.
    pub from: &'a Target,
    /// The event that ends.
    pub to: &'a Target,
    /// Track on which pairs nest: a beginning and its end have it in common.
    pub track: &'a KeyBy,
    /// Key that the durations are grouped by, from the first event of a pair.
    pub by: &'a KeyBy,
}

/// An open beginning.
struct OpenBeginning {
    group: u32,
    from_ns: i128,
    /// Time of the pairs inside.
    inner_ns: i128,
}

/// Measures pairs: an end belongs to the latest beginning of its track that is open. The time of pairs inside a pair is
/// not counted for it.
///
/// # Errors
/// Errors of [`Target::bind`].
pub fn report(
    input: &Input<'_>,
    question: &NestedQuery<'_>,
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
) -> Result<Report> {
    let mut table = Table::new(input.session, question.by, true);
    let mut tracks = Groups::new(input.session, question.track);
    // By track, outermost first.
    let mut stacks: Vec<Vec<OpenBeginning>> = Vec::new();
    let mut open = 0;
    let untimed = run(input, question.from, Some(question.to), note, |role, ns, event| {
        let stack = entry(&mut stacks, tracks.number(event));
        if role.ends {
            match stack.pop() {
                Some(OpenBeginning { group, from_ns, inner_ns }) => {
                    open -= 1;
                    let whole = ns - from_ns;
                    if let Some(outer) = stack.last_mut() {
                        outer.inner_ns = outer.inner_ns.saturating_add(whole.max(0));
                    }
                    table.add(group, whole.saturating_sub(inner_ns));
                }
                None => table.left_out.only_ends += u64::from(!role.begins),
            }
        }
        if role.begins && open == MAX_OPEN {
            table.left_out.too_many += 1;
        } else if role.begins {
            open += 1;
            stack.push(OpenBeginning { group: table.group(event), from_ns: ns, inner_ns: 0 });
        }
    })?;
    table.left_out.untimed = untimed;
    table.left_out.unfinished = open as u64;
    Ok(table.report())
}
