//! Sections and events of CPEL: what they hold, and what is said about damage.

use super::*;

#[test]
fn both_byte_orders_hold_the_same() {
    for order in [ByteOrder::Big, ByteOrder::Little] {
        let bytes = small(order).bytes;
        assert!(is_cpel(&bytes));
        let trace = open(bytes, &[]).unwrap();
        assert!(trace.faults.is_empty() && trace.warnings.is_empty() && trace.remarks.is_empty());
        let content = read(&trace);
        assert_eq!(
            content.events,
            [
                r#"10 call: code=1 track=0 track_name="cpu0" datum=2 datum_text="call""#,
                r#"20 call: code=2 track=0 track_name="cpu0" datum=7 datum_text="7""#,
                r#"30 E3: code=3 track=5 track_name="5" datum=1 datum_text="""#,
            ]
        );
        assert!(content.faults.is_empty() && content.warnings.is_empty());
        let packet = &trace.streams[0].packets.at(0);
        assert_eq!((packet.begin_cycles, packet.end_cycles), (Some(10), Some(30)));
        let titles: Vec<&str> = trace.sections.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["sections", "string tables", "event definitions", "track definitions"]);
    }
}

#[test]
fn other_versions_are_refused_unless_the_format_is_named() {
    let mut bytes = small(ByteOrder::Big).bytes;
    for version in [2, 8, 100, 127] {
        bytes[0] = version;
        assert!(is_cpel(&bytes));
        let error = open(bytes.clone(), &[]).err().unwrap();
        assert_eq!(reported(&[error]), [format!("0: version {version} of CPEL: only version 1 is known")]);
    }
    let mut little = small(ByteOrder::Little).bytes;
    little[0] = 0xff;
    assert!(is_cpel(&little));
    bytes[0] = 0;
    let error = open(bytes.clone(), &[("input-format", "cpel")]).err().unwrap();
    assert!(error.help().is_some_and(|help| help.contains("--input-format gist")));
    bytes[0] = 2;
    let trace = open(bytes, &[("input-format", "cpel")]).unwrap();
    assert_eq!(reported(&trace.warnings), ["0: version 2 of CPEL: only version 1 is known; it is read as version 1"]);
    assert_eq!(read(&trace).events.len(), 3);
}

#[test]
fn no_sections_are_no_events() {
    let bytes = Builder::cpel(ByteOrder::Big, 0).bytes;
    assert!(is_cpel(&bytes));
    let trace = open(bytes, &[]).unwrap();
    assert_eq!(reported(&trace.warnings), ["0: there is no event section, so there are no events"]);
    assert!(trace.faults.is_empty() && trace.streams.is_empty());
}

#[test]
fn a_cut_section_gives_its_whole_records() {
    let mut bytes = small(ByteOrder::Big).bytes;
    let at = bytes.len() - (8 + 72 + 60);
    bytes.truncate(bytes.len() - 13);
    assert!(is_cpel(&bytes));
    let trace = open(bytes, &[]).unwrap();
    let want = format!("{at}: section 4 (events) of 4 declares 132 octets of data, only 119 are left in the file");
    assert_eq!(reported(&trace.faults), [want]);
    assert!(trace.warnings.is_empty());
    assert_eq!(read(&trace).events.len(), 2);
}

#[test]
fn a_length_past_the_end_is_a_fault() {
    let mut bytes = small(ByteOrder::Big).bytes;
    let at = 8 + 8 + STRINGS.len();
    bytes[at + 4..at + 8].copy_from_slice(&0xffff_fff0u32.to_be_bytes());
    assert!(is_cpel(&bytes));
    let left = bytes.len() - at - 8;
    let trace = open(bytes, &[]).unwrap();
    let want = format!(
        "{at}: section 2 (event definitions) of 4 declares 4294967280 octets of data, only {left} are left in the file"
    );
    assert_eq!(reported(&trace.faults), [want]);
    assert!(trace.warnings.is_empty() && trace.streams.is_empty());
    assert_eq!(trace.sections[2].rows.len(), 2);
}

#[test]
fn a_file_that_ends_in_a_header_is_cut() {
    let mut bytes = small(ByteOrder::Big).bytes;
    bytes[3] = 5;
    let len = bytes.len();
    bytes.extend_from_slice(&[0, 0, 0]);
    let trace = open(bytes, &[]).unwrap();
    assert_eq!(reported(&trace.faults), [format!("{len}: the file ends in the header of section 5 of 5")]);
    assert_eq!(read(&trace).events.len(), 3);
}

