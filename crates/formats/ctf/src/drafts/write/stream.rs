//! One stream of the output: events into packets, packets into a file.

use std::sync::Arc;

use tracemill_codec::bits::{mask, put_uint};
use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::value::Value;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{Scope, StreamClassId};

use super::super::metadata::{Dialect, MAGIC};
use super::super::packet_fields::ContextMeaning;
use super::super::transform::Schemes;
use super::super::types::{DraftField, DraftTypeKind, HeaderForm, SectionClass};
use super::bits::{Bits, TypedWriter, last_member};
use super::context::PacketContextValues;
use super::{TraceKind, TraceOut};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::writer::stored_header;
use tracemill_format::{OutFile, OutPath};

/// A packet ends at this size even where that of the input goes on.
const MAX_PACKET: usize = 16 << 20;

/// Writes one stream.
pub(super) struct StreamWriter {
    group: usize,
    /// Size that the user wants; without it packets end with those of the input.
    packet_bytes: Option<usize>,
    file: OutFile,
    /// The stream class of its packets.
    class: StreamClassId,
    open: Option<OpenDraftPacket>,
    /// Packet of the input that the events come from.
    input: Option<Arc<PacketData>>,
    /// Full clock value of the event before, as a reader of the output has it (`SPEC.md`, D25); `None` after a packet
    /// that was copied.
    state: Option<u64>,
    /// Latest time so far.
    latest: u64,
    /// Counters as the packet before has them.
    count: Option<u64>,
    /// Bits that count packets, as packets of its own format say.
    count_bits: Option<u64>,
    discarded: u64,
    /// Packets that are missing before the next one, and whether something is that no packet shows.
    lost: u64,
    has_pending: bool,
    /// Are all its packets lost?
    is_gone: bool,
    pub(super) losses: Losses,
}

/// The packet that is being built.
struct OpenDraftPacket {
    content: Bits,
    /// First byte after header and context.
    content_start: usize,
    context: PacketContextValues,
    schemes: Schemes,
    padding: usize,
    begin: u64,
    end: u64,
}

impl StreamWriter {
    pub(super) fn new(path: OutPath, class: StreamClassId, group: usize, packet_bytes: Option<usize>) -> Self {
        StreamWriter {
            group,
            packet_bytes,
            file: OutFile::new(path),
            class,
            open: None,
            input: None,
            state: Some(0),
            latest: 0,
            count: None,
            count_bits: None,
            discarded: 0,
            lost: 0,
            has_pending: false,
            is_gone: false,
            losses: Losses::default(),
        }
    }

    /// Writes an event.
    pub(super) fn event(&mut self, trace: &mut TraceOut, event: EventRef<'_>) -> Result<()> {
        let packet = &event.chunk.packet;
        // A file of a draft is of one stream class, its packets cannot say another.
        if self.class != packet.packet.class {
            self.losses.add(Lost::OtherClasses, 1);
            return Ok(());
        }
        let is_first = self.turn_to(trace, packet)?;
        let cycles = self.time(trace, &event);
        let (group, id, payload) = trace.event(&event)?;
        if self.open.is_none() {
            self.group = group;
            let context = event.values(Scope::PacketContext).unwrap_or(None);
            self.begin_packet(trace, Some((packet, context)), cycles, is_first)?;
        }
        let (header, common, values) = match self.values(trace, &event) {
            Ok(values) => values,
            // It was whole when it was found: the file has changed.
            Err(_) => {
                self.losses.add(Lost::ChangedEvents, 1);
                return Ok(());
            }
        };
        let Some(open) = &mut self.open else { return Ok(()) };
        let of = &trace.metadata.groups[group].0;
        let missing = match (trace.dialect, &payload.kind) {
            (Dialect::V16, DraftTypeKind::Struct(fields)) => missing(fields, &values),
            _ => Vec::new(),
        };
        let (native, is_converted) = (trace.order, trace.is_converted);
        let mut fields = TypedWriter { out: &mut open.content, native, is_converted, losses: &mut self.losses };
        let head = EventHeader { id, cycles, before: self.state, stored: header.as_ref(), missing: &missing };
        head.write(trace, of, fields.out);
        let size_at = put_context(trace, of, common.as_ref(), &mut fields);
        fields.out.align(payload.align);
        let begin = fields.out.pos();
        if let DraftTypeKind::Struct(members) = &payload.kind {
            fields.structure(members, &values, &missing);
        }
        if let Some(at) = size_at {
            let bytes = (open.content.pos() - begin).div_ceil(8);
            open.content.replace(at, bytes, 32, native);
        }
        self.state = Some(cycles);
        self.latest = self.latest.max(cycles);
        open.begin = open.begin.min(cycles);
        open.end = open.end.max(cycles);
        Ok(())
    }

