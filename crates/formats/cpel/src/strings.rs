//! String tables (`SPEC.md`, section 1.1, D10 to D14), and symbols in them (`SPEC.md`, D29, D30).

use std::fmt;
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::schema::QUICK_BYTES;

use super::fast_text::Strings;

/// Octets of a text that are shown: many events may name one long string.
pub(super) const MAX_TEXT: usize = 64 << 10;

/// A string table: octets in which offsets name strings.
#[derive(Clone)]
pub(super) struct StringTable {
    bytes: Arc<dyn Bytes>,
    /// Where it begins in its file, and in the bytes.
    start: usize,
    from: usize,
    to: usize,
    quick: Arc<Strings>,
}

impl fmt::Debug for StringTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StringTable({}..{})", self.from, self.to)
    }
}

impl StringTable {
    /// The table in `from..to` of some bytes. It is copied where they may vanish: its texts are wanted until the end.
    pub(super) fn new(bytes: Arc<dyn Bytes>, from: usize, to: usize) -> Self {
        let start = from;
        let (bytes, from, to) = match bytes.bytes().get(from..to) {
            Some(table) if bytes.can_vanish() => (Arc::new(table.to_vec()) as Arc<dyn Bytes>, 0, to - from),
            _ => (bytes, from, to),
        };
        let quick = Strings::new(bytes.bytes().get(from..to).unwrap_or(&[]));
        StringTable { bytes, start, from, to, quick: Arc::new(quick) }
    }

    /// A table that holds one text.
    pub(super) fn from_text(text: Vec<u8>) -> Self {
        let to = text.len();
        StringTable::new(Arc::new(text), 0, to)
    }

    /// Where it begins in its file: no other table begins there.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Its octets.
    #[inline]
    pub(super) fn octets(&self) -> &[u8] {
        self.bytes.bytes().get(self.from..self.to).unwrap_or(&[])
    }

    /// The strings of it that are ready to be copied.
    #[inline]
    pub(super) fn quick(&self) -> &Strings {
        &self.quick
    }

    /// Number of its octets.
    pub(super) fn len(&self) -> usize {
        self.to - self.from
    }

    /// The string at an offset.
    #[inline]
    pub(super) fn string(&self, offset: u32) -> Option<&[u8]> {
        string_at(self.octets(), offset.into())
    }

    /// The length of that string, or what is too long for a short text, and the octets from its first one to the end of
    /// the table.
    #[inline]
    pub(super) fn string_and_more(&self, offset: u32) -> Option<(usize, &[u8])> {
        let rest = self.octets().get(offset as usize..).filter(|rest| !rest.is_empty())?;
        let near = &rest[..rest.len().min(QUICK_BYTES + 1)];
        Some((nul_at(near).unwrap_or(near.len()), rest))
    }

    /// Has the string at an offset a NUL at its end?
    pub(super) fn is_terminated(&self, offset: u32) -> bool {
        self.octets().get(offset as usize..).is_some_and(|rest| memchr::memchr(0, rest).is_some())
    }
}

/// The string at an offset of a table: to its NUL, or to the end of the table (`SPEC.md`, D11); its first [`MAX_TEXT`] octets.
#[inline]
pub(super) fn string_at(strings: &[u8], offset: u64) -> Option<&[u8]> {
    let rest = strings.get(usize::try_from(offset).ok()?..).filter(|rest| !rest.is_empty())?;
    let rest = &rest[..rest.len().min(MAX_TEXT)];
    Some(&rest[..nul_at(rest).unwrap_or(rest.len())])
}

/// A string that is longer than what is shown of one: where it begins, and its octets. Looks at few places.
pub(super) fn long_string(table: &[u8]) -> Option<(usize, usize)> {
    // Whatever is longer covers one of these pieces.
    const PIECE: usize = MAX_TEXT / 2;
    let mut at = 0;
    while let Some(piece) = table.get(at..at + PIECE) {
        if memchr::memchr(0, piece).is_none() {
            let begin = memchr::memrchr(0, &table[..at]).map_or(0, |nul| nul + 1);
            let end = memchr::memchr(0, &table[at..]).map_or(table.len(), |nul| at + nul);
            if end - begin > MAX_TEXT {
                return Some((begin, end - begin));
            }
            at = end;
        }
        at += PIECE;
    }
    None
}

