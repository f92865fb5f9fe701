//! Tiles, sums and searches of the demo's traces, against counting by hand.

mod damaged;
mod kept;
mod located;
mod made;

use std::collections::BTreeMap;
use std::sync::Arc;

use made::Packet;
use tracemill_engine::events::{Events, Step};
use tracemill_engine::filter::Filter;
use tracemill_engine::item::StreamPlace;
use tracemill_engine::merge::Merger;
use tracemill_engine::parsed_query;
use tracemill_engine::selection::{SelectedStream, streams};
use tracemill_engine::session::Session;
use tracemill_engine::survey;
use tracemill_engine::timeline::{self, Selection};
use tracemill_lod::search::{self, Direction};
use tracemill_lod::statistics::{self, StatisticsRange};
use tracemill_lod::{EventSet, Index, Progress, Source, Timeline, calls, index, tiles};

const TRACES: [&str; 7] = [
    "traces/mill",
    "traces/losses",
    "traces/orders",
    "traces/overwritten",
    "logs/belt.cpel",
    "logs/dock.elog",
    "calls/tasting",
];

fn open(names: &[&str]) -> (Arc<Session>, Vec<SelectedStream>) {
    made::open(&names.iter().map(|name| made::demo(name)).collect::<Vec<_>>())
}

/// A timeline whose events are counted by some threads, as far as `ends` say where it begins.
fn counted(session: &Session, streams: &[SelectedStream], jobs: usize) -> Timeline {
    let selection = Selection { jobs, ..Selection::default() };
    let source = Source { session, streams, selection: &selection, filter: None };
    let mut ends = survey::ends(session, (true, true));
    loop {
        let timeline = Timeline::new(&source, ends);
        match timeline.count(&source, &Progress::default()) {
            Ok(is_whole) => assert!(is_whole, "nobody stops it"),
            Err(first) => {
                assert!(ends.0.is_some_and(|began| began > first));
                ends.0 = Some(first);
                continue;
            }
        }
        return timeline;
    }
}

fn indexed(session: &Session, streams: &[SelectedStream]) -> (Timeline, Index) {
    let timeline = counted(session, streams, 1);
    let selection = Selection::default();
    let source = Source { session, streams, selection: &selection, filter: None };
    let index = index::read(&timeline, &source, &Progress::default()).expect("nobody stops it");
    (timeline, index)
}

/// Name and time of all events.
fn listed(session: &Session, streams: &[SelectedStream]) -> Vec<(String, Option<i128>)> {
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
        let ((timeline, index), list) = (indexed(&session, &streams), listed(&session, &streams));
        assert_eq!((index.events(), timeline.events()), (list.len(), Some(list.len() as u64)));
        let selection = Selection::default();
        let source = Source { session: &session, streams: &streams, selection: &selection, filter: None };
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
                let found = tiles::together(&match wanted {
                    Some(set) => tiles::density_in(&index, &all, level, span, set),
                    None => tiles::density((&timeline, Some(&index)), &source, &all, level, span, true),
                });
                assert!(found.is_exact);
                let found: BTreeMap<u64, u64> = found.at.into_iter().zip(found.events).collect();
                assert_eq!(found, expected, "{name}, level {level}");
            }
        }
    }
}

