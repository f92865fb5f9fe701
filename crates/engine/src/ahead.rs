//! Streams that threads read ahead of the one that takes their items.
//!
//! A stream whose packets can be read alone is divided into parts, some packets each; another one is one part. Each part
//! has one reader, which is with one thread at a time, and the items of the first part are taken first: so items keep the
//! order of their stream whatever the number of threads. A part is read as if nothing odd happened before it. Where
//! something did (damage, a warning, a time that goes back), the reader of the part before goes on to the end of the
//! stream, and what was read after it is dropped.
//!
//! A thread reads what is needed first: of the streams the one that has the fewest items. The one that takes them reads,
//! too, when it would wait. Nothing is read ahead without bounds: a part has some chunks, a stream some parts, and all
//! streams together a number of items.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::cursor::Cursor;
use crate::item::Item;
use crate::redact::StreamReader;

/// Events of a part that are read ahead, about.
const EVENTS: usize = 16_384;

/// Items of all streams that are read ahead, about: each keeps a packet open.
const ITEMS: usize = 1024;

/// Items that are read before the others hear of them.
const BURST: usize = 64;

/// Bytes of a part, about: some thousand events, so that changing from one to the next costs nothing beside them.
const PART_BYTES: u64 = 256 << 10;

/// Parts of a stream at most, those that were read and wait included.
const PARTS: usize = 64;

/// Parts of a stream that are read at a time: enough that all threads have something to read.
pub(crate) fn parts_of(streams: usize, jobs: usize) -> usize {
    if jobs > 1 { (2 * jobs).div_ceil(streams.max(1)) } else { 1 }
}

/// Streams that are read ahead by threads.
pub(crate) struct Ahead {
    shared: Arc<AheadShared>,
    threads: Vec<JoinHandle<()>>,
}

struct AheadShared {
    state: Mutex<AheadState>,
    /// Something was read, or a reader came back.
    has_read: Condvar,
    /// Something was taken, or everything ends.
    has_room: Condvar,
    limits: AheadLimits,
}

/// How far is read ahead.
#[derive(Clone, Copy)]
struct AheadLimits {
    /// Items that a part may have waiting.
    items: usize,
    /// Events of a part that may wait.
    events: usize,
    /// Parts of a stream that are read at a time. All of its parts have no more items and events than so many.
    parts: usize,
}

struct AheadState {
    streams: Vec<AheadStream>,
    /// Threads that wait for room, and whether the one that takes waits: a needless wake-up costs a system call, too.
    sleepers: usize,
    is_awaited: bool,
    is_stopped: bool,
    /// A thread has panicked.
    is_broken: bool,
}

struct AheadStream {
    /// The parts that are read, the first one first; the last one stays when it was taken.
    parts: VecDeque<ReadPart>,
    /// The number of the first of them.
    first: usize,
    /// Packets that are left to divide.
    rest: Option<Rest>,
}

/// Packets of a stream that no part has yet.
struct Rest {
    /// A reader of all packets, which is never read.
    whole: StreamReader,
    packets: Range<usize>,
    next_packet: usize,
}

struct ReadPart {
    /// `None` while a thread reads.
    reader: Option<Box<StreamReader>>,
    items: VecDeque<Item>,
    /// Events in them.
    events: usize,
    /// Was everything read?
    is_ended: bool,
    /// Did it have anything but events and losses?
    is_odd: bool,
    /// Its first packet, and the one after its last.
    packets: (usize, usize),
}

impl ReadPart {
    fn new(reader: StreamReader, packets: (usize, usize)) -> ReadPart {
        let (reader, items) = (Some(Box::new(reader)), VecDeque::new());
        ReadPart { reader, items, events: 0, is_ended: false, is_odd: false, packets }
    }

    fn add(&mut self, mut item: Item) {
        // It waits, perhaps as one of many that have few of the events of their packets.
        if let Item::Chunk(ready) = &mut item {
            ready.chunk.shrink();
        }
        self.events += events_of(&item);
        self.is_odd |= is_odd(&item);
        self.items.push_back(item);
    }
}

