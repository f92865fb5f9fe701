//! The first pass over a file: which traces, streams, packets and classes its lines are of.

use std::collections::HashMap;
use std::path::Path;

use tracemill_model::error::Error;

use super::clock::ClockFit;
use super::line::{EventLine, MAX_LINE_BYTES, PACKET_CONTEXT, STREAM_SCOPES, TimeKind, lines};
use tracemill_format::json::{Refused, TapeToken, TokenKind, TokenWalk, ValueShape};

/// Bytes of a file whose lines are decoded at once.
pub(super) const SLICE_BYTES: usize = 1 << 20;
/// Classes of a file; lines of others are not read.
const MAX_CLASSES: usize = 1 << 14;
/// Fields of all classes.
const MAX_FIELDS: usize = 1 << 20;
/// Packets that differ by their contexts.
const MAX_CONTEXTS: usize = 1 << 20;
/// Beginnings of keys of flat lines.
const FLAT: [&str; 5] = ["header.", "packet_context.", "stream_context.", "event_context.", "payload."];
/// Wrong lines that are reported one by one.
const MAX_REPORTED: u64 = 1000;

/// A stream of a trace as lines name it, whatever the shapes of its fields.
#[derive(Debug)]
pub(super) struct StreamGroup {
    pub(super) trace: usize,
    /// The id that the lines say.
    pub(super) id: Option<u64>,
    pub(super) clock: ClockFit,
    /// How its first line with a time says it.
    pub(super) first_kind: Option<TimeKind>,
    /// Where the first line is that has clock values.
    pub(super) at: Option<u64>,
}

/// Lines whose streams have the same shapes.
#[derive(Debug)]
pub(super) struct StreamInfo {
    pub(super) group: usize,
    pub(super) kind: TimeKind,
    pub(super) shapes: [Option<ValueShape>; STREAM_SCOPES],
}

/// Lines of one name, id and shape.
#[derive(Debug)]
pub(super) struct EventInfo {
    pub(super) stream: usize,
    pub(super) name: Option<String>,
    pub(super) id: Option<u64>,
    pub(super) shapes: [Option<ValueShape>; 2],
}

/// Lines of one packet as far as lines show it: those that have the same context.
#[derive(Debug)]
pub(super) struct ContextInfo {
    pub(super) stream: usize,
    pub(super) cpu: Option<u32>,
    /// Numbers of its first and its last line.
    pub(super) lines: (u64, u64),
    /// The last time, for events that have none: clock value, or ns where there is none; and ns.
    pub(super) last: Option<(i128, i128)>,
    /// Number of its packet in the slice at hand.
    packet: usize,
}

/// The lines of a context that begin in one slice.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketInfo {
    pub(super) slice: u64,
    pub(super) context: usize,
    /// Where its first line begins.
    pub(super) at: u64,
    pub(super) bytes: u64,
    /// Clock values, or ns where lines have none.
    pub(super) range: Option<(i128, i128)>,
    /// Ns, for a clock that does not fit.
    pub(super) range_ns: Option<(i128, i128)>,
    /// The last time before it, as a clock value and in ns.
    pub(super) before: Option<(i128, i128)>,
}

/// Results of the first pass.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Names of the traces; `None` for lines that name none.
    pub(super) traces: Vec<Option<String>>,
    pub(super) groups: Vec<StreamGroup>,
    pub(super) streams: Vec<StreamInfo>,
    pub(super) events: Vec<EventInfo>,
    pub(super) contexts: Vec<ContextInfo>,
    pub(super) packets: Vec<PacketInfo>,
    /// By mark.
    pub(super) event_of: HashMap<u64, usize>,
    pub(super) stream_of: HashMap<u64, usize>,
    pub(super) context_of: HashMap<u64, usize>,
    /// Contexts by mark without regard to times: lines without a time are in the packet of those around them.
    with_any_time: HashMap<u64, usize>,
    /// The smallest and the largest ns of each trace.
    pub(super) ns: Vec<Option<(i128, i128)>>,
    pub(super) faults: Vec<Error>,
    pub(super) warnings: Vec<Error>,
    /// Lines that are well formed and were refused, as offsets in their slices: the second pass takes none of them for one
    /// of its class.
    refused: HashMap<usize, Vec<u32>>,
    wrong: u64,
    fields: usize,
    has_unknown: bool,
}

