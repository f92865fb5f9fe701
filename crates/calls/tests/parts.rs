//! The results do not depend on the number of threads that follow tasks.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use tracemill_calls::completed_calls::{self, CallFilter, CallSink, CompletedCall, Everything};
use tracemill_calls::flame::Flame;
use tracemill_calls::follow::Follower;
use tracemill_calls::graph::{self, GraphOptions};
use tracemill_calls::report::{self, ReportColumn, ReportOptions};
use tracemill_calls::{CallOptions, TimeRange};
use tracemill_format::calls::*;

/// Names of symbols and their sizes: functions of one name are different ones.
const SYMBOLS: [(&str, u64); 9] = [
    ("?", 0),
    ("main", 100),
    ("work", 20),
    ("work", 30),
    ("leaf", 0),
    ("leaf", 7),
    ("setjmp", 8),
    ("longjmp", 9),
    ("sort", 50),
];
const SETJMP: u32 = 6;
const LONGJMP: u32 = 7;

/// Calls of many tasks, each in a stream of its own.
struct Calls {
    tasks: Vec<CallTask>,
    programs: Vec<CallProgram>,
    streams: Vec<Vec<CallRecord>>,
    /// How many of the streams are of tasks; the others hold what the system reports.
    of_tasks: usize,
    /// Threads that read, when they wait for each other.
    readers: Option<(Mutex<HashSet<ThreadId>>, Condvar)>,
    /// Are the streams those of no task, so that one follower reads everything?
    has_common_streams: AtomicBool,
}

struct Blocks<'a> {
    records: &'a [CallRecord],
    calls: &'a Calls,
}

impl CallStream for Blocks<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        if let Some((readers, came)) = &self.calls.readers {
            let mut readers = readers.lock().unwrap();
            readers.insert(std::thread::current().id());
            came.notify_all();
            let alone = |readers: &mut HashSet<ThreadId>| readers.len() < 2;
            drop(came.wait_timeout_while(readers, Duration::from_secs(20), alone).unwrap());
        }
        let (block, rest) = self.records.split_at(self.records.len().min(7));
        out.extend_from_slice(block);
        self.records = rest;
        !rest.is_empty()
    }
}

