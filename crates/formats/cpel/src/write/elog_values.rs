//! Numbers, strings and times as VPP's event logs store them.

use tracemill_codec::bits::put_uint;
use tracemill_model::schema::ByteOrder;

use crate::elog::header::{EPOCH_SECONDS, UNIX_FROM};
use tracemill_format::lost::{Losses, Lost};

/// Ns since 1970 as a log stores them: from 1970, or from the epoch of newer ones.
pub(super) fn stored_ns(ns: i128, is_unix: bool) -> Option<u64> {
    let of_unix = u64::try_from(ns).ok().filter(|&ns| ns >= UNIX_FROM);
    let of_epoch = u64::try_from(ns - i128::from(EPOCH_SECONDS) * 1_000_000_000).ok().filter(|&ns| ns < UNIX_FROM);
    if is_unix { of_unix.or(of_epoch) } else { of_epoch.or(of_unix) }
}

/// A number of 64 bits: its low word stands first.
pub(super) fn words(value: u64) -> [u8; 8] {
    value.rotate_left(32).to_be_bytes()
}

/// Appends the low octets of a number.
pub(super) fn put_integer(out: &mut Vec<u8>, value: u64, len: u8) {
    match len {
        8 => out.extend_from_slice(&words(value)),
        len => put_uint(out, value, len.into(), ByteOrder::Big),
    }
}

/// Appends a string after its length.
pub(super) fn put_cstring(out: &mut Vec<u8>, text: &[u8]) {
    let len = text.len() as u64;
    match len {
        0..128 => out.push((len as u8) << 1 | 1),
        128..16_512 => {
            let len = len - 128;
            out.extend([(len as u8) << 2 | 2, (len >> 6) as u8]);
        }
        16_512..537_387_424 => {
            let len = len - 16_512;
            out.push((len as u8) << 3 | 4);
            put_uint(out, len >> 5, 3, ByteOrder::Little);
        }
        _ => {
            out.push(0);
            out.extend_from_slice(&len.to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

/// The seconds that a reader takes for these ns; counts those that there are none for. `cycles` shows whether the time
/// is one of the ends at which readers hold times.
pub(super) fn time_of(ns: i128, cycles: u64, losses: &mut Losses) -> f64 {
    let near = ns as f64 / 1e9;
    let is_it = |seconds: &f64| (seconds * 1e9) as i128 == ns;
    let (mut up, mut down) = (near, near);
    for _ in 0..4 {
        if let Some(seconds) = [up, down].into_iter().find(is_it) {
            return seconds;
        }
        (up, down) = (up.next_up(), down.next_down());
    }
    match cycles {
        // Far after the ends, where readers hold times.
        0 => -1e12,
        u64::MAX => 1e12,
        _ => {
            losses.add(Lost::RoundedTimes, 1);
            near
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elog::header::{length, unix_ns};

    #[test]
    fn lengths_come_back() {
        for len in [0, 1, 127, 128, 129, 191, 192, 16_511, 16_512, 16_543, 16_544, 70_000] {
            let mut out = Vec::new();
            put_cstring(&mut out, &vec![b'x'; len]);
            let (skip, read) = length(&out).unwrap();
            assert_eq!((read, out.len() - skip), (len as u64, len));
        }
    }

    #[test]
    fn every_ns_of_97_days_has_a_time() {
        let mut losses = Losses::default();
        let mut state = 7u64;
        for bits in 1..53 {
            for _ in 0..200 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let ns = i128::from(state >> (64 - bits)).min(97 * 86_400 * 1_000_000_000);
                for ns in [ns, -ns] {
                    assert_eq!((time_of(ns, 1, &mut losses) * 1e9) as i128, ns);
                }
            }
        }
        assert!(losses.is_empty());
        time_of((1 << 60) + 1, 1, &mut losses);
        assert_eq!(losses.count(Lost::RoundedTimes), 1);
    }

    #[test]
    fn starts_are_stored_from_either_epoch() {
        let epoch = i128::from(EPOCH_SECONDS) * 1_000_000_000;
        assert_eq!(stored_ns(epoch + 5, false), Some(5));
        assert_eq!(stored_ns(epoch + 5, true), Some((epoch + 5) as u64));
        assert_eq!(stored_ns(epoch - 5, false), Some((epoch - 5) as u64));
        assert_eq!(stored_ns(5, false), None);
        for (ns, is_unix) in [(epoch + 5, false), (epoch - 5, false), (epoch + 5, true)] {
            assert_eq!(i128::from(unix_ns(stored_ns(ns, is_unix).unwrap())), ns);
        }
    }
}
