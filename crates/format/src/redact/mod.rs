//! Redaction: events of which fields are hidden or left out, for targets that show what they get.
//!
//! A [`Redaction`] has a schema without the fields that are left out, and a [`Redactor`] writes the events of a chunk anew under
//! it: other values stand in the place of those that are hidden, and everything else is what it was. Whoever gets such
//! chunks cannot tell, so every target can write them. The layout is ours (each field at a whole byte, little-endian), the
//! shape that of the input: lengths and selectors stay where they are. Texts that a format makes are made before, as they
//! may show what is hidden.

mod fields;

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::bits::Wide;
use tracemill_codec::chunk::{Chunk, ChunkSink, EventRef, PacketData};
use tracemill_codec::encode::{Encode, Encoder, LooseBits, Shortfalls, text_pseudonym};
use tracemill_codec::plan::{Fault, NodeId, Plan, State, Visitor};
use tracemill_codec::spine::{Spine, SpineSink};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::Result;
use tracemill_model::schema::{
    ArrayClass, BitsClass, BlobClass, ByteOrder, EventClassId, FieldClass, FieldClassId, FieldKind, FieldPath,
    FloatClass, IntegerClass, Length, Member, OpenIds, OptionalClass, PathStep, Place, Placement, Render,
    RenderedClass, Schema, Scope, StreamClassId, StringClass, StringLength, StructClass, VariantClass, VariantOption,
};

pub use self::fields::{Dropped, FieldPlace, child_of, droppable, owner_of, refuse_used_values};

const ORDER: ByteOrder = ByteOrder::Little;
/// Bytes before the fields of an event of a stream in which classes stand for many ids: its own id, and where its name is.
const LEAD: u32 = 8;
/// A chunk ends at this size.
const MAX_BYTES: usize = 16 << 20;
/// Says that there is no text.
const NO_TEXT: u32 = u32::MAX;

/// A trace of which fields are hidden or left out.
pub struct Redaction {
    from: Arc<TracePlans>,
    to: Arc<TracePlans>,
    hidden: Vec<FieldPlace>,
    dropped: Dropped,
    /// Stream classes whose events begin with [`LEAD`].
    leads: Vec<bool>,
}

impl Redaction {
    /// Hides the values of some fields of a trace, and leaves others out.
    ///
    /// # Errors
    /// When other fields could not be read without one of them.
    pub fn new(from: &Arc<TracePlans>, hidden: &[FieldPlace], dropped: &[FieldPlace]) -> Result<Redaction> {
        let schema = from.schema();
        let dropped = fields::droppable(schema, dropped)?;
        fields::refuse_used_values(schema, hidden)?;
        let is_open =
            |events: &HashMap<u64, EventClassId>| events.values().any(|class| schema.event(*class).open_ids.is_some());
        let leads: Vec<bool> = schema.streams().iter().map(|class| is_open(&class.events)).collect();
        let mut to = (**schema).clone();
        // What it was before a conversion holds what is hidden, and a summary names members of payloads.
        to.origin = None;
        to.summary = to.summary.filter(|_| dropped.is_empty());
        let mut builder = Builder::new(schema, &mut to, &dropped);
        builder.build(&leads);
        let to = Arc::new(TracePlans::new(Arc::new(to)));
        Ok(Redaction { from: from.clone(), to, hidden: hidden.to_vec(), dropped, leads })
    }

    /// Plans of the events as they were.
    pub fn from(&self) -> &Arc<TracePlans> {
        &self.from
    }

    /// Plans of the events as they become.
    pub fn to(&self) -> &Arc<TracePlans> {
        &self.to
    }
}

