//! The leaves of columns: numbers, bytes, and labels of enumerations.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray,
    StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field};
use tracemill_codec::text::fields_json::has_flag;
use tracemill_model::schema::Mapping;

/// Numbers in their own width.
pub(crate) enum Numbers {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

macro_rules! each {
    ($numbers:expr, $values:ident, $array:ident => $do:expr) => {
        match $numbers {
            Numbers::U8($values) => {
                type $array = UInt8Array;
                $do
            }
            Numbers::U16($values) => {
                type $array = UInt16Array;
                $do
            }
            Numbers::U32($values) => {
                type $array = UInt32Array;
                $do
            }
            Numbers::U64($values) => {
                type $array = UInt64Array;
                $do
            }
            Numbers::I8($values) => {
                type $array = Int8Array;
                $do
            }
            Numbers::I16($values) => {
                type $array = Int16Array;
                $do
            }
            Numbers::I32($values) => {
                type $array = Int32Array;
                $do
            }
            Numbers::I64($values) => {
                type $array = Int64Array;
                $do
            }
            Numbers::F32($values) => {
                type $array = Float32Array;
                $do
            }
            Numbers::F64($values) => {
                type $array = Float64Array;
                $do
            }
        }
    };
}

impl Numbers {
    pub(crate) fn integers(len_bits: u32, signed: bool) -> Self {
        match (len_bits, signed) {
            (1..=8, false) => Numbers::U8(Vec::new()),
            (1..=8, true) => Numbers::I8(Vec::new()),
            (9..=16, false) => Numbers::U16(Vec::new()),
            (9..=16, true) => Numbers::I16(Vec::new()),
            (17..=32, false) => Numbers::U32(Vec::new()),
            (17..=32, true) => Numbers::I32(Vec::new()),
            (_, false) => Numbers::U64(Vec::new()),
            (_, true) => Numbers::I64(Vec::new()),
        }
    }

    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Numbers::U8(_) => DataType::UInt8,
            Numbers::U16(_) => DataType::UInt16,
            Numbers::U32(_) => DataType::UInt32,
            Numbers::U64(_) => DataType::UInt64,
            Numbers::I8(_) => DataType::Int8,
            Numbers::I16(_) => DataType::Int16,
            Numbers::I32(_) => DataType::Int32,
            Numbers::I64(_) => DataType::Int64,
            Numbers::F32(_) => DataType::Float32,
            Numbers::F64(_) => DataType::Float64,
        }
    }

    /// Appends an integer, whose bits above the width are copies of its sign.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: u64) {
        match self {
            Numbers::U8(values) => values.push(value as u8),
            Numbers::U16(values) => values.push(value as u16),
            Numbers::U32(values) => values.push(value as u32),
            Numbers::U64(values) => values.push(value),
            Numbers::I8(values) => values.push(value as i8),
            Numbers::I16(values) => values.push(value as i16),
            Numbers::I32(values) => values.push(value as i32),
            Numbers::I64(values) => values.push(value as i64),
            Numbers::F32(values) => values.push(value as f32),
            Numbers::F64(values) => values.push(value as f64),
        }
    }

    pub(crate) fn push_real(&mut self, value: f64) {
        match self {
            Numbers::F32(values) => values.push(value as f32),
            Numbers::F64(values) => values.push(value),
            _ => self.push(value as u64),
        }
    }

    pub(crate) fn get(&self, at: usize) -> i128 {
        match self {
            Numbers::U64(values) => values[at].into(),
            Numbers::F32(_) | Numbers::F64(_) => 0,
            Numbers::U8(values) => values[at].into(),
            Numbers::U16(values) => values[at].into(),
            Numbers::U32(values) => values[at].into(),
            Numbers::I8(values) => values[at].into(),
            Numbers::I16(values) => values[at].into(),
            Numbers::I32(values) => values[at].into(),
            Numbers::I64(values) => values[at].into(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        each!(self, values, Array => { let _: Option<Array> = None; values.len() })
    }

    pub(crate) fn take(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        each!(self, values, Array => Ok(Arc::new(Array::try_new(std::mem::take(values).into(), nulls)?)))
    }
}

/// Texts or blobs.
pub(crate) struct Bytes {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes { offsets: vec![0], data: Vec::new() }
    }
}

