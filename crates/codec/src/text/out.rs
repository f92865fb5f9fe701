//! A byte buffer for lines: short pieces are copied in blocks of fixed size, numbers are written in place.

use tracemill_model::schema::QUICK_BYTES;

use super::digits::{
    DIGITS, HEX_DIGITS, ZEROS, eight_digits, hex_digits, nine_digits, overlap, put_digits, put_three_threes,
};

/// Pieces up to this length are copied as one block.
pub const BLOCK: usize = 32;

/// A short text, padded to a block of `N` bytes, at most 255.
#[derive(Clone, Debug)]
pub struct TextPiece<const N: usize = BLOCK> {
    block: [u8; N],
    len: u8,
    /// The whole text when it is longer than a block.
    long: Option<Box<[u8]>>,
}

impl<const N: usize> TextPiece<N> {
    /// The piece with this text.
    pub fn new(text: impl AsRef<[u8]>) -> Self {
        const { assert!(N <= u8::MAX as usize) };
        let text = text.as_ref();
        let mut block = [0; N];
        if text.len() > N {
            return TextPiece { block, len: 0, long: Some(text.into()) };
        }
        block[..text.len()].copy_from_slice(text);
        TextPiece { block, len: text.len() as u8, long: None }
    }
}

/// Values from 0 up to this have their texts kept.
const SMALL_VALUES: usize = 256;

/// Texts of small values, each made when it is first put.
#[derive(Clone, Debug, Default)]
pub struct SmallTexts(Vec<Option<TextPiece>>);

impl SmallTexts {
    /// Appends the text of a value, which `make` appends where it is not known.
    pub fn write(&mut self, out: &mut Out, value: i128, make: impl FnOnce(&mut Out)) {
        let Some(at) = usize::try_from(value).ok().filter(|&at| at < SMALL_VALUES) else { return make(out) };
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        out.put_piece(self.0[at].get_or_insert_with(|| {
            let mut text = Out::default();
            make(&mut text);
            TextPiece::new(text.written())
        }));
    }
}

/// The buffer: `bytes[..len]` is written.
#[derive(Default)]
pub struct Out {
    bytes: Vec<u8>,
    len: usize,
}

impl Out {
    /// The text that was written.
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

    /// Forgets what was written after `len`.
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
    pub fn put_ends(&mut self, first: [u8; 8], last: [u8; 8], len: usize) {
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
        *self.room() = [byte];
        self.len += 1;
    }

    /// Puts another byte in the place of one that is written.
    #[inline]
    pub fn replace(&mut self, at: usize, byte: u8) {
        if at < self.len {
            self.bytes[at] = byte;
        }
    }

    /// Appends a line of a text, a piece, another text. The texts are written to the memory that is given and say their
    /// lengths; false, and nothing appended, when one of them says none.
    #[inline]
    pub fn put_two_texts(
        &mut self,
        between: &TextPiece,
        before: impl FnOnce(&mut [u8; QUICK_BYTES]) -> Option<usize>,
        after: impl FnOnce(&mut [u8; QUICK_BYTES]) -> Option<usize>,
    ) -> bool {
        if between.long.is_some() {
            return false;
        }
        let to = self.room::<{ 2 * QUICK_BYTES + BLOCK + 1 }>();
        let Some(first) = to.first_chunk_mut().and_then(before) else { return false };
        let at = first.min(QUICK_BYTES);
        to[at..at + BLOCK].copy_from_slice(&between.block);
        let at = at + usize::from(between.len).min(BLOCK);
        let Some(second) = to[at..].first_chunk_mut().and_then(after) else { return false };
        let at = at + second.min(QUICK_BYTES);
        to[at] = b'\n';
        self.len += at + 1;
        true
    }

    /// Bytes that were written to [`Out::room`].
    #[inline]
    pub fn advance(&mut self, len: usize) {
        self.len = (self.len + len).min(self.bytes.len());
    }

    /// The next `N` bytes to write to; nothing is written yet.
    #[inline]
    pub fn room<const N: usize>(&mut self) -> &mut [u8; N] {
        if self.len > self.bytes.len() || self.bytes.len() - self.len < N {
            return self.grown();
        }
        self.array_here()
    }

    /// [`Out::room`] when there is none.
    #[cold]
    #[inline(never)]
    fn grown<const N: usize>(&mut self) -> &mut [u8; N] {
        self.grow(N);
        self.array_here()
    }

    #[inline(always)]
    fn array_here<const N: usize>(&mut self) -> &mut [u8; N] {
        match self.bytes[self.len..].first_chunk_mut() {
            Some(room) => room,
            None => unreachable!("there is room for {N} bytes"),
        }
    }

    /// Appends a prepared piece.
    #[inline]
    pub fn put_piece<const N: usize>(&mut self, piece: &TextPiece<N>) {
        if let Some(long) = &piece.long {
            return self.put(long);
        }
        self.room::<N>().copy_from_slice(&piece.block);
        self.len += usize::from(piece.len);
    }

