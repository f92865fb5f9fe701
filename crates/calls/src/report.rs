//! Statistics of functions: how often they were called, how long they took.

use std::collections::HashMap;
use std::io::{self, Write};

use tracemill_formats::calls::{CallKind, CallOrigin, CallRecord, CallSource, Findings, event_id};

use crate::follow::Follower;
use crate::select::CallOptions;
use crate::text::{put_blanks, put_padded, put_time};

/// Sum, smallest and largest of times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Sum, without recursive calls.
    pub sum: u64,
    /// Sum of recursive calls.
    pub recursive: u64,
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
}

impl Default for Times {
    fn default() -> Self {
        Times { sum: 0, recursive: 0, min: u64::MAX, max: 0 }
    }
}

impl Times {
    #[inline]
    fn add(&mut self, ns: u64, is_recursive: bool) {
        let sum = if is_recursive { &mut self.recursive } else { &mut self.sum };
        *sum = sum.wrapping_add(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// The mean, recursive calls included.
    pub fn mean(&self, calls: u64) -> u64 {
        self.sum.wrapping_add(self.recursive).checked_div(calls).unwrap_or(0)
    }
}

/// What is known of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionStats {
    /// Its name.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Size in bytes; 0 when unknown.
    pub size: u64,
    /// Times from entry to exit.
    pub total: Times,
    /// The same without the times of callees.
    pub own: Times,
}

/// A column of the table, or a key to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Sum of all times.
    Total,
    /// Mean.
    TotalMean,
    /// Smallest.
    TotalMin,
    /// Largest.
    TotalMax,
    /// The same of own times.
    Own,
    /// Mean.
    OwnMean,
    /// Smallest.
    OwnMin,
    /// Largest.
    OwnMax,
    /// Number of calls.
    Calls,
    /// Size of the function.
    Size,
    /// Its name: a key only.
    Name,
}

impl Column {
    /// All of them with the names that options use.
    pub const ALL: [(&'static str, Column); 11] = [
        ("total", Column::Total),
        ("total-avg", Column::TotalMean),
        ("total-min", Column::TotalMin),
        ("total-max", Column::TotalMax),
        ("self", Column::Own),
        ("self-avg", Column::OwnMean),
        ("self-min", Column::OwnMin),
        ("self-max", Column::OwnMax),
        ("call", Column::Calls),
        ("size", Column::Size),
        ("func", Column::Name),
    ];

    /// The column of a name; `_` is `-`.
    pub fn by_name(name: &str) -> Option<Column> {
        let name = name.replace('_', "-");
        Column::ALL.iter().find(|(known, _)| *known == name).map(|&(_, column)| column)
    }

    fn header(self) -> &'static str {
        match self {
            Column::Total => "Total time",
            Column::TotalMean => "Total avg",
            Column::TotalMin => "Total min",
            Column::TotalMax => "Total max",
            Column::Own => "Self time",
            Column::OwnMean => "Self avg",
            Column::OwnMin => "Self min",
            Column::OwnMax => "Self max",
            Column::Calls => "Calls",
            Column::Size => "Size",
            Column::Name => "",
        }
    }

    /// The value of a function.
    pub fn value(self, stats: &FunctionStats) -> u64 {
        match self {
            Column::Total => stats.total.sum,
            Column::TotalMean => stats.total.mean(stats.calls),
            Column::TotalMin => stats.total.min,
            Column::TotalMax => stats.total.max,
            Column::Own => stats.own.sum,
            Column::OwnMean => stats.own.mean(stats.calls),
            Column::OwnMin => stats.own.min,
            Column::OwnMax => stats.own.max,
            Column::Calls => stats.calls,
            Column::Size => stats.size,
            Column::Name => 0,
        }
    }
}

/// How the table looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOptions {
    /// Columns.
    pub columns: Vec<Column>,
    /// Keys to sort by, largest first; names in their order.
    pub keys: Vec<Column>,
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions { columns: vec![Column::Total, Column::Own, Column::Calls], keys: vec![Column::Total] }
    }
}

/// Name of a time without processor.
const SCHEDULE: &str = "linux:schedule";
/// Name of one that the system has chosen.
const PREEMPTED: &str = "linux:schedule (pre-empted)";

/// The statistics of all functions of a source, in the order of their names, and what was wrong with it.
pub fn functions(source: &dyn CallSource, options: CallOptions) -> (Vec<FunctionStats>, Findings) {
    let mut table =
        Table { by_name: HashMap::new(), by_symbol: Vec::new(), all: Vec::new(), sizes: vec![0; source.tasks().len()] };
    let mut follower = Follower::new(source, options);
    while let Some(record) = follower.next() {
        table.record(&mut follower, &record);
    }
    table.remaining(&mut follower);
    table.all.sort_by(|a, b| a.name.cmp(&b.name));
    (table.all, follower.take_findings())
}

struct Table {
    by_name: HashMap<String, usize>,
    /// By symbol id: the number of the function, from 1, and the size of the symbol.
    by_symbol: Vec<(u32, u32)>,
    all: Vec<FunctionStats>,
    /// For each task the size of the function that it was in last: where a name stands for several functions, and for
    /// times without processor, the last one counts.
    sizes: Vec<u64>,
}

