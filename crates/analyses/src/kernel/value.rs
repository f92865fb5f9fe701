//! Values of tables.

pub(super) use tracemill_table::packed::{put_text, take_leb, take_text};
pub use tracemill_table::{Cell, Counts, Value};
