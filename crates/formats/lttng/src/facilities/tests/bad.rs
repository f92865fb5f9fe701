//! The damage of each damaged trace of the corpus, on traces of a few bytes. D numbers are decisions of `SPEC.md`.

use super::*;

const XML: &str = "<event name=e><field name=n><uint/></field></event>
                   <event name=q><field name=a><uchar/></field><field name=s><sequence><uint/><uchar/></sequence></field>
                   <field name=z><uint/></field></event>";

fn number(at: u64, value: u8) -> Event {
    event(i386().start.0 + at, (7, 0), &[value, 0, 0, 0])
}

/// A trace with two blocks of two events each in `cpu_0`.
fn sound() -> Folder {
    let machine = i386();
    let mut folder = machine.trace(XML, &[]);
    let block = |from: u8| {
        let (first, second) = (number(from.into(), from), number(u64::from(from) + 1, from + 1));
        machine.block(machine.start.0 + u64::from(from), machine.start.0 + 99, &[first, second], 40)
    };
    folder.add("cpu_0", [block(1), block(3)].concat());
    folder.add("cpu_1", block(5));
    folder
}

const LEN: usize = 106 + 2 * 12 + 40;

/// Damages `cpu_0` and reads the trace.
fn damaged(damage: impl FnOnce(&mut Vec<u8>)) -> Read {
    let mut folder = sound();
    damage(folder.0.get_mut("cpu_0").expect("it"));
    folder.read()
}

fn values(read: &Read, file: &str) -> Vec<String> {
    read.payloads(file).iter().map(|line| line.replace("t.e { n=", "").replace(" }", "")).collect()
}

#[test]
fn a_sound_trace_has_no_fault() {
    let read = sound().read();
    read.is(&["t.e { n=1 }", "t.e { n=2 }", "t.e { n=3 }", "t.e { n=4 }"]);
    assert_eq!(read.payloads("cpu_1").len(), 2);
    let cpus: Vec<&str> = read.trace.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(cpus, ["control/facilities_0", "cpu_0", "cpu_1"]);
}

#[test]
fn a_file_with_a_wrong_magic_number_is_skipped_and_named() {
    let mut folder = sound();
    folder.0.get_mut("cpu_1").expect("it")[40..44].copy_from_slice(&[0xef, 0xbe, 0xad, 0xde]);
    let read = folder.read();
    assert_eq!((read.payloads("cpu_0").len(), read.payloads("cpu_1").len()), (4, 0));
    assert_eq!(read.faults.len(), 1);
    assert!(read.faults[0].starts_with("/t/cpu_1: byte 40: no magic number"), "{}", read.faults[0]);
}

#[test]
fn a_file_whose_first_block_is_bad_is_read_from_the_next_one_on() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(Change, &str); 4] = [
        (|bytes| bytes[40] = 0, "byte 40, packet 0: no magic number"),
        (|bytes| bytes[58] = 9, "byte 57, packet 0: version 0.9"),
        (|bytes| bytes[61] = 3, "byte 56, packet 0: an alignment of 3"),
        (|bytes| bytes[36..40].fill(0), "byte 0, packet 0: the block says that it has 0 bytes"),
    ];
    for (change, words) in cases {
        let read = damaged(change);
        assert_eq!(values(&read, "cpu_0"), ["3", "4"], "{words}");
        assert_eq!(read.faults.len(), 1, "{:?}", read.faults);
        assert!(read.faults[0].starts_with(&format!("/t/cpu_0: {words}")), "{}", read.faults[0]);
    }
    // The file of facilities too: its loads are in its second block.
    let mut folder = sound();
    let loads = folder.0["control/facilities_0"].clone();
    let bad = vec![0xaa; 300];
    folder.add("control/facilities_0", [bad, loads].concat());
    let read = folder.read();
    assert_eq!(values(&read, "cpu_0"), ["1", "2", "3", "4"]);
    assert!(read.faults[0].contains("is read from its next block on, at byte 300"), "{}", read.faults[0]);
}

#[test]
fn blocks_that_contradict_the_header_of_the_first_are_told() {
    // D5: what files state is the same in all of their blocks.
    let read = damaged(|bytes| {
        bytes[LEN + 61] = 8;
        bytes[LEN + 66] = 1;
    });
    assert_eq!(values(&read, "cpu_0"), ["1", "2", "3", "4"]);
    assert_eq!(read.warnings.len(), 1, "{:?}", read.warnings);
    let warning = "/t/cpu_0: byte 210, packet 1: the block has another header of the trace than the first one: \
                   alignment 8, not 0; start_freq 769, not 1000";
    assert!(read.warnings[0].starts_with(warning), "{}", read.warnings[0]);
}

