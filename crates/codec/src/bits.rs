//! Numbers as bytes and bits, in both byte orders: the one place that reads and writes them.
//!
//! | | read | write |
//! |---|---|---|
//! | whole bytes | [`read_uint`], [`u16_at`], [`u32_at`], [`u64_at`] | [`put_uint`], [`uint_bytes`] |
//! | bits at any offset | [`read_bits`], [`read_le`], [`read_be`] | [`write_bits`] |
//! | bits at a whole byte | [`read_bits`] | [`put_fixed`] |
//! | more than 64 bits | [`Wide::read`] | [`put_wide`] |
//! | LEB128 | [`leb128_len`] with [`leb128_u64`], [`leb128_wide`] | [`put_leb`], [`put_leb_wide`] |
//! | IEEE 754 | [`read_float`] | [`put_uint`] of `to_bits()` |
//!
//! Offsets are in bits from the start of the packet. In a little-endian field the first bit of the stream is the
//! least significant one of its byte, in a big-endian field the most significant one (CTF 1.8.3, 4.1.5). All readers
//! expect that the caller has checked `offset + len <= 8 * bytes.len()`; they panic otherwise, they never read other
//! bytes.
//!
//! ```
//! use tracemill_codec::bits::{put_uint, read_bits, read_uint, write_bits};
//! use tracemill_model::schema::ByteOrder::{Big, Little};
//!
//! let mut bytes = Vec::new();
//! put_uint(&mut bytes, 0x1234, 2, Big);
//! assert_eq!(bytes, [0x12, 0x34]);
//! assert_eq!(read_uint(&bytes, Little), 0x3412);
//!
//! // Three bits behind the first two of a little-endian byte.
//! let mut byte = [0];
//! write_bits(&mut byte, 2, 3, 0b101, Little);
//! assert_eq!(byte, [0b0001_0100]);
//! assert_eq!(read_bits(&byte, 2, 3, Little, false), 0b101);
//! ```

use tracemill_model::schema::ByteOrder;

/// Reads `len_bits` (1 to 64) little-endian bits as an unsigned number.
#[inline]
pub fn read_le(bytes: &[u8], offset_bits: u64, len_bits: u32) -> u64 {
    let (at, shift) = ((offset_bits >> 3) as usize, (offset_bits & 7) as u32);
    if shift + len_bits <= 64
        && let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>())
    {
        return (u64::from_le_bytes(*word) >> shift) & mask(len_bits);
    }
    read_le_slow(bytes, at, shift, len_bits)
}

#[cold]
fn read_le_slow(bytes: &[u8], at: usize, shift: u32, len_bits: u32) -> u64 {
    let count = (shift + len_bits).div_ceil(8) as usize;
    let word = bytes[at..at + count].iter().rev().fold(0u128, |word, &byte| word << 8 | u128::from(byte));
    (word >> shift) as u64 & mask(len_bits)
}

/// Reads `len_bits` (1 to 64) big-endian bits as an unsigned number.
#[inline]
pub fn read_be(bytes: &[u8], offset_bits: u64, len_bits: u32) -> u64 {
    let (at, shift) = ((offset_bits >> 3) as usize, (offset_bits & 7) as u32);
    if shift + len_bits <= 64
        && let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>())
    {
        return (u64::from_be_bytes(*word) << shift) >> (64 - len_bits);
    }
    read_be_slow(bytes, at, shift, len_bits)
}

#[cold]
fn read_be_slow(bytes: &[u8], at: usize, shift: u32, len_bits: u32) -> u64 {
    let count = (shift + len_bits).div_ceil(8);
    let word = bytes[at..at + count as usize].iter().fold(0u128, |word, &byte| word << 8 | u128::from(byte));
    (word >> (count * 8 - shift - len_bits)) as u64 & mask(len_bits)
}

/// Reads 1 to 64 bits in a byte order, and reverses them when the field's bit order is not the default one.
#[inline]
pub fn read_bits(bytes: &[u8], offset_bits: u64, len_bits: u32, order: ByteOrder, reversed: bool) -> u64 {
    let value = match order {
        ByteOrder::Little => read_le(bytes, offset_bits, len_bits),
        ByteOrder::Big => read_be(bytes, offset_bits, len_bits),
    };
    if reversed { value.reverse_bits() >> (64 - len_bits) } else { value }
}

