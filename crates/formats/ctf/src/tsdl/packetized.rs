//! The metadata file: plain text, or text in packets (CTF 1.8.3, 7.1; CTF2-PMETA-1.0, whose headers say their own size).

use tracemill_codec::bits::read_uint;
use tracemill_codec::text::Span;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::ByteOrder;

use super::lexer::{Lexer, TokenKind};

/// Magic number at the start of a metadata packet.
const MAGIC: u32 = 0x75D1_1D57;

/// Bytes of a packet header.
const HEADER_LEN: usize = 37;

/// Bytes of a packet header of CTF2-PMETA-1.0, at least: three are reserved, four are the header's own size in bits.
const LONG_HEADER_LEN: usize = 44;
const HEADER_SIZE_AT: usize = 40;

/// How far into a text without signature the version is looked for.
const PROBE_LEN: usize = 1 << 16;

/// How a metadata file is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    /// Plain text.
    Text,
    /// Packets whose headers have this byte order.
    Packetized(ByteOrder),
}

/// The text of a metadata file.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// The TSDL text.
    pub text: String,
    /// Byte order of the packet headers; `None` for plain text. It is the native one of the trace.
    pub byte_order: Option<ByteOrder>,
    /// UUID of the packet headers; `None` for plain text.
    pub uuid: Option<[u8; 16]>,
    /// Damage of the file that could be passed over, with byte offsets.
    pub faults: Vec<Error>,
}

/// Does a metadata file begin like CTF 1.8? A text that only lacks the signature is recognised too, unless its trace
/// block says that it is something else. A signature of another version is recognised, so that [`read_text`] can
/// refuse it by name.
pub fn probe(bytes: &[u8]) -> Option<Flavour> {
    match order_of_magic(MAGIC, bytes) {
        Some(order) => Some(Flavour::Packetized(order)),
        None if signature_version(bytes).is_some() || looks_like_tsdl(bytes) => Some(Flavour::Text),
        None => None,
    }
}

/// Reads the text of a metadata file.
///
/// # Errors
/// A packet with a broken header or with another UUID is an error with its byte offset; so are compressed and
/// encrypted packets and signatures of other versions. A last packet that is truncated and invalid UTF-8 are errors of
/// the returned value.
pub fn read_text(bytes: &[u8]) -> Result<Metadata> {
    match order_of_magic(MAGIC, bytes) {
        Some(order) => unpack(bytes, order),
        None => {
            let metadata = Metadata { text: String::new(), byte_order: None, uuid: None, faults: Vec::new() };
            finish(metadata, bytes, |offset| offset)
        }
    }
}

/// The byte order in which a number stands at the start of some bytes.
pub(crate) fn order_of_magic(magic: u32, bytes: &[u8]) -> Option<ByteOrder> {
    let first = *bytes.first_chunk::<4>()?;
    match magic {
        _ if u32::from_le_bytes(first) == magic => Some(ByteOrder::Little),
        _ if u32::from_be_bytes(first) == magic => Some(ByteOrder::Big),
        _ => None,
    }
}

/// The version after `/* CTF` at the start of a text, as it is written.
fn signature_version(bytes: &[u8]) -> Option<&str> {
    let rest = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    let rest = rest.strip_prefix(b"/*")?.trim_ascii_start().strip_prefix(b"CTF")?.trim_ascii_start();
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    std::str::from_utf8(&rest[..len]).ok().filter(|version| version.contains('.'))
}

/// Is it version 1.8 or a revision of it, such as 1.8.3?
fn is_1_8(version: &str) -> bool {
    version == "1.8" || version.starts_with("1.8.")
}