impl AheadStream {
    fn new(mut reader: StreamReader, limits: AheadLimits) -> AheadStream {
        let is_divided = |cursor: &&mut Cursor| limits.parts > 1 && cursor.can_be_divided();
        let packets = reader.divisible().filter(is_divided).map(|cursor| cursor.packets());
        let mut stream = AheadStream { parts: VecDeque::new(), first: 0, rest: None };
        match packets {
            Some(packets) => {
                let next_packet = packets.start;
                stream.rest = Some(Rest { whole: reader.part(packets.clone()), packets, next_packet });
            }
            None => stream.parts.push_back(ReadPart::new(reader, (0, 0))),
        }
        stream.divide(limits);
        stream
    }

    /// Makes parts of what is left, until enough of them are read or have been read.
    fn divide(&mut self, limits: AheadLimits) {
        while self.has_room(limits)
            && let Some(rest) = &mut self.rest
        {
            let (first, end) = (rest.next_packet, rest.packets.end);
            if first < end {
                rest.next_packet = rest.whole.end_of_part(first, PART_BYTES);
                let packets = (first, rest.next_packet);
                self.parts.push_back(ReadPart::new(rest.whole.part(first..packets.1), packets));
            } else if self.parts.is_empty() {
                // Without packets there is one reader all the same.
                self.parts.push_back(ReadPart::new(rest.whole.part(first..end), (first, end)));
                self.rest = None;
            } else {
                return;
            }
        }
    }

    /// Parts with few events end soon, and it takes long until somebody wants what is after them.
    fn has_room(&self, limits: AheadLimits) -> bool {
        let (mut unended, mut events, mut items) = (0, 0, 0);
        for part in &self.parts {
            unended += usize::from(!part.is_ended);
            events += part.events;
            items += part.items.len();
        }
        let is_full = events >= limits.events * limits.parts || items >= limits.items * limits.parts;
        self.parts.is_empty() || unended < limits.parts && self.parts.len() < PARTS.max(limits.parts) && !is_full
    }

    /// Goes on after the first part, which is at its end, when something is after it: with the next part, or, where that
    /// was read as if all before it were sound and it was not, with the reader of the first.
    fn go_on(&mut self, limits: AheadLimits) -> bool {
        let (Some(part), Some(rest)) = (self.parts.front_mut(), &self.rest) else { return false };
        let (next, end) = (part.packets.1, rest.packets.end);
        let Some(cursor) = part.reader.as_mut().and_then(|reader| reader.divisible()).filter(|_| next < end) else {
            return false;
        };
        if !part.is_odd && cursor.is_followed_by(next) {
            self.parts.pop_front();
            self.first += 1;
        } else {
            cursor.go_on(end);
            part.is_ended = false;
            // Threads that read the other parts find them gone.
            self.parts.truncate(1);
            self.rest = None;
        }
        self.divide(limits);
        true
    }

    /// The part of this number, unless it was dropped.
    fn part(&mut self, number: usize) -> Option<&mut ReadPart> {
        self.parts.get_mut(number.checked_sub(self.first)?)
    }
}

impl Ahead {
    /// Reads these streams with so many threads beside the one that takes. `max_events` is the size of their chunks.
    pub(crate) fn new(readers: Vec<StreamReader>, threads: usize, max_events: usize) -> Ahead {
        let parts = parts_of(readers.len(), threads + 1);
        let items = (ITEMS / readers.len().max(1) / parts).clamp(1, 128);
        let limits = AheadLimits { items, events: (2 * max_events).min(EVENTS), parts };
        let streams = readers.into_iter().map(|reader| AheadStream::new(reader, limits)).collect();
        let shared = Arc::new(AheadShared {
            state: Mutex::new(AheadState {
                streams,
                sleepers: 0,
                is_awaited: false,
                is_stopped: false,
                is_broken: false,
            }),
            has_read: Condvar::new(),
            has_room: Condvar::new(),
            limits,
        });
        let thread = |_| {
            let shared = shared.clone();
            // Where the system has no more threads, the one that takes reads everything.
            std::thread::Builder::new().name("ahead".into()).spawn(move || shared.work()).ok()
        };
        let threads = (0..threads).filter_map(thread).collect();
        Ahead { shared, threads }
    }

