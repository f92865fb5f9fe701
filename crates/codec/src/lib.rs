//! Bits, text and compiled decode plans.
#![forbid(unsafe_code)]

pub mod text;
pub mod bits;
pub mod layout;
pub mod naive;
pub mod plan;
mod quick;
pub mod trace_plans;
pub mod chunk;
