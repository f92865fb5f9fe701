//! From tags to facilities.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tracemill_model::error::Error;
use tracemill_model::schema::Mapping;

use super::{
    DefinitionFile, EventDefinition, FacilityDefinition, FacilityType, FieldDefinition, Integer, TypeKind, checksum,
};
use crate::tags::{Lexer, Problem, Tag};

/// Types inside types.
const MAX_DEPTH: u32 = 32;
/// Fields and labels of an event when every type is written out: types that contain one another several times grow by
/// multiplication.
const MAX_EVENT_SIZE: u64 = 1 << 14;
/// Fields and labels of all events of a facility together.
const MAX_FACILITY_SIZE: u64 = 1 << 20;

/// Damaged facilities of one file that are reported.
const MAX_BROKEN: usize = 100;

type Result<T> = std::result::Result<T, Problem>;

pub(super) fn parse(text: &[u8], path: &Path) -> DefinitionFile {
    let mut file = DefinitionFile::default();
    let mut lexer = Lexer::new(text);
    while file.broken.len() < MAX_BROKEN {
        let begin = lexer.pos();
        let tag = match lexer.next() {
            Ok(Some(tag)) => tag,
            Ok(None) => break,
            Err(problem) => {
                file.broken.push((None, problem.error(text, path)));
                if !lexer.resume(begin + 1, "facility") {
                    break;
                }
                continue;
            }
        };
        if tag.name != "facility" || tag.is_end {
            continue;
        }
        let name = tag.value("name").map(str::to_string);
        let mut parser = DefinitionParser { lexer: &mut lexer, types: HashMap::new() };
        match parser.facility(&tag) {
            Ok(facility) => file.facilities.push(Arc::new(facility)),
            Err(problem) => {
                file.broken.push((name, problem.error(text, path)));
                lexer.resume(tag.at + 1, "facility");
            }
        }
    }
    if file.facilities.is_empty() && file.broken.is_empty() {
        file.broken.push((None, Error::malformed("no element `facility` in the file").in_file(path).at_offset(0)));
    }
    file
}

struct DefinitionParser<'l, 'a> {
    lexer: &'l mut Lexer<'a>,
    types: HashMap<String, Arc<FacilityType>>,
}

impl DefinitionParser<'_, '_> {
    fn facility(&mut self, tag: &Tag) -> Result<FacilityDefinition> {
        let mut facility = FacilityDefinition {
            name: required(tag, "name")?.to_string(),
            arch: tag.value("arch").map(str::to_string),
            events: Vec::new(),
            checksum: 0,
        };
        let mut size = 0u64;
        self.children(tag, |parser, child| {
            match child.name.as_str() {
                "type" => parser.named_type(&child)?,
                "event" => {
                    let event = parser.event(&child)?;
                    let of_event = fields_size(&event.fields);
                    size = size.saturating_add(of_event);
                    if of_event > MAX_EVENT_SIZE || size > MAX_FACILITY_SIZE {
                        return Err(problem(&child, "the event has too many fields when every type is written out"));
                    }
                    facility.events.push(event);
                }
                name => return Err(problem(&child, format!("an element `{name}` in a facility"))),
            }
            Ok(())
        })?;
        facility.checksum = checksum::compute(&facility);
        Ok(facility)
    }

    fn named_type(&mut self, tag: &Tag) -> Result<()> {
        let name = required(tag, "name")?.to_string();
        let class = self.only_type(tag, 0, &format!("under the name `{name}`"))?;
        self.types.insert(name, class);
        Ok(())
    }

    /// The one type inside an element; `place` says in errors where it belongs.
    fn only_type(&mut self, tag: &Tag, depth: u32, place: &str) -> Result<Arc<FacilityType>> {
        let mut class = None;
        self.children(tag, |parser, child| {
            if class.is_some() {
                return Err(problem(&child, format!("a second type {place}")));
            }
            class = Some(parser.class(&child, depth)?);
            Ok(())
        })?;
        class.ok_or_else(|| problem(tag, format!("no type {place}")))
    }

