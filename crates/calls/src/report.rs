//! Statistics of functions: how often they were called, how long they took.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{self, Write};

use tracemill_format::calls::{CallKind, CallRecord, CallSource, Color, ColorStyle, Findings, event_id};

use crate::distribution::Distribution;
use crate::follow::{Follower, PREEMPTED, Plain, SCHEDULE};
use crate::select::CallOptions;
use crate::text::{put_blanks, put_padded, put_painted_time, put_time};
use crate::tree::order_by_tree;

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

/// Statistics of a function.
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
    /// Self times: without those of callees.
    pub own: Times,
    /// Symbol of the call that was left last.
    pub symbol: u32,
    /// How the times are spread, from entry to exit and without callees, when that is wanted.
    pub spread: Option<Box<(Distribution, Distribution)>>,
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
    /// Sum of self times: without those of callees.
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
    /// A percentile of the times.
    TotalPercentile(u8),
    /// A percentile of the self times: without those of callees.
    OwnPercentile(u8),
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

    /// Those that uftrace does not have.
    pub const PERCENTILES: [(&'static str, Column); 6] = [
        ("total-p50", Column::TotalPercentile(50)),
        ("total-p90", Column::TotalPercentile(90)),
        ("total-p99", Column::TotalPercentile(99)),
        ("self-p50", Column::OwnPercentile(50)),
        ("self-p90", Column::OwnPercentile(90)),
        ("self-p99", Column::OwnPercentile(99)),
    ];

    /// The column of a name; `_` is `-`.
    pub fn by_name(name: &str) -> Option<Column> {
        let name = name.replace('_', "-");
        let mut all = Column::ALL.iter().chain(&Column::PERCENTILES);
        all.find(|(known, _)| *known == name).map(|&(_, column)| column)
    }

    /// Must the spread of times be known for it?
    pub fn needs_spread(self) -> bool {
        matches!(self, Column::TotalPercentile(_) | Column::OwnPercentile(_))
    }

    fn is_count(self) -> bool {
        matches!(self, Column::Calls | Column::Size)
    }

    fn header(self) -> &'static str {
        match self {
            Column::TotalPercentile(50) => "Total p50",
            Column::TotalPercentile(90) => "Total p90",
            Column::TotalPercentile(_) => "Total p99",
            Column::OwnPercentile(50) => "Self p50",
            Column::OwnPercentile(90) => "Self p90",
            Column::OwnPercentile(_) => "Self p99",
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
            Column::TotalPercentile(part) => stats.spread.as_ref().map_or(0, |spread| spread.0.percentile(part.into())),
            Column::OwnPercentile(part) => stats.spread.as_ref().map_or(0, |spread| spread.1.percentile(part.into())),
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
    /// Where the source text of functions begins.
    pub source_lines: bool,
    /// How the times are spread, in a table of powers of two.
    pub histogram: bool,
    /// Colors.
    pub colors: ColorStyle,
}

impl ReportOptions {
    /// Must the spread of times be known?
    pub fn needs_spread(&self) -> bool {
        self.histogram || self.columns.iter().chain(&self.keys).any(|column| column.needs_spread())
    }
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions {
            columns: vec![Column::Total, Column::Own, Column::Calls],
            keys: vec![Column::Total],
            source_lines: false,
            histogram: false,
            colors: ColorStyle::None,
        }
    }
}

