//! Traces whose packets keep their bytes: CTF as itself, CTF 1.8 as CTF 2, and that as CTF 1.8 again.
//!
//! Both versions lay fields out alike. So only the metadata are rewritten, and packets are copied: whole where all of
//! their events are wanted, otherwise header and context as they are and the bits of each wanted event. Where events of a
//! packet are left out, its sizes and times are those of what is left; sequence numbers count the packets that are
//! there, and counters of discarded events go on.

use std::sync::Arc;

use tracemill_codec::bits::{copy_bits, write_bits};
use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::layout;
use tracemill_codec::plan::DecoderState;
use tracemill_model::error::Result;
use tracemill_model::packet::{Gap, GapKind, Packet};
use tracemill_model::schema::{ByteOrder, FieldClassId, FieldKind, Length, Role, Roles, Schema, StreamClassId};

use super::shift::{can_shift, shift};
use crate::open;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::{OutFile, OutPath};

/// A field of a packet's header or context that has a meaning.
#[derive(Clone, Copy, Debug)]
struct MeaningfulField {
    roles: Roles,
    at_bits: u64,
    len_bits: u32,
    order: ByteOrder,
}

/// Layout of a stream class, as far as it matters when its packets are put together.
#[derive(Clone, Debug, Default)]
struct StreamLayout {
    places: Vec<MeaningfulField>,
    /// First byte of the UUID.
    uuid: Option<usize>,
    /// Largest alignment inside an event.
    event_align: u64,
    rules: Rules,
}

/// How events stand in a packet.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Alignment of event headers.
    header_align: u64,
    /// Largest alignment inside an event, or that of its header: bits of events move by multiples of it.
    step_bits: u64,
    /// Fewest bits of a time stamp in an event header; 64 when there is none.
    time_bits: u32,
    /// Order of the fields that are not whole bytes.
    order: ByteOrder,
    /// Do such fields have both orders?
    is_mixed: bool,
    /// Do events begin and end with bytes, whatever they hold?
    is_bytes: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            header_align: 1,
            step_bits: 1,
            time_bits: 64,
            order: ByteOrder::default(),
            is_mixed: false,
            is_bytes: true,
        }
    }
}

/// Can the packets of a stream class be put together of some of their events?
pub(super) fn can_be_cut(schema: &Schema, class: StreamClassId) -> bool {
    let layout = StreamLayout::new(schema, class);
    let has = |role| layout.places.iter().any(|place| place.roles.has(role));
    let is_timed = schema.stream(class).default_clock.is_some();
    let knows_begin = layout.rules.time_bits >= 64 || has(Role::PacketBegin);
    let sizes = [Role::PacketTotalSize, Role::PacketContentSize];
    let is_sized = sizes.into_iter().all(has) || is_one_packet(schema, class, &layout);
    let is_patched = is_sized && (!is_timed || knows_begin);
    let counts = [Role::PacketSequence, Role::DiscardedEvents, Role::PacketBegin, Role::PacketEnd];
    let all = counts.into_iter().all(|role| has(role) || !has_role(schema, class, role));
    let is_plain = layout.event_align <= layout.rules.header_align && !layout.rules.is_mixed;
    is_patched && all && (is_plain || can_shift(schema, roots_of(schema, class)))
}

/// Is a packet of the class its file, and stays so with some of its events? It has no sizes, then no second one can follow;
/// what it holds ends with the last byte.
fn is_one_packet(schema: &Schema, class: StreamClassId, layout: &StreamLayout) -> bool {
    let roles = [Role::PacketTotalSize, Role::PacketContentSize, Role::PacketSequence];
    let is_plain = layout.rules.is_bytes && layout.rules.time_bits >= 64;
    is_plain && roles.into_iter().all(|role| !has_role(schema, class, role))
}

/// Does each packet of a stream class say where the next one begins? Those of others end with their file, and none can
/// follow them in the same one.
pub(super) fn can_be_joined(schema: &Schema, class: StreamClassId) -> bool {
    let sizes = [Role::PacketTotalSize, Role::PacketContentSize];
    let layout = StreamLayout::new(schema, class);
    layout.places.iter().any(|place| sizes.into_iter().any(|role| place.roles.has(role)))
}

