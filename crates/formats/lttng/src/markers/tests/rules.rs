//! Readable traces: versions, headers, alignment, clocks, losses, names.

use tracemill_format::{FoundTrace, OpenContext, Settings};
use tracemill_model::schema::ByteOrder;

use super::builder::{Folder, I386, Machine, Network, Number, ROOT, Text};
use super::{data_events, ns, open, read, read_trace};
use crate::markers::FORMAT;
use crate::markers::open::PIECE_BYTES;

const MARKERS: &[(&str, &str, u16, &str)] = &[
    ("k", "mix", 3, "a #1u%u b %lld c %s d %d e #2u%u"),
    ("k", "empty", 28, " "),
    ("k", "far", 300, "text %s net #n4u%u"),
];

fn folder_of(machine: &Machine) -> Folder {
    let name = if machine.minor < 3 { "control/metadata_0" } else { "metadata_0" };
    Folder::default().with(name, machine.metadata(MARKERS))
}

#[test]
fn every_version_byte_order_size_and_alignment() {
    for minor in 0..=6 {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (arch, alignment) in [(4, 0), (4, 4), (8, 0), (8, 8), (4, 2), (8, 1), (8, 16)] {
                let machine = Machine { order, minor, arch, alignment };
                let mut block = machine.block(5000);
                let minus_two = (-2i64) as u64;
                let mix = [Number(1, 200), Number(8, minus_two), Text("xy"), Number(4, 0xffff_ffff), Number(2, 9)];
                let far = [Text("abc"), Network(4, 0x0102_0304)];
                block.short(3, 5001, &mix).short(28, 5002, &[]).wide(300, 5003, &far).sized(300, 5004, &far);
                block.full(3, 5005, &mix).wide(28, 5006, &[]).full(28, 5007, &[]).sized(3, 5008, &mix);
                block.padding = 13;
                let mut file = block.finish();
                let mut second = machine.block(9000);
                second.short(28, 9001, &[]);
                file.extend(second.finish());
                let read = read(&folder_of(&machine).with("k_2", file));
                let all = "2:k.mix@5001(200, -2, \"xy\", -1, 9)|2:k.empty@5002()|2:k.far@5003(\"abc\", 16909060)|\
                           2:k.far@5004(\"abc\", 16909060)|2:k.mix@5005(200, -2, \"xy\", -1, 9)|2:k.empty@5006()|\
                           2:k.empty@5007()|2:k.mix@5008(200, -2, \"xy\", -1, 9)|2:k.empty@9001()";
                assert_eq!(data_events(&read).join("|"), all, "{machine:?}");
                assert!(read.faults.is_empty() && read.warnings.is_empty(), "{machine:?}: {read:?}");
            }
        }
    }
}

#[test]
fn versions_2_4_and_2_5_align_to_the_size_itself() {
    // Three bytes, then eight: at a multiple of 4 from 2.6 on (and up to 2.3), of 8 in between.
    for (minor, gap) in [(3, 0), (4, 4), (5, 4), (6, 0)] {
        let machine = Machine { minor, alignment: 4, ..I386 };
        let metadata = machine.metadata(&[("k", "m", 0, "a %s b %llu")]);
        let mut block = machine.block(0);
        let begin = block.bytes.len();
        block.short(0, 1, &[Text("x"), Number(8, 7)]);
        let len = block.bytes.len() - begin;
        assert_eq!(len, if gap == 0 { 4 + 4 + 8 } else { 4 + 8 + 8 }, "2.{minor}, payloads at {begin}");
        let read = read(&Folder::default().with("metadata_0", metadata).with("k_0", block.finish()));
        assert_eq!(data_events(&read), ["k.m@1(\"x\", 7)"], "2.{minor}");
    }
}

