//! Answers as text and files.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tracemill_codec::text::csv::{put_cell, put_line};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings::put_json;
use tracemill_model::error::{Error, ErrorKind};

use crate::query::Answers;
use crate::text::Json;

/// The form of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// For people: columns below each other.
    Table,
    /// For people: a line for each value of a row.
    Records,
    /// Comma-separated values.
    Csv,
    /// An object a line.
    Jsonl,
    /// A list of objects.
    Json,
    /// A table of Markdown.
    Markdown,
    /// Arrow's IPC stream, or file when `seekable`.
    Arrow {
        /// Does it go into a file?
        seekable: bool,
    },
    /// Apache Parquet.
    Parquet,
}

impl Form {
    /// The form that the name of a file says by its ending.
    pub fn of_file(name: &str) -> Option<Form> {
        let endings = [
            (".csv", Form::Csv),
            (".jsonl", Form::Jsonl),
            (".ndjson", Form::Jsonl),
            (".json", Form::Json),
            (".md", Form::Markdown),
            (".txt", Form::Table),
            (".arrow", Form::Arrow { seekable: true }),
            (".feather", Form::Arrow { seekable: true }),
            (".parquet", Form::Parquet),
        ];
        endings.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, form)| form)
    }
}

/// Rows by which a table sizes its columns.
const SAMPLE: usize = 1000;

/// Writes answers in a form.
pub struct Writer<W: Write + Send + 'static> {
    form: Form,
    /// Rows that a table shows; `None` for all.
    shown: Option<usize>,
    out: Option<W>,
    /// Answers so far.
    count: usize,
    names: Vec<String>,
    schema: SchemaRef,
    rows: u64,
    /// The cells of a table that wait for its widths.
    table: Table,
    parquet: Option<ArrowWriter<W>>,
    stream: Option<StreamWriter<W>>,
    file: Option<FileWriter<W>>,
    is_closed: bool,
}

#[derive(Default)]
struct Table {
    widths: Vec<usize>,
    at_right: Vec<bool>,
    waiting: VecDeque<Vec<String>>,
    printed: usize,
    is_begun: bool,
}

