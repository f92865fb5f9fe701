//! The file `metadata`: which dialect it is, and its text, bare or in packets (`SPEC.md`, D1, D35, D36 and D45).

use std::borrow::Cow;

use tracemill_codec::bits::read_uint;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::ByteOrder;

use super::transform::{self, Schemes, StoredChecksum, Undo};
use super::types::Metadata;
use super::{tail, v11, v16};
use crate::tsdl::order_of_magic;
use crate::tsdl::{Token, TokenKind, draft_tokens};

/// First number of a packet, of metadata too.
pub(super) const MAGIC: u32 = crate::packets::MAGIC as u32;
/// Bytes of the fixed packet headers.
pub(super) const HEADER_11: usize = 48;
pub(super) const HEADER_16: usize = 24;

/// One of the two languages, and with it one of the two layouts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Dialect {
    /// RFC v1.1, November 2010.
    V11,
    /// RFC v1.6, January 2011.
    V16,
}

impl Dialect {
    /// Name of the format.
    pub(super) fn format(self) -> &'static str {
        match self {
            Dialect::V11 => "ctf1.1",
            Dialect::V16 => "ctf1.6",
        }
    }
}

/// Metadata that has been read.
pub(super) struct Loaded {
    pub(super) dialect: Dialect,
    /// Minor version as the trace block says, or as the dialect has it.
    pub(super) minor: u32,
    pub(super) metadata: Metadata,
    /// The text that was read.
    pub(super) text: String,
    /// Byte order of the packets of the metadata.
    pub(super) order: Option<ByteOrder>,
    /// Session id of the packets of the metadata (v1.1).
    pub(super) session_id: Option<u32>,
    /// UUID of the packets of the metadata (v1.6).
    pub(super) uuid: Option<[u8; 16]>,
    pub(super) faults: Vec<Error>,
}

/// The byte order of the magic number at the start of a packet.
pub(super) fn magic_order(bytes: &[u8]) -> Option<ByteOrder> {
    order_of_magic(MAGIC, bytes)
}

/// Does a file begin like metadata of the drafts? `is_whole` says whether these are all its bytes.
pub(super) fn probe(start: &[u8], is_whole: bool) -> bool {
    if magic_order(start).is_some() {
        return true;
    }
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The end may go through a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(start.get(..error.valid_up_to()).unwrap_or(&[])).unwrap_or("")
        }
        Err(_) => return false,
    };
    if text.trim_start().starts_with("/* CTF") {
        return false;
    }
    let tokens = draft_tokens(text).0;
    if !begins_with_word(text, &tokens) {
        return false;
    }
    match version(text, &tokens) {
        Version::Stated(1, minor) => minor != 8,
        Version::Stated(..) => true,
        // A word that only these languages begin with, or a declaration that they share with C and that stands alone.
        Version::Unstated { is_11, has_block } => is_whole && (is_11 || has_block),
        Version::Odd => false,
    }
}

/// Is the first token of a text a word that begins a declaration?
fn begins_with_word(text: &str, tokens: &[Token]) -> bool {
    const WORDS: [&str; 10] =
        ["trace", "section", "event", "abstract_type", "type", "stream", "typedef", "typealias", "struct", "enum"];
    let first = tokens.first().filter(|token| token.kind == TokenKind::Word);
    first.is_some_and(|token| WORDS.contains(&token.span.text(text)))
}

/// Can the start of a file be that of a text in these languages, so that more of it is worth reading?
pub(super) fn may_begin(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let tokens = draft_tokens(&text).0;
    // A long comment hides the first word.
    text.trim_start().starts_with("/*") && !text.trim_start().starts_with("/* CTF") && tokens.is_empty()
        || begins_with_word(&text, &tokens)
}

/// Version that the trace block of a text states.
enum Version {
    Stated(i128, i128),
    /// There is no trace block.
    Unstated {
        /// Does the text hold declarations of v1.1 only?
        is_11: bool,
        /// Does it hold a `stream` or `event` block?
        has_block: bool,
    },
    /// It says no version.
    Odd,
}

