//! Tiles, sums and searches of the demo's traces, against counting by hand.

mod made;

use std::collections::BTreeMap;
use std::sync::Arc;

use tracemill_engine::events::{Events, Step};
use tracemill_engine::selection::StreamOf;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_lod::search::{self, Direction};
use tracemill_lod::statistics::{self, Part};
use tracemill_lod::{EventSet, Index, Progress, calls, index, tiles};

const TRACES: [&str; 7] = [
    "traces/mill",
    "traces/losses",
    "traces/orders",
    "traces/overwritten",
    "logs/belt.cpel",
    "logs/dock.elog",
    "calls/tasting",
];

fn open(names: &[&str]) -> (Arc<Session>, Vec<StreamOf>) {
    made::open(&names.iter().map(|name| made::demo(name)).collect::<Vec<_>>())
}

fn indexed(session: &Session, streams: &[StreamOf]) -> Index {
    index::read(session, streams, &Selection::default(), None, &Progress::default()).expect("nobody stops it")
}

/// Name and time of all events.
fn listed(session: &Session, streams: &[StreamOf]) -> Vec<(String, Option<i128>)> {
    let mut events = Events::new(session, streams, &Selection::default(), None);
    let (mut list, mut storage) = (Vec::new(), Vec::new());
    while let Some(step) = events.next() {
        if let Step::Event(_, event) = step {
            let name = event.name(&mut storage).unwrap_or_default();
            list.push((String::from_utf8_lossy(name).into_owned(), event.ns));
        }
    }
    list
}

#[test]
fn tiles_of_every_level_hold_every_event_once() {
    for name in TRACES {
        let (session, streams) = open(&[name]);
        let (index, list) = (indexed(&session, &streams), listed(&session, &streams));
        assert_eq!(index.events(), list.len());
        let all: Vec<usize> = (0..index.tracks.len()).collect();
        let sum: u64 = index.tracks.iter().map(|track| track.events).sum();
        assert_eq!(sum, list.len() as u64, "{name}");
        let odd = |set: &mut EventSet| (0..list.len()).filter(|event| event % 2 == 1).for_each(|event| set.push(event));
        let mut set = EventSet::default();
        odd(&mut set);
        for level in (0..=tiles::MAX_LEVEL).step_by(3) {
            // The tile of an event in the middle, and those beside it.
            let middle = list[list.len() / 2].1.expect("it has a time") - index.origin;
            let tile = (middle >> (level + 10)) as u64;
            let span = (tile.saturating_sub(1), tile + 1);
            let (begin, end) = tiles::range(level, span.0, span.1);
            for wanted in [None, Some(&set)] {
                let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
                for (number, (_, ns)) in list.iter().enumerate() {
                    let Some(time) = ns.map(|ns| (ns - index.origin) as i64) else { continue };
                    if (begin..=end).contains(&time) && wanted.is_none_or(|set| set.has(number)) {
                        *expected.entry(((time - begin) >> level) as u64).or_default() += 1;
                    }
                }
                let tracks = tiles::density(&index, &all, level, span, wanted);
                let found = tiles::together(&tracks);
                let found: BTreeMap<u64, u64> = found.at.into_iter().zip(found.events).collect();
                assert_eq!(found, expected, "{name}, level {level}");
            }
        }
    }
}

