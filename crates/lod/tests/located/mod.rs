//! Events that are next to a time, held to a look at all of them.

use tracemill_engine::events::{Events, Step};
use tracemill_engine::survey;
use tracemill_engine::timeline::Selection;
use tracemill_lod::search::{Direction, locate};
use tracemill_lod::{EventSet, Progress, Source, Timeline, index};

use crate::made;

/// Number, track and time since the origin of an event.
type Known = (usize, usize, i64);

fn expected(events: &[Known], at: i64, direction: Direction) -> Option<(usize, i64)> {
    let place = |known: &Known| (known.0, known.2);
    let before = || events.iter().filter(|known| known.2 < at).max_by_key(|known| (known.2, known.0)).map(place);
    let behind = || events.iter().filter(|known| known.2 > at).min_by_key(|known| (known.2, known.0)).map(place);
    let here = || events.iter().find(|known| known.2 == at).map(place);
    match direction {
        Direction::Next => behind(),
        Direction::Previous => before(),
        Direction::Nearest => here().or_else(|| {
            let both = [before(), behind()];
            both.into_iter().flatten().min_by_key(|found| found.1.abs_diff(at))
        }),
    }
}

#[test]
fn events_next_to_a_time_are_those_of_all_that_were_looked_at() {
    let folder = made::Folder::new();
    let (session, streams) = made::open(&[folder.trace("odd", &made::odd_streams())]);
    let selection = Selection::default();
    let source = Source { session: &session, streams: &streams, selection: &selection, filter: None };
    let (mut ends, progress) = (survey::ends(&session, (true, true)), Progress::default());
    let mut timeline = Timeline::new(&source, ends);
    while let Err(first) = timeline.count(&source, &progress) {
        ends.0 = Some(first);
        timeline = Timeline::new(&source, ends);
    }
    let index = index::read(&timeline, &source, &progress).expect("nobody stops it");
    let (mut all, mut events) = (Vec::new(), Events::new(&session, &streams, &selection, None));
    while let Some(step) = events.next() {
        if let Step::Event(stream, event) = step {
            let time = event.ns.expect("it has a time") - timeline.origin;
            all.push((all.len(), stream, i64::try_from(time).expect("it is near")));
        }
    }
    let mut set = EventSet::default();
    let is_in_set = |number: usize| number % 11 == 4 || number / 2000 == 3;
    (0..all.len()).filter(|number| is_in_set(*number)).for_each(|number| set.push(number));
    let mut asked: Vec<i64> = all.iter().step_by(331).flat_map(|known| [known.2 - 1, known.2, known.2 + 1]).collect();
    asked.extend([i64::MIN + 1, -1, 0, 1 << 34, i64::MAX]);
    for track in 0..streams.len() {
        for with_set in [false, true] {
            let own = all.iter().filter(|known| known.1 == track && (!with_set || is_in_set(known.0)));
            let own: Vec<Known> = own.copied().collect();
            for &at in &asked {
                for direction in [Direction::Next, Direction::Previous, Direction::Nearest] {
                    let wanted = expected(&own, at, direction);
                    let found = locate(
                        &index,
                        Some(track),
                        timeline.origin + i128::from(at),
                        direction,
                        with_set.then_some(&set),
                    );
                    let found = found.map(|(number, ns)| (number, (ns - timeline.origin) as i64));
                    assert_eq!(found, wanted, "{direction:?} of {at} on track {track}, in a set: {with_set}");
                }
            }
        }
    }
}
