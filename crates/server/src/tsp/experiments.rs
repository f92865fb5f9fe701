//! Traces and experiments that clients opened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tracemill_answers::{AnswerInput, TraceState};
use tracemill_model::error::{Error, ErrorKind};

use super::bookmarks::Bookmarks;
use super::critical_path::DerivedPaths;
use super::refusal::{Answered, Refusal};

/// Opens the traces at some paths. `None` when there is none.
pub type TraceOpener = Box<dyn Fn(&[PathBuf]) -> Result<Option<AnswerInput>, Error> + Send + Sync>;

/// Traces and experiments at most: clients are not to fill the memory.
const MOST_TRACES: usize = 1024;
const MOST_EXPERIMENTS: usize = 32;

/// A trace that a client imported.
pub(super) struct ImportedTrace {
    uuid: String,
    name: String,
    path: PathBuf,
    /// Times of its first and last event, as far as they were known when it was imported.
    ends: (i128, i128),
    format: String,
}

/// Traces that are looked at together.
pub(super) struct Experiment {
    uuid: String,
    pub(super) name: String,
    traces: Vec<Arc<ImportedTrace>>,
    pub(super) state: Arc<TraceState>,
    pub(super) bookmarks: Bookmarks,
    /// Outputs that clients made.
    pub(super) paths: DerivedPaths,
}

#[derive(Default)]
struct OpenExperiments {
    traces: BTreeMap<String, Arc<ImportedTrace>>,
    experiments: BTreeMap<String, Arc<Experiment>>,
}

/// All traces and experiments.
pub(super) struct Experiments {
    open: TraceOpener,
    /// The paths that are opened, with all that is below them; no others are.
    roots: Vec<PathBuf>,
    known: Mutex<OpenExperiments>,
}

