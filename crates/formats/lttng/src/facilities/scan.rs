//! Finding the events of a block: headers, time, core events, and where the next one begins (`SPEC.md`, sections 4 and
//! 5).

use tracemill_codec::bits::{put_uint, read_uint};
use tracemill_codec::spine::Spine;
use tracemill_model::error::Error;

use super::block::{FileBlock, TraceHeader};
use super::classes::{EventInfo, FlavorEvents, Mode};
use super::layout::Misfit;
use super::loads::{CORE, CoreEvent};
use tracemill_format::Faults;

/// `event_size` of an event whose size is computed from its fields.
const COMPUTED: u16 = u16::MAX;
/// Bytes that the events of a packet may take when they are rewritten.
const MAX_COPIED: usize = 64 << 20;
/// Damaged events of a packet that are reported one by one.
const MAX_ERRORS: usize = 100;

/// Where a scan stands in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ScanPosition {
    /// Offset in the block.
    pub(super) offset: u64,
    /// The clock.
    pub(super) tsc: u64,
}

/// Something that is reported once for each kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Oddity {
    /// An event that nothing describes, by its ids.
    Unknown(u8, u8),
    /// An event with more bytes than its fields.
    Trailing(u8, u8),
    /// An event in a file of facilities that is not of the core.
    NotCore,
    /// A time far after the end of its block.
    Late,
}

/// Result of a scan.
#[derive(Default)]
pub(super) struct ScanResult {
    /// The events. Rewritten events have their bodies after the bytes of the block.
    pub(super) spine: Spine,
    /// Fields that were rewritten.
    pub(super) copied: Vec<u8>,
    /// Damage, at offsets in the block.
    pub(super) faults: Faults<MAX_ERRORS>,
    /// Oddities, with offsets in the block.
    pub(super) oddities: Vec<(u64, Oddity)>,
}

impl ScanResult {
    /// Keeps what is rewritten apart from the end of the block, where an event without any byte may have its body: the
    /// end of a truncated event is kept by the place of its body.
    fn part(&mut self) {
        if self.copied.is_empty() {
            self.copied.push(0);
        }
    }
}

/// Reads the events of one block, up to a number of them at a time.
pub(super) struct Scanner<'a> {
    pub(super) header: &'a TraceHeader,
    pub(super) table: &'a FlavorEvents,
    pub(super) block: &'a FileBlock,
    /// The bytes of the block.
    pub(super) bytes: &'a [u8],
    /// Is it a file of facilities?
    pub(super) is_control: bool,
    /// Bytes of the block that come before what is decoded.
    pub(super) base: u64,
    /// The scan ends there. Events that are rewritten come after it in what is decoded.
    pub(super) stop: u64,
}

/// An event header.
struct EventHeader {
    facility: u8,
    event: u8,
    size: u16,
    /// Where its data begin.
    body: u64,
    /// Compact headers: what they hold beside time and id.
    data: u32,
}

/// The scan of a block ends here.
struct Stop;

impl<'a> Scanner<'a> {
    /// Where the scan of a block begins.
    pub(super) fn start(header: &TraceHeader, block: &FileBlock) -> ScanPosition {
        ScanPosition { offset: header.len as u64, tsc: block.header.begin_tsc }
    }

    /// Reads at most `max` events from `place`; false when there are no more in the block.
    pub(super) fn run(&self, place: &mut ScanPosition, max: usize, found: &mut ScanResult) -> bool {
        let limit = self.block.limit.min(self.bytes.len() as u64);
        let is_compact = self.table.compact.is_some();
        while place.offset < limit.min(self.stop) {
            if found.spine.len() >= max {
                return true;
            }
            let step = match (is_compact, self.header.has_heartbeat) {
                (true, _) => self.compact_event(place, limit, found),
                (false, true) => self.event::<true>(place, limit, found),
                (false, false) => self.event::<false>(place, limit, found),
            };
            if step.is_err() {
                place.offset = limit;
                break;
            }
        }
        false
    }

    #[inline]
    fn event<const SHORT: bool>(
        &self,
        place: &mut ScanPosition,
        limit: u64,
        found: &mut ScanResult,
    ) -> Result<(), Stop> {
        let align = self.header.header_align();
        let start = pad(place.offset, align);
        let len = if SHORT { 8 } else { 12 };
        let content = &self.bytes[..limit as usize];
        let Some(own) = content.get(start as usize..).and_then(|rest| rest.get(..len)) else {
            return self.stop(place.offset, limit, found, "the block ends inside of an event header".into());
        };
        let (time, ids) = own.split_at(len - 4);
        let time = read_uint(time, self.header.order);
        if SHORT {
            place.tsc = extend(place.tsc, time, 32, 0);
        } else {
            place.tsc = time;
        }
        let size = read_uint(&ids[2..], self.header.order) as u16;
        let body = pad(start + len as u64, align);
        let header = EventHeader { facility: ids[0], event: ids[1], size, body, data: 0 };
        self.found(start, header, place, limit, found)
    }

