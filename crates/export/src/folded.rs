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
struct Folded {
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

impl StackSink for Folded {
    const KEEPS_POINTS: bool = false;

    fn change(&mut self, at: usize, thread: &CallThread, time: u64, change: Change) -> Result<()> {
        while self.threads.len() <= at {
            let root = self.nodes.len() as u32;
            self.nodes.push(StackNode { caller: NOBODY, frame: self.threads.len() as u32, ns: 0 });
            self.threads.push((vec![root], thread.first));
        }
        let (open, last) = &mut self.threads[at];
        let node = open.last().copied().unwrap_or(0);
        // Time outside of all calls is not the thread's own.
        if open.len() > 1 {
            self.nodes[node as usize].ns += time - *last;
        }
        *last = time;
        match change {
            Change::Push(frame) => {
                let next = match self.of.get(&(node, frame)) {
                    Some(&next) => next,
                    None if self.nodes.len() >= MAX_NODES => {
                        self.cut += 1;
                        node
                    }
                    None => {
                        let next = self.nodes.len() as u32;
                        self.nodes.push(StackNode { caller: node, frame, ns: 0 });
                        self.of.insert((node, frame), next);
                        next
                    }
                };
                open.push(next);
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
            if node.caller == NOBODY || node.ns == 0 {
                continue;
            }
            let mut names = vec![stacks.frames[node.frame as usize].as_str()];
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
