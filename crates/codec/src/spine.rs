//! The spine: where the events of a packet are, what class each has and when it happened, and who receives that.

use std::collections::HashMap;

use tracemill_model::schema::EventClassId;

use crate::plan::{DecoderState, Fault};

/// How a scan of a packet ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScanEnd {
    /// At the end of the content.
    Complete,
    /// The sink takes no more; the scan can go on from the position.
    Full,
    /// At a fault; nothing after it can be decoded.
    Fault(EventFault),
}

/// Receives the spine of events.
pub trait SpineSink {
    /// An event: its class, full clock value, first bit, and first bit after the header. False when the sink is full
    /// *after* taking this event.
    fn event(&mut self, class: EventClassId, cycles: u64, start_bits: u64, body_bits: u64) -> bool;

    /// Events from `from` on that a reader has found, as many as the sink takes; how many. `None`: one by one, please.
    fn events(&mut self, _spine: &Spine, _from: usize) -> Option<usize> {
        None
    }
}

/// The events of a packet as its reader found them, for formats whose events no plan can find. All columns have the
/// same length.
#[derive(Clone, Debug, Default)]
pub struct Spine {
    /// Full clock value of each event.
    pub cycles: Vec<u64>,
    /// Class of each event.
    pub classes: Vec<u32>,
    /// First bit of each event, from the start of the packet's decoded bytes. Packets with a spine have less than
    /// 512 MiB.
    pub starts: Vec<u32>,
    /// First bit after each header.
    pub bodies: Vec<u32>,
    /// Events that end before their last field: from the first bit after the header to the end. Members of the payload
    /// that are not whole there are absent.
    pub cuts: HashMap<u32, u32>,
}

impl Spine {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, class: EventClassId, cycles: u64, start_bits: u32, body_bits: u32) {
        self.cycles.push(cycles);
        self.classes.push(class.0);
        self.starts.push(start_bits);
        self.bodies.push(body_bits);
    }

    /// Makes room for so many events more.
    pub fn reserve(&mut self, events: usize) {
        self.cycles.reserve(events);
        self.classes.reserve(events);
        self.starts.reserve(events);
        self.bodies.reserve(events);
    }

    /// Says that the event whose body begins at `body_bits` ends at `end_bits`, whatever its class says.
    pub fn cut(&mut self, body_bits: u32, end_bits: u32) {
        self.cuts.insert(body_bits, end_bits);
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.cycles.len()
    }

    /// Are there no events?
    pub fn is_empty(&self) -> bool {
        self.cycles.is_empty()
    }

    pub(crate) fn scan<S: SpineSink>(&self, pos: &mut u64, state: &mut DecoderState, sink: &mut S) -> ScanEnd {
        if let Some(taken) = sink.events(self, *pos as usize) {
            *pos += taken as u64;
            state.clock =
                (*pos as usize).checked_sub(1).and_then(|last| self.cycles.get(last)).map_or(state.clock, |&c| c);
            return if *pos as usize >= self.len() { ScanEnd::Complete } else { ScanEnd::Full };
        }
        for at in *pos as usize..self.len() {
            let class = EventClassId(self.classes[at]);
            state.clock = self.cycles[at];
            *pos = at as u64 + 1;
            if !sink.event(class, self.cycles[at], self.starts[at].into(), self.bodies[at].into()) {
                return ScanEnd::Full;
            }
        }
        ScanEnd::Complete
    }
}

/// Why an event, and with it the rest of its packet, cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventFault {
    /// A field cannot be decoded.
    Field {
        /// Why, and where in the packet.
        fault: Fault,
        /// The event class, `None` in a header.
        class: Option<EventClassId>,
        /// Path of the field, such as `payload.args[]`.
        path: String,
    },
    /// The stream class has no event class of this id.
    UnknownId {
        /// The id.
        id: u64,
        /// First bit of the event, from the start of the packet.
        at_bits: u64,
    },
    /// An event of no length: the packet would never end (forbidden by CTF 1.8.3, section 6).
    Empty {
        /// First bit of the event, from the start of the packet.
        at_bits: u64,
    },
}

impl EventFault {
    /// Bit of the damage, from the start of the packet.
    pub fn at_bits(&self) -> u64 {
        match self {
            EventFault::Field { fault, .. } => fault.at_bits,
            EventFault::UnknownId { at_bits, .. } | EventFault::Empty { at_bits } => *at_bits,
        }
    }
}
