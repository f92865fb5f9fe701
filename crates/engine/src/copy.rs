//! A trace as itself: its files, byte by byte.

use std::io::Write;

use tracemill_format::{EntryKind, OpenTrace, OutPath, Storage, TraceFile};
use tracemill_model::error::{Error, Result};

use crate::damage::cut_while_read;

/// Copies the files of a trace that has no errors, of any format; false, and nothing done, when its files are not known,
/// or are not those of the storage: it was unpacked, or read from a stream.
///
/// # Errors
/// When a file cannot be read or written.
pub fn copy(trace: &OpenTrace, storage: &dyn Storage, to: &OutPath) -> Result<bool> {
    let Some(all) = trace.reader.files(trace, storage) else { return Ok(false) };
    let opened = |file: &TraceFile| trace.data_files().find(|data| data.path == file.path);
    let is_there = |file: &TraceFile| match (storage.kind(&file.path), opened(file)) {
        // The bytes opened under this name may be the unpacked content of the file.
        (Some(EntryKind::File(len)), Some(data)) => len == data.bytes.bytes().len() as u64,
        (Some(EntryKind::File(_)), None) => true,
        _ => false,
    };
    if !trace.faults.is_empty() || !all.files.iter().all(is_there) {
        return Ok(false);
    }
    for file in &all.files {
        let bytes = match opened(file) {
            Some(data) => data.bytes.clone(),
            None => storage.open(&file.path)?,
        };
        let to = to.join(&file.relative);
        if !file.relative.as_os_str().is_empty() {
            to.make_folders_around()?;
        }
        // Not with the permissions of the source: a copy belongs to the user.
        let mut copy = to.create("write the copy")?;
        let failed = |error| Error::io(&format!("write the copy of `{}`", file.path.display()), to.path(), &error);
        let written = copy.write_all(bytes.bytes()).map_err(failed);
        let len_now = bytes.len_now();
        if len_now < bytes.bytes().len() as u64 {
            let help = "nothing was written; run the command again";
            return Err(cut_while_read(len_now).in_file(&file.path).with_help(help));
        }
        written?;
    }
    all.folders.iter().try_for_each(|folder| to.join(folder).make_folder())?;
    Ok(true)
}
