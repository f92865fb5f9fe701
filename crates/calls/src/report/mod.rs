//! Statistics of functions: how often they were called, how long they took.

mod difference;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{self, Write};

use tracemill_format::calls::{CallKind, CallRecord, CallSource, Color, ColorStyle, Findings, event_id};

pub use difference::{DiffPolicy, write_difference};

use crate::distribution::Distribution;
use crate::follow::{FastStep, Follower, PREEMPTED, SCHEDULE, ShownRecord};
use crate::select::CallOptions;
use crate::task_partitions::{self, Moment};
use crate::text::{by_name, entry, put_blanks, put_padded, put_painted_time, put_source_line, put_time};

/// Sum, smallest and largest of times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeStats {
    /// Sum, without recursive calls.
    pub sum: u64,
    /// Sum of recursive calls.
    pub recursive: u64,
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
}

impl Default for TimeStats {
    fn default() -> Self {
        TimeStats { sum: 0, recursive: 0, min: u64::MAX, max: 0 }
    }
}

impl TimeStats {
    #[inline]
    fn add(&mut self, ns: u64, is_recursive: bool) {
        let sum = if is_recursive { &mut self.recursive } else { &mut self.sum };
        *sum = sum.wrapping_add(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds those of other calls.
    fn append(&mut self, other: &TimeStats) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.recursive = self.recursive.wrapping_add(other.recursive);
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
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
    pub total: TimeStats,
    /// Self times: without those of callees.
    pub own: TimeStats,
    /// Symbol of the call that was left last.
    pub symbol: u32,
    /// How the times are spread, from entry to exit and without callees, when that is wanted.
    pub spread: Option<Box<(Distribution, Distribution)>>,
}

/// A column of the table, or a key to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportColumn {
    /// Of the times from entry to exit.
    Total(Statistic),
    /// Of the self times: without those of callees.
    Own(Statistic),
    /// Number of calls.
    Calls,
    /// Size of the function.
    Size,
    /// Its name: a key only.
    Name,
}

/// A figure of the times of all calls of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Sum.
    Sum,
    /// Mean.
    Mean,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// A percentile.
    Percentile(u8),
}

use Statistic::{Max, Mean, Min, Percentile, Sum};

impl Statistic {
    fn value(self, times: &TimeStats, calls: u64, spread: Option<&Distribution>) -> u64 {
        match self {
            Sum => times.sum,
            Mean => times.mean(calls),
            Min => times.min,
            Max => times.max,
            Percentile(part) => spread.map_or(0, |spread| spread.percentile(part.into())),
        }
    }

    fn header(self) -> String {
        match self {
            Sum => "time".into(),
            Mean => "avg".into(),
            Min => "min".into(),
            Max => "max".into(),
            Percentile(part) => format!("p{part}"),
        }
    }
}

