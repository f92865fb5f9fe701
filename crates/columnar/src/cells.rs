//! Fields as columns: a tree of growing arrays for the fields of a plan, filled by a visit of each event.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, ListArray, StringArray, StructArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use tracemill_codec::bits::Wide;
use tracemill_codec::plan::{NodeId, Plan, Visitor};
use tracemill_model::schema::{Encoding, FieldClassId, FieldKind, IntegerClass, Mapping, Schema};

/// What columns cannot hold.
#[derive(Default, Debug)]
pub(crate) struct Lost {
    /// Strings with bytes that are no text.
    pub(crate) bad_texts: u64,
    /// Integers of variable length with more than 64 bits.
    pub(crate) wide: u64,
    /// Strings and blobs that no batch holds.
    pub(crate) huge: u64,
}

/// Labels and flags of numbers that are texts because they have too many bits: the fields that have some.
pub(crate) fn unlabelled(schema: &Schema) -> u64 {
    let has_labels = |id: usize| match &schema.field_class(FieldClassId(id as u32)).kind {
        FieldKind::Integer(class) => {
            class.len_bits > 64 && class.mappings.as_ref().is_some_and(|mappings| !mappings.is_empty())
        }
        FieldKind::BitMap(class) => class.len_bits > 64,
        _ => false,
    };
    (0..schema.field_class_count()).filter(|&id| has_labels(id)).count() as u64
}

/// Numbers in their own width.
enum Numbers {
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
    fn integers(len_bits: u32, signed: bool) -> Self {
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

    fn data_type(&self) -> DataType {
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
    fn push(&mut self, value: u64) {
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

    fn push_real(&mut self, value: f64) {
        match self {
            Numbers::F32(values) => values.push(value as f32),
            Numbers::F64(values) => values.push(value),
            _ => self.push(value as u64),
        }
    }

    fn get(&self, at: usize) -> i128 {
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

    fn len(&self) -> usize {
        each!(self, values, Array => { let _: Option<Array> = None; values.len() })
    }

    fn take(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        each!(self, values, Array => Ok(Arc::new(Array::try_new(std::mem::take(values).into(), nulls)?)))
    }
}

/// Texts or blobs.
struct Bytes {
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
    fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = self.data.len() + bytes.len() <= i32::MAX as usize;
        if fits {
            self.data.extend_from_slice(bytes);
        }
        self.offsets.push(self.data.len() as i32);
        fits
    }

    fn take(&mut self) -> Result<(OffsetBuffer<i32>, Buffer), ArrowError> {
        let Bytes { offsets, data } = std::mem::take(self);
        Ok((OffsetBuffer::new(offsets.into()), Buffer::from_vec(data)))
    }
}

/// The labels of an enumeration.
struct Labels {
    /// All labels, each once: the dictionary of the column.
    names: ArrayRef,
    /// Ranges and the labels that stand for them, when no two overlap; in order.
    ranges: Option<Vec<(i128, i128, i32)>>,
    /// Every mapping, for those that overlap.
    mappings: Vec<(Mapping, i32)>,
}

impl Labels {
    fn new(mappings: &[Mapping]) -> Self {
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

    /// The columns beside the value.
    fn field(&self) -> Field {
        match &self.ranges {
            Some(_) => Field::new("label", self.dictionary(), true),
            None => Field::new("labels", DataType::List(Arc::new(Field::new("item", self.dictionary(), true))), true),
        }
    }

    fn keys(&self, keys: Vec<i32>, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let keys = Int32Array::try_new(keys.into(), nulls)?;
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, self.names.clone())?))
    }

    fn array(&self, values: &Numbers) -> Result<ArrayRef, ArrowError> {
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
        let (mut keys, mut offsets) = (Vec::new(), vec![0i32]);
        for at in 0..len {
            let (value, from) = (values.get(at), keys.len());
            for (mapping, key) in &self.mappings {
                if mapping.contains(value) && !keys[from..].contains(key) {
                    keys.push(*key);
                }
            }
            offsets.push(keys.len() as i32);
        }
        let item = Arc::new(Field::new("item", self.dictionary(), true));
        let offsets = OffsetBuffer::new(offsets.into());
        Ok(Arc::new(ListArray::try_new(item, offsets, self.keys(keys, None)?, None)?))
    }
}

/// A column, or columns around columns.
enum Kind {
    Numbers(Numbers),
    Boolean(BooleanBufferBuilder),
    /// Texts; integers of more than 64 bits are decimal.
    Text(Encoding, Bytes),
    Blob(Bytes, Arc<str>),
    /// An integer or bit map with names for its values.
    Labelled(Numbers, Box<Labels>),
    /// A bit map: value and the names of the bits that are set.
    Flags(Numbers, Box<Labels>),
    /// A structure without members: is it there?
    Unit(usize),
    Struct(Vec<(Arc<str>, usize)>),
    /// As a structure, of which one member is there.
    Variant(Vec<(Arc<str>, usize)>),
    List(usize, Vec<i32>),
    /// What may be absent: its content is the column.
    Optional(usize),
}

struct Cell {
    kind: Kind,
    /// As many as there are values; behind that, of a structure that is always there.
    nulls: NullBufferBuilder,
    /// Is it a structure around all others, so that events are shown without it?
    is_outer: bool,
}

/// The columns of a plan.
pub(crate) struct Cells {
    cells: Vec<Cell>,
    roots: Vec<Option<usize>>,
    /// About how many bytes wait.
    pub(crate) bytes: usize,
    /// May events be shown without the structures that are always there?
    pub(crate) is_flat: bool,
}

impl Cells {
    /// Columns for the fields of a plan.
    pub(crate) fn new(schema: &Schema, plan: &Plan) -> Self {
        let mut cells = Vec::with_capacity(plan.nodes.len());
        let mut roots = Vec::new();
        for root in &plan.roots {
            roots.push(root.map(|root| {
                let at = cells.len();
                add(schema, plan.nodes[root as usize].class, &mut cells);
                at
            }));
        }
        let mut cells = Cells { cells, roots, bytes: 0, is_flat: true };
        for root in cells.roots.clone().into_iter().flatten() {
            cells.find_outer(root);
        }
        cells
    }

