//! `idle`: the C-states and the frequencies of CPUs (`docs/kernel.md`, section 3.16).

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::states::{CpuIndex, Current, Happening, Machines, Map, Ns, Observer, ThreadIndex};
use tracemill_semantics::{Concept, Field};

use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::spans::{SpanTimes, Spans};
use crate::kernel::aggregate::sum::Sum;
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, CPU_SPANS, CPU_SUMS, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, share, values_of};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

/// Keys of groups: the first one has spans, each other one a form of its own.
const STATE: &str = "state";
const CPU: &str = "cpu";
const FREQUENCY: &str = "frequency";

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "idle",
    about: "C-states and frequencies of the CPUs: how often, how long",
    forms: &[
        AnalysisForm::plain(&[STATE], CPU_SPANS, RowNouns::ROWS.with_spans("idle times").with_buckets("idle times")),
        AnalysisForm {
            option: "--by cpu",
            word: None,
            keys: &[CPU],
            takes: CPU_SUMS,
            nouns: RowNouns::for_groups(&["cpus"]),
        },
        AnalysisForm {
            option: "--by frequency",
            word: None,
            keys: &[FREQUENCY],
            takes: CPU_SUMS,
            nouns: RowNouns::ROWS,
        },
    ],
    needs: &[&[Concept::Idle, Concept::Frequency]],
    needs_for: &[(STATE, &[Concept::Idle]), (CPU, &[Concept::Idle]), (FREQUENCY, &[Concept::Frequency])],
    wants: &[(Concept::Idle, "C-states"), (Concept::Frequency, "frequencies")],
    over_periods: None,
    example: "idle demo/idle/night.jsonl",
    make: |query| match query.by.as_deref() {
        Some(CPU) => Box::new(Levels::new(query, false)),
        Some(FREQUENCY) => Box::new(Levels::new(query, true)),
        _ => Box::new(Naps { spans: Spans::new(query), role: PeriodRole::Alone, open: Rc::default() }),
    },
};

/// The state that stands for leaving one: -1 in 32 bits, as the kernel writes it (`PWR_EVENT_EXIT`).
const LEAVE: i64 = 0xffff_ffff;

/// The CPU that an event is about, and the C-state that it enters; none where it leaves one.
fn change_of(machines: &Machines, machine: u32, happening: &Happening<'_>) -> Option<(CpuIndex, Option<i64>)> {
    let (cpu, state) = (happening.number(Field::Cpu)?, happening.number(Field::State)?);
    let cpu = machines.find_cpu(machine, u64::try_from(cpu).ok()?)?;
    Some((cpu, (state != LEAVE && state != -1).then_some(state)))
}

/// Times that CPUs spend in C-states.
struct Naps {
    spans: Spans,
    role: PeriodRole,
    open: Rc<RefCell<OpenNaps>>,
}

#[derive(Default)]
struct OpenNaps {
    cpus: Map<CpuIndex, OpenNap>,
    /// The one that the present event ended.
    ended: Option<(CpuIndex, i64, Ns)>,
}

/// A C-state that was entered and not left.
struct OpenNap {
    state: i64,
    from: Ns,
    /// Was it known then what the CPU runs?
    was_known: bool,
}

impl OpenNaps {
    fn apply(&mut self, machines: &Machines, machine: u32, happening: &Happening<'_>, at: Ns) {
        self.ended = None;
        let change = (happening.concept == Concept::Idle).then(|| change_of(machines, machine, happening));
        let Some((cpu, state)) = change.flatten() else { return };
        let is_known = machines.cpu(cpu).current() != Current::Unknown;
        let open = self.cpus.remove(&cpu);
        match state {
            // One that is still open ended unseen.
            Some(state) => drop(self.cpus.insert(cpu, OpenNap { state, from: at, was_known: is_known })),
            // A loss makes the thread of its CPU unknown: the end of that C-state, and more, may be lost.
            None => {
                let whole = open.filter(|open| is_known || !open.was_known);
                self.ended = whole.map(|open| (cpu, open.state, open.from));
            }
        }
    }
}

