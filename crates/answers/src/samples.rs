//! Answers about samples: the flame graph of traces without calls.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use serde_json::{Value, json};
use tracemill_calls::profile::{Profile, ProfileGroup, ProfileQuery, ProfileSource, WeightUnit, unit_of};
use tracemill_engine::event::Event;
use tracemill_engine::events::Events;
use tracemill_engine::samples::{Frame, Sample, SampleReader};
use tracemill_lod::states::Of;

use crate::error::Answer;
use crate::pack::{PackedBytes, zigzag};
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
        if profile.nodes[0].samples == 0 {
            let root =
                SampleStack { parent: 0, name: String::new(), module: String::new(), samples: 0, total: 0, own: 0 };
            let unit = WeightUnit::Samples.name();
            return SampleStacks { event: String::new(), events: Vec::new(), unit, nodes: vec![root] };
        }
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
                Of::Custom(..) => {}
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

/// The samples of a page in one file: what its worker adds up as [`flame`] does.
#[derive(Default)]
pub(crate) struct PackedSamples {
    /// Events and their units, frames, and by place the base tracks that samples are chosen with. Events and frames are in the order
    /// of their names.
    pub(crate) head: Value,
    /// Nodes of the tree of stacks, then samples, each with its length before it, in columns.
    pub(crate) columns: PackedBytes,
}

/// A sample as a page has it.
struct PackedSample {
    ns: Option<i128>,
    event: usize,
    node: usize,
    weight: Option<u64>,
    thread: Option<i64>,
    cpu: Option<u64>,
    place: usize,
}

/// Numbers what it is asked for, each once.
struct Numbers<T>(HashMap<T, usize>);

impl<T: std::hash::Hash + Eq + Clone + Ord> Numbers<T> {
    fn of(&mut self, one: &T) -> usize {
        if let Some(&known) = self.0.get(one) {
            return known;
        }
        let number = self.0.len();
        self.0.insert(one.clone(), number);
        number
    }

    /// All of them in their order, and the places there by their numbers.
    fn in_order(self) -> (Vec<T>, Vec<usize>) {
        let mut all: Vec<(T, usize)> = self.0.into_iter().collect();
        all.sort();
        let mut places = vec![0; all.len()];
        all.iter().enumerate().for_each(|(place, (_, number))| places[*number] = place);
        (all.into_iter().map(|(one, _)| one).collect(), places)
    }
}

impl PackedSamples {
    /// The samples of a trace that has no calls; nothing where there are none. Reads the trace.
    pub(crate) fn collect(state: &TraceState) -> PackedSamples {
        if state.calls().is_some() || !state.has_samples() {
            return PackedSamples::default();
        }
        let ShownTraces { session, streams, selection, filter, .. } = &state.input.traces;
        let mut reader = SampleReader::new(session, state.input.symbolizer.as_deref());
        let mut selection = selection.clone();
        selection.classes = reader.wanted_class_sets(&selection.classes);
        let mut events: Numbers<String> = Numbers(HashMap::new());
        let mut frames: Numbers<(String, String, bool)> = Numbers(HashMap::new());
        let mut places: Numbers<(usize, usize)> = Numbers(HashMap::new());
        let mut nodes: Numbers<(usize, usize)> = Numbers(HashMap::new());
        // By class its event, and by frame of the reader its number here.
        let mut of_classes: HashMap<(usize, u32), usize> = HashMap::new();
        let mut of_frames: Vec<usize> = Vec::new();
        let mut samples: Vec<PackedSample> = Vec::new();
        let mut storage = Vec::new();
        let take = |event: &Event<'_>| {
            let number = *of_classes.entry((event.trace, event.raw.class().0)).or_insert_with(|| {
                let name = event.name(&mut storage).unwrap_or_default();
                events.of(&String::from_utf8_lossy(name).into_owned())
            });
            let Some(sample) = reader.read(event) else { return };
            for Frame { function, module, is_kernel } in &sample.frames[of_frames.len()..] {
                of_frames.push(frames.of(&(function.to_string(), module.to_string(), *is_kernel)));
            }
            // 0 is the root.
            let stack = sample.stack.iter().rev();
            let node = stack.fold(0, |node, &frame| nodes.of(&(node, of_frames[frame as usize])) + 1);
            let Sample { ns, weight, thread, cpu, .. } = sample;
            let place = places.of(&(event.trace, event.stream));
            samples.push(PackedSample { ns, event: number, node, weight, thread, cpu, place });
        };
        // The index says which packets are damaged.
        Events::new(session, streams, &selection, filter.as_ref()).for_each(take, |_| ControlFlow::Continue(()));
        let (events, of_events) = events.in_order();
        let (frames, of_frames) = frames.in_order();
        let mut stacks = vec![(0, 0); nodes.0.len()];
        nodes.0.into_iter().for_each(|(node, number)| stacks[number] = node);
        let (places, of_places) = places.in_order();
        let index = state.index();
        let tracks = || index.into_iter().flat_map(|index| index.tracks.iter().enumerate());
        let bases = |&(trace, stream): &(usize, usize)| {
            // See [`flame`]: a trace that numbers its tracks itself is chosen as a whole.
            let own =
                tracks().filter(|(_, track)| track.trace == trace && track.stream.is_none_or(|own| own == stream));
            own.map(|(base, _)| base).collect::<Vec<_>>()
        };
        let unit = |event: &String| unit_of(std::slice::from_ref(event)).name();
        let mut columns = PackedBytes::default();
        columns.number(stacks.len() as u128);
        for (parent, frame) in stacks {
            columns.number(parent as u128);
            columns.number(of_frames[frame] as u128);
        }
        columns.number(samples.len() as u128);
        let (origin, mut before) = (state.timeline().origin, 0);
        for sample in &samples {
            let step = sample.ns.map(|ns| ns - origin - std::mem::replace(&mut before, ns - origin));
            columns.number(step.map_or(0, |step| zigzag(step) + 1));
        }
        samples.iter().for_each(|sample| columns.number(of_events[sample.event] as u128));
        samples.iter().for_each(|sample| columns.number(sample.node as u128));
        samples.iter().for_each(|sample| columns.number(sample.weight.map_or(0, |weight| u128::from(weight) + 1)));
        samples.iter().for_each(|sample| columns.number(sample.thread.map_or(0, |thread| zigzag(thread.into()) + 1)));
        samples.iter().for_each(|sample| columns.number(sample.cpu.map_or(0, |cpu| u128::from(cpu) + 1)));
        samples.iter().for_each(|sample| columns.number(of_places[sample.place] as u128));
        let head = json!({
            "events": events.iter().map(|event| json!({ "name": event, "unit": unit(event) })).collect::<Vec<_>>(),
            "frames": frames.iter().map(|(name, module, _)| json!([name, module])).collect::<Vec<_>>(),
            "places": places.iter().map(bases).collect::<Vec<_>>(),
        });
        PackedSamples { head, columns }
    }
}
