//! Fields of events gathered into columns, given out as Arrow arrays.
//!
//! [`Columns`] holds a tree of growing arrays that mirrors the field classes of one plan: structures become structs, arrays
//! lists, variants structs of which one member is filled, enumerations a number beside a dictionary of labels. Each event
//! appends one row by a visit of its fields; nothing is allocated per event.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod chosen;
mod filler;
mod leaves;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, Decimal128Array, ListArray, StringArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::{DecoderState, Fault, NodeId, Plan};
use tracemill_model::schema::{
    Encoding, FieldClassId, FieldKind, IntegerClass, Mapping, Member, Schema, Scope, VariantOption,
};

use crate::leaves::{BytesColumn, LabelColumn};

pub use crate::chosen::{ChosenColumns, ColumnRequest, integer_of};
pub use crate::filler::Filler;
pub use crate::leaves::NumberColumn;

/// Values that columns cannot hold, counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Dropped {
    /// Strings with bytes that are no text: those bytes became U+FFFD.
    pub bad_texts: u64,
    /// Integers of variable length with more than 64 bits: null.
    pub wide: u64,
    /// Strings and blobs after the first 2 GiB that waited in one column: empty.
    pub huge: u64,
}

impl std::ops::AddAssign for Dropped {
    fn add_assign(&mut self, other: Dropped) {
        self.bad_texts += other.bad_texts;
        self.wide += other.wide;
        self.huge += other.huge;
    }
}

/// Number of field classes that lose their labels or flags: integers of more than 64 bits become decimal texts.
pub fn unlabelled(schema: &Schema) -> u64 {
    let has_labels = |id: usize| match &schema.field_class(FieldClassId(id as u32)).kind {
        FieldKind::Integer(class) => {
            class.len_bits > 64 && class.mappings.as_ref().is_some_and(|mappings| !mappings.is_empty())
        }
        FieldKind::BitMap(class) => class.len_bits > 64,
        _ => false,
    };
    (0..schema.field_class_count()).filter(|&id| has_labels(id)).count() as u64
}

/// A column, or columns around columns.
enum ColumnNode {
    Numbers(NumberColumn),
    Boolean(BooleanBufferBuilder),
    /// Texts; integers of more than 64 bits are decimal.
    Text(Encoding, BytesColumn),
    Blob(BytesColumn, Arc<str>),
    /// An integer with labels, or a bit map with flags: the value beside the names.
    Labelled(NumberColumn, Box<LabelColumn>),
    /// A structure without members: is it there?
    Unit(usize),
    Struct(Vec<(Arc<str>, usize)>),
    /// As a structure, of which one member is there.
    Variant(Vec<(Arc<str>, usize)>),
    List(usize, Vec<i32>),
    /// An optional field: its content is the column.
    Optional(usize),
    /// Integers of more than 64 bits that fit a decimal number.
    Decimal(Vec<i128>),
    /// The column is not requested.
    Passed,
}

/// The types of columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Widths {
    /// Numbers have the width of their field.
    Own,
    /// Integers have 64 bits, or are decimals of 38 digits; floats have 64 bits; lists of labels hold texts.
    Common,
}

/// Digits of the decimals that integers of more than 64 bits are.
const DECIMAL_DIGITS: u8 = 38;
/// Bits of the integers that surely fit them.
const DECIMAL_BITS: u32 = 126;

struct Cell {
    kind: ColumnNode,
    /// One for each value; fewer, until it is padded, in a structure that is always there.
    nulls: NullBufferBuilder,
    /// Is it a structure around all others, so that events are shown without it?
    is_outer: bool,
}

/// Columns for the fields of one plan, one row for each event.
pub struct Columns {
    cells: Vec<Cell>,
    roots: Vec<Option<usize>>,
    rows: usize,
    bytes: usize,
    /// May events be shown without the structures that are always there?
    is_flat: bool,
    dropped: Dropped,
}

impl Columns {
    /// Empty columns for the fields of a plan of this schema.
    pub fn new(schema: &Schema, plan: &Plan) -> Self {
        let mut cells = Vec::with_capacity(plan.nodes.len());
        let maker = Maker { schema, widths: Widths::Own, base: 0 };
        let roots =
            plan.roots.iter().map(|root| Some(maker.add(plan.nodes[(*root)? as usize].class, false, &mut cells)));
        let roots = roots.collect();
        Columns::from_cells(cells, roots)
    }

