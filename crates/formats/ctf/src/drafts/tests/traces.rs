//! Options, files, and what a folder must look like to be a trace of the drafts.

use std::path::Path;

use tracemill_model::error::ErrorKind;
use tracemill_model::packet::Packet as Described;

use super::super::FORMAT;
use super::Folder;
use super::build::{DRAFTS, Draft, METADATA_11, METADATA_16, Packet, event, two, two_shown};

#[test]
fn the_clock_has_the_frequency_of_the_option() {
    let folder = Folder::new(METADATA_16, "main_0", &Packet::new(10, two(10)).bytes(Draft::V16));
    let clock = |settings: &[(&'static str, &str)]| {
        let trace = folder.open(settings).expect("it opens");
        trace.schema.clocks()[0].frequency
    };
    assert_eq!((clock(&[]), clock(&[("clock-frequency", "1000")])), (1_000_000_000, 1000));
    for bad in ["0", "fast"] {
        let Err(error) = folder.open(&[("clock-frequency", bad)]) else { panic!("{bad}") };
        assert_eq!(error.kind(), ErrorKind::Misuse);
    }
}

#[test]
fn hidden_files_are_left_alone_and_an_empty_one_is_a_stream() {
    for draft in DRAFTS {
        let stream = Packet::new(10, two(10)).bytes(draft);
        let folder = Folder::new(draft.metadata(), "main_0", &stream).with(".hidden", b"x").with("main_1", b"");
        let trace = folder.open(&[]).expect("it opens");
        let names: Vec<(&str, usize)> =
            trace.streams.iter().map(|stream| (stream.name.as_str(), stream.packets.len())).collect();
        assert_eq!(names, [("main_0", 1), ("main_1", 0)]);
        assert!(trace.faults.is_empty() && trace.warnings.is_empty());
    }
}

#[test]
fn packets_of_another_byte_order_are_no_packets_of_the_trace() {
    for draft in DRAFTS {
        let mut stream = Packet::new(10, two(10)).bytes(draft);
        let mut other = Packet { count: 1, ..Packet::new(200, two(200)) }.bytes(draft);
        other[..4].reverse();
        stream.extend(other);
        let read = Folder::new(draft.metadata(), draft.file(), &stream).read();
        assert_eq!(read.events, two_shown(draft, 10));
        assert!(read.faults.len() == 1 && read.faults[0].contains("byte order"), "{:?}", read.faults);
    }
}

#[test]
fn only_text_that_is_a_draft_is_claimed() {
    let probe = |metadata: &[u8]| {
        let folder = Folder::new(metadata, "main_0", b"");
        (FORMAT.probe)(&folder, Path::new("/t"))
    };
    let claimed: [&[u8]; 8] = [
        METADATA_11.as_bytes(),
        METADATA_16.as_bytes(),
        b"\xc1\x1f\xfc\xc1",
        b"\xc1\xfc\x1f\xc1",
        b"trace { major = 1; minor = 5; }",
        b"// a comment\ntrace { major = 1; minor = 7; };",
        b"section { name = main; event { header_type = type1; } }",
        b"stream { id = 0; };",
    ];
    for metadata in claimed {
        assert!(probe(metadata), "{}", String::from_utf8_lossy(metadata));
    }
    let others: [&[u8]; 9] = [
        b"",
        b"/* CTF 1.8 */ trace { major = 1; minor = 8; };",
        b"trace { major = 1; minor = 8; byte_order = le; };",
        b"\x1e{\"type\": \"preamble\"}",
        b"\x57\x1d\xd1\x75",
        b"name: something\n",
        b"{ \"json\": true }",
        b"struct timespec { long tv_sec; };",
        b"type: list\nname: x\n",
    ];
    for metadata in others {
        assert!(!probe(metadata), "{}", String::from_utf8_lossy(metadata));
    }
    // Far after other declarations.
    let far = format!("{}{METADATA_16}", "typedef integer { size = 8; } a_name_of_a_type;\n".repeat(2000));
    assert!(probe(far.as_bytes()));
}

#[test]
fn an_index_of_packets_has_what_their_headers_say() {
    let mut stream = Packet { padding: 5, ..Packet::new(10, two(10)) }.bytes(Draft::V16);
    stream.extend(Packet { count: 1, ..Packet::new(200, event(200, 1, &[], "")) }.bytes(Draft::V16));
    let trace = Folder::new(METADATA_16, "main_0", &stream).open(&[]).expect("it opens");
    let of = |packet: Described| {
        (packet.offset_bytes, packet.total_bits / 8, packet.content_bits / 8, packet.begin_cycles, packet.end_cycles)
    };
    let found: Vec<_> = trace.streams[0].packets.iter().map(of).collect();
    let content = (55 + two(10).len()) as u64;
    let last = (55 + event(200, 1, &[], "").len()) as u64;
    assert_eq!(
        found,
        [(0, content + 5, content, Some(10), Some(110)), (content + 5, last, last, Some(200), Some(300))]
    );
}

#[test]
fn times_go_on_from_packet_to_packet_without_a_beginning() {
    let metadata =
        METADATA_16.replace("uint64_t timestamp_begin; uint64_t timestamp_end;", "").replace("header_2", "header_1");
    let packet = |time: u32| {
        let mut bytes = 0xC1FC_1FC1u32.to_le_bytes().to_vec();
        bytes.extend(super::build::UUID);
        bytes.extend([0; 4]);
        let content = [&(time << 5 | 1).to_le_bytes()[..], &[0; 7]].concat();
        let size = (24 + 15 + content.len()) as u32;
        bytes.extend([size.to_le_bytes(), size.to_le_bytes(), [0; 4]].concat());
        bytes.extend([0; 3]);
        bytes.extend(content);
        bytes
    };
    let stream = [packet(0x7ff_fff0), packet(5), packet(4)].concat();
    let read = Folder::new(metadata, "main_0", &stream).read();
    let times: Vec<u64> = read.events.iter().filter_map(|event| event.split(' ').next()?.parse().ok()).collect();
    assert_eq!(times, [0x7ff_fff0, 0x800_0005, 0x1000_0004]);
}
