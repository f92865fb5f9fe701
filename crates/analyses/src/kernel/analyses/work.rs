//! `work`: functions that the kernel ran later: works of its queues, timers, soft interrupts (`docs/kernel.md`, section 3.17).

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Happening, Interrupt, InterruptKind, Machines, Map, Ns, Observer, ThreadIndex,
};
use tracemill_semantics::{Concept, Field};
use tracemill_table::Address;

use super::delays::Delays;
use super::irq::interrupt_name;
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{NO_KEY, duration};
use crate::kernel::aggregate::spans::{SpanTimes, Spans};
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, RowNouns, SPANS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of groups.
    By {
        /// The kind of what ran, and its function.
        Function = "function",
        /// The kind alone.
        Kind = "kind",
        /// The kind, the function and the CPU.
        Cpu = "cpu",
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "work",
    about: "works of queues, timers and softirqs of the kernel: how late they began, how long they ran",
    forms: &[AnalysisForm::plain(
        By::NAMES,
        SPANS,
        RowNouns::for_groups(&["functions", "kinds", "rows"]).with_spans("runs").with_buckets("runs"),
    )],
    needs: &[&[Concept::WorkEnd, Concept::TimerExit, Concept::SoftExit]],
    needs_for: &[],
    wants: &[
        (Concept::WorkEnd, "works of queues"),
        (Concept::WorkQueue, "how long works were queued"),
        (Concept::TimerExit, "timers"),
        (Concept::TimerStart, "how late timers were"),
        (Concept::SoftExit, "soft interrupts"),
        (Concept::SoftRaise, "how long soft interrupts waited"),
    ],
    over_periods: None,
    example: "work",
    make: |query| {
        Box::new(Work {
            by: query.key(By::from_name).unwrap_or(By::Function),
            spans: Spans::new(query),
            names: Names::default(),
            role: PeriodRole::Alone,
            deferred: Rc::default(),
        })
    },
};

tracemill_semantics::named! {
    /// Kinds of functions that ran.
    Kind {
        /// A work of a queue.
        Work = "work",
        /// A timer of the wheel, which counts ticks.
        Timer = "timer",
        /// A timer of high resolution.
        Hrtimer = "hrtimer",
        /// A soft interrupt.
        Softirq = "softirq",
    }
}

impl Kind {
    /// The kind of a timer, as the table of concepts names it.
    fn of_timer(happening: &Happening<'_>) -> Option<Kind> {
        happening.text(Field::Name).and_then(|name| Kind::from_name(&name))
    }
}

struct Work {
    by: By,
    spans: Spans<Delays>,
    names: Names,
    role: PeriodRole,
    deferred: Rc<RefCell<Deferred>>,
}

/// The address of a work or a timer on a machine.
type DeferredObject = (u32, i128);

/// Works and timers that have not run, and those that run.
#[derive(Default)]
struct Deferred {
    queued: Map<DeferredObject, Ns>,
    working: Map<DeferredObject, Started>,
    /// When timers expire, in their own units.
    set: Map<(DeferredObject, Kind), i128>,
    /// Timers run on one CPU from their beginning to their end.
    expired: Map<(CpuIndex, i128, Kind), Started>,
    ticks: Map<u32, Ticks>,
    /// The run that the present event ended.
    ended: Option<Ended>,
}

/// A function that runs.
#[derive(Clone)]
struct Started {
    function: Option<Rc<str>>,
    from: Ns,
    delay: Option<u64>,
}

/// A run that ended.
#[derive(Clone)]
struct Ended {
    kind: Kind,
    started: Started,
    /// The address of the work or the timer.
    object: Option<i128>,
    machine: u32,
    cpu: Option<CpuIndex>,
    /// The thread that ran it, or that it interrupted.
    thread: Option<ThreadIndex>,
    to: Ns,
}

/// The ticks of a machine against the clock of its trace: only the kernel's configuration says how long a tick is.
struct Ticks {
    first: (Ns, i128),
    last: (Ns, i128),
}