/// Looks for the version at the top level of a text; balanced braces are passed over.
fn version(text: &str, tokens: &[Token]) -> Version {
    let word =
        |at: usize| tokens.get(at).filter(|token| token.kind == TokenKind::Word).map_or("", |t| t.span.text(text));
    let is =
        |at: usize, symbol: &'static str| tokens.get(at).is_some_and(|token| token.kind == TokenKind::Symbol(symbol));
    let (mut depth, mut at, mut is_11, mut has_block) = (0u32, 0, false, false);
    while at < tokens.len() {
        if depth == 0 && word(at) == "trace" && is(at + 1, "{") {
            let (mut major, mut minor) = (None, None);
            let mut inner = 0u32;
            for at in at + 1..tokens.len() {
                if is(at, "{") {
                    inner += 1;
                } else if is(at, "}") {
                    inner -= 1;
                    if inner == 0 {
                        break;
                    }
                } else if inner == 1
                    && is(at + 1, "=")
                    && let Some(TokenKind::Integer(value)) = tokens.get(at + 2).map(|token| token.kind)
                {
                    match word(at) {
                        "major" => major = major.or(Some(value)),
                        "minor" => minor = minor.or(Some(value)),
                        _ => {}
                    }
                }
            }
            return match (major, minor) {
                (Some(major), Some(minor)) => Version::Stated(major, minor),
                _ => Version::Odd,
            };
        }
        if is(at, "{") {
            depth += 1;
        } else if is(at, "}") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 {
            is_11 |= match word(at) {
                "section" => is(at + 1, "{"),
                "abstract_type" | "type" => !word(at + 1).is_empty() && is(at + 2, "{"),
                _ => false,
            };
            has_block |= matches!(word(at), "stream" | "event") && is(at + 1, "{");
        }
        at += 1;
    }
    Version::Unstated { is_11, has_block }
}

/// The dialect of a text, its minor version, and a warning.
fn dialect(text: &str) -> Result<(Dialect, u32, Option<&'static str>)> {
    let tokens = draft_tokens(text).0;
    let (major, minor) = match version(text, &tokens) {
        Version::Stated(major, minor) => (major, minor),
        Version::Odd => return Err(Error::malformed("the trace block does not give both `major` and `minor`")),
        Version::Unstated { is_11, .. } => {
            let warning = "the metadata has no trace block: the version is taken from what it declares";
            let (dialect, minor) = if is_11 { (Dialect::V11, 1) } else { (Dialect::V16, 6) };
            return Ok((dialect, minor, Some(warning)));
        }
    };
    match (major, minor) {
        (1, 1) => Ok((Dialect::V11, 1, None)),
        (1, 0 | 2 | 3 | 4) => {
            Ok((Dialect::V11, minor as u32, Some("a version beside 1.1 whose language is taken for that of 1.1")))
        }
        (1, 6) => Ok((Dialect::V16, 6, None)),
        (1, 5 | 7) => {
            let error = Error::unsupported(format!("CTF v1.{minor} is not supported"));
            Err(error.with_help("of the drafts v1.1 and v1.6 are read, and of the versions after them 1.8 and 2"))
        }
        (1, 8) => Err(Error::unsupported("this is metadata of CTF 1.8 in packets of a draft")),
        _ => Err(Error::unsupported(format!("CTF v{major}.{minor} is not supported"))),
    }
}

