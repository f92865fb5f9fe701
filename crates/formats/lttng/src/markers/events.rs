//! Finding the events of a sub-buffer: compact headers, and where payloads end.

use tracemill_codec::bits::{u16_at, u32_at, u64_at};
use tracemill_model::schema::ByteOrder;

use super::format_string::{FieldKind, MarkerField};
use super::header::AlignRule;

/// Bits of the clock in an event header.
pub(crate) const CLOCK_BITS: u32 = 27;
pub(crate) const CLOCK_MASK: u64 = (1 << CLOCK_BITS) - 1;
/// Ids of the header that say what follows it, instead of a marker: id, size and clock; id and size; id.
pub(crate) const ID_SIZE_CLOCK: u32 = 29;
pub(crate) const ID_SIZE: u32 = 30;
pub(crate) const ID_ONLY: u32 = 31;
/// A size that stands in 32 more bits.
pub(crate) const LONG_SIZE: u16 = 0xffff;

/// Where the payload of a marker begins and ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Alignment of the payload.
    align_bytes: u32,
    /// Bytes before the first string, or all.
    head_bytes: u32,
    /// The rest: the first is a string.
    tail: Box<[PayloadPiece]>,
}

/// A piece of a payload after its first string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PayloadPiece {
    /// Bytes up to a zero.
    Text,
    /// Bytes at an alignment from the start of the payload.
    Bytes { align_bytes: u32, len_bytes: u32 },
}

impl Layout {
    /// The layout of fields for machines that align so.
    pub(crate) fn from_fields(fields: &[MarkerField], alignment: u8, rule: AlignRule) -> Self {
        let (mut align_bytes, mut head_bytes, mut tail) = (1, 0u32, Vec::new());
        for field in fields {
            let FieldKind::Integer { len_bytes, .. } = field.kind else {
                tail.push(PayloadPiece::Text);
                continue;
            };
            let len_bytes = u32::from(len_bytes);
            let align = rule.bytes(alignment, len_bytes);
            align_bytes = align_bytes.max(align);
            match tail.last_mut() {
                None => head_bytes = head_bytes.next_multiple_of(align) + len_bytes,
                Some(PayloadPiece::Bytes { len_bytes: before, .. }) if align == 1 => *before += len_bytes,
                Some(_) => tail.push(PayloadPiece::Bytes { align_bytes: align, len_bytes }),
            }
        }
        Layout { align_bytes, head_bytes, tail: tail.into() }
    }

    /// Where the payload begins that follows a header ending at `at`.
    #[inline]
    pub(crate) fn begin(&self, at: usize) -> usize {
        align(at, self.align_bytes)
    }

    /// Where the payload that begins at `begin` ends, `None` when that is not inside `data`.
    #[inline]
    fn end(&self, data: &[u8], begin: usize) -> Option<usize> {
        let mut at = begin.checked_add(self.head_bytes as usize)?;
        for step in &self.tail {
            at = match *step {
                PayloadPiece::Text => at + memchr::memchr(0, data.get(at..)?)? + 1,
                PayloadPiece::Bytes { align_bytes, len_bytes } => {
                    begin + align(at - begin, align_bytes) + len_bytes as usize
                }
            };
        }
        (at <= data.len()).then_some(at)
    }
}

/// The next multiple of a power of two.
#[inline]
pub(crate) fn align(at: usize, to: u32) -> usize {
    let mask = to as usize - 1;
    at.saturating_add(mask) & !mask
}

/// The markers of a channel, by id.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Layouts(Vec<Option<Layout>>);

impl Layouts {
    /// Sets the layout of an id.
    pub(crate) fn set(&mut self, id: u16, layout: Layout) {
        let at = usize::from(id);
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(layout);
    }

    #[inline]
    fn get(&self, id: u16) -> Option<&Layout> {
        self.0.get(usize::from(id))?.as_ref()
    }
}

/// An event, found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundEvent {
    /// Id of its marker.
    pub id: u16,
    /// First byte of its header, from the start of the sub-buffer.
    pub start: usize,
    /// First byte of its payload.
    pub body: usize,
    /// First byte after it.
    pub end: usize,
    /// Does its size fit its marker?
    pub fit: Fit,
}

/// How the size that an event states fits its marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// The payload fills it, or it states none.
    Exact,
    /// There are bytes after the payload.
    Longer(usize),
    /// The fields need more than the size.
    Shorter,
    /// No marker with this id can be decoded.
    Unknown,
}

/// Why no event can be found where the next one should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Lost {
    /// Where its header begins.
    pub at: usize,
    pub kind: LostKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LostKind {
    /// The header is longer than what is left.
    Header,
    /// The stated size is more than what is left.
    Size { id: u16, size: u32 },
    /// The fields need more than what is left.
    Fields { id: u16 },
    /// No marker has this id, and the event does not state its size.
    Unknown { id: u16 },
}

