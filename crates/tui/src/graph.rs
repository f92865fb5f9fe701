//! The call graph: which function called which, as a tree.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracemill_answers::TraceState;
use tracemill_lod::calls::StackTotals;

use crate::cursor::{Cursor, CursorMove, next_of};
use crate::range::{Range, ns_range};
use crate::samples::{self, SampledEvents};
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

/// A tree of calls, or of samples.
#[derive(Clone, Default)]
struct CallGraph {
    /// The first node is the root.
    nodes: Vec<GraphNode>,
    /// Names of functions by their numbers.
    names: Arc<[String]>,
    /// The events of samples; `None` of calls.
    samples: Option<SampledEvents>,
    /// Are totals numbers, and not times in ns?
    counts: bool,
}

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
    /// Is the tree that of traces that have grown since?
    is_old: bool,
}

/// The view of a tree, by names: another tree has other nodes.
struct KeptView {
    function: Option<String>,
    folded: Vec<Vec<String>>,
    chosen: Option<Vec<String>>,
    /// The first line in sight.
    top: usize,
}

impl CallGraph {
    /// The tree of what is in a range: of calls, otherwise of samples of an event.
    fn read(state: &TraceState, range: Option<Range>, event: Option<&str>) -> CallGraph {
        if let Some(calls) = state.calls() {
            let stacks = calls.stacks(ns_range(range, calls), None, &|| false).unwrap_or_default();
            return CallGraph::of_calls(&stacks, &calls.names);
        }
        let Some((stacks, events)) = samples::stacks(state, range, event) else { return CallGraph::empty() };
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut names: Vec<String> = Vec::new();
        let nodes = stacks.nodes.iter().enumerate().map(|(at, of)| {
            let name = (at > 0).then(|| {
                *numbers.entry(of.name.clone()).or_insert_with(|| {
                    names.push(of.name.clone());
                    names.len() as u32 - 1
                })
            });
            let (total, own) = (of.total.into(), of.own.into());
            GraphNode { parent: of.parent, name, calls: of.samples, total, own, children: Vec::new() }
        });
        let nodes = nodes.collect();
        CallGraph { nodes, names: names.into(), samples: Some(events), counts: stacks.unit != "ns" }.linked()
    }

    fn empty() -> CallGraph {
        CallGraph { nodes: vec![GraphNode::default()], ..CallGraph::default() }
    }

    fn of_calls(stacks: &[StackTotals], names: &[String]) -> CallGraph {
        let node = |of: &StackTotals| {
            let StackTotals { parent, name, calls, total, own } = *of;
            GraphNode { parent, name, calls, total, own, children: Vec::new() }
        };
        let nodes = stacks.iter().map(node).collect();
        CallGraph { nodes, names: names.into(), ..CallGraph::default() }.linked()
    }

    /// Tells all nodes their children.
    fn linked(mut self) -> CallGraph {
        for at in 1..self.nodes.len() {
            let parent = self.nodes[at].parent;
            self.nodes[parent].children.push(at);
        }
        self.sorted()
    }

    fn name(&self, at: usize) -> &str {
        self.nodes[at].name.map_or("", |name| &self.names[name as usize])
    }

    /// The names on the way from the root to a node.
    fn path(&self, node: usize) -> Vec<String> {
        let mut path = Vec::new();
        let mut at = node;
        while at != 0 {
            path.push(self.name(at).to_string());
            at = self.nodes[at].parent;
        }
        path.reverse();
        path
    }

    /// The node at the end of a path.
    fn node(&self, path: &[String]) -> Option<usize> {
        let child = |at: usize, name: &String| {
            self.nodes.get(at)?.children.iter().copied().find(|child| self.name(*child) == name)
        };
        path.iter().try_fold(0, child).filter(|node| *node != 0)
    }