/// The statistics of all functions of a source, in the order of their names, and what was wrong with it.
/// How times are spread is found out when that is wanted: it costs time and memory.
pub fn functions(source: &dyn CallSource, options: CallOptions, has_spread: bool) -> (Vec<FunctionStats>, Findings) {
    let mut table = Table {
        by_name: HashMap::new(),
        by_symbol: Vec::new(),
        all: Vec::new(),
        sizes: vec![0; source.tasks().len()],
        plain: Vec::new(),
        has_spread,
    };
    let mut follower = Follower::new(source, options);
    let is_plain = follower.is_plain();
    loop {
        while is_plain && table.plain(&mut follower) {}
        let Some(record) = follower.next() else { break };
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
    /// By symbol id, once it was met: do its calls simply return?
    plain: Vec<Option<bool>>,
    has_spread: bool,
}

impl Table {
    /// Takes the next call, or its end, when nothing is special about it: true when it did.
    #[inline]
    fn plain(&mut self, follower: &mut Follower<'_>) -> bool {
        let Some(&CallRecord { time, symbol, address, task, .. }) = follower.ready() else { return false };
        match self.plain.get(symbol as usize) {
            Some(Some(true)) => {}
            Some(Some(false)) => return false,
            _ => return symbol > 0 && self.learn(follower, symbol, address),
        }
        let Some((plain, _)) = follower.take_plain() else { return false };
        follower.first_time = follower.first_time.min(time);
        if plain != Plain::Entered {
            let node = self.of_symbol(follower, task as usize, symbol, address);
            self.add(follower, task as usize, node);
        }
        true
    }

    #[cold]
    fn learn(&mut self, follower: &mut Follower<'_>, symbol: u32, address: u64) -> bool {
        let at = symbol as usize;
        if self.plain.len() <= at {
            self.plain.resize(at + 1, None);
        }
        let is_plain = follower.simply_returns(symbol, address);
        self.plain[at] = Some(is_plain);
        is_plain
    }

    #[inline]
    fn record(&mut self, follower: &mut Follower<'_>, record: &CallRecord) {
        let at = record.task as usize;
        if !follower.is_seen(record) {
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
                if !frame.is_hidden && follower.is_enabled {
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
                    if let Some(frame) = follower.left_call(at).filter(|frame| frame.is_open) {
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
        if !follower.is_shown(record) || !follower.is_event_shown(record) || record.address != event_id::SCHED_IN {
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
                self.all[node as usize - 1].symbol = symbol;
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
        self.all[node].symbol = symbol;
        if symbol > 0 && !known.name.starts_with('<') {
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
        if self.has_spread {
            let spread = stats.spread.get_or_insert_default();
            spread.0.add(frame.time);
            spread.1.add(frame.time.wrapping_sub(frame.child_time));
        }
        if self.sizes[at] > 0 {
            stats.size = self.sizes[at];
        }
    }
}

/// Puts functions in order: the largest first, by each key in its turn.
pub(crate) fn sort(functions: &mut [FunctionStats], keys: &[Column]) {
    functions.sort_by(|a, b| {
        let mut orders = keys.iter().map(|key| match key {
            Column::Name => a.name.cmp(&b.name),
            key => key.value(b).cmp(&key.value(a)),
        });
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
}

/// Writes the table.
///
/// # Errors
/// Errors of the writer.
pub fn write(
    source: &dyn CallSource,
    mut functions: Vec<FunctionStats>,
    options: &ReportOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    sort(&mut functions, &options.keys);
    let mut text = Vec::new();
    let headers: Vec<(&str, usize)> = options.columns.iter().map(|column| (column.header(), 10)).collect();
    put_headers(&mut text, &headers, 2, options.source_lines, options.colors);
    for stats in &functions {
        for &column in &options.columns {
            put_blanks(&mut text, 2);
            match column.is_count() {
                true => put_padded(&mut text, column.value(stats), 10, b' '),
                false => put_painted_time(&mut text, column.value(stats), options.colors),
            }
        }
        put_blanks(&mut text, 2);
        put_name(&mut text, source, stats, options);
    }
    if options.histogram {
        for stats in &functions {
            put_histogram(&mut text, stats);
        }
    }
    out.write_all(&text)
}

/// Headers with their widths, `space` blanks before each, and the line below them.
fn put_headers(text: &mut Vec<u8>, headers: &[(&str, usize)], space: usize, has_source: bool, colors: ColorStyle) {
    if headers.is_empty() {
        return;
    }
    for (header, width) in headers {
        put_blanks(text, space);
        text.extend_from_slice(format!("{header:>width$}").as_bytes());
    }
    put_blanks(text, space);
    text.extend_from_slice(b"Function");
    if has_source {
        colors.put(text, Color::Gray, " [Source]");
    }
    text.push(b'\n');
    for &(_, width) in headers.iter().chain([&("", 20)]) {
        put_blanks(text, space);
        text.extend(std::iter::repeat_n(b'=', width));
    }
    text.push(b'\n');
}

fn put_name(text: &mut Vec<u8>, source: &dyn CallSource, stats: &FunctionStats, options: &ReportOptions) {
    text.extend_from_slice(options.colors.escaped(&stats.name).as_bytes());
    if options.source_lines
        && let Some((file, line)) = source.source_line(stats.symbol)
    {
        put_place(text, &file, line, options.colors);
    }
    text.push(b'\n');
}

fn put_place(text: &mut Vec<u8>, file: &str, line: u32, colors: ColorStyle) {
    colors.put(text, Color::Gray, format!(" [{}:{line}]", colors.escaped(file)));
}

/// Marks in the longest line of a histogram.
const BAR: u64 = 50;

fn put_histogram(text: &mut Vec<u8>, stats: &FunctionStats) {
    let Some(spread) = &stats.spread else { return };
    let powers = spread.0.powers();
    let largest = powers.iter().map(|&(_, count)| count).max().unwrap_or(0);
    text.extend_from_slice(format!("\n# {} ({} calls)\n", stats.name, stats.calls).as_bytes());
    for (from, count) in powers {
        put_blanks(text, 2);
        put_time(text, from);
        text.extend_from_slice(b" ..");
        put_time(text, if from == 0 { 2 } else { from.saturating_mul(2) });
        put_blanks(text, 2);
        put_padded(text, count, 10, b' ');
        let marks = (u128::from(count) * u128::from(BAR)).div_ceil(u128::from(largest.max(1))) as usize;
        if marks > 0 {
            text.extend_from_slice(b"  ");
            text.extend(std::iter::repeat_n(b'#', marks));
        }
        text.push(b'\n');
    }
}

/// Policy by which differences between two recordings are shown and sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffPolicy {
    /// Sort by how large differences are, whatever their sign.
    pub is_absolute: bool,
    /// Show them in hundredths of the first value.
    pub is_percent: bool,
    /// Show both values too.
    pub is_full: bool,
    /// Value of a column to sort by: 2 for the difference, others for the first value.
    pub sort_column: i32,
}

impl Default for DiffPolicy {
    fn default() -> Self {
        DiffPolicy { is_absolute: true, is_percent: false, is_full: false, sort_column: 2 }
    }
}

impl DiffPolicy {
    /// Takes the words of a policy: `abs`, `percent`, `full`, `compact`; behind `no-` the contrary. The first word that is
    /// none is given back.
    ///
    /// # Errors
    /// A word that is none.
    pub fn take(&mut self, text: &str) -> Result<(), String> {
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, is_on) = word.strip_prefix("no-").map_or((word, true), |name| (name, false));
            match name {
                _ if name.starts_with("abs") => self.is_absolute = is_on,
                _ if name.starts_with("percent") => self.is_percent = is_on,
                // As in uftrace these two have no contrary but each other.
                _ if name.starts_with("full") => self.is_full = true,
                _ if name.starts_with("compact") => self.is_full = false,
                _ => return Err(word.to_string()),
            }
        }
        Ok(())
    }
}

/// A function of two recordings; where one does not have it all is 0.
struct Pair {
    base: FunctionStats,
    other: FunctionStats,
    name: String,
}

impl Pair {
    fn difference(&self, column: Column) -> i64 {
        column.value(&self.other).wrapping_sub(column.value(&self.base)) as i64
    }

    fn percent(&self, column: Column) -> f64 {
        self.percent_of(column, self.difference(column))
    }

    fn percent_of(&self, column: Column, difference: i64) -> f64 {
        match column.value(&self.base) {
            0 => 0.0,
            base => 100.0 * difference as f64 / base as f64,
        }
    }

    /// The difference that the order is made of: uftrace subtracts sizes as numbers of 32 bits without a sign.
    fn key(&self, column: Column) -> i64 {
        match column {
            Column::Size => i64::from(self.difference(column) as u32),
            column => self.difference(column),
        }
    }

    /// As uftrace compares, which does not give the contrary when both are changed for each other: of two values that
    /// differ in their sign only, none is the larger one.
    fn is_less(&self, other: &Pair, options: &ReportOptions, policy: &DiffPolicy) -> bool {
        for &key in &options.keys {
            let (a, b) = match key {
                Column::Name => match other.name.cmp(&self.name) {
                    Ordering::Equal => continue,
                    order => return order.is_lt(),
                },
                _ if policy.sort_column != 2 => {
                    let (a, b) = (key.value(&self.base), key.value(&other.base));
                    if a == b {
                        continue;
                    }
                    return a < b;
                }
                _ if !policy.is_percent => {
                    let (a, b) = (self.key(key), other.key(key));
                    if a == b {
                        continue;
                    }
                    return if policy.is_absolute { a.unsigned_abs() <= b.unsigned_abs() } else { a < b };
                }
                _ => (self.percent_of(key, self.key(key)), other.percent_of(key, other.key(key))),
            };
            if a == b {
                continue;
            }
            let (a, b) = if policy.is_absolute { (a.abs(), b.abs()) } else { (a, b) };
            return a.partial_cmp(&b) != Some(Ordering::Greater);
        }
        false
    }
}

/// Writes how the second recording differs from the first one. Each is given with what stands for it in the title.
///
/// # Errors
/// Errors of the writer.
pub fn write_difference(
    (base, base_title): (Vec<FunctionStats>, &str),
    (other, other_title): (Vec<FunctionStats>, &str),
    options: &ReportOptions,
    policy: &DiffPolicy,
    source: &dyn CallSource,
    out: &mut dyn Write,
) -> io::Result<()> {
    let pairs = pairs(base, other, options, policy);
    let mut text = Vec::new();
    let title = "#\n# uftrace diff\n#  [0] base: ";
    text.extend_from_slice(format!("{title}{base_title}\n#  [1] diff: {other_title}\n#\n").as_bytes());
    let full = |column: Column| format!("{} (diff)", column.header());
    let header = |&column: &Column| match (policy.is_full, policy.is_percent || column.is_count()) {
        (false, _) => (column.header().to_string(), 11),
        (true, true) => (full(column), 32),
        (true, false) => (full(column), 35),
    };
    let headers: Vec<(String, usize)> = options.columns.iter().map(header).collect();
    let headers: Vec<(&str, usize)> = headers.iter().map(|(header, width)| (header.as_str(), *width)).collect();
    put_headers(&mut text, &headers, 3, options.source_lines, options.colors);
    for pair in &pairs {
        for &column in &options.columns {
            put_blanks(&mut text, 3);
            put_pair(&mut text, pair, column, policy, options.colors);
        }
        put_blanks(&mut text, 3);
        text.extend_from_slice(options.colors.escaped(&pair.name).as_bytes());
        if options.source_lines
            && let Some((file, line)) = source.source_line(pair.base.symbol)
        {
            put_place(&mut text, &file, line, options.colors);
        }
        text.push(b'\n');
    }
    out.write_all(&text)
}

/// The functions of both recordings in their order.
fn pairs(
    base: Vec<FunctionStats>,
    other: Vec<FunctionStats>,
    options: &ReportOptions,
    policy: &DiffPolicy,
) -> Vec<Pair> {
    let none = || {
        let mut none = FunctionStats::default();
        (none.total.min, none.own.min) = (0, 0);
        none
    };
    let mut others: HashMap<String, FunctionStats> =
        other.into_iter().map(|stats| (stats.name.clone(), stats)).collect();
    let mut found: Vec<Pair> = Vec::new();
    for stats in base {
        let other = others.remove(&stats.name).unwrap_or_else(none);
        found.push(Pair { name: stats.name.clone(), base: stats, other });
    }
    let mut rest: Vec<FunctionStats> = others.into_values().collect();
    rest.sort_by(|a, b| a.name.cmp(&b.name));
    found.extend(rest.into_iter().map(|stats| Pair { name: stats.name.clone(), base: none(), other: stats }));
    // Not a sort: the comparison is none.
    let order = order_by_tree(found.len(), |known, new| found[known].is_less(&found[new], options, policy));
    let mut found: Vec<Option<Pair>> = found.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| found[at].take()).collect()
}

fn put_pair(text: &mut Vec<u8>, pair: &Pair, column: Column, policy: &DiffPolicy, colors: ColorStyle) {
    let (base, other) = (column.value(&pair.base), column.value(&pair.other));
    let time_or_dash = |text: &mut Vec<u8>, time| match time {
        0 => text.extend_from_slice(b"         -"),
        time => put_painted_time(text, time, colors),
    };
    if column.is_count() {
        match policy.is_full {
            true => text.extend_from_slice(format!(" {base:9}  {other:9}  ").as_bytes()),
            false => put_blanks(text, 2),
        }
        let count = format!("{:+9}", pair.difference(column));
        match pair.difference(column) {
            0 => text.extend_from_slice(count.as_bytes()),
            more => colors.put(text, if more > 0 { Color::Red } else { Color::Blue }, &count),
        }
        return;
    }
    match (policy.is_full, policy.is_percent) {
        (true, _) => {
            time_or_dash(text, base);
            put_blanks(text, 2);
            time_or_dash(text, other);
            put_blanks(text, 2);
        }
        (false, true) => put_blanks(text, 3),
        (false, false) => {}
    }
    if policy.is_percent {
        match (base, other) {
            (0, _) | (_, 0) => {
                colors.put(text, if base == 0 { Color::Red } else { Color::Blue }, "    N/A");
                text.push(b' ');
            }
            _ => {
                let percent = pair.percent(column).clamp(-999.99, 999.99);
                let color = match percent {
                    30.0.. if percent > 30.0 => Color::Red,
                    3.0.. if percent > 3.0 => Color::Magenta,
                    _ if percent < -30.0 => Color::Blue,
                    _ if percent < -3.0 => Color::Cyan,
                    _ => Color::Normal,
                };
                colors.put(text, color, format!("{percent:+7.2}"));
                text.push(b'%');
            }
        }
    } else {
        put_difference(text, pair.difference(column), colors);
    }
}

/// A difference of times in eleven columns: `   +1.234 us`.
fn put_difference(text: &mut Vec<u8>, ns: i64, colors: ColorStyle) {
    if ns == 0 {
        text.extend_from_slice(b"       0 us");
        return;
    }
    let mut time = Vec::new();
    put_painted_time(&mut time, ns.unsigned_abs(), colors);
    // The sign stands before the first digit.
    let blanks = time.iter().take_while(|&&byte| byte == b' ').count();
    put_blanks(text, blanks);
    let color = match ns {
        100_000.. => Color::Red,
        5_000.. => Color::Magenta,
        ..=-100_000 => Color::Blue,
        -99_999..=-5_000 => Color::Cyan,
        _ => Color::Normal,
    };
    // The number ends where its unit begins.
    let (number, unit) = time.split_at(7);
    text.extend_from_slice(colors.begin(color).as_bytes());
    text.push(if ns > 0 { b'+' } else { b'-' });
    text.extend_from_slice(&number[blanks..]);
    text.extend_from_slice(colors.end().as_bytes());
    text.extend_from_slice(unit);
}
