//! One stream of the output: events into packets, packets into a file.

use std::sync::Arc;

use tracemill_codec::bits::put_fixed;
use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::encode::{Encode, Encoder, LooseBits, Shortfalls};
use tracemill_codec::plan::{DecoderState, Fault};
use tracemill_model::error::Result;
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{ByteOrder, Scope, StreamClassId};

use super::frame::{put_header, set_numbers};
use super::mapping::{EventMapping, Mapping, context_members};
use crate::lttng_index;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::WriteOptions;
use tracemill_format::{OutFile, OutPath};

/// A packet ends at this size even where that of the input goes on.
const MAX_PACKET: usize = 16 << 20;

/// Writes one stream.
pub(super) struct StreamWriter {
    id: u64,
    order: ByteOrder,
    /// Size that the user wants; without it packets end with those of the input.
    packet_bytes: Option<usize>,
    /// See [`WriteOptions::is_part`].
    is_part: bool,
    file: OutFile,
    packet: Buffer,
    open: Option<OpenPacket>,
    /// Packet of the input that the events come from.
    input: Option<Arc<PacketData>>,
    /// The last of those.
    last: Option<Arc<PacketData>>,
    counters: Counters,
    /// Latest time so far.
    latest: u64,
    class: StreamClassId,
    state: DecoderState,
    name: Vec<u8>,
    losses: Losses,
    /// Entries of its index, when one is wanted.
    index: Option<Vec<u8>>,
    offset: u64,
}

/// The bytes of the packet that is being built.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Bits at the end that no field has: they are no content of the packet when it ends there.
    loose: LooseBits,
    /// First byte of the packet context: sizes and times, which are known when the packet ends.
    context_at: usize,
    /// Values that no field of the output could hold, of all packets.
    shortfalls: Shortfalls,
}

impl Buffer {
    /// Writes fields after what is there.
    #[inline]
    fn encoder<'a>(&'a mut self, nodes: &'a [Encode]) -> Encoder<'a> {
        Encoder::new(&mut self.bytes, nodes, &mut self.shortfalls, &mut self.loose)
    }
}

/// Numbers that count the packets of a stream, and events that it lost.
#[derive(Default)]
struct Counters {
    discarded: u64,
    sequence: u64,
    /// The stretch of missing events or packets that no packet shows yet: its begin and its end, when they are known.
    pending: Option<[Option<u64>; 2]>,
}

/// The packet that is being built.
struct OpenPacket {
    class: StreamClassId,
    begin: u64,
    end: u64,
    /// Encoded members of the input's packet that it keeps.
    kept: EncodedMembers,
    cpu: Option<u32>,
}

/// Encoded members of a packet context.
#[derive(Default, PartialEq, Eq)]
struct EncodedMembers {
    bytes: Vec<u8>,
    /// Bits of the last byte that none of them has.
    loose: u8,
}

impl StreamWriter {
    pub(super) fn new(path: OutPath, class: StreamClassId, id: u64, order: ByteOrder, options: &WriteOptions) -> Self {
        StreamWriter {
            id,
            order,
            packet_bytes: options.packet_bytes,
            is_part: options.is_part,
            file: OutFile::new(path),
            packet: Buffer::default(),
            open: None,
            input: None,
            last: None,
            counters: Counters::default(),
            latest: 0,
            class,
            state: DecoderState::default(),
            name: Vec::new(),
            losses: Losses::default(),
            index: None,
            offset: 0,
        }
    }

    /// Keeps an index of the packets too.
    #[must_use]
    pub(super) fn with_index(mut self) -> Self {
        self.index = Some(Vec::new());
        self
    }

    /// Writes the index beside the stream: `index/NAME.idx`. A stream without packets has none.
    pub(super) fn write_index(&self) -> Result<()> {
        let stream = self.file.path();
        let (Some(entries), Some(name)) = (&self.index, stream.path().file_name()) else { return Ok(()) };
        if entries.is_empty() {
            return Ok(());
        }
        let mut bytes = lttng_index::header();
        bytes.extend_from_slice(entries);
        let folder = stream.with_file_name("index");
        folder.make_folder()?;
        let mut name = name.to_os_string();
        name.push(".idx");
        folder.join(name).write("write the index", bytes)
    }

