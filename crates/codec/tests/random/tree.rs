//! A visitor that builds the values of the naive interpreter, and how things are shown and compared.

use std::fmt::Write;

use tracemill_codec::bits::Wide;
use tracemill_codec::plan::{Fault, NodeId, Plan, Visitor};
use tracemill_model::schema::{FieldClassId, Schema};
use tracemill_referee::{DecodedValue, NaiveFault};

/// Builds the value of one scope.
#[derive(Default)]
pub(crate) struct Tree {
    open: Vec<(NodeId, Vec<DecodedValue>)>,
    /// Promised lengths of open arrays, chosen options of open variants.
    lengths: Vec<u64>,
    options: Vec<usize>,
    done: Option<DecodedValue>,
}

impl Tree {
    /// The value, when there is a whole one.
    pub(crate) fn finish(&mut self) -> Option<DecodedValue> {
        self.done.take()
    }

    fn push(&mut self, value: DecodedValue) {
        match self.open.last_mut() {
            Some((_, values)) => values.push(value),
            None => assert!(self.done.replace(value).is_none(), "a scope has one root"),
        }
    }

    fn begin(&mut self, node: NodeId) {
        self.open.push((node, Vec::new()));
    }

    fn end(&mut self, node: NodeId) -> Vec<DecodedValue> {
        let (begun, values) = self.open.pop().expect("an end has a beginning");
        assert_eq!(begun, node, "ends are in the order of beginnings");
        values
    }

    fn end_one(&mut self, node: NodeId) -> Box<DecodedValue> {
        let mut values = self.end(node);
        assert_eq!(values.len(), 1);
        Box::new(values.remove(0))
    }
}

impl Visitor for Tree {
    fn unsigned(&mut self, _: NodeId, value: u64) {
        self.push(DecodedValue::Unsigned(value));
    }
    fn signed(&mut self, _: NodeId, value: i64) {
        self.push(DecodedValue::Signed(value));
    }
    fn wide(&mut self, _: NodeId, value: &Wide) {
        self.push(DecodedValue::Wide(value.clone()));
    }
    fn boolean(&mut self, _: NodeId, value: bool) {
        self.push(DecodedValue::Bool(value));
    }
    fn real(&mut self, _: NodeId, value: f64) {
        self.push(DecodedValue::Real(value));
    }
    fn string(&mut self, _: NodeId, bytes: &[u8]) {
        self.push(DecodedValue::String(bytes.into()));
    }
    fn blob(&mut self, _: NodeId, bytes: &[u8]) {
        self.push(DecodedValue::Blob(bytes.into()));
    }
    fn begin_struct(&mut self, node: NodeId) {
        self.begin(node);
    }
    fn end_struct(&mut self, node: NodeId) {
        let values = self.end(node);
        self.push(DecodedValue::Struct(values));
    }
    fn begin_array(&mut self, node: NodeId, len: u64) {
        self.begin(node);
        self.lengths.push(len);
    }
    fn element(&mut self, node: NodeId, index: u64) {
        let (array, values) = self.open.last().expect("an element is in an array");
        assert_eq!((*array, values.len() as u64), (node, index));
    }
    fn end_array(&mut self, node: NodeId) {
        let values = self.end(node);
        assert_eq!(self.lengths.pop(), Some(values.len() as u64));
        self.push(DecodedValue::Array(values));
    }
    fn begin_variant(&mut self, node: NodeId, option: usize) {
        self.begin(node);
        self.options.push(option);
    }
    fn end_variant(&mut self, node: NodeId) {
        let value = self.end_one(node);
        let option = self.options.pop().expect("a variant has an option");
        self.push(DecodedValue::Variant(option, value));
    }
    fn begin_optional(&mut self, node: NodeId) {
        self.begin(node);
    }
    fn end_optional(&mut self, node: NodeId) {
        let value = self.end_one(node);
        self.push(DecodedValue::Optional(Some(value)));
    }
    fn absent(&mut self, _: NodeId) {
        self.push(DecodedValue::Optional(None));
    }
}

/// Are the faults the same, and is the field that `plan` names the one that is at fault?
pub(crate) fn compare_fault(want: &NaiveFault, found: &Fault, plan: &Plan) -> Result<(), String> {
    let node = &plan.nodes[found.node as usize];
    let path = plan.path(found.node);
    let is_same = (want.kind, want.at_bits, want.class, &want.path) == (found.kind, found.at_bits, node.class, &path);
    if is_same { Ok(()) } else { Err(format!("want {want:?}\nfound {found:?} {:?} {path}", node.class)) }
}

/// The classes of a schema, one a line.
pub(crate) fn list(schema: &Schema) -> String {
    let mut text = String::new();
    for at in 0..schema.field_class_count() {
        let _ = writeln!(text, "{at:3} {:?}", schema.field_class(FieldClassId(at as u32)));
    }
    let _ = write!(text, "packet header {:?}, {:?}\n{:?}", schema.packet_header, schema.streams(), schema.events());
    text
}
