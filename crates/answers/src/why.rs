//! `why`: the critical path of a thread in words, as `analyze why` has it, with the tracks that it goes through.

use serde_json::{Value, json};
use tracemill_analyses::kernel::{AnalysisQuery, Cell, Numbers, Table};
use tracemill_lod::states::Of;

use crate::error::{Answer, ApiError};
use crate::kernel::{KernelQuestion, RowPlaces, integer, text, unanswered};
use crate::query::{Query, ns, some_ns};
use crate::state::TraceState;
use crate::states::StateTracks;

/// The analysis that says it.
pub(crate) const ANALYSIS: &str = "why";

/// Parts of a path that are sent at most.
const MAX_PARTS: usize = 20_000;

const COLUMNS: [&str; 7] = ["from", "to", "tid", "comm", "state", "why", "through"];

/// `why`: what a thread did and waited for from `begin` to `end`.
pub(crate) fn why(state: &TraceState, query: &Query) -> Answer {
    let id = query.get("track").ok_or_else(|| ApiError::request("`track` is missing"))?;
    let missing = || ApiError::new(404, "track", format!("there is no thread `{id}`"));
    let kept = state.states().ok_or_else(missing)?;
    let track = &kept.states.tracks[kept.find(id).ok_or_else(missing)?];
    let Of::Thread(tid, _) = track.of else { return Err(missing()) };
    let tids = Numbers::parse(&tid.to_string());
    let (begin, end) = (query.number("begin")?, query.number("end")?);
    let asked = AnalysisQuery { tids, begin, end, ..AnalysisQuery::default() };
    let asked = KernelQuestion::new(&state.input.traces, ANALYSIS, asked, &query.asker.flag());
    let asked = asked.ok_or_else(|| unanswered(ANALYSIS))?;
    let places = asked.places(COLUMNS)?;
    let table = asked.table(state, &query.asker)?;
    let paths = paths_of(&table, &places);
    // A thread of this number may be on several machines: each has its own path, in the order of the machines.
    let machines = kept.machines_of(tid);
    let own = machines.iter().position(|machine| *machine == track.machine);
    let own = own.filter(|_| machines.len() == paths.len()).filter(|own| *own < paths.len());
    let parts = own.map_or(&[][..], |own| &paths[own].0);
    let sentence = own.and_then(|own| table.sentences.get(own));
    let totals = if paths.len() == 1 { totals_of(&table) } else { Vec::new() };
    Ok(json!({
        "track": id,
        "begin": some_ns(table.range.map(|range| range.0)),
        "end": some_ns(table.range.map(|range| range.1)),
        "sentence": sentence,
        "parts": parts.iter().take(MAX_PARTS).map(|part| part.json(kept)).collect::<Vec<_>>(),
        "left_out": parts.len().saturating_sub(MAX_PARTS),
        "totals": totals,
    }))
}

/// A part of a path.
struct PathPart {
    machine: u32,
    from: i128,
    to: i128,
    tid: i64,
    /// The texts of the last four columns.
    texts: [Option<String>; 4],
}

impl PathPart {
    fn json(&self, kept: &StateTracks) -> Value {
        let [comm, state, why, through] = &self.texts;
        let track = kept.thread_at(self.machine, self.tid, self.from);
        json!({
            "from": ns(self.from), "to": ns(self.to), "track": track.map(|track| kept.id(track)), "tid": self.tid,
            "comm": comm, "state": state, "why": why, "through": through,
        })
    }
}

/// The path of a thread of one machine: each part begins where the one before ends.
struct ThreadPath(Vec<PathPart>);

fn paths_of(table: &Table, places: &RowPlaces<7>) -> Vec<ThreadPath> {
    let mut paths: Vec<ThreadPath> = Vec::new();
    table.rows.for_each(&mut |row| {
        let (machine, [from, to, tid, texts @ ..]) = places.values(row);
        let part = PathPart {
            machine: machine as u32,
            from: integer(from),
            to: integer(to),
            tid: i64::try_from(integer(tid)).unwrap_or(0),
            texts: texts.map(|value| Some(text(value).to_string()).filter(|text| !text.is_empty())),
        };
        match paths.last_mut() {
            Some(path) if path.0.last().is_none_or(|last| part.from >= last.to) => path.0.push(part),
            _ => paths.push(ThreadPath(vec![part])),
        }
    });
    paths
}

/// The time of each cause, the largest first.
fn totals_of(table: &Table) -> Vec<Value> {
    let Some((columns, rows)) = &table.totals else { return Vec::new() };
    let at = |name: &str| columns.iter().position(|column| column.name == name);
    let places = ["why", "total_ns", "share", "own"].map(at);
    let row = |cells: &Vec<Cell>| {
        let [why, total, share, is_own] = places.map(|at| at.and_then(|at| cells.get(at)).unwrap_or(&Cell::Null));
        json!({
            "why": if let Cell::Text(why) = why { Some(&**why) } else { None },
            "total": if let Cell::Integer(total) = total { ns(total) } else { Value::Null },
            "share": if let Cell::Real(share) = share { Some(*share) } else { None },
            "own": matches!(is_own, Cell::Bool(true)),
        })
    };
    rows.iter().map(row).collect()
}