/// Does a text without signature begin with a TSDL declaration, in a trace that does not say another version?
fn looks_like_tsdl(bytes: &[u8]) -> bool {
    let mut head = &bytes[..bytes.len().min(PROBE_LEN)];
    if let Err(error) = std::str::from_utf8(head) {
        // The end may go through a character; anything else is not text.
        if error.error_len().is_some() {
            return false;
        }
        head = &head[..error.valid_up_to()];
    }
    let text = std::str::from_utf8(head).unwrap_or("");
    let mut lexer = Lexer::new(text, Span::new(0, text.len()));
    match lexer.next() {
        Ok(token) if token.kind == TokenKind::Word => match token.span.text(text) {
            "trace" | "env" | "clock" | "stream" | "event" | "callsite" | "typealias" | "typedef" | "struct"
            | "variant" | "enum" | "integer" | "floating_point" | "string" => has_version_1_8(text),
            _ => false,
        },
        _ => false,
    }
}

/// Looks for `trace {` with `minor = 8`. Older dialects share the keywords and differ in the version.
fn has_version_1_8(text: &str) -> bool {
    let mut lexer = Lexer::new(text, Span::new(0, text.len()));
    let mut words = ["", "", ""];
    let mut in_trace = false;
    while let Ok(token) = lexer.next() {
        let word = token.span.text(text);
        match token.kind {
            TokenKind::End => break,
            TokenKind::Symbol("{") if words[2] == "trace" => in_trace = true,
            TokenKind::Integer(minor) if in_trace && words[1] == "minor" && words[2] == "=" => return minor == 8,
            _ => {}
        }
        words = [words[1], words[2], word];
    }
    false
}

struct MetadataPacketHeader {
    uuid: [u8; 16],
    header_len: usize,
    content_len: usize,
    packet_len: usize,
}

fn unpack(bytes: &[u8], order: ByteOrder) -> Result<Metadata> {
    let mut metadata = Metadata { text: String::new(), byte_order: Some(order), uuid: None, faults: Vec::new() };
    let mut text = Vec::with_capacity(bytes.len());
    // Where the text of each packet starts: in the text, in the file.
    let mut starts = Vec::new();
    let is_long = has_long_headers(bytes, order);
    let min_len = if is_long { LONG_HEADER_LEN } else { HEADER_LEN };
    let mut at = 0;
    while at < bytes.len() {
        if bytes.len() - at < min_len {
            // Zeros after the last packet are padding of the file.
            if bytes[at..].iter().any(|&byte| byte != 0) {
                metadata.faults.push(truncated(at, "metadata ends inside a packet header"));
            }
            break;
        }
        let header = read_header(bytes, at, order, is_long)?;
        match metadata.uuid {
            None => metadata.uuid = Some(header.uuid),
            Some(uuid) if uuid != header.uuid => {
                return Err(
                    Error::inconsistent("metadata packet has the uuid of another trace").at_offset(at as u64 + 4)
                );
            }
            Some(_) => {}
        }
        let content_end = at + header.content_len;
        if content_end > bytes.len() {
            metadata.faults.push(truncated(bytes.len(), "metadata ends inside a packet"));
        }
        let text_start = at + header.header_len;
        starts.push((text.len(), text_start));
        text.extend_from_slice(bytes.get(text_start..content_end.min(bytes.len())).unwrap_or(&[]));
        at += header.packet_len;
    }
    finish(metadata, &text, |offset| {
        let packet = starts.partition_point(|(in_text, _)| *in_text <= offset).saturating_sub(1);
        starts.get(packet).map_or(offset, |(in_text, in_file)| in_file + (offset - in_text))
    })
}

fn truncated(at: usize, message: &str) -> Error {
    Error::truncated(message).at_offset(at as u64)
}

/// Do the headers have the form of CTF2-PMETA-1.0? LTTng writes CTF 2 after the headers of CTF 1.8: there text stands where
/// this form has the header's size, and four characters are a larger number than the content is long.
fn has_long_headers(bytes: &[u8], order: ByteOrder) -> bool {
    let Some(first) = bytes.get(..LONG_HEADER_LEN) else { return false };
    let u32_at = |offset: usize| read_uint(&first[offset..offset + 4], order);
    let header_bits = u32_at(HEADER_SIZE_AT);
    first[35] == 2
        && first[HEADER_LEN] != 0x1E
        && header_bits.is_multiple_of(8)
        && (LONG_HEADER_LEN as u64 * 8..=u32_at(24)).contains(&header_bits)
}

