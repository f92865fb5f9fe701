//! The first pass over a text: which classes, streams and packets its lines are of.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracemill_format::Faults;
use tracemill_model::error::Error;

use super::classes::{Scratch, TextClasses};
use super::graph::GraphLine;
use super::line::{LineHead, LineTime, NO_CPU};
use super::perf_script::{self, LineExtras};
use super::walk::{GraphClocks, TextDialect, TextItem, TextWalk};

/// Bytes of a text whose lines are read at once.
pub(super) const SLICE_BYTES: usize = 1 << 20;
/// Bytes of a part that one thread surveys; a number of slices.
const PART_BYTES: usize = SLICE_BYTES << 3;
/// Lines without an event that may stand where a part is to begin.
const MAX_SKIPPED_LINES: usize = 1 << 10;
/// Wrong lines that are reported one by one.
const MAX_REPORTED: usize = 1000;
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
    /// Its first packet, and the time of its first event.
    first: Option<(usize, u64)>,
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
    /// The time of the first event.
    pub(super) first: Option<u64>,
    pub(super) faults: Vec<Error>,
    pub(super) warnings: Vec<Error>,
    pub(super) tracer: Option<String>,
    pub(super) cpus: Option<u64>,
    pub(super) has_zero: bool,
    pub(super) dialect: TextDialect,
}

/// Facts about a whole text.
#[derive(Clone, Copy, Debug)]
struct TextFacts {
    dialect: TextDialect,
    /// Are its times ns?
    is_ns: bool,
    /// Is there a zero byte in it?
    has_zero: bool,
}

/// A line that cannot be read.
#[derive(Debug)]
struct WrongLine {
    number: u64,
    at: usize,
    reason: &'static str,
}

/// The first pass over a part of a text. Parts are surveyed by several threads, and joined in their order.
#[derive(Debug, Default)]
struct SurveyPart {
    own: Survey,
    /// Slices whose first line is in the part, as in [`Survey::firsts`].
    firsts: Vec<(usize, u64)>,
    states: Vec<CpuState>,
    wrong: Vec<WrongLine>,
    more_wrong: u64,
    lines: u64,
    has_made_times: bool,
    /// Are there lines of the tracer `function_graph`?
    has_graph: bool,
}

