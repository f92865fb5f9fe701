//! [`TsdlType`]s to field classes: puts a type under a scope, where its relative paths become absolute.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_model::error::Result;
use tracemill_model::schema::{
    ArrayClass, ByteOrder, Encoding, FieldClass, FieldClassId, FieldKind, IntegerClass, Length, Mapping, Member,
    PathStep, Range, Role, Roles, Scope, StringClass, StringLength, StructClass, VariantClass, VariantOption,
};

use super::resolve::TsdlResolver;
use super::types::{NamedFields, Reference, StructType, TsdlField, TsdlType, TypeKind, TypeRef, VariantType};

/// The place where a type is being instantiated.
pub(super) struct Site {
    /// The scope whose root is being instantiated.
    pub(super) scope: Scope,
    /// The types of all scopes that can be named from here.
    pub(super) roots: Roots,
    /// Structures around the current type, from the outside.
    pub(super) frames: Vec<LookupLevel>,
    /// The way from the scope's root to the current type.
    pub(super) steps: Vec<PathStep>,
    /// The last name that was passed, for errors.
    pub(super) span: Span,
}

/// Types of the scopes, by their index in [`Scope::ALL`].
pub(super) type Roots = [Option<TypeRef>; 6];

/// A level of the lookup of relative paths.
pub(super) enum LookupLevel {
    /// A structure whose member `current` is being instantiated; it stands `depth` steps below the root.
    Struct { structure: Rc<StructType>, current: usize, depth: usize },
    /// The lookup goes on at the frame with this index.
    Jump(usize),
}

/// Field classes of leaves that were made before. Metadata writers repeat the same few integers in every event.
#[derive(Default)]
pub(super) struct Leaves(HashMap<LeafKey, FieldClassId>);

#[derive(PartialEq, Eq, Hash)]
enum LeafKey {
    Integer(IntegerClass, u32, Roles),
    Float(u32, u32, ByteOrder),
    String,
}

impl LeafKey {
    fn from_class(class: &FieldClass) -> Option<LeafKey> {
        match &class.kind {
            FieldKind::Integer(int) if int.mappings.is_none() => {
                Some(LeafKey::Integer(int.clone(), class.align_bits, class.roles))
            }
            FieldKind::Float(float) => Some(LeafKey::Float(float.len_bits, class.align_bits, float.byte_order)),
            FieldKind::String(string) if string.length == StringLength::NullTerminated => Some(LeafKey::String),
            _ => None,
        }
    }
}

/// Labels of the enumeration that was the last tag: one enumeration often is the tag of many variants.
#[derive(Default)]
pub(super) struct TagLabels {
    mappings: Option<Arc<[Mapping]>>,
    index: HashMap<Arc<str>, usize>,
}

impl TagLabels {
    /// The values that choose each option: those of the label with the option's name. When there is none, an option
    /// `_x` takes the label `x`, unless another option has that very name.
    fn option_ranges<'m>(&mut self, options: &NamedFields, mappings: &'m Arc<[Mapping]>) -> Vec<&'m [Range]> {
        if !self.mappings.as_ref().is_some_and(|known| Arc::ptr_eq(known, mappings)) {
            self.index = mappings.iter().enumerate().map(|(at, mapping)| (mapping.label.clone(), at)).collect();
            self.mappings = Some(mappings.clone());
        }
        let ranges_of = |option: &TsdlField| {
            let exact = self.index.get(&option.raw_name);
            let stripped = || self.index.get(&option.name).filter(|_| options.position(&option.name).is_none());
            exact.or_else(stripped).map_or(&[][..], |at| &mappings[*at].ranges)
        };
        options.as_slice().iter().map(ranges_of).collect()
    }
}

