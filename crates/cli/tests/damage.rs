//! Conversions of damaged traces: every event that can be read arrives, the output is sound, and says where something is
//! missing.

mod util;

use std::path::Path;

use serde_json::Value;
use util::{Folder, json_lines};

/// Bytes of a packet of the demo.
const PACKET: usize = 4096;

/// A trace of which a part is damaged, and what is reported about it.
fn damaged(change: fn(&mut Vec<u8>)) -> Folder {
    let folder = Folder::new();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces/losses");
    for name in ["metadata", "tiny_0", "tiny_1"] {
        let mut bytes = std::fs::read(demo.join(name)).expect("the demo is there");
        if name == "tiny_0" {
            change(&mut bytes);
        }
        folder.file(&format!("t/{name}"), bytes);
    }
    folder
}

/// Name, what is done to the file of 11 packets, and what is reported about it.
type Case = (&'static str, fn(&mut Vec<u8>), &'static str);

const CASES: [Case; 4] = [
    ("the magic number of a packet", |bytes| bytes[4 * PACKET..4 * PACKET + 4].fill(0), "wrong magic number"),
    ("an event inside of a packet", |bytes| bytes[4 * PACKET + 2000..4 * PACKET + 2100].fill(0xff), "no event class"),
    ("the last packet", |bytes| bytes.truncate(9 * PACKET + 2000), "the file ends inside the packet"),
    ("the magic number of the last one", |bytes| bytes[10 * PACKET..10 * PACKET + 4].fill(0), "wrong magic number"),
];

/// Lines without what packets and headers say, which other formats have in their own way.
fn lines(folder: &Folder, trace: &str, code: i32) -> Vec<[Value; 3]> {
    let run = folder.run(&format!("print -q --format jsonl {trace}")).ends(code, &[]);
    let lines = json_lines(&run.stdout).into_iter();
    lines.map(|line| [line["ns"].clone(), line["name"].clone(), line["payload"].clone()]).collect()
}

#[test]
fn what_is_damaged_is_a_lost_packet_in_the_output() {
    for (what, change, told) in CASES {
        let folder = damaged(change);
        let want = lines(&folder, "t", 3);
        for (at, options) in
            ["--to ctf1.8", "--to ctf2", "--to ctf2 --packet-size 8KiB", "--to ctf1.8 --limit 99999999"]
                .iter()
                .enumerate()
        {
            let run = folder.run(&format!("convert {options} -o out{at} t")).ends(3, &[told]);
            assert_eq!(run.stderr.matches(told).count(), 1, "{what}, {options}: {}", run.stderr);
            assert_eq!(lines(&folder, &format!("out{at}"), 0), want, "{what}, {options}");
            let run = folder.run(&format!("print --format jsonl out{at}")).ends(0, &["lost"]);
            let lost = run.stderr.lines().filter(|line| line.contains("1 packet lost")).count();
            assert_eq!(lost, 1, "{what}, {options}: {}", run.stderr);
            folder.run(&format!("check -q out{at}")).ends(0, &[]);
        }
    }
}

#[test]
fn what_is_damaged_shows_where_there_are_no_packets() {
    for (what, change, told) in CASES {
        let folder = damaged(change);
        for (to, shown) in [("chrome", "lost packets"), ("perfetto", "lost packets"), ("uftrace", "")] {
            let run = folder.run(&format!("convert --to {to} -o {to} t")).ends(3, &[told]);
            assert_eq!(run.stderr.matches(told).count(), 1, "{what}, {to}: {}", run.stderr);
            let bytes = std::fs::read(folder.path(to)).unwrap_or_default();
            let is_shown = bytes.windows(shown.len().max(1)).any(|window| window == shown.as_bytes());
            assert!(shown.is_empty() || is_shown, "{what}, {to}");
        }
        let run = folder.run("print -q --format jsonl uftrace").ends(0, &[]);
        let lost = json_lines(&run.stdout).iter().filter(|line| line["name"] == "lost").count();
        // One for each stretch of discarded events, and one more.
        let discarded = folder.run("print --format jsonl t").stderr.matches("discarded").count();
        assert!(lost > discarded / 2 && lost > 0, "{what}: {lost} of {discarded}");
        let strict = folder.run("convert --strict --to ctf2 -o strict t");
        assert_eq!(strict.code, Some(1), "{what}");
        assert!(!folder.path("strict").exists());
    }
}

#[test]
fn packets_of_another_trace_become_packets_of_this_one() {
    // The UUID stands after the magic number.
    let folder = damaged(|bytes| bytes[4 * PACKET + 4..4 * PACKET + 20].fill(7));
    let want = lines(&folder, "t", 3);
    for to in ["ctf1.8", "ctf2"] {
        folder.run(&format!("convert --to {to} -o {to} t")).ends(3, &["of another trace"]);
        assert_eq!(lines(&folder, to, 0), want);
        // No events are lost.
        let run = folder.run(&format!("print --format jsonl {to}")).ends(0, &[]);
        assert!(!run.stderr.contains("lost"), "{}", run.stderr);
    }
}
