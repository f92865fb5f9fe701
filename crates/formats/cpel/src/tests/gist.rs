//! Gist logs, and what is no log.

use super::*;

#[test]
fn gist_logs() {
    let mut builder = Builder { order: ByteOrder::Big, bytes: Vec::new() };
    builder.u32(2);
    for word in [0, 20, 7, 1001, 5, 0, 10, 8, 3, 6] {
        builder.u32(word);
    }
    let bytes = builder.bytes.clone();
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
