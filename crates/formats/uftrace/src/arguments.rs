//! Specifications of arguments and return values, and the payloads that they describe (`SPEC.md`, section 5.3).
//!
//! A payload has neither a length nor types: only who finds the very list of specifications that the recorder used for
//! a function can tell how long it is. So the lists of all functions are made when the trace is opened.

use std::collections::HashMap;

use regex::Regex;

use super::debug::{Enumeration, enumerations};
use super::info::Specs;
use super::names::{Module, SymbolNames};
use tracemill_codec::bits::u16_at;
use tracemill_format::calls::PatternKind;
use tracemill_format::demangle::simple_name;
use tracemill_model::schema::ByteOrder;

/// How a value is shown and read.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ArgumentForm {
    /// An integer of which only the size is known.
    Auto,
    Signed,
    Unsigned,
    Hexadecimal,
    Octal,
    Character,
    Float,
    /// A string of C.
    Text,
    /// A `std::string`.
    StdString,
    Pointer,
    /// Name, and its values when they are known.
    Enumeration(String, Option<Enumeration>),
    /// A structure by value, as its bytes.
    Structure(Option<String>),
}

/// Where the recorder took a value from; two of one place are the same argument.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ArgumentPlace {
    Index(u32),
    Float(u32),
    Register(String),
    Stack(String),
}

/// One argument, or the return value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ArgumentSpec {
    pub form: ArgumentForm,
    /// Bytes that are stored; not used for strings.
    pub size: usize,
    place: ArgumentPlace,
    /// Names of the registers in which parts of it are, joined.
    registers: Option<String>,
    is_return_value: bool,
    /// Was the function named, rather than matched by a pattern?
    is_exact: bool,
}

/// The list of a function.
pub(super) type SpecList = Vec<ArgumentSpec>;

/// Stored in place of a null pointer to a string by old recorders.
pub(super) const NULL_TEXT: [u8; 4] = [0xff; 4];
/// Payloads that a recorder writes are of at most 1 KiB; what claims to be much longer is none.
pub(super) const MAX_PAYLOAD: usize = 2032;

impl ArgumentSpec {
    /// Reads `arg1/i32%rdi`.
    fn read(text: &str, word: usize, is_arm: bool) -> Option<ArgumentSpec> {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let mut form = ArgumentForm::Auto;
        let (mut size, is_return_value, mut place, mut rest);
        if let Some(behind) = text.strip_prefix("fparg") {
            let end = digits(behind);
            (form, size, is_return_value) = (ArgumentForm::Float, 8, false);
            place = ArgumentPlace::Float(behind[..end].parse().ok()?);
            rest = &behind[end..];
        } else if let Some(behind) = text.strip_prefix("arg") {
            let end = digits(behind);
            (size, is_return_value) = (word, false);
            place = ArgumentPlace::Index(behind[..end].parse().ok()?);
            rest = &behind[end..];
        } else {
            rest = text.strip_prefix("retval")?;
            (size, is_return_value, place) = (word, true, ArgumentPlace::Index(u32::MAX));
        }
        let mut at_place = None;
        if let Some(behind) = rest.strip_prefix('/') {
            let (body, behind) = match behind.split_once('%') {
                Some((body, place)) => (body, Some(place)),
                None => (behind, None),
            };
            at_place = behind;
            let letter = body.chars().next();
            let mut bits = body.get(1..).unwrap_or("");
            match letter? {
                'd' => form = ArgumentForm::Auto,
                'i' => form = ArgumentForm::Signed,
                'u' => form = ArgumentForm::Unsigned,
                'x' => form = ArgumentForm::Hexadecimal,
                'o' => form = ArgumentForm::Octal,
                's' => form = ArgumentForm::Text,
                'S' => form = ArgumentForm::StdString,
                'p' => form = ArgumentForm::Pointer,
                'c' => (form, size) = (ArgumentForm::Character, 1),
                'f' => {
                    (form, size) = (ArgumentForm::Float, 8);
                    if let ArgumentPlace::Index(index) = place {
                        place = ArgumentPlace::Float(index);
                    }
                }
                'e' => {
                    let name = body.strip_prefix("e:").filter(|name| !name.is_empty())?;
                    form = ArgumentForm::Enumeration(name.to_string(), None);
                    bits = "";
                }
                't' => {
                    let end = digits(bits);
                    size = bits[..end].parse().ok()?;
                    form = ArgumentForm::Structure(bits[end..].strip_prefix(':').map(str::to_string));
                    bits = "";
                }
                letter if letter.is_ascii_digit() && form == ArgumentForm::Float => bits = body,
                _ => return None,
            }
            if !bits.is_empty() {
                size = match (bits.parse::<usize>().ok()?, &form) {
                    (80, ArgumentForm::Float) => 10,
                    (bits @ (8 | 16 | 32 | 64), _) => bits / 8,
                    _ => return None,
                };
            }
            rest = "";
        }
        let at_place = at_place.or_else(|| rest.strip_prefix('%'));
        if at_place.is_none() && !rest.is_empty() {
            return None;
        }
        let mut registers = None;
        if let Some(name) = at_place {
            place = match name.strip_prefix("stack") {
                Some(offset) => ArgumentPlace::Stack(offset.to_string()),
                // Of several registers the last one counts.
                None => ArgumentPlace::Register(name.rsplit('+').next().unwrap_or(name).to_string()),
            };
            registers = matches!(place, ArgumentPlace::Register(_)).then(|| name.to_string());
        }
        if form == ArgumentForm::Float && size == 10 && is_arm {
            size = 8;
        }
        Some(ArgumentSpec { form, size, place, registers, is_return_value, is_exact: false })
    }

