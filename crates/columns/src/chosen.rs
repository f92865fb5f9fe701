//! Some fields of a class as columns of common types, and nothing else of it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, UInt64Array};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType, Field};
use tracemill_codec::chunk::{Chunk, EventRef};
use tracemill_codec::plan::{DecoderState, Fault, FixedInteger, NodeId, Plan};
use tracemill_model::schema::{FieldClassId, FieldKind, Mapping, Schema};

use crate::leaves::{LabelColumn, NumberColumn};
use crate::{Columns, Dropped, Filler};

/// The column that is made of a field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ColumnRequest {
    /// Its value; of an enumeration or a bit map the integer.
    Value,
    /// The first label of an enumeration that matches, null when none does.
    Label,
    /// All labels of an enumeration, in the order of their declaration.
    Labels,
    /// The flags of a bit map that are set.
    Flags,
}

/// Columns for some fields of one plan, a row for each event.
///
/// Types do not depend on the widths of fields: integers are 64-bit numbers, signed unless they need all bits, or decimals
/// of 38 digits from 65 to 126 bits, or decimal texts; floats have 64 bits. Integers at a fixed place are read without a
/// visit of the fields around them.
pub struct ChosenColumns {
    /// For each wish: its source, and how it is made of that.
    wishes: Vec<(ChosenSource, ChosenForm)>,
    fixed: Vec<Fixed>,
    /// The columns that need a visit; `None` when there are none.
    visited: Option<Columns>,
    rows: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChosenSource {
    Fixed(usize),
    Visited(usize),
}

enum ChosenForm {
    Value,
    Label(Box<LabelColumn>),
    List(Box<LabelColumn>),
}

struct Fixed {
    node: NodeId,
    integer: FixedInteger,
    is_unsigned: bool,
    values: Vec<u64>,
    nulls: NullBufferBuilder,
}

/// The names of an integer's values and whether they are flags, when it is an enumeration or a bit map of at most 64
/// bits; an optional field is what it holds.
pub fn integer_of(schema: &Schema, class: FieldClassId) -> Option<(&[Mapping], bool)> {
    match &schema.field_class(class).kind {
        FieldKind::Integer(integer) if integer.len_bits <= 64 => Some((integer.mappings.as_deref()?, false)),
        FieldKind::BitMap(bits) if bits.len_bits <= 64 => Some((&bits.flags, true)),
        FieldKind::Optional(optional) => integer_of(schema, optional.content),
        _ => None,
    }
}

impl ChosenColumns {
    /// Empty columns. The fields may be inside of structures that are always there, and of nothing else; what has no labels
    /// or flags is null where they are wished.
    pub fn new(schema: &Schema, plan: &Plan, wishes: &[(NodeId, ColumnRequest)]) -> Self {
        let (mut fixed, mut visited): (Vec<Fixed>, Vec<NodeId>) = (Vec::new(), Vec::new());
        let mut source = |node: NodeId| {
            if let Some(at) = fixed.iter().position(|of| of.node == node) {
                return ChosenSource::Fixed(at);
            }
            if let Some(at) = visited.iter().position(|&of| of == node) {
                return ChosenSource::Visited(at);
            }
            match plan.fixed_integer(node) {
                Some(integer) => {
                    let is_unsigned = len_bits(schema, plan.nodes[node as usize].class) == 64 && !integer.is_signed();
                    let nulls = NullBufferBuilder::new(0);
                    fixed.push(Fixed { node, integer, is_unsigned, values: Vec::new(), nulls });
                    ChosenSource::Fixed(fixed.len() - 1)
                }
                None => {
                    visited.push(node);
                    ChosenSource::Visited(visited.len() - 1)
                }
            }
        };
        let wishes = wishes.iter().map(|&(node, wish)| {
            let names = integer_of(schema, plan.nodes[node as usize].class);
            let labels = || {
                let (mappings, are_flags) = names.unwrap_or((&[], wish == ColumnRequest::Flags));
                Box::new(LabelColumn::new(mappings, are_flags, true))
            };
            let made = match wish {
                ColumnRequest::Value => ChosenForm::Value,
                ColumnRequest::Label => ChosenForm::Label(labels()),
                ColumnRequest::Labels | ColumnRequest::Flags => ChosenForm::List(labels()),
            };
            (source(node), made)
        });
        let wishes = wishes.collect();
        let visited = (!visited.is_empty()).then(|| Columns::from_nodes(schema, plan, &visited));
        ChosenColumns { wishes, fixed, visited, rows: 0 }
    }

