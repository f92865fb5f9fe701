//! `vm`: threads that run CPUs of virtual machines: exits and guest time (`docs/kernel.md`, section 3.20).

use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Map, Ns, Observer, Thread, ThreadIndex, ThreadPiece, ThreadState,
};
use tracemill_semantics::{Concept, Field};

use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::NO_KEY;
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans, ThreadColumn};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analyses::vm_reasons::reason_name;
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, AnalysisOption, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, share, values_of};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of groups of exits.
    By {
        /// The thread and the reason.
        Thread = "thread",
        /// The reason alone.
        Reason = "reason",
    }
}

/// The key of the sums of each thread.
const VCPU: &str = "vcpu";

/// Options of exits, and of sums. Times that began before a period count, so that these are not made for periods.
const EXITS: &[AnalysisOption] = {
    use AnalysisOption::{Begin, By, Comm, Hist, Log, Max, Min, Pid, Step, Tid, Top};
    &[By, Log, Top, Hist, Step, Tid, Pid, Comm, Min, Max, Begin]
};
const SUMS: &[AnalysisOption] = {
    use AnalysisOption::{Begin, By, Comm, Pid, Step, Tid};
    &[By, Step, Tid, Pid, Comm, Begin]
};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "vm",
    about: "CPUs of virtual machines: why they were left, for how long, and how long they ran",
    forms: &[
        AnalysisForm::plain(
            By::NAMES,
            EXITS,
            RowNouns::for_groups(&["rows", "reasons"]).with_spans("exits").with_buckets("exits"),
        ),
        AnalysisForm {
            option: "--by vcpu",
            word: None,
            keys: &[VCPU],
            takes: SUMS,
            nouns: RowNouns::for_groups(&["threads"]),
        },
    ],
    needs: &[&[Concept::VmEntry], &[Concept::VmExit], &[Concept::Switch]],
    needs_for: &[],
    wants: &[(Concept::Wake, "how long they could run and did not")],
    over_periods: None,
    example: "vm demo/guests/host.jsonl",
    make: |query| match query.by.as_deref() {
        Some(VCPU) => Box::new(Vcpus { query: query.clone(), tracker: Tracker::default(), sums: Map::default() }),
        _ => Box::new(Exits {
            by: query.key(By::from_name).unwrap_or(By::Thread),
            spans: Spans::new(query),
            names: Names::default(),
            tracker: Tracker::default(),
        }),
    },
};

/// Threads that run CPUs of virtual machines.
#[derive(Default)]
struct Tracker {
    vcpus: Map<ThreadIndex, Vcpu>,
}

/// A thread that runs a CPU of a virtual machine, since its first event.
struct Vcpu {
    number: Option<i64>,
    /// The last time without a gap for which its state is known: its beginning, and the end of what was reported of it.
    known: (Ns, Ns),
    /// The time since its last event.
    open: VcpuTime,
}

/// A time in a virtual machine, or outside it.
#[derive(Clone)]
struct VcpuTime {
    kind: TimeKind,
    from: Ns,
    parts: Parts,
}

#[derive(Clone)]
enum TimeKind {
    Guest,
    /// After an exit, for a reason.
    Host(Option<Rc<str>>),
}

/// The parts of a time in which the thread had no CPU.
#[derive(Clone, Copy, Default)]
struct Parts {
    /// It could run.
    steal: Ns,
    /// It was blocked.
    wait: Ns,
}

/// The reason of an exit: its name, or its number in hexadecimal.
fn reason_of(happening: &Happening<'_>) -> Option<Rc<str>> {
    if let Some(name) = happening.text(Field::Reason) {
        return Some(name.into());
    }
    let number = happening.number(Field::Reason)?;
    let name = reason_name(happening.number(Field::Isa), number);
    Some(name.map_or_else(|| format!("{number:#x}").into(), Rc::from))
}

