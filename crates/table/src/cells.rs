//! Values as text: in JSON, in CSV, and as people read them.

use std::fmt;

use tracemill_codec::text::csv::put_cell;
use tracemill_codec::text::escaped;
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings::put_json;

use crate::clock::TableClock;
use crate::column::Unit;
use crate::value::{Counts, Value};
use crate::widths::{digits, is_plain};

// ---- JSON ---------------------------------------------------------------------------------------------------------

/// Appends a value as JSON.
#[inline]
pub fn put_json_value(out: &mut Out, value: Value<'_>) {
    match value {
        Value::Null => out.put(b"null"),
        Value::Integer(value) => put_integer(out, value),
        Value::Word(word) => {
            out.put_byte(b'"');
            out.put(word.as_bytes());
            out.put_byte(b'"');
        }
        Value::Text(text) => put_json(out, text.as_bytes()),
        Value::Bool(value) => out.put(if value { b"true" } else { b"false" }),
        value => put_long_json(out, value),
    }
}

fn put_long_json(out: &mut Out, value: Value<'_>) {
    match value {
        Value::Real(value) if value.is_finite() && value.fract() == 0.0 && value.abs() < 1e15 => {
            out.put_fmt(format_args!("{value:.1}"));
        }
        Value::Real(value) if value.is_finite() => out.put_fmt(format_args!("{value}")),
        Value::Counts(counts) => {
            let mut before = b'{';
            counts.for_each(|name, count| {
                out.put_byte(std::mem::replace(&mut before, b','));
                put_json(out, name.as_bytes());
                out.put_byte(b':');
                out.put_u64(count);
            });
            out.put(if before == b'{' { b"{}" } else { b"}" });
        }
        _ => out.put(b"null"),
    }
}

// ---- CSV ----------------------------------------------------------------------------------------------------------

/// Appends a value as a cell of CSV.
#[inline]
pub fn put_csv_value(out: &mut Out, value: Value<'_>) {
    match value {
        Value::Text(text) => put_cell(out, text.as_bytes()),
        Value::Counts(_) => {
            let mut text = Out::default();
            put_plain_value(&mut text, value);
            put_cell(out, text.written());
        }
        value => put_plain_value(out, value),
    }
}

/// Appends a value without quotes; nothing where there is none.
#[inline]
pub(crate) fn put_plain_value(out: &mut Out, value: Value<'_>) {
    match value {
        Value::Null => {}
        Value::Word(text) | Value::Text(text) => out.put(text.as_bytes()),
        Value::Counts(counts) => put_counts(out, counts),
        value => put_json_value(out, value),
    }
}

// ---- Tables -------------------------------------------------------------------------------------------------------

/// Characters of a cell that are known before they are written.
pub fn quick_width(value: Value<'_>, unit: Unit, clock: &TableClock) -> Option<usize> {
    match (value, unit) {
        (Value::Null, _) => Some(1),
        (Value::Integer(value), Unit::Time) => clock.quick_width(value),
        (Value::Integer(_), Unit::Address | Unit::Device) => None,
        // Durations with three digits after the point.
        (Value::Integer(value), unit) if value >= 0 => {
            let digits = digits(value);
            match unit {
                Unit::Duration => Some(digits.max(4) + 1),
                Unit::Bytes => None,
                _ => Some(digits),
            }
        }
        // Names that the program knows are plain.
        (Value::Word(word), _) => Some(word.len()),
        (Value::Text(text), _) => is_plain(text).then_some(text.len()),
        _ => None,
    }
}

/// An address in memory, as people read it in tables and sentences. A signed field holds those of the kernel as negative
/// numbers: they are shown as the 64 bits that they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(pub i128);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match i64::try_from(self.0) {
            Ok(signed) => write!(f, "{:#x}", signed as u64),
            Err(_) => write!(f, "{:#x}", self.0),
        }
    }
}

/// The number of a device as people read it: `8:1`, the numbers of its driver and of the device, as `lsblk` shows them. The
/// kernel keeps them in 12 and 20 bits of one number (`include/linux/kdev_t.h`). A number that has no driver stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device(pub i128);

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MINOR_BITS: u32 = 20;
        match u32::try_from(self.0) {
            Ok(number) if number >> MINOR_BITS > 0 => {
                write!(f, "{}:{}", number >> MINOR_BITS, number & ((1 << MINOR_BITS) - 1))
            }
            _ => write!(f, "{}", self.0),
        }
    }
}

