//! A trace as itself: its files, byte by byte.

use std::path::{Component, Path};

use tracemill_model::error::Result;

use super::Dialect;
use tracemill_format::OpenTrace;
use tracemill_format::out_file::{copy_file, make_folder};

const METADATA: &str = "metadata";
const INDEX: &str = "index";

/// Copies a trace of CTF 1.8.
pub(super) fn copy_ctf18(trace: &OpenTrace, to: &Path) -> Result<bool> {
    copy(trace, to, Dialect::Ctf18.format())
}

/// Copies a trace of CTF 2.
pub(super) fn copy_ctf2(trace: &OpenTrace, to: &Path) -> Result<bool> {
    copy(trace, to, Dialect::Ctf2.format())
}

/// Copies metadata, streams and their indexes. Not when the trace has damaged parts, which would stay damaged, or is put
/// together from several folders.
pub(crate) fn copy(trace: &OpenTrace, to: &Path, format: &str) -> Result<bool> {
    let metadata = trace.path.join(METADATA);
    let files: Vec<_> = trace.streams.iter().flat_map(|stream| &stream.files).collect();
    let is_plain = |name: &str| {
        let mut parts = Path::new(name).components();
        matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
    };
    let is_whole = trace.schema.format == format
        && trace.faults.is_empty()
        && metadata.is_file()
        && files.iter().all(|file| is_plain(&file.relative) && file.path == trace.path.join(&file.relative));
    if !is_whole {
        return Ok(false);
    }
    make_folder(to)?;
    for file in files {
        copy_file(&file.path, &to.join(&file.relative))?;
        let name = format!("{}.idx", file.relative);
        let index = trace.path.join(INDEX).join(&name);
        // An index that does not fit is not read, and not kept.
        if file.is_indexed && index.is_file() {
            make_folder(&to.join(INDEX))?;
            copy_file(&index, &to.join(INDEX).join(&name))?;
        }
    }
    copy_file(&metadata, &to.join(METADATA))?;
    Ok(true)
}
