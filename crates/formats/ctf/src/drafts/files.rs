//! The packets of a stream file: a walk over their headers, and what their counters say (`SPEC.md`, D38 to D42, D47).

use std::path::Path;

use tracemill_codec::bits;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::Error;
use tracemill_model::packet::Packet;

use super::header::{self, DraftHeader, Identity, Unusable};
use super::metadata::Dialect;
use super::transform::StoredChecksum;
use tracemill_format::Faults;

/// Contents of the headers of a file.
pub(super) struct Scanned {
    pub(super) packets: Vec<Packet>,
    pub(super) faults: Vec<Error>,
    pub(super) warnings: Vec<Error>,
}

/// Packets that a file may have however small they are, and the mean size of the others: what is kept of each must
/// not be many times the size of the file.
const MANY_PACKETS: u64 = 1 << 20;
const MIN_MEAN_BYTES: u64 = 64;
/// Errors that are reported one by one for a file.
const MAX_FAULTS: usize = 1000;
/// Headers that are tried in vain for a file before the search for the next good one ends, and how much of one is read.
const MAX_TRIES: u32 = 10_000;
const TRY_BYTES: u64 = 64 * 1024;

/// Reads all packet headers of a file. What they agree on becomes part of the identity.
pub(super) fn scan(plans: &TracePlans, identity: &mut Identity, path: &Path, bytes: &[u8]) -> Scanned {
    let mut walk = PacketWalk {
        plans,
        path,
        bytes,
        packets: Vec::new(),
        faults: Faults::default(),
        warnings: Vec::new(),
        counters: Counters::default(),
        previous: None,
        tries: 0,
        said: Vec::new(),
        index: 0,
    };
    walk.run(identity);
    let faults = walk.faults.finish("packets have faults like these");
    Scanned { packets: walk.packets, faults, warnings: walk.warnings }
}

struct PacketWalk<'a> {
    plans: &'a TracePlans,
    path: &'a Path,
    bytes: &'a [u8],
    packets: Vec<Packet>,
    faults: Faults<MAX_FAULTS>,
    warnings: Vec<Error>,
    counters: Counters,
    /// Bytes of the packet before.
    previous: Option<&'a [u8]>,
    tries: u32,
    /// Warnings that were reported once.
    said: Vec<&'static str>,
    index: u64,
}

impl<'a> PacketWalk<'a> {
    fn run(&mut self, identity: &mut Identity) {
        let len = self.bytes.len() as u64;
        let mut offset = 0u64;
        while offset < len {
            if self.index >= MANY_PACKETS && offset / self.index < MIN_MEAN_BYTES {
                let message =
                    format!("{} packets of less than {MIN_MEAN_BYTES} bytes on average, which is too many", self.index);
                let help = format!("{} bytes are skipped", len - offset);
                self.fault(Error::unsupported(message).with_help(help), offset);
                return;
            }
            let rest = self.bytes.get(offset as usize..).unwrap_or(&[]);
            let next = match header::read(self.plans, identity, rest, u64::MAX) {
                Ok(header) => self.packet(identity, header, offset, rest),
                Err(Unusable::Cut(error)) => {
                    let help = format!("{} bytes at the end of the file are skipped", len - offset);
                    self.fault(error.with_help(help), offset);
                    len
                }
                Err(Unusable::Untrusted(error)) => {
                    let next = self.next_packet(identity, offset).unwrap_or(len);
                    let mut help = format!("{} bytes are skipped", next - offset);
                    if next == len {
                        help += ", to the end of the file";
                    }
                    help += self.note_of_times(identity);
                    self.fault(error.with_help(help), offset);
                    next
                }
            };
            offset = next.max(offset + 1);
            self.index += 1;
        }
    }

    /// Takes a packet over; gives where the next one begins.
    fn packet(&mut self, identity: &mut Identity, header: DraftHeader, offset: u64, rest: &'a [u8]) -> u64 {
        let left = rest.len() as u64;
        if let Some(error) = header.stranger {
            let skipped = header.packet_size.min(left);
            self.fault(error.with_help(format!("the packet, {skipped} bytes, is skipped")), offset);
            return offset + skipped;
        }
        match identity.dialect {
            Dialect::V11 => identity.session_id = identity.session_id.or(Some(header.session_id)),
            Dialect::V16 => identity.uuid = identity.uuid.or(Some(header.uuid)),
        }
        identity.class = identity.class.or(Some(header.class));
        self.warn_of_checksum(&header, offset);
        let mut packet = Packet {
            index: self.index,
            content_bits: header.stored_content(left) * 8,
            begin_cycles: header.begin,
            end_cycles: header.end,
            discarded_snapshot: header.discarded.map(|(value, _)| value),
            sequence: header.count.map(|(value, _)| value),
            ..Packet::new(header.class, offset, header.packet_size.min(left) * 8)
        };
        if header.is_truncated(left) {
            let message = format!("truncated packet: {left} of its {} bytes are there", header.packet_size);
            let help = match (header.schemes.is_none(), header.content_size <= left) {
                (true, true) => {
                    let padding = left - header.content_size;
                    format!(
                        "its content is there; the {padding} bytes after it count as padding, up to the end of the file"
                    )
                }
                (true, false) => "its whole events are read".to_string(),
                (false, _) => "nothing of it is read: its content is not stored as it is".to_string(),
            };
            self.fault(Error::truncated(message).with_help(help), offset);
        }
        let stored = rest.get(..(packet.total_bits / 8) as usize).unwrap_or(rest);
        let is_repeated = self.counters.count(&mut packet, &header);
        if is_repeated.is_none()
            && let Some(before) = self.packets.last()
            && (packet.begin_cycles < before.begin_cycles || packet.end_cycles < before.end_cycles)
            && packet.begin_cycles.is_some() == before.begin_cycles.is_some()
        {
            self.warn_once("the times of the packet are before those of the packet before it", offset);
        }
        if let Some(what) = is_repeated {
            let is_identical = self.previous == Some(stored);
            let message = match (what, is_identical) {
                (Odd::Equal, true) => "the packet is that before it, byte by byte: it is skipped",
                (Odd::Equal, false) => "the packet counter is that of the packet before: no loss is counted from here",
                (Odd::Late, _) => {
                    "the packet begins before the one before it: it is late or repeated, no loss is counted"
                }
            };
            self.warn_once(message, offset);
            if what == Odd::Equal && is_identical {
                return offset + header.packet_size.min(left);
            }
        }
        self.previous = Some(stored);
        self.packets.push(packet);
        offset + header.packet_size.min(left)
    }

