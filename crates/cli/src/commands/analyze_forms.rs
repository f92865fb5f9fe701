//! Output formats of `analyze`: tables for people, JSON, JSON lines, CSV.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

use tracemill_analyses::kernel::{ANALYSES, Cell, Column, PeriodOf, Table, Unit};
use tracemill_codec::text::out::Out;
use tracemill_model::error::Error;
use tracemill_render::csv::put_line;
use tracemill_semantics::{Concept, Concepts};

use super::report_forms::{escaped, quoted};
use crate::args::{AnalyzeFormat, AnalyzeOptions, When};
use crate::report::{Outcome, Sink};

/// Tables of one reading.
type Tables<'a> = &'a [Table];

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
pub(super) fn tables(tables: Tables<'_>, found: &[usize], look: &Look) -> String {
    let mut text = String::new();
    for (at, (table, &found)) in tables.iter().zip(found).enumerate() {
        if at > 0 {
            text.push('\n');
        }
        match &table.period {
            Some(period) => put_heading(&mut text, table, period),
            None if tables.len() > 1 => text.extend([table.analysis, "\n"]),
            None => {}
        }
        put_table(&mut text, table, found, look);
    }
    text
}

/// The analysis and the period that a table is about.
fn put_heading(text: &mut String, table: &Table, period: &PeriodOf) {
    let time = |ns| shown(&Cell::Integer(ns), Unit::Time);
    let _ =
        write!(text, "{}: {} from {} to {}", table.analysis, escaped(&period.name), time(period.from), time(period.to));
    for (name, value) in &period.values {
        let _ = write!(text, ", {} {}", escaped(name), shown(value, Unit::Name));
    }
    text.push('\n');
}

fn put_table(text: &mut String, table: &Table, found: usize, look: &Look) {
    // People see the depth of a tree by its indentation.
    let depth = table.column("depth");
    let columns: Vec<&Column> = table.columns.iter().filter(|column| column.name != "depth").collect();
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|column| title(column)).collect()];
    for row in &table.rows {
        let indent = depth.map_or(String::new(), |at| indent(&row[at]));
        let cells = row.iter().zip(&table.columns).filter(|(_, column)| column.name != "depth");
        let put = |(cell, column): (&Cell, &Column)| match &*column.name {
            "comm" => indent.clone() + &shown(cell, column.unit),
            _ => shown(cell, column.unit),
        };
        lines.push(cells.map(put).collect());
    }
    // One row says all that there is, unless --limit left others out.
    let is_shown = |column: &Column| table.columns.iter().any(|own| own.name == column.name);
    let has_all = table.all.iter().any(|(column, _)| is_shown(column)) && found != 1;
    if has_all {
        let of = |(at, column): (usize, &&Column)| {
            let cell = table.all.iter().find(|(own, _)| own.name == column.name).map(|(_, cell)| cell);
            match cell {
                Some(cell) => shown(cell, column.unit),
                None if at == 0 => "(all)".to_string(),
                None => String::new(),
            }
        };
        lines.push(columns.iter().enumerate().map(of).collect());
    }
    let mut bars = bars(table, look);
    let is_left: Vec<bool> = columns.iter().map(|column| column.unit == Unit::Name).collect();
    let mut widths: Vec<usize> =
        (0..columns.len()).map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0)).collect();
    let mut left_out = Vec::new();
    if let Some(most) = look.width {
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        if total(&widths) + 2 + BAR > most {
            bars.clear();
        }
        // Long names first, then the last columns.
        while total(&widths) > most {
            let longest =
                (0..widths.len()).filter(|&at| is_left[at] && widths[at] > MIN_NAME).max_by_key(|&at| widths[at]);
            match longest {
                Some(at) => widths[at] -= 1,
                None if widths.len() > 1 => {
                    widths.pop();
                    left_out.push(title(columns[widths.len()]));
                }
                None => break,
            }
        }
        for line in &mut lines {
            line.truncate(widths.len());
            for (cell, &width) in line.iter_mut().zip(&widths) {
                if cell.chars().count() > width {
                    *cell = cell.chars().take(width.saturating_sub(1)).chain(['…']).collect();
                }
            }
        }
    }
    for (number, line) in lines.iter().enumerate() {
        let mut out = String::new();
        for (at, cell) in line.iter().enumerate() {
            let pad = " ".repeat(widths[at] - cell.chars().count());
            let between = if at > 0 { "  " } else { "" };
            match is_left[at] {
                true => out.extend([between, cell, &*pad]),
                false => out.extend([between, &*pad, cell]),
            }
        }
        if let Some(bar) = number.checked_sub(1).and_then(|row| bars.get(row)) {
            out.push_str("  ");
            out.push_str(bar);
        }
        out.truncate(out.trim_end_matches(' ').len());
        if number == 0 && look.is_colored {
            out = format!("\x1b[1m{out}\x1b[0m");
        }
        text.push_str(&out);
        text.push('\n');
    }
    if !left_out.is_empty() {
        left_out.reverse();
        let _ = writeln!(text, "too wide for the terminal, left out: {}", left_out.join(" "));
    }
    if table.rows.is_empty() {
        text.push_str("nothing found\n");
    }
    if table.rows.len() < found {
        let of = match (table.analysis, table.columns.first().map(|column| &*column.name)) {
            ("cpu" | "sched" | "processes", Some("tid")) => "threads",
            ("cpu", Some("pid")) => "processes",
            _ => "rows",
        };
        let _ = writeln!(text, "{} of {found} {of}", table.rows.len());
    }
    if let Some((columns, rows)) = &table.totals
        && rows.len() > 1
    {
        text.push('\n');
        let totals = Table { columns: columns.clone(), rows: rows.clone(), ..Table::default() };
        put_table(text, &totals, rows.len(), look);
    }
    if table.is_rough {
        text.push_str("percentiles of groups with more than a million spans are within 1 %\n");
    }
    for (name, count) in table.notes.iter().filter(|(name, count)| *count > 0 && *name != "events") {
        if *name == "losses" {
            let cpus: Vec<String> = table.lost_on.iter().map(u64::to_string).collect();
            let on = if cpus.len() == 1 { "cpu" } else { "cpus" };
            let _ = writeln!(text, "{count} events lost on {on} {}; what they touched is unknown", cpus.join(", "));
        } else {
            let words = name.replace('_', " ");
            let words = if *count == 1 { words.strip_suffix('s').unwrap_or(&words) } else { &words };
            let _ = writeln!(text, "{count} {words}");
        }
    }
}

