//! A viewer against relay daemons that behave: order, growing schemas, new streams, retries, pieces.

mod relay;
#[path = "relay/watch.rs"]
mod watching;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relay::{METADATA, MORE, Packet, Script, ScriptStep, StreamScript};
use tracemill_engine::growth::GrowingSource;
use tracemill_live::keep::keep;
use tracemill_live::source::{LiveSource, Patience};
use watching::{options, watch, watch_with};

fn packet(begin: u64, end: u64, sequence: u64, times: &[u64]) -> ScriptStep {
    ScriptStep::Packet(Packet::new(begin, end, sequence, times))
}

/// Two streams whose packets overlap, with what a relay daemon says between them.
fn two_streams() -> Script {
    Script::new(&[
        &[
            packet(0, 100, 0, &[1, 5, 90]),
            ScriptStep::Retry,
            ScriptStep::Quiet(300),
            ScriptStep::Quiet(300),
            packet(400, 500, 1, &[400, 450]),
        ],
        &[
            ScriptStep::Quiet(2),
            packet(3, 200, 0, &[3, 6, 150]),
            ScriptStep::Retry,
            packet(210, 600, 1, &[210, 410, 600]),
        ],
    ])
}

const IN_ORDER: [u64; 11] = [1, 3, 5, 6, 90, 150, 210, 400, 410, 450, 600];

#[test]
fn events_of_all_streams_come_in_order() {
    let watched = watch(two_streams().serve());
    assert_eq!(watched.times(), IN_ORDER);
    assert_eq!((watched.faults.len(), watched.warnings.len(), watched.lost), (0, 0, 0), "{watched:?}");
}

#[test]
fn answers_in_pieces_and_late_change_nothing() {
    let mut script = two_streams();
    script.piece = 1;
    script.metadata.insert(1, METADATA.as_bytes().chunks(700).map(<[u8]>::to_vec).collect());
    assert_eq!(watch(script.serve()).times(), IN_ORDER);
    let mut script = two_streams();
    script.delay = Duration::from_millis(7);
    script.minor = 15;
    assert_eq!(watch(script.serve()).times(), IN_ORDER);
}

/// Metadata that are cut at any place are read when the declaration is whole.
#[test]
fn metadata_may_be_cut_anywhere() {
    for len in [1, 13, 40, 333, METADATA.len() - 3] {
        let mut script = Script::new(&[&[packet(0, 9, 0, &[1, 2])]]);
        let (first, rest) = METADATA.as_bytes().split_at(len);
        // An empty piece: ask again.
        script.metadata.insert(1, VecDeque::from([first.to_vec(), Vec::new(), rest.to_vec()]));
        let watched = watch(script.serve());
        assert_eq!((watched.times(), watched.faults), (vec![1, 2], vec![]), "{len}");
    }
}

/// A class that is declared while events are read needs no new beginning: the packet says so by a flag.
#[test]
fn the_schema_grows() {
    let later = Packet { events: vec![(1, 20, 2000), (0, 21, 2001)], ..Packet::new(20, 29, 1, &[]) };
    let mut script = Script::new(&[&[packet(0, 9, 0, &[1, 2]), ScriptStep::Flagged(later, 1)]]);
    // It is given when it is asked for the second time, after the first was answered by "nothing new".
    let mut asked = 0;
    script = script.spoiled(move |command, _, answer| {
        asked += u32::from(command == 6);
        let piece = [(MORE.len() as u64).to_be_bytes().as_slice(), &1u32.to_be_bytes(), MORE.as_bytes()].concat();
        Some(if command == 6 && asked == 3 { piece } else { answer })
    });
    let watched = watch(script.serve());
    assert_eq!(watched.events, [(0, 1, 1), (0, 2, 2), (1, 20, 2000), (0, 21, 2001)], "{watched:?}");
    assert!(watched.faults.is_empty(), "{watched:?}");
}

#[test]
fn streams_and_traces_may_come_later() {
    let flagged = ScriptStep::Flagged(Packet::new(50, 60, 1, &[55]), 2);
    let mut script = Script::new(&[&[packet(0, 9, 0, &[1, 2]), flagged, packet(70, 80, 2, &[75])]]);
    let added = [ScriptStep::Quiet(52), packet(53, 90, 0, &[54, 74, 76])];
    script.later.push(StreamScript { id: 20, trace: 1, channel: "c_0".into(), steps: added.into_iter().collect() });
    let watched = watch(script.serve());
    assert_eq!(watched.times(), [1, 2, 54, 55, 74, 75, 76], "{watched:?}");
}

