//! Analyses: the reports that they subscribe to, and how they describe themselves.

use std::collections::HashSet;
use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_format::calls::CallTask;
use tracemill_semantics::Concept;
use tracemill_semantics::states::{CpuIndex, Machines, Ns, Observer};

use crate::kernel::question::forms::AnalysisForm;
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
    /// [`Observer::created`].
    Created,
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
    /// [`Observer::context`].
    Context,
    /// [`Observer::applied`].
    Applied,
    /// [`Analysis::on_event`].
    Event,
}

impl ReportKind {
    /// All of them.
    pub const ALL: &'static [ReportKind] = &[
        ReportKind::CpuPiece,
        ReportKind::ThreadPiece,
        ReportKind::Credit,
        ReportKind::Created,
        ReportKind::Forked,
        ReportKind::Woken,
        ReportKind::Scheduled,
        ReportKind::Switched,
        ReportKind::RunBegan,
        ReportKind::RunEnded,
        ReportKind::Interrupt,
        ReportKind::CallBegan,
        ReportKind::CallEnded,
        ReportKind::Context,
        ReportKind::Applied,
        ReportKind::Event,
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

/// One analysis: it observes reports while the events pass, and gives a table at the end.
pub trait Analysis: Observer {
    /// The reports that it gets, and of what times; all by default, which is right and slow.
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (ReportKind::ALL, ReportTimes::All)
    }

    /// A thread whose calls a trace has, before the first event.
    fn met_task(&mut self, _machine: u32, _task: &CallTask) {}

    /// Any event, after the machine of states has read it.
    fn on_event<'e>(
        &mut self,
        _machines: &Machines,
        _machine: u32,
        _cpu: Option<CpuIndex>,
        _event: &dyn Fn() -> Event<'e>,
        _at: Ns,
    ) {
    }

    /// An analysis of the same question about a period, which asks this one for what was before. From then on this one gets
    /// all reports, before others do, and has no table; the other one gets those of its period only. `None` where nothing
    /// before the period counts.
    fn for_period(&mut self, _period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        None
    }

    /// Its result so far. `range` is that of the events, cut to the wanted one; `None` without events.
    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table;
}

/// The role of an analysis, where several are about periods.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum PeriodRole {
    /// It is the only one.
    #[default]
    Alone,
    /// It tracks all events, and knows what was before each period.
    Tracker,
    /// It is about one period, and asks the tracker for what was before.
    View,
}

impl PeriodRole {
    /// Does it track all events itself?
    pub(super) fn is_tracking(self) -> bool {
        self != PeriodRole::View
    }

    /// Has it a table?
    pub(super) fn has_table(self) -> bool {
        self != PeriodRole::Tracker
    }
}

/// Makes the tables that are shown of those of all periods.
pub type OverPeriods = fn(&AnalysisQuery, Vec<Table>) -> Vec<Table>;

/// The description of an analysis: help, the list of analyses and the checks of options follow from it.
pub struct Descriptor {
    /// Its name.
    pub name: &'static str,
    /// Its purpose in one line.
    pub about: &'static str,
    /// Its forms, the plain one first.
    pub forms: &'static [AnalysisForm],
    /// Concepts without which it says nothing: at least one of each group.
    pub needs: &'static [&'static [Concept]],
    /// Concepts without which it says nothing when a word or a group is asked for: at least one of each group.
    pub needs_for: &'static [(&'static str, &'static [Concept])],
    /// Concepts without which a part cannot be shown, and that part.
    pub wants: &'static [(Concept, &'static str)],
    /// The tables that are shown in place of those of all periods; `None` where these are shown.
    pub over_periods: Option<OverPeriods>,
    /// A question to it, as it is typed, about the trace of the demo.
    pub example: &'static str,
    /// Makes it.
    pub make: fn(&AnalysisQuery) -> Box<dyn Analysis>,
}

impl Descriptor {
    /// Do the rows of a question name [places in programs](AnalysisQuery::places)?
    pub fn has_places(&self, query: &AnalysisQuery) -> bool {
        self.columns_for(query).iter().any(|column| column.name == "place")
    }

    /// Groups of concepts of which the traces have none.
    pub fn missing_concepts(&self, has: &HashSet<Concept>) -> Vec<&'static [Concept]> {
        self.needs.iter().copied().filter(|group| !group.iter().any(|concept| has.contains(concept))).collect()
    }
    /// Groups of concepts of which the traces have none, those for the words and the key of a question included.
    pub fn missing_for(&self, query: &AnalysisQuery, has: &HashSet<Concept>) -> Vec<&'static [Concept]> {
        let given = || query.words.iter().map(|word| word.name()).chain(query.by.as_deref());
        let of_options = self.needs_for.iter().filter(|(word, _)| given().any(|own| own == *word));
        let lacks = of_options.map(|(_, group)| *group).filter(|group| !group.iter().any(|one| has.contains(one)));
        self.missing_concepts(has).into_iter().chain(lacks).collect()
    }

    /// Can traces with these concepts answer a question?
    pub fn is_fed(&self, query: &AnalysisQuery, has: &HashSet<Concept>) -> bool {
        self.missing_for(query, has).is_empty()
    }
}
