//! Analyses: the reports that they listen to, and how they describe themselves.

use std::collections::HashSet;
use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_semantics::Concept;
use tracemill_semantics::states::{CpuIndex, Machines, Ns, Observer};

use crate::kernel::question::forms::Form;
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::table::Table;

/// Kinds of reports of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ReportKind {
    /// [`Observer::cpu_piece`].
    CpuPiece,
    /// [`Observer::thread_piece`].
    ThreadPiece,
    /// [`Observer::credit`].
    Credit,
    /// [`Observer::born`].
    Born,
    /// [`Observer::forked`].
    Forked,
    /// [`Observer::woken`].
    Woken,
    /// [`Observer::scheduled`].
    Scheduled,
    /// [`Observer::switched`].
    Switched,
    /// [`Observer::run_began`].
    RunBegan,
    /// [`Observer::run_ended`].
    RunEnded,
    /// [`Observer::interrupt`].
    Interrupt,
    /// [`Observer::call_began`].
    CallBegan,
    /// [`Observer::call_ended`].
    CallEnded,
    /// [`Observer::taken`].
    Taken,
    /// [`Analysis::passed`].
    Passed,
}

impl ReportKind {
    /// All of them.
    pub const ALL: &'static [ReportKind] = &[
        ReportKind::CpuPiece,
        ReportKind::ThreadPiece,
        ReportKind::Credit,
        ReportKind::Born,
        ReportKind::Forked,
        ReportKind::Woken,
        ReportKind::Scheduled,
        ReportKind::Switched,
        ReportKind::RunBegan,
        ReportKind::RunEnded,
        ReportKind::Interrupt,
        ReportKind::CallBegan,
        ReportKind::CallEnded,
        ReportKind::Taken,
        ReportKind::Passed,
    ];
}

/// The times whose reports an analysis needs, where it is about a period. Pieces of time and interrupts are told to those
/// whose period they touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportTimes {
    /// Pieces of the range only.
    Range,
    /// Pieces of the whole trace.
    All,
}

/// One analysis: it looks on while the events pass, and says at the end what it has seen.
pub trait Analysis: Observer {
    /// The reports that it is told, and of what times; all unless it says so.
    fn hears(&self) -> (&'static [ReportKind], ReportTimes) {
        (ReportKind::ALL, ReportTimes::All)
    }

    /// Any event has passed, whatever it says.
    fn passed<'e>(
        &mut self,
        _machines: &Machines,
        _machine: u32,
        _cpu: Option<CpuIndex>,
        _event: &dyn Fn() -> Event<'e>,
        _at: Ns,
    ) {
    }

    /// An analysis of the same question about a period, which asks this one for what was before. From then on this one is
    /// told all reports, before others are, and has no table; the other one hears those of its period only. `None` where
    /// nothing before the period counts.
    fn within(&mut self, _period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        None
    }

    /// Its result so far. `range` is that of the events, cut to the wanted one; `None` without events.
    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table;
}

/// The part of an analysis, where several are about periods.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum PeriodRole {
    /// It is the only one.
    #[default]
    Alone,
    /// It looks at all events, and knows what was before each period.
    Leads,
    /// It is about one period, and asks the one that leads.
    Follows,
}

impl PeriodRole {
    /// Does it look at all events itself?
    pub(super) fn looks(self) -> bool {
        self != PeriodRole::Follows
    }

    /// Has it a table?
    pub(super) fn tells(self) -> bool {
        self != PeriodRole::Leads
    }
}

/// An analysis that there is.
pub struct Descriptor {
    /// Its name.
    pub name: &'static str,
    /// Its purpose in one line.
    pub about: &'static str,
    /// Its forms, the plain one first.
    pub forms: &'static [Form],
    /// Concepts without which it says nothing: at least one of each group.
    pub needs: &'static [&'static [Concept]],
    /// Concepts without which it says nothing when a word or a group is asked for: at least one of each group.
    pub needs_for: &'static [(&'static str, &'static [Concept])],
    /// Concepts without which a part cannot be told, and that part.
    pub wants: &'static [(Concept, &'static str)],
    /// A question to it, as it is typed, about the trace of the demo.
    pub example: &'static str,
    /// Makes it.
    pub make: fn(&AnalysisQuery) -> Box<dyn Analysis>,
}

impl Descriptor {
    /// Groups of concepts of which the traces have none.
    pub fn lacks(&self, has: &HashSet<Concept>) -> Vec<&'static [Concept]> {
        self.needs.iter().copied().filter(|group| !group.iter().any(|concept| has.contains(concept))).collect()
    }
}
