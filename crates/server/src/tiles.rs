//! Answers to `tiles`: what is where, in columns.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tracemill_lod::calls::Slice;
use tracemill_lod::counters::Point;
use tracemill_lod::tiles::{self, MAX_LEVEL};
use tracemill_lod::{EventSet, Loss, LossKind, Timeline};

use crate::answers::{Named, Query, named};
use crate::error::{Answer, ApiError};
use crate::groups::{self, ValueId};
use crate::plots::{self, Field};
use crate::shared::Shared;

/// The kind of thing that numbers of names stand for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum NameOf {
    Event,
    Function,
    State,
}

/// Names that an answer uses, numbered as they come up.
#[derive(Default)]
struct Names {
    list: Map<String, Value>,
    known: HashMap<(NameOf, u32), usize>,
}

impl Names {
    /// The number of a name.
    fn put(&mut self, of: NameOf, number: u32, name: impl FnOnce() -> Value) -> usize {
        let next = self.list.len();
        *self.known.entry((of, number)).or_insert_with(|| {
            self.list.insert(next.to_string(), name());
            next
        })
    }
}

fn gaps_of(shared: &Shared, track: usize, level: u32, range: (u64, u64)) -> Vec<Value> {
    let kind = |loss: &Loss| if loss.kind == LossKind::Events { "events" } else { "packets" };
    let gaps = shared.index().into_iter().flat_map(|index| tiles::gaps(index, track, level, range));
    gaps.map(|(at, len, loss)| json!([at, len, kind(loss), loss.count])).collect()
}

/// A track of an answer, as text.
struct TrackText(String);

impl TrackText {
    fn new(id: &str, kind: &str, is_exact: bool) -> TrackText {
        TrackText(format!("{{\"id\":{},\"kind\":\"{kind}\",\"exact\":{is_exact}", json!(id)))
    }

    fn column<T: std::fmt::Display>(mut self, name: &str, numbers: impl Iterator<Item = T>) -> Self {
        // Writing to a text does not fail.
        let _ = write!(self.0, ",\"{name}\":[");
        for (at, number) in numbers.enumerate() {
            let _ = if at > 0 { write!(self.0, ",{number}") } else { write!(self.0, "{number}") };
        }
        self.0.push(']');
        self
    }

    fn density(self, density: &tiles::Density, timeline: &Timeline, names: &mut Names) -> Self {
        let mut number =
            |name: u32| names.put(NameOf::Event, name, || Value::String(timeline.name(name).to_string())) as i64;
        self.column("at", density.at.iter().map(|at| *at as i64))
            .column("n", density.events.iter().map(|events| *events as i64))
            .column("name", density.names.iter().map(|name| number(*name)))
    }

    /// Slices whose names are in a list.
    fn slices(self, slices: &[Slice], of: NameOf, texts: &[String], names: &mut Names) -> Self {
        let text = |name: u32| Value::String(texts[name as usize].clone());
        let mut number = |name: u32| names.put(of, name, || text(name)) as i64;
        self.column("at", slices.iter().map(|slice| slice.at.max(-(1 << 52))))
            .column("len", slices.iter().map(|slice| slice.len.unwrap_or(-1)))
            .column("depth", slices.iter().map(|slice| slice.depth))
            .column("name", slices.iter().map(|slice| number(slice.name)))
            .column("n", slices.iter().map(|slice| slice.n as i64))
            .column("busy", slices.iter().map(|slice| slice.busy))
    }

    /// Buckets of a counter; their values are finite.
    fn points(self, points: &[Point]) -> Self {
        self.column("at", points.iter().map(|point| point.at))
            .column("min", points.iter().map(|point| point.min))
            .column("max", points.iter().map(|point| point.max))
            .column("last", points.iter().map(|point| point.last))
    }

    fn end(self, gaps: Vec<Value>) -> String {
        format!("{},\"gaps\":{}}}", self.0, Value::Array(gaps))
    }
}

