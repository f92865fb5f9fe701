//! Opening, indexing, decoding, merging and filtering traces of any format.
#![deny(unsafe_code)]

pub mod cursor;
pub mod merge;
pub mod session;
pub mod source;
pub mod render;
