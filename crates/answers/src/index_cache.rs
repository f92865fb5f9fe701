//! Indexes of traces that are kept until the traces are shown again, in a folder of the user.
//!
//! An index is found by where the files of its traces are and how they begin, and used only while they are what they were:
//! their sizes, times of change, and some pages of each are compared. Everything that is not so is read again.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use tracemill_engine::output::{Pending, is_pending};
use tracemill_engine::session::Session;
use tracemill_lod::store::{self, IndexParts, StoredIndex};
use tracemill_model::error::{Error, ErrorKind, Result};

use crate::traces::ShownTraces;

/// Bytes that all indexes together may take.
pub const MOST_BYTES: u64 = 2 << 30;
/// Files of traces that are looked at; those that have more are read again.
const FILES: usize = 4096;
/// Bytes of the beginning of a file that tell it from others.
const BEGINNING: u64 = 64 << 10;
/// How long a file must have been as it is: times of change are not finer than this everywhere.
const SETTLED: Duration = Duration::from_secs(2);
/// A file that was begun so long ago is not completed any more.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Pages of a file that are compared, and their bytes.
const PAGES: u64 = 16;
const PAGE: u64 = 4096;

/// The folder of indexes: `$XDG_CACHE_HOME/tracemill/lod`, or below `~/.cache`. `None` when neither is known.
pub fn usual_folder() -> Option<PathBuf> {
    // A path that does not begin at the root is none there.
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("tracemill").join("lod"))
}

/// An index that is kept.
#[derive(Debug)]
pub struct IndexEntry {
    /// Its file.
    pub path: PathBuf,
    /// Bytes of it.
    pub bytes: u64,
    /// When it was written or used last.
    pub used: SystemTime,
}

/// The indexes that a folder keeps, those that were used last first. A folder that is not there keeps none.
///
/// # Errors
/// When the folder cannot be listed.
pub fn entries(folder: &Path) -> Result<Vec<IndexEntry>> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|error| Error::io("list the folder", folder, &error))?,
    };
    let entry = |path: PathBuf| {
        let metadata = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
        Some(IndexEntry { bytes: metadata.len(), used: metadata.modified().ok()?, path })
    };
    let paths = listed.flatten().filter(|entry| is_name(&entry.file_name())).map(|entry| entry.path());
    let mut entries: Vec<IndexEntry> = paths.filter_map(entry).collect();
    entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
    Ok(entries)
}

/// The traces of a kept index, as they were named by their paths; none when the file is not an index of this program.
pub fn traces(entry: &IndexEntry) -> Vec<String> {
    let own = File::open(&entry.path).ok().and_then(|file| store::identity(&mut BufReader::new(file), entry.bytes));
    let text = own.map(|own| String::from_utf8_lossy(&own).into_owned()).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("trace ")).map(str::to_string).collect()
}

/// Removes all indexes of a folder, and nothing else; gives how many, and their bytes.
///
/// # Errors
/// When the folder cannot be listed, or one cannot be removed.
pub fn clear(folder: &Path) -> Result<(usize, u64)> {
    let all = entries(folder)?;
    for IndexEntry { path, .. } in &all {
        fs::remove_file(path).map_err(|error| Error::io("remove", path, &error))?;
    }
    Ok((all.len(), all.iter().map(|entry| entry.bytes).sum()))
}

/// Is it the name of an index?
fn is_name(name: &OsStr) -> bool {
    let stem = name.to_str().and_then(|name| name.strip_suffix(".index"));
    stem.is_some_and(|stem| stem.len() == 16 && stem.bytes().all(|sign| sign.is_ascii_hexdigit()))
}

/// Where the index of some traces is kept.
pub struct IndexCache {
    folder: PathBuf,
    inputs: Vec<PathBuf>,
    /// When the traces were opened.
    opened: SystemTime,
    own: OnceLock<Option<IndexIdentity>>,
}

/// The key that an index is found by, and the state of the traces that must not have changed.
#[derive(PartialEq, Eq)]
struct IndexIdentity {
    key: u64,
    identity: Vec<u8>,
}

impl IndexCache {
    /// The index of the traces in these files and folders, which are opened without options that change what is shown.
    /// `opened`: a time before they were opened.
    pub fn new(folder: PathBuf, inputs: Vec<PathBuf>, opened: SystemTime) -> IndexCache {
        IndexCache { folder, inputs, opened, own: OnceLock::new() }
    }

    fn identity(&self, session: &Session) -> Option<&IndexIdentity> {
        self.own.get_or_init(|| identify(&self.inputs, session, self.opened)).as_ref()
    }