#[test]
fn tiles_of_odd_streams_hold_what_is_there() {
    let folder = made::Folder::new();
    let (session, streams) = made::open(&[folder.trace("odd", &made::odd_streams())]);
    let timelines = [1, 8].map(|jobs| counted(&session, &streams, jobs));
    let (timeline, selection) = (&timelines[0], Selection::default());
    let source = Source { session: &session, streams: &streams, selection: &selection, filter: None };
    let index = index::read(timeline, &source, &Progress::default()).expect("nobody stops it");
    let all: Vec<usize> = (0..streams.len()).collect();
    let mut times: Vec<Vec<i64>> = vec![Vec::new(); streams.len()];
    let mut events = Events::new(&session, &streams, &selection, None);
    while let Some(step) = events.next() {
        if let Step::Event(stream, event) = step {
            times[stream].push((event.ns.expect("it has a time") - timeline.origin) as i64);
        }
    }
    let estimated = Timeline::new(&source, (Some(timeline.origin), timeline.ends().map(|(_, last)| last)));
    for level in 0..=tiles::MAX_LEVEL {
        // The whole, a dense place, and one after a silence.
        let whole = (0, (times.iter().flatten().max().unwrap() >> level >> 10) as u64);
        let at = |time: i64| (time >> level >> 10) as u64;
        for span in [whole, (at(2000), at(2000)), (at(times[1][2000]), at(times[1][2000]) + 1)] {
            if span.1 - span.0 > 4000 {
                continue;
            }
            let (begin, end) = tiles::range(level, span.0, span.1);
            let exact = tiles::density((timeline, None), &source, &all, level, span, true);
            let quick = tiles::density((timeline, None), &source, &all, level, span, false);
            // In the index, which has no more than what was read. Names of buckets that lie in several stored ones are near.
            for must_be_exact in [true, false] {
                let looked_up = tiles::density((timeline, Some(&index)), &source, &all, level, span, must_be_exact);
                for (found, exact) in looked_up.iter().zip(&exact) {
                    let counts = |of: &tiles::Density| (of.is_exact, of.at.clone(), of.events.clone());
                    assert_eq!(counts(found), counts(exact), "level {level}, {span:?}");
                }
            }
            let named = |timeline: &Timeline, density: &tiles::Density| -> Vec<String> {
                density.names.iter().map(|name| timeline.name(*name).to_string()).collect()
            };
            let others = tiles::density((&timelines[1], None), &source, &all, level, span, true);
            let guessed = tiles::density((&estimated, None), &source, &all, level, span, false);
            for track in 0..all.len() {
                let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
                times[track].iter().filter(|time| (begin..=end).contains(time)).for_each(|time| {
                    *expected.entry(((time - begin) >> level) as u64).or_default() += 1;
                });
                let found: BTreeMap<u64, u64> =
                    exact[track].at.iter().copied().zip(exact[track].events.iter().copied()).collect();
                assert_eq!(
                    (exact[track].is_exact, &found),
                    (true, &expected),
                    "stream {track}, level {level}, {span:?}"
                );
                assert!(!quick[track].is_exact || quick[track] == exact[track], "stream {track}, level {level}");
                assert!(expected.keys().all(|at| quick[track].at.contains(at)));
                assert_eq!(named(timeline, &exact[track]), named(&timelines[1], &others[track]));
                assert_eq!((&exact[track].at, &exact[track].events), (&others[track].at, &others[track].events));
                assert!(!guessed[track].is_exact);
                // Many buckets are given as one.
                if span.1 - span.0 < 8 {
                    assert!(expected.keys().all(|at| guessed[track].at.contains(at)), "stream {track}, level {level}");
                }
            }
        }
    }
    assert!(timeline.bytes() < 60_000, "{}", timeline.bytes());
    assert_eq!(timeline.tracks().len(), streams.len());
}

/// Events, and for some of them their number and the places of all streams.
type Merged = (Vec<(u32, u64, u32)>, Vec<(usize, Vec<StreamPlace>)>);

/// Stream, clock value and class of all that a merger gives, and of each n-th batch how much came before, and the places.
fn merged(mut merger: Merger, every: usize) -> Merged {
    let (mut list, mut places, mut batches) = (Vec::new(), Vec::new(), 0);
    while let Some(batch) = merger.next_batch(97) {
        for run in &batch.runs {
            let (stream, ready) = &batch.chunks[run.chunk as usize];
            let event = |at: u32| (stream.0, ready.chunk.cycles[at as usize], ready.chunk.classes[at as usize]);
            list.extend((run.from..run.to).map(event));
        }
        batches += 1;
        if batches % every == 0 {
            places.push((list.len(), merger.places().expect("nothing is changed")));
        }
    }
    (list, places)
}