/// Makes the classes of the output.
struct Builder<'a> {
    from: &'a Schema,
    to: &'a mut Schema,
    dropped: &'a Dropped,
    /// Classes that are made already, where none of them may lack a member.
    known: HashMap<FieldClassId, FieldClassId>,
    owner: (u32, u32),
    scope: Scope,
    way: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(from: &'a Schema, to: &'a mut Schema, dropped: &'a Dropped) -> Self {
        let (known, way) = (HashMap::new(), Vec::new());
        Builder { from, to, dropped, known, owner: (0, 0), scope: Scope::PacketHeader, way }
    }

    fn build(&mut self, leads: &[bool]) {
        self.to.packet_header = self.root(Scope::PacketHeader, self.from.packet_header);
        let from = self.from;
        for (at, class) in from.streams().iter().enumerate() {
            self.owner = (at as u32, 0);
            let packet_context = self.root(Scope::PacketContext, class.packet_context);
            let event_header = self.root(Scope::EventHeader, class.event_header);
            let common_context = self.root(Scope::CommonContext, class.common_context);
            let common_context = common_context.map(|root| self.behind_lead(root, leads[at]));
            let to = self.to.stream_mut(StreamClassId(at as u32));
            (to.packet_context, to.event_header, to.common_context) = (packet_context, event_header, common_context);
        }
        for (at, class) in from.events().iter().enumerate() {
            self.owner = (class.stream.0, at as u32);
            let has_lead = leads[class.stream.0 as usize];
            let mut is_first = self.to.stream(class.stream).common_context.is_none();
            let mut roots = [None; 2];
            let scopes = [(Scope::SpecificContext, class.specific_context), (Scope::Payload, class.payload)];
            for (place, (scope, root)) in roots.iter_mut().zip(scopes) {
                let Some(root) = self.root(scope, root) else { continue };
                *place = Some(self.behind_lead(root, has_lead && std::mem::take(&mut is_first)));
            }
            let to = self.to.event_mut(EventClassId(at as u32));
            [to.specific_context, to.payload] = roots;
            if to.open_ids.is_some() {
                to.open_ids = Some(OpenIds { offset_bytes: 0, name: Arc::new(OwnName) });
            }
        }
    }

    /// A root whose events have something before it.
    fn behind_lead(&mut self, root: FieldClassId, has_lead: bool) -> FieldClassId {
        if !has_lead {
            return root;
        }
        let class = self.to.field_class(root).clone();
        self.to.add_field_class(class.at(Place::At { offset_bytes: LEAD }))
    }

    fn root(&mut self, scope: Scope, id: Option<FieldClassId>) -> Option<FieldClassId> {
        self.scope = scope;
        let made = id.map(|id| self.class(id))?;
        if scope >= Scope::CommonContext {
            return Some(made);
        }
        // What follows a header begins at a whole byte, whatever stands there.
        let class = self.to.field_class(made).clone();
        let placement = Placement { end_align_bits: 8, ..class.placement };
        Some(self.to.add_field_class(class.with_placement(placement)))
    }

    fn inside(&mut self, child: u32, id: FieldClassId) -> FieldClassId {
        self.way.push(child);
        let class = self.class(id);
        self.way.pop();
        class
    }

    fn class(&mut self, id: FieldClassId) -> FieldClassId {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let class = self.from.field_class(id);
        let kind = self.kind(&class.kind);
        let align_bits = match &kind {
            FieldKind::Struct(structure) => self.to.struct_align_bits(&structure.members, 1),
            FieldKind::Array(array) => self.to.field_class(array.element).align_bits.max(8),
            FieldKind::Optional(_) | FieldKind::Variant(_) => 1,
            _ => 8,
        };
        let made = self.to.add_field_class(FieldClass::new(kind, align_bits).with_roles(class.roles));
        if self.dropped.is_empty() {
            self.known.insert(id, made);
        }
        made
    }

    fn kind(&mut self, kind: &FieldKind) -> FieldKind {
        match kind {
            FieldKind::Integer(class) => {
                FieldKind::Integer(IntegerClass { byte_order: ORDER, reversed_bits: false, ..class.clone() })
            }
            FieldKind::BitArray(class) => FieldKind::BitArray(bits(class)),
            FieldKind::BitMap(class) => FieldKind::BitMap(bits(class)),
            FieldKind::Boolean(class) => FieldKind::Boolean(BitsClass { len_bits: 8, ..bits(class) }),
            FieldKind::Float(class) => FieldKind::Float(FloatClass {
                len_bits: if class.len_bits == 32 { 32 } else { 64 },
                byte_order: ORDER,
                reversed_bits: false,
            }),
            FieldKind::String(class) => {
                FieldKind::String(StringClass { encoding: class.encoding, length: StringLength::NullTerminated })
            }
            FieldKind::Blob(class) => {
                let media_type = class.media_type.clone();
                FieldKind::Blob(BlobClass { length: self.length(&class.length), media_type })
            }
            FieldKind::Rendered(_) => FieldKind::Rendered(RenderedClass { len_bytes: 4, render: Arc::new(Kept) }),
            FieldKind::Struct(class) => {
                let mut members = Vec::with_capacity(class.members.len());
                for (at, member) in (0..).zip(&class.members) {
                    if !is_dropped(self.dropped, self.owner, self.scope, &self.way, at) {
                        let class = self.inside(at, member.class);
                        members.push(Member { class, ..member.clone() });
                    }
                }
                FieldKind::Struct(StructClass { members })
            }
            FieldKind::Array(class) => {
                let element = match bit_of(self.from, class) {
                    // Where bits say which fields are there, their places count.
                    Some(bit) => self.to.add_field_class(FieldClass::new(FieldKind::Integer(bit.clone()), 1)),
                    None => self.inside(0, class.element),
                };
                FieldKind::Array(ArrayClass { element, length: self.length(&class.length) })
            }
            FieldKind::Optional(class) => FieldKind::Optional(OptionalClass {
                selector: self.path(&class.selector),
                presence: class.presence.clone(),
                content: self.inside(0, class.content),
            }),
            FieldKind::Variant(class) => {
                let options = (0..).zip(&class.options);
                let options = options.map(|(at, option)| {
                    let class = self.inside(at, option.class);
                    VariantOption { class, ..option.clone() }
                });
                let options = options.collect();
                FieldKind::Variant(VariantClass { selector: self.path(&class.selector), options })
            }
        }
    }

    /// A length that no field says stands before what has it.
    fn length(&mut self, length: &Length) -> Length {
        match length {
            Length::Static(len) => Length::Static(*len),
            Length::Field(path) => Length::Field(self.path(path)),
            Length::Table { selector, lengths } => {
                Length::Table { selector: self.path(selector), lengths: lengths.clone() }
            }
            Length::Inline(_) | Length::Located => {
                let class = FieldKind::Integer(IntegerClass::unsigned(64));
                Length::Inline(self.to.add_field_class(FieldClass::new(class, 8)))
            }
        }
    }

    /// A path of the input in the output: without the members before it that are left out.
    fn path(&self, path: &FieldPath) -> FieldPath {
        let mut way = Vec::with_capacity(path.steps.len());
        let mut steps = Vec::with_capacity(path.steps.len());
        for step in &path.steps {
            steps.push(match *step {
                PathStep::Member(at) if !self.dropped.is_empty() => {
                    let is_gone = |at: &u32| is_dropped(self.dropped, self.owner, path.scope, &way, *at);
                    PathStep::Member(at - (0..at).filter(is_gone).count() as u32)
                }
                step => step,
            });
            way.push(child_of(step));
        }
        FieldPath { scope: path.scope, steps }
    }
}