    fn wanted(self) -> RequestedValue {
        let form = match self.form {
            ArgumentForm::Text => WantedForm::Text,
            ArgumentForm::StdString => WantedForm::StdString,
            ArgumentForm::Structure(_) => WantedForm::Structure,
            _ => WantedForm::Plain,
        };
        let place = match self.place {
            ArgumentPlace::Register(_) if form == WantedForm::Structure => {
                WantedPlace::Registers(self.registers.unwrap_or_default(), self.is_return_value)
            }
            _ if self.is_return_value => WantedPlace::Result(self.form == ArgumentForm::Float),
            ArgumentPlace::Index(index) => WantedPlace::Argument(index),
            ArgumentPlace::Float(index) => WantedPlace::Float(index),
            ArgumentPlace::Register(name) => WantedPlace::Register(name),
            ArgumentPlace::Stack(offset) => WantedPlace::Stack(offset),
        };
        RequestedValue { form, size: self.size, place }
    }

    /// Is it the return value?
    pub(super) fn is_return_value(&self) -> bool {
        self.is_return_value
    }

    /// Bytes of its value at `at` of a payload, and where the next value begins; `None` past the end.
    pub(super) fn read_value<'p>(&self, payload: &'p [u8], at: usize, order: ByteOrder) -> Option<(&'p [u8], usize)> {
        let (from, len) = match self.form {
            ArgumentForm::Text | ArgumentForm::StdString => (at + 2, u16_at(payload, at, order)?.into()),
            _ => (at, self.size),
        };
        let end = from.checked_add(len)?;
        Some((payload.get(from..end)?, end.checked_next_multiple_of(4)?))
    }
}

/// The length of the payload that begins here, padded; `None` when it would go past the end of the bytes.
#[inline]
pub(super) fn payload_len(specs: &[ArgumentSpec], payload: &[u8], order: ByteOrder) -> Option<usize> {
    let mut at = 0;
    for spec in specs {
        (_, at) = spec.read_value(payload, at, order)?;
    }
    let len = at.next_multiple_of(8);
    (len <= payload.len()).then_some(len)
}

/// A text of specifications: `PATTERN@spec,spec;...`.
struct Items {
    /// Items of names without pattern, by name.
    exact: HashMap<String, Vec<usize>>,
    patterns: Vec<(usize, Regex)>,
    items: Vec<OptionItem>,
}

struct OptionItem {
    specs: SpecList,
    /// Takes the automatic specification.
    is_auto: bool,
    module: Option<String>,
    is_exact: bool,
}

