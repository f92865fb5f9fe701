//! The column view: every field of one event class as a column, for many events at once.
//!
//! Most classes are made of whole bytes: fields at fixed offsets, then a string or an array, then fields at fixed
//! offsets again. Their columns are filled one after the other by tight loops over the events: where each event stands
//! is a column itself, moved on by each field of variable size. Any other class is filled by its row plan.

mod rows;
mod steps;

use tracemill_model::schema::{EventClassId, Scope};

use crate::chunk::EventRef;
use crate::plan::{Fault, NodeId, Op, State};
use crate::trace_plans::TracePlans;
use rows::Filler;
use steps::{Step, column_of, fill, load, steps_of, surroundings};

/// Values of a column, in their own width (the layout of Arrow arrays).
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The names of the variants are the types of the values.
pub enum Values {
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
    /// Booleans.
    Boolean(Vec<bool>),
    /// Strings and blobs: `data[offsets[i]..offsets[i + 1]]`. Integers of more than 64 bits are here as decimal text.
    Bytes {
        /// One more than there are values.
        offsets: Vec<u32>,
        /// All bytes.
        data: Vec<u8>,
    },
}

/// A leaf field of a class as a column.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// The field, in the row plan of the class ([`TracePlans::event_rows`]).
    pub node: NodeId,
    /// Its values.
    pub values: Values,
    /// A list of offsets for each array around the field, outermost first; one more entry than there are lists.
    pub lists: Vec<Vec<u32>>,
    /// For a field inside a variant or an optional: is there a value at each place?
    pub validity: Option<Vec<bool>>,
}

/// Columns of an event class.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Columns {
    /// Full clock value of each event.
    pub cycles: Vec<u64>,
    /// In the order of the fields.
    pub columns: Vec<Column>,
    /// Number of events.
    pub events: usize,
}

impl Columns {
    /// Forgets all values; keeps the memory.
    pub fn clear(&mut self) {
        self.events = 0;
        self.cycles.clear();
        for column in &mut self.columns {
            column.values.clear();
            column.lists.iter_mut().for_each(|list| list.truncate(1));
            if let Some(validity) = &mut column.validity {
                validity.clear();
            }
        }
    }
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::U8(values) => values.len(),
            Values::U16(values) => values.len(),
            Values::U32(values) => values.len(),
            Values::U64(values) => values.len(),
            Values::I8(values) => values.len(),
            Values::I16(values) => values.len(),
            Values::I32(values) => values.len(),
            Values::I64(values) => values.len(),
            Values::F32(values) => values.len(),
            Values::F64(values) => values.len(),
            Values::Boolean(values) => values.len(),
            Values::Bytes { offsets, .. } => offsets.len() - 1,
        }
    }

    /// Are there no values?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn clear(&mut self) {
        match self {
            Values::U8(values) => values.clear(),
            Values::U16(values) => values.clear(),
            Values::U32(values) => values.clear(),
            Values::U64(values) => values.clear(),
            Values::I8(values) => values.clear(),
            Values::I16(values) => values.clear(),
            Values::I32(values) => values.clear(),
            Values::I64(values) => values.clear(),
            Values::F32(values) => values.clear(),
            Values::F64(values) => values.clear(),
            Values::Boolean(values) => values.clear(),
            Values::Bytes { offsets, data } => {
                offsets.truncate(1);
                data.clear();
            }
        }
    }

    fn bytes() -> Self {
        Values::Bytes { offsets: vec![0], data: Vec::new() }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        if let Values::Bytes { offsets, data } = self {
            data.extend_from_slice(bytes);
            offsets.push(data.len() as u32);
        }
    }
}

/// Calls a macro with the vector and the type of a column of numbers.
macro_rules! with_numbers {
    ($values:expr, $do:ident) => {
        match $values {
            Values::U8(values) => $do!(values, u8),
            Values::I8(values) => $do!(values, i8),
            Values::U16(values) => $do!(values, u16),
            Values::I16(values) => $do!(values, i16),
            Values::U32(values) => $do!(values, u32),
            Values::I32(values) => $do!(values, i32),
            Values::U64(values) => $do!(values, u64),
            Values::I64(values) => $do!(values, i64),
            Values::F32(values) => $do!(values, f32),
            Values::F64(values) => $do!(values, f64),
            Values::Boolean(_) | Values::Bytes { .. } => {}
        }
    };
}
use with_numbers;

