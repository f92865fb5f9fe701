//! From a session to a target: which events go there, in what order, and what comes up on the way.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_format::lost::Losses;
use tracemill_format::target::{Source, SourceStream, TraceWriter};
use tracemill_format::{Format, OpenTrace, Storage};
use tracemill_model::error::Result;
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{Origin, Part};

use crate::filter::{Filter, Matcher};
use crate::item::Flow;
use crate::item::{Item, ReadyChunk};
use crate::merge::{Note, Source as _, StreamIndex};
use crate::selection::StreamOf;
use crate::session::Session;
use crate::timeline::{self, Selection};

/// What a target gets to know before the first event.
///
/// # Errors
/// When a part of a trace cannot be read that a target may need.
pub fn sources(session: &Session, streams: &[StreamOf]) -> Result<Vec<Source>> {
    let source = |(at, trace): (usize, &OpenTrace)| {
        let parts = trace.reader.parts().map_err(|error| error.in_file(&trace.path))?;
        let origin = origin(trace, &parts);
        let own = streams.iter().filter(|of| of.trace == at);
        let own = own.map(|of| SourceStream {
            name: of.stream.name.clone(),
            origin_name: origin.stream_name(&of.stream.name).unwrap_or(&of.stream.name).to_string(),
            class: of.stream.class,
            id: of.stream.id,
            is_joined: of.stream.files.len() > 1,
        });
        Ok(Source {
            name: trace.name.clone(),
            own_name: trace.own_name.clone(),
            schema: trace.schema.clone(),
            correction_ns: session.corrections[at],
            drift: session.drift(at),
            streams: own.collect(),
            tasks: trace.reader.calls().map_or_else(Vec::new, |calls| calls.tasks().to_vec()),
            origin,
            parts,
        })
    };
    session.traces.iter().enumerate().map(source).collect()
}

/// What a trace is, or was before it was converted.
fn origin(trace: &OpenTrace, parts: &[Part]) -> Arc<Origin> {
    trace.schema.origin.clone().unwrap_or_else(|| {
        let (format, version) = (trace.schema.format.to_string(), trace.schema.version);
        Arc::new(Origin { format, version, parts: parts.to_vec(), ..Origin::default() })
    })
}

/// Is the path a trace, or a folder of nothing but traces, or parts of an output?
pub fn is_trace(storage: &dyn Storage, formats: &[&Format], path: &std::path::Path) -> bool {
    let is_part = |path: &std::path::Path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(crate::split::is_part_name)
    };
    let probe = |path: &std::path::Path| formats.iter().any(|format| (format.probe)(storage, path));
    probe(path)
        || storage
            .list(path)
            .is_ok_and(|entries| entries.iter().all(|entry| probe(&entry.path) || is_part(&entry.path)))
}

/// What is converted of a session.
pub struct Conversion<'a> {
    /// The session.
    pub session: &'a Session,
    /// Its streams that are wanted.
    pub streams: &'a [StreamOf],
    /// What is wanted of them.
    pub selection: &'a Selection,
    /// Condition on fields.
    pub filter: Option<&'a Filter>,
    /// Events to leave out first.
    pub skip: u64,
    /// Most events.
    pub limit: Option<u64>,
    /// Must events come in the order of time?
    pub in_order: bool,
    /// Ends the work soon when it is set.
    pub stop: Option<&'a AtomicBool>,
}

/// How a conversion ended.
pub struct Converted {
    /// Events that were written.
    pub events: u64,
    /// What was lost.
    pub losses: Losses,
    /// Was it stopped? The output is not complete then.
    pub is_stopped: bool,
}

impl Conversion<'_> {
    /// Reads everything that is wanted, and gives what came up and the number of events. `None` when a part cannot be
    /// read.
    pub fn read_all(&self) -> Option<(Vec<Note>, u64)> {
        let (mut notes, mut events) = (Vec::new(), 0);
        for (at, mut cursor) in timeline::cursors(self.session, self.streams, self.selection).into_iter().enumerate() {
            // They are looked at all the same, without a list of their events.
            cursor.give_packets();
            while let Some(item) = cursor.next() {
                match item {
                    Item::Chunk(ready) => events += ready.chunk.len() as u64,
                    Item::Packet(_, count) => events += count,
                    Item::Gap(gap) => notes.push(Note::Gap(StreamIndex(at as u32), gap)),
                    Item::Warning(error) => notes.push(Note::Warning(error)),
                    Item::Fault(_) => return None,
                }
            }
        }
        Some((notes, events))
    }

    /// Writes all events; what comes up goes to `take`, which can stop the work.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn run(&self, mut writer: Box<dyn TraceWriter + '_>, take: &mut dyn FnMut(Note) -> Flow) -> Result<Converted> {
        let mut feed = Feed {
            conversion: self,
            writer: &mut *writer,
            matcher: self.filter.map(Filter::matcher),
            skip: self.skip,
            left: self.limit.unwrap_or(u64::MAX),
            events: 0,
            damaged: (None, None),
        };
        let is_counted = self.skip > 0 || self.limit.is_some();
        let flow = if self.in_order || is_counted { feed.merged(take)? } else { feed.stream_by_stream(take)? };
        let events = feed.events;
        if flow == Flow::Stop {
            return Ok(Converted { events, losses: Losses::default(), is_stopped: true });
        }
        Ok(Converted { events, losses: writer.finish()?, is_stopped: false })
    }
}

