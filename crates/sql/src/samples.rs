//! The tables of samples and of their stacks.
//!
//! Both are made by reading the same samples in the same order, so that the number of a stack is the same in both.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::builder::{
    BooleanBuilder, Int32Builder, Int64Builder, StringDictionaryBuilder, TimestampNanosecondBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use tokio::sync::mpsc::Sender;
use tracemill_calls::profile::{WeightUnit, unit_of};
use tracemill_engine::event::Event;
use tracemill_engine::events::{Events, Step};
use tracemill_engine::merge::Note;
use tracemill_engine::samples::{Frame, Sample, SampleReader};

use crate::database::Database;
use crate::event_columns::{names, times};
use crate::provider::{OwnTable, named_columns, streamed};

/// One of both tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SampleTableKind {
    /// A row for each sample.
    Samples,
    /// A row for each function on each stack that any sample has.
    Stacks,
}

/// A column of either table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SampleColumn {
    Number,
    Trace,
    Ns,
    Time,
    Event,
    Weight,
    Unit,
    Cpu,
    Tid,
    Pid,
    Thread,
    Stack,
    Level,
    Function,
    Module,
    Kernel,
}

impl SampleColumn {
    const OF_SAMPLES: [(&'static str, SampleColumn); 14] = [
        ("sample", SampleColumn::Number),
        ("trace", SampleColumn::Trace),
        ("ns", SampleColumn::Ns),
        ("time", SampleColumn::Time),
        ("event", SampleColumn::Event),
        ("weight", SampleColumn::Weight),
        ("unit", SampleColumn::Unit),
        ("cpu", SampleColumn::Cpu),
        ("tid", SampleColumn::Tid),
        ("pid", SampleColumn::Pid),
        ("thread", SampleColumn::Thread),
        ("stack", SampleColumn::Stack),
        ("function", SampleColumn::Function),
        ("module", SampleColumn::Module),
    ];
    const OF_STACKS: [(&'static str, SampleColumn); 5] = [
        ("stack", SampleColumn::Stack),
        ("level", SampleColumn::Level),
        ("function", SampleColumn::Function),
        ("module", SampleColumn::Module),
        ("kernel", SampleColumn::Kernel),
    ];

    fn data_type(self) -> DataType {
        match self {
            SampleColumn::Number
            | SampleColumn::Ns
            | SampleColumn::Weight
            | SampleColumn::Tid
            | SampleColumn::Pid
            | SampleColumn::Stack => DataType::Int64,
            SampleColumn::Time => times(),
            SampleColumn::Cpu | SampleColumn::Level => DataType::Int32,
            SampleColumn::Kernel => DataType::Boolean,
            SampleColumn::Trace
            | SampleColumn::Event
            | SampleColumn::Unit
            | SampleColumn::Thread
            | SampleColumn::Function
            | SampleColumn::Module => names(),
        }
    }
}

impl SampleTableKind {
    fn columns(self) -> &'static [(&'static str, SampleColumn)] {
        match self {
            SampleTableKind::Samples => &SampleColumn::OF_SAMPLES,
            SampleTableKind::Stacks => &SampleColumn::OF_STACKS,
        }
    }
}

/// The table.
pub(crate) struct SampleTable {
    database: Arc<Database>,
    kind: SampleTableKind,
    schema: SchemaRef,
}

/// Its rows.
struct SampleRows {
    database: Arc<Database>,
    kind: SampleTableKind,
    schema: SchemaRef,
    columns: Vec<SampleColumn>,
}

impl SampleTable {
    pub(crate) fn new(database: &Arc<Database>, kind: SampleTableKind) -> Self {
        let fields = kind.columns().iter().map(|(name, column)| Field::new(*name, column.data_type(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        SampleTable { database: database.clone(), kind, schema }
    }
}

impl fmt::Debug for SampleTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SampleTable({:?})", self.kind)
    }
}

impl fmt::Debug for SampleRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.kind == SampleTableKind::Samples { "samples" } else { "stacks" })
    }
}

