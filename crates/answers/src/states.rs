//! States of CPUs and threads: the machine of states of `analyze`, and its tracks.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tracemill_analyses::kernel::{Analysis, Reading, ReportKind, ReportTimes, SeenEvent, Table};
use tracemill_engine::event::Event;
use tracemill_engine::trace_calls::TraceCalls;
use tracemill_lod::states::{Of, StateKind, States, StatesBuilder, Track, UNKNOWN, has_cpu_events};
use tracemill_semantics::Concept;
use tracemill_semantics::states::{CpuIndex, CpuPiece, Machines, Ns, Observer, ThreadPiece, Woken};

use crate::custom_tracks::{CustomCounter, CustomKeeper, ShownTimes};
use crate::error::{Answer, ApiError};
use crate::query::{Query, ns};
use crate::readings;
use crate::traces::ShownTraces;

/// Wakes that are reported for one question.
const MAX_WAKES: usize = 1000;

/// States, and where their tracks stand.
pub struct StateTracks {
    /// The states.
    pub states: States,
    /// The first trace of each machine: its group holds the tracks. `None` where nothing is known of the machine, as of one
    /// whose programs were traced and not its kernel.
    pub traces: Vec<Option<usize>>,
    /// Counters that the user defines.
    pub(crate) counters: Vec<CustomCounter>,
    /// The states that occur, as a page receives them.
    present: OnceLock<Value>,
}

/// Follows the states of all machines, and the user's counters, whose times are counted from `origin` on. `None` when no trace
/// has any, and when `stop` was set.
pub(crate) fn follow(traces: &ShownTraces, origin: Ns, stop: &Arc<AtomicBool>) -> Option<StateTracks> {
    let reading = Reading::new(readings::input(traces, stop));
    let has = reading.concepts();
    let tells = [Concept::Switch, Concept::IrqEntry, Concept::SoftEntry].iter().any(|concept| has.contains(concept));
    let all = 0..traces.session.traces.len();
    let has_cpus = |trace: &usize| traces.session.traces[*trace].reader.calls().is_some_and(has_cpu_events);
    let recordings: Vec<usize> = all.clone().filter(has_cpus).collect();
    if !tells && recordings.is_empty() && traces.custom.is_none() {
        return None;
    }
    let mut firsts = readings::first_traces(&reading, traces);
    if !readings::has_all_events(traces) {
        let text = "states of CPUs and threads are not shown: a filter leaves out events that change them";
        let mut states = States::default();
        states.left_out.push(text.to_string());
        return Some(StateTracks::new(states, Vec::new()));
    }
    let found = Rc::new(RefCell::new((States::default(), None)));
    let range = (traces.selection.begin_ns, traces.selection.end_ns);
    let mut builder = StatesBuilder::new(range);
    // Where there are several traces nothing says which of them goes on until then.
    let last = traces.ends.1.filter(|_| traces.session.traces.len() == 1);
    let (custom, mistake) = CustomKeeper::new(traces, ShownTimes { origin, begin: range.0, end: range.1 });
    let tellers = recordings.len() + usize::from(tells || custom.is_some());
    for (turn, trace) in recordings.iter().copied().enumerate() {
        let ShownTraces { session, streams, selection, .. } = traces;
        let calls = TraceCalls::open(session, trace, streams, selection, None);
        // Its CPUs are no machine's that others tell of.
        let machine = firsts.len() as u32;
        builder.begin_source(turn, tellers);
        if calls.is_some_and(|calls| builder.add_running(machine, &calls, last, stop)) {
            firsts.push(trace);
        }
    }
    if tells || custom.is_some() {
        builder.begin_source(tellers - 1, tellers);
        let keeper = Keeper { builder, found: found.clone(), tells, custom };
        // Losses and faults are reported by the index.
        reading.run(vec![Box::new(keeper)], &mut |_| ControlFlow::Continue(())).ok()?;
    } else {
        found.borrow_mut().0 = builder.closed();
    }
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let (mut states, custom) = found.take();
    let (counters, left_out) = custom.map(|custom: CustomKeeper| custom.counters(&firsts)).unwrap_or_default();
    states.left_out.extend(mistake.into_iter().chain(left_out));
    if states.tracks.is_empty() && states.left_out.is_empty() && counters.is_empty() {
        return None;
    }
    let is_known = |machine: usize| {
        let mut own = states.tracks.iter().enumerate().filter(|(_, track)| track.machine as usize == machine);
        own.any(|(at, _)| states.pieces(at).any(|piece| piece.name != UNKNOWN))
    };
    let traces = firsts.iter().enumerate().map(|(machine, first)| is_known(machine).then_some(*first)).collect();
    Some(StateTracks { counters, ..StateTracks::new(states, traces) })
}