    /// Appends a short text and a number in base 10.
    #[inline]
    pub fn put_piece_u64(&mut self, piece: &TextPiece, value: u64) {
        if piece.long.is_some() || value >= 100_000_000 {
            self.put_piece(piece);
            return self.put_u64(value);
        }
        let to = self.room::<{ BLOCK + DIGITS }>();
        to[..BLOCK].copy_from_slice(&piece.block);
        let at = usize::from(piece.len).min(BLOCK);
        if let Some(room) = to[at..].first_chunk_mut::<DIGITS>() {
            self.len += at + put_digits(room, value as u32);
        }
    }

    /// Appends a short text and a number below 10^9 with nine digits.
    #[inline]
    pub fn put_piece_nine(&mut self, piece: &TextPiece, value: u32) {
        if piece.long.is_some() {
            self.put_piece(piece);
            return self.put_nine(value);
        }
        let to = self.room::<{ BLOCK + 9 }>();
        to[..BLOCK].copy_from_slice(&piece.block);
        let at = usize::from(piece.len).min(BLOCK);
        if let Some(room) = to[at..].first_chunk_mut() {
            *room = nine_digits(value);
        }
        self.len += at + 9;
    }

    /// Appends a text, `0x` and a number in upper-case base 16.
    #[inline]
    pub fn put_piece_hex(&mut self, piece: &TextPiece, value: u64) {
        if piece.long.is_some() {
            self.put_piece(piece);
            self.put(b"0x");
            return self.put_hex(value);
        }
        let to = self.room::<{ BLOCK + 2 + HEX_DIGITS }>();
        to[..BLOCK].copy_from_slice(&piece.block);
        let at = usize::from(piece.len).min(BLOCK);
        to[at..at + 2].copy_from_slice(b"0x");
        if let Some(room) = to[at + 2..].first_chunk_mut() {
            self.len += at + 2 + hex_digits(room, value);
        }
    }

    /// Appends the beginning of a line: a short text, nine digits, a text of four bytes, a digit, a point, nine digits and
    /// a text of two bytes.
    #[inline]
    pub fn put_times(
        &mut self,
        start: &TextPiece,
        fraction: u32,
        between: [u8; 4],
        second: u8,
        delta: u32,
        end: [u8; 2],
    ) {
        let to = self.room::<{ BLOCK + 28 }>();
        to[..BLOCK].copy_from_slice(&start.block);
        let at = usize::from(start.len).min(BLOCK);
        if let Some(to) = to[at..].first_chunk_mut::<28>() {
            put_three_threes(to, 0, fraction);
            to[9..13].copy_from_slice(&between);
            to[13] = b'0' + second;
            to[14] = b'.';
            put_three_threes(to, 15, delta);
            to[24..26].copy_from_slice(&end);
        }
        self.len += at + 26;
    }

    /// Appends a number in base 10.
    #[inline]
    pub fn put_u64(&mut self, value: u64) {
        if value >= 100_000_000 {
            return self.put_long(value);
        }
        let to = self.room::<DIGITS>();
        self.len += put_digits(to, value as u32);
    }

    /// A number of nine digits or more.
    #[inline(never)]
    fn put_long(&mut self, value: u64) {
        const PART: u64 = 100_000_000;
        let eight = |part: u64| (eight_digits(part as u32) | ZEROS).to_le_bytes();
        let (high, low) = (value / PART, eight(value % PART));
        let to = self.room::<{ 3 * DIGITS }>();
        // Blocks of eight after each other: a first part of one to eight digits, one or two whole ones.
        let (first, middle) = if high < PART { (high, None) } else { (high / PART, Some(eight(high % PART))) };
        let mut digits = [0; DIGITS];
        let count = put_digits(&mut digits, first as u32).min(DIGITS);
        to[..DIGITS].copy_from_slice(&digits);
        let mut len = count;
        if let Some(middle) = middle {
            to[len..len + DIGITS].copy_from_slice(&middle);
            len += DIGITS;
        }
        to[len..len + DIGITS].copy_from_slice(&low);
        self.len += len + DIGITS;
    }

    /// Appends a signed number in base 10.
    #[inline]
    pub fn put_i64(&mut self, value: i64) {
        if value < 0 {
            self.put_byte(b'-');
        }
        self.put_u64(value.unsigned_abs());
    }

    /// Appends ns: a signed number in base 10, of any size.
    #[inline]
    pub fn put_ns(&mut self, ns: i128) {
        match u64::try_from(ns) {
            Ok(ns) => self.put_u64(ns),
            Err(_) => self.put_far_ns(ns),
        }
    }

    #[cold]
    fn put_far_ns(&mut self, ns: i128) {
        self.put_fmt(format_args!("{ns}"));
    }

    /// Appends a number below 10^9 with nine digits.
    #[inline]
    pub fn put_nine(&mut self, value: u32) {
        *self.room::<9>() = nine_digits(value);
        self.len += 9;
    }

    /// Appends formatted text.
    pub fn put_fmt(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        let _ = std::fmt::Write::write_fmt(self, text);
    }