fn is_dropped(dropped: &Dropped, owner: (u32, u32), scope: Scope, way: &[u32], member: u32) -> bool {
    !dropped.is_empty()
        && dropped.contains(&(owner_of(scope, owner), scope, way.iter().copied().chain([member]).collect()))
}

fn bits(class: &BitsClass) -> BitsClass {
    BitsClass { byte_order: ORDER, reversed_bits: false, ..class.clone() }
}

/// The class of the elements of an array of single bits.
fn bit_of<'a>(schema: &'a Schema, array: &ArrayClass) -> Option<&'a IntegerClass> {
    match &schema.field_class(array.element).kind {
        FieldKind::Integer(class) if class.len_bits == 1 && !class.reversed_bits => Some(class),
        _ => None,
    }
}

/// How a node of a plan is written.
#[derive(Clone, Copy, Debug)]
enum Written {
    /// It is left out.
    Nothing,
    /// As the encoder does it.
    Field(Encode),
    /// An array of bits.
    Bits(Encode),
    /// One of them.
    Bit { order: ByteOrder, is_hidden: bool },
    /// A text that a format makes.
    Text { is_hidden: bool },
    /// Nothing but its content.
    Optional,
}

/// How the nodes of a plan are written.
struct Table {
    written: Box<[Written]>,
    encodes: Box<[Encode]>,
    has_texts: bool,
}

