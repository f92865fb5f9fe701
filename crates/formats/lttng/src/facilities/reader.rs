//! Opens blocks, or slices of large ones, for their events.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_codec::bits::put_uint;
use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::TracePart;

use super::block::{FileBlock, TraceHeader};
use super::classes::FlavorEvents;
use super::scan::{Oddity, ScanPosition, ScanResult, Scanner};
use crate::files::{self, KeptFile, slice};
use tracemill_format::{OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};

/// Blocks up to this many bytes are one packet.
const MAX_WHOLE: u64 = 2 << 20;
/// Events of a slice of a larger one.
const SLICE_EVENTS: usize = 1 << 16;
/// Events that a slice is looked for at a time, and bytes from which on it ends.
const STEP_EVENTS: usize = 1 << 12;
const SLICE_BYTES: u64 = 16 << 20;
/// Bytes that a packet may have: offsets in it have 32 bits, counted in bits.
const MAX_PACKET: u64 = 448 << 20;

/// Name of the parts with the headers of the blocks of a tracefile, before the name of the file.
pub(super) const BLOCKS: &str = "blocks/";

/// A file of events: the values that its packets share.
pub(super) struct TraceFile {
    /// Its header.
    pub(super) header: TraceHeader,
    /// Its events.
    pub(super) table: Arc<FlavorEvents>,
    /// Its CPU.
    pub(super) cpu: u32,
    /// Is it a file of facilities?
    pub(super) is_control: bool,
    /// For each packet of the stream.
    pub(super) slices: Vec<BlockSlice>,
    /// Its place among the streams.
    pub(super) number: usize,
    /// Its bytes.
    pub(super) bytes: Arc<dyn Bytes>,
}

impl TraceFile {
    /// The headers of its blocks, as long as the first one; of a truncated block the size is that of its bytes in the file.
    fn heads(&self) -> Vec<u8> {
        let mut heads = Vec::new();
        let mut last = None;
        for block in self.slices.iter().map(|slice| &slice.block) {
            if last.replace(block.offset) == Some(block.offset) {
                continue;
            }
            let Some(head) = block_bytes(self.bytes.bytes(), block).get(..self.header.len) else { continue };
            let at = heads.len();
            heads.extend_from_slice(head);
            let lost = block.len - block.limit.min(block.len);
            let mut words = Vec::with_capacity(8);
            put_uint(&mut words, lost, 4, self.header.order);
            put_uint(&mut words, block.len, 4, self.header.order);
            heads[at + 32..at + 40].copy_from_slice(&words);
        }
        heads
    }
}

/// A block, or a piece of a large one.
#[derive(Clone, Debug)]
pub(super) struct BlockSlice {
    /// The block.
    pub(super) block: FileBlock,
    /// Where its first event is looked for, and the clock there.
    pub(super) place: ScanPosition,
    /// First byte after its last event.
    pub(super) stop: u64,
}

impl BlockSlice {
    /// Offset in the block from which on its events are decoded: alignment in the block stays what it is.
    pub(super) fn base(&self) -> u64 {
        if self.is_first() { 0 } else { self.place.offset & !7 }
    }

    /// Does the block begin with it?
    pub(super) fn is_first(&self) -> bool {
        self.place.offset <= self.block.limit.min(108) && self.place.tsc == self.block.header.begin_tsc
    }
}

/// Divides a block into slices. Blocks of usual size are one, and are not looked into.
pub(super) fn slices(header: &TraceHeader, table: &FlavorEvents, block: &FileBlock, bytes: &[u8]) -> Vec<BlockSlice> {
    let mut place = Scanner::start(header, block);
    if block.len <= MAX_WHOLE {
        return vec![BlockSlice { block: block.clone(), place, stop: block.limit }];
    }
    let bytes = block_bytes(bytes, block);
    let mut slices = Vec::new();
    loop {
        let first = place;
        let mut is_more = true;
        let mut events = 0;
        while is_more && events < SLICE_EVENTS && place.offset - first.offset < SLICE_BYTES {
            let base = first.offset & !7;
            let scanner = Scanner { header, table, block, bytes, is_control: false, base, stop: block.limit };
            let mut found = ScanResult::default();
            is_more = scanner.run(&mut place, STEP_EVENTS, &mut found);
            events += found.spine.len();
        }
        // A scan that stops at damage reports it when the last slice is read.
        let stop = if is_more { place.offset } else { block.limit };
        slices.push(BlockSlice { block: block.clone(), place: first, stop });
        if !is_more {
            return slices;
        }
    }
}

fn block_bytes<'a>(bytes: &'a [u8], block: &FileBlock) -> &'a [u8] {
    slice(bytes, block.offset, block.len)
}

/// Opens the packets of one trace.
pub(super) struct FacilitiesReader {
    /// By the name of the stream.
    files: HashMap<String, TraceFile>,
    /// The files of the trace beside its tracefiles, and its facility loads.
    parts: Vec<KeptFile>,
    /// The first packet that reported something that is reported once.
    reported: Mutex<HashMap<Oddity, (usize, usize)>>,
}