#[test]
fn events_are_read_on_from_places_as_if_all_had_been_read() {
    let folder = made::Folder::new();
    let mut paths: Vec<_> = TRACES.iter().map(|name| vec![made::demo(name)]).collect();
    paths.push(vec![folder.trace("odd", &made::odd_streams())]);
    paths.push(paths.concat());
    for paths in paths {
        let (session, streams) = made::open(&paths);
        let whole = merged(timeline::merger(&session, &streams, &Selection::default()), 1).0;
        let time =
            whole.get(whole.len() / 3).map(|event| streams[event.0 as usize].clock.expect("a clock").ns(event.1));
        for selection in [Selection::default(), Selection { begin_ns: time, jobs: 3, ..Selection::default() }] {
            let (list, places) = merged(timeline::merger(&session, &streams, &selection), 5 + paths.len());
            assert!(list.len() < 1000 || places.len() > 1, "{paths:?}");
            for (number, places) in places {
                let (rest, _) = merged(timeline::merger_from(&session, &streams, &selection, &places), 1000);
                assert!(rest == list[number..], "{paths:?}: from {number} of {}", list.len());
            }
        }
    }
}

#[test]
fn sums_and_searches_are_those_of_the_list() {
    for name in TRACES {
        let (session, streams) = open(&[name]);
        let ((_, index), list) = (indexed(&session, &streams), listed(&session, &streams));
        let (begin, end) = (index.origin + (index.end - index.origin) / 4, index.end - (index.end - index.origin) / 3);
        let inside = |ns: &Option<i128>| ns.is_some_and(|ns| begin <= ns && ns <= end);
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        list.iter().filter(|(_, ns)| inside(ns)).for_each(|(name, _)| *expected.entry(name).or_default() += 1);
        let sums = statistics::sums(
            &index,
            StatisticsRange { range: Some((begin, end)), ..StatisticsRange::default() },
            &|| false,
        );
        let sums = sums.expect("nobody stops it");
        let found: BTreeMap<&str, u64> =
            sums.names.iter().map(|of| (index.names[of.name as usize].as_str(), of.events)).collect();
        assert_eq!((sums.events, found), (expected.values().sum(), expected), "{name}");
        assert_eq!(
            statistics::sums(&index, StatisticsRange::default(), &|| false).expect("nobody stops it").events,
            list.len() as u64
        );

        let text = &list[list.len() / 2].0;
        let places: Vec<usize> = (0..list.len()).filter(|at| list[*at].0.contains(text.as_str())).collect();
        let find = |text: &str, from: i64, is_next: bool| {
            search::find(&index, text, (from, is_next), None, &|| false).expect("nobody stops it")
        };
        let next = find(&text.to_uppercase(), -1, true);
        assert_eq!((next.event, next.index, next.count), (places.first().copied(), 0, places.len()), "{name}");
        let last = find(text, list.len() as i64, false);
        assert_eq!((last.event, last.index), (places.last().copied(), places.len() - 1));
        assert_eq!(find(text, *places.last().unwrap() as i64, true).event, None);

        for event in (0..list.len()).step_by(37) {
            assert_eq!(index.ns(event), list[event].1);
            let (own, track) = index.kind(event).expect("it is there");
            assert_eq!(own, list[event].0);
            let ns = list[event].1.expect("it has a time");
            assert_eq!(
                search::locate(&index, Some(track), ns, Direction::Nearest, None).map(|found| found.1),
                Some(ns)
            );
            let behind = search::locate(&index, Some(track), ns, Direction::Next, None);
            assert!(behind.is_none_or(|found| found.1 > ns), "{name}: behind {event}");
        }
    }
}

/// The calls of all streams of a session.
fn followed(session: &Arc<Session>, selection: &Selection) -> Option<calls::SessionCalls> {
    let streams = streams(session, &[]).expect("all streams");
    let source = Source { session, streams: &streams, selection, filter: None };
    calls::follow(session, &source, 0, &Progress::default())
}

