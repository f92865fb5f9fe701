//! Exact sums: integers of 192 bits, products of 256.
//!
//! A duration has up to 64 bits and there may be 2^64 of them, so a sum of squares needs 192 bits, and what the
//! variance is made of 256. With that nothing is rounded before the last step.

use std::cmp::Ordering;

/// A sum of products of two 64-bit numbers: up to 2^64 of them fit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Sum192 {
    low: u128,
    high: u64,
}

impl Sum192 {
    /// Adds `a * b`.
    #[inline]
    pub(crate) fn add_product(&mut self, a: u64, b: u64) {
        let (low, carry) = self.low.overflowing_add(u128::from(a) * u128::from(b));
        self.low = low;
        self.high += u64::from(carry);
    }

    pub(crate) fn add(&mut self, other: Sum192) {
        let (low, carry) = self.low.overflowing_add(other.low);
        self.low = low;
        self.high += other.high + u64::from(carry);
    }

    /// The sum times a number.
    pub(crate) fn times(self, factor: u64) -> U256 {
        let mut product = U256::product(self.low, u128::from(factor));
        product.high += u128::from(self.high) * u128::from(factor);
        product
    }
}

/// An integer of 256 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct U256 {
    high: u128,
    low: u128,
}

impl U256 {
    pub(crate) fn product(a: u128, b: u128) -> U256 {
        const LOW: u128 = u64::MAX as u128;
        let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
        let (cross, carry) = (a1 * b0).overflowing_add(a0 * b1);
        let (low, low_carry) = (a0 * b0).overflowing_add(cross << 64);
        let high = a1 * b1 + (cross >> 64) + (u128::from(carry) << 64) + u128::from(low_carry);
        U256 { high, low }
    }

    /// `self - other` as a sign and a magnitude in floating point: exact but for the last rounding.
    pub(crate) fn minus(self, other: U256) -> f64 {
        match self.cmp(&other) {
            Ordering::Less => -other.sub(self).to_f64(),
            _ => self.sub(other).to_f64(),
        }
    }

    fn sub(self, other: U256) -> U256 {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        U256 { high: self.high - other.high - u128::from(borrow), low }
    }

    fn to_f64(self) -> f64 {
        self.high as f64 * 2f64.powi(128) + self.low as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_carry() {
        let all = U256::product(u128::MAX, u128::MAX);
        assert_eq!((all.high, all.low), (u128::MAX - 1, 1));
        let one = U256::product(1 << 127, 2);
        assert_eq!((one.high, one.low), (1, 0));
        assert_eq!(U256::product(3, 5), U256 { high: 0, low: 15 });
    }

    #[test]
    fn squares_of_the_largest_durations_fit() {
        let mut sum = Sum192::default();
        (0..5).for_each(|_| sum.add_product(u64::MAX, u64::MAX));
        // 5 * (2^64 - 1)^2 = 5 * 2^128 - 10 * 2^64 + 5.
        assert_eq!(sum, Sum192 { high: 4, low: u128::MAX - (10 << 64) + 6 });
        // n * sum of squares - (sum)^2 is 0 when all are equal.
        let total = 5 * u128::from(u64::MAX);
        assert_eq!(sum.times(5).minus(U256::product(total, total)), 0.0);
        assert_eq!(U256::product(2, 3).minus(U256::product(2, 4)), -2.0);
    }
}
