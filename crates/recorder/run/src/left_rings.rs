//! Folders of rings that are not used any more: their recorder was killed, and so was the program.
//!
//! A recorder holds a lock on its folder of rings, and every process with the library one on the bell, through its mapping. So
//! the kernel says who uses them, also across namespaces of process ids.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tracemill_ring::header;

use crate::command::{Recorded, is_dead, recover_locked};
use crate::rings::processes_of;
use crate::rules::{Describe, Selection};

/// The beginning of the names of folders of rings; the number of their recorder follows.
const PREFIX: &str = "tracemill-";
/// The file in a folder of rings that names the device of the data folder, and its path.
const OWNER: &str = "folder";

/// Where rings are unless another folder is given.
pub(crate) const IN_MEMORY: &str = "/dev/shm";

/// The outcome for rings that a recorder left.
#[derive(Debug)]
#[non_exhaustive]
pub enum LeftRings {
    /// The recording in this folder was finished.
    Finished(PathBuf, Box<Recorded>),
    /// The recording in this folder could not be finished: its rings are still there.
    Failed(PathBuf, io::Error),
    /// Their data folder is gone: they were removed.
    Removed(PathBuf),
}

/// Makes a folder for rings of this process; its lock holds as long as the file is open.
pub(crate) fn make(parent: &Path, data: &Path) -> io::Result<(PathBuf, File)> {
    let time = tracemill_record::clock_pair().monotonic_ns;
    let path = parent.join(format!("{PREFIX}{}-{time}", std::process::id()));
    fs::create_dir(&path)?;
    let made = lock(&path).and_then(|lock| {
        let owner =
            [fs::metadata(data)?.dev().to_string().as_bytes(), b" ", data.as_os_str().as_encoded_bytes()].concat();
        fs::write(path.join(OWNER), owner)?;
        Ok(lock)
    });
    let lock = made.inspect_err(|_| {
        let _ = fs::remove_dir_all(&path);
    })?;
    Ok((path, lock))
}

/// Locks a folder; an error when somebody else has.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Finishes recordings whose rings are not used, in memory and in `folder`, and removes rings whose recordings are
/// gone.
pub fn sweep(folder: Option<&Path>, describe: fn(&Selection) -> Option<Describe>) -> Vec<LeftRings> {
    let mut swept = Vec::new();
    for parent in [Some(Path::new(IN_MEMORY)), folder].into_iter().flatten() {
        let Ok(parent) = parent.canonicalize() else { continue };
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let recorder = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok());
            if recorder.is_some_and(|pid| is_dead(pid) && path.is_dir()) {
                swept.extend(sweep_one(&path, describe));
            }
        }
    }
    swept
}

fn sweep_one(path: &Path, describe: fn(&Selection) -> Option<Describe>) -> Option<LeftRings> {
    // Of other users nothing can be opened.
    let _lock = lock(path).ok()?;
    if path.join(header::BELL).exists() {
        lock(&path.join(header::BELL)).ok()?;
    }
    if processes_of(path).into_iter().any(|pid| !is_dead(pid)) {
        return None;
    }
    match data_folder(path)? {
        Some(data) => Some(match recover_locked(&data, path, describe) {
            Ok(recorded) => LeftRings::Finished(data, Box::new(recorded)),
            Err(error) => LeftRings::Failed(data, error),
        }),
        None => fs::remove_dir_all(path).ok().map(|()| LeftRings::Removed(path.to_path_buf())),
    }
}

/// The data folder that these rings belong to: `Some(None)` when it is gone, `None` when that is not known. It may have got
/// another name since, that of a folder whose successor took its name.
fn data_folder(rings: &Path) -> Option<Option<PathBuf>> {
    let Ok(owner) = fs::read(rings.join(OWNER)) else { return Some(None) };
    let at = owner.iter().position(|&byte| byte == b' ')?;
    let device: u64 = std::str::from_utf8(&owner[..at]).ok()?.parse().ok()?;
    let named = PathBuf::from(std::ffi::OsString::from_vec(owner[at + 1..].to_vec()));
    // On a file system that is mounted for others only, nothing is known of it.
    let seen = named.ancestors().find_map(|path| fs::metadata(path).ok())?;
    if seen.dev() != device {
        return None;
    }
    let mut old = named.clone().into_os_string();
    old.push(".old");
    let is_linked = |data: &PathBuf| fs::read_link(data.join(tracemill_ring::FOLDER)).is_ok_and(|link| link == rings);
    Some([named, old.into()].into_iter().find(is_linked))
}