impl Tracker {
    /// The thread of an event of these, and the time that the event ended, if all of it is known.
    fn apply(
        &mut self,
        machines: &Machines,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_>,
        at: Ns,
    ) -> Option<(ThreadIndex, Option<VcpuTime>)> {
        let is_entry = match happening.concept {
            Concept::VmEntry => true,
            Concept::VmExit => false,
            _ => return None,
        };
        let thread = cpu.and_then(|cpu| machines.cpu(cpu).current().thread())?;
        let since = machines.thread(thread).state_since()?;
        let kind = if is_entry { TimeKind::Guest } else { TimeKind::Host(reason_of(happening)) };
        let next = VcpuTime { kind, from: at, parts: Parts::default() };
        let number = happening.number(Field::Vcpu);
        let Some(vcpu) = self.vcpus.get_mut(&thread) else {
            self.vcpus.insert(thread, Vcpu { number, known: (since, since), open: next });
            return Some((thread, None));
        };
        vcpu.number = number.or(vcpu.number);
        if since != vcpu.known.1 {
            vcpu.known = (since, since);
        }
        let ended = std::mem::replace(&mut vcpu.open, next);
        // Of two entries, or two exits, the event between them was lost.
        let is_whole = vcpu.known.0 <= ended.from && is_entry == matches!(ended.kind, TimeKind::Host(_));
        Some((thread, is_whole.then_some(ended)))
    }

    /// Notes a time of a thread in one state. Gives whether it is one of these threads.
    fn note(&mut self, piece: &ThreadPiece) -> bool {
        let Some(vcpu) = self.vcpus.get_mut(&piece.thread) else { return false };
        let from = if piece.from == vcpu.known.1 { vcpu.known.0 } else { piece.from };
        vcpu.known = (from, piece.to);
        match piece.state {
            ThreadState::WaitCpu => vcpu.open.parts.steal += piece.to - piece.from,
            ThreadState::Wait => vcpu.open.parts.wait += piece.to - piece.from,
            _ => {}
        }
        true
    }

    fn number(&self, thread: ThreadIndex) -> Option<i64> {
        self.vcpus.get(&thread)?.number
    }
}

/// Times from exits to the next entries.
struct Exits {
    by: By,
    spans: Spans<Parts>,
    names: Names,
    tracker: Tracker,
}

impl Sum for Parts {
    fn add(&mut self, other: Self) {
        self.steal += other.steal;
        self.wait += other.wait;
    }
}

impl Aggregate for Parts {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.steal);
        packing.number(&mut self.wait);
    }
}

const STEAL: &str = "time in which the thread could run and had no CPU";
const WAIT: &str = "time in which the thread was blocked, as after HLT";

impl Parts {
    /// Without wakes it is not known when a blocked thread could run again.
    fn steal(&self, machines: &Machines, machine: u32) -> Option<Ns> {
        machines.can_have(machine, &[Concept::Wake]).then_some(self.steal)
    }

    fn wait(&self, machines: &Machines, machine: u32) -> Option<Ns> {
        machines.can_have(machine, &[Concept::Wake]).then_some(self.wait)
    }
}

impl SpanFigures for Parts {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[];

    const OF_THREADS: &'static [ThreadColumn<Self>] = &[
        ThreadColumn {
            name: "steal_ns",
            unit: Unit::Duration,
            meaning: STEAL,
            value: |parts, machines, machine| Value::integer(parts.steal(machines, machine)),
        },
        ThreadColumn {
            name: "wait_ns",
            unit: Unit::Duration,
            meaning: WAIT,
            value: |parts, machines, machine| Value::integer(parts.wait(machines, machine)),
        },
    ];
}

/// An exit, as lists show it.
struct ExitRow<'r> {
    thread: &'r Thread,
    vcpu: Option<i64>,
    reason: Option<&'r str>,
    span: SpanTimes,
    steal: Option<Ns>,
    wait: Option<Ns>,
}

const VCPU_NUMBER: &str = "number of the CPU in its virtual machine";
const REASON: &str = "why the virtual machine was left: a name, or the number of the hardware";

