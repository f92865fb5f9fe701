//! Records of `TID.dat`: 16 bytes each, and a payload behind those that say so (`SPEC.md`, section 5).
//!
//! The data does not say how long a payload is, so reading goes wrong where a specification is missing or wrong, and
//! where bytes are damaged. The next record is then searched ([`TaskBytes::resume`]).

use super::arguments::{MAX_PAYLOAD, Signatures, payload_len};
use super::names::SymbolResolver;
use tracemill_codec::bits::{u16_at, u64_at};
use tracemill_model::schema::ByteOrder;

/// Bytes of a record without its payload.
pub(super) const RECORD: usize = 16;
/// Value of the three bits that every record has.
pub(super) const MAGIC: u64 = 5;
/// A record found by searching is at most this much later than the last good one: payload bytes look like any time.
const MAX_STEP_NS: u64 = 3_600_000_000_000;
/// After a payload that fits its specification the next record may also be a little earlier, or much later.
const MAX_BACK_NS: u64 = 1_000_000_000;

/// Types of records, by their bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordKind {
    Entry = 0,
    Exit = 1,
    Lost = 2,
    Event = 3,
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub time: u64,
    word: u64,
}

impl Record {
    /// The record with which some bytes begin.
    #[inline]
    pub(super) fn read(bytes: &[u8], order: ByteOrder) -> Option<Record> {
        let bytes = bytes.first_chunk::<RECORD>()?;
        Some(Record { time: u64_at(bytes, 0, order)?, word: u64_at(bytes, 8, order)? })
    }

    #[inline]
    pub(super) fn kind(self) -> RecordKind {
        match self.word & 3 {
            0 => RecordKind::Entry,
            1 => RecordKind::Exit,
            2 => RecordKind::Lost,
            _ => RecordKind::Event,
        }
    }

    /// Does a payload follow?
    #[inline]
    pub(super) fn has_payload(self) -> bool {
        self.word >> 2 & 1 == 1
    }

    #[inline]
    pub(super) fn magic(self) -> u64 {
        self.word >> 3 & 7
    }

    #[inline]
    pub(super) fn depth(self) -> u16 {
        (self.word >> 6 & 0x3ff) as u16
    }

    /// 48 bits: an address, the id of an event, the number of lost records. An address is whole: programs live in the lower
    /// 48 bits of the address space, on arm64 above bit 47, too (`SPEC.md`, section 5).
    #[inline]
    pub(super) fn address(self) -> u64 {
        self.word >> 16
    }

    /// Is it a call without values, so that its form needs no further look?
    #[inline]
    pub(super) fn is_plain_call(self) -> bool {
        // Magic 5, no payload, entry or exit.
        self.word & 0x3e == MAGIC << 3
    }

    /// Can it be a record at all, whatever its time?
    #[inline]
    pub(super) fn is_sound(self) -> bool {
        self.magic() == MAGIC && (self.kind() != RecordKind::Lost || self.time == 0 && !self.has_payload())
    }

    /// Can it be the record that follows one of the time `after`?
    fn is_between(self, after: u64, back: u64) -> bool {
        self.is_near(after.saturating_sub(back), after)
    }

    /// Can it be a record of a time from `from` to at most a step behind `after`?
    pub(super) fn is_near(self, from: u64, after: u64) -> bool {
        let is_untimed = self.kind() == RecordKind::Lost;
        let range = from..=after.saturating_add(MAX_STEP_NS);
        self.is_sound() && (is_untimed || range.contains(&self.time))
    }
}

/// The payload of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Payload {
    /// No payload.
    None,
    /// Values of a list of specifications, from this offset.
    Values { list: u32, from: usize, len: usize },
    /// The data of an event.
    Data { from: usize, len: usize },
    /// Something that cannot be read.
    Unknown,
    /// It should be there, and the file ends.
    Torn,
}

/// The result of reading at a place of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordStep {
    /// A record; the next one is at `next`.
    Record { record: Record, symbol: u32, payload: Payload, next: usize },
    /// No record: its magic is wrong.
    Bad { magic: u64 },
    /// Fewer bytes than a record has.
    Torn,
}

