//! Sums, means and differences of integers that are never wrong: DataFusion's own wrap in silence.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, UInt64Array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, exec_err};
use datafusion::execution::FunctionRegistry;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, BinaryExpr, EmitTo, Expr, ExprSchemable, GroupsAccumulator, Operator,
    Signature, Volatility, cast,
};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Decimals that hold all sums and differences of integers of 64 bits.
const DECIMAL: DataType = DataType::Decimal128(38, 0);

/// Sums and means.
pub(crate) fn all() -> Vec<Arc<AggregateUDF>> {
    [Exact::sum(), Exact::mean()].map(AggregateUDF::from).map(Arc::new).into()
}

/// Puts them in the place of DataFusion's.
pub(crate) fn register(context: &SessionContext) -> Result<()> {
    all().iter().for_each(|function| context.register_udaf(AggregateUDF::clone(function)));
    context.state_ref().write().register_expr_planner(Arc::new(Differences))
}

/// A difference with an unsigned integer of 64 bits in it is a decimal, which may be negative.
#[derive(Debug)]
struct Differences;

impl ExprPlanner for Differences {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let types = (expr.left.get_type(schema), expr.right.get_type(schema));
        let (BinaryOperator::Minus, (Ok(left), Ok(right))) = (&expr.op, types) else {
            return Ok(PlannerResult::Original(expr));
        };
        let is_integer = |of: &DataType| of.is_integer();
        if !is_integer(&left) || !is_integer(&right) || ![&left, &right].contains(&&DataType::UInt64) {
            return Ok(PlannerResult::Original(expr));
        }
        let side = |of: Expr| Box::new(cast(of, DECIMAL));
        let difference = BinaryExpr::new(side(expr.left), Operator::Minus, side(expr.right));
        // The type of a difference of decimals may have a digit more, where there is room.
        Ok(PlannerResult::Planned(cast(Expr::BinaryExpr(difference), DECIMAL)))
    }
}

/// `sum` or `avg`: exact for integers, DataFusion's for other numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exact {
    is_mean: bool,
    sum: Sum,
    mean: Avg,
    signature: Signature,
}

impl Exact {
    fn sum() -> Self {
        Exact { is_mean: false, ..Exact::mean() }
    }

    fn mean() -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Exact { is_mean: true, sum: Sum::new(), mean: Avg::new(), signature }
    }

    fn inner(&self) -> &dyn AggregateUDFImpl {
        if self.is_mean { &self.mean } else { &self.sum }
    }
}

/// Is it summed up here?
fn is_exact(fields: &[FieldRef], is_distinct: bool) -> bool {
    let of = fields.first().map(|field| field.data_type());
    !is_distinct && matches!(of, Some(DataType::Int64 | DataType::UInt64))
}

impl AggregateUDFImpl for Exact {
    fn name(&self) -> &str {
        self.inner().name()
    }

    fn aliases(&self) -> &[String] {
        self.inner().aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [of] = types else { return exec_err!("`{}` takes one value", self.name()) };
        Ok(vec![match of {
            DataType::UInt64 => DataType::UInt64,
            of if of.is_integer() => DataType::Int64,
            DataType::Float16 | DataType::Float32 | DataType::Null => DataType::Float64,
            DataType::Dictionary(_, of) => self.coerce_types(&[of.as_ref().clone()])?.remove(0),
            of if of.is_numeric() || matches!(of, DataType::Duration(_) | DataType::Interval(_)) => of.clone(),
            of => return Err(DataFusionError::Plan(format!("`{}` takes numbers, not {of}", self.name()))),
        }])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(DataType::Int64 | DataType::UInt64) if self.is_mean => Ok(DataType::Float64),
            _ => self.inner().return_type(types),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if !is_exact(args.input_fields, args.is_distinct) {
            return self.inner().state_fields(args);
        }
        let field = |name: &str, of| Arc::new(Field::new(format!("{} {name}", args.name), of, true));
        Ok(vec![field("sum", DECIMAL), field("count", DataType::UInt64)])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if !is_exact(args.expr_fields, args.is_distinct) {
            return self.inner().accumulator(args);
        }
        Ok(Box::new(Totals::new(args.return_field.data_type(), 1)))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if !is_exact(args.expr_fields, args.is_distinct) {
            return self.inner().create_sliding_accumulator(args);
        }
        self.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        is_exact(args.expr_fields, args.is_distinct) || self.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        if !is_exact(args.expr_fields, args.is_distinct) {
            return self.inner().create_groups_accumulator(args);
        }
        Ok(Box::new(Totals::new(args.return_field.data_type(), 0)))
    }
}

