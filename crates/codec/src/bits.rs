//! Numbers as bytes and bits, in both byte orders: the one place that reads and writes them.
//!
//! | | read | write |
//! |---|---|---|
//! | whole bytes | [`read_uint`], [`u16_at`], [`u32_at`], [`u64_at`] | [`put_uint`], [`uint_bytes`] |
//! | bits at any offset | [`read_bits`], [`read_le`], [`read_be`] | [`write_bits`] |
//! | bits at a whole byte | [`read_bits`] | [`put_fixed`] |
//! | more than 64 bits | [`Wide::read`] | [`put_wide`] |
//! | LEB128 | [`leb128_len`] with [`leb128_u64`], [`leb128_wide`]; [`take_leb`] | [`put_leb`], [`put_leb_wide`] |
//! | IEEE 754 | [`read_float`], [`nearest_float`] | [`put_uint`] of `to_bits()`, [`float_bits`] |
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
//! // Three bits after the first two of a little-endian byte.
//! let mut byte = [0];
//! write_bits(&mut byte, 2, 3, 0b101, Little);
//! assert_eq!(byte, [0b0001_0100]);
//! assert_eq!(read_bits(&byte, 2, 3, Little, false), 0b101);
//! ```

mod float;
mod wide;

use tracemill_model::schema::ByteOrder;

pub use float::{float_bits, nearest_float, read_float};
pub use wide::{
    LEB128_MAX_BYTES, Wide, leb128_len, leb128_u64, leb128_wide, limbs_of_digits, negate, put_leb, put_leb_wide,
    put_wide, take_leb,
};

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
        (64, ByteOrder::Big) => out.extend_from_slice(&value.to_be_bytes()),
        (32, ByteOrder::Big) => out.extend_from_slice(&(value as u32).to_be_bytes()),
        (16, ByteOrder::Big) => out.extend_from_slice(&(value as u16).to_be_bytes()),
        (8, _) => out.push(value as u8),
        _ => {
            let len_bits = u32::from(len_bits.clamp(1, 64));
            let (value, bytes) = (value & mask(len_bits), len_bits.div_ceil(8) as usize);
            let value = if order == ByteOrder::Big { value << (len_bits.wrapping_neg() & 7) } else { value };
            put_uint(out, value, bytes, order);
        }
    }
}

/// Writes 1 to 64 bits over those that stand there; bits after the end of `bytes` are left out.
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
    // Most events are whole bytes after whole bytes.
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
