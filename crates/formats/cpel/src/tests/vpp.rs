//! Event logs of VPP.

use super::*;

/// A VPP log: two types, two tracks, and the events that are given as octets.
fn elog(events: u32, octets: &[u8]) -> Vec<u8> {
    let mut builder = Builder { order: ByteOrder::Big, bytes: Vec::new() };
    let text = |builder: &mut Builder, text: &[u8]| {
        builder.text(&[(text.len() << 1 | 1) as u8]).text(text);
    };
    builder.u32(7).text(b"elog v0").u32(1024);
    for (low, high) in [(1, 0), (2, 0), (1000, 0), (3, 0)] {
        builder.u32(low).u32(high);
    }
    builder.u32(2);
    text(&mut builder, b"state %s of %s");
    text(&mut builder, b"t1T4");
    builder.u32(1).u32(2);
    text(&mut builder, b"old");
    text(&mut builder, b"new");
    text(&mut builder, b"%s %Ld");
    text(&mut builder, b"s0i8");
    builder.u32(2).u32(0);
    builder.u32(2);
    text(&mut builder, b"main");
    text(&mut builder, b"worker");
    builder.u32(6).text(b"a\0bee\0");
    builder.u32(events).text(octets);
    builder.bytes
}

/// The octets of an event: type, track, seconds, arguments.
fn elog_event(of: u16, track: u16, seconds: f64, args: &[u8]) -> Vec<u8> {
    let bits = seconds.to_bits();
    let mut builder = Builder { order: ByteOrder::Big, bytes: Vec::new() };
    builder.u16(of).u16(track).u32(bits as u32).u32((bits >> 32) as u32).text(args);
    builder.bytes
}

/// A VPP log whose only type has so many enumeration strings, the empty string each, and an event that has one of them.
fn enumeration(strings: u32, index: u32) -> Vec<u8> {
    let mut builder = Builder { order: ByteOrder::Big, bytes: Vec::new() };
    builder.u32(7).text(b"elog v0").u32(1024);
    builder.bytes.resize(builder.bytes.len() + 32, 0);
    builder.u32(1).text(b"\x05%s").text(b"\x05t4").u32(1).u32(strings);
    builder.bytes.resize(builder.bytes.len() + strings as usize, 1);
    builder.u32(1).text(b"\x01").u32(0).u32(1);
    builder.text(&elog_event(0, 0, 0.0, &index.to_be_bytes()));
    builder.bytes
}

#[test]
fn long_enumerations_are_kept() {
    let labels = |trace: &OpenTrace, value: i128| {
        let payload = trace.schema.events()[0].payload.unwrap();
        let FieldKind::Struct(payload) = &trace.schema.field_class(payload).kind else { panic!("a structure") };
        let FieldKind::Integer(class) = &trace.schema.field_class(payload.members[3].class).kind else {
            panic!("an enumeration")
        };
        let (listed, looked_up) = (class.labels(value).count(), class.label_list());
        assert_eq!(looked_up.labels_for(value).count(), listed);
        listed
    };
    let trace = open(enumeration(70_000, 69_999), &[]).unwrap();
    assert_eq!([0, 69_999, 70_000, -1].map(|value| labels(&trace, value)), [1, 1, 0, 0]);
    let content = read(&trace);
    assert!(trace.warnings.is_empty() && content.faults.is_empty());
    let trace = open(enumeration(300_000, 299_999), &[]).unwrap();
    assert_eq!([262_143, 262_144].map(|value| labels(&trace, value)), [1, 0]);
    let want = "the types have more than 262144 enumeration strings: those from string 262144 of the type at 0x33 on are not kept";
    assert_eq!(reported(&trace.warnings), [format!("51: {want}")]);
    // There is such a string.
    assert!(read(&trace).faults.is_empty());
}

