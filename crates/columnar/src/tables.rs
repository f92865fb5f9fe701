//! Tables: rows that wait, and the file that they go to.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{DataType, Field, Schema};
use tracemill_columns::{Columns, Dropped};
use tracemill_format::OutPath;
use tracemill_model::error::Result;

use crate::sink::{Form, Shared, Sink, failed};

/// Rows of a batch.
pub(crate) const BATCH_ROWS: usize = 1 << 13;

/// A column of numbers or names that are not fields.
pub(crate) enum Plain {
    /// Unsigned, 64 bits.
    U64(Vec<u64>, NullBufferBuilder),
    /// Unsigned, 32 bits.
    U32(Vec<u32>, NullBufferBuilder),
    /// Signed, 64 bits.
    I64(Vec<i64>, NullBufferBuilder),
    /// Texts.
    Text(Vec<Option<String>>),
    /// Texts that are known before, by their index.
    Name(Vec<i32>, NullBufferBuilder, ArrayRef),
}

impl Plain {
    pub(crate) fn u64() -> Self {
        Plain::U64(Vec::new(), NullBufferBuilder::new(0))
    }

    pub(crate) fn u32() -> Self {
        Plain::U32(Vec::new(), NullBufferBuilder::new(0))
    }

    pub(crate) fn i64() -> Self {
        Plain::I64(Vec::new(), NullBufferBuilder::new(0))
    }

    /// A column of some of these names.
    pub(crate) fn name(names: Vec<String>) -> Self {
        Plain::Name(Vec::new(), NullBufferBuilder::new(0), Arc::new(StringArray::from(names)))
    }

    fn data_type(&self) -> DataType {
        match self {
            Plain::U64(..) => DataType::UInt64,
            Plain::U32(..) => DataType::UInt32,
            Plain::I64(..) => DataType::Int64,
            Plain::Text(_) => DataType::Utf8,
            Plain::Name(..) => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        }
    }

    /// Appends a number, or an index of a name.
    #[inline]
    pub(crate) fn push(&mut self, value: Option<u64>) {
        let number = value.unwrap_or_default();
        let nulls = match self {
            Plain::U64(values, nulls) => {
                values.push(number);
                nulls
            }
            Plain::U32(values, nulls) => {
                values.push(number as u32);
                nulls
            }
            Plain::I64(values, nulls) => {
                values.push(number as i64);
                nulls
            }
            Plain::Name(values, nulls, _) => {
                values.push(number as i32);
                nulls
            }
            Plain::Text(values) => return values.push(value.map(|number| number.to_string())),
        };
        match value {
            Some(_) => nulls.append_non_null(),
            None => nulls.append_null(),
        }
    }

    /// Appends numbers, or indices of names: the kind of the column is looked at once for all of them.
    pub(crate) fn extend(&mut self, values: impl Iterator<Item = Option<u64>>) {
        macro_rules! extend {
            ($numbers:expr, $nulls:expr, $type:ty) => {
                for value in values {
                    $numbers.push(value.unwrap_or_default() as $type);
                    $nulls.append(value.is_some());
                }
            };
        }
        match self {
            Plain::U64(numbers, nulls) => extend!(numbers, nulls, u64),
            Plain::U32(numbers, nulls) => extend!(numbers, nulls, u32),
            Plain::I64(numbers, nulls) => extend!(numbers, nulls, i64),
            Plain::Name(numbers, nulls, _) => extend!(numbers, nulls, i32),
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
            Plain::U64(values, nulls) => Arc::new(UInt64Array::try_new(std::mem::take(values).into(), nulls.finish())?),
            Plain::U32(values, nulls) => Arc::new(UInt32Array::try_new(std::mem::take(values).into(), nulls.finish())?),
            Plain::I64(values, nulls) => Arc::new(Int64Array::try_new(std::mem::take(values).into(), nulls.finish())?),
            Plain::Text(values) => Arc::new(StringArray::from(std::mem::take(values))),
            Plain::Name(values, nulls, names) => {
                let keys = Int32Array::try_new(std::mem::take(values).into(), nulls.finish())?;
                Arc::new(DictionaryArray::<Int32Type>::try_new(keys, names.clone())?)
            }
        })
    }
}

/// A table.
pub(crate) struct Table {
    schema: Shared,
    /// Columns that are not fields, in the order of the schema.
    pub(crate) plain: Vec<Plain>,
    /// Columns of fields.
    pub(crate) trees: Vec<Columns>,
    /// Rows that wait.
    pub(crate) rows: usize,
    sink: Sink,
}

impl Table {
    /// Makes a table and its file. `fields` are trees of columns with the names of their roots.
    pub(crate) fn new(
        form: Form,
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
        let sink = Sink::new(form, &path, &schema)?;
        let plain = plain.into_iter().map(|(_, column)| column).collect();
        Ok(Table { schema, plain, trees, rows: 0, sink })
    }

    /// About how many bytes wait to become a batch.
    pub(crate) fn bytes(&self) -> usize {
        self.rows * 24 + self.trees.iter().map(Columns::bytes).sum::<usize>()
    }

    /// Bytes that wait in the file's writer.
    pub(crate) fn waiting(&self) -> usize {
        self.sink.waiting
    }

    /// Writes what waits as a batch.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let batch = self.batch().map_err(|error| failed(std::path::Path::new(""), &error))?;
        self.sink.write(&batch)
    }

    fn batch(&mut self) -> std::result::Result<RecordBatch, arrow_schema::ArrowError> {
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for column in &mut self.plain {
            columns.push(column.take()?);
        }
        for tree in &mut self.trees {
            columns.extend(tree.take()?);
        }
        RecordBatch::try_new(self.schema.clone(), columns)
    }

    /// Writes what waits in the file's writer too.
    pub(crate) fn shed(&mut self) -> Result<()> {
        self.flush()?;
        self.sink.shed()
    }

    /// Is its file open?
    pub(crate) fn is_open(&mut self) -> bool {
        self.sink.is_open()
    }

    /// Closes the file until there is something to write again.
    pub(crate) fn rest(&mut self) {
        self.sink.rest();
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
