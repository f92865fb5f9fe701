//! A trace as itself with less in it: packets that stay whole are copied, of others the events that are left are copied
//! bit by bit.
//!
//! The metadata stay as they are, so events are never encoded. Of a packet's header and context only sizes, times and
//! counters change, and only where something is missing. What was put together is read again before it is written: a time
//! stamp of few bits may need an event that is gone. Then a new packet begins, whose beginning says the time.
//!
//! Some traces cannot be written so (fields whose alignment an event cannot keep at another place, sizes at places that
//! depend on data): the caller then encodes everything anew.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use tracemill_codec::bits::mask;
use tracemill_codec::chunk::PacketData;
use tracemill_codec::layout;
use tracemill_codec::plan::Input;
use tracemill_codec::trace_plans::{ScanEnd, SpineSink, TracePlans};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{ByteOrder, EventClassId, FieldClassId, FieldKind, Length, Role, Schema, StreamClassId};

use super::copy::is_plain_folder;
use super::{Dialect, make_folder, names_of};
use crate::api::OpenTrace;
use crate::ctf::lttng_index;
use crate::ctf::packets::read_header;
use crate::target::{Losses, PacketWriter, Part, Source, WriteOptions};

const METADATA: &str = "metadata";

/// Splices traces of CTF 1.8.
pub(super) fn splice_ctf18(
    path: &Path,
    trace: &OpenTrace,
    source: &Source,
    options: &WriteOptions,
) -> Result<Option<Box<dyn PacketWriter>>> {
    splice(path, trace, source, options, Dialect::Ctf18)
}

/// Splices traces of CTF 2.
pub(super) fn splice_ctf2(
    path: &Path,
    trace: &OpenTrace,
    source: &Source,
    options: &WriteOptions,
) -> Result<Option<Box<dyn PacketWriter>>> {
    splice(path, trace, source, options, Dialect::Ctf2)
}

fn splice(
    path: &Path,
    trace: &OpenTrace,
    source: &Source,
    options: &WriteOptions,
    dialect: Dialect,
) -> Result<Option<Box<dyn PacketWriter>>> {
    let metadata = trace.path.join(METADATA);
    let is_same = trace.schema.format == dialect.format() && metadata.is_file() && is_plain_folder(trace);
    if !is_same {
        return Ok(None);
    }
    let Some(layouts) = (0..trace.schema.streams().len())
        .map(|at| Layout::of(&trace.schema, StreamClassId(at as u32)))
        .collect::<Option<Vec<Layout>>>()
    else {
        return Ok(None);
    };
    let names = names_of(&source.streams.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>());
    let streams = names.into_iter().map(|name| Out { path: path.join(&name), name, ..Out::default() }).collect();
    let (folder, has_index) = (path.to_path_buf(), options.index);
    Ok(Some(Box::new(Splicer { folder, metadata, layouts, streams, has_index, losses: Losses::default() })))
}

struct Splicer {
    folder: PathBuf,
    metadata: PathBuf,
    /// Of each stream class.
    layouts: Vec<Layout>,
    streams: Vec<Out>,
    has_index: bool,
    losses: Losses,
}

/// A stream that is written.
#[derive(Default)]
struct Out {
    path: PathBuf,
    name: String,
    file: Option<File>,
    /// Packets so far, and their bytes.
    packets: u64,
    offset: u64,
    discarded: u64,
    sequence: u64,
    /// Packets lost since the last one.
    lost: u64,
    /// Something is missing that no packet tells yet.
    is_pending: bool,
    /// The clock as a reader has it behind the last packet.
    clock: u64,
    latest: u64,
    /// Header and context of the last packet, its class, and its numeric stream id.
    last: Option<(Vec<u8>, u64, StreamClassId, u64)>,
    index: Vec<u8>,
    buffer: Vec<u8>,
}

/// Where what changes stands in the header and context of a stream class.
#[derive(Clone, Debug, Default)]
struct Layout {
    places: Vec<Place>,
    /// The largest alignment of any field of an event.
    align_bits: u64,
    header_align_bits: u64,
    has_clock: bool,
    class_id: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    role: Role,
    at_bits: u64,
    len_bits: u32,
    order: ByteOrder,
}

