//! Widths of texts and numbers.

use tracemill_codec::text::out::Out;

/// A text of so many characters, cut to a width: of a path, the end says more.
pub(crate) fn shortened(text: &str, chars: usize, width: usize) -> String {
    let kept = width.saturating_sub(1);
    match text.starts_with('/') {
        true => ['…'].into_iter().chain(text.chars().skip(chars - kept)).collect(),
        false => text.chars().take(kept).chain(['…']).collect(),
    }
}

/// Is a text shown as it is, and of one byte a character?
#[inline]
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// Appends blanks.
pub fn put_blanks(out: &mut Out, mut count: usize) {
    const BLANKS: [u8; 32] = [b' '; 32];
    while count > 0 {
        // Blocks of fixed size are faster than as many as there are.
        let some = count.min(BLANKS.len());
        *out.room() = BLANKS;
        out.advance(some);
        count -= some;
    }
}

/// Digits of a number that is not below 0.
#[inline]
pub fn digits(value: i128) -> usize {
    let Ok(value) = u64::try_from(value) else { return value.to_string().len() };
    // A number of so many bits has at least this many digits less one: 1233 / 4096 is a little below log10(2).
    let fewest = ((64 - (value | 1).leading_zeros() as usize) * 1233) >> 12;
    fewest + usize::from(POWERS.get(fewest).is_some_and(|power| value >= *power)).max(usize::from(fewest == 0))
}

/// The powers of ten of 64 bits.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Characters of a text.
pub fn count(text: &[u8]) -> usize {
    if text.is_ascii() { text.len() } else { String::from_utf8_lossy(text).chars().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_counted() {
        for value in [0, 1, 9, 10, 99, 100, 999_999_999, 1_000_000_000, u64::MAX / 10, u64::MAX] {
            for near in [value.saturating_sub(1), value, value.saturating_add(1)] {
                assert_eq!(digits(near.into()), near.to_string().len(), "{near}");
            }
        }
        assert_eq!(digits(i128::MAX), 39);
    }
}