    fn event(&mut self, tag: &Tag) -> Result<EventDefinition> {
        let mut event = EventDefinition {
            name: required(tag, "name")?.to_string(),
            description: None,
            fields: Vec::new(),
            has_compact_data: tag
                .attributes
                .iter()
                .any(|one| one.name == "attribute" && one.value.as_deref() == Some("compact_data")),
        };
        event.description = self.children(tag, |parser, child| {
            match child.name.as_str() {
                "field" => event.fields.push(parser.field(&child, 0)?),
                // Files of early 2005 wrap the fields.
                "struct" => event.fields.append(&mut parser.fields(&child, 0)?),
                name => return Err(problem(&child, format!("an element `{name}` in an event"))),
            }
            Ok(())
        })?;
        Ok(event)
    }

    fn field(&mut self, tag: &Tag, depth: u32) -> Result<FieldDefinition> {
        let name = required(tag, "name")?;
        let class = self.only_type(tag, depth, &format!("of the field `{name}`"))?;
        Ok(FieldDefinition { name: name.into(), class })
    }

    fn fields(&mut self, tag: &Tag, depth: u32) -> Result<Vec<FieldDefinition>> {
        let mut fields = Vec::new();
        self.children(tag, |parser, child| {
            match child.name.as_str() {
                "field" => fields.push(parser.field(&child, depth)?),
                name => return Err(problem(&child, format!("an element `{name}` among fields"))),
            }
            Ok(())
        })?;
        Ok(fields)
    }

    /// The type that begins with a tag.
    fn class(&mut self, tag: &Tag, depth: u32) -> Result<Arc<FacilityType>> {
        if depth > MAX_DEPTH {
            return Err(problem(tag, format!("types inside types, more than {MAX_DEPTH} deep")));
        }
        if let Some(kind) = primitive(tag)? {
            self.optional_end(tag)?;
            return Ok(finish(tag, kind));
        }
        let kind = match tag.name.as_str() {
            "typeref" => {
                let name = required(tag, "name")?;
                let known = self.types.get(name).cloned();
                self.optional_end(tag)?;
                return known.ok_or_else(|| problem(tag, format!("no type `{name}` is declared before")));
            }
            "enum" => self.enumeration(tag)?,
            "array" => {
                let len = number(tag, "size")?.ok_or_else(|| problem(tag, "no `size` of the array"))?;
                let len = u64::try_from(len).ok().filter(|&len| len > 0);
                let len = len.ok_or_else(|| problem(tag, "the `size` of the array is not above 0"))?;
                let Ok([element]) = <[_; 1]>::try_from(self.classes(tag, depth)?) else {
                    return Err(problem(tag, "an array has one type of elements"));
                };
                TypeKind::Array(len, with_size(tag, element)?)
            }
            "sequence" => self.sequence(tag, depth)?,
            "struct" => TypeKind::Struct(self.fields(tag, depth + 1)?),
            "union" => TypeKind::Union(self.fields(tag, depth + 1)?),
            name => return Err(problem(tag, format!("`{name}` is not a type"))),
        };
        let class = finish(tag, kind);
        if class.size > MAX_EVENT_SIZE {
            return Err(problem(tag, "the type has too many fields when every type in it is written out"));
        }
        Ok(class)
    }

    fn classes(&mut self, tag: &Tag, depth: u32) -> Result<Vec<Arc<FacilityType>>> {
        let mut classes = Vec::new();
        self.children(tag, |parser, child| {
            classes.push(parser.class(&child, depth + 1)?);
            Ok(())
        })?;
        Ok(classes)
    }

    fn sequence(&mut self, tag: &Tag, depth: u32) -> Result<TypeKind> {
        let mut classes = self.classes(tag, depth)?.into_iter();
        let first = match number(tag, "lengthsize")? {
            Some(bytes) => {
                Some(finish(tag, TypeKind::Integer(Integer::Fixed(size_of(tag, "lengthsize", bytes)?, false))))
            }
            None => classes.next(),
        };
        let (Some(length), Some(element), None) = (first, classes.next(), classes.next()) else {
            return Err(problem(tag, "a sequence has a type of its length and one of its elements"));
        };
        let is_unsigned = |integer: &Integer| !integer.is_signed() && *integer != Integer::Pointer;
        if !matches!(&length.kind, TypeKind::Integer(integer) if is_unsigned(integer)) {
            return Err(problem(tag, "the length of a sequence is an unsigned integer"));
        }
        Ok(TypeKind::Sequence(length, with_size(tag, element)?))
    }

