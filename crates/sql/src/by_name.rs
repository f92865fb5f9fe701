//! `group by` over names: the groups of a row are found by the keys of dictionaries, not by their texts.
//!
//! DataFusion compares the texts of each row, which takes longer than reading the rows. Here each text of a dictionary is looked
//! at once, when its first row comes. What is made is what DataFusion's own partial aggregation makes, and its final one joins it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use crate::event_columns::names;

/// Puts [`GroupByNameExec`] where it does what a partial aggregation of DataFusion does.
#[derive(Debug)]
pub(crate) struct GroupByName;

impl PhysicalOptimizerRule for GroupByName {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|plan| {
            let Some(of) = plan.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(plan)) };
            let Some(own) = GroupByNameExec::replacing(of)? else { return Ok(Transformed::no(plan)) };
            let own: Arc<dyn ExecutionPlan> = Arc::new(own);
            if *of.mode() == AggregateMode::Partial {
                return Ok(Transformed::yes(own));
            }
            let aggregates = of.aggr_expr().to_vec();
            let filters = vec![None; aggregates.len()];
            let groups = of.group_expr().as_final();
            let last =
                AggregateExec::try_new(AggregateMode::Final, groups, aggregates, filters, own, of.input_schema())?;
            Ok(Transformed::yes(Arc::new(last)))
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &'static str {
        "GroupByName"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Functions whose state is a few numbers, however many rows there are.
const SMALL: [&str; 5] = ["avg", "count", "max", "min", "sum"];

/// Aggregates rows by names, as far as one partition goes: its rows are the groups and the states of their aggregates.
#[derive(Debug)]
pub(crate) struct GroupByNameExec {
    input: Arc<dyn ExecutionPlan>,
    /// The columns of the names.
    groups: Vec<usize>,
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// Rows that count, of each aggregate.
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl GroupByNameExec {
    /// A plan that does the same as an aggregation of rows, but for the last step of one that has no other after it. `None` when
    /// that groups by other things than names, or keeps more than a few numbers of each group.
    fn replacing(of: &AggregateExec) -> Result<Option<GroupByNameExec>> {
        let groups = of.group_expr();
        let takes_rows = matches!(of.mode(), AggregateMode::Partial | AggregateMode::Single);
        let is_short = groups.is_single() && (1..=MOST_COLUMNS).contains(&groups.num_group_exprs());
        if !takes_rows || !is_short || of.limit_options().is_some() {
            return Ok(None);
        }
        let input = of.input();
        let schema = input.schema();
        let column = |(of, _): &(Arc<dyn PhysicalExpr>, String)| {
            let at = of.downcast_ref::<Column>()?.index();
            (*schema.field(at).data_type() == names()).then_some(at)
        };
        let Some(groups) = groups.expr().iter().map(column).collect::<Option<Vec<_>>>() else { return Ok(None) };
        for aggregate in of.aggr_expr() {
            let is_small = SMALL.contains(&aggregate.fun().name())
                && !aggregate.is_distinct()
                && aggregate.order_bys().is_empty()
                && aggregate.groups_accumulator_supported();
            let is_number = |of: &Arc<dyn PhysicalExpr>| Ok::<_, DataFusionError>(of.data_type(&schema)?.is_numeric());
            let takes_numbers = aggregate.fun().name() == "count"
                || aggregate.expressions().iter().map(is_number).collect::<Result<Vec<_>>>()?.into_iter().all(|is| is);
            if !is_small || !takes_numbers {
                return Ok(None);
            }
        }
        let partial = match of.mode() {
            AggregateMode::Partial => of.schema(),
            _ => {
                let (groups, aggregates) = (of.group_expr().clone(), of.aggr_expr().to_vec());
                let filters = of.filter_expr().to_vec();
                let mode = AggregateMode::Partial;
                AggregateExec::try_new(mode, groups, aggregates, filters, input.clone(), of.input_schema())?.schema()
            }
        };
        let (aggregates, filters) = (of.aggr_expr().to_vec(), of.filter_expr().to_vec());
        Ok(Some(GroupByNameExec::new(input.clone(), groups, aggregates, filters, partial)))
    }

    fn new(
        input: Arc<dyn ExecutionPlan>,
        groups: Vec<usize>,
        aggregates: Vec<Arc<AggregateFunctionExpr>>,
        filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
        schema: SchemaRef,
    ) -> Self {
        let order = EquivalenceProperties::new(schema.clone());
        let partitions = input.properties().output_partitioning().partition_count();
        let partitions = Partitioning::UnknownPartitioning(partitions);
        let properties = PlanProperties::new(order, partitions, EmissionType::Final, Boundedness::Bounded);
        GroupByNameExec { input, groups, aggregates, filters, schema, properties: Arc::new(properties) }
    }
}

impl DisplayAs for GroupByNameExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let groups: Vec<&str> = self.groups.iter().map(|&at| schema.field(at).name().as_str()).collect();
        let aggregates: Vec<&str> = self.aggregates.iter().map(|aggregate| aggregate.name()).collect();
        write!(f, "GroupByNameExec: gby=[{}], aggr=[{}]", groups.join(", "), aggregates.join(", "))
    }
}

