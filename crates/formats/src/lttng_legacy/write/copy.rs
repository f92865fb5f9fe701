//! A trace as itself: its files, byte by byte.

use std::fs;
use std::path::Path;

use tracemill_model::error::{Error, Result};

use super::blocks::make_folder_of;
use crate::api::OpenTrace;

/// Copies tracefiles, definitions and `info/`. Not when something is damaged, which would stay damaged.
pub(super) fn copy(trace: &OpenTrace, to: &Path) -> Result<bool> {
    let is_whole = trace.schema.format == "lttng-legacy"
        && trace.faults.is_empty()
        && trace.streams.iter().flat_map(|stream| &stream.files).all(|file| file.path.is_file());
    if !is_whole {
        return Ok(false);
    }
    for file in trace.streams.iter().flat_map(|stream| &stream.files) {
        copy_file(&file.path, &to.join(&file.relative))?;
    }
    for folder in ["eventdefs", "info"] {
        let Ok(entries) = fs::read_dir(trace.path.join(folder)) else { continue };
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            copy_file(&entry.path(), &to.join(folder).join(entry.file_name()))?;
        }
    }
    if trace.schema.version.0 != 0 {
        return Ok(true);
    }
    for folder in ["eventdefs", "control"].map(|name| to.join(name)) {
        fs::create_dir_all(&folder).map_err(|error| Error::io("make the folder", &folder, &error))?;
    }
    Ok(true)
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    make_folder_of(to)?;
    let mut source = fs::File::open(from).map_err(|error| Error::io("copy the file", from, &error))?;
    // Not with the permissions of the source: a copy belongs to the user.
    let mut target = fs::File::create(to).map_err(|error| Error::io("write the copy", to, &error))?;
    std::io::copy(&mut source, &mut target).map_err(|error| Error::io("copy the file", from, &error))?;
    Ok(())
}
