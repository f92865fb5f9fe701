//! Integers and texts at a fixed place in their event: read without a visit of the fields around them.

use super::{NodeId, Op, Plan, PlanInput};

/// An integer of whole bytes that is always the same number of bytes after the header of its event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedInteger {
    offset_bytes: usize,
    width_bytes: usize,
    is_signed: bool,
    big: bool,
}

/// A text that is always the same number of bytes after the header of its event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedText {
    offset_bytes: usize,
    /// The bytes that it takes; `None` when it goes up to a zero.
    len_bytes: Option<usize>,
}

/// Field at a fixed place.
enum Fixed {
    Integer(FixedInteger),
    Text(FixedText),
}

impl Plan {
    /// The integer `node` of an event's row plan, when it stands at a fixed place.
    pub fn fixed_integer(&self, node: NodeId) -> Option<FixedInteger> {
        match self.fixed(node)? {
            Fixed::Integer(integer) => Some(integer),
            Fixed::Text(_) => None,
        }
    }

    /// The text `node` of an event's row plan, when it stands at a fixed place, in code units of one byte.
    pub fn fixed_text(&self, node: NodeId) -> Option<FixedText> {
        match self.fixed(node)? {
            Fixed::Text(text) => Some(text),
            Fixed::Integer(_) => None,
        }
    }

    /// The bytes of the first section, when they are always as many and nothing depends on them.
    pub fn first_section_bytes(&self) -> Option<usize> {
        let ops = &self.ops[..*self.ends.first()? as usize];
        let mut bits = 0u64;
        let mut before = None;
        for op in ops {
            let more = match *op {
                Op::U8 { .. } | Op::S8 { .. } => 8,
                Op::U16 { .. } | Op::S16 { .. } => 16,
                Op::U32 { .. } | Op::S32 { .. } => 32,
                Op::U64 { .. } | Op::S64 { .. } => 64,
                // Only where it is the length of the text that follows.
                Op::Set { .. } => 0,
                Op::StrBytes { len, .. } => match before {
                    Some(&Op::Set { slot, value }) if slot == len => value.checked_mul(8)?,
                    _ => return None,
                },
                Op::Save { .. } | Op::SaveWide { .. } | Op::Role { .. } | Op::Clock { .. } => return None,
                other => fixed_bits(&other, bits)?,
            };
            if matches!((before, op), (Some(Op::Set { .. }), other) if !matches!(other, Op::StrBytes { .. })) {
                return None;
            }
            bits = bits.checked_add(more)?;
            before = Some(op);
        }
        let is_whole = bits.is_multiple_of(8) && !matches!(before, Some(Op::Set { .. }));
        usize::try_from(bits / 8).ok().filter(|_| is_whole)
    }

    fn fixed(&self, wanted: NodeId) -> Option<Fixed> {
        let mut bits = 0u64;
        // The length that was set last, and its slot.
        let mut length: Option<(u16, u64)> = None;
        for op in self.ops.iter() {
            let (at, width_bytes, is_signed, big) = match *op {
                Op::U8 { node } => (node, 1, false, false),
                Op::S8 { node } => (node, 1, true, false),
                Op::U16 { node, big } => (node, 2, false, big),
                Op::S16 { node, big } => (node, 2, true, big),
                Op::U32 { node, big } => (node, 4, false, big),
                Op::S32 { node, big } => (node, 4, true, big),
                Op::U64 { node, big } => (node, 8, false, big),
                Op::S64 { node, big } => (node, 8, true, big),
                Op::StrBytes { node, unit: 1, len } => {
                    let (_, bytes) = length.filter(|(slot, _)| *slot == len && bits.is_multiple_of(8))?;
                    if node == wanted {
                        let (offset_bytes, len_bytes) = (usize::try_from(bits / 8).ok()?, usize::try_from(bytes).ok()?);
                        return Some(Fixed::Text(FixedText { offset_bytes, len_bytes: Some(len_bytes) }));
                    }
                    bits = bits.checked_add(bytes.checked_mul(8)?)?;
                    continue;
                }
                Op::Str { node, unit: 1 } if node == wanted && bits.is_multiple_of(8) => {
                    let offset_bytes = usize::try_from(bits / 8).ok()?;
                    return Some(Fixed::Text(FixedText { offset_bytes, len_bytes: None }));
                }
                other => {
                    length = match other {
                        Op::Set { slot, value } => Some((slot, value)),
                        Op::BeginStruct { .. } | Op::EndStruct { .. } | Op::Advance { .. } | Op::Align { .. } => length,
                        _ => None,
                    };
                    bits = bits.checked_add(fixed_bits(&other, bits)?)?;
                    continue;
                }
            };
            if at == wanted {
                let offset_bytes = usize::try_from(bits / 8).ok().filter(|_| bits.is_multiple_of(8))?;
                return Some(Fixed::Integer(FixedInteger { offset_bytes, width_bytes, is_signed, big }));
            }
            bits = bits.checked_add(width_bytes as u64 * 8)?;
        }
        None
    }
}

