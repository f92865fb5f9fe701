//! The table of function calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder, StringBuilder, TimestampNanosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use tracemill_calls::CallOptions;
use tracemill_calls::follow::Follower;
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings::put_json;
use tracemill_engine::calls::EventCalls;
use tracemill_format::calls::{CallKind, CallRecord, CallSource, ValueStyle};

use crate::database::Database;
use crate::table::times;

/// The table.
pub(crate) struct CallTable {
    stream: Arc<Calls>,
}

/// Its rows.
struct Calls {
    database: Arc<Database>,
    schema: SchemaRef,
}

impl CallTable {
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        let columns = [
            ("trace", DataType::Utf8),
            ("call", DataType::Int64),
            ("parent", DataType::Int64),
            ("ns", DataType::Int64),
            ("time", times()),
            ("dur", DataType::Int64),
            ("self", DataType::Int64),
            ("depth", DataType::Int32),
            ("name", DataType::Utf8),
            ("symbol", DataType::Utf8),
            ("lib", DataType::Utf8),
            ("tid", DataType::Int64),
            ("pid", DataType::Int64),
            ("thread", DataType::Utf8),
            ("cpu", DataType::Int32),
            ("args", DataType::Utf8),
            ("retval", DataType::Utf8),
        ];
        let fields: Vec<Field> = columns.into_iter().map(|(name, of)| Field::new(name, of, true)).collect();
        let schema = Arc::new(Schema::new(fields));
        CallTable { stream: Arc::new(Calls { database: database.clone(), schema }) }
    }
}

impl fmt::Debug for CallTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallTable")
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("calls")
    }
}

#[async_trait]
impl TableProvider for CallTable {
    fn schema(&self) -> SchemaRef {
        self.stream.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = StreamingTable::try_new(self.schema(), vec![self.stream.clone()])?;
        table.scan(state, projection, filters, limit).await
    }
}

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

impl PartitionStream for Calls {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), 2);
        let (sender, database, schema) = (builder.tx(), self.database.clone(), self.schema.clone());
        builder.spawn_blocking(move || {
            let mut rows = Rows::new(&schema);
            // The receiver that has gone wants no more.
            let mut send = |rows: &mut Rows| sender.blocking_send(rows.take()).is_ok();
            let session = &database.session;
            let mut next = 0;
            for (at, trace) in session.traces.iter().enumerate() {
                let goes_on = match trace.reader.calls() {
                    Some(source) => follow(&database, at, source, &mut next, &mut rows, &mut send),
                    None => match EventCalls::of_trace(session, at) {
                        Some(source) => follow(&database, at, &source, &mut next, &mut rows, &mut send),
                        None => true,
                    },
                };
                if !goes_on {
                    return Ok(());
                }
            }
            if rows.len > 0 {
                send(&mut rows);
            }
            Ok(())
        });
        builder.build()
    }
}

/// A call that is open.
struct Open {
    call: i64,
    begin: u64,
    address: u64,
    symbol: u32,
    /// Ns of the calls made from it.
    inside: u64,
    args: Option<String>,
}

/// Follows a source; false when nobody wants more rows.
fn follow(
    database: &Database,
    trace: usize,
    source: &dyn CallSource,
    next: &mut i64,
    rows: &mut Rows,
    send: &mut dyn FnMut(&mut Rows) -> bool,
) -> bool {
    let mut follower = Follower::new(source, CallOptions::default());
    let of_trace = |of: &&tracemill_engine::selection::StreamOf| of.trace == trace;
    let has_dates = database.streams.iter().find(of_trace).is_some_and(|of| database.has_dates(of));
    let mut task_rows = TaskRows { name: database.session.traces[trace].name.clone(), has_dates, source };
    // By task, the calls at their places on its stack.
    let mut stacks: HashMap<usize, Vec<Option<Open>>> = HashMap::new();
    while let Some(record) = follower.next() {
        let is_call = record.is_call();
        let Some(shown) = follower.step(&record) else { continue };
        let (task, place) = (record.task as usize, shown.place.max(0) as usize);
        let stack = stacks.entry(task).or_default();
        let is_exit = record.kind == CallKind::Exit;
        // What is above has ended without a word.
        while stack.len() > place + usize::from(is_exit) {
            if let Some(Some(open)) = stack.pop() {
                task_rows.end(&mut follower, stack, task, open, None, rows);
            }
        }
        if is_exit {
            let ended = if stack.len() > place { stack.pop().flatten() } else { None };
            // An end without a beginning is no row.
            if let Some(open) = ended {
                let is_its = open.address == record.address || open.symbol == record.symbol;
                task_rows.end(&mut follower, stack, task, open, is_its.then_some(&record), rows);
            }
        } else if is_call && record.kind == CallKind::Entry {
            stack.resize_with(place, || None);
            let args = record.has_values.then(|| values(source, &record));
            let (address, symbol) = (record.address, record.symbol);
            stack.push(Some(Open { call: *next, begin: record.time, address, symbol, inside: 0, args }));
            *next += 1;
        }
        if rows.len >= BATCH_ROWS && !send(rows) {
            return false;
        }
    }
    let mut tasks: Vec<usize> = stacks.keys().copied().collect();
    tasks.sort_unstable();
    for task in tasks {
        let mut stack = stacks.remove(&task).unwrap_or_default();
        while let Some(open) = stack.pop() {
            if let Some(open) = open {
                task_rows.end(&mut follower, &mut stack, task, open, None, rows);
            }
            if rows.len >= BATCH_ROWS && !send(rows) {
                return false;
            }
        }
    }
    let findings = follower.take_findings();
    findings.faults.into_iter().for_each(|fault| database.collector.fault(fault));
    findings.warnings.into_iter().for_each(|warning| database.collector.warning(warning));
    true
}