/// A time in a C-state, as lists show it.
struct NapRow {
    cpu: u64,
    state: i64,
    span: SpanTimes,
}

const STATE_MEANING: &str = "number of the C-state, as the kernel counts: 0 is the lightest";

impl NapRow {
    const LOG: &'static [ColumnOf<'static, Self>] = &[
        column("cpu", Unit::Name, |nap| nap.cpu.into()),
        own_column("state", Unit::Name, STATE_MEANING, |nap| nap.state.into()),
        column("from", Unit::Time, |nap| nap.span.from.into()),
        column("to", Unit::Time, |nap| nap.span.to.into()),
        column("duration_ns", Unit::Duration, |nap| nap.span.duration.into()),
    ];
}

impl Observer for Naps {
    fn switched(&mut self, _: &Machines, cpu: CpuIndex, _: Option<ThreadIndex>, _: Ns) {
        // A CPU leaves its C-state before it switches: that event was lost.
        if self.role.is_tracking() {
            self.open.borrow_mut().cpus.remove(&cpu);
        }
    }

    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if self.role.is_tracking() {
            self.open.borrow_mut().apply(machines, machine, happening, at);
        }
        let ended = self.open.borrow().ended.filter(|_| self.role.has_table());
        let Some((cpu, state, from)) = ended.filter(|(cpu, ..)| self.spans.query.wants_cpu(machines, Some(*cpu)))
        else {
            return;
        };
        let span = SpanTimes::new(machines, machine, (from, at));
        let key = GroupKey { machine, number: cpu.0.into(), name: 0, other: state };
        self.spans.add(machines, &span, key, (), || {
            values_of(NapRow::LOG, NapRow { cpu: machines.cpu(cpu).number, state, span })
        });
    }
}

impl Analysis for Naps {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        match self.role {
            PeriodRole::View => (&[ReportKind::Applied], ReportTimes::Range),
            _ => (&[ReportKind::Switched, ReportKind::Applied], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        Some(Box::new(Naps { spans: Spans::new(period), role: PeriodRole::View, open: self.open.clone() }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let labels = GroupLabels { by: ByState, names: Names::default(), machines: machines.clone() };
        self.spans.finish("idle", range, columns_of(NapRow::LOG), labels)
    }
}

/// Times are grouped by CPU and C-state.
struct ByState;

impl<'r> SpanGroup<'r, ByState> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("cpu", Unit::Name, |group| group.labels.machines.cpu(CpuIndex(group.key.number as u32)).number.into()),
        own_column("state", Unit::Name, STATE_MEANING, |group| group.key.other.into()),
    ];
}

impl GroupBy for ByState {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, ByState>>] {
        SpanGroup::<ByState>::COLUMNS
    }
}

/// `--by cpu`, `--by frequency`: states and frequencies of CPUs, from each change to the next one.
struct Levels {
    query: AnalysisQuery,
    by_frequency: bool,
    cpus: Map<CpuIndex, Level>,
    /// By step, CPU, and frequency where there are rows of them.
    times: Map<(i64, (CpuIndex, Option<i64>)), Times>,
}

/// The state and the frequency of a CPU since a change.
#[derive(Clone, Copy)]
struct Level {
    since: Ns,
    /// Is it in a C-state? Before the first event it is not known.
    is_idle: Option<bool>,
    khz: Option<i64>,
}

/// Times of a CPU, which add up to the range.
#[derive(Clone, Copy, Default)]
struct Times {
    idle: Ns,
    active: Ns,
    unknown: Ns,
    suspended: Ns,
}

impl Times {
    /// All time in which it was not suspended.
    fn awake(&self) -> Ns {
        self.idle + self.active + self.unknown
    }
}

impl Sum for Times {
    fn add(&mut self, other: Times) {
        self.idle += other.idle;
        self.active += other.active;
        self.unknown += other.unknown;
        self.suspended += other.suspended;
    }
}

impl Levels {
    fn new(query: &AnalysisQuery, by_frequency: bool) -> Self {
        Levels { query: query.clone(), by_frequency, cpus: Map::default(), times: Map::default() }
    }

