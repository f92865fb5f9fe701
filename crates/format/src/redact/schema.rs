//! The schema of a redacted trace.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_model::schema::{
    ArrayClass, BitsClass, BlobClass, EventClassId, FieldClass, FieldClassId, FieldKind, FieldOffset, FieldPath,
    IntegerClass, Length, Member, OpenIds, OptionalClass, PathStep, Placement, RenderedClass, Schema, Scope,
    StreamClassId, StringClass, StringLength, StructClass, VariantClass, VariantOption,
};

use super::fields::{Dropped, child_of};
use super::texts::{OwnName, TrailingText};
use super::{LEAD, ORDER};
use crate::remap::{self, owner_of};

/// Makes the classes of the output.
pub(super) struct RedactedSchemaBuilder<'a> {
    from: &'a Schema,
    to: &'a mut Schema,
    dropped: &'a Dropped,
    /// Does every field stay as it was recorded, but for those that are left out?
    keeps_layout: bool,
    /// Classes that are made already, where none of them may lack a member.
    known: HashMap<FieldClassId, FieldClassId>,
    owner: (u32, u32),
    scope: Scope,
    way: Vec<u32>,
}

impl<'a> RedactedSchemaBuilder<'a> {
    pub(super) fn new(from: &'a Schema, to: &'a mut Schema, dropped: &'a Dropped, keeps_layout: bool) -> Self {
        let (known, way) = (HashMap::new(), Vec::new());
        RedactedSchemaBuilder { from, to, dropped, keeps_layout, known, owner: (0, 0), scope: Scope::PacketHeader, way }
    }