impl<'r> ExitRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        column("pid", Unit::Name, |row| Value::integer(row.thread.pid())),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        own_column("vcpu", Unit::Name, VCPU_NUMBER, |row| Value::integer(row.vcpu)),
        own_column("reason", Unit::Name, REASON, |row| Value::text(row.reason)),
        own_column("from", Unit::Time, "when the virtual machine was left", |row| row.span.from.into()),
        own_column("to", Unit::Time, "when it was entered again", |row| row.span.to.into()),
        own_column("duration_ns", Unit::Duration, "time between the two", |row| row.span.duration.into()),
        own_column("steal_ns", Unit::Duration, STEAL, |row| Value::integer(row.steal)),
        own_column("wait_ns", Unit::Duration, WAIT, |row| Value::integer(row.wait)),
    ];
}

impl Observer for Exits {
    fn thread_piece(&mut self, _: &Machines, piece: &ThreadPiece) {
        self.tracker.note(piece);
    }

    fn applied(&mut self, machines: &Machines, _: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        let Some((thread, Some(ended))) = self.tracker.apply(machines, cpu, happening, at) else { return };
        let TimeKind::Host(reason) = &ended.kind else { return };
        if !self.spans.query.wants_thread(machines, Some(thread)) {
            return;
        }
        let (of, vcpu) = (machines.thread(thread), self.tracker.number(thread));
        let name = reason.as_deref().map_or(NO_KEY, |reason| self.names.number(reason));
        let number = if self.by == By::Thread { of.tid } else { NO_KEY };
        let key = GroupKey { machine: of.machine, number, name, other: 0 };
        let span = SpanTimes::new(machines, of.machine, (ended.from, at));
        let (steal, wait) = (ended.parts.steal(machines, of.machine), ended.parts.wait(machines, of.machine));
        self.spans.add(machines, &span, key, ended.parts, || {
            let reason = reason.as_deref();
            values_of(ExitRow::LOG, ExitRow { thread: of, vcpu, reason, span, steal, wait })
        });
    }
}

impl Analysis for Exits {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::ThreadPiece, ReportKind::Applied], ReportTimes::All)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Exits { by, spans, names, tracker } = *self;
        let query = spans.query.clone();
        let is_open = |of: &(&ThreadIndex, &Vcpu)| {
            matches!(of.1.open.kind, TimeKind::Host(_)) && query.wants_thread(machines, Some(*of.0))
        };
        let unfinished = tracker.vcpus.iter().filter(is_open).count() as u64;
        let labels = GroupLabels { by, machines: machines.clone(), names };
        let mut table = spans.finish("vm", range, columns_of(ExitRow::LOG), labels);
        table.notes.push(("unfinished", unfinished));
        table
    }
}

impl<'r> SpanGroup<'r, By> {
    const REASON: ColumnOf<'r, Self> = own_column("reason", Unit::Name, REASON, |group| Value::text(group.name()));
    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[Self::TID, Self::COMM, Self::REASON];
    const BY_REASON: &'r [ColumnOf<'r, Self>] = &[Self::REASON];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Thread => SpanGroup::<By>::BY_THREAD,
            By::Reason => SpanGroup::<By>::BY_REASON,
        }
    }

    fn is_by_number(&self) -> bool {
        *self == By::Thread
    }
}

/// `--by vcpu`: how threads that run CPUs of virtual machines spent their time.
struct Vcpus {
    query: AnalysisQuery,
    tracker: Tracker,
    /// By step.
    sums: Map<(i64, ThreadIndex), VcpuSums>,
}

#[derive(Clone, Copy, Default)]
struct VcpuSums {
    exits: u64,
    guest: Ns,
    host: Ns,
    parts: Parts,
}

impl Sum for VcpuSums {
    fn add(&mut self, other: Self) {
        self.exits += other.exits;
        self.guest += other.guest;
        self.host += other.host;
        self.parts.add(other.parts);
    }
}

/// The times of a thread.
struct VcpuRow<'r> {
    thread: &'r Thread,
    number: Option<i64>,
    sums: VcpuSums,
    length: Ns,
    machines: &'r Machines,
}

