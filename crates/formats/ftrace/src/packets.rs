//! Packets: some pages of the ring buffer of one CPU; and what opens them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind, Packet};
use tracemill_model::schema::{StreamClassId, TracePart};

use super::bytes::ByteReader;
use super::classes::{Classes, FormatOddities, copy_unknown};
use super::compression::{Algorithm, MAX_CHUNK_BYTES};
use super::container::CpuData;
use super::options::TscToNs;
use super::ring_buffer::{Missed, Page, PageLayout};
use super::write::sections::DatSections;
use tracemill_format::{OpenedPacket, PacketReader, Stream};

/// Bytes of a packet: some pages, as many as make reading cheap and memory small.
const PACKET_BYTES: usize = 64 << 10;
/// The most unpacked bytes of a packet; larger pieces are read in parts.
const PART_BYTES: usize = 1 << 20;
/// Faults that are reported one by one for a packet.
pub type Faults = tracemill_format::Faults<16>;
/// The words for faults that are counted instead of reported one by one.
pub const MORE_FAULTS: &str = "faults like these in the packet";

/// Opens the packets of a file.
pub(crate) struct FtraceReader {
    /// Everything but the pages, for a writer.
    pub(crate) parts: Arc<DatSections>,
    /// Streams by their names.
    pub(crate) streams: HashMap<String, StreamInfo>,
    /// Stream classes.
    pub(crate) classes: HashMap<StreamClassId, Classes>,
    /// Oddities of formats.
    pub(crate) oddities: FormatOddities,
    /// The number of CPUs that the recorder found.
    pub(crate) cpus: Option<u64>,
}

/// Properties of a stream.
pub struct StreamInfo {
    /// The CPU.
    pub cpu: u32,
    /// Layout of its pages.
    pub(crate) layout: PageLayout,
    /// How its times become ns.
    pub(crate) tsc: Option<TscToNs>,
    /// How its data is packed, and the piece of each packet.
    pub(crate) packed: Option<(Algorithm, Vec<CompressedPart>)>,
}

impl StreamInfo {
    /// Pages that stand in a file as the ring buffer held them, with times in ns.
    pub fn from_pages(cpu: u32, layout: PageLayout) -> Self {
        StreamInfo { cpu, layout, tsc: None, packed: None }
    }
}

/// A part of trace data that was packed in one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CompressedPart {
    /// Bytes of the whole, unpacked.
    len: u32,
    /// First byte of the packet in those.
    from: u32,
}

/// The packets of data that lies in the file as it is.
pub fn in_file(file: &[u8], data: CpuData, info: &StreamInfo, class: StreamClassId) -> Vec<Packet> {
    let layout = &info.layout;
    let step = (PACKET_BYTES / layout.page_bytes).max(1) * layout.page_bytes;
    let bytes = slice(file, data.offset, data.len);
    let mut packets: Vec<Packet> = Vec::new();
    for (at, chunk) in bytes.chunks(step).enumerate() {
        // Pages without records tell no time.
        let first = chunk.chunks(layout.page_bytes).find_map(|page| match layout.page(page) {
            Ok(page) => (!page.records.is_empty() || page.missed.is_some()).then_some(Some(page.time)),
            Err(_) => Some(None),
        });
        let Some(begin) = first else { continue };
        let begin = begin.map(|time| info.cycles(time));
        let mut packet = packet_of(class, data.offset + (at * step) as u64, chunk.len() as u64, packets.len());
        packet.begin_cycles = begin;
        if let Some(before) = packets.last_mut() {
            before.end_cycles = begin.filter(|&end| before.begin_cycles.is_some_and(|begin| begin <= end));
        }
        packets.push(packet);
    }
    if let Some(last) = packets.last_mut() {
        let bytes = slice(file, last.offset_bytes, last.total_bits / 8);
        let end = bytes.chunks(layout.page_bytes).filter_map(|page| layout.page(page).ok()).map(|page| {
            let mut records = layout.records(&page);
            while records.next().is_some() {}
            info.cycles(records.time())
        });
        let begin = last.begin_cycles;
        last.end_cycles = end.max().filter(|&end| begin.is_some_and(|begin| begin <= end));
    }
    packets
}

