//! A walk that seeks an event by its number meets the event that a walk from the first one meets there.

use std::path::Path;

use tracemill_engine::filter::{Expression, Filter, TimeContext};
use tracemill_engine::item::StreamPlace;
use tracemill_engine::selection::{SelectedStream, streams};
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_engine::walk::{Turn, Walker};

/// The identity of an event: its stream, its time and its first bit.
type Identity = (usize, Option<i128>, u64);

fn next(walker: &mut Walker<&[SelectedStream]>) -> Option<Identity> {
    let position = walker.next_event()?;
    let (stream, event) = walker.event(position);
    let bit = walker.chunks()[position.chunk as usize].1.chunk.body_bits(position.at as usize);
    Some((stream, event.ns, bit))
}

#[test]
fn events_are_found_by_their_numbers() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    for (trace, condition) in [("traces/losses", "payload.number > 100"), ("kernel/bakery", "payload.prev_tid == 0")] {
        let options = OpenOptions::new(tracemill_formats::FORMATS);
        let session = Session::open(&FileSystem, &[demo.join(trace)], &options).expect("the options are right");
        let streams = streams(&session, &[]).expect("all streams are wanted");
        let selection = Selection::default();
        let expression = Expression::parse(condition).expect(condition);
        let filter = expression.bind(&session, &TimeContext::default()).expect(trace);
        for filter in [None, Some(&filter)] {
            let walker = |from: Option<(&[StreamPlace], usize)>, filter: Option<&Filter>| {
                Walker::from_checkpoint(&session, &streams[..], &selection, filter, from)
            };
            let mut first = walker(None, filter);
            let all: Vec<Identity> = std::iter::from_fn(|| next(&mut first)).collect();
            assert!(all.len() > 100 && first.number() == all.len(), "{trace}: {}", all.len());
            let mut onward = walker(None, filter);
            for number in [0, 1, 2, all.len() / 3, all.len() / 2, all.len() - 1] {
                let mut anew = walker(None, filter);
                for walker in [&mut anew, &mut onward] {
                    assert!(walker.seek(number) && walker.number() == number, "{trace}: {number}");
                    assert_eq!(next(walker), Some(all[number]), "{trace}: {number}");
                }
            }
            assert!(onward.seek(all.len()) && next(&mut onward).is_none() && !onward.seek(all.len() + 1));
        }
        // From places in the middle: where the first batches end.
        let mut small = Walker::new(&session, &streams[..], &selection, None).with_first_batch(1);
        let mut checkpoints = Vec::new();
        while let Some(turn) = small.next_turn() {
            if matches!(turn, Turn::Event(_)) && small.places().is_some() {
                checkpoints.push((small.places().expect("there are some"), small.number()));
            }
        }
        let all: Vec<Identity> = {
            let mut walker = Walker::new(&session, &streams[..], &selection, None);
            std::iter::from_fn(|| next(&mut walker)).collect()
        };
        assert!(!checkpoints.is_empty(), "{trace}");
        for (places, number) in &checkpoints {
            for behind in [0, 7] {
                let mut walker =
                    Walker::from_checkpoint(&session, &streams[..], &selection, None, Some((&places[..], *number)));
                let wanted = all.get(number + behind).copied();
                let found = if walker.seek(number + behind) { next(&mut walker) } else { None };
                assert_eq!(found, wanted, "{trace}: {number} and {behind}");
            }
        }
    }
}
