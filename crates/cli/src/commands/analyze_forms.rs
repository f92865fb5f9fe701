//! Tables of `analyze` for people.

use std::io::IsTerminal as _;

use tracemill_analyses::kernel::text::{
    StateLines, TableClock, count, put_blanks, put_shown, quick_width, shortened, widths,
};
use tracemill_analyses::kernel::{Column, PeriodOf, Table, Unit, Value};
use tracemill_codec::text::escaped;
use tracemill_codec::text::out::Out;
use tracemill_semantics::states::{list_of_cpus, missing_events};

use super::analyze_rows::Paged;
use crate::args::{AnalyzeOptions, When};

/// Tables of one reading.
pub(super) type Tables<'a> = &'a [Table];

/// How tables look.
pub(super) struct Look {
    is_colored: bool,
    /// Columns of the terminal; `None` for a file.
    width: Option<usize>,
    /// Was one analysis named? Then its table needs no heading.
    is_single: bool,
    clock: TableClock,
}

impl Look {
    pub(super) fn of(options: &AnalyzeOptions, is_single: bool, clock: TableClock) -> Look {
        let is_terminal = options.output.is_none() && std::io::stdout().is_terminal();
        let is_colored = match options.color {
            When::Auto => is_terminal,
            when => when == When::Always,
        };
        let width = || terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
        Look { is_colored, width: is_terminal.then(width), is_single, clock }
    }
}

/// Characters of the longest bar beside a table.
const BAR: usize = 20;

/// Characters of a name that are always shown.
const MIN_NAME: usize = 8;

// ---- Table --------------------------------------------------------------------------------------------------------

impl Look {
    /// The title of a column.
    fn title(&self, column: &Column) -> String {
        column.title(self.clock.is_seconds())
    }

    fn shown(&self, cell: Value<'_>, unit: Unit) -> String {
        let mut out = Out::default();
        put_shown(&mut out, cell, unit, &self.clock);
        String::from_utf8_lossy(out.written()).into_owned()
    }
}

/// The tables as text.
pub(super) fn tables(page: &mut Paged, tables: Tables<'_>, found: &[usize], look: &Look) {
    for (at, (table, &found)) in tables.iter().zip(found).enumerate() {
        if at > 0 {
            page.out.put_byte(b'\n');
        }
        match &table.period {
            Some(period) => put_heading(&mut page.out, table, period, look),
            None if !look.is_single => page.out.put_fmt(format_args!("{}\n", table.analysis)),
            None => {}
        }
        put_table(page, table, found, look);
    }
}

/// The analysis and the period that a table is about.
fn put_heading(out: &mut Out, table: &Table, period: &PeriodOf, look: &Look) {
    let time = |ns| look.shown(Value::Integer(ns), Unit::Time);
    let name = escaped(&period.name);
    out.put_fmt(format_args!("{}: {name} from {} to {}", table.analysis, time(period.from), time(period.to)));
    for (name, value) in &period.values {
        out.put_fmt(format_args!(", {} {}", escaped(name), look.shown(value.into(), Unit::Name)));
    }
    out.put_byte(b'\n');
}

