//! The column view of a trace: columns of every event class, batch by batch.
//!
//! The columns of a class are filled one after the other, each by one loop over many events. But the classes of a trace
//! stand mixed in a packet, thousands of them perhaps, and to find the columns of another class in memory with every
//! event costs more than filling them. So the pass that finds the events copies the bytes of each to the others of its
//! class, which is one place in memory, and the columns of a class are filled when enough events wait.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use tracemill_model::schema::EventClassId;

use crate::chunk::{Chunk, ChunkSink, PacketData};
use crate::columns::{Column, Columns, Fills, Gatherer};
use crate::plan::{Fault, NodeId, State};
use crate::trace_plans::{ScanEnd, SpineSink, TracePlans};

/// Bytes that wait in all classes together.
const MAX_BYTES: usize = 4 << 20;
/// Bytes that wait in one class, more for a larger event.
const CLASS_BYTES: std::ops::RangeInclusive<usize> = (1 << 10)..=(8 << 10);
/// Events of a class that is filled row by row, after which its columns are handed on.
const ROWS: usize = 1 << 10;
/// Events of such classes after which a pass over a packet pauses.
const MAX_ROWS: usize = 1 << 14;
/// Bytes that are copied at once: most events have less.
const BLOCK: usize = 32;
/// Longer events are not copied.
const MAX_BITS: u64 = 8 << 20;
/// Bytes that stay near the processor.
const NEAR_BYTES: usize = 1 << 20;
/// Bytes that come from memory together.
const CACHE_LINE: usize = 64;
/// Bytes of the size in front of an event.
const SIZE: usize = 4;
/// Bytes that an event needs which is copied at once.
const ROOM: usize = SIZE + 8 + BLOCK;

/// Turns the packets of one trace into columns. Used for a whole trace it allocates only while classes are new.
pub struct ColumnBatches {
    plans: Arc<TracePlans>,
    /// By class: what waits, all that each event needs in one cache line.
    stages: Vec<Stage>,
    /// What fills columns. Of thousands of classes many have the same fields, and what fills their columns stays near.
    fillers: Vec<Filler>,
    /// By what they do: the fillers that classes share.
    shared: HashMap<Box<Fills>, u32>,
    /// Columns that no class fills now.
    free: FreeColumns,
    /// Where the events stand that are gathered.
    places: Vec<usize>,
    class_bytes: usize,
    /// Are there so many classes that what waits is far from the processor?
    is_wide: bool,
    /// Events that were found and wait to be copied. Copied one by one while events are found, each would wait for the
    /// memory of its class; in a loop of their own they wait together.
    found: Vec<Found>,
}

/// An event that was found.
#[derive(Clone, Copy)]
struct Found {
    class: EventClassId,
    cycles: u64,
    start_bits: u64,
    body_bits: u64,
    end_bits: u64,
}

/// Events that are found before they are copied.
const FOUND: usize = 256;

/// Events of one class that wait, each with its cycles in front, and in front of those the bytes of both when sizes differ.
/// Small, as that of every class is touched again and again.
#[derive(Default)]
#[repr(align(32))]
struct Stage {
    bytes: Box<[u8]>,
    /// Bytes that are taken.
    len: u32,
    /// Place of what fills the columns.
    filler: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Default)]
enum Kind {
    /// No event was met yet.
    #[default]
    New,
    /// All events have this many bytes, cycles counted.
    Fixed(u32),
    /// Each event has its own size.
    Variable,
    /// Columns cannot be filled from bytes alone.
    Rows,
}

struct Filler {
    gatherer: Gatherer,
    /// Without columns, unless events wait in them: those of a class that does not share this.
    columns: Columns,
    /// Of each of its columns: the field, and the list of free columns that it comes from.
    sources: Box<[(NodeId, u16)]>,
}

