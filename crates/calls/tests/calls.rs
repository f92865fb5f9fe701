//! The output for calls that these tests write one by one.

use std::io;

use tracemill_calls::chrome::{self, ChromeOptions};
use tracemill_calls::flame::{Flame, FlameOptions};
use tracemill_calls::graph::{self, GraphOptions};
use tracemill_calls::replay::{self, ReplayField, ReplayLines, ReplayOptions};
use tracemill_calls::report::{self, DiffPolicy, ReportColumn, ReportOptions, Statistic};
use tracemill_calls::rules::{PatternKind, RuleTexts, Rules};
use tracemill_calls::tasks::{self, TaskColumn, TaskGraphField};
use tracemill_calls::{CallOptions, EventOptions, KernelOptions, TimeRange, follow::Follower, json, raw};
use tracemill_format::calls::*;

/// Calls of tasks 7 and 8; symbols are numbers of names.
struct Calls {
    tasks: Vec<CallTask>,
    programs: Vec<CallProgram>,
    streams: Vec<Vec<CallRecord>>,
    has_reference: bool,
    is_estimated: bool,
}

const NAMES: [&str; 10] =
    ["?", "main", "work", "leaf", "fork", "sigsetjmp", "longjmp", "execl", "do_syscall_64", "vfs_read"];
/// The first symbol of the kernel.
const KERNEL: u32 = 8;

impl Calls {
    fn from_streams(streams: Vec<Vec<CallRecord>>) -> Calls {
        let task = |tid, parent| CallTask {
            tid,
            pid: tid,
            parent,
            start: 0,
            order: tid as u32,
            first_name: "prog".into(),
            name: "prog".into(),
        };
        let program = CallProgram { id: "0123456789abcdef".into(), name: "prog".into(), pid: 7, start: 0 };
        Calls {
            tasks: vec![task(7, 0), task(8, 7)],
            programs: vec![program],
            streams,
            has_reference: true,
            is_estimated: false,
        }
    }
}

struct Blocks(std::vec::IntoIter<CallRecord>);

impl CallStream for Blocks {
    // One record a block: ends of blocks are everywhere.
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        out.extend(self.0.next());
        self.0.len() > 0
    }
}

impl CallSource for Calls {
    fn tasks(&self) -> &[CallTask] {
        &self.tasks
    }
    fn has_reference(&self) -> bool {
        self.has_reference
    }
    fn is_estimated(&self) -> bool {
        self.is_estimated
    }
    fn recording(&self) -> Recording {
        Recording::default()
    }
    fn programs(&self) -> &[CallProgram] {
        &self.programs
    }
    fn program_at(&self, task: usize, time: u64) -> (Option<usize>, (u64, u64)) {
        // Of three each task has its own. The second one, where there are two, begins at 1000.
        if self.programs.len() == 3 {
            return (Some(task), (0, u64::MAX));
        }
        match self.programs.len() > 1 && time >= 1000 {
            true => (Some(1), (1000, u64::MAX)),
            false => (Some(0), (0, 1000)),
        }
    }
    fn max_depth(&self) -> usize {
        64
    }
    fn stream_count(&self) -> usize {
        self.streams.len()
    }
    fn open(&self, stream: usize) -> Box<dyn CallStream + '_> {
        Box::new(Blocks(self.streams[stream].clone().into_iter()))
    }
    fn symbol(&self, id: u32, address: u64) -> CallSymbol {
        let name = if id == 0 { format!("<{address:x}>") } else { NAMES[id as usize].to_string() };
        let module = (id >= KERNEL).then(|| "[kernel]".to_string());
        CallSymbol { name, module, is_library_call: id == 3, size: 16 }
    }
    fn library_of(&self, _name: &str) -> Option<String> {
        None
    }
    fn put_values(&self, _record: &CallRecord, _style: ValueStyle, out: &mut Vec<u8>) {
        out.push(b'1');
    }
    fn event_name(&self, record: &CallRecord) -> String {
        match record.address {
            event_id::SCHED_BOTH => "linux:schedule".into(),
            event_id::SCHED_OUT => "linux:sched-out".into(),
            event_id::SCHED_IN => "linux:sched-in".into(),
            id => format!("event:{id}"),
        }
    }
    fn put_event_data(&self, _record: &CallRecord, _out: &mut Vec<u8>) {}
    fn dump(
        &self,
        options: DumpOptions<'_>,
        want: &mut dyn FnMut(&CallRecord) -> bool,
        out: &mut dyn io::Write,
    ) -> io::Result<Findings> {
        let is_dumped = |origin| match origin {
            CallOrigin::Task => !options.no_tasks,
            origin => origin == CallOrigin::Kernel,
        };
        for record in self.streams.iter().flatten().filter(|record| is_dumped(record.origin)) {
            if want(record) {
                writeln!(out, "{:?} {} {}", record.kind, record.time, record.symbol)?;
            }
        }
        Ok(Findings::default())
    }
    fn each_symbol(&self, see: &mut dyn FnMut(u32, &CallSymbol)) {
        for id in 1..NAMES.len() as u32 {
            see(id, &self.symbol(id, 0));
        }
    }
    fn source_line(&self, id: u32) -> Option<(String, u32)> {
        (id == 2).then(|| ("work.c".to_string(), 12))
    }
    fn default_options(&self) -> &[String] {
        &[]
    }
}

fn record(task: u32, time: u64, kind: CallKind, depth: u16, address: u64, symbol: u32) -> CallRecord {
    CallRecord {
        time,
        address,
        values: 0,
        symbol,
        task,
        values_len: 0,
        depth,
        cpu: None,
        kind,
        origin: CallOrigin::Task,
        has_values: false,
    }
}

fn entry(time: u64, depth: u16, symbol: u32) -> CallRecord {
    record(0, time, CallKind::Entry, depth, 0x100 * u64::from(symbol), symbol)
}

fn exit(time: u64, depth: u16, symbol: u32) -> CallRecord {
    record(0, time, CallKind::Exit, depth, 0x100 * u64::from(symbol), symbol)
}

fn sched(time: u64, id: u64) -> CallRecord {
    CallRecord { origin: CallOrigin::System, ..record(0, time, CallKind::Event, 0, id, 0) }
}

