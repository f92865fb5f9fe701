//! Arguments, return values and source lines of the functions of a file, as lines of a `.dbg` file of uftrace have them.

use std::collections::BTreeMap;
use std::path::Path;

use gimli::{AttributeValue, Dwarf, Error, UnitOffset, UnitRef};

use crate::calling_convention::{self, Passed, Passing, Register};
use crate::dwarf::{DebugEntry, DwarfSlice, name, path};
use crate::image::{ExpectedImage, Image};

/// Types that a type leads to, one from the other.
const MOST_TYPES: usize = 64;
/// Depth of namespaces and classes in which functions are looked for.
const MOST_LEVELS: usize = 32;
/// Registers of integers and addresses, in the order in which they are used.
const INTEGER_REGISTERS: [&str; 6] = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"];
/// Registers of floats.
const FLOAT_REGISTERS: u32 = 8;

/// A function with debugging information.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DebugSignature {
    /// Its name as a linker has it, or in the source.
    pub name: String,
    /// Line and path of its declaration.
    pub line: Option<(u64, String)>,
    /// Its arguments as a specification of uftrace, such as `arg1/d32,arg2/s`: up to the first that is passed in an
    /// unknown way. `%memory+rdi` is what stands at the address in that register.
    pub arguments: String,
    /// Its return value, such as `retval/d32`; empty without one, or when the way it is returned is unknown. A
    /// structure is in registers of the kinds that are named, as in `retval/t16:pair%float+int`, in that of a `long
    /// double` (`%long`), or at an address (`%memory`).
    pub result: String,
}

/// The known functions of a file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Signatures {
    /// Functions by their addresses in the file.
    pub functions: BTreeMap<u64, DebugSignature>,
    /// Labels and values of the enumerations that they have values of, by name.
    pub enumerations: BTreeMap<String, Vec<(String, i64)>>,
}

impl Signatures {
    /// Reads those of a file; nothing when it has no debugging information. What cannot be read is left out.
    pub fn from_file(path: &Path) -> Signatures {
        let image = Image::open(&ExpectedImage { path: path.to_path_buf(), ..ExpectedImage::default() }, None);
        image.with_dwarf(|dwarf| Signatures::read(&dwarf)).unwrap_or_default()
    }