#[test]
fn sums_and_searches_are_those_of_the_list() {
    for name in TRACES {
        let (session, streams) = open(&[name]);
        let (index, list) = (indexed(&session, &streams), listed(&session, &streams));
        let (begin, end) = (index.origin + (index.end - index.origin) / 4, index.end - (index.end - index.origin) / 3);
        let inside = |ns: &Option<i128>| ns.is_some_and(|ns| begin <= ns && ns <= end);
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        list.iter().filter(|(_, ns)| inside(ns)).for_each(|(name, _)| *expected.entry(name).or_default() += 1);
        let sums = statistics::sums(&index, Part { range: Some((begin, end)), ..Part::default() });
        let found: BTreeMap<&str, u64> =
            sums.names.iter().map(|of| (index.names[of.name as usize].as_str(), of.events)).collect();
        assert_eq!((sums.events, found), (expected.values().sum(), expected), "{name}");
        assert_eq!(statistics::sums(&index, Part::default()).events, list.len() as u64);

        let text = &list[list.len() / 2].0;
        let places: Vec<usize> = (0..list.len()).filter(|at| list[*at].0.contains(text.as_str())).collect();
        let next = search::find(&index, &text.to_uppercase(), -1, true, None);
        assert_eq!((next.event, next.index, next.count), (places.first().copied(), 0, places.len()), "{name}");
        let last = search::find(&index, text, list.len() as i64, false, None);
        assert_eq!((last.event, last.index), (places.last().copied(), places.len() - 1));
        assert_eq!(search::find(&index, text, *places.last().unwrap() as i64, true, None).event, None);

        for event in (0..list.len()).step_by(37) {
            assert_eq!(index.ns(event), list[event].1);
            let (own, track) = index.kind(event).expect("it is there");
            assert_eq!(own, list[event].0);
            let ns = list[event].1.expect("it has a time");
            assert_eq!(search::locate(&index, track, ns, Direction::Nearest, None).map(|found| found.1), Some(ns));
            let behind = search::locate(&index, track, ns, Direction::Next, None);
            assert!(behind.is_none_or(|found| found.1 > ns), "{name}: behind {event}");
        }
    }
}

#[test]
fn own_times_of_calls_add_up() {
    let (session, _) = open(&["calls/tasting"]);
    let calls = calls::follow(&session, &Progress::default()).expect("it is a recording of calls");
    let (first, last) = (calls.list[0].begin, calls.end);
    for range in [(first, last), (first + (last - first) / 3, last - (last - first) / 5)] {
        let rows = calls.statistics(range, None);
        let stacks = calls.stacks(range, None);
        let own: i128 = rows.iter().map(|of| of.own).sum();
        assert_eq!(own, stacks[0].total, "own times fill the roots");
        assert_eq!(own, stacks.iter().map(|of| of.own).sum::<i128>());
        assert_eq!(rows.iter().map(|of| of.calls).sum::<u64>(), stacks.iter().map(|of| of.calls).sum::<u64>());
    }
    let tasks: Vec<usize> = (0..calls.tasks.len()).collect();
    for level in [0, 8, 16, 24, 40] {
        let slices = calls.slices(&tasks, level, (first, last));
        let count: u64 = slices.iter().flatten().map(|slice| slice.n).sum();
        assert_eq!(count, calls.list.len() as u64, "level {level}");
    }
}

#[test]
fn calls_of_different_traces_stand_beside_each_other() {
    let folder = made::Folder::new();
    let event = |at: u64| (if at % 4 < 2 { made::ENTRY } else { made::EXIT }, 10 + at, 7);
    let events = |count: u64| vec![made::Packet::new((0..count).map(event).collect())];
    let tasting = made::demo("calls/tasting");
    let paths = [tasting, folder.trace("a", &[events(8)]), folder.trace("b", &[events(12)])];
    let of_tasting = calls::follow(&made::open(&paths[..1]).0, &Progress::default()).expect("it has calls").list.len();
    for order in [[0, 1, 2], [2, 1, 0]] {
        let (session, _) = made::open(&order.map(|at| paths[at].clone()));
        let calls = calls::follow(&session, &Progress::default()).expect("all have calls");
        for (trace, of) in session.traces.iter().enumerate() {
            let own = paths.iter().position(|path| of.path == *path).expect("one of them");
            let count = calls.list.iter().filter(|call| calls.tasks[call.task as usize].trace == trace).count();
            assert_eq!(count, [of_tasting, 4, 6][own], "{order:?}: {own}");
            let depth = calls.tasks.iter().filter(|task| task.trace == trace).map(|task| task.depth).max();
            assert!(own == 0 || depth == Some(2), "{depth:?}");
        }
        assert_eq!(calls.left_out, 0);
    }
}

#[test]
fn a_reading_that_is_stopped_gives_nothing() {
    let (session, streams) = open(&["traces/mill"]);
    let progress = Progress::default();
    progress.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    // It is looked at now and then, at the latest when all is read.
    let found = index::read(&session, &streams, &Selection::default(), None, &progress);
    assert!(found.is_none_or(|index| index.events() < 4096));
}
