//! One total order over all streams (`docs/cli.md`, "Order").
//!
//! A loser tree holds the next event of each stream. The winner gives not one event but a *run*: all its events up to
//! the time of the runner-up. Runs go into [`Batch`]es, which are what filters and printers work on.

use std::cmp::Ordering;
use std::sync::Arc;

use tracemill_model::clock::{ClockMap, TimeKey};
use tracemill_model::error::Error;
use tracemill_model::packet::Gap;

use crate::ahead::Ahead;
use crate::item::{Item, ReadyChunk, ResumePoint, StreamPlace};
use crate::redact::StreamReader;

/// Names a stream among all that are merged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StreamIndex(pub u32);

/// Events `from..to` of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Index in the batch's chunks.
    pub chunk: u32,
    /// First event.
    pub from: u32,
    /// One past the last event.
    pub to: u32,
}

/// Something that is not an event, at its place in the order.
pub enum Note {
    /// Missing events.
    Gap(StreamIndex, Gap),
    /// A part that cannot be read.
    Fault(Error),
    /// Something to know that is no error.
    Warning(Error),
}

/// A piece of the merged order.
#[derive(Default)]
pub struct Batch {
    /// Chunks that the runs point into, with the stream of each.
    pub chunks: Vec<(StreamIndex, Arc<ReadyChunk>)>,
    /// Runs, in order.
    pub runs: Vec<Run>,
    /// Number of events in all runs.
    pub events: usize,
    /// Notes that came up while the batch was made.
    pub notes: Vec<Note>,
}

/// How events of equal time are ordered between streams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Equal for streams that only the event class id can order.
    pub group: u32,
    /// Last resort.
    pub stream: u32,
}

/// Chunks in a batch at most. Each keeps a packet open, which is far more than an event where packets are tiny.
const MAX_CHUNKS: usize = 512;

struct StreamHead {
    clock: Option<ClockMap>,
    rank: Rank,
    /// `None` when the stream has ended.
    chunk: Option<Arc<ReadyChunk>>,
    at: usize,
    /// One past the last event of the chunk.
    end: usize,
    /// Of the next event; the last of all where the stream has ended.
    key: TimeKey,
    /// Index of `chunk` in the batch that is being filled.
    in_batch: Option<u32>,
    /// The place after the chunks before.
    after: Option<StreamPlace>,
}

impl StreamHead {
    fn new(clock: Option<ClockMap>, rank: Rank) -> StreamHead {
        StreamHead { clock, rank, chunk: None, at: 0, end: 0, key: TimeKey::MAX, in_batch: None, after: None }
    }

    fn set_chunk(&mut self, ready: ReadyChunk) {
        self.key = key_of(&self.clock, &ready, 0);
        (self.at, self.end) = (0, ready.chunk.len());
        self.chunk = Some(Arc::new(ready));
        self.in_batch = None;
    }
}

/// Merges streams.
pub struct Merger {
    sources: Sources,
    heads: Vec<StreamHead>,
    /// Losers of the tree's inner nodes; `tree[0]` is the winner.
    tree: Vec<usize>,
    started: bool,
    notes: Vec<Note>,
    /// The time from which on events wait, as others may come before them; only where streams grow.
    limit: TimeKey,
    /// How far each stream is complete; empty where all are.
    ends: Vec<StreamEnd>,
}

/// How far a stream is known that may still grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEnd {
    /// No more events come, or nobody waits for them.
    Over,
    /// No event before this clock value will come after those that are there.
    Until(u64),
}

/// Where the items of the streams come from.
pub(crate) enum Sources {
    /// From their readers.
    Own(Vec<StreamReader>),
    /// From threads that read ahead.
    Ahead(Ahead),
}