impl OwnTable for SampleTable {
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
        let all = self.kind.columns();
        let columns = named.iter().map(|&at| all[at].1).collect();
        streamed(SampleRows { database: self.database.clone(), kind: self.kind, schema, columns }, None, limit)
    }
}

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

impl PartitionStream for SampleRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), 2);
        let mut batch = SampleBatch {
            schema: self.schema.clone(),
            columns: self.columns.iter().map(|&column| (column, ColumnCells::new(column))).collect(),
            len: 0,
            sender: stream.tx(),
            is_open: true,
        };
        let (database, kind) = (self.database.clone(), self.kind);
        stream.spawn_blocking(move || {
            batch.read(&database, kind);
            batch.send();
            Ok(())
        });
        stream.build()
    }
}

/// Rows in the making.
struct SampleBatch {
    schema: SchemaRef,
    columns: Vec<(SampleColumn, ColumnCells)>,
    len: usize,
    sender: Sender<Result<RecordBatch>>,
    /// Are more rows wanted?
    is_open: bool,
}

enum ColumnCells {
    Signed(Int64Builder),
    Small(Int32Builder),
    Times(TimestampNanosecondBuilder),
    Names(StringDictionaryBuilder<Int32Type>),
    Flags(BooleanBuilder),
}

impl ColumnCells {
    fn new(column: SampleColumn) -> ColumnCells {
        match column.data_type() {
            DataType::Int64 => ColumnCells::Signed(Int64Builder::new()),
            DataType::Int32 => ColumnCells::Small(Int32Builder::new()),
            DataType::Boolean => ColumnCells::Flags(BooleanBuilder::new()),
            DataType::Timestamp(..) => ColumnCells::Times(TimestampNanosecondBuilder::new().with_timezone("UTC")),
            _ => ColumnCells::Names(StringDictionaryBuilder::new()),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            ColumnCells::Signed(cells) => Arc::new(cells.finish()),
            ColumnCells::Small(cells) => Arc::new(cells.finish()),
            ColumnCells::Times(cells) => Arc::new(cells.finish()),
            ColumnCells::Names(cells) => Arc::new(cells.finish()),
            ColumnCells::Flags(cells) => Arc::new(cells.finish()),
        }
    }
}

/// Facts of a row.
struct SampleRow<'r> {
    number: i64,
    trace: &'r str,
    event: &'r str,
    has_dates: bool,
    sample: Sample<'r>,
    stack: i64,
    level: i32,
    frame: Option<&'r Frame>,
}

