//! Damage: it is reported, and everything else is read.

use super::builder::{Folder, I386, Machine, Number, ROOT, Text};
use super::{data_events, is_told, read, read_trace, try_open};
use crate::markers::FORMAT;

const MARKERS: &[(&str, &str, u16, &str)] =
    &[("k", "n", 3, "v %u"), ("k", "t", 4, "s %s v #2u%u"), ("k", "bad", 5, "v %q"), ("k", "none", 6, " ")];

fn folder() -> Folder {
    Folder::default().with("metadata_0", I386.metadata(MARKERS))
}

/// A sub-buffer of 80 bytes with one event.
fn good(clock: u64) -> Vec<u8> {
    let mut block = I386.block(clock);
    block.short(3, clock, &[Number(4, clock)]);
    block.padding = 4;
    block.finish()
}

fn good_event(clock: u64) -> String {
    format!("k.n@{clock}({clock})")
}

/// Three sub-buffers, the second changed.
fn three(change: impl FnOnce(&mut Vec<u8>)) -> Folder {
    let mut middle = good(20);
    change(&mut middle);
    folder().with("k_0", [good(10), middle, good(30)].concat())
}

fn read_without_format_faults(folder: &Folder) -> super::Read {
    let mut read = read(folder);
    read.faults.retain(|fault| !fault.message().contains("`v %q`"));
    read
}

#[test]
fn broken_headers_cost_their_sub_buffer() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(Change, u64, &str); 7] = [
        (|block| block[16] = 0, 96, "magic number"),
        (|block| block[20..22].copy_from_slice(&[3, 0]), 100, "version 3.0"),
        (|block| block[21] = 7, 100, "version 2.7"),
        (|block| block[56..60].fill(0), 136, "a sub-buffer of 0 bytes"),
        (|block| block[52..56].fill(0xff), 132, "used bytes do not fit"),
        (|block| block[52] = 60, 132, "60 used bytes do not fit"),
        (|block| block[23] = 3, 103, "alignment of 3"),
    ];
    for (change, offset, words) in cases {
        let read = read_without_format_faults(&three(change));
        assert_eq!(data_events(&read), [good_event(10), good_event(30)], "{words}");
        read.assert_one_fault("k_0", offset, words);
        assert_eq!(read.faults[0].place().packet, Some(1));
        assert!(read.faults[0].help().is_some_and(|help| help.contains("80 bytes are skipped")), "{:?}", read.faults);
    }
}

#[test]
fn unused_bytes_of_2_4_are_checked_too() {
    let machine = Machine { minor: 4, ..I386 };
    let metadata = machine.metadata(MARKERS);
    let mut block = machine.block(10);
    block.short(3, 10, &[Number(4, 10)]);
    let mut bytes = block.finish();
    bytes[52..56].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let all = [bytes, block.finish()].concat();
    let read = read_without_format_faults(&Folder::default().with("metadata_0", metadata).with("k_0", all));
    assert_eq!(data_events(&read), [good_event(10)]);
    read.assert_one_fault("k_0", 52, "unused bytes do not fit");
}

#[test]
fn the_first_sub_buffer_may_be_the_broken_one() {
    let mut bytes = good(10);
    bytes[16..20].fill(0);
    let read = read_without_format_faults(&folder().with("k_0", [bytes, good(20)].concat()));
    assert_eq!(data_events(&read), [good_event(20)]);
    read.assert_one_fault("k_0", 16, "magic number");
}

#[test]
fn a_sub_buffer_of_the_other_byte_order_is_none_of_this_file() {
    let read = read_without_format_faults(&three(|block| block[16..20].reverse()));
    assert_eq!(data_events(&read), [good_event(10), good_event(30)]);
    read.assert_one_fault("k_0", 96, "other byte order");
}

