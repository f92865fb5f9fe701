//! Records events of the program that links it as CTF, which tracemill, babeltrace2 and others read.
//!
//! ```
//! use tracemill_record::{Format, Recorder, event, span};
//!
//! # let folder = std::env::temp_dir().join(format!("tracemill-record-doc-{}", std::process::id()));
//! # let path = folder.join("run.ctf");
//! let recorder = Recorder::options(&path).flight(16 << 20).format(Format::Ctf18).start()?;
//! event!("request", id = 7_u64, path = "/x");
//! {
//!     let _span = span!("work", item = 3_u32);
//! }
//! recorder.finish()?;
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An event costs about as much as reading the clock: it goes into a ring of its thread, a mapped file, without a lock, a
//! system call or an allocation. What is there survives the program, however it ends: tracemill reads the folder of a
//! program that was killed as it is, and `tracemill record --recover` makes it a trace for every reader. Events for which
//! there is no room are counted exactly.
//!
//! | mode | what is kept | price |
//! |---|---|---|
//! | [`Options::stream`] | everything, unless the disk is slower than the program | a thread that moves packets |
//! | [`Options::block`] | everything | threads wait for the disk |
//! | [`Options::flight`] | the last events of each thread | the disk holds so many bytes for each thread |
//!
//! Without a recorder, a place where events are recorded costs a load and a branch.
//!
//! The first event of a thread and of a place allocate, and take a lock; where events come from signal handlers, record one
//! of each outside of them first. `unsafe` code is in three modules: `ring` (mapped files, the way of an event), `clock`,
//! and `local` (what belongs to a thread); each states why it is sound.
#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("rings are little endian, and are written as they are in memory");

#[cfg(feature = "c")]
#[doc(hidden)]
pub mod c;
mod clock;
mod consumer;
mod contexts;
pub mod control;
#[cfg(any(feature = "c", feature = "tracing"))]
mod encoded;
mod error;
mod field;
mod folder;
mod handle;
#[cfg(feature = "tracing")]
mod inline_buf;
mod local;
mod metadata;
mod options;
mod recorder;
mod ring;
mod rules;
mod site;
#[cfg(feature = "tracing")]
pub mod tracing;
mod trigger;
mod wakeup;

pub use error::StartError;
pub use field::{Field, FieldClass, Fields, IntegerClass, SliceElement, ValueLabel};
pub use folder::{Recovered, recover, snapshot};
pub use handle::Recorder;
pub use metadata::{CallHalf, Format};
pub use options::{Mode, Options};
pub use recorder::Summary;
pub use rules::Level;
pub use site::Site;
pub use site::record::Span;
pub use trigger::{Cause, Trigger};
#[doc(hidden)]
pub use wakeup::Bell;

/// Name of the folder, within that of a trace, whose rings are not finished.
#[doc(hidden)]
pub const RINGS: &str = tracemill_ring::FOLDER;

/// Reads the clock of the events and those of the system together.
#[doc(hidden)]
pub fn clock_pair() -> tracemill_ring::Pair {
    clock::choose();
    clock::pair()
}

/// As [`clock_pair`], with a clock of the system in place of `CLOCK_MONOTONIC`, by its number.
#[doc(hidden)]
pub fn clock_pair_of(clock: i32) -> tracemill_ring::Pair {
    clock::choose();
    clock::pair_of(clock)
}

/// Is the clock of the events the counter of the processor?
#[doc(hidden)]
pub fn has_counter() -> bool {
    clock::is_counter()
}
