//! Files and folders that grow: what is there is read, and read on when there is more.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tracemill_engine::growth::{GrowingSource, GrowthPlaces, Round, StreamEnd};
use tracemill_engine::session::Session;
use tracemill_engine::source::FileSystem;
use tracemill_format::{Storage, Stream};
use tracemill_ftrace::parts;
use tracemill_model::error::{Error, Result};
use tracemill_ring as ring;

use crate::changes::Changes;
use crate::unfinished::{UnfinishedFiles, has_parts, leave_notes, leave_unfinished};

/// How often files are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// After a change that the system tells they are looked at so much later: what is written together is read together.
const BREATH: Duration = Duration::from_millis(50);
/// A complete recording of uftrace has all its symbols once the folder has not changed for this long.
const SYMBOLS: Duration = Duration::from_millis(300);
/// The wait if there are no symbols at all yet: uftrace reads a large program for a while before it writes the first.
const FIRST_SYMBOLS: Duration = Duration::from_secs(3);
/// Looking and reading take at most this part of the time.
const SHARE: u32 = 4;
/// Files that are looked at; a folder with more of them is no trace that grows.
const MAX_FILES: usize = 100_000;
/// Folders below an input are looked at so deep.
const MAX_DEPTH: usize = 16;

/// Formats that can be followed, by their names.
pub const FOLLOWED: &[&str] = &["ctf1.8", "ctf2", "uftrace", "ftrace", "jsonl"];

/// How files are followed.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// How long a file that does not grow holds the others up; for ever when it is zero.
    pub patience: Duration,
    /// End when nothing has grown for so long.
    pub until_idle: Option<Duration>,
    /// End when this process does not run any more.
    pub pid: Option<u32>,
}

/// Files and folders that grow.
pub struct FollowSource {
    options: FollowOptions,
    files: BTreeMap<PathBuf, FileState>,
    /// Files that were replaced or became shorter since the last round.
    replaced: HashSet<PathBuf>,
    rings: HashMap<(PathBuf, String), RingState>,
    /// Processes whose rings nobody writes any more, and whether that was reported.
    dead: BTreeMap<u32, bool>,
    begin: Instant,
    /// When something has grown last, when the last look was, and how long a round takes.
    grown: Instant,
    looked: Option<Instant>,
    cost: Duration,
    changes: Changes,
    /// Has something changed since the last look?
    is_woken: bool,
    /// How many files hold the others up.
    holding: usize,
    had_rings: bool,
    /// The inputs that were there in parts.
    had_parts: bool,
    is_left: bool,
    is_last: bool,
    given: bool,
}

#[derive(Clone, Copy)]
struct FileState {
    len: u64,
    modified: Option<SystemTime>,
    inode: u64,
    grown: Instant,
}

/// The state of a ring, by its header.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RingState {
    /// Does a thread write into it?
    is_written: bool,
    /// May no thread write into it any more?
    is_closed: bool,
    /// Before this clock value nothing comes any more.
    beacon: u64,
}

