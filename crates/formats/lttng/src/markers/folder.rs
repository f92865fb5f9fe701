//! The folder of a trace: which of its files are channels, and how it is recognised.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tracemill_model::error::Result;

use super::header::{MAGIC_AT, MAJOR};
use crate::files::channel_and_cpu;
use crate::magic::magic_order;
use tracemill_format::{Entry, EntryKind, Storage};

/// Folders deeper than this below a trace are not looked at.
const MAX_DEPTH: usize = 16;
/// Files of a folder that are looked at to recognise a trace.
const MAX_PROBED: usize = 64;
/// The folder that holds the metadata before 2.3.
const CONTROL: &str = "control";
/// The mark of a flight recorder in front of a channel's name.
const FLIGHT: &str = "flight-";

/// A file that may be a channel of a CPU.
#[derive(Clone, Debug)]
pub(crate) struct ChannelFile {
    pub path: PathBuf,
    /// Its path below the folder of the trace.
    pub relative: String,
    /// That path without the number of the CPU.
    pub prefix: String,
    /// Name of the channel: without the mark of a flight recorder.
    pub channel: String,
    pub cpu: u32,
    /// Does its name end in the number of a CPU?
    pub has_number: bool,
}

impl ChannelFile {
    pub(crate) fn new(path: PathBuf, relative: String) -> Self {
        let numbered = split_name(&relative);
        let (prefix, cpu) = numbered.unwrap_or((&relative, 0));
        let (folder, name) = prefix.rsplit_once('/').map_or(("", prefix), |(folder, name)| (folder, name));
        let name = name.strip_prefix(FLIGHT).unwrap_or(name);
        let channel = if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") };
        ChannelFile {
            path,
            prefix: prefix.to_string(),
            channel: channel.strip_prefix(FLIGHT).unwrap_or(&channel).to_string(),
            cpu,
            has_number: numbered.is_some(),
            relative,
        }
    }

    /// Is it the channel that defines the markers?
    pub(crate) fn is_metadata(&self) -> bool {
        self.channel.rsplit('/').next() == Some("metadata")
    }
}

/// The path of a channel, which has a name, and the number of its CPU.
fn split_name(path: &str) -> Option<(&str, u32)> {
    channel_and_cpu(path).filter(|(channel, _)| !channel.is_empty() && !channel.ends_with('/'))
}

/// All files below a folder that may be channels, by path.
pub(crate) fn channel_files(storage: &dyn Storage, folder: &Path) -> Result<Vec<ChannelFile>> {
    let mut files = Vec::new();
    let mut visited = HashSet::new();
    collect(storage, folder, "", 0, &mut visited, &mut files)?;
    files.sort_by(|a, b| a.relative.as_bytes().cmp(b.relative.as_bytes()));
    Ok(files)
}

fn collect(
    storage: &dyn Storage,
    folder: &Path,
    below: &str,
    depth: usize,
    visited: &mut HashSet<PathBuf>,
    files: &mut Vec<ChannelFile>,
) -> Result<()> {
    if depth > MAX_DEPTH || !visited.insert(storage.canonical(folder)) {
        return Ok(());
    }
    for Entry { path, name, kind } in storage.list(folder)? {
        if name.starts_with('.') {
            continue;
        }
        let relative = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        match kind {
            EntryKind::Directory => collect(storage, &path, &relative, depth + 1, visited, files)?,
            EntryKind::File(_) if name.ends_with(".xml") => {}
            EntryKind::File(_) => files.push(ChannelFile::new(path, relative)),
            EntryKind::Other => {}
        }
    }
    Ok(())
}

/// The kind of file that its first bytes show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileKind {
    /// A sub-buffer of markers, of any minor version.
    Markers,
    /// The layout of 1.x, and of the first days of 2.0: the magic number in the trace header of 40 bytes further.
    OldMarkers {
        major: u8,
        minor: u8,
    },
    Other,
}

/// Is the magic number where versions before the sub-buffers of 2.0 have it?
fn has_older_magic(bytes: &[u8]) -> bool {
    magic_order(bytes, 40).is_some()
}

/// Looks at the first bytes of a file.
pub(crate) fn start(bytes: &[u8]) -> FileKind {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    if magic_order(bytes, MAGIC_AT).is_some() && byte(20) == MAJOR {
        return FileKind::Markers;
    }
    if has_older_magic(bytes) && matches!(byte(57), 1 | 2) {
        return FileKind::OldMarkers { major: byte(57), minor: byte(58) };
    }
    FileKind::Other
}

/// Is the folder a trace of markers? Its channels lie in it, or in `control` below it, and begin with a sub-buffer. The
/// older layout counts only where no file is of version 0.x: a damaged byte of such a file looks like it.
pub(crate) fn probe(storage: &dyn Storage, folder: &Path) -> bool {
    if storage.kind(folder) != Some(EntryKind::Directory) {
        return false;
    }
    let control = folder.join(CONTROL);
    let is_control = folder.file_name().is_some_and(|name| name == CONTROL);
    let folders = [
        Some(folder).filter(|_| !is_control),
        Some(&*control).filter(|control| storage.kind(control) == Some(EntryKind::Directory)),
    ];
    let (mut is_older, mut has_facilities) = (false, false);
    for folder in folders.into_iter().flatten() {
        let mut names = storage.names(folder).unwrap_or_default();
        names.retain(|name| split_name(&name.to_string_lossy()).is_some());
        names.sort_unstable();
        let paths = names.iter().map(|name| folder.join(name));
        let numbered = paths.filter(|path| matches!(storage.kind(path), Some(EntryKind::File(len)) if len > 0));
        for path in numbered.take(MAX_PROBED) {
            let bytes = storage.read_start(&path, 64).unwrap_or_default();
            match start(&bytes) {
                FileKind::Markers => return true,
                FileKind::OldMarkers { .. } => is_older = true,
                FileKind::Other => has_facilities |= has_older_magic(&bytes) && bytes.get(57) == Some(&0),
            }
        }
    }
    is_older && !has_facilities
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(relative: &str) -> (String, u32, bool) {
        let file = ChannelFile::new(relative.into(), relative.into());
        (file.channel.clone(), file.cpu, file.is_metadata())
    }

    #[test]
    fn the_cpu_is_behind_the_last_underscore() {
        assert_eq!(parts("vm_state_12"), ("vm_state".into(), 12, false));
        assert_eq!(parts("metadata_0"), ("metadata".into(), 0, true));
        assert_eq!(parts("control/metadata_3"), ("control/metadata".into(), 3, true));
        assert_eq!(parts("flight-kernel_1"), ("kernel".into(), 1, false));
        assert_eq!(parts("control/flight-x_1"), ("control/x".into(), 1, false));
        assert_eq!(parts("flight-control/x_1"), ("control/x".into(), 1, false));
        assert_eq!(parts("app-12.12.99"), ("app-12.12.99".into(), 0, false));
        assert_eq!(parts("_0"), ("_0".into(), 0, false));
        assert_eq!(parts("a_99999999999"), ("a_99999999999".into(), 0, false));
    }
}
