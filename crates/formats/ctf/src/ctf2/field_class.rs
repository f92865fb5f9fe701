//! Field classes as the metadata writes them: checked one by one, with locations not yet resolved.
//!
//! The meaning of a location depends on where its field class is used, and an alias may be used in many places. So a
//! field class first becomes a tree of [`FieldClassNode`]s, in which an alias is the node that it names; `instantiate` makes
//! the classes of the schema from it, once per use where it must.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    BitsClass, BlobClass, ByteOrder, DisplayBase, Encoding, FieldClassId, FieldKind, FloatClass, IntegerClass, Length,
    StringClass, StringLength,
};

use super::attributes::{OF_BOOLEAN, Own};
use super::json::{JsonKind, JsonValue};
use super::locations::Location;
use super::object::{Object, integer, mismatch};
use super::ranges::{self, RangeSet};
use super::roles;
use super::words::{quoted, suggest};
use crate::deep::MAX_LEVELS;
use crate::metadata_text::MetadataText;

/// Longest fixed-length field, in bits. Far beyond any producer, and small enough for sums of lengths.
const MAX_BITS: i128 = 1 << 20;

/// Largest alignment, in bits.
const MAX_ALIGN_BITS: i128 = 1 << 31;

/// The encodings of strings as the metadata writes them.
pub(crate) const ENCODINGS: [(&str, Encoding); 5] = [
    ("utf-8", Encoding::Utf8),
    ("utf-16be", Encoding::Utf16Be),
    ("utf-16le", Encoding::Utf16Le),
    ("utf-32be", Encoding::Utf32Be),
    ("utf-32le", Encoding::Utf32Le),
];

/// A field class as written.
#[derive(Debug)]
pub(super) struct FieldClassNode {
    /// The JSON object.
    pub(super) span: Span,
    pub(super) kind: NodeKind,
    pub(super) roles: Vec<(&'static str, Span)>,
    /// Levels of field classes from here down, itself included.
    pub(super) levels: u32,
    /// Number of fields when every alias is written out, with one element per array.
    pub(super) weight: u64,
    /// Is there a location in it?
    pub(super) has_locations: bool,
    /// Is there a role in it?
    pub(super) has_roles: bool,
    /// The class of the schema, when all uses may share one.
    pub(super) shared: Cell<Option<FieldClassId>>,
}

/// Kind of a [`FieldClassNode`].
#[derive(Debug)]
pub(super) enum NodeKind {
    /// A class without parts: everything about it is known.
    Leaf { kind: FieldKind, align_bits: u32 },
    /// `dynamic-length-string`.
    DynamicString { encoding: Encoding, length: Location },
    /// `dynamic-length-blob`.
    DynamicBlob { media_type: Arc<str>, length: Location },
    /// `structure`.
    Struct { members: Vec<NodeMember>, names: HashMap<Arc<str>, u32>, minimum_bits: u32, meaning: StructMeaning },
    /// `static-length-array` and `dynamic-length-array`.
    Array { element: Rc<FieldClassNode>, length: NodeLength, minimum_bits: u32 },
    /// `optional`.
    Optional { content: Rc<FieldClassNode>, selector: Location, ranges: Option<RangeSet> },
    /// `variant`.
    Variant { options: Vec<NodeOption>, selector: Location },
}

/// Meaning of a structure, when `convert` has made it of something that CTF 2 lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StructMeaning {
    /// Itself.
    Struct,
    /// A tuple: its members are known by their place.
    Tuple,
    /// An array or blob right after its length: the two members are the length and the array.
    WithLength,
}

/// A member of a structure.
#[derive(Debug)]
pub(super) struct NodeMember {
    pub(super) name: Arc<str>,
    /// The name that is shown, which another member may have too.
    pub(super) shown: Arc<str>,
    pub(super) node: Rc<FieldClassNode>,
}

/// An option of a variant.
#[derive(Debug)]
pub(super) struct NodeOption {
    pub(super) name: Option<Arc<str>>,
    pub(super) node: Rc<FieldClassNode>,
    pub(super) ranges: RangeSet,
}

/// Length of an array.
#[derive(Debug)]
pub(super) enum NodeLength {
    Static(u64),
    Field(Location),
}

