//! Numbers of bits: integers of any width, floats of any size, and clocks of which a field shows the low bits.

use tracemill_codec::bits::Wide;

use crate::DecodedValue;

/// The clock after a field of `len_bits` bits that shows `value` (CTF 1.8.3, section 8).
pub(crate) fn extended(clock: u64, value: u64, len_bits: u32) -> u64 {
    if len_bits >= 64 {
        return value;
    }
    let wrap = 1u64 << len_bits;
    let (now, new) = (clock % wrap, value % wrap);
    let base = if new < now { (clock - now).wrapping_add(wrap) } else { clock - now };
    base.wrapping_add(new)
}

pub(crate) fn number_value(bits: &[bool], is_signed: bool) -> DecodedValue {
    let wide = wide_of(bits, is_signed);
    if bits.len() <= 64 { DecodedValue::Unsigned(wide.limbs[0]) } else { DecodedValue::Wide(wide) }
}

pub(crate) fn wide_of(bits: &[bool], is_signed: bool) -> Wide {
    let sign = is_signed && bits[bits.len() - 1];
    let bit = |at: usize| bits.get(at).copied().unwrap_or(sign);
    let limb = |limb: usize| (0..64).map(|at| u64::from(bit(limb * 64 + at)) << at).sum();
    Wide { limbs: (0..bits.len().div_ceil(64)).map(limb).collect(), signed: is_signed }
}

/// The 64-bit float nearest to an IEEE 754 number, the even one of two that are as near; all NaNs are one.
pub(crate) fn real(bits: &[bool]) -> f64 {
    let number = |bits: &[bool]| bits.iter().rev().fold(0u128, |n, &bit| n << 1 | u128::from(bit));
    let len = bits.len();
    let exponent_len = match len {
        16 => 5,
        32 => 8,
        64 => 11,
        _ => (4.0 * (len as f64).log2()).round() as usize - 13,
    };
    let (mantissa, rest) = bits.split_at(len - 1 - exponent_len);
    let (exponent, sign) = (number(&rest[..exponent_len]) as i128, rest[exponent_len]);
    let all_ones = (1i128 << exponent_len) - 1;
    let signed = |magnitude: u64| f64::from_bits(u64::from(sign) << 63 | magnitude);
    if exponent == all_ones {
        return if mantissa.contains(&true) { f64::NAN } else { signed(0x7ff << 52) };
    }
    // Significant bits, the most significant one first, and the exponent of the first one.
    let mut digits: Vec<bool> = mantissa.iter().rev().copied().collect();
    digits.insert(0, exponent != 0);
    let Some(zeros) = digits.iter().position(|&bit| bit) else { return signed(0) };
    digits.drain(..zeros);
    let power = exponent.max(1) - all_ones / 2 - zeros as i128;
    if power > 1023 {
        return signed(0x7ff << 52);
    }
    // A normal number keeps 53 digits; below 2^-1022 each halving costs one.
    let keep = (53 - (-1022 - power).max(0)).max(-1);
    if keep < 0 {
        return signed(0);
    }
    digits.resize(digits.len().max(keep as usize + 1), false);
    let (kept, lost) = digits.split_at(keep as usize);
    let kept = kept.iter().fold(0u64, |n, &bit| n << 1 | u64::from(bit));
    // The hidden bit adds 1 to the exponent field, and so does a carry out of the mantissa.
    let exponent_field = (power + 1022).max(0) as u64;
    let is_up = lost[0] && (lost[1..].contains(&true) || kept % 2 == 1);
    signed((exponent_field << 52) + kept + u64::from(is_up))
}
