//! The recorder of a process: its rings, its classes, its beginning and its end.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracemill_ring::condition::FieldCondition;
use tracemill_ring::{self as ring_file, Pair, header};

use crate::consumer::{self, ConsumerThread};
use crate::contexts::Contexts;
use crate::error::StartError;
use crate::field::{FieldClass, LONGEST_TEXT};
use crate::local::{process, system};
use crate::metadata::{self, CallHalf, Environment, RecordedClass, RecordedClock};
use crate::options::{Mode, Options, folder_of_child};
use crate::ring::{Mapping, Reserve, RingWriter};
use crate::rules::{self, Level, is_allowed};
use crate::site::special::{self, Special, Way};
use crate::site::{MAX_CLASSES, Site};
use crate::{clock, folder, local, trigger};

#[cfg(feature = "c")]
use self::known::Mirror;
use self::known::RegisteredSite;

pub(crate) use self::commands::{end_triggers, execute, snapshot_before};
#[cfg(feature = "c")]
pub(crate) use self::ends::take_ended;
pub(crate) use self::ends::{finish, finish_at_exit, rotate, start, start_from_environment};

mod commands;
mod ends;
mod known;

/// Longest wait for threads to leave their events.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time for which a disk that took no description of a class is not asked again: every event of such a class asks.
const REFUSED: Duration = Duration::from_millis(100);
/// Time between the two readings of the clocks at the start.
const FIRST_PAIRS: Duration = Duration::from_millis(20);

fn has_ended() -> io::Error {
    io::Error::other("recording has ended")
}

/// The process's knowledge about recording.
pub(crate) struct ProcessState {
    running: Option<Running>,
    /// How a forked child begins at its first event.
    pending: Option<Options>,
    generation: u64,
    /// Did the environment begin the recording, and has the program not asked for it yet?
    is_unclaimed: bool,
    /// Events that could not even be counted in a ring.
    uncounted: u64,
    sites: Vec<RegisteredSite>,
    /// Writers whose threads live; below, those without a thread.
    writers: Vec<&'static RingWriter>,
    idle: Vec<&'static RingWriter>,
    /// Consumers that finish their recordings by themselves, as somebody told them by the socket.
    leaving: Vec<JoinHandle<()>>,
    /// The end of the last recording that ended this way, for the program that finishes it once more.
    ended: Option<(u64, io::Result<Summary>)>,
}

/// A recording.
struct Running {
    options: Options,
    folder: PathBuf,
    pid: u32,
    environment: Environment,
    clock: RecordedClock,
    first: Pair,
    pair: Pair,
    metadata: File,
    /// When the disk took no description of a class, unless it has taken one since.
    refused: Option<Instant>,
    /// In the order of their ids.
    classes: Vec<RecordedClass>,
    ids: HashMap<ClassIdentity, u32>,
    rings: Vec<Arc<ProcessRing>>,
    free: Vec<usize>,
    consumer: Option<ConsumerThread>,
}

/// All that tells classes apart.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ClassIdentity {
    name: String,
    call: CallHalf,
    level: Option<Level>,
    contexts: Contexts,
    fields: Vec<(String, FieldClass)>,
}

/// How a recording went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Events that were discarded.
    pub discarded: u64,
    /// Discarded events that no packet counts, since there was no ring at all.
    pub uncounted: u64,
}

/// A ring of this process.
pub(crate) struct ProcessRing {
    pub(crate) number: u64,
    pub(crate) mapping: Mapping,
}

impl ProcessState {
    pub(crate) const fn new() -> ProcessState {
        ProcessState {
            running: None,
            pending: None,
            generation: 0,
            is_unclaimed: false,
            uncounted: 0,
            sites: Vec::new(),
            writers: Vec::new(),
            idle: Vec::new(),
            leaving: Vec::new(),
            ended: None,
        }
    }

    fn running_of(&mut self, generation: u64) -> Option<&mut Running> {
        let is_it = self.generation == generation;
        self.running.as_mut().filter(|running| is_it && running.pid == std::process::id())
    }