/// The aliases that are known so far.
#[derive(Debug, Default)]
pub(super) struct Aliases(pub(super) HashMap<Arc<str>, Alias>);

/// A field class alias.
#[derive(Debug)]
pub(super) struct Alias {
    /// Where its name is written.
    pub(super) span: Span,
    pub(super) node: Rc<FieldClassNode>,
}

impl Aliases {
    /// Reads a field class or the name of an alias. `level` counts from 1 at the root.
    pub(super) fn field_class<'v>(
        &self,
        source: &'v MetadataText<'v>,
        value: &'v JsonValue<'v>,
        level: u32,
    ) -> Result<Rc<FieldClassNode>> {
        let too_deep =
            |span: Span| span.malformed(source, format!("field classes are nested more than {MAX_LEVELS} levels deep"));
        if let JsonKind::String(name) = &value.kind {
            let Some(alias) = self.0.get(&**name) else {
                let message = format!("no field class alias named {} before this point", quoted(name));
                return Err(suggest(value.span.malformed(source, message), name, self.0.keys().map(|key| &**key)));
            };
            if level + alias.node.levels > MAX_LEVELS + 1 {
                return Err(too_deep(value.span).with_related("the alias", alias.span.place(source)));
            }
            return Ok(Rc::clone(&alias.node));
        }
        let object = Object::new(source, value, "a field class")?;
        if level > MAX_LEVELS {
            return Err(too_deep(value.span));
        }
        FieldClassReader { aliases: self, object, level }.read()
    }
}

/// Reads one field class object.
struct FieldClassReader<'v> {
    aliases: &'v Aliases,
    object: Object<'v>,
    level: u32,
}

impl<'v> FieldClassReader<'v> {
    fn read(mut self) -> Result<Rc<FieldClassNode>> {
        let type_name = self.type_name()?;
        let known = TYPES.iter().find(|(name, ..)| *name == type_name);
        let Some((_, what, known)) = known else { return Err(self.unknown_type(type_name)) };
        self.object.what = what;
        self.object.check_typed(known)?;
        let kind = match type_name {
            "fixed-length-bit-array" => self.bit_array()?,
            "fixed-length-bit-map" => self.bit_map()?,
            "fixed-length-boolean" => self.leaf_bits(FieldKind::Boolean(self.bits()?))?,
            "fixed-length-unsigned-integer" => self.fixed(false)?,
            "fixed-length-signed-integer" => self.fixed(true)?,
            "fixed-length-floating-point-number" => self.float()?,
            "variable-length-unsigned-integer" => self.leb(false)?,
            "variable-length-signed-integer" => self.leb(true)?,
            "null-terminated-string" => self.string(StringLength::NullTerminated)?,
            "static-length-string" => self.string(StringLength::Bytes(self.static_length()?))?,
            "dynamic-length-string" => self.dynamic_string()?,
            "static-length-blob" => self.static_blob()?,
            "dynamic-length-blob" => self.dynamic_blob()?,
            "structure" => self.structure()?,
            "static-length-array" => self.array(false)?,
            "dynamic-length-array" => self.array(true)?,
            "optional" => self.optional()?,
            _ => self.variant()?,
        };
        let roles = match self.object.optional("roles") {
            Some(value) => roles::read(self.object.source, value, type_name == "static-length-blob")?,
            None => Vec::new(),
        };
        Ok(Rc::new(self.node(kind, roles)))
    }

