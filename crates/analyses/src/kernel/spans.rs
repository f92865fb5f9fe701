//! Spans by group: statistics, the spans themselves, the longest ones, a histogram.

use std::collections::BTreeMap;

use tracemill_semantics::states::{Map, Ns};

use super::asked::{Asked, View};
use super::duration;
use super::rows::{Rows, Value};
use super::table::{Cell, Column, Listed, Order, Table, Unit, listed};
use crate::durations::Durations;

/// The percentiles of all statistics.
pub const PERCENTS: [u32; 4] = [50, 90, 95, 99];

/// Key of a group: numbers, or numbers that stand for names.
pub(crate) type Key = [i64; 4];

/// Stands for a part of a key that is not known.
pub(crate) const NO_KEY: i64 = i64::MIN;

/// Columns of statistics.
pub(crate) fn statistic_columns() -> impl Iterator<Item = Column> {
    const DURATIONS: &[&str] =
        &["total_ns", "min_ns", "max_ns", "mean_ns", "deviation_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns"];
    listed(&[(Unit::Count, &["count"]), (Unit::Duration, DURATIONS)])
}

/// The cells of [`statistic_columns`].
pub(crate) fn statistic_cells(durations: &mut Durations) -> Vec<Cell> {
    let percentiles = durations.percentiles_ns(&PERCENTS);
    let moments = &durations.moments;
    let some = |ns: u64| if moments.count > 0 { Cell::from(ns) } else { Cell::Null };
    let real = |ns: Option<f64>| ns.map_or(Cell::Null, Cell::Real);
    let mut cells = vec![
        moments.count.into(),
        Cell::Integer(moments.total_ns as i128),
        some(moments.min_ns),
        some(moments.max_ns),
        real(moments.mean_ns()),
        real(moments.deviation_ns()),
    ];
    cells.extend((0..PERCENTS.len()).map(|at| percentiles.get(at).map_or(Cell::Null, |&ns| ns.into())));
    cells
}

/// Sums of a group.
pub(crate) trait More: Default {
    /// Adds what another group has.
    fn add(&mut self, other: Self);
}

impl<M: More> More for (Durations, M) {
    fn add(&mut self, (durations, more): Self) {
        self.0.append(durations);
        self.1.add(more);
    }
}

/// Figures of a group beside the durations of its spans.
pub(crate) trait Extra: More {
    /// The columns of it.
    const COLUMNS: Listed<'static>;

    /// Their cells.
    fn cells(&self) -> Vec<Cell>;
}

impl More for () {
    fn add(&mut self, (): ()) {}
}

impl Extra for () {
    const COLUMNS: Listed<'static> = &[];

    fn cells(&self) -> Vec<Cell> {
        Vec::new()
    }
}

/// The spans of an analysis.
pub(crate) struct Spans<M = ()> {
    pub(crate) asked: Asked,
    groups: Groups<M>,
    rows: Rows,
    top: BTreeMap<(std::cmp::Reverse<u64>, u64), Vec<Cell>>,
    found: u64,
    values: Vec<u64>,
}

/// Spans of each step and key.
struct Groups<M> {
    list: Vec<((i64, Key), (Durations, M))>,
    places: Map<(i64, Key), u32>,
    /// The group that was asked for last, for each number that [`Groups::recent_of`] gives.
    recent: [u32; RECENT],
}

const RECENT: usize = 64;

impl<M> Default for Groups<M> {
    fn default() -> Self {
        Groups { list: Vec::new(), places: Map::default(), recent: [0; RECENT] }
    }
}

impl<M: Default> Groups<M> {
    #[inline]
    fn of(&mut self, key: (i64, Key)) -> &mut (Durations, M) {
        let recent = self.recent[Self::recent_of(&key)] as usize;
        let at = match self.list.get(recent) {
            Some((known, _)) if *known == key => recent,
            _ => self.find(key),
        };
        &mut self.list[at].1
    }

    fn find(&mut self, key: (i64, Key)) -> usize {
        let at = *self.places.entry(key).or_insert_with(|| {
            self.list.push((key, Default::default()));
            self.list.len() as u32 - 1
        });
        self.recent[Self::recent_of(&key)] = at;
        at as usize
    }