#[test]
fn files_may_differ_in_byte_order_and_are_read_by_their_own() {
    let big = Machine { order: tracemill_model::schema::ByteOrder::Big, ..I386 };
    let mut block = big.block(20);
    block.short(3, 20, &[Number(4, 20)]);
    let read = read_without_format_faults(&folder().with("k_0", good(10)).with("k_1", block.finish()));
    assert_eq!(data_events(&read), [good_event(10), format!("1:{}", good_event(20))]);
    assert_eq!(read.warnings.len(), 1);
    is_told(&read.warnings[0], "k_1", 16, "differs");
}

#[test]
fn a_cut_file_gives_what_is_whole() {
    let mut block = I386.block(10);
    block.short(3, 10, &[Number(4, 10)]).short(3, 11, &[Number(4, 11)]);
    let whole = block.finish();
    for kept in 68..whole.len() {
        let read = read_without_format_faults(&folder().with("k_0", whole[..kept].to_vec()));
        let count = (kept - 68) / 8;
        assert_eq!(data_events(&read).len(), count, "{kept} bytes");
        is_told(&read.faults[0], "k_0", kept as u64, "the file ends inside the sub-buffer");
        assert_eq!(read.faults.len(), 1 + usize::from((kept - 68) % 8 != 0), "{kept}: {:?}", read.faults);
    }
    let mut padded = good(10);
    padded.pop();
    let read = read_without_format_faults(&folder().with("k_0", padded));
    assert_eq!(data_events(&read), [good_event(10)]);
    read.assert_one_fault("k_0", 79, "no event is lost");
}

#[test]
fn files_without_a_sub_buffer_are_skipped_with_a_message() {
    let folder = folder().with("k_0", good(10)).with("x_0", vec![1; 500]).with("y_0", vec![1; 5]);
    let folder = folder.with("README", vec![b'a'; 500]).with(".hidden_0", vec![1; 500]).with("a.xml", vec![b'<'; 500]);
    let read = read_without_format_faults(&folder);
    assert_eq!(data_events(&read), [good_event(10)]);
    read.assert_one_fault("x_0", 16, "magic number");
    assert_eq!(read.warnings.len(), 2, "{:?}", read.warnings);
    is_told(&read.warnings[0], "README", 16, "the file is skipped");
    is_told(&read.warnings[1], "y_0", 0, "5 bytes are too few");
}

#[test]
fn an_unknown_id_is_stepped_over_by_its_size() {
    let mut block = I386.block(10);
    block.sized(77, 10, &[Text("whatever")]).short(3, 11, &[Number(4, 1)]);
    block.sized(77, 12, &[]).full(5, 13, &[Number(4, 9)]).short(3, 14, &[Number(4, 2)]);
    let read = read_without_format_faults(&folder().with("k_0", block.finish()));
    let expected = ["k.event_77@10()", "k.n@11(1)", "k.event_77@12()", "k.bad@13()", "k.n@14(2)"];
    assert_eq!(data_events(&read), expected);
    assert!(read.faults.is_empty(), "{:?}", read.faults);
    assert_eq!(read.warnings.len(), 2, "once for each id: {:?}", read.warnings);
    is_told(&read.warnings[0], "k_0", 68, "event 77 of channel `k`");
}

#[test]
fn the_payload_of_an_unknown_id_may_be_aligned() {
    let machine = Machine { arch: 8, minor: 6, alignment: 8, ..I386 };
    let metadata = machine.metadata(&[("k", "n", 3, "v %u")]);
    let mut block = machine.block(10);
    for clock in 10..14 {
        block.sized(77, clock, &[Number(8, clock)]).short(3, clock, &[Number(4, clock)]);
        block.sized(78, clock, &[Number(4, clock)]).short(3, clock, &[Number(4, clock)]);
    }
    let read = read(&Folder::default().with("metadata_0", metadata).with("k_0", block.finish()));
    let events = data_events(&read);
    assert_eq!(events.len(), 16, "{events:?}");
    assert!(read.faults.is_empty(), "{:?}", read.faults);
    for (at, clock) in (10..14).enumerate() {
        assert_eq!(events[at * 4 + 1], format!("k.n@{clock}({clock})"));
    }
}