fn put_table(page: &mut Paged, table: &Table, found: usize, look: &Look) {
    // People see the depth of a tree by its indentation.
    let depth = table.column("depth");
    // Few machines are ever suspended.
    let is_empty = |name: &str| name == "depth" || name == "suspended_ns" && table.suspensions.count == 0;
    let columns: Vec<(usize, &Column)> = table.shown_columns().filter(|(_, column)| !is_empty(&column.name)).collect();
    let mut lines = Lines::new(page, columns.clone(), depth, look);
    lines.widen(|column| look.title(column));
    match &table.states {
        Some(states) => lines.widen_to(&widths(states, &look.clock)),
        None => table.rows.for_each(&mut |row| lines.widen_by(row)),
    }
    let widest = lines.widths.clone();
    // One row says all that there is, unless --limit left others out.
    let is_shown = |column: &Column| table.columns.iter().any(|own| own.name == column.name);
    let has_all = table.all.iter().any(|(column, _)| is_shown(column)) && found != 1;
    let first = columns.first().map(|(_, column)| *column);
    let of_all = |column: &Column| {
        let cell = table.all.iter().find(|(own, _)| own.name == column.name).map(|(_, cell)| cell);
        match cell {
            Some(cell) => look.shown(cell.into(), column.unit),
            None if Some(column) == first => "(all)".to_string(),
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
        left_out = lines.fit(most);
    }
    if look.is_colored {
        lines.page.out.put(b"\x1b[1m");
    }
    lines.put(|column, cell| cell.put(look.title(column).as_bytes()), None);
    if look.is_colored {
        let out = &mut lines.page.out;
        out.truncate(out.len() - 1);
        out.put(b"\x1b[0m\n");
    }
    let mut bars = bars.iter();
    match &table.states {
        Some(rows) if lines.widths == widest => {
            let mut states = StateLines::table(rows.form.clone(), &widest, look.clock.clone());
            rows.for_each(&mut |row| {
                states.put(&mut lines.page.out, row);
                lines.page.turn();
            });
        }
        Some(rows) => {
            let mut cells = Vec::new();
            rows.for_each(&mut |row| {
                cells.clear();
                rows.form.put(row, &mut cells);
                lines.put_row(&cells.iter().map(Value::from).collect::<Vec<_>>(), None);
            });
        }
        None => table.rows.for_each(&mut |row| lines.put_row(row, bars.next().map(|bar| &**bar))),
    }
    if has_all {
        lines.put(|column, cell| cell.put(of_all(column).as_bytes()), None);
    }
    let out = &mut page.out;
    if !left_out.is_empty() {
        let text = format!("too wide for the terminal, left out: {}", left_out.join(" "));
        put_words(out, &text, look.width.unwrap_or(usize::MAX));
    }
    if found == 0 {
        out.put(b"nothing found\n");
    }
    if table.states.is_none() && table.rows.len() < found {
        let of = things(table);
        out.put_fmt(format_args!("{} of {found} {of}\n", table.rows.len()));
    }
    if let Some((columns, rows)) = &table.totals
        && rows.len() > 1
    {
        out.put_byte(b'\n');
        let totals = Table { columns: columns.clone(), rows: rows.clone().into(), ..Table::default() };
        put_table(page, &totals, rows.len(), look);
    }
    put_notes(&mut page.out, table, look);
}

/// The word for what the rows of a table are.
fn things(table: &Table) -> &'static str {
    let has = |name: &str| table.column(name).is_some();
    let is_list = has("duration_ns") || has("latency_ns");
    let mut keys = table.columns.iter().map(|column| &*column.name).filter(|name| *name != "trace");
    match (table.analysis, keys.next().unwrap_or_default(), keys.next().unwrap_or_default()) {
        ("states" | "path", ..) => "rows",
        (_, "from", _) if !is_list => "rows",
        ("sched" | "locks", ..) if is_list => "waits",
        ("irq", ..) if is_list => "interrupts",
        ("io", ..) if is_list && has("sector") => "requests",
        ("syscalls" | "io", ..) if is_list => "system calls",
        ("periods", ..) => "periods",
        // Keys of two columns stand for neither of them.
        (_, "tid" | "pid", _) if has("name") || has("class") => "rows",
        ("stats", ..) if has("mode") => "rows",
        ("irq", ..) if !has("cpu") => "interrupts",
        (_, "tid", _) => "threads",
        (_, "pid", "uaddr") => "locks",
        (_, "pid", "fd") => "open files",
        (_, "pid", _) => "processes",
        (_, "cpu", _) => "cpus",
        (_, "prio", _) => "priorities",
        (_, "waker", _) => "wakers",
        ("syscalls", "name", _) => "system calls",
        (_, "class", _) => "classes",
        (_, "net", _) => "interfaces",
        (_, "site", _) => "sites",
        _ => "rows",
    }
}