    /// Begins, when a forked child was told to.
    fn begin_pending(&mut self) {
        let Some(mut options) = self.pending.take() else { return };
        options.path = folder_of_child(&options.path);
        match Running::new(options, None) {
            Ok(running) => self.begin(running),
            Err(error) => {
                let _ = writeln!(io::stderr(), "tracemill-record: a child is not recorded: {error}");
            }
        }
    }

    /// Turns a registered site on or off, for an event. On, its class has an id. Where that cannot be, the event is discarded,
    /// and the next one asks again.
    fn decide(&mut self, at: usize) {
        self.begin_pending();
        let RegisteredSite { site, classes, shape, .. } = self.sites[at];
        match self.running.as_mut().map_or(Decision::Off, |running| running.decide(site, classes)) {
            Decision::Off => site.turn_off(),
            Decision::Plain(id) => site.turn_on(id, shape),
            Decision::Special(state) => site.turn_special(state, shape),
            Decision::Discarded => {
                site.recheck();
                self.discard();
            }
        }
        self.sites[at].copy_state();
    }

    /// Counts an event that is discarded outside of its thread's ring: in the first one, or, as long as there is none, here.
    fn discard(&mut self) {
        match self.running.as_ref().and_then(|running| running.rings.first()) {
            Some(first) => {
                first.mapping.u64(header::DISCARDED).fetch_add(1, Ordering::Relaxed);
            }
            None => self.uncounted += 1,
        }
    }

    fn begin(&mut self, running: Running) {
        self.generation += 1;
        self.uncounted = 0;
        LONGEST_TEXT.store(running.options.text_bytes, Ordering::Relaxed);
        trigger::end();
        trigger::watch(running.options.rules.triggers());
        self.running = Some(running);
        self.sites.iter().for_each(RegisteredSite::recheck);
    }

    /// Has the first ring count what could be counted nowhere so far. Without any ring no packet does.
    fn settle(&mut self) {
        self.uncounted += UNPLACED.swap(0, Ordering::Relaxed);
        if let Some(first) = self.running.as_ref().and_then(|running| running.rings.first()) {
            let uncounted = std::mem::take(&mut self.uncounted);
            first.mapping.u64(header::DISCARDED).fetch_add(uncounted, Ordering::Relaxed);
        }
    }

    /// Closes all writers, so that no thread writes to a ring any more. `false` when a thread did not leave its event.
    fn close_writers(&self) -> bool {
        let open: Vec<_> = self.writers.iter().filter(|writer| writer.is_open()).collect();
        open.iter().for_each(|writer| writer.close());
        // A thread may have been opening its writer again: it has seen by now that this is closed.
        system::barrier();
        open.iter().for_each(|writer| writer.close());
        system::barrier();
        let end = Instant::now() + PATIENCE;
        let mut are_quiet = true;
        for writer in open {
            while !writer.is_quiet() && Instant::now() < end {
                std::thread::yield_now();
            }
            match writer.is_quiet() {
                true => writer.seal(),
                false => are_quiet = false,
            }
        }
        are_quiet
    }
}

/// The decision about the events of a site.
enum Decision {
    /// They are not recorded.
    Off,
    /// They are written, with this id of their class.
    Plain(u32),
    /// They need what this state of the table of needs says.
    Special(u32),
    /// They cannot be recorded now.
    Discarded,
}

impl Running {
    /// Begins a recording. With the first readings of the clocks of the recording before, it need not wait for the second
    /// ones.
    fn new(options: Options, first: Option<Pair>) -> Result<Running, StartError> {
        let path = options.folder();
        process::prepare();
        clock::choose();
        let begun = folder::make(&path).and_then(|folder| {
            Running::in_folder(options, &folder, first).inspect_err(|_| {
                // It can be tried again.
                let _ = fs::remove_dir_all(&folder);
            })
        });
        begun.map_err(|error| StartError::Io(path, error))
    }