impl ReportColumn {
    /// All of them with the names that options use.
    pub const ALL: [(&'static str, ReportColumn); 11] = [
        ("total", ReportColumn::Total(Sum)),
        ("total-avg", ReportColumn::Total(Mean)),
        ("total-min", ReportColumn::Total(Min)),
        ("total-max", ReportColumn::Total(Max)),
        ("self", ReportColumn::Own(Sum)),
        ("self-avg", ReportColumn::Own(Mean)),
        ("self-min", ReportColumn::Own(Min)),
        ("self-max", ReportColumn::Own(Max)),
        ("call", ReportColumn::Calls),
        ("size", ReportColumn::Size),
        ("func", ReportColumn::Name),
    ];

    /// Columns that uftrace does not have.
    pub const PERCENTILES: [(&'static str, ReportColumn); 6] = [
        ("total-p50", ReportColumn::Total(Percentile(50))),
        ("total-p90", ReportColumn::Total(Percentile(90))),
        ("total-p99", ReportColumn::Total(Percentile(99))),
        ("self-p50", ReportColumn::Own(Percentile(50))),
        ("self-p90", ReportColumn::Own(Percentile(90))),
        ("self-p99", ReportColumn::Own(Percentile(99))),
    ];

    /// The column of a name; `_` is `-`.
    pub fn by_name(name: &str) -> Option<ReportColumn> {
        let name = name.replace('_', "-");
        by_name(&ReportColumn::ALL, &name).or_else(|| by_name(&ReportColumn::PERCENTILES, &name))
    }

    /// Must the spread of times be known for it?
    pub fn needs_spread(self) -> bool {
        matches!(self, ReportColumn::Total(Percentile(_)) | ReportColumn::Own(Percentile(_)))
    }

    fn is_count(self) -> bool {
        matches!(self, ReportColumn::Calls | ReportColumn::Size)
    }

    fn header(self) -> String {
        match self {
            ReportColumn::Total(statistic) => format!("Total {}", statistic.header()),
            ReportColumn::Own(statistic) => format!("Self {}", statistic.header()),
            ReportColumn::Calls => "Calls".into(),
            ReportColumn::Size => "Size".into(),
            ReportColumn::Name => String::new(),
        }
    }

    /// The value of a function.
    pub fn value(self, stats: &FunctionStats) -> u64 {
        let spread = stats.spread.as_deref();
        match self {
            ReportColumn::Total(of) => of.value(&stats.total, stats.calls, spread.map(|spread| &spread.0)),
            ReportColumn::Own(of) => of.value(&stats.own, stats.calls, spread.map(|spread| &spread.1)),
            ReportColumn::Calls => stats.calls,
            ReportColumn::Size => stats.size,
            ReportColumn::Name => 0,
        }
    }
}

/// How the table looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOptions {
    /// Columns.
    pub columns: Vec<ReportColumn>,
    /// Keys to sort by, largest first; names in their order.
    pub keys: Vec<ReportColumn>,
    /// Where the source text of functions begins.
    pub source_lines: bool,
    /// How the times are spread, in a table of powers of two.
    pub histogram: bool,
    /// Times of spans, which stand after those of functions.
    pub spans: Vec<SpanTimes>,
    /// Colors.
    pub colors: ColorStyle,
}

/// Times of the spans of one name in ns, from the first entry to the close, pauses included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanTimes {
    /// Their name.
    pub name: String,
    /// Spans that were entered and closed.
    pub count: u64,
    /// Their times together.
    pub total: u64,
    /// The longest one.
    pub max: u64,
    /// The part of them in which threads were in the spans.
    pub in_polls: u64,
    /// Spans that were entered and not closed.
    pub open: u64,
}

impl SpanTimes {
    /// The mean of the times.
    pub fn mean(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }
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
            columns: vec![ReportColumn::Total(Sum), ReportColumn::Own(Sum), ReportColumn::Calls],
            keys: vec![ReportColumn::Total(Sum)],
            source_lines: false,
            histogram: false,
            spans: Vec::new(),
            colors: ColorStyle::None,
        }
    }
}

/// The statistics of all functions of a source, in the order of their names, and what was wrong with it.
/// How times are spread is found out when that is wanted: it costs time and memory.
pub fn functions(source: &dyn CallSource, options: CallOptions, has_spread: bool) -> (Vec<FunctionStats>, Findings) {
    let of_part = |follower: Follower<'_>| {
        let mut table = FunctionTable::new(source.tasks().len(), has_spread);
        table.lasts = Some(Vec::new());
        let findings = table.follow(follower);
        (table, findings)
    };
    let (mut all, findings) = match task_partitions::follow(source, &options, of_part) {
        Some(tables) => (joined(tables), Findings::default()),
        None => {
            let mut table = FunctionTable::new(source.tasks().len(), has_spread);
            let findings = table.follow(Follower::new(source, options));
            (table.all, findings)
        }
    };
    all.sort_by(|a, b| a.name.cmp(&b.name));
    (all, findings)
}

/// The functions of tables of different tasks.
fn joined(tables: Vec<FunctionTable>) -> Vec<FunctionStats> {
    let mut by_name: HashMap<String, (FunctionStats, Last)> = HashMap::new();
    for table in tables {
        for (stats, last) in table.all.into_iter().zip(table.lasts.unwrap_or_default()) {
            match by_name.get_mut(&stats.name) {
                None => {
                    by_name.insert(stats.name.clone(), (stats, last));
                }
                Some((sum, sum_last)) => {
                    sum.calls += stats.calls;
                    sum.total.append(&stats.total);
                    sum.own.append(&stats.own);
                    if let Some(spread) = &stats.spread {
                        let sums = sum.spread.get_or_insert_default();
                        sums.0.append(&spread.0);
                        sums.1.append(&spread.1);
                    }
                    if last.left > sum_last.left {
                        (sum.symbol, sum_last.left) = (stats.symbol, last.left);
                    }
                    if last.sized > sum_last.sized {
                        (sum.size, sum_last.sized) = (stats.size, last.sized);
                    }
                }
            }
        }
    }
    by_name.into_values().map(|(stats, _)| stats).collect()
}