    /// Writes an event.
    #[inline]
    pub(super) fn event(&mut self, mapping: &mut Mapping, event: EventRef<'_>) -> Result<()> {
        let packet = &event.chunk.packet;
        let is_same = self.input.as_ref().is_some_and(|input| PacketData::is_same(input, packet))
            || self.continues_packet(packet);
        if !is_same {
            self.begin_input(mapping, &event.chunk.packet)?;
        } else if self.packet.bytes.len() >= self.packet_bytes.unwrap_or(MAX_PACKET) {
            self.end_packet(mapping, false)?;
        }
        let class = event.class();
        if mapping.events[class.0 as usize].nodes.is_none() {
            mapping.prepare(&event.chunk.packet.plans, class);
        }
        let held = mapping.streams[event.chunk.packet.packet.class.0 as usize].held_time(event.cycles());
        let cycles = held.unwrap_or_else(|| {
            self.losses.add(Lost::HeldTimes, 1);
            u64::MAX
        });
        if self.open.is_none() {
            self.begin_packet(mapping, &event.chunk.packet.clone(), cycles)?;
        }
        let mut own_id = None;
        if mapping.events[class.0 as usize].is_open {
            self.name.clear();
            let id = event.own_id(&mut self.name).unwrap_or_default();
            own_id = Some(mapping.own_id(class, id, &self.name));
        }
        let is_cut = event.is_cut();
        if is_cut && mapping.events[class.0 as usize].fillers.is_none() {
            mapping.prepare_cut(&event.chunk.packet.plans, class);
        }
        let stream = &mapping.streams[event.chunk.packet.packet.class.0 as usize];
        let of = &mapping.events[class.0 as usize];
        let (start, before) = (self.packet.bytes.len(), self.packet.loose);
        put_fixed(&mut self.packet.bytes, own_id.unwrap_or(of.id), stream.id_bits, self.order);
        if stream.has_clock {
            let mut cycles = cycles;
            if of.is_untimed {
                self.losses.add(Lost::UntimedEvents, u64::from(mapping.dialect == super::Dialect::Ctf18));
                cycles = self.latest.max(self.open.as_ref().map_or(0, |open| open.begin));
            }
            put_fixed(&mut self.packet.bytes, cycles, 64, self.order);
            if let Some(open) = &mut self.open {
                open.begin = open.begin.min(cycles);
                open.end = open.end.max(cycles);
                self.latest = cycles;
            }
        }
        if stream.keeps_event_header {
            let mut encoder = self.packet.encoder(stream.header_nodes.as_deref().unwrap_or(&[]));
            // The pass that found the event has read this header.
            let _ = event.visit_header(&mut self.state, &mut encoder);
        }
        if of.is_copied
            && let Some(bytes) = event.whole_bytes()
        {
            self.packet.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        let nodes = of.nodes.as_deref().unwrap_or(&[]);
        let result = match of.selectors {
            0 if !is_cut => event.visit_flat(&mut self.state, &mut self.packet.encoder(nodes)),
            _ => self.by_scopes(of, is_cut, event),
        };
        if result.is_err() {
            // It was whole when it was found: the file has changed.
            self.packet.bytes.truncate(start);
            self.packet.loose = before;
            self.losses.add(Lost::ChangedEvents, 1);
        }
        Ok(())
    }

    /// Writes an event with lengths and choices that no field of its own holds, or one that ends before its last field:
    /// of that with what stands for the others.
    fn by_scopes(&mut self, of: &EventMapping, is_cut: bool, event: EventRef<'_>) -> std::result::Result<(), Fault> {
        let fillers = of.fillers.as_deref().filter(|_| is_cut).unwrap_or(&[]);
        let nodes = of.nodes.as_deref().unwrap_or(&[]);
        let mut fields = event.fields(&mut self.state);
        fields.visit_contexts(&mut self.state, &mut Encoder { fillers, ..self.packet.encoder(nodes) })?;
        let selectors_at = self.packet.bytes.len();
        self.packet.bytes.resize(selectors_at + of.selectors, 0);
        let encoder = self.packet.encoder(nodes);
        fields.visit(Scope::Payload, &mut self.state, &mut Encoder { selectors_at, fillers, ..encoder })
    }

    /// Something is missing here.
    pub(super) fn gap(&mut self, mapping: &Mapping, gap: &Gap, losses: &mut Losses) -> Result<()> {
        let Some(count) = gap.count else {
            losses.add(Lost::UnknownGaps, 1);
            return Ok(());
        };
        self.end_packet(mapping, true)?;
        self.input = None;
        match gap.kind {
            GapKind::DiscardedEvents => self.counters.discarded = self.counters.discarded.wrapping_add(count),
            GapKind::LostPackets if self.counters.sequence == 0 => losses.add(Lost::FirstLostPackets, count),
            GapKind::LostPackets => self.counters.sequence = self.counters.sequence.wrapping_add(count),
        }
        let stream = &mapping.streams[self.class.0 as usize];
        self.counters.pending = Some([gap.begin_cycles, gap.end_cycles].map(|of| of.map(|cycles| stream.time(cycles))));
        Ok(())
    }

    /// Is it the packet that the events come from, in a further piece of what redaction made of it?
    #[cold]
    fn continues_packet(&mut self, packet: &Arc<PacketData>) -> bool {
        let number = |of: &PacketData| (of.packet.file, of.packet.index);
        let is_same = self.input.as_ref().is_some_and(|input| number(input) == number(packet));
        if is_same {
            self.input = Some(packet.clone());
        }
        is_same
    }

    /// Events of another packet of the input follow.
    #[cold]
    fn begin_input(&mut self, mapping: &Mapping, input: &Arc<PacketData>) -> Result<()> {
        let is_joined = self.packet_bytes.is_some_and(|wanted| self.packet.bytes.len() < wanted) && {
            let kept = self.kept_of(mapping, input);
            let same =
                |open: &OpenPacket| open.class == input.packet.class && open.kept == kept && open.cpu == input.cpu;
            self.open.as_ref().is_some_and(same)
        };
        if !is_joined {
            self.end_packet(mapping, true)?;
        }
        self.input = Some(input.clone());
        self.last = Some(input.clone());
        Ok(())
    }

    /// The members of the packet context that are kept, encoded.
    fn kept_of(&mut self, mapping: &Mapping, input: &PacketData) -> EncodedMembers {
        let stream = &mapping.streams[input.packet.class.0 as usize];
        let (mut kept, mut loose) = (Vec::new(), LooseBits::default());
        if stream.keeps_context.contains(&true) {
            let plan = input.plans.packet_context_rows(input.packet.class);
            let nodes = mapping.kept_nodes(plan, input.packet.class, Scope::PacketContext, &stream.keeps_context);
            let mut encoder = Encoder::new(&mut kept, &nodes, &mut self.packet.shortfalls, &mut loose);
            // It was read when the packet was opened.
            let _ = input.visit_context(&mut encoder);
        }
        EncodedMembers { loose: loose.before(kept.len()), bytes: kept }
    }

    fn begin_packet(&mut self, mapping: &Mapping, input: &PacketData, first: u64) -> Result<()> {
        let kept = self.kept_of(mapping, input);
        let stream = &mapping.streams[input.packet.class.0 as usize];
        let input_begin = input.packet.begin_cycles.map(|cycles| stream.time(cycles));
        let begin = match input_begin {
            // A later part of an input packet begins with its own first event.
            Some(_) if self.is_part && self.counters.sequence == 0 => first,
            Some(begin) if self.latest <= begin || self.counters.sequence == 0 => begin.min(first),
            _ => first,
        };
        let class = input.packet.class;
        self.header(mapping, class, Some(input), &kept);
        self.open = Some(OpenPacket { class, begin, end: begin, kept, cpu: input.cpu });
        Ok(())
    }

    /// Writes a packet of the input that holds no events, unless the user wants packets of a size.
    pub(super) fn empty_packet(&mut self, mapping: &Mapping, input: &PacketData) -> Result<()> {
        if self.packet_bytes.is_some() {
            return Ok(());
        }
        self.end_packet(mapping, true)?;
        self.input = None;
        let stream = &mapping.streams[input.packet.class.0 as usize];
        let begin = input.packet.begin_cycles.map_or(self.latest, |cycles| stream.time(cycles));
        let end = input.packet.end_cycles.map_or(begin, |cycles| stream.time(cycles));
        self.begin_packet(mapping, input, begin)?;
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.end = open.end.max(end);
        self.latest = self.latest.max(open.end);
        self.flush(mapping, &open)
    }

    /// Begins the bytes of a packet; without an input it is one of no events, and keeps nothing.
    fn header(&mut self, mapping: &Mapping, class: StreamClassId, input: Option<&PacketData>, kept: &EncodedMembers) {
        let (order, stream) = (self.order, &mapping.streams[class.0 as usize]);
        let out = &mut self.packet.bytes;
        out.clear();
        put_header(out, order, mapping.to.uuid.as_ref(), stream.id, mapping.has_stream_ids.then_some(self.id));
        if let Some(input) = input.filter(|_| mapping.keeps_header.contains(&true)) {
            let plan = input.plans.packet_header_rows();
            let nodes = mapping.kept_nodes(plan, class, Scope::PacketHeader, &mapping.keeps_header);
            let mut encoder = self.packet.encoder(&nodes);
            // It was read when the packet was opened.
            let _ = plan.run(input.input(), &mut 0, &mut DecoderState::default(), &mut encoder);
        }
        let out = &mut self.packet.bytes;
        self.packet.context_at = out.len();
        for (name, len_bits, _) in context_members(stream.has_clock, stream.has_cpu) {
            let value = match name {
                "events_discarded" => self.counters.discarded,
                "packet_seq_num" => self.counters.sequence,
                "cpu_id" => u64::from(input.and_then(|input| input.cpu).unwrap_or(u32::MAX)),
                // Known when the packet ends.
                _ => 0,
            };
            put_fixed(out, value, len_bits as u8, order);
        }
        out.extend_from_slice(&kept.bytes);
        self.packet.loose = LooseBits::new(out.len(), kept.loose);
    }

    /// Ends the packet that is being built. `input_ends` when that of the input ends here too.
    fn end_packet(&mut self, mapping: &Mapping, input_ends: bool) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let input_end = self.input.as_ref().and_then(|input| input.packet.end_cycles).filter(|_| input_ends);
        let input_end = input_end.map(|cycles| mapping.streams[open.class.0 as usize].time(cycles));
        open.end = open.end.max(input_end.unwrap_or(0));
        self.latest = self.latest.max(open.end);
        self.flush(mapping, &open)
    }

