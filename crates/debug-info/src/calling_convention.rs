//! Where the calling convention of x86-64 has structures, and others that may need two registers, when they are passed by
//! value: by what is in them (System V ABI, 3.2.3).

use gimli::{AttributeValue, Error, UnitOffset, UnitRef};

use crate::dwarf::{DebugEntry, DwarfSlice};

/// Structures within structures, and names of types.
const MOST_LEVELS: usize = 64;
/// Types within a structure that are looked at.
const MOST_TYPES: usize = 4096;
/// A structure that is longer is in memory.
const IN_REGISTERS: u64 = 16;

/// How a value is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    /// Not at all: nothing is in it.
    Nothing,
    /// In these registers, one after the other; all of it is on the stack where one is lacking.
    Registers(Register, Option<Register>),
    /// On the stack; as a result, at an address that the caller gives.
    Memory,
    /// On the stack; as a result, in the register of a `long double`.
    LongDouble,
    /// By its address; as a result, at one that the caller gives.
    Reference,
}

/// A kind of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    Integer,
    Vector,
}

/// The convention's class of 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EightbyteClass {
    #[default]
    None,
    Integer,
    /// The beginning of a vector register.
    Vector,
    /// The rest of one.
    VectorRest,
    LongDouble,
    LongDoubleRest,
    Memory,
}

impl EightbyteClass {
    fn merged(self, other: EightbyteClass) -> EightbyteClass {
        match (self, other) {
            (one, other) if one == other => one,
            (EightbyteClass::None, other) | (other, EightbyteClass::None) => other,
            (EightbyteClass::Memory, _) | (_, EightbyteClass::Memory) => EightbyteClass::Memory,
            (EightbyteClass::Integer, _) | (_, EightbyteClass::Integer) => EightbyteClass::Integer,
            (
                EightbyteClass::Vector | EightbyteClass::VectorRest,
                EightbyteClass::Vector | EightbyteClass::VectorRest,
            ) => EightbyteClass::Vector,
            _ => EightbyteClass::Memory,
        }
    }
}

/// The contents of a structure.
#[derive(Clone, Copy, Debug, Default)]
struct Content {
    classes: [EightbyteClass; 2],
    /// Does it go beyond the registers, or does something stand where it cannot be loaded from?
    is_in_memory: bool,
    /// Is it copied, moved or destroyed by functions?
    is_object: bool,
    /// Types that were looked at.
    seen: usize,
}

impl Content {
    /// Adds a value of these classes, from the first byte on.
    fn add(&mut self, begin: u64, leaf: &Leaf) {
        self.is_in_memory |= !begin.is_multiple_of(leaf.align);
        self.cover(begin, begin.saturating_add(leaf.size), leaf.classes);
    }

    fn cover(&mut self, begin: u64, end: u64, [first, rest]: [EightbyteClass; 2]) {
        self.is_in_memory |= end > IN_REGISTERS;
        let words = begin / 8..end.min(IN_REGISTERS).div_ceil(8);
        for word in words.clone() {
            let class = if word == words.start { first } else { rest };
            let known = &mut self.classes[word as usize];
            *known = known.merged(class);
        }
    }

    /// Adds a structure that is complete: one that has the rest of a `long double` alone is in memory, whatever is around it.
    fn add_structure(&mut self, own: Content) {
        let [first, second] = own.classes;
        let is_rest_alone = second == EightbyteClass::LongDoubleRest && first != EightbyteClass::LongDouble;
        self.is_in_memory |= own.is_in_memory || is_rest_alone;
        self.is_object |= own.is_object;
        self.seen = own.seen;
        self.classes = [self.classes[0].merged(first), self.classes[1].merged(second)];
    }

    /// The passing of a structure of this size; `None` for what no compiler makes.
    fn passing(self, size: u64) -> Option<Passing> {
        if self.is_object {
            return Some(Passing::Reference);
        }
        let [first, second] = self.classes;
        if size > IN_REGISTERS || self.is_in_memory || [first, second].contains(&EightbyteClass::Memory) {
            return Some(Passing::Memory);
        }
        let register = |class| match class {
            EightbyteClass::Integer => Some(Register::Integer),
            EightbyteClass::Vector | EightbyteClass::VectorRest => Some(Register::Vector),
            _ => None,
        };
        Some(match (first, second) {
            (EightbyteClass::None, EightbyteClass::None) => Passing::Nothing,
            (EightbyteClass::LongDouble, EightbyteClass::LongDoubleRest) => Passing::LongDouble,
            (EightbyteClass::Vector, EightbyteClass::VectorRest | EightbyteClass::None) => {
                Passing::Registers(Register::Vector, None)
            }
            (first, EightbyteClass::None) => Passing::Registers(register(first)?, None),
            (first, second) => Passing::Registers(register(first)?, Some(register(second)?)),
        })
    }
}

