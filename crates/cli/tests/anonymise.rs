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
    let (texts, all) = ("customer", "customer,$ctx.procname");
    for (to, hidden) in [("ctf2", all), ("ctf1.8", all), ("ctf2", texts), ("ctf1.8", texts)] {
        let options = format!("convert -q --force --to {to} -o out --anonymise {hidden} --anonymise vpid");
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
                if field == "procname" && hidden == texts {
                    assert_eq!(old, new);
                } else if !old.is_null() {
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
        // No part of a name is left in the files.
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
    run("--to ctf2 --anonymise name").ends(2, &["`name` is not a field"]);
    run("--to ctf2 --anonymise _goods_length").ends(1, &["length or the kind of another"]);
    run("--to ctf2 --anonymise header.id").ends(2, &["header"]);
    run("--to jsonl --anonymise _goods_length").ends(1, &["length or the kind of another"]);
    run("--to chrome --anonymise header.id").ends(2, &["header"]);
    assert!(!folder.path("out").exists());
}

#[test]
fn all_fields_of_a_scope_are_hidden_when_it_is_named() {
    let folder = Folder::new();
    let before = lines(&folder, &demo("orders"));
    for to in ["ctf2", "jsonl", "elog"] {
        let options = format!("convert -q --force --to {to} -o {to} --anonymise stream_context");
        folder.run_with(&options, &[&demo("orders")]).ends(0, &[]);
    }
    for to in ["ctf2", "jsonl"] {
        let after = lines(&folder, to);
        assert_eq!(after.len(), before.len());
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before["payload"], after["payload"]);
            let (Some(old), Some(new)) = (before["stream_context"].as_object(), after["stream_context"].as_object())
            else {
                panic!("contexts are there")
            };
            assert_eq!(old.len(), new.len());
            assert!(old.iter().all(|(name, value)| new[name] != *value), "{to}: {new:?}");
        }
    }
    // Nor are tasks called by what is in a structure that is hidden.
    let tracks: Vec<Value> = lines(&folder, "elog").iter().map(|line| line["payload"]["track_name"].clone()).collect();
    for context in before.iter().map(|line| &line["stream_context"]) {
        let Some(name) = context["procname"].as_str() else { continue };
        assert!(tracks.iter().all(|track| !track.as_str().is_some_and(|track| track.contains(name))), "{tracks:?}");
    }
}

#[test]
fn parts_by_process_have_no_names_of_hidden_values() {
    let folder = Folder::new();
    let ids: Vec<String> =
        lines(&folder, &demo("orders")).iter().map(|line| line["stream_context"]["vpid"].to_string()).collect();
    for to in ["ctf2", "ctf1.8", "cpel"] {
        for option in ["--anonymise", "--drop-field"] {
            let options = format!("convert -q --to {to} --split process -o {to}{option} {option} vpid");
            folder.run_with(&options, &[&demo("orders")]).ends(0, &[]);
            let parts = format!("{to}{option}");
            for entry in std::fs::read_dir(folder.path(&parts)).expect("it is a folder").flatten() {
                let name = entry.file_name().into_string().expect("it is text");
                assert!(!ids.iter().any(|id| name.split('.').any(|part| part == id)), "{to} {option}: {name}");
            }
            if to.starts_with("ctf") {
                folder.run(&format!("check -q {parts}")).ends(0, &[]);
                let after = lines(&folder, &parts);
                assert_eq!(after.len(), ids.len());
                let key = after[0]["stream_context"]["vpid"].to_string();
                assert_eq!(folder.path(&parts).join(key).exists(), option == "--anonymise");
            }
        }
    }
}
