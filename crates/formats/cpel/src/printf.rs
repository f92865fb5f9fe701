//! The formats of names and data: compiled once, never handed to a C library (`SPEC.md`, D25 to D29, D31).

use tracemill_codec::bits::{mask, sign_extend};
use tracemill_codec::text::printf::{self, put_signed, put_unsigned};
use tracemill_model::schema::QUICK_BYTES;

use super::fast_text::{self, FastText, STEP, ShortPart, Steps, block};
use super::strings::{MAX_TEXT, StringTable, Symbols};

/// Largest width and precision (`SPEC.md`, D27).
const MAX_WIDTH: u16 = 1024;
/// A longer format is read again for each text.
const MAX_COMPILED: usize = 4096;

/// The tables that texts refer to.
#[derive(Clone, Copy)]
pub(super) struct TextTables<'a> {
    /// The table that `%s` looks into.
    pub(super) strings: Option<&'a StringTable>,
    /// The symbols of `%k`.
    pub(super) symbols: &'a Symbols,
}

/// A format.
#[derive(Clone, Debug)]
pub(super) enum PrintfFormat {
    /// Compiled.
    Short(Box<Compiled>),
    /// Too long to be kept: where it stands.
    Long(StringTable, u32),
}

/// A compiled format.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// The format, with some octets after it ([`padded`]).
    text: Box<[u8]>,
    len: usize,
    /// The text of all values, when there are no conversions.
    constant: Box<[u8]>,
    pieces: Box<[PrintfPiece]>,
    /// How short texts are made; `None` when that needs more.
    steps: Option<Box<[ShortPart<PlainValue>]>>,
    /// Its texts are UTF-8 whatever the value.
    is_utf8: bool,
    /// They are printable ASCII when the strings in them are.
    is_plain: bool,
    shape: KnownShape,
}

/// Formats whose texts need not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KnownShape {
    /// No conversions, UTF-8.
    Constant,
    /// `%s`.
    String,
    /// All others.
    Other,
}

#[derive(Clone, Copy, Debug)]
enum PrintfPiece {
    /// Octets of the format as they are.
    Literal(u32, u32),
    /// A conversion that a short text can have.
    Value(PlainValue),
    /// A conversion with all that C knows.
    Full(SizedSpec),
}

/// A value without width or precision, but zeros before one in base 16.
#[derive(Clone, Copy, Debug)]
enum PlainValue {
    Signed,
    Unsigned,
    /// In base 16, filled with zeros to so many digits.
    Hex(u8),
    String,
}

/// A conversion, and how many bits of the value count: 8, 16 or 32.
#[derive(Clone, Copy, Debug)]
struct SizedSpec {
    of_c: printf::Spec,
    bits: u8,
}

/// Memory that compiled formats may take together, in octets: definitions may share one long text.
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new() -> Self {
        Budget(32 << 20)
    }
}

impl PrintfFormat {
    /// The format at an offset of a table, `None` when the offset is outside of it.
    pub(super) fn read_at(table: &StringTable, offset: u32, budget: &mut Budget) -> Option<Self> {
        let rest = table.octets().get(offset as usize..).filter(|rest| !rest.is_empty())?;
        let near = &rest[..rest.len().min(MAX_COMPILED)];
        let end = memchr::memchr(0, near).or_else(|| (near.len() == rest.len()).then_some(near.len()));
        let text = end.map(|end| &near[..end]).filter(|text| budget.0 >= cost(text));
        Some(match text {
            None => PrintfFormat::Long(table.clone(), offset),
            Some(text) => {
                budget.0 -= cost(text);
                PrintfFormat::Short(Box::new(Compiled::new(text)))
            }
        })
    }

    /// A format of ours.
    pub(super) fn from_text(text: &str) -> Self {
        PrintfFormat::Short(Box::new(Compiled::new(text.as_bytes())))
    }

    /// Appends the text of a value, in UTF-8: bad octets become U+FFFD (`SPEC.md`, D12).
    #[inline]
    pub(super) fn render(&self, value: u32, names: TextTables<'_>, out: &mut Vec<u8>) {
        let begin = out.len();
        self.put_octets(value, names, out);
        if !matches!(self, PrintfFormat::Short(compiled) if compiled.is_utf8) {
            make_utf8(out, begin);
        }
    }

    /// Appends the octets of the text of a value as they are.
    pub(super) fn put_octets(&self, value: u32, names: TextTables<'_>, out: &mut Vec<u8>) {
        match self {
            PrintfFormat::Short(compiled) => compiled.write(value, names, out),
            PrintfFormat::Long(table, offset) => {
                if let Some(text) = table.string(*offset) {
                    Compiled::new(text).write(value, names, out);
                }
            }
        }
    }