/// The bits that an instruction always passes over, `bits` after a byte boundary.
fn fixed_bits(op: &Op, bits: u64) -> Option<u64> {
    match *op {
        Op::Advance { bits } => Some(bits),
        Op::Align { mask: 0..=7 } if bits.is_multiple_of(8) => Some(0),
        Op::F32 { .. } => Some(32),
        Op::F64 { .. } => Some(64),
        Op::Bits { len, .. } => Some(len.into()),
        Op::Wide { len, .. } | Op::Boolean { len, .. } | Op::Float { len, .. } => Some(len.into()),
        Op::Rendered { bytes, .. } => Some(u64::from(bytes) * 8),
        Op::BeginStruct { .. } | Op::EndStruct { .. } => Some(0),
        Op::Save { .. } | Op::SaveWide { .. } | Op::Set { .. } | Op::Role { .. } | Op::Clock { .. } => Some(0),
        _ => None,
    }
}

impl FixedInteger {
    /// Writes another value over that of an event whose fields begin with `body`; upper bits that have no place are left
    /// out.
    pub fn write(&self, body: &mut [u8], value: u64) {
        let end = self.offset_bytes + self.width_bytes;
        let Some(place) = body.get_mut(self.offset_bytes..end) else { return };
        if self.big {
            place.copy_from_slice(&value.to_be_bytes()[8 - self.width_bytes..]);
        } else {
            place.copy_from_slice(&value.to_le_bytes()[..self.width_bytes]);
        }
    }

    /// Its bytes, counted from the first one after the header.
    pub fn bytes(&self) -> std::ops::Range<usize> {
        self.offset_bytes..self.offset_bytes + self.width_bytes
    }

    /// The same integer where bytes before it are left out.
    #[must_use]
    pub fn moved_back(self, bytes: usize) -> Self {
        FixedInteger { offset_bytes: self.offset_bytes.saturating_sub(bytes), ..self }
    }

    /// Is the integer signed?
    pub fn is_signed(&self) -> bool {
        self.is_signed
    }

    /// The value of the event whose fields begin at `body_bits`, as the 64 bits of a `u64` or, when it is signed, of
    /// an `i64`. `None` when the event does not begin on a byte, or ends before.
    #[inline]
    pub fn read(&self, input: PlanInput<'_>, body_bits: u64) -> Option<u64> {
        self.read_in(input.from_byte(body_bits)?)
    }

    /// As [`read`](Self::read), of the event whose fields are [the first ones](PlanInput::from_byte) in these bytes.
    #[inline]
    pub fn read_in(&self, body: &[u8]) -> Option<u64> {
        let bytes = body.get(self.offset_bytes..)?;
        // Most often eight bytes can be read, of which those after the integer are shifted out.
        let unused = 64 - 8 * self.width_bytes as u32;
        let bits = match bytes.first_chunk() {
            Some(eight) if self.big => u64::from_be_bytes(*eight),
            Some(eight) => u64::from_le_bytes(*eight) << unused,
            None => {
                let append = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
                let bytes = bytes.get(..self.width_bytes)?;
                let bits = if self.big { bytes.iter().fold(0, append) } else { bytes.iter().rev().fold(0, append) };
                bits << unused
            }
        };
        Some(if self.is_signed { (bits as i64 >> unused) as u64 } else { bits >> unused })
    }
}