    /// Adds up the time since the last change of a CPU, and gives its level to be changed.
    fn change(&mut self, machines: &Machines, cpu: CpuIndex, at: Ns) -> &mut Level {
        let first = Level { since: machines.begin().unwrap_or(at), is_idle: None, khz: None };
        let level = *self.cpus.entry(cpu).or_insert(first);
        self.add(machines, cpu, level, at);
        let level = self.cpus.entry(cpu).or_insert(first);
        level.since = at;
        level
    }

    fn add(&mut self, machines: &Machines, cpu: CpuIndex, level: Level, to: Ns) {
        let Levels { query, times, by_frequency, .. } = self;
        if !query.wants_cpu(machines, Some(cpu)) {
            return;
        }
        let Some((mut from, _)) = query.clip(level.since, to) else { return };
        let (machine, khz) = (machines.cpu(cpu).machine, level.khz.filter(|_| *by_frequency));
        query.each_step(machines.begin(), level.since, to, |step, length| {
            let awake = machines.length(machine, from, from + length);
            from += length;
            let of = times.entry((step, (cpu, khz))).or_default();
            of.suspended += length - awake;
            match level.is_idle {
                Some(true) => of.idle += awake,
                Some(false) => of.active += awake,
                None => of.unknown += awake,
            }
        });
    }
}

impl Observer for Levels {
    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        match happening.concept {
            Concept::Idle => {
                if let Some((cpu, state)) = change_of(machines, machine, happening) {
                    self.change(machines, cpu, at).is_idle = Some(state.is_some());
                }
            }
            Concept::Frequency => {
                let number = happening.number(Field::Cpu).and_then(|number| u64::try_from(number).ok());
                if let Some(cpu) = number.and_then(|number| machines.find_cpu(machine, number)) {
                    self.change(machines, cpu, at).khz = happening.number(Field::Khz);
                }
            }
            _ => {}
        }
    }
}

/// The times of a CPU, or of a CPU at a frequency.
struct LevelRow {
    cpu: u64,
    khz: Option<i64>,
    times: Times,
    length: Ns,
    has_states: bool,
}

impl LevelRow {
    const CPU: ColumnOf<'static, Self> = column("cpu", Unit::Name, |row| row.cpu.into());
    const IDLE: ColumnOf<'static, Self> = own_column("idle_ns", Unit::Duration, "time in C-states", |row| {
        if row.has_states { row.times.idle.into() } else { Value::Null }
    });
    const BY_CPU: &'static [ColumnOf<'static, Self>] = &[
        Self::CPU,
        Self::IDLE,
        own_column("active_ns", Unit::Duration, "time outside C-states", |row| row.times.active.into()),
        column("unknown_ns", Unit::Duration, |row| row.times.unknown.into()),
        column("suspended_ns", Unit::Duration, |row| row.times.suspended.into()),
        own_column("share", Unit::Share, "part of the range in C-states", |row| share(row.times.idle, row.length)),
    ];
    const BY_FREQUENCY: &'static [ColumnOf<'static, Self>] = &[
        Self::CPU,
        own_column("khz", Unit::Name, "frequency; none before the first event that says it", |row| {
            Value::integer(row.khz)
        }),
        own_column("time_ns", Unit::Duration, "time at that frequency, without suspensions", |row| {
            row.times.awake().into()
        }),
        column("share", Unit::Share, |row| share(row.times.awake(), row.length)),
        Self::IDLE,
    ];
}

