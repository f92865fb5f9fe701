//! Rows of `states` as text, without cells between: there are more of them than events, so what writes them is beside what
//! finds them. Widths and values are those of `table`.

use tracemill_codec::text::out::Out;
use tracemill_codec::text::{escaped, put_three_threes};
use tracemill_table::{
    Align, BETWEEN, TableClock, Unit, Value, count, end_line, put_blanks, put_csv_value, put_json_value, put_shown,
    quick_width,
};

use crate::kernel::rows::state_row::{RowForm, STATE_KINDS, StateKey, StateOf, StateRow};
use crate::kernel::rows::state_rows::StateRows;

/// How lines look.
enum Style {
    Json,
    Csv,
    /// With the widths of the columns, and the clock of the times.
    Table(Vec<usize>, TableClock),
}

/// Rows as lines.
pub struct StateLines {
    form: RowForm,
    style: Style,
    /// Lines of CPUs and threads, which most are, of each machine when they name it.
    templates: Vec<[Option<Template>; STATE_KINDS]>,
    /// The columns of the lines of each kind, with the text before each.
    columns: [Vec<(StateKey, String)>; STATE_KINDS],
    /// Storage of a value on its way.
    text: Out,
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
    pub fn table(form: RowForm, widths: &[usize], clock: TableClock) -> StateLines {
        StateLines::new(form, Style::Table(widths.to_vec(), clock))
    }

    fn new(form: RowForm, style: Style) -> StateLines {
        let names_machines = form.keys().contains(&StateKey::Machine);
        let machines = if names_machines { form.machine_count() } else { 1 };
        let of_machine = |machine| std::array::from_fn(|kind| Template::new(kind, machine, &form, &style));
        let templates = (0..machines).map(of_machine).collect();
        let columns = std::array::from_fn(|kind| {
            let keys = columns(kind, &form, &style).into_iter().enumerate();
            keys.map(|(at, key)| (key, before(at, key, &style))).collect()
        });
        StateLines { form, style, templates, columns, text: Out::default() }
    }

    /// Appends a line.
    pub fn write_line(&mut self, out: &mut Out, row: &StateRow) {
        let machine = if self.templates.len() > 1 { row.machine as usize } else { 0 };
        let template = self.templates.get_mut(machine).and_then(|of| of[row.kind()].as_mut());
        if !template.is_some_and(|template| template.write_line(out, row)) {
            self.put_any(out, row);
        }
    }

    /// Appends a line of any row.
    #[cold]
    fn put_any(&mut self, out: &mut Out, row: &StateRow) {
        let begin = out.len();
        let StateLines { form, style, columns, text, .. } = self;
        for (at, (key, before)) in columns[row.kind()].iter().enumerate() {
            out.put(before.as_bytes());
            text.clear();
            put_value(text, form.value(row, *key), *key, style);
            let width = if let Style::Table(widths, _) = style { widths[at] } else { 0 };
            let blanks = width.saturating_sub(count(text.written()));
            let (before, after) = if is_right(*key) { (blanks, 0) } else { (0, blanks) };
            put_blanks(out, before);
            out.put(text.written());
            put_blanks(out, after);
        }
        match self.style {
            Style::Table(..) => end_line(out, begin),
            Style::Json => out.put(b"}\n"),
            Style::Csv => out.put(b"\n"),
        }
    }
}

/// Appends a value.
fn put_value(out: &mut Out, value: Value<'_>, key: StateKey, style: &Style) {
    match style {
        Style::Json => put_json_value(out, value),
        Style::Csv => put_csv_value(out, value),
        Style::Table(_, clock) => put_shown(out, value, key.unit(), clock),
    }
}

/// The columns of a line.
fn columns(kind: usize, form: &RowForm, style: &Style) -> Vec<StateKey> {
    match style {
        Style::Json => form.keys_of(kind).collect(),
        Style::Csv => form.keys().to_vec(),
        Style::Table(..) => form.shown_keys(),
    }
}

/// The text before the value of a column.
fn before(at: usize, key: StateKey, style: &Style) -> String {
    match style {
        Style::Json => format!("{}\"{}\":", if at == 0 { '{' } else { ',' }, key.name()),
        Style::Csv => if at == 0 { "" } else { "," }.to_string(),
        Style::Table(..) => " ".repeat(if at == 0 { 0 } else { BETWEEN }),
    }
}

/// Do its values end at the right border of its column?
fn is_right(key: StateKey) -> bool {
    key.unit().align() == Align::Right
}

