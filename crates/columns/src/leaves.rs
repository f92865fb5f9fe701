//! The leaves of columns: numbers, bytes, and labels of enumerations.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray,
    StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field};
use tracemill_codec::text::fields_json::has_flag;
use tracemill_model::schema::Mapping;

/// Makes the column of numbers from a table of widths: the numbers, and the array and the type that Arrow has for them.
macro_rules! numbers {
    ($($width:ident($number:ty, $array:ident, $data_type:ident),)*) => {
        /// Numbers in their own width.
        #[expect(missing_docs, reason = "their names say it all")]
        pub enum NumberColumn {
            $($width(Vec<$number>),)*
        }

        impl NumberColumn {
            /// The type of the column.
            pub fn data_type(&self) -> DataType {
                match self {
                    $(NumberColumn::$width(_) => DataType::$data_type,)*
                }
            }

            /// Appends an integer, whose bits above the width are copies of its sign.
            #[inline(always)]
            pub fn push(&mut self, value: u64) {
                match self {
                    $(NumberColumn::$width(values) => values.push(value as $number),)*
                }
            }

            /// Appends integers: the width is looked at once for all of them.
            pub fn extend(&mut self, integers: impl Iterator<Item = u64>) {
                match self {
                    $(NumberColumn::$width(values) => values.extend(integers.map(|value| value as $number)),)*
                }
            }

            pub(crate) fn push_real(&mut self, value: f64) {
                match self {
                    $(NumberColumn::$width(values) => values.push(value as $number),)*
                }
            }

            /// An integer.
            fn get(&self, at: usize) -> i128 {
                match self {
                    $(NumberColumn::$width(values) => values[at] as i128,)*
                }
            }

            pub(crate) fn len(&self) -> usize {
                match self {
                    $(NumberColumn::$width(values) => values.len(),)*
                }
            }

            /// Takes all numbers out.
            ///
            /// # Errors
            /// When there are not as many nulls as numbers.
            pub fn take(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
                Ok(match self {
                    $(NumberColumn::$width(values) => Arc::new($array::try_new(std::mem::take(values).into(), nulls)?),)*
                })
            }
        }
    };
}

numbers! {
    U8(u8, UInt8Array, UInt8),
    U16(u16, UInt16Array, UInt16),
    U32(u32, UInt32Array, UInt32),
    U64(u64, UInt64Array, UInt64),
    I8(i8, Int8Array, Int8),
    I16(i16, Int16Array, Int16),
    I32(i32, Int32Array, Int32),
    I64(i64, Int64Array, Int64),
    F32(f32, Float32Array, Float32),
    F64(f64, Float64Array, Float64),
}

impl NumberColumn {
    /// A column of integers of so many bits.
    pub fn integers(len_bits: u32, signed: bool) -> Self {
        match (len_bits, signed) {
            (1..=8, false) => NumberColumn::U8(Vec::new()),
            (1..=8, true) => NumberColumn::I8(Vec::new()),
            (9..=16, false) => NumberColumn::U16(Vec::new()),
            (9..=16, true) => NumberColumn::I16(Vec::new()),
            (17..=32, false) => NumberColumn::U32(Vec::new()),
            (17..=32, true) => NumberColumn::I32(Vec::new()),
            (_, false) => NumberColumn::U64(Vec::new()),
            (_, true) => NumberColumn::I64(Vec::new()),
        }
    }
}

/// Texts or blobs.
pub(crate) struct BytesColumn {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Default for BytesColumn {
    fn default() -> Self {
        BytesColumn { offsets: vec![0], data: Vec::new() }
    }
}

impl BytesColumn {
    /// Appends a value; false, and an empty one, when there is no room.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = self.data.len() + bytes.len() <= i32::MAX as usize;
        if fits {
            self.data.extend_from_slice(bytes);
        }
        self.offsets.push(self.data.len() as i32);
        fits
    }

    pub(crate) fn take(&mut self) -> Result<(OffsetBuffer<i32>, Buffer), ArrowError> {
        let BytesColumn { offsets, data } = std::mem::take(self);
        Ok((OffsetBuffer::new(offsets.into()), Buffer::from_vec(data)))
    }
}

/// The labels of an enumeration, or the flags of a bit map.
pub(crate) struct LabelColumn {
    /// All labels, each once: the dictionary of the column.
    names: ArrayRef,
    form: LabelForm,
    mappings: Vec<(Mapping, i32)>,
    has_texts: bool,
}

/// The form of a column of labels.
enum LabelForm {
    /// One label for each value, by ranges that do not overlap, in order.
    Label(Vec<(i128, i128, i32)>),
    /// Lists: the labels of ranges that overlap.
    Labels,
    /// Lists: the flags that are set.
    Flags,
}

impl LabelColumn {
    /// `has_texts`: lists hold texts, and not keys of a dictionary.
    pub(crate) fn new(mappings: &[Mapping], are_flags: bool, has_texts: bool) -> Self {
        let mut known: HashMap<Arc<str>, i32> = HashMap::new();
        let mut names = Vec::new();
        let mut all = Vec::new();
        for mapping in mappings {
            let key = *known.entry(mapping.label.clone()).or_insert_with(|| {
                names.push(mapping.label.to_string());
                names.len() as i32 - 1
            });
            all.push((mapping.clone(), key));
        }
        let mut ranges: Vec<(i128, i128, i32)> = Vec::new();
        for (mapping, key) in &all {
            ranges.extend(mapping.ranges.iter().map(|&(low, high)| (low, high, *key)));
        }
        ranges.sort_unstable();
        let overlaps = ranges.windows(2).any(|pair| pair[0].1 >= pair[1].0 && pair[0].2 != pair[1].2);
        let form = match overlaps {
            _ if are_flags => LabelForm::Flags,
            true => LabelForm::Labels,
            false => LabelForm::Label(ranges),
        };
        LabelColumn { names: Arc::new(StringArray::from(names)), form, mappings: all, has_texts }
    }

