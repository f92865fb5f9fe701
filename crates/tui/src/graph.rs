//! The call graph: which function called which, as a tree.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracemill_answers::TraceState;
use tracemill_lod::calls::StackTotals;

use crate::cursor::{Cursor, CursorMove, next_of};
use crate::range::{Range, ns_range};
use crate::text::{cut, duration, right, visible};
use crate::work::Work;

/// A node of the tree.
#[derive(Default, Clone)]
struct GraphNode {
    parent: usize,
    /// `None` for the root.
    name: Option<u32>,
    calls: u64,
    total: i128,
    own: i128,
    /// The largest total first.
    children: Vec<usize>,
}

/// A tree of calls: the first node is the root.
#[derive(Clone)]
struct CallGraph(Vec<GraphNode>);

/// The screen.
#[derive(Default)]
pub(crate) struct Graph {
    /// That of all calls.
    all: Work<CallGraph>,
    /// That of one function, and the function.
    of: Option<(String, CallGraph)>,
    folded: HashSet<usize>,
    /// The nodes that are not below a folded one, each with its depth.
    shown: Vec<(usize, usize)>,
    pub(crate) cursor: Cursor,
    /// The function whose tree is wanted as soon as that of all calls is there.
    wanted: Option<String>,
}

impl CallGraph {
    fn new(stacks: &[StackTotals], names: &[String]) -> CallGraph {
        let node = |of: &StackTotals| {
            let StackTotals { parent, name, calls, total, own } = *of;
            GraphNode { parent, name, calls, total, own, children: Vec::new() }
        };
        let mut nodes: Vec<GraphNode> = stacks.iter().map(node).collect();
        for at in 1..nodes.len() {
            let parent = nodes[at].parent;
            nodes[parent].children.push(at);
        }
        CallGraph(nodes).sorted(names)
    }

    fn sorted(mut self, names: &[String]) -> CallGraph {
        for at in 0..self.0.len() {
            let mut children = std::mem::take(&mut self.0[at].children);
            let name = |at: usize| self.0[at].name.map(|name| &names[name as usize]);
            children.sort_by(|&a, &b| self.0[b].total.cmp(&self.0[a].total).then_with(|| name(a).cmp(&name(b))));
            self.0[at].children = children;
        }
        self
    }

    /// The tree below all calls of a function, together. A call of it inside of another one belongs to that.
    fn subtree(&self, name: u32, names: &[String]) -> CallGraph {
        let mut nodes = vec![GraphNode::default()];
        let mut known: HashMap<(usize, u32), usize> = HashMap::new();
        // Nodes of this tree with the nodes of the new one that they belong to; the outermost ones first.
        let mut open: Vec<(usize, Option<usize>)> = vec![(0, None)];
        while let Some((at, within)) = open.pop() {
            let of = &self.0[at];
            let place = match (within, of.name) {
                (Some(parent), Some(own)) => Some((parent, own)),
                (None, Some(own)) if own == name => Some((0, own)),
                _ => None,
            };
            let here = place.map(|(parent, own)| {
                let here = *known.entry((parent, own)).or_insert_with(|| {
                    let here = nodes.len();
                    nodes.push(GraphNode { parent, name: Some(own), ..GraphNode::default() });
                    nodes[parent].children.push(here);
                    here
                });
                let node: &mut GraphNode = &mut nodes[here];
                node.calls += of.calls;
                node.total += of.total;
                node.own += of.own;
                if parent == 0 {
                    nodes[0].total += of.total;
                }
                here
            });
            open.extend(of.children.iter().rev().map(|child| (*child, here)));
        }
        CallGraph(nodes).sorted(names)
    }
}

impl Graph {
    /// Asks for the tree, unless that was done.
    pub(crate) fn request(&mut self, state: &Arc<TraceState>, range: Option<Range>) {
        if self.all.is_begun() || !state.is_complete() || state.calls().is_none() {
            return;
        }
        let state = state.clone();
        self.all.begin(move || match state.calls() {
            Some(calls) => {
                CallGraph::new(&calls.stacks(ns_range(range, calls), None, &|| false).unwrap_or_default(), &calls.names)
            }
            None => CallGraph(vec![GraphNode::default()]),
        });
    }

    /// Another range is wanted, of the same function.
    pub(crate) fn forget(&mut self) {
        let wanted = self.wanted.take().or(self.of.take().map(|(function, _)| function));
        *self = Graph { wanted, ..Graph::default() };
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.all.is_running()
    }