/// Looks on while the events pass.
struct Keeper {
    builder: StatesBuilder,
    /// Do events tell of CPUs and threads?
    tells: bool,
    custom: Option<CustomKeeper>,
    /// The states that were found, and the follower of the user's definitions.
    found: Rc<RefCell<(States, Option<CustomKeeper>)>>,
}

impl Observer for Keeper {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        self.builder.cpu_piece(machines, piece);
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        self.builder.thread_piece(machines, piece);
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        self.builder.woken(machines, woken);
    }
}

impl Analysis for Keeper {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        let reports: &[ReportKind] = match (self.tells, &self.custom) {
            (true, None) => &[ReportKind::CpuPiece, ReportKind::ThreadPiece, ReportKind::Woken],
            (true, Some(_)) => &[ReportKind::CpuPiece, ReportKind::ThreadPiece, ReportKind::Woken, ReportKind::Event],
            (false, _) => &[ReportKind::Event],
        };
        (reports, ReportTimes::All)
    }

    fn on_event<'e>(
        &mut self,
        machines: &Machines,
        machine: u32,
        cpu: Option<CpuIndex>,
        event: &dyn Fn() -> Event<'e>,
        at: Ns,
    ) {
        if let Some(custom) = &mut self.custom {
            custom.take(&SeenEvent { machines, machine, cpu, at }, event, &mut self.builder);
        }
    }

    fn finish(mut self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        if let (Some(custom), Some((_, end))) = (&self.custom, range) {
            custom.finish(end, &mut self.builder);
        }
        *self.found.borrow_mut() = (self.builder.finish(machines), self.custom);
        Table::default()
    }
}

/// The state of a CPU that has no other one.
const IDLE: &str = "idle";

impl StateTracks {
    pub(crate) fn new(states: States, traces: Vec<Option<usize>>) -> StateTracks {
        StateTracks { states, traces, counters: Vec::new(), present: OnceLock::new() }
    }

    /// The word for a state.
    pub(crate) fn word(&self, name: Option<u32>) -> &str {
        name.map_or(IDLE, |name| &self.states.names[name as usize])
    }

    /// The states that occur, of CPUs and of threads.
    pub(crate) fn present(&self) -> &Value {
        self.present.get_or_init(|| {
            let present = self.states.present(&self.shown_tracks().collect::<Vec<_>>());
            let of = |kind: StateKind| -> Vec<&str> {
                present.iter().filter(|(own, _)| *own == kind).map(|(_, name)| self.word(*name)).collect()
            };
            json!({ "cpus": of(StateKind::Cpu), "threads": of(StateKind::Thread) })
        })
    }

    /// `activity`: for how long each thread ran, the busiest first; those that did not run are not there.
    pub(crate) fn activity(&self, query: &Query) -> Answer {
        let range = (query.needed("begin")?, query.needed("end")?);
        let busy = self.shown_tracks().map(|track| (self.states.running(track, range), track));
        let mut busy: Vec<(i64, usize)> = busy.filter(|(busy, _)| *busy > 0).collect();
        busy.sort_by_key(|(busy, track)| (Reverse(*busy), *track));
        let rows = busy.into_iter().map(|(busy, track)| json!({ "id": self.id(track), "busy": ns(busy) }));
        Ok(json!({ "tracks": rows.collect::<Vec<_>>() }))
    }

    /// `state`: the nearest piece of time after a time, or before it, whose state has the text in its name.
    pub(crate) fn find_state(&self, query: &Query) -> Answer {
        let text = query.get("name").ok_or_else(|| ApiError::request("`name` is missing"))?.to_lowercase();
        let at: i128 = query.needed("at")?;
        let is_next = query.get("direction") != Some("previous");
        let tracks: Vec<usize> = self.shown_tracks().collect();
        let is_meant = |name: u32| self.states.names[name as usize].to_lowercase().contains(&text);
        let Some((track, piece)) = self.states.find_state(&tracks, &is_meant, at, is_next) else {
            return Ok(json!({ "event": null, "begin": null, "end": null }));
        };
        Ok(json!({
            "event": null, "track": self.id(track), "ns": ns(piece.from), "begin": ns(piece.from), "end": ns(piece.to),
            "name": self.word(Some(piece.name)), "depth": piece.depth,
        }))
    }

