//! The column view of a trace: columns of every event class, batch by batch.
//!
//! The columns of a class are filled one after the other, each by one loop over many events. But the classes of a trace
//! stand mixed in a packet, thousands of them perhaps, and to find the columns of another class in memory with every
//! event costs more than filling them. So the pass that finds the events copies the bytes of each to the others of its
//! class, which is one place in memory, and the columns of a class are filled when enough events wait.

use std::sync::Arc;

use tracemill_model::schema::EventClassId;

use crate::chunk::{Chunk, ChunkSink, PacketData};
use crate::columns::{Columns, Gatherer};
use crate::plan::{Fault, State};
use crate::trace_plans::{ScanEnd, SpineSink, TracePlans};

/// Bytes that wait in all classes together.
const MAX_BYTES: usize = 4 << 20;
/// Bytes that wait in one class, more for a larger event.
const CLASS_BYTES: std::ops::RangeInclusive<usize> = (2 << 10)..=(16 << 10);
/// Events of a class that is filled row by row, after which its columns are handed on.
const ROWS: usize = 1 << 10;
/// Events of such classes after which a pass over a packet pauses.
const MAX_ROWS: usize = 1 << 14;
/// Bytes that are copied at once: most events have less.
const BLOCK: usize = 32;

/// Turns the packets of one trace into columns. Used for a whole trace it allocates only while classes are new.
pub struct ColumnBatches {
    plans: Arc<TracePlans>,
    /// By class: what waits, all that each event needs in one cache line.
    stages: Vec<Stage>,
    /// By class: what fills its columns.
    fillers: Vec<Option<Box<Filler>>>,
    /// Where the events stand that are gathered.
    places: Vec<usize>,
    class_bytes: usize,
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

/// Events of one class that wait, each with its cycles in front.
#[derive(Default)]
#[repr(align(64))]
struct Stage {
    bytes: Vec<u8>,
    /// Bytes that are taken.
    len: usize,
    /// Where each event begins, unless all have the same size.
    starts: Vec<u32>,
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
    columns: Columns,
}

impl ColumnBatches {
    /// For packets of the trace that has these plans.
    pub fn new(plans: Arc<TracePlans>) -> Self {
        let classes = plans.schema().events().len();
        let class_bytes = (MAX_BYTES / classes.max(1)).clamp(*CLASS_BYTES.start(), *CLASS_BYTES.end());
        let stages = std::iter::repeat_with(Stage::default).take(classes).collect();
        let fillers = std::iter::repeat_with(|| None).take(classes).collect();
        let found = Vec::with_capacity(FOUND);
        ColumnBatches { plans, stages, fillers, places: Vec::new(), class_bytes, found }
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
                let Some(filler) = self.filler(event.class()) else { continue };
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
        let stage = &mut self.stages[class.0 as usize];
        stage.kind = match self.plans.fixed_bytes(class) {
            _ if !gatherer.takes_bytes() => Kind::Rows,
            Some(bytes) => Kind::Fixed(bytes.saturating_add(8)),
            None => Kind::Variable,
        };
        if !matches!(stage.kind, Kind::Rows) {
            stage.bytes = vec![0; self.class_bytes + BLOCK + 8];
        }
        self.fillers[class.0 as usize] = Some(Box::new(Filler { gatherer, columns: Columns::default() }));
    }

    fn filler(&mut self, class: EventClassId) -> Option<&mut Filler> {
        self.fillers[class.0 as usize].as_deref_mut()
    }

    /// Fills the columns of a class with what waits.
    fn flush_bytes(&mut self, class: EventClassId) {
        let stage = &mut self.stages[class.0 as usize];
        let Some(filler) = &mut self.fillers[class.0 as usize] else { return };
        self.places.clear();
        match stage.kind {
            Kind::Fixed(bytes) => self.places.extend((0..stage.len).step_by(bytes as usize)),
            _ => self.places.extend(stage.starts.iter().map(|&start| start as usize)),
        }
        filler.gatherer.gather(&stage.bytes[..stage.len], &mut self.places, &mut filler.columns);
        stage.len = 0;
        stage.starts.clear();
    }

    #[inline(never)]
    fn flush(&mut self, class: EventClassId, take: &mut impl FnMut(EventClassId, &Columns)) {
        self.flush_bytes(class);
        if let Some(filler) = &mut self.fillers[class.0 as usize]
            && filler.columns.events > 0
        {
            take(class, &filler.columns);
            filler.columns.clear();
        }
    }
}

impl Stage {
    /// Appends an event.
    #[inline]
    fn push(&mut self, cycles: u64, content: &[u8], body: usize, end: usize) {
        if let Kind::Variable = self.kind {
            self.starts.push(self.len as u32);
        }
        let len = end - body;
        if len <= BLOCK
            && let Some(from) = content.get(body..).and_then(|rest| rest.first_chunk::<BLOCK>())
            && let Some(to) = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut::<{ BLOCK + 8 }>())
        {
            to[..8].copy_from_slice(&cycles.to_le_bytes());
            to[8..].copy_from_slice(from);
        } else {
            self.push_slowly(cycles, &content[body..end]);
        }
        self.len += len + 8;
    }

    #[inline(never)]
    fn push_slowly(&mut self, cycles: u64, event: &[u8]) {
        let need = self.len + event.len() + 8;
        if self.bytes.len() < need {
            self.bytes.resize(need + BLOCK + 8, 0);
        }
        self.bytes[self.len..][..8].copy_from_slice(&cycles.to_le_bytes());
        self.bytes[self.len + 8..][..event.len()].copy_from_slice(event);
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
            if (event.body_bits | event.end_bits) & 7 != 0 || matches!(stage.kind, Kind::Rows) {
                self.leave_to_rows(event);
                continue;
            }
            stage.push(event.cycles, self.content, (event.body_bits >> 3) as usize, (event.end_bits >> 3) as usize);
            if stage.len >= self.batches.class_bytes {
                self.batches.flush(event.class, self.take);
            }
        }
        self.batches.found = found;
        self.batches.found.clear();
    }

    #[inline(never)]
    fn leave_to_rows(&mut self, event: &Found) {
        // All events of the class that follow come here too, behind those that wait.
        self.batches.flush_bytes(event.class);
        self.batches.stages[event.class.0 as usize].kind = Kind::Rows;
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
