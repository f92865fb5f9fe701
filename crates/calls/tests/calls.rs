//! What is printed of calls that are written here one by one.

use std::io;

use tracemill_calls::chrome::{self, ChromeOptions};
use tracemill_calls::graph::{self, GraphOptions};
use tracemill_calls::replay::{self, ReplayField, ReplayOptions};
use tracemill_calls::report::{self, ReportOptions};
use tracemill_calls::{CallOptions, follow::Follower};
use tracemill_formats::calls::*;

/// Calls of tasks 7 and 8; symbols are numbers of names.
struct Calls {
    tasks: Vec<CallTask>,
    programs: Vec<CallProgram>,
    streams: Vec<Vec<CallRecord>>,
}

const NAMES: [&str; 8] = ["?", "main", "work", "leaf", "fork", "sigsetjmp", "longjmp", "execl"];

impl Calls {
    fn of(streams: Vec<Vec<CallRecord>>) -> Calls {
        let task = |tid, parent| CallTask { tid, pid: tid, parent, first_name: "prog".into(), name: "prog".into() };
        let program = CallProgram { id: "0123456789abcdef".into(), name: "prog".into(), pid: 7, start: 0 };
        Calls { tasks: vec![task(7, 0), task(8, 7)], programs: vec![program], streams }
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
    fn recording(&self) -> Recording {
        Recording::default()
    }
    fn programs(&self) -> &[CallProgram] {
        &self.programs
    }
    fn program_at(&self, _task: usize, _time: u64) -> (Option<usize>, (u64, u64)) {
        (Some(0), (0, u64::MAX))
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
        CallSymbol { name, module: None, is_library_call: id == 3, size: 16 }
    }
    fn library_of(&self, _name: &str) -> Option<String> {
        None
    }
    fn put_values(&self, _record: &CallRecord, _style: ValueStyle, out: &mut String) {
        out.push('1');
    }
    fn event_name(&self, record: &CallRecord) -> String {
        match record.address {
            event_id::SCHED_BOTH => "linux:schedule".into(),
            event_id::SCHED_OUT => "linux:sched-out".into(),
            event_id::SCHED_IN => "linux:sched-in".into(),
            id => format!("event:{id}"),
        }
    }
    fn put_event_data(&self, _record: &CallRecord, _out: &mut String) {}
    fn dump(&self, _options: DumpOptions, _out: &mut dyn io::Write) -> io::Result<()> {
        Ok(())
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
    let calls = Calls::of(vec![nested()]);
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
    let calls = Calls::of(vec![nested()]);
    let options = CallOptions { depth: 2, ..CallOptions::default() };
    assert_eq!(replayed(&calls, options, &bare()), "main() {\n  work();\n} /* main */\n");
    let options = CallOptions { no_library_calls: true, ..CallOptions::default() };
    assert_eq!(replayed(&calls, options, &bare()), "main() {\n  work();\n} /* main */\n");
    let options = CallOptions { time_filter: 50, ..CallOptions::default() };
    assert_eq!(replayed(&calls, options, &bare()), "main() {\n  work();\n} /* main */\n");
    let options = CallOptions { tids: vec![8], ..CallOptions::default() };
    assert_eq!(replayed(&calls, options, &bare()), "");
    let look = ReplayOptions { no_merge: true, no_comment: true, ..bare() };
    let text = replayed(&calls, CallOptions::default(), &look);
    assert_eq!(text, "main() {\n  work() {\n    leaf() {\n    }\n  }\n}\n");
    let look = ReplayOptions { fields: vec![ReplayField::Time, ReplayField::Delta], ..bare() };
    let text = replayed(&calls, CallOptions::default(), &look);
    assert!(text.contains("\n        0.000000300   0.090 us |   } /* work */\n"), "{text}");
}

#[test]
fn times_without_processor_are_calls() {
    let own = vec![entry(100, 0, 1), entry(200, 1, 2), exit(900, 1, 2), exit(1000, 0, 1)];
    let system = vec![sched(300, event_id::SCHED_OUT), sched(700, event_id::SCHED_IN)];
    let calls = Calls::of(vec![own, system]);
    let text = replayed(&calls, CallOptions::default(), &bare());
    assert_eq!(text, "main() {\n  work() {\n    /* linux:schedule */\n  } /* work */\n} /* main */\n");
    let (stats, _) = report::functions(&calls, CallOptions::default());
    let own = |name: &str| stats.iter().find(|stats| stats.name == name).unwrap().own.sum;
    assert_eq!((own("main"), own("work"), own("linux:schedule")), (200, 300, 400));
}

#[test]
fn recursive_calls_count_once() {
    let calls = Calls::of(vec![vec![entry(0, 0, 2), entry(10, 1, 2), exit(40, 1, 2), exit(100, 0, 2)]]);
    let (stats, _) = report::functions(&calls, CallOptions::default());
    assert_eq!((stats[0].calls, stats[0].total.sum, stats[0].total.recursive, stats[0].own.sum), (2, 100, 30, 100));
    assert_eq!((stats[0].total.min, stats[0].total.max, stats[0].total.mean(2)), (30, 100, 65));
    let mut out = Vec::new();
    report::write(stats, &ReportOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("\n    0.100 us    0.100 us           2  work\n"), "{text}");
}

#[test]
fn calls_that_nobody_left_are_told() {
    let calls = Calls::of(vec![vec![entry(100, 0, 1), entry(200, 1, 2), entry(300, 2, 3)]]);
    let text = replayed(&calls, CallOptions::default(), &bare());
    assert!(text.ends_with("task: 7\n[2] leaf\n[1] work\n[0] main\n\n"), "{text}");
    let (stats, _) = report::functions(&calls, CallOptions::default());
    let total = |name: &str| stats.iter().find(|stats| stats.name == name).map(|stats| stats.total.sum);
    assert_eq!((total("main"), total("work"), total("leaf")), (Some(200), Some(100), Some(0)));
}

#[test]
fn a_forked_task_begins_inside_of_the_fork() {
    let parent = vec![entry(100, 0, 1), entry(200, 1, 4), exit(300, 1, 4), exit(400, 0, 1)];
    let child = vec![exit(350, 1, 4), entry(360, 1, 2), exit(390, 1, 2)].into_iter().map(|record| of_task(1, record));
    let calls = Calls::of(vec![parent, child.collect()]);
    let text = replayed(&calls, CallOptions::default(), &bare());
    let expected = "main() {\n  fork();\n  } /* fork */\n  work();\n} /* main */\n";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn lost_records_and_jumps_keep_their_depth() {
    let lost = record(0, 0, CallKind::Lost, 9, 5, 0);
    let calls = Calls::of(vec![vec![entry(100, 0, 1), entry(200, 1, 2), lost, exit(400, 1, 2), exit(500, 0, 1)]]);
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
    let text = replayed(&Calls::of(vec![jump.clone()]), CallOptions::default(), &bare());
    assert!(text.ends_with("    longjmp() {\n  } /* sigsetjmp */\n  leaf();\n} /* main */\n"), "{text}");
    let mut out = Vec::new();
    let options = ChromeOptions { is_balanced: true, ..ChromeOptions::default() };
    chrome::write(&Calls::of(vec![jump]), CallOptions::default(), options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.matches("\"ph\":\"B\"").count(), text.matches("\"ph\":\"E\"").count(), "{text}");
}

#[test]
fn trees_join_what_has_one_name() {
    let mut twice = nested();
    twice.splice(5..5, [entry(400, 1, 2), exit(450, 1, 2), entry(500, 1, 3), exit(600, 1, 3)]);
    let calls = Calls::of(vec![twice]);
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
    let calls = Calls::of(vec![wild, vec![sched(50, event_id::SCHED_IN), sched(60, event_id::SCHED_OUT)]]);
    assert!(!replayed(&calls, CallOptions::default(), &bare()).is_empty());
    assert!(!report::functions(&calls, CallOptions::default()).0.is_empty());
    let mut out = Vec::new();
    graph::write(&calls, CallOptions::default(), &GraphOptions::default(), &mut out).unwrap();
    let mut follower = Follower::new(&calls, CallOptions::default());
    let mut count = 0;
    while follower.next().is_some() {
        count += 1;
    }
    assert_eq!(count, 200 + 67 + 12 + 2);
}