    fn flush(&mut self, mapping: &Mapping, open: &OpenPacket) -> Result<()> {
        let Buffer { bytes: packet, loose, context_at, .. } = &mut self.packet;
        let bits = packet.len() as u64 * 8;
        // Bits that no field has are not content.
        let content = bits - u64::from(loose.before(packet.len()));
        let stream = &mapping.streams[open.class.0 as usize];
        let values = [bits, content, open.begin, open.end];
        set_numbers(packet, *context_at, &values[..if stream.has_clock { 4 } else { 2 }], self.order);
        if let Some(index) = self.index.as_mut().filter(|_| stream.has_clock) {
            let of_time = [open.begin, open.end, self.counters.discarded];
            let ids = [stream.id, self.id, self.counters.sequence];
            lttng_index::entry(index, self.offset, [bits, content], of_time, ids);
        }
        self.offset += bits / 8;
        self.counters.sequence = self.counters.sequence.wrapping_add(1);
        self.counters.pending = None;
        self.class = open.class;
        self.file.write(&self.packet.bytes)?;
        self.packet.bytes.clear();
        Ok(())
    }

    /// No more events come.
    pub(super) fn end(&mut self, mapping: &Mapping) -> Result<()> {
        self.end_packet(mapping, !self.is_part)?;
        self.input = None;
        if let Some([gap_begin, gap_end]) = self.counters.pending.take() {
            let class = self.class;
            // A packet without events shows what is missing after the last one, whose kept members it has.
            let stream = &mapping.streams[class.0 as usize];
            let last = self.last.take().filter(|last| last.packet.class == class);
            let keeps = stream.keeps_context.contains(&true) || mapping.keeps_header.contains(&true);
            if keeps && last.is_none() {
                self.losses.add(Lost::LastGaps, 1);
                return self.file.end();
            }
            let begin = if self.counters.sequence == 0 { gap_begin.unwrap_or(0) } else { self.latest };
            // The packet that told of the stretch ends after its own events, which the next part may hold: a part claims
            // no time that it holds no event of.
            let end = gap_end.filter(|_| !self.is_part).unwrap_or(begin).max(begin);
            let kept = last.as_ref().map_or_else(EncodedMembers::default, |last| self.kept_of(mapping, last));
            self.header(mapping, class, last.as_deref(), &kept);
            let open = OpenPacket { class, begin, end, kept: EncodedMembers::default(), cpu: None };
            self.flush(mapping, &open)?;
        }
        self.packet.bytes = Vec::new();
        self.file.end()
    }

    /// Is everything there that was written?
    pub(super) fn check(&self) -> Result<()> {
        self.file.check()
    }

    /// Losses of this stream.
    pub(super) fn losses(&self) -> Losses {
        let mut losses = self.losses.clone();
        losses.add(Lost::TruncatedIntegers, self.packet.shortfalls.cut_integers);
        losses.add(Lost::TruncatedTexts, self.packet.shortfalls.cut_texts);
        losses.add(Lost::AbsentTexts, self.packet.shortfalls.empty_texts);
        losses.add(Lost::MissingFields, self.packet.shortfalls.filled);
        losses
    }
}
