//! Profiles of the Firefox Profiler, in its processed form (version 55, of early 2025; the profiler brings older ones up to
//! date when it loads them).
//!
//! Each thread has tables, column by column. A sample stands for a stretch of time in which the same calls are open: it has
//! the time where that begins and its length as weight. Events that are no calls are markers.

use std::collections::HashMap;
use std::io::{self, Write};

use tracemill_format::Spill;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Target;
use tracemill_model::error::Result;

use super::stacks::{CallThread, Change, Follower, StackSink, Stacks};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings;

/// See the module.
pub(super) static FIREFOX: Target =
    Target::file(&["firefox"], "calls and markers of threads for profiler.firefox.com", |path, sources, _| {
        let sink = Firefox::new(Spill::new(path, "parts"));
        Ok(Box::new(Follower::new(path, sources, sink)?))
    })
    .with_endings(&["firefox.json", "firefox"])
    .cannot_hold(&[Lost::Values, Lost::Packets, Lost::Clocks, Lost::Environment]);

/// Different ways to calls that are kept, for all threads; what is called on further ones counts for its caller.
const MAX_NODES: usize = 1 << 20;
/// Columns that are written while events come.
const COLUMNS: usize = 5;
const STACK: usize = 0;
const TIME: usize = 1;
const WEIGHT: usize = 2;
const MARKER_NAME: usize = 3;
const MARKER_TIME: usize = 4;

pub(crate) struct Firefox {
    spill: Spill,
    threads: Vec<ThreadTables>,
    nodes: usize,
    cut: u64,
}

/// The tables of a thread.
#[derive(Default)]
struct ThreadTables {
    /// Names, by their place here; each call's name is also its frame and its function.
    names: Vec<u32>,
    of_name: HashMap<u32, u32>,
    /// Ways to calls: the caller's, and the frame.
    stacks: Vec<(Option<u32>, u32)>,
    of_stack: HashMap<(Option<u32>, u32), u32>,
    open: Vec<Option<u32>>,
    last: u64,
    has_begun: bool,
    samples: u64,
    /// Are weights numbers, not times?
    has_counts: bool,
    markers: u64,
}

/// A value so many times.
fn repeated(value: &str, count: u64) -> String {
    vec![value; count as usize].join(",")
}

/// Values of a column.
fn joined<T: ToString>(values: impl Iterator<Item = T>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}

impl ThreadTables {
    /// The tables that say what a thread calls: frames, functions, ways to calls.
    fn tables(&self) -> String {
        let count = self.names.len() as u64;
        let numbers = joined(0..count);
        let (zeros, nulls, none) = (repeated("0", count), repeated("null", count), repeated("-1", count));
        let falses = repeated("false", count);
        let callers = self.stacks.iter().map(|(caller, _)| caller.map_or("null".to_string(), |at| at.to_string()));
        let (callers, frames) = (joined(callers), joined(self.stacks.iter().map(|(_, frame)| frame)));
        format!(
            ",\"frameTable\":{{\"length\":{count},\"address\":[{none}],\"inlineDepth\":[{zeros}],\"category\":[{zeros}],\
             \"subcategory\":[{zeros}],\"func\":[{numbers}],\"nativeSymbol\":[{nulls}],\"innerWindowID\":[{nulls}],\
             \"line\":[{nulls}],\"column\":[{nulls}]}},\"funcTable\":{{\"length\":{count},\"name\":[{numbers}],\
             \"isJS\":[{falses}],\"relevantForJS\":[{falses}],\"resource\":[{none}],\"fileName\":[{nulls}],\
             \"lineNumber\":[{nulls}],\"columnNumber\":[{nulls}]}},\"resourceTable\":{{\"length\":0,\"lib\":[],\
             \"name\":[],\"host\":[],\"type\":[]}},\"nativeSymbols\":{{\"length\":0,\"libIndex\":[],\"address\":[],\
             \"name\":[],\"functionSize\":[]}},\"stackTable\":{{\"length\":{},\"prefix\":[{callers}],\"frame\":[{frames}]}}",
            self.stacks.len()
        )
    }

