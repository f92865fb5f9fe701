//! Directory, blocks, clocks, core events, and the numbered decisions of `SPEC.md`.

use super::super::definitions::DefinitionFile;
use super::*;

const XML: &str = "<event name=e><field name=n><uchar/></field></event>";

fn at(machine: &Machine, after: u64) -> Event {
    event(machine.start.0 + after, (7, 0), &[after as u8])
}

#[test]
fn a_trace_is_known_by_its_folders_and_a_magic_number() {
    // D1.
    let machine = i386();
    let folder = machine.trace(XML, &[]);
    let is_one = |folder: &Folder| (FORMAT.probe)(folder, Path::new(ROOT));
    assert!(is_one(&folder));
    let mut flat = Folder::default();
    flat.add("cpu_0", folder.0["cpu_0"].clone());
    assert!(!is_one(&flat), "neither eventdefs nor control");
    let mut other = Folder::default();
    other.add("control/facilities_0", vec![0; 4096]);
    other.add("eventdefs/t.xml", vec![b' '; 4096]);
    assert!(!is_one(&other), "no magic number");
    // The formats with markers have theirs at byte 16.
    let mut markers = Folder::default();
    let mut bytes = vec![0; 4096];
    bytes[16..20].copy_from_slice(&0x00D6_B7EDu32.to_le_bytes());
    bytes[20] = 2;
    markers.add("control/metadata_0", bytes);
    assert!(!is_one(&markers));
}

#[test]
fn names_say_channel_and_cpu_and_some_files_are_none() {
    let machine = i386();
    let mut folder = machine.trace(XML, &[]);
    let block = || machine.block(machine.start.0, machine.start.0 + 9, &[at(&machine, 1)], 0);
    folder.0.remove("cpu_0");
    for name in ["cpu_12", "flight-cpu_3", "control/processes_1", "ust/a/prog-12.34.56", "ust/x_y"] {
        folder.add(name, block());
    }
    for name in [".hidden", "eventdefs/cpu_0", "info/notes.xml"] {
        folder.add(name, vec![1; 5000]);
    }
    folder.add("empty_0", Vec::new());
    let read = folder.read();
    assert_eq!(read.faults, [""; 0]);
    assert!(read.trace.remarks[0].to_string().contains("empty_0: byte 0: the file is empty"));
    let cpu = |name: &str| {
        let stream = read.trace.streams.iter().find(|stream| stream.name == name).expect(name);
        read.trace.reader.open_packet(&read.trace.plans, stream, 0, 0).expect(name).data.cpu
    };
    let cpus = ["cpu_12", "flight-cpu_3", "control/processes_1", "ust/a/prog-12.34.56", "ust/x_y"].map(cpu);
    assert_eq!(cpus, [Some(12), Some(3), Some(1), Some(0), Some(0)]);
    assert_eq!(read.trace.streams.len(), 6);
}

#[test]
fn blocks_may_have_any_size_and_be_empty() {
    // D6, D8, D9.
    let machine = i386();
    let mut folder = machine.trace(XML, &[]);
    let block = |from: u64, lost| {
        let events = if from == 2 { Vec::new() } else { vec![at(&machine, from)] };
        machine.block(machine.start.0 + from, machine.start.0 + from, &events, lost)
    };
    folder.add("cpu_0", [block(1, 7), block(2, 0), block(3, 5000)].concat());
    let read = folder.read();
    read.is(&["t.e { n=1 }", "t.e { n=3 }"]);
    let stream = read.trace.streams.iter().find(|stream| stream.name == "cpu_0").expect("it");
    let sizes: Vec<(u64, u64)> = stream.packets.iter().map(|one| (one.offset_bytes, one.total_bits / 8)).collect();
    assert_eq!(sizes, [(0, 122), (122, 106), (228, 5115)]);
    assert!(stream.packets.iter().all(|one| one.discarded_snapshot.is_none() && one.lost_packets_before == 0));
    assert_eq!(stream.packets.at(2).content_bits / 8, 115);
}