/// Columns for all classes. A class that is filled takes those that were given back last, whose memory is still near;
/// with columns of its own, each of thousands of classes would fill memory that was not touched for long.
#[derive(Default)]
struct FreeColumns {
    /// By shape: one column of it as it is when it is new, and those that are free.
    lists: Vec<(Column, Vec<Column>)>,
    cycles: Vec<u64>,
}

impl FreeColumns {
    /// The list of columns of the same shape.
    fn list_of(&mut self, column: &Column) -> u16 {
        let same = |(other, _): &(Column, _)| {
            other.values == column.values && other.lists == column.lists && other.validity == column.validity
        };
        // There are few shapes: a dozen kinds of values, and as many arrays around them as classes are deep.
        let at = self.lists.iter().position(same).unwrap_or(self.lists.len());
        if at == self.lists.len() {
            self.lists.push((column.clone(), Vec::new()));
        }
        at as u16
    }

    /// Gives a class its columns, when it has none.
    fn lend(&mut self, filler: &mut Filler) {
        if filler.columns.events == 0 && filler.columns.columns.is_empty() {
            filler.columns.cycles = std::mem::take(&mut self.cycles);
            let lists = &mut self.lists;
            filler.columns.columns.extend(filler.sources.iter().map(|&(node, list)| {
                let (new, free) = &mut lists[usize::from(list)];
                Column { node, ..free.pop().unwrap_or_else(|| new.clone()) }
            }));
        }
    }

    /// Takes the columns of a class back.
    fn take_back(&mut self, filler: &mut Filler) {
        filler.columns.clear();
        self.cycles = std::mem::take(&mut filler.columns.cycles);
        for (column, &(_, list)) in filler.columns.columns.drain(..).zip(&filler.sources) {
            self.lists[usize::from(list)].1.push(column);
        }
    }
}

impl ColumnBatches {
    /// For packets of the trace that has these plans.
    pub fn new(plans: Arc<TracePlans>) -> Self {
        let classes = plans.schema().events().len();
        let class_bytes = (MAX_BYTES / classes.max(1)).clamp(*CLASS_BYTES.start(), *CLASS_BYTES.end());
        let stages = std::iter::repeat_with(Stage::default).take(classes).collect();
        let found = Vec::with_capacity(FOUND);
        let free = FreeColumns::default();
        let is_wide = class_bytes * classes > NEAR_BYTES;
        let (fillers, shared, places) = (Vec::new(), HashMap::new(), Vec::new());
        ColumnBatches { plans, stages, fillers, shared, free, places, class_bytes, is_wide, found }
    }

    /// Adds the events of a packet from `*pos` on, as [`PacketData::scan`] finds them. `take` gets the columns of a class
    /// when there are enough events of it; they are empty again afterwards. Events of a class keep their order.
    ///
    /// # Errors
    /// None for whole packets: the pass that finds events has read every field.
    pub fn scan(
        &mut self,
        packet: &Arc<PacketData>,
        pos: &mut u64,
        state: &mut State,
        mut take: impl FnMut(EventClassId, &Columns),
    ) -> Result<ScanEnd, Fault> {
        let input = packet.input();
        let content = input.bytes.get(..(input.end_bits >> 3) as usize).unwrap_or(&[]);
        loop {
            // Events of classes whose columns are filled row by row.
            let mut rows = Chunk::new(packet.clone(), *pos, 0);
            let mut sink = Sink {
                batches: self,
                content,
                rows: ChunkSink::new(&mut rows, MAX_ROWS + FOUND),
                take: &mut take,
                row_count: 0,
            };
            let end = packet.scan(pos, state, &mut sink);
            sink.copy();
            for at in 0..rows.len() {
                let event = rows.event(at);
                let filler = &mut self.fillers[self.stages[event.class().0 as usize].filler as usize];
                self.free.lend(filler);
                filler.gatherer.gather_row(event, &mut filler.columns)?;
                if filler.columns.events >= ROWS {
                    self.flush(event.class(), &mut take);
                }
            }
            if end != ScanEnd::Full {
                return Ok(end);
            }
        }
    }

