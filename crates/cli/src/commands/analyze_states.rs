//! Rows of `states` as text, without cells between: there are more of them than events.

use tracemill_analyses::kernel::{RowForm, STATE_KINDS, StateKey, StateRow, StateRows, StateValue};
use tracemill_codec::text::out::{Out, Piece};
use tracemill_codec::text::strings::put_json;
use tracemill_render::csv::put_cell;

use super::analyze_forms::{digits, put_blanks};
use super::report_forms::escaped;

/// Times, of which most are of the same second as the one before: its digits are written once.
struct Times {
    second: u64,
    digits: Piece,
}

impl Times {
    fn new() -> Times {
        // No time that fits 64 bits is of this second.
        Times { second: u64::MAX, digits: Piece::new("") }
    }

    /// Appends a time in ns; false, and nothing appended, when it is not of a second after 0 and before 2554.
    #[inline]
    fn put(&mut self, out: &mut Out, ns: i128, point: &str) -> bool {
        let Ok(ns) = u64::try_from(ns) else { return false };
        let second = ns / 1_000_000_000;
        if second != self.second {
            if second == 0 {
                return false;
            }
            (self.second, self.digits) = (second, Piece::new(format!("{second}{point}")));
        }
        out.put_piece(&self.digits);
        out.put_nine((ns - second * 1_000_000_000) as u32);
        true
    }
}

/// A column in a line.
struct Part {
    /// The text before the value.
    before: Piece,
    key: StateKey,
}

/// Lines for programs: JSON or CSV.
pub(super) struct StateLines {
    form: RowForm,
    is_json: bool,
    kinds: [Vec<Part>; STATE_KINDS],
    times: Times,
}

impl StateLines {
    pub(super) fn json(form: RowForm) -> StateLines {
        let parts = |kind| {
            let keys = form.keys_of(kind).enumerate();
            let part = |(at, key): (usize, StateKey)| {
                let before = if at == 0 { '{' } else { ',' };
                Part { before: Piece::new(format!("{before}\"{}\":", key.name())), key }
            };
            keys.map(part).collect()
        };
        StateLines { kinds: std::array::from_fn(parts), form, is_json: true, times: Times::new() }
    }

    pub(super) fn csv(form: RowForm) -> StateLines {
        let part = |(at, &key): (usize, &StateKey)| Part { before: Piece::new(if at == 0 { "" } else { "," }), key };
        let parts = |_| form.keys().iter().enumerate().map(part).collect();
        StateLines { kinds: std::array::from_fn(parts), form, is_json: false, times: Times::new() }
    }

    /// Appends a line.
    #[inline]
    pub(super) fn put(&mut self, out: &mut Out, row: &StateRow) {
        let StateLines { form, is_json, kinds, times } = self;
        for Part { before, key } in &kinds[row.kind()] {
            out.put_piece(before);
            match row.value(*key) {
                StateValue::Time(ns) if times.put(out, ns, "") => {}
                StateValue::Time(ns) => out.put_ns(ns),
                StateValue::Unsigned(number) => out.put_u64(number),
                StateValue::Number(number) => out.put_i64(number),
                StateValue::Name(name) if *is_json => {
                    out.put_byte(b'"');
                    out.put(name.as_bytes());
                    out.put_byte(b'"');
                }
                StateValue::Name(name) => out.put(name.as_bytes()),
                StateValue::Text(text) => put_text(out, text, *is_json),
                StateValue::Machine(machine) => match form.machine_name(machine) {
                    Some(name) => put_text(out, name, *is_json),
                    None if *is_json => out.put(b"null"),
                    None => {}
                },
                StateValue::Null | StateValue::Missing if *is_json => out.put(b"null"),
                StateValue::Null | StateValue::Missing => {}
            }
        }
        out.put(if *is_json { b"}\n" } else { b"\n" });
    }
}

fn put_text(out: &mut Out, text: &str, is_json: bool) {
    if is_json { put_json(out, text.as_bytes()) } else { put_cell(out, text.as_bytes()) }
}

/// The lines of a table for people.
pub(super) struct StateTable<'t> {
    rows: &'t StateRows,
    times: Times,
}

impl<'t> StateTable<'t> {
    pub(super) fn new(rows: &'t StateRows) -> Self {
        StateTable { rows, times: Times::new() }
    }

