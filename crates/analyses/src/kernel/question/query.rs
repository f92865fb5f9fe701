//! Questions to an analysis.

use std::cell::RefCell;
use std::fmt;
use std::hash::Hash;
use std::rc::Rc;

use tracemill_codec::text::pattern::Pattern;
use tracemill_semantics::states::{CpuIndex, Interrupt, Machines, Map, Ns, ThreadIndex};

use crate::kernel::aggregate::sum::Sum;
use crate::kernel::custom::BoundCustom;
use crate::kernel::periods::BoundPeriods;
use crate::kernel::question::forms::FormWord;
use crate::kernel::rows::column_of::{ColumnOf, columns_of, values_of};
use crate::kernel::rows::state_row::StateRow;
use crate::kernel::rows::store::Rows;
use crate::kernel::table::{Column, PeriodOf, Unit, known_column};
use crate::kernel::value::{Cell, Value};

/// Steps of a range at most: times that a trace only claims may be centuries apart.
pub const MAX_STEPS: i64 = 1 << 17;

/// Views of spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum View {
    /// Statistics by group.
    #[default]
    Statistics,
    /// All spans.
    Log,
    /// The longest spans.
    Top(usize),
    /// Their durations in so many buckets of equal width.
    Histogram(usize),
    /// Their durations in buckets from a power of two to the next one.
    PowersOfTwo,
}

/// Numbers and ranges of numbers: `1,4-7`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Numbers(Vec<(i64, i64)>);

impl Numbers {
    /// Reads a list; `None` when it is none.
    ///
    /// ```
    /// use tracemill_analyses::kernel::Numbers;
    ///
    /// let numbers = Numbers::parse("1,4-7").unwrap();
    /// assert!(numbers.has(1) && numbers.has(5) && !numbers.has(3));
    /// assert!(Numbers::parse("7-4").is_none() && Numbers::parse("").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Numbers> {
        let range = |part: &str| {
            let part = part.trim();
            // A minus in front is a sign.
            let (first, last) = match part.get(1..)?.find('-').map(|at| at + 1) {
                Some(at) => (part[..at].trim().parse().ok()?, part[at + 1..].trim().parse().ok()?),
                None => (part.parse().ok()?, part.parse().ok()?),
            };
            (first <= last).then_some((first, last))
        };
        text.split(',')
            .map(|part| if part.len() == 1 { part.parse().ok().map(|n| (n, n)) } else { range(part) })
            .collect::<Option<Vec<_>>>()
            .map(Numbers)
    }

    /// The only number of the list.
    pub fn single(&self) -> Option<i64> {
        match self.0.as_slice() {
            [(first, last)] if first == last => Some(*first),
            _ => None,
        }
    }

    /// Is it in the list?
    pub fn has(&self, number: i64) -> bool {
        self.0.iter().any(|&(first, last)| first <= number && number <= last)
    }
}

