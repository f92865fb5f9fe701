//! One reading of the events of a session, to which analyses listen.

pub(crate) mod analysis_set;
mod coverage;
mod listed;
mod reader;

use std::cell::{Cell as Slot, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::rc::Rc;

use tracemill_codec::chunk::Chunk;
use tracemill_engine::events::Events;
use tracemill_engine::merge::{Batch, Note};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind};
use tracemill_semantics::states::{ConceptValues, CpuIndex, Happening, Machines, Ns};
use tracemill_semantics::{Concept, Concepts, Field, Recording, Tie};

use crate::kernel::analysis::{Analysis, Descriptor, ReportKind};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::question::unmatched::{self, UnmatchedOption};
use crate::kernel::reading::analysis_set::AnalysisSet;
use crate::kernel::reading::listed::ListedTask;
use crate::kernel::reading::reader::{Class, Reader, Shared};
use crate::kernel::table::{PeriodOf, Table};

/// Input of a reading.
#[derive(Clone)]
pub struct Input<'a> {
    /// The traces.
    pub session: &'a Session,
    /// The streams that are wanted.
    pub streams: &'a [SelectedStream],
    /// The events that are wanted; its times are those of the analyses.
    pub selection: Selection,
    /// The table that ties events to concepts.
    pub concepts: &'a Concepts,
    /// Are all traces of one machine?
    pub same_host: bool,
}

/// A reading that has been prepared.
pub struct Reading<'a> {
    input: Input<'a>,
    reader: Reader,
    machine_names: Rc<Vec<String>>,
    /// A question, and where its options go that nothing in the traces fits.
    watched: Option<(AnalysisQuery, UnmatchedOptions)>,
}

/// Options that nothing in the traces fits, when all events have been read.
pub type UnmatchedOptions = Rc<RefCell<Vec<UnmatchedOption>>>;

impl<'a> Reading<'a> {
    /// Looks up what the classes of all events mean.
    pub fn new(input: Input<'a>) -> Self {
        let (reader, names) = Reader::new(input.session, input.concepts, input.same_host);
        Reading { input, reader, machine_names: Rc::new(names), watched: None }
    }

    /// The concepts that the traces can have events of.
    pub fn concepts(&self) -> HashSet<Concept> {
        self.reader.concepts()
    }

    /// Are there several traces of kernels that do not say of which machine they are? Their states are kept apart.
    pub fn has_strangers(&self) -> bool {
        let is_stranger = |(at, trace): &(usize, &tracemill_format::OpenTrace)| {
            Recording::from_schema(&trace.schema).host.is_none() && self.reader.has(*at, Concept::Switch)
        };
        !self.input.same_host && self.input.session.traces.iter().enumerate().filter(is_stranger).count() > 1
    }

    /// Looks, when all events have been read, for options of a question that no thread and no CPU fits.
    pub fn watch_options(&mut self, query: &AnalysisQuery) -> UnmatchedOptions {
        let found = UnmatchedOptions::default();
        self.watched = Some((query.clone(), found.clone()));
        found
    }

    /// The machine of a trace.
    pub fn machine(&self, trace: usize) -> u32 {
        self.reader.machine(trace)
    }

    /// Names of the machines.
    pub fn machine_names(&self) -> Rc<Vec<String>> {
        self.machine_names.clone()
    }

    /// Reads all events once and gives the tables of the analyses in their order; notes go to `note`, which says whether to
    /// go on.
    ///
    /// # Errors
    /// When no event has a time.
    pub fn run(
        self,
        analyses: Vec<Box<dyn Analysis>>,
        note: &mut dyn FnMut(Note) -> ControlFlow<()>,
    ) -> Result<Vec<Table>> {
        self.run_all(AnalysisSet::new(analyses), note)
    }

    /// As [`run`](Reading::run), the analyses once for each of some periods, which are ordered by their beginnings: first
    /// the tables of the first one.
    ///
    /// # Errors
    /// As [`run`](Reading::run).
    pub fn run_per(
        self,
        periods: &[Rc<PeriodOf>],
        of_each: &[(&Descriptor, AnalysisQuery)],
        note: &mut dyn FnMut(Note) -> ControlFlow<()>,
    ) -> Result<Vec<Table>> {
        let tables = self.run_all(AnalysisSet::per(periods, of_each), note)?;
        Ok(over_periods(of_each, tables))
    }