impl FollowSource {
    /// Follows files and folders.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn open(options: FollowOptions) -> Result<FollowSource> {
        for input in &options.inputs {
            // A recorder that has just begun has made the folder, and not yet all that is needed to read it.
            if !parts::folder(input).is_dir() {
                fs::metadata(input).map_err(|error| Error::io("follow", input, &error))?;
            }
        }
        let now = Instant::now();
        Ok(FollowSource {
            options,
            files: BTreeMap::new(),
            replaced: HashSet::new(),
            rings: HashMap::new(),
            dead: BTreeMap::new(),
            begin: now,
            grown: now,
            looked: None,
            changes: Changes::default(),
            is_woken: false,
            cost: Duration::ZERO,
            holding: 0,
            had_rings: false,
            had_parts: false,
            is_left: false,
            is_last: false,
            given: false,
        })
    }

    /// Waits until files are to be looked at, at most this long; `false` when they are not yet.
    fn is_due(&mut self, wait: Duration) -> bool {
        let begin = Instant::now();
        loop {
            let pause = if self.is_woken { BREATH } else { LOOK }.max(self.cost * SHARE);
            let left = self.looked.map_or(Duration::ZERO, |looked| pause.saturating_sub(looked.elapsed()));
            let rest = wait.saturating_sub(begin.elapsed());
            match left.min(rest) {
                _ if left.is_zero() => return true,
                Duration::ZERO => return false,
                nap if self.is_woken => std::thread::sleep(nap),
                nap => self.is_woken = self.changes.wait(nap),
            }
        }
    }

    /// Looks at all files. `true` when something has changed.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        let (mut found, mut watched) = (BTreeMap::new(), BTreeSet::new());
        for input in &self.options.inputs {
            match has_parts(input) {
                true => {
                    self.had_parts = true;
                    watched.insert(parts::folder(input));
                    collect_parts(input, &mut found);
                }
                false => {
                    watched.insert(input.clone());
                    collect(input, 0, &mut found, &mut watched);
                }
            }
        }
        self.changes.watch(watched);
        let mut has_changed = false;
        // A file that was moved, as a rotation does, was not replaced.
        let inodes: HashSet<u64> = found.values().map(|(.., inode)| *inode).collect();
        let before = std::mem::take(&mut self.files);
        for (path, (len, modified, inode)) in found {
            let old = before.get(&path);
            let is_same = old.is_some_and(|old| (old.len, old.modified, old.inode) == (len, modified, inode));
            let is_other = |old: &FileState| old.inode != inode && !inodes.contains(&old.inode);
            if old.is_some_and(|old| is_other(old) || old.inode == inode && old.len > len) {
                self.replaced.insert(path.clone());
            }
            has_changed |= !is_same;
            let grown = old.filter(|_| is_same).map_or(now, |old| old.grown);
            self.files.insert(path, FileState { len, modified, inode, grown });
        }
        has_changed |= before.keys().any(|path| !self.files.contains_key(path));
        let rings = self.read_rings();
        has_changed |= rings != self.rings;
        self.rings = rings;
        if has_changed {
            self.grown = now;
        }
        let holding = self.files.values().filter(|file| self.holds(file)).count();
        has_changed |= std::mem::replace(&mut self.holding, holding) != holding;
        has_changed
    }

    /// The rings below the inputs. Slots are not looked at: a ring that is written changes its beacon, too.
    fn read_rings(&mut self) -> HashMap<(PathBuf, String), RingState> {
        let mut rings = HashMap::new();
        for path in self.files.keys() {
            let number = path.file_name().and_then(|name| name.to_str()).and_then(ring::number_of);
            let folder = path.parent().filter(|folder| folder.file_name().is_some_and(|name| name == ring::FOLDER));
            let (Some(number), Some(trace)) = (number, folder.and_then(Path::parent)) else { continue };
            // The rings of a recorder of calls are not read: it writes what was in them, also when the program has ended.
            if is_complete_uftrace(trace).is_some() {
                continue;
            }
            let Ok(start) = FileSystem.read_start(path, ring::header::LEN) else { continue };
            let len = fs::metadata(path).map_or(0, |meta| meta.len());
            let Ok(header) = ring::Header::read(&start, len) else { continue };
            let was_closed = header.state == ring::header::CLOSED;
            let is_dead = !was_closed && !runs(header.pid);
            if is_dead {
                self.dead.entry(header.pid).or_insert(false);
            }
            let is_closed = was_closed || is_dead;
            let is_written = !is_closed && header.state == ring::header::WRITING;
            let state = RingState { is_written, is_closed, beacon: header.beacon };
            rings.insert((trace.to_path_buf(), ring::stream_name(number)), state);
        }
        self.had_rings |= !rings.is_empty();
        rings
    }

    /// Do others wait for what may still come in a file?
    fn holds(&self, file: &FileState) -> bool {
        self.options.patience.is_zero() || file.grown.elapsed() < self.options.patience
    }

    /// Is nothing more to come?
    fn is_over(&mut self) -> bool {
        let is_idle = self.options.until_idle.is_some_and(|idle| self.grown.elapsed() >= idle);
        let has_ended = self.options.pid.is_some_and(|pid| !runs(pid));
        let are_rings_over = self.had_rings && self.rings.values().all(|ring| ring.is_closed);
        let infos: Vec<bool> = self.options.inputs.iter().filter_map(|input| is_complete_uftrace(input)).collect();
        let are_folders_over = infos.len() == self.options.inputs.len() && infos.iter().all(|is_over| *is_over);
        let are_folders_over = are_folders_over && self.have_symbols();
        let are_parts_over = self.had_parts && !self.is_recorded();
        self.is_left || is_idle || has_ended || are_rings_over || are_folders_over || are_parts_over
    }

    /// Are the symbols of data folders of uftrace there? It writes them when `info` is complete, one file after the other, and
    /// says nowhere that it has written the last one.
    fn have_symbols(&self) -> bool {
        let has_some = |input: &PathBuf| self.files.keys().any(|path| is_symbols(path) && path.starts_with(input));
        let quiet = if self.options.inputs.iter().all(has_some) { SYMBOLS } else { FIRST_SYMBOLS };
        self.grown.elapsed() >= quiet
    }

    /// Is one of the inputs still there in parts, and made by a recorder that runs?
    fn is_recorded(&mut self) -> bool {
        let in_parts = self.options.inputs.iter().filter(|input| has_parts(input));
        let mut is_recorded = false;
        for input in in_parts {
            let instance = fs::read_to_string(parts::folder(input).join(parts::INSTANCE));
            match instance.ok().and_then(|name| parts::recorder(&name)).filter(|pid| !runs(*pid)) {
                Some(dead) => drop(self.dead.entry(dead).or_insert(false)),
                None => is_recorded = true,
            }
        }
        is_recorded
    }
}

