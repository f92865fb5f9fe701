//! Calls as trees: which function called which, how often, for how long. What `graph` and the folded stacks of a flame
//! graph print.

use std::collections::HashMap;
use std::io::{self, Write};

use tracemill_formats::calls::{CallKind, CallOrigin, CallRecord, CallSource, Color, Findings, Ink, event_id};

use crate::follow::{Follower, Frame, PREEMPTED, Plain, SCHEDULE};
use crate::json::{List, quoted};
use crate::select::CallOptions;
use crate::text::{put_blanks, put_painted_time};

/// A function where it was called from.
#[derive(Clone, Debug, Default)]
struct Node {
    name: usize,
    address: u64,
    symbol: u32,
    time: u64,
    child_time: u64,
    calls: u64,
    parent: Option<usize>,
    children: Vec<usize>,
}

/// The calls of a program, or of all.
#[derive(Debug)]
struct Tree {
    /// The first one is the root.
    nodes: Vec<Node>,
    /// Calls that forked: node and process.
    forks: Vec<(usize, i64)>,
    /// Ways to the function that is looked at, the newest last.
    ways: Vec<Way>,
}

/// A way to the function that is looked at.
#[derive(Debug)]
struct Way {
    frames: Vec<(u64, u32)>,
    hits: u64,
    time: u64,
}

impl Tree {
    fn new() -> Tree {
        Tree { nodes: vec![Node::default()], forks: Vec::new(), ways: Vec::new() }
    }
}

/// Where a task is.
#[derive(Clone, Debug, Default)]
struct Place {
    node: Option<usize>,
    /// The tree that the node is in: not that of the task any more when it goes on as another program.
    node_tree: usize,
    tree: Option<usize>,
    has_moved: bool,
    has_lost: bool,
    enabled: u32,
    /// The way to the function, by its tree and its place there.
    way: Option<(usize, usize)>,
}

/// Builds trees while records pass by.
struct Builder {
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    /// By symbol id: the number of the name, from 1.
    by_symbol: Vec<usize>,
    trees: Vec<Tree>,
    places: Vec<Place>,
    /// Children that were found: tree, caller, name, and the child.
    found: Vec<(usize, usize, usize, usize)>,
}

/// Children that are remembered: a power of two.
const FOUND: usize = 1024;

impl Builder {
    fn new(trees: usize, tasks: usize) -> Builder {
        Builder {
            names: Vec::new(),
            by_name: HashMap::new(),
            by_symbol: Vec::new(),
            trees: (0..trees).map(|_| Tree::new()).collect(),
            places: vec![Place::default(); tasks],
            found: vec![(usize::MAX, 0, 0, 0); FOUND],
        }
    }

    fn name(&mut self, name: &str) -> usize {
        if let Some(&at) = self.by_name.get(name) {
            return at;
        }
        self.by_name.insert(name.to_string(), self.names.len());
        self.names.push(name.to_string());
        self.names.len() - 1
    }

    #[inline]
    fn symbol(&mut self, follower: &mut Follower<'_>, symbol: u32, address: u64) -> usize {
        match self.by_symbol.get(symbol as usize) {
            Some(&name) if name > 0 => name - 1,
            _ => {
                let known = follower.known(symbol, address).symbol;
                let name = self.name(&known.name);
                if symbol > 0 && !known.name.starts_with(['<', '&']) {
                    let at = symbol as usize;
                    if self.by_symbol.len() <= at {
                        self.by_symbol.resize(at + 1, 0);
                    }
                    self.by_symbol[at] = name + 1;
                }
                name
            }
        }
    }

