//! Values as text: JSON of any type, and the cells of CSV and tables.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use tracemill_codec::text::fields_json::put_float;
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings::{put_base64, put_json};

/// The values of an array, to be written one by one.
pub(crate) struct Json {
    array: ArrayRef,
    form: ColumnForm,
}

enum ColumnForm {
    Null,
    Boolean,
    Signed,
    Unsigned,
    Real,
    Decimal,
    Text,
    Blob,
    Time,
    /// Keys of these values.
    Dictionary(Vec<i32>, Box<Json>),
    List(Vec<(usize, usize)>, Box<Json>),
    Struct(Vec<(String, Json)>),
    /// A structure whose members have places, not names: see [`Member::for_tuple`](tracemill_model::schema::Member::for_tuple).
    Tuple(Vec<Json>),
    /// Written as Arrow writes it.
    Other(Vec<String>),
}

impl Json {
    /// Prepares an array.
    ///
    /// # Errors
    /// When Arrow cannot show a type.
    pub(crate) fn new(array: &ArrayRef) -> Result<Json, ArrowError> {
        let to = |data_type: &DataType, form| Ok(Json { array: cast(array, data_type)?, form });
        let list = |ranges: Vec<(usize, usize)>, inside: &ArrayRef| {
            Ok(Json { array: array.clone(), form: ColumnForm::List(ranges, Box::new(Json::new(inside)?)) })
        };
        match array.data_type() {
            DataType::Null => Ok(Json { array: array.clone(), form: ColumnForm::Null }),
            DataType::Boolean => Ok(Json { array: array.clone(), form: ColumnForm::Boolean }),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                to(&DataType::Int64, ColumnForm::Signed)
            }
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                to(&DataType::UInt64, ColumnForm::Unsigned)
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 => to(&DataType::Float64, ColumnForm::Real),
            DataType::Decimal128(..) => Ok(Json { array: array.clone(), form: ColumnForm::Decimal }),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => to(&DataType::Utf8, ColumnForm::Text),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                to(&DataType::Binary, ColumnForm::Blob)
            }
            DataType::Timestamp(_, zone) => {
                to(&DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()), ColumnForm::Time)
            }
            DataType::Dictionary(..) => {
                let keys = cast(&array.as_any_dictionary().keys().slice(0, array.len()), &DataType::Int32)?;
                let keys = keys.as_primitive::<Int32Type>().values().to_vec();
                let values = Json::new(array.as_any_dictionary().values())?;
                Ok(Json { array: array.clone(), form: ColumnForm::Dictionary(keys, Box::new(values)) })
            }
            DataType::List(_) => {
                let of = array.as_list::<i32>();
                let ends = of.value_offsets().windows(2).map(|ends| (ends[0] as usize, ends[1] as usize));
                list(ends.collect(), of.values())
            }
            DataType::LargeList(_) => {
                let of = array.as_list::<i64>();
                let ends = of.value_offsets().windows(2).map(|ends| (ends[0] as usize, ends[1] as usize));
                list(ends.collect(), of.values())
            }
            DataType::FixedSizeList(_, len) => {
                let (of, len) = (array.as_fixed_size_list(), *len as usize);
                list((0..of.len()).map(|at| (at * len, at * len + len)).collect(), of.values())
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let members = columns.map(|(field, column)| Ok((field.name().clone(), Json::new(column)?)));
                let members = members.collect::<Result<Vec<_>, ArrowError>>()?;
                let is_tuple =
                    !members.is_empty() && (0..).zip(&members).all(|(at, (name, _))| *name == format!("[{at}]"));
                let form = match is_tuple {
                    true => ColumnForm::Tuple(members.into_iter().map(|(_, values)| values).collect()),
                    false => ColumnForm::Struct(members),
                };
                Ok(Json { array: array.clone(), form })
            }
            _ => {
                let options = FormatOptions::default();
                let formatter = ArrayFormatter::try_new(array, &options)?;
                let texts = (0..array.len()).map(|at| formatter.value(at).to_string()).collect();
                Ok(Json { array: array.clone(), form: ColumnForm::Other(texts) })
            }
        }
    }

    /// Is the value NULL?
    pub(crate) fn is_null(&self, at: usize) -> bool {
        match &self.form {
            ColumnForm::Null => true,
            ColumnForm::Dictionary(keys, values) => self.array.is_null(at) || values.is_null(keys[at] as usize),
            _ => self.array.is_null(at),
        }
    }

    /// Is it a number, which stands at the right in a table?
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.form, ColumnForm::Signed | ColumnForm::Unsigned | ColumnForm::Real | ColumnForm::Decimal)
    }

    /// A value as JSON.
    pub(crate) fn text(&self, at: usize) -> String {
        let mut out = Out::default();
        self.write_value(&mut out, at);
        String::from_utf8_lossy(out.written()).into_owned()
    }

    /// A value as a cell: JSON without quotes around texts; nothing for NULL.
    pub(crate) fn put_cell(&self, out: &mut Out, at: usize) {
        if self.is_null(at) {
            return;
        }
        match &self.form {
            ColumnForm::Text => out.put(self.array.as_string::<i32>().value(at).as_bytes()),
            ColumnForm::Blob => put_base64(out, self.array.as_binary::<i32>().value(at)),
            ColumnForm::Time => put_time(out, self.array.as_primitive::<TimestampNanosecondType>().value(at)),
            ColumnForm::Real => match self.array.as_primitive::<Float64Type>().value(at) {
                value if value.is_finite() => put_float(out, value),
                value if value.is_nan() => out.put(b"NaN"),
                value => out.put(if value < 0.0 { b"-Infinity" } else { b"Infinity" }),
            },
            ColumnForm::Dictionary(keys, values) => values.put_cell(out, keys[at] as usize),
            ColumnForm::Other(texts) => out.put(texts[at].as_bytes()),
            _ => self.write_value(out, at),
        }
    }

    /// Writes a value as JSON.
    pub(crate) fn write_value(&self, out: &mut Out, at: usize) {
        if self.is_null(at) {
            return out.put(b"null");
        }
        match &self.form {
            ColumnForm::Null => out.put(b"null"),
            ColumnForm::Boolean => out.put(if self.array.as_boolean().value(at) { b"true" } else { b"false" }),
            ColumnForm::Signed => out.put_i64(self.array.as_primitive::<Int64Type>().value(at)),
            ColumnForm::Unsigned => out.put_u64(self.array.as_primitive::<UInt64Type>().value(at)),
            ColumnForm::Real => put_float(out, self.array.as_primitive::<Float64Type>().value(at)),
            ColumnForm::Decimal => out.put(self.array.as_primitive::<Decimal128Type>().value_as_string(at).as_bytes()),
            ColumnForm::Text => put_json(out, self.array.as_string::<i32>().value(at).as_bytes()),
            ColumnForm::Blob | ColumnForm::Time => {
                out.put_byte(b'"');
                self.put_cell(out, at);
                out.put_byte(b'"');
            }
            ColumnForm::Dictionary(keys, values) => values.write_value(out, keys[at] as usize),
            ColumnForm::List(ranges, elements) => {
                out.put_byte(b'[');
                let (from, to) = ranges[at];
                for element in from..to {
                    if element > from {
                        out.put(b", ");
                    }
                    elements.write_value(out, element);
                }
                out.put_byte(b']');
            }
            ColumnForm::Struct(members) => {
                out.put_byte(b'{');
                for (number, (name, values)) in members.iter().enumerate() {
                    if number > 0 {
                        out.put(b", ");
                    }
                    put_json(out, name.as_bytes());
                    out.put(b": ");
                    values.write_value(out, at);
                }
                out.put_byte(b'}');
            }
            ColumnForm::Tuple(members) => {
                out.put_byte(b'[');
                for (number, values) in members.iter().enumerate() {
                    if number > 0 {
                        out.put(b", ");
                    }
                    values.write_value(out, at);
                }
                out.put_byte(b']');
            }
            ColumnForm::Other(texts) => put_json(out, texts[at].as_bytes()),
        }
    }
}

