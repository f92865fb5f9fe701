//! Times as the user writes them (`docs/cli.md`, "Times").
//!
//! A text is parsed without knowing the trace, and then resolved to ns since the origin; between the two steps the
//! caller learns whether the first or last event has to be looked for.

use jiff::Timestamp;
use jiff::civil::{self, Date};
use jiff::tz::{Offset, TimeZone};
use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};

use crate::zone;

/// Times that others may be relative to, and their zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeContext {
    /// Times without a zone are universal time instead of local time.
    pub gmt: bool,
    /// Time of the first event in ns since the origin.
    pub first_ns: Option<i128>,
    /// Time of the last event in ns since the origin.
    pub last_ns: Option<i128>,
}

/// Which events must be found before times can be resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// The first event.
    pub first: bool,
    /// The last event.
    pub last: bool,
}

impl Needs {
    /// The needs of both.
    #[must_use]
    pub fn or(self, other: Needs) -> Needs {
        Needs { first: self.first || other.first, last: self.last || other.last }
    }
}

/// A time as it is written: parsed, not yet resolved.
#[derive(Clone, Debug)]
pub struct Time {
    when: When,
    span: Span,
}

#[derive(Clone, Debug)]
enum When {
    /// Ns since the origin.
    Origin(i128),
    /// Ns after the first event.
    AfterFirst(i128),
    /// Ns before the last event.
    BeforeLast(i128),
    Civil {
        /// The day of the first event when absent.
        date: Option<Date>,
        time: civil::Time,
        offset: Option<Offset>,
    },
}

/// Reads a time and resolves it to ns since the origin.
///
/// # Errors
/// When the text is no time, with the place in it; when it is further from the origin than times are kept; when it is
/// relative to an event and the context does not have that event's time.
pub fn parse_time(text: &str, context: &TimeContext) -> Result<i128> {
    Time::parse(text)?.resolve(text, context)
}

/// Reads a duration with units, such as `1.5s` or `1m30s`, in ns.
///
/// # Errors
/// When the text is no duration, with the place in it; when it is finer than a ns.
pub fn parse_duration(text: &str) -> Result<i128> {
    TimeReader { source: text, at: 0, end: text.len() }.duration()
}

const FORMS: &str = "times are SECONDS[.FRACTION], Nns, YYYY-MM-DD[ hh:mm[:ss[.FRACTION]]][Z|+hh:mm], hh:mm[:ss], \
     +DURATION after the first event or -DURATION before the last (as +1.5s, -200ms, +1m30s)";

const NS: i128 = 1_000_000_000;

/// No clock shows a time further from its origin.
const FARTHEST_NS: u128 = 1 << 95;

/// Units of durations, the longer words first.
const UNITS: [(&str, i128); 7] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", NS), ("m", 60 * NS), ("h", 3_600 * NS), ("d", 86_400 * NS)];

impl Time {
    /// Reads a time.
    ///
    /// # Errors
    /// When the text is no time, with the place in it.
    pub fn parse(text: &str) -> Result<Time> {
        Time::parse_in(text, Span::new(0, text.len()))
    }

    /// Reads a time that is a part of a longer text.
    pub(super) fn parse_in(source: &str, span: Span) -> Result<Time> {
        let text = span.text(source);
        let start = span.start + (text.len() - text.trim_start().len());
        let span = Span::new(start, start + text.trim().len());
        let mut reader = TimeReader { source, at: span.start, end: span.end };
        let when = reader.when(span)?;
        if reader.at < reader.end {
            return Err(reader.unexpected("the end of the time"));
        }
        Ok(Time { when, span })
    }

    /// Which events it is relative to.
    pub fn needs(&self) -> Needs {
        Needs {
            first: matches!(self.when, When::AfterFirst(_) | When::Civil { date: None, .. }),
            last: matches!(self.when, When::BeforeLast(_)),
        }
    }