/// Roles of fields that change when a packet loses events.
const CHANGING: [Role; 6] = [
    Role::PacketTotalSize,
    Role::PacketContentSize,
    Role::PacketBegin,
    Role::PacketEnd,
    Role::DiscardedEvents,
    Role::PacketSequence,
];

impl Layout {
    /// `None` when a field that must change has no fixed place.
    fn of(schema: &Schema, id: StreamClassId) -> Option<Layout> {
        let class = schema.stream(id);
        let mut walk = Walk { schema, at_bits: Some(0), places: Vec::new() };
        for root in [schema.packet_header, class.packet_context].into_iter().flatten() {
            walk.field(root)?;
        }
        let events = class.events.values().map(|event| schema.event(*event));
        let roots = events.flat_map(|event| [event.specific_context, event.payload]);
        let roots = roots.chain([class.event_header, class.common_context]).flatten();
        let align_bits = roots.map(|root| largest_align(schema, root)).max().unwrap_or(1);
        let header_align_bits = class.event_header.map_or(1, |root| u64::from(schema.field_class(root).align_bits));
        let has_clock = class.default_clock.is_some();
        Some(Layout {
            places: walk.places,
            align_bits,
            header_align_bits: header_align_bits.max(1),
            has_clock,
            class_id: class.id,
        })
    }

    fn has(&self, role: Role) -> bool {
        self.places.iter().any(|place| place.role == role)
    }

    /// Writes a number; false when it does not fit.
    fn set(&self, packet: &mut [u8], role: Role, value: u64) -> bool {
        self.places.iter().filter(|place| place.role == role).all(|place| {
            put_bits(packet, place, value);
            value <= mask(place.len_bits) || matches!(role, Role::DiscardedEvents | Role::PacketSequence)
        })
    }
}

fn largest_align(schema: &Schema, root: FieldClassId) -> u64 {
    let class = schema.field_class(root);
    let inner = layout::children(class).into_iter().map(|child| largest_align(schema, child)).max();
    u64::from(class.align_bits).max(inner.unwrap_or(1))
}

/// Follows fields while their places are known.
struct Walk<'a> {
    schema: &'a Schema,
    at_bits: Option<u64>,
    places: Vec<Place>,
}

impl Walk<'_> {
    fn field(&mut self, id: FieldClassId) -> Option<()> {
        let class = self.schema.field_class(id);
        let align = u64::from(class.align_bits.max(1));
        self.at_bits = self.at_bits.and_then(|at| at.checked_next_multiple_of(align));
        match &class.kind {
            FieldKind::Struct(structure) => {
                return structure.members.iter().try_for_each(|member| self.field(member.class));
            }
            FieldKind::Array(array) => {
                if holds_change(self.schema, id) {
                    return None;
                }
                let element = self.schema.field_class(array.element);
                let each = layout::leaf_bits(element).map(|len| len.next_multiple_of(element.align_bits.max(1).into()));
                let count = match array.length {
                    Length::Static(count) => Some(count),
                    _ => None,
                };
                let len = each.zip(count).and_then(|(each, count)| each.checked_mul(count));
                self.at_bits = self.at_bits.zip(len).and_then(|(at, len)| at.checked_add(len));
                return Some(());
            }
            _ => {}
        }
        if let Some(&role) = CHANGING.iter().find(|role| class.roles.has(**role)) {
            let (FieldKind::Integer(integer), Some(at_bits)) = (&class.kind, self.at_bits) else { return None };
            if integer.is_variable_length() || integer.reversed_bits || integer.len_bits > 64 {
                return None;
            }
            self.places.push(Place { role, at_bits, len_bits: integer.len_bits, order: integer.byte_order });
        } else if holds_change(self.schema, id) {
            return None;
        }
        let len_bits = layout::leaf_bits(class);
        self.at_bits = self.at_bits.zip(len_bits).and_then(|(at, len)| at.checked_add(len));
        Some(())
    }
}