    fn read(dwarf: &Dwarf<DwarfSlice<'_>>) -> Signatures {
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

    fn add_unit(&mut self, unit: UnitRef<'_, DwarfSlice<'_>>) -> Result<(), Error> {
        let mut found = Vec::new();
        functions(unit, None, MOST_LEVELS, &mut found)?;
        for offset in found {
            // As above, of one function.
            let _ = self.add(unit, offset);
        }
        Ok(())
    }

    fn add(&mut self, unit: UnitRef<'_, DwarfSlice<'_>>, offset: UnitOffset) -> Result<(), Error> {
        let entry = unit.entry(offset)?;
        let begin = entry.attr_value(gimli::DW_AT_low_pc).map(|value| unit.attr_address(value)).transpose()?.flatten();
        let Some(begin) = begin.filter(|begin| *begin != 0) else { return Ok(()) };
        let entries = with_origins(unit, offset)?;
        let first = |attribute| entries.iter().find_map(|entry| Some((entry, entry.attr_value(attribute)?)));
        let text = |value| Ok::<_, Error>(unit.attr_string(value)?.to_string_lossy().into_owned());
        let linked = first(gimli::DW_AT_linkage_name).map(|(_, value)| text(value)).transpose()?;
        let Some(name) = linked.or(name(unit, &entry, MOST_TYPES)?) else { return Ok(()) };
        let mut function = DebugSignature { name, line: line(unit, &entries)?, ..DebugSignature::default() };
        let result = first(gimli::DW_AT_type).map(|(_, value)| self.type_of(unit, value)).transpose()?;
        // A function that returns a structure in memory gets its address as the first argument.
        let is_in_memory = result.as_ref().is_some_and(PassedType::is_returned_in_memory);
        let mut places = PassedArguments { integers: u32::from(is_in_memory), ..PassedArguments::default() };
        if let Some(spec) = result.as_ref().and_then(PassedType::result) {
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
    fn type_of<'a>(
        &mut self,
        unit: UnitRef<'_, DwarfSlice<'a>>,
        value: AttributeValue<DwarfSlice<'a>>,
    ) -> Result<PassedType, Error> {
        let (mut value, mut pointers, mut is_reference, mut name) = (value, 0, false, None);
        for _ in 0..MOST_TYPES {
            let AttributeValue::UnitRef(offset) = value else {
                // Of another unit: not more than how it is passed.
                return Ok(if pointers > 0 { PassedType::Pointer } else { PassedType::Unknown });
            };
            let entry = unit.entry(offset)?;
            let next = entry.attr_value(gimli::DW_AT_type);
            match entry.tag() {
                gimli::DW_TAG_array_type if pointers == 0 && is_vector(&entry) => return by_value(unit, &entry, name),
                gimli::DW_TAG_pointer_type | gimli::DW_TAG_array_type => pointers += 1,
                gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                    pointers += 1;
                    is_reference = true;
                }
                gimli::DW_TAG_typedef => name = self::name(unit, &entry, 0)?,
                gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => {}
                gimli::DW_TAG_ptr_to_member_type if pointers == 0 => return by_value(unit, &entry, None),
                _ => return self.innermost(unit, &entry, pointers, is_reference, name),
            }
            match next {
                Some(next) => value = next,
                // A pointer to nothing in particular.
                None => return Ok(if pointers > 0 { PassedType::Pointer } else { PassedType::Unknown }),
            }
        }
        Ok(PassedType::Unknown)
    }

    /// A type without its pointers, which may have another name.
    fn innermost<'a>(
        &mut self,
        unit: UnitRef<'_, DwarfSlice<'a>>,
        entry: &DebugEntry<'a>,
        pointers: u32,
        is_reference: bool,
        other_name: Option<String>,
    ) -> Result<PassedType, Error> {
        let size = entry.attr_value(gimli::DW_AT_byte_size).and_then(|size| size.udata_value()).unwrap_or(0);
        let name = name(unit, entry, MOST_TYPES)?.unwrap_or_default();
        let is_structure =
            matches!(entry.tag(), gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type);
        if is_structure && pointers <= 1 && name.starts_with("basic_string<char, std::char_traits<char>") {
            return Ok(PassedType::StdString { is_reference: pointers == 1 });
        }
        if pointers > 0 {
            let is_text = pointers == 1 && !is_reference && entry.tag() == gimli::DW_TAG_base_type && name == "char";
            return Ok(if is_text { PassedType::Text } else { PassedType::Pointer });
        }
        if is_structure {
            return by_value(unit, entry, other_name);
        }
        Ok(match (entry.tag(), entry.attr_value(gimli::DW_AT_encoding)) {
            (gimli::DW_TAG_enumeration_type, _) => self.enumeration(unit, entry, name, size)?,
            (gimli::DW_TAG_base_type, Some(AttributeValue::Encoding(encoding))) => match encoding {
                gimli::DW_ATE_float if matches!(size, 4 | 8) => PassedType::Float(size),
                gimli::DW_ATE_float if size == 16 && name == "long double" => PassedType::LongDouble,
                gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char if name == "char" => PassedType::Char,
                gimli::DW_ATE_signed | gimli::DW_ATE_signed_char if size <= 8 => PassedType::Signed(size),
                gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_boolean | gimli::DW_ATE_UTF
                    if size <= 8 =>
                {
                    PassedType::Unsigned(size)
                }
                _ => by_value(unit, entry, None)?,
            },
            _ => by_value(unit, entry, None)?,
        })
    }

    /// An enumeration, whose labels are kept. One without a name, or of the name of another one, is a number.
    fn enumeration<'a>(
        &mut self,
        unit: UnitRef<'_, DwarfSlice<'a>>,
        entry: &DebugEntry<'a>,
        name: String,
        size: u64,
    ) -> Result<PassedType, Error> {
        let is_plain =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.is_empty();
        if size != 4 || !is_plain(&name) {
            return Ok(if size > 8 { PassedType::Unknown } else { PassedType::Signed(size) });
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
        Ok(if *known == labels && !labels.is_empty() {
            PassedType::Enumeration(name)
        } else {
            PassedType::Signed(size)
        })
    }
}

/// The way in which a value is passed, and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PassedType {
    Signed(u64),
    Unsigned(u64),
    Char,
    Float(u64),
    LongDouble,
    Pointer,
    Text,
    /// Its address is passed, also where it is passed by value.
    StdString {
        is_reference: bool,
    },
    Enumeration(String),
    Structure(Structure),
    /// As a result, it is at an address that the caller gives. The way it is passed is unknown.
    Large,
    /// The way it is passed is unknown.
    Unknown,
}

