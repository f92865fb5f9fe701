//! Short texts, put together in a block of fixed size: most names and data have some ten octets, and calls, checks of
//! capacity and copies of any length cost more than they do.

use tracemill_codec::text::put_back;
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

/// Octets of a kept name or string.
pub(super) const NAME: usize = 2 * STEP;

/// Names by small numbers: those that are short and printable ASCII, ready to be copied.
#[derive(Clone, Debug)]
pub(super) struct ShortNames(Vec<([u8; NAME], u8)>);

impl ShortNames {
    /// Keeps what can be kept of names in the order of their numbers.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a [u8]>) -> Self {
        let kept = names.map(|name| {
            let mut block = [0; NAME];
            let name = if name.len() <= NAME && is_plain(name) { name } else { &[] };
            block[..name.len()].copy_from_slice(name);
            (block, name.len() as u8)
        });
        ShortNames(kept.collect())
    }

    /// A name: a block that begins with it, and its length. `None` when it is not kept, or empty.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<(&[u8; NAME], usize)> {
        let (name, len) = self.0.get(number).filter(|name| name.1 > 0)?;
        Some((name, usize::from(*len)))
    }

    /// Copies a name to the beginning of a block: its length. `None` when it is not kept, or empty.
    #[inline]
    pub(super) fn copy(&self, number: u32, block: &mut [u8; SIZE]) -> Option<usize> {
        let (name, len) = self.get(number as usize)?;
        block[..NAME].copy_from_slice(name);
        Some(len)
    }
}

/// A text being made.
pub(super) struct FastText<'a> {
    block: &'a mut [u8; SIZE],
    len: usize,
    is_full: bool,
    /// Is there a string in it that was not looked at yet?
    is_unsure: bool,
}

impl<'a> FastText<'a> {
    /// An empty text.
    #[inline]
    pub(super) fn new(block: &'a mut [u8; SIZE]) -> Self {
        FastText { block, len: 0, is_full: false, is_unsure: false }
    }

    /// Its length, when all of it fits.
    #[inline]
    pub(super) fn finish(self) -> Option<usize> {
        (!self.is_full).then_some(self.len)
    }

    /// Its length, when all of it fits and is printable ASCII; `is_else_plain` says that all but its strings is.
    #[inline]
    pub(super) fn finish_plain(self, is_else_plain: bool) -> Option<usize> {
        if is_else_plain && !self.is_unsure {
            return self.finish();
        }
        (!self.is_full && is_plain(self.block.get(..self.len)?)).then_some(self.len)
    }

    /// Its length, when all of it fits and is ASCII.
    #[inline]
    pub(super) fn finish_ascii(self) -> Option<usize> {
        (!self.is_full && self.block.get(..self.len)?.is_ascii()).then_some(self.len)
    }