    fn run_all(self, all: AnalysisSet, note: &mut dyn FnMut(Note) -> ControlFlow<()>) -> Result<Vec<Table>> {
        let Reading { input, reader, machine_names, watched } = self;
        let Selection { begin_ns, end_ns, .. } = input.selection;
        let selection = Selection { begin_ns: None, end_ns: None, ..input.selection.clone() };
        let mut machines = Machines::new(machine_names.len() as u32);
        for trace in 0..input.session.traces.len() {
            machines.set_possible(reader.machine(trace), reader.concepts_of(trace));
        }
        coverage::report_coverage(&mut machines, &reader, input.session, input.streams);
        let of_one_cpu = coverage::machines_of_one_cpu(&reader, machine_names.len(), input.session, input.streams);
        let mut all = all;
        for (trace, machine) in input.session.traces.iter().zip(0..).map(|(trace, at)| (trace, reader.machine(at))) {
            let tasks = trace.reader.calls().map(|calls| calls.tasks()).unwrap_or_default();
            tasks.iter().for_each(|task| all.analyses.iter_mut().for_each(|own| own.met_task(machine, task)));
        }
        let state = RefCell::new(State {
            of_one_cpu,
            machines,
            all,
            left: LeftOut::default(),
            listed: Vec::new(),
            early: vec![Vec::new(); input.streams.len()],
            cpus: vec![(None, None); input.streams.len()],
            streams: input.streams,
            reader,
        });
        let events = Events::new(input.session, input.streams, &selection, None);
        let noted = |found: Note| {
            if let Note::Gap(stream, gap) = &found {
                let at = stream.0 as usize;
                state.borrow_mut().apply_gap(at, &input.streams[at], gap);
            }
            note(found)
        };
        events.for_each_batch(|batch| state.borrow_mut().apply_batch(batch), noted);
        let State { mut machines, mut all, left, .. } = state.into_inner();
        machines.finish(&mut all);
        let machines = Rc::new(machines);
        if let Some((query, found)) = watched {
            *found.borrow_mut() = unmatched::unmatched_options(&machines, &query);
        }
        if machines.begin().is_none() && left.untimed > 0 {
            return Err(Error::unsupported("the events have no time, so nothing can be said of states"));
        }
        let range = machines.begin().map(|first| {
            let begin = begin_ns.map_or(first, |begin| begin.max(first));
            (begin, end_ns.map_or(machines.now(), |end| end.min(machines.now())).max(begin))
        });
        let notes = left.notes(&machines);
        let unseen: Vec<u64> = machines.unseen_cpus().into_iter().map(|(_, cpu)| cpu).collect();
        let AnalysisSet { mut analyses, per, .. } = all;
        let finish = |(at, analysis): (usize, Box<dyn Analysis>)| {
            let period = per.as_ref().map(|per| &per.periods[at / per.each]);
            let mut table = analysis.finish(&machines, period.map(|period| (period.from, period.to)).or(range));
            table.period = period.cloned();
            let own = std::mem::take(&mut table.notes);
            table.notes = notes.iter().copied().chain(own).collect();
            table.lost_on = left.lost_on.iter().copied().collect();
            table.unseen = unseen.clone();
            table.suspensions = machines.suspensions();
            table.sort();
            table
        };
        // Trackers, whose state all periods share, have no tables.
        analyses.truncate(per.as_ref().map_or(usize::MAX, |per| per.periods.len() * per.each));
        Ok(analyses.into_iter().enumerate().map(finish).collect())
    }
}

/// The tables of each period, and in their place those that analyses make of them.
fn over_periods(of_each: &[(&Descriptor, AnalysisQuery)], tables: Vec<Table>) -> Vec<Table> {
    let is_summed =
        |table: &Table| of_each.iter().any(|(known, _)| known.name == table.analysis && known.over_periods.is_some());
    let (summed, mut tables): (Vec<Table>, Vec<Table>) = tables.into_iter().partition(is_summed);
    let mut summed = summed;
    for (known, query) in of_each {
        if let Some(over_periods) = known.over_periods {
            let (own, others) = summed.into_iter().partition(|table| table.analysis == known.name);
            summed = others;
            tables.extend(over_periods(query, own));
        }
    }
    tables
}

