//! Short texts, put together in a block of fixed size: most names and data have some ten octets, and calls, checks of
//! capacity and copies of any length cost more than they do.

use tracemill_model::schema::QUICK_BYTES;

/// Octets of a block; texts that do not fit are made the long way.
const SIZE: usize = QUICK_BYTES;
/// Octets that are copied in one go.
pub(super) const STEP: usize = 16;

/// The memory of a block.
#[inline]
pub(super) fn block(scratch: &mut Vec<u8>) -> Option<&mut [u8; SIZE]> {
    if scratch.len() < SIZE {
        scratch.resize(SIZE, 0);
    }
    scratch.first_chunk_mut()
}

/// Octets of a kept name.
const NAME: usize = 2 * STEP;

/// Names by small numbers: those that are short and printable ASCII, ready to be copied.
#[derive(Clone, Debug)]
pub(super) struct Names(Vec<([u8; NAME], u8)>);

impl Names {
    /// Keeps what can be kept of names in the order of their numbers.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a [u8]>) -> Self {
        let kept = names.map(|name| {
            let mut block = [0; NAME];
            let name = if name.len() <= NAME && is_plain(name) { name } else { &[] };
            block[..name.len()].copy_from_slice(name);
            (block, name.len() as u8)
        });
        Names(kept.collect())
    }

    /// Copies a name to the beginning of a block: its length. `None` when it is not kept, or empty.
    #[inline]
    pub(super) fn copy(&self, number: u32, block: &mut [u8; SIZE]) -> Option<usize> {
        let (name, len) = self.0.get(number as usize).filter(|name| name.1 > 0)?;
        block[..NAME].copy_from_slice(name);
        Some(usize::from(*len))
    }
}

/// A text being made.
pub(super) struct Short<'a> {
    block: &'a mut [u8; SIZE],
    len: usize,
    is_full: bool,
}

impl<'a> Short<'a> {
    /// An empty text.
    #[inline]
    pub(super) fn new(block: &'a mut [u8; SIZE]) -> Self {
        Short { block, len: 0, is_full: false }
    }

    /// Its length, when all of it fits.
    #[inline]
    pub(super) fn finish(self) -> Option<usize> {
        (!self.is_full).then_some(self.len)
    }

    /// The same when it must be printable ASCII.
    #[inline]
    pub(super) fn finish_plain(self) -> Option<usize> {
        (!self.is_full && is_plain(self.block.get(..self.len)?)).then_some(self.len)
    }

    /// The same when it must be ASCII.
    #[inline]
    pub(super) fn finish_ascii(self) -> Option<usize> {
        (!self.is_full && self.block.get(..self.len)?.is_ascii()).then_some(self.len)
    }

