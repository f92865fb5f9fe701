//! Metadata in packets, and the first bytes by which metadata are known.

use super::*;

pub(super) fn packet(text: &[u8], big: bool, padding: usize) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = word(0x75D1_1D57).to_vec();
    bytes.extend([7; 16]);
    bytes.extend(word(0));
    bytes.extend(word((37 + text.len() as u32) * 8));
    bytes.extend(word((37 + text.len() as u32 + padding as u32) * 8));
    bytes.extend([0, 0, 0, 1, 8]);
    bytes.extend(text);
    bytes.extend(vec![0; padding]);
    bytes
}

#[test]
fn packets_are_joined_in_both_byte_orders() {
    for big in [false, true] {
        let mut bytes = packet(b"trace { maj", big, 5);
        bytes.extend(packet(b"or = 1; };\0\0", big, 0));
        let metadata = read_text(&bytes).expect("well formed");
        assert_eq!(metadata.text, "trace { major = 1; };");
        assert_eq!((metadata.uuid, metadata.faults.len()), (Some([7; 16]), 0));
        assert_eq!(probe(&bytes), metadata.byte_order.map(Flavour::Packetized));
    }
}

/// A packet of CTF2-PMETA-1.0, with a header of this many bytes.
fn long_packet(text: &[u8], big: bool, header_len: u32) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = word(0x75D1_1D57).to_vec();
    bytes.extend([7; 16]);
    bytes.extend(word(0x1234_5678));
    bytes.extend(word((header_len + text.len() as u32) * 8));
    bytes.extend(word((header_len + text.len() as u32 + 3) * 8));
    bytes.extend([0, 0, 0, 2, 0, 0, 0, 0]);
    bytes.extend(word(header_len * 8));
    bytes.resize(header_len as usize, 0xA5);
    bytes.extend(text);
    bytes.extend([0; 3]);
    bytes
}

#[test]
fn packets_of_ctf_2_say_the_size_of_their_headers() {
    for big in [false, true] {
        let mut bytes = long_packet(b"", big, 44);
        bytes.extend(long_packet(b"\x1e{\"type\": \"pre", big, 44));
        bytes.extend(long_packet(b"amble\"", big, 52));
        bytes.extend(long_packet(b"}\n", big, 44));
        let metadata = read_text(&bytes).expect("well formed");
        assert_eq!(metadata.text, "\u{1e}{\"type\": \"preamble\"}\n");
        assert_eq!((metadata.uuid, metadata.faults.len()), (Some([7; 16]), 0));
        for len in 44..bytes.len() {
            let cut = read_text(&bytes[..len]).expect("cut");
            assert!(metadata.text.starts_with(&cut.text), "{len}");
        }
        // The size of the second header: less than its fields, and more than its packet.
        let size_at = 47 + if big { 42 } else { 41 };
        for size in [0, 0xFF] {
            let mut broken = bytes.clone();
            broken[size_at] = size;
            let error = read_text(&broken).expect_err("broken");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        }
    }
}

#[test]
fn packets_of_ctf_2_may_have_the_headers_of_ctf_1_8() {
    let version_2 = |text: &[u8]| {
        let mut bytes = packet(text, false, 0);
        bytes[35..37].copy_from_slice(&[2, 0]);
        bytes
    };
    let whole = b"\x1e{\"type\": \"preamble\", \"version\": 2}\n";
    assert_eq!(read_text(&version_2(whole)).expect("one").text.as_bytes(), whole);
    let pieces = [version_2(&whole[..5]), version_2(&whole[5..6]), version_2(&whole[6..])].concat();
    assert_eq!(read_text(&pieces).expect("three").text.as_bytes(), whole);
    // White space may come first.
    assert_eq!(read_text(&version_2(b" \x1e{}")).expect("blank").text, " \u{1e}{}");
}

#[test]
fn packet_faults_have_byte_offsets() {
    let good = packet(b"abc", false, 1);
    let change = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes.extend(packet(b"def", false, 0));
        bytes[41 + at] = value;
        let error = read_text(&bytes).expect_err("broken");
        (error.kind(), error.place().offset, error.message().to_owned())
    };
    assert_eq!(change(0, 0).1, Some(41));
    assert!(change(4, 9).2.contains("uuid of another trace"));
    assert_eq!((change(32, 1).0, change(32, 1).1), (ErrorKind::Unsupported, Some(73)));
    assert!(change(32, 1).2.contains("compressed"));
    assert!(change(33, 1).2.contains("encrypted"));
    assert!(change(34, 1).2.contains("checksum"));
    assert!(change(36, 6).2.contains("CTF version 1.6"));
    assert!(change(24, 8).2.contains("content size of 264 bits"));
    assert!(change(28, 8).2.contains("packet of 264 bits has a content size of 320"));
}

#[test]
fn a_cut_last_packet_is_a_fault_with_the_text_so_far() {
    let mut bytes = packet(b"abc", false, 1);
    bytes.extend(packet(b"defgh", false, 9));
    let whole = read_text(&bytes).expect("whole").text;
    assert_eq!(whole, "abcdefgh");
    for len in 41..bytes.len() {
        let metadata = read_text(&bytes[..len]).expect("cut");
        assert!(whole.starts_with(&metadata.text));
        let is_cut = len > 41 && len < 41 + 42;
        assert_eq!(metadata.faults.len(), usize::from(is_cut), "{len}");
    }
}

#[test]
fn invalid_utf8_is_replaced_and_told() {
    let mut bytes = packet(b"/* ab */", false, 0);
    bytes.extend(packet(b"\"\xFFx\"", false, 0));
    let metadata = read_text(&bytes).expect("readable");
    assert_eq!(metadata.text, "/* ab */\"\u{FFFD}x\"");
    assert_eq!(metadata.faults[0].place().offset, Some(45 + 37 + 1));
}

#[test]
fn probe_knows_signatures_and_lenient_texts() {
    assert_eq!(probe(b"/* CTF 1.8 */ trace {"), Some(Flavour::Text));
    assert_eq!(probe(b"/* CTF 1.9 */"), Some(Flavour::Text));
    assert!(read_text(b"\xEF\xBB\xBF/* CTF 1.8.2 */").is_ok_and(|metadata| metadata.text == "/* CTF 1.8.2 */"));
    assert!(read_text(b"/* CTF 1.9 */").expect_err("refused").message().contains("CTF version `1.9`"));
    assert_eq!(
        probe(b"// x\n typealias integer { size = 8; } := a; trace { major = 1; minor = 8; };"),
        Some(Flavour::Text)
    );
    for other in [&b"trace { major = 1; minor = 6; };"[..], b"", b"\x1e{}", b"hello", b"trace", b"\xFF\xFE"] {
        assert_eq!(probe(other), None, "{other:?}");
    }
}
