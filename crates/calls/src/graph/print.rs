//! Trees as text.

use std::io::{self, Write};

use tracemill_format::calls::{CallSource, Color, ColorStyle, Findings, event_id};

use super::build::Graph;
use super::tree::{Node, Tree};
use super::{GraphField, GraphOptions};
use crate::follow::SCHEDULE;
use crate::select::CallOptions;
use crate::text::{put_blanks, put_painted_time};

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
        let title = &*colors.escaped(options.function.as_deref().unwrap_or(&programs[at].name));
        let id = programs[at].id.get(..16).unwrap_or(&programs[at].id);
        text.extend_from_slice(format!("# Function Call Graph for '{title}' (session: {id})\n").as_bytes());
        if options.function.is_some() && !tree.ways.is_empty() {
            text.extend_from_slice(b"=============== BACKTRACE ===============\n");
            ways(source, tree, colors, &mut text);
        }
        if root.time > 0 || !root.children.is_empty() {
            text.extend_from_slice(b"========== FUNCTION CALL GRAPH ==========\n");
            let names = &graph.builder.names;
            let mut printer =
                Printer { source, tree, names, title, options, colors, lines: Vec::new(), text: &mut text };
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

fn ways(source: &dyn CallSource, tree: &Tree, colors: ColorStyle, text: &mut Vec<u8>) {
    for (at, way) in tree.ways.iter().rev().enumerate() {
        text.extend_from_slice(format!(" backtrace #{at}: hit {}, time ", way.hits).as_bytes());
        put_painted_time(text, way.time, colors);
        text.push(b'\n');
        for (depth, &(address, symbol)) in way.frames.iter().enumerate() {
            let name = source.symbol(symbol, address).name;
            let name = colors.escaped(&name);
            text.extend_from_slice(format!("   [{depth}] {name} ({})\n", hex(address)).as_bytes());
        }
        text.push(b'\n');
    }
}

/// As `%#lx` of C.
pub(super) fn hex(address: u64) -> String {
    if address == 0 { "0".into() } else { format!("{address:#x}") }
}

struct Printer<'a> {
    source: &'a dyn CallSource,
    tree: &'a Tree,
    names: &'a [String],
    title: &'a str,
    options: &'a GraphOptions,
    colors: ColorStyle,
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
                self.colors.put(self.text, Color::Gray, " [SOURCE]");
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
            let place = format!(" [{}:{line}]", self.colors.escaped(&file));
            self.colors.put(self.text, Color::Gray, &place);
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