#[test]
fn thirty_two_bits_of_time_go_on_from_the_block_and_wrap() {
    let machine = i386();
    let start = machine.start.0;
    let times = [start + 5, start + 5, start + 0xffff_fff0, start + 0x1_0000_0001, start + 0x1_0000_0001];
    let events: Vec<Event> = times.iter().map(|&tsc| event(tsc, (7, 0), &[1])).collect();
    let mut folder = machine.trace(XML, &[]);
    folder.add("cpu_0", machine.block(start, start + 0x1_0000_0009, &events, 0));
    let read = folder.read();
    let cycles: Vec<u64> = read.times("cpu_0").iter().map(|time| time.0).collect();
    assert_eq!(cycles, times);
    assert_eq!(read.warnings, [""; 0]);
    // D21: a wrap far after the end of the block is reported, once, and kept.
    folder.add("cpu_0", machine.block(start, start + 9, &[at(&machine, 5), at(&machine, 4), at(&machine, 3)], 0));
    let read = folder.read();
    assert_eq!(read.times("cpu_0")[2].0, start + 0x2_0000_0003);
    assert_eq!(read.warnings.len(), 1, "{:?}", read.warnings);
    assert!(read.warnings[0].contains("far after the end of its block"));
}

#[test]
fn without_heartbeat_times_have_64_bits() {
    let machine = Machine { has_heartbeat: false, is_big: true, alignment: 8, arch_size: 8, ..i386() };
    let events = [at(&machine, 9), at(&machine, 3)];
    let read = machine.trace(XML, &events).read();
    let cycles: Vec<u64> = read.times("cpu_0").iter().map(|time| time.0 - machine.start.0).collect();
    assert_eq!(cycles, [9, 3]);
}

#[test]
fn heartbeat_and_alignment_are_those_of_each_file_and_differences_are_told() {
    // D5.
    let machine = i386();
    let mut folder = machine.trace(XML, &[at(&machine, 1)]);
    let long = Machine { has_heartbeat: false, alignment: 4, ..i386() };
    folder.add("cpu_1", long.block(machine.start.0, machine.start.0 + 9, &[at(&machine, 2), at(&machine, 3)], 0));
    let read = folder.read();
    assert_eq!(read.payloads("cpu_1"), ["t.e { n=2 }", "t.e { n=3 }"]);
    assert_eq!(read.warnings, [""; 0]);
    let big = Machine { is_big: true, float_word_order: 4321, ..i386() };
    folder.add("cpu_2", big.block(machine.start.0, machine.start.0 + 9, &[at(&machine, 4)], 0));
    let read = folder.read();
    assert_eq!(read.payloads("cpu_2"), ["t.e { n=4 }"]);
    assert!(read.warnings[0].starts_with("/t/cpu_2: byte 40: version 0.7, big-endian"), "{:?}", read.warnings);
}

#[test]
fn core_events_have_the_ids_of_their_version() {
    // D11, D12, D13.
    let machine = i386();
    let load = machine.load("x", 5, 200, [4; 4], 0);
    let core = |ids: u8, data: &[u8]| event(machine.start.0 + 3, (0, ids), data);
    let mut folder = machine.trace(XML, &[core(1, &[7, 0, 0, 0]), core(2, &[]), core(2, &[1; 16]), core(3, &load)]);
    let read = folder.read();
    let shown = "{ name=\"x\" checksum=5 id=200 int_size=4 long_size=4 pointer_size=4 size_t_size=4 has_alignment=0 }";
    read.is(&[
        "core.facility_unload { id=7 }",
        "core.time_heartbeat",
        "core.time_heartbeat",
        &format!("core.state_dump_facility_load {shown}"),
    ]);
    let machine = Machine { minor: 8, ..machine };
    let full = machine.start.0 + 0x5_0000_0000;
    let events = [
        event(machine.start.0 + 3, (0, 3), &full.to_le_bytes()),
        event(full + 2, (7, 0), &[1]),
        event(full + 3, (0, 4), &load),
    ];
    folder = machine.trace(XML, &events);
    folder.add("cpu_0", machine.block(machine.start.0, full + 9, &events, 0));
    let read = folder.read();
    let names = [format!("core.heartbeat_full {{ tsc={full} }}"), "t.e { n=1 }".into()];
    assert_eq!(read.payloads("cpu_0")[..2], names);
    let cycles: Vec<u64> = read.times("cpu_0").iter().map(|time| time.0).collect();
    assert_eq!(cycles, [full, full + 2, full + 3]);
}

#[test]
fn loads_with_alignment_8_and_short_names_are_read() {
    // D14: the name is padded to 8; the size of the event is what it says.
    let machine = Machine { is_big: true, arch: 7, arch_size: 8, alignment: 8, ..i386() };
    let read = machine.trace(XML, &[at(&machine, 1)]).read();
    read.is(&["t.e { n=1 }"]);
    assert!(read.payloads("control/facilities_0")[0].contains("name=\"t\""), "{:?}", read.lines);
}