impl Survey {
    /// Reads all lines of a file.
    pub(super) fn read(file: &[u8], path: &Path) -> Survey {
        let mut survey = Survey::default();
        let (mut tokens, mut number, mut first_packet) = (Vec::new(), 0, 0);
        for slice in 0..file.len().div_ceil(SLICE_BYTES) {
            let begin = slice * SLICE_BYTES;
            for (at, line) in lines(file, begin, begin + SLICE_BYTES) {
                number += 1;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                if let Err((inside, message)) = survey.line(line, &mut tokens, number, (slice, at), first_packet) {
                    survey.add_error(path, at + inside, number, &message);
                }
            }
            first_packet = survey.packets.len();
        }
        // The last line of a file may end without a line feed, which is counted with every line.
        for packet in &mut survey.packets {
            packet.bytes = packet.bytes.min(file.len() as u64 - packet.at);
        }
        // A trace without events prints an empty file, so an empty file is read as such a trace.
        if survey.traces.is_empty() && file.trim_ascii().is_empty() {
            survey.traces.push(None);
            survey.ns.push(None);
        }
        if survey.wrong > MAX_REPORTED {
            let message = format!("{} more lines cannot be read; they are skipped", survey.wrong - MAX_REPORTED);
            survey.faults.push(Error::malformed(message).in_file(path));
        }
        for error in survey.warnings.iter_mut().chain(&mut survey.faults) {
            *error = error.clone().in_file(path);
        }
        survey
    }

    /// Was the line refused that begins at a byte of a slice?
    pub(super) fn has_refused(&self, slice: u64, at: usize) -> bool {
        let refused = self.refused.get(&(slice as usize));
        refused.is_some_and(|lines| lines.binary_search(&((at - slice as usize * SLICE_BYTES) as u32)).is_ok())
    }

    fn add_error(&mut self, path: &Path, at: usize, number: u64, message: &str) {
        self.wrong += 1;
        if self.wrong <= MAX_REPORTED {
            let error = Error::malformed(format!("line {number}: {message}; the line is skipped"));
            self.faults.push(error.in_file(path).at_offset(at as u64));
        }
    }

    fn line(
        &mut self,
        line: &[u8],
        tokens: &mut Vec<TapeToken>,
        number: u64,
        (slice, at): (usize, usize),
        first_packet: usize,
    ) -> Result<(), (usize, String)> {
        if line.len() > MAX_LINE_BYTES {
            return Err((0, format!("{} bytes are more than the limit of {MAX_LINE_BYTES}", line.len())));
        }
        let own = EventLine::read(line, tokens).map_err(|fault| (fault.at, fault.reason.to_string()))?;
        let event = self.event(&own, line, tokens).map_err(|reason| {
            self.refused.entry(slice).or_default().push((at - slice * SLICE_BYTES) as u32);
            (0, reason)
        })?;
        let stream = self.events[event].stream;
        let group = self.streams[stream].group;
        let Some(context) = self.context(&own, stream, number) else {
            self.refused.entry(slice).or_default().push((at - slice * SLICE_BYTES) as u32);
            return Err((0, format!("there are more than {MAX_CONTEXTS} packets")));
        };
        if let (Some(key), false) = (own.unknown, self.has_unknown) {
            self.has_unknown = true;
            let key = String::from_utf8_lossy(key.bytes(line));
            let message =
                format!("line {number}: the key `{key}` is not known and is left out; reported once for the file");
            if FLAT.iter().any(|scope| key.starts_with(scope)) {
                let help =
                    "lines of `print --flat` are for other programs: write lines without --flat to read them here";
                let fault = Error::unsupported(message).at_offset(at as u64);
                self.faults.push(fault.with_help(help));
            } else {
                self.warnings.push(Error::inconsistent(message).at_offset(at as u64));
            }
        }
        let group = &mut self.groups[group];
        if let (Some(cycles), Some(ns)) = (own.cycles, own.ns) {
            group.clock.add(cycles, ns);
            group.at.get_or_insert(at as u64);
        }
        if own.time_kind() != TimeKind::None {
            group.first_kind.get_or_insert(own.time_kind());
        }
        if let Some(ns) = own.ns {
            widen(&mut self.ns[group.trace], ns);
        }
        self.place(&own, context, (slice, at), line.len(), first_packet);
        Ok(())
    }

    /// Adds the line to its packet.
    fn place(&mut self, own: &EventLine, context: usize, (slice, at): (usize, usize), len: usize, first_packet: usize) {
        let of = &mut self.contexts[context];
        if of.packet < first_packet || of.packet == usize::MAX {
            of.packet = self.packets.len();
            self.packets.push(PacketInfo {
                slice: slice as u64,
                context,
                at: at as u64,
                before: of.last,
                ..PacketInfo::default()
            });
        }
        let packet = &mut self.packets[of.packet];
        packet.bytes += len as u64 + 1;
        let time = own.cycles.map(i128::from).or(own.ns);
        if let Some(time) = time {
            widen(&mut packet.range, time);
            of.last = Some((time, own.ns.unwrap_or(time)));
        }
        if let Some(ns) = own.ns {
            widen(&mut packet.range_ns, ns);
        }
    }

