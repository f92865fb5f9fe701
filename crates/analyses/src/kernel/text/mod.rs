//! Rows as text. Analyses find more rows than there are events, so what writes them is here, beside what finds them.

mod clock;
mod states;
mod values;
mod widths;

pub use clock::{TableClock, TimeWriter};
pub use states::{StateLines, widths};
pub use values::{Objects, put_csv_line, put_json_value, put_shown, quick_width};
pub use widths::{count, put_blanks, shortened};
