//! The layout of the files into which tracemill records: a *ring* is a file of fixed size with slots, a slot of a ring of
//! events is one CTF packet, complete at every instant. `docs/record.md` has the tables.
//!
//! Also what a recorder and those who command it share: [conditions](condition) about events, and [globs](glob).
//!
//! This crate touches neither files nor other memory than the bytes that it is given: writers map rings, readers copy
//! them.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod condition;
pub mod glob;
pub mod header;
mod layout;
pub mod packet;
mod slots;
mod stream;

pub use header::{FullMode, Header, Pair, SlotContents, estimate};
pub use slots::{Slot, Slots, closing_packet, copy_of, slots};
pub use stream::{StreamEnd, stream_end, stream_end_of};

/// Name of the folder with the rings, in the folder of a trace.
pub const FOLDER: &str = ".ring";

/// The name of a ring's file.
pub fn file_name(number: u64) -> String {
    format!("{number}.ring")
}

/// The number of the ring of this file name.
pub fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".ring")?;
    let is_plain = digits == "0" || !digits.starts_with('0');
    (is_plain && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

/// The name of the stream file into which a ring's packets are moved.
pub fn stream_name(number: u64) -> String {
    format!("stream_{number}")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rings_are_decimal_numbers() {
        assert_eq!(number_of(&file_name(17)), Some(17));
        assert_eq!(number_of("0.ring"), Some(0));
        for other in ["01.ring", ".ring", "-1.ring", "+1.ring", "1.rings", "99999999999999999999.ring"] {
            assert_eq!(number_of(other), None, "{other}");
        }
    }
}