    /// A task calls a function.
    #[inline]
    fn enter(&mut self, task: usize, name: usize, frame: Option<Frame>, pid: i64) {
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
            let Frame { address, symbol, .. } = frame;
            tree.nodes.push(Node { name, address, symbol, parent: Some(at), ..Node::default() });
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
    fn leave(&mut self, task: usize, frame: Option<Frame>, address: u64, parent: i64, sample: u64) {
        let place = &mut self.places[task];
        let (Some(tree), Some(at), Some(frame)) = (place.tree, place.node, frame) else { return };
        // What the kernel still leaves was entered before records were lost.
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

/// How a graph looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphOptions {
    /// Columns.
    pub fields: Vec<GraphField>,
    /// Only what this function calls, and who calls it.
    pub function: Option<String>,
    /// Where the source text of functions begins.
    pub source_lines: bool,
}

impl Default for GraphOptions {
    fn default() -> Self {
        GraphOptions { fields: vec![GraphField::Total], function: None, source_lines: false }
    }
}

/// A column of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphField {
    /// Time from entry to exit.
    Total,
    /// The same without the times of callees.
    Own,
    /// Address.
    Address,
}

impl GraphField {
    /// The names that options use.
    pub const ALL: [(&'static str, GraphField); 6] = [
        ("total-time", GraphField::Total),
        ("self-time", GraphField::Own),
        ("address", GraphField::Address),
        ("total", GraphField::Total),
        ("self", GraphField::Own),
        ("addr", GraphField::Address),
    ];

    /// The field of a name.
    pub fn by_name(name: &str) -> Option<GraphField> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|&(_, field)| field)
    }

    fn header(self) -> &'static str {
        match self {
            GraphField::Total => "TOTAL TIME",
            GraphField::Own => " SELF TIME",
            GraphField::Address => "   ADDRESS  ",
        }
    }
}

/// Writes the graph of each program; gives what was wrong with the source.
///
/// # Errors
/// Those of the writer.
pub fn write(
    source: &dyn CallSource,
    calls: CallOptions,
    options: &GraphOptions,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let programs = source.programs();
    let (has_filter, ink) = (calls.has_filter(), calls.ink);
    let mut graph = Graph::built(source, calls, options);
    let mut order: Vec<usize> = (0..programs.len()).collect();
    // As uftrace lists them: the last process first, and of a process its last program.
    order.sort_by_key(|&at| std::cmp::Reverse((programs[at].pid, programs[at].start)));
    let mut text = Vec::new();
    let mut is_empty = true;
    for at in order {
        let tree = &graph.builder.trees[at];
        let root = &tree.nodes[0];
        if tree.ways.is_empty() && root.time == 0 && root.children.is_empty() {
            continue;
        }
        is_empty = false;
        let title = &*ink.escaped(options.function.as_deref().unwrap_or(&programs[at].name));
        let id = programs[at].id.get(..16).unwrap_or(&programs[at].id);
        text.extend_from_slice(format!("# Function Call Graph for '{title}' (session: {id})\n").as_bytes());
        if options.function.is_some() && !tree.ways.is_empty() {
            text.extend_from_slice(b"=============== BACKTRACE ===============\n");
            ways(source, tree, ink, &mut text);
        }
        if root.time > 0 || !root.children.is_empty() {
            text.extend_from_slice(b"========== FUNCTION CALL GRAPH ==========\n");
            let names = &graph.builder.names;
            let mut printer = Printer { source, tree, names, title, options, ink, lines: Vec::new(), text: &mut text };
            printer.tree();
        }
        out.write_all(&text)?;
        text.clear();
    }
    if is_empty {
        let function = options.function.as_deref().unwrap_or("_start");
        writeln!(out, "uftrace: cannot find graph for '{function}'")?;
        if has_filter {
            writeln!(out, "\t please check your filter settings.")?;
        }
    }
    Ok(graph.follower.take_findings())
}

fn ways(source: &dyn CallSource, tree: &Tree, ink: Ink, text: &mut Vec<u8>) {
    for (at, way) in tree.ways.iter().rev().enumerate() {
        text.extend_from_slice(format!(" backtrace #{at}: hit {}, time ", way.hits).as_bytes());
        put_painted_time(text, way.time, ink);
        text.push(b'\n');
        for (depth, &(address, symbol)) in way.frames.iter().enumerate() {
            let name = source.symbol(symbol, address).name;
            let name = ink.escaped(&name);
            text.extend_from_slice(format!("   [{depth}] {name} ({})\n", hex(address)).as_bytes());
        }
        text.push(b'\n');
    }
}

/// As `%#lx` of C.
fn hex(address: u64) -> String {
    if address == 0 { "0".into() } else { format!("{address:#x}") }
}

