//! Values that are bytes already: of events of the crate `tracing`, and of C.

use tracemill_ring::condition::PlainValue;

use crate::field::{FieldClass, Fields, sealed};
use crate::ring::event_buf::EventBuf;

impl FieldClass {
    /// Bytes of a number of this class.
    #[cfg(any(feature = "tracing", feature = "c"))]
    fn size(self) -> usize {
        match self {
            FieldClass::Unsigned(bits) | FieldClass::Signed(bits) | FieldClass::Float(bits) => bits as usize / 8,
            FieldClass::Integer(integer) => integer.bits as usize / 8,
            _ => 1,
        }
    }

    /// The bytes of a value of this class, of a text or a list without its length, and those after it. `None` when they are not
    /// all there.
    #[cfg(any(feature = "tracing", feature = "c"))]
    fn split(self, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let counted = |size: usize| {
            let (count, rest) = bytes.split_first_chunk::<4>()?;
            rest.split_at_checked((u32::from_le_bytes(*count) as usize).checked_mul(size)?)
        };
        match self {
            FieldClass::Text | FieldClass::SequenceText => counted(1),
            FieldClass::Slice(element) => counted(element.size()),
            FieldClass::Sequence(element) => counted(FieldClass::Integer(element).size()),
            FieldClass::Array(count, element) => {
                bytes.split_at_checked((count as usize).checked_mul(FieldClass::Integer(element).size())?)
            }
            FieldClass::FixedText(count) => bytes.split_at_checked(count as usize),
            FieldClass::String => {
                let len = bytes.iter().position(|byte| *byte == 0)?;
                Some((&bytes[..len], &bytes[len + 1..]))
            }
            _ => bytes.split_at_checked(self.size()),
        }
    }

    /// The value of these bytes: of a text or a list without its length.
    #[cfg(any(feature = "tracing", feature = "c"))]
    fn value(self, bytes: &[u8]) -> PlainValue<'_> {
        let mut number = [0; 8];
        let len = bytes.len().min(8);
        number[..len].copy_from_slice(&bytes[..len]);
        if let FieldClass::Integer(integer) = self
            && integer.is_big_endian
        {
            number[..len].reverse();
        }
        let unsigned = u64::from_le_bytes(number);
        let class = if let FieldClass::Integer(integer) = self { integer.number() } else { self };
        match class {
            FieldClass::Unsigned(_) | FieldClass::Integer(_) => PlainValue::Integer(unsigned.into()),
            FieldClass::Signed(bits) => PlainValue::Integer(((unsigned << (64 - bits)) as i64 >> (64 - bits)).into()),
            FieldClass::Float(32) => PlainValue::Real(f32::from_bits(unsigned as u32).into()),
            FieldClass::Float(_) => PlainValue::Real(f64::from_bits(unsigned)),
            FieldClass::Bool => PlainValue::Bool(unsigned != 0),
            FieldClass::Text | FieldClass::SequenceText | FieldClass::String => PlainValue::Text(bytes),
            FieldClass::FixedText(_) => PlainValue::Text(bytes.split(|byte| *byte == 0).next().unwrap_or_default()),
            FieldClass::Slice(_) | FieldClass::Array(..) | FieldClass::Sequence(_) => {
                PlainValue::List(!bytes.is_empty())
            }
        }
    }
}

/// Fields that are encoded already.
#[cfg(any(feature = "tracing", feature = "c"))]
pub(crate) struct Encoded<'a>(pub(crate) &'a [u8]);

#[cfg(any(feature = "tracing", feature = "c"))]
impl sealed::Sealed for Encoded<'_> {}

#[cfg(any(feature = "tracing", feature = "c"))]
impl Fields for Encoded<'_> {
    const CLASSES: &'static [FieldClass] = &[];

    #[inline(always)]
    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn put(&self, place: &mut EventBuf<'_>) {
        // Two numbers, or a short text.
        if self.0.len() <= 16 {
            return place.put_bytes(self.0);
        }
        // Few bytes are nearly always numbers: a call of `memcpy` would cost more.
        let (words, rest) = if self.0.len() <= 64 { self.0.as_chunks() } else { (&[][..], self.0) };
        words.iter().for_each(|word: &[u8; 8]| place.put(*word));
        if !rest.is_empty() {
            place.put_bytes(rest);
        }
    }

    fn value(&self, _: usize) -> PlainValue<'_> {
        // Their classes are known to `DecodedFields` only.
        PlainValue::List(false)
    }
}

/// Two numbers of eight bytes that are encoded already.
#[cfg(feature = "tracing")]
pub(crate) struct EncodedTwo<'a>(pub(crate) &'a [u8; 16]);

#[cfg(feature = "tracing")]
impl sealed::Sealed for EncodedTwo<'_> {}

#[cfg(feature = "tracing")]
impl Fields for EncodedTwo<'_> {
    const CLASSES: &'static [FieldClass] = &[];

    #[inline(always)]
    fn encoded_len(&self) -> usize {
        16
    }

    #[inline(always)]
    fn put(&self, place: &mut EventBuf<'_>) {
        let (first, second) = self.0.split_at(8);
        for number in [first, second].map(|bytes| bytes.first_chunk::<8>()) {
            place.put(number.copied().unwrap_or_default());
        }
    }

    fn value(&self, _: usize) -> PlainValue<'_> {
        PlainValue::List(false)
    }
}

