//! Clocks, and what snapshots say of two of them at one time (`SPEC.md`, section 4).

use std::collections::HashMap;

use tracemill_format::perfetto::{WireFields, WireValue, clock};

/// Values of clocks that are kept, of all snapshots together.
const MAX_VALUES: usize = 1 << 22;

/// A clock: its number in the trace; clocks of a sequence are different ones in each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ClockKey {
    pub(crate) machine: u32,
    pub(crate) sequence: u32,
    pub(crate) id: u32,
}

impl ClockKey {
    /// The clock of a number in a packet.
    pub(crate) fn new(machine: u32, sequence: u32, id: u32) -> ClockKey {
        ClockKey { machine, sequence: if clock::OF_SEQUENCE.contains(&id) { sequence } else { 0 }, id }
    }
}

/// The state of a clock while the file is read.
#[derive(Clone, Copy, Debug)]
struct ClockState {
    key: ClockKey,
    /// Ns of a unit.
    unit: u64,
    /// Do times count from the one before?
    is_incremental: bool,
    last_ns: u64,
    /// Was a time in it read?
    is_used: bool,
}

/// All clocks of a trace.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    states: Vec<ClockState>,
    numbers: HashMap<ClockKey, u32>,
    /// Snapshots: clocks with their values in ns.
    snapshots: Vec<Vec<(u32, u64)>>,
    values: usize,
    /// The clock that the trace names for all times.
    primary: Option<u32>,
    /// By clock: pairs of its values and those of the trace's clock, in ascending order.
    pairs: Vec<Vec<(u64, i128)>>,
    /// Snapshots were not kept.
    pub(crate) is_cut: bool,
}

impl Clocks {
    /// The number of a clock.
    pub(crate) fn number(&mut self, key: ClockKey) -> u32 {
        let states = &mut self.states;
        *self.numbers.entry(key).or_insert_with(|| {
            states.push(ClockState { key, unit: 1, is_incremental: false, last_ns: 0, is_used: false });
            states.len() as u32 - 1
        })
    }

    /// Takes in a snapshot.
    pub(crate) fn snapshot(&mut self, machine: u32, sequence: u32, content: &[u8]) {
        let mut values = Vec::new();
        for (number, value) in WireFields::new(content) {
            match (number, value) {
                (1, WireValue::Bytes(bytes)) => {
                    let (mut id, mut time, mut is_incremental, mut unit) = (0, 0, false, 1);
                    for (number, value) in WireFields::new(bytes) {
                        match number {
                            1 => id = value.number() as u32,
                            2 => time = value.number(),
                            3 => is_incremental = value.number() != 0,
                            4 => unit = value.number().max(1),
                            _ => {}
                        }
                    }
                    let own = self.number(ClockKey::new(machine, sequence, id));
                    let ns = time.saturating_mul(unit);
                    let state = &mut self.states[own as usize];
                    (state.unit, state.is_incremental, state.last_ns) = (unit, is_incremental, ns);
                    values.push((own, ns));
                }
                (2, value) => {
                    self.primary.get_or_insert(value.number() as u32);
                }
                _ => {}
            }
        }
        if self.values + values.len() > MAX_VALUES {
            self.is_cut = true;
            return;
        }
        self.values += values.len();
        values.sort_unstable();
        values.dedup_by_key(|(own, _)| *own);
        self.snapshots.push(values);
    }

    /// The ns of a time in a clock, as packets state it, in the order of the file.
    #[inline]
    pub(crate) fn ns(&mut self, own: u32, time: u64) -> u64 {
        let state = &mut self.states[own as usize];
        state.is_used = true;
        let ns = time.saturating_mul(state.unit);
        if !state.is_incremental {
            return ns;
        }
        state.last_ns = state.last_ns.saturating_add(ns);
        state.last_ns
    }

    /// Relates all clocks to that of the trace; to be called when all packets were read. Gives the clocks that have times
    /// and are not related.
    pub(crate) fn finish(&mut self) -> Vec<ClockKey> {
        let id = self.primary.unwrap_or(clock::BOOTTIME);
        // A trace that knows one clock only is in that.
        let used: Vec<u32> = (0..self.states.len() as u32).filter(|own| self.states[*own as usize].is_used).collect();
        let key = ClockKey { machine: 0, sequence: 0, id };
        let is_known = self.numbers.contains_key(&key);
        let target = match used[..] {
            [only] if !is_known => only,
            _ => self.number(key),
        };
        let mut of_clock: Vec<Vec<u32>> = vec![Vec::new(); self.states.len()];
        for (at, snapshot) in self.snapshots.iter().enumerate() {
            snapshot.iter().for_each(|(own, _)| of_clock[*own as usize].push(at as u32));
        }
        self.pairs = vec![Vec::new(); self.states.len()];
        let (mut is_done, mut is_read) = (vec![false; self.states.len()], vec![false; self.snapshots.len()]);
        is_done[target as usize] = true;
        let mut pending = std::collections::VecDeque::from([target]);
        while let Some(near) = pending.pop_front() {
            // Snapshots of this clock relate all others in them to the trace's clock, as it is related itself.
            let mut found: Vec<u32> = Vec::new();
            for &at in &of_clock[near as usize] {
                if std::mem::replace(&mut is_read[at as usize], true) {
                    continue;
                }
                let snapshot = &self.snapshots[at as usize];
                let Some(&(_, near_ns)) = snapshot.iter().find(|(own, _)| *own == near) else { continue };
                let trace_ns = self.trace_ns(near, target, near_ns);
                for &(own, ns) in snapshot.iter().filter(|(own, _)| !is_done[*own as usize]) {
                    self.pairs[own as usize].push((ns, trace_ns));
                    found.push(own);
                }
            }
            found.sort_unstable();
            found.dedup();
            for own in found {
                self.pairs[own as usize].sort_unstable();
                is_done[own as usize] = true;
                pending.push_back(own);
            }
        }
        used.into_iter().filter(|own| !is_done[*own as usize]).map(|own| self.states[own as usize].key).collect()
    }