/// Reads the metadata of a trace.
///
/// # Errors
/// For everything that leaves the trace without a schema, with the place in the text.
pub(super) fn load(bytes: &[u8], undo: &Undo) -> Result<Loaded> {
    let Some(order) = magic_order(bytes) else {
        if bytes.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0) {
            return Err(Error::malformed("the metadata is empty"));
        }
        return parse(text_of(bytes), None);
    };
    let framings = match has_sound_header_11(bytes, order) {
        true => [Dialect::V11, Dialect::V16],
        false => [Dialect::V16, Dialect::V11],
    };
    let mut first_error = None;
    for framing in framings {
        let loaded = unpack(bytes, order, framing, undo).and_then(|packets| {
            let (found, ..) = dialect(&packets.text)?;
            // Bytes that are taken apart the wrong way make a text too, but none that states its version.
            let is_stated = !matches!(version(&packets.text, &draft_tokens(&packets.text).0), Version::Unstated { .. });
            if found == framing && (framing == framings[0] || is_stated) {
                return Ok(packets);
            }
            let message = "the trace block names another version than that of the packets in which it stands";
            Err(Error::inconsistent(message))
        });
        match loaded {
            Ok(packets) => return parse(packets.text.clone().into(), Some((order, packets))),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| Error::malformed("the metadata cannot be read")))
}

fn parse(text: Cow<'_, str>, packets: Option<(ByteOrder, MetadataPackets)>) -> Result<Loaded> {
    let has_bad_text = match &packets {
        Some((_, packets)) => packets.has_bad_text,
        None => matches!(text, Cow::Owned(_)),
    };
    let (order, packets) =
        packets.map_or((None, MetadataPackets::default()), |(order, packets)| (Some(order), packets));
    let MetadataPackets { session_id, uuid, mut faults, .. } = packets;
    let (dialect, minor, warning) = dialect(&text)?;
    let read = |text: &str| match dialect {
        Dialect::V11 => v11::read(text),
        Dialect::V16 => v16::read(text),
    };
    let mut text = text.into_owned();
    let mut metadata = match read(&text) {
        Ok(metadata) => metadata,
        Err(error) => {
            // Metadata may be read while it grows: what is complete counts (`SPEC.md`, D37).
            let tail = tail::find(&text, &error).ok_or_else(|| error.clone())?;
            let metadata = read(text.get(..tail.start).unwrap_or("")).map_err(|_| error.clone())?;
            let is_reported = faults.iter().any(|fault| fault.kind() == ErrorKind::Truncated);
            if !is_reported {
                faults.push(tail.fault(&text, &error));
            }
            text.truncate(tail.start);
            metadata
        }
    };
    metadata.warnings.extend(warning.map(Error::inconsistent));
    if has_bad_text && text.contains('\u{fffd}') {
        metadata.warnings.push(Error::malformed("the metadata is not valid UTF-8; what is not shows as \u{fffd}"));
    }
    Ok(Loaded { dialect, minor, metadata, text, order, session_id, uuid, faults })
}

fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes))
}

/// Contents of packets of metadata.
#[derive(Default)]
struct MetadataPackets {
    text: String,
    /// Was it no UTF-8?
    has_bad_text: bool,
    session_id: Option<u32>,
    uuid: Option<[u8; 16]>,
    faults: Vec<Error>,
}

impl MetadataPackets {
    fn with_text(self, bytes: &[u8]) -> MetadataPackets {
        let text = text_of(bytes);
        MetadataPackets { has_bad_text: matches!(text, Cow::Owned(_)), text: text.into_owned(), ..self }
    }
}

/// The fixed header of v1.1, as far as metadata needs it.
struct Header11 {
    session_id: u32,
    content_size: usize,
    packet_size: usize,
    checksum: u32,
    schemes: Schemes,
}

fn header_11(bytes: &[u8], order: ByteOrder) -> Option<Header11> {
    let header = bytes.first_chunk::<HEADER_11>()?;
    let number = |at: usize| read_uint(&header[at..at + 4], order) as u32;
    let [compression, encryption, checksum] = [45, 46, 47].map(|at: usize| u64::from(header[at]));
    Some(Header11 {
        session_id: number(4),
        content_size: number(8) as usize,
        packet_size: number(12) as usize,
        checksum: number(16),
        schemes: Schemes { compression, encryption, checksum },
    })
}

fn has_sound_header_11(bytes: &[u8], order: ByteOrder) -> bool {
    header_11(bytes, order).is_some_and(|header| {
        let Schemes { compression, encryption, checksum } = header.schemes;
        let has_sizes = HEADER_11 <= header.content_size && header.content_size <= header.packet_size;
        has_sizes && compression <= 2 && encryption <= 1 && checksum <= 3
    })
}