    /// Gives what is left.
    pub fn finish(&mut self, mut take: impl FnMut(EventClassId, &Columns)) {
        for at in 0..self.stages.len() {
            self.flush(EventClassId(at as u32), &mut take);
        }
    }

    /// Prepares a class whose first event is met.
    #[cold]
    fn begin_class(&mut self, class: EventClassId) {
        let gatherer = Gatherer::new(&self.plans, class);
        let Some(fills) = gatherer.fills() else { return self.fill_by_rows(class, gatherer) };
        let stage = &mut self.stages[class.0 as usize];
        stage.kind = match self.plans.fixed_bytes(class) {
            Some(bytes) => Kind::Fixed(bytes.saturating_add(8)),
            None => Kind::Variable,
        };
        stage.bytes = vec![0; self.class_bytes + ROOM].into();
        stage.filler = match self.shared.entry(fills) {
            Entry::Occupied(filler) => *filler.get(),
            Entry::Vacant(place) => {
                let at = self.fillers.len() as u32;
                self.fillers.push(Filler::new(gatherer, &mut self.free));
                *place.insert(at)
            }
        };
    }

    /// Fills the columns of a class row by row from now on.
    #[cold]
    fn fill_by_rows(&mut self, class: EventClassId, gatherer: Gatherer) {
        let filler = self.fillers.len() as u32;
        self.fillers.push(Filler::new(gatherer, &mut self.free));
        self.stages[class.0 as usize] = Stage { filler, kind: Kind::Rows, ..Stage::default() };
    }

    /// Fills columns with what waits of a class.
    fn flush_bytes(&mut self, class: EventClassId) {
        let stage = &mut self.stages[class.0 as usize];
        let waiting = &stage.bytes[..stage.len as usize];
        if waiting.is_empty() {
            return;
        }
        if self.is_wide {
            touch(waiting);
        }
        self.places.clear();
        match stage.kind {
            Kind::Fixed(bytes) => self.places.extend((0..waiting.len()).step_by(bytes as usize)),
            _ => {
                let mut at = 0;
                while let Some(size) = waiting.get(at..).and_then(|rest| rest.first_chunk()) {
                    self.places.push(at + SIZE);
                    at += SIZE + u32::from_le_bytes(*size) as usize;
                }
            }
        }
        let filler = &mut self.fillers[stage.filler as usize];
        self.free.lend(filler);
        filler.gatherer.gather(waiting, &mut self.places, &mut filler.columns);
        stage.len = 0;
    }

    #[inline(never)]
    fn flush(&mut self, class: EventClassId, take: &mut impl FnMut(EventClassId, &Columns)) {
        self.flush_bytes(class);
        let stage = &self.stages[class.0 as usize];
        if let Some(filler) = self.fillers.get_mut(stage.filler as usize)
            && filler.columns.events > 0
            && !matches!(stage.kind, Kind::New)
        {
            take(class, &filler.columns);
            self.free.take_back(filler);
        }
    }
}

/// Reads a byte of every cache line. What follows finds one event behind the other, each by the size of the one before;
/// with thousands of classes it would wait for the memory of each, here all come together.
fn touch(waiting: &[u8]) {
    std::hint::black_box(waiting.iter().step_by(CACHE_LINE).fold(0, |sum, byte| sum ^ byte));
}

impl Filler {
    fn new(gatherer: Gatherer, free: &mut FreeColumns) -> Self {
        let source = |column: &Column| (column.node, free.list_of(column));
        let sources = gatherer.template().iter().map(source).collect();
        Filler { gatherer, columns: Columns::default(), sources }
    }
}