    /// The type, which the release candidates write in another way for enumerations.
    fn type_name(&self) -> Result<&'v str> {
        let written = self.object.required_string("type")?;
        let Some(&(_, name)) = ENUMERATIONS.iter().find(|(of, _)| *of == written) else { return Ok(written) };
        let span = self.object.required("type")?.span;
        self.object.source.candidate(span, &format!("field class type {}", quoted(written)))?;
        self.object.required("mappings")?;
        Ok(name)
    }

    fn unknown_type(&self, type_name: &str) -> Error {
        let span = self.object.optional("type").map_or(self.object.span, |value| value.span);
        let error = span.malformed(self.object.source, format!("unknown type {} of a field class", quoted(type_name)));
        suggest(error, type_name, TYPES.iter().map(|&(name, ..)| name))
    }

    fn node(&self, kind: NodeKind, roles: Vec<(&'static str, Span)>) -> FieldClassNode {
        let mut has_locations = match &kind {
            NodeKind::Leaf { .. } | NodeKind::Struct { .. } => false,
            NodeKind::Array { length, .. } => matches!(length, NodeLength::Field(_)),
            _ => true,
        };
        let (mut levels, mut weight, mut has_roles) = (0, 1u64, !roles.is_empty());
        let mut add = |part: &FieldClassNode| {
            levels = levels.max(part.levels);
            weight = weight.saturating_add(part.weight);
            has_locations |= part.has_locations;
            has_roles |= part.has_roles;
        };
        match &kind {
            NodeKind::Leaf { .. } | NodeKind::DynamicString { .. } | NodeKind::DynamicBlob { .. } => {}
            NodeKind::Struct { members, .. } => members.iter().for_each(|member| add(&member.node)),
            NodeKind::Array { element, .. } => add(element),
            NodeKind::Optional { content, .. } => add(content),
            NodeKind::Variant { options, .. } => options.iter().for_each(|option| add(&option.node)),
        }
        let span = self.object.span;
        FieldClassNode {
            span,
            kind,
            roles,
            levels: levels + 1,
            weight,
            has_locations,
            has_roles,
            shared: Cell::new(None),
        }
    }

    fn part(&self, object: &Object<'v>, name: &str) -> Result<Rc<FieldClassNode>> {
        self.aliases.field_class(object.source, object.required(name)?, self.level + 1)
    }

    fn bit_array(&self) -> Result<NodeKind> {
        let class = self.bits()?;
        let is_map = Own::from_object(&self.object).has("bit-map");
        self.leaf_bits(if is_map { FieldKind::BitMap(class) } else { FieldKind::BitArray(class) })
    }

    fn bit_map(&self) -> Result<NodeKind> {
        let mut class = self.bits()?;
        let flags = self.object.required("flags")?;
        class.flags = ranges::mappings(self.object.source, "flags", flags, 0, i128::from(class.len_bits) - 1)?;
        if class.flags.is_empty() {
            return Err(flags.span.malformed(self.object.source, "a bit map needs at least one flag"));
        }
        self.leaf_bits(FieldKind::BitMap(class))
    }

    fn float(&self) -> Result<NodeKind> {
        let BitsClass { len_bits, byte_order, reversed_bits, .. } = self.bits()?;
        if !matches!(len_bits, 16 | 32 | 64 | 128) && (len_bits < 128 || len_bits % 32 != 0) {
            let span = self.object.required("length")?.span;
            let message = format!(
                "length of a floating point number is `{len_bits}`, expected 16, 32, 64, 128 or a larger multiple of 32"
            );
            return Err(span.malformed(self.object.source, message));
        }
        self.leaf_bits(FieldKind::Float(FloatClass { len_bits, byte_order, reversed_bits }))
    }

    fn fixed(&self, signed: bool) -> Result<NodeKind> {
        let BitsClass { len_bits, byte_order, reversed_bits, .. } = self.bits()?;
        let class = IntegerClass { len_bits, byte_order, reversed_bits, ..self.integer(signed)? };
        if !signed && class.mappings.is_none() && len_bits <= 64 && Own::from_object(&self.object).has("boolean") {
            return self.leaf_bits(FieldKind::Boolean(self.bits()?));
        }
        self.leaf_bits(FieldKind::Integer(class))
    }

    fn leb(&self, signed: bool) -> Result<NodeKind> {
        Ok(NodeKind::Leaf { kind: FieldKind::Integer(self.integer(signed)?), align_bits: 8 })
    }

    /// The properties that fixed-length and variable-length integers share.
    fn integer(&self, signed: bool) -> Result<IntegerClass> {
        let base = match self.object.optional("preferred-display-base") {
            None => DisplayBase::Decimal,
            Some(value) => match value.kind {
                JsonKind::Integer(2) => DisplayBase::Binary,
                JsonKind::Integer(8) => DisplayBase::Octal,
                JsonKind::Integer(10) => DisplayBase::Decimal,
                JsonKind::Integer(16) => DisplayBase::Hexadecimal,
                _ => return Err(mismatch(self.object.source, "preferred-display-base", value, "2, 8, 10 or 16")),
            },
        };
        let mappings = match self.object.optional("mappings") {
            Some(value) => Some(ranges::mappings(self.object.source, "mappings", value, i128::MIN, i128::MAX)?),
            None => None,
        };
        let mappings = mappings.map(|mappings| Own::from_object(&self.object).mappings().unwrap_or(mappings));
        Ok(IntegerClass { signed, base, mappings, ..IntegerClass::unsigned(0) })
    }

    /// The properties of every fixed-length class: length, byte order and bit order.
    fn bits(&self) -> Result<BitsClass> {
        let len_bits = self.object.integer("length", 1, MAX_BITS)?.ok_or_else(|| self.object.missing("length"))?;
        let orders = [("little-endian", ByteOrder::Little), ("big-endian", ByteOrder::Big)];
        let byte_order = self.object.word("byte-order", &orders)?.ok_or_else(|| self.object.missing("byte-order"))?;
        let first_to_last = self.object.word("bit-order", &[("first-to-last", true), ("last-to-first", false)])?;
        let by_default = byte_order == ByteOrder::Little;
        let reversed_bits = first_to_last.unwrap_or(by_default) != by_default;
        Ok(BitsClass { len_bits: len_bits as u32, byte_order, reversed_bits, flags: Arc::new([]) })
    }

    fn leaf_bits(&self, kind: FieldKind) -> Result<NodeKind> {
        Ok(NodeKind::Leaf { kind, align_bits: self.alignment("alignment")? })
    }

    fn alignment(&self, name: &str) -> Result<u32> {
        let Some(value) = self.object.optional(name) else { return Ok(1) };
        let bits = integer(self.object.source, name, value, 1, MAX_ALIGN_BITS)? as u32;
        if bits.is_power_of_two() {
            return Ok(bits);
        }
        let message = format!("property `{name}` is `{bits}`, expected a power of two");
        Err(value.span.malformed(self.object.source, message))
    }

    fn encoding(&self) -> Result<Encoding> {
        let encoding = self.object.word("encoding", &ENCODINGS)?.unwrap_or_default();
        let is_ascii = encoding == Encoding::Utf8 && Own::from_object(&self.object).has("ascii");
        Ok(if is_ascii { Encoding::Ascii } else { encoding })
    }

    fn static_length(&self) -> Result<Length> {
        Ok(Length::Static(self.object.required_unsigned("length")?))
    }

    fn string(&self, length: StringLength) -> Result<NodeKind> {
        let class = StringClass { encoding: self.encoding()?, length };
        Ok(NodeKind::Leaf { kind: FieldKind::String(class), align_bits: 8 })
    }

    fn dynamic_string(&self) -> Result<NodeKind> {
        Ok(NodeKind::DynamicString { encoding: self.encoding()?, length: self.location("length-field-location")? })
    }

    fn media_type(&self) -> Result<Arc<str>> {
        Ok(self.object.string("media-type")?.unwrap_or_else(|| "application/octet-stream".into()))
    }

    fn static_blob(&self) -> Result<NodeKind> {
        let class = BlobClass { length: self.static_length()?, media_type: self.media_type()? };
        Ok(NodeKind::Leaf { kind: FieldKind::Blob(class), align_bits: 8 })
    }

    fn dynamic_blob(&self) -> Result<NodeKind> {
        Ok(NodeKind::DynamicBlob { media_type: self.media_type()?, length: self.location("length-field-location")? })
    }

    fn location(&self, name: &str) -> Result<Location> {
        Location::read(self.object.source, self.object.required(name)?)
    }

    fn structure(&self) -> Result<NodeKind> {
        let source = self.object.source;
        let values = self.object.array("member-classes")?.unwrap_or_default();
        let mut members = Vec::with_capacity(values.len());
        let mut names: HashMap<Arc<str>, u32> = HashMap::with_capacity(values.len());
        let mut renamed = Renamed::default();
        for value in values {
            let member = Object::new(source, value, "a structure member class")?;
            let mut name: Arc<str> = member.required_string("name")?.into();
            if let Some(&first) = names.get(&name) {
                let other = renamed.another(&name, values, |other| names.contains_key(other));
                let error = || {
                    let span = member.optional("name").map_or(member.span, |value| value.span);
                    let message = format!("two members of a structure are named {}", quoted(&name));
                    member.second(span, message, values[first as usize].span)
                };
                let reading = || format!("this one is read as {}; field locations mean the first one", quoted(&other));
                source.tolerate(error, reading)?;
                name = other;
            }
            names.insert(Arc::clone(&name), members.len() as u32);
            let node = self.part(&member, "field-class")?;
            member.check_properties(&["name", "field-class", "attributes", "extensions"])?;
            let shown = Own::from_object(&member).name().map_or_else(|| Arc::clone(&name), Arc::from);
            members.push(NodeMember { name, shown, node });
        }
        let own = Own::from_object(&self.object);
        let meaning = match () {
            () if own.has("tuple") && members.iter().all(|member| member.name.starts_with('[')) => StructMeaning::Tuple,
            () if own.has("with-length") && is_with_length(&members) => StructMeaning::WithLength,
            () => StructMeaning::Struct,
        };
        Ok(NodeKind::Struct { members, names, minimum_bits: self.alignment("minimum-alignment")?, meaning })
    }

    fn array(&self, dynamic: bool) -> Result<NodeKind> {
        let length = if dynamic {
            NodeLength::Field(self.location("length-field-location")?)
        } else {
            NodeLength::Static(self.object.required_unsigned("length")?)
        };
        let element = self.part(&self.object, "element-field-class")?;
        Ok(NodeKind::Array { element, length, minimum_bits: self.alignment("minimum-alignment")? })
    }

    fn optional(&self) -> Result<NodeKind> {
        let selector = self.location("selector-field-location")?;
        let ranges = match self.object.optional("selector-field-ranges") {
            // Our own selector is a boolean.
            Some(_) if Own::from_object(&self.object).has("boolean") => None,
            Some(value) => {
                let is_own = Own::from_object(&self.object).has(OF_BOOLEAN);
                Some(RangeSet { is_own, ..ranges::selector_ranges(self.object.source, value)? })
            }
            None => None,
        };
        let content = self.part(&self.object, "field-class")?;
        Ok(NodeKind::Optional { content, selector, ranges })
    }

    fn variant(&self) -> Result<NodeKind> {
        let source = self.object.source;
        let selector = self.location("selector-field-location")?;
        let values = self.object.array("options")?.ok_or_else(|| self.object.missing("options"))?;
        if values.is_empty() {
            let span = self.object.required("options")?.span;
            return Err(span.malformed(source, "a variant needs at least one option"));
        }
        let mut options = Vec::with_capacity(values.len());
        let mut names: HashMap<Arc<str>, Span> = HashMap::new();
        let mut renamed = Renamed::default();
        for value in values {
            let option = Object::new(source, value, "a variant option")?;
            let mut name = option.string("name")?;
            if let Some(of) = &mut name {
                let span = option.required("name")?.span;
                if let Some(&first) = names.get(of) {
                    let other = renamed.another(of, values, |other| names.contains_key(other));
                    let message = || format!("two options of a variant are named {}", quoted(of));
                    let reading = || format!("this one is read as {}", quoted(&other));
                    source.tolerate(|| option.second(span, message(), first), reading)?;
                    *of = other;
                }
                names.insert(Arc::clone(of), span);
            }
            let ranges = ranges::selector_ranges(source, option.required("selector-field-ranges")?)?;
            let ranges = RangeSet { is_own: Own::from_object(&self.object).has(OF_BOOLEAN), ..ranges };
            let node = self.part(&option, "field-class")?;
            option.check_properties(&["name", "field-class", "selector-field-ranges", "attributes", "extensions"])?;
            options.push(NodeOption { name, node, ranges });
        }
        ranges::refuse_overlap(source, &options.iter().map(|option| &option.ranges).collect::<Vec<_>>())?;
        Ok(NodeKind::Variant { options, selector })
    }
}