impl<'r> VcpuRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        column("pid", Unit::Name, |row| Value::integer(row.thread.pid())),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        own_column("vcpu", Unit::Name, VCPU_NUMBER, |row| Value::integer(row.number)),
        own_column("exits", Unit::Count, "how often the virtual machine was left", |row| row.sums.exits.into()),
        own_column("guest_ns", Unit::Duration, "time in the virtual machine", |row| row.sums.guest.into()),
        own_column("host_ns", Unit::Duration, "time from exits to the next entries", |row| row.sums.host.into()),
        own_column("steal_ns", Unit::Duration, STEAL, |row| {
            Value::integer(row.sums.parts.steal(row.machines, row.thread.machine))
        }),
        own_column("wait_ns", Unit::Duration, WAIT, |row| {
            Value::integer(row.sums.parts.wait(row.machines, row.thread.machine))
        }),
        own_column("share", Unit::Share, "part of the range in the virtual machine", |row| {
            share(row.sums.guest, row.length)
        }),
    ];
}

impl Vcpus {
    fn add(&mut self, machines: &Machines, thread: ThreadIndex, time: &VcpuTime, to: Ns) {
        let Vcpus { query, sums, .. } = self;
        let Some((mut from, _)) = query.clip(time.from, to) else { return };
        let machine = machines.thread(thread).machine;
        query.each_step(machines.begin(), time.from, to, |step, length| {
            let awake = machines.length(machine, from, from + length);
            from += length;
            let of = sums.entry((step, thread)).or_default();
            match time.kind {
                TimeKind::Guest => of.guest += awake,
                TimeKind::Host(_) => of.host += awake,
            }
        });
    }
}

impl Observer for Vcpus {
    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        let is_off = matches!(piece.state, ThreadState::WaitCpu | ThreadState::Wait);
        let Vcpus { query, tracker, sums } = self;
        if !tracker.note(piece) || !is_off || !query.wants_thread(machines, Some(piece.thread)) {
            return;
        }
        query.each_step(machines.begin(), piece.from, piece.to, |step, length| {
            let parts = &mut sums.entry((step, piece.thread)).or_default().parts;
            match piece.state {
                ThreadState::WaitCpu => parts.steal += length,
                _ => parts.wait += length,
            }
        });
    }

    fn applied(&mut self, machines: &Machines, _: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        let Some((thread, ended)) = self.tracker.apply(machines, cpu, happening, at) else { return };
        if !self.query.wants_thread(machines, Some(thread)) {
            return;
        }
        if let Some(ended) = ended {
            self.add(machines, thread, &ended, at);
        }
        if happening.concept == Concept::VmExit && self.query.has_instant(at) {
            let step = self.query.step_of(machines.begin(), at);
            self.sums.entry((step, thread)).or_default().exits += 1;
        }
    }
}

