//! Parts of the traces as files. Traces are written to a folder of this run first, and packed; tables are written while they
//! are fetched.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tracemill_lod::Index;
use tracemill_model::error::ErrorKind;

use crate::csv;
use crate::error::{Answer, ApiError};
use crate::ids::ValueId;
use crate::input::Cut;
use crate::query::{Asker, Query};
use crate::random::random_name;
use crate::selection::chosen;
use crate::state::TraceState;
use crate::traces::stream_of;

/// A part of the traces as a file.
pub enum Exported {
    /// A trace in an archive. The file has no name in the file system any more, where it lets that be.
    Archive(File),
    /// A table, which is written when it is fetched, and what it is called.
    Table(&'static str, csv::Write),
}

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Answer<Folder> {
        let name = random_name().map_err(|error| ApiError::new(500, "fault", error.message()))?;
        let path = std::env::temp_dir().join(format!("tracemill-{}-{}", std::process::id(), &name[..12]));
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has permissions to set"))]
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(|error| fault("make a folder", &path, &error))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A drop cannot report errors: the file is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fault(doing: &str, path: &Path, error: &std::io::Error) -> ApiError {
    ApiError::new(500, "fault", format!("cannot {doing}: {}: {error}", path.display()))
}

/// `export`: a trace that is cut, or a table.
///
/// # Errors
/// When that cannot be made, or what is wanted is unclear.
pub fn export(state: &Arc<TraceState>, body: &Value, asker: &Asker) -> Answer<Exported> {
    let is_csv = body["format"].is_null() || body["format"] == "csv";
    match body["what"].as_str() {
        Some("trace") => Ok(Exported::Archive(trace(state, body, asker)?)),
        Some("events") if is_csv => Ok(Exported::Table("events.csv", csv::events(state, &csv::question(body, asker))?)),
        Some("statistics") if is_csv => {
            Ok(Exported::Table("statistics.csv", csv::statistics(state, &csv::question(body, asker))?))
        }
        Some("events" | "statistics") => Err(ApiError::request("tables are written as `csv`")),
        _ => Err(ApiError::request("`what` is `events`, `statistics` or `trace`")),
    }
}

/// Cuts a trace, and packs it.
fn trace(state: &TraceState, body: &Value, asker: &Asker) -> Answer<File> {
    let Some(cutter) = &state.input.cut else {
        return Err(ApiError::new(404, "path", "this program writes no traces"));
    };
    let index = state.whole_index()?;
    let cut = Cut { stop: asker.flag(), ..cut_of(state, index, body)? };
    let folder = Folder::new()?;
    let trace = folder.0.join("trace");
    cutter(&cut, &trace).map_err(|error| match error.kind() {
        _ if asker.is_over(&state.progress) => Asker::cancelled(),
        ErrorKind::Io => ApiError::new(500, "fault", error.message()),
        _ => ApiError::request(error.message()),
    })?;
    let packed = folder.0.join("trace.tar");
    let pack = || -> std::io::Result<File> {
        let mut builder = tar::Builder::new(File::options().read(true).write(true).create_new(true).open(&packed)?);
        if asker.is_over(&state.progress) {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        builder.append_dir_all("trace", &trace)?;
        let mut file = builder.into_inner()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    };
    pack().map_err(|error| fault("pack the trace", &packed, &error))
}

fn cut_of(state: &TraceState, index: &Index, body: &Value) -> Answer<Cut> {
    let time = |name: &str| match &body[name] {
        Value::Null => Ok(None),
        Value::String(text) => {
            text.parse().map(Some).map_err(|_| ApiError::request(format!("`{name}` is not a number: `{text}`")))
        }
        _ => Err(ApiError::request(format!("`{name}` is a number as a text"))),
    };
    let ids: Vec<&str> = body["tracks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let list = ids.join(",");
    let streams = &state.input.traces.streams;
    if ids.iter().any(|id| ValueId::parse(&state.input.traces, id).is_some()) {
        return Err(ApiError::request("tracks by a value cannot be cut out; a filter on the value can"));
    }
    let chosen = chosen(state, index, &Query::parse(""), (!list.is_empty()).then_some(&list))?;
    let bases = chosen.map(|chosen| chosen.bases);
    let of_base = |base: usize| {
        let track = &index.tracks[base];
        if track.stream.is_none() {
            let text = format!("`{}` cannot be cut out of its trace alone; choose all of its tracks", track.name);
            return Err(ApiError::request(text));
        }
        Ok(stream_of(streams, track))
    };
    // Of a trace that numbers its tracks itself all are taken, or none.
    let is_whole = |bases: &Vec<usize>| bases.len() == index.tracks.len();
    let streams = bases.filter(|bases| !is_whole(bases)).map(|bases| {
        let streams: Answer<Vec<Option<usize>>> = bases.into_iter().map(of_base).collect();
        streams.map(|streams| streams.into_iter().flatten().collect())
    });
    let filter = body["filter"].as_str().filter(|text| !text.trim().is_empty()).map(str::to_string);
    Ok(Cut { begin: time("begin")?, end: time("end")?, filter, streams: streams.transpose()?, ..Cut::default() })
}