pub(crate) fn tiles(
    shared: &Shared,
    query: &Query,
    set: impl FnOnce() -> Answer<Option<Arc<EventSet>>>,
) -> Answer<(String, bool)> {
    let level: u32 = query.needed("level")?;
    let (from, to): (u64, u64) = (query.needed("from")?, query.needed("to")?);
    if level > MAX_LEVEL || from > to || to - from >= 4096 || to > 1 << 53 {
        return Err(ApiError::request("tiles are asked by levels up to 62, at most 4,096 of them"));
    }
    let ids: Vec<&str> = query.get("tracks").unwrap_or_default().split(',').collect();
    if ids.len() > 64 {
        return Err(ApiError::request("at most 64 tracks are asked for at once"));
    }
    let asked = ids.iter().map(|id| named(shared, id)).collect::<Answer<Vec<Named>>>()?;
    let tasks: Vec<usize> =
        asked.iter().filter_map(|one| if let Named::Calls(at) = one { Some(*at) } else { None }).collect();
    // Tracks by a value have their filter in what was read of them.
    let values: Vec<ValueId> = ids.iter().filter_map(|id| ValueId::parse(shared, id)).collect();
    let mut of_values = groups::densities(shared, &values, (level, (from, to)), query)?.into_iter();
    let set = if asked.iter().all(|one| *one == Named::Value) { None } else { set()? };
    let (timeline, source, range) = (shared.timeline(), shared.input.traces.source(), (from, to));
    let known = timeline.tracks();
    let of_trace =
        |trace: usize| -> Vec<usize> { (0..known.len()).filter(|at| known[*at].who(&source).0 == trace).collect() };
    // Each track once, however many groups hold it.
    let mut wanted: Vec<usize> = asked
        .iter()
        .flat_map(|one| match one {
            Named::Base(at) => vec![*at],
            Named::Group(trace) => of_trace(*trace),
            Named::Calls(_) | Named::State(_) | Named::Plot | Named::Value => Vec::new(),
        })
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    let densities = match shared.index().zip(set) {
        Some((index, set)) => tiles::density_in(index, &wanted, level, range, &set),
        None => tiles::density(&timeline, &source, &wanted, level, range, query.is_on("exact")),
    };
    let density_of = |track: usize| wanted.binary_search(&track).ok().map(|at| &densities[at]);
    let mut names = Names::default();
    let mut slices: BTreeMap<usize, Vec<Slice>> = BTreeMap::new();
    if let Some(calls) = shared.calls().filter(|_| !tasks.is_empty()) {
        let (begin, end) = tiles::range(level, from, to);
        let absolute = |time: i64| (timeline.origin + i128::from(time)).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let found = calls.slices(&tasks, level, (absolute(begin), absolute(end)));
        slices.extend(tasks.iter().copied().zip(found));
    }
    let mut is_exact = true;
    let mut tracks: Vec<String> = Vec::with_capacity(ids.len());
    for (id, one) in ids.iter().zip(&asked) {
        tracks.push(match one {
            Named::Base(at) => {
                let known = density_of(*at).cloned().unwrap_or_default();
                is_exact &= known.is_exact;
                let track = TrackText::new(id, "events", known.is_exact).density(&known, &timeline, &mut names);
                track.end(gaps_of(shared, *at, level, range))
            }
            Named::Calls(at) => {
                let (calls, slices) = (shared.calls(), slices.get(at).map_or(&[][..], |slices| slices));
                let track = TrackText::new(id, "calls", true);
                match calls {
                    Some(calls) => track.slices(slices, NameOf::Function, &calls.names, &mut names).end(Vec::new()),
                    None => track.end(Vec::new()),
                }
            }
            Named::State(at) => {
                let track = TrackText::new(id, "state", true);
                let Some(of) = shared.states() else {
                    tracks.push(track.end(Vec::new()));
                    continue;
                };
                let (begin, end) = tiles::range(level, from, to);
                let range = (timeline.origin + i128::from(begin), timeline.origin + i128::from(end));
                let slices = of.states.slices(*at, level, range);
                track.slices(&slices, NameOf::State, &of.states.names, &mut names).end(Vec::new())
            }
            Named::Value => {
                // What was not read yet is not known at all.
                let known = of_values.next().flatten().unwrap_or_default();
                is_exact &= known.is_exact;
                let track = TrackText::new(id, "events", known.is_exact).density(&known, &timeline, &mut names);
                track.end(Vec::new())
            }
            Named::Plot => {
                let field = Field::of_id(shared, id).ok_or_else(|| ApiError::request("`tracks` is missing"))?;
                let what = (level, from, to);
                let (points, is_read) = plots::tiles(
                    shared,
                    (id, &field),
                    query.get("filter"),
                    what,
                    (query.is_on("exact"), &query.asker),
                )?;
                is_exact &= is_read;
                TrackText::new(id, "counter", is_read).points(&points).end(Vec::new())
            }
            Named::Group(at) => {
                let own = of_trace(*at);
                let mut all: Vec<tiles::Density> = own.iter().filter_map(|at| density_of(*at)).cloned().collect();
                all.extend(tiles::estimate_of(&timeline, &source, *at, level, range));
                let all = tiles::together(&all);
                is_exact &= all.is_exact;
                let gaps = own.into_iter().flat_map(|track| gaps_of(shared, track, level, range));
                let track = TrackText::new(id, "group", all.is_exact).density(&all, &timeline, &mut names);
                track.end(gaps.collect())
            }
        });
    }
    let names = Value::Object(names.list);
    let text = format!(
        "{{\"level\":{level},\"from\":{from},\"to\":{to},\"names\":{names},\"tracks\":[{}]}}",
        tracks.join(",")
    );
    Ok((text, is_exact))
}
