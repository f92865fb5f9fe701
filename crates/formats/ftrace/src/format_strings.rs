//! Texts of `trace_printk`: the kernel stores the address of the format string and the arguments, and the file holds the
//! strings by their addresses (`printk_formats` of the kernel).
//!
//! Arguments stand one after the other as the kernel's `vbin_printf` stores them: numbers in their own size, aligned to
//! it but at most to 4 bytes; texts with their zero; what stands after `%p` as a pointer, or as the text that the kernel
//! made of it.

use std::collections::HashMap;
use std::sync::OnceLock;

use tracemill_codec::bits::u32_at;
use tracemill_codec::text::printf;
use tracemill_model::schema::{ByteOrder, Render};

use super::event_format::{Content, ContentPlace, EventFormat, FieldElement, FormatField, Machine};
use super::print_format::PrintFormat;

/// Arguments of one string; C's own limit for portable code is 127.
const MAX_ARGUMENTS: usize = 128;

/// Format strings by their addresses.
#[derive(Debug, Default)]
pub(crate) struct FormatStrings {
    strings: HashMap<u64, FormatString>,
    /// Symbols of the kernel in the order of their addresses, where strings ask for them.
    symbols: Vec<(u64, Box<str>)>,
    machine: Machine,
}

#[derive(Debug)]
struct FormatString {
    /// As it stands in C's code, between the quotes.
    text: Box<str>,
    /// How its arguments are read and printed; `None` inside when it asks for something unknown.
    parsed: OnceLock<Option<Arguments>>,
}

impl FormatStrings {
    /// Reads lines such as `0xffffffff82a0c5b8 : "load: %d\n"`.
    pub(crate) fn read(&mut self, text: &str) {
        for line in text.lines() {
            let Some((address, string)) = line.split_once(':') else { continue };
            let digits = address.trim();
            let digits = digits.strip_prefix("0x").unwrap_or(digits);
            let Ok(address) = u64::from_str_radix(digits, 16) else { continue };
            let string = string.trim();
            let string = string.strip_prefix('"').unwrap_or(string);
            let string = string.strip_suffix('"').unwrap_or(string);
            // A line of a trace ends anyway.
            let string = string.strip_suffix("\\n").unwrap_or(string);
            self.strings.entry(address).or_insert(FormatString { text: string.into(), parsed: OnceLock::new() });
        }
    }

    /// Takes the symbols (lines of `/proc/kallsyms`) that the strings ask for.
    pub(crate) fn finish(&mut self, symbols: &[u8], machine: Machine) {
        self.machine = machine;
        let asks =
            |string: &FormatString| ["%ps", "%pS", "%pf", "%pF", "%pB"].iter().any(|of| string.text.contains(of));
        if !self.strings.values().any(asks) {
            return;
        }
        for line in String::from_utf8_lossy(symbols).lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            // Addresses that the kernel hid are 0.
            if let Some(address) = u64::from_str_radix(address, 16).ok().filter(|&address| address != 0) {
                self.symbols.push((address, name.into()));
            }
        }
        self.symbols.sort_by_key(|(address, _)| *address);
    }

    /// The symbol at an address, with the distance from its beginning when that is wanted.
    fn symbol(&self, address: u64, with_offset: bool) -> Option<String> {
        let at = self.symbols.partition_point(|(begin, _)| *begin <= address).checked_sub(1)?;
        let (begin, name) = &self.symbols[at];
        Some(if with_offset { format!("{name}+{:#x}", address - begin) } else { name.to_string() })
    }

    /// Appends the text of an address and the arguments for it; false when the string is not known.
    fn write_text(&self, address: u64, arguments: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(string) = self.strings.get(&address) else { return false };
        let parsed = string.parsed.get_or_init(|| Arguments::parse(&string.text, self.machine));
        let Some(parsed) = parsed else { return false };
        let record = parsed.record(arguments, self.machine);
        parsed.print.write(&record, &|address, with_offset| self.symbol(address, with_offset), out);
        true
    }

    /// Appends the string of an address as it stands.
    fn put_string(&self, address: u64, out: &mut Vec<u8>) -> bool {
        let Some(string) = self.strings.get(&address) else { return false };
        let mut letters = string.text.chars();
        let mut buffer = [0; 4];
        while let Some(letter) = letters.next() {
            let letter = match letter {
                '\\' => match letters.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some(other) => other,
                    None => '\\',
                },
                letter => letter,
            };
            out.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
        }
        true
    }
}