/// Lines of CPUs or threads. What stands before, between and after their two times and their duration is one of a few texts,
/// which are kept: most lines are copied from four of them, the fractions of two seconds, and a duration.
struct Template {
    before: Vec<Part>,
    /// The text between the times.
    between: String,
    /// Parts of a line between the times and the duration, and after the duration.
    before_duration: Vec<Part>,
    after_duration: Vec<Part>,
    /// Widths of the columns of the times and of the duration, 0 for none.
    widths: [usize; 3],
    style: Notation,
    /// The clock of a table.
    clock: Option<TableClock>,
    /// Is the text before the times one for all rows?
    has_one_head: bool,
    heads: Texts,
    middles: Texts,
    /// Texts before the duration and after it.
    leads: Texts,
    tails: Texts,
    /// Storage of a text on its way.
    text: Out,
}

/// A part of a line besides its times.
enum Part {
    Text(String),
    /// The CPU that the row is about, in a column of a width.
    Cpu(usize),
    /// The thread that the row is about, or that of its CPU.
    Tid(usize),
    /// The status or the state.
    Word(usize),
}

/// How values of a line are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Json,
    Csv,
    Table,
}

/// Bytes of a text that is copied as one block, at most.
const TEXT: usize = 64;
/// The room that is looked for once for all of a line up to its duration.
const LINE: usize = 3 * TEXT + 2 * FRACTION;
/// Digits of the fraction of a second.
const FRACTION: usize = 9;

/// Texts that were made last, each by a number and another one.
struct Texts(Vec<Text>);

struct Text {
    key: (i64, u64),
    len: usize,
    bytes: [u8; TEXT],
}

impl Texts {
    /// Room for texts, two to this power.
    const LOG2: u32 = 10;

    fn new() -> Texts {
        Texts(Vec::new())
    }

