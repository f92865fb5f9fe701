//! Which answer a request gets. It knows nothing of connections.

use axum::http::Method;
use serde_json::{Value, json};
use tracemill_answers::Asker;

use super::experiments::{Experiment, Experiments};
use super::outputs::{self, Output, completed};
use super::parameters::Parameters;
use super::refusal::{Answered, Refusal};
use super::{annotations, critical_path, statistics, styles, table, time_graph, xy};

/// The version of the protocol that the answers follow.
const TSP_VERSION: &str = "0.6.0";

/// A request.
pub(super) struct TspRequest {
    pub(super) method: Method,
    /// The parts of its path, below the root of the protocol.
    pub(super) path: Vec<String>,
    /// Its body; null when it is empty.
    pub(super) body: Value,
    pub(super) asker: Asker,
}

/// The answer to a request.
pub(super) fn answer(experiments: &Experiments, version: &str, asked: TspRequest) -> Answered {
    let TspRequest { method, path, body, asker } = asked;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let (is_get, is_post) = (method == Method::GET || method == Method::HEAD, method == Method::POST);
    let (is_put, is_delete) = (method == Method::PUT, method == Method::DELETE);
    let wrong = || Err(Refusal::new(405, "Method not allowed", format!("{method} is not answered here")));
    match path[..] {
        ["health"] if is_get => Ok(json!({ "status": "UP" })),
        ["identifier"] if is_get => Ok(identifier(version)),
        ["traces"] if is_get => Ok(experiments.traces()),
        ["traces"] if is_post => {
            let parameters = Parameters::from_body(body)?;
            experiments.import(parameters.needed_text("uri")?, parameters.text("name")?)
        }
        ["traces", uuid] if is_get => experiments.trace(uuid),
        ["traces", uuid] if is_delete => experiments.remove_trace(uuid),
        ["experiments"] if is_get => Ok(experiments.list()),
        ["experiments"] if is_post => {
            let parameters = Parameters::from_body(body)?;
            let missing = || Refusal::new(400, "Missing query parameters", "`traces` is missing");
            let traces = parameters.texts("traces")?.ok_or_else(missing)?;
            experiments.create(parameters.needed_text("name")?, &traces)
        }
        ["experiments", uuid] if is_get => Ok(experiments.find(uuid)?.to_json()),
        ["experiments", uuid] if is_delete => experiments.remove(uuid),
        ["experiments", uuid, "bookmarks"] if is_get => Ok(experiments.find(uuid)?.bookmarks.list()),
        ["experiments", uuid, "bookmarks"] if is_post => {
            experiments.find(uuid)?.bookmarks.add(&Parameters::from_body(body)?)
        }
        ["experiments", uuid, "bookmarks", own] => {
            let experiment = experiments.find(uuid)?;
            match () {
                () if is_get => experiment.bookmarks.find(own),
                () if is_put => experiment.bookmarks.replace(own, &Parameters::from_body(body)?),
                () if is_delete => experiment.bookmarks.remove(own),
                () => wrong(),
            }
        }
        ["experiments", uuid, "outputs"] if is_get => Ok(outputs::list(&*experiments.find(uuid)?)),
        ["experiments", uuid, "outputs", ref rest @ ..] if !rest.is_empty() => {
            let experiment = experiments.find(uuid)?;
            of_output(&experiment, rest, (is_get, is_post, is_delete), body, &asker).unwrap_or_else(wrong)
        }
        // Outputs have the only configurations.
        ["config", "types"] if is_get => Ok(json!([])),
        ["config", "types", id, ..] => Err(Refusal::new(404, "No such type", format!("there is no type `{id}`"))),
        ["health" | "identifier" | "traces" | "experiments", ..] | ["config", "types"] if path.len() < 4 => wrong(),
        _ => Err(Refusal::new(404, "No such path", format!("`/{}` is not answered", path.join("/")))),
    }
}

