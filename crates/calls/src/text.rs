//! Forms of times, and what lines of several commands share.

use tracemill_codec::text::put_back;
use tracemill_format::calls::{CallSource, Color, ColorStyle};

/// Names of units of time, and how many of one make the next.
const UNITS: [(&str, u64); 5] = [("us", 1000), ("ms", 1000), (" s", 1000), (" m", 60), (" h", 24)];

/// Appends a time in ns in ten columns; blanks for 0.
///
/// ```
/// let mut out = Vec::new();
/// tracemill_calls::text::put_time(&mut out, 1_234);
/// assert_eq!(out, b"  1.234 us");
/// ```
pub fn put_time(out: &mut Vec<u8>, ns: u64) {
    out.extend_from_slice(&time_text(ns));
}

/// Appends a time in ns in ten columns, its unit colored from ms on.
pub(crate) fn put_painted_time(out: &mut Vec<u8>, ns: u64, colors: ColorStyle) {
    let text = time_text(ns);
    let (number, unit) = text.split_at(8);
    let color = match unit {
        b"ms" => Color::Green,
        b" s" => Color::Yellow,
        b" m" | b" h" => Color::Red,
        _ => return out.extend_from_slice(&text),
    };
    out.extend_from_slice(number);
    colors.write(out, color, std::str::from_utf8(unit).unwrap_or_default());
}

/// The ten columns of a time in ns.
pub(crate) fn time_text(ns: u64) -> [u8; 10] {
    if ns == 0 {
        return *b"          ";
    }
    // A difference below 0 shows how large it is, as in uftrace.
    let ns = if ns > i64::MAX as u64 { ns.wrapping_neg() } else { ns };
    // Most calls are short.
    let (whole, small, unit) = if ns < 1_000_000 { (ns / 1000, ns % 1000, "us") } else { long_time(ns) };
    let digit = |number: u64| b'0' + (number % 10) as u8;
    let mut text = *b"   .    us";
    text[0] = if whole >= 100 { digit(whole / 100) } else { b' ' };
    text[1] = if whole >= 10 { digit(whole / 10) } else { b' ' };
    text[2] = digit(whole);
    (text[4], text[5], text[6]) = (digit(small / 100), digit(small / 10), digit(small));
    text[8..].copy_from_slice(unit.as_bytes());
    text
}

/// A time in the unit that suits it: the number, its fraction, the name of the unit.
#[cold]
fn long_time(ns: u64) -> (u64, u64, &'static str) {
    let (mut whole, mut small, mut unit) = (ns, 0, "us");
    for (at, (name, limit)) in UNITS.iter().enumerate() {
        (small, whole, unit) = (whole % limit, whole / limit, name);
        let next = UNITS.get(at + 1).map_or(u64::MAX, |(_, limit)| *limit);
        if whole < next {
            break;
        }
    }
    if whole > 999 { (999, 999, unit) } else { (whole, small, unit) }
}

/// Appends a number with what stands before it up to a width.
pub fn put_padded(out: &mut Vec<u8>, value: u64, width: usize, fill: u8) {
    let mut text = [fill; 64];
    let from = put_back(&mut text, value).min(text.len().saturating_sub(width));
    out.extend_from_slice(&text[from..]);
}

/// Writes times in microseconds with their fraction: `1103841040.657`. Of times that follow each other most digits are
/// the same.
#[derive(Debug, Default)]
pub(crate) struct Micros {
    millis: u64,
    digits: Vec<u8>,
}

