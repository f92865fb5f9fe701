//! `print fmt:` lines: how the kernel would have printed an event.
//!
//! ```text
//! print fmt: "comm=%s state=%s", REC->comm, REC->state ? __print_flags(REC->state, "|", { 1, "S" }) : "R"
//! ```
//!
//! A format string as C has it, and expressions over the fields of the record. What cannot be read (a function of the
//! kernel, the name of a constant) makes [`PrintFormat::parse`] give up, and the event is shown field by field.

mod parse;
mod value;

use tracemill_codec::text::printf;

use super::event_format::{EventFormat, FormatField, Machine};
use parse::{FormatParser, tokens};
use value::Record;

/// Nested parentheses, operators and calls.
const MAX_DEPTH: usize = 64;
/// Parts of all expressions of one line; the kernel's longest lists of flags have a few hundred.
const MAX_PARTS: usize = 8192;
/// Binary operators of one line: a chain of them is a tree as deep.
const MAX_OPERATORS: usize = 512;
/// Widths and precisions beyond this are mistakes.
const MAX_WIDTH: u16 = 512;
/// Bytes or elements of an array that are shown.
const MAX_ELEMENTS: usize = 4096;

/// How the records of an event are printed.
#[derive(Clone, Debug)]
pub struct PrintFormat {
    /// `None` when the line cannot be read.
    pieces: Option<Vec<FormatPiece>>,
    fields: Vec<FormatField>,
    machine: Machine,
}

/// The symbol at an address of the kernel's code; `true` asks for the distance from its beginning too.
pub type KernelNames<'a> = &'a dyn Fn(u64, bool) -> Option<String>;

#[derive(Clone, Debug)]
enum FormatPiece {
    Text(String),
    Value { spec: Box<Spec>, value: Expr },
}

/// A conversion: `%-08.3lx`.
#[derive(Clone, Debug, Default)]
struct Spec {
    /// Flags and letter; width and precision are known only for a record.
    of_c: printf::Spec,
    width: Count,
    precision: Count,
    /// Bytes of the integer that C would have passed.
    bytes: u32,
    /// The letters after `%p`.
    pointer: String,
}

#[derive(Clone, Debug, Default)]
enum Count {
    #[default]
    None,
    Number(usize),
    /// `*`: an argument.
    Value(Expr),
}

#[derive(Clone, Debug)]
enum Expr {
    Number(i128),
    Text(String),
    /// By its number.
    Field(usize),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choice(Box<[Expr; 3]>),
    /// To so many bytes, signed or not.
    Cast(u32, bool, Box<Expr>),
    Element(Box<Expr>, Box<Expr>),
    Flags(Box<Expr>, String, Vec<(i128, String)>),
    Symbolic(Box<Expr>, Vec<(i128, String)>),
    /// Bytes, their number, and what stands between two.
    Hex(Box<Expr>, Box<Expr>, &'static str),
    /// Data, number and size of its elements.
    Array(Box<[Expr; 3]>),
    /// Length of what a field locates.
    Len(usize),
    /// A set of bits, as ranges.
    BitMask(usize),
}

impl PrintFormat {
    /// Reads the line of a format.
    pub fn parse(format: &EventFormat, machine: Machine) -> PrintFormat {
        let fields = format.common.iter().chain(&format.fields).cloned().collect::<Vec<_>>();
        let tokens = tokens(&format.print_format);
        let pieces = tokens.and_then(|tokens| {
            let mut parser = FormatParser::new(&tokens, &fields, machine);
            parser.line()
        });
        // Without a line that can be read only the format's own fields are shown.
        let shown = if pieces.is_some() { fields } else { format.fields.clone() };
        PrintFormat { pieces, fields: shown, machine }
    }

    /// Can the line be read?
    pub fn is_known(&self) -> bool {
        self.pieces.is_some()
    }