/// Writes a time in ns since 1970 as a date: `2026-11-21T03:15:26.586497046Z`.
fn put_time(out: &mut Out, ns: i64) {
    let (days, rest) = (ns.div_euclid(86_400_000_000_000), ns.rem_euclid(86_400_000_000_000));
    let (year, month, day) = civil(days);
    let seconds = rest / 1_000_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = rest % 1_000_000_000;
    out.put_fmt(format_args!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:09}Z"));
}

/// The date of a day since 1970, by the rules of the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the day of a leap year is the last one.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        BinaryArray, Float64Array, Int64Array, ListArray, StringArray, StructArray, TimestampNanosecondArray,
    };
    use arrow_schema::Field;

    use super::*;

    fn cell(array: ArrayRef, at: usize) -> String {
        let mut out = Out::default();
        Json::new(&array).expect("it can be shown").put_cell(&mut out, at);
        String::from_utf8(out.written().to_vec()).expect("a text")
    }

    #[test]
    fn times_are_dates_to_the_nanosecond() {
        let times = vec![1_795_230_926_586_497_046, 0, -1, 951_782_400_000_000_000];
        let array: ArrayRef = Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"));
        let texts = [0, 1, 2, 3].map(|at| cell(array.clone(), at));
        let wanted = [
            "2026-11-21T03:15:26.586497046Z",
            "1970-01-01T00:00:00.000000000Z",
            "1969-12-31T23:59:59.999999999Z",
            "2000-02-29T00:00:00.000000000Z",
        ];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn nested_values_are_json_and_plain_ones_stand_alone() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
        let list: ArrayRef = Arc::new(list);
        assert_eq!(["[1, null]", "", "[]"], [0, 1, 2].map(|at| cell(list.clone(), at)).each_ref().map(String::as_str));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a\"b"]));
        assert_eq!(cell(text.clone(), 0), "a\"b");
        let blob: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"hi"]));
        let real: ArrayRef = Arc::new(Float64Array::from(vec![f64::NEG_INFINITY]));
        assert_eq!((cell(blob.clone(), 0).as_str(), cell(real.clone(), 0).as_str()), ("aGk=", "-Infinity"));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![None]));
        let field = |name: &str, of: &ArrayRef| Arc::new(Field::new(name, of.data_type().clone(), true));
        let all = StructArray::from(vec![
            (field("t", &text), text.clone()),
            (field("b", &blob), blob.clone()),
            (field("r", &real), real.clone()),
            (field("n", &number), number.clone()),
        ]);
        let shown = r#"{"t": "a\"b", "b": "aGk=", "r": "-Infinity", "n": null}"#;
        assert_eq!(cell(Arc::new(all), 0), shown);
        let tuple = StructArray::from(vec![(field("[0]", &text), text), (field("[1]", &number), number)]);
        assert_eq!(cell(Arc::new(tuple), 0), r#"["a\"b", null]"#);
    }
}