#[test]
fn events_of_vpp_have_typed_arguments() {
    let args = [&[0x07][..], b"ab\xff", &[0, 0, 0, 5, 0, 0, 0, 1]].concat();
    let octets =
        [elog_event(0, 1, 0.5, &[1, 0, 0, 0, 2]), elog_event(1, 0, -2.5, &args), elog_event(1, 0, 3e-9, &[1; 9])]
            .concat();
    let bytes = elog(3, &octets);
    assert!(is_elog(&bytes) && !is_cpel(&bytes));
    let trace = open(bytes, &[]).unwrap();
    assert!(trace.faults.is_empty() && trace.warnings.is_empty() && trace.remarks.is_empty());
    let start = 1_490_885_108_000_001_000u64;
    let content = read(&trace);
    let want = [
        format!(
            r#"{} state %s of %s: track=1 track_name="worker" text="state new of bee" arg0=1 arg1="bee""#,
            start + 500_000_000
        ),
        format!(
            "{} %s %Ld: track=0 track_name=\"main\" text=\"ab\u{fffd} 4294967301\" arg0=\"ab\u{fffd}\" arg1=4294967301",
            start - 2_500_000_000
        ),
        format!(
            r#"{} %s %Ld: track=0 track_name="main" text=" 72340172838076673" arg0="" arg1=72340172838076673"#,
            start + 3
        ),
    ];
    assert_eq!(content.events, want);
    assert!(content.faults.is_empty() && content.warnings.is_empty());
    let trace = open(elog(0, b""), &[("short-names", "")]).unwrap();
    let names: Vec<_> = trace.schema.events().iter().map(|class| class.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["state", "%s %Ld"]);
}

#[test]
fn damage_of_vpp_logs_keeps_the_events_before_it() {
    let good = elog_event(0, 0, 1.0, &[0, 0, 0, 0, 0]);
    let first = elog(0, b"").len();
    let fault = |count: u32, octets: &[u8]| {
        let trace = open(elog(count, octets), &[]).unwrap();
        let content = read(&trace);
        let faults = [reported(&trace.faults), reported(&content.faults)].concat();
        (content.events.len(), faults.join("; "), reported(&content.warnings).join("; "))
    };
    let second = first + good.len();
    let bad_type = elog_event(2, 0, 1.0, &[]);
    let cases = [
        (2, [&good[..], &bad_type].concat(), 1, format!("{second}: event 1 is of type 2; the file has 2 types")),
        (2, [&good[..], &good[..9]].concat(), 1, format!("{second}: the file ends in event 1 of 2: 9 octets are left")),
        (u32::MAX, good.clone(), 1, format!("{second}: the file says that it has 4294967295 events and ends after 1")),
        (
            2,
            [&elog_event(0, 7, 1.0, &[0; 5])[..], &good].concat(),
            2,
            format!("{}: an event of track 7; the file has 2 tracks; reported once for the file", first + 2),
        ),
        (
            2,
            [&elog_event(0, 0, 1.0, &[2, 0, 0, 0, 0])[..], &good].concat(),
            2,
            format!("{}: the enumeration index 2; the type has 2 strings; reported once for the file", first + 12),
        ),
        (
            2,
            [&elog_event(0, 0, 1.0, &[1, 0, 0, 0, 6])[..], &good].concat(),
            2,
            format!("{}: the string offset 6; the string table has 6 octets; reported once for the file", first + 13),
        ),
        // A string that says it is longer than the file.
        (
            2,
            [&good[..], &elog_event(1, 0, 1.0, &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])].concat(),
            1,
            format!("{second}: the file ends in event 1 of 2: 21 octets are left"),
        ),
        (1, Vec::new(), 0, format!("{first}: the log says that it has 1 events, the file ends before the first")),
    ];
    for (count, octets, events, want) in cases {
        let (have, faults, warnings) = fault(count, &octets);
        assert_eq!((have, faults), (events, want));
        assert!(warnings.is_empty());
    }
    let (events, faults, warnings) = fault(1, &[&good[..], b"more"].concat());
    assert_eq!((events, faults), (1, String::new()));
    assert_eq!(warnings, format!("{second}: 4 octets after the last event are ignored"));
    // Every cut of the header is an error with its place.
    let whole = elog(0, b"");
    for len in 11..whole.len() {
        let error = open(whole[..len].to_vec(), &[]).err().unwrap();
        assert!(error.place().offset.is_some_and(|offset| offset <= len as u64), "{error}");
    }
}

