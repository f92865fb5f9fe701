//! The tasks of a trace: how long each ran, how much of that it waited, and which one began which.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::{self, Write};

use tracemill_format::calls::{
    CallKind, CallOrigin, CallRecord, CallSource, CallTask, Color, ColorStyle, Findings, event_id,
};

use crate::branches::{Branches, put_empty_columns, put_headers};
use crate::follow::Follower;
use crate::select::CallOptions;
use crate::text::{put_blanks, put_padded, put_painted_time};

/// The name in the data of an event that has one: `comm="NAME"`.
pub(crate) fn task_name(data: &[u8]) -> &[u8] {
    data.strip_prefix(b"comm=\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(data)
}

/// The names that tasks have at the end of the wanted time. Of tasks that are not wanted no name is read.
pub(crate) fn names(follower: &Follower<'_>) -> Vec<Vec<u8>> {
    let source = follower.source;
    let Some((from, to)) = follower.between else {
        let mut names = source.last_names();
        for (at, task) in source.tasks().iter().enumerate().filter(|&(at, _)| !follower.is_task_wanted(at)) {
            names[at].clone_from(&task.first_name);
        }
        return names;
    };
    let mut names: Vec<(u64, Vec<u8>)> = source.tasks().iter().map(|task| (0, task.first_name.clone())).collect();
    let mut data = Vec::new();
    for stream in 0..source.stream_count() {
        let (mut stream, mut records, mut goes_on) = (source.open_between(stream, from, to), Vec::new(), true);
        while goes_on {
            records.clear();
            goes_on = stream.fill(&mut records);
            // The streams of the tasks' own records hold no names.
            if records.first().is_some_and(|record| record.origin == CallOrigin::Task) {
                break;
            }
            let is_name = |record: &&CallRecord| {
                let is_in_time = (from..=to).contains(&record.time);
                is_in_time && record.is_event(event_id::TASK_NAME) && follower.is_wanted(record)
            };
            for record in records.iter().filter(is_name) {
                let name = &mut names[record.task as usize];
                if record.time >= name.0 {
                    data.clear();
                    source.put_event_data(record, &mut data);
                    *name = (record.time, task_name(&data).to_vec());
                }
            }
        }
    }
    names.into_iter().map(|(_, name)| name).collect()
}

/// Statistics of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStats {
    /// Index of the task.
    pub task: usize,
    /// Its name.
    pub name: Vec<u8>,
    /// Ns that it ran.
    pub total: u64,
    /// Of that, the time without waits.
    pub own: u64,
    /// Calls, times without processor included.
    pub calls: u64,
}

/// A column of the tasks, or a key to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskColumn {
    /// Time.
    Total,
    /// Of that, the time without waits.
    Own,
    /// Id.
    Tid,
    /// Calls.
    Calls,
    /// Name: a key only.
    Name,
}