#[test]
fn facilities_of_all_cpus_are_known_before_any_event_is_read() {
    // D15: loaded on CPU 1, after the events that need it; again with the same id; with another one.
    let machine = i386();
    let mut folder = machine.trace(XML, &[at(&machine, 1)]);
    let load = folder.0["control/facilities_0"].clone();
    folder.add("control/facilities_1", load);
    folder.add("control/facilities_0", machine.block(machine.start.0, machine.start.0, &[], 0));
    folder.read().is(&["t.e { n=1 }"]);
    let other = machine.load("u", 5, 7, [4; 4], 0);
    let again = event(machine.start.0 + 90, (0, 0), &other);
    folder.add("control/facilities_2", machine.block(machine.start.0, machine.start.0 + 99, &[again], 0));
    let read = folder.read();
    assert_eq!(read.payloads("cpu_0"), ["t.e { n=1 }"]);
    assert!(
        read.warnings[0].contains("the facility `u` is loaded with the id 7, which `t` has"),
        "{:?}",
        read.warnings
    );
    // The same name with another id and checksum is another definition.
    let second = "<facility name=t><event name=f><field name=m><ushort/></field></event></facility>";
    let checksum = DefinitionFile::parse(second.as_bytes(), Path::new("x")).facilities[0].checksum;
    let of = |after: u64, ids| event(machine.start.0 + after, ids, &[1, 0]);
    let mut folder = machine.trace(XML, &[at(&machine, 1), of(2, (8, 0)), at(&machine, 3)]);
    folder.add("eventdefs/second.xml", second.as_bytes().to_vec());
    let load = event(machine.start.0, (0, 0), &machine.load("t", checksum, 8, [4; 4], 0));
    folder.add("control/facilities_1", machine.block(machine.start.0, machine.start.0, &[load], 0));
    folder.read().is(&["t.e { n=1 }", "t.f { m=1 }", "t.e { n=3 }"]);
}

#[test]
fn other_events_in_a_file_of_facilities_are_told_and_shown() {
    // D16.
    let machine = i386();
    let mut folder = machine.trace(XML, &[]);
    let mut events = vec![at(&machine, 1), at(&machine, 2)];
    let bytes = &folder.0["control/facilities_0"];
    let load = bytes[114..bytes.len() - 5].to_vec();
    events.push(event(machine.start.0 + 3, (0, 0), &load));
    folder.add("control/facilities_0", machine.block(machine.start.0, machine.start.0 + 9, &events, 0));
    let read = folder.read();
    assert_eq!(read.payloads("control/facilities_0")[..2], ["t.e { n=1 }", "t.e { n=2 }"]);
    assert_eq!(read.warnings.len(), 1);
    assert!(read.warnings[0].contains("not of the core facility in a file of facilities"));
}

#[test]
fn sizes_that_cannot_be_are_told_and_the_facility_is_not_decoded() {
    // D17.
    for (sizes, alignment, expected) in
        [([4, 3, 4, 4], 0, "`long` is said to have 3 bytes"), ([4; 4], 6, "aligned to 6")]
    {
        let machine = i386();
        let read = machine.trace_of(XML, sizes, alignment, &[at(&machine, 1)]).read();
        assert_eq!(read.payloads("cpu_0"), ["t.event_0"]);
        assert!(read.warnings[0].contains(expected), "{:?}", read.warnings);
    }
}

#[test]
fn more_data_than_fields_is_told_once_for_each_event() {
    // D19.
    let machine = i386();
    let long = event(machine.start.0 + 1, (7, 0), &[1, 2, 3]);
    let read = machine.trace(XML, &[long.clone(), at(&machine, 2), Event { tsc: machine.start.0 + 3, ..long }]).read();
    assert_eq!(read.payloads("cpu_0"), ["t.e { n=1 }", "t.e { n=2 }", "t.e { n=1 }"]);
    assert_eq!((read.faults.len(), read.warnings.len()), (0, 1));
    assert!(read.warnings[0].contains("byte 106, packet 0: event 0 of facility 7 has more data than its fields"));
}

#[test]
fn fewer_data_than_fields_keep_what_is_there_also_where_fields_are_written_anew() {
    let machine = i386();
    let xml = "<event name=e><field name=a><uchar/></field><field name=u><union><field name=b><ushort/></field></union>
               </field><field name=c><ushort/></field></event>";
    let events = [&[1, 2, 0, 3][..], &[1, 2], &[], &[1, 2, 0, 3, 0]].map(|data| event(machine.start.0, (7, 0), data));
    let read = machine.trace(xml, &events).read();
    let expected =
        ["{ a=1 u={ b=2 } c=null }", "{ a=1 u=null c=null }", "{ a=null u=null c=null }", "{ a=1 u={ b=2 } c=3 }"];
    assert_eq!(read.payloads("cpu_0"), expected.map(|line| format!("t.e {line}")));
    assert_eq!(read.faults.len(), 3);
}

