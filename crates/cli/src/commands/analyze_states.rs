//! Rows of `states` as text, without cells between: there are more of them than events.

use tracemill_analyses::kernel::{RowForm, STATE_KINDS, StateKey, StateOf, StateRow, StateRows, StateValue};
use tracemill_codec::text::out::{Out, Piece};
use tracemill_codec::text::strings::put_json;
use tracemill_render::csv::put_cell;
use tracemill_semantics::states::{CpuStatus, ThreadState};

use super::analyze_forms::{digits, put_blanks};
use super::report_forms::escaped;

/// Characters between two columns of a table.
const BETWEEN: usize = 2;

/// How lines look.
enum Style {
    Json,
    Csv,
    /// With the widths of the columns.
    Table(Vec<usize>),
}

/// Rows as lines.
pub(super) struct StateLines {
    form: RowForm,
    style: Style,
    /// Lines of CPUs and threads, which most are, of each machine when they name it.
    templates: Vec<[Option<Template>; STATE_KINDS]>,
}

impl StateLines {
    pub(super) fn json(form: RowForm) -> StateLines {
        StateLines::new(form, Style::Json)
    }

    pub(super) fn csv(form: RowForm) -> StateLines {
        StateLines::new(form, Style::Csv)
    }

    /// Lines of a table, in columns of which no cell is wider than these.
    pub(super) fn table(form: RowForm, widths: &[usize]) -> StateLines {
        StateLines::new(form, Style::Table(widths.to_vec()))
    }

    fn new(form: RowForm, style: Style) -> StateLines {
        let names_machines = form.keys().contains(&StateKey::Machine);
        let machines = if names_machines { form.machine_count() } else { 1 };
        let of_machine = |machine| std::array::from_fn(|kind| Template::new(kind, machine, &form, &style));
        let templates = (0..machines).map(of_machine).collect();
        StateLines { form, style, templates }
    }

    /// Appends a line.
    #[inline]
    pub(super) fn put(&mut self, out: &mut Out, row: &StateRow) {
        let machine = if self.templates.len() > 1 { row.machine as usize } else { 0 };
        let template = self.templates.get_mut(machine).and_then(|of| of[row.kind()].as_mut());
        if !template.is_some_and(|template| template.put(out, row)) {
            self.put_any(out, row);
        }
    }

    /// Appends a line of any row.
    #[cold]
    fn put_any(&self, out: &mut Out, row: &StateRow) {
        let begin = out.len();
        let keys = columns(row.kind(), &self.form, &self.style);
        for (at, &key) in keys.iter().enumerate() {
            out.put(before(at, key, &self.style).as_bytes());
            self.put_value(out, at, key, row.value(key));
        }
        if let Style::Table(_) = self.style {
            let blanks = out.written()[begin..].iter().rev().take_while(|byte| **byte == b' ').count();
            out.truncate(out.len() - blanks);
        }
        out.put(end(&self.style).as_bytes());
    }

    fn put_value(&self, out: &mut Out, at: usize, key: StateKey, value: StateValue<'_>) {
        let mut text = Out::default();
        let name = match value {
            StateValue::Name(name) | StateValue::Text(name) => Some(name),
            StateValue::Machine(machine) => self.form.machine_name(machine),
            _ => None,
        };
        match (value, name, &self.style) {
            (_, Some(name), style) => put_name(&mut text, name, style),
            (StateValue::Unsigned(number), ..) => text.put_u64(number),
            (StateValue::Number(number), ..) => text.put_i64(number),
            (StateValue::Time(ns), _, Style::Table(_)) => put_time(&mut text, ns),
            (StateValue::Time(ns), ..) => text.put_ns(ns),
            (_, None, style) => text.put(nothing(style).as_bytes()),
        }
        let Style::Table(widths) = &self.style else { return out.put(text.written()) };
        let chars = String::from_utf8_lossy(text.written()).chars().count();
        let blanks = widths[at].saturating_sub(chars);
        let (before, behind) = if is_right(key) { (blanks, 0) } else { (0, blanks) };
        put_blanks(out, before);
        out.put(text.written());
        put_blanks(out, behind);
    }
}