#[test]
fn losses_are_counted_as_in_a_file() {
    let late = Packet { discarded: 5, ..Packet::new(20, 29, 4, &[20]) };
    let script = Script::new(&[&[
        packet(0, 9, 0, &[1, 2]),
        packet(10, 19, 1, &[11]),
        ScriptStep::Retry,
        ScriptStep::Packet(late),
    ]]);
    let watched = watch(script.serve());
    // Two packets and five events, each once.
    assert_eq!((watched.times(), watched.lost), (vec![1, 2, 11, 20], 7), "{watched:?}");
}

/// More packets than are held at a time; a large one comes in pieces.
#[test]
fn many_and_large_packets_are_read_within_the_memory() {
    let many: Vec<ScriptStep> = (0..400).map(|at| packet(at * 10, at * 10 + 9, at, &[at * 10, at * 10 + 5])).collect();
    let times: Vec<u64> = (200_000..300_000).collect();
    let large = packet(200_000, 300_000, 0, &times);
    let port = Script::new(&[&many, &[ScriptStep::Quiet(199_999), large]]).serve();
    let watched =
        watch_with(tracemill_live::viewer::ViewerOptions { memory: 4096, ..options(port) }, Patience::Timers(10));
    let watched = watched.unwrap();
    let expected: Vec<u64> = (0..400).flat_map(|at| [at * 10, at * 10 + 5]).chain(times).collect();
    assert_eq!(watched.events.len(), expected.len());
    assert_eq!(watched.times(), expected);
}

/// While a stream is silent the packets of another one wait, but not more of them than fit into the memory.
#[test]
fn packets_that_wait_are_within_the_memory() {
    const MEMORY: usize = 8 << 10;
    let silent: Vec<ScriptStep> = std::iter::repeat_n(ScriptStep::Retry, 40).chain([packet(0, 9, 0, &[3])]).collect();
    let busy: Vec<ScriptStep> = (1..400).map(|at| packet(at * 10, at * 10 + 9, at, &[at * 10])).collect();
    let script = Script::new(&[&silent, &busy]);
    let given = Arc::new(Mutex::new((0, None)));
    let counted = given.clone();
    let script = script.spoiled(move |command, body, answer| {
        let mut given = counted.lock().unwrap();
        given.0 += if command == 5 { answer.len() - 12 } else { 0 };
        let is_of_silent = command == 4 && body[7] == 10;
        if is_of_silent && given.1.is_none() && answer[59] == 1 {
            given.1 = Some(given.0);
        }
        Some(answer)
    });
    let options = tracemill_live::viewer::ViewerOptions { memory: MEMORY, ..options(script.serve()) };
    let watched = watch_with(options, Patience::Time(Duration::ZERO)).unwrap();
    let expected: Vec<u64> = [3].into_iter().chain((1..400).map(|at| at * 10)).collect();
    assert_eq!((watched.times(), watched.faults.len()), (expected, 0), "{watched:?}");
    let (all, before) = *given.lock().unwrap();
    let before = before.expect("it spoke");
    // The last one that is asked for may pass the limit.
    assert!(before > MEMORY / 2 && before <= MEMORY + 256, "{before} of {all} bytes were given while one was silent");
    assert_eq!(all, 400 * 256);
}

/// A stream that stays unknown holds the others up, but not for ever.
#[test]
fn patience_ends() {
    let silent: Vec<ScriptStep> = std::iter::repeat_n(ScriptStep::Retry, 60).chain([packet(5, 9, 0, &[6])]).collect();
    let busy: Vec<ScriptStep> =
        [packet(0, 50, 0, &[1, 20, 40])].into_iter().chain((0..60).map(|_| ScriptStep::Quiet(60))).collect();
    let port = Script::new(&[&silent, &busy]).serve();
    let watched = watch_with(options(port), Patience::Time(Duration::from_millis(100))).unwrap();
    assert_eq!(watched.times(), [1, 20, 40, 6]);
    assert_eq!(watched.warnings.len(), 1, "{watched:?}");
    assert!(watched.warnings[0].contains("the others do not wait for it"), "{watched:?}");
    let port = Script::new(&[&silent, &busy]).serve();
    let watched = watch_with(options(port), Patience::Time(Duration::ZERO)).unwrap();
    assert_eq!((watched.times(), watched.warnings.len()), (vec![1, 6, 20, 40], 0), "{watched:?}");
}

/// After the connection broke, the session of the same number is viewed again.
#[test]
fn a_broken_connection_is_made_again() {
    let script = || {
        let steps = [packet(0, 9, 0, &[1, 2]), packet(10, 19, 1, &[11]), packet(20, 29, 2, &[21])];
        let mut script = Script::new(&[&steps]);
        let mut packets = 0;
        script.connections = 2;
        script.spoiled(move |command, _, answer| {
            packets += u32::from(command == 5);
            (command != 5 || packets != 2).then_some(answer)
        })
    };
    let again = tracemill_live::viewer::ViewerOptions { reconnects: true, ..options(script().serve()) };
    let watched = watch_with(again, Patience::Timers(10)).unwrap();
    assert_eq!((watched.times(), watched.lost), (vec![1, 2, 21], 1), "{watched:?}");
    assert!(watched.warnings[0].contains("the connection broke and is made again"), "{watched:?}");
    let watched = watch(script().serve());
    assert_eq!(watched.times(), [1, 2]);
    assert!(watched.faults[0].contains("the server closed the connection"), "{watched:?}");
}

