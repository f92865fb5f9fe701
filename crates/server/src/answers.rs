//! Answers to the questions of a page.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};
use tracemill_lod::calls::{Calls, OfFunction, Slice};
use tracemill_lod::search::{self, Direction};
use tracemill_lod::statistics::{self, Part};
use tracemill_lod::tiles::{self, MAX_LEVEL};
use tracemill_lod::{EventSet, Index, Loss, LossKind, Timeline};

use crate::error::{Answer, ApiError};
use crate::measures;
use crate::rows::{self, Row};
use crate::shared::Shared;

/// The parameters of a question.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Query {
        Query(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The value of a parameter; an empty one is none.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Answer<Option<T>> {
        let parse =
            |text: &str| text.parse().map_err(|_| ApiError::request(format!("`{name}` is no number: `{text}`")));
        self.get(name).map(parse).transpose()
    }

    pub(crate) fn needed<T: FromStr>(&self, name: &str) -> Answer<T> {
        self.number(name)?.ok_or_else(|| ApiError::request(format!("`{name}` is missing")))
    }

    fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0")
    }
}

/// An answer.
pub(crate) enum Reply {
    Value(Value),
    /// An object as text, and whether it is exact and may be kept.
    Text(String, bool),
}

/// The answer to a question.
pub(crate) fn answer(shared: &Shared, path: &str, query: &Query) -> Answer<Reply> {
    let set = || query.get("filter").map(|text| shared.set(text)).transpose();
    let value = match path {
        "session" => Ok(session(shared)),
        "tracks" => tracks(shared, set()?.as_deref()),
        "tiles" => {
            let (text, is_exact) = tiles_of(shared, query, set()?.as_deref())?;
            return Ok(Reply::Text(text, is_exact));
        }
        "events" => events(shared, query, set()?.as_deref()),
        // They look at all that is chosen.
        "select" | "flame" if shared.is_complete() => {
            let question = format!("{path} {} {:?}", shared.generation(), query.0);
            let answer = || match path {
                "flame" => flame(shared, query),
                _ => select(shared, query, set()?.as_deref()),
            };
            let text = shared.kept.answer(question, || Ok(answer()?.to_string()))?;
            return Ok(Reply::Text(text.to_string(), true));
        }
        "select" => select(shared, query, set()?.as_deref()),
        "flame" => flame(shared, query),
        "search" => find(shared, query, set()?.as_deref()),
        "pairs" => measures::pairs(shared, query, set()?.as_deref()),
        "outliers" => measures::outliers(shared, query, set()?.as_deref()),
        "locate" => locate(shared, query, set()?.as_deref()),
        "problems" => Ok(problems(shared)),
        _ => match path.split_once('/') {
            Some(("event", number)) => event(shared, number),
            Some(("call", place)) => call(shared, place),
            _ => Err(ApiError::new(404, "path", format!("`{path}` is not answered"))),
        },
    };
    value.map(Reply::Value)
}

pub(crate) fn ns(ns: impl ToString) -> Value {
    Value::String(ns.to_string())
}

pub(crate) fn some_ns(time: Option<impl ToString>) -> Value {
    time.map_or(Value::Null, ns)
}

// ---- Session and tracks -------------------------------------------------------------------------------------------

/// How far the index is.
pub(crate) fn progress(shared: &Shared) -> Value {
    if shared.is_complete() {
        return json!({ "state": "complete", "done": 1 });
    }
    let timeline = shared.timeline();
    let numbered = shared.progress.events.load(Ordering::Relaxed);
    let all = timeline.events();
    // Counting and numbering take about as long as each other.
    let done = timeline.done(&shared.progress) / 2.0 + all.map_or(0.0, |all| numbered as f64 / all.max(1) as f64 / 2.0);
    let (is_begun, _) = timeline.is_counted();
    json!({ "state": if is_begun { "counting" } else { "estimate" }, "done": done.min(0.99), "events": all })
}