/// A time as the protocol has it: in 64 bits.
pub(super) fn clamp(ns: i128) -> i64 {
    ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// An identifier made of texts: the same ones always have the same, so that a client that comes back knows its own.
/// 128 bits of FNV-1a, in the form of a UUID of version 8.
pub(super) fn uuid_of<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> String {
    let mut sum: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let bytes = texts.into_iter().flat_map(|text| text.iter().copied().chain([0xff, 0]));
    for byte in bytes {
        sum = (sum ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let sum = sum & !(0xf << 76) & !(0b11 << 62) | 0x8 << 76 | 0b10 << 62;
    let hex = format!("{sum:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

impl Experiments {
    pub(super) fn new(open: TraceOpener, roots: Vec<PathBuf>) -> Experiments {
        Experiments { open, roots, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, OpenExperiments> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All experiments stop reading.
    pub(super) fn stop(&self) {
        self.known().experiments.values().for_each(|experiment| experiment.state.stop());
    }

    /// The path that a client names, when it may be opened: links were followed.
    fn allowed(&self, uri: &str) -> Answered<PathBuf> {
        let path = match uri.strip_prefix("file://") {
            Some(path) => PathBuf::from(percent_decoded(path)),
            None => PathBuf::from(uri),
        };
        let missing = || Refusal::new(404, "No such trace", format!("there is nothing at `{}`", path.display()));
        // A path outside gets the same answer whether a file is there or not.
        let outside = || {
            let text = "the server opens only traces at or below the paths that it was started with";
            Refusal::new(404, "No such trace", format!("`{}` is outside: {text}", path.display()))
        };
        let real = path.canonicalize();
        let is_inside = |path: &Path| self.roots.iter().any(|root| path.starts_with(root));
        match real {
            Ok(real) if is_inside(&real) => Ok(real),
            Err(_) if is_inside(&path) => Err(missing()),
            _ => Err(outside()),
        }
    }

    fn opened(&self, paths: &[PathBuf]) -> Answered<AnswerInput> {
        let refused = |error: Error| match error.kind() {
            ErrorKind::Io => Refusal::new(404, "No such trace", error.to_string()),
            _ => Refusal::new(406, "Cannot read this trace type", error.to_string()),
        };
        let input = (self.open)(paths).map_err(refused)?;
        let none = || Refusal::new(406, "Cannot read this trace type", "no trace of a known format is there");
        input.filter(|input| !input.traces.session.traces.is_empty()).ok_or_else(none)
    }

    /// Imports the trace at a path.
    pub(super) fn import(&self, uri: &str, name: Option<&str>) -> Answered {
        let path = self.allowed(uri)?;
        let usual = || path.file_name().map_or("trace".to_string(), |name| name.to_string_lossy().into_owned());
        let name = name.filter(|name| !name.is_empty()).map_or_else(usual, str::to_string);
        let uuid = uuid_of([name.as_bytes(), path.as_os_str().as_encoded_bytes()]);
        if let Some(trace) = self.known().traces.get(&uuid) {
            return Ok(trace.to_json(None));
        }
        let input = self.opened(std::slice::from_ref(&path))?;
        let (begin, end) = input.traces.ends;
        let begin = begin.or(end).unwrap_or(0);
        let mut formats: Vec<&str> = Vec::new();
        for trace in &input.traces.session.traces {
            let format = trace.schema.format;
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        let trace = ImportedTrace { uuid, name, path, ends: (begin, end.unwrap_or(begin)), format: formats.join(", ") };
        let trace = Arc::new(trace);
        let mut known = self.known();
        if let Some(other) = known.traces.values().find(|other| other.name == trace.name && other.uuid != trace.uuid) {
            let title = "Another trace has this name; give this one another name";
            return Err(Refusal::conflict(title, "trace", other.to_json(None)));
        }
        if known.traces.len() >= MOST_TRACES {
            return Err(Refusal::new(500, "Too many traces", format!("{MOST_TRACES} are imported; delete one")));
        }
        known.traces.insert(trace.uuid.clone(), trace.clone());
        Ok(trace.to_json(None))
    }

    pub(super) fn traces(&self) -> Value {
        self.known().traces.values().map(|trace| trace.to_json(None)).collect()
    }

    pub(super) fn trace(&self, uuid: &str) -> Answered {
        let known = self.known();
        let trace = known.traces.get(uuid).ok_or_else(no_trace)?;
        let open = known.experiments.values().find(|experiment| experiment.has(uuid));
        Ok(trace.to_json(open.map(|experiment| &*experiment.state)))
    }

    /// Forgets a trace; its files stay.
    pub(super) fn remove_trace(&self, uuid: &str) -> Answered {
        let mut known = self.known();
        let trace = known.traces.get(uuid).ok_or_else(no_trace)?.clone();
        if known.experiments.values().any(|experiment| experiment.has(uuid)) {
            return Err(Refusal::conflict("The trace is part of an experiment", "trace", trace.to_json(None)));
        }
        known.traces.remove(uuid);
        Ok(trace.to_json(None))
    }

    /// Makes an experiment of traces, and begins to read it.
    pub(super) fn create(&self, name: &str, uuids: &[&str]) -> Answered {
        let (traces, uuid) = {
            let known = self.known();
            let find = |uuid: &&str| {
                let missing = || Refusal::new(404, "No such trace", format!("there is no trace `{uuid}`"));
                known.traces.get(*uuid).cloned().ok_or_else(missing)
            };
            let traces = uuids.iter().map(find).collect::<Answered<Vec<_>>>()?;
            let uuid = uuid_of([name].iter().chain(uuids).map(|text| text.as_bytes()));
            if let Some(same) = known.experiments.get(&uuid) {
                return Ok(same.to_json());
            }
            known.may_add(name)?;
            (traces, uuid)
        };
        if traces.is_empty() {
            return Err(Refusal::parameters("an experiment has at least one trace"));
        }
        let paths: Vec<PathBuf> = traces.iter().map(|trace| trace.path.clone()).collect();
        let input = self.opened(&paths)?;
        let fault = |error: Error| Refusal::new(500, "The experiment cannot be opened", error.message());
        let state = Arc::new(TraceState::new(input).map_err(fault)?);
        let (name, bookmarks, paths) = (name.to_string(), Bookmarks::default(), DerivedPaths::default());
        let experiment = Arc::new(Experiment { uuid, name, traces, state, bookmarks, paths });
        let mut known = self.known();
        // Another request may have made it meanwhile.
        if let Some(same) = known.experiments.get(&experiment.uuid) {
            return Ok(same.to_json());
        }
        known.may_add(&experiment.name)?;
        known.experiments.insert(experiment.uuid.clone(), experiment.clone());
        drop(known);
        experiment.state.read_in_background();
        Ok(experiment.to_json())
    }

    pub(super) fn list(&self) -> Value {
        self.known().experiments.values().map(|experiment| experiment.to_json()).collect()
    }

    pub(super) fn find(&self, uuid: &str) -> Answered<Arc<Experiment>> {
        let found = self.known().experiments.get(uuid).cloned();
        found.ok_or_else(|| Refusal::new(404, "No such experiment", format!("there is no experiment `{uuid}`")))
    }

    /// Closes an experiment; its traces stay.
    pub(super) fn remove(&self, uuid: &str) -> Answered {
        let experiment = self.find(uuid)?;
        self.known().experiments.remove(uuid);
        experiment.state.stop();
        Ok(experiment.to_json())
    }
}

fn no_trace() -> Refusal {
    Refusal::new(404, "No such trace", "no trace has this identifier")
}

impl OpenExperiments {
    /// Is there room for an experiment of this name?
    fn may_add(&self, name: &str) -> Answered<()> {
        if let Some(other) = self.experiments.values().find(|experiment| experiment.name == name) {
            let title = "Another experiment has this name, and other traces";
            return Err(Refusal::conflict(title, "experiment", other.to_json()));
        }
        if self.experiments.len() >= MOST_EXPERIMENTS {
            let text = format!("{MOST_EXPERIMENTS} are open; delete one");
            return Err(Refusal::new(500, "Too many experiments", text));
        }
        Ok(())
    }
}

impl ImportedTrace {
    /// As the protocol has it; `state` is an experiment that reads it.
    fn to_json(&self, state: Option<&TraceState>) -> Value {
        let (mut ends, mut events, mut status) = (self.ends, 0, "CLOSED");
        if let Some(state) = state {
            status = status_of(state);
            let (timeline, source) = (state.timeline(), state.input.traces.source());
            let is_own = |trace: usize| source.session.traces[trace].path.starts_with(&self.path);
            let own = timeline.tracks();
            let own = own.iter().filter(|track| is_own(track.who(&source).0)).filter_map(|track| track.counted());
            let own: Vec<_> = own.collect();
            events = own.iter().map(|track| track.events).sum();
            let ranges = own.iter().filter_map(|track| track.range);
            ends = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or(ends);
        }
        json!({
            "name": self.name,
            "UUID": self.uuid,
            "path": self.path.display().to_string(),
            "properties": { "format": self.format },
            "nbEvents": events,
            "start": clamp(ends.0),
            "end": clamp(ends.1),
            "indexingStatus": status,
        })
    }
}

fn status_of(state: &TraceState) -> &'static str {
    if state.is_complete() { "COMPLETED" } else { "RUNNING" }
}

impl Experiment {
    fn has(&self, uuid: &str) -> bool {
        self.traces.iter().any(|trace| trace.uuid == uuid)
    }

    pub(super) fn to_json(&self) -> Value {
        let state = &*self.state;
        let (begin, end) = self.ends();
        json!({
            "name": self.name,
            "UUID": self.uuid,
            "nbEvents": state.timeline().events().unwrap_or(0),
            "start": clamp(begin),
            "end": clamp(end),
            "indexingStatus": status_of(state),
            "traces": self.traces.iter().map(|trace| trace.to_json(Some(state))).collect::<Vec<_>>(),
        })
    }

    /// The names of its traces, in the order of its session: those that a client gave, where a trace is all that is at a path.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.state.input.traces.session.traces.iter().map(|trace| {
            let given = self.traces.iter().find(|own| own.path == trace.path);
            given.map_or(&*trace.name, |own| &own.name)
        })
    }

    /// Times of the first and the last event, as far as they are known.
    pub(super) fn ends(&self) -> (i128, i128) {
        let (begin, end) = self.state.ends();
        let begin = begin.or(end).unwrap_or(0);
        (begin, end.unwrap_or(begin))
    }
}

/// The path of an address of a file; what is no number after `%` stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| str::from_utf8(digits).ok()).filter(|_| *first == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_depend_on_every_text() {
        let of = |texts: &[&str]| uuid_of(texts.iter().map(|text| text.as_bytes()));
        assert_ne!(of(&["a", "b"]), of(&["ab"]));
        assert_ne!(of(&["a", ""]), of(&["a"]));
        assert_eq!(of(&["a"]), of(&["a"]));
        let uuid = of(&["bakery", "/traces/bakery"]);
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(uuid.as_bytes()[14] == b'8' && b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
    }

    #[test]
    fn addresses_of_files_are_paths() {
        assert_eq!(percent_decoded("/a%20b/%C3%A4%"), "/a b/ä%");
        assert_eq!(percent_decoded("/a%zz%2"), "/a%zz%2");
    }
}
