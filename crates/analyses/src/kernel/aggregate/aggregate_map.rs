//! Aggregates by key: those that were not asked for in a while are kept as bytes, as those of threads that ended are.
//!
//! Traces may have many millions of threads that lived for a short time, and a row for each of them: an aggregate that is open
//! takes some hundred bytes, one that is closed some tens.

use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

use tracemill_semantics::states::{Map, Ns};

use crate::kernel::aggregate::sum::{Aggregate, Packing};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, columns_of, values_of};
use crate::kernel::rows::store::{Rows, Source};
use crate::kernel::table::Column;
use crate::kernel::value::{Cell, Value};

/// A key: a step, then, where there are more than two numbers, the machine, and what tells apart the aggregates of these.
pub(crate) type SumKey<const N: usize> = [i64; N];

/// Aggregates by key.
pub(crate) struct AggregateMap<const N: usize, A> {
    open: Vec<OpenAggregate<N, A>>,
    /// Where in `open` an aggregate is.
    places: Map<SumKey<N>, u32>,
    /// The aggregate that was asked for last, by its place, for each number that [`slot`] gives.
    recent: [u32; RECENT],
    closed: PackedAggregates<N, A>,
    /// Number of open aggregates at which those that can be closed are closed.
    close_at: usize,
    /// Number of closed ones at which those of one key are joined.
    join_at: usize,
    /// How often aggregates were closed.
    generation: u32,
}

struct OpenAggregate<const N: usize, A> {
    key: SumKey<N>,
    aggregate: A,
    /// Was it asked for since aggregates were closed last?
    is_touched: bool,
}

const RECENT: usize = 128;

/// Threads that are not worth a look. Tests have a few only.
pub(crate) const FEW: usize = if cfg!(test) { 2 } else { 1024 };

/// Packed aggregates that are not worth a look.
const FEW_CLOSED: usize = 64 * FEW;

impl<const N: usize, A> Default for AggregateMap<N, A> {
    fn default() -> Self {
        AggregateMap {
            open: Vec::new(),
            places: Map::default(),
            recent: [0; RECENT],
            closed: PackedAggregates::default(),
            close_at: FEW,
            join_at: FEW_CLOSED,
            generation: 0,
        }
    }
}

