//! The metadata language of RFC v1.1: `type NAME { parent = ...; }`.
//!
//! `parse` makes a syntax tree with places ([`ast`]), `resolve` follows parents and names and makes types.

mod ast;
mod parse;
mod resolve;

use tracemill_model::error::Result;

use super::types::Metadata;

/// Reads a text.
///
/// # Errors
/// With line and column of what is wrong.
pub(super) fn read(source: &str) -> Result<Metadata> {
    let (entries, warnings) = parse::parse(source)?;
    resolve::resolve(source, &entries, warnings)
}
