//! The CTF 2 that `convert` writes, held against what other readers of CTF 2 are known to get wrong: the list is in
//! `crates/formats/ctf/README.md`. Looks at the metadata themselves, as no such reader may be there.

mod util;

use std::fs;

use serde_json::Value;
use util::{Folder, demo};

/// Each object of JSON in a value, the value itself included.
fn objects<'a>(value: &'a Value, all: &mut Vec<&'a Value>) {
    match value {
        Value::Object(properties) => {
            all.push(value);
            properties.values().for_each(|value| objects(value, all));
        }
        Value::Array(values) => values.iter().for_each(|value| objects(value, all)),
        _ => {}
    }
}

/// The fragments of the metadata of a trace of CTF 2.
fn metadata(folder: &Folder, trace: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.path(trace).join("metadata")).expect("it was written");
    let fragments = text.split('\u{1e}').filter(|fragment| !fragment.trim().is_empty());
    fragments.map(|fragment| serde_json::from_str(fragment).expect("it is JSON")).collect()
}

fn type_of(value: &Value) -> &str {
    value["type"].as_str().unwrap_or("")
}

/// Does any class in a value have this role?
fn has_role(value: &Value, role: &str) -> bool {
    let mut all = Vec::new();
    objects(value, &mut all);
    all.iter().any(|object| object["roles"].as_array().is_some_and(|roles| roles.iter().any(|one| one == role)))
}

/// The classes of the members of all structures with the name.
fn members<'a>(all: &[&'a Value], name: &str) -> Vec<&'a Value> {
    let classes = all.iter().filter_map(|object| object["member-classes"].as_array()).flatten();
    classes.filter(|member| member["name"] == name).map(|member| &member["field-class"]).collect()
}

/// Asserts that nothing of what other readers get wrong is there; gives the number of optional fields.
fn check(folder: &Folder, trace: &str) -> usize {
    let fragments = metadata(folder, trace);
    let mut optional = 0;
    for fragment in &fragments {
        let mut all = Vec::new();
        objects(fragment, &mut all);
        for object in &all {
            if type_of(object) == "optional" {
                optional += 1;
                let path = object["selector-field-location"]["path"].as_array().expect("a path");
                let name = path.last().and_then(Value::as_str).expect("a name");
                let selectors = members(&all, name);
                assert!(!selectors.is_empty(), "{trace}: {object}");
                for selector in selectors {
                    assert_ne!(type_of(selector), "fixed-length-boolean", "{trace}: {object}");
                }
                let ranges = object["selector-field-ranges"].as_array().expect("ranges of an integer");
                assert!(!ranges.is_empty(), "{trace}: {object}");
            }
            let is_variable = type_of(object).starts_with("variable-length");
            assert!(!is_variable || object.get("roles").is_none(), "{trace}: {object}");
            let is_blob = type_of(object) == "static-length-blob";
            assert!(!is_blob || object["length"] != 0, "{trace}: {object}");
        }
        if has_role(fragment, "discarded-event-record-counter-snapshot")
            && has_role(fragment, "packet-beginning-default-clock-timestamp")
        {
            assert!(has_role(fragment, "packet-end-default-clock-timestamp"), "{trace}: {fragment}");
        }
    }
    optional
}

#[test]
fn nothing_is_written_that_other_readers_get_wrong() {
    let folder = Folder::new();
    let mill = demo("mill");
    for form in ["ctf1.6", "uftrace", "lttng-legacy"] {
        folder.run_with(&format!("convert -q --to {form}"), &["-o", form, &mill]);
    }
    let mut inputs: Vec<String> = ["mill", "orders", "losses", "overwritten"].iter().map(|name| demo(name)).collect();
    inputs.extend(["../logs/belt.cpel", "../logs/dock.elog"].iter().map(|name| demo(name)));
    inputs.extend(["ctf1.6", "uftrace", "lttng-legacy"].map(String::from));
    let mut optional = 0;
    for (at, input) in inputs.iter().enumerate() {
        let to = format!("two{at}");
        folder.run_with("convert -q --to ctf2", &["-o", &to, input]);
        optional += check(&folder, &to);
    }
    assert!(optional > 0, "texts that may be absent are optional fields");
}

