//! Times for people.

use std::cell::OnceCell;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use tracemill_codec::text::out::{Out, TextPiece};
use tracemill_engine::zone;

/// How a time is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeStyle {
    /// Universal time instead of local time.
    pub gmt: bool,
    /// With the date.
    pub date: bool,
    /// Seconds since the origin.
    pub seconds: bool,
    /// Clock cycles.
    pub cycles: bool,
}

/// Prints times; the part down to the second is made once for each second.
pub struct WallClock {
    style: TimeStyle,
    /// The zone of the system; looked up for the first time that is shown.
    zone: OnceCell<TimeZone>,
    /// The second that `prefix` shows, in ns; -1 for none.
    second_ns: i64,
    prefix: Vec<u8>,
    /// The prefix with a `[` before it.
    bracketed: TextPiece,
}

impl WallClock {
    /// A printer of times in a style.
    pub fn new(style: TimeStyle) -> Self {
        WallClock { style, zone: OnceCell::new(), second_ns: -1, prefix: Vec::new(), bracketed: TextPiece::new("") }
    }

    /// Appends `hh:mm:ss.nnnnnnnnn` or what the style says. Times before the origin are shown as seconds, as those of
    /// other ages are.
    #[inline]
    pub fn write(&mut self, out: &mut Out, ns: i128) {
        let Some(fraction) = self.on_the_wall(ns).map(|ns| self.fraction(ns)) else { return put_seconds(out, ns) };
        out.put(&self.prefix);
        out.put_nine(fraction);
    }

    /// A time in two parts: the text before the fraction of its second, after a `[`, and that fraction. `None` for
    /// times of other ages.
    #[inline]
    pub(crate) fn bracketed(&mut self, ns: i128) -> Option<(&TextPiece, u32)> {
        let fraction = self.fraction(self.on_the_wall(ns)?);
        Some((&self.bracketed, fraction))
    }

    /// A time whose seconds are made once for many.
    #[inline]
    fn on_the_wall(&self, ns: i128) -> Option<i64> {
        let ns = ns as u128;
        (ns <= i64::MAX as u128).then_some(ns as i64)
    }

    /// Ns since the beginning of the second, whose text is made when it is another one.
    #[inline]
    fn fraction(&mut self, ns: i64) -> u32 {
        let fraction = ns.wrapping_sub(self.second_ns) as u64;
        if fraction < 1_000_000_000 && self.second_ns >= 0 {
            return fraction as u32;
        }
        self.begin_second(ns / 1_000_000_000);
        (ns % 1_000_000_000) as u32
    }

    #[cold]
    fn begin_second(&mut self, second: i64) {
        self.second_ns = second * 1_000_000_000;
        self.prefix = if self.style.seconds { format!("{second}.") } else { self.time_of_day(second) }.into_bytes();
        self.bracketed = TextPiece::new([b"[", &*self.prefix].concat());
    }

    /// Date, when it is wanted, and time of day of a second.
    fn time_of_day(&self, second: i64) -> String {
        let stamp = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
        let offset = if self.style.gmt { Offset::UTC } else { self.zone.get_or_init(zone::local).to_offset(stamp) };
        let time = offset.to_datetime(stamp);
        let clock = format!("{:02}:{:02}:{:02}.", time.hour(), time.minute(), time.second());
        match self.style.date {
            true => format!("{:04}-{:02}-{:02} {clock}", time.year(), time.month(), time.day()),
            false => clock,
        }
    }
}

/// Appends seconds since the origin with nine digits of fraction.
pub fn put_seconds(out: &mut Out, ns: i128) {
    if ns < 0 {
        out.put_byte(b'-');
    }
    put_unsigned_seconds(out, ns.unsigned_abs());
}

/// Appends seconds with nine digits of fraction.
#[inline]
pub(crate) fn put_unsigned_seconds(out: &mut Out, ns: u128) {
    let fraction = match u64::try_from(ns) {
        Ok(ns) => {
            out.put_u64(ns / 1_000_000_000);
            ns % 1_000_000_000
        }
        Err(_) => {
            out.put_fmt(format_args!("{}", ns / 1_000_000_000));
            (ns % 1_000_000_000) as u64
        }
    };
    out.put_byte(b'.');
    out.put_nine(fraction as u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(style: TimeStyle, ns: i128) -> String {
        let mut out = Out::default();
        WallClock::new(style).write(&mut out, ns);
        String::from_utf8_lossy(out.written()).into_owned()
    }

    #[test]
    fn styles() {
        let gmt = TimeStyle { gmt: true, ..TimeStyle::default() };
        let date = TimeStyle { date: true, ..gmt };
        assert_eq!(show(gmt, 1_700_000_001_000_962_416), "22:13:21.000962416");
        assert_eq!(show(date, 1_700_000_001_000_962_416), "2023-11-14 22:13:21.000962416");
        assert_eq!(show(date, -1), "-0.000000001");
        assert_eq!(show(date, i64::MAX.into()), "2262-04-11 23:47:16.854775807");
        assert_eq!(show(date, 1 << 63), "9223372036.854775808");
        assert_eq!(show(gmt, -(1 << 90)), "-1237940039285380274.899124224");
        assert_eq!(show(TimeStyle { seconds: true, ..date }, 5_000_000_001), "5.000000001");
    }
}
