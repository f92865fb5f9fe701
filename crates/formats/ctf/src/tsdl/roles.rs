//! Meanings of the fields of headers and contexts for the reader of packets and events (CTF 1.8.3, 5 and 6).
//!
//! A role is given by name. It is written into a copy of the type, because the types themselves are shared.

use std::collections::HashMap;
use std::rc::Rc;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{ClockClass, ClockId, IntegerClass, Role, Roles};

use super::resolve::TsdlResolver;
use super::types::{Clocks, NamedFields, StructType, TsdlField, TsdlType, TypeKind, TypeRef};

/// Unsigned integers of the packet header, in structures of it too. The last one counts.
const HEADER_ROLES: [(&str, Role); 2] = [("stream_id", Role::StreamClassId), ("stream_instance_id", Role::StreamId)];

/// Members of the packet context; all are unsigned integers.
const CONTEXT_ROLES: [(&str, Role); 6] = [
    ("timestamp_begin", Role::PacketBegin),
    ("timestamp_end", Role::PacketEnd),
    ("events_discarded", Role::DiscardedEvents),
    ("packet_seq_num", Role::PacketSequence),
    ("content_size", Role::PacketContentSize),
    ("packet_size", Role::PacketTotalSize),
];

impl TsdlResolver<'_> {
    /// Checks a packet header and gives roles to its members.
    pub(super) fn packet_header_roles(&mut self, ty: &TypeRef, span: Span) -> Result<TypeRef> {
        if ty.clocks != Clocks::None {
            return Err(self.malformed(span, "an integer of the packet header must not be mapped to a clock"));
        }
        let mut has_stream_id = false;
        let mut give_role = |field: &TsdlField, is_option: bool| {
            let Some((_, role)) = HEADER_ROLES.iter().find(|(name, _)| !is_option && *name == &*field.name) else {
                return Ok(None);
            };
            if !self.is_unsigned(field, "packet header")? {
                return Ok(None);
            }
            has_stream_id |= *role == Role::StreamClassId;
            Ok(Some(add_role(&field.ty, *role)))
        };
        let (mut ty, visited) = Rewrite::run(ty, &mut give_role, false)?;
        self.has_stream_id = has_stream_id;
        self.charge(visited, span)?;
        let Some(structure) = ty.as_struct().cloned() else {
            return Ok(ty);
        };
        if let Some((at, magic)) = structure.fields.by_display_name("magic") {
            let bits = magic.ty.as_integer().map(|class| class.len_bits);
            if at != 0 {
                self.ignore_role(magic, "`magic` must be the first member of the packet header".into())?;
            } else if bits.is_some_and(|bits| bits != 32) {
                self.ignore_role(magic, "`magic` must have 32 bits".into())?;
            } else if self.is_unsigned(magic, "packet header")? {
                ty = with_member(&ty, &structure, at, add_role(&magic.ty, Role::PacketMagic));
            }
        }
        let Some(structure) = ty.as_struct().cloned() else {
            return Ok(ty);
        };
        match structure.fields.by_display_name("uuid") {
            None => Ok(ty),
            Some((at, uuid)) => match self.uuid_role(uuid)? {
                Some(uuid) => Ok(with_member(&ty, &structure, at, uuid)),
                None => Ok(ty),
            },
        }
    }

    fn uuid_role(&self, field: &TsdlField) -> Result<Option<TypeRef>> {
        let is_byte = |class: &IntegerClass| class.len_bits == 8 && !class.signed;
        match &field.ty.plain().kind {
            TypeKind::Array(element, 16) if element.align_bits == 8 && element.as_integer().is_some_and(is_byte) => {
                Ok(Some(Rc::new(field.ty.plain().with_roles(Roles::NONE.with(Role::TraceUuid)))))
            }
            _ => {
                self.ignore_role(field, "`uuid` must be an array of 16 unsigned integers of 8 bits".into())?;
                Ok(None)
            }
        }
    }

    /// Checks a packet context, maps its time stamps and gives roles to its members.
    pub(super) fn packet_context_roles(&mut self, ty: &TypeRef, span: Span) -> Result<TypeRef> {
        let ty = self.map_timestamps(ty, &["timestamp_begin", "timestamp_end"], span)?;
        self.with_member_roles(&ty, &CONTEXT_ROLES, "packet context")
    }

    /// Checks an event header, maps its time stamps and gives roles to its members.
    pub(super) fn event_header_roles(&mut self, ty: &TypeRef, span: Span) -> Result<TypeRef> {
        let ty = self.map_timestamps(ty, &["timestamp"], span)?;
        if let Some((_, id)) = ty.as_struct().and_then(|structure| structure.fields.by_display_name("id")) {
            self.is_unsigned(id, "event header")?;
        }
        let mut give_role = |field: &TsdlField, is_option: bool| {
            let is_id = !is_option && &*field.name == "id" && field.ty.as_integer().is_some_and(|class| !class.signed);
            Ok(is_id.then(|| add_role(&field.ty, Role::EventClassId)))
        };
        let (new, visited) = Rewrite::run(&ty, &mut give_role, true)?;
        self.charge(visited, span)?;
        Ok(new)
    }

    fn with_member_roles(&self, ty: &TypeRef, roles: &[(&str, Role)], what: &str) -> Result<TypeRef> {
        let mut ty = ty.clone();
        for (name, role) in roles {
            let Some(structure) = ty.as_struct().cloned() else {
                return Ok(ty);
            };
            if let Some((at, field)) = structure.fields.by_display_name(name)
                && self.is_unsigned(field, what)?
            {
                ty = with_member(&ty, &structure, at, add_role(&field.ty, *role));
            }
        }
        Ok(ty)
    }

    /// Can a field have the role that belongs to its name? A field that cannot have it is a field like any other.
    fn is_unsigned(&self, field: &TsdlField, what: &str) -> Result<bool> {
        if field.ty.as_integer().is_some_and(|class| !class.signed) {
            return Ok(true);
        }
        let noun = field.ty.noun();
        let message = format!("`{}` of the {what} must be an unsigned integer, not {noun}", field.raw_name);
        self.ignore_role(field, message).map(|()| false)
    }

    fn ignore_role(&self, field: &TsdlField, message: String) -> Result<()> {
        let error = || self.malformed(field.span, message);
        self.oddities.tolerate(error, || "it is read as a field without a meaning".into())
    }

    /// Maps integers with one of these names to the clock of the trace, unless they have one. Without any clock
    /// block, a clock of 1 GHz is made.
    fn map_timestamps(&mut self, ty: &TypeRef, names: &[&str], span: Span) -> Result<TypeRef> {
        let mut map = |field: &TsdlField, _: bool| match field.ty.as_integer() {
            Some(class) if class.clock.is_none() && !class.signed && names.contains(&&*field.name) => {
                let class = IntegerClass { clock: Some(self.only_clock(field)?), ..class.clone() };
                Ok(Some(Rc::new(TsdlType::integer(class, field.ty.align_bits))))
            }
            _ => Ok(None),
        };
        let (new, visited) = Rewrite::run(ty, &mut map, false)?;
        self.charge(visited, span)?;
        Ok(new)
    }

    fn only_clock(&mut self, field: &TsdlField) -> Result<ClockId> {
        match self.schema.clocks() {
            [] => Ok(self.schema.add_clock(ClockClass::nanoseconds("default"))),
            [_] => Ok(ClockId(0)),
            clocks => {
                let message = format!("`{}` is mapped to no clock, and the trace has {}", field.raw_name, clocks.len());
                let help = format!("add `map = clock.{}.value` to the integer", clocks[0].id);
                Err(self.malformed(field.span, message).with_help(help))
            }
        }
    }

    /// The error about a stream class with two clocks.
    pub(super) fn two_clocks(&self, first: ClockId, second: ClockId, span: Span) -> Error {
        let [first, second] = [first, second].map(|clock| self.schema.clock(clock).id.clone());
        self.malformed(span, format!("stream class is mapped to two clocks, `{first}` and `{second}`"))
    }
}

