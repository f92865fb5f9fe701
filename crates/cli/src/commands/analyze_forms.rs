//! Tables of `analyze` for people, and the list of what traces can feed.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

use tracemill_analyses::kernel::{ANALYSES, Column, Counts, PeriodOf, Table, Unit, Value};
use tracemill_codec::text::out::Out;
use tracemill_semantics::{Concept, Concepts};

use super::analyze_rows::Paged;
use super::analyze_states::{StateLines, widths};
use super::report_forms::{escaped, quoted};
use crate::args::{AnalyzeFormat, AnalyzeOptions, When};

/// Tables of one reading.
pub(super) type Tables<'a> = &'a [Table];

/// How tables look.
pub(super) struct Look {
    is_colored: bool,
    /// Columns of the terminal; `None` for a file.
    width: Option<usize>,
}

impl Look {
    pub(super) fn of(options: &AnalyzeOptions) -> Look {
        let is_terminal = options.output.is_none() && std::io::stdout().is_terminal();
        let is_colored = match options.color {
            When::Auto => is_terminal,
            when => when == When::Always,
        };
        let width = || terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
        Look { is_colored, width: is_terminal.then(width) }
    }
}

/// Characters of the longest bar beside a table.
const BAR: usize = 20;

/// Characters of a name that are always shown.
const MIN_NAME: usize = 8;

// ---- Table --------------------------------------------------------------------------------------------------------

/// The tables as text.
pub(super) fn tables(page: &mut Paged, tables: Tables<'_>, found: &[usize], look: &Look) {
    for (at, (table, &found)) in tables.iter().zip(found).enumerate() {
        if at > 0 {
            page.out.put_byte(b'\n');
        }
        match &table.period {
            Some(period) => put_heading(&mut page.out, table, period),
            None if tables.len() > 1 => page.out.put_fmt(format_args!("{}\n", table.analysis)),
            None => {}
        }
        put_table(page, table, found, look);
    }
}

/// The analysis and the period that a table is about.
fn put_heading(out: &mut Out, table: &Table, period: &PeriodOf) {
    let time = |ns| shown(Value::Integer(ns), Unit::Time);
    let name = escaped(&period.name);
    out.put_fmt(format_args!("{}: {name} from {} to {}", table.analysis, time(period.from), time(period.to)));
    for (name, value) in &period.values {
        out.put_fmt(format_args!(", {} {}", escaped(name), shown(value.into(), Unit::Name)));
    }
    out.put_byte(b'\n');
}