/// The number that some bytes hold; of more than 8 bytes, the low 64 bits.
#[inline]
pub fn read_uint(bytes: &[u8], order: ByteOrder) -> u64 {
    // The usual lengths, as one load each.
    match bytes.len() {
        4 => return u32_at(bytes, 0, order).map_or(0, u64::from),
        8 => return u64_at(bytes, 0, order).unwrap_or(0),
        _ => {}
    }
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    match order {
        ByteOrder::Little => bytes.iter().rev().fold(0, add),
        ByteOrder::Big => bytes.iter().fold(0, add),
    }
}

/// The number of 16 bits at a byte of some bytes; `None` when they end before.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u16> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(if order == ByteOrder::Little { u16::from_le_bytes(*field) } else { u16::from_be_bytes(*field) })
}

/// The number of 32 bits at a byte of some bytes; `None` when they end before.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(if order == ByteOrder::Little { u32::from_le_bytes(*field) } else { u32::from_be_bytes(*field) })
}

/// The number of 64 bits at a byte of some bytes; `None` when they end before.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u64> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(if order == ByteOrder::Little { u64::from_le_bytes(*field) } else { u64::from_be_bytes(*field) })
}

/// The 8 bytes of a number.
#[inline]
pub fn uint_bytes(value: u64, order: ByteOrder) -> [u8; 8] {
    match order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    }
}

/// Appends a number in `len_bytes` bytes: its low bytes, or all of them and zeros where the high ones would be.
#[inline]
pub fn put_uint(out: &mut Vec<u8>, value: u64, len_bytes: usize, order: ByteOrder) {
    let (len, zeros) = (len_bytes.min(8), len_bytes.saturating_sub(8));
    let at = out.len();
    match order {
        ByteOrder::Little => out.extend_from_slice(&value.to_le_bytes()[..len]),
        ByteOrder::Big => {
            out.resize(at + zeros, 0);
            out.extend_from_slice(&value.to_be_bytes()[8 - len..]);
        }
    }
    if zeros > 0 {
        out.resize(at + len_bytes, 0);
    }
}

/// Appends a number of 1 to 64 bits from a whole byte on, in the bytes that hold it: the low bits of the first bytes in
/// little-endian, the high ones in big-endian. The bits that are left in the last byte are zeros.
#[inline]
pub fn put_fixed(out: &mut Vec<u8>, value: u64, len_bits: u8, order: ByteOrder) {
    match (len_bits, order) {
        (64, ByteOrder::Little) => out.extend_from_slice(&value.to_le_bytes()),
        (32, ByteOrder::Little) => out.extend_from_slice(&(value as u32).to_le_bytes()),
        (16, ByteOrder::Little) => out.extend_from_slice(&(value as u16).to_le_bytes()),
        (8, _) => out.push(value as u8),
        _ => {
            let len_bits = u32::from(len_bits.clamp(1, 64));
            let (value, bytes) = (value & mask(len_bits), len_bits.div_ceil(8) as usize);
            let value = if order == ByteOrder::Big { value << (len_bits.wrapping_neg() & 7) } else { value };
            put_uint(out, value, bytes, order);
        }
    }
}

/// Writes 1 to 64 bits over those that stand there; bits behind the end of `bytes` are left out.
pub fn write_bits(bytes: &mut [u8], offset_bits: u64, len_bits: u32, value: u64, order: ByteOrder) {
    for at in 0..len_bits {
        let from = if order == ByteOrder::Little { at } else { len_bits - 1 - at };
        write_bit(bytes, offset_bits + u64::from(at), value >> from & 1 == 1, order);
    }
}

fn write_bit(bytes: &mut [u8], offset_bits: u64, is_set: bool, order: ByteOrder) {
    let shift = bit_shift(offset_bits, order);
    if let Some(byte) = bytes.get_mut((offset_bits / 8) as usize) {
        *byte = *byte & !(1 << shift) | u8::from(is_set) << shift;
    }
}