    fn in_folder(options: Options, folder: &Path, first: Option<Pair>) -> io::Result<Running> {
        fs::create_dir(folder.join(ring_file::FOLDER))?;
        let first = first.unwrap_or_else(|| {
            let first = clock::pair();
            std::thread::sleep(FIRST_PAIRS);
            first
        });
        let pair = clock::pair();
        let (frequency, origin_ns) = ring_file::estimate(first, pair).unwrap_or((1_000_000_000, 0));
        let clock = RecordedClock { frequency, origin_ns };
        let pid = std::process::id();
        let environment = Environment::read_process(pid)?;
        let path = folder.join("metadata");
        let mut metadata = File::options().append(true).create_new(true).open(path)?;
        let text = metadata::beginning(options.format, &environment, clock);
        metadata.write_all(text.as_bytes())?;
        let mut running = Running {
            options,
            folder: folder.to_path_buf(),
            pid,
            environment,
            clock,
            first,
            pair,
            metadata,
            refused: None,
            classes: Vec::new(),
            ids: HashMap::new(),
            rings: Vec::new(),
            free: Vec::new(),
            consumer: None,
        };
        running.consumer = Some(consumer::start(folder, &running.options, clock.frequency, first)?);
        Ok(running)
    }

    /// Decides about the events of a site with fields of these classes.
    fn decide(&mut self, site: &Site, classes: &[FieldClass]) -> Decision {
        let (name, level) = (site.full_name(), site.level());
        if !is_allowed(&self.options.filter, &name, level) {
            return Decision::Off;
        }
        let condition = self.options.rules.condition(&name, level);
        let condition = condition
            .map_or(FieldCondition::Const(true), |rule| rules::bound(&rule.condition, &name, site.fields(), classes));
        if condition == FieldCondition::Const(false) {
            return Decision::Off;
        }
        let contexts = self.options.rules.contexts(&name, level);
        let mut triggers = Vec::new();
        for (number, trigger) in (0..).zip(self.options.rules.triggers()) {
            trigger.bind(number, self.clock.frequency, (&name, level, site.fields(), classes), &mut triggers);
        }
        let Some(id) = self.add_class(site, name.clone(), contexts, classes) else { return Decision::Discarded };
        if condition == FieldCondition::Const(true) && contexts.is_empty() && triggers.is_empty() {
            return Decision::Plain(id);
        }
        let classes = classes.to_vec();
        let state = special::state_of(Special { id, name, classes, condition, contexts, triggers });
        state.map_or(Decision::Discarded, Decision::Special)
    }

    /// The id of the class of a site's events. `None` when there are too many, or the disk is full or was just now.
    fn add_class(&mut self, site: &Site, name: String, contexts: Contexts, classes: &[FieldClass]) -> Option<u32> {
        let fields = site.fields().iter().map(|name| name.to_string()).zip(classes.iter().copied()).collect();
        let kind = ClassIdentity { name, call: site.call(), level: site.level(), contexts, fields };
        match self.ids.get(&kind) {
            Some(id) => Some(*id),
            None => {
                let ClassIdentity { name, call, level, contexts, fields } = kind;
                self.describe(RecordedClass { id: 0, name, call, level, contexts, fields })
            }
        }
    }

    /// Gives a class the next id, and describes it on the disk.
    fn describe(&mut self, class: RecordedClass) -> Option<u32> {
        let id = u32::try_from(self.classes.len()).ok().filter(|&id| id < MAX_CLASSES)?;
        let class = RecordedClass { id, ..class };
        if self.refused.is_some_and(|refused| refused.elapsed() < REFUSED) {
            return None;
        }
        let text = metadata::class(self.options.format, &class);
        self.refused = append(&mut self.metadata, text.as_bytes()).is_err().then(Instant::now);
        if self.refused.is_some() {
            return None;
        }
        let RecordedClass { name, call, level, contexts, fields, .. } = class.clone();
        self.ids.insert(ClassIdentity { name, call, level, contexts, fields }, id);
        self.classes.push(class);
        Some(id)
    }

