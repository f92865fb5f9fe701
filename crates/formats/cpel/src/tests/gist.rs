//! Gist logs, and what is no log.

use tracemill_format::lost::Lost;
use tracemill_format::target::{Source, WriteOptions};
use tracemill_format::testing::MadeFiles;

use super::*;
use crate::write;

/// A log of records, whose words are given one after the other.
fn log(records: &[[u32; 5]]) -> Vec<u8> {
    let mut builder = Builder { order: ByteOrder::Big, bytes: Vec::new() };
    builder.u32(records.len() as u32);
    for &word in records.as_flattened() {
        builder.u32(word);
    }
    builder.bytes
}

/// A trace as a Gist log, and what is lost of it.
fn written(trace: &OpenTrace, change: impl FnOnce(&mut Source)) -> (Vec<u8>, Vec<(Lost, u64)>) {
    let made = MadeFiles::default();
    let losses = made.convert(trace, &write::GIST, &WriteOptions::default(), change).unwrap();
    let files = made.files();
    assert_eq!(files.len(), 1, "{:?}", files.keys());
    (files[""].clone(), losses.kinds().map(|kind| (kind, losses.count(kind))).collect())
}

#[test]
fn a_gist_log_is_written_as_it_is() {
    let records = [[0, 10, 8, 3, 6], [0, 20, u32::MAX, 1001, 5], [7, 0, 7, 0, u32::MAX]];
    let bytes = log(&records);
    for settings in [&[][..], &[("ticks-per-us", "3")], &[("octets", "")]] {
        let trace = open(bytes.clone(), settings).unwrap();
        assert_eq!(written(&trace, |_| {}), (bytes.clone(), vec![]), "{settings:?}");
        // By way of another format its events have the same members.
        let members = |source: &mut Source| {
            Arc::make_mut(&mut source.schema).format = "other";
        };
        assert_eq!(written(&trace, members), (bytes.clone(), vec![]), "{settings:?}");
    }
    // Events come in the order of time, whatever their order was.
    let [a, b, c] = records;
    assert_eq!(written(&open(log(&[b, c, a]), &[]).unwrap(), |_| {}).0, bytes);
    let empty = written(&open(log(&[]), &[]).unwrap(), |_| {});
    assert_eq!(empty, (vec![0; 4], vec![]));
    assert!(is_cpel(&empty.0));
}

#[test]
fn times_of_a_gist_log_move() {
    let trace = open(log(&[[0, 30, 1, 1, 1]]), &[("ticks-per-us", "3")]).unwrap();
    let moved = |ns| written(&trace, |source| source.correction_ns = ns);
    assert_eq!(moved(1000), (log(&[[0, 33, 1, 1, 1]]), vec![]));
    // A ns is no whole number of ticks.
    assert_eq!(moved(1), (log(&[[0, 10_001, 1, 1, 1]]), vec![(Lost::ClockFrequencies, 1)]));
    assert_eq!(moved(-11_000), (log(&[[0, 0, 1, 1, 1]]), vec![(Lost::ZeroTimes, 1)]));
}

#[test]
fn a_cpel_log_keeps_its_numbers() {
    let trace = open(small(ByteOrder::Little).bytes, &[]).unwrap();
    let lost = vec![
        (Lost::ClockFrequencies, 1),
        (Lost::EventNames, 2),
        // The track 5 has no name.
        (Lost::TrackNames, 1),
        (Lost::FieldsBesideNumber, 2),
    ];
    let bytes = log(&[[0, 10, 0, 1, 2], [0, 20, 0, 2, 7], [0, 30, 5, 3, 1]]);
    assert_eq!(written(&trace, |_| {}), (bytes.clone(), lost));
    let events = read(&open(bytes, &[("ticks-per-us", "1000")]).unwrap()).events;
    assert_eq!(events[1], r#"20 E2: code=2 track=0 track_name="0" datum=7 datum_text="""#);
}

#[test]
fn any_trace_becomes_a_gist_log() {
    let trace = open(small(ByteOrder::Big).bytes, &[]).unwrap();
    let other = |source: &mut Source| {
        let schema = Arc::make_mut(&mut source.schema);
        (schema.format, schema.summary) = ("other", None);
        source.origin = Arc::default();
        source.correction_ns = -25;
    };
    // Their tracks are found by name; the first number beside them is `code`.
    let (bytes, lost) = written(&trace, other);
    assert_eq!(bytes, log(&[[0, 0, 0, 1, 1], [0, 0, 0, 2, 2], [0, 5, 5, 3, 3]]));
    let lost: Vec<Lost> = lost.into_iter().map(|(kind, _)| kind).collect();
    let want = [Lost::ZeroTimes, Lost::ClockFrequencies, Lost::EventNames, Lost::TrackNames, Lost::FieldsBesideNumber];
    assert_eq!(lost, want);
}

#[test]
fn gist_logs() {
    let bytes = log(&[[0, 20, 7, 1001, 5], [0, 10, 8, 3, 6]]);
    assert!(is_cpel(&bytes) && !is_cpel(&bytes[..43]));
    let trace = open(bytes.clone(), &[]).unwrap();
    assert_eq!(trace.schema.format, "gist");
    assert_eq!(reported(&trace.warnings), ["0: a Gist log does not say its clock rate: events have no times"]);
    assert_eq!(
        read(&trace).events,
        [
            r#"10 E3: code=3 track=8 track_name="8" datum=6 datum_text="""#,
            r#"20 E1001: code=1001 track=7 track_name="7" datum=5 datum_text="""#,
        ]
    );
    let headers = [
        ("h/main.h", "#define SUB 1000 /* pointdefs: sub.h */\n#define A 3 /* alpha: %d */\n"),
        ("h/sub.h", "#define B EV_NUM(1) /* beta: 0x%x of */\n"),
    ];
    let settings = [("pointdefs", "h/main.h"), ("ticks-per-us", "1000")];
    let trace = open_with(bytes.clone(), &headers, &settings).unwrap();
    assert!(trace.warnings.is_empty());
    let events = read(&trace).events;
    assert_eq!(events[0], r#"10 alpha: code=3 track=8 track_name="8" datum=6 datum_text="6""#);
    assert_eq!(events[1], r#"20 beta: code=1001 track=7 track_name="7" datum=5 datum_text="0x5""#);
    // A log that is cut is read when the user says what it is.
    let trace = open(bytes[..43].to_vec(), &[("input-format", "gist")]).unwrap();
    assert_eq!(reported(&trace.faults), ["0: the log says that it has 2 events, the file has room for 1"]);
    assert_eq!(read(&trace).events.len(), 1);
}

#[test]
fn other_files_are_not_claimed() {
    let mut random = vec![1u8, 0, 0, 2];
    random.extend((0..500u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8));
    for bytes in [&b""[..], &[1], &[1; 8], &[0x81; 4000], &[0; 5], &[0; 4096], b"\x7fELF\x02\x01\x01\0\0\0", &random] {
        assert!(!is_cpel(bytes) && !is_elog(bytes), "{:?}", &bytes[..bytes.len().min(16)]);
    }
    assert!(!is_elog(b"\0\0\0\x07elog v"));
}

#[test]
fn an_event_log_of_the_size_of_a_gist_log_is_none() {
    // 4 octets and 20 for each of the 7 events that the length of the magic would say.
    let mut bytes = b"\0\0\0\x07elog v0".to_vec();
    bytes.resize(144, 0);
    assert!(!is_cpel(&bytes));
    bytes[4] = b'E';
    assert!(is_cpel(&bytes));
}
