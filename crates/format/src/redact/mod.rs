//! Redaction: fields whose values are hidden, and fields that are left out, for all that gets the events.
//!
//! A [`Redaction`] has a schema without the fields that are left out, and a [`Redactor`] rewrites the events of a chunk
//! under it: other values stand in the place of those that are hidden, and everything else is what it was. Consumers of
//! such chunks cannot tell, so every target can write them. Where only integers at fixed places are hidden, the events stay
//! as they were recorded and those are written over; where fields may move by bytes, such integers and texts that end with a
//! null are replaced or left out in events that stay as they were otherwise. Elsewhere the layout is ours ([`crate::remap`], little-endian), the shape that of the input: lengths and
//! selectors stay where they are. Texts that a format synthesizes are kept as they are
//! at that time, as they may show what is hidden.

mod encode;
mod fields;
mod patch;
mod schema;
mod texts;

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::chunk::{Chunk, ChunkSink, EventRef, PacketData};
use tracemill_codec::encode::{Encoder, LooseBits, Shortfalls};
use tracemill_codec::plan::{DecoderState, Fault};
use tracemill_codec::spine::{Spine, SpineSink};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::Result;
use tracemill_model::schema::{ByteOrder, EventClassId, Scope};
use tracemill_semantics::names::is_of_who;

use self::encode::{FieldEncoder, FieldForms, ForPeople};
use self::fields::Dropped;
use self::patch::{ALIGN_BYTES, Patches};
use self::schema::RedactedSchemaBuilder;
use self::texts::{KeptText, NO_TEXT, put_text};

pub use self::fields::FieldPlace;

/// Order of the bytes of redacted events.
const ORDER: ByteOrder = ByteOrder::Little;
/// Bytes before the fields of an event of a stream in which classes stand for many ids: its own id, and where its name is.
const LEAD: u32 = 8;
/// An event is copied with what is after it where the next one begins within so many bits.
const NEAR_BITS: u64 = 4096 * 8;
/// A chunk ends at this size.
const MAX_BYTES: usize = 16 << 20;

/// A trace of which fields are hidden or left out.
pub struct Redaction {
    from: Arc<TracePlans>,
    to: Arc<TracePlans>,
    hidden: Vec<FieldPlace>,
    dropped: Dropped,
    /// Stream classes whose events begin with [`LEAD`].
    leads: Vec<bool>,
    /// `None` where events are written in a layout of ours.
    patches: Option<Patches>,
}

impl Redaction {
    /// Hides the values of some fields of a trace, and leaves others out. Where `hides_tasks`, the environment does not name
    /// a task either.
    ///
    /// # Errors
    /// When other fields could not be read without one of them.
    pub fn new(
        from: &Arc<TracePlans>,
        hidden: &[FieldPlace],
        dropped: &[FieldPlace],
        hides_tasks: bool,
    ) -> Result<Redaction> {
        let schema = from.schema();
        let dropped = fields::droppable(schema, dropped)?;
        fields::refuse_used_values(schema, hidden)?;
        let is_open =
            |events: &HashMap<u64, EventClassId>| events.values().any(|class| schema.event(*class).open_ids.is_some());
        let leads: Vec<bool> = schema.streams().iter().map(|class| is_open(&class.events)).collect();
        let mut to = (**schema).clone();
        // The origin, the trace before a conversion, holds what is hidden, and a summary names members of payloads.
        to.origin = None;
        to.summary = to.summary.filter(|_| dropped.is_empty());
        to.environment.retain(|(key, _)| !hides_tasks || !is_of_who(key));
        let has_leads = leads.contains(&true);
        let patches = (!has_leads).then(|| Patches::new(from, hidden, &dropped)).flatten();
        if patches.is_none() || !dropped.is_empty() {
            RedactedSchemaBuilder::new(schema, &mut to, &dropped, patches.is_some()).build(&leads);
        }
        let to = Arc::new(TracePlans::new(Arc::new(to)));
        Ok(Redaction { from: from.clone(), to, hidden: hidden.to_vec(), dropped, leads, patches })
    }