/// A trace of version 0.8 with a compact tracefile of two blocks' worth of header forms.
fn compact(machine: &Machine, words: &[(u32, &[u8])]) -> Folder {
    let xml = "<facility name=compact><event name=tick></event>
               <event name=small attribute=compact_data><field name=v><uchar/></field></event>
               <event name=data><field name=p><uint_fixed size=4/></field></event>
               <event name=both attribute=compact_data><field name=v><ushort/></field><field name=w><ushort/></field>
               </event><event name=wide><field name=q><uint_fixed size=8/></field></event></facility>";
    let file = DefinitionFile::parse(xml.as_bytes(), Path::new("c"));
    let load = machine.load("compact", file.facilities[0].checksum, 9, [4; 4], machine.alignment.into());
    let mut folder = machine.trace(XML, &[]);
    folder.add("eventdefs/compact.xml", xml.as_bytes().to_vec());
    let load = event(machine.start.0, (0, 4), &load);
    folder.add("control/facilities_0", machine.block(machine.start.0, machine.start.0 + 9, &[load], 0));
    let mut bytes = machine.header(machine.start.0 + 0x123, machine.start.0 + 0xffff);
    for (word, data) in words {
        bytes.resize(bytes.len().next_multiple_of(usize::from(machine.alignment.clamp(1, 4))), 0);
        bytes.extend(machine.u32(*word));
        bytes.extend(*data);
    }
    folder.add("flight-compact_2", machine.finish(bytes, 3));
    folder
}

#[test]
fn compact_headers_hold_time_id_and_a_field() {
    // Four events: ids of 3 bits. 12 bits of time without the lowest 4: 17 bits are left.
    let machine = Machine { minor: 8, alignment: 4, tsc: (4, 12), ..i386() };
    let word = |time: u32, id: u32, data: u32| time | id << 12 | data << 15;
    let words = [
        (word(0x12, 0, 0), &[][..]),
        (word(0x13, 1, 0x1_0205), &[]),
        (word(0x11, 2, 0), &[9, 0, 0, 0]),
        (word(0x11, 3, 0x1_0203), &[5, 0]),
    ];
    let read = compact(&machine, &words).read();
    let expected = ["compact.tick", "compact.small { v=5 }", "compact.data { p=9 }", "compact.both { v=515 w=5 }"];
    assert_eq!(read.payloads("flight-compact_2"), expected, "{:?}", read.faults);
    let cycles: Vec<u64> = read.times("flight-compact_2").iter().map(|time| time.0 - machine.start.0).collect();
    assert_eq!(cycles, [0x123, 0x133, 0x1_0113, 0x1_0113]);
    // D22: on a big-endian machine the low bits too.
    let big = Machine { is_big: true, ..machine.clone() };
    let words = [(word(0x13, 1, 0x1_0205), &[][..]), (word(0x11, 3, 0x1_0203), &[0, 5])];
    let read = compact(&big, &words).read();
    assert_eq!(read.payloads("flight-compact_2"), ["compact.small { v=5 }", "compact.both { v=515 w=5 }"]);
    // There is no padding after a header: fields count from there, wherever in the block that is.
    let wide = Machine { alignment: 8, arch_size: 8, ..machine.clone() };
    let words = [(word(0x12, 4, 0), &[1, 0, 0, 0, 0, 0, 0, 0][..]), (word(0x12, 4, 0), &[2, 0, 0, 0, 0, 0, 0, 0])];
    let read = compact(&wide, &words).read();
    assert_eq!(read.payloads("flight-compact_2"), ["compact.wide { q=1 }", "compact.wide { q=2 }"]);
    // An id that the facility has not ends the block: nothing says where the next event is.
    let read = compact(&machine, &[(word(0x12, 0, 0), &[]), (word(0x12, 6, 0), &[])]).read();
    assert_eq!(read.payloads("flight-compact_2"), ["compact.tick"]);
    assert!(read.faults[0].contains("event 6 of facility 9, which nothing describes, does not say its size"));
}

#[test]
fn compact_files_without_their_facility_or_with_too_many_bits_are_skipped() {
    let machine = Machine { minor: 8, alignment: 4, tsc: (0, 30), ..i386() };
    let read = compact(&machine, &[(0, &[])]).read();
    assert!(read.faults[0].contains("30 bits of time, shifted by 0, and 3 bits of ids"), "{:?}", read.faults);
    let mut folder = compact(&machine, &[(0, &[])]);
    folder.0.remove("eventdefs/compact.xml");
    let read = folder.read();
    assert!(read.faults[0].contains("no definition of the facility `compact`"), "{:?}", read.faults);
    assert!(read.payloads("flight-compact_2").is_empty());
}

