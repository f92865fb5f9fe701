//! The events of a session for several threads: each follows stretches of the timeline.
//!
//! The timeline is cut at times. A thread takes the next stretch, and reads, merges and follows alone what is in it, so that
//! events stay in the caches of one processor. What a stretch has at its edges is joined in the order of the timeline, so the
//! result does not depend on the number of threads. A packet that lies across a cut is read on both sides of it.
//!
//! A stretch is read as if nothing odd happened before it. Where something did (damage, a loss, a warning, a time that goes
//! back or lies after its packet), all is read again by one thread that follows; so is what has packets that do not say when
//! they begin and end.

use std::ops::ControlFlow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tracemill_model::clock::ClockMap;
use tracemill_model::packet_list::PacketList;

use crate::event::Event;
use crate::events::{Events, each_of};
use crate::filter::{Filter, Matcher};
use crate::merge::Note;
use crate::redact::StreamReader;
use crate::selection::SelectedStream;
use crate::session::Session;
use crate::timeline::{self, Selection};

/// Events of a batch.
const BATCH: usize = 4096;

/// Threads that follow, at most: each may keep as much as all events need.
const FOLLOWERS: usize = 16;

/// A stretch is what is left, divided by the number of threads and by this: stretches get ever shorter, so that all threads end
/// at about the same time although some are faster.
const OF_REST: u64 = 2;

/// The shortest stretches, in parts of what a thread has.
const PARTS: u64 = 64;

/// Packets of each stream in a stretch, at least, about: those at its edges are read twice.
const PACKETS: u64 = 16;

/// Halvings of the range of time in which a cut is looked for: it need not divide exactly.
const HALVINGS: u32 = 24;

/// Work on stretches of the timeline, one after the other and each from its beginning.
pub trait Follower: Send {
    /// The part of a stretch that those beside it need.
    type Edge: Send;

    /// Takes the next event of the stretch.
    fn event(&mut self, event: &Event<'_>);

    /// Ends the stretch.
    fn end(&mut self) -> Self::Edge;
}

/// Lets several followers follow the events that are selected and match the filter, and joins the edges of all stretches in
/// the order of the timeline, each with the number of its follower. Gives the followers. Notes go to `note` in their order,
/// until it says to stop.
///
/// With one job, where it is asked for, and where the timeline cannot be divided, one follower takes all events as one stretch.
pub fn follow<F: Follower>(
    session: &Session,
    (streams, selection, filter): (&[SelectedStream], &Selection, Option<&Filter>),
    in_order: bool,
    make: impl Fn() -> F + Sync,
    mut join: impl FnMut(usize, F::Edge),
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
) -> Vec<F> {
    if selection.jobs > 1
        && !in_order
        && let Some(stretches) = Stretches::new(session, streams, selection)
        && let Some((followers, edges)) = stretches.follow(filter, &make)
    {
        edges.into_iter().for_each(|(_, who, edge)| join(who, edge));
        return followers;
    }
    let mut follower = make();
    let events = Events::new(session, streams, selection, filter);
    let events = if selection.jobs == 2 { events.merged_here() } else { events };
    events.for_each(|event| follower.event(event), note);
    let edge = follower.end();
    join(0, edge);
    vec![follower]
}

/// The timeline of streams in stretches.
struct Stretches<'a> {
    session: &'a Session,
    streams: &'a [SelectedStream],
    /// Readers of all that is wanted, which parts are made of.
    whole: Mutex<Vec<StreamReader>>,
    /// The times in ns at which stretches but the first begin.
    cuts: Vec<i128>,
    threads: usize,
}

/// Edges of stretches, each with the number of the stretch and of its follower.
type Edges<E> = Vec<(usize, usize, E)>;

impl<'a> Stretches<'a> {
    /// Divides the timeline; `None` where that cannot be done, or gains nothing.
    fn new(session: &'a Session, streams: &'a [SelectedStream], selection: &Selection) -> Option<Self> {
        let threads = selection.jobs.min(FOLLOWERS);
        let memory_bytes = (selection.memory() / threads).max(1);
        let of_thread = Selection { jobs: 1, memory_bytes, ..selection.clone() };
        if streams.iter().any(|of| of.clock.is_none() || of.has_untimed) {
            return None;
        }
        let mut whole = timeline::cursors(session, streams, &of_thread);
        let cuts = {
            let lists = streams.iter().zip(&mut whole).map(|(of, reader)| WantedPackets::new(of.clock?, reader));
            cuts(&lists.collect::<Option<Vec<_>>>()?, threads)
        };
        (cuts.len() + 1 >= threads).then_some(Stretches { session, streams, whole: Mutex::new(whole), cuts, threads })
    }

