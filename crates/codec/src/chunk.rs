//! Chunks: a run of consecutive events of one stream, inside one packet.
//!
//! A chunk holds the *spine* of its events (where, what class, when) in flat columns and keeps the encoded bytes. The
//! fields are decoded from those bytes only when a visitor asks for them.

mod copied;

use std::sync::Arc;

use tracemill_model::clock::ClockMap;
use tracemill_model::error::Error;
use tracemill_model::packet::Packet;
use tracemill_model::schema::{EventClassId, OpenIds, Scope};

use crate::plan::{DecoderState, Fault, FlatSections, NoVisitor, Plan, PlanInput, Visitor};
use crate::spine::{EventFault, ScanEnd, Spine, SpineSink};
use crate::trace_plans::TracePlans;

pub use self::copied::CopiedFrom;

/// Bytes that stay where they are while something refers to them: a mapped file, a buffer.
pub trait Bytes: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// A piece will be read soon, from its beginning to its end.
    fn will_read(&self, _offset: usize, _len: usize) {}

    /// Number of bytes that still exist: fewer than all when a file was truncated after it was opened. Bytes that
    /// are gone read as zeros.
    fn len_now(&self) -> u64 {
        self.bytes().len() as u64
    }

    /// May [`Bytes::len_now`] become less? What is decoded from such bytes later than its length was looked at may be zeros
    /// that were not recorded.
    fn can_vanish(&self) -> bool {
        false
    }
}

/// The first `len` bytes: a copy where they may vanish.
pub fn copied_start(bytes: &Arc<dyn Bytes>, len: usize) -> Arc<dyn Bytes> {
    match bytes.bytes().get(..len) {
        Some(start) if bytes.can_vanish() => Arc::new(start.to_vec()),
        _ => bytes.clone(),
    }
}

impl Bytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A packet that is being decoded: its description, its bytes, and the values of its header.
pub struct PacketData {
    /// The plans of its trace.
    pub plans: Arc<TracePlans>,
    /// The bytes in which it is decoded: those of its file, or what its reader made of them (expanded, put in order).
    pub bytes: Arc<dyn Bytes>,
    /// Offset of its first byte in those.
    pub base_bytes: usize,
    /// The bytes of its file.
    pub file: Arc<dyn Bytes>,
    /// Its place in its file and its counters; the content size is that of the decoded bytes.
    pub packet: Packet,
    /// The CPU that the format ties it to.
    pub cpu: Option<u32>,
    /// Its events, when its reader has found them; otherwise the plans find them.
    pub spine: Option<Spine>,
    /// First bit of its context, from the start of the packet.
    pub context_bits: u64,
    /// First bit of its first event.
    pub events_bits: u64,
    /// Slots and roles after header and context were read.
    pub state: DecoderState,
    /// Where its bytes come from, when they are a copy of those of its file, or of some of them.
    pub copied: Option<CopiedFrom>,
}

impl PacketData {
    /// A packet whose events its reader has found (`spine`), in the bytes of its file (`file`) or in what the reader made of
    /// them: `bytes`, from `base_bytes` on.
    pub fn found(
        plans: &Arc<TracePlans>,
        file: &Arc<dyn Bytes>,
        packet: Packet,
        (bytes, base_bytes): (Arc<dyn Bytes>, usize),
        spine: Spine,
    ) -> Self {
        PacketData {
            plans: plans.clone(),
            bytes,
            base_bytes,
            file: file.clone(),
            packet,
            cpu: None,
            spine: Some(spine),
            context_bits: 0,
            events_bits: 0,
            state: DecoderState::default(),
            copied: None,
        }
    }

