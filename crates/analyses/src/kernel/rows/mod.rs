//! Rows of tables: their columns; any rows in few bytes, and those of `states`, with their lines.

pub(crate) mod column_of;
pub(crate) mod state_lines;
pub(crate) mod state_row;
pub(crate) mod state_rows;
pub(crate) mod store;
