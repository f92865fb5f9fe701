//! Where events are, as far as the headers of packets tell.

use tracemill_engine::events::{Events, Step};
use tracemill_engine::timeline::{Selection, cycle_range};
use tracemill_model::packet::Packet;

use crate::names::NameTable;
use crate::source::Source;

/// The density of a track as its packets state it.
#[derive(Default)]
pub(crate) struct Estimate {
    /// First and last ns of each packet, and how many events it holds, about.
    packets: Vec<(i128, i128, f64)>,
    bits: u64,
    /// The commonest name among some events.
    name: u32,
}

/// Events that are looked at to know how long one is.
const SAMPLE: usize = 256;
/// Bits of an event of which none was seen.
const USUAL_BITS: f64 = 256.0;
/// Buckets that are given at most: more of them are given together.
const BUCKETS: u64 = 1 << 14;

impl Estimate {
    /// The estimate that the packets of a stream give.
    pub(crate) fn new(source: &Source<'_>, at: usize, names: &mut NameTable) -> Estimate {
        let of = &source.streams[at];
        let Some(clock) = &of.clock else { return Estimate::default() };
        let cycles = cycle_range(clock, source.selection.begin_ns, source.selection.end_ns);
        let Some((from, to)) = cycles else { return Estimate::default() };
        let mut estimate = Estimate::default();
        let (event_bits, name) = sample(source, at, names);
        estimate.name = name;
        let size = |packet: &Packet| packet.content_bits as f64 / event_bits;
        let (mut last, mut open) = (None, 0.0);
        for packet in &of.stream.packets {
            estimate.bits = estimate.bits.saturating_add(packet.content_bits);
            let begin = packet.begin_cycles.or(last);
            last = packet.end_cycles.or(begin);
            let (Some(begin), Some(end)) = (begin, last) else {
                open += size(&packet);
                continue;
            };
            let (begin, end) = (begin.min(end), end);
            if end < from || begin > to {
                continue;
            }
            let events = size(&packet) + std::mem::take(&mut open);
            estimate.packets.push((clock.ns(begin.max(from)), clock.ns(end.min(to)), events));
        }
        estimate
    }

    /// Adds those of another stream of the same track.
    pub(crate) fn join(&mut self, other: Estimate) {
        self.packets.extend(other.packets);
        self.bits = self.bits.saturating_add(other.bits);
    }

    /// All events, about.
    pub(crate) fn events(&self) -> f64 {
        self.packets.iter().map(|(_, _, events)| events).sum()
    }

    /// Bits of all packets.
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    /// Spreads the events of packets over a window.
    pub(crate) fn spread(&self, origin: i128, spread: &mut Spread) {
        for (first, last, events) in &self.packets {
            spread.add((*first - origin, *last - origin), *events, self.name);
        }
    }
}

/// Events of which only a stretch of time is known, spread over the buckets of a window.
pub(crate) struct Spread {
    level: u32,
    begin: i128,
    end: i128,
    /// Buckets that are given together.
    step: u64,
    /// By place: by how much what is in a bucket changes there.
    changes: Vec<f64>,
    /// And the number of stretches.
    edges: Vec<i32>,
    names: Vec<Option<u32>>,
}

impl Spread {
    /// A window in ns, both ends included, in buckets of a level.
    pub(crate) fn new(level: u32, (begin, end): (i64, i64)) -> Spread {
        let buckets = (((i128::from(end) - i128::from(begin)) as u64) >> level) + 1;
        let step = buckets.div_ceil(BUCKETS);
        let count = buckets.div_ceil(step) as usize;
        Spread {
            level,
            begin: begin.into(),
            end: end.into(),
            step,
            changes: vec![0.0; count + 1],
            edges: vec![0; count + 1],
            names: vec![None; count],
        }
    }

    /// Adds events that are from one time to another, both included.
    pub(crate) fn add(&mut self, (from, to): (i128, i128), events: f64, name: u32) {
        if to < self.begin || from > self.end || to < from {
            return;
        }
        // As many of them as the part that is in sight has.
        let (first, last) = (from.max(self.begin), to.min(self.end));
        let inside = (last - first + 1) as f64 / (to - from + 1) as f64;
        let place = |time: i128| ((((time - self.begin) as u64) >> self.level) / self.step) as usize;
        let (first, last) = (place(first), place(last));
        let each = events * inside / (last - first + 1) as f64;
        self.changes[first] += each;
        self.changes[last + 1] -= each;
        self.edges[first] += 1;
        self.edges[last + 1] -= 1;
        self.names[first] = Some(name);
    }

    /// Shows place, events and name of each bucket that may hold some.
    pub(crate) fn for_each(&self, mut see: impl FnMut(u64, u64, u32)) {
        let (mut sum, mut open, mut name) = (0.0f64, 0, 0);
        for at in 0..self.names.len() {
            sum += self.changes[at];
            open += self.edges[at];
            name = self.names[at].unwrap_or(name);
            if open > 0 {
                see(at as u64 * self.step, (sum.round() as u64).max(1), name);
            }
        }
    }
}

/// How many bits an event has, and the commonest name, from the first events of a stream.
fn sample(source: &Source<'_>, at: usize, names: &mut NameTable) -> (f64, u32) {
    let stream = std::slice::from_ref(&source.streams[at]);
    // Wherever it begins and whatever it holds: to look for what is wanted may take long.
    let redactions = source.selection.redactions.clone();
    let selection = Selection { jobs: 1, memory_bytes: SAMPLE * 64, redactions, ..Selection::default() };
    let mut events = Events::new(source.session, stream, &selection, None);
    let (mut first, mut last, mut count, mut storage) = (None, 0, 0, Vec::new());
    let mut counts: Vec<(u32, u32)> = Vec::new();
    for _ in 0..SAMPLE {
        let Some(Step::Event(_, event)) = events.next() else { break };
        let (packet, bits) = (event.raw.chunk.packet.packet.index, event.raw.chunk.recorded_bits(event.raw.at));
        let (of, from) = *first.get_or_insert((packet, bits));
        if of == packet {
            (last, count) = (bits - from, count + 1);
        }
        let name = names.number(event.name(&mut storage).unwrap_or_default());
        match counts.iter_mut().find(|(own, _)| *own == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let name = counts.iter().max_by_key(|(_, count)| *count).map_or(0, |(name, _)| *name);
    let bits = if count > 1 { last as f64 / f64::from(count - 1) } else { USUAL_BITS };
    (bits.max(1.0), name)
}