    /// Ends the packet that is built where the one that an event comes from asks for it. Is the event the first one of that?
    fn turn_to(&mut self, trace: &TraceOut, packet: &Arc<PacketData>) -> Result<bool> {
        let is_same = self.input.as_ref().is_some_and(|input| PacketData::is_same(input, packet));
        let size = self.open.as_ref().map_or(0, |open| open.content.bytes.len());
        let is_full = size >= self.packet_bytes.unwrap_or(MAX_PACKET);
        let mut is_first = false;
        if !is_same {
            // A packet of the wanted size holds those of the input that have the same context.
            let is_joined = self.packet_bytes.is_some()
                && !is_full
                && self.input.as_ref().is_some_and(|input| input.cpu == packet.cpu)
                && !has_extras(trace, packet);
            if !is_joined {
                self.end_packet(trace, true)?;
                is_first = true;
            }
            self.input = Some(packet.clone());
        }
        if is_full {
            self.end_packet(trace, false)?;
        }
        Ok(is_first)
    }

    /// The time of an event: cycles of its own clock, or nanoseconds.
    fn time(&mut self, trace: &TraceOut, event: &EventRef<'_>) -> u64 {
        let class = event.chunk.packet.packet.class;
        if trace.clocks.is_empty() {
            return event.cycles();
        }
        let is_untimed = trace.schema.event(event.class()).is_untimed;
        match trace.clocks.get(class.0 as usize).and_then(Option::as_ref).filter(|_| !is_untimed) {
            None => self.latest,
            Some(clock) => {
                let ns = clock.ns(event.cycles());
                self.losses.add(Lost::ZeroTimes, u64::from(ns < 0));
                let beyond = u64::from(ns > u64::MAX.into());
                self.losses.add(Lost::HeldTimes, beyond);
                ns.clamp(0, u64::MAX.into()) as u64
            }
        }
    }

    /// Header, context and payload of an event as the types of the output have them.
    fn values(
        &self,
        trace: &TraceOut,
        event: &EventRef<'_>,
    ) -> std::result::Result<(Option<Value>, Option<Value>, Value), tracemill_codec::plan::Fault> {
        let common = event.values(Scope::CommonContext)?;
        let payload = event.values(Scope::Payload)?;
        Ok(match &trace.kind {
            TraceKind::Own(_) => (stored_header(*event)?, common, payload.unwrap_or(Value::Null)),
            TraceKind::Foreign { foreign, .. } => {
                let class = event.class();
                let common = common.map(|value| foreign.root_value(Scope::CommonContext, class, value));
                let context = event.values(Scope::SpecificContext)?;
                (None, common, foreign.payload_value(class, context, payload))
            }
        })
    }

    /// Begins a packet: header and context, whose values are known in part.
    fn begin_packet(
        &mut self,
        trace: &TraceOut,
        input: Option<(&Arc<PacketData>, Option<Value>)>,
        first: u64,
        is_first: bool,
    ) -> Result<()> {
        let (group, _) = trace.group(self.group)?;
        let is_own = matches!(trace.kind, TraceKind::Own(_));
        let stored = input.as_ref().and_then(|(_, stored)| stored.as_ref()).filter(|_| is_own);
        let mut context = PacketContextValues::new(trace.dialect, group.packet_context.as_deref(), stored);
        let input_begin = match (&input, trace.clocks.is_empty()) {
            (_, true) => context.get(ContextMeaning::Begin),
            (Some((packet, _)), false) => self.input_time(trace, packet, packet.packet.begin_cycles),
            _ => None,
        };
        let begin = match input_begin.filter(|_| is_first) {
            Some(begin) if is_own || begin >= self.latest => begin.min(first),
            _ => first,
        };
        let had = if is_own { context.schemes() } else { Schemes::default() };
        let (schemes, is_open) = trace.seal.schemes(had);
        self.losses.add(Lost::EncryptedPackets, u64::from(is_open));
        context.check(schemes)?;
        let padding = match (context.get(ContextMeaning::PacketSize), context.get(ContextMeaning::ContentSize)) {
            (Some(packet), Some(content)) if is_first => packet.saturating_sub(content).min(1 << 20) as usize,
            _ => 0,
        };
        self.count_packet(&mut context, is_own);
        context.set(ContextMeaning::Begin, begin);
        context.set(ContextMeaning::Compression, schemes.compression);
        context.set(ContextMeaning::Encryption, schemes.encryption);
        context.set(ContextMeaning::ChecksumScheme, schemes.checksum);
        if !is_own || input.is_none() {
            context.set(ContextMeaning::CountBits, self.count_bits.filter(|_| is_own).unwrap_or(32));
        }
        if !is_own {
            let cpu = input.as_ref().and_then(|(packet, _)| packet.cpu);
            context.set(ContextMeaning::Cpu, cpu.unwrap_or(u32::MAX).into());
            if let Some((packet, Some(values))) = &input {
                extras(trace, packet, values, &mut context);
            }
        }
        if context.has(ContextMeaning::Begin) {
            self.state = Some(begin);
        }
        let mut open = OpenDraftPacket {
            content: Bits::default(),
            content_start: 0,
            context,
            schemes,
            padding,
            begin,
            end: first,
        };
        open.content = self.header(trace, &open)?;
        open.content_start = open.content.bytes.len();
        self.open = Some(open);
        Ok(())
    }