#[test]
fn an_unknown_id_without_a_size_ends_its_sub_buffer() {
    let mut block = I386.block(10);
    block.short(3, 10, &[Number(4, 1)]).short(9, 11, &[]).short(3, 12, &[Number(4, 1)]);
    let read = read_without_format_faults(&folder().with("k_0", [block.finish(), good(30)].concat()));
    assert_eq!(data_events(&read), ["k.n@10(1)".to_string(), good_event(30)]);
    read.assert_one_fault("k_0", 76, "no format is known for event 9");
    assert_eq!(read.faults[0].help(), Some("12 bytes of the sub-buffer are skipped"));
}

#[test]
fn a_size_that_is_too_small_costs_the_event() {
    let mut block = I386.block(10);
    block.stated(4, 10, 4, &[Text("abc")]).stated(3, 11, 2, &[]);
    block.bytes.extend([1, 2]);
    block.short(3, 12, &[Number(4, 5)]);
    let read = read_without_format_faults(&folder().with("k_0", block.finish()));
    assert_eq!(data_events(&read), ["k.t@10()", "k.n@11()", "k.n@12(5)"]);
    assert_eq!(read.faults.len(), 2);
    is_told(&read.faults[0], "k_0", 68, "the fields of event 4 of channel `k` need more than its 4 bytes");
}

#[test]
fn bytes_behind_the_fields_are_told_once() {
    let mut block = I386.block(10);
    for clock in 10..13 {
        block.stated(3, clock, 7, &[Number(4, clock), Number(1, 1), Number(2, 2)]);
    }
    let read = read_without_format_faults(&folder().with("k_0", block.finish()));
    assert_eq!(data_events(&read), ["k.n@10(10)", "k.n@11(11)", "k.n@12(12)"]);
    assert!(read.faults.is_empty());
    assert_eq!(read.warnings.len(), 1);
    is_told(&read.warnings[0], "k_0", 68, "has 3 bytes after its fields");
}

#[test]
fn sizes_and_strings_without_an_end_end_the_sub_buffer() {
    let mut huge = I386.block(10);
    huge.short(3, 10, &[Number(4, 1)]).stated(3, 11, 0xffff_fff0, &[Number(4, 1)]);
    let read_one = |bytes| read_without_format_faults(&folder().with("k_0", bytes));
    let read = read_one(huge.finish());
    assert_eq!(data_events(&read), ["k.n@10(1)"]);
    read.assert_one_fault("k_0", 76, "states 4294967280 bytes");
    let mut open_text = I386.block(10);
    open_text.short(4, 10, &[]);
    open_text.bytes.extend([b'x'; 10]);
    read_one(open_text.finish()).assert_one_fault("k_0", 68, "the fields of event 4");
    let mut header = I386.block(10);
    header.bytes.extend([0, 0, 0]);
    read_one(header.finish()).assert_one_fault("k_0", 68, "an event header does not fit the 3 bytes");
}