    /// The text of a key, which `make` appends to an empty text where it is not known; `None` when it is too long.
    #[inline]
    fn find(&mut self, key: (i64, u64), text: &mut Out, make: impl FnOnce(&mut Out)) -> Option<&Text> {
        let mixed = (key.0 as u64 ^ key.1.rotate_left(20)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed >> (u64::BITS - Texts::LOG2)) as usize;
        if self.0.get(place).is_none_or(|known| known.key != key || known.len == 0) {
            text.clear();
            make(text);
            self.insert(place, key, text.written())?;
        }
        self.0.get(place)
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, place: usize, key: (i64, u64), text: &[u8]) -> Option<()> {
        let mut bytes = [0; TEXT];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        let none = || Text { key: (0, 0), len: 0, bytes: [0; TEXT] };
        if self.0.is_empty() {
            self.0.resize_with(1 << Texts::LOG2, none);
        }
        self.0[place] = Text { key, len: text.len(), bytes };
        Some(())
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
        let width = |at: usize| if let Style::Table(widths, _) = style { widths[at] } else { 0 };
        let mut parts: [Vec<Part>; 4] = Default::default();
        let (mut times, mut widths) = (0, [0; 3]);
        for (at, key) in columns(kind, form, style).into_iter().enumerate() {
            let width = width(at);
            let fixed = |value: Value<'_>| {
                let mut text = Out::default();
                put_value(&mut text, value, key, style);
                let text = String::from_utf8_lossy(text.written());
                Part::Text(if is_right(key) { format!("{text:>width$}") } else { format!("{text:width$}") })
            };
            let part = &mut parts[times];
            part.push(Part::Text(before(at, key, style)));
            part.push(match key {
                StateKey::From | StateKey::To | StateKey::Duration => {
                    // They stand in this order.
                    *widths.get_mut(times)? = width;
                    times += 1;
                    continue;
                }
                StateKey::Cpu if is_cpu => Part::Cpu(width),
                StateKey::Tid => Part::Tid(width),
                StateKey::Status | StateKey::State if of_kind.contains(&key) => Part::Word(width),
                StateKey::Machine => fixed(Value::text(form.machine_name(u32::try_from(machine).ok()?))),
                _ if of_kind.contains(&key) => return None,
                _ => fixed(Value::Null),
            });
        }
        let (notation, clock) = match style {
            Style::Json => (Notation::Json, None),
            Style::Csv => (Notation::Csv, None),
            Style::Table(_, clock) => (Notation::Table, Some(clock.clone())),
        };
        let [before, between, before_duration, after_duration] = parts;
        let between = match between.as_slice() {
            [Part::Text(text)] if times == widths.len() => text.clone(),
            _ => return None,
        };
        // Texts before the times are known by what the row is about, those after them by a thread and a word.
        let is_known = before.iter().all(|part| !matches!(part, Part::Word(_)))
            && (!is_cpu || before.iter().all(|part| !matches!(part, Part::Tid(_))))
            && before_duration.iter().chain(&after_duration).all(|part| !matches!(part, Part::Cpu(_)));
        let has_one_head = before.iter().all(|part| matches!(part, Part::Text(_)));
        let [heads, middles, leads, tails] = std::array::from_fn(|_| Texts::new());
        let (style, text) = (notation, Out::default());
        let template = Template {
            before,
            between,
            before_duration,
            after_duration,
            widths,
            style,
            clock,
            has_one_head,
            heads,
            middles,
            leads,
            tails,
            text,
        };
        is_known.then_some(template)
    }

    /// Appends a line; false, and nothing appended, when a part of it is too long, or a time is none of 64 bits that is not
    /// before the second second of the clock.
    #[inline]
    fn write_line(&mut self, out: &mut Out, row: &StateRow) -> bool {
        let (tid, word) = match row.of {
            StateOf::Cpu { tid, status } => (tid, status as u64),
            StateOf::Thread(state) => (Some(row.number), state as u64),
            _ => return false,
        };
        let (Some((from_second, from)), Some((to_second, to))) = (seconds(row.from), seconds(row.to)) else {
            return false;
        };
        let Ok(duration) = u64::try_from(row.duration()) else { return false };
        let Template { before, between, before_duration, after_duration, widths, style, clock, .. } = self;
        let Template { has_one_head, heads, middles, leads, tails, text, .. } = self;
        let number = row.number;
        let head = heads.find((if *has_one_head { 0 } else { number }, from_second), text, |text| {
            put_parts(text, before, number, tid, "", *style);
            put_second(text, from_second, widths[0], clock.as_ref());
        });
        let middle = middles.find((0, to_second), text, |text| {
            text.put(between.as_bytes());
            put_second(text, to_second, widths[1], clock.as_ref());
        });
        // A CPU of which the thread is not known has no number to be found by.
        let key = word << 1 | u64::from(tid.is_some());
        let word = match row.of {
            StateOf::Cpu { status, .. } => status.name(),
            StateOf::Thread(state) => state.name(),
            _ => "",
        };
        let key = (tid.unwrap_or(0), key);
        let lead = leads.find(key, text, |text| put_parts(text, before_duration, number, tid, word, *style));
        let tail = tails.find(key, text, |text| {
            put_parts(text, after_duration, number, tid, word, *style);
            match style {
                Notation::Json => text.put(b"}\n"),
                Notation::Csv => text.put(b"\n"),
                Notation::Table => end_line(text, 0),
            }
        });
        let (Some(head), Some(middle), Some(lead), Some(tail)) = (head, middle, lead, tail) else { return false };
        let line: &mut [u8; LINE] = out.room();
        let mut at = 0;
        for (text, fraction) in [(head, Some(from)), (middle, Some(to)), (lead, None)] {
            if let Some(to) = line.get_mut(at..).and_then(|line| line.first_chunk_mut()) {
                *to = text.bytes;
            }
            at += text.len;
            if let Some(fraction) = fraction {
                if let Some(to) = line.get_mut(at..).and_then(|line| line.first_chunk_mut()) {
                    put_three_threes::<{ FRACTION + 1 }>(to, 0, fraction);
                }
                at += FRACTION;
            }
        }
        out.advance(at);
        match clock {
            Some(clock) => {
                let value = Value::Integer(duration.into());
                let chars = quick_width(value, Unit::Duration, clock).unwrap_or_default();
                put_blanks(out, widths[2].saturating_sub(chars));
                put_shown(out, value, Unit::Duration, clock);
            }
            None => out.put_u64(duration),
        }
        *out.room() = tail.bytes;
        out.advance(tail.len);
        true
    }
}

/// Appends some parts of a line.
fn put_parts(text: &mut Out, parts: &[Part], number: i64, tid: Option<i64>, word: &str, style: Notation) {
    for part in parts {
        let begin = text.len();
        let width = match part {
            Part::Text(part) => {
                text.put(part.as_bytes());
                0
            }
            Part::Cpu(width) => {
                // Numbers of CPUs have no sign.
                text.put_u64(number as u64);
                *width
            }
            Part::Tid(width) => {
                match (tid, style) {
                    (Some(tid), _) => text.put_i64(tid),
                    (None, Notation::Json) => text.put(b"null"),
                    (None, Notation::Csv) => {}
                    (None, Notation::Table) => text.put_byte(b'-'),
                }
                *width
            }
            Part::Word(width) => {
                let quote: &[u8] = if style == Notation::Json { b"\"" } else { b"" };
                [quote, word.as_bytes(), quote].iter().for_each(|part| text.put(part));
                *width
            }
        };
        put_blanks(text, width.saturating_sub(text.len() - begin));
    }
}

