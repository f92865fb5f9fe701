//! The table of function calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::builder::StringBuilder;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    TimestampNanosecondArray,
};
use arrow_buffer::{NullBuffer, NullBufferBuilder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use tokio::sync::mpsc::Sender;
use tracemill_calls::CallOptions;
use tracemill_calls::completed_calls::{self, CallSink, CompletedCall};
use tracemill_calls::follow::Follower;
use tracemill_codec::text::fields_json::{JsonTrace, ScopedFields};
use tracemill_codec::text::out::Out;
use tracemill_engine::trace_calls::{EventTextFn, TraceCalls};
use tracemill_model::schema::Scope;
use tracemill_semantics::member;

use crate::database::Database;
use crate::event_columns::{names, times};
use crate::provider::{OwnTable, named_columns, streamed};

/// The table.
pub(crate) struct CallTable {
    database: Arc<Database>,
    schema: SchemaRef,
}

/// Its rows.
struct CallsTable {
    database: Arc<Database>,
    schema: SchemaRef,
    columns: Vec<CallColumn>,
}

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallColumn {
    Trace,
    Call,
    Parent,
    Ns,
    Time,
    Dur,
    Own,
    Depth,
    Name,
    Symbol,
    Lib,
    Tid,
    Pid,
    Thread,
    Cpu,
    Args,
    Retval,
}

impl CallColumn {
    const ALL: [(&'static str, CallColumn); 17] = [
        ("trace", CallColumn::Trace),
        ("call", CallColumn::Call),
        ("parent", CallColumn::Parent),
        ("ns", CallColumn::Ns),
        ("time", CallColumn::Time),
        ("dur", CallColumn::Dur),
        ("self", CallColumn::Own),
        ("depth", CallColumn::Depth),
        ("name", CallColumn::Name),
        ("symbol", CallColumn::Symbol),
        ("lib", CallColumn::Lib),
        ("tid", CallColumn::Tid),
        ("pid", CallColumn::Pid),
        ("thread", CallColumn::Thread),
        ("cpu", CallColumn::Cpu),
        ("args", CallColumn::Args),
        ("retval", CallColumn::Retval),
    ];

    fn data_type(self) -> DataType {
        match self {
            CallColumn::Trace | CallColumn::Name | CallColumn::Symbol | CallColumn::Lib | CallColumn::Thread => names(),
            CallColumn::Call
            | CallColumn::Parent
            | CallColumn::Ns
            | CallColumn::Dur
            | CallColumn::Own
            | CallColumn::Tid
            | CallColumn::Pid => DataType::Int64,
            CallColumn::Time => times(),
            CallColumn::Depth | CallColumn::Cpu => DataType::Int32,
            CallColumn::Args | CallColumn::Retval => DataType::Utf8,
        }
    }
}

impl CallTable {
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        let fields = CallColumn::ALL.into_iter().map(|(name, column)| Field::new(name, column.data_type(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        CallTable { database: database.clone(), schema }
    }
}

impl fmt::Debug for CallTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallTable")
    }
}

impl fmt::Debug for CallsTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("calls")
    }
}

impl OwnTable for CallTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn plan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Only the columns that are named are made.
        let (named, schema) = named_columns(&self.schema, projection)?;
        let columns = named.iter().map(|&at| CallColumn::ALL[at].1).collect();
        streamed(CallsTable { database: self.database.clone(), schema, columns }, None, limit)
    }
}

/// Rows of a batch, about: whether there are so many is asked now and then. Each is handed to another thread, which takes as
/// long as a thousand rows.
const BATCH_ROWS: usize = 32_768;

/// Room for the rows that come until it is asked again.
const ROOM: usize = 1024;

impl PartitionStream for CallsTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), 2);
        let mut rows = CallRows {
            database: self.database.clone(),
            schema: self.schema.clone(),
            columns: self.columns.iter().map(|&column| CallColumnBuilder::new(column)).collect(),
            len: 0,
            sender: builder.tx(),
        };
        builder.spawn_blocking(move || {
            // The receiver that has gone wants no more.
            if rows.follow() && rows.len > 0 {
                rows.send();
            }
            Ok(())
        });
        builder.build()
    }
}