    /// Appends what the kernel would have printed.
    pub fn write(&self, record: &[u8], names: KernelNames<'_>, out: &mut Vec<u8>) {
        let of = Record { bytes: record, format: self, names };
        let Some(pieces) = &self.pieces else { return of.put_fields(out) };
        for piece in pieces {
            match piece {
                FormatPiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                FormatPiece::Value { spec, value } => of.write_value(spec, value, out),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{format, pack};
    use tracemill_model::schema::ByteOrder;

    fn printed(order: ByteOrder, fields: &[&str], line: &str, record: &[u8]) -> String {
        let machine = Machine { byte_order: order, long_bytes: 8 };
        let text = format("test", 7, fields).replace("print fmt: \"\"", &format!("print fmt: {line}"));
        let format = EventFormat::parse(&text, machine).unwrap();
        let mut out = Vec::new();
        let names = |address: u64, with_offset: bool| match address {
            0x1004 if with_offset => Some("start+0x4/0x10".to_string()),
            0x1004 => Some("start".to_string()),
            _ => None,
        };
        PrintFormat::parse(&format, machine).write(record, &names, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// A record with numbers of these lengths after its common fields.
    fn record(order: ByteOrder, parts: &[(i64, usize)]) -> Vec<u8> {
        [vec![0; 8], pack(order, parts)].concat()
    }

    #[test]
    fn numbers_as_c_prints_them() {
        let fields = ["int a;8;4;1", "unsigned long b;16;8;0", "short c;24;2;1", "char d;26;1;1"];
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let record = record(order, &[(-5, 4), (0, 4), (0x1234_5678_9abc, 8), (-2, 2), (65, 1)]);
            let show = |line: &str| printed(order, &fields, line, &record);
            assert_eq!(show(r#""%d %u %x", REC->a, REC->a, REC->a"#), "-5 4294967291 fffffffb");
            assert_eq!(
                show(r#""%ld|%08lx|%-6d|%6d|", REC->a, REC->b, REC->c, REC->c"#),
                "-5|123456789abc|-2    |    -2|"
            );
            assert_eq!(show(r#""%#x %#o %03d %+d %c %%", 255, 8, -7, 7, REC->d"#), "0xff 010 -07 +7 A %");
            assert_eq!(show(r#""%*d|%.3d|%hd|%hhx", 4, 1, 2, 65537, 511"#), "   1|002|1|ff");
            assert_eq!(show(r#""0x%08lx", ((unsigned long)(REC->a))"#), "0xfffffffffffffffb");
            assert_eq!(show(r#""%p %p", (void *)REC->b, NULL"#), "0x123456789abc (nil)");
        }
    }

    #[test]
    fn expressions() {
        let fields = ["int a;8;4;1", "u64 b;16;8;0"];
        let record = record(ByteOrder::Little, &[(6, 4), (0, 4), (-1, 8)]);
        let show = |line: &str| printed(ByteOrder::Little, &fields, line, &record);
        assert_eq!(show(r#""%d", REC->a * 2 + 1 << 1 & 0xff"#), "26");
        assert_eq!(show(r#""%d", 10 - 4 - 3"#), "3");
        assert_eq!(show(r#""%s", REC->a > 5 && !0 ? "big" : "small""#), "big");
        assert_eq!(show(r#""%llu", REC->b"#), "18446744073709551615");
        assert_eq!(show(r#""%llu", REC->b >> 60"#), "15");
        assert_eq!(show(r#""%d %d", REC->a / 0, REC->a % 4"#), "0 2");
        assert_eq!(show(r#""%d", (unsigned char)0x1ff - 1"#), "254");
        assert_eq!(show(r#""%d" " and %u", 1, sizeof(u64)"#), "1 and 8");
        assert_eq!(show(r#""%d", (REC->a) - 1"#), "5");
    }

    #[test]
    fn flags_symbols_texts_and_arrays() {
        let fields = [
            "char comm[8];8;8;0",
            "unsigned int flags;16;4;0",
            "__data_loc char[] name;20;4;0",
            "__u8 mac[6];24;6;0",
            "unsigned int words[2];32;8;0",
            "__data_loc u8[] buf;40;4;0",
        ];
        let mut record = vec![0; 8];
        record.extend(b"task\0xyz");
        record.extend(5u32.to_le_bytes());
        record.extend((44u32 | 5 << 16).to_le_bytes());
        record.extend([1, 2, 0xab, 4, 5, 6, 0, 0]);
        record.extend([7, 0, 0, 0, 9, 0, 0, 0]);
        record.extend((49u32 | 3 << 16).to_le_bytes());
        record.extend(b"path\0\x01\x02\x83");
        let show = |line: &str| printed(ByteOrder::Little, &fields, line, &record);
        assert_eq!(show(r#""%s %s %.2s|%10s", REC->comm, __get_str(name), REC->comm, "x""#), "task path ta|         x");
        let list = r#"{ 0x1, "A" }, { (1 << 1), "B" }"#;
        assert_eq!(show(&format!(r#""%s", __print_flags(REC->flags, "|", {list})"#)), "A|0x4");
        assert_eq!(show(&format!(r#""%s", __print_flags(2UL, "|", {list})"#)), "B");
        assert_eq!(show(r#""%s", __print_flags(0, "|", { 0, "none" })"#), "none");
        assert_eq!(
            show(r#""%s %s", __print_symbolic(REC->flags, { 5, "five" }), __print_symbolic(6, { 5, "" })"#),
            "five 0x6"
        );
        assert_eq!(show(r#""%pM %s", REC->mac, __print_hex(REC->mac, 3)"#), "01:02:ab:04:05:06 01 02 ab");
        assert_eq!(show(r#""%s %d", __print_array(REC->words, 2, 4), REC->words[1]"#), "{0x7,0x9} 9");
        assert_eq!(show(r#""%d %s", __get_dynamic_array_len(buf), __get_bitmask(buf)"#), "3 0,9,16-17,23");
        assert_eq!(show(r#""%pI4 %pi4", REC->mac, &REC->mac"#), "1.2.171.4 1.2.171.4");
        assert_eq!(show(r#""%ps %pS %ps", (void *)0x1004, (void *)0x1004, (void *)5"#), "start start+0x4/0x10 0x5");
    }

    #[test]
    fn a_line_that_cannot_be_read_shows_the_fields() {
        let fields = ["int a;8;4;1", "const char * p;16;8;0", "char comm[4];24;4;0", "u16 w[2];28;4;0"];
        let mut record = record(ByteOrder::Little, &[(-6, 4), (0, 4), (0x55, 8)]);
        record.extend(b"ab\0\0\x01\0\x02\0");
        let by_field = "a=-6 p=0x55 comm=ab w=ARRAY[1, 2]";
        let deep = format!("\"%d\", {}1{}", "(".repeat(500), ")".repeat(500));
        let long = format!("\"%d\", 1{}", "+1".repeat(5000));
        for line in [
            "",
            "\"%d\"",
            "\"%d\", some_function(REC->a)",
            "\"%d\", REC->none",
            "\"%d\", NAME",
            "\"%d, REC->a",
            "\"%e\", REC->a",
            "\"%é\", REC->a",
            "\"x\", REC->a",
            "\"%99999d\", REC->a",
            &deep,
            &long,
        ] {
            assert_eq!(printed(ByteOrder::Little, &fields, line, &record), by_field, "{line}");
        }
        // Fields that the record does not have are empty or 0.
        assert_eq!(printed(ByteOrder::Little, &fields, "\"%d %s|\", REC->a, REC->comm", &record[..10]), "0 |");
    }
}
