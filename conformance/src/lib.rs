//! Conformance: small traces written as text, with what must come out of them.
//!
//! A case file (`cases/ctf18/pass-array-of-zero.case`) holds metadata, data streams in a small language of bytes, and
//! the expected JSON lines, faults, or the error with its place. `README.md` beside this crate describes the format.
//!
//! | module | what it is for |
//! |---|---|
//! | [`case`] | a case file, parsed |
//! | [`bytes`] | the language of bytes |
//! | [`memory`] | a storage in memory, so that a case needs no file system |
//! | [`run`] | a case through session, merger and renderer, compared with what it expects |
//! | [`json`] | JSON with integers of any size, and the subset comparison |
//! | [`coverage`] | constructs that must have a passing case |
#![forbid(unsafe_code)]

pub mod bytes;
pub mod case;
pub mod coverage;
pub mod json;
pub mod memory;
pub mod run;