    fn path(&self, own: &IndexIdentity) -> PathBuf {
        self.folder.join(format!("{:016x}.index", own.key))
    }

    /// The index of the traces that is kept, when they are as they were.
    pub(crate) fn load(&self, traces: &ShownTraces) -> Option<StoredIndex> {
        let own = self.identity(&traces.session)?;
        if !is_private(&self.folder, &self.path(own)) {
            return None;
        }
        let file = File::options().read(true).write(true).open(self.path(own)).ok()?;
        let used = file.try_clone().ok()?;
        let found = store::read_file((&traces.session, &traces.source()), &own.identity, file)?;
        // The oldest go first when there are too many; a time that cannot be set does no harm.
        let _ = used.set_modified(SystemTime::now());
        Some(found)
    }

    /// Keeps what is known. A viewer works without: what goes wrong is no error.
    pub(crate) fn save(&self, session: &Session, known: IndexParts<'_>) {
        let _ = self.try_save(session, known);
    }

    fn try_save(&self, session: &Session, known: IndexParts<'_>) -> Result<()> {
        let Some(own) = self.identity(session) else { return Ok(()) };
        // They may have changed while they were read.
        if identify(&self.inputs, session, self.opened).as_ref() != Some(own) {
            return Ok(());
        }
        private_folder(&self.folder)?;
        let path = self.path(own);
        let pending = Pending::new(&path)?;
        let failed = |error: std::io::Error| Error::new(ErrorKind::Io, error.to_string()).in_file(&path);
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut out = BufWriter::new(options.open(pending.path()).map_err(failed)?);
        let is_kept = store::write(known, &own.identity, &mut out).map_err(failed)?;
        out.flush().map_err(failed)?;
        drop(out);
        let bytes = fs::metadata(pending.path()).map_err(failed)?.len();
        if is_kept && bytes <= MOST_BYTES {
            pending.commit()?;
            self.make_room(&path)?;
        }
        Ok(())
    }

    /// Removes those that were not used for longest, until the rest may stay with the new one, and what was never completed.
    fn make_room(&self, new: &Path) -> Result<()> {
        let mut bytes = fs::metadata(new).map_or(0, |metadata| metadata.len());
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let changed = path.symlink_metadata().and_then(|metadata| metadata.modified());
            let is_left = || changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > ABANDONED));
            if is_pending(&path) && is_left() {
                let _ = fs::remove_file(&path);
            }
        }
        for entry in entries(&self.folder)? {
            if entry.path == new {
                continue;
            }
            bytes += entry.bytes;
            if bytes > MOST_BYTES {
                let _ = fs::remove_file(&entry.path);
            }
        }
        Ok(())
    }
}

/// May what stands there be believed? Only what this user put there, where the system says who that is.
#[cfg(unix)]
fn is_private(folder: &Path, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let user = Path::new("/proc/self").metadata().or_else(|_| folder.metadata()).map(|of| of.uid());
    path.symlink_metadata().is_ok_and(|own| own.is_file() && user.is_ok_and(|user| user == own.uid()))
}

/// Files have no owner here.
#[cfg(not(unix))]
fn is_private(_: &Path, path: &Path) -> bool {
    path.is_file()
}

/// Makes the folder; other users of the machine may not look into it.
fn private_folder(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| Error::io("make the folder", folder, &error))
}

/// `None` when the traces cannot be recognised: they change, have too many files, or are no files.
fn identify(inputs: &[PathBuf], session: &Session, opened: SystemTime) -> Option<IndexIdentity> {
    let mut key = DefaultHasher::new();
    let mut identity = concat!("tracemill ", env!("CARGO_PKG_VERSION"), "\n").as_bytes().to_vec();
    identity.hash(&mut key);
    // Times are those of moved clocks where traces are aligned.
    let clocks = format!("clocks {:?}\n", session.corrections);
    clocks.hash(&mut key);
    identity.extend_from_slice(clocks.as_bytes());
    let mut files = Vec::new();
    for input in inputs {
        let path = input.canonicalize().ok()?;
        path.hash(&mut key);
        // For people: paths are compared by the numbers below.
        identity
            .extend_from_slice(format!("trace {}\n", path.display().to_string().replace(['\r', '\n'], " ")).as_bytes());
        list(path, &mut files)?;
    }
    // A file may have been named whose trace has others beside it.
    for trace in &session.traces {
        let own = trace.streams.iter().flat_map(|stream| &stream.files).map(|file| &file.path);
        for path in own.chain([&trace.path]) {
            // A file packed in an archive has no path of its own: the archive is an input.
            let Ok(path) = path.canonicalize() else { continue };
            if !files.iter().any(|file| file.starts_with(&path)) {
                list(path, &mut files)?;
            }
        }
    }
    let settled = opened.checked_sub(SETTLED)?;
    let mut state = DefaultHasher::new();
    let mut block = vec![0; BEGINNING as usize];
    for path in files {
        let mut file = File::open(&path).ok()?;
        let metadata = file.metadata().ok()?;
        let changed = metadata.modified().ok()?;
        if !metadata.is_file() || changed >= settled {
            return None;
        }
        path.hash(&mut key);
        place(&metadata).hash(&mut key);
        let len = metadata.len();
        (len, changed).hash(&mut state);
        let count = fill(&mut file, &mut block)?;
        block[..count].hash(&mut key);
        if len > BEGINNING {
            page_places(len).try_for_each(|at| {
                std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(at)).ok()?;
                let count = fill(&mut file, &mut block[..PAGE as usize])?;
                block[..count].hash(&mut state);
                Some(())
            })?;
        }
    }
    let key = key.finish();
    identity.extend_from_slice(format!("{key:016x} {:016x}\n", state.finish()).as_bytes());
    Some(IndexIdentity { key, identity })
}

