//! Formats that other tools show: they are written from the timeline, and not read.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod chrome;
mod firefox;
mod folded;
mod late_file;
mod perfetto;
pub mod sampled;
mod speedscope;
mod stacks;
mod tracks;

use tracemill_format::Storage;
use tracemill_format::target::Target;

/// Every format that is only written.
pub static TARGETS: &[&Target] = &[
    &perfetto::PERFETTO,
    &chrome::CHROME,
    &firefox::FIREFOX,
    &speedscope::SPEEDSCOPE,
    &folded::FOLDED,
    #[cfg(feature = "columnar")]
    &tracemill_columnar::PARQUET,
    #[cfg(feature = "columnar")]
    &tracemill_columnar::ARROW,
];

/// Formats that this program was built without.
pub const LEFT_OUT: &[&str] = if cfg!(feature = "columnar") { &[] } else { &["parquet", "arrow"] };

/// How to build it with them.
pub const LEFT_OUT_HELP: &str =
    "in a clone of its repository, `cargo build --release -p tracemill-cli --features columnar` builds one with it";

/// Is the folder one that an export has written?
pub fn is_output(storage: &dyn Storage, path: &std::path::Path) -> bool {
    #[cfg(feature = "columnar")]
    return tracemill_columnar::is_output(storage, path);
    #[cfg(not(feature = "columnar"))]
    {
        let _ = (storage, path);
        false
    }
}