fn put_table(page: &mut Paged, table: &Table, found: usize, look: &Look) {
    // People see the depth of a tree by its indentation.
    let depth = table.column("depth");
    let columns: Vec<(usize, &Column)> =
        table.columns.iter().enumerate().filter(|(_, column)| column.name != "depth").collect();
    let mut lines = Lines::new(page, &columns, depth);
    lines.widen(|at| title(columns[at].1));
    match &table.states {
        Some(states) => lines.widen_to(&widths(states)),
        None => table.rows.for_each(|row| lines.widen_by(row)),
    }
    let widest = lines.widths.clone();
    // One row says all that there is, unless --limit left others out.
    let is_shown = |column: &Column| table.columns.iter().any(|own| own.name == column.name);
    let has_all = table.all.iter().any(|(column, _)| is_shown(column)) && found != 1;
    let of_all = |at: usize| {
        let column = columns[at].1;
        let cell = table.all.iter().find(|(own, _)| own.name == column.name).map(|(_, cell)| cell);
        match cell {
            Some(cell) => shown(cell.into(), column.unit),
            None if at == 0 => "(all)".to_string(),
            None => String::new(),
        }
    };
    if has_all {
        lines.widen(of_all);
    }
    let mut bars = bars(table, look);
    let mut left_out = Vec::new();
    if let Some(most) = look.width {
        if total(&lines.widths) + 2 + BAR > most {
            bars.clear();
        }
        left_out = fit(&mut lines.widths, &columns, most);
    }
    if look.is_colored {
        lines.page.out.put(b"\x1b[1m");
    }
    lines.put(|at, cell| cell.put(title(columns[at].1).as_bytes()), None);
    if look.is_colored {
        let out = &mut lines.page.out;
        out.truncate(out.len() - 1);
        out.put(b"\x1b[0m\n");
    }
    let mut bars = bars.iter();
    match &table.states {
        Some(rows) if lines.widths == widest => {
            let mut states = StateLines::table(rows.form.clone(), &widest);
            rows.for_each(|row| {
                states.put(&mut lines.page.out, row);
                lines.page.turn();
            });
        }
        Some(rows) => {
            let mut cells = Vec::new();
            rows.for_each(|row| {
                cells.clear();
                rows.form.put(row, &mut cells);
                lines.put_row(&cells.iter().map(Value::from).collect::<Vec<_>>(), None);
            });
        }
        None => table.rows.for_each(|row| lines.put_row(row, bars.next().map(|bar| &**bar))),
    }
    if has_all {
        lines.put(|at, cell| cell.put(of_all(at).as_bytes()), None);
    }
    let out = &mut page.out;
    if !left_out.is_empty() {
        left_out.reverse();
        out.put_fmt(format_args!("too wide for the terminal, left out: {}\n", left_out.join(" ")));
    }
    if found == 0 {
        out.put(b"nothing found\n");
    }
    if table.states.is_none() && table.rows.len() < found {
        let of = match (table.analysis, table.columns.first().map(|column| &*column.name)) {
            ("cpu" | "sched" | "processes", Some("tid")) => "threads",
            ("cpu", Some("pid")) => "processes",
            _ => "rows",
        };
        out.put_fmt(format_args!("{} of {found} {of}\n", table.rows.len()));
    }
    if let Some((columns, rows)) = &table.totals
        && rows.len() > 1
    {
        out.put_byte(b'\n');
        let totals = Table { columns: columns.clone(), rows: rows.clone().into(), ..Table::default() };
        put_table(page, &totals, rows.len(), look);
    }
    put_notes(&mut page.out, table);
}

/// The width of a line with columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// Makes columns narrower until a line of them is not wider than `most`: long names first, then the last columns. Gives
/// the titles of those that are left out, the last one first.
fn fit(widths: &mut Vec<usize>, columns: &[(usize, &Column)], most: usize) -> Vec<String> {
    let mut left_out = Vec::new();
    let is_left: Vec<bool> = columns.iter().map(|(_, column)| column.unit == Unit::Name).collect();
    let widest = widths.clone();
    while total(widths) > most {
        let longest = (0..widths.len()).filter(|&at| is_left[at] && widths[at] > MIN_NAME).max_by_key(|&at| widths[at]);
        match longest {
            Some(at) => widths[at] -= 1,
            None if widths.len() > 1 => {
                widths.pop();
                left_out.push(title(columns[widths.len()].1));
            }
            None => break,
        }
    }
    // Names that were cut for columns that are left out now.
    for at in (0..widths.len()).filter(|at| is_left[*at]) {
        widths[at] += (widest[at] - widths[at]).min(most.saturating_sub(total(widths)));
    }
    left_out
}

/// Puts what is to be said below a table.
fn put_notes(out: &mut Out, table: &Table) {
    if table.is_rough {
        out.put(b"percentiles of groups with more than a million spans are within 1 %\n");
    }
    for (name, count) in table.notes.iter().filter(|(name, count)| *count > 0 && *name != "events") {
        if *name == "losses" {
            let cpus: Vec<String> = table.lost_on.iter().map(u64::to_string).collect();
            let on = if cpus.len() == 1 { "cpu" } else { "cpus" };
            let cpus = cpus.join(", ");
            out.put_fmt(format_args!("{count} events lost on {on} {cpus}; what they touched is unknown\n"));
        } else {
            let words = name.replace('_', " ");
            let words = if *count == 1 { words.strip_suffix('s').unwrap_or(&words) } else { &words };
            out.put_fmt(format_args!("{count} {words}\n"));
        }
    }
}

/// Lines of a table: the cells are looked at once for the widths of the columns, and once to be written.
struct Lines<'t> {
    page: &'t mut Paged,
    columns: &'t [(usize, &'t Column)],
    depth: Option<usize>,
    widths: Vec<usize>,
    /// The cell that is looked at.
    cell: Out,
}

