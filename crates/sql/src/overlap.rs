//! `overlap`: a row for each pair of rows of two tables that share time.
//!
//! Both tables come in the order of their beginnings, and what is kept of them are the rows that may still share time with one
//! that comes: those that have not ended.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef, SortOptions};
use arrow_select::interleave::interleave;
use async_trait::async_trait;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DataFusionError, Result, TableReference, plan_err};
use datafusion::datasource::source_as_provider;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType, cast, lit};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::field::text_of;

/// Calls whose tables were looked for.
pub(crate) type KnownOverlaps = Arc<Mutex<HashMap<Vec<String>, Arc<Overlap>>>>;

/// Makes `overlap` known.
pub(crate) fn register(context: &SessionContext, known: &KnownOverlaps) {
    context.register_udtf("overlap", Arc::new(OverlapFunction(known.clone())));
}

/// The function. Tables are looked for asynchronously, so [`Overlap::find`] must have been called before.
#[derive(Debug)]
struct OverlapFunction(KnownOverlaps);

impl TableFunctionImpl for OverlapFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let text = |of: &Expr| match of {
            Expr::Literal(value, _) => text_of(value),
            _ => None,
        };
        let texts: Option<Vec<String>> = args.exprs().iter().map(text).collect();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match texts.and_then(|texts| known.get(&texts).cloned()) {
            Some(overlap) => Ok(overlap),
            None => plan_err!("`overlap` takes the names of two tables, and maybe keys, all in quotes"),
        }
    }
}

/// A call of `overlap`.
#[derive(Debug)]
pub(crate) struct Overlap {
    sides: [Side; 2],
    schema: SchemaRef,
    /// The side of each column after `ns` and `dur`, and its place there.
    sources: Vec<(usize, usize)>,
}

/// A table of a call: `ns`, `dur` and the keys as they are compared, then columns that are shown.
#[derive(Debug)]
struct Side {
    plan: LogicalPlan,
    compared: Vec<Expr>,
    shown: Vec<Expr>,
}

impl Overlap {
    /// Looks for the tables of a call.
    pub(crate) async fn find(context: &SessionContext, arguments: &[String]) -> Result<Overlap> {
        let [a, b, rest @ ..] = arguments else { return plan_err!("`overlap` takes the names of two tables") };
        let keys = rest.first().map_or("", String::as_str).split(',').map(str::trim).filter(|key| !key.is_empty());
        let keys: Vec<&str> = keys.collect();
        let mut plans = Vec::new();
        for name in [a, b] {
            let plan = context.table(TableReference::bare(name.as_str())).await?.into_unoptimized_plan();
            for wanted in ["ns", "dur"].iter().chain(&keys) {
                if plan.schema().index_of_column_by_name(None, wanted).is_none() {
                    return plan_err!("`{name}` has no column `{wanted}`, which `overlap` needs");
                }
            }
            for time in ["ns", "dur"] {
                // Half a ns would count as none, and a row of it as one that lasts no time.
                let kind = plan.schema().field_with_unqualified_name(time)?.data_type();
                if kind.is_floating() {
                    return plan_err!(
                        "`{time}` of `{name}` is a floating-point number, and `overlap` needs whole ns: `cast({time} as bigint)`"
                    );
                }
            }
            plans.push(plan);
        }
        let field = |side: usize, name: &str| {
            let schema = plans[side].schema();
            let at = schema.index_of_column_by_name(None, name).unwrap_or_default();
            let (of, field) = schema.qualified_field(at);
            (Expr::Column(Column::new(of.cloned(), field.name())), field.clone())
        };
        let as_kind = |(expression, field): (Expr, Arc<Field>), kind: &DataType| match field.data_type() == kind {
            true => expression,
            false => cast(expression, kind.clone()),
        };
        let mut kinds = vec![DataType::Int64, DataType::Int64];
        for key in &keys {
            let sides = [field(0, key).1, field(1, key).1];
            let [left, right] = [sides[0].data_type(), sides[1].data_type()];
            let Some(kind) = comparison_coercion(left, right) else {
                return plan_err!(
                    "the key `{key}` of `overlap` is of kinds that cannot be compared in `{a}` and `{b}`"
                );
            };
            kinds.push(kind);
        }
        let compared = |side: usize| {
            let names = ["ns", "dur"].iter().chain(&keys);
            names.zip(&kinds).map(|(name, kind)| as_kind(field(side, name), kind)).collect::<Vec<_>>()
        };
        let mut fields: Vec<Arc<Field>> =
            ["ns", "dur"].map(|name| Arc::new(Field::new(name, DataType::Int64, true))).into();
        let (mut shown, mut sources) = ([Vec::new(), Vec::new()], Vec::new());
        let columns = plans.iter().enumerate().flat_map(|(side, plan)| {
            let all = plan.schema().fields().iter().map(|field| field.name().as_str());
            let others = all.filter(|name| !["ns", "dur"].contains(name) && !keys.contains(name));
            let keys = keys.iter().copied().filter(move |_| side == 0);
            keys.chain(others).map(move |name| (side, name)).collect::<Vec<_>>()
        });
        for (side, name) in columns {
            let (mut own, mut number) = (name.to_string(), 2);
            while fields.iter().any(|field| *field.name() == own) {
                own = format!("{name}_{number}");
                number += 1;
            }
            let (expression, field) = field(side, name);
            fields.push(Arc::new(field.as_ref().clone().with_name(own).with_nullable(true)));
            sources.push((side, shown[side].len()));
            shown[side].push(expression);
        }
        let compared = [compared(0), compared(1)];
        let sides = plans.into_iter().zip(compared).zip(shown);
        let sides: Vec<Side> = sides.map(|((plan, compared), shown)| Side { plan, compared, shown }).collect();
        let sides = sides.try_into().map_err(|_| DataFusionError::Internal("two tables".into()))?;
        Ok(Overlap { sides, schema: Arc::new(Schema::new(fields)), sources })
    }
}