impl Micros {
    /// Appends a time in ns.
    #[inline]
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, ns: u64) {
        let millis = ns / 1_000_000;
        if millis == 0 {
            put_padded(out, ns / 1000, 0, b'0');
            out.push(b'.');
            return put_padded(out, ns % 1000, 3, b'0');
        }
        if millis != self.millis {
            self.millis = millis;
            self.digits.clear();
            put_padded(&mut self.digits, millis, 0, b'0');
        }
        let digit = |number: u32| b'0' + (number % 10) as u8;
        let rest = (ns % 1_000_000) as u32;
        let (micros, nanos) = (rest / 1000, rest % 1000);
        let text = [
            digit(micros / 100),
            digit(micros / 10),
            digit(micros),
            b'.',
            digit(nanos / 100),
            digit(nanos / 10),
            digit(nanos),
        ];
        out.extend_from_slice(&self.digits);
        out.extend_from_slice(&text);
    }
}

/// Appends where the source text of a function begins, between two brackets; nothing when it is not known.
pub(crate) fn put_source_line(
    out: &mut Vec<u8>,
    source: &dyn CallSource,
    symbol: u32,
    colors: ColorStyle,
    [open, close]: [&str; 2],
) {
    if let Some((file, line)) = source.source_line(symbol) {
        colors.write(out, Color::Gray, format!("{open}{}:{line}{close}", colors.escaped(&file)));
    }
}

/// The entry of a symbol in a list that grows with the symbols that are met.
pub(crate) fn entry<T: Default>(list: &mut Vec<T>, symbol: u32) -> &mut T {
    let at = symbol as usize;
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}

/// The option of a name, of those with their names.
pub fn by_name<T: Copy>(all: &[(&str, T)], name: &str) -> Option<T> {
    all.iter().find(|(known, _)| *known == name).map(|&(_, option)| option)
}

/// Appends blanks.
pub fn put_blanks(out: &mut Vec<u8>, count: usize) {
    const BLANKS: [u8; 64] = [b' '; 64];
    match BLANKS.get(..count) {
        Some(blanks) => out.extend_from_slice(blanks),
        None => out.extend(std::iter::repeat_n(b' ', count)),
    }
}

/// A time with a unit, as options have it: `50us`, `1ms`, `2s`, or ns without one; in ns.
///
/// ```
/// use tracemill_calls::text::parse_time;
/// assert_eq!((parse_time("1.5ms"), parse_time("7"), parse_time("1x")), (Some(1_500_000), Some(7), None));
/// ```
pub fn parse_time(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "ns" | "nsec" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut ns = whole.checked_mul(scale)?;
    let mut part = scale;
    for digit in fraction.bytes() {
        part /= 10;
        ns = ns.checked_add(u64::from(digit.checked_sub(b'0').filter(|&digit| digit < 10)?) * part)?;
    }
    Some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_change_their_unit() {
        let text = |ns| {
            let mut out = Vec::new();
            put_time(&mut out, ns);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(0), "          ");
        assert_eq!(text(1), "  0.001 us");
        assert_eq!(text(999_999), "999.999 us");
        assert_eq!(text(1_000_000), "  1.000 ms");
        assert_eq!(text(59_999_000_000), " 59.999  s");
        assert_eq!(text(61_000_000_000), "  1.001  m");
        assert_eq!(text(2_568_297u64.wrapping_neg()), "  2.568 ms");
        assert_eq!(text(1 << 63), "999.999  h");
    }

    #[test]
    fn micros_are_those_of_plain_numbers() {
        let mut micros = Micros::default();
        for ns in [0, 5, 1_234, 999_999, 1_000_000, 1_000_001, 12_345_678_901_234, 12_345_678_999_999, u64::MAX, 7] {
            let mut out = Vec::new();
            micros.write(&mut out, ns);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{}.{:03}", ns / 1000, ns % 1000));
        }
    }

    #[test]
    fn times_are_typed_with_units() {
        assert_eq!(parse_time("50us"), Some(50_000));
        assert_eq!(parse_time("1.5ms"), Some(1_500_000));
        assert_eq!((parse_time("7"), parse_time("1x"), parse_time("")), (Some(7), None, None));
        assert_eq!((parse_time("2M"), parse_time("3S")), (Some(120_000_000_000), Some(3_000_000_000)));
    }
}