    /// Plans of the events as they were.
    pub fn from(&self) -> &Arc<TracePlans> {
        &self.from
    }

    /// Plans of the events as they become.
    pub fn redacted_plans(&self) -> &Arc<TracePlans> {
        &self.to
    }
}

/// Rewrites events. One for each stream.
pub struct Redactor {
    redaction: Arc<Redaction>,
    events: Vec<Option<Arc<FieldForms>>>,
    headers: Vec<Option<Arc<FieldForms>>>,
    state: DecoderState,
    texts: Vec<KeptText>,
    shortfalls: Shortfalls,
    loose: LooseBits,
    name: Vec<u8>,
    /// Header and context of the packet that came last.
    prefix: Option<(Arc<PacketData>, Prefix)>,
}

/// The place of a table by the number of its class.
fn slot_of(tables: &mut Vec<Option<Arc<FieldForms>>>, class: u32) -> &mut Option<Arc<FieldForms>> {
    let at = class as usize;
    if tables.len() <= at {
        tables.resize(at + 1, None);
    }
    &mut tables[at]
}

/// Header and context of a packet as they were recorded.
fn recorded_prefix(data: &PacketData) -> Vec<u8> {
    data.input().bytes.get(..data.events_bits.div_ceil(8) as usize).unwrap_or(&[]).to_vec()
}

/// Header and context of a packet.
#[derive(Clone, Default)]
struct Prefix {
    bytes: Vec<u8>,
    context_bits: u64,
}

impl Redactor {
    /// A redactor of chunks of one stream.
    pub fn new(redaction: Arc<Redaction>) -> Self {
        Redactor {
            redaction,
            events: Vec::new(),
            headers: Vec::new(),
            state: DecoderState::default(),
            texts: Vec::new(),
            shortfalls: Shortfalls::default(),
            loose: LooseBits::default(),
            name: Vec::new(),
            prefix: None,
        }
    }

    /// A packet without events.
    pub fn packet(&mut self, data: &PacketData) -> PacketData {
        if self.redaction.patches.is_some() {
            return self.with_bytes(data, recorded_prefix(data), data.spine.as_ref().map(|_| Spine::default()));
        }
        let prefix = self.prefix_of(data);
        self.rewritten(data, prefix.bytes.clone(), &prefix, Spine::default())
    }

    /// The events of a chunk from `from` on, as many as a chunk should hold; the first one that is left. With an error when
    /// the one before that can no longer be read.
    pub fn chunk(&mut self, chunk: &Chunk, from: usize) -> (Chunk, usize, Option<Fault>) {
        let redaction = self.redaction.clone();
        match &redaction.patches {
            Some(patches) if patches.moves => return self.spliced(patches, chunk, from),
            Some(patches) => return self.patched(patches, chunk, from),
            None => {}
        }
        let prefix = match &self.prefix {
            Some((known, prefix)) if PacketData::is_same(known, &chunk.packet) => prefix.clone(),
            _ => {
                let prefix = self.prefix_of(&chunk.packet);
                self.prefix = Some((chunk.packet.clone(), prefix.clone()));
                prefix
            }
        };
        let mut bytes = prefix.bytes.clone();
        let mut spine = Spine::default();
        let (mut at, mut fault) = (from, None);
        while at < chunk.len() && fault.is_none() && bytes.len() < MAX_BYTES {
            let start = bytes.len();
            match self.event(chunk.event(at), &mut bytes, &mut spine) {
                Ok(body) => {
                    spine.push(chunk.class(at), chunk.cycles[at], start as u32 * 8, body as u32 * 8);
                }
                Err(wrong) => {
                    bytes.truncate(start);
                    fault = Some(wrong);
                }
            }
            at += 1;
        }
        let data = Arc::new(self.rewritten(&chunk.packet, bytes, &prefix, spine));
        let count = data.spine.as_ref().map_or(0, Spine::len);
        let mut rewritten = Chunk::new(data.clone(), 0, count);
        if let Some(spine) = &data.spine {
            ChunkSink::new(&mut rewritten, count).events(spine, 0);
        }
        (rewritten, at, fault)
    }