impl Stage {
    /// Appends an event.
    #[inline]
    fn push(&mut self, cycles: u64, content: &[u8], body: usize, end: usize) {
        let len = end - body;
        let mut at = self.len as usize;
        if len <= BLOCK
            && let Some(from) = content.get(body..).and_then(|rest| rest.first_chunk::<BLOCK>())
            && let Some(to) = self.bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<ROOM>())
        {
            let to = if let Kind::Variable = self.kind {
                to[..SIZE].copy_from_slice(&(len as u32 + 8).to_le_bytes());
                at += SIZE;
                &mut to[SIZE..]
            } else {
                &mut to[..BLOCK + 8]
            };
            to[..8].copy_from_slice(&cycles.to_le_bytes());
            to[8..].copy_from_slice(from);
            self.len = (at + len + 8) as u32;
        } else {
            self.push_slowly(cycles, &content[body..end]);
        }
    }

    #[inline(never)]
    fn push_slowly(&mut self, cycles: u64, event: &[u8]) {
        let mut bytes = std::mem::take(&mut self.bytes).into_vec();
        let room = bytes.len();
        bytes.truncate(self.len as usize);
        if let Kind::Variable = self.kind {
            bytes.extend((event.len() as u32 + 8).to_le_bytes());
        }
        bytes.extend(cycles.to_le_bytes());
        bytes.extend(event);
        self.len = bytes.len() as u32;
        bytes.resize(room.max(bytes.len()), 0);
        self.bytes = bytes.into();
    }
}

struct Sink<'a, 'b, F> {
    batches: &'a mut ColumnBatches,
    content: &'a [u8],
    rows: ChunkSink<'b>,
    take: &'a mut F,
    row_count: usize,
}

impl<F: FnMut(EventClassId, &Columns)> Sink<'_, '_, F> {
    /// Copies the events that were found to the others of their classes.
    #[inline(never)]
    fn copy(&mut self) {
        let found = std::mem::take(&mut self.batches.found);
        for event in &found {
            if let Kind::New = self.batches.stages[event.class.0 as usize].kind {
                self.batches.begin_class(event.class);
            }
            let stage = &mut self.batches.stages[event.class.0 as usize];
            let is_run = (event.body_bits | event.end_bits) & 7 == 0 && event.end_bits - event.body_bits <= MAX_BITS;
            if !is_run || matches!(stage.kind, Kind::Rows) {
                self.leave_to_rows(event);
                continue;
            }
            stage.push(event.cycles, self.content, (event.body_bits >> 3) as usize, (event.end_bits >> 3) as usize);
            if stage.len as usize >= self.batches.class_bytes {
                self.batches.flush(event.class, self.take);
            }
        }
        self.batches.found = found;
        self.batches.found.clear();
    }

    #[inline(never)]
    fn leave_to_rows(&mut self, event: &Found) {
        if !matches!(self.batches.stages[event.class.0 as usize].kind, Kind::Rows) {
            // All events of the class that follow come here too, behind those that wait.
            self.batches.flush(event.class, self.take);
            let gatherer = Gatherer::new(&self.batches.plans, event.class);
            self.batches.fill_by_rows(event.class, gatherer);
        }
        self.rows.event(event.class, event.cycles, event.start_bits, event.body_bits);
        self.row_count += 1;
    }
}

impl<F: FnMut(EventClassId, &Columns)> SpineSink for Sink<'_, '_, F> {
    fn event(&mut self, class: EventClassId, cycles: u64, start_bits: u64, body_bits: u64) -> bool {
        // An event without a known end is no run of bytes.
        self.whole_event(class, cycles, start_bits, body_bits, 1)
    }

    #[inline]
    fn whole_event(
        &mut self,
        class: EventClassId,
        cycles: u64,
        start_bits: u64,
        body_bits: u64,
        end_bits: u64,
    ) -> bool {
        self.batches.found.push(Found { class, cycles, start_bits, body_bits, end_bits });
        if self.batches.found.len() < FOUND {
            return true;
        }
        self.copy();
        self.row_count < MAX_ROWS && self.rows.has_room_at(body_bits)
    }
}
