//! Knowledge of traces that grow is extended: it must be what a new reading gives.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tracemill_answers::{AnswerInput, Growth, Query, Reply, ShownTraces, TraceState, answer, can_grow};
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_live::unfinished::{UnfinishedFiles, leave_unfinished};

#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../../lod/tests/made/mod.rs"]
mod made;

use made::{Event, Folder, Packet};

/// A small generator: every run gives the same numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn opened(path: &Path, jobs: usize) -> ShownTraces {
    let paths = [path.to_path_buf()];
    let mut session =
        Session::open(&UnfinishedFiles::of(&paths), &paths, &OpenOptions::new(FORMATS)).expect("they are right");
    leave_unfinished(&mut session);
    let streams = streams(&session, &[]).expect("all streams");
    ShownTraces::new(session, streams, Selection { jobs, ..Selection::default() }, None)
}

fn fresh(path: &Path, jobs: usize) -> TraceState {
    let state = TraceState::new(AnswerInput::new(opened(path, jobs))).expect("there are random numbers");
    state.read();
    assert!(state.is_complete());
    state
}

/// How a state became one of the files as they are now.
#[derive(PartialEq, Eq, Debug)]
enum StateStep {
    Unchanged,
    Extended,
    Changed,
}

fn next(state: TraceState, path: &Path) -> (TraceState, StateStep) {
    let now = opened(path, 1);
    match state.growth_to(&now) {
        Growth::Unchanged => (state, StateStep::Unchanged),
        Growth::Changed => (fresh(path, 2), StateStep::Changed),
        Growth::Extended(found) => {
            let (timeline, index, _) = *found;
            let state = TraceState::extended(AnswerInput::new(now), &state, (timeline, index));
            state.read();
            assert!(state.is_complete());
            (state, StateStep::Extended)
        }
    }
}

fn ask(state: &TraceState, path: &str, query: &str) -> Value {
    let reply = match answer(state, path, &Query::parse(query)) {
        Ok(reply) => reply,
        Err(error) => panic!("{path}?{query}: {error:?}"),
    };
    let mut value: Value = match reply {
        Reply::Value(value) => value,
        Reply::Text(text, _) => serde_json::from_str(&text).expect("it is JSON"),
    };
    if let Some(value) = value.as_object_mut() {
        value.remove("generation");
    }
    value
}

/// Lists without an order of their own, in one.
fn sorted(mut value: Value) -> Value {
    for key in ["losses", "faults", "warnings"] {
        if let Some(list) = value[key].as_array_mut() {
            list.sort_by_key(Value::to_string);
        }
    }
    value
}

/// Both give the same answers.
fn check(grown: &TraceState, fresh: &TraceState, random: &mut Random) {
    assert_eq!(ask(grown, "session", ""), ask(fresh, "session", ""));
    let tracks = ask(grown, "tracks", "");
    assert_eq!(tracks, ask(fresh, "tracks", ""));
    assert_eq!(sorted(ask(grown, "problems", "")), sorted(ask(fresh, "problems", "")));
    let (own, other) = (grown.index().expect("it is read"), fresh.index().expect("it is read"));
    assert_eq!((own.events(), own.begin, own.end), (other.events(), other.begin, other.end));
    assert_eq!(own.untimed, other.untimed);
    let step = 1 + own.events() / 5000;
    for event in (0..own.events()).step_by(step).chain(own.events().saturating_sub(500)..own.events()) {
        assert_eq!((own.ns(event), own.kind(event)), (other.ns(event), other.kind(event)), "{event}");
    }
    // Rows are read where they stand, from the places that are known.
    for _ in 0..6 {
        let from = random.below(own.events() as u64 + 1);
        let query = format!("from={from}&limit=40");
        assert_eq!(ask(grown, "events", &query), ask(fresh, "events", &query), "{query}");
    }
    let list = tracks["tracks"].as_array().expect("a list");
    let ids = list.iter().filter_map(|of| of["id"].as_str()).collect::<Vec<&str>>().join(",");
    let length = (own.end - own.origin) as u64;
    for level in (random.below(2) as u32..=62).step_by(2) {
        let tiles = length >> (level + 10).min(63);
        // All of them, or some where there are many: the last ones are where a trace has grown.
        let from = random.below(tiles + 1);
        for (from, to) in [(tiles.saturating_sub(8), tiles), (from, tiles.min(from + 8))] {
            let exact = ["", "&exact=1"][random.below(2) as usize];
            let query = format!("tracks={ids}&level={level}&from={from}&to={to}{exact}");
            assert_eq!(ask(grown, "tiles", &query), ask(fresh, "tiles", &query), "{query}");
        }
    }
    for _ in 0..2 {
        let (a, b) = (random.below(length + 1), random.below(length + 1));
        let (begin, end) = (own.origin + i128::from(a.min(b)), own.origin + i128::from(a.max(b)));
        let query = format!("begin={begin}&end={end}");
        assert_eq!(ask(grown, "select", &query), ask(fresh, "select", &query), "{query}");
    }
    assert_eq!(ask(grown, "select", ""), ask(fresh, "select", ""));
}

