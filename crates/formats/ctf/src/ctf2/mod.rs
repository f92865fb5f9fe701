//! The metadata of CTF 2: from a JSON text sequence to a [`Schema`].
//!
//! [`parse`] reads the text in four steps: `sequence` cuts it into fragments, `json` makes a tree of each that keeps
//! where everything is written, `fragments` and `field_class` check it against CTF2-SPEC-2.0, and `instantiate` adds
//! it to the schema, with the help of `locations` for fields that need other fields.
//!
//! Unknown types, unknown roles and all extensions are refused, and `attributes` are ignored, but for ours (`attributes`).
//! Roles outside the scopes in which they mean something are ignored too. What is forbidden and has a clear meaning all
//! the same is read, with a warning (`metadata_text`). Field classes nested more than 1,000 levels deep, which CTF 2 allows, are
//! not supported.

pub(crate) mod attributes;
pub(crate) mod field_class;
pub(crate) mod fragments;
mod instantiate;
mod json;
pub(crate) mod locations;
mod object;
pub(crate) mod ranges;
pub(crate) mod roles;
mod sequence;
#[cfg(test)]
mod tests;
mod words;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::Schema;

use crate::deep::with_room;
use crate::metadata_text::MetadataText;

/// How far [`probe`] looks for a preamble that has no record separator before it.
const PROBE_BYTES: usize = 4096;

/// Does this look like the beginning of CTF 2 metadata?
///
/// It does when the first byte that is not white space is a record separator (0x1E), or when a JSON object comes first
/// that may be a preamble.
pub fn probe(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii_start();
    let holds = |word: &[u8]| text[..text.len().min(PROBE_BYTES)].windows(word.len()).any(|window| window == word);
    match text.first() {
        Some(&sequence::RECORD_SEPARATOR) => true,
        Some(b'{') => holds(b"\"type\"") && holds(b"\"preamble\""),
        _ => false,
    }
}

/// Reads the metadata of a CTF 2 trace, as text. With the schema come the oddities that were read over, each with its
/// place; where the reading `is_strict`, the first one is an error.
///
/// # Errors
///
/// Everything that CTF 2 forbids, at the line and column where it is; extensions, other versions and what the module
/// does not support are of kind [`Unsupported`](tracemill_model::error::ErrorKind::Unsupported).
///
/// Time and memory are linear in the length of the text, unless aliases with field locations are used many times:
/// each such use makes new field classes, up to a million and the length of the text in bytes.
pub fn parse(bytes: &[u8], is_strict: bool) -> Result<(Schema, Vec<Error>)> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = &bytes[..error.valid_up_to()];
            let text = std::str::from_utf8(valid).unwrap_or_default();
            let message = format!("byte 0x{:02x} is not UTF-8", bytes[valid.len()]);
            return Err(Span::new(valid.len(), valid.len() + 1).malformed(text, message));
        }
    };
    with_room(|| parse_text(text, is_strict))
}

fn parse_text(text: &str, is_strict: bool) -> Result<(Schema, Vec<Error>)> {
    let source = MetadataText::new(text, is_strict);
    let mut reader = fragments::FragmentReader::new(&source);
    for (index, frame) in sequence::frames(text).enumerate() {
        let value = json::parse(&source, frame, index + 1)?;
        reader.fragment(&value)?;
    }
    let schema = reader.finish()?;
    Ok((schema, source.into_warnings()))
}