    /// Sets the counters of a packet: those of the input, unless packets have come or gone.
    fn count_packet(&mut self, context: &mut PacketContextValues, is_own: bool) {
        let (stored_count, stored_discarded) =
            (context.get(ContextMeaning::Count), context.get(ContextMeaning::Discarded));
        // A packet that shows only what is missing after the last one counts as that does.
        self.count_bits = context.get(ContextMeaning::CountBits).or(self.count_bits);
        let count_bits = self.count_bits.unwrap_or(64).min(context.width(ContextMeaning::Count).into()) as u32;
        let same = |a: u64, b: u64, bits: u32| (a ^ b) & mask(bits.clamp(1, 64)) == 0;
        let is_start = self.count.is_none();
        let next = match self.count {
            Some(before) => before.wrapping_add(1).wrapping_add(self.lost),
            None => {
                let count = if is_own { stored_count.unwrap_or(0) } else { 0 };
                self.losses.add(Lost::FirstLostPackets, if is_own { 0 } else { self.lost });
                count
            }
        };
        let count = stored_count.filter(|&count| count_bits == 0 || same(count, next, count_bits)).unwrap_or(next);
        self.count = Some(count);
        if let (true, Some(stored)) = (is_start && is_own, stored_discarded) {
            // Where a trace is trimmed, its counter goes on.
            self.discarded = stored;
        }
        let discarded_bits = context.width(ContextMeaning::Discarded);
        let discarded = stored_discarded.filter(|&count| same(count, self.discarded, discarded_bits));
        (self.lost, self.has_pending) = (0, false);
        context.set(ContextMeaning::Count, count);
        context.set(ContextMeaning::Discarded, discarded.unwrap_or(self.discarded));
    }

    /// Header and context of a packet, up to where its content begins.
    fn header(&mut self, trace: &TraceOut, open: &OpenDraftPacket) -> Result<Bits> {
        let (group, _) = trace.group(self.group)?;
        let mut bytes = Vec::new();
        put_uint(&mut bytes, MAGIC.into(), 4, trace.order);
        match trace.dialect {
            Dialect::V11 => put_uint(&mut bytes, trace.session_id.into(), 4, trace.order),
            Dialect::V16 => {
                bytes.extend(trace.uuid);
                put_uint(&mut bytes, group.id, 4, trace.order);
            }
        }
        let mut out = Bits::after(bytes);
        // Texts of contexts are counted when they are first written.
        let mut losses = Losses::default();
        let (native, is_converted) = (trace.order, trace.is_converted);
        let mut fields = TypedWriter { out: &mut out, native, is_converted, losses: &mut losses };
        if let Some(context) = &group.packet_context {
            fields.out.align(context.align);
        }
        open.context.write(&mut fields);
        out.align(8);
        Ok(out)
    }

    /// A time of a packet of another format.
    fn input_time(&self, trace: &TraceOut, packet: &PacketData, cycles: Option<u64>) -> Option<u64> {
        let clock = trace.clocks.get(packet.packet.class.0 as usize)?.as_ref()?;
        u64::try_from(clock.ns(cycles?)).ok()
    }