#[test]
fn definitions_are_found_by_checksum_then_by_the_name_of_their_file() {
    // D29.
    let machine = i386();
    let xml =
        |name: &str| format!("<facility name=t><event name={name}><field name=n><uchar/></field></event></facility>");
    let checksum = |name: &str| DefinitionFile::parse(xml(name).as_bytes(), Path::new("x")).facilities[0].checksum;
    let with = |loaded: u32, files: &[(&str, &str)]| {
        let mut folder = machine.trace(XML, &[at(&machine, 1)]);
        folder.0.remove("eventdefs/t.xml");
        let load = event(machine.start.0, (0, 0), &machine.load("t", loaded, 7, [4; 4], 0));
        folder.add("control/facilities_0", machine.block(machine.start.0, machine.start.0, &[load], 0));
        for (file, name) in files {
            folder.add(&format!("eventdefs/{file}.xml"), xml(name).into_bytes());
        }
        folder.read()
    };
    let files = [("t", "plain"), ("other", "other"), ("t_77", "seventy")];
    let read = with(checksum("other"), &files);
    read.is(&["t.other { n=1 }"]);
    // None has the checksum: the first one by its name, and a word about it.
    let read = with(77, &files);
    assert_eq!(read.payloads("cpu_0"), ["t.seventy { n=1 }"]);
    assert!(read.warnings[0].starts_with("/t/eventdefs/t_77.xml: the definition of the facility `t` has the checksum"));
    let read = with(78, &files);
    assert_eq!(read.payloads("cpu_0"), ["t.plain { n=1 }"]);
    let read = with(78, &files[1..2]);
    assert_eq!(read.payloads("cpu_0"), ["t.other { n=1 }"]);
    // The file of the architecture goes before that of the name alone.
    let xml = |event: &str| format!("<facility name=t_arch><event name={event}></event></facility>").into_bytes();
    let mut folder = machine.trace(XML, &[event(machine.start.0 + 1, (7, 0), &[])]);
    let load = event(machine.start.0, (0, 0), &machine.load("t_arch", 5, 7, [4; 4], 0));
    folder.add("control/facilities_0", machine.block(machine.start.0, machine.start.0, &[load], 0));
    for (file, event) in [("t_arch", "plain"), ("t_arch_i386", "own"), ("t_arch_x86_64", "other")] {
        folder.add(&format!("eventdefs/{file}.xml"), xml(event));
    }
    assert_eq!(folder.read().payloads("cpu_0"), ["t_arch.own"]);
}

#[test]
fn our_own_definitions_serve_where_the_trace_has_none_of_that_checksum() {
    // D32.
    let machine = i386();
    let trace = |checksum: u32| {
        let mut folder = machine.trace(XML, &[event(machine.start.0 + 1, (7, 4), &[3, 0, 0, 0])]);
        folder.0.remove("eventdefs/t.xml");
        let load = event(machine.start.0, (0, 0), &machine.load("fs", checksum, 7, [4; 4], 0));
        folder.add("control/facilities_0", machine.block(machine.start.0, machine.start.0, &[load], 0));
        folder.read()
    };
    let read = trace(1_084_638_700);
    assert_eq!(read.payloads("cpu_0"), ["fs.close { fd=3 }"]);
    assert!(read.warnings[0].contains("no folder `eventdefs`"), "{:?}", read.warnings);
    assert!(read.warnings[1].contains("our own with its checksum, 1084638700, is used"), "{:?}", read.warnings);
    let read = trace(1);
    assert_eq!(read.payloads("cpu_0"), ["fs.event_4"]);
    assert_eq!(read.faults, [""; 0]);
}

#[test]
fn time_is_exact_and_starts_when_the_trace_did() {
    // D30, D31: 250 Hz and 7 microseconds, which fall between two ticks.
    let machine = Machine { freq: 250, scale: 0, start: (1000, 5, 7), ..i386() };
    let mut folder = machine.trace(XML, &[]);
    folder.add("cpu_0", machine.block(998, 1003, &[event(998, (7, 0), &[1]), event(1003, (7, 0), &[1])], 0));
    let read = folder.read();
    assert_eq!(read.times("cpu_0"), [(998, 4_992_007_000), (1003, 5_012_007_000)]);
    assert_eq!(read.warnings, [""; 0]);
    // 3 GHz: thirds of ns are cut.
    let fast = Machine { freq: 3_000_000, start: (10, 1, 0), ..i386() };
    let mut folder = fast.trace(XML, &[]);
    folder.add("cpu_0", fast.block(9, 15, &[event(9, (7, 0), &[1]), event(15, (7, 0), &[1])], 0));
    assert_eq!(folder.read().times("cpu_0"), [(9, 999_999_999), (15, 1_000_000_001)]);
    // Without a start there is no origin.
    let none = Machine { freq: 1000, start: (10, 0, 0), ..i386() };
    let read = none.trace(XML, &[event(12, (7, 0), &[1])]).read();
    assert_eq!(read.times("cpu_0"), [(12, 12_000)]);
}