    /// The text of all values, when it is one.
    pub(super) fn constant(&self) -> Option<&[u8]> {
        match self {
            PrintfFormat::Short(compiled) if compiled.shape == KnownShape::Constant => Some(&compiled.constant),
            _ => None,
        }
    }

    /// The format itself.
    pub(super) fn text(&self) -> &[u8] {
        match self {
            PrintfFormat::Short(compiled) => &compiled.text[..compiled.len],
            PrintfFormat::Long(table, offset) => table.string(*offset).unwrap_or(&[]),
        }
    }

    /// The text of a value, in `scratch` unless it is at hand.
    #[inline]
    pub(super) fn text_of<'a>(&'a self, value: u32, names: TextTables<'a>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if let PrintfFormat::Short(compiled) = self {
            match compiled.shape {
                KnownShape::Constant => return &compiled.constant,
                KnownShape::String => {
                    let text = names.strings.and_then(|table| table.string(value));
                    if let Some(text) = text.filter(|text| text.is_ascii()) {
                        return text;
                    }
                }
                KnownShape::Other => {}
            }
            let made = block(scratch).and_then(|block| {
                let short = compiled.short(value, names, block)?;
                if compiled.is_utf8 { short.finish() } else { short.finish_ascii() }
            });
            if let Some(len) = made {
                return &scratch[..len];
            }
        }
        scratch.clear();
        self.render(value, names, scratch);
        scratch
    }

    /// The text of a value at the beginning of `room`, when that is short and printable ASCII: its length.
    #[inline]
    pub(super) fn quick(&self, value: u32, names: TextTables<'_>, room: &mut [u8; QUICK_BYTES]) -> Option<usize> {
        let PrintfFormat::Short(compiled) = self else { return None };
        let short = compiled.short(value, names, room)?;
        short.finish_plain(compiled.is_plain)
    }

    /// Is a value of it an offset in the string table?
    pub(super) fn has_string(&self) -> bool {
        let PrintfFormat::Short(compiled) = self else { return false };
        let is_string = |piece: &PrintfPiece| match piece {
            PrintfPiece::Value(PlainValue::String) => true,
            PrintfPiece::Full(spec) => spec.of_c.letter == b's',
            _ => false,
        };
        compiled.pieces.iter().any(is_string)
    }
}

/// An upper bound of what a compiled format takes.
fn cost(text: &[u8]) -> usize {
    let pieces = 2 * memchr::memchr_iter(b'%', text).count() + 1;
    let steps = pieces + text.len().min(QUICK_BYTES) / STEP;
    text.len() + pieces * size_of::<PrintfPiece>() + steps * size_of::<ShortPart<PlainValue>>()
}

impl Compiled {
    pub(super) fn new(text: &[u8]) -> Self {
        let pieces = pieces(text, PrintfPiece::Literal, conversion);
        let is_text = |piece: &PrintfPiece| match piece {
            PrintfPiece::Value(PlainValue::String) => true,
            PrintfPiece::Full(spec) => matches!(spec.of_c.letter, b's' | b'c' | b'k'),
            _ => false,
        };
        let is_utf8 = std::str::from_utf8(text).is_ok() && !pieces.iter().any(is_text);
        let is_plain = fast_text::is_plain(text);
        let (shape, constant) = match *pieces.as_slice() {
            [] => (KnownShape::Constant, &[][..]),
            [PrintfPiece::Literal(from, to)] if is_utf8 => (KnownShape::Constant, &text[from as usize..to as usize]),
            [PrintfPiece::Value(PlainValue::String)] => (KnownShape::String, &[][..]),
            _ => (KnownShape::Other, &[][..]),
        };
        let (constant, steps) = (constant.into(), steps(text, &pieces));
        Compiled {
            text: padded(text),
            len: text.len(),
            constant,
            pieces: pieces.into(),
            steps,
            is_utf8,
            is_plain,
            shape,
        }
    }

    /// Makes a short text. `None` for what is rare.
    #[inline]
    fn short<'a>(&self, value: u32, names: TextTables<'_>, block: &'a mut [u8; QUICK_BYTES]) -> Option<FastText<'a>> {
        let mut short = FastText::new(block);
        for step in self.steps.as_deref()? {
            step.before.append_to(&mut short);
            match step.value {
                None => {}
                Some(PlainValue::Signed) => short.put_signed(i64::from(value as i32)),
                Some(PlainValue::Unsigned) => short.put_unsigned(value.into()),
                Some(PlainValue::Hex(width)) => short.put_hex(value, width),
                Some(PlainValue::String) => match names.strings?.quick().get(value) {
                    Some((block, len)) => short.put_block(block, len),
                    None => {
                        let (len, text) = names.strings?.string_and_more(value)?;
                        short.put_string(text, len);
                    }
                },
            }
        }
        Some(short)
    }