/// A condition on rows.
pub trait RowTest {
    /// Is a row wanted?
    fn accepts(&self, row: &[Value<'_>]) -> bool;
}

/// Where rows go that are not kept.
pub type RowSink = Rc<RefCell<dyn FnMut(&[Value<'_>])>>;

/// Where rows of `states` go that are not kept.
pub type StateSink = Rc<RefCell<dyn FnMut(&StateRow)>>;

/// The names of places in programs: analyses know addresses only.
pub trait PlaceNames {
    /// The function, or the file, that a process of a machine had at an address at a time.
    fn name(&self, machine: u32, process: i64, address: u64, at: Ns) -> Option<String>;
}

/// A question to one analysis.
#[derive(Clone, Default)]
pub struct AnalysisQuery {
    /// The key of the groups; each analysis has its own.
    pub by: Option<String>,
    /// The view of spans.
    pub view: View,
    /// First wanted time.
    pub begin: Option<Ns>,
    /// Last wanted time.
    pub end: Option<Ns>,
    /// Length of the steps that rows are about.
    pub step: Option<Ns>,
    /// Only these threads.
    pub tids: Option<Numbers>,
    /// Only threads of these processes.
    pub pids: Option<Numbers>,
    /// Only threads of these names.
    pub comms: Option<Pattern>,
    /// Only these CPUs.
    pub cpus: Option<Numbers>,
    /// Only spans at least this long.
    pub min: Option<u64>,
    /// Only spans at most this long.
    pub max: Option<u64>,
    /// Is the analysis made for periods?
    pub has_periods: bool,
    /// The period that it is about, when it is made for each of them.
    pub of_period: Option<Rc<PeriodOf>>,
    /// Words that choose forms of analyses.
    pub words: Vec<FormWord>,
    /// Definitions of periods.
    pub periods: Option<Rc<BoundPeriods>>,
    /// States and counters that the user defines.
    pub custom: Option<Rc<BoundCustom>>,
    /// Is there more than one machine?
    pub has_machines: bool,
    /// Names of the machines.
    pub machine_names: Rc<Vec<String>>,
    /// The names of places in programs, where they are known.
    pub places: Option<Rc<dyn PlaceNames>>,
    /// Rows for which it is false are left out.
    pub test: Option<Rc<dyn RowTest>>,
    /// Rows of lists go there as they are found.
    pub sink: Option<RowSink>,
    /// Rows of `states` go there as they are found, unless there is a test of rows.
    pub states: Option<StateSink>,
    /// Is the table of `states` wanted [as its rows are](crate::kernel::Table::states)? Where these go elsewhere, it has their
    /// totals.
    pub keeps_states: bool,
}

impl fmt::Debug for AnalysisQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnalysisQuery").field("by", &self.by).field("view", &self.view).finish_non_exhaustive()
    }
}

impl AnalysisQuery {
    /// The key of the groups, by the names that an analysis has for its keys.
    pub(crate) fn key<K>(&self, of_name: impl Fn(&str) -> Option<K>) -> Option<K> {
        self.by.as_deref().and_then(of_name)
    }

    /// Was a word given?
    pub(crate) fn has(&self, word: FormWord) -> bool {
        self.words.contains(&word)
    }

    /// Is a time in the range?
    pub(crate) fn has_instant(&self, at: Ns) -> bool {
        self.begin.is_none_or(|begin| at >= begin) && self.end.is_none_or(|end| at <= end)
    }

    /// The part of a piece of time that is in the range.
    pub(crate) fn clip(&self, from: Ns, to: Ns) -> Option<(Ns, Ns)> {
        let from = self.begin.map_or(from, |begin| from.max(begin));
        let to = self.end.map_or(to, |end| to.min(end));
        (from < to).then_some((from, to))
    }

    /// Calls `each` with the number of each step and the length of the part of a piece of time in it. `first` is the time of
    /// the first event.
    #[inline]
    pub(crate) fn each_step(&self, first: Option<Ns>, from: Ns, to: Ns, mut each: impl FnMut(i64, Ns)) {
        let Some((mut from, to)) = self.clip(from, to) else { return };
        let Some(step) = self.step else {
            each(0, to - from);
            return;
        };
        // The command refuses to show so many, so nothing is added up for them.
        if to - self.origin(first) >= (Ns::from(MAX_STEPS) + 1).saturating_mul(step) {
            return;
        }
        while from < to {
            let number = self.step_of(first, from);
            let end = (self.origin(first) + (Ns::from(number) + 1) * step).min(to);
            each(number, end - from);
            from = end;
        }
    }

    fn origin(&self, first: Option<Ns>) -> Ns {
        let first = first.unwrap_or(0);
        self.begin.map_or(first, |begin| begin.max(first))
    }

    /// The number of the step at a time.
    pub(crate) fn step_of(&self, first: Option<Ns>, at: Ns) -> i64 {
        let Some(step) = self.step else { return 0 };
        let since = (at - self.origin(first)).max(0);
        match (u64::try_from(since), u64::try_from(step)) {
            // A division of 128 bits takes longer than all the rest.
            (Ok(since), Ok(step)) => (since / step) as i64,
            _ => (since / step) as i64,
        }
    }

    /// The number of the last step of a range: it has its end, so that one which begins there is a part of it.
    pub(crate) fn last_step(&self, range: Option<(Ns, Ns)>) -> i64 {
        let (Some(length), Some((begin, end))) = (self.step, range) else { return i64::MAX };
        // A range may be shorter than a step.
        let last = (end - begin - 1).max(0) / length.max(1);
        i64::try_from(last).unwrap_or(i64::MAX)
    }

    /// Adds up what belongs to one step when the last one has its end.
    pub(crate) fn by_last_step<K: Hash + Eq, M: Sum>(
        &self,
        range: Option<(Ns, Ns)>,
        groups: impl IntoIterator<Item = ((i64, K), M)>,
    ) -> Vec<((i64, K), M)> {
        if self.step.is_none() {
            return groups.into_iter().collect();
        }
        let last = self.last_step(range);
        let mut sums: Map<(i64, K), M> = Map::default();
        for ((step, key), of) in groups {
            sums.entry((step.min(last), key)).or_default().add(of);
        }
        sums.into_iter().collect()
    }

    /// The part of a range that a step is; all of it when there are no steps.
    pub(crate) fn span_of_step(&self, range: Option<(Ns, Ns)>, step: i64) -> Option<(Ns, Ns)> {
        let (Some(length), Some((begin, end))) = (self.step, range) else { return range };
        let from = begin + Ns::from(step) * length;
        Some((from, (from + length).min(end)))
    }

    /// The length of that part.
    pub(crate) fn length_of_step(&self, range: Option<(Ns, Ns)>, step: i64) -> Ns {
        self.span_of_step(range, step).map_or(0, |(from, to)| to - from)
    }

    /// Appends the first values of the rows of [`AnalysisQuery::step_columns`].
    pub(crate) fn put_step<'s>(
        &'s self,
        range: Option<(Ns, Ns)>,
        step: i64,
        machine: u32,
        values: &mut Vec<Value<'s>>,
    ) {
        let span = self.step.and_then(|_| self.span_of_step(range, step));
        values.extend(span.into_iter().flat_map(|(from, to)| [from, to].map(Value::Integer)));
        values.extend(self.has_machines.then(|| self.machine_value(machine)));
    }

    /// A number that never falls where rows are in the order of their steps, machines and threads.
    pub(crate) fn rank(&self, step: i64, tid: i64) -> i64 {
        let tid = if self.has_machines { 0 } else { tid.clamp(i32::MIN.into(), i32::MAX.into()) };
        step.clamp(0, 1 << 30) << 32 | (tid - i64::from(i32::MIN))
    }

    /// Columns of rows about steps: their times, the machine, and others.
    pub(crate) fn step_columns(&self, others: impl IntoIterator<Item = Column>) -> Vec<Column> {
        let times = self.step.map(|_| ["from", "to"].map(|name| known_column(name, Unit::Time)));
        times.into_iter().flatten().chain(self.columns(others)).collect()
    }

    /// Columns of rows: one that names the machine when there are several, and others.
    pub(crate) fn columns(&self, others: impl IntoIterator<Item = Column>) -> Vec<Column> {
        self.has_machines.then(|| Column::new("trace", Unit::Name)).into_iter().chain(others).collect()
    }

    /// Is a thread wanted? `None` is one that is not known, or the idle one.
    #[inline]
    pub(crate) fn wants_thread(&self, machines: &Machines, thread: Option<ThreadIndex>) -> bool {
        !self.chooses_threads() || self.chooses(machines, thread)
    }

    fn chooses(&self, machines: &Machines, thread: Option<ThreadIndex>) -> bool {
        let Some(thread) = thread.map(|thread| machines.thread(thread)) else { return false };
        self.tids.as_ref().is_none_or(|tids| tids.has(thread.tid))
            && self.pids.as_ref().is_none_or(|pids| thread.pid().is_some_and(|pid| pids.has(pid)))
            && self
                .comms
                .as_ref()
                .is_none_or(|comms| comms.matches(thread.comm.as_deref().unwrap_or_default().as_bytes()))
    }

    /// Is an interrupt wanted? It belongs to the thread that it interrupts.
    pub(crate) fn wants_interrupt(&self, machines: &Machines, interrupt: &Interrupt<'_>) -> bool {
        let interrupted = machines.cpu(interrupt.cpu).current().thread();
        self.wants_cpu(machines, Some(interrupt.cpu)) && self.wants_thread(machines, interrupted)
    }

    /// Are rows chosen by threads?
    pub(crate) fn chooses_threads(&self) -> bool {
        self.tids.is_some() || self.pids.is_some() || self.comms.is_some()
    }

    /// Is a CPU wanted?
    pub(crate) fn wants_cpu(&self, machines: &Machines, cpu: Option<CpuIndex>) -> bool {
        let Some(cpus) = &self.cpus else { return true };
        let number = cpu.and_then(|cpu| i64::try_from(machines.cpu(cpu).number).ok());
        number.is_some_and(|number| cpus.has(number))
    }

    /// Is a row wanted? Each analysis asks this for each row of its table, be it a list or not.
    pub(crate) fn accepts_row(&self, row: &[Cell]) -> bool {
        self.test.as_ref().is_none_or(|test| test.accepts(&row.iter().map(Value::from).collect::<Vec<_>>()))
    }

    /// As [`accepts_row`](AnalysisQuery::accepts_row), of the values of a row.
    pub(crate) fn keeps_values(&self, row: &[Value<'_>]) -> bool {
        self.test.as_ref().is_none_or(|test| test.accepts(row))
    }

    /// The columns of rows about steps and machines, and those rows that are wanted.
    pub(crate) fn step_rows<'v, R>(
        &'v self,
        range: Option<(Ns, Ns)>,
        columns: &[ColumnOf<'v, R>],
        found: impl IntoIterator<Item = (i64, u32, R)>,
    ) -> (Vec<Column>, Rows) {
        let (mut rows, mut values) = (Rows::default(), Vec::new());
        for (step, machine, row) in found {
            values.clear();
            self.put_step(range, step, machine, &mut values);
            values.extend(values_of(columns, row));
            if self.keeps_values(&values) {
                rows.push_values(values.iter().copied());
            }
        }
        (self.step_columns(columns_of(columns)), rows)
    }

    /// A second table: its columns and rows, each of a machine.
    pub(crate) fn totals<'v, R>(
        &'v self,
        columns: &[ColumnOf<'v, R>],
        found: impl IntoIterator<Item = (u32, R)>,
    ) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let cells = |(machine, row)| self.row_values(machine, values_of(columns, row)).map(Cell::from).collect();
        (self.columns(columns_of(columns)), found.into_iter().map(cells).collect())
    }

    /// The name of a machine, where rows have one.
    pub(crate) fn machine_value(&self, machine: u32) -> Value<'_> {
        Value::text(self.machine_names.get(machine as usize).map(|name| &**name))
    }

