//! Answers to `tiles`: what is where, in columns.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tracemill_codec::text::out::Out;
use tracemill_lod::calls::TimelineSlice;
use tracemill_lod::counters::Point;
use tracemill_lod::tiles::{self, Density, MAX_LEVEL};
use tracemill_lod::{EventSet, LossKind, LossRange, Timeline};

use crate::error::{Answer, ApiError};
use crate::groups;
use crate::ids::ValueId;
use crate::period_track::PeriodId;
use crate::periods;
use crate::plots;
use crate::query::Query;
use crate::state::TraceState;
use crate::tracks::{TrackId, find_track};

/// The kind of thing that numbers of names stand for.
#[derive(Clone, Copy)]
enum NameOf {
    Event,
    Function,
    State,
    Period,
}

/// Names that an answer uses, numbered as they come up.
#[derive(Default)]
struct AnswerNames {
    list: Map<String, Value>,
    /// For each kind of thing by its own numbers: the number here and one more, or 0.
    known: [Vec<u32>; 4],
}

impl AnswerNames {
    /// The number of a name.
    fn intern(&mut self, of: NameOf, number: u32, name: impl FnOnce() -> Value) -> i64 {
        let (known, at) = (&mut self.known[of as usize], number as usize);
        if known.len() <= at {
            known.resize(at + 1, 0);
        }
        if known[at] == 0 {
            self.list.insert(self.list.len().to_string(), name());
            known[at] = self.list.len() as u32;
        }
        i64::from(known[at] - 1)
    }
}

fn gaps_of(state: &TraceState, track: usize, level: u32, range: (u64, u64)) -> Vec<Value> {
    let kind = |loss: &LossRange| if loss.kind == LossKind::Events { "events" } else { "packets" };
    let Some(index) = state.index() else { return Vec::new() };
    let losses = tiles::gaps(index, track, level, range);
    let losses = losses.map(|(at, len, loss)| json!([at, len, kind(loss), loss.count]));
    let damage = tiles::damage(index, track, level, range).map(|(at, len)| json!([at, len, "damage", null]));
    losses.chain(damage).collect()
}

/// A track of an answer, as text.
struct TrackText(Out);

impl TrackText {
    fn new(id: &str, kind: &str, is_exact: bool) -> TrackText {
        let mut text = Out::default();
        text.put_fmt(format_args!("{{\"id\":{},\"kind\":\"{kind}\",\"exact\":{is_exact}", json!(id)));
        TrackText(text)
    }

    fn column_of<T>(mut self, name: &str, values: impl Iterator<Item = T>, put: impl Fn(&mut Out, T)) -> Self {
        self.0.put_fmt(format_args!(",\"{name}\":["));
        for (at, value) in values.enumerate() {
            if at > 0 {
                self.0.put_byte(b',');
            }
            put(&mut self.0, value);
        }
        self.0.put_byte(b']');
        self
    }

    /// Most of an answer are numbers.
    fn column(self, name: &str, numbers: impl Iterator<Item = i64>) -> Self {
        self.column_of(name, numbers, Out::put_i64)
    }

    fn density(self, density: &Density, timeline: &Timeline, names: &mut AnswerNames) -> Self {
        let mut number =
            |name: u32| names.intern(NameOf::Event, name, || Value::String(timeline.name(name).to_string()));
        self.column("at", density.at.iter().map(|at| *at as i64))
            .column("n", density.events.iter().map(|events| *events as i64))
            .column("name", density.names.iter().map(|name| number(*name)))
    }

    /// Slices whose names are in a list.
    fn slices(self, slices: &[TimelineSlice], of: NameOf, texts: &[String], names: &mut AnswerNames) -> Self {
        let text = |name: u32| Value::String(texts[name as usize].clone());
        let mut number = |name: u32| names.intern(of, name, || text(name));
        self.column("at", slices.iter().map(|slice| slice.at.max(-(1 << 52))))
            .column("len", slices.iter().map(|slice| slice.len.unwrap_or(-1)))
            .column("depth", slices.iter().map(|slice| slice.depth.into()))
            .column("name", slices.iter().map(|slice| number(slice.name)))
            .column("n", slices.iter().map(|slice| slice.n as i64))
            .column("busy", slices.iter().map(|slice| slice.busy.into()))
    }

    /// Buckets of a counter; their values are finite.
    fn points(self, points: &[Point]) -> Self {
        let put = |out: &mut Out, value: f64| out.put_fmt(format_args!("{value}"));
        self.column("at", points.iter().map(|point| point.at))
            .column_of("min", points.iter().map(|point| point.min), put)
            .column_of("max", points.iter().map(|point| point.max), put)
            .column_of("last", points.iter().map(|point| point.last), put)
    }