    /// Its bytes from the first one to the end of what they lie in, and where its content ends.
    #[inline]
    pub fn input(&self) -> PlanInput<'_> {
        let bytes = self.bytes.bytes().get(self.base_bytes..).unwrap_or(&[]);
        PlanInput::new(bytes, self.packet.content_bits)
    }

    /// The bytes of its content that are whole.
    #[inline]
    pub fn content(&self) -> &[u8] {
        let input = self.input();
        input.bytes.get(..(input.end_bits >> 3) as usize).unwrap_or(&[])
    }

    /// Is it decoded as it lies in its file, or in a copy of that? Its bits are then bits of the file.
    pub fn is_in_place(&self) -> bool {
        self.copied.is_some() || Arc::ptr_eq(&self.bytes, &self.file)
    }

    /// The bit of the file that stands for a bit of the packet; the packet's first one when it is not decoded in place.
    pub fn file_bit(&self, bit: u64) -> u64 {
        self.packet.offset_bytes * 8 + if self.is_in_place() { self.recorded_bit(bit) } else { 0 }
    }

    /// The bit of the recorded packet that stands for a bit of it: another one in copies of some of its events.
    pub fn recorded_bit(&self, bit: u64) -> u64 {
        self.copied.as_ref().map_or(bit, |copied| copied.recorded_bit(bit))
    }

    /// Position of the first event, for [`PacketData::scan`].
    pub fn first_event(&self) -> u64 {
        if self.spine.is_some() { 0 } else { self.events_bits }
    }

    /// Finds the events from `*pos` on, until the content ends, the sink is full, or a fault.
    ///
    /// `*pos` is what [`PacketData::first_event`] or the call before left: bits, or the number of an event when the
    /// reader has found them.
    #[inline]
    pub fn scan<S: SpineSink>(&self, pos: &mut u64, state: &mut DecoderState, sink: &mut S) -> ScanEnd {
        match &self.spine {
            None => self.plans.scanner(self.packet.class).scan(self.input(), pos, state, sink),
            Some(spine) => spine.scan(pos, state, sink),
        }
    }

    /// Bits between `pos`, after its last event, and the end of its content that nothing explains: they are too few for
    /// another event, and neither the rest of a byte nor padding up to where the next event would begin.
    pub fn unexplained_bits(&self, pos: u64) -> u64 {
        let end = self.packet.content_bits;
        // A packet of which a part is missing is an error of its own.
        if self.spine.is_some() || self.input().end_bits != end {
            return 0;
        }
        let ends_at = |unit: u64| pos.checked_next_multiple_of(unit) == Some(end);
        if ends_at(8) || ends_at(self.plans.event_align_bits(self.packet.class)) { 0 } else { end.saturating_sub(pos) }
    }

    /// The error that damage to one of its events or scopes is, with its place in the file; the packet's number and the
    /// file are for the caller to add.
    pub fn error(&self, damage: &EventFault) -> Error {
        let error = match damage {
            EventFault::Field { fault, path, class } => {
                let error = Error::from(*fault).in_field(path.clone());
                match class {
                    None => error,
                    Some(class) => {
                        let class = self.plans.schema().event(*class);
                        error.in_event(class.name.as_deref().unwrap_or("(no name)"))
                    }
                }
            }
            EventFault::UnknownId { id, .. } => {
                Error::malformed(format!("no event class has the id {id} that the event header names"))
            }
            EventFault::Empty { .. } => Error::malformed("an event of length 0"),
        };
        if self.is_in_place() {
            return error.at_bit(self.file_bit(damage.at_bits()));
        }
        let inside = damage.at_bits() / 8;
        let help = format!("it is byte {inside} of the packet's content, which is stored packed");
        error.at_offset(self.packet.offset_bytes).with_help(help)
    }

    /// Shows the packet header to a visitor; nothing when none is declared, or when its reader found the events, as then
    /// its bytes are not those of a header.
    pub fn visit_header<V: Visitor>(&self, visitor: &mut V) -> Result<(), Fault> {
        if self.spine.is_some() {
            return Ok(());
        }
        let mut state = DecoderState { order: None, ..self.state.clone() };
        self.plans.packet_header_rows().run(self.input(), &mut 0, &mut state, visitor)
    }

    /// Shows the packet context to a visitor.
    pub fn visit_context<V: Visitor>(&self, visitor: &mut V) -> Result<(), Fault> {
        let plan = self.plans.packet_context_rows(self.packet.class);
        let mut pos = self.context_bits;
        // The bits before the context were checked when the packet was opened.
        let mut state = DecoderState { order: None, ..self.state.clone() };
        plan.run(self.input(), &mut pos, &mut state, visitor)
    }
}

