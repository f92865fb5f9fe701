//! Read, convert, measure and write execution traces of any known format.
//!
//! ```
//! # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
//! let traces = tracemill::open([demo])?;
//! for event in traces.events().filter("cpu == 0")? {
//!     let event = event?;
//!     println!("{} {} {:?}", event.time(), event.name(), event.get("payload.id"));
//! }
//! # Ok::<(), tracemill::Error>(())
//! ```
//!
//! | to | names |
//! |---|---|
//! | open | [`open()`], [`Options`]; the result is [`Traces`] |
//! | choose and iterate | [`Traces::events`] gives [`Events`], which become an iterator over [`Event`]s in the order of time |
//! | look at fields | [`Event::get`] and [`Event::fields`] give [`Value`]s |
//! | convert | [`Traces::convert`], [`Events::conversion`]; [`Events::write_lines`] for lines of text |
//! | measure | [`Traces::latency`], [`mod@latency`] |
//! | look at traces as a whole | [`Traces::survey`], [`Traces::count`], [`Traces::check`] |
//! | write a trace of one's own | [`mod@write`] |
//! | read a format of one's own | [`own`], [`Options::format`] |
//!
//! Everything that can fail gives this crate's one [`Error`], which says where: file, byte, packet, event, field. Damage
//! to a trace does not end the reading: it is an `Err` in its place among the events, and the events after it follow.
//!
//! The folder `examples/` of this crate has five programs of at most 30 lines.
//!
//! # Stability
//! The version is 0.1, and names and signatures may change with each 0.x. What stands here is what changes least. The
//! crates after it (`tracemill-engine`, `tracemill-codec` and the others) may change at any time, and are not part of the
//! promise; [`Traces::session`] leads there.
#![forbid(unsafe_code)]

mod conversion;
mod event;
mod events;
pub mod latency;
mod lines;
pub mod own;
mod targets;
mod traces;
mod value;
pub mod write;

pub use conversion::{Conversion, Converted, SplitBy};
pub use event::{Event, Field, Time};
pub use events::{EventIter, Events, Loss, Step, Steps};
pub use latency::Latency;
pub use lines::Lines;
pub use targets::{target, target_settings, targets};
pub use traces::{Checked, Options, Trace, Traces, open};
pub use value::Value;

pub use tracemill_engine::check::{Finding, Severity};
pub use tracemill_engine::survey::{StreamSurvey, TraceSurvey};
pub use tracemill_format::lost::{Losses, Lost};
pub use tracemill_format::target::Target;
pub use tracemill_model::error::{Error, ErrorKind, Place, Result};
pub use tracemill_model::packet::GapKind;
pub use tracemill_model::schema;
