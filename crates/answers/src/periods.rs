//! Periods that a page defines, such as frames, as tracks: which of them kept their deadline, and which missed it.
//!
//! The periods are those of `analyze periods`; the id of a track has their definition, so that it need not be remembered.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tracemill_analyses::kernel::{AnalysisQuery, BoundPeriods, Definition, Definitions, RowSink, Value, View, Written};

use crate::error::{Answer, ApiError};
use crate::ids::group_id;
use crate::kernel::{KernelQuestion, integer, unanswered};
use crate::measures::mistake;
use crate::period_track::{PeriodId, PeriodTrack};
use crate::query::{Asker, Query, ns, some_ns};
use crate::state::TraceState;

/// The analysis that finds them.
const ANALYSIS: &str = "periods";

/// Periods of a track at most.
const MAX_PERIODS: usize = 1 << 20;

/// The definition that a question has; `None` without one.
pub(crate) fn from_query(query: &Query) -> Answer<Option<PeriodId>> {
    let Some(id) = query.get("period") else { return Ok(None) };
    let wrong = || ApiError::request(format!("`period` is not the id of a track of periods: `{id}`"));
    PeriodId::parse(id).map(Some).ok_or_else(wrong)
}

/// The periods for the traces that are shown.
pub(crate) fn bind(state: &TraceState, id: &PeriodId) -> Answer<Rc<BoundPeriods>> {
    let written = |name: &str, at: usize| Written::from_option(name, &id.texts[at]);
    let definition = Definition {
        name: written("name", 0),
        begin: written("begin", 1),
        end: written("end", 2),
        matched: (!id.texts[3].is_empty()).then(|| written("match", 3)),
        parent: None,
    };
    let definitions = Definitions::parse(&[definition]).map_err(|error| mistake(&error))?;
    let bound = BoundPeriods::new(&definitions, &state.input.traces.session, true);
    Ok(Rc::new(bound.map_err(|error| mistake(&error))?))
}

/// The periods of an id, found once.
pub(crate) fn find(state: &TraceState, id: &PeriodId, asker: &Asker) -> Answer<Arc<PeriodTrack>> {
    let is_over = || asker.is_over(&state.progress);
    state.caches.periods.get_or_make(id.id(), &is_over, || read(state, id, asker).map(Arc::new))
}

fn read(state: &TraceState, id: &PeriodId, asker: &Asker) -> Answer<PeriodTrack> {
    let asked = AnalysisQuery { view: View::Log, periods: Some(bind(state, id)?), ..AnalysisQuery::default() };
    let question = KernelQuestion::new(&state.input.traces, ANALYSIS, asked, &asker.flag());
    let mut question = question.ok_or_else(|| unanswered(ANALYSIS))?;
    let places = question.places(["from", "to"])?;
    let found: Rc<RefCell<Vec<(i128, i128)>>> = Rc::default();
    let sink: RowSink = {
        let found = found.clone();
        Rc::new(RefCell::new(move |row: &[Value<'_>]| {
            let (_, [from, to]) = places.values(row);
            let mut found = found.borrow_mut();
            if found.len() <= MAX_PERIODS {
                found.push((integer(from), integer(to)));
            }
        }))
    };
    question.query.sink = Some(sink);
    question.table(state, asker)?;
    let spans = std::mem::take(&mut *found.borrow_mut());
    if spans.len() > MAX_PERIODS {
        return Err(ApiError::request(format!("there are more than {MAX_PERIODS} periods `{}`", id.texts[0])));
    }
    Ok(PeriodTrack::new(id, spans))
}

/// `track/ID`: the track of periods, below the group of the first trace.
pub(crate) fn track(state: &TraceState, id: &PeriodId, asker: &Asker) -> Answer<Json> {
    let found = find(state, id, asker)?;
    let track = &found.states.tracks[0];
    Ok(json!({
        "id": id.id(), "parent": group_id(0), "kind": "state", "base": false, "name": id.texts[0], "trace": 0,
        "events": null, "states": track.pieces(), "depth": track.depth(), "done": 1.0,
        "deadline": some_ns(id.deadline), "missed": id.deadline.map(|_| found.missed),
    }))
}

/// How many periods missed their deadline, as an answer says it; `None` without a deadline.
pub(crate) fn missed(state: &TraceState, id: &PeriodId, range: (i128, i128), asker: &Asker) -> Answer<Option<Json>> {
    let Some(deadline) = id.deadline else { return Ok(None) };
    let found = find(state, id, asker)?;
    // A period belongs to the range in which it ends, as everywhere in `analyze`.
    let ends = found.spans.iter().filter(|(_, to)| range.0 <= *to && *to <= range.1);
    let (count, missed) = ends.fold((0u64, 0u64), |(count, missed), (from, to)| {
        (count + 1, missed + u64::from(to - from > i128::from(deadline)))
    });
    Ok(Some(json!({ "deadline": ns(deadline), "periods": count, "missed": missed })))
}