/// The width of a line with columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// Columns that a line can do without when there is no room for all of it, the first ones first; then the last ones go.
const DISPENSABLE: [&str; 15] = [
    "suspended_ns",
    "waker_comm",
    "to",
    "run_ns",
    "deviation_ns",
    "p95_ns",
    "p90_ns",
    "raise_min_ns",
    "p50_ns",
    "freed_ns",
    "exit_ns",
    "wait_fork_ns",
    "zombie_ns",
    "born_ns",
    "life",
];

/// Puts words in lines of a width.
fn put_words(out: &mut Out, text: &str, width: usize) {
    let mut at = 0;
    for word in text.split(' ') {
        let chars = word.chars().count();
        if at > 0 {
            let fits = at + 1 + chars <= width;
            out.put(if fits { b" " } else { b"\n  " });
            at = if fits { at + 1 } else { 2 };
        }
        out.put(word.as_bytes());
        at += chars;
    }
    out.put_byte(b'\n');
}

/// Puts what is to be said below a table.
fn put_notes(out: &mut Out, table: &Table, look: &Look) {
    if table.is_rough {
        out.put(b"percentiles of groups with more than a million spans are within 1 %\n");
    }
    for (name, count) in table.notes.iter().filter(|(name, count)| *count > 0 && *name != "events") {
        let (color, plain) = if look.is_colored { ("\x1b[33m", "\x1b[0m") } else { ("", "") };
        if *name == "losses" {
            let cpus = list_of_cpus(&table.lost_on);
            out.put_fmt(format_args!("{color}{count} events lost on {cpus}; what they touched is unknown{plain}\n"));
        } else if *name == "assumed_cpus" {
            out.put(b"no event says its CPU: all are taken to be of one, cpu 0\n");
        } else if *name == "unseen_cpus" {
            out.put_fmt(format_args!("{color}{}{plain}\n", missing_events(&table.unseen)));
        } else if *name == "suspended_ns" {
            // The line of the suspensions says it.
        } else if *name == "suspensions" {
            out.put_fmt(format_args!("{color}{}{plain}\n", table.suspensions.sentence()));
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
    look: &'t Look,
    columns: Vec<(usize, &'t Column)>,
    depth: Option<usize>,
    widths: Vec<usize>,
    /// Columns of texts, which may be cut: a part of a number is another number.
    is_text: Vec<bool>,
    /// The cell that is looked at.
    cell: Out,
}

impl<'t> Lines<'t> {
    fn new(page: &'t mut Paged, columns: Vec<(usize, &'t Column)>, depth: Option<usize>, look: &'t Look) -> Self {
        let (widths, is_text) = (vec![0; columns.len()], vec![false; columns.len()]);
        Lines { page, look, columns, depth, widths, is_text, cell: Out::default() }
    }

    /// Makes columns narrower until a line of them is not wider than `most`: long texts first, then columns are left out,
    /// whose titles it gives.
    fn fit(&mut self, most: usize) -> Vec<String> {
        let Lines { columns, widths, is_text, look, .. } = self;
        let is_text: Vec<bool> =
            columns.iter().zip(is_text.iter()).map(|((_, of), is)| *is && of.unit == Unit::Name).collect();
        let is_dispensable = |name: &str| DISPENSABLE.contains(&name);
        let mut kept: Vec<usize> = (0..widths.len()).collect();
        let mut narrow = widths.clone();
        let of_kept = |kept: &[usize], narrow: &[usize]| total(&kept.iter().map(|&at| narrow[at]).collect::<Vec<_>>());
        while of_kept(&kept, &narrow) > most {
            let cut = kept.iter().filter(|&&at| is_text[at] && narrow[at] > MIN_NAME).max_by_key(|&&at| narrow[at]);
            if let Some(&at) = cut {
                narrow[at] -= 1;
                continue;
            }
            if kept.len() == 1 {
                break;
            }
            let rank = |name: &str| DISPENSABLE.iter().position(|own| *own == name);
            let spare = (0..kept.len()).filter(|&place| is_dispensable(&columns[kept[place]].1.name));
            let spare = spare.min_by_key(|&place| rank(&columns[kept[place]].1.name));
            kept.remove(spare.unwrap_or(kept.len() - 1));
        }
        // Texts that were cut for columns that are left out now.
        for &at in kept.iter().filter(|&&at| is_text[at]) {
            narrow[at] += (widths[at] - narrow[at]).min(most.saturating_sub(of_kept(&kept, &narrow)));
        }
        let left_out = (0..columns.len()).filter(|at| !kept.contains(at)).map(|at| look.title(columns[at].1)).collect();
        (*columns, *widths) = kept.iter().map(|&at| (columns[at], narrow[at])).unzip();
        left_out
    }

    /// Makes room for a line.
    fn widen(&mut self, cell: impl Fn(&Column) -> String) {
        for ((_, column), width) in self.columns.iter().zip(&mut self.widths) {
            *width = cell(column).chars().count().max(*width);
        }
    }

    /// Makes columns this wide at least.
    fn widen_to(&mut self, widths: &[usize]) {
        let is_text = |column: &Column| !matches!(&*column.name, "cpu" | "tid" | "nr" | "dev");
        self.is_text = self.columns.iter().map(|(_, column)| is_text(column)).collect();
        self.widths.iter_mut().zip(widths).for_each(|(width, wanted)| *width = (*width).max(*wanted));
    }

    /// Makes room for a row.
    fn widen_by(&mut self, row: &[Value<'_>]) {
        for (at, (place, column)) in self.columns.iter().enumerate() {
            let cell = row[*place];
            self.is_text[at] |= !matches!(cell, Value::Null | Value::Integer(_));
            let chars = if self.is_indented(column) { None } else { quick_width(cell, column.unit, &self.look.clock) };
            let chars = chars.unwrap_or_else(|| {
                self.cell.clear();
                if let Some(depth) = self.depth.filter(|_| column.name == "comm") {
                    self.cell.put(indent(row[depth]).as_bytes());
                }
                put_shown(&mut self.cell, cell, column.unit, &self.look.clock);
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
            let chars = if self.is_indented(column) { None } else { quick_width(cell, column.unit, &self.look.clock) };
            if let Some(chars) = chars.filter(|chars| *chars <= self.widths[at]) {
                self.put_quick_cell(at, cell, self.widths[at] - chars);
                continue;
            }
            self.cell.clear();
            if let Some(depth) = self.depth.filter(|_| column.name == "comm") {
                self.cell.put(indent(row[depth]).as_bytes());
            }
            put_shown(&mut self.cell, cell, column.unit, &self.look.clock);
            self.put_cell(at);
        }
        self.end_line(begin, bar);
        self.page.turn();
    }

    /// Puts a cell that is this much narrower than its column.
    #[inline]
    fn put_quick_cell(&mut self, at: usize, cell: Value<'_>, blanks: usize) {
        let Lines { columns, page: Paged { out, .. }, look, .. } = self;
        if at > 0 {
            out.put(b"  ");
        }
        let unit = columns[at].1.unit;
        if unit != Unit::Name {
            put_blanks(out, blanks);
        }
        put_shown(out, cell, unit, &look.clock);
        if unit == Unit::Name {
            put_blanks(out, blanks);
        }
    }

    fn put(&mut self, cell: impl Fn(&Column, &mut Out), bar: Option<&str>) {
        let begin = self.page.out.len();
        for at in 0..self.widths.len() {
            self.cell.clear();
            cell(self.columns[at].1, &mut self.cell);
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

/// Levels of a tree that are indented; deeper ones stand below each other, so that chains do not fill the terminal.
const MAX_INDENT: i128 = 20;

/// Prefix of a name at a depth of a tree.
fn indent(depth: Value<'_>) -> String {
    match depth {
        Value::Integer(depth) => "  ".repeat(depth.clamp(0, MAX_INDENT) as usize),
        _ => String::new(),
    }
}

/// A bar for each row: its share, or its count in a histogram.
fn bars(table: &Table, look: &Look) -> Vec<String> {
    let name = if table.is_histogram { "count" } else { "share" };
    let Some(at) = table.column(name) else { return Vec::new() };
    if look.width.is_none() && !table.is_histogram && !look.is_colored {
        return Vec::new();
    }
    let mut values = Vec::new();
    table.rows.for_each(&mut |row| {
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

#[cfg(test)]
mod tests {
    use tracemill_analyses::kernel::Cell;

    use super::*;

    fn plain(width: Option<usize>) -> Look {
        Look { is_single: true, is_colored: false, width, clock: TableClock::seconds() }
    }

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
        tables(&mut page, std::slice::from_ref(table), &[found], &plain(None));
        String::from_utf8(page.out.written().to_vec()).expect("text")
    }

    #[test]
    fn trees_are_indented_and_have_no_column_of_depths() {
        let expected = "tid    comm  user_us\n0      sh      1.500\n1        sh    1.500\n(all)          3.000\n";
        assert_eq!(text(&lives(&[0, 1]), 2), expected);
        let mut page = Paged::default();
        super::super::analyze_rows::lines(&mut page, &[lives(&[0, 1])], true);
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
            tables(&mut page, std::slice::from_ref(&table), &[3], &plain(Some(width)));
            String::from_utf8(page.out.written().to_vec()).expect("text")
        };
        let narrow = "name              count\n…kery/orders.log      1\nclock_nanosleep       1\nread                  1\n\
                      too wide for the\n  terminal, left out:\n  bytes\n";
        assert_eq!(at(23), narrow);
        assert!(at(80).starts_with("name                        count          bytes\n/var/log/bakery/orders.log  "));
        assert!(at(40).contains("\n…bakery/orders.log      1  1099511627776\n"), "{}", at(40));
    }

    #[test]
    fn numbers_are_not_cut_and_what_says_least_is_left_out_first() {
        let columns = [
            ("uaddr", Unit::Name),
            ("from", Unit::Time),
            ("to", Unit::Time),
            ("duration_ns", Unit::Duration),
            ("ret", Unit::Name),
        ];
        let row = [139_888_628_339_520i128, 1_000_000_000, 2_000_000_000, 1_000_000_000, 0].map(Cell::Integer);
        let table = Table {
            analysis: "locks",
            columns: columns.into_iter().map(|(name, unit)| Column::new(name, unit)).collect(),
            rows: vec![row.to_vec()].into(),
            ..Table::default()
        };
        let mut page = Paged::default();
        tables(&mut page, std::slice::from_ref(&table), &[1], &plain(Some(48)));
        let text = String::from_utf8(page.out.written().to_vec()).expect("text");
        let expected = "uaddr                 from_s  duration_us  ret\n\
                        139888628339520  1.000000000  1000000.000  0\ntoo wide for the terminal, left out: to_s\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn rows_have_the_name_of_what_they_are() {
        let of = |analysis, names: &[&'static str]| {
            let columns = names.iter().map(|name| Column::new(name, Unit::Name)).collect();
            things(&Table { analysis, columns, ..Table::default() })
        };
        assert_eq!(of("sched", &["wake_ns", "run_ns", "latency_ns", "tid"]), "waits");
        assert_eq!(of("sched", &["trace", "tid", "comm", "count"]), "threads");
        assert_eq!(of("syscalls", &["tid", "comm", "name", "count"]), "rows");
        assert_eq!(of("syscalls", &["name", "tid", "from", "to", "duration_ns"]), "system calls");
        assert_eq!(of("cpu", &["from", "to", "tid"]), "rows");
        assert_eq!(of("states", &["cpu", "from", "to"]), "rows");
        assert_eq!(of("irq", &["kind", "nr", "name", "count"]), "interrupts");
        assert_eq!(of("irq", &["kind", "nr", "name", "cpu", "count"]), "rows");
        assert_eq!(of("locks", &["pid", "uaddr", "count"]), "locks");
        assert_eq!(of("io", &["disk", "dev", "sector", "from", "to", "duration_ns"]), "requests");
    }

    #[test]
    fn rows_left_out_are_in_the_last_line() {
        assert_eq!(text(&lives(&[0]), 1), "tid  comm  user_us\n0    sh      1.500\n");
        let limited = "tid    comm  user_us\n0      sh      1.500\n(all)          3.000\n1 of 2 threads\n";
        assert_eq!(text(&lives(&[0]), 2), limited);
    }
}