    /// A ring for the calling thread: one whose thread ended, or a new one.
    fn ring(&mut self) -> io::Result<Arc<ProcessRing>> {
        let ring = match self.free.pop() {
            Some(at) => self.rings[at].clone(),
            None => self.new_ring()?,
        };
        ring.mapping.u32(header::PID).store(self.pid, Ordering::Relaxed);
        ring.mapping.u32(header::TID).store(system::tid(), Ordering::Relaxed);
        ring.mapping.u32(header::STATE).store(header::WRITING, Ordering::Release);
        Ok(ring)
    }

    fn new_ring(&mut self) -> io::Result<Arc<ProcessRing>> {
        let number = self.rings.len() as u64;
        let (size, slots) = self.options.slots();
        let folder = self.folder.join(ring_file::FOLDER);
        // It gets its name when it is whole.
        let (made, path) = (folder.join(format!("{number}.new")), folder.join(ring_file::file_name(number)));
        let file = File::options().read(true).write(true).create_new(true).open(&made)?;
        let mapping = Mapping::new(&file, header::LEN as u64 + size * slots).inspect_err(|_| {
            let _ = fs::remove_file(&made);
        })?;
        let mode = if self.options.mode == Mode::Flight { 2 } else { 1 };
        mapping.put(0, &header::MAGIC);
        mapping.u32(header::KIND).store(1, Ordering::Relaxed);
        mapping.put(header::UUID, &self.environment.uuid);
        for (at, value) in [
            (header::SLOT_SIZE, size),
            (header::SLOTS, slots),
            (header::MODE, mode),
            (header::FREQUENCY, self.clock.frequency),
        ] {
            mapping.u64(at).store(value, Ordering::Relaxed);
        }
        consumer::add_pair(&mapping, self.first);
        consumer::add_pair(&mapping, self.pair);
        fs::rename(&made, &path)?;
        let ring = Arc::new(ProcessRing { number, mapping });
        self.rings.push(ring.clone());
        Ok(ring)
    }

    fn discarded(&self) -> u64 {
        let count = |ring: &Arc<ProcessRing>| ring.mapping.u64(header::DISCARDED).load(Ordering::Relaxed);
        self.rings.iter().map(count).sum()
    }

    /// Ends the recording when its writers are closed. A thread that is still inside of an event keeps its ring mapped.
    fn finish(mut self, are_quiet: bool, uncounted: u64) -> io::Result<Summary> {
        let mut last = clock::pair();
        if let Some(ConsumerThread { consumer, thread }) = self.consumer.take() {
            consumer.stop();
            if thread.join().is_err() {
                last = self.pair;
            }
        }
        let summary = Summary { discarded: self.discarded() + uncounted, uncounted };
        for ring in &self.rings {
            ring.mapping.u32(header::STATE).store(header::CLOSED, Ordering::Release);
        }
        if !are_quiet {
            self.rings.drain(..).for_each(std::mem::forget);
        }
        let clock = ring_file::estimate(self.first, last);
        let clock = clock.map(|(frequency, origin_ns)| RecordedClock { frequency, origin_ns });
        folder::finish(&self.folder, clock, self.options.sync)?;
        Ok(summary)
    }
}

