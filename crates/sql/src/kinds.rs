//! Columns of several classes under one name: the type that holds them all, and values made of that type.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, StringArray, StructArray, new_null_array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Fields};

use crate::text::Json;

/// The type of decimals.
const DECIMAL: DataType = DataType::Decimal128(38, 0);
/// Bits of the integers that a float holds exactly.
const FLOAT_BITS: u32 = 53;

/// A type with the bits of its integers, 0 for others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SqlKind {
    pub(crate) data_type: DataType,
    pub(crate) bits: u32,
}

impl SqlKind {
    /// The kind that holds values of both without a loss; texts, the JSON of the values, when there is none.
    pub(crate) fn merge(&self, other: &SqlKind) -> SqlKind {
        let bits = self.bits.max(other.bits);
        let data_type = self.wider(other).unwrap_or(DataType::Utf8);
        SqlKind { data_type, bits }
    }

    fn wider(&self, other: &SqlKind) -> Option<DataType> {
        let (own, of) = (&self.data_type, &other.data_type);
        if own == of {
            return Some(own.clone());
        }
        let is_integer = |of: &DataType| matches!(of, DataType::Int64 | DataType::UInt64) || *of == DECIMAL;
        match (own, of) {
            (a, b) if is_integer(a) && is_integer(b) => Some(DECIMAL),
            (DataType::Float64, b) if is_integer(b) && (1..=FLOAT_BITS).contains(&other.bits) => {
                Some(DataType::Float64)
            }
            (a, DataType::Float64) if is_integer(a) && (1..=FLOAT_BITS).contains(&self.bits) => Some(DataType::Float64),
            (DataType::List(a), DataType::List(b)) => {
                let element = self.part_kind(a).merge(&other.part_kind(b));
                Some(DataType::List(Arc::new(Field::new("item", element.data_type, true))))
            }
            (DataType::Struct(a), DataType::Struct(b)) => {
                let mut members: Vec<Arc<Field>> = a.iter().cloned().collect();
                for field in b {
                    match members.iter_mut().find(|known| known.name() == field.name()) {
                        Some(known) => {
                            let kind = self.part_kind(known).merge(&other.part_kind(field));
                            *known = Arc::new(Field::new(known.name(), kind.data_type, true));
                        }
                        None => members.push(field.clone()),
                    }
                }
                Some(DataType::Struct(Fields::from(members)))
            }
            (DataType::Dictionary(..), DataType::Dictionary(..)) => Some(own.clone()),
            _ => None,
        }
    }

    /// The kind of a part: how many bits its integers have is not known, so all of them count.
    fn part_kind(&self, field: &Field) -> SqlKind {
        SqlKind { data_type: field.data_type().clone(), bits: 64 }
    }
}

/// Values of an array as another type, which [`SqlKind::merge`] gave.
pub(crate) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    match (array.data_type(), to) {
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>().clone();
            let (_, offsets, elements, nulls) = list.into_parts();
            let elements = convert(&elements, item.data_type())?;
            Ok(Arc::new(ListArray::try_new(item.clone(), offsets, elements, nulls)?))
        }
        (DataType::Struct(_), DataType::Struct(members)) => {
            let of = array.as_struct();
            let member = |field: &Arc<Field>| match of.column_by_name(field.name()) {
                Some(column) => convert(column, field.data_type()),
                None => Ok(new_null_array(field.data_type(), array.len())),
            };
            let columns = members.iter().map(member).collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new(members.clone(), columns, of.nulls().cloned())?))
        }
        (_, DataType::Utf8) => {
            let json = Json::new(array)?;
            let text = |at| (!array.is_null(at)).then(|| json.text(at));
            Ok(Arc::new((0..array.len()).map(text).collect::<StringArray>()))
        }
        _ => cast(array, to),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array, UInt64Array};

    use super::*;

    fn kind(data_type: DataType, bits: u32) -> SqlKind {
        SqlKind { data_type, bits }
    }

    #[test]
    fn kinds_are_widened_where_nothing_is_lost() {
        let (short, long, all) = (kind(DataType::Int64, 8), kind(DataType::Int64, 63), kind(DataType::UInt64, 64));
        let real = kind(DataType::Float64, 0);
        assert_eq!(short.merge(&long), long);
        assert_eq!(short.merge(&all).data_type, DECIMAL);
        assert_eq!(short.merge(&real).data_type, DataType::Float64);
        assert_eq!(real.merge(&short).data_type, DataType::Float64);
        assert_eq!(real.merge(&long).data_type, DataType::Utf8, "not all of 63 bits");
        assert_eq!(kind(DataType::Boolean, 0).merge(&short).data_type, DataType::Utf8);
        let list = |of: DataType| kind(DataType::List(Arc::new(Field::new("item", of, true))), 0);
        assert_eq!(list(DataType::Int64).merge(&list(DataType::UInt64)), list(DECIMAL));
        let of = |name: &str, of: DataType| kind(DataType::Struct(vec![Field::new(name, of, true)].into()), 0);
        let both = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)];
        let merged = of("a", DataType::Int64).merge(&of("b", DataType::Utf8));
        assert_eq!(merged.data_type, DataType::Struct(both.into()));
    }

    #[test]
    fn values_become_those_of_the_wider_kind() {
        let integers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-3), None]));
        let reals = convert(&integers, &DataType::Float64).expect("it is wider");
        assert_eq!(reals.as_ref(), &Float64Array::from(vec![Some(-3.0), None]) as &dyn Array);
        let texts = convert(&integers, &DataType::Utf8).expect("all have a text");
        assert_eq!(texts.as_ref(), &StringArray::from(vec![Some("-3"), None]) as &dyn Array);
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        let decimal = convert(&large, &DECIMAL).expect("it has room");
        assert_eq!(decimal.as_primitive::<arrow_array::types::Decimal128Type>().value(0), u64::MAX.into());
    }
}
