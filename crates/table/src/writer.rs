//! Rows that come one by one, in any form of text.

use std::collections::VecDeque;

use tracemill_codec::text::csv::put_line;
use tracemill_codec::text::out::Out;

use crate::layout::{Align, Layout};
use crate::rows::{RowObjects, TableRow, put_csv_row};
use crate::widths::count;

/// A form of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableFormat {
    /// For people: columns below each other, as wide as the first rows need.
    Text,
    /// For people: a line for each value of a row.
    Records,
    /// Comma-separated values.
    Csv,
    /// An object a line.
    JsonLines,
    /// A list of objects.
    Json,
    /// A table of Markdown.
    Markdown,
}

/// Rows by which a table for people sizes its columns.
const SAMPLE: usize = 1000;

/// Writes the rows of one table.
pub struct TableWriter {
    format: TableFormat,
    names: Vec<String>,
    objects: RowObjects,
    /// Rows that people see at most.
    most: u64,
    /// Rows so far, and those of them that are shown.
    rows: u64,
    shown: u64,
    /// Cells that wait for the widths of their columns.
    waiting: VecDeque<Vec<String>>,
    layout: Option<Layout>,
    sides: Vec<Align>,
    /// Storage of a text on its way.
    text: Out,
}

impl TableWriter {
    /// A writer of rows with columns of these names. In the forms for people it shows `most` rows; `None` for all.
    pub fn new(format: TableFormat, names: Vec<String>, most: Option<usize>) -> Self {
        let is_for_people = matches!(format, TableFormat::Text | TableFormat::Records);
        TableWriter {
            format,
            objects: RowObjects::new(&names),
            names,
            most: most.filter(|_| is_for_people).map_or(u64::MAX, |most| most as u64),
            rows: 0,
            shown: 0,
            waiting: VecDeque::new(),
            layout: None,
            sides: Vec::new(),
            text: Out::default(),
        }
    }

    /// The writer, where rows have members by their kinds; see [`RowObjects::with_kinds`].
    pub fn with_kinds(self, kinds: Vec<(usize, Vec<bool>)>) -> Self {
        TableWriter { objects: self.objects.with_kinds(kinds), ..self }
    }

    /// Puts what stands before the rows.
    pub fn begin(&mut self, out: &mut Out) {
        match self.format {
            TableFormat::Csv => put_line(out, &self.names),
            TableFormat::Json => out.put_byte(b'['),
            TableFormat::Markdown => {
                out.put_byte(b'|');
                self.names.iter().for_each(|name| out.put_fmt(format_args!(" {} |", name.replace('|', "\\|"))));
                out.put_fmt(format_args!("\n|{}\n", " --- |".repeat(self.names.len())));
            }
            TableFormat::Text | TableFormat::Records | TableFormat::JsonLines => {}
        }
    }

    /// Puts a row.
    #[inline]
    pub fn write_row<R: TableRow + ?Sized>(&mut self, out: &mut Out, row: &R) {
        self.rows += 1;
        if self.rows > self.most {
            return;
        }
        self.shown = self.rows;
        match self.format {
            TableFormat::Csv => put_csv_row(out, row, self.names.len(), &mut self.text),
            TableFormat::JsonLines => {
                self.objects.write_row(out, row);
                out.put_byte(b'\n');
            }
            TableFormat::Json => {
                out.put(if self.rows == 1 { b"" } else { b",\n" });
                self.objects.write_row(out, row);
            }
            TableFormat::Markdown => self.put_markdown(out, row),
            TableFormat::Records => self.put_record(out, row),
            TableFormat::Text => self.wait(out, row),
        }
    }

    /// Puts what stands after the rows; gives the number of those that are not shown.
    pub fn end(&mut self, out: &mut Out) -> u64 {
        match self.format {
            TableFormat::Json => out.put(b"]\n"),
            TableFormat::Text => self.put_waiting(out),
            _ => {}
        }
        self.rows - self.shown
    }

    fn put_markdown(&mut self, out: &mut Out, row: &(impl TableRow + ?Sized)) {
        out.put_byte(b'|');
        for at in 0..self.names.len() {
            self.text.clear();
            row.put_text(&mut self.text, at);
            let text = String::from_utf8_lossy(self.text.written()).replace('|', "\\|").replace('\n', " ");
            out.put_fmt(format_args!(" {text} |"));
        }
        out.put_byte(b'\n');
    }

    fn put_record(&mut self, out: &mut Out, row: &(impl TableRow + ?Sized)) {
        out.put_fmt(format_args!("-[ {} ]-\n", self.rows));
        let layout = Layout::list(&[self.names.iter().map(|name| count(name.as_bytes())).max().unwrap_or(0)]);
        for (at, name) in self.names.iter().enumerate() {
            layout.put_line(out, &[name.as_str(), &format!("| {}", without_controls(row, at, &mut self.text))]);
        }
    }

