//! The two drafts from which CTF grew: RFC v1.1 (November 2010) and RFC v1.6 (January 2011).
//!
//! Both describe packets of events in a text; the languages differ, the layout hardly. [`v11`](self) and `v16` read the
//! two languages into the same types, `schema` makes of them what plans decode; from there on it is the engine of all
//! formats. `SPEC.md` in this folder is the definition, with its decisions; `README.md` says where each
//! of them is in the code.

mod byte_orders;
mod cursor;
mod files;
mod header;
mod keys;
mod metadata;
mod open;
mod packet_fields;
mod reader;
mod schema;
mod tail;
#[cfg(test)]
mod tests;
mod transform;
mod types;
mod v11;
mod v16;
pub mod write;

use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{ByteOrder, Schema};

use tracemill_format::{Format, Setting};

/// Names of the options.
const NO_VERIFY: &str = "no-verify";
const MAX_EXPANDED: &str = "max-expanded";
const FREQUENCY: &str = "clock-frequency";

/// The drafts 1.1 and 1.6.
pub static FORMAT: Format = Format::new(
    &["ctf1.1", "ctf1.6"],
    "the draft RFC v1.1 of the Common Trace Format (2010)\nthe draft RFC v1.6 of the Common Trace Format (2011)",
    open::probe,
    open::open,
)
.looks_like("a trace of the CTF drafts is a folder with a file `metadata`")
.in_folders()
.with_settings(&[
    Setting::with_value(keys::PASSPHRASE, "FILE", "Read the passphrase of encrypted packets from a file"),
    Setting::with_value(
        keys::KEY,
        "FILE",
        "Read the key of encrypted packets from a file: 16, 24 or 32 bytes, or hexadecimal digits",
    ),
    Setting::switch(NO_VERIFY, "Do not verify the checksums of packets"),
    Setting::with_value(MAX_EXPANDED, "BYTES", "Largest size of one compressed packet when expanded [default: 1 GiB]"),
    Setting::with_value(
        FREQUENCY,
        "HZ",
        "Ticks per second of the clocks of CTF drafts, which describe none [default: 1000000000]",
    ),
]);

/// Reads metadata, bare or in packets, into the schema of a trace with this byte order.
///
/// # Errors
/// For what leaves a trace without a schema, with the place in the text.
pub fn parse(bytes: &[u8], order: ByteOrder) -> Result<Schema> {
    let undo = transform::Undo { keys: keys::Keys::default(), verifies: true, max_expanded: 1 << 24, has_xz: false };
    let loaded = metadata::load(bytes, &undo).map_err(placed)?;
    let order = loaded.order.unwrap_or(order);
    let schema = schema::build(&loaded.metadata, loaded.dialect, loaded.minor, order, 1_000_000_000);
    super::open::check_size(&schema, bytes.len() as u64).map_err(placed)?;
    byte_orders::check(&loaded, order).map_err(placed)?;
    Ok(schema)
}

/// An error of metadata with a place: what concerns all of it is reported at its start.
fn placed(error: Error) -> Error {
    let place = error.place();
    if place.text.is_some() || place.offset.is_some() { error } else { error.at_offset(0) }
}