impl<W: Write + Send + 'static> Writer<W> {
    /// A writer; a table shows this many rows at most, `None` for all.
    pub fn new(form: Form, out: W, shown: Option<usize>) -> Self {
        Writer {
            form,
            shown,
            out: Some(out),
            count: 0,
            names: Vec::new(),
            schema: Arc::new(Schema::empty()),
            rows: 0,
            table: Table::default(),
            parquet: None,
            stream: None,
            file: None,
            is_closed: false,
        }
    }

    /// Has the reader of the output gone?
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Gives the output back, complete; `None` when it went into a file whose writer failed.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn finish(mut self) -> Result<Option<W>, Error> {
        if let Some(out) = &mut self.out {
            let flushed = out.flush();
            self.check(flushed)?;
        }
        Ok(self.out)
    }

    fn check(&mut self, result: io::Result<()>) -> Result<(), Error> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            Err(error) => Err(Error::new(ErrorKind::Io, format!("the answer cannot be written: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let written = out.write_all(bytes);
        self.check(written)
    }

    fn lines(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let columns = batch.columns().iter().map(Json::new).collect::<Result<Vec<_>, _>>().map_err(refused)?;
        let mut out = Out::default();
        for row in 0..batch.num_rows() {
            match self.form {
                Form::Csv => {
                    let mut cell = Out::default();
                    for (at, column) in columns.iter().enumerate() {
                        if at > 0 {
                            out.put_byte(b',');
                        }
                        cell.clear();
                        column.put_cell(&mut cell, row);
                        put_cell(&mut out, cell.written());
                    }
                    out.put_byte(b'\n');
                }
                Form::Jsonl | Form::Json => {
                    if self.form == Form::Json {
                        out.put(if self.rows == 0 && row == 0 { b"" } else { b",\n" });
                    }
                    out.put_byte(b'{');
                    for (at, (name, column)) in self.names.iter().zip(&columns).enumerate() {
                        if at > 0 {
                            out.put_byte(b',');
                        }
                        put_json(&mut out, name.as_bytes());
                        out.put_byte(b':');
                        column.put(&mut out, row);
                    }
                    out.put_byte(b'}');
                    if self.form == Form::Jsonl {
                        out.put_byte(b'\n');
                    }
                }
                Form::Records => {
                    let number = self.rows + row as u64 + 1;
                    if self.shown.is_some_and(|shown| number > shown as u64) {
                        break;
                    }
                    out.put_fmt(format_args!("-[ {number} ]-\n"));
                    let width = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
                    for (name, column) in self.names.iter().zip(&columns) {
                        let mut cell = Out::default();
                        column.put_cell(&mut cell, row);
                        let line = format!("{name:width$} | {}", plain(cell.written()));
                        out.put_fmt(format_args!("{}\n", line.trim_end()));
                    }
                }
                _ => {
                    out.put(b"|");
                    for column in &columns {
                        let mut cell = Out::default();
                        column.put_cell(&mut cell, row);
                        let text = String::from_utf8_lossy(cell.written()).replace('|', "\\|").replace('\n', " ");
                        out.put_fmt(format_args!(" {text} |"));
                    }
                    out.put_byte(b'\n');
                }
            }
        }
        self.put(out.written())
    }

    fn wait(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let columns = batch.columns().iter().map(Json::new).collect::<Result<Vec<_>, _>>().map_err(refused)?;
        for row in 0..batch.num_rows() {
            let shown = self.shown.unwrap_or(usize::MAX);
            if self.table.printed + self.table.waiting.len() >= shown {
                break;
            }
            let cell = |column: &Json| {
                let mut out = Out::default();
                column.put_cell(&mut out, row);
                plain(out.written())
            };
            if self.table.at_right.is_empty() {
                self.table.at_right = columns.iter().map(Json::is_number).collect();
            }
            self.table.waiting.push_back(columns.iter().map(cell).collect());
            if self.table.is_begun || self.table.waiting.len() >= SAMPLE {
                self.put_table()?;
            }
        }
        Ok(())
    }

    /// Says how many rows are not shown.
    fn put_left(&mut self, shown: u64) -> Result<(), Error> {
        let left = self.rows.saturating_sub(shown);
        if left == 0 {
            return Ok(());
        }
        let rows = if left == 1 { "row" } else { "rows" };
        self.put(format!("({left} more {rows}; `--rows all` shows them)\n").as_bytes())
    }

    fn put_table(&mut self) -> Result<(), Error> {
        let mut out = Out::default();
        let table = &mut self.table;
        let put_row = |out: &mut Out, cells: &[String], widths: &[usize], at_right: &[bool]| {
            let mut line = String::new();
            for (at, cell) in cells.iter().enumerate() {
                let gap = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
                if at > 0 {
                    line += "  ";
                }
                line += &if at_right.get(at) == Some(&true) { format!("{gap}{cell}") } else { format!("{cell}{gap}") };
            }
            out.put(line.trim_end().as_bytes());
            out.put_byte(b'\n');
        };
        if !std::mem::replace(&mut table.is_begun, true) {
            table.widths = self.names.iter().map(|name| name.chars().count()).collect();
            for row in &table.waiting {
                for (width, cell) in table.widths.iter_mut().zip(row) {
                    *width = (*width).max(cell.chars().count());
                }
            }
            put_row(&mut out, &self.names, &table.widths, &table.at_right);
            let rules: Vec<String> = table.widths.iter().map(|width| "-".repeat(*width)).collect();
            put_row(&mut out, &rules, &table.widths, &[]);
        }
        while let Some(row) = table.waiting.pop_front() {
            put_row(&mut out, &row, &table.widths, &table.at_right);
            table.printed += 1;
        }
        self.put(out.written())
    }
}

/// A cell without signs that a terminal obeys.
fn plain(cell: &[u8]) -> String {
    String::from_utf8_lossy(cell).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn refused(error: ArrowError) -> Error {
    Error::new(ErrorKind::Unsupported, format!("an answer of this type cannot be shown: {error}"))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("the answer cannot be written: {error}"))
}

/// Names of columns, each once: the second one of a name is `NAME_2`.
pub(crate) fn unique(schema: &Schema) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for field in schema.fields() {
        let (mut name, mut number) = (field.name().clone(), 2);
        while names.contains(&name) {
            name = format!("{}_{number}", field.name());
            number += 1;
        }
        names.push(name);
    }
    names
}

