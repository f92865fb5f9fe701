//! Profiles: folded stacks, profiles of speedscope, and of the Firefox Profiler. See `README.md` and `SPEC.md`.
//!
//! ```text
//! profile     the content of a profile, whatever its format: names, stacks, threads, records
//! folded, speedscope, firefox    from a file to that
//! tape        values of JSON by their names
//! classes     the schema, and events in bytes
//! reader      packets
//! ```
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod classes;
mod firefox;
mod folded;
mod profile;
mod reader;
mod speedscope;
mod tape;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use memchr::memmem;
use tracemill_format::calls::CallEvents;
use tracemill_format::{DataFile, EntryKind, Format, FoundTrace, OpenContext, OpenTrace, Storage};
use tracemill_model::error::{Error, Result};

use profile::Profile;

/// Folded stacks.
pub static FOLDED: Format =
    Format::new(&["folded"], "folded stacks, as flame graphs are made of", probe_folded, |context, found| {
        open(context, found, "folded", folded::read)
    })
    .looks_like("folded stacks are lines of names with `;` between them, and a number")
    .made_of_others();

/// Profiles of speedscope.
pub static SPEEDSCOPE: Format =
    Format::new(&["speedscope"], "profiles of speedscope", probe_speedscope, |context, found| {
        open(context, found, "speedscope", speedscope::read)
    })
    .looks_like("a profile of speedscope is JSON with its `$schema`, `shared` and `profiles`")
    .with_calls()
    .made_of_others();

/// Profiles of the Firefox Profiler.
pub static FIREFOX: Format = Format::new(
    &["firefox"],
    "profiles of the Firefox Profiler, in its processed form",
    probe_firefox,
    |context, found| open(context, found, "firefox", firefox::read),
)
.looks_like("a profile of the Firefox Profiler is JSON with a `preprocessedProfileVersion`")
.made_of_others();

/// Calls, where a file says when they begin and end.
const CALLS: &[CallEvents] =
    &[CallEvents::by_symbol(classes::CALL.0, classes::CALL.1, tracemill_semantics::names::SYMBOL)];

/// Bytes that are looked at to recognize a file.
const PROBE_BYTES: usize = 64 << 10;

fn start_of(storage: &dyn Storage, path: &Path) -> Option<Vec<u8>> {
    matches!(storage.kind(path), Some(EntryKind::File(_))).then(|| storage.read_start(path, PROBE_BYTES).ok()).flatten()
}

fn probe_folded(storage: &dyn Storage, path: &Path) -> bool {
    start_of(storage, path).is_some_and(|start| folded::is_folded(&start, start.len() < PROBE_BYTES))
}

/// Does a file begin with an object that has all of these texts?
fn has_all(storage: &dyn Storage, path: &Path, texts: &[&str]) -> bool {
    start_of(storage, path).is_some_and(|start| {
        start[tape::begin(&start)..].starts_with(b"{")
            && texts.iter().all(|text| memmem::find(&start, text.as_bytes()).is_some())
    })
}

fn probe_speedscope(storage: &dyn Storage, path: &Path) -> bool {
    has_all(storage, path, &["speedscope", "\"frames\""])
        || has_all(storage, path, &["\"shared\"", "\"frames\"", "\"profiles\""])
}

fn probe_firefox(storage: &dyn Storage, path: &Path) -> bool {
    has_all(storage, path, &["\"meta\"", "\"preprocessedProfileVersion\""])
}

fn open(
    context: &OpenContext<'_>,
    found: &[FoundTrace],
    format: &'static str,
    read: fn(&[u8]) -> Result<Profile>,
) -> Vec<Result<OpenTrace>> {
    let open_one = |found: &FoundTrace| open_file(context.storage, found, format, read);
    found.iter().map(|found| open_one(found).map_err(|error| error.in_file(&found.path))).collect()
}

fn open_file(
    storage: &dyn Storage,
    found: &FoundTrace,
    format: &'static str,
    read: fn(&[u8]) -> Result<Profile>,
) -> Result<OpenTrace> {
    let file = storage.open(&found.path)?;
    let len = file.bytes().len();
    file.will_read(0, len);
    let mut profile = read(file.bytes())?;
    if file.len_now() < len as u64 {
        let message = "the file was cut while it was read";
        return Err(Error::malformed(message).at_offset(file.len_now()));
    }
    let in_file = |errors: Vec<Error>| errors.into_iter().map(|error| error.in_file(&found.path)).collect();
    let (faults, warnings) =
        (in_file(std::mem::take(&mut profile.faults)), in_file(std::mem::take(&mut profile.warnings)));
    let data = DataFile::single(found, file.clone());
    let (schema, classes) = classes::ProfileClasses::new(format, &profile);
    let streams = classes.streams(&profile, &data);
    let mut trace = OpenTrace::from_file(found, schema, Arc::new(reader::ProfileReader { file, profile, classes }));
    (trace.streams, trace.faults, trace.warnings) = (streams, faults, warnings);
    Ok(trace)
}