/// Form of an argument in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ArgumentForm {
    /// A number of so many bytes.
    Number(u8, bool),
    /// A text with its zero.
    Text,
    /// The target of a pointer: new kernels store its text, old ones the pointer.
    Pointed,
}

/// The arguments of a format string.
#[derive(Debug)]
struct Arguments {
    forms: Vec<ArgumentForm>,
    /// Prints a record of 8 bytes for each argument, with the texts after them.
    print: PrintFormat,
}

impl Arguments {
    fn parse(text: &str, machine: Machine) -> Option<Arguments> {
        let (line, forms) = forms(text, machine)?;
        let mut fields = Vec::new();
        let mut print_format = format!("\"{line}\"");
        for (form, at) in forms.iter().zip(0..) {
            let name = format!("argument_{at}");
            print_format += &format!(", REC->{name}");
            let (size, content, place) = match *form {
                ArgumentForm::Number(_, signed) => {
                    (8, Content::Integer(FieldElement { bytes: 8, signed, is_pointer: false }), ContentPlace::Fixed)
                }
                ArgumentForm::Text | ArgumentForm::Pointed => {
                    (4, Content::Text, ContentPlace::Located { relative: false })
                }
            };
            fields.push(FormatField { name, type_name: String::new(), offset: at * 8, size, content, place });
        }
        let format =
            EventFormat { name: String::new(), id: 0, common: Vec::new(), fields, print_format, repeated: Vec::new() };
        let print = PrintFormat::parse(&format, machine);
        print.is_known().then_some(Arguments { forms, print })
    }

    /// The arguments as a record with the fields of `print`. Those that are missing are 0 or empty.
    fn record(&self, arguments: &[u8], machine: Machine) -> Vec<u8> {
        let mut record = vec![0; self.forms.len() * 8];
        let mut at = 0;
        for (form, slot) in self.forms.iter().zip((0..).step_by(8)) {
            let pointer = usize::from(machine.long_bytes);
            match *form {
                ArgumentForm::Number(bytes, signed) => {
                    let value = number(arguments, &mut at, bytes.into(), machine);
                    let unused = 64 - 8 * u32::from(bytes.clamp(1, 8));
                    let value = if signed { (value << unused) as i64 >> unused } else { value as i64 };
                    put_number(&mut record[slot..slot + 8], value as u64, machine);
                }
                ArgumentForm::Pointed if !arguments.get(at).is_some_and(|byte| matches!(byte, b' '..=b'~')) => {
                    let value = number(arguments, &mut at, pointer, machine);
                    put_text(&mut record, slot, format!("{value:#x}").as_bytes(), machine);
                }
                ArgumentForm::Text | ArgumentForm::Pointed => {
                    let rest = arguments.get(at..).unwrap_or(&[]);
                    let len = memchr::memchr(0, rest).unwrap_or(rest.len());
                    put_text(&mut record, slot, &rest[..len], machine);
                    at += (len + 1).min(rest.len());
                }
            }
        }
        record
    }
}

/// The number at the next place for it, and steps over it.
fn number(arguments: &[u8], at: &mut usize, bytes: usize, machine: Machine) -> u64 {
    *at = at.next_multiple_of(bytes.clamp(1, 4));
    let value = arguments.get(*at..*at + bytes).map_or(0, |bytes| machine.number(bytes));
    *at += bytes;
    value
}

fn put_number(room: &mut [u8], value: u64, machine: Machine) {
    let bytes = if machine.byte_order == ByteOrder::Big { value.to_be_bytes() } else { value.to_le_bytes() };
    let len = room.len().min(8);
    let from = if machine.byte_order == ByteOrder::Big { 8 - len } else { 0 };
    room[..len].copy_from_slice(&bytes[from..from + len]);
}