impl Side {
    /// The rows that may share time, with some of the columns that are shown.
    fn rows(&self, shown: &[usize]) -> Result<LogicalPlan> {
        let (ns, dur) = (self.compared[0].clone(), self.compared[1].clone());
        // A NULL is equal to nothing. Arrays do not say of all of theirs that they are NULL, so it is decided here.
        let keys = self.compared[2..].iter().map(|key| key.clone().is_not_null());
        let is_wanted = keys.fold(ns.is_not_null().and(dur.gt(lit(0_i64))), Expr::and);
        let compared = self.compared.iter().enumerate().map(|(at, of)| of.clone().alias(format!("#{at}")));
        let shown = shown.iter().map(|&at| self.shown[at].clone().alias(format!("#shown {at}")));
        let columns: Vec<Expr> = compared.chain(shown).collect();
        LogicalPlanBuilder::from(self.plan.clone()).filter(is_wanted)?.project(columns)?.build()
    }
}

#[async_trait]
impl TableProvider for Overlap {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let wanted = projection.unwrap_or(&all);
        let mut shown = [Vec::new(), Vec::new()];
        for &(side, at) in wanted.iter().filter_map(|&at| self.sources.get(at.checked_sub(2)?)) {
            if !shown[side].contains(&at) {
                shown[side].push(at);
            }
        }
        let mut inputs = Vec::new();
        for (side, shown) in self.sides.iter().zip(&shown) {
            inputs.push(state.create_physical_plan(&side.rows(shown)?).await?);
        }
        let [a, b] = inputs.try_into().map_err(|_| DataFusionError::Internal("two tables".into()))?;
        let pairs = OverlapExec::new(a, b, self.sides[0].compared.len() - 2);
        let columns = wanted.iter().map(|&at| {
            let place = match at.checked_sub(2).and_then(|at| self.sources.get(at)) {
                None => at,
                Some(&(side, of)) => {
                    let before = if side == 0 { 0 } else { shown[0].len() };
                    2 + before + shown[side].iter().position(|own| *own == of).unwrap_or_default()
                }
            };
            let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(pairs.schema.field(place).name(), place));
            (column, self.schema.field(at).name().clone())
        });
        let columns: Vec<_> = columns.collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, Arc::new(pairs))?))
    }
}

