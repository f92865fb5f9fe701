//! Builds the tree of each program, or the trees of one function.

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, CallSource, event_id};

use super::GraphOptions;
use super::tree::{Builder, Way};
use crate::follow::{Follower, Frame, PREEMPTED, Plain, SCHEDULE};
use crate::select::CallOptions;

pub(super) struct Graph<'a> {
    pub(super) follower: Follower<'a>,
    pub(super) builder: Builder,
    pub(super) function: Option<&'a str>,
    /// The program of each task, and the times between which it holds.
    pub(super) programs: Vec<(Option<usize>, (u64, u64))>,
    /// Process of each task, and the process that forked it.
    pub(super) processes: Vec<(i64, i64)>,
    /// What the last record of each task says: where a task begins with the end of its calls.
    pub(super) last_addresses: Vec<u64>,
    /// The same of what the system told last, of any task, and which tasks it was the last record of.
    pub(super) last_of_system: u64,
    pub(super) is_last_shared: Vec<bool>,
    /// By symbol: the number of its name and one, the largest number where more than its name decides; 0 when not known.
    pub(super) plain: Vec<usize>,
}

impl<'a> Graph<'a> {
    /// The trees of all programs of a source.
    pub(super) fn built(source: &'a dyn CallSource, calls: CallOptions, options: &'a GraphOptions) -> Self {
        let tasks = source.tasks();
        let mut graph = Graph {
            follower: Follower::new(source, calls),
            builder: Builder::new(source.programs().len(), tasks.len()),
            function: options.function.as_deref(),
            programs: vec![(None, (1, 0)); tasks.len()],
            processes: tasks.iter().map(|task| (task.pid, task.parent)).collect(),
            last_addresses: vec![0; tasks.len()],
            last_of_system: 0,
            is_last_shared: vec![false; tasks.len()],
            plain: Vec::new(),
        };
        graph.build();
        graph
    }

    pub(super) fn build(&mut self) {
        let mut time = 0;
        let is_plain = self.follower.is_plain() && self.function.is_none();
        loop {
            while is_plain && self.plain(&mut time) {}
            let Some(record) = self.follower.next() else { break };
            let at = record.task as usize;
            *self.last_address(&record) = record.address;
            self.is_last_shared[at] = self.is_shared(&record);
            if !self.follower.is_shown(&record) {
                continue;
            }
            if record.kind == CallKind::Lost {
                self.lost(&record, time);
                continue;
            }
            time = record.time;
            match record.kind {
                CallKind::Entry if self.follower.enter(&record) => {
                    self.record(&record);
                    self.follower.entered(at);
                }
                CallKind::Entry => {}
                CallKind::Exit => {
                    if self.follower.left_call(at).is_some() {
                        self.follower.leaving(at);
                        self.record(&record);
                    }
                    self.follower.left(at);
                }
                CallKind::Event if self.follower.is_event_shown(&record) => self.event(&record),
                _ => {}
            }
        }
        self.remaining();
        if self.function.is_none() {
            for tree in &mut self.builder.trees {
                let times = tree.nodes[0].children.iter().map(|&child| tree.nodes[child].time);
                let sum = times.fold(0u64, u64::wrapping_add);
                tree.nodes[0].time = tree.nodes[0].time.wrapping_add(sum);
                tree.nodes[0].child_time = tree.nodes[0].child_time.wrapping_add(sum);
            }
        }
    }