/// How a part that cannot be read is told where formats count packets: one of them is lost.
const DAMAGE: Gap = Gap { kind: GapKind::LostPackets, count: Some(1), begin_cycles: None, end_cycles: None };

struct Feed<'a> {
    conversion: &'a Conversion<'a>,
    writer: &'a mut dyn TraceWriter,
    matcher: Option<Matcher>,
    skip: u64,
    left: u64,
    events: u64,
    /// File and packet of the fault that was met last.
    damaged: (Option<PathBuf>, Option<u64>),
}

impl Feed<'_> {
    fn stream_by_stream(&mut self, take: &mut dyn FnMut(Note) -> Flow) -> Result<Flow> {
        let of = self.conversion;
        let cursors = timeline::cursors(of.session, of.streams, of.selection);
        let takes_packets = self.matcher.is_none() && self.writer.takes_packets();
        for (at, mut cursor) in cursors.into_iter().enumerate() {
            if takes_packets {
                cursor.give_packets();
            } else if self.matcher.is_none() {
                cursor.give_empty_packets();
            }
            while let Some(item) = cursor.next() {
                if self.is_stopped() {
                    return Ok(Flow::Stop);
                }
                let note = match item {
                    Item::Chunk(ready) => {
                        self.events(at, &ready, 0, ready.chunk.len())?;
                        continue;
                    }
                    Item::Packet(packet, _) if !takes_packets => {
                        self.writer.empty_packet(at, &packet)?;
                        continue;
                    }
                    Item::Packet(packet, count) => {
                        self.writer.packet(at, &packet)?;
                        self.events += count;
                        continue;
                    }
                    Item::Gap(gap) => Note::Gap(StreamIndex(at as u32), gap),
                    Item::Fault(error) => Note::Fault(error),
                    Item::Warning(error) => Note::Warning(error),
                };
                self.damage(&note, Some(at))?;
                if self.note(note, take)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            self.writer.end_stream(at)?;
        }
        Ok(Flow::Continue)
    }

    fn is_stopped(&self) -> bool {
        self.conversion.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn merged(&mut self, take: &mut dyn FnMut(Note) -> Flow) -> Result<Flow> {
        let of = self.conversion;
        let mut merger = timeline::merger(of.session, of.streams, of.selection);
        // What comes up before the first event of any stream comes with the first batch, and belongs before it.
        let mut size = 1;
        while self.left > 0 {
            let Some(mut batch) = merger.next_batch(size) else { break };
            if self.is_stopped() {
                return Ok(Flow::Stop);
            }
            let notes = std::mem::take(&mut batch.notes);
            let (before, behind) = if size == 1 { (notes, Vec::new()) } else { (Vec::new(), notes) };
            size = 4096;
            for note in before {
                self.damage(&note, None)?;
                if self.note(note, take)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            for run in &batch.runs {
                let (stream, ready) = &batch.chunks[run.chunk as usize];
                self.events(stream.0 as usize, ready, run.from as usize, run.to as usize)?;
            }
            for note in behind {
                self.damage(&note, None)?;
                if self.note(note, take)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// Tells a stream, or the one in whose files it is, that a part cannot be read: once for each packet.
    fn damage(&mut self, note: &Note, stream: Option<usize>) -> Result<()> {
        let Note::Fault(fault) = note else { return Ok(()) };
        let (file, packet) = (fault.place().file.clone(), fault.place().packet);
        let is_known = packet.is_some() && self.damaged == (file.clone(), packet);
        if fault.loses_nothing() || is_known {
            return Ok(());
        }
        let has_file = |of: &StreamOf| of.stream.files.iter().any(|one| Some(&one.path) == file.as_ref());
        let stream = stream.or_else(|| self.conversion.streams.iter().position(has_file));
        self.damaged = (file, packet);
        stream.map_or(Ok(()), |stream| self.writer.gap(stream, &DAMAGE))
    }

    fn note(&mut self, note: Note, take: &mut dyn FnMut(Note) -> Flow) -> Result<Flow> {
        if let Note::Gap(stream, gap) = &note {
            self.writer.gap(stream.0 as usize, gap)?;
        }
        Ok(take(note))
    }

    #[inline]
    fn events(&mut self, stream: usize, ready: &ReadyChunk, from: usize, to: usize) -> Result<()> {
        let of = &self.conversion.streams[stream];
        for at in from..to {
            let event = ready.chunk.event(at);
            if self.matcher.as_mut().is_some_and(|matcher| !matcher.matches(&of.event(event))) {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            if self.left == 0 {
                return Ok(());
            }
            self.left -= 1;
            self.writer.event(stream, event)?;
            self.events += 1;
        }
        Ok(())
    }
}