/// The plan: its children have `ns`, `dur` and the keys first; its rows are `ns` and `dur` of what is shared, then the other
/// columns of both, in the order of `ns`.
#[derive(Debug)]
pub struct OverlapExec {
    children: [Arc<dyn ExecutionPlan>; 2],
    keys: usize,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

fn by_ns(schema: &Schema) -> Option<LexOrdering> {
    let options = SortOptions { descending: false, nulls_first: false };
    LexOrdering::new([PhysicalSortExpr::new(Arc::new(ColumnExpr::new(schema.field(0).name(), 0)), options)])
}

impl OverlapExec {
    /// The pairs of two plans that have so many keys.
    pub fn new(a: Arc<dyn ExecutionPlan>, b: Arc<dyn ExecutionPlan>, keys: usize) -> OverlapExec {
        let mut fields: Vec<Arc<Field>> =
            ["ns", "dur"].map(|name| Arc::new(Field::new(name, DataType::Int64, true))).into();
        for (side, child) in [("a", &a), ("b", &b)] {
            let shown = child.schema().fields().iter().skip(2 + keys).cloned().collect::<Vec<_>>();
            // A column of one name may come from both sides.
            let named = shown
                .iter()
                .map(|field| field.as_ref().clone().with_name(format!("{side}.{}", field.name())).with_nullable(true));
            fields.extend(named.map(Arc::new));
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let order = EquivalenceProperties::new_with_orderings(schema.clone(), by_ns(&schema));
        let partitions = Partitioning::UnknownPartitioning(1);
        let properties = PlanProperties::new(order, partitions, EmissionType::Incremental, Boundedness::Bounded);
        OverlapExec { children: [a, b], keys, schema, properties: Arc::new(properties) }
    }

    /// How many keys must be equal.
    pub fn keys(&self) -> usize {
        self.keys
    }
}

impl DisplayAs for OverlapExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OverlapExec: keys={}", self.keys)
    }
}

