//! The formats of VPP's events, compiled once for each type. They look like those of C and are not (`SPEC.md`,
//! section 3, D35).

use std::sync::Arc;

use tracemill_codec::bits::read_uint;
use tracemill_codec::text::printf::{number, put_signed, put_unsigned};
use tracemill_model::schema::{ByteOrder, QUICK_BYTES};

use super::header::{Arg, EventType};
use crate::fast_text::{self, FastText, Strings, block, is_plain};
use crate::printf::{make_utf8, padded, pieces, put_hex, put_short};
use crate::strings::{MAX_TEXT, nul_at, string_at};

/// Largest width and precision.
const MAX_WIDTH: u16 = 1024;

/// A compiled format.
#[derive(Clone, Debug)]
pub(super) struct ElogFormat {
    text: Box<[u8]>,
    pieces: Box<[FormatPiece]>,
    args: Box<[Arg]>,
    labels: Arc<[Box<[u8]>]>,
    /// The first of them, those that are plain.
    quick_labels: fast_text::ShortNames,
    /// How a text is made where all is at known places and in the usual forms.
    steps: Option<Box<[fast_text::ShortPart<TextValue>]>>,
    /// Are texts that are made so printable ASCII when the strings in them are?
    is_plain: bool,
}

/// Labels of a type that are at hand.
const KEPT_LABELS: usize = 64;

/// A value in a text: the argument at a place in the conversion that it needs.
#[derive(Clone, Copy, Debug)]
enum TextValue {
    Signed(u16),
    Unsigned(u16),
    Hex(u16),
    /// A string of the table, by its offset of four octets.
    Text(u16),
    /// An enumeration string, by an index of so many octets.
    Label(u16, u8),
    /// A string in the event.
    String(u16),
}

/// The steps of a format; `None` when it is long, or needs more than those.
fn steps(text: &[u8], pieces: &[FormatPiece], args: &[Arg]) -> Option<Box<[fast_text::ShortPart<TextValue>]>> {
    if text.len() > QUICK_BYTES {
        return None;
    }
    // After a string nothing is at a known place.
    let (mut at, mut args, mut steps) = (Some(0u16), args.iter(), fast_text::Steps::new());
    for piece in pieces {
        let spec = match *piece {
            FormatPiece::Literal(from, to) => {
                steps.push_text(text.get(from as usize..to as usize)?);
                continue;
            }
            FormatPiece::Conversion(spec) => spec,
        };
        let (&arg, place) = (args.next()?, at?);
        at = arg.len().and_then(|len| place.checked_add(len.into()));
        steps.push(match (arg, spec.letter) {
            _ if !spec.is_bare => return None,
            (Arg::Integer(4), b'd') => TextValue::Signed(place),
            (Arg::Integer(4), b'u') => TextValue::Unsigned(place),
            (Arg::Integer(4), b'x') => TextValue::Hex(place),
            (Arg::Text(4), b's') => TextValue::Text(place),
            (Arg::Enum(len), b's') => TextValue::Label(place, len),
            (Arg::String, b's') => TextValue::String(place),
            _ => return None,
        });
    }
    Some(steps.finish())
}

#[derive(Clone, Copy, Debug)]
enum FormatPiece {
    /// Octets of the format as they are.
    Literal(u32, u32),
    /// The next argument.
    Conversion(FormatSpec),
}

#[derive(Clone, Copy, Debug)]
struct FormatSpec {
    /// `+` right, `-` left, `=` in the middle.
    justify: u8,
    zeros: bool,
    width: u16,
    precision: Option<u16>,
    is_long: bool,
    letter: u8,
    /// A letter, and nothing else.
    is_bare: bool,
}

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
enum ArgumentValue<'a> {
    Integer(u64),
    Float(f64),
    Text(&'a [u8]),
    /// An index or an offset without a text, and what it should be one of.
    Bad(u64),
}

