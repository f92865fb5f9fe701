//! The other direction: fields that a plan shows become the bytes of another layout.
//!
//! Every field of that layout begins at a whole byte of the packet. A number of `n` bits takes the bytes that hold them:
//! the low bits of the first bytes in little-endian, the high ones in big-endian, as CTF counts bits. So a value never
//! depends on where the one before it ended, and an event is written in one pass over its fields.

use tracemill_model::schema::{ByteOrder, Encoding};

use crate::bits::{Wide, put_fixed, put_leb, put_leb_wide, put_uint, put_wide, uint_bytes, zero_at};
use crate::plan::{NodeId, Visitor};

/// How the field of a node is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encode {
    /// No bytes of its own: its parts are written.
    Parts,
    /// No bytes, and none for its parts: the output does not have it.
    Nothing,
    /// An integer of at most 64 bits.
    Fixed {
        /// Its bits.
        len_bits: u8,
        /// Order of its bytes.
        order: ByteOrder,
    },
    /// An integer of more than 64 bits.
    Wide {
        /// Its bits.
        len_bits: u32,
        /// Order of its bytes.
        order: ByteOrder,
        /// Two's complement.
        signed: bool,
    },
    /// A LEB128 integer.
    Leb,
    /// A boolean in a byte.
    Boolean,
    /// A number of 32 bits.
    Float32(ByteOrder),
    /// A number of 64 bits.
    Float64(ByteOrder),
    /// A string that ends with a zero, its code units as they are.
    Text(Encoding),
    /// A string that ends with a zero, brought to UTF-8.
    Utf8(Encoding),
    /// The bytes of a blob.
    Bytes,
    /// A text that may be absent: a byte at this place of the event's selectors says so.
    Rendered(u16),
    /// A text that is empty when it is absent.
    Plain,
    /// The index of a variant's option, in a byte or two, before the option.
    Tag {
        /// 1 or 2.
        bytes: u8,
        /// Order of its bytes.
        order: ByteOrder,
    },
    /// 1 before the content of an optional, 0 without content.
    Present,
    /// 1 or 0 as for [`Encode::Present`], in a byte at this place of the event's selectors.
    PresentAt(u16),
    /// The number of elements or bytes, in 64 bits before them.
    Counted(ByteOrder),
    /// The number of elements or bytes in 64 bits, at this place of the event's selectors.
    CountedAt(u16, ByteOrder),
}

impl Encode {
    /// Bytes that it takes itself at least, without those of its parts.
    pub fn least_bytes(self) -> usize {
        match self {
            Encode::Fixed { len_bits, .. } => usize::from(len_bits).div_ceil(8),
            Encode::Wide { len_bits, .. } => len_bits.div_ceil(8) as usize,
            Encode::Leb | Encode::Boolean | Encode::Utf8(_) | Encode::Plain | Encode::Present => 1,
            Encode::Float32(_) => 4,
            Encode::Float64(_) | Encode::Counted(_) => 8,
            Encode::Text(encoding) => encoding.unit_bytes(),
            Encode::Tag { bytes, .. } => bytes.into(),
            Encode::Parts | Encode::Nothing | Encode::Bytes => 0,
            Encode::Rendered(_) | Encode::PresentAt(_) | Encode::CountedAt(..) => 0,
        }
    }
}

/// Counts of values that could not be written as they were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shortfalls {
    /// Integers whose upper bits have no place.
    pub cut_integers: u64,
    /// Texts with a zero inside, truncated there.
    pub cut_texts: u64,
    /// Absent texts that became empty ones.
    pub empty_texts: u64,
    /// Fields after the end of their event, which became zeros.
    pub filled: u64,
}

/// Bits that nothing has in the last byte of what was written so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LooseBits {
    /// End of the last value that left some.
    end: usize,
    count: u8,
}

impl LooseBits {
    /// `count` bits in front of an end.
    #[inline]
    pub fn new(end: usize, count: u8) -> Self {
        LooseBits { end, count }
    }

    /// The number of loose bits in front of an end: 0 when something came after the value that left them.
    #[inline]
    pub fn before(&self, end: usize) -> u8 {
        if self.end == end { self.count } else { 0 }
    }