/// State that changes while events are read.
struct State<'a> {
    streams: &'a [SelectedStream],
    reader: Reader,
    machines: Machines,
    all: AnalysisSet,
    left: LeftOut,
    /// Threads that events without a time listed since the last event with one.
    listed: Vec<ListedTask>,
    /// Losses before the first packet of a stream, whose CPU is not known yet.
    early: Vec<Vec<Ns>>,
    /// Machines whose events never say their CPU.
    of_one_cpu: Vec<bool>,
    /// The CPU of each stream, as its last packet said, and what the machine knows it by.
    cpus: Vec<(Option<u64>, Option<CpuIndex>)>,
}

impl State<'_> {
    fn apply_batch(&mut self, batch: &Batch) {
        let streams = self.streams;
        let mut shared: Vec<Shared<'_>> = Vec::with_capacity(batch.chunks.len());
        for run in &batch.runs {
            // Runs use the chunks of a batch in their order.
            while shared.len() <= run.chunk as usize {
                let (stream, ready) = &batch.chunks[shared.len()];
                shared.push(self.enter(&streams[stream.0 as usize], &ready.chunk, stream.0 as usize));
            }
            let shared = &shared[run.chunk as usize];
            for at in run.from as usize..run.to as usize {
                self.take_event(shared, at);
            }
        }
    }

    /// Turns to a chunk, of whose packet events may have been taken.
    fn enter<'b>(&mut self, of: &'b SelectedStream, chunk: &'b Chunk, stream: usize) -> Shared<'b> {
        let State { reader, machines, left, early, cpus, of_one_cpu, .. } = self;
        let (machine, mut cpu) = (reader.machine(of.trace), reader.cpu_of(of, &chunk.packet));
        if of_one_cpu[machine as usize] {
            (cpu, left.has_assumed_cpu) = (Some(0), true);
        }
        if cpus[stream].0 != cpu {
            cpus[stream] = (cpu, None);
            for at in std::mem::take(&mut early[stream]) {
                if let Some(cpu) = cpu {
                    left.lost_on.insert(cpu);
                    machines.apply_loss(machine, cpu, at);
                }
            }
        }
        let (classes, input, known_cpu) = (reader.classes(of.trace), chunk.packet.input(), Slot::new(cpus[stream].1));
        Shared { of, chunk, stream, classes, machine, input, cpu, known_cpu }
    }

    #[inline]
    fn take_event(&mut self, shared: &Shared<'_>, at: usize) {
        let Some(ns) = shared.event(at).ns else { return self.take_untimed(shared, at) };
        let machine = shared.machine;
        let class = &shared.classes[shared.chunk.class(at).0 as usize];
        self.reader.next_event();
        self.reader.prepare_class(shared, at, class);
        self.all.advance(self.machines.now(), ns);
        self.machines.touch_time(machine, ns, &mut self.all);
        if !self.listed.is_empty() {
            self.apply_listed();
        }
        let cpu = match (&class.running, shared.known_cpu.get()) {
            (None, known @ Some(_)) => known,
            _ => self.cpu_of(shared, at, class),
        };
        let State { reader, machines, all, left, .. } = self;
        match &class.tie {
            Some(_) if class.has_no_exit => left.entries_without_exit += 1,
            Some(bound) => {
                let values = &reader.values(shared, at, bound);
                let Tie { concept, is_legacy, .. } = bound.tie;
                machines.apply(machine, cpu, &Happening { concept, is_legacy, values }, all);
            }
            None => {}
        }
        let now = machines.now();
        all.for_each(ReportKind::Event, |analysis| {
            analysis.on_event(machines, machine, cpu, &|| shared.event(at), now)
        });
    }

    /// Keeps which thread an event without a time lists, until the next event with one. Any other is left out.
    #[cold]
    #[inline(never)]
    fn take_untimed(&mut self, shared: &Shared<'_>, at: usize) {
        self.left.untimed += 1;
        let class = &shared.classes[shared.chunk.class(at).0 as usize];
        let Some(bound) = class.tie.as_ref().filter(|bound| bound.tie.concept == Concept::DumpTask) else { return };
        self.left.listed += 1;
        self.reader.next_event();
        self.reader.prepare_class(shared, at, class);
        self.listed.push(ListedTask::new(shared.machine, bound.tie.is_legacy, &self.reader.values(shared, at, bound)));
    }

    /// `perf record` lists all threads before its first event with a time.
    #[cold]
    #[inline(never)]
    fn apply_listed(&mut self) {
        for task in std::mem::take(&mut self.listed) {
            self.machines.apply(task.machine, None, &task.happening(), &mut self.all);
        }
    }

    /// The CPU of an event whose class has contexts, or of one that is the first of its CPU in a stream.
    #[inline(never)]
    fn cpu_of(&mut self, shared: &Shared<'_>, at: usize, class: &Class) -> Option<CpuIndex> {
        let State { reader, machines, all, cpus, .. } = self;
        let running = class.running.as_deref().map(|bound| reader.values(shared, at, bound));
        // A context that knows the CPU better than the packet.
        let own_cpu = running.as_ref().and_then(|values| values.integer(Field::Cpu));
        let own_cpu = own_cpu.and_then(|cpu| u64::try_from(cpu).ok()).or(shared.cpu);
        let cpu = match (own_cpu, shared.known_cpu.get()) {
            (None, _) => return None,
            (own, Some(known)) if own == shared.cpu => known,
            (Some(own), _) => {
                let cpu = machines.cpu_or_new(shared.machine, own);
                machines.meet_cpu(cpu);
                if shared.cpu == Some(own) {
                    shared.known_cpu.set(Some(cpu));
                    cpus[shared.stream].1 = Some(cpu);
                }
                cpu
            }
        };
        if let Some(values) = &running {
            machines.running(cpu, &Happening { concept: Concept::Running, is_legacy: false, values }, all);
        }
        Some(cpu)
    }

    /// Events of a stream are missing.
    fn apply_gap(&mut self, at: usize, of: &SelectedStream, gap: &Gap) {
        let ns = gap.begin_cycles.zip(of.clock.as_ref()).map(|(cycles, clock)| clock.ns(cycles));
        let ns = ns.unwrap_or(self.machines.now());
        match gap.kind {
            GapKind::DiscardedEvents => self.left.lost += gap.count.unwrap_or(0),
            GapKind::LostPackets => self.left.lost_packets += gap.count.unwrap_or(0),
        }
        match self.cpus[at].0 {
            Some(cpu) => {
                self.left.lost_on.insert(cpu);
                self.machines.apply_loss(self.reader.machine(of.trace), cpu, ns);
            }
            None => self.early[at].push(ns),
        }
    }
}