#[test]
fn a_block_of_size_0_is_skipped() {
    let mut folder = sound();
    folder.0.get_mut("cpu_1").expect("it")[36..40].fill(0);
    let read = folder.read();
    assert_eq!((values(&read, "cpu_0").len(), values(&read, "cpu_1").len()), (4, 0));
    assert!(read.faults[0].starts_with("/t/cpu_1: byte 0, packet 0: the block says that it has 0 bytes"));
    // In the second block the size of the first one leads on.
    let read = damaged(|bytes| bytes[LEN + 36..LEN + 40].fill(0));
    assert_eq!(values(&read, "cpu_0"), ["1", "2"]);
    assert_eq!(read.faults.len(), 1);
}

#[test]
fn too_many_unused_bytes_cost_the_block_alone() {
    let read = damaged(|bytes| bytes[32..36].copy_from_slice(&0xffff_fff0u32.to_le_bytes()));
    assert_eq!(values(&read, "cpu_0"), ["3", "4"]);
    let fault = "/t/cpu_0: byte 0, packet 0: 4294967280 bytes at the end of the block are said to be unused";
    assert!(read.faults[0].starts_with(fault), "{}", read.faults[0]);
    assert!(read.faults[0].contains("the block, 170 bytes, is skipped"), "{}", read.faults[0]);
}

#[test]
fn without_facilities_events_have_numbers_for_names() {
    let mut folder = sound();
    folder.0.remove("control/facilities_0");
    let read = folder.read();
    assert_eq!(read.payloads("cpu_0"), ["facility_7.event_0"; 4]);
    assert_eq!(read.faults.len(), 1);
    assert!(read.faults[0].contains("no `control/facilities_N` that can be read"), "{}", read.faults[0]);
    // D33: the clock is that of the first file.
    assert_eq!(read.times("cpu_0")[0].1, 1_000_250_001_000);
    let clock = "/t/cpu_0: byte 0: no good `control/facilities_N`: the clock is that of this file";
    assert!(read.warnings.iter().any(|warning| warning.starts_with(clock)), "{:?}", read.warnings);
    // One warning for the id, whatever the number of events and files.
    let unknown = read.warnings.iter().filter(|warning| warning.contains("event 0 of facility 7"));
    assert_eq!(unknown.count(), 1, "{:?}", read.warnings);
}

#[test]
fn a_sequence_that_passes_its_event_costs_that_field_and_those_behind_it() {
    // D27: nothing is taken for the elements that are said to be there.
    let machine = i386();
    let data = [9, 0, 0, 0, 0x40, 1, 2, 3, 4, 5];
    let events = [number(1, 1), event(machine.start.0 + 2, (7, 1), &data), number(3, 3)];
    let read = machine.trace(XML, &events).read();
    assert_eq!(read.payloads("cpu_0"), ["t.e { n=1 }", "t.q { a=9 s=null z=null }", "t.e { n=3 }"]);
    assert_eq!(read.faults.len(), 1);
    let fault = "/t/cpu_0: byte 118, packet 0, field `s`: an event of 10 bytes of data is too short for its fields: a \
                 sequence of 1073741824 elements";
    assert!(read.faults[0].starts_with(fault), "{}", read.faults[0]);
}

#[test]
fn a_block_that_is_cut_gives_its_whole_events() {
    let read = damaged(|bytes| bytes.truncate(LEN + 106 + 12 + 5));
    assert_eq!(values(&read, "cpu_0"), ["1", "2", "3"]);
    assert!(
        read.faults[0].starts_with("/t/cpu_0: byte 170, packet 1: the file ends inside of the block: 123 of its 170")
    );
    // Cut inside of its header, it is no block.
    let read = damaged(|bytes| bytes.truncate(LEN + 50));
    assert_eq!(values(&read, "cpu_0"), ["1", "2"]);
    assert!(read.faults[0].contains("50 bytes at the end of the file are no block"), "{}", read.faults[0]);
    // D2.
    let read = damaged(|bytes| bytes.truncate(65));
    assert!(read.faults[0].starts_with("/t/cpu_0: byte 0: 65 bytes hold no block"), "{}", read.faults[0]);
}