/// A run of consecutive events of one stream, inside one packet.
///
/// ```
/// use std::sync::Arc;
/// use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink, PacketData};
/// use tracemill_codec::plan::DecoderState;
/// use tracemill_codec::spine::Spine;
/// use tracemill_codec::trace_plans::TracePlans;
/// use tracemill_codec::value::Value;
/// use tracemill_model::packet::Packet;
/// use tracemill_model::schema::{
///     EventClass, FieldClass, FieldKind, IntegerClass, Member, Schema, Scope, StreamClass, StructClass,
/// };
///
/// // One class of events, whose payload is a byte.
/// let mut schema = Schema::new("example");
/// let byte = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(8)), 8));
/// let members = vec![Member::new("fd", byte)];
/// let payload = schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8));
/// let stream = schema.add_stream(StreamClass::default()).expect("the first");
/// let class = EventClass { payload: Some(payload), ..EventClass::new(0, stream) };
/// let class = schema.add_event(class).expect("the first");
///
/// // A packet of two of them, whose places a reader has found.
/// let file: Arc<dyn Bytes> = Arc::new(vec![3u8, 7]);
/// let plans = Arc::new(TracePlans::new(Arc::new(schema)));
/// let mut spine = Spine::default();
/// spine.push(class, 1000, 0, 0);
/// spine.push(class, 1001, 8, 8);
/// let packet = PacketData::found(&plans, &file, Packet::new(stream, 0, 16), (file.clone(), 0), spine);
/// let packet = Arc::new(packet);
///
/// let mut chunk = Chunk::new(packet.clone(), packet.first_event(), 2);
/// packet.scan(&mut packet.first_event(), &mut DecoderState::default(), &mut ChunkSink::new(&mut chunk, 2));
/// let event = chunk.event(1);
/// assert_eq!(event.cycles(), 1001);
/// let payload = event.values(Scope::Payload)?.expect("it is declared");
/// assert_eq!(payload.member("fd"), Some(&Value::Unsigned(7)));
/// # Ok::<(), tracemill_model::error::Error>(())
/// ```
pub struct Chunk {
    /// Full clock value of each event; empty time is 0 when the stream has no clock.
    pub cycles: Vec<u64>,
    /// Class of each event.
    pub classes: Vec<u32>,
    /// First bit of each event, from `base_bits`.
    starts: Vec<u32>,
    /// First bit after each header, from `base_bits`.
    bodies: Vec<u32>,
    base_bits: u64,
    /// The packet.
    pub packet: Arc<PacketData>,
}

impl Chunk {
    /// An empty chunk whose events begin at `base_bits` of the packet.
    pub fn new(packet: Arc<PacketData>, base_bits: u64, capacity: usize) -> Self {
        let base_bits = if packet.spine.is_some() { 0 } else { base_bits };
        Chunk {
            cycles: Vec::with_capacity(capacity),
            classes: Vec::with_capacity(capacity),
            starts: Vec::with_capacity(capacity),
            bodies: Vec::with_capacity(capacity),
            base_bits,
            packet,
        }
    }

    /// Gives back memory when most of it holds no events.
    pub fn shrink(&mut self) {
        if self.len() < self.cycles.capacity() / 4 {
            self.cycles.shrink_to_fit();
            self.classes.shrink_to_fit();
            self.starts.shrink_to_fit();
            self.bodies.shrink_to_fit();
        }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.cycles.len()
    }