/// Reads the packet header at `at`, where enough bytes are.
fn read_header(bytes: &[u8], at: usize, order: ByteOrder, is_long: bool) -> Result<MetadataPacketHeader> {
    let u32_at = |offset: usize| read_uint(&bytes[at + offset..at + offset + 4], order) as u32;
    let fail = |kind, offset: usize, message: String| Err(Error::new(kind, message).at_offset((at + offset) as u64));
    let magic = u32_at(0);
    if magic != MAGIC {
        let message = format!("metadata packet has the magic number 0x{magic:08X}, not 0x{MAGIC:08X}");
        return fail(ErrorKind::Malformed, 0, message);
    }
    let [compression, encryption, checksum_scheme, major, minor] =
        [32, 33, 34, 35, 36].map(|offset| bytes[at + offset]);
    if !matches!((major, minor), (1, 8) | (2, 0)) {
        let message = format!("metadata packet of CTF version {major}.{minor}, not 1.8 or 2.0");
        return fail(ErrorKind::Unsupported, 35, message);
    }
    for (offset, scheme, what) in [(32, compression, "compressed"), (33, encryption, "encrypted")] {
        if scheme != 0 {
            return fail(ErrorKind::Unsupported, offset, format!("metadata packet is {what} (scheme {scheme})"));
        }
    }
    if checksum_scheme != 0 {
        return fail(ErrorKind::Unsupported, 34, format!("metadata packet has a checksum (scheme {checksum_scheme})"));
    }
    let (content_bits, packet_bits) = (u32_at(24), u32_at(28));
    let (content_len, packet_len) = (content_bits as usize / 8, packet_bits as usize / 8);
    let header_len = if is_long { u32_at(HEADER_SIZE_AT) as usize / 8 } else { HEADER_LEN };
    if is_long && header_len < LONG_HEADER_LEN {
        let message = format!("metadata packet has a header size of {} bits, less than its fields", header_len * 8);
        return fail(ErrorKind::Malformed, HEADER_SIZE_AT, message);
    }
    if content_len < header_len {
        let message = format!("metadata packet has a content size of {content_bits} bits, less than its header");
        return fail(ErrorKind::Malformed, 24, message);
    }
    if packet_len < content_len {
        let message = format!("metadata packet of {packet_bits} bits has a content size of {content_bits} bits");
        return fail(ErrorKind::Malformed, 28, message);
    }
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&bytes[at + 4..at + 20]);
    Ok(MetadataPacketHeader { uuid, header_len, content_len, packet_len })
}

/// Turns the bytes of the text into a string. `file_offset` says where a byte of the text is in the file.
fn finish(mut metadata: Metadata, text: &[u8], file_offset: impl Fn(usize) -> usize) -> Result<Metadata> {
    let skipped = if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    let padding = text.iter().rev().take_while(|byte| **byte == 0).count();
    let text = text.get(skipped..text.len() - padding).unwrap_or(&[]);
    if let Some(version) = signature_version(text).filter(|version| !is_1_8(version)) {
        return Err(Error::unsupported(format!("metadata of CTF version `{version}`, not 1.8"))
            .at_offset(file_offset(0) as u64));
    }
    match std::str::from_utf8(text) {
        Ok(valid) => metadata.text = valid.to_owned(),
        Err(error) => {
            let offset = file_offset(skipped + error.valid_up_to()) as u64;
            metadata.faults.push(Error::malformed("metadata is not valid UTF-8").at_offset(offset));
            metadata.text = String::from_utf8_lossy(text).into_owned();
        }
    }
    Ok(metadata)
}