    /// Says which lanes of slices are reported, where there are others too.
    fn lanes(mut self, told: Option<(u32, u64)>) -> Self {
        if let Some((first, all)) = told {
            let to = u64::from(first) + u64::from(LANES);
            self.0.put_fmt(format_args!(",\"lanes\":{{\"from\":{first},\"to\":{},\"all\":{all}}}", to.min(all)));
        }
        self
    }

    fn end(mut self, gaps: Vec<Value>) -> Out {
        self.0.put_fmt(format_args!(",\"gaps\":{}}}", Value::Array(gaps)));
        self.0
    }
}

/// Makes the tracks of an answer.
struct TrackList<'a> {
    state: &'a TraceState,
    query: &'a Query,
    timeline: &'a Timeline,
    level: u32,
    /// First and last tile.
    range: (u64, u64),
    /// Their range in ns.
    span: (i128, i128),
    /// The density of base tracks, by index; each once, however many groups hold it.
    densities: BTreeMap<usize, Density>,
    /// The first lane of calls that is reported, when not all are.
    lane: Option<u32>,
    /// Tracks by a value, in the order in which they were asked for: what was not read yet is not known at all.
    of_values: std::vec::IntoIter<Option<Density>>,
    names: AnswerNames,
    is_exact: bool,
}

impl TrackList<'_> {
    /// One track, with its slices where it has some.
    fn text(&mut self, id: &str, one: TrackId, slices: &[TimelineSlice]) -> Answer<Out> {
        Ok(match one {
            TrackId::Base(at) => {
                let known = self.densities.get(&at).cloned().unwrap_or_default();
                let gaps = gaps_of(self.state, at, self.level, self.range);
                self.density(id, "events", &known).end(gaps)
            }
            TrackId::Value => {
                let known = self.of_values.next().flatten().unwrap_or_default();
                self.density(id, "events", &known).end(Vec::new())
            }
            TrackId::Group(trace) => self.group(id, trace),
            TrackId::Calls(task) => {
                let track = TrackText::new(id, "calls", true);
                match self.state.calls() {
                    Some(calls) => {
                        let all = calls.tasks[task].depth;
                        let told = self.lane.filter(|first| *first > 0 || all > LANES.into()).map(|first| (first, all));
                        track.slices(slices, NameOf::Function, &calls.names, &mut self.names).lanes(told)
                    }
                    None => track,
                }
                .end(Vec::new())
            }
            TrackId::State(_) => {
                let track = TrackText::new(id, "state", true);
                match self.state.states() {
                    Some(of) => track.slices(slices, NameOf::State, &of.states.names, &mut self.names),
                    None => track,
                }
                .end(Vec::new())
            }
            TrackId::Plot => self.plot(id)?,
            TrackId::Period => {
                let of = PeriodId::parse(id).ok_or_else(|| ApiError::request("`tracks` is missing"))?;
                let found = periods::find(self.state, &of, &self.query.asker)?;
                let slices = found.states.slices(0, self.level, self.span);
                let track = TrackText::new(id, "state", true);
                track.slices(&slices, NameOf::Period, &found.states.names, &mut self.names).end(Vec::new())
            }
        })
    }

    fn density(&mut self, id: &str, kind: &str, known: &Density) -> TrackText {
        self.is_exact &= known.is_exact;
        TrackText::new(id, kind, known.is_exact).density(known, self.timeline, &mut self.names)
    }

    /// All events of a trace.
    fn group(&mut self, id: &str, trace: usize) -> Out {
        let source = self.state.input.traces.source();
        let own = bases_of(self.state, self.timeline, trace);
        let mut all: Vec<Density> = own.iter().filter_map(|at| self.densities.get(at)).cloned().collect();
        all.extend(tiles::estimate_of(self.timeline, &source, trace, self.level, self.range));
        let gaps = own.into_iter().flat_map(|track| gaps_of(self.state, track, self.level, self.range));
        let gaps = gaps.collect();
        self.density(id, "group", &tiles::together(&all)).end(gaps)
    }

    /// A field, or a counter of the user, over time.
    fn plot(&mut self, id: &str) -> Answer<Out> {
        let shown = plots::find(self.state, id).ok_or_else(|| ApiError::request("`tracks` is missing"))?;
        let what = (self.level, self.range.0, self.range.1);
        let asked = (self.query.is_on("exact"), &self.query.asker);
        let (points, is_read) = plots::tiles(self.state, (id, &shown), self.query.get("filter"), what, asked)?;
        self.is_exact &= is_read;
        Ok(TrackText::new(id, "counter", is_read).points(&points).end(Vec::new()))
    }
}

/// The base tracks of a trace.
fn bases_of(state: &TraceState, timeline: &Timeline, trace: usize) -> Vec<usize> {
    let (known, source) = (timeline.tracks(), state.input.traces.source());
    (0..known.len()).filter(|at| known[*at].who(&source).0 == trace).collect()
}

/// Lanes of calls that are sent together when some are requested: a page shows fewer.
const LANES: u32 = 64;

