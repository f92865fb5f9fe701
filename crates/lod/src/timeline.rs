//! The density of all tracks, as far as it is known: estimated from packets, then counted.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tracemill_engine::event::Event;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;

use crate::estimate::Estimate;
use crate::names::NameTable;
use crate::progress::Progress;
use crate::source::{Source, in_reach};
use crate::store::bytes::{Reader, Writer};
use crate::track::Track;
use crate::track_trees::TrackTrees;
use crate::tracking::{TrackReader, Tracking, own_tracks};
use crate::tree::{BucketTree, TreeBuilder};
use crate::values::Grouping;

/// A base track that was counted.
pub(crate) struct Counted {
    pub(crate) track: Track,
    pub(crate) trees: Arc<Vec<BucketTree>>,
    /// Names by the numbers in the trees.
    pub(crate) names: Vec<u32>,
}

/// A part that is read in one go: a stream, or all streams of a trace that numbers its tracks itself.
struct TimelinePart {
    streams: Vec<usize>,
    has_own_tracks: bool,
    estimate: Estimate,
    counted: OnceLock<Vec<Counted>>,
    /// The numbers of its tracks, where the trace gives them.
    numbers: OnceLock<Vec<i128>>,
}

/// The tracks of a session, and how many events are where, as far as that is known.
pub struct Timeline {
    /// Buckets are counted from here, in ns.
    pub origin: i128,
    parts: Vec<TimelinePart>,
    names: Arc<Mutex<NameTable>>,
    tracking: Tracking,
    /// Buckets above this level are exact, however few events they hold.
    always: u32,
    /// The makers of the trees of the tracks, once these have grown.
    growing: Mutex<Option<Vec<TrackTrees>>>,
}

/// The whole timeline is shown by so many buckets, exactly.
const WHOLE: i128 = 1 << 13;

/// Not looked up yet, and different for each event.
const UNKNOWN: u32 = u32::MAX;
const OWN: u32 = u32::MAX - 1;

impl Timeline {
    /// The density that packets state. `ends`: the times of the first and the last event, as far as they are known.
    pub fn new(source: &Source<'_>, ends: (Option<i128>, Option<i128>)) -> Timeline {
        let origin = ends.0.unwrap_or(0);
        let always = always_exact(origin, ends.1);
        let (_, has_own_tracks) = own_tracks(source.session);
        let mut names = NameTable::default();
        name_classes(source.session, &mut names);
        let parts = parts_of(source, &has_own_tracks, &mut names);
        let growing = Mutex::default();
        Timeline { origin, parts, names: Arc::new(Mutex::new(names)), tracking: Tracking::Own, always, growing }
    }

    /// The timeline of the same traces when they have grown: of each stream, in the order of the source, its track, and all of
    /// them with what makes their trees.
    pub(crate) fn grown(&self, counted: Vec<Counted>, growing: Vec<TrackTrees>, always: u32) -> Timeline {
        let part = |(at, counted): (usize, Counted)| TimelinePart {
            streams: vec![at],
            has_own_tracks: false,
            estimate: Estimate::default(),
            counted: OnceLock::from(vec![counted]),
            numbers: OnceLock::from(vec![0]),
        };
        let parts = counted.into_iter().enumerate().map(part).collect();
        let (names, growing) = (self.names.clone(), Mutex::new(Some(growing)));
        Timeline { origin: self.origin, parts, names, tracking: Tracking::Own, always, growing }
    }

    /// The level above which its buckets are exact.
    pub(crate) fn always(&self) -> u32 {
        self.always
    }

    /// The makers of the trees of all tracks, when they are there, and make the wanted ones.
    pub(crate) fn take_growing(&self, always: u32) -> Option<Vec<TrackTrees>> {
        let known = self.growing.lock().unwrap_or_else(PoisonError::into_inner).take();
        known.filter(|_| self.always == always)
    }

    /// The same events on tracks by their values, with the names, and the origin, of a timeline of all events.
    pub(crate) fn grouped(source: &Source<'_>, known: &Timeline, grouping: &Arc<Grouping>) -> Timeline {
        let has_own_tracks = vec![true; source.session.traces.len()];
        let parts = parts_of(source, &has_own_tracks, &mut known.names());
        let tracking = Tracking::Values(grouping.clone());
        let (names, growing) = (known.names.clone(), Mutex::default());
        Timeline { origin: known.origin, parts, names, tracking, always: known.always, growing }
    }

    /// Reads which track an event is on, where its stream does not tell.
    pub(crate) fn reader(&self, session: &Session) -> TrackReader {
        self.tracking.reader(session)
    }

