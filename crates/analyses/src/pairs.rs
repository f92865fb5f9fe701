//! Durations from one event to another of the same key.

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
    options: "--from EVENT --to EVENT",
    needs: Needs::NamesAndTimes,
    tells: "time from one event to the next other one of the same group",
};

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
    let mut pairs = Pairs {
        groups: Groups::new(input.session, question.by),
        table: Table::new(question.regress),
        open: Vec::new(),
    };
    let left_out = run(input, question.from, Some(question.to), &mut pairs, note)?;
    pairs.table.left_out.untimed = left_out.untimed;
    pairs.table.left_out.unfinished = pairs.open.iter().flatten().count() as u64;
    Ok(pairs.table.report(pairs.groups))
}

struct Pairs {
    groups: Groups,
    table: Table,
    /// Time of the open beginning, by group.
    open: Vec<Option<i128>>,
}

impl Take for Pairs {
    #[inline]
    fn event(&mut self, role: Role, ns: i128, event: &Event) {
        let group = self.groups.number(event);
        let at = group as usize;
        if self.open.len() <= at {
            self.open.resize(at + 1, None);
        }
        if role.ends {
            match self.open[at].take() {
                Some(from) => self.table.add(group, ns - from),
                // An event that is both has nothing to end the first time.
                None => self.table.left_out.only_ends += u64::from(!role.begins),
            }
        }
        if role.begins && self.open[at].replace(ns).is_some() {
            self.table.left_out.restarted += 1;
        }
    }
}
