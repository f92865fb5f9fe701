//! Spans by group: statistics, the spans themselves, the longest ones, a histogram.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::{Machines, Ns};

use crate::durations::Durations;
use crate::kernel::aggregate::aggregate_map::{AggregateMap, PackedAggregates};
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, SpanGroup};
use crate::kernel::aggregate::keys::duration;
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::rows::column_of::{ColumnOf, cells_of, columns_of, own_column, values_of};
use crate::kernel::rows::store::{Rows, Source};
use crate::kernel::table::{Column, Order, Table, Unit};
use crate::kernel::value::{Cell, Counts, Value};

/// The percentiles of all statistics.
pub const PERCENTS: [u32; 4] = [50, 90, 95, 99];

/// A span of time on a machine.
#[derive(Clone, Copy)]
pub(crate) struct SpanTimes {
    pub(crate) machine: u32,
    pub(crate) from: Ns,
    pub(crate) to: Ns,
    /// The time between the two, without that for which the machine was suspended.
    pub(crate) duration: u64,
}

impl SpanTimes {
    #[inline]
    pub(crate) fn new(machines: &Machines, machine: u32, (from, to): (Ns, Ns)) -> SpanTimes {
        SpanTimes { machine, from, to, duration: duration(machines, machine, from, to) }
    }
}

/// Statistics of the durations of a group.
struct Statistics<'d> {
    durations: &'d Durations,
    /// By [`PERCENTS`]; none without durations.
    percentiles: Vec<u64>,
}

impl Statistics<'_> {
    /// The column of the sums, by which rows are sorted.
    const TOTAL: &'static str = "total_ns";

    fn new(durations: &mut Durations) -> Statistics<'_> {
        let percentiles = durations.percentiles_ns(&PERCENTS);
        Statistics { durations, percentiles }
    }

    fn non_empty(&self, ns: u64) -> Value<'static> {
        Value::integer((self.durations.moments.count > 0).then_some(ns))
    }

    fn percentile(&self, percent: u32) -> Value<'static> {
        let at = PERCENTS.iter().position(|known| *known == percent);
        Value::integer(at.and_then(|at| self.percentiles.get(at)).copied())
    }
}

fn real(number: Option<f64>) -> Value<'static> {
    number.map_or(Value::Null, Value::Real)
}

impl<'d> Statistics<'d> {
    const COLUMNS: &'d [ColumnOf<'static, Self>] = &[
        own_column("count", Unit::Count, "how many", |of| of.durations.moments.count.into()),
        own_column(Self::TOTAL, Unit::Duration, "sum of the durations", |of| {
            Value::Integer(of.durations.moments.total_ns as i128)
        }),
        own_column("min_ns", Unit::Duration, "shortest duration", |of| of.non_empty(of.durations.moments.min_ns)),
        own_column("max_ns", Unit::Duration, "longest duration", |of| of.non_empty(of.durations.moments.max_ns)),
        own_column("mean_ns", Unit::Duration, "mean of the durations", |of| real(of.durations.moments.mean_ns())),
        own_column("deviation_ns", Unit::Duration, "standard deviation of the durations", |of| {
            real(of.durations.moments.deviation_ns())
        }),
        own_column("p50_ns", Unit::Duration, "median: half of the durations are at most this long", |of| {
            of.percentile(50)
        }),
        own_column("p90_ns", Unit::Duration, "90 % of the durations are at most this long", |of| of.percentile(90)),
        own_column("p95_ns", Unit::Duration, "95 % of the durations are at most this long", |of| of.percentile(95)),
        own_column("p99_ns", Unit::Duration, "99 % of the durations are at most this long", |of| of.percentile(99)),
    ];
}

impl<M: Sum> Sum for (Durations, M) {
    fn add(&mut self, (durations, figures): Self) {
        self.0.append(durations);
        self.1.add(figures);
    }
}

/// SpanFigures of a group next to the statistics of its spans.
pub(crate) trait SpanFigures: Aggregate + 'static {
    /// Their columns.
    const COLUMNS: &'static [ColumnOf<'static, Self>];

    /// Further columns of groups, whose values also need threads. Sums over all groups do not have them.
    const OF_THREADS: &'static [ThreadColumn<Self>] = &[];

    /// The last column, where one has names with counts.
    const COUNTS: Option<CountsColumn<Self>> = None;
}