#[test]
fn packets_of_vpp_logs_can_be_opened_in_any_order() {
    let mut octets = Vec::new();
    let count = 20_000u32;
    for at in 0..count {
        let text = vec![b'x'; (at % 50) as usize];
        let args = [&[(text.len() << 1 | 1) as u8][..], &text, &at.to_be_bytes(), &[0; 4]].concat();
        octets.extend(elog_event(1, 0, f64::from(at), &args));
    }
    let bytes = elog(count, &octets);
    let trace = open(bytes.clone(), &[]).unwrap();
    let in_order = read(&trace);
    assert_eq!(in_order.events.len(), count as usize);
    assert!(in_order.faults.is_empty() && in_order.warnings.is_empty());
    let trace = open(bytes, &[]).unwrap();
    let stream = &trace.streams[0];
    assert!(stream.packets.len() > 5);
    let mut packets: Vec<Vec<String>> = vec![Vec::new(); stream.packets.len()];
    for index in (0..stream.packets.len()).rev() {
        let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).unwrap();
        assert!(opened.faults.is_empty());
        read_packet(opened.data, &mut packets[index]);
    }
    assert_eq!(packets.concat(), in_order.events);
}

#[test]
fn a_string_longer_than_a_packet() {
    let long = 200_000u64;
    let mut args = vec![0];
    args.extend_from_slice(&long.to_le_bytes());
    args.resize(9 + long as usize, b'y');
    args.extend_from_slice(&[0; 8]);
    let octets = [elog_event(1, 0, 1.0, &args), elog_event(0, 0, 2.0, &[0; 5])].concat();
    let content = read(&open(elog(2, &octets), &[]).unwrap());
    assert_eq!(content.events.len(), 2);
    assert!(content.events[0].len() > 400_000 && content.events[1].contains("state old of a"));
    assert!(content.faults.is_empty());
    let at = elog(2, &[]).len();
    let want = "an event of 200029 octets: its text may end after 65536, its arguments are whole; reported once";
    assert_eq!(reported(&content.warnings), [format!("{at}: {want}")]);
}

#[test]
fn times_that_are_no_times_are_told() {
    let octets = [-2e9, 1e12, f64::NAN].map(|seconds| elog_event(0, 0, seconds, &[0; 5])).concat();
    let content = read(&open(elog(3, &octets), &[]).unwrap());
    let start = 1_490_885_108_000_001_000u64;
    let times: Vec<&str> = content.events.iter().filter_map(|event| event.split(' ').next()).collect();
    assert_eq!(times, ["0".to_string(), u64::MAX.to_string(), start.to_string()]);
    let at = elog(0, &[]).len() + 4;
    let far = "the time of an event is not between 1970 and 2554: it is held there; reported once";
    let none = "the time of an event is not a number: it is shown at the start of the log; reported once";
    let len = octets.len() / 3;
    assert_eq!(reported(&content.warnings), [format!("{at}: {far}"), format!("{}: {none}", at + 2 * len)]);
}

#[test]
fn too_many_classes_name_themselves() {
    let mut builder = Builder::cpel(ByteOrder::Big, 32);
    builder.section(1, b"T\0n%d\0\0\0");
    let words: Vec<u32> = (0..20_000).flat_map(|code| [code, 2, 0]).collect();
    builder.records(3, "T", &[20_000], &words);
    for at in 0..30 {
        builder.events("T", &[(at, 0, at as u32, 0)]);
    }
    let trace = open(builder.bytes, &[]).unwrap();
    assert!(trace.schema.events().len() < 110_000);
    let events = read(&trace).events;
    for (at, event) in events.iter().enumerate() {
        assert!(event.starts_with(&format!("{at} n{at}: code={at} ")), "{event}");
    }
    assert_eq!(events.len(), 30);
}
