//! Exact conversion of cycles to time.
//!
//! Time is a signed number of ns since the origin of the clock. All arithmetic is on integers of 128 bits:
//! `ns = offset_seconds * 10^9 + floor((offset_cycles + cycles) * 10^9 / frequency)` (CTF 2, "clock class"; the same
//! for CTF 1.8, section 8), and `offset_ns` for clocks that were read when the wall clock stood between two cycles.

use crate::schema::ClockClass;

/// Nanoseconds in a second.
pub const NS_PER_SECOND: i128 = 1_000_000_000;

/// Turns cycles into time. Cheap to copy; clocks of 1 GHz need one addition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockMap {
    frequency: u64,
    /// Added to the cycles before the division.
    offset_cycles: i128,
    /// Added to the ns after it.
    offset_ns: i128,
    /// The same offset for a clock of 1 GHz, when no sum with a count below 2^62 leaves the range of ns.
    quick_ns: Option<i64>,
    drift: Option<Drift>,
}

/// A clock that runs too fast or too slow against another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drift {
    /// What is added to its time for each ns, in parts of 10^15.
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
        let product = ns * parts;
        let rest = (product.rem_euclid(unit) << 32) + fraction * parts;
        key + (product.div_euclid(unit) << 32) + rest.div_euclid(unit)
    }

    /// A time in ns without drift, with it.
    pub fn ns(self, ns: i64) -> i64 {
        saturate(self.moved(i128::from(ns) << 32) >> 32)
    }
}

/// Counts below this are added to [`ClockMap::quick_ns`] without a check.
const QUICK_CYCLES: u64 = 1 << 62;

/// A point in time that orders events exactly: ns, then a 32-bit fraction of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimeKey(i128);

impl TimeKey {
    /// Before every time: events without a clock.
    pub const MIN: TimeKey = TimeKey(i128::MIN);

    /// The key of a whole number of ns.
    pub fn from_ns(ns: i64) -> Self {
        TimeKey((ns as i128) << 32)
    }
}

impl ClockMap {
    /// The map of a clock class, moved by `correction_ns` (what the user asked with `--clock-offset`).
    pub fn new(clock: &ClockClass, correction_ns: i64) -> Self {
        let mut map = ClockMap {
            frequency: clock.frequency.max(1),
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

    /// The same map for a clock that drifts.
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
        self.frequency == NS_PER_SECOND as u64
    }

    /// The ns from the origin to the cycle count; held at the ends of the 64-bit range.
    #[inline]
    pub fn ns(&self, cycles: u64) -> i64 {
        match self.quick_ns {
            Some(offset_ns) if cycles < QUICK_CYCLES => offset_ns + cycles as i64,
            _ => self.ns_slowly(cycles),
        }
    }

    fn ns_slowly(&self, cycles: u64) -> i64 {
        if self.drift.is_some() {
            return saturate(self.key_slowly(cycles).0 >> 32);
        }
        if self.ticks_in_ns() {
            return saturate(self.offset_ns + cycles as i128);
        }
        if let Some((ns, _)) = self.short_ns(cycles) {
            return saturate(ns + self.offset_ns);
        }
        let total = self.offset_cycles + cycles as i128;
        let ns = match total.checked_mul(NS_PER_SECOND) {
            Some(product) => product.div_euclid(self.frequency as i128),
            None => saturate(total) as i128,
        };
        saturate(ns + self.offset_ns)
    }

    /// The ns before `offset_ns` is added, and what the division leaves, by divisions of 64 bits: for clocks of less
    /// than 4.3 GHz at times that are not before their zero.
    #[inline]
    fn short_ns(&self, cycles: u64) -> Option<(i128, u64)> {
        let total = u64::try_from(self.offset_cycles + cycles as i128).ok()?;
        if self.frequency > u64::from(u32::MAX) {
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
            Some(offset_ns) if cycles < QUICK_CYCLES => TimeKey::from_ns(offset_ns + cycles as i64),
            _ => self.key_slowly(cycles),
        }
    }

    fn key_slowly(&self, cycles: u64) -> TimeKey {
        if let Some(drift) = self.drift {
            let without = ClockMap { drift: None, ..*self };
            return TimeKey(drift.moved(without.key_slowly(cycles).0));
        }
        if self.ticks_in_ns() {
            return TimeKey((saturate(self.offset_ns + cycles as i128) as i128) << 32);
        }
        if let Some((ns, rest)) = self.short_ns(cycles) {
            // Both are below 2^32.
            let fraction = (rest << 32) / self.frequency;
            return TimeKey((i128::from(saturate(ns + self.offset_ns)) << 32) + i128::from(fraction));
        }
        let frequency = self.frequency as i128;
        let Some(product) = (self.offset_cycles + cycles as i128).checked_mul(NS_PER_SECOND) else {
            return TimeKey::from_ns(self.ns(cycles));
        };
        let ns = saturate(product.div_euclid(frequency) + self.offset_ns);
        let fraction = (product.rem_euclid(frequency) << 32) / frequency;
        TimeKey(((ns as i128) << 32) + fraction)
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
            let cycles = ns - self.offset_ns;
            return if cycles < 0 { Some(0) } else { u64::try_from(cycles).ok() };
        }
        // A key is floor(total * 10^9 * 2^32 / frequency), moved by the offset, as long as its ns fit 64 bits.
        let ns = key.0 >> 32;
        let fits = i128::from(i64::MIN) < ns && ns < i128::from(i64::MAX);
        let product = (key.0 - (self.offset_ns << 32)).checked_mul(self.frequency as i128).filter(|_| fits);
        let Some(product) = product else { return self.search(|map, cycles| map.key(cycles) >= key) };
        let unit = NS_PER_SECOND << 32;
        let total = product.div_euclid(unit) + i128::from(product.rem_euclid(unit) != 0);
        let cycles = total - self.offset_cycles;
        if cycles < 0 { Some(0) } else { u64::try_from(cycles).ok() }
    }

