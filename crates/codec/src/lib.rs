//! Bits, text and compiled decode plans.
#![forbid(unsafe_code)]

pub mod text;