/// Is there a field that may have to change?
fn holds_change(schema: &Schema, id: FieldClassId) -> bool {
    let class = schema.field_class(id);
    let own = CHANGING.iter().any(|role| class.roles.has(*role));
    own || layout::children(class).into_iter().any(|child| holds_change(schema, child))
}

fn put_bits(bytes: &mut [u8], place: &Place, value: u64) {
    for at in 0..u64::from(place.len_bits) {
        let bit = place.at_bits + at;
        let (shift, from) = match place.order {
            ByteOrder::Little => (bit % 8, at),
            ByteOrder::Big => (7 - bit % 8, u64::from(place.len_bits) - 1 - at),
        };
        if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
            *byte = *byte & !(1 << shift) | ((value >> from & 1) as u8) << shift;
        }
    }
}

/// Copies bits to the end of `out`, which has `*len` bits.
fn copy_bits(out: &mut Vec<u8>, len: &mut u64, from: &[u8], range: std::ops::Range<u64>, order: ByteOrder) {
    if range.start.is_multiple_of(8) && len.is_multiple_of(8) {
        out.truncate((*len / 8) as usize);
        let bytes = (range.start / 8) as usize..range.end.div_ceil(8) as usize;
        out.extend_from_slice(from.get(bytes).unwrap_or(&[]));
        *len += range.end - range.start;
        return;
    }
    let shift = |bit: u64| if order == ByteOrder::Little { bit % 8 } else { 7 - bit % 8 };
    out.resize((*len + range.end - range.start).div_ceil(8) as usize, 0);
    for bit in range {
        let value = from.get((bit / 8) as usize).map_or(0, |byte| byte >> shift(bit) & 1);
        let byte = &mut out[(*len / 8) as usize];
        *byte = *byte & !(1 << shift(*len)) | value << shift(*len);
        *len += 1;
    }
}

/// What a scan of a packet that was put together finds.
struct Again<'a> {
    want: &'a Part,
    from: usize,
    found: usize,
    /// Ends of the events that are as they were, and the last one's.
    end_bits: u64,
    clock: u64,
}

impl SpineSink for Again<'_> {
    fn event(&mut self, class: EventClassId, cycles: u64, _start_bits: u64, _body_bits: u64) -> bool {
        let at = self.from + self.found;
        let is_same = self.want.cycles.get(at) == Some(&cycles) && self.want.classes.get(at) == Some(&class.0);
        self.found += usize::from(is_same);
        is_same
    }

    fn whole_event(&mut self, class: EventClassId, cycles: u64, start: u64, body: u64, end: u64) -> bool {
        let is_same = self.event(class, cycles, start, body);
        if is_same {
            (self.end_bits, self.clock) = (end, cycles);
        }
        is_same
    }
}

impl Splicer {
    /// Puts packets together from the events that are left of one. False when that cannot be.
    fn part(&mut self, stream: usize, data: &PacketData, part: &Part) -> Result<bool> {
        if part.cycles.is_empty() && self.streams[stream].last.is_none() {
            let head = data.input().bytes.get(..data.events_bits.div_ceil(8) as usize).unwrap_or(&[]).to_vec();
            let out = &mut self.streams[stream];
            out.latest = data.packet.begin_cycles.unwrap_or(0);
            out.sequence = data.packet.sequence.unwrap_or(0);
            out.last = Some((head, data.events_bits, data.packet.class, data.packet.stream_id.unwrap_or(0)));
        }
        let mut from = 0;
        while from < part.cycles.len() {
            match self.some_of(stream, data, part, from)? {
                0 => return Ok(false),
                taken => from += taken,
            }
        }
        Ok(true)
    }

