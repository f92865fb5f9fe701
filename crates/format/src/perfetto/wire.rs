//! The fields of a message, as protocol buffers store them.

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WireValue<'a> {
    /// Integers, booleans, enumerations.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// Texts, bytes, messages, lists of numbers.
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// Its bytes; none of a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            WireValue::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    /// Its number; 0 of bytes.
    pub fn number(self) -> u64 {
        match self {
            WireValue::Varint(value) | WireValue::Fixed64(value) => value,
            WireValue::Fixed32(value) => value.into(),
            WireValue::Bytes(_) => 0,
        }
    }

    /// The numbers of a list: all of a packed field, otherwise the one.
    pub fn each_varint(self, mut each: impl FnMut(u64)) {
        match self {
            WireValue::Bytes(mut bytes) => {
                while let Some((value, rest)) = varint(bytes) {
                    each(value);
                    bytes = rest;
                }
            }
            one => each(one.number()),
        }
    }
}

/// A number at the beginning of some bytes, and the bytes after it.
#[inline]
pub fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((first.into(), &bytes[1..]));
    }
    let mut value = u64::from(first & 0x7f);
    for (at, &byte) in bytes.iter().enumerate().take(10).skip(1) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// The fields of a message, one after the other. Ends early at a field that cannot be read: see [`WireFields::fault`].
#[derive(Clone, Debug)]
pub struct WireFields<'a> {
    rest: &'a [u8],
    len: usize,
    fault: Option<usize>,
}

impl<'a> WireFields<'a> {
    /// The fields of a message of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        WireFields { rest: bytes, len: bytes.len(), fault: None }
    }

    /// The offset in the message where reading goes on.
    pub fn at(&self) -> usize {
        self.len - self.rest.len()
    }

    /// The offset in the message of the field that cannot be read.
    pub fn fault(&self) -> Option<usize> {
        self.fault
    }

    #[inline]
    fn read(&mut self) -> Option<(u32, WireValue<'a>)> {
        let (tag, after) = varint(self.rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number != 0)?;
        let (value, rest) = match tag & 7 {
            0 => varint(after).map(|(value, rest)| (WireValue::Varint(value), rest))?,
            1 => after.split_first_chunk().map(|(of, rest)| (WireValue::Fixed64(u64::from_le_bytes(*of)), rest))?,
            2 => {
                let (len, after) = varint(after)?;
                let (bytes, rest) = after.split_at_checked(usize::try_from(len).ok()?)?;
                (WireValue::Bytes(bytes), rest)
            }
            5 => after.split_first_chunk().map(|(of, rest)| (WireValue::Fixed32(u32::from_le_bytes(*of)), rest))?,
            _ => return None,
        };
        self.rest = rest;
        Some((number, value))
    }
}

impl<'a> Iterator for WireFields<'a> {
    type Item = (u32, WireValue<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.fault.is_some() {
            return None;
        }
        let field = self.read();
        if field.is_none() {
            self.fault = Some(self.at());
        }
        field
    }
}

/// Do some bytes begin a trace: with the tag of `Trace.packet`, and a packet that holds fields as far as it is there?
pub fn is_trace_start(head: &[u8]) -> bool {
    const MAX_FIELD: u32 = 2000;
    let Some((length, rest)) = head.strip_prefix(&[0x0A]).and_then(varint) else { return false };
    let Ok(length) = usize::try_from(length) else { return false };
    if head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        return false;
    }
    let is_whole = length <= rest.len();
    let mut fields = WireFields::new(&rest[..length.min(rest.len())]);
    let mut count = 0;
    for (number, _) in &mut fields {
        if number > MAX_FIELD {
            return false;
        }
        count += 1;
    }
    if let Some(at) = fields.fault() {
        // Cut is what is left of it, or its first field has more bytes than are there.
        let tag = varint(&rest[at..]);
        let is_field =
            tag.is_some_and(|(tag, _)| matches!(tag & 7, 0..=2 | 5) && (8..8 * u64::from(MAX_FIELD)).contains(&tag));
        return !is_whole && (count > 0 || is_field);
    }
    // The next packet begins where this one ends.
    count > 0 && (!is_whole || rest.get(length).is_none_or(|next| *next == 0x0A))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::ProtoWriter;

    #[test]
    fn fields_are_those_that_were_written() {
        let mut out = ProtoWriter::default();
        out.unsigned(1, 300);
        out.signed(2, -1);
        out.bytes(3, b"ab");
        out.fixed64(4, 7);
        out.append(&[5 << 3 | 5, 1, 0, 0, 0]);
        let fields: Vec<_> = WireFields::new(out.written()).collect();
        assert_eq!(
            fields,
            [
                (1, WireValue::Varint(300)),
                (2, WireValue::Varint(u64::MAX)),
                (3, WireValue::Bytes(b"ab")),
                (4, WireValue::Fixed64(7)),
                (5, WireValue::Fixed32(1)),
            ]
        );
    }

    #[test]
    fn fields_that_are_cut_or_impossible_end_the_message() {
        for (bytes, at) in [
            (&[8, 1, 0x80][..], 2),
            (&[8, 1, 0, 1], 2),
            (&[8, 1, 0x12, 5, 1], 2),
            (&[8, 1, 0x0b], 2),
            (&[0x09, 1], 0),
            (&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], 0),
        ] {
            let mut fields = WireFields::new(bytes);
            assert_eq!(fields.by_ref().count(), usize::from(at == 2), "{bytes:?}");
            assert_eq!(fields.fault(), Some(at), "{bytes:?}");
        }
    }

    #[test]
    fn lists_are_packed_or_not() {
        let mut all = Vec::new();
        WireValue::Bytes(&[1, 0xac, 2, 3]).each_varint(|value| all.push(value));
        WireValue::Varint(9).each_varint(|value| all.push(value));
        assert_eq!(all, [1, 300, 3, 9]);
    }

    #[test]
    fn traces_begin_with_a_packet() {
        assert!(is_trace_start(b"\x0a\x04\x08\x01\x50\x02\x0a\x02\x08\x01"));
        assert!(is_trace_start(b"\x0a\x80\x80\x01\x0a\x90\x7f\x08\x01"), "a bundle that is longer than the head");
        for other in
            [&b""[..], b"\x0a", b"\x0a\x00", b"\nhello 1\n", b"\x0a\x04\x08\x01\x50\x02\x0b", b"\x0a\x02\x00\x01"]
        {
            assert!(!is_trace_start(other), "{other:?}");
        }
    }
}