    /// [`Redactor::chunk`] where the layout stays.
    fn patched(&mut self, patches: &Patches, chunk: &Chunk, from: usize) -> (Chunk, usize, Option<Fault>) {
        let packet = &chunk.packet;
        let (mut first, mut last, mut next) = (chunk.start_bits(from), from, from);
        while next < chunk.len() {
            let start = chunk.start_bits(next);
            let range = first.min(start)..chunk.start_bits(last).max(start);
            if range.end - range.start > MAX_BYTES as u64 * 8 {
                break;
            }
            (first, last) = (range.start, if start == range.end { next } else { last });
            next += 1;
        }
        let (mut fault, mut upto) = (None, next);
        let end = chunk.event(last);
        let end_bits = end.cut_bits().map_or_else(|| end.end_bits(&mut self.state), Ok).unwrap_or_else(|wrong| {
            (fault, upto, next) = (Some(wrong), last, last + 1);
            chunk.start_bits(last)
        });
        let input = packet.input();
        let begin = (first / 8) as usize / ALIGN_BYTES * ALIGN_BYTES;
        let mut bytes = recorded_prefix(packet);
        let moved = bytes.len().next_multiple_of(ALIGN_BYTES);
        bytes.resize(moved, 0);
        bytes.extend_from_slice(input.bytes.get(begin..end_bits.div_ceil(8) as usize).unwrap_or(&[]));
        let place = |bits: u64| bits - begin as u64 * 8 + moved as u64 * 8;
        let mut spine = packet.spine.as_ref().map(|_| Spine::default());
        for at in from..upto {
            let (event, body_bits) = (chunk.event(at), chunk.body_bits(at));
            let mut input = input;
            if let Some((spine, end_bits)) = spine.as_mut().zip(event.cut_bits()) {
                spine.cut(place(body_bits) as u32, place(end_bits) as u32);
                input.end_bits = input.end_bits.min(end_bits);
            }
            patches.apply(event, input, body_bits, bytes.get_mut((place(body_bits) / 8) as usize..).unwrap_or(&mut []));
        }
        let mut rewritten = Chunk::new(Arc::new(self.with_bytes(packet, bytes, spine)), 0, upto - from);
        let mut sink = ChunkSink::new(&mut rewritten, upto - from);
        for at in from..upto {
            sink.event(chunk.class(at), chunk.cycles[at], place(chunk.start_bits(at)), place(chunk.body_bits(at)));
        }
        (rewritten, next, fault)
    }

    /// [`Redactor::chunk`] where the layout stays, and fields move.
    fn spliced(&mut self, patches: &Patches, chunk: &Chunk, from: usize) -> (Chunk, usize, Option<Fault>) {
        let packet = &chunk.packet;
        let mut bytes = recorded_prefix(packet);
        let mut spine = Spine::default();
        let (mut at, mut fault) = (from, None);
        while at < chunk.len() && fault.is_none() && bytes.len() < MAX_BYTES {
            let (event, start) = (chunk.event(at), bytes.len());
            let header = (chunk.start_bits(at) / 8) as usize;
            let body = start + (chunk.body_bits(at) / 8) as usize - header;
            let cut = packet.spine.as_ref().and_then(|_| event.cut_bits());
            // Up to the next event is near enough, and costs less than to find the end.
            let next = (at + 1 < chunk.len() && packet.spine.is_none()).then(|| chunk.start_bits(at + 1));
            let near = next.filter(|next| (chunk.body_bits(at)..chunk.body_bits(at) + NEAR_BITS).contains(next));
            let end_bits = cut.or(near).map_or_else(|| event.end_bits(&mut self.state), Ok);
            let copied = end_bits.and_then(|end_bits| {
                let end = end_bits.div_ceil(8) as usize;
                patches.splice(event, (header, end), &mut self.state, &mut bytes)
            });
            match copied {
                Ok(()) => {
                    if cut.is_some() {
                        spine.cut(body as u32 * 8, bytes.len() as u32 * 8);
                    }
                    spine.push(event.class(), event.cycles(), start as u32 * 8, body as u32 * 8);
                }
                Err(wrong) => {
                    bytes.truncate(start);
                    fault = Some(wrong);
                }
            }
            at += 1;
        }
        let cuts = packet.spine.as_ref().map(|_| spine.clone());
        let mut rewritten = Chunk::new(Arc::new(self.with_bytes(packet, bytes, cuts)), 0, spine.len());
        ChunkSink::new(&mut rewritten, spine.len()).events(&spine, 0);
        (rewritten, at, fault)
    }

