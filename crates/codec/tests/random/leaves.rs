//! The leaf fields of events as texts: what visits and columns must have in common.

use std::collections::BTreeMap;

use tracemill_codec::bits::Wide;
use tracemill_codec::columns::{Columns, Values};
use tracemill_codec::plan::{NodeId, Visitor};
use tracemill_codec::trace_plans::EventVisitor;
use tracemill_model::schema::EventClassId;

/// The values of each node of a class, with the cycles of its events, and whether integers too wide for the column are
/// left out there.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct OfClass {
    pub(crate) cycles: Vec<u64>,
    pub(crate) nodes: BTreeMap<NodeId, OfNode>,
}

#[derive(Default, PartialEq, Debug)]
pub(crate) struct OfNode {
    pub(crate) values: Vec<String>,
    /// Does the column hold texts, so that no integer is too wide for it?
    has_bytes: bool,
}

/// Class, cycles and leaves of an event.
type OfEvent = (EventClassId, u64, Vec<(NodeId, Leaf)>);

/// Records the leaves of events.
#[derive(Default)]
pub(crate) struct Leaves {
    pub(crate) events: Vec<OfEvent>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Leaf {
    text: String,
    is_wide: bool,
}

impl Leaves {
    pub(crate) fn begin(&mut self, class: EventClassId, cycles: u64) {
        self.events.push((class, cycles, Vec::new()));
    }

    fn leaf(&mut self, node: NodeId, text: String) {
        if let Some((_, _, leaves)) = self.events.last_mut() {
            leaves.push((node, Leaf { text, is_wide: false }));
        }
    }

    /// The same values class by class; nodes as in `like`, which says what its columns can hold.
    pub(crate) fn by_node(&self, like: &BTreeMap<EventClassId, OfClass>) -> BTreeMap<EventClassId, OfClass> {
        let mut classes: BTreeMap<EventClassId, OfClass> = BTreeMap::new();
        for (class, cycles, leaves) in &self.events {
            let of = classes.entry(*class).or_insert_with(|| {
                let nodes = like.get(class).map(|like| &like.nodes).into_iter().flatten();
                let empty = |has_bytes| OfNode { values: Vec::new(), has_bytes };
                OfClass {
                    cycles: Vec::new(),
                    nodes: nodes.map(|(&node, like)| (node, empty(like.has_bytes))).collect(),
                }
            });
            of.cycles.push(*cycles);
            for (node, leaf) in leaves {
                let of = of.nodes.entry(*node).or_default();
                if !leaf.is_wide || of.has_bytes {
                    of.values.push(leaf.text.clone());
                }
            }
        }
        classes
    }
}

/// Appends the values that are there.
pub(crate) fn leaves_of_columns(class: &mut OfClass, columns: &Columns) {
    class.cycles.extend(&columns.cycles);
    for column in &columns.columns {
        let of = class.nodes.entry(column.node).or_default();
        of.has_bytes = matches!(column.values, Values::Bytes { .. });
        for at in 0..column.values.len() {
            let is_there = column.validity.as_ref().is_none_or(|validity| validity.get(at).copied().unwrap_or(true));
            if is_there {
                of.values.push(text(&column.values, at));
            }
        }
    }
}

fn text(values: &Values, at: usize) -> String {
    match values {
        Values::U8(values) => values[at].to_string(),
        Values::U16(values) => values[at].to_string(),
        Values::U32(values) => values[at].to_string(),
        Values::U64(values) => values[at].to_string(),
        Values::I8(values) => values[at].to_string(),
        Values::I16(values) => values[at].to_string(),
        Values::I32(values) => values[at].to_string(),
        Values::I64(values) => values[at].to_string(),
        Values::F32(values) => real(values[at].into()),
        Values::F64(values) => real(values[at]),
        Values::Boolean(values) => values[at].to_string(),
        Values::Bytes { offsets, data } => bytes(&data[offsets[at] as usize..offsets[at + 1] as usize]),
    }
}

fn real(value: f64) -> String {
    if value.is_nan() { "NaN".into() } else { format!("{:x}", value.to_bits()) }
}

fn bytes(bytes: &[u8]) -> String {
    format!("{bytes:?}")
}

impl EventVisitor for Leaves {
    fn begin_event(&mut self, class: EventClassId, cycles: u64) {
        self.begin(class, cycles);
    }
}

impl Visitor for Leaves {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.leaf(node, value.to_string());
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        self.leaf(node, value.to_string());
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        if let Some((_, _, leaves)) = self.events.last_mut() {
            leaves.push((node, Leaf { text: bytes(value.to_decimal().as_bytes()), is_wide: true }));
        }
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        self.leaf(node, value.to_string());
    }

    fn real(&mut self, node: NodeId, value: f64) {
        self.leaf(node, real(value));
    }

    fn string(&mut self, node: NodeId, value: &[u8]) {
        self.leaf(node, bytes(value));
    }

    fn blob(&mut self, node: NodeId, value: &[u8]) {
        self.leaf(node, bytes(value));
    }
}
