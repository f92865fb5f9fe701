//! Values of rows as text: JSON, CSV, cells of tables.

use tracemill_codec::text::csv::put_cell;
use tracemill_codec::text::escaped;
use tracemill_codec::text::out::{Out, TextPiece};
use tracemill_codec::text::strings::put_json;

use super::clock::TableClock;
use super::widths::{digits, is_plain};
use crate::kernel::{Column, Counts, Unit, Value, state_kinds};

// ---- JSON ---------------------------------------------------------------------------------------------------------

/// Appends a value as JSON.
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

/// Rows as JSON objects. Rows of different kinds in one table have the members of their kind.
pub struct Objects {
    /// Text before each value: a comma, its key, a colon.
    keys: Vec<TextPiece>,
    /// Rows of different kinds: for each kind the column that no other has, and the columns of the kind.
    kinds: Vec<(usize, Vec<bool>)>,
}

impl Objects {
    /// The objects of the rows of an analysis with these columns.
    pub fn new(analysis: &str, columns: &[Column]) -> Self {
        let key = |column: &Column| {
            let mut out = Out::default();
            out.put_byte(b',');
            put_json(&mut out, column.name.as_bytes());
            out.put_byte(b':');
            TextPiece::new(out.written())
        };
        let kinds = if analysis == "states" { state_kinds(columns) } else { Vec::new() };
        Objects { keys: columns.iter().map(key).collect(), kinds }
    }

    /// Appends a row.
    pub fn put(&self, out: &mut Out, row: &[Value<'_>]) {
        let begin = out.len();
        let is_there = |at: usize| row.get(at).is_some_and(|value| !matches!(value, Value::Null));
        let kind = self.kinds.iter().find(|(own, _)| is_there(*own));
        for (at, (key, value)) in self.keys.iter().zip(row).enumerate() {
            if kind.is_some_and(|(_, has)| !has[at]) {
                continue;
            }
            out.put_piece(key);
            put_json_value(out, *value);
        }
        // The first member stands behind the brace instead of a comma.
        match out.len() > begin {
            true => out.replace(begin, b'{'),
            false => out.put_byte(b'{'),
        }
        out.put_byte(b'}');
    }
}

// ---- CSV ----------------------------------------------------------------------------------------------------------

fn put_csv_value(out: &mut Out, value: Value<'_>) {
    match value {
        Value::Null => {}
        Value::Word(word) => out.put(word.as_bytes()),
        Value::Text(text) => put_cell(out, text.as_bytes()),
        Value::Counts(counts) => {
            let mut text = Out::default();
            put_counts(&mut text, counts);
            put_cell(out, text.written());
        }
        value => put_json_value(out, value),
    }
}

/// Appends a row as a line of CSV.
pub fn put_csv_line(out: &mut Out, row: &[Value<'_>]) {
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            out.put_byte(b',');
        }
        put_csv_value(out, *value);
    }
    out.put_byte(b'\n');
}

// ---- Tables -------------------------------------------------------------------------------------------------------

/// Characters of a cell that are known before they are written.
pub fn quick_width(value: Value<'_>, unit: Unit, clock: &TableClock) -> Option<usize> {
    match (value, unit) {
        (Value::Null, _) => Some(1),
        (Value::Integer(value), Unit::Time) => clock.quick_width(value),
        // Durations with three digits after the point.
        (Value::Integer(value), unit) if value >= 0 => {
            let digits = digits(value);
            Some(match unit {
                Unit::Duration => digits.max(4) + 1,
                _ => digits,
            })
        }
        // Names that the program knows are plain.
        (Value::Word(word), _) => Some(word.len()),
        (Value::Text(text), _) => is_plain(text).then_some(text.len()),
        _ => None,
    }
}

/// Appends a value as people read it: durations in microseconds, shares in percent.
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
        (Value::Integer(ns), Unit::Time) => clock.put(out, ns),
        (Value::Real(value), Unit::Duration) => out.put_fmt(format_args!("{:.3}", value / 1000.0)),
        (Value::Real(value), Unit::Share) => out.put_fmt(format_args!("{:.2}", value * 100.0)),
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