#[test]
fn a_boolean_that_selects_is_written_as_an_integer_and_read_as_a_boolean() {
    let folder = Folder::new();
    let class = |kind: &str| format!(r#"{{"type":"{kind}","length":8,"byte-order":"little-endian","alignment":8}}"#);
    let (flag, byte) = (class("fixed-length-boolean"), class("fixed-length-unsigned-integer"));
    let fragments = [
        r#"{"type":"preamble","version":2}"#.to_string(),
        r#"{"type":"trace-class"}"#.to_string(),
        r#"{"type":"data-stream-class"}"#.to_string(),
        format!(
            r#"{{"type":"event-record-class","name":"may","payload-field-class":{{"type":"structure","member-classes":[
                {{"name":"plain","field-class":{flag}}},{{"name":"has","field-class":{flag}}},
                {{"name":"n","field-class":{{"type":"optional","field-class":{byte},
                    "selector-field-location":{{"origin":"event-record-payload","path":["has"]}}}}}}]}}}}"#
        ),
    ];
    let text: String = fragments.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect();
    folder.file("one/metadata", text).file("one/stream", [1, 1, 7, 0, 0, 1, 200, 9]);
    folder.run("convert --to ctf2 --byte-order big -o two one").ends(0, &[]);
    assert_eq!(check(&folder, "two"), 1);
    let lines = |trace: &str| folder.run(&format!("print {trace}")).ends(0, &[]).stdout;
    assert!(lines("one").contains("has = true, n = { 7 }"), "{}", lines("one"));
    assert_eq!(lines("two"), lines("one"));
    let events = |trace: &str| folder.run(&format!("print --format jsonl {trace}")).ends(0, &[]).stdout;
    assert!(events("two").contains(r#""has":true"#), "{}", events("two"));
    // Plain booleans stay what they are.
    let fragments = metadata(&folder, "two");
    let mut all = Vec::new();
    fragments.iter().for_each(|fragment| objects(fragment, &mut all));
    assert_eq!(type_of(members(&all, "plain")[0]), "fixed-length-boolean");
    assert_eq!(type_of(members(&all, "has")[0]), "fixed-length-unsigned-integer");
}

/// Metadata with a comma at the end, an unknown property, a name twice, and a boolean whose ranges are those of an
/// integer, for an optional field and for a variant.
fn odd_trace(folder: &Folder, name: &str) {
    let class = |kind: &str| format!(r#"{{"type":"{kind}","length":8,"byte-order":"little-endian","alignment":8}}"#);
    let (flag, byte) = (class("fixed-length-boolean"), class("fixed-length-unsigned-integer"));
    let of_flag = r#""selector-field-location":{"path":["has"]}"#;
    let optional = |ranges: &str| {
        format!(r#"{{"type":"optional","field-class":{byte},"selector-field-ranges":{ranges},{of_flag}}}"#)
    };
    let option = |name: &str, ranges: &str| {
        format!(r#"{{"name":"{name}","selector-field-ranges":{ranges},"field-class":{byte}}}"#)
    };
    let text = format!(
        "\u{1e}{{\"type\":\"preamble\",\"version\":2}}
\u{1e}{{\"type\":\"trace-class\",\"colour\":\"red\"}}
\u{1e}{{\"type\":\"data-stream-class\",}}
\u{1e}{{\"type\":\"event-record-class\",\"name\":\"e\",\"payload-field-class\":{{\"type\":\"structure\",\"member-classes\":[
  {{\"name\":\"n\",\"field-class\":{byte}}},
  {{\"name\":\"n\",\"field-class\":{byte}}},
  {{\"name\":\"has\",\"field-class\":{flag}}},
  {{\"name\":\"if\",\"field-class\":{}}},
  {{\"name\":\"unless\",\"field-class\":{}}},
  {{\"name\":\"which\",\"field-class\":{{\"type\":\"variant\",{of_flag},\"options\":[{},{}]}}}}]}}}}
",
        optional("[[1,255]]"),
        optional("[[0,0]]"),
        option("off", "[[0,0]]"),
        option("on", "[[1,1]]"),
    );
    // A boolean is true with any bit.
    folder.file(&format!("{name}/metadata"), text).file(&format!("{name}/stream"), [1, 2, 0, 8, 9, 3, 4, 64, 5, 6]);
}

#[test]
fn metadata_of_others_are_read_with_warnings_and_refused_by_the_strict() {
    let folder = Folder::new();
    odd_trace(&folder, "odd");
    let run = folder.run("print --format jsonl odd").ends(
        0,
        &[
            "line 2, column 24: unknown property `colour` of a trace class",
            "line 3, column 29: fragment 3 is not valid JSON: a comma before `}`",
            "line 6, column 11: two members of a structure are named `n`",
            "selector is a boolean",
        ],
    );
    for payload in [
        r#"{"n":1,"n_2":2,"has":false,"if":null,"unless":8,"which":{"off":9}}"#,
        r#"{"n":3,"n_2":4,"has":true,"if":5,"unless":null,"which":{"on":6}}"#,
    ] {
        assert!(run.stdout.contains(payload), "{}", run.stdout);
    }
    let strict = folder.run("print --strict odd").ends(1, &["line 2, column 24: unknown property `colour`"]);
    assert_eq!(strict.stdout, "");
    let checked = folder.run("check odd").ends(0, &[]).stdout;
    assert!(checked.contains("unknown property `colour`"), "{checked}");
}

#[test]
fn what_is_written_of_odd_metadata_is_not_odd() {
    let folder = Folder::new();
    odd_trace(&folder, "odd");
    let payloads = |trace: &str, options: &str| -> Vec<Value> {
        let run = folder.run(&format!("print --format jsonl {options} {trace}")).ends(0, &[]);
        run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line")["payload"].clone()).collect()
    };
    let want = payloads("odd", "-q");
    assert_eq!(want.len(), 2);
    for options in ["--byte-order big", "--limit 9", ""] {
        let to = format!("to{}", options.len());
        folder.run(&format!("convert -q --to ctf2 {options} -o {to} odd")).ends(0, &[]);
        if !options.is_empty() {
            assert_eq!(check(&folder, &to), 2);
            assert_eq!(payloads(&to, "--strict"), want, "{options}");
        }
        assert_eq!(payloads(&to, "-q"), want, "{options}");
    }
    folder.run("convert -q --to ctf1.8 -o old odd");
    assert_eq!(payloads("old", "--strict").len(), 2);
}