impl Table {
    fn new(redaction: &Redaction, plan: &Plan, owner: (u32, u32), scopes: &[Scope]) -> Table {
        let schema = redaction.from.schema();
        let count = plan.nodes.len();
        let mut written = vec![Written::Nothing; count];
        // For each node: its scope, the way down to it, and whether it is hidden or left out.
        let mut places: Vec<(Scope, Vec<u32>, bool, bool)> =
            vec![(Scope::PacketHeader, Vec::new(), false, false); count];
        let mut children = vec![0u32; count];
        for (root, scope) in plan.roots.iter().zip(scopes) {
            if let Some(place) = root.and_then(|root| places.get_mut(root as usize)) {
                place.0 = *scope;
            }
        }
        for (at, node) in plan.nodes.iter().enumerate() {
            let parent = node.parent as usize;
            let mut is_bit = None;
            if parent != at {
                let index = children[parent];
                children[parent] += 1;
                let (scope, mut way, is_hidden, is_gone) = places[parent].clone();
                let is_gone = is_gone || is_dropped(&redaction.dropped, owner, scope, &way, index);
                way.push(index);
                let is_own =
                    |field: &FieldPlace| field.class.0 == owner.1 && field.scope == scope && field.children == way;
                let is_hidden = is_hidden || redaction.hidden.iter().any(is_own);
                places[at] = (scope, way, is_hidden, is_gone);
                if let FieldKind::Array(array) = &schema.field_class(plan.nodes[parent].class).kind {
                    is_bit = bit_of(schema, array);
                }
            } else {
                let scope = places[at].0;
                places[at].2 = redaction.hidden.iter().any(|field| field.is_all_of(owner.1, scope));
            }
            let (_, _, is_hidden, is_gone) = places[at];
            let hide = |encode: Encode| if is_hidden { encode.hidden() } else { encode };
            written[at] = match (&schema.field_class(node.class).kind, is_bit) {
                _ if is_gone => Written::Nothing,
                (_, Some(bit)) => Written::Bit { order: bit.byte_order, is_hidden },
                (FieldKind::Rendered(_), _) => Written::Text { is_hidden },
                (FieldKind::Array(array), _) if bit_of(schema, array).is_some() => {
                    Written::Bits(counted(&array.length, Encode::Parts))
                }
                (FieldKind::Optional(_), _) => Written::Optional,
                (kind, _) => Written::Field(hide(encode_of(kind))),
            };
        }
        let encodes = written.iter().map(|written| match written {
            Written::Field(encode) | Written::Bits(encode) => *encode,
            _ => Encode::Parts,
        });
        let has_texts = written.iter().any(|written| matches!(written, Written::Text { .. }));
        Table { encodes: encodes.collect(), written: written.into(), has_texts }
    }

    fn written(&self, node: NodeId) -> Written {
        self.written.get(node as usize).copied().unwrap_or(Written::Nothing)
    }
}