    fn enumeration(&mut self, tag: &Tag) -> Result<TypeKind> {
        let mut labels: Vec<Mapping> = Vec::new();
        let mut next = 0i128;
        self.children(tag, |parser, child| {
            match child.name.as_str() {
                "label" => {
                    let value = number(&child, "value")?.unwrap_or(next);
                    next = value.saturating_add(1);
                    let label = required(&child, "name")?.into();
                    parser.optional_end(&child)?;
                    labels.push(Mapping { label, ranges: vec![(value, value)] });
                }
                name => return Err(problem(&child, format!("an element `{name}` among labels"))),
            }
            Ok(())
        })?;
        Ok(TypeKind::Enumeration(labels.into()))
    }

    /// The text of a description; its end tag may be missing.
    fn description(&mut self, tag: &Tag) -> Result<String> {
        if tag.is_empty {
            return Ok(String::new());
        }
        let text = self.lexer.raw_text()?;
        self.optional_end(tag)?;
        Ok(text)
    }

    /// Takes the end tag of an element that needs none.
    fn optional_end(&mut self, tag: &Tag) -> Result<()> {
        if !tag.is_empty && self.lexer.peek()?.is_some_and(|next| next.is_end && next.name == tag.name) {
            self.lexer.next()?;
        }
        Ok(())
    }

    /// Calls `each` for the start tags inside an element, up to its end tag; gives the description, which every
    /// element may have.
    fn children(&mut self, tag: &Tag, mut each: impl FnMut(&mut Self, Tag) -> Result<()>) -> Result<Option<String>> {
        let mut description = None;
        if tag.is_empty {
            return Ok(description);
        }
        loop {
            let Some(child) = self.lexer.next()? else {
                let message = format!("the file ends inside of the element `{}`, which begins here", tag.name);
                return Err(problem(tag, message));
            };
            if !child.is_end && child.name == "description" {
                description = Some(self.description(&child)?);
            } else if !child.is_end {
                each(self, child)?;
            } else if child.name == tag.name {
                return Ok(description);
            } else {
                return Err(problem(&child, format!("`</{}>` where `</{}>` is expected", child.name, tag.name)));
            }
        }
    }
}

fn problem(tag: &Tag, message: impl Into<String>) -> Problem {
    Problem::new(tag.at, tag.end.saturating_sub(tag.at).max(1), message)
}

fn required<'t>(tag: &'t Tag, name: &str) -> Result<&'t str> {
    let value = tag.value(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| problem(tag, format!("the element `{}` has no `{name}`", tag.name)))
}

/// The number that an attribute holds: decimal or hexadecimal, also negative.
fn number(tag: &Tag, name: &str) -> Result<Option<i128>> {
    let Some(attribute) = tag.attribute(name) else { return Ok(None) };
    let text = attribute.value.as_deref().unwrap_or_default().trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse::<u64>().ok(),
    };
    let message = || Problem::new(attribute.at, name.len(), format!("`{text}` is not a number for `{name}`"));
    value.map(|value| Some(sign * i128::from(value))).ok_or_else(message)
}

/// Bytes of an integer.
fn size_of(tag: &Tag, name: &str, bytes: i128) -> Result<u8> {
    match bytes {
        1 | 2 | 4 | 8 => Ok(bytes as u8),
        _ => Err(problem(tag, format!("`{name}` is {bytes}, expected 1, 2, 4 or 8"))),
    }
}

/// Integers that have the names of C's types: in definitions, and in checksums.
pub(super) const NAMED: [(&str, &str, Integer); 12] = [
    ("char", "signed char", Integer::Char),
    ("uchar", "unsigned char", Integer::UChar),
    ("short", "short", Integer::Short),
    ("ushort", "unsigned short", Integer::UShort),
    ("int", "int", Integer::Int),
    ("uint", "uint", Integer::UInt),
    ("long", "long", Integer::Long),
    ("ulong", "unsigned long", Integer::ULong),
    ("pointer", "void *", Integer::Pointer),
    ("size_t", "size_t", Integer::Size),
    ("ssize_t", "ssize_t", Integer::SSize),
    ("off_t", "off_t", Integer::Offset),
];

