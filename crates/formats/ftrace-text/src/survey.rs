//! The first pass over a text: which classes, streams and packets its lines are of.

use std::collections::HashMap;
use std::path::Path;

use tracemill_format::Faults;
use tracemill_model::error::Error;

use super::classes::{Scratch, TextClasses};
use super::line::{LineTime, NO_CPU};
use super::perf_script::LineExtras;
use super::walk::{GraphClocks, TextDialect, TextItem, TextWalk};

/// Bytes of a text whose lines are read at once.
pub(super) const SLICE_BYTES: usize = 1 << 20;
/// Wrong lines that are reported one by one.
pub(super) const MAX_REPORTED: usize = 1000;
/// Losses that are kept; the counts of further ones are added to the last of their CPU.
const MAX_LOSSES: usize = 1 << 20;
/// Threads whose process is known.
const MAX_TGIDS: usize = 1 << 20;

/// Events that are missing before one of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LossBefore {
    pub(super) count: Option<u64>,
    /// The time of the event before it on the CPU, and of the one after it.
    pub(super) since: Option<u64>,
    pub(super) until: Option<u64>,
}

/// The events of one CPU that begin in one slice.
#[derive(Clone, Debug)]
pub(super) struct PacketInfo {
    pub(super) slice: u32,
    pub(super) cpu: u32,
    /// Where its first line begins.
    pub(super) at: u64,
    pub(super) bytes: u64,
    pub(super) range: (u64, u64),
    pub(super) losses: Vec<LossBefore>,
}

/// State of a CPU.
#[derive(Clone, Debug, Default)]
struct CpuState {
    /// Number of its packet in the slice at hand, and one.
    packet: usize,
    last: Option<u64>,
    pending: Option<LossBefore>,
}

/// Results of the first pass.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) classes: TextClasses,
    pub(super) packets: Vec<PacketInfo>,
    /// Where the first line of each slice begins that is not the rest of a line of the slice before.
    pub(super) firsts: Vec<u64>,
    /// States of CPUs when a slice began, where lines of `function_graph` leave that open.
    pub(super) clocks: HashMap<u32, GraphClocks>,
    /// Processes of threads, as lines say.
    pub(super) tgids: HashMap<i32, i32>,
    /// Does the clock count ns?
    pub(super) is_ns: bool,
    pub(super) first: u64,
    pub(super) faults: Vec<Error>,
    pub(super) warnings: Vec<Error>,
    pub(super) tracer: Option<String>,
    pub(super) cpus: Option<u64>,
    pub(super) events: u64,
    pub(super) has_zero: bool,
    pub(super) dialect: TextDialect,
}

