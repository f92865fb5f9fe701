//! Integers of more than 64 bits, and those of LEB128.

use tracemill_model::schema::ByteOrder;

use super::{bit_shift, read_bits, sign_extend};

/// An integer of more than 64 bits: two's complement limbs, least significant first.
///
/// ```
/// use tracemill_codec::bits::Wide;
/// use tracemill_model::schema::ByteOrder;
/// let wide = Wide::read(&[0xff; 16], 0, 128, ByteOrder::Little, false, true);
/// assert_eq!((wide.to_i128(), wide.to_decimal()), (Some(-1), "-1".to_string()));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wide {
    /// Limbs; the sign is extended through the last one when `signed`.
    pub limbs: Vec<u64>,
    /// Is the number signed?
    pub signed: bool,
}

impl Wide {
    /// Reads `len_bits` bits.
    pub fn read(bytes: &[u8], offset_bits: u64, len_bits: u32, order: ByteOrder, reversed: bool, signed: bool) -> Self {
        let mut limbs = Vec::with_capacity(len_bits.div_ceil(64) as usize);
        let mut done = 0;
        while done < len_bits {
            let len = (len_bits - done).min(64);
            let at = match (order, reversed) {
                (ByteOrder::Little, false) | (ByteOrder::Big, true) => u64::from(done),
                _ => u64::from(len_bits - done - len),
            };
            limbs.push(read_bits(bytes, offset_bits + at, len, order, reversed));
            done += len;
        }
        Wide::from_limbs(limbs, len_bits, signed)
    }

    /// A number from its limbs, `len_bits` of which count.
    pub fn from_limbs(mut limbs: Vec<u64>, len_bits: u32, signed: bool) -> Self {
        let top_bits = (len_bits - 1) % 64 + 1;
        if let (true, Some(top)) = (signed, limbs.last_mut()) {
            *top = sign_extend(*top, top_bits) as u64;
        }
        Wide { limbs, signed }
    }

    /// The number when it fits.
    pub fn to_i128(&self) -> Option<i128> {
        let value = (u128::from(self.limb(1)) << 64 | u128::from(self.limb(0))) as i128;
        let sign = self.limb(self.limbs.len());
        let rest_is_sign = self.limbs.iter().skip(2).all(|&limb| limb == sign);
        (rest_is_sign && (value < 0) == self.is_negative()).then_some(value)
    }

    /// Is it below zero?
    pub fn is_negative(&self) -> bool {
        self.signed && self.limbs.last().is_some_and(|&top| top >> 63 == 1)
    }

    /// A limb; those after the last one repeat the sign.
    pub fn limb(&self, at: usize) -> u64 {
        let sign = || if self.is_negative() { u64::MAX } else { 0 };
        self.limbs.get(at).copied().unwrap_or_else(sign)
    }

    /// A bit, the lowest one first; those after the last one repeat the sign.
    pub fn bit(&self, at: u32) -> bool {
        self.limb(at as usize / 64) >> (at % 64) & 1 == 1
    }

    /// Is a bit set from `low` to `high`, among those that are stored?
    pub fn has_bit_in(&self, low: i128, high: i128) -> bool {
        (low.max(0)..=high.min(self.limbs.len() as i128 * 64 - 1)).any(|at| self.bit(at as u32))
    }

    /// The number in base 10. Costs time in the square of its length.
    pub fn to_decimal(&self) -> String {
        let negative = self.is_negative();
        let mut limbs = self.limbs.clone();
        if negative {
            negate(&mut limbs);
        }
        let mut groups = Vec::new();
        while limbs.iter().any(|&limb| limb != 0) {
            let mut rest = 0u128;
            for limb in limbs.iter_mut().rev() {
                let part = rest << 64 | u128::from(*limb);
                *limb = (part / 10u128.pow(19)) as u64;
                rest = part % 10u128.pow(19);
            }
            groups.push(rest as u64);
        }
        let mut text = String::from(if negative { "-" } else { "" });
        text += &groups.pop().unwrap_or(0).to_string();
        for group in groups.iter().rev() {
            text += &format!("{group:019}");
        }
        text
    }
}

