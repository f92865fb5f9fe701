//! The thread that moves packets out of rings, and that writes down how the clocks run.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracemill_ring::{self as ring_file, Pair, header, packet};

use crate::control::server::Server;
use crate::local::system;
use crate::options::{Mode, Options};
use crate::recorder::{self, ProcessRing};
use crate::ring::Mapping;
use crate::{clock, folder, trigger};

/// Time between two looks while packets come.
const BUSY: Duration = Duration::from_millis(1);
/// Time between two looks otherwise.
const IDLE: Duration = Duration::from_millis(100);
/// Time between two readings of the clocks.
const PAIRS: Duration = Duration::from_secs(1);

/// The state that the consumer shares with the threads that record.
pub(crate) struct Consumer {
    /// Rings that it does not know yet.
    added: Mutex<Vec<Arc<ProcessRing>>>,
    is_over: AtomicBool,
    /// The socket for commands; negative without one.
    socket: RawFd,
}

/// The consumer of a recording, as that has it.
pub(crate) struct ConsumerThread {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) thread: JoinHandle<()>,
}

/// Begins to consume rings of the trace in `folder`.
pub(crate) fn start(folder: &Path, options: &Options, frequency: u64, first: Pair) -> io::Result<ConsumerThread> {
    // Without a socket, as on a file system that has none, there are no commands.
    let server = if options.control { Server::new(folder).ok() } else { None };
    let socket = server.as_ref().map_or(-1, Server::descriptor);
    let consumer = Arc::new(Consumer { added: Mutex::new(Vec::new()), is_over: AtomicBool::new(false), socket });
    let mover = Mover {
        consumer: consumer.clone(),
        folder: folder.to_path_buf(),
        options: options.clone(),
        frequency,
        first,
        rings: Vec::new(),
        snapshots: 0,
    };
    let thread = std::thread::Builder::new().name("tracemill".into());
    let thread = system::without_signals(|| thread.spawn(move || mover.run(server)))?;
    Ok(ConsumerThread { consumer, thread })
}

impl ConsumerThread {
    /// Is it the calling thread?
    pub(crate) fn is_current(&self) -> bool {
        self.thread.thread().id() == std::thread::current().id()
    }
}

impl Consumer {
    /// A ring that it has to look after, if it does not yet.
    pub(crate) fn add(&self, ring: Arc<ProcessRing>) {
        if let Ok(mut added) = self.added.lock() {
            added.push(ring);
        }
    }

    /// Lets it end at once; packets that are not moved stay where they are.
    pub(crate) fn stop(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        system::wake_consumer();
    }

    /// Leaves the socket to the parent, in a child that has a copy of it.
    pub(crate) fn leave_socket(&self) {
        if self.socket >= 0 {
            system::close_inherited(self.socket);
        }
    }
}

/// A ring, its stream file, and what was seen of it last.
struct MovedRing {
    ring: Arc<ProcessRing>,
    file: Option<File>,
    fill: Option<u64>,
}

struct Mover {
    consumer: Arc<Consumer>,
    folder: PathBuf,
    options: Options,
    frequency: u64,
    /// The first reading of the clocks.
    first: Pair,
    rings: Vec<MovedRing>,
    /// Snapshots that triggers led to.
    snapshots: u32,
}

impl Mover {
    fn run(mut self, mut server: Option<Server>) {
        let (mut paired, mut flushed) = (Instant::now(), Instant::now());
        while !self.consumer.is_over.load(Ordering::SeqCst) {
            let wakes = system::wakes();
            self.take_new();
            let mut is_busy = self.options.mode != Mode::Flight && self.move_packets();
            if paired.elapsed() >= PAIRS {
                paired = Instant::now();
                let pair = clock::pair();
                let known = ring_file::estimate(self.first, pair);
                for mapping in self.rings.iter().map(|moved| &moved.ring.mapping) {
                    add_pair(mapping, pair);
                    if let Some((frequency, _)) = known {
                        mapping.u64(header::FREQUENCY).store(frequency, Ordering::Relaxed);
                    }
                }
            }
            let flush = self.options.flush;
            if self.options.mode != Mode::Flight && !flush.is_zero() && flushed.elapsed() >= flush {
                flushed = Instant::now();
                recorder::ask_to_flush();
            }
            self.write_beacons();
            if let Some((number, at)) = trigger::pending() {
                self.take_snapshot(number, at);
            }
            if let Some(server) = &mut server {
                is_busy |= server.serve(|commands| recorder::execute(&self.consumer, commands));
            }
            if !self.consumer.is_over.load(Ordering::SeqCst) {
                system::sleep_as_consumer(wakes, if is_busy { BUSY } else { IDLE });
            }
        }
        if let Some(server) = server {
            server.finish();
        }
    }

