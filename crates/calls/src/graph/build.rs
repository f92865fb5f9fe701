//! Builds the tree of each program, or the trees of one function.

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, CallSource, Findings, event_id};

use super::GraphOptions;
use super::tree::CallTreeBuilder;
use crate::follow::{FastStep, Follower, PREEMPTED, SCHEDULE, ShownRecord, StackFrame};
use crate::select::CallOptions;
use crate::task_partitions;

/// The trees of all programs of a source, and what was wrong with it.
pub(super) fn trees(
    source: &dyn CallSource,
    calls: CallOptions,
    options: &GraphOptions,
) -> (CallTreeBuilder, Findings) {
    let built = |follower: Follower<'_>| Graph::built(follower, options);
    // Records of a process may end calls of the process that forked it, so forked tasks are followed together.
    let parts = if is_forked(source) { None } else { task_partitions::follow(source, &calls, built) };
    let (mut builder, findings) = match parts {
        Some(parts) => (CallTreeBuilder::joined(&parts, source.programs().len()), Findings::default()),
        None => built(Follower::new(source, calls)),
    };
    if options.function.is_none() {
        for tree in &mut builder.trees {
            let times = tree.nodes[0].children.iter().map(|&child| tree.nodes[child].time);
            let sum = times.fold(0u64, u64::wrapping_add);
            tree.nodes[0].time = tree.nodes[0].time.wrapping_add(sum);
            tree.nodes[0].child_time = tree.nodes[0].child_time.wrapping_add(sum);
        }
    }
    (builder, findings)
}

/// May a task begin inside of the calls of another one?
pub(crate) fn is_forked(source: &dyn CallSource) -> bool {
    source.tasks().iter().any(|task| task.parent != 0 || task.pid == 0)
}

struct Graph<'a, 'o> {
    follower: Follower<'a>,
    builder: CallTreeBuilder,
    function: Option<&'o str>,
    /// The program of each task, and the times between which it holds.
    programs: Vec<(Option<usize>, (u64, u64))>,
    /// Process of each task, and the process that forked it.
    processes: Vec<(i64, i64)>,
    /// Address of the last record of each task: where a task begins with the end of its calls.
    last_addresses: Vec<u64>,
    /// Address of the last record of the system, of any task, and the tasks whose last record is one.
    last_of_system: u64,
    is_last_shared: Vec<bool>,
    /// Were all records taken?
    is_at_end: bool,
}

/// A call that begins or ends.
#[derive(Clone, Copy)]
struct Change {
    task: usize,
    time: u64,
    address: u64,
    symbol: u32,
    /// Place of the call on the stack.
    place: isize,
    is_entry: bool,
}

impl Change {
    /// The end of a call whose exit is missing.
    fn end_of(task: usize, time: u64, place: isize, frame: &StackFrame) -> Self {
        Change { task, time, address: frame.address, symbol: frame.symbol, place, is_entry: false }
    }
}

impl<'a, 'o> Graph<'a, 'o> {
    /// The trees of all that a follower has, and what was wrong with it.
    fn built(follower: Follower<'a>, options: &'o GraphOptions) -> (CallTreeBuilder, Findings) {
        let (tasks, programs) = (follower.source.tasks(), follower.source.programs());
        let mut graph = Graph {
            builder: CallTreeBuilder::new(programs.len(), tasks.len()),
            function: options.function.as_deref(),
            programs: vec![(None, (1, 0)); tasks.len()],
            processes: tasks.iter().map(|task| (task.pid, task.parent)).collect(),
            last_addresses: vec![0; tasks.len()],
            last_of_system: 0,
            is_last_shared: vec![false; tasks.len()],
            is_at_end: false,
            follower,
        };
        graph.build();
        (graph.builder, graph.follower.take_findings())
    }