    /// The followers, and the edges in the order of the timeline; `None` when anything odd was met.
    fn follow<F: Follower>(
        &self,
        filter: Option<&Filter>,
        make: &(impl Fn() -> F + Sync),
    ) -> Option<(Vec<F>, Edges<F::Edge>)> {
        let (next, is_odd) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = |who: usize| {
            let (mut follower, mut matcher) = (make(), filter.map(Filter::matcher));
            let mut edges = Edges::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at > self.cuts.len() {
                    break;
                }
                if is_odd.load(Ordering::Relaxed) || !self.follow_one(at, &mut follower, &mut matcher, &is_odd) {
                    is_odd.store(true, Ordering::Relaxed);
                    break;
                }
                edges.push((at, who, follower.end()));
            }
            (follower, edges)
        };
        let (mut followers, mut edges) = (Vec::new(), Edges::new());
        std::thread::scope(|scope| {
            let work = &work;
            // Where the system has no more threads, the others do all of it.
            let spawn = |who| std::thread::Builder::new().spawn_scoped(scope, move || work(who)).ok();
            let threads: Vec<_> = (1..self.threads).map_while(spawn).collect();
            let mut add = |(follower, found)| {
                followers.push(follower);
                edges.extend::<Edges<F::Edge>>(found);
            };
            add(work(0));
            threads.into_iter().for_each(|thread| match thread.join() {
                Ok(found) => add(found),
                Err(panic) => std::panic::resume_unwind(panic),
            });
        });
        edges.sort_by_key(|(at, ..)| *at);
        (!is_odd.into_inner()).then_some((followers, edges))
    }

    /// Follows a stretch to its end, and says whether nothing odd was met.
    fn follow_one<F: Follower>(
        &self,
        at: usize,
        follower: &mut F,
        matcher: &mut Option<Matcher>,
        is_odd: &AtomicBool,
    ) -> bool {
        let (parts, is_read): (Vec<_>, Vec<_>) = {
            let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
            self.streams.iter().zip(whole.iter_mut()).filter_map(|(of, reader)| self.part(at, of, reader)).unzip()
        };
        let mut merger = timeline::merger_of(self.session, self.streams, parts);
        while let Some(batch) = merger.next_batch(BATCH) {
            if !batch.notes.is_empty() || is_odd.load(Ordering::Relaxed) {
                return false;
            }
            let from = batch.runs.first().map_or(0, |run| run.from);
            each_of(self.streams, &batch, (&batch.runs, from), matcher, &mut |event| follower.event(event));
        }
        merger.readers().iter().zip(is_read).all(|(part, is_read)| !is_read || part.ends_in_time())
    }

    /// The part of a stream that is in a stretch, and whether it has packets.
    fn part(&self, at: usize, of: &SelectedStream, whole: &mut StreamReader) -> Option<(StreamReader, bool)> {
        let begin = at.checked_sub(1).map(|before| self.cuts[before]);
        let end = self.cuts.get(at).map(|cut| cut - 1);
        let clock = of.clock?;
        let (list, packets) = whole.divisible()?.listed();
        // No clock value is in the range of a stretch that is shorter than a cycle.
        let (part, cycles) = match timeline::cycle_range(&clock, begin, end) {
            Some(cycles) => (between(list, packets, cycles), cycles),
            None => (packets.start..packets.start, (0, 0)),
        };
        let is_read = !part.is_empty();
        Some((whole.part_of_time(part, cycles), is_read))
    }
}

/// The packets that have clock values of a range, of some whose beginnings and ends never go back.
fn between(list: &PacketList, packets: Range<usize>, (first, last): (u64, u64)) -> Range<usize> {
    let begin = first_not(packets.clone(), |at| list.end_cycles(at).is_some_and(|end| end < first));
    let end = first_not(begin..packets.end, |at| list.begin_cycles(at).is_some_and(|begin| begin <= last));
    begin..end
}