impl TaskColumn {
    /// The names that options use.
    pub const ALL: [(&'static str, TaskColumn); 5] = [
        ("total", TaskColumn::Total),
        ("self", TaskColumn::Own),
        ("tid", TaskColumn::Tid),
        ("func", TaskColumn::Calls),
        ("name", TaskColumn::Name),
    ];
}

/// The statistics of all tasks that left a call, in the order of the letters of their ids, and what was wrong with the
/// source.
///
/// Entries are not looked at, as in uftrace: what options leave out by their functions counts all the same.
pub fn tasks(source: &dyn CallSource, options: CallOptions) -> (Vec<TaskStats>, Findings) {
    let mut follower = Follower::new(source, options);
    let mut found: BTreeMap<String, TaskStats> = BTreeMap::new();
    let mut times: Vec<Waiting> = source.tasks().iter().map(|task| Waiting { since: task.start, idle: 0 }).collect();
    let mut last = vec![0; source.tasks().len()];
    let mut add = |follower: &mut Follower<'_>, at: usize| {
        let count = follower.tasks[at].stack_count;
        let Some(frame) = follower.tasks[at].frame(count).copied() else { return };
        let stats = found.entry(source.tasks()[at].tid.to_string()).or_default();
        stats.task = at;
        stats.calls += 1;
        stats.total = stats.total.wrapping_add(frame.time.wrapping_sub(frame.child_time));
    };
    while let Some(record) = follower.next() {
        let at = record.task as usize;
        match record.kind {
            CallKind::Entry | CallKind::Lost => continue,
            CallKind::Exit if !follower.is_seen(&record) => continue,
            CallKind::Exit if follower.left_call(at).is_none() => {
                follower.end_exit(at);
                continue;
            }
            CallKind::Event if follower.step(&record).is_none() => continue,
            CallKind::Exit | CallKind::Event => {}
        }
        last[at] = record.time;
        if record.kind == CallKind::Event && !times[at].apply(&record) {
            continue;
        }
        add(&mut follower, at);
    }
    for at in 0..follower.tasks.len() {
        let end = if follower.options.range.stop > 0 { follower.options.range.stop } else { last[at] };
        while follower.tasks[at].stack_count > 0 {
            if follower.close(at, end).is_some() {
                add(&mut follower, at);
            }
        }
    }
    let names = names(&follower);
    let stats = found.into_values().map(|stats| TaskStats {
        own: stats.total.wrapping_sub(times[stats.task].idle),
        name: names[stats.task].clone(),
        ..stats
    });
    (stats.collect(), follower.take_findings())
}

/// How long a task waited.
#[derive(Clone, Copy, Default)]
struct Waiting {
    /// Since when it has no processor; 0 when it has one.
    since: u64,
    idle: u64,
}

impl Waiting {
    /// Takes an event; true when a time without processor ended.
    fn apply(&mut self, record: &CallRecord) -> bool {
        match record.address {
            event_id::SCHED_OUT => self.since = record.time,
            event_id::SCHED_IN => {
                if self.since > 0 {
                    self.idle = self.idle.wrapping_add(record.time.wrapping_sub(self.since));
                }
                self.since = 0;
                return true;
            }
            _ => {}
        }
        false
    }
}

/// Writes the tasks as a table, the largest first by each key in its turn.
///
/// # Errors
/// Errors of the writer.
pub fn write(
    source: &dyn CallSource,
    mut stats: Vec<TaskStats>,
    columns: &[TaskColumn],
    keys: &[TaskColumn],
    colors: ColorStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let task = |stats: &TaskStats| &source.tasks()[stats.task];
    stats.sort_by(|a, b| {
        let mut orders = keys.iter().map(|key| match key {
            TaskColumn::Total => b.total.cmp(&a.total),
            TaskColumn::Own => b.own.cmp(&a.own),
            TaskColumn::Calls => b.calls.cmp(&a.calls),
            // By their letters, as in uftrace.
            TaskColumn::Tid => task(a).tid.to_string().cmp(&task(b).tid.to_string()),
            TaskColumn::Name => a.name.cmp(&b.name),
        });
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let mut text = Vec::new();
    let header = |column: &TaskColumn| match column {
        TaskColumn::Total => "Total time",
        TaskColumn::Own => " Self time",
        TaskColumn::Tid => "   TID",
        TaskColumn::Calls | TaskColumn::Name => " Num funcs",
    };
    if !columns.is_empty() {
        for column in columns {
            text.extend_from_slice(format!("  {}", header(column)).as_bytes());
        }
        text.extend_from_slice(b"  Task name\n");
        for column in columns {
            text.extend_from_slice(format!("  {}", "=".repeat(header(column).len())).as_bytes());
        }
        text.extend_from_slice(b"  ====================\n");
    }
    for stats in &stats {
        for column in columns {
            put_blanks(&mut text, 2);
            match column {
                TaskColumn::Total => put_painted_time(&mut text, stats.total, colors),
                TaskColumn::Own => put_painted_time(&mut text, stats.own, colors),
                TaskColumn::Tid => put_padded(&mut text, task(stats).tid.unsigned_abs(), 6, b' '),
                TaskColumn::Calls | TaskColumn::Name => put_padded(&mut text, stats.calls, 10, b' '),
            }
        }
        put_blanks(&mut text, 2);
        let name = colors.escaped_bytes(&stats.name);
        text.extend_from_slice(&name);
        put_blanks(&mut text, 16usize.saturating_sub(name.len()));
        text.push(b'\n');
    }
    out.write_all(&text)
}

/// A column of the tree of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskGraphField {
    /// Time from its first record to its last.
    Total,
    /// Of that, the time without waits.
    Own,
    /// Id.
    Tid,
}

impl TaskGraphField {
    /// The names that options use.
    pub const ALL: [(&'static str, TaskGraphField); 5] = [
        ("total-time", TaskGraphField::Total),
        ("self-time", TaskGraphField::Own),
        ("tid", TaskGraphField::Tid),
        ("total", TaskGraphField::Total),
        ("self", TaskGraphField::Own),
    ];

    fn header(self) -> &'static str {
        match self {
            TaskGraphField::Total => "TOTAL TIME",
            TaskGraphField::Own => " SELF TIME",
            TaskGraphField::Tid => "   TID  ",
        }
    }
}

/// Tasks and the ones that they began: how long they ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskTree {
    /// By index of the task: its name.
    pub names: Vec<Vec<u8>>,
    /// By index of the task: ns from its first record to its last, and ns of them that it waited.
    pub times: Vec<(u64, u64)>,
    /// By index of the task: those that it began, in the order in which they were reported.
    pub children: Vec<Vec<usize>>,
    /// The first task.
    pub first: Option<usize>,
}