    /// Puts one packet together from the events of a part from the one at `from` on, as many as can follow each other.
    fn some_of(&mut self, stream: usize, data: &PacketData, part: &Part, from: usize) -> Result<usize> {
        let layout = &self.layouts[data.packet.class.0 as usize];
        let out = &mut self.streams[stream];
        let has_size = layout.has(Role::PacketContentSize) || layout.has(Role::PacketTotalSize);
        if out.packets > 0 && !has_size || layout.has_clock && !layout.has(Role::PacketBegin) {
            return Ok(0);
        }
        let input = data.input();
        let order = data.plans.schema().byte_order;
        let mut packet = std::mem::take(&mut out.buffer);
        let mut len = 0;
        packet.clear();
        copy_bits(&mut packet, &mut len, input.bytes, 0..data.events_bits, order);
        // Sizes of a packet that holds everything, so that it can be read; the right ones follow.
        let mut count = from;
        for run in part.runs_from(from) {
            let at = len.next_multiple_of(layout.header_align_bits);
            if at % layout.align_bits != run.bits.start % layout.align_bits {
                break;
            }
            packet.resize(at.div_ceil(8) as usize, 0);
            len = at;
            copy_bits(&mut packet, &mut len, input.bytes, run.bits.clone(), order);
            count = run.last + 1;
        }
        if count == from {
            out.buffer = packet;
            return Ok(0);
        }
        let first = part.cycles[from];
        let begin = if part.has_first && from == 0 {
            data.packet.begin_cycles.map_or(first, |begin| begin.min(first))
        } else {
            part.cycles[from..count].iter().copied().min().unwrap_or(first).min(first)
        };
        let total = len.next_multiple_of(8);
        let is_set = layout.set(&mut packet, Role::PacketTotalSize, total)
            && layout.set(&mut packet, Role::PacketContentSize, len)
            && layout.set(&mut packet, Role::PacketBegin, begin);
        if !is_set {
            out.buffer = packet;
            return Ok(0);
        }
        let Some((found, end_bits, clock)) = read_again(&data.plans, &packet, out.clock, part, from) else {
            out.buffer = packet;
            return Ok(0);
        };
        if found == 0 {
            out.buffer = packet;
            return Ok(0);
        }
        let last = from + found;
        let largest = part.cycles[from..last].iter().copied().max().unwrap_or(first);
        let end = match data.packet.end_cycles {
            Some(end) if part.has_last && last == part.cycles.len() => end.max(largest),
            _ => largest,
        };
        // Without a field for the content the whole packet is content.
        let content = end_bits;
        if !layout.has(Role::PacketContentSize) && !content.is_multiple_of(8) {
            out.buffer = packet;
            return Ok(0);
        }
        packet.truncate(content.div_ceil(8) as usize);
        let total = content.next_multiple_of(8);
        let is_set = layout.set(&mut packet, Role::PacketTotalSize, total)
            && layout.set(&mut packet, Role::PacketContentSize, content)
            && layout.set(&mut packet, Role::PacketEnd, end);
        out.buffer = packet;
        if !is_set {
            return Ok(0);
        }
        out.clock = clock.max(if layout.has(Role::PacketEnd) { end } else { 0 });
        self.write(stream, data, [content, begin, end], None)?;
        Ok(found)
    }

    /// Writes a packet without events, made of the header of the last one. False when there is none to make it of, or it
    /// cannot be made.
    fn empty(&mut self, stream: usize) -> Result<bool> {
        let out = &mut self.streams[stream];
        let Some((mut head, events_bits, class, id)) = out.last.clone() else { return Ok(false) };
        let layout = &self.layouts[class.0 as usize];
        out.sequence = out.sequence.wrapping_add(std::mem::take(&mut out.lost));
        let is_set = layout.has(Role::PacketContentSize)
            && layout.set(&mut head, Role::PacketTotalSize, events_bits.next_multiple_of(8))
            && layout.set(&mut head, Role::PacketContentSize, events_bits)
            && layout.set(&mut head, Role::PacketBegin, out.latest)
            && layout.set(&mut head, Role::PacketEnd, out.latest)
            && layout.set(&mut head, Role::DiscardedEvents, out.discarded)
            && layout.set(&mut head, Role::PacketSequence, out.sequence);
        if !is_set {
            return Ok(false);
        }
        if self.has_index && layout.has_clock {
            let sizes = [head.len() as u64 * 8, events_bits];
            let times = [out.latest, out.latest, out.discarded];
            // The index names classes by their ids.
            lttng_index::entry(&mut out.index, out.offset, sizes, times, [layout.class_id, id, out.sequence]);
        }
        let path = &out.path;
        let failed = |error: std::io::Error| Error::io("write the stream", path, &error);
        if out.file.is_none() {
            make_folder(&self.folder)?;
            out.file = Some(File::create(path).map_err(failed)?);
        }
        if let Some(file) = &mut out.file {
            file.write_all(&head).map_err(failed)?;
        }
        out.offset += head.len() as u64;
        out.packets += 1;
        out.sequence = out.sequence.wrapping_add(1);
        out.is_pending = false;
        Ok(true)
    }

