//! Critical paths: outputs that a client makes, one for each thread that it names.
//!
//! The protocol has no parameter that names a thread to an output. So `critical-path` shows nothing itself: it has a type of
//! configurations, from which a client makes derived outputs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tracemill_answers::{Asker, CriticalPath, PathPart};
use tracemill_lod::states::Of;

use super::experiments::{Experiment, clamp, uuid_of};
use super::parameters::{Parameters, Samples};
use super::refusal::{Answered, Refusal};
use super::styles;

/// The output that has the configurations.
pub(super) const PARENT: &str = "critical-path";
/// The type of its configurations.
const TYPE: &str = "tracemill.critical-path";
const TYPE_NAME: &str = "Critical path of a thread";
/// Derived outputs of an experiment at most.
const MOST: usize = 64;

/// A path that a client asked for.
pub(super) struct DerivedPath {
    /// The id of its output.
    pub(super) id: String,
    configuration: Value,
    /// The path, or one for each machine that has such a thread.
    pub(super) paths: Vec<ShownPath>,
}

/// A path, and the parts of each of its threads.
pub(super) struct ShownPath {
    pub(super) path: CriticalPath,
    /// By thread: indices of parts, in the order of time.
    rows: Vec<Vec<usize>>,
}

impl ShownPath {
    fn new(path: CriticalPath) -> ShownPath {
        let mut rows = vec![Vec::new(); path.threads.len()];
        path.parts.iter().enumerate().for_each(|(at, part)| rows[part.thread].push(at));
        ShownPath { path, rows }
    }

    /// The parts of a thread that a range overlaps.
    pub(super) fn parts_in(&self, thread: usize, (begin, end): (i128, i128)) -> impl Iterator<Item = &PathPart> {
        let row = self.rows.get(thread).map_or(&[][..], |row| row);
        let first = row.partition_point(|at| self.path.parts[*at].to <= begin);
        row[first..].iter().map(|at| &self.path.parts[*at]).take_while(move |part| part.from <= end)
    }

    /// From when to when a thread is on the path.
    pub(super) fn ends(&self, thread: usize) -> Option<(i128, i128)> {
        let row = self.rows.get(thread)?;
        Some((self.path.parts[*row.first()?].from, self.path.parts[*row.last()?].to))
    }

    /// The times in a range at which the path goes on in another thread: the thread that it leaves, and the other one.
    pub(super) fn turns(&self, (begin, end): (i128, i128)) -> impl Iterator<Item = (i128, usize, usize)> {
        let parts = &self.path.parts;
        let first = parts.partition_point(|part| part.to < begin);
        let pairs = parts[first..].iter().zip(parts.get(first + 1..).unwrap_or_default());
        let inside = pairs.take_while(move |(part, _)| part.to <= end);
        inside.filter(|(part, next)| part.thread != next.thread).map(|(part, next)| (part.to, part.thread, next.thread))
    }
}

/// The derived outputs of an experiment, by number.
#[derive(Default)]
pub(super) struct DerivedPaths(Mutex<(u32, BTreeMap<u32, Arc<DerivedPath>>)>);

impl DerivedPaths {
    fn known(&self) -> MutexGuard<'_, (u32, BTreeMap<u32, Arc<DerivedPath>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of all, in the order in which they were made.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.known().1.keys().copied().collect()
    }

    /// The number of an output.
    pub(super) fn find(&self, id: &str) -> Option<u32> {
        self.known().1.iter().find(|(_, derived)| derived.id == id).map(|(number, _)| *number)
    }

    /// The path of a number; `None` when it was deleted.
    pub(super) fn path(&self, number: u32) -> Option<Arc<DerivedPath>> {
        self.known().1.get(&number).cloned()
    }

    /// Deletes an output.
    pub(super) fn remove(&self, id: &str) -> Answered {
        let missing = || Refusal::new(404, "No such output", format!("`{PARENT}` has no derived output `{id}`"));
        let number = self.find(id).ok_or_else(missing)?;
        Ok(self.known().1.remove(&number).ok_or_else(missing)?.to_json())
    }
}

impl DerivedPath {
    /// Its output, as the protocol has it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "parentId": PARENT,
            "name": format!("Critical Path: {}", self.configuration["name"].as_str().unwrap_or_default()),
            "description": "What a thread did, and waited for",
            "type": "TIME_GRAPH",
            "configuration": self.configuration,
            "capabilities": { "canDelete": true },
        })
    }
}