    /// A packet in its recorded layout with other bytes than those that it was read from.
    fn with_bytes(&self, data: &PacketData, bytes: Vec<u8>, spine: Option<Spine>) -> PacketData {
        let mut packet = data.packet.clone();
        packet.content_bits = bytes.len() as u64 * 8;
        let mut patched = PacketData {
            plans: self.redaction.to.clone(),
            bytes: Arc::new(bytes),
            base_bytes: 0,
            file: data.file.clone(),
            packet,
            spine,
            state: data.state.clone(),
            copied: None,
            ..*data
        };
        if !self.redaction.dropped.is_empty() {
            self.read_prefix(&mut patched, &data.state);
        }
        patched
    }

    /// Finds the lengths and selectors in header and context of a packet that fields of its events refer to.
    fn read_prefix(&self, data: &mut PacketData, recorded: &DecoderState) {
        let (mut state, mut pos) = (DecoderState::new(recorded.clock), 0);
        let _ = self.redaction.to.read_packet_header(data.input(), &mut pos, &mut state);
        pos = data.context_bits;
        let _ = self.redaction.to.read_packet_context(data.packet.class, data.input(), &mut pos, &mut state);
        state.roles = recorded.roles;
        data.state = state;
    }

    /// Writes an event; where its fields begin.
    fn event(
        &mut self,
        event: EventRef<'_>,
        out: &mut Vec<u8>,
        spine: &mut Spine,
    ) -> std::result::Result<usize, Fault> {
        let (class, stream) = (event.class(), event.chunk.packet.packet.class);
        let (redaction, owner) = (self.redaction.clone(), (stream.0, class.0));
        let headers = slot_of(&mut self.headers, stream.0);
        let header = headers.get_or_insert_with(|| {
            Arc::new(FieldForms::new(&redaction, redaction.from.header_rows(stream), owner, &[Scope::EventHeader]))
        });
        let header = header.clone();
        let events = slot_of(&mut self.events, class.0);
        let table = events.get_or_insert_with(|| Arc::new(FieldForms::for_event(&redaction, class, owner)));
        let table = table.clone();
        let start = out.len();
        self.texts.clear();
        let (mut fields, state) = self.fields(out, &header);
        event.visit_header(state, &mut fields)?;
        if header.has_texts {
            let mut people = ForPeople { table: &header, texts: Vec::new() };
            event.visit_header(&mut self.state, &mut people)?;
            self.add_for_people(people.texts, 0);
        }
        self.put_texts(out, start);
        let body = out.len();
        if table.copy(event, out) {
            return Ok(body);
        }
        let has_lead = self.redaction.leads.get(stream.0 as usize) == Some(&true);
        if has_lead {
            self.put_own_id(event, out);
        }
        let (fields, state) = self.fields(out, &table);
        event.visit_flat(state, &mut FieldEncoder { is_cut: event.is_cut(), ..fields })?;
        if event.is_cut() {
            spine.cut(body as u32 * 8, out.len() as u32 * 8);
        }
        if table.has_texts {
            let mut people = ForPeople { table: &table, texts: Vec::new() };
            event.visit_flat(&mut self.state, &mut people)?;
            self.add_for_people(people.texts, usize::from(has_lead));
        }
        self.put_texts(out, body);
        Ok(body)
    }