    #[inline]
    fn recent_of((step, key): &(i64, Key)) -> usize {
        let mixed =
            key.iter().fold(*step as u64, |mixed, part| (mixed ^ *part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (mixed >> 58) as usize
    }
}

impl<M: Extra> Spans<M> {
    pub(crate) fn new(asked: &Asked) -> Self {
        Spans {
            asked: asked.clone(),
            groups: Groups::default(),
            rows: Rows::default(),
            top: BTreeMap::new(),
            found: 0,
            values: Vec::new(),
        }
    }

    /// Is a span wanted that ends at a time?
    pub(crate) fn wants(&self, end: Ns, duration: u64) -> bool {
        self.asked.has_instant(end)
            && self.asked.min.is_none_or(|min| duration >= min)
            && self.asked.max.is_none_or(|max| duration <= max)
    }

    /// Adds a span of a group, from `from` to `to`, `begin` is the first time of the trace. `row` shows its row in lists to
    /// whoever takes it; the first value of that is the machine's, which it is given.
    #[inline]
    pub(crate) fn add(
        &mut self,
        begin: Option<Ns>,
        (from, end): (Ns, Ns),
        (machine, key): (u32, Key),
        more: M,
        row: impl FnOnce(Value<'_>, &mut dyn FnMut(&[Value<'_>])),
    ) {
        let duration = duration(from, end);
        if !self.wants(end, duration) {
            return;
        }
        match self.asked.view {
            View::Statistics => {
                let (durations, of) = self.group(begin, end, key);
                durations.add(duration);
                of.add(more);
            }
            View::Log => {
                let Spans { asked, rows, .. } = self;
                row(asked.machine_value(machine), &mut |values| asked.put(values, rows));
            }
            View::Top(most) => {
                self.found += 1;
                let place = (std::cmp::Reverse(duration), self.found);
                let is_wanted =
                    self.top.len() < most || self.top.last_key_value().is_some_and(|(last, _)| place < *last);
                if is_wanted {
                    let Spans { asked, top, .. } = self;
                    row(asked.machine_value(machine), &mut |values| {
                        let values = &values[usize::from(!asked.has_machines)..];
                        if asked.keeps_values(values) {
                            top.insert(place, values.iter().map(|value| Cell::from(*value)).collect());
                        }
                    });
                    if top.len() > most {
                        top.pop_last();
                    }
                }
            }
            View::Histogram(_) => self.values.push(duration),
        }
    }

    /// The group of a key at a time, which may have no spans.
    #[inline]
    pub(crate) fn group(&mut self, begin: Option<Ns>, at: Ns, key: Key) -> &mut (Durations, M) {
        let step = self.asked.step_of(begin, at);
        self.groups.of((step, key))
    }

    /// The table: `keys` are the columns that name a group behind the machine, which is the first part of each key, and
    /// `log` those of lists. `describe` gives the cells of a group that name it, and those beside its statistics.
    pub(crate) fn finish(
        self,
        analysis: &'static str,
        range: Option<(Ns, Ns)>,
        keys: impl IntoIterator<Item = Column>,
        log: Vec<Column>,
        mut describe: impl FnMut(&Key, &Durations, &M) -> Option<(Vec<Cell>, Vec<Cell>)>,
    ) -> Table {
        let mut table = Table { analysis, range, ..Table::default() };
        match self.asked.view {
            View::Statistics => {
                table.columns = self.asked.step_columns(&[]);
                table.columns.extend(keys.into_iter().chain(statistic_columns()).chain(listed(M::COLUMNS)));
                let mut all: (Durations, M) = Default::default();
                for ((step, key), (mut durations, of)) in self.asked.by_last_step(range, self.groups.list) {
                    if let Some((cells, more)) = describe(&key, &durations, &of) {
                        let mut row = self.asked.step_cells(range, step, key[0] as u32);
                        row.extend(cells);
                        row.extend(statistic_cells(&mut durations));
                        row.extend(more);
                        if self.asked.keeps(&row) {
                            table.is_rough |= !durations.is_exact();
                            table.rows.push(&row);
                        }
                    }
                    all.add((durations, of));
                }
                table.all = statistic_columns().zip(statistic_cells(&mut all.0)).collect();
                table.all.extend(listed(M::COLUMNS).zip(all.1.cells()));
                table.order = if self.asked.step.is_some() { Order::Keys } else { Order::Largest("total_ns") };
            }
            View::Log => (table.columns, table.rows) = (log, self.rows),
            View::Top(_) => {
                (table.columns, table.rows) = (log, self.top.into_values().collect::<Vec<_>>().into());
                // Of spans that are too short to be shown, nobody asked whether they are wanted.
                table.found = self.asked.test.is_none().then_some(self.found);
            }
            View::Histogram(buckets) => {
                table.columns = listed(&[(Unit::Duration, &["from_ns", "to_ns"]), (Unit::Count, &["count"])]).collect();
                let mut rows = histogram(&self.values, buckets);
                rows.retain(|row| self.asked.keeps(row));
                table.rows = rows.into();
                table.is_histogram = true;
            }
        }
        table
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
