//! Values of arguments and events as text, in the style of uftrace's own commands.

use std::fmt::Write as _;
use std::io::Write as _;

use tracemill_codec::bits::read_uint;
use tracemill_model::schema::ByteOrder;

use super::arguments::{ArgumentForm, ArgumentSpec, NULL_TEXT};
use super::debug::Enumeration;
use super::events::extended;
use tracemill_format::calls::{Color, ColorStyle, ValueStyle};

/// Decimal numbers beyond this are shown in base 16 where nothing says how to show them.
const LARGE: i64 = 100_000;

/// Appends the values of a payload, with a comma between two.
pub(super) fn write_values(
    specs: &[ArgumentSpec],
    payload: &[u8],
    order: ByteOrder,
    is_64_bit: bool,
    style: ValueStyle,
    name_of: &dyn Fn(u64) -> Option<String>,
    out: &mut Vec<u8>,
) {
    let mut at = 0;
    for (number, spec) in specs.iter().enumerate() {
        let Some((value, next)) = spec.read_value(payload, at, order) else { return };
        at = next;
        if number > 0 {
            out.extend_from_slice(b", ");
        }
        put_value(spec, value, order, is_64_bit, style, name_of, out);
    }
}

/// The number that the first 8 bytes of a value hold.
pub(super) fn unsigned(value: &[u8], order: ByteOrder) -> u64 {
    read_uint(&value[..value.len().min(8)], order)
}

fn put_value(
    spec: &ArgumentSpec,
    value: &[u8],
    order: ByteOrder,
    is_64_bit: bool,
    style: ValueStyle,
    name_of: &dyn Fn(u64) -> Option<String>,
    out: &mut Vec<u8>,
) {
    let colors = match style {
        ValueStyle::Text(colors) => colors,
        ValueStyle::Json => ColorStyle::None,
    };
    let number = unsigned(value, order);
    let bits = value.len().min(8) as u32 * 8;
    let signed = if bits == 0 { 0 } else { ((number << (64 - bits)) as i64) >> (64 - bits) };
    // Writing to a string cannot fail.
    let _ = match &spec.form {
        ArgumentForm::Auto => {
            // The word of 64 bits decides; shorter values are not extended.
            match number as i64 {
                wide if wide.abs_diff(0) <= LARGE as u64 => write!(out, "{signed}"),
                _ if (0xffff_0001..=0xffff_ffff).contains(&number) => write!(out, "{}", number as u32 as i32),
                _ => write!(out, "{number:#x}"),
            }
        }
        ArgumentForm::Signed => write!(out, "{signed}"),
        ArgumentForm::Unsigned if number > LARGE as u64 => write!(out, "{number:#x}"),
        ArgumentForm::Unsigned => write!(out, "{number}"),
        ArgumentForm::Hexadecimal if number == 0 => write!(out, "0"),
        ArgumentForm::Hexadecimal => write!(out, "{number:#x}"),
        ArgumentForm::Octal if number == 0 => write!(out, "0"),
        ArgumentForm::Octal => write!(out, "0{number:o}"),
        ArgumentForm::Character => {
            out.extend_from_slice(colors.begin(Color::Magenta).as_bytes());
            out.push(b'\'');
            put_letters(value, style, out);
            write!(out, "'{}", colors.end())
        }
        ArgumentForm::Float => {
            let real = match value.len() {
                4 => f64::from(f32::from_bits(number as u32)),
                8 => f64::from_bits(number),
                _ => extended(value, order),
            };
            write!(out, "{}", sharp_f(real))
        }
        ArgumentForm::Text | ArgumentForm::StdString => {
            put_text(value, style, out);
            write!(out, "{}", if spec.form == ArgumentForm::StdString { "s" } else { "" })
        }
        ArgumentForm::Pointer => match name_of(if is_64_bit { number } else { number & 0xffff_ffff }) {
            Some(name) => {
                let and = if colors.is_html() { "&amp;" } else { "&" };
                write!(out, "{}{and}{}{}", colors.begin(Color::Cyan), colors.escaped(&name), colors.end())
            }
            None if number == 0 => write!(out, "0"),
            None => write!(out, "{number:#x}"),
        },
        ArgumentForm::Enumeration(_, values) => {
            let mut label = enumerator(values.as_ref(), number as u32 as i32);
            if colors.is_colored() {
                let or = format!(
                    "{}{}|{}{}",
                    colors.end(),
                    colors.begin(Color::Bold),
                    colors.end(),
                    colors.begin(Color::Blue)
                );
                label = label.replace('|', &or);
            }
            write!(out, "{}{label}{}", colors.begin(Color::Blue), colors.end())
        }
        ArgumentForm::Structure(name) => {
            if let Some(name) = name.as_deref().filter(|name| *name != "<lambda") {
                out.extend_from_slice(colors.begin(Color::Cyan).as_bytes());
                out.extend_from_slice(colors.escaped(name).as_bytes());
                out.extend_from_slice(colors.end().as_bytes());
            }
            write!(out, "{}", if spec.size > 0 { "{...}" } else { "{}" })
        }
    };
}

/// `%#f` of C: six digits and always a point.
fn sharp_f(value: f64) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf".into() } else { "inf".into() };
    }
    format!("{value:.6}")
}

