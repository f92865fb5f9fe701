//! Where the packets of a data stream file are, and what their headers say (CTF 1.8.3, section 5; CTF 2, "packet").

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::layout;
use tracemill_codec::plan::{DecoderState, PlanInput, RoleValues};
use tracemill_codec::spine::EventFault;
use tracemill_codec::text::uuid_text;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::{ByteOrder, FieldKind, Role, Schema, StreamClassId, TracePart};

use tracemill_format::{
    EntryKind, Faults, OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles, is_below,
};

/// The name of the metadata among the parts of a trace.
pub(crate) const METADATA_PART: &str = "metadata";

/// First number of a packet.
pub(crate) const MAGIC: u64 = 0xC1FC_1FC1;

/// A packet header and context, decoded.
pub(crate) struct PacketHeader {
    pub class: StreamClassId,
    pub state: DecoderState,
    pub context_bits: u64,
    pub events_bits: u64,
    /// Total and content size in bits, as they can be used: inside the file, content inside the packet.
    pub total_bits: u64,
    pub content_bits: u64,
    /// Damage of the packet whose events can be read all the same.
    pub fault: Option<Error>,
}

/// A header that cannot be used, and how far its packet goes when its own size is plausible.
pub(crate) struct BadHeader {
    pub error: Error,
    pub total_bits: Option<u64>,
    /// How much of it was read.
    pub read_bits: u64,
}

/// Reads the header and context of the packet at `offset`, which have at most so many bytes. `clock` is the stream's clock
/// before it.
pub(crate) fn read_header(
    plans: &TracePlans,
    bytes: &[u8],
    offset: u64,
    clock: u64,
    max_bytes: u64,
) -> std::result::Result<PacketHeader, BadHeader> {
    let bad = |error: Error, read_bits: u64| BadHeader { error: error.at_offset(offset), total_bits: None, read_bits };
    let rest = bytes.get(offset as usize..).unwrap_or(&[]);
    let rest_bits = rest.len() as u64 * 8;
    let input = PlanInput::new(rest, rest_bits.min(max_bytes.saturating_mul(8)));
    let mut state = DecoderState::new(clock);
    let mut pos = 0;
    let read = plans.read_packet_header(input, &mut pos, &mut state);
    if let Some(magic) = state.roles.magic.filter(|&magic| magic != MAGIC) {
        return Err(bad(Error::malformed(format!("wrong magic number {magic:#x}, expected {MAGIC:#x}")), pos));
    }
    read.map_err(|fault| bad(header_error(&fault, offset), pos))?;
    let schema = plans.schema();
    let class = match (state.roles.stream_class_id, schema.streams()) {
        (None, [_]) => StreamClassId(0),
        (id, _) => {
            let id = id.unwrap_or(0);
            let message = || Error::malformed(format!("no stream class has the id {id} that the packet header names"));
            schema.stream_by_id(id).ok_or_else(|| bad(message(), pos))?
        }
    };
    let context_bits = pos;
    let read = plans.read_packet_context(class, input, &mut pos, &mut state);
    read.map_err(|fault| bad(header_error(&fault, offset), pos))?;
    let mut header = sizes(&state.roles, rest_bits, pos).map_err(|(message, total_bits)| BadHeader {
        error: Error::malformed(message).at_offset(offset),
        total_bits,
        read_bits: pos,
    })?;
    (header.class, header.context_bits, header.events_bits) = (class, context_bits, pos);
    header.state = state;
    header.fault = header.fault.map(|fault| fault.at_offset(offset));
    Ok(header)
}

/// The UUID that a packet carries, where it is not that of its trace.
pub(crate) fn foreign_uuid(schema: &Schema, header: &PacketHeader) -> Option<[u8; 16]> {
    header.state.roles.uuid.filter(|found| schema.uuid.is_some_and(|want| want != *found))
}

