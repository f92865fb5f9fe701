//! Rows of the tables of what surrounds events, gathered into columns.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, ListBuilder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use datafusion::common::Result;
use tokio::sync::mpsc::Sender;

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Text,
    Texts,
    Integer,
    Unsigned,
    Real,
}

use Of::{Integer, Real, Text, Texts, Unsigned};

/// Rows in the making.
pub(crate) struct MetadataRows {
    columns: Vec<MetadataBuilder>,
    next: usize,
    pub(crate) len: usize,
    schema: SchemaRef,
    sender: Sender<Result<RecordBatch>>,
    /// Are no more of them wanted?
    pub(crate) is_closed: bool,
}

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

enum MetadataBuilder {
    Text(StringBuilder),
    Texts(ListBuilder<StringBuilder>),
    Integer(Int64Builder),
    Unsigned(UInt64Builder),
    Real(Float64Builder),
}

/// A value of a row.
pub(crate) enum MetadataValue {
    Null,
    Text(String),
    Texts(Vec<String>),
    Number(i128),
    Real(f64),
}

impl From<&str> for MetadataValue {
    fn from(text: &str) -> Self {
        MetadataValue::Text(text.into())
    }
}

impl From<String> for MetadataValue {
    fn from(text: String) -> Self {
        MetadataValue::Text(text)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl From<$number> for MetadataValue {
            fn from(number: $number) -> Self {
                MetadataValue::Number(number as i128)
            }
        })*
    };
}

numbers!(i64, u64, i128, u32, usize);

impl<T: Into<MetadataValue>> From<Option<T>> for MetadataValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(MetadataValue::Null, Into::into)
    }
}

impl MetadataRows {
    pub(crate) fn new(columns: &[(&str, Of)], schema: SchemaRef, sender: Sender<Result<RecordBatch>>) -> Self {
        let builder = |of: Of| match of {
            Text => MetadataBuilder::Text(StringBuilder::new()),
            Texts => MetadataBuilder::Texts(ListBuilder::new(StringBuilder::new())),
            Integer => MetadataBuilder::Integer(Int64Builder::new()),
            Unsigned => MetadataBuilder::Unsigned(UInt64Builder::new()),
            Real => MetadataBuilder::Real(Float64Builder::new()),
        };
        let columns = std::iter::once(builder(Text)).chain(columns.iter().map(|(_, of)| builder(*of))).collect();
        MetadataRows { columns, next: 0, len: 0, schema, sender, is_closed: false }
    }

    /// Appends a row: the trace, and what follows it.
    pub(crate) fn push<const N: usize>(&mut self, trace: &str, values: [MetadataValue; N]) {
        self.append(trace.into());
        values.into_iter().for_each(|value| self.append(value));
        self.next = 0;
        self.len += 1;
        if self.len >= BATCH_ROWS {
            self.send();
        }
    }

    fn append(&mut self, value: MetadataValue) {
        match (&mut self.columns[self.next], value) {
            (MetadataBuilder::Text(texts), MetadataValue::Text(text)) => texts.append_value(text),
            (MetadataBuilder::Text(texts), _) => texts.append_null(),
            (MetadataBuilder::Texts(lists), MetadataValue::Texts(texts)) => {
                texts.iter().for_each(|text| lists.values().append_value(text));
                lists.append(true);
            }
            (MetadataBuilder::Texts(lists), _) => lists.append(false),
            // Numbers outside of 64 bits are not known.
            (MetadataBuilder::Integer(numbers), MetadataValue::Number(number)) => {
                numbers.append_option(i64::try_from(number).ok())
            }
            (MetadataBuilder::Integer(numbers), _) => numbers.append_null(),
            (MetadataBuilder::Unsigned(numbers), MetadataValue::Number(number)) => {
                numbers.append_option(u64::try_from(number).ok())
            }
            (MetadataBuilder::Unsigned(numbers), _) => numbers.append_null(),
            (MetadataBuilder::Real(numbers), MetadataValue::Real(number)) => numbers.append_value(number),
            (MetadataBuilder::Real(numbers), _) => numbers.append_null(),
        }
        self.next += 1;
    }

    /// Gives away the rows that are there.
    pub(crate) fn send(&mut self) {
        self.len = 0;
        let batch = self.batch().map_err(Into::into);
        self.is_closed |= self.sender.blocking_send(batch).is_err();
    }

    fn batch(&mut self) -> std::result::Result<RecordBatch, ArrowError> {
        let column = |builder: &mut MetadataBuilder| -> ArrayRef {
            match builder {
                MetadataBuilder::Text(texts) => Arc::new(texts.finish()),
                MetadataBuilder::Texts(lists) => Arc::new(lists.finish()),
                MetadataBuilder::Integer(numbers) => Arc::new(numbers.finish()),
                MetadataBuilder::Unsigned(numbers) => Arc::new(numbers.finish()),
                MetadataBuilder::Real(numbers) => Arc::new(numbers.finish()),
            }
        };
        RecordBatch::try_new(self.schema.clone(), self.columns.iter_mut().map(column).collect())
    }
}
