//! Rows of `states` as text, without cells between: there are more of them than events.

use tracemill_codec::text::csv::put_cell;
use tracemill_codec::text::out::{BLOCK, Out};
use tracemill_codec::text::strings::put_json;
use tracemill_codec::text::{escaped, nine_digits, put_digits};
use tracemill_semantics::states::{CpuStatus, ThreadState};

use super::widths::{digits, put_blanks};
use crate::kernel::{RowForm, STATE_KINDS, StateKey, StateOf, StateRow, StateRows, StateValue};

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
pub struct StateLines {
    form: RowForm,
    style: Style,
    /// Lines of CPUs and threads, which most are, of each machine when they name it.
    templates: Vec<[Option<Template>; STATE_KINDS]>,
}

impl StateLines {
    /// Objects of JSON.
    pub fn json(form: RowForm) -> StateLines {
        StateLines::new(form, Style::Json)
    }

    /// Lines of CSV.
    pub fn csv(form: RowForm) -> StateLines {
        StateLines::new(form, Style::Csv)
    }

    /// Lines of a table, in columns of which no cell is wider than these.
    pub fn table(form: RowForm, widths: &[usize]) -> StateLines {
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
    pub fn put(&mut self, out: &mut Out, row: &StateRow) {
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
    ends: Vec<Block>,
}

/// A number in a line.
struct Part {
    what: What,
    /// The text before it.
    before: Block,
    /// That text, and the seconds of the time that was last.
    timed: Block,
    second: u64,
    /// Text between the seconds and their fraction, when it is a time.
    point: &'static str,
    /// Width of the column, 0 for none.
    width: usize,
    /// The text in place of a value that is not known.
    nothing: Block,
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

/// A text that is copied as one block.
#[derive(Clone)]
struct Block {
    bytes: [u8; BLOCK],
    len: usize,
}

impl Block {
    /// The block of a text; `None` when it is too long for one.
    fn new(text: &str) -> Option<Block> {
        let mut bytes = [0; BLOCK];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Block { bytes, len: text.len() })
    }
}

/// Numbers of a line at most, and the room that is looked for once for all of it: each number has a block before it and one
/// of its own, and behind them is the last block.
const PARTS: usize = 4;
const LINE: usize = (2 * PARTS + 1) * BLOCK;

/// A line on its way. Places are below [`LINE`] by what a [`Template`] is.
struct Line<'o> {
    to: &'o mut [u8; LINE],
    at: usize,
}

impl Line<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N], len: usize) {
        if let Some(to) = self.to.get_mut(self.at..).and_then(|to| to.first_chunk_mut()) {
            *to = bytes;
        }
        self.at += len;
    }

    #[inline]
    fn put_block(&mut self, block: &Block) {
        self.put(block.bytes, block.len);
    }
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
            // A number behind the word, or wider than its room.
            if words.is_some() || width > BLOCK {
                return None;
            }
            parts.push(Part {
                what,
                before: Block::new(&std::mem::take(&mut text))?,
                timed: Block::new("")?,
                second: u64::MAX,
                point: if width > 0 { "." } else { "" },
                width,
                nothing: Block::new(&format!("{:width$}", nothing(style)))?,
            });
        }
        let (before, width) = words?;
        let quote = if let Style::Json = style { "\"" } else { "" };
        let line_end = |name: &str| {
            let line = format!("{before}{:width$}{text}", format!("{quote}{name}{quote}"));
            let line = if width > 0 { line.trim_end() } else { &line };
            Block::new(&format!("{line}{}", end(style)))
        };
        let ends = match is_cpu {
            true => CpuStatus::ALL.iter().map(|status| line_end(status.name())).collect::<Option<_>>()?,
            false => ThreadState::ALL.iter().map(|state| line_end(state.name())).collect::<Option<_>>()?,
        };
        (parts.len() <= PARTS).then_some(Template { parts, ends })
    }

    /// Appends a line; false, and nothing appended, when it is one of large or negative numbers.
    #[inline]
    fn put(&mut self, out: &mut Out, row: &StateRow) -> bool {
        let (tid, word) = match row.of {
            StateOf::Cpu { tid, status } => (tid, status as usize),
            StateOf::Thread(state) => (None, state as usize),
            _ => return false,
        };
        let mut line = Line { to: out.room(), at: 0 };
        for part in &mut self.parts {
            let is_put = match part.what {
                What::From => part.put_time(&mut line, row.from),
                What::To => part.put_time(&mut line, row.to),
                What::Number => part.put_number(&mut line, row.number),
                What::Tid => match tid {
                    Some(tid) => part.put_number(&mut line, tid),
                    None => part.put_nothing(&mut line),
                },
            };
            if !is_put {
                return false;
            }
        }
        line.put_block(&self.ends[word]);
        let len = line.at;
        out.advance(len);
        true
    }
}

impl Part {
    #[inline]
    fn put_nothing(&self, line: &mut Line<'_>) -> bool {
        line.put_block(&self.before);
        line.put_block(&self.nothing);
        true
    }

    /// Appends a number in base 10, unless it is negative or has more than eight digits.
    #[inline]
    fn put_number(&self, line: &mut Line<'_>, number: i64) -> bool {
        let Some(number) = u32::try_from(number).ok().filter(|number| *number < 100_000_000) else { return false };
        line.put_block(&self.before);
        // What stands behind its digits is blank, in a table.
        let mut room = [b' '; BLOCK];
        let len = room.first_chunk_mut().map_or(0, |room| put_digits(room, number));
        line.put(room, len);
        if self.width > len {
            line.put([b' '; BLOCK], self.width - len);
        }
        true
    }

    /// Appends a time, unless it is before the second second of the clock or does not fit 64 bits.
    #[inline]
    fn put_time(&mut self, line: &mut Line<'_>, ns: i128) -> bool {
        let Ok(ns) = u64::try_from(ns) else { return false };
        // Most times are of the second of the time before.
        let mut since = ns.wrapping_sub(self.second.wrapping_mul(NANOS));
        if since >= NANOS || self.second == u64::MAX {
            since = ns % NANOS;
            if !self.turn_to(ns / NANOS) {
                return false;
            }
        }
        line.put_block(&self.timed);
        line.put(nine_digits(since as u32), 9);
        true
    }

    /// Writes down the text before the fractions of a second; false for the first second of the clock.
    #[cold]
    fn turn_to(&mut self, second: u64) -> bool {
        let text = format!("{second}{}", self.point);
        let width = self.width.saturating_sub(9);
        let before = String::from_utf8_lossy(&self.before.bytes[..self.before.len]);
        let Some(timed) = Block::new(&format!("{before}{text:>width$}")).filter(|_| second > 0) else { return false };
        (self.second, self.timed) = (second, timed);
        true
    }
}

const NANOS: u64 = 1_000_000_000;

/// Widths of the columns of a table without their titles.
pub fn widths(rows: &StateRows) -> Vec<usize> {
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
