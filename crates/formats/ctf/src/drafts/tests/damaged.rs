//! Traces damaged on purpose, in both dialects: each test holds what must be read, and what must be said.

use super::Folder;
use super::build::{DRAFTS, Draft, Packet, two, two_shown};

/// A sound packet of two events, then this.
fn sound_then(draft: Draft, second: &[u8]) -> Folder {
    let mut stream = Packet::new(10, two(10)).bytes(draft);
    stream.extend(second);
    Folder::new(draft.metadata(), draft.file(), &stream)
}

/// Bytes of the sound packet: where the second one begins.
fn second_at(draft: Draft) -> usize {
    Packet::new(10, two(10)).bytes(draft).len()
}

fn second(draft: Draft) -> Vec<u8> {
    Packet { count: 1, ..Packet::new(200, two(200)) }.bytes(draft)
}

#[test]
fn bad_magic_the_first_packet_is_sound_then_an_error() {
    for draft in DRAFTS {
        let mut bytes = second(draft);
        bytes[..4].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        let read = sound_then(draft, &bytes).read();
        assert_eq!(read.events, two_shown(draft, 10), "{draft:?}");
        let [fault] = read.faults.as_slice() else { panic!("{:?}", read.faults) };
        assert!(fault.contains("/t/main_0") && fault.contains("packet 1") && fault.contains("DE AD BE EF"), "{fault}");
        assert!(fault.contains(&format!("byte {}", second_at(draft))), "{fault}");
    }
}

#[test]
fn bad_identity_the_first_packet_is_sound_then_an_error() {
    for (draft, what) in [(Draft::V11, "session id"), (Draft::V16, "uuid")] {
        let mut bytes = second(draft);
        bytes[4] ^= 0xff;
        let read = sound_then(draft, &bytes).read();
        assert_eq!(read.events, two_shown(draft, 10), "{draft:?}");
        let [fault] = read.faults.as_slice() else { panic!("{:?}", read.faults) };
        assert!(fault.contains(what) && fault.contains(&format!("byte {}", second_at(draft))), "{fault}");
    }
}

#[test]
fn checksum_mismatch_the_events_are_there_and_the_fault_is_told_before_them() {
    for draft in DRAFTS {
        let mut content = two(200);
        let checksum = crc32fast::hash(&content);
        // The lowest byte of the number of the first event.
        content[6] ^= 1;
        let packet = Packet { count: 1, checksum, schemes: [0, 0, 3], ..Packet::new(200, content) };
        let folder = sound_then(draft, &packet.bytes(draft));
        let read = folder.read();
        assert_eq!(read.events.len(), 4, "{draft:?}");
        assert_eq!(read.events[..2], two_shown(draft, 10));
        assert!(read.events[2].contains("a=1,") && read.events[3] == two_shown(draft, 200)[1], "{:?}", read.events);
        let [fault] = read.faults.as_slice() else { panic!("{:?}", read.faults) };
        assert!(fault.contains("crc32") && fault.contains("packet 1"), "{fault}");
        assert!(fault.contains(&format!("byte {}", second_at(draft))), "{fault}");
        // With --strict the engine stops at the first thing that opening the packet says: before its events.
        let trace = folder.open(&[]).expect("it opens");
        assert!(trace.faults.is_empty());
        let opened = trace.reader.open_packet(&trace.plans, &trace.streams[0], 1, 0).expect("it opens");
        assert_eq!(opened.faults.len(), 1);
        let unverified = folder.read_with(&[("no-verify", "")]);
        assert_eq!((unverified.events, unverified.faults.len()), (read.events, 0));
    }
}

#[test]
fn cyclic_types_are_a_metadata_error_and_no_event_is_read() {
    let tail = "type loop_a { parent = loop_b; }\ntype loop_b { parent = loop_a; }\n\
                type loop_s { parent = struct; fields = { { loop_s, again }, }; }\n";
    let bytes = second(Draft::V11);
    let error = Folder::new(format!("{}{tail}", Draft::V11.metadata()), "main_0", &bytes).refused();
    assert!(error.message().contains("circle") && error.place().text.is_some(), "{error}");
    let alone = tail.lines().last().unwrap_or_default();
    let error = Folder::new(format!("{}{alone}", Draft::V11.metadata()), "main_0", &bytes).refused();
    assert!(error.message().contains("`loop_s` contains itself") && error.place().text.is_some(), "{error}");
    let tail = "typedef loop_b loop_a;\ntypedef loop_a loop_b;\n";
    let error = Folder::new(format!("{}{tail}", Draft::V16.metadata()), "main_0", &bytes).refused();
    assert!(error.message().contains("`loop_b` is not declared") && error.place().text.is_some(), "{error}");
    let tail = "struct loop_s { struct loop_s again; };\n";
    let error = Folder::new(format!("{}{tail}", Draft::V16.metadata()), "main_0", &bytes).refused();
    assert!(error.message().contains("`loop_s` contains itself") && error.place().text.is_some(), "{error}");
}