    fn build(&mut self) {
        let mut last = 0;
        let has_fast_path = self.follower.has_fast_path() && self.function.is_none();
        loop {
            while has_fast_path && self.fast(&mut last) {}
            let Some(record) = self.follower.next() else { break };
            let CallRecord { time, address, symbol, kind, .. } = record;
            let task = record.task as usize;
            *self.last_address(&record) = address;
            self.is_last_shared[task] = self.is_shared(&record);
            if !self.follower.is_shown(&record) {
                continue;
            }
            if kind != CallKind::Lost {
                last = time;
            }
            let Some(ShownRecord { place, .. }) = self.follower.step_seen(&record) else { continue };
            match kind {
                CallKind::Entry | CallKind::Exit => {
                    self.change(Change { task, time, address, symbol, place, is_entry: kind == CallKind::Entry });
                }
                CallKind::Event => self.event(&record, place),
                CallKind::Lost => self.lost(task, last, address),
            }
        }
        self.is_at_end = true;
        self.remaining();
    }

    /// Adds the next call, or its end, when nothing is special about it: true when it did.
    #[inline]
    fn fast(&mut self, last: &mut u64) -> bool {
        let Some(&CallRecord { time, symbol, task, address, .. }) = self.follower.ready() else { return false };
        let at = task as usize;
        let Some(name) = self.builder.names.known_number(symbol) else { return false };
        let (program, valid) = self.programs[at];
        let place = &self.builder.places[at];
        let (Some(tree), Some(node)) = (place.tree, place.node) else { return false };
        let is_here = program == Some(tree) && place.node_tree == tree && valid.0 <= time && valid.1 == u64::MAX;
        let is_odd = place.has_moved || place.has_lost || place.enabled == 0;
        if !is_here || is_odd || !self.builder.trees[tree].forks.is_empty() {
            return false;
        }
        let Some((step, _)) = self.follower.take_fast() else { return false };
        (*last, self.last_addresses[at], self.is_last_shared[at]) = (time, address, false);
        let count = self.follower.tasks[at].stack_count;
        match step {
            FastStep::Leaf(taken) => {
                *last = time.wrapping_add(taken);
                let frame = self.follower.tasks[at].frame(count).copied();
                self.builder.enter(at, name, frame, (self.processes[at].0, (time, task)));
                let place = &mut self.builder.places[at];
                if let Some(leaf) = place.node {
                    let leaf = &mut self.builder.trees[tree].nodes[leaf];
                    leaf.time = leaf.time.wrapping_add(taken);
                }
                place.node = Some(node);
            }
            FastStep::Entered => {
                let frame = self.follower.tasks[at].frame(count - 1).copied();
                self.builder.enter(at, name, frame, (self.processes[at].0, (time, task)));
            }
            FastStep::Left(taken) => {
                let Some(frame) = self.follower.tasks[at].frame(count) else { return true };
                let left = &mut self.builder.trees[tree].nodes[node];
                left.time = left.time.wrapping_add(taken);
                left.child_time = left.child_time.wrapping_add(frame.child_time);
                self.builder.places[at].node = left.parent;
            }
        }
        true
    }

    /// Finds the tree of a task at a time; false when there is none. `open` calls of the task are open.
    fn move_to(&mut self, at: usize, time: u64, address: u64, open: isize) -> bool {
        let (program, valid) = &mut self.programs[at];
        if time < valid.0 || time >= valid.1 {
            (*program, *valid) = self.follower.source.program_at(at, time);
        }
        let tree = *program;
        let place = &mut self.builder.places[at];
        place.has_moved |= place.tree.is_some() && place.tree != tree;
        place.tree = tree;
        if self.function.is_none() && place.node.is_none() {
            self.start(at, time, address, open);
        }
        tree.is_some()
    }

    fn start(&mut self, at: usize, time: u64, address: u64, open: isize) {
        let place = &mut self.builder.places[at];
        let Some(index) = place.tree else { return };
        place.enabled += 1;
        if place.enabled > 1 {
            return;
        }
        (place.node, place.node_tree) = (Some(0), index);
        let tree = &mut self.builder.trees[index];
        let root = &mut tree.nodes[0];
        let met = if self.is_at_end { (u64::MAX, at as u32) } else { self.follower.moment(at, time) };
        (root.address, root.met) = (address, met);
        root.calls += 1;
        let task = &self.follower.tasks[at];
        // Where only the kernel is wanted, the way begins after what the task itself called.
        let skipped = if self.follower.options.kernel.only { task.user_stack_count } else { 0 };
        let frames = task.below(open).iter().skip(usize::try_from(skipped).unwrap_or(0));
        let frames: Vec<_> = frames.map(|frame| (frame.address, frame.symbol)).collect();
        if frames.is_empty() {
            return;
        }
        let way = tree.way(frames, met);
        tree.ways[way].hits += 1;
        self.builder.places[at].way = Some((index, way));
    }

