//! Exact conversion of cycles to time.
//!
//! Time is a signed number of ns since the origin of the clock. All arithmetic is on integers of 128 bits:
//! `ns = offset_seconds * 10^9 + floor((offset_cycles + cycles) * 10^9 / frequency)` (CTF 2, "clock class"; the same
//! for CTF 1.8, section 8), and `offset_ns` for clocks that were read when the wall clock stood between two cycles.
//! Of a frequency that is a ratio, `frequency` is the dividend and the ns are multiplied by the divisor.
//! 64 bits of ns are 292 years: slow clocks with large counts leave them, and nothing here is truncated to that.

use std::cmp::Ordering;

use crate::schema::ClockClass;

/// Nanoseconds in a second.
pub const NS_PER_SECOND: i128 = 1_000_000_000;

/// Turns cycles into time. Cheap to copy; clocks of 1 GHz need one addition.
///
/// ```
/// use tracemill_model::clock::ClockMap;
/// use tracemill_model::schema::ClockClass;
///
/// // 3 MHz, 10 s after its origin: a cycle is a third of a microsecond.
/// let clock = ClockClass { frequency: 3_000_000, offset_seconds: 10, ..ClockClass::nanoseconds("tsc") };
/// let map = ClockMap::new(&clock, 0);
/// assert_eq!(map.ns(1), 10_000_000_333);
/// assert_eq!(map.first_cycles_at(10_000_001_000), Some(3));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockMap {
    frequency: u64,
    /// The ns in which `frequency` ticks pass: those of a second, times the divisor of a ratio.
    unit_ns: u64,
    /// Whether it is a second, and products of 64 bits are enough.
    is_short: bool,
    /// Added to the cycles before the division.
    offset_cycles: i128,
    /// Added to the ns after it.
    offset_ns: i128,
    /// `offset_ns` for the fast path of a clock of 1 GHz, when no sum with a count below 2^62 leaves 64 bits.
    quick_ns: Option<i64>,
    drift: Option<Drift>,
}

/// A clock that runs too fast or too slow against another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drift {
    /// Correction of its time per ns, in parts of 10^15.
    pub per_1e15: i64,
    /// Time in ns, offsets included, at which nothing is added.
    pub from_ns: i64,
}

impl Drift {
    /// The key of a moment without drift, with it: exact, so that order stays.
    fn moved(self, key: i128) -> i128 {
        let diff = key - (i128::from(self.from_ns) << 32);
        let (ns, fraction) = (diff >> 32, diff & 0xffff_ffff);
        let (parts, unit) = (i128::from(self.per_1e15), 1_000_000_000_000_000);
        // Below 2^96 times 2^63 parts: in two steps of less than 2^127 each.
        let (whole, part) = (ns.div_euclid(unit), ns.rem_euclid(unit));
        let product = part * parts;
        let rest = (product.rem_euclid(unit) << 32) + fraction * parts;
        let moved_ns = whole.saturating_mul(parts).saturating_add(product.div_euclid(unit));
        key.saturating_add(clamp(moved_ns) << 32).saturating_add(rest.div_euclid(unit))
    }

    /// A time in ns without drift, with it.
    pub fn ns(self, ns: i128) -> i128 {
        self.moved(TimeKey::from_ns(ns).0) >> 32
    }
}

/// Counts below this are added to [`ClockMap::quick_ns`] without a check.
const QUICK_CYCLES: u64 = 1 << 62;

/// A point in time that orders events: ns, then a 32-bit fraction of one. What is equal still may differ by less than
/// that: [`ClockMap::compare_rests`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimeKey(i128);

impl TimeKey {
    /// Before every time: events without a clock.
    pub const MIN: TimeKey = TimeKey(i128::MIN);

    /// After every time.
    pub const MAX: TimeKey = TimeKey(i128::MAX);

    /// The key of a whole number of ns.
    pub fn from_ns(ns: i128) -> Self {
        TimeKey(clamp(ns) << 32)
    }

    #[inline]
    fn from_few_ns(ns: i64) -> Self {
        TimeKey(i128::from(ns) << 32)
    }
}