    fn name(&mut self, frame: u32) -> u32 {
        *self.of_name.entry(frame).or_insert_with(|| {
            self.names.push(frame);
            self.names.len() as u32 - 1
        })
    }
}

/// Ns as ms.
fn ms(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

impl Firefox {
    pub(crate) fn new(spill: Spill) -> Firefox {
        Firefox { spill, threads: Vec::new(), nodes: 0, cut: 0 }
    }

    /// Adds a sample of a thread: its stack, the outermost function first, its time, and its weight and whether that is a time.
    pub(crate) fn add(&mut self, at: usize, stack: &[u32], time: u64, (weight, is_time): (u64, bool)) -> Result<()> {
        while self.threads.len() <= at {
            self.threads.push(ThreadTables::default());
        }
        let stack = stack.iter().fold(None, |caller, &frame| self.stack(at, caller, frame));
        self.threads[at].has_counts |= !is_time;
        let weight = if is_time { ms(weight) } else { weight.to_string() };
        self.sample(at, stack, &ms(time), &weight)
    }

    /// The way to a call on another one.
    fn stack(&mut self, at: usize, caller: Option<u32>, frame: u32) -> Option<u32> {
        let of = &mut self.threads[at];
        let key = (caller, of.name(frame));
        match of.of_stack.get(&key) {
            Some(&next) => Some(next),
            None if self.nodes >= MAX_NODES => {
                self.cut += 1;
                caller
            }
            None => {
                self.nodes += 1;
                of.stacks.push(key);
                of.of_stack.insert(key, of.stacks.len() as u32 - 1);
                Some(of.stacks.len() as u32 - 1)
            }
        }
    }

    fn sample(&mut self, at: usize, stack: Option<u32>, time: &str, weight: &str) -> Result<()> {
        let samples = &mut self.threads[at].samples;
        let is_first = *samples == 0;
        *samples += 1;
        let stack = stack.map_or_else(|| "null".to_string(), |stack| stack.to_string());
        self.column(at, STACK, is_first, &stack)?;
        self.column(at, TIME, is_first, time)?;
        self.column(at, WEIGHT, is_first, weight)
    }

    /// The head of a thread, before its tables: its identity and its names.
    fn head(&self, at: usize, stacks: &Stacks) -> String {
        let (of, thread) = (&self.threads[at], &stacks.threads[at]);
        let process = thread.process.or(thread.id).unwrap_or(0);
        let is_main = thread.id.is_some() && thread.id == thread.process;
        let mut text = Out::default();
        text.put(if at > 0 { b",\n{\"name\":" } else { b"\n{\"name\":" });
        strings::put_json(&mut text, thread.title().as_bytes());
        text.put_fmt(format_args!(",\"isMainThread\":{is_main},\"processType\":\"default\",\"processName\":"));
        let process_name = thread.process_name.clone().unwrap_or_else(|| format!("process {process}"));
        strings::put_json(&mut text, process_name.as_bytes());
        text.put_fmt(format_args!(
            ",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":{},\"unregisterTime\":null,\
             \"pausedRanges\":[],\"pid\":\"{process}\",\"tid\":\"{}\",\"stringArray\":[",
            ms(thread.first),
            thread.id.unwrap_or(at as i64),
        ));
        for (at, name) in of.names.iter().enumerate() {
            if at > 0 {
                text.put_byte(b',');
            }
            strings::put_json(&mut text, stacks.frames[*name as usize].as_bytes());
        }
        text.put_byte(b']');
        String::from_utf8_lossy(text.written()).into_owned()
    }

    /// The columns of samples and markers, and the end of a thread.
    fn put_columns(&mut self, at: usize, out: &mut dyn Write) -> io::Result<()> {
        let (samples, markers) = (self.threads[at].samples, self.threads[at].markers);
        let weight_type = if self.threads[at].has_counts { "samples" } else { "tracing-ms" };
        write!(out, ",\"samples\":{{\"length\":{samples},\"weightType\":\"{weight_type}\"")?;
        for (name, column) in [("stack", STACK), ("time", TIME), ("weight", WEIGHT)] {
            write!(out, ",\"{name}\":[")?;
            self.spill.copy(at * COLUMNS + column, out)?;
            write!(out, "]")?;
        }
        write!(out, "}},\"markers\":{{\"length\":{markers}")?;
        for (name, column) in [("name", MARKER_NAME), ("startTime", MARKER_TIME)] {
            write!(out, ",\"{name}\":[")?;
            self.spill.copy(at * COLUMNS + column, out)?;
            write!(out, "]")?;
        }
        for (name, value) in [("endTime", "null"), ("phase", "0"), ("category", "0"), ("data", "null")] {
            write!(out, ",\"{name}\":[{}]", repeated(value, markers))?;
        }
        write!(out, "}}}}")
    }

    fn column(&mut self, at: usize, column: usize, is_first: bool, value: &str) -> Result<()> {
        if !is_first {
            self.spill.append(at * COLUMNS + column, b",")?;
        }
        self.spill.append(at * COLUMNS + column, value.as_bytes())
    }
}

impl StackSink for Firefox {
    const KEEPS_POINTS: bool = true;

    fn change(&mut self, at: usize, thread: &CallThread, time: u64, change: Change) -> Result<()> {
        while self.threads.len() <= at {
            self.threads.push(ThreadTables::default());
        }
        let of = &mut self.threads[at];
        if !std::mem::replace(&mut of.has_begun, true) {
            of.last = thread.first;
        }
        if let Change::Point(frame) = change {
            let (name, is_first) = (of.name(frame).to_string(), of.markers == 0);
            of.markers += 1;
            self.column(at, MARKER_NAME, is_first, &name)?;
            return self.column(at, MARKER_TIME, is_first, &ms(time));
        }
        let (last, stack) = (std::mem::replace(&mut of.last, time), of.open.last().copied().flatten());
        match change {
            Change::Push(frame) => {
                let next = self.stack(at, stack, frame);
                self.threads[at].open.push(next);
            }
            _ => {
                of.open.pop();
            }
        }
        if time > last { self.sample(at, stack, &ms(last), &ms(time - last)) } else { Ok(()) }
    }

    fn finish(&mut self, out: &mut dyn Write, stacks: &Stacks, losses: &mut Losses) -> io::Result<()> {
        let start = if stacks.is_unix { stacks.origin_ns.max(0) as u64 } else { 0 };
        write!(
            out,
            "{{\"meta\":{{\"categories\":[{{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]}}],\
             \"debug\":false,\"extensions\":{{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]}},\"interval\":1.0,\
             \"preprocessedProfileVersion\":55,\"processType\":0,\"product\":\"tracemill\",\
             \"sampleUnits\":{{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"\u{b5}s\"}},\"startTime\":{},\
             \"symbolicated\":true,\"pausedRanges\":[],\"version\":24,\"usesOnlyOneStackType\":true,\
             \"sourceCodeIsNotOnSearchfox\":true,\"markerSchema\":[]}},\"libs\":[],\"pages\":[],\
             \"profilerOverhead\":[],\"counters\":[],\"threads\":[",
            ms(start)
        )?;
        for at in 0..self.threads.len() {
            let text = self.head(at, stacks) + &self.threads[at].tables();
            out.write_all(text.as_bytes())?;
            self.put_columns(at, out)?;
        }
        out.write_all(b"\n]}\n")?;
        losses.add(Lost::MoreWays(MAX_NODES), self.cut);
        Ok(())
    }
}