/// The error of packets that carry the UUID of another trace.
fn uuid_error(schema: &Schema, found: &[u8; 16], what: &str) -> Error {
    let want = schema.uuid.as_ref().map(uuid_text).unwrap_or_default();
    let message = format!("{what} the uuid {} of another trace, expected {want}", uuid_text(found));
    Error::inconsistent(message).with_help("its events are read all the same")
}

/// The warning that all packets of a file carry the UUID of another trace, by the first of them.
pub(crate) fn uuid_warning(schema: &Schema, path: &Path, first: &PacketHeader) -> Option<Error> {
    let found = foreign_uuid(schema, first)?;
    Some(uuid_error(schema, &found, "the packets carry").in_file(path).at_offset(0))
}

/// The error of a packet that carries the UUID of another trace, unless its file does (`of_file`).
fn uuid_fault(schema: &Schema, header: &PacketHeader, of_file: Option<[u8; 16]>, offset: u64) -> Option<Error> {
    let found = foreign_uuid(schema, header).filter(|found| Some(*found) != of_file)?;
    Some(uuid_error(schema, &found, "the packet carries").losing_nothing().at_offset(offset))
}

/// Total and content size by the rules: one that is missing equals the other (a content that does not end on a byte is
/// padded to one); without both, the packet is the rest of the stream.
fn sizes(
    roles: &RoleValues,
    rest_bits: u64,
    header_bits: u64,
) -> std::result::Result<PacketHeader, (String, Option<u64>)> {
    let content_bytes = roles.content_bits.map(|bits| bits.checked_next_multiple_of(8).unwrap_or(u64::MAX));
    // A packet size of 0 next to a content size is one that was never filled in.
    let is_unset = roles.total_bits == Some(0) && roles.content_bits.is_some_and(|bits| bits != 0);
    let total = roles.total_bits.filter(|_| !is_unset).or(content_bytes).unwrap_or(rest_bits);
    let content = roles.content_bits.unwrap_or(total);
    if total == 0 {
        return Err(("packet size 0".into(), None));
    }
    if total < header_bits {
        return Err((
            format!("packet size {total} bits is smaller than the packet's header ({header_bits} bits)"),
            None,
        ));
    }
    let plausible = (total.is_multiple_of(8) && total <= rest_bits).then_some(total);
    if content > total {
        return Err((format!("content size {content} bits is larger than the packet size {total} bits"), plausible));
    }
    if content < header_bits {
        let message = format!("content size {content} bits is smaller than the packet's header ({header_bits} bits)");
        return Err((message, plausible));
    }
    let mut fault = is_unset.then(|| {
        Error::malformed(format!("packet size 0 with a content size of {content} bits"))
            .with_help("the packet is read up to the end of its content")
            .losing_nothing()
    });
    if total > rest_bits {
        let message =
            format!("the file ends inside the packet: {} of its {} bytes are there", rest_bits / 8, total.div_ceil(8));
        let error = Error::truncated(message);
        // Padding that is missing costs no event.
        let is_padding = content <= rest_bits;
        fault = Some(match is_padding {
            true => error.with_help("no event is lost: only padding is missing").losing_nothing(),
            false => error,
        });
    } else if !total.is_multiple_of(8) {
        fault = Some(Error::malformed(format!("packet size {total} bits is not a whole number of bytes")));
    }
    Ok(PacketHeader {
        class: StreamClassId(0),
        state: DecoderState::default(),
        context_bits: 0,
        events_bits: 0,
        total_bits: total.min(rest_bits),
        content_bits: content.min(rest_bits),
        fault,
    })
}

/// The error of damage in the header of the packet at `offset`.
fn header_error(fault: &EventFault, offset: u64) -> Error {
    let error = match fault {
        EventFault::Field { fault, path, .. } => Error::malformed(fault.kind.to_string()).in_field(path.clone()),
        EventFault::UnknownId { .. } | EventFault::Empty { .. } => {
            Error::malformed("the header is not a packet header")
        }
    };
    error.at_bit(offset * 8 + fault.at_bits())
}