    /// Are there no events?
    pub fn is_empty(&self) -> bool {
        self.cycles.is_empty()
    }

    /// Class of the event `at`.
    #[inline]
    pub fn class(&self, at: usize) -> EventClassId {
        EventClassId(self.classes[at])
    }

    /// First bit of the event `at`, from the start of the packet.
    #[inline]
    pub fn start_bits(&self, at: usize) -> u64 {
        self.base_bits + u64::from(self.starts[at])
    }

    /// First bit of the event `at`, from the start of the packet as it was recorded.
    #[inline]
    pub fn recorded_bits(&self, at: usize) -> u64 {
        self.packet.recorded_bit(self.start_bits(at))
    }

    /// First bit after the header of the event `at`, from the start of the packet.
    #[inline]
    pub fn body_bits(&self, at: usize) -> u64 {
        self.base_bits + u64::from(self.bodies[at])
    }

    /// The event `at`.
    #[inline]
    pub fn event(&self, at: usize) -> EventRef<'_> {
        EventRef { chunk: self, at }
    }

    /// Keeps only the events for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&Chunk, usize) -> bool) {
        let mut kept = 0;
        for at in 0..self.len() {
            if keep(self, at) {
                self.cycles[kept] = self.cycles[at];
                self.classes[kept] = self.classes[at];
                self.starts[kept] = self.starts[at];
                self.bodies[kept] = self.bodies[at];
                kept += 1;
            }
        }
        self.cycles.truncate(kept);
        self.classes.truncate(kept);
        self.starts.truncate(kept);
        self.bodies.truncate(kept);
    }
}

/// Fills a chunk up to a number of events.
pub struct ChunkSink<'a> {
    chunk: &'a mut Chunk,
    left: usize,
    room_bits: u64,
}

impl<'a> ChunkSink<'a> {
    /// Takes at most `max` events more.
    pub fn new(chunk: &'a mut Chunk, max: usize) -> Self {
        // Offsets in a chunk have 32 bits; half of that leaves room for any header.
        ChunkSink { chunk, left: max, room_bits: 1 << 31 }
    }

    /// Takes no more events once they have so many bytes, where plans find the events.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        self.room_bits = self.room_bits.min(bytes as u64 * 8);
        self
    }

    /// Can an event after this bit of the packet still be taken?
    #[inline]
    pub fn has_room_at(&self, bits: u64) -> bool {
        bits.wrapping_sub(self.chunk.base_bits) < self.room_bits
    }
}

impl SpineSink for ChunkSink<'_> {
    #[inline]
    fn event(&mut self, class: EventClassId, cycles: u64, start_bits: u64, body_bits: u64) -> bool {
        let base = self.chunk.base_bits;
        self.chunk.cycles.push(cycles);
        self.chunk.classes.push(class.0);
        self.chunk.starts.push((start_bits - base) as u32);
        self.chunk.bodies.push((body_bits - base) as u32);
        self.left -= 1;
        self.left > 0 && self.has_room_at(body_bits)
    }

    fn events(&mut self, spine: &Spine, from: usize) -> Option<usize> {
        // Offsets of a chunk over a spine count from the packet, as those of the spine do.
        let range = from.min(spine.len())..spine.len().min(from.saturating_add(self.left));
        self.chunk.cycles.extend_from_slice(&spine.cycles[range.clone()]);
        self.chunk.classes.extend_from_slice(&spine.classes[range.clone()]);
        self.chunk.starts.extend_from_slice(&spine.starts[range.clone()]);
        self.chunk.bodies.extend_from_slice(&spine.bodies[range.clone()]);
        self.left -= range.len();
        Some(range.len())
    }
}

/// An event of a chunk: costs nothing until a field is read.
#[derive(Clone, Copy)]
pub struct EventRef<'a> {
    /// The chunk.
    pub chunk: &'a Chunk,
    /// Its index in the chunk.
    pub at: usize,
}

