//! Arguments, return values and source lines of the functions of a file, as lines of a `.dbg` file of uftrace have them.

use std::collections::BTreeMap;
use std::path::Path;

use gimli::{AttributeValue, Dwarf, Error, UnitOffset, UnitRef};

use crate::dwarf::{Entry, Slice, name, path};
use crate::image::{Image, Wanted};

/// Types that a type leads to, one from the other.
const MOST_TYPES: usize = 64;
/// Depth of namespaces and classes in which functions are looked for.
const MOST_LEVELS: usize = 32;
/// Integers that are in registers.
const INTEGER_REGISTERS: u32 = 6;
/// Floats that are.
const FLOAT_REGISTERS: u32 = 8;

/// A function with debugging information.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// Its name as a linker has it, or in the source.
    pub name: String,
    /// Line and path of its declaration.
    pub line: Option<(u64, String)>,
    /// Its arguments as a specification of uftrace, such as `arg1/d32,arg2/s`: up to the first structure by value.
    pub arguments: String,
    /// Its return value, such as `retval/d32`; nothing without one, or when it is a structure.
    pub result: String,
}

/// The known functions of a file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Signatures {
    /// Functions by their addresses in the file.
    pub functions: BTreeMap<u64, Function>,
    /// Labels and values of the enumerations that they have values of, by name.
    pub enumerations: BTreeMap<String, Vec<(String, i64)>>,
}

impl Signatures {
    /// Reads those of a file; nothing when it has no debugging information. What cannot be read is left out.
    pub fn of(path: &Path) -> Signatures {
        let image = Image::open(&Wanted { path: path.to_path_buf(), ..Wanted::default() }, None);
        image.with_dwarf(|dwarf| Signatures::read(&dwarf)).unwrap_or_default()
    }