    /// Do ranges of different labels of an enumeration overlap?
    pub fn has_overlaps(mappings: &[Mapping]) -> bool {
        LabelColumn::new(mappings, false, true).overlap()
    }

    /// Rows that were not taken out yet.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// About how many bytes the rows take.
    pub fn bytes(&self) -> usize {
        self.rows * self.fixed.len() * 8 + self.visited.as_ref().map_or(0, Columns::bytes)
    }

    /// Values that did not fit, in all rows so far.
    pub fn dropped(&self) -> Dropped {
        self.visited.as_ref().map(Columns::dropped).unwrap_or_default()
    }

    /// Are all fields read without a visit?
    pub fn is_fixed(&self) -> bool {
        self.visited.is_none()
    }

    /// Appends some events of a chunk, all of the class whose plan these columns were made of, in their order.
    ///
    /// # Errors
    /// The first error of an event that cannot be decoded to its end. All have a row: fields that were not reached are null.
    pub fn push_events(&mut self, chunk: &Chunk, events: &[u32], state: &mut DecoderState) -> Result<(), Fault> {
        self.rows += events.len();
        let input = chunk.packet.input();
        let has_cuts = chunk.packet.spine.as_ref().is_some_and(|spine| !spine.cuts.is_empty());
        for fixed in &mut self.fixed {
            let Fixed { integer, values, nulls, .. } = fixed;
            values.extend(events.iter().map(|&at| {
                let body = chunk.body_bits(at as usize);
                let end = if has_cuts { chunk.event(at as usize).cut_bits() } else { None };
                let input = match end {
                    Some(end) => tracemill_codec::plan::PlanInput { end_bits: end.min(input.end_bits), ..input },
                    None => input,
                };
                let value = integer.read(input, body);
                nulls.append(value.is_some());
                value.unwrap_or(0)
            }));
        }
        let Some(visited) = &mut self.visited else { return Ok(()) };
        let mut result = Ok(());
        for &at in events {
            let pushed = visited.push_event(EventRef { chunk, at: at as usize }, state);
            result = result.and(pushed);
        }
        result
    }

    /// Appends a row that a visit fills: for headers and packet contexts. All columns must be visited ones, which those of
    /// [`ChosenColumns::from_visit`] are.
    ///
    /// # Errors
    /// The error of the visit.
    pub fn push(&mut self, visit: impl FnOnce(&mut Filler<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        self.rows += 1;
        match &mut self.visited {
            Some(visited) => visited.push(visit),
            None => Ok(()),
        }
    }

    /// Appends a row of nulls, of columns as [`ChosenColumns::push`] wants them.
    pub fn push_null_row(&mut self) {
        self.rows += 1;
        if let Some(visited) = &mut self.visited {
            visited.push_null_row();
        }
    }

    /// Columns for [`ChosenColumns::push`].
    pub fn from_visit(schema: &Schema, plan: &Plan, wishes: &[(NodeId, ColumnRequest)]) -> Self {
        let mut columns = ChosenColumns::new(schema, plan, wishes);
        if columns.fixed.is_empty() {
            return columns;
        }
        let mut nodes: Vec<NodeId> = Vec::new();
        for (of, (node, _)) in columns.wishes.iter_mut().zip(wishes) {
            let at = nodes.iter().position(|known| known == node).unwrap_or_else(|| {
                nodes.push(*node);
                nodes.len() - 1
            });
            of.0 = ChosenSource::Visited(at);
        }
        columns.fixed.clear();
        columns.visited = Some(Columns::from_nodes(schema, plan, &nodes));
        columns
    }

    /// The Arrow field of each wish, without a name.
    pub fn fields(&self) -> Vec<Field> {
        let visited = self.visited.as_ref().map_or_else(Vec::new, |columns| {
            columns.roots.iter().flatten().map(|&root| columns.field_of(root, "")).collect()
        });
        let field = |(source, made): &(ChosenSource, ChosenForm)| match (made, source) {
            (ChosenForm::Value, ChosenSource::Visited(at)) => visited[*at].clone(),
            (ChosenForm::Value, ChosenSource::Fixed(at)) => Field::new("", self.fixed[*at].data_type(), true),
            (ChosenForm::Label(labels), _) => Field::new("", labels.dictionary(), true),
            (ChosenForm::List(labels), _) => Field::new("", DataType::List(labels.item()), true),
        };
        self.wishes.iter().map(field).collect()
    }

    /// Takes all rows out: an array for each wish. The columns are empty afterwards.
    ///
    /// # Errors
    /// When Arrow refuses an array, which is an error of this crate.
    pub fn take(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.rows = 0;
        let fixed = self.fixed.iter_mut().map(Fixed::take).collect::<Result<Vec<_>, _>>()?;
        let visited = self.visited.as_mut().map_or_else(|| Ok(Vec::new()), Columns::take)?;
        let column = |(source, made): &(ChosenSource, ChosenForm)| {
            let values = match source {
                ChosenSource::Fixed(at) => &fixed[*at],
                ChosenSource::Visited(at) => &visited[*at],
            };
            match made {
                ChosenForm::Value => Ok(values.clone()),
                ChosenForm::Label(labels) => labels.first(&numbers(values), values.nulls()),
                ChosenForm::List(labels) => labels.all(&numbers(values), values.nulls().cloned()),
            }
        };
        self.wishes.iter().map(column).collect()
    }
}

impl Fixed {
    fn data_type(&self) -> DataType {
        if self.is_unsigned { DataType::UInt64 } else { DataType::Int64 }
    }

    fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let (values, nulls) = (std::mem::take(&mut self.values), self.nulls.finish());
        Ok(match self.is_unsigned {
            true => Arc::new(UInt64Array::try_new(values.into(), nulls)?),
            false => {
                let values: Vec<i64> = values.into_iter().map(|value| value as i64).collect();
                Arc::new(Int64Array::try_new(values.into(), nulls)?)
            }
        })
    }
}

/// The values of an array of integers.
fn numbers(array: &ArrayRef) -> NumberColumn {
    match array.data_type() {
        DataType::Int64 => NumberColumn::I64(array.as_primitive::<Int64Type>().values().to_vec()),
        DataType::UInt64 => NumberColumn::U64(array.as_primitive::<UInt64Type>().values().to_vec()),
        _ => NumberColumn::I64(vec![0; array.len()]),
    }
}

fn len_bits(schema: &Schema, class: FieldClassId) -> u32 {
    match &schema.field_class(class).kind {
        FieldKind::Integer(class) => class.len_bits,
        FieldKind::BitArray(class) | FieldKind::BitMap(class) => class.len_bits,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use tracemill_codec::chunk::{Bytes, ChunkSink, PacketData};
    use tracemill_codec::spine::Spine;
    use tracemill_codec::trace_plans::TracePlans;
    use tracemill_model::packet::Packet;
    use tracemill_model::schema::{
        BitsClass, Encoding, EventClass, FieldClass, IntegerClass, Member, StreamClass, StringClass, StringLength,
        StructClass,
    };

    use super::*;

    fn mapping(label: &str, low: i128, high: i128) -> Mapping {
        Mapping { label: label.into(), ranges: vec![(low, high)] }
    }

    /// A class of an enumeration, a text, an enumeration after it, a bit map and an integer of 64 bits; two of its events.
    fn chunk() -> Chunk {
        let mut schema = Schema::new("test");
        let mut add = |kind| schema.add_field_class(FieldClass::new(kind, 8));
        let labels = |all: Vec<Mapping>| IntegerClass { mappings: Some(all.into()), ..IntegerClass::unsigned(8) };
        let gear = add(FieldKind::Integer(labels(vec![mapping("low", 1, 3), mapping("any", 0, 9)])));
        let length = StringLength::NullTerminated;
        let text = add(FieldKind::String(StringClass { encoding: Encoding::Utf8, length }));
        let state = add(FieldKind::Integer(labels(vec![mapping("on", 1, 1)])));
        let flags = vec![mapping("read", 0, 0), mapping("write", 1, 1)].into();
        let byte_order = tracemill_model::schema::ByteOrder::Little;
        let bits = BitsClass { len_bits: 8, byte_order, reversed_bits: false, flags };
        let bits = add(FieldKind::BitMap(bits));
        let big = add(FieldKind::Integer(IntegerClass::unsigned(64)));
        let named = [("gear", gear), ("text", text), ("state", state), ("bits", bits), ("big", big)];
        let member = |(name, class): (&str, _)| Member::new(name, class);
        let members = named.into_iter().map(member).collect();
        let payload = add(FieldKind::Struct(StructClass { members }));
        let stream = schema.add_stream(StreamClass::default()).expect("the first stream");
        let class = EventClass { payload: Some(payload), ..EventClass::new(0, stream) };
        let class = schema.add_event(class).expect("the first class");
        let plans = Arc::new(TracePlans::new(Arc::new(schema)));
        let bytes = [&[2u8, b'h', b'i', 0, 1, 3][..], &[0xff; 8], &[7, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0]].concat();
        let (mut spine, size) = (Spine::default(), bytes.len() as u64 * 8);
        spine.push(class, 1, 0, 0);
        spine.push(class, 2, 14 * 8, 14 * 8);
        let file: Arc<dyn Bytes> = Arc::new(bytes);
        let packet = PacketData::found(&plans, &file, Packet::new(stream, 0, size), (file.clone(), 0), spine);
        let packet = Arc::new(packet);
        let mut chunk = Chunk::new(packet.clone(), packet.first_event(), 2);
        packet.scan(&mut packet.first_event(), &mut DecoderState::default(), &mut ChunkSink::new(&mut chunk, 2));
        chunk
    }

    fn texts(array: &ArrayRef) -> Vec<Option<String>> {
        let array = array.as_dictionary::<Int32Type>();
        let names = array.values().as_string::<i32>();
        let name = |at| (!array.is_null(at)).then(|| names.value(array.keys().value(at) as usize).to_string());
        (0..array.len()).map(name).collect()
    }

    fn list(array: &ArrayRef, at: usize) -> Vec<String> {
        let values = array.as_list::<i32>().value(at);
        values.as_string::<i32>().iter().flatten().map(str::to_string).collect()
    }

    #[test]
    fn fields_become_columns_of_common_types() {
        let chunk = chunk();
        let plans = chunk.packet.plans.clone();
        let plan = plans.event_rows(chunk.class(0));
        let node = |name: &str| plan.nodes.iter().position(|node| &*node.name == name).expect("it is there") as NodeId;
        let wishes = [
            (node("gear"), ColumnRequest::Value),
            (node("gear"), ColumnRequest::Label),
            (node("gear"), ColumnRequest::Labels),
            (node("state"), ColumnRequest::Label),
            (node("bits"), ColumnRequest::Flags),
            (node("big"), ColumnRequest::Value),
        ];
        let mut columns = ChosenColumns::new(plans.schema(), plan, &wishes);
        assert!(!columns.is_fixed(), "a text stands before some");
        columns.push_events(&chunk, &[0, 1], &mut DecoderState::default()).expect("both are whole");
        columns.push_events(&chunk, &[1], &mut DecoderState::default()).expect("it is whole");
        assert_eq!(columns.rows(), 3);
        let types: Vec<DataType> = columns.fields().iter().map(|field| field.data_type().clone()).collect();
        let arrays = columns.take().expect("arrays of one length");
        assert_eq!(arrays.iter().map(|array| array.data_type().clone()).collect::<Vec<_>>(), types);
        assert_eq!(arrays[0].as_primitive::<Int64Type>().values(), &[2, 7, 7]);
        let any = Some("any".to_string());
        assert_eq!(texts(&arrays[1]), [Some("low".to_string()), any.clone(), any]);
        assert_eq!((list(&arrays[2], 0), list(&arrays[2], 1)), (vec!["low".into(), "any".into()], vec!["any".into()]));
        assert_eq!(texts(&arrays[3]), [Some("on".to_string()), None, None]);
        assert_eq!(list(&arrays[4], 0), ["read", "write"]);
        assert!(list(&arrays[4], 1).is_empty());
        assert_eq!(arrays[5].as_primitive::<UInt64Type>().values(), &[u64::MAX, 1, 1]);
        assert_eq!(columns.rows(), 0);

        let first = [(node("gear"), ColumnRequest::Value)];
        let mut fixed = ChosenColumns::new(plans.schema(), plan, &first);
        assert!(fixed.is_fixed());
        fixed.push_events(&chunk, &[1, 0], &mut DecoderState::default()).expect("no visit can fail");
        assert_eq!(fixed.take().expect("one array")[0].as_primitive::<Int64Type>().values(), &[7, 2]);
        let mut visited = ChosenColumns::from_visit(plans.schema(), plan, &first);
        visited.push(|filler| chunk.event(1).visit_flat(&mut DecoderState::default(), filler)).expect("it is whole");
        assert_eq!(visited.take().expect("one array")[0].as_primitive::<Int64Type>().values(), &[7]);
    }
}
