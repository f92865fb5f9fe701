//! Packets of a trace that keeps its format: whole ones as they are, of others the events that are wanted.

use std::sync::Arc;

use tracemill_codec::chunk::PacketData;
use tracemill_formats::target::{PacketWriter, Part};
use tracemill_model::error::Result;
use tracemill_model::packet::{Gap, GapKind};

use super::{Conversion, Converted};
use crate::cursor::{ClassSet, Item, ReadyChunk};
use crate::filter::{Filter, FilterEvent, Matcher};
use crate::merge::{Note, StreamIndex};
use crate::print::Flow;
use crate::timeline::{self, StreamOf};

/// Events of a packet that are held until it is known whether it stays whole: 20 bytes each.
const MAX_HELD: usize = 2 << 20;
/// Events and bits at which a part ends.
const MAX_PART: usize = 1 << 16;
const MAX_PART_BITS: u64 = 8 << 20;

impl Conversion<'_> {
    /// Reads everything that is wanted: the number of events, and what came up. `None` when a part cannot be read.
    pub fn read_all(&self) -> Option<(u64, Vec<Note>)> {
        let (mut events, mut notes) = (0, Vec::new());
        for (at, mut cursor) in timeline::cursors(self.session, self.streams, self.selection).into_iter().enumerate() {
            while let Some(item) = cursor.next() {
                match item {
                    Item::Chunk(ready) => events += ready.chunk.len() as u64,
                    Item::Gap(gap) => notes.push(Note::Gap(StreamIndex(at as u32), gap)),
                    Item::Warning(error) => notes.push(Note::Warning(error)),
                    Item::Fault(_) => return None,
                }
            }
        }
        Some((events, notes))
    }

    /// Writes all events packet by packet; what comes up goes to `take`, which can stop the work. `None` when the trace
    /// cannot be written so: what is there is of no use then, and nothing was told.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn splice(
        &self,
        mut writer: Box<dyn PacketWriter>,
        take: &mut dyn FnMut(Note) -> Flow,
    ) -> Result<Option<Converted>> {
        let cursors = timeline::cursors(self.session, self.streams, self.selection);
        let mut splice =
            Splice { of: self, writer: &mut *writer, matcher: self.filter.map(Filter::matcher), events: 0 };
        let mut notes = Vec::new();
        for (at, cursor) in cursors.into_iter().enumerate() {
            let mut cursor = cursor.whole_packets();
            let mut held = Held::default();
            while let Some(item) = cursor.next() {
                let note = match item {
                    Item::Chunk(ready) => {
                        if !splice.chunk(at, ready, &mut held)? {
                            return Ok(None);
                        }
                        continue;
                    }
                    Item::Gap(gap) => Note::Gap(StreamIndex(at as u32), gap),
                    Item::Fault(error) => Note::Fault(error),
                    Item::Warning(error) => Note::Warning(error),
                };
                held.is_damaged |= matches!(note, Note::Fault(_));
                // What is missing is missing behind the packet that is held.
                match &note {
                    Note::Gap(_, gap) => held.gaps.push(gap.clone()),
                    Note::Fault(_) => held.gaps.push(damage()),
                    Note::Warning(_) => {}
                }
                notes.push(note);
            }
            if !splice.release(at, &mut held)? || !splice.writer.end_stream(at)? {
                return Ok(None);
            }
        }
        let events = splice.events;
        let is_stopped = notes.into_iter().any(|note| take(note) == Flow::Stop);
        if is_stopped {
            return Ok(Some(Converted { events, losses: Default::default(), is_stopped }));
        }
        Ok(Some(Converted { events, losses: writer.finish()?, is_stopped }))
    }
}

/// How a part that cannot be read is told by formats that count packets: one of them is lost.
pub(super) fn damage() -> Gap {
    Gap { kind: GapKind::LostPackets, count: Some(1), begin_cycles: None, end_cycles: None }
}

/// The chunks of a packet whose end has not come.
#[derive(Default)]
struct Held {
    chunks: Vec<(ReadyChunk, Kept)>,
    events: usize,
    /// Was a part of the packet written already?
    is_begun: bool,
    is_damaged: bool,
    /// What is missing behind it.
    gaps: Vec<Gap>,
}

/// Which events of a chunk are wanted.
enum Kept {
    All,
    Some(Vec<bool>),
}

struct Splice<'a> {
    of: &'a Conversion<'a>,
    writer: &'a mut dyn PacketWriter,
    matcher: Option<Matcher>,
    events: u64,
}