/// The label of a value, or several that make it up, the last ones first.
pub(super) fn enumerator(values: Option<&Enumeration>, value: i32) -> String {
    let Some(values) = values else { return value.to_string() };
    let of = |at: usize| values[at].ranges.first().map_or(0, |range| range.0 as i32);
    if let Some(at) = (0..values.len()).rev().find(|&at| of(at) == value) {
        return values[at].label.to_string();
    }
    let (mut left, mut labels) = (value, Vec::new());
    for at in (0..values.len()).rev() {
        if of(at) <= left {
            left = left.wrapping_sub(of(at));
            labels.push(values[at].label.to_string());
        }
        if left == 0 {
            break;
        }
    }
    match (labels.is_empty(), left) {
        (false, 0) => labels.join("|"),
        (false, left) => format!("{}+{left:#x}", labels.join("|")),
        (true, _) if i64::from(value).abs() > LARGE => format!("{value:#x}"),
        (true, _) => value.to_string(),
    }
}

fn put_text(value: &[u8], style: ValueStyle, out: &mut Vec<u8>) {
    if value == NULL_TEXT {
        out.extend_from_slice(b"NULL");
        return;
    }
    let value = value.split(|&byte| byte == 0).next().unwrap_or(&[]);
    let colors = if let ValueStyle::Text(colors) = style { colors } else { ColorStyle::None };
    let quote = if style == ValueStyle::Json { "\\\"" } else { "\"" };
    out.extend_from_slice(colors.begin(Color::Magenta).as_bytes());
    out.extend_from_slice(quote.as_bytes());
    // Text that is not ASCII is taken for UTF-8 and shown as it is, whatever it holds.
    if style != ValueStyle::Json && value.split_last().is_some_and(|(_, rest)| !rest.is_ascii()) {
        out.extend_from_slice(&colors.escaped_bytes(value));
    } else {
        put_letters(value, style, out);
    }
    out.extend_from_slice(quote.as_bytes());
    out.extend_from_slice(colors.end().as_bytes());
}

fn put_letters(value: &[u8], style: ValueStyle, out: &mut Vec<u8>) {
    for &letter in value {
        let _ = match (style, letter) {
            (ValueStyle::Text(_), 0) => write!(out, "\\0"),
            (ValueStyle::Text(_), 8) => write!(out, "\\b"),
            (ValueStyle::Text(_), b'\n') => write!(out, "\\n"),
            (ValueStyle::Text(colors), letter) => {
                out.extend_from_slice(&colors.escaped_bytes(&[letter]));
                Ok(())
            }
            (ValueStyle::Json, b'\n') => write!(out, "\\\\n"),
            (ValueStyle::Json, b'\t') => write!(out, "\\\\t"),
            (ValueStyle::Json, b'\\') => write!(out, "\\\\"),
            (ValueStyle::Json, b'"') => write!(out, "\\\""),
            (ValueStyle::Json, b' '..=b'~') => write!(out, "{}", char::from(letter)),
            (ValueStyle::Json, letter) => write!(out, "\\\\x{letter:02x}"),
        };
    }
}

/// Appends the data of an event of a task; differences with a sign, and what they mean, when they are explained.
pub(super) fn put_event(id: u32, data: &[u8], order: ByteOrder, is_explained: bool, out: &mut String) {
    let word = |at: usize| data.get(at * 8..at * 8 + 8).map_or(0, |word| unsigned(word, order));
    let (first, second, third) = (word(0), word(1), word(2));
    let is_difference = matches!(id, 100_003 | 100_004 | 100_006 | 100_008 | 100_010);
    let sign = if is_difference && is_explained { "+" } else { "" };
    let ratio = |part: f64, whole: u64| part / whole as f64;
    let hits = || 100.0 * ratio(first.wrapping_sub(second) as f64, first);
    let _ = match id {
        100_001 | 100_003 => write!(out, "vmsize={sign}{first}KB vmrss={sign}{second}KB shared={sign}{third}KB"),
        100_002 | 100_004 => write!(out, "major={sign}{first} minor={sign}{second}"),
        100_005 | 100_006 => write!(out, "cycles={sign}{first} instructions={sign}{second}"),
        100_007 | 100_008 => write!(out, "refers={sign}{first} misses={sign}{second}"),
        100_009 | 100_010 => write!(out, "branch={sign}{first} misses={sign}{second}"),
        100_011 => write!(out, "cpu={}", unsigned(&data[..data.len().min(4)], order) as u32 as i32),
        100_012 => {
            // Newer than the commands whose style this is.
            let (address, value) = data.split_at(data.len().saturating_sub(1).min(8));
            write!(out, "addr={:#x} value={}", unsigned(address, order), unsigned(value, order))
        }
        100_013 => write!(out, "ip={:#x}", unsigned(data, order)),
        _ => Ok(()),
    };
    let _ = match id {
        100_006 if is_explained => write!(out, " IPC={:.2}", ratio(second as f64, first)),
        100_008 if is_explained => write!(out, " hit={:.2}%", hits()),
        100_010 if is_explained => write!(out, " predict={:.2}%", hits()),
        _ => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_bytes_that_were_recorded() {
        let shown = |value: &[u8], style: ValueStyle| {
            let mut out = Vec::new();
            put_text(value, style, &mut out);
            out
        };
        let text = ValueStyle::Text(ColorStyle::None);
        assert_eq!(shown(b"\xe4\xf6\n<", text), b"\"\xe4\xf6\n<\"");
        // A last byte alone does not make it UTF-8.
        assert_eq!(shown(b"a\n\xe4", text), b"\"a\\n\xe4\"");
        assert_eq!(shown(b"\xe4<\n", ValueStyle::Text(ColorStyle::PlainHtml)), b"\"\xe4&lt;\n\"");
        assert_eq!(shown(b"a\xe4\"", ValueStyle::Json), b"\\\"a\\\\xe4\\\"\\\"");
        assert_eq!(shown(b"a\0b", text), b"\"a\"");
    }
}