impl ExecutionPlan for OverlapExec {
    fn name(&self) -> &'static str {
        "OverlapExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition; 2]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.children.iter().map(|child| by_ns(&child.schema()).map(OrderingRequirements::from)).collect()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [a, b]: [_; 2] =
            children.try_into().map_err(|_| DataFusionError::Internal("`overlap` has two children".into()))?;
        Ok(Arc::new(OverlapExec::new(a, b, self.keys)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let kept = MemoryConsumer::new(format!("OverlapExec[{partition}]")).register(context.memory_pool());
        let mut sides = Vec::new();
        for child in &self.children {
            sides.push(OpenRows::new(child.execute(partition, context.clone())?, self.keys)?);
        }
        let sides = sides.try_into().map_err(|_| DataFusionError::Internal("two tables".into()))?;
        let sweep = Sweep { sides, pairs: Pairs::default(), schema: self.schema.clone(), kept };
        let rows = futures::stream::try_unfold(sweep, |mut sweep| async move {
            Ok(sweep.next().await?.map(|batch| (batch, sweep)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows)))
    }
}

/// Rows of a batch that is given.
const ROWS: usize = 8192;

/// A batch counts as at least so many rows, so that not too many are kept.
const LEAST_ROWS: usize = 128;

/// A row that has not ended: when it ends, and where its columns are.
struct OpenRow {
    end: i64,
    place: (usize, usize),
}

/// The rows of a table, up to where both were read.
struct OpenRows {
    input: SendableRecordBatchStream,
    keys: usize,
    converter: RowConverter,
    now: Option<Now>,
    is_over: bool,
    /// The columns that are shown, of the rows below and others.
    kept: Vec<RecordBatch>,
    kept_rows: usize,
    /// From so many rows on it is worth to look which have ended.
    most_rows: usize,
    /// Rows that have not ended, and some that have, by key.
    rows: HashMap<Box<[u8]>, Vec<OpenRow>>,
}

/// The batch that is read.
struct Now {
    ns: Int64Array,
    dur: Int64Array,
    keys: Rows,
    /// The columns of the keys: a NULL is equal to nothing.
    key_columns: Vec<ArrayRef>,
    at: usize,
}

impl Now {
    fn is_wanted(&self) -> bool {
        let is_there = |column: &dyn Array| !column.is_null(self.at);
        is_there(&self.ns)
            && is_there(&self.dur)
            && self.dur.value(self.at) > 0
            && self.key_columns.iter().all(|key| !key.is_null(self.at))
    }
}

impl OpenRows {
    fn new(input: SendableRecordBatchStream, keys: usize) -> Result<OpenRows> {
        let kinds =
            input.schema().fields()[2..2 + keys].iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        Ok(OpenRows {
            input,
            keys,
            converter: RowConverter::new(kinds.into_iter().map(SortField::new).collect())?,
            now: None,
            is_over: false,
            kept: Vec::new(),
            kept_rows: 0,
            most_rows: 4 * ROWS,
            rows: HashMap::new(),
        })
    }

    /// Is there a row to go on with?
    fn is_filled(&mut self) -> bool {
        while let Some(now) = &mut self.now {
            if now.at == now.ns.len() {
                self.now = None;
            } else if now.is_wanted() {
                return true;
            } else {
                now.at += 1;
            }
        }
        self.is_over
    }

    fn ns(&self) -> Option<i64> {
        self.now.as_ref().map(|now| now.ns.value(now.at))
    }

    fn push_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let number = |at: usize| batch.column(at).as_primitive::<Int64Type>().clone();
        let keys = batch.columns()[2..2 + self.keys].to_vec();
        let rows = match self.keys {
            0 => self.converter.empty_rows(0, 0),
            _ => self.converter.convert_columns(&keys)?,
        };
        self.now = Some(Now { ns: number(0), dur: number(1), keys: rows, key_columns: keys, at: 0 });
        let shown: Vec<usize> = (2 + self.keys..batch.num_columns()).collect();
        self.kept.push(batch.project(&shown)?);
        self.kept_rows += batch.num_rows().max(LEAST_ROWS);
        Ok(())
    }

    /// Forgets rows that ended before a time, when there may be many.
    fn forget(&mut self, ns: i64) -> Result<()> {
        if self.kept_rows < self.most_rows {
            return Ok(());
        }
        let mut places = Vec::new();
        self.rows.retain(|_, rows| {
            rows.retain(|row| row.end > ns);
            rows.shrink_to_fit();
            for row in rows.iter_mut() {
                places.push(row.place);
                row.place = (0, places.len() - 1);
            }
            !rows.is_empty()
        });
        // The row that is read now is kept as it is, too, after the others.
        let last = self.kept.last().filter(|_| self.now.is_some()).cloned();
        let kept = gathered(&self.kept, &places)?;
        self.kept = kept.into_iter().chain(last).collect();
        self.kept_rows = self.kept.iter().map(|batch| batch.num_rows().max(LEAST_ROWS)).sum();
        self.most_rows = 2 * self.kept_rows + 4 * ROWS;
        Ok(())
    }

    fn bytes(&self) -> usize {
        let rows: usize = self.rows.values().map(|rows| rows.capacity() * size_of::<OpenRow>() + 64).sum();
        rows + self.kept.iter().map(RecordBatch::get_array_memory_size).sum::<usize>()
    }
}

/// Rows of batches as one batch; `None` where there are no batches.
fn gathered(batches: &[RecordBatch], places: &[(usize, usize)]) -> Result<Option<RecordBatch>> {
    let Some(first) = batches.first() else { return Ok(None) };
    let column = |at: usize| {
        let columns: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        interleave(&columns, places)
    };
    let columns = (0..first.num_columns()).map(column).collect::<std::result::Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
    Ok(Some(RecordBatch::try_new_with_options(first.schema(), columns, &options)?))
}

/// Pairs that were not given yet.
#[derive(Default)]
struct Pairs {
    ns: Vec<i64>,
    dur: Vec<i64>,
    places: [Vec<(usize, usize)>; 2],
}

struct Sweep {
    sides: [OpenRows; 2],
    pairs: Pairs,
    schema: SchemaRef,
    kept: MemoryReservation,
}

impl Sweep {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            for side in 0..2 {
                while !self.sides[side].is_filled() {
                    match self.sides[side].input.next().await {
                        None => self.sides[side].is_over = true,
                        Some(batch) => {
                            if let Some(given) = self.push_batch(side, &batch?)? {
                                return Ok(Some(given));
                            }
                        }
                    }
                }
            }
            let side = match (self.sides[0].ns(), self.sides[1].ns()) {
                (None, None) => return self.take_pairs(),
                (Some(a), Some(b)) => usize::from(b < a),
                (a, _) => usize::from(a.is_none()),
            };
            let other = &self.sides[1 - side];
            if other.ns().is_none() && other.rows.is_empty() {
                // No row is left that could share time.
                return self.take_pairs();
            }
            self.step(side);
            if self.pairs.ns.len() >= ROWS {
                return self.take_pairs();
            }
        }
    }

    /// Takes a batch of a side; pairs that must be given before rows are forgotten.
    fn push_batch(&mut self, side: usize, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let before = self.take_pairs()?;
        self.sides[side].push_batch(batch)?;
        let is_filled = self.sides.iter_mut().all(OpenRows::is_filled);
        if let Some(ns) = self.sides.iter().filter_map(OpenRows::ns).min().filter(|_| is_filled) {
            for side in &mut self.sides {
                side.forget(ns)?;
            }
        }
        self.kept.try_resize(self.sides.iter().map(OpenRows::bytes).sum())?;
        Ok(before)
    }

    /// Pairs the next row of a side with those of the other one that have not ended.
    fn step(&mut self, side: usize) {
        let [a, b] = &mut self.sides;
        let (own, other) = if side == 0 { (a, b) } else { (b, a) };
        let Some(now) = &mut own.now else { return };
        let (ns, at) = (now.ns.value(now.at), now.at);
        let end = ns.saturating_add(now.dur.value(at));
        let no_key: &[u8] = &[];
        let row = (own.keys > 0).then(|| now.keys.row(at));
        let key = row.as_ref().map_or(no_key, |row| row.as_ref());
        let place = (own.kept.len() - 1, at);
        if let Some(rows) = other.rows.get_mut(key) {
            let pairs = &mut self.pairs;
            rows.retain(|row| {
                let lasts = row.end > ns;
                if lasts {
                    pairs.ns.push(ns);
                    pairs.dur.push(row.end.min(end) - ns);
                    pairs.places[side].push(place);
                    pairs.places[1 - side].push(row.place);
                }
                lasts
            });
            if rows.is_empty() {
                other.rows.remove(key);
            }
        }
        match own.rows.get_mut(key) {
            Some(rows) => rows.push(OpenRow { end, place }),
            None => {
                own.rows.insert(key.into(), vec![OpenRow { end, place }]);
            }
        }
        now.at += 1;
    }

    /// The pairs so far; `None` without any.
    fn take_pairs(&mut self) -> Result<Option<RecordBatch>> {
        let pairs = std::mem::take(&mut self.pairs);
        if pairs.ns.is_empty() {
            return Ok(None);
        }
        let count = pairs.ns.len();
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(pairs.ns)), Arc::new(Int64Array::from(pairs.dur))];
        for (side, places) in self.sides.iter().zip(&pairs.places) {
            columns.extend(gathered(&side.kept, places)?.into_iter().flat_map(|batch| batch.columns().to_vec()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?))
    }
}

/// Is a part of a plan the scan of a call of `overlap`?
pub(crate) fn is_overlap(plan: &LogicalPlan) -> bool {
    let LogicalPlan::TableScan(scan) = plan else { return false };
    source_as_provider(&scan.source).is_ok_and(|table| {
        let table: &dyn Any = table.as_ref();
        table.is::<Overlap>()
    })
}