/// Negates a number in two's complement, least significant limb first.
pub fn negate(limbs: &mut [u64]) {
    let mut carry = true;
    for limb in limbs {
        (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
    }
}

/// A number of any size from its digits in some base, least significant limb first and without a sign. Takes time in the
/// square of their number.
pub fn limbs_of_digits(digits: impl Iterator<Item = u32>, base: u32) -> Vec<u64> {
    let mut limbs: Vec<u64> = Vec::new();
    for digit in digits {
        let mut carry = u128::from(digit);
        for limb in &mut limbs {
            let value = u128::from(*limb) * u128::from(base) + carry;
            *limb = value as u64;
            carry = value >> 64;
        }
        if carry != 0 {
            limbs.push(carry as u64);
        }
    }
    limbs
}

/// Most bytes of a LEB128 integer: 1,792 bits of value.
pub const LEB128_MAX_BYTES: usize = 256;

/// Number of bytes of the LEB128 integer at the start of `bytes`, `None` when it does not end there.
#[inline]
pub fn leb128_len(bytes: &[u8]) -> Option<usize> {
    bytes.iter().take(LEB128_MAX_BYTES).position(|byte| byte & 0x80 == 0).map(|at| at + 1)
}

/// The value of a LEB128 integer that fits 64 bits; `bytes` is the whole integer.
///
/// ```
/// use tracemill_codec::bits::{leb128_len, leb128_u64, put_leb};
/// let mut bytes = Vec::new();
/// put_leb(&mut bytes, 624_485, false);
/// assert_eq!(leb128_len(&bytes), Some(3));
/// assert_eq!(leb128_u64(&bytes, false), Some(624_485));
/// ```
#[inline]
pub fn leb128_u64(bytes: &[u8], signed: bool) -> Option<u64> {
    let len_bits = bytes.len() as u32 * 7;
    if len_bits <= 63 {
        let value = bytes.iter().rev().fold(0u64, |value, &byte| value << 7 | u64::from(byte & 0x7f));
        return Some(if signed { sign_extend(value, len_bits) as u64 } else { value });
    }
    let wide = leb128_wide(bytes, signed).to_i128()?;
    if signed { i64::try_from(wide).ok().map(|v| v as u64) } else { u64::try_from(wide).ok() }
}

/// The value of a LEB128 integer of any length; `bytes` is the whole integer.
pub fn leb128_wide(bytes: &[u8], signed: bool) -> Wide {
    let len_bits = bytes.len() as u32 * 7;
    let mut limbs = vec![0u64; len_bits.div_ceil(64) as usize];
    for (at, &byte) in bytes.iter().enumerate() {
        let (limb, shift) = (at * 7 / 64, at * 7 % 64);
        let part = u64::from(byte & 0x7f);
        limbs[limb] |= part << shift;
        if shift > 57 && limb + 1 < limbs.len() {
            limbs[limb + 1] |= part >> (64 - shift);
        }
    }
    Wide::from_limbs(limbs, len_bits, signed)
}

/// Appends an integer of any width.
pub fn put_wide(out: &mut Vec<u8>, value: &Wide, len_bits: u32, order: ByteOrder) {
    let bytes = len_bits.div_ceil(8);
    for byte in 0..bytes {
        let mut sum = 0u8;
        for at in 0..8 {
            let place = byte * 8 + at;
            let set = match order {
                ByteOrder::Little => place < len_bits && value.bit(place),
                ByteOrder::Big => place < len_bits && value.bit(len_bits - 1 - place),
            };
            sum |= u8::from(set) << bit_shift(at.into(), order);
        }
        out.push(sum);
    }
}

/// Appends a LEB128 integer of 64 bits.
#[inline]
pub fn put_leb(out: &mut Vec<u8>, value: u64, signed: bool) {
    let is_last = |rest: u64| if signed { rest.wrapping_add(0x40) < 0x80 } else { rest < 0x80 };
    // Most are one byte.
    if is_last(value) {
        return out.push(value as u8 & 0x7f);
    }
    let (mut block, mut len, mut rest) = ([0u8; 10], 0, value);
    while !is_last(rest) {
        block[len] = rest as u8 | 0x80;
        rest = if signed { ((rest as i64) >> 7) as u64 } else { rest >> 7 };
        len += 1;
    }
    block[len] = rest as u8 & 0x7f;
    out.extend_from_slice(&block[..=len]);
}

/// Takes an unsigned LEB128 integer of 64 bits from the beginning of some bytes; bits beyond are dropped, and what the end of
/// the bytes cuts off is 0.
///
/// ```
/// let mut bytes = &[0xe5, 0x8e, 0x26, 7][..];
/// assert_eq!((tracemill_codec::bits::take_leb(&mut bytes), bytes), (624_485, &[7][..]));
/// ```
#[inline]
pub fn take_leb(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 63 {
            break;
        }
    }
    value
}

