//! `match_pairs`: a row for each pair of events that belong together; `overlap`: rows of two tables that share time.

use std::collections::HashMap;
use std::fmt;
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

use crate::database::Database;
use crate::field::{path_column, text_of};
use crate::filters::decide;
use crate::read::{Batches, Opener};
use crate::table::{Column, FieldColumn, Spine, names, times};

/// Makes the table functions known.
pub(crate) fn register(database: &Arc<Database>, context: &SessionContext) {
    context.register_udtf("match_pairs", Arc::new(MatchPairs(database.clone())));
}

#[derive(Debug)]
struct MatchPairs(Arc<Database>);

impl TableFunctionImpl for MatchPairs {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let text = |of: &Expr| match of {
            Expr::Literal(value, _) => text_of(value),
            _ => None,
        };
        let texts: Option<Vec<String>> = args.exprs().iter().map(text).collect();
        let Some([from, to, rest @ ..]) = texts.as_deref().filter(|texts| texts.len() <= 3) else {
            return plan_err!("`match_pairs` takes the names of two events and paths, all in quotes");
        };
        let paths = rest.first().map_or("", String::as_str);
        let pairs = Pairs::new(&self.0, from, to, paths)?;
        let schema = pairs.schema.clone();
        Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(pairs)])?))
    }
}

/// The pairs of two kinds of events.
struct Pairs {
    database: Arc<Database>,
    from: Pattern,
    to: Pattern,
    keys: Vec<Column>,
    schema: SchemaRef,
}

/// Columns that are read of each event, before its keys.
const READ: [(&str, Spine); 6] = [
    ("trace", Spine::Trace),
    ("ns", Spine::Ns),
    ("time", Spine::Time),
    ("cpu", Spine::Cpu),
    ("class", Spine::Class),
    ("name", Spine::Name),
];

fn type_of(spine: Spine) -> DataType {
    match spine {
        Spine::Trace | Spine::StreamName | Spine::Name => names(),
        Spine::Time => times(),
        Spine::Event | Spine::Ns | Spine::Packet => DataType::Int64,
        Spine::Cycles | Spine::Id | Spine::Stream => DataType::UInt64,
        Spine::Cpu | Spine::Class => DataType::Int32,
    }
}