/// Ticks in a second that a kernel can be made for (`kernel/Kconfig.hz`).
const HZ: [u64; 4] = [100, 250, 300, 1000];

/// The length of a tick is known after this many: both ends may be wrong by one.
const MIN_TICKS: i128 = 50;

impl Ticks {
    /// Notes a number of ticks; one that goes back begins anew.
    fn note(&mut self, at: Ns, tick: i128) {
        if tick < self.last.1 {
            self.first = (at, tick);
        }
        self.last = (at, tick);
    }

    /// The length of a tick. Ticks do not go on while a machine is suspended.
    fn length(&self, machines: &Machines, machine: u32) -> Option<u64> {
        let ticks = self.last.1.checked_sub(self.first.1).filter(|ticks| *ticks >= MIN_TICKS)?;
        let length = i128::from(duration(machines, machine, self.first.0, self.last.0)) / ticks;
        let lengths = HZ.map(|hz| 1_000_000_000 / hz);
        lengths.into_iter().find(|known| (i128::from(*known) - length).abs() * 20 <= i128::from(*known))
    }
}

/// The name of a function, or its address where the trace has nothing else.
fn function_of(happening: &Happening<'_>) -> Option<Rc<str>> {
    let name = happening.text(Field::Function).map(Rc::from);
    name.or_else(|| happening.values.integer(Field::Function).map(|address| Address(address).to_string().into()))
}

impl Deferred {
    fn apply(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        self.ended = None;
        let address = || happening.values.integer(Field::Ptr);
        match happening.concept {
            // A work is queued again only after it began: a time that is still kept belongs to a run that was not seen.
            // That a queue lets it run counts where nothing else is recorded, as by `perf kwork`.
            Concept::WorkQueue if happening.text(Field::Name).is_some() => {
                if let Some(work) = address() {
                    self.queued.entry((machine, work)).or_insert(at);
                }
            }
            Concept::WorkQueue => drop(address().map(|work| self.queued.insert((machine, work), at))),
            Concept::WorkStart => {
                let Some(work) = address() else { return };
                let queued = self.queued.remove(&(machine, work));
                let delay = queued.map(|queued| duration(machines, machine, queued, at));
                let started = Started { function: function_of(happening), from: at, delay };
                self.working.insert((machine, work), started);
            }
            Concept::WorkEnd => {
                let Some(work) = address() else { return };
                match self.working.remove(&(machine, work)) {
                    Some(started) => self.end(machines, Kind::Work, started, work, (machine, cpu), at),
                    // Its beginning was not seen: it may be the one for which it was queued, or the next.
                    None => drop(self.queued.remove(&(machine, work))),
                }
            }
            Concept::TimerStart => {
                let (Some(kind), Some(timer)) = (Kind::of_timer(happening), address()) else { return };
                self.note_tick(machine, kind, happening, at);
                match happening.values.integer(Field::Expires) {
                    Some(expires) => drop(self.set.insert(((machine, timer), kind), expires)),
                    None => drop(self.set.remove(&((machine, timer), kind))),
                }
            }
            Concept::TimerEntry => {
                let (Some(kind), Some(timer), Some(cpu)) = (Kind::of_timer(happening), address(), cpu) else { return };
                self.note_tick(machine, kind, happening, at);
                let expires = self.set.remove(&((machine, timer), kind));
                let late = expires.zip(happening.values.integer(Field::Now)).and_then(|(expires, now)| {
                    // A timer may expire before its time, within its slack: it is not late then.
                    let late = u64::try_from(now.checked_sub(expires)?.max(0)).ok()?;
                    match kind {
                        Kind::Timer => late.checked_mul(self.ticks.get(&machine)?.length(machines, machine)?),
                        _ => Some(late),
                    }
                });
                let started = Started { function: function_of(happening), from: at, delay: late };
                self.expired.insert((cpu, timer, kind), started);
            }
            Concept::TimerExit => {
                let (Some(kind), Some(timer), Some(cpu)) = (Kind::of_timer(happening), address(), cpu) else { return };
                if let Some(started) = self.expired.remove(&(cpu, timer, kind)) {
                    self.end(machines, kind, started, timer, (machine, Some(cpu)), at);
                }
            }
            _ => {}
        }
    }

