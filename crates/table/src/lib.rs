//! Tables: columns with units, and their rows as text, CSV and JSON.
//!
//! A [`Column`] has a key, by which programs and users call it, and a [`Unit`], which says how people see its values and at
//! which side they stand. A [`Value`] is what a row has in a column; a [`Cell`] owns what a value borrows.
//!
//! | rows | are written by |
//! |---|---|
//! | all at hand, for people | [`TextTable`]: as wide as the longest cell, or as a terminal that is narrower |
//! | one by one, in any form | [`TableWriter`]: tables for people are as wide as the first rows need |
//! | for programs | [`RowObjects`], [`put_csv_row`] |
//! | lists, tables of texts | [`Layout`] |
//!
//! ```
//! use tracemill_codec::text::out::Out;
//! use tracemill_table::{Column, TableClock, TableStyle, TextTable, Unit, Value};
//!
//! let columns = [Column::new("comm", Unit::Name), Column::new("user_ns", Unit::Duration)];
//! let style = TableStyle { is_colored: false, width: None, clock: TableClock::seconds() };
//! let mut table = TextTable::new(columns.iter().enumerate().collect(), &style);
//! let rows = [[Value::Text("sh"), Value::Integer(1_500)], [Value::Text("make"), Value::Integer(27_500)]];
//! rows.iter().for_each(|row| table.widen_by(row));
//! let mut out = Out::default();
//! table.put_titles(&mut out);
//! rows.iter().for_each(|row| table.put_row(&mut out, row, None));
//! assert_eq!(out.written(), b"comm  user_us\nsh      1.500\nmake   27.500\n");
//! ```

#![forbid(unsafe_code)]

mod cells;
mod clock;
mod column;
mod layout;
pub mod packed;
mod rows;
mod text;
mod value;
mod widths;
mod writer;

pub use cells::{Address, Device, put_csv_value, put_json_value, put_shown, quick_width};
pub use clock::{TableClock, TimeWriter};
pub use column::{Column, Unit};
pub use layout::{Align, BETWEEN, Layout, LayoutColumn, end_line};
pub use rows::{RowObjects, TableRow, put_csv_row};
pub use text::{TableStyle, TextTable, bar, put_wrapped};
pub use value::{Cell, Counts, Value};
pub use widths::{count, digits, put_blanks};
pub use writer::{TableFormat, TableWriter};
