//! The damaged traces of the corpus for the CTF drafts: each sentence of their `why.txt`, with the exit status.
//!
//! The corpus is in `../shared/corpus` or where CORPUS says. Without it there is nothing to hold: the same damage on
//! traces that are made by the tests is in `ctf/rfc/tests/damaged.rs` of the formats.

mod util;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use util::{Folder, Run, json_lines, run_with};

/// A damaged trace, and what the program says of it.
struct Damaged {
    /// `ctf-1.1-bad` or `ctf-1.6-bad`.
    draft: &'static str,
    path: PathBuf,
    lenient: Run,
    strict: Run,
}

type Sentence = (&'static str, fn(&Damaged));

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("CORPUS").unwrap_or_else(|| "../shared/corpus".into());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    folder.is_dir().then_some(folder)
}

/// Holds the sentences of a case in both drafts. Together they must be the whole text, so that none is forgotten.
fn holds(case: &str, sentences: &[Sentence]) {
    let Some(corpus) = corpus() else {
        eprintln!("there is no corpus: nothing is held");
        return;
    };
    for draft in ["ctf-1.1-bad", "ctf-1.6-bad"] {
        let folder = corpus.join(draft).join(case);
        let why = std::fs::read_to_string(folder.join("why.txt")).expect("the case says why");
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        let path = folder.join("trace");
        let text = path.to_str().expect("a path in UTF-8");
        let lenient = run_with("print --format jsonl", &[text]);
        let strict = run_with("print --format jsonl --strict", &[text]);
        for run in [&lenient, &strict] {
            assert!(!run.stderr.contains("panicked"), "{draft}/{case}: {}", run.stderr);
        }
        let damaged = Damaged { draft, path, lenient, strict };
        damaged.can_be_mended();
        let mut rest = why.as_str();
        for (sentence, hold) in sentences {
            // A sentence that holds for one of the drafts only begins with its name.
            let sentence = match sentence.split_once("| ") {
                Some((only, _)) if !draft.contains(only) => continue,
                Some((_, sentence)) => sentence,
                None => sentence,
            };
            rest =
                rest.strip_prefix(sentence).unwrap_or_else(|| panic!("{draft}/{case}: `{sentence}`, found `{rest}`"));
            rest = rest.trim_start();
            hold(&damaged);
        }
        assert_eq!(rest, "", "{draft}/{case}: sentences that nothing holds");
    }
}

fn payloads(run: &Run) -> Vec<Value> {
    json_lines(&run.stdout).into_iter().map(|line| line["payload"].clone()).collect()
}

/// The events of the first packet.
fn two() -> Vec<Value> {
    vec![json!({"a": 0, "s": [1, 2, 3], "t": "hello"}), json!({"a": 9, "s": [], "t": "x"})]
}

impl Damaged {
    /// Written as itself, its events are those that can be read, and nothing is damaged any more.
    fn can_be_mended(&self) {
        if self.lenient.code != Some(3) {
            return;
        }
        let folder = Folder::new();
        let (to, path) = (self.draft.trim_end_matches("-bad").replace('-', ""), self.path.display().to_string());
        folder.run_with(&format!("convert --to {to} -o mended"), &[&path]).ends(3, &[]);
        let mended = folder.run("print --format jsonl mended").ends(0, &[]);
        assert_eq!(payloads(&mended), payloads(&self.lenient), "{}", self.draft);
    }

    fn stream(&self) -> Vec<u8> {
        std::fs::read(self.path.join("main_0")).expect("there is a stream file")
    }

    /// Where packets begin: at magic numbers, and at those that are damaged.
    fn second_packet(&self) -> usize {
        let stream = self.stream();
        let is_magic = |word: &[u8]| matches!(word, [0xC1, 0x1F, 0xFC, 0xC1] | [0xDE, 0xAD, 0xBE, 0xEF]);
        1 + stream[1..].windows(4).position(is_magic).expect("there is a second packet")
    }

    fn faults(&self) -> Vec<&str> {
        self.lenient.stderr.lines().filter(|line| line.starts_with("error:")).collect()
    }

    /// There is one fault, with file, packet and offset, and these words.
    fn reports(&self, packet: u32, offset: usize, words: &str) {
        let faults = self.faults();
        let [fault] = faults.as_slice() else { panic!("{}: {faults:?}", self.draft) };
        for text in ["main_0", words, &format!("byte {offset}, packet {packet}")] {
            assert!(fault.contains(text), "{}: `{text}` is not in {fault}", self.draft);
        }
    }

    /// The metadata are refused at a line and a column, and nothing is read.
    fn is_refused(&self, words: &str) {
        for run in [&self.lenient, &self.strict] {
            assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{}: {}", self.draft, run.stderr);
            assert!(run.stderr.contains(words), "{}: {}", self.draft, run.stderr);
        }
        let faults = self.faults();
        let [fault] = faults.as_slice() else { panic!("{}: {}", self.draft, self.lenient.stderr) };
        let number = |word: &str| -> usize {
            let (_, rest) = fault.split_once(word).unwrap_or_else(|| panic!("no {word} in {fault}"));
            rest.split([',', ':']).next().and_then(|number| number.parse().ok()).expect("a number")
        };
        let (line, column) = (number("metadata: line "), number(", column "));
        let text = std::fs::read_to_string(self.path.join("metadata")).expect("there are metadata");
        assert!(text.lines().nth(line - 1).expect("the line is in the text").len() >= column, "{fault}");
    }
}