    /// The values of a row of a list: its machine, where there are several, and others.
    #[inline]
    pub(crate) fn row_values<'s, 'v: 's>(
        &'s self,
        machine: u32,
        others: impl Iterator<Item = Value<'v>>,
    ) -> impl Iterator<Item = Value<'s>> {
        // The values of a row may live longer than the name of its machine.
        fn shorter<'s, 'v: 's>(value: Value<'v>) -> Value<'s> {
            value
        }
        self.has_machines.then(|| self.machine_value(machine)).into_iter().chain(others.map(shorter))
    }

    /// Keeps a row of a list, or hands it on.
    #[inline]
    pub(crate) fn emit_row<'v>(&self, machine: u32, others: impl Iterator<Item = Value<'v>>, rows: &mut Rows) {
        let mut values = self.row_values(machine, others);
        if self.test.is_none() && self.sink.is_none() {
            return rows.push_values(values);
        }
        // Most rows have few values, for which no memory is taken each time.
        let (mut few, mut count) = ([Value::Null; 16], 0);
        for (place, value) in few.iter_mut().zip(values.by_ref()) {
            (*place, count) = (value, count + 1);
        }
        match values.next() {
            None => self.put_whole(&few[..count], rows),
            Some(next) => self.put_whole(&few.into_iter().chain([next]).chain(values).collect::<Vec<_>>(), rows),
        }
    }

    fn put_whole(&self, row: &[Value<'_>], rows: &mut Rows) {
        if !self.keeps_values(row) {
            return;
        }
        match &self.sink {
            Some(sink) => (sink.borrow_mut())(row),
            None => rows.push_values(row.iter().copied()),
        }
    }
}