/// The bytes of a task, and what is needed to read them.
pub(super) struct TaskBytes<'a> {
    pub bytes: &'a [u8],
    pub order: ByteOrder,
    pub signatures: &'a Signatures,
    pub resolver: SymbolResolver<'a>,
    /// Have the program's words 8 bytes, not 4?
    pub is_64_bit: bool,
}

impl TaskBytes<'_> {
    /// The 16 bytes at `at`.
    #[inline]
    pub(super) fn record(&self, at: usize) -> Option<Record> {
        Record::read(self.bytes.get(at..)?, self.order)
    }

    /// The time of the first record with a time from `at` on, which stands after one that was lost.
    pub(super) fn next_time(&self, at: usize) -> Option<u64> {
        let record = self.record(at).filter(|record| record.is_sound() && record.kind() != RecordKind::Lost)?;
        Some(record.time)
    }

    /// Reads the record at `at`; `after` is the time of the one before.
    #[inline]
    pub(super) fn step(&mut self, at: usize, after: u64) -> RecordStep {
        let Some(record) = self.record(at) else { return RecordStep::Torn };
        if record.magic() != MAGIC {
            return RecordStep::Bad { magic: record.magic() };
        }
        let kind = record.kind();
        let symbol = match kind {
            RecordKind::Entry | RecordKind::Exit => self.resolver.id(record.time, record.address()),
            _ => 0,
        };
        let next = at + RECORD;
        if !record.has_payload() || kind == RecordKind::Lost {
            return RecordStep::Record { record, symbol, payload: Payload::None, next };
        }
        let (payload, next) = self.payload(record, symbol, next, after.max(record.time));
        RecordStep::Record { record, symbol, payload, next }
    }

    /// The payload at `from`, and where the next record is.
    fn payload(&mut self, record: Record, symbol: u32, from: usize, time: u64) -> (Payload, usize) {
        let rest = self.bytes.get(from..).unwrap_or(&[]);
        let limited = &rest[..rest.len().min(MAX_PAYLOAD)];
        let (payload, len) = if record.kind() == RecordKind::Event {
            let len = u16_at(limited, 0, self.order);
            match len.map(usize::from).map(|len| (len, (len + 2).next_multiple_of(8))) {
                Some((len, padded)) if padded <= limited.len() => (Payload::Data { from: from + 2, len }, Some(padded)),
                _ => (Payload::Unknown, None),
            }
        } else {
            let list = self.signatures.list(symbol, record.kind() == RecordKind::Exit);
            let specs = self.signatures.lists.get(list as usize).map_or(&[][..], Vec::as_slice);
            match payload_len(specs, limited, self.order) {
                Some(len) if list > 0 => (Payload::Values { list, from, len }, Some(len)),
                _ => (Payload::Unknown, None),
            }
        };
        let is_known =
            record.kind() == RecordKind::Event || self.signatures.list(symbol, record.kind() == RecordKind::Exit) > 0;
        match len {
            Some(len) => {
                let next = from + len;
                if next == self.bytes.len()
                    || self.record(next).is_some_and(|record| record.is_between(time, MAX_BACK_NS))
                {
                    return (payload, next);
                }
                // Is the specification wrong, or the next record damaged? A record right after this one, or one that
                // leaves no room for another, says the former.
                match self.resume(from, time, MAX_PAYLOAD) {
                    Some(found) if found < next + RECORD => (Payload::Unknown, found),
                    _ => (payload, next),
                }
            }
            None => match self.resume(from, time, MAX_PAYLOAD) {
                Some(found) => (Payload::Unknown, found),
                None if rest.len() > MAX_PAYLOAD => (Payload::Unknown, from),
                None if is_known => (Payload::Torn, self.bytes.len()),
                None => (Payload::Unknown, self.bytes.len()),
            },
        }
    }

    /// The next place from `from` on, at most `max` bytes away, where a record can stand after one of the time
    /// `after`.
    pub(super) fn resume(&self, from: usize, after: u64, max: usize) -> Option<usize> {
        let from = from.next_multiple_of(8);
        let last = self.bytes.len().checked_sub(RECORD)?.min(from.saturating_add(max));
        (from..=last).step_by(8).find(|&at| self.record(at).is_some_and(|record| record.is_between(after, 0)))
    }
}