/// How far a bit stands above the lowest one of its byte.
fn bit_shift(offset_bits: u64, order: ByteOrder) -> u64 {
    if order == ByteOrder::Little { offset_bits % 8 } else { 7 - offset_bits % 8 }
}

/// Copies `count` bits to the place `to_bits` of `to`, whose content ends there; bits that `from` does not have are zeros.
///
/// Fast where both places are whole bytes, a step for each bit elsewhere.
pub fn copy_bits(from: &[u8], from_bits: u64, to: &mut Vec<u8>, to_bits: u64, count: u64, order: ByteOrder) {
    let end = ((to_bits + count).div_ceil(8)) as usize;
    // Most events are whole bytes behind whole bytes.
    if (from_bits | to_bits | count) & 7 == 0
        && to.len() as u64 == to_bits / 8
        && let Some(source) = from.get((from_bits / 8) as usize..((from_bits + count) / 8) as usize)
    {
        to.extend_from_slice(source);
        return;
    }
    to.resize(end, 0);
    let mut done = 0;
    if from_bits.is_multiple_of(8) && to_bits.is_multiple_of(8) {
        let (source, target) = ((from_bits / 8) as usize, (to_bits / 8) as usize);
        let whole = (count / 8) as usize;
        if let (Some(source), Some(target)) = (from.get(source..source + whole), to.get_mut(target..target + whole)) {
            target.copy_from_slice(source);
            done = count / 8 * 8;
        }
    }
    for bit in done..count {
        let at = from_bits + bit;
        let is_set = from.get((at / 8) as usize).is_some_and(|byte| byte >> bit_shift(at, order) & 1 == 1);
        write_bit(to, to_bits + bit, is_set, order);
    }
}

/// Index of the first zero byte. Most strings of traces are short: sixteen bytes are looked at before a call is worth it.
#[inline]
pub fn zero_at(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = u64::MAX / 255;
    const HIGH: u64 = LOW << 7;
    for at in [0, 8] {
        let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else {
            return bytes[at..].iter().position(|&byte| byte == 0).map(|zero| at + zero);
        };
        let word = u64::from_le_bytes(*word);
        // The lowest set bit marks the first zero byte; marks above it may be false.
        let zeros = word.wrapping_sub(LOW) & !word & HIGH;
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
    }
    memchr::memchr(0, &bytes[16..]).map(|zero| 16 + zero)
}

/// The low `len_bits` bits set; `len_bits` is 1 to 64.
#[inline]
pub fn mask(len_bits: u32) -> u64 {
    u64::MAX >> (64 - len_bits)
}

/// Extends the sign of a number of `len_bits` (1 to 64) bits.
#[inline]
pub fn sign_extend(value: u64, len_bits: u32) -> i64 {
    let shift = 64 - len_bits;
    ((value << shift) as i64) >> shift
}

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
        let fill = if self.is_negative() { u64::MAX } else { 0 };
        let limb = |at: usize| self.limbs.get(at).copied().unwrap_or(fill);
        let value = (u128::from(limb(1)) << 64 | u128::from(limb(0))) as i128;
        let rest_is_sign = self.limbs.iter().skip(2).all(|&limb| limb == fill);
        (rest_is_sign && (value < 0) == self.is_negative()).then_some(value)
    }

    fn is_negative(&self) -> bool {
        self.signed && self.limbs.last().is_some_and(|&top| top >> 63 == 1)
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
    let filler = if value.is_negative() { u64::MAX } else { 0 };
    let bit = |at: u32| value.limbs.get(at as usize / 64).unwrap_or(&filler) >> (at % 64) & 1;
    let bytes = len_bits.div_ceil(8);
    for byte in 0..bytes {
        let mut sum = 0u8;
        for at in 0..8 {
            let place = byte * 8 + at;
            let set = match order {
                ByteOrder::Little => place < len_bits && bit(place) == 1,
                ByteOrder::Big => place < len_bits && bit(len_bits - 1 - place) == 1,
            };
            sum |= u8::from(set) << bit_shift(at.into(), order);
        }
        out.push(sum);
    }
}