/// The columns of a line.
fn columns(kind: usize, form: &RowForm, style: &Style) -> Vec<StateKey> {
    match style {
        Style::Json => form.keys_of(kind).collect(),
        Style::Csv | Style::Table(_) => form.keys().to_vec(),
    }
}

fn put_name(out: &mut Out, name: &str, style: &Style) {
    match style {
        Style::Json => put_json(out, name.as_bytes()),
        Style::Csv => put_cell(out, name.as_bytes()),
        Style::Table(_) => out.put(escaped(name).as_bytes()),
    }
}

/// The text before the value of a column.
fn before(at: usize, key: StateKey, style: &Style) -> String {
    match style {
        Style::Json => format!("{}\"{}\":", if at == 0 { '{' } else { ',' }, key.name()),
        Style::Csv => if at == 0 { "" } else { "," }.to_string(),
        Style::Table(_) => " ".repeat(if at == 0 { 0 } else { BETWEEN }),
    }
}

/// The text in place of a value that is not there.
fn nothing(style: &Style) -> &'static str {
    match style {
        Style::Json => "null",
        Style::Csv => "",
        Style::Table(_) => "-",
    }
}

/// The end of a line.
fn end(style: &Style) -> &'static str {
    if let Style::Json = style { "}\n" } else { "\n" }
}

/// Do its values end at the right border of its column?
fn is_right(key: StateKey) -> bool {
    matches!(key, StateKey::From | StateKey::To | StateKey::Waiting | StateKey::Driver)
}

/// Lines of CPUs or threads: all of a line is known but some numbers and the word at its end.
struct Template {
    parts: Vec<Part>,
    /// By the number of the state or status.
    ends: Vec<Piece>,
}

/// A number in a line.
struct Part {
    what: What,
    /// The text before it, and that text with the seconds of a time.
    before: Piece,
    timed: Piece,
    /// The second of that time.
    second: u64,
    /// Text between the seconds and their fraction, when it is a time.
    point: &'static str,
    /// Width of the column, 0 for none.
    width: usize,
    /// The text in place of a value that is not known.
    nothing: Piece,
    text: String,
}

#[derive(Clone, Copy)]
enum What {
    From,
    To,
    /// The CPU or the thread that the row is about.
    Number,
    /// The thread of a CPU.
    Tid,
}

impl Template {
    /// The lines of a kind of rows. `None` when they have other values.
    fn new(kind: usize, machine: usize, form: &RowForm, style: &Style) -> Option<Template> {
        let of_kind: Vec<StateKey> = form.keys_of(kind).collect();
        let is_cpu = of_kind.contains(&StateKey::Status);
        if !is_cpu && !of_kind.contains(&StateKey::State) {
            return None;
        }
        let width = |at: usize| if let Style::Table(widths) = style { widths[at] } else { 0 };
        let (mut parts, mut words, mut text) = (Vec::new(), None, String::new());
        for (at, key) in columns(kind, form, style).into_iter().enumerate() {
            text += &before(at, key, style);
            let width = width(at);
            let what = match key {
                StateKey::From => What::From,
                StateKey::To => What::To,
                StateKey::Cpu if is_cpu => What::Number,
                StateKey::Tid if is_cpu => What::Tid,
                StateKey::Tid => What::Number,
                StateKey::Machine => {
                    let mut name = Out::default();
                    match form.machine_name(u32::try_from(machine).ok()?) {
                        Some(of) => put_name(&mut name, of, style),
                        None => name.put(nothing(style).as_bytes()),
                    }
                    text += &format!("{:width$}", String::from_utf8_lossy(name.written()));
                    continue;
                }
                StateKey::Status | StateKey::State if of_kind.contains(&key) => {
                    words = Some((std::mem::take(&mut text), width));
                    continue;
                }
                _ if of_kind.contains(&key) => return None,
                _ if is_right(key) => {
                    text += &format!("{:>width$}", nothing(style));
                    continue;
                }
                _ => {
                    text += &format!("{:width$}", nothing(style));
                    continue;
                }
            };
            // A number behind the word.
            if words.is_some() {
                return None;
            }
            let text = std::mem::take(&mut text);
            parts.push(Part {
                what,
                before: Piece::new(&text),
                timed: Piece::new(""),
                second: u64::MAX,
                point: if width > 0 { "." } else { "" },
                width,
                nothing: Piece::new(format!("{:width$}", nothing(style))),
                text,
            });
        }
        let (before, width) = words?;
        let quote = if let Style::Json = style { "\"" } else { "" };
        let line_end = |name: &str| {
            let line = format!("{before}{:width$}{text}", format!("{quote}{name}{quote}"));
            let line = if width > 0 { line.trim_end() } else { &line };
            Piece::new(format!("{line}{}", end(style)))
        };
        let ends = match is_cpu {
            true => CpuStatus::ALL.iter().map(|status| line_end(status.name())).collect(),
            false => ThreadState::ALL.iter().map(|state| line_end(state.name())).collect(),
        };
        Some(Template { parts, ends })
    }