    /// Marks structures that are always there.
    fn find_outer(&mut self, at: usize) {
        match &self.cells[at].kind {
            Kind::Struct(members) => {
                let members: Vec<usize> = members.iter().map(|(_, at)| *at).collect();
                self.cells[at].is_outer = true;
                members.into_iter().for_each(|at| self.find_outer(at));
            }
            Kind::Unit(_) => self.is_flat = false,
            _ => {}
        }
    }

    /// The number of values of a structure that is always there, as its first leaf has it.
    fn rows_of(&self, at: usize) -> usize {
        match &self.cells[at].kind {
            Kind::Struct(members) if self.cells[at].is_outer => members.first().map_or(0, |(_, at)| self.rows_of(*at)),
            _ => self.len_of(at),
        }
    }

    /// Makes a structure that is always there as long as what is in it.
    fn pad(&mut self, at: usize) {
        if self.cells[at].is_outer {
            let missing = self.rows_of(at).saturating_sub(self.len_of(at));
            self.cells[at].nulls.append_n_non_nulls(missing);
        }
    }

    /// Visits fields; what cannot be held is counted.
    pub(crate) fn visitor<'a>(&'a mut self, lost: &'a mut Lost) -> Filler<'a> {
        Filler { cells: self, lost }
    }

    /// The column of the root `at`, if the scope is declared.
    pub(crate) fn field(&self, at: usize, name: &str) -> Option<Field> {
        let root = self.roots.get(at).copied().flatten()?;
        Some(self.field_of(root, name))
    }

    fn field_of(&self, at: usize, name: &str) -> Field {
        let of = |members: &[(Arc<str>, usize)]| -> DataType {
            DataType::Struct(members.iter().map(|(name, at)| self.field_of(*at, name)).collect())
        };
        let beside = |numbers: &Numbers, field: Field| {
            DataType::Struct(Fields::from(vec![Field::new("value", numbers.data_type(), true), field]))
        };
        let data_type = match &self.cells[at].kind {
            Kind::Numbers(numbers) => numbers.data_type(),
            Kind::Boolean(_) | Kind::Unit(_) => DataType::Boolean,
            Kind::Text(..) => DataType::Utf8,
            Kind::Blob(_, media_type) => {
                let metadata = HashMap::from([("media_type".to_string(), media_type.to_string())]);
                return Field::new(name, DataType::Binary, true).with_metadata(metadata);
            }
            Kind::Labelled(numbers, labels) => beside(numbers, labels.field()),
            Kind::Flags(numbers, labels) => {
                let item = Arc::new(Field::new("item", labels.dictionary(), true));
                beside(numbers, Field::new("flags", DataType::List(item), true))
            }
            Kind::Struct(members) | Kind::Variant(members) => of(members),
            Kind::List(element, _) => DataType::List(Arc::new(self.field_of(*element, "item"))),
            Kind::Optional(content) => return self.field_of(*content, name),
        };
        Field::new(name, data_type, true)
    }

