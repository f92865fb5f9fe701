//! The first pass over a file: its classes, the names of threads, and where its events are in the order of time.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use memchr::memchr;
use tracemill_format::Faults;
use tracemill_format::json::{Fault, Refused};
use tracemill_format::slices::{PhasePart, SliceClasses, SliceEvent, TrackNames, first_argument, order_of};
use tracemill_model::error::Error;

use super::document::{Document, MAX_EVENT_BYTES, NextEvent, next_event};
use super::event::EventObject;
use super::stacks::StackFrames;

/// The phase of samples in a list of their own, which do not say it.
pub(super) const SAMPLE: u8 = b'P';

/// Events of a packet, and bytes of their stacks if all were as long as the longest.
const PACKET_EVENTS: usize = 1 << 13;
const PACKET_STACK_BYTES: usize = 1 << 24;
/// Wrong events that are reported one by one.
const MAX_REPORTED: usize = 1000;
/// Rows of the table of metadata.
const MAX_METADATA: usize = 10_000;
/// Threads and processes that have names.
const MAX_NAMES: usize = 1 << 20;

/// An event, or the end of an `X`, while they are put into the order of time.
#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    ns: i64,
    /// Order of equal times: see [`order_of`].
    order: u64,
    /// Offset of the event, and whether it is the end.
    place: u64,
}

/// A packet: a part of the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketInfo {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) range: (i64, i64),
    /// The first byte of its first event in the file, and the end of its last one, about.
    pub(super) bytes: (u64, u64),
}

/// Results of the first pass.
#[derive(Debug, Default)]
pub(super) struct ChromeSurvey {
    pub(super) classes: SliceClasses,
    pub(super) document: Document,
    pub(super) frames: StackFrames,
    /// Bytes of the stack of an event, at most.
    longest_stack: usize,
    pub(super) names: TrackNames,
    /// Places of events, in the order of time: offsets, doubled, and one more for the end of an `X`.
    pub(super) places: Vec<u64>,
    pub(super) packets: Vec<PacketInfo>,
    /// Metadata: process, thread, name, value.
    pub(super) metadata: Vec<(i64, i64, String, Option<String>)>,
    pub(super) faults: Vec<Error>,
    pub(super) warnings: Vec<Error>,
}

/// The file, and what the lists of it that were read so far have in common.
struct FirstPass<'f> {
    file: &'f [u8],
    path: &'f Path,
    index: Vec<IndexEntry>,
    faults: Faults<MAX_REPORTED>,
    threads: TrackNamesBy,
    processes: TrackNamesBy,
}

/// Names by process and thread.
type TrackNamesBy = HashMap<(i64, i64), Arc<str>>;

impl ChromeSurvey {
    /// Reads all events of a file.
    ///
    /// # Errors
    /// It has no events.
    pub(super) fn read(file: &[u8], path: &Path) -> Result<ChromeSurvey, Error> {
        let place = |at: usize, error: Error| error.in_file(path).at_offset(at as u64);
        let mut document = Document::read(file).map_err(|fault| place(fault.at, Error::malformed(fault.reason)))?;
        let mut survey = ChromeSurvey::default();
        survey.classes.is_own = document.member("base_ns").is_some() && document.member("base_origin").is_some();
        document.read_stacks(file);
        survey.frames = StackFrames::read(&document, file, survey.classes.is_own);
        let events = document.events;
        survey.document = document;
        let mut pass = FirstPass {
            file,
            path,
            index: Vec::new(),
            faults: Faults::default(),
            threads: HashMap::new(),
            processes: HashMap::new(),
        };
        let end = survey.read_list(&mut pass, events, None);
        survey.document.read_rest(file, end);
        // In files of tracemill, the events of samples are among the others.
        if let Some(samples) = survey.document.samples.filter(|_| !survey.classes.is_own) {
            survey.read_list(&mut pass, samples, Some(SAMPLE));
        }
        let FirstPass { index, faults, threads, processes, .. } = pass;
        survey.names = TrackNames { threads: Arc::new(threads), processes: Arc::new(processes) };
        survey.finish(index);
        survey.faults = faults.finish("events cannot be read; they are skipped");
        if !survey.document.unread.is_empty() {
            let names: Vec<String> = survey.document.unread.iter().map(|name| format!("`{name}`")).collect();
            let message = format!("the trace has members next to its events that are not read: {}", names.join(", "));
            survey.warnings.push(Error::unsupported(message).in_file(path));
        }
        Ok(survey)
    }