    #[inline]
    fn room<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        // One comparison: that the rest is long enough follows from it.
        if self.len > SIZE - N {
            self.is_full = true;
            return None;
        }
        self.block[self.len..].first_chunk_mut::<N>()
    }

    /// Appends a block of which `len` octets count.
    #[inline]
    pub(super) fn put_block<const N: usize>(&mut self, block: &[u8; N], len: usize) {
        if let Some(room) = self.room() {
            *room = *block;
            self.len += len;
        }
    }

    /// Appends the first `len` octets of any text. It goes on for some steps after them, or they are copied slowly.
    #[inline]
    pub(super) fn put_string(&mut self, text: &[u8], len: usize) {
        self.is_unsure = true;
        match text.first_chunk::<NAME>() {
            Some(block) if len <= NAME => self.put_block(block, len),
            _ => self.put(text.get(..len).unwrap_or(&[])),
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
        match SMALL.get(value as usize) {
            Some(digits) if value < 1000 => self.put_block(digits, usize::from(digits[3])),
            _ => self.put_large(value),
        }
    }

    #[inline(never)]
    fn put_large(&mut self, value: u64) {
        let mut digits = [0; 20];
        let from = put_back(&mut digits, value);
        self.put(&digits[from..]);
    }

    /// Appends a number in base 16, with zeros up to a width of at most 8.
    #[inline]
    pub(super) fn put_hex(&mut self, value: u32, width: u8) {
        let count = (8 - value.leading_zeros() / 4).max(u32::from(width)).clamp(1, 8);
        // The first digit in the lowest octet; those after the last one do not count.
        let left = u64::from(value) << (32 - 4 * count);
        let left = (left & 0xffff) << 32 | left >> 16;
        let left = (left & 0xff_0000_00ff) << 16 | left >> 8 & 0xff_0000_00ff;
        let left = (left & 0x000f_000f_000f_000f) << 8 | left >> 4 & 0x000f_000f_000f_000f;
        // 6 carries from 10 on: those digits are letters.
        let letters = (left + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
        let text = left + 0x3030_3030_3030_3030 + letters * 39;
        self.put_block(&text.to_le_bytes(), count as usize);
    }
}

/// The numbers below 1000 in base 10, each with its length after it.
static SMALL: [[u8; 4]; 1000] = {
    let mut small = [[0; 4]; 1000];
    let mut at = 0;
    while at < 1000 {
        let digits = [b'0' + (at / 100) as u8, b'0' + (at / 10 % 10) as u8, b'0' + (at % 10) as u8];
        small[at] = match at {
            0..10 => [digits[2], 0, 0, 1],
            10..100 => [digits[1], digits[2], 0, 2],
            _ => [digits[0], digits[1], digits[2], 3],
        };
        at += 1;
    }
    small
};

/// A piece of a format that is at most a step long, ready to be copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Literal {
    block: [u8; STEP],
    len: u8,
}

impl Literal {
    /// The pieces of a text, one at least.
    pub(super) fn split(text: &[u8]) -> impl Iterator<Item = Literal> {
        let pieces = text.chunks(STEP).map(|piece| {
            let mut block = [0; STEP];
            block[..piece.len()].copy_from_slice(piece);
            Literal { block, len: piece.len() as u8 }
        });
        let empty = text.is_empty().then_some(Literal { block: [0; STEP], len: 0 });
        empty.into_iter().chain(pieces)
    }

    /// Appends it.
    #[inline]
    pub(super) fn append_to(&self, short: &mut FastText<'_>) {
        short.put_block(&self.block, usize::from(self.len));
    }
}

/// A part of a short text: octets of the format, then a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortPart<V> {
    pub(super) before: Literal,
    pub(super) value: Option<V>,
}

/// Puts the parts of a format together.
#[derive(Debug)]
pub(super) struct Steps<V>(Vec<ShortPart<V>>);

impl<V> Steps<V> {
    /// No parts.
    pub(super) fn new() -> Self {
        Steps(Vec::new())
    }

    /// Adds octets of the format.
    pub(super) fn push_text(&mut self, text: &[u8]) {
        self.0.extend(Literal::split(text).map(|before| ShortPart { before, value: None }));
    }

    /// Adds a value.
    pub(super) fn push(&mut self, value: V) {
        if self.0.last().is_none_or(|last| last.value.is_some()) {
            self.push_text(&[]);
        }
        if let Some(last) = self.0.last_mut() {
            last.value = Some(value);
        }
    }

    /// All parts.
    pub(super) fn finish(self) -> Box<[ShortPart<V>]> {
        self.0.into()
    }
}

/// The strings at the beginning of a string table that are short and printable ASCII, ready to be copied from any of
/// their octets on.
#[derive(Debug)]
pub(super) struct Strings {
    /// The octets, with a block after them.
    octets: Box<[u8]>,
    /// For each octet how many stand before the next NUL; [`FAR`] when that is no such string.
    lens: Box<[u8]>,
}

/// Octets of a string table that are looked at.
const KEPT_OCTETS: usize = 64 << 10;
/// The length of what is not kept.
const FAR: u8 = u8::MAX;

impl Strings {
    /// Keeps what can be kept of a table.
    pub(super) fn new(table: &[u8]) -> Self {
        let kept = &table[..table.len().min(KEPT_OCTETS)];
        let mut lens = vec![FAR; kept.len()];
        // A string without a NUL at its end is not kept.
        let mut next = FAR;
        for (len, octet) in lens.iter_mut().zip(kept).rev() {
            next = match *octet {
                0 => 0,
                0x20..0x7f if usize::from(next) < NAME => next + 1,
                _ => FAR,
            };
            *len = next;
        }
        Strings { octets: [kept, &[0; NAME]].concat().into(), lens: lens.into() }
    }