    fn compact_event(&self, place: &mut ScanPosition, limit: u64, found: &mut ScanResult) -> Result<(), Stop> {
        let Some((facility, id_bits)) = self.table.compact else { return Err(Stop) };
        let start = pad(place.offset, self.header.alignment.clamp(1, 4));
        let Some(own) = self.bytes.get(start as usize..limit as usize).and_then(|rest| rest.get(..4)) else {
            return self.stop(place.offset, limit, found, "the block ends inside of an event header".into());
        };
        let word = read_uint(own, self.header.order);
        let (tsc_bits, shift) = (u32::from(self.header.tsc_bits), u32::from(self.header.tsc_lsb_truncate));
        let low = |value: u64, bits: u32| value & ((1u64 << bits) - 1);
        place.tsc = extend(place.tsc, low(word, tsc_bits), tsc_bits, shift);
        let event = low(word >> tsc_bits, id_bits);
        let data = (word >> (tsc_bits + id_bits)) as u32;
        // More ids than 8 bits can only be unknown ones.
        let event = u8::try_from(event).unwrap_or(u8::MAX);
        let header = EventHeader { facility, event, size: COMPUTED, body: start + 4, data };
        self.found(start, header, place, limit, found)
    }

    /// An event whose header was read: where it ends, and what becomes of its fields.
    #[inline]
    fn found(
        &self,
        start: u64,
        header: EventHeader,
        place: &mut ScanPosition,
        limit: u64,
        found: &mut ScanResult,
    ) -> Result<(), Stop> {
        let EventHeader { facility, event, size, body, data } = header;
        if place.tsc > self.block.header.end_tsc && self.is_late(place.tsc) {
            found.oddities.push((start, Oddity::Late));
        }
        if self.is_control && facility != CORE {
            found.oddities.push((start, Oddity::NotCore));
        }
        let stated_end = if size == COMPUTED { limit } else { body + u64::from(size) };
        if stated_end > limit && size > 0 {
            let message = format!(
                "an event of {size} bytes at byte {body} of the block passes the end of its events, at byte {limit}"
            );
            return self.stop(start, limit, found, message);
        }
        let own = self.bytes.get(body.min(limit) as usize..stated_end.min(limit) as usize).unwrap_or(&[]);
        let Some(info) = self.table.event(facility, event) else {
            return self.unknown(start, &header, place, stated_end, limit, found);
        };
        let walked = match info.fixed {
            Some(bytes) if bytes as usize <= own.len() => Ok(u64::from(bytes)),
            Some(_) => Err(Misfit::End),
            None => info.layout.end(own, 0),
        };
        place.offset = stated_end;
        if size == COMPUTED {
            match walked {
                Ok(bytes) if bytes < u64::from(COMPUTED) && info.is_ours => {
                    let message = format!(
                        "an event_size of 65535, but the fields of event {event} of facility {facility} take {bytes} by our own definition: \
                         where the event ends cannot be known"
                    );
                    return self.stop(start, limit, found, message);
                }
                Ok(bytes) => place.offset = (body + bytes).min(limit),
                Err(short) => {
                    let message = format!("an event whose size is computed from its fields: {short}");
                    return self.stop(start, limit, found, message);
                }
            }
        } else if let Ok(bytes) = walked
            && bytes < u64::from(size)
            && facility != CORE
        {
            found.oddities.push((start, Oddity::Trailing(facility, event)));
        }
        if info.core == Some(CoreEvent::FullHeartbeat) && own.len() >= 8 {
            place.tsc = read_uint(&own[..8], self.header.order);
        }
        let own = &own[..own.len().min((place.offset.saturating_sub(body)) as usize)];
        if info.mode == Mode::InPlace {
            let body_bits = self.bits(body);
            found.spine.push(info.class, place.tsc, self.bits(start), body_bits);
            if let Err(short) = walked {
                found.spine.cut(body_bits, self.bits(stated_end));
                self.event_error(start, info, own, short, found);
            }
            return Ok(());
        }
        self.copy(start, info, own, data, place.tsc, found)
    }