impl ElogFormat {
    /// Compiles the format of a type.
    pub(super) fn new(of: &EventType) -> Self {
        let text = &of.format[..of.format.len().min(MAX_TEXT)];
        let args = of.args.clone().unwrap_or_default();
        let mut used = 0;
        let pieces = pieces(text, FormatPiece::Literal, |behind| {
            if behind.starts_with(b"%") {
                return Some((1, None));
            }
            let (len, spec) = conversion(behind).filter(|_| used < args.len())?;
            used += 1;
            Some((len, Some(FormatPiece::Conversion(spec))))
        });
        let (steps, is_plain) = (steps(text, &pieces, &args), is_plain(text));
        let quick_labels = fast_text::ShortNames::new(of.labels.iter().take(KEPT_LABELS).map(|label| &label[..]));
        let (pieces, args, labels) = (pieces.into(), args.into(), of.labels.clone());
        ElogFormat { text: padded(text), pieces, args, labels, quick_labels, steps, is_plain }
    }

    /// Appends the text of an event, in UTF-8. `args` are its arguments as they are decoded, `strings` the string
    /// table.
    pub(super) fn render<'a>(&'a self, mut args: &'a [u8], strings: &'a [u8], out: &mut Vec<u8>) {
        let begin = out.len();
        let mut kinds = self.args.iter();
        for piece in &self.pieces {
            if out.len() - begin > MAX_TEXT {
                break;
            }
            match *piece {
                FormatPiece::Literal(from, to) => put_short(out, &self.text, from as usize..to as usize),
                FormatPiece::Conversion(spec) => {
                    let value = kinds.next().and_then(|&kind| self.value(kind, &mut args, strings));
                    if let Some(value) = value {
                        spec.write(value, out);
                    }
                }
            }
        }
        make_utf8(out, begin);
    }

    /// Makes a short text. `None` for what is rare.
    #[inline]
    fn short<'b, 's>(
        &self,
        args: &[u8],
        (quick, strings): (&Strings, impl Fn() -> &'s [u8]),
        block: &'b mut [u8; QUICK_BYTES],
    ) -> Option<FastText<'b>> {
        let mut short = FastText::new(block);
        for step in self.steps.as_deref()? {
            step.before.append_to(&mut short);
            let word = |at: u16| -> Option<u32> {
                let octets = args.get(usize::from(at)..)?.first_chunk::<4>()?;
                Some(u32::from_be_bytes(*octets))
            };
            match step.value {
                None => {}
                Some(TextValue::Signed(at)) => short.put_signed(i64::from(word(at)? as i32)),
                Some(TextValue::Unsigned(at)) => short.put_unsigned(word(at)?.into()),
                Some(TextValue::Hex(at)) => short.put_hex(word(at)?, 1),
                Some(TextValue::Text(at)) => {
                    let offset = word(at)?;
                    match quick.get(offset) {
                        Some((block, len)) => short.put_block(block, len),
                        None => {
                            let rest = strings().get(offset as usize..).filter(|rest| !rest.is_empty())?;
                            short.put_string(rest, near_nul(rest)?);
                        }
                    }
                }
                Some(TextValue::Label(at, len)) => {
                    let octets = args.get(usize::from(at)..usize::from(at) + usize::from(len))?;
                    let index = usize::try_from(read_uint(octets, ByteOrder::Big)).ok()?;
                    match self.quick_labels.get(index) {
                        Some((block, len)) => short.put_block(block, len),
                        None => {
                            let label = self.labels.get(index)?;
                            short.put_string(label, label.len());
                        }
                    }
                }
                Some(TextValue::String(at)) => {
                    let rest = args.get(usize::from(at)..)?;
                    short.put_string(rest, near_nul(rest)?);
                }
            }
        }
        Some(short)
    }

    /// Makes a short text at the beginning of `scratch`: its length. The string table is given twice: what is ready of
    /// it, and all of it.
    #[inline]
    pub(super) fn quick_text<'s>(
        &self,
        args: &[u8],
        strings: (&Strings, impl Fn() -> &'s [u8]),
        scratch: &mut Vec<u8>,
    ) -> Option<usize> {
        self.short(args, strings, block(scratch)?)?.finish_ascii()
    }

    /// As [`quick_text`](Self::quick_text), at the beginning of `room`, when the text is printable.
    #[inline]
    pub(super) fn quick<'s>(
        &self,
        args: &[u8],
        strings: (&Strings, impl Fn() -> &'s [u8]),
        room: &mut [u8; QUICK_BYTES],
    ) -> Option<usize> {
        self.short(args, strings, room)?.finish_plain(self.is_plain)
    }

    /// Takes the next argument.
    #[inline(always)]
    fn value<'a>(&'a self, kind: Arg, args: &mut &'a [u8], strings: &'a [u8]) -> Option<ArgumentValue<'a>> {
        let Some(len) = kind.len() else {
            let end = nul_at(args)?;
            let text = &args[..end];
            *args = &args[end + 1..];
            return Some(ArgumentValue::Text(text));
        };
        let (octets, rest) = args.split_at_checked(usize::from(len))?;
        *args = rest;
        let number = read_uint(octets, ByteOrder::Big);
        Some(match kind {
            Arg::Float(4) => ArgumentValue::Float(f32::from_bits(number as u32).into()),
            Arg::Float(_) => ArgumentValue::Float(f64::from_bits(number)),
            Arg::Enum(_) => {
                let label = usize::try_from(number).ok().and_then(|at| self.labels.get(at));
                label.map_or(ArgumentValue::Bad(number), |label| {
                    ArgumentValue::Text(&label[..label.len().min(MAX_TEXT)])
                })
            }
            Arg::Text(_) => string_at(strings, number).map_or(ArgumentValue::Bad(number), ArgumentValue::Text),
            _ => ArgumentValue::Integer(number),
        })
    }
}

