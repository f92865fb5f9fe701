//! Spans by group: statistics, the spans themselves, the longest ones, a histogram.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::{Machines, Map, Ns};

use crate::durations::Durations;
use crate::kernel::aggregate::account::{Account, Sum};
use crate::kernel::aggregate::keys::duration;
use crate::kernel::aggregate::ledger::{Closed, Ledger};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::rows::store::{Rows, Source};
use crate::kernel::table::{Column, Listed, Order, Table, Unit, listed};
use crate::kernel::value::{Cell, Counts, Value};

/// The percentiles of all statistics.
pub const PERCENTS: [u32; 4] = [50, 90, 95, 99];

/// Key of a group: numbers, or numbers that stand for names.
pub(crate) type Key = [i64; 4];

/// Columns of statistics.
pub(crate) fn statistic_columns() -> impl Iterator<Item = Column> {
    const DURATIONS: &[&str] =
        &["total_ns", "min_ns", "max_ns", "mean_ns", "deviation_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns"];
    listed(&[(Unit::Count, &["count"]), (Unit::Duration, DURATIONS)])
}

/// Appends the values of [`statistic_columns`].
fn put_statistics(durations: &mut Durations, values: &mut Vec<Value<'_>>) {
    let percentiles = durations.percentiles_ns(&PERCENTS);
    let moments = &durations.moments;
    let some = |ns: u64| Value::integer((moments.count > 0).then_some(ns));
    let real = |ns: Option<f64>| ns.map_or(Value::Null, Value::Real);
    values.extend([
        Value::Integer(moments.count.into()),
        Value::Integer(moments.total_ns as i128),
        some(moments.min_ns),
        some(moments.max_ns),
        real(moments.mean_ns()),
        real(moments.deviation_ns()),
    ]);
    values.extend((0..PERCENTS.len()).map(|at| Value::integer(percentiles.get(at).copied())));
}

impl<M: Sum> Sum for (Durations, M) {
    fn add(&mut self, (durations, more): Self) {
        self.0.append(durations);
        self.1.add(more);
    }
}

/// Figures of a group beside the durations of its spans.
pub(crate) trait SpanFigures: Account {
    /// The columns of it.
    const COLUMNS: Listed<'static>;

    /// Their cells.
    fn cells(&self) -> Vec<Cell>;
}

impl Sum for () {
    fn add(&mut self, (): ()) {}
}

impl Account for () {
    fn put(&self, _: &mut Vec<Cell>) {}

    fn take(&mut self, _: &mut impl Iterator<Item = Option<i128>>) {}
}

impl SpanFigures for () {
    const COLUMNS: Listed<'static> = &[];

    fn cells(&self) -> Vec<Cell> {
        Vec::new()
    }
}

/// Groups with more durations than these are not kept as bytes.
const MANY: u64 = 256;

impl<M: Account> Account for (Durations, M) {
    fn put(&self, cells: &mut Vec<Cell>) {
        self.1.put(cells);
        self.0.for_each(|ns| cells.push(ns.into()));
    }

    fn take(&mut self, numbers: &mut impl Iterator<Item = Option<i128>>) {
        self.1.take(numbers);
        numbers.flatten().for_each(|ns| self.0.add(ns as u64));
    }

    fn is_large(&self) -> bool {
        self.0.moments.count > MANY
    }
}

/// The values that rows of groups have next to the statistics: names before them, cells after them.
pub(crate) trait GroupNaming<M> {
    /// Appends the values that name a group.
    fn name<'s>(&'s self, key: &Key, values: &mut Vec<Value<'s>>);

    /// The number that stands first in the name, where groups are of threads or processes: there may be many of these.
    fn number(&self, _key: &Key) -> Option<i64> {
        None
    }

    /// Does a group have a row?
    fn has_row(&self, _durations: &Durations) -> bool {
        true
    }

    /// The cells behind its statistics.
    fn more(&self, _key: &Key, more: &M) -> Vec<Cell>;
}

