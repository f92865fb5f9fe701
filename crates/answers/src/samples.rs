//! Answers about samples: the flame graph of traces without calls.

use std::collections::HashSet;

use serde_json::{Value, json};
use tracemill_calls::profile::{Profile, ProfileGroup, ProfileQuery, ProfileSource, WeightUnit, unit_of};
use tracemill_engine::event::Event;
use tracemill_engine::samples::Sample;
use tracemill_lod::states::Of;

use crate::error::Answer;
use crate::query::{Asker, Query, ns};
use crate::selection::{Chosen, chosen, range_of};
use crate::state::TraceState;
use crate::traces::ShownTraces;

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
    /// The tracks that they are on; `None` for all.
    pub tracks: Option<SampleTracks>,
}

/// Tracks of samples: those of a thread, of a CPU, or of a stream.
#[derive(Default)]
pub struct SampleTracks {
    /// Threads.
    pub threads: HashSet<i64>,
    /// CPUs.
    pub cpus: HashSet<u64>,
    /// Streams: their traces, and their indexes there.
    pub streams: HashSet<(usize, usize)>,
}

impl SampleTracks {
    fn has(&self, event: &Event<'_>, sample: &Sample<'_>) -> bool {
        sample.thread.is_some_and(|thread| self.threads.contains(&thread))
            || sample.cpu.is_some_and(|cpu| self.cpus.contains(&cpu))
            || self.streams.contains(&(event.trace, event.stream))
    }
}

impl SampleStacks {
    /// The samples that are wanted; `None` when `is_over` says that nobody waits for them any more. Reads the trace.
    pub fn collect(state: &TraceState, choice: &SampleChoice<'_>, is_over: &dyn Fn() -> bool) -> Option<SampleStacks> {
        let ShownTraces { session, streams, selection, filter, .. } = &state.input.traces;
        let mut selection = selection.clone();
        if let Some((begin, end)) = choice.range {
            selection.begin_ns = Some(selection.begin_ns.map_or(begin, |own| own.max(begin)));
            selection.end_ns = Some(selection.end_ns.map_or(end, |own| own.min(end)));
        }
        let tracks = choice.tracks.as_ref();
        let is_wanted = |event: &Event<'_>, sample: &Sample<'_>| tracks.is_none_or(|tracks| tracks.has(event, sample));
        let source = ProfileSource {
            session,
            streams,
            selection: &selection,
            filter: filter.as_ref(),
            is_wanted: Some(&is_wanted),
            symbolizer: state.input.symbolizer.as_deref(),
            is_over,
        };
        // The index says which packets are damaged.
        let profile = Profile::collect(&source, &ProfileQuery::default(), |_| std::ops::ControlFlow::Continue(()));
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

fn trace_streams(state: &TraceState, trace: usize) -> usize {
    state.input.traces.session.traces[trace].streams.len()
}

/// `flame` of samples.
pub(crate) fn flame(state: &TraceState, query: &Query) -> Answer {
    let index = state.whole_index()?;
    let range = range_of(query, index)?;
    let mut choice = SampleChoice { range, event: query.get("event"), tracks: None };
    if let Some(Chosen { bases, states, .. }) = chosen(state, index, query, query.get("tracks"))? {
        let mut tracks = SampleTracks::default();
        for base in bases {
            let track = &index.tracks[base];
            match track.stream {
                Some(stream) => _ = tracks.streams.insert((track.trace, stream)),
                // A trace that numbers its tracks itself is chosen as a whole.
                None => tracks.streams.extend((0..trace_streams(state, track.trace)).map(|at| (track.trace, at))),
            }
        }
        let of_states = state.states().into_iter().flat_map(|found| states.iter().map(|at| &found.states.tracks[*at]));
        for track in of_states {
            match track.of {
                Of::Thread(thread, _) => _ = tracks.threads.insert(thread),
                Of::Cpu(cpu) => _ = tracks.cpus.insert(cpu),
            }
        }
        choice.tracks = Some(tracks);
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
