//! The Common Trace Format.

pub mod ctf2;
pub mod tsdl;