    /// Is it a number of seconds or ns since the origin, not a date, a time of day or a duration?
    pub(crate) fn is_count(&self) -> bool {
        matches!(self.when, When::Origin(_))
    }

    /// Ns since the origin; `source` is the text it was parsed from.
    ///
    /// # Errors
    /// When the result is further from the origin than times are kept, or the context lacks what the time needs.
    pub fn resolve(&self, source: &str, context: &TimeContext) -> Result<i128> {
        let need = |event: Option<i128>, which: &str| {
            event.ok_or_else(|| {
                let message = format!("no event with a time was found, so nothing is known of the {which} one");
                self.span.malformed(source, message).with_help("give a time that does not depend on an event")
            })
        };
        let ns = match self.when {
            When::Origin(ns) => ns,
            When::AfterFirst(ns) => need(context.first_ns, "first")?.saturating_add(ns),
            When::BeforeLast(ns) => need(context.last_ns, "last")?.saturating_sub(ns),
            When::Civil { date, time, offset } => {
                let zone = match offset {
                    Some(offset) => TimeZone::fixed(offset),
                    None if context.gmt => TimeZone::UTC,
                    None => zone::local(),
                };
                let date = match date {
                    Some(date) => date,
                    None => {
                        let first = need(context.first_ns, "first")?;
                        let first = Timestamp::from_nanosecond(first).map_err(|_| {
                            let message = "the first event has no date: it is too far from the origin";
                            self.span.malformed(source, message).with_help("give the date too, or a number of seconds")
                        })?;
                        zone.to_datetime(first).date()
                    }
                };
                match zone.to_ambiguous_timestamp(date.to_datetime(time)).compatible() {
                    Ok(stamp) => stamp.as_nanosecond(),
                    Err(_) => i128::MAX,
                }
            }
        };
        if ns.unsigned_abs() > FARTHEST_NS { Err(out_of_range(source, self.span)) } else { Ok(ns) }
    }
}

fn out_of_range(source: &str, span: Span) -> Error {
    let error = span.malformed(source, "the time is out of range");
    error.with_help("times reach 2^95 ns around the origin, more than a billion years")
}

struct TimeReader<'a> {
    source: &'a str,
    at: usize,
    end: usize,
}