impl Pairs {
    fn new(database: &Arc<Database>, from: &str, to: &str, paths: &str) -> Result<Pairs> {
        for (name, of) in [(from, "first"), (to, "second")] {
            let pattern = Pattern::glob(name);
            let has_open = |trace: &tracemill_format::OpenTrace| {
                trace.schema.events().iter().any(|class| class.open_ids.is_some())
            };
            let is_known = database.by_name.iter().any(|(known, _)| pattern.matches(known.as_bytes()));
            if !is_known && !database.session.traces.iter().any(has_open) {
                let names: Vec<&str> = database.by_name.iter().map(|(name, _)| name.as_str()).collect();
                let near = tracemill_codec::text::meant(name, &names);
                let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                return plan_err!("no event class has the name `{name}`, the {of} argument of `match_pairs`{near}");
            }
        }
        let mut fields = vec![
            Field::new("trace", names(), true),
            Field::new("ns", DataType::Int64, true),
            Field::new("time", times(), true),
            Field::new("dur", DataType::Int64, true),
            Field::new("cpu", DataType::Int32, true),
            Field::new("end_cpu", DataType::Int32, true),
            Field::new("begin_class", DataType::Int32, true),
            Field::new("end_class", DataType::Int32, true),
        ];
        let mut keys = Vec::new();
        for path in paths.split(',').map(str::trim).filter(|path| !path.is_empty()) {
            let (column, data_type) = key_column(database, path)?;
            let last = path.rsplit('.').next().unwrap_or(path).trim_matches('`').to_string();
            let mut name = last.clone();
            while fields.iter().any(|field| *field.name() == name) {
                name.push('_');
            }
            fields.push(Field::new(name, data_type, true));
            keys.push(column);
        }
        Ok(Pairs {
            database: database.clone(),
            from: Pattern::glob(from),
            to: Pattern::glob(to),
            keys,
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
            READ.iter().map(|(name, spine)| Field::new(*name, type_of(*spine), true)).collect();
        let mut columns: Vec<Column> = READ.iter().map(|(_, spine)| Column::Spine(*spine)).collect();
        for (at, key) in self.keys.iter().enumerate() {
            fields.push(Field::new(format!("key {at}"), self.schema.field(8 + at).data_type().clone(), true));
            columns.push(key.clone());
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
            batch_size: 8192,
            metrics: ExecutionPlanMetricsSet::new(),
            partition: 0,
        })
    }
}

/// The column of a path, looked for where a filter looks for it.
fn key_column(database: &Database, path: &str) -> Result<(Column, DataType)> {
    let spine = match path {
        "cpu" => Some(Spine::Cpu),
        "name" => Some(Spine::Name),
        "id" if path_column(database, Scope::Payload.key(), path).is_err() => Some(Spine::Id),
        "stream" => Some(Spine::Stream),
        "trace" => Some(Spine::Trace),
        _ => None,
    };
    if let Some(spine) = spine {
        return Ok((Column::Spine(spine), type_of(spine)));
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
    Ok((Column::Field(Arc::new(column)), data_type))
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
        f.write_str("match_pairs")
    }
}

/// A beginning without its end so far.
struct Begin {
    trace: ScalarValue,
    ns: i64,
    has_date: bool,
    cpu: Option<i32>,
    class: i32,
}

/// Rows in the making.
#[derive(Default)]
struct Rows {
    trace: Vec<ScalarValue>,
    ns: Vec<i64>,
    time: Vec<Option<i64>>,
    dur: Vec<i64>,
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
        let (sender, schema, key_count) = (builder.tx(), self.schema.clone(), self.keys.len());
        let (from, to, batches) = (self.from.clone(), self.to.clone(), self.batches());
        builder.spawn_blocking(move || {
            let mut batches = batches?;
            // The latest beginning of each key; the key is shared by nobody else.
            let mut open: HashMap<Vec<ScalarValue>, Begin> = HashMap::new();
            let mut rows = Rows::default();
            while let Some(batch) = batches.next()? {
                pair(&batch, key_count, (&from, &to), &mut open, &mut rows)?;
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
    key_count: usize,
    (from, to): (&Pattern, &Pattern),
    open: &mut HashMap<Vec<ScalarValue>, Begin>,
    rows: &mut Rows,
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
        let key = (0..key_count).map(|key| ScalarValue::try_from_array(batch.column(READ.len() + key), at));
        let key = key.collect::<Result<Vec<_>>>()?;
        let cpu = (!cpus.is_null(at)).then(|| cpus.value(at));
        if ends && let Some((key, begin)) = open.remove_entry(&key) {
            rows.trace.push(begin.trace);
            rows.ns.push(begin.ns);
            rows.time.push(begin.has_date.then_some(begin.ns));
            rows.dur.push(ns.value(at).saturating_sub(begin.ns));
            rows.cpu.push(begin.cpu);
            rows.end_cpu.push(cpu);
            rows.begin_class.push(begin.class);
            rows.end_class.push(classes.value(at));
            rows.keys.push(key);
        }
        if begins {
            let trace = ScalarValue::try_from_array(batch.column(0), at)?;
            let has_date = !times.is_null(at);
            open.insert(key, Begin { trace, ns: ns.value(at), has_date, cpu, class: classes.value(at) });
        }
    }
    Ok(())
}

impl Rows {
    fn take(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = std::mem::take(self);
        let time = TimestampNanosecondArray::from(rows.time).with_timezone("UTC");
        let mut columns: Vec<ArrayRef> = vec![
            of_values(rows.trace, schema.field(0).data_type())?,
            Arc::new(Int64Array::from(rows.ns)),
            Arc::new(time),
            Arc::new(Int64Array::from(rows.dur)),
            Arc::new(Int32Array::from(rows.cpu)),
            Arc::new(Int32Array::from(rows.end_cpu)),
            Arc::new(Int32Array::from(rows.begin_class)),
            Arc::new(Int32Array::from(rows.end_class)),
        ];
        for at in columns.len()..schema.fields().len() {
            let values = rows.keys.iter().map(|key| key[at - 8].clone()).collect();
            columns.push(of_values(values, schema.field(at).data_type())?);
        }
        RecordBatch::try_new(schema.clone(), columns).map_err(DataFusionError::from)
    }
}

fn of_values(values: Vec<ScalarValue>, data_type: &DataType) -> Result<ArrayRef> {
    if values.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    Ok(cast(&ScalarValue::iter_to_array(values)?, data_type)?)
}
