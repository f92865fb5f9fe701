//! The files of traces that are shown, as they were: what has changed, grown, or gone away.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::input::AnswerInput;

/// The state of a file, by which a change is seen.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    len: u64,
    changed: SystemTime,
    /// Tells it from other files of its name, where the system does.
    inode: u64,
    is_folder: bool,
}

impl Stamp {
    /// Is it the file that it was, perhaps with more in it?
    fn is_grown_from(&self, before: &Stamp) -> bool {
        self.inode == before.inode && self.is_folder == before.is_folder && (self.is_folder || self.len >= before.len)
    }
}

/// A file of a trace.
struct WatchedFile {
    path: PathBuf,
    /// Is it the file or the folder of a whole trace?
    is_trace: bool,
    /// As it was when its trace was opened.
    opened: Option<Stamp>,
    /// As it was when it was looked at last.
    seen: Option<Stamp>,
}

/// The files of traces, as they were.
pub struct Files(Vec<WatchedFile>);

impl Files {
    pub(crate) fn from_input(input: &AnswerInput) -> Files {
        let mut paths: BTreeMap<PathBuf, bool> = BTreeMap::new();
        for trace in &input.traces.session.traces {
            // The folder shows files that are new.
            paths.insert(trace.path.clone(), true);
            for file in trace.streams.iter().flat_map(|stream| &stream.files) {
                paths.entry(file.path.clone()).or_default();
            }
        }
        let watched = |(path, is_trace): (PathBuf, bool)| {
            let stamp = stamp(&path);
            WatchedFile { path, is_trace, opened: stamp, seen: stamp }
        };
        Files(paths.into_iter().map(watched).collect())
    }

    /// Did any change since it was looked at?
    pub(crate) fn poll_changes(&mut self) -> bool {
        self.0.iter_mut().fold(false, |is_new, file| {
            let now = stamp(&file.path);
            std::mem::replace(&mut file.seen, now) != now || is_new
        })
    }

    /// The first trace that was there and is not any more.
    pub(crate) fn missing(&self) -> Option<&Path> {
        let is_gone = |file: &&WatchedFile| file.is_trace && file.opened.is_some() && file.seen.is_none();
        self.0.iter().find(is_gone).map(|file| &*file.path)
    }

    /// The first file that is not the one that it was when the traces were opened, or holds less.
    pub(crate) fn replaced(&self) -> Option<PathBuf> {
        let is_other = |file: &&WatchedFile| {
            file.opened.is_some_and(|opened| file.seen.is_none_or(|seen| !seen.is_grown_from(&opened)))
        };
        self.0.iter().find(is_other).map(|file| file.path.clone())
    }

    pub(crate) fn changed_since(&self, time: SystemTime) -> bool {
        self.0.iter().any(|file| file.seen.is_some_and(|stamp| stamp.changed >= time))
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some(Stamp { len: metadata.len(), changed: metadata.modified().ok()?, inode, is_folder: metadata.is_dir() })
}