impl ClockMap {
    /// The map of a clock class, moved by `correction_ns` (what the user asked with `--clock-offset`).
    pub fn new(clock: &ClockClass, correction_ns: i64) -> Self {
        let (frequency, seconds) = (clock.frequency.max(1), u64::from(clock.seconds.max(1)));
        let common = greatest_common_divisor(frequency, seconds);
        let (frequency, seconds) = (frequency / common, seconds / common);
        let mut map = ClockMap {
            frequency,
            unit_ns: seconds * NS_PER_SECOND as u64,
            is_short: seconds == 1 && frequency <= u64::from(u32::MAX),
            offset_cycles: clock.offset_cycles,
            offset_ns: clock.offset_seconds as i128 * NS_PER_SECOND + clock.offset_ns as i128 + correction_ns as i128,
            quick_ns: None,
            drift: None,
        };
        if map.ticks_in_ns() {
            map.offset_ns += map.offset_cycles;
            map.offset_cycles = 0;
            let is_small = map.offset_ns.unsigned_abs() < u128::from(QUICK_CYCLES);
            map.quick_ns = is_small.then_some(map.offset_ns as i64);
        }
        map
    }

    /// This map for a clock that drifts.
    #[must_use]
    pub fn with_drift(mut self, drift: Option<Drift>) -> Self {
        self.drift = drift;
        if drift.is_some() {
            self.quick_ns = None;
        }
        self
    }

    /// Does one cycle last one ns?
    pub fn ticks_in_ns(&self) -> bool {
        self.frequency == self.unit_ns
    }

    /// The ns from the origin to the cycle count.
    #[inline]
    pub fn ns(&self, cycles: u64) -> i128 {
        match self.quick_ns {
            Some(offset_ns) if cycles < QUICK_CYCLES => i128::from(offset_ns + cycles as i64),
            _ => self.ns_slowly(cycles),
        }
    }

    fn ns_slowly(&self, cycles: u64) -> i128 {
        if self.drift.is_some() {
            return self.key_slowly(cycles).0 >> 32;
        }
        if self.ticks_in_ns() {
            return self.offset_ns + cycles as i128;
        }
        if let Some((ns, _)) = self.short_ns(cycles) {
            return ns + self.offset_ns;
        }
        self.long_ns(cycles).0
    }

    /// The ns, and what the division leaves, whatever the numbers.
    fn long_ns(&self, cycles: u64) -> (i128, u64) {
        let (total, frequency) = (self.offset_cycles.saturating_add(cycles as i128), self.frequency as i128);
        let unit = self.unit_ns as i128;
        let (units, rest) = (total.div_euclid(frequency), total.rem_euclid(frequency) * unit);
        let ns = units.saturating_mul(unit).saturating_add(rest / frequency).saturating_add(self.offset_ns);
        (ns, (rest % frequency) as u64)
    }

    /// The ns before `offset_ns` is added, and what the division leaves, by divisions of 64 bits: for clocks of less
    /// than 4.3 GHz at times that are not before their zero.
    #[inline]
    fn short_ns(&self, cycles: u64) -> Option<(i128, u64)> {
        let total = u64::try_from(self.offset_cycles + cycles as i128).ok()?;
        if !self.is_short {
            return None;
        }
        let (seconds, rest) = (total / self.frequency, total % self.frequency);
        let rest_ns = rest * NS_PER_SECOND as u64;
        let ns = i128::from(seconds) * NS_PER_SECOND + i128::from(rest_ns / self.frequency);
        Some((ns, rest_ns % self.frequency))
    }

    /// The key that merging compares.
    #[inline]
    pub fn key(&self, cycles: u64) -> TimeKey {
        match self.quick_ns {
            Some(offset_ns) if cycles < QUICK_CYCLES => TimeKey::from_few_ns(offset_ns + cycles as i64),
            _ => self.key_slowly(cycles),
        }
    }

    fn key_slowly(&self, cycles: u64) -> TimeKey {
        if let Some(drift) = self.drift {
            let without = ClockMap { drift: None, ..*self };
            return TimeKey(drift.moved(without.key_slowly(cycles).0));
        }
        if self.ticks_in_ns() {
            return TimeKey::from_ns(self.offset_ns + cycles as i128);
        }
        if let Some((ns, rest)) = self.short_ns(cycles) {
            // Both are below 2^32.
            let fraction = (rest << 32) / self.frequency;
            return TimeKey((clamp(ns + self.offset_ns) << 32) + i128::from(fraction));
        }
        let (ns, rest) = self.long_ns(cycles);
        TimeKey((clamp(ns) << 32) + (i128::from(rest) << 32) / i128::from(self.frequency))
    }