    /// The id of a track: the same whenever these traces are opened.
    pub(crate) fn id(&self, track: usize) -> String {
        let track = &self.states.tracks[track];
        match track.of {
            Of::Cpu(number) => format!("s{}.cpu{number}", track.machine),
            Of::Thread(tid, life) => format!("s{}.{tid}.{life}", track.machine),
            Of::Custom(definition, key) => format!("s{}.x{definition}.{key}", track.machine),
        }
    }

    /// The track that an id names.
    pub(crate) fn find(&self, id: &str) -> Option<usize> {
        let (machine, rest) = id.strip_prefix('s')?.split_once('.')?;
        let machine: u32 = machine.parse().ok()?;
        let of = match (rest.strip_prefix("cpu"), rest.split_once('.')) {
            (Some(number), _) => Of::Cpu(number.parse().ok()?),
            (None, Some((first, key))) => match first.strip_prefix('x') {
                Some(definition) => Of::Custom(definition.parse().ok()?, key.parse().ok()?),
                None => Of::Thread(first.parse().ok()?, key.parse().ok()?),
            },
            (None, None) => return None,
        };
        self.states.tracks.iter().position(|track| track.machine == machine && track.of == of)
    }

    /// The machines that have a thread of a number, in their order.
    pub(crate) fn machines_of(&self, tid: i64) -> Vec<u32> {
        let is_own = |track: &&Track| matches!(track.of, Of::Thread(own, _) if own == tid);
        let found: BTreeSet<u32> = self.states.tracks.iter().filter(is_own).map(|track| track.machine).collect();
        found.into_iter().collect()
    }

    /// The track of the thread that a machine had under a number at a time.
    pub(crate) fn thread_at(&self, machine: u32, tid: i64, at: i128) -> Option<usize> {
        self.life_at(&self.lives_of(machine, tid), at)
    }

    /// The tracks of the threads that a machine had under a number, in the order of time.
    pub(crate) fn lives_of(&self, machine: u32, tid: i64) -> Vec<usize> {
        let is_own = |track: &Track| track.machine == machine && matches!(track.of, Of::Thread(own, _) if own == tid);
        self.states.tracks.iter().enumerate().filter(|(_, track)| is_own(track)).map(|(at, _)| at).collect()
    }

    /// The last one of the lives of a number that has begun at a time; the first one when none has.
    pub(crate) fn life_at(&self, lives: &[usize], at: i128) -> Option<usize> {
        let has_begun = |track: &&usize| self.states.ends(**track).is_some_and(|(from, _)| from <= at);
        lives.iter().rfind(has_begun).or(lives.first()).copied()
    }

    /// `wakeups`: who woke the thread of a track, and whom it woke.
    pub(crate) fn wakeups(&self, id: &str, query: &Query) -> Answer {
        let track = self.find(id).ok_or_else(|| ApiError::new(404, "track", format!("there is no track `{id}`")))?;
        let range = (query.number("begin")?.unwrap_or(i128::MIN), query.number("end")?.unwrap_or(i128::MAX));
        let mut wakes = self.states.wakes(track, range);
        let shown = wakes.by_ref().take(MAX_WAKES).map(|wake| {
            let from = wake.waker.map(|waker| self.id(waker));
            json!({ "ns": ns(wake.at), "from": from, "to": self.id(wake.woken) })
        });
        let shown: Vec<Value> = shown.collect();
        Ok(json!({ "wakeups": shown, "left_out": wakes.count() }))
    }

    /// The tracks that stand below any group.
    pub fn shown_tracks(&self) -> impl Iterator<Item = usize> {
        let is_shown =
            |at: &usize| self.traces.get(self.states.tracks[*at].machine as usize).copied().flatten().is_some();
        (0..self.states.tracks.len()).filter(is_shown)
    }

    /// The tracks that stand below the group of a trace.
    pub fn tracks_of(&self, trace: usize) -> impl Iterator<Item = usize> {
        let is_own = move |at: &usize| self.traces.get(self.states.tracks[*at].machine as usize) == Some(&Some(trace));
        (0..self.states.tracks.len()).filter(is_own)
    }

