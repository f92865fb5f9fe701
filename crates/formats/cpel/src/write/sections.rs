//! The parts of a CPEL log as they are written: its header, sections, and the units of times.

use tracemill_codec::bits::put_uint;
use tracemill_model::clock::{ClockMap, NS_PER_SECOND};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{ByteOrder, ClockClass};

use crate::container::{HEADER_BYTES, NAME_BYTES, RECORD_BYTES, SectionType};
use crate::log_parts::EVENTS_HEAD;
use crate::settings::Wishes;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Source;

/// How the times of a source become those of a section.
pub(super) enum TimeMapping {
    /// The number of ticks that are added.
    Ticks(i128),
    /// They are ns.
    Ns(ClockMap),
}

impl TimeMapping {
    /// The rate of a section whose events have the times of a clock, and how they get them: ticks at `rate` where a
    /// section can state that, else ns.
    pub(super) fn new(rate: Option<u32>, clock: &ClockClass, source: &Source) -> (u32, TimeMapping) {
        match (rate, added_ticks(clock, source)) {
            (Some(rate), Some(ticks)) => (rate, TimeMapping::Ticks(ticks)),
            _ => (NS_PER_SECOND as u32, TimeMapping::Ns(source.clock_map(clock))),
        }
    }

    /// The time of an event; counts those that cannot be.
    pub(super) fn time(&self, cycles: u64, losses: &mut Losses) -> u64 {
        let time = match self {
            TimeMapping::Ticks(0) => return cycles,
            TimeMapping::Ticks(added) => added.saturating_add(cycles.into()),
            TimeMapping::Ns(clock) => clock.ns(cycles),
        };
        u64::try_from(time).unwrap_or_else(|_| {
            let (kind, end) = if time < 0 { (Lost::ZeroTimes, 0) } else { (Lost::LateTimes, u64::MAX) };
            losses.add(kind, 1);
            end
        })
    }
}

/// The rate of a section that states a frequency, when there is one.
pub(super) fn rate_of(frequency: u64) -> Option<u32> {
    let rate = match u32::try_from(frequency) {
        Ok(rate) if rate >= 100_000 => rate,
        _ if frequency.is_multiple_of(1_000_000) => u32::try_from(frequency / 1_000_000).ok()?,
        _ => return None,
    };
    (frequency > 0 && Wishes::default().frequency_of(rate) == frequency).then_some(rate)
}

/// The ticks to add to those of a clock so that they count from its origin, when that is a whole number.
pub(super) fn added_ticks(clock: &ClockClass, source: &Source) -> Option<i128> {
    let offset_ns = i128::from(clock.offset_ns) + i128::from(source.correction_ns);
    let ns = i128::from(clock.offset_seconds) * NS_PER_SECOND + offset_ns;
    let ticks = ns.checked_mul(clock.frequency.into())?;
    (clock.seconds <= 1 && source.drift.is_none() && ticks % NS_PER_SECOND == 0).then_some(())?;
    (ticks / NS_PER_SECOND).checked_add(clock.offset_cycles)
}

/// The header of a log of version 1.
pub(super) fn log_head(sections: usize, date: u32, order: ByteOrder) -> Vec<u8> {
    let mut head = vec![1 | if order == ByteOrder::Little { 0x80 } else { 0 }, 0];
    put_uint(&mut head, sections as u64, 2, order);
    put_uint(&mut head, date.into(), 4, order);
    head
}

/// The header of a section of so many octets.
pub(super) fn section_head(kind: SectionType, len: u64, order: ByteOrder) -> Vec<u8> {
    let mut head = Vec::with_capacity(EVENTS_HEAD);
    put_uint(&mut head, kind.0.into(), 4, order);
    put_uint(&mut head, len, 4, order);
    head
}

/// The bytes before the events of a section, its header included. `behind` is the octets behind the events.
///
/// # Errors
/// When there are more events than a section holds.
pub(super) fn events_head(table: &[u8], count: u64, rate: u32, behind: usize, order: ByteOrder) -> Result<Vec<u8>> {
    let len = EVENTS_HEAD as u64 - HEADER_BYTES + count * RECORD_BYTES + behind as u64;
    if len > u32::MAX.into() {
        return Err(Error::unsupported(format!("a section of {count} events is longer than CPEL can say")));
    }
    let mut head = section_head(SectionType::EVENTS, len, order);
    put_table_name(&mut head, table);
    put_uint(&mut head, count, 4, order);
    put_uint(&mut head, rate.into(), 4, order);
    Ok(head)
}

/// A section of definitions.
pub(super) fn definitions<const N: usize>(
    kind: SectionType,
    table: &str,
    records: impl ExactSizeIterator<Item = [u32; N]>,
    order: ByteOrder,
) -> Vec<u8> {
    let mut out = section_head(kind, (NAME_BYTES + 4 + records.len() * N * 4) as u64, order);
    put_table_name(&mut out, table.as_bytes());
    put_uint(&mut out, records.len() as u64, 4, order);
    records.flatten().for_each(|word| put_uint(&mut out, word.into(), 4, order));
    out
}

fn put_table_name(out: &mut Vec<u8>, name: &[u8]) {
    let end = out.len() + NAME_BYTES;
    out.extend_from_slice(name);
    out.resize(end, 0);
}

/// Appends an event.
pub(super) fn put_record(out: &mut Vec<u8>, time: u64, [code, track, datum]: [u32; 3], order: ByteOrder) {
    // The high word of the time comes first whatever the byte order (`SPEC.md`, D17).
    for value in [(time >> 32) as u32, time as u32, track, code, datum] {
        put_uint(out, value.into(), 4, order);
    }
}
