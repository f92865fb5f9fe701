//! Gist logs (`SPEC.md`, section 5): a count, then records; names come from C headers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_codec::text::c_number;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::container::{NAME_BYTES, RECORD_BYTES, RecordHeader};
use super::definitions::{EventDefinition, LogDefinitions, each_twice};
use super::diagnostics::{Diagnostics, Severity};
use super::elog::header::MAGIC;
use super::log::Log;
use super::log_parts::{self, LogParts};
use super::printf::{Budget, PrintfFormat};
use super::settings::Wishes;
use super::strings::{StringTable, Symbols};
use super::tables;
use tracemill_format::{FoundTrace, OpenTrace, Storage};

/// Octets before the first record.
const HEADER_BYTES: u64 = 4;
/// Headers that one header may name.
const MAX_HEADERS: usize = 1000;

/// Does a file that begins with `start` and has `len` octets look like a Gist log? Its size must fit its count.
pub(super) fn is_gist(start: &[u8], len: u64) -> bool {
    let Some(count) = start.first_chunk::<4>().map(|count| u32::from_be_bytes(*count)) else { return false };
    // The magic of an event log of VPP is the count of a Gist log too.
    !start.starts_with(MAGIC)
        && len == HEADER_BYTES + u64::from(count) * RECORD_BYTES
        && (start[0] & 0x7f == 0 || count >= 1 << 24)
}

/// Opens a Gist log. The size need not fit when the user names the format.
pub(super) fn open(
    storage: &dyn Storage,
    found: &FoundTrace,
    file: Arc<dyn Bytes>,
    wishes: &Wishes,
) -> Result<OpenTrace> {
    let mut diagnostics = Diagnostics::new(&found.path, wishes.is_strict);
    let len = file.bytes().len() as u64;
    let Some(header) = file.bytes().first_chunk::<4>() else {
        return Err(Error::truncated("a Gist log begins with its number of events").at_offset(0));
    };
    let declared = u64::from(u32::from_be_bytes(*header));
    let room = (len - HEADER_BYTES) / RECORD_BYTES;
    let count = declared.min(room);
    if declared > room {
        let message = format!("the log says that it has {declared} events, the file has room for {room}");
        diagnostics
            .error("counts are too large", Error::malformed(message).at_offset(0).with_help("whole events are used"));
    } else if len > HEADER_BYTES + declared * RECORD_BYTES {
        let end = HEADER_BYTES + declared * RECORD_BYTES;
        diagnostics.warn("trailing octets", end, format!("{} octets after the last event are ignored", len - end));
    }
    if declared == 0 {
        diagnostics.warn("no events", 0, "the log says that it has no events");
    }
    let (definitions, texts) = match &wishes.pointdefs {
        None => (LogDefinitions::new(Vec::new(), Vec::new(), Symbols::default()), Vec::new()),
        Some(path) => read_headers(storage, Path::new(path), &mut diagnostics)?,
    };
    let definitions = Arc::new(definitions);
    let mut log = Log::new("gist", definitions.clone());
    log.schema.byte_order = ByteOrder::Big;
    let frequency = wishes.frequency.unwrap_or(0);
    if frequency == 0 && count > 0 {
        let error = Error::inconsistent("a Gist log does not say its clock rate: events have no times");
        diagnostics.add(
            Severity::Warning,
            "rates are unknown",
            error.at_offset(0).with_help("--ticks-per-us N gives it"),
        );
    }
    let records = RecordHeader { name: [0; NAME_BYTES], name_len: 0, rate: 0, first: HEADER_BYTES, count };
    let section = log.add(1, "the log".to_string(), &records, frequency, None, &file, wishes);
    let tables = tables::event_definitions(&definitions).into_iter().collect();
    Ok(log.finish(found, file, vec![section], tables, LogParts::Made(log_parts::definition_parts(&texts)), diagnostics))
}

/// Code, name and format of data, as a header has them.
type DefinitionText = (u32, Vec<u8>, Vec<u8>);