    /// Takes the values of the root `at` out.
    pub(crate) fn take(&mut self, at: usize) -> Result<Option<ArrayRef>, ArrowError> {
        match self.roots.get(at).copied().flatten() {
            Some(root) => self.take_of(root).map(Some),
            None => Ok(None),
        }
    }

    /// Begins anew.
    pub(crate) fn clear_size(&mut self) {
        self.bytes = 0;
    }

    fn take_of(&mut self, at: usize) -> Result<ArrayRef, ArrowError> {
        self.pad(at);
        let nulls = self.cells[at].nulls.finish();
        let data_type = match &self.cells[at].kind {
            Kind::Struct(_) | Kind::Variant(_) | Kind::List(..) | Kind::Labelled(..) | Kind::Flags(..) => {
                Some(self.field_of(at, "").data_type().clone())
            }
            _ => None,
        };
        let fields = match &data_type {
            Some(DataType::Struct(fields)) => fields.clone(),
            _ => Fields::empty(),
        };
        let array: ArrayRef = match &mut self.cells[at].kind {
            Kind::Numbers(numbers) => numbers.take(nulls)?,
            Kind::Boolean(bits) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            Kind::Unit(len) => {
                let mut bits = BooleanBufferBuilder::new(*len);
                bits.append_n(std::mem::take(len), true);
                Arc::new(BooleanArray::new(bits.finish(), nulls))
            }
            Kind::Text(_, bytes) => {
                let (offsets, data) = bytes.take()?;
                Arc::new(StringArray::try_new(offsets, data, nulls)?)
            }
            Kind::Blob(bytes, _) => {
                let (offsets, data) = bytes.take()?;
                Arc::new(BinaryArray::try_new(offsets, data, nulls)?)
            }
            Kind::Labelled(numbers, labels) => {
                let names = labels.array(numbers)?;
                Arc::new(StructArray::try_new(fields, vec![numbers.take(None)?, names], nulls)?)
            }
            Kind::Flags(numbers, labels) => {
                let (mut keys, mut offsets) = (Vec::new(), vec![0i32]);
                for at in 0..numbers.len() {
                    let value = numbers.get(at);
                    for (flag, key) in &labels.mappings {
                        let is_set =
                            |&(low, high): &(i128, i128)| (low.max(0)..=high.min(63)).any(|bit| value >> bit & 1 == 1);
                        if flag.ranges.iter().any(is_set) {
                            keys.push(*key);
                        }
                    }
                    offsets.push(keys.len() as i32);
                }
                let item = Arc::new(Field::new("item", labels.dictionary(), true));
                let offsets = OffsetBuffer::new(offsets.into());
                let names = ListArray::try_new(item, offsets, labels.keys(keys, None)?, None)?;
                Arc::new(StructArray::try_new(fields, vec![numbers.take(None)?, Arc::new(names)], nulls)?)
            }
            Kind::Struct(members) | Kind::Variant(members) => {
                let members = members.clone();
                let arrays = members.iter().map(|(_, at)| self.take_of(*at)).collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new(fields, arrays, nulls)?)
            }
            Kind::List(element, offsets) => {
                let (element, offsets) = (*element, std::mem::replace(offsets, vec![0]));
                let Some(DataType::List(item)) = data_type else { unreachable!("a list has the type of a list") };
                let elements = self.take_of(element)?;
                Arc::new(ListArray::try_new(item, OffsetBuffer::new(offsets.into()), elements, nulls)?)
            }
            Kind::Optional(content) => {
                let content = *content;
                self.take_of(content)?
            }
        };
        Ok(array)
    }