    fn sorted(mut self) -> CallGraph {
        for at in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[at].children);
            let total = |at: usize| self.nodes[at].total;
            children.sort_by(|&a, &b| total(b).cmp(&total(a)).then_with(|| self.name(a).cmp(self.name(b))));
            self.nodes[at].children = children;
        }
        self
    }

    /// The tree below all calls of a function, together. A call of it inside of another one belongs to that.
    fn subtree(&self, name: u32) -> CallGraph {
        let mut nodes = vec![GraphNode::default()];
        let mut known: HashMap<(usize, u32), usize> = HashMap::new();
        // Nodes of this tree with the nodes of the new one that they belong to; the outermost ones first.
        let mut open: Vec<(usize, Option<usize>)> = vec![(0, None)];
        while let Some((at, within)) = open.pop() {
            let of = &self.nodes[at];
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
        CallGraph { nodes, ..self.clone() }.sorted()
    }
}

impl Graph {
    /// Asks for the tree, unless that was done; of samples, that of an event.
    pub(crate) fn request(&mut self, state: &Arc<TraceState>, range: Option<Range>, event: Option<&str>) {
        let has_any = state.calls().is_some() || state.has_samples();
        if !self.all.needs(self.is_old) || !state.is_complete() || !has_any {
            return;
        }
        let (state, event) = (state.clone(), event.map(str::to_string));
        self.is_old = false;
        self.all.refresh(move || CallGraph::read(&state, range, event.as_deref()));
    }

    /// The events of the samples that are shown.
    pub(crate) fn samples(&self) -> Option<&SampledEvents> {
        self.all.get()?.samples.as_ref()
    }

    /// Has it a function of this name? `None` while that is not known.
    pub(crate) fn has_function(&self, name: &str) -> Option<bool> {
        Some(self.all.get()?.names.iter().any(|own| own == name))
    }

    /// Another range is wanted, of the same function.
    pub(crate) fn forget(&mut self) {
        let wanted = self.wanted.take().or(self.of.take().map(|(function, _)| function));
        *self = Graph { wanted, ..Graph::default() };
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.all.is_running()
    }

    pub(crate) fn poll(&mut self) -> bool {
        let kept = self.all.is_refreshing().then(|| self.kept());
        let is_new = self.all.poll();
        match kept.filter(|_| is_new) {
            Some(kept) => self.restore(&kept),
            None if is_new => {
                let wanted = self.wanted.take();
                self.choose(wanted.as_deref());
            }
            None => {}
        }
        is_new
    }

    /// The traces have grown: the tree stays until there is another one.
    pub(crate) fn grow(&mut self) {
        self.is_old = true;
    }

    fn kept(&self) -> KeptView {
        let path = |node: usize| self.tree().map(|tree| tree.path(node)).unwrap_or_default();
        KeptView {
            function: self.function().map(str::to_string),
            folded: self.folded.iter().map(|node| path(*node)).collect(),
            chosen: self.shown.get(self.cursor.at).map(|(node, _)| path(*node)),
            top: self.cursor.first(),
        }
    }

    /// Shows what was shown, of another tree.
    fn restore(&mut self, kept: &KeptView) {
        self.choose(kept.function.as_deref());
        let Some(tree) = self.tree() else { return };
        let folded = kept.folded.iter().filter_map(|path| tree.node(path)).collect();
        let chosen = kept.chosen.as_ref().and_then(|path| tree.node(path));
        self.folded = folded;
        self.show();
        let at = self.shown.iter().position(|(node, _)| Some(*node) == chosen).unwrap_or(0);
        self.cursor.place(at, kept.top);
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
        let mut open: Vec<(usize, usize)> = tree.nodes[0].children.iter().rev().map(|child| (*child, 0)).collect();
        while let Some((at, depth)) = open.pop() {
            shown.push((at, depth));
            if !self.folded.contains(&at) {
                open.extend(tree.nodes[at].children.iter().rev().map(|child| (*child, depth + 1)));
            }
        }
        let mut wanted = chosen;
        let mut at = None;
        while let Some(node) = wanted.filter(|node| *node != 0 && *node < tree.nodes.len() && at.is_none()) {
            at = shown.iter().position(|(own, _)| *own == node);
            wanted = Some(tree.nodes[node].parent);
        }
        (self.shown, self.cursor.at) = (shown, at.unwrap_or(0));
    }