fn add_role(ty: &TypeRef, role: Role) -> TypeRef {
    let plain = ty.plain();
    Rc::new(plain.with_roles(plain.roles.with(role)))
}

fn with_member(ty: &TypeRef, structure: &StructType, at: usize, member: TypeRef) -> TypeRef {
    let mut types: Vec<TypeRef> = structure.fields.as_slice().iter().map(|field| field.ty.clone()).collect();
    types[at] = member;
    Rc::new(TsdlType::structure(structure.id, structure.fields.with_types(types), ty.align_bits))
}

/// Replaces the types of fields anywhere inside a type. Shared parts are visited once, so that a small text cannot
/// ask for an endless walk.
type Replace<'f> = dyn FnMut(&TsdlField, bool) -> Result<Option<TypeRef>> + 'f;

struct Rewrite<'f> {
    /// New type of a field, or none to keep it and go into it; the flag marks options of variants.
    replace: &'f mut Replace<'f>,
    enters_arrays: bool,
    /// Number of fields that were looked at.
    visited: usize,
    done: HashMap<*const TsdlType, TypeRef>,
}

impl<'f> Rewrite<'f> {
    /// The type as it is rewritten, and the number of fields that were looked at.
    fn run(ty: &TypeRef, replace: &'f mut Replace<'f>, enters_arrays: bool) -> Result<(TypeRef, usize)> {
        let mut rewrite = Rewrite { replace, enters_arrays, visited: 0, done: HashMap::new() };
        Ok((rewrite.apply(ty)?, rewrite.visited))
    }