/// The packets of data that is packed in pieces: their number, then for each its packed size, its size, and it.
pub(crate) fn packed(
    file: &[u8],
    data: CpuData,
    layout: &PageLayout,
    order: tracemill_model::schema::ByteOrder,
    class: StreamClassId,
    faults: &mut Vec<Error>,
) -> (Vec<Packet>, Vec<CompressedPart>) {
    let (mut packets, mut pieces) = (Vec::new(), Vec::new());
    let part = (PART_BYTES / layout.page_bytes).max(1) * layout.page_bytes;
    // trace-cmd does not count the number of pieces into the size.
    let mut reader = ByteReader::new(slice(file, data.offset, data.len.saturating_add(4)), order, data.offset);
    let mut read = |reader: &mut ByteReader<'_>| -> Result<()> {
        for _ in 0..reader.u32("the number of packed pieces")? {
            let offset = reader.offset();
            let packed = reader.u32("the packed size of a piece")?;
            let len = reader.u32("the size of a piece")?;
            let there = reader.rest().len() as u64;
            if u64::from(len) > MAX_CHUNK_BYTES {
                let message = format!("{len} bytes packed in one piece, more than {MAX_CHUNK_BYTES}");
                faults.push(Error::unsupported(message).at_offset(offset).with_help("the piece is skipped"));
            } else if there >= u64::from(packed) {
                for from in (0..len as usize).step_by(part) {
                    packets.push(packet_of(class, offset, 8 + u64::from(packed), packets.len()));
                    pieces.push(CompressedPart { len, from: from as u32 });
                }
            }
            reader.take(packed.into(), "a packed piece")?;
        }
        Ok(())
    };
    if let Err(error) = read(&mut reader) {
        faults.push(error.with_help("the pieces after it are not found"));
    }
    (packets, pieces)
}

fn packet_of(class: StreamClassId, offset_bytes: u64, len_bytes: u64, index: usize) -> Packet {
    Packet { index: index as u64, ..Packet::new(class, offset_bytes, len_bytes * 8) }
}

fn slice(file: &[u8], offset: u64, len: u64) -> &[u8] {
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = file.get(from..).unwrap_or(&[]);
    &rest[..rest.len().min(usize::try_from(len).unwrap_or(usize::MAX))]
}

impl StreamInfo {
    #[inline]
    fn cycles(&self, time: u64) -> u64 {
        self.tsc.map_or(time, |tsc| tsc.ns(time))
    }
}

impl PacketReader for FtraceReader {
    fn cpu_count(&self) -> Option<u64> {
        self.cpus
    }

    fn reads_packets_alone(&self) -> bool {
        true
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let file = &stream.files[packet.file as usize].bytes;
        let (Some(info), Some(classes)) = (self.streams.get(&stream.name), self.classes.get(&packet.class)) else {
            return Err(Error::malformed(format!("the stream `{}` is not known", stream.name)));
        };
        let at = packet.offset_bytes;
        let (bytes, base, len, places) = match &info.packed {
            None => {
                let len = slice(file.bytes(), at, packet.total_bits / 8).len();
                (file.clone(), at as usize, len, PacketPlaces::InFile(at))
            }
            Some((algorithm, pieces)) => {
                let piece = pieces.get(index).copied().unwrap_or(CompressedPart { len: 0, from: 0 });
                let packed = slice(file.bytes(), at, packet.total_bits / 8).get(8..).unwrap_or(&[]);
                let whole = algorithm.unpack(packed, piece.len.into(), MAX_CHUNK_BYTES).map_err(|e| e.at_offset(at))?;
                let part = (PART_BYTES / info.layout.page_bytes).max(1) * info.layout.page_bytes;
                let from = piece.from as usize;
                let part = whole.get(from..whole.len().min(from + part)).unwrap_or(&[]).to_vec();
                let len = part.len();
                (Arc::new(part) as Arc<dyn Bytes>, 0, len, PacketPlaces::Packed(at))
            }
        };
        let before = index.checked_sub(1).and_then(|before| stream.packets.at(before).end_cycles);
        let content = slice(bytes.bytes(), base as u64, len as u64);
        let found = scan(content, info, classes, &self.oddities, &places, before);
        let repeated = found.repeated.iter().filter_map(|(&id, &at)| {
            let warning = self.oddities.repeated(id, classes.layout(id)?, &stream.name, index)?;
            Some(places.place(warning, at))
        });
        let warnings = repeated.collect();
        let mut packet = packet.clone();
        let (bytes, base_bytes) = match found.copies {
            None => (bytes, base),
            Some(copies) => (Arc::new(copies) as Arc<dyn Bytes>, 0),
        };
        packet.content_bits = (bytes.bytes().len() - base_bytes).min(len.max(found.len)) as u64 * 8;
        let data = PacketData::found(plans, file, packet, (bytes, base_bytes), found.spine);
        let data = PacketData { cpu: Some(info.cpu), ..data };
        Ok(OpenedPacket {
            data,
            faults: found.faults.finish(MORE_FAULTS),
            warnings,
            gaps: found.gaps,
            can_be_copied: false,
        })
    }

