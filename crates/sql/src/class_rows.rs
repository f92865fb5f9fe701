//! The fields of the events of one class, gathered.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, UInt32Array, new_null_array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;
use tracemill_codec::chunk::{Chunk, PacketData};
use tracemill_codec::plan::{DecoderState, Fault, NodeId};
use tracemill_columns::{ChosenColumns, ColumnRequest, Dropped};
use tracemill_model::schema::{EventClassId, Scope, StreamClassId};

use crate::database::Database;
use crate::kinds::convert;
use crate::table::{FieldColumn, ValueStep, plan_of};

/// The first one of two results in a packet.
pub(crate) fn first_fault(one: Result<(), Fault>, other: Result<(), Fault>) -> Result<(), Fault> {
    match (one, other) {
        (Err(one), Err(other)) => Err(if other.at_bits < one.at_bits { other } else { one }),
        (one, other) => one.and(other),
    }
}

/// The rows of a class.
pub(crate) struct ClassRows {
    stream: StreamClassId,
    event: Option<ChosenColumns>,
    header: Option<ChosenColumns>,
    /// The context of each packet once, and for each row which one it is.
    packet: Option<(ChosenColumns, Option<Arc<PacketData>>, Vec<u32>)>,
    pub(crate) rows: usize,
    /// Values that were dropped, as far as they are counted.
    reported: Dropped,
    /// For each column of fields: where its values are, and the way into them.
    columns: Vec<Option<FieldSource>>,
}

/// How a column is made of what a class gathered.
struct FieldSource {
    group: ScopeGroup,
    at: usize,
    steps: Vec<ValueStep>,
    data_type: DataType,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScopeGroup {
    Event,
    Header,
    Packet,
}

impl ClassRows {
    /// No rows yet, of a class with these columns of fields.
    pub(crate) fn new<'a>(
        database: &Database,
        class: (usize, EventClassId),
        fields: impl Iterator<Item = &'a FieldColumn>,
    ) -> ClassRows {
        let schema = &database.session.traces[class.0].schema;
        let (mut event, mut header, mut packet) = (Vec::new(), Vec::new(), Vec::new());
        let columns = fields.map(|field| {
            let place = field.places.get(&class)?;
            let (group, wishes): (ScopeGroup, &mut Vec<(NodeId, ColumnRequest)>) = match place.scope {
                Scope::EventHeader => (ScopeGroup::Header, &mut header),
                Scope::PacketContext | Scope::PacketHeader => (ScopeGroup::Packet, &mut packet),
                _ => (ScopeGroup::Event, &mut event),
            };
            let wish = (place.node, place.wish);
            let at = wishes.iter().position(|known| *known == wish).unwrap_or_else(|| {
                wishes.push(wish);
                wishes.len() - 1
            });
            Some(FieldSource { group, at, steps: place.steps.clone(), data_type: field.data_type.clone() })
        });
        let columns = columns.collect();
        let plan = |scope| plan_of(&database.session, class.0, class.1, scope).0;
        let visited = |scope, wishes: &[(NodeId, ColumnRequest)]| {
            (!wishes.is_empty()).then(|| ChosenColumns::from_visit(schema, plan(scope), wishes))
        };
        ClassRows {
            stream: schema.event(class.1).stream,
            event: (!event.is_empty()).then(|| ChosenColumns::new(schema, plan(Scope::Payload), &event)),
            header: visited(Scope::EventHeader, &header),
            packet: visited(Scope::PacketContext, &packet).map(|columns| (columns, None, Vec::new())),
            rows: 0,
            reported: Dropped::default(),
            columns,
        }
    }

    /// Bytes that its rows take.
    pub(crate) fn bytes(&self) -> usize {
        self.event.as_ref().map_or(0, ChosenColumns::bytes) + self.header.as_ref().map_or(0, ChosenColumns::bytes)
    }

    /// Appends the rows of events of the class.
    ///
    /// # Errors
    /// The first error of an event.
    pub(crate) fn push(&mut self, chunk: &Chunk, events: &[u32], state: &mut DecoderState) -> Result<(), Fault> {
        self.rows += events.len();
        let mut result = Ok(());
        if let Some(columns) = &mut self.event {
            result = columns.push_events(chunk, events, state);
        }
        if let Some(columns) = &mut self.header {
            for &at in events {
                let pushed = columns.push(|filler| chunk.event(at as usize).visit_header(state, filler));
                result = first_fault(result, pushed);
            }
        }
        if let Some((columns, known, places)) = &mut self.packet {
            if !known.as_ref().is_some_and(|known| PacketData::is_same(known, &chunk.packet)) {
                // Its class is that of the stream, unless a file has packets of several.
                if chunk.packet.packet.class == self.stream {
                    let pushed = columns.push(|filler| chunk.packet.visit_context(filler));
                    result = first_fault(result, pushed);
                } else {
                    columns.push_null_row();
                }
                *known = Some(chunk.packet.clone());
            }
            places.extend(std::iter::repeat_n(columns.rows() as u32 - 1, events.len()));
        }
        result
    }