fn unpack(bytes: &[u8], order: ByteOrder, framing: Dialect, undo: &Undo) -> Result<MetadataPackets> {
    match framing {
        Dialect::V11 => unpack_11(bytes, order, undo),
        Dialect::V16 => Ok(unpack_16(bytes)),
    }
}

fn unpack_11(bytes: &[u8], order: ByteOrder, undo: &Undo) -> Result<MetadataPackets> {
    let (mut packets, mut text, mut at) = (MetadataPackets::default(), Vec::new(), 0usize);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let truncated = |message: &str| Error::truncated(message).at_offset(at as u64);
        let Some(header) = header_11(rest, order) else {
            packets.faults.push(truncated("the metadata ends inside the header of a packet"));
            break;
        };
        if magic_order(rest) != Some(order) {
            let message = format!("a packet of the metadata does not begin with the magic number {MAGIC:#x}");
            return Err(Error::malformed(message).at_offset(at as u64));
        }
        if *packets.session_id.get_or_insert(header.session_id) != header.session_id {
            let message = format!(
                "a packet of the metadata has the session id {:#x}, the first one has {:#x}",
                header.session_id,
                packets.session_id.unwrap_or(0)
            );
            return Err(Error::inconsistent(message).at_offset(at as u64 + 4));
        }
        let Header11 { content_size, packet_size, .. } = header;
        if content_size < HEADER_11 || packet_size < content_size {
            let message =
                format!("a packet of the metadata has {content_size} bytes of content in {packet_size} bytes");
            return Err(Error::malformed(message).at_offset(at as u64 + 8));
        }
        if content_size <= rest.len() && packet_size > rest.len() {
            let message = format!("a packet of the metadata has {} of its {packet_size} bytes", rest.len());
            packets.faults.push(truncated(&message).with_help("only padding is missing"));
        }
        let is_cut = content_size > rest.len();
        if is_cut {
            packets.faults.push(truncated("the metadata ends inside a packet"));
            if !header.schemes.is_plain() {
                break;
            }
        }
        let content = rest.get(HEADER_11..content_size.min(rest.len())).unwrap_or(&[]);
        if !is_cut && undo.verifies && !content.is_empty() {
            let stored = StoredChecksum::Number(header.checksum.into(), 32);
            let fault = transform::verify(content, header.schemes.checksum, &stored);
            packets
                .faults
                .extend(fault.map_err(|error| error.at_offset(at as u64 + 47))?.map(|f| f.at_offset(at as u64)));
        }
        if !content.is_empty() {
            let associated = rest.get(4..8).unwrap_or(&[]);
            let salt = header.session_id.to_le_bytes();
            let plain = undo.undo(content, header.schemes, associated, &salt).map_err(|e| e.at_offset(at as u64))?;
            text.extend_from_slice(&plain);
            text.push(0);
        }
        at = at.saturating_add(packet_size);
    }
    Ok(packets.with_text(&text))
}

/// Packets without sizes: each ends where the first 20 bytes of the file stand again.
fn unpack_16(bytes: &[u8]) -> MetadataPackets {
    let identity = bytes.get(..20).unwrap_or(bytes);
    let finder = memchr::memmem::Finder::new(identity);
    let (mut packets, mut text, mut at) = (MetadataPackets::default(), Vec::new(), 0usize);
    packets.uuid = identity.get(4..20).and_then(|uuid| uuid.try_into().ok());
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let end = rest.get(1..).and_then(|rest| finder.find(rest)).map_or(rest.len(), |next| next + 1);
        match rest.get(HEADER_16..end) {
            Some(content) => {
                text.extend_from_slice(content);
                text.push(0);
            }
            None => {
                let message = "the metadata ends inside the header of a packet";
                packets.faults.push(Error::truncated(message).at_offset(at as u64));
            }
        }
        at += end;
    }
    packets.with_text(&text)
}