    fn read(dwarf: &Dwarf<Slice<'_>>) -> Signatures {
        let mut signatures = Signatures::default();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if let Ok(unit) = dwarf.unit(header) {
                // A unit that is damaged has what stands before.
                let _ = signatures.add_unit(unit.unit_ref(dwarf));
            }
        }
        signatures
    }

    fn add_unit(&mut self, unit: UnitRef<'_, Slice<'_>>) -> Result<(), Error> {
        let mut found = Vec::new();
        functions(unit, None, MOST_LEVELS, &mut found)?;
        for offset in found {
            // As above, of one function.
            let _ = self.add(unit, offset);
        }
        Ok(())
    }

    fn add(&mut self, unit: UnitRef<'_, Slice<'_>>, offset: UnitOffset) -> Result<(), Error> {
        let entry = unit.entry(offset)?;
        let begin = entry.attr_value(gimli::DW_AT_low_pc).map(|value| unit.attr_address(value)).transpose()?.flatten();
        let Some(begin) = begin.filter(|begin| *begin != 0) else { return Ok(()) };
        let entries = with_origins(unit, offset)?;
        let first = |attribute| entries.iter().find_map(|entry| Some((entry, entry.attr_value(attribute)?)));
        let text = |value| Ok::<_, Error>(unit.attr_string(value)?.to_string_lossy().into_owned());
        let linked = first(gimli::DW_AT_linkage_name).map(|(_, value)| text(value)).transpose()?;
        let Some(name) = linked.or(name(unit, &entry, MOST_TYPES)?) else { return Ok(()) };
        let mut function = Function { name, line: line(unit, &entries)?, ..Function::default() };
        let result = first(gimli::DW_AT_type).map(|(_, value)| self.type_of(unit, value)).transpose()?;
        // What returns a structure in memory is given its place as the first argument.
        let is_in_memory = matches!(result, Some(Type::Large | Type::ByReference));
        let mut places = Places { integers: u32::from(is_in_memory), ..Places::default() };
        if let Some(spec) = result.as_ref().and_then(Type::result) {
            function.result = spec;
        }
        for parameter in parameters(unit, &entries)? {
            let kind = match with_origins(unit, parameter)?.iter().find_map(|entry| entry.attr_value(gimli::DW_AT_type))
            {
                Some(value) => self.type_of(unit, value)?,
                None => break,
            };
            // Where the next ones are is not known any more.
            let Some(spec) = kind.argument(&mut places) else { break };
            if !function.arguments.is_empty() {
                function.arguments.push(',');
            }
            function.arguments.push_str(&spec);
        }
        self.functions.entry(begin).or_insert(function);
        Ok(())
    }

    /// The type that an attribute leads to.
    fn type_of<'a>(&mut self, unit: UnitRef<'_, Slice<'a>>, value: AttributeValue<Slice<'a>>) -> Result<Type, Error> {
        let (mut value, mut pointers, mut is_reference) = (value, 0, false);
        for _ in 0..MOST_TYPES {
            let AttributeValue::UnitRef(offset) = value else {
                // Of another unit: not more than how it is passed.
                return Ok(if pointers > 0 { Type::Pointer } else { Type::Unknown });
            };
            let entry = unit.entry(offset)?;
            let next = entry.attr_value(gimli::DW_AT_type);
            match entry.tag() {
                gimli::DW_TAG_pointer_type | gimli::DW_TAG_array_type => pointers += 1,
                gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                    pointers += 1;
                    is_reference = true;
                }
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => {}
                gimli::DW_TAG_ptr_to_member_type if pointers == 0 => {
                    // Of a member function it has two words.
                    let size = entry.attr_value(gimli::DW_AT_byte_size).and_then(|size| size.udata_value());
                    return Ok(if size.is_none_or(|size| size == 8) { Type::Pointer } else { Type::Unknown });
                }
                _ => return self.innermost(unit, &entry, pointers, is_reference),
            }
            match next {
                Some(next) => value = next,
                // A pointer to nothing in particular.
                None => return Ok(if pointers > 0 { Type::Pointer } else { Type::Unknown }),
            }
        }
        Ok(Type::Unknown)
    }

    /// A type without its pointers.
    fn innermost<'a>(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        entry: &Entry<'a>,
        pointers: u32,
        is_reference: bool,
    ) -> Result<Type, Error> {
        let size = entry.attr_value(gimli::DW_AT_byte_size).and_then(|size| size.udata_value()).unwrap_or(0);
        let name = name(unit, entry, MOST_TYPES)?.unwrap_or_default();
        let is_structure =
            matches!(entry.tag(), gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type);
        if is_structure && pointers <= 1 && name.starts_with("basic_string<char, std::char_traits<char>") {
            return Ok(if pointers == 1 { Type::StdString } else { Type::ByReference });
        }
        if pointers > 0 {
            let is_text = pointers == 1 && !is_reference && entry.tag() == gimli::DW_TAG_base_type && name == "char";
            return Ok(if is_text { Type::Text } else { Type::Pointer });
        }
        if is_structure {
            let convention = entry.attr_value(gimli::DW_AT_calling_convention).and_then(|value| match value {
                AttributeValue::CallingConvention(convention) => Some(convention),
                _ => None,
            });
            return Ok(match convention {
                Some(gimli::DW_CC_pass_by_reference) => Type::ByReference,
                _ if size > 16 => Type::Large,
                _ => Type::Unknown,
            });
        }
        Ok(match (entry.tag(), entry.attr_value(gimli::DW_AT_encoding)) {
            (gimli::DW_TAG_enumeration_type, _) => self.enumeration(unit, entry, name, size)?,
            (gimli::DW_TAG_base_type, Some(AttributeValue::Encoding(encoding))) => match encoding {
                gimli::DW_ATE_float if matches!(size, 4 | 8) => Type::Float(size),
                gimli::DW_ATE_float if size == 16 && name == "long double" => Type::LongDouble,
                gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char if name == "char" => Type::Char,
                gimli::DW_ATE_signed | gimli::DW_ATE_signed_char if size <= 8 => Type::Signed(size),
                gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_boolean | gimli::DW_ATE_UTF
                    if size <= 8 =>
                {
                    Type::Unsigned(size)
                }
                _ => Type::Unknown,
            },
            _ => Type::Unknown,
        })
    }

    /// An enumeration, whose labels are kept. One without a name, or of the name of another one, is a number.
    fn enumeration<'a>(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        entry: &Entry<'a>,
        name: String,
        size: u64,
    ) -> Result<Type, Error> {
        let is_plain =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.is_empty();
        if size != 4 || !is_plain(&name) {
            return Ok(if size > 8 { Type::Unknown } else { Type::Signed(size) });
        }
        let (mut tree, mut labels) = (unit.entries_tree(Some(entry.offset()))?, Vec::new());
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let value = entry.attr_value(gimli::DW_AT_const_value).and_then(|value| match value.sdata_value() {
                Some(value) => Some(value),
                None => value.udata_value().and_then(|value| i64::try_from(value).ok()),
            });
            let label = entry.attr_value(gimli::DW_AT_name);
            let (gimli::DW_TAG_enumerator, Some(value), Some(label)) = (entry.tag(), value, label) else { continue };
            let label = unit.attr_string(label)?.to_string_lossy().into_owned();
            // In 32 bits, as readers look at it.
            labels.push((label, i64::from(value as i32)));
        }
        let known = self.enumerations.entry(name.clone()).or_insert_with(|| labels.clone());
        Ok(if *known == labels && !labels.is_empty() { Type::Enumeration(name) } else { Type::Signed(size) })
    }
}