    pub(crate) fn poll(&mut self, state: &TraceState) -> bool {
        let is_new = self.all.poll();
        if is_new {
            let wanted = self.wanted.take();
            self.choose(state, wanted.as_deref());
        }
        is_new
    }

    fn tree(&self) -> Option<&CallGraph> {
        self.of.as_ref().map(|(_, tree)| tree).or_else(|| self.all.get())
    }

    /// The function that the tree is of; `None` for all.
    pub(crate) fn function(&self) -> Option<&str> {
        self.of.as_ref().map(|(name, _)| &**name)
    }

    /// Looks up which nodes are shown. The cursor stays on its node, or on the one that it was folded into.
    fn show(&mut self) {
        let chosen = self.shown.get(self.cursor.at).map(|(node, _)| *node);
        let Some(tree) = self.tree() else { return };
        let mut shown = Vec::new();
        let mut open: Vec<(usize, usize)> = tree.0[0].children.iter().rev().map(|child| (*child, 0)).collect();
        while let Some((at, depth)) = open.pop() {
            shown.push((at, depth));
            if !self.folded.contains(&at) {
                open.extend(tree.0[at].children.iter().rev().map(|child| (*child, depth + 1)));
            }
        }
        let mut wanted = chosen;
        let mut at = None;
        while let Some(node) = wanted.filter(|node| *node != 0 && *node < tree.0.len() && at.is_none()) {
            at = shown.iter().position(|(own, _)| *own == node);
            wanted = Some(tree.0[node].parent);
        }
        (self.shown, self.cursor.at) = (shown, at.unwrap_or(0));
    }

    /// The tree of one function, by its name, or of all; as soon as it can be made.
    pub(crate) fn choose(&mut self, state: &TraceState, function: Option<&str>) {
        (self.folded, self.cursor) = (HashSet::new(), Cursor::default());
        self.shown.clear();
        self.wanted = function.filter(|_| self.all.get().is_none()).map(str::to_string);
        self.of = function.and_then(|function| {
            let calls = state.calls()?;
            let name = calls.names.iter().position(|name| name == function)?;
            Some((function.to_string(), self.all.get()?.subtree(name as u32, &calls.names)))
        });
        self.show();
    }

    /// The name of the chosen function.
    pub(crate) fn chosen(&self, state: &TraceState) -> Option<String> {
        let (node, _) = self.shown.get(self.cursor.at)?;
        let name = self.tree()?.0[*node].name?;
        Some(state.calls()?.names[name as usize].clone())
    }

    pub(crate) fn step(&mut self, step: CursorMove) {
        self.cursor.step(step, self.shown.len());
    }

    /// Folds the chosen node, or unfolds it.
    pub(crate) fn fold(&mut self) {
        let Some(&(node, _)) = self.shown.get(self.cursor.at) else { return };
        if !self.folded.remove(&node) {
            self.folded.insert(node);
        }
        self.show();
    }

    /// Folds or unfolds the nodes below the chosen one: its children, or all.
    pub(crate) fn fold_below(&mut self, is_folded: bool, all: bool) {
        let (Some(&(node, _)), Some(tree)) = (self.shown.get(self.cursor.at), self.tree()) else { return };
        let mut open = tree.0[node].children.clone();
        let mut below = Vec::new();
        while let Some(at) = open.pop() {
            below.push(at);
            if all {
                open.extend(&tree.0[at].children);
            }
        }
        if !is_folded {
            self.folded.remove(&node);
        }
        for at in below {
            if is_folded {
                self.folded.insert(at);
            } else {
                self.folded.remove(&at);
            }
        }
        self.show();
    }

    /// Goes to the parent.
    pub(crate) fn up(&mut self) {
        let Some((_, depth)) = self.shown.get(self.cursor.at) else { return };
        if let Some(at) = self.shown[..self.cursor.at].iter().rposition(|(_, own)| own < depth) {
            self.cursor.at = at;
        }
    }

    /// Goes to the next node beside the chosen one, or to the one before.
    pub(crate) fn sibling(&mut self, is_next: bool) {
        let Some(&(_, depth)) = self.shown.get(self.cursor.at) else { return };
        let found = match is_next {
            true => self.shown[self.cursor.at + 1..]
                .iter()
                .position(|(_, own)| *own <= depth)
                .map(|more| self.cursor.at + 1 + more),
            false => self.shown[..self.cursor.at].iter().rposition(|(_, own)| *own <= depth),
        };
        if let Some(at) = found.filter(|at| self.shown[*at].1 == depth) {
            self.cursor.at = at;
        }
    }

