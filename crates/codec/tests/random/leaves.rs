//! The leaf fields of an event as texts: what visits with and without marks have in common.

use tracemill_codec::bits::Wide;
use tracemill_codec::plan::{NodeId, Visitor};

/// Records the leaves that it is shown.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct Leaves(Vec<(NodeId, String)>);

impl Leaves {
    fn leaf(&mut self, node: NodeId, text: String) {
        self.0.push((node, text));
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
        self.leaf(node, value.to_decimal());
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        self.leaf(node, value.to_string());
    }

    fn real(&mut self, node: NodeId, value: f64) {
        self.leaf(node, if value.is_nan() { "NaN".into() } else { format!("{:x}", value.to_bits()) });
    }

    fn string(&mut self, node: NodeId, value: &[u8]) {
        self.leaf(node, format!("{value:?}"));
    }

    fn blob(&mut self, node: NodeId, value: &[u8]) {
        self.leaf(node, format!("{value:?}"));
    }
}