    /// Empty columns for some fields of a plan, and for what is in them; all others are passed over. None of them may
    /// be inside of another one, or of a field that is not always there. NumberColumn have common widths.
    fn from_nodes(schema: &Schema, plan: &Plan, nodes: &[NodeId]) -> Self {
        let passed = || Cell { kind: ColumnNode::Passed, nulls: NullBufferBuilder::new(0), is_outer: false };
        let mut cells: Vec<Cell> = std::iter::repeat_with(passed).take(plan.nodes.len()).collect();
        for &node in nodes {
            let mut inside = Vec::new();
            let maker = Maker { schema, widths: Widths::Common, base: node as usize };
            maker.add(plan.nodes[node as usize].class, true, &mut inside);
            for (at, cell) in (node as usize..).zip(inside) {
                cells[at] = cell;
            }
        }
        Columns::from_cells(cells, nodes.iter().map(|&node| Some(node as usize)).collect())
    }

    fn from_cells(cells: Vec<Cell>, roots: Vec<Option<usize>>) -> Self {
        let mut columns = Columns { cells, roots, rows: 0, bytes: 0, is_flat: true, dropped: Dropped::default() };
        for root in columns.roots.clone().into_iter().flatten() {
            columns.find_outer(root);
        }
        columns
    }

    /// Appends the contexts and the payload of an event, of the class whose plan these columns were made of.
    ///
    /// # Errors
    /// When the event cannot be decoded to its end. It has a row all the same: fields that were not reached are null.
    #[inline]
    pub fn push_event(&mut self, event: EventRef<'_>, state: &mut DecoderState) -> Result<(), Fault> {
        let is_flat = self.is_flat;
        self.push(|visitor| {
            if is_flat {
                return event.visit_flat(state, visitor);
            }
            let mut fields = event.fields(state);
            let mut visit = |scope| fields.visit(scope, state, visitor);
            visit(Scope::CommonContext)?;
            visit(Scope::SpecificContext)?;
            visit(Scope::Payload)
        })
    }