/// The way in which a value is passed, and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Type {
    Signed(u64),
    Unsigned(u64),
    Char,
    Float(u64),
    LongDouble,
    Pointer,
    Text,
    StdString,
    Enumeration(String),
    /// A structure whose address is passed.
    ByReference,
    /// A structure that is copied to the stack; as a result, to a place whose address is passed.
    Large,
    /// It is passed in several registers, or nobody knows how.
    Unknown,
}

/// Arguments so far, by where the calling convention has them.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    integers: u32,
    floats: u32,
    /// Words on the stack.
    words: u32,
    /// Floats of any size: the number of the next one.
    float_number: u32,
}

impl Places {
    /// A place on the stack for so many words.
    fn on_stack(&mut self, words: u32) -> String {
        // Two are aligned to as many.
        self.words = self.words.next_multiple_of(words);
        let place = format!("%stack+{}", self.words + 1);
        self.words += words;
        place
    }
}

impl Type {
    /// The letter and what is behind it; nothing for a whole word.
    fn format(&self) -> Option<String> {
        Some(match self {
            Type::Signed(8) => String::new(),
            Type::Signed(bytes) => format!("/d{}", bytes * 8),
            Type::Unsigned(bytes) => format!("/u{}", bytes * 8),
            Type::Char => "/c".into(),
            Type::Pointer | Type::ByReference => "/p".into(),
            Type::Text => "/s".into(),
            Type::StdString => "/S".into(),
            Type::Enumeration(name) => format!("/e:{name}"),
            Type::Float(_) | Type::LongDouble | Type::Large | Type::Unknown => return None,
        })
    }

    /// The specification of an argument behind others, with which it is counted.
    fn argument(&self, places: &mut Places) -> Option<String> {
        let bits = match self {
            Type::Float(bytes) => bytes * 8,
            Type::LongDouble => 80,
            other => {
                let format = other.format()?;
                places.integers += 1;
                let number = places.integers;
                let place = if number > INTEGER_REGISTERS { places.on_stack(1) } else { String::new() };
                return Some(format!("arg{number}{format}{place}"));
            }
        };
        places.float_number += 1;
        let number = places.float_number;
        let place = match self {
            Type::LongDouble => places.on_stack(2),
            _ if places.floats == FLOAT_REGISTERS => places.on_stack(1),
            _ => {
                places.floats += 1;
                // A `long double` before it counts as a float, and takes no register.
                if places.floats == number { String::new() } else { format!("%xmm{}", places.floats - 1) }
            }
        };
        Some(format!("fparg{number}/{bits}{place}"))
    }

