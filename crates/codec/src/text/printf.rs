//! Conversions of C's format strings (`printf`): flags, width, precision, and the text of a number or string.
//!
//! Each format has a language of its own around these: what arguments there are, which letters mean what, what stands
//! after `%p`. The parts of C itself are here, once.

use super::digits::put_back;

/// A conversion with its width and precision known: `%-08.3x` without its length modifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spec {
    /// `-`: blanks stand after the text.
    pub left: bool,
    /// `+`: numbers above zero have a sign too.
    pub plus: bool,
    /// A blank where a sign would be.
    pub blank: bool,
    /// `#`: `0`, `0x` or `0X` in front.
    pub alternate: bool,
    /// `0`: zeros instead of blanks in front of numbers.
    pub zero: bool,
    /// Fewest characters.
    pub width: u16,
    /// Fewest digits of a number, most bytes of a string.
    pub precision: Option<u16>,
    /// The letter: `d`, `i`, `u`, `o`, `x`, `X`, `p` for [`Spec::put_integer`].
    pub letter: u8,
}

impl Spec {
    /// The flags at the beginning of a text, and how many there are.
    pub fn flags(text: &[u8]) -> (Spec, usize) {
        let mut spec = Spec::default();
        for (at, letter) in text.iter().enumerate() {
            match letter {
                b'-' => spec.left = true,
                b'+' => spec.plus = true,
                b' ' => spec.blank = true,
                b'#' => spec.alternate = true,
                b'0' => spec.zero = true,
                _ => return (spec, at),
            }
        }
        (spec, text.len())
    }

    /// Appends a string: precision and width count bytes.
    pub fn put_text(&self, text: &[u8], out: &mut Vec<u8>) {
        let len = self.precision.map_or(text.len(), |most| text.len().min(usize::from(most)));
        self.put_padded(&text[..len], out);
    }

    /// Appends a text that only the width changes.
    pub fn put_padded(&self, text: &[u8], out: &mut Vec<u8>) {
        let blanks = usize::from(self.width).saturating_sub(text.len());
        if !self.left {
            out.resize(out.len() + blanks, b' ');
        }
        out.extend_from_slice(text);
        if self.left {
            out.resize(out.len() + blanks, b' ');
        }
    }

    /// Appends an integer by its sign and size. A precision of 0 leaves nothing of a 0.
    ///
    /// ```
    /// use tracemill_codec::text::printf::Spec;
    /// let spec = Spec { zero: true, alternate: true, width: 8, letter: b'x', ..Spec::default() };
    /// let mut out = Vec::new();
    /// spec.put_integer(false, 0xff, &mut out);
    /// assert_eq!(out, b"0x0000ff");
    /// ```
    pub fn put_integer(&self, is_negative: bool, size: u64, out: &mut Vec<u8>) {
        let mut buffer = [0u8; 22];
        let mut at = buffer.len();
        let (base, letters) = match self.letter {
            b'o' => (8, b"0123456789abcdef"),
            b'x' | b'p' => (16, b"0123456789abcdef"),
            b'X' => (16, b"0123456789ABCDEF"),
            _ => (10, b"0123456789abcdef"),
        };
        let mut left = size;
        while left > 0 || (at == buffer.len() && self.precision != Some(0)) {
            at -= 1;
            buffer[at] = letters[(left % base) as usize];
            left /= base;
        }
        let digits = &buffer[at..];
        let mut zeros = usize::from(self.precision.unwrap_or(0)).saturating_sub(digits.len());
        if self.letter == b'o' && self.alternate && zeros == 0 && digits.first() != Some(&b'0') {
            zeros = 1;
        }
        let is_signed = matches!(self.letter, b'd' | b'i');
        let prefix = match self.letter {
            b'p' => "0x",
            b'x' if self.alternate && size != 0 => "0x",
            b'X' if self.alternate && size != 0 => "0X",
            _ if is_negative => "-",
            _ if is_signed && self.plus => "+",
            _ if is_signed && self.blank => " ",
            _ => "",
        };
        let mut pad = usize::from(self.width).saturating_sub(prefix.len() + zeros + digits.len());
        if self.zero && !self.left && self.precision.is_none() {
            zeros += std::mem::take(&mut pad);
        }
        if !self.left {
            out.resize(out.len() + pad, b' ');
        }
        out.extend_from_slice(prefix.as_bytes());
        out.resize(out.len() + zeros, b'0');
        out.extend_from_slice(digits);
        if self.left {
            out.resize(out.len() + pad, b' ');
        }
    }
}

/// A decimal number at a place of a format, held at `most`; steps over it. 0 where there is none.
pub fn number(text: &[u8], at: &mut usize, most: u16) -> u16 {
    let mut value = 0u32;
    while let Some(digit) = text.get(*at).filter(|octet| octet.is_ascii_digit()) {
        value = (value * 10 + u32::from(digit - b'0')).min(most.into());
        *at += 1;
    }
    value as u16
}

/// Appends a signed number in base 10.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    put_unsigned(out, value.unsigned_abs());
}

/// Appends a number in base 10.
#[inline]
pub fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0; 20];
    let from = put_back(&mut digits, value);
    out.extend_from_slice(&digits[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(format: &str, value: i64) -> String {
        let (mut spec, mut at) = Spec::flags(format.as_bytes());
        spec.width = number(format.as_bytes(), &mut at, 1024);
        if format.as_bytes()[at] == b'.' {
            at += 1;
            spec.precision = Some(number(format.as_bytes(), &mut at, 1024));
        }
        spec.letter = format.as_bytes()[at];
        let mut out = Vec::new();
        spec.put_integer(value < 0, value.unsigned_abs(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_follow_c() {
        let cases = [
            ("d", -1, "-1"),
            ("08x", 0xff, "000000ff"),
            ("-8x", 0xff, "ff      "),
            ("#x", 0, "0"),
            ("#X", 0xab, "0XAB"),
            ("#o", 8, "010"),
            ("#.0o", 0, "0"),
            (".0d", 0, ""),
            ("08.3d", 7, "     007"),
            ("+05d", 5, "+0005"),
            ("05d", -5, "-0005"),
            (" d", 5, " 5"),
            ("10p", 0xabc, "     0xabc"),
            ("#024o", i64::MAX, "000777777777777777777777"),
        ];
        for (format, value, want) in cases {
            assert_eq!(integer(format, value), want, "{format}");
        }
        assert_eq!(integer("99999999d", 1).len(), 1024);
    }

    #[test]
    fn texts_are_cut_and_padded() {
        let text = |left, width, precision| {
            let mut out = Vec::new();
            Spec { left, width, precision, ..Spec::default() }.put_text(b"text", &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!((text(false, 6, None), text(true, 6, Some(2))), ("  text".into(), "te    ".into()));
    }

    #[test]
    fn decimals_of_every_length() {
        let mut value = 0u64;
        for digit in 0..20 {
            let mut out = Vec::new();
            put_unsigned(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
            out.clear();
            put_signed(&mut out, -(value as i64 & i64::MAX));
            assert_eq!(out, (-(value as i64 & i64::MAX)).to_string().as_bytes());
            value = value.wrapping_mul(10).wrapping_add(digit % 10);
        }
    }
}