impl TsdlResolver<'_> {
    /// Makes the field class of a scope's root.
    pub(super) fn instantiate_root(&mut self, scope: Scope, roots: Roots, span: Span) -> Result<Option<FieldClassId>> {
        let Some(ty) = roots[scope as usize].clone() else {
            return Ok(None);
        };
        let mut site = Site { scope, roots, frames: Vec::new(), steps: Vec::new(), span };
        self.instantiate(&ty, &mut site).map(Some)
    }

    fn instantiate(&mut self, ty: &TypeRef, site: &mut Site) -> Result<FieldClassId> {
        if let Some(class) = ty.class.get() {
            return Ok(class);
        }
        self.charge(1, site.span)?;
        let kind = match &ty.kind {
            TypeKind::Defined(home, inner) => return self.instantiate_defined(*home, inner, site),
            TypeKind::Integer(class) => FieldKind::Integer(class.clone()),
            TypeKind::Float(class) => FieldKind::Float(class.clone()),
            TypeKind::String => string_kind(StringLength::NullTerminated),
            TypeKind::Struct(structure) => self.instantiate_struct(structure, site)?,
            TypeKind::Variant(variant) => self.instantiate_variant(variant, site)?,
            TypeKind::Array(element, length) => self.instantiate_array(ty, element, Length::Static(*length), site)?,
            TypeKind::Sequence(element, length) => {
                let length = self.length(length, site)?;
                self.instantiate_array(ty, element, length, site)?
            }
        };
        let roles = instance_roles(ty);
        let class = self.add_class(FieldClass::new(kind, ty.align_bits).with_roles(roles));
        if !ty.is_open {
            ty.class.set(Some(class));
        }
        Ok(class)
    }

    fn add_class(&mut self, class: FieldClass) -> FieldClassId {
        let Some(key) = LeafKey::from_class(&class) else {
            return self.schema.add_field_class(class);
        };
        *self.leaves.0.entry(key).or_insert_with(|| self.schema.add_field_class(class))
    }

    fn instantiate_defined(&mut self, home: u32, inner: &TypeRef, site: &mut Site) -> Result<FieldClassId> {
        let is_home =
            |frame: &LookupLevel| matches!(frame, LookupLevel::Struct { structure, .. } if structure.id == home);
        let home_at = site.frames.iter().rposition(is_home);
        let count = site.frames.len();
        site.frames.extend(home_at.map(LookupLevel::Jump));
        let class = self.instantiate(inner, site)?;
        site.frames.truncate(count);
        Ok(class)
    }

    fn instantiate_struct(&mut self, structure: &Rc<StructType>, site: &mut Site) -> Result<FieldKind> {
        let fields = structure.fields.as_slice();
        self.charge(fields.len(), site.span)?;
        let mut members = Vec::with_capacity(fields.len());
        let frame_at = site.frames.len();
        let depth = site.steps.len();
        site.frames.push(LookupLevel::Struct { structure: structure.clone(), current: 0, depth });
        for (at, field) in fields.iter().enumerate() {
            site.span = field.span;
            if let LookupLevel::Struct { current, .. } = &mut site.frames[frame_at] {
                *current = at;
            }
            site.steps.push(PathStep::Member(at as u32));
            let class = self.instantiate(&field.ty, site)?;
            site.steps.pop();
            members.push(Member { name: field.name.clone(), raw_name: field.raw_name.clone(), class });
        }
        site.frames.truncate(frame_at);
        Ok(FieldKind::Struct(StructClass { members }))
    }

    fn instantiate_array(
        &mut self,
        array: &TsdlType,
        element: &TypeRef,
        length: Length,
        site: &mut Site,
    ) -> Result<FieldKind> {
        // The UUID of a trace is 16 numbers even when somebody declared them with a character type.
        if element.is_text_character() && !array.roles.has(Role::TraceUuid) {
            return Ok(string_kind(StringLength::Bytes(length)));
        }
        site.steps.push(PathStep::Element);
        let element = self.instantiate(element, site)?;
        site.steps.pop();
        Ok(FieldKind::Array(ArrayClass { element, length }))
    }

    fn length(&mut self, reference: &Reference, site: &Site) -> Result<Length> {
        let target = self.find_target(reference, site)?;
        for ty in target.types() {
            match ty.as_integer() {
                Some(class) if !class.signed && class.len_bits <= 64 => {}
                Some(class) if !class.signed => {
                    let message =
                        format!("length `{}` has {} bits; at most 64 are supported", reference.text(), class.len_bits);
                    return Err(self.unsupported(reference.span, message));
                }
                _ => {
                    let noun = ty.noun();
                    let message = format!("length `{}` must be an unsigned integer, not {noun}", reference.text());
                    return Err(self.contradiction(reference.span, message, target.span));
                }
            }
        }
        Ok(Length::Field(target.path))
    }

    fn instantiate_variant(&mut self, variant: &VariantType, site: &mut Site) -> Result<FieldKind> {
        let Some(tag) = &variant.tag else {
            let help = "write `variant <tag> { ... }` or `variant name <tag>` with an enumeration field as tag";
            return Err(self.malformed(site.span, "variant is used without a tag").with_help(help));
        };
        let target = self.find_target(tag, site)?;
        let mappings = match target.ty.as_integer() {
            Some(IntegerClass { mappings: Some(mappings), len_bits: 0..=64, .. }) => mappings.clone(),
            _ => {
                let message = format!("tag `{}` must be an enumeration, not {}", tag.text(), target.ty.noun());
                return Err(self.contradiction(tag.span, message, target.span));
            }
        };
        let is_like_first = |ty: &TypeRef| {
            let first = target.ty.as_integer().map(|class| (class.signed, &class.mappings));
            ty.as_integer().map(|class| (class.signed, &class.mappings)) == first
        };
        if !target.others.iter().all(is_like_first) {
            let message = format!("tag `{}` has other labels in another option of the variant", tag.text());
            return Err(self.unsupported(tag.span, message));
        }
        let ranges = self.labels.option_ranges(&variant.options, &mappings);
        self.charge(ranges.iter().map(|ranges| 1 + ranges.len()).sum(), site.span)?;
        let mut options = Vec::with_capacity(ranges.len());
        for ((at, field), ranges) in variant.options.as_slice().iter().enumerate().zip(ranges) {
            site.span = field.span;
            site.steps.push(PathStep::Option(at as u32));
            let class = self.instantiate(&field.ty, site)?;
            site.steps.pop();
            let (name, raw_name) = (Some(field.name.clone()), Some(field.raw_name.clone()));
            options.push(VariantOption { name, raw_name, ranges: ranges.to_vec(), class });
        }
        Ok(FieldKind::Variant(VariantClass { selector: target.path, options }))
    }
}

/// An integer with a clock updates it, except for the end of a packet, which is known before its events.
fn instance_roles(ty: &TsdlType) -> Roles {
    match &ty.kind {
        TypeKind::Integer(IntegerClass { clock: Some(_), .. }) if !ty.roles.has(Role::PacketEnd) => {
            ty.roles.with(Role::Timestamp)
        }
        _ => ty.roles,
    }
}

fn string_kind(length: StringLength) -> FieldKind {
    FieldKind::String(StringClass { encoding: Encoding::Utf8, length })
}