impl SurveyPart {
    /// Surveys the lines that begin in a range of a text. `is_ns` is the form of times.
    fn read(text: &[u8], range: Range<usize>, facts: &TextFacts, path: &Path) -> SurveyPart {
        let TextFacts { dialect, is_ns, has_zero } = *facts;
        let own = Survey { dialect, has_zero, is_ns, ..Survey::default() };
        let mut part = SurveyPart { own, ..SurveyPart::default() };
        let (mut first_packet, mut losses, mut next_slice) = (0, 0, range.start / SLICE_BYTES);
        let mut scratch = Scratch::default();
        let mut walk = TextWalk::new(text, dialect, range.start, Vec::new(), has_zero);
        while walk.at < range.end {
            let at = walk.at;
            while next_slice <= at / SLICE_BYTES {
                if !walk.clocks.is_empty() {
                    part.own.clocks.insert(next_slice as u32, walk.clocks.clone());
                }
                part.firsts.push((next_slice, at as u64));
                next_slice += 1;
                first_packet = part.own.packets.len();
            }
            let item = walk.next();
            part.lines += 1;
            match item {
                TextItem::Wrong(reason) => part.report_wrong(at, reason),
                TextItem::Remark(remark) => part.own.remark(remark, path),
                TextItem::Lost { cpu, count } => {
                    let of = cpu_of(&mut part.states, cpu);
                    let loss = LossBefore { count, since: of.last, until: None };
                    of.pending = Some(of.pending.map_or(loss, |before| before.and(loss)));
                }
                TextItem::Event { head, event, extras, leaf } => 'event: {
                    if matches!(head.time, LineTime::Ns(_)) != is_ns {
                        part.report_wrong(at, "its time is not of the form of the times before it");
                        break 'event;
                    }
                    let Some(_) = part.own.classes.take_in(&event, &extras, &mut scratch) else {
                        part.report_wrong(at, "there are more than 16,384 names of events before it");
                        break 'event;
                    };
                    let time = head.time.value();
                    let end = leaf.map_or(time, |(_, ns)| time.saturating_add(ns));
                    if let Some((end, _)) = &leaf {
                        // The name of its beginning was taken in.
                        let _ = part.own.classes.take_in(end, &LineExtras::default(), &mut scratch);
                    }
                    let own = &mut part.own;
                    own.first.get_or_insert(time);
                    own.classes.has_flags |= head.flags.is_some();
                    own.classes.lacks_cpu |= head.cpu == NO_CPU;
                    own.classes.has_tgid |= head.tgid.is_some();
                    own.classes.has_instance |= !head.instance.is_empty();
                    if let Some(tgid) = head.tgid.flatten()
                        && own.tgids.len() < MAX_TGIDS
                    {
                        own.tgids.insert(head.pid, tgid);
                    }
                    let of = cpu_of(&mut part.states, head.cpu);
                    if of.packet <= first_packet {
                        own.packets.push(PacketInfo {
                            slice: (at / SLICE_BYTES) as u32,
                            cpu: head.cpu,
                            at: at as u64,
                            bytes: 0,
                            range: (time, time),
                            losses: Vec::new(),
                        });
                        of.packet = own.packets.len();
                    }
                    of.first.get_or_insert((of.packet - 1, time));
                    let packet = &mut own.packets[of.packet - 1];
                    packet.bytes += (walk.at - at) as u64;
                    packet.range = (packet.range.0.min(time), packet.range.1.max(end));
                    if let Some(loss) = of.pending.take() {
                        losses += 1;
                        let loss = LossBefore { until: Some(time), ..loss };
                        match packet.losses.last_mut().filter(|_| losses > MAX_LOSSES) {
                            Some(last) => *last = last.and(loss),
                            None => packet.losses.push(loss),
                        }
                    }
                    of.last = Some(time);
                }
            }
            part.lines += walk.more_lines;
        }
        (part.has_made_times, part.has_graph) = (walk.has_made_times, !walk.clocks.is_empty());
        part
    }

    fn report_wrong(&mut self, at: usize, reason: &'static str) {
        match self.wrong.len() <= MAX_REPORTED {
            true => self.wrong.push(WrongLine { number: self.lines, at, reason }),
            false => self.more_wrong += 1,
        }
    }
}

impl LossBefore {
    /// Both as one.
    fn and(self, next: LossBefore) -> LossBefore {
        let count = self.count.zip(next.count).map(|(one, other)| one.saturating_add(other));
        LossBefore { count, since: self.since.or(next.since), until: next.until.or(self.until) }
    }
}