#[test]
fn an_unknown_event_without_size_ends_its_block() {
    let machine = i386();
    let mut folder = sound();
    let odd = Event { size: Some(u16::MAX), ..event(machine.start.0 + 2, (9, 5), &[1, 2, 3, 4]) };
    let first = machine.block(machine.start.0, machine.start.0 + 9, &[number(1, 1), odd, number(3, 3)], 0);
    let second = machine.block(machine.start.0 + 9, machine.start.0 + 19, &[number(10, 10)], 0);
    folder.add("cpu_0", [first, second].concat());
    let read = folder.read();
    // D18, second part.
    assert_eq!(values(&read, "cpu_0"), ["1", "10"]);
    let fault = "/t/cpu_0: byte 118, packet 0: event 5 of facility 9, which nothing describes, does not say its size";
    assert!(read.faults[0].starts_with(fault), "{}", read.faults[0]);
}

#[test]
fn versions_before_0_7_are_refused_by_name() {
    // D4.
    for (minor, at) in [(3u8, 40usize), (3, 56), (4, 56), (5, 72), (6, 72)] {
        let mut bytes = vec![0; 4096];
        bytes[at..at + 4].copy_from_slice(&0x00D6_B7EDu32.to_be_bytes());
        bytes[at + 18] = minor;
        let mut folder = sound();
        for file in ["control/facilities_0", "cpu_0", "cpu_1"] {
            folder.add(file, bytes.clone());
        }
        let error = folder.try_read(&Settings::default()).err().expect("a refusal").to_string();
        assert!(error.contains(&format!("LTTng version 0.{minor}, which is not read")), "{error}");
        // The fault is at the version.
        assert!(error.starts_with(&format!("/t/control/facilities_0: byte {}: ", at + 17)), "{error}");
    }
    // Versions that are newer than those with facilities.
    let read = damaged(|bytes| bytes[58] = 9);
    assert!(read.faults[0].contains("version 0.9 of the facility format is not read"), "{}", read.faults[0]);
}

#[test]
fn a_damaged_major_version_costs_its_file_and_makes_no_trace_of_markers() {
    for major in [1, 2] {
        let mut folder = sound();
        folder.0.get_mut("cpu_1").expect("it")[57] = major;
        assert!(!(crate::markers::FORMAT.probe)(&folder, Path::new(ROOT)));
        let read = folder.read();
        assert_eq!((read.payloads("cpu_0").len(), read.payloads("cpu_1").len()), (4, 0));
        assert!(read.faults[0].starts_with(&format!("/t/cpu_1: byte 57: version {major}.7")), "{:?}", read.faults);
    }
}

#[test]
fn a_broken_definition_costs_the_fields_of_its_facility() {
    let mut folder = sound();
    folder.add("eventdefs/t.xml", b"<facility name=\"t\">\n<event name=\"e\">\n  <field na".to_vec());
    let read = folder.read();
    assert_eq!(read.payloads("cpu_0"), ["t.event_0"; 4]);
    assert!(read.faults[0].starts_with("/t/eventdefs/t.xml: line 3, column 12: "), "{}", read.faults[0]);
    assert_eq!(read.faults.len(), 1);
}

#[test]
fn an_event_that_passes_the_end_of_its_block_ends_it() {
    // D20.
    let machine = i386();
    let long = Event { size: Some(500), ..number(2, 2) };
    let read = machine.trace(XML, &[number(1, 1), long]).read();
    assert_eq!(values(&read, "cpu_0"), ["1"]);
    assert!(
        read.faults[0].contains("byte 118, packet 0: an event of 500 bytes at byte 126 of the block passes the end")
    );
}

#[test]
fn a_bad_magic_number_in_a_later_block_costs_that_block() {
    // D7.
    let read = damaged(|bytes| bytes[LEN + 40] = 0);
    assert_eq!(values(&read, "cpu_0"), ["1", "2"]);
    assert!(read.faults[0].starts_with("/t/cpu_0: byte 170, packet 1: no magic number in the block"));
    assert!(read.faults[0].contains("the block, 170 bytes, is skipped"), "{}", read.faults[0]);
}

#[test]
fn nothing_that_bytes_say_makes_it_panic() {
    let folder = sound();
    let mut seed = 1u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let names: Vec<String> = folder.0.keys().cloned().collect();
    for _ in 0..3000 {
        let mut folder = folder.clone();
        for _ in 0..1 + next(4) {
            let bytes = folder.0.get_mut(&names[next(names.len())]).expect("a file");
            let at = next(bytes.len());
            match next(4) {
                0 => bytes[at] = next(256) as u8,
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][next(5)],
                2 => bytes.truncate(at.max(1)),
                _ => bytes[at] ^= 1 << next(8),
            }
        }
        if (FORMAT.probe)(&folder, Path::new(ROOT)) {
            let _ = folder.try_read(&Settings::default());
        }
    }
}