    /// Appends nothing to a column and to all inside of it.
    fn push_null(&mut self, at: usize) {
        self.pad(at);
        self.cells[at].nulls.append_null();
        match &mut self.cells[at].kind {
            Kind::Numbers(numbers) | Kind::Labelled(numbers, _) | Kind::Flags(numbers, _) => numbers.push(0),
            Kind::Boolean(bits) => bits.append(false),
            Kind::Text(_, bytes) | Kind::Blob(bytes, _) => {
                bytes.push(&[]);
            }
            Kind::Unit(len) => *len += 1,
            Kind::List(element, _) => {
                let element = *element;
                // Elements of a visit that ended in a fault belong to what is absent.
                let len = self.cells[element].nulls.len() as i32;
                if let Kind::List(_, offsets) = &mut self.cells[at].kind {
                    offsets.push(len);
                }
            }
            Kind::Optional(content) => {
                let content = *content;
                self.push_null(content);
            }
            Kind::Struct(members) | Kind::Variant(members) => {
                let members: Vec<usize> = members.iter().map(|(_, at)| *at).collect();
                members.into_iter().for_each(|at| self.push_null(at));
            }
        }
    }

    /// Makes all columns as long as the table, behind an event that could not be read to its end.
    pub(crate) fn level(&mut self, rows: usize) {
        for root in self.roots.clone().into_iter().flatten() {
            self.level_of(root, rows);
        }
    }

    fn level_of(&mut self, at: usize, len: usize) {
        let inside: Vec<usize> = match &self.cells[at].kind {
            Kind::Struct(members) | Kind::Variant(members) => members.iter().map(|(_, at)| *at).collect(),
            Kind::Optional(content) => vec![*content],
            Kind::List(element, _) => {
                let element = *element;
                let longest = self.longest(element);
                self.level_of(element, longest);
                if self.cells[at].nulls.len() == len
                    && let Kind::List(_, offsets) = &mut self.cells[at].kind
                {
                    // The list was begun and did not end.
                    offsets.truncate(len);
                    offsets.push(longest as i32);
                }
                Vec::new()
            }
            _ => Vec::new(),
        };
        self.pad(at);
        if self.cells[at].nulls.len() < len {
            // What is inside may have been begun; it is made level below.
            let is_outer = !inside.is_empty();
            match is_outer {
                true => self.cells[at].nulls.append_null(),
                false => self.push_null(at),
            }
        }
        inside.into_iter().for_each(|at| self.level_of(at, len));
    }

    /// The length of the longest column in a tree.
    fn longest(&self, at: usize) -> usize {
        let own = self.len_of(at);
        match &self.cells[at].kind {
            Kind::Struct(members) | Kind::Variant(members) => {
                members.iter().map(|(_, at)| self.longest(*at)).fold(own, usize::max)
            }
            Kind::Optional(content) => own.max(self.longest(*content)),
            _ => own,
        }
    }

    /// Number of values of a column.
    fn len_of(&self, at: usize) -> usize {
        self.cells[at].nulls.len()
    }
}

/// Adds the cells of a field, in the order in which the plan numbered its nodes.
fn add(schema: &Schema, id: FieldClassId, cells: &mut Vec<Cell>) {
    let at = cells.len();
    cells.push(Cell { kind: Kind::Unit(0), nulls: NullBufferBuilder::new(0), is_outer: false });
    let text = |encoding| Kind::Text(encoding, Bytes::default());
    let labelled = |class: &IntegerClass, numbers: Numbers| match &class.mappings {
        Some(mappings) => Kind::Labelled(numbers, Box::new(Labels::new(mappings))),
        None => Kind::Numbers(numbers),
    };
    let mut names = Vec::new();
    let mut unique = |name: &str| -> Arc<str> {
        let mut own = name.to_string();
        while names.contains(&own) {
            own.push('_');
        }
        names.push(own.clone());
        own.into()
    };
    let kind = match &schema.field_class(id).kind {
        FieldKind::Integer(class) if class.len_bits > 64 => text(Encoding::Utf8),
        FieldKind::Integer(class) => labelled(class, Numbers::integers(class.len_bits, class.signed)),
        FieldKind::BitArray(class) | FieldKind::BitMap(class) if class.len_bits > 64 => text(Encoding::Utf8),
        FieldKind::BitArray(class) => Kind::Numbers(Numbers::integers(class.len_bits, false)),
        FieldKind::BitMap(class) => {
            Kind::Flags(Numbers::integers(class.len_bits, false), Box::new(Labels::new(&class.flags)))
        }
        FieldKind::Boolean(_) => Kind::Boolean(BooleanBufferBuilder::new(0)),
        FieldKind::Float(class) if class.len_bits <= 32 => Kind::Numbers(Numbers::F32(Vec::new())),
        FieldKind::Float(_) => Kind::Numbers(Numbers::F64(Vec::new())),
        FieldKind::String(class) => text(class.encoding),
        FieldKind::Rendered(_) => text(Encoding::Utf8),
        FieldKind::Blob(class) => Kind::Blob(Bytes::default(), class.media_type.clone()),
        FieldKind::Struct(class) if class.members.is_empty() => Kind::Unit(0),
        FieldKind::Struct(class) => {
            let mut members = Vec::new();
            for member in &class.members {
                members.push((unique(&member.name), cells.len()));
                add(schema, member.class, cells);
            }
            Kind::Struct(members)
        }
        FieldKind::Array(class) => {
            let element = cells.len();
            add(schema, class.element, cells);
            Kind::List(element, vec![0])
        }
        FieldKind::Optional(class) => {
            let content = cells.len();
            add(schema, class.content, cells);
            Kind::Optional(content)
        }
        FieldKind::Variant(class) => {
            let mut options = Vec::new();
            for (index, option) in class.options.iter().enumerate() {
                let name = option.name.as_ref().map_or_else(|| index.to_string(), |name| name.to_string());
                options.push((unique(&name), cells.len()));
                add(schema, option.class, cells);
            }
            Kind::Variant(options)
        }
    };
    cells[at].kind = kind;
}

