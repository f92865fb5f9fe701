//! Facts from programs' files about addresses, after the fields of common contexts.

use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::{DecoderState, Fault, NodeId, Plan, Visitor};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings;
use tracemill_model::schema::EventClassId;

use super::options::{Origins, Palette, TextOptions};

/// The fields of a class that say where its events come from.
pub(super) struct OriginOf {
    origins: Arc<dyn Origins>,
    trace: usize,
    nodes: [NodeId; 2],
}

impl OriginOf {
    /// The origins of a class, when they are wanted and there.
    pub(super) fn new(options: &TextOptions, trace: usize, class: EventClassId, plan: &Plan) -> Option<OriginOf> {
        let origins = options.origins.clone()?;
        let members = origins.members(trace, class)?;
        let root = plan.roots.first().copied().flatten()?;
        let is_member = |node: &NodeId| *node != root && plan.nodes[*node as usize].parent == root;
        let node = |member: usize| (root..plan.nodes.len() as NodeId).filter(is_member).nth(member);
        let nodes = [node(members[0])?, node(members[1])?];
        Some(OriginOf { origins, trace, nodes })
    }

    /// Appends what is known of the address of an event.
    pub(super) fn write(
        &self,
        out: &mut Out,
        event: EventRef<'_>,
        ns: i128,
        state: &mut DecoderState,
        (palette, names): (Palette, bool),
    ) -> Result<(), Fault> {
        let mut found = OriginFields { nodes: self.nodes, process: 0, address: 0 };
        event.visit_flat_context(state, &mut found)?;
        let origin = self.origins.origin(self.trace, found.process, found.address, ns);
        let name = |out: &mut Out, name: &str| {
            if names {
                out.put_fmt(format_args!("{}{name}{} = ", palette.field_name, palette.reset));
            }
        };
        out.put(b", ");
        name(out, self.origins.name());
        for (at, (key, text)) in origin.iter().enumerate() {
            out.put(if at == 0 { b"{ " } else { b", " });
            name(out, key);
            out.put(palette.value.as_bytes());
            strings::put_escaped(out, text.as_bytes());
            out.put(palette.reset.as_bytes());
        }
        out.put(b" }");
        Ok(())
    }
}

/// Keeps two fields.
struct OriginFields {
    nodes: [NodeId; 2],
    process: i64,
    address: u64,
}

impl Visitor for OriginFields {
    fn signed(&mut self, node: NodeId, value: i64) {
        if node == self.nodes[0] {
            self.process = value;
        }
    }

    fn unsigned(&mut self, node: NodeId, value: u64) {
        if node == self.nodes[1] {
            self.address = value;
        }
    }
}
