//! Events gathered into batches of rows.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::interleave::interleave;
use tracemill_codec::plan::{DecoderState, Fault};
use tracemill_codec::text::fields_json::{JsonTrace, ScopedFields};
use tracemill_codec::text::out::Out;
use tracemill_model::schema::{EventClassId, Scope};

use crate::class_rows::{ClassRows, first_fault};
use crate::database::Database;
use crate::event_columns::{ColumnBuilder, SelectedEvents};
use crate::table::{FieldColumn, TableColumn};

/// Gathers the rows of some columns.
pub(crate) struct Gatherer {
    database: Arc<Database>,
    columns: Vec<Gathered>,
    schema: SchemaRef,
    rows: usize,
    /// Gatherers of fields, and for each row which of them has it and where.
    classes: Vec<ClassRows>,
    /// By trace and class the number of its gatherer, from 1.
    class_at: Vec<Vec<u32>>,
    places: Vec<(usize, usize)>,
    has_fields: bool,
    /// Events of a chunk by their gatherer.
    sorted: Vec<Vec<u32>>,
    /// By trace what prints scopes.
    printers: Vec<Option<JsonTrace>>,
    state: DecoderState,
}

/// A column in the making.
enum Gathered {
    Event(Box<dyn ColumnBuilder>),
    Json(JsonTexts),
    /// Its rows are with those of the classes.
    Field(Arc<FieldColumn>),
}

/// The JSON of a scope of each event.
struct JsonTexts {
    scope: Scope,
    texts: StringBuilder,
    bytes: usize,
}

impl Gatherer {
    /// An empty gatherer of these columns, whose fields the schema has.
    pub(crate) fn new(database: &Arc<Database>, columns: &[TableColumn], schema: &SchemaRef) -> Gatherer {
        let gathered = |column: &TableColumn| match column {
            TableColumn::Event(column) => Gathered::Event(column.builder(database)),
            TableColumn::Json(scope) => {
                Gathered::Json(JsonTexts { scope: *scope, texts: StringBuilder::new(), bytes: 0 })
            }
            TableColumn::Field(field) => Gathered::Field(field.clone()),
        };
        Gatherer {
            database: database.clone(),
            has_fields: columns.iter().any(|column| matches!(column, TableColumn::Field(_))),
            columns: columns.iter().map(gathered).collect(),
            schema: schema.clone(),
            rows: 0,
            classes: Vec::new(),
            class_at: vec![Vec::new(); database.session.traces.len()],
            places: Vec::new(),
            sorted: Vec::new(),
            printers: database.session.traces.iter().map(|_| None).collect(),
            state: DecoderState::default(),
        }
    }

    /// Rows that wait.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows, where there are no columns.
    pub(crate) fn add_rows(&mut self, rows: usize) {
        self.rows += rows;
    }

    /// Is it time to take the rows out, before they take too much memory?
    pub(crate) fn is_full(&self, rows: usize) -> bool {
        let of_texts = |column: &Gathered| match column {
            Gathered::Json(texts) => texts.bytes,
            Gathered::Event(_) | Gathered::Field(_) => 0,
        };
        let of_fields = || self.classes.iter().map(ClassRows::bytes).sum::<usize>();
        self.rows >= rows
            || self.columns.iter().map(of_texts).sum::<usize>() >= MOST_BYTES
            || (self.has_fields && of_fields() >= MOST_BYTES)
    }

    /// Appends rows.
    ///
    /// # Errors
    /// The first error of an event that cannot be read again, with its place in the packet. All events have a row.
    pub(crate) fn push(&mut self, selected: &SelectedEvents<'_>) -> Result<(), Fault> {
        self.rows += selected.events.len();
        let mut result = Ok(());
        for column in &mut self.columns {
            match column {
                Gathered::Event(column) => column.push(selected, &self.database),
                Gathered::Json(texts) => {
                    let trace = selected.selected_stream(&self.database).trace;
                    let schema = &self.database.session.traces[trace].schema;
                    let printer = self.printers[trace].get_or_insert_with(|| JsonTrace::new(schema.clone()));
                    result = first_fault(result, texts.push(selected, printer));
                }
                Gathered::Field(_) => {}
            }
        }
        if self.has_fields {
            result = first_fault(result, self.push_fields(selected));
        }
        result
    }