impl<'a> TimeReader<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..self.end]
    }

    fn when(&mut self, span: Span) -> Result<When> {
        let rest = self.rest();
        let signless = rest.trim_start_matches(['+', '-']);
        let after_digits = signless.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = signless.len() - after_digits.len();
        match (rest.as_bytes().first(), after_digits.as_bytes().first()) {
            (Some(b'+'), _) => Ok(When::AfterFirst(self.signed_duration()?)),
            (Some(b'-'), None | Some(b'.')) if has_no_unit(after_digits) && digits > 0 => self.seconds(span),
            (Some(b'-'), _) => Ok(When::BeforeLast(self.signed_duration()?)),
            (Some(_), Some(b'-')) => self.date(),
            (Some(_), Some(b':')) => Ok(When::Civil { date: None, time: self.time()?, offset: self.zone()? }),
            (Some(_), Some(b'n')) if digits > 0 && after_digits == "ns" => {
                self.at = self.end;
                let ns = signless[..digits].parse().map_err(|_| out_of_range(self.source, span))?;
                Ok(When::Origin(ns))
            }
            (Some(_), None | Some(b'.')) if has_no_unit(after_digits) && digits > 0 => self.seconds(span),
            _ => {
                let is_duration = digits > 0 && UNITS.iter().any(|(unit, _)| after_digits.ends_with(unit));
                let found = if rest.is_empty() { "nothing".into() } else { format!("`{rest}`") };
                let error = span.malformed(self.source, format!("expected a time, found {found}"));
                Err(match is_duration {
                    true => error.with_help(format!("`+{rest}` is after the first event, `-{rest}` before the last")),
                    false => error.with_help(FORMS),
                })
            }
        }
    }

    /// `[-]SECONDS[.FRACTION]`
    fn seconds(&mut self, span: Span) -> Result<When> {
        let negative = self.accept("-");
        let seconds: i128 = self.digits().parse().map_err(|_| out_of_range(self.source, span))?;
        let fraction = self.fraction()?;
        let ns = seconds.checked_mul(NS).and_then(|ns| ns.checked_add(fraction));
        let ns = ns.ok_or_else(|| out_of_range(self.source, span))?;
        Ok(When::Origin(if negative { -ns } else { ns }))
    }

    fn date(&mut self) -> Result<When> {
        let start = self.at;
        let year = self.number(4, "a year of four digits")?;
        self.expect("-")?;
        let month = self.number(2, "a month of two digits")?;
        self.expect("-")?;
        let day = self.number(2, "a day of two digits")?;
        let date = Date::new(year as i16, month as i8, day as i8).map_err(|_| self.no("day", start))?;
        let mut time = civil::Time::midnight();
        if self.accept("T") || self.accept("t") || self.accept(" ") {
            self.at = self.end - self.rest().trim_start().len();
            time = self.time()?;
        }
        Ok(When::Civil { date: Some(date), time, offset: self.zone()? })
    }

    /// `hh:mm[:ss[.FRACTION]]`
    fn time(&mut self) -> Result<civil::Time> {
        let start = self.at;
        let hour = self.number(2, "an hour of two digits")?;
        self.expect(":")?;
        let minute = self.number(2, "a minute of two digits")?;
        let (mut second, mut fraction) = (0, 0);
        if self.accept(":") {
            second = self.number(2, "a second of two digits")?;
            fraction = self.fraction()?;
        }
        let time = civil::Time::new(hour as i8, minute as i8, second as i8, fraction as i32);
        time.map_err(|_| self.no("time", start).with_help("hours go to 23, minutes and seconds to 59"))
    }

    /// `Z`, `+hh:mm`, `-hh:mm` or nothing.
    fn zone(&mut self) -> Result<Option<Offset>> {
        let start = self.at;
        if self.accept("Z") || self.accept("z") {
            return Ok(Some(Offset::UTC));
        }
        let sign = match self.rest().as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Ok(None),
        };
        self.at += 1;
        let hours = self.number(2, "the hours of a time zone, two digits")?;
        self.expect(":")?;
        let minutes = self.number(2, "the minutes of a time zone, two digits")?;
        let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok().filter(|_| minutes < 60);
        offset.map(Some).ok_or_else(|| self.no("time zone", start))
    }

    /// A sign and numbers with units, in ns.
    fn signed_duration(&mut self) -> Result<i128> {
        self.at += 1;
        self.duration()
    }

    fn duration(&mut self) -> Result<i128> {
        let mut total = 0i128;
        loop {
            let start = self.at;
            let whole = self.digits();
            if whole.is_empty() {
                return Err(self.unexpected("a number with a unit (ns us ms s m h d)"));
            }
            let fraction = self.fraction_digits()?;
            let Some(&(word, unit)) = UNITS.iter().find(|(word, _)| self.unit() == *word) else {
                return Err(self.unexpected("a unit (ns us ms s m h d)"));
            };
            self.at += word.len();
            let span = Span::new(start, self.at);
            let part = scaled(whole, fraction, unit)
                .ok_or_else(|| span.malformed(self.source, "the duration is out of range or finer than a ns"))?;
            total = total.checked_add(part).ok_or_else(|| out_of_range(self.source, span))?;
            if self.rest().is_empty() {
                return Ok(total);
            }
        }
    }

    /// The letters at the position.
    fn unit(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())]
    }

    fn digits(&mut self) -> &'a str {
        let rest = self.rest();
        let (digits, _) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        self.at += digits.len();
        digits
    }

    /// `.FRACTION` in ns, of up to nine digits; 0 when there is none.
    fn fraction(&mut self) -> Result<i128> {
        let digits = self.fraction_digits()?;
        scaled("0", digits, NS).filter(|_| digits.len() <= 9).ok_or_else(|| {
            let span = Span::new(self.at - digits.len() + 9, self.at);
            span.malformed(self.source, "a fraction of a second has at most nine digits")
        })
    }

    /// The digits after a point; empty when there is none.
    fn fraction_digits(&mut self) -> Result<&'a str> {
        if !self.accept(".") {
            return Ok("");
        }
        let digits = self.digits();
        if digits.is_empty() { Err(self.unexpected("a digit")) } else { Ok(digits) }
    }

    fn number(&mut self, len: usize, what: &str) -> Result<i32> {
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits != len {
            return Err(self.unexpected(what));
        }
        self.at += len;
        Ok(rest[..len].bytes().fold(0, |value, digit| value * 10 + i32::from(digit - b'0')))
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        if self.accept(text) { Ok(()) } else { Err(self.unexpected(&format!("`{text}`"))) }
    }

    /// The error of something that does not exist; it is what was read from `start` on.
    fn no(&self, what: &str, start: usize) -> Error {
        let span = Span::new(start, self.at);
        span.malformed(self.source, format!("there is no {what} {}", span.text(self.source)))
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let rest = self.rest();
        let found = if rest.is_empty() { "the end of the time".to_string() } else { format!("`{rest}`") };
        let span = Span::new(self.at, self.at + rest.len());
        span.malformed(self.source, format!("expected {wanted}, found {found}")).with_help(FORMS)
    }
}