/// How the events of a sub-buffer are written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SubBufferForm {
    pub order: ByteOrder,
    pub rule: AlignRule,
    /// Alignment of headers, 0 for none.
    pub alignment: u8,
}

/// Walks over the events of a sub-buffer.
pub(crate) struct EventWalk<'a> {
    /// The sub-buffer, from its header to the end of its events.
    pub data: &'a [u8],
    pub layouts: &'a Layouts,
    pub order: ByteOrder,
    /// Alignments of 4 and 8 bytes in headers.
    align_4: u32,
    align_8: u32,
    /// Where the next event begins.
    pub at: usize,
    /// The clock so far.
    pub cycles: u64,
}

impl<'a> EventWalk<'a> {
    /// A walk from `at` on, with the clock that the event before left.
    pub(crate) fn new(shape: SubBufferForm, data: &'a [u8], layouts: &'a Layouts, at: usize, cycles: u64) -> Self {
        let SubBufferForm { order, rule, alignment } = shape;
        let (align_4, align_8) = (rule.bytes(alignment, 4), rule.bytes(alignment, 8));
        EventWalk { data, layouts, order, align_4, align_8, at, cycles }
    }

    /// The next event, `None` behind the last one. Behind a `Lost` there is nothing to find.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Result<FoundEvent, Lost>> {
        if self.at >= self.data.len() {
            return None;
        }
        let start = align(self.at, self.align_4);
        Some(self.event(start).map_err(|kind| Lost { at: start, kind }))
    }

    #[inline]
    fn event(&mut self, start: usize) -> Result<FoundEvent, LostKind> {
        let (data, order) = (self.data, self.order);
        let word = u32_at(data, start, order).ok_or(LostKind::Header)?;
        let mut at = start + 4;
        let mut size = None;
        let id = match word >> CLOCK_BITS {
            short if short < ID_SIZE_CLOCK => {
                self.advance(word);
                short as u16
            }
            ID_ONLY => {
                let id = u16_at(data, at, order).ok_or(LostKind::Header)?;
                at += 2;
                self.advance(word);
                id
            }
            kind => {
                let id = u16_at(data, at, order).ok_or(LostKind::Header)?;
                let stated = u16_at(data, at + 2, order).ok_or(LostKind::Header)?;
                at += 4;
                size = Some(u32::from(stated));
                if stated == LONG_SIZE {
                    size = Some(u32_at(data, at, order).ok_or(LostKind::Header)?);
                    at += 4;
                }
                if kind == ID_SIZE {
                    self.advance(word);
                } else {
                    at = align(at, self.align_8);
                    self.cycles = u64_at(data, at, order).ok_or(LostKind::Header)?;
                    at += 8;
                }
                id
            }
        };
        let layout = self.layouts.get(id);
        let body = match (layout, size) {
            (Some(layout), _) => layout.begin(at),
            (None, None) => return Err(LostKind::Unknown { id }),
            (None, Some(size)) => self.likely_body(at, size),
        };
        let (end, fit) = match size {
            None => {
                let end = layout.and_then(|layout| layout.end(data, body)).ok_or(LostKind::Fields { id })?;
                (end, Fit::Exact)
            }
            Some(size) => {
                let end = body.saturating_add(size as usize);
                let content = data.get(..end).ok_or(LostKind::Size { id, size })?;
                let fit = match layout.map(|layout| layout.end(content, body)) {
                    None => Fit::Unknown,
                    Some(None) => Fit::Shorter,
                    Some(Some(fields)) if fields == end => Fit::Exact,
                    Some(Some(fields)) => Fit::Longer(end - fields),
                };
                (end, fit)
            }
        };
        self.at = end;
        Ok(FoundEvent { id, start, body, end, fit })
    }

    /// Where the payload of an unknown marker begins after a header that ends at `at`: there, or where eight bytes may
    /// stand, if only then an event follows.
    #[cold]
    fn likely_body(&self, at: usize, size: u32) -> usize {
        let aligned = align(at, self.align_8);
        let is_followed = |body: usize| {
            let end = body.saturating_add(size as usize);
            let next = align(end, self.align_4);
            let known = |id: u16| self.layouts.get(id).is_some();
            end == self.data.len()
                || u32_at(self.data, next, self.order).is_some_and(|word| match word >> CLOCK_BITS {
                    short if short < ID_SIZE_CLOCK => known(short as u16),
                    _ => u16_at(self.data, next + 4, self.order).is_some_and(known),
                })
        };
        if aligned != at && !is_followed(at) && is_followed(aligned) { aligned } else { at }
    }

    /// Sets the low bits of the clock; a smaller value than before is one wrap.
    #[inline]
    fn advance(&mut self, word: u32) {
        let low = u64::from(word) & CLOCK_MASK;
        let wraps = if low < self.cycles & CLOCK_MASK { CLOCK_MASK + 1 } else { 0 };
        self.cycles = (self.cycles & !CLOCK_MASK).wrapping_add(wraps) | low;
    }
}
