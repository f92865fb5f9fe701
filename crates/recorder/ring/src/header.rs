//! The header of a ring: 4096 bytes, little endian.

use super::{u32_at, u64_at};

pub use super::layout::*;

/// The contents of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotContents {
    /// CTF packets.
    Events,
    /// Records of calls.
    Calls,
}

/// Behaviour when all slots are full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FullMode {
    /// A consumer moves slots out; when it is late, events are discarded.
    Stream,
    /// The oldest slot is written over.
    Flight,
}

/// Values of clocks that were read together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pair {
    /// The clock of the events.
    pub cycles: u64,
    /// `CLOCK_MONOTONIC` in ns.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME` in ns since the epoch.
    pub realtime_ns: i64,
}

/// The header of a ring, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Contents of the slots.
    pub kind: SlotContents,
    /// The state of its use: [`FREE`], [`WRITING`], [`ENDED`] or [`CLOSED`].
    pub state: u32,
    /// Size of a slot in bytes.
    pub slot_size: u64,
    /// Number of slots.
    pub slots: u64,
    /// Slots that were begun and ended since creation.
    pub done: u64,
    /// Slots that were moved out.
    pub taken: u64,
    /// Events that were discarded.
    pub discarded: u64,
    /// Process of the thread.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// No event before this clock value comes any more.
    pub beacon: u64,
    /// UUID of the trace.
    pub uuid: [u8; 16],
    /// Behaviour when it is full.
    pub mode: FullMode,
    /// Frequency of the clock in Hz.
    pub frequency: u64,
    /// The last clock pairs, in the order of time.
    pub pairs: Vec<Pair>,
}

impl Header {
    /// Reads the header of a ring whose file has `file_len` bytes.
    ///
    /// # Errors
    /// With what was found and what was expected, when this is no ring, or its sizes cannot be.
    pub fn read(bytes: &[u8], file_len: u64) -> Result<Header, String> {
        if bytes.len() < LEN || !bytes.starts_with(&MAGIC) {
            return Err("it does not begin with the header of a ring".into());
        }
        let kind = match u32_at(bytes, KIND) {
            1 => SlotContents::Events,
            2 => SlotContents::Calls,
            kind => return Err(format!("kind {kind} of rings is not known (1 is events, 2 calls)")),
        };
        let mode = match u64_at(bytes, MODE) {
            2 => FullMode::Flight,
            1 => FullMode::Stream,
            mode => return Err(format!("mode {mode} of rings is not known (1 is stream, 2 flight)")),
        };
        let (slot_size, slots) = (u64_at(bytes, SLOT_SIZE), u64_at(bytes, SLOTS));
        if !slot_size.is_power_of_two() || !SLOT_SIZES.contains(&slot_size) || slots < 2 {
            return Err(format!("{slots} slots of {slot_size} bytes cannot be"));
        }
        let len = slot_size.checked_mul(slots).and_then(|len| len.checked_add(LEN as u64));
        if len.is_none_or(|len| len > file_len) {
            return Err(format!("{slots} slots of {slot_size} bytes are not in a file of {file_len} bytes"));
        }
        let count = u64_at(bytes, PAIR_COUNT);
        let pair = |number: u64| {
            let at = PAIRS + (number % PAIRS_KEPT) as usize * PAIR_LEN;
            Pair {
                cycles: u64_at(bytes, at),
                monotonic_ns: u64_at(bytes, at + 8),
                realtime_ns: u64_at(bytes, at + 16) as i64,
            }
        };
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[UUID..UUID + 16]);
        Ok(Header {
            kind,
            state: u32_at(bytes, STATE),
            slot_size,
            slots,
            done: u64_at(bytes, DONE),
            taken: u64_at(bytes, TAKEN),
            discarded: u64_at(bytes, DISCARDED),
            pid: u32_at(bytes, PID),
            tid: u32_at(bytes, TID),
            beacon: u64_at(bytes, BEACON),
            uuid,
            mode,
            frequency: u64_at(bytes, FREQUENCY),
            // Readings from before the ring was there are not in it, and the oldest may just be written over.
            pairs: (count.saturating_sub(PAIRS_KEPT - 1)..count).map(pair).filter(|pair| pair.cycles > 0).collect(),
        })
    }

    /// Offset of the slot with this number, from the beginning of the file.
    pub fn slot_offset(&self, number: u64) -> u64 {
        LEN as u64 + (number % self.slots) * self.slot_size
    }
}

