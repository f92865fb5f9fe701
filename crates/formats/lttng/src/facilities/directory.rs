//! Which files belong to a trace (`SPEC.md`, section 1), and what their names say.

use std::path::{Path, PathBuf};

use tracemill_model::error::Error;

use super::block;
use crate::files::{CONTROL, DEFINITIONS, channel_and_cpu};
use tracemill_format::{EntryKind, Storage};

/// Folders inside folders.
const MAX_DEPTH: usize = 16;
/// Bytes at the start of a file that show whether it is a tracefile of any version.
const START: usize = 128;
/// Files that probing looks at in one folder.
const MAX_PROBED: usize = 64;

/// A file that may hold events.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its path.
    pub(super) path: PathBuf,
    /// Its path below the folder of the trace.
    pub(super) relative: String,
}

impl Candidate {
    /// The name of its channel: what stands before the last `_`, when digits stand after it.
    pub(super) fn channel(&self) -> &str {
        channel_and_cpu(&self.relative).map_or(&self.relative, |(channel, _)| channel)
    }

    /// The CPU: 0 when the name says none.
    pub(super) fn cpu(&self) -> u32 {
        channel_and_cpu(&self.relative).map_or(0, |(_, cpu)| cpu)
    }

    /// Does it say which facility ids mean what?
    pub(super) fn has_facilities(&self) -> bool {
        matches!(self.channel(), "control/facilities" | "control/flight-facilities")
    }

    /// Is it one of those that have the compact event header in 0.8?
    pub(super) fn is_compact(&self) -> bool {
        let channel = self.channel();
        let name = channel.rsplit_once('/').map_or(channel, |(_, name)| name);
        matches!(name, "compact" | "flight-compact")
    }
}

/// Does the folder hold a trace with facilities?
pub(super) fn probe(storage: &dyn Storage, path: &Path) -> bool {
    let is_folder = |name: &str| storage.kind(&path.join(name)) == Some(EntryKind::Directory);
    if storage.kind(path) != Some(EntryKind::Directory) || !(is_folder(DEFINITIONS) || is_folder(CONTROL)) {
        return false;
    }
    [path.join(CONTROL), path.to_path_buf()].iter().any(|folder| {
        let entries = storage.list(folder).unwrap_or_default();
        let files = entries.into_iter().filter(|entry| matches!(entry.kind, EntryKind::File(len) if len > 0));
        let mut files = files.filter(|entry| !entry.name.starts_with('.')).take(MAX_PROBED);
        files.any(|entry| storage.read_start(&entry.path, START).is_ok_and(|start| block::is_block(&start)))
    })
}

/// Every file below the folder that is tried as a tracefile, by path; and the folders that cannot be listed.
pub(super) fn candidates(storage: &dyn Storage, root: &Path) -> (Vec<Candidate>, Vec<Error>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let mut folders = vec![(root.to_path_buf(), String::new(), 0)];
    while let Some((folder, below, depth)) = folders.pop() {
        let entries = match storage.list(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        for entry in entries {
            let is_definitions = below.is_empty() && entry.name == DEFINITIONS;
            if entry.name.starts_with('.') || is_definitions {
                continue;
            }
            let relative = format!("{below}{}", entry.name);
            match entry.kind {
                EntryKind::Directory if depth < MAX_DEPTH => {
                    folders.push((entry.path, format!("{relative}/"), depth + 1));
                }
                EntryKind::File(_) if !entry.name.ends_with(".xml") => {
                    found.push(Candidate { path: entry.path, relative });
                }
                _ => {}
            }
        }
    }
    found.sort_by(|a, b| a.relative.as_bytes().cmp(b.relative.as_bytes()));
    (found, errors)
}
