//! Times in tables: as the clock on the wall shows them, or as seconds since the origin of the clock.

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_codec::text::out::Out;

use crate::widths::{count, digits};

/// Digits of the fraction of a second, and the point before them.
const FRACTION: usize = 9 + 1;

/// Writes the time of an instant, with nine digits of fraction at its end.
pub type TimeWriter = Rc<RefCell<dyn FnMut(&mut Out, i128)>>;

/// A clock for the times of tables.
#[derive(Clone)]
pub struct TableClock {
    writer: Option<TimeWriter>,
}

impl TableClock {
    /// Seconds since the origin of the clock.
    pub fn seconds() -> TableClock {
        TableClock { writer: None }
    }

    /// Times as `writer` has them.
    pub fn written_by(writer: TimeWriter) -> TableClock {
        TableClock { writer: Some(writer) }
    }

    /// Does it show seconds since the origin?
    pub fn is_seconds(&self) -> bool {
        self.writer.is_none()
    }

    /// Appends a time.
    pub fn write(&self, out: &mut Out, ns: i128) {
        if let Some(writer) = &self.writer {
            return (writer.borrow_mut())(out, ns);
        }
        let sign = if ns < 0 { "-" } else { "" };
        let (second, part) = (ns.unsigned_abs() / NANOS, ns.unsigned_abs() % NANOS);
        match (u64::try_from(second), sign) {
            (Ok(second), "") => out.put_u64(second),
            _ => out.put_fmt(format_args!("{sign}{second}")),
        }
        out.put_byte(b'.');
        out.put_nine(part as u32);
    }

    /// Appends a second of the clock, with the point after it.
    pub fn put_second(&self, out: &mut Out, second: u64) {
        let begin = out.len();
        self.write(out, i128::from(second) * NANOS as i128);
        out.truncate(begin.max(out.len() - (FRACTION - 1)));
    }

    /// The width of a time, where it is known without writing it.
    pub(crate) fn quick_width(&self, ns: i128) -> Option<usize> {
        (self.is_seconds() && ns >= 0).then(|| digits(ns).max(FRACTION) + 1)
    }

    /// The width of a time.
    pub fn width(&self, ns: i128) -> usize {
        let mut out = Out::default();
        self.write(&mut out, ns);
        count(out.written())
    }
}

const NANOS: u128 = 1_000_000_000;