    /// Appends a line; false, and nothing appended, when it is one of large or negative numbers.
    #[inline]
    fn put(&mut self, out: &mut Out, row: &StateRow) -> bool {
        let begin = out.len();
        let (tid, word) = match row.of {
            StateOf::Cpu { tid, status } => (tid, status as usize),
            StateOf::Thread(state) => (None, state as usize),
            _ => return false,
        };
        for part in &mut self.parts {
            let is_put = match part.what {
                What::From => part.put_time(out, row.from),
                What::To => part.put_time(out, row.to),
                What::Number => part.put_number(out, Some(row.number)),
                What::Tid => part.put_number(out, tid),
            };
            if !is_put {
                out.truncate(begin);
                return false;
            }
        }
        out.put_piece(&self.ends[word]);
        true
    }
}

impl Part {
    /// Appends a number in base 10, unless it is negative.
    #[inline]
    fn put_number(&self, out: &mut Out, number: Option<i64>) -> bool {
        let Some(number) = number else {
            out.put_piece(&self.before);
            out.put_piece(&self.nothing);
            return true;
        };
        let Ok(number) = u64::try_from(number) else { return false };
        out.put_piece_u64(&self.before, number);
        if self.width > 0 {
            put_blanks(out, self.width.saturating_sub(digits(number.into())));
        }
        true
    }

    /// Appends a time, unless it is before the second second of the clock or does not fit 64 bits.
    #[inline]
    fn put_time(&mut self, out: &mut Out, ns: i128) -> bool {
        let Ok(ns) = u64::try_from(ns) else { return false };
        // Most times are of the second of the time before.
        let since = ns.wrapping_sub(self.second.wrapping_mul(NANOS));
        if since >= NANOS || self.second == u64::MAX {
            return self.enter(out, ns);
        }
        out.put_piece_nine(&self.timed, since as u32);
        true
    }

    #[cold]
    fn enter(&mut self, out: &mut Out, ns: u64) -> bool {
        let second = ns / NANOS;
        if second == 0 {
            return false;
        }
        let text = format!("{second}{}", self.point);
        let width = self.width.saturating_sub(9);
        (self.second, self.timed) = (second, Piece::new(format!("{}{text:>width$}", self.text)));
        out.put_piece_nine(&self.timed, (ns % NANOS) as u32);
        true
    }
}

const NANOS: u64 = 1_000_000_000;

/// Widths of the columns of a table without their titles.
pub(super) fn widths(rows: &StateRows) -> Vec<usize> {
    let width = |key: &StateKey| {
        let mut widest = 1;
        rows.for_each_text(*key, |text| widest = widest.max(escaped(text).chars().count()));
        let of_number = |number: i128| match key {
            // Seconds, a point, nine digits.
            StateKey::From | StateKey::To => digits_of(number).max(10) + 1 + usize::from(number < 0),
            _ => digits_of(number) + usize::from(number < 0),
        };
        // Of numbers, the smallest or the largest is the widest.
        rows.extent(*key).map_or(widest, |(low, high)| widest.max(of_number(low)).max(of_number(high)))
    };
    rows.form.keys().iter().map(width).collect()
}

fn digits_of(number: i128) -> usize {
    digits(number.unsigned_abs() as i128)
}

/// Appends a time with a point.
fn put_time(out: &mut Out, ns: i128) {
    let sign = if ns < 0 { "-" } else { "" };
    let (whole, part) = (ns.unsigned_abs() / u128::from(NANOS), ns.unsigned_abs() % u128::from(NANOS));
    out.put_fmt(format_args!("{sign}{whole}.{part:09}"));
}