/// Frequency in Hz, and the time at cycle 0 in ns since the epoch, of a clock that was read at both `first` and `last`.
/// `None` when too little time is between them to say more than what is known.
pub fn estimate(first: Pair, last: Pair) -> Option<(u64, i128)> {
    let cycles = u128::from(last.cycles.checked_sub(first.cycles)?);
    let ns = u128::from(last.monotonic_ns.checked_sub(first.monotonic_ns)?);
    // Readings are some tens of ns apart: below 10 ms the estimate is worth nothing.
    if ns < 10_000_000 || cycles == 0 {
        return None;
    }
    let frequency = u64::try_from((cycles * 1_000_000_000 + ns / 2) / ns).ok().filter(|&hz| hz > 0)?;
    Some((frequency, origin(first, frequency)))
}

/// Time of cycle 0 in ns since the epoch.
pub fn origin(pair: Pair, frequency: u64) -> i128 {
    i128::from(pair.realtime_ns) - i128::from(pair.cycles) * 1_000_000_000 / i128::from(frequency.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a header with two slots of 4096 bytes.
    fn bytes() -> Vec<u8> {
        let mut bytes = vec![0; LEN + 8192];
        bytes[..8].copy_from_slice(&MAGIC);
        for (at, value) in [(KIND, 1), (SLOT_SIZE, 4096), (SLOTS, 2), (MODE, 2), (DONE, 7)] {
            bytes[at] = value as u8;
            bytes[at + 1] = (value >> 8) as u8;
        }
        bytes
    }

    #[test]
    fn a_header_is_checked() {
        let good = bytes();
        let header = Header::read(&good, good.len() as u64).expect("a header");
        assert_eq!((header.slots, header.slot_size, header.done), (2, 4096, 7));
        assert_eq!(header.slot_offset(3), 4096 + 4096);
        for (at, value) in [(0, 0), (KIND, 9), (MODE, 0), (SLOTS, 1), (SLOTS, 3), (SLOTS + 7, 255), (SLOT_SIZE, 1)] {
            let mut bad = bytes();
            bad[at] = value;
            assert!(Header::read(&bad, bad.len() as u64).is_err(), "byte {at}");
        }
        for len in [0, 8, LEN - 1] {
            assert!(Header::read(&good[..len], len as u64).is_err());
        }
    }

    #[test]
    fn a_reading_that_is_being_written_over_does_not_count() {
        let mut bytes = bytes();
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        for number in 0..PAIRS_KEPT {
            let at = PAIRS + number as usize * PAIR_LEN;
            (0..3).for_each(|part| put(at + part * 8, number + 1));
        }
        put(PAIR_COUNT, PAIRS_KEPT);
        // Of the next one the first number is there.
        put(PAIRS, 1_000);
        let header = Header::read(&bytes, bytes.len() as u64).expect("a header");
        let pair = |number: u64| Pair { cycles: number, monotonic_ns: number, realtime_ns: number as i64 };
        assert_eq!(header.pairs, (2..=PAIRS_KEPT).map(pair).collect::<Vec<_>>());
    }

    #[test]
    fn the_frequency_comes_from_two_readings() {
        let first = Pair { cycles: 1_000, monotonic_ns: 50, realtime_ns: 1_700_000_000_000_000_000 };
        let last = Pair { cycles: 2_600_001_000, monotonic_ns: 1_000_000_050, realtime_ns: 0 };
        let (frequency, origin) = estimate(first, last).expect("a second");
        assert_eq!((frequency, origin), (2_600_000_000, 1_700_000_000_000_000_000 - 384));
        assert_eq!(estimate(last, first), None);
        assert_eq!(estimate(first, first), None);
    }
}
