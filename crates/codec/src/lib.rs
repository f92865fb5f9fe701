//! Bits, text and compiled decode plans: what all formats share between the bytes of a packet and the values of an event.
//!
//! | module | what it holds |
//! |---|---|
//! | [`bits`] | numbers as bytes and bits, read and written, in both byte orders |
//! | [`layout`] | sizes, references and parts of field classes, without data |
//! | [`plan`] | plans: flat lists of instructions made from trees of field classes, and the [`plan::Visitor`] that they feed |
//! | [`trace_plans`] | all plans of a trace, compiled on first use; the scan that finds events |
//! | [`spine`] | where, what class and when: the events of a packet before any field is read |
//! | [`chunk`] | events over their encoded bytes; [`chunk::EventRef`] reads their fields. Begin here |
//! | [`value`] | the fields of an event as a tree of values: slower, for code that wants few of them |
//! | [`encode`] | the other direction: what a plan shows as bytes of another layout |
//! | [`field_writer`] | values of events of one class, in their order, as bytes |
//! | [`text`] | spans and suggestions for errors, JSON, base64, C's format strings, a buffer for lines |
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
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
