//! From field classes as written to the classes of the schema.

use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    ArrayClass, BlobClass, FieldClass, FieldClassId, FieldKind, FieldPath, Length, Member, OptionalClass, Presence,
    Role, Roles, Schema, Scope, StringClass, StringLength, StructClass, VariantClass, VariantOption,
};

use super::field_class::{FieldClassNode, NodeKind, NodeLength, NodeMember, NodeOption, StructMeaning};
use super::locations::{Location, LocationResolver, NameIndex, OpenClass};
use super::ranges::{self, RangeSet};
use super::roles;
use crate::metadata_text::MetadataText;

/// Makes the classes of one scope.
pub(super) struct Instantiation<'r, 'n> {
    pub(super) source: &'r MetadataText<'r>,
    pub(super) schema: &'r mut Schema,
    pub(super) index: &'r mut NameIndex,
    /// Most field classes that the schema may have. An alias that needs new classes for every use could otherwise
    /// double them with every line.
    pub(super) limit: u64,
    /// Root classes of the scopes that are decoded before.
    pub(super) roots: [Option<FieldClassId>; 6],
    pub(super) scope: Scope,
    /// Does the data stream class have a default clock?
    pub(super) has_clock: bool,
    pub(super) frames: Vec<OpenClass<'n>>,
}

/// The meaning of ranges of integers for a boolean.
const OF_BOOLEAN: &str = "0 stands for false, and any other value for true";

/// Use of a location.
#[derive(Clone, Copy)]
enum Need {
    Length,
    Presence,
    Choice,
}

