//! Sizes, references and parts of field classes, without data.

use std::collections::HashSet;

use tracemill_model::schema::{
    BlobClass, ByteOrder, FieldClass, FieldClassId, FieldKind, FieldPath, IntegerClass, Length, PathStep, Schema,
    Scope, StringClass, StringLength,
};

/// The fewest bits that an instance of the class can take, alignment not counted.
///
/// A length that is larger than what remains divided by this is refused before anything is decoded.
///
/// ```
/// use tracemill_codec::layout::min_bits;
/// use tracemill_model::schema::{ArrayClass, FieldClass, FieldKind, IntegerClass, Length, Schema};
/// let mut schema = Schema::new("example");
/// let element = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(16)), 8));
/// let array = FieldKind::Array(ArrayClass { element, length: Length::Static(3) });
/// let array = schema.add_field_class(FieldClass::new(array, 8));
/// assert_eq!(min_bits(&schema, array), 48);
/// ```
pub fn min_bits(schema: &Schema, id: FieldClassId) -> u64 {
    let class = schema.field_class(id);
    if let Some(bits) = leaf_bits(class) {
        return bits;
    }
    match &class.kind {
        FieldKind::String(class) => match &class.length {
            StringLength::NullTerminated => class.encoding.unit_bytes() as u64 * 8,
            // One whose last code unit is not whole: no leaf of a fixed size, as it is a fault wherever it stands.
            StringLength::Bytes(Length::Static(bytes)) => bytes.saturating_mul(8),
            StringLength::Bytes(length) => length_bits(schema, length),
        },
        FieldKind::Blob(class) => length_bits(schema, &class.length),
        FieldKind::Struct(class) => {
            class.members.iter().map(|member| min_bits(schema, member.class)).fold(0, u64::saturating_add)
        }
        FieldKind::Array(class) => match &class.length {
            Length::Static(len) => len.saturating_mul(min_bits(schema, class.element)),
            length => length_bits(schema, length),
        },
        FieldKind::Variant(class) => {
            class.options.iter().map(|option| min_bits(schema, option.class)).min().unwrap_or(0)
        }
        FieldKind::Optional(_) => 0,
        // The one leaf without a fixed size that is left: an integer of variable length.
        _ => 8,
    }
}

/// Bits that a length takes itself.
fn length_bits(schema: &Schema, length: &Length) -> u64 {
    match length {
        Length::Inline(class) => min_bits(schema, *class),
        Length::Static(_) | Length::Field(_) | Length::Table { .. } | Length::Located => 0,
    }
}

/// Length in bits and byte order of a field that is read bit by bit.
pub fn bit_field(kind: &FieldKind) -> Option<(u32, ByteOrder)> {
    match kind {
        FieldKind::Integer(integer) if integer.is_variable_length() => None,
        FieldKind::Integer(integer) => Some((integer.len_bits, integer.byte_order)),
        FieldKind::BitArray(bits) | FieldKind::BitMap(bits) | FieldKind::Boolean(bits) => {
            Some((bits.len_bits, bits.byte_order))
        }
        FieldKind::Float(float) => Some((float.len_bits, float.byte_order)),
        _ => None,
    }
}

/// The length of a leaf whose size the metadata fixes, in bits.
pub fn leaf_bits(class: &FieldClass) -> Option<u64> {
    if let Some((len_bits, _)) = bit_field(&class.kind) {
        return Some(len_bits.into());
    }
    match &class.kind {
        FieldKind::String(StringClass { length: StringLength::Bytes(Length::Static(bytes)), encoding }) => {
            bytes.is_multiple_of(encoding.unit_bytes() as u64).then_some(bytes.saturating_mul(8))
        }
        FieldKind::Blob(BlobClass { length: Length::Static(bytes), .. }) => Some(bytes.saturating_mul(8)),
        FieldKind::Rendered(class) => Some(u64::from(class.len_bytes) * 8),
        _ => None,
    }
}

/// The nodes that the tree below each field class has when every class is written out at each of its uses, by its id.
///
/// Classes may be shared, so a schema of 100 classes can describe a tree of 2^100 fields; plans are as large as the
/// tree, and only a front end can refuse it.
///
/// Linear in the schema: classes are added after those inside them.
pub fn tree_sizes(schema: &Schema) -> Vec<u64> {
    let mut sizes: Vec<u64> = Vec::with_capacity(schema.field_class_count());
    for at in 0..schema.field_class_count() {
        let parts = children(schema.field_class(FieldClassId(at as u32)));
        let size = parts.iter().map(|part| sizes.get(part.0 as usize).copied().unwrap_or(u64::MAX));
        sizes.push(size.fold(1, u64::saturating_add));
    }
    sizes
}

/// The most levels of classes inside one another that a class of the schema has, itself included.
///
/// Linear in the schema: classes are added after those inside them.
pub fn deepest(schema: &Schema) -> u32 {
    let mut levels: Vec<u32> = Vec::with_capacity(schema.field_class_count());
    for at in 0..schema.field_class_count() {
        let parts = children(schema.field_class(FieldClassId(at as u32)));
        let inside = parts.iter().map(|part| levels.get(part.0 as usize).copied().unwrap_or(0)).max();
        levels.push(inside.unwrap_or(0).saturating_add(1));
    }
    levels.into_iter().max().unwrap_or(0)
}