/// Finds out which task began which, and how long each ran; the time filter is not applied to their calls.
pub fn tree(source: &dyn CallSource, mut options: CallOptions) -> (TaskTree, Findings) {
    options.time_filter = 0;
    let mut follower = Follower::new(source, options);
    let count = source.tasks().len();
    let mut waiting = vec![Waiting::default(); count];
    let mut seen: Vec<Option<(u64, u64)>> = vec![None; count];
    while let Some(record) = follower.next() {
        let at = record.task as usize;
        if follower.step(&record).is_none() {
            continue;
        }
        match &mut seen[at] {
            // Without time there is no first record yet.
            Some((first, last)) if *first > 0 => *last = record.time,
            seen => *seen = Some((record.time, record.time)),
        }
        if record.kind == CallKind::Event {
            if record.address == event_id::SCHED_OUT_PREEMPTED {
                waiting[at].since = record.time;
            }
            waiting[at].apply(&record);
        }
    }
    let times = seen.iter().zip(&mut waiting).map(|(seen, waiting)| {
        let (first, last) = seen.unwrap_or_default();
        if waiting.since > 0 {
            waiting.idle = waiting.idle.wrapping_add(last.wrapping_sub(waiting.since));
        }
        (last.wrapping_sub(first), waiting.idle)
    });
    let times = times.collect();
    let tasks = source.tasks();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&at| tasks[at].order);
    let mut children = vec![Vec::new(); count];
    for (place, &at) in order.iter().enumerate() {
        let CallTask { parent, pid, .. } = tasks[at];
        let by = if parent != 0 { parent } else { pid };
        // A parent comes before its children: a task that is reported later cannot have started this one.
        if let Some(&by) = order[..place].iter().find(|&&before| tasks[before].tid == by) {
            children[by].push(at);
        }
    }
    let names = names(&follower);
    let tree = TaskTree { names, times, children, first: order.first().copied() };
    (tree, follower.take_findings())
}