    fn parts(&self) -> Result<Vec<TracePart>> {
        Ok(self.parts.to_parts())
    }

    fn call_events(&self) -> &'static [tracemill_format::calls::CallEvents] {
        super::CALLS
    }
}

/// Where the bytes of a packet are in the file.
pub enum PacketPlaces {
    /// As they are, from this offset on.
    InFile(u64),
    /// Packed, in what lies at this offset.
    Packed(u64),
}

impl PacketPlaces {
    fn place(&self, error: Error, at: usize) -> Error {
        match self {
            PacketPlaces::InFile(offset) => error.at_offset(offset + at as u64),
            PacketPlaces::Packed(offset) => {
                let message = format!("{}, at byte {at} of the unpacked data", error.message());
                Error::new(error.kind(), message).at_offset(*offset)
            }
        }
    }
}

/// Contents of a packet.
struct Scan {
    spine: Spine,
    /// The bytes of the packet and the copies of records after them, when there are any.
    copies: Option<Vec<u8>>,
    len: usize,
    faults: Faults,
    gaps: Vec<Gap>,
    /// Numbers of events whose formats name fields twice, and where the first ones are.
    repeated: BTreeMap<u16, usize>,
}

/// Calls `each` for every record of some pages: where its bytes are in `content`, its time, and them. `before` is the
/// time of what came before. Gives the gaps; what is wrong with pages is reported.
#[inline]
pub fn each_record(
    content: &[u8],
    info: &StreamInfo,
    places: &PacketPlaces,
    before: Option<u64>,
    faults: &mut Faults,
    mut each: impl FnMut(usize, u64, &[u8], &mut Faults),
) -> Vec<Gap> {
    let layout = &info.layout;
    let (mut gaps, mut last) = (Vec::new(), before);
    for (number, bytes) in content.chunks(layout.page_bytes).enumerate() {
        let base = number * layout.page_bytes;
        let page = match layout.page(bytes) {
            Ok(page) => page,
            Err(error) => {
                faults.report(|| places.place(error, base));
                continue;
            }
        };
        if let Some(fault) = page_fault(&page, layout, bytes, base, places) {
            faults.report(|| fault);
        }
        if let Some(missed) = page.missed {
            let count = match missed {
                Missed::Some => None,
                Missed::Count(count) => Some(count),
            };
            let end = info.cycles(page.time);
            let begin_cycles = Some(last.map_or(end, |last| last.min(end)));
            gaps.push(Gap { kind: GapKind::DiscardedEvents, count, begin_cycles, end_cycles: Some(end) });
        }
        for record in layout.records(&page) {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    let at = base + error.place().offset.unwrap_or(0) as usize;
                    faults.report(|| places.place(Error::new(error.kind(), error.message()), at));
                    break;
                }
            };
            let (at, cycles) = (base + record.offset, info.cycles(record.time));
            last = Some(cycles);
            // Records lie inside their page.
            let Some(bytes) = content.get(at..at + record.len) else { continue };
            each(at, cycles, bytes, faults);
        }
    }
    gaps
}

