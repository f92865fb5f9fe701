//! Answers to `tiles`: what is where, in columns.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tracemill_lod::calls::Slice;
use tracemill_lod::counters::Point;
use tracemill_lod::tiles::{self, Density, MAX_LEVEL};
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
    let Some(index) = shared.index() else { return Vec::new() };
    let losses = tiles::gaps(index, track, level, range);
    let losses = losses.map(|(at, len, loss)| json!([at, len, kind(loss), loss.count]));
    let damage = tiles::damage(index, track, level, range).map(|(at, len)| json!([at, len, "damage", null]));
    losses.chain(damage).collect()
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

    fn density(self, density: &Density, timeline: &Timeline, names: &mut Names) -> Self {
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

    /// Says which lanes of slices are told, where there are others too.
    fn lanes(mut self, told: Option<(u32, u64)>) -> Self {
        if let Some((first, all)) = told {
            let to = u64::from(first) + u64::from(LANES);
            let _ = write!(self.0, ",\"lanes\":{{\"from\":{first},\"to\":{},\"all\":{all}}}", to.min(all));
        }
        self
    }

    fn end(self, gaps: Vec<Value>) -> String {
        format!("{},\"gaps\":{}}}", self.0, Value::Array(gaps))
    }
}

/// Makes the tracks of an answer.
struct Tracks<'a> {
    shared: &'a Shared,
    query: &'a Query,
    timeline: &'a Timeline,
    level: u32,
    /// First and last tile.
    range: (u64, u64),
    /// The density of base tracks, by index; each once, however many groups hold it.
    densities: BTreeMap<usize, Density>,
    /// The calls of tasks, by index.
    slices: BTreeMap<usize, Vec<Slice>>,
    /// The first lane of calls that is told, when not all are.
    lane: Option<u32>,
    /// Tracks by a value, in the order in which they were asked for: what was not read yet is not known at all.
    of_values: std::vec::IntoIter<Option<Density>>,
    names: Names,
    is_exact: bool,
}

impl Tracks<'_> {
    fn text(&mut self, id: &str, one: Named) -> Answer<String> {
        Ok(match one {
            Named::Base(at) => {
                let known = self.densities.get(&at).cloned().unwrap_or_default();
                let gaps = gaps_of(self.shared, at, self.level, self.range);
                self.density(id, "events", &known).end(gaps)
            }
            Named::Value => {
                let known = self.of_values.next().flatten().unwrap_or_default();
                self.density(id, "events", &known).end(Vec::new())
            }
            Named::Group(trace) => self.group(id, trace),
            Named::Calls(task) => {
                let track = TrackText::new(id, "calls", true);
                let slices = self.slices.get(&task).map_or(&[][..], |slices| slices);
                match self.shared.calls() {
                    Some(calls) => {
                        let all = calls.tasks[task].depth;
                        let told = self.lane.filter(|first| *first > 0 || all > LANES.into()).map(|first| (first, all));
                        track.slices(slices, NameOf::Function, &calls.names, &mut self.names).lanes(told)
                    }
                    None => track,
                }
                .end(Vec::new())
            }
            Named::State(at) => {
                let track = TrackText::new(id, "state", true);
                match self.shared.states() {
                    Some(of) => {
                        let (begin, end) = tiles::range(self.level, self.range.0, self.range.1);
                        let origin = self.timeline.origin;
                        let slices =
                            of.states.slices(at, self.level, (origin + i128::from(begin), origin + i128::from(end)));
                        track.slices(&slices, NameOf::State, &of.states.names, &mut self.names)
                    }
                    None => track,
                }
                .end(Vec::new())
            }
            Named::Plot => self.plot(id)?,
        })
    }

    fn density(&mut self, id: &str, kind: &str, known: &Density) -> TrackText {
        self.is_exact &= known.is_exact;
        TrackText::new(id, kind, known.is_exact).density(known, self.timeline, &mut self.names)
    }

    /// All events of a trace.
    fn group(&mut self, id: &str, trace: usize) -> String {
        let source = self.shared.input.traces.source();
        let own = bases_of(self.shared, self.timeline, trace);
        let mut all: Vec<Density> = own.iter().filter_map(|at| self.densities.get(at)).cloned().collect();
        all.extend(tiles::estimate_of(self.timeline, &source, trace, self.level, self.range));
        let gaps = own.into_iter().flat_map(|track| gaps_of(self.shared, track, self.level, self.range));
        let gaps = gaps.collect();
        self.density(id, "group", &tiles::together(&all)).end(gaps)
    }

    /// A field over time.
    fn plot(&mut self, id: &str) -> Answer<String> {
        let field = Field::of_id(self.shared, id).ok_or_else(|| ApiError::request("`tracks` is missing"))?;
        let what = (self.level, self.range.0, self.range.1);
        let asked = (self.query.is_on("exact"), &self.query.asker);
        let (points, is_read) = plots::tiles(self.shared, (id, &field), self.query.get("filter"), what, asked)?;
        self.is_exact &= is_read;
        Ok(TrackText::new(id, "counter", is_read).points(&points).end(Vec::new()))
    }
}

