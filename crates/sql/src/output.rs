//! Answers as text and files.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tracemill_codec::text::out::Out;
use tracemill_model::error::{Error, ErrorKind};
pub use tracemill_table::TableFormat;
use tracemill_table::{Align, TableRow, TableWriter};

use crate::query::Answers;
use crate::text::Json;

/// The form of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A text.
    Text(TableFormat),
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
    pub fn from_file_name(name: &str) -> Option<Form> {
        let endings = [
            (".csv", Form::Text(TableFormat::Csv)),
            (".jsonl", Form::Text(TableFormat::JsonLines)),
            (".ndjson", Form::Text(TableFormat::JsonLines)),
            (".json", Form::Text(TableFormat::Json)),
            (".md", Form::Text(TableFormat::Markdown)),
            (".txt", Form::Text(TableFormat::Text)),
            (".arrow", Form::Arrow { seekable: true }),
            (".feather", Form::Arrow { seekable: true }),
            (".parquet", Form::Parquet),
        ];
        endings.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, form)| form)
    }
}

/// Writes answers in a form.
pub struct Writer<W: Write + Send + 'static> {
    form: Form,
    /// Rows that a table shows; `None` for all.
    shown: Option<usize>,
    out: Option<W>,
    /// Answers so far.
    count: usize,
    schema: SchemaRef,
    /// The table of an answer that is text.
    table: Option<TableWriter>,
    parquet: Option<ArrowWriter<W>>,
    stream: Option<StreamWriter<W>>,
    file: Option<FileWriter<W>>,
    is_closed: bool,
}

impl<W: Write + Send + 'static> Writer<W> {
    /// A writer; a table shows this many rows at most, `None` for all.
    pub fn new(form: Form, out: W, shown: Option<usize>) -> Self {
        Writer {
            form,
            shown,
            out: Some(out),
            count: 0,
            schema: Arc::new(Schema::empty()),
            table: None,
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

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let written = out.write_all(bytes);
        self.check(written)
    }

    /// Puts what a part of a text appends.
    fn put_text(&mut self, append: impl FnOnce(&mut TableWriter, &mut Out)) -> Result<(), Error> {
        let Some(table) = &mut self.table else { return Ok(()) };
        let mut out = Out::default();
        append(table, &mut out);
        self.write(out.written())
    }
}

/// A row of a batch.
struct BatchRow<'b> {
    columns: &'b [Json],
    row: usize,
}

impl TableRow for BatchRow<'_> {
    fn has(&self, at: usize) -> bool {
        !self.columns[at].is_null(self.row)
    }

    fn put_json(&self, out: &mut Out, at: usize) {
        self.columns[at].write_value(out, self.row);
    }

    fn put_text(&self, out: &mut Out, at: usize) {
        self.columns[at].put_cell(out, self.row);
    }

    fn align(&self, at: usize) -> Align {
        if self.columns[at].is_number() { Align::Right } else { Align::Left }
    }
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
        let is_single = matches!(self.form, Form::Text(TableFormat::Json) | Form::Arrow { .. } | Form::Parquet);
        if is_single && self.count > 0 {
            let error = Error::misuse("this form holds one answer, and there are more");
            return Err(error.with_help("ask one question, or take `--format csv` or `jsonl`"));
        }
        self.count += 1;
        let names = unique(schema);
        let fields = schema.fields().iter().zip(&names).map(|(field, name)| field.as_ref().clone().with_name(name));
        self.schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let is_later = self.count > 1;
        match self.form {
            Form::Text(format) => {
                // A text may have two columns of one name, an object cannot.
                let is_object = matches!(format, TableFormat::Json | TableFormat::JsonLines);
                let typed = || schema.fields().iter().map(|field| field.name().clone()).collect();
                self.table = Some(TableWriter::new(format, if is_object { names } else { typed() }, self.shown));
                let is_apart = matches!(format, TableFormat::Text | TableFormat::Records | TableFormat::Markdown);
                self.write(if is_later && is_apart { b"\n" } else { b"" })?;
                self.put_text(TableWriter::begin)
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
            Form::Text(_) => {
                let columns = batch.columns().iter().map(Json::new).collect::<Result<Vec<_>, _>>().map_err(refused)?;
                self.put_text(|table, out| {
                    (0..batch.num_rows()).for_each(|row| table.write_row(out, &BatchRow { columns: &columns, row }));
                })?;
            }
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
        if matches!(self.form, Form::Text(TableFormat::Csv | TableFormat::JsonLines))
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
            Form::Text(_) => {
                let mut left = 0;
                self.put_text(|table, out| left = table.end(out))?;
                let rows = if left == 1 { "row" } else { "rows" };
                match left {
                    0 => Ok(()),
                    _ => self.write(format!("({left} more {rows}; `--rows all` shows them)\n").as_bytes()),
                }
            }
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
        }
    }
}