fn encode_of(kind: &FieldKind) -> Encode {
    let fixed = |len_bits: u32, signed: bool| match u8::try_from(len_bits) {
        Ok(len_bits) if len_bits <= 64 => Encode::Fixed { len_bits, order: ORDER },
        _ => Encode::Wide { len_bits, order: ORDER, signed },
    };
    match kind {
        FieldKind::Integer(class) if class.is_variable_length() => Encode::Leb,
        FieldKind::Integer(class) => fixed(class.len_bits, class.signed),
        FieldKind::BitArray(class) | FieldKind::BitMap(class) => fixed(class.len_bits, false),
        FieldKind::Boolean(_) => Encode::Boolean,
        FieldKind::Float(class) if class.len_bits == 32 => Encode::Float32(ORDER),
        FieldKind::Float(_) => Encode::Float64(ORDER),
        FieldKind::String(class) => Encode::Text(class.encoding),
        FieldKind::Blob(class) => counted(&class.length, Encode::Bytes),
        FieldKind::Array(class) => counted(&class.length, Encode::Parts),
        _ => Encode::Parts,
    }
}

/// The length stands before the elements where [`Builder::length`] says so.
fn counted(length: &Length, plain: Encode) -> Encode {
    match length {
        Length::Static(_) | Length::Field(_) | Length::Table { .. } => plain,
        Length::Inline(_) | Length::Located => Encode::Counted(ORDER),
    }
}

/// A text behind the fields of an event: what programs get, and what people do where that is something else.
#[derive(Default)]
struct KeptText {
    /// Where its offset belongs.
    place: usize,
    text: Option<Vec<u8>>,
    for_people: Option<Vec<u8>>,
}

/// Writes fields.
struct Fields<'a> {
    encoder: Encoder<'a>,
    table: &'a Table,
    texts: &'a mut Vec<KeptText>,
    /// Bits of the array so far.
    bits: u64,
    /// Does the event end before its last field?
    is_cut: bool,
    /// It does here.
    is_over: bool,
}

impl Fields<'_> {
    fn written(&self, node: NodeId) -> Written {
        if self.is_over { Written::Nothing } else { self.table.written(node) }
    }

    fn text(&mut self, text: Option<Vec<u8>>) {
        let place = self.encoder.out.len();
        self.encoder.out.extend_from_slice(&NO_TEXT.to_le_bytes());
        self.texts.push(KeptText { place, text, for_people: None });
    }

    fn integer(&mut self, node: NodeId, value: u64, signed: bool) {
        match self.written(node) {
            Written::Field(_) if signed => self.encoder.signed(node, value as i64),
            Written::Field(_) => self.encoder.unsigned(node, value),
            Written::Bit { order, is_hidden } => {
                let bit = if is_hidden { 0 } else { (value & 1) as u8 };
                let shift = if order == ByteOrder::Little { self.bits % 8 } else { 7 - self.bits % 8 };
                if self.bits.is_multiple_of(8) {
                    self.encoder.out.push(0);
                }
                if let Some(last) = self.encoder.out.last_mut() {
                    *last |= bit << shift;
                }
                self.bits += 1;
            }
            _ => {}
        }
    }
}

impl Visitor for Fields<'_> {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.integer(node, value, false);
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        self.integer(node, value as u64, true);
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        if let Written::Field(_) = self.written(node) {
            self.encoder.wide(node, value);
        }
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        if let Written::Field(_) = self.written(node) {
            self.encoder.boolean(node, value);
        }
    }

    fn real(&mut self, node: NodeId, value: f64) {
        if let Written::Field(_) = self.written(node) {
            self.encoder.real(node, value);
        }
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        match self.written(node) {
            Written::Field(_) => self.encoder.string(node, bytes),
            Written::Text { is_hidden: true } => self.text(Some(text_pseudonym(bytes).into_bytes())),
            Written::Text { is_hidden: false } => self.text(Some(bytes.to_vec())),
            _ => {}
        }
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        if let Written::Field(_) = self.written(node) {
            self.encoder.blob(node, bytes);
        }
    }

    fn begin_array(&mut self, node: NodeId, len: u64) {
        if let Written::Field(_) | Written::Bits(_) = self.written(node) {
            self.encoder.begin_array(node, len);
            self.bits = 0;
        }
    }

    fn absent(&mut self, node: NodeId) {
        match self.written(node) {
            Written::Text { .. } => self.text(None),
            Written::Optional | Written::Nothing => {}
            // It is behind the end, and so is all that follows.
            Written::Field(_) | Written::Bits(_) | Written::Bit { .. } => self.is_over = self.is_cut,
        }
    }
}