    /// An array for each column of fields that the class has.
    ///
    /// # Errors
    /// When Arrow refuses an array, which is an error of this crate.
    pub(crate) fn take(&mut self, database: &Database) -> Result<Vec<Option<ArrayRef>>, ArrowError> {
        self.rows = 0;
        let take_all =
            |columns: &mut Option<ChosenColumns>| columns.as_mut().map_or(Ok(Vec::new()), ChosenColumns::take);
        let (event, header) = (take_all(&mut self.event)?, take_all(&mut self.header)?);
        let packet = match &mut self.packet {
            None => Vec::new(),
            Some((columns, known, places)) => {
                *known = None;
                let indices = UInt32Array::from(std::mem::take(places));
                let arrays = columns.take()?;
                arrays.iter().map(|array| take(array, &indices, None)).collect::<Result<Vec<_>, _>>()?
            }
        };
        let dropped = self.dropped();
        database.lost.add(&mut self.reported, dropped);
        let column = |of: &Option<FieldSource>| {
            let Some(FieldSource { group, at, steps, data_type }) = of else { return Ok(None) };
            let group = match group {
                ScopeGroup::Event => &event,
                ScopeGroup::Header => &header,
                ScopeGroup::Packet => &packet,
            };
            let mut array = group[*at].clone();
            for step in steps {
                array = go_in(&array, step)?;
            }
            if !steps.is_empty() {
                array = plain_value(array, data_type);
            }
            convert(&array, data_type).map(Some)
        };
        self.columns.iter().map(column).collect()
    }

    /// Values that were dropped so far.
    fn dropped(&self) -> Dropped {
        let mut all = Dropped::default();
        let columns = self.event.iter().chain(&self.header).chain(self.packet.iter().map(|(columns, ..)| columns));
        columns.for_each(|columns| all += columns.dropped());
        all
    }
}

/// The integer of a nested enumeration or bit map, where the integer is wanted.
fn plain_value(array: ArrayRef, wanted: &DataType) -> ArrayRef {
    match (array.data_type(), wanted) {
        (DataType::Struct(_), DataType::Struct(_)) => array,
        (DataType::Struct(_), _) => {
            let value = array.as_struct().column_by_name("value").cloned();
            value.map_or(array.clone(), |value| with_nulls_of(&value, &array))
        }
        _ => array,
    }
}

/// A part of a value that is absent is absent.
fn with_nulls_of(array: &ArrayRef, around: &ArrayRef) -> ArrayRef {
    let nulls = arrow_buffer::NullBuffer::union(array.nulls(), around.nulls());
    let data = array.to_data().into_builder().nulls(nulls).build();
    data.map_or_else(|_| array.clone(), arrow_array::make_array)
}

/// A member of structures, or an element of lists.
fn go_in(array: &ArrayRef, step: &ValueStep) -> Result<ArrayRef, ArrowError> {
    match (step, array.data_type()) {
        (ValueStep::Member(at), DataType::Struct(_)) => {
            let of = array.as_struct();
            match of.columns().get(*at) {
                Some(member) => Ok(with_nulls_of(member, array)),
                None => Ok(new_null_array(&DataType::Null, array.len())),
            }
        }
        (ValueStep::Element(index), DataType::List(_)) => {
            let of: &ListArray = array.as_list();
            let offsets = of.value_offsets();
            let at = |row: usize| {
                let (from, to) = (offsets[row] as u64, offsets[row + 1] as u64);
                (!of.is_null(row) && *index < to - from).then_some((from + index) as u32)
            };
            take(of.values(), &UInt32Array::from_iter((0..of.len()).map(at)), None)
        }
        _ => Err(ArrowError::InvalidArgumentError("a path leads into a value without parts".into())),
    }
}

#[cfg(test)]
mod tests {
    use tracemill_codec::plan::FaultKind;

    use super::*;

    #[test]
    fn the_first_fault_is_the_one_that_is_told() {
        let fault = |at_bits| Err(Fault { kind: FaultKind::Unterminated, at_bits, node: 0 });
        for (one, other, first) in
            [(Ok(()), Ok(()), Ok(())), (Ok(()), fault(8), fault(8)), (fault(8), Ok(()), fault(8))]
        {
            assert_eq!(first_fault(one, other), first);
        }
        assert_eq!(first_fault(fault(16), fault(8)), fault(8));
        assert_eq!(first_fault(fault(8), fault(16)), fault(8));
    }
}