fn of_task(task: u32, record: CallRecord) -> CallRecord {
    CallRecord { task, ..record }
}

fn replayed(calls: &Calls, options: CallOptions, look: &ReplayOptions) -> String {
    let mut out = Vec::new();
    replay::write(calls, options, look, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Without columns, so that only calls are compared.
fn bare() -> ReplayOptions {
    ReplayOptions { fields: Vec::new(), ..ReplayOptions::default() }
}

fn nested() -> Vec<CallRecord> {
    vec![entry(100, 0, 1), entry(200, 1, 2), entry(210, 2, 3), exit(215, 2, 3), exit(300, 1, 2), exit(1400, 0, 1)]
}

#[test]
fn leaves_stand_on_one_line() {
    let calls = Calls::from_streams(vec![nested()]);
    let text = replayed(&calls, CallOptions::default(), &ReplayOptions::default());
    let expected = "# DURATION     TID     FUNCTION
            [     7] | main() {
            [     7] |   work() {
   0.005 us [     7] |     leaf();
   0.100 us [     7] |   } /* work */
   1.300 us [     7] | } /* main */
";
    assert_eq!(text, expected);
}

#[test]
fn options_leave_calls_out() {
    let calls = Calls::from_streams(vec![nested()]);
    let options = CallOptions { depth: 2, ..CallOptions::default() };
    assert_eq!(replayed(&calls, options, &bare()), "main() {\n  work();\n} /* main */\n");
    let options = CallOptions { no_library_calls: true, ..CallOptions::default() };
    assert_eq!(replayed(&calls, options, &bare()), "main() {\n  work();\n} /* main */\n");
    let options = CallOptions { time_filter: 50, ..CallOptions::default() };
    assert_eq!(replayed(&calls, options, &bare()), "main() {\n  work();\n} /* main */\n");
    let options = CallOptions { tids: vec![8], ..CallOptions::default() };
    assert_eq!(replayed(&calls, options, &bare()), "");
    let look = ReplayOptions { lines: ReplayLines::Single, no_comment: true, ..bare() };
    let text = replayed(&calls, CallOptions::default(), &look);
    assert_eq!(text, "main() {\n  work() {\n    leaf() {\n    }\n  }\n}\n");
    let look = ReplayOptions { fields: vec![ReplayField::Time, ReplayField::Delta], ..bare() };
    let text = replayed(&calls, CallOptions::default(), &look);
    assert!(text.contains("\n        0.000000300   0.090 us |   } /* work */\n"), "{text}");
}

#[test]
fn dumps_leave_calls_to_libraries_out() {
    let calls = Calls::from_streams(vec![nested()]);
    let only = CallOptions { no_library_calls: true, ..CallOptions::default() };
    let folded = |calls: &Calls| {
        let mut out = Vec::new();
        graph::write_folded(calls, only.clone(), 1, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    // Their time is not that of their callers.
    assert_eq!(folded(&calls), "main 1200\nmain;work 95\n");
    // The program ended inside of one: it has no begin, and no end either.
    let open = Calls::from_streams(vec![vec![entry(100, 0, 1), entry(200, 1, 3), entry(300, 2, 2), exit(400, 2, 2)]]);
    assert_eq!(folded(&open), "main 100\nmain;work 100\n");
    let mut out = Vec::new();
    chrome::write(&open, only.clone(), ChromeOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains("leaf"), "{text}");
    assert_eq!((text.matches("\"ph\":\"B\"").count(), text.matches("\"ph\":\"E\"").count()), (2, 2), "{text}");
}

#[test]
fn times_without_processor_are_calls() {
    let own = vec![entry(100, 0, 1), entry(200, 1, 2), exit(900, 1, 2), exit(1000, 0, 1)];
    let system = vec![sched(300, event_id::SCHED_OUT), sched(700, event_id::SCHED_IN)];
    let calls = Calls::from_streams(vec![own, system]);
    let text = replayed(&calls, CallOptions::default(), &bare());
    assert_eq!(text, "main() {\n  work() {\n    /* linux:schedule */\n  } /* work */\n} /* main */\n");
    let (stats, _) = report::functions(&calls, CallOptions::default(), false);
    let own = |name: &str| stats.iter().find(|stats| stats.name == name).unwrap().own.sum;
    assert_eq!((own("main"), own("work"), own("linux:schedule")), (200, 300, 400));
}

#[test]
fn guessed_exits_move_behind_times_without_processor() {
    let own = vec![entry(100, 0, 1), entry(200, 1, 2), exit(600, 1, 2), exit(1100, 0, 1)];
    let [away, back] = [sched(500, event_id::SCHED_OUT), sched(900, event_id::SCHED_IN)];
    let options = ReplayOptions { fields: vec![ReplayField::Duration], ..ReplayOptions::default() };
    let shown = |of_system: Vec<CallRecord>| {
        let calls = Calls { is_estimated: true, ..Calls::from_streams(vec![own.clone(), of_system]) };
        replayed(&calls, CallOptions::default(), &options)
    };
    // Half way between the end of that time and the next entry, which the guess tells, and a look later.
    let text = shown(vec![away, back]);
    assert!(text.contains("   0.400 us |     /* linux:schedule */\n   0.751 us |   } /* work */\n"), "{text}");
    assert!(text.ends_with("   1.000 us | } /* main */\n"), "{text}");
    // Without its end the guess stays.
    let text = shown(vec![away]);
    assert!(text.contains("   0.100 us |") && !text.contains(" h |"), "{text}");
}

#[test]
fn elapsed_time_begins_with_the_system_where_short_calls_are_left_out() {
    let of_system = vec![sched(20, event_id::SCHED_OUT), sched(50, event_id::SCHED_IN)];
    let calls = Calls::from_streams(vec![nested(), of_system]);
    let look = ReplayOptions { fields: vec![ReplayField::Elapsed], ..ReplayOptions::default() };
    let first = |time_filter| {
        let text = replayed(&calls, CallOptions { time_filter, ..CallOptions::default() }, &look);
        text.lines().nth(1).unwrap().to_string()
    };
    assert_eq!(first(0), "   0.050 us | main() {");
    assert_eq!(first(1), "   0.080 us | main() {");
}

#[test]
fn recursive_calls_count_once() {
    let calls = Calls::from_streams(vec![vec![entry(0, 0, 2), entry(10, 1, 2), exit(40, 1, 2), exit(100, 0, 2)]]);
    let (stats, _) = report::functions(&calls, CallOptions::default(), false);
    assert_eq!((stats[0].calls, stats[0].total.sum, stats[0].total.recursive, stats[0].own.sum), (2, 100, 30, 100));
    assert_eq!((stats[0].total.min, stats[0].total.max, stats[0].total.mean(2)), (30, 100, 65));
    let mut out = Vec::new();
    report::write(&calls, stats, &ReportOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("\n    0.100 us    0.100 us           2  work\n"), "{text}");
}

#[test]
fn calls_that_nobody_left_are_told() {
    let calls = Calls::from_streams(vec![vec![entry(100, 0, 1), entry(200, 1, 2), entry(300, 2, 3)]]);
    let text = replayed(&calls, CallOptions::default(), &bare());
    assert!(text.ends_with("task: 7\n[2] leaf\n[1] work\n[0] main\n\n"), "{text}");
    let (stats, _) = report::functions(&calls, CallOptions::default(), false);
    let total = |name: &str| stats.iter().find(|stats| stats.name == name).map(|stats| stats.total.sum);
    assert_eq!((total("main"), total("work"), total("leaf")), (Some(200), Some(100), Some(0)));
}

#[test]
fn a_forked_task_begins_inside_of_the_fork() {
    let parent = vec![entry(100, 0, 1), entry(200, 1, 4), exit(300, 1, 4), exit(400, 0, 1)];
    let child = vec![exit(350, 1, 4), entry(360, 1, 2), exit(390, 1, 2)].into_iter().map(|record| of_task(1, record));
    let calls = Calls::from_streams(vec![parent, child.collect()]);
    let text = replayed(&calls, CallOptions::default(), &bare());
    let expected = "main() {\n  fork();\n  } /* fork */\n  work();\n} /* main */\n";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn lost_records_and_jumps_keep_their_depth() {
    let lost = record(0, 0, CallKind::Lost, 9, 5, 0);
    let calls =
        Calls::from_streams(vec![vec![entry(100, 0, 1), entry(200, 1, 2), lost, exit(400, 1, 2), exit(500, 0, 1)]]);
    let text = replayed(&calls, CallOptions::default(), &bare());
    assert!(text.contains("/* LOST 5 records!! */\n  } /* work */\n} /* main */\n"), "{text}");
    let jump = vec![
        entry(1, 0, 1),
        entry(2, 1, 5),
        exit(3, 1, 5),
        entry(4, 1, 2),
        entry(5, 2, 6),
        exit(6, 1, 5),
        entry(7, 1, 3),
        exit(8, 1, 3),
        exit(9, 0, 1),
    ];
    let text = replayed(&Calls::from_streams(vec![jump.clone()]), CallOptions::default(), &bare());
    assert!(text.ends_with("    longjmp() {\n  } /* sigsetjmp */\n  leaf();\n} /* main */\n"), "{text}");
    let calls = Calls::from_streams(vec![jump]);
    let balanced = ChromeOptions { is_balanced: true, ..ChromeOptions::default() };
    assert_eq!(chrome_events(&calls, CallOptions::default(), balanced), Ok(10));
    // A jump is no damage, and the text of the reference is kept.
    assert!(chrome_events(&calls, CallOptions::default(), ChromeOptions::default()).is_err());
}

/// The begins and ends of the Chrome trace of a source, when it is balanced: their number, or what is wrong.
fn chrome_events(calls: &Calls, options: CallOptions, look: ChromeOptions) -> Result<usize, String> {
    let text = written(|out| drop(chrome::write(calls, options, look, out).unwrap()));
    let mut open: [Vec<&str>; 2] = Default::default();
    let mut count = 0;
    for line in text.lines().filter(|line| !line.contains("\"ph\":\"M\"")) {
        let Some((_, event)) = line.split_once("\"ph\":\"") else { continue };
        let name = event.split_once("\"name\":\"").map(|(_, rest)| &rest[..rest.find('"').unwrap()]).unwrap();
        let open = &mut open[usize::from(event.contains("\"pid\":8"))];
        count += 1;
        match &event[..1] {
            "B" => open.push(name),
            _ if open.pop() == Some(name) => {}
            _ => return Err(format!("{line} closes something else:\n{text}")),
        }
    }
    if open.iter().all(Vec::is_empty) { Ok(count) } else { Err(format!("{open:?} are open:\n{text}")) }
}

#[test]
fn chrome_traces_are_balanced_where_records_contradict_themselves() {
    let of = |records: Vec<CallRecord>| Calls::from_streams(vec![records]);
    let events = |calls: &Calls| chrome_events(calls, CallOptions::default(), ChromeOptions::default());
    // Without processor, as the system chose: the reference begins it nowhere.
    let preempted = |mut records: Vec<CallRecord>| {
        let at = records.len() - 1;
        let [out, back] = [(900, event_id::SCHED_OUT_PREEMPTED), (950, event_id::SCHED_IN)];
        records.splice(at..at, [sched(out.0, out.1), sched(back.0, back.1)]);
        records
    };
    let split = |records: Vec<CallRecord>| {
        let (own, of_system) = records.into_iter().partition(|record| record.origin == CallOrigin::Task);
        Calls::from_streams(vec![own, of_system])
    };
    let whole = split(preempted(nested()));
    assert!(events(&whole).is_err());
    assert_eq!(events(&Calls { has_reference: false, ..whole }), Ok(8));
    // Lost records; an exit, an entry that is missing.
    let lost = record(0, 0, CallKind::Lost, 9, 5, 0);
    let mut with_lost = preempted(nested());
    with_lost.insert(2, lost);
    assert_eq!(events(&split(with_lost)), Ok(8));
    for missing in [0, 1, 2, 3, 4] {
        let mut records = preempted(nested());
        records.remove(missing);
        assert!(events(&split(records)).is_ok(), "without {missing}");
    }
    // Calls that are open at the end are closed with the last record.
    assert_eq!(events(&of(nested()[..2].to_vec())), Ok(4));
    let stretch = TimeRange { start: 212, ..TimeRange::default() };
    let options = CallOptions { range: stretch, ..CallOptions::default() };
    assert_eq!(chrome_events(&of(nested()), options, ChromeOptions::default()), Ok(0));
    // A forked task leaves the fork that its parent entered, unless it becomes another program.
    let forked = |special| {
        let child = vec![exit(220, 1, 4), entry(230, 1, special), entry(240, 0, 1), exit(250, 0, 1)];
        let parent = vec![entry(100, 0, 1), entry(200, 1, 4), exit(210, 1, 4), exit(300, 0, 1)];
        Calls::from_streams(vec![parent, child.into_iter().map(|record| of_task(1, record)).collect()])
    };
    assert!(events(&forked(7)).is_err());
    assert_eq!(events(&forked(2)), Ok(8));
}

#[test]
fn times_without_processor_over_the_stack_are_not_shown() {
    let of_system = vec![sched(700, event_id::SCHED_OUT), sched(800, event_id::SCHED_IN)];
    let nested = |count: u16| (0..count).map(|depth| entry(100 + u64::from(depth), depth, 2)).collect();
    let events = |count| {
        let calls = Calls::from_streams(vec![nested(count), of_system.clone()]);
        chrome_events(&calls, CallOptions::default(), ChromeOptions::default())
    };
    // 64 calls may be open.
    assert_eq!(events(63), Ok(2 * 64));
    assert_eq!(events(64), Ok(2 * 64));
}

#[test]
fn calls_to_libraries_of_another_program_are_not_skipped() {
    let program = |pid| CallProgram { id: format!("{pid}"), name: "prog".into(), pid, start: 0 };
    let own = vec![entry(990, 0, 1), exit(1500, 0, 1)];
    let child = |record| of_task(1, record);
    let other =
        vec![child(entry(995, 0, 3)), child(exit(996, 0, 3)), child(entry(1100, 0, 3)), child(exit(1200, 0, 3))];
    let options = CallOptions { no_library_calls: true, ..CallOptions::default() };
    let shown = |programs| {
        let calls = Calls { programs, ..Calls::from_streams(vec![own.clone(), other.clone()]) };
        replayed(&calls, options.clone(), &bare())
    };
    // Records between the begin of a call and its end are skipped when they are not shown, so that the call is a leaf.
    assert_eq!(shown(vec![program(7)]), "main();\n");
    assert_eq!(shown(vec![program(7), program(8), program(9)]), "main() {\n} /* main */\n");
}

#[test]
fn balanced_chrome_traces_are_so_whatever_the_records() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % end
    };
    let look = ChromeOptions { is_balanced: true, ..ChromeOptions::default() };
    for round in 0..400 {
        let mut streams: Vec<Vec<CallRecord>> = Vec::new();
        for stream in 0..3 {
            let (mut time, mut depth) = (100, 0u16);
            let records = (0..60).map(|_| {
                time += below(9);
                // Mostly calls as they come, and some of any depth.
                let (is_entry, is_odd) = (depth == 0 || below(2) == 0, below(12) == 0);
                let at = if is_odd { below(5) as u16 } else { depth - u16::from(!is_entry) };
                depth = at + u16::from(is_entry);
                let symbol = 1 + below(7) as u32;
                let kind = if is_entry { CallKind::Entry } else { CallKind::Exit };
                match below(30) {
                    _ if stream == 2 => {
                        let ids = [event_id::SCHED_OUT, event_id::SCHED_IN, event_id::SCHED_OUT_PREEMPTED];
                        of_task(below(2) as u32, sched(time * 4, ids[below(3) as usize]))
                    }
                    0 => record(stream, 0, CallKind::Lost, 0, 3, 0),
                    _ => record(stream, time, kind, at, u64::from(symbol), symbol),
                }
            });
            streams.push(records.collect());
        }
        let calls = Calls::from_streams(streams);
        let range = TimeRange { start: below(2) * 200, stop: below(2) * 300, ..TimeRange::default() };
        let depth = if below(2) == 0 { 1024 } else { 2 };
        let options = CallOptions {
            range,
            depth,
            events: EventOptions { all: below(2) == 0, ..EventOptions::default() },
            ..CallOptions::default()
        };
        let events = chrome_events(&calls, options, look);
        assert!(events.is_ok(), "round {round}: {}", events.unwrap_err());
    }
}

#[test]
fn trees_join_what_has_one_name() {
    let mut twice = nested();
    twice.splice(5..5, [entry(400, 1, 2), exit(450, 1, 2), entry(500, 1, 3), exit(600, 1, 3)]);
    let calls = Calls::from_streams(vec![twice]);
    let mut out = Vec::new();
    graph::write(&calls, CallOptions::default(), &GraphOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let expected = "    1.300 us : (1) prog\n    1.300 us : (1) main\n    0.150 us :  +-(2) work\n    0.005 us :  | (1) leaf\n             :  | \n    0.100 us :  +-(1) leaf\n\n";
    assert!(text.ends_with(expected), "{text}");
    let mut out = Vec::new();
    graph::write_folded(&calls, CallOptions::default(), 0, &mut out).unwrap();
    let expected = "main 1\nmain;work 2\nmain;work;leaf 1\nmain;leaf 1\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let mut out = Vec::new();
    let options = GraphOptions { function: Some("work".into()), ..GraphOptions::default() };
    graph::write(&calls, CallOptions::default(), &options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains(" backtrace #0: hit 2, time   0.150 us\n   [0] main (0x100)\n   [1] work (0x200)\n"),
        "{text}"
    );
}

#[test]
fn wild_depths_cost_nothing() {
    let mut wild = Vec::new();
    for at in 0..200u64 {
        wild.push(entry(at, (at * 37 % 1024) as u16, 1 + (at % 7) as u32));
        if at % 3 == 0 {
            wild.push(exit(at, (at * 91 % 1024) as u16, 1 + (at % 5) as u32));
        }
        if at % 17 == 0 {
            wild.push(record(0, 0, CallKind::Lost, 1023, at, 0));
        }
    }
    let calls = Calls::from_streams(vec![wild, vec![sched(50, event_id::SCHED_IN), sched(60, event_id::SCHED_OUT)]]);
    assert!(!replayed(&calls, CallOptions::default(), &bare()).is_empty());
    assert!(!report::functions(&calls, CallOptions::default(), false).0.is_empty());
    let mut out = Vec::new();
    graph::write(&calls, CallOptions::default(), &GraphOptions::default(), &mut out).unwrap();
    let mut follower = Follower::new(&calls, CallOptions::default());
    let mut count = 0;
    while follower.next().is_some() {
        count += 1;
    }
    assert_eq!(count, 200 + 67 + 12 + 2);
}

/// The options of the words of a command line.
fn ruled(calls: &Calls, texts: RuleTexts) -> CallOptions {
    let mut warnings = Vec::new();
    let rules = Rules::new(calls, &texts, &mut warnings);
    assert!(warnings.is_empty(), "{warnings:?}");
    CallOptions { rules, ..CallOptions::default() }
}

fn twice() -> Calls {
    let mut twice = nested();
    twice.splice(5..5, [entry(400, 1, 3), exit(420, 1, 3), entry(500, 1, 2), exit(600, 1, 2)]);
    Calls::from_streams(vec![twice])
}

#[test]
fn filters_name_functions() {
    let calls = twice();
    let text = |texts| replayed(&calls, ruled(&calls, texts), &bare());
    let list = |name: &str| vec![name.to_string()];
    let only = RuleTexts { filters: list("work"), ..RuleTexts::default() };
    assert_eq!(text(only), "work() {\n  leaf();\n} /* work */\nwork();\n");
    let without = RuleTexts { filters: list("!work"), ..RuleTexts::default() };
    assert_eq!(text(without), "main() {\n  leaf();\n} /* main */\n");
    let hidden = RuleTexts { hides: list("work"), ..RuleTexts::default() };
    assert_eq!(text(hidden), "main() {\n  leaf();\n  leaf();\n} /* main */\n");
    // The last call of `work` does not lead to a leaf.
    let callers = RuleTexts { callers: list("leaf"), ..RuleTexts::default() };
    let expected = "main() {\n  work() {\n    leaf();\n  } /* work */\n  leaf();\n";
    assert!(text(callers).starts_with(expected));
    let pattern = RuleTexts { filters: list("^w.r"), ..RuleTexts::default() };
    assert!(text(pattern).starts_with("work() {\n"));
    let glob = RuleTexts { filters: list("w*"), patterns: PatternKind::Glob, ..RuleTexts::default() };
    assert!(text(glob).starts_with("work() {\n"));
    let large = RuleTexts { size: 17, ..RuleTexts::default() };
    assert_eq!(text(large), "");
    let linkage = RuleTexts { filters: list("!.*@plt"), ..RuleTexts::default() };
    let mut warnings = Vec::new();
    Rules::new(&calls, &linkage, &mut warnings);
    assert_eq!(warnings, ["`!.*@plt` matches no function"]);
}

#[test]
fn triggers_change_what_is_shown() {
    let calls = twice();
    let text = |trigger: &str| {
        let texts = RuleTexts { triggers: vec![trigger.into()], ..RuleTexts::default() };
        replayed(&calls, ruled(&calls, texts), &bare())
    };
    assert_eq!(text("work@depth=1"), "main() {\n  work();\n  leaf();\n  work();\n} /* main */\n");
    assert_eq!(text("work@trace_off;leaf@trace-on"), "main() {\n    leaf();\n  } /* work */\n  leaf();\n");
    assert_eq!(text("main@time=50ns"), "main() {\n  work();\n  work();\n} /* main */\n");
    let shown = text("leaf@backtrace");
    assert!(
        shown.contains("    /* [ 0] main */\n /* [ 1] work */\n") || shown.contains("/* [ 1] work */\n    leaf();\n")
    );
    let texts = RuleTexts { triggers: vec!["leaf@trace".into()], ..RuleTexts::default() };
    let options = CallOptions { time_filter: 50, ..ruled(&calls, texts) };
    let shown = replayed(&calls, options, &bare());
    assert_eq!(shown, "main() {\n  work() {\n    leaf();\n  } /* work */\n  leaf();\n  work();\n} /* main */\n");
}

/// A call of `work` that reads, and a call of the kernel after it.
fn reading() -> Calls {
    let of_kernel = |time, kind, depth, symbol| CallRecord {
        origin: CallOrigin::Kernel,
        ..record(0, time, kind, depth, 0xffff_ffff_8100_0000 + u64::from(symbol), symbol)
    };
    let own = vec![entry(100, 0, 1), entry(200, 1, 2), exit(600, 1, 2), exit(900, 0, 1)];
    let kernel = vec![
        of_kernel(50, CallKind::Entry, 0, KERNEL),
        of_kernel(60, CallKind::Exit, 0, KERNEL),
        of_kernel(300, CallKind::Entry, 0, KERNEL),
        of_kernel(320, CallKind::Entry, 1, KERNEL + 1),
        of_kernel(380, CallKind::Exit, 1, KERNEL + 1),
        of_kernel(500, CallKind::Exit, 0, KERNEL),
        of_kernel(950, CallKind::Entry, 0, KERNEL),
    ];
    Calls::from_streams(vec![own, kernel])
}

#[test]
fn functions_of_the_kernel_are_meant_when_they_are_asked_for() {
    let calls = reading();
    let text = |filter: &str| {
        let texts = RuleTexts { filters: vec![filter.into()], ..RuleTexts::default() };
        replayed(&calls, ruled(&calls, texts), &bare())
    };
    let all = "main() {\n  work() {\n    do_syscall_64() {\n      vfs_read();\n    } /* do_syscall_64 */\n  } /* work */\n} /* main */\n";
    assert_eq!(replayed(&calls, CallOptions::default(), &bare()), all);
    assert_eq!(text("do_syscall_64@kernel"), "do_syscall_64() {\n  vfs_read();\n} /* do_syscall_64 */\n");
    // The line of what is left is not joined with its end, as in uftrace.
    let without = all.replace("      vfs_read();\n", "");
    assert_eq!(text("!vfs_read@k"), without);
    let texts = RuleTexts { filters: vec!["do_syscall_64".into()], ..RuleTexts::default() };
    let mut warnings = Vec::new();
    let rules = Rules::new(&calls, &texts, &mut warnings);
    assert_eq!(warnings, ["`do_syscall_64` matches no function"]);
    assert_eq!(replayed(&calls, CallOptions { rules, ..CallOptions::default() }, &bare()), all);
}

#[test]
fn a_length_of_time_begins_with_the_first_record_of_all_in_files_of_all() {
    let own = vec![entry(100, 0, 1), exit(150, 0, 1)];
    let other = vec![of_task(1, entry(40, 0, 1)), of_task(1, exit(60, 0, 1))];
    let of_kernel =
        |time| CallRecord { origin: CallOrigin::Kernel, ..record(0, time, CallKind::Entry, 0, 0x900, KERNEL) };
    let calls = Calls::from_streams(vec![own, other, vec![of_kernel(110), of_kernel(130)]]);
    let range = TimeRange { stop: 80, is_stop_elapsed: true, ..TimeRange::default() };
    let options = CallOptions { range, ..CallOptions::default() };
    let dumped = written(|out| json::write_records(&calls, options, DumpOptions::default(), out).unwrap());
    let times: Vec<&str> = dumped.split("\"ns\":").skip(1).filter_map(|rest| rest.split(',').next()).collect();
    assert_eq!(times, ["100", "150", "40", "60", "110"], "{dumped}");
}

#[test]
fn what_the_kernel_does_outside_of_functions_does_not_part_a_leaf() {
    let own = vec![entry(100, 0, 1), entry(200, 1, 3), exit(220, 1, 3), exit(300, 0, 1)];
    let of_kernel = |time, kind| CallRecord { origin: CallOrigin::Kernel, ..record(1, time, kind, 0, 0x900, KERNEL) };
    let kernel = vec![of_kernel(210, CallKind::Entry), of_kernel(215, CallKind::Exit)];
    let calls = Calls::from_streams(vec![own, kernel]);
    let text = replayed(&calls, CallOptions::default(), &bare());
    assert_eq!(text, "main() {\n  leaf();\n} /* main */\n");
    let text = replayed(
        &calls,
        CallOptions { kernel: KernelOptions { all: true, only: false }, ..CallOptions::default() },
        &bare(),
    );
    assert!(text.starts_with("main() {\n  leaf() {\ndo_syscall_64();\n  } /* leaf */\n"), "{text}");
}

#[test]
fn the_kernel_alone_is_shown_when_it_is_asked_for() {
    let calls = reading();
    let only = CallOptions { kernel: KernelOptions { all: false, only: true }, ..CallOptions::default() };
    let expected = "do_syscall_64() {\n  vfs_read();\n} /* do_syscall_64 */\n";
    assert_eq!(replayed(&calls, only.clone(), &bare()), expected);
    let (functions, _) = report::functions(&calls, only.clone(), false);
    assert!(!functions.iter().any(|function| function.name == "work"));
    let (tree, _) = tasks::tree(&calls, only.clone());
    assert_eq!(tree.times[0], (200, 0));
    // Kernel time before and after all functions does not count.
    let (tree, _) = tasks::tree(&calls, CallOptions::default());
    assert_eq!(tree.times[0], (800, 0));
    let chrome = written(|out| {
        chrome::write(&calls, only.clone(), ChromeOptions::default(), out).unwrap();
    });
    assert!(chrome.contains("vfs_read") && !chrome.contains("work"), "{chrome}");
    let options = DumpOptions { no_tasks: true, ..DumpOptions::default() };
    let dumped = written(|out| raw::write(&calls, only, options, out).unwrap());
    assert_eq!(dumped.lines().count(), 7);
}

#[test]
fn files_of_the_kernel_are_dumped_whatever_filters_say() {
    let calls = reading();
    let texts = RuleTexts { filters: vec!["main".into()], ..RuleTexts::default() };
    let options = CallOptions { depth: 1, ..ruled(&calls, texts) };
    let dumped = written(|out| raw::write(&calls, options, DumpOptions::default(), out).unwrap());
    assert_eq!(dumped.lines().count(), 2 + 7, "{dumped}");
    let options = CallOptions { tids: vec![8], ..CallOptions::default() };
    assert_eq!(written(|out| raw::write(&calls, options, DumpOptions::default(), out).unwrap()), "");
}

#[test]
fn stretches_of_time_begin_anywhere() {
    let calls = twice();
    let range = TimeRange { start: 205, stop: 450, ..TimeRange::default() };
    let text = replayed(&calls, CallOptions { range, ..CallOptions::default() }, &bare());
    assert_eq!(text, "    leaf();\n  } /* work */\n  leaf();\n");
    let range = TimeRange { start: 105, is_start_elapsed: true, ..TimeRange::default() };
    let shown = replayed(&calls, CallOptions { range, ..CallOptions::default() }, &bare());
    assert!(shown.starts_with("    leaf();\n"), "{shown}");
    let mut out = Vec::new();
    let options = CallOptions { range: TimeRange { stop: 200, ..TimeRange::default() }, ..CallOptions::default() };
    raw::write(&calls, options, DumpOptions::default(), &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "Entry 100 1\nEntry 200 2\n");
}

#[test]
fn flat_lines_and_source_lines() {
    let calls = Calls::from_streams(vec![nested()]);
    let look = ReplayOptions { lines: ReplayLines::Flat, ..ReplayOptions::default() };
    let text = replayed(&calls, CallOptions::default(), &look);
    assert!(text.starts_with("\n[0] ==> 7/0: ip (main), time (100)\n"), "{text}");
    assert!(text.ends_with("[5] <== 7/0: ip (main), time (1400:1300)\n"), "{text}");
    let look = ReplayOptions { source_lines: true, ..bare() };
    assert!(replayed(&calls, CallOptions::default(), &look).contains("  work() { /* work.c:12 */\n"));
    let mut out = Vec::new();
    let (stats, _) = report::functions(&calls, CallOptions::default(), false);
    let options = ReportOptions { source_lines: true, ..ReportOptions::default() };
    report::write(&calls, stats, &options, &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("  work [work.c:12]\n"));
}

#[test]
fn percentiles_and_histograms_are_asked_for() {
    let calls = twice();
    let (stats, _) = report::functions(&calls, CallOptions::default(), true);
    let columns = vec![ReportColumn::Total(Statistic::Percentile(50)), ReportColumn::Own(Statistic::Percentile(99))];
    let options = ReportOptions { columns, histogram: true, ..ReportOptions::default() };
    let mut out = Vec::new();
    report::write(&calls, stats, &options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("   Total p50    Self p99  Function\n"), "{text}");
    assert!(text.contains("    0.005 us    0.020 us  leaf\n"), "{text}");
    assert!(text.contains("# leaf (2 calls)\n    0.004 us ..  0.008 us           1  #####"), "{text}");
    let (stats, _) = report::functions(&calls, CallOptions::default(), false);
    assert!(stats.iter().all(|stats| stats.spread.is_none()));
}

#[test]
fn recordings_are_compared() {
    let (one, two) = (Calls::from_streams(vec![nested()]), twice());
    let text = |policy: &str| {
        let mut known = DiffPolicy::default();
        known.apply_words(policy).unwrap();
        let stats = |calls: &Calls| report::functions(calls, CallOptions::default(), false).0;
        let mut out = Vec::new();
        let (base, other) = ((stats(&one), "a\t(from a)"), (stats(&two), "b\t(from b)"));
        report::write_difference(base, other, &ReportOptions::default(), &known, &one, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let compact = text("");
    assert!(compact.starts_with("#\n# uftrace diff\n#  [0] base: a\t(from a)\n#  [1] diff: b\t(from b)\n#\n"));
    assert!(compact.contains("\n     +0.100 us     +0.100 us            +1   work\n"), "{compact}");
    assert!(compact.contains("\n          0 us     -0.120 us            +0   main\n"), "{compact}");
    assert!(text("percent").contains("   +100.00%"), "{}", text("percent"));
    let full = text("full");
    assert!(full.contains("    0.100 us    0.200 us    +0.100 us"), "{full}");
    assert_eq!(DiffPolicy::default().apply_words("odd"), Err("odd".to_string()));
}

#[test]
fn tasks_have_times_and_children() {
    let own = vec![entry(100, 0, 1), exit(900, 0, 1)];
    let child = vec![of_task(1, entry(200, 0, 2)), of_task(1, exit(300, 0, 2))];
    let calls = Calls::from_streams(vec![own, child]);
    let (stats, _) = tasks::tasks(&calls, CallOptions::default());
    let mut out = Vec::new();
    tasks::write(
        &calls,
        stats,
        &[TaskColumn::Total, TaskColumn::Tid],
        &[TaskColumn::Total],
        ColorStyle::None,
        &mut out,
    )
    .unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.ends_with("    0.800 us       7  prog            \n    0.100 us       8  prog            \n"),
        "{text}"
    );
    let (tree, _) = tasks::tree(&calls, CallOptions::default());
    assert_eq!(tree.children, [vec![1], vec![]]);
    let mut out = Vec::new();
    tasks::write_tree(&calls, &tree, &[TaskGraphField::Total], 0, ColorStyle::None, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let expected = "    0.800 us : prog\n             :  |    \n    0.100 us :  +----prog\n\n";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn trees_are_drawn_by_others() {
    let calls = Calls::from_streams(vec![nested()]);
    let mut out = Vec::new();
    graph::write_graphviz(&calls, CallOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("    \"main\" -> \"work\" [xlabel = \"1\"]\n") && text.ends_with("}\n"), "{text}");
    let mut out = Vec::new();
    graph::write_mermaid(&calls, CallOptions::default(), &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("\n  1_1[\"main\"] -->|1| 2_2[\"work\"];\n"));
    let mut out = Vec::new();
    let options = GraphOptions { function: Some("nothing".into()), ..GraphOptions::default() };
    graph::write(&calls, CallOptions::default(), &options, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "uftrace: cannot find graph for 'nothing'\n");
}

fn written<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn replays_for_machines_mark_what_is_open() {
    let calls = Calls::from_streams(vec![vec![exit(50, 0, 3), entry(100, 0, 1), entry(200, 1, 2), exit(300, 1, 2)]]);
    let text = written(|out| {
        json::write_replay(&calls, CallOptions::default(), true, out).unwrap();
    });
    let expected = "{\"records\":[
{\"type\":\"exit\",\"tid\":7,\"ns\":50,\"depth\":0,\"name\":\"leaf\",\"address\":768,\"duration_ns\":0,\"without_entry\":true},
{\"type\":\"entry\",\"tid\":7,\"ns\":100,\"depth\":0,\"name\":\"main\",\"address\":256},
{\"type\":\"entry\",\"tid\":7,\"ns\":200,\"depth\":1,\"name\":\"work\",\"address\":512},
{\"type\":\"exit\",\"tid\":7,\"ns\":300,\"depth\":1,\"name\":\"work\",\"address\":512,\"duration_ns\":100}
],\"open\":[
{\"tid\":7,\"depth\":0,\"name\":\"main\",\"address\":256,\"begin_ns\":100}
]}
";
    assert_eq!(text, expected);
}

#[test]
fn all_commands_have_a_form_for_machines() {
    let calls = twice();
    let (stats, _) = report::functions(&calls, CallOptions::default(), true);
    let options = ReportOptions { histogram: true, source_lines: true, ..ReportOptions::default() };
    let text = written(|out| json::write_report(&calls, stats.clone(), &options, out).unwrap());
    let work = "{\"name\":\"work\",\"calls\":2,\"size\":16,\"total_ns\":200,\"total_avg_ns\":100,\"total_min_ns\":100,";
    assert!(text.contains(work), "{text}");
    assert!(text.contains("\"total_p50_ns\":100,"), "{text}");
    assert!(text.contains("\"histogram\":[{\"from_ns\":64,\"calls\":2}],\"file\":\"work.c\",\"line\":12}"), "{text}");
    let other = Calls::from_streams(vec![vec![entry(0, 0, 1), exit(9, 0, 1)]]);
    let (others, _) = report::functions(&other, CallOptions::default(), false);
    let pair = ((&*stats, &calls as &dyn CallSource), (&*others, &other as &dyn CallSource));
    let text = written(|out| json::write_difference(pair.0, pair.1, &ReportOptions::default(), out).unwrap());
    assert!(text.contains("\"name\":\"work\",\"base\":{") && text.contains(",\"diff\":null}"), "{text}");
    let text = written(|out| {
        graph::write_json(&calls, CallOptions::default(), &GraphOptions::default(), out).unwrap();
    });
    let node = "{\"id\":3,\"parent\":2,\"name\":\"leaf\",\"address\":768,\"calls\":1,\"total_ns\":5,\"self_ns\":5}";
    assert!(text.contains(node), "{text}");
    let text = written(|out| {
        json::write_records(&calls, CallOptions::default(), DumpOptions::default(), out).unwrap();
    });
    // The source of these tests asks for every record.
    let record =
        "{\"type\":\"entry\",\"tid\":7,\"ns\":200,\"name\":\"work\",\"address\":512,\"depth\":1,\"has_values\":false}";
    assert!(text.contains(record) && text.matches("\"type\"").count() == 10, "{text}");
}

#[test]
fn flames_are_as_wide_as_time() {
    let calls = twice();
    let (mut flame, _) = Flame::collect(&calls, CallOptions::default());
    let options = FlameOptions { title: "a <title>".into(), width: 1020, min_width: 50.0 };
    let text = written(|out| flame.write_svg(&options, out).unwrap());
    assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg ") && text.ends_with("</svg>\n"));
    assert!(text.contains("a &lt;title&gt;") && !text.contains("http://www.w3.org/1999/xlink"), "{text}");
    // 200 of 1,300 ns on 1,000 pixels.
    assert!(text.contains("data-n=\"work\"><title>work (2 calls, 200 ns, 15.38%)</title>"), "{text}");
    assert!(text.contains("width=\"153.85\""), "{text}");
    assert!(text.contains("2 stacks of 25 ns are too narrow to be shown"), "{text}");
    let (before, _) = Flame::collect(&Calls::from_streams(vec![nested()]), CallOptions::default());
    flame.compare(&before);
    let text = written(|out| flame.write_svg(&FlameOptions::default(), out).unwrap());
    assert!(text.contains("work (2 calls, 200 ns, 15.38%), +100.00% from 100 ns"), "{text}");
    assert!(text.contains("leaf (1 calls, 20 ns, 1.54%), new"), "{text}");
    let mut less = before.clone();
    less.compare(&flame);
    let text = written(|out| less.write_svg(&FlameOptions::default(), out).unwrap());
    assert!(text.contains("1 stacks of 20 ns are in the other recording only"), "{text}");
    let text = written(|out| flame.write_json(out).unwrap());
    assert!(
        text.contains("\"name\":\"work\",\"calls\":2,\"total_ns\":200,\"self_ns\":195,\"before_ns\":100}"),
        "{text}"
    );
}

#[test]
fn flames_leave_what_longjmp_leaves() {
    // `longjmp` leaves two calls of `work`; what follows the second exit of `sigsetjmp` is called by `main`.
    let records = vec![
        entry(100, 0, 1),
        entry(110, 1, 5),
        exit(120, 1, 5),
        entry(130, 1, 2),
        entry(140, 2, 2),
        entry(150, 3, 6),
        exit(170, 1, 5),
        entry(180, 1, 3),
        sched(190, event_id::SCHED_OUT_PREEMPTED),
        sched(200, event_id::SCHED_IN),
        exit(230, 1, 3),
        exit(300, 0, 1),
    ];
    let (flame, _) = Flame::collect(&Calls::from_streams(vec![records]), CallOptions::default());
    let text = written(|out| flame.write_json(out).unwrap());
    let stacks = "\
        {\"id\":1,\"parent\":0,\"depth\":1,\"name\":\"main\",\"calls\":1,\"total_ns\":200,\"self_ns\":100},\n\
        {\"id\":2,\"parent\":1,\"depth\":2,\"name\":\"sigsetjmp\",\"calls\":1,\"total_ns\":10,\"self_ns\":10},\n\
        {\"id\":3,\"parent\":1,\"depth\":2,\"name\":\"work\",\"calls\":1,\"total_ns\":40,\"self_ns\":10},\n\
        {\"id\":4,\"parent\":3,\"depth\":3,\"name\":\"work\",\"calls\":1,\"total_ns\":30,\"self_ns\":10},\n\
        {\"id\":5,\"parent\":4,\"depth\":4,\"name\":\"longjmp\",\"calls\":1,\"total_ns\":20,\"self_ns\":20},\n\
        {\"id\":6,\"parent\":1,\"depth\":2,\"name\":\"leaf\",\"calls\":1,\"total_ns\":50,\"self_ns\":40},\n\
        {\"id\":7,\"parent\":6,\"depth\":3,\"name\":\"linux:schedule (pre-empted)\",\"calls\":1,\"total_ns\":10,\
        \"self_ns\":10,\"is_wait\":true}\n";
    assert!(text.contains(stacks), "{text}");
    // Waits have a class and a colour of their own.
    let text = written(|out| flame.write_svg(&FlameOptions::default(), out).unwrap());
    assert!(text.contains("<title>linux:schedule (pre-empted) (1 waits, 10 ns, 5.00%)</title>"), "{text}");
    assert_eq!((text.matches("<g class=\"f w\"").count(), text.matches("rgb(190,200,210)").count()), (1, 1), "{text}");
}

#[test]
fn calls_of_another_program_stay_in_their_tree() {
    let own = vec![entry(100, 0, 1), entry(200, 1, 2), entry(300, 2, 3), exit(1100, 2, 3), exit(1200, 1, 2)];
    let mut calls = Calls::from_streams(vec![own]);
    calls.programs.push(CallProgram { id: "second".into(), name: "next".into(), pid: 7, start: 1000 });
    for function in [None, Some("work".to_string()), Some("leaf".to_string())] {
        let options = GraphOptions { function, ..GraphOptions::default() };
        let text = written(|out| {
            graph::write(&calls, CallOptions::default(), &options, out).unwrap();
        });
        assert!(text.contains(if options.function.is_none() { "0.800 us :" } else { "backtrace #0: hit 1" }), "{text}");
    }
}
