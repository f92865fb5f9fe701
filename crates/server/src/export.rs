//! Parts of the traces that go to the browser as files, each once to whoever knows its name. Traces are written to a folder of
//! this run first, and packed; tables are written while they are fetched.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tracemill_lod::Index;
use tracemill_model::error::{ErrorKind, Result};

use crate::answers::{Asker, Query};
use crate::csv;
use crate::error::{Answer, ApiError};
use crate::groups::ValueId;
use crate::guard::secret;
use crate::selection::chosen;
use crate::shared::{Shared, Traces};

/// A part of the traces.
#[derive(Clone, Default, Debug)]
pub struct Cut {
    /// First wanted ns.
    pub begin: Option<i128>,
    /// Last wanted ns.
    pub end: Option<i128>,
    /// A condition beside that of the traces.
    pub filter: Option<String>,
    /// The streams, by index among [those that are shown](Traces::streams); `None` for all.
    pub streams: Option<Vec<usize>>,
    /// Set once nobody wants it any more.
    pub stop: Arc<AtomicBool>,
}

/// Writes a part of the traces as a trace at a path where nothing is. It gives up soon when nobody wants that any more, with any
/// error.
pub type Cutter = Box<dyn Fn(&Cut, &Path) -> Result<()> + Send + Sync>;

/// Files that wait to be fetched.
const WAITING: usize = 4;

/// Something that waits to be fetched.
pub(crate) enum Waiting {
    /// A trace in an archive. The file has no name in the file system any more, where it lets that be.
    Archive(File),
    /// A table, which is written when it is fetched, and what it is called.
    Table(&'static str, csv::Write),
}

/// Files that wait to be fetched, by name.
#[derive(Default)]
pub(crate) struct Exports(Mutex<VecDeque<(String, Waiting)>>);

impl Exports {
    fn put(&self, file: Waiting) -> Result<String> {
        let name = secret()?;
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.push_back((name.clone(), file));
        if files.len() > WAITING {
            files.pop_front();
        }
        Ok(name)
    }

    /// The file of a name, once.
    pub(crate) fn take(&self, name: &str) -> Option<Waiting> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = files.iter().position(|(own, _)| own == name)?;
        files.remove(at).map(|(_, file)| file)
    }
}

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Answer<Folder> {
        let name = secret().map_err(|error| ApiError::new(500, "fault", error.message()))?;
        let path = std::env::temp_dir().join(format!("tracemill-{}-{}", std::process::id(), &name[..12]));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(|error| fault("make a folder", &path, &error))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody can do anything about what cannot be removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fault(doing: &str, path: &Path, error: &std::io::Error) -> ApiError {
    ApiError::new(500, "fault", format!("cannot {doing}: {}: {error}", path.display()))
}

/// `export`: says where a trace that is cut, or a table, can be fetched once.
pub(crate) fn export(shared: &Arc<Shared>, body: &Value, asker: &Asker) -> Answer {
    let is_csv = body["format"].is_null() || body["format"] == "csv";
    let file = match body["what"].as_str() {
        Some("trace") => Waiting::Archive(trace(shared, body, asker)?),
        Some("events") if is_csv => Waiting::Table("events.csv", csv::events(shared, &csv::question(body, asker))?),
        Some("statistics") if is_csv => {
            Waiting::Table("statistics.csv", csv::statistics(shared, &csv::question(body, asker))?)
        }
        Some("events" | "statistics") => return Err(ApiError::request("tables are written as `csv`")),
        _ => return Err(ApiError::request("`what` is `events`, `statistics` or `trace`")),
    };
    let name = shared.lasting.exports.put(file).map_err(|error| ApiError::new(500, "fault", error.message()))?;
    Ok(json!({ "url": format!("/export/{name}") }))
}

/// Cuts a trace, and packs it.
fn trace(shared: &Shared, body: &Value, asker: &Asker) -> Answer<File> {
    let Some(cutter) = &shared.input.cut else {
        return Err(ApiError::new(404, "path", "this program writes no traces"));
    };
    let index = shared.whole_index()?;
    let cut = Cut { stop: asker.flag(), ..cut_of(shared, index, body)? };
    let folder = Folder::new()?;
    let trace = folder.0.join("trace");
    cutter(&cut, &trace).map_err(|error| match error.kind() {
        _ if asker.is_over(shared) => Asker::over(),
        ErrorKind::Io => ApiError::new(500, "fault", error.message()),
        _ => ApiError::request(error.message()),
    })?;
    let packed = folder.0.join("trace.tar");
    let pack = || -> std::io::Result<File> {
        let mut builder = tar::Builder::new(File::options().read(true).write(true).create_new(true).open(&packed)?);
        if asker.is_over(shared) {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        builder.append_dir_all("trace", &trace)?;
        let mut file = builder.into_inner()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    };
    pack().map_err(|error| fault("pack the trace", &packed, &error))
}

fn cut_of(shared: &Shared, index: &Index, body: &Value) -> Answer<Cut> {
    let time = |name: &str| match &body[name] {
        Value::Null => Ok(None),
        Value::String(text) => {
            text.parse().map(Some).map_err(|_| ApiError::request(format!("`{name}` is no number: `{text}`")))
        }
        _ => Err(ApiError::request(format!("`{name}` is a number as a text"))),
    };
    let ids: Vec<&str> = body["tracks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let list = ids.join(",");
    let Traces { streams, .. } = &shared.input.traces;
    if ids.iter().any(|id| ValueId::parse(shared, id).is_some()) {
        return Err(ApiError::request("tracks by a value cannot be cut out; a filter on the value can"));
    }
    let chosen = chosen(shared, index, &Query::parse(""), (!list.is_empty()).then_some(&list))?;
    let bases = chosen.map(|chosen| chosen.bases);
    let of_base = |base: usize| {
        let track = &index.tracks[base];
        let stream = track.stream.ok_or_else(|| {
            ApiError::request(format!(
                "`{}` cannot be cut out of its trace alone; choose all of its tracks",
                track.name
            ))
        })?;
        Ok(streams.iter().position(|of| of.trace == track.trace && of.index == stream))
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