    /// Appends a row that a visit fills: for headers and packet contexts.
    ///
    /// # Errors
    /// The error of the visit; as in [`Columns::push_event`].
    #[inline]
    pub fn push(&mut self, visit: impl FnOnce(&mut Filler<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        self.rows += 1;
        visit(&mut Filler { columns: self }).inspect_err(|_| self.level(self.rows))
    }

    /// Appends a row of nulls.
    pub fn push_null_row(&mut self) {
        self.rows += 1;
        self.level(self.rows);
    }

    /// About how many bytes the rows take that were not given out yet.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Values that did not fit, in all rows so far.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// The Arrow fields of the scopes that are declared; `names` has a name for each scope of the plan.
    pub fn fields(&self, names: &[&str]) -> Vec<Field> {
        let roots = self.roots.iter().zip(names);
        roots.filter_map(|(root, name)| root.map(|root| self.field_of(root, name))).collect()
    }

    /// Takes all rows out: an array for each of [`Columns::fields`]. The columns are empty afterwards.
    ///
    /// # Errors
    /// When Arrow refuses an array, which is an error of this crate.
    pub fn take(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        (self.rows, self.bytes) = (0, 0);
        self.roots.clone().into_iter().flatten().map(|root| self.take_of(root)).collect()
    }

    /// Marks structures that are always there.
    fn find_outer(&mut self, at: usize) {
        match &self.cells[at].kind {
            ColumnNode::Struct(_) => {
                self.cells[at].is_outer = true;
                self.parts_of(at).into_iter().for_each(|at| self.find_outer(at));
            }
            ColumnNode::Unit(_) => self.is_flat = false,
            _ => {}
        }
    }

    /// The number of values of a structure that is always there, as its first leaf has it.
    fn rows_of(&self, at: usize) -> usize {
        match &self.cells[at].kind {
            ColumnNode::Struct(members) if self.cells[at].is_outer => {
                members.first().map_or(0, |(_, at)| self.rows_of(*at))
            }
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

    fn field_of(&self, at: usize, name: &str) -> Field {
        let of = |members: &[(Arc<str>, usize)]| -> DataType {
            DataType::Struct(members.iter().map(|(name, at)| self.field_of(*at, name)).collect())
        };
        let data_type = match &self.cells[at].kind {
            ColumnNode::Numbers(numbers) => numbers.data_type(),
            ColumnNode::Boolean(_) | ColumnNode::Unit(_) => DataType::Boolean,
            ColumnNode::Text(..) => DataType::Utf8,
            ColumnNode::Blob(_, media_type) => {
                let metadata = HashMap::from([("media_type".to_string(), media_type.to_string())]);
                return Field::new(name, DataType::Binary, true).with_metadata(metadata);
            }
            ColumnNode::Labelled(numbers, labels) => {
                let value = Field::new("value", numbers.data_type(), true);
                DataType::Struct(Fields::from(vec![value, labels.field()]))
            }
            ColumnNode::Struct(members) | ColumnNode::Variant(members) => of(members),
            ColumnNode::List(element, _) => DataType::List(Arc::new(self.field_of(*element, "item"))),
            ColumnNode::Optional(content) => return self.field_of(*content, name),
            ColumnNode::Decimal(_) => DataType::Decimal128(DECIMAL_DIGITS, 0),
            ColumnNode::Passed => DataType::Null,
        };
        Field::new(name, data_type, true)
    }

    fn take_of(&mut self, at: usize) -> Result<ArrayRef, ArrowError> {
        self.pad(at);
        let nulls = self.cells[at].nulls.finish();
        let data_type = match &self.cells[at].kind {
            ColumnNode::Struct(_) | ColumnNode::Variant(_) | ColumnNode::List(..) | ColumnNode::Labelled(..) => {
                Some(self.field_of(at, "").data_type().clone())
            }
            _ => None,
        };
        let fields = match &data_type {
            Some(DataType::Struct(fields)) => fields.clone(),
            _ => Fields::empty(),
        };
        let array: ArrayRef = match &mut self.cells[at].kind {
            ColumnNode::Numbers(numbers) => numbers.take(nulls)?,
            ColumnNode::Boolean(bits) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            ColumnNode::Unit(len) => {
                let mut bits = BooleanBufferBuilder::new(*len);
                bits.append_n(std::mem::take(len), true);
                Arc::new(BooleanArray::new(bits.finish(), nulls))
            }
            ColumnNode::Text(_, bytes) => {
                let (offsets, data) = bytes.take()?;
                Arc::new(StringArray::try_new(offsets, data, nulls)?)
            }
            ColumnNode::Blob(bytes, _) => {
                let (offsets, data) = bytes.take()?;
                Arc::new(BinaryArray::try_new(offsets, data, nulls)?)
            }
            ColumnNode::Labelled(numbers, labels) => {
                let names = labels.array(numbers)?;
                Arc::new(StructArray::try_new(fields, vec![numbers.take(None)?, names], nulls)?)
            }
            ColumnNode::Struct(members) | ColumnNode::Variant(members) => {
                let members = members.clone();
                let arrays = members.iter().map(|(_, at)| self.take_of(*at)).collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new(fields, arrays, nulls)?)
            }
            ColumnNode::List(element, offsets) => {
                let (element, offsets) = (*element, std::mem::replace(offsets, vec![0]));
                let Some(DataType::List(item)) = data_type else { unreachable!("a list has the type of a list") };
                let elements = self.take_of(element)?;
                Arc::new(ListArray::try_new(item, OffsetBuffer::new(offsets.into()), elements, nulls)?)
            }
            ColumnNode::Optional(content) => {
                let content = *content;
                self.take_of(content)?
            }
            ColumnNode::Decimal(values) => {
                let array = Decimal128Array::try_new(std::mem::take(values).into(), nulls)?;
                Arc::new(array.with_precision_and_scale(DECIMAL_DIGITS, 0)?)
            }
            ColumnNode::Passed => return Err(ArrowError::InvalidArgumentError("this column is not selected".into())),
        };
        Ok(array)
    }

    /// Appends nothing to a column and to all inside of it.
    fn push_null(&mut self, at: usize) {
        if matches!(self.cells[at].kind, ColumnNode::Passed) {
            return;
        }
        self.pad(at);
        self.cells[at].nulls.append_null();
        match &mut self.cells[at].kind {
            ColumnNode::Numbers(numbers) | ColumnNode::Labelled(numbers, _) => numbers.push(0),
            ColumnNode::Boolean(bits) => bits.append(false),
            ColumnNode::Text(_, bytes) | ColumnNode::Blob(bytes, _) => {
                bytes.push(&[]);
            }
            ColumnNode::Unit(len) => *len += 1,
            ColumnNode::Decimal(values) => values.push(0),
            ColumnNode::Passed => {}
            // Elements of a visit that ended in an error belong to what is absent.
            ColumnNode::List(..) => self.end_list(at),
            ColumnNode::Optional(_) | ColumnNode::Struct(_) | ColumnNode::Variant(_) => {
                self.parts_of(at).into_iter().for_each(|at| self.push_null(at));
            }
        }
    }

    /// Ends a list with the elements so far.
    fn end_list(&mut self, at: usize) {
        let ColumnNode::List(element, _) = self.cells[at].kind else { return };
        let len = self.len_of(element) as i32;
        if let ColumnNode::List(_, offsets) = &mut self.cells[at].kind {
            offsets.push(len);
        }
    }

    /// Makes all columns as long as the table, after an event that could not be read to its end.
    fn level(&mut self, rows: usize) {
        for root in self.roots.clone().into_iter().flatten() {
            self.level_of(root, rows);
        }
    }

    fn level_of(&mut self, at: usize, len: usize) {
        let inside = self.parts_of(at);
        if let ColumnNode::List(element, _) = self.cells[at].kind {
            let longest = self.longest(element);
            self.level_of(element, longest);
            if self.cells[at].nulls.len() == len
                && let ColumnNode::List(_, offsets) = &mut self.cells[at].kind
            {
                // The list was begun and did not end.
                offsets.truncate(len);
                offsets.push(longest as i32);
            }
        }
        self.pad(at);
        if self.cells[at].nulls.len() < len {
            // Inner columns may have been begun; they are made level below.
            if inside.is_empty() { self.push_null(at) } else { self.cells[at].nulls.append_null() }
        }
        inside.into_iter().for_each(|at| self.level_of(at, len));
    }

    /// The length of the longest column in a tree.
    fn longest(&self, at: usize) -> usize {
        self.parts_of(at).into_iter().map(|at| self.longest(at)).fold(self.len_of(at), usize::max)
    }

    /// The columns that have a value for each value of this one.
    fn parts_of(&self, at: usize) -> Vec<usize> {
        match &self.cells[at].kind {
            ColumnNode::Struct(members) | ColumnNode::Variant(members) => members.iter().map(|(_, at)| *at).collect(),
            ColumnNode::Optional(content) => vec![*content],
            _ => Vec::new(),
        }
    }

    /// Number of values of a column.
    fn len_of(&self, at: usize) -> usize {
        self.cells[at].nulls.len()
    }
}

/// Makes the cells of fields.
struct Maker<'a> {
    schema: &'a Schema,
    widths: Widths,
    /// The node of the first cell.
    base: usize,
}

impl Maker<'_> {
    fn integers(&self, len_bits: u32, signed: bool) -> NumberColumn {
        match (self.widths, len_bits) {
            (Widths::Own, len_bits) => NumberColumn::integers(len_bits, signed),
            // A variable length counts as all bits.
            (Widths::Common, 1..=63) => NumberColumn::I64(Vec::new()),
            (Widths::Common, _) => NumberColumn::integers(64, signed),
        }
    }