    fn write(&self, value: u32, names: TextTables<'_>, out: &mut Vec<u8>) {
        let begin = out.len();
        for piece in &self.pieces {
            if out.len() - begin > MAX_TEXT {
                break;
            }
            match *piece {
                PrintfPiece::Literal(from, to) => put_short(out, &self.text, from as usize..to as usize),
                PrintfPiece::Value(PlainValue::Signed) => put_signed(out, i64::from(value as i32)),
                PrintfPiece::Value(PlainValue::Unsigned) => put_unsigned(out, u64::from(value)),
                PrintfPiece::Value(PlainValue::Hex(width)) => put_hex(out, value.into(), width),
                PrintfPiece::Value(PlainValue::String) => match names.strings.and_then(|table| table.string(value)) {
                    Some(text) => out.extend_from_slice(text),
                    None => put_bad_string(out, value),
                },
                PrintfPiece::Full(spec) => spec.write(value, names, out),
            }
        }
    }
}

/// The steps of a format; `None` when it is long, or needs more than those.
fn steps(text: &[u8], pieces: &[PrintfPiece]) -> Option<Box<[ShortPart<PlainValue>]>> {
    if text.len() > QUICK_BYTES {
        return None;
    }
    let mut steps = Steps::new();
    for piece in pieces {
        match *piece {
            PrintfPiece::Literal(from, to) => steps.push_text(text.get(from as usize..to as usize)?),
            PrintfPiece::Value(value) => steps.push(value),
            PrintfPiece::Full(_) => return None,
        }
    }
    Some(steps.finish())
}

/// The pieces of a format: `conversion` reads what stands behind a `%`, and `literal` makes a piece of octets as they
/// are.
pub(super) fn pieces<P>(
    text: &[u8],
    literal: fn(u32, u32) -> P,
    mut conversion: impl FnMut(&[u8]) -> Option<(usize, Option<P>)>,
) -> Vec<P> {
    let (mut pieces, mut from, mut at) = (Vec::new(), 0, 0);
    let put = |pieces: &mut Vec<P>, from: usize, to: usize| {
        pieces.extend((from < to).then(|| literal(from as u32, to as u32)));
    };
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr(b'%', rest)) {
        let percent = at + found;
        at = percent + 1;
        // A `%` that does not begin a conversion stays as it is.
        let Some((len, piece)) = conversion(&text[at..]) else { continue };
        put(&mut pieces, from, percent);
        at += len;
        // A `%` that is meant as one stands at the end of its conversion.
        from = if piece.is_some() { at } else { at - 1 };
        pieces.extend(piece);
    }
    put(&mut pieces, from, text.len());
    pieces
}

/// Replaces what is no UTF-8 after `begin`.
#[inline]
pub(super) fn make_utf8(out: &mut Vec<u8>, begin: usize) {
    if !out[begin..].is_ascii() && std::str::from_utf8(&out[begin..]).is_err() {
        let text = String::from_utf8_lossy(&out[begin..]).into_owned();
        out.truncate(begin);
        out.extend_from_slice(text.as_bytes());
    }
}

/// The conversion after a `%`, with its length; without one it is a `%` (`%%`, also with flags between).
fn conversion(text: &[u8]) -> Option<(usize, Option<PrintfPiece>)> {
    let (mut of_c, mut at) = printf::Spec::flags(text);
    of_c.width = printf::number(text, &mut at, MAX_WIDTH);
    if text.get(at) == Some(&b'.') {
        at += 1;
        of_c.precision = Some(printf::number(text, &mut at, MAX_WIDTH));
    }
    let rest = text.get(at..)?;
    let (len, bits) = match rest {
        [b'h', b'h', ..] => (2, 8),
        [b'h', ..] => (1, 16),
        [b'l', b'l', ..] => (2, 32),
        [b'l' | b'L' | b'q' | b'j' | b'z' | b't', ..] => (1, 32),
        _ => (0, 32),
    };
    at += len;
    of_c.letter = *text.get(at)?;
    let is_bare = at == 0;
    at += 1;
    let spec = SizedSpec { of_c, bits };
    let piece = match of_c.letter {
        b'%' => return Some((at, None)),
        b'd' | b'i' if is_bare => PrintfPiece::Value(PlainValue::Signed),
        b'u' if is_bare => PrintfPiece::Value(PlainValue::Unsigned),
        b'x' if is_bare => PrintfPiece::Value(PlainValue::Hex(1)),
        b's' if is_bare => PrintfPiece::Value(PlainValue::String),
        b'x' if spec.is_wide_hex() => PrintfPiece::Value(PlainValue::Hex(of_c.width as u8)),
        b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'c' | b's' | b'p' | b'k' => PrintfPiece::Full(spec),
        _ => return None,
    };
    Some((at, Some(piece)))
}