/// Where an entry of an index says another time than the packet itself: what the time is of, and both times. A packet may
/// have only the low bits of its times.
pub(crate) fn other_times(entry: &Packet, header: &PacketHeader) -> Option<(&'static str, u64, u64)> {
    let roles = &header.state.roles;
    let times = [("begins", entry.begin_cycles, roles.begin_cycles), ("ends", entry.end_cycles, roles.end_cycles)];
    let other = times.into_iter().filter_map(|(what, says, is)| Some((what, says?, is?)));
    other.into_iter().find(|&(_, says, is)| {
        let mask = u64::MAX.checked_shr(is.leading_zeros()).unwrap_or(0);
        says & mask != is
    })
}

/// A packet as the index keeps it.
pub(crate) fn packet_of(header: &PacketHeader, file: u32, index: u64, offset: u64) -> Packet {
    let roles = &header.state.roles;
    Packet {
        file,
        index,
        content_bits: header.content_bits,
        stream_id: roles.stream_id,
        begin_cycles: roles.begin_cycles,
        end_cycles: roles.end_cycles,
        discarded_snapshot: roles.discarded,
        sequence: roles.sequence,
        ..Packet::new(header.class, offset, header.total_bits)
    }
}

/// The packets of a file, as its packet headers describe them.
#[derive(Default)]
pub(crate) struct Scanned {
    pub packets: PacketList,
    pub faults: Vec<Error>,
    /// Bytes between packets that are none, and the place of their fault.
    pub skipped: Vec<Skipped>,
    /// The warning in place of the faults when the file stands beside streams and is none.
    pub foreign: Option<Error>,
    /// Widths in bits of the counters, for their wraps.
    pub discarded_len_bits: u32,
    pub sequence_len_bits: u32,
}

/// Bytes that are no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Skipped {
    /// First byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
    /// Index of the fault.
    pub fault: usize,
}

impl Scanned {
    /// Removes the faults of bytes that are what a ring left of packets that newer ones overwrote; says whether there were
    /// any. They stand after the newest packet, before the oldest one, or at the end of the file.
    pub(crate) fn forget_overwritten(&mut self, newest: &Packet, oldest: &Packet, file_bytes: u64) -> bool {
        let end_of_newest = newest.offset_bytes + newest.total_bits.div_ceil(8);
        let is_between = |of: &Skipped| of.from >= end_of_newest && of.to <= oldest.offset_bytes;
        let is_overwritten = |of: &Skipped| is_between(of) || of.to == file_bytes;
        let faults: Vec<usize> = self.skipped.iter().filter(|of| is_overwritten(of)).map(|of| of.fault).collect();
        // From the last one on, so that those before keep their places.
        faults.iter().rev().for_each(|fault| drop(self.faults.remove(*fault)));
        !faults.is_empty()
    }
}

/// Packets that a file may have however small they are. What is kept of each takes up to 64 bytes, so from there on packets
/// must have [`MIN_MEAN_BYTES`] on average, or memory would be many times the size of the file.
const MANY_PACKETS: u64 = 1 << 20;
/// See [`MANY_PACKETS`]. Producers write packets of 4 KiB and more; 256 bytes is the least that we know of.
const MIN_MEAN_BYTES: u64 = 64;
/// Errors of packet headers that are reported one by one for a file.
const MAX_FAULTS: usize = 1000;