    /// Tracks below the group of a trace. `group` names that.
    pub(crate) fn tracks(&self, trace: usize, group: &str) -> impl Iterator<Item = Value> {
        self.tracks_of(trace).map(move |at| {
            let track = &self.states.tracks[at];
            let parent = track.parent.map_or_else(|| group.to_string(), |parent| self.id(parent));
            json!({
                "id": self.id(at), "parent": parent, "kind": "state", "base": false, "name": track.name, "trace": trace,
                "events": null, "states": track.pieces(), "depth": track.depth(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use tracemill_analyses::kernel::{AnalysisQuery, BoundCustom, Cell, CustomDefinitions, Descriptor, FormWord, View};
    use tracemill_engine::selection::streams;
    use tracemill_engine::session::{OpenOptions, Session};
    use tracemill_engine::source::FileSystem;
    use tracemill_engine::timeline::Selection;
    use tracemill_formats::FORMATS;
    use tracemill_lod::search::Direction;

    use tracemill_lod::calls::TimelineSlice;

    use super::*;
    use crate::traces::ShownCustom;

    /// Follows states; times of counters are counted from the first event on.
    fn follow(traces: &ShownTraces, stop: &Arc<AtomicBool>) -> Option<StateTracks> {
        super::follow(traces, traces.ends.0.unwrap_or(0), stop)
    }

    fn opened(selection: Selection) -> ShownTraces {
        opened_all(&["kernel/bakery"], selection)
    }

    fn opened_all(names: &[&str], selection: Selection) -> ShownTraces {
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
        let paths: Vec<_> = names.iter().map(|name| demo.join(name)).collect();
        let session = Session::open(&FileSystem, &paths, &OpenOptions::new(FORMATS)).expect("the options are right");
        let streams = streams(&session, &[]).expect("all streams");
        ShownTraces::new(session, streams, selection, None)
    }

    /// Begin, end and state of the rows of `analyze states`, by CPU or thread, without times when a CPU is idle.
    fn analyzed(traces: &ShownTraces) -> BTreeMap<Of, Vec<(i128, i128, String)>> {
        let Selection { begin_ns, end_ns, .. } = traces.selection;
        let asked = AnalysisQuery { begin: begin_ns, end: end_ns, ..AnalysisQuery::default() };
        let analysis = (Descriptor::find("states").expect("it is there").make)(&asked);
        let tables = Reading::new(readings::input(traces, &Arc::default()))
            .run(vec![analysis], &mut |_| ControlFlow::Continue(()))
            .expect("there are times");
        let table = &tables[0];
        let column = |name: &str| table.columns.iter().position(|column| column.name == name).expect(name);
        let [cpu, tid, from, to, status, state] = ["cpu", "tid", "from", "to", "status", "state"].map(column);
        let mut rows: BTreeMap<Of, Vec<(i128, i128, String)>> = BTreeMap::new();
        for cells in table.rows.cells() {
            let number = |at: usize| match cells[at] {
                Cell::Integer(number) => Some(number),
                _ => None,
            };
            let word = [status, state].into_iter().find_map(|at| match &cells[at] {
                Cell::Null => None,
                cell => Some(format!("{cell:?}").split('"').nth(1).expect("a text").to_string()),
            });
            let of = match number(cpu) {
                Some(cpu) => Of::Cpu(cpu as u64),
                None => Of::Thread(number(tid).expect("a thread") as i64, 0),
            };
            let word = match &*word.expect("a state") {
                "idle" | "DEAD" => continue,
                "syscall" | "RUN/syscall" => "system call",
                "irq" | "INTERRUPTED" => "interrupt",
                "WAIT_CPU" => "runnable",
                "WAIT" => "blocked",
                "WAIT_FORK" => "new",
                "EXIT" => "exiting",
                "ZOMBIE" => "zombie",
                "SUSPENDED" => "suspended",
                other => other.trim_start_matches("RUN/"),
            }
            .to_string();
            rows.entry(of).or_default().push((number(from).expect("a time"), number(to).expect("a time"), word));
        }
        rows
    }

    #[test]
    fn tracks_show_the_rows_of_analyze() {
        let ns = |milliseconds: i128| Some(1_795_249_870_250_020_000 + milliseconds * 1_000_000);
        for (begin_ns, end_ns) in [(None, None), (ns(100), ns(300))] {
            let traces = opened(Selection { begin_ns, end_ns, ..Selection::default() });
            let kept = follow(&traces, &Arc::default()).expect("a kernel's trace");
            let rows = analyzed(&traces);
            let tracks = &kept.states.tracks;
            assert_eq!(
                tracks.iter().map(|track| track.of).collect::<Vec<_>>(),
                rows.keys().copied().collect::<Vec<_>>()
            );
            for (at, track) in tracks.iter().enumerate() {
                let last = track.depth() as u32 - 1;
                let pieces = kept.states.pieces(at).filter(|piece| piece.depth == last);
                let shown = pieces.map(|piece| (piece.from, piece.to, kept.states.names[piece.name as usize].clone()));
                assert_eq!(shown.collect::<Vec<_>>(), rows[&track.of], "{}", track.name);
                assert_eq!(kept.find(&kept.id(at)), Some(at));
            }
        }
    }

    #[test]
    fn statistics_are_those_of_the_rows_of_analyze() {
        let traces = opened(Selection::default());
        let kept = follow(&traces, &Arc::default()).expect("a kernel's trace");
        let states = &kept.states;
        let rows = analyzed(&traces);
        let (begin, end) = (1_795_249_870_250_020_000i128, 1_795_249_870_821_503_448i128);
        let tracks: Vec<usize> = kept.shown_tracks().collect();
        let middle = (begin + 150_000_000, begin + 400_000_000);
        for range in [None, Some((begin, end)), Some(middle), Some((begin - 5, begin - 1))] {
            let all = range.unwrap_or((begin, end));
            let mut wanted: BTreeMap<(StateKind, String), (u64, i128, Vec<i128>)> = BTreeMap::new();
            for (of, pieces) in &rows {
                let kind = if matches!(of, Of::Cpu(_)) { StateKind::Cpu } else { StateKind::Thread };
                let mut add = |from: i128, to: i128, name: &str| {
                    if from <= all.1 && to > all.0 {
                        let sums = wanted.entry((kind, name.to_string())).or_default();
                        sums.0 += 1;
                        sums.1 += to.min(all.1) - from.max(all.0);
                        sums.2.extend((all.0 <= from && to <= all.1).then_some(to - from));
                    }
                };
                pieces.iter().for_each(|(from, to, name)| add(*from, *to, name));
                if kind == StateKind::Cpu {
                    // Rows without a state were left out above: these are when the CPU is idle.
                    let mut since = begin;
                    for (from, to) in pieces.iter().map(|(from, to, _)| (*from, *to)).chain([(end, end)]) {
                        if since < from {
                            add(since, from, "idle");
                        }
                        since = to;
                    }
                }
            }
            let found = states.statistics(range, &tracks, &|| false).expect("somebody waits");
            let found: Vec<_> = found.iter().filter(|of| of.kind != StateKind::Running).collect();
            assert_eq!(found.len(), wanted.len(), "{range:?}");
            for of in found {
                let name = of.name.map_or("idle", |name| &states.names[name as usize]).to_string();
                let (pieces, total, durations) = wanted.get_mut(&(of.kind, name.clone())).expect(&name);
                durations.sort_unstable();
                assert_eq!(
                    (of.pieces, of.total, of.complete_count()),
                    (*pieces, *total, durations.len() as u64),
                    "{name}"
                );
                for p in [50, 90, 99] {
                    let rank = (durations.len() * p).div_ceil(100).max(1) - 1;
                    assert_eq!(of.percentile(p as u64).map(i128::from), durations.get(rank).copied(), "{name} p{p}");
                }
                let ends = of.durations().map(|(min, _, max)| (min.into(), max.into()));
                assert_eq!(ends, durations.first().copied().zip(durations.last().copied()), "{name}");
            }
        }
        // A CPU runs a task as long as it is in no other state.
        let one = states.statistics(None, &[0], &|| false).expect("somebody waits");
        let sum = |kind: StateKind| one.iter().filter(|of| of.kind == kind).map(|of| of.total).sum::<i128>();
        assert_eq!((sum(StateKind::Cpu), sum(StateKind::Thread)), (end - begin, 0));
        assert!(sum(StateKind::Running) > 0);
        assert!(states.statistics(None, &tracks, &|| true).is_none(), "nobody waits");
    }

    #[test]
    fn slices_hold_every_piece_once_and_all_of_its_time() {
        let traces = opened(Selection::default());
        let kept = follow(&traces, &Arc::default()).expect("a kernel's trace");
        let (begin, end) = (1_795_249_870_250_020_000, 1_795_249_870_900_000_000);
        for (at, track) in kept.states.tracks.iter().enumerate() {
            let pieces: Vec<_> = kept.states.pieces(at).collect();
            for level in [0, 6, 10, 14, 20, 24, 40] {
                let slices = kept.states.slices(at, level, (begin, end));
                assert_eq!(slices.iter().map(|slice| slice.n).sum::<u64>(), track.pieces(), "level {level}");
                // Long ones alone, short ones together by lane and bucket.
                let mut wanted = Vec::new();
                let mut short: BTreeMap<(u32, i128), (u64, i128, i128, u32)> = BTreeMap::new();
                for piece in &pieces {
                    let (bucket, length) = ((piece.from - begin) >> level, piece.to - piece.from);
                    if length >> level > 0 {
                        let len = ((piece.to - begin) >> level) - bucket;
                        wanted.push((piece.depth, bucket as i64, len as i64, 1, piece.name, 255));
                        continue;
                    }
                    let (n, sum, longest, name) = short.entry((piece.depth, bucket)).or_insert((0, 0, -1, 0));
                    (*n, *sum) = (*n + 1, *sum + length);
                    if length > *longest {
                        (*longest, *name) = (length, piece.name);
                    }
                }
                wanted.extend(short.into_iter().map(|((depth, bucket), (n, sum, _, name))| {
                    (depth, bucket as i64, 1, n, name, ((sum * 255) >> level).clamp(1, 255) as u8)
                }));
                wanted.sort_unstable();
                let found = |slice: &TimelineSlice| {
                    (slice.depth, slice.at, slice.len.expect("an end"), slice.n, slice.name, slice.busy)
                };
                let mut found: Vec<_> = slices.iter().map(found).collect();
                found.sort_unstable();
                assert_eq!(found, wanted, "{} at level {level}", track.name);
                // A part of the range has what reaches into it.
                let middle = begin + 250_000_000;
                let after = kept.states.slices(at, level, (middle, end));
                let wanted = pieces.iter().filter(|piece| piece.to > middle).count() as u64;
                assert_eq!(after.iter().map(|slice| slice.n).sum::<u64>(), wanted, "level {level}");
            }
        }
    }

    #[test]
    fn threads_stand_below_their_parents() {
        let kept = follow(&opened(Selection::default()), &Arc::default()).expect("a kernel's trace");
        let tracks: Vec<Value> = kept.tracks(0, "g0").collect();
        let parent = |id: &str| tracks.iter().find(|track| track["id"] == id).expect(id)["parent"].clone();
        assert_eq!((parent("s0.cpu1"), parent("s0.1.0")), ("g0".into(), "g0".into()));
        // oven-1 is a thread of counter, a child of systemd; weigh was made by clerk.
        assert_eq!(parent("s0.641.0"), "s0.640.0");
        assert_eq!((parent("s0.640.0"), parent("s0.9000.0")), ("s0.1.0".into(), "s0.520.0".into()));
    }

    #[test]
    fn a_piece_is_found_at_a_time_and_beside_it() {
        let kept = follow(&opened(Selection::default()), &Arc::default()).expect("a kernel's trace");
        let track = kept.find("s0.641.0").expect("oven-1");
        let pieces: Vec<_> = kept.states.pieces(track).collect();
        assert!(pieces.len() > 200);
        for (at, piece) in pieces.iter().enumerate() {
            let find = |ns, direction| kept.states.locate(track, ns, direction, None);
            assert_eq!(find(piece.from, Direction::Nearest), Some(*piece));
            assert_eq!(find(piece.to - 1, Direction::Nearest), Some(*piece));
            assert_eq!(find(piece.from, Direction::Next), pieces.get(at + 1).copied());
            assert_eq!(find(piece.from, Direction::Previous), at.checked_sub(1).map(|before| pieces[before]));
        }
        assert_eq!(kept.states.locate(track, i128::MIN, Direction::Nearest, None), Some(pieces[0]));
        assert_eq!(kept.states.locate(track, i128::MAX, Direction::Next, None), None);
    }

    #[test]
    fn a_trace_of_programs_beside_one_of_a_kernel_has_no_states() {
        let traces = opened_all(&["traces/mill", "kernel/bakery"], Selection::default());
        let found = follow(&traces, &Arc::default()).expect("one of them is of a kernel");
        let alone = follow(&opened(Selection::default()), &Arc::default()).expect("it is of a kernel");
        let tracks = |found: &StateTracks, trace: usize| found.tracks(trace, "g").count();
        let bakery = (traces.session.traces.iter()).position(|trace| trace.path.ends_with("bakery")).expect("its name");
        assert_eq!((tracks(&found, 1 - bakery), tracks(&found, bakery)), (0, tracks(&alone, 0)));
    }

    #[test]
    fn a_cpu_without_events_is_said_to_be_missing() {
        let mut traces = opened(Selection::default());
        traces.streams = streams(&traces.session, &["channel0_0".to_string()]).expect("there is such a stream");
        let kept = follow(&traces, &Arc::default()).expect("a kernel's trace");
        let said = &kept.states.left_out;
        assert!(said.iter().any(|text| text.starts_with("events of cpu 1 are missing")), "{said:?}");
        // No thread is shown to wait for longer than it does with all events.
        let all = follow(&opened(Selection::default()), &Arc::default()).expect("a kernel's trace");
        let track = all.find("s0.643.0").expect("oven-log");
        let whole: Vec<_> = all.states.pieces(track).collect();
        let part = kept.find("s0.643.0").expect("oven-log");
        for piece in kept.states.pieces(part).filter(|piece| piece.name != UNKNOWN) {
            let is_same = |own: &&tracemill_lod::states::StatePiece| {
                own.from <= piece.from && piece.to <= own.to && own.name == piece.name
            };
            assert!(whole.iter().any(|own| is_same(&own)), "{piece:?}");
        }
    }

    /// Traces with the states that a text defines.
    fn with_custom(name: &str, text: &str) -> ShownTraces {
        let definitions = CustomDefinitions::read(Path::new("own.states"), text).expect("it is right");
        let custom = ShownCustom { definitions: Arc::new(definitions), gmt: true };
        ShownTraces { custom: Some(Arc::new(custom)), ..opened_all(&[name], Selection::default()) }
    }

    #[test]
    fn states_of_the_user_have_a_track_for_each_key() {
        let text = "states order by payload.id\non orders:taken -> pricing\non orders:priced -> packing\non orders:sent -> end\n";
        let traces = with_custom("traces/orders", text);
        let kept = follow(&traces, &Arc::default()).expect("it has such states");
        assert!(kept.states.left_out.is_empty(), "{:?}", kept.states.left_out);
        // The pieces are the visits that the analysis lists.
        let bound = BoundCustom::new(&traces.custom.as_ref().expect("given").definitions, &traces.session, true);
        let custom = Some(Rc::new(bound.expect("it fits")));
        let asked = AnalysisQuery { custom, view: View::Log, ..AnalysisQuery::default() };
        let analysis = (Descriptor::find("custom").expect("it is there").make)(&asked);
        let reading = Reading::new(readings::input(&traces, &Arc::default()));
        let tables = reading.run(vec![analysis], &mut |_| ControlFlow::Continue(())).expect("there are times");
        let mut wanted: BTreeMap<String, Vec<(i128, i128, String)>> = BTreeMap::new();
        for row in tables[0].rows.cells() {
            let [Cell::Text(name), Cell::Integer(id), Cell::Text(state), Cell::Integer(from), Cell::Integer(to), ..] =
                &row[..]
            else {
                panic!("{row:?}")
            };
            wanted.entry(format!("{name} {id}")).or_default().push((*from, *to, state.to_string()));
        }
        let tracks = kept.states.tracks.iter().enumerate().map(|(at, track)| {
            let pieces =
                kept.states.pieces(at).map(|piece| (piece.from, piece.to, kept.word(Some(piece.name)).to_string()));
            assert_eq!(kept.find(&kept.id(at)), Some(at));
            (track.name.clone(), pieces.collect::<Vec<_>>())
        });
        assert_eq!(tracks.collect::<BTreeMap<_, _>>(), wanted);
        assert_eq!((wanted.len(), kept.tracks(0, "g0").count()), (160, 160));
        let range = (i128::MIN, i128::MAX);
        let sums =
            kept.states.statistics(None, &kept.shown_tracks().collect::<Vec<_>>(), &|| false).expect("somebody waits");
        assert!(sums.iter().all(|of| of.kind == StateKind::Custom) && sums.len() == 2, "{}", sums.len());
        assert_eq!(kept.states.running(0, range), 0, "no thread runs");
    }

    /// Times and values of the rows of `analyze custom --of counters --log`, by the counters' names and keys.
    fn changes(traces: &ShownTraces) -> BTreeMap<String, Vec<(i128, f64)>> {
        let bound = BoundCustom::new(&traces.custom.as_ref().expect("given").definitions, &traces.session, true);
        let custom = Some(Rc::new(bound.expect("it fits")));
        let words = vec![FormWord::Counters];
        let asked = AnalysisQuery { custom, words, view: View::Log, ..AnalysisQuery::default() };
        let analysis = (Descriptor::find("custom").expect("it is there").make)(&asked);
        let reading = Reading::new(readings::input(traces, &Arc::default()));
        let tables = reading.run(vec![analysis], &mut |_| ControlFlow::Continue(())).expect("there are times");
        let mut found: BTreeMap<String, Vec<(i128, f64)>> = BTreeMap::new();
        for row in tables[0].rows.cells() {
            let [Cell::Text(name), key, Cell::Integer(at), value] = &row[..] else { panic!("{row:?}") };
            let value = match value {
                Cell::Integer(value) => *value as f64,
                Cell::Real(value) => *value,
                _ => continue,
            };
            let name = if let Cell::Integer(id) = key { format!("{name} {id}") } else { name.to_string() };
            found.entry(name).or_default().push((*at, value));
        }
        found
    }

    #[test]
    fn counters_of_the_user_have_a_track_for_each_key() {
        let text = "counter open\non orders:taken -> +1\non orders:sent -> -1\n\
                    counter cents by payload.id\non orders:priced if payload.id < 5 -> = cents\non orders:sent -> end\n";
        let mut traces = with_custom("traces/orders", text);
        let wanted = changes(&traces);
        let kept = follow(&traces, &Arc::default()).expect("it has such counters");
        assert!(kept.states.tracks.is_empty() && kept.states.left_out.is_empty(), "{:?}", kept.states.left_out);
        let (begin, end) = (traces.ends.0.expect("a time"), traces.ends.1.expect("a time"));
        let origin = begin;
        let found = |kept: &StateTracks| -> BTreeMap<String, Vec<(i128, f64)>> {
            let values = |counter: &CustomCounter| {
                let (before, points) = counter.counter.buckets(0, (0, (end - origin) as i64));
                assert_eq!(before, None);
                points.iter().map(|point| (origin + i128::from(point.at), point.last)).collect()
            };
            kept.counters.iter().map(|counter| (counter.name.clone(), values(counter))).collect()
        };
        assert_eq!(found(&kept), wanted);
        assert_eq!(wanted.len(), 5);
        let ids: BTreeSet<&str> = kept.counters.iter().map(CustomCounter::id).collect();
        assert_eq!(ids.len(), 5);
        // In a part of the time they begin with the value that they have then.
        let (first, last) = (begin + (end - begin) / 3, begin + (end - begin) / 2);
        (traces.selection.begin_ns, traces.selection.end_ns) = (Some(first), Some(last));
        let part = found(&follow(&traces, &Arc::default()).expect("it has such counters"));
        let open = &wanted["open"];
        let at_first = open.iter().rfind(|(at, _)| *at < first).map(|(_, value)| (first, *value));
        let inside = open.iter().filter(|(at, _)| (first..=last).contains(at)).copied();
        assert_eq!(part["open"], at_first.into_iter().chain(inside).collect::<Vec<_>>());
    }

    #[test]
    fn more_counters_than_are_shown_are_said_to_be_left_out() {
        let traces = with_custom("traces/orders", "counter n by payload.id\non orders:* -> +1\n");
        let kept = follow(&traces, &Arc::default()).expect("it has such counters");
        let all = changes(&traces).len();
        assert_eq!(kept.counters.len(), 64);
        let text = format!("custom counters of {} keys are not shown: those of the first 64 are", all - 64);
        assert_eq!(kept.states.left_out, [text]);
    }

    #[test]
    fn states_of_the_user_stand_beside_those_of_the_kernel() {
        let text = "states sleeper by prev_tid\non sched_switch if prev_state != 0 -> away\non sched_switch by next_tid -> end\n";
        let traces = with_custom("kernel/bakery", text);
        let kept = follow(&traces, &Arc::default()).expect("a kernel's trace");
        let alone = follow(&opened(Selection::default()), &Arc::default()).expect("a kernel's trace");
        let named = |of: &StateTracks, is_custom: bool| -> BTreeMap<String, Vec<(i128, i128, String)>> {
            let tracks = of.states.tracks.iter().enumerate();
            let own = tracks.filter(|(_, track)| matches!(track.of, Of::Custom(..)) == is_custom);
            let pieces =
                |at: usize| of.states.pieces(at).map(|piece| (piece.from, piece.to, of.word(Some(piece.name)).into()));
            own.map(|(at, _)| (of.id(at), pieces(at).collect())).collect()
        };
        assert_eq!(named(&kept, false), named(&alone, false));
        assert!(named(&kept, true).len() > 5);
    }

    #[test]
    fn a_filter_leaves_no_states() {
        let mut traces = opened(Selection::default());
        let expression = tracemill_engine::filter::Expression::parse("cpu == 0").expect("a filter");
        let times = tracemill_engine::parsed_query::times(&traces.session, false, expression.needs());
        traces.filter = Some(expression.bind(&traces.session, &times).expect("it fits"));
        let kept = follow(&traces, &Arc::default()).expect("a kernel's trace");
        assert!(kept.states.tracks.is_empty());
        assert_eq!(kept.states.left_out.len(), 1);
    }
}