/// Fields that are encoded already, with their classes.
#[cfg(any(feature = "tracing", feature = "c"))]
#[derive(Clone, Copy)]
pub(crate) struct DecodedFields<'a> {
    pub(crate) classes: &'a [FieldClass],
    pub(crate) bytes: &'a [u8],
}

#[cfg(any(feature = "tracing", feature = "c"))]
impl sealed::Sealed for DecodedFields<'_> {}

#[cfg(any(feature = "tracing", feature = "c"))]
impl Fields for DecodedFields<'_> {
    const CLASSES: &'static [FieldClass] = &[];

    fn encoded_len(&self) -> usize {
        self.bytes.len()
    }

    fn put(&self, place: &mut EventBuf<'_>) {
        place.put_bytes(self.bytes);
    }

    fn value(&self, at: usize) -> PlainValue<'_> {
        let mut rest = self.bytes;
        for (field, class) in self.classes.iter().enumerate() {
            let Some((bytes, after)) = class.split(rest) else { break };
            if field == at {
                return class.value(bytes);
            }
            rest = after;
        }
        PlainValue::List(false)
    }
}

#[cfg(all(test, any(feature = "tracing", feature = "c")))]
mod tests {
    use super::*;
    use crate::field::IntegerClass;

    #[test]
    fn values_are_found_in_their_bytes() {
        let classes = [
            FieldClass::Unsigned(64),
            FieldClass::Signed(16),
            FieldClass::Text,
            FieldClass::Slice(&FieldClass::Unsigned(32)),
            FieldClass::Float(32),
            FieldClass::Bool,
            FieldClass::Float(64),
        ];
        let parts: [&[u8]; 7] = [
            &u64::MAX.to_le_bytes(),
            &(-2_i16).to_le_bytes(),
            b"M\xc3\xbchle",
            &[0; 8],
            &1.5_f32.to_le_bytes(),
            &[1],
            &(-2.5_f64).to_le_bytes(),
        ];
        let mut bytes = Vec::new();
        for (class, part) in classes.iter().zip(parts) {
            match class {
                FieldClass::Text => bytes.extend((part.len() as u32).to_le_bytes()),
                FieldClass::Slice(_) => bytes.extend((part.len() as u32 / 4).to_le_bytes()),
                _ => {}
            }
            bytes.extend(part);
        }
        let expected = [
            PlainValue::Integer(u64::MAX.into()),
            PlainValue::Integer(-2),
            PlainValue::Text("Mühle".as_bytes()),
            PlainValue::List(true),
            PlainValue::Real(1.5),
            PlainValue::Bool(true),
            PlainValue::Real(-2.5),
        ];
        let decoded = DecodedFields { classes: &classes, bytes: &bytes };
        assert_eq!(std::array::from_fn(|at| decoded.value(at)), expected);
        assert_eq!(decoded.value(7), PlainValue::List(false));
        let cut = DecodedFields { classes: &classes, bytes: &bytes[..20] };
        assert_eq!(cut.value(3), PlainValue::List(false), "it is not there");
    }

    #[test]
    fn values_of_c_are_found_in_their_bytes() {
        let integer = |bits, is_signed, is_big_endian| IntegerClass {
            bits,
            is_signed,
            is_big_endian,
            is_hexadecimal: false,
            labels: &[],
        };
        let classes = [
            FieldClass::Integer(integer(16, true, true)),
            FieldClass::Integer(integer(32, false, true)),
            FieldClass::Integer(integer(8, true, false)),
            FieldClass::Array(2, integer(16, false, true)),
            FieldClass::Array(0, integer(64, false, false)),
            FieldClass::Sequence(integer(32, true, false)),
            FieldClass::SequenceText,
            FieldClass::String,
            FieldClass::FixedText(4),
            FieldClass::FixedText(2),
            FieldClass::Unsigned(8),
        ];
        let parts: [&[u8]; 11] = [
            &(-2_i16).to_be_bytes(),
            &0x8000_0001_u32.to_be_bytes(),
            &[0xff],
            &[0; 4],
            &[],
            &[1, 0, 0, 0, 5, 0, 0, 0],
            b"\x03\0\0\0rye",
            b"oats\0",
            b"ab\0c",
            b"ab",
            &[7],
        ];
        let expected = [
            PlainValue::Integer(-2),
            PlainValue::Integer(0x8000_0001),
            PlainValue::Integer(-1),
            PlainValue::List(true),
            PlainValue::List(false),
            PlainValue::List(true),
            PlainValue::Text(b"rye"),
            PlainValue::Text(b"oats"),
            PlainValue::Text(b"ab"),
            PlainValue::Text(b"ab"),
            PlainValue::Integer(7),
        ];
        let bytes = parts.concat();
        let decoded = DecodedFields { classes: &classes, bytes: &bytes };
        assert_eq!(std::array::from_fn(|at| decoded.value(at)), expected);
        let cut = DecodedFields { classes: &classes, bytes: &bytes[..parts[..7].concat().len() + 4] };
        assert_eq!(cut.value(7), PlainValue::List(false), "its end is not there");
    }
}