/// Finds the events of some pages. `before` is the time of what came before them.
fn scan(
    content: &[u8],
    info: &StreamInfo,
    classes: &Classes,
    oddities: &FormatOddities,
    places: &PacketPlaces,
    before: Option<u64>,
) -> Scan {
    let machine = info.layout.machine;
    let (mut spine, mut copies, mut faults) = (Spine::default(), None, Faults::default());
    let mut unknown: BTreeMap<u16, (u64, usize)> = BTreeMap::new();
    let (mut repeated, mut ambiguous) = (BTreeMap::new(), BTreeSet::new());
    let gaps = each_record(content, info, places, before, &mut faults, |at, cycles, bytes, faults| {
        let Some(id) = bytes.get(..2).map(|id| machine.number(id) as u16) else { return };
        let start_bits = (at * 8) as u32;
        let Some(class) = classes.layout(id) else {
            unknown.entry(id).or_insert((0, at)).0 += 1;
            let copies: &mut Vec<u8> = copies.get_or_insert_with(|| content.to_vec());
            let body_bits = (copies.len() * 8) as u32;
            copy_unknown(id, bytes, copies);
            spine.push(classes.unknown, cycles, start_bits, body_bits);
            return;
        };
        if bytes.len() < class.min_bytes {
            faults.report(|| too_short(bytes.len(), class.min_bytes, &class.name, places, at));
            return;
        }
        if !class.repeated.is_empty() {
            repeated.entry(id).or_insert(at);
        }
        if !oddities.ambiguous.is_empty() && oddities.ambiguous.contains_key(&id) {
            ambiguous.insert(id);
        }
        let mut body_bits = start_bits;
        if !class.dynamic.is_empty() {
            let copies = copies.get_or_insert_with(|| content.to_vec());
            body_bits = (copies.len() * 8) as u32;
            class.copy(bytes, machine, 0, copies, |field| {
                faults.report(|| misplaced(&field.name, &class.name, places, at));
            });
        }
        spine.push(class.class, cycles, start_bits, body_bits);
    });
    for (id, (count, at)) in unknown {
        faults.report(|| match oddities.unusable.get(&id) {
            Some(error) => error.clone(),
            None => no_format(id, count, places, at).with_help("they are shown as bytes"),
        });
    }
    for error in ambiguous.iter().filter_map(|id| oddities.ambiguous.get(id)) {
        faults.report(|| error.clone());
    }
    let len = copies.as_ref().map_or(content.len(), Vec::len);
    Scan { spine, copies, len, faults, gaps, repeated }
}

/// A record that ends before the fields of its format.
#[cold]
pub fn too_short(len: usize, min: usize, name: &str, places: &PacketPlaces, at: usize) -> Error {
    let message = format!("a record of {len} bytes, and the format of `{name}` needs {min}");
    places.place(Error::malformed(message), at).with_help("the event is skipped")
}

/// A field that says that it is where the record is not.
#[cold]
pub fn misplaced(field: &str, event: &str, places: &PacketPlaces, at: usize) -> Error {
    let message = format!("`{field}` is said to be where the record is not");
    let error = places.place(Error::malformed(message), at).in_event(event);
    error.with_help("only what is there of it is shown")
}

/// Events of a number without a description.
#[cold]
pub fn no_format(id: u16, count: u64, places: &PacketPlaces, at: usize) -> Error {
    places.place(Error::malformed(format!("no format describes the event {id}, of which there are {count}")), at)
}

/// The fault of the header of a page, or of its end.
pub fn page_fault(
    page: &Page<'_>,
    layout: &PageLayout,
    bytes: &[u8],
    base: usize,
    places: &PacketPlaces,
) -> Option<Error> {
    if let Some(used) = page.bad_commit {
        let room = layout.page_bytes - layout.data_offset;
        let error = Error::malformed(format!("a page says that it holds {used} bytes, and has room for {room}"));
        return Some(places.place(error, base).with_help("what looks like records in it is read"));
    }
    (bytes.len() < layout.page_bytes).then(|| {
        let (here, all) = (bytes.len(), layout.page_bytes);
        let message = format!("the data ends inside a page, {here} of its {all} bytes are there");
        places.place(Error::truncated(message), base)
    })
}