/// The base tracks of a trace.
fn bases_of(shared: &Shared, timeline: &Timeline, trace: usize) -> Vec<usize> {
    let (known, source) = (timeline.tracks(), shared.input.traces.source());
    (0..known.len()).filter(|at| known[*at].who(&source).0 == trace).collect()
}

/// Lanes of calls that are told at once to whoever asks for some: a page shows fewer.
const LANES: u32 = 64;

/// The calls of tasks: those of some lanes, or all.
fn slices_of(
    shared: &Shared,
    timeline: &Timeline,
    (tasks, first_lane): (&[usize], Option<u32>),
    level: u32,
    (from, to): (u64, u64),
) -> BTreeMap<usize, Vec<Slice>> {
    let Some(calls) = shared.calls().filter(|_| !tasks.is_empty()) else { return BTreeMap::new() };
    let (begin, end) = tiles::range(level, from, to);
    let absolute = |time: i64| (timeline.origin + i128::from(time)).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let mut found = calls.slices(tasks, level, (absolute(begin), absolute(end)));
    if let Some(first) = first_lane {
        let lanes = first..first.saturating_add(LANES);
        found.iter_mut().for_each(|slices| slices.retain(|slice| lanes.contains(&slice.depth)));
    }
    tasks.iter().copied().zip(found).collect()
}

/// `tiles`, and whether all of it is exact.
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
    // Tracks by a value have their filter in what was read of them.
    let values: Vec<ValueId> = ids.iter().filter_map(|id| ValueId::parse(shared, id)).collect();
    let range = (from, to);
    let of_values = groups::densities(shared, &values, (level, range), query)?.into_iter();
    let set = if asked.iter().all(|one| *one == Named::Value) { None } else { set()? };
    let (timeline, source) = (shared.timeline(), shared.input.traces.source());
    let (mut tasks, mut bases) = (Vec::new(), Vec::new());
    for one in &asked {
        match one {
            Named::Base(at) => bases.push(*at),
            Named::Group(trace) => bases.extend(bases_of(shared, &timeline, *trace)),
            Named::Calls(at) => tasks.push(*at),
            Named::State(_) | Named::Plot | Named::Value => {}
        }
    }
    bases.sort_unstable();
    bases.dedup();
    let lane = query.number("lane")?;
    let index = shared.index().map(|index| &**index);
    let densities = match index.zip(set) {
        Some((index, set)) => tiles::density_in(index, &bases, level, range, &set),
        None => tiles::density((&timeline, index), &source, &bases, level, range, query.is_on("exact")),
    };
    let mut tracks = Tracks {
        shared,
        query,
        timeline: &timeline,
        level,
        range,
        densities: bases.into_iter().zip(densities).collect(),
        slices: slices_of(shared, &timeline, (&tasks, lane), level, range),
        lane,
        of_values,
        names: Names::default(),
        is_exact: true,
    };
    let texts = ids.iter().zip(&asked).map(|(id, one)| tracks.text(id, *one)).collect::<Answer<Vec<String>>>()?;
    let (names, texts) = (Value::Object(tracks.names.list), texts.join(","));
    let text = format!("{{\"level\":{level},\"from\":{from},\"to\":{to},\"names\":{names},\"tracks\":[{texts}]}}");
    Ok((text, tracks.is_exact))
}