/// The scopes of all events of a stream class.
fn roots_of(schema: &Schema, class: StreamClassId) -> impl Iterator<Item = FieldClassId> {
    let stream = schema.stream(class);
    let events = stream.events.values().map(|event| schema.event(*event));
    let roots = events.flat_map(|event| [event.specific_context, event.payload]);
    roots.chain([stream.event_header, stream.common_context]).flatten()
}

/// Has a field of the packet's header or context the role, wherever it stands?
fn has_role(schema: &Schema, class: StreamClassId, role: Role) -> bool {
    let roots = [schema.packet_header, schema.stream(class).packet_context];
    roots.into_iter().flatten().any(|root| open::has_role(schema, root, role))
}

impl StreamLayout {
    fn new(schema: &Schema, class: StreamClassId) -> StreamLayout {
        let stream = schema.stream(class);
        let mut layout = StreamLayout { event_align: 1, ..StreamLayout::default() };
        let mut at = Some(0);
        for root in [schema.packet_header, stream.packet_context].into_iter().flatten() {
            at = at.and_then(|at| layout.locate(schema, root, at));
        }
        if let Some(header) = stream.event_header {
            layout.rules.header_align = schema.field_class(header).align_bits.into();
        }
        let mut stack: Vec<FieldClassId> = roots_of(schema, class).collect();
        stack.sort_unstable();
        stack.dedup();
        let mut known = None;
        while let Some(id) = stack.pop() {
            let class = schema.field_class(id);
            layout.event_align = layout.event_align.max(class.align_bits.into());
            if let FieldKind::Integer(integer) = &class.kind
                && class.roles.has(Role::Timestamp)
            {
                // A variable length may be as short as one group of bits.
                let bits = if integer.is_variable_length() { 7 } else { integer.len_bits };
                layout.rules.time_bits = layout.rules.time_bits.min(bits);
            }
            layout.rules.is_bytes &=
                layout::bit_field(&class.kind).is_none_or(|(len_bits, _)| len_bits.is_multiple_of(8));
            if let Some((len_bits, order)) = layout::bit_field(&class.kind)
                && !(u64::from(len_bits) | u64::from(class.align_bits)).is_multiple_of(8)
            {
                layout.rules.is_mixed |= known.is_some_and(|known| known != order);
                layout.rules.order = *known.get_or_insert(order);
            }
            stack.extend(layout::children(class));
        }
        layout.rules.is_bytes &= layout.rules.header_align.is_multiple_of(8);
        layout.rules.step_bits = layout.event_align.max(layout.rules.header_align);
        layout
    }

