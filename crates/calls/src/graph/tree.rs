//! Trees of calls, and how records make them.

use std::collections::HashMap;

use crate::follow::{Follower, StackFrame};
use crate::names::MetNames;
use crate::task_partitions::{self, Moment};

/// A function where it was called from.
#[derive(Clone, Debug, Default)]
pub(super) struct CallNode {
    pub(super) name: usize,
    pub(super) address: u64,
    pub(super) symbol: u32,
    pub(super) time: u64,
    pub(super) child_time: u64,
    pub(super) calls: u64,
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    /// When it was called first. Of a root: when it got its address.
    pub(super) met: Moment,
}

/// The calls of a program, or of all.
#[derive(Debug)]
pub(super) struct CallTree {
    /// The first one is the root.
    pub(super) nodes: Vec<CallNode>,
    /// Calls that forked: node and process.
    pub(super) forks: Vec<(usize, i64)>,
    /// Ways to the function that is looked at, the newest last.
    pub(super) ways: Vec<CallPath>,
}

/// A way to the function that is looked at.
#[derive(Debug)]
pub(super) struct CallPath {
    pub(super) frames: Vec<(u64, u32)>,
    pub(super) hits: u64,
    pub(super) time: u64,
    /// When it was met first.
    pub(super) met: Moment,
}

/// A node of a tree of calls, in a list in which callers stand before their callees.
pub(crate) struct Flat {
    pub(crate) name: String,
    /// Index of its caller; that of the root is its own.
    pub(crate) parent: usize,
    pub(crate) address: u64,
    pub(crate) calls: u64,
    pub(crate) total: u64,
    pub(crate) own: u64,
}

impl CallNode {
    /// Adds the calls of the same node of other tasks.
    fn append(&mut self, other: &CallNode) {
        self.calls += other.calls;
        self.time = self.time.wrapping_add(other.time);
        self.child_time = self.child_time.wrapping_add(other.child_time);
    }
}

impl CallTree {
    pub(super) fn new() -> CallTree {
        CallTree { nodes: vec![CallNode::default()], forks: Vec::new(), ways: Vec::new() }
    }

    /// Does it hold nothing that is shown?
    pub(super) fn is_empty(&self) -> bool {
        self.ways.is_empty() && self.nodes[0].time == 0 && self.nodes[0].children.is_empty()
    }

    /// Adds the calls of trees of other tasks, which are not named as these.
    fn join(&mut self, names: &mut MetNames, parts: &[(&CallTree, &MetNames)]) {
        for (tree, _) in parts {
            let (root, other) = (&mut self.nodes[0], &tree.nodes[0]);
            root.append(other);
            if other.calls > 0 && other.met >= root.met {
                (root.address, root.met) = (other.address, other.met);
            }
        }
        // By part: the node here for each node there.
        let mut same: Vec<Vec<usize>> = parts.iter().map(|(tree, _)| vec![0; tree.nodes.len()]).collect();
        let moments =
            |(tree, _): &(&'_ CallTree, &MetNames)| tree.nodes[1..].iter().map(|node| node.met).collect::<Vec<_>>();
        let mut found: HashMap<(usize, usize), usize> = HashMap::new();
        for (part, place) in task_partitions::in_order(parts.iter().map(moments)) {
            let (tree, of_names) = parts[part];
            let node = &tree.nodes[place + 1];
            let caller = same[part][node.parent.unwrap_or(0)];
            let name = names.number(&of_names[node.name]);
            let here = *found.entry((caller, name)).or_insert_with(|| {
                let CallNode { address, symbol, met, .. } = *node;
                self.nodes.push(CallNode { name, address, symbol, met, parent: Some(caller), ..CallNode::default() });
                let here = self.nodes.len() - 1;
                self.nodes[caller].children.push(here);
                here
            });
            same[part][place + 1] = here;
            self.nodes[here].append(node);
        }
        let moments = |(tree, _): &(&CallTree, &MetNames)| tree.ways.iter().map(|way| way.met).collect::<Vec<_>>();
        for (part, place) in task_partitions::in_order(parts.iter().map(moments)) {
            let way = &parts[part].0.ways[place];
            let known = self.way(way.frames.clone(), way.met);
            self.ways[known].hits += way.hits;
            self.ways[known].time = self.ways[known].time.wrapping_add(way.time);
        }
    }

    /// The number of a way.
    pub(super) fn way(&mut self, frames: Vec<(u64, u32)>, met: Moment) -> usize {
        let same = |way: &CallPath| way.frames.iter().map(|frame| frame.0).eq(frames.iter().map(|frame| frame.0));
        self.ways.iter().position(same).unwrap_or_else(|| {
            self.ways.push(CallPath { frames, hits: 0, time: 0, met });
            self.ways.len() - 1
        })
    }

    /// Its nodes in a list.
    pub(super) fn flat(&self, names: &MetNames, root: &str) -> Vec<Flat> {
        let nodes = self.nodes.iter().enumerate().map(|(at, node)| Flat {
            name: if at == 0 { root.to_string() } else { names[node.name].clone() },
            parent: node.parent.unwrap_or(0),
            address: node.address,
            calls: node.calls,
            total: node.time,
            own: node.time.saturating_sub(node.child_time),
        });
        nodes.collect()
    }

    /// Calls `see` with the parent, the node and its depth, for each node but the root, callers first.
    pub(super) fn walk(&self, mut see: impl FnMut(usize, usize, usize)) {
        let mut open: Vec<(usize, usize)> = vec![(0, 0)];
        while let Some((at, depth)) = open.pop() {
            let node = &self.nodes[at];
            if let Some(parent) = node.parent {
                see(parent, at, depth);
            }
            open.extend(node.children.iter().rev().map(|&child| (child, depth + 1)));
        }
    }
}

/// Where a task is.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskPlace {
    pub(super) node: Option<usize>,
    /// The tree that the node is in: not that of the task any more when it goes on as another program.
    pub(super) node_tree: usize,
    pub(super) tree: Option<usize>,
    pub(super) has_moved: bool,
    pub(super) has_lost: bool,
    pub(super) enabled: u32,
    /// The way to the function, by its tree and its place there.
    pub(super) way: Option<(usize, usize)>,
}