impl<'a> EventRef<'a> {
    /// Its class.
    #[inline]
    pub fn class(&self) -> EventClassId {
        self.chunk.class(self.at)
    }

    /// Its full clock value.
    #[inline]
    pub fn cycles(&self) -> u64 {
        self.chunk.cycles[self.at]
    }

    /// Its time in ns since the origin by the clock of its stream; `None` without a clock, and for events whose class
    /// has no time.
    #[inline]
    pub fn ns(&self, clock: Option<&ClockMap>) -> Option<i128> {
        let clock = clock.filter(|_| !self.chunk.packet.plans.schema().event(self.class()).is_untimed)?;
        Some(clock.ns(self.cycles()))
    }

    /// Its name: its own, rendered into `storage`, when its class stands for many, or that of its class.
    pub fn name<'n>(&self, storage: &'n mut Vec<u8>) -> Option<&'n [u8]>
    where
        'a: 'n,
    {
        storage.clear();
        let class = self.chunk.packet.plans.schema().event(self.class());
        if class.open_ids.is_some() && self.own_id(storage).is_some() {
            return Some(storage);
        }
        class.name.as_deref().map(str::as_bytes)
    }

    /// Its own id and name, when its class stands for many: appends the name to `name`.
    pub fn own_id(&self, name: &mut Vec<u8>) -> Option<u32> {
        let (open, own) = self.open_id()?;
        open.name.render(self.body(), own, name);
        Some(u32::from_le_bytes(*own))
    }

    /// The bytes of its own id, when its class stands for many, and what its class knows of these.
    fn open_id(&self) -> Option<(&'a OpenIds, &'a [u8; 4])> {
        let open = self.chunk.packet.plans.schema().event(self.class()).open_ids.as_ref()?;
        Some((open, self.body().get(open.offset_bytes as usize..)?.first_chunk()?))
    }

    /// Its id: its own, when its class stands for many, or that of its class.
    pub fn id(&self) -> u64 {
        match self.open_id() {
            Some((_, own)) => u32::from_le_bytes(*own).into(),
            None => self.chunk.packet.plans.schema().event(self.class()).id,
        }
    }

    /// The bytes from the first one after its header on, and what follows it in the packet.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.chunk.packet.content().get((self.chunk.body_bits(self.at) >> 3) as usize..).unwrap_or(&[])
    }

    /// Begins a visit of its fields, scope by scope. The same `state` goes into every call of [`EventFields::visit`].
    #[inline]
    pub fn fields(&self, state: &mut DecoderState) -> EventFields<'a> {
        let plans = &self.chunk.packet.plans;
        let mut input = self.load(state);
        let cut = self.cut_bits();
        input.end_bits = cut.unwrap_or(input.end_bits);
        EventFields {
            plan: plans.event_rows(self.class()),
            input,
            body: self.chunk.body_bits(self.at),
            pos: self.chunk.body_bits(self.at),
            next: 0,
            is_cut: cut.is_some(),
        }
    }

    /// First bit after its last field, from the start of the packet.
    ///
    /// # Errors
    /// When its bytes are no longer those in which it was found.
    #[inline]
    pub fn end_bits(&self, state: &mut DecoderState) -> Result<u64, Fault> {
        let packet = &self.chunk.packet;
        if packet.spine.is_none()
            && let Some(end) = packet.plans.quick_end(self.class(), packet.input(), self.chunk.body_bits(self.at))
        {
            return Ok(end);
        }
        let mut fields = self.fields(state);
        fields.visit(Scope::Payload, state, &mut NoVisitor)?;
        Ok(fields.position_bits())
    }

    /// The bytes of its fields, for classes of whole bytes; `None` for others, for events without fields or without their
    /// last ones, and where the bytes are no longer those in which it was found.
    #[inline]
    pub fn whole_bytes(&self) -> Option<&'a [u8]> {
        let packet = &self.chunk.packet;
        let (input, body_bits) = (packet.input(), self.chunk.body_bits(self.at));
        let end_bits = packet.plans.quick_end(self.class(), input, body_bits)?;
        let bytes = input.bytes.get((body_bits >> 3) as usize..(end_bits >> 3) as usize)?;
        (!bytes.is_empty() && !self.is_cut()).then_some(bytes)
    }

    /// Does it end before its last field ([`Spine::cuts`])?
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.cut_bits().is_some()
    }

    /// End of the event, when that is before the end of its last field.
    #[inline]
    pub fn cut_bits(&self) -> Option<u64> {
        let cuts = &self.chunk.packet.spine.as_ref()?.cuts;
        if cuts.is_empty() {
            return None;
        }
        let end = cuts.get(&u32::try_from(self.chunk.body_bits(self.at)).ok()?)?;
        Some(u64::from(*end))
    }

    /// Shows all fields after the header in one go, without the marks of the structures that are always there.
    #[inline]
    pub fn visit_flat<V: Visitor>(&self, state: &mut DecoderState, visitor: &mut V) -> Result<(), Fault> {
        self.visit_sections(FlatSections::All, self.chunk.body_bits(self.at), state, visitor).map(|_| ())
    }

    /// The bytes of its common context, `len` of them as [`Plan::first_section_bytes`] says. `None` when they are not all
    /// there, or do not begin on a byte of their file.
    #[inline]
    pub fn context_bytes(&self, len: usize) -> Option<&'a [u8]> {
        let (packet, body_bits) = (&self.chunk.packet, self.chunk.body_bits(self.at));
        if body_bits & 7 != 0 || packet.spine.is_some() {
            return None;
        }
        let begin = (body_bits >> 3) as usize;
        let input = packet.input();
        let end = begin.checked_add(len).filter(|&end| end as u64 <= input.end_bits >> 3)?;
        input.bytes.get(begin..end)
    }

    /// [`EventRef::visit_flat`] of its common context alone; the first bit after it, from the start of the packet.
    #[inline]
    pub fn visit_flat_context<V: Visitor>(&self, state: &mut DecoderState, visitor: &mut V) -> Result<u64, Fault> {
        self.visit_sections(FlatSections::First, self.chunk.body_bits(self.at), state, visitor)
    }

    /// [`EventRef::visit_flat`] of what follows its common context, from a bit of the packet on.
    #[inline]
    pub fn visit_flat_after_context<V: Visitor>(
        &self,
        begin_bits: u64,
        state: &mut DecoderState,
        visitor: &mut V,
    ) -> Result<(), Fault> {
        self.visit_sections(FlatSections::BehindFirst, begin_bits, state, visitor).map(|_| ())
    }

    /// Shows sections of its flat row plan, the first of which begins at a bit of the packet; the first bit after
    /// them.
    #[inline(always)]
    fn visit_sections<V: Visitor>(
        &self,
        sections: FlatSections,
        begin_bits: u64,
        state: &mut DecoderState,
        visitor: &mut V,
    ) -> Result<u64, Fault> {
        let packet = &self.chunk.packet;
        let short = packet.plans.short(self.class());
        if short.is_all && packet.spine.is_none() {
            let (input, body_bits) = (packet.input(), self.chunk.body_bits(self.at));
            state.body_bits = body_bits;
            let mut pos = begin_bits;
            if short.run(sections, input, &mut pos, state, visitor) {
                return Ok(pos);
            }
            // Which field has the fault is for the plan that knows them.
            let plan = packet.plans.event_flat_rows(self.class());
            let mut pos = body_bits;
            return plan.run(input, &mut pos, state, &mut NoVisitor).map(|()| pos);
        }
        let (input, mut pos) = (self.load(state), begin_bits);
        let plan = self.chunk.packet.plans.event_flat_rows(self.class());
        if let Some(end_bits) = self.cut_bits() {
            let input = PlanInput { end_bits: end_bits.min(input.end_bits), ..input };
            for section in sections.range(plan.sections()) {
                plan.run_cut(section, input, &mut pos, state, visitor);
            }
            return Ok(pos);
        }
        plan.run_sections(sections.range(plan.sections()), input, &mut pos, state, visitor).map(|()| pos)
    }

    /// Makes the state hold what the fields of this event may refer to.
    #[inline]
    fn load(&self, state: &mut DecoderState) -> PlanInput<'a> {
        let packet = &self.chunk.packet;
        let input = packet.input();
        state.load(&packet.state.slots);
        state.body_bits = self.chunk.body_bits(self.at);
        if packet.plans.needs_header(self.class()) {
            let mut pos = self.chunk.start_bits(self.at);
            let body_bits = std::mem::replace(&mut state.body_bits, pos);
            // The boundary pass has read this header without a fault.
            let _ = packet.plans.header_rows(packet.packet.class).skip(input, &mut pos, state);
            state.body_bits = body_bits;
        }
        input
    }

    /// Shows the event header to a visitor. The state then holds what later scopes refer to.
    pub fn visit_header<V: Visitor>(&self, state: &mut DecoderState, visitor: &mut V) -> Result<(), Fault> {
        let packet = &self.chunk.packet;
        state.load(&packet.state.slots);
        let mut pos = self.chunk.start_bits(self.at);
        state.body_bits = pos;
        packet.plans.header_rows(packet.packet.class).run(packet.input(), &mut pos, state, visitor)
    }
}