/// A structure, a class, a union, or what else is shown as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Structure {
    name: String,
    passed: Passed,
}

/// A type that is shown as bytes when it is passed by value, and may have another name.
fn by_value<'a>(
    unit: UnitRef<'_, DwarfSlice<'a>>,
    entry: &DebugEntry<'a>,
    other_name: Option<String>,
) -> Result<PassedType, Error> {
    // Rust and others have conventions of their own, of which only this is common.
    let size = entry.attr_value(gimli::DW_AT_byte_size).and_then(|size| size.udata_value()).unwrap_or(0);
    let others = if size > 16 { PassedType::Large } else { PassedType::Unknown };
    let passed = if has_c_convention(unit)? { calling_convention::from_type(unit, entry.offset())? } else { None };
    let Some(passed) = passed else { return Ok(others) };
    if entry.tag() == gimli::DW_TAG_ptr_to_member_type && passed.size == 8 {
        return Ok(PassedType::Pointer);
    }
    let name = name(unit, entry, MOST_TYPES)?.or(other_name).unwrap_or_default();
    // Of a template only the name.
    Ok(PassedType::Structure(Structure { name: name.split('<').next().unwrap_or_default().to_string(), passed }))
}

fn is_vector(array: &DebugEntry<'_>) -> bool {
    matches!(array.attr_value(gimli::DW_AT_GNU_vector), Some(AttributeValue::Flag(true)))
}

/// Arguments so far, by where the calling convention has them.
#[derive(Clone, Copy, Debug, Default)]
struct PassedArguments {
    /// Registers that are in use.
    integers: u32,
    floats: u32,
    /// Words on the stack.
    words: u64,
    /// How many there are: floats of any size, and all others.
    float_number: u32,
    number: u32,
}

impl PassedArguments {
    /// A place on the stack for so many words, of an alignment in words.
    fn on_stack(&mut self, words: u64, align: u64) -> String {
        let begin = self.words.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX);
        let place = format!("stack+{}", begin.saturating_add(1));
        self.words = begin.saturating_add(words);
        place
    }

    /// A register for each of these, if there are as many.
    fn registers(&mut self, wanted: &[Register]) -> Option<Vec<String>> {
        let before = *self;
        let mut names = Vec::new();
        for register in wanted {
            match register {
                Register::Integer => {
                    names.extend(INTEGER_REGISTERS.get(self.integers as usize).map(ToString::to_string));
                    self.integers += 1;
                }
                Register::Vector => {
                    names.extend((self.floats < FLOAT_REGISTERS).then(|| format!("xmm{}", self.floats)));
                    self.floats += 1;
                }
            }
        }
        let has_all = names.len() == wanted.len();
        if !has_all {
            *self = before;
        }
        has_all.then_some(names)
    }
}

impl PassedType {
    /// Is a result of this type at an address that the caller gives as the first argument?
    fn is_returned_in_memory(&self) -> bool {
        match self {
            PassedType::StdString { is_reference } => !is_reference,
            PassedType::Structure(structure) => {
                matches!(structure.passed.passing, Passing::Memory | Passing::Reference)
            }
            other => *other == PassedType::Large,
        }
    }

    /// The letter and what is after it; nothing for a whole word.
    fn format(&self) -> Option<String> {
        Some(match self {
            PassedType::Signed(8) => String::new(),
            PassedType::Signed(bytes) => format!("/d{}", bytes * 8),
            PassedType::Unsigned(bytes) => format!("/u{}", bytes * 8),
            PassedType::Char => "/c".into(),
            PassedType::Pointer => "/p".into(),
            PassedType::Text => "/s".into(),
            PassedType::StdString { .. } => "/S".into(),
            PassedType::Enumeration(name) => format!("/e:{name}"),
            PassedType::Float(_)
            | PassedType::LongDouble
            | PassedType::Structure(_)
            | PassedType::Large
            | PassedType::Unknown => return None,
        })
    }

    /// The specification of an argument after others, with which it is counted.
    fn argument(&self, places: &mut PassedArguments) -> Option<String> {
        let bits = match self {
            PassedType::Float(bytes) => bytes * 8,
            PassedType::LongDouble => 80,
            PassedType::Structure(structure) => return structure.argument(places),
            other => {
                let format = other.format()?;
                let register = places.registers(&[Register::Integer]);
                return places.counted(&format, register, None);
            }
        };
        places.float_number += 1;
        let number = places.float_number;
        let place = match self {
            PassedType::LongDouble => format!("%{}", places.on_stack(2, 2)),
            _ => match places.registers(&[Register::Vector]) {
                // A `long double` before it counts as a float, and takes no register; a structure does the opposite.
                Some(_) if places.floats == number => String::new(),
                Some(names) => format!("%{}", names.join("+")),
                None => format!("%{}", places.on_stack(1, 1)),
            },
        };
        Some(format!("fparg{number}/{bits}{place}"))
    }

