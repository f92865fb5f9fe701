//! Functions of one row: `instant`, `bucket`, `log2_bucket`, `duration`, `label`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, StringArray, StructArray, TimestampNanosecondArray};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use tracemill_engine::filter::{Time, parse_duration};
use tracemill_engine::parsed_query::times;

use crate::database::Database;
use crate::field::{FieldFunction, text_of};

/// All functions.
pub(crate) fn all(database: &Arc<Database>) -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::from(FieldFunction::new(database)),
        ScalarUDF::from(Instant { database: database.clone(), signature: Signature::any(1, Volatility::Immutable) }),
        ScalarUDF::from(Plain::new("bucket", 2)),
        ScalarUDF::from(Plain::new("log2_bucket", 1)),
        ScalarUDF::from(Plain::new("duration", 1)),
        ScalarUDF::from(Plain::new("label", 1)),
    ]
}

/// The ns of a time as it is written on the command line: a constant of the plan.
#[derive(Debug)]
struct Instant {
    database: Arc<Database>,
    signature: Signature,
}

impl PartialEq for Instant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.database, &other.database)
    }
}

impl Eq for Instant {}

impl std::hash::Hash for Instant {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl Instant {
    fn value(&self, text: &str) -> Result<i64> {
        let plain =
            |error: tracemill_model::error::Error| DataFusionError::Plan(format!("`{text}`: {}", error.message()));
        let time = Time::parse(text).map_err(plain)?;
        let known = times(&self.database.session, true, time.needs());
        let ns = time.resolve(text, &known).map_err(plain)?;
        i64::try_from(ns).map_err(|_| DataFusionError::Plan(format!("`{text}` is outside of 64 bits of ns")))
    }
}

impl ScalarUDFImpl for Instant {
    fn name(&self) -> &str {
        "instant"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.as_slice() {
            [Expr::Literal(value, _)] => match text_of(value) {
                Some(text) => Ok(ExprSimplifyResult::Simplified(lit(self.value(&text)?))),
                None => plan_err!("`instant` takes a time in quotes"),
            },
            _ => plan_err!("`instant` takes a time in quotes, not a column"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.first() {
            Some(ColumnarValue::Scalar(value)) => match text_of(value) {
                Some(text) => Ok(ColumnarValue::Scalar(ScalarValue::Int64(Some(self.value(&text)?)))),
                None => plan_err!("`instant` takes a time in quotes"),
            },
            _ => plan_err!("`instant` takes a time in quotes, not a column"),
        }
    }
}

/// Functions that know no trace.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Plain {
    name: &'static str,
    signature: Signature,
}

impl Plain {
    fn new(name: &'static str, arguments: usize) -> Self {
        Plain { name, signature: Signature::any(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Plain {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let is_number = |of: &DataType| of.is_numeric() || *of == DataType::Null;
        Ok(match (self.name, &arguments[0]) {
            ("bucket", DataType::Timestamp(_, zone)) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            ("bucket" | "log2_bucket", of) if is_number(of) => DataType::Int64,
            ("duration", of) if is_number(of) => DataType::Utf8,
            ("label", DataType::Struct(_)) => DataType::Utf8,
            ("label", _) => return plan_err!("`label` takes an enumeration inside of a structure or a list"),
            (name, of) => return plan_err!("`{name}` takes a number, not {of}"),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if self.name == "bucket" {
            // A wrong width is an error before anything is read.
            if let Some(Some(width)) = args.scalar_arguments.get(1) {
                width_of(width)?;
            }
        }
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let values = args.args[0].to_array(args.number_rows)?;
        let result: ArrayRef = match self.name {
            "bucket" => {
                let ColumnarValue::Scalar(width) = &args.args[1] else {
                    return exec_err!("the width of `bucket` is a constant");
                };
                bucket(&values, width_of(width)?)?
            }
            "log2_bucket" => {
                let numbers = cast(&values, &DataType::Int64)?;
                let numbers = numbers.as_primitive::<Int64Type>().iter().map(|x| x.map(log2_bucket));
                Arc::new(numbers.collect::<Int64Array>())
            }
            "duration" => {
                let numbers = cast(&values, &DataType::Int64)?;
                let texts = numbers.as_primitive::<Int64Type>().iter().map(|ns| ns.map(duration));
                Arc::new(texts.collect::<StringArray>())
            }
            _ => label(values.as_struct())?,
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// The width of buckets: a number, or a duration with its unit.
fn width_of(width: &ScalarValue) -> Result<i64> {
    let found = match text_of(width) {
        Some(text) => parse_duration(text.trim()).ok().and_then(|ns| i64::try_from(ns).ok()),
        None => match width.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(width)) => width,
            _ => None,
        },
    };
    match found.filter(|width| *width > 0) {
        Some(width) => Ok(width),
        None => plan_err!("{width} is not a width of `bucket`: it is a number above 0, or a duration such as '10ms'"),
    }
}

/// The largest multiple of the width that is not above each value.
fn bucket(values: &ArrayRef, width: i64) -> Result<ArrayRef> {
    // Below the smallest multiple that fits there is none.
    let floor = |x: i64| x.checked_sub(x.rem_euclid(width));
    if let DataType::Timestamp(_, zone) = values.data_type() {
        let times = cast(values, &DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()))?;
        let times = times.as_primitive::<TimestampNanosecondType>().iter().map(|x| x.and_then(floor));
        let array = times.collect::<TimestampNanosecondArray>();
        return Ok(Arc::new(array.with_timezone_opt(zone.clone())));
    }
    let numbers = cast(values, &DataType::Int64)?;
    Ok(Arc::new(numbers.as_primitive::<Int64Type>().iter().map(|x| x.and_then(floor)).collect::<Int64Array>()))
}

/// The largest power of two that is not above x, with the sign of x.
fn log2_bucket(x: i64) -> i64 {
    let power = |x: u64| 1u64 << (63 - x.leading_zeros());
    match x {
        0 => 0,
        x if x > 0 => power(x as u64) as i64,
        // The power of the smallest number has no positive twin.
        x => (power(x.unsigned_abs()) as i64).wrapping_neg(),
    }
}

/// A duration for people, with four digits.
fn duration(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let size = ns.unsigned_abs();
    let (unit, name) = match size {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        1_000_000_000..60_000_000_000 => (1e9, "s"),
        60_000_000_000..3_600_000_000_000 => (60e9, "min"),
        3_600_000_000_000..86_400_000_000_000 => (3600e9, "h"),
        _ => (86_400e9, "d"),
    };
    format!("{sign}{:.3} {name}", size as f64 / unit)
}

/// The label of nested enumerations.
fn label(of: &StructArray) -> Result<ArrayRef> {
    let part = of.column_by_name("label").or_else(|| of.column_by_name("labels"));
    let Some(part) = part else { return plan_err!("`label` takes a structure with `value` and `label`") };
    match part.data_type() {
        DataType::List(_) => {
            let lists = part.as_list::<i32>();
            let first = |at: usize| {
                let of = cast(&lists.value(at), &DataType::Utf8).ok()?;
                of.as_string::<i32>().iter().next().flatten().map(str::to_string)
            };
            Ok(Arc::new(
                (0..lists.len()).map(|at| if lists.is_null(at) { None } else { first(at) }).collect::<StringArray>(),
            ))
        }
        _ => Ok(cast(part, &DataType::Utf8)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_go_down_and_durations_have_units() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), Some(-1), Some(10), None, Some(i64::MIN)]));
        let buckets = bucket(&numbers, 5).expect("numbers");
        assert_eq!(
            buckets.as_primitive::<Int64Type>(),
            &Int64Array::from(vec![Some(5), Some(-5), Some(10), None, None])
        );
        assert_eq!([0, 1, 3, 4, -5, i64::MIN].map(log2_bucket), [0, 1, 2, 4, -4, i64::MIN]);
        let width = |text: &str| width_of(&ScalarValue::Utf8(Some(text.into()))).ok();
        assert_eq!([width("1m30s"), width("0.5ms")], [Some(90_000_000_000), Some(500_000)]);
        for wrong in ["5", "ms", "1x", "", "9999999999999d"] {
            assert_eq!(width(wrong), None, "{wrong}");
        }
        let texts = [0, 999, 1_234, -1_500_000, 90_000_000_000].map(duration);
        assert_eq!(texts, ["0 ns", "999 ns", "1.234 us", "-1.500 ms", "1.500 min"]);
        assert!(width_of(&ScalarValue::Int64(Some(0))).is_err());
    }
}
