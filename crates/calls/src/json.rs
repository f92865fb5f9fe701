//! Output of the commands as JSON. `docs/calls.md` describes the objects: keys may be added, never renamed.
//!
//! Trees are lists of nodes that name their parent: calls may be nested deeper than readers of JSON are.

use std::fmt::Write as _;
use std::io::{self, Write};

use tracemill_codec::text::json::{self, Escapes};
use tracemill_format::calls::{CallKind, CallRecord, CallSource, ColorStyle, DumpOptions, Findings, ValueStyle};

use crate::follow::{Follower, ShownRecord};
use crate::report::{FunctionStats, ReportOptions, TimeStats};
use crate::select::CallOptions;
use crate::tasks::{TaskStats, TaskTree};

/// Bytes that are gathered before they are written.
const BUFFER: usize = 64 << 10;

/// A text as a JSON string, with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    json::quoted(text, Escapes { letters: "\n\t", delete: false })
}

/// Items of a list, one a line.
pub(crate) struct JsonList {
    pub(crate) text: String,
    is_first: bool,
}

impl JsonList {
    /// The beginning of an object with a list in it.
    pub(crate) fn new(name: &str) -> JsonList {
        JsonList { text: format!("{{{}:[", quoted(name)), is_first: true }
    }

    /// Goes on after an item.
    pub(crate) fn item(&mut self) -> &mut String {
        self.text += if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
        &mut self.text
    }

    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.text.len() >= BUFFER {
            out.write_all(self.text.as_bytes())?;
            self.text.clear();
        }
        Ok(())
    }

    /// Ends this list and begins another one.
    pub(crate) fn next(&mut self, name: &str) {
        let _ = write!(self.text, "\n],{}:[", quoted(name));
        self.is_first = true;
    }

    /// Ends the object.
    pub(crate) fn end(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.text += "\n]}\n";
        out.write_all(self.text.as_bytes())
    }
}

/// Writes entries and exits of calls, events and losses in their order, and the calls without an exit.
///
/// # Errors
/// Errors of the writer.
pub fn write_replay(
    source: &dyn CallSource,
    calls: CallOptions,
    has_values: bool,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let mut follower = Follower::new(source, calls);
    let mut list = JsonList::new("records");
    let mut values = Vec::new();
    while let Some(record) = follower.next() {
        if record.is_call() && follower.is_skipped_library_call(record.symbol, record.address) {
            continue;
        }
        let Some(ShownRecord { place, depth }) = follower.step(&record) else { continue };
        let ended = follower.left_call(record.task as usize);
        if record.kind == CallKind::Event && ended.is_none() {
            continue;
        }
        let text = list.item();
        put_head(text, &mut follower, &record, depth);
        if record.kind == CallKind::Exit
            && let Some(frame) = follower.tasks[record.task as usize].frame(place)
        {
            let _ = write!(text, ",\"duration_ns\":{}", frame.time);
            // Its beginning was not seen: the task began inside of it, or records were lost.
            if frame.address != record.address {
                *text += ",\"without_entry\":true";
            }
        }
        if record.has_values && has_values {
            put_values(text, source, &record, &mut values);
        }
        text.push('}');
        list.flush(out)?;
    }
    list.next("open");
    for at in 0..follower.tasks.len() {
        let frames = follower.tasks[at].below(follower.tasks[at].stack_count).to_vec();
        for (depth, frame) in frames.iter().enumerate().filter(|(_, frame)| frame.address != 0) {
            let name = quoted(&follower.known_symbol(frame.symbol, frame.address).symbol.name);
            let (tid, address, begin) = (source.tasks()[at].tid, frame.address, frame.time);
            let text = list.item();
            let _ = write!(text, "{{\"tid\":{tid},\"depth\":{depth},\"name\":{name},\"address\":{address}");
            // A call that was already open when the task began has no begin time of its own.
            let _ = write!(text, ",\"begin_ns\":{begin}}}");
        }
    }
    list.end(out)?;
    Ok(follower.take_findings())
}