    /// Writes what is in the buffer of a stream, or a packet of the input as it is.
    fn write(
        &mut self,
        stream: usize,
        data: &PacketData,
        [content, begin, end]: [u64; 3],
        whole: Option<&[u8]>,
    ) -> Result<()> {
        let layout = &self.layouts[data.packet.class.0 as usize];
        let out = &mut self.streams[stream];
        if out.packets == 0 {
            out.sequence = data.packet.sequence.unwrap_or(0);
        }
        out.sequence = out.sequence.wrapping_add(std::mem::take(&mut out.lost));
        let bytes = whole.unwrap_or(&out.buffer);
        // What changes is in the header; the rest of a whole packet is written from where it is.
        let head_len = (data.events_bits.div_ceil(8) as usize).min(bytes.len());
        let mut head = bytes[..head_len].to_vec();
        layout.set(&mut head, Role::DiscardedEvents, out.discarded);
        layout.set(&mut head, Role::PacketSequence, out.sequence);
        let failed = |error: std::io::Error| Error::io("write the stream", &out.path, &error);
        if out.file.is_none() {
            make_folder(&self.folder)?;
            out.file = Some(File::create(&out.path).map_err(failed)?);
        }
        if let Some(file) = &mut out.file {
            if whole.is_none() {
                out.buffer[..head_len].copy_from_slice(&head);
                file.write_all(&out.buffer).map_err(failed)?;
            } else {
                file.write_all(&head).map_err(failed)?;
                file.write_all(&bytes[head_len..]).map_err(failed)?;
            }
        }
        let len = whole.map_or(out.buffer.len(), <[u8]>::len) as u64;
        let id = data.packet.stream_id.unwrap_or(0);
        if self.has_index && layout.has_clock {
            let class = layout.class_id;
            let times = [begin, end, out.discarded];
            lttng_index::entry(&mut out.index, out.offset, [len * 8, content], times, [class, id, out.sequence]);
        }
        out.offset += len;
        out.packets += 1;
        out.sequence = out.sequence.wrapping_add(1);
        out.latest = out.latest.max(end);
        out.is_pending = false;
        out.last = Some((head, data.events_bits, data.packet.class, id));
        Ok(())
    }
}

/// Reads a packet that was put together: how many events are as they were, where the last of them ends, and the clock
/// there. `None` when its header cannot be read.
fn read_again(plans: &TracePlans, packet: &[u8], clock: u64, want: &Part, from: usize) -> Option<(usize, u64, u64)> {
    let mut header = read_header(plans, packet, 0, clock).ok()?;
    let mut again = Again { want, from, found: 0, end_bits: header.events_bits, clock };
    let mut pos = header.events_bits;
    let input = Input::new(packet, header.content_bits);
    let end = plans.scanner(header.class).scan(input, &mut pos, &mut header.state, &mut again);
    // An event that differs, or cannot be read here, begins the next packet.
    let _: ScanEnd = end;
    Some((again.found, again.end_bits, again.clock))
}