/// Names for members and options whose own names others have already.
#[derive(Default)]
struct Renamed<'v> {
    /// All names that are written, once one of them is found twice.
    written: Option<HashSet<&'v str>>,
    /// The next number for a name.
    next: HashMap<Arc<str>, u32>,
}

impl<'v> Renamed<'v> {
    /// `NAME_2` for the second one of a name, or the first such name that no other of `values` has.
    fn another(&mut self, name: &Arc<str>, values: &'v [JsonValue<'v>], is_taken: impl Fn(&str) -> bool) -> Arc<str> {
        let written = self.written.get_or_insert_with(|| values.iter().filter_map(name_of).collect());
        let next = self.next.entry(Arc::clone(name)).or_insert(2);
        loop {
            let other = format!("{name}_{next}");
            *next += 1;
            if !written.contains(other.as_str()) && !is_taken(&other) {
                return other.into();
            }
        }
    }
}

/// The `name` of an object.
fn name_of<'v>(value: &'v JsonValue<'v>) -> Option<&'v str> {
    let JsonKind::Object(properties) = &value.kind else { return None };
    properties.iter().find_map(|property| match &property.value.kind {
        JsonKind::String(name) if property.key == "name" => Some(&**name),
        _ => None,
    })
}

/// An unsigned integer, and an array or blob whose length it is.
fn is_with_length(members: &[NodeMember]) -> bool {
    let [length, content] = members else { return false };
    let is_number = matches!(&length.node.kind, NodeKind::Leaf { kind: FieldKind::Integer(class), .. }
        if !class.signed && class.len_bits <= 64 && class.mappings.is_none());
    let location = match &content.node.kind {
        NodeKind::Array { length: NodeLength::Field(location), .. } => location,
        NodeKind::DynamicBlob { length: location, .. } => location,
        _ => return false,
    };
    is_number && location.is_sibling(&length.name)
}

