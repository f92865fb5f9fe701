//! Trees as text.

use std::io::{self, Write};

use tracemill_format::calls::{CallSource, Color, ColorStyle, Findings, event_id};

use super::build::trees;
use super::tree::{CallNode, CallTree};
use super::{GraphField, GraphOptions};
use crate::branches::{Branches, put_empty_columns, put_headers};
use crate::follow::SCHEDULE;
use crate::names::MetNames;
use crate::select::CallOptions;
use crate::text::{put_blanks, put_painted_time, put_source_line};

/// Writes the graph of each program; gives what was wrong with the source.
///
/// # Errors
/// Errors of the writer.
pub fn write(
    source: &dyn CallSource,
    calls: CallOptions,
    options: &GraphOptions,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let programs = source.programs();
    let (has_filter, colors) = (calls.has_filter(), calls.colors);
    let (builder, findings) = trees(source, calls, options);
    let mut order: Vec<usize> = (0..programs.len()).collect();
    // As uftrace lists them: the last process first, and of a process its last program.
    order.sort_by_key(|&at| std::cmp::Reverse((programs[at].pid, programs[at].start)));
    let mut text = Vec::new();
    let mut is_empty = true;
    for at in order {
        let tree = &builder.trees[at];
        if tree.is_empty() {
            continue;
        }
        let root = &tree.nodes[0];
        is_empty = false;
        let title = &*colors.escaped(options.function.as_deref().unwrap_or(&programs[at].name));
        let id = programs[at].id.get(..16).unwrap_or(&programs[at].id);
        text.extend_from_slice(format!("# Function Call Graph for '{title}' (session: {id})\n").as_bytes());
        if options.function.is_some() && !tree.ways.is_empty() {
            text.extend_from_slice(b"=============== BACKTRACE ===============\n");
            ways(source, tree, colors, &mut text);
        }
        if root.time > 0 || !root.children.is_empty() {
            text.extend_from_slice(b"========== FUNCTION CALL GRAPH ==========\n");
            let names = &builder.names;
            let headers: Vec<&str> = options.fields.iter().map(|field| field.header()).collect();
            let (branches, text) = (Branches::default(), &mut text);
            GraphPrinter { source, tree, names, title, options, headers, colors, branches, text }.tree();
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
    Ok(findings)
}

fn ways(source: &dyn CallSource, tree: &CallTree, colors: ColorStyle, text: &mut Vec<u8>) {
    for (at, way) in tree.ways.iter().rev().enumerate() {
        text.extend_from_slice(format!(" backtrace #{at}: hit {}, time ", way.hits).as_bytes());
        put_painted_time(text, way.time, colors);
        text.push(b'\n');
        for (depth, &(address, symbol)) in way.frames.iter().enumerate() {
            let name = source.symbol(symbol, address).name;
            let name = colors.escaped(&name);
            // As `%#lx` of C.
            let address = if address == 0 { "0".into() } else { format!("{address:#x}") };
            text.extend_from_slice(format!("   [{depth}] {name} ({address})\n").as_bytes());
        }
        text.push(b'\n');
    }
}

struct GraphPrinter<'a> {
    source: &'a dyn CallSource,
    tree: &'a CallTree,
    names: &'a MetNames,
    title: &'a str,
    options: &'a GraphOptions,
    headers: Vec<&'static str>,
    colors: ColorStyle,
    branches: Branches,
    text: &'a mut Vec<u8>,
}

impl GraphPrinter<'_> {
    fn tree(&mut self) {
        if put_headers(self.text, &self.headers, "   FUNCTION") {
            if self.options.source_lines {
                self.colors.write(self.text, Color::Gray, " [SOURCE]");
            }
            self.text.push(b'\n');
        }
        // A node, or a blank line after it; deep trees do not fit the stack of a thread.
        enum PrintStep {
            Node { node: usize, level: usize, has_line: bool, is_last: bool },
            Blank(usize),
            Done(usize),
        }
        let root_has_line = self.tree.nodes[0].children.len() > 1;
        let mut steps = vec![PrintStep::Node { node: 0, level: 0, has_line: root_has_line, is_last: true }];
        while let Some(step) = steps.pop() {
            match step {
                PrintStep::Blank(level) => {
                    put_empty_columns(self.text, &self.headers);
                    self.branches.write_prefix(self.text, level, false);
                    self.text.push(b'\n');
                }
                PrintStep::Done(level) => self.branches.set(level, false),
                PrintStep::Node { node, level, has_line, is_last } => {
                    self.node(node, level, has_line);
                    let CallNode { children, parent, .. } = &self.tree.nodes[node];
                    let siblings = parent.map_or(0, |parent| self.tree.nodes[parent].children.len());
                    let mut below = level;
                    if children.len() > 1 {
                        self.branches.set(level, true);
                        below += 1;
                    }
                    if siblings > 1 && level > 0 && is_last {
                        self.branches.set(level - 1, false);
                    }
                    steps.push(PrintStep::Done(level));
                    for (at, &child) in children.iter().enumerate().rev() {
                        let is_last = at + 1 == children.len();
                        if !is_last {
                            steps.push(PrintStep::Blank(below));
                        }
                        let has_line = children.len() > 1;
                        steps.push(PrintStep::Node { node: child, level: below, has_line, is_last });
                    }
                }
            }
        }
        self.text.push(b'\n');
    }

    fn node(&mut self, at: usize, level: usize, has_line: bool) {
        let node = &self.tree.nodes[at];
        for field in &self.options.fields {
            put_blanks(self.text, 2);
            match field {
                GraphField::Total => put_painted_time(self.text, node.time, self.colors),
                GraphField::Own => put_painted_time(self.text, node.time.wrapping_sub(node.child_time), self.colors),
                GraphField::Address => {
                    let address = node.address & 0xffff_ffff_ffff;
                    self.text.extend_from_slice(format!("{address:12x}").as_bytes());
                }
            }
        }
        if !self.options.fields.is_empty() {
            self.text.extend_from_slice(b" : ");
        }
        self.branches.write_prefix(self.text, level, has_line);
        let is_root = at == 0;
        let calls = if is_root && self.options.function.is_none() { 1 } else { node.calls };
        let name = match is_root {
            // As uftrace names what began with one of these events.
            true if node.address == event_id::SCHED_IN => SCHEDULE,
            true => self.title,
            false => &self.names[node.name],
        };
        self.text.extend_from_slice(format!("({calls}) {name}").as_bytes());
        if self.options.source_lines && !is_root {
            put_source_line(self.text, self.source, node.symbol, self.colors, [" [", "]"]);
        }
        self.text.push(b'\n');
    }
}