#[test]
fn a_clock_that_cannot_be_is_told() {
    let machine = Machine { freq: 2_000_000_000, scale: 1000, ..i386() };
    let folder = machine.trace(XML, &[at(&machine, 4)]);
    let read = folder.read();
    let warning = "/t/control/facilities_0: byte 62: a clock of 2000000000000 Hz (2000000000 times 1000)";
    assert!(read.warnings[0].starts_with(warning), "{:?}", read.warnings);
    let settings = Settings([("freq-scale-divides", String::new())].into());
    let read = folder.read_with(&settings);
    assert_eq!(read.trace.schema.clocks()[0].frequency, 2_000_000);
    assert_eq!(read.times("cpu_0"), [(machine.start.0 + 4, 1_000_250_002_000)]);
    // A ratio that is no whole number is exact: 7000000 cycles are 10 s.
    let thirds = Machine { freq: 2_100_000, scale: 3, start: (0, 1, 0), ..i386() };
    let folder = Machine { freq: 2_100_001, ..thirds }.trace(XML, &[event(2_100_001, (7, 0), &[1])]);
    assert_eq!(folder.read_with(&settings).times("cpu_0"), [(2_100_001, 4_000_000_000)]);
    // D31: seconds that leave 63 bits are reported.
    let late = Machine { start: (0, 1 << 63, 0), ..i386() };
    let read = late.trace(XML, &[at(&late, 4)]).read();
    let warning = "/t/control/facilities_0: byte 90: a start 9223372036854775808 s after 1970, which is held at";
    assert!(read.warnings[0].starts_with(warning), "{:?}", read.warnings);
    // D30: without a frequency of the start, that of the first block.
    let machine = Machine { start: (0, 1000, 0), ..i386() };
    let mut folder = machine.trace(XML, &[event(5, (7, 0), &[1])]);
    for bytes in ["control/facilities_0", "cpu_0"] {
        folder.0.get_mut(bytes).expect("it")[66..74].fill(0);
    }
    assert_eq!(folder.read().times("cpu_0"), [(5, 1_000_000_005_000)]);
    // No frequency at all: no time.
    let none = Machine { freq: 0, ..i386() };
    let read = none.trace(XML, &[at(&none, 4)]).read();
    assert!(read.warnings[0].contains("the frequency of the clock is 0"), "{:?}", read.warnings);
    assert!(read.lines.iter().any(|line| line.contains(" null t.e")), "{:?}", read.lines);
}

#[test]
fn the_clock_is_that_of_the_first_good_file_of_facilities() {
    // D33.
    let machine = i386();
    let other = Machine { start: (machine.start.0, 2000, 0), ..i386() };
    let mut folder = machine.trace(XML, &[at(&machine, 4)]);
    let load = folder.0["control/facilities_0"].clone();
    folder.add("control/facilities_3", load);
    folder.add("control/facilities_0", other.block(machine.start.0, machine.start.0, &[], 0));
    let read = folder.read();
    assert_eq!(read.times("cpu_0")[0].1, 2_000_000_004_000);
    assert!(
        read.warnings[0].contains("the clock starts otherwise than in `control/facilities_0`"),
        "{:?}",
        read.warnings
    );
    folder.0.get_mut("control/facilities_0").expect("it")[36..40].fill(0);
    assert_eq!(folder.read().times("cpu_0")[0].1, 1_000_250_004_000);
}

#[test]
fn flight_recorder_files_begin_anywhere() {
    let machine = i386();
    let mut folder = machine.trace(XML, &[]);
    folder.0.remove("cpu_0");
    let late = machine.start.0 + 0x7_0000_0000;
    folder.add("flight-cpu_0", machine.block(late, late + 9, &[event(late + 5, (7, 0), &[1])], 0));
    let read = folder.read();
    assert_eq!(read.times("flight-cpu_0")[0].0, late + 5);
    assert_eq!((read.faults.len(), read.warnings.len()), (0, 0));
}