    /// Keeps a row until enough of them say how wide columns are.
    fn wait(&mut self, out: &mut Out, row: &(impl TableRow + ?Sized)) {
        let columns = 0..self.names.len();
        if self.sides.is_empty() {
            self.sides = columns.clone().map(|at| row.align(at)).collect();
        }
        self.waiting.push_back(columns.map(|at| without_controls(row, at, &mut self.text)).collect());
        if self.layout.is_some() || self.waiting.len() >= SAMPLE {
            self.put_waiting(out);
        }
    }

    fn put_waiting(&mut self, out: &mut Out) {
        let TableWriter { names, sides, waiting, layout, .. } = self;
        let layout = layout.get_or_insert_with(|| {
            let sides = (0..names.len()).map(|at| sides.get(at).copied().unwrap_or(Align::Left));
            let mut layout = Layout::with_alignments(sides);
            layout.widen(names);
            waiting.iter().for_each(|row| layout.widen(row));
            layout.put_line(out, names);
            let rules: Vec<String> = layout.columns.iter().map(|column| "-".repeat(column.width)).collect();
            layout.put_line(out, &rules);
            layout
        });
        waiting.drain(..).for_each(|row| layout.put_line(out, &row));
    }
}

/// The text of a cell, with blanks in the place of signs that a terminal obeys.
fn without_controls(row: &(impl TableRow + ?Sized), at: usize, text: &mut Out) -> String {
    text.clear();
    row.put_text(text, at);
    String::from_utf8_lossy(text.written()).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn written(format: TableFormat, rows: &[[Value<'_>; 3]], most: Option<usize>) -> (String, u64) {
        let names = ["n", "a|b", "last"].map(String::from).to_vec();
        let (mut writer, mut out) = (TableWriter::new(format, names, most), Out::default());
        writer.begin(&mut out);
        rows.iter().for_each(|row| writer.write_row(&mut out, &row[..]));
        let left = writer.end(&mut out);
        (String::from_utf8(out.written().to_vec()).expect("a text"), left)
    }

    const ROWS: [[Value<'static>; 3]; 3] = [
        [Value::Integer(5), Value::Text("x|y"), Value::Bool(true)],
        [Value::Integer(-100), Value::Null, Value::Text("a\tb\n")],
        [Value::Null, Value::Text("one, \"two\""), Value::Real(0.5)],
    ];

    #[test]
    fn rows_in_each_form() {
        let of = |format| written(format, &ROWS, None).0;
        assert_eq!(
            of(TableFormat::Text),
            "   n  a|b         last\n----  ----------  ----\n   5  x|y         true\n-100              a b\n      one, \"two\"  0.5\n"
        );
        assert_eq!(of(TableFormat::Csv), "n,a|b,last\n5,x|y,true\n-100,,\"a\tb\n\"\n,\"one, \"\"two\"\"\",0.5\n");
        let json = [
            r#"{"n":5,"a|b":"x|y","last":true}"#,
            r#"{"n":-100,"a|b":null,"last":"a\tb\n"}"#,
            r#"{"n":null,"a|b":"one, \"two\"","last":0.5}"#,
        ];
        assert_eq!(of(TableFormat::JsonLines), json.join("\n") + "\n");
        assert_eq!(of(TableFormat::Json), format!("[{}]\n", json.join(",\n")));
        let markdown = "| n | a\\|b | last |\n| --- | --- | --- |\n| 5 | x\\|y | true |\n| -100 |  | a\tb  |\n|  | one, \"two\" | 0.5 |\n";
        assert_eq!(of(TableFormat::Markdown), markdown);
        assert_eq!(written(TableFormat::Records, &ROWS[1..2], None).0, "-[ 1 ]-\nn    | -100\na|b  |\nlast | a b\n");
    }

    #[test]
    fn people_see_some_rows_and_programs_all() {
        let lines = |format| (written(format, &ROWS, Some(1)).0.lines().count(), written(format, &ROWS, Some(1)).1);
        assert_eq!(lines(TableFormat::Text), (3, 2));
        assert_eq!(lines(TableFormat::Records), (4, 2));
        assert_eq!(lines(TableFormat::Csv), (5, 0));
        assert_eq!(written(TableFormat::Text, &[], None), ("n  a|b  last\n-  ---  ----\n".to_string(), 0));
        assert_eq!(written(TableFormat::Json, &[], None), ("[]\n".to_string(), 0));
    }

    #[test]
    fn columns_are_as_wide_as_the_first_rows_need() {
        let row = |n| [Value::Integer(n), Value::Word("w"), Value::Null];
        let mut rows = vec![row(7); SAMPLE];
        rows.push(row(12_345));
        let (text, left) = written(TableFormat::Text, &rows, None);
        assert_eq!((text.lines().count(), left), (SAMPLE + 3, 0));
        assert!(text.ends_with("\n7  w\n12345  w\n"), "{}", &text[text.len() - 40..]);
        rows[0] = row(12_345);
        assert!(written(TableFormat::Text, &rows, None).0.ends_with("\n    7  w\n12345  w\n"));
    }
}