fn session(shared: &Shared) -> Value {
    let input = &shared.input;
    let (index, timeline) = (shared.index(), shared.timeline());
    let tracks = timeline.tracks();
    let (begin, end) = shared.ends();
    let source = input.traces.source();
    let traces = input.traces.session.traces.iter().enumerate().map(|(at, trace)| {
        let own = || tracks.iter().filter(|track| track.who(&source).0 == at).map(|track| track.counted());
        let ranges = || own().flatten().filter_map(|track| track.range);
        let is_known = timeline.is_known(&source, at);
        json!({
            "index": at,
            "name": trace.name,
            "path": trace.path.display().to_string(),
            "format": trace.schema.format,
            "begin": some_ns(ranges().map(|(first, _)| first).min().filter(|_| is_known)),
            "end": some_ns(ranges().map(|(_, last)| last).max().filter(|_| is_known)),
            "events": is_known.then(|| own().flatten().map(|track| track.events).sum::<u64>()),
        })
    });
    let lost = |kind: LossKind| {
        let losses = index.into_iter().flat_map(|index| &index.losses).filter(move |loss| loss.kind == kind);
        losses.map(|loss| loss.count.unwrap_or(0)).sum::<u64>()
    };
    let faults = input.problems.0.len() + index.map_or(0, |index| index.faults.len());
    let mut features = vec!["select", "search", "pairs", "outliers"];
    if shared.input.cut.is_some() {
        features.push("export");
    }
    if shared.calls().is_some() {
        features.push("calls");
    }
    if shared.states().is_some_and(|kept| !kept.states.tracks.is_empty()) {
        features.push("states");
    }
    json!({
        "api": 1,
        "program": input.program,
        "clock": if input.traces.is_unix { "unix" } else { "none" },
        "origin": ns(timeline.origin),
        "begin": some_ns(begin),
        "end": some_ns(end),
        "events": timeline.events(),
        "traces": traces.collect::<Vec<_>>(),
        "losses": { "events": lost(LossKind::Events), "packets": lost(LossKind::Packets) },
        "faults": faults,
        "index": progress(shared),
        "features": features,
        "command": input.command,
    })
}

/// The id of a base track, of the calls of a task, of the group of a trace.
pub(crate) fn base_id(track: usize) -> String {
    format!("b{track}")
}

fn calls_id(task: usize) -> String {
    format!("c{task}")
}

fn group_id(trace: usize) -> String {
    format!("g{trace}")
}

/// Something that an id names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Base(usize),
    Calls(usize),
    Group(usize),
    State(usize),
}

fn named(shared: &Shared, id: &str) -> Answer<Named> {
    if let Some(track) = shared.states().and_then(|kept| kept.find(id)) {
        return Ok(Named::State(track));
    }
    let found = id.split_at_checked(1).and_then(|(kind, number)| {
        let number: usize = number.parse().ok()?;
        match kind {
            "b" => (number < shared.timeline().tracks().len()).then_some(Named::Base(number)),
            "c" => (number < shared.calls()?.tasks.len()).then_some(Named::Calls(number)),
            "g" => (number < shared.input.traces.session.traces.len()).then_some(Named::Group(number)),
            _ => None,
        }
    });
    found.ok_or_else(|| ApiError::new(404, "track", format!("there is no track `{id}`")))
}

/// The tracks of a list of ids.
fn named_in(shared: &Shared, query: &Query) -> Answer<Option<Vec<Named>>> {
    let Some(list) = query.get("tracks") else { return Ok(None) };
    list.split(',').map(|id| named(shared, id)).collect::<Answer<Vec<_>>>().map(Some)
}

/// The base track of a task: the stream that is called like it, up to a point.
fn base_of(shared: &Shared, calls: &Calls, task: usize) -> Option<usize> {
    let task = &calls.tasks[task];
    let (timeline, source, name) = (shared.timeline(), shared.input.traces.source(), task.tid.to_string());
    let is_it = |(trace, own): (usize, &str)| trace == task.trace && own.split('.').next() == Some(&*name);
    timeline.tracks().iter().position(|track| is_it(track.who(&source)))
}