    fn trace_ns(&self, own: u32, target: u32, ns: u64) -> i128 {
        let pairs = &self.pairs[own as usize];
        if own == target || pairs.is_empty() {
            return ns.into();
        }
        let after = pairs.partition_point(|(known, _)| *known <= ns);
        let (known, trace) = pairs[after.saturating_sub(1)];
        i128::from(ns) - i128::from(known) + trace
    }

    /// A time in a clock as one of the trace's; that of a clock that is not related as it is.
    pub(crate) fn to_trace(&self, own: u32, ns: u64) -> i64 {
        // The target has no pairs.
        let time = self.trace_ns(own, u32::MAX, ns);
        time.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The time of day at the zero of the trace's clock in ns, by the first snapshot that has both.
    pub(crate) fn unix_zero(&self) -> Option<i128> {
        let own = *self.numbers.get(&ClockKey { machine: 0, sequence: 0, id: clock::REALTIME })?;
        let &(real, trace) = self.pairs.get(own as usize)?.first()?;
        Some(i128::from(real) - trace)
    }

    /// Is the trace's clock the time of day?
    pub(crate) fn is_unix(&self) -> bool {
        self.primary == Some(clock::REALTIME)
    }
}

#[cfg(test)]
mod tests {
    use tracemill_format::perfetto::ProtoWriter;

    use super::*;

    fn snapshot(values: &[(u64, u64)]) -> Vec<u8> {
        let mut out = ProtoWriter::default();
        for (id, time) in values {
            out.begin(1);
            out.unsigned(1, *id);
            out.unsigned(2, *time);
            out.end();
        }
        out.written().to_vec()
    }

    #[test]
    fn clocks_are_related_over_others() {
        let mut clocks = Clocks::default();
        clocks.snapshot(0, 0, &snapshot(&[(6, 1000), (3, 100)]));
        clocks.snapshot(0, 0, &snapshot(&[(6, 2000), (3, 1099)]));
        clocks.snapshot(0, 0, &snapshot(&[(3, 50), (1, 1_000_000)]));
        clocks.snapshot(0, 7, &snapshot(&[(1, 1_000_500), (64, 3)]));
        let of = |clocks: &mut Clocks, sequence, id| clocks.number(ClockKey::new(0, sequence, id));
        let (boot, monotonic, own) = (of(&mut clocks, 0, 6), of(&mut clocks, 0, 3), of(&mut clocks, 7, 64));
        let (other, raw) = (of(&mut clocks, 8, 64), of(&mut clocks, 0, 5));
        for own in [boot, monotonic, own, other, raw] {
            clocks.ns(own, 0);
        }
        let lost = clocks.finish();
        assert_eq!(lost, [ClockKey { machine: 0, sequence: 8, id: 64 }, ClockKey { machine: 0, sequence: 0, id: 5 }]);
        assert_eq!(clocks.to_trace(boot, 77), 77);
        // The snapshot before counts; before the first one, the first.
        assert_eq!([90, 100, 1098, 1099, 1200].map(|ns| clocks.to_trace(monotonic, ns)), [990, 1000, 1998, 2000, 2101]);
        assert_eq!(clocks.unix_zero(), Some(1_000_000 - 950));
        assert_eq!(clocks.to_trace(own, 5), 950 + 500 + 2);
        assert_eq!(clocks.to_trace(raw, 5), 5);
    }

    #[test]
    fn times_may_count_from_the_one_before() {
        let mut clocks = Clocks::default();
        let mut out = ProtoWriter::default();
        for (id, time, is_incremental, unit) in [(6, 10_000, 0, 1), (64, 5, 1, 1000)] {
            out.begin(1);
            out.unsigned(1, id);
            out.unsigned(2, time);
            out.unsigned(3, is_incremental);
            out.unsigned(4, unit);
            out.end();
        }
        clocks.snapshot(0, 3, out.written());
        let own = clocks.number(ClockKey::new(0, 3, 64));
        assert_eq!([clocks.ns(own, 2), clocks.ns(own, 0), clocks.ns(own, 1)], [7000, 7000, 8000]);
        assert!(clocks.finish().is_empty());
        assert_eq!(clocks.to_trace(own, 7000), 12_000);
    }

    #[test]
    fn a_trace_of_one_clock_is_in_that() {
        let mut clocks = Clocks::default();
        let own = clocks.number(ClockKey::new(0, 0, 3));
        clocks.ns(own, 5);
        assert!(clocks.finish().is_empty());
        assert_eq!((clocks.to_trace(own, 5), clocks.unix_zero()), (5, None));
    }
}