/// Arguments and return values of calls, as the JSON lines of their events have them. The fields of a class that says that it
/// is a call, as those of spans do, are its arguments, or what it gives back.
fn values_of(database: &Database, trace: usize) -> EventTextFn<'_> {
    let schema = database.session.traces[trace].schema.clone();
    let mut json = JsonTrace::new(schema.clone());
    let mut out = Out::default();
    Box::new(move |event| {
        let payload = event.class().payload;
        let has_values = |name: &&str| member(&schema, Scope::Payload, payload, name).is_some();
        let name = ["args", "retval"].into_iter().find(has_values);
        if name.is_none() && event.class().call.is_none() {
            return None;
        }
        out.clear();
        let shown = json.scope(&mut out, event.stream, event.raw, &mut ScopedFields::default(), Scope::Payload, b"");
        // An event that cannot be read again was reported when its record was.
        shown.ok()?;
        let mut payload: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(out.written()).ok()?;
        match name {
            Some(name) => payload.remove(name).filter(|value| !value.is_null()).map(|value| value.to_string()),
            None => (!payload.is_empty()).then(|| serde_json::Value::Object(payload).to_string()),
        }
    })
}

/// Makes rows and sends them.
struct CallRows {
    database: Arc<Database>,
    schema: SchemaRef,
    columns: Vec<CallColumnBuilder>,
    len: usize,
    sender: Sender<Result<RecordBatch>>,
}

impl CallRows {
    /// Follows the calls of all traces; false when no more rows are wanted.
    fn follow(&mut self) -> bool {
        let database = self.database.clone();
        let is_named = |column| self.columns.iter().any(|made| made.column == column);
        let has_values = is_named(CallColumn::Args) || is_named(CallColumn::Retval);
        let mut first = 0;
        for trace in 0..database.session.traces.len() {
            let (streams, selection) = (&database.streams, &database.selection);
            let filter = database.filter.as_ref();
            let Some(calls) = TraceCalls::open(&database.session, trace, streams, selection, filter) else { continue };
            let mut follower = Follower::new(calls.source(), CallOptions::default());
            let mut wanted = calls.wanted(has_values.then(|| values_of(&database, trace)));
            self.columns.iter_mut().for_each(CallColumnBuilder::forget_numbers);
            let of_trace = database.streams.iter().find(|of| of.trace == trace);
            let has_dates = of_trace.is_some_and(|of| database.has_dates(of));
            let mut of_trace = OfTrace { rows: self, trace, calls: &calls, has_dates, first, ended: Vec::new() };
            let count = completed_calls::follow(&mut follower, &mut wanted, |time| calls.ns(time), &mut of_trace);
            let Some(count) = count else { return false };
            first += signed(count);
            let findings = follower.take_findings();
            findings.faults.into_iter().for_each(|fault| database.collector.fault(fault));
            findings.warnings.into_iter().for_each(|warning| database.collector.warning(warning));
            wanted.take_faults().into_iter().for_each(|fault| database.collector.fault(fault));
        }
        true
    }

    /// Sends the rows that are made; false when no more are wanted.
    fn send(&mut self) -> bool {
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.len)));
        let columns = self.columns.iter_mut().map(CallColumnBuilder::take).collect::<Result<Vec<_>>>();
        let batch =
            columns.and_then(|columns| Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?));
        self.sender.blocking_send(batch).is_ok()
    }
}

/// A number as columns have it: durations end with 292 years.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Takes the calls of a trace.
struct OfTrace<'a> {
    rows: &'a mut CallRows,
    trace: usize,
    calls: &'a TraceCalls<'a>,
    has_dates: bool,
    /// The number of its first call.
    first: i64,
    /// Calls that have no rows yet.
    ended: Vec<CompletedCall>,
}

impl CallSink for OfTrace<'_> {
    #[inline]
    fn push_call(&mut self, call: CompletedCall) {
        self.ended.push(call);
    }

    fn should_continue(&mut self, follower: &mut Follower<'_>) -> bool {
        let count = self.ended.len();
        let mut columns = std::mem::take(&mut self.rows.columns);
        columns.iter_mut().for_each(|made| self.fill(made, follower));
        self.rows.columns = columns;
        self.ended.clear();
        self.rows.len += count;
        self.rows.len < BATCH_ROWS || self.rows.send()
    }
}