/// Appends a text by one write, so that a reader sees all of it or nothing. What a full disk cuts off is taken back.
fn append(file: &mut File, text: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    let written = loop {
        match file.write(text) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => break written?,
        }
    };
    if written != text.len() {
        file.set_len(before)?;
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

/// The folder of a recording.
pub(crate) fn folder(generation: u64) -> io::Result<PathBuf> {
    let folder = process::locked(|state| Some(state.running_of(generation)?.folder.clone()));
    folder.flatten().ok_or_else(has_ended)
}

/// Events of a recording that were discarded so far.
pub(crate) fn discarded(generation: u64) -> u64 {
    let discarded = |state: &mut ProcessState| {
        let uncounted = state.uncounted + UNPLACED.load(Ordering::Relaxed);
        Some(state.running_of(generation)?.discarded() + uncounted)
    };
    process::locked(discarded).flatten().unwrap_or(0)
}

/// The recording of the process, if there is one.
#[cfg(feature = "c")]
pub(crate) fn current() -> Option<u64> {
    process::locked(|state| state.running.as_ref().map(|_| state.generation)).flatten()
}

/// Makes a site known for an event: its class gets an id, or it is off. Gives its state, as long as the event is not
/// discarded: what it is later is for others.
pub(crate) fn register(site: &'static Site, classes: &'static [FieldClass], shape: u64) -> Option<u32> {
    let registered = process::locked(|state| {
        if site.is_known_on() {
            return site.state();
        }
        let at = state.sites.iter().position(|known| std::ptr::eq(known.site, site)).unwrap_or_else(|| {
            state.sites.push(RegisteredSite {
                site,
                classes,
                shape,
                #[cfg(feature = "c")]
                mirror: Mirror::None,
            });
            state.sites.len() - 1
        });
        state.decide(at);
        site.state()
    });
    if registered.is_none() {
        count_unplaced();
    }
    registered
}

/// Counts an event of a signal handler that interrupted the recorder, or its thread while that had no ring: it is not
/// recorded, the next one asks again.
pub(crate) fn count_unplaced() {
    UNPLACED.fetch_add(1, Ordering::Relaxed);
}

/// The way of events of this site whose fields are others than those it was registered with.
pub(crate) fn way_of(site: &Site, classes: &[FieldClass]) -> Option<Way> {
    let known = process::locked(|state| match state.running.as_mut()?.decide(site, classes) {
        Decision::Off => None,
        Decision::Plain(id) => Some(Way::Plain(id)),
        Decision::Special(special) => Way::of_state(special),
        Decision::Discarded => {
            state.discard();
            None
        }
    });
    if known.is_none() {
        count_unplaced();
    }
    known.flatten()
}

/// Events that were dropped where the lock cannot be taken.
static UNPLACED: AtomicU64 = AtomicU64::new(0);
/// Was it said already that a ring cannot be made?
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// Gives the calling thread a writer, which gets a ring when it needs room. `None` when it cannot record; the event is counted
/// then.
pub(crate) fn give_writer() -> Option<&'static RingWriter> {
    let given = process::locked(|state| {
        let writer = state.idle.pop().unwrap_or_else(RingWriter::leaked);
        // The recording of its thread before says nothing about this one.
        writer.enter_generation(0);
        state.writers.push(writer);
        local::set_writer(Some(writer));
        writer
    });
    if given.is_none() {
        count_unplaced();
    }
    given
}

/// Gives a writer without a ring one of the recording, if there is one.
pub(crate) fn give_ring(writer: &RingWriter) -> Reserve {
    writer.park(true);
    let given = process::locked(|state| match open(state, writer) {
        false => Reserve::None,
        true if writer.enter_generation(state.generation) == state.generation => Reserve::Made,
        true => Reserve::Retry,
    });
    writer.park(false);
    if given.is_none() {
        count_unplaced();
    }
    given.unwrap_or(Reserve::None)
}

fn open(state: &mut ProcessState, writer: &RingWriter) -> bool {
    let Some(running) = &mut state.running else {
        // An event whose class was asked for before the process was forked.
        UNPLACED.fetch_add(u64::from(state.pending.is_some()), Ordering::Relaxed);
        return false;
    };
    match running.ring() {
        Ok(ring) => {
            // Events that could not be counted so far are counted here.
            let unplaced = UNPLACED.swap(0, Ordering::Relaxed) + std::mem::take(&mut state.uncounted);
            ring.mapping.u64(header::DISCARDED).fetch_add(unplaced, Ordering::Relaxed);
            if let Some(ConsumerThread { consumer, .. }) = &running.consumer {
                consumer.add(ring.clone());
            }
            writer.open(&ring.mapping, ring.number as u32, running.options.mode == Mode::Block);
            true
        }
        Err(error) => {
            state.discard();
            if !IS_SAID.swap(true, Ordering::Relaxed) {
                let _ = writeln!(io::stderr(), "tracemill-record: a thread is not recorded: {error}");
            }
            false
        }
    }
}

