//! Samples of stacks, in the formats for stacks: sums of folded stacks, sampled profiles of speedscope, samples of Firefox's profiler.
//!
//! The writers of calls follow what is open on a thread; here every sample brings its whole stack.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::open_calls::OpenCalls;
use tracemill_format::{OutPath, Spill};
use tracemill_model::error::Result;

use crate::firefox::Firefox;
use crate::folded::Folded;
use crate::late_file::WRITING;
use crate::stacks::{CallThread, StackSink, Stacks};

/// Threads that are kept apart; samples of further ones are left out.
const MAX_THREADS: usize = 1 << 16;

/// Names of the formats that hold samples.
pub const SAMPLED: [&str; 3] = ["folded", "speedscope", "firefox"];

/// The unit of the weights of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleWeights {
    /// Time in ns.
    Ns,
    /// Numbers of events.
    Events,
}

/// A sample of a thread.
#[derive(Clone, Debug)]
pub struct StackSample<'s> {
    /// Name of the thread.
    pub thread_name: &'s str,
    /// The thread.
    pub thread: Option<i64>,
    /// Its process.
    pub process: Option<i64>,
    /// The event that was sampled, where a recording has several: their samples are kept apart.
    pub event: Option<&'s str>,
    /// When it was taken, in ns.
    pub ns: Option<i128>,
    /// For how much it stands.
    pub weight: u64,
    /// The unit of that; of samples of one thread and event it is the same.
    pub unit: SampleWeights,
    /// Numbers of its functions in the list of names, the innermost first.
    pub stack: &'s [u32],
}

/// Writes samples to a file.
pub struct SampleExport {
    path: OutPath,
    sink: SampledSink,
    stacks: Stacks,
    of_thread: HashMap<(Option<i64>, Option<i64>, String), usize>,
    losses: Losses,
    /// By thread.
    units: Vec<SampleWeights>,
    has_begun: bool,
    latest: u64,
    /// The stack of the sample, the outermost function first.
    stack: Vec<u32>,
}

enum SampledSink {
    Folded(Folded),
    Speedscope(SampledSpeedscope),
    Firefox(Firefox),
}

/// Stacks and weights of each thread as text, and their number and sum.
struct SampledSpeedscope {
    spill: Spill,
    threads: Vec<(u64, u64)>,
}

impl SampleExport {
    /// Writes samples in a format of [`SAMPLED`]; `None` for another format. With `is_unix`, times count from the Unix epoch.
    pub fn new(path: &OutPath, format: &str, is_unix: bool) -> Option<SampleExport> {
        let spill = || Spill::new(path, "parts");
        let sink = match format {
            "folded" => SampledSink::Folded(Folded::default()),
            "speedscope" => SampledSink::Speedscope(SampledSpeedscope { spill: spill(), threads: Vec::new() }),
            "firefox" => SampledSink::Firefox(Firefox::new(spill())),
            _ => return None,
        };
        Some(SampleExport {
            path: path.clone(),
            sink,
            stacks: Stacks { is_unix, ..Stacks::default() },
            of_thread: HashMap::new(),
            losses: Losses::default(),
            units: Vec::new(),
            has_begun: false,
            latest: 0,
            stack: Vec::new(),
        })
    }