    /// The smallest cycle count whose time is at least `ns`, `None` when no count is that late.
    pub fn first_cycles_at(&self, ns: i64) -> Option<u64> {
        self.search(|map, cycles| map.ns(cycles) >= ns)
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

fn saturate(ns: i128) -> i64 {
    ns.clamp(i64::MIN as i128, i64::MAX as i128) as i64
}

/// Extends a clock value by a field that holds its low `len_bits` bits.
///
/// The bits above the field are kept; when the new low part is below the old one, exactly one wrap happened. A field
/// of 64 bits or more replaces the value (CTF 1.8.3, section 8; CTF 2, "clock value update").
#[inline]
pub fn extend_cycles(current: u64, low: u64, len_bits: u32) -> u64 {
    if len_bits >= 64 {
        return low;
    }
    let mask = (1u64 << len_bits) - 1;
    let low = low & mask;
    let kept = current & !mask;
    if low < current & mask { kept.wrapping_add(mask).wrapping_add(1) | low } else { kept | low }
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
        // 2^63 cycles at 10 MHz leave the 64-bit range of ns.
        assert_eq!(clock(10_000_000, 0, 0).ns(1 << 63), i64::MAX);
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
        assert_eq!(clock(1_000_000_000, 0, 0).first_cycles_at(i64::MAX), Some(i64::MAX as u64));
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
                let want = map.ns(hour) + (3600 * i128::from(per_1e15)).div_euclid(1_000_000) as i64;
                assert_eq!(moved.ns(hour), want, "{per_1e15} {frequency}");
                assert_eq!(moved.ns(0), map.ns(0));
                for cycles in [0, 5, 999_999, hour - 1] {
                    assert!(moved.key(cycles) < moved.key(cycles + 1), "{per_1e15} {frequency} {cycles}");
                    assert_eq!(moved.first_cycles_from(moved.key(cycles)), Some(cycles));
                    // What a ns leaves of a cycle drifts too.
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
                offset_seconds: (next() % 4_000_000_000) as i64 - 1_000_000_000,
                offset_cycles: i128::from(next()) - i128::from(next()),
                offset_ns: (next() % 1_000_000_000) as i64,
                ..ClockClass::nanoseconds("c")
            };
            let (map, cycles) = (ClockMap::new(&class, 0), next());
            let total = map.offset_cycles + i128::from(cycles);
            let ns = total.checked_mul(NS_PER_SECOND).expect("small").div_euclid(i128::from(map.frequency));
            assert_eq!(map.ns(cycles), saturate(ns + map.offset_ns), "{class:?} {cycles}");
            for key in [map.key(cycles), TimeKey(map.key(cycles).0 + 1), TimeKey::from_ns(map.ns(next()))] {
                let slow = map.search(|map, cycles| map.key(cycles) >= key);
                assert_eq!(map.first_cycles_from(key), slow, "{class:?} {key:?}");
            }
        }
    }
}