#[inline]
fn slot<const N: usize>(key: &SumKey<N>) -> usize {
    let mixed = key.iter().fold(0, |mixed, part| (mixed ^ *part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (mixed >> (u64::BITS - RECENT.ilog2())) as usize
}

impl<const N: usize, A: Aggregate> AggregateMap<N, A> {
    /// The aggregate of a key, since it was closed last.
    #[inline]
    pub(crate) fn entry(&mut self, key: SumKey<N>) -> &mut A {
        let place = self.place(key);
        self.get_mut(place)
    }

    /// The place of the aggregate of a key, until aggregates are [closed](AggregateMap::generation).
    #[inline]
    pub(crate) fn place(&mut self, key: SumKey<N>) -> u32 {
        let recent = self.recent[slot(&key)];
        match self.open.get(recent as usize) {
            Some(open) if open.key == key => recent,
            _ => self.find(key),
        }
    }

    /// The aggregate at a place.
    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut A {
        let open = &mut self.open[place as usize];
        open.is_touched = true;
        &mut open.aggregate
    }

    /// How often aggregates were closed, and others moved.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    fn find(&mut self, key: SumKey<N>) -> u32 {
        if self.open.len() >= self.close_at {
            self.close();
        }
        let AggregateMap { open, places, recent, .. } = self;
        let at = *places.entry(key).or_insert_with(|| {
            open.push(OpenAggregate { key, aggregate: A::default(), is_touched: true });
            open.len() as u32 - 1
        });
        recent[slot(&key)] = at;
        at
    }

    /// Closes the aggregates that were not asked for since this was done last.
    #[cold]
    fn close(&mut self) {
        let AggregateMap { open, closed, .. } = self;
        open.retain_mut(|OpenAggregate { key, aggregate, is_touched }| {
            let is_open = std::mem::take(is_touched) || aggregate.is_large();
            if !is_open {
                closed.push(key, aggregate);
            }
            is_open
        });
        if self.closed.rows.len() >= self.join_at {
            self.join();
        }
        self.places.clear();
        self.places.extend(self.open.iter().zip(0..).map(|(open, at)| (open.key, at)));
        self.close_at = FEW.max(2 * self.open.len());
        self.generation += 1;
    }

    /// Makes one aggregate of those that were closed under one key again and again: otherwise they grow with the trace.
    fn join(&mut self) {
        let mut all = std::mem::take(&mut self.closed);
        all.sort();
        if all.firsts.is_empty() {
            self.closed = all;
        } else {
            for (key, mut aggregate) in all.iter() {
                match aggregate.is_large() {
                    true => self.reopen(key, aggregate),
                    false => self.closed.push(&key, &mut aggregate),
                }
            }
        }
        self.join_at = 2 * self.closed.rows.len() + FEW_CLOSED;
    }

    fn reopen(&mut self, key: SumKey<N>, mut aggregate: A) {
        match self.open.iter_mut().find(|open| open.key == key) {
            Some(open) => {
                // The parts that were closed are older.
                std::mem::swap(&mut open.aggregate, &mut aggregate);
                open.aggregate.add(aggregate);
            }
            None => self.open.push(OpenAggregate { key, aggregate, is_touched: false }),
        }
    }

    /// All aggregates, one for each key. Steps after the last one are that one.
    pub(crate) fn finish(self, last_step: i64) -> PackedAggregates<N, A> {
        let AggregateMap { open, places, mut closed, .. } = self;
        drop(places);
        closed.last_step = last_step;
        for OpenAggregate { key, mut aggregate, .. } in open {
            match aggregate.is_large() {
                true => closed.large.push((key, aggregate)),
                false => closed.push(&key, &mut aggregate),
            }
        }
        closed.sort();
        closed
    }
}

/// Aggregates that are closed, most of them as bytes.
pub(crate) struct PackedAggregates<const N: usize, A> {
    /// Keys and numbers, in the order in which they were closed.
    rows: Rows,
    large: Vec<(SumKey<N>, A)>,
    /// The places of aggregates in the order of their keys, unless all are in `rows` and in their order: those in `rows`, and
    /// after these those in `large`.
    order: Option<Vec<u32>>,
    /// Where in that order the aggregates of each key begin, when some have the same.
    firsts: Vec<u32>,
    last_step: i64,
    /// Storage of a row.
    cells: Vec<Cell>,
}

impl<const N: usize, A> Default for PackedAggregates<N, A> {
    fn default() -> Self {
        PackedAggregates {
            rows: Rows::default(),
            large: Vec::new(),
            order: None,
            firsts: Vec::new(),
            last_step: i64::MAX,
            cells: Vec::new(),
        }
    }
}

/// A number that never falls in the order of keys.
fn rank<const N: usize>(key: &SumKey<N>) -> u64 {
    let main = key[if N > 2 { 2 } else { 1 }].clamp(i32::MIN.into(), i32::MAX.into());
    (key[0].clamp(0, 1 << 30) as u64) << 32 | (main - i64::from(i32::MIN)) as u64
}

impl<const N: usize, A: Aggregate> PackedAggregates<N, A> {
    fn push(&mut self, key: &SumKey<N>, aggregate: &mut A) {
        let PackedAggregates { cells, rows, .. } = self;
        cells.clear();
        cells.extend(key.map(Cell::from));
        aggregate.pack(&mut Packing::<std::iter::Empty<_>>::Put(cells));
        rows.push(cells);
    }

    /// Brings the aggregates into their order.
    fn sort(&mut self) {
        let count = (self.rows.len() + self.large.len()) as u32;
        let edges = (0..count)
            .map(|place| rank(&self.key_at(place)))
            .fold((u64::MAX, 0), |(least, most), rank| (rank.min(least), rank.max(most)));
        let (firsts, order) = match u32::try_from(edges.1.saturating_sub(edges.0)) {
            // Most often there is but one step: half of the room is enough.
            Ok(_) => self.sorted(count, |key| (rank(key) - edges.0) as u32),
            Err(_) => self.sorted(count, rank),
        };
        self.firsts = firsts;
        match self.large.is_empty() {
            true => self.rows.reorder(order.into_iter()),
            false => self.order = Some(order),
        }
    }

    /// Where the aggregates of each key begin, when some have the same, and the places of all in their order.
    fn sorted<R: Copy + Ord>(&self, count: u32, rank: impl Fn(&SumKey<N>) -> R) -> (Vec<u32>, Vec<u32>) {
        let mut ranked: Vec<(R, u32)> = (0..count).map(|place| (rank(&self.key_at(place)), place)).collect();
        ranked.sort_unstable_by(|a, b| {
            let by_key = || self.key_at(a.1).cmp(&self.key_at(b.1));
            a.0.cmp(&b.0).then_with(by_key).then(a.1.cmp(&b.1))
        });
        let is_new = |at: usize| {
            at == 0 || ranked[at].0 != ranked[at - 1].0 || self.key_at(ranked[at].1) != self.key_at(ranked[at - 1].1)
        };
        let has_one_each = (0..ranked.len()).all(is_new);
        let firsts = (0..count).filter(|at| !has_one_each && is_new(*at as usize)).collect();
        (firsts, ranked.into_iter().map(|(_, place)| place).collect())
    }

    /// The place of an aggregate in the order of keys.
    fn place(&self, at: usize) -> u32 {
        self.order.as_ref().map_or(at as u32, |order| order[at])
    }

    /// Bytes that they take.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        let large: usize = self.large.len() * size_of::<(SumKey<N>, A)>();
        let order = self.order.as_ref().map_or(0, |order| size_of_val(&**order));
        self.rows.size() + large + order + size_of_val(&*self.firsts)
    }

    /// Their number.
    pub(crate) fn len(&self) -> usize {
        if self.firsts.is_empty() { self.rows.len() + self.large.len() } else { self.firsts.len() }
    }

    /// Whose aggregate it is.
    pub(crate) fn key(&self, at: usize) -> SumKey<N> {
        self.key_at(self.place(self.parts(at).start))
    }

    /// The parts of an aggregate, each closed by itself, in the order of keys.
    fn parts(&self, at: usize) -> Range<usize> {
        if self.firsts.is_empty() {
            return at..at + 1;
        }
        let all = self.rows.len() + self.large.len();
        self.firsts[at] as usize..self.firsts.get(at + 1).map_or(all, |next| *next as usize)
    }

    fn key_at(&self, place: u32) -> SumKey<N> {
        let mut key = match self.large.get((place as usize).wrapping_sub(self.rows.len())) {
            Some((key, _)) => *key,
            None => {
                let mut numbers = self.rows.values(place as usize);
                std::array::from_fn(|_| match numbers.next() {
                    Some(Value::Integer(number)) => number as i64,
                    _ => unreachable!("aggregates begin with their keys"),
                })
            }
        };
        key[0] = key[0].min(self.last_step);
        key
    }

    /// An aggregate.
    pub(crate) fn get(&self, at: usize) -> A {
        let mut parts = self.parts(at).map(|at| self.part(self.place(at)));
        let mut aggregate = parts.next().unwrap_or_default();
        parts.for_each(|part| aggregate.add(part));
        aggregate
    }

    /// The part of an aggregate at a place.
    #[inline]
    fn part(&self, place: u32) -> A {
        match self.large.get((place as usize).wrapping_sub(self.rows.len())) {
            Some((_, large)) => large.clone(),
            None => {
                let mut part = A::default();
                part.pack(&mut Packing::Take(&mut self.numbers(place)));
                part
            }
        }
    }

    fn numbers(&self, place: u32) -> impl Iterator<Item = Option<i128>> {
        let values = self.rows.values(place as usize).skip(N);
        values.map(|value| if let Value::Integer(number) = value { Some(number) } else { None })
    }

    /// The aggregate of a key.
    pub(crate) fn find(&self, key: SumKey<N>) -> Option<A> {
        // Most often each thread has one.
        let at = key[1] as usize;
        if N == 2 && key[0] == 0 && at < self.len() && self.key(at) == key {
            return Some(self.get(at));
        }
        let at = self.first(|own| rank(&own).cmp(&rank(&key)).then(own.cmp(&key)) == Ordering::Less);
        (at < self.len() && self.key(at) == key).then(|| self.get(at))
    }

    /// The first aggregate that is not `before`.
    pub(crate) fn first(&self, before: impl Fn(SumKey<N>) -> bool) -> usize {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let at = from.midpoint(to);
            if before(self.key(at)) { from = at + 1 } else { to = at }
        }
        from
    }

    /// All aggregates in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SumKey<N>, A)> {
        (0..self.len()).map(|at| (self.key(at), self.get(at)))
    }
}