    /// The specification of a return value.
    fn result(&self) -> Option<String> {
        match self {
            PassedType::Float(bytes) => Some(format!("retval/f{}", bytes * 8)),
            PassedType::LongDouble => Some("retval/f80".into()),
            PassedType::Structure(structure) => structure.result(),
            other => Some(format!("retval{}", other.format()?)),
        }
    }
}

impl PassedArguments {
    /// The specification of an argument that is no float, in registers or on the stack, when its place there is known.
    fn counted(&mut self, format: &str, registers: Option<Vec<String>>, on_stack: Option<Passed>) -> Option<String> {
        self.number += 1;
        let number = self.number;
        let usual = number.checked_sub(1).and_then(|at| INTEGER_REGISTERS.get(at as usize));
        let place = match registers {
            // Where it is expected.
            Some(names) if on_stack.is_none() && usual.is_some_and(|usual| names == [*usual]) => String::new(),
            Some(names) if names.is_empty() => String::new(),
            Some(names) => format!("%{}", names.join("+")),
            None => {
                let place = match on_stack {
                    Some(passed) => self.structure_on_stack(passed)?,
                    None => self.on_stack(1, 1),
                };
                format!("%{place}")
            }
        };
        Some(format!("arg{number}{format}{place}"))
    }

    /// The place of a structure on the stack, unless it is another one when it is packed, and may be.
    fn structure_on_stack(&mut self, passed: Passed) -> Option<String> {
        let [words, align, least] = [passed.size, passed.align, passed.least].map(|bytes| bytes.div_ceil(8).max(1));
        let is_sure = self.words.checked_next_multiple_of(align) == self.words.checked_next_multiple_of(least);
        is_sure.then(|| self.on_stack(words, align))
    }
}

impl Structure {
    fn format(&self) -> String {
        let is_plain =
            self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !self.name.is_empty();
        let size = if self.passed.passing == Passing::Nothing { 0 } else { self.passed.size };
        if is_plain { format!("/t{size}:{}", self.name) } else { format!("/t{size}") }
    }

    fn argument(&self, places: &mut PassedArguments) -> Option<String> {
        let registers = match self.passed.passing {
            Passing::Nothing => Some(Vec::new()),
            Passing::Registers(first, None) => places.registers(&[first]),
            Passing::Registers(first, Some(second)) => places.registers(&[first, second]),
            Passing::Memory | Passing::LongDouble => None,
            Passing::Reference => match places.registers(&[Register::Integer]) {
                Some(names) => Some(["memory".into()].into_iter().chain(names).collect()),
                // Of what uftrace 0.13 takes for registers the last one counts, and there is none.
                None => return places.counted("/p", None, None),
            },
        };
        places.counted(&self.format(), registers, Some(self.passed))
    }

    fn result(&self) -> Option<String> {
        // Names that uftrace 0.13 does not take for places of arguments.
        let name = |register| match register {
            Register::Integer => "int",
            Register::Vector => "float",
        };
        let place = match self.passed.passing {
            Passing::Nothing => return None,
            Passing::Registers(first, None) => name(first).to_string(),
            Passing::Registers(first, Some(second)) => format!("{}+{}", name(first), name(second)),
            Passing::Memory | Passing::Reference => "memory".into(),
            Passing::LongDouble => "long".into(),
        };
        Some(format!("retval{}%{place}", self.format()))
    }
}

/// Are structures of this unit passed as C and C++ do it?
fn has_c_convention(unit: UnitRef<'_, DwarfSlice<'_>>) -> Result<bool, Error> {
    let root = unit.header.root_offset();
    let language = match unit.entry(root)?.attr_value(gimli::DW_AT_language) {
        Some(AttributeValue::Language(language)) => language,
        _ => return Ok(false),
    };
    Ok(matches!(
        language,
        gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17
            | gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
    ))
}