impl CallSource for Calls {
    fn tasks(&self) -> &[CallTask] {
        &self.tasks
    }
    fn recording(&self) -> Recording {
        Recording::default()
    }
    fn programs(&self) -> &[CallProgram] {
        &self.programs
    }
    fn program_at(&self, task: usize, time: u64) -> (Option<usize>, (u64, u64)) {
        // The second program begins at 1000, for every third task.
        match time {
            _ if !task.is_multiple_of(3) => (Some(0), (0, u64::MAX)),
            0..1000 => (Some(0), (0, 1000)),
            _ => (Some(1), (1000, u64::MAX)),
        }
    }
    fn max_depth(&self) -> usize {
        64
    }
    fn stream_count(&self) -> usize {
        self.streams.len()
    }
    fn holds(&self, stream: usize) -> StreamHolds {
        match stream {
            _ if self.has_common_streams.load(Ordering::Relaxed) => StreamHolds::Mixed,
            task if task < self.of_tasks => StreamHolds::Task { task, bytes: self.streams[stream].len() as u64 },
            _ => StreamHolds::System { bytes: 1 },
        }
    }
    fn open(&self, stream: usize) -> Box<dyn CallStream + '_> {
        Box::new(Blocks { records: &self.streams[stream], calls: self })
    }
    fn symbol(&self, id: u32, address: u64) -> CallSymbol {
        let (name, size) = SYMBOLS[id as usize];
        let name = if id == 0 { format!("<{address:x}>") } else { name.to_string() };
        CallSymbol { name, module: None, is_library_call: id == 4, size }
    }
    fn event_name(&self, record: &CallRecord) -> String {
        format!("event:{}", record.address)
    }
    fn dump(
        &self,
        _: DumpOptions<'_>,
        _: &mut dyn FnMut(&CallRecord) -> bool,
        _: &mut dyn io::Write,
    ) -> io::Result<Findings> {
        Ok(Findings::default())
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// How the records of tasks are.
#[derive(Clone, Copy)]
struct Kind {
    /// Highest symbol that is called.
    symbols: u64,
    has_losses: bool,
    goes_back: bool,
    /// Processors that the system reports.
    processors: u64,
}

/// The usual case: tasks call and return, some begin inside of calls, and some never end theirs.
const USUAL: Kind = Kind { symbols: 9, has_losses: false, goes_back: false, processors: 0 };

fn made(seed: u64, tasks: u32, kind: Kind) -> Calls {
    let mut random = Random(seed);
    let stream = |task: u32| {
        let mut time = random.below(50);
        let mut open: Vec<u32> = (0..random.below(3)).map(|_| 1).collect();
        let mut records = Vec::new();
        for _ in 0..random.below(300) {
            time += random.below(4) * random.below(9);
            let (is_entry, at) = (random.below(2) == 0 && open.len() < 12, open.len() as u16);
            let mut symbol = random.below(kind.symbols) as u32;
            if symbol == LONGJMP && kind.symbols == 9 {
                symbol = 8;
            }
            let record = |kind, depth, symbol: u32| CallRecord {
                time,
                address: 0x1000 + 0x100 * u64::from(symbol),
                values: 0,
                symbol,
                task,
                values_len: 0,
                depth,
                cpu: None,
                kind,
                origin: CallOrigin::Task,
                has_values: false,
            };
            if kind.has_losses && random.below(60) == 0 {
                records.push(CallRecord { time: 0, address: 3, ..record(CallKind::Lost, 0, 0) });
            } else if is_entry {
                records.push(record(CallKind::Entry, at, symbol));
                open.push(symbol);
            } else if let Some(symbol) = open.pop() {
                records.push(record(CallKind::Exit, at - 1, symbol));
            }
            if kind.goes_back && random.below(60) == 0 {
                time = time.saturating_sub(40);
            }
        }
        records
    };
    let mut streams: Vec<_> = (0..tasks).map(stream).collect();
    let of_tasks = streams.len();
    // One more task is known from the system only.
    let tasks = tasks + u32::from(kind.processors > 0);
    let mut running = vec![true; tasks as usize];
    let mut time = 0;
    streams.extend((0..kind.processors).map(|_| Vec::new()));
    while kind.processors > 0 && time < 2_500 {
        time += 1 + random.below(60);
        let task = random.below(tasks.into()) as usize;
        let address = match (random.below(12), std::mem::replace(&mut running[task], false)) {
            (0, is_running) => {
                running[task] = is_running;
                event_id::TASK_NAME
            }
            (_, false) => {
                running[task] = true;
                event_id::SCHED_IN
            }
            (1..4, true) => event_id::SCHED_OUT_PREEMPTED,
            (_, true) => event_id::SCHED_OUT,
        };
        let processor = of_tasks + random.below(kind.processors) as usize;
        // Times of several processors may be equal.
        let time = time - random.below(40) / 39;
        let task = task as u32;
        let (kind, origin, has_values) = (CallKind::Event, CallOrigin::System, false);
        let (values, symbol, values_len, depth) = (0, 0, 0, 0);
        streams[processor].push(CallRecord {
            time,
            address,
            values,
            symbol,
            task,
            values_len,
            depth,
            cpu: None,
            kind,
            origin,
            has_values,
        });
    }
    let task = |at: u32| CallTask {
        tid: i64::from(100 + at),
        pid: 100,
        parent: 0,
        start: 0,
        order: at,
        first_name: "prog".into(),
        name: "prog".into(),
    };
    let program = |at: u64| CallProgram { id: format!("{at:016x}"), name: "prog".into(), pid: 100, start: at * 1000 };
    let programs = vec![program(0), program(1)];
    Calls {
        tasks: (0..tasks).map(task).collect(),
        programs,
        streams,
        of_tasks,
        readers: None,
        has_common_streams: AtomicBool::new(false),
    }
}

/// All that is made of calls by tasks.
fn outputs(calls: &Calls, options: &CallOptions) -> String {
    let mut out = Vec::new();
    let columns = ReportColumn::ALL.iter().chain(&ReportColumn::PERCENTILES).map(|&(_, column)| column);
    let columns = columns.filter(|&column| column != ReportColumn::Name).collect();
    let look = ReportOptions { columns, histogram: true, ..ReportOptions::default() };
    let (functions, _) = report::functions(calls, options.clone(), true);
    let symbols: Vec<_> = functions.iter().map(|function| (function.name.clone(), function.symbol)).collect();
    report::write(calls, functions, &look, &mut out).unwrap();
    for function in [None, Some("work".to_string()), Some("sort".to_string())] {
        let look = GraphOptions { function, ..GraphOptions::default() };
        graph::write(calls, options.clone(), &look, &mut out).unwrap();
        graph::write_json(calls, options.clone(), &look, &mut out).unwrap();
    }
    for sample in [0, 10] {
        graph::write_folded(calls, options.clone(), sample, &mut out).unwrap();
    }
    graph::write_mermaid(calls, options.clone(), &mut out).unwrap();
    Flame::collect(calls, options.clone()).0.write_json(&mut out).unwrap();
    format!("{symbols:?}\n{}", String::from_utf8(out).unwrap())
}

fn assert_same(calls: &Calls, options: &CallOptions, what: &str) {
    calls.has_common_streams.store(true, Ordering::Relaxed);
    let one = outputs(calls, options);
    calls.has_common_streams.store(false, Ordering::Relaxed);
    for jobs in [1, 2, 3, 16] {
        let many = outputs(calls, &CallOptions { jobs, ..options.clone() });
        assert!(many == one, "{what}, {jobs} jobs:\n{many}\nwith one follower:\n{one}");
    }
}

/// Options of which none makes tasks depend on each other.
fn usual_options() -> [CallOptions; 6] {
    let range = TimeRange { start: 100, stop: 900, ..TimeRange::default() };
    [
        CallOptions::default(),
        CallOptions { depth: 3, ..CallOptions::default() },
        CallOptions { time_filter: 20, ..CallOptions::default() },
        CallOptions { tids: vec![101, 103, 104], ..CallOptions::default() },
        CallOptions { no_library_calls: true, ..CallOptions::default() },
        CallOptions { range, ..CallOptions::default() },
    ]
}

#[test]
fn any_number_of_threads_finds_the_same() {
    let options = usual_options();
    for seed in 0..12 {
        let calls = made(seed, 1 + seed as u32 % 9, USUAL);
        for (at, options) in options.iter().enumerate() {
            assert_same(&calls, options, &format!("seed {seed}, options {at}"));
        }
    }
}

#[test]
fn tasks_that_depend_on_each_other_are_followed_together() {
    let jumps = Kind { symbols: 8, ..USUAL };
    for seed in 0..8 {
        for kind in [jumps, Kind { has_losses: true, ..USUAL }, Kind { goes_back: true, ..USUAL }] {
            assert_same(&made(seed, 5, kind), &CallOptions::default(), &format!("seed {seed}"));
        }
    }
    // Tasks that call `setjmp`, and such that call `longjmp`.
    for (setting, jumping) in [(2..3, 2..3), (2..3, 2..4), (2..4, 2..3), (2..4, 3..4)] {
        for seed in 0..8 {
            let mut calls = made(seed, 5, jumps);
            for record in calls.streams.iter_mut().flatten() {
                let may_call = match record.symbol {
                    SETJMP => setting.contains(&record.task),
                    LONGJMP => jumping.contains(&record.task),
                    _ => true,
                };
                record.symbol = if may_call { record.symbol } else { 5 };
            }
            assert_same(&calls, &CallOptions::default(), &format!("seed {seed}, {setting:?} set, {jumping:?} jump"));
        }
    }
    let mut forked = made(3, 6, USUAL);
    forked.tasks[4].parent = 100;
    assert_same(&forked, &CallOptions::default(), "a forked task");
}

#[test]
fn what_the_system_tells_of_all_tasks() {
    let options = usual_options();
    for seed in 0..30 {
        let calls = made(seed, 2 + seed as u32 % 6, Kind { processors: 1 + seed % 3, ..USUAL });
        for (at, options) in options.iter().enumerate() {
            assert_same(&calls, options, &format!("seed {seed}, options {at}"));
        }
    }
}

#[test]
fn several_threads_follow() {
    for kind in [USUAL, Kind { processors: 2, ..USUAL }] {
        let mut calls = made(7, 4, kind);
        calls.readers = Some(Default::default());
        let (functions, _) = report::functions(&calls, CallOptions { jobs: 2, ..CallOptions::default() }, false);
        assert!(!functions.is_empty());
        assert_eq!(calls.readers.unwrap().0.into_inner().unwrap().len(), 2);
    }
}

/// All calls that are over.
#[derive(Default)]
struct KeptCalls(Vec<CompletedCall>);

impl CallSink for KeptCalls {
    fn push_call(&mut self, call: CompletedCall) {
        self.0.push(call);
    }

    fn should_continue(&mut self, _: &mut Follower<'_>) -> bool {
        true
    }
}

/// All records, with texts of the calls of one symbol.
struct WithTexts;

impl CallFilter for WithTexts {
    fn is_everything(&self) -> bool {
        true
    }

    fn has_texts(&self) -> bool {
        true
    }

    fn select(&mut self, record: &CallRecord) -> Option<Option<String>> {
        Some((record.symbol == 2).then(|| format!("{:?} at {}", record.kind, record.time)))
    }
}

#[test]
fn calls_that_are_over_are_the_same_with_texts_and_without() {
    let jumps = Kind { symbols: 8, ..USUAL };
    let kinds = [USUAL, jumps, Kind { has_losses: true, ..USUAL }, Kind { goes_back: true, processors: 2, ..jumps }];
    let (mut count, mut texts) = (0, 0);
    for seed in 0..40 {
        let calls = made(seed, 1 + seed as u32 % 5, kinds[seed as usize % kinds.len()]);
        let (mut plain, mut told) = (KeptCalls::default(), KeptCalls::default());
        let mut follower = Follower::new(&calls, CallOptions::default());
        assert!(completed_calls::follow(&mut follower, &mut Everything, i128::from, &mut plain).is_some());
        let mut follower = Follower::new(&calls, CallOptions::default());
        assert!(completed_calls::follow(&mut follower, &mut WithTexts, i128::from, &mut told).is_some());
        count += plain.0.len();
        for call in &mut told.0 {
            let Some(of) = call.texts.take() else { continue };
            texts += 1;
            assert!(of.entry.is_none_or(|entry| entry == format!("Entry at {}", call.begin)));
            // Where time goes back, a call takes no time.
            let end = call.begin + call.taken.unwrap_or(0);
            assert!(of.exit.is_none_or(|exit| exit == format!("Exit at {end}") || call.taken == Some(0)));
        }
        assert_eq!(plain.0, told.0, "seed {seed}");
    }
    assert!(count > 2_000 && texts > 200, "{count}, {texts}");
}

#[test]
fn each_entry_is_a_call_that_is_over_once() {
    for seed in 0..20 {
        let calls = made(seed, 4, USUAL);
        let mut kept = KeptCalls::default();
        let mut follower = Follower::new(&calls, CallOptions::default());
        assert!(completed_calls::follow(&mut follower, &mut Everything, i128::from, &mut kept).is_some());
        let mut entries: Vec<(u64, u32, u32)> = calls
            .streams
            .iter()
            .flatten()
            .filter(|record| record.kind == CallKind::Entry)
            .map(|record| (record.time, record.task, record.symbol))
            .collect();
        let mut begun: Vec<_> = kept.0.iter().map(|call| (call.begin, call.task, call.symbol)).collect();
        entries.sort_unstable();
        begun.sort_unstable();
        assert_eq!(begun, entries, "seed {seed}");
        kept.0.sort_by_key(|call| call.number);
        assert!(kept.0.iter().zip(0..).all(|(call, number)| call.number == number));
        assert!(kept.0.is_sorted_by_key(|call| call.begin), "numbers follow the beginnings");
        for call in &kept.0 {
            let around = call.parent.map(|parent| &kept.0[parent as usize]);
            assert_eq!(call.depth, around.map_or(0, |around| around.depth + 1));
            assert!(around.is_none_or(|around| around.task == call.task && around.begin <= call.begin));
            let made_from_it = kept.0.iter().filter(|inner| inner.parent == Some(call.number));
            assert_eq!(call.inside, made_from_it.filter_map(|inner| inner.taken).sum::<u64>());
        }
    }
}