/// Begins the object of a record: its type, task, time, depth and name.
fn put_head(text: &mut String, follower: &mut Follower<'_>, record: &CallRecord, depth: i32) {
    let tid = follower.source.tasks()[record.task as usize].tid;
    let _ = write!(text, "{{\"type\":\"{}\",\"tid\":{tid}", word(record.kind));
    if record.kind != CallKind::Lost {
        let _ = write!(text, ",\"ns\":{}", record.time);
    }
    let _ = write!(text, ",\"depth\":{depth}");
    let _ = match record.kind {
        CallKind::Entry | CallKind::Exit => {
            let known = follower.known_symbol(record.symbol, record.address).symbol;
            let _ = write!(text, ",\"name\":{},\"address\":{}", quoted(&known.name), record.address);
            known.module.as_ref().map_or(Ok(()), |module| write!(text, ",\"module\":{}", quoted(module)))
        }
        CallKind::Lost => write!(text, ",\"lost\":{}", record.address),
        CallKind::Event => write!(text, ",\"name\":{}", quoted(&follower.source.event_name(record))),
    };
}

/// Appends the values of a record; `values` is storage.
fn put_values(text: &mut String, source: &dyn CallSource, record: &CallRecord, values: &mut Vec<u8>) {
    values.clear();
    let key = match record.kind {
        CallKind::Entry => "arguments",
        CallKind::Exit => "return_value",
        CallKind::Event | CallKind::Lost => "data",
    };
    match record.kind {
        CallKind::Event => source.put_event_data(record, values),
        _ => source.put_values(record, ValueStyle::Text(ColorStyle::None), values),
    }
    let _ = write!(text, ",\"{key}\":{}", quoted(&String::from_utf8_lossy(values)));
}

/// The type of a record.
fn word(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Entry => "entry",
        CallKind::Exit => "exit",
        CallKind::Event => "event",
        CallKind::Lost => "lost",
    }
}

fn put_times(text: &mut String, name: &str, times: &TimeStats, calls: u64) {
    let min = if calls == 0 { 0 } else { times.min };
    let _ = write!(
        text,
        ",\"{name}_ns\":{},\"{name}_avg_ns\":{},\"{name}_min_ns\":{min},\"{name}_max_ns\":{}",
        times.sum,
        times.mean(calls),
        times.max
    );
}

fn put_function(text: &mut String, source: &dyn CallSource, stats: &FunctionStats, options: &ReportOptions) {
    let _ = write!(text, "{{\"name\":{},\"calls\":{},\"size\":{}", quoted(&stats.name), stats.calls, stats.size);
    put_times(text, "total", &stats.total, stats.calls);
    put_times(text, "self", &stats.own, stats.calls);
    if let Some(spread) = &stats.spread {
        for (name, spread) in [("total", &spread.0), ("self", &spread.1)] {
            for part in [50, 90, 99] {
                let _ = write!(text, ",\"{name}_p{part}_ns\":{}", spread.percentile(part));
            }
        }
        if options.histogram {
            let powers = spread.0.powers().into_iter();
            let powers: Vec<String> =
                powers.map(|(from, count)| format!("{{\"from_ns\":{from},\"calls\":{count}}}")).collect();
            let _ = write!(text, ",\"histogram\":[{}]", powers.join(","));
        }
    }
    if let Some((file, line)) = source.source_line(stats.symbol).filter(|_| options.source_lines) {
        let _ = write!(text, ",\"file\":{},\"line\":{line}", quoted(&file));
    }
    text.push('}');
}

/// Writes the statistics of functions, in the order that the options ask for.
///
/// # Errors
/// Errors of the writer.
pub fn write_report(
    source: &dyn CallSource,
    mut functions: Vec<FunctionStats>,
    options: &ReportOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    crate::report::sort(&mut functions, &options.keys);
    let mut list = JsonList::new("functions");
    for stats in &functions {
        put_function(list.item(), source, stats, options);
        list.flush(out)?;
    }
    if !options.spans.is_empty() {
        list.next("spans");
    }
    for span in &options.spans {
        let _ = write!(
            list.item(),
            "{{\"name\":{},\"spans\":{},\"unclosed\":{},\"open_ns\":{{\"total\":{},\"avg\":{},\"max\":{}}},\"in_polls_ns\":{}}}",
            quoted(&span.name),
            span.count,
            span.open,
            span.total,
            span.mean(),
            span.max,
            span.in_polls
        );
    }
    list.end(out)
}

