//! Files that become shorter while they are read: no crash, the events before the cut, one fault that says where.
#![cfg(unix)]

mod folder;

use std::fs::OpenOptions;

use folder::{EVENT_BYTES, Folder, HEADER_BYTES, METADATA, PACKET_BYTES, PACKETS, first_event_of, packet, trace};
use tracemill_engine::merge::Note;
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions as SessionOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::survey::survey;
use tracemill_engine::timeline::{Selection, merger};
use tracemill_model::error::{Error, ErrorKind};

/// Reads some events, cuts the file, reads the rest. Gives the clock values and the faults.
fn read_and_cut(test: &str, before: usize, len: u64, memory_bytes: usize) -> (Vec<u64>, Vec<Error>) {
    let folder = Folder::new(test);
    trace(&folder, &["stream"]);
    read_and_cut_in(&folder, before, len, memory_bytes)
}

/// The same with a trace that is there.
fn read_and_cut_in(folder: &Folder, before: usize, len: u64, memory_bytes: usize) -> (Vec<u64>, Vec<Error>) {
    let session = Session::open(&FileSystem, &[folder.path()], &SessionOptions::new(tracemill_formats::FORMATS))
        .expect("options are right");
    assert!(session.failures.is_empty(), "{:?}", session.failures);
    let streams = streams(&session, &[]).expect("all streams");
    let selection = Selection { memory_bytes, ..Selection::default() };
    let mut merger = merger(&session, &streams, &selection);
    let (mut cycles, mut faults, mut is_cut) = (Vec::new(), Vec::new(), false);
    loop {
        if !is_cut && cycles.len() >= before {
            let file = OpenOptions::new().write(true).open(folder.path().join("stream")).expect("it exists");
            file.set_len(len).expect("it can be cut");
            is_cut = true;
        }
        let Some(batch) = merger.next_batch(64) else { break };
        for run in &batch.runs {
            let ready = &batch.chunks[run.chunk as usize].1;
            cycles.extend((run.from..run.to).map(|at| ready.chunk.cycles[at as usize]));
        }
        for note in batch.notes {
            match note {
                Note::Fault(fault) => faults.push(fault),
                Note::Warning(warning) => panic!("{warning}"),
                Note::Gap(..) => panic!("no producer lost anything"),
            }
        }
    }
    assert!(is_cut);
    (cycles, faults)
}

/// Events are numbered, and so are their times.
fn check(cycles: &[u64], faults: &[Error], len: u64, at_least: u64, at_most: u64) {
    let count = cycles.len() as u64;
    assert!(cycles.iter().copied().eq(0..count), "events are missing or wrong");
    assert!(at_least <= count && count <= at_most, "{count} events, expected {at_least} to {at_most}");
    let [fault] = faults else { panic!("one fault is expected, not {faults:?}") };
    assert_eq!(fault.kind(), ErrorKind::Truncated, "{fault}");
    assert_eq!(fault.place().offset, Some(len), "{fault}");
    assert!(fault.place().file.as_ref().is_some_and(|file| file.ends_with("stream")), "{fault}");
}

#[test]
fn cut_in_the_middle_of_a_page() {
    let len = 5 * PACKET_BYTES + 1234;
    let (cycles, faults) = read_and_cut("page", 100, len, 64 * 64);
    let whole = (1234 - folder::HEADER_BYTES) / folder::EVENT_BYTES;
    let events = first_event_of(5) + whole;
    check(&cycles, &faults, len, events, events);
}

#[test]
fn cut_between_packets() {
    let len = 7 * PACKET_BYTES;
    let (cycles, faults) = read_and_cut("packets", 100, len, 64 * 64);
    check(&cycles, &faults, len, first_event_of(7), first_event_of(7));
}

#[test]
fn cut_to_nothing() {
    // Events scanned before the cut may still come.
    let (cycles, faults) = read_and_cut("nothing", 100, 0, 64 * 64);
    check(&cycles, &faults, 0, 100, 100 + 1024);
}

#[test]
fn cut_with_large_chunks() {
    let len = 4096 * 3 + 1;
    let (cycles, faults) = read_and_cut("large", 1, len, 0);
    check(&cycles, &faults, len, 1, first_event_of(PACKETS));
}

/// Packets of one event are read several at once. The second half of the last one that is there is gone, with the page
/// after it.
#[test]
fn cut_inside_a_packet_of_one_event() {
    for (before, cut) in [(0, 4000), (1, 4000), (100, 3000), (1_234, 3_999), (10, 1_000)] {
        let folder = Folder::new("tiny");
        let small = HEADER_BYTES + EVENT_BYTES;
        folder.write("metadata", METADATA.as_bytes());
        folder.write("stream", &(0..5000).flat_map(|at| packet(at, at + 1)).collect::<Vec<u8>>());
        let (cycles, faults) = read_and_cut_in(&folder, before, cut * small + HEADER_BYTES + 3, 1 << 20);
        check(&cycles, &faults, cut * small + HEADER_BYTES + 3, cut, cut);
    }
}

#[test]
fn other_files_of_the_trace_are_read_on() {
    let folder = Folder::new("others");
    trace(&folder, &["stream", "stream2"]);
    let session = Session::open(&FileSystem, &[folder.path()], &SessionOptions::new(tracemill_formats::FORMATS))
        .expect("options are right");
    let streams = streams(&session, &[]).expect("all streams");
    let mut merger = merger(&session, &streams, &Selection { memory_bytes: 64 * 64 * 2, ..Selection::default() });
    let (mut events, mut faults, mut is_cut) = ([0u64; 2], 0, false);
    while let Some(batch) = merger.next_batch(64) {
        for run in &batch.runs {
            events[batch.chunks[run.chunk as usize].0.0 as usize] += u64::from(run.to - run.from);
        }
        faults += batch.notes.iter().filter(|note| matches!(note, Note::Fault(_))).count();
        if !std::mem::replace(&mut is_cut, true) {
            let file = OpenOptions::new().write(true).open(folder.path().join("stream")).expect("it exists");
            file.set_len(2 * PACKET_BYTES).expect("it can be cut");
        }
    }
    assert_eq!(events, [first_event_of(2), first_event_of(PACKETS)]);
    assert_eq!(faults, 1);
}

#[test]
fn counting_tells_the_cut_once_and_counts_what_is_there() {
    let folder = Folder::new("counting");
    trace(&folder, &["stream"]);
    let session = Session::open(&FileSystem, &[folder.path()], &SessionOptions::new(tracemill_formats::FORMATS))
        .expect("options are right");
    let file = OpenOptions::new().write(true).open(folder.path().join("stream")).expect("it exists");
    let len = 5 * PACKET_BYTES + 1234;
    file.set_len(len).expect("it can be cut");
    let surveys = survey(&session, true, 1);
    let [fault] = surveys[0].faults.as_slice() else { panic!("one fault is expected: {:?}", surveys[0].faults) };
    assert_eq!((fault.kind(), fault.place().offset), (ErrorKind::Truncated, Some(len)), "{fault}");
    let whole = (1234 - folder::HEADER_BYTES) / folder::EVENT_BYTES;
    assert_eq!(surveys[0].streams[0].events(), Some(first_event_of(5) + whole));
}