    /// Chooses the next shown function whose name holds a text.
    pub(crate) fn search(&mut self, state: &TraceState, text: &str, is_next: bool) -> bool {
        let (Some(tree), Some(calls)) = (self.tree(), state.calls()) else { return false };
        let text = text.to_lowercase();
        let name = |at: usize| tree.0[self.shown[at].0].name.map_or("", |name| &calls.names[name as usize]);
        match next_of(self.shown.len(), self.cursor.at, is_next, |at| name(at).to_lowercase().contains(&text)) {
            Some(at) => {
                self.cursor.at = at;
                true
            }
            None => false,
        }
    }

    /// The header, the lines in sight, the chosen one.
    pub(crate) fn lines(
        &mut self,
        state: &TraceState,
        (width, height): (usize, usize),
    ) -> (String, Vec<String>, Option<usize>) {
        let (Some(tree), Some(calls)) = (self.tree(), state.calls()) else {
            return (String::new(), Vec::new(), None);
        };
        let mut cursor = self.cursor;
        let (top, height) = (cursor.top(height), height.max(1));
        let all = tree.0[0].total.max(1);
        let header =
            format!("{} {} {} {} function", right("total", 11), right("self", 11), right("calls", 9), right("%", 6));
        let line = |&(node, depth): &(usize, usize)| {
            let of = &tree.0[node];
            let fold = match (of.children.is_empty(), self.folded.contains(&node)) {
                (true, _) => "  ",
                (false, true) => "+ ",
                (false, false) => "- ",
            };
            let name = of.name.map_or("", |name| &calls.names[name as usize]);
            let line = format!(
                "{} {} {} {} {}{fold}{}",
                right(&duration(of.total), 11),
                right(&duration(of.own), 11),
                right(&of.calls.to_string(), 9),
                right(&format!("{:.1}", of.total as f64 * 100.0 / all as f64), 6),
                "  ".repeat(depth.min(40)),
                visible(name)
            );
            cut(&line, width)
        };
        let lines: Vec<String> = self.shown.iter().skip(top).take(height).map(line).collect();
        let chosen = (!lines.is_empty()).then(|| self.cursor.at - top);
        self.cursor = cursor;
        (cut(&header, width), lines, chosen)
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.shown.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (CallGraph, Vec<String>) {
        let names: Vec<String> = ["main", "a", "b"].map(String::from).to_vec();
        let stack = |parent, name, total: i128, own: i128| StackTotals { parent, name, calls: 1, total, own };
        // main calls a (which calls b) and b (which calls a, which calls a).
        let stacks = [
            stack(0, None, 100, 0),
            stack(0, Some(0), 100, 10),
            stack(1, Some(1), 40, 10),
            stack(2, Some(2), 30, 30),
            stack(1, Some(2), 50, 20),
            stack(4, Some(1), 30, 10),
            stack(5, Some(1), 20, 20),
        ];
        (CallGraph::new(&stacks, &names), names)
    }

    #[test]
    fn the_graph_of_a_function_adds_its_calls_up() {
        let (tree, names) = tree();
        let of_a = tree.subtree(1, &names);
        let root = &of_a.0[of_a.0[0].children[0]];
        // The inner call of `a` is below the outer one, and not counted again.
        assert_eq!((of_a.0[0].children.len(), root.calls, root.total, root.own), (1, 2, 70, 20));
        let below: Vec<(Option<u32>, i128)> =
            root.children.iter().map(|at| (of_a.0[*at].name, of_a.0[*at].total)).collect();
        assert_eq!(below, [(Some(2), 30), (Some(1), 20)]);
    }

    #[test]
    fn the_cursor_stays_where_it_is_folded_into() {
        let (tree, _) = tree();
        let mut graph = Graph { of: Some((String::new(), tree)), ..Graph::default() };
        graph.show();
        assert_eq!(graph.shown, [(1, 0), (4, 1), (5, 2), (6, 3), (2, 1), (3, 2)]);
        graph.cursor.at = 3;
        graph.folded.insert(4);
        graph.show();
        assert_eq!((graph.shown.len(), graph.cursor.at), (4, 1));
        graph.up();
        assert_eq!(graph.cursor.at, 0);
        graph.cursor.at = 1;
        graph.sibling(true);
        assert_eq!(graph.shown[graph.cursor.at], (2, 1));
        graph.sibling(true);
        assert_eq!(graph.shown[graph.cursor.at], (2, 1));
        graph.sibling(false);
        graph.fold();
        assert_eq!(graph.shown.len(), 6);
    }
}
