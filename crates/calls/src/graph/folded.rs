//! The calls of all programs as one tree: folded stacks, and graphs of who calls whom.

use std::io::{self, Write};

use tracemill_format::calls::{CallKind, CallSource, Findings, event_id};

use super::build::is_forked;
use super::tree::CallTreeBuilder;
use crate::follow::{Follower, SCHEDULE, ShownRecord};
use crate::select::CallOptions;
use crate::task_partitions;

/// Writes stacks with the samples that they take, one a line, as flame graphs are made of; `sample` is the time of a
/// sample in ns, 0 to count calls. Gives what was wrong with the source.
///
/// # Errors
/// Errors of the writer.
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

/// Writes the tree of all calls in the language of Graphviz. Gives what was wrong with the source.
///
/// # Errors
/// Errors of the writer.
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
    let tree = &builder.trees[0];
    let names = |node: usize| if node == 0 { &program } else { &builder.names[tree.nodes[node].name] };
    tree.walk(|parent, node, _| {
        let (of, name, calls) = (quoted(names(parent)), quoted(names(node)), tree.nodes[node].calls);
        text += &format!("    \"{of}\" -> \"{name}\" [xlabel = \"{calls}\"]\n");
    });
    text += "}\n";
    out.write_all(text.as_bytes())?;
    Ok(findings)
}

/// Writes the tree of all calls as a page that Mermaid draws. Gives what was wrong with the source.
///
/// # Errors
/// Errors of the writer.
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
    let names = |node: usize| if node == 0 { &program } else { &builder.names[tree.nodes[node].name] };
    tree.walk(|parent, node, depth| {
        let (of, name, calls) = (escaped(names(parent)), escaped(names(node)), tree.nodes[node].calls);
        text += &format!("  {}_{parent}[\"{of}\"] -->|{calls}| {depth}_{node}[\"{name}\"];\n", depth - 1);
    });
    text += "</pre>\n<script src=\"https://cdn.jsdelivr.net/npm/mermaid/dist/mermaid.min.js\"></script>\n\
             <script>mermaid.initialize({ startOnLoad: true, maxTextSize: 99999999 });</script>\n</body>\n</html>\n";
    out.write_all(text.as_bytes())?;
    Ok(findings)
}

/// The calls of all programs as one tree. The times of callees count in whole samples, when there are samples.
fn joined(source: &dyn CallSource, calls: CallOptions, sample: u64) -> (CallTreeBuilder, Findings) {
    let folded = |follower: Follower<'_>| folded(follower, sample);
    // Records of a process may end calls of the process that forked it, so forked tasks are followed together.
    let parts = if is_forked(source) { None } else { task_partitions::follow(source, &calls, folded) };
    match parts {
        Some(parts) => (CallTreeBuilder::joined(&parts, 1), Findings::default()),
        None => folded(Follower::new(source, calls)),
    }
}

/// The calls of a follower.
fn folded(mut follower: Follower<'_>, sample: u64) -> (CallTreeBuilder, Findings) {
    let mut builder = CallTreeBuilder::new(1, follower.tasks.len());
    for place in &mut builder.places {
        place.tree = Some(0);
    }
    let mut fold = |follower: &mut Follower<'_>, (at, place): (usize, isize), (symbol, address, time), kind| {
        if kind != CallKind::Event && follower.is_skipped_library_call(symbol, address) {
            return;
        }
        let (name, is_entry) = match kind {
            CallKind::Entry => (builder.names.intern_symbol(follower, symbol, address), true),
            CallKind::Event => (builder.names.number(SCHEDULE), address == event_id::SCHED_OUT),
            CallKind::Exit | CallKind::Lost => (0, false),
        };
        builder.places[at].node.get_or_insert(0);
        builder.add(follower, (at, place), (name, address, time), is_entry, sample);
    };
    while let Some(record) = follower.next() {
        let Some(ShownRecord { place, .. }) = follower.step(&record) else { continue };
        let is_folded = record.is_call() || matches!(record.address, event_id::SCHED_IN | event_id::SCHED_OUT);
        if is_folded && record.kind != CallKind::Lost {
            let what = (record.symbol, record.address, record.time);
            fold(&mut follower, (record.task as usize, place), what, record.kind);
        }
    }
    for at in 0..follower.tasks.len() {
        let last = follower.last_of(at);
        while follower.tasks[at].stack_count > 0 {
            // Neither does an exit count where a trigger put everything out.
            let closed = follower.close(at, last).filter(|frame| !frame.is_hidden && follower.is_enabled);
            if let Some(frame) = closed.filter(|frame| !follower.is_outside(at, frame)) {
                let place = follower.tasks[at].stack_count;
                fold(&mut follower, (at, place), (frame.symbol, frame.address, last), CallKind::Exit);
                follower.end_exit(at);
            }
        }
    }
    let findings = follower.take_findings();
    (builder, findings)
}
