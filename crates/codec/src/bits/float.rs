//! Floating point numbers of IEEE 754 of any size.

use tracemill_model::schema::ByteOrder;

use super::{Wide, mask, read_bits};

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
    sign * nearest_float(significand << 1 | u64::from(sticky), scale - 1)
}

/// `significand * 2^scale`, rounded once to the nearest 64-bit float, ties to even.
pub fn nearest_float(significand: u64, scale: i64) -> f64 {
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

/// The nearest number with an exponent and a mantissa of some bits, in the binary format of IEEE 754.
pub fn float_bits(value: f64, exponent_bits: u32, mantissa_bits: u32) -> u128 {
    let bits = value.to_bits();
    let sign = u128::from(bits >> 63) << (exponent_bits + mantissa_bits);
    let all_ones = (1u128 << exponent_bits) - 1;
    let mantissa = bits & ((1 << 52) - 1);
    // A mantissa of 52 bits in the other format; what falls off is rounded to the even one of two that are as near.
    let scale = |significand: u128, shift: i64| -> u128 {
        if shift >= 0 {
            return significand << shift;
        }
        let shift = (-shift).min(100) as u32;
        let (kept, lost) = (significand >> shift, significand & ((1u128 << shift) - 1));
        let half = 1u128 << (shift - 1);
        kept + u128::from(lost > half || lost == half && kept & 1 == 1)
    };
    let widen = i64::from(mantissa_bits) - 52;
    if value.is_nan() {
        let payload = if widen >= 0 { u128::from(mantissa) << widen } else { u128::from(mantissa) >> -widen };
        return sign | all_ones << mantissa_bits | payload.max(1);
    }
    if value.is_infinite() {
        return sign | all_ones << mantissa_bits;
    }
    if value == 0.0 {
        return sign;
    }
    // Normalised: 1.m times a power of two.
    let (significand, power) = match bits >> 52 & 0x7ff {
        0 => {
            let zeros = mantissa.leading_zeros() - 11;
            (mantissa << zeros, -1022 - i64::from(zeros))
        }
        exponent => (mantissa | 1 << 52, exponent as i64 - 1023),
    };
    let exponent = power + (all_ones / 2) as i64;
    if exponent >= all_ones as i64 {
        return sign | all_ones << mantissa_bits;
    }
    if exponent <= 0 {
        // Below the smallest normal number; rounding may reach that.
        return sign | scale(significand.into(), widen + exponent - 1);
    }
    let hidden = 1u128 << mantissa_bits;
    let scaled = scale(significand.into(), widen);
    // A carry out of the mantissa adds 1 to the exponent.
    sign | (((exponent as u128) << mantissa_bits) + scaled - hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn floats_of_other_sizes_are_the_nearest_ones() {
        let half = |value: f64| float_bits(value, 5, 10);
        assert_eq!(half(1.0), 0x3c00);
        assert_eq!(half(-2.0), 0xc000);
        assert_eq!(half(65504.0), 0x7bff);
        assert_eq!(half(65520.0), 0x7c00, "rounds up to infinity");
        assert_eq!(half(f64::from(2f32.powi(-24))), 1);
        assert_eq!(half(6.097_555_160_522_461e-5), 0x3ff, "the largest that is not normal");
        assert_eq!(half(0.1), 0x2e66);
        assert_eq!(half(f64::NEG_INFINITY), 0xfc00);
        assert_eq!(half(f64::NAN) >> 10 & 0x1f, 0x1f);
        assert_eq!(float_bits(1.5, 15, 112), 0x3fff_8000u128 << 96);
        assert_eq!(float_bits(5e-324, 15, 112) >> 112, 16383 - 1074);
    }
}
