//! Opening, indexing, decoding, merging and filtering traces of any format.
#![deny(unsafe_code)]

pub mod cursor;
pub mod merge;
pub mod progress;
pub mod session;
pub mod source;
pub mod render;
pub mod pattern;
pub mod print;
pub mod timeline;
pub mod filter;
pub mod survey;
pub mod check;