    /// Takes in the list of events that begins at a byte, and gives the byte after it; `phase` is that of events that do not say it.
    fn read_list(&mut self, pass: &mut FirstPass<'_>, mut at: usize, phase: Option<u8>) -> usize {
        let FirstPass { file, path, .. } = *pass;
        let place = |at: usize, error: Error| error.in_file(path).at_offset(at as u64);
        let (mut event, mut buffer) = (SliceEvent::default(), Vec::new());
        // Bytes that are tried again after damage, at most: no file makes this quadratic.
        let mut budget = file.len() as u64 * 4 + (1 << 20);
        loop {
            let begin = match next_event(file, at) {
                NextEvent::At(begin) => begin,
                NextEvent::End(end) => return end,
                NextEvent::Cut => return file.len(),
                NextEvent::Wrong(begin) => {
                    pass.faults.report(|| place(begin, Error::malformed("an event is expected in the list of events")));
                    let Some(next) = resume(file, begin, phase, &mut event, &mut budget) else { return at };
                    at = next;
                    continue;
                }
            };
            let bytes = &file[begin..file.len().min(begin + MAX_EVENT_BYTES)];
            match self.frames.read_event(bytes, phase, &mut event, &mut buffer) {
                Ok(read) => {
                    at = begin + read.len;
                    if read.object.members.phase == b'M' {
                        self.metadata(&event, read.text, &mut pass.threads, &mut pass.processes);
                        continue;
                    }
                    self.longest_stack = self.longest_stack.max(read.stack_len);
                    if let Err(reason) = self.take_in(&event, &read.object, read.text, begin, &mut pass.index) {
                        pass.faults
                            .report(|| place(begin, Error::malformed(format!("{reason}; the event is skipped"))));
                    }
                }
                Err(fault) => {
                    let is_cut = fault.at >= bytes.len() && begin + bytes.len() == file.len();
                    pass.faults.report(|| match is_cut {
                        true => place(begin, Error::truncated("the file ends in the middle of an event")),
                        false => {
                            place(begin + fault.at, Error::malformed(format!("{}; the event is skipped", fault.reason)))
                        }
                    });
                    budget = budget.saturating_sub(fault.at as u64);
                    let Some(next) = resume(file, begin, phase, &mut event, &mut budget) else { return at };
                    at = next;
                }
            }
        }
    }

    fn take_in(
        &mut self,
        event: &SliceEvent,
        object: &EventObject,
        bytes: &[u8],
        begin: usize,
        index: &mut Vec<IndexEntry>,
    ) -> Result<(), String> {
        let Some(ns) = object.ts else { return Err("the event has no `ts`".into()) };
        let part = PhasePart::from_phase(object.members.phase);
        let text = |refused: Refused| String::from(refused);
        if object.members.phase != b'X' {
            self.classes.take_in(event, bytes, part).map_err(text)?;
            index.push(IndexEntry { ns, order: order_of(part, None), place: (begin as u64) << 1 });
            return Ok(());
        }
        let length = object.dur.unwrap_or(0);
        let end = ns.checked_add(length).filter(|_| length >= 0).ok_or("`dur` is not a length of time")?;
        self.classes.take_in(event, bytes, PhasePart::Entry).map_err(text)?;
        self.classes.take_in(event, bytes, PhasePart::Exit).map_err(text)?;
        let order = |part| order_of(part, Some(length as u64));
        index.push(IndexEntry { ns, order: order(PhasePart::Entry), place: (begin as u64) << 1 });
        index.push(IndexEntry { ns: end, order: order(PhasePart::Exit), place: (begin as u64) << 1 | 1 });
        Ok(())
    }

    fn metadata(&mut self, event: &SliceEvent, bytes: &[u8], threads: &mut TrackNamesBy, processes: &mut TrackNamesBy) {
        let object = &event.members;
        let (name, argument) = (object.name(bytes), first_argument(event, bytes));
        let of = match &*name {
            b"thread_name" => Some((threads, object.tid)),
            b"process_name" => Some((processes, 0)),
            _ => None,
        };
        if let (Some((names, tid)), Some((key, value))) = (of, &argument)
            && key == "name"
            && names.len() < MAX_NAMES
        {
            names.insert((object.pid, tid), value.as_str().into());
        }
        if self.metadata.len() < MAX_METADATA {
            let name = String::from_utf8_lossy(&name).into_owned();
            self.metadata.push((object.pid, object.tid, name, argument.map(|(_, value)| value)));
        }
    }

    /// Puts the events into the order of time, and makes packets of them.
    fn finish(&mut self, mut index: Vec<IndexEntry>) {
        // Of slices of one length at one time, the one that the file has later is inside.
        let key = |entry: &IndexEntry| {
            let is_end = entry.place & 1 == 1;
            let place = if is_end && entry.order < 1 << 62 { !entry.place } else { entry.place };
            (entry.ns, entry.order, place)
        };
        index.sort_unstable_by_key(key);
        self.places = index.iter().map(|entry| entry.place).collect();
        let events = (PACKET_STACK_BYTES / self.longest_stack.max(1)).clamp(1, PACKET_EVENTS);
        for (number, part) in index.chunks(events).enumerate() {
            let offset = |entry: &IndexEntry| entry.place >> 1;
            let low = part.iter().map(offset).min().unwrap_or(0);
            let high = part.iter().map(offset).max().unwrap_or(0);
            let range = (part[0].ns, part[part.len() - 1].ns);
            let (first, count) = (number * events, part.len());
            self.packets.push(PacketInfo { first, count, range, bytes: (low, high + 1) });
        }
    }

    /// The smallest time.
    pub(super) fn first_ns(&self) -> i64 {
        self.packets.first().map_or(0, |packet| packet.range.0)
    }
}

/// The next place after `at` where an event can be read.
fn resume(file: &[u8], at: usize, phase: Option<u8>, event: &mut SliceEvent, budget: &mut u64) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr(b'{', file.get(at..)?)?;
        // Events follow a comma or the beginning of a line; objects in arguments mostly a colon.
        let before = file[..at].iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
        let is_likely = before.is_some_and(|before| matches!(file[before], b',' | b'\n' | b'['));
        if is_likely {
            let bytes = &file[at..file.len().min(at + MAX_EVENT_BYTES)];
            match EventObject::read(bytes, phase, &mut event.tokens, &mut event.rest) {
                Ok(_) => return Some(at),
                Err(Fault { at: read, .. }) => *budget = budget.checked_sub(read as u64 + 1)?,
            }
        }
        at += 1;
    }
}