/// The values of a record as JSON: one text.
fn values(source: &dyn CallSource, record: &CallRecord) -> String {
    let (mut text, mut out) = (Vec::new(), Out::default());
    source.put_values(record, ValueStyle::Text(tracemill_format::calls::ColorStyle::None), &mut text);
    put_json(&mut out, &text);
    String::from_utf8_lossy(out.written()).into_owned()
}

struct TaskRows<'a> {
    name: String,
    has_dates: bool,
    source: &'a dyn CallSource,
}

impl TaskRows<'_> {
    /// Appends the row of a call that ends with a record, or without one.
    fn end(
        &mut self,
        follower: &mut Follower<'_>,
        below: &mut [Option<Open>],
        task: usize,
        open: Open,
        end: Option<&CallRecord>,
        rows: &mut Rows,
    ) {
        let dur = end.map(|end| end.time.saturating_sub(open.begin));
        let depth = below.iter().flatten().count();
        let parent = below.iter_mut().rev().flatten().next();
        let parent = parent.map(|parent| {
            parent.inside += dur.unwrap_or(0);
            parent.call
        });
        let of = &self.source.tasks()[task];
        let known = follower.known(open.symbol, open.address).symbol;
        let stored = self.source.symbol(open.symbol, open.address);
        let ns = i64::try_from(open.begin).ok();
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        rows.trace.append_value(&self.name);
        rows.call.append_value(open.call);
        rows.parent.append_option(parent);
        rows.ns.append_option(ns);
        rows.time.append_option(ns.filter(|_| self.has_dates));
        rows.dur.append_option(dur.map(signed));
        rows.own.append_option(dur.map(|dur| signed(dur.saturating_sub(open.inside))));
        rows.depth.append_value(depth as i32);
        rows.name.append_value(&known.name);
        rows.symbol.append_value(&stored.name);
        rows.lib.append_option(known.module.as_deref());
        rows.tid.append_value(of.tid);
        rows.pid.append_value(of.pid);
        rows.thread.append_value(String::from_utf8_lossy(&of.name));
        rows.cpu.append_null();
        rows.args.append_option(open.args);
        rows.retval.append_option(end.filter(|end| end.has_values).map(|end| values(self.source, end)));
        rows.len += 1;
    }
}

struct Rows {
    schema: SchemaRef,
    len: usize,
    trace: StringBuilder,
    call: Int64Builder,
    parent: Int64Builder,
    ns: Int64Builder,
    time: TimestampNanosecondBuilder,
    dur: Int64Builder,
    own: Int64Builder,
    depth: Int32Builder,
    name: StringBuilder,
    symbol: StringBuilder,
    lib: StringBuilder,
    tid: Int64Builder,
    pid: Int64Builder,
    thread: StringBuilder,
    cpu: Int32Builder,
    args: StringBuilder,
    retval: StringBuilder,
}

impl Rows {
    fn new(schema: &SchemaRef) -> Self {
        Rows {
            schema: schema.clone(),
            len: 0,
            trace: StringBuilder::new(),
            call: Int64Builder::new(),
            parent: Int64Builder::new(),
            ns: Int64Builder::new(),
            time: TimestampNanosecondBuilder::new().with_timezone("UTC"),
            dur: Int64Builder::new(),
            own: Int64Builder::new(),
            depth: Int32Builder::new(),
            name: StringBuilder::new(),
            symbol: StringBuilder::new(),
            lib: StringBuilder::new(),
            tid: Int64Builder::new(),
            pid: Int64Builder::new(),
            thread: StringBuilder::new(),
            cpu: Int32Builder::new(),
            args: StringBuilder::new(),
            retval: StringBuilder::new(),
        }
    }

    fn take(&mut self) -> Result<RecordBatch> {
        self.len = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.trace.finish()),
            Arc::new(self.call.finish()),
            Arc::new(self.parent.finish()),
            Arc::new(self.ns.finish()),
            Arc::new(self.time.finish().with_timezone("UTC")),
            Arc::new(self.dur.finish()),
            Arc::new(self.own.finish()),
            Arc::new(self.depth.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.symbol.finish()),
            Arc::new(self.lib.finish()),
            Arc::new(self.tid.finish()),
            Arc::new(self.pid.finish()),
            Arc::new(self.thread.finish()),
            Arc::new(self.cpu.finish()),
            Arc::new(self.args.finish()),
            Arc::new(self.retval.finish()),
        ];
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}