    /// The next item of a stream, `None` at its end.
    pub(crate) fn next(&self, at: usize) -> Option<Item> {
        let shared = &*self.shared;
        let mut state = shared.lock();
        loop {
            let stream = &mut state.streams[at];
            let part = stream.parts.front_mut()?;
            if let Some(item) = part.items.pop_front() {
                part.events -= events_of(&item);
                // A thread that sleeps is woken for more than one item.
                let has_room = part.items.len() <= shared.limits.items / 2 && part.events <= shared.limits.events / 2;
                if has_room && state.sleepers > 0 {
                    shared.has_room.notify_one();
                }
                return Some(item);
            }
            if part.is_ended {
                if !stream.go_on(shared.limits) {
                    return None;
                }
                if state.sleepers > 0 {
                    shared.has_room.notify_one();
                }
                continue;
            }
            if let Some(mut reader) = part.reader.take() {
                drop(state);
                let item = reader.next();
                state = shared.lock();
                let sleepers = state.sleepers;
                // Only this thread drops the first part.
                let part = state.streams[at].parts.front_mut()?;
                part.reader = Some(reader);
                part.is_ended = item.is_none();
                part.is_odd |= item.as_ref().is_some_and(is_odd);
                // The reader is free for the others again.
                if sleepers > 0 {
                    shared.has_room.notify_one();
                }
                match item {
                    Some(item) => return Some(item),
                    None => continue,
                }
            }
            assert!(!state.is_broken, "a thread that reads ahead has failed");
            // Instead of waiting it reads what it will need next: one item, as another one may come meanwhile.
            state = match shared.read(state, 1) {
                Ok(state) => state,
                Err(mut state) => {
                    state.is_awaited = true;
                    state = shared.has_read.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.is_awaited = false;
                    state
                }
            };
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.has_room.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of a thread was reported when its item was waited for.
            let _ = thread.join();
        }
    }
}

fn events_of(item: &Item) -> usize {
    match item {
        Item::Chunk(ready) => ready.chunk.len(),
        _ => 0,
    }
}

/// May what is read after this depend on it?
fn is_odd(item: &Item) -> bool {
    matches!(item, Item::Fault(_) | Item::Warning(_))
}

impl AheadShared {
    fn lock(&self) -> MutexGuard<'_, AheadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads some items of the part that needs them most; the state again when no part has room.
    fn read<'a>(
        &'a self,
        mut state: MutexGuard<'a, AheadState>,
        burst: usize,
    ) -> Result<MutexGuard<'a, AheadState>, MutexGuard<'a, AheadState>> {
        let has_room = |part: &ReadPart| {
            part.reader.is_some()
                && !part.is_ended
                && part.items.len() < self.limits.items
                && part.events < self.limits.events
        };
        let parts = state.streams.iter().enumerate().flat_map(|(at, stream)| {
            let parts = stream.parts.iter().enumerate().filter(|(_, part)| has_room(part));
            parts.map(move |(place, part)| ((place, part.events, part.items.len()), at, stream.first + place))
        });
        let Some((_, at, number)) = parts.min() else { return Err(state) };
        let Some(part) = state.streams[at].part(number) else { return Err(state) };
        let Some(mut reader) = part.reader.take() else { return Err(state) };
        let room = (self.limits.items - part.items.len()).min(burst);
        drop(state);
        let (mut found, mut events, mut is_ended) = (Vec::new(), 0, false);
        while found.len() < room && events < self.limits.events / 2 && !is_ended {
            match reader.next() {
                Some(item) => {
                    events += events_of(&item);
                    found.push(item);
                }
                None => is_ended = true,
            }
        }
        let mut state = self.lock();
        if let Some(part) = state.streams[at].part(number) {
            found.into_iter().for_each(|item| part.add(item));
            part.is_ended = is_ended;
            part.reader = Some(reader);
            if is_ended {
                state.streams[at].divide(self.limits);
            }
        }
        Ok(state)
    }

    fn work(&self) {
        let _watch = PanicWatch(self);
        let mut state = self.lock();
        while !state.is_stopped {
            state = match self.read(state, BURST) {
                Ok(state) => {
                    if state.is_awaited {
                        self.has_read.notify_all();
                    }
                    state
                }
                Err(mut state) => {
                    state.sleepers += 1;
                    state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.sleepers -= 1;
                    state
                }
            };
        }
    }
}

/// Tells the one that waits when a thread fails.
struct PanicWatch<'a>(&'a AheadShared);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_broken = true;
            self.0.has_read.notify_all();
        }
    }
}
