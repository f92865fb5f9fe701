//! Values of Arrow's arrays as Python's, for those who want rows.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationNanosecondType, Float64Type, Int32Type, Int64Type, TimestampNanosecondType,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::values::{integer, time};

/// The values of an array.
pub(crate) struct Cells {
    array: ArrayRef,
    form: CellForm,
}

enum CellForm {
    Null,
    Boolean,
    Signed,
    Unsigned,
    Real,
    /// Decimals without a fraction are integers.
    Decimal {
        scale: i8,
    },
    Text,
    Blob,
    Time,
    Day,
    Duration,
    /// Keys of values, which are made once.
    Dictionary(Vec<i32>, Vec<PyOnceLock<Py<PyAny>>>, Box<Cells>),
    List(Vec<(usize, usize)>, Box<Cells>),
    Struct(Vec<(String, Cells)>),
    /// As Arrow writes it.
    Other(Vec<String>),
}

fn refused(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

impl Cells {
    /// Prepares an array.
    pub(crate) fn new(array: &ArrayRef) -> PyResult<Cells> {
        let to = |of: &DataType, form| Ok(Cells { array: cast(array, of).map_err(refused)?, form });
        let as_it_is = |form| Ok(Cells { array: array.clone(), form });
        let list = |ends: Vec<usize>, inside: &ArrayRef| {
            let ranges = ends.windows(2).map(|ends| (ends[0], ends[1])).collect();
            as_it_is(CellForm::List(ranges, Box::new(Cells::new(inside)?)))
        };
        match array.data_type() {
            DataType::Null => as_it_is(CellForm::Null),
            DataType::Boolean => as_it_is(CellForm::Boolean),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                to(&DataType::Int64, CellForm::Signed)
            }
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                to(&DataType::UInt64, CellForm::Unsigned)
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 => to(&DataType::Float64, CellForm::Real),
            DataType::Decimal128(_, scale) => as_it_is(CellForm::Decimal { scale: *scale }),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => to(&DataType::Utf8, CellForm::Text),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                to(&DataType::Binary, CellForm::Blob)
            }
            DataType::Timestamp(_, zone) => {
                to(&DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()), CellForm::Time)
            }
            DataType::Date32 | DataType::Date64 => to(&DataType::Date32, CellForm::Day),
            DataType::Duration(_) => to(&DataType::Duration(TimeUnit::Nanosecond), CellForm::Duration),
            DataType::Dictionary(..) => {
                let of = array.as_any_dictionary();
                let keys = cast(&of.keys().slice(0, array.len()), &DataType::Int32).map_err(refused)?;
                let keys = keys.as_primitive::<Int32Type>().values().to_vec();
                let made = of.values().as_ref().len();
                let made = std::iter::repeat_with(PyOnceLock::new).take(made).collect();
                as_it_is(CellForm::Dictionary(keys, made, Box::new(Cells::new(of.values())?)))
            }
            DataType::List(_) => {
                let of = array.as_list::<i32>();
                list(of.value_offsets().iter().map(|&end| end as usize).collect(), of.values())
            }
            DataType::LargeList(_) => {
                let of = array.as_list::<i64>();
                list(of.value_offsets().iter().map(|&end| end as usize).collect(), of.values())
            }
            DataType::FixedSizeList(_, len) => {
                let of = array.as_fixed_size_list();
                list((0..=of.len()).map(|at| at * *len as usize).collect(), of.values())
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let members = columns.map(|(field, column)| Ok((field.name().clone(), Cells::new(column)?)));
                as_it_is(CellForm::Struct(members.collect::<PyResult<Vec<_>>>()?))
            }
            _ => {
                let options = FormatOptions::default();
                let formatter = ArrayFormatter::try_new(array, &options).map_err(refused)?;
                as_it_is(CellForm::Other((0..array.len()).map(|at| formatter.value(at).to_string()).collect()))
            }
        }
    }

    /// A value; NULL is `None`.
    pub(crate) fn value(&self, py: Python<'_>, at: usize) -> PyResult<Py<PyAny>> {
        if self.array.is_null(at) {
            return Ok(py.None());
        }
        let array = &self.array;
        Ok(match &self.form {
            CellForm::Null => py.None(),
            CellForm::Boolean => array.as_boolean().value(at).into_pyobject(py)?.to_owned().into_any().unbind(),
            CellForm::Signed => array.as_primitive::<Int64Type>().value(at).into_pyobject(py)?.into_any().unbind(),
            CellForm::Unsigned => array.as_primitive::<UInt64Type>().value(at).into_pyobject(py)?.into_any().unbind(),
            CellForm::Real => array.as_primitive::<Float64Type>().value(at).into_pyobject(py)?.into_any().unbind(),
            CellForm::Decimal { scale: 0 } => integer(py, array.as_primitive::<Decimal128Type>().value(at))?,
            CellForm::Decimal { .. } => {
                static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let text = array.as_primitive::<Decimal128Type>().value_as_string(at);
                DECIMAL.import(py, "decimal", "Decimal")?.call1((text,))?.unbind()
            }
            CellForm::Text => PyString::new(py, array.as_string::<i32>().value(at)).into_any().unbind(),
            CellForm::Blob => PyBytes::new(py, array.as_binary::<i32>().value(at)).into_any().unbind(),
            CellForm::Time => time(py, array.as_primitive::<TimestampNanosecondType>().value(at).into())?,
            CellForm::Day => {
                static DAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let day = array.as_primitive::<Date32Type>().value(at);
                DAY.import(py, "tracemill._values", "day_of_number")?.call1((day,))?.unbind()
            }
            CellForm::Duration => {
                static DELTA: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                // Python's durations end at the microsecond.
                let us = array.as_primitive::<DurationNanosecondType>().value(at).div_euclid(1000);
                DELTA.import(py, "datetime", "timedelta")?.call1((0, 0, us))?.unbind()
            }
            CellForm::Dictionary(keys, made, values) => {
                let key = keys[at] as usize;
                made[key].get_or_try_init(py, || values.value(py, key))?.clone_ref(py)
            }
            CellForm::List(ranges, elements) => {
                let (from, to) = ranges[at];
                let elements = (from..to).map(|element| elements.value(py, element));
                PyList::new(py, elements.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
            }
            CellForm::Struct(members) => {
                let dict = PyDict::new(py);
                for (name, values) in members {
                    dict.set_item(name, values.value(py, at)?)?;
                }
                dict.into_any().unbind()
            }
            CellForm::Other(texts) => PyString::new(py, &texts[at]).into_any().unbind(),
        })
    }
}
