//! Time between occurrences of an event: how long the state lasts that it begins.

use tracemill_engine::event::Event;
use tracemill_engine::filter::KeyBy;
use tracemill_engine::item::Flow;
use tracemill_engine::merge::Note;
use tracemill_model::error::Result;

use crate::groups::Groups;
use crate::registry::{Analysis, Needs};
use crate::report::Report;
use crate::run::{Input, Role, Take, run};
use crate::stats::Table;
use crate::target::Target;

/// In the registry.
pub(crate) const ANALYSIS: Analysis = Analysis {
    options: "--state EVENT",
    needs: Needs::NamesAndTimes,
    tells: "time from each occurrence of an event to the next, charged to the group of the earlier one",
};

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
    let mut state = State {
        groups: Groups::new(input.session, question.by),
        table: Table::new(question.regress),
        within: question.within,
        last: None,
        lasts: Vec::new(),
    };
    let left_out = run(input, question.event, None, &mut state, note)?;
    state.table.left_out.untimed = left_out.untimed;
    Ok(state.table.report(state.groups))
}

struct State {
    groups: Groups,
    table: Table,
    within: bool,
    /// Group and time of the last occurrence.
    last: Option<(u32, i128)>,
    /// The same by group.
    lasts: Vec<Option<i128>>,
}

impl Take for State {
    #[inline]
    fn event(&mut self, _role: Role, ns: i128, event: &Event) {
        let group = self.groups.number(event);
        let before = if self.within {
            if self.lasts.len() <= group as usize {
                self.lasts.resize(group as usize + 1, None);
            }
            self.lasts[group as usize].replace(ns).map(|ns| (group, ns))
        } else {
            self.last.replace((group, ns))
        };
        if let Some((group, from)) = before {
            self.table.add(group, ns - from);
        }
    }
}