impl Survey {
    /// Reads all lines of a text, which begins at the byte `base` of its file.
    pub(super) fn read(text: &[u8], dialect: TextDialect, path: &Path, base: usize) -> Survey {
        let mut survey = Survey { dialect, has_zero: memchr::memchr(0, text).is_some(), ..Survey::default() };
        let mut faults: Faults<MAX_REPORTED> = Faults::default();
        let (mut cpus, mut first_packet, mut losses) = (Vec::<CpuState>::new(), 0, 0);
        let mut scratch = Scratch::default();
        let begin = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let (mut walk, mut number, mut has_time) =
            (TextWalk::new(text, dialect, begin, Vec::new(), survey.has_zero), 0u64, false);
        while walk.at < text.len() {
            let at = walk.at;
            while survey.firsts.len() <= at / SLICE_BYTES {
                if !walk.clocks.is_empty() {
                    survey.clocks.insert(survey.firsts.len() as u32, walk.clocks.clone());
                }
                survey.firsts.push(at as u64);
                first_packet = survey.packets.len();
            }
            let item = walk.next();
            let next = walk.at;
            number += 1;
            let mut wrong = |reason: &str| {
                faults.report(|| {
                    let message = format!("line {number}: {reason}; the line is skipped");
                    Error::malformed(message).in_file(path).at_offset((base + at) as u64)
                });
            };
            match item {
                TextItem::Wrong(reason) => wrong(reason),
                TextItem::Remark(remark) => survey.remark(remark, path),
                TextItem::Lost { cpu, count } => {
                    let of = cpu_of(&mut cpus, cpu);
                    let since = of.last;
                    let pending = of.pending.get_or_insert(LossBefore { count: Some(0), since, until: None });
                    pending.count = pending.count.zip(count).map(|(one, other)| one.saturating_add(other));
                }
                TextItem::Event { head, event, extras, leaf } => 'event: {
                    let is_ns = matches!(head.time, LineTime::Ns(_));
                    if has_time && is_ns != survey.is_ns {
                        wrong("its time is not of the form of the times before it");
                        break 'event;
                    }
                    let Some(_) = survey.classes.take_in(&event, &extras, &mut scratch) else {
                        wrong("there are more than 16,384 names of events before it");
                        break 'event;
                    };
                    let time = head.time.value();
                    let end = leaf.map_or(time, |(_, ns)| time.saturating_add(ns));
                    if let Some((end, _)) = &leaf {
                        // The name of its beginning was taken in.
                        let _ = survey.classes.take_in(end, &LineExtras::default(), &mut scratch);
                    }
                    if !has_time {
                        (has_time, survey.is_ns, survey.first) = (true, is_ns, time);
                    }
                    survey.events += 1;
                    survey.classes.has_flags |= head.flags.is_some();
                    survey.classes.lacks_cpu |= head.cpu == NO_CPU;
                    survey.classes.has_tgid |= head.tgid.is_some();
                    if let Some(tgid) = head.tgid.flatten()
                        && survey.tgids.len() < MAX_TGIDS
                    {
                        survey.tgids.insert(head.pid, tgid);
                    }
                    let of = cpu_of(&mut cpus, head.cpu);
                    if of.packet <= first_packet {
                        survey.packets.push(PacketInfo {
                            slice: (at / SLICE_BYTES) as u32,
                            cpu: head.cpu,
                            at: at as u64,
                            bytes: 0,
                            range: (time, time),
                            losses: Vec::new(),
                        });
                        of.packet = survey.packets.len();
                    }
                    let packet = &mut survey.packets[of.packet - 1];
                    packet.bytes += (next - at) as u64;
                    packet.range = (packet.range.0.min(time), packet.range.1.max(end));
                    if let Some(loss) = of.pending.take() {
                        losses += 1;
                        let loss = LossBefore { until: Some(time), ..loss };
                        match packet.losses.last_mut().filter(|_| losses > MAX_LOSSES) {
                            Some(last) => last.count = last.count.zip(loss.count).map(|(one, other)| one + other),
                            None => packet.losses.push(loss),
                        }
                    }
                    of.last = Some(time);
                }
            }
            number += walk.more_lines;
        }
        if walk.has_made_times {
            let message = "lines have no time: it follows from how long calls took";
            let help = "what passed between calls is not known, nor how the times of CPUs relate; the option funcgraph-abstime of the tracer shows times";
            survey.warnings.push(Error::inconsistent(message).in_file(path).with_help(help));
        }
        for (cpu, of) in cpus.iter_mut().enumerate() {
            let Some(loss) = of.pending.take() else { continue };
            match of.packet.checked_sub(1) {
                // After the last event of the CPU.
                Some(packet) => survey.packets[packet].losses.push(loss),
                None => {
                    let count = loss.count.map_or("events".to_string(), |count| format!("{count} events"));
                    let message = format!("{count} of CPU {cpu} were lost, and none of it are in the text");
                    survey.warnings.push(Error::inconsistent(message).in_file(path));
                }
            }
        }
        survey.classes.finish();
        survey.faults = faults.finish("lines cannot be read; they are skipped");
        survey
    }

    fn remark(&mut self, text: &[u8], path: &Path) {
        let text = String::from_utf8_lossy(text);
        if let Some(tracer) = text.strip_prefix("# tracer:") {
            self.tracer = Some(tracer.trim().to_string());
        }
        if let Some(cpus) = text.strip_prefix("cpus=") {
            self.cpus = cpus.trim().parse().ok();
        }
        if let Some(at) = text.find("#P:") {
            let digits = text[at + 3..].split(|c: char| !c.is_ascii_digit()).next();
            self.cpus = digits.and_then(|digits| digits.parse().ok()).or(self.cpus);
        }
        if let Some(counts) = text.strip_prefix("# entries-in-buffer/entries-written:") {
            let mut numbers = counts.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
            let (left, written) = (numbers.next(), numbers.next());
            let number = |digits: Option<&str>| digits.and_then(|digits| digits.parse::<u64>().ok());
            if let (Some(left), Some(written)) = (number(left), number(written))
                && written > left
            {
                let message =
                    format!("{} of {written} events were overwritten before the text was made", written - left);
                self.warnings.push(Error::inconsistent(message).in_file(path));
            }
        }
    }
}

fn cpu_of(cpus: &mut Vec<CpuState>, cpu: u32) -> &mut CpuState {
    let at = cpu as usize;
    if at >= cpus.len() {
        cpus.resize(at + 1, CpuState::default());
    }
    &mut cpus[at]
}
