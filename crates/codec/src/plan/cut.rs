//! Events that may end anywhere.

use super::{DecoderState, NoVisitor, NodeId, Op, Plan, PlanInput, Visitor, VisitorCall};

impl Plan {
    /// Decodes the section `index` of an event that may end anywhere: members of the section's structure that are not
    /// whole are shown as absent.
    #[cold]
    pub fn run_cut<V: Visitor>(
        &self,
        index: usize,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
        visitor: &mut V,
    ) {
        let Some(Some(root)) = self.roots.get(index).copied() else { return };
        let start = *pos_bits;
        let Err(fault) = self.run_section(index, input, pos_bits, state, &mut NoVisitor) else {
            *pos_bits = start;
            let _ = self.run_section(index, input, pos_bits, state, visitor);
            return;
        };
        let parent = |node: NodeId| self.nodes.get(node as usize).map_or(node, |node| node.parent);
        // The member in which it ends; nodes are numbered from the root on.
        let mut member = fault.node.max(root + 1);
        while parent(member) != root && parent(member) < member {
            member = parent(member);
        }
        *pos_bits = start;
        let mut before = Before { inner: visitor, limit: member };
        let _ = self.run_section(index, input, pos_bits, state, &mut before);
        *pos_bits = input.end_bits;
        // A structure whose marks are left out is nothing that a visitor hears of: its members are absent instead.
        let mut is_shown = vec![false; self.nodes.len()];
        self.ops.iter().filter_map(Op::node).for_each(|node| is_shown[node as usize] = true);
        for node in member..self.nodes.len() as NodeId {
            let mut around = parent(node);
            while around > root && !is_shown[around as usize] {
                around = parent(around);
            }
            if around == root && is_shown[node as usize] {
                visitor.absent(node);
            }
        }
        visitor.end_struct(root);
    }
}

/// Shows the nodes before one of them.
struct Before<'v, V> {
    inner: &'v mut V,
    limit: NodeId,
}

impl<V: Visitor> Visitor for Before<'_, V> {
    #[inline]
    fn any_call(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        if node < self.limit {
            shown.dispatch(self.inner, node);
        }
    }
}