/// The types of configurations: one.
pub(super) fn types(experiment: &Experiment) -> Value {
    let number = |text: &str| json!({ "type": ["integer", "null"], "description": text, "default": null });
    let mut tid = json!({ "type": "integer", "description": "Number of the thread, as the view Threads has it" });
    if let Some(busiest) = busiest(experiment) {
        tid["default"] = busiest.into();
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TYPE_NAME,
        "type": "object",
        "properties": {
            "tid": tid,
            "begin": number("First time in ns; without it, the beginning of the trace"),
            "end": number("Last time in ns; without it, the end of the trace"),
        },
        "required": ["tid"],
        "additionalProperties": false,
    });
    json!([{ "id": TYPE, "name": TYPE_NAME, "description": "Why a thread took so long: what it did, and waited for",
        "schema": schema }])
}

/// The type of an id.
pub(super) fn find_type(experiment: &Experiment, id: &str) -> Answered {
    let missing = || Refusal::new(404, "No such type", format!("there is no type `{id}`"));
    if id == TYPE { Ok(types(experiment)[0].take()) } else { Err(missing()) }
}

/// The thread that ran longest: what a user may have in mind.
fn busiest(experiment: &Experiment) -> Option<i64> {
    let kept = experiment.state.states()?;
    let threads = kept.shown_tracks().filter_map(|at| match kept.states.tracks[at].of {
        Of::Thread(tid, _) => Some((kept.states.running(at, experiment.ends()), tid)),
        Of::Cpu(_) | Of::Custom(..) => None,
    });
    threads.max().map(|(_, tid)| tid)
}

/// Makes the output of a configuration. The same configuration gives the same output.
pub(super) fn create(experiment: &Experiment, asked: &Value, asker: &Asker) -> Answered {
    let source = asked["sourceTypeId"].as_str();
    let source = source.ok_or_else(|| Refusal::new(400, "Missing query parameters", "`sourceTypeId` is missing"))?;
    find_type(experiment, source)?;
    let parameters = Parameters::from_body(asked.clone())?;
    let tid = parameters.needed_number("tid")?;
    let range = (parameters.number("begin")?, parameters.number("end")?);
    if range.0.zip(range.1).is_some_and(|(begin, end)| begin > end) {
        return Err(Refusal::parameters("`begin` is after `end`"));
    }
    let own = json!({ "tid": tid, "begin": range.0, "end": range.1 });
    let name = asked["name"].as_str().map(str::trim).filter(|name| !name.is_empty() && *name != TYPE_NAME);
    let paths = experiment.state.critical_paths(tid, (range.0.map(i128::from), range.1.map(i128::from)), asker)?;
    let title = paths.first().and_then(|path| path.threads.first()).map_or(tid.to_string(), |of| of.title.clone());
    let name = name.map_or(title, str::to_string);
    let uuid = uuid_of([name.as_bytes(), own.to_string().as_bytes()]);
    let mut known = experiment.paths.known();
    let is_named = |derived: &&Arc<DerivedPath>| derived.configuration["name"] == *name;
    match known.1.values().find(is_named) {
        Some(same) if same.configuration["id"] == *uuid => return Ok(same.to_json()),
        Some(_) => return Err(Refusal::parameters(format!("another configuration is called `{name}`"))),
        None => {}
    }
    if known.1.len() >= MOST {
        return Err(Refusal::parameters(format!("there are {MOST} critical paths; delete one")));
    }
    let configuration = json!({
        "id": uuid, "name": name, "sourceTypeId": TYPE, "parameters": own,
        "description": asked["description"].as_str().unwrap_or_default(),
    });
    let paths = paths.into_iter().map(ShownPath::new).collect();
    let derived = Arc::new(DerivedPath { id: format!("{PARENT}-{uuid}"), configuration, paths });
    let number = known.0;
    known.0 += 1;
    known.1.insert(number, derived.clone());
    Ok(derived.to_json())
}

/// The arrows of paths from thread to thread: one for each pair and sample at most. `row` gives the entry of a thread.
pub(super) fn arrows(
    derived: &DerivedPath,
    range: &Samples,
    row: impl Fn(usize, usize) -> Option<usize>,
) -> Vec<Value> {
    let mut seen = std::collections::HashSet::new();
    let turns =
        derived.paths.iter().enumerate().flat_map(|(path, shown)| {
            shown.turns(range.ends()).map(move |(at, from, to)| (at, (path, from), (path, to)))
        });
    let arrows = turns.filter_map(|(at, from, to)| {
        let (source, target) = (row(from.0, from.1)?, row(to.0, to.1)?);
        seen.insert((range.first_from(at), source, target)).then(|| {
            json!({ "sourceId": source, "targetId": target, "start": clamp(at), "end": clamp(at),
                "style": styles::like(styles::TURN) })
        })
    });
    arrows.collect()
}