/// Levels of a tree that are indented; deeper ones stand below each other, so that chains do not fill the terminal.
const MAX_INDENT: i128 = 20;

/// What stands before a name at a depth of a tree.
fn indent(depth: &Cell) -> String {
    match depth {
        Cell::Integer(depth) => "  ".repeat((*depth).clamp(0, MAX_INDENT) as usize),
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

fn shown(cell: &Cell, unit: Unit) -> String {
    match (cell, unit) {
        (Cell::Null, _) => "-".into(),
        (Cell::Integer(ns), Unit::Duration) => {
            format!("{}{}.{:03}", if *ns < 0 { "-" } else { "" }, ns.unsigned_abs() / 1000, ns.unsigned_abs() % 1000)
        }
        (Cell::Integer(ns), Unit::Time) => {
            let (sign, ns) = (if *ns < 0 { "-" } else { "" }, ns.unsigned_abs());
            format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
        }
        (Cell::Real(value), Unit::Duration) => format!("{:.3}", value / 1000.0),
        (Cell::Real(value), Unit::Share) => format!("{:.2} %", value * 100.0),
        (Cell::Integer(value), _) => value.to_string(),
        (Cell::Real(value), _) => value.to_string(),
        (Cell::Bool(value), _) => if *value { "yes" } else { "no" }.into(),
        (Cell::Text(text), _) => escaped(text),
        (Cell::Counts(counts), _) if counts.is_empty() => "-".into(),
        (Cell::Counts(counts), _) => {
            counts.iter().map(|(name, count)| format!("{name}:{count}")).collect::<Vec<_>>().join(" ")
        }
    }
}

/// A bar for each row: its share, or its count in a histogram.
fn bars(table: &Table, look: &Look) -> Vec<String> {
    let name = if table.is_histogram { "count" } else { "share" };
    let Some(at) = table.column(name) else { return Vec::new() };
    if look.width.is_none() && !table.is_histogram && !look.is_colored {
        return Vec::new();
    }
    let value = |row: &Vec<Cell>| match &row[at] {
        Cell::Integer(value) => *value as f64,
        Cell::Real(value) => *value,
        _ => 0.0,
    };
    let largest = table.rows.iter().map(value).fold(0.0, f64::max);
    let width = if table.is_histogram { 40.0 } else { BAR as f64 };
    table.rows.iter().map(|row| bar(if largest > 0.0 { value(row) / largest * width } else { 0.0 })).collect()
}

/// A bar that is so many characters long, with eighths.
fn bar(length: f64) -> String {
    let eighths = (length * 8.0).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    text.push_str(["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]);
    text
}

// ---- The list of analyses -----------------------------------------------------------------------------------------

/// What the traces can feed.
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

// ---- JSON ---------------------------------------------------------------------------------------------------------

fn json_cell(cell: &Cell) -> String {
    match cell {
        Cell::Null => "null".into(),
        Cell::Integer(value) => value.to_string(),
        Cell::Real(value) if value.is_finite() && value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.1}"),
        Cell::Real(value) if value.is_finite() => value.to_string(),
        Cell::Real(_) => "null".into(),
        Cell::Bool(value) => value.to_string(),
        Cell::Text(text) => quoted(text),
        Cell::Counts(counts) => {
            let one = |(name, count): &(String, u64)| format!("{}:{count}", quoted(name));
            format!("{{{}}}", counts.iter().map(one).collect::<Vec<_>>().join(","))
        }
    }
}

/// A row as an object. Rows of different kinds in one table have the members of their kind.
fn json_row(columns: &[Column], row: &[Cell]) -> String {
    let is_mixed = columns.iter().any(|column| column.name == "status");
    let is_shown = |name: &str, cell: &Cell| {
        if !is_mixed || *cell != Cell::Null {
            return true;
        }
        // The thread of a CPU may be unknown; a thread has no CPU here.
        let has = |name: &str| columns.iter().zip(row).any(|(own, cell)| own.name == name && *cell != Cell::Null);
        name == "tid" && has("status")
    };
    let members = columns.iter().zip(row).filter(|(column, cell)| is_shown(&column.name, cell));
    let members: Vec<String> =
        members.map(|(column, cell)| format!("{}:{}", quoted(&column.name), json_cell(cell))).collect();
    format!("{{{}}}", members.join(","))
}

/// All tables as one object.
pub(super) fn json(tables: Tables<'_>) -> String {
    let one = |table: &Table| {
        let rows: Vec<String> = table.rows.iter().map(|row| json_row(&table.columns, row)).collect();
        let bound = |at: Option<i128>| at.map_or("null".to_string(), |at| at.to_string());
        let pairs = |pairs: &[(Column, Cell)]| {
            pairs
                .iter()
                .map(|(column, cell)| format!("\"{}\":{}", column.name, json_cell(cell)))
                .collect::<Vec<_>>()
                .join(",")
        };
        let period = table.period.as_ref().map_or(String::new(), |period| {
            let values = period.values.iter().map(|(name, value)| format!("{}:{}", quoted(name), json_cell(value)));
            let values: Vec<String> = values.collect();
            let matched =
                if values.is_empty() { String::new() } else { format!("\"match\":{{{}}},", values.join(",")) };
            format!("\"period\":{},{matched}\"from\":{},\"to\":{},", quoted(&period.name), period.from, period.to)
        });
        let notes: Vec<String> = table.notes.iter().map(|(name, count)| format!("\"{name}\":{count}")).collect();
        let totals = table.totals.as_ref().map_or(String::new(), |(columns, rows)| {
            let rows: Vec<String> = rows.iter().map(|row| json_row(columns, row)).collect();
            format!(",\"totals\":[{}]", rows.join(","))
        });
        format!(
            "{{\"analysis\":\"{}\",{period}\"begin_ns\":{},\"end_ns\":{},\"rows\":[{}],\"all\":{{{}}}{totals},\"notes\":{{{}}}}}",
            table.analysis,
            bound(table.range.map(|range| range.0)),
            bound(table.range.map(|range| range.1)),
            rows.join(","),
            pairs(&table.all),
            notes.join(",")
        )
    };
    match tables {
        [table] if table.period.is_none() => one(table) + "\n",
        tables => format!("{{\"analyses\":[{}]}}\n", tables.iter().map(one).collect::<Vec<_>>().join(",")),
    }
}

/// The period of a table, as cells that stand before those of its rows.
fn period_cells(table: &Table) -> Vec<(&'static str, Cell)> {
    let cells = table.period.as_ref().map(|period| {
        let name = Cell::Text(period.name.clone());
        [("period", name), ("period_from_ns", period.from.into()), ("period_to_ns", period.to.into())]
    });
    cells.into_iter().flatten().collect()
}

/// The rows of all tables, one a line.
pub(super) fn lines(tables: Tables<'_>) -> String {
    let mut text = String::new();
    for table in tables {
        for row in &table.rows {
            let row = json_row(&table.columns, row);
            let period: String =
                period_cells(table).iter().map(|(name, cell)| format!(",\"{name}\":{}", json_cell(cell))).collect();
            if tables.len() == 1 && period.is_empty() {
                text.push_str(&row);
            } else {
                let comma = if row == "{}" { "" } else { "," };
                let _ = write!(text, "{{\"analysis\":\"{}\"{period}{comma}{}", table.analysis, &row[1..]);
            }
            text.push('\n');
        }
    }
    text
}

// ---- CSV ----------------------------------------------------------------------------------------------------------

fn csv_cell(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Text(text) => text.clone(),
        Cell::Counts(counts) => {
            counts.iter().map(|(name, count)| format!("{name}:{count}")).collect::<Vec<_>>().join(" ")
        }
        cell => json_cell(cell),
    }
}

/// The rows of all tables; an empty line stands between two tables, but for those of one analysis over its periods.
pub(super) fn csv(tables: Tables<'_>) -> String {
    let mut out = Out::default();
    for (at, table) in tables.iter().enumerate() {
        let period = period_cells(table);
        let before = at.checked_sub(1).map(|at| &tables[at]);
        if period.is_empty() || before.is_none_or(|before| before.analysis != table.analysis) {
            if at > 0 {
                out.put_byte(b'\n');
            }
            let names = period.iter().map(|(name, _)| name.to_string());
            let names = names.chain(table.columns.iter().map(|column| column.name.to_string()));
            put_line(&mut out, &names.collect::<Vec<_>>());
        }
        for row in &table.rows {
            let cells = period.iter().map(|(_, cell)| cell).chain(row);
            put_line(&mut out, &cells.map(csv_cell).collect::<Vec<_>>());
        }
    }
    String::from_utf8_lossy(out.written()).into_owned()
}

// ---- Rows as they are found ---------------------------------------------------------------------------------------

/// Rows that are written as they are found.
pub(super) struct Streamed {
    format: AnalyzeFormat,
    columns: Vec<Column>,
    sink: Option<Sink>,
    failed: Option<Error>,
}

impl Streamed {
    pub(super) fn new(format: AnalyzeFormat) -> Self {
        Streamed { format, columns: Vec::new(), sink: None, failed: None }
    }

    /// Says where the rows go, and what they are.
    pub(super) fn begin(&mut self, columns: Vec<Column>, sink: Sink) {
        (self.columns, self.sink) = (columns, Some(sink));
        if self.format == AnalyzeFormat::Csv {
            let head = self.columns.iter().map(|column| column.name.to_string()).collect::<Vec<_>>();
            self.put_csv(&head);
        }
    }

    /// Writes a row.
    pub(super) fn put(&mut self, row: &[Cell]) {
        if self.format == AnalyzeFormat::Csv {
            self.put_csv(&row.iter().map(csv_cell).collect::<Vec<_>>());
        } else {
            let line = json_row(&self.columns, row) + "\n";
            self.write(line.as_bytes());
        }
    }

    fn put_csv(&mut self, cells: &[String]) {
        let mut out = Out::default();
        put_line(&mut out, cells);
        let line = out.written().to_vec();
        self.write(&line);
    }

    fn write(&mut self, line: &[u8]) {
        if let Some(sink) = self.sink.as_mut().filter(|_| self.failed.is_none())
            && let Err(error) = sink.write(line)
        {
            self.failed = Some(error);
        }
    }

    /// Ends the output.
    pub(super) fn end(&mut self, outcome: Outcome) -> Result<Outcome, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match self.sink.take() {
            Some(sink) => sink.print(b"", outcome),
            None => Ok(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lives(depths: &[i128]) -> Table {
        let columns = [("tid", Unit::Name), ("comm", Unit::Name), ("user_ns", Unit::Duration), ("depth", Unit::Name)];
        let row = |(at, depth): (usize, &i128)| {
            vec![Cell::from(at as u64), Cell::Text("sh".into()), Cell::Integer(1500), Cell::Integer(*depth)]
        };
        Table {
            analysis: "processes",
            columns: columns.into_iter().map(|(name, unit)| Column::new(name, unit)).collect(),
            rows: depths.iter().enumerate().map(row).collect(),
            all: vec![(Column::new("user_ns", Unit::Duration), Cell::Integer(3000))],
            ..Table::default()
        }
    }

    fn text(table: &Table, found: usize) -> String {
        tables(std::slice::from_ref(table), &[found], &Look { is_colored: false, width: None })
    }

    #[test]
    fn trees_are_indented_and_have_no_column_of_depths() {
        let expected = "tid    comm   user\n0      sh    1.500\n1        sh  1.500\n(all)        3.000\n";
        assert_eq!(text(&lives(&[0, 1]), 2), expected);
        assert!(lines(&[lives(&[0, 1])]).ends_with("\"comm\":\"sh\",\"user_ns\":1500,\"depth\":1}\n"));
        // A chain does not move out of sight.
        let deepest = text(&lives(&[0, 1_000_000]), 2).lines().map(str::len).max();
        assert!(deepest.is_some_and(|width| width < 80));
    }

    #[test]
    fn rows_left_out_are_in_the_last_line() {
        assert_eq!(text(&lives(&[0]), 1), "tid  comm   user\n0    sh    1.500\n");
        let limited = "tid    comm   user\n0      sh    1.500\n(all)        3.000\n1 of 2 threads\n";
        assert_eq!(text(&lives(&[0]), 2), limited);
    }
}