/// Appends a LEB128 integer of 64 bits.
pub fn put_leb(out: &mut Vec<u8>, value: u64, signed: bool) {
    let mut left = value;
    loop {
        let low = (left & 0x7f) as u8;
        left = if signed { ((left as i64) >> 7) as u64 } else { left >> 7 };
        let is_last = match signed {
            false => left == 0,
            true => left == 0 && low & 0x40 == 0 || left == u64::MAX && low & 0x40 != 0,
        };
        out.push(if is_last { low } else { low | 0x80 });
        if is_last {
            return;
        }
    }
}

/// Appends a LEB128 integer of any width.
pub fn put_leb_wide(out: &mut Vec<u8>, value: &Wide) {
    let len_bits = value.limbs.len() as u32 * 64;
    let is_negative = value.is_negative();
    let bit = |at: u32| match value.limbs.get(at as usize / 64) {
        Some(limb) => limb >> (at % 64) & 1 == 1,
        None => is_negative,
    };
    // The bits that count; a signed number needs one more for its sign.
    let top = (0..len_bits).rev().find(|&at| bit(at) != is_negative).map_or(0, |at| at + 1);
    let count = (top + u32::from(value.signed)).max(1).div_ceil(7);
    for group in 0..count {
        let low = (0..7).fold(0u8, |sum, at| sum | u8::from(bit(group * 7 + at)) << at);
        out.push(if group + 1 < count { low | 0x80 } else { low });
    }
}

/// Reads an IEEE 754 interchange number of 16, 32, 64, 128 or another multiple of 32 bits as a 64-bit one.
///
/// 16 and 32 bits are widened exactly (the payload of a NaN apart), wider ones are rounded to nearest, ties to even.
pub fn read_float(bytes: &[u8], offset_bits: u64, len_bits: u32, order: ByteOrder, reversed: bool) -> f64 {
    match len_bits {
        32 => f64::from(f32::from_bits(read_bits(bytes, offset_bits, 32, order, reversed) as u32)),
        64 => f64::from_bits(read_bits(bytes, offset_bits, 64, order, reversed)),
        16 => round_float(&[read_bits(bytes, offset_bits, 16, order, reversed)], 16, 5),
        _ => {
            let wide = Wide::read(bytes, offset_bits, len_bits, order, reversed, false);
            round_float(&wide.limbs, len_bits, exponent_bits(len_bits))
        }
    }
}

/// Width of the exponent: 15 for 128 bits, then `round(4 * log2(k)) - 13` (IEEE 754-2008, table 3.5).
fn exponent_bits(len_bits: u32) -> u32 {
    (4.0 * f64::from(len_bits).log2()).round() as u32 - 13
}

fn round_float(limbs: &[u64], len_bits: u32, exponent_bits: u32) -> f64 {
    let bit = |at: u32| limbs[at as usize / 64] >> (at % 64) & 1;
    let sign = if bit(len_bits - 1) == 1 { -1.0 } else { 1.0 };
    let mantissa_bits = len_bits - 1 - exponent_bits;
    // The exponent of 2^19 bits has 63 bits, that of 2^20 bits has 67.
    let exponent = (0..exponent_bits).rev().fold(0i128, |e, at| e << 1 | i128::from(bit(mantissa_bits + at)));
    let top = (0..mantissa_bits).rev().find(|&at| bit(at) == 1);
    let all_ones = (1i128 << exponent_bits) - 1;
    if exponent == all_ones {
        return if top.is_some() { f64::NAN } else { sign * f64::INFINITY };
    }
    let bias = all_ones >> 1;
    // The value is significand * 2^scale, with 64 significant bits kept and the rest folded into a sticky bit.
    let (first, first_is_hidden) = match (exponent, top) {
        (0, None) => return sign * 0.0,
        (0, Some(top)) => (top, false),
        _ => (mantissa_bits, true),
    };
    // Far outside of the range of 64-bit floats one exponent is as good as another.
    let unit = (exponent.max(1) - bias - i128::from(mantissa_bits)).clamp(-1 << 40, 1 << 40) as i64;
    let low = (i64::from(first) - 61).max(0) as u32;
    let mut significand = u64::from(first_is_hidden);
    for at in (low..if first_is_hidden { first } else { first + 1 }).rev() {
        significand = significand << 1 | bit(at);
    }
    let sticky = (0..low).any(|at| bit(at) == 1);
    let scale = unit + i64::from(low);
    sign * scale_exactly(significand << 1 | u64::from(sticky), scale - 1)
}