/// Collects the texts that a format makes, as people get them.
struct ForPeople<'a> {
    table: &'a Table,
    texts: Vec<Option<Vec<u8>>>,
}

impl Visitor for ForPeople<'_> {
    const FOR_PEOPLE: bool = true;

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        match self.table.written(node) {
            // There is only one form of what stands for it.
            Written::Text { is_hidden: true } => self.texts.push(None),
            Written::Text { is_hidden: false } => self.texts.push(Some(bytes.to_vec())),
            _ => {}
        }
    }

    fn absent(&mut self, node: NodeId) {
        if let Written::Text { .. } = self.table.written(node) {
            self.texts.push(None);
        }
    }
}

/// Shows a text that stands behind the fields.
#[derive(Debug)]
struct Kept;

impl Kept {
    /// The text at an offset, and where what follows it is.
    fn at(event: &[u8], offset: usize) -> Option<(&[u8], usize)> {
        let len = u32::from_le_bytes(*event.get(offset..)?.first_chunk()?) as usize;
        let from = offset.checked_add(4)?;
        Some((event.get(from..from.checked_add(len)?)?, from + len))
    }

    fn offset(own: &[u8]) -> Option<usize> {
        let offset = u32::from_le_bytes(*own.first_chunk()?);
        (offset != NO_TEXT).then_some(offset as usize)
    }
}

impl Render for Kept {
    fn render(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let text = Kept::offset(own).and_then(|offset| Kept::at(event, offset));
        out.extend_from_slice(text.map_or(&[], |(text, _)| text));
        text.is_some()
    }

    fn text<'a>(&'a self, event: &'a [u8], own: &'a [u8], _scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        Kept::offset(own).and_then(|offset| Kept::at(event, offset)).map(|(text, _)| text)
    }

    fn render_for_people(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let Some((text, next)) = Kept::offset(own).and_then(|offset| Kept::at(event, offset)) else { return false };
        let text = match event.get(next) {
            Some(1) => Kept::at(event, next + 1).map_or(text, |(text, _)| text),
            _ => text,
        };
        out.extend_from_slice(text);
        true
    }
}

/// Shows the name that an event of a class of many ids has.
#[derive(Debug)]
struct OwnName;

impl Render for OwnName {
    fn render(&self, event: &[u8], _own: &[u8], out: &mut Vec<u8>) -> bool {
        event.get(4..8).is_some_and(|offset| Kept.render(event, offset, out))
    }
}