/// Calls and pieces of states from which on several threads look at them.
const MANY: u64 = 1 << 17;

/// The slices of each track that is asked for, none where it has none. Of calls those of some lanes, or all.
fn slices_of(
    state: &TraceState,
    (asked, first_lane): (&[TrackId], Option<u32>),
    level: u32,
    (begin, end): (i128, i128),
) -> Vec<Vec<TimelineSlice>> {
    let near = |time: i128| time.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let slices = |one: &TrackId| match *one {
        TrackId::Calls(task) => {
            let found = state.calls().map(|calls| calls.slices(&[task], level, (near(begin), near(end))));
            let mut slices: Vec<TimelineSlice> = found.into_iter().flatten().flatten().collect();
            if let Some(first) = first_lane {
                let lanes = first..first.saturating_add(LANES);
                slices.retain(|slice| lanes.contains(&slice.depth));
            }
            slices
        }
        TrackId::State(at) => state.states().map(|of| of.states.slices(at, level, (begin, end))).unwrap_or_default(),
        _ => Vec::new(),
    };
    let size = |one: &TrackId| match *one {
        TrackId::Calls(task) => state.calls().map_or(0, |calls| calls.tasks[task].calls),
        TrackId::State(at) => state.states().map_or(0, |of| of.states.tracks[at].pieces()),
        _ => 0,
    };
    // The largest first: the others fill up what is left of the time.
    let mut order: Vec<usize> = (0..asked.len()).filter(|at| size(&asked[*at]) > 0).collect();
    order.sort_by_key(|at| Reverse(size(&asked[*at])));
    let is_much = order.iter().map(|at| size(&asked[*at])).sum::<u64>() >= MANY;
    let jobs = if is_much { state.input.traces.source().selection.jobs } else { 1 };
    let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![Vec::new(); asked.len()]));
    let work = || {
        while let Some(at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let own = slices(&asked[*at]);
            found.lock().unwrap_or_else(PoisonError::into_inner)[*at] = own;
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(order.len()) {
            // Where the system has no more threads, this one does everything.
            let _ = std::thread::Builder::new().name("slices".into()).spawn_scoped(scope, work);
        }
        work();
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// `tiles`, and whether all of it is exact.
pub(crate) fn tiles(
    state: &TraceState,
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
        return Err(ApiError::request("a request can name at most 64 tracks"));
    }
    let asked = ids.iter().map(|id| find_track(state, id)).collect::<Answer<Vec<TrackId>>>()?;
    // Tracks by a value have their filter in what was read of them.
    let values: Vec<ValueId> = ids.iter().filter_map(|id| ValueId::parse(&state.input.traces, id)).collect();
    let range = (from, to);
    let of_values = groups::densities(state, &values, (level, range), query)?.into_iter();
    let set = if asked.iter().all(|one| *one == TrackId::Value) { None } else { set()? };
    let (timeline, source) = (state.timeline(), state.input.traces.source());
    let mut bases = Vec::new();
    for one in &asked {
        match one {
            TrackId::Base(at) => bases.push(*at),
            TrackId::Group(trace) => bases.extend(bases_of(state, &timeline, *trace)),
            TrackId::Calls(_) | TrackId::State(_) | TrackId::Plot | TrackId::Value | TrackId::Period => {}
        }
    }
    bases.sort_unstable();
    bases.dedup();
    let lane = query.number("lane")?;
    let index = state.index().map(|index| &**index);
    let densities = match index.zip(set) {
        Some((index, set)) => tiles::density_in(index, &bases, level, range, &set),
        None => tiles::density((&timeline, index), &source, &bases, level, range, query.is_on("exact")),
    };
    let (begin, end) = tiles::range(level, from, to);
    let span = (timeline.origin + i128::from(begin), timeline.origin + i128::from(end));
    let slices = slices_of(state, (&asked, lane), level, span);
    let mut tracks = TrackList {
        state,
        query,
        timeline: &timeline,
        level,
        range,
        span,
        densities: bases.into_iter().zip(densities).collect(),
        lane,
        of_values,
        names: AnswerNames::default(),
        is_exact: true,
    };
    let texts = ids.iter().zip(&asked).zip(&slices);
    let texts = texts.map(|((id, one), slices)| tracks.text(id, *one, slices)).collect::<Answer<Vec<Out>>>()?;
    let mut text = Out::default();
    let names = Value::Object(tracks.names.list);
    text.put_fmt(format_args!("{{\"level\":{level},\"from\":{from},\"to\":{to},\"names\":{names},\"tracks\":["));
    for (at, track) in texts.iter().enumerate() {
        if at > 0 {
            text.put_byte(b',');
        }
        text.put(track.written());
    }
    text.put(b"]}");
    // It was made of texts.
    let text = std::str::from_utf8(text.written()).unwrap_or_default().to_string();
    Ok((text, tracks.is_exact))
}
