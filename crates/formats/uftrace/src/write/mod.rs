//! Writing data folders: a folder of uftrace as itself, and calls of other formats.

mod convert;
mod kernel;
mod record;
mod rewrite;

use std::fs;
use std::path::Path;

use tracemill_model::error::{Error, Result};

use self::convert::Converter;
use self::rewrite::Rewriter;
use tracemill_format::OpenTrace;
use tracemill_format::lost::Lost;
use tracemill_format::out_file::{copy_file, make_folder};
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};
use tracemill_format::writer::of_each;

/// Data folders of uftrace.
pub static TARGET: Target = Target::folder(&["uftrace"], "data folders of uftrace, version 4", create)
    .cannot_hold(&[Lost::FieldsOfNoCalls, Lost::UntimedLeftOut])
    // Several streams may have events of one task, which have one file.
    .in_order()
    .copied_by(copy);

fn create(path: &Path, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    of_each(sources, |at, source| {
        let folder = if sources.len() == 1 { path.to_path_buf() } else { path.join(format!("{at}")) };
        if source.origin.format == TARGET.names[0] {
            return Ok(Box::new(Rewriter::new(folder, source, options)?));
        }
        Ok(Box::new(Converter::new(folder, source, options)))
    })
}

/// Copies every file of a folder.
fn copy(trace: &OpenTrace, to: &Path) -> Result<bool> {
    if trace.schema.format != TARGET.names[0] || !trace.path.is_dir() {
        return Ok(false);
    }
    let failed = |error: std::io::Error| Error::io("copy the folder", &trace.path, &error);
    make_folder(to)?;
    for entry in fs::read_dir(&trace.path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // `info` makes it a trace: it comes last.
        if entry.path().is_file() && entry.file_name() != "info" {
            copy_file(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    copy_file(&trace.path.join("info"), &to.join("info"))?;
    Ok(true)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|error| Error::io("write the file", path, &error))
}

/// Bytes of records that wait for each other.
const BUFFER: usize = 8 << 10;