impl Table {
    #[inline]
    fn record(&mut self, follower: &mut Follower<'_>, record: &CallRecord) {
        let at = record.task as usize;
        if record.origin == CallOrigin::Kernel && !follower.is_shown(record) {
            return;
        }
        match record.kind {
            CallKind::Entry => {
                if follower.enter(record) {
                    follower.entered(at);
                }
            }
            CallKind::Exit => {
                let task = &mut follower.tasks[at];
                let count = task.stack_count;
                let Some(frame) = task.frame(count) else { return };
                if !frame.is_hidden {
                    follower.leaving(at);
                    let is_left_out = follower.options.no_library_calls
                        && follower.known(record.symbol, record.address).symbol.is_library_call;
                    if !is_left_out {
                        let node = self.of_symbol(follower, at, record.symbol, record.address);
                        self.add(follower, at, node);
                    }
                }
                follower.left(at);
            }
            CallKind::Event => self.event(follower, record),
            CallKind::Lost => {
                while follower.tasks[at].stack_count >= follower.tasks[at].user_stack_count {
                    let count = follower.tasks[at].stack_count;
                    let frame = follower.tasks[at].frame(count).copied();
                    if let Some(frame) = frame.filter(|frame| frame.is_open && !frame.is_hidden) {
                        let node = self.of_symbol(follower, at, frame.symbol, frame.address);
                        self.add(follower, at, node);
                    }
                    follower.left(at);
                    follower.tasks[at].stack_count -= 1;
                }
            }
        }
    }

    fn event(&mut self, follower: &mut Follower<'_>, record: &CallRecord) {
        let at = record.task as usize;
        if !follower.is_shown(record) || !follower.is_event_shown(at) || record.address != event_id::SCHED_IN {
            return;
        }
        let count = follower.tasks[at].stack_count;
        let name = match follower.tasks[at].frame(count).map(|frame| frame.address) {
            Some(event_id::SCHED_OUT) => SCHEDULE,
            Some(event_id::SCHED_OUT_PREEMPTED) => PREEMPTED,
            _ => return,
        };
        let node = self.of_name(name);
        self.add(follower, at, node);
    }

    /// Calls that are open at the end last until the task's last record.
    fn remaining(&mut self, follower: &mut Follower<'_>) {
        for at in 0..follower.tasks.len() {
            let last = follower.end_of(at);
            while follower.tasks[at].stack_count > 0 {
                follower.tasks[at].stack_count -= 1;
                let task = &mut follower.tasks[at];
                let count = task.stack_count;
                let Some(frame) = task.frame(count) else { continue };
                if frame.time > last {
                    continue;
                }
                frame.time = (last - frame.time).max(frame.child_time);
                let frame = *frame;
                if let Some(parent) = task.frame(count - 1) {
                    parent.child_time = parent.child_time.wrapping_add(frame.time);
                }
                let node = match frame.address {
                    event_id::SCHED_IN => self.of_name(SCHEDULE),
                    address => self.of_symbol(follower, at, frame.symbol, address),
                };
                self.add(follower, at, node);
            }
        }
    }

    #[inline]
    fn of_symbol(&mut self, follower: &mut Follower<'_>, task: usize, symbol: u32, address: u64) -> usize {
        match self.by_symbol.get(symbol as usize) {
            Some(&(node, size)) if node > 0 => {
                self.sizes[task] = size.into();
                node as usize - 1
            }
            _ => self.new_symbol(follower, task, symbol, address),
        }
    }

    #[cold]
    fn new_symbol(&mut self, follower: &mut Follower<'_>, task: usize, symbol: u32, address: u64) -> usize {
        let known = follower.known(symbol, address).symbol;
        let node = self.of_name(&known.name);
        self.sizes[task] = known.size;
        if !known.name.starts_with('<') {
            let at = symbol as usize;
            if self.by_symbol.len() <= at {
                self.by_symbol.resize(at + 1, (0, 0));
            }
            self.by_symbol[at] = (node as u32 + 1, u32::try_from(known.size).unwrap_or(u32::MAX));
        }
        node
    }

    fn of_name(&mut self, name: &str) -> usize {
        if let Some(&node) = self.by_name.get(name) {
            return node;
        }
        self.by_name.insert(name.to_string(), self.all.len());
        self.all.push(FunctionStats { name: name.to_string(), ..FunctionStats::default() });
        self.all.len() - 1
    }

    /// Adds the call that was on top of the stack.
    #[inline]
    fn add(&mut self, follower: &mut Follower<'_>, at: usize, node: usize) {
        let task = &mut follower.tasks[at];
        let count = task.stack_count;
        let Some(&mut frame) = task.frame(count) else { return };
        let is_recursive = task.below(count).iter().any(|below| below.address == frame.address);
        let stats = &mut self.all[node];
        stats.total.add(frame.time, is_recursive);
        stats.own.add(frame.time.wrapping_sub(frame.child_time), false);
        stats.calls += 1;
        if self.sizes[at] > 0 {
            stats.size = self.sizes[at];
        }
    }
}

/// Writes the table.
///
/// # Errors
/// Those of the writer.
pub fn write(mut functions: Vec<FunctionStats>, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    functions.sort_by(|a, b| {
        let mut orders = options.keys.iter().map(|key| match key {
            Column::Name => a.name.cmp(&b.name),
            key => key.value(b).cmp(&key.value(a)),
        });
        orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    let mut text = Vec::new();
    if !options.columns.is_empty() {
        for column in &options.columns {
            text.extend_from_slice(format!("  {:>10}", column.header()).as_bytes());
        }
        text.extend_from_slice(b"  Function\n");
        for _ in &options.columns {
            text.extend_from_slice(b"  ==========");
        }
        text.extend_from_slice(b"  ====================\n");
    }
    for stats in &functions {
        for &column in &options.columns {
            put_blanks(&mut text, 2);
            match column {
                Column::Calls | Column::Size => put_padded(&mut text, column.value(stats), 10, b' '),
                column => put_time(&mut text, column.value(stats)),
            }
        }
        put_blanks(&mut text, 2);
        text.extend_from_slice(stats.name.as_bytes());
        text.push(b'\n');
    }
    out.write_all(&text)
}