impl FixedText {
    /// The text of the event whose fields begin at `body_bits`, up to its first zero. `None` when the event does not begin on
    /// a byte, or ends before.
    #[inline]
    pub fn read<'a>(&self, input: PlanInput<'a>, body_bits: u64) -> Option<&'a [u8]> {
        self.read_in(input.from_byte(body_bits)?)
    }

    /// As [`read`](Self::read), of the event whose fields are [the first ones](PlanInput::from_byte) in these bytes.
    #[inline]
    pub fn read_in<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = self.all(body)?;
        let end = memchr::memchr(0, bytes).or(self.len_bytes)?;
        bytes.get(..end)
    }

    /// Is the text this one, which has no zeros, in the event whose fields are [the first ones](PlanInput::from_byte) in these
    /// bytes?
    #[inline]
    pub fn is_in(&self, body: &[u8], text: &[u8]) -> bool {
        let Some(bytes) = self.all(body) else { return false };
        bytes.strip_prefix(text).is_some_and(|rest| rest.first().map_or(self.len_bytes.is_some(), |byte| *byte == 0))
    }

    #[inline]
    fn all<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = body.get(self.offset_bytes..)?;
        match self.len_bytes {
            Some(len) => bytes.get(..len),
            None => Some(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanNode;
    use tracemill_model::schema::FieldClassId;

    fn plan(ops: &[Op]) -> Plan {
        let node = PlanNode { class: FieldClassId(0), name: "".into(), parent: 0, is_content: false };
        Plan { ops: ops.into(), nodes: vec![node; 8].into(), ..Plan::default() }
    }

    #[test]
    fn what_stands_before_is_added_up() {
        let plan = plan(&[
            Op::BeginStruct { node: 0 },
            Op::U8 { node: 1 },
            Op::Advance { bits: 24 },
            Op::S16 { node: 2, big: true },
            Op::Rendered { node: 3, render: 0, bytes: 0 },
            Op::Align { mask: 7 },
            Op::U32 { node: 4, big: false },
            Op::Str { node: 5, unit: 1 },
            Op::U8 { node: 6 },
        ]);
        let bytes = [9, 7, 0, 0, 0, 0xff, 0xfe, 0x78, 0x56, 0x34, 0x12, 0, 1];
        let read = |node, end_bytes: u64| plan.fixed_integer(node)?.read(PlanInput::new(&bytes, end_bytes * 8), 8);
        assert_eq!(read(1, 13), Some(7));
        assert_eq!(read(2, 13), Some(-2i64 as u64));
        assert_eq!(read(4, 13), Some(0x1234_5678));
        assert_eq!(read(4, 10), None, "the content ends before");
        assert!(plan.fixed_integer(6).is_none(), "a string stands before");
        assert!(plan.fixed_integer(3).is_none(), "no integer");
        let first = plan.fixed_integer(1).expect("it is fixed");
        assert_eq!(first.read(PlanInput::new(&bytes, 104), 4), None, "not on a byte");
        assert_eq!(first.read(PlanInput::new(&bytes, 104), u64::MAX - 7), None);
    }

    #[test]
    fn texts_of_fixed_length_are_fixed() {
        let set = |value| Op::Set { slot: 3, value };
        let text = |node| Op::StrBytes { node, unit: 1, len: 3 };
        let of = plan(&[set(4), text(1), Op::U8 { node: 2 }, set(2), text(3), Op::U8 { node: 4 }, text(5)]);
        let bytes = *b"_ab\0z\x07cd\x09efgh";
        let input = PlanInput::new(&bytes, 104);
        let read = |node| of.fixed_text(node).expect("it is fixed").read(input, 8);
        assert_eq!((read(1), read(3)), (Some(&b"ab"[..]), Some(&b"cd"[..])));
        assert_eq!(of.fixed_integer(2).and_then(|integer| integer.read(input, 8)), Some(7));
        assert_eq!(of.fixed_integer(4).and_then(|integer| integer.read(input, 8)), Some(9));
        let first = of.fixed_text(1).unwrap();
        let body = input.from_byte(8).expect("it begins on a byte");
        assert!(first.is_in(body, b"ab") && !first.is_in(body, b"a") && !first.is_in(body, b"abc"));
        assert!(of.fixed_text(3).unwrap().is_in(body, b"cd") && !first.is_in(body, b""));
        assert_eq!((first.read(input, 4), first.read(input, 80)), (None, None));
        assert!(of.fixed_text(2).is_none(), "no text");
        let other = Op::StrBytes { node: 1, unit: 1, len: 4 };
        assert!(plan(&[set(4), other]).fixed_text(1).is_none(), "another length");
        assert!(plan(&[set(4), Op::Save { slot: 3 }, text(1)]).fixed_text(1).is_none(), "a length that is read");
        let of = plan(&[Op::U8 { node: 1 }, Op::Str { node: 2, unit: 1 }, Op::Str { node: 3, unit: 1 }]);
        let text = of.fixed_text(2).expect("it is fixed");
        let input = PlanInput::new(b"_1ab\0cd", 56);
        assert_eq!(text.read(input, 8), Some(&b"ab"[..]));
        let body = input.from_byte(8).expect("it begins on a byte");
        assert!(text.is_in(body, b"ab") && !text.is_in(body, b"a") && !text.is_in(body, b"abc"));
        assert_eq!(text.read(input, 32), None, "it has no end");
        assert!(!text.is_in(&body[3..], b"cd") && of.fixed_text(3).is_none(), "a string stands before");
        let wide = Op::StrBytes { node: 1, unit: 2, len: 3 };
        assert!(plan(&[set(4), wide, Op::U8 { node: 2 }]).fixed_integer(2).is_none());
    }

    #[test]
    fn the_first_section_may_have_a_fixed_size() {
        let bytes = |first: &[Op]| {
            let mut of = plan(&[first, &[Op::Str { node: 7, unit: 1 }]].concat());
            of.ends = [first.len() as u32, first.len() as u32 + 1].into();
            of.first_section_bytes()
        };
        let (number, set) = (Op::U32 { node: 1, big: false }, Op::Set { slot: 3, value: 17 });
        let text = Op::StrBytes { node: 2, unit: 1, len: 3 };
        assert_eq!(bytes(&[]), Some(0));
        assert_eq!(bytes(&[number, Op::Advance { bits: 32 }, Op::F64 { node: 3, big: false }]), Some(16));
        assert_eq!(bytes(&[number, set, text]), Some(21));
        assert_eq!(bytes(&[number, Op::Save { slot: 1 }]), None, "something depends on it");
        assert_eq!(bytes(&[set, number]), None, "a mark for something behind it");
        assert_eq!(bytes(&[number, set]), None, "a mark for something behind it");
        assert_eq!(bytes(&[text]), None, "a length that is read");
        assert_eq!(bytes(&[Op::Str { node: 1, unit: 1 }]), None);
        assert_eq!(bytes(&[Op::Align { mask: 31 }, number]), None, "padding that depends on the place");
        let bits = Op::Bits { node: 0, len: 3, big: false, reversed: false, signed: false };
        assert_eq!(bytes(&[bits]), None);
    }

    #[test]
    fn bits_and_wide_alignments_are_not_fixed() {
        let bits = Op::Bits { node: 0, len: 3, big: false, reversed: false, signed: false };
        assert!(plan(&[bits, Op::U8 { node: 1 }]).fixed_integer(1).is_none());
        assert!(plan(&[Op::Align { mask: 31 }, Op::U8 { node: 1 }]).fixed_integer(1).is_none());
        let rest = Op::Bits { node: 2, len: 5, big: false, reversed: false, signed: false };
        assert!(plan(&[bits, rest, Op::U8 { node: 1 }]).fixed_integer(1).is_some());
    }
}