/// A value that has no parts.
struct Leaf {
    size: u64,
    align: u64,
    /// Of its first 8 bytes, and of all that follow.
    classes: [EightbyteClass; 2],
}

impl Leaf {
    /// One that is aligned to its size.
    fn new(size: u64, class: EightbyteClass) -> Leaf {
        Leaf { size, align: size, classes: [class; 2] }
    }

    fn from_base_type(size: u64, encoding: gimli::DwAte, name: &str) -> Option<Leaf> {
        let class = match encoding {
            gimli::DW_ATE_float => match (size, name) {
                (2 | 4 | 8, _) => EightbyteClass::Vector,
                (16, "long double") => {
                    return Some(Leaf {
                        classes: [EightbyteClass::LongDouble, EightbyteClass::LongDoubleRest],
                        ..Leaf::new(16, EightbyteClass::None)
                    });
                }
                (16, _) => {
                    return Some(Leaf {
                        classes: [EightbyteClass::Vector, EightbyteClass::VectorRest],
                        ..Leaf::new(16, EightbyteClass::None)
                    });
                }
                _ => return None,
            },
            gimli::DW_ATE_complex_float if matches!(size, 8 | 16) => {
                return Some(Leaf { align: size / 2, ..Leaf::new(size, EightbyteClass::Vector) });
            }
            gimli::DW_ATE_boolean
            | gimli::DW_ATE_signed
            | gimli::DW_ATE_signed_char
            | gimli::DW_ATE_unsigned
            | gimli::DW_ATE_unsigned_char
            | gimli::DW_ATE_UTF => EightbyteClass::Integer,
            _ => return None,
        };
        matches!(size, 1 | 2 | 4 | 8 | 16).then(|| Leaf::new(size, class))
    }
}

/// A type within a structure: its size and alignment.
#[derive(Clone, Copy, Debug)]
struct Extent {
    size: u64,
    align: u64,
    /// The alignment that the source names, as far as it is known: it is not less, packed or not.
    least: u64,
}

/// A type by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) size: u64,
    pub(crate) passing: Passing,
    /// Alignment on the stack, in bytes.
    pub(crate) align: u64,
    /// The alignment that it has if it is packed, which nothing says.
    pub(crate) least: u64,
}

/// How values of a type are passed. `None` when that is unknown, as of vectors that are longer than the registers that
/// every processor has.
pub(crate) fn from_type(unit: UnitRef<'_, DwarfSlice<'_>>, kind: UnitOffset) -> Result<Option<Passed>, Error> {
    let mut content = Content::default();
    let extent = add(unit, kind, 0, MOST_LEVELS, &mut content)?;
    Ok(extent
        .and_then(|Extent { size, align, least }| Some(Passed { size, passing: content.passing(size)?, align, least })))
}

