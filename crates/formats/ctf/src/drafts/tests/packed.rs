//! Compression, encryption and checksums (`SPEC.md`, D30 to D33).

use std::io::Write;

use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::aes::{Aes128, Aes192, Aes256};
use aes_gcm::{AesGcm, Nonce};
use md5::Digest;

use super::Folder;
use super::build::{DRAFTS, Draft, Packet, SESSION, two, two_shown};

fn bzip2(content: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

fn xz(content: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

/// Nonce, ciphertext and tag, for a packet whose header has these bytes to authenticate.
fn seal(key: &[u8], associated: &[u8], content: &[u8]) -> Vec<u8> {
    let nonce = [7u8; 12];
    let payload = Payload { msg: content, aad: associated };
    let nonce_of = Nonce::<U12>::from(nonce);
    let sealed = match key.len() {
        16 => AesGcm::<Aes128, U12>::new_from_slice(key).expect("16").encrypt(&nonce_of, payload),
        24 => AesGcm::<Aes192, U12>::new_from_slice(key).expect("24").encrypt(&nonce_of, payload),
        _ => AesGcm::<Aes256, U12>::new_from_slice(key).expect("32").encrypt(&nonce_of, payload),
    };
    [&nonce[..], &sealed.expect("it encrypts")].concat()
}

fn associated(draft: Draft) -> Vec<u8> {
    Packet::default().bytes(draft)[draft.associated()].to_vec()
}

fn trace(draft: Draft, packet: &Packet) -> Folder {
    Folder::new(draft.metadata(), draft.file(), &packet.bytes(draft))
}

#[test]
fn every_compression_is_undone() {
    for draft in DRAFTS {
        for (scheme, content) in [(1, bzip2(&two(10))), (2, gzip(&two(10))), (3, xz(&two(10)))] {
            let packet = Packet { schemes: [scheme, 0, 0], padding: 9, ..Packet::new(10, content) };
            let read = trace(draft, &packet).read();
            if draft == Draft::V11 && scheme == 3 {
                assert!(read.events.is_empty() && read.faults[0].contains("unsupported compression scheme 3"));
                continue;
            }
            assert_eq!((read.events, read.faults), (two_shown(draft, 10).to_vec(), vec![]), "{draft:?} {scheme}");
        }
    }
}

#[test]
fn what_does_not_end_with_its_stream_is_an_error() {
    let content = two(10);
    let twice = |one: Vec<u8>| [one.clone(), one].concat();
    let tail = |mut one: Vec<u8>| {
        one.push(0);
        one
    };
    let cut = |mut one: Vec<u8>| {
        one.truncate(one.len() - 6);
        one
    };
    for (scheme, pack) in [(1u8, bzip2 as fn(&[u8]) -> Vec<u8>), (2, gzip), (3, xz)] {
        for stored in [twice(pack(&content)), tail(pack(&content)), cut(pack(&content)), vec![1, 2, 3]] {
            let packet = Packet { schemes: [scheme, 0, 0], ..Packet::new(10, stored) };
            let read = trace(Draft::V16, &packet).read();
            assert!(read.events.is_empty(), "{scheme}");
            assert_eq!(read.faults.len(), 1, "{scheme}: {:?}", read.faults);
        }
    }
}

#[test]
fn a_bomb_ends_with_a_message_and_the_limit_can_be_raised() {
    let content = [two(10), vec![0; 100_000]].concat();
    for (scheme, stored) in [(1, bzip2(&content)), (2, gzip(&content)), (3, xz(&content))] {
        let packet = Packet { schemes: [scheme, 0, 0], ..Packet::new(10, stored) };
        let mut stream = packet.bytes(Draft::V16);
        stream.extend(Packet::new(200, two(200)).bytes(Draft::V16));
        let folder = Folder::new(Draft::V16.metadata(), "main_0", &stream);
        let read = folder.read_with(&[("max-expanded", "10000")]);
        assert_eq!(read.events, two_shown(Draft::V16, 200));
        let [fault] = read.faults.as_slice() else { panic!("{:?}", read.faults) };
        assert!(fault.contains("limit of 10000 bytes"), "{fault}");
        // Zeros are no event: they are met once the packet is read.
        let read = folder.read_with(&[("max-expanded", "200000")]);
        assert_eq!(read.events[..2], two_shown(Draft::V16, 10));
        assert!(read.faults[0].contains("no event class has the id 0"), "{:?}", read.faults);
    }
}

#[test]
fn keys_of_every_length_raw_and_in_digits() {
    for draft in DRAFTS {
        for len in [16usize, 24, 32] {
            let key: Vec<u8> = (0..len as u8).map(|at| at.wrapping_mul(37) ^ 0x80).collect();
            let sealed = seal(&key, &associated(draft), &gzip(&two(10)));
            let checksum = u32::from_be_bytes(*md5::Md5::digest(&sealed).first_chunk().expect("16 bytes"));
            let packet = Packet { schemes: [2, 1, 1], checksum, ..Packet::new(10, sealed) };
            let digits: String = key.iter().map(|byte| format!("{byte:02X}")).collect::<String>() + "\n";
            let folder = trace(draft, &packet).with("raw.key", &key).with("hex.key", digits.as_bytes());
            for file in ["/t/raw.key", "/t/hex.key"] {
                let read = folder.read_with(&[("key-file", file)]);
                assert_eq!((read.events, read.faults), (two_shown(draft, 10).to_vec(), vec![]), "{draft:?} {len}");
            }
        }
    }
}

#[test]
fn without_its_key_a_packet_is_locked_and_its_header_is_read() {
    for draft in DRAFTS {
        let key = [9u8; 32];
        let packet = Packet { schemes: [0, 1, 0], ..Packet::new(10, seal(&key, &associated(draft), &two(10))) };
        let mut stream = packet.bytes(draft);
        stream.extend(Packet { count: 1, ..Packet::new(200, two(200)) }.bytes(draft));
        let folder = Folder::new(draft.metadata(), draft.file(), &stream)
            .with("wrong.key", &[8; 32])
            .with("short.key", &[8; 31]);
        let read = folder.read();
        assert_eq!(read.events, two_shown(draft, 200));
        assert!(read.faults[0].contains("locked") && read.faults.len() == 1, "{:?}", read.faults);
        let opened = folder.open(&[]).expect("it opens");
        assert_eq!(opened.streams[0].packets.at(0).begin_cycles, Some(10));
        let read = folder.read_with(&[("key-file", "/t/wrong.key")]);
        assert_eq!(read.events, two_shown(draft, 200));
        assert!(read.faults[0].contains("does not decrypt"), "{:?}", read.faults);
        for settings in [&[("key-file", "/t/short.key")][..], &[("key-file", "/t/none.key")]] {
            let Err(error) = folder.open(settings) else { panic!("{settings:?}") };
            assert_eq!(error.kind(), tracemill_model::error::ErrorKind::Misuse, "{error}");
        }
    }
}

#[test]
fn a_header_that_was_changed_does_not_authenticate() {
    let key = [9u8; 16];
    let packet = Packet { schemes: [0, 1, 0], ..Packet::new(10, seal(&key, b"none", &two(10))) };
    let read = trace(Draft::V11, &packet).with("a.key", &key).read_with(&[("key-file", "/t/a.key")]);
    assert!(read.events.is_empty() && read.faults[0].contains("does not decrypt"), "{:?}", read.faults);
}

#[test]
fn a_passphrase_makes_a_key_with_the_identity_of_the_trace_as_salt() {
    let mut key = [0; 32];
    let salt = [&b"CTF-RFC-AES"[..], &SESSION.to_le_bytes()].concat();
    pbkdf2::pbkdf2_hmac::<sha2::Sha256>(b"open sesame", &salt, 600_000, &mut key);
    let packet = Packet { schemes: [0, 1, 0], ..Packet::new(10, seal(&key, &associated(Draft::V11), &two(10))) };
    let folder = trace(Draft::V11, &packet).with("p.key", b"open sesame\r\n").with("a.key", &key);
    let read = folder.read_with(&[("passphrase-file", "/t/p.key")]);
    assert_eq!((read.events, read.faults), (two_shown(Draft::V11, 10).to_vec(), vec![]));
    assert!(folder.open(&[("passphrase-file", "/t/p.key"), ("key-file", "/t/a.key")]).is_err());
}

#[test]
fn checksums_of_each_scheme_in_fields_of_each_form() {
    let content = two(10);
    let digests: [Vec<u8>; 3] = [
        md5::Md5::digest(&content).to_vec(),
        sha1::Sha1::digest(&content).to_vec(),
        crc32fast::hash(&content).to_be_bytes().to_vec(),
    ];
    // The field that holds the checksum, and how it is made of the digest.
    type Form = (&'static str, fn(&[u8]) -> Vec<u8>);
    let forms: [Form; 5] = [
        ("integer { size = 16; } checksum;", |digest| vec![digest[1], digest[0]]),
        ("uint64_t checksum;", |digest| {
            let value = digest.iter().take(8).fold(0u64, |value, &byte| value << 8 | u64::from(byte));
            value.to_le_bytes().to_vec()
        }),
        ("integer { size = 32; byte_order = be; } checksum;", |digest| digest[..4].to_vec()),
        ("uint8_t checksum[20];", |digest| {
            let mut bytes = digest.to_vec();
            bytes.resize(20, 0);
            bytes
        }),
        ("uint8_t checksum[3];", |digest| digest[..3].to_vec()),
    ];
    for (at, digest) in digests.iter().enumerate() {
        for (declaration, form) in forms {
            for flip in [0u8, 1] {
                let metadata = Draft::V16.metadata().replace("uint32_t checksum;", declaration);
                let mut field = form(digest);
                field[0] ^= flip;
                let packet = Packet { schemes: [0, 0, at as u8 + 1], ..Packet::new(10, content.clone()) };
                let mut bytes = packet.bytes(Draft::V16);
                bytes.splice(48..52, field.iter().copied());
                let size = (bytes.len() as u32).to_le_bytes();
                bytes[24..28].copy_from_slice(&size);
                bytes[28..32].copy_from_slice(&size);
                let read = Folder::new(metadata, "main_0", &bytes).read();
                assert_eq!(read.events, two_shown(Draft::V16, 10), "{at} {declaration}");
                assert_eq!(read.faults.len(), usize::from(flip), "{at} {declaration}: {:?}", read.faults);
            }
        }
    }
}

#[test]
fn a_checksum_without_a_field_of_whole_bytes_is_a_warning() {
    for (declaration, what) in [
        ("uint32_t other;", "no checksum"),
        ("integer { size = 12; } checksum; integer { size = 20; } more;", "whole bytes"),
        ("struct { uint32_t c; } checksum;", "neither a number"),
    ] {
        let metadata = Draft::V16.metadata().replace("uint32_t checksum;", declaration);
        let packet = Packet { schemes: [0, 0, 3], ..Packet::new(10, two(10)) };
        let read = Folder::new(metadata, "main_0", &packet.bytes(Draft::V16)).read();
        assert_eq!((read.events, read.faults), (two_shown(Draft::V16, 10).to_vec(), vec![]));
        assert!(read.warnings.iter().any(|warning| warning.contains(what)), "{:?}", read.warnings);
    }
}

#[test]
fn schemes_that_nobody_knows_cost_their_packet_only() {
    for (schemes, what) in [([9, 0, 0], "compression"), ([0, 2, 0], "encryption"), ([0, 0, 4], "checksum")] {
        for draft in DRAFTS {
            let mut stream = Packet { schemes, ..Packet::new(10, two(10)) }.bytes(draft);
            stream.extend(Packet { count: 1, ..Packet::new(200, two(200)) }.bytes(draft));
            let read = Folder::new(draft.metadata(), draft.file(), &stream).read();
            assert_eq!(read.events, two_shown(draft, 200));
            assert!(
                read.faults.len() == 1 && read.faults[0].contains(&format!("unsupported {what}")),
                "{:?}",
                read.faults
            );
        }
    }
}

#[test]
fn a_truncated_packet_with_a_scheme_gives_nothing() {
    let mut bytes = Packet { schemes: [2, 0, 0], padding: 8, ..Packet::new(10, gzip(&two(10))) }.bytes(Draft::V16);
    bytes.truncate(bytes.len() - 4);
    let read = Folder::new(Draft::V16.metadata(), "main_0", &bytes).read();
    assert!(read.events.is_empty() && read.faults.len() == 1, "{read:?}");
    assert!(read.faults[0].contains("truncated packet"), "{:?}", read.faults);
}