#[test]
fn a_sequence_beyond_the_packet_costs_its_packet_and_no_memory() {
    for draft in DRAFTS {
        let mut content = two(10);
        content[10..12].copy_from_slice(&65535u16.to_le_bytes());
        let mut stream = Packet::new(10, content).bytes(draft);
        stream.extend(second(draft));
        let read = Folder::new(draft.metadata(), draft.file(), &stream).read();
        assert_eq!(read.events, two_shown(draft, 200), "{draft:?}");
        let [fault] = read.faults.as_slice() else { panic!("{:?}", read.faults) };
        assert!(
            fault.contains("65535 elements") && fault.contains("payload.s") && fault.contains("packet 0"),
            "{fault}"
        );
    }
}

#[test]
fn a_truncated_packet_is_told_with_its_offset() {
    for draft in DRAFTS {
        for (scheme, events) in [(0u8, 3), (3, 2)] {
            let content = two(200);
            let checksum = crc32fast::hash(&content);
            let packet = Packet { count: 1, checksum, schemes: [0, 0, scheme], ..Packet::new(200, content) };
            let mut bytes = packet.bytes(draft);
            bytes.truncate(bytes.len() - 5);
            let read = sound_then(draft, &bytes).read();
            // Without a scheme its whole event is read, with one nothing of it.
            assert_eq!(read.events.len(), events, "{draft:?} {:?}", read.events);
            assert_eq!(read.events[..2], two_shown(draft, 10));
            let [fault] = read.faults.as_slice() else { panic!("{:?}", read.faults) };
            assert!(fault.contains("/t/main_0") && fault.contains("truncated packet"), "{fault}");
            assert!(fault.contains(&format!("byte {}", second_at(draft))), "{fault}");
        }
    }
}

#[test]
fn an_incomplete_header_is_a_truncated_packet() {
    for draft in DRAFTS {
        for len in [1, 3, 4, 20, draft.header_len() - 1] {
            let read = sound_then(draft, &second(draft)[..len]).read();
            assert_eq!(read.events, two_shown(draft, 10), "{draft:?}");
            let [fault] = read.faults.as_slice() else { panic!("{:?}", read.faults) };
            assert!(fault.contains("truncated packet: the file ends inside"), "{len}: {fault}");
        }
    }
}

#[test]
fn an_unknown_type_and_a_size_of_0_are_errors_with_line_and_column() {
    for (draft, field, at) in [(Draft::V11, "{ uint32_t, a }", (8, 5)), (Draft::V16, "uint32_t a;", (15, 58))] {
        let metadata = draft.metadata().replace(field, &field.replace("uint32_t", "no_such_type"));
        let error = Folder::new(metadata, draft.file(), &second(draft)).refused();
        let text = error.place().text.clone().expect("a place");
        assert!(error.message().contains("`no_such_type` is not declared"), "{error}");
        assert_eq!((text.line, text.column), at, "{error}");
        let metadata = draft.metadata().replacen("size = 32", "size = 0", 1);
        let error = Folder::new(metadata, draft.file(), &second(draft)).refused();
        let text = error.place().text.clone().expect("a place");
        assert!(error.message().contains("the size in bits is 0"), "{error}");
        assert!(text.line > 1 && text.excerpt.contains("size = 0"), "{error}");
    }
}

#[test]
fn faults_of_headers_end_within_bounds() {
    for draft in DRAFTS {
        // Magic after magic, none with sound sizes.
        let mut identity = second(draft)[..20].to_vec();
        if draft == Draft::V11 {
            identity[8..12].fill(0xff);
        }
        let bytes = identity.repeat(20_000);
        let read = sound_then(draft, &bytes).read();
        assert_eq!(read.events, two_shown(draft, 10));
        assert!(read.faults.len() <= 2, "{}", read.faults.len());
    }
}

#[test]
fn sizes_of_4_gib_cost_what_is_behind_them_and_it_is_told() {
    let draft = Draft::V11;
    // Of the packet, then of its content too.
    for (sizes, said) in [(12..16, "count as padding"), (8..16, "its whole events are read")] {
        let mut bytes = second(draft);
        bytes[sizes].fill(0xff);
        let read = sound_then(draft, &bytes).read();
        assert_eq!(read.events, [two_shown(draft, 10), two_shown(draft, 200)].concat());
        let [fault] = read.faults.as_slice() else { panic!("{:?}", read.faults) };
        assert!(fault.contains("of its 4294967295 bytes") && fault.contains(said), "{fault}");
    }
}
