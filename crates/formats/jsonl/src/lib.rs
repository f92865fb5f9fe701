//! Canonical lines of events, read back: what `print --format jsonl` and `convert --to jsonl` write. See `README.md`.
//!
//! A first pass over the file finds traces, streams, packets and classes; what is kept grows with these and not with the
//! lines. Events are made of lines when their packets are opened.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod classes;
mod clock;
mod line;
mod reader;
mod survey;

use std::path::Path;
use std::sync::{Arc, Mutex};

use tracemill_codec::chunk::Bytes;
use tracemill_model::error::{Error, Result};

use classes::Kinds;
use reader::JsonlReader;
use survey::Survey;
use tracemill_format::{DataFile, EntryKind, Format, FoundTrace, OpenContext, OpenTrace, Storage};

/// Canonical lines.
pub static FORMAT: Format = Format::new(&["jsonl"], "canonical event lines (`print --format jsonl`)", probe, open)
    .looks_like("a file of canonical lines begins with `{\"ns\":`, or with `{\"trace\":`")
    .made_of_others();

/// Bytes that are looked at to recognise a file.
const PROBE_BYTES: usize = 64 << 10;

fn probe(storage: &dyn Storage, path: &Path) -> bool {
    matches!(storage.kind(path), Some(EntryKind::File(_)))
        && storage.read_start(path, PROBE_BYTES).is_ok_and(|start| line::is_start(&start))
}

fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    let mut traces = Vec::new();
    for found in found {
        match context.storage.open(&found.path) {
            Ok(file) => traces.extend(open_file(found, file)),
            Err(error) => traces.push(Err(error.in_file(&found.path))),
        }
    }
    traces
}

fn open_file(found: &FoundTrace, file: Arc<dyn Bytes>) -> Vec<Result<OpenTrace>> {
    let len = file.bytes().len();
    file.will_read(0, len);
    let mut survey = Survey::read(file.bytes(), &found.path);
    if file.len_now() < len as u64 {
        let message = "the file was cut while it was read";
        return vec![Err(Error::malformed(message).in_file(&found.path).at_offset(file.len_now()))];
    }
    let data = DataFile::single(found, file.clone());
    let (kinds, traces) = Kinds::new(&mut survey, &found.path, &data.relative);
    let (mut faults, mut warnings) = (std::mem::take(&mut survey.faults), std::mem::take(&mut survey.warnings));
    if traces.is_empty() {
        let error = faults.into_iter().next().unwrap_or_else(|| Error::malformed("the file has no line of an event"));
        return vec![Err(error.in_file(&found.path))];
    }
    let reader = Arc::new(JsonlReader { file, path: found.path.clone(), survey, kinds, waiting: Mutex::default() });
    let open_one = |trace: classes::TraceKind| {
        let mut opened = OpenTrace::from_file(found, trace.schema, reader.clone());
        opened.name = trace.name.unwrap_or(opened.name);
        opened.streams = trace.streams;
        opened.streams.iter_mut().for_each(|stream| stream.files.push(data.clone()));
        // Faults and warnings of the file are reported with its first trace.
        (opened.faults, opened.warnings) = (std::mem::take(&mut faults), std::mem::take(&mut warnings));
        Ok(opened)
    };
    traces.into_iter().map(open_one).collect()
}
