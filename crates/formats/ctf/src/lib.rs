//! The Common Trace Format: CTF 1.8 (metadata in TSDL) and CTF 2 (metadata in JSON) over one packet engine.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod concepts;
pub mod ctf2;
mod deep;
pub mod drafts;
mod gaps;
pub mod lttng_index;
mod metadata_text;
mod names;
mod open;
mod packet_order;
mod packets;
mod quirks;
mod resync;
mod rings;
mod same_class;
pub mod tsdl;
pub mod write;

pub use packets::CtfReader;

use tracemill_format::{Format, Setting};

/// CTF 1.8 and CTF 2.
pub static FORMAT: Format = Format::new(
    &["ctf1.8", "ctf2"],
    "Common Trace Format 1.8, as LTTng, barectf and perf write it\nCommon Trace Format 2",
    open::probe,
    open::open,
)
.looks_like("a CTF trace is a folder with a file `metadata`")
.in_folders()
.with_common_name("ctf")
.with_settings(&[Setting::switch(resync::RESYNC, "Read on after damage in CTF streams without packets")])
.with_calls();