/// Writes events anew. One for each stream.
pub struct Redactor {
    redaction: Arc<Redaction>,
    events: HashMap<u32, Arc<Table>>,
    headers: HashMap<u32, Arc<Table>>,
    state: State,
    texts: Vec<KeptText>,
    shortfalls: Shortfalls,
    loose: LooseBits,
    name: Vec<u8>,
    /// What stands before the events of the packet that came last.
    prefix: Option<(Arc<PacketData>, Prefix)>,
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
            events: HashMap::new(),
            headers: HashMap::new(),
            state: State::default(),
            texts: Vec::new(),
            shortfalls: Shortfalls::default(),
            loose: LooseBits::default(),
            name: Vec::new(),
            prefix: None,
        }
    }

    /// A packet without events.
    pub fn packet(&mut self, data: &PacketData) -> PacketData {
        let prefix = self.prefix_of(data);
        self.made(data, prefix.bytes.clone(), &prefix, Spine::default())
    }

    /// The events of a chunk from `from` on, as many as a chunk should hold; the first one that is left. With a fault when
    /// the one before that can no longer be read.
    pub fn chunk(&mut self, chunk: &Chunk, from: usize) -> (Chunk, usize, Option<Fault>) {
        let prefix = match &self.prefix {
            Some((known, prefix)) if Arc::ptr_eq(known, &chunk.packet) => prefix.clone(),
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
        let data = Arc::new(self.made(&chunk.packet, bytes, &prefix, spine));
        let count = data.spine.as_ref().map_or(0, Spine::len);
        let mut made = Chunk::new(data.clone(), 0, count);
        if let Some(spine) = &data.spine {
            ChunkSink::new(&mut made, count).events(spine, 0);
        }
        (made, at, fault)
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
        let header = self.headers.entry(stream.0).or_insert_with(|| {
            Arc::new(Table::new(&redaction, redaction.from.header_rows(stream), owner, &[Scope::EventHeader]))
        });
        let header = header.clone();
        let table = self.events.entry(class.0).or_insert_with(|| {
            let scopes = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
            Arc::new(Table::new(&redaction, redaction.from.event_rows(class), owner, &scopes))
        });
        let table = table.clone();
        let start = out.len();
        self.texts.clear();
        let mut state = std::mem::take(&mut self.state);
        let result = event.visit_header(&mut state, &mut self.fields(out, &header));
        self.state = state;
        result?;
        if header.has_texts {
            let mut people = ForPeople { table: &header, texts: Vec::new() };
            event.visit_header(&mut self.state, &mut people)?;
            self.add_for_people(people.texts, 0);
        }
        self.put_texts(out, start);
        let body = out.len();
        let has_lead = self.redaction.leads.get(stream.0 as usize) == Some(&true);
        if has_lead {
            self.put_own_id(event, out);
        }
        let mut state = std::mem::take(&mut self.state);
        let mut fields = Fields { is_cut: event.is_cut(), ..self.fields(out, &table) };
        let result = event.visit_flat(&mut state, &mut fields);
        self.state = state;
        result?;
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

    fn fields<'a>(&'a mut self, out: &'a mut Vec<u8>, table: &'a Table) -> Fields<'a> {
        let Redactor { texts, shortfalls, loose, .. } = self;
        let encoder = Encoder { out, nodes: &table.encodes, selectors_at: 0, shortfalls, loose };
        Fields { encoder, table, texts, bits: 0, is_cut: false, is_over: false }
    }

    /// What stands before the fields of an event whose class may stand for many ids.
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

    /// Writes texts behind the fields that begin at `base`.
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

    fn prefix_of(&mut self, data: &PacketData) -> Prefix {
        let redaction = self.redaction.clone();
        let (from, class) = (&redaction.from, data.packet.class);
        let mut bytes = Vec::new();
        if from.schema().packet_header.is_some() {
            let plan = from.packet_header_rows();
            let table = Table::new(&redaction, plan, (class.0, 0), &[Scope::PacketHeader]);
            let (mut state, mut pos) = (State::default(), 0);
            // It was read when the packet was opened.
            let _ = plan.run(data.input(), &mut pos, &mut state, &mut self.fields(&mut bytes, &table));
            self.put_texts(&mut bytes, 0);
        }
        let context_bits = bytes.len() as u64 * 8;
        if from.schema().stream(class).packet_context.is_some() {
            let table = Table::new(&redaction, from.packet_context_rows(class), (class.0, 0), &[Scope::PacketContext]);
            let _ = data.visit_context(&mut self.fields(&mut bytes, &table));
            self.put_texts(&mut bytes, 0);
        }
        Prefix { bytes, context_bits }
    }

    fn made(&self, data: &PacketData, bytes: Vec<u8>, prefix: &Prefix, spine: Spine) -> PacketData {
        let mut packet = data.packet.clone();
        packet.content_bits = bytes.len() as u64 * 8;
        let mut made = PacketData::found(&self.redaction.to, &data.file, packet, (Arc::new(bytes), 0), spine);
        (made.cpu, made.context_bits, made.events_bits) =
            (data.cpu, prefix.context_bits, prefix.bytes.len() as u64 * 8);
        // What fields of events refer to.
        let (mut state, mut pos) = (State::new(data.state.clock), 0);
        let _ = self.redaction.to.read_packet_header(made.input(), &mut pos, &mut state);
        pos = prefix.context_bits;
        let _ = self.redaction.to.read_packet_context(data.packet.class, made.input(), &mut pos, &mut state);
        state.roles = data.state.roles;
        made.state = state;
        made
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}