    /// How two counts of equal keys are ordered by what keys leave out.
    #[cold]
    pub fn compare_rests(&self, cycles: u64, other: &ClockMap, other_cycles: u64) -> Ordering {
        if self.drift.is_some() || other.drift.is_some() || self.ticks_in_ns() && other.ticks_in_ns() {
            return Ordering::Equal;
        }
        let cross =
            |map: &ClockMap, cycles, by: &ClockMap| u128::from(map.long_ns(cycles).1) * u128::from(by.frequency);
        cross(self, cycles, other).cmp(&cross(other, other_cycles, self))
    }

    /// The smallest cycle count whose key is at least `key`, `None` when no count is that late.
    #[inline]
    pub fn first_cycles_from(&self, key: TimeKey) -> Option<u64> {
        if self.drift.is_some() {
            return self.search(|map, cycles| map.key(cycles) >= key);
        }
        if self.ticks_in_ns() {
            // Keys of this clock are whole ns.
            let ns = (key.0 + 0xffff_ffff) >> 32;
            let cycles = ns.saturating_sub(self.offset_ns);
            return if cycles < 0 { Some(0) } else { u64::try_from(cycles).ok() };
        }
        // A key is floor(total * unit_ns * 2^32 / frequency), moved by the offset, as long as it is not held.
        let ns = key.0 >> 32;
        let fits = ns.unsigned_abs() < MAX_NS.unsigned_abs() && self.offset_ns.unsigned_abs() < MAX_NS.unsigned_abs();
        let since_zero = key.0.checked_sub(self.offset_ns << 32).filter(|_| fits);
        let product = since_zero.and_then(|key| key.checked_mul(self.frequency as i128));
        let Some(product) = product else { return self.search(|map, cycles| map.key(cycles) >= key) };
        let unit = i128::from(self.unit_ns) << 32;
        let total = product.div_euclid(unit) + i128::from(product.rem_euclid(unit) != 0);
        let cycles = total.saturating_sub(self.offset_cycles);
        if cycles < 0 { Some(0) } else { u64::try_from(cycles).ok() }
    }

    /// The smallest cycle count whose time is at least `ns`, `None` when no count is that late.
    pub fn first_cycles_at(&self, ns: i128) -> Option<u64> {
        self.search(|map, cycles| map.ns(cycles) >= ns)
    }

    /// The cycles that end between count 0 and `ns`; `None` before count 0, and when it is more than a count can be.
    pub fn whole_cycles_at(&self, ns: i128) -> Option<u64> {
        if self.drift.is_some() {
            let after = self.search(|map, cycles| map.ns(cycles) > ns);
            return after.map_or(Some(u64::MAX), |after| after.checked_sub(1));
        }
        let since_zero = ns.checked_sub(self.ns(0)).filter(|&since| since >= 0)?;
        let product = since_zero.checked_mul(self.frequency as i128)?;
        u64::try_from(product / self.unit_ns as i128).ok()
    }