/// The answer to a question about an output; `None` when it is not asked in this way.
fn of_output(
    experiment: &Experiment,
    path: &[&str],
    (is_get, is_post, is_delete): (bool, bool, bool),
    body: Value,
    asker: &Asker,
) -> Option<Answered> {
    let with = |ask: &dyn Fn(&Parameters) -> Answered| Parameters::from_body(body.clone()).and_then(|own| ask(&own));
    let of_type = |id: &str, kind: &str, ask: &dyn Fn(Output, &Parameters) -> Answered| {
        let output = Output::of_type(experiment, id, kind)?;
        with(&|parameters| ask(output, parameters))
    };
    let find = |id: &str| Output::find(experiment, id);
    Some(match *path {
        ["markerSets"] if is_get => Ok(annotations::marker_sets()),
        ["timeGraph", id, what] if is_post => of_type(id, "TIME_GRAPH", &|output, parameters| match what {
            "tree" => time_graph::tree(experiment, output, asker),
            "states" => time_graph::states(experiment, output, parameters, asker),
            "arrows" => time_graph::arrows(experiment, output, parameters, asker),
            "tooltip" => time_graph::tooltip(experiment, output, parameters, asker),
            _ => Err(no_path()),
        }),
        ["XY", id, what] if is_post => of_type(id, "TREE_TIME_XY", &|output, parameters| match what {
            "tree" => xy::tree(experiment, output, asker),
            "xy" => xy::values(experiment, output, parameters, asker),
            _ => Err(no_path()),
        }),
        ["table", id, what] if is_post => of_type(id, "TABLE", &|_, parameters| match what {
            "columns" => Ok(table::columns()),
            "lines" => table::lines(experiment, parameters, asker),
            _ => Err(no_path()),
        }),
        ["data", id, "tree"] if is_post => {
            of_type(id, "DATA_TREE", &|output, parameters| statistics::tree(experiment, output, parameters, asker))
        }
        ["genericXY", id, "tree" | "xy"] if is_post => of_type(id, "TREE_GENERIC_XY", &|_, _| Err(no_path())),
        [id] if is_get => find(id).map(|output| output.to_json(experiment)),
        [id] if is_post => find(id).and_then(|output| match output {
            Output::CriticalPath => critical_path::create(experiment, &body, asker),
            _ => Err(Refusal::new(404, "No such type", format!("`{id}` has no types of configurations"))),
        }),
        [id, "style"] if is_post => find(id).and_then(|_| with(&|_| Ok(completed(styles::all())))),
        [id, "annotations"] if is_get => find(id).and_then(|_| annotations::categories(experiment)),
        [id, "annotations"] if is_post => {
            find(id).and_then(|_| with(&|parameters| annotations::list(experiment, parameters)))
        }
        [id, "configTypes"] if is_get => find(id).map(|output| match output {
            Output::CriticalPath => critical_path::types(experiment),
            _ => json!([]),
        }),
        [id, "configTypes", kind] if is_get => find(id).and_then(|output| match output {
            Output::CriticalPath => critical_path::find_type(experiment, kind),
            _ => Err(Refusal::new(404, "No such type", format!("there is no type `{kind}`"))),
        }),
        [id, derived] if is_delete => find(id).and_then(|output| match output {
            Output::CriticalPath => experiment.paths.remove(derived),
            _ => Err(Refusal::new(404, "No such output", format!("`{id}` has no derived outputs"))),
        }),
        ["timeGraph" | "XY" | "table" | "data" | "genericXY", _, _] => return None,
        [_] | [_, "style" | "annotations" | "configTypes"] => return None,
        _ => Err(no_path()),
    })
}

fn no_path() -> Refusal {
    Refusal::new(404, "No such path", "nothing of an output is answered here")
}

/// Name and version of the server, and of the machine.
fn identifier(version: &str) -> Value {
    json!({
        "productId": "tracemill",
        "version": version,
        "tspVersion": TSP_VERSION,
        "os": std::env::consts::OS,
        "osArch": std::env::consts::ARCH,
        "cpuCount": std::thread::available_parallelism().map_or(1, |count| count.get()),
    })
}
