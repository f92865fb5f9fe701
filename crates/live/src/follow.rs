//! Files and folders that grow: what is there is read, and read on when there is more.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tracemill_codec::chunk::Bytes;
use tracemill_engine::growth::{GrowingSource, GrowthPlaces, Round, StreamEnd};
use tracemill_engine::session::Session;
use tracemill_engine::source::FileSystem;
use tracemill_format::{Entry, EntryKind, OpenTrace, Storage, Stream, UnpackedSink};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::packet_list::PacketList;
use tracemill_ring as ring;

use crate::metadata;

/// How often files are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Looking and reading take at most this part of the time.
const SHARE: u32 = 4;
/// Files that are looked at; a folder with more of them is no trace that grows.
const MAX_FILES: usize = 100_000;
/// Folders below an input are looked at so deep.
const MAX_DEPTH: usize = 16;

/// Formats that can be followed, by their names.
pub const FOLLOWED: &[&str] = &["ctf1.8", "ctf2", "uftrace", "jsonl"];

/// Followed formats whose traces a viewer shows: it extends their index.
pub const EXTENDED: &[&str] = &["ctf1.8", "ctf2", "jsonl"];

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
    /// How many files hold the others up.
    holding: usize,
    had_rings: bool,
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
            fs::metadata(input).map_err(|error| Error::io("follow", input, &error))?;
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
            cost: Duration::ZERO,
            holding: 0,
            had_rings: false,
            is_left: false,
            is_last: false,
            given: false,
        })
    }

    /// Looks at all files. `true` when something has changed.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        let mut found = BTreeMap::new();
        for input in &self.options.inputs {
            collect(input, 0, &mut found);
        }
        let mut has_changed = false;
        let before = std::mem::take(&mut self.files);
        for (path, (len, modified, inode)) in found {
            let old = before.get(&path);
            let is_same = old.is_some_and(|old| (old.len, old.modified, old.inode) == (len, modified, inode));
            if old.is_some_and(|old| old.inode != inode || old.len > len) {
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
    fn is_over(&self) -> bool {
        let is_idle = self.options.until_idle.is_some_and(|idle| self.grown.elapsed() >= idle);
        let has_ended = self.options.pid.is_some_and(|pid| !runs(pid));
        let are_rings_over = self.had_rings && self.rings.values().all(|ring| ring.is_closed);
        let infos: Vec<bool> = self.options.inputs.iter().filter_map(|input| is_complete_uftrace(input)).collect();
        let are_folders_over = infos.len() == self.options.inputs.len() && infos.iter().all(|is_over| *is_over);
        self.is_left || is_idle || has_ended || are_rings_over || are_folders_over
    }
}

/// Files of an input, with their sizes.
fn collect(path: &Path, depth: usize, found: &mut BTreeMap<PathBuf, (u64, Option<SystemTime>, u64)>) {
    let Ok(meta) = fs::metadata(path) else { return };
    if meta.is_dir() && depth < MAX_DEPTH {
        let Ok(entries) = fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            if found.len() >= MAX_FILES {
                return;
            }
            collect(&entry.path(), depth + 1, found);
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

/// Is a data folder of uftrace complete? The mask of its `info` is 0 until then; `None` where there is none.
fn is_complete_uftrace(folder: &Path) -> Option<bool> {
    const MASK: std::ops::Range<usize> = 24..32;
    let start = FileSystem.read_start(&folder.join("info"), MASK.end).ok()?;
    start.starts_with(b"Ftrace!\0").then(|| start.get(MASK).is_some_and(|mask| mask.iter().any(|byte| *byte != 0)))
}

impl GrowingSource for FollowSource {
    fn next_round(&mut self, wait: Duration) -> Result<Option<Round>> {
        let pause = LOOK.max(self.cost * SHARE);
        let left = self.looked.map_or(Duration::ZERO, |looked| pause.saturating_sub(looked.elapsed()));
        if !self.is_left && left > wait {
            std::thread::sleep(wait);
            return Ok(None);
        }
        if !self.is_left {
            std::thread::sleep(left);
        }
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
        let storage: Arc<dyn Storage> = if self.is_last { Arc::new(FileSystem) } else { Arc::new(UnfinishedFiles) };
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
        if !self.is_last {
            leave_unfinished(session);
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

/// Leaves out of traces what is being written: packets that are not whole, and what was found wrong after the last whole one.
pub fn leave_unfinished(session: &mut Session) {
    session.traces.iter_mut().for_each(leave_unfinished_packets);
}

fn leave_unfinished_packets(trace: &mut OpenTrace) {
    // It is read as it is on purpose.
    trace.warnings.retain(|warning| !warning.message().contains("has not finished recording"));
    for stream in &mut trace.streams {
        let Some(last) = stream.packets.last() else { continue };
        let path = &stream.files[last.file as usize].path;
        let is_in_last =
            |fault: &Error| fault.place().file.as_ref() == Some(path) && fault.place().packet == Some(last.index);
        let is_cut = trace.faults.iter().any(|fault| fault.kind() == ErrorKind::Truncated && is_in_last(fault));
        let end = if is_cut { last.offset_bytes } else { last.offset_bytes + last.total_bits / 8 };
        if is_cut {
            let mut whole = PacketList::default();
            stream.packets.range(0..stream.packets.len() - 1).for_each(|packet| whole.push(&packet));
            stream.packets = whole;
        }
        trace.faults.retain(|fault| {
            let is_after = fault.place().offset.is_none_or(|offset| offset >= end);
            fault.place().file.as_ref() != Some(path) || !is_after
        });
    }
    // A file whose first packet is not whole has no stream.
    let known: Vec<PathBuf> = trace.data_files().map(|file| file.path.clone()).collect();
    let is_new = |error: &Error| {
        let file = error.place().file.as_ref();
        file.is_some_and(|file| !known.contains(file) && file.file_name().is_some_and(|name| name != "metadata"))
    };
    trace.faults.retain(|fault| !is_new(fault));
    trace.warnings.retain(|warning| !is_new(warning));
}

/// The file system, without what is being written: declarations that came in part, lines without an end.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnfinishedFiles;

/// The first bytes of a file.
struct Cut {
    bytes: Arc<dyn Bytes>,
    len: usize,
}

impl Bytes for Cut {
    fn bytes(&self) -> &[u8] {
        &self.bytes.bytes()[..self.len]
    }

    fn will_read(&self, offset: usize, len: usize) {
        self.bytes.will_read(offset, len);
    }

    fn len_now(&self) -> u64 {
        self.bytes.len_now().min(self.len as u64)
    }

    fn can_vanish(&self) -> bool {
        self.bytes.can_vanish()
    }
}

impl Storage for UnfinishedFiles {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        FileSystem.list(directory)
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        // An index is written before or after its packets; headers say the same.
        let is_index = path.parent().is_some_and(|folder| folder.file_name().is_some_and(|name| name == "index"));
        FileSystem.kind(path).filter(|_| !is_index)
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let bytes = FileSystem.open(file)?;
        let all = bytes.bytes();
        let len = match all.first() {
            _ if file.file_name().is_some_and(|name| name == "metadata") => metadata::whole_len(all),
            // Lines of JSON.
            Some(b'{') => all.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
            _ => all.len(),
        };
        Ok(if len == all.len() { bytes } else { Arc::new(Cut { bytes, len }) })
    }

    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>> {
        FileSystem.read_start(file, len)
    }

    fn unpacked(&self) -> Box<dyn UnpackedSink> {
        FileSystem.unpacked()
    }

    fn canonical(&self, path: &Path) -> PathBuf {
        FileSystem.canonical(path)
    }
}