impl SizedSpec {
    /// `%08x` and the like.
    fn is_wide_hex(&self) -> bool {
        let SizedSpec { of_c, bits } = self;
        let is_plain = !of_c.left && !of_c.alternate && of_c.precision.is_none() && *bits == 32;
        of_c.zero && is_plain && of_c.width <= 8
    }

    fn write(&self, value: u32, names: TextTables<'_>, out: &mut Vec<u8>) {
        match self.of_c.letter {
            b's' => match names.strings.and_then(|table| table.string(value)) {
                Some(text) => self.of_c.put_text(text, out),
                None => {
                    let mut text = Vec::new();
                    put_bad_string(&mut text, value);
                    self.of_c.put_text(&text, out);
                }
            },
            b'k' => {
                let text = match names.symbols.find(value) {
                    Some((name, far)) => [name, format!("+{far:#x}").as_bytes()].concat(),
                    None => format!("{value:#010x}").into_bytes(),
                };
                self.of_c.put_text(&text, out);
            }
            b'c' => {
                let octet = [value as u8];
                self.of_c.put_padded(if octet[0] == 0 { &[] } else { &octet }, out);
            }
            _ => self.put_number(value, out),
        }
    }

    fn put_number(&self, value: u32, out: &mut Vec<u8>) {
        let (value, bits) = (u64::from(value), self.bits.into());
        let is_signed = matches!(self.of_c.letter, b'd' | b'i');
        let number = if is_signed { sign_extend(value, bits) } else { (value & mask(bits)) as i64 };
        self.of_c.put_integer(number < 0, number.unsigned_abs(), out);
    }
}

#[cold]
fn put_bad_string(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(format!("<bad-string:{value:#x}>").as_bytes());
}

/// A text with octets after it, so that its last piece is copied as a block too.
pub(super) fn padded(text: &[u8]) -> Box<[u8]> {
    [text, &[0; STEP]].concat().into()
}

/// Appends a piece of a text: as a block of fixed size where the text goes on, which needs no call.
#[inline]
pub(super) fn put_short(out: &mut Vec<u8>, text: &[u8], range: std::ops::Range<usize>) {
    let len = range.len();
    match text.get(range.start..).and_then(|rest| rest.first_chunk::<STEP>()) {
        Some(block) if len <= STEP => {
            let end = out.len() + len;
            out.extend_from_slice(block);
            out.truncate(end);
        }
        _ => match text.get(range) {
            Some(short) if len < 8 => short.iter().for_each(|&octet| out.push(octet)),
            piece => out.extend_from_slice(piece.unwrap_or(&[])),
        },
    }
}

