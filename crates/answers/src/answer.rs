//! Answers to the questions of a page.

use serde_json::Value;

use crate::error::{Answer, ApiError};
use crate::ids::ValueId;
use crate::period_track::PeriodId;
use crate::periods;
use crate::query::Query;
use crate::session::{problems, session};
use crate::state::TraceState;
use crate::{analyses, events, groups, locate, measures, plots, selection, tiles, tracks, why};

/// An answer.
pub enum Reply {
    /// An object.
    Value(Value),
    /// An object as text, and whether it is exact and may be kept.
    Text(String, bool),
}

/// The answer to a question.
pub fn answer(state: &TraceState, path: &str, query: &Query) -> Answer<Reply> {
    let reply = answer_of(state, path, query)?;
    if state.index().is_some_and(|index| index.is_broken()) || state.calls().is_some_and(|calls| calls.is_broken()) {
        let text = "what the index was made of cannot be read any more, or has changed";
        return Err(ApiError::new(500, "fault", text));
    }
    Ok(reply)
}

fn answer_of(state: &TraceState, path: &str, query: &Query) -> Answer<Reply> {
    let set = || query.get("filter").map(|text| state.set_for(text, &query.asker)).transpose();
    let value = match path {
        "session" => {
            let mut value = session(state);
            // A page that opens would ask for them next.
            if query.is_on("tracks") {
                value["tracks"] = tracks::tracks(state, None)?["tracks"].take();
            }
            Ok(value)
        }
        "tracks" => match query.get("group") {
            Some(path) => groups::tracks(state, path, query),
            None => tracks::tracks(state, set()?.as_deref()),
        },
        "tiles" => {
            let (text, is_exact) = tiles::tiles(state, query, set)?;
            return Ok(Reply::Text(text, is_exact));
        }
        "events" => events::events(state, query, set()?.as_deref()),
        // They look at all that is chosen.
        "select" | "flame" | "why" | "analyze" if state.is_complete() => {
            let question = format!("{path} {} {:?}", state.generation(), query.list);
            let answer = || match path {
                "flame" => selection::flame(state, query),
                "why" => why::why(state, query),
                "analyze" => analyses::analyze(state, query),
                _ => selection::select(state, query, set()?.as_deref()),
            };
            let text = state
                .caches
                .answers
                .get_or_make(question, &|| query.asker.is_over(&state.progress), || Ok(answer()?.to_string().into()))?;
            return Ok(Reply::Text(text.to_string(), true));
        }
        "select" => selection::select(state, query, set()?.as_deref()),
        "flame" => selection::flame(state, query),
        "why" => why::why(state, query),
        "analyze" => analyses::analyze(state, query),
        "search" => events::find(state, query, set()?.as_deref()),
        "durations" => selection::durations(state, query),
        "pairs" => measures::pairs(state, query, set()?.as_deref()),
        "outliers" => measures::outliers(state, query, set()?.as_deref()),
        "locate" => locate::locate(state, query, set()?.as_deref()),
        "problems" => Ok(problems(state)),
        "wakeups" => {
            let id = query.get("track").ok_or_else(|| ApiError::request("`track` is missing"))?;
            let missing = || ApiError::new(404, "track", format!("there is no track `{id}`"));
            state.states().ok_or_else(missing)?.wakeups(id, query)
        }
        "activity" | "state" => {
            let found = state.states().ok_or_else(|| ApiError::new(404, "path", "no states are known"))?;
            if path == "state" { found.find_state(query) } else { found.activity(query) }
        }
        _ => match path.split_once('/') {
            Some(("event", number)) => events::event(state, number),
            Some(("call", place)) => selection::call(state, place),
            Some(("track", id)) => match ValueId::parse(&state.input.traces, id) {
                Some(of) => groups::track(state, &of, id, query),
                None => match PeriodId::parse(id) {
                    Some(of) => periods::track(state, &of, &query.asker),
                    None => plots::track(state, id, query.get("filter")),
                },
            },
            _ => Err(ApiError::new(404, "path", format!("`{path}` is not answered"))),
        },
    };
    value.map(Reply::Value)
}