impl Sources {
    /// The streams of these readers. With more than one job, threads read ahead; `max_events` is the size of their chunks. Of very
    /// many streams none is read ahead: looking for the next one to read would take longer than to read it.
    pub(crate) fn new(readers: Vec<StreamReader>, jobs: usize, max_events: usize) -> Sources {
        const MAX_READ_AHEAD: usize = 2048;
        match jobs {
            _ if readers.len() > MAX_READ_AHEAD => Sources::Own(readers),
            0 | 1 => Sources::Own(readers),
            jobs => Sources::Ahead(Ahead::new(readers, jobs - 1, max_events)),
        }
    }

    /// The readers that no thread has taken.
    pub(crate) fn unclaimed(&self) -> &[StreamReader] {
        match self {
            Sources::Own(readers) => readers,
            Sources::Ahead(_) => &[],
        }
    }

    /// The next item of a stream, `None` at its end.
    #[inline]
    pub(crate) fn next(&mut self, at: usize) -> Option<Item> {
        match self {
            Sources::Own(readers) => readers[at].next(),
            Sources::Ahead(ahead) => ahead.next(at),
        }
    }
}

impl Merger {
    /// A merger of streams, each with its clock and its rank.
    pub(crate) fn new(sources: Sources, streams: impl IntoIterator<Item = (Option<ClockMap>, Rank)>) -> Self {
        let head = |(clock, rank)| StreamHead::new(clock, rank);
        let heads = streams.into_iter().map(head).collect();
        Merger {
            sources,
            heads,
            tree: Vec::new(),
            started: false,
            notes: Vec::new(),
            limit: TimeKey::MAX,
            ends: Vec::new(),
        }
    }

    /// Merges only what is certain: of each stream, in their order, how far it is known, and a time from which on nothing is.
    #[must_use]
    pub(crate) fn with_ends(self, ends: Vec<StreamEnd>, limit: TimeKey) -> Self {
        Merger { ends, limit, ..self }
    }

    /// Where each stream is read on when it has grown; `None` for one of which nothing was read. See
    /// [`Cursor::resume_point`](crate::cursor::Cursor::resume_point).
    pub(crate) fn resume_points(&mut self, grows_in_place: bool) -> Vec<Option<ResumePoint>> {
        let Merger { sources, heads, .. } = self;
        let Sources::Own(readers) = sources else { return vec![None; heads.len()] };
        let point = |(head, reader): (&StreamHead, &mut StreamReader)| match &head.chunk {
            Some(chunk) => chunk.place_of(head.at).map(|place| ResumePoint { place, is_open: true }),
            None => reader.plain().and_then(|cursor| cursor.resume_point(grows_in_place)),
        };
        heads.iter().zip(readers).map(point).collect()
    }

    /// The next piece, of about `max_events`; `None` at the end.
    pub fn next_batch(&mut self, max_events: usize) -> Option<Batch> {
        let mut batch = Batch::default();
        for head in &mut self.heads {
            head.in_batch = None;
        }
        if !self.started {
            self.started = true;
            for at in 0..self.heads.len() {
                self.refill(at);
            }
            self.build();
            if !self.notes.is_empty() {
                // Notes from before the first event belong before it.
                batch.notes = std::mem::take(&mut self.notes);
                return Some(batch);
            }
        }
        let mut last = None;
        while batch.events < max_events && batch.chunks.len() < MAX_CHUNKS {
            let Some(&winner) = self.tree.first() else { break };
            let head = &self.heads[winner];
            if head.chunk.is_none() || head.key >= self.limit {
                break;
            }
            // Streams often take turns: who comes after a winner is looked up when it wins again.
            let run = match last.replace(winner) == Some(winner) {
                true => self.run(winner, self.runner_up(winner), max_events - batch.events),
                false => 1,
            };
            self.emit(winner, run, &mut batch);
            self.replay(winner);
            if !self.notes.is_empty() && batch.notes.is_empty() && batch.events > 0 {
                // These notes belong after the events so far.
                break;
            }
        }
        batch.notes = std::mem::take(&mut self.notes);
        (batch.events > 0 || !batch.notes.is_empty()).then_some(batch)
    }

