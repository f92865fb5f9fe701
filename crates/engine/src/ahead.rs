//! Streams that threads read ahead of the one that takes their items.
//!
//! Each stream has one reader, which is with one thread at a time, so items keep the order of their stream whatever the
//! number of threads. A thread reads for the stream that has the fewest items; the one that takes them reads itself where
//! nobody else does. Nothing is read ahead without bounds: a stream has some chunks, and all streams together a number of
//! items.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::item::Item;
use crate::redact::StreamReader;

/// Events of a stream that are read ahead, about.
const EVENTS: usize = 16_384;

/// Items of all streams that are read ahead, about: each keeps a packet open.
const ITEMS: usize = 1024;

/// Items that are read before the others hear of them.
const BURST: usize = 64;

/// Streams that are read ahead by threads.
pub(crate) struct Ahead {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Something was read, or a reader came back.
    has_read: Condvar,
    /// Something was taken, or everything ends.
    has_room: Condvar,
    /// Items that a stream may have waiting.
    items: usize,
    /// Events that an item has at most.
    events: usize,
}

struct State {
    streams: Vec<Stream>,
    /// Threads that wait for room: waking nobody costs a call of the system, too.
    sleepers: usize,
    is_stopped: bool,
    /// A thread has panicked.
    is_broken: bool,
}

struct Stream {
    /// `None` while a thread reads, and after the end.
    reader: Option<Box<StreamReader>>,
    items: VecDeque<Item>,
    /// Events in them.
    events: usize,
    is_ended: bool,
}

impl Ahead {
    /// Reads these streams with so many threads beside the one that takes. `max_events` is the size of their chunks.
    pub(crate) fn new(readers: Vec<StreamReader>, threads: usize, max_events: usize) -> Ahead {
        let items = (ITEMS / readers.len().max(1)).clamp(1, 128);
        let stream =
            |reader| Stream { reader: Some(Box::new(reader)), items: VecDeque::new(), events: 0, is_ended: false };
        let streams = readers.into_iter().map(stream).collect();
        let shared = Arc::new(Shared {
            state: Mutex::new(State { streams, sleepers: 0, is_stopped: false, is_broken: false }),
            has_read: Condvar::new(),
            has_room: Condvar::new(),
            items,
            events: (2 * max_events).min(EVENTS),
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
            if let Some(item) = stream.items.pop_front() {
                stream.events -= events_of(&item);
                // A thread that sleeps is woken for more than one item.
                let has_room = stream.items.len() <= shared.items / 2 && stream.events <= shared.events / 2;
                if has_room && state.sleepers > 0 {
                    shared.has_room.notify_one();
                }
                return Some(item);
            }
            if stream.is_ended {
                return None;
            }
            if let Some(mut reader) = stream.reader.take() {
                drop(state);
                let item = reader.next();
                let mut state = shared.lock();
                let stream = &mut state.streams[at];
                match item {
                    Some(_) => stream.reader = Some(reader),
                    None => stream.is_ended = true,
                }
                // The reader is free for the others again.
                if state.sleepers > 0 {
                    shared.has_room.notify_one();
                }
                return item;
            }
            assert!(!state.is_broken, "a thread that reads ahead has failed");
            state = shared.has_read.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.has_room.notify_all();
        for thread in self.threads.drain(..) {
            // What a thread has to say was said when its item was waited for.
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let _watch = Watch(self);
        let mut state = self.lock();
        while !state.is_stopped {
            let has_room = |stream: &Stream| {
                stream.reader.is_some() && stream.items.len() < self.items && stream.events < self.events
            };
            let streams = state.streams.iter().enumerate().filter(|(_, stream)| has_room(stream));
            let Some((at, _)) = streams.min_by_key(|(_, stream)| (stream.events, stream.items.len())) else {
                state.sleepers += 1;
                state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.sleepers -= 1;
                continue;
            };
            let stream = &mut state.streams[at];
            let Some(mut reader) = stream.reader.take() else { continue };
            let room = (self.items - stream.items.len()).min(BURST);
            drop(state);
            let (mut found, mut events, mut is_ended) = (Vec::new(), 0, false);
            while found.len() < room && events < self.events / 2 && !is_ended {
                match reader.next() {
                    Some(item) => {
                        events += events_of(&item);
                        found.push(item);
                    }
                    None => is_ended = true,
                }
            }
            state = self.lock();
            let stream = &mut state.streams[at];
            stream.items.extend(found);
            stream.events += events;
            stream.is_ended = is_ended;
            if !is_ended {
                stream.reader = Some(reader);
            }
            self.has_read.notify_all();
        }
    }
}

/// Tells the one that waits when a thread fails.
struct Watch<'a>(&'a Shared);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_broken = true;
            self.0.has_read.notify_all();
        }
    }
}
