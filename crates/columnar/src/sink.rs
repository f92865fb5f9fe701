//! Files of tables: rows go in as batches. Thousands of them may be written at once, so files are opened when there is
//! something to write and closed when too many are open.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::SchemaRef;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, LogicalType, Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use tracemill_format::{OutPath, SinkFile};
use tracemill_model::error::{Error, ErrorKind, Result};

/// The form of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileForm {
    /// Parquet.
    Parquet,
    /// Arrow's IPC file, also called Feather.
    Arrow,
}

impl FileForm {
    /// Extension of its files.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            FileForm::Parquet => "parquet",
            FileForm::Arrow => "arrow",
        }
    }
}

/// Bytes that are kept before they are written.
const BUFFER: usize = 1 << 18;
/// The step that writes a table, for errors.
const WRITING: &str = "write the table";
/// Rows of a row group of Parquet.
const GROUP_ROWS: usize = 1 << 18;

/// A file that is open only while it is written.
pub(crate) struct LazyFile {
    path: OutPath,
    file: Option<Box<dyn SinkFile>>,
    waiting: Vec<u8>,
}

impl LazyFile {
    fn new(path: &OutPath) -> io::Result<Self> {
        // The file is there from now on, even without rows.
        path.sink().create_new(path.path())?;
        Ok(LazyFile { path: path.clone(), file: None, waiting: Vec::new() })
    }

    fn write_out(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(self.path.sink().append(self.path.path())?),
        };
        file.write_all(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

impl Write for LazyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= BUFFER {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_out()
    }
}

enum BatchWriter {
    Parquet(Box<ArrowWriter<LazyFile>>),
    Arrow(Box<FileWriter<LazyFile>>),
}

/// A table on disk.
pub(crate) struct TableSink {
    path: OutPath,
    writer: BatchWriter,
    /// Bytes of encoded rows that wait for the end of their row group.
    pub(crate) waiting: usize,
}

impl TableSink {
    /// Makes a file.
    pub(crate) fn new(form: FileForm, path: &OutPath, schema: &SchemaRef) -> Result<Self> {
        let output = LazyFile::new(path).map_err(path.failed(WRITING))?;
        let writer = match form {
            FileForm::Parquet => {
                let mut properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_max_row_group_row_count(Some(GROUP_ROWS))
                    .set_statistics_enabled(EnabledStatistics::Chunk)
                    .set_offset_index_disabled(true)
                    .set_created_by(format!("tracemill {}", env!("CARGO_PKG_VERSION")));
                let columns = ArrowSchemaConverter::new().convert(schema).map_err(failed(path.path()))?;
                for column in columns.columns() {
                    let encoding = match (column.physical_type(), column.logical_type_ref()) {
                        // Few different values: a dictionary.
                        (Type::INT32, Some(LogicalType::Integer(of))) if of.bit_width <= 16 => continue,
                        (Type::INT32 | Type::INT64, _) => Encoding::DELTA_BINARY_PACKED,
                        (Type::FLOAT | Type::DOUBLE, _) => Encoding::PLAIN,
                        _ => continue,
                    };
                    let path = column.path().clone();
                    properties = properties.set_column_dictionary_enabled(path.clone(), false);
                    properties = properties.set_column_encoding(path, encoding);
                }
                let writer = ArrowWriter::try_new(output, schema.clone(), Some(properties.build()));
                BatchWriter::Parquet(Box::new(writer.map_err(failed(path.path()))?))
            }
            FileForm::Arrow => {
                BatchWriter::Arrow(Box::new(FileWriter::try_new(output, schema).map_err(failed(path.path()))?))
            }
        };
        Ok(TableSink { path: path.clone(), writer, waiting: 0 })
    }

    /// Writes rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.writer {
            BatchWriter::Parquet(writer) => {
                writer.write(batch).map_err(failed(self.path.path()))?;
                self.waiting = writer.memory_size();
            }
            BatchWriter::Arrow(writer) => writer.write(batch).map_err(failed(self.path.path()))?,
        }
        self.write_out()
    }

    /// Ends the row group, so that nothing waits.
    pub(crate) fn end_row_group(&mut self) -> Result<()> {
        if let BatchWriter::Parquet(writer) = &mut self.writer {
            writer.flush().map_err(failed(self.path.path()))?;
            self.waiting = 0;
        }
        self.write_out()
    }

    fn write_out(&mut self) -> Result<()> {
        self.output().write_out().map_err(self.path.failed(WRITING))
    }

    fn output(&mut self) -> &mut LazyFile {
        match &mut self.writer {
            BatchWriter::Parquet(writer) => writer.inner_mut(),
            BatchWriter::Arrow(writer) => writer.get_mut(),
        }
    }

    /// Is its file open?
    pub(crate) fn is_open(&mut self) -> bool {
        self.output().file.is_some()
    }

    /// Gives file and memory back until there is something to write again.
    pub(crate) fn release(&mut self) {
        let output = self.output();
        output.file = None;
        output.waiting.shrink_to_fit();
    }

    /// All rows are there.
    pub(crate) fn close(self) -> Result<()> {
        let path = self.path;
        let mut output = match self.writer {
            BatchWriter::Parquet(writer) => writer.into_inner().map_err(failed(path.path()))?,
            BatchWriter::Arrow(mut writer) => {
                writer.finish().and_then(|()| writer.into_inner()).map_err(failed(path.path()))?
            }
        };
        output.write_out().map_err(path.failed(WRITING))
    }
}

/// The error of a table that cannot be written.
pub(crate) fn failed<E: Display>(path: &Path) -> impl Fn(E) -> Error {
    move |error| Error::new(ErrorKind::Io, format!("the table cannot be written: {error}")).in_file(path)
}

/// A schema that tables share.
pub(crate) type SharedSchema = Arc<arrow_schema::Schema>;