/// The spans of an analysis.
pub(crate) struct Spans<M = ()> {
    pub(crate) query: AnalysisQuery,
    /// By step and key.
    groups: Ledger<5, (Durations, M)>,
    rows: Rows,
    top: BTreeMap<(std::cmp::Reverse<u64>, u64), Vec<Cell>>,
    found: u64,
    /// For histograms: durations, or how many of them lie from each power of two to the next one.
    values: Vec<u64>,
}

impl<M: SpanFigures> Spans<M> {
    pub(crate) fn new(query: &AnalysisQuery) -> Self {
        Spans {
            query: query.clone(),
            groups: Ledger::default(),
            rows: Rows::default(),
            top: BTreeMap::new(),
            found: 0,
            values: Vec::new(),
        }
    }

    /// Is a span wanted that ends at a time?
    pub(crate) fn wants(&self, end: Ns, duration: u64) -> bool {
        self.query.has_instant(end)
            && self.query.min.is_none_or(|min| duration >= min)
            && self.query.max.is_none_or(|max| duration <= max)
    }

    /// Adds a span of a group, from `from` to `to`. `row` shows its row in lists to
    /// whoever takes it; the first value of that is the machine's, which it is given.
    #[inline]
    pub(crate) fn add(
        &mut self,
        machines: &Machines,
        (from, end): (Ns, Ns),
        (machine, key): (u32, Key),
        more: M,
        row: impl FnOnce(Value<'_>, &mut dyn FnMut(&[Value<'_>])),
    ) {
        let duration = duration(machines, machine, from, end);
        if !self.wants(end, duration) {
            return;
        }
        match self.query.view {
            View::Statistics => {
                let (durations, of) = self.group(machines.begin(), end, key);
                durations.add(duration);
                of.add(more);
            }
            View::Log => {
                let Spans { query, rows, .. } = self;
                row(query.machine_value(machine), &mut |values| query.put(values, rows));
            }
            View::Top(most) => {
                self.found += 1;
                let place = (std::cmp::Reverse(duration), self.found);
                let is_wanted =
                    self.top.len() < most || self.top.last_key_value().is_some_and(|(last, _)| place < *last);
                if is_wanted {
                    let Spans { query, top, .. } = self;
                    row(query.machine_value(machine), &mut |values| {
                        let values = &values[usize::from(!query.has_machines)..];
                        if query.keeps_values(values) {
                            top.insert(place, values.iter().map(|value| Cell::from(*value)).collect());
                        }
                    });
                    if top.len() > most {
                        top.pop_last();
                    }
                }
            }
            View::Histogram(_) => self.values.push(duration),
            View::PowersOfTwo => {
                self.values.resize(POWERS, 0);
                self.values[power_of(duration)] += 1;
            }
        }
    }

    /// The group of a key at a time, which may have no spans.
    #[inline]
    pub(crate) fn group(&mut self, begin: Option<Ns>, at: Ns, key: Key) -> &mut (Durations, M) {
        let step = self.query.step_of(begin, at);
        self.groups.of([step, key[0], key[1], key[2], key[3]])
    }

    /// The table: `keys` are the columns that name a group behind the machine, which is the first part of each key, and
    /// `log` those of lists. `naming` gives the values of the rows of groups beside their statistics.
    pub(crate) fn finish(
        self,
        analysis: &'static str,
        range: Option<(Ns, Ns)>,
        keys: impl IntoIterator<Item = Column>,
        log: Vec<Column>,
        naming: impl GroupNaming<M> + 'static,
    ) -> Table
    where
        M: 'static,
    {
        let mut table = Table { analysis, range, ..Table::default() };
        match self.query.view {
            View::Statistics => {
                table.columns = self.query.step_columns(&[]);
                table.columns.extend(keys.into_iter().chain(statistic_columns()).chain(listed(M::COLUMNS)));
                let groups = self.groups.finish(self.query.last_step(range));
                let total = table.column("total_ns").unwrap_or_default();
                let of = GroupRows {
                    query: self.query.clone(),
                    range,
                    total,
                    groups,
                    naming,
                    ready: Rows::default(),
                    ready_of: Vec::new(),
                    counts: Rows::default(),
                    counts_of: Vec::new(),
                };
                let mut all = Default::default();
                table.rows = of.into_rows(&mut all, &mut table.is_rough);
                let (mut durations, more): (Durations, M) = all;
                let mut values = Vec::new();
                put_statistics(&mut durations, &mut values);
                table.all = statistic_columns().zip(values.into_iter().map(Cell::from)).collect();
                table.all.extend(listed(M::COLUMNS).zip(more.cells()));
                table.order = if self.query.step.is_some() { Order::Keys } else { Order::Largest("total_ns") };
            }
            View::Log => (table.columns, table.rows) = (log, self.rows),
            View::Top(_) => {
                (table.columns, table.rows) = (log, self.top.into_values().collect::<Vec<_>>().into());
                // The row condition is evaluated for kept rows only, not for spans too short to be shown.
                table.found = self.query.test.is_none().then_some(self.found);
            }
            View::Histogram(_) | View::PowersOfTwo => {
                table.columns = listed(&[(Unit::Duration, &["from_ns", "to_ns"]), (Unit::Count, &["count"])]).collect();
                let mut rows = match self.query.view {
                    View::Histogram(buckets) => histogram(&self.values, buckets),
                    _ => powers_of_two(&self.values),
                };
                rows.retain(|row| self.query.keeps(row));
                table.rows = rows.into();
                table.is_histogram = true;
            }
        }
        table
    }
}