#[test]
fn core_definitions_of_a_trace_are_not_used() {
    // D35.
    let machine = i386();
    let mut folder = machine.trace(XML, &[event(machine.start.0, (0, 1), &[7, 0, 0, 0])]);
    let text = b"<facility name=core><event name=other></event><event name=odd></event></facility>";
    folder.add("eventdefs/core.xml", text.to_vec());
    folder.read().is(&["core.facility_unload { id=7 }"]);
}

#[test]
fn system_and_bookmarks_are_shown() {
    // D34.
    let machine = i386();
    let mut folder = machine.trace(XML, &[]);
    let system = b"<system node_name=\"box\" cpu=2 arch_size=ILP32>a machine</system>".to_vec();
    folder.add("info/system.xml", system);
    let bookmarks = b"<bookmarks><location name=one cpu=1 time=12.5>here</location><location name=two start_cycle=1 \
                      end_cycle=\"9\"/></bookmarks>";
    folder.add("info/bookmarks.xml", bookmarks.to_vec());
    let read = folder.read();
    assert_eq!((read.faults.len(), read.warnings.len()), (0, 0));
    let shown = |title: &str| {
        let section = read.trace.sections.iter().find(|section| section.title == title).expect(title);
        section
            .rows
            .iter()
            .map(|row| row.iter().map(|value| format!("{value:?}")).collect::<String>())
            .collect::<Vec<_>>()
    };
    assert_eq!(shown("system").len(), 4);
    assert!(shown("system")[0].contains("box") && shown("system")[3].contains("a machine"));
    assert!(shown("bookmarks")[0].contains("12.5") && shown("bookmarks")[0].contains("here"));
    assert_eq!(shown("facilities").len(), 1);
    assert!(shown("clock")[0].contains("1000000"));
    folder.add("info/bookmarks.xml", b"<bookmarks><location name=one time=\"1".to_vec());
    let read = folder.read();
    assert!(read.warnings[0].contains("info/bookmarks.xml: byte 0: the file cannot be read to its end"));
    // The bytes after 1 MiB are not read, which is reported, wherever the cut falls.
    let long = [b"<bookmarks><location name=one time=1/>".to_vec(), vec![b' '; 1 << 20]].concat();
    folder.add("info/bookmarks.xml", long);
    assert!(folder.read().warnings[0].contains("info/bookmarks.xml: byte 0: the file cannot be read to its end"));
}

#[test]
fn ends_that_contradict_the_next_block_are_not_trusted() {
    // D10: times that go back stay in the order of the file.
    let machine = i386();
    let mut folder = machine.trace(XML, &[]);
    let block =
        |from: u64, to: u64| machine.block(machine.start.0 + from, machine.start.0 + to, &[at(&machine, from)], 0);
    folder.add("cpu_0", [block(10, 20), block(5, 8), block(9, 0)].concat());
    let read = folder.read();
    read.is(&["t.e { n=10 }", "t.e { n=5 }", "t.e { n=9 }"]);
    let stream = read.trace.streams.iter().find(|stream| stream.name == "cpu_0").expect("it");
    let ends: Vec<Option<u64>> = stream.packets.iter().map(|one| one.end_cycles).collect();
    assert_eq!(ends, [None, Some(machine.start.0 + 8), None]);
}

#[test]
fn unneeded_definition_files_that_are_broken_are_remarks() {
    let machine = i386();
    let mut folder = machine.trace(XML, &[at(&machine, 1)]);
    folder.add("eventdefs/unused.xml", b"<facility name=unused><event".to_vec());
    folder.add("eventdefs/notes.xml", b"nothing".to_vec());
    let read = folder.read();
    read.is(&["t.e { n=1 }"]);
    assert_eq!(read.trace.remarks.len(), 2);
}

#[test]
fn unknown_events_are_stepped_over_and_named_by_their_ids() {
    // D18: of a facility that was never loaded, of one without definition, of one that has fewer events.
    let machine = i386();
    let mut folder = machine.trace(XML, &[]);
    let blob = event(machine.start.0, (0, 0), &machine.load("blob", 5, 9, [4; 4], 0));
    let known = machine.load("t", checksum_of(&folder), 7, [4; 4], 0);
    let known = event(machine.start.0, (0, 0), &known);
    folder.add("control/facilities_0", machine.block(machine.start.0, machine.start.0 + 9, &[known, blob], 0));
    let of = |after: u64, ids| event(machine.start.0 + after, ids, &[1, 2, 3]);
    let events = [at(&machine, 1), of(2, (8, 3)), of(3, (8, 3)), of(4, (9, 200)), of(5, (7, 1)), at(&machine, 6)];
    folder.add("cpu_0", machine.block(machine.start.0, machine.start.0 + 9, &events, 0));
    let read = folder.read();
    let lines =
        ["t.e { n=1 }", "facility_8.event_3", "facility_8.event_3", "blob.event_200", "t.event_1", "t.e { n=6 }"];
    assert_eq!(read.payloads("cpu_0"), lines);
    assert_eq!(read.faults, [""; 0]);
    // One for each id; the first one is of the definition that is not there.
    let unknown: Vec<&String> = read.warnings.iter().filter(|warning| warning.contains("nothing describes")).collect();
    assert_eq!(unknown.len(), 3, "{:?}", read.warnings);
    assert!(unknown[0].contains("event 3 of facility 8") && unknown[2].contains("event 1 of facility 7"));
}