    /// Adds the next call, or its end, when nothing is special about it: true when it did.
    #[inline]
    pub(super) fn plain(&mut self, last: &mut u64) -> bool {
        let Some(&CallRecord { time, symbol, task, address, .. }) = self.follower.ready() else { return false };
        let at = task as usize;
        let name = match self.plain.get(symbol as usize) {
            Some(&name) if name > 0 => name - 1,
            _ => return symbol > 0 && self.learn(symbol, address),
        };
        let (program, valid) = self.programs[at];
        let place = &self.builder.places[at];
        let (Some(tree), Some(node)) = (place.tree, place.node) else { return false };
        let is_here = program == Some(tree) && place.node_tree == tree && valid.0 <= time && valid.1 == u64::MAX;
        let is_odd = place.has_moved || place.has_lost || place.enabled == 0 || name == usize::MAX - 1;
        if !is_here || is_odd || !self.builder.trees[tree].forks.is_empty() {
            return false;
        }
        let Some((plain, _)) = self.follower.take_plain() else { return false };
        (*last, self.last_addresses[at], self.is_last_shared[at]) = (time, address, false);
        self.follower.first_time = self.follower.first_time.min(time);
        let count = self.follower.tasks[at].stack_count;
        match plain {
            Plain::Leaf(taken) => {
                *last = time.wrapping_add(taken);
                let frame = self.follower.tasks[at].frame(count).copied();
                self.builder.enter(at, name, frame, self.processes[at].0);
                let place = &mut self.builder.places[at];
                if let Some(leaf) = place.node {
                    let leaf = &mut self.builder.trees[tree].nodes[leaf];
                    leaf.time = leaf.time.wrapping_add(taken);
                }
                place.node = Some(node);
            }
            Plain::Entered => {
                let frame = self.follower.tasks[at].frame(count - 1).copied();
                self.builder.enter(at, name, frame, self.processes[at].0);
            }
            Plain::Left(taken) => {
                let Some(frame) = self.follower.tasks[at].frame(count) else { return true };
                let left = &mut self.builder.trees[tree].nodes[node];
                left.time = left.time.wrapping_add(taken);
                left.child_time = left.child_time.wrapping_add(frame.child_time);
                self.builder.places[at].node = left.parent;
            }
        }
        true
    }

    /// Finds the name of a symbol out; false when more than the name decides what its calls do.
    #[cold]
    pub(super) fn learn(&mut self, symbol: u32, address: u64) -> bool {
        let at = symbol as usize;
        if self.plain.len() <= at {
            self.plain.resize(at + 1, 0);
        }
        let is_plain = self.follower.simply_returns(symbol, address);
        self.plain[at] =
            if is_plain { self.builder.symbol(&mut self.follower, symbol, address) + 1 } else { usize::MAX };
        is_plain
    }

    /// Finds the tree of a task at a time; false when there is none.
    pub(super) fn move_to(&mut self, at: usize, time: u64, address: u64) -> bool {
        let (program, valid) = &mut self.programs[at];
        if time < valid.0 || time >= valid.1 {
            (*program, *valid) = self.follower.source.program_at(at, time);
        }
        let tree = *program;
        let place = &mut self.builder.places[at];
        place.has_moved |= place.tree.is_some() && place.tree != tree;
        place.tree = tree;
        if self.function.is_none() && place.node.is_none() {
            self.start(at, address);
        }
        tree.is_some()
    }

    pub(super) fn start(&mut self, at: usize, address: u64) {
        let place = &mut self.builder.places[at];
        let Some(index) = place.tree else { return };
        place.enabled += 1;
        if place.enabled > 1 {
            return;
        }
        (place.node, place.node_tree) = (Some(0), index);
        let tree = &mut self.builder.trees[index];
        let root = &mut tree.nodes[0];
        root.address = address;
        root.calls += 1;
        let task = &self.follower.tasks[at];
        // Where only the kernel is wanted, the way begins behind what the task itself called.
        let skipped = if self.follower.options.only_kernel { task.user_stack_count } else { 0 };
        let frames = task.below(task.stack_count).iter().skip(usize::try_from(skipped).unwrap_or(0));
        let frames: Vec<_> = frames.map(|frame| (frame.address, frame.symbol)).collect();
        if frames.is_empty() {
            return;
        }
        let same = |way: &Way| way.frames.iter().map(|frame| frame.0).eq(frames.iter().map(|frame| frame.0));
        let way = tree.ways.iter().position(same).unwrap_or_else(|| {
            tree.ways.push(Way { frames: frames.clone(), hits: 0, time: 0 });
            tree.ways.len() - 1
        });
        tree.ways[way].hits += 1;
        self.builder.places[at].way = Some((index, way));
    }