/// Reads all packet headers of a file, one after the other.
pub(crate) fn scan_file(plans: &TracePlans, path: &Path, bytes: &[u8]) -> Scanned {
    let mut scanned = Scanned { discarded_len_bits: 64, sequence_len_bits: 64, ..Scanned::default() };
    let (mut offset, mut index, mut clock) = (0u64, 0u64, 0u64);
    let mut faults = Faults::<MAX_FAULTS>::default();
    let mut reported = 0;
    let mut report = |error: Error, index: u64| {
        reported += 1;
        faults.report(|| error.in_file(path).in_packet(index));
        reported - 1
    };
    let mut budget = Budget { left: MAX_TRIES, uuid: None };
    let mut padding = Padding::default();
    while offset < bytes.len() as u64 {
        if index >= MANY_PACKETS && offset / index < MIN_MEAN_BYTES {
            let message = format!("{index} packets of less than {MIN_MEAN_BYTES} bytes on average, which is too many");
            let error = Error::unsupported(message).at_offset(offset);
            report(error.with_help(format!("{} bytes are skipped", bytes.len() as u64 - offset)), index);
            break;
        }
        let total_bits = match read_header(plans, bytes, offset, clock, u64::MAX) {
            Ok(header) => {
                if index == 0 {
                    budget.uuid = foreign_uuid(plans.schema(), &header);
                }
                let uuid_fault = uuid_fault(plans.schema(), &header, budget.uuid, offset);
                if let Some(fault) = header.fault.clone().or(uuid_fault) {
                    report(fault, index);
                }
                let roles = &header.state.roles;
                scanned.discarded_len_bits = roles.discarded_len_bits;
                scanned.sequence_len_bits = roles.sequence_len_bits;
                clock = roles.end_cycles.unwrap_or(header.state.clock).max(header.state.clock);
                scanned.packets.push(&packet_of(&header, 0, index, offset));
                header.total_bits
            }
            // Files are made larger than what is written to them.
            Err(_) if padding.begins_by(bytes, offset) => break,
            Err(bad) => {
                budget.charge(bad.read_bits);
                let next = next_packet(plans, bytes, offset, bad.total_bits, &mut budget);
                let next = next.unwrap_or(bytes.len() as u64);
                let fault = report(bad.error.with_help(format!("{} bytes are skipped", next - offset)), index);
                if fault < MAX_FAULTS {
                    scanned.skipped.push(Skipped { from: offset, to: next, fault });
                }
                (next - offset) * 8
            }
        };
        offset += total_bits.div_ceil(8);
        index += 1;
    }
    scanned.faults = faults.finish("packets have faults like these");
    if scanned.packets.is_empty() && !scanned.faults.is_empty() && is_foreign(plans, bytes) {
        let message = "the file is not a data stream: it has no packet";
        let warning = Error::inconsistent(message).in_file(path).with_help("it is skipped; the folder is for streams");
        scanned.foreign = Some(warning);
    }
    scanned
}

/// Does a file without a packet belong to something else? Not one that begins as a packet does but for a damaged magic number:
/// most of that is right, or the sizes after it are possible.
fn is_foreign(plans: &TracePlans, bytes: &[u8]) -> bool {
    let Some(pattern) = magic_pattern(plans.schema()) else { return false };
    let right = pattern.iter().zip(bytes).filter(|(want, is)| want == is).count();
    if right >= pattern.len() - 1 || memchr::memmem::find(bytes, &pattern).is_some() {
        return false;
    }
    let behind = bytes.get(pattern.len()..bytes.len().min(TRY_BYTES as usize)).unwrap_or(&[]);
    let mended = [&pattern, behind].concat();
    let Ok(header) = read_header(plans, &mended, 0, 0, TRY_BYTES) else { return true };
    let roles = &header.state.roles;
    let size = roles.total_bits.or(roles.content_bits);
    size.is_none_or(|bits| bits > bytes.len() as u64 * 8 || !bits.is_multiple_of(8))
}

/// Zeros at the end of a file, looked for once.
#[derive(Default)]
struct Padding {
    begin: Option<u64>,
}

impl Padding {
    /// Are there only zeros from an offset on?
    fn begins_by(&mut self, bytes: &[u8], offset: u64) -> bool {
        if bytes.get(offset as usize).is_some_and(|byte| *byte != 0) {
            return false;
        }
        offset >= *self.begin.get_or_insert_with(|| content_bytes(bytes))
    }
}

/// Bytes of a file without the zeros at its end.
pub(crate) fn content_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

