//! Durations of pairs that nest as calls do, without what is nested in them; for regressions.

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
    options: "--regress",
    needs: Needs::NamesAndTimes,
    tells: "how durations grow with their number: linear regression",
};

/// Beginnings that may be open at a time.
const MAX_OPEN: usize = 1 << 20;

/// Parameters of the analysis.
pub struct Question<'a> {
    /// The event that begins.
    pub from: &'a Target,
    /// The event that ends.
    pub to: &'a Target,
    /// Where pairs nest: a beginning and its end have it in common.
    pub lane: &'a KeyBy,
    /// Key that the durations are grouped by, from the first event of a pair.
    pub by: &'a KeyBy,
}

/// Measures pairs: an end belongs to the latest beginning of its lane that is open. The time of pairs inside a pair is
/// not counted for it.
///
/// # Errors
/// Errors of [`Target::bind`].
pub fn report(input: &Input<'_>, question: &Question<'_>, note: &mut dyn FnMut(Note) -> Flow) -> Result<Report> {
    let mut nested = Nested {
        lanes: Groups::new(input.session, question.lane),
        groups: Groups::new(input.session, question.by),
        table: Table::new(true),
        stacks: Vec::new(),
        open: 0,
    };
    let left_out = run(input, question.from, Some(question.to), &mut nested, note)?;
    nested.table.left_out.untimed = left_out.untimed;
    nested.table.left_out.unfinished = nested.open as u64;
    Ok(nested.table.report(nested.groups))
}

struct Nested {
    lanes: Groups,
    groups: Groups,
    table: Table,
    /// By lane, outermost first.
    stacks: Vec<Vec<Open>>,
    open: usize,
}

struct Open {
    group: u32,
    from_ns: i128,
    /// Time of the pairs inside.
    inner_ns: i128,
}

impl Take for Nested {
    fn event(&mut self, role: Role, ns: i128, event: &Event) {
        let lane = self.lanes.number(event) as usize;
        if self.stacks.len() <= lane {
            self.stacks.resize_with(lane + 1, Vec::new);
        }
        let stack = &mut self.stacks[lane];
        if role.ends {
            match stack.pop() {
                Some(open) => {
                    self.open -= 1;
                    let whole = ns - open.from_ns;
                    if let Some(outer) = stack.last_mut() {
                        outer.inner_ns = outer.inner_ns.saturating_add(whole.max(0));
                    }
                    self.table.add(open.group, whole.saturating_sub(open.inner_ns));
                }
                None => self.table.left_out.only_ends += u64::from(!role.begins),
            }
        }
        if role.begins {
            if self.open == MAX_OPEN {
                self.table.left_out.too_many += 1;
                return;
            }
            self.open += 1;
            stack.push(Open { group: self.groups.number(event), from_ns: ns, inner_ns: 0 });
        }
    }
}