    /// Walks over a field whose place is known; `None` where that ends.
    fn locate(&mut self, schema: &Schema, id: FieldClassId, at: u64) -> Option<u64> {
        let class = schema.field_class(id);
        let at = at.next_multiple_of(class.align_bits.into());
        if class.roles.has(Role::TraceUuid) && at.is_multiple_of(8) {
            self.uuid = usize::try_from(at / 8).ok();
        }
        if let Some((len_bits, order)) = layout::bit_field(&class.kind) {
            if matches!(&class.kind, FieldKind::Integer(integer) if integer.reversed_bits) {
                return None;
            }
            if !class.roles.is_empty() && len_bits <= 64 {
                self.places.push(MeaningfulField { roles: class.roles, at_bits: at, len_bits, order });
            }
            return Some(at + u64::from(len_bits));
        }
        match &class.kind {
            FieldKind::Struct(class) => {
                class.members.iter().try_fold(at, |at, member| self.locate(schema, member.class, at))
            }
            FieldKind::Array(class) => match class.length {
                Length::Static(len) if len <= 4096 => {
                    (0..len).try_fold(at, |at, _| self.locate(schema, class.element, at))
                }
                _ => None,
            },
            FieldKind::Blob(class) => match class.length {
                Length::Static(len) => at.checked_add(len.checked_mul(8)?),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A packet without its events.
struct Last {
    packet: Packet,
    /// Its header and context, and how many bits they have.
    head: Vec<u8>,
    events_bits: u64,
}

impl Last {
    fn from_packet(data: &PacketData) -> Last {
        let bytes = data.input().bytes;
        let head = bytes.get(..data.events_bits.div_ceil(8) as usize).unwrap_or(bytes).to_vec();
        Last { packet: data.packet.clone(), head, events_bits: data.events_bits }
    }
}

/// Says the packet that it belongs to another trace?
fn is_stranger(schema: &Schema, data: &PacketData) -> bool {
    schema.uuid.is_some() && data.state.roles.uuid.is_some_and(|uuid| schema.uuid != Some(uuid))
}

/// Writes one stream.
pub(super) struct SameStream {
    schema: Arc<Schema>,
    layouts: Vec<Option<Arc<StreamLayout>>>,
    /// Rules for the events of the packet that is put together.
    rules: Rules,
    out: Files,
    /// The packet that is put together, and its bits.
    packet: Vec<u8>,
    bits: u64,
    /// The packet of the input that it is made of, and the times of its events.
    input: Option<Arc<PacketData>>,
    begin: u64,
    end: u64,
    counters: Counters,
    losses: Losses,
    /// The packet that was written last.
    last: Option<Last>,
    state: DecoderState,
}

/// Numbers that count the packets of a stream, and events that it lost.
#[derive(Default)]
struct Counters {
    /// Packets that are missing since the packet that was written last.
    lost: u64,
    /// Events that are missing so far.
    discarded: u64,
    /// Sequence numbers of the packet that was written last: as stored, and as written.
    sequence: Option<(u64, u64)>,
    discarded_shift: Option<u64>,
    /// Are events missing that no packet shows yet?
    is_pending: bool,
    /// Is the packet a further part of one of the input?
    is_split: bool,
}

impl Counters {
    /// Sequence number and counter of a packet: as stored, and as they are now.
    fn next(&mut self, packet: &Packet, losses: &mut Losses) -> Vec<(Role, u64, u64)> {
        let mut counters = Vec::new();
        if packet.sequence.is_none() {
            losses.add(Lost::UnnumberedLostPackets, self.lost);
        }
        if let Some(stored) = packet.sequence {
            let now = match self.sequence {
                None => stored,
                Some((_, before)) => before.wrapping_add(1).wrapping_add(self.lost),
            };
            // A counter that wraps or starts again stays as it is.
            let is_next = self.is_split || self.sequence.is_none_or(|(before, _)| stored > before);
            let now = if is_next { now } else { stored };
            self.sequence = Some((stored, now));
            counters.push((Role::PacketSequence, stored, now));
        }
        self.lost = 0;
        self.is_pending = false;
        if let Some(stored) = packet.discarded_snapshot {
            let shift = *self.discarded_shift.get_or_insert(self.discarded.wrapping_sub(stored));
            counters.push((Role::DiscardedEvents, stored, stored.wrapping_add(shift)));
        }
        counters
    }
}

/// The file of a stream, or its files where each packet has its own.
struct Files {
    file: OutFile,
    /// The files before it.
    before: Vec<OutFile>,
    has_file_each: bool,
}

impl Files {
    /// Appends a packet to the file, or begins the next one with it.
    fn write_packet(&mut self, packet: &[u8]) -> Result<()> {
        if self.has_file_each && self.file.is_made() {
            self.file.end()?;
            let first = self.before.first().unwrap_or(&self.file).path();
            // Files of a stream follow each other by their names.
            let mut name = first.path().file_name().unwrap_or_default().to_os_string();
            name.push(format!(".{:06}", self.before.len() + 1));
            let next = OutFile::new(first.with_file_name(name));
            self.before.push(std::mem::replace(&mut self.file, next));
        }
        self.file.write(packet)
    }
}

impl SameStream {
    /// `has_file_each`: packets that do not say where they end stand in files of their own.
    pub(super) fn new(path: OutPath, schema: &Arc<Schema>, has_file_each: bool) -> Self {
        SameStream {
            schema: schema.clone(),
            layouts: vec![None; schema.streams().len()],
            rules: Rules::default(),
            out: Files { file: OutFile::new(path), before: Vec::new(), has_file_each },
            packet: Vec::new(),
            bits: 0,
            input: None,
            begin: 0,
            end: 0,
            counters: Counters::default(),
            losses: Losses::default(),
            last: None,
            state: DecoderState::default(),
        }
    }

    fn layout(&mut self, class: StreamClassId) -> Arc<StreamLayout> {
        let (at, schema) = (class.0 as usize, &self.schema);
        match self.layouts.get_mut(at) {
            Some(layout) => layout.get_or_insert_with(|| Arc::new(StreamLayout::new(schema, class))).clone(),
            None => Arc::default(),
        }
    }

    /// Copies a packet as it is.
    pub(super) fn packet(&mut self, data: &PacketData) -> Result<()> {
        self.end_packet()?;
        self.counters.is_split = false;
        let from = data.base_bytes;
        let bytes = data.bytes.bytes();
        // One that does not end with a byte ends with the file.
        let to = from.saturating_add(data.packet.total_bits.div_ceil(8) as usize).min(bytes.len());
        let whole = bytes.get(from..to).unwrap_or(&[]);
        let counters = self.counters.next(&data.packet, &mut self.losses);
        self.last = Some(Last::from_packet(data));
        // Padding may be missing at the end of a file.
        let len_bits = whole.len() as u64 * 8;
        let is_sized = data.state.roles.total_bits.is_none_or(|total| total == len_bits);
        let is_stranger = is_stranger(&self.schema, data);
        if counters.iter().all(|(_, stored, now)| stored == now) && is_sized && !is_stranger {
            self.out.write_packet(whole)
        } else {
            self.packet.clear();
            self.packet.extend_from_slice(whole);
            let layout = self.layout(data.packet.class);
            for (role, _, now) in counters {
                self.set(&layout, role, now);
            }
            if !is_sized {
                self.set(&layout, Role::PacketTotalSize, len_bits);
            }
            if is_stranger {
                self.set_uuid(&layout);
            }
            self.out.write_packet(&self.packet)
        }
    }

    /// Copies an event.
    #[inline]
    pub(super) fn event(&mut self, event: EventRef<'_>) -> Result<()> {
        let is_same = self.input.as_ref().is_some_and(|input| PacketData::is_same(input, &event.chunk.packet));
        let step = event.cycles().wrapping_sub(self.end);
        let time_bits = self.rules.time_bits;
        let is_far = time_bits < 64 && step >> time_bits.min(63) != 0;
        if !is_same || is_far {
            self.begin_events(event, is_same)?;
        }
        let rules = self.rules;
        let from = event.chunk.start_bits(event.at).next_multiple_of(rules.header_align);
        let at = self.bits.next_multiple_of(rules.header_align);
        let Ok(to) = event.end_bits(&mut self.state) else {
            // It was whole when it was found: the file has changed.
            self.losses.add(Lost::ChangedEvents, 1);
            return Ok(());
        };
        let count = to.saturating_sub(from);
        let is_one_run = !rules.is_mixed || (from | at | count) & 7 == 0;
        if is_one_run && at.wrapping_sub(from) & (rules.step_bits - 1) == 0 {
            let bytes = event.chunk.packet.input().bytes;
            copy_bits(bytes, from, &mut self.packet, at, count, rules.order);
            self.bits = at + count;
        } else if !self.shift(event, (from, to), at) {
            return Ok(());
        }
        self.end = self.end.max(event.cycles());
        self.begin = self.begin.min(event.cycles());
        Ok(())
    }

    /// Puts an event at a place of another alignment.
    #[cold]
    fn shift(&mut self, event: EventRef<'_>, range: (u64, u64), at: u64) -> bool {
        let before = self.packet.len();
        match shift(&self.schema, event, range, &mut self.packet, at, &mut self.state) {
            Some(end) => self.bits = end,
            None => {
                self.packet.truncate(before);
                self.losses.add(Lost::ChangedEvents, 1);
                return false;
            }
        }
        true
    }

    /// Begins a packet with an event: the first one of a packet of the input, or one that is too far after the last.
    #[cold]
    fn begin_events(&mut self, event: EventRef<'_>, is_same: bool) -> Result<()> {
        let class = event.chunk.packet.packet.class;
        let layout = self.layout(class);
        self.end_packet()?;
        self.counters.is_split = is_same;
        self.rules = layout.rules;
        self.begin_packet(&layout, &event.chunk.packet, event.cycles());
        Ok(())
    }

    fn begin_packet(&mut self, layout: &StreamLayout, input: &Arc<PacketData>, first: u64) {
        self.packet.clear();
        let bytes = input.input().bytes;
        // Whole bytes: the first event overwrites what is its own of the last one.
        copy_bits(bytes, 0, &mut self.packet, 0, input.events_bits.next_multiple_of(8), layout.rules.order);
        self.last = Some(Last::from_packet(input));
        if is_stranger(&self.schema, input) {
            self.set_uuid(layout);
        }
        self.bits = input.events_bits;
        (self.begin, self.end) = (first, first);
        self.input = Some(input.clone());
    }

    fn set(&mut self, layout: &StreamLayout, role: Role, value: u64) {
        for place in layout.places.iter().filter(|place| place.roles.has(role)) {
            write_bits(&mut self.packet, place.at_bits, place.len_bits, value, place.order);
        }
    }

    /// Makes the packet one of the trace.
    fn set_uuid(&mut self, layout: &StreamLayout) {
        if let (Some(at), Some(uuid)) = (layout.uuid, self.schema.uuid)
            && let Some(place) = self.packet.get_mut(at..at + uuid.len())
        {
            place.copy_from_slice(&uuid);
        }
    }

    fn end_packet(&mut self) -> Result<()> {
        let Some(input) = self.input.take() else { return Ok(()) };
        let layout = self.layout(input.packet.class);
        let counters = self.counters.next(&input.packet, &mut self.losses);
        for (role, stored, now) in counters {
            if stored != now {
                self.set(&layout, role, now);
            }
        }
        // An empty structure at the end of the last event may have moved the end without a bit of its own.
        let len = self.bits.div_ceil(8) as usize;
        self.packet.resize(self.packet.len().max(len), 0);
        self.set(&layout, Role::PacketTotalSize, self.bits.next_multiple_of(8));
        self.set(&layout, Role::PacketContentSize, self.bits);
        self.set(&layout, Role::PacketBegin, self.begin);
        self.set(&layout, Role::PacketEnd, self.end);
        self.out.write_packet(&self.packet)
    }

    /// Something is missing here.
    pub(super) fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.end_packet()?;
        let count = gap.count.unwrap_or(0);
        match gap.kind {
            GapKind::DiscardedEvents => {
                self.counters.discarded = self.counters.discarded.wrapping_add(count);
                self.counters.is_pending = true;
            }
            GapKind::LostPackets => self.counters.lost = self.counters.lost.wrapping_add(count),
        }
        Ok(())
    }

    /// No more events come.
    pub(super) fn end(&mut self) -> Result<()> {
        self.end_packet()?;
        self.report_lost_at_end()?;
        self.packet = Vec::new();
        self.out.file.end()
    }

    /// Writes a packet without events where packets have numbers: it shows that some are missing after the last one.
    fn report_lost_at_end(&mut self) -> Result<()> {
        let Some(Last { packet, head, events_bits }) = self.last.take() else { return Ok(()) };
        if self.counters.lost == 0 || packet.sequence.is_none() || !can_be_cut(&self.schema, packet.class) {
            return Ok(());
        }
        let layout = self.layout(packet.class);
        self.packet = head;
        // It comes after the packet whose numbers it has.
        self.counters.is_split = true;
        let is_pending = self.counters.is_pending;
        for (role, _, now) in self.counters.next(&packet, &mut self.losses) {
            self.set(&layout, role, now);
        }
        self.counters.is_pending = is_pending;
        let end = packet.end_cycles.unwrap_or(0).max(self.end);
        self.set(&layout, Role::PacketTotalSize, self.packet.len() as u64 * 8);
        self.set(&layout, Role::PacketContentSize, events_bits);
        self.set(&layout, Role::PacketBegin, end);
        self.set(&layout, Role::PacketEnd, end);
        self.out.write_packet(&self.packet)
    }

    /// Is everything there that was written?
    pub(super) fn check(&self) -> Result<()> {
        self.out.before.iter().chain([&self.out.file]).try_for_each(OutFile::check)
    }

    /// Losses of this stream.
    pub(super) fn losses(&self) -> Losses {
        let mut losses = self.losses.clone();
        losses.add(Lost::LastGaps, (self.counters.is_pending || self.counters.lost > 0).into());
        losses
    }
}