/// The type that an element without content stands for.
fn primitive(tag: &Tag) -> Result<Option<TypeKind>> {
    let size = || {
        let bytes = number(tag, "size")?.ok_or_else(|| problem(tag, format!("no `size` of `{}`", tag.name)))?;
        size_of(tag, "size", bytes)
    };
    Ok(Some(match tag.name.as_str() {
        "int_fixed" => TypeKind::Integer(Integer::Fixed(size()?, true)),
        "uint_fixed" => TypeKind::Integer(Integer::Fixed(size()?, false)),
        "string" => TypeKind::String,
        "float" => match size()? {
            bytes @ (4 | 8) => TypeKind::Float(bytes),
            bytes => return Err(problem(tag, format!("a `float` of {bytes} bytes, expected 4 or 8"))),
        },
        name => match NAMED.iter().find(|(known, ..)| *known == name) {
            Some((.., integer)) => TypeKind::Integer(*integer),
            None => return Ok(None),
        },
    }))
}

fn finish(tag: &Tag, kind: TypeKind) -> Arc<FacilityType> {
    let class = FacilityType::new(kind, tag.value("format").map(str::to_string));
    Arc::new(FacilityType { is_network: tag.value("byte_order") == Some("network"), ..class })
}

pub(super) fn fields_size(fields: &[FieldDefinition]) -> u64 {
    fields.iter().map(|field| field.class.size.saturating_add(name_size(&field.name))).fold(0, u64::saturating_add)
}

/// Size that a name counts for: long ones count for more, since checksums go through all of them.
pub(super) fn name_size(name: &str) -> u64 {
    1 + name.len() as u64 / 16
}

/// Does the language have events of these fields?
pub(in super::super) fn are_possible(fields: &[FieldDefinition]) -> bool {
    fields_size(fields) <= MAX_EVENT_SIZE && fields.iter().all(|field| is_possible(field, 0))
}

fn is_possible(field: &FieldDefinition, depth: u32) -> bool {
    !field.name.is_empty() && is_class_possible(&field.class, depth)
}

fn is_class_possible(class: &FacilityType, depth: u32) -> bool {
    let is_inside = match &class.kind {
        TypeKind::Array(_, element) | TypeKind::Sequence(_, element) => {
            !is_empty(element) && is_class_possible(element, depth + 1)
        }
        TypeKind::Struct(fields) | TypeKind::Union(fields) => fields.iter().all(|field| is_possible(field, depth + 1)),
        TypeKind::Enumeration(labels) => {
            let mut values = labels.iter().flat_map(|label| &label.ranges).map(|range| range.0);
            values.all(|value| value.unsigned_abs() <= u64::MAX.into())
        }
        TypeKind::Integer(_) | TypeKind::Float(_) | TypeKind::String => true,
    };
    is_inside && depth <= MAX_DEPTH && class.size() <= MAX_EVENT_SIZE
}

/// Is a facility, all of whose events are possible, not too large?
pub(super) fn is_facility_possible(facility: &FacilityDefinition) -> bool {
    let sizes = facility.events.iter().map(|event| fields_size(&event.fields));
    sizes.fold(0, u64::saturating_add) <= MAX_FACILITY_SIZE
}

/// Is it a structure without fields?
fn is_empty(class: &FacilityType) -> bool {
    match &class.kind {
        TypeKind::Struct(fields) | TypeKind::Union(fields) => fields.iter().all(|field| is_empty(&field.class)),
        _ => false,
    }
}

/// Refuses elements without size: any number of them fits.
fn with_size(tag: &Tag, element: Arc<FacilityType>) -> Result<Arc<FacilityType>> {
    if is_empty(&element) { Err(problem(tag, "its elements are structures without fields")) } else { Ok(element) }
}