#[test]
fn counts_are_bounded_by_the_section() {
    let mut bytes = small(ByteOrder::Big).bytes;
    let count = bytes.len() - 60 - 8;
    bytes[count..count + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let trace = open(bytes.clone(), &[]).unwrap();
    let want = "section 4 (events) says that it has 4294967295 records, its 132 octets have room for 3";
    assert_eq!(reported(&trace.faults), [format!("{count}: {want}")]);
    assert_eq!(read(&trace).events.len(), 3);
    bytes[count..count + 4].copy_from_slice(&2u32.to_be_bytes());
    let trace = open(bytes, &[]).unwrap();
    let at = count + 8 + 40;
    assert_eq!(
        reported(&trace.warnings),
        [format!("{at}: section 4 (events): 20 octets after its last record are ignored")]
    );
    assert_eq!(read(&trace).events.len(), 2);
}

#[test]
fn a_section_shorter_than_its_header_is_a_fault() {
    let mut builder = Builder::cpel(ByteOrder::Big, 2);
    builder.section(1, b"T\0\0\0").section(5, &[b'T'; 70]);
    let trace = open(builder.bytes, &[]).unwrap();
    assert_eq!(reported(&trace.faults), ["20: section 2 (events) has 70 octets, its fixed header alone 72"]);
}

#[test]
fn offsets_outside_of_a_table() {
    let mut builder = Builder::cpel(ByteOrder::Big, 3);
    builder.section(1, b"T\0call\0%s\0\0\0");
    builder.records(3, "T", &[2], &[1, 2, 7, 2, 0x1000_0000, 12]);
    builder.events("T", &[(0, 0, 1, 2), (1, 0, 1, 0x7fff_ffff), (2, 0, 2, 0), (3, 0, 1, 12)]);
    let trace = open(builder.bytes.clone(), &[]).unwrap();
    let first = 8 + 8 + 12 + 8 + 68 + 12;
    let wrong = "of section 1 (string table), which has 12 octets: it counts as missing";
    assert_eq!(
        reported(&trace.warnings),
        [
            format!("{}: section 2 (event definitions): a format at offset 0x10000000 {wrong}", first + 4),
            format!("{}: section 2 (event definitions): a format at offset 0xc {wrong}", first + 8),
        ]
    );
    let content = read(&trace);
    let texts: Vec<&str> = content.events.iter().filter_map(|event| event.split("datum_text=").nth(1)).collect();
    assert_eq!(texts, [r#""call""#, r#""<bad-string:0x7fffffff>""#, r#""""#, r#""<bad-string:0xc>""#]);
    assert!(content.events[2].starts_with("2 E2:"));
    let at = builder.bytes.len() - 3 * 20 + 16;
    let want = "section 3 (events): a datum of event code 1 is the offset 0x7fffffff, outside of the string table; reported once";
    assert_eq!(reported(&content.warnings), [format!("{at}: {want}")]);
    assert!(trace.faults.is_empty() && content.faults.is_empty());
}

#[test]
fn names_and_tracks_may_be_offsets_too() {
    // Codes and tracks that are named by the string at them: `T` at 0, `%s` at 2, `ok` at 5, `cut` at 8 without a NUL.
    let mut builder = Builder::cpel(ByteOrder::Little, 4);
    builder.section(1, b"T\0%s\0ok\0cut\0\0\0\0");
    builder.records(3, "T", &[4], &[5, 2, 2, 8, 2, 0, 99, 2, 0, 2, 5, 2]);
    builder.records(4, "T", &[2], &[9, 2, 77, 2]);
    builder.events("T", &[(0, 5, 5, 5), (1, 5, 99, 0), (2, 77, 8, 0), (3, 9, 99, 0), (4, 77, 2, 9)]);
    let told_of = |bytes: Vec<u8>, settings: &[(&'static str, &str)]| {
        let trace = open(bytes, settings).unwrap();
        let content = read(&trace);
        assert_eq!(content.events.len(), 5);
        (reported(&[trace.warnings, content.warnings].concat()), reported(&[trace.faults, content.faults].concat()))
    };
    let len = builder.bytes.len();
    let record = |at: usize, word: usize| len - (5 - at) * 20 + word;
    let title = "section 4 (events)";
    let outside = [
        format!(
            "{}: {title}: the name of an event is the offset 0x63, outside of the string table; reported once",
            record(1, 12)
        ),
        format!(
            "{}: {title}: the name of a track is the offset 0x4d, outside of the string table; reported once",
            record(2, 8)
        ),
    ];
    assert_eq!(told_of(builder.bytes.clone(), &[]), (outside.to_vec(), vec![]));
    // Without the NULs at the end: the padding is a part of the string.
    let at = 16 + 12;
    builder.bytes[at - 1..at + 3].copy_from_slice(b"tail");
    let warned = |kind: &str, place: usize| format!("{place}: {title}: {kind} has no NUL; reported once");
    let (name, track) =
        ("the name of an event, the string at offset 0x8,", "the name of a track, the string at offset 0x9,");
    let datum = "a datum of event code 2, the string at offset 0x9,";
    let cut = [warned(name, record(2, 12)), warned(track, record(3, 8)), warned(datum, record(4, 16))];
    let (warnings, faults) = told_of(builder.bytes.clone(), &[]);
    assert_eq!((warnings.len(), faults), (5, vec![]));
    assert!(cut.iter().chain(&outside).all(|told| warnings.contains(told)), "{warnings:?}");
    // A name must have one when it is asked for.
    let (warnings, faults) = told_of(builder.bytes, &[("strict", "")]);
    assert_eq!(faults, cut[..2]);
    assert!(warnings.contains(&cut[2]) && warnings.len() == 3);
}

#[test]
fn octets_of_names_and_data_are_kept_when_asked_for() {
    let mut builder = Builder::cpel(ByteOrder::Big, 4);
    builder.section(1, b"T\0n\xff%d\0%s\0a\xc3\0\0\0");
    builder.records(3, "T", &[1], &[1, 2, 7]).records(4, "T", &[1], &[10, 7]);
    builder.events("T", &[(5, 10, 1, 10), (6, 3, 1, 99), (7, 3, 9, 0)]);
    let events = read(&open(builder.bytes.clone(), &[("octets", "")]).unwrap()).events;
    let first = "5 n\u{fffd}1: code=1 track=10 track_name=\"a\u{fffd}\" datum=10 datum_text=\"a\u{fffd}\"";
    assert_eq!(
        events,
        [
            format!(r"{first} name_octets=n\xff1 track_octets=a\xc3 datum_octets=a\xc3"),
            "6 n\u{fffd}1: code=1 track=3 track_name=\"3\" datum=99 datum_text=\"<bad-string:0x63>\" \
             name_octets=n\\xff1 track_octets=3 datum_octets=<bad-string:0x63>"
                .to_string(),
            "7 E9: code=9 track=3 track_name=\"3\" datum=0 datum_text=\"\" name_octets=E9 track_octets=3 datum_octets="
                .to_string(),
        ]
    );
    assert_eq!(read(&open(builder.bytes, &[]).unwrap()).events[0], first);
}

#[test]
fn names_of_definitions_without_an_end_are_errors_when_strict() {
    let mut builder = Builder::cpel(ByteOrder::Big, 4);
    builder.section(1, b"T\0name").section(2, &[&[b'T'; 1][..], &[0; 66], &[1, 0, 0, 0, 9, 0, 0, 0, 3]].concat());
    builder.records(3, "T", &[2], &[1, 2, 0, 2, 0, 3]).records(4, "T", &[1], &[1, 4]);
    let (at, lenient) = (16 + 6, open(builder.bytes.clone(), &[]).unwrap());
    let string = |offset: u32| {
        format!("the string at offset {offset:#x} of section 1 (string table) has no NUL: it ends with the section")
    };
    let symbols = format!("{}: the name at offset 0x3 of section 1 (string table) has no NUL", at + 8 + 68 + 4);
    let events = at + 8 + 76 + 8 + 68;
    let (name, datum) = (format!("{}: {}", events + 4, string(2)), format!("{}: {}", events + 12 + 8, string(3)));
    let track = format!("{}: {}", events + 24 + 8 + 68 + 4, string(4));
    let none = "0: there is no event section, so there are no events".to_string();
    let all = [symbols.clone(), name.clone(), datum.clone(), track.clone(), none.clone()];
    assert_eq!((reported(&lenient.warnings), reported(&lenient.faults)), (all.to_vec(), vec![]));
    let strict = open(builder.bytes, &[("strict", "")]).unwrap();
    assert_eq!((reported(&strict.warnings), reported(&strict.faults)), (vec![datum, none], vec![symbols, name, track]));
}

#[test]
fn symbols_are_sorted_and_said_to_be_unsorted() {
    let mut builder = Builder::cpel(ByteOrder::Big, 4);
    builder.section(1, b"T\0a\0b\0c\0%k\0\0");
    builder.records(2, "T", &[3], &[0x3000, 6, 0x1000, 2, 0x2000, 4]);
    builder.records(3, "T", &[1], &[1, 2, 8]);
    builder.events("T", &[(0, 0, 1, 0x1001), (1, 0, 1, 0x2002), (2, 0, 1, 0x3003), (3, 0, 1, 0)]);
    let trace = open(builder.bytes, &[]).unwrap();
    let at = 8 + 8 + 12 + 8 + 68 + 8;
    assert_eq!(
        reported(&trace.warnings),
        [format!("{at}: section 2 (symbols) is not sorted: the value 0x1000 stands after 0x3000")]
    );
    let events = read(&trace).events;
    let texts: Vec<&str> = events.iter().filter_map(|event| event.split("datum_text=").nth(1)).collect();
    assert_eq!(texts, [r#""a+0x1""#, r#""b+0x2""#, r#""c+0x3""#, r#""0x00000000""#]);
}

#[test]
fn a_table_without_any_nul_ends_with_its_section() {
    let mut builder = Builder::cpel(ByteOrder::Big, 3);
    builder.section(1, b"name without");
    builder.records(3, "name without", &[1], &[1, 5, 0]);
    builder.events("name without", &[(7, 0, 1, 0)]);
    let trace = open(builder.bytes, &[]).unwrap();
    assert_eq!(
        reported(&trace.warnings),
        [
            "16: the name of section 1 (string table) is not terminated: it ends with the section",
            "108: the string at offset 0x5 of section 1 (string table) has no NUL: it ends with the section",
        ]
    );
    assert!(read(&trace).events[0].starts_with("7 without:"));
}

#[test]
fn what_the_format_forbids_is_told() {
    let mut builder = Builder::cpel(ByteOrder::Big, 5);
    builder.section(1, b"T\0a\0b\0\0\0").section(1, b"T\0x\0y\0\0");
    builder.records(3, "T", &[3], &[1, 2, 0, 1, 4, 0, 2, 4, 0]);
    builder.records(4, "nowhere", &[2], &[3, 2, 3, 4]);
    builder.events("T", &[(0, 3, 1, 0), (1, 3, 2, 0)]).text(b"more");
    let len = builder.bytes.len();
    let trace = open(builder.bytes, &[]).unwrap();
    assert_eq!(
        reported(&trace.warnings),
        [
            format!("{}: 4 octets after the last section are ignored", len - 4),
            "32: section 2 (string table) has the name `T` of a table before it: this one counts".into(),
            format!("{}: event code 1 is defined twice: the first one counts", 39 + 8 + 68 + 12),
            format!("{}: track 3 is defined twice: the first one counts", 39 + 8 + 68 + 36 + 8 + 68 + 8),
        ]
    );
    assert_eq!(reported(&trace.remarks), ["24: section 2 (string table) has 7 octets, no multiple of 4"]);
    let want = "section 4 (track definitions) names the string table `nowhere`, which is not there";
    assert_eq!(reported(&trace.faults), [format!("{}: {want}", 39 + 8 + 68 + 36 + 8)]);
    let events = read(&trace).events;
    assert!(events[0].starts_with("0 x: ") && events[1].starts_with("1 y: "), "{events:?}");
}

#[test]
fn lengths_that_leave_the_padding_out() {
    let mut builder = Builder::cpel(ByteOrder::Little, 2);
    builder.u32(1).u32(5).text(b"T\0ab\0\0\0\0");
    builder.events("T", &[(1, 0, 1, 0)]);
    let trace = open(builder.bytes, &[]).unwrap();
    assert!(trace.faults.is_empty());
    assert_eq!(trace.warnings.len(), 1);
    assert_eq!(read(&trace).events.len(), 1);
}

#[test]
fn unsorted_times_are_sorted_and_ties_keep_their_order() {
    let mut builder = Builder::cpel(ByteOrder::Little, 1);
    let times: Vec<(u64, u32, u32, u32)> =
        (0..10_000u32).map(|at| (u64::from(at * 7919 % 5000) << 30, 0, 1, at)).collect();
    builder.events("T", &times);
    let trace = open(builder.bytes, &[]).unwrap();
    let events = read(&trace).events;
    let mut want: Vec<(u64, u32)> = times.iter().map(|&(time, _, _, datum)| (time, datum)).collect();
    want.sort();
    assert_eq!(events.len(), want.len());
    for (event, (time, datum)) in events.iter().zip(want) {
        let start = format!("{time} E1: code=1 track=0 track_name=\"0\" datum={datum} ");
        assert!(event.starts_with(&start), "{event}, not {start}");
    }
    let packets = &trace.streams[0].packets;
    assert!(packets.len() > 1 && packets.iter().is_sorted_by_key(|packet| (packet.begin_cycles, packet.end_cycles)));
}

#[test]
fn counters_of_32_bits_wrap_only_when_asked() {
    let mut builder = Builder::cpel(ByteOrder::Big, 1);
    let times = [0xffff_0000u64, 0xffff_ff00, 0x10, 0x8, 0xffff_0000, 3];
    let events: Vec<_> = times.iter().map(|&time| (time, 0, 1, 0)).collect();
    builder.events("T", &events);
    let cycles = |settings: &[(&'static str, &str)]| -> Vec<u64> {
        let events = read(&open(builder.bytes.clone(), settings).unwrap()).events;
        events.iter().map(|event| event.split(' ').next().unwrap().parse().unwrap()).collect()
    };
    assert_eq!(cycles(&[]), [3, 8, 0x10, 0xffff_0000, 0xffff_0000, 0xffff_ff00]);
    let one = 1 << 32;
    let want = [0xffff_0000, 0xffff_ff00, one + 8, one + 0x10, one + 0xffff_0000, 2 * one + 3];
    assert_eq!(cycles(&[("wrap", "32")]), want);
}

#[test]
fn a_step_back_over_half_the_range_is_told() {
    let mut builder = Builder::cpel(ByteOrder::Big, 1);
    builder.events("T", &[(u64::MAX, 0, 1, 0), (5, 0, 1, 0)]);
    let at = builder.bytes.len() - 20;
    let content = read(&open(builder.bytes, &[]).unwrap());
    let want = format!(
        "{at}: section 1 (events): a time goes back by more than 2^63, from {} to 5; reported once for the section",
        u64::MAX
    );
    assert_eq!(reported(&content.warnings), [want]);
}

#[test]
fn rates() {
    let rate_of = |rate: u32, settings: &[(&'static str, &str)]| {
        let mut builder = Builder::cpel(ByteOrder::Big, 1);
        builder.records(5, "T", &[1, rate], &[0, 1, 0, 1, 0]);
        let trace = open(builder.bytes, settings).unwrap();
        (trace.schema.clocks()[0].frequency, trace.warnings.len())
    };
    // One warning is about the string table that is not there.
    assert_eq!(rate_of(1_000_000_000, &[]), (1_000_000_000, 1));
    assert_eq!(rate_of(2400, &[]), (2_400_000_000, 1));
    assert_eq!(rate_of(2400, &[("clock-rate-unit", "s")]), (2400, 1));
    assert_eq!(rate_of(0, &[]), (0, 2));
    assert_eq!(rate_of(0, &[("ticks-per-us", "3")]), (3_000_000, 1));
}

#[test]
fn events_of_a_table_that_is_not_there_take_the_only_one() {
    let log = |tables: &[&str]| {
        let mut builder = Builder::cpel(ByteOrder::Big, tables.len() as u16 + 2);
        for name in tables {
            let text = [name.as_bytes(), &STRINGS[1..]].concat();
            builder.section(1, &text);
        }
        // Code 1 is called `call` and shows its datum as text.
        builder.records(3, tables[0], &[1], &[1, 2, 7]);
        builder.events("nowhere", &[(5, 0, 1, 2)]);
        builder.bytes
    };
    let shown = |bytes: Vec<u8>, settings: &[(&'static str, &str)]| {
        let trace = open(bytes, settings).unwrap();
        let told = trace.warnings.iter().any(|warning| warning.message().contains("names the string table `nowhere`"));
        assert!(told, "{:?}", trace.warnings);
        read(&trace).events[0].clone()
    };
    let has = |event: &str, text: &str| assert!(event.contains(&format!("datum_text=\"{text}\"")), "{event}");
    has(&shown(log(&["T"]), &[]), "call");
    has(&shown(log(&["T"]), &[("strict", "")]), "<bad-string:0x2>");
    has(&shown(log(&["T", "U"]), &[]), "<bad-string:0x2>");
}