/// `significand * 2^scale` rounded once to the nearest 64-bit float; the last bit of the significand is sticky.
fn scale_exactly(significand: u64, scale: i64) -> f64 {
    let bits = 64 - i64::from(significand.leading_zeros());
    let exponent = bits + scale;
    if exponent > 1024 {
        return f64::INFINITY;
    }
    let keep = if exponent >= -1021 { 53 } else { 53 - (-1021 - exponent) };
    if keep < 0 {
        return 0.0;
    }
    let drop = bits - keep;
    if drop <= 0 {
        return significand as f64 * pow2(scale);
    }
    let (kept, half) = if drop >= 64 {
        (0, drop == 64 && significand >> 63 == 1)
    } else {
        (significand >> drop, significand >> (drop - 1) & 1 == 1)
    };
    let rest = significand & (mask(drop.min(64) as u32) >> 1) != 0;
    let rounded = kept + u64::from(half && (rest || kept & 1 == 1));
    rounded as f64 * pow2(scale + drop)
}

/// 2^exponent, in two factors when one would leave the range.
fn pow2(exponent: i64) -> f64 {
    if exponent < -1022 {
        return f64::from_bits(1u64 << (exponent + 1074).clamp(0, 51));
    }
    f64::from_bits(((exponent.min(1023) + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, straight from the text of CTF 1.8.3, 4.1.5.
    fn naive(bytes: &[u8], offset: u64, len: u32, order: ByteOrder) -> u64 {
        let mut value = 0u64;
        for i in 0..u64::from(len) {
            let (byte, bit) = (((offset + i) / 8) as usize, (offset + i) % 8);
            match order {
                ByteOrder::Little => value |= u64::from(bytes[byte] >> bit & 1) << i,
                ByteOrder::Big => value = value << 1 | u64::from(bytes[byte] >> (7 - bit) & 1),
            }
        }
        value
    }

    #[test]
    fn every_offset_and_width_agrees_with_the_definition() {
        let bytes: Vec<u8> = (0..20u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for offset in 0..=96 {
                for len in 1..=64 {
                    let want = naive(&bytes, offset, len, order);
                    assert_eq!(read_bits(&bytes, offset, len, order, false), want, "{order:?} {offset} {len}");
                }
            }
        }
    }

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
    fn half_and_quad_floats_are_exact() {
        let half = |bits: u16| read_float(&bits.to_le_bytes(), 0, 16, ByteOrder::Little, false);
        assert_eq!(half(0x3c00), 1.0);
        assert_eq!(half(0x3555), 0.333_251_953_125);
        assert_eq!(half(0x0001), 5.960_464_477_539_063e-8);
        assert_eq!(half(0x7bff), 65504.0);
        assert_eq!(half(0xfc00), f64::NEG_INFINITY);
        assert!(half(0x8000).is_sign_negative() && half(0x8000) == 0.0);
        assert!(half(0x7e00).is_nan());
        let quad = |bits: u128| read_float(&bits.to_be_bytes(), 0, 128, ByteOrder::Big, false);
        assert_eq!(quad(0x3fff << 112), 1.0);
        assert_eq!(quad(0xc000_921f_b544_42d1_8469_898c_c517_01b8), -std::f64::consts::PI);
        assert_eq!(quad(0x7ffe << 112), f64::INFINITY);
        assert_eq!(quad((0x3fff - 1074) << 112), 5e-324);
        assert_eq!(quad((0x3fff - 1076) << 112), 0.0);
        // Exactly between two doubles goes to the even one; a bit more goes up.
        assert_eq!(quad((0x3fff << 112) + (1 << 59)), 1.0);
        assert_eq!(quad((0x3fff << 112) + (1 << 59) + 1), 1.0 + f64::EPSILON);
    }

    #[test]
    fn quads_made_from_doubles_come_back() {
        let mut bits = 0x1234_5678_9abc_def1u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let double = f64::from_bits(bits);
            if !double.is_normal() {
                continue;
            }
            let exponent = (bits >> 52 & 0x7ff) as u128 + 16383 - 1023;
            let quad = u128::from(bits >> 63) << 127 | exponent << 112 | u128::from(bits & mask(52)) << 60;
            let back = read_float(&quad.to_le_bytes(), 0, 128, ByteOrder::Little, false);
            assert_eq!(back.to_bits(), bits);
        }
    }

    #[test]
    fn integers_of_every_width_come_back() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for len_bits in 1..=64u8 {
                for value in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
                    let mut out = Vec::new();
                    put_fixed(&mut out, value, len_bits, order);
                    assert_eq!(out.len(), usize::from(len_bits).div_ceil(8));
                    let back = read_bits(&out, 0, u32::from(len_bits), order, false);
                    assert_eq!(back, value & mask(u32::from(len_bits)), "{order:?} {len_bits}");
                    let mut wide = Vec::new();
                    put_wide(&mut wide, &Wide { limbs: vec![value], signed: false }, u32::from(len_bits), order);
                    assert_eq!(wide, out);
                }
            }
        }
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

    #[test]
    fn zero_is_found_wherever_it_is() {
        for len in 0..40 {
            for zero in 0..len {
                for fill in [1u8, 0x80, 0xff] {
                    let mut bytes = vec![fill; len];
                    bytes[zero] = 0;
                    assert_eq!(zero_at(&bytes), Some(zero), "{len} {zero} {fill}");
                }
            }
            assert_eq!(zero_at(&vec![1; len]), None);
        }
    }

    #[test]
    fn bits_are_written_where_they_are_read() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (at, len) in [(0, 64), (3, 27), (13, 33), (7, 1), (8, 16)] {
                let mut bytes = vec![0xff; 12];
                let value = 0x0123_4567_89ab_cdef & mask(len);
                write_bits(&mut bytes, at, len, value, order);
                assert_eq!(read_bits(&bytes, at, len, order, false), value, "{order:?} {at} {len}");
                write_bits(&mut bytes, at, len, mask(len), order);
                assert_eq!(bytes, [0xff; 12], "nothing else was touched");
            }
        }
    }

    #[test]
    fn numbers_of_whole_bytes_come_back() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for len in 0..=12 {
                let mut bytes = vec![7];
                put_uint(&mut bytes, 0x0123_4567_89ab_cdef, len, order);
                assert_eq!(bytes.len(), 1 + len);
                let bits = 8 * len.min(8) as u32;
                let want = if len == 0 { 0 } else { 0x0123_4567_89ab_cdef & mask(bits) };
                assert_eq!(read_uint(&bytes[1..], order), want);
                assert_eq!(u16_at(&bytes, 1, order).map(u64::from), (len >= 2).then(|| read_uint(&bytes[1..3], order)));
                assert_eq!(u32_at(&bytes, 1, order).map(u64::from), (len >= 4).then(|| read_uint(&bytes[1..5], order)));
                assert_eq!(u64_at(&bytes, 1, order), (len >= 8).then(|| read_uint(&bytes[1..9], order)));
            }
        }
    }

    #[test]
    fn bits_move_between_places() {
        let from: Vec<u8> = (0..16u8).map(|i| i.wrapping_mul(37)).collect();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (a, b, count) in [(0, 0, 64), (3, 8, 30), (8, 16, 21), (16, 0, 5)] {
                let mut to = Vec::new();
                copy_bits(&from, a, &mut to, b, count, order);
                let read = |bytes: &[u8], at| read_bits(bytes, at, count as u32, order, false);
                assert_eq!(read(&from, a), read(&to, b), "{order:?} {a} {b} {count}");
                assert_eq!(to.len() as u64, (b + count).div_ceil(8));
            }
        }
    }
}