impl<'t> Lines<'t> {
    fn new(page: &'t mut Paged, columns: &'t [(usize, &'t Column)], depth: Option<usize>) -> Self {
        Lines { page, columns, depth, widths: vec![0; columns.len()], cell: Out::default() }
    }

    /// Makes room for a line.
    fn widen(&mut self, cell: impl Fn(usize) -> String) {
        for (at, width) in self.widths.iter_mut().enumerate() {
            *width = cell(at).chars().count().max(*width);
        }
    }

    /// Makes columns this wide at least.
    fn widen_to(&mut self, widths: &[usize]) {
        self.widths.iter_mut().zip(widths).for_each(|(width, wanted)| *width = (*width).max(*wanted));
    }

    /// Makes room for a row.
    fn widen_by(&mut self, row: &[Value<'_>]) {
        for (at, (place, column)) in self.columns.iter().enumerate() {
            let cell = row[*place];
            let chars = if self.is_indented(column) { None } else { quick_width(cell, column.unit) };
            let chars = chars.unwrap_or_else(|| {
                self.cell.clear();
                if let Some(depth) = self.depth.filter(|_| column.name == "comm") {
                    self.cell.put(indent(row[depth]).as_bytes());
                }
                put_shown(&mut self.cell, cell, column.unit);
                count(self.cell.written())
            });
            self.widths[at] = self.widths[at].max(chars);
        }
    }

    /// Do names stand deeper or less deep in this column?
    fn is_indented(&self, column: &Column) -> bool {
        self.depth.is_some() && column.name == "comm"
    }

    fn put_row(&mut self, row: &[Value<'_>], bar: Option<&str>) {
        let begin = self.page.out.len();
        for at in 0..self.widths.len() {
            let (place, column) = self.columns[at];
            let cell = row[place];
            let chars = if self.is_indented(column) { None } else { quick_width(cell, column.unit) };
            if let Some(chars) = chars.filter(|chars| *chars <= self.widths[at]) {
                self.put_quick_cell(at, cell, self.widths[at] - chars);
                continue;
            }
            self.cell.clear();
            if let Some(depth) = self.depth.filter(|_| column.name == "comm") {
                self.cell.put(indent(row[depth]).as_bytes());
            }
            put_shown(&mut self.cell, cell, column.unit);
            self.put_cell(at);
        }
        self.end_line(begin, bar);
        self.page.turn();
    }

    /// Puts a cell that is this much narrower than its column.
    #[inline]
    fn put_quick_cell(&mut self, at: usize, cell: Value<'_>, blanks: usize) {
        let Lines { columns, page: Paged { out, .. }, .. } = self;
        if at > 0 {
            out.put(b"  ");
        }
        let unit = columns[at].1.unit;
        if unit != Unit::Name {
            put_blanks(out, blanks);
        }
        put_shown(out, cell, unit);
        if unit == Unit::Name {
            put_blanks(out, blanks);
        }
    }

    fn put(&mut self, cell: impl Fn(usize, &mut Out), bar: Option<&str>) {
        let begin = self.page.out.len();
        for at in 0..self.widths.len() {
            self.cell.clear();
            cell(at, &mut self.cell);
            self.put_cell(at);
        }
        self.end_line(begin, bar);
    }

    /// Puts the cell into a column.
    fn put_cell(&mut self, at: usize) {
        let Lines { columns, widths, page: Paged { out, .. }, cell, .. } = self;
        if at > 0 {
            out.put(b"  ");
        }
        let (width, mut chars) = (widths[at], count(cell.written()));
        if chars > width {
            let short = shortened(&String::from_utf8_lossy(cell.written()), chars, width);
            cell.clear();
            cell.put(short.as_bytes());
            chars = short.chars().count();
        }
        let is_left = columns[at].1.unit == Unit::Name;
        if is_left {
            out.put(cell.written());
        }
        put_blanks(out, width.saturating_sub(chars));
        if !is_left {
            out.put(cell.written());
        }
    }

    fn end_line(&mut self, begin: usize, bar: Option<&str>) {
        let out = &mut self.page.out;
        if let Some(bar) = bar {
            out.put(b"  ");
            out.put(bar.as_bytes());
        }
        let blanks = out.written()[begin..].iter().rev().take_while(|byte| **byte == b' ').count();
        out.truncate(out.len() - blanks);
        out.put_byte(b'\n');
    }
}

/// A text of so many characters, cut to a width: of a path, the end says more.
fn shortened(text: &str, chars: usize, width: usize) -> String {
    let kept = width.saturating_sub(1);
    match text.starts_with('/') {
        true => ['…'].into_iter().chain(text.chars().skip(chars - kept)).collect(),
        false => text.chars().take(kept).chain(['…']).collect(),
    }
}

/// Characters of a cell that are known before they are written.
#[inline]
fn quick_width(value: Value<'_>, unit: Unit) -> Option<usize> {
    match (value, unit) {
        (Value::Null, _) => Some(1),
        // Times with nine digits after the point, durations with three.
        (Value::Integer(value), unit) if value >= 0 => {
            let digits = digits(value);
            Some(match unit {
                Unit::Time => digits.max(10) + 1,
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

/// Is a text shown as it is, and of one byte a character?
#[inline]
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

#[inline]
pub(super) fn put_blanks(out: &mut Out, mut count: usize) {
    const BLANKS: [u8; 32] = [b' '; 32];
    while count > 0 {
        // Blocks of fixed size are faster than as many as there are.
        let some = count.min(BLANKS.len());
        *out.room() = BLANKS;
        out.advance(some);
        count -= some;
    }
}

/// Digits of a number that is not below 0.
#[inline]
pub(super) fn digits(value: i128) -> usize {
    let Ok(value) = u64::try_from(value) else { return value.to_string().len() };
    // A number of so many bits has at least this many digits less one: 1233 / 4096 is a little below log10(2).
    let fewest = ((64 - (value | 1).leading_zeros() as usize) * 1233) >> 12;
    fewest + usize::from(POWERS.get(fewest).is_some_and(|power| value >= *power)).max(usize::from(fewest == 0))
}

/// The powers of ten of 64 bits.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Characters of a text.
fn count(text: &[u8]) -> usize {
    if text.is_ascii() { text.len() } else { String::from_utf8_lossy(text).chars().count() }
}

/// Levels of a tree that are indented; deeper ones stand below each other, so that chains do not fill the terminal.
const MAX_INDENT: i128 = 20;

/// Prefix of a name at a depth of a tree.
fn indent(depth: Value<'_>) -> String {
    match depth {
        Value::Integer(depth) => "  ".repeat(depth.clamp(0, MAX_INDENT) as usize),
        _ => String::new(),
    }
}

/// The title of a column: without its unit, which is microseconds.
fn title(column: &Column) -> String {
    match &*column.name {
        "cpu_ns" => "cpu time".to_string(),
        name => name.strip_suffix("_ns").unwrap_or(name).to_string(),
    }
}

fn shown(cell: Value<'_>, unit: Unit) -> String {
    let mut out = Out::default();
    put_shown(&mut out, cell, unit);
    String::from_utf8_lossy(out.written()).into_owned()
}

fn put_shown(out: &mut Out, value: Value<'_>, unit: Unit) {
    match (value, unit) {
        (Value::Null, _) => out.put_byte(b'-'),
        (Value::Integer(ns), Unit::Duration) => {
            let (whole, part) = parts(out, ns, 1000);
            put_integer(out, whole);
            out.put_byte(b'.');
            let part = part as u16;
            out.put(&[part / 100, part / 10 % 10, part % 10].map(|digit| b'0' + digit as u8));
        }
        (Value::Integer(ns), Unit::Time) => {
            let (whole, part) = parts(out, ns, 1_000_000_000);
            put_integer(out, whole);
            out.put_byte(b'.');
            out.put_nine(part as u32);
        }
        (Value::Real(value), Unit::Duration) => out.put_fmt(format_args!("{:.3}", value / 1000.0)),
        (Value::Real(value), Unit::Share) => out.put_fmt(format_args!("{:.2} %", value * 100.0)),
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

pub(super) fn put_integer(out: &mut Out, value: i128) {
    match i64::try_from(value) {
        Ok(value) => out.put_i64(value),
        Err(_) => out.put_fmt(format_args!("{value}")),
    }
}

/// Names and how often they occurred, with blanks between.
pub(super) fn put_counts(out: &mut Out, counts: Counts<'_>) {
    let mut is_first = true;
    counts.for_each(|name, count| {
        if !std::mem::take(&mut is_first) {
            out.put_byte(b' ');
        }
        out.put_fmt(format_args!("{name}:{count}"));
    });
}

/// A bar for each row: its share, or its count in a histogram.
fn bars(table: &Table, look: &Look) -> Vec<String> {
    let name = if table.is_histogram { "count" } else { "share" };
    let Some(at) = table.column(name) else { return Vec::new() };
    if look.width.is_none() && !table.is_histogram && !look.is_colored {
        return Vec::new();
    }
    let mut values = Vec::new();
    table.rows.for_each(|row| {
        values.push(match row[at] {
            Value::Integer(value) => value as f64,
            Value::Real(value) => value,
            _ => 0.0,
        });
    });
    let largest = values.iter().copied().fold(0.0, f64::max);
    let width = if table.is_histogram { 40.0 } else { BAR as f64 };
    values.iter().map(|value| bar(if largest > 0.0 { value / largest * width } else { 0.0 })).collect()
}

/// A bar that is so many characters long, with eighths.
fn bar(length: f64) -> String {
    let eighths = (length * 8.0).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    text.push_str(["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]);
    text
}

// ---- The list of analyses -----------------------------------------------------------------------------------------

/// Analyses that the traces can feed.
pub(super) fn list(has: &HashSet<Concept>, concepts: &Concepts, format: AnalyzeFormat) -> String {
    if format != AnalyzeFormat::Table {
        let one = |known: &tracemill_analyses::kernel::Known| {
            let names = |concepts: &mut dyn Iterator<Item = &Concept>| {
                concepts.map(|concept| quoted(concept.name())).collect::<Vec<_>>().join(",")
            };
            let lacks = known.lacks(has);
            let parts = known.wants.iter().filter(|(concept, _)| !has.contains(concept));
            format!(
                "{{\"name\":{},\"about\":{},\"can_run\":{},\"missing\":[{}],\"not_told\":[{}]}}",
                quoted(known.name),
                quoted(known.about),
                lacks.is_empty(),
                names(&mut lacks.iter().copied().flatten()),
                parts.map(|(_, what)| quoted(what)).collect::<Vec<_>>().join(",")
            )
        };
        return format!("{{\"analyses\":[{}]}}\n", ANALYSES.iter().map(one).collect::<Vec<_>>().join(","));
    }
    let width = ANALYSES.iter().map(|known| known.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for known in ANALYSES {
        let _ = writeln!(text, "{:width$}  {}", known.name, known.about);
        let lacks = known.lacks(has);
        if let Some(group) = lacks.first() {
            let names: Vec<&str> = group.iter().map(|concept| concept.name()).collect();
            let _ = writeln!(text, "{:width$}    not possible: no {}", "", names.join(" or "));
            for line in how_to_record(group, concepts).lines() {
                let _ = writeln!(text, "{:width$}    {line}", "");
            }
        }
        if lacks.is_empty() {
            for (concept, what) in known.wants.iter().filter(|(concept, _)| !has.contains(concept)) {
                let _ = writeln!(text, "{:width$}    without {what} (no {})", "", concept.name());
            }
        }
    }
    text
}

/// The commands that record events of one of these concepts.
pub(super) fn how_to_record(group: &[Concept], concepts: &Concepts) -> String {
    let concept = group[0];
    let is_call = matches!(concept, Concept::SysEntry | Concept::SysExit);
    let is_program = matches!(concept, Concept::CallEntry | Concept::CallExit | Concept::Load | Concept::Unload);
    let mut names: Vec<&str> = concepts.events(concept).collect();
    names.dedup();
    let plain = |name: &&&str| !name.contains(['*', ':', '.']);
    match (is_call, is_program) {
        (true, _) => "lttng enable-event --kernel --syscall --all, or trace-cmd record -e syscalls".to_string(),
        (_, true) => format!("record {} with lttng enable-event --userspace", names.join(" or ")),
        _ => match names.iter().find(plain) {
            Some(name) => format!("lttng enable-event --kernel {name}, or trace-cmd record -e {name}"),
            None => format!("no tracer records {}", concept.name()),
        },
    }
}

#[cfg(test)]
mod tests {
    use tracemill_analyses::kernel::Cell;

    use super::*;

    fn lives(depths: &[i128]) -> Table {
        let columns = [("tid", Unit::Name), ("comm", Unit::Name), ("user_ns", Unit::Duration), ("depth", Unit::Name)];
        let row = |(at, depth): (usize, &i128)| {
            vec![Cell::from(at as u64), Cell::Text("sh".into()), Cell::Integer(1500), Cell::Integer(*depth)]
        };
        Table {
            analysis: "processes",
            columns: columns.into_iter().map(|(name, unit)| Column::new(name, unit)).collect(),
            rows: depths.iter().enumerate().map(row).collect::<Vec<_>>().into(),
            all: vec![(Column::new("user_ns", Unit::Duration), Cell::Integer(3000))],
            ..Table::default()
        }
    }

    fn text(table: &Table, found: usize) -> String {
        let mut page = Paged::default();
        tables(&mut page, std::slice::from_ref(table), &[found], &Look { is_colored: false, width: None });
        String::from_utf8(page.out.written().to_vec()).expect("text")
    }

    #[test]
    fn trees_are_indented_and_have_no_column_of_depths() {
        let expected = "tid    comm   user\n0      sh    1.500\n1        sh  1.500\n(all)        3.000\n";
        assert_eq!(text(&lives(&[0, 1]), 2), expected);
        let mut page = Paged::default();
        super::super::analyze_rows::lines(&mut page, &[lives(&[0, 1])]);
        assert!(page.out.written().ends_with(b"\"comm\":\"sh\",\"user_ns\":1500,\"depth\":1}\n"));
        // A chain does not move out of sight.
        let deepest = text(&lives(&[0, 1_000_000]), 2).lines().map(str::len).max();
        assert!(deepest.is_some_and(|width| width < 80));
    }

    #[test]
    fn names_take_the_room_of_columns_that_are_left_out() {
        let columns = [("name", Unit::Name), ("count", Unit::Count), ("bytes", Unit::Count)];
        let row = |name: &'static str| vec![Cell::name(name), Cell::from(1u64), Cell::Integer(1 << 40)];
        let table = Table {
            columns: columns.into_iter().map(|(name, unit)| Column::new(name, unit)).collect(),
            rows: vec![row("/var/log/bakery/orders.log"), row("clock_nanosleep"), row("read")].into(),
            ..Table::default()
        };
        let at = |width: usize| {
            let mut page = Paged::default();
            tables(&mut page, std::slice::from_ref(&table), &[3], &Look { is_colored: false, width: Some(width) });
            String::from_utf8(page.out.written().to_vec()).expect("text")
        };
        let narrow = "name              count\n…kery/orders.log      1\nclock_nanosleep       1\nread                  1\n\
                      too wide for the terminal, left out: bytes\n";
        assert_eq!(at(23), narrow);
        assert!(at(80).starts_with("name                        count          bytes\n/var/log/bakery/orders.log  "));
        assert!(at(40).contains("\n…bakery/orders.log      1  1099511627776\n"), "{}", at(40));
    }

    #[test]
    fn digits_are_counted() {
        for value in [0, 1, 9, 10, 99, 100, 999_999_999, 1_000_000_000, u64::MAX / 10, u64::MAX] {
            for near in [value.saturating_sub(1), value, value.saturating_add(1)] {
                assert_eq!(digits(near.into()), near.to_string().len(), "{near}");
            }
        }
        assert_eq!(digits(i128::MAX), 39);
    }

    #[test]
    fn rows_left_out_are_in_the_last_line() {
        assert_eq!(text(&lives(&[0]), 1), "tid  comm   user\n0    sh    1.500\n");
        let limited = "tid    comm   user\n0      sh    1.500\n(all)        3.000\n1 of 2 threads\n";
        assert_eq!(text(&lives(&[0]), 2), limited);
    }
}
