//! `tracemill convert --drop-field`: fields are gone from the schema and from the events, everything else stays.

mod util;

use std::path::Path;

use serde_json::Value;
use util::{Folder, json_lines};

fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace).display().to_string()
}

fn lines(folder: &Folder, trace: &str) -> Vec<Value> {
    json_lines(&folder.run_with("print --format jsonl -q", &[trace]).ends(0, &[]).stdout)
}

#[test]
fn fields_are_gone_and_everything_else_stays() {
    let folder = Folder::new();
    let before = lines(&folder, &demo("orders"));
    for to in ["ctf2", "ctf1.8"] {
        let options =
            format!("convert -q --force --to {to} -o out --drop-field customer,$ctx.procname --drop-field vpid");
        folder.run_with(&options, &[&demo("orders")]).ends(0, &[]);
        let after = lines(&folder, "out");
        assert_eq!(after.len(), before.len());
        let mut dropped = 0;
        for (before, after) in before.iter().zip(&after) {
            let mut want = before.clone();
            for (scope, field) in [("stream_context", "vpid"), ("stream_context", "procname"), ("payload", "customer")]
            {
                let gone = want[scope].as_object_mut().and_then(|scope| scope.remove(field));
                dropped += usize::from(gone.is_some());
            }
            for key in ["ns", "name", "stream_context", "payload"] {
                assert_eq!(after[key], want[key]);
            }
        }
        assert!(dropped > before.len() * 2);
        // Neither the names nor the values are in the files.
        for entry in std::fs::read_dir(folder.path("out")).expect("it is a folder").flatten() {
            let Ok(bytes) = std::fs::read(entry.path()) else { continue };
            let is_there = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!is_there("customer") && !is_there("Chiara & sons"), "{:?}", entry.file_name());
        }
    }
}

/// Fields that are no whole bytes: what stands before one that is left out decides where the others begin.
#[test]
fn fields_beside_bits_stay() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("bits")).expect("the folder is new");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path(name), bytes).expect("there is room");
    write(
        "bits/metadata",
        b"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := byte;
trace { major = 1; minor = 8; byte_order = le; };
stream { event.header := struct { byte id; }; };
event { name = bits; id = 1; fields := struct {
    integer { size = 3; align = 1; } a; string s; integer { size = 5; align = 1; } c; byte b; integer { size = 4; align = 4; } d;
}; };
",
    );
    write("bits/stream", b"\x01\x05one\0\x13\xaa\x07\x01\x02two\0\x1f\xbb\x0e");
    let before = lines(&folder, "bits");
    let want = |at: usize, names: &[&str]| -> Value {
        names.iter().map(|name| before[at]["payload"][*name].clone()).collect()
    };
    assert_eq!(want(1, &["a", "b", "s", "c", "d"]), serde_json::json!([2, 0xbb, "two", 31, 14]));
    for (option, kept) in [
        ("--drop-field b", &["a", "s", "c", "d"][..]),
        ("--drop-field s", &["a", "b", "c", "d"]),
        ("--drop-field a", &["b", "s", "c", "d"]),
        ("--anonymise s", &["a", "b", "c", "d"]),
        ("--anonymise b", &["a", "s", "c", "d"]),
    ] {
        folder.run_with(&format!("convert -q --force --to ctf2 -o out {option}"), &["bits"]).ends(0, &[]);
        for (at, after) in lines(&folder, "out").iter().enumerate() {
            let found: Value = kept.iter().map(|name| after["payload"][*name].clone()).collect();
            assert_eq!(found, want(at, kept), "{option}");
        }
    }
}

#[test]
fn what_cannot_be_left_out_is_refused() {
    let folder = Folder::new();
    let refuse = |paths: &str, to: &str, code: i32, text: &str| {
        let options = format!("convert -q --to {to} -o out --drop-field {paths}");
        folder.run_with(&options, &[&demo("orders")]).ends(code, &[text]);
        assert!(!folder.path("out").exists());
    };
    refuse("_goods_length", "ctf2", 1, "says the length or the kind of another one");
    refuse("payload", "ctf2", 1, "is not a field, but all of them");
    refuse("goods[0]", "ctf2", 2, "an element of an array, and cannot be dropped");
    refuse("name", "ctf2", 2, "is not a field, and cannot be dropped");
    refuse("cpu_id", "ctf2", 2, "in the context of packets, and cannot be dropped");
    refuse("no_such_field", "ctf2", 2, "no_such_field");
    refuse("_goods_length", "jsonl", 1, "says the length or the kind of another one");
    refuse("payload", "chrome", 1, "is not a field, but all of them");
    // With the field that needs it, it can go.
    let options = "convert -q --to ctf2 -o out --drop-field _goods_length,goods";
    folder.run_with(options, &[&demo("orders")]).ends(0, &[]);
    assert!(lines(&folder, "out").iter().all(|line| line["payload"]["goods"].is_null()));
}