/// Appends a time up to the fraction of its second; in a table, in a column of a width.
fn put_second(text: &mut Out, second: u64, width: usize, clock: Option<&TableClock>) {
    let Some(clock) = clock else { return text.put_u64(second) };
    let mut written = Out::default();
    clock.put_second(&mut written, second);
    put_blanks(text, width.saturating_sub(FRACTION + count(written.written())));
    text.put(written.written());
}

/// Second and ns of a time, unless it is before the second second of the clock or does not fit 64 bits.
#[inline]
fn seconds(ns: i128) -> Option<(u64, u32)> {
    let ns = u64::try_from(ns).ok().filter(|ns| *ns >= NANOS)?;
    Some((ns / NANOS, (ns % NANOS) as u32))
}

const NANOS: u64 = 1_000_000_000;

/// Widths of the columns of a table without their titles, in the order of the table, each with whether its cells are texts.
pub fn state_widths(rows: &StateRows, clock: &TableClock) -> Vec<(usize, bool)> {
    let width = |key: &StateKey| {
        let mut widest = 1;
        rows.for_each_text(*key, |text| widest = widest.max(escaped(text).chars().count()));
        let mut text = Out::default();
        let mut of_number = |number: i128| {
            text.clear();
            put_shown(&mut text, Value::Integer(number), key.unit(), clock);
            count(text.written())
        };
        // Of numbers, the smallest or the largest is the widest.
        rows.extent(*key).map_or(widest, |(low, high)| widest.max(of_number(low)).max(of_number(high)))
    };
    rows.form.shown_keys().iter().map(|key| (width(key), key.is_text())).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tracemill_semantics::states::{CpuStatus, Ns, ThreadState};

    use tracemill_table::{Column, TimeWriter};

    use super::*;

    #[test]
    fn lines_out_of_texts_are_those_of_their_values() {
        let columns = ["trace", "cpu", "from", "to", "tid", "status", "state", "duration_ns"]
            .map(|name| Column::new(name, Unit::Name));
        let machines = Rc::new(vec!["one".to_string(), "a \"long\" name".to_string()]);
        let numbers = [0, 7, 12_345_678, 99_999_999, 1 << 40, -1, i64::MIN];
        let times: [Ns; 6] = [0, 999_999_999, 1_000_000_000, 1_700_000_000_123_456_789, -5, 1 << 70];
        let mut rows = Vec::new();
        for (at, from) in times.into_iter().cycle().take(60).enumerate() {
            let number = numbers[at % numbers.len()];
            let tid = [None, Some(0), Some(number)][at % 3];
            let (status, state) =
                (CpuStatus::ALL[at % CpuStatus::ALL.len()], ThreadState::ALL[at % ThreadState::ALL.len()]);
            for of in [StateOf::Cpu { tid, status }, StateOf::Thread(state)] {
                rows.push(StateRow { from, to: from + 1_500_000_000, machine: at as u32 % 2, number, of });
            }
        }
        for columns in [&columns[..], &columns[1..], &columns[2..]] {
            let form = RowForm::new(columns, machines.clone());
            let table = |form| StateLines::table(form, &[40; 8], TableClock::seconds());
            let wall: TimeWriter = Rc::new(RefCell::new(|out: &mut Out, ns: Ns| {
                out.put_fmt(format_args!("{}th {:09}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000)));
            }));
            let wall = move |form| StateLines::table(form, &[40; 8], TableClock::written_by(wall.clone()));
            let all: [&dyn Fn(RowForm) -> StateLines; 4] = [&StateLines::json, &StateLines::csv, &table, &wall];
            for lines in all {
                let mut lines = lines(form.clone());
                // Twice, as the second time texts are known.
                for row in rows.iter().chain(&rows) {
                    let (mut found, mut expected) = (Out::default(), Out::default());
                    lines.write_line(&mut found, row);
                    lines.put_any(&mut expected, row);
                    let text = |out: &Out| String::from_utf8_lossy(out.written()).into_owned();
                    assert_eq!(text(&found), text(&expected), "{row:?}");
                }
            }
        }
    }
}
