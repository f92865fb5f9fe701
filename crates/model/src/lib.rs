//! The common event model of tracemill.
//!
//! This crate does no I/O and has no dependency. It holds what every format shares:
//!
//! | module | what it holds |
//! |---|---|
//! | [`schema`] | trace, stream, event, field and clock classes in one arena, named by small ids |
//! | [`clock`] | exact conversion of cycles to time |
//! | [`packet`] | packets, their counters, and the gaps between events |
//! | [`packet_list`] | the packets of a stream in little memory |
//! | [`error`] | the one error type and the places it points to |
//!
//! The words are those of CTF 2: a *class* is the description, the plain noun is the instance.
//!
//! ```
//! use tracemill_model::schema::{FieldClass, FieldKind, IntegerClass, Schema};
//!
//! let mut schema = Schema::new("ctf2");
//! let id = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(32)), 8));
//! assert_eq!(schema.field_class(id).align_bits, 8);
//! ```
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

pub mod clock;
pub mod error;
pub mod packet;
pub mod packet_list;
pub mod schema;