/// Puts a text after all else, and its place into the slot: 16 bits each, as a record of the ring buffer has them.
fn put_text(record: &mut Vec<u8>, slot: usize, text: &[u8], machine: Machine) {
    let offset = record.len();
    let len = text.len().min(usize::from(u16::MAX).saturating_sub(offset));
    put_number(&mut record[slot..slot + 4], (len << 16 | (offset & 0xffff)) as u64, machine);
    record.extend_from_slice(&text[..len]);
}

/// The string with conversions for what the arguments become, and their forms; `None` when it has one that is unknown.
fn forms(text: &str, machine: Machine) -> Option<(String, Vec<ArgumentForm>)> {
    let (mut line, mut forms) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        line += &rest[..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            line.push('%');
            rest = after;
            continue;
        }
        let (_, flags) = printf::Spec::flags(rest.as_bytes());
        let mut end = flags;
        let next = |end: usize| rest.as_bytes().get(end).copied();
        // Width and precision.
        while let Some(letter) = next(end).filter(|letter| letter.is_ascii_digit() || matches!(letter, b'.' | b'*')) {
            if letter == b'*' {
                forms.push(ArgumentForm::Number(4, true));
            }
            end += 1;
        }
        let mut bytes: u8 = 4;
        while let Some(letter) = next(end) {
            match letter {
                b'h' => bytes = (bytes / 2).max(1),
                b'l' if bytes == 4 && next(end + 1) != Some(b'l') => bytes = machine.long_bytes,
                b'l' | b'L' | b'q' | b'j' => bytes = 8,
                b'z' | b'Z' | b't' => bytes = machine.long_bytes,
                _ => break,
            }
            end += 1;
        }
        let letter = next(end)?;
        end += 1;
        line += &rest[..end];
        let form = match letter {
            b'd' | b'i' => ArgumentForm::Number(bytes, true),
            b'u' | b'x' | b'X' | b'o' => ArgumentForm::Number(bytes, false),
            b'c' => ArgumentForm::Number(1, false),
            b's' => ArgumentForm::Text,
            b'p' => {
                let words =
                    rest[end..].find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len() - end);
                match rest.as_bytes().get(end) {
                    // These are stored as they are.
                    Some(b's' | b'S' | b'f' | b'F' | b'B' | b'x' | b'K' | b'e') | None => {
                        ArgumentForm::Number(machine.long_bytes, false)
                    }
                    Some(_) if words == 0 => ArgumentForm::Number(machine.long_bytes, false),
                    Some(_) => {
                        line.pop();
                        line.push('s');
                        end += words;
                        ArgumentForm::Pointed
                    }
                }
            }
            _ => return None,
        };
        forms.push(form);
        rest = &rest[end..];
        if forms.len() > MAX_ARGUMENTS {
            return None;
        }
    }
    Some((line + rest, forms))
}

/// The text of an event of the tracer that stores a format string's address.
#[derive(Debug)]
pub(crate) struct PrintkText {
    strings: std::sync::Arc<FormatStrings>,
    /// First byte of the record, in the event.
    base: usize,
    /// The field with the address of the string.
    address: FormatField,
    /// Where it stands in the event where the arguments are: their offset and number; `None` for a string without arguments.
    arguments: Option<(usize, usize)>,
}

impl PrintkText {
    /// The text of the events of a format, when those have one: `bprint` and `bputs` of the system `ftrace`.
    ///
    /// `locator` is the place of the table's entry of a dynamic field; the record begins at `base`.
    pub(crate) fn from_format(
        strings: &std::sync::Arc<FormatStrings>,
        format: &EventFormat,
        base: usize,
        locator: impl Fn(&FormatField) -> Option<usize>,
    ) -> Option<PrintkText> {
        let number = |name: &str| {
            let is_number = |field: &&FormatField| {
                field.place == ContentPlace::Fixed && matches!(field.content, Content::Integer(_))
            };
            format.field(name).filter(is_number).cloned()
        };
        let (address, arguments) = match format.name.as_str() {
            "bprint" => {
                let buffer = format.field("buf")?;
                let Content::Array(element) = buffer.content else { return None };
                (number("fmt")?, Some((locator(buffer)?, usize::from(element.bytes))))
            }
            "bputs" => (number("str")?, None),
            _ => return None,
        };
        Some(PrintkText { strings: strings.clone(), base, address, arguments })
    }
}