    /// Integers of more than 64 bits.
    fn wide(&self, len_bits: u32) -> ColumnNode {
        match self.widths {
            Widths::Common if len_bits <= DECIMAL_BITS => ColumnNode::Decimal(Vec::new()),
            _ => ColumnNode::Text(Encoding::Utf8, BytesColumn::default()),
        }
    }

    fn labels(&self, mappings: &[Mapping], are_flags: bool) -> Box<LabelColumn> {
        Box::new(LabelColumn::new(mappings, are_flags, self.widths == Widths::Common))
    }

    /// Adds the cells of a field, in the order in which the plan numbered its nodes; the place of the first one. Where
    /// it is `plain`, labels and flags are left out.
    fn add(&self, id: FieldClassId, plain: bool, cells: &mut Vec<Cell>) -> usize {
        let (schema, at) = (self.schema, cells.len());
        cells.push(Cell { kind: ColumnNode::Unit(0), nulls: NullBufferBuilder::new(0), is_outer: false });
        let text = |encoding| ColumnNode::Text(encoding, BytesColumn::default());
        let labelled = |class: &IntegerClass, numbers: NumberColumn| match &class.mappings {
            Some(mappings) if !plain => ColumnNode::Labelled(numbers, self.labels(mappings, false)),
            _ => ColumnNode::Numbers(numbers),
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
            FieldKind::Integer(class) if class.len_bits > 64 => self.wide(class.len_bits),
            FieldKind::Integer(class) => labelled(class, self.integers(class.len_bits, class.signed)),
            FieldKind::BitArray(class) | FieldKind::BitMap(class) if class.len_bits > 64 => self.wide(class.len_bits),
            FieldKind::BitMap(class) if !plain => {
                ColumnNode::Labelled(self.integers(class.len_bits, false), self.labels(&class.flags, true))
            }
            FieldKind::BitArray(class) | FieldKind::BitMap(class) => {
                ColumnNode::Numbers(self.integers(class.len_bits, false))
            }
            FieldKind::Boolean(_) => ColumnNode::Boolean(BooleanBufferBuilder::new(0)),
            FieldKind::Float(class) if class.len_bits <= 32 && self.widths == Widths::Own => {
                ColumnNode::Numbers(NumberColumn::F32(Vec::new()))
            }
            FieldKind::Float(_) => ColumnNode::Numbers(NumberColumn::F64(Vec::new())),
            FieldKind::String(class) => text(class.encoding),
            FieldKind::Rendered(_) => text(Encoding::Utf8),
            FieldKind::Blob(class) => ColumnNode::Blob(BytesColumn::default(), class.media_type.clone()),
            FieldKind::Struct(class) if class.members.is_empty() => ColumnNode::Unit(0),
            FieldKind::Struct(class) => {
                let member = |member: &Member| (unique(&member.name), self.base + self.add(member.class, false, cells));
                ColumnNode::Struct(class.members.iter().map(member).collect())
            }
            FieldKind::Array(class) => ColumnNode::List(self.base + self.add(class.element, false, cells), vec![0]),
            FieldKind::Optional(class) => ColumnNode::Optional(self.base + self.add(class.content, plain, cells)),
            FieldKind::Variant(class) => {
                let option = |(index, option): (usize, &VariantOption)| {
                    let name = option.name.clone().unwrap_or_else(|| index.to_string().into());
                    (unique(&name), self.base + self.add(option.class, false, cells))
                };
                ColumnNode::Variant(class.options.iter().enumerate().map(option).collect())
            }
        };
        cells[at].kind = kind;
        at
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt8Type;
    use tracemill_codec::plan::FaultKind;
    use tracemill_codec::trace_plans::TracePlans;
    use tracemill_model::schema::{
        ArrayClass, EventClass, FieldClass, Length, Member, StreamClass, StringClass, StructClass,
    };

    use tracemill_codec::plan::Visitor;

    use super::*;

    fn structure(schema: &mut Schema, members: Vec<(&str, FieldClassId)>) -> FieldClassId {
        let member = |(name, class): (&str, FieldClassId)| Member::new(name, class);
        let members = members.into_iter().map(member).collect();
        schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
    }

    /// Columns of a payload `n`, `rows` (a list of structures of `x` and a text), `last`.
    fn columns() -> Columns {
        let mut schema = Schema::new("test");
        let byte = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(8)), 8));
        let text = StringClass::utf8();
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
        Columns::new(&schema, plans.event_rows(class))
    }

    fn whole(columns: &mut Columns, n: u64) {
        let visit = |filler: &mut Filler<'_>| {
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
            Ok(())
        };
        columns.push(visit).expect("a whole row");
    }

    #[test]
    fn an_event_that_ends_early_leaves_columns_of_one_length() {
        for stop in 0..7 {
            let mut columns = columns();
            whole(&mut columns, 7);
            let steps: [&dyn Fn(&mut Filler<'_>); 7] = [
                &|filler| filler.begin_struct(0),
                &|filler| filler.unsigned(1, 8),
                &|filler| filler.begin_array(2, 2),
                &|filler| filler.begin_struct(3),
                &|filler| filler.unsigned(4, 5),
                &|filler| filler.string(5, b"x"),
                &|filler| filler.begin_struct(3),
            ];
            let fault = Fault { kind: FaultKind::Unterminated, at_bits: 0, node: 0 };
            let cut = columns.push(|filler| {
                steps[..=stop].iter().for_each(|step| step(filler));
                Err(fault)
            });
            assert_eq!(cut, Err(fault));
            whole(&mut columns, 6);
            let arrays = columns.take().expect("the columns fit");
            let payload = arrays[0].as_struct();
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
            assert_eq!(columns.dropped().bad_texts, 4);
        }
    }
}