    fn event(&mut self, own: &EventLine, line: &[u8], tokens: &[TapeToken]) -> Result<usize, String> {
        let walk = |scope: usize, shape: &mut Option<ValueShape>| -> Result<(), Refused> {
            match (own.scopes[scope], shape) {
                (None, None) => Ok(()),
                (Some(at), Some(shape)) => shape.add(&mut TokenWalk { line, tokens, at }),
                _ => Err(Refused::Other),
            }
        };
        if let Some(&event) = self.event_of.get(&own.event_mark) {
            let of = &mut self.events[event];
            let stream = &mut self.streams[of.stream];
            for (scope, shape) in stream.shapes.iter_mut().chain(&mut of.shapes).enumerate() {
                walk(scope, shape)?;
            }
            return Ok(event);
        }
        if self.events.len() >= MAX_CLASSES || self.fields >= MAX_FIELDS {
            return Err(format!(
                "there are more than {MAX_CLASSES} classes of events or {MAX_FIELDS} fields in them: this is another one"
            ));
        }
        let mut count = 0;
        let mut make = |scope: usize| -> Result<Option<ValueShape>, String> {
            let shape = own.scopes[scope].map(|at| ValueShape::infer(&mut TokenWalk { line, tokens, at }, &mut count));
            Ok(shape.transpose()?)
        };
        let shapes = [make(0)?, make(PACKET_CONTEXT)?, make(2)?];
        let own_shapes = [make(STREAM_SCOPES)?, make(4)?];
        self.fields += count;
        let stream = match self.stream_of.get(&own.stream_mark) {
            Some(&stream) => {
                for (scope, shape) in self.streams[stream].shapes.iter_mut().enumerate() {
                    walk(scope, shape)?;
                }
                stream
            }
            None => {
                let group = self.group(own, line);
                self.streams.push(StreamInfo { group, kind: own.time_kind(), shapes });
                self.stream_of.insert(own.stream_mark, self.streams.len() - 1);
                self.streams.len() - 1
            }
        };
        let name = own.name.map(|name| text(&name, line));
        self.events.push(EventInfo { stream, name, id: own.id, shapes: own_shapes });
        self.event_of.insert(own.event_mark, self.events.len() - 1);
        Ok(self.events.len() - 1)
    }

    fn group(&mut self, own: &EventLine, line: &[u8]) -> usize {
        let name = own.trace.map(|name| text(&name, line));
        let trace = self.traces.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.traces.push(name);
            self.ns.push(None);
            self.traces.len() - 1
        });
        let known = self.groups.iter().position(|group| group.trace == trace && group.id == own.stream);
        known.unwrap_or_else(|| {
            self.groups.push(StreamGroup {
                trace,
                id: own.stream,
                clock: ClockFit::default(),
                first_kind: None,
                at: None,
            });
            self.groups.len() - 1
        })
    }

    fn context(&mut self, own: &EventLine, stream: usize, number: u64) -> Option<usize> {
        if let Some(&context) = self.context_of.get(&own.context_mark) {
            self.contexts[context].lines.1 = number;
            return Some(context);
        }
        // Lines without a time have the class of the first lines that have one.
        let first_kind = self.groups[self.streams[stream].group].first_kind;
        let kind = own.time_kind();
        let is_joined = kind == TimeKind::None || first_kind.is_none_or(|first| first == kind);
        if let (true, Some(&context)) = (is_joined, self.with_any_time.get(&own.any_time_mark)) {
            self.context_of.insert(own.context_mark, context);
            self.contexts[context].lines.1 = number;
            return Some(context);
        }
        if self.contexts.len() >= MAX_CONTEXTS {
            return None;
        }
        let (lines, last) = ((number, number), None);
        self.contexts.push(ContextInfo { stream, cpu: own.cpu, lines, last, packet: usize::MAX });
        self.context_of.insert(own.context_mark, self.contexts.len() - 1);
        if is_joined {
            self.with_any_time.insert(own.any_time_mark, self.contexts.len() - 1);
        }
        Some(self.contexts.len() - 1)
    }
}

fn widen(range: &mut Option<(i128, i128)>, value: i128) {
    let (low, high) = range.get_or_insert((value, value));
    (*low, *high) = ((*low).min(value), (*high).max(value));
}

fn text(token: &TapeToken, line: &[u8]) -> String {
    debug_assert!(matches!(token.kind, TokenKind::Text | TokenKind::Escaped | TokenKind::Special));
    String::from_utf8_lossy(&token.text(line)).into_owned()
}