impl Analysis for Vcpus {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::ThreadPiece, ReportKind::Applied], ReportTimes::All)
    }

    fn finish(mut self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        // Times that are open at the end last to it.
        let now = machines.now();
        let is_known = |of: &Vcpu| of.known.0 <= of.open.from && of.known.1 == now;
        let open: Vec<(ThreadIndex, VcpuTime)> = { self.tracker.vcpus.iter() }
            .filter(|(thread, of)| is_known(of) && self.query.wants_thread(machines, Some(**thread)))
            .map(|(thread, of)| (*thread, of.open.clone()))
            .collect();
        open.iter().for_each(|(thread, time)| self.add(machines, *thread, time, now));
        let Vcpus { query, tracker, sums } = *self;
        let rows = query.by_last_step(range, sums).into_iter().map(|((step, index), sums)| {
            let (thread, length) = (machines.thread(index), query.length_of_step(range, step));
            (step, thread.machine, VcpuRow { thread, number: tracker.number(index), sums, length, machines })
        });
        let (columns, rows) = query.step_rows(range, VcpuRow::COLUMNS, rows);
        Table { analysis: "vm", range, columns, rows, order: Order::Keys, ..Table::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};
    use crate::kernel::{Numbers, View};

    const STREAM: &str = "100 0 switch prev=0 next=5
        110 0 vm_entry vcpu=1
        150 0 vm_exit reason=48 isa=1
        160 0 vm_entry vcpu=1
        200 0 vm_exit reason=12 isa=1
        205 0 switch prev=5 next=0 state=1
        300 1 wake tid=5 cpu=0
        330 0 switch prev=0 next=5
        340 0 vm_entry vcpu=1
        400 0 vm_exit reason=1 isa=1
        410 0 switch prev=5 next=6 state=0
        450 0 switch prev=6 next=5 state=1
        460 0 vm_entry vcpu=1
        500 1 -";

    fn log() -> AnalysisQuery {
        AnalysisQuery { view: View::Log, ..AnalysisQuery::default() }
    }

    #[test]
    fn exits_last_until_the_next_entry() {
        let columns = ["tid", "vcpu", "reason", "from", "to", "duration_ns", "steal_ns", "wait_ns"];
        let expected =
            ["5 1 EPT_VIOLATION 150 160 10 0 0", "5 1 HLT 200 340 140 30 95", "5 1 EXTERNAL_INTERRUPT 400 460 60 40 0"];
        assert_eq!(rows(&played(&DESCRIPTOR, &log(), STREAM), &columns), expected);
        let columns = ["tid", "reason", "count", "total_ns", "max_ns", "steal_ns", "wait_ns"];
        let expected = ["5 HLT 1 140 140 30 95", "5 EXTERNAL_INTERRUPT 1 60 60 40 0", "5 EPT_VIOLATION 1 10 10 0 0"];
        assert_eq!(rows(&played(&DESCRIPTOR, &AnalysisQuery::default(), STREAM), &columns), expected);
        let other = AnalysisQuery { tids: Numbers::parse("6"), ..log() };
        assert!(played(&DESCRIPTOR, &other, STREAM).rows.cells().is_empty());
    }

    #[test]
    fn times_of_a_thread_are_cut_at_the_range() {
        let by = AnalysisQuery { by: Some(VCPU.to_string()), ..AnalysisQuery::default() };
        let columns = ["tid", "vcpu", "exits", "guest_ns", "host_ns", "steal_ns", "wait_ns"];
        // The last entry lasts to the end.
        assert_eq!(rows(&played(&DESCRIPTOR, &by, STREAM), &columns), ["5 1 3 180 210 70 95"]);
        let cut = AnalysisQuery { begin: Some(140), end: Some(310), ..by.clone() };
        assert_eq!(rows(&played(&DESCRIPTOR, &cut, STREAM), &columns), ["5 1 2 50 120 10 95"]);
        let steps = AnalysisQuery { step: Some(200), ..by };
        let columns = ["from", "exits", "guest_ns", "host_ns", "steal_ns", "wait_ns"];
        assert_eq!(rows(&played(&DESCRIPTOR, &steps, STREAM), &columns), ["100 2 80 110 0 95", "300 1 100 100 70 0"]);
    }

    #[test]
    fn times_with_a_gap_do_not_count() {
        let stream = "100 0 switch prev=0 next=5
            110 0 vm_entry
            150 0 loss
            160 0 switch prev=5 next=0 state=0
            170 0 switch prev=0 next=5
            180 0 vm_exit reason=77
            190 0 vm_exit reason=78
            200 0 vm_entry
            210 0 vm_entry
            230 0 vm_exit reason=HLT
            240 0 vm_entry";
        let found = rows(&played(&DESCRIPTOR, &log(), stream), &["reason", "from", "to"]);
        // Numbers of an unknown kind have no names.
        assert_eq!(found, ["0x4e 190 200", "HLT 230 240"]);
        let by = AnalysisQuery { by: Some(VCPU.to_string()), ..AnalysisQuery::default() };
        let columns = ["exits", "guest_ns", "host_ns"];
        assert_eq!(rows(&played(&DESCRIPTOR, &by, stream), &columns), ["3 20 20"]);
    }
}
