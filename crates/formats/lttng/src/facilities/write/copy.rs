//! A trace as itself: its files, byte by byte.

use std::fs;
use std::path::Path;

use tracemill_model::error::Result;

use super::blocks::make_folder_of;
use tracemill_format::OpenTrace;
use tracemill_format::out_file::{copy_file, make_folder};

/// Copies tracefiles, definitions and `info/`. Not when something is damaged, which would stay damaged.
pub(super) fn copy(trace: &OpenTrace, to: &Path) -> Result<bool> {
    let is_whole = trace.schema.format == "lttng-legacy"
        && trace.faults.is_empty()
        && trace.streams.iter().flat_map(|stream| &stream.files).all(|file| file.path.is_file());
    if !is_whole {
        return Ok(false);
    }
    for file in trace.streams.iter().flat_map(|stream| &stream.files) {
        let to = to.join(&file.relative);
        make_folder_of(&to)?;
        copy_file(&file.path, &to)?;
    }
    for folder in ["eventdefs", "info"] {
        let Ok(entries) = fs::read_dir(trace.path.join(folder)) else { continue };
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            let to = to.join(folder).join(entry.file_name());
            make_folder_of(&to)?;
            copy_file(&entry.path(), &to)?;
        }
    }
    if trace.schema.version.0 != 0 {
        return Ok(true);
    }
    for folder in ["eventdefs", "control"].map(|name| to.join(name)) {
        make_folder(&folder)?;
    }
    Ok(true)
}
