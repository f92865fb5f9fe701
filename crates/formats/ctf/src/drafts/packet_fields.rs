//! Meanings of the fields of packet headers and contexts, under the names that both dialects use.

/// Meaning of a field of a packet context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ContextMeaning {
    ContentSize,
    PacketSize,
    Begin,
    End,
    Checksum,
    Count,
    CountBits,
    Discarded,
    Compression,
    Encryption,
    ChecksumScheme,
    Cpu,
}

/// The meaning of a name at the top level of a packet context; v1.1 says section where v1.6 says stream.
pub(super) fn meaning(name: &str) -> Option<ContextMeaning> {
    Some(match name {
        "content_size" => ContextMeaning::ContentSize,
        "packet_size" => ContextMeaning::PacketSize,
        "timestamp_begin" => ContextMeaning::Begin,
        "timestamp_end" => ContextMeaning::End,
        "checksum" => ContextMeaning::Checksum,
        "stream_packet_count" => ContextMeaning::Count,
        "stream_packet_count_bits" => ContextMeaning::CountBits,
        "events_discarded" => ContextMeaning::Discarded,
        "compression_scheme" => ContextMeaning::Compression,
        "encryption_scheme" => ContextMeaning::Encryption,
        "checksum_scheme" => ContextMeaning::ChecksumScheme,
        "cpu_id" => ContextMeaning::Cpu,
        _ => return None,
    })
}

/// Does a name of a packet context mean something?
pub(super) fn is_known(name: &str) -> bool {
    meaning(name).is_some()
}

/// Offsets in the fixed header of v1.1, which has no alignment to think of (`SPEC.md`, section 6).
pub(super) const HEADER_11: [(&str, u32); 11] = [
    ("content_size", 32),
    ("packet_size", 32),
    ("checksum", 32),
    ("section_packet_count", 32),
    ("timestamp_begin", 64),
    ("timestamp_end", 64),
    ("events_discarded", 32),
    ("section_packet_count_bits", 8),
    ("compression_scheme", 8),
    ("encryption_scheme", 8),
    ("checksum_scheme", 8),
];