/// Where a string ends that fits into a short text.
#[inline]
fn near_nul(octets: &[u8]) -> Option<usize> {
    nul_at(&octets[..octets.len().min(QUICK_BYTES)])
}

/// The conversion after a `%`, with its length.
fn conversion(text: &[u8]) -> Option<(usize, FormatSpec)> {
    let mut spec = FormatSpec {
        justify: b'+',
        zeros: false,
        width: 0,
        precision: None,
        is_long: false,
        letter: 0,
        is_bare: false,
    };
    let mut at = 0;
    if let Some(&justify @ (b'-' | b'+' | b'=')) = text.first() {
        spec.justify = justify;
        at = 1;
    }
    spec.zeros = text.get(at) == Some(&b'0');
    spec.width = number(text, &mut at, MAX_WIDTH);
    if text.get(at) == Some(&b'.') {
        at += 1;
        spec.precision = Some(number(text, &mut at, MAX_WIDTH));
    }
    if let Some(b'l' | b'L' | b'w') = text.get(at) {
        spec.is_long = true;
        at += 1;
        if text.get(at - 1..=at) == Some(b"ll") {
            at += 1;
        }
    }
    spec.letter = *text.get(at)?;
    spec.is_bare = at == 0;
    let is_known = b"duxXofegcspSv".contains(&spec.letter);
    is_known.then_some((at + 1, spec))
}

impl FormatSpec {
    #[inline]
    fn write(&self, value: ArgumentValue<'_>, out: &mut Vec<u8>) {
        let begin = out.len();
        match value {
            ArgumentValue::Integer(number) => self.put_integer(number, out),
            ArgumentValue::Float(number) => self.put_float(number, out),
            ArgumentValue::Text(text) => {
                let len = self.precision.map_or(text.len(), |most| text.len().min(usize::from(most)));
                put_short(out, text, 0..len);
                if self.letter == b'S' {
                    out[begin..].iter_mut().filter(|octet| **octet == b'_').for_each(|octet| *octet = b' ');
                }
            }
            ArgumentValue::Bad(number) => out.extend_from_slice(format!("<bad-string:{number:#x}>").as_bytes()),
        }
        let len = out.len() - begin;
        if len < usize::from(self.width) {
            self.pad(usize::from(self.width) - len, begin, out);
        }
    }