fn has_no_unit(after_digits: &str) -> bool {
    !after_digits.contains(|c: char| c.is_alphabetic())
}

/// `WHOLE.FRACTION` units in ns, when that is a whole number.
fn scaled(whole: &str, fraction: &str, unit: i128) -> Option<i128> {
    let whole: i128 = whole.parse().ok()?;
    let fraction = fraction.trim_end_matches('0');
    let mut ns = whole.checked_mul(unit)?;
    if !fraction.is_empty() {
        let parts: i128 = fraction.parse().ok()?;
        let product = parts.checked_mul(unit)?;
        let divisor = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        if product % divisor != 0 {
            return None;
        }
        ns = ns.checked_add(product / divisor)?;
    }
    Some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: i128 = 1_700_000_001_000_962_416; // 2023-11-14 22:13:21.000962416 UTC
    const GMT: TimeContext = TimeContext { gmt: true, first_ns: Some(FIRST), last_ns: Some(FIRST + 5_000_000_000) };

    fn fault(text: &str) -> (u32, String) {
        let error = parse_time(text, &GMT).unwrap_err();
        (error.place().text.as_ref().unwrap().column, error.message().to_string())
    }

    #[test]
    fn every_form() {
        const MIDNIGHT: i128 = 1_699_920_000_000_000_000;
        for (text, ns) in [
            ("0", 0),
            ("12.5", 12_500_000_000),
            ("-12.5", -12_500_000_000),
            ("-0.000000001", -1),
            ("-3", -3_000_000_000),
            ("1700000001.000962416", FIRST),
            ("1700000001000962416ns", FIRST),
            ("0ns", 0),
            ("2023-11-14", MIDNIGHT),
            ("2023-11-14Z", MIDNIGHT),
            ("2023-11-14+01:00", MIDNIGHT - 3_600_000_000_000),
            ("2023-11-14 22:13", MIDNIGHT + 79_980_000_000_000),
            ("2023-11-14 22:13:21.000962416", FIRST),
            ("2023-11-14T22:13:21.000962416Z", FIRST),
            ("2023-11-14T23:43:21.000962416+01:30", FIRST),
            ("2023-11-14T17:13:21.000962416-05:00", FIRST),
            ("22:13", MIDNIGHT + 79_980_000_000_000),
            ("22:13:21.5", MIDNIGHT + 80_001_500_000_000),
            ("23:13Z", MIDNIGHT + 83_580_000_000_000),
            ("+1.5s", FIRST + 1_500_000_000),
            ("+1m30s", FIRST + 90_000_000_000),
            ("+10us", FIRST + 10_000),
            ("+5ns", FIRST + 5),
            ("+1d2h", FIRST + 93_600_000_000_000),
            ("-200ms", FIRST + 4_800_000_000),
            ("-5ns", FIRST + 4_999_999_995),
            ("-0.5m", FIRST - 25_000_000_000),
            (" 5 ", 5_000_000_000),
            ("1969-12-31T23:59:59Z", -1_000_000_000),
            ("99999999999", 99_999_999_999_000_000_000),
            ("9999999999999999999ns", 9_999_999_999_999_999_999),
            ("9999-01-01", 253_370_764_800_000_000_000),
            ("+999999d", FIRST + 86_399_913_600_000_000_000),
        ] {
            assert_eq!(parse_time(text, &GMT).map_err(|error| error.to_string()), Ok(ns), "{text}");
        }
    }

    #[test]
    fn errors_point_into_the_text() {
        for (text, column, words) in [
            ("", 1, "expected a time, found nothing"),
            ("soon", 1, "expected a time, found `soon`"),
            ("5s", 1, "expected a time"),
            ("+5", 3, "expected a unit (ns us ms s m h d), found the end"),
            ("+", 2, "expected a number with a unit"),
            ("+1m30", 6, "expected a unit"),
            ("+1x", 3, "found `x`"),
            ("+1.s", 4, "expected a digit"),
            ("+1.5ns", 2, "finer than a ns"),
            ("-1m x", 4, "expected a number with a unit"),
            ("1.0000000001", 12, "at most nine digits"),
            ("1.", 3, "expected a digit"),
            ("2023-13-01", 1, "there is no day 2023-13-01"),
            ("2023-02-29", 1, "there is no day"),
            ("2023-1-01", 6, "a month of two digits"),
            ("23-01-01", 1, "a year of four digits"),
            ("2023-01-01 24:00", 12, "there is no time 24:00"),
            ("2023-01-01 10", 14, "expected `:`"),
            ("2023-01-01T10:00 x", 17, "expected the end of the time"),
            ("2023-01-01T10:00+1:00", 18, "the hours of a time zone"),
            ("2023-01-01T10:00+99:00", 17, "there is no time zone"),
            ("10:00:60", 1, "there is no time 10:00:60"),
            ("99999999999999999999", 1, "out of range"),
            ("-99999999999999999999", 1, "out of range"),
            ("99999999999999999999999999999ns", 1, "out of range"),
            ("999999999999999999999999999999999999999999ns", 1, "out of range"),
            ("+999999999999999d", 1, "out of range"),
            ("é", 1, "found `é`"),
        ] {
            let (at, message) = fault(text);
            assert!(at == column && message.contains(words), "{text}: column {at}: {message}");
        }
    }

    #[test]
    fn what_is_needed_is_known_before() {
        let needs = |text: &str| Time::parse(text).unwrap().needs();
        assert_eq!(needs("12"), Needs::default());
        assert_eq!(needs("2023-11-14 10:00"), Needs::default());
        assert_eq!(needs("10:00"), Needs { first: true, last: false });
        assert_eq!(needs("+1s"), Needs { first: true, last: false });
        assert_eq!(needs("-1s"), Needs { first: false, last: true });
        assert_eq!(needs("-1"), Needs::default());
        let nothing = TimeContext { gmt: true, ..TimeContext::default() };
        assert!(parse_time("+1s", &nothing).unwrap_err().message().contains("the first one"));
        assert!(parse_time("-1s", &nothing).unwrap_err().message().contains("the last one"));
    }
}