/// As [`register`], of a site of C, whose state stands at `place` from now on.
#[cfg(feature = "c")]
pub(crate) fn register_place(place: crate::c::event::StatePlace, event: &crate::c::event::CEvent<'_>) -> Option<u32> {
    let registered = process::locked(|state| {
        let is_it = |known: &RegisteredSite| known.mirror == Mirror::At(place);
        // A site of a library that was unloaded serves the next one of its kind.
        let is_free = |known: &RegisteredSite| known.mirror == Mirror::Gone && event.is_of(known.site, known.classes);
        let at = state.sites.iter().position(is_it).or_else(|| state.sites.iter().position(is_free));
        let at = at.unwrap_or_else(|| {
            let (site, classes) = event.leak();
            state.sites.push(RegisteredSite { site, classes, shape: 0, mirror: Mirror::Gone });
            state.sites.len() - 1
        });
        state.sites[at].mirror = Mirror::At(place);
        state.decide(at);
        state.sites[at].site.state()
    });
    if registered.is_none() {
        count_unplaced();
    }
    registered
}

/// Forgets a place of C: its library is unloaded.
#[cfg(feature = "c")]
pub(crate) fn forget_place(place: crate::c::event::StatePlace) {
    process::locked(|state| {
        if let Some(known) = state.sites.iter_mut().find(|known| known.mirror == Mirror::At(place)) {
            known.turn_off();
            known.mirror = Mirror::Gone;
        }
    });
}

/// Takes the writer of a thread that ends.
pub(crate) fn take_back(writer: &'static RingWriter) {
    process::locked(|state| {
        if let Some(running) = state.running.as_mut().filter(|_| writer.is_open()) {
            let at = writer.number() as usize;
            writer.close();
            writer.seal();
            if let Some(ring) = running.rings.get(at) {
                ring.mapping.u32(header::STATE).store(header::ENDED, Ordering::Release);
                running.free.push(at);
            }
        }
        state.writers.retain(|other| !std::ptr::eq(*other, writer));
        state.idle.push(writer);
    });
}

/// Asks the threads for packets that are not full.
pub(crate) fn ask_to_flush() {
    process::locked(|state| {
        for writer in state.writers.iter().filter(|writer| writer.is_open() && writer.fill().is_some()) {
            writer.ask_to_flush();
        }
    });
}

/// How full the slots of the rings are, and whether their threads are outside of events.
pub(crate) fn fills() -> Vec<(u32, Option<u64>, bool)> {
    let fill = |writer: &&'static RingWriter| (writer.number(), writer.fill(), writer.is_quiet());
    process::locked(|state| state.writers.iter().filter(|writer| writer.is_open()).map(fill).collect())
        .unwrap_or_default()
}

/// Forgets the recording in a child of `fork`: rings, files and threads are the parent's.
pub(crate) fn forget(state: &mut ProcessState) {
    // Writers of threads that do not exist here stay as they are.
    std::mem::take(&mut state.writers).iter().for_each(|writer| writer.close());
    state.idle.clear();
    UNPLACED.store(0, Ordering::Relaxed);
    std::mem::take(&mut state.leaving).into_iter().for_each(std::mem::forget);
    state.ended = None;
    trigger::end();
    let Some(running) = state.running.take() else { return };
    if let Some(ConsumerThread { consumer, .. }) = &running.consumer {
        consumer.leave_socket();
    }
    state.generation += 1;
    // Beside the folder of the parent, wherever the child goes.
    let child = || Options { path: running.folder.clone(), ..running.options.clone() };
    state.pending = running.options.follow_fork.then(child);
    for known in &state.sites {
        if state.pending.is_some() { known.recheck() } else { known.turn_off() }
    }
    // Its mappings are shared with the parent, its thread is not there: nothing of it may be dropped.
    std::mem::forget(running);
}

#[cfg(test)]
mod tests;