    fn warn_of_checksum(&mut self, header: &DraftHeader, offset: u64) {
        if header.schemes.checksum == 0 {
            return;
        }
        match header.checksum {
            StoredChecksum::Nowhere => {
                self.warn_once("packets have a checksum scheme and no checksum: nothing is verified", offset);
            }
            StoredChecksum::Number(_, bits) if !bits.is_multiple_of(8) => {
                self.warn_once("the checksum is not of whole bytes: nothing is verified", offset);
            }
            StoredChecksum::Odd => {
                self.warn_once("the checksum is neither a number nor bytes: nothing is verified", offset)
            }
            _ => {}
        }
    }

    /// Effect of lost packets on the times of a stream whose packets do not say when they begin.
    fn note_of_times(&self, identity: &Identity) -> &'static str {
        let has_begin = self.packets.last().is_none_or(|packet| packet.begin_cycles.is_some());
        if identity.dialect == Dialect::V16 && !has_begin {
            "; packets here do not say when they begin, so later times may be too small by multiples of the time field"
        } else {
            ""
        }
    }

    /// Where the next packet with the bytes that all have stands after `offset`, and has sound sizes.
    fn next_packet(&mut self, identity: &Identity, offset: u64) -> Option<u64> {
        let pattern = identity.pattern();
        let rest = self.bytes.get(offset as usize + 1..)?;
        for at in memchr::memmem::find_iter(rest, &pattern) {
            let candidate = rest.get(at..)?;
            let found = header::read(self.plans, identity, candidate, TRY_BYTES);
            if found.is_ok_and(|header| header.stranger.is_none()) {
                return Some(offset + 1 + at as u64);
            }
            self.tries += 1;
            if self.tries >= MAX_TRIES {
                break;
            }
        }
        None
    }

    fn fault(&mut self, error: Error, offset: u64) {
        self.faults.report(|| error.at_offset(offset).in_packet(self.index).in_file(self.path));
    }

    /// Something that is said at the first packet of the file that has it.
    fn warn_once(&mut self, message: &'static str, offset: u64) {
        if self.said.contains(&message) {
            return;
        }
        self.said.push(message);
        let warning = Error::inconsistent(message);
        self.warnings.push(warning.at_offset(offset).in_packet(self.index).in_file(self.path));
    }
}

/// Why no loss is counted before a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Odd {
    /// Its counter is that of the packet before.
    Equal,
    /// It begins before the packet before it.
    Late,
}

/// The counters of a file, after its last packet in order.
#[derive(Default)]
struct Counters {
    discarded: Option<u64>,
    count: Option<u64>,
    begin: Option<u64>,
}

impl Counters {
    /// Fills in what is lost before a packet.
    fn count(&mut self, packet: &mut Packet, header: &DraftHeader) -> Option<Odd> {
        let is_late = matches!((self.begin, header.begin), (Some(before), Some(now)) if now < before);
        if is_late {
            return Some(Odd::Late);
        }
        self.begin = header.begin.or(self.begin);
        if let Some((now, len_bits)) = header.discarded {
            let before = self.discarded.replace(now).unwrap_or(0);
            packet.discarded_before = now.wrapping_sub(before) & bits::mask(len_bits.clamp(1, 64));
        }
        let (now, len_bits) = header.count?;
        let significant = header.count_bits.unwrap_or(len_bits.into()).min(len_bits.into()) as u32;
        if significant == 0 {
            // The writer keeps no counter.
            self.count = None;
            return None;
        }
        let before = self.count.replace(now)?;
        let step = now.wrapping_sub(before) & bits::mask(significant);
        if step == 0 {
            return Some(Odd::Equal);
        }
        packet.lost_packets_before = step - 1;
        None
    }
}