impl PacketWriter for Splicer {
    fn whole(&mut self, stream: usize, data: &PacketData) -> Result<bool> {
        let out = &mut self.streams[stream];
        let layout = &self.layouts[data.packet.class.0 as usize];
        if layout.has_clock && data.packet.begin_cycles.is_none() && out.packets != data.packet.index {
            return Ok(false);
        }
        let len = (data.packet.total_bits / 8) as usize;
        let Some(bytes) = data.input().bytes.get(..len) else { return Ok(false) };
        let end = data.packet.end_cycles;
        out.clock = out.clock.max(end.unwrap_or(0));
        let times = [data.packet.begin_cycles.unwrap_or(0), end.unwrap_or(0)];
        self.write(stream, data, [data.packet.content_bits, times[0], times[1]], Some(bytes))?;
        Ok(true)
    }

    fn part(&mut self, stream: usize, data: &PacketData, part: &Part) -> Result<bool> {
        Splicer::part(self, stream, data, part)
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        let Some(count) = gap.count else {
            self.losses.add("gaps of unknown size", 1);
            return Ok(());
        };
        let out = &mut self.streams[stream];
        match gap.kind {
            GapKind::DiscardedEvents => out.discarded = out.discarded.wrapping_add(count),
            GapKind::LostPackets if out.packets == 0 => {
                // A packet must stand before those that are lost.
                if !self.empty(stream)? {
                    self.losses.add("packets lost before the first one", count);
                    return Ok(());
                }
                self.streams[stream].lost = count;
            }
            GapKind::LostPackets => out.lost = out.lost.wrapping_add(count),
        }
        self.streams[stream].is_pending = true;
        Ok(())
    }

    fn end_stream(&mut self, stream: usize) -> Result<bool> {
        // A packet without events tells what is missing behind the last one.
        if self.streams[stream].is_pending && !self.empty(stream)? {
            self.losses.add("gaps behind the last event of a stream", 1);
        }
        let out = &mut self.streams[stream];
        out.file = None;
        out.buffer = Vec::new();
        Ok(true)
    }

    fn finish(self: Box<Self>) -> Result<Losses> {
        make_folder(&self.folder)?;
        for out in self.streams.iter().filter(|out| !out.index.is_empty()) {
            let folder = self.folder.join("index");
            make_folder(&folder)?;
            let path = folder.join(format!("{}.idx", out.name));
            let bytes = [lttng_index::header(), out.index.clone()].concat();
            std::fs::write(&path, bytes).map_err(|error| Error::io("write the index", &path, &error))?;
        }
        super::copy::copy_file(&self.metadata, &self.folder.join(METADATA))?;
        Ok(self.losses)
    }
}

#[cfg(test)]
mod tests {
    use tracemill_codec::bits::read_bits;

    use super::*;

    #[test]
    fn numbers_are_put_where_they_are_read() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (at_bits, len_bits) in [(0, 64), (8, 32), (3, 27), (13, 5), (64, 64), (1, 64)] {
                let mut bytes = vec![0xa5; 20];
                let value = 0x0123_4567_89ab_cdef & mask(len_bits);
                put_bits(&mut bytes, &Place { role: Role::PacketEnd, at_bits, len_bits, order }, value);
                assert_eq!(read_bits(&bytes, at_bits, len_bits, order, false), value, "{order:?} {at_bits} {len_bits}");
                let before = read_bits(&bytes, 0, at_bits.min(32) as u32, order, false);
                assert_eq!(before, read_bits(&[0xa5; 20], 0, at_bits.min(32) as u32, order, false));
            }
        }
    }

    #[test]
    fn bits_are_copied_at_any_place() {
        let from: Vec<u8> = (0..40u8).map(|at| at.wrapping_mul(37)).collect();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (start, len_bits, at) in [(0u64, 64u32, 0u64), (3, 27, 5), (16, 33, 8), (7, 64, 1), (8, 13, 3)] {
                let (mut out, mut len) = (vec![0; at.div_ceil(8) as usize], at);
                copy_bits(&mut out, &mut len, &from, start..start + u64::from(len_bits), order);
                assert_eq!(len, at + u64::from(len_bits));
                let want = read_bits(&from, start, len_bits, order, false);
                out.resize(out.len() + 16, 0);
                assert_eq!(read_bits(&out, at, len_bits, order, false), want, "{order:?} {start} {len_bits} {at}");
            }
        }
    }
}