impl ExecutionPlan for GroupByNameExec {
    fn name(&self) -> &'static str {
        "GroupByNameExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expression in self.aggregates.iter().flat_map(|aggregate| aggregate.expressions()) {
            if f(&expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        for expression in self.filters.iter().flatten() {
            if f(expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [input]: [_; 1] =
            children.try_into().map_err(|_| DataFusionError::Internal("groups have one input".into()))?;
        let (groups, aggregates, filters) = (self.groups.clone(), self.aggregates.clone(), self.filters.clone());
        Ok(Arc::new(GroupByNameExec::new(input, groups, aggregates, filters, self.schema.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let state = Some((self.input.execute(partition, context)?, NameGroups::new(self)?));
        let rows = futures::stream::try_unfold(state, |state| async move {
            let Some((mut input, mut groups)) = state else { return Ok(None) };
            while let Some(batch) = input.next().await {
                groups.add(&batch?)?;
                if groups.count >= MOST_GROUPS {
                    return Ok(Some((groups.take()?, Some((input, groups)))));
                }
            }
            Ok(if groups.count > 0 { Some((groups.take()?, None)) } else { None })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows)))
    }
}

/// With so many groups they are given as they are, and others begin: one of the same names is joined with them later. So
/// memory does not grow with the number of names.
const MOST_GROUPS: usize = 8192;

/// The keys of so many columns, of 31 bits each, are one number of 64 bits.
const MOST_COLUMNS: usize = 2;

/// With so many pairs of keys a table has a place for each of them.
const MOST_PLACES: u64 = 1 << 16;

/// The names of a group, by column.
type Texts = Vec<Option<Arc<str>>>;

/// The groups of a partition.
struct NameGroups {
    /// The columns of the names.
    columns: Vec<usize>,
    aggregates: Vec<Aggregate>,
    schema: SchemaRef,
    count: usize,
    by_texts: HashMap<Texts, usize>,
    /// Of each group.
    texts: Vec<Texts>,
    /// The dictionaries of the batch before.
    dictionaries: Vec<ArrayRef>,
    by_keys: ByKeys,
    /// The groups of the rows of a batch.
    of_rows: Vec<usize>,
}

/// An aggregate of each group.
struct Aggregate {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    states: Box<dyn GroupsAccumulator>,
}

/// Groups by the keys of all columns in one number, as long as the dictionaries stay the same.
enum ByKeys {
    /// The number of the group, from 1, at each place.
    Dense(Vec<u32>),
    Sparse(HashMap<u64, usize>),
}

impl ByKeys {
    /// For so many different numbers.
    fn new(numbers: u64) -> ByKeys {
        match numbers {
            ..=MOST_PLACES => ByKeys::Dense(vec![0; numbers as usize]),
            _ => ByKeys::Sparse(HashMap::new()),
        }
    }

    #[inline]
    fn get(&self, number: u64) -> Option<usize> {
        match self {
            ByKeys::Dense(groups) => (groups[number as usize] as usize).checked_sub(1),
            ByKeys::Sparse(groups) => groups.get(&number).copied(),
        }
    }

    fn insert(&mut self, number: u64, group: usize) {
        match self {
            ByKeys::Dense(groups) => groups[number as usize] = group as u32 + 1,
            ByKeys::Sparse(groups) => {
                groups.insert(number, group);
            }
        }
    }

    fn clear(&mut self) {
        match self {
            ByKeys::Dense(groups) => groups.fill(0),
            ByKeys::Sparse(groups) => groups.clear(),
        }
    }
}

impl NameGroups {
    fn new(of: &GroupByNameExec) -> Result<NameGroups> {
        let aggregate = |(aggregate, filter): (&Arc<AggregateFunctionExpr>, &Option<_>)| {
            let states = aggregate.create_groups_accumulator()?;
            Ok(Aggregate { arguments: aggregate.expressions(), filter: filter.clone(), states })
        };
        Ok(NameGroups {
            columns: of.groups.clone(),
            aggregates: of.aggregates.iter().zip(&of.filters).map(aggregate).collect::<Result<_>>()?,
            schema: of.schema.clone(),
            count: 0,
            by_texts: HashMap::new(),
            texts: Vec::new(),
            dictionaries: Vec::new(),
            by_keys: ByKeys::Sparse(HashMap::new()),
            of_rows: Vec::new(),
        })
    }

    /// Adds the rows of a batch.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns: Vec<&DictionaryArray<Int32Type>> =
            self.columns.iter().map(|&at| batch.column(at).as_dictionary::<Int32Type>()).collect();
        let is_known = self.dictionaries.len() == columns.len()
            && self.dictionaries.iter().zip(&columns).all(|(known, column)| Arc::ptr_eq(known, column.values()));
        if !is_known {
            self.dictionaries = columns.iter().map(|column| column.values().clone()).collect();
            // NULL has a place of its own after the texts.
            self.by_keys = ByKeys::new(columns.iter().map(|column| column.values().len() as u64 + 1).product());
        }
        self.of_rows.clear();
        let rows = batch.num_rows();
        match (&columns[..], &self.by_keys) {
            ([column], ByKeys::Dense(groups)) if column.nulls().is_none() => {
                let found = column.keys().values().iter().map(|&key| groups[key as usize] as usize);
                self.of_rows.extend(found);
                for row in 0..rows {
                    // From 1; 0 for those that were not met before.
                    self.of_rows[row] = match self.of_rows[row].checked_sub(1) {
                        Some(group) => group,
                        None => self.group(&columns, row),
                    };
                }
            }
            _ => {
                for row in 0..rows {
                    let group = self.group(&columns, row);
                    self.of_rows.push(group);
                }
            }
        }
        for Aggregate { arguments, filter, states } in &mut self.aggregates {
            let values: Vec<ArrayRef> =
                arguments.iter().map(|of| of.evaluate(batch)?.into_array(rows)).collect::<Result<_>>()?;
            let filter = filter.as_ref().map(|filter| filter.evaluate(batch)?.into_array(rows)).transpose()?;
            let filter: Option<&BooleanArray> = filter.as_ref().map(|filter| filter.as_boolean());
            states.update_batch(&values, &self.of_rows, filter, self.count)?;
        }
        Ok(())
    }

    /// The group of a row.
    fn group(&mut self, columns: &[&DictionaryArray<Int32Type>], row: usize) -> usize {
        let key = |column: &DictionaryArray<Int32Type>| match column.is_null(row) {
            true => column.values().len() as u64,
            false => column.keys().values()[row] as u64,
        };
        let number = columns.iter().fold(0, |number, column| number * (column.values().len() as u64 + 1) + key(column));
        if let Some(group) = self.by_keys.get(number) {
            return group;
        }
        let text = |column: &&DictionaryArray<Int32Type>| {
            let texts = column.values().as_string::<i32>();
            let place = (!column.is_null(row)).then(|| column.keys().values()[row] as usize);
            place.filter(|&place| texts.is_valid(place)).map(|place| Arc::from(texts.value(place)))
        };
        let texts: Texts = columns.iter().map(text).collect();
        let group = *self.by_texts.entry(texts).or_insert_with_key(|texts| {
            self.texts.push(texts.clone());
            self.count += 1;
            self.count - 1
        });
        self.by_keys.insert(number, group);
        group
    }

    /// The groups, of which none are left.
    fn take(&mut self) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for at in 0..self.columns.len() {
            let texts = self.texts.iter().filter_map(|texts| texts[at].as_deref());
            let mut next = 0..;
            let keys: Int32Array =
                self.texts.iter().map(|texts| texts[at].as_ref().and_then(|_| next.next())).collect();
            let values = Arc::new(texts.map(Some).collect::<StringArray>());
            columns.push(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values)?));
        }
        for aggregate in &mut self.aggregates {
            columns.extend(aggregate.states.state(EmitTo::All)?);
        }
        self.by_keys.clear();
        self.by_texts.clear();
        self.texts.clear();
        self.count = 0;
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use arrow_cast::pretty::pretty_format_batches;
    use arrow_schema::{DataType, Field, Schema};
    use datafusion::datasource::MemTable;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    /// Numbers that look random.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    /// Names from a dictionary with a text twice, and one that is NULL.
    fn column(random: &mut Random, rows: usize, dictionary: &ArrayRef) -> ArrayRef {
        let key = |random: &mut Random| random.below(dictionary.len() as u64 + 1) as i32;
        let keys = (0..rows).map(|_| Some(key(random)).filter(|&key| (key as usize) < dictionary.len()));
        let keys: Int32Array = keys.collect();
        Arc::new(DictionaryArray::<Int32Type>::try_new(keys, dictionary.clone()).expect("keys are inside"))
    }

    fn dictionary(random: &mut Random, texts: u64) -> ArrayRef {
        let text = |at: u64, random: &mut Random| match at {
            1 => None,
            2 => Some("t0".to_string()),
            _ => Some(format!("t{}", random.below(at + 3) * u64::from(at > 0))),
        };
        Arc::new((0..texts).map(|at| text(at, random)).collect::<StringArray>())
    }

    fn context(table: &Arc<MemTable>, partitions: usize, is_own: bool) -> SessionContext {
        let config = SessionConfig::new().with_target_partitions(partitions);
        let state = SessionStateBuilder::new().with_config(config).with_default_features();
        let state = if is_own { state.with_physical_optimizer_rule(Arc::new(GroupByName)) } else { state };
        let context = SessionContext::new_with_state(state.build());
        crate::exact::register(&context).expect("functions");
        context.register_table("t", table.clone()).expect("a table");
        context
    }

    /// The rows of an answer in the order of their texts, and whether our plan made them.
    async fn rows(context: &SessionContext, text: &str) -> (Vec<String>, bool) {
        let frame = context.sql(text).await.expect(text);
        let plan = frame.clone().create_physical_plan().await.expect(text);
        let is_own = plan.exists(|plan| Ok(plan.is::<GroupByNameExec>())).expect("a walk");
        let batches = frame.collect().await.expect(text);
        let shown = pretty_format_batches(&batches).expect("a table").to_string();
        let mut lines: Vec<String> = shown.lines().filter(|line| !line.starts_with('+')).map(str::to_string).collect();
        lines.sort();
        (lines, is_own)
    }

    #[test]
    fn groups_are_those_of_datafusion() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a thread");
        for seed in 0..6u64 {
            let mut random = Random(seed);
            let many = if seed == 3 { 20_000 } else { 40 };
            let schema = Arc::new(Schema::new(vec![
                Field::new("a", names(), true),
                Field::new("b", names(), true),
                Field::new("x", DataType::Int64, true),
            ]));
            let mut dictionaries = [dictionary(&mut random, many), dictionary(&mut random, 4)];
            let mut batch = || {
                if random.below(3) == 0 {
                    dictionaries = [many, 4].map(|texts| dictionary(&mut random, texts));
                }
                let rows = if seed == 3 { 4_000 } else { random.below(300) as usize };
                let columns: Vec<ArrayRef> =
                    dictionaries.iter().map(|dictionary| column(&mut random, rows, dictionary)).collect();
                let x: Int64Array = (0..rows).map(|_| Some(random.below(90) as i64 - 9).filter(|x| *x < 70)).collect();
                let columns = columns.into_iter().chain([Arc::new(x) as ArrayRef]).collect();
                RecordBatch::try_new(schema.clone(), columns).expect("columns of one length")
            };
            let partitions = (0..1 + seed % 3).map(|_| (0..5).map(|_| batch()).collect()).collect();
            let table = Arc::new(MemTable::try_new(schema.clone(), partitions).expect("a table"));
            for text in [
                "select a, count(*), count(x), sum(x), avg(x), min(x), max(x) from t group by a",
                "select b, a, sum(x) filter (where x > 20), count(*) filter (where x is null) from t group by b, a",
                "select distinct b from t",
                "select a, max(x) from t where x > 3 group by a having count(*) > 1",
                "select a, count(distinct x) from t group by a",
            ] {
                for partitions in [1, 3] {
                    let own = runtime.block_on(rows(&context(&table, partitions, true), text));
                    let others = runtime.block_on(rows(&context(&table, partitions, false), text));
                    assert!(own.1 && !others.1, "{text}");
                    assert!(own.0.len() > 2, "{text}");
                    assert_eq!(own.0, others.0, "seed {seed}, {partitions} partitions: {text}");
                }
            }
            for text in [
                "select x, count(*) from t group by x",
                "select a, x, count(*) from t group by a, x",
                "select a, min(b) from t group by a",
                "select a, median(x) from t group by a",
                "select a, b, c, count(*) from (select a, b, arrow_cast(b, 'Dictionary(Int32, Utf8)') as c from t) group by a, b, c",
                "select count(*) from t",
            ] {
                let (_, is_own) = runtime.block_on(rows(&context(&table, 1, true), text));
                assert!(!is_own, "{text}");
            }
        }
    }
}
