//! The clock of the events: the counter of the processor where it counts time for all processors alike, else the
//! system's monotonic clock.
//!
//! `unsafe` here: one instruction that reads a counter and has no other effect, and calls of `clock_gettime` with a
//! structure of our own. No pointer leaves this module.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use tracemill_ring::Pair;

/// 0 is not known yet, 1 the counter, 2 the system's clock.
static SOURCE: AtomicU32 = AtomicU32::new(0);
const COUNTER: u32 = 1;
const SYSTEM: u32 = 2;

/// Chooses the clock. It stays the same for as long as the program runs.
pub(crate) fn choose() {
    if SOURCE.load(Ordering::Relaxed) == 0 {
        SOURCE.store(if has_counter() { COUNTER } else { SYSTEM }, Ordering::Relaxed);
    }
}

/// Is it the counter of the processor?
pub(crate) fn is_counter() -> bool {
    choose();
    SOURCE.load(Ordering::Relaxed) == COUNTER
}

/// The time now, in cycles.
#[inline(always)]
pub(crate) fn now() -> u64 {
    if SOURCE.load(Ordering::Relaxed) == COUNTER { counter() } else { system_now() }
}

/// Elsewhere: it is not in the way of those who have a counter.
#[cold]
#[inline(never)]
fn system_now() -> u64 {
    system_ns(libc::CLOCK_MONOTONIC)
}

/// Without a fence: the order of events of one thread is that of its program, and that of several is as good as a cache
/// line travels.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn counter() -> u64 {
    // SAFETY: the instruction reads a register, and every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[inline(always)]
#[cfg(all(target_arch = "aarch64", not(miri)))]
fn counter() -> u64 {
    let value;
    // SAFETY: the instruction reads a register that Linux lets programs read.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn counter() -> u64 {
    system_ns(libc::CLOCK_MONOTONIC)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_counter() -> bool {
    use core::arch::x86_64::__cpuid;

    #[allow(unused_unsafe, reason = "the minimum version of Rust calls it unsafe")]
    // SAFETY: all processors of this architecture have the instruction.
    let leaf = |number| unsafe { __cpuid(number) };
    // Invariant: the same rate in all states of power. That all processors agree is the kernel's finding.
    let is_invariant = leaf(0x8000_0000).eax >= 0x8000_0007 && leaf(0x8000_0007).edx & 1 << 8 != 0;
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let known = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];
    is_invariant && source.is_ok_and(|source| known.contains(&source.trim()))
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn has_counter() -> bool {
    true
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn has_counter() -> bool {
    false
}

/// `CLOCK_MONOTONIC` in ns.
pub(crate) fn monotonic_ns() -> u64 {
    system_ns(libc::CLOCK_MONOTONIC)
}

fn system_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a structure on this stack; the clocks that are asked for always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Reads all clocks together: the best of five readings, the one that took least time.
pub(crate) fn pair() -> Pair {
    pair_of(libc::CLOCK_MONOTONIC)
}

/// As [`pair`], with another clock of the system in place of the monotonic one.
pub(crate) fn pair_of(clock: libc::clockid_t) -> Pair {
    read_pair(clock, is_counter())
}

fn read_pair(clock: libc::clockid_t, is_counter: bool) -> Pair {
    if !is_counter && clock == libc::CLOCK_MONOTONIC {
        // They are one: its frequency is exact.
        let monotonic_ns = system_ns(clock);
        let realtime_ns = system_ns(libc::CLOCK_REALTIME) as i64;
        return Pair { cycles: monotonic_ns, monotonic_ns, realtime_ns };
    }
    let reading = || {
        let before = now();
        let monotonic_ns = system_ns(clock);
        let after = now();
        let realtime_ns = system_ns(libc::CLOCK_REALTIME) as i64;
        let took = after.wrapping_sub(before);
        (took, Pair { cycles: before.wrapping_add(took / 2), monotonic_ns, realtime_ns })
    };
    let best = (0..5).map(|_| reading()).min_by_key(|(took, _)| *took);
    best.map(|(_, pair)| pair).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_counter_the_frequency_is_exact() {
        let readings = [0, 20].map(|ms| {
            std::thread::sleep(std::time::Duration::from_millis(ms));
            read_pair(libc::CLOCK_MONOTONIC, false)
        });
        let estimate = tracemill_ring::estimate(readings[0], readings[1]);
        assert_eq!(estimate.map(|(frequency, _)| frequency), Some(1_000_000_000));
    }

    #[test]
    fn time_goes_on_at_the_rate_of_the_pairs() {
        choose();
        let first = pair();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let last = pair();
        let (frequency, _) = tracemill_ring::estimate(first, last).expect("20 ms passed");
        assert!((1_000_000..20_000_000_000).contains(&frequency), "{frequency}");
        assert!(now() >= last.cycles);
    }
}