#[test]
fn the_metadata_channel_is_a_channel() {
    let read = read(&folder_of(&I386));
    assert_eq!(read.events.len(), 6);
    assert_eq!(read.events[0], "metadata.core_marker_id@1001(\"k\", \"mix\", 3, 4, 4, 4, 4, 0)");
    assert_eq!(
        read.events[1],
        "metadata.core_marker_format@1002(\"k\", \"mix\", \"a #1u%u b %lld c %s d %d e #2u%u\")"
    );
    // Before 2.3 a marker belongs to no channel, and the channel of the metadata has a folder.
    let old = super::read(&folder_of(&Machine { minor: 2, ..I386 }));
    assert_eq!(old.events[0], "control/metadata.core_marker_id@1001(\"mix\", 3, 4, 4, 4, 4, 0)");
}

#[test]
fn metadata_of_2_2_may_name_channels_already() {
    let mut metadata = I386.block(0);
    metadata.define_id("k", "m", 9, [4, 4, 4, 4, 0]).define_format("k", "m", "v %u");
    metadata.machine.minor = 2;
    let machine = Machine { minor: 2, ..I386 };
    let mut block = machine.block(0);
    block.short(9, 1, &[Number(4, 7)]);
    let folder = Folder::default().with("control/metadata_0", metadata.finish()).with("k_0", block.finish());
    assert_eq!(data_events(&read(&folder)), ["k.m@1(7)"]);
}

#[test]
fn before_2_3_every_channel_knows_every_marker() {
    let machine = Machine { minor: 1, ..I386 };
    let mut block = machine.block(0);
    block.short(28, 1, &[]);
    let folder = folder_of(&machine).with("cpu_0", block.finish()).with("control/modules_1", block.finish());
    assert_eq!(data_events(&read(&folder)), ["1:control/modules.empty@1()", "cpu.empty@1()"]);
}

#[test]
fn ids_belong_to_their_channel() {
    let metadata = I386.metadata(&[("a_b", "x", 0, "v %u"), ("c", "y", 0, "w #1d%d")]);
    let (mut one, mut two) = (I386.block(0), I386.block(0));
    one.short(0, 1, &[Number(4, 5)]);
    two.short(0, 2, &[Number(1, 0xff)]);
    let folder = Folder::default()
        .with("metadata_0", metadata)
        .with("a_b_0", one.finish())
        .with("a_b_3", one.finish())
        .with("flight-c_0", two.finish());
    assert_eq!(data_events(&read(&folder)), ["a_b.x@1(5)", "3:a_b.x@1(5)", "c.y@2(-1)"]);
    let trace = open(&folder);
    let field = trace.schema.events().iter().find(|event| event.name.as_deref() == Some("c.y")).and_then(|e| e.payload);
    assert!(field.is_some());
}

#[test]
fn a_marker_may_have_ids_for_several_sizes_of_programs() {
    let machine = Machine { arch: 8, minor: 6, ..I386 };
    let mut metadata = machine.block(0);
    // The format may come before the ids, and is reported once.
    metadata.define_format("k", "m", "p %p l %ld z %zu");
    metadata.define_id("k", "m", 0, [4, 8, 8, 8, 0]).define_id("k", "m", 1, [4, 4, 4, 4, 0]);
    let mut block = machine.block(0);
    block.short(0, 1, &[Number(8, 1 << 40), Number(8, u64::MAX), Number(8, 3)]);
    block.short(1, 2, &[Number(4, 4), Number(4, u64::MAX), Number(4, 6)]);
    let folder = Folder::default().with("metadata_0", metadata.finish()).with("k_0", block.finish());
    assert_eq!(data_events(&read(&folder)), ["k.m@1(1099511627776, -1, 3)", "k.m@2(4, -1, 6)"]);
}

#[test]
fn the_clock_wraps_at_27_bits_and_is_set_whole() {
    let begin = (7 << 27) + 0x7ff_fff0;
    let mut block = I386.block(begin);
    block.short(28, begin, &[]).short(28, begin + 0x20, &[]).short(28, begin + 0x20, &[]);
    block.full(28, 1 << 40, &[]).short(28, (1 << 40) + 5, &[]);
    let read = read(&folder_of(&I386).with("k_0", block.finish()));
    let expected = [begin, begin + 0x20, begin + 0x20, 1 << 40, (1 << 40) + 5].map(|at| format!("k.empty@{at}()"));
    assert_eq!(data_events(&read), expected);
    assert!(read.warnings.is_empty(), "{read:?}");
}