impl FacilitiesReader {
    /// A reader of these files.
    pub(super) fn new(files: HashMap<String, TraceFile>, parts: Vec<KeptFile>) -> Self {
        FacilitiesReader { files, parts, reported: Mutex::default() }
    }

    /// Is this the first packet in which something odd is met? Packets may be read more than once and in any order.
    fn is_first(&self, oddity: Oddity, at: (usize, usize)) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let first = reported.entry(oddity).or_insert(at);
        let is_first = at <= *first;
        *first = at.min(*first);
        is_first
    }
}

/// Reading a packet that is large enough is announced.
const ANNOUNCE_FROM: u64 = 128 << 10;

impl PacketReader for FacilitiesReader {
    fn has_stated_times(&self) -> bool {
        true
    }

    fn call_events(&self) -> &'static [tracemill_format::calls::CallEvents] {
        super::CALLS
    }

    fn parts(&self) -> Result<Vec<TracePart>> {
        let mut parts = files::parts_of(&self.parts);
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_by_key(|(_, file)| file.number);
        parts.extend(
            files
                .into_iter()
                .map(|(name, file)| TracePart { name: format!("{BLOCKS}{name}"), bytes: file.heads().into() }),
        );
        Ok(parts)
    }

    /// Headers may state an end before their last event, and a beginning after their first.
    fn has_proven_times(&self) -> bool {
        false
    }

    fn files(&self, trace: &OpenTrace, storage: &dyn Storage) -> Option<TraceFiles> {
        Some(files::all_files(trace, storage))
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let unknown = || Error::misuse("no such packet");
        let file = self.files.get(&stream.name).ok_or_else(unknown)?;
        let (slice, packet) = (file.slices.get(index).ok_or_else(unknown)?, &stream.packets.at(index));
        let data = &stream.files[packet.file as usize];
        let (block, base) = (&slice.block, slice.base());
        if slice.stop.saturating_sub(base) > MAX_PACKET {
            let message = format!("a block of {} bytes without a place to cut it", block.len);
            return Err(Error::unsupported(message).at_offset(block.offset));
        }
        if block.len >= ANNOUNCE_FROM {
            data.bytes.will_read((block.offset + base) as usize, slice.stop.saturating_sub(base) as usize);
        }
        let bytes = block_bytes(data.bytes.bytes(), block);
        let scanner = Scanner {
            header: &file.header,
            table: &file.table,
            block,
            bytes,
            is_control: file.is_control,
            base,
            stop: slice.stop,
        };
        let mut found = ScanResult::default();
        let least = slice.stop.saturating_sub(slice.place.offset) / 24;
        found.spine.reserve((least as usize).min(SLICE_EVENTS));
        scanner.run(&mut slice.place.clone(), usize::MAX, &mut found);
        let mut packet = packet.clone();
        packet.offset_bytes = block.offset + base;
        let (decoded, base_bytes): (Arc<dyn Bytes>, usize) = if found.copied.is_empty() {
            packet.content_bits = slice.stop.saturating_sub(base) * 8;
            (data.bytes.clone(), packet.offset_bytes as usize)
        } else {
            let own = bytes.get(base as usize..slice.stop.min(bytes.len() as u64) as usize).unwrap_or(&[]);
            let mut decoded = Vec::with_capacity(own.len() + found.copied.len());
            decoded.extend_from_slice(own);
            decoded.append(&mut found.copied);
            packet.content_bits = decoded.len() as u64 * 8;
            (Arc::new(decoded), 0)
        };
        let opened = PacketData::found(plans, &data.bytes, packet, (decoded, base_bytes), found.spine);
        let mut opened = OpenedPacket::new(PacketData { cpu: Some(file.cpu), ..opened });
        let place = |at: u64, error: Error| error.at_offset(block.offset + at);
        let faults = found.faults.finish("events of the block have faults like these").into_iter();
        opened.faults.extend(faults.map(|error| place(error.place().offset.unwrap_or(0), error)));
        let mut seen = HashSet::new();
        for (at, oddity) in found.oddities {
            if seen.insert(oddity) && self.is_first(oddity, (file.number, index)) {
                opened.warnings.push(place(at, file.warning(oddity)));
            }
        }
        Ok(opened)
    }
}

impl TraceFile {
    fn warning(&self, oddity: Oddity) -> Error {
        let message = match oddity {
            Oddity::Unknown(facility, event) => {
                format!("event {event} of facility {facility}, which nothing describes; reported once")
            }
            Oddity::Trailing(facility, event) => format!(
                "event {event} of facility {facility} has more data than its fields; the rest is not shown; reported once"
            ),
            Oddity::NotCore => {
                "an event that is not of the core facility in a file of facilities; reported once".into()
            }
            Oddity::Late => {
                "the time of an event is far after the end of its block: its clock may be wrong; reported once".into()
            }
        };
        Error::inconsistent(message)
    }
}
