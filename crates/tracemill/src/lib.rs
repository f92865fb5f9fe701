//! Read execution traces: the few names that most programs need.
//!
//! This crate holds no code of its own. It names what a program uses that opens traces and wants their events; the
//! crates behind it ([`model`], [`codec`], [`formats`], [`engine`]) hold the rest.
//!
//! ```no_run
//! use std::path::PathBuf;
//! use tracemill::{FORMATS, FileSystem, OpenOptions, Selection, Session, merger, streams};
//!
//! # fn main() -> tracemill::Result<()> {
//! let session = Session::open(&FileSystem, &[PathBuf::from("demo")], &OpenOptions::new(FORMATS))?;
//! let streams = streams(&session, &[])?;
//! let mut merger = merger(&session, &streams, &Selection::default());
//! while let Some(batch) = merger.next_batch(4096) {
//!     for run in &batch.runs {
//!         let (stream, ready) = &batch.chunks[run.chunk as usize];
//!         let of = &streams[stream.0 as usize];
//!         let schema = &session.traces[of.trace].schema;
//!         for at in run.from as usize..run.to as usize {
//!             let event = ready.chunk.event(at);
//!             let ns = of.clock.map(|clock| clock.ns(event.cycles()));
//!             println!("{ns:?} {:?}", schema.event(event.class()).name);
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The folder `examples/` of this crate has whole programs: `count` reads a field of each event, `lines` prints
//! filtered JSON lines with several threads.
//!
//! | step | names |
//! |---|---|
//! | open | [`Session::open`] with [`FileSystem`] (or another [`Storage`]) and [`OpenOptions`]; parts that failed are in the session, not an `Err` |
//! | choose | [`streams`], [`Selection`], [`Expression`] and [`Filter`], [`parse_time`] |
//! | iterate | [`merger`] gives [`Batch`]es of runs in one total order; [`EventRef`] costs nothing until a [`Visitor`] asks for fields |
//! | print | [`print()`] renders batches with several threads, in order; [`LinePlan`] says how |
//! | write | [`write`] makes traces of one's own |
//! | look | [`survey()`] for what a trace holds, [`check()`] for what is wrong with it |
//!
//! The version is 0.1: names and signatures may change.
#![forbid(unsafe_code)]

mod targets;
pub mod write;

pub use targets::{target, target_settings, targets};

pub use tracemill_codec as codec;
pub use tracemill_engine as engine;
pub use tracemill_format as format;
pub use tracemill_formats as formats;
pub use tracemill_model as model;

pub use tracemill_model::clock::ClockMap;
pub use tracemill_model::error::{Error, ErrorKind, Place, Result};
pub use tracemill_model::packet::{Gap, GapKind, Packet};
pub use tracemill_model::schema::{
    ClockClass, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind, Schema, Scope, StreamClass,
    StreamClassId,
};

pub use tracemill_codec::chunk::{Chunk, EventFields, EventRef};
pub use tracemill_codec::plan::{Fault, NodeId, Plan, State, Visitor};

pub use tracemill_format::{Format, OpenTrace, Storage, Stream};
pub use tracemill_formats::FORMATS;

pub use tracemill_engine::check::{Finding, Severity, check};
pub use tracemill_engine::event::Event;
pub use tracemill_engine::events::{Events, Step};
pub use tracemill_engine::filter::{Expression, Filter, FilterContext, Matcher, TimeContext, parse_time};
pub use tracemill_engine::item::Flow;
pub use tracemill_engine::merge::{Batch, Merger, Note, Run, StreamIndex};
pub use tracemill_engine::selection::{StreamOf, streams};
pub use tracemill_engine::session::{OpenOptions, Session};
pub use tracemill_engine::source::FileSystem;
pub use tracemill_engine::survey::{StreamSurvey, TraceSurvey, survey};
pub use tracemill_engine::timeline::{Selection, merger};
pub use tracemill_render::lines::{LineFormat, LinePlan, Rendered};
pub use tracemill_render::print::{Output, print};
pub use tracemill_render::text::TextOptions;