impl<W: Write + Send + 'static> Answers for Writer<W> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), Error> {
        let is_single = matches!(self.form, Form::Json | Form::Arrow { .. } | Form::Parquet);
        if is_single && self.count > 0 {
            let error = Error::misuse("this form holds one answer, and there are more");
            return Err(error.with_help("ask one question, or take `--format csv` or `jsonl`"));
        }
        self.count += 1;
        self.rows = 0;
        let names = unique(schema);
        let fields: Vec<Field> =
            schema.fields().iter().zip(&names).map(|(field, name)| field.as_ref().clone().with_name(name)).collect();
        self.schema = Arc::new(Schema::new(fields));
        // A text may have two columns of one name.
        self.names = match self.form {
            Form::Csv | Form::Table | Form::Records | Form::Markdown => {
                schema.fields().iter().map(|field| field.name().clone()).collect()
            }
            _ => names,
        };
        let is_later = self.count > 1;
        match self.form {
            Form::Csv => {
                let mut out = Out::default();
                put_line(&mut out, &self.names);
                self.put(out.written())
            }
            Form::Jsonl => Ok(()),
            Form::Json => self.put(b"["),
            Form::Table => {
                self.table = Table::default();
                if is_later { self.put(b"\n") } else { Ok(()) }
            }
            Form::Records => {
                if is_later {
                    self.put(b"\n")
                } else {
                    Ok(())
                }
            }
            Form::Markdown => {
                let head: Vec<String> =
                    self.names.iter().map(|name| format!(" {} |", name.replace('|', "\\|"))).collect();
                let rule = " --- |".repeat(self.names.len());
                let gap = if is_later { "\n" } else { "" };
                self.put(format!("{gap}|{}\n|{rule}\n", head.concat()).as_bytes())
            }
            Form::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let Some(out) = self.out.take() else { return Ok(()) };
                let writer = ArrowWriter::try_new(out, self.schema.clone(), Some(properties)).map_err(failed)?;
                self.parquet = Some(writer);
                Ok(())
            }
            Form::Arrow { seekable } => {
                let Some(out) = self.out.take() else { return Ok(()) };
                match seekable {
                    true => self.file = Some(FileWriter::try_new(out, &self.schema).map_err(failed)?),
                    false => self.stream = Some(StreamWriter::try_new(out, &self.schema).map_err(failed)?),
                }
                Ok(())
            }
        }
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<ControlFlow<()>, Error> {
        match self.form {
            Form::Csv | Form::Jsonl | Form::Json | Form::Markdown | Form::Records => self.lines(batch)?,
            Form::Table => self.wait(batch)?,
            Form::Parquet | Form::Arrow { .. } => {
                let batch = RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec()).map_err(refused)?;
                if let Some(writer) = &mut self.parquet {
                    writer.write(&batch).map_err(failed)?;
                }
                if let Some(writer) = &mut self.file {
                    writer.write(&batch).map_err(failed)?;
                }
                if let Some(writer) = &mut self.stream {
                    writer.write(&batch).map_err(failed)?;
                }
            }
        }
        self.rows += batch.num_rows() as u64;
        if matches!(self.form, Form::Csv | Form::Jsonl)
            && let Some(out) = &mut self.out
        {
            // Rows leave as they are made.
            let flushed = out.flush();
            self.check(flushed)?;
        }
        Ok(if self.is_closed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.form {
            Form::Json => self.put(b"]\n"),
            Form::Table => {
                self.put_table()?;
                self.put_left(self.table.printed as u64)
            }
            Form::Records => self.put_left(self.shown.map_or(self.rows, |shown| shown as u64)),
            Form::Parquet => {
                self.out = self.parquet.take().map(ArrowWriter::into_inner).transpose().map_err(failed)?;
                Ok(())
            }
            Form::Arrow { .. } => {
                if let Some(mut writer) = self.file.take() {
                    writer.finish().map_err(failed)?;
                    self.out = Some(writer.into_inner().map_err(failed)?);
                }
                if let Some(mut writer) = self.stream.take() {
                    writer.finish().map_err(failed)?;
                    self.out = Some(writer.into_inner().map_err(failed)?);
                }
                Ok(())
            }
            Form::Csv | Form::Jsonl | Form::Markdown => Ok(()),
        }
    }
}