    /// Writes what was counted; false when that is not all.
    pub(crate) fn write(&self, to: &mut Writer<'_>) -> io::Result<bool> {
        to.size(self.parts.len());
        for part in &self.parts {
            let (Some(counted), Some(numbers)) = (part.counted.get(), part.numbers.get()) else { return Ok(false) };
            to.size(counted.len());
            for (Counted { track, trees, names }, number) in counted.iter().zip(numbers) {
                to.track(track)?;
                to.wide(*number);
                to.size(names.len());
                names.iter().for_each(|name| to.number((*name).into()));
                to.size(trees.len());
                trees.iter().try_for_each(|tree| tree.write(to))?;
            }
        }
        Ok(true)
    }

    /// Reads what was written of the same source, with the names of the index. `ends`: as for [`new`](Timeline::new).
    pub(crate) fn read(
        from: &mut Reader<'_>,
        source: &Source<'_>,
        (origin, end): (i128, i128),
        names: &[String],
    ) -> Option<Timeline> {
        let timeline = Timeline::new(source, (Some(origin), Some(end)));
        if from.size()? != timeline.parts.len() {
            return None;
        }
        for part in &timeline.parts {
            let counted = from.list(|from| {
                let (track, number) = (from.track(source)?, from.wide()?);
                let own = from.list(|from| from.small(names.len()))?;
                Some((Counted { track, trees: Arc::new(from.list(BucketTree::read)?), names: own }, number))
            })?;
            if !part.has_own_tracks && counted.len() != 1 {
                return None;
            }
            let (counted, numbers) = counted.into_iter().unzip();
            let _ = (part.counted.set(counted), part.numbers.set(numbers));
        }
        let mut known = timeline.names();
        // Names that are known already have these numbers in estimates.
        let is_same = |(at, name): (usize, &String)| known.number(name.as_bytes()) as usize == at;
        let is_right = names.iter().enumerate().all(is_same) && known.list().len() == names.len();
        drop(known);
        is_right.then_some(timeline)
    }