impl Items {
    fn read(text: &str, patterns: PatternKind, want_return_values: bool, word: usize, is_arm: bool) -> Items {
        let mut all = Items { exact: HashMap::new(), patterns: Vec::new(), items: Vec::new() };
        for item in text.split(';').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, parts) = item.split_once('@').unwrap_or((item, ""));
            let mut specs = SpecList::new();
            let mut module = None;
            for part in parts.split(',').map(str::trim).filter(|part| !part.is_empty()) {
                let is_spec = ["arg", "fparg", "retval"].iter().any(|word| part.starts_with(word));
                match ArgumentSpec::read(part, word, is_arm) {
                    Some(spec) if spec.is_return_value == want_return_values => specs.push(spec),
                    Some(_) => {}
                    None if is_spec || part.starts_with("auto-args") => {}
                    None => module = Some(part.to_string()),
                }
            }
            let is_auto = parts.split(',').all(|part| part.is_empty() || part == "auto-args");
            if specs.is_empty() && !is_auto {
                continue;
            }
            let name = simple_name(name);
            let at = all.items.len();
            let pattern = patterns.expression(&name);
            let is_exact = pattern.is_none();
            match pattern {
                Some(pattern) => all.patterns.push((at, pattern)),
                None => all.exact.entry(name).or_default().push(at),
            }
            all.items.push(OptionItem { specs, is_auto, module, is_exact });
        }
        all
    }

    fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items for a function, in their order.
    fn for_function(&self, name: &str) -> Vec<&OptionItem> {
        let mut found = self.exact.get(name).cloned().unwrap_or_default();
        found.extend(self.patterns.iter().filter(|(_, pattern)| pattern.is_match(name)).map(|(at, _)| *at));
        found.sort_unstable();
        found.into_iter().map(|at| &self.items[at]).collect()
    }
}

/// A value that a recorder is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestedValue {
    /// The form in which it is stored.
    pub form: WantedForm,
    /// Bytes that are stored; not of texts.
    pub size: usize,
    /// Where it is.
    pub place: WantedPlace,
}

/// The form in which a value is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WantedForm {
    /// Its bytes.
    Plain,
    /// The string of C that it points to.
    Text,
    /// The `std::string` that it points to.
    StdString,
    /// Bytes of a structure, which may be in several places.
    Structure,
}

/// Where a value is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WantedPlace {
    /// An integer argument, from 1.
    Argument(u32),
    /// A float argument, from 1.
    Float(u32),
    /// A register.
    Register(String),
    /// The registers of parts of a structure, joined by `+`, and whether it is the return value.
    Registers(String, bool),
    /// A place on the stack: the text after `stack`.
    Stack(String),
    /// The return value, and whether it is a float.
    Result(bool),
}

/// The values that options want of functions, which are named by their modules and simple names: arguments, or return values
/// of the second text. What reads the recording makes the same lists.
pub fn wanted_values(
    texts: [&str; 2],
    has_globs: bool,
    functions: &mut dyn Iterator<Item = (&str, &str)>,
) -> Vec<[Vec<RequestedValue>; 2]> {
    let patterns = if has_globs { PatternKind::Glob } else { PatternKind::Regex };
    let items = [false, true].map(|want_return_values| {
        Items::read(texts[usize::from(want_return_values)], patterns, want_return_values, 8, false)
    });
    let lists = |(module, name): (&str, &str)| {
        [0, 1].map(|at: usize| {
            let mut list = SpecList::new();
            let fits = |item: &&OptionItem| item.module.as_deref().is_none_or(|wanted| module.starts_with(wanted));
            for item in items[at].for_function(name).into_iter().filter(fits) {
                item.specs
                    .iter()
                    .for_each(|spec| add(&mut list, ArgumentSpec { is_exact: item.is_exact, ..spec.clone() }));
            }
            list.into_iter().map(ArgumentSpec::wanted).collect()
        })
    };
    functions.map(lists).collect()
}

/// The lists of all functions of a trace, by symbol id.
#[derive(Debug, Default)]
pub(super) struct Signatures {
    /// Distinct lists; 0 is no list.
    pub lists: Vec<SpecList>,
    /// For each symbol id: the list of its arguments and that of its return value.
    pub of: Vec<(u32, u32)>,
}

