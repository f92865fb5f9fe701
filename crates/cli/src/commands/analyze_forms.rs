//! Tables of `analyze` for people.

use std::io::IsTerminal as _;

use tracemill_analyses::kernel::{Matrix, PeriodOf, StateLines, StateRows, Table, state_widths};
use tracemill_codec::text::escaped;
use tracemill_codec::text::out::Out;
use tracemill_table::{Column, TableClock, TableStyle, TextTable, Unit, Value, bar, put_wrapped};

use super::analyze_matrix::{MatrixText, SENTENCE_WIDTH, put_left_out};
use super::analyze_rows::Paged;
use crate::args::{AnalyzeOptions, When};

/// Tables of one reading.
pub(super) type Tables<'a> = &'a [Table];

/// The rows of a table before `--limit`.
pub(super) struct FoundRows {
    /// Their number.
    pub(super) count: usize,
    /// The word for them.
    pub(super) noun: &'static str,
    /// The rows that are shown at most.
    pub(super) limit: usize,
    /// All rows as a matrix, if they are about pairs.
    pub(super) matrix: Option<Matrix>,
}

/// How tables look.
pub(super) fn style_of(options: &AnalyzeOptions, clock: TableClock) -> TableStyle {
    let is_terminal = options.output.is_none() && std::io::stdout().is_terminal();
    let is_colored = match options.color {
        When::Auto => is_terminal,
        when => when == When::Always,
    };
    let width = || terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
    TableStyle { is_colored, width: is_terminal.then(width), clock }
}

/// Characters of the longest bar beside a table.
const BAR: usize = 20;

/// The tables as text. The only one of an analysis that was named needs no heading.
pub(super) fn tables(page: &mut Paged, tables: Tables<'_>, found: &[FoundRows], is_single: bool, style: &TableStyle) {
    for (at, (table, found)) in tables.iter().zip(found).enumerate() {
        if at > 0 {
            page.out.put_byte(b'\n');
        }
        match &table.period {
            Some(period) => put_heading(&mut page.out, table, period, style),
            None if !is_single => page.out.put_fmt(format_args!("{}\n", table.analysis)),
            None => {}
        }
        match found.matrix.as_ref().and_then(|of| MatrixText::new(of, found.limit, style)) {
            Some(matrix) => {
                matrix.put(page, style);
                put_notes(&mut page.out, table, style);
            }
            None => put_table(page, table, found, style),
        }
    }
}

/// The analysis and the period that a table is about.
fn put_heading(out: &mut Out, table: &Table, period: &PeriodOf, style: &TableStyle) {
    let time = |ns| style.format_value(Value::Integer(ns), Unit::Time);
    let name = escaped(&period.name);
    out.put_fmt(format_args!("{}: {name} from {} to {}", table.analysis, time(period.from), time(period.to)));
    for (name, value) in &period.values {
        out.put_fmt(format_args!(", {} {}", escaped(name), style.format_value(value.into(), Unit::Name)));
    }
    out.put_byte(b'\n');
}

fn put_table(page: &mut Paged, table: &Table, found: &FoundRows, style: &TableStyle) {
    // People see the depth of a tree by its indentation; few machines are ever suspended.
    let is_empty = |name: &str| name == "depth" || name == "suspended_ns" && table.suspensions.count == 0;
    let columns: Vec<(usize, &Column)> = table.shown_columns().filter(|(_, column)| !is_empty(&column.name)).collect();
    let first = columns.first().map(|(_, column)| *column);
    let mut lines = TextTable::new(columns, style).with_tree(table.column("comm"), table.column("depth"));
    match &table.states {
        Some(states) => widen_to_states(&mut lines, states, style),
        None => table.rows.for_each(&mut |row| lines.widen_by(row)),
    }
    let widest = widths_of(&mut lines);
    // One row says all that there is, unless --limit left others out.
    let is_shown = |column: &Column| table.columns.iter().any(|own| own.name == column.name);
    let has_all = table.all.iter().any(|(column, _)| is_shown(column)) && found.count != 1;
    let of_all = |column: &Column| {
        let cell = table.all.iter().find(|(own, _)| own.name == column.name).map(|(_, cell)| cell);
        match cell {
            Some(cell) => style.format_value(cell.into(), column.unit),
            None if Some(column) == first => "(all)".to_string(),
            None => String::new(),
        }
    };
    if has_all {
        lines.widen(of_all);
    }
    let mut bars = bars(table, style);
    let mut left_out = Vec::new();
    if let Some(most) = style.width {
        if lines.layout().width() + 2 + BAR > most {
            bars.clear();
        }
        left_out = lines.fit(most);
    }
    lines.put_titles(&mut page.out);
    let mut bars = bars.iter();
    match &table.states {
        Some(rows) if widths_of(&mut lines) == widest => {
            let mut states = StateLines::table(rows.form.clone(), &widest, style.clock.clone());
            rows.for_each(&mut |row| {
                states.write_line(&mut page.out, row);
                page.flush_full();
            });
        }
        Some(rows) => {
            rows.for_each(&mut |row| {
                let values: Vec<Value<'_>> = rows.form.keys().iter().map(|key| rows.form.value(row, *key)).collect();
                lines.put_row(&mut page.out, &values, None);
                page.flush_full();
            });
        }
        None => table.rows.for_each(&mut |row| {
            lines.put_row(&mut page.out, row, bars.next().map(|bar| &**bar));
            page.flush_full();
        }),
    }
    if has_all {
        lines.write_row(&mut page.out, of_all);
    }
    let out = &mut page.out;
    if !left_out.is_empty() {
        let text = format!("too wide for the terminal, left out: {}", left_out.join(" "));
        put_wrapped(out, "", &text, 2, style.width.unwrap_or(usize::MAX));
    }
    if found.count == 0 {
        out.put(b"nothing found\n");
    }
    if table.states.is_none() && table.rows.len() < found.count {
        put_left_out(out, table.rows.len(), found.count, found.noun);
    }
    if let Some((columns, rows)) = &table.totals
        && rows.len() > 1
    {
        out.put_byte(b'\n');
        let (columns, for_programs) = (columns.clone(), table.for_programs);
        let totals = Table { columns, rows: rows.clone().into(), for_programs, ..Table::default() };
        let all = FoundRows { count: rows.len(), noun: found.noun, limit: found.limit, matrix: None };
        put_table(page, &totals, &all, style);
    }
    let width = style.width.unwrap_or(SENTENCE_WIDTH);
    table.sentences.iter().for_each(|sentence| put_wrapped(&mut page.out, "", &escaped(sentence), 2, width));
    put_notes(&mut page.out, table, style);
}