/// Adds the members of a structure, a class or a union that begins at this byte.
fn structure<'a>(
    unit: UnitRef<'_, DwarfSlice<'a>>,
    entry: &DebugEntry<'a>,
    begin: u64,
    levels: usize,
    content: &mut Content,
) -> Result<Option<Extent>, Error> {
    let size = number(entry, gimli::DW_AT_byte_size);
    let Some(size) = size else { return Ok(None) };
    let mut own = Content { is_object: is_object(unit, entry)?, seen: content.seen, ..Content::default() };
    let mut is_packed = false;
    // A stated alignment holds for a packed structure as well: its own, or that of a member.
    let mut least = number(entry, gimli::DW_AT_alignment).unwrap_or(1);
    let mut align = least;
    let mut tree = unit.entries_tree(Some(entry.offset()))?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let member = child.entry();
        let is_static = has_flag(member, gimli::DW_AT_external) || has_flag(member, gimli::DW_AT_declaration);
        if !matches!(member.tag(), gimli::DW_TAG_member | gimli::DW_TAG_inheritance) || is_static {
            continue;
        }
        let Some(kind) = reference(member) else { return Ok(None) };
        let at = match member.attr_value(gimli::DW_AT_data_member_location) {
            None => 0,
            // A base whose place only a running program knows has no number.
            Some(place) => match place.udata_value() {
                Some(at) => at,
                None => return Ok(None),
            },
        };
        let Some(place) = begin.checked_add(at) else { return Ok(None) };
        let bits = number(member, gimli::DW_AT_bit_size);
        let found = match bits {
            None => add(unit, kind, place, levels, &mut own)?,
            // Only the bytes that it has bits in count, but the alignment of its type does.
            Some(bits) => {
                let Some(whole) = extent(unit, kind, levels, &mut own)? else { return Ok(None) };
                let first = match number(member, gimli::DW_AT_data_bit_offset) {
                    Some(first) => begin.saturating_mul(8).saturating_add(first),
                    None => {
                        let storage = number(member, gimli::DW_AT_byte_size).unwrap_or(whole.size);
                        let above = number(member, gimli::DW_AT_bit_offset).unwrap_or(0);
                        let below = storage.saturating_mul(8).saturating_sub(above.saturating_add(bits));
                        place.saturating_mul(8).saturating_add(below)
                    }
                };
                let end = first.saturating_add(bits).div_ceil(8);
                own.cover(first / 8, end, [EightbyteClass::Integer; 2]);
                Some(whole)
            }
        };
        let Some(found) = found else { return Ok(None) };
        is_packed |= bits.is_none() && !at.is_multiple_of(found.align);
        least = least.max(number(member, gimli::DW_AT_alignment).unwrap_or(1));
        align = align.max(found.align).max(least);
    }
    content.add_structure(own);
    is_packed |= !align.is_power_of_two() || !size.is_multiple_of(align);
    Ok(Some(Extent { size, align: if is_packed { least } else { align }, least }))
}

/// Size and alignment of a type, wherever it is.
fn extent(
    unit: UnitRef<'_, DwarfSlice<'_>>,
    kind: UnitOffset,
    levels: usize,
    content: &mut Content,
) -> Result<Option<Extent>, Error> {
    let mut elsewhere = Content { seen: content.seen, ..Content::default() };
    let found = add(unit, kind, 0, levels, &mut elsewhere);
    content.seen = elsewhere.seen;
    content.is_object |= elsewhere.is_object;
    found
}

/// Adds a value of a type that begins at this byte.
fn add(
    unit: UnitRef<'_, DwarfSlice<'_>>,
    kind: UnitOffset,
    begin: u64,
    levels: usize,
    content: &mut Content,
) -> Result<Option<Extent>, Error> {
    content.seen += 1;
    let Some(levels) = levels.checked_sub(1).filter(|_| content.seen <= MOST_TYPES) else { return Ok(None) };
    let entry = unit.entry(kind)?;
    let size = number(&entry, gimli::DW_AT_byte_size);
    let leaf = match entry.tag() {
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
            return structure(unit, &entry, begin, levels, content);
        }
        gimli::DW_TAG_array_type => return array(unit, &entry, begin, levels, content),
        gimli::DW_TAG_typedef
        | gimli::DW_TAG_const_type
        | gimli::DW_TAG_volatile_type
        | gimli::DW_TAG_restrict_type
        | gimli::DW_TAG_atomic_type => {
            let Some(next) = reference(&entry) else { return Ok(None) };
            let own = number(&entry, gimli::DW_AT_alignment).unwrap_or(1);
            let found = add(unit, next, begin, levels, content)?;
            return Ok(found.map(|extent| Extent {
                align: extent.align.max(own),
                least: extent.least.max(own),
                ..extent
            }));
        }
        gimli::DW_TAG_pointer_type
        | gimli::DW_TAG_reference_type
        | gimli::DW_TAG_rvalue_reference_type
        | gimli::DW_TAG_unspecified_type => Some(Leaf::new(8, EightbyteClass::Integer)),
        gimli::DW_TAG_ptr_to_member_type => {
            let to = reference(&entry).map(|to| unit.entry(to)).transpose()?;
            let is_function = to.is_some_and(|to| to.tag() == gimli::DW_TAG_subroutine_type);
            Some(Leaf { align: 8, ..Leaf::new(if is_function { 16 } else { 8 }, EightbyteClass::Integer) })
        }
        gimli::DW_TAG_enumeration_type => match (size, reference(&entry)) {
            (Some(size @ (1 | 2 | 4 | 8)), _) => Some(Leaf::new(size, EightbyteClass::Integer)),
            (None, Some(next)) => return add(unit, next, begin, levels, content),
            _ => None,
        },
        gimli::DW_TAG_base_type => match (size, entry.attr_value(gimli::DW_AT_encoding)) {
            (Some(size), Some(AttributeValue::Encoding(encoding))) => {
                Leaf::from_base_type(size, encoding, &text(unit, &entry)?)
            }
            _ => None,
        },
        _ => None,
    };
    let Some(leaf) = leaf else { return Ok(None) };
    content.add(begin, &leaf);
    Ok(Some(Extent { size: leaf.size, align: leaf.align, least: leaf.align }))
}