/// Builds trees while records pass by.
pub(super) struct CallTreeBuilder {
    pub(super) names: MetNames,
    pub(super) trees: Vec<CallTree>,
    pub(super) places: Vec<TaskPlace>,
    /// Children that were found: tree, caller, name, and the child.
    pub(super) found: Vec<(usize, usize, usize, usize)>,
}

/// Children that are remembered: a power of two.
const FOUND: usize = 1024;

impl CallTreeBuilder {
    pub(super) fn new(trees: usize, tasks: usize) -> CallTreeBuilder {
        CallTreeBuilder {
            names: MetNames::default(),
            trees: (0..trees).map(|_| CallTree::new()).collect(),
            places: vec![TaskPlace::default(); tasks],
            found: vec![(usize::MAX, 0, 0, 0); FOUND],
        }
    }

    /// The trees that builders made of different tasks.
    pub(super) fn joined(parts: &[CallTreeBuilder], trees: usize) -> CallTreeBuilder {
        let mut all = CallTreeBuilder::new(trees, 0);
        for at in 0..trees {
            let of_parts: Vec<_> = parts.iter().map(|part| (&part.trees[at], &part.names)).collect();
            all.trees[at].join(&mut all.names, &of_parts);
        }
        all
    }

    /// A task calls or leaves a function at a time, whose call has a place on its stack; `address` is that of the record.
    #[inline]
    pub(super) fn add(
        &mut self,
        follower: &mut Follower<'_>,
        (at, place): (usize, isize),
        (name, address, time): (usize, u64, u64),
        is_entry: bool,
        sample: u64,
    ) {
        let frame = follower.tasks[at].frame(place).copied();
        let task = &follower.source.tasks()[at];
        match is_entry {
            true => self.enter(at, name, frame, (task.pid, follower.moment(at, time))),
            false => self.leave(at, frame, address, task.parent, sample),
        }
    }

    /// A task calls a function: its process, and when it was met.
    #[inline]
    pub(super) fn enter(&mut self, task: usize, name: usize, frame: Option<StackFrame>, (pid, met): (i64, Moment)) {
        let place = &mut self.places[task];
        let Some(tree) = place.tree else { return };
        if place.has_lost {
            return;
        }
        if std::mem::take(&mut place.has_moved) {
            (place.node, place.node_tree) = (Some(0), tree);
        }
        let (Some(at), Some(frame)) = (place.node, frame) else { return };
        let number = place.node_tree;
        let tree = &mut self.trees[number];
        let slot = (at.wrapping_mul(61) ^ name) % FOUND;
        if let Some(&(of, caller, callee, child)) = self.found.get(slot)
            && (of, caller, callee) == (number, at, name)
        {
            tree.nodes[child].calls += 1;
            place.node = Some(child);
            return;
        }
        let found = tree.nodes[at].children.iter().copied().find(|&child| tree.nodes[child].name == name);
        let child = found.unwrap_or_else(|| {
            let child = tree.nodes.len();
            let StackFrame { address, symbol, .. } = frame;
            tree.nodes.push(CallNode { name, address, symbol, met, parent: Some(at), ..CallNode::default() });
            tree.nodes[at].children.push(child);
            if matches!(self.names[name].as_str(), "fork" | "vfork" | "daemon") {
                tree.forks.push((child, pid));
            }
            child
        });
        tree.nodes[child].calls += 1;
        place.node = Some(child);
        self.found[slot] = (number, at, name, child);
    }

    /// A task leaves a function. `address` is that of the record, `parent` the process that forked the task. The times of
    /// callees count in whole samples, when there are samples.
    #[inline]
    fn leave(&mut self, task: usize, frame: Option<StackFrame>, address: u64, parent: i64, sample: u64) {
        let place = &mut self.places[task];
        let (Some(tree), Some(at), Some(frame)) = (place.tree, place.node, frame) else { return };
        // A kernel call that is left now was entered before records were lost.
        if place.has_lost && frame.is_kernel {
            return;
        }
        place.has_lost = false;
        let mut node = at;
        // A task that goes on as another program leaves the calls of the one before in its tree.
        let own = place.node_tree;
        if self.trees[own].nodes[at].address != frame.address {
            let current = &mut self.trees[tree];
            let is_fork = |&(node, pid): &(usize, i64)| current.nodes[node].address == address && pid == parent;
            if let Some(fork) = current.forks.iter().rposition(is_fork) {
                (node, place.node_tree) = (current.forks.remove(fork).0, tree);
            }
        }
        let caller = self.trees[own].nodes[at].parent;
        let tree = &mut self.trees[place.node_tree];
        tree.nodes[node].time = tree.nodes[node].time.wrapping_add(frame.time);
        tree.nodes[node].child_time = tree.nodes[node].child_time.wrapping_add(frame.child_time);
        if sample > 0
            && let Some(caller) = caller
        {
            // Where there are samples there is one tree.
            let caller = &mut tree.nodes[caller];
            let whole = frame.time / sample * sample;
            caller.child_time = caller.child_time.wrapping_sub(frame.time).wrapping_add(whole);
        }
        place.node = tree.nodes[node].parent;
    }
}