/// The times of packets of a file, read in their order: those of narrow clocks depend on the packets before.
pub(crate) fn with_times_read(plans: &TracePlans, bytes: &[u8], packets: &PacketList) -> PacketList {
    let mut clock = 0;
    let read = |packet: Packet| match read_header(plans, bytes, packet.offset_bytes, clock, u64::MAX) {
        Ok(header) => {
            let roles = &header.state.roles;
            clock = roles.end_cycles.unwrap_or(header.state.clock).max(header.state.clock);
            Packet { begin_cycles: roles.begin_cycles, end_cycles: roles.end_cycles, ..packet }
        }
        Err(_) => packet,
    };
    packets.iter().map(read).collect()
}

/// Headers that are read in vain for a file, long ones counted several times: the search for the next good one must
/// not take time in the square of the file's length.
const MAX_TRIES: u64 = 10_000;
/// Bytes of a header that count as one try, and all that is looked at of a header that is only tried.
const TRY_BYTES: u64 = 64 * 1024;

/// Number of headers that may still be tried.
struct Budget {
    left: u64,
    /// The UUID of another trace that the packets of the file carry.
    uuid: Option<[u8; 16]>,
}

impl Budget {
    /// Takes a header that was read in vain out of the budget.
    fn charge(&mut self, read_bits: u64) {
        self.left = self.left.saturating_sub(1 + read_bits / (TRY_BYTES * 8));
    }
}

/// The packet after one whose header is bad: where its size says when that can be believed, else the next header that
/// makes sense. Without a magic number in the packet header there is only the size. `None` when there is no next packet,
/// or when too much was tried.
fn next_packet(
    plans: &TracePlans,
    bytes: &[u8],
    offset: u64,
    total_bits: Option<u64>,
    budget: &mut Budget,
) -> Option<u64> {
    let by_size = total_bits.map(|bits| offset + bits / 8);
    let Some(pattern) = magic_pattern(plans.schema()) else { return by_size.filter(|_| budget.left > 0) };
    let by_size = by_size.filter(|&next| makes_sense(plans, bytes, next, budget));
    by_size.or_else(|| next_header(plans, bytes, offset + 1, &pattern, budget))
}

/// The bytes with which every packet begins.
fn magic_pattern(schema: &Schema) -> Option<[u8; 4]> {
    let children = layout::children(schema.field_class(schema.packet_header?));
    let magic = schema.field_class(*children.first()?);
    let FieldKind::Integer(integer) = &magic.kind else { return None };
    let pattern = match integer.byte_order {
        ByteOrder::Little => (MAGIC as u32).to_le_bytes(),
        ByteOrder::Big => (MAGIC as u32).to_be_bytes(),
    };
    magic.roles.has(Role::PacketMagic).then_some(pattern)
}

/// Can a packet begin here? The end of the file counts as one.
fn makes_sense(plans: &TracePlans, bytes: &[u8], offset: u64, budget: &mut Budget) -> bool {
    if offset >= bytes.len() as u64 {
        return true;
    }
    if budget.left == 0 {
        return false;
    }
    let is_own = |header: &PacketHeader| uuid_fault(plans.schema(), header, budget.uuid, offset).is_none();
    let good =
        read_header(plans, bytes, offset, 0, TRY_BYTES).is_ok_and(|header| header.fault.is_none() && is_own(&header));
    if !good {
        budget.charge(0);
    }
    good
}

/// The first offset from `from` on where a packet can begin: its magic number stands there and its header is whole.
fn next_header(plans: &TracePlans, bytes: &[u8], from: u64, pattern: &[u8], budget: &mut Budget) -> Option<u64> {
    let rest = bytes.get(from as usize..)?;
    for at in memchr::memmem::find_iter(rest, pattern) {
        let offset = from + at as u64;
        if makes_sense(plans, bytes, offset, budget) {
            return Some(offset);
        }
        if budget.left == 0 {
            break;
        }
    }
    None
}

