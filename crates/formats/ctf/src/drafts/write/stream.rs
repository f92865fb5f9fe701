//! One stream of the output: events into packets, packets into a file.

use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::bits::put_uint;
use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::value::Value;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{Scope, StreamClassId};

use super::super::metadata::{Dialect, MAGIC};
use super::super::packet_fields::{self, HEADER_11, Meaning};
use super::super::transform::Schemes;
use super::super::types::{Class, Field, Form, Int, Kind, Order};
use super::bits::{Bits, Fields, last_member};
use super::{TraceKind, TraceOut};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::out_file::OutFile;
use tracemill_format::writer::stored_header;

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
    open: Option<Open>,
    /// Packet of the input that the events come from.
    input: Option<Arc<PacketData>>,
    /// Full clock value of the event before, as a reader of the output has it (`SPEC.md`, D25); `None` behind a packet
    /// that was copied.
    state: Option<u64>,
    /// Latest time so far.
    latest: u64,
    /// Counters as the packet before has them.
    count: Option<u64>,
    /// Bits that count packets, as packets of its own format say.
    count_bits: Option<u64>,
    discarded: u64,
    /// Packets that are missing before the next one, and whether something is that no packet tells.
    lost: u64,
    has_pending: bool,
    /// Are all its packets lost?
    is_gone: bool,
    pub(super) losses: Losses,
}

/// The packet that is being built.
struct Open {
    content: Bits,
    /// First byte behind header and context.
    content_start: usize,
    /// Values of the packet context, in the order of its fields.
    context: Vec<Value>,
    /// Is the first event of the input's packet in it?
    schemes: Schemes,
    padding: usize,
    begin: u64,
    end: u64,
}