    #[inline]
    fn room<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let room = self.block.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut::<N>());
        if room.is_none() {
            self.is_full = true;
        }
        room
    }

    /// Appends `len` octets of a text from `from` on. The text goes on for a step behind them, or they are copied slowly.
    #[inline]
    pub(super) fn put_from(&mut self, text: &[u8], from: usize, len: usize) {
        match text.get(from..).and_then(|rest| rest.first_chunk::<STEP>()) {
            Some(step) if len <= STEP => {
                if let Some(room) = self.room() {
                    *room = *step;
                    self.len += len;
                }
            }
            _ => self.put(text.get(from..from + len).unwrap_or(&[])),
        }
    }

    /// The same for texts of any length that are often longer than a step.
    #[inline]
    pub(super) fn put_string(&mut self, text: &[u8], len: usize) {
        match text.first_chunk::<{ 2 * STEP }>() {
            Some(steps) if len <= 2 * STEP => {
                if let Some(room) = self.room() {
                    *room = *steps;
                    self.len += len;
                }
            }
            _ => self.put_from(text, 0, len),
        }
    }

    /// Appends octets.
    #[inline(never)]
    pub(super) fn put(&mut self, text: &[u8]) {
        match self.block.get_mut(self.len..self.len + text.len()) {
            Some(room) => {
                room.copy_from_slice(text);
                self.len += text.len();
            }
            None => self.is_full = true,
        }
    }

    /// Appends a signed number in base 10.
    #[inline]
    pub(super) fn put_signed(&mut self, value: i64) {
        if value < 0
            && let Some(room) = self.room::<1>()
        {
            room[0] = b'-';
            self.len += 1;
        }
        self.put_unsigned(value.unsigned_abs());
    }

    /// Appends a number in base 10.
    #[inline]
    pub(super) fn put_unsigned(&mut self, value: u64) {
        let Some(room) = self.room::<4>() else { return };
        let digit = |value: u64| b'0' + (value % 10) as u8;
        self.len += match value {
            0..10 => {
                room[0] = digit(value);
                1
            }
            10..100 => {
                (room[0], room[1]) = (digit(value / 10), digit(value));
                2
            }
            100..1000 => {
                (room[0], room[1], room[2]) = (digit(value / 100), digit(value / 10), digit(value));
                3
            }
            _ => return self.put_large(value),
        };
    }

    #[inline(never)]
    fn put_large(&mut self, mut value: u64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        while value > 0 {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
        }
        self.put(&digits[at..]);
    }

    /// Appends a number in base 16, with zeros up to a width of at most 16.
    #[inline]
    pub(super) fn put_hex(&mut self, value: u64, width: usize) {
        let count = ((16 - value.leading_zeros() / 4) as usize).max(width).clamp(1, 16);
        let Some(room) = self.room::<16>() else { return };
        let left = value << ((16 - count) * 4);
        for (pair, octet) in room.as_chunks_mut::<2>().0.iter_mut().zip(left.to_be_bytes()) {
            *pair = [octet >> 4, octet & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
        }
        self.len += count;
    }
}

/// Is a text printable ASCII?
#[inline]
pub(super) fn is_plain(text: &[u8]) -> bool {
    const EACH: u64 = u64::MAX / 255;
    let (words, rest) = text.as_chunks::<8>();
    let marks = words.iter().fold(0, |marks, word| {
        let word = u64::from_le_bytes(*word);
        let delete = word ^ (EACH * 0x7f);
        // A false mark stands only above a true one.
        marks | word | (word.wrapping_sub(EACH * 0x20) & !word) | (delete.wrapping_sub(EACH) & !delete)
    });
    marks & (EACH << 7) == 0 && rest.iter().fold(true, |is_plain, octet| is_plain & matches!(octet, 0x20..0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_printable_ascii() {
        for octet in 0..=255u8 {
            for len in [1, 3, 8, 9, 24, 31] {
                for at in 0..len {
                    let mut text = vec![b'~'; len];
                    text[at] = octet;
                    assert_eq!(is_plain(&text), (0x20..0x7f).contains(&octet), "{octet} at {at} of {len}");
                }
            }
        }
    }

    fn made(make: impl Fn(&mut Short<'_>)) -> Option<String> {
        let mut scratch = vec![0xff; 3];
        let mut short = Short::new(block(&mut scratch)?);
        make(&mut short);
        let len = short.finish()?;
        Some(String::from_utf8(scratch[..len].to_vec()).unwrap())
    }

    #[test]
    fn numbers() {
        for value in [0u64, 9, 10, 99, 100, 999, 1000, 4_294_967_295, u64::MAX] {
            assert_eq!(made(|short| short.put_unsigned(value)), Some(value.to_string()));
            for width in 0..=16 {
                assert_eq!(made(|short| short.put_hex(value, width)), Some(format!("{value:0width$x}")));
            }
        }
        for value in [0, -1, -1000, i64::MIN, i64::MAX] {
            assert_eq!(made(|short| short.put_signed(value)), Some(value.to_string()));
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let text = [b'x'; 300];
        assert_eq!(made(|short| short.put(&text[..SIZE])), Some("x".repeat(SIZE)));
        assert_eq!(made(|short| short.put(&text)), None);
        assert_eq!(made(|short| (0..100).for_each(|_| short.put_from(b"abc", 1, 2))), None);
        assert_eq!(made(|short| (0..9).for_each(|_| short.put_from(&text, 7, 16))), Some("x".repeat(144)));
        assert_eq!(made(|short| (0..200).for_each(|at| short.put_unsigned(at))), None);
    }
}