    /// A task whose first call is met when all calls end: the root gets the address of its last record.
    pub(super) fn start_at_end(&mut self, at: usize) {
        let address = if self.is_last_shared[at] { self.last_of_system } else { self.last_addresses[at] };
        if let Some(tree) = self.builder.places[at].tree {
            self.builder.trees[tree].nodes[0].address = address;
        }
    }

    /// Does the peer keep the record in the one place that it has for all that the system tells?
    pub(super) fn is_shared(&self, record: &CallRecord) -> bool {
        record.origin == CallOrigin::System && self.follower.options.time_filter == 0
    }

    /// Where the address of the last record of a task is kept.
    pub(super) fn last_address(&mut self, record: &CallRecord) -> &mut u64 {
        if self.is_shared(record) { &mut self.last_of_system } else { &mut self.last_addresses[record.task as usize] }
    }

    pub(super) fn end(&mut self, at: usize) {
        let count = self.follower.tasks[at].stack_count;
        let frame = self.follower.tasks[at].frame(count).copied();
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

    pub(super) fn record(&mut self, record: &CallRecord) {
        let at = record.task as usize;
        if !self.move_to(at, record.time, record.address) {
            return;
        }
        if self.follower.is_skipped_library_call(record.symbol, record.address) {
            return;
        }
        let name = self.builder.symbol(&mut self.follower, record.symbol, record.address);
        let is_entry = record.kind == CallKind::Entry;
        if self.builder.places[at].enabled > 0 {
            self.add(at, name, record.address, is_entry);
        }
        if self.function.is_some_and(|function| self.builder.names[name] == function) {
            if is_entry {
                self.start(at, record.address);
            } else {
                self.end(at);
            }
        }
    }

    #[inline]
    pub(super) fn add(&mut self, at: usize, name: usize, address: u64, is_entry: bool) {
        let count = self.follower.tasks[at].stack_count;
        if is_entry {
            let frame = self.follower.tasks[at].frame(count - 1).copied();
            self.builder.enter(at, name, frame, self.processes[at].0);
        } else {
            let frame = self.follower.tasks[at].frame(count).copied();
            self.builder.leave(at, frame, address, self.processes[at].1, 0);
        }
    }

    pub(super) fn event(&mut self, record: &CallRecord) {
        let at = record.task as usize;
        let name = match record.address {
            event_id::SCHED_IN | event_id::SCHED_OUT => SCHEDULE,
            event_id::SCHED_OUT_PREEMPTED => PREEMPTED,
            _ => return,
        };
        if self.move_to(at, record.time, record.address) && self.builder.places[at].enabled > 0 {
            let name = self.builder.name(name);
            self.add(at, name, record.address, record.address != event_id::SCHED_IN);
            *self.last_address(record) = event_id::SCHED_IN;
        }
    }

    pub(super) fn lost(&mut self, record: &CallRecord, time: u64) {
        let at = record.task as usize;
        if self.follower.tasks[at].user_stack_count == 0 {
            return;
        }
        while self.follower.tasks[at].stack_count >= self.follower.tasks[at].user_stack_count {
            if let Some(frame) = self.follower.left_call(at).filter(|frame| frame.is_open) {
                self.exit_of(at, time, frame);
            }
            self.follower.left(at);
            self.follower.tasks[at].stack_count -= 1;
        }
        self.move_to(at, time, record.address);
        self.builder.places[at].has_lost = true;
    }

    pub(super) fn exit_of(&mut self, at: usize, time: u64, frame: Frame) {
        let record = CallRecord {
            time,
            address: frame.address,
            values: 0,
            symbol: frame.symbol,
            task: at as u32,
            values_len: 0,
            depth: 0,
            kind: CallKind::Exit,
            origin: CallOrigin::Task,
            has_values: false,
        };
        self.record(&record);
    }

    pub(super) fn remaining(&mut self) {
        for at in 0..self.follower.tasks.len() {
            let last = self.follower.end_of(at);
            while self.follower.tasks[at].stack_count > 0 {
                if let Some(frame) = self.follower.close(at, last) {
                    let program = self.programs[at].0;
                    if self.function.is_none() && program.is_none() && self.move_to(at, last, frame.address) {
                        self.start_at_end(at);
                    }
                    self.exit_of(at, last, frame);
                }
            }
        }
    }
}