impl StreamWriter {
    pub(super) fn new(path: PathBuf, class: StreamClassId, group: usize, packet_bytes: Option<usize>) -> Self {
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
        let is_own = matches!(trace.kind, TraceKind::Own(_));
        let packet = &event.chunk.packet;
        // A file of a draft is of one stream class, its packets cannot say another.
        if self.class != packet.packet.class {
            self.losses.add(Lost::OtherClasses, 1);
            return Ok(());
        }
        let is_same = self.input.as_ref().is_some_and(|input| Arc::ptr_eq(input, packet));
        let size = self.open.as_ref().map_or(0, |open| open.content.bytes.len());
        let is_full = size >= self.packet_bytes.unwrap_or(MAX_PACKET);
        let mut is_first = false;
        if !is_same {
            // A packet of the wanted size holds those of the input that have the same context.
            let is_joined = !is_own
                && self.packet_bytes.is_some()
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
        let (p32, p64) = trace.metadata.preferred;
        let missing = match (trace.dialect, &payload.kind) {
            (Dialect::V16, Kind::Struct(fields)) => missing(fields, &values),
            _ => Vec::new(),
        };
        let (time_bits, reserved) = if of.header == Form::One { (27, 31) } else { (32, 65535) };
        let stored_long = header.as_ref().and_then(|header| header.member("ext")).filter(|ext| !ext.is_null());
        let is_far = self.state.is_none_or(|state| cycles.wrapping_sub(state) >> time_bits != 0);
        let is_long = stored_long.is_some() || is_far || id >= reserved || missing.contains(&true);
        let short_id = if is_long { reserved } else { id };
        let stored_time = header.as_ref().and_then(|header| header.member("timestamp")?.integer());
        let is_stored = stored_long.is_some() && trace.clocks.is_empty();
        let short_time = stored_time.filter(|_| is_stored).map_or(cycles, |time| time as u64);
        let (native, is_converted) = (trace.order, trace.is_converted);
        let mut fields = Fields { out: &mut open.content, native, is_converted, losses: &mut self.losses };
        let order = trace.order;
        fields.out.align(p32);
        match of.header {
            Form::One => {
                fields.out.put(short_id, 5, order);
                fields.out.put(short_time, 27, order);
            }
            Form::Two => {
                fields.out.put(short_time, 32, order);
                fields.out.put(short_id, 16, order);
            }
        }
        if is_long {
            let end_align = match of.extension {
                Form::One => {
                    fields.out.put(id, 32, order);
                    fields.out.put(cycles, 64, order);
                    p64
                }
                Form::Two => {
                    fields.out.align(p64);
                    fields.out.put(cycles, 64, order);
                    fields.out.put(id, 32, order);
                    p32
                }
            };
            match trace.dialect {
                Dialect::V11 => fields.out.align(end_align),
                Dialect::V16 => missing.iter().for_each(|&is| fields.out.put(is.into(), 1, order)),
            }
        }
        let mut size_at = None;
        if of.has_event_size {
            let align = of.context.as_ref().map_or(1, |context| context.align).max(p32);
            fields.out.align(align);
            let base = fields.out.pos();
            let stored = common.as_ref().and_then(|common| common.member("event_size")?.integer());
            fields.out.put(stored.unwrap_or(0) as u64, 32, order);
            size_at = Some(base).filter(|_| stored.is_none());
            if let Some(Kind::Struct(members)) = of.context.as_ref().map(|context| &context.kind) {
                // The size is the first member of the same structure.
                let rest = match &common {
                    Some(Value::Struct(values)) => Value::Struct(values.get(1..).unwrap_or(&[]).to_vec()),
                    _ => Value::Null,
                };
                fields.members(members, &rest, &[], base);
            }
        } else if let Some(context) = &of.context {
            fields.field(context, common.as_ref().unwrap_or(&Value::Null), 0);
        }
        fields.out.align(payload.align);
        let begin = fields.out.pos();
        if let Kind::Struct(members) = &payload.kind {
            fields.structure(members, &values, &missing);
        }
        if let Some(at) = size_at {
            let bytes = (open.content.pos() - begin).div_ceil(8);
            open.content.replace(at, bytes, 32, order);
        }
        self.state = Some(cycles);
        self.latest = self.latest.max(cycles);
        open.begin = open.begin.min(cycles);
        open.end = open.end.max(cycles);
        Ok(())
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
        let fields = context_fields(trace.dialect, group.packet_context.as_deref());
        let is_own = matches!(trace.kind, TraceKind::Own(_));
        let mut context: Vec<Value> = match (&input, is_own) {
            // CTF 2 puts members of its own before them, and changes names that it has itself.
            (Some((_, Some(Value::Struct(stored)))), true) if stored.len() >= fields.len() => {
                stored.iter().skip(stored.len() - fields.len()).map(|(_, value)| value.clone()).collect()
            }
            _ => vec![Value::Null; fields.len()],
        };
        let stored = |meaning: Meaning| -> Option<u64> {
            let at = fields.iter().position(|(_, of, _)| *of == Some(meaning))?;
            context.get(at)?.integer().map(|value| value as u64)
        };
        let input_begin = match (&input, trace.clocks.is_empty()) {
            (_, true) => stored(Meaning::Begin),
            (Some((packet, _)), false) => self.input_time(trace, packet, packet.packet.begin_cycles),
            _ => None,
        };
        let begin = match input_begin.filter(|_| is_first) {
            Some(begin) if is_own || begin >= self.latest => begin.min(first),
            _ => first,
        };
        let had = match is_own {
            true => Schemes {
                compression: stored(Meaning::Compression).unwrap_or(0),
                encryption: stored(Meaning::Encryption).unwrap_or(0),
                checksum: stored(Meaning::ChecksumScheme).unwrap_or(0),
            },
            false => Schemes::default(),
        };
        let (schemes, is_open) = trace.seal.schemes(had);
        self.losses.add(Lost::EncryptedPackets, u64::from(is_open));
        check_schemes(&fields, schemes)?;
        let padding = match (stored(Meaning::PacketSize), stored(Meaning::ContentSize)) {
            (Some(packet), Some(content)) if is_first => packet.saturating_sub(content).min(1 << 20) as usize,
            _ => 0,
        };
        // The counters of the input, unless packets have come or gone.
        let (stored_count, stored_discarded) = (stored(Meaning::Count), stored(Meaning::Discarded));
        let width = |meaning: Meaning| {
            let field = fields.iter().find(|(_, of, _)| *of == Some(meaning));
            field.and_then(|(_, _, class)| class.as_integer()).map_or(64, |int| int.size)
        };
        // A packet that tells only what is missing behind the last one counts as that does.
        self.count_bits = stored(Meaning::CountBits).or(self.count_bits);
        let count_bits = self.count_bits.unwrap_or(64).min(width(Meaning::Count).into()) as u32;
        let same = |a: u64, b: u64, bits: u32| (a ^ b) & tracemill_codec::bits::mask(bits.clamp(1, 64)) == 0;
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
        let discarded_bits = width(Meaning::Discarded);
        if let (true, Some(stored)) = (is_start && is_own, stored_discarded) {
            // Where a trace is cut, its counter goes on.
            self.discarded = stored;
        }
        let discarded = stored_discarded.filter(|&count| same(count, self.discarded, discarded_bits));
        (self.lost, self.has_pending) = (0, false);
        let mut set = |meaning: Meaning, value: u64| {
            if let Some(at) = fields.iter().position(|(_, of, _)| *of == Some(meaning)) {
                context[at] = Value::Unsigned(value & mask_of(&fields[at].2));
            }
        };
        set(Meaning::Begin, begin);
        set(Meaning::Count, count);
        set(Meaning::Discarded, discarded.unwrap_or(self.discarded));
        set(Meaning::Compression, schemes.compression);
        set(Meaning::Encryption, schemes.encryption);
        set(Meaning::ChecksumScheme, schemes.checksum);
        if !is_own || input.is_none() {
            set(Meaning::CountBits, self.count_bits.filter(|_| is_own).unwrap_or(32));
        }
        if !is_own {
            let cpu = input.as_ref().and_then(|(packet, _)| packet.cpu);
            set(Meaning::Cpu, cpu.unwrap_or(u32::MAX).into());
            if let Some((packet, Some(values))) = &input {
                extras(trace, packet, values, &fields, &mut context);
            }
        }
        if fields.iter().any(|(_, of, _)| *of == Some(Meaning::Begin)) {
            self.state = Some(begin);
        }
        let mut open =
            Open { content: Bits::default(), content_start: 0, context, schemes, padding, begin, end: first };
        open.content = self.header(trace, &open)?;
        open.content_start = open.content.bytes.len();
        self.open = Some(open);
        Ok(())
    }

    /// Header and context of a packet, up to where its content begins.
    fn header(&mut self, trace: &TraceOut, open: &Open) -> Result<Bits> {
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
        let mut out = Bits::behind(bytes);
        // Texts of contexts are counted when they are first written.
        let mut losses = Losses::default();
        let (native, is_converted) = (trace.order, trace.is_converted);
        let mut fields = Fields { out: &mut out, native, is_converted, losses: &mut losses };
        if let Some(context) = &group.packet_context {
            fields.out.align(context.align);
        }
        let base = fields.out.pos();
        for ((_, _, class), value) in
            context_fields(trace.dialect, group.packet_context.as_deref()).iter().zip(&open.context)
        {
            fields.field(class, value, base);
        }
        out.align(8);
        Ok(out)
    }

    /// A time of a packet of another format.
    fn input_time(&self, trace: &TraceOut, packet: &PacketData, cycles: Option<u64>) -> Option<u64> {
        let clock = trace.clocks.get(packet.packet.class.0 as usize)?.as_ref()?;
        u64::try_from(clock.ns(cycles?)).ok()
    }

    /// Something is missing here.
    pub(super) fn gap(&mut self, trace: &mut TraceOut, gap: &Gap) -> Result<()> {
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
        let (group, _) = trace.group(self.group)?;
        let fields = context_fields(trace.dialect, group.packet_context.as_deref());
        let place = |meaning: Meaning| fields.iter().position(|(_, of, _)| *of == Some(meaning));
        let stored_end = match &trace.kind {
            TraceKind::Own(_) if trace.clocks.is_empty() => {
                place(Meaning::End).and_then(|at| open.context[at].integer()).map(|end| end as u64)
            }
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
        let numbers = [(Meaning::ContentSize, content_size), (Meaning::PacketSize, packet_size), (Meaning::End, end)];
        for (meaning, value) in numbers {
            let Some(at) = place(meaning) else { continue };
            if value & mask_of(&fields[at].2) != value {
                let message = format!("{value} does not fit the field `{}` of the packet context", fields[at].0);
                return Err(Error::unsupported(message).with_help("smaller packets may fit: --packet-size"));
            }
            open.context[at] = Value::Unsigned(value);
        }
        if let Some(at) = place(Meaning::Checksum) {
            let had = std::mem::replace(&mut open.context[at], Value::Null);
            open.context[at] = checksum(&fields[at].2, open.schemes.checksum, &digest, had);
        }
        let mut bytes = self.header(trace, &open)?.bytes;
        if bytes.len() != open.content_start {
            return Err(Error::unsupported("the size of a packet context depends on what is known behind it only"));
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
        let gone = || Error::new(ErrorKind::Truncated, "the bytes of a packet are gone").at_offset(of.offset_bytes);
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
            // There is no packet whose number could tell it. What has no packet when it is read is no stream either.
            self.losses.add(Lost::GoneStreams, self.lost);
            self.is_gone = true;
        } else if has_pending {
            // A packet without events tells what is missing behind the last one.
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

/// Name, meaning and class of a field of a packet context.
pub(super) type ContextField = (Arc<str>, Option<Meaning>, Arc<Class>);

/// The fields of the packet context: declared in v1.6, a part of the fixed header in v1.1.
pub(super) fn context_fields(dialect: Dialect, context: Option<&Class>) -> Vec<ContextField> {
    match dialect {
        Dialect::V11 => HEADER_11
            .iter()
            .map(|&(name, size)| {
                let meaning = packet_fields::meaning(&name.replace("section_packet_count", "stream_packet_count"));
                let int = Int { size, signed: false, order: Order::Native };
                (name.into(), meaning, Class::integer(int, Some(8)))
            })
            .collect(),
        Dialect::V16 => {
            let Some(Kind::Struct(fields)) = context.map(|context| &context.kind) else { return Vec::new() };
            let of = |field: &Field| {
                let meaning = packet_fields::meaning(&field.name);
                // Of another kind it is plain data.
                let meaning = meaning.filter(|&of| of == Meaning::Checksum || field.class.as_integer().is_some());
                (field.name.clone(), meaning, field.class.clone())
            };
            fields.iter().map(of).collect()
        }
    }
}

/// All bits of an integer.
fn mask_of(class: &Class) -> u64 {
    class.as_integer().map_or(u64::MAX, |int| tracemill_codec::bits::mask(int.size))
}

/// Schemes need their fields.
fn check_schemes(fields: &[ContextField], schemes: Schemes) -> Result<()> {
    let wanted = [
        (Meaning::Compression, schemes.compression, "compression_scheme"),
        (Meaning::Encryption, schemes.encryption, "encryption_scheme"),
        (Meaning::ChecksumScheme, schemes.checksum, "checksum_scheme"),
    ];
    for (meaning, scheme, name) in wanted {
        if scheme != 0 && !fields.iter().any(|(_, of, _)| *of == Some(meaning)) {
            let message = format!("packets of this trace have no field `{name}`, so nothing can be said of it");
            return Err(Error::misuse(message));
        }
    }
    Ok(())
}

/// The value of a checksum field (`SPEC.md`, D33).
fn checksum(class: &Class, scheme: u64, digest: &[u8], had: Value) -> Value {
    if scheme == 0 {
        return had;
    }
    match &class.kind {
        Kind::Integer(int) | Kind::Enum(int, _) if int.size.is_multiple_of(8) => {
            let bytes = digest.iter().take((int.size / 8) as usize);
            let number = bytes.fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
            match int.signed {
                true => Value::Signed(tracemill_codec::bits::sign_extend(number, int.size)),
                false => Value::Unsigned(number),
            }
        }
        Kind::Array(len, element) => {
            let byte = |at: u64| digest.get(at as usize).copied().unwrap_or(0);
            let value = |at: u64| match element.as_integer() {
                Some(int) if int.signed => Value::Signed((byte(at) as i8).into()),
                _ => Value::Unsigned(byte(at).into()),
            };
            Value::List((0..*len).map(value).collect())
        }
        Kind::Sequence(..) => {
            let len = had.elements().map_or(0, <[Value]>::len);
            let byte = |at: usize| digest.get(at).copied().unwrap_or(0);
            Value::List((0..len).map(|at| Value::Unsigned(byte(at).into())).collect())
        }
        _ => had,
    }
}

/// Which fields of a payload are missing.
fn missing(fields: &[Field], values: &Value) -> Vec<bool> {
    let member = |at: usize, name: &str| match values {
        Value::Struct(_) => last_member(values, name),
        Value::List(values) => values.get(at),
        _ => None,
    };
    let is_missing = |(at, field): (usize, &Field)| member(at, &field.name).is_none_or(Value::is_null);
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
fn extras(trace: &TraceOut, packet: &PacketData, values: &Value, fields: &[ContextField], context: &mut [Value]) {
    let TraceKind::Foreign { foreign, .. } = &trace.kind else { return };
    let class = packet.packet.class;
    let Value::Struct(values) = values else { return };
    for (name, at) in foreign.extras.get(class.0 as usize).into_iter().flatten() {
        let (Some(place), Some((_, value))) = (fields.iter().position(|(of, _, _)| of == name), values.get(*at)) else {
            continue;
        };
        if let Some(member) = foreign.context_member(class, *at) {
            context[place] = foreign.value(member, value.clone());
        }
    }
}