#[test]
fn a_wrap_far_behind_the_end_is_suspected() {
    let mut block = I386.block(1000);
    block.short(28, 2000, &[]).short(28, 1500, &[]);
    block.end = 2000;
    let read = read(&folder_of(&I386).with("k_0", block.finish()));
    assert_eq!(data_events(&read), ["k.empty@2000()".to_string(), format!("k.empty@{}()", (1 << 27) + 1500)]);
    assert_eq!(read.warnings.len(), 1);
    super::is_told(&read.warnings[0], "k_0", 72, "the clock may be wrong");
}

#[test]
fn the_scale_multiplies_before_2_3_and_divides_from_there_on() {
    for (minor, ticks, seconds) in [(2, 3_000_000, 1), (3, 1_000_000, 3), (6, 1_000_000, 3)] {
        let machine = Machine { minor, ..I386 };
        let mut metadata = machine.block(1_000_000);
        metadata.define_format("k", "m", "");
        (metadata.frequency, metadata.scale) = (1_000_000, 3);
        let trace = open(&Folder::default().with("metadata_0", metadata.finish()));
        let clock = &trace.schema.clocks()[0];
        assert_eq!((clock.frequency, clock.seconds), (ticks, seconds), "2.{minor}");
        assert!(trace.warnings.is_empty(), "{:?}", trace.warnings);
    }
}

#[test]
fn a_frequency_that_the_scale_does_not_divide_is_exact() {
    let mut metadata = I386.block(1_000_001);
    metadata.define_format("k", "m", "");
    // 1000000 ticks in 7 s: 142857.14 Hz.
    (metadata.frequency, metadata.scale) = (1_000_000, 7);
    let trace = open(&Folder::default().with("metadata_0", metadata.finish()));
    assert_eq!(ns(&trace, 1_000_001), 7_000_007_000);
    assert_eq!(ns(&trace, 1_000_001 + 1_000_000_000_000), 7_000_007_000 + 7_000_000_000_000_000);
    (metadata.frequency, metadata.scale) = (1_000_003, 7);
    let trace = open(&Folder::default().with("metadata_0", metadata.finish()));
    assert_eq!(ns(&trace, 1_000_001 + 1), 1_000_001 * 7_000_000_000 / 1_000_003 + 6999);
}

#[test]
fn a_start_that_cannot_be_held_is_told() {
    let mut metadata = I386.block(u64::MAX - 9);
    metadata.define_format("k", "m", "");
    (metadata.frequency, metadata.scale) = (1, 7);
    let trace = open(&Folder::default().with("metadata_0", metadata.finish()));
    super::is_told(&trace.warnings[1], "metadata_0", 0, "is held at 9223372036854775807 s");
}

#[test]
fn time_is_that_of_the_start_and_that_since_the_start() {
    let mut metadata = I386.block(1_000_001);
    metadata.define_format("k", "m", "");
    metadata.frequency = 3_000_000;
    let folder = Folder::default().with("metadata_0", metadata.finish());
    let trace = open(&folder);
    // 1000001 / 3 us and 2 / 3 us, each cut: the sum is one less than the cut time of 1000003 cycles.
    assert_eq!(ns(&trace, 1_000_001), 333_333_666);
    assert_eq!(ns(&trace, 1_000_003), 333_333_666 + 666);
    assert_eq!(1_000_003u64 * 1000 / 3, 333_334_333);
    assert_eq!(ns(&trace, 1_000_000), 333_333_666 - 334);
    let found = FoundTrace { path: ROOT.into(), name: ROOT.into(), below: String::new() };
    let settings = Settings([("wall-clock", String::new())].into());
    let mut context = OpenContext::new(&folder);
    context.settings = &settings;
    let trace = (FORMAT.open)(&context, &[found]).remove(0).expect("it can be opened");
    assert_eq!(ns(&trace, 1_000_003), 1_262_715_366_408_819_666);
}