    /// Do ranges of different labels overlap?
    pub(crate) fn overlap(&self) -> bool {
        matches!(self.form, LabelForm::Labels)
    }

    pub(crate) fn dictionary(&self) -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }

    pub(crate) fn item(&self) -> Arc<Field> {
        Arc::new(Field::new("item", if self.has_texts { DataType::Utf8 } else { self.dictionary() }, true))
    }

    /// The column of labels beside the value.
    pub(crate) fn field(&self) -> Field {
        match &self.form {
            LabelForm::Label(_) => Field::new("label", self.dictionary(), true),
            LabelForm::Labels => Field::new("labels", DataType::List(self.item()), true),
            LabelForm::Flags => Field::new("flags", DataType::List(self.item()), true),
        }
    }

    /// The elements of lists.
    fn items(&self, keys: Vec<i32>) -> Result<ArrayRef, ArrowError> {
        if !self.has_texts {
            return self.keys(keys, None);
        }
        let names = self.names.as_string::<i32>();
        Ok(Arc::new(StringArray::from_iter_values(keys.iter().map(|&key| names.value(key as usize)))))
    }

    /// The first label of each value, whether or not others match as well.
    pub(crate) fn first(&self, values: &NumberColumn, known: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        if let LabelForm::Label(_) = self.form
            && known.is_none()
        {
            return self.array(values);
        }
        let (mut keys, mut nulls) = (Vec::with_capacity(values.len()), NullBufferBuilder::new(values.len()));
        for at in 0..values.len() {
            let is_known = known.is_none_or(|known| known.is_valid(at));
            let found = self.mappings.iter().find(|(mapping, _)| is_known && mapping.contains(values.get(at)));
            nulls.append(found.is_some());
            keys.push(found.map_or(0, |(_, key)| *key));
        }
        self.keys(keys, nulls.finish())
    }

    /// Lists of all labels, or flags.
    pub(crate) fn all(&self, values: &NumberColumn, known: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let array = self.array(values)?;
        let array = array.as_list::<i32>().clone();
        let (item, offsets, elements, _) = array.into_parts();
        Ok(Arc::new(ListArray::try_new(item, offsets, elements, known)?))
    }

    fn keys(&self, keys: Vec<i32>, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let keys = Int32Array::try_new(keys.into(), nulls)?;
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, self.names.clone())?))
    }

    /// The labels of some values.
    pub(crate) fn array(&self, values: &NumberColumn) -> Result<ArrayRef, ArrowError> {
        let len = values.len();
        let ranges = match &self.form {
            LabelForm::Label(ranges) => ranges,
            LabelForm::Labels => {
                return self.lists(values, |label, value, (key, known)| label.contains(value) && !known.contains(&key));
            }
            LabelForm::Flags => return self.lists(values, |flag, value, _| has_flag(flag, value)),
        };
        let (mut keys, mut nulls) = (Vec::with_capacity(len), NullBufferBuilder::new(len));
        for at in 0..len {
            let value = values.get(at);
            let range = ranges.partition_point(|(low, _, _)| *low <= value).checked_sub(1).map(|at| ranges[at]);
            let found = range.filter(|(_, high, _)| value <= *high);
            nulls.append(found.is_some());
            keys.push(found.map_or(0, |(_, _, key)| key));
        }
        self.keys(keys, nulls.finish())
    }

    /// For each value the labels of some mappings. `is_in` is given a mapping, the value, and the mapping's label with
    /// those that the value has already.
    fn lists(
        &self,
        values: &NumberColumn,
        is_in: impl Fn(&Mapping, i128, (i32, &[i32])) -> bool,
    ) -> Result<ArrayRef, ArrowError> {
        let (mut keys, mut offsets) = (Vec::new(), vec![0i32]);
        for at in 0..values.len() {
            let (value, from) = (values.get(at), keys.len());
            for (mapping, key) in &self.mappings {
                if is_in(mapping, value, (*key, &keys[from..])) {
                    keys.push(*key);
                }
            }
            offsets.push(keys.len() as i32);
        }
        let offsets = OffsetBuffer::new(offsets.into());
        Ok(Arc::new(ListArray::try_new(self.item(), offsets, self.items(keys)?, None)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;

    #[test]
    fn labels_are_a_dictionary_and_lists_where_they_overlap() {
        let mapping = |label: &str, ranges: Vec<(i128, i128)>| Mapping { label: label.into(), ranges };
        let values = NumberColumn::I8(vec![0, 1, 5, -3]);
        let plain =
            LabelColumn::new(&[mapping("one", vec![(1, 1)]), mapping("low", vec![(-9, -1), (0, 0)])], false, false);
        let array = plain.array(&values).expect("the columns fit");
        let array = array.as_dictionary::<Int32Type>();
        let names = array.values().as_string::<i32>();
        let label = |at: usize| (!array.is_null(at)).then(|| names.value(array.keys().value(at) as usize));
        assert_eq!([label(0), label(1), label(2), label(3)], [Some("low"), Some("one"), None, Some("low")]);
        let double = LabelColumn::new(&[mapping("one", vec![(1, 1)]), mapping("small", vec![(0, 4)])], false, false);
        let array = double.array(&values).expect("the columns fit");
        let array = array.as_list::<i32>();
        assert_eq!([0, 1, 2, 3].map(|at| array.value_length(at)), [1, 2, 0, 0]);
    }
}
