//! `convert --anonymise` and `--drop-field` to every format: what is hidden is in no file, and everything else is there.

mod util;

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use util::{Folder, json_lines};

/// Targets that need no calls, each with what of a trace can be read back.
const TARGETS: &[&str] = &[
    "ctf2",
    "ctf1.8",
    "ctf1.6",
    "ctf1.1",
    "lttng-legacy",
    "uftrace",
    "ftrace",
    "cpel",
    "gist",
    "elog",
    "perfetto",
    "chrome",
    "jsonl",
    "csv",
    "text",
];
const READ_BACK: &[&str] =
    &["ctf2", "ctf1.8", "ctf1.6", "ctf1.1", "lttng-legacy", "uftrace", "cpel", "gist", "elog", "jsonl"];

fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(trace).display().to_string()
}

fn lines(folder: &Folder, trace: &str) -> Vec<Value> {
    let mut lines = json_lines(&folder.run_with("print --format jsonl -q", &[trace]).ends(0, &[]).stdout);
    // A trace of LTTng 0.7 tells of its own definitions by events, too.
    lines.retain(|line| !line["name"].as_str().is_some_and(|name| name.starts_with("core.")));
    lines
}

/// The bytes of a file, or of all files of a folder.
fn bytes_of(path: &Path) -> Vec<u8> {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().flat_map(|entry| bytes_of(&entry.path())).collect(),
        Err(_) => std::fs::read(path).unwrap_or_default(),
    }
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn nothing_of_a_hidden_field_is_in_any_output() {
    let folder = Folder::new();
    let before = lines(&folder, &demo("traces/orders"));
    let customers: Vec<&str> = before.iter().filter_map(|line| line["payload"]["customer"].as_str()).collect();
    let customers: Vec<&str> = customers.into_iter().filter(|name| name.len() > 6).collect();
    assert!(customers.len() > 3);
    for to in TARGETS {
        for option in ["anonymise", "drop-field"] {
            let options = format!("convert -q --force --to {to} -o out-{to} --{option} customer");
            folder.run_with(&options, &[&demo("traces/orders")]).ends(0, &[]);
            let bytes = bytes_of(&folder.path(&format!("out-{to}")));
            assert!(!bytes.is_empty());
            let shown = customers.iter().find(|customer| has(&bytes, customer));
            assert_eq!(shown, None, "{to} {option}");
            // Where names of fields stand in the output, that of one that is left out does not.
            assert!(option == "anonymise" || !has(&bytes, "customer"), "{to}");
            if READ_BACK.contains(to) {
                assert_eq!(lines(&folder, &format!("out-{to}")).len(), before.len(), "{to} {option}");
            }
        }
    }
}

#[test]
fn lines_keep_everything_else() {
    let folder = Folder::new();
    for (trace, scope, field) in [
        ("traces/orders", "payload", "customer"),
        ("traces/orders", "stream_context", "vtid"),
        ("traces/mill", "payload", "gear"),
        ("logs/belt.cpel", "payload", "datum_text"),
        ("logs/belt.cpel", "payload", "track"),
        ("logs/dock.elog", "payload", "arg0"),
    ] {
        let before = lines(&folder, &demo(trace));
        assert!(before.iter().any(|line| line[scope].get(field).is_some()), "{trace} {field}");
        for option in ["anonymise", "drop-field"] {
            let options = format!("convert -q --force --to jsonl -o out --{option} {scope}.{field}");
            folder.run_with(&options, &[&demo(trace)]).ends(0, &[]);
            let after = json_lines(&std::fs::read_to_string(folder.path("out")).expect("it was written"));
            assert_eq!(after.len(), before.len());
            let mut names: HashMap<String, String> = HashMap::new();
            for (before, after) in before.iter().zip(&after) {
                let mut want = before.clone();
                let of = want[scope].as_object_mut().expect("the scope is an object");
                let old = of.remove(field);
                let mut after = after.clone();
                let new = after[scope].as_object_mut().and_then(|scope| scope.remove(field));
                assert_eq!(new.is_some(), old.is_some() && option == "anonymise", "{trace} {field}");
                if let (Some(old), Some(new)) = (old, new) {
                    let known = names.entry(old.to_string()).or_insert_with(|| new.to_string());
                    assert_eq!(*known, new.to_string(), "{trace} {field}");
                }
                assert_eq!(after, want, "{trace} {field} {option}");
            }
        }
    }
}

#[test]
fn filters_see_what_is_hidden() {
    let folder = Folder::new();
    let filter = "payload.customer == \"C*\"";
    let print = ["--filter", filter, &demo("traces/orders")];
    let wanted = json_lines(&folder.run_with("print --format jsonl -q", &print).ends(0, &[]).stdout).len();
    assert!(wanted > 0 && wanted < lines(&folder, &demo("traces/orders")).len());
    for to in ["jsonl", "lttng-legacy", "ctf2"] {
        for option in ["anonymise", "drop-field"] {
            let options = format!("convert -q --force --to {to} -o out-{to} --{option} customer");
            folder.run_with(&options, &print).ends(0, &[]);
            assert_eq!(lines(&folder, &format!("out-{to}")).len(), wanted, "{to} {option}");
        }
    }
}

#[test]
fn tables_of_a_log_do_not_come_along() {
    let folder = Folder::new();
    let texts = lines(&folder, &demo("logs/belt.cpel"));
    let texts: Vec<&str> = texts.iter().filter_map(|line| line["payload"]["datum_text"].as_str()).collect();
    let log = bytes_of(Path::new(&demo("logs/belt.cpel")));
    let text = *texts.iter().find(|text| text.len() > 4 && has(&log, text)).expect("a text of the table is shown");
    // The format itself, and CTF 2, which keeps the tables of a trace otherwise.
    for to in ["cpel", "ctf2"] {
        let options = format!("convert -q --force --to {to} -o out-{to} --anonymise datum_text");
        folder.run_with(&options, &[&demo("logs/belt.cpel")]).ends(0, &[]);
        assert!(!has(&bytes_of(&folder.path(&format!("out-{to}"))), text), "{to}");
    }
}