fn first_is_sound(damaged: &Damaged) {
    assert_eq!(payloads(&damaged.lenient)[..2], two(), "{}", damaged.draft);
}

fn only_two_and_an_error(damaged: &Damaged) {
    assert_eq!(payloads(&damaged.lenient), two(), "{}", damaged.draft);
    assert_eq!(damaged.lenient.code, Some(3), "{}", damaged.lenient.stderr);
    assert_eq!(payloads(&damaged.strict), two(), "{}", damaged.draft);
    assert_eq!(damaged.strict.code, Some(1), "{}", damaged.strict.stderr);
}

fn nothing(_: &Damaged) {}

#[test]
fn bad_magic() {
    holds(
        "bad-magic",
        &[
            ("The first packet (2 events) is sound;", first_is_sound),
            ("the second one's magic is DE AD BE EF.", |damaged| {
                damaged.reports(1, damaged.second_packet(), "found the bytes DE AD BE EF");
            }),
            ("Expect: the 2 events, then an error.", only_two_and_an_error),
        ],
    );
}

#[test]
fn bad_identity() {
    holds(
        "bad-uuid",
        &[
            ("The first packet (2 events) is sound;", first_is_sound),
            ("1.1| the second packet's session_id differs from the first one's.", |damaged| {
                damaged.reports(1, damaged.second_packet(), "session id");
            }),
            ("1.6| the second packet's trace_uuid is not the one in the metadata.", |damaged| {
                damaged.reports(1, damaged.second_packet(), "uuid");
            }),
            ("Expect: the 2 events, then an error.", only_two_and_an_error),
        ],
    );
}

#[test]
fn checksum_mismatch() {
    holds(
        "checksum-mismatch",
        &[
            ("The first packet (2 events) is sound;", first_is_sound),
            ("in the second one a content byte was flipped, so that its crc32 does not match.", |damaged| {
                damaged.reports(1, damaged.second_packet(), "crc32");
            }),
            (
                "Expect: the 2 events, the second packet's events with the fault told (packet and offset), exit status 3;",
                |damaged| {
                    let found = payloads(&damaged.lenient);
                    assert_eq!((found.len(), damaged.lenient.code), (4, Some(3)), "{}", damaged.lenient.stderr);
                    assert_ne!(found[2]["t"], "hello");
                },
            ),
            ("under --strict the 2 events and the error.", |damaged| {
                assert_eq!(payloads(&damaged.strict), two(), "{}", damaged.draft);
                assert_eq!(damaged.strict.code, Some(1));
                assert_eq!(damaged.strict.stderr.matches("crc32").count(), 1, "{}", damaged.strict.stderr);
            }),
        ],
    );
}

#[test]
fn cyclic_types() {
    holds(
        "cyclic-typedef",
        &[
            (
                "The metadata ends with types that refer to one another in a circle, and a struct that contains itself.",
                nothing,
            ),
            ("Expect: a metadata error (unknown type or cycle), never endless recursion; no event.", |damaged| {
                damaged.is_refused(if damaged.draft.contains("1.1") { "circle" } else { "is not declared" });
            }),
        ],
    );
}

#[test]
fn a_sequence_beyond_its_packet() {
    holds(
        "sequence-beyond-packet",
        &[
            (
                "The first event's sequence length says 65535 elements, beyond the end of the packet content (no checksum here).",
                |damaged| {
                    // After the headers and the number `a`.
                    let begin = if damaged.draft.contains("1.1") { 58 } else { 78 };
                    damaged.reports(0, begin, "65535 elements");
                },
            ),
            (
                "Expect: an error, never a read outside of the packet nor a large allocation; no event of this packet; \
                 then the 2 events of the second packet, which is sound.",
                |damaged| {
                    let found = payloads(&damaged.lenient);
                    assert_eq!((found.len(), damaged.lenient.code), (2, Some(3)), "{}", damaged.lenient.stderr);
                    // No event of the first packet is among them.
                    let times = json_lines(&damaged.lenient.stdout);
                    assert!(times.iter().all(|line| line["cycles"].as_u64() >= Some(100)), "{times:?}");
                    assert_eq!((&*damaged.strict.stdout, damaged.strict.code), ("", Some(1)));
                },
            ),
        ],
    );
}

#[test]
fn a_truncated_packet() {
    holds(
        "truncated-packet",
        &[
            ("The first packet (2 events) is sound;", first_is_sound),
            ("the second is cut 5 bytes before the end of its content, while packet_size says otherwise.", |damaged| {
                let left = damaged.stream().len() - damaged.second_packet();
                damaged.reports(1, damaged.second_packet(), &format!("{left} of its {} bytes", left + 5));
            }),
            ("Expect: the 2 events, then an error naming the file and the packet offset.", only_two_and_an_error),
        ],
    );
}

#[test]
fn an_unknown_type() {
    holds(
        "unknown-type",
        &[
            ("The event's field refers to a type (no_such_type) that is declared nowhere.", nothing),
            ("Expect: a metadata error with line and column; no event.", |damaged| {
                damaged.is_refused("`no_such_type` is not declared");
            }),
        ],
    );
}

#[test]
fn an_integer_without_bits() {
    holds(
        "zero-size-integer",
        &[
            ("An integer type has size = 0.", nothing),
            ("Expect: a metadata error with line and column; no event.", |damaged| {
                damaged.is_refused("the size in bits is 0");
            }),
        ],
    );
}