impl Bytes {
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
        let Bytes { offsets, data } = std::mem::take(self);
        Ok((OffsetBuffer::new(offsets.into()), Buffer::from_vec(data)))
    }
}

/// The labels of an enumeration.
pub(crate) struct Labels {
    /// All labels, each once: the dictionary of the column.
    names: ArrayRef,
    /// Ranges and the labels that stand for them, when no two overlap; in order.
    ranges: Option<Vec<(i128, i128, i32)>>,
    /// Every mapping, for those that overlap.
    mappings: Vec<(Mapping, i32)>,
}

impl Labels {
    pub(crate) fn new(mappings: &[Mapping]) -> Self {
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
        let ranges = Some(ranges).filter(|_| !overlaps);
        Labels { names: Arc::new(StringArray::from(names)), ranges, mappings: all }
    }

    fn dictionary(&self) -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }

    fn item(&self) -> Arc<Field> {
        Arc::new(Field::new("item", self.dictionary(), true))
    }

    /// The column of labels beside the value.
    pub(crate) fn field(&self) -> Field {
        match &self.ranges {
            Some(_) => Field::new("label", self.dictionary(), true),
            None => Field::new("labels", DataType::List(self.item()), true),
        }
    }

    /// The column of flags beside the value.
    pub(crate) fn flags_field(&self) -> Field {
        Field::new("flags", DataType::List(self.item()), true)
    }

    fn keys(&self, keys: Vec<i32>, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let keys = Int32Array::try_new(keys.into(), nulls)?;
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, self.names.clone())?))
    }

    pub(crate) fn array(&self, values: &Numbers) -> Result<ArrayRef, ArrowError> {
        let len = values.len();
        if let Some(ranges) = &self.ranges {
            let (mut keys, mut nulls) = (Vec::with_capacity(len), NullBufferBuilder::new(len));
            for at in 0..len {
                let value = values.get(at);
                let range = ranges.partition_point(|(low, _, _)| *low <= value).checked_sub(1).map(|at| ranges[at]);
                let found = range.filter(|(_, high, _)| value <= *high);
                nulls.append(found.is_some());
                keys.push(found.map_or(0, |(_, _, key)| key));
            }
            return self.keys(keys, nulls.finish());
        }
        self.lists(values, |mapping, value, (key, known)| mapping.contains(value) && !known.contains(&key))
    }

    /// For each value the labels of the flags that are set in it.
    pub(crate) fn flags(&self, values: &Numbers) -> Result<ArrayRef, ArrowError> {
        self.lists(values, |flag, value, _| has_flag(flag, value))
    }

    /// For each value the labels of some mappings. `is_in` is given a mapping, the value, and the mapping's label with
    /// those that the value has already.
    fn lists(
        &self,
        values: &Numbers,
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
        Ok(Arc::new(ListArray::try_new(self.item(), offsets, self.keys(keys, None)?, None)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    use super::*;

    #[test]
    fn labels_are_a_dictionary_and_lists_where_they_overlap() {
        let mapping = |label: &str, ranges: Vec<(i128, i128)>| Mapping { label: label.into(), ranges };
        let values = Numbers::I8(vec![0, 1, 5, -3]);
        let plain = Labels::new(&[mapping("one", vec![(1, 1)]), mapping("low", vec![(-9, -1), (0, 0)])]);
        let array = plain.array(&values).expect("the columns fit");
        let array = array.as_dictionary::<Int32Type>();
        let names = array.values().as_string::<i32>();
        let label = |at: usize| (!array.is_null(at)).then(|| names.value(array.keys().value(at) as usize));
        assert_eq!([label(0), label(1), label(2), label(3)], [Some("low"), Some("one"), None, Some("low")]);
        let double = Labels::new(&[mapping("one", vec![(1, 1)]), mapping("small", vec![(0, 4)])]);
        let array = double.array(&values).expect("the columns fit");
        let array = array.as_list::<i32>();
        assert_eq!([0, 1, 2, 3].map(|at| array.value_length(at)), [1, 2, 0, 0]);
    }
}