impl Analysis for Levels {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Applied], ReportTimes::All)
    }

    fn finish(mut self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        // The last levels last to the end; a CPU without any event of these has none.
        for at in 0..machines.cpus().len() {
            self.change(machines, CpuIndex(at as u32), machines.now());
        }
        let Levels { query, by_frequency, times, .. } = *self;
        let rows = query.by_last_step(range, times).into_iter().map(|((step, (cpu, khz)), times)| {
            let (cpu, length) = (machines.cpu(cpu), query.length_of_step(range, step));
            let has_states = machines.can_have(cpu.machine, &[Concept::Idle]);
            (step, cpu.machine, LevelRow { cpu: cpu.number, khz, times, length, has_states })
        });
        let columns = if by_frequency { LevelRow::BY_FREQUENCY } else { LevelRow::BY_CPU };
        let (columns, rows) = query.step_rows(range, columns, rows);
        Table { analysis: "idle", range, columns, rows, order: Order::Keys, ..Table::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};
    use crate::kernel::{Numbers, View};

    const STREAM: &str = "100 0 frequency cpu=0 khz=800
        100 1 -
        110 0 idle cpu=0 state=2
        150 0 idle cpu=0 state=4294967295
        160 0 frequency cpu=0 khz=2000
        170 0 idle cpu=0 state=1
        180 0 idle cpu=0 state=-1
        190 1 idle cpu=1 state=2
        200 0 idle cpu=0 state=2
        220 0 suspend action=machine_suspend start=1
        260 0 suspend action=machine_suspend start=0
        270 0 idle cpu=0 state=4294967295
        300 1 -";

    fn by(key: &str) -> AnalysisQuery {
        AnalysisQuery { by: Some(key.to_string()), ..AnalysisQuery::default() }
    }

    #[test]
    fn c_states_have_entries_and_times() {
        let table = played(&DESCRIPTOR, &AnalysisQuery::default(), STREAM);
        let columns = ["cpu", "state", "count", "total_ns", "max_ns", "mean_ns"];
        // The one of CPU 1 does not end, and the suspension counts in none.
        assert_eq!(rows(&table, &columns), ["0 2 2 70 40 35", "0 1 1 10 10 10"]);
        let log = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
        let found = rows(&played(&DESCRIPTOR, &log, STREAM), &["cpu", "state", "from", "to", "duration_ns"]);
        assert_eq!(found, ["0 2 110 150 40", "0 1 170 180 10", "0 2 200 270 30"]);
        let late = AnalysisQuery { begin: Some(175), cpus: Numbers::parse("0"), ..log };
        assert_eq!(rows(&played(&DESCRIPTOR, &late, STREAM), &["from", "to"]), ["170 180", "200 270"]);
    }

    #[test]
    fn times_of_cpus_add_up_to_the_range() {
        let columns = ["cpu", "idle_ns", "active_ns", "unknown_ns", "suspended_ns"];
        let found = rows(&played(&DESCRIPTOR, &by("cpu"), STREAM), &columns);
        assert_eq!(found, ["0 80 70 10 40", "1 70 0 90 40"]);
        let steps = AnalysisQuery { step: Some(100), ..by("cpu") };
        let found = rows(&played(&DESCRIPTOR, &steps, STREAM), &columns);
        assert_eq!(found, ["0 50 40 10 0", "1 10 0 90 0", "0 30 30 0 40", "1 60 0 0 40"]);
        let columns = ["cpu", "khz", "time_ns", "idle_ns"];
        let found = rows(&played(&DESCRIPTOR, &by("frequency"), STREAM), &columns);
        assert_eq!(found, ["0 800 60 40", "0 2000 100 40", "1 - 160 70"]);
        let cut = AnalysisQuery { begin: Some(120), end: Some(170), ..by("frequency") };
        let found = rows(&played(&DESCRIPTOR, &cut, STREAM), &columns);
        assert_eq!(found, ["0 800 40 30", "0 2000 10 0", "1 - 50 0"]);
    }

    #[test]
    fn a_c_state_whose_end_was_lost_has_no_length() {
        let log = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
        let stream = "90 0 switch prev=5 next=0 state=1
            100 0 idle cpu=0 state=1
            110 0 loss
            120 0 idle cpu=0 state=4294967295
            130 0 idle cpu=0 state=1
            140 0 idle cpu=0 state=3
            150 0 switch prev=0 next=5
            160 0 idle cpu=0 state=4294967295
            170 0 idle cpu=9 state=1
            180 0 idle cpu=-2 state=4294967295";
        assert!(rows(&played(&DESCRIPTOR, &log, stream), &["cpu", "state", "from", "to"]).is_empty());
    }
}
