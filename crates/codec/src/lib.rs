//! Bits, text and compiled decode plans.
#![forbid(unsafe_code)]

pub mod bits;
pub mod chunk;
pub mod encode;
mod event_header;
pub mod field_writer;
pub mod layout;
pub mod plan;
mod quick;
pub mod spine;
pub mod text;
pub mod trace_plans;
pub mod value;
