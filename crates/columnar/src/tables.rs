//! Tables: rows that wait, and the file that they go to.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{DataType, Field, Schema};
use tracemill_columns::{Columns, Dropped, NumberColumn};
use tracemill_format::OutPath;
use tracemill_model::error::Result;

use crate::sink::{FileForm, SharedSchema, TableSink, failed};

/// Rows of a batch.
pub(crate) const BATCH_ROWS: usize = 1 << 13;

/// A column of numbers or names that are not fields.
pub(crate) enum Plain {
    /// Numbers.
    Numbers(NumberColumn, NullBufferBuilder),
    /// Texts.
    Text(Vec<Option<String>>),
    /// Texts that are known before, by their index.
    Name(NumberColumn, NullBufferBuilder, ArrayRef),
}

impl Plain {
    pub(crate) fn u64() -> Self {
        Plain::Numbers(NumberColumn::U64(Vec::new()), NullBufferBuilder::new(0))
    }

    pub(crate) fn u32() -> Self {
        Plain::Numbers(NumberColumn::U32(Vec::new()), NullBufferBuilder::new(0))
    }

    pub(crate) fn i64() -> Self {
        Plain::Numbers(NumberColumn::I64(Vec::new()), NullBufferBuilder::new(0))
    }

    /// A column of some of these names.
    pub(crate) fn name(names: Vec<String>) -> Self {
        Plain::Name(NumberColumn::I32(Vec::new()), NullBufferBuilder::new(0), Arc::new(StringArray::from(names)))
    }

    fn data_type(&self) -> DataType {
        match self {
            Plain::Numbers(numbers, _) => numbers.data_type(),
            Plain::Text(_) => DataType::Utf8,
            Plain::Name(..) => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        }
    }

    /// Appends a number, or an index of a name.
    #[inline]
    pub(crate) fn push(&mut self, value: Option<u64>) {
        match self {
            Plain::Numbers(numbers, nulls) | Plain::Name(numbers, nulls, _) => {
                numbers.push(value.unwrap_or_default());
                nulls.append(value.is_some());
            }
            Plain::Text(values) => values.push(value.map(|number| number.to_string())),
        }
    }

    /// Appends numbers, or indices of names: the kind of the column is looked at once for all of them.
    pub(crate) fn extend(&mut self, values: impl Iterator<Item = Option<u64>>) {
        match self {
            Plain::Numbers(numbers, nulls) | Plain::Name(numbers, nulls, _) => {
                numbers.extend(values.map(|value| {
                    nulls.append(value.is_some());
                    value.unwrap_or_default()
                }));
            }
            Plain::Text(_) => values.for_each(|value| self.push(value)),
        }
    }

    /// Appends a text.
    pub(crate) fn push_text(&mut self, text: Option<&str>) {
        if let Plain::Text(values) = self {
            values.push(text.map(str::to_string));
        }
    }

    fn take(&mut self) -> std::result::Result<ArrayRef, arrow_schema::ArrowError> {
        Ok(match self {
            Plain::Numbers(numbers, nulls) => numbers.take(nulls.finish())?,
            Plain::Text(values) => Arc::new(StringArray::from(std::mem::take(values))),
            Plain::Name(indices, nulls, names) => {
                let keys = indices.take(nulls.finish())?.as_primitive::<Int32Type>().clone();
                Arc::new(DictionaryArray::try_new(keys, names.clone())?)
            }
        })
    }
}

/// A table.
pub(crate) struct EventTable {
    schema: SharedSchema,
    /// Columns that are not fields, in the order of the schema.
    pub(crate) plain: Vec<Plain>,
    /// Columns of fields.
    pub(crate) trees: Vec<Columns>,
    /// Rows that wait.
    pub(crate) rows: usize,
    pub(crate) sink: TableSink,
}

impl EventTable {
    /// Makes a table and its file. `fields` are trees of columns with the names of their roots.
    pub(crate) fn new(
        form: FileForm,
        path: OutPath,
        plain: Vec<(&str, Plain)>,
        fields: Vec<(Columns, &[&str])>,
        metadata: &[(String, String)],
    ) -> Result<Self> {
        let mut columns: Vec<Field> =
            plain.iter().map(|(name, column)| Field::new(*name, column.data_type(), true)).collect();
        let mut trees = Vec::new();
        for (tree, names) in fields {
            columns.extend(tree.fields(names));
            trees.push(tree);
        }
        let schema = Arc::new(Schema::new(columns).with_metadata(metadata.iter().cloned().collect()));
        let sink = TableSink::new(form, &path, &schema)?;
        let plain = plain.into_iter().map(|(_, column)| column).collect();
        Ok(EventTable { schema, plain, trees, rows: 0, sink })
    }

    /// About how many bytes wait to become a batch.
    pub(crate) fn bytes(&self) -> usize {
        self.rows * 24 + self.trees.iter().map(Columns::bytes).sum::<usize>()
    }

    /// Writes what waits as a batch.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let batch = self.batch().map_err(failed(std::path::Path::new("")))?;
        self.sink.write(&batch)
    }

    fn batch(&mut self) -> std::result::Result<RecordBatch, arrow_schema::ArrowError> {
        let columns: std::result::Result<Vec<_>, _> = self.plain.iter_mut().map(Plain::take).collect();
        let mut columns = columns?;
        for tree in &mut self.trees {
            columns.extend(tree.take()?);
        }
        RecordBatch::try_new(self.schema.clone(), columns)
    }

    /// Writes what waits in the file's writer too.
    pub(crate) fn flush_file(&mut self) -> Result<()> {
        self.flush()?;
        self.sink.end_row_group()
    }

    /// All rows are there. Gives the values that the columns could not hold.
    pub(crate) fn close(mut self) -> Result<Dropped> {
        self.flush()?;
        self.sink.close()?;
        let mut dropped = Dropped::default();
        self.trees.iter().for_each(|tree| dropped += tree.dropped());
        Ok(dropped)
    }
}