/// Where the pages are that are compared: over the whole file, with its end.
fn page_places(len: u64) -> impl Iterator<Item = u64> {
    (1..=PAGES).map(move |at| (u128::from(len - PAGE) * u128::from(at) / u128::from(PAGES)) as u64)
}

/// Reads until a block is full or the file ends.
fn fill(file: &mut File, block: &mut [u8]) -> Option<usize> {
    let mut count = 0;
    while count < block.len() {
        match file.read(&mut block[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(count)
}

/// Device and number of a file, where files have them.
fn place(metadata: &fs::Metadata) -> (u64, u64) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (metadata.dev(), metadata.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        (0, 0)
    }
}

/// All files below a path, in an order of their own. `None` when there are too many, or something is not a file.
fn list(path: PathBuf, files: &mut Vec<PathBuf>) -> Option<()> {
    let mut waiting = vec![path];
    let mut folders = 0;
    while let Some(path) = waiting.pop() {
        let metadata = path.metadata().ok()?;
        if metadata.is_dir() {
            folders += 1;
            let mut below: Vec<PathBuf> = fs::read_dir(&path).ok()?.flatten().map(|entry| entry.path()).collect();
            below.sort_unstable();
            waiting.extend(below);
        } else if metadata.is_file() {
            files.push(path);
        } else {
            return None;
        }
        // Links may lead round in circles.
        if files.len() + folders > FILES {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use tracemill_engine::selection::streams;
    use tracemill_engine::session::OpenOptions;
    use tracemill_engine::source::FileSystem;
    use tracemill_engine::timeline::Selection;
    use tracemill_lod::calls::{self, SessionCalls};
    use tracemill_lod::search::Direction;
    use tracemill_lod::states::States;
    use tracemill_lod::{Index, Progress, Timeline, index, tiles};

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("tracemill-cache-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a folder");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn demo() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces")
    }

    fn open(path: &Path) -> ShownTraces {
        let options = OpenOptions::new(tracemill_formats::FORMATS);
        let session = Session::open(&FileSystem, &[path.to_path_buf()], &options).expect("they are right");
        let streams = streams(&session, &[]).expect("all streams");
        ShownTraces::new(session, streams, Selection::default(), None)
    }

    /// All that is known of traces.
    struct Known {
        timeline: Timeline,
        index: Index,
        calls: Option<SessionCalls>,
        states: Option<(States, Vec<Option<usize>>)>,
    }

    impl Known {
        fn read(traces: &ShownTraces) -> Known {
            let source = traces.source();
            let mut ends = traces.ends;
            let (timeline, index) = loop {
                let timeline = Timeline::new(&source, ends);
                match timeline.count(&source, &Progress::default()) {
                    Ok(_) => {
                        let index = index::read(&timeline, &source, &Progress::default()).expect("nobody stops it");
                        break (timeline, index);
                    }
                    Err(first) => ends.0 = Some(first),
                }
            };
            let calls = calls::follow(&traces.session, &source, timeline.origin, &Progress::default());
            let found = crate::states::follow(traces, timeline.origin, &Progress::default().stop);
            Known { timeline, index, calls, states: found.map(|found| (found.states, found.traces)) }
        }

        fn from_stored(kept: StoredIndex) -> Known {
            let StoredIndex { timeline, index, calls, states } = kept;
            Known { timeline, index, calls, states }
        }

        fn parts(&self) -> IndexParts<'_> {
            let states = self.states.as_ref().map(|(states, traces)| (states, &**traces));
            IndexParts { timeline: &self.timeline, index: &self.index, calls: self.calls.as_ref(), states }
        }

        fn is_whole(&self) -> bool {
            let calls = self.calls.as_ref();
            let is_whole = calls.is_none_or(|calls| calls.faults.is_empty() && calls.warnings.is_empty());
            is_whole && self.index.faults.is_empty() && self.index.warnings.is_empty()
        }

        /// Everything that a page may ask.
        fn shown(&self, traces: &ShownTraces) -> String {
            shown(traces, &self.timeline, &self.index) + &self.shown_beside_events()
        }

        /// Calls and states.
        fn shown_beside_events(&self) -> String {
            let Known { timeline, index, calls, states } = self;
            let mut text = String::new();
            if let Some(calls) = calls {
                text +=
                    &format!("{:?} {:?} {:?} {}\n", calls.tasks, calls.names, calls.modules, calls.end - calls.begin);
                let (range, tasks) = ((calls.begin, calls.end), (0..calls.tasks.len()).collect::<Vec<_>>());
                text += &format!("{:?}\n", calls.statistics(range, None, &|| false));
                for task in &tasks {
                    text += &format!("{:?}\n", calls.list(*task));
                    text +=
                        &format!("{:?}\n", calls.locate(*task, calls.begin.midpoint(calls.end), Direction::Previous));
                }
                for level in (0..40).step_by(6) {
                    let begin = (timeline.origin as i64) + ((calls.begin - timeline.origin as i64) >> level << level);
                    text +=
                        &format!("{:?}\n", calls.slices(&tasks, level, (begin, begin.saturating_add(1000 << level))));
                }
            }
            if let Some((states, traces)) = states {
                text += &format!("{:?} {:?} {traces:?}\n", states.names, states.left_out);
                for (at, track) in states.tracks.iter().enumerate() {
                    text +=
                        &format!("{:?} {} {:?}\n", (track.machine, track.of, &track.name), track.depth(), track.parent);
                    text += &format!("{:?}\n", states.pieces(at).collect::<Vec<_>>());
                    text += &format!("{:?}\n", states.wakes(at, (i128::MIN, i128::MAX)).collect::<Vec<_>>());
                    let range = (index.begin, index.end);
                    (4..40).step_by(9).for_each(|level| text += &format!("{:?}\n", states.slices(at, level, range)));
                }
            }
            text
        }
    }

    /// Everything that a page may ask about events.
    fn shown(traces: &ShownTraces, timeline: &Timeline, index: &Index) -> String {
        let mut text = format!("{:?} {:?} {:?}\n", index.tracks, index.losses, (index.begin, index.end, index.untimed));
        for event in 0..index.events() {
            text += &format!("{:?} {:?}\n", index.ns(event), index.kind(event));
            if event % 1000 == 0 {
                text += &format!("{:?}\n", index.place_before(event));
            }
        }
        let tracks: Vec<usize> = (0..index.tracks.len()).collect();
        for level in (0..tiles::MAX_LEVEL).step_by(5) {
            let densities = tiles::density((timeline, None), &traces.source(), &tracks, level, (0, 0), true);
            for density in densities {
                let names: Vec<_> = density.names.iter().map(|name| timeline.name(*name)).collect();
                text += &format!("{level} {density:?} {names:?}\n");
            }
        }
        text + &format!("{:?} {:?}", timeline.ends(), timeline.events())
    }

    /// A time at which nothing of a test is new any more.
    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(5)
    }

    fn copy(from: &Path, to: &Path) {
        if from.is_dir() {
            fs::create_dir_all(to).expect("a folder");
            for entry in fs::read_dir(from).expect("it is there").flatten() {
                copy(&entry.path(), &to.join(entry.file_name()));
            }
        } else {
            fs::copy(from, to).expect("a copy");
        }
    }

    #[test]
    fn what_is_kept_is_what_was_read() {
        let scratch = Scratch::new("same");
        let [mut kept, mut of_calls, mut of_states] = [0; 3];
        let folders = ["traces", "calls", "kernel", "logs"].map(|name| demo().with_file_name(name));
        for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).expect("it is there").flatten()) {
            let traces = open(&entry.path());
            let cache = || IndexCache::new(scratch.0.clone(), vec![entry.path()], later());
            assert!(cache().load(&traces).is_none());
            let known = Known::read(&traces);
            cache().save(&traces.session, known.parts());
            match cache().load(&traces) {
                Some(found) => {
                    kept += 1;
                    of_calls += usize::from(found.calls.is_some());
                    of_states += usize::from(found.states.is_some());
                    assert!(
                        Known::from_stored(found).shown(&traces) == known.shown(&traces),
                        "{}",
                        entry.path().display()
                    );
                }
                None => assert!(!known.is_whole(), "{:?}", entry.path()),
            }
        }
        let all = entries(&scratch.0).expect("it is there");
        assert!(kept >= 4 && all.len() == kept, "{kept} of {all:?}");
        assert!(of_calls >= 1 && of_states >= 1, "{of_calls} with calls, {of_states} with states");
        assert!(traces(&all[0])[0].contains("demo"), "{:?}", traces(&all[0]));
        fs::write(scratch.0.join("notes.txt"), "not ours").expect("a file");
        assert_eq!(clear(&scratch.0).expect("they can go").0, kept);
        assert!(scratch.0.join("notes.txt").exists() && entries(&scratch.0).expect("it is there").is_empty());
    }

    #[test]
    fn a_trace_that_changed_is_read_anew() {
        let scratch = Scratch::new("changed");
        let (trace, folder) = (scratch.0.join("mill"), scratch.0.join("kept"));
        copy(&demo().join("mill"), &trace);
        let traces = open(&trace);
        let known = Known::read(&traces);
        let cache = || IndexCache::new(folder.clone(), vec![trace.clone()], later());
        let is_known = || cache().load(&traces).is_some();
        cache().save(&traces.session, known.parts());
        assert!(is_known());
        let mut files = Vec::new();
        list(trace.clone(), &mut files).expect("files");
        let file = files.iter().max_by_key(|path| path.metadata().map_or(0, |of| of.len())).expect("a file").clone();
        let (bytes, time) =
            (fs::read(&file).expect("bytes"), file.metadata().expect("it is there").modified().expect("a time"));
        let write = |bytes: &[u8], time| {
            fs::write(&file, bytes).expect("it is written");
            File::options().write(true).open(&file).expect("a file").set_modified(time).expect("a time");
        };
        write(&[&bytes[..], b"more"].concat(), time);
        assert!(!is_known(), "it grew");
        write(&bytes, time + std::time::Duration::from_secs(1));
        assert!(!is_known(), "it was written again");
        let mut other = bytes.clone();
        other[bytes.len() - 1] ^= 1;
        write(&other, time);
        assert!(!is_known(), "another byte");
        write(&bytes, time);
        assert!(is_known(), "as it was");
        fs::write(trace.join("another"), "").expect("a file");
        assert!(!is_known(), "a new file");
        fs::remove_file(trace.join("another")).expect("it is there");
        assert!(
            IndexCache::new(folder.clone(), vec![trace.clone()], time).load(&traces).is_none(),
            "it may grow still"
        );
        assert!(is_known());
    }

    #[test]
    fn bytes_that_are_no_index_give_none() {
        for name in ["traces/mill", "calls/tasting", "kernel/bakery"] {
            let traces = open(&demo().join("..").join(name));
            let known = Known::read(&traces);
            let source = traces.source();
            let mut bytes = Vec::new();
            assert!(store::write(known.parts(), b"mine", &mut bytes).expect("memory"));
            let load = |own: &[u8], bytes: &[u8]| {
                store::read((&traces.session, &source), own, &mut &bytes[..], bytes.len() as u64)
            };
            assert!(load(b"mine", &bytes).is_some() && load(b"yours", &bytes).is_none());
            let step = (bytes.len() / 300).max(1);
            for at in (0..bytes.len()).step_by(step).chain(0..100) {
                assert!(load(b"mine", &bytes[..at]).is_none(), "{name}: {at} bytes");
                let mut other = bytes.clone();
                other[at] ^= 0x41;
                assert!(load(b"mine", &other).is_none(), "{name}: byte {at}");
                // One who makes the checksum right gets what may be wrong, and no more.
                let end = other.len() - 4;
                let sum = crc32fast::hash(&other[..end]);
                other[end..].copy_from_slice(&sum.to_le_bytes());
                if let Some(found) = load(b"mine", &other) {
                    let _ = Known::from_stored(found).shown_beside_events();
                }
            }
        }
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let scratch = Scratch::new("room");
        let name = |at: u32| scratch.0.join(format!("{at:016x}.index"));
        for at in 0..3 {
            let file = File::create(name(at)).expect("a file");
            file.set_len(MOST_BYTES / 2).expect("room that is not taken");
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at.into())).expect("a time");
        }
        IndexCache::new(scratch.0.clone(), Vec::new(), later()).make_room(&name(1)).expect("they can go");
        let left: Vec<bool> = (0..3).map(|at| name(at).exists()).collect();
        assert_eq!(left, [false, true, true]);
    }
}