fn tracks(shared: &Shared, set: Option<&EventSet>) -> Answer {
    let (timeline, source) = (shared.timeline(), shared.input.traces.source());
    let (index, known) = (shared.index(), timeline.tracks());
    let counts: Option<Vec<u64>> = index.zip(set).map(|(index, set)| {
        let mut counts = vec![0; index.tracks.len()];
        (0..set.len()).filter_map(|rank| index.kind(set.select(rank)?)).for_each(|(_, track)| counts[track] += 1);
        counts
    });
    let events_of = |track: usize| match &counts {
        Some(counts) => Some(counts[track]),
        None => known[track].counted().map(|track| track.events),
    };
    let losses = |track: usize| {
        let of = |kind: LossKind| {
            let losses = index.into_iter().flat_map(|index| &index.losses);
            let own = losses.filter(move |loss| loss.track == Some(track) && loss.kind == kind);
            own.map(|loss| loss.count.unwrap_or(0)).sum::<u64>()
        };
        json!({ "events": of(LossKind::Events), "packets": of(LossKind::Packets) })
    };
    let mut list = Vec::new();
    let mut bases: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    known.iter().enumerate().for_each(|(at, track)| bases.entry(track.who(&source).0).or_default().push(at));
    for (at, trace) in shared.input.traces.session.traces.iter().enumerate() {
        let bases = bases.get(&at).map_or(&[][..], |bases| bases);
        let events: Option<u64> = match timeline.is_known(&source, at) {
            true => bases.iter().map(|base| events_of(*base)).sum(),
            false => None,
        };
        list.push(json!({
            "id": group_id(at), "parent": null, "kind": "group", "base": false, "name": trace.name, "trace": at,
            "events": events,
        }));
        let tasks = shared.calls().into_iter().flat_map(|calls| calls.tasks.iter().enumerate());
        for (task, of) in tasks.filter(|(_, of)| of.trace == at && of.calls > 0) {
            let base = shared.calls().and_then(|calls| base_of(shared, calls, task));
            let name = if of.name.is_empty() { of.tid.to_string() } else { format!("{} {}", of.name, of.tid) };
            list.push(json!({
                "id": calls_id(task), "parent": group_id(at), "kind": "calls", "base": false, "name": name, "trace": at,
                "events": null, "calls": of.calls, "depth": of.depth, "of": base.map(base_id),
            }));
        }
        if let Some(kept) = shared.states() {
            list.extend(kept.tracks(at, &group_id(at)));
        }
        for &base in bases {
            let track = &known[base];
            list.push(json!({
                "id": base_id(base), "parent": group_id(at), "kind": "events", "base": true,
                "name": track.who(&source).1, "trace": at, "events": events_of(base),
                "untimed": track.counted().map(|track| track.untimed), "losses": losses(base),
            }));
        }
    }
    Ok(json!({ "tracks": list }))
}

// ---- Tiles --------------------------------------------------------------------------------------------------------

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

    fn column(mut self, name: &str, numbers: impl Iterator<Item = i64>) -> Self {
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
            .column("depth", slices.iter().map(|slice| slice.depth.into()))
            .column("name", slices.iter().map(|slice| number(slice.name)))
            .column("n", slices.iter().map(|slice| slice.n as i64))
            .column("busy", slices.iter().map(|slice| slice.busy.into()))
    }

    fn end(self, gaps: Vec<Value>) -> String {
        format!("{},\"gaps\":{}}}", self.0, Value::Array(gaps))
    }
}