#[test]
fn streams_and_filters_narrow_calls() {
    let folder = made::Folder::new();
    let event = |at: u64| (if at % 4 < 2 { made::ENTRY } else { made::EXIT }, 10 + at, 7);
    let events = |count: u64| vec![Packet::new((0..count).map(event).collect())];
    let paths = [made::demo("calls/tasting"), folder.trace("a", &[events(8)])];
    let (session, all) = made::open(&paths);
    let whole = followed(&session, &Selection::default()).expect("there are calls");
    let calls_of = |calls: &calls::SessionCalls, trace: usize| -> u64 {
        calls.tasks.iter().filter(|task| task.trace == trace).map(|task| task.calls).sum()
    };
    let follow = |streams: &[SelectedStream], filter: Option<&str>| {
        let times = parsed_query::times(&session, false, Default::default());
        let filter = filter.map(|text| Filter::compile(text, &session, &times).expect("it is right"));
        let selection = Selection::default();
        let source = Source { session: &session, streams, selection: &selection, filter: filter.as_ref() };
        calls::follow(&session, &source, 0, &Progress::default()).expect("there are calls")
    };
    for task in whole.tasks.iter().filter(|task| task.trace == 0) {
        let is_own = |of: &&SelectedStream| of.trace == 0 && calls::is_of_task(&of.stream.name, task.tid);
        let streams: Vec<SelectedStream> = all.iter().filter(is_own).cloned().collect();
        assert!(!streams.is_empty() && streams.len() < all.len());
        let own = follow(&streams, None);
        assert_eq!((calls_of(&own, 0), calls_of(&own, 1)), (task.calls, 0));
    }
    assert_eq!((calls_of(&whole, 1), whole.modules.len()), (4, whole.names.len()));
    assert!(whole.modules.iter().any(Option::is_some));
    // The first two of eight events begin calls.
    let filtered = follow(&all, Some("ns < 12"));
    assert_eq!((calls_of(&filtered, 0), calls_of(&filtered, 1)), (0, 2));
    // Calls of one function: records are told apart by their events.
    let filtered = follow(&all, Some("payload.symbol == \"usleep\""));
    let usleep = |calls: &calls::SessionCalls| {
        let rows = calls.statistics((calls.begin, calls.end), None, &|| false).expect("nobody stops it");
        let found = rows.iter().find(|of| calls.names[of.name as usize] == "usleep");
        found.map_or((0, 0, 0), |of| (of.calls, of.complete_count(), of.total))
    };
    assert_eq!((usleep(&filtered), calls_of(&filtered, 1)), (usleep(&whole), 0));
    // The times without processor inside of these are calls, too: each sleeps once.
    assert_eq!(calls_of(&filtered, 0), 2 * usleep(&whole).0);
    let others = |name: &String| name != "usleep" && !name.starts_with("linux:schedule");
    assert!(!filtered.names.iter().any(others), "{:?}", filtered.names);
}