/// A column of figures about threads of a machine.
pub(crate) struct ThreadColumn<F> {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) meaning: &'static str,
    pub(crate) value: for<'r> fn(&F, &'r Machines, u32) -> Value<'r>,
}

impl<F> ThreadColumn<F> {
    fn column(&self) -> Column {
        Column { meaning: self.meaning, ..Column::new(self.name, self.unit) }
    }
}

/// A column of names, and how often each of them occurred.
pub(crate) struct CountsColumn<F> {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) counts: fn(&F) -> Vec<(String, u64)>,
}

impl<F> CountsColumn<F> {
    fn column(&self) -> Column {
        Column { meaning: self.meaning, ..Column::new(self.name, Unit::Count) }
    }
}

impl Sum for () {
    fn add(&mut self, (): ()) {}
}

impl Aggregate for () {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, _: &mut Packing<'_, I>) {}
}

impl SpanFigures for () {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[];
}

/// Groups with more durations than these are not kept as bytes.
const MANY: u64 = 256;

impl<M: Aggregate> Aggregate for (Durations, M) {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        self.1.pack(packing);
        packing.durations(&mut self.0);
    }

    fn is_large(&self) -> bool {
        self.0.moments.count > MANY
    }
}

/// The spans of an analysis.
pub(crate) struct Spans<M = ()> {
    pub(crate) query: AnalysisQuery,
    /// By step and key.
    groups: AggregateMap<5, (Durations, M)>,
    rows: Rows,
    top: BTreeMap<(std::cmp::Reverse<u64>, u64), Vec<Cell>>,
    found: u64,
    /// The sum over all groups, where it is not that of the groups.
    pub(crate) all: Option<(Durations, M)>,
    /// For histograms: durations, or how many of them lie from each power of two to the next one.
    values: Vec<u64>,
}

impl<M: SpanFigures> Spans<M> {
    pub(crate) fn new(query: &AnalysisQuery) -> Self {
        Spans {
            query: query.clone(),
            groups: AggregateMap::default(),
            rows: Rows::default(),
            top: BTreeMap::new(),
            found: 0,
            all: None,
            values: Vec::new(),
        }
    }

    /// Is a span wanted that ends at a time?
    pub(crate) fn is_selected(&self, end: Ns, duration: u64) -> bool {
        self.query.has_instant(end)
            && self.query.min.is_none_or(|min| duration >= min)
            && self.query.max.is_none_or(|max| duration <= max)
    }