fn tiles_of(shared: &Shared, query: &Query, set: Option<&EventSet>) -> Answer<(String, bool)> {
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
            Named::Calls(_) | Named::State(_) => Vec::new(),
        })
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    let densities = match shared.index().zip(set) {
        Some((index, set)) => tiles::density_in(index, &wanted, level, range, set),
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

// ---- Events -------------------------------------------------------------------------------------------------------

fn row_json(index: &Index, row: &Row, before: Option<Option<i128>>, with_json: bool) -> Value {
    let time = index.ns(row.event);
    let (name, track) = index.kind(row.event).unwrap_or_default();
    let since = before.flatten().zip(time).map(|(before, time)| time - before);
    let mut value = json!({
        "event": row.event,
        "ns": some_ns(time),
        "since": some_ns(since),
        "name": name,
        "title": name,
        "trace": index.tracks[track].trace,
        "track": base_id(track),
        "cpu": row.value.get("cpu").cloned().unwrap_or_default(),
        "text": row.text,
    });
    if with_json {
        value["json"] = row.json.clone().into();
    }
    value
}

fn events(shared: &Shared, query: &Query, set: Option<&EventSet>) -> Answer {
    let limit = query.number("limit")?.unwrap_or(100usize).min(1000);
    let at: Option<i128> = query.number("at")?;
    let from: Option<usize> = query.number("from")?;
    let index = shared.whole_index()?;
    let total = set.map_or(index.events(), EventSet::len);
    let from = match (at, from) {
        (Some(at), _) => index.first_from(at).map_or(total, |event| set.map_or(event, |set| set.rank(event))),
        (None, from) => from.unwrap_or(0),
    };
    let event = |rank: usize| set.map_or((rank < total).then_some(rank), |set| set.select(rank));
    let wanted: Vec<usize> = (from..from.saturating_add(limit).min(total)).filter_map(event).collect();
    let read = rows::read(shared, Some(index), &wanted)?;
    let mut before = from.checked_sub(1).and_then(event).map(|event| index.ns(event));
    let with_json = query.is_on("json");
    let rows = read.iter().map(|row| {
        let value = row_json(index, row, before, with_json);
        before = Some(index.ns(row.event));
        value
    });
    let rows: Vec<Value> = rows.collect();
    Ok(json!({ "total": total, "from": from, "rows": rows }))
}

fn event(shared: &Shared, number: &str) -> Answer {
    let number: usize = number.parse().map_err(|_| ApiError::request(format!("`{number}` is no number")))?;
    let index = shared.whole_index()?;
    if number >= index.events() {
        return Err(ApiError::new(404, "event", format!("there is no event {number}")));
    }
    let before = number.checked_sub(1).map(|before| index.ns(before));
    let read = rows::read(shared, Some(index), &[number])?;
    let row = &read[0];
    let mut value = row_json(index, row, before, true);
    let fields = rows::fields(&row.value).into_iter();
    let fields = fields.map(|(path, text, kind)| json!({ "path": path, "text": text, "kind": kind, "base": 10 }));
    value["cycles"] = some_ns(row.cycles);
    value["fields"] = fields.collect::<Vec<_>>().into();
    let place = &row.place;
    value["place"] = json!({ "file": place.file, "packet": place.packet, "byte": ns(place.byte), "bit": place.bit });
    value["call"] = Value::Null;
    Ok(value)
}

// ---- Statistics ---------------------------------------------------------------------------------------------------

/// A wanted range in ns: `None` for everything.
pub(crate) fn range_of(query: &Query, index: &Index) -> Answer<Option<(i128, i128)>> {
    let (begin, end): (Option<i128>, Option<i128>) = (query.number("begin")?, query.number("end")?);
    if begin.is_none() && end.is_none() {
        return Ok(None);
    }
    let range = (begin.unwrap_or(index.begin), end.unwrap_or(index.end));
    if range.0 > range.1 {
        return Err(ApiError::request("the range ends before it begins"));
    }
    Ok(Some(range))
}

/// The base tracks and the tasks of a question: a base track stands for its calls too, and a group for all of its trace.
pub(crate) fn chosen(shared: &Shared, index: &Index, query: &Query) -> Answer<Option<(Vec<usize>, Vec<usize>)>> {
    let Some(list) = named_in(shared, query)? else { return Ok(None) };
    let (mut bases, mut tasks) = (Vec::new(), Vec::new());
    let count = shared.calls().map_or(0, |calls| calls.tasks.len());
    let base_of_task = |task: usize| shared.calls().and_then(|calls| base_of(shared, calls, task));
    for one in list {
        match one {
            Named::Base(base) => {
                bases.push(base);
                tasks.extend((0..count).filter(|task| base_of_task(*task) == Some(base)));
            }
            Named::Calls(task) => {
                tasks.push(task);
                bases.extend(base_of_task(task));
            }
            // States have no events of their own.
            Named::State(_) => {}
            Named::Group(trace) => {
                bases.extend((0..index.tracks.len()).filter(|base| index.tracks[*base].trace == trace));
                let own = |task: &usize| shared.calls().is_some_and(|calls| calls.tasks[*task].trace == trace);
                tasks.extend((0..count).filter(own));
            }
        }
    }
    for list in [&mut bases, &mut tasks] {
        list.sort_unstable();
        list.dedup();
    }
    Ok(Some((bases, tasks)))
}

fn absolute(range: Option<(i128, i128)>, index: &Index) -> (i64, i64) {
    let (begin, end) = range.unwrap_or((index.begin, index.end));
    let time = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    (time(begin), time(end))
}

fn function_json(calls: &Calls, of: OfFunction) -> Value {
    let durations = of.durations();
    let [p50, p90, p99] = [50, 90, 99].map(|p| some_ns(of.percentile(p)));
    json!({
        "name": calls.names[of.name as usize],
        "calls": of.calls,
        "whole": of.whole(),
        "total": ns(of.total),
        "self": ns(of.own),
        "min": some_ns(durations.map(|(min, _, _)| min)),
        "mean": some_ns(durations.map(|(_, mean, _)| mean)),
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "max": some_ns(durations.map(|(_, _, max)| max)),
    })
}

fn select(shared: &Shared, query: &Query, set: Option<&EventSet>) -> Answer {
    let index = shared.whole_index()?;
    let range = range_of(query, index)?;
    let chosen = chosen(shared, index, query)?;
    let (bases, tasks) = (chosen.as_ref().map(|(bases, _)| &**bases), chosen.as_ref().map(|(_, tasks)| &**tasks));
    let sums = statistics::sums(index, Part { range, tracks: bases, set });
    let names = sums.names.iter().map(|of| {
        let gap = |at: fn(&(i64, i64, i64)) -> i64| some_ns(of.gaps.as_ref().map(at));
        json!({
            "name": index.names[of.name as usize], "events": of.events,
            "gap_min": gap(|gaps| gaps.0), "gap_p50": gap(|gaps| gaps.1), "gap_max": gap(|gaps| gaps.2),
        })
    });
    let names: Vec<Value> = names.collect();
    let (begin, end) = range.unwrap_or((index.begin, index.end));
    let mut answer = json!({
        "begin": ns(begin),
        "end": ns(end),
        "events": sums.events,
        "tracks": bases.map_or(index.tracks.len(), <[usize]>::len),
        "losses": { "events": sums.losses.0, "packets": sums.losses.1, "intervals": sums.losses.2 },
        "complete": shared.is_complete(),
        "names": names,
    });
    if let Some(calls) = shared.calls() {
        let rows = calls.statistics(absolute(range, index), tasks);
        answer["calls"] = rows.into_iter().map(|of| function_json(calls, of)).collect::<Vec<_>>().into();
    }
    Ok(answer)
}

fn flame(shared: &Shared, query: &Query) -> Answer {
    let index = shared.whole_index()?;
    let range = absolute(range_of(query, index)?, index);
    let chosen = chosen(shared, index, query)?;
    let Some(calls) = shared.calls() else { return Ok(json!({ "nodes": [] })) };
    let stacks = calls.stacks(range, chosen.as_ref().map(|(_, tasks)| &**tasks));
    let nodes = stacks.iter().enumerate().map(|(at, of)| {
        json!({
            "id": at,
            "parent": (at > 0).then_some(of.parent),
            "name": of.name.map_or("", |name| &calls.names[name as usize]),
            "calls": of.calls,
            "total": ns(of.total),
            "self": ns(of.own),
        })
    });
    Ok(json!({ "nodes": nodes.collect::<Vec<_>>() }))
}

fn call(shared: &Shared, place: &str) -> Answer {
    let wrong = || ApiError::new(404, "call", format!("there is no call `{place}`"));
    let (track, number) = place.split_once('/').ok_or_else(wrong)?;
    let (Named::Calls(task), Some(calls)) = (named(shared, track)?, shared.calls()) else { return Err(wrong()) };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let call = calls.call(task, number).ok_or_else(wrong)?;
    let whole = (calls.begin, calls.end);
    let of_name = calls.statistics(whole, None).into_iter().find(|of| of.name == call.name);
    let duration = call.end.map(|end| end - call.begin);
    Ok(json!({
        "name": calls.names[call.name as usize],
        "symbol": calls.names[call.name as usize],
        "begin": ns(call.begin),
        "end": some_ns(call.end),
        "duration": some_ns(duration),
        "self": some_ns(duration.map(|duration| duration - call.inner)),
        "parent": call.parent,
        "depth": call.depth,
        "args": null,
        "retval": null,
        "module": null,
        "all": of_name.map(|of| function_json(calls, of)),
    }))
}

// ---- Search and problems ------------------------------------------------------------------------------------------

/// An event that was found.
fn matched(index: &Index, event: usize) -> Option<Value> {
    let (name, track) = index.kind(event)?;
    Some(json!({ "event": event, "ns": some_ns(index.ns(event)), "track": base_id(track), "name": name }))
}

fn find(shared: &Shared, query: &Query, set: Option<&EventSet>) -> Answer {
    let text = query.get("q").unwrap_or_default();
    let from: i64 = query.number("from")?.unwrap_or(-1);
    let is_next = match query.get("direction") {
        None | Some("next") => true,
        Some("previous") => false,
        Some(other) => return Err(ApiError::request(format!("`direction` is next or previous, not `{other}`"))),
    };
    let index = shared.whole_index()?;
    if query.is_on("fields") {
        // How many there are would be known when all of them have been read.
        let event = rows::search(shared, index, text, from, is_next, set);
        return Ok(json!({ "match": event.and_then(|event| matched(index, event)), "index": null, "count": null }));
    }
    let found = search::find(index, text, from, is_next, set);
    let matched = found.event.and_then(|event| matched(index, event));
    let at = matched.as_ref().map(|_| found.index);
    Ok(json!({ "match": matched, "index": at, "count": found.count }))
}

fn locate(shared: &Shared, query: &Query, set: Option<&EventSet>) -> Answer {
    let index = shared.whole_index()?;
    let at: i128 = query.needed("at")?;
    let direction = match query.get("direction") {
        Some("next") => Direction::Next,
        Some("previous") => Direction::Previous,
        None | Some("nearest") => Direction::Nearest,
        Some(other) => return Err(ApiError::request(format!("`direction` is not `{other}`"))),
    };
    let id = query.get("track").ok_or_else(|| ApiError::request("`track` is missing"))?;
    let found = match named(shared, id)? {
        Named::Base(track) => search::locate(index, track, at, direction, set).map(|(event, time)| {
            let name = index.kind(event).map(|(name, _)| name);
            json!({ "event": event, "track": id, "ns": ns(time), "begin": ns(time), "end": ns(time), "name": name })
        }),
        Named::Calls(task) => {
            let time = at.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            shared.calls().and_then(|calls| Some((calls, calls.locate(task, time, direction)?))).map(|(calls, call)| {
                json!({
                    "call": call.number, "track": id, "ns": ns(call.begin), "begin": ns(call.begin), "end": some_ns(call.end),
                    "name": calls.names[call.name as usize],
                })
            })
        }
        Named::State(track) => shared.states().and_then(|kept| {
            let piece = kept.states.locate(track, at, direction, query.number("depth").ok()?)?;
            Some(json!({
                "event": null, "track": id, "ns": ns(piece.from), "begin": ns(piece.from), "end": ns(piece.to),
                "name": kept.states.names[piece.name as usize], "depth": piece.depth,
            }))
        }),
        Named::Group(_) => None,
    };
    Ok(found.unwrap_or_else(|| json!({ "event": null, "begin": null, "end": null })))
}

fn problems(shared: &Shared) -> Value {
    let index = shared.index();
    let losses = index.into_iter().flat_map(|index| &index.losses).map(|loss| {
        json!({
            "track": loss.track.map(base_id),
            "kind": if loss.kind == LossKind::Events { "events" } else { "packets" },
            "count": loss.count,
            "begin": some_ns(loss.begin.or(loss.end)),
            "end": some_ns(loss.end.or(loss.begin)),
        })
    });
    let fault = |error: &tracemill_model::error::Error, after: Option<i128>| {
        json!({
            "file": error.place().file.as_ref().map(|file| file.display().to_string()),
            "offset": some_ns(error.place().offset),
            "reason": error.message(),
            "track": null,
            "ns": some_ns(after),
        })
    };
    let of_opening = shared.input.problems.0.iter().map(|error| fault(error, None));
    let of_reading = index.into_iter().flat_map(|index| &index.faults).map(|of| fault(&of.error, of.after));
    // Those who follow calls read the same packets.
    let known: HashSet<String> =
        index.into_iter().flat_map(|index| &index.faults).map(|of| of.error.to_string()).collect();
    let of_calls = shared.calls().into_iter().flat_map(|calls| &calls.faults);
    let of_calls = of_calls.filter(|error| !known.contains(&error.to_string())).map(|error| fault(error, None));
    let mut warnings = shared.input.problems.1.clone();
    let of_index = index.into_iter().flat_map(|index| &index.warnings);
    let of_index = of_index.chain(shared.calls().into_iter().flat_map(|calls| &calls.warnings));
    let of_states = shared.states().into_iter().flat_map(|kept| kept.states.left_out.iter().cloned());
    for warning in of_index.map(|warning| warning.message().to_string()).chain(of_states) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    json!({
        "losses": losses.collect::<Vec<_>>(),
        "faults": of_opening.chain(of_reading).chain(of_calls).collect::<Vec<_>>(),
        "warnings": warnings,
    })
}