/// Where the parts of a text begin that can be surveyed one without the others: at lines of events, none of which goes on
/// from the part before. They do not depend on the number of threads.
fn parts_of(text: &[u8], dialect: TextDialect, begin: usize, part_bytes: usize) -> Vec<Range<usize>> {
    let mut starts = vec![begin];
    let mut boundary = part_bytes;
    while boundary < text.len() {
        let mut at = memchr::memchr(b'\n', &text[boundary - 1..]).map_or(text.len(), |step| boundary + step);
        for _ in 0..MAX_SKIPPED_LINES {
            let rest = &text[at..];
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = &rest[..len];
            let is_event = match dialect {
                TextDialect::Ftrace => LineHead::read(line).is_some(),
                TextDialect::PerfScript => {
                    !line.starts_with(b"\t") && perf_script::read(line.trim_ascii_end()).is_some()
                }
            };
            if is_event {
                starts.push(at);
                break;
            }
            if rest.is_empty() || GraphLine::read(line).is_some() {
                break;
            }
            at = (at + len + 1).min(text.len());
        }
        boundary += part_bytes;
    }
    let ends = starts[1..].iter().copied().chain([text.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).filter(|range| range.start <= range.end).collect()
}

/// Is the first time in a text one of ns?
fn is_ns(text: &[u8], dialect: TextDialect, begin: usize) -> bool {
    let mut walk = TextWalk::new(text, dialect, begin, Vec::new(), false);
    while walk.at < text.len() {
        if let TextItem::Event { head, .. } = walk.next() {
            return matches!(head.time, LineTime::Ns(_));
        }
    }
    true
}

impl Survey {
    /// Reads all lines of a text, which begins at the byte `base` of its file, by several threads.
    pub(super) fn read(text: &[u8], dialect: TextDialect, path: &Path, base: usize, jobs: usize) -> Survey {
        Survey::read_parts((text, dialect), path, base, jobs, PART_BYTES)
    }

    fn read_parts(
        (text, dialect): (&[u8], TextDialect),
        path: &Path,
        base: usize,
        jobs: usize,
        part_bytes: usize,
    ) -> Survey {
        let begin = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let has_zero = memchr::memchr(0, text).is_some();
        let facts = &TextFacts { dialect, is_ns: is_ns(text, dialect, begin), has_zero };
        let ranges = parts_of(text, dialect, begin, part_bytes);
        let done: Vec<OnceLock<SurveyPart>> = ranges.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(range) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
                let at = ranges.iter().position(|other| other == range).unwrap_or(0);
                let _ = done[at].set(SurveyPart::read(text, range.clone(), facts, path));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..jobs.min(ranges.len()) {
                scope.spawn(work);
            }
            work();
        });
        let mut parts: Vec<SurveyPart> = done.into_iter().filter_map(OnceLock::into_inner).collect();
        // The state of CPUs in lines of `function_graph` continues from part to part.
        if parts.len() > 1 && parts.iter().any(|part| part.has_graph) {
            parts = vec![SurveyPart::read(text, begin..text.len(), facts, path)];
        }
        Survey::join(parts, path, base)
    }

    /// The survey of all parts.
    fn join(parts: Vec<SurveyPart>, path: &Path, base: usize) -> Survey {
        let mut survey = Survey { is_ns: true, ..Survey::default() };
        let mut faults: Faults<MAX_REPORTED> = Faults::default();
        let (mut states, mut lines, mut has_made_times) = (Vec::<CpuState>::new(), 0, false);
        for part in parts {
            for WrongLine { number, at, reason } in part.wrong {
                faults.report(|| {
                    let message = format!("line {}: {reason}; the line is skipped", lines + number);
                    Error::malformed(message).in_file(path).at_offset((base + at) as u64)
                });
            }
            lines += part.lines;
            for _ in 0..part.more_wrong {
                // All that are reported are there before.
                faults.report(|| Error::malformed("a line that cannot be read"));
            }
            has_made_times |= part.has_made_times;
            let own = part.own;
            let refused = survey.classes.join(own.classes);
            if refused > 0 {
                let message = format!("events of {refused} names after the first 16,384 are skipped");
                faults.report(|| Error::malformed(message).in_file(path));
            }
            for (slice, at) in part.firsts {
                while survey.firsts.len() <= slice {
                    survey.firsts.push(at);
                }
            }
            let first_packet = survey.packets.len();
            survey.packets.extend(own.packets);
            for (slot, of) in
                part.states.into_iter().enumerate().filter(|(_, of)| of.first.is_some() || of.pending.is_some())
            {
                let before = state_at(&mut states, slot);
                if let Some((packet, time)) = of.first {
                    let losses = &mut survey.packets[first_packet + packet].losses;
                    let is_leading = losses.first().is_some_and(|loss| loss.since.is_none());
                    match (before.pending.take(), losses.first_mut().filter(|_| is_leading)) {
                        (Some(pending), Some(leading)) => *leading = pending.and(*leading),
                        (Some(pending), None) => losses.insert(0, LossBefore { until: Some(time), ..pending }),
                        (None, Some(leading)) => leading.since = before.last,
                        (None, None) => {}
                    }
                    (before.packet, before.last) = (first_packet + of.packet, of.last);
                }
                if let Some(loss) = of.pending {
                    let loss = LossBefore { since: loss.since.or(before.last), ..loss };
                    before.pending = Some(before.pending.map_or(loss, |pending| pending.and(loss)));
                }
            }
            survey.clocks.extend(own.clocks);
            survey.tgids.extend(own.tgids);
            survey.warnings.extend(own.warnings);
            survey.tracer = survey.tracer.or(own.tracer);
            survey.cpus = own.cpus.or(survey.cpus);
            survey.first = survey.first.or(own.first);
            survey.has_zero |= own.has_zero;
            survey.is_ns &= own.is_ns;
            survey.dialect = own.dialect;
        }
        if has_made_times {
            let message = "lines have no time: it follows from how long calls took";
            let help = "what passed between calls is not known, nor how the times of CPUs relate; the option funcgraph-abstime of the tracer shows times";
            survey.warnings.push(Error::inconsistent(message).in_file(path).with_help(help));
        }
        for (slot, of) in states.iter_mut().enumerate() {
            let Some(loss) = of.pending.take() else { continue };
            match of.packet.checked_sub(1) {
                // After the last event of the CPU.
                Some(packet) => survey.packets[packet].losses.push(loss),
                None => {
                    let count = loss.count.map_or("events".to_string(), |count| format!("{count} events"));
                    let message =
                        format!("{count} of CPU {} were lost, and none of it are in the text", slot.saturating_sub(1));
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

/// The place of a CPU in a list; lines without one have the first.
pub(super) fn cpu_slot(cpu: u32) -> usize {
    if cpu == NO_CPU { 0 } else { cpu as usize + 1 }
}

fn cpu_of(cpus: &mut Vec<CpuState>, cpu: u32) -> &mut CpuState {
    state_at(cpus, cpu_slot(cpu))
}

fn state_at(cpus: &mut Vec<CpuState>, slot: usize) -> &mut CpuState {
    if slot >= cpus.len() {
        cpus.resize(slot + 1, CpuState::default());
    }
    &mut cpus[slot]
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// Lines of all kinds, so many that there are some slices.
    fn text() -> String {
        let (mut text, mut state) = (String::from("# tracer: nop\n"), 7u32);
        for at in 0..60_000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (cpu, time) = (state >> 8 & 3, format!("{}.{:06}", at / 1000, at % 1000));
            let head = format!("  task {}-{} [{cpu:03}] d..2. {time}:", at % 5, at % 9);
            let _ = match state >> 24 {
                0 => writeln!(text, "CPU:{cpu} [LOST {at} EVENTS]"),
                1 => writeln!(text, "{head} <stack trace>\n => f\n => g{}", "_".repeat((state >> 12 & 255) as usize)),
                2 => writeln!(text, "no line at all, {at}"),
                3 => writeln!(text, "# a comment\n"),
                4 => writeln!(text, "{head} tracing_mark_write: some\nmore lines\nof it"),
                5..40 => writeln!(text, "{head} e{}: a={at} b=0x{at:x} c{}=x", at % 40, at % 3),
                _ => writeln!(text, "{head} sched_waking: comm=a b pid={at} prio=120 target_cpu=00{cpu}"),
            };
        }
        text += "CPU:0 [LOST EVENTS]\n";
        text
    }

    #[test]
    fn parts_of_a_text_give_what_it_gives_as_a_whole() {
        let text = text();
        assert!(text.len() > 4 * SLICE_BYTES);
        let shown = |part_bytes, jobs| {
            let survey =
                Survey::read_parts((text.as_bytes(), TextDialect::Ftrace), Path::new("t"), 0, jobs, part_bytes);
            let messages: Vec<_> =
                survey.faults.iter().chain(&survey.warnings).map(|error| format!("{error:?}")).collect();
            format!("{:?} {:?} {:?} {messages:?}", survey.packets, survey.firsts, survey.classes.shown())
        };
        let whole = shown(usize::MAX >> 1, 1);
        assert!(parts_of(text.as_bytes(), TextDialect::Ftrace, 0, SLICE_BYTES).len() > 3);
        assert_eq!(shown(SLICE_BYTES, 1), whole);
        assert_eq!(shown(SLICE_BYTES, 4), whole);
        assert_eq!(shown(2 * SLICE_BYTES, 2), whole);
    }
}