    /// A task whose first call is met when all calls end: the root gets the address of its last record.
    fn start_at_end(&mut self, at: usize) {
        let address = if self.is_last_shared[at] {
            // It may be that of a task which others follow.
            self.follower.want_all();
            self.last_of_system
        } else {
            self.last_addresses[at]
        };
        if let Some(tree) = self.builder.places[at].tree {
            self.builder.trees[tree].nodes[0].address = address;
        }
    }

    /// Does uftrace keep the record in the one place that it has for all that the system reports?
    fn is_shared(&self, record: &CallRecord) -> bool {
        record.origin == CallOrigin::System && self.follower.options.time_filter == 0
    }

    /// Where the address of the last record of a task is kept.
    fn last_address(&mut self, record: &CallRecord) -> &mut u64 {
        if self.is_shared(record) { &mut self.last_of_system } else { &mut self.last_addresses[record.task as usize] }
    }

    fn end(&mut self, at: usize, place: isize) {
        let frame = self.follower.tasks[at].frame(place).copied();
        let place = &mut self.builder.places[at];
        if place.enabled == 0 {
            return;
        }
        place.enabled -= 1;
        if place.enabled > 0 {
            return;
        }
        place.has_lost = false;
        if let (Some((tree, way)), Some(frame)) = (place.way.take(), frame) {
            let way = &mut self.builder.trees[tree].ways[way];
            way.time = way.time.wrapping_add(frame.time);
        }
    }

    fn change(&mut self, change: Change) {
        let Change { task, time, address, symbol, place, is_entry } = change;
        let open = place + isize::from(is_entry);
        if !self.move_to(task, time, address, open) || self.follower.is_skipped_library_call(symbol, address) {
            return;
        }
        let name = self.builder.names.intern_symbol(&mut self.follower, symbol, address);
        if self.builder.places[task].enabled > 0 {
            self.builder.add(&mut self.follower, (task, place), (name, address, time), is_entry, 0);
        }
        if self.function.is_some_and(|function| self.builder.names[name] == function) {
            if is_entry { self.start(task, time, address, open) } else { self.end(task, place) }
        }
    }

    fn event(&mut self, record: &CallRecord, place: isize) {
        let at = record.task as usize;
        let name = match record.address {
            event_id::SCHED_IN | event_id::SCHED_OUT => SCHEDULE,
            event_id::SCHED_OUT_PREEMPTED => PREEMPTED,
            _ => return,
        };
        let open = self.follower.tasks[at].stack_count;
        if self.move_to(at, record.time, record.address, open) && self.builder.places[at].enabled > 0 {
            let name = self.builder.names.number(name);
            let what = (name, record.address, record.time);
            self.builder.add(&mut self.follower, (at, place), what, record.is_sched_out(), 0);
            *self.last_address(record) = event_id::SCHED_IN;
        }
    }

    fn lost(&mut self, at: usize, time: u64, address: u64) {
        if self.follower.tasks[at].user_stack_count == 0 {
            return;
        }
        for (place, frame) in self.follower.end_at_loss(at) {
            self.change(Change::end_of(at, time, place, &frame));
        }
        self.move_to(at, time, address, self.follower.tasks[at].stack_count);
        self.builder.places[at].has_lost = true;
    }

    fn remaining(&mut self) {
        for at in 0..self.follower.tasks.len() {
            let last = self.follower.end_of(at);
            while self.follower.tasks[at].stack_count > 0 {
                let Some(frame) = self.follower.close(at, last) else { continue };
                let place = self.follower.tasks[at].stack_count;
                let is_first = self.function.is_none() && self.programs[at].0.is_none();
                if is_first && self.move_to(at, last, frame.address, place) {
                    self.start_at_end(at);
                }
                self.change(Change::end_of(at, last, place, &frame));
            }
        }
    }
}
