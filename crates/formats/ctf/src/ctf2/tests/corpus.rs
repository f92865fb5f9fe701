//! Real metadata: it is read, and no damage to it makes the front end panic.

use std::path::{Path, PathBuf};

use tracemill_model::error::ErrorKind;
use tracemill_model::schema::{FieldKind, Role};

use super::super::{parse, probe};

/// The folder of the corpus, when there is one.
fn corpus() -> Option<PathBuf> {
    std::env::var_os("TRACEMILL_CORPUS").map(PathBuf::from)
}

/// Every file named `metadata` below a folder, in a fixed order.
fn metadata_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == "metadata") {
                let bytes = std::fs::read(&path).unwrap();
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

/// Metadata to damage: the corpus, or a sample with a bit of everything when there is no corpus.
fn samples() -> Vec<Vec<u8>> {
    match corpus() {
        Some(corpus) => metadata_below(&corpus.join("ctf-2")).into_iter().map(|(_, bytes)| bytes).collect(),
        None => vec![SAMPLE.as_bytes().to_vec()],
    }
}

const SAMPLE: &str = concat!(
    "\u{1e}{\"type\": \"preamble\", \"version\": 2, \"attributes\": {\"a\": [1.5e3, null, true, \"\\u00e9\\ud83d\\ude00\"]}}\n",
    "\u{1e}{\"type\": \"field-class-alias\", \"name\": \"n\", \"field-class\": {\"type\": \"variable-length-unsigned-integer\"}}\n",
    "\u{1e}{\"type\": \"clock-class\", \"id\": \"c\", \"frequency\": 1000, \"origin\": \"unix-epoch\"}\n",
    "\u{1e}{\"type\": \"data-stream-class\", \"default-clock-class-id\": \"c\"}\n",
    "\u{1e}{\"type\": \"event-record-class\", \"payload-field-class\": {\"type\": \"structure\", \"member-classes\": [",
    "{\"name\": \"n\", \"field-class\": \"n\"}, {\"name\": \"v\", \"field-class\": {\"type\": \"variant\",",
    " \"selector-field-location\": {\"path\": [\"n\"]}, \"options\": [{\"selector-field-ranges\": [[0, 1]],",
    " \"field-class\": {\"type\": \"null-terminated-string\"}}]}}]}}\n"
);

#[test]
fn every_metadata_of_the_corpus_is_read() {
    let Some(corpus) = corpus() else { return };
    let all = metadata_below(&corpus.join("ctf-2"));
    assert!(!all.is_empty());
    for (path, bytes) in all {
        assert!(probe(&bytes), "{}", path.display());
        let (schema, _) = parse(&bytes, true).unwrap_or_else(|error| panic!("{}", error.in_file(&path)));
        assert_eq!(schema.version, (2, 0));
        assert!(!schema.streams().is_empty(), "{}", path.display());
    }
}

#[test]
fn the_optional_and_variant_trace_has_what_it_says() {
    let Some(corpus) = corpus() else { return };
    let bytes = std::fs::read(corpus.join("ctf-2/optional-variant/trace/metadata")).unwrap();
    let (schema, _) = parse(&bytes, true).unwrap();
    assert_eq!(schema.uuid.unwrap()[..3], [215, 54, 96]);
    let FieldKind::Struct(context) = &schema.field_class(schema.streams()[0].packet_context.unwrap()).kind else {
        panic!("a structure")
    };
    let roles: Vec<_> = context.members.iter().map(|member| schema.field_class(member.class).roles).collect();
    assert!(roles[0].has(Role::PacketTotalSize) && roles[1].has(Role::PacketContentSize));
    assert!(roles[2].has(Role::PacketBegin) && roles[2].has(Role::Timestamp));
    assert!(roles[3].has(Role::PacketEnd) && !roles[3].has(Role::Timestamp));
    assert!(roles[4].has(Role::DiscardedEvents) && roles[5].has(Role::PacketSequence));
    assert!(roles[6].is_empty());
}

#[test]
fn bad_metadata_of_the_corpus_is_refused_with_a_place() {
    let Some(corpus) = corpus() else { return };
    for (name, kind, line, message) in [
        (
            "ctf2-broken-json",
            ErrorKind::Malformed,
            3,
            "fragment 3 is not valid JSON: expected `,` or `}` after a property, found the end of the fragment",
        ),
        ("ctf2-no-preamble", ErrorKind::Malformed, 1, "the first fragment is a `trace-class`, expected a `preamble`"),
        (
            "ctf2-unknown-extension",
            ErrorKind::Unsupported,
            1,
            "extension `swirl` of namespace `example.com` is not supported",
        ),
    ] {
        let bytes = std::fs::read(corpus.join("ctf-bad").join(name).join("trace/metadata")).unwrap();
        let error = parse(&bytes, true).unwrap_err();
        assert_eq!((error.kind(), error.message()), (kind, message));
        assert_eq!(error.place().text.as_ref().unwrap().line, line);
    }
}

#[test]
fn truncated_metadata_never_panics() {
    for bytes in samples() {
        // All fragments before the cut are read again for every cut, so cuts at every byte would take minutes for
        // long metadata; there they become rarer towards the end.
        let step = 1 + bytes.len() / 1000;
        for end in (0..bytes.len().min(1500)).chain((0..bytes.len()).step_by(step)) {
            let _ = probe(&bytes[..end]);
            if let Err(error) = parse(&bytes[..end], end % 2 == 0) {
                assert!(error.place().text.is_some(), "cut at {end}: {error}");
            }
        }
    }
}

#[test]
fn mutated_metadata_never_panics() {
    // A linear congruential generator: the same mutations in every run.
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    const PIECES: [&[u8]; 12] =
        [b"{", b"}", b"[", b"]", b"null", b"-1", b"99999999999999999999", b"\"", b"\x1e", b"\\u", b"0", b"\"n\""];
    for bytes in samples() {
        for _ in 0..200 {
            let mut mutated = bytes.clone();
            for _ in 0..=random(3) {
                let at = random(mutated.len());
                match random(4) {
                    0 => mutated[at] = random(256) as u8,
                    1 => drop(mutated.remove(at)),
                    2 => {
                        let end = (at + random(40)).min(mutated.len());
                        let piece = mutated[at..end].to_vec();
                        let to = random(mutated.len());
                        mutated.splice(to..to, piece);
                    }
                    _ => {
                        let piece = PIECES[random(PIECES.len())];
                        mutated.splice(at..at + 1, piece.iter().copied());
                    }
                }
            }
            if let Err(error) = parse(&mutated, false) {
                assert!(error.place().text.is_some(), "{error}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
}