/// Smaller packets are not worth a call.
const POPULATE_FROM: usize = 128 << 10;

/// Streams, their indexes and the metadata of a trace in one folder; `None` when it is put together of several.
pub(crate) fn files_of(trace: &OpenTrace, storage: &dyn Storage) -> Option<TraceFiles> {
    let mut all = TraceFiles::default();
    for file in trace.data_files() {
        let is_plain = is_below(&file.relative) && Path::new(&file.relative).components().count() == 1;
        if !is_plain || file.path != trace.path.join(&file.relative) {
            return None;
        }
        all.add(file.path.clone(), &file.relative);
        // An index that does not fit is not read, and not kept.
        let index = format!("index/{}.idx", file.relative);
        let path = trace.path.join(&index);
        if file.is_indexed && matches!(storage.kind(&path), Some(EntryKind::File(_))) {
            all.add(path, index);
        }
    }
    all.add(trace.path.join("metadata"), "metadata");
    Some(all)
}

/// Opens CTF packets where they lie.
#[derive(Default)]
pub struct CtfReader {
    /// The metadata stream.
    pub metadata: Option<Arc<dyn Bytes>>,
}

impl PacketReader for CtfReader {
    fn has_stated_times(&self) -> bool {
        true
    }

    fn reads_packets_alone(&self) -> bool {
        true
    }

    fn files(&self, trace: &OpenTrace, storage: &dyn Storage) -> Option<TraceFiles> {
        files_of(trace, storage)
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, clock: u64) -> Result<OpenedPacket> {
        let mut packet = stream.packets.at(index);
        let file = &stream.files[packet.file as usize];
        let bytes = &file.bytes;
        let content_bytes = packet.content_bits.div_ceil(8) as usize;
        if content_bytes >= POPULATE_FROM {
            bytes.will_read(packet.offset_bytes as usize, content_bytes);
        }
        let header =
            read_header(plans, bytes.bytes(), packet.offset_bytes, clock, u64::MAX).map_err(|bad| bad.error)?;
        let differs = other_times(&packet, &header);
        let uuid_fault = match file.is_indexed && foreign_uuid(plans.schema(), &header).is_some() {
            true => {
                let first = read_header(plans, bytes.bytes(), 0, 0, u64::MAX).ok();
                let of_file = first.and_then(|first| foreign_uuid(plans.schema(), &first));
                uuid_fault(plans.schema(), &header, of_file, packet.offset_bytes)
            }
            false => None,
        };
        packet.content_bits = packet.content_bits.min(header.content_bits);
        let mut opened = OpenedPacket::new(PacketData {
            plans: plans.clone(),
            bytes: bytes.clone(),
            base_bytes: packet.offset_bytes as usize,
            file: bytes.clone(),
            packet,
            cpu: None,
            spine: None,
            context_bits: header.context_bits,
            events_bits: header.events_bits,
            state: header.state,
            copied: None,
        });
        // Otherwise it was reported when the packets were found by their headers.
        if file.is_indexed {
            opened.faults.extend(header.fault);
            opened.faults.extend(uuid_fault);
            if let Some((what, says, is)) = differs {
                let message = format!("the index says that the packet {what} at {says} cycles, the packet says {is}");
                let help = "without the folder `index` the packets are found by their headers";
                opened.warnings.push(Error::inconsistent(message).with_help(help));
            }
        }
        Ok(opened)
    }

    fn parts(&self) -> Result<Vec<TracePart>> {
        let part = |bytes: &Arc<dyn Bytes>| TracePart { name: METADATA_PART.to_string(), bytes: bytes.bytes().into() };
        Ok(self.metadata.iter().map(part).collect())
    }

    fn call_events(&self) -> &'static [tracemill_format::calls::CallEvents] {
        super::concepts::CALLS
    }

    fn module_events(&self) -> &'static [tracemill_format::calls::ModuleEvents] {
        super::concepts::MODULES
    }
}