/// Sums in 128 bits, by group.
#[derive(Debug)]
struct Totals {
    result: DataType,
    sums: Vec<i128>,
    counts: Vec<u64>,
}

impl Totals {
    fn new(result: &DataType, groups: usize) -> Self {
        Totals { result: result.clone(), sums: vec![0; groups], counts: vec![0; groups] }
    }

    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.counts.resize(groups, 0);
    }

    /// Calls `add` with the row and the value of all that are known.
    fn for_each_value(array: &ArrayRef, mut add: impl FnMut(usize, i128)) {
        let is_known = |at: usize| array.is_valid(at);
        let rows = 0..array.len();
        match array.data_type() {
            DataType::UInt64 => {
                let values = array.as_primitive::<UInt64Type>().values();
                rows.filter(|&at| is_known(at)).for_each(|at| add(at, values[at].into()));
            }
            DataType::Int64 => {
                let values = array.as_primitive::<Int64Type>().values();
                match array.nulls() {
                    None => rows.for_each(|at| add(at, values[at].into())),
                    Some(_) => rows.filter(|&at| is_known(at)).for_each(|at| add(at, values[at].into())),
                }
            }
            _ => {}
        }
    }

    fn merge(&mut self, states: &[ArrayRef], group: impl Fn(usize) -> usize) {
        let sums = states[0].as_primitive::<Decimal128Type>().values();
        let counts = states[1].as_primitive::<UInt64Type>().values();
        for row in 0..states[0].len() {
            self.sums[group(row)] += sums[row];
            self.counts[group(row)] += counts[row];
        }
    }

    /// The results of some groups.
    fn results(&self, sums: &[i128], counts: &[u64]) -> Result<ArrayRef> {
        let known = sums.iter().zip(counts).map(|(sum, count)| (*count > 0).then_some((*sum, *count)));
        let left = || DataFusionError::Execution("a sum of integers leaves 64 bits: sum `cast(x as double)`".into());
        Ok(match self.result {
            DataType::Float64 => {
                let means = known.map(|known| known.map(|(sum, count)| sum as f64 / count as f64));
                Arc::new(means.collect::<Float64Array>())
            }
            DataType::UInt64 => {
                let sums = known.map(|known| known.map(|(sum, _)| u64::try_from(sum).map_err(|_| left())).transpose());
                Arc::new(sums.collect::<Result<UInt64Array>>()?)
            }
            _ => {
                let sums = known.map(|known| known.map(|(sum, _)| i64::try_from(sum).map_err(|_| left())).transpose());
                Arc::new(sums.collect::<Result<Int64Array>>()?)
            }
        })
    }

    fn states(sums: Vec<i128>, counts: Vec<u64>) -> Result<Vec<ArrayRef>> {
        let sums = Decimal128Array::from(sums).with_precision_and_scale(38, 0)?;
        Ok(vec![Arc::new(sums), Arc::new(UInt64Array::from(counts))])
    }
}

impl Accumulator for Totals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (mut sum, mut count) = (0, 0);
        Totals::for_each_value(&values[0], |_, value| {
            sum += value;
            count += 1;
        });
        self.sums[0] += sum;
        self.counts[0] += count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        Totals::for_each_value(&values[0], |_, value| {
            self.sums[0] -= value;
            self.counts[0] -= 1;
        });
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.results(&self.sums, &self.counts)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + 24
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = ScalarValue::Decimal128(Some(self.sums[0]), 38, 0);
        Ok(vec![sum, ScalarValue::UInt64(Some(self.counts[0]))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.merge(states, |_| 0);
        Ok(())
    }
}

impl GroupsAccumulator for Totals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.resize(count);
        let is_wanted = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let (sums, counts) = (&mut self.sums, &mut self.counts);
        Totals::for_each_value(&values[0], |row, value| {
            if is_wanted(row) {
                sums[groups[row]] += value;
                counts[groups[row]] += 1;
            }
        });
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = (emit.take_needed(&mut self.sums), emit.take_needed(&mut self.counts));
        self.results(&sums, &counts)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Totals::states(emit.take_needed(&mut self.sums), emit.take_needed(&mut self.counts))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.resize(count);
        self.merge(states, |row| groups[row]);
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut own = Totals::new(&self.result, 0);
        let groups: Vec<usize> = (0..values[0].len()).collect();
        GroupsAccumulator::update_batch(&mut own, values, &groups, filter, groups.len())?;
        Totals::states(own.sums, own.counts)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.counts.capacity() * size_of::<u64>()
    }
}