/// Appends a value as people read it: durations in microseconds, shares in percent, addresses in hexadecimal, devices in their
/// two numbers; `-` where there is none.
pub fn put_shown(out: &mut Out, value: Value<'_>, unit: Unit, clock: &TableClock) {
    match (value, unit) {
        (Value::Null, _) => out.put_byte(b'-'),
        (Value::Integer(ns), Unit::Duration) => {
            let (whole, part) = parts(out, ns, 1000);
            put_integer(out, whole);
            out.put_byte(b'.');
            let part = part as u16;
            out.put(&[part / 100, part / 10 % 10, part % 10].map(|digit| b'0' + digit as u8));
        }
        (Value::Integer(ns), Unit::Time) => clock.write(out, ns),
        (Value::Real(value), Unit::Duration) => out.put_fmt(format_args!("{:.3}", value / 1000.0)),
        (Value::Real(value), Unit::Share) => out.put_fmt(format_args!("{:.2}", value * 100.0)),
        (Value::Real(value), Unit::Correlation) => out.put_fmt(format_args!("{value:.4}")),
        (Value::Integer(bytes), Unit::Bytes) => put_size(out, bytes),
        (Value::Integer(address), Unit::Address) => out.put_fmt(format_args!("{}", Address(address))),
        (Value::Integer(device), Unit::Device) => out.put_fmt(format_args!("{}", Device(device))),
        (Value::Integer(value), _) => put_integer(out, value),
        (Value::Real(value), _) => out.put_fmt(format_args!("{value}")),
        (Value::Bool(value), _) => out.put(if value { b"yes" } else { b"no" }),
        (Value::Word(word), _) => out.put(word.as_bytes()),
        (Value::Text(text), _) if is_plain(text) => out.put(text.as_bytes()),
        (Value::Text(text), _) => out.put(escaped(text).as_bytes()),
        (Value::Counts(counts), _) if counts.is_empty() => out.put_byte(b'-'),
        (Value::Counts(counts), _) => put_counts(out, counts),
    }
}

/// Puts the sign of a number; gives it divided by another one, and the rest.
fn parts(out: &mut Out, value: i128, by: u64) -> (i128, u64) {
    if value < 0 {
        out.put_byte(b'-');
    }
    match u64::try_from(value) {
        Ok(value) => ((value / by).into(), value % by),
        Err(_) => {
            let value = value.unsigned_abs();
            ((value / u128::from(by)) as i128, (value % u128::from(by)) as u64)
        }
    }
}

/// Appends a size in the largest unit that leaves a whole number before the point.
fn put_size(out: &mut Out, bytes: i128) {
    let (mut number, mut unit) = (bytes as f64, "B");
    for next in ["KiB", "MiB", "GiB"] {
        if number >= 1024.0 {
            (number, unit) = (number / 1024.0, next);
        }
    }
    match unit {
        "B" => out.put_fmt(format_args!("{bytes} B")),
        unit => out.put_fmt(format_args!("{number:.1} {unit}")),
    }
}

#[inline]
fn put_integer(out: &mut Out, value: i128) {
    match i64::try_from(value) {
        Ok(value) => out.put_i64(value),
        Err(_) => out.put_fmt(format_args!("{value}")),
    }
}

