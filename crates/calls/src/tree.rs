//! An order that comes out of how it was made.
//!
//! uftrace puts differences into a red-black tree, by a comparison that is none: of two differences that have another sign
//! each is the smaller one. Where such an element goes depends on which elements it meets, so the tree is built here too.

/// Puts numbered elements into a red-black tree, one after the other; their order in the end.
///
/// `is_left(known, new)` says on which side of a known element a new one goes.
pub(crate) fn order_by_tree(count: usize, is_left: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut tree = RedBlackTree { nodes: vec![TreeNode::default(); count], root: None };
    for new in 0..count {
        let (mut parent, mut side) = (None, LEFT);
        let mut at = tree.root;
        while let Some(known) = at {
            side = if is_left(known, new) { LEFT } else { RIGHT };
            parent = Some(known);
            at = tree.nodes[known].children[side];
        }
        tree.insert(new, parent, side);
    }
    tree.in_order()
}

const LEFT: usize = 0;
const RIGHT: usize = 1;

#[derive(Clone, Copy, Default)]
struct TreeNode {
    parent: Option<usize>,
    children: [Option<usize>; 2],
    is_red: bool,
}

struct RedBlackTree {
    nodes: Vec<TreeNode>,
    root: Option<usize>,
}

impl RedBlackTree {
    fn insert(&mut self, new: usize, parent: Option<usize>, side: usize) {
        self.nodes[new] = TreeNode { parent, children: [None; 2], is_red: true };
        match parent {
            Some(parent) => self.nodes[parent].children[side] = Some(new),
            None => self.root = Some(new),
        }
        self.rebalance(new);
    }

    /// Makes it a red-black tree again, from a red node upwards.
    fn rebalance(&mut self, mut node: usize) {
        while let Some(mut parent) = self.nodes[node].parent.filter(|&parent| self.nodes[parent].is_red) {
            // A red node is not the root.
            let Some(grandparent) = self.nodes[parent].parent else { break };
            let side = self.side(grandparent, parent);
            let uncle = self.nodes[grandparent].children[1 - side];
            if let Some(uncle) = uncle.filter(|&uncle| self.nodes[uncle].is_red) {
                self.nodes[parent].is_red = false;
                self.nodes[uncle].is_red = false;
                self.nodes[grandparent].is_red = true;
                node = grandparent;
                continue;
            }
            if self.side(parent, node) != side {
                self.rotate(parent, side);
                parent = node;
            }
            self.nodes[parent].is_red = false;
            self.nodes[grandparent].is_red = true;
            self.rotate(grandparent, 1 - side);
            break;
        }
        if let Some(root) = self.root {
            self.nodes[root].is_red = false;
        }
    }

    fn side(&self, parent: usize, child: usize) -> usize {
        usize::from(self.nodes[parent].children[LEFT] != Some(child))
    }

    /// Moves a node down to a side; its child on the other side takes its place.
    fn rotate(&mut self, node: usize, side: usize) {
        let Some(child) = self.nodes[node].children[1 - side] else { return };
        let inner = self.nodes[child].children[side];
        self.nodes[node].children[1 - side] = inner;
        if let Some(inner) = inner {
            self.nodes[inner].parent = Some(node);
        }
        let parent = self.nodes[node].parent;
        match parent {
            Some(parent) => {
                let side = self.side(parent, node);
                self.nodes[parent].children[side] = Some(child);
            }
            None => self.root = Some(child),
        }
        self.nodes[child].parent = parent;
        self.nodes[child].children[side] = Some(node);
        self.nodes[node].parent = Some(child);
    }

    fn in_order(&self) -> Vec<usize> {
        let (mut out, mut open, mut at) = (Vec::with_capacity(self.nodes.len()), Vec::new(), self.root);
        loop {
            while let Some(node) = at {
                open.push(node);
                at = self.nodes[node].children[LEFT];
            }
            let Some(node) = open.pop() else { return out };
            out.push(node);
            at = self.nodes[node].children[RIGHT];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_true_order_is_that_of_a_stable_sort() {
        for count in 0..200_usize {
            let key = |at: usize| at.wrapping_mul(2_654_435_761) % 17;
            let mut want: Vec<usize> = (0..count).collect();
            want.sort_by_key(|&at| std::cmp::Reverse(key(at)));
            assert_eq!(order_by_tree(count, |known, new| key(known) < key(new)), want);
        }
    }

    #[test]
    fn paths_are_short() {
        let steps = std::cell::Cell::new(0);
        order_by_tree(4096, |_, _| {
            steps.set(steps.get() + 1);
            false
        });
        assert!(steps.get() < 4096 * 24, "{}", steps.get());
    }

    #[test]
    fn what_is_met_decides_without_an_order() {
        // Each is less than the others: it goes to the left of what it meets, 0 becomes the right child of 1.
        assert_eq!(order_by_tree(3, |_, _| true), [2, 1, 0]);
        // Of equal size with another sign: each known one is the smaller one.
        let values = [3_i32, -3, 1, -1, 3];
        let is_left = |known: usize, new: usize| {
            let (a, b) = (values[known], values[new]);
            a != b && a.abs() <= b.abs()
        };
        assert_eq!(order_by_tree(5, is_left), [1, 0, 4, 3, 2]);
    }
}
