//! Short plans, and sections of flat ones.

use super::run::{PlanTables, run_list};
use super::{DecoderState, Op, Plan, PlanInput, Visitor};

/// A short plan, all in one place: traces of thousands of classes meet another class with every event, and each cache
/// line that its plan takes is waited for.
#[derive(Clone, Debug)]
pub(crate) struct ShortPlan {
    ops: [Op; SHORT],
    len: u8,
    /// End of the first section.
    first: u8,
    slots: u8,
    /// These instructions are enough to show an event of the class: they need neither its header nor what a shared
    /// context has saved.
    pub(crate) is_all: bool,
}

/// Sections of a flat row plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlatSections {
    All,
    /// The common context.
    First,
    /// The sections after it.
    BehindFirst,
}

impl FlatSections {
    pub(crate) fn range(self, sections: usize) -> std::ops::Range<usize> {
        match self {
            FlatSections::All => 0..sections,
            FlatSections::First => 0..sections.min(1),
            FlatSections::BehindFirst => sections.min(1)..sections,
        }
    }
}

/// Instructions of a short plan: with the rest they fill two cache lines.
const SHORT: usize = 7;

const _: () = assert!(size_of::<std::sync::OnceLock<ShortPlan>>() <= 128);

impl ShortPlan {
    /// The short form of a plan; empty, and not all, when it is too long or needs tables.
    pub(crate) fn from_plan(plan: &Plan, needs_header: bool, shared: usize) -> Self {
        let fits =
            plan.ops.len() <= SHORT && plan.tables.is_empty() && plan.renders.is_empty() && plan.lengths.is_empty();
        let uses_shared = plan.ops.iter().any(|op| op.uses().is_some_and(|slot| usize::from(slot) < shared));
        let mut short = ShortPlan { ops: [Op::Jump { to: 0 }; SHORT], len: 0, first: 0, slots: 0, is_all: false };
        let Ok(slots) = u8::try_from(plan.slots) else { return short };
        if fits && !needs_header && !uses_shared {
            short.ops[..plan.ops.len()].copy_from_slice(&plan.ops);
            (short.len, short.slots, short.is_all) = (plan.ops.len() as u8, slots, true);
            short.first = plan.ends.first().map_or(0, |&end| end as u8);
        }
        short
    }

    /// Runs some of its sections; false when the event ends early.
    #[inline(always)]
    pub(crate) fn run<V: Visitor>(
        &self,
        sections: FlatSections,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
        visitor: &mut V,
    ) -> bool {
        state.grow(usize::from(self.slots));
        let (begin, end) = match sections {
            FlatSections::All => (0, self.len),
            FlatSections::First => (0, self.first),
            FlatSections::BehindFirst => (self.first, self.len),
        };
        let ops = &self.ops[..usize::from(end).min(SHORT)];
        run_list(ops, usize::from(begin), PlanTables::NONE, input, pos_bits, state, visitor).is_ok()
    }
}