    /// Widths only fill; they never truncate (`SPEC.md`, D35).
    #[cold]
    fn pad(&self, missing: usize, begin: usize, out: &mut Vec<u8>) {
        let left = match self.justify {
            b'-' => 0,
            b'=' => missing - missing / 2,
            _ => missing,
        };
        let with = if self.zeros { b'0' } else { b' ' };
        out.splice(begin..begin, std::iter::repeat_n(with, left));
        out.resize(out.len() + missing - left, with);
    }

    fn put_integer(&self, number: u64, out: &mut Vec<u8>) {
        let number = if self.is_long || matches!(self.letter, b'p') { number } else { u64::from(number as u32) };
        match self.letter {
            b'd' if self.is_long => put_signed(out, number as i64),
            b'd' => put_signed(out, i64::from(number as i32)),
            b'x' => put_hex(out, number, 1),
            b'X' => out.extend_from_slice(format!("{number:X}").as_bytes()),
            b'o' => out.extend_from_slice(format!("{number:o}").as_bytes()),
            b'p' => out.extend_from_slice(format!("{number:#x}").as_bytes()),
            b'c' if number as u8 == 0 => {}
            b'c' => out.push(number as u8),
            b'e' | b'f' | b'g' => self.put_float(number as f64, out),
            _ => put_unsigned(out, number),
        }
    }