/// Appends a number in base 16, with zeros up to a width.
pub(super) fn put_hex(out: &mut Vec<u8>, value: u64, width: u8) {
    let count = (16 - value.leading_zeros() / 4).max(width.into()).max(1);
    for digit in (0..count).rev() {
        out.push(b"0123456789abcdef"[(value >> (digit * 4) & 15) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(format: &[u8], value: u32) -> Vec<u8> {
        let table = StringTable::from_text(b"table\0str\xffing\0".to_vec());
        let symbols = Symbols::new(vec![table.clone()], vec![(0x1000, 0, 6), (0x2000, 0, 0)]);
        let mut out = b"kept \xff".to_vec();
        let format = PrintfFormat::Short(Box::new(Compiled::new(format)));
        let names = TextTables { strings: Some(&table), symbols: &symbols };
        format.render(value, names, &mut out);
        let slow = out.split_off(6);
        assert_eq!(format.text_of(value, names, &mut b"old".to_vec()), slow);
        slow
    }

    fn text(format: &str, value: u32) -> String {
        String::from_utf8(text_of(format.as_bytes(), value)).unwrap()
    }

    #[test]
    fn integers_follow_c() {
        let cases = [
            ("%d", u32::MAX, "-1"),
            ("%ld", u32::MAX, "-1"),
            ("%i|", 0x8000_0000, "-2147483648|"),
            ("%u", u32::MAX, "4294967295"),
            ("%x %X %o", 0xbeef, "beef BEEF 137357"),
            ("%08x", 0xff, "000000ff"),
            ("%-8x|", 0xff, "ff      |"),
            ("%#x %#x", 0xff, "0xff 0xff"),
            ("%#x", 0, "0"),
            ("%#X", 0xab, "0XAB"),
            ("%#o", 8, "010"),
            ("%#o", 0, "0"),
            ("%.0d|", 0, "|"),
            ("%#.0o", 0, "0"),
            ("%08.3d|", 7, "     007|"),
            ("%+d % d", 5, "+5  5"),
            ("%+05d", 5, "+0005"),
            ("%-05d|", 5, "5    |"),
            ("%05d", -5i32 as u32, "-0005"),
            ("%hhd %hhu", 0x1ff, "-1 255"),
            ("%hd %hu %hx", 0x1_8001, "-32767 32769 8001"),
            ("%p", 0, "0x0"),
            ("%10p|%-10p|", 0xabc, "     0xabc|0xabc     |"),
            ("%lld %qd %jd %zd %td %Ld", 3, "3 3 3 3 3 3"),
        ];
        for (format, value, want) in cases {
            assert_eq!(text(format, value), want, "{format}");
        }
    }

    #[test]
    fn what_is_no_conversion_stays() {
        for format in ["%f", "%n", "%*d", "%2$d", "%U", "%", "a%", "%-", "%5.", "%l", "%.*s", "%hh", "%Q %"] {
            assert_eq!(text(format, 3), format);
        }
        assert_eq!(text("%%", 1), "%");
        assert_eq!(text("100%% %d%-5%x", 7), "100% 7%x");
        assert_eq!(text("%U%d", 7), "%U7");
        assert_eq!(text("0x%08x(%d)", 3), "0x00000003(3)");
        assert_eq!(text("", 3), "");
    }

    #[test]
    fn strings_and_symbols() {
        assert_eq!(text("%s", 0), "table");
        assert_eq!(text("%3.2s|%-4.1s|", 0), " ta|t   |");
        assert_eq!(text("%s", 6), "str\u{fffd}ing");
        assert_eq!(text("%s", 13), "");
        assert_eq!(text("%s", 14), "<bad-string:0xe>");
        assert_eq!(text("%5.3s|", 0xffff), "  <ba|");
        assert_eq!(text("%k", 0x2010), "table+0x10");
        assert_eq!(text("%k", 0x2000), "table+0x0");
        assert_eq!(text("%k", 0xfff), "0x00000fff");
        assert_eq!(text("%12k|%-12k|%.4k", 0x2001), "   table+0x1|table+0x1   |tabl");
    }

    #[test]
    fn characters() {
        assert_eq!(text("[%c]", 0x141), "[A]");
        assert_eq!(text("[%c]", 0), "[]");
        assert_eq!(text("[%3c]", b'x'.into()), "[  x]");
        assert_eq!(text("%c", 0xff), "\u{fffd}");
        // Octets of one character that come from two conversions.
        assert_eq!(text_of(b"\xc3%c", 0xa9), "é".as_bytes());
    }

    #[test]
    fn widths_are_bounded() {
        assert_eq!(text("%99999999999d", 1).len(), 1024);
        assert_eq!(text("%.99999999999d", 1).len(), 1024);
        assert_eq!(text("%-2000s|", 0).len(), 1025);
    }

    #[test]
    fn texts_are_bounded() {
        let format = "%1024d".repeat(1000);
        let len = text(&format, 1).len();
        assert!((MAX_TEXT..MAX_TEXT + 2048).contains(&len), "{len}");
    }

    #[test]
    fn long_formats_are_read_where_they_stand() {
        let mut octets = b"T\0".to_vec();
        octets.extend(std::iter::repeat_n(b'x', 5000));
        octets.extend_from_slice(b"%d\0short %u\0");
        let table = StringTable::from_text(octets);
        let mut budget = Budget::new();
        let names = TextTables { strings: None, symbols: &Symbols::default() };
        let long = PrintfFormat::read_at(&table, 2, &mut budget).unwrap();
        assert!(matches!(long, PrintfFormat::Long(..)));
        let mut out = Vec::new();
        long.render(7, names, &mut out);
        assert_eq!((out.len(), out.last()), (5001, Some(&b'7')));
        let short = PrintfFormat::read_at(&table, 5005, &mut budget).unwrap();
        assert!(matches!(short, PrintfFormat::Short(_)));
        budget = Budget(3);
        assert!(matches!(PrintfFormat::read_at(&table, 5005, &mut budget), Some(PrintfFormat::Long(..))));
        assert!(PrintfFormat::read_at(&table, 6000, &mut budget).is_none());
    }
}