    /// A value follows that begins at a byte: no bits are loose in front of it, even where it is empty.
    pub(crate) fn align(&mut self) {
        self.count = 0;
    }

    pub(crate) fn note(&mut self, end: usize, len_bits: u32) {
        *self = LooseBits { end, count: (8 - len_bits % 8) as u8 % 8 };
    }
}

/// Writes the fields that a plan shows.
pub struct Encoder<'a> {
    /// The packet that is written.
    pub out: &'a mut Vec<u8>,
    /// How each node of the plan is written.
    pub nodes: &'a [Encode],
    /// Place in `out` of the selectors of [`Encode::Rendered`].
    pub selectors_at: usize,
    /// Counts of what was lost so far.
    pub shortfalls: &'a mut Shortfalls,
    /// Bits that integers of no whole number of bytes leave.
    pub loose: &'a mut LooseBits,
    /// Stand for fields after the end of an event that ends before its last one; `None` for a node that may be absent in
    /// any event, and nothing at all where no event ends early.
    pub fillers: &'a [Option<Vec<u8>>],
}

impl<'a> Encoder<'a> {
    /// An encoder of whole events without selectors.
    #[inline]
    pub fn new(
        out: &'a mut Vec<u8>,
        nodes: &'a [Encode],
        shortfalls: &'a mut Shortfalls,
        loose: &'a mut LooseBits,
    ) -> Self {
        Encoder { out, nodes, selectors_at: 0, shortfalls, loose, fillers: &[] }
    }
}