impl OfTrace<'_> {
    /// Appends the cells of a column for all calls that have ended: column by column, as each cell alone would ask what it is.
    fn fill(&self, CallColumnBuilder { column, cells }: &mut CallColumnBuilder, follower: &mut Follower<'_>) {
        let source = self.calls.source();
        let number = |of: u64| self.first.saturating_add(signed(of));
        let task = |call: &CompletedCall| &source.tasks()[call.task as usize];
        let ns = |call: &CompletedCall| i64::try_from(self.calls.ns(call.begin)).ok();
        let calls = self.ended.iter();
        match cells {
            Cells::Signed(cells) => match *column {
                CallColumn::Call => cells.extend(calls.map(|call| Some(number(call.number)))),
                CallColumn::Parent => cells.extend(calls.map(|call| call.parent.map(number))),
                CallColumn::Dur => cells.extend(calls.map(|call| call.taken.map(signed))),
                CallColumn::Own => cells.extend(calls.map(|call| call.self_ns().map(signed))),
                CallColumn::Tid => cells.extend(calls.map(|call| Some(task(call).tid))),
                CallColumn::Pid => cells.extend(calls.map(|call| Some(task(call).pid))),
                _ => {
                    let lost = calls.clone().filter(|call| ns(call).is_none()).count();
                    self.rows.database.lost.times.fetch_add(lost as u64, Ordering::Relaxed);
                    cells.extend(calls.map(ns));
                }
            },
            Cells::Times(cells) => cells.extend(calls.map(|call| ns(call).filter(|_| self.has_dates))),
            Cells::Small(cells) => match *column {
                CallColumn::Depth => cells.extend(calls.map(|call| Some(call.depth as i32))),
                _ => cells.extend(calls.map(|call| call.cpu.map(i32::from))),
            },
            Cells::Names(cells) => match *column {
                CallColumn::Trace => {
                    let name = || Some(self.rows.database.session.traces[self.trace].name.to_string());
                    calls.for_each(|_| cells.append(self.trace as u32 + 1, name));
                }
                CallColumn::Thread => calls.for_each(|call| {
                    cells.append(call.task + 1, || Some(String::from_utf8_lossy(&task(call).name).into_owned()));
                }),
                CallColumn::Symbol => calls.for_each(|call| {
                    let symbol = || source.symbol(call.symbol, call.address).name;
                    cells.append(call.symbol, || (!call.is_wait).then(symbol));
                }),
                CallColumn::Lib => calls.for_each(|call| {
                    cells
                        .append(call.symbol, || follower.known_symbol(call.symbol, call.address).symbol.module.clone());
                }),
                _ => calls.for_each(|call| {
                    cells.append(call.symbol, || {
                        Some(follower.known_symbol(call.symbol, call.address).symbol.name.clone())
                    });
                }),
            },
            Cells::Texts(cells) => calls.for_each(|call| {
                let texts = call.texts.as_deref();
                let text = match *column {
                    CallColumn::Args => texts.and_then(|texts| texts.entry.as_deref()),
                    _ => texts.and_then(|texts| texts.exit.as_deref()),
                };
                cells.append_option(text);
            }),
        }
    }
}

/// A column in the making.
struct CallColumnBuilder {
    column: CallColumn,
    cells: Cells,
}

enum Cells {
    Signed(NumberBuilder<i64>),
    Times(NumberBuilder<i64>),
    Small(NumberBuilder<i32>),
    Names(LabelBuilder),
    Texts(StringBuilder),
}

impl CallColumnBuilder {
    fn new(column: CallColumn) -> CallColumnBuilder {
        let cells = match column.data_type() {
            DataType::Timestamp(..) => Cells::Times(NumberBuilder::default()),
            DataType::Int64 => Cells::Signed(NumberBuilder::default()),
            DataType::Int32 => Cells::Small(NumberBuilder::default()),
            DataType::Utf8 => Cells::Texts(StringBuilder::new()),
            _ => Cells::Names(LabelBuilder::default()),
        };
        CallColumnBuilder { column, cells }
    }