/// When a function of a part of the tasks was left last, and when with a size.
#[derive(Clone, Copy, Default)]
struct Last {
    left: Option<Moment>,
    sized: Option<Moment>,
}

#[derive(Default)]
struct FunctionTable {
    by_name: HashMap<String, usize>,
    /// By symbol id: the number of the function, from 1, and the size of the symbol.
    by_symbol: Vec<(u32, u32)>,
    all: Vec<FunctionStats>,
    /// For each task the size of the function that it was in last: where a name stands for several functions, and for
    /// times without processor, the last one counts.
    sizes: Vec<u64>,
    has_spread: bool,
    /// By function, where the table is one of a part of the tasks.
    lasts: Option<Vec<Last>>,
    /// Were all records taken?
    is_at_end: bool,
}

impl FunctionTable {
    fn new(tasks: usize, has_spread: bool) -> FunctionTable {
        FunctionTable { sizes: vec![0; tasks], has_spread, ..FunctionTable::default() }
    }

    /// Takes all that a follower has; gives what was wrong with it.
    fn follow(&mut self, mut follower: Follower<'_>) -> Findings {
        let has_fast_path = follower.has_fast_path();
        loop {
            while has_fast_path && self.fast(&mut follower) {}
            let Some(record) = follower.next() else { break };
            self.record(&mut follower, &record);
        }
        self.is_at_end = true;
        self.remaining(&mut follower);
        follower.take_findings()
    }

    /// Takes the next call, or its end, when nothing is special about it: true when it did.
    #[inline]
    fn fast(&mut self, follower: &mut Follower<'_>) -> bool {
        let Some(&CallRecord { symbol, address, task, .. }) = follower.ready() else { return false };
        // Where the kernel works for tasks, those of other processors come between.
        let step =
            if follower.has_kernel { follower.take_one_fast() } else { follower.take_fast().map(|(step, _)| step) };
        let Some(step) = step else { return false };
        if step != FastStep::Entered {
            let at = task as usize;
            let node = self.intern_symbol(follower, at, symbol, address);
            self.add(follower, at, follower.tasks[at].stack_count, node);
        }
        true
    }

    #[inline]
    fn record(&mut self, follower: &mut Follower<'_>, record: &CallRecord) {
        let at = record.task as usize;
        let Some(ShownRecord { place, .. }) = follower.step(record) else { return };
        match record.kind {
            CallKind::Exit if !follower.is_skipped_library_call(record.symbol, record.address) => {
                let node = self.intern_symbol(follower, at, record.symbol, record.address);
                self.add(follower, at, place, node);
            }
            CallKind::Event if record.address == event_id::SCHED_IN => {
                let name = match follower.tasks[at].frame(place).map(|frame| frame.address) {
                    Some(event_id::SCHED_OUT) => SCHEDULE,
                    Some(event_id::SCHED_OUT_PREEMPTED) => PREEMPTED,
                    _ => return,
                };
                let node = self.intern_name(name);
                self.add(follower, at, place, node);
            }
            CallKind::Lost => {
                for (place, frame) in follower.end_at_loss(at) {
                    let node = self.intern_symbol(follower, at, frame.symbol, frame.address);
                    self.add(follower, at, place, node);
                }
            }
            CallKind::Entry | CallKind::Exit | CallKind::Event => {}
        }
    }

    /// Calls that are open at the end last until the task's last record.
    fn remaining(&mut self, follower: &mut Follower<'_>) {
        for at in 0..follower.tasks.len() {
            let last = follower.end_of(at);
            while follower.tasks[at].stack_count > 0 {
                let Some(frame) = follower.close_any(at, last) else { continue };
                let node = match frame.address {
                    event_id::SCHED_IN => self.intern_name(SCHEDULE),
                    address => self.intern_symbol(follower, at, frame.symbol, address),
                };
                self.add(follower, at, follower.tasks[at].stack_count, node);
            }
        }
    }

    #[inline]
    fn intern_symbol(&mut self, follower: &mut Follower<'_>, task: usize, symbol: u32, address: u64) -> usize {
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
        let known = follower.known_symbol(symbol, address).symbol;
        let node = self.intern_name(&known.name);
        self.sizes[task] = known.size;
        self.all[node].symbol = symbol;
        if symbol > 0 && !known.name.starts_with('<') {
            *entry(&mut self.by_symbol, symbol) = (node as u32 + 1, u32::try_from(known.size).unwrap_or(u32::MAX));
        }
        node
    }