/// The rows of sums: what they are made of, and their columns after the step and the machine.
pub(crate) trait SumRows<const N: usize, A>: 'static {
    /// Content of a row.
    type Row<'r>;

    /// The columns.
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, Self::Row<'r>>];

    /// The row of the sums of a key, whose step has a length.
    fn row<'r>(&'r self, key: &SumKey<N>, sums: A, length: Ns) -> Self::Row<'r>;

    /// The machine of a key.
    fn machine(&self, key: &SumKey<N>) -> u32;

    /// A number that never falls where rows of one step and machine are in their order.
    fn number(&self, key: &SumKey<N>) -> i64;
}

/// Rows that are made of aggregates when they are shown.
struct AggregateRows<const N: usize, A, D> {
    query: AnalysisQuery,
    range: Option<(Ns, Ns)>,
    aggregates: PackedAggregates<N, A>,
    rows: D,
}

impl<const N: usize, A: Aggregate, D: SumRows<N, A>> Source for AggregateRows<N, A, D> {
    fn append_row<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
        let (key, aggregate) = (self.aggregates.key(row as usize), self.aggregates.get(row as usize));
        self.query.put_step(self.range, key[0], self.rows.machine(&key), values);
        let row = self.rows.row(&key, aggregate, self.query.length_of_step(self.range, key[0]));
        values.extend(values_of(self.rows.columns(), row));
    }

    fn rank(&self, row: u32) -> i64 {
        let key = self.aggregates.key(row as usize);
        self.query.rank(key[0], self.rows.number(&key))
    }
}