    /// The string at an offset when it is kept: a block that begins with it, and its length.
    #[inline]
    pub(super) fn get(&self, offset: u32) -> Option<(&[u8; NAME], usize)> {
        let len = *self.lens.get(offset as usize).filter(|&&len| len != FAR)?;
        Some((self.octets.get(offset as usize..)?.first_chunk()?, usize::from(len)))
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

    fn made(make: impl Fn(&mut FastText<'_>)) -> Option<String> {
        let mut scratch = vec![0xff; 3];
        let mut short = FastText::new(block(&mut scratch)?);
        make(&mut short);
        let len = short.finish()?;
        Some(String::from_utf8(scratch[..len].to_vec()).unwrap())
    }

    #[test]
    fn numbers() {
        for value in [0u64, 9, 10, 99, 100, 999, 1000, 4_294_967_295, u64::MAX] {
            assert_eq!(made(|short| short.put_unsigned(value)), Some(value.to_string()));
        }
        for value in [0, 1, 0xf, 0x10, 0x0123_4567, 0x89ab_cdef, 0xa0b1_c2d3, u32::MAX] {
            for (width, len) in (0..=8).zip(0usize..) {
                assert_eq!(made(|short| short.put_hex(value, width)), Some(format!("{value:0len$x}")));
            }
        }
        for value in [0, -1, -1000, i64::MIN, i64::MAX] {
            assert_eq!(made(|short| short.put_signed(value)), Some(value.to_string()));
        }
    }

    #[test]
    fn small_numbers() {
        for value in 0..1100 {
            assert_eq!(made(|short| short.put_unsigned(value)), Some(value.to_string()));
        }
        assert_eq!(made(|short| short.put_unsigned(1 << 32)), Some("4294967296".to_string()));
    }

    #[test]
    fn literals_are_cut_into_steps() {
        for len in [0, 1, 15, 16, 17, 32, 40] {
            let text: String = (0..len).map(|at| char::from(b'a' + at % 26)).collect();
            assert_eq!(
                made(|short| Literal::split(text.as_bytes()).for_each(|piece| piece.append_to(short))),
                Some(text)
            );
        }
    }

    #[test]
    fn strings_are_kept_when_they_are_short_and_plain() {
        let mut table = b"one\0t\xffwo\0".to_vec();
        table.extend(std::iter::repeat_n(b'x', 40));
        table.extend(b"\0end");
        let strings = Strings::new(&table);
        let text = |offset| strings.get(offset).map(|(block, len)| std::str::from_utf8(&block[..len]).unwrap());
        assert_eq!([0, 1, 3].map(text), [Some("one"), Some("ne"), Some("")]);
        assert_eq!([4, 5, 6, 7, 8].map(text), [None, None, Some("wo"), Some("o"), Some("")]);
        assert_eq!([9, 16].map(text), [None; 2]);
        assert_eq!([17, 48].map(text), [Some(&*"x".repeat(32)), Some("x")]);
        assert_eq!([50, 52, 53, u32::MAX].map(text), [None; 4]);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let text = [b'x'; 300];
        assert_eq!(made(|short| short.put(&text[..SIZE])), Some("x".repeat(SIZE)));
        assert_eq!(made(|short| short.put(&text)), None);
        assert_eq!(made(|short| (0..100).for_each(|_| short.put_string(b"bc", 2))), None);
        assert_eq!(made(|short| (0..5).for_each(|_| short.put_string(&text, 32))), Some("x".repeat(160)));
        assert_eq!(made(|short| (0..5).for_each(|_| short.put_string(&text, 33))), Some("x".repeat(165)));
        assert_eq!(made(|short| (0..100).for_each(|_| short.put_block(b"0123", 3))), None);
        assert_eq!(made(|short| (0..200).for_each(|at| short.put_unsigned(at))), None);
    }
}