    /// The place of each stream from which the events after the batches so far can be read: see
    /// [`merger_from`](crate::timeline::merger_from). `None` before the first batch, and when events are changed.
    pub fn places(&self) -> Option<Vec<StreamPlace>> {
        let at_end = StreamPlace { packet: usize::MAX, before: 0, clock: 0, floor: 0 };
        let place = |head: &StreamHead| match &head.chunk {
            Some(chunk) => chunk.place_of(head.at),
            None => Some(at_end),
        };
        if self.started { self.heads.iter().map(place).collect() } else { None }
    }

    /// The place after the last event of each stream, once all were given; `None` for a stream that gave none, and for one whose
    /// events are not as it has them.
    pub fn last_places(&self) -> Vec<Option<StreamPlace>> {
        self.heads.iter().map(|head| head.after).collect()
    }

    /// The readers of the streams, where they are not read ahead.
    pub(crate) fn readers(&self) -> &[StreamReader] {
        self.sources.unclaimed()
    }

    fn emit(&mut self, at: usize, count: usize, batch: &mut Batch) {
        let head = &mut self.heads[at];
        let Some(chunk) = &head.chunk else { return };
        let index = *head.in_batch.get_or_insert_with(|| {
            batch.chunks.push((StreamIndex(at as u32), chunk.clone()));
            batch.chunks.len() as u32 - 1
        });
        let (from, to) = (head.at as u32, (head.at + count) as u32);
        match batch.runs.last_mut() {
            Some(last) if last.chunk == index && last.to == from => last.to = to,
            _ => batch.runs.push(Run { chunk: index, from, to }),
        }
        batch.events += count;
        head.at += count;
        if head.at < head.end {
            head.key = key_of(&head.clock, chunk, head.at);
        } else {
            self.refill(at);
        }
    }

    /// Brings the next chunk of a stream to its head; notes on the way are kept.
    fn refill(&mut self, at: usize) {
        let head = &mut self.heads[at];
        head.in_batch = None;
        head.at = 0;
        if let Some(chunk) = &head.chunk {
            head.after = chunk.place_after();
        }
        (head.chunk, head.key) = (None, TimeKey::MAX);
        while let Some(item) = self.sources.next(at) {
            match item {
                Item::Chunk(ready) => return head.set_chunk(ready),
                // Packets are not requested here.
                Item::Packet(..) => {}
                Item::Gap(gap) => self.notes.push(Note::Gap(StreamIndex(at as u32), gap)),
                Item::Fault(error) => self.notes.push(Note::Fault(error)),
                Item::Warning(error) => self.notes.push(Note::Warning(error)),
            }
        }
        if !self.ends.is_empty() {
            self.hold_at_end(at);
        }
    }

    /// Makes events wait that a stream which has no more of them now may still come before.
    #[cold]
    fn hold_at_end(&mut self, at: usize) {
        let (Some(StreamEnd::Until(end)), Some(clock)) = (self.ends.get(at), &self.heads[at].clock) else { return };
        let Sources::Own(readers) = &mut self.sources else { return };
        // Events that come too late are merged at the largest time so far.
        let floor = readers[at].plain().map_or(0, |cursor| cursor.floor());
        self.limit = self.limit.min(clock.key(floor.max(*end)));
    }