#[test]
fn a_session_is_waited_for() {
    let script = || {
        let mut lists = 0;
        Script::new(&[&[packet(0, 9, 0, &[1])]]).spoiled(move |command, _, answer| {
            lists += u32::from(command == 2);
            Some(if command == 2 && lists < 3 { vec![0; 4] } else { answer })
        })
    };
    let waits = tracemill_live::viewer::ViewerOptions { waits: true, ..options(script().serve()) };
    assert_eq!(watch_with(waits, Patience::Timers(10)).unwrap().times(), [1]);
    let watched = watch(script().serve());
    assert!(watched.faults[0].contains("there is no such session"), "{watched:?}");
    assert!(watched.faults[0].contains("the relay daemon has no sessions"), "{watched:?}");
}

/// A session that is closed may have packets that nobody has asked for yet.
#[test]
fn closed_sessions_are_read_to_their_end() {
    let flagged = ScriptStep::Flagged(Packet::new(0, 9, 0, &[1, 2]), 2);
    let script = Script::new(&[&[flagged, packet(10, 19, 1, &[11])], &[packet(5, 30, 0, &[6, 25])]]);
    let script = script.spoiled(|command, _, answer| {
        Some(if command == 7 { [4u32, 0].map(u32::to_be_bytes).concat() } else { answer })
    });
    assert_eq!(watch(script.serve()).times(), [1, 2, 6, 11, 25]);
}

/// A relay daemon before 2.14 says that the buffers of a process have ended, but not that it gave all of them.
#[test]
fn processes_that_end_before_their_session_may_lack_events() {
    let script = |path, minor, left: usize| {
        let goes_on = [packet(5, 9, 0, &[6])].into_iter().chain((0..left).map(|_| ScriptStep::Quiet(60)));
        let mut script = Script::new(&[&[packet(0, 4, 0, &[1, 2])], &goes_on.collect::<Vec<_>>()]);
        (script.path, script.minor) = (path, minor);
        script
    };
    // A stream is asked every 10 ms here: it goes on for more than a second.
    let long = 150;
    let process = "ust/pid/mill-7-20261129-020304";
    let watched = watch(script(process, 13, long).serve());
    assert_eq!((watched.times(), watched.faults.len()), (vec![1, 2, 6], 0), "{watched:?}");
    assert_eq!(watched.warnings.len(), 1, "{watched:?}");
    for text in ["trace 1 (`ust/pid/mill-7-20261129-020304`) ended before its session", "LTTng 2.13", "--buffers-uid"] {
        assert!(watched.warnings[0].contains(text), "{text}: {watched:?}");
    }
    // The daemon gives everything, buffers are those of a user, or the session ends with its streams.
    for (path, minor, left) in [(process, 14, long), ("ust/uid/1000/64-bit", 13, long), (process, 13, 2)] {
        let watched = watch(script(path, minor, left).serve());
        assert_eq!((watched.times(), watched.warnings), (vec![1, 2, 6], vec![]), "{path} {minor} {left}");
    }
    // It was closed, though not all of it was read.
    let closed = script(process, 13, long).spoiled(|command, _, answer| {
        Some(if command == 7 { [4u32, 0].map(u32::to_be_bytes).concat() } else { answer })
    });
    assert_eq!(watch(closed.serve()).warnings, Vec::<String>::new());
}

/// A session that goes on for ever, as far as it is.
#[test]
fn a_session_is_kept_as_far_as_it_is() {
    let steps = [packet(0, 100, 0, &[1, 5]), packet(110, 200, 1, &[120])];
    let quiet = (0..10_000).map(|_| ScriptStep::Quiet(300));
    let port = Script::new(&[&steps.into_iter().chain(quiet).collect::<Vec<_>>()]).serve();
    let mut source = LiveSource::open(options(port), Patience::Timers(10)).expect("it can be viewed");
    let folder = std::env::temp_dir().join(format!("tracemill-so-far-{}", std::process::id()));
    let packets = keep(&mut source, &folder, |source| !source.is_caught_up()).expect("there is room");
    let kept = std::fs::read(folder.join("ust/uid/1000/64-bit/c_0")).expect("it was kept");
    std::fs::remove_dir_all(&folder).expect("it was made");
    assert_eq!((packets, kept.len()), (2, 512));
    let (faults, warnings) = source.take_faults();
    assert!(faults.is_empty() && warnings.is_empty(), "{faults:?} {warnings:?}");
}
