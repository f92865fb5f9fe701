//! Answers about samples: the flame graph of traces without calls.

use serde_json::{Value, json};
use tracemill_calls::profile::{Profile, ProfileGroup, ProfileQuery, ProfileSource, WeightUnit, unit_of};
use tracemill_engine::timeline::Selection;
use tracemill_lod::states::Of;

use crate::error::Answer;
use crate::query::{Asker, Query, ns};
use crate::selection::{Chosen, chosen, range_of};
use crate::state::TraceState;
use crate::traces::{ShownTraces, stream_of};

/// Samples of one event, added up by their stacks.
pub struct SampleStacks {
    /// The event; empty when there is no sample.
    pub event: String,
    /// All events that have samples there, those of the most samples first.
    pub events: Vec<String>,
    /// The unit of weights: `ns`, `events` or `samples`.
    pub unit: &'static str,
    /// The tree: the root first, callers before what they call.
    pub nodes: Vec<SampleStack>,
}

/// A node of [`SampleStacks`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleStack {
    /// Its caller; that of the root is its own.
    pub parent: usize,
    /// The function; empty for the root.
    pub name: String,
    /// The file of its code; empty where it is not known.
    pub module: String,
    /// Samples in the function and all that it called.
    pub samples: u64,
    /// Their weight.
    pub total: u64,
    /// The weight of the samples in the function itself.
    pub own: u64,
}

/// Which samples are wanted.
#[derive(Default)]
pub struct SampleChoice<'c> {
    /// First and last time in ns; `None` for all.
    pub range: Option<(i128, i128)>,
    /// Names of the event; without it, or where it has no samples, that of the most samples.
    pub event: Option<&'c str>,
    /// Threads; none for all.
    pub threads: Vec<i64>,
    /// The streams, by index among those that are shown; `None` for all.
    pub streams: Option<Vec<usize>>,
}

impl SampleStacks {
    /// The samples that are wanted; `None` when `is_over` says that nobody waits for them any more. Reads the trace.
    pub fn collect(state: &TraceState, choice: &SampleChoice<'_>, is_over: &dyn Fn() -> bool) -> Option<SampleStacks> {
        let ShownTraces { session, streams, selection, filter, .. } = &state.input.traces;
        let mut selection = Selection { jobs: selection.jobs, ..selection.clone() };
        if let Some((begin, end)) = choice.range {
            selection.begin_ns = Some(selection.begin_ns.map_or(begin, |own| own.max(begin)));
            selection.end_ns = Some(selection.end_ns.map_or(end, |own| own.min(end)));
        }
        let chosen: Vec<_>;
        let streams = match &choice.streams {
            Some(wanted) => {
                chosen = wanted.iter().filter_map(|at| streams.get(*at)).cloned().collect();
                &chosen
            }
            None => streams,
        };
        let source = ProfileSource {
            session,
            streams,
            selection: &selection,
            filter: filter.as_ref(),
            symbolizer: state.input.symbolizer.as_deref(),
            is_over,
        };
        let query = ProfileQuery { tids: choice.threads.clone(), ..ProfileQuery::default() };
        // The index says which packets are damaged.
        let profile = Profile::collect(&source, &query, |_| std::ops::ControlFlow::Continue(()));
        (!is_over()).then(|| SampleStacks::of_event(&profile, choice.event))
    }

    /// The samples of one event of a profile.
    fn of_event(profile: &Profile, wanted: Option<&str>) -> SampleStacks {
        let name = |at: usize| &*profile.labels[profile.nodes[at].label as usize].name;
        // With several events, those are the nodes below the root.
        let has_events = profile.by == [ProfileGroup::Event];
        let mut roots: Vec<usize> = match has_events {
            true => (1..profile.nodes.len()).filter(|&at| profile.nodes[at].parent == 0).collect(),
            false => vec![0],
        };
        roots.sort_by_key(|&at| std::cmp::Reverse(profile.nodes[at].samples));
        let events: Vec<String> = match has_events {
            true => roots.iter().map(|&at| name(at).to_string()).collect(),
            false => profile.events.clone(),
        };
        let root = roots.iter().copied().find(|&at| has_events && wanted == Some(name(at)));
        let root = root.or_else(|| roots.first().copied()).unwrap_or(0);
        let event = if has_events { name(root).to_string() } else { events.first().cloned().unwrap_or_default() };
        let unit = match profile.unit {
            WeightUnit::Samples => WeightUnit::Samples,
            _ => unit_of(std::slice::from_ref(&event)),
        };
        // By node of the profile, its node here. Callers come before what they call.
        let mut places = vec![None; profile.nodes.len()];
        let mut nodes: Vec<SampleStack> = Vec::new();
        for (at, of) in profile.nodes.iter().enumerate().skip(root) {
            let parent = if at == root { Some(0) } else { places[of.parent] };
            let Some(parent) = parent.filter(|_| at == root || at > of.parent) else { continue };
            places[at] = Some(nodes.len());
            let label = &profile.labels[of.label as usize];
            let (name, module) = if at == root { ("", "") } else { (&*label.name, &*label.module) };
            nodes.push(SampleStack {
                parent,
                name: name.to_string(),
                module: module.to_string(),
                samples: of.samples,
                total: of.total,
                own: of.own,
            });
        }
        SampleStacks { event, events, unit: unit.name(), nodes }
    }
}

/// `flame` of samples.
pub(crate) fn flame(state: &TraceState, query: &Query) -> Answer {
    let index = state.whole_index()?;
    let range = range_of(query, index)?;
    let mut choice = SampleChoice { range, event: query.get("event"), ..SampleChoice::default() };
    if let Some(Chosen { bases, states, .. }) = chosen(state, index, query, query.get("tracks"))? {
        let tracks =
            state.states().into_iter().flat_map(|found| states.iter().map(|track| &found.states.tracks[*track]));
        choice.threads = tracks
            .filter_map(|track| match track.of {
                Of::Thread(thread, _) => Some(thread),
                Of::Cpu(_) => None,
            })
            .collect();
        let streams = &state.input.traces.streams;
        let chosen: Option<Vec<usize>> = bases.iter().map(|&base| stream_of(streams, &index.tracks[base])).collect();
        // Where tracks are no streams, all are read.
        choice.streams = chosen.filter(|chosen| !chosen.is_empty());
    }
    let is_over = || query.asker.is_over(&state.progress);
    let stacks = SampleStacks::collect(state, &choice, &is_over).ok_or_else(Asker::cancelled)?;
    let nodes = stacks.nodes.iter().enumerate().map(|(at, of)| {
        json!({
            "id": at,
            "parent": (at > 0).then_some(of.parent),
            "name": of.name,
            "module": of.module,
            "calls": of.samples,
            "total": ns(of.total),
            "self": ns(of.own),
        })
    });
    let nodes: Vec<Value> = nodes.collect();
    Ok(json!({ "nodes": nodes, "unit": stacks.unit, "event": stacks.event, "events": stacks.events }))
}