/// Rows of groups, made of what is kept of them when they are shown.
struct GroupRows<M, N> {
    query: AnalysisQuery,
    range: Option<(Ns, Ns)>,
    /// The column of total times.
    total: usize,
    groups: Closed<5, (Durations, M)>,
    naming: N,
    /// Rows that were made before, and whose they are: of groups that have many durations.
    ready: Rows,
    ready_of: Vec<u32>,
    /// Names with counts, which are made before, too, and whose they are.
    counts: Rows,
    counts_of: Vec<u32>,
}

impl<M: SpanFigures + 'static, N: GroupNaming<M> + 'static> GroupRows<M, N> {
    /// The rows that are wanted, and the sums over all groups.
    fn into_rows(mut self, all: &mut (Durations, M), is_rough: &mut bool) -> Rows {
        let (mut rows, mut wanted) = (Rows::default(), Vec::new());
        for at in 0..self.groups.len() {
            let (key, mut account) = (self.key(at as u32).1, self.groups.get(at));
            let counts = self.naming.more(&key, &account.1).into_iter();
            let counts: Vec<Cell> = counts.filter(|cell| matches!(cell, Cell::Counts(of) if !of.is_empty())).collect();
            if !counts.is_empty() {
                self.counts.push(&counts);
                self.counts_of.push(at as u32);
            }
            // Groups that are neither of threads nor of processes are few.
            let (is_ready, is_made) = (account.is_large(), self.naming.number(&key).is_some());
            if self.naming.has_row(&account.0) {
                let mut row = Vec::new();
                if is_ready || !is_made || self.query.test.is_some() {
                    self.make(at as u32, &mut account, &mut row);
                }
                if self.query.keeps_values(&row) {
                    *is_rough |= !account.0.is_exact();
                    let row = row.into_iter();
                    match (is_made, is_ready) {
                        (false, _) => rows.push_values(row),
                        (true, false) => wanted.push(at as u32),
                        (true, true) => {
                            let row: Vec<Cell> = row.map(Cell::from).collect();
                            self.ready.push(&row);
                            self.ready_of.push(at as u32);
                            wanted.push(at as u32);
                        }
                    }
                }
            }
            all.add(account);
        }
        if wanted.is_empty() { rows } else { Rows::made(Rc::new(self), wanted) }
    }

    /// The step and the key of a row.
    fn key(&self, row: u32) -> (i64, Key) {
        let [step, key @ ..] = self.groups.key(row as usize);
        (step, key)
    }

    fn put_name<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
        let (step, key) = self.key(row);
        self.query.put_step(self.range, step, key[0] as u32, values);
        self.naming.name(&key, values);
    }

    fn make<'s>(&'s self, row: u32, account: &mut (Durations, M), values: &mut Vec<Value<'s>>) {
        self.put_name(row, values);
        put_statistics(&mut account.0, values);
        let mut counts = self.counts_of.binary_search(&row).ok().into_iter().flat_map(|at| self.counts.values(at));
        let more = self.naming.more(&self.key(row).1, &account.1);
        values.extend(more.into_iter().map(|cell| match cell {
            Cell::Integer(number) => Value::Integer(number),
            Cell::Counts(of) if of.is_empty() => Value::Counts(Counts::NONE),
            Cell::Counts(_) => counts.next().unwrap_or(Value::Null),
            _ => Value::Null,
        }));
    }
}

