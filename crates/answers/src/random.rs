//! Names that are never given twice, and that others do not guess.

use tracemill_model::error::{Error, ErrorKind, Result};

/// 258 random bits as text that stands in an address.
///
/// # Errors
/// When the system has no random numbers.
pub fn random_name() -> Result<String> {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = [0u8; 43];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Io, format!("the system gives no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| char::from(SIGNS[usize::from(byte & 63)])).collect())
}