#[test]
fn pairs_are_calls_of_their_threads() {
    let folder = made::Folder::new();
    let [(entry, exit), (begin, end)] = made::PAIRS;
    // A shift of one thread, in which it brews twice, while another one brews all the time.
    let events = vec![
        (begin, 10, 7),
        (entry, 12, 8),
        (entry, 20, 7),
        (2, 25, 7),
        (exit, 30, 7),
        (entry, 40, 7),
        (exit, 55, 7),
        (end, 60, 7),
        (exit, 90, 8),
    ];
    let (session, _) = made::open(&[folder.trace("pairs", &[vec![Packet::new(events)]])]);
    let calls = followed(&session, &Selection::default()).expect("pairs are calls");
    let of_task = |task: usize| -> Vec<(&str, i64, Option<i64>, usize)> {
        let list = calls.list(task).into_iter();
        list.map(|call| (&*calls.names[call.name as usize], call.begin, call.end, call.depth)).collect()
    };
    assert_eq!(calls.tasks.iter().map(|task| task.tid).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(of_task(0), [("shift", 10, Some(60), 0), ("x:brew", 20, Some(30), 1), ("x:brew", 40, Some(55), 1)]);
    assert_eq!(of_task(1), [("x:brew", 12, Some(90), 0)]);
    assert!(calls.warnings.is_empty() && calls.faults.is_empty());
    // States tell the work of a kernel's threads.
    assert!(followed(&open(&["kernel/bakery"]).0, &Selection::default()).is_none());
}

#[test]
fn own_times_of_calls_add_up() {
    let (session, _) = open(&["calls/tasting"]);
    let calls = followed(&session, &Selection::default()).expect("it is a recording of calls");
    let (first, last) = (calls.begin, calls.end);
    for range in [(first, last), (first + (last - first) / 3, last - (last - first) / 5)] {
        let rows = calls.statistics(range, None, &|| false).expect("nobody stops it");
        let stacks = calls.stacks(range, None, &|| false).expect("nobody stops it");
        let own: i128 = rows.iter().map(|of| of.own).sum();
        assert_eq!(own, stacks[0].total, "own times fill the roots");
        assert_eq!(own, stacks.iter().map(|of| of.own).sum::<i128>());
        assert_eq!(rows.iter().map(|of| of.calls).sum::<u64>(), stacks.iter().map(|of| of.calls).sum::<u64>());
    }
    let tasks: Vec<usize> = (0..calls.tasks.len()).collect();
    for level in [0, 8, 16, 24, 40] {
        let slices = calls.slices(&tasks, level, (first, last));
        let count: u64 = slices.iter().flatten().map(|slice| slice.n).sum();
        assert_eq!(count, calls.tasks.iter().map(|task| task.calls).sum::<u64>(), "level {level}");
    }
}

#[test]
fn calls_of_a_part_are_those_that_overlap_it() {
    let (session, _) = open(&["calls/tasting"]);
    let follow = |selection| followed(&session, &selection).expect("it has calls");
    let whole = follow(Selection::default());
    let length = whole.end - whole.begin;
    for (from, to) in [(0, 8), (3, 8), (3, 5), (4, 4)] {
        let (begin, end) = (whole.begin + length / 8 * from, whole.begin + length / 8 * to);
        let ns = |time: i64| Some(time.into());
        let part = follow(Selection { begin_ns: ns(begin), end_ns: ns(end), ..Selection::default() });
        assert!(part.end <= end);
        let sums = |calls: &calls::SessionCalls| -> BTreeMap<String, (u64, i128, i128)> {
            let rows = calls.statistics((begin, part.end), None, &|| false).expect("nobody stops it").into_iter();
            rows.map(|of| (calls.names[of.name as usize].clone(), (of.calls, of.total, of.own))).collect()
        };
        assert!(part.end >= begin && !sums(&part).is_empty());
        assert_eq!(sums(&part), sums(&whole), "{from} to {to}");
    }
}

#[test]
fn calls_of_different_traces_stand_beside_each_other() {
    let folder = made::Folder::new();
    let event = |at: u64| (if at % 4 < 2 { made::ENTRY } else { made::EXIT }, 10 + at, 7);
    let events = |count: u64| vec![Packet::new((0..count).map(event).collect())];
    let tasting = made::demo("calls/tasting");
    let paths = [tasting, folder.trace("a", &[events(8)]), folder.trace("b", &[events(12)])];
    let of_tasting = followed(&made::open(&paths[..1]).0, &Selection::default()).expect("it has calls");
    let of_tasting: u64 = of_tasting.tasks.iter().map(|task| task.calls).sum();
    for order in [[0, 1, 2], [2, 1, 0]] {
        let (session, _) = made::open(&order.map(|at| paths[at].clone()));
        let calls = followed(&session, &Selection::default()).expect("all have calls");
        for (trace, of) in session.traces.iter().enumerate() {
            let own = paths.iter().position(|path| of.path == *path).expect("one of them");
            let count: u64 = calls.tasks.iter().filter(|task| task.trace == trace).map(|task| task.calls).sum();
            assert_eq!(count, [of_tasting, 4, 6][own], "{order:?}: {own}");
            let depth = calls.tasks.iter().filter(|task| task.trace == trace).map(|task| task.depth).max();
            assert!(own == 0 || depth == Some(2), "{depth:?}");
        }
    }
}

#[test]
fn a_reading_that_is_stopped_gives_nothing() {
    let (session, streams) = open(&["traces/mill"]);
    let progress = Progress::default();
    progress.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    // It is looked at now and then, at the latest when all is read.
    let selection = Selection::default();
    let source = Source { session: &session, streams: &streams, selection: &selection, filter: None };
    let timeline = counted(&session, &streams, 1);
    let found = index::read(&timeline, &source, &progress);
    assert!(found.is_none_or(|index| index.events() < 4096));
    let timeline = Timeline::new(&source, (None, None));
    assert_ne!(timeline.count(&source, &progress), Ok(true));
}