    /// Appends a number in upper-case base 16, without leading zeros.
    #[inline]
    pub fn put_hex(&mut self, value: u64) {
        self.len += hex_digits(self.room(), value);
    }
}

impl std::fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

/// Appends a float as C's `%g` does: six significant digits, no trailing zeros.
pub fn put_g(out: &mut Out, value: f64) {
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
        out.put(&digits[..whole.min(digits.len())]);
        out.put(&b"000000"[..whole.saturating_sub(digits.len())]);
        if digits.len() > whole {
            out.put_byte(b'.');
            out.put(&digits[whole..]);
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

/// [`six_digits`] for any value. Rust's `e` form with a precision is exact and rounds half to even.
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
        let check = |value: u32| assert_eq!(&nine_digits(value), format!("{value:09}").as_bytes(), "{value}");
        (0..20_000).chain((0..100_000).map(|at| at * 9_999)).for_each(check);
        [99_999_999, 100_000_000, 999_999_999].into_iter().for_each(check);
    }

    fn g(value: f64) -> String {
        let mut out = Out::default();
        put_g(&mut out, value);
        String::from_utf8_lossy(out.written()).into_owned()
    }

    #[test]
    fn decimal_numbers_of_every_length() {
        let show = |value: u64| {
            let mut out = Out::default();
            out.put_u64(value);
            String::from_utf8_lossy(out.written()).into_owned()
        };
        let steps = (0..20).flat_map(|power| {
            let ten = 10u64.pow(power);
            [ten - 1, ten, ten + 1, ten.saturating_mul(9), ten.saturating_mul(9).saturating_add(ten - 1)]
        });
        for value in (0..20_000).chain(steps).chain([u64::MAX, 1 << 32, 99_999_999, 100_000_000]) {
            assert_eq!(show(value), value.to_string());
        }
        for value in (0..100_000_000u32).step_by(7919).chain([99_999_999, 12_345_678]) {
            let digits = (eight_digits(value) | ZEROS).to_le_bytes();
            assert_eq!(std::str::from_utf8(&digits).unwrap(), format!("{value:08}"));
        }
        for value in [0, 1, 999_999_999, 123_456_789, 100_000_000, 99_999_999] {
            assert_eq!(std::str::from_utf8(&nine_digits(value)).unwrap(), format!("{value:09}"));
        }
    }

    #[test]
    fn hexadecimal_numbers_of_every_length() {
        let powers = (0..16).map(|power| 1u64 << (4 * power));
        let steps =
            powers.flat_map(|power| [power - 1, power, power + 9, power * 10, power * 15, power.wrapping_mul(0x9a)]);
        for value in (0..5000).chain(steps).chain([u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98, 0x1_0000_0000]) {
            let mut out = Out::default();
            out.put_hex(value);
            out.put_piece_hex(&TextPiece::new(" x = "), value);
            let long = "y".repeat(BLOCK + 1);
            out.put_piece_hex(&TextPiece::new(&long), value);
            out.put_byte(b'.');
            let want = format!("{value:X} x = 0x{value:X}{long}0x{value:X}.");
            assert_eq!(String::from_utf8_lossy(out.written()), want);
        }
    }

    #[test]
    fn the_beginning_of_a_line_is_put_together() {
        let mut out = Out::default();
        out.put_times(&TextPiece::new("[10:55:19."), 42, *b"] (+", 9, 123_456_789, *b") ");
        assert_eq!(out.written(), b"[10:55:19.000000042] (+9.123456789) ");
        for value in (0..1_000_000_000).step_by(1_000_003).chain([999_999_999, 999_000_999, 1_000_000, 999_999]) {
            out.clear();
            out.put_times(&TextPiece::new("["), value, *b"] (+", 0, 999_999_999 - value, *b") ");
            let want = format!("[{value:09}] (+0.{:09}) ", 999_999_999 - value);
            assert_eq!(out.written(), want.as_bytes());
        }
    }

    #[test]
    fn two_texts_and_a_piece_make_a_line() {
        let put = |text: &'static str| {
            move |room: &mut [u8; QUICK_BYTES]| {
                room[..text.len()].copy_from_slice(text.as_bytes());
                Some(text.len())
            }
        };
        let (mut out, piece) = (Out::default(), TextPiece::new(" name: "));
        assert!(out.put_two_texts(&piece, put("worker"), put("1")));
        assert!(out.put_two_texts(&piece, put(""), put("")));
        assert!(!out.put_two_texts(&piece, |_| None, put("1")) && !out.put_two_texts(&piece, put("1"), |_| None));
        assert!(!out.put_two_texts(&TextPiece::new("x".repeat(BLOCK + 1)), put("1"), put("1")));
        assert_eq!(out.written(), b"worker name: 1\n name: \n");
        let full = |room: &mut [u8; QUICK_BYTES]| {
            room.fill(b'-');
            Some(QUICK_BYTES)
        };
        out.clear();
        assert!(out.put_two_texts(&TextPiece::new("x".repeat(BLOCK)), full, full));
        assert_eq!(out.len(), 2 * QUICK_BYTES + BLOCK + 1);
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