/// Adds the elements of an array, or a vector.
fn array<'a>(
    unit: UnitRef<'_, DwarfSlice<'a>>,
    entry: &DebugEntry<'a>,
    begin: u64,
    levels: usize,
    content: &mut Content,
) -> Result<Option<Extent>, Error> {
    let Some(kind) = reference(entry) else { return Ok(None) };
    let (mut tree, mut count) = (unit.entries_tree(Some(entry.offset()))?, 1_u64);
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let range = child.entry();
        if range.tag() == gimli::DW_TAG_subrange_type {
            let bound = number(range, gimli::DW_AT_upper_bound).and_then(|bound| bound.checked_add(1));
            // Compilers do not agree on structures that end in an array of any length.
            let Some(many) = number(range, gimli::DW_AT_count).or(bound) else { return Ok(None) };
            count = count.saturating_mul(many);
        }
    }
    let Some(element) = extent(unit, kind, levels, content)? else { return Ok(None) };
    let size = element.size.saturating_mul(count);
    if matches!(entry.attr_value(gimli::DW_AT_GNU_vector), Some(AttributeValue::Flag(true))) {
        let leaf = match size {
            8 => Leaf::new(8, EightbyteClass::Vector),
            16 => Leaf {
                classes: [EightbyteClass::Vector, EightbyteClass::VectorRest],
                ..Leaf::new(16, EightbyteClass::None)
            },
            _ => return Ok(None),
        };
        content.add(begin, &leaf);
        return Ok(Some(Extent { size, align: size, least: size }));
    }
    // Elements beyond the registers are in memory, whatever their type.
    let mut at = 0;
    while element.size > 0 && at < size && begin.saturating_add(at) < IN_REGISTERS {
        if add(unit, kind, begin + at, levels, content)?.is_none() {
            return Ok(None);
        }
        at += element.size;
    }
    content.is_in_memory |= begin.saturating_add(size) > IN_REGISTERS;
    Ok(Some(Extent { size, ..element }))
}

/// Do functions of its own copy, move or destroy it, or does it have virtual ones?
fn is_object<'a>(unit: UnitRef<'_, DwarfSlice<'a>>, entry: &DebugEntry<'a>) -> Result<bool, Error> {
    if let Some(AttributeValue::CallingConvention(convention)) = entry.attr_value(gimli::DW_AT_calling_convention) {
        return Ok(convention == gimli::DW_CC_pass_by_reference);
    }
    let name = text(unit, entry)?;
    let name = name.split('<').next().unwrap_or_default();
    let (mut has_copies, mut has_deleted) = (false, false);
    let mut tree = unit.entries_tree(Some(entry.offset()))?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let member = child.entry();
        let virtuality = member.attr_value(gimli::DW_AT_virtuality);
        if virtuality.is_some_and(|how| how != AttributeValue::Virtuality(gimli::DW_VIRTUALITY_none)) {
            return Ok(true);
        }
        if member.tag() != gimli::DW_TAG_subprogram || has_flag(member, gimli::DW_AT_artificial) {
            continue;
        }
        let own = text(unit, member)?;
        let is_copy = own == name && copies(unit, member.offset(), entry.offset())?;
        if is_copy && has_flag(member, gimli::DW_AT_deleted) {
            has_deleted = true;
        } else if is_copy || own.strip_prefix('~') == Some(name) {
            let defaulted = member.attr_value(gimli::DW_AT_defaulted).and_then(|how| how.u8_value());
            if defaulted != Some(gimli::DW_DEFAULTED_in_class.0) {
                return Ok(true);
            }
            has_copies |= is_copy;
        }
    }
    Ok(has_deleted && !has_copies)
}