/// Index of the first NUL. Most strings are short: eight octets at a time, a call costs more than they do.
#[inline]
pub(super) fn nul_at(octets: &[u8]) -> Option<usize> {
    const EACH: u64 = u64::MAX / 255;
    for (at, word) in octets.as_chunks::<8>().0.iter().take(4).enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest mark is true; marks above it may be false.
        let zeros = word.wrapping_sub(EACH) & !word & (EACH << 7);
        if zeros != 0 {
            return Some(at * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    memchr::memchr(0, octets)
}

/// Addresses and their names, sorted.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    tables: Vec<StringTable>,
    /// Value, index of its table (`u32::MAX` for none), offset of its name there.
    sorted: Vec<(u32, u32, u32)>,
}

impl Symbols {
    /// Symbols in the order of the file; they are sorted here, equal values stay in their order.
    pub(super) fn new(tables: Vec<StringTable>, mut symbols: Vec<(u32, u32, u32)>) -> Self {
        if !symbols.is_sorted_by_key(|symbol| symbol.0) {
            symbols.sort_by_key(|symbol| symbol.0);
        }
        Symbols { tables, sorted: symbols }
    }

    /// The name of the symbol with the greatest value up to `value`, and how far it is.
    pub(super) fn find(&self, value: u32) -> Option<(&[u8], u32)> {
        let behind = self.sorted.partition_point(|symbol| symbol.0 <= value);
        let found = self.sorted.get(behind.checked_sub(1)?)?.0;
        let first = self.sorted.partition_point(|symbol| symbol.0 < found);
        let (_, table, offset) = *self.sorted.get(first)?;
        let name = self.tables.get(table as usize).and_then(|table| table.string(offset)).unwrap_or(&[]);
        Some((name, value - found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_their_nul_or_with_the_table() {
        let table = StringTable::from_text(b"name\0a longer string than that\0last".to_vec());
        assert_eq!(table.string(0), Some(&b"name"[..]));
        assert_eq!(table.string(2), Some(&b"me"[..]));
        assert_eq!(table.string(4), Some(&b""[..]));
        assert_eq!(table.string(5), Some(&b"a longer string than that"[..]));
        assert_eq!(table.string(31), Some(&b"last"[..]));
        assert!(table.is_terminated(5) && !table.is_terminated(31));
        assert_eq!(table.string(35), None);
        for len in [3, 191, 192, 193, 400] {
            let table = StringTable::from_text([vec![b'x'; len], b"\0more".to_vec()].concat());
            let (shown, rest) = table.string_and_more(0).unwrap();
            assert_eq!((shown, rest.len()), (len.min(QUICK_BYTES + 1), len + 5));
        }
        assert_eq!(table.string(u32::MAX), None);
    }

    #[test]
    fn long_strings_are_found() {
        for (before, len, is_long) in [(0, MAX_TEXT, false), (7, MAX_TEXT + 1, true), (100_000, 3 * MAX_TEXT, true)] {
            for behind in [0, 10, 50_000] {
                let table = [[b'a', b'b', 0].repeat(before), vec![b'x'; len], b"\0c\0d".repeat(behind)].concat();
                assert_eq!(long_string(&table), is_long.then_some((3 * before, len)), "{before} {len} {behind}");
            }
        }
    }

    #[test]
    fn the_first_of_equal_symbols_counts() {
        let table = StringTable::from_text(b"T\0a\0b\0c\0".to_vec());
        let symbols = Symbols::new(vec![table], vec![(20, 0, 2), (10, 0, 4), (20, 0, 6), (30, 0, 99)]);
        assert_eq!(symbols.find(9), None);
        assert_eq!(symbols.find(10), Some((&b"b"[..], 0)));
        assert_eq!(symbols.find(29), Some((&b"a"[..], 9)));
        assert_eq!(symbols.find(u32::MAX), Some((&b""[..], u32::MAX - 30)));
    }
}
