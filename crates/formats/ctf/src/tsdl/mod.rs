//! The metadata language of CTF 1.8, TSDL.
//!
//! A metadata file becomes a text ([`read_text`]), and the text a [`Schema`] ([`parse`]):
//!
//! 1. `packetized.rs`: the file, which may be divided into packets.
//! 2. `blocks.rs`: the text is divided into its top-level declarations and each is looked at in the order of the reference
//!    reader.
//! 3. `lexer.rs`, `parser.rs`, `parse_types.rs`: one declaration becomes a syntax tree (`ast.rs`).
//! 4. `resolve*.rs`, `attributes.rs`, `bit_fields.rs`: names of types are looked up; a type becomes a shared value (`types.rs`).
//! 5. `roles.rs`: fields get their meaning for the reader of packets and events.
//! 6. `instance.rs`, `paths.rs`: a type is put under a scope, paths become absolute, field classes are made.

mod ast;
mod attributes;
mod bit_fields;
mod blocks;
mod instance;
mod lexer;
mod packetized;
mod parse_types;
mod parser;
mod paths;
mod resolve;
mod resolve_blocks;
mod resolve_streams;
mod resolve_types;
mod roles;
mod tokens;
mod types;

#[cfg(test)]
mod tests;

use tracemill_model::error::{Error, Result};
use tracemill_model::schema::Schema;

use crate::deep::with_room;

pub(crate) use lexer::{Token, TokenKind, draft_tokens, unquote};
pub(crate) use packetized::order_of_magic;
pub use packetized::{Flavour, Metadata, probe, read_text};
pub(crate) use paths::PREFIXES;
pub(crate) use tokens::{Tokens, walks};

/// Turns a metadata text into a schema. With it come the oddities that were read over, each with its place; where the
/// reading `is_strict`, the first one is an error.
///
/// Time and memory are linear in the length of the text.
///
/// # Errors
/// The error points to the token that is wrong: line, column and source line. Versions other than 1.8 are refused
/// as unsupported.
pub fn parse(text: &str, is_strict: bool) -> Result<(Schema, Vec<Error>)> {
    with_room(|| resolve::resolve(text, is_strict))
}