    /// Rewrites the fields of an event.
    fn copy(
        &self,
        start: u64,
        info: &EventInfo,
        own: &[u8],
        data: u32,
        tsc: u64,
        found: &mut ScanResult,
    ) -> Result<(), Stop> {
        found.part();
        let begin = found.copied.len();
        if let Mode::Compact { bytes, order } = info.mode {
            put_uint(&mut found.copied, data.into(), bytes.into(), order);
        }
        let body_bits = self.copied_bits(begin);
        let mut at = 0;
        for field in info.layout.fields() {
            let before = found.copied.len();
            match field.copy(own, at, &mut found.copied, MAX_COPIED) {
                Ok(end) => at = end,
                Err(short) => {
                    found.copied.truncate(before);
                    let end_bits = self.copied_bits(before);
                    found.spine.cut(body_bits, end_bits);
                    // No other event may begin where this one does.
                    found.copied.push(0);
                    self.event_error(start, info, own, short, found);
                    break;
                }
            }
        }
        found.spine.push(info.class, tsc, self.bits(start), body_bits);
        Ok(())
    }

    /// An event that nothing describes.
    #[cold]
    fn unknown(
        &self,
        start: u64,
        header: &EventHeader,
        place: &mut ScanPosition,
        end: u64,
        limit: u64,
        found: &mut ScanResult,
    ) -> Result<(), Stop> {
        let EventHeader { facility, event, size, .. } = *header;
        if size == COMPUTED {
            let message = format!(
                "event {event} of facility {facility}, which nothing describes, does not say its size: the next event \
                 cannot be found"
            );
            return self.stop(start, limit, found, message);
        }
        place.offset = end.min(limit);
        found.oddities.push((start, Oddity::Unknown(facility, event)));
        let Some(class) = self.table.open else { return Ok(()) };
        found.part();
        let body_bits = self.copied_bits(found.copied.len());
        found.copied.extend_from_slice(&[event, facility, 0, 0]);
        found.spine.push(class, place.tsc, self.bits(start), body_bits);
        Ok(())
    }

    #[cold]
    fn stop(&self, at: u64, limit: u64, found: &mut ScanResult, message: String) -> Result<(), Stop> {
        let left = limit.saturating_sub(at);
        let error = Error::malformed(message).with_help(format!("the rest of the block, {left} bytes, is skipped"));
        found.faults.report(|| error.at_offset(at));
        Err(Stop)
    }

    #[cold]
    fn event_error(&self, start: u64, info: &EventInfo, own: &[u8], short: Misfit, found: &mut ScanResult) {
        found.faults.report(|| {
            let mut at = 0;
            let fields = info.layout.fields().iter();
            let whole = fields.map_while(|field| field.end(own, at).ok().map(|end| at = end)).count();
            let name = info.names.get(whole).map_or("?", |name| name);
            let message = format!("an event of {} bytes of data is too short for its fields: {short}", own.len());
            let error = Error::malformed(message).in_field(name).at_offset(start);
            error.with_help("the fields before it are shown, the others are null")
        });
    }

    fn is_late(&self, tsc: u64) -> bool {
        tsc - self.block.header.end_tsc > 1 << 31
    }

    /// Bits from the first byte that is decoded.
    #[inline]
    fn bits(&self, offset: u64) -> u32 {
        (offset.saturating_sub(self.base) * 8) as u32
    }

    /// Bits of a place in what is rewritten, which comes after the block.
    fn copied_bits(&self, at: usize) -> u32 {
        ((self.stop.saturating_sub(self.base) + at as u64) * 8) as u32
    }
}

/// The full clock of the low `bits` bits of a count that leaves out `shift` bits: `now` moved forward.
#[inline]
fn extend(now: u64, value: u64, bits: u32, shift: u32) -> u64 {
    let mask = ((1u64 << bits) - 1) << shift;
    let value = value << shift;
    let high = now & !mask;
    let high = if value < now & mask { high.wrapping_add((1u64 << bits) << shift) } else { high };
    // The bits below are those of the beginning of the block.
    high | value
}

#[inline]
fn pad(at: u64, align: u8) -> u64 {
    let mask = u64::from(align) - 1;
    (at + mask) & !mask
}

#[cfg(test)]
mod tests {
    use super::extend;

    #[test]
    fn the_clock_goes_on_from_its_low_bits() {
        assert_eq!(extend(0x5_ffff_fff0, 0xffff_fff0, 32, 0), 0x5_ffff_fff0, "equal is no wrap");
        assert_eq!(extend(0x5_ffff_fff0, 0x0000_0001, 32, 0), 0x6_0000_0001);
        assert_eq!(extend(u64::MAX, 0, 32, 0), 0);
        // 8 bits that leave out 4: the low ones stay.
        assert_eq!(extend(0xa123, 0x13, 8, 4), 0xa133);
        assert_eq!(extend(0xa123, 0x11, 8, 4), 0xb113);
    }
}