/// Appends a LEB128 integer of any width.
pub fn put_leb_wide(out: &mut Vec<u8>, value: &Wide) {
    let len_bits = value.limbs.len() as u32 * 64;
    // The bits that count; a signed number needs one more for its sign.
    let top = (0..len_bits).rev().find(|&at| value.bit(at) != value.is_negative()).map_or(0, |at| at + 1);
    let count = (top + u32::from(value.signed)).max(1).div_ceil(7);
    for group in 0..count {
        let low = (0..7).fold(0u8, |sum, at| sum | u8::from(value.bit(group * 7 + at)) << at);
        out.push(if group + 1 < count { low | 0x80 } else { low });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{read_be, read_le};
    use super::*;

    #[test]
    fn wide_integers_equal_their_pieces() {
        let bytes: Vec<u8> = (1..=40).map(|i: u8| i.wrapping_mul(37)).collect();
        for offset in 0..9 {
            let little = Wide::read(&bytes, offset, 100, ByteOrder::Little, false, false);
            assert_eq!(little.limbs, [read_le(&bytes, offset, 64), read_le(&bytes, offset + 64, 36)]);
            let big = Wide::read(&bytes, offset, 100, ByteOrder::Big, false, false);
            assert_eq!(big.limbs, [read_be(&bytes, offset + 36, 64), read_be(&bytes, offset, 36)]);
        }
    }

    #[test]
    fn reversed_wide_integers_reverse_all_bits() {
        let bytes: Vec<u8> = (1..=16).map(|i: u8| i.wrapping_mul(91)).collect();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let plain = Wide::read(&bytes, 3, 100, order, false, false);
            let reversed = Wide::read(&bytes, 3, 100, order, true, false);
            for i in 0..100 {
                let bit = |wide: &Wide, at: usize| wide.limbs[at / 64] >> (at % 64) & 1;
                assert_eq!(bit(&plain, i), bit(&reversed, 99 - i), "{order:?} {i}");
            }
        }
    }

    #[test]
    fn wide_decimal_knows_signs() {
        let bytes = [0xff; 16];
        assert_eq!(Wide::read(&bytes, 0, 128, ByteOrder::Little, false, true).to_decimal(), "-1");
        assert_eq!(
            Wide::read(&bytes, 0, 128, ByteOrder::Little, false, false).to_decimal(),
            "340282366920938463463374607431768211455"
        );
        let power = Wide { limbs: vec![0, 1], signed: false };
        assert_eq!(power.to_decimal(), "18446744073709551616");
        assert_eq!(power.to_i128(), Some(1 << 64));
    }

    #[test]
    fn leb128_of_every_length() {
        assert_eq!(leb128_len(&[0x80, 0x80]), None);
        assert_eq!(leb128_u64(&[0xe5, 0x8e, 0x26], false), Some(624_485));
        assert_eq!(leb128_u64(&[0x9b, 0xf1, 0x59], true), Some(-624_485i64 as u64));
        let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(leb128_u64(&max, false), Some(u64::MAX));
        let min = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f];
        assert_eq!(leb128_u64(&min, true), Some(i64::MIN as u64));
        let over = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03];
        assert_eq!(leb128_u64(&over, false), None);
        assert_eq!(leb128_wide(&over, false).to_decimal(), "36893488147419103231");
    }

    #[test]
    fn wide_integers_come_back() {
        let bytes: Vec<u8> = (1..=40).map(|i: u8| i.wrapping_mul(83)).collect();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (len_bits, signed) in [(65, false), (100, true), (128, true), (200, false)] {
                let value = Wide::read(&bytes, 3, len_bits, order, false, signed);
                let mut out = Vec::new();
                put_wide(&mut out, &value, len_bits, order);
                assert_eq!(Wide::read(&out, 0, len_bits, order, false, signed), value);
                out.clear();
                put_leb_wide(&mut out, &value);
                assert_eq!(leb128_len(&out), Some(out.len()));
                assert_eq!(leb128_wide(&out, signed).to_decimal(), value.to_decimal());
            }
        }
    }

    #[test]
    fn leb128_comes_back() {
        for value in [0, 1, 63, 64, 127, 128, 624_485, u64::MAX / 2, u64::MAX, 1 << 63, u64::MAX - 64] {
            for signed in [false, true] {
                let mut out = Vec::new();
                put_leb(&mut out, value, signed);
                assert_eq!(leb128_len(&out), Some(out.len()), "{value} {signed}");
                assert_eq!(leb128_u64(&out, signed), Some(value), "{value} {signed}");
            }
        }
    }
}