    /// The tree of one function, by its name, or of all; as soon as it can be made.
    pub(crate) fn choose(&mut self, function: Option<&str>) {
        (self.folded, self.cursor) = (HashSet::new(), Cursor::default());
        self.shown.clear();
        self.wanted = function.filter(|_| self.all.get().is_none()).map(str::to_string);
        self.of = function.and_then(|function| {
            let all = self.all.get()?;
            let name = all.names.iter().position(|name| name == function)?;
            Some((function.to_string(), all.subtree(name as u32)))
        });
        self.show();
    }

    /// The name of the chosen function.
    pub(crate) fn chosen(&self) -> Option<String> {
        let (node, _) = self.shown.get(self.cursor.at)?;
        let tree = self.tree()?;
        tree.nodes[*node].name?;
        Some(tree.name(*node).to_string())
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
        let mut open = tree.nodes[node].children.clone();
        let mut below = Vec::new();
        while let Some(at) = open.pop() {
            below.push(at);
            if all {
                open.extend(&tree.nodes[at].children);
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
    pub(crate) fn search(&mut self, text: &str, is_next: bool) -> bool {
        let Some(tree) = self.tree() else { return false };
        let text = text.to_lowercase();
        let name = |at: usize| tree.name(self.shown[at].0);
        match next_of(self.shown.len(), self.cursor.at, is_next, |at| name(at).to_lowercase().contains(&text)) {
            Some(at) => {
                self.cursor.at = at;
                true
            }
            None => false,
        }
    }

    /// The header, the lines in sight, the chosen one.
    pub(crate) fn lines(&mut self, (width, height): (usize, usize)) -> (String, Vec<String>, Option<usize>) {
        let Some(tree) = self.tree().filter(|tree| !tree.names.is_empty()) else {
            return (String::new(), Vec::new(), None);
        };
        let counted = if tree.samples.is_some() { "samples" } else { "calls" };
        let amount = |number: i128| if tree.counts { number.to_string() } else { duration(number) };
        let mut cursor = self.cursor;
        let (top, height) = (cursor.top(height), height.max(1));
        let all = tree.nodes[0].total.max(1);
        let header =
            format!("{} {} {} {} function", right("total", 11), right("self", 11), right(counted, 9), right("%", 6));
        let line = |&(node, depth): &(usize, usize)| {
            let of = &tree.nodes[node];
            let fold = match (of.children.is_empty(), self.folded.contains(&node)) {
                (true, _) => "  ",
                (false, true) => "+ ",
                (false, false) => "- ",
            };
            let line = format!(
                "{} {} {} {} {}{fold}{}",
                right(&amount(of.total), 11),
                right(&amount(of.own), 11),
                right(&of.calls.to_string(), 9),
                right(&format!("{:.1}", of.total as f64 * 100.0 / all as f64), 6),
                "  ".repeat(depth.min(40)),
                visible(tree.name(node))
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

    fn tree() -> CallGraph {
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
        CallGraph::of_calls(&stacks, &names)
    }

    #[test]
    fn the_graph_of_a_function_adds_its_calls_up() {
        let tree = tree();
        let of_a = tree.subtree(1);
        let root = &of_a.nodes[of_a.nodes[0].children[0]];
        // The inner call of `a` is below the outer one, and not counted again.
        assert_eq!((of_a.nodes[0].children.len(), root.calls, root.total, root.own), (1, 2, 70, 20));
        let below: Vec<(Option<u32>, i128)> =
            root.children.iter().map(|at| (of_a.nodes[*at].name, of_a.nodes[*at].total)).collect();
        assert_eq!(below, [(Some(2), 30), (Some(1), 20)]);
    }

    #[test]
    fn the_cursor_stays_where_it_is_folded_into() {
        let tree = tree();
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
