//! Protocol buffers: tags, varints, and messages whose length is known when they end.

/// A buffer of fields.
#[derive(Default)]
pub struct ProtoWriter {
    bytes: Vec<u8>,
    /// Where the content of each message begins that is being written.
    open: Vec<usize>,
}

/// Wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LEN: u32 = 2;

impl ProtoWriter {
    /// The bytes written so far.
    pub fn written(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Was nothing written so far?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.open.clear();
    }

    /// Appends fields that were written elsewhere.
    #[inline]
    pub fn append(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
    }

    // As `put_leb` of the codec's bits, by which writing a trace takes 4 % more instructions: it is not compiled in place.
    #[inline]
    fn varint(&mut self, value: u64) {
        if value < 0x80 {
            return self.bytes.push(value as u8);
        }
        let (mut block, mut len, mut rest) = ([0u8; 10], 0, value);
        while rest >= 0x80 {
            block[len] = rest as u8 | 0x80;
            rest >>= 7;
            len += 1;
        }
        block[len] = rest as u8;
        self.bytes.extend_from_slice(&block[..=len]);
    }

    #[inline]
    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    /// An unsigned integer, a boolean, or a value of an enumeration.
    #[inline]
    pub fn unsigned(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    /// A signed integer: `int32` and `int64`.
    #[inline]
    pub fn signed(&mut self, field: u32, value: i64) {
        self.unsigned(field, value as u64);
    }

    /// A number of 64 bits that are stored as they are.
    pub fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A floating point number.
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// A string or bytes.
    #[inline]
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, LEN);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// A message begins; its fields follow.
    #[inline]
    pub fn begin(&mut self, field: u32) {
        self.tag(field, LEN);
        self.bytes.push(0);
        self.open.push(self.bytes.len());
    }

    /// The message that began last ends. Most have less than 128 bytes; longer ones move up to make room for their length.
    #[inline]
    pub fn end(&mut self) {
        let Some(start) = self.open.pop() else { return };
        let len = self.bytes.len() - start;
        match len {
            0..0x80 => self.bytes[start - 1] = len as u8,
            _ => self.end_long(start, len),
        }
    }

    #[inline(never)]
    fn end_long(&mut self, start: usize, len: usize) {
        let more = (len.ilog2() / 7) as usize;
        self.bytes.resize(start + len + more, 0);
        self.bytes.copy_within(start..start + len, start + more);
        let mut rest = len;
        for byte in &mut self.bytes[start - 1..start + more] {
            *byte = rest as u8 & 0x7f | 0x80;
            rest >>= 7;
        }
        self.bytes[start + more - 1] &= 0x7f;
    }
}

#[cfg(test)]
mod tests {
    use super::ProtoWriter;

    #[test]
    fn messages_get_their_length_when_they_end() {
        for len in [0, 1, 127, 128, 129, 16_383, 16_384, 3_000_000] {
            let mut out = ProtoWriter::default();
            out.begin(1);
            out.begin(2);
            let bytes = vec![0x55; len];
            out.append(&bytes);
            out.end();
            out.unsigned(3, 300);
            out.end();
            let mut at = 0;
            let mut varint = |bytes: &[u8]| {
                let (mut value, mut shift) = (0usize, 0);
                loop {
                    let byte = bytes[at];
                    at += 1;
                    value |= usize::from(byte & 0x7f) << shift;
                    shift += 7;
                    if byte < 0x80 {
                        return (value, at);
                    }
                }
            };
            let written = out.written();
            assert_eq!(varint(written).0, 1 << 3 | 2);
            let (outer, begin) = varint(written);
            assert_eq!(begin + outer, written.len(), "{len}");
            assert_eq!(varint(written).0, 2 << 3 | 2);
            let (inner, begin) = varint(written);
            assert_eq!(inner, len);
            assert_eq!(&written[begin..begin + len], bytes);
            assert_eq!(&written[begin + len..], [3 << 3, 0xac, 0x02]);
        }
    }

    #[test]
    fn negative_numbers_take_ten_bytes() {
        let mut out = ProtoWriter::default();
        out.signed(4, -1);
        assert_eq!(out.written(), [0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }
}