    pub(super) fn build(&mut self, leads: &[bool]) {
        self.to.packet_header = self.root(Scope::PacketHeader, self.from.packet_header);
        let from = self.from;
        for (at, class) in from.streams().iter().enumerate() {
            self.owner = (at as u32, 0);
            let packet_context = self.root(Scope::PacketContext, class.packet_context);
            let event_header = self.root(Scope::EventHeader, class.event_header);
            let common_context = self.root(Scope::CommonContext, class.common_context);
            let common_context = common_context.map(|root| self.with_lead(root, leads[at]));
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
                *place = Some(self.with_lead(root, has_lead && std::mem::take(&mut is_first)));
            }
            let to = self.to.event_mut(EventClassId(at as u32));
            [to.specific_context, to.payload] = roots;
            if to.open_ids.is_some() {
                to.open_ids = Some(OpenIds { offset_bytes: 0, name: Arc::new(OwnName) });
            }
        }
    }

    /// A root whose events have something before it.
    fn with_lead(&mut self, root: FieldClassId, has_lead: bool) -> FieldClassId {
        if !has_lead {
            return root;
        }
        let class = self.to.field_class(root).clone();
        self.to.add_field_class(class.with_offset(FieldOffset::At { offset_bytes: LEAD }))
    }

    fn root(&mut self, scope: Scope, id: Option<FieldClassId>) -> Option<FieldClassId> {
        self.scope = scope;
        if self.keeps_layout && scope < Scope::CommonContext {
            return id;
        }
        let made = id.map(|id| self.class(id))?;
        if scope >= Scope::CommonContext {
            return Some(made);
        }
        // The part after a header begins at a whole byte, whatever its class.
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
        if self.keeps_layout {
            let kind = self.kind_kept(&class.kind);
            return self.to.add_field_class(FieldClass { kind, ..class.clone() });
        }
        let kind = self.kind(&class.kind);
        let made = remap::add(self.to, kind);
        let made = self.to.field_class(made).clone().with_roles(class.roles);
        // Fields after an array of single bits begin at a whole byte, and so does an array that follows another one.
        let align_bits =
            if matches!(made.kind, FieldKind::Array(_)) { made.align_bits.max(8) } else { made.align_bits };
        let made = self.to.add_field_class(FieldClass { align_bits, ..made });
        if self.dropped.is_empty() {
            self.known.insert(id, made);
        }
        made
    }

    fn kind(&mut self, kind: &FieldKind) -> FieldKind {
        match kind {
            FieldKind::Integer(class) => FieldKind::Integer(remap::integer(class, ORDER)),
            FieldKind::BitArray(class) => FieldKind::BitArray(remap::bits(class, ORDER)),
            FieldKind::BitMap(class) => FieldKind::BitMap(remap::bits(class, ORDER)),
            FieldKind::Boolean(class) => FieldKind::Boolean(BitsClass { len_bits: 8, ..remap::bits(class, ORDER) }),
            FieldKind::Float(class) => FieldKind::Float(remap::float(class, ORDER)),
            FieldKind::String(class) => {
                FieldKind::String(StringClass { encoding: class.encoding, length: StringLength::NullTerminated })
            }
            FieldKind::Blob(class) => {
                let media_type = class.media_type.clone();
                FieldKind::Blob(BlobClass { length: self.length(&class.length), media_type })
            }
            FieldKind::Rendered(_) => {
                FieldKind::Rendered(RenderedClass { len_bytes: 4, render: Arc::new(TrailingText) })
            }
            FieldKind::Struct(class) => self.structure(class),
            FieldKind::Array(class) => {
                let element = match bit_of(self.from, class) {
                    // Where bits say which fields are there, their places count.
                    Some(bit) => self.to.add_field_class(FieldClass::new(FieldKind::Integer(bit.clone()), 1)),
                    None => self.inside(0, class.element),
                };
                FieldKind::Array(ArrayClass { element, length: self.length(&class.length) })
            }
            FieldKind::Optional(class) => self.optional(class),
            FieldKind::Variant(class) => self.variant(class),
        }
    }

    /// A field as it was recorded, without what is left out of it.
    fn kind_kept(&mut self, kind: &FieldKind) -> FieldKind {
        match kind {
            FieldKind::Struct(class) => self.structure(class),
            FieldKind::Array(class) => FieldKind::Array(ArrayClass {
                element: self.inside(0, class.element),
                length: self.length_kept(&class.length),
            }),
            FieldKind::String(StringClass { encoding, length: StringLength::Bytes(length) }) => {
                let length = StringLength::Bytes(self.length_kept(length));
                FieldKind::String(StringClass { encoding: *encoding, length })
            }
            FieldKind::Blob(class) => {
                FieldKind::Blob(BlobClass { length: self.length_kept(&class.length), ..class.clone() })
            }
            FieldKind::Optional(class) => self.optional(class),
            FieldKind::Variant(class) => self.variant(class),
            leaf => leaf.clone(),
        }
    }

    fn structure(&mut self, class: &StructClass) -> FieldKind {
        let mut members = Vec::with_capacity(class.members.len());
        for (at, member) in (0..).zip(&class.members) {
            if !is_dropped(self.dropped, self.owner, self.scope, &self.way, at) {
                let class = self.inside(at, member.class);
                members.push(Member { class, ..member.clone() });
            }
        }
        FieldKind::Struct(StructClass { members })
    }

    fn optional(&mut self, class: &OptionalClass) -> FieldKind {
        FieldKind::Optional(OptionalClass {
            selector: self.path(&class.selector),
            presence: class.presence.clone(),
            content: self.inside(0, class.content),
        })
    }

    fn variant(&mut self, class: &VariantClass) -> FieldKind {
        let options = (0..).zip(&class.options);
        let options = options.map(|(at, option)| {
            let class = self.inside(at, option.class);
            VariantOption { class, ..option.clone() }
        });
        let options = options.collect();
        FieldKind::Variant(VariantClass { selector: self.path(&class.selector), options })
    }

    /// A length as it was recorded.
    fn length_kept(&self, length: &Length) -> Length {
        match length {
            Length::Field(path) => Length::Field(self.path(path)),
            Length::Table { selector, lengths } => {
                Length::Table { selector: self.path(selector), lengths: lengths.clone() }
            }
            length => length.clone(),
        }
    }

    /// A length that no field says stands before what has it.
    fn length(&mut self, length: &Length) -> Length {
        match length {
            Length::Inline(_) | Length::Located => {
                let class = FieldKind::Integer(IntegerClass::unsigned(64));
                Length::Inline(self.to.add_field_class(FieldClass::new(class, 8)))
            }
            length => self.length_kept(length),
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

/// The class of the elements of an array of single bits.
pub(super) fn bit_of<'a>(schema: &'a Schema, array: &ArrayClass) -> Option<&'a IntegerClass> {
    match &schema.field_class(array.element).kind {
        FieldKind::Integer(class) if class.len_bits == 1 && !class.reversed_bits => Some(class),
        _ => None,
    }
}
