//! Packets that are being written, bit by bit.

/// The order of the bytes of a number, and where its first bit lies in a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Little,
    Big,
}

/// Bytes, and how far they are written.
#[derive(Default)]
pub(crate) struct Bits {
    pub(crate) bytes: Vec<u8>,
    pub(crate) pos: u64,
}

impl Bits {
    /// Goes to the next multiple of so many bits.
    pub(crate) fn align(&mut self, bits: u64) {
        self.seek(self.pos.next_multiple_of(bits.max(1)));
    }

    /// Goes to a place; what is not there yet is zero.
    pub(crate) fn seek(&mut self, pos: u64) {
        self.pos = pos;
        let len = pos.div_ceil(8) as usize;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
    }

    /// Appends the low bits of a number; `reversed` begins with its last bit.
    pub(crate) fn put(&mut self, value: i128, len_bits: u32, order: Order, reversed: bool) {
        let at = self.pos;
        self.seek(at + u64::from(len_bits));
        for bit in 0..len_bits {
            // Which bit of the value stands at this place.
            let of = match (order, reversed) {
                (Order::Little, false) | (Order::Big, true) => bit,
                _ => len_bits - 1 - bit,
            };
            let place = at + u64::from(bit);
            let shift = match order {
                Order::Little => place % 8,
                Order::Big => 7 - place % 8,
            };
            let byte = &mut self.bytes[(place / 8) as usize];
            *byte = *byte & !(1 << shift) | ((value >> of & 1) as u8) << shift;
        }
    }

    /// Appends bytes, from the next byte on.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.align(8);
        let at = (self.pos / 8) as usize;
        self.seek(self.pos + bytes.len() as u64 * 8);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Appends an integer of variable length, seven bits in a byte; so many bytes more than it needs.
    pub(crate) fn put_leb(&mut self, mut value: i128, signed: bool, more: u32) {
        let mut bytes = Vec::new();
        loop {
            let byte = (value & 0x7f) as u8;
            value >>= 7;
            let is_last =
                if signed { value == 0 && byte & 0x40 == 0 || value == -1 && byte & 0x40 != 0 } else { value == 0 };
            bytes.push(byte | 0x80);
            if is_last {
                break;
            }
        }
        let fill = if signed && bytes.last().is_some_and(|byte| byte & 0x40 != 0) { 0xff } else { 0x80 };
        bytes.extend(std::iter::repeat_n(fill, more as usize));
        if let Some(last) = bytes.last_mut() {
            *last &= 0x7f;
        }
        self.put_bytes(&bytes);
    }
}