    fn fields<'a>(
        &'a mut self,
        out: &'a mut Vec<u8>,
        table: &'a FieldForms,
    ) -> (FieldEncoder<'a>, &'a mut DecoderState) {
        let Redactor { texts, shortfalls, loose, state, .. } = self;
        let encoder = Encoder::new(out, &table.encodes, shortfalls, loose);
        (FieldEncoder { encoder, table, texts, bits: 0, is_cut: false, is_over: false }, state)
    }

    /// The id and the name that stand before the fields of an event whose class may stand for many ids.
    fn put_own_id(&mut self, event: EventRef<'_>, out: &mut Vec<u8>) {
        self.name.clear();
        let id = event.own_id(&mut self.name);
        out.extend_from_slice(&id.unwrap_or(0).to_le_bytes());
        self.texts.push(KeptText { place: out.len(), text: id.map(|_| self.name.clone()), for_people: None });
        out.extend_from_slice(&NO_TEXT.to_le_bytes());
    }

    /// The first `skip` of the texts are not among those for people.
    fn add_for_people(&mut self, texts: Vec<Option<Vec<u8>>>, skip: usize) {
        for (kept, text) in self.texts.iter_mut().skip(skip).zip(texts) {
            kept.for_people = text.filter(|text| kept.text.as_ref() != Some(text));
        }
    }

    /// Writes texts after the fields that begin at `base`.
    fn put_texts(&mut self, out: &mut Vec<u8>, base: usize) {
        for kept in self.texts.drain(..) {
            let Some(text) = kept.text else { continue };
            let offset = (out.len() - base) as u32;
            if let Some(place) = out.get_mut(kept.place..kept.place + 4) {
                place.copy_from_slice(&offset.to_le_bytes());
            }
            put_text(out, &text);
            out.push(kept.for_people.is_some().into());
            if let Some(text) = kept.for_people {
                put_text(out, &text);
            }
        }
    }

    /// Header and context of a packet, redacted.
    fn prefix_of(&mut self, data: &PacketData) -> Prefix {
        let redaction = self.redaction.clone();
        let (from, class) = (&redaction.from, data.packet.class);
        let mut bytes = Vec::new();
        if from.schema().packet_header.is_some() {
            let plan = from.packet_header_rows();
            let table = FieldForms::new(&redaction, plan, (class.0, 0), &[Scope::PacketHeader]);
            let (mut state, mut pos) = (DecoderState::default(), 0);
            // It was read when the packet was opened.
            let _ = plan.run(data.input(), &mut pos, &mut state, &mut self.fields(&mut bytes, &table).0);
            self.put_texts(&mut bytes, 0);
        }
        let context_bits = bytes.len() as u64 * 8;
        if from.schema().stream(class).packet_context.is_some() {
            let table =
                FieldForms::new(&redaction, from.packet_context_rows(class), (class.0, 0), &[Scope::PacketContext]);
            let _ = data.visit_context(&mut self.fields(&mut bytes, &table).0);
            self.put_texts(&mut bytes, 0);
        }
        Prefix { bytes, context_bits }
    }

    /// A packet with other bytes than those that it was read from.
    fn rewritten(&self, data: &PacketData, bytes: Vec<u8>, prefix: &Prefix, spine: Spine) -> PacketData {
        let mut packet = data.packet.clone();
        packet.content_bits = bytes.len() as u64 * 8;
        let mut rewritten = PacketData::found(&self.redaction.to, &data.file, packet, (Arc::new(bytes), 0), spine);
        (rewritten.cpu, rewritten.context_bits, rewritten.events_bits) =
            (data.cpu, prefix.context_bits, prefix.bytes.len() as u64 * 8);
        self.read_prefix(&mut rewritten, &data.state);
        rewritten
    }
}
