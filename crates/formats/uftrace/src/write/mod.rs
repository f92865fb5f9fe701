//! Writing data folders: a folder of uftrace as itself, and calls of other formats.

mod convert;
mod kernel;
mod record;
mod rewrite;

use tracemill_model::error::Result;

use self::convert::FolderConverter;
use self::rewrite::FolderRewriter;
use tracemill_format::OutPath;
use tracemill_format::lost::Lost;
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};
use tracemill_format::writer::writer_of_each;

/// Data folders of uftrace.
pub static TARGET: Target = Target::folder(&["uftrace"], "data folders of uftrace, version 4", create)
    .with_endings(&["uftrace"])
    .cannot_hold(&[Lost::FieldsOfNoCalls, Lost::UntimedLeftOut])
    // Several streams may have events of one task, which have one file.
    .in_order();

fn create(path: &OutPath, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    writer_of_each(sources, |at, source| {
        let folder = if sources.len() == 1 { path.clone() } else { path.join(format!("{at}")) };
        if source.origin.format == TARGET.names[0] {
            return Ok(Box::new(FolderRewriter::new(folder, source, options)?));
        }
        Ok(Box::new(FolderConverter::new(folder, source, options)))
    })
}

/// The step that writes a file of the folder, for errors.
const WRITING: &str = "write the file";
/// Bytes of records that wait for each other.
const BUFFER: usize = 8 << 10;