#[test]
fn system_and_bookmarks_are_shown() {
    let metadata = I386.metadata(&[("k", "m", 2, "v %u")]);
    let system = b"<system node_name=box ltt_major_version=\"2\">a test</system>".to_vec();
    let marks = b"<bookmarks><location name=here time=1.5/></bookmarks>".to_vec();
    let folder = Folder::default().with("metadata_0", metadata);
    let trace = open(&folder.clone().with("info/system.xml", system).with("info/bookmarks.xml", marks));
    let titles: Vec<&str> = trace.sections.iter().map(|section| &*section.title).collect();
    assert_eq!(titles, ["trace start", "markers", "system", "bookmarks"]);
    assert_eq!((trace.sections[2].rows.len(), trace.sections[3].rows.len()), (3, 1));
    assert!(trace.faults.is_empty() && trace.warnings.is_empty(), "{:?} {:?}", trace.faults, trace.warnings);
    let trace = open(&folder.with("info/system.xml", b"<system node".to_vec()));
    assert!(trace.warnings[0].to_string().contains("info/system.xml"), "{:?}", trace.warnings);
}

#[test]
fn sub_buffers_that_contradict_the_first_are_told_once() {
    let mut blocks = Vec::new();
    for frequency in [1_000_000, 2_000_000, 2_000_000] {
        let mut block = I386.block(10);
        block.frequency = frequency;
        block.short(3, 11, &[Number(4, 1)]);
        blocks.extend(block.finish());
    }
    let folder = Folder::default().with("metadata_0", I386.metadata(&[("k", "n", 3, "v %u")])).with("k_0", blocks);
    let read = read(&folder);
    let told = read.warnings.iter().filter(|warning| warning.message().contains("another start, frequency"));
    assert_eq!(told.count(), 1, "{:?}", read.warnings);
}

#[test]
fn without_a_frequency_there_is_no_time() {
    let mut metadata = I386.block(1000);
    metadata.define_format("k", "m", "");
    metadata.frequency = 0;
    let trace = open(&Folder::default().with("metadata_0", metadata.finish()));
    assert_eq!(trace.schema.clocks()[0].frequency, 0);
    super::is_told(&trace.warnings[0], "metadata_0", 40, "frequency 0");
}

#[test]
fn losses_are_counted_from_sub_buffer_to_sub_buffer() {
    let block = |lost, corrupt, minor| {
        let mut block = Machine { minor, ..I386 }.block(10);
        block.short(28, 11, &[]);
        (block.lost, block.corrupt) = (lost, corrupt);
        block.finish()
    };
    let counts = |minor: u8, counters: [(u32, u32); 4]| {
        let file: Vec<u8> = counters.iter().flat_map(|&(lost, corrupt)| block(lost, corrupt, minor)).collect();
        let trace = open(&folder_of(&Machine { minor, ..I386 }).with("k_0", file));
        let stream = trace.streams.iter().find(|stream| stream.name == "k_0").expect("the channel");
        stream.packets.iter().map(|packet| (packet.discarded_before, packet.lost_packets_before)).collect::<Vec<_>>()
    };
    assert_eq!(counts(2, [(2, 0), (2, 1), (7, 1), (7, 3)]), [(2, 0), (0, 1), (5, 0), (0, 2)]);
    // Counters wrap, and may start again.
    assert_eq!(counts(6, [(1, 9), (u32::MAX, 2), (3, 2), (3, 2)])[1..], [(u64::from(u32::MAX), 2), (4, 0), (0, 0)]);
    // 2.1 has none; what stands there is the first event.
    assert_eq!(counts(1, [(1, 1), (2, 2), (3, 3), (4, 4)]), [(0, 0); 4]);
}