/// Does a constructor take nothing but a reference to its own class?
fn copies(unit: UnitRef<'_, DwarfSlice<'_>>, constructor: UnitOffset, class: UnitOffset) -> Result<bool, Error> {
    let (mut tree, mut given) = (unit.entries_tree(Some(constructor))?, Vec::new());
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let parameter = child.entry();
        if parameter.tag() == gimli::DW_TAG_formal_parameter && !has_flag(parameter, gimli::DW_AT_artificial) {
            given.push(reference(parameter));
        }
    }
    let [Some(kind)] = given[..] else { return Ok(false) };
    let kind = unit.entry(kind)?;
    let mut to = match kind.tag() {
        gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => reference(&kind),
        _ => None,
    };
    // `const` and `volatile`.
    for _ in 0..2 {
        let entry = to.map(|to| unit.entry(to)).transpose()?;
        to = match entry {
            Some(entry) if matches!(entry.tag(), gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type) => {
                reference(&entry)
            }
            _ => to,
        };
    }
    Ok(to == Some(class))
}

fn has_flag(entry: &DebugEntry<'_>, name: gimli::DwAt) -> bool {
    matches!(entry.attr_value(name), Some(AttributeValue::Flag(true)))
}

fn text<'a>(unit: UnitRef<'_, DwarfSlice<'a>>, entry: &DebugEntry<'a>) -> Result<String, Error> {
    let name = entry.attr_value(gimli::DW_AT_name).map(|name| unit.attr_string(name)).transpose()?;
    Ok(name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
}

fn number(entry: &DebugEntry<'_>, name: gimli::DwAt) -> Option<u64> {
    entry.attr_value(name)?.udata_value()
}

/// The type of an entry, when it is of the same unit.
fn reference(entry: &DebugEntry<'_>) -> Option<UnitOffset> {
    match entry.attr_value(gimli::DW_AT_type)? {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The passing of a structure of these values, each at its place.
    fn passing(size: u64, leaves: &[(u64, Leaf)]) -> Option<Passing> {
        let (mut own, mut content) = (Content::default(), Content::default());
        leaves.iter().for_each(|(at, leaf)| own.add(*at, leaf));
        content.add_structure(own);
        content.passing(size)
    }

    fn number(size: u64) -> Leaf {
        Leaf::from_base_type(size, gimli::DW_ATE_signed, "").expect("it is known")
    }

    fn float(size: u64) -> Leaf {
        Leaf::from_base_type(size, gimli::DW_ATE_float, if size == 16 { "long double" } else { "" })
            .expect("it is known")
    }

    #[test]
    fn eight_bytes_have_one_class() {
        use Register::{Integer, Vector};
        let one = |register| Some(Passing::Registers(register, None));
        let two = |first, second| Some(Passing::Registers(first, Some(second)));
        assert_eq!(passing(0, &[]), Some(Passing::Nothing));
        assert_eq!(passing(1, &[(0, number(1))]), one(Integer));
        assert_eq!(passing(8, &[(0, float(4)), (4, float(4))]), one(Vector));
        assert_eq!(passing(8, &[(0, float(4)), (4, number(4))]), one(Integer));
        assert_eq!(passing(8, &[(0, float(8)), (0, number(8))]), one(Integer));
        assert_eq!(passing(16, &[(0, float(8)), (8, number(8))]), two(Vector, Integer));
        assert_eq!(passing(12, &[(0, number(4)), (4, number(4)), (8, float(4))]), two(Integer, Vector));
        assert_eq!(passing(16, &[(0, number(16))]), two(Integer, Integer));
        assert_eq!(passing(16, &[(0, number(8))]), one(Integer));
        let complex = Leaf::from_base_type(16, gimli::DW_ATE_complex_float, "").expect("it is known");
        assert_eq!(passing(16, &[(0, complex)]), two(Vector, Vector));
        let long = Leaf::from_base_type(16, gimli::DW_ATE_float, "_Float128").expect("it is known");
        assert_eq!(passing(16, &[(0, long)]), one(Vector));
    }

    #[test]
    fn the_rest_is_in_memory() {
        assert_eq!(passing(16, &[(0, float(16))]), Some(Passing::LongDouble));
        assert_eq!(passing(16, &[(0, float(16)), (0, number(4))]), Some(Passing::Memory));
        assert_eq!(passing(24, &[(0, number(8)), (8, number(8)), (16, number(8))]), Some(Passing::Memory));
        assert_eq!(passing(9, &[(0, number(1)), (1, number(8))]), Some(Passing::Memory));
        assert_eq!(passing(12, &[(0, number(4)), (4, number(8))]), Some(Passing::Memory));
        assert_eq!(passing(16, &[(8, number(8))]), None);
    }
}
