//! Traces of one's own: CTF 2 and CTF 1.8, from several threads.
//!
//! ```
//! use tracemill::write::{Ctf2, string, u32, u64};
//!
//! # fn main() -> tracemill::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("tracemill-write-doc-{}", std::process::id()));
//! # let path = folder.join("made");
//! let mut trace = Ctf2::create(&path)?;
//! trace.set_environment("service", "shop")?;
//! let app = trace.stream_class("app").context("tid", u32()).build()?;
//! let request = app.event_class("request").field("id", u64()).field("path", string()).build()?;
//!
//! // A stream for each thread: it may be opened there, or moved there.
//! let mut out = app.stream("thread-1")?;
//! out.set_context(|c| c.u32(4711))?;
//! out.event(&request, 1_700_000_000_000_000_000, |e| e.u64(7).str("/x"))?;
//! out.add_discarded(12);
//! out.finish()?;
//! trace.finish()?; // Now, and not before, the folder is there.
//! # assert!(path.join("metadata").is_file());
//! # std::fs::remove_dir_all(&folder).expect("the folder was made");
//! # Ok(())
//! # }
//! ```
//!
//! | step | names |
//! |---|---|
//! | begin | [`Ctf2::create`], [`Ctf18::create`] |
//! | say what there is | [`Trace::stream_class`], [`StreamClass::event_class`]; fields by [`u64()`], [`string()`], [`list()`], [`structure()`] and the others |
//! | write | [`StreamClass::stream`], [`Stream::event`] with a closure over a [`FieldWriter`], or [`Stream::event_values`] |
//! | end | [`Stream::finish`] of every stream, [`Trace::finish`] |
//!
//! Classes may be added as long as the trace is open, also by other threads. What is written costs no allocation for an
//! event and no lock. Values are checked: their number, their kinds, whether an integer fits, whether time goes on; what
//! does not fit is an `Err` that names the stream, the event and the field, and leaves the stream as it was.

mod clock;
mod stream;
mod trace;

pub use self::clock::Clock;
pub use self::stream::Stream;
pub use self::trace::{Ctf2, Ctf18, EventClass, EventClassBuilder, StreamClass, StreamClassBuilder, Trace};

pub use tracemill_codec::field_writer::FieldWriter;
pub use tracemill_codec::value::Value;
pub use tracemill_ctf::write::build::{
    Field, array, blob, blob_of, boolean, f32, f64, i8, i16, i32, i64, list, optional, signed, string, structure, u8,
    u16, u32, u64, unsigned, variant,
};
pub use tracemill_model::schema::EnvValue;