    fn note_tick(&mut self, machine: u32, kind: Kind, happening: &Happening<'_>, at: Ns) {
        if let Some(tick) = happening.values.integer(Field::Now).filter(|_| kind == Kind::Timer) {
            self.ticks.entry(machine).or_insert(Ticks { first: (at, tick), last: (at, tick) }).note(at, tick);
        }
    }

    fn end(
        &mut self,
        machines: &Machines,
        kind: Kind,
        started: Started,
        object: i128,
        (machine, cpu): (u32, Option<CpuIndex>),
        to: Ns,
    ) {
        let thread = cpu.and_then(|cpu| machines.cpu(cpu).current().thread());
        self.ended = Some(Ended { kind, started, object: Some(object), machine, cpu, thread, to });
    }
}

/// A run, as lists show it.
struct RunRow<'r> {
    ended: &'r Ended,
    function: Option<&'r str>,
    tid: Option<i64>,
    comm: Option<&'r str>,
    cpu: Option<u64>,
    span: SpanTimes,
}

/// Meanings of columns.
const KIND: &str = "work, timer, hrtimer or softirq";
const FUNCTION: &str = "name of the function, or its address; of a softirq, its name";
const DELAY: &str = "time from when it was queued, expired or raised until it ran";

impl<'r> RunRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("kind", Unit::Name, KIND, |run| Value::Word(run.ended.kind.name())),
        own_column("function", Unit::Name, FUNCTION, |run| Value::text(run.function)),
        own_column("object", Unit::Address, "address of the work or the timer", |run| Value::integer(run.ended.object)),
        own_column("tid", Unit::Name, "number of the thread that ran it, or that it interrupted", |run| {
            Value::integer(run.tid)
        }),
        column("comm", Unit::Name, |run| Value::text(run.comm)),
        column("cpu", Unit::Name, |run| Value::integer(run.cpu)),
        own_column("delay_ns", Unit::Duration, DELAY, |run| Value::integer(run.ended.started.delay)),
        column("from", Unit::Time, |run| run.span.from.into()),
        column("to", Unit::Time, |run| run.span.to.into()),
        column("duration_ns", Unit::Duration, |run| run.span.duration.into()),
    ];
}

impl Work {
    fn add(&mut self, machines: &Machines, ended: &Ended) {
        let query = &self.spans.query;
        if !query.wants_cpu(machines, ended.cpu) || !query.wants_thread(machines, ended.thread) {
            return;
        }
        let function = ended.started.function.as_deref();
        let name = match self.by {
            By::Kind => 0,
            By::Function | By::Cpu => function.map_or(NO_KEY, |function| self.names.number(function)),
        };
        let number = match self.by {
            By::Cpu => ended.cpu.map_or(NO_KEY, |cpu| cpu.0.into()),
            By::Function | By::Kind => 0,
        };
        let key = GroupKey { machine: ended.machine, number, name, other: ended.kind as i64 };
        let delay = ended.started.delay;
        let delays = Delays::of_run(delay);
        let span = SpanTimes::new(machines, ended.machine, (ended.started.from, ended.to));
        self.spans.add(machines, &span, key, delays, || {
            let thread = ended.thread.map(|thread| machines.thread(thread));
            let (tid, comm) = (thread.map(|thread| thread.tid), thread.and_then(|thread| thread.comm.as_deref()));
            let cpu = ended.cpu.map(|cpu| machines.cpu(cpu).number);
            values_of(RunRow::LOG, RunRow { ended, function, tid, comm, cpu, span })
        });
    }
}

