//! Folded stacks: a line for each way from a thread to a call, with the ns that it spent there itself. Flame graphs are made
//! of them.

use std::collections::HashMap;
use std::io::{self, Write};

use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Target;
use tracemill_model::error::Result;

use super::stacks::{CallThread, Change, Follower, StackSink, Stacks};

/// See the module.
pub(super) static FOLDED: Target =
    Target::file(&["folded"], "folded stacks of calls with their own ns, for flame graphs", |path, sources, _| {
        Ok(Box::new(Follower::new(path, sources, Folded::default())?))
    })
    .with_endings(&["folded", "collapsed"])
    .cannot_hold(&[Lost::CallTimes, Lost::Values, Lost::NoCalls, Lost::Packets, Lost::Clocks, Lost::Environment]);

/// Different ways that are kept; what is called on further ones counts for its caller.
const MAX_NODES: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Folded {
    /// Caller, name, and own ns; the first ones are threads.
    nodes: Vec<StackNode>,
    of: HashMap<(u32, u32), u32>,
    /// By thread: the node of each open call, the thread first, and when it changed last.
    threads: Vec<(Vec<u32>, u64)>,
    cut: u64,
}

struct StackNode {
    caller: u32,
    frame: u32,
    ns: u64,
}

/// The caller of a thread.
const NOBODY: u32 = u32::MAX;

impl Folded {
    fn find_thread(&mut self, at: usize, thread: &CallThread) {
        while self.threads.len() <= at {
            let root = self.nodes.len() as u32;
            self.nodes.push(StackNode { caller: NOBODY, frame: self.threads.len() as u32, ns: 0 });
            self.threads.push((vec![root], thread.first));
        }
    }

    /// The node of a call on another one.
    fn node(&mut self, caller: u32, frame: u32) -> u32 {
        match self.of.get(&(caller, frame)) {
            Some(&next) => next,
            None if self.nodes.len() >= MAX_NODES => {
                self.cut += 1;
                caller
            }
            None => {
                let next = self.nodes.len() as u32;
                self.nodes.push(StackNode { caller, frame, ns: 0 });
                self.of.insert((caller, frame), next);
                next
            }
        }
    }

    /// Adds a stack of a thread, the outermost function first, with a weight.
    pub(crate) fn add(&mut self, at: usize, thread: &CallThread, stack: &[u32], weight: u64) {
        self.find_thread(at, thread);
        let root = self.threads[at].0[0];
        let node = stack.iter().fold(root, |node, &frame| self.node(node, frame)) as usize;
        self.nodes[node].ns = self.nodes[node].ns.saturating_add(weight);
    }
}

impl StackSink for Folded {
    const KEEPS_POINTS: bool = false;

    fn change(&mut self, at: usize, thread: &CallThread, time: u64, change: Change) -> Result<()> {
        self.find_thread(at, thread);
        let (open, last) = &mut self.threads[at];
        let node = open.last().copied().unwrap_or(0);
        // Time outside of all calls is not the thread's own.
        if open.len() > 1 {
            self.nodes[node as usize].ns += time - *last;
        }
        *last = time;
        match change {
            Change::Push(frame) => {
                let next = self.node(node, frame);
                self.threads[at].0.push(next);
            }
            Change::Pop => {
                open.pop();
            }
            Change::Point(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, stacks: &Stacks, losses: &mut Losses) -> io::Result<()> {
        let titles: Vec<String> = stacks.threads.iter().map(CallThread::title).collect();
        for node in &self.nodes {
            if node.ns == 0 {
                continue;
            }
            let name = match node.caller {
                // A sample without a stack.
                NOBODY => &titles[node.frame as usize],
                _ => &stacks.frames[node.frame as usize],
            };
            let mut names = vec![name.as_str()];
            let mut at = node.caller;
            while at != NOBODY {
                let of = &self.nodes[at as usize];
                names.push(match of.caller {
                    NOBODY => &titles[of.frame as usize],
                    _ => &stacks.frames[of.frame as usize],
                });
                at = of.caller;
            }
            let names: Vec<String> = names.into_iter().rev().map(plain).collect();
            writeln!(out, "{} {}", names.join(";"), node.ns)?;
        }
        losses.add(Lost::MoreWays(MAX_NODES), self.cut);
        Ok(())
    }
}

/// A name without what separates names and lines.
fn plain(name: &str) -> String {
    name.replace(';', ":").replace(['\n', '\r'], " ")
}