    /// The specification of a return value.
    fn result(&self) -> Option<String> {
        match self {
            Type::ByReference => None,
            Type::Float(bytes) => Some(format!("retval/f{}", bytes * 8)),
            Type::LongDouble => Some("retval/f80".into()),
            other => Some(format!("retval{}", other.format()?)),
        }
    }
}

/// Functions with code, in a unit or in an entry of it.
fn functions(
    unit: UnitRef<'_, Slice<'_>>,
    of: Option<UnitOffset>,
    levels: usize,
    found: &mut Vec<UnitOffset>,
) -> Result<(), Error> {
    let mut within = Vec::new();
    let mut tree = unit.entries_tree(of)?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let entry = child.entry();
        match entry.tag() {
            gimli::DW_TAG_subprogram if entry.attr_value(gimli::DW_AT_low_pc).is_some() => found.push(entry.offset()),
            gimli::DW_TAG_namespace | gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type if levels > 0 => {
                within.push(entry.offset());
            }
            _ => {}
        }
    }
    within.into_iter().try_for_each(|offset| functions(unit, Some(offset), levels - 1, found))
}

/// An entry, and those of this unit that it completes.
fn with_origins<'a>(unit: UnitRef<'_, Slice<'a>>, offset: UnitOffset) -> Result<Vec<Entry<'a>>, Error> {
    let mut entries = vec![unit.entry(offset)?];
    while let Some(last) = entries.last().filter(|_| entries.len() < MOST_TYPES) {
        let origin = last.attr_value(gimli::DW_AT_abstract_origin).or(last.attr_value(gimli::DW_AT_specification));
        match origin {
            Some(AttributeValue::UnitRef(offset)) => entries.push(unit.entry(offset)?),
            _ => break,
        }
    }
    Ok(entries)
}

/// The parameters of a function: its own, or those of the first entry that has some.
fn parameters(unit: UnitRef<'_, Slice<'_>>, entries: &[Entry<'_>]) -> Result<Vec<UnitOffset>, Error> {
    for entry in entries {
        let mut found = Vec::new();
        let mut tree = unit.entries_tree(Some(entry.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            if child.entry().tag() == gimli::DW_TAG_formal_parameter {
                found.push(child.entry().offset());
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Line and path of a declaration.
fn line(unit: UnitRef<'_, Slice<'_>>, entries: &[Entry<'_>]) -> Result<Option<(u64, String)>, Error> {
    for entry in entries {
        let number = entry.attr_value(gimli::DW_AT_decl_line).and_then(|value| value.udata_value());
        let file = entry.attr_value(gimli::DW_AT_decl_file).and_then(|value| match value {
            AttributeValue::FileIndex(file) => Some(file),
            value => value.udata_value(),
        });
        if let (Some(number), Some(file), Some(program)) = (number, file, unit.line_program.as_ref()) {
            return Ok(path(unit, program.header(), file)?.map(|path| (number, path)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_where_the_convention_has_them() {
        let mut places = Places::default();
        let mut of = |kind: Type| kind.argument(&mut places).unwrap_or_default();
        assert_eq!((of(Type::LongDouble), of(Type::Signed(4))), ("fparg1/80%stack+1".into(), "arg1/d32".into()));
        assert_eq!((of(Type::Float(8)), of(Type::Text)), ("fparg2/64%xmm0".into(), "arg2/s".into()));
        let rest: Vec<_> = (3..=8).map(|_| of(Type::Pointer)).collect();
        assert_eq!(rest, ["arg3/p", "arg4/p", "arg5/p", "arg6/p", "arg7/p%stack+3", "arg8/p%stack+4"]);
        assert_eq!(
            (of(Type::Unsigned(1)), of(Type::LongDouble)),
            ("arg9/u8%stack+5".into(), "fparg3/80%stack+7".into())
        );
        assert_eq!((of(Type::Large), of(Type::Unknown)), (String::new(), String::new()));
        assert_eq!(Type::Large.result(), None);
        assert_eq!(Type::Signed(8).result().as_deref(), Some("retval"));
    }
}