    /// Gives the functions from the next number on their names.
    pub fn add_names<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        self.stacks.frames.extend(names.map(str::to_string));
    }

    /// The number of functions that have names.
    pub fn name_count(&self) -> usize {
        self.stacks.frames.len()
    }

    /// Adds a sample. Samples come in the order of their times.
    ///
    /// # Errors
    /// When what waits for the end cannot be written.
    pub fn add(&mut self, sample: &StackSample<'_>) -> Result<()> {
        if let (Some(ns), false) = (sample.ns, self.has_begun) {
            (self.stacks.origin_ns, self.has_begun) = (ns, true);
        }
        let time = sample.ns.map(|ns| (ns - self.stacks.origin_ns).clamp(0, u64::MAX.into()) as u64);
        self.latest = time.unwrap_or(self.latest).max(self.latest);
        let Some(at) = self.thread(sample) else {
            self.losses.add(Lost::MoreThreads(MAX_THREADS), 1);
            return Ok(());
        };
        self.stacks.threads[at].last = self.latest;
        self.stack.clear();
        self.stack.extend(sample.stack.iter().rev());
        let thread = &self.stacks.threads[at];
        match &mut self.sink {
            SampledSink::Folded(folded) => {
                folded.add(at, thread, &self.stack, sample.weight);
                Ok(())
            }
            SampledSink::Speedscope(speedscope) => speedscope.add(at, &self.stack, sample.weight),
            SampledSink::Firefox(firefox) => {
                firefox.add(at, &self.stack, self.latest, (sample.weight, self.units[at] == SampleWeights::Ns))
            }
        }
    }

    fn thread(&mut self, sample: &StackSample<'_>) -> Option<usize> {
        let name = match sample.event {
            Some(event) if sample.thread_name.is_empty() => event.to_string(),
            Some(event) => format!("{event}: {}", sample.thread_name),
            None => sample.thread_name.to_string(),
        };
        let key = (sample.process, sample.thread, name);
        if let Some(&at) = self.of_thread.get(&key) {
            return Some(at);
        }
        let at = self.stacks.threads.len();
        if at >= MAX_THREADS {
            return None;
        }
        self.stacks.threads.push(CallThread {
            name: key.2.clone().into_bytes(),
            stream: 0,
            process_name: None,
            id: sample.thread,
            process: sample.process,
            open: OpenCalls::new(0),
            first: self.latest,
            last: self.latest,
        });
        self.of_thread.insert(key, at);
        self.units.push(sample.unit);
        Some(at)
    }

    /// Writes the file. Gives what it could not hold.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<Losses> {
        let mut losses = std::mem::take(&mut self.losses);
        let mut out = BufWriter::new(self.path.create(WRITING)?);
        let written = match &mut self.sink {
            SampledSink::Folded(folded) => folded.finish(&mut out, &self.stacks, &mut losses),
            SampledSink::Speedscope(speedscope) => speedscope.finish(&mut out, &self.stacks, &self.units),
            SampledSink::Firefox(firefox) => firefox.finish(&mut out, &self.stacks, &mut losses),
        };
        written.and_then(|()| out.flush()).map_err(self.path.failed(WRITING))?;
        Ok(losses)
    }
}

/// Columns of speedscope that wait for the end.
const STACKS: usize = 0;
const WEIGHTS: usize = 1;

impl SampledSpeedscope {
    fn add(&mut self, at: usize, stack: &[u32], weight: u64) -> Result<()> {
        if self.threads.len() <= at {
            self.threads.resize(at + 1, (0, 0));
        }
        let (count, sum) = &mut self.threads[at];
        let before = if *count > 0 { ",\n" } else { "\n" };
        (*count, *sum) = (*count + 1, sum.saturating_add(weight));
        let frames: Vec<String> = stack.iter().map(u32::to_string).collect();
        self.spill.append(at * 2 + STACKS, format!("{before}[{}]", frames.join(",")).as_bytes())?;
        self.spill.append(at * 2 + WEIGHTS, format!("{before}{weight}").as_bytes())
    }

    fn finish(&mut self, out: &mut dyn Write, stacks: &Stacks, units: &[SampleWeights]) -> std::io::Result<()> {
        let mut text = Out::default();
        crate::speedscope::put_head(&mut text, stacks);
        for (at, (thread, (_, sum))) in stacks.threads.iter().zip(&self.threads).enumerate() {
            let unit = match units[at] {
                SampleWeights::Ns => "nanoseconds",
                SampleWeights::Events => "none",
            };
            text.put(if at > 0 { b",\n" } else { b"\n" });
            text.put(b"{\"type\":\"sampled\",\"name\":");
            strings::put_json(&mut text, thread.title().as_bytes());
            text.put_fmt(format_args!(",\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{sum},\"samples\":["));
            out.write_all(text.written())?;
            text.clear();
            self.spill.copy(at * 2 + STACKS, out)?;
            out.write_all(b"\n],\"weights\":[")?;
            self.spill.copy(at * 2 + WEIGHTS, out)?;
            out.write_all(b"\n]}")?;
        }
        text.put(b"\n]}\n");
        out.write_all(text.written())
    }
}
