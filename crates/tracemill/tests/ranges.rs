//! Streams read in ranges of packets give what they give when they are read at once.

use std::path::Path;
use std::sync::Arc;

use tracemill_engine::cursor::{Cursor, packets_stand_alone};
use tracemill_engine::item::Item;
use tracemill_engine::selection::{SpineFilter, streams};
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_formats::FORMATS;

/// The class and the clock value of each event, and the number of losses.
fn read(mut cursor: Cursor) -> (Vec<(u32, u64)>, usize) {
    let (mut events, mut gaps) = (Vec::new(), 0);
    while let Some(item) = cursor.next() {
        match item {
            Item::Chunk(ready) => {
                events.extend(ready.chunk.classes.iter().copied().zip(ready.chunk.cycles.iter().copied()));
            }
            Item::Gap(_) => gaps += 1,
            Item::Packet(..) | Item::Fault(_) | Item::Warning(_) => {}
        }
    }
    (events, gaps)
}

#[test]
fn ranges_of_packets_add_up() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    let session = Session::open(&FileSystem, &[demo], &OpenOptions::new(FORMATS)).expect("it opens");
    let (mut ranges, mut alone) = (0, 0);
    for of in streams(&session, &[]).expect("all of them") {
        let trace = &session.traces[of.trace];
        let cursor = || Cursor::new(trace, of.stream.clone(), of.clock, SpineFilter::default(), 1000);
        let all = read(cursor());
        let count = of.stream.packets.len();
        assert_eq!(read(cursor().with_packets(0..count).expect("all can be read")), all);
        if !packets_stand_alone(&of.stream) {
            assert!(count < 2 || cursor().with_packets(1..count).is_none(), "{}", of.stream.name);
            continue;
        }
        alone += 1;
        for step in [1, 3] {
            let mut together = (Vec::new(), 0);
            for from in (0..count).step_by(step) {
                let part = cursor().with_packets(from..from + step).expect("packets stand alone");
                assert_eq!(part.packets(), from..(from + step).min(count));
                let (events, gaps) = read(part);
                together.0.extend(events);
                together.1 += gaps;
                ranges += 1;
            }
            assert!(together == all, "{} by {step}: {} events of {}", of.stream.name, together.0.len(), all.0.len());
        }
    }
    assert!(ranges > 50 && alone > 5, "{ranges} ranges of {alone} streams");
}

#[test]
fn a_range_of_times_stays_one() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces/mill");
    let session = Session::open(&FileSystem, &[demo], &OpenOptions::new(FORMATS)).expect("it opens");
    let streams = streams(&session, &[]).expect("all of them");
    let of = streams.iter().max_by_key(|of| of.stream.packets.len()).expect("it has streams");
    let count = of.stream.packets.len();
    let middle = of.stream.packets.begin_cycles(count / 2).expect("packets say when they begin");
    let filter = SpineFilter { cycles: Some((middle, u64::MAX)), classes: None };
    let stream = Arc::new((*of.stream).clone());
    let cursor = || Cursor::new(&session.traces[of.trace], stream.clone(), of.clock, filter.clone(), 1000);
    let all = read(cursor()).0;
    let halves =
        [0..count / 3, count / 3..count].map(|range| read(cursor().with_packets(range).expect("they stand alone")).0);
    assert!(!all.is_empty() && halves.concat() == all);
    assert!(all.iter().all(|&(_, cycles)| cycles >= middle));
}