/// Writes the statistics of the functions of two recordings side by side, in the order of names.
///
/// # Errors
/// Errors of the writer.
pub fn write_difference(
    (base, base_source): (&[FunctionStats], &dyn CallSource),
    (other, other_source): (&[FunctionStats], &dyn CallSource),
    options: &ReportOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut names: Vec<&str> = base.iter().chain(other).map(|stats| stats.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut list = JsonList::new("functions");
    for name in names {
        let text = list.item();
        let _ = write!(text, "{{\"name\":{}", quoted(name));
        for (key, functions, source) in [("base", base, base_source), ("diff", other, other_source)] {
            let _ = write!(text, ",\"{key}\":");
            // They stand in the order of their names.
            match functions.binary_search_by(|stats| stats.name.as_str().cmp(name)) {
                Ok(at) => put_function(text, source, &functions[at], options),
                Err(_) => *text += "null",
            }
        }
        text.push('}');
        list.flush(out)?;
    }
    list.end(out)
}

/// Writes the statistics of tasks.
///
/// # Errors
/// Errors of the writer.
pub fn write_tasks(source: &dyn CallSource, stats: &[TaskStats], out: &mut dyn Write) -> io::Result<()> {
    let mut list = JsonList::new("tasks");
    for stats in stats {
        let task = &source.tasks()[stats.task];
        let (tid, pid, name) = (task.tid, task.pid, quoted(&String::from_utf8_lossy(&stats.name)));
        let TaskStats { total, own, calls, .. } = stats;
        let text = list.item();
        let _ = write!(text, "{{\"tid\":{tid},\"pid\":{pid},\"name\":{name},\"total_ns\":{total}");
        let _ = write!(text, ",\"self_ns\":{own},\"calls\":{calls}}}");
    }
    list.end(out)
}

/// Writes which task began which.
///
/// # Errors
/// Errors of the writer.
pub fn write_task_tree(source: &dyn CallSource, tree: &TaskTree, out: &mut dyn Write) -> io::Result<()> {
    let tasks = source.tasks();
    let mut list = JsonList::new("tasks");
    for (at, task) in tasks.iter().enumerate() {
        let parent = tree.children.iter().position(|children| children.contains(&at));
        let parent = parent.map_or("null".to_string(), |parent| tasks[parent].tid.to_string());
        let ((total, idle), name) = (tree.times[at], quoted(&String::from_utf8_lossy(&tree.names[at])));
        let (tid, pid, own) = (task.tid, task.pid, total.wrapping_sub(idle));
        let text = list.item();
        let _ = write!(text, "{{\"tid\":{tid},\"pid\":{pid},\"parent\":{parent},\"name\":{name}");
        let _ = write!(text, ",\"total_ns\":{total},\"self_ns\":{own}}}");
    }
    list.end(out)
}

/// Writes the records as they are stored, task by task; gives what was wrong with the source.
///
/// # Errors
/// Errors of the writer.
pub fn write_records(
    source: &dyn CallSource,
    calls: CallOptions,
    options: DumpOptions<'_>,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let mut list = JsonList::new("records");
    let mut failed = Ok(());
    let mut see = |record: &CallRecord| {
        if failed.is_err() || options.no_events && record.kind == CallKind::Event {
            return;
        }
        let name = match record.kind {
            CallKind::Entry | CallKind::Exit => source.symbol(record.symbol, record.address).name,
            CallKind::Event => source.event_name(record),
            CallKind::Lost => String::new(),
        };
        let text = list.item();
        let _ = write!(text, "{{\"type\":\"{}\"", word(record.kind));
        if let Some(task) = source.tasks().get(record.task as usize) {
            let _ = write!(text, ",\"tid\":{}", task.tid);
        }
        let _ = write!(text, ",\"ns\":{}", record.time);
        let _ = match record.kind {
            CallKind::Lost => write!(text, ",\"lost\":{}", record.address),
            _ => write!(text, ",\"name\":{},\"address\":{}", quoted(&name), record.address),
        };
        let _ = write!(text, ",\"depth\":{},\"has_values\":{}}}", record.depth, record.has_values);
        failed = list.flush(out);
    };
    let findings = crate::raw::for_each_record(source, calls, options, &mut see)?;
    failed?;
    list.end(out)?;
    Ok(findings)
}