impl Encoder<'_> {
    #[inline]
    fn encode(&self, node: NodeId) -> Encode {
        self.nodes.get(node as usize).copied().unwrap_or(Encode::Parts)
    }

    /// An integer of 64 bits that may be truncated to fewer.
    #[inline]
    fn integer(&mut self, node: NodeId, value: u64, signed: bool) {
        match self.encode(node) {
            Encode::Fixed { len_bits, order } => self.fixed(value, len_bits, order),
            Encode::Leb => put_leb(self.out, value, signed),
            Encode::Wide { len_bits, order, signed } => {
                self.wide_integer(&Wide { limbs: vec![value], signed }, len_bits, order)
            }
            Encode::Boolean => self.out.push(u8::from(value != 0)),
            _ => {}
        }
    }

    /// A compound of the output begins here.
    #[inline]
    fn align(&mut self, node: NodeId) {
        if self.encode(node) != Encode::Nothing {
            self.loose.align();
        }
    }

    #[inline]
    fn fixed(&mut self, value: u64, len_bits: u8, order: ByteOrder) {
        put_fixed(self.out, value, len_bits, order);
        if !len_bits.is_multiple_of(8) {
            self.loose.note(self.out.len(), len_bits.into());
        }
    }

    fn wide_integer(&mut self, value: &Wide, len_bits: u32, order: ByteOrder) {
        put_wide(self.out, value, len_bits, order);
        self.loose.note(self.out.len(), len_bits);
    }

    #[cold]
    fn fill(&mut self, node: NodeId, filler: &[u8]) {
        self.shortfalls.filled += 1;
        self.out.extend_from_slice(filler);
        let len_bits = match self.encode(node) {
            Encode::Fixed { len_bits, .. } => len_bits.into(),
            Encode::Wide { len_bits, .. } => len_bits,
            _ => return,
        };
        self.loose.note(self.out.len(), len_bits);
    }

    fn select(&mut self, at: u16, bytes: &[u8]) {
        let from = self.selectors_at + usize::from(at);
        if let Some(place) = self.out.get_mut(from..from + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn count(&mut self, node: NodeId, count: u64) {
        match self.encode(node) {
            Encode::Counted(order) => put_uint(self.out, count, 8, order),
            Encode::CountedAt(at, order) => self.select(at, &uint_bytes(count, order)),
            _ => {}
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        let end = zero_at(bytes).unwrap_or(bytes.len());
        self.shortfalls.cut_texts += u64::from(end < bytes.len());
        self.out.extend_from_slice(&bytes[..end]);
        self.out.push(0);
    }
}

/// The code units of a string and a zero; a piece of a unit at the end becomes U+FFFD.
fn put_units(out: &mut Vec<u8>, bytes: &[u8], encoding: Encoding) {
    let unit = encoding.unit_bytes();
    let whole = bytes.len() - bytes.len() % unit;
    out.extend_from_slice(&bytes[..whole]);
    if whole < bytes.len() {
        out.extend_from_slice(match encoding {
            Encoding::Utf8 | Encoding::Ascii => &[],
            Encoding::Utf16Be => &[0xff, 0xfd],
            Encoding::Utf16Le => &[0xfd, 0xff],
            Encoding::Utf32Be => &[0, 0, 0xff, 0xfd],
            Encoding::Utf32Le => &[0xfd, 0xff, 0, 0],
        });
    }
    out.extend_from_slice(&[0; 4][..unit]);
}

impl Visitor for Encoder<'_> {
    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.integer(node, value, false);
    }

    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        self.integer(node, value as u64, true);
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        match self.encode(node) {
            Encode::Wide { len_bits, order, .. } => self.wide_integer(value, len_bits, order),
            Encode::Leb => put_leb_wide(self.out, value),
            Encode::Fixed { len_bits, order } => {
                self.shortfalls.cut_integers += 1;
                self.fixed(value.limbs.first().copied().unwrap_or(0), len_bits, order);
            }
            _ => {}
        }
    }

    #[inline]
    fn boolean(&mut self, node: NodeId, value: bool) {
        if self.encode(node) == Encode::Boolean {
            self.out.push(u8::from(value));
        }
    }

    #[inline]
    fn real(&mut self, node: NodeId, value: f64) {
        match self.encode(node) {
            Encode::Float32(order) => put_uint(self.out, (value as f32).to_bits().into(), 4, order),
            Encode::Float64(order) => put_uint(self.out, value.to_bits(), 8, order),
            _ => {}
        }
    }

    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        match self.encode(node) {
            Encode::Text(Encoding::Utf8 | Encoding::Ascii) => {
                self.out.extend_from_slice(bytes);
                self.out.push(0);
            }
            Encode::Text(encoding) => put_units(self.out, bytes, encoding),
            Encode::Utf8(encoding) => self.text(encoding.to_utf8(bytes).as_bytes()),
            Encode::Rendered(at) => {
                self.select(at, &[1]);
                self.text(bytes);
            }
            Encode::Plain => self.text(bytes),
            _ => {}
        }
    }

    #[inline]
    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        self.align(node);
        if !matches!(self.encode(node), Encode::Parts | Encode::Nothing) {
            self.count(node, bytes.len() as u64);
            self.out.extend_from_slice(bytes);
        }
    }

    #[inline]
    fn begin_variant(&mut self, node: NodeId, option: usize) {
        if let Encode::Tag { bytes, order } = self.encode(node) {
            put_fixed(self.out, option as u64, bytes * 8, order);
        }
    }

    #[inline]
    fn begin_optional(&mut self, node: NodeId) {
        match self.encode(node) {
            Encode::Present => self.out.push(1),
            Encode::PresentAt(at) => self.select(at, &[1]),
            _ => {}
        }
    }

    #[inline]
    fn begin_struct(&mut self, node: NodeId) {
        self.align(node);
    }

    #[inline]
    fn begin_array(&mut self, node: NodeId, len: u64) {
        self.align(node);
        self.count(node, len);
    }

    #[inline]
    fn absent(&mut self, node: NodeId) {
        if let Some(Some(filler)) = self.fillers.get(node as usize) {
            return self.fill(node, filler);
        }
        match self.encode(node) {
            Encode::Present => self.out.push(0),
            Encode::Plain => {
                self.shortfalls.empty_texts += 1;
                self.out.push(0);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_a_unit_of_zero() {
        let mut out = Vec::new();
        put_units(&mut out, &[b'a', 0, b'b'], Encoding::Utf16Le);
        assert_eq!(out, [b'a', 0, 0xfd, 0xff, 0, 0]);
        assert_eq!(Encoding::Utf16Be.to_utf8(&[0, b'a', 0xd8]), "a\u{fffd}");
    }
}