    /// The smallest cycle count for which a condition holds that stays true from there on.
    fn search(&self, holds: impl Fn(&ClockMap, u64) -> bool) -> Option<u64> {
        if !holds(self, u64::MAX) {
            return None;
        }
        let (mut low, mut high) = (0u64, u64::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(self, middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }
}

/// Keys hold ns up to this: 1.2 billion years, more than 2^64 cycles of 1 Hz last.
const MAX_NS: i128 = (1 << 95) - 1;

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[inline]
fn clamp(ns: i128) -> i128 {
    ns.clamp(-MAX_NS, MAX_NS)
}

/// Extends a clock value by a field that holds its low `len_bits` bits.
///
/// The bits above the field are kept; when the new low part is below the old one, exactly one wrap happened. A field
/// of 64 bits or more replaces the value (CTF 1.8.3, section 8; CTF 2, "clock value update").
///
/// ```
/// use tracemill_model::clock::extend_cycles;
/// assert_eq!(extend_cycles(0x1_fe, 0x02, 8), 0x2_02, "8 bits have wrapped");
/// ```
#[inline]
pub fn extend_cycles(current: u64, low: u64, len_bits: u32) -> u64 {
    if len_bits >= 64 {
        return low;
    }
    extend_masked(current, low, (1u64 << len_bits) - 1)
}

/// [`extend_cycles`] where the lower bits are those of a mask, which has no gaps: 0 for none, all for 64.
#[inline]
pub fn extend_masked(current: u64, low: u64, mask: u64) -> u64 {
    // These cycles have passed since, if there were fewer than the lower bits can count.
    current.wrapping_add(low.wrapping_sub(current) & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(frequency: u64, offset_seconds: i64, offset_cycles: i128) -> ClockMap {
        let class = ClockClass { frequency, offset_seconds, offset_cycles, ..ClockClass::nanoseconds("c") };
        ClockMap::new(&class, 0)
    }

    #[test]
    fn floor_is_exact_for_odd_frequencies_and_negative_offsets() {
        assert_eq!(clock(3, 0, 0).ns(1), 333_333_333);
        assert_eq!(clock(3, 0, -2).ns(1), -333_333_334);
        assert_eq!(clock(3, -1, 0).ns(2), -333_333_334);
        assert_eq!(clock(1_000_000_000, 5, 7).ns(3), 5_000_000_010);
        // These leave the 64-bit range of ns.
        assert_eq!(clock(10_000_000, 0, 0).ns(1 << 63), 100 << 63);
        assert_eq!(clock(1, i64::MAX, 7).ns(u64::MAX), ((1 << 64) + (1 << 63) + 5) * NS_PER_SECOND);
        assert_eq!(clock(1_000_000_000, 0, 0).ns(u64::MAX), i128::from(u64::MAX));
        // The product needs more than 64 bits, the result does not.
        assert_eq!(clock(3_000_000_007, 0, 0).ns(9_000_000_000_000_000_000), 2_999_999_993_000_000_016);
    }

    #[test]
    fn keys_order_counts_within_one_ns() {
        let fast = clock(4_000_000_000, 0, 0);
        assert_eq!(fast.ns(1), fast.ns(2));
        assert!(fast.key(1) < fast.key(2));
        assert!(fast.key(3) < clock(1_000_000_000, 0, 0).key(1));
        assert_eq!(fast.key(4), clock(1_000_000_000, 0, 0).key(1));
    }

    #[test]
    fn keys_order_times_of_centuries() {
        let (slow, fast) = (clock(1_000_000, 0, 0), clock(1_000_000_000, 0, 0));
        assert!(slow.key(u64::MAX - 1) < slow.key(u64::MAX));
        assert!(fast.key(u64::MAX) < slow.key(u64::MAX));
        assert!(clock(1, i64::MAX, 0).key(u64::MAX) > clock(1, 0, 0).key(u64::MAX));
        assert_eq!(fast.first_cycles_from(slow.key(u64::MAX)), None);
        assert_eq!(slow.first_cycles_from(slow.key(u64::MAX - 3)), Some(u64::MAX - 3));
    }

    #[test]
    fn what_keys_leave_out_is_compared() {
        // 1/3 and 333333333/999999999 are equal, 33333333333/99999000000 is a bit more: 3.3e-6 ns.
        let (three, many) = (clock(3, 0, 0), clock(999_999_999, 0, 0));
        assert_eq!(three.key(1), many.key(333_333_333));
        assert_eq!(three.compare_rests(1, &many, 333_333_333), Ordering::Equal);
        // Two fast clocks: 1/99999000000 and 1/99998999999 s differ by 1e-13 ns, less than 2^-32.
        let (a, b) = (clock(99_999_000_000, 0, 0), clock(99_998_999_999, 0, 0));
        assert_eq!(a.key(1), b.key(1));
        assert_eq!(a.compare_rests(1, &b, 1), Ordering::Less);
        assert_eq!(b.compare_rests(1, &a, 1), Ordering::Greater);
    }

    #[test]
    fn a_frequency_may_be_a_ratio() {
        let ratio = |frequency, seconds| {
            let class = ClockClass { frequency, seconds, ..ClockClass::nanoseconds("c") };
            ClockMap::new(&class, 0)
        };
        // 1,000,000 ticks in 3 seconds are 333,333.3 Hz.
        assert_eq!(ratio(1_000_000, 3).ns(1), 3000);
        assert_eq!(ratio(1_000_003, 3).ns(1_000_003), 3 * NS_PER_SECOND);
        assert_eq!(ratio(1_000_003, 3).ns(1), 2999);
        assert_eq!(ratio(1, u32::MAX).ns(u64::MAX), i128::from(u64::MAX) * i128::from(u32::MAX) * NS_PER_SECOND);
        // A ratio that is a whole number is reduced to it.
        assert_eq!(ratio(30, 3), ratio(10, 1));
        assert!(ratio(2_000_000_000, 2).ticks_in_ns());
        assert!(ratio(3, 2).key(2) < ratio(5, 4).key(2));
        assert_eq!(ratio(3, 7).compare_rests(1, &ratio(3, 7), 1), Ordering::Equal);
    }

    #[test]
    fn wraps_use_the_width_of_the_field() {
        assert_eq!(extend_cycles(0x7ff_ffff, 5, 27), 0x800_0005);
        assert_eq!(extend_cycles(0x7ff_fff0, 0x7ff_fff0, 27), 0x7ff_fff0);
        assert_eq!(extend_cycles(u64::MAX, 3, 64), 3);
        assert_eq!(extend_cycles(0xffff_ffff_ffff_fff0, 1, 7), 1); // the whole counter wraps
    }

    #[test]
    fn first_cycles_inverts_ns() {
        let map = clock(3, 0, 0);
        assert_eq!(map.first_cycles_at(333_333_333), Some(1));
        assert_eq!(map.first_cycles_at(333_333_334), Some(2));
        assert_eq!(map.first_cycles_at(-10), Some(0));
        assert_eq!(clock(1_000_000_000, 0, 0).first_cycles_at(i64::MAX.into()), Some(i64::MAX as u64));
        assert_eq!(clock(1_000_000, 0, 0).first_cycles_at(1 << 70), Some(((1u128 << 70) / 1000 + 1) as u64));
    }

    #[test]
    fn whole_cycles_are_those_that_have_ended() {
        let map = clock(3, 0, 0);
        assert_eq!([333_333_333, 333_333_334, NS_PER_SECOND].map(|ns| map.whole_cycles_at(ns)), [0, 1, 3].map(Some));
        assert_eq!(map.whole_cycles_at(-1), None);
        assert_eq!(map.whole_cycles_at(i128::MAX), None);
        let slow = clock(1_000_000, 1, 0);
        assert_eq!(slow.whole_cycles_at(NS_PER_SECOND + 1_999), Some(1));
        assert_eq!(slow.whole_cycles_at(NS_PER_SECOND - 1), None);
        let drifting = slow.with_drift(Some(Drift { per_1e15: 500_000_000_000_000, from_ns: 1_000_000_000 }));
        assert_eq!([1_499, 1_500].map(|since| drifting.whole_cycles_at(NS_PER_SECOND + since)), [0, 1].map(Some));
    }

    #[test]
    fn drift_is_exact_and_keeps_the_order() {
        for per_1e15 in [20_000_000_000, -20_000_000_000, 1_000_000_000_000, -1] {
            let from_ns = 1_700_000_000_000_000_000;
            let drift = Drift { per_1e15, from_ns };
            for frequency in [1_000_000_000, 3_000_000_007] {
                let map = clock(frequency, 1_700_000_000, 0);
                let moved = map.with_drift(Some(drift));
                let hour = 3600 * frequency;
                let want = map.ns(hour) + (3600 * i128::from(per_1e15)).div_euclid(1_000_000);
                assert_eq!(moved.ns(hour), want, "{per_1e15} {frequency}");
                assert_eq!(moved.ns(0), map.ns(0));
                for cycles in [0, 5, 999_999, hour - 1] {
                    assert!(moved.key(cycles) < moved.key(cycles + 1), "{per_1e15} {frequency} {cycles}");
                    assert_eq!(moved.first_cycles_from(moved.key(cycles)), Some(cycles));
                    // The fraction of a cycle that rounding to ns drops drifts, too.
                    assert!((0..=1).contains(&(moved.ns(cycles) - drift.ns(map.ns(cycles)))));
                }
            }
        }
    }

    #[test]
    fn the_short_ways_are_the_long_ones() {
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> (seed >> 58)
        };
        for _ in 0..20_000 {
            let class = ClockClass {
                frequency: (next() % 8_000_000_000).max(1),
                seconds: if next() % 4 == 0 { (next() % 5000) as u32 } else { 1 },
                offset_seconds: (next() % 4_000_000_000) as i64 - 1_000_000_000,
                offset_cycles: i128::from(next()) - i128::from(next()),
                offset_ns: (next() % 1_000_000_000) as i64,
                ..ClockClass::nanoseconds("c")
            };
            let (map, cycles) = (ClockMap::new(&class, 0), next());
            let total = map.offset_cycles + i128::from(cycles);
            let unit = NS_PER_SECOND * i128::from(class.seconds.max(1));
            let ns = total.checked_mul(unit).expect("small").div_euclid(i128::from(class.frequency));
            assert_eq!(map.ns(cycles), ns + map.offset_ns, "{class:?} {cycles}");
            for key in [map.key(cycles), TimeKey(map.key(cycles).0 + 1), TimeKey::from_ns(map.ns(next()))] {
                let slow = map.search(|map, cycles| map.key(cycles) >= key);
                assert_eq!(map.first_cycles_from(key), slow, "{class:?} {key:?}");
            }
        }
    }
}