impl Splice<'_> {
    fn chunk(&mut self, stream: usize, ready: ReadyChunk, held: &mut Held) -> Result<bool> {
        let is_same = held.chunks.last().is_some_and(|(last, _)| Arc::ptr_eq(&last.chunk.packet, &ready.chunk.packet));
        if !is_same && !self.release(stream, held)? {
            return Ok(false);
        }
        if held.events + ready.chunk.len() > MAX_HELD && !self.parts(stream, held, false)? {
            return Ok(false);
        }
        let kept = self.kept(stream, &ready);
        held.events += ready.chunk.len();
        held.chunks.push((ready, kept));
        Ok(true)
    }

    /// Writes what is held, and what is missing behind it.
    fn release(&mut self, stream: usize, held: &mut Held) -> Result<bool> {
        let is_whole = !held.is_begun
            && !held.is_damaged
            && !held.chunks.is_empty()
            && held.chunks.iter().all(|(_, kept)| matches!(kept, Kept::All));
        let is_done = if is_whole {
            self.events += held.events as u64;
            let data = held.chunks[0].0.chunk.packet.clone();
            is_in_place(&data) && self.writer.whole(stream, &data)?
        } else {
            self.parts(stream, held, true)?
        };
        let gaps = std::mem::take(&mut held.gaps);
        *held = Held::default();
        for gap in gaps {
            self.writer.gap(stream, &gap)?;
        }
        Ok(is_done)
    }

    /// Writes the wanted ones of the events that are held.
    fn parts(&mut self, stream: usize, held: &mut Held, is_end: bool) -> Result<bool> {
        let mut part = Part::default();
        let mut bits = 0;
        let mut is_before = !held.is_begun;
        let mut previous = false;
        let chunks = std::mem::take(&mut held.chunks);
        let count = chunks.len();
        for (place, (ready, kept)) in chunks.iter().enumerate() {
            let chunk = &ready.chunk;
            if !is_in_place(&chunk.packet) {
                return Ok(false);
            }
            for at in 0..chunk.len() {
                let is_kept = match kept {
                    Kept::All => true,
                    Kept::Some(kept) => kept[at],
                };
                if is_kept {
                    if part.cycles.len() >= MAX_PART || bits >= MAX_PART_BITS {
                        if !self.writer.part(stream, &chunk.packet, &part)? {
                            return Ok(false);
                        }
                        part.clear();
                        (bits, previous) = (0, false);
                    }
                    let end = if at + 1 < chunk.len() { chunk.start_bits(at + 1) } else { ready.end_bits };
                    let range = chunk.start_bits(at)..end;
                    bits += range.end - range.start;
                    let is_last = at + 1 == chunk.len() && place + 1 == count;
                    part.has_first |= is_before && at == 0;
                    part.has_last = is_last && is_end && !held.is_damaged;
                    part.push(chunk.classes[at], chunk.cycles[at], range, previous);
                    self.events += 1;
                }
                previous = is_kept;
            }
            is_before = false;
        }
        held.is_begun = true;
        held.events = 0;
        match chunks.last() {
            Some((ready, _)) => self.writer.part(stream, &ready.chunk.packet, &part),
            None => Ok(true),
        }
    }

    fn kept(&mut self, stream: usize, ready: &ReadyChunk) -> Kept {
        let of: &StreamOf = &self.of.streams[stream];
        let chunk = &ready.chunk;
        let cycles = self.of.selection.cycles_of(of);
        let in_range = |at: usize| cycles.is_none_or(|(first, last)| (first..=last).contains(&chunk.cycles[at]));
        let classes: Option<&ClassSet> = self.of.selection.classes.get(of.trace).and_then(|classes| classes.as_deref());
        let is_decided = classes.is_none() && self.matcher.is_none();
        if is_decided && (cycles.is_none() || (0..chunk.len()).all(in_range)) {
            return Kept::All;
        }
        let mut wanted = |at: usize| {
            if !in_range(at) || classes.is_some_and(|classes| !classes.has(chunk.classes[at])) {
                return false;
            }
            let Some(matcher) = &mut self.matcher else { return true };
            let event = chunk.event(at);
            let is_untimed = chunk.packet.plans.schema().event(event.class()).is_untimed;
            let ns = of.clock.filter(|_| !is_untimed).map(|clock| clock.ns(event.cycles()));
            matcher.matches(&FilterEvent { trace: of.trace, stream: of.index, event, ns })
        };
        let kept: Vec<bool> = (0..chunk.len()).map(&mut wanted).collect();
        if kept.iter().all(|&kept| kept) { Kept::All } else { Kept::Some(kept) }
    }
}

/// Can bytes of the packet be copied?
fn is_in_place(data: &PacketData) -> bool {
    data.is_in_place() && data.spine.is_none()
}
