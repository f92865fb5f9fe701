//! A byte buffer for lines: short pieces are copied in blocks of fixed size, numbers are written in place.

/// Pieces up to this length are copied as one block.
pub(crate) const BLOCK: usize = 32;

/// A short text, padded to a block.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    block: [u8; BLOCK],
    len: u8,
    /// The whole text when it is longer than a block.
    long: Option<Box<[u8]>>,
}

impl Piece {
    pub(crate) fn new(text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref();
        let mut block = [0; BLOCK];
        if text.len() > BLOCK {
            return Piece { block, len: 0, long: Some(text.into()) };
        }
        block[..text.len()].copy_from_slice(text);
        Piece { block, len: text.len() as u8, long: None }
    }
}

/// The buffer: `bytes[..len]` is written.
#[derive(Default)]
pub struct Out {
    bytes: Vec<u8>,
    len: usize,
}

impl Out {
    /// What was written.
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Was nothing written?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets what was written behind `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    #[inline]
    fn reserve(&mut self, more: usize) {
        if self.bytes.len() - self.len < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let want = (self.len + more).max(self.bytes.len() * 2).max(4096);
        self.bytes.resize(want, 0);
    }

    /// Appends bytes.
    #[inline]
    pub fn put(&mut self, text: &[u8]) {
        let len = text.len();
        self.reserve(len);
        let to = &mut self.bytes[self.len..self.len + len];
        // Two overlapping copies of a fixed size are faster than a call for the short texts that lines are made of.
        match len {
            0 => {}
            1..4 => to.iter_mut().zip(text).for_each(|(to, from)| *to = *from),
            4..8 => overlap::<4>(to, text),
            8..16 => overlap::<8>(to, text),
            16..=32 => overlap::<16>(to, text),
            _ => to.copy_from_slice(text),
        }
        self.len += len;
    }

    /// Appends a text of 8 to 16 bytes, given by its first and last eight.
    #[inline]
    pub(crate) fn put_ends(&mut self, first: [u8; 8], last: [u8; 8], len: usize) {
        self.reserve(24);
        let at = self.len;
        if let Some(to) = self.bytes.get_mut(at..).and_then(|to| to.first_chunk_mut::<24>()) {
            to[..8].copy_from_slice(&first);
            let last_at = len.clamp(8, 16) - 8;
            to[last_at..last_at + 8].copy_from_slice(&last);
            self.len += len;
        }
    }

    /// Appends a byte.
    #[inline]
    pub fn put_byte(&mut self, byte: u8) {
        self.reserve(1);
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn put_piece(&mut self, piece: &Piece) {
        self.reserve(BLOCK);
        match &piece.long {
            None => {
                self.bytes[self.len..self.len + BLOCK].copy_from_slice(&piece.block);
                self.len += usize::from(piece.len);
            }
            Some(long) => self.put(long),
        }
    }

    /// Appends a short text and a number in base 10.
    #[inline]
    pub(crate) fn put_piece_u64(&mut self, piece: &Piece, value: u64) {
        if piece.long.is_some() || value >= 100 {
            self.put_piece(piece);
            return self.put_u64(value);
        }
        self.reserve(BLOCK + 2);
        let Some(to) = self.bytes[self.len..].first_chunk_mut::<{ BLOCK + 2 }>() else { return };
        to[..BLOCK].copy_from_slice(&piece.block);
        let at = usize::from(piece.len).min(BLOCK);
        let (two, skip) = (pair(value as u32), usize::from(value < 10));
        to[at] = two[skip];
        to[at + 1] = two[1];
        self.len += at + 2 - skip;
    }

    /// Appends a number in base 10.
    #[inline]
    pub fn put_u64(&mut self, mut value: u64) {
        self.reserve(20);
        let Some(to) = self.bytes[self.len..].first_chunk_mut::<20>() else { return };
        // Most numbers of traces are short: how many digits they have costs more than the digits.
        if value < 100 {
            let two = pair(value as u32);
            let skip = usize::from(value < 10);
            to[0] = two[skip];
            to[1] = two[1];
            self.len += 2 - skip;
            return;
        }
        if value < 10_000 {
            let (high, low) = (pair(value as u32 / 100), pair(value as u32 % 100));
            let skip = usize::from(value < 1000);
            to[0] = high[skip];
            to[1] = high[1];
            to[2 - skip..4 - skip].copy_from_slice(low);
            self.len += 4 - skip;
            return;
        }
        let digits = value.ilog10() as usize + 1;
        let mut at = digits;
        while value >= 100 {
            at -= 2;
            to[at..at + 2].copy_from_slice(pair((value % 100) as u32));
            value /= 100;
        }
        if value >= 10 {
            to[0..2].copy_from_slice(pair(value as u32));
        } else {
            to[0] = b'0' + value as u8;
        }
        self.len += digits;
    }

    /// Appends a signed number in base 10.
    #[inline]
    pub fn put_i64(&mut self, value: i64) {
        if value < 0 {
            self.put_byte(b'-');
        }
        self.put_u64(value.unsigned_abs());
    }

    /// Appends a number below 10^9 with nine digits.
    #[inline]
    pub fn put_nine(&mut self, value: u32) {
        self.reserve(9);
        if let Some(to) = self.bytes[self.len..].first_chunk_mut::<9>() {
            *to = nine(value);
            self.len += 9;
        }
    }

    /// Appends a line's beginning that was prepared, and two numbers below 10^9 with nine digits in it.
    #[inline]
    pub(crate) fn put_stamp(&mut self, stamp: &Stamp, first: u32, second: u32) {
        self.reserve(STAMP);
        let Some(to) = self.bytes[self.len..].first_chunk_mut::<STAMP>() else { return };
        *to = stamp.block;
        put_nine_at(to, stamp.first_at, first);
        put_nine_at(to, stamp.second_at, second);
        self.len += stamp.len;
    }

    /// Appends a number below 100 with two digits.
    #[inline]
    pub fn put_two(&mut self, value: u32) {
        self.put(pair(value % 100));
    }

    /// Appends formatted text.
    pub fn put_fmt(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        let _ = std::fmt::Write::write_fmt(self, text);
    }

    /// Appends a number in upper-case base 16, without leading zeros.
    #[inline]
    pub fn put_hex(&mut self, value: u64) {
        let digits = ((67 - (value | 1).leading_zeros()) / 4) as usize;
        self.reserve(16);
        let Some(to) = self.bytes[self.len..].first_chunk_mut::<16>() else { return };
        // All sixteen digits of the value moved to the top; those behind the last one are overwritten later.
        let top = value << (64 - 4 * digits);
        for (at, pair) in to.chunks_exact_mut(2).enumerate().take(digits.div_ceil(2)) {
            let byte = (top >> (56 - 8 * at)) as u8;
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        self.len += digits;
    }
}

static HEX: &[u8; 16] = b"0123456789ABCDEF";

impl std::fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

static PAIRS: &[u8; 200] = b"00010203040506070809101112131415161718192021222324252627282930313233343536373839\
4041424344454647484950515253545556575859606162636465666768697071727374757677787980818283848586878889\
90919293949596979899";

#[inline]
fn pair(value: u32) -> &'static [u8] {
    &PAIRS[value as usize * 2..][..2]
}

#[inline]
fn put_nine_at(to: &mut [u8; STAMP], at: usize, value: u32) {
    if let Some(out) = to.get_mut(at..).and_then(|to| to.first_chunk_mut::<9>()) {
        *out = nine(value);
    }
}

/// The last nine digits of a number.
#[inline]
fn nine(value: u32) -> [u8; 9] {
    let (first, rest) = (value / 100_000_000 % 10, value % 100_000_000);
    let [a, b, c, d, e, f, g, h] = eight(rest);
    [b'0' + first as u8, a, b, c, d, e, f, g, h]
}

/// The digits of a number below 10^8, all at once: halves, then pairs, then digits stand in the parts of one word.
#[inline]
fn eight(value: u32) -> [u8; 8] {
    let halves = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    // 10486 / 2^20 is 1 / 100 for all numbers below 10^4, 103 / 2^10 is 1 / 10 for all below 100.
    let hundreds = ((halves * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundreds | (halves - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (pairs - tens * 10) << 8;
    (digits | 0x3030_3030_3030_3030).to_le_bytes()
}

/// Bytes of a [`Stamp`].
const STAMP: usize = 64;

/// The beginning of a line, with room for two numbers of nine digits.
pub(crate) struct Stamp {
    block: [u8; STAMP],
    len: usize,
    first_at: usize,
    second_at: usize,
}

impl Stamp {
    /// `before`, nine digits, `between`, nine digits, `behind`; `None` when that is too long.
    pub(crate) fn new(before: &[u8], between: &[u8], behind: &[u8]) -> Option<Self> {
        let digits = [b'0'; 9];
        let text = [before, &digits[..], between, &digits[..], behind].concat();
        let mut block = [0; STAMP];
        block.get_mut(..text.len())?.copy_from_slice(&text);
        Some(Stamp { block, len: text.len(), first_at: before.len(), second_at: before.len() + 9 + between.len() })
    }
}

/// Copies a text of `N` to `2 * N` bytes in two pieces.
#[inline]
fn overlap<const N: usize>(to: &mut [u8], text: &[u8]) {
    let last = text.len() - N;
    to[..N].copy_from_slice(&text[..N]);
    to[last..].copy_from_slice(&text[last..]);
}

/// Appends a float as C's `%g` does: six significant digits, no trailing zeros.
pub(crate) fn put_g(out: &mut Out, value: f64) {
    if value.is_nan() {
        return out.put(if value.is_sign_negative() { b"-nan" } else { b"nan" });
    }
    if value.is_infinite() {
        return out.put(if value < 0.0 { b"-inf" } else { b"inf" });
    }
    if value == 0.0 {
        return out.put(if value.is_sign_negative() { b"-0" } else { b"0" });
    }
    if value.fract() == 0.0 && value.abs() < 1e6 {
        return out.put_i64(value as i64);
    }
    let (digits, exponent) = six_digits(value.abs()).unwrap_or_else(|| six_digits_slowly(value.abs()));
    let mut block = *b"000000";
    let mut rest = digits;
    for place in block.iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let significant = block.iter().rposition(|&digit| digit != b'0').map_or(1, |at| at + 1);
    let digits = &block[..significant];
    let sign = if value < 0.0 { "-" } else { "" };
    out.put(sign.as_bytes());
    if !(-4..6).contains(&exponent) {
        out.put(&digits[..1]);
        if digits.len() > 1 {
            out.put_byte(b'.');
            out.put(&digits[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        out.put_fmt(format_args!("e{sign}{:02}", exponent.abs()));
    } else if exponent < 0 {
        out.put(b"0.");
        out.put(&b"000"[..(-exponent - 1) as usize]);
        out.put(digits);
    } else {
        let whole = exponent as usize + 1;
        let bytes = digits;
        out.put(&bytes[..whole.min(bytes.len())]);
        out.put(&b"000000"[..whole.saturating_sub(bytes.len())]);
        if bytes.len() > whole {
            out.put_byte(b'.');
            out.put(&bytes[whole..]);
        }
    }
}

/// The value as `digits * 10^(exponent - 5)` with six digits, rounded once, half to even, as C does: by exact integers
/// for the range in which those fit 128 bits.
fn six_digits(value: f64) -> Option<(u64, i32)> {
    let bits = value.to_bits();
    let power = (bits >> 52 & 0x7ff) as i32 - 1075;
    let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    if !(-110..=20).contains(&power) || bits >> 52 & 0x7ff == 0 {
        return None;
    }
    // One too low at most: 2^-k is a bit above 10^-(k log10(2) + 1).
    let mut exponent = ((power + 52) as f64 * std::f64::consts::LOG10_2).floor() as i32;
    loop {
        let scale = 5 - exponent;
        let (number, divisor) = if scale >= 0 {
            (mantissa.checked_mul(10u128.checked_pow(scale as u32)?)?, 1u128)
        } else {
            (mantissa, 10u128.pow(-scale as u32))
        };
        let (number, divisor) = if power >= 0 {
            (number.checked_shl(power as u32).filter(|_| number.leading_zeros() >= power as u32)?, divisor)
        } else {
            (number, divisor.checked_shl(-power as u32).filter(|_| divisor.leading_zeros() >= -power as u32)?)
        };
        let (whole, rest) = (number / divisor, number % divisor);
        let twice = rest.checked_mul(2)?;
        let digits = whole + u128::from(twice > divisor || twice == divisor && whole % 2 == 1);
        if digits < 1_000_000 {
            return Some((digits as u64, exponent));
        }
        exponent += 1;
    }
}

/// The same for any value. Rust's `e` form with a precision is exact and rounds half to even.
#[cold]
fn six_digits_slowly(value: f64) -> (u64, i32) {
    let text = format!("{value:.5e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    (digits, exponent.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_digits_of_every_size() {
        let check = |value: u32| assert_eq!(nine(value), format!("{value:09}").as_bytes(), "{value}");
        (0..20_000).chain((0..100_000).map(|at| at * 9_999)).for_each(check);
        [99_999_999, 100_000_000, 999_999_999].into_iter().for_each(check);
    }

    fn g(value: f64) -> String {
        let mut out = Out::default();
        put_g(&mut out, value);
        String::from_utf8_lossy(out.written()).into_owned()
    }

    #[test]
    fn g_is_that_of_c() {
        // The right sides are what printf("%g") of glibc gives.
        for (value, want) in [
            (0.1, "0.1"),
            (1.0, "1"),
            (100000.0, "100000"),
            (1e6, "1e+06"),
            (999999.5, "1e+06"),
            (123456.7, "123457"),
            (0.0001, "0.0001"),
            (0.00001234, "1.234e-05"),
            (1.0 / 3.0, "0.333333"),
            (-2.5e-300, "-2.5e-300"),
            (1e100, "1e+100"),
            (std::f64::consts::PI, "3.14159"),
            (-0.0, "-0"),
            (12.5, "12.5"),
            (1234.0, "1234"),
            (2.0f64.powi(70), "1.18059e+21"),
            (f64::INFINITY, "inf"),
            (-f64::NAN.abs(), "-nan"),
        ] {
            assert_eq!(g(value), want);
        }
    }

    #[test]
    fn exact_integers_agree_with_the_slow_way() {
        let mut bits = 0x0123_4567_89ab_cdefu64;
        let mut fast = 0;
        for round in 0..200_000u32 {
            bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let exponent = 1023 - 60 + u64::from(round) % 100;
            let value = f64::from_bits(bits >> 12 | exponent << 52);
            if let Some(found) = six_digits(value) {
                fast += 1;
                assert_eq!(found, six_digits_slowly(value), "{value:e}");
            }
        }
        for value in [0.5, 2.5, 1000005.0, 1000015.0, 9999995.0, 999999.5, 0.125, 4096.0, 123456.5, 0.1, 1e15] {
            if let Some(found) = six_digits(value) {
                assert_eq!(found, six_digits_slowly(value), "{value:e}");
            }
        }
        assert!(fast > 150_000, "{fast}");
    }

    #[test]
    fn numbers_of_all_lengths() {
        let mut out = Out::default();
        for value in [0, 9, 10, 99, 100, 999, 1000, 9999, 10000, 12345, u64::MAX] {
            out.put_u64(value);
            out.put_byte(b' ');
        }
        out.put_i64(i64::MIN);
        out.put_byte(b' ');
        out.put_nine(7);
        out.put_nine(987_654_321);
        out.put_hex(0);
        out.put_hex(u64::MAX);
        out.put_hex(0x1a0);
        assert_eq!(
            String::from_utf8_lossy(out.written()),
            "0 9 10 99 100 999 1000 9999 10000 12345 18446744073709551615 -9223372036854775808 0000000079876543210FFFFFFFFFFFFFFFF1A0"
        );
    }
}