/// Fills the columns of one event class.
pub struct Gatherer {
    /// Steps over whole bytes; `None` for a class that needs its row plan.
    steps: Option<Vec<Step>>,
    template: Vec<Column>,
    /// Column of each node, for the row plan.
    of_node: Vec<Option<usize>>,
    /// The columns inside each array node, with the array's place in the column's lists.
    inside: Vec<Vec<(usize, usize)>>,
    /// Lengths that were read.
    saved: Vec<Vec<u64>>,
}

/// Classes that agree in this have the same columns and fill them alike.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Fills {
    steps: Box<[Step]>,
    /// Node, kind of the values, arrays around it, and whether it may be absent.
    columns: Box<[Shape]>,
}

type Shape = (NodeId, std::mem::Discriminant<Values>, usize, bool);

impl Gatherer {
    /// A gatherer of all leaf fields of a class: common context, specific context and payload.
    pub fn new(plans: &TracePlans, class: EventClassId) -> Self {
        let plan = plans.event_rows(class);
        let mut template: Vec<Column> = Vec::new();
        let mut of_node = vec![None; plan.nodes.len()];
        let mut inside = vec![Vec::new(); plan.nodes.len()];
        for op in plan.ops.iter() {
            let Some((node, values)) = column_of(op) else { continue };
            if of_node[node as usize].is_none() {
                of_node[node as usize] = Some(template.len());
                let (arrays, may_be_absent) = surroundings(plans.schema(), plan, node);
                for (place, &array) in arrays.iter().enumerate() {
                    inside[array as usize].push((template.len(), place));
                }
                let may_be_absent = may_be_absent || matches!(op, Op::Leb { .. } | Op::Rendered { .. });
                let validity = may_be_absent.then(Vec::new);
                template.push(Column { node, values, lists: vec![vec![0]; arrays.len()], validity });
            }
        }
        let mut slots = 0;
        let steps = steps_of(plan, &of_node, &mut slots).filter(|_| !plans.needs_header(class));
        Gatherer { steps, template, of_node, inside, saved: vec![Vec::new(); slots] }
    }

    /// The columns of the class as they are when they are new.
    pub(crate) fn template(&self) -> &[Column] {
        &self.template
    }

    /// What [`Gatherer::gather`] does, for a class whose columns are filled from the bytes of its events alone.
    pub(crate) fn fills(&self) -> Option<Box<Fills>> {
        let shape = |column: &Column| {
            (column.node, std::mem::discriminant(&column.values), column.lists.len(), column.validity.is_some())
        };
        let steps = self.steps.clone()?.into();
        Some(Box::new(Fills { steps, columns: self.template.iter().map(shape).collect() }))
    }

    /// Appends events to `columns`: in `bytes`, from each of `places` on, stand their cycles (8 bytes, little-endian) and
    /// what is behind their header. `places` are of no use afterwards. Nothing is appended when there is no [`Gatherer::fills`].
    pub(crate) fn gather(&mut self, bytes: &[u8], places: &mut [usize], columns: &mut Columns) {
        let Some(steps) = &self.steps else { return };
        if columns.columns.is_empty() {
            columns.columns = self.template.clone();
        }
        let cycles = |place: &mut usize| {
            let cycles = u64::from_le_bytes(load(bytes, *place));
            *place += 8;
            cycles
        };
        columns.cycles.extend(places.iter_mut().map(cycles));
        for step in steps {
            fill(*step, bytes, places, &mut self.saved, &mut columns.columns);
        }
        columns.events += places.len();
    }