    /// The cells, of which none are left.
    fn take(&mut self) -> Result<ArrayRef> {
        Ok(match &mut self.cells {
            Cells::Signed(cells) => {
                let (values, nulls) = cells.take();
                Arc::new(Int64Array::try_new(values.into(), nulls)?)
            }
            Cells::Times(cells) => {
                let (values, nulls) = cells.take();
                Arc::new(TimestampNanosecondArray::try_new(values.into(), nulls)?.with_timezone("UTC"))
            }
            Cells::Small(cells) => {
                let (values, nulls) = cells.take();
                Arc::new(Int32Array::try_new(values.into(), nulls)?)
            }
            Cells::Names(cells) => cells.take()?,
            Cells::Texts(cells) => Arc::new(cells.finish()),
        })
    }

    /// Another source numbers its names in its own way.
    fn forget_numbers(&mut self) {
        if let Cells::Names(names) = &mut self.cells {
            names.by_number.clear();
        }
    }
}

/// Numbers, and which rows have one.
#[derive(Default)]
struct NumberBuilder<T> {
    values: Vec<T>,
    /// From the first row on that has none.
    nulls: Option<NullBufferBuilder>,
}

impl<T: Default> NumberBuilder<T> {
    fn extend(&mut self, values: impl Iterator<Item = Option<T>>) {
        values.for_each(|value| self.append(value));
    }

    #[inline]
    fn append(&mut self, value: Option<T>) {
        if value.is_none() || self.nulls.is_some() {
            self.note(value.is_some());
        }
        self.values.push(value.unwrap_or_default());
    }

    fn note(&mut self, has_value: bool) {
        let nulls = self.nulls.get_or_insert_with(|| {
            let mut nulls = NullBufferBuilder::new(BATCH_ROWS);
            nulls.append_n_non_nulls(self.values.len());
            nulls
        });
        nulls.append(has_value);
    }

    fn take(&mut self) -> (Vec<T>, Option<NullBuffer>) {
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(BATCH_ROWS + ROOM));
        (values, self.nulls.take().and_then(|mut nulls| nulls.finish()))
    }
}

/// Texts of which there are few.
#[derive(Default)]
struct LabelBuilder {
    keys: NumberBuilder<i32>,
    /// By the number that the source gives a text, its key, where that is known.
    by_number: Vec<Option<LabelKey>>,
    by_text: HashMap<String, i32>,
    texts: Vec<String>,
    /// The texts of the batches before.
    array: Option<ArrayRef>,
}

/// The place of a text; `None` for NULL.
type LabelKey = Option<i32>;

/// With more texts than these a batch begins with none, so that what it takes does not grow with the trace.
const MOST_NAMES: usize = 4096;

impl LabelBuilder {
    /// Appends the text of a number; 0 numbers none, and neither does the number of an address that is all that is known.
    #[inline]
    fn append(&mut self, number: u32, make: impl FnOnce() -> Option<String>) {
        let key = match self.by_number.get(number as usize) {
            Some(Some(key)) if number > 0 => *key,
            _ => self.new_key(number, make()),
        };
        self.keys.append(key);
    }

    #[cold]
    fn new_key(&mut self, number: u32, text: Option<String>) -> LabelKey {
        let is_address = text.as_ref().is_some_and(|text| text.starts_with('<'));
        let key = text.map(|text| {
            let next = self.texts.len() as i32;
            *self.by_text.entry(text).or_insert_with_key(|text| {
                self.texts.push(text.clone());
                next
            })
        });
        if number > 0 && !is_address {
            let at = number as usize;
            if self.by_number.len() <= at {
                self.by_number.resize(at + 1, None);
            }
            self.by_number[at] = Some(key);
        }
        key
    }

    fn take(&mut self) -> Result<ArrayRef> {
        let texts = match self.array.take().filter(|array| array.len() == self.texts.len()) {
            Some(array) => array,
            None => Arc::new(self.texts.iter().map(Some).collect::<StringArray>()),
        };
        if self.texts.len() > MOST_NAMES {
            self.by_number.clear();
            self.by_text.clear();
            self.texts.clear();
        } else {
            self.array = Some(texts.clone());
        }
        let (keys, nulls) = self.keys.take();
        Ok(Arc::new(DictionaryArray::try_new(Int32Array::try_new(keys.into(), nulls)?, texts)?))
    }
}
