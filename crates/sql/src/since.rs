//! `since_last(x)`: how much x grew since the row before.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl};

/// The function.
pub(crate) fn since_last() -> WindowUDF {
    WindowUDF::from(SinceLast { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SinceLast {
    signature: Signature,
}

impl WindowUDFImpl for SinceLast {
    fn name(&self) -> &str {
        "since_last"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [of] = types else { return plan_err!("`since_last` takes one value") };
        Ok(vec![match of {
            DataType::UInt64 => DataType::UInt64,
            DataType::Null => DataType::Int64,
            of if of.is_integer() => DataType::Int64,
            of if of.is_floating() => DataType::Float64,
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            of => return plan_err!("`since_last` takes integers, floats and times, not {of}"),
        }])
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Differences))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let of = args.input_fields().first().map(|field| field.data_type());
        let is_real = of.is_some_and(DataType::is_floating);
        let data_type = if is_real { DataType::Float64 } else { DataType::Int64 };
        Ok(Arc::new(Field::new(args.name(), data_type, true)))
    }
}

/// Looks at each row and the one before.
#[derive(Debug)]
struct Differences;

impl PartitionEvaluator for Differences {
    fn get_range(&self, row: usize, _: usize) -> Result<Range<usize>> {
        Ok(row.saturating_sub(1)..row + 1)
    }

    fn is_causal(&self) -> bool {
        true
    }

    fn supports_bounded_execution(&self) -> bool {
        true
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        difference(&values[0], (range.len() > 1).then_some(range.start), range.end - 1)
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let all = (0..rows).map(|row| difference(&values[0], row.checked_sub(1), row));
        ScalarValue::iter_to_array(all.collect::<Result<Vec<_>>>()?)
    }
}

/// The value of a row less that of another one; NULL when one of them is.
fn difference(of: &ArrayRef, before: Option<usize>, row: usize) -> Result<ScalarValue> {
    let before = before.filter(|&before| of.is_valid(before) && of.is_valid(row));
    let integer = |get: &dyn Fn(usize) -> i128| {
        let Some(before) = before else { return Ok(ScalarValue::Int64(None)) };
        let left = |_| DataFusionError::Execution("a result of `since_last` leaves 64 bits".into());
        Ok(ScalarValue::Int64(Some(i64::try_from(get(row) - get(before)).map_err(left)?)))
    };
    match of.data_type() {
        DataType::Float64 => {
            let of = of.as_primitive::<Float64Type>();
            Ok(ScalarValue::Float64(before.map(|before| of.value(row) - of.value(before))))
        }
        DataType::UInt64 => integer(&|at| of.as_primitive::<UInt64Type>().value(at).into()),
        DataType::Timestamp(..) => integer(&|at| of.as_primitive::<TimestampNanosecondType>().value(at).into()),
        _ => integer(&|at| of.as_primitive::<Int64Type>().value(at).into()),
    }
}
