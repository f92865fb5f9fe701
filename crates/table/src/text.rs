//! Tables for people: the cells of all rows are looked at once for the widths of columns, and once to be written.

use std::fmt::Write;

use tracemill_codec::text::out::Out;

use crate::cells::{put_shown, quick_width};
use crate::clock::TableClock;
use crate::column::{Column, Unit};
use crate::layout::{Layout, LayoutColumn, end_line};
use crate::value::Value;
use crate::widths::count;

/// How a table looks.
pub struct TableStyle {
    /// Are titles bold?
    pub is_colored: bool,
    /// Characters of a line at most; `None` for a file, which has room for all.
    pub width: Option<usize>,
    /// How times are shown.
    pub clock: TableClock,
}

impl TableStyle {
    /// A value as text.
    pub fn format_value(&self, value: Value<'_>, unit: Unit) -> String {
        let mut out = Out::default();
        put_shown(&mut out, value, unit, &self.clock);
        String::from_utf8_lossy(out.written()).into_owned()
    }

    /// The title of a column.
    pub fn title(&self, column: &Column) -> String {
        column.title(self.clock.is_seconds())
    }
}

/// A table on its way: columns, each with its place in rows, and their widths so far.
pub struct TextTable<'t> {
    columns: Vec<(usize, &'t Column)>,
    layout: Layout,
    style: &'t TableStyle,
    /// The place of the column whose names stand deeper, and that of their depth.
    tree: Option<(usize, usize)>,
    /// The cell that is looked at.
    cell: Out,
}

/// Levels of a tree that are indented; deeper ones stand below each other, so that chains do not fill the terminal.
const MAX_INDENT: i128 = 20;