impl Signatures {
    /// Makes the lists.
    pub(super) fn new(specs: &Specs, names: &SymbolNames) -> Signatures {
        let word = if names.is_64_bit { 8 } else { 4 };
        let read = |text: &str, patterns, want_return_values| {
            Items::read(text, patterns, want_return_values, word, specs.is_arm)
        };
        let mut makers = [
            Maker {
                explicit: read(&specs.arguments, specs.patterns, false),
                table: read(&specs.auto_arguments, PatternKind::Simple, false),
                want_return_values: false,
            },
            Maker {
                explicit: read(&specs.return_values, specs.patterns, true),
                table: read(&specs.auto_return_values, PatternKind::Simple, true),
                want_return_values: true,
            },
        ];
        let mut all = Signatures { lists: vec![SpecList::new()], of: vec![(0, 0); names.id_count()] };
        if makers.iter().all(|maker| maker.explicit.is_empty()) && !specs.is_auto {
            return all;
        }
        let auto_enumerations = enumerations(&specs.auto_enumerations);
        let mut known: HashMap<String, u32> = HashMap::new();
        for (at, module) in names.modules.iter().enumerate() {
            for (symbol_at, symbol) in module.symbols.get().iter().enumerate() {
                let name = simple_name(symbol.name);
                let mut lists = [0, 0];
                for (maker, list) in makers.iter_mut().zip(&mut lists) {
                    let mut specs_of = maker.make_specs(&name, symbol.address, symbol.kind, module, specs, word);
                    if specs_of.is_empty() {
                        continue;
                    }
                    for spec in &mut specs_of {
                        spec.place = ArgumentPlace::Index(0);
                        spec.registers = None;
                        spec.is_exact = false;
                        if let ArgumentForm::Enumeration(name, values) = &mut spec.form {
                            let found = module.debug.enumerations.get(name).or_else(|| auto_enumerations.get(name));
                            *values = found.cloned();
                        }
                    }
                    let key = format!("{specs_of:?}");
                    *list = *known.entry(key).or_insert_with(|| {
                        all.lists.push(specs_of);
                        all.lists.len() as u32 - 1
                    });
                }
                all.of[names.id(at, Some(symbol_at)) as usize] = (lists[0], lists[1]);
            }
        }
        all
    }

    /// The number of a list for a record: of the arguments at an entry, of the return value at an exit.
    #[inline]
    pub(super) fn list(&self, symbol: u32, is_exit: bool) -> u32 {
        self.of.get(symbol as usize).map_or(0, |&(entry, exit)| if is_exit { exit } else { entry })
    }
}

/// Makes the lists of one kind.
struct Maker {
    explicit: Items,
    /// The built-in table.
    table: Items,
    want_return_values: bool,
}

impl Maker {
    fn make_specs(&self, name: &str, address: u64, kind: u8, module: &Module, specs: &Specs, word: usize) -> SpecList {
        let mut list = SpecList::new();
        let mut is_named = false;
        for item in self.explicit.for_function(name) {
            let fits = match item.module.as_deref() {
                None => true,
                Some(wanted) if wanted.eq_ignore_ascii_case("plt") => kind == b'P',
                Some(wanted) => module.name().starts_with(wanted),
            };
            if !fits {
                continue;
            }
            let found = if item.is_auto { self.auto(name, address, module, specs, word) } else { item.specs.clone() };
            is_named |= !found.is_empty();
            for spec in found {
                add(&mut list, ArgumentSpec { is_exact: item.is_exact, ..spec });
            }
        }
        if specs.is_auto && !is_named {
            return self.auto(name, address, module, specs, word);
        }
        list
    }

    /// The automatic specification of a function: what its debug information says, otherwise the built-in table.
    fn auto(&self, name: &str, address: u64, module: &Module, specs: &Specs, word: usize) -> SpecList {
        let function = module.debug.functions.get(&address);
        let text = match self.want_return_values {
            false => function.and_then(|function| function.arguments.as_deref()),
            true => function.and_then(|function| function.return_value.as_deref()),
        };
        let read = |part: &str| {
            let spec = ArgumentSpec::read(part.trim(), word, specs.is_arm);
            spec.filter(|spec| spec.is_return_value == self.want_return_values)
        };
        // Of two of one place, as structures without bytes are, the recorder keeps one.
        let mut list = SpecList::new();
        for spec in text.into_iter().flat_map(|text| text.split(',')).filter_map(read) {
            add(&mut list, spec);
        }
        if !list.is_empty() {
            return list;
        }
        self.table.for_function(name).first().map(|item| item.specs.clone()).unwrap_or_default()
    }
}