    fn apply(&mut self, ty: &TypeRef) -> Result<TypeRef> {
        if let Some(done) = self.done.get(&Rc::as_ptr(ty)) {
            return Ok(done.clone());
        }
        let new = match &ty.kind {
            TypeKind::Struct(structure) => self
                .fields(&structure.fields, false)?
                .map(|fields| Rc::new(TsdlType::structure(structure.id, fields, ty.align_bits))),
            TypeKind::Variant(variant) => self
                .fields(&variant.options, true)?
                .map(|options| Rc::new(TsdlType::variant(variant.tag.clone(), options))),
            TypeKind::Array(element, length) if self.enters_arrays => {
                self.part(element)?.map(|new| Rc::new(TsdlType::array(new, *length)))
            }
            TypeKind::Sequence(element, length) if self.enters_arrays => {
                self.part(element)?.map(|new| Rc::new(TsdlType::sequence(new, length.clone())))
            }
            TypeKind::Defined(home, inner) => self.part(inner)?.map(|new| TsdlType::defined(*home, &new)),
            _ => None,
        };
        let new = new.unwrap_or_else(|| ty.clone());
        self.done.insert(Rc::as_ptr(ty), new.clone());
        Ok(new)
    }

    /// A type inside another one, or none when nothing changed.
    fn part(&mut self, part: &TypeRef) -> Result<Option<TypeRef>> {
        Ok(Some(self.apply(part)?).filter(|new| !Rc::ptr_eq(new, part)))
    }

    /// These fields with new types, or none when nothing changed.
    fn fields(&mut self, fields: &NamedFields, are_options: bool) -> Result<Option<Rc<NamedFields>>> {
        self.visited += fields.as_slice().len();
        let mut types = Vec::with_capacity(fields.as_slice().len());
        let mut is_changed = false;
        for field in fields.as_slice() {
            let new = match (self.replace)(field, are_options)? {
                Some(new) => new,
                None => self.apply(&field.ty)?,
            };
            is_changed |= !Rc::ptr_eq(&new, &field.ty);
            types.push(new);
        }
        Ok(is_changed.then(|| fields.with_types(types)))
    }
}