impl<'t> TextTable<'t> {
    /// A table of columns with their places in rows; so far there is room for the titles.
    pub fn new(columns: Vec<(usize, &'t Column)>, style: &'t TableStyle) -> Self {
        let layout = columns.iter().map(|(_, column)| {
            let width = count(style.title(column).as_bytes());
            LayoutColumn::new(column.unit.align(), width).spared(column.spare)
        });
        TextTable { layout: Layout::new(layout), columns, style, tree: None, cell: Out::default() }
    }

    /// The table, where names in one place of a row are indented by the number in another one.
    pub fn with_tree(self, names: Option<usize>, depths: Option<usize>) -> Self {
        TextTable { tree: names.zip(depths), ..self }
    }

    /// The columns and their widths.
    pub fn layout(&mut self) -> &mut Layout {
        &mut self.layout
    }

    /// Makes room for a row.
    pub fn widen_by(&mut self, row: &[Value<'_>]) {
        for at in 0..self.columns.len() {
            let (place, column) = self.columns[at];
            let value = row[place];
            let is_text = column.unit == Unit::Name && !matches!(value, Value::Null | Value::Integer(_));
            let chars = self.quick_width(at, value).unwrap_or_else(|| {
                self.put_value(at, row);
                count(self.cell.written())
            });
            let column = &mut self.layout.columns[at];
            column.may_cut |= is_text;
            column.width = column.width.max(chars);
        }
    }

    /// Makes room for a line of texts.
    pub fn widen(&mut self, cell: impl Fn(&Column) -> String) {
        let cells: Vec<String> = self.columns.iter().map(|(_, column)| cell(column)).collect();
        self.layout.widen(&cells);
    }

    /// Makes lines at most this long; gives the titles of columns that had to be left out.
    pub fn fit(&mut self, most: usize) -> Vec<String> {
        let kept = self.layout.fit(most);
        let left_out = (0..self.columns.len()).filter(|at| !kept.contains(at));
        let left_out = left_out.map(|at| self.style.title(self.columns[at].1)).collect();
        self.columns = kept.iter().map(|&at| self.columns[at]).collect();
        left_out
    }

    /// Puts the titles.
    pub fn put_titles(&mut self, out: &mut Out) {
        let bold: [&[u8]; 2] = if self.style.is_colored { [b"\x1b[1m", b"\x1b[0m"] } else { [b"", b""] };
        out.put(bold[0]);
        self.write_row(out, |column| self.style.title(column));
        out.truncate(out.len() - 1);
        out.put(bold[1]);
        out.put_byte(b'\n');
    }

    /// Puts a line of texts.
    pub fn write_row(&self, out: &mut Out, cell: impl Fn(&Column) -> String) {
        let cells: Vec<String> = self.columns.iter().map(|(_, column)| cell(column)).collect();
        self.layout.put_line(out, &cells);
    }

    /// Puts a row, with a bar after it.
    pub fn put_row(&mut self, out: &mut Out, row: &[Value<'_>], bar: Option<&str>) {
        let begin = out.len();
        for at in 0..self.columns.len() {
            let (place, column) = self.columns[at];
            let chars = self.quick_width(at, row[place]);
            if let Some(chars) = chars.filter(|chars| *chars <= self.layout.columns[at].width) {
                let put = |out: &mut Out| put_shown(out, row[place], column.unit, &self.style.clock);
                self.layout.put_measured(out, at, chars, put);
                continue;
            }
            self.put_value(at, row);
            self.layout.put_cell(out, at, self.cell.written());
        }
        if let Some(bar) = bar {
            out.put(b"  ");
            out.put(bar.as_bytes());
        }
        end_line(out, begin);
    }

    /// The width of a value that is known before it is written.
    #[inline]
    fn quick_width(&self, at: usize, value: Value<'_>) -> Option<usize> {
        let (place, column) = self.columns[at];
        match self.tree {
            Some((names, _)) if names == place => None,
            _ => quick_width(value, column.unit, &self.style.clock),
        }
    }

    /// Writes a value to the cell.
    fn put_value(&mut self, at: usize, row: &[Value<'_>]) {
        let (place, column) = self.columns[at];
        self.cell.clear();
        if let Some((names, depths)) = self.tree
            && names == place
            && let Value::Integer(depth) = row[depths]
        {
            self.cell.put("  ".repeat(depth.clamp(0, MAX_INDENT) as usize).as_bytes());
        }
        put_shown(&mut self.cell, row[place], column.unit, &self.style.clock);
    }
}

/// A bar that is so many characters long, with eighths.
pub fn bar(length: f64) -> String {
    let eighths = (length * 8.0).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    text.push_str(["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]);
    text
}

/// Puts a paragraph in lines of a width: a first word, and a text whose later lines are indented.
pub fn put_wrapped(out: &mut impl Write, first: &str, text: &str, indent: usize, width: usize) {
    let mut at = count(first.as_bytes());
    // Writing to memory cannot fail.
    let _ = out.write_str(first);
    for (number, word) in text.split(' ').enumerate() {
        let chars = count(word.as_bytes());
        let _ = match number {
            0 => Ok(()),
            _ if at + 1 + chars > width => {
                at = indent;
                write!(out, "\n{:indent$}", "")
            }
            _ => {
                at += 1;
                out.write_char(' ')
            }
        };
        let _ = out.write_str(word);
        at += chars;
    }
    let _ = out.write_char('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: &mut TextTable<'_>, rows: &[[Value<'_>; 3]]) -> String {
        let mut out = Out::default();
        table.put_titles(&mut out);
        rows.iter().for_each(|row| table.put_row(&mut out, row, None));
        String::from_utf8(out.written().to_vec()).expect("a text")
    }

    fn style(is_colored: bool) -> TableStyle {
        TableStyle { is_colored, width: None, clock: TableClock::seconds() }
    }

    #[test]
    fn names_of_a_tree_stand_below_their_parents() {
        let columns =
            [Column::new("name", Unit::Name), Column::new("n", Unit::Count), Column::new("depth", Unit::Name)];
        let rows = [("init", 0), ("sh", 1), ("chain", 1_000_000)]
            .map(|(name, depth)| [Value::Text(name), Value::Integer(7), Value::Integer(depth)]);
        let style = style(false);
        let shown = columns.iter().enumerate().take(2).collect();
        let mut table = TextTable::new(shown, &style).with_tree(Some(0), Some(2));
        rows.iter().for_each(|row| table.widen_by(row));
        let deep = MAX_INDENT as usize * 2;
        let wanted = [("name", "n"), ("init", "7"), ("  sh", "7"), (&format!("{:deep$}chain", ""), "7")];
        let width = deep + "chain".len();
        let wanted = wanted.map(|(name, n)| format!("{name:width$}  {n}\n"));
        assert_eq!(written(&mut table, &rows), wanted.concat());
    }

    #[test]
    fn narrow_tables_cut_names_and_no_numbers() {
        let columns = [
            Column::new("file", Unit::Name),
            Column::new("from", Unit::Time).spared(Some(0)),
            Column::new("ret", Unit::Name),
        ];
        let row = |file| [Value::Text(file), Value::Integer(1_000_000_000), Value::Integer(139_888_628_339_520)];
        let rows = [row("/var/log/orders"), row("a\u{1b}[1m"), row("µs")];
        let style = style(true);
        let mut table = TextTable::new(columns.iter().enumerate().collect(), &style);
        rows.iter().for_each(|row| table.widen_by(row));
        assert_eq!(table.layout().width(), 15 + 2 + 11 + 2 + 15);
        assert_eq!(table.fit(29), ["from_s"]);
        let wanted = "\x1b[1mfile          ret\x1b[0m\n…/log/orders  139888628339520\na\\u{1b}[1m    139888628339520\n\
                      µs            139888628339520\n";
        assert_eq!(written(&mut table, &rows), wanted);
    }

    #[test]
    fn bars_have_eighths() {
        assert_eq!([0.0, 0.06, 0.125, 2.5, 3.0].map(bar), ["", "", "▏", "██▌", "███"]);
    }

    #[test]
    fn later_lines_of_a_paragraph_are_indented() {
        let mut text = String::new();
        put_wrapped(&mut text, "  so: ", "one two µµµ four", 6, 13);
        put_wrapped(&mut text, "", "averylongword a", 2, 5);
        assert_eq!(text, "  so: one two\n      µµµ\n      four\naverylongword\n  a\n");
    }
}
