//! `match_pairs` and `nested_pairs`: a row for each pair of events that belong together.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, TimestampNanosecondArray, new_empty_array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use tracemill_engine::pattern::Pattern;
use tracemill_engine::selection::ClassSet;
use tracemill_model::schema::Scope;
use tracemill_semantics::names::TRACK;

use crate::database::Database;
use crate::event_columns::{EventColumn, names, times};
use crate::field::{path_column, text_of};
use crate::filters::decide;
use crate::read::{Batches, Opener};
use crate::table::{FieldColumn, TableColumn};

/// Makes the table functions known.
pub(crate) fn register(database: &Arc<Database>, context: &SessionContext) {
    for (name, nests) in [("match_pairs", false), ("nested_pairs", true)] {
        context.register_udtf(name, Arc::new(PairFunction { database: database.clone(), name, nests }));
    }
}

#[derive(Debug)]
struct PairFunction {
    database: Arc<Database>,
    name: &'static str,
    nests: bool,
}

impl TableFunctionImpl for PairFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let text = |of: &Expr| match of {
            Expr::Literal(value, _) => text_of(value),
            _ => None,
        };
        let texts: Option<Vec<String>> = args.exprs().iter().map(text).collect();
        let most = if self.nests { 4 } else { 3 };
        let Some([from, to, rest @ ..]) = texts.as_deref().filter(|texts| texts.len() <= most) else {
            let lane = if self.nests { ", and maybe a lane" } else { "" };
            return plan_err!("`{}` takes the names of two events and paths{lane}, all in quotes", self.name);
        };
        let pairs = Pairs::new(self, from, to, rest)?;
        let schema = pairs.schema.clone();
        Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(pairs)])?))
    }
}

/// The pairs of two kinds of events.
struct Pairs {
    name: &'static str,
    database: Arc<Database>,
    from: Pattern,
    to: Pattern,
    /// Columns that are read after those of [`READ`].
    read: Vec<(TableColumn, DataType)>,
    rule: Rule,
    schema: SchemaRef,
}

/// Which events belong together.
#[derive(Clone, Copy)]
enum Rule {
    /// The next end whose keys are equal. The keys are read first.
    Next { keys: usize },
    /// Pairs nest in lanes: those of the columns that are read after the keys.
    Nested { keys: usize, lane: EventLane },
}

/// The lane of an event.
#[derive(Clone, Copy)]
enum EventLane {
    /// The values of so many columns.
    Columns(usize),
    /// The stream, or the value of a further column where that is known.
    Stream { has_track: bool },
}

/// Columns that are read of each event, before its keys.
const READ: [EventColumn; 6] =
    [EventColumn::Trace, EventColumn::Ns, EventColumn::Time, EventColumn::Cpu, EventColumn::Class, EventColumn::Name];