    /// Widths of the columns without their titles.
    pub(super) fn widths(&self) -> Vec<usize> {
        let form = &self.rows.form;
        let width = |key: &StateKey| {
            // Of numbers, the smallest or the largest is the widest.
            let (mut widest, mut numbers) = (0, None);
            for row in self.rows.unordered() {
                let number: i128 = match row.value(*key) {
                    StateValue::Number(number) => number.into(),
                    StateValue::Unsigned(number) => number.into(),
                    StateValue::Time(ns) => ns,
                    other => {
                        widest = widest.max(match other {
                            StateValue::Name(name) => name.len(),
                            StateValue::Text(text) => escaped(text).chars().count(),
                            StateValue::Machine(machine) => {
                                form.machine_name(machine).map_or(1, |name| escaped(name).chars().count())
                            }
                            _ => 1,
                        });
                        continue;
                    }
                };
                let (low, high) = numbers.unwrap_or((number, number));
                numbers = Some((low.min(number), high.max(number)));
            }
            let of_number = |number: i128| match key {
                StateKey::From | StateKey::To => time_width(number),
                _ => digits(number.unsigned_abs() as i128) + usize::from(number < 0),
            };
            numbers.map_or(widest, |(low, high)| widest.max(of_number(low)).max(of_number(high)))
        };
        form.keys().iter().map(width).collect()
    }

    /// Appends a line. No cell is wider than its column.
    #[inline]
    pub(super) fn put(&mut self, out: &mut Out, row: &StateRow, widths: &[usize]) {
        let begin = out.len();
        let form = &self.rows.form;
        for (at, (key, width)) in form.keys().iter().zip(widths).enumerate() {
            if at > 0 {
                out.put(b"  ");
            }
            let from = out.len();
            match row.value(*key) {
                StateValue::Time(ns) => {
                    let blanks = width.saturating_sub(time_width(ns));
                    if blanks > 0 {
                        put_blanks(out, blanks);
                    }
                    if !self.times.put(out, ns, ".") {
                        put_far_time(out, ns);
                    }
                    continue;
                }
                StateValue::Unsigned(count) if matches!(key, StateKey::Waiting | StateKey::Driver) => {
                    put_blanks(out, width.saturating_sub(digits(count.into())));
                    out.put_u64(count);
                    continue;
                }
                StateValue::Missing | StateValue::Null if matches!(key, StateKey::Waiting | StateKey::Driver) => {
                    put_blanks(out, width.saturating_sub(1));
                    out.put_byte(b'-');
                    continue;
                }
                StateValue::Missing | StateValue::Null => out.put_byte(b'-'),
                StateValue::Unsigned(number) => out.put_u64(number),
                StateValue::Number(number) => out.put_i64(number),
                StateValue::Name(name) => out.put(name.as_bytes()),
                StateValue::Text(text) => {
                    put_name(out, text, *width);
                    continue;
                }
                StateValue::Machine(machine) => {
                    put_name(out, form.machine_name(machine).unwrap_or("-"), *width);
                    continue;
                }
            }
            // All of them are of one byte a character.
            if at + 1 < widths.len() {
                put_blanks(out, (from + width).saturating_sub(out.len()));
            }
        }
        let blanks = out.written()[begin..].iter().rev().take_while(|byte| **byte == b' ').count();
        out.truncate(out.len() - blanks);
        out.put_byte(b'\n');
    }
}

fn put_name(out: &mut Out, text: &str, width: usize) {
    let text = escaped(text);
    out.put(text.as_bytes());
    put_blanks(out, width.saturating_sub(text.chars().count()));
}

/// Characters of a time: seconds, a point, nine digits.
#[inline]
fn time_width(ns: i128) -> usize {
    // Most times are between 2001 and 2286.
    if (1_000_000_000_000_000_000..10_000_000_000_000_000_000).contains(&ns) {
        return 20;
    }
    let digits = digits(ns.unsigned_abs() as i128);
    digits.max(10) + 1 + usize::from(ns < 0)
}

/// Appends a time with a point.
#[cold]
fn put_far_time(out: &mut Out, ns: i128) {
    let sign = if ns < 0 { "-" } else { "" };
    let (whole, part) = (ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000);
    out.put_fmt(format_args!("{sign}{whole}.{part:09}"));
}