#[test]
fn formats_that_are_nonsense_are_told_with_their_marker() {
    let read = read(&folder().with("k_0", good(10)));
    assert_eq!(data_events(&read), [good_event(10)]);
    assert_eq!(read.faults.len(), 1);
    let text = read.faults[0].to_string();
    assert!(text.contains("marker 5 of channel `k`, `bad`") && text.contains("byte 2 "), "{text}");
    // Sizes of no machine, ids without a format, formats that change, ids that are given twice.
    let mut block = I386.block(0);
    block.define_id("k", "odd", 0, [4, 3, 4, 4, 0]).define_format("k", "odd", "v %u");
    block.define_id("k", "lone", 1, [4, 4, 4, 4, 0]).define_id("k", "late", 2, [4, 4, 4, 4, 0]);
    block.define_format("k", "late", "v %u").define_format("k", "late", "w %u").define_format("k", "late", "v %u");
    block.define_id("k", "two", 3, [4, 4, 4, 4, 0]).define_id("k", "late", 3, [4, 4, 4, 4, 0]);
    let mut data = I386.block(0);
    data.short(2, 1, &[Number(4, 7)]).short(3, 2, &[Number(4, 8)]).sized(1, 3, &[Number(4, 9)]);
    let folder = Folder::default().with("metadata_0", block.finish()).with("k_0", data.finish());
    let read = super::read(&folder);
    assert_eq!(data_events(&read), ["k.late@1(7)", "k.late@2(8)", "k.lone@3()"]);
    assert_eq!(read.faults.len(), 1);
    assert!(read.faults[0].message().contains("long 3"), "{:?}", read.faults);
    let told = ["given to `two` and then to `late`", "`v %u` and then `w %u`", "`lone`, has no format"];
    for words in told {
        assert!(read.warnings.iter().any(|warning| warning.message().contains(words)), "{words}: {:?}", read.warnings);
    }
}

#[test]
fn damage_in_the_metadata_is_told_once_and_costs_what_is_behind_it() {
    let mut block = I386.block(0);
    block.define_id("k", "n", 3, [4, 4, 4, 4, 0]).define_format("k", "n", "v %u");
    let at = block.bytes.len() as u64;
    block.short(9, 100, &[]);
    let folder = Folder::default().with("metadata_0", block.finish()).with("k_0", good(10));
    let read = super::read(&folder);
    assert_eq!(data_events(&read), [good_event(10)]);
    read.assert_one_fault("metadata_0", at, "no format is known for event 9");
}

#[test]
fn without_metadata_events_have_numbers_for_names() {
    let mut block = I386.block(10);
    block.full(77, 10, &[Number(4, 1)]).sized(3, 11, &[Number(4, 1)]);
    let read = super::read(&Folder::default().with("k_0", block.finish()));
    assert_eq!(read.events, ["k.event_77@10()", "k.event_3@11()"]);
    assert_eq!(read.faults.len(), 1);
    assert!(read.faults[0].message().contains("`metadata_N`"));
}

#[test]
fn other_versions_are_refused_by_name() {
    let newer: Vec<u8> = { Machine { minor: 7, ..I386 }.metadata(MARKERS) };
    let mut older = vec![0; 200];
    older[40..44].copy_from_slice(&0x00d6_b7ed_u32.to_le_bytes());
    older[57] = 1;
    for (bytes, words) in [(newer, "version 2.7"), (older, "version 1.0")] {
        let folder = Folder::default().with("metadata_0", bytes);
        assert!((FORMAT.probe)(&folder, ROOT.as_ref()), "{words}");
        let error = try_open(&folder).err().expect(words);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn changed_bytes_never_panic() {
    let mut block = I386.block(10);
    block.short(3, 10, &[Number(4, 1)]).full(4, 11, &[Text("abc"), Number(2, 1)]).sized(6, 12, &[]);
    block.wide(3, 13, &[Number(4, 1)]);
    let files = [("metadata_0", I386.metadata(MARKERS)), ("k_0", [block.finish(), good(30)].concat())];
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for _ in 0..4000 {
        let mut folder = Folder::default();
        for (name, bytes) in &files {
            let mut bytes = bytes.clone();
            for _ in 0..next(4) {
                let at = next(bytes.len());
                bytes[at] = [0, 0xff, 0x80, 1, next(256) as u8][next(5)];
            }
            if next(4) == 0 {
                bytes.truncate(next(bytes.len()));
            }
            folder = folder.with(name, bytes);
        }
        if let Ok(trace) = try_open(&folder) {
            let read = read_trace(&trace);
            assert!(read.events.len() < 500);
        }
    }
}