#[test]
fn sub_buffers_say_their_own_size_and_times() {
    let mut file = Vec::new();
    for (at, padding) in [(100, 0), (200, 4000), (300, 1)] {
        let mut block = I386.block(at);
        block.short(28, at + 1, &[]);
        (block.padding, block.end) = (padding, at + 50);
        file.extend(block.finish());
    }
    // One that holds nothing.
    file.extend(I386.block(400).finish());
    let trace = open(&folder_of(&I386).with("k_0", file));
    let packets = &trace.streams[0].packets;
    let places: Vec<_> = packets.iter().map(|p| (p.offset_bytes, p.total_bits / 8, p.content_bits / 8)).collect();
    assert_eq!(places, [(0, 72, 72), (72, 4072, 72), (4144, 73, 72), (4217, 68, 68)]);
    let times: Vec<_> = packets.iter().map(|p| (p.begin_cycles, p.end_cycles)).collect();
    assert_eq!(times[..2], [(Some(100), Some(150)), (Some(200), Some(250))]);
    assert_eq!(data_events(&read_trace(&trace)).len(), 3);
}

#[test]
fn large_sub_buffers_are_read_in_pieces() {
    for machine in [I386, Machine { minor: 6, arch: 8, alignment: 8, ..I386 }] {
        let mut block = machine.block(0);
        let mut clock = 0u64;
        while block.bytes.len() < 3 * PIECE_BYTES {
            clock += 1_000_003;
            let text = ["x", "xyz", "xyzzy", ""][clock as usize % 4];
            block.short(3, clock, &[Number(1, 1), Number(8, clock), Text(text), Number(4, 4), Number(2, 5)]);
        }
        (block.padding, block.lost) = (100, 5);
        let folder = folder_of(&machine).with("k_0", block.finish());
        let trace = open(&folder);
        let packets = &trace.streams[0].packets;
        assert_eq!(packets.len(), 3 + usize::from(block.bytes.len() > 3 * PIECE_BYTES + 68 + 64));
        assert_eq!(packets.iter().map(|packet| packet.discarded_before).collect::<Vec<_>>()[..2], [5, 0]);
        for (packet, next) in packets.iter().zip(packets.iter().skip(1)) {
            assert_eq!(packet.offset_bytes + packet.total_bits / 8, next.offset_bytes);
            assert_eq!(packet.end_cycles, next.begin_cycles);
        }
        let read = read_trace(&trace);
        assert!(read.faults.is_empty(), "{:?}", read.faults);
        let events = data_events(&read);
        assert_eq!(events.len() as u64, clock / 1_000_003);
        for (at, event) in events.iter().enumerate() {
            let clock = (at as u64 + 1) * 1_000_003;
            assert!(event.starts_with(&format!("k.mix@{clock}(1, {clock}, ")), "{event}");
        }
    }
}

#[test]
fn a_size_of_more_than_16_bits_follows() {
    let text = "y".repeat(70_000);
    let mut block = I386.block(0);
    block.sized(300, 1, &[Text(&text), Network(4, 3)]).short(28, 2, &[]);
    let read = read(&folder_of(&I386).with("k_0", block.finish()));
    let events = data_events(&read);
    assert!(events[0].ends_with("y\", 3)") && events[0].len() > 70_000);
    assert_eq!(events[1], "k.empty@2()");
}

#[test]
fn only_folders_with_sub_buffers_are_ours() {
    let probe = |folder: &Folder, path: &str| (FORMAT.probe)(folder, path.as_ref());
    let good = folder_of(&I386);
    assert!(probe(&good, ROOT));
    assert!(!probe(&good, "/t/metadata_0"));
    assert!(!probe(&good, "/"));
    let old = folder_of(&Machine { minor: 1, ..I386 });
    assert!(probe(&old, ROOT) && !probe(&old, "/t/control"));
    let bytes = I386.metadata(MARKERS);
    let mut facilities = vec![0; 200];
    facilities[40..44].copy_from_slice(&0x00d6_b7ed_u32.to_le_bytes());
    facilities[58] = 7;
    let mut major = bytes.clone();
    major[20] = 3;
    for (name, bytes) in [("cpu_0", facilities), ("metadata_0", major), ("metadata", bytes), ("metadata_0", vec![])] {
        assert!(!probe(&Folder::default().with(name, bytes), ROOT), "{name}");
    }
}