impl Render for PrintkText {
    fn render(&self, event: &[u8], _own: &[u8], out: &mut Vec<u8>) -> bool {
        let record = event.get(self.base..).unwrap_or(&[]);
        let Some(address) = self.address.integer(record, self.strings.machine) else { return false };
        let mut text = Vec::new();
        let is_known = match self.arguments {
            None => self.strings.put_string(address as u64, &mut text),
            Some((locator, element)) => {
                let number = |at: usize| u32_at(event, at, ByteOrder::Little).map(|value| value as usize);
                let Some((offset, count)) = number(locator).zip(number(locator + 4)) else { return false };
                let rest = event.get(offset..).unwrap_or(&[]);
                let arguments = &rest[..rest.len().min(count.saturating_mul(element))];
                self.strings.write_text(address as u64, arguments, &mut text)
            }
        };
        if is_known {
            out.extend_from_slice(String::from_utf8_lossy(&text).as_bytes());
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::pack;

    fn printed(order: ByteOrder, long: u8, line: &str, arguments: &[u8]) -> Option<String> {
        let machine = Machine { byte_order: order, long_bytes: long };
        let mut strings = FormatStrings::default();
        strings.read(&format!("0x10 : \"{line}\"\n"));
        strings.finish(b"0000000000001000 T start\n0000000000002000 t inner\t[module]\n", machine);
        let mut out = Vec::new();
        strings.write_text(0x10, arguments, &mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn numbers_are_aligned_to_their_size_and_at_most_to_four() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let show =
                |long: u8, line: &str, parts: &[(i64, usize)]| printed(order, long, line, &pack(order, parts)).unwrap();
            assert_eq!(show(8, "cpu: %d freq: %u\\n", &[(-3, 4), (800_000, 4)]), "cpu: -3 freq: 800000");
            // 8 bytes at an offset of 4.
            assert_eq!(show(8, "%d %ld %llx", &[(1, 4), (-2, 8), (-1, 8)]), "1 -2 ffffffffffffffff");
            assert_eq!(show(4, "%d %ld %lld %zu", &[(1, 4), (-2, 4), (-3, 8), (4, 4)]), "1 -2 -3 4");
            // `a`, then 16 bits at 2, 8 bits at 4, 32 bits at 8.
            let small = [(97, 1), (0, 1), (-2, 2), (-1, 1), (0, 3), (7, 4)];
            assert_eq!(show(8, "%c %hd %hhd %d%%", &small), "a -2 -1 7%");
            assert_eq!(show(8, "%*d|%-*d|", &[(4, 4), (7, 4), (3, 4), (8, 4)]), "   7|8  |");
            assert_eq!(show(8, "%ps %pS %p", &[(0x1004, 8), (0x2010, 8), (0x55, 8)]), "start inner+0x10 0x55");
            assert_eq!(show(8, "%d and %d", &[(5, 4)]), "5 and 0", "what is missing is 0");
        }
    }

    #[test]
    fn texts_stand_in_the_record() {
        let order = ByteOrder::Little;
        let arguments = [b"ab\0".to_vec(), vec![0], pack(order, &[(9, 4)]), b"xyz\0".to_vec()].concat();
        assert_eq!(printed(order, 8, "<%s> %d <%5.2s>", &arguments).unwrap(), "<ab> 9 <   xy>");
        // New kernels store the text of what is pointed to, old ones the pointer.
        assert_eq!(printed(order, 8, "%pI4 %d", b"127.0.0.1\0\0\0\x07\0\0\0").unwrap(), "127.0.0.1 7");
        assert_eq!(printed(order, 8, "%pM.", &pack(order, &[(0xff01, 8)])).unwrap(), "0xff01.");
        assert_eq!(printed(order, 8, "%e", &[]), None);
        assert_eq!(printed(order, 8, "100%", &[]), None);
        assert_eq!(printed(order, 8, "\\\"%s\\\"\\t.", b"q\0").unwrap(), "\"q\"\t.");
    }
}