/// Writes the tree; tasks that ran for less than `threshold` are left out, unless they began one that is shown.
///
/// # Errors
/// Errors of the writer.
pub fn write_tree(
    source: &dyn CallSource,
    tree: &TaskTree,
    fields: &[TaskGraphField],
    threshold: u64,
    colors: ColorStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut text = b"========== TASK GRAPH ==========\n".to_vec();
    let headers: Vec<&str> = fields.iter().map(|field| field.header()).collect();
    if put_headers(&mut text, &headers, "   TASK NAME") {
        text.push(b'\n');
    }
    let (tasks, branches) = (source.tasks(), Branches::default());
    let mut printer = TaskPrinter { tasks, tree, fields, headers, threshold, colors, branches, text: &mut text };
    if let Some(first) = tree.first.filter(|&first| tree.times[first].0 >= threshold) {
        printer.task(first, None, 0);
    }
    text.push(b'\n');
    out.write_all(&text)
}

struct TaskPrinter<'a> {
    tasks: &'a [CallTask],
    tree: &'a TaskTree,
    fields: &'a [TaskGraphField],
    threshold: u64,
    headers: Vec<&'static str>,
    colors: ColorStyle,
    branches: Branches,
    text: &'a mut Vec<u8>,
}

/// Tasks that began one another, at most: the printer goes down by itself.
const MAX_DEPTH: usize = 256;

impl TaskPrinter<'_> {
    /// Did one that it began, or that these began, run for long enough?
    fn has_long_child(&self, at: usize, depth: usize) -> bool {
        depth < MAX_DEPTH
            && self.tree.children[at]
                .iter()
                .any(|&child| self.tree.times[child].0 >= self.threshold || self.has_long_child(child, depth + 1))
    }

    fn is_shown(&self, at: usize) -> bool {
        self.tree.times[at].0 >= self.threshold || self.has_long_child(at, 0)
    }

    /// Writes a task and those that it began; true when an empty line is wanted after it.
    fn task(&mut self, at: usize, parent: Option<usize>, level: usize) -> bool {
        self.fields(at);
        self.branches.write_prefix(self.text, level, true);
        let name = [&*self.colors.escaped_bytes(&self.tree.names[at]), b"\n"].concat();
        match parent {
            // A thread.
            Some(parent) if self.tasks[parent].pid == self.tasks[at].pid => {
                self.colors.write(self.text, Color::Green, &name);
            }
            _ => self.text.extend_from_slice(&name),
        }
        let children = &self.tree.children[at];
        if children.is_empty() || level > 2 * MAX_DEPTH || !self.has_long_child(at, 0) {
            return false;
        }
        if let Some(parent) = parent {
            let siblings = &self.tree.children[parent];
            let place = siblings.iter().position(|&sibling| sibling == at).unwrap_or(0);
            if !siblings[place + 1..].iter().any(|&sibling| self.is_shown(sibling)) {
                let is_forked = self.tasks[at].pid != self.tasks[parent].pid;
                self.branches.set((level - 1).saturating_sub(usize::from(is_forked)), false);
            }
        }
        let mut is_blank = false;
        for (place, &child) in children.iter().enumerate() {
            if !self.is_shown(child) {
                continue;
            }
            let is_forked = self.tasks[child].pid != self.tasks[at].pid;
            self.branches.set(level, true);
            let below = level + 1 + usize::from(is_forked);
            if is_blank || is_forked {
                put_empty_columns(self.text, &self.headers);
                self.branches.write_prefix(self.text, below, false);
                self.text.push(b'\n');
                is_blank = false;
            }
            is_blank |= self.task(child, Some(at), below);
            is_blank |= is_forked && place + 1 < children.len();
        }
        self.branches.set(level, false);
        is_blank
    }

    fn fields(&mut self, at: usize) {
        let (total, idle) = self.tree.times[at];
        for field in self.fields {
            put_blanks(self.text, 2);
            match field {
                TaskGraphField::Total => put_painted_time(self.text, total, self.colors),
                TaskGraphField::Own => put_painted_time(self.text, total.wrapping_sub(idle), self.colors),
                TaskGraphField::Tid => {
                    self.text.push(b'[');
                    put_padded(self.text, self.tasks[at].tid.unsigned_abs(), 6, b' ');
                    self.text.push(b']');
                }
            }
        }
        if !self.fields.is_empty() {
            self.text.extend_from_slice(b" : ");
        }
    }
}