/// The parts of a file that is still recorded, under the names that they have in the trace.
fn collect_parts(input: &Path, found: &mut FoundFiles) {
    let mut own = BTreeMap::new();
    collect(&parts::folder(input), MAX_DEPTH - 1, &mut own, &mut BTreeSet::new());
    found.extend(own.into_iter().filter_map(|(path, state)| Some((input.join(path.file_name()?), state))));
}

/// Sizes of files, when they were changed, and their inodes.
type FoundFiles = BTreeMap<PathBuf, (u64, Option<SystemTime>, u64)>;

/// Files of an input, and its folders.
fn collect(path: &Path, depth: usize, found: &mut FoundFiles, folders: &mut BTreeSet<PathBuf>) {
    let Ok(meta) = fs::metadata(path) else { return };
    if meta.is_dir() && depth < MAX_DEPTH {
        let Ok(entries) = fs::read_dir(path) else { return };
        folders.insert(path.to_path_buf());
        for entry in entries.flatten() {
            if found.len() >= MAX_FILES {
                return;
            }
            collect(&entry.path(), depth + 1, found, folders);
        }
    } else if meta.is_file() {
        found.insert(path.to_path_buf(), (meta.len(), meta.modified().ok(), inode(&meta)));
    }
}

#[cfg(unix)]
fn inode(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

#[cfg(not(unix))]
fn inode(_: &fs::Metadata) -> u64 {
    0
}

/// Does a process run? Where that cannot be found out, it does.
fn runs(pid: u32) -> bool {
    let processes = Path::new("/proc");
    !processes.join("self").exists() || processes.join(pid.to_string()).exists()
}

fn is_symbols(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sym")
}

/// Is a data folder of uftrace complete? The mask of its `info` is 0 until then; `None` where there is none.
fn is_complete_uftrace(folder: &Path) -> Option<bool> {
    const MASK: std::ops::Range<usize> = 24..32;
    let start = FileSystem.read_start(&folder.join("info"), MASK.end).ok()?;
    start.starts_with(b"Ftrace!\0").then(|| start.get(MASK).is_some_and(|mask| mask.iter().any(|byte| *byte != 0)))
}

impl GrowingSource for FollowSource {
    fn next_round(&mut self, wait: Duration) -> Result<Option<Round>> {
        if !self.is_left && !self.is_due(wait) {
            return Ok(None);
        }
        self.is_woken = false;
        self.looked = Some(Instant::now());
        let has_changed = self.look();
        self.is_last = self.is_over();
        // A map that is written changes nothing that can be seen from outside.
        let has_maps = self.rings.values().any(|ring| !ring.is_closed);
        if !has_changed && !self.is_last && !has_maps && self.given {
            return Ok(None);
        }
        self.given = true;
        self.begin = Instant::now();
        // A recorder that was killed leaves its parts.
        let is_finished = self.is_last && !self.options.inputs.iter().any(|input| has_parts(input));
        let storage: Arc<dyn Storage> = match is_finished {
            true => Arc::new(FileSystem),
            false => Arc::new(UnfinishedFiles::of(&self.options.inputs)),
        };
        Ok(Some(Round { storage, inputs: self.options.inputs.clone(), is_last: self.is_last }))
    }

    fn end_of(&self, session: &Session, trace: usize, stream: &Stream) -> StreamEnd {
        let of = &session.traces[trace];
        if self.is_last {
            return StreamEnd::Over;
        }
        let last = stream.packets.last().and_then(|packet| packet.end_cycles);
        if let Some(ring) = self.rings.get(&(of.path.clone(), stream.name.clone())) {
            return if ring.is_written { StreamEnd::Until(ring.beacon) } else { StreamEnd::Over };
        }
        let files = stream.files.iter().filter_map(|file| self.files.get(&file.path));
        match files.into_iter().any(|file| self.holds(file)) {
            true => StreamEnd::Until(last.unwrap_or(0)),
            false => StreamEnd::Over,
        }
    }

    fn look_at(&mut self, session: &mut Session, places: &mut GrowthPlaces) -> Vec<Error> {
        let other = session.traces.iter().find(|trace| !FOLLOWED.contains(&trace.schema.format));
        if let Some(trace) = other {
            let format = trace.schema.format;
            let error = Error::unsupported(format!("`{format}` cannot be followed")).in_file(&trace.path);
            let error = error.with_help(format!("--follow reads {}", FOLLOWED.join(", ")));
            session.traces.clear();
            return vec![error];
        }
        for trace in &mut session.traces {
            for stream in &trace.streams {
                if stream.files.iter().any(|file| self.replaced.contains(&file.path)) {
                    places.forget(&trace.path, &stream.name);
                }
            }
        }
        match self.is_last {
            false => leave_unfinished(session),
            // It was said that the process is gone.
            true if !self.dead.is_empty() => leave_notes(session),
            true => {}
        }
        self.replaced.clear();
        Vec::new()
    }

    fn take_faults(&mut self) -> (Vec<Error>, Vec<Error>) {
        let mut warnings = Vec::new();
        for (pid, is_told) in self.dead.iter_mut().filter(|(_, is_told)| !**is_told) {
            *is_told = true;
            let message = format!("process {pid} ended without finishing its recording: what it has recorded is read");
            warnings.push(Error::inconsistent(message));
        }
        (Vec::new(), warnings)
    }

    fn may_be_cut(&self) -> bool {
        !self.is_last
    }

    fn release(&mut self, _places: &mut GrowthPlaces) {
        self.cost = self.begin.elapsed();
    }

    fn leave(&mut self) {
        self.is_left = true;
    }
}