/// Counts of the reading itself.
#[derive(Default)]
struct LeftOut {
    lost: u64,
    lost_packets: u64,
    lost_on: BTreeSet<u64>,
    entries_without_exit: u64,
    untimed: u64,
    /// Events without a time that list a thread.
    listed: u64,
    /// Is there a machine whose events never say their CPU?
    has_assumed_cpu: bool,
}

impl LeftOut {
    fn notes(&self, machines: &Machines) -> Vec<(&'static str, u64)> {
        let (counts, suspensions) = (machines.counts(), machines.suspensions());
        let always = [
            ("events", counts.events),
            ("losses", self.lost + self.lost_packets),
            ("unmatched_syscall_exits", counts.unmatched_syscall_exits),
            ("replaced_syscalls", counts.replaced_syscalls),
            ("unmatched_irq_exits", counts.unmatched_irq_exits),
            ("inconsistent_switches", counts.inconsistent_switches),
            ("cleared_interrupts", counts.cleared_interrupts),
            ("entries_without_exit", self.entries_without_exit),
        ];
        let more = [
            ("bad_fields", counts.bad_fields),
            ("time_back", counts.time_back),
            ("too_deep", counts.too_deep),
            ("unseen_cpus", machines.unseen_cpus().len() as u64),
            ("suspensions", suspensions.count),
            ("suspended_ns", u64::try_from(suspensions.total).unwrap_or(u64::MAX)),
            ("untimed", self.untimed - self.listed),
            ("assumed_cpus", self.has_assumed_cpu.into()),
        ];
        always.into_iter().chain(more.into_iter().filter(|(_, count)| *count > 0)).collect()
    }
}