struct Graph<'a> {
    follower: Follower<'a>,
    builder: Builder,
    function: Option<&'a str>,
    /// The program of each task, and the times between which it holds.
    programs: Vec<(Option<usize>, (u64, u64))>,
    /// Process of each task, and the process that forked it.
    processes: Vec<(i64, i64)>,
    /// What the last record of each task says: where a task begins with the end of its calls.
    last_addresses: Vec<u64>,
    /// The same of what the system told last, of any task, and which tasks it was the last record of.
    last_of_system: u64,
    is_last_shared: Vec<bool>,
    /// By symbol: the number of its name and one, the largest number where more than its name decides; 0 when not known.
    plain: Vec<usize>,
}

impl<'a> Graph<'a> {
    /// The trees of all programs of a source.
    fn built(source: &'a dyn CallSource, calls: CallOptions, options: &'a GraphOptions) -> Self {
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

    fn build(&mut self) {
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
    fn plain(&mut self, last: &mut u64) -> bool {
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
    fn learn(&mut self, symbol: u32, address: u64) -> bool {
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
    fn move_to(&mut self, at: usize, time: u64, address: u64) -> bool {
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

    fn start(&mut self, at: usize, address: u64) {
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
    fn start_at_end(&mut self, at: usize) {
        let address = if self.is_last_shared[at] { self.last_of_system } else { self.last_addresses[at] };
        if let Some(tree) = self.builder.places[at].tree {
            self.builder.trees[tree].nodes[0].address = address;
        }
    }

    /// Does the peer keep the record in the one place that it has for all that the system tells?
    fn is_shared(&self, record: &CallRecord) -> bool {
        record.origin == CallOrigin::System && self.follower.options.time_filter == 0
    }

    /// Where the address of the last record of a task is kept.
    fn last_address(&mut self, record: &CallRecord) -> &mut u64 {
        if self.is_shared(record) { &mut self.last_of_system } else { &mut self.last_addresses[record.task as usize] }
    }

    fn end(&mut self, at: usize) {
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

    fn record(&mut self, record: &CallRecord) {
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
    fn add(&mut self, at: usize, name: usize, address: u64, is_entry: bool) {
        let count = self.follower.tasks[at].stack_count;
        if is_entry {
            let frame = self.follower.tasks[at].frame(count - 1).copied();
            self.builder.enter(at, name, frame, self.processes[at].0);
        } else {
            let frame = self.follower.tasks[at].frame(count).copied();
            self.builder.leave(at, frame, address, self.processes[at].1, 0);
        }
    }

    fn event(&mut self, record: &CallRecord) {
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

    fn lost(&mut self, record: &CallRecord, time: u64) {
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

    fn exit_of(&mut self, at: usize, time: u64, frame: Frame) {
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

    fn remaining(&mut self) {
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

/// Writes the same as JSON: for each program its ways to the function, and its calls as nodes that name their callers.
///
/// # Errors
/// Those of the writer.
pub fn write_json(
    source: &dyn CallSource,
    calls: CallOptions,
    options: &GraphOptions,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let programs = source.programs();
    let mut graph = Graph::built(source, calls, options);
    let mut list = List::new("graphs");
    for (program, tree) in programs.iter().zip(&graph.builder.trees) {
        let root = &tree.nodes[0];
        if tree.ways.is_empty() && root.time == 0 && root.children.is_empty() {
            continue;
        }
        let title = options.function.as_deref().unwrap_or(&program.name);
        let text = list.item();
        *text += &format!(
            "{{\"program\":{},\"session\":{},\"pid\":{}",
            quoted(&program.name),
            quoted(&program.id),
            program.pid
        );
        *text += &format!(",\"function\":{}", options.function.as_deref().map_or("null".to_string(), quoted));
        let frame = |&(address, symbol): &(u64, u32)| {
            format!("{{\"name\":{},\"address\":{address}}}", quoted(&source.symbol(symbol, address).name))
        };
        let ways = tree.ways.iter().rev().map(|way| {
            let frames: Vec<String> = way.frames.iter().map(frame).collect();
            format!("{{\"hits\":{},\"time_ns\":{},\"frames\":[{}]}}", way.hits, way.time, frames.join(","))
        });
        *text += &format!(",\"backtraces\":[{}],\"nodes\":[", ways.collect::<Vec<_>>().join(","));
        for (id, node) in tree.flat(&graph.builder.names, title).into_iter().enumerate() {
            let parent = if id == 0 { "null".to_string() } else { node.parent.to_string() };
            let separator = if id == 0 { "\n" } else { ",\n" };
            let Flat { name, address, calls, total, own, .. } = node;
            *text += &format!(
                "{separator}{{\"id\":{id},\"parent\":{parent},\"name\":{},\"address\":{address},\"calls\":{calls},\
                 \"total_ns\":{total},\"self_ns\":{own}}}",
                quoted(&name)
            );
        }
        *text += "]}";
    }
    list.end(out)?;
    Ok(graph.follower.take_findings())
}

struct Printer<'a> {
    source: &'a dyn CallSource,
    tree: &'a Tree,
    names: &'a [String],
    title: &'a str,
    options: &'a GraphOptions,
    ink: Ink,
    /// For each level: does a line go down there?
    lines: Vec<bool>,
    text: &'a mut Vec<u8>,
}

impl Printer<'_> {
    fn tree(&mut self) {
        let fields = &self.options.fields;
        for (at, field) in fields.iter().enumerate() {
            self.text.extend_from_slice(if at == 0 { b"# " } else { b"  " });
            self.text.extend_from_slice(field.header().as_bytes());
        }
        if !fields.is_empty() {
            self.text.extend_from_slice(b"   FUNCTION");
            if self.options.source_lines {
                self.ink.put(self.text, Color::Gray, " [SOURCE]");
            }
            self.text.push(b'\n');
        }
        // A node, or a blank line behind it; deep trees do not fit the stack of a thread.
        enum Step {
            Node { node: usize, level: usize, has_line: bool, is_last: bool },
            Blank(usize),
            Done(usize),
        }
        let root_has_line = self.tree.nodes[0].children.len() > 1;
        let mut steps = vec![Step::Node { node: 0, level: 0, has_line: root_has_line, is_last: true }];
        while let Some(step) = steps.pop() {
            match step {
                Step::Blank(level) => {
                    self.empty_fields();
                    self.indent(level, false);
                    self.text.push(b'\n');
                }
                Step::Done(level) => self.set_line(level, false),
                Step::Node { node, level, has_line, is_last } => {
                    self.node(node, level, has_line);
                    let Node { children, parent, .. } = &self.tree.nodes[node];
                    let siblings = parent.map_or(0, |parent| self.tree.nodes[parent].children.len());
                    let mut below = level;
                    if children.len() > 1 {
                        self.set_line(level, true);
                        below += 1;
                    }
                    if siblings > 1 && level > 0 && is_last {
                        self.set_line(level - 1, false);
                    }
                    steps.push(Step::Done(level));
                    for (at, &child) in children.iter().enumerate().rev() {
                        let is_last = at + 1 == children.len();
                        if !is_last {
                            steps.push(Step::Blank(below));
                        }
                        let has_line = children.len() > 1;
                        steps.push(Step::Node { node: child, level: below, has_line, is_last });
                    }
                }
            }
        }
        self.text.push(b'\n');
    }

    fn set_line(&mut self, level: usize, is_there: bool) {
        if self.lines.len() <= level {
            self.lines.resize(level + 1, false);
        }
        self.lines[level] = is_there;
    }

    fn node(&mut self, at: usize, level: usize, has_line: bool) {
        let node = &self.tree.nodes[at];
        for field in &self.options.fields {
            put_blanks(self.text, 2);
            match field {
                GraphField::Total => put_painted_time(self.text, node.time, self.ink),
                GraphField::Own => put_painted_time(self.text, node.time.wrapping_sub(node.child_time), self.ink),
                GraphField::Address => {
                    let address = node.address & 0xffff_ffff_ffff;
                    self.text.extend_from_slice(format!("{address:12x}").as_bytes());
                }
            }
        }
        if !self.options.fields.is_empty() {
            self.text.extend_from_slice(b" : ");
        }
        self.indent(level, has_line);
        let is_root = at == 0;
        let calls = if is_root && self.options.function.is_none() { 1 } else { node.calls };
        let name = match is_root {
            // As uftrace names what began with one of these events.
            true if node.address == event_id::SCHED_IN => SCHEDULE,
            true => self.title,
            false => &self.names[node.name],
        };
        self.text.extend_from_slice(format!("({calls}) {name}").as_bytes());
        if self.options.source_lines
            && !is_root
            && let Some((file, line)) = self.source.source_line(node.symbol)
        {
            let place = format!(" [{}:{line}]", self.ink.escaped(&file));
            self.ink.put(self.text, Color::Gray, &place);
        }
        self.text.push(b'\n');
    }

    fn empty_fields(&mut self) {
        for field in &self.options.fields {
            put_blanks(self.text, field.header().len() + 2);
        }
        if !self.options.fields.is_empty() {
            self.text.extend_from_slice(b" : ");
        }
    }

    fn indent(&mut self, level: usize, has_line: bool) {
        put_indent(self.text, &self.lines, level, has_line);
    }
}

/// Appends what stands before a name: lines that go down, and one to the name.
pub(crate) fn put_indent(text: &mut Vec<u8>, lines: &[bool], level: usize, has_line: bool) {
    let is_line = |at: usize| lines.get(at).copied().unwrap_or(false);
    let last = if has_line { (0..level).rev().find(|&at| is_line(at)) } else { None };
    for at in 0..level {
        let piece = match last {
            Some(last) if at == last => b" +-",
            Some(last) if at > last => b"---",
            None if has_line => b"---",
            _ => [b"   ", b" | "][usize::from(is_line(at))],
        };
        text.extend_from_slice(piece);
    }
}

/// Writes stacks with the samples that they take, one a line, as flame graphs are made of; `sample` is the time of a
/// sample in ns, 0 to count calls. Gives what was wrong with the source.
///
/// # Errors
/// Those of the writer.
pub fn write_folded(
    source: &dyn CallSource,
    calls: CallOptions,
    sample: u64,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let (builder, findings) = joined(source, calls, sample);
    let tree = &builder.trees[0];
    let mut text = Vec::new();
    // Nodes with the length of the stack before them.
    let mut open: Vec<(usize, usize)> = vec![(0, 0)];
    let mut stack = String::new();
    while let Some((at, before)) = open.pop() {
        let node = &tree.nodes[at];
        stack.truncate(before);
        if at > 0 {
            stack += if before > 0 { ";" } else { "" };
            stack += &builder.names[node.name];
            let own = node.time.wrapping_sub(node.child_time);
            let samples = own.checked_div(sample).unwrap_or(node.calls);
            if samples > 0 {
                text.extend_from_slice(format!("{stack} {samples}\n").as_bytes());
            }
        }
        open.extend(node.children.iter().rev().map(|&child| (child, stack.len())));
    }
    out.write_all(&text)?;
    Ok(findings)
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

/// The calls of all programs as one tree, the root first. Gives what was wrong with the source.
pub(crate) fn flat(source: &dyn CallSource, calls: CallOptions) -> (Vec<Flat>, Findings) {
    let (builder, findings) = joined(source, calls, 0);
    (builder.trees[0].flat(&builder.names, ""), findings)
}

/// Writes the tree of all calls in the language of Graphviz. Gives what was wrong with the source.
///
/// # Errors
/// Those of the writer.
pub fn write_graphviz(source: &dyn CallSource, calls: CallOptions, out: &mut dyn Write) -> io::Result<Findings> {
    let (builder, findings) = joined(source, calls, 0);
    let recording = source.recording();
    let program = recording.program.unwrap_or_default();
    let quoted = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = String::new();
    // The first line is uftrace's own, its quote included.
    if let Some(version) = recording.version {
        text += &format!("# version\":\"{version}\"\n");
    }
    if let Some(command) = recording.command {
        text += &format!("# command_line \"{command}\"\n");
    }
    text += &format!("\ndigraph \"{}\" {{ \n", quoted(&program));
    builder.trees[0].walk(|parent, node, _| {
        let of = if parent == 0 { &program } else { &builder.names[builder.trees[0].nodes[parent].name] };
        let Node { name, calls, .. } = &builder.trees[0].nodes[node];
        let name = quoted(&builder.names[*name]);
        text += &format!("    \"{}\" -> \"{name}\" [xlabel = \"{calls}\"]\n", quoted(of));
    });
    text += "}\n";
    out.write_all(text.as_bytes())?;
    Ok(findings)
}

/// Writes the tree of all calls as a page that Mermaid draws. Gives what was wrong with the source.
///
/// # Errors
/// Those of the writer.
pub fn write_mermaid(source: &dyn CallSource, calls: CallOptions, out: &mut dyn Write) -> io::Result<Findings> {
    let (builder, findings) = joined(source, calls, 0);
    let program = source.recording().program.unwrap_or_default();
    let tree = &builder.trees[0];
    let escaped =
        |name: &str| name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "#quot;");
    let mut text = format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n</head>\n<body>\n\
         <h2>Function Call Graph for {title}</h2>\n<pre class=\"mermaid\">\nflowchart TB\n",
        title = escaped(&program)
    );
    tree.walk(|parent, node, depth| {
        let of = if parent == 0 { &program } else { &builder.names[tree.nodes[parent].name] };
        let Node { name, calls, .. } = &tree.nodes[node];
        let (of, name) = (escaped(of), escaped(&builder.names[*name]));
        text += &format!("  {}_{parent}[\"{of}\"] -->|{calls}| {depth}_{node}[\"{name}\"];\n", depth - 1);
    });
    text += "</pre>\n<script src=\"https://cdn.jsdelivr.net/npm/mermaid/dist/mermaid.min.js\"></script>\n\
             <script>mermaid.initialize({ startOnLoad: true, maxTextSize: 99999999 });</script>\n</body>\n</html>\n";
    out.write_all(text.as_bytes())?;
    Ok(findings)
}

impl Tree {
    /// Its nodes in a list.
    fn flat(&self, names: &[String], root: &str) -> Vec<Flat> {
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
    fn walk(&self, mut see: impl FnMut(usize, usize, usize)) {
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

/// The calls of all programs as one tree. The times of callees count in whole samples, when there are samples.
fn joined(source: &dyn CallSource, calls: CallOptions, sample: u64) -> (Builder, Findings) {
    let mut builder = Builder::new(1, source.tasks().len());
    for place in &mut builder.places {
        place.tree = Some(0);
    }
    let mut follower = Follower::new(source, calls);
    while let Some(record) = follower.next() {
        if !follower.is_shown(&record) {
            continue;
        }
        let at = record.task as usize;
        match record.kind {
            CallKind::Entry if follower.enter(&record) => {
                if !follower.is_skipped_library_call(record.symbol, record.address) {
                    let name = builder.symbol(&mut follower, record.symbol, record.address);
                    fold(&mut follower, &mut builder, at, name, record.address, true, sample);
                }
                follower.entered(at);
            }
            CallKind::Exit => {
                if follower.left_call(at).is_some() {
                    follower.leaving(at);
                    if !follower.is_skipped_library_call(record.symbol, record.address) {
                        fold(&mut follower, &mut builder, at, 0, record.address, false, sample);
                    }
                }
                follower.left(at);
            }
            CallKind::Event if follower.is_event_shown(&record) => {
                if matches!(record.address, event_id::SCHED_IN | event_id::SCHED_OUT) {
                    let name = builder.name(SCHEDULE);
                    let is_entry = record.address == event_id::SCHED_OUT;
                    fold(&mut follower, &mut builder, at, name, record.address, is_entry, sample);
                }
            }
            _ => {}
        }
    }
    for at in 0..follower.tasks.len() {
        let last = follower.last_of(at);
        while follower.tasks[at].stack_count > 0 {
            // Neither does an exit count where a trigger put everything out.
            let closed = follower.close(at, last).filter(|frame| !frame.is_hidden && follower.is_enabled);
            if let Some(frame) = closed.filter(|frame| !follower.is_outside(at, frame)) {
                if !follower.is_skipped_library_call(frame.symbol, frame.address) {
                    fold(&mut follower, &mut builder, at, 0, frame.address, false, sample);
                }
                follower.left(at);
            }
        }
    }
    let findings = follower.take_findings();
    (builder, findings)
}

fn fold(
    follower: &mut Follower<'_>,
    builder: &mut Builder,
    at: usize,
    name: usize,
    address: u64,
    is_entry: bool,
    sample: u64,
) {
    builder.places[at].node.get_or_insert(0);
    let count = follower.tasks[at].stack_count;
    let task = &follower.source.tasks()[at];
    if is_entry {
        let frame = follower.tasks[at].frame(count - 1).copied();
        builder.enter(at, name, frame, task.pid);
    } else {
        let frame = follower.tasks[at].frame(count).copied();
        builder.leave(at, frame, address, task.parent, sample);
    }
}