/// Makes room for rows that come without cells.
fn widen_to_states(lines: &mut TextTable<'_>, states: &StateRows, style: &TableStyle) {
    for (column, (width, is_text)) in lines.layout().columns.iter_mut().zip(state_widths(states, &style.clock)) {
        column.width = column.width.max(width);
        column.may_cut = is_text;
    }
}

fn widths_of(lines: &mut TextTable<'_>) -> Vec<usize> {
    lines.layout().columns.iter().map(|column| column.width).collect()
}

/// Puts what is to be said below a table.
fn put_notes(out: &mut Out, table: &Table, style: &TableStyle) {
    for remark in table.remarks() {
        let (color, plain) = if remark.is_warning && style.is_colored { ("\x1b[33m", "\x1b[0m") } else { ("", "") };
        out.put_fmt(format_args!("{color}{}{plain}\n", remark.text));
    }
}

/// A bar for each row: its share, or its count in a histogram.
fn bars(table: &Table, style: &TableStyle) -> Vec<String> {
    let name = if table.is_histogram { "count" } else { "share" };
    let Some(at) = table.column(name) else { return Vec::new() };
    if style.width.is_none() && !table.is_histogram && !style.is_colored {
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

#[cfg(test)]
mod tests {
    use tracemill_table::Cell;

    use super::*;

    /// A table as lines of a width, where so many threads were found.
    fn shown(table: &Table, count: usize, width: Option<usize>) -> String {
        let style = TableStyle { is_colored: false, width, clock: TableClock::seconds() };
        let mut page = Paged::default();
        tables(
            &mut page,
            std::slice::from_ref(table),
            &[FoundRows { count, noun: "threads", limit: usize::MAX, matrix: None }],
            true,
            &style,
        );
        String::from_utf8(page.out.written().to_vec()).expect("text")
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

    #[test]
    fn trees_are_indented_and_have_no_column_of_depths() {
        let expected = "tid    comm  user_us\n0      sh      1.500\n1        sh    1.500\n(all)          3.000\n";
        assert_eq!(shown(&lives(&[0, 1]), 2, None), expected);
        let mut page = Paged::default();
        super::super::analyze_rows::lines(&mut page, &[lives(&[0, 1])], true);
        assert!(page.out.written().ends_with(b"\"comm\":\"sh\",\"user_ns\":1500,\"depth\":1}\n"));
        // A chain does not move out of sight.
        let deepest = shown(&lives(&[0, 1_000_000]), 2, None).lines().map(str::len).max();
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
        let at = |width: usize| shown(&table, 3, Some(width));
        let narrow = "name              count\n…kery/orders.log      1\nclock_nanosleep       1\nread                  1\n\
                      too wide for the\n  terminal, left out:\n  bytes\n";
        assert_eq!(at(23), narrow);
        assert!(at(80).starts_with("name                        count          bytes\n/var/log/bakery/orders.log  "));
        assert!(at(40).contains("\n…bakery/orders.log      1  1099511627776\n"), "{}", at(40));
    }

    #[test]
    fn numbers_are_not_cut_and_what_says_least_is_left_out_first() {
        let columns = [
            ("uaddr", Unit::Address),
            ("from", Unit::Time),
            ("to", Unit::Time),
            ("duration_ns", Unit::Duration),
            ("ret", Unit::Name),
        ];
        let row = [139_888_628_339_520i128, 1_000_000_000, 2_000_000_000, 1_000_000_000, 0].map(Cell::Integer);
        let table = Table {
            analysis: "locks",
            columns: columns.map(|(name, unit)| Column::new(name, unit).spared((name == "to").then_some(0))).into(),
            rows: vec![row.to_vec()].into(),
            ..Table::default()
        };
        let expected = "uaddr                from_s  duration_us  ret\n\
                        0x7f3a5c001340  1.000000000  1000000.000  0\ntoo wide for the terminal, left out: to_s\n";
        assert_eq!(shown(&table, 1, Some(48)), expected);
    }

    #[test]
    fn rows_left_out_are_in_the_last_line() {
        assert_eq!(shown(&lives(&[0]), 1, None), "tid  comm  user_us\n0    sh      1.500\n");
        let limited = "tid    comm  user_us\n0      sh      1.500\n(all)          3.000\n1 of 2 threads\n";
        assert_eq!(shown(&lives(&[0]), 2, None), limited);
    }
}
