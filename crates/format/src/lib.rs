//! Trace formats: how they are found, opened, read and written, and the mechanisms that all of them share.
//!
//! | to read | to write |
//! |---|---|
//! | [`Format`]: how it is recognised and opened | [`Target`](target::Target): how its writer is made |
//! | [`Storage`]: where files come from | [`Sink`]: where files go |
//! | [`OpenContext`]: everything that opening needs; [`OpenTrace`]: everything that it gives | |
//! | [`PacketReader`]: opens packets for their events | [`TraceWriter`](target::TraceWriter): takes events |
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

pub mod calls;
pub mod code;
pub mod demangle;
mod faults;
pub mod foreign;
mod format;
pub mod json;
pub mod lost;
pub mod mapped;
mod open;
pub mod open_calls;
pub mod perfetto;
mod reader;
pub mod redact;
pub mod remap;
pub mod samples;
mod setting;
mod sink;
pub mod slices;
mod spill;
mod storage;
pub mod target;
#[cfg(feature = "testing")]
pub mod testing;
pub mod writer;
mod zstd;

pub use self::faults::Faults;
pub use self::format::{Format, OpenFn, Probe, names_of, settings_of};
pub use self::open::{
    DataFile, Demangle, FoundTrace, OpenContext, OpenTrace, Section, SectionColumn, Stream, TraceFile, TraceFiles,
};
pub use self::reader::{OpenedPacket, PacketReader};
pub use self::setting::{Setting, Settings};
pub use self::sink::{Extent, OutFile, OutPath, Sink, SinkFile, WAITING, as_file_name, is_below};
pub use self::spill::Spill;
pub use self::storage::{Entry, EntryKind, FirstBytes, Storage, UnpackedSink};
pub use self::zstd::zstd_window;