/// Checksum of the facility `t` of a trace.
fn checksum_of(folder: &Folder) -> u32 {
    let file = DefinitionFile::parse(&folder.0["eventdefs/t.xml"], Path::new("t.xml"));
    file.facilities[0].checksum
}

#[test]
fn a_length_is_compared_with_what_is_left_also_where_the_size_is_computed() {
    // D27.
    let machine = i386();
    let xml = "<event name=q><field name=s><sequence><uint/><ulong/></sequence></field></event>";
    let endless = Event { size: Some(u16::MAX), ..event(machine.start.0 + 2, (7, 0), &[0xff, 0xff, 0xff, 0x3f, 1, 2]) };
    let good = event(machine.start.0 + 1, (7, 0), &[1, 0, 0, 0, 5, 0, 0, 0]);
    let read = machine.trace(xml, &[good, endless]).read();
    assert_eq!(read.payloads("cpu_0"), ["t.q { s=[ 5 ] }"]);
    assert!(read.faults[0].contains("a sequence of 1073741823 elements"), "{:?}", read.faults);
}

#[test]
fn bytes_are_numbers_and_strings_are_text() {
    // D28; as text what bytes say stands beside them (tests of the program).
    let machine = i386();
    let xml = "<event name=b><field name=a><array size=3><char/></array></field>
               <field name=q><sequence><uchar/><uchar/></sequence></field><field name=s><string/></field></event>";
    let data = [&[b'a', 0xff, b'c', 2, 0xc3, 0xa9][..], b"x\xc3\xa9\xff\xe2\x82y\0"].concat();
    let read = machine.trace(xml, &[event(machine.start.0 + 1, (7, 0), &data)]).read();
    // Each bad part of the string is one replacement character.
    read.is(&["t.b { a=[ 97 -1 99 ] q=[ 195 169 ] s=\"x\u{e9}\u{fffd}\u{fffd}y\" }"]);
}

#[test]
fn states_offsets_and_addresses_have_the_signs_of_their_meaning() {
    // D36, with our own definitions: out_state, state, pgoff and inode are signed, addresses are not.
    let machine = i386();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut folder = Folder::default();
    let load = |name: &str, checksum: u32, id: u32| {
        event(machine.start.0, (0, 0), &machine.load(name, checksum, id, [4; 4], 0))
    };
    let loads = [
        load("process", 4_150_882_327, 1),
        load("statedump", 2_720_809_820, 2),
        load("memory", 3_594_338_759, 3),
        load("kernel", 1_837_835_268, 4),
    ];
    folder.add("control/facilities_0", machine.block(machine.start.0, machine.start.0 + 9, &loads, 0));
    let minus = u32::MAX;
    let of = |after: u64, ids, data: &[u32]| event(machine.start.0 + after, ids, &words(data));
    let events = [
        of(1, (1, 7), &[5, minus]),
        of(2, (1, 8), &[5, 6, minus]),
        of(3, (2, 1), &[7, 0x8000_0000, minus, 1, minus, minus]),
        of(4, (3, 0), &[0, 0]),
        of(5, (4, 6), &[14, 1]),
    ];
    folder.add("cpu_0", machine.block(machine.start.0, machine.start.0 + 9, &events, 0));
    let read = folder.read();
    assert_eq!(
        read.payloads("cpu_0"),
        [
            "process.wakeup { pid=5 state=-1 }",
            "process.schedchange { out=5 in=6 out_state=-1 }",
            "statedump.enumerate_vm_maps { PID=7 start=2147483648 end=4294967295 flags=1 pgoff=-1 inode=-1 }",
            "memory.page_alloc { order=0 address=0 }",
            "kernel.irq_entry { irq_id=14 mode=1<kernel> }",
        ]
    );
    assert_eq!(read.faults, [""; 0]);
}