impl<M: SpanFigures + 'static, N: GroupNaming<M> + 'static> Source for GroupRows<M, N> {
    fn put<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
        match self.ready_of.binary_search(&row) {
            Ok(at) => values.extend(self.ready.values(at)),
            Err(_) => self.make(row, &mut self.groups.get(row as usize), values),
        }
    }

    fn rank(&self, row: u32) -> i64 {
        let (step, key) = self.key(row);
        self.query.rank(step, self.naming.number(&key).unwrap_or(0))
    }

    fn put_head<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
        self.put_name(row, values);
    }

    fn value(&self, row: u32, column: usize) -> Value<'_> {
        // Rows are sorted by this one: for that no statistics are made.
        if column == self.total && self.ready_of.binary_search(&row).is_err() {
            return Value::Integer(self.groups.get(row as usize).0.moments.total_ns as i128);
        }
        let mut values = Vec::new();
        self.put(row, &mut values);
        values.get(column).copied().unwrap_or(Value::Null)
    }
}

/// Decision K10: buckets of equal width between the shortest and the longest.
fn histogram(values: &[u64], buckets: usize) -> Vec<Vec<Cell>> {
    let (Some(&lo), Some(&hi)) = (values.iter().min(), values.iter().max()) else { return Vec::new() };
    let (width, buckets) = (u128::from(hi - lo), buckets.max(1));
    let mut counts = vec![0u64; buckets];
    for &value in values {
        let at = (u128::from(value - lo) * buckets as u128).checked_div(width).unwrap_or(0);
        counts[(at as usize).min(buckets - 1)] += 1;
    }
    let edge = |at: usize| Cell::Integer(i128::from(lo) + (at as u128 * width / buckets as u128) as i128);
    counts.iter().enumerate().map(|(at, &count)| vec![edge(at), edge(at + 1), count.into()]).collect()
}

/// Buckets of powers of two: one for 0, and one for each bit.
const POWERS: usize = u64::BITS as usize + 1;

/// The bucket of a duration.
fn power_of(duration: u64) -> usize {
    (u64::BITS - duration.leading_zeros()) as usize
}

/// Decision K10: buckets from a power of two to the next one, from that of the shortest to that of the longest.
fn powers_of_two(counts: &[u64]) -> Vec<Vec<Cell>> {
    let is_used = |count: &u64| *count > 0;
    let (Some(first), Some(last)) = (counts.iter().position(is_used), counts.iter().rposition(is_used)) else {
        return Vec::new();
    };
    let edge = |at: usize| Cell::Integer(if at == 0 { 0 } else { 1 << (at - 1) });
    (first..=last).map(|at| vec![edge(at), edge(at + 1), counts[at].into()]).collect()
}

/// Names as numbers.
pub(crate) struct Names {
    numbers: Map<Box<str>, i64>,
    names: Vec<Box<str>>,
    /// Numbers of names by where they stood last: most names stand in one place all the time.
    recent: [usize; 64],
}

impl Default for Names {
    fn default() -> Self {
        Names { numbers: Map::default(), names: Vec::new(), recent: [0; 64] }
    }
}

impl Names {
    /// The number of a name.
    #[inline]
    pub(crate) fn number(&mut self, name: &str) -> i64 {
        let place = (name.as_ptr() as usize >> 4) % self.recent.len();
        let recent = self.recent[place];
        if self.names.get(recent).is_some_and(|known| **known == *name) {
            return recent as i64;
        }
        let number = self.find(name);
        self.recent[place] = number as usize;
        number
    }

    fn find(&mut self, name: &str) -> i64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as i64;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// The name of a number.
    pub(crate) fn name(&self, number: i64) -> Option<&str> {
        usize::try_from(number).ok().and_then(|at| self.names.get(at)).map(|name| &**name)
    }
}