/// Names and how often they occurred, with blanks between.
fn put_counts(out: &mut Out, counts: Counts<'_>) {
    let mut is_first = true;
    counts.for_each(|name, count| {
        if !std::mem::take(&mut is_first) {
            out.put_byte(b' ');
        }
        out.put_fmt(format_args!("{name}:{count}"));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Cell;

    fn text(put: impl FnOnce(&mut Out)) -> String {
        let mut out = Out::default();
        put(&mut out);
        String::from_utf8(out.written().to_vec()).expect("a text")
    }

    fn shown(cell: impl Into<Cell>, unit: Unit) -> String {
        let cell = cell.into();
        text(|out| put_shown(out, (&cell).into(), unit, &TableClock::seconds()))
    }

    #[test]
    fn people_see_values_in_the_unit_of_their_column() {
        assert_eq!(
            [0, 999, -1, 1_234_567].map(|ns| shown(ns, Unit::Duration)),
            ["0.000", "0.999", "-0.001", "1234.567"]
        );
        assert_eq!(shown(1i128 << 100, Unit::Duration), "1267650600228229401496703205.376");
        assert_eq!([-5, 1_500_000_000].map(|ns| shown(ns, Unit::Time)), ["-0.000000005", "1.500000000"]);
        assert_eq!(
            [0, 1023, 1024, 1_572_864].map(|size| shown(size, Unit::Bytes)),
            ["0 B", "1023 B", "1.0 KiB", "1.5 MiB"]
        );
        let real = |value, unit| text(|out| put_shown(out, Value::Real(value), unit, &TableClock::seconds()));
        assert_eq!(
            [Unit::Duration, Unit::Share, Unit::Correlation].map(|unit| real(0.5, unit)),
            ["0.001", "50.00", "0.5000"]
        );
        assert_eq!(
            [0, 139_888_628_339_520, u64::MAX.into(), -1, 1 << 64].map(|address: i128| shown(address, Unit::Address)),
            ["0x0", "0x7f3a5c001340", "0xffffffffffffffff", "0xffffffffffffffff", "0x10000000000000000"]
        );
        assert_eq!([Cell::Null, Cell::name("?")].map(|cell| shown(cell, Unit::Address)), ["-", "?"]);
        assert_eq!(
            [8 << 20, 254 << 20 | 3, 7, -1, 1 << 40].map(|number: i128| shown(number, Unit::Device)),
            ["8:0", "254:3", "7", "-1", "1099511627776"]
        );
        assert_eq!([shown(Cell::Null, Unit::Count), shown(Cell::Bool(true), Unit::Name)], ["-", "yes"]);
        assert_eq!(
            [shown(Cell::Counts(Vec::new()), Unit::Count), shown(counts(), Unit::Count)],
            ["-", "EAGAIN:2 a\"b:1"]
        );
        assert_eq!(shown(Cell::text(Some("a\tb\u{1b}[1m")), Unit::Name), "a\\tb\\u{1b}[1m");
    }

    fn counts() -> Cell {
        Cell::Counts(vec![("EAGAIN".to_string(), 2), ("a\"b".to_string(), 1)])
    }

    #[test]
    fn widths_that_are_known_before_are_those_of_the_texts() {
        let cells = [
            Cell::Null,
            Cell::from(0),
            Cell::from(999),
            Cell::from(u64::MAX),
            Cell::from(1i128 << 90),
            Cell::name("idle"),
        ];
        let units = [
            Unit::Name,
            Unit::Count,
            Unit::Time,
            Unit::Duration,
            Unit::Share,
            Unit::Correlation,
            Unit::Bytes,
            Unit::Address,
        ];
        let texts = ["", "read", "\u{1f375}", "a\nb"].map(|text| Cell::text(Some(text)));
        let mut known = 0;
        for cell in cells.iter().chain(&texts) {
            for unit in units {
                if let Some(width) = quick_width(cell.into(), unit, &TableClock::seconds()) {
                    assert_eq!(width, shown(cell.clone(), unit).chars().count(), "{cell:?} {unit:?}");
                    known += 1;
                }
            }
        }
        assert_eq!(known, 8 * 8 - 4 - 4);
    }

    #[test]
    fn programs_get_values_that_they_can_read() {
        let cells = [
            Cell::Null,
            Cell::from(-7),
            Cell::Real(2.0),
            Cell::Real(0.1),
            Cell::Real(f64::NAN),
            Cell::Bool(false),
            Cell::name("idle"),
            Cell::text(Some("a,\"b\"\n")),
            counts(),
        ];
        let json = cells.each_ref().map(|cell| text(|out| put_json_value(out, cell.into())));
        let wanted =
            ["null", "-7", "2.0", "0.1", "null", "false", "\"idle\"", r#""a,\"b\"\n""#, r#"{"EAGAIN":2,"a\"b":1}"#];
        assert_eq!(json, wanted);
        let csv = cells.each_ref().map(|cell| text(|out| put_csv_value(out, cell.into())));
        let wanted = ["", "-7", "2.0", "0.1", "null", "false", "idle", "\"a,\"\"b\"\"\n\"", "\"EAGAIN:2 a\"\"b:1\""];
        assert_eq!(csv, wanted);
    }
}
