//! Text of the Linux tracer: `trace` and `trace_pipe` of tracefs, `trace-cmd report`, and pages of systrace.
//!
//! ```text
//! line        the beginning of a line: task, CPU, flags, time; and how what follows it is divided
//! page        where the text is in a page of systrace
//! perf_script the same for lines of `perf script`
//! pattern     texts with typed fields
//! graph       lines of the tracer `function_graph`
//! known       the patterns of well-known events
//! division    keys and values of all others
//! classes     which class a line is of, and the schema
//! walk        lines, one item after the other
//! survey      the first pass: classes, CPUs, packets, losses
//! reader      the second pass: lines become events in bytes
//! ```
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod classes;
mod division;
mod graph;
mod known;
mod line;
mod page;
mod pattern;
mod perf_script;
mod reader;
mod survey;
#[cfg(test)]
mod tests;
mod walk;

use std::path::Path;
use std::sync::Arc;

use tracemill_format::calls::CallEvents;
use tracemill_format::{DataFile, EntryKind, Format, FoundTrace, OpenContext, OpenTrace, Storage, Stream};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::EnvValue;

use line::NO_CPU;
use reader::{TextReader, WaitingSlices};
use survey::Survey;
use walk::{TextDialect, TextItem, TextWalk};

/// Text of the Linux tracer.
pub static FORMAT: Format = Format::new(
    &["ftrace-text"],
    "text of ftrace: trace and trace_pipe of tracefs, trace-cmd report, systrace",
    probe,
    open,
)
.looks_like("text of ftrace begins with `# tracer:`, or with lines of a task, a CPU in brackets and a time")
.with_calls()
.made_of_others();

/// Text of `perf script`.
pub static PERF_SCRIPT: Format =
    Format::new(&["perf-script"], "text of `perf script`", probe_perf_script, open_perf_script)
        .looks_like("text of `perf script` begins with a line of a thread, a time and an event")
        .made_of_others();

/// The tracer `function_graph`.
const CALLS: &[CallEvents] = &[CallEvents::by_symbol("funcgraph_entry", "funcgraph_exit", "symbol")];

/// Bytes that are looked at to recognize a file.
const PROBE_BYTES: usize = 16 << 10;
/// Lines without an event before the first one that has one.
const PROBE_LINES: usize = 64;

fn probe(storage: &dyn Storage, path: &Path) -> bool {
    let is_file = matches!(storage.kind(path), Some(EntryKind::File(_)));
    let Some(start) = storage.read_start(path, PROBE_BYTES).ok().filter(|_| is_file) else { return false };
    if page::is_page(&start) {
        // The text comes after the scripts of the page.
        return storage.open(path).is_ok_and(|file| !page::texts(file.bytes(), is_text).is_empty());
    }
    is_text(&start)
}

fn probe_perf_script(storage: &dyn Storage, path: &Path) -> bool {
    matches!(storage.kind(path), Some(EntryKind::File(_)))
        && storage.read_start(path, PROBE_BYTES).is_ok_and(|start| begins(&start, TextDialect::PerfScript))
}

/// Is it the beginning of text of ftrace?
fn is_text(start: &[u8]) -> bool {
    begins(start, TextDialect::Ftrace)
}

/// Is it the beginning of such a text?
fn begins(start: &[u8], dialect: TextDialect) -> bool {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let start = &start[..start.len().min(PROBE_BYTES)];
    let whole = if start.len() < PROBE_BYTES { start.len() } else { memchr::memrchr(b'\n', start).unwrap_or(0) };
    let lines = start[..whole].split(|byte| *byte == b'\n').take(PROBE_LINES);
    for line in lines.map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty()) {
        if line.starts_with(b"# tracer:") {
            return dialect == TextDialect::Ftrace;
        }
        match TextWalk::new(line, dialect, 0, Vec::new(), false).next() {
            TextItem::Event { .. } => return true,
            TextItem::Wrong(_) => return false,
            _ => {}
        }
    }
    false
}

fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    open_all(context, found, TextDialect::Ftrace)
}

fn open_perf_script(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    open_all(context, found, TextDialect::PerfScript)
}

fn open_all(context: &OpenContext<'_>, found: &[FoundTrace], dialect: TextDialect) -> Vec<Result<OpenTrace>> {
    let open = |found| open_file(context, found, dialect);
    found.iter().map(|found| open(found).map_err(|error| error.in_file(&found.path))).collect()
}

fn open_file(context: &OpenContext<'_>, found: &FoundTrace, dialect: TextDialect) -> Result<OpenTrace> {
    let file = context.storage.open(&found.path)?;
    let len = file.bytes().len();
    file.will_read(0, len);
    let texts = match dialect == TextDialect::Ftrace && page::is_page(file.bytes()) {
        true => page::texts(file.bytes(), is_text),
        false => std::iter::once(0..len).collect(),
    };
    let range = texts.first().cloned().unwrap_or_default();
    let mut survey = Survey::read(&file.bytes()[range.clone()], dialect, &found.path, range.start, context.jobs);
    if file.len_now() < len as u64 {
        let message = "the file was cut while it was read";
        return Err(Error::malformed(message).at_offset(file.len_now()));
    }
    let format = match dialect {
        TextDialect::Ftrace => FORMAT.names[0],
        TextDialect::PerfScript => PERF_SCRIPT.names[0],
    };
    let (mut schema, class) = survey.classes.schema(format, classes::clock(survey.is_ns, survey.first.unwrap_or(0)));
    if let Some(tracer) = &survey.tracer {
        schema.environment.push(("tracer".into(), EnvValue::String(tracer.as_str().into())));
    }
    let data = DataFile::single(found, file.clone());
    let mut of_cpu: std::collections::BTreeMap<u32, Stream> = std::collections::BTreeMap::new();
    for (index, packet) in survey.packets.iter().enumerate() {
        let stream = of_cpu.entry(packet.cpu).or_insert_with(|| Stream {
            name: if packet.cpu == NO_CPU { "timed".to_string() } else { format!("cpu{}", packet.cpu) },
            class,
            id: None,
            files: vec![data.clone()],
            packets: PacketList::default(),
        });
        stream.packets.push(&Packet {
            index: index as u64,
            begin_cycles: Some(packet.range.0),
            end_cycles: Some(packet.range.1),
            ..Packet::new(class, packet.at + range.start as u64, packet.bytes * 8)
        });
    }
    let (faults, mut warnings) = (std::mem::take(&mut survey.faults), std::mem::take(&mut survey.warnings));
    if let Some(next) = texts.get(1) {
        let message = format!("the page holds {} texts of ftrace, of which the first is read", texts.len());
        warnings.push(Error::unsupported(message).in_file(&found.path).at_offset(next.start as u64));
    }
    let reader = TextReader { file, range, path: found.path.clone(), survey, waiting: WaitingSlices::default() };
    let mut trace = OpenTrace::from_file(found, schema, Arc::new(reader));
    trace.own_name = found.name.clone();
    trace.streams = of_cpu.into_values().collect();
    (trace.faults, trace.warnings) = (faults, warnings);
    Ok(trace)
}