    /// How many events of the winner come before the next event of any other stream, at most `max`.
    fn run(&self, at: usize, limit: Option<usize>, max: usize) -> usize {
        let head = &self.heads[at];
        let Some(chunk) = &head.chunk else { return 0 };
        let left = (head.end - head.at).min(max);
        let other = limit.map_or(self.limit, |other| self.heads[other].key.min(self.limit));
        let Some(clock) = head.clock.as_ref().filter(|_| other != TimeKey::MAX) else { return left };
        // Where streams take turns, the next event is another one's already.
        if left < 2 || clock.key(chunk.merge_cycles(head.at + 1)) >= other {
            return 1;
        }
        let Some(before) = clock.first_cycles_from(other) else { return left };
        let events = head.at + 1..head.at + left;
        let mut count = 1;
        match &chunk.floors {
            None => count += chunk.chunk.cycles[events].iter().take_while(|&&cycles| cycles < before).count(),
            Some(floors) => count += floors[events].iter().take_while(|&&cycles| cycles < before).count(),
        }
        count
    }

    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (left, right) = (&self.heads[a], &self.heads[b]);
        // Not by equality: that reads keys in one go which were written in two, and waits for it.
        left.key < right.key
            || left.key <= right.key && Merger::tie(left, right).then_with(|| a.cmp(&b)) == Ordering::Less
    }

    /// The order of streams whose next events are of one time, of which some may have none.
    #[cold]
    fn tie(left: &StreamHead, right: &StreamHead) -> Ordering {
        let has_ended = (left.chunk.is_none(), right.chunk.is_none());
        if has_ended != (false, false) {
            return has_ended.0.cmp(&has_ended.1);
        }
        // Streams without a clock come one after the other.
        let class_id = |head: &StreamHead| {
            let chunk = head.chunk.as_ref().filter(|_| head.clock.is_some())?;
            let schema = chunk.chunk.packet.plans.schema();
            Some(schema.event(chunk.chunk.class(head.at)).id)
        };
        let rests = match (&left.clock, &left.chunk, &right.clock, &right.chunk) {
            (Some(clock), Some(chunk), Some(other), Some(other_chunk)) => {
                // The remainders of two times of one key.
                clock.compare_rests(chunk.merge_cycles(left.at), other, other_chunk.merge_cycles(right.at))
            }
            _ => Ordering::Equal,
        };
        rests
            .then_with(|| left.rank.group.cmp(&right.rank.group))
            .then_with(|| class_id(left).cmp(&class_id(right)))
            .then_with(|| left.rank.stream.cmp(&right.rank.stream))
    }

    /// Plays all matches: leaves `n..2n`, the winner in `tree[0]`.
    fn build(&mut self) {
        let n = self.heads.len();
        let mut winners = vec![0usize; 2 * n];
        for at in 0..n {
            winners[n + at] = at;
        }
        self.tree = vec![0; n];
        for node in (1..n).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if self.is_before(b, a) { (b, a) } else { (a, b) };
            winners[node] = winner;
            self.tree[node] = loser;
        }
        if n > 0 {
            self.tree[0] = if n == 1 { 0 } else { winners[1] };
        }
    }

    /// Plays the matches on the way up from a leaf whose event changed; it was the winner.
    fn replay(&mut self, leaf: usize) {
        let n = self.heads.len();
        if n == 2 {
            let other = 1 - leaf;
            self.tree[0] = if self.is_before(other, leaf) { other } else { leaf };
            return;
        }
        let (mut winner, mut node) = (leaf, (n + leaf) / 2);
        while node >= 1 && n > 1 {
            if self.is_before(self.tree[node], winner) {
                std::mem::swap(&mut self.tree[node], &mut winner);
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }

    /// The best of those that lost against the winner directly.
    fn runner_up(&self, winner: usize) -> Option<usize> {
        let n = self.heads.len();
        if n == 2 {
            return Some(1 - winner).filter(|&other| self.heads[other].chunk.is_some());
        }
        let (mut best, mut node) = (None, (n + winner) / 2);
        while node >= 1 && n > 1 {
            let other = self.tree[node];
            if best.is_none_or(|best| self.is_before(other, best)) {
                best = Some(other);
            }
            node /= 2;
        }
        best.filter(|&other| self.heads[other].chunk.is_some())
    }
}

#[inline]
fn key_of(clock: &Option<ClockMap>, chunk: &ReadyChunk, at: usize) -> TimeKey {
    match clock {
        Some(clock) => clock.key(chunk.merge_cycles(at)),
        None => TimeKey::MIN,
    }
}