/// Adds a specification: a second one for the same argument replaces the first, unless only the first names the
/// function.
fn add(list: &mut SpecList, spec: ArgumentSpec) {
    match list.iter_mut().find(|known| known.place == spec.place) {
        None => list.push(spec),
        Some(known) if spec.is_exact || !known.is_exact => *known = spec,
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Option<(ArgumentForm, usize)> {
        ArgumentSpec::read(text, 8, false).map(|spec| (spec.form, spec.size))
    }

    #[test]
    fn every_form_is_read() {
        let cases = [
            ("arg1", ArgumentForm::Auto, 8),
            ("arg2/d32", ArgumentForm::Auto, 4),
            ("arg1/i8", ArgumentForm::Signed, 1),
            ("arg1/u16%rdi", ArgumentForm::Unsigned, 2),
            ("arg2/x", ArgumentForm::Hexadecimal, 8),
            ("arg2/o32", ArgumentForm::Octal, 4),
            ("arg1/c", ArgumentForm::Character, 1),
            ("fparg1", ArgumentForm::Float, 8),
            ("fparg1/32", ArgumentForm::Float, 4),
            ("fparg1/80%stack+1", ArgumentForm::Float, 10),
            ("retval/f32", ArgumentForm::Float, 4),
            ("arg7%stack+1", ArgumentForm::Auto, 8),
            ("arg1/s", ArgumentForm::Text, 8),
            ("retval/S", ArgumentForm::StdString, 8),
            ("arg1/p%RDI", ArgumentForm::Pointer, 8),
            ("arg1/e:Color%RDI", ArgumentForm::Enumeration("Color".into(), None), 8),
            ("arg1/t16:Pair%RDI+RSI", ArgumentForm::Structure(Some("Pair".into())), 16),
            ("retval/t0:tag", ArgumentForm::Structure(Some("tag".into())), 0),
            ("arg1/t12", ArgumentForm::Structure(None), 12),
        ];
        for (text, form, size) in cases {
            assert_eq!(spec(text), Some((form, size)), "{text}");
        }
        for text in ["argx", "arg", "arg1/q", "arg1/i7", "arg1/i80", "arg1x", "libc.so", "arg1/e:", "arg1/"] {
            assert_eq!(spec(text), None, "{text}");
        }
        assert_eq!(ArgumentSpec::read("retval/f80", 4, true).unwrap().size, 8, "ARM has no long double");
    }

    #[test]
    fn payloads_are_padded() {
        let list =
            |texts: &[&str]| texts.iter().filter_map(|text| ArgumentSpec::read(text, 8, false)).collect::<SpecList>();
        let text = [3, 0, b'a', b'b', b'c', 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9];
        assert_eq!(payload_len(&list(&["arg1/s"]), &text, ByteOrder::Little), Some(8));
        assert_eq!(payload_len(&list(&["arg1/s", "arg2"]), &text, ByteOrder::Little), Some(16));
        assert_eq!(payload_len(&list(&["arg1/c", "arg2/c", "arg3/c"]), &text, ByteOrder::Little), Some(16));
        assert_eq!(payload_len(&list(&["arg1/s"]), &text, ByteOrder::Big), None, "3 as 768 goes past the end");
        assert_eq!(payload_len(&list(&["retval/t0"]), &text, ByteOrder::Little), Some(0));
    }

    #[test]
    fn items_match_by_their_pattern() {
        let read = |text: &str, patterns| Items::read(text, patterns, false, 8, false);
        let count =
            |items: &Items, name: &str| items.for_function(name).iter().map(|item| item.specs.len()).sum::<usize>();
        let items = read("foo@arg1;^ba@arg1,arg2,retval;std::x@fparg1,libx;only@retval", PatternKind::Regex);
        assert_eq!((count(&items, "foo"), count(&items, "foo2"), count(&items, "bar")), (1, 0, 2));
        assert_eq!((count(&items, "std::x"), count(&items, "only")), (1, 0));
        let items = read("f[!a]o*@arg1", PatternKind::Glob);
        assert_eq!((count(&items, "fboat"), count(&items, "faoat"), count(&items, "xfbo")), (1, 0, 0));
        let items = read("f.*@arg1", PatternKind::Simple);
        assert_eq!((count(&items, "f.*"), count(&items, "foo")), (1, 0));
    }

    #[test]
    fn a_name_wins_over_a_pattern() {
        let one = |text: &str, is_exact| ArgumentSpec { is_exact, ..ArgumentSpec::read(text, 8, false).unwrap() };
        let mut list = SpecList::new();
        add(&mut list, one("arg1/i32", true));
        add(&mut list, one("arg2", false));
        add(&mut list, one("arg1/s", false));
        add(&mut list, one("arg2/x", false));
        assert_eq!(
            (list[0].form.clone(), list[1].form.clone(), list.len()),
            (ArgumentForm::Signed, ArgumentForm::Hexadecimal, 2)
        );
    }
}