/// A trace that is copied in pieces.
struct Copied {
    /// It goes when the test ends.
    _folder: Folder,
    to: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

impl Copied {
    fn new(streams: &[Vec<Packet>]) -> Copied {
        let folder = Folder::new();
        let (from, to) = (folder.trace("whole", streams), folder.trace("growing", &[]));
        let read = |at: usize| fs::read(from.join(format!("stream_{at}"))).expect("it is there");
        let files = (0..streams.len()).map(|at| (format!("stream_{at}"), read(at))).collect();
        Copied { _folder: folder, to, files }
    }

    /// So much of each file is there now.
    fn write(&self, lens: &[usize]) {
        for ((name, bytes), len) in self.files.iter().zip(lens).filter(|(_, len)| **len > 0) {
            fs::write(self.to.join(name), &bytes[..*len]).expect("there is room");
        }
    }
}

fn packets(events: Vec<Event>, each: usize) -> Vec<Packet> {
    events.chunks(each).map(|events| Packet::new(events.to_vec())).collect()
}

/// Events of a thread, from one time on, about so far apart.
fn ticks(random: &mut Random, (from, count, apart): (u64, usize, u64), thread: i32) -> Vec<Event> {
    let mut time = from;
    let mut tick = || {
        time += random.below(2 * apart) + u64::from(random.below(400) == 0) * 40 * apart;
        ((2 + random.below(3)) as u8, time, thread)
    };
    (0..count).map(|_| tick()).collect()
}

#[test]
fn traces_that_grow_in_pieces_are_as_if_read_anew() {
    let random = &mut Random(7);
    let start = 1_000_000_000;
    let busy = packets(ticks(random, (start, 70_000, 100), 1), 500);
    let other = packets(ticks(random, (start + 5, 24_000, 290), 2), 300);
    // One begins late, and one has little to say.
    let late = packets(ticks(random, (start + 5_000_000, 4_000, 400), 3), 200);
    let quiet = packets(ticks(random, (start + 3, 60, 120_000), 4), 2);
    let copied = Copied::new(&[busy, other, late, quiet]);
    let mut lens = vec![0; copied.files.len()];
    let mut state: Option<TraceState> = None;
    let (mut extended, rounds) = (0, 6);
    for round in 0..=rounds {
        for (at, (_, bytes)) in copied.files.iter().enumerate() {
            // The shares are about equal, and cut anywhere.
            let share = bytes.len() as u64 * round / rounds;
            let is_behind = random.below(4) == 0;
            let wanted = if is_behind { lens[at] as u64 } else { share + random.below(3000) };
            lens[at] = match round == rounds {
                true => bytes.len(),
                false => (wanted as usize).clamp(lens[at], bytes.len()),
            };
        }
        // At its time, not before.
        if round < 5 {
            lens[2] = 0;
        }
        if lens.iter().all(|len| *len < 20_000) {
            continue;
        }
        copied.write(&lens);
        let (now, step) = match state.take() {
            None => (fresh(&copied.to, 2), StateStep::Changed),
            Some(before) => next(before, &copied.to),
        };
        extended += usize::from(step == StateStep::Extended);
        check(&now, &fresh(&copied.to, 2), random);
        let (now, step) = next(now, &copied.to);
        assert_eq!(step, StateStep::Unchanged);
        state = Some(now);
    }
    assert!(extended >= 4, "{extended}");
    let events = state.and_then(|state| Some(state.index()?.events()));
    assert_eq!(events, Some(98_060));
}

#[test]
fn odd_traces_and_calls_grow_too() {
    let random = &mut Random(11);
    let mut streams = made::odd_streams();
    // Packets that come before others that are there already: an old part that changed.
    streams.remove(3);
    let mut calls = Vec::new();
    for at in 0..900u64 {
        let id = if at % 2 == 0 { made::ENTRY } else { made::EXIT };
        calls.push((id, 5_000_000_000 + at * 40_000, 9));
    }
    streams.push(packets(calls, 100));
    let copied = Copied::new(&streams);
    let mut lens = vec![0; copied.files.len()];
    let mut state: Option<TraceState> = None;
    let mut steps = Vec::new();
    for round in 1..=6 {
        for (at, (_, bytes)) in copied.files.iter().enumerate() {
            let wanted = bytes.len() as u64 * round / 6 + random.below(500);
            lens[at] = if round == 6 { bytes.len() } else { (wanted as usize).min(bytes.len()).max(lens[at]) };
        }
        copied.write(&lens);
        let (now, step) = match state.take() {
            None => (fresh(&copied.to, 1), StateStep::Changed),
            Some(before) => next(before, &copied.to),
        };
        steps.push(step);
        check(&now, &fresh(&copied.to, 2), random);
        state = Some(now);
    }
    assert!(steps.iter().filter(|step| **step == StateStep::Extended).count() == 5, "{steps:?}");
    let calls = state.as_ref().and_then(|state| Some(state.calls()?.tasks.iter().map(|task| task.calls).sum::<u64>()));
    assert_eq!(calls, Some(450));
}

/// A packet of which so many events are there: it is allocated, and more.
fn slot(whole: &[u8], events: usize, more: usize) -> Vec<u8> {
    const HEADER: usize = 32;
    const EVENT: usize = 13;
    let mut bytes = whole.to_vec();
    let content = HEADER + events * EVENT;
    let last = HEADER + (events - 1) * EVENT + 1;
    bytes.copy_within(last..last + 8, 8);
    bytes[16..24].copy_from_slice(&(content as u64 * 8).to_le_bytes());
    bytes[24..32].copy_from_slice(&((whole.len() + more) as u64 * 8).to_le_bytes());
    bytes[content..].fill(0);
    bytes.resize(whole.len() + more, 0);
    bytes
}

#[test]
fn packets_that_fill_up_are_read_on() {
    let random = &mut Random(5);
    let streams = [(3, 900, 1000), (9, 80_000, 12), (40, 700, 700)];
    let streams = streams.map(|(from, count, apart)| packets(ticks(random, (from, count, apart), 1), count));
    let copied = Copied::new(&streams);
    let counts = [900, 80_000, 700];
    let mut state: Option<TraceState> = None;
    for round in 1..=6 {
        for (at, (name, whole)) in copied.files.iter().enumerate() {
            // Of the first stream nothing is new for some time.
            let share = if at == 0 && (2..5).contains(&round) { 2 } else { round };
            fs::write(copied.to.join(name), slot(whole, counts[at] * share / 6, 64)).expect("there is room");
        }
        let (now, step) = match state.take() {
            None => (fresh(&copied.to, 1), StateStep::Extended),
            Some(before) => next(before, &copied.to),
        };
        assert_eq!(step, StateStep::Extended);
        check(&now, &fresh(&copied.to, 2), random);
        state = Some(now);
    }
}

#[test]
fn an_old_part_that_changed_is_no_growth() {
    let random = &mut Random(3);
    let streams = [0, 1].map(|at| packets(ticks(random, (50 + at, 4000, 90), 1), 100));
    let copied = Copied::new(&streams);
    let half = |at: usize| copied.files[at].1.len() / 2;
    let lens = [half(0), half(1)];
    let steps = |change: &dyn Fn()| {
        copied.write(&lens);
        let state = fresh(&copied.to, 1);
        change();
        next(state, &copied.to).1
    };
    let patch = |place: usize| {
        let mut bytes = copied.files[0].1[..half(0) + 9000].to_vec();
        bytes[place] ^= 1;
        fs::write(copied.to.join("stream_0"), bytes).expect("there is room");
    };
    assert_eq!(steps(&|| copied.write(&[half(0) + 9000, half(1)])), StateStep::Extended);
    // The begin of the first packet; then a file is shorter, and one is away.
    assert_eq!(steps(&|| patch(0)), StateStep::Changed);
    assert_eq!(steps(&|| copied.write(&[half(0) / 2, half(1)])), StateStep::Changed);
    assert_eq!(steps(&|| fs::remove_file(copied.to.join("stream_1")).expect("it is there")), StateStep::Changed);
    // Something that is before the origin.
    let early = Folder::new();
    let early = early.trace("early", &[packets(vec![(2, 7, 1)], 1)]);
    let add = || fs::copy(early.join("stream_0"), copied.to.join("stream_9")).expect("there is room");
    assert_eq!(steps(&|| assert_ne!(add(), 0)), StateStep::Changed);
}

#[test]
fn lines_of_json_grow() {
    let folder = Folder::new();
    let line = |at: u64| format!("{{\"ns\":{},\"name\":\"n{}\",\"payload\":{{\"x\":{at}}}}}\n", 1000 + at * 7, at % 3);
    let lines: String = (0..9000).map(line).collect();
    let path = folder.file("lines.jsonl", &lines.as_bytes()[..180_000]);
    let mut state = fresh(&path, 1);
    assert!(can_grow(&opened(&path, 1).source()));
    let random = &mut Random(1);
    for len in [180_300, 300_001, lines.len()] {
        fs::write(&path, &lines.as_bytes()[..len]).expect("there is room");
        let (now, step) = next(state, &path);
        assert_eq!(step, StateStep::Extended, "{len}");
        check(&now, &fresh(&path, 1), random);
        state = now;
    }
}

/// Calls of uftrace, whose records come in pieces that end anywhere, and whose tasks are written down late.
#[test]
fn data_folders_of_uftrace_grow() {
    let folder = Folder::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/calls/tasting");
    let to = folder.file("place", b"").with_file_name("tasting");
    fs::create_dir(&to).expect("it is new");
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for entry in fs::read_dir(&from).expect("the demo is there").flatten() {
        let (to, bytes) = (to.join(entry.file_name()), fs::read(entry.path()).expect("it can be read"));
        let is_of_records = to.extension().is_some_and(|extension| extension == "dat");
        // The list of tasks is there after the program has ended.
        let is_list = to.file_name().is_some_and(|name| name == "task.txt");
        if is_of_records || is_list {
            files.push((to, bytes));
        } else {
            fs::write(to, bytes).expect("there is room");
        }
    }
    let random = &mut Random(13);
    let mut lens = vec![0; files.len()];
    let (mut state, mut extended): (Option<TraceState>, _) = (None, 0);
    for round in 1..=8 {
        for (at, (path, bytes)) in files.iter().enumerate() {
            let wanted = bytes.len() as u64 * round / 8 + random.below(20);
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            lens[at] = match round {
                8 => bytes.len(),
                // Whole records come from the system.
                _ if name.starts_with("perf") => 0,
                2.. if name == "task.txt" => bytes.len(),
                _ => (wanted as usize).min(bytes.len()),
            };
            fs::write(path, &bytes[..lens[at]]).expect("there is room");
        }
        let (now, step) = match state.take() {
            None => (fresh(&to, 1), StateStep::Changed),
            Some(before) => next(before, &to),
        };
        extended += usize::from(step == StateStep::Extended);
        assert_eq!(now.index().map(|index| index.faults.len()), Some(0), "round {round}");
        check(&now, &fresh(&to, 2), random);
        state = Some(now);
    }
    let calls = state.as_ref().and_then(|state| Some(state.calls()?.tasks.iter().map(|task| task.calls).sum::<u64>()));
    assert!(calls > Some(60), "{calls:?}");
    assert!(extended >= 4, "{extended}");
}

/// Events that a program records are in a ring first, then in the file of the stream: packets fill up, and move.
#[cfg(unix)]
#[test]
fn rings_of_a_program_that_records_grow() {
    use tracemill_record::{Recorder, event};

    let folder = Folder::new();
    let path = folder.file("place", b"").with_file_name("run.ctf");
    let recorder = Recorder::options(&path).block(64 << 10).packet(4096).start().expect("it starts");
    let random = &mut Random(2);
    let mut state: Option<TraceState> = None;
    let mut number = 0u64;
    let mut extended = 0;
    for round in 0..8 {
        for _ in 0..40 + 300 * (round % 3) {
            event!("step", number = number);
            number += 1;
        }
        if round == 4 {
            let own = std::thread::spawn(|| event!("once", at = 4_u32));
            own.join().expect("it ends");
            number += 1;
        }
        let (now, step) = match state.take() {
            None => (fresh(&path, 1), StateStep::Changed),
            Some(before) => next(before, &path),
        };
        extended += usize::from(step == StateStep::Extended);
        let events = now.index().map(|index| index.events());
        assert_eq!((events, step == StateStep::Unchanged), (Some(number as usize), false), "{round}");
        check(&now, &fresh(&path, 2), random);
        state = Some(now);
    }
    recorder.finish().expect("it ends well");
    let (now, _) = next(state.expect("it was shown"), &path);
    assert_eq!(now.index().map(|index| index.events()), Some(number as usize));
    check(&now, &fresh(&path, 2), random);
    assert!(extended >= 6, "{extended}");
}