/// Event definitions of a C header and of those that it names, compiled and as they stand there.
fn read_headers(
    storage: &dyn Storage,
    path: &Path,
    diagnostics: &mut Diagnostics,
) -> Result<(LogDefinitions, Vec<DefinitionText>)> {
    let (mut events, mut texts) = (Vec::new(), Vec::new());
    let mut budget = Budget::new();
    let mut waiting: Vec<(PathBuf, u32)> = vec![(path.to_path_buf(), 0)];
    let mut read = 0;
    while let Some((path, base)) = waiting.pop() {
        read += 1;
        let file = storage.open(&path)?;
        for line in file.bytes().split(|&octet| octet == b'\n') {
            match parse_line(line) {
                Some(HeaderLine::Event { code, is_relative, name, datum }) => {
                    let code = if is_relative { base.wrapping_add(code) } else { code };
                    let mut format = |text: &[u8]| {
                        let table = StringTable::from_text(text.to_vec());
                        PrintfFormat::read_at(&table, 0, &mut budget)
                    };
                    events.push(EventDefinition { code, name: format(name), datum: format(datum) });
                    texts.push((code, name.to_vec(), datum.to_vec()));
                }
                Some(HeaderLine::Header { base, path: below }) if read + waiting.len() < MAX_HEADERS => {
                    let below = String::from_utf8_lossy(below).into_owned();
                    waiting.push((path.parent().unwrap_or(Path::new("")).join(below), base));
                }
                _ => {}
            }
        }
    }
    let codes: Vec<u32> = events.iter().map(|event| event.code).collect();
    each_twice(&codes, |at| {
        let message = format!("event code {} is defined twice in the headers: the first counts", codes[at]);
        diagnostics.warn("event codes are defined twice", 0, message);
    });
    Ok((LogDefinitions::new(events, Vec::new(), Symbols::default()), texts))
}

/// A line of a header, parsed.
#[derive(PartialEq, Eq, Debug)]
enum HeaderLine<'a> {
    /// `#define SYMBOL 7 /* name: format */`, or `EV_NUM(7)` from a base on.
    Event { code: u32, is_relative: bool, name: &'a [u8], datum: &'a [u8] },
    /// `#define SYMBOL 100 /* pointdefs: path */`.
    Header { base: u32, path: &'a [u8] },
}

fn parse_line(line: &[u8]) -> Option<HeaderLine<'_>> {
    let rest = line.trim_ascii_start().strip_prefix(b"#")?.trim_ascii_start().strip_prefix(b"define")?;
    let rest = rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"\t"))?.trim_ascii_start();
    let symbol = rest.iter().position(u8::is_ascii_whitespace)?;
    let rest = rest[symbol..].trim_ascii_start();
    let comment = memchr::memmem::find(rest, b"/*")?;
    let (value, comment) = (rest[..comment].trim_ascii(), &rest[comment + 2..]);
    let comment = comment[..memchr::memmem::find(comment, b"*/").unwrap_or(comment.len())].trim_ascii();
    let inner = value.strip_prefix(b"EV_NUM").map(|rest| rest.trim_ascii());
    let inner = inner.and_then(|rest| rest.strip_prefix(b"(")?.strip_suffix(b")"));
    let code = number(inner.unwrap_or(value).trim_ascii())?;
    if let Some(path) = comment.strip_prefix(b"pointdefs:") {
        return Some(HeaderLine::Header { base: code, path: path.trim_ascii() });
    }
    let (name, datum) = match memchr::memchr(b':', comment) {
        None => (comment, &[][..]),
        Some(colon) => {
            let datum = comment[colon + 1..].trim_ascii_start();
            let end = datum.iter().position(u8::is_ascii_whitespace).unwrap_or(datum.len());
            (comment[..colon].trim_ascii_end(), &datum[..end])
        }
    };
    Some(HeaderLine::Event { code, is_relative: inner.is_some(), name, datum })
}

/// A number of C: decimal, hexadecimal or octal.
fn number(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?.trim_matches(['(', ')']).trim_end_matches(['u', 'U', 'l', 'L']);
    c_number(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_decides() {
        assert!(is_gist(&[0, 0, 0, 3], 64));
        assert!(!is_gist(&[0, 0, 0, 3], 63));
        assert!(is_gist(&[0, 0, 0, 0], 4) && !is_gist(&[0x80, 0, 0, 0], 4));
        assert!(is_gist(&[1, 0, 0, 0], 4 + 20 * (1 << 24)));
        assert!(!is_gist(&[1, 0, 0, 4], 1632));
        assert!(!is_gist(&[0, 0], 2));
    }

    #[test]
    fn lines_of_headers() {
        let event = |code, is_relative, name, datum| Some(HeaderLine::Event { code, is_relative, name, datum });
        assert_eq!(parse_line(b"#define RX 7 /* rx packet: %d more */"), event(7, false, b"rx packet", b"%d"));
        assert_eq!(parse_line(b"# define\tTX EV_NUM(0x10)  /* tx */\r"), event(16, true, b"tx", b""));
        assert_eq!(
            parse_line(b"#define VNET 1000 /* pointdefs: ../vnet.h */"),
            Some(HeaderLine::Header { base: 1000, path: b"../vnet.h" })
        );
        for other in
            [&b"#define X 7"[..], b"#define X y /* z */", b"int x; /* a: b */", b"#define", b"", b"#define X /*"]
        {
            assert_eq!(parse_line(other), None);
        }
    }
}
