//! `tracemill convert --anonymise`: values are gone, equal ones stay equal, everything else stays as it is.

mod util;

use std::collections::HashMap;
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
fn values_are_replaced_and_equal_ones_stay_equal() {
    let folder = Folder::new();
    let before = lines(&folder, &demo("orders"));
    for to in ["ctf2", "ctf1.8"] {
        let options =
            format!("convert -q --force --to {to} -o out --anonymise customer,$ctx.procname --anonymise vpid");
        folder.run_with(&options, &[&demo("orders")]).ends(0, &[]);
        let after = lines(&folder, "out");
        assert_eq!(after.len(), before.len());
        let mut names: HashMap<(&str, String), String> = HashMap::new();
        for (before, after) in before.iter().zip(&after) {
            assert_eq!((&before["ns"], &before["name"]), (&after["ns"], &after["name"]));
            for (scope, field) in [("stream_context", "vpid"), ("stream_context", "procname"), ("payload", "customer")]
            {
                let (old, new) = (&before[scope][field], &after[scope][field]);
                assert_eq!(old.is_null(), new.is_null());
                if !old.is_null() {
                    assert_ne!(old, new, "{field}");
                    let known = names.entry((field, old.to_string())).or_insert_with(|| new.to_string());
                    assert_eq!(*known, new.to_string(), "{field}");
                }
            }
            let rest = |line: &Value| {
                let mut payload = line["payload"].clone();
                payload.as_object_mut().map(|payload| payload.remove("customer"));
                (payload, line["stream_context"]["vtid"].clone())
            };
            assert_eq!(rest(before), rest(after));
        }
        let different: std::collections::HashSet<_> = names.values().collect();
        assert!(different.len() > 3 && different.len() == names.len(), "{names:?}");
        // Nothing of a name is left in the files.
        for entry in std::fs::read_dir(folder.path("out")).expect("it is a folder").flatten() {
            let Ok(bytes) = std::fs::read(entry.path()) else { continue };
            let name = entry.file_name();
            for customer in
                before.iter().filter_map(|line| line["payload"]["customer"].as_str()).filter(|n| n.len() > 4)
            {
                let is_there = bytes.windows(customer.len()).any(|window| window == customer.as_bytes());
                assert!(!is_there, "{customer} is in {name:?}");
            }
        }
        folder.run("check -q out").ends(0, &[]);
    }
}

#[test]
fn what_cannot_be_anonymised_is_refused() {
    let folder = Folder::new();
    let run = |options: &str| folder.run_with(&format!("convert -o out {options}"), &[&demo("orders")]);
    run("--to ctf2 --anonymise nonsense").ends(2, &["--anonymise", "nonsense"]);
    run("--to ctf2 --anonymise name").ends(2, &["`name` is no field"]);
    run("--to ctf2 --anonymise _goods_length").ends(1, &["length or the kind of another"]);
    run("--to ctf2 --anonymise header.id").ends(2, &["header"]);
    run("--to jsonl --anonymise _goods_length").ends(1, &["length or the kind of another"]);
    run("--to chrome --anonymise header.id").ends(2, &["header"]);
    assert!(!folder.path("out").exists());
}