    fn push_fields(&mut self, selected: &SelectedEvents<'_>) -> Result<(), Fault> {
        let (chunk, trace) = (selected.chunk, selected.selected_stream(&self.database).trace);
        self.sorted.iter_mut().for_each(Vec::clear);
        for &at in selected.events {
            let class = chunk.class(at as usize);
            let index = match self.class_at[trace].get(class.0 as usize) {
                Some(&number) if number > 0 => number as usize - 1,
                _ => self.enter((trace, class)),
            };
            if self.sorted.len() <= index {
                self.sorted.resize_with(index + 1, Vec::new);
            }
            let rows = &mut self.sorted[index];
            self.places.push((index, self.classes[index].rows + rows.len()));
            rows.push(at);
        }
        let mut result = Ok(());
        for (class, events) in self.classes.iter_mut().zip(&self.sorted) {
            if !events.is_empty() {
                result = first_fault(result, class.push(chunk, events, &mut self.state));
            }
        }
        result
    }

    #[cold]
    fn enter(&mut self, class: (usize, EventClassId)) -> usize {
        let fields = self.columns.iter().filter_map(|column| match column {
            Gathered::Field(field) => Some(&**field),
            Gathered::Event(_) | Gathered::Json(_) => None,
        });
        let rows = ClassRows::new(&self.database, class, fields);
        self.classes.push(rows);
        let (trace, at) = (class.0, class.1.0 as usize);
        let of_trace = &mut self.class_at[trace];
        if of_trace.len() <= at {
            of_trace.resize(at + 1, 0);
        }
        of_trace[at] = self.classes.len() as u32;
        self.classes.len() - 1
    }

    /// Takes all rows out.
    ///
    /// # Errors
    /// When Arrow refuses an array, which is an error of this crate.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let arrays = self.classes.iter_mut().map(|class| class.take(&self.database)).collect::<Result<Vec<_>, _>>()?;
        let places = std::mem::take(&mut self.places);
        let mut field = 0;
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            columns.push(match column {
                Gathered::Event(column) => column.finish()?,
                Gathered::Json(texts) => texts.finish(),
                Gathered::Field(column) => {
                    field += 1;
                    field_column(column, &arrays, field - 1, &places)?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
    }
}

impl JsonTexts {
    fn push(&mut self, selected: &SelectedEvents<'_>, printer: &mut JsonTrace) -> Result<(), Fault> {
        let (mut out, mut result) = (Out::default(), Ok(()));
        for &at in selected.events {
            out.clear();
            let event = selected.chunk.event(at as usize);
            match printer.scope(&mut out, selected.stream, event, &mut ScopedFields::default(), self.scope, b"") {
                Ok(true) => self.texts.append_value(String::from_utf8_lossy(out.written())),
                Ok(false) => self.texts.append_null(),
                Err(fault) => {
                    self.texts.append_null();
                    result = first_fault(result, Err(fault));
                }
            }
            self.bytes += out.len();
        }
        result
    }

    fn finish(&mut self) -> ArrayRef {
        self.bytes = 0;
        Arc::new(self.texts.finish())
    }
}

/// Bytes of texts and fields of a batch.
const MOST_BYTES: usize = 8 << 20;

/// A column of fields from the arrays of the classes.
fn field_column(
    column: &FieldColumn,
    arrays: &[Vec<Option<ArrayRef>>],
    field: usize,
    places: &[(usize, usize)],
) -> Result<ArrayRef, ArrowError> {
    if places.is_empty() {
        return Ok(new_null_array(&column.data_type, 0));
    }
    if let [only] = arrays {
        return Ok(match &only[field] {
            Some(array) => array.clone(),
            None => new_null_array(&column.data_type, places.len()),
        });
    }
    // A class without the field has a NULL for all of its rows.
    let null = new_null_array(&column.data_type, 1);
    let sources: Vec<&dyn Array> = arrays.iter().map(|of| of[field].as_ref().unwrap_or(&null).as_ref()).collect();
    let of = |&(class, row): &(usize, usize)| (class, if arrays[class][field].is_some() { row } else { 0 });
    let indices: Vec<(usize, usize)> = places.iter().map(of).collect();
    interleave(&sources, &indices)
}
