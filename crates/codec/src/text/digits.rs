//! Digits of numbers, some at a time.

pub(super) static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

#[inline]
pub(super) fn pair(value: u32) -> &'static [u8; 2] {
    &PAIRS[value as usize]
}

/// Digits that [`put_digits`] writes at most.
pub(super) const DIGITS: usize = 8;

/// Writes a number below 10^8 in base 10; how many digits it has. What it writes after them does not count.
#[inline]
pub fn put_digits(to: &mut [u8; 8], value: u32) -> usize {
    // Most numbers of traces are short: how many digits they have costs more than the digits.
    if value < 100 {
        let two = pair(value);
        let skip = usize::from(value < 10);
        to[0] = two[skip];
        to[1] = two[1];
        return 2 - skip;
    }
    if value < 10_000 {
        let (high, low) = (pair(value / 100), pair(value % 100));
        let digits = u32::from_le_bytes([high[0], high[1], low[0], low[1]]);
        let skip = usize::from(value < 1000);
        to[..4].copy_from_slice(&(digits >> (skip * 8)).to_le_bytes());
        return 4 - skip;
    }
    let digits = eight_digits(value);
    // Digits before the first one that is not zero: they stand in the low bytes.
    let zeros = digits.trailing_zeros() / 8;
    *to = ((digits | ZEROS) >> (zeros * 8)).to_le_bytes();
    8 - zeros as usize
}

/// Writes a number of any size in base 10 to the end of some bytes, two digits at a time; where it begins.
#[inline]
pub fn put_back<const N: usize>(to: &mut [u8; N], value: u64) -> usize {
    let (mut at, mut rest) = (N, value);
    while rest >= 100 && at >= 2 {
        at -= 2;
        to[at..at + 2].copy_from_slice(pair((rest % 100) as u32));
        rest /= 100;
    }
    let two = pair((rest % 100) as u32);
    let count = if rest >= 10 { 2 } else { 1 };
    at -= count;
    to[at..at + count].copy_from_slice(&two[2 - count..]);
    at
}

/// The digit zero eight times.
pub(super) const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The eight decimal digits of a number below 10^8, a byte each (0 to 9), the first one in the lowest byte.
#[inline]
pub(super) fn eight_digits(value: u32) -> u64 {
    // Fours, twos, ones: each step divides all parts at once by a multiplication.
    let (high, low) = (value / 10_000, value % 10_000);
    let fours = u64::from(high) | u64::from(low) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - 10 * tens) << 8
}

/// The nine digits of a number below 10^9 as text.
#[inline]
pub fn nine_digits(value: u32) -> [u8; 9] {
    let mut text = [0; 9];
    let first = value / 100_000_000;
    text[0] = b'0' + first as u8;
    text[1..].copy_from_slice(&(eight_digits(value - first * 100_000_000) | ZEROS).to_le_bytes());
    text
}

/// The numbers below 1000 with three digits, and a byte that does not count; up to a power of two, so that a masked
/// number needs no check.
pub(super) static THREES: [[u8; 4]; 1024] = {
    let mut threes = [[0; 4]; 1024];
    let mut at = 0;
    while at < 1000 {
        threes[at] = [b'0' + (at / 100) as u8, b'0' + (at / 10 % 10) as u8, b'0' + (at % 10) as u8, 0];
        at += 1;
    }
    threes
};

/// Digits of the longest number in base 16.
pub(super) const HEX_DIGITS: usize = 16;

/// Writes a number in upper-case base 16; how many digits it has.
#[inline]
pub(super) fn hex_digits(to: &mut [u8; HEX_DIGITS], value: u64) -> usize {
    let digits = ((67 - (value | 1).leading_zeros()) / 4) as usize;
    // Zeros before the first digit stand in the low bytes.
    let low = eight_hex_digits(value as u32);
    if let Some(more) = digits.checked_sub(8).filter(|&more| more > 0) {
        let high = eight_hex_digits((value >> 32) as u32) >> ((8 - more) * 8);
        to[..8].copy_from_slice(&high.to_le_bytes());
        to[more..more + 8].copy_from_slice(&low.to_le_bytes());
    } else {
        to[..8].copy_from_slice(&(low >> ((8 - digits) * 8)).to_le_bytes());
    }
    digits
}

/// The eight upper-case hexadecimal digits of a number as text, the first one in the lowest byte.
#[inline]
pub(super) fn eight_hex_digits(value: u32) -> u64 {
    const EACH: u64 = u64::MAX / 255;
    let wide = u64::from(value);
    let fours = (wide | wide << 16) & 0x0000_ffff_0000_ffff;
    let twos = (fours | fours << 8) & 0x00ff_00ff_00ff_00ff;
    let ones = (twos | twos << 4) & (EACH * 0xf);
    // A carry into the upper half of its byte marks a digit from ten on.
    let letters = ((ones + EACH * 6) >> 4) & EACH;
    (ones + ZEROS + letters * u64::from(b'A' - b'9' - 1)).swap_bytes()
}

/// Writes the nine digits of a number below 10^9 at a place, and a byte after them that does not count.
#[inline(always)]
pub fn put_three_threes<const N: usize>(to: &mut [u8; N], at: usize, value: u32) {
    let (high, rest) = (value / 1_000_000, value % 1_000_000);
    let three = |value: u32| &THREES[(value & 1023) as usize];
    to[at..at + 4].copy_from_slice(three(high));
    to[at + 3..at + 7].copy_from_slice(three(rest / 1000));
    to[at + 6..at + 10].copy_from_slice(three(rest % 1000));
}

/// Copies a text of `N` to `2 * N` bytes in two pieces.
#[inline]
pub(super) fn overlap<const N: usize>(to: &mut [u8], text: &[u8]) {
    let last = text.len() - N;
    to[..N].copy_from_slice(&text[..N]);
    to[last..].copy_from_slice(&text[last..]);
}