/// The field that decides the length or the choice of a class itself (not of its members).
pub fn reference(class: &FieldClass) -> Option<&FieldPath> {
    let length = match &class.kind {
        FieldKind::String(class) => match &class.length {
            StringLength::Bytes(length) => length,
            StringLength::NullTerminated => return None,
        },
        FieldKind::Blob(class) => &class.length,
        FieldKind::Array(class) => &class.length,
        FieldKind::Optional(class) => return Some(&class.selector),
        FieldKind::Variant(class) => return Some(&class.selector),
        _ => return None,
    };
    match length {
        Length::Field(path) | Length::Table { selector: path, .. } => Some(path),
        Length::Static(_) | Length::Inline(_) | Length::Located => None,
    }
}

/// The classes directly inside a class, and the steps that lead to them.
pub fn steps(class: &FieldClass) -> impl Iterator<Item = (PathStep, FieldClassId)> {
    let step = match &class.kind {
        FieldKind::Struct(_) => PathStep::Member,
        FieldKind::Variant(_) => PathStep::Option,
        FieldKind::Array(_) => |_| PathStep::Element,
        _ => |_| PathStep::Content,
    };
    children(class).into_iter().enumerate().map(move |(at, id)| (step(at as u32), id))
}

/// The class that a step leads to from a class.
pub fn child(class: &FieldClass, step: PathStep) -> Option<FieldClassId> {
    match (&class.kind, step) {
        (FieldKind::Struct(class), PathStep::Member(at)) => class.members.get(at as usize).map(|member| member.class),
        (FieldKind::Array(class), PathStep::Element) => Some(class.element),
        (FieldKind::Variant(class), PathStep::Option(at) | PathStep::Selected(at)) => {
            class.options.get(at as usize).map(|option| option.class)
        }
        (FieldKind::Optional(class), PathStep::Content) => Some(class.content),
        _ => None,
    }
}

/// A class and all classes inside it, each as often as it is used, the last ones of each class first.
pub fn descendants(schema: &Schema, root: FieldClassId) -> impl Iterator<Item = &FieldClass> {
    let mut stack = vec![root];
    std::iter::from_fn(move || {
        let class = schema.field_class(stack.pop()?);
        stack.extend(children(class));
        Some(class)
    })
}

/// The classes directly inside a class.
pub fn children(class: &FieldClass) -> Vec<FieldClassId> {
    match &class.kind {
        FieldKind::Struct(class) => class.members.iter().map(|member| member.class).collect(),
        FieldKind::Array(class) => vec![class.element],
        FieldKind::Optional(class) => vec![class.content],
        FieldKind::Variant(class) => class.options.iter().map(|option| option.class).collect(),
        _ => Vec::new(),
    }
}

/// Is it an 8-bit integer that is a character, and aligned to bytes?
pub fn is_character(schema: &Schema, id: FieldClassId) -> bool {
    let class = schema.field_class(id);
    let is_one = |integer: &IntegerClass| integer.is_character && integer.len_bits == 8 && integer.mappings.is_none();
    class.align_bits == 8 && matches!(&class.kind, FieldKind::Integer(integer) if is_one(integer))
}

/// Tells fields that are data from those that only say where packets and events are, which readers of CTF do not show.
#[derive(Clone, Debug, Default)]
pub struct DataFields {
    /// Fields that lengths and selectors name.
    referenced: HashSet<FieldPath>,
}

impl DataFields {
    /// The fields of headers, packet contexts and common contexts that other fields of a schema refer to.
    pub fn new(schema: &Schema) -> Self {
        let classes = (0..schema.field_class_count()).map(|at| schema.field_class(FieldClassId(at as u32)));
        let paths = classes.filter_map(reference).filter(|path| path.scope <= Scope::CommonContext);
        DataFields { referenced: paths.cloned().collect() }
    }

    /// Adds what the fields below a class refer to.
    pub fn add_references(&mut self, schema: &Schema, root: FieldClassId) {
        self.referenced.extend(descendants(schema, root).filter_map(reference).cloned());
    }

    /// Is the field data? One that only says where packets and events are is shown when data depend on it. `path` is
    /// changed on the way, and restored.
    pub fn has(&self, schema: &Schema, id: FieldClassId, path: &mut FieldPath) -> bool {
        let class = schema.field_class(id);
        let mut below = |step: PathStep, id: FieldClassId| {
            path.steps.push(step);
            let is_data = self.has(schema, id, path);
            path.steps.pop();
            is_data
        };
        match &class.kind {
            FieldKind::Integer(_) => class.roles.is_empty() || self.referenced.contains(path),
            FieldKind::Blob(_) => class.roles.is_empty(),
            FieldKind::Struct(structure) => {
                let mut members = structure.members.iter().enumerate();
                structure.members.is_empty()
                    || members.any(|(at, member)| below(PathStep::Member(at as u32), member.class))
            }
            FieldKind::Array(array) => class.roles.is_empty() && below(PathStep::Element, array.element),
            FieldKind::Optional(optional) => below(PathStep::Content, optional.content),
            FieldKind::Variant(variant) => {
                let mut options = variant.options.iter().enumerate();
                options.any(|(at, option)| below(PathStep::Option(at as u32), option.class))
            }
            _ => true,
        }
    }
}