impl Pairs {
    fn new(function: &PairFunction, from: &str, to: &str, rest: &[String]) -> Result<Pairs> {
        let database = &function.database;
        for (name, of) in [(from, "first"), (to, "second")] {
            let pattern = Pattern::glob(name);
            let is_known = database.by_name.iter().any(|(known, _)| pattern.matches(known.as_bytes()));
            if !is_known && !database.has_open_ids() {
                let names: Vec<&str> = database.by_name.iter().map(|(name, _)| name.as_str()).collect();
                let near = tracemill_codec::text::closest(name, &names);
                let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                return plan_err!(
                    "no event class has the name `{name}`, the {of} argument of `{}`{near}",
                    function.name
                );
            }
        }
        let mut fields = vec![
            Field::new("trace", names(), true),
            Field::new("ns", DataType::Int64, true),
            Field::new("time", times(), true),
            Field::new("dur", DataType::Int64, true),
        ];
        if function.nests {
            fields.push(Field::new("self", DataType::Int64, true));
            fields.push(Field::new("depth", DataType::Int32, true));
        }
        fields
            .extend(["cpu", "end_cpu", "begin_class", "end_class"].map(|name| Field::new(name, DataType::Int32, true)));
        let list = |at: usize| {
            let text = rest.get(at).map_or("", String::as_str);
            text.split(',').map(str::trim).filter(|path| !path.is_empty())
        };
        let mut read = Vec::new();
        for path in list(0) {
            let (column, data_type) = key_column(database, path)?;
            let last = path.rsplit('.').next().unwrap_or(path).trim_matches('`').to_string();
            let mut name = last.clone();
            while fields.iter().any(|field| *field.name() == name) {
                name.push('_');
            }
            fields.push(Field::new(name, data_type.clone(), true));
            read.push((column, data_type));
        }
        let keys = read.len();
        let rule = if function.nests {
            for path in list(1) {
                read.push(key_column(database, path)?);
            }
            let lane = match read.len() - keys {
                0 => {
                    let streams = [EventColumn::Trace, EventColumn::StreamName];
                    read.extend(streams.map(|column| (TableColumn::Event(column), column.data_type())));
                    let track = key_column(database, TRACK.0).ok();
                    let has_track = track.is_some();
                    read.extend(track);
                    EventLane::Stream { has_track }
                }
                columns => EventLane::Columns(columns),
            };
            Rule::Nested { keys, lane }
        } else {
            Rule::Next { keys }
        };
        Ok(Pairs {
            name: function.name,
            database: database.clone(),
            from: Pattern::glob(from),
            to: Pattern::glob(to),
            read,
            rule,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// Reads the events of both kinds in the order of time.
    fn batches(&self) -> Result<Batches> {
        let database = &self.database;
        let mut decided = decide(database, &database.events(), &[])?;
        for (scan, of) in decided.streams.iter_mut().zip(&database.streams) {
            let schema = &database.session.traces[of.trace].schema;
            let is_wanted = |class: usize| {
                let event = &schema.events()[class];
                let name = event.name.as_deref().unwrap_or_default().as_bytes();
                let is_named = event.open_ids.is_some() || self.from.matches(name) || self.to.matches(name);
                is_named && scan.classes.as_ref().is_some_and(|classes| classes.has(class as u32))
            };
            let set = ClassSet::new(schema.events().len(), is_wanted);
            let is_empty = (0..schema.events().len()).all(|class| !set.has(class as u32));
            scan.classes = (!is_empty).then(|| Arc::new(set));
        }
        let mut fields: Vec<Field> =
            READ.iter().map(|column| Field::new(column.name(), column.data_type(), true)).collect();
        let mut columns: Vec<TableColumn> = READ.iter().copied().map(TableColumn::Event).collect();
        for (at, (column, data_type)) in self.read.iter().enumerate() {
            fields.push(Field::new(format!("key {at}"), data_type.clone(), true));
            columns.push(column.clone());
        }
        Batches::merged(Opener {
            database: database.clone(),
            streams: Arc::new(decided),
            wanted: (0..columns.len()).collect(),
            columns,
            schema: Arc::new(Schema::new(fields)),
            condition: None,
            is_numbered: false,
            is_ordered: false,
            whole: None,
            verifies: false,
            batch_size: 8192,
            metrics: ExecutionPlanMetricsSet::new(),
            partition: 0,
        })
    }
}

/// The column of a path, looked for where a filter looks for it.
fn key_column(database: &Database, path: &str) -> Result<(TableColumn, DataType)> {
    let column = match path {
        "cpu" => Some(EventColumn::Cpu),
        "name" => Some(EventColumn::Name),
        "id" if path_column(database, Scope::Payload.key(), path).is_err() => Some(EventColumn::Id),
        "stream" => Some(EventColumn::Stream),
        "trace" => Some(EventColumn::Trace),
        _ => None,
    };
    if let Some(column) = column {
        return Ok((TableColumn::Event(column), column.data_type()));
    }
    let contexts = [Scope::SpecificContext, Scope::CommonContext, Scope::PacketContext];
    let all = [Scope::Payload, Scope::SpecificContext, Scope::CommonContext, Scope::PacketContext, Scope::EventHeader];
    let scoped = all.iter().find_map(|scope| Some((*scope, path.strip_prefix(scope.key())?.strip_prefix('.')?)));
    let found: Result<FieldColumn> = match (scoped, path.strip_prefix("$ctx.")) {
        (Some((scope, rest)), _) => path_column(database, scope.key(), rest),
        (None, Some(rest)) => first_of(database, &contexts, rest),
        (None, None) => first_of(database, &all[..4], path),
    };
    let column = found?;
    let data_type = column.data_type.clone();
    Ok((TableColumn::Field(Arc::new(column)), data_type))
}

fn first_of(database: &Database, scopes: &[Scope], path: &str) -> Result<FieldColumn> {
    let mut result = plan_err!("no event class has the field `{path}`");
    for scope in scopes {
        let found = path_column(database, scope.key(), path);
        if found.is_ok() {
            return found;
        }
        if *scope == scopes[0] {
            result = found;
        }
    }
    result
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A beginning without its end so far.
struct Begin {
    trace: ScalarValue,
    ns: i64,
    has_date: bool,
    cpu: Option<i32>,
    class: i32,
    /// When pairs nest: values for the row, and the time of the pairs inside.
    keys: Vec<ScalarValue>,
    inner_ns: i64,
}

/// Beginnings whose ends are waited for.
#[derive(Default)]
struct Waiting {
    /// By key; the latest one counts.
    next: HashMap<Vec<ScalarValue>, Begin>,
    /// By lane, outermost first.
    stacks: HashMap<Vec<ScalarValue>, Vec<Begin>>,
    open: usize,
}

/// Beginnings of pairs that nest that may be open at a time, as for `report --regress`.
const MAX_OPEN: usize = 1 << 20;

/// The column `depth` of pairs that nest.
const DEPTH: usize = 5;

/// Rows in the making.
#[derive(Default)]
struct PairRows {
    trace: Vec<ScalarValue>,
    ns: Vec<i64>,
    time: Vec<Option<i64>>,
    dur: Vec<i64>,
    /// Only where pairs nest, as the depth.
    own: Vec<i64>,
    depth: Vec<i32>,
    cpu: Vec<Option<i32>>,
    end_cpu: Vec<Option<i32>>,
    begin_class: Vec<i32>,
    end_class: Vec<i32>,
    keys: Vec<Vec<ScalarValue>>,
}

impl PartitionStream for Pairs {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), 2);
        let (sender, schema, rule) = (builder.tx(), self.schema.clone(), self.rule);
        let (from, to, batches) = (self.from.clone(), self.to.clone(), self.batches());
        builder.spawn_blocking(move || {
            let mut batches = batches?;
            let mut open = Waiting::default();
            let mut rows = PairRows::default();
            while let Some(batch) = batches.next()? {
                pair(&batch, rule, (&from, &to), &mut open, &mut rows)?;
                if rows.ns.len() >= 8192 && sender.blocking_send(rows.take(&schema)).is_err() {
                    return Ok(());
                }
            }
            if !rows.ns.is_empty() {
                // A receiver that has gone wants no more.
                let _ = sender.blocking_send(rows.take(&schema));
            }
            Ok(())
        });
        builder.build()
    }
}

fn pair(
    batch: &RecordBatch,
    rule: Rule,
    (from, to): (&Pattern, &Pattern),
    open: &mut Waiting,
    rows: &mut PairRows,
) -> Result<()> {
    let number = |at: usize| batch.column(at).as_primitive::<Int32Type>();
    let (ns, times) = (batch.column(1).as_primitive::<Int64Type>(), batch.column(2));
    let (cpus, classes) = (number(3), number(4));
    let texts = cast(batch.column(5), &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    for at in 0..batch.num_rows() {
        if ns.is_null(at) {
            continue;
        }
        let name = if texts.is_null(at) { &[] } else { texts.value(at).as_bytes() };
        let (begins, ends) = (from.matches(name), to.matches(name));
        if !begins && !ends {
            continue;
        }
        let values = |columns: Range<usize>| -> Result<Vec<ScalarValue>> {
            columns.map(|key| ScalarValue::try_from_array(batch.column(READ.len() + key), at)).collect()
        };
        let cpu = (!cpus.is_null(at)).then(|| cpus.value(at));
        let begin = |keys: Vec<ScalarValue>| -> Result<Begin> {
            let trace = ScalarValue::try_from_array(batch.column(0), at)?;
            let has_date = !times.is_null(at);
            Ok(Begin { trace, ns: ns.value(at), has_date, cpu, class: classes.value(at), keys, inner_ns: 0 })
        };
        let end = PairEnd { ns: ns.value(at), cpu, class: classes.value(at) };
        match rule {
            Rule::Next { keys } => {
                let key = values(0..keys)?;
                if ends && let Some((key, begin)) = open.next.remove_entry(&key) {
                    rows.push_row(begin, key, &end);
                }
                if begins {
                    open.next.insert(key, begin(Vec::new())?);
                }
            }
            Rule::Nested { keys, lane } => {
                let lane = match lane {
                    EventLane::Columns(count) => values(keys..keys + count)?,
                    EventLane::Stream { has_track: false } => values(keys..keys + 2)?,
                    EventLane::Stream { has_track: true } => {
                        let track = values(keys + 2..keys + 3)?;
                        if track[0].is_null() { values(keys..keys + 2)? } else { track }
                    }
                };
                let is_known = open.stacks.contains_key(&lane);
                if !is_known && !begins {
                    continue;
                }
                let stack = open.stacks.entry(lane).or_default();
                if ends && let Some(mut begin) = stack.pop() {
                    open.open -= 1;
                    let whole = end.ns.saturating_sub(begin.ns);
                    if let Some(outer) = stack.last_mut() {
                        outer.inner_ns = outer.inner_ns.saturating_add(whole.max(0));
                    }
                    rows.own.push(whole.saturating_sub(begin.inner_ns));
                    rows.depth.push(stack.len() as i32);
                    let keys = std::mem::take(&mut begin.keys);
                    rows.push_row(begin, keys, &end);
                }
                if begins && open.open < MAX_OPEN {
                    open.open += 1;
                    stack.push(begin(values(0..keys)?)?);
                }
            }
        }
    }
    Ok(())
}

/// The second event of a pair.
struct PairEnd {
    ns: i64,
    cpu: Option<i32>,
    class: i32,
}

impl PairRows {
    fn push_row(&mut self, begin: Begin, key: Vec<ScalarValue>, end: &PairEnd) {
        self.trace.push(begin.trace);
        self.ns.push(begin.ns);
        self.time.push(begin.has_date.then_some(begin.ns));
        self.dur.push(end.ns.saturating_sub(begin.ns));
        self.cpu.push(begin.cpu);
        self.end_cpu.push(end.cpu);
        self.begin_class.push(begin.class);
        self.end_class.push(end.class);
        self.keys.push(key);
    }

    fn take(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = std::mem::take(self);
        let time = TimestampNanosecondArray::from(rows.time).with_timezone("UTC");
        let mut columns: Vec<ArrayRef> = vec![
            values_array(rows.trace, schema.field(0).data_type())?,
            Arc::new(Int64Array::from(rows.ns)),
            Arc::new(time),
            Arc::new(Int64Array::from(rows.dur)),
        ];
        if schema.index_of("depth").is_ok_and(|at| at == DEPTH) {
            columns.push(Arc::new(Int64Array::from(rows.own)));
            columns.push(Arc::new(Int32Array::from(rows.depth)));
        }
        columns.extend::<[ArrayRef; 4]>([
            Arc::new(Int32Array::from(rows.cpu)),
            Arc::new(Int32Array::from(rows.end_cpu)),
            Arc::new(Int32Array::from(rows.begin_class)),
            Arc::new(Int32Array::from(rows.end_class)),
        ]);
        let first = columns.len();
        for at in first..schema.fields().len() {
            let values = rows.keys.iter().map(|key| key[at - first].clone()).collect();
            columns.push(values_array(values, schema.field(at).data_type())?);
        }
        RecordBatch::try_new(schema.clone(), columns).map_err(DataFusionError::from)
    }
}

fn values_array(values: Vec<ScalarValue>, data_type: &DataType) -> Result<ArrayRef> {
    if values.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    Ok(cast(&ScalarValue::iter_to_array(values)?, data_type)?)
}
