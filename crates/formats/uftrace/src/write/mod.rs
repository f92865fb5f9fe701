//! Writing data folders: a folder of uftrace as itself, and calls of other formats.

mod foreign;
mod kernel;
mod own;
mod record;

use std::fs;
use std::path::Path;

use tracemill_codec::chunk::EventRef;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;

use self::foreign::Foreign;
use self::own::Own;
use tracemill_format::OpenTrace;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::out_file::{copy_file, make_folder};
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};

/// Data folders of uftrace.
pub static TARGET: Target = Target::folder(&["uftrace"], "data folders of uftrace, version 4", create)
    .cannot_hold(&[Lost::FieldsOfNoCalls, Lost::UntimedLeftOut])
    // Several streams may have events of one task, which have one file.
    .in_order()
    .copied_by(copy);

fn create(path: &Path, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    let mut writer = Writer { traces: Vec::new(), stream_of: Vec::new(), losses: Losses::default() };
    for (at, source) in sources.iter().enumerate() {
        let folder = if sources.len() == 1 { path.to_path_buf() } else { path.join(format!("{at}")) };
        for stream in 0..source.streams.len() {
            writer.stream_of.push((writer.traces.len(), stream));
        }
        let is_own = source.origin.format == TARGET.names[0];
        let trace = if is_own {
            TraceOut::Own(Box::new(Own::new(folder, source, options)?))
        } else {
            let foreign = Foreign::new(folder, source, options);
            writer.losses.extend(&foreign.losses());
            TraceOut::Foreign(Box::new(foreign))
        };
        writer.traces.push(trace);
    }
    Ok(Box::new(writer))
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

/// Writes traces.
struct Writer {
    traces: Vec<TraceOut>,
    /// For each stream of all sources its trace, and its place there.
    stream_of: Vec<(usize, usize)>,
    losses: Losses,
}

/// A trace that is written.
enum TraceOut {
    Own(Box<Own>),
    Foreign(Box<Foreign>),
}

impl TraceWriter for Writer {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let (trace, stream) = self.stream_of[stream];
        match &mut self.traces[trace] {
            TraceOut::Own(own) => own.event(stream, event),
            TraceOut::Foreign(foreign) => foreign.event(stream, event),
        }
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        let (trace, stream) = self.stream_of[stream];
        match &mut self.traces[trace] {
            TraceOut::Own(own) => own.gap(stream, gap),
            TraceOut::Foreign(foreign) => foreign.gap(stream, gap),
        }
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        let (trace, stream) = self.stream_of[stream];
        match &mut self.traces[trace] {
            TraceOut::Own(own) => own.end_stream(stream),
            TraceOut::Foreign(foreign) => foreign.end_stream(stream),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for trace in &mut self.traces {
            let losses = match trace {
                TraceOut::Own(own) => own.finish()?,
                TraceOut::Foreign(foreign) => foreign.finish()?,
            };
            self.losses.extend(&losses);
        }
        Ok(self.losses)
    }
}