    fn intern_name(&mut self, name: &str) -> usize {
        if let Some(&node) = self.by_name.get(name) {
            return node;
        }
        self.by_name.insert(name.to_string(), self.all.len());
        self.all.push(FunctionStats { name: name.to_string(), ..FunctionStats::default() });
        self.all.len() - 1
    }

    /// Adds the call that was at a place of the stack.
    #[inline]
    fn add(&mut self, follower: &mut Follower<'_>, at: usize, place: isize, node: usize) {
        let task = &mut follower.tasks[at];
        let Some(&mut frame) = task.frame(place) else { return follower.want_all() };
        let is_recursive = task.below(place).iter().any(|below| below.address == frame.address);
        let stats = &mut self.all[node];
        stats.total.add(frame.time, is_recursive);
        stats.own.add(frame.time.wrapping_sub(frame.child_time), false);
        stats.calls += 1;
        if self.sizes[at] > 0 {
            stats.size = self.sizes[at];
        }
        if self.has_spread {
            let spread = stats.spread.get_or_insert_default();
            spread.0.add(frame.time);
            spread.1.add(frame.time.wrapping_sub(frame.child_time));
        }
        if let Some(lasts) = &mut self.lasts {
            if lasts.len() <= node {
                lasts.resize(node + 1, Last::default());
            }
            let met = follower.tasks[at].last_time();
            let met = if self.is_at_end { (u64::MAX, at as u32) } else { follower.moment(at, met) };
            let last = &mut lasts[node];
            last.left = Some(met);
            if self.sizes[at] > 0 {
                last.sized = last.left;
            }
        }
    }
}

/// Puts functions in order: the largest first, by each key in its turn.
pub(crate) fn sort(functions: &mut [FunctionStats], keys: &[ReportColumn]) {
    functions.sort_by(|a, b| {
        let mut orders = keys.iter().map(|key| match key {
            ReportColumn::Name => a.name.cmp(&b.name),
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
    let headers: Vec<(String, usize)> = options.columns.iter().map(|column| (column.header(), 10)).collect();
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
        put_name(&mut text, source, (&stats.name, stats.symbol), options);
    }
    if options.histogram {
        for stats in &functions {
            put_histogram(&mut text, stats);
        }
    }
    put_spans(&mut text, options);
    out.write_all(&text)
}

/// The table of spans, those with the longest times first.
fn put_spans(text: &mut Vec<u8>, options: &ReportOptions) {
    if options.spans.is_empty() {
        return;
    }
    let mut spans: Vec<&SpanTimes> = options.spans.iter().collect();
    spans.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.name.cmp(&b.name)));
    text.push(b'\n');
    let headers = ["Open time", "Open avg", "Open max", "In polls", "Spans", "Unclosed"];
    let rule = |text: &mut Vec<u8>, last: &[u8]| {
        text.extend_from_slice(last);
        text.push(b'\n');
    };
    headers.iter().for_each(|header| text.extend_from_slice(format!("  {header:>10}").as_bytes()));
    rule(text, b"  Span, from its first entry to its close");
    headers.iter().for_each(|_| text.extend_from_slice(b"  =========="));
    rule(text, b"  ====================");
    for span in spans {
        for time in [span.total, span.mean(), span.max, span.in_polls] {
            put_blanks(text, 2);
            put_painted_time(text, time, options.colors);
        }
        for count in [span.count, span.open] {
            put_blanks(text, 2);
            put_padded(text, count, 10, b' ');
        }
        put_blanks(text, 2);
        text.extend_from_slice(options.colors.escaped(&span.name).as_bytes());
        text.push(b'\n');
    }
}

/// Headers with their widths, `space` blanks before each, and the line below them.
fn put_headers(text: &mut Vec<u8>, headers: &[(String, usize)], space: usize, has_source: bool, colors: ColorStyle) {
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
        colors.write(text, Color::Gray, " [Source]");
    }
    text.push(b'\n');
    for width in headers.iter().map(|&(_, width)| width).chain([20]) {
        put_blanks(text, space);
        text.extend(std::iter::repeat_n(b'=', width));
    }
    text.push(b'\n');
}

/// Appends a name, and where the source text of its function begins when that is wanted.
fn put_name(text: &mut Vec<u8>, source: &dyn CallSource, (name, symbol): (&str, u32), options: &ReportOptions) {
    text.extend_from_slice(options.colors.escaped(name).as_bytes());
    if options.source_lines {
        put_source_line(text, source, symbol, options.colors, [" [", "]"]);
    }
    text.push(b'\n');
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