/// The fields of an event, being shown.
pub struct EventFields<'a> {
    plan: &'a Plan,
    input: PlanInput<'a>,
    body: u64,
    pos: u64,
    /// The section at `pos`.
    next: usize,
    is_cut: bool,
}

impl EventFields<'_> {
    /// The first bit after what was shown so far, from the start of the packet.
    pub fn position_bits(&self) -> u64 {
        self.pos
    }

    /// Shows one of the scopes common context, specific context and payload; the scopes before them have no fields here.
    ///
    /// Cheapest in this order, since a scope begins where the one before it ends: those that were left out are passed over,
    /// and to go back is to start over.
    #[inline]
    pub fn visit<V: Visitor>(&mut self, scope: Scope, state: &mut DecoderState, visitor: &mut V) -> Result<(), Fault> {
        let Some(section) = (scope as usize).checked_sub(Scope::CommonContext as usize) else { return Ok(()) };
        if section != self.next {
            self.go_to(section, state)?;
        }
        self.run(section, state, visitor)
    }

    /// Shows all scopes before the payload in one go; none of them was shown before.
    ///
    /// # Errors
    /// As for a visit of each.
    #[inline]
    pub fn visit_contexts<V: Visitor>(&mut self, state: &mut DecoderState, visitor: &mut V) -> Result<(), Fault> {
        let contexts = 0..Scope::Payload as usize - Scope::CommonContext as usize;
        if self.is_cut {
            return contexts.into_iter().try_for_each(|section| self.run(section, state, visitor));
        }
        self.next = contexts.end;
        self.plan.run_sections(contexts, self.input, &mut self.pos, state, visitor)
    }

    #[inline]
    fn run<V: Visitor>(&mut self, section: usize, state: &mut DecoderState, visitor: &mut V) -> Result<(), Fault> {
        self.next = section + 1;
        if self.is_cut {
            self.plan.run_cut(section, self.input, &mut self.pos, state, visitor);
            return Ok(());
        }
        self.plan.run_section(section, self.input, &mut self.pos, state, visitor)
    }

    /// Goes to the beginning of a section.
    #[cold]
    fn go_to(&mut self, section: usize, state: &mut DecoderState) -> Result<(), Fault> {
        if section < self.next {
            (self.next, self.pos) = (0, self.body);
        }
        (self.next..section).try_for_each(|before| self.run(before, state, &mut NoVisitor))
    }
}