/// Functions with code, in a unit or in an entry of it.
fn functions(
    unit: UnitRef<'_, DwarfSlice<'_>>,
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
fn with_origins<'a>(unit: UnitRef<'_, DwarfSlice<'a>>, offset: UnitOffset) -> Result<Vec<DebugEntry<'a>>, Error> {
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
fn parameters(unit: UnitRef<'_, DwarfSlice<'_>>, entries: &[DebugEntry<'_>]) -> Result<Vec<UnitOffset>, Error> {
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
fn line(unit: UnitRef<'_, DwarfSlice<'_>>, entries: &[DebugEntry<'_>]) -> Result<Option<(u64, String)>, Error> {
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
        let mut places = PassedArguments::default();
        let mut of = |kind: PassedType| kind.argument(&mut places).unwrap_or_default();
        assert_eq!(
            (of(PassedType::LongDouble), of(PassedType::Signed(4))),
            ("fparg1/80%stack+1".into(), "arg1/d32".into())
        );
        assert_eq!((of(PassedType::Float(8)), of(PassedType::Text)), ("fparg2/64%xmm0".into(), "arg2/s".into()));
        let rest: Vec<_> = (3..=8).map(|_| of(PassedType::Pointer)).collect();
        assert_eq!(rest, ["arg3/p", "arg4/p", "arg5/p", "arg6/p", "arg7/p%stack+3", "arg8/p%stack+4"]);
        assert_eq!(
            (of(PassedType::Unsigned(1)), of(PassedType::LongDouble)),
            ("arg9/u8%stack+5".into(), "fparg3/80%stack+7".into())
        );
        assert_eq!((of(PassedType::Large), of(PassedType::Unknown)), (String::new(), String::new()));
        assert_eq!(PassedType::Large.result(), None);
        assert_eq!(PassedType::Signed(8).result().as_deref(), Some("retval"));
    }

    fn structure(size: u64, passing: Passing) -> PassedType {
        PassedType::Structure(Structure { name: "pair".into(), passed: Passed { size, passing, align: 8, least: 1 } })
    }

    #[test]
    fn structures_are_where_the_convention_has_them() {
        use Register::{Integer, Vector};
        let both = |first, second| structure(16, Passing::Registers(first, Some(second)));
        // The first register is taken by the place of the result.
        let mut places = PassedArguments { integers: 1, ..PassedArguments::default() };
        let mut of = |kind: PassedType| kind.argument(&mut places).unwrap_or_default();
        assert_eq!(of(PassedType::Signed(4)), "arg1/d32%rsi");
        assert_eq!(of(both(Integer, Vector)), "arg2/t16:pair%rdx+xmm0");
        assert_eq!(of(PassedType::Float(8)), "fparg1/64%xmm1");
        assert_eq!(of(structure(1, Passing::Nothing)), "arg3/t0:pair");
        assert_eq!(of(structure(4, Passing::Reference)), "arg4/t4:pair%memory+rcx");
        assert_eq!(of(structure(24, Passing::Memory)), "arg5/t24:pair%stack+1");
        assert_eq!(of(PassedType::Pointer), "arg6/p%r8");
        // Of two only one register is left: it is for the next.
        assert_eq!(of(both(Integer, Integer)), "arg7/t16:pair%stack+4");
        assert_eq!(of(structure(3, Passing::Registers(Integer, None))), "arg8/t3:pair%r9");
        assert_eq!(of(structure(4, Passing::Reference)), "arg9/p%stack+6");
        assert_eq!(of(PassedType::StdString { is_reference: false }), "arg10/S%stack+7");
        // One that may be packed: at an odd word it is unknown whether it stands there.
        let wide = |least| {
            PassedType::Structure(Structure {
                name: "wide".into(),
                passed: Passed { size: 16, passing: Passing::Memory, align: 16, least },
            })
        };
        assert_eq!(of(wide(16)), "arg11/t16:wide%stack+9");
        assert_eq!(of(wide(1)), "arg12/t16:wide%stack+11");
        assert_eq!(of(structure(8, Passing::Memory)), "arg13/t8:pair%stack+13");
        assert_eq!(of(wide(1)), "");
        let result = |kind: PassedType| kind.result().unwrap_or_default();
        assert_eq!(result(both(Integer, Vector)), "retval/t16:pair%int+float");
        assert_eq!(result(both(Vector, Vector)), "retval/t16:pair%float+float");
        assert_eq!(result(structure(4, Passing::Reference)), "retval/t4:pair%memory");
        assert_eq!(result(structure(16, Passing::LongDouble)), "retval/t16:pair%long");
        assert_eq!(result(structure(1, Passing::Nothing)), "");
    }
}