impl<'n> Instantiation<'_, 'n> {
    /// The class of a node, for its place in the frames. Recursion is as deep as the node's levels, which are capped.
    pub(super) fn class(&mut self, node: &'n FieldClassNode) -> Result<FieldClassId> {
        let is_particular = node.has_locations || (node.has_roles && roles::matter_in(self.scope));
        let may_share = !is_particular;
        if let Some(id) = node.shared.get().filter(|_| may_share) {
            return Ok(id);
        }
        let (kind, align_bits) = self.kind(node)?;
        let roles = self.roles(node, &kind)?;
        if self.schema.field_class_count() as u64 >= self.limit {
            let message = format!("more than {} field classes when every alias is written out", self.limit);
            return Err(self.error(node.span, message));
        }
        let id = self.schema.add_field_class(FieldClass::new(kind, align_bits).with_roles(roles));
        if may_share {
            node.shared.set(Some(id));
        }
        Ok(id)
    }

    fn kind(&mut self, node: &'n FieldClassNode) -> Result<(FieldKind, u32)> {
        Ok(match &node.kind {
            NodeKind::Leaf { kind, align_bits } => (kind.clone(), *align_bits),
            NodeKind::DynamicString { encoding, length } => {
                let length = StringLength::Bytes(self.length(length)?);
                (FieldKind::String(StringClass { encoding: *encoding, length }), 8)
            }
            NodeKind::DynamicBlob { media_type, length } => {
                let class = BlobClass { length: self.length(length)?, media_type: Arc::clone(media_type) };
                (FieldKind::Blob(class), 8)
            }
            NodeKind::Struct { members, meaning: StructMeaning::WithLength, minimum_bits, .. } => {
                self.with_length(members, *minimum_bits)?
            }
            NodeKind::Struct { members, names, minimum_bits, meaning } => {
                self.frames.push(OpenClass::Struct { names, done: Vec::with_capacity(members.len()) });
                for member in members {
                    let class = self.class(&member.node)?;
                    let name = Arc::clone(&member.shown);
                    if let Some(OpenClass::Struct { done, .. }) = self.frames.last_mut() {
                        let is_tuple = *meaning == StructMeaning::Tuple;
                        let raw_name = if is_tuple { "".into() } else { Arc::clone(&member.name) };
                        done.push(Member { raw_name, name, class });
                    }
                }
                let Some(OpenClass::Struct { done: members, .. }) = self.frames.pop() else {
                    unreachable!("pushes and pops are paired");
                };
                let align_bits = self.schema.struct_align_bits(&members, *minimum_bits);
                (FieldKind::Struct(StructClass { members }), align_bits)
            }
            NodeKind::Array { element, length, minimum_bits } => {
                // The length comes first: it is read outside of the array.
                let length = match length {
                    NodeLength::Static(length) => Length::Static(*length),
                    NodeLength::Field(location) => self.length(location)?,
                };
                let element = self.inside(OpenClass::Element, element)?;
                let align_bits = self.schema.field_class(element).align_bits.max(*minimum_bits);
                (FieldKind::Array(ArrayClass { element, length }), align_bits)
            }
            NodeKind::Optional { content, selector, ranges } => {
                let (path, target) = self.locate(selector, Need::Presence)?;
                let presence = self.presence(selector, target, ranges.as_ref())?;
                let content = self.inside(OpenClass::Content, content)?;
                (FieldKind::Optional(OptionalClass { selector: path, presence, content }), 1)
            }
            NodeKind::Variant { options, selector } => {
                let (path, target) = self.locate(selector, Need::Choice)?;
                let of_boolean = matches!(self.schema.field_class(target).kind, FieldKind::Boolean(_));
                if of_boolean {
                    self.check_boolean_choice(selector, options)?;
                }
                let mut made = Vec::with_capacity(options.len());
                for (index, option) in options.iter().enumerate() {
                    made.push(VariantOption {
                        name: option.name.clone(),
                        raw_name: option.name.clone(),
                        ranges: if of_boolean {
                            ranges::boolean_ranges(&option.ranges.ranges)
                        } else {
                            option.ranges.ranges.clone()
                        },
                        class: self.inside(OpenClass::Option(index as u32), &option.node)?,
                    });
                }
                (FieldKind::Variant(VariantClass { selector: path, options: made }), 1)
            }
        })
    }

    fn inside(&mut self, frame: OpenClass<'n>, node: &'n FieldClassNode) -> Result<FieldClassId> {
        self.frames.push(frame);
        let class = self.class(node);
        self.frames.pop();
        class
    }

    /// An array or blob right after its length, which is no field then.
    fn with_length(&mut self, members: &'n [NodeMember], minimum_bits: u32) -> Result<(FieldKind, u32)> {
        let [length, content] = members else { unreachable!("the reader has counted them") };
        let length = self.class(&length.node)?;
        let align_bits = self.schema.field_class(length).align_bits.max(minimum_bits);
        let length = Length::Inline(length);
        Ok(match &content.node.kind {
            NodeKind::Array { element, minimum_bits, .. } => {
                let element = self.inside(OpenClass::Element, element)?;
                let align_bits = align_bits.max(self.schema.field_class(element).align_bits).max(*minimum_bits);
                (FieldKind::Array(ArrayClass { element, length }), align_bits)
            }
            NodeKind::DynamicBlob { media_type, .. } => {
                (FieldKind::Blob(BlobClass { length, media_type: media_type.clone() }), align_bits.max(8))
            }
            _ => unreachable!("the reader has seen what it is"),
        })
    }

    fn length(&mut self, location: &Location) -> Result<Length> {
        Ok(Length::Field(self.locate(location, Need::Length)?.0))
    }

    fn presence(&self, selector: &Location, target: FieldClassId, ranges: Option<&RangeSet>) -> Result<Presence> {
        match (&self.schema.field_class(target).kind, ranges) {
            (FieldKind::Boolean(_), None) => Ok(Presence::Boolean),
            (FieldKind::Boolean(_), Some(ranges)) => {
                let error = || {
                    self.error(
                        ranges.span,
                        "`selector-field-ranges` of an optional whose selector is a boolean, expected an integer selector",
                    )
                };
                if !ranges.is_own {
                    self.source.tolerate(error, || OF_BOOLEAN.into())?;
                }
                Ok(match ranges::boolean_ranges(&ranges.ranges) {
                    of_true if of_true == [(1, 1)] => Presence::Boolean,
                    others => Presence::Ranges(others),
                })
            }
            (_, Some(ranges)) => Ok(Presence::Ranges(ranges.ranges.clone())),
            (_, None) => Err(self.error(
                selector.span,
                "the selector is an integer, but the optional has no property `selector-field-ranges`",
            )),
        }
    }

    /// A boolean that selects the option of a variant: its values must still belong to one option each.
    fn check_boolean_choice(&self, selector: &Location, options: &[NodeOption]) -> Result<()> {
        if !options.iter().any(|option| option.ranges.is_own) {
            let error = || self.error(selector.span, "the selector field is a boolean, expected an integer");
            self.source.tolerate(error, || OF_BOOLEAN.into())?;
        }
        let sets: Vec<RangeSet> = options
            .iter()
            .map(|option| RangeSet { ranges: ranges::boolean_ranges(&option.ranges.ranges), ..option.ranges })
            .collect();
        ranges::refuse_overlap(self.source, &sets.iter().collect::<Vec<_>>())
    }

    fn locate(&mut self, location: &Location, need: Need) -> Result<(FieldPath, FieldClassId)> {
        let mut resolver = LocationResolver {
            source: self.source,
            schema: self.schema,
            index: self.index,
            roots: &self.roots,
            scope: self.scope,
            frames: &self.frames,
        };
        let (path, ids) = resolver.resolve(location)?;
        for &id in &ids {
            self.check_target(location, need, id)?;
        }
        let is_signed = |id: &FieldClassId| match &self.schema.field_class(*id).kind {
            FieldKind::Integer(class) => Some(class.signed),
            _ => None,
        };
        if ids.iter().any(|id| is_signed(id) != is_signed(&ids[0])) {
            let message = "the field is of different kinds in the options of the variant";
            return Err(location.span.unsupported(self.source, message));
        }
        Ok((path, ids[0]))
    }

    /// Can a field of a class be the length or selector that is needed?
    fn check_target(&self, location: &Location, need: Need, id: FieldClassId) -> Result<()> {
        let kind = &self.schema.field_class(id).kind;
        let (is_right, what, expected) = match (need, kind) {
            (Need::Length, FieldKind::Integer(class)) => (!class.signed, "length", "an unsigned integer"),
            (Need::Length, _) => (false, "length", "an unsigned integer"),
            (Need::Presence, FieldKind::Integer(_) | FieldKind::Boolean(_)) => (true, "", ""),
            (Need::Presence, _) => (false, "selector", "a boolean or an integer"),
            (Need::Choice, FieldKind::Integer(_) | FieldKind::Boolean(_)) => (true, "", ""),
            (Need::Choice, _) => (false, "selector", "an integer"),
        };
        if !is_right {
            let message = format!("the {what} field is {}, expected {expected}", kind_text(kind));
            return Err(self.error(location.span, message));
        }
        Ok(())
    }

    /// The meaning of a node's roles in this scope, with the conditions of 5.6.1 and 5.8.1.
    fn roles(&self, node: &FieldClassNode, kind: &FieldKind) -> Result<Roles> {
        let mut roles = Roles::NONE;
        for &(name, span) in &node.roles {
            let Some(role) = roles::meaning(name, self.scope) else { continue };
            self.check_role(name, role, span, kind)?;
            roles = roles.with(role);
            if role == Role::PacketBegin {
                roles = roles.with(Role::Timestamp);
            }
        }
        Ok(roles)
    }

    fn check_role(&self, text: &str, role: Role, span: Span, kind: &FieldKind) -> Result<()> {
        match (role, kind) {
            (Role::PacketMagic, FieldKind::Integer(class)) => {
                if class.len_bits != 32 {
                    let message = format!("role `{text}` is for a fixed-length unsigned integer of 32 bits");
                    return Err(self.error(span, message));
                }
                // The root structure is the only frame, and none of its members is done.
                if !matches!(&self.frames[..], [OpenClass::Struct { done, .. }] if done.is_empty()) {
                    return Err(self.error(span, format!("role `{text}` is for the first member of the packet header")));
                }
            }
            (Role::TraceUuid, FieldKind::Blob(class)) => {
                if class.length != Length::Static(16) {
                    return Err(self.error(span, format!("role `{text}` is for a static-length blob of 16 bytes")));
                }
                if self.schema.uuid.is_none() {
                    return Err(self.error(span, format!("role `{text}`, but the preamble has no property `uuid`")));
                }
            }
            (Role::PacketBegin | Role::PacketEnd | Role::Timestamp, _) if !self.has_clock => {
                let message =
                    format!("role `{text}`, but the data stream class has no property `default-clock-class-id`");
                return Err(self.error(span, message));
            }
            _ => {}
        }
        Ok(())
    }

    fn error(&self, span: Span, message: impl Into<String>) -> Error {
        span.malformed(self.source, message)
    }
}

fn kind_text(kind: &FieldKind) -> &'static str {
    match kind {
        FieldKind::Integer(class) if class.signed => "a signed integer",
        FieldKind::Integer(_) => "an unsigned integer",
        FieldKind::BitArray(_) => "a bit array",
        FieldKind::BitMap(_) => "a bit map",
        FieldKind::Boolean(_) => "a boolean",
        FieldKind::Float(_) => "a floating point number",
        FieldKind::String(_) => "a string",
        FieldKind::Blob(_) => "a blob",
        FieldKind::Rendered(_) => "a made text",
        FieldKind::Struct(_) => "a structure",
        FieldKind::Array(_) => "an array",
        FieldKind::Optional(_) => "an optional",
        FieldKind::Variant(_) => "a variant",
    }
}