/// The types of enumerations in the release candidates, and the integers with mappings that became of them.
const ENUMERATIONS: [(&str, &str); 4] = [
    ("fixed-length-unsigned-enumeration", "fixed-length-unsigned-integer"),
    ("fixed-length-signed-enumeration", "fixed-length-signed-integer"),
    ("variable-length-unsigned-enumeration", "variable-length-unsigned-integer"),
    ("variable-length-signed-enumeration", "variable-length-signed-integer"),
];

/// A type of field class, its name in errors, and the properties that not all of them have.
type TypeEntry = (&'static str, &'static str, &'static [&'static [&'static str]]);

/// Properties of every fixed-length class, and of every integer.
const FIXED: &[&str] = &["length", "byte-order", "bit-order", "alignment"];
const INTEGER: &[&str] = &["preferred-display-base", "mappings"];
const ARRAY: &[&str] = &["element-field-class", "minimum-alignment"];
const BY_LENGTH: &[&str] = &["length-field-location"];

const TYPES: [TypeEntry; 18] = [
    ("fixed-length-bit-array", "a bit array field class", &[FIXED]),
    ("fixed-length-bit-map", "a bit map field class", &[FIXED, &["flags"]]),
    ("fixed-length-boolean", "a boolean field class", &[FIXED]),
    ("fixed-length-unsigned-integer", "a fixed-length unsigned integer field class", &[FIXED, INTEGER, &["roles"]]),
    ("fixed-length-signed-integer", "a fixed-length signed integer field class", &[FIXED, INTEGER]),
    ("fixed-length-floating-point-number", "a floating point number field class", &[FIXED]),
    ("variable-length-unsigned-integer", "a variable-length unsigned integer field class", &[INTEGER, &["roles"]]),
    ("variable-length-signed-integer", "a variable-length signed integer field class", &[INTEGER]),
    ("null-terminated-string", "a null-terminated string field class", &[&["encoding"]]),
    ("static-length-string", "a static-length string field class", &[&["length", "encoding"]]),
    ("dynamic-length-string", "a dynamic-length string field class", &[BY_LENGTH, &["encoding"]]),
    ("static-length-blob", "a static-length blob field class", &[&["length", "media-type", "roles"]]),
    ("dynamic-length-blob", "a dynamic-length blob field class", &[BY_LENGTH, &["media-type"]]),
    ("structure", "a structure field class", &[&["member-classes", "minimum-alignment"]]),
    ("static-length-array", "a static-length array field class", &[ARRAY, &["length"]]),
    ("dynamic-length-array", "a dynamic-length array field class", &[ARRAY, BY_LENGTH]),
    ("optional", "an optional field class", &[&["field-class", "selector-field-location", "selector-field-ranges"]]),
    ("variant", "a variant field class", &[&["options", "selector-field-location"]]),
];

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    fn read(text: &str) -> Result<Rc<FieldClassNode>> {
        let source = MetadataText::new(text, true);
        let value = json::parse(&source, Span::new(0, text.len()), 1).unwrap();
        Aliases::default().field_class(&source, &value, 1)
    }

    fn leaf(text: &str) -> (FieldKind, u32) {
        let node = read(text).unwrap();
        match &node.kind {
            NodeKind::Leaf { kind, align_bits } => (kind.clone(), *align_bits),
            other => panic!("not a leaf: {other:?}"),
        }
    }

    #[test]
    fn every_type_has_its_properties() {
        for (name, what, _) in TYPES {
            let error = read(&format!(r#"{{"type": "{name}", "typo": 1}}"#)).unwrap_err();
            assert_eq!(error.message(), format!("unknown property `typo` of {what}"));
            assert_eq!(error.help(), Some("did you mean `type`?"));
        }
    }

    #[test]
    fn bit_order_is_relative_to_the_byte_order() {
        for (byte_order, bit_order, reversed) in [
            ("little-endian", "first-to-last", false),
            ("little-endian", "last-to-first", true),
            ("big-endian", "first-to-last", true),
            ("big-endian", "last-to-first", false),
        ] {
            let (kind, align) = leaf(&format!(
                r#"{{"type": "fixed-length-bit-array", "length": 12, "byte-order": "{byte_order}",
                    "bit-order": "{bit_order}", "alignment": 4}}"#
            ));
            let FieldKind::BitArray(class) = kind else { panic!("a bit array") };
            assert_eq!((class.reversed_bits, class.len_bits, align), (reversed, 12, 4));
        }
    }

    #[test]
    fn mappings_keep_their_order_and_wide_bounds() {
        let (kind, align) = leaf(
            r#"{"type": "variable-length-unsigned-integer", "preferred-display-base": 16,
                "mappings": {"z": [[0, 18446744073709551615], [3, 4]], "a": [[-5, -5]]}}"#,
        );
        let FieldKind::Integer(class) = kind else { panic!("an integer") };
        assert!(class.is_variable_length() && !class.signed && align == 8);
        assert_eq!(class.base, DisplayBase::Hexadecimal);
        let mappings = class.mappings.unwrap();
        assert_eq!(&*mappings[0].label, "z");
        assert_eq!(mappings[0].ranges, [(0, u64::MAX.into()), (3, 4)]);
        assert_eq!(&*mappings[1].label, "a");
    }

    #[test]
    fn strings_and_blobs_are_byte_aligned() {
        let (kind, align) = leaf(r#"{"type": "static-length-string", "length": 0, "encoding": "utf-32be"}"#);
        let FieldKind::String(class) = kind else { panic!("a string") };
        assert_eq!((class.encoding, class.length), (Encoding::Utf32Be, StringLength::Bytes(Length::Static(0))));
        assert_eq!(align, 8);
        let (kind, align) = leaf(r#"{"type": "static-length-blob", "length": 3}"#);
        let FieldKind::Blob(class) = kind else { panic!("a blob") };
        assert_eq!((&*class.media_type, align), ("application/octet-stream", 8));
    }

    #[test]
    fn floats_have_the_lengths_of_the_standard() {
        let float = |length: u32| {
            read(&format!(
                r#"{{"type": "fixed-length-floating-point-number", "length": {length}, "byte-order": "big-endian"}}"#
            ))
        };
        for length in [16, 32, 64, 128, 160, 192, 256] {
            assert!(float(length).is_ok(), "{length}");
        }
        for length in [1, 8, 24, 48, 80, 96, 144] {
            assert!(float(length).is_err(), "{length}");
        }
    }

    #[test]
    fn weight_and_levels_add_up() {
        let node = read(
            r#"{"type": "structure", "member-classes": [
                {"name": "n", "field-class": {"type": "variable-length-unsigned-integer"}},
                {"name": "a", "field-class": {"type": "dynamic-length-array", "length-field-location": {"path": ["n"]},
                    "element-field-class": {"type": "null-terminated-string"}}}]}"#,
        )
        .unwrap();
        assert_eq!((node.levels, node.weight, node.has_locations, node.has_roles), (3, 4, true, false));
    }
}