    /// Appends an event of any class to `columns`.
    ///
    /// # Errors
    /// None for chunks as the boundary pass made them, which has read every field.
    pub(crate) fn gather_row(&self, event: EventRef<'_>, columns: &mut Columns) -> Result<(), Fault> {
        if columns.columns.is_empty() {
            columns.columns = self.template.clone();
        }
        let mut state = State::default();
        let mut fields = event.fields(&mut state);
        let mut filler = Filler { gatherer: self, columns: &mut columns.columns, lens: Vec::new() };
        for scope in [Scope::CommonContext, Scope::SpecificContext, Scope::Payload] {
            fields.visit(scope, &mut state, &mut filler)?;
        }
        columns.events += 1;
        columns.cycles.push(event.cycles());
        for column in &mut columns.columns {
            column.pad(0, columns.events);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracemill_model::packet::Packet;
    use tracemill_model::schema::*;

    use super::*;
    use crate::batches::ColumnBatches;
    use crate::chunk::Chunk;
    use crate::chunk::{ChunkSink, PacketData};
    use crate::plan::Input;
    use crate::plan::Visitor;
    use crate::trace_plans::{EventVisitor, ScanEnd};

    fn leaf(schema: &mut Schema, class: IntegerClass) -> FieldClassId {
        schema.add_field_class(FieldClass::new(FieldKind::Integer(class), 8))
    }

    fn structure(schema: &mut Schema, members: Vec<(&str, FieldClassId)>) -> FieldClassId {
        let members =
            members.into_iter().map(|(name, class)| Member { name: name.into(), raw_name: name.into(), class });
        schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members: members.collect() }), 8))
    }

    fn path(steps: Vec<PathStep>) -> FieldPath {
        FieldPath { scope: Scope::Payload, steps }
    }

    /// A chunk of the events in `bytes`, all of the one class with this payload.
    fn chunk(mut schema: Schema, payload: FieldClassId, bytes: &[u8]) -> Chunk {
        let stream = schema.add_stream(StreamClass::default()).expect("the first stream");
        let event = EventClass { payload: Some(payload), ..EventClass::new(0, stream) };
        schema.add_event(event).expect("the first event");
        let packet = packet_data(schema, stream, bytes);
        let mut chunk = Chunk::new(Arc::new(packet), 0, 16);
        let packet = chunk.packet.clone();
        let mut sink = ChunkSink::new(&mut chunk, 100);
        packet.plans.scanner(stream).scan(packet.input(), &mut 0, &mut State::default(), &mut sink);
        chunk
    }

    fn packet_data(schema: Schema, stream: StreamClassId, bytes: &[u8]) -> PacketData {
        let plans = Arc::new(TracePlans::new(Arc::new(schema)));
        let bits = bytes.len() as u64 * 8;
        let packet = Packet::new(stream, 0, bits);
        let file = Arc::new(bytes.to_vec());
        let state = State::default();
        PacketData {
            plans,
            bytes: file.clone(),
            base_bytes: packet.offset_bytes as usize,
            file,
            packet,
            cpu: None,
            spine: None,
            context_bits: 0,
            events_bits: 0,
            state,
        }
    }

    fn gathered(chunk: Chunk) -> (Columns, bool) {
        let is_fast = Gatherer::new(&chunk.packet.plans, EventClassId(0)).fills().is_some();
        let mut batches = ColumnBatches::new(chunk.packet.plans.clone());
        let mut all = Columns::default();
        let mut take = |_: EventClassId, columns: &Columns| all = columns.clone();
        let (packet, mut state) = (chunk.packet.clone(), State::default());
        batches.scan(&packet, &mut 0, &mut state, &mut take).expect("the boundary pass has read all");
        batches.finish(&mut take);
        (all, is_fast)
    }

    fn by_rows(chunk: &Chunk) -> Columns {
        let (gatherer, mut columns) = (Gatherer::new(&chunk.packet.plans, EventClassId(0)), Columns::default());
        for at in 0..chunk.len() {
            gatherer.gather_row(chunk.event(at), &mut columns).expect("the boundary pass has read all");
        }
        columns
    }

    #[test]
    fn whole_bytes_are_filled_column_by_column_as_by_rows() {
        let mut schema = Schema::new("test");
        let count = leaf(&mut schema, IntegerClass::unsigned(8));
        let number = leaf(&mut schema, IntegerClass { signed: true, ..IntegerClass::unsigned(16) });
        let text = StringClass { encoding: Encoding::Utf8, length: StringLength::NullTerminated, is_text_array: false };
        let text = schema.add_field_class(FieldClass::new(FieldKind::String(text), 8));
        let length = Length::Field(path(vec![PathStep::Member(0)]));
        let array = FieldKind::Array(ArrayClass { element: number, length });
        let array = schema.add_field_class(FieldClass::new(array, 8));
        let payload = structure(&mut schema, vec![("n", count), ("s", text), ("a", array), ("last", count)]);
        let bytes = b"\x02hi\0\x01\x00\xff\xff\x09\x00\0\x08\x01x\0\x05\x00\x07";
        let chunk = chunk(schema, payload, bytes);
        let rows = by_rows(&chunk);
        let (columns, is_fast) = gathered(chunk);
        assert!(is_fast);
        assert_eq!(columns, rows);
        assert_eq!(columns.columns[0].values, Values::U8(vec![2, 0, 1]));
        assert_eq!(columns.columns[1].values, Values::Bytes { offsets: vec![0, 2, 2, 3], data: b"hix".to_vec() });
        assert_eq!(columns.columns[2].values, Values::I16(vec![1, -1, 5]));
        assert_eq!(columns.columns[2].lists, [[0, 2, 2, 3]]);
        assert_eq!(columns.columns[3].values, Values::U8(vec![9, 8, 7]));
    }

    #[test]
    fn absent_fields_are_null_and_nested_arrays_have_a_list_each() {
        let mut schema = Schema::new("test");
        let byte = leaf(&mut schema, IntegerClass::unsigned(8));
        let flag = BitsClass { len_bits: 8, byte_order: ByteOrder::Little, reversed_bits: false, flags: Arc::new([]) };
        let flag = schema.add_field_class(FieldClass::new(FieldKind::Boolean(flag), 8));
        let inner = FieldKind::Array(ArrayClass {
            element: byte,
            length: Length::Field(path(vec![PathStep::Member(2), PathStep::Element, PathStep::Member(0)])),
        });
        let inner = schema.add_field_class(FieldClass::new(inner, 8));
        let row = structure(&mut schema, vec![("n", byte), ("cells", inner)]);
        let outer = FieldKind::Array(ArrayClass { element: row, length: Length::Static(2) });
        let outer = schema.add_field_class(FieldClass::new(outer, 8));
        let optional = FieldKind::Optional(OptionalClass {
            selector: path(vec![PathStep::Member(0)]),
            presence: Presence::Boolean,
            content: byte,
        });
        let optional = schema.add_field_class(FieldClass::new(optional, 1));
        let payload = structure(&mut schema, vec![("is", flag), ("maybe", optional), ("rows", outer)]);
        // true 7 [[1, 2], []]; false [[3], [4, 5]]
        let chunk = chunk(schema, payload, &[1, 7, 2, 1, 2, 0, 0, 1, 3, 2, 4, 5]);
        let rows = by_rows(&chunk);
        let (columns, is_fast) = gathered(chunk);
        assert!(!is_fast);
        assert_eq!(columns, rows);
        assert_eq!(columns.columns[0].values, Values::Boolean(vec![true, false]));
        assert_eq!(columns.columns[1].values, Values::U8(vec![7, 0]));
        assert_eq!(columns.columns[1].validity, Some(vec![true, false]));
        assert_eq!(columns.columns[2].values, Values::U8(vec![2, 0, 1, 2]));
        assert_eq!(columns.columns[2].lists, [[0, 2, 4]]);
        assert_eq!(columns.columns[3].values, Values::U8(vec![1, 2, 3, 4, 5]));
        assert_eq!(columns.columns[3].lists, [vec![0, 2, 4], vec![0, 2, 2, 3, 5]]);
    }

    #[test]
    fn placed_fields_are_read_where_they_say() {
        let mut schema = Schema::new("test");
        let mut leaf = |kind: FieldKind, place: Place| schema.add_field_class(FieldClass::new(kind, 8).at(place));
        let at = |offset_bytes: u32| Place::At { offset_bytes };
        let number = |bits: u32| FieldKind::Integer(IntegerClass { signed: true, ..IntegerClass::unsigned(bits) });
        let text = |length: Length| {
            let length = StringLength::Bytes(length);
            FieldKind::String(StringClass { encoding: Encoding::Utf8, length, is_text_array: false })
        };
        let late = leaf(number(16), at(6));
        let early = leaf(number(8), at(1));
        let next = leaf(number(8), at(2));
        let fixed = leaf(text(Length::Static(3)), at(9));
        let located = leaf(text(Length::Located), Place::Located { offset_bytes: 12 });
        let element = schema.add_field_class(FieldClass::new(number(16), 8));
        let array = FieldKind::Array(ArrayClass { element, length: Length::Located });
        let array = schema.add_field_class(FieldClass::new(array, 8).at(Place::Located { offset_bytes: 20 }));
        let fixed_only = [("late", late), ("early", early), ("next", next), ("fixed", fixed)];
        let all = [fixed_only.as_slice(), &[("located", located), ("array", array)]].concat();
        let mut bytes = vec![0xee, 0xfd, 5, 0, 0, 0, 0x34, 0x12, 0, b'a', 0, b'b'];
        for word in [28u32, 2, 30, 2] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"hi\x01\x00\xff\xff");
        for members in [fixed_only.to_vec(), all] {
            let mut schema = schema.clone();
            let count = members.len();
            let payload = structure(&mut schema, members);
            let stream = schema.add_stream(StreamClass::default()).expect("one stream");
            let class = EventClass { payload: Some(payload), ..EventClass::new(0, stream) };
            let class = schema.add_event(class).expect("one class");
            let roots = Scope::ALL.map(|scope| schema.scope_root(scope, class));
            let mut naive = crate::naive::Interpreter::new(&schema, roots, &bytes, bytes.len() as u64 * 8);
            let value = naive.scope(Scope::Payload).expect("all is there").expect("a payload");
            let mut packet = packet_data(schema, stream, &bytes);
            let mut spine = crate::chunk::Spine::default();
            spine.push(class, 0, 0, 0);
            packet.spine = Some(spine);
            let packet = Arc::new(packet);
            let mut chunk = Chunk::new(packet.clone(), 0, 1);
            packet.scan(&mut 0, &mut State::default(), &mut ChunkSink::new(&mut chunk, 10));
            let rows = by_rows(&chunk);
            let (columns, is_fast) = gathered(chunk);
            assert_eq!(is_fast, count == 4);
            assert_eq!(columns, rows);
            assert_eq!(columns.columns[0].values, Values::I16(vec![0x1234]));
            assert_eq!(columns.columns[1].values, Values::I8(vec![-3]));
            assert_eq!(columns.columns[2].values, Values::I8(vec![5]));
            assert_eq!(columns.columns[3].values, Values::Bytes { offsets: vec![0, 1], data: b"a".to_vec() });
            use crate::naive::Value::{Array, Signed, String, Struct};
            let mut expected = vec![Signed(0x1234), Signed(-3), Signed(5), String(b"a".to_vec())];
            if count == 6 {
                assert_eq!(columns.columns[4].values, Values::Bytes { offsets: vec![0, 2], data: b"hi".to_vec() });
                assert_eq!(columns.columns[5].values, Values::I16(vec![1, -1]));
                expected.extend([String(b"hi".to_vec()), Array(vec![Signed(1), Signed(-1)])]);
            }
            assert_eq!(value, Struct(expected));
        }
    }

    /// Values in the order in which a visitor is shown them.
    #[derive(Default, PartialEq, Debug)]
    struct Seen(Vec<String>);

    impl Visitor for Seen {
        fn unsigned(&mut self, node: NodeId, value: u64) {
            self.0.push(format!("{node} {value}"));
        }

        fn signed(&mut self, node: NodeId, value: i64) {
            self.0.push(format!("{node} {value}"));
        }

        fn string(&mut self, node: NodeId, bytes: &[u8]) {
            self.0.push(format!("{node} {bytes:?}"));
        }
    }

    impl EventVisitor for Seen {
        fn begin_event(&mut self, class: EventClassId, cycles: u64) {
            self.0.push(format!("event {} {cycles}", class.0));
        }
    }

    #[test]
    fn one_pass_shows_what_the_chunk_shows() {
        let mut schema = Schema::new("test");
        let count = leaf(&mut schema, IntegerClass::unsigned(8));
        let number = leaf(&mut schema, IntegerClass { signed: true, ..IntegerClass::unsigned(16) });
        let length = Length::Field(path(vec![PathStep::Member(0)]));
        let array = FieldKind::Array(ArrayClass { element: number, length });
        let array = schema.add_field_class(FieldClass::new(array, 8));
        let payload = structure(&mut schema, vec![("n", count), ("a", array)]);
        let bytes = [2, 1, 0, 0xff, 0xff, 0, 1, 7, 0];
        let chunk = chunk(schema, payload, &bytes);
        assert_eq!(chunk.len(), 3);
        let mut by_chunk = Seen::default();
        let mut state = State::default();
        for at in 0..chunk.len() {
            by_chunk.begin_event(chunk.class(at), chunk.cycles[at]);
            chunk.event(at).visit_flat(&mut state, &mut by_chunk).expect("the boundary pass has read all");
        }
        let (mut one_pass, mut pos) = (Seen::default(), 0);
        let scanner = chunk.packet.plans.scanner(chunk.packet.packet.class);
        let end = scanner.visit(Input::new(&bytes, 72), &mut pos, &mut State::default(), &mut one_pass);
        assert_eq!((end, pos), (ScanEnd::Complete, 72));
        assert_eq!(one_pass, by_chunk);
        assert_eq!(one_pass.0.len(), 9);
        // Cut inside the last element: the fault is told where the boundary pass tells it.
        let (mut visited, mut scanned) = (0, 0);
        let cut = Input::new(&bytes, 64);
        let end = scanner.visit(cut, &mut visited, &mut State::default(), &mut Seen::default());
        let mut again = Chunk::new(chunk.packet.clone(), 0, 4);
        let mut sink = ChunkSink::new(&mut again, 100);
        assert_eq!(end, scanner.scan(cut, &mut scanned, &mut State::default(), &mut sink));
        assert!(matches!(end, ScanEnd::Fault(_)));
        assert_eq!((visited, scanned), (48, 48));
    }
}