    /// Makes the snapshot of a trigger.
    fn take_snapshot(&mut self, number: u32, at: u64) {
        let Some(before) = recorder::snapshot_before(&self.consumer, number) else { return };
        if let Some(before) = before {
            self.snapshots += 1;
            let (made, to) = (trigger::unfinished(&self.folder), trigger::next_folder(&self.folder));
            // A part of one, by a process that was killed.
            let _ = std::fs::remove_dir_all(&made);
            let cycles = before.as_nanos() * u128::from(self.frequency) / 1_000_000_000;
            let since = if before.is_zero() { 0 } else { at.saturating_sub(cycles.try_into().unwrap_or(u64::MAX)) };
            // It gets its name when it is whole.
            let snapshot = folder::snapshot_since(&self.folder, &made, since).and_then(|_| std::fs::rename(&made, &to));
            if let Err(error) = snapshot {
                let _ = writeln!(io::stderr(), "tracemill-record: {}: no snapshot: {error}", to.display());
            }
            if self.snapshots >= trigger::MAX_SNAPSHOTS {
                recorder::end_triggers(&self.consumer);
            }
        }
        trigger::done();
    }

    fn take_new(&mut self) {
        let Ok(mut added) = self.consumer.added.lock() else { return };
        for ring in added.drain(..) {
            if !self.rings.iter().any(|known| known.ring.number == ring.number) {
                self.rings.push(MovedRing { ring, file: None, fill: None });
            }
        }
    }

    /// Moves all full packets. `true` when there were some.
    fn move_packets(&mut self) -> bool {
        let mut is_busy = false;
        for moved in &mut self.rings {
            // A packet that cannot be written now stays in the ring, and is tried again.
            is_busy |= moved.move_packets(&self.folder, &self.options).unwrap_or(false);
        }
        is_busy
    }

    /// Promises that nothing older than now will come from threads that are outside of events.
    fn write_beacons(&mut self) {
        let now = clock::now().saturating_sub(self.frequency / 1000);
        for (number, fill, is_quiet) in recorder::fills() {
            let Some(moved) = self.rings.iter_mut().find(|moved| moved.ring.number == u64::from(number)) else {
                continue;
            };
            if is_quiet && moved.fill == fill {
                moved.ring.mapping.u64(header::BEACON).store(now, Ordering::Release);
            }
            moved.fill = fill;
        }
    }
}

impl MovedRing {
    fn move_packets(&mut self, folder: &Path, options: &Options) -> io::Result<bool> {
        let mapping = &self.ring.mapping;
        let number = |at: usize| mapping.u64(at).load(Ordering::Acquire);
        let (slots, size) = (number(header::SLOTS), number(header::SLOT_SIZE));
        let (mut taken, done) = (number(header::TAKEN), number(header::DONE));
        if taken == done {
            return Ok(false);
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let path = folder.join(ring_file::stream_name(self.ring.number));
                self.file.insert(File::options().append(true).create(true).open(path)?)
            }
        };
        while taken < done {
            let at = (header::LEN as u64 + taken % slots * size) as usize;
            let content = (mapping.u64(at + packet::CONTENT).load(Ordering::Acquire) / 8).min(size) as usize;
            let len = file.metadata()?.len();
            if let Err(error) = append(file, mapping, at, content) {
                // A part of a packet must not stand before the next try.
                let _ = file.set_len(len);
                return Err(error);
            }
            if options.sync {
                // It is in the file, whatever the disk says: moved again it would be there twice.
                let _ = file.sync_data();
            }
            taken += 1;
            mapping.u64(header::TAKEN).store(taken, Ordering::Release);
            if options.mode == Mode::Block {
                system::wake_waiting(mapping.u64(header::TAKEN));
            }
        }
        Ok(true)
    }
}

/// Appends the packet in the slot at `at`, without what is after its content.
fn append(file: &mut File, mapping: &Mapping, at: usize, content: usize) -> io::Result<()> {
    let mut start = [0; packet::LEN];
    for (part, bytes) in start.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&mapping.u64(at + part * 8).load(Ordering::Relaxed).to_le_bytes());
    }
    start[packet::TOTAL..packet::TOTAL + 8].copy_from_slice(&(content as u64 * 8).to_le_bytes());
    file.write_all(&start)?;
    mapping.append_to(file, at + packet::LEN, content.saturating_sub(packet::LEN))
}

/// Adds a reading of the clocks to a ring.
pub(crate) fn add_pair(mapping: &Mapping, pair: Pair) {
    let count = mapping.u64(header::PAIR_COUNT);
    let number = count.load(Ordering::Relaxed);
    let at = header::PAIRS + (number % header::PAIRS_KEPT) as usize * header::PAIR_LEN;
    for (part, value) in [pair.cycles, pair.monotonic_ns, pair.realtime_ns as u64].into_iter().enumerate() {
        mapping.u64(at + part * 8).store(value, Ordering::Relaxed);
    }
    count.store(number + 1, Ordering::Release);
}
