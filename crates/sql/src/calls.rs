//! The table of function calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
use tracemill_codec::text::fields_json::{Fields, JsonTrace};
use tracemill_codec::text::out::Out;
use tracemill_engine::trace_calls::{TraceCalls, Values};
use tracemill_format::calls::{CallKind, CallRecord};
use tracemill_model::schema::Scope;
use tracemill_semantics::member;

use crate::database::Database;
use crate::table::times;

/// The table.
pub(crate) struct CallTable {
    database: Arc<Database>,
    schema: SchemaRef,
}

/// Its rows.
struct Calls {
    database: Arc<Database>,
    schema: SchemaRef,
    /// Are arguments or return values named? Events are read for them.
    has_values: bool,
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
        CallTable { database: database.clone(), schema }
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
        self.schema.clone()
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
        let is_named = |name| {
            let at = self.schema.index_of(name).ok();
            projection.is_none_or(|named| at.is_some_and(|at| named.contains(&at)))
        };
        let has_values = is_named("args") || is_named("retval");
        let rows = Calls { database: self.database.clone(), schema: self.schema(), has_values };
        let table = StreamingTable::try_new(self.schema(), vec![Arc::new(rows)])?;
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
        let has_values = self.has_values;
        builder.spawn_blocking(move || {
            let mut rows = Rows::new(&schema);
            // The receiver that has gone wants no more.
            let mut send = |rows: &mut Rows| sender.blocking_send(rows.take()).is_ok();
            let mut next = 0;
            for trace in 0..database.session.traces.len() {
                let (streams, selection) = (&database.streams, &database.selection);
                let calls = TraceCalls::open(&database.session, trace, streams, selection, database.filter.as_ref());
                let goes_on = calls
                    .is_none_or(|calls| follow(&database, trace, &calls, has_values, &mut next, &mut rows, &mut send));
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
    cpu: Option<u16>,
    address: u64,
    symbol: u32,
    /// Ns of the calls made from it.
    inside: u64,
    args: Option<String>,
}

/// Follows the calls of a trace; false when nobody wants more rows.
fn follow(
    database: &Database,
    trace: usize,
    calls: &TraceCalls<'_>,
    has_values: bool,
    next: &mut i64,
    rows: &mut Rows,
    send: &mut dyn FnMut(&mut Rows) -> bool,
) -> bool {
    let source = calls.source();
    let mut follower = Follower::new(source, CallOptions::default());
    let mut wanted = calls.wanted(has_values.then(|| values_of(database, trace)));
    let of_trace = |of: &&tracemill_engine::selection::StreamOf| of.trace == trace;
    let has_dates = database.streams.iter().find(of_trace).is_some_and(|of| database.has_dates(of));
    let mut task_rows = TaskRows { name: database.session.traces[trace].name.clone(), has_dates, calls };
    // By task, the calls at their places on its stack.
    let mut stacks: HashMap<usize, Vec<Option<Open>>> = HashMap::new();
    while let Some(record) = follower.next() {
        let is_call = record.is_call();
        let Some(shown) = follower.step(&record) else { continue };
        let Some(values) = wanted.take(&record) else { continue };
        let (task, place) = (record.task as usize, shown.place.max(0) as usize);
        let stack = stacks.entry(task).or_default();
        let is_exit = record.kind == CallKind::Exit;
        // What is above has ended without a word.
        while stack.len() > place + usize::from(is_exit) {
            if let Some(Some(open)) = stack.pop() {
                task_rows.end(database, &mut follower, stack, task, open, None, rows);
            }
        }
        if is_exit {
            let ended = if stack.len() > place { stack.pop().flatten() } else { None };
            // An end without a beginning is no row.
            if let Some(open) = ended {
                let is_its = open.address == record.address || open.symbol == record.symbol;
                task_rows.end(database, &mut follower, stack, task, open, is_its.then_some((&record, values)), rows);
            }
        } else if is_call && record.kind == CallKind::Entry {
            stack.resize_with(place, || None);
            let (address, symbol, cpu) = (record.address, record.symbol, record.cpu);
            stack.push(Some(Open { call: *next, begin: record.time, cpu, address, symbol, inside: 0, args: values }));
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
                task_rows.end(database, &mut follower, &mut stack, task, open, None, rows);
            }
            if rows.len >= BATCH_ROWS && !send(rows) {
                return false;
            }
        }
    }
    let findings = follower.take_findings();
    findings.faults.into_iter().for_each(|fault| database.collector.fault(fault));
    findings.warnings.into_iter().for_each(|warning| database.collector.warning(warning));
    wanted.take_faults().into_iter().for_each(|fault| database.collector.fault(fault));
    true
}

/// Arguments and return values of calls, as the JSON lines of their events have them. The fields of a class that says that it
/// is a call, as those of spans do, are its arguments, or what it gives back.
fn values_of(database: &Database, trace: usize) -> Values<'_> {
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
        let shown = json.scope(&mut out, event.stream, event.raw, &mut Fields::default(), Scope::Payload, b"");
        // An event that cannot be read again was told when its record was.
        shown.ok()?;
        let mut payload: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(out.written()).ok()?;
        match name {
            Some(name) => payload.remove(name).filter(|value| !value.is_null()).map(|value| value.to_string()),
            None => (!payload.is_empty()).then(|| serde_json::Value::Object(payload).to_string()),
        }
    })
}

struct TaskRows<'a> {
    name: String,
    has_dates: bool,
    calls: &'a TraceCalls<'a>,
}

impl TaskRows<'_> {
    /// Appends the row of a call that ends with a record, or without one.
    fn end(
        &mut self,
        database: &Database,
        follower: &mut Follower<'_>,
        below: &mut [Option<Open>],
        task: usize,
        open: Open,
        end: Option<(&CallRecord, Option<String>)>,
        rows: &mut Rows,
    ) {
        let ns = self.calls.ns(open.begin);
        let dur = end.as_ref().map(|(end, _)| (self.calls.ns(end.time) - ns).clamp(0, u64::MAX.into()) as u64);
        let depth = below.iter().flatten().count();
        let parent = below.iter_mut().rev().flatten().next();
        let parent = parent.map(|parent| {
            parent.inside += dur.unwrap_or(0);
            parent.call
        });
        let source = self.calls.source();
        let of = &source.tasks()[task];
        let known = follower.known(open.symbol, open.address).symbol;
        let stored = source.symbol(open.symbol, open.address);
        let ns = i64::try_from(ns).ok();
        if ns.is_none() {
            database.lost.times.fetch_add(1, Ordering::Relaxed);
        }
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
        rows.cpu.append_option(open.cpu.map(i32::from));
        rows.args.append_option(open.args);
        rows.retval.append_option(end.and_then(|(_, values)| values));
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
