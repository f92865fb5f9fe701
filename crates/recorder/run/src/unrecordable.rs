//! Programs that the program started and that the recorder's library could not be loaded into.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::program::{ProgramFile, inspect};

/// The file in the folder of rings to which the library writes the programs that are started.
const LIST: &str = "execs";

/// The programs of a folder of rings that could not be recorded, each once, in the order in which they were first started.
pub(crate) fn unrecordable(rings: &Path) -> Vec<(PathBuf, ProgramFile)> {
    let list = fs::read(rings.join(LIST)).unwrap_or_default();
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    let mut texts = list.split(|&byte| byte == 0);
    while let (Some(folder), Some(path)) = (texts.next(), texts.next()) {
        // Most are the same few.
        if !seen.insert((folder, path)) {
            continue;
        }
        let Some(path) = resolve(Path::new(OsStr::from_bytes(folder)), Path::new(OsStr::from_bytes(path))) else {
            continue;
        };
        if found.iter().any(|(known, _)| *known == path) {
            continue;
        }
        let file = inspect(&path);
        if file.obstacle.is_some() {
            found.push((path, file));
        }
    }
    found
}

/// The file that was executed; `None` when there is none that can be.
fn resolve(folder: &Path, path: &Path) -> Option<PathBuf> {
    let is_program =
        |path: &Path| fs::metadata(path).is_ok_and(|status| status.is_file() && status.mode() & 0o111 != 0);
    if path.as_os_str().as_bytes().contains(&b'/') {
        let path: PathBuf = folder.join(path).components().collect();
        return is_program(&path).then_some(path);
    }
    let paths = std::env::var_os("PATH").filter(|_| !path.as_os_str().is_empty())?;
    std::env::split_paths(&paths).map(|folder| folder.join(path)).find(|path| is_program(path))
}