    /// Adds a span to a group. `row` gives its values in lists.
    #[inline]
    pub(crate) fn add<'v, I: Iterator<Item = Value<'v>>>(
        &mut self,
        machines: &Machines,
        span: &SpanTimes,
        key: GroupKey,
        figures: M,
        row: impl FnOnce() -> I,
    ) {
        let SpanTimes { machine, to, duration, .. } = *span;
        if !self.is_selected(to, duration) {
            return;
        }
        match self.query.view {
            View::Statistics => {
                let (durations, of) = self.group(machines.begin(), to, key);
                durations.add(duration);
                of.add(figures);
            }
            View::Log => {
                let Spans { query, rows, .. } = self;
                query.emit_row(machine, row(), rows);
            }
            View::Top(most) => {
                self.found += 1;
                let place = (std::cmp::Reverse(duration), self.found);
                let is_wanted =
                    self.top.len() < most || self.top.last_key_value().is_some_and(|(last, _)| place < *last);
                if is_wanted {
                    let cells: Vec<Cell> = self.query.row_values(machine, row()).map(Cell::from).collect();
                    if self.query.accepts_row(&cells) {
                        self.top.insert(place, cells);
                    }
                    if self.top.len() > most {
                        self.top.pop_last();
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
    pub(crate) fn group(&mut self, begin: Option<Ns>, at: Ns, key: GroupKey) -> &mut (Durations, M) {
        let step = self.query.step_of(begin, at);
        self.groups.entry([step, key.machine.into(), key.number, key.name, key.other])
    }

    /// The table; `log` are the columns of lists.
    pub(crate) fn finish<B: GroupBy>(
        self,
        analysis: &'static str,
        range: Option<(Ns, Ns)>,
        log: impl IntoIterator<Item = Column>,
        labels: GroupLabels<B>,
    ) -> Table {
        let mut table = Table { analysis, range, ..Table::default() };
        match self.query.view {
            View::Statistics => {
                let names = columns_of(labels.by.columns()).chain(labels.by.asked_columns().iter().cloned());
                let of_threads = M::OF_THREADS.iter().map(ThreadColumn::column);
                let figures = columns_of(M::COLUMNS).chain(of_threads).chain(M::COUNTS.map(|of| of.column()));
                table.columns = self.query.step_columns([]);
                table.columns.extend(names.chain(columns_of(Statistics::COLUMNS)).chain(figures));
                let groups = self.groups.finish(self.query.last_step(range));
                let total = table.column(Statistics::TOTAL).unwrap_or_default();
                let of = GroupRows {
                    query: self.query.clone(),
                    range,
                    total,
                    groups,
                    labels,
                    ready: Rows::default(),
                    ready_of: Vec::new(),
                    counts: Rows::default(),
                    counts_of: Vec::new(),
                };
                let mut all = Default::default();
                table.rows = of.into_rows(&mut all, &mut table.is_rough);
                let (mut durations, figures): (Durations, M) = self.all.unwrap_or(all);
                table.all = cells_of(Statistics::COLUMNS, &Statistics::new(&mut durations));
                table.all.extend(cells_of(M::COLUMNS, &figures));
                table.all.extend(M::COUNTS.map(|of| (of.column(), Cell::Counts((of.counts)(&figures)))));
                table.order = if self.query.step.is_some() { Order::Keys } else { Order::Largest(Statistics::TOTAL) };
            }
            View::Log => (table.columns, table.rows) = (self.query.columns(log), self.rows),
            View::Top(_) => {
                table.columns = self.query.columns(log);
                table.rows = self.top.into_values().collect::<Vec<_>>().into();
                // The row condition is evaluated for kept rows only, not for spans too short to be shown.
                table.found = self.query.test.is_none().then_some(self.found);
            }
            View::Histogram(_) | View::PowersOfTwo => {
                let buckets = match self.query.view {
                    View::Histogram(buckets) => histogram(&self.values, buckets),
                    _ => powers_of_two(&self.values),
                };
                let cells = |bucket| values_of(Bucket::COLUMNS, bucket).map(Cell::from).collect();
                let mut rows: Vec<Vec<Cell>> = buckets.into_iter().map(cells).collect();
                rows.retain(|row| self.query.accepts_row(row));
                (table.columns, table.rows) = (columns_of(Bucket::COLUMNS).collect(), rows.into());
                table.is_histogram = true;
            }
        }
        table
    }
}

/// Rows of groups, made of what is kept of them when they are shown.
struct GroupRows<M, B> {
    query: AnalysisQuery,
    range: Option<(Ns, Ns)>,
    /// The column of total times.
    total: usize,
    groups: PackedAggregates<5, (Durations, M)>,
    labels: GroupLabels<B>,
    /// Rows that were made before, and whose they are: of groups that have many durations.
    ready: Rows,
    ready_of: Vec<u32>,
    /// Names with counts, which are made before, too, and whose they are.
    counts: Rows,
    counts_of: Vec<u32>,
}

impl<M: SpanFigures, B: GroupBy> GroupRows<M, B> {
    /// The rows that are wanted, and the sums over all groups.
    fn into_rows(mut self, all: &mut (Durations, M), is_rough: &mut bool) -> Rows {
        let (mut rows, mut wanted) = (Rows::default(), Vec::new());
        for at in 0..self.groups.len() {
            let mut aggregate = self.groups.get(at);
            let counts = M::COUNTS.map_or(Vec::new(), |of| (of.counts)(&aggregate.1));
            if !counts.is_empty() {
                self.counts.push(&[Cell::Counts(counts)]);
                self.counts_of.push(at as u32);
            }
            // Groups that are neither of threads nor of processes are few.
            let (is_ready, is_made) = (aggregate.is_large(), self.labels.by.is_by_number());
            if self.labels.by.has_row(&aggregate.0) {
                let mut row = Vec::new();
                if is_ready || !is_made || self.query.test.is_some() {
                    self.make(at as u32, &mut aggregate, &mut row);
                }
                if self.query.keeps_values(&row) {
                    *is_rough |= !aggregate.0.is_exact();
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
            all.add(aggregate);
        }
        if wanted.is_empty() { rows } else { Rows::from_source(Rc::new(self), wanted) }
    }

    /// The step and the key of a row.
    fn key(&self, row: u32) -> (i64, GroupKey) {
        let [step, machine, number, name, other] = self.groups.key(row as usize);
        (step, GroupKey { machine: machine as u32, number, name, other })
    }

    fn put_name<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
        let (step, key) = self.key(row);
        self.query.put_step(self.range, step, key.machine, values);
        values.extend(values_of(self.labels.by.columns(), SpanGroup { key, labels: &self.labels }));
        values.extend(self.labels.by.asked_cells(&key).iter().map(Value::from));
    }

    fn make<'s>(&'s self, row: u32, aggregate: &mut (Durations, M), values: &mut Vec<Value<'s>>) {
        self.put_name(row, values);
        values.extend(values_of(Statistics::COLUMNS, Statistics::new(&mut aggregate.0)));
        let key = self.key(row).1;
        let has_figures = self.labels.by.has_figures(&key);
        values.extend(M::COLUMNS.iter().map(|of| if has_figures { of.value(&aggregate.1) } else { Value::Null }));
        values.extend(M::OF_THREADS.iter().map(|of| (of.value)(&aggregate.1, &self.labels.machines, key.machine)));
        values.extend(M::COUNTS.map(|_| {
            let counts = self.counts_of.binary_search(&row).ok().and_then(|at| self.counts.values(at).next());
            counts.unwrap_or(Value::Counts(Counts::NONE))
        }));
    }
}

impl<M: SpanFigures, B: GroupBy> Source for GroupRows<M, B> {
    fn append_row<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
        match self.ready_of.binary_search(&row) {
            Ok(at) => values.extend(self.ready.values(at)),
            Err(_) => self.make(row, &mut self.groups.get(row as usize), values),
        }
    }

    fn rank(&self, row: u32) -> i64 {
        let (step, key) = self.key(row);
        self.query.rank(step, if self.labels.by.is_by_number() { key.number } else { 0 })
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
        self.append_row(row, &mut values);
        values.get(column).copied().unwrap_or(Value::Null)
    }
}

/// A bucket of a histogram.
struct Bucket {
    from: i128,
    to: i128,
    count: u64,
}

impl Bucket {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("from_ns", Unit::Duration, "shortest duration of the bucket", |bucket| bucket.from.into()),
        own_column("to_ns", Unit::Duration, "upper limit of the bucket", |bucket| bucket.to.into()),
        own_column("count", Unit::Count, "how many", |bucket| bucket.count.into()),
    ];
}

/// Decision K10: buckets of equal width between the shortest and the longest.
fn histogram(values: &[u64], buckets: usize) -> Vec<Bucket> {
    let (Some(&lo), Some(&hi)) = (values.iter().min(), values.iter().max()) else { return Vec::new() };
    let (width, buckets) = (u128::from(hi - lo), buckets.max(1));
    let mut counts = vec![0u64; buckets];
    for &value in values {
        let at = (u128::from(value - lo) * buckets as u128).checked_div(width).unwrap_or(0);
        counts[(at as usize).min(buckets - 1)] += 1;
    }
    let edge = |at: usize| i128::from(lo) + (at as u128 * width / buckets as u128) as i128;
    counts.iter().enumerate().map(|(at, &count)| Bucket { from: edge(at), to: edge(at + 1), count }).collect()
}

/// Buckets of powers of two: one for 0, and one for each bit.
const POWERS: usize = u64::BITS as usize + 1;

/// The bucket of a duration.
fn power_of(duration: u64) -> usize {
    (u64::BITS - duration.leading_zeros()) as usize
}

/// Decision K10: buckets from a power of two to the next one, from that of the shortest to that of the longest.
fn powers_of_two(counts: &[u64]) -> Vec<Bucket> {
    let is_used = |count: &u64| *count > 0;
    let (Some(first), Some(last)) = (counts.iter().position(is_used), counts.iter().rposition(is_used)) else {
        return Vec::new();
    };
    let edge = |at: usize| if at == 0 { 0 } else { 1 << (at - 1) };
    (first..=last).map(|at| Bucket { from: edge(at), to: edge(at + 1), count: counts[at] }).collect()
}