    /// A float without the 0 before its point.
    fn put_float(&self, number: f64, out: &mut Vec<u8>) {
        use std::io::Write as _;
        if number.is_nan() || number.is_infinite() {
            let sign = if number.is_sign_negative() && !number.is_nan() { '-' } else { '+' };
            let text = if number.is_nan() { "NaN" } else { "infinity" };
            return out.extend_from_slice(format!("{sign}{text}").as_bytes());
        }
        let digits = usize::from(self.precision.unwrap_or(6));
        let begin = out.len();
        let size = number.abs();
        let with_exponent = match self.letter {
            b'e' => true,
            b'g' => size != 0.0 && !(1e-10..1e10).contains(&size),
            _ => false,
        };
        if number < 0.0 {
            out.push(b'-');
        }
        // Writing to memory cannot fail.
        let _ = if with_exponent { write!(out, "{size:.digits$e}") } else { write!(out, "{size:.digits$}") };
        if with_exponent {
            return;
        }
        let from = begin + usize::from(number < 0.0);
        if out[from..].iter().all(|octet| matches!(octet, b'0' | b'.')) {
            // Too small for its digits: a zero, which has no sign.
            out.drain(begin..from);
        } else if out[from..].starts_with(b"0.") {
            out.remove(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of a format with arguments, given as they are decoded.
    fn text(format: &str, args: &[Arg], values: &[u8]) -> String {
        let of = EventType {
            format: format.as_bytes().to_vec(),
            format_args: Vec::new(),
            args: Some(args.to_vec()),
            args_len: None,
            labels: [&b"old"[..], b"new"].map(Box::from).into(),
            label_count: 2,
            is_plain: false,
            checks: Vec::new(),
            at: 0,
            number: 1,
        };
        let mut out = Vec::new();
        let format = ElogFormat::new(&of);
        format.render(values, b"one\0two_three\0", &mut out);
        let strings = b"one\0two_three\0".as_slice();
        // All strings are ready, or none is.
        for ready in [Strings::new(strings), Strings::new(&[])] {
            let mut scratch = Vec::new();
            if let Some(len) = format.quick_text(values, (&ready, || strings), &mut scratch) {
                assert_eq!(scratch[..len], out);
            }
            let mut room = [0; QUICK_BYTES];
            if let Some(len) = format.quick(values, (&ready, || strings), &mut room) {
                assert_eq!(room[..len], out);
                assert!(is_plain(&out));
            }
        }
        String::from_utf8(out).unwrap()
    }

    fn integer(format: &str, value: u64) -> String {
        text(format, &[Arg::Integer(8)], &value.to_be_bytes())
    }

    fn float(format: &str, value: f64) -> String {
        text(format, &[Arg::Float(8)], &value.to_be_bytes())
    }

    #[test]
    fn integers_have_32_bits_unless_they_are_long() {
        assert_eq!(integer("%d", u64::MAX), "-1");
        assert_eq!(integer("%u", u64::MAX), "4294967295");
        assert_eq!(integer("%x", u64::MAX), "ffffffff");
        assert_eq!(integer("%Ld %d", u64::MAX - 1), "-2 %d");
        assert_eq!(integer("%lx", 1 << 40), "10000000000");
        assert_eq!(integer("%lld", 1 << 40), "1099511627776");
        assert_eq!(integer("%wu", u64::MAX), "18446744073709551615");
        assert_eq!(integer("%08x|", 0xbeef), "0000beef|");
        assert_eq!(integer("%5d|", 0x8000_0000), "-2147483648|");
        assert_eq!(integer("%5d|", 7), "    7|");
        assert_eq!(integer("%-5d|", 7), "7    |");
        assert_eq!(integer("%=6d|", 123), "  123 |");
        assert_eq!(integer("%X %o", 0xab), "AB %o");
        assert_eq!(integer("%p", 0xab), "0xab");
        assert_eq!(integer("[%c]", 0x41), "[A]");
        assert_eq!(integer("[%c]", 0), "[]");
    }

    #[test]
    fn what_is_no_conversion_stays() {
        assert_eq!(integer("100%% of %d", 3), "100% of 3");
        assert_eq!(integer("%U %d", 3), "%U 3");
        assert_eq!(integer("%d %d %", 3), "3 %d %");
        assert_eq!(integer("%", 3), "%");
        assert_eq!(integer("%-5", 3), "%-5");
        assert_eq!(integer("%99999d", 3).len(), 1024);
    }

    #[test]
    fn strings_come_from_three_places() {
        let args = [Arg::Enum(1), Arg::Text(2), Arg::String];
        assert_eq!(text("%s %s %s", &args, b"\x01\0\x04here\0"), "new two_three here");
        assert_eq!(text("%5s|%S|%.2s", &args, b"\0\0\x04here\0"), "  old|two three|he");
        assert_eq!(text("%s %s %s", &args, b"\x02\0\x63\0"), "<bad-string:0x2> <bad-string:0x63> ");
        // An argument that is not there.
        assert_eq!(text("%s %s.", &args, b"\x01"), "new .");
        assert_eq!(text("%s", &[Arg::String], b"a\xffb\0"), "a\u{fffd}b");
    }

    #[test]
    fn usual_forms_are_quick() {
        let args = [Arg::Text(4), Arg::Enum(4), Arg::Enum(1), Arg::Integer(4), Arg::Integer(4), Arg::String];
        let values = b"\0\0\0\x04\0\0\0\x01\0\xff\xff\xff\xff\0\0\0\xffend\0";
        assert_eq!(text("%s: %s %s(%d), 0x%x %s", &args, values), "two_three: new old(-1), 0xff end");
        assert_eq!(text("a long literal, longer than two steps: %s", &[Arg::String], b"a\x01\0").len(), 41);
        // Out of range.
        assert_eq!(text("%s", &[Arg::Text(4)], b"\0\0\0\x0e"), "<bad-string:0xe>");
        assert_eq!(text("%s", &[Arg::Enum(4)], b"\0\0\0\x02"), "<bad-string:0x2>");
    }

    #[test]
    fn floats_have_no_zero_before_the_point() {
        assert_eq!(float("%.3f", -3853.5781), "-3853.578");
        assert_eq!(float("%f", 0.5), ".500000");
        assert_eq!(float("%.2f", -0.25), "-.25");
        assert_eq!(float("%.3f", -0.0001), "0.000");
        assert_eq!(float("%f", 0.0), "0.000000");
        assert_eq!(float("%.0f", 3.7), "4");
        assert_eq!(float("%18.9f", 0.000_000_521), "        .000000521");
        assert_eq!(float("%.2e", 12345.0), "1.23e4");
        assert_eq!(float("%g", 1e12), "1.000000e12");
        assert_eq!(float("%f %", f64::NAN), "+NaN %");
        assert_eq!(float("%f", f64::NEG_INFINITY), "-infinity");
        assert_eq!(text("%.1f", &[Arg::Float(4)], &1.5f32.to_be_bytes()), "1.5");
    }
}