    pub(crate) fn names(&self) -> MutexGuard<'_, NameTable> {
        // A panic leaves the names consistent.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shared_names(&self) -> Arc<Mutex<NameTable>> {
        self.names.clone()
    }

    /// A name of an event.
    pub fn name(&self, number: u32) -> Arc<str> {
        self.names().list().get(number as usize).cloned().unwrap_or_default()
    }

    /// Counts the events of all tracks, by some threads; false when [`Progress::stop`] was set on the way. An event that is
    /// before the origin has no place: then its time is given, and a timeline that begins there has to be made.
    pub fn count(&self, source: &Source<'_>, progress: &Progress) -> Result<bool, i128> {
        let mut order: Vec<&TimelinePart> = self.parts.iter().collect();
        // Long ones first: the others fill up what is left of the time.
        order.sort_by_key(|part| std::cmp::Reverse(part.estimate.bits()));
        let (next, first) = (AtomicUsize::new(0), Mutex::new(self.origin));
        let work = || {
            while let Some(part) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let Some(begin) = self.count_part(part, source, progress) else { return };
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                *first = begin.min(*first);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..source.selection.jobs.clamp(1, self.parts.len().max(1)) {
                scope.spawn(work);
            }
            work();
        });
        let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
        match first < self.origin {
            true => Err(first),
            false => Ok(!progress.stop.load(Ordering::Relaxed)),
        }
    }

    /// Counts a part; gives the time of its first event.
    fn count_part(&self, part: &TimelinePart, source: &Source<'_>, progress: &Progress) -> Option<i128> {
        let streams: Vec<SelectedStream> = part.streams.iter().map(|at| source.streams[*at].clone()).collect();
        let own = Source { streams: &streams, ..*source };
        let mut tracks: Vec<(Track, TreeBuilder)> = Vec::new();
        let mut numbers: HashMap<i128, usize> = HashMap::new();
        let all = self.expected();
        let track = |stream, name| {
            let trace = streams[0].trace;
            let builder = TreeBuilder::new(self.always, part.has_own_tracks, all);
            (Track { trace, stream, name, events: 0, untimed: 0, range: None }, builder)
        };
        if !part.has_own_tracks {
            tracks.push(track(Some(streams[0].index), streams[0].stream.name.clone()));
        }
        let mut reader = part.has_own_tracks.then(|| self.reader(source.session));
        let mut own_names: HashMap<Vec<u8>, u32> = HashMap::new();
        let mut name_list: Vec<u32> = Vec::new();
        let mut of_class: Vec<u32> = vec![UNKNOWN; source.session.traces[streams[0].trace].schema.events().len()];
        let (mut storage, mut first, mut count) = (Vec::new(), i128::MAX, 0u64);
        // By values a whole trace is one part.
        let jobs = if matches!(self.tracking, Tracking::Own) { 1 } else { source.selection.jobs };
        let take = |event: &Event<'_>| {
            count += 1;
            if count.is_multiple_of(4096) {
                progress.counted.fetch_add(4096, Ordering::Relaxed);
                progress.wait();
            }
            let class = event.raw.class().0 as usize;
            let name = match of_class.get(class).copied().unwrap_or(OWN) {
                known @ (UNKNOWN | OWN) => {
                    let name = event.name(&mut storage).unwrap_or_default();
                    let number = match own_names.get(name) {
                        Some(number) => *number,
                        None => {
                            name_list.push(self.names().number(name));
                            own_names.insert(name.to_vec(), name_list.len() as u32 - 1);
                            name_list.len() as u32 - 1
                        }
                    };
                    if known == UNKNOWN && event.class().name.is_some() {
                        of_class[class] = number;
                    } else if known == UNKNOWN {
                        of_class[class] = OWN;
                    }
                    number
                }
                number => number,
            };
            let at = match &mut reader {
                None => 0,
                Some(reader) => {
                    let Some(number) = reader.track(event) else { return };
                    *numbers.entry(number).or_insert_with(|| {
                        tracks.push(track(None, reader.name(number, event)));
                        tracks.len() - 1
                    })
                }
            };
            let (track, builder) = &mut tracks[at];
            track.events += 1;
            let Some(time) = event.ns.filter(|ns| in_reach(self.origin, *ns)) else {
                track.untimed += 1;
                return;
            };
            first = first.min(time);
            track.range = Some(track.range.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
            // Times before the origin void the whole result.
            builder.push((time - self.origin).max(0) as u64, name);
        };
        own.events_until(jobs, Some(&progress.stop)).for_each(take, |_| ControlFlow::Continue(()));
        if progress.stop.load(Ordering::Relaxed) {
            return None;
        }
        progress.counted.fetch_add(count % 4096, Ordering::Relaxed);
        let mut by_place = vec![0; tracks.len()];
        numbers.into_iter().for_each(|(number, at)| by_place[at] = number);
        let _ = part.numbers.set(by_place);
        let counted = tracks.into_iter().map(|(track, builder)| Counted {
            track,
            trees: Arc::new(builder.finish()),
            names: name_list.clone(),
        });
        let _ = part.counted.set(counted.collect());
        Some(first)
    }

    /// The base tracks: first those that are streams, then those that traces number, as far as these are known.
    pub fn tracks(&self) -> Vec<TrackOf<'_>> {
        let streams = self.parts.iter().filter(|part| !part.has_own_tracks);
        let own = || self.parts.iter().filter(|part| part.has_own_tracks);
        let mut tracks: Vec<TrackOf<'_>> = streams.map(|part| TrackOf { part, at: 0 }).collect();
        // Their ids are their places here.
        if own().all(|part| part.counted.get().is_some()) {
            tracks.extend(own().flat_map(|part| (0..part.len()).map(move |at| TrackOf { part, at })));
        }
        tracks
    }

    /// How much of the counting is done, from 0 to 1.
    pub fn done(&self, progress: &Progress) -> f64 {
        let of_part = |part: &TimelinePart| match part.counted.get() {
            Some(counted) => counted.iter().map(|of| of.track.events as f64).sum(),
            None => part.estimate.events(),
        };
        let all: f64 = self.parts.iter().map(of_part).sum();
        (progress.counted.load(Ordering::Relaxed) as f64 / all.max(1.0)).min(1.0)
    }

    /// How many events there are, about, as long as they are not counted.
    pub fn expected(&self) -> f64 {
        self.parts.iter().map(|part| part.estimate.events()).sum()
    }

    /// The events of all tracks, when they are counted.
    pub fn events(&self) -> Option<u64> {
        let counted = |part: &TimelinePart| Some(part.counted.get()?.iter().map(|of| of.track.events).sum::<u64>());
        self.parts.iter().map(counted).sum()
    }

    /// Times of the first and the last event that was counted.
    pub fn ends(&self) -> Option<(i128, i128)> {
        let counted = self.parts.iter().filter_map(|part| part.counted.get()).flatten();
        counted.filter_map(|of| of.track.range).reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
    }

    /// Memory of what was counted, in bytes.
    pub fn bytes(&self) -> usize {
        let counted = self.parts.iter().filter_map(|part| part.counted.get()).flatten();
        counted.flat_map(|of| &*of.trees).map(BucketTree::bytes).sum()
    }

    /// Is any track counted, and are all?
    pub fn is_counted(&self) -> (bool, bool) {
        let is_counted = |part: &TimelinePart| part.counted.get().is_some();
        (self.parts.iter().any(is_counted), self.parts.iter().all(is_counted))
    }

    /// Are all events of a trace counted?
    pub fn is_known(&self, source: &Source<'_>, trace: usize) -> bool {
        let mut own = self.parts.iter().filter(|part| source.streams[part.streams[0]].trace == trace);
        own.all(|part| part.counted.get().is_some())
    }

    /// Estimates of the events of a trace whose tracks are not known yet.
    pub(crate) fn unknown_of(&self, source: &Source<'_>, trace: usize) -> Vec<&Estimate> {
        // They are known when those of all traces are.
        let is_open = self.parts.iter().any(|part| part.has_own_tracks && part.counted.get().is_none());
        let is_own = |part: &&TimelinePart| part.has_own_tracks && source.streams[part.streams[0]].trace == trace;
        self.parts.iter().filter(|_| is_open).filter(is_own).map(|part| &part.estimate).collect()
    }
}

