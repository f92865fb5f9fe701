//! Opening, indexing, decoding, merging and filtering traces of any format.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![deny(unsafe_code)]

mod ahead;
pub mod align;
pub mod calls;
pub mod check;
pub mod collector;
pub mod convert;
pub mod copy;
pub mod cursor;
pub mod damage;
pub mod event;
pub mod events;
pub mod filter;
pub mod growth;
pub mod item;
pub mod mapped_code;
pub mod merge;
pub mod no_events;
pub mod output;
pub mod parsed_query;

pub mod option_values;
pub mod partitions;
pub mod progress;
pub mod redact;
pub mod request;
pub mod samples;
pub mod selection;
pub mod session;
pub mod source;
pub mod spans;
pub mod split;
pub mod survey;
pub mod timeline;
pub mod trace_calls;
pub mod walk;
pub mod zone;

pub use tracemill_codec::text::pattern;
