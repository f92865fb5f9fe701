//! All stacks of a recording, with the time that each took itself.
//!
//! `graph` and the folded stacks of `dump` follow uftrace, which nests what is called after `longjmp` inside of the calls
//! that it left. Here the depths of records say what is over.

use std::collections::HashMap;

use tracemill_format::calls::{CallKind, CallRecord, CallSource, Findings};
use tracemill_format::open_calls::{CallLevel, OpenCalls};

use crate::follow::{CallChange, Follower, Special, special};
use crate::graph::is_forked;
use crate::names::MetNames;
use crate::select::CallOptions;
use crate::task_partitions::{self, Moment};

/// A stack: its innermost call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stack {
    /// Its number in [`Stacks::names`].
    pub(crate) name: usize,
    /// The stack that it stands on; stacks stand after it.
    pub(crate) parent: usize,
    pub(crate) calls: u64,
    /// Ns without those of callees.
    pub(crate) own: u64,
    /// Is it a time without processor?
    pub(crate) is_wait: bool,
    /// When it was met first.
    pub(crate) met: Moment,
}

/// The stacks of a recording; the first one is that of no call.
pub(crate) struct Stacks {
    pub(crate) names: MetNames,
    pub(crate) list: Vec<Stack>,
    /// By the stack below and the name.
    found: HashMap<(usize, usize), usize>,
    tasks: Vec<StackTask>,
    /// Calls that forked: stack, address of the function, and process.
    forks: Vec<(usize, u64, i64)>,
}

/// A task that is followed.
struct StackTask {
    /// Stacks of the open calls, and whether each is shown.
    open: OpenCalls<(usize, bool)>,
    /// The stack on which the task began: that of the call that forked it, as long as that is open.
    base: usize,
    /// Until when its time was counted.
    time: u64,
}

impl StackTask {
    /// Where time counts now, unless the innermost call is hidden or there is none.
    fn counts_for(&self) -> Option<usize> {
        let (stack, is_shown) = self.open.last().copied().unwrap_or((self.base, true));
        (is_shown && stack > 0).then_some(stack)
    }
}

impl Stacks {
    /// Gathers the stacks of a source; gives what was wrong with it.
    pub(crate) fn collect(source: &dyn CallSource, calls: CallOptions) -> (Stacks, Findings) {
        // Records of a process may end calls of the process that forked it, so forked tasks are followed together.
        let parts = if is_forked(source) { None } else { task_partitions::follow(source, &calls, Stacks::followed) };
        match parts {
            Some(parts) => (Stacks::joined(&parts), Findings::default()),
            None => Stacks::followed(Follower::new(source, calls)),
        }
    }

    fn new(tasks: Vec<StackTask>) -> Stacks {
        let (names, list) = (MetNames::default(), vec![Stack::default()]);
        Stacks { names, list, found: HashMap::new(), tasks, forks: Vec::new() }
    }

    /// The stacks of all that a follower has.
    fn followed(mut follower: Follower<'_>) -> (Stacks, Findings) {
        let source = follower.source;
        let task = |_: &_| StackTask { open: OpenCalls::new(source.max_depth()), base: 0, time: 0 };
        let mut stacks = Stacks::new(source.tasks().iter().map(task).collect());
        while let Some(record) = follower.next() {
            let is_shown = follower.step(&record).is_some();
            stacks.record(&mut follower, &record, is_shown);
        }
        for at in 0..stacks.tasks.len() {
            stacks.count(at, follower.end_of(at));
        }
        let findings = follower.take_findings();
        (stacks, findings)
    }

    /// The stacks of different tasks together.
    fn joined(parts: &[Stacks]) -> Stacks {
        let mut all = Stacks::new(Vec::new());
        // By part: the stack here for each stack there.
        let mut same: Vec<Vec<usize>> = parts.iter().map(|part| vec![0; part.list.len()]).collect();
        let moments = |part: &Stacks| part.list[1..].iter().map(|stack| stack.met).collect();
        for (part, place) in task_partitions::in_order(parts.iter().map(moments)) {
            let stack = &parts[part].list[place + 1];
            let (below, name) = (same[part][stack.parent], all.names.number(&parts[part].names[stack.name]));
            let here = all.stack(below, name, stack.met);
            let sum = &mut all.list[here];
            sum.calls += stack.calls;
            sum.own = sum.own.saturating_add(stack.own);
            sum.is_wait |= stack.is_wait;
            same[part][place + 1] = here;
        }
        all
    }

    /// The stack of a call that is made from another stack.
    fn stack(&mut self, below: usize, name: usize, met: Moment) -> usize {
        *self.found.entry((below, name)).or_insert_with(|| {
            self.list.push(Stack { name, parent: below, met, ..Stack::default() });
            self.list.len() - 1
        })
    }

    fn record(&mut self, follower: &mut Follower<'_>, record: &CallRecord, is_shown: bool) {
        let at = record.task as usize;
        let met = follower.moment(at, record.time);
        let Some(change) = CallChange::from_record(record) else { return };
        let level = change.level();
        match change {
            CallChange::Call(_) => {
                let is_shown = is_shown && !follower.is_skipped_library_call(record.symbol, record.address);
                let name = self.names.intern_symbol(follower, record.symbol, record.address);
                let stack = self.begin(at, met, level, name, is_shown);
                if is_shown && special(&self.names[name]) == Special::Fork {
                    self.forks.push((stack, record.address, follower.source.tasks()[at].pid));
                }
            }
            CallChange::Wait(_, name) => {
                let name = self.names.number(name);
                let stack = self.begin(at, met, level, name, is_shown);
                self.list[stack].is_wait |= is_shown;
            }
            CallChange::End(_) => {
                if !self.end(at, record.time, level) && record.kind == CallKind::Exit {
                    self.end_of_parent(at, record.address, follower.source.tasks()[at].parent);
                }
            }
        }
    }

    /// The time of a task up to now belongs to its innermost call.
    fn count(&mut self, at: usize, time: u64) {
        let task = &mut self.tasks[at];
        // A clock that goes back must not make a stack wider than the world.
        let taken = time.saturating_sub(task.time);
        task.time = task.time.max(time);
        if let Some(stack) = task.counts_for() {
            self.list[stack].own = self.list[stack].own.saturating_add(taken);
        }
    }

    /// A call begins: the stack with it, or without it when it is not shown.
    fn begin(&mut self, at: usize, met: Moment, level: CallLevel, name: usize, is_shown: bool) -> usize {
        self.end(at, met.0, level);
        let task = &mut self.tasks[at];
        let below = task.open.last().map_or(task.base, |&(stack, _)| stack);
        if !is_shown {
            task.open.begin(Some(level), (below, false));
            return below;
        }
        let stack = self.stack(below, name, met);
        self.list[stack].calls += 1;
        self.tasks[at].open.begin(Some(level), (stack, true));
        stack
    }

    /// Ends the calls at a level and above it; false when there are none.
    fn end(&mut self, at: usize, time: u64, level: CallLevel) -> bool {
        self.count(at, time);
        let open = &mut self.tasks[at].open;
        let count = open.abandoned_at(Some(level));
        for _ in 0..count {
            open.pop();
        }
        count > 0
    }

    /// A call ends that began before its task: in the process that forked it.
    fn end_of_parent(&mut self, at: usize, address: u64, parent: i64) {
        let is_it = |&(_, of, pid): &(usize, u64, i64)| (of, pid) == (address, parent);
        let base = match self.forks.iter().rposition(is_it) {
            Some(fork) => self.forks.remove(fork).0,
            None => self.tasks[at].base,
        };
        self.tasks[at].base = self.list[base].parent;
    }
}