/// The level above which the buckets of a timeline are always exact.
pub(crate) fn always_exact(origin: i128, end: Option<i128>) -> u32 {
    let length = end.unwrap_or(origin).saturating_sub(origin);
    let mut always = 0;
    while length >> always >= WHOLE && always < 62 {
        always += 2;
    }
    always
}

/// Gives numbers to the names of classes: these do not depend on which is met first.
pub(crate) fn name_classes(session: &Session, names: &mut NameTable) {
    let named = session.traces.iter().flat_map(|trace| trace.schema.events());
    for name in named.filter_map(|class| class.name.as_deref()) {
        names.number(name.as_bytes());
    }
}

/// The parts that the streams are read in, by whether the traces number their tracks themselves.
fn parts_of(source: &Source<'_>, has_own_tracks: &[bool], names: &mut NameTable) -> Vec<TimelinePart> {
    let mut parts: Vec<TimelinePart> = Vec::new();
    for (at, of) in source.streams.iter().enumerate() {
        let has_own_tracks = has_own_tracks[of.trace];
        let estimate = Estimate::new(source, at, names);
        let known = parts.iter_mut().rfind(|part| has_own_tracks && source.streams[part.streams[0]].trace == of.trace);
        match known {
            Some(part) => {
                part.streams.push(at);
                part.estimate.join(estimate);
            }
            None => {
                let (counted, numbers) = (OnceLock::new(), OnceLock::new());
                parts.push(TimelinePart { streams: vec![at], has_own_tracks, estimate, counted, numbers });
            }
        }
    }
    parts
}

impl TimelinePart {
    fn len(&self) -> usize {
        self.counted.get().map_or(1, Vec::len)
    }
}

/// A base track of a timeline.
#[derive(Clone, Copy)]
pub struct TrackOf<'t> {
    part: &'t TimelinePart,
    at: usize,
}

impl<'t> TrackOf<'t> {
    /// The counted track, once it was counted.
    pub fn counted(&self) -> Option<&'t Track> {
        self.trees().map(|counted| &counted.track)
    }

    pub(crate) fn trees(&self) -> Option<&'t Counted> {
        self.part.counted.get()?.get(self.at)
    }

    pub(crate) fn estimate(&self) -> &'t Estimate {
        &self.part.estimate
    }

    /// Its streams, by index among those that are read.
    pub(crate) fn streams(&self) -> &'t [usize] {
        &self.part.streams
    }

    /// The cost of reading an event of it, in events: those before it in its packet, and finding that.
    pub(crate) fn cost_of_reading(&self, source: &Source<'_>) -> u64 {
        let packets = self.packets(source) as u64;
        let events = self.part.counted.get().map_or(0, |all| all.iter().map(|of| of.track.events).sum::<u64>());
        events / packets.max(1) + packets / 8 + 500
    }

    /// Packets of its streams.
    pub fn packets(&self, source: &Source<'_>) -> usize {
        self.part.streams.iter().map(|at| source.streams[*at].stream.packets.len()).sum()
    }

    /// Its number, where the trace gives it.
    pub(crate) fn number(&self) -> Option<i128> {
        self.part.numbers.get()?.get(self.at).copied().filter(|_| self.part.has_own_tracks)
    }

    /// Its trace, and its name.
    pub fn who(&self, source: &Source<'t>) -> (usize, &'t str) {
        let of = &source.streams[self.part.streams[0]];
        (of.trace, self.counted().map_or(&of.stream.name, |track| &track.name))
    }
}