/// Appends the fields that it is shown.
pub(crate) struct Filler<'a> {
    cells: &'a mut Cells,
    lost: &'a mut Lost,
}

impl Filler<'_> {
    #[inline(always)]
    fn begin(&mut self, node: NodeId) -> &mut Kind {
        let cell = &mut self.cells.cells[node as usize];
        cell.nulls.append_non_null();
        self.cells.bytes += 8;
        &mut cell.kind
    }

    #[inline]
    fn integer(&mut self, node: NodeId, value: u64) {
        if let Kind::Numbers(numbers) | Kind::Labelled(numbers, _) | Kind::Flags(numbers, _) = self.begin(node) {
            numbers.push(value);
        }
    }

    fn put(&mut self, node: NodeId, bytes: &[u8]) {
        self.cells.bytes += bytes.len();
        let is_kept = match self.begin(node) {
            Kind::Text(_, texts) | Kind::Blob(texts, _) => texts.push(bytes),
            _ => true,
        };
        self.lost.huge += u64::from(!is_kept);
    }
}

impl Visitor for Filler<'_> {
    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.integer(node, value);
    }

    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        self.integer(node, value as u64);
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        if let Kind::Text(..) = self.cells.cells[node as usize].kind {
            return self.put(node, value.to_decimal().as_bytes());
        }
        self.lost.wide += 1;
        self.cells.push_null(node as usize);
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        if let Kind::Boolean(bits) = self.begin(node) {
            bits.append(value);
        }
    }

    fn real(&mut self, node: NodeId, value: f64) {
        if let Kind::Numbers(numbers) = self.begin(node) {
            numbers.push_real(value);
        }
    }

    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        let encoding = match self.cells.cells[node as usize].kind {
            Kind::Text(encoding, _) => encoding,
            _ => Encoding::Utf8,
        };
        let is_kept = match encoding {
            Encoding::Utf8 => std::str::from_utf8(bytes).is_ok(),
            Encoding::Ascii => bytes.is_ascii(),
            _ => false,
        };
        if is_kept {
            return self.put(node, bytes);
        }
        let text = encoding.to_utf8(bytes);
        if text.contains(char::REPLACEMENT_CHARACTER) {
            self.lost.bad_texts += 1;
        }
        self.put(node, text.as_bytes());
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        self.put(node, bytes);
    }

    #[inline]
    fn begin_struct(&mut self, node: NodeId) {
        let cell = &mut self.cells.cells[node as usize];
        if cell.is_outer {
            return;
        }
        cell.nulls.append_non_null();
        if let Kind::Unit(len) = &mut cell.kind {
            *len += 1;
        }
    }

    fn begin_array(&mut self, node: NodeId, _len: u64) {
        self.begin(node);
    }

    fn end_array(&mut self, node: NodeId) {
        let Kind::List(element, _) = self.cells.cells[node as usize].kind else { return };
        let len = self.cells.len_of(element) as i32;
        if let Kind::List(_, offsets) = &mut self.cells.cells[node as usize].kind {
            offsets.push(len);
        }
    }

    fn begin_variant(&mut self, node: NodeId, option: usize) {
        self.begin(node);
        let Kind::Variant(options) = &self.cells.cells[node as usize].kind else { return };
        for (at, (_, own)) in options.clone().iter().enumerate() {
            if at != option {
                self.cells.push_null(*own);
            }
        }
    }

    fn begin_optional(&mut self, node: NodeId) {
        self.begin(node);
    }

    fn absent(&mut self, node: NodeId) {
        self.cells.push_null(node as usize);
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt8Type;
    use tracemill_codec::trace_plans::TracePlans;
    use tracemill_model::schema::{
        ArrayClass, EventClass, FieldClass, Length, Member, StreamClass, StringClass, StringLength, StructClass,
    };

    use super::*;

    fn structure(schema: &mut Schema, members: Vec<(&str, FieldClassId)>) -> FieldClassId {
        let member = |(name, class): (&str, FieldClassId)| Member { name: name.into(), raw_name: name.into(), class };
        let members = members.into_iter().map(member).collect();
        schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
    }

    /// Cells of a payload `n`, `rows` (a list of structures of `x` and a text), `last`.
    fn cells() -> Cells {
        let mut schema = Schema::new("test");
        let byte = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(8)), 8));
        let text = StringClass { encoding: Encoding::Utf8, length: StringLength::NullTerminated, is_text_array: false };
        let text = schema.add_field_class(FieldClass::new(FieldKind::String(text), 8));
        let element = structure(&mut schema, vec![("x", byte), ("text", text)]);
        let list = FieldKind::Array(ArrayClass { element, length: Length::Static(2) });
        let list = schema.add_field_class(FieldClass::new(list, 8));
        let payload = structure(&mut schema, vec![("n", byte), ("rows", list), ("last", byte)]);
        let stream = schema.add_stream(StreamClass::default()).expect("the first stream");
        let class = EventClass { payload: Some(payload), ..EventClass::new(0, stream) };
        let class = schema.add_event(class).expect("the first class");
        let schema = Arc::new(schema);
        let plans = TracePlans::new(schema.clone());
        Cells::new(&schema, plans.event_rows(class))
    }

    fn whole(filler: &mut Filler<'_>, n: u64) {
        filler.begin_struct(0);
        filler.unsigned(1, n);
        filler.begin_array(2, 2);
        for x in 0..2 {
            filler.begin_struct(3);
            filler.unsigned(4, x);
            filler.string(5, b"t\xff");
        }
        filler.end_array(2);
        filler.unsigned(6, 9);
    }

    #[test]
    fn an_event_that_ends_early_leaves_columns_of_one_length() {
        for stop in 0..7 {
            let (mut cells, mut lost) = (cells(), Lost::default());
            whole(&mut cells.visitor(&mut lost), 7);
            {
                let mut filler = cells.visitor(&mut lost);
                let steps: [&dyn Fn(&mut Filler<'_>); 7] = [
                    &|filler| filler.begin_struct(0),
                    &|filler| filler.unsigned(1, 8),
                    &|filler| filler.begin_array(2, 2),
                    &|filler| filler.begin_struct(3),
                    &|filler| filler.unsigned(4, 5),
                    &|filler| filler.string(5, b"x"),
                    &|filler| filler.begin_struct(3),
                ];
                steps[..=stop].iter().for_each(|step| step(&mut filler));
            }
            cells.level(2);
            whole(&mut cells.visitor(&mut lost), 6);
            let payload = cells.take(2).expect("the columns fit").expect("there is a payload");
            let payload = payload.as_struct();
            assert_eq!(payload.len(), 3, "after {stop} steps");
            let n = payload.column(0).as_primitive::<UInt8Type>();
            assert_eq!((n.value(0), n.value(2), n.is_null(1)), (7, 6, stop == 0));
            let rows = payload.column(1).as_list::<i32>();
            assert_eq!((rows.value_length(0), rows.value_length(2)), (2, 2), "after {stop} steps");
            let last = rows.value(2);
            let x = last.as_struct().column(0).as_primitive::<UInt8Type>();
            assert_eq!((x.value(0), x.value(1)), (0, 1), "after {stop} steps");
            assert_eq!(last.as_struct().column(1).as_string::<i32>().value(1), "t\u{fffd}");
            assert!(payload.column(2).is_null(1));
            assert_eq!(lost.bad_texts, 4);
        }
    }

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