    /// Something is missing here.
    pub(super) fn gap(&mut self, trace: &TraceOut, gap: &Gap) -> Result<()> {
        let Some(count) = gap.count else {
            self.losses.add(Lost::UnknownGaps, 1);
            return Ok(());
        };
        self.end_packet(trace, true)?;
        self.input = None;
        match gap.kind {
            GapKind::DiscardedEvents => self.discarded = self.discarded.wrapping_add(count),
            GapKind::LostPackets => self.lost = self.lost.wrapping_add(count),
        }
        self.has_pending = true;
        Ok(())
    }

    /// Ends the packet that is being built. `input_ends` when that of the input ends here too.
    fn end_packet(&mut self, trace: &TraceOut, input_ends: bool) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let stored_end = match &trace.kind {
            TraceKind::Own(_) if trace.clocks.is_empty() => open.context.get(ContextMeaning::End),
            _ => self.input.as_ref().and_then(|input| self.input_time(trace, input, input.packet.end_cycles)),
        };
        let end = open.end.max(stored_end.filter(|_| input_ends).unwrap_or(0));
        self.latest = self.latest.max(end);
        let content = open.content.bytes.get(open.content_start..).unwrap_or(&[]);
        let (associated, salt) = match trace.dialect {
            Dialect::V11 => (open.content.bytes.get(4..8), trace.session_id.to_le_bytes().to_vec()),
            Dialect::V16 => (open.content.bytes.get(4..24), trace.uuid.to_vec()),
        };
        let (stored, digest) = trace.seal.apply(content, open.schemes, associated.unwrap_or(&[]), &salt)?;
        let content_size = (open.content_start + stored.len()) as u64;
        let packet_size = content_size + open.padding as u64;
        open.context.set_whole(ContextMeaning::ContentSize, content_size)?;
        open.context.set_whole(ContextMeaning::PacketSize, packet_size)?;
        open.context.set_whole(ContextMeaning::End, end)?;
        open.context.set_checksum(open.schemes.checksum, &digest);
        let mut bytes = self.header(trace, &open)?.bytes;
        if bytes.len() != open.content_start {
            return Err(Error::unsupported("the size of a packet context depends on what is known after it only"));
        }
        bytes.extend_from_slice(&stored);
        bytes.resize(bytes.len() + open.padding, 0);
        self.file.write(&bytes)
    }

    /// Writes a packet of the same trace as it is.
    pub(super) fn packet(&mut self, trace: &TraceOut, packet: &PacketData) -> Result<()> {
        self.end_packet(trace, true)?;
        self.input = None;
        let of = &packet.packet;
        let from = of.offset_bytes as usize;
        let bytes = packet.file.bytes().get(from..from.saturating_add((of.total_bits / 8) as usize));
        let gone = || Error::truncated("the bytes of a packet are gone").at_offset(of.offset_bytes);
        self.file.write(bytes.ok_or_else(gone)?)?;
        self.count = Some(of.sequence.or(self.count).unwrap_or(0));
        self.discarded = of.discarded_snapshot.unwrap_or(self.discarded);
        self.latest = self.latest.max(of.end_cycles.unwrap_or(0));
        (self.state, self.lost, self.has_pending) = (None, 0, false);
        Ok(())
    }

    /// No more events come.
    pub(super) fn end(&mut self, trace: &TraceOut) -> Result<()> {
        self.end_packet(trace, true)?;
        self.input = None;
        let has_pending = std::mem::take(&mut self.has_pending);
        let is_left = self.count.is_some() || self.discarded > 0;
        if has_pending && !is_left && matches!(trace.kind, TraceKind::Own(_)) {
            // There is no packet whose number could show it. A file without packets is no stream when it is read.
            self.losses.add(Lost::GoneStreams, self.lost);
            self.is_gone = true;
        } else if has_pending {
            // A packet without events shows what is missing after the last one.
            self.begin_packet(trace, None, self.latest, false)?;
            self.end_packet(trace, false)?;
        }
        if !self.is_gone {
            // A stream without packets is an empty file.
            self.file.write(&[])?;
        }
        self.file.end()
    }

    /// Is everything there that was written?
    pub(super) fn check(&self) -> Result<()> {
        self.file.check()
    }
}

/// The header of an event.
struct EventHeader<'a> {
    id: u64,
    cycles: u64,
    /// Full clock value of the event before.
    before: Option<u64>,
    /// The header that it had.
    stored: Option<&'a Value>,
    /// The fields of the payload that are missing.
    missing: &'a [bool],
}