/// The rows of those aggregates that are wanted, and their columns.
pub(crate) fn rows_of<const N: usize, A: Aggregate + 'static>(
    query: &AnalysisQuery,
    range: Option<(Ns, Ns)>,
    aggregates: PackedAggregates<N, A>,
    rows: impl SumRows<N, A>,
    is_wanted: impl Fn(&A) -> bool,
) -> (Vec<Column>, Rows) {
    let columns = query.step_columns(columns_of(rows.columns()));
    let of = AggregateRows { query: query.clone(), range, aggregates, rows };
    let mut row = Vec::new();
    let is_kept = |at: &u32| {
        is_wanted(&of.aggregates.get(*at as usize))
            && (query.test.is_none() || {
                row.clear();
                of.append_row(*at, &mut row);
                query.keeps_values(&row)
            })
    };
    let wanted = (0..of.aggregates.len() as u32).filter(is_kept).collect();
    (columns, Rows::from_source(Rc::new(of), wanted))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::durations::Durations;
    use crate::kernel::aggregate::sum::Sum;

    /// Sums of random numbers, as an ordinary map has them and as a aggregates has them.
    fn compare(keys: u64, events: u64, last_step: i64) {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut aggregates: AggregateMap<5, (Durations, ())> = AggregateMap::default();
        let mut known: BTreeMap<SumKey<5>, Vec<u64>> = BTreeMap::new();
        for at in 0..events {
            let step = (at * 4 / events) as i64;
            // Some keys come all the time, most of them for a while.
            let who = if next(3) == 0 { next(3) } else { at * keys / events + next(9) };
            let key = [step, 0, who as i64 - 2, next(2) as i64, i64::MIN];
            let ns = if next(50) == 0 { 1 << 40 } else { next(100_000) };
            aggregates.entry(key).0.add(ns);
            let step = step.min(last_step);
            known.entry([step, key[1], key[2], key[3], key[4]]).or_default().push(ns);
        }
        assert!(aggregates.generation() > 3);
        let closed = aggregates.finish(last_step);
        assert_eq!(closed.len(), known.len());
        for ((key, mut durations), (expected, values)) in closed.iter().zip(known) {
            assert_eq!(key, expected);
            let mut all = Durations::default();
            values.iter().for_each(|ns| all.add(*ns));
            assert_eq!(durations.0.moments.count, all.moments.count, "{key:?}");
            assert_eq!(durations.0.moments.total_ns, all.moments.total_ns);
            assert_eq!(durations.0.moments.deviation_ns(), all.moments.deviation_ns());
            assert_eq!(durations.0.percentiles_ns(&[1, 50, 99]), all.percentiles_ns(&[1, 50, 99]));
            assert_eq!(closed.find(key).map(|found| found.0.moments.count), Some(all.moments.count));
        }
        assert!(closed.find([0, 0, i64::MAX, 0, 0]).is_none());
    }

    #[test]
    fn accounts_are_the_same_whether_they_were_closed_or_not() {
        for (keys, events) in [(3, 60), (50, 2_000), (300, 20_000)] {
            for last_step in [i64::MAX, 2, 0] {
                compare(keys, events, last_step);
            }
        }
    }

    #[derive(Clone, Default)]
    struct Count(i64);

    impl Sum for Count {
        fn add(&mut self, other: Count) {
            self.0 += other.0;
        }
    }

    impl Aggregate for Count {
        fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
            packing.number(&mut self.0);
        }
    }

    #[test]
    fn accounts_that_are_closed_and_opened_again_take_no_more_room() {
        let mut aggregates: AggregateMap<2, Count> = AggregateMap::default();
        let (few, many) = (40, 4_000);
        let mut size_of = |rounds: std::ops::Range<i64>| {
            for round in rounds {
                for key in 0..few {
                    // Others come between, so that each is closed before it comes again.
                    aggregates.entry([0, key]).0 += 1;
                    aggregates.entry([0, few + (round * few + key) % 7]).0 += 1;
                }
            }
            aggregates.closed.rows.size()
        };
        let early = size_of(0..many / 10);
        let late = size_of(many / 10..many);
        assert!(late <= 2 * early.max(FEW_CLOSED * 16), "{early} {late}");
        let closed = aggregates.finish(i64::MAX);
        assert_eq!(closed.len(), few as usize + 7);
        assert!((0..few).all(|key| closed.find([0, key]).is_some_and(|of| of.0 == many)));
    }
}