/// The first number for which something does not hold that holds for all before it.
fn first_not(Range { mut start, mut end }: Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    while start < end {
        let middle = start + (end - start) / 2;
        if holds(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

/// The packets of a stream that are wanted.
struct WantedPackets<'a> {
    clock: ClockMap,
    list: &'a PacketList,
    packets: Range<usize>,
    bytes: u64,
}

impl<'a> WantedPackets<'a> {
    /// `None` where they cannot be read alone, or show that something odd will be met.
    fn new(clock: ClockMap, reader: &'a mut StreamReader) -> Option<Self> {
        let cursor = reader.divisible().filter(|cursor| cursor.can_be_divided())?;
        let (list, packets) = cursor.listed();
        let (mut before, mut bits) = ((0, 0), 0u64);
        let is_orderly = list.range(packets.clone()).all(|packet| {
            let (Some(begin), Some(end)) = (packet.begin_cycles, packet.end_cycles) else { return false };
            let is_whole = packet.lost_packets_before == 0 && packet.discarded_before == 0;
            let (begin_before, end_before) = std::mem::replace(&mut before, (begin, end));
            bits = bits.saturating_add(packet.total_bits);
            is_whole && begin <= end && begin_before <= begin && end_before <= end
        });
        is_orderly.then_some(WantedPackets { clock, list, packets, bytes: bits / 8 })
    }

    fn count(&self) -> u64 {
        self.packets.len() as u64
    }

    /// The bytes before a time, about.
    fn bytes_before(&self, ns: i128) -> u128 {
        let Some(cycles) = self.clock.first_cycles_at(ns) else { return self.bytes.into() };
        let is_before = |at| self.list.begin_cycles(at).is_some_and(|begin| begin < cycles);
        let before = first_not(self.packets.clone(), is_before) - self.packets.start;
        u128::from(self.bytes) * before as u128 / u128::from(self.count().max(1))
    }

    /// When the first packet begins that begins at a time or later.
    fn next_begin(&self, ns: i128) -> Option<i128> {
        let cycles = self.clock.first_cycles_at(ns)?;
        let is_before = |at| self.list.begin_cycles(at).is_some_and(|begin| begin < cycles);
        let next = first_not(self.packets.clone(), is_before);
        if next < self.packets.end { self.list.begin_cycles(next).map(|begin| self.clock.ns(begin)) } else { None }
    }

    fn packet_bytes(&self) -> u64 {
        self.bytes / self.count().max(1)
    }

    /// From when to when, in ns.
    fn times(&self) -> Option<(i128, i128)> {
        let last = self.packets.end.checked_sub(1).filter(|last| *last >= self.packets.start)?;
        let (begin, end) = (self.list.begin_cycles(self.packets.start)?, self.list.end_cycles(last)?);
        Some((self.clock.ns(begin), self.clock.ns(end)))
    }
}

/// Times that divide what streams have, about: first into long stretches, then into short ones.
fn cuts(streams: &[WantedPackets<'_>], threads: usize) -> Vec<i128> {
    let threads = threads as u64;
    let bytes: u64 = streams.iter().map(|of| of.bytes).sum();
    let packet_of_each: u64 = streams.iter().map(WantedPackets::packet_bytes).sum();
    let of_large_packets = streams.iter().max_by_key(|of| of.packet_bytes());
    let least = (PACKETS * packet_of_each).max(bytes / (PARTS * threads)).max(1);
    let times = || streams.iter().filter_map(WantedPackets::times);
    let (Some(begin), Some(end)) = (times().map(|of| of.0).min(), times().map(|of| of.1).max()) else {
        return Vec::new();
    };
    let cut_at = |wanted: u64| {
        let (mut low, mut high) = (begin, end);
        for _ in 0..HALVINGS {
            let middle = low + (high - low) / 2;
            if streams.iter().map(|of| of.bytes_before(middle)).sum::<u128>() < u128::from(wanted) {
                low = middle;
            } else {
                high = middle;
            }
        }
        // Its large packets are read once.
        of_large_packets.and_then(|of| of.next_begin(high)).unwrap_or(high)
    };
    let (mut cuts, mut rest) = (Vec::new(), bytes);
    loop {
        let stretch = (rest / (OF_REST * threads)).max(least);
        if rest < 2 * least.max(stretch) {
            break;
        }
        rest -= stretch;
        cuts.push(cut_at(bytes - rest));
    }
    cuts.dedup();
    cuts
}