impl Observer for Work {
    fn interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>) {
        if interrupt.kind != InterruptKind::Softirq || !self.role.has_table() {
            return;
        }
        let machine = machines.cpu(interrupt.cpu).machine;
        let name = interrupt_name(interrupt.kind, interrupt.number, None);
        let function = Some(name.map_or_else(|| interrupt.number.to_string().into(), Rc::from));
        let delay = interrupt.raised.map(|raised| duration(machines, machine, raised, interrupt.from));
        let ended = Ended {
            kind: Kind::Softirq,
            started: Started { function, from: interrupt.from, delay },
            object: None,
            machine,
            cpu: Some(interrupt.cpu),
            thread: machines.cpu(interrupt.cpu).current().thread(),
            to: interrupt.to,
        };
        self.add(machines, &ended);
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if self.role.is_tracking() {
            self.deferred.borrow_mut().apply(machines, machine, cpu, happening, at);
        }
        let is_end = matches!(happening.concept, Concept::WorkEnd | Concept::TimerExit);
        if is_end && self.role.has_table() {
            let ended = self.deferred.borrow().ended.clone();
            ended.iter().for_each(|ended| self.add(machines, ended));
        }
    }
}

impl Analysis for Work {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, Interrupt};
        match self.role {
            PeriodRole::View => (&[Interrupt, Applied], ReportTimes::Range),
            PeriodRole::Tracker => (&[Applied], ReportTimes::All),
            PeriodRole::Alone => (&[Interrupt, Applied], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        Some(Box::new(Work {
            by: self.by,
            spans: Spans::new(period),
            names: Names::default(),
            role: PeriodRole::View,
            deferred: self.deferred.clone(),
        }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Work { by, spans, names, .. } = *self;
        spans.finish("work", range, columns_of(RunRow::LOG), GroupLabels { by, names, machines: machines.clone() })
    }
}

impl<'r> SpanGroup<'r, By> {
    const KIND: ColumnOf<'r, Self> = own_column("kind", Unit::Name, KIND, |group| {
        let kind = usize::try_from(group.key.other).ok().and_then(|at| Kind::ALL.get(at));
        kind.map_or(Value::Null, |kind| Value::Word(kind.name()))
    });
    const FUNCTION: ColumnOf<'r, Self> =
        own_column("function", Unit::Name, FUNCTION, |group| Value::text(group.name()));
    const CPU: ColumnOf<'r, Self> = column("cpu", Unit::Name, |group| {
        let cpu = u32::try_from(group.key.number).ok().map(CpuIndex);
        Value::integer(cpu.map(|cpu| group.labels.machines.cpu(cpu).number))
    });
    const BY_FUNCTION: &'r [ColumnOf<'r, Self>] = &[Self::KIND, Self::FUNCTION];
    const BY_KIND: &'r [ColumnOf<'r, Self>] = &[Self::KIND];
    const BY_CPU: &'r [ColumnOf<'r, Self>] = &[Self::KIND, Self::FUNCTION, Self::CPU];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Function => SpanGroup::<By>::BY_FUNCTION,
            By::Kind => SpanGroup::<By>::BY_KIND,
            By::Cpu => SpanGroup::<By>::BY_CPU,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::View;
    use crate::kernel::testing::played::{played, rows};

    fn log(stream: &str) -> Vec<String> {
        let query = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
        rows(&played(&DESCRIPTOR, &query, stream), &["kind", "function", "tid", "cpu", "delay_ns", "from", "to"])
    }

    #[test]
    fn works_have_delays_and_may_change_their_cpus() {
        let stream = "90 1 switch prev=0 next=7
            100 0 work_queue ptr=16 function=flush
            110 0 work_queue ptr=32 function=18446744071578845184
            130 1 work_start ptr=16 function=flush
            135 0 work_queue ptr=16 function=flush
            150 1 work_end ptr=16
            160 1 work_start ptr=32 function=18446744071578845184
            165 1 work_start ptr=48 function=scan
            170 0 switch prev=0 next=7
            180 0 work_end ptr=32
            190 0 work_end ptr=48
            195 0 work_end ptr=64";
        let expected = [
            "work flush 7 1 30 130 150",
            "work 0xffffffff81000000 7 0 50 160 180",
            // It was queued before the trace.
            "work scan 7 0 - 165 190",
        ];
        assert_eq!(log(stream), expected);
        let table = played(&DESCRIPTOR, &AnalysisQuery::default(), stream);
        let columns = ["kind", "function", "count", "total_ns", "delays", "delay_total_ns", "delay_max_ns"];
        let expected = ["work scan 1 25 0 - -", "work 0xffffffff81000000 1 20 1 50 50", "work flush 1 20 1 30 30"];
        assert_eq!(rows(&table, &columns), expected);
        let by_kind = AnalysisQuery { by: Some("kind".to_string()), ..AnalysisQuery::default() };
        let table = played(&DESCRIPTOR, &by_kind, stream);
        assert_eq!(rows(&table, &["kind", "count", "delays", "delay_mean_ns"]), ["work 3 2 40"]);
    }

    #[test]
    fn a_delay_whose_events_were_lost_is_unknown() {
        // The beginning is not seen: the next run may be the one for which the work was queued.
        let stream = "100 0 work_queue ptr=16
            120 0 work_end ptr=16
            130 0 work_start ptr=16
            140 0 work_end ptr=16
            150 0 work_queue ptr=16
            170 0 work_queue ptr=16
            180 0 work_start ptr=16
            181 0 work_end ptr=16";
        assert_eq!(log(stream), ["work - - 0 - 130 140", "work - - 0 10 180 181"]);
    }

    #[test]
    fn the_activation_of_a_work_counts_without_its_queueing() {
        let stream = "100 0 work_queue ptr=16
            110 0 work_queue name=activate ptr=16
            120 0 work_start ptr=16
            130 0 work_end ptr=16
            140 0 work_queue name=activate ptr=16
            170 0 work_start ptr=16
            180 0 work_end ptr=16";
        assert_eq!(log(stream), ["work - - 0 20 120 130", "work - - 0 30 170 180"]);
    }

    #[test]
    fn timers_are_late_by_their_own_clocks() {
        let stream = "100 0 timer_start name=hrtimer ptr=16 expires=5000
            110 0 timer_start name=hrtimer ptr=32 expires=6000
            200 0 timer_entry name=hrtimer ptr=16 function=tick now=5040
            210 1 timer_entry name=hrtimer ptr=16 function=other now=5050
            220 0 timer_exit name=hrtimer ptr=16
            230 1 timer_exit name=hrtimer ptr=16
            300 0 timer_entry name=hrtimer ptr=32 function=tick now=5990
            310 0 timer_exit name=hrtimer ptr=32
            320 0 timer_entry
            330 0 timer_exit";
        let expected = ["hrtimer tick - 0 40 200 220", "hrtimer other - 1 - 210 230", "hrtimer tick - 0 0 300 310"];
        assert_eq!(log(stream), expected);
    }

    #[test]
    fn ticks_have_a_length_when_enough_of_them_passed() {
        let stream = "1000000 0 timer_start name=timer ptr=16 expires=1010 now=1000
            45000000 0 timer_entry name=timer ptr=16 function=poll now=1011
            45000100 0 timer_exit name=timer ptr=16
            46000000 0 timer_start name=timer ptr=16 expires=1060 now=1011
            249000000 0 timer_entry name=timer ptr=16 function=poll now=1062
            249000300 0 timer_exit name=timer ptr=16";
        let expected = ["timer poll - 0 - 45000000 45000100", "timer poll - 0 8000000 249000000 249000300"];
        assert_eq!(log(stream), expected);
    }

    #[test]
    fn soft_interrupts_wait_from_their_first_raise() {
        let stream = "100 0 soft_raise nr=1
            105 0 soft_raise nr=1
            120 0 soft_entry nr=1
            150 0 soft_exit nr=1
            160 0 soft_entry nr=77
            170 0 soft_exit nr=77";
        assert_eq!(log(stream), ["softirq TIMER - 0 20 120 150", "softirq 77 - 0 - 160 170"]);
    }
}