impl EventHeader<'_> {
    fn write(&self, trace: &TraceOut, of: &SectionClass, out: &mut Bits) {
        let &EventHeader { id, cycles, .. } = self;
        let (p32, p64) = trace.metadata.preferred;
        let order = trace.order;
        let (time_bits, reserved) = if of.header == HeaderForm::One { (27, 31) } else { (32, 65535) };
        let stored_long = self.stored.and_then(|header| header.member("ext")).filter(|ext| !ext.is_null());
        let is_far = self.before.is_none_or(|before| cycles.wrapping_sub(before) >> time_bits != 0);
        let is_long = stored_long.is_some() || is_far || id >= reserved || self.missing.contains(&true);
        let short_id = if is_long { reserved } else { id };
        let stored_time = self.stored.and_then(|header| header.member("timestamp")?.integer());
        let is_stored = stored_long.is_some() && trace.clocks.is_empty();
        let short_time = stored_time.filter(|_| is_stored).map_or(cycles, |time| time as u64);
        out.align(p32);
        match of.header {
            HeaderForm::One => {
                out.put(short_id, 5, order);
                out.put(short_time, 27, order);
            }
            HeaderForm::Two => {
                out.put(short_time, 32, order);
                out.put(short_id, 16, order);
            }
        }
        if !is_long {
            return;
        }
        let end_align = match of.extension {
            HeaderForm::One => {
                out.put(id, 32, order);
                out.put(cycles, 64, order);
                p64
            }
            HeaderForm::Two => {
                out.align(p64);
                out.put(cycles, 64, order);
                out.put(id, 32, order);
                p32
            }
        };
        match trace.dialect {
            Dialect::V11 => out.align(end_align),
            Dialect::V16 => self.missing.iter().for_each(|&is| out.put(is.into(), 1, order)),
        }
    }
}

/// Puts the context of an event. Gives the place of the size of its payload where that is not known yet.
fn put_context(
    trace: &TraceOut,
    of: &SectionClass,
    common: Option<&Value>,
    fields: &mut TypedWriter<'_>,
) -> Option<u64> {
    if !of.has_event_size {
        if let Some(context) = &of.context {
            fields.field(context, common.unwrap_or(&Value::Null), 0);
        }
        return None;
    }
    let align = of.context.as_ref().map_or(1, |context| context.align).max(trace.metadata.preferred.0);
    fields.out.align(align);
    let base = fields.out.pos();
    let stored = common.and_then(|common| common.member("event_size")?.integer());
    fields.out.put(stored.unwrap_or(0) as u64, 32, trace.order);
    if let Some(DraftTypeKind::Struct(members)) = of.context.as_ref().map(|context| &context.kind) {
        // The size is the first member of the same structure.
        let rest = match common {
            Some(Value::Struct(values)) => Value::Struct(values.get(1..).unwrap_or(&[]).to_vec()),
            _ => Value::Null,
        };
        fields.members(members, &rest, &[], base);
    }
    Some(base).filter(|_| stored.is_none())
}

/// Which fields of a payload are missing.
fn missing(fields: &[DraftField], values: &Value) -> Vec<bool> {
    let member = |at: usize, name: &str| match values {
        Value::Struct(_) => last_member(values, name),
        Value::List(values) => values.get(at),
        _ => None,
    };
    let is_missing = |(at, field): (usize, &DraftField)| member(at, &field.name).is_none_or(Value::is_null);
    fields.iter().enumerate().map(is_missing).collect()
}

/// Does the context of a packet of another format have members that are kept?
fn has_extras(trace: &TraceOut, packet: &PacketData) -> bool {
    match &trace.kind {
        TraceKind::Foreign { foreign, .. } => {
            foreign.extras.get(packet.packet.class.0 as usize).is_some_and(|extras| !extras.is_empty())
        }
        TraceKind::Own(_) => true,
    }
}

/// Fills in the members of the input's context that are kept.
fn extras(trace: &TraceOut, packet: &PacketData, values: &Value, context: &mut PacketContextValues) {
    let TraceKind::Foreign { foreign, .. } = &trace.kind else { return };
    let class = packet.packet.class;
    let Value::Struct(values) = values else { return };
    for (name, at) in foreign.extras.get(class.0 as usize).into_iter().flatten() {
        if let (Some((_, value)), Some(member)) = (values.get(*at), foreign.context_member(class, *at)) {
            context.set_member(name, foreign.value(member, value.clone()));
        }
    }
}
