//! Packets as bytes, from the definition of their headers.

/// Metadata of v1.1: one section, and an event with a number and a text.
pub(super) const METADATA_11: &str = "
trace { major = 1; minor = 1; }
type uint8_t { parent = integer; size = 8; }
type uint16_t { parent = integer; size = 16; }
type uint32_t { parent = integer; size = 32; }
section { name = main; event { header_type = type2; } }
event { name = ev; id = 1; section = main; fields = type { parent = struct; fields = {
  { uint32_t, a },
  { type { parent = sequence; length_type = uint16_t; elem_type = uint8_t; }, s },
  { string, t },
} } }
";

/// These declarations in v1.6.
pub(super) const METADATA_16: &str = "
trace { major = 1; minor = 6; uuid = \"01020304-0506-0708-090a-0b0c0d0e0f10\"; };
typedef integer { size = 8; } uint8_t;
typedef integer { size = 16; } uint16_t;
typedef integer { size = 32; } uint32_t;
typedef integer { size = 64; } uint64_t;
stream {
  id = 0;
  event { header_type = event_header_2; };
  packet { context_type = struct {
    uint32_t content_size; uint32_t packet_size; uint64_t timestamp_begin; uint64_t timestamp_end;
    uint32_t checksum; uint8_t compression_scheme; uint8_t encryption_scheme; uint8_t checksum_scheme;
  }; };
};
event { name = ev; id = 1; stream = 0; fields = struct { uint32_t a; uint8_t s[uint16_t]; string t; }; };
";

/// Which dialect a packet is of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Draft {
    V11,
    V16,
}

pub(super) const DRAFTS: [Draft; 2] = [Draft::V11, Draft::V16];

impl Draft {
    pub(super) fn metadata(self) -> &'static str {
        match self {
            Draft::V11 => METADATA_11,
            Draft::V16 => METADATA_16,
        }
    }

    /// Name of the stream file.
    pub(super) fn file(self) -> &'static str {
        "main_0"
    }

    /// Bytes of header and context.
    pub(super) fn header_len(self) -> usize {
        match self {
            Draft::V11 => 48,
            Draft::V16 => 24 + 31,
        }
    }

    /// Bytes that the encryption authenticates.
    pub(super) fn associated(self) -> std::ops::Range<usize> {
        match self {
            Draft::V11 => 4..8,
            Draft::V16 => 4..24,
        }
    }
}

/// The session id and the uuid of all packets.
pub(super) const SESSION: u32 = 0x0403_0201;
pub(super) const UUID: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// A packet of little-endian numbers.
#[derive(Clone, Default)]
pub(super) struct Packet {
    pub(super) begin: u64,
    pub(super) content: Vec<u8>,
    pub(super) schemes: [u8; 3],
    pub(super) checksum: u32,
    pub(super) count: u32,
    pub(super) padding: usize,
}

impl Packet {
    pub(super) fn new(begin: u64, content: Vec<u8>) -> Self {
        Packet { begin, content, ..Packet::default() }
    }

    pub(super) fn bytes(&self, draft: Draft) -> Vec<u8> {
        let content_size = (draft.header_len() + self.content.len()) as u32;
        let packet_size = content_size + self.padding as u32;
        let mut bytes = 0xC1FC_1FC1u32.to_le_bytes().to_vec();
        let sizes = [content_size, packet_size].map(u32::to_le_bytes).concat();
        let times = [self.begin, self.begin + 100].map(u64::to_le_bytes).concat();
        match draft {
            Draft::V11 => {
                bytes.extend(SESSION.to_le_bytes());
                bytes.extend(sizes);
                bytes.extend(self.checksum.to_le_bytes());
                bytes.extend(self.count.to_le_bytes());
                bytes.extend(times);
                bytes.extend([0, 0, 0, 0, 32]);
            }
            Draft::V16 => {
                bytes.extend(UUID);
                bytes.extend([0; 4]);
                bytes.extend(sizes);
                bytes.extend(times);
                bytes.extend(self.checksum.to_le_bytes());
            }
        }
        bytes.extend(self.schemes);
        assert_eq!(bytes.len(), draft.header_len());
        bytes.extend(&self.content);
        bytes.resize(bytes.len() + self.padding, 0xee);
        bytes
    }
}

/// An event of the metadata above, with a header of type 2.
pub(super) fn event(time: u32, a: u32, s: &[u8], t: &str) -> Vec<u8> {
    let mut bytes = time.to_le_bytes().to_vec();
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(a.to_le_bytes());
    bytes.extend((s.len() as u16).to_le_bytes());
    bytes.extend(s);
    bytes.extend(t.as_bytes());
    bytes.push(0);
    bytes
}

/// Two events, as [`two_shown`] shows them.
pub(super) fn two(begin: u32) -> Vec<u8> {
    [event(begin, 0, &[1, 2, 3], "hello"), event(begin + 10, 9, &[], "x")].concat()
}

pub(super) fn two_shown(draft: Draft, begin: u32) -> [String; 2] {
    let shown = |time: u32, a: u32, s: &str, t: &str| match draft {
        Draft::V11 => format!("{time} ev {{a={a},s=[{s}],t=\"{t}\",}}"),
        // Each field is an optional one.
        Draft::V16 => format!("{time} ev {{a={a},s=[{s}],t=\"{t}\",}}"),
    };
    [shown(begin, 0, "1,2,3,", "hello"), shown(begin + 10, 9, "", "x")]
}