/// A number as columns have it.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A text, or NULL when it is empty.
fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl SampleBatch {
    /// Reads the samples that the options of the database leave.
    fn read(&mut self, database: &Database, kind: SampleTableKind) {
        let session = &*database.session;
        let mut reader = SampleReader::new(session, database.symbolizer.as_deref());
        let mut selection = database.selection.clone();
        selection.classes = reader.wanted_class_sets(&selection.classes);
        let mut stacks: HashMap<Box<[u32]>, i64> = HashMap::new();
        let mut frames: Vec<Frame> = Vec::new();
        let (mut number, mut stack, mut storage) = (0, Vec::new(), Vec::new());
        let dates: Vec<bool> = database.streams.iter().map(|of| database.has_dates(of)).collect();
        let mut events = Events::new(session, &database.streams, &selection, database.filter.as_ref());
        let mut take = |batch: &mut SampleBatch, event: &Event<'_>| {
            let name = String::from_utf8_lossy(event.name(&mut storage).unwrap_or_default()).into_owned();
            let has_dates = dates.get(event.stream).copied().unwrap_or(false);
            let Some(sample) = reader.read(event) else { return };
            stack.clear();
            stack.extend_from_slice(sample.stack);
            let thread_name = sample.thread_name.map(str::to_string);
            let Sample { ns, thread, process, cpu, weight, .. } = sample;
            let next = stacks.len() as i64;
            let (stack_number, is_new) = match stacks.get(&*stack) {
                Some(&known) => (known, false),
                None => {
                    stacks.insert(stack.as_slice().into(), next);
                    (next, true)
                }
            };
            let known = reader.frames();
            frames.extend_from_slice(&known[frames.len()..]);
            let trace = &*session.traces[event.trace].name;
            let thread_name = thread_name.as_deref();
            let sample = Sample { ns, thread, process, thread_name, cpu, weight, stack: &[], frames: &[] };
            let mut row = SampleRow {
                number,
                trace,
                event: &name,
                has_dates,
                sample,
                stack: stack_number,
                level: 0,
                frame: None,
            };
            number += 1;
            let of = |at: &u32| frames.get(*at as usize);
            match kind {
                SampleTableKind::Samples => {
                    row.frame = stack.first().and_then(of);
                    batch.push(database, &row);
                }
                SampleTableKind::Stacks if is_new => {
                    for (level, frame) in (0..).zip(&stack) {
                        (row.level, row.frame) = (level, of(frame));
                        batch.push(database, &row);
                    }
                }
                SampleTableKind::Stacks => {}
            }
        };
        while self.is_open
            && let Some(step) = events.next()
        {
            match step {
                Step::Event(_, event) => take(self, &event),
                Step::Note(Note::Fault(error)) => database.collector.fault(error),
                Step::Note(Note::Warning(error)) => database.collector.warning(error),
                Step::Note(Note::Gap(..)) => {}
            }
        }
        session.code_warnings().into_iter().for_each(|warning| database.collector.warning(warning));
    }

    fn push(&mut self, database: &Database, row: &SampleRow<'_>) {
        let sample = &row.sample;
        for (column, cells) in &mut self.columns {
            match cells {
                ColumnCells::Signed(cells) => cells.append_option(match column {
                    SampleColumn::Number => Some(row.number),
                    SampleColumn::Weight => Some(signed(sample.weight.unwrap_or(1))),
                    SampleColumn::Tid => sample.thread,
                    SampleColumn::Pid => sample.process,
                    SampleColumn::Stack => Some(row.stack),
                    _ => ns_of(database, sample),
                }),
                ColumnCells::Times(cells) => cells.append_option(ns_of(database, sample).filter(|_| row.has_dates)),
                ColumnCells::Small(cells) => cells.append_option(match column {
                    SampleColumn::Level => Some(row.level),
                    _ => sample.cpu.and_then(|cpu| i32::try_from(cpu).ok()),
                }),
                ColumnCells::Flags(cells) => cells.append_option(row.frame.map(|frame| frame.is_kernel)),
                ColumnCells::Names(cells) => cells.append_option(match column {
                    SampleColumn::Trace => Some(row.trace),
                    SampleColumn::Event => known(row.event),
                    SampleColumn::Unit if sample.weight.is_none() => Some(WeightUnit::Samples.name()),
                    SampleColumn::Unit => Some(unit_of(&[row.event.to_string()]).name()),
                    SampleColumn::Thread => sample.thread_name,
                    SampleColumn::Module => row.frame.and_then(|frame| known(&frame.module)),
                    _ => row.frame.map(|frame| &*frame.function),
                }),
            }
        }
        self.len += 1;
        if self.len >= BATCH_ROWS {
            self.send();
        }
    }

    /// Sends the rows that are made.
    fn send(&mut self) {
        if self.len == 0 || !self.is_open {
            return;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.len)));
        let columns = self.columns.iter_mut().map(|(_, cells)| cells.take()).collect();
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        // The receiver that has gone wants no more.
        self.is_open = self.sender.blocking_send(batch.map_err(Into::into)).is_ok();
    }
}

fn ns_of(database: &Database, sample: &Sample<'_>) -> Option<i64> {
    let ns = sample.ns?;
    let fits = i64::try_from(ns).ok();
    if fits.is_none() {
        database.lost.times.fetch_add(1, Ordering::Relaxed);
    }
    fits
}
