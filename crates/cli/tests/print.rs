//! `print`: the forms of the lines, and which events are in them.

mod util;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use util::{Folder, command, csv_rows, json_lines, run, run_with, stdout, ticks_metadata, ticks_packet};

#[test]
fn text_shows_time_delta_name_and_fields() {
    let text = stdout("print orders --clock-gmt --limit 2", &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        lines[1],
        "[08:31:10.190846581] (+0.000694315) vm:orders:(11572) orders:priced: { cpu_id = 0 }, \
         { vpid = 11572, vtid = 11572, procname = \"orders\" }, { id = 1, cents = -4999, discount = 0.22 }"
    );
    assert!(lines[0].starts_with("[08:31:10.190152266] (+?.?????????) "), "{}", lines[0]);
}

#[test]
fn text_times_follow_the_options() {
    let start = |options: &str| stdout(&format!("print orders --limit 1 {options}"), &[])[..32].to_string();
    assert!(start("--clock-gmt --clock-date").starts_with("[2026-11-21 08:31:10.190152266] "));
    assert!(start("--clock-seconds").starts_with("[1795249870.190152266] "));
    assert!(start("--clock-cycles").starts_with("[00000002440802666901] "), "{}", start("--clock-cycles"));
    assert!(start("--clock-gmt --no-delta").starts_with("[08:31:10.190152266] vm:orders"));
}

#[test]
fn text_names_and_fields_can_be_chosen() {
    let line = |options: &str| stdout(&format!("print orders --clock-gmt --limit 1 {options}"), &[]);
    assert!(line("--names none").contains("orders:taken: { 0 }, { 11572, 11572, \"orders\" }"));
    let all = line("--names all --fields all");
    for word in ["timestamp = ", "delta = ", "trace:hostname = vm", "loglevel = ", "event.fields = {", "procname = \""]
    {
        assert!(all.contains(word), "{word} is not in {all}");
    }
    assert!(line("--fields loglevel").contains("TRACE_"));
    assert!(!line("--fields loglevel").contains("vm:"));
}

#[test]
fn a_trace_without_a_name_is_named_by_nothing() {
    let folder = Folder::new();
    util::plain_trace(&folder, "t", "event { name = e; id = 0; };", &[0, 10, 5, 4]);
    let lines = folder.run("print --fields trace --names header t").ends(0, &[]).stdout;
    assert!(lines.contains(", trace = , , name = e, "), "{lines}");
    let lines = folder.run("print --fields trace --names none t").ends(0, &[]).stdout;
    assert!(lines.contains(" e: {"), "{lines}");
}

/// Text of contexts that are those of the event before is kept, whatever class it has; every event shows its own all the same.
#[test]
fn contexts_that_change_or_stay_are_shown_as_they_are() {
    const CLASSES: &str = "typealias integer { size = 8; align = 8; encoding = UTF8; } := char;
        typealias integer { size = 8; align = 8; } := u8;
        stream { id = 0; event.header := struct { u8 id; }; packet.context := struct { u8 cpu_id; };
            event.context := struct { u8 vtid; char procname[5]; }; };
        event { name = a; id = 0; fields := struct { u8 x; integer { size = 8; base = 16; } words[2]; }; };
        event { name = b; id = 1; context := struct { u8 own; }; fields := struct { string s; }; };
        event { name = none; id = 2; };";
    let folder = Folder::new();
    let metadata = format!("/* CTF 1.8 */\ntrace {{ major = 1; minor = 8; byte_order = le; }};\n{CLASSES}");
    folder.file("t/metadata", metadata);
    let (mut bytes, mut want) = (vec![3u8], String::new());
    for n in 0..200u8 {
        // Three in a row are equal, then each differs from the one before, and at last none does.
        let (tid, name) = match n {
            0..60 => (n / 3, ["one", "three"][usize::from(n / 3 % 2)]),
            60..140 => (n, "five5"),
            _ => (7, ""),
        };
        let class = n % 5 % 3;
        bytes.extend([class, tid]);
        bytes.extend((0..5).map(|at| name.as_bytes().get(at).copied().unwrap_or(0)));
        let context = format!("{{ cpu_id = 3 }}, {{ vtid = {tid}, procname = \"{name}\" }}");
        want += &match class {
            0 => {
                bytes.extend([n, n, 9]);
                format!("a: {context}, {{ x = {n}, words = [ [0] = 0x{n:X}, [1] = 0x9 ] }}\n")
            }
            1 => {
                bytes.extend([n, b's', b'?', 0]);
                format!("b: {context}, {{ own = {n} }}, {{ s = \"s\\?\" }}\n")
            }
            _ => format!("none: {context}\n"),
        };
    }
    folder.file("t/stream", bytes);
    assert_eq!(folder.run("print t").ends(0, &[]).stdout, want);
    assert_eq!(folder.run("print -j3 t").ends(0, &[]).stdout, want);
    // With names of scopes the text is longer than what is kept in one piece.
    let long = folder.run("print --names all t").ends(0, &[]).stdout;
    let (plain, context) = ("stream.event.context = ", "stream.packet.context = ");
    assert_eq!(long.lines().filter(|line| line.contains(plain) && line.contains(context)).count(), 200);
    let tids = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.split("vtid = ").nth(1).expect("its context").split(',').next().unwrap().into())
            .collect()
    };
    assert_eq!(tids(&long), tids(&want));
}

#[test]
fn json_lines_have_the_keys_in_their_order() {
    let text = stdout("print orders --format jsonl", &[]);
    let lines = json_lines(&text);
    assert_eq!(lines.len(), 500);
    let keys: Vec<&str> = lines[0].as_object().expect("an object").keys().map(String::as_str).collect();
    let want = ["ns", "cycles", "name", "id", "stream", "cpu", "header", "packet_context", "stream_context", "payload"];
    assert_eq!(keys, want);
    let ns: Vec<i64> = lines.iter().filter_map(|line| line["ns"].as_i64()).collect();
    assert!(ns.len() == 500 && ns.is_sorted());
}

#[test]
fn several_traces_are_one_timeline_and_say_which_trace() {
    let lines = json_lines(&stdout("print mill orders --format jsonl", &[]));
    assert_eq!(lines.len(), 2500);
    assert!(lines.iter().filter_map(|line| line["ns"].as_i64()).is_sorted());
    let of = |name: &str| lines.iter().filter(|line| line["trace"] == name).count();
    assert_eq!((of("mill"), of("orders")), (2000, 500));
}

#[test]
fn csv_has_the_default_columns() {
    let rows = csv_rows(&stdout("print orders --format csv --limit 3", &[]));
    let lines = json_lines(&stdout("print orders --format jsonl --limit 3", &[]));
    assert_eq!(
        rows[0].join(","),
        "trace,ns,cycles,name,id,stream,cpu,header,packet_context,stream_context,event_context,payload"
    );
    assert_eq!(rows.len(), 4);
    for (row, line) in rows[1..].iter().zip(&lines) {
        assert_eq!(row.len(), 12);
        assert_eq!((row[0].as_str(), row[1].parse().ok()), ("", line["ns"].as_i64()));
        assert_eq!(row[11], line["payload"].to_string());
    }
}

/// Does a cell show a value of a JSON line? Numbers may be written in more than one way.
fn shows(cell: &str, value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => cell.is_empty(),
        Some(Value::String(text)) => cell == text,
        Some(value) => serde_json::from_str::<Value>(cell).is_ok_and(|shown| shown == *value),
    }
}

#[test]
fn columns_show_what_json_lines_hold() {
    let paths = [
        ("name", "/name"),
        ("ns", "/ns"),
        ("cycles", "/cycles"),
        ("id", "/id"),
        ("stream", "/stream"),
        ("cpu", "/cpu"),
        ("payload", "/payload"),
        ("payload.gear", "/payload/gear"),
        ("gear", "/payload/gear"),
        ("header.id", "/header/id"),
        ("payload.steps[1]", "/payload/steps/1"),
        ("payload.steps", "/payload/steps"),
        ("payload.heat[5]", "/payload/heat/5"),
        ("payload.moisture", "/payload/moisture"),
        ("payload.remark", "/payload/remark"),
        ("payload.origin", "/payload/origin"),
        ("`total`", "/payload/total"),
        ("$ctx.procname", "/stream_context/procname"),
        ("vtid", "/stream_context/vtid"),
        ("stream_context", "/stream_context"),
        ("packet_context.packet_size", "/packet_context/packet_size"),
        ("header.v.extended.id", "/header/v/extended/id"),
    ];
    let list: Vec<&str> = paths.iter().map(|(path, _)| *path).collect();
    let rows = csv_rows(&stdout("print mill --format csv --columns", &[&list.join(",")]));
    let lines = json_lines(&stdout("print mill --format jsonl", &[]));
    assert_eq!(rows[0], list);
    assert_eq!(rows.len(), lines.len() + 1);
    for (row, line) in rows[1..].iter().zip(&lines) {
        for (shown, (path, pointer)) in row.iter().zip(paths) {
            assert!(shows(shown, line.pointer(pointer)), "{shown} is not {path} of {line}");
        }
    }
}

#[test]
fn columns_have_names_as_typed_and_commas_in_backquotes() {
    let rows = csv_rows(&stdout("print orders --format csv --limit 1 --columns", &["time, $ctx . vpid,trace,time"]));
    assert_eq!(rows[0], ["time", "$ctx . vpid", "trace", "time"]);
    assert_eq!(rows[1], ["1795249870.190152266", "11572", "orders", "1795249870.190152266"]);
    let run = run_with("print orders --format csv --columns", &["name,`a,b`"]);
    run.ends(2, &["--columns: line 1, column 6: no event class of the input has ``a,b``"]);
}

/// All kinds of values that the demo traces do not have.
const KINDS: &str = r#"{"type": "preamble", "version": 2}
{"type": "data-stream-class"}
{"type": "event-record-class", "name": "e", "payload-field-class": {"type": "structure", "member-classes": [
  {"name": "b", "field-class": {"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian"}},
  {"name": "o", "field-class": {"type": "optional", "selector-field-location": {"path": ["b"]},
    "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}}},
  {"name": "n", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}},
  {"name": "v", "field-class": {"type": "variant", "selector-field-location": {"path": ["n"]}, "options": [
    {"name": "x", "selector-field-ranges": [[1, 1]], "field-class": {"type": "fixed-length-unsigned-integer",
      "length": 8, "byte-order": "little-endian"}},
    {"name": "y", "selector-field-ranges": [[2, 2]], "field-class": {"type": "null-terminated-string"}}]}},
  {"name": "odd,name", "field-class": {"type": "null-terminated-string"}},
  {"name": "f", "field-class": {"type": "fixed-length-floating-point-number", "length": 32,
    "byte-order": "little-endian"}},
  {"name": "a", "field-class": {"type": "static-length-array", "length": 2, "element-field-class": {
    "type": "static-length-array", "length": 2, "element-field-class": {
      "type": "structure", "member-classes": [
        {"name": "s", "field-class": {"type": "null-terminated-string"}}]}}}}]}}
"#;

/// Metadata of CTF 2 of fragments that begin at the left of a line.
fn metadata_2(fragments: &str) -> String {
    fragments
        .split("\n{\"type\": ")
        .enumerate()
        .fold(String::new(), |text, (at, part)| text + "\u{1e}" + if at > 0 { "{\"type\": " } else { "" } + part + "\n")
}

#[test]
fn columns_of_all_kinds_of_values() {
    let mut stream = b"\x01\x07\x01\x09a\"b,c\nd\0\0\0\xc0\x7f".to_vec();
    stream.extend(b"p\0q\0r\0s\0");
    stream.extend(b"\x00\x02yes\0\0\0\0\0\x3f");
    stream.extend(b"\0t\0u\0\xff\0");
    let folder = Folder::new();
    folder.file("t/metadata", metadata_2(KINDS)).file("t/s", stream);
    let run = folder.run_with(
        "print t --format csv --columns",
        &["b,o,v,v.x,payload.v.y,`odd,name`,f,a[1][0].s,payload.a[0],a[1][1]"],
    );
    let run = run.ends(0, &[]);
    let rows = csv_rows(&run.stdout);
    assert_eq!(
        rows[1],
        ["true", "7", "{\"x\":9}", "9", "", "a\"b,c\nd", "NaN", "r", "[{\"s\":\"p\"},{\"s\":\"q\"}]", "{\"s\":\"s\"}"]
    );
    assert_eq!(
        rows[2],
        [
            "false",
            "",
            "{\"y\":\"yes\"}",
            "",
            "yes",
            "",
            "0.5",
            "u",
            "[{\"s\":\"\"},{\"s\":\"t\"}]",
            "{\"s\":\"\u{fffd}\"}"
        ]
    );
    let run = folder.run("print t --format csv --columns ns");
    run.ends(2, &["--columns: line 1, column 1", "no stream of the input has a clock"]);
}

/// The cells that a JSON line should have in `--columns all`: a second implementation, out of the values alone.
fn flatten(path: &str, value: &Value, cells: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(members) if members.contains_key("value") && members.contains_key("labels") => {
            cells.insert(path.to_string(), members["value"].clone());
            let labels = match members["labels"].as_array().unwrap().as_slice() {
                [] => return,
                [label] => label.clone(),
                _ => members["labels"].clone(),
            };
            cells.insert(format!("{path}_label"), labels);
        }
        Value::Object(members) if members.contains_key("value") && members.contains_key("flags") => {
            cells.insert(path.to_string(), members["value"].clone());
            cells.insert(format!("{path}_flags"), members["flags"].clone());
        }
        Value::Object(members) if members.is_empty() && !path.contains('.') => {}
        Value::Object(members) if !members.is_empty() && !members.contains_key("base64") => {
            members.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, cells));
        }
        value => drop(cells.insert(path.to_string(), value.clone())),
    }
}

/// Compares the rows of `--columns all` with the JSON lines; gives the header.
fn all_columns_of(csv: &str, jsonl: &str) -> Vec<String> {
    let (rows, lines) = (csv_rows(csv), json_lines(jsonl));
    assert_eq!(rows.len(), lines.len() + 1);
    let mut used = BTreeSet::new();
    for (row, line) in rows[1..].iter().zip(&lines) {
        assert_eq!(row.len(), rows[0].len());
        let mut expected = BTreeMap::new();
        for (key, value) in line.as_object().unwrap() {
            flatten(key, value, &mut expected);
        }
        let is_alone = !expected.contains_key("trace");
        for (name, cell) in rows[0].iter().zip(row).filter(|(name, _)| !(is_alone && *name == "trace")) {
            let value = expected.remove(&name.replace('`', ""));
            assert!(shows(cell, value.as_ref()), "{cell} is not {name} of {line}");
            used.extend(value.map(|_| name.clone()));
        }
        assert!(expected.is_empty(), "{expected:?} have no column");
    }
    assert!(used.len() > 5);
    rows[0].clone()
}

#[test]
fn all_columns_show_every_field_of_json_lines() {
    for trace in ["mill", "orders", "mill orders"] {
        let csv = stdout(&format!("print {trace} --format csv --columns all"), &[]);
        let header = all_columns_of(&csv, &stdout(&format!("print {trace} --format jsonl"), &[]));
        assert_eq!(header[..7].join(","), "trace,ns,cycles,name,id,stream,cpu");
        assert_eq!(header.iter().collect::<BTreeSet<_>>().len(), header.len());
        // The names are those of paths, but for the names of numbers.
        let paths = header.iter().filter(|name| !name.ends_with("_label") && !name.ends_with("_flags"));
        let list = paths.cloned().collect::<Vec<_>>().join(",");
        assert_eq!(csv_rows(&stdout(&format!("print {trace} --format csv --columns"), &[&list]))[0].join(","), list);
    }
}

#[test]
fn all_columns_are_those_of_the_selection() {
    let all = csv_rows(&stdout("print mill --format csv --columns all", &[]))[0].clone();
    let filter = "name == \"mill:label\"";
    let some = stdout("print mill --format csv --columns all --filter", &[filter]);
    let header = all_columns_of(&some, &stdout("print mill --format jsonl --filter", &[filter]));
    assert!(header.len() < all.len() && header.iter().all(|name| all.contains(name)));
    assert!(all.contains(&"payload.gear".to_string()) && !header.contains(&"payload.gear".to_string()));
}

/// Enumerations, flags and names that are taken.
const NAMED: &str = r#"{"type": "preamble", "version": 2}
{"type": "data-stream-class"}
{"type": "event-record-class", "name": "e", "payload-field-class": {"type": "structure", "member-classes": [
  {"name": "n", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian",
    "mappings": {"one": [[1, 1]], "low": [[1, 3]]}}},
  {"name": "n_label", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8,
    "byte-order": "little-endian"}},
  {"name": "odd n", "field-class": {"type": "fixed-length-signed-integer", "length": 8, "byte-order": "little-endian",
    "mappings": {"a,b": [[-1, -1]]}}},
  {"name": "m", "field-class": {"type": "fixed-length-bit-map", "length": 8, "byte-order": "little-endian",
    "flags": {"x": [[0, 0]], "y": [[1, 1]]}}},
  {"name": "v", "field-class": {"type": "variant", "selector-field-location": {"path": ["n_label"]}, "options": [
    {"name": "none", "selector-field-ranges": [[1, 1]], "field-class": {"type": "structure"}},
    {"name": "some", "selector-field-ranges": [[2, 2]], "field-class": {"type": "structure", "member-classes": [
      {"name": "s", "field-class": {"type": "null-terminated-string"}}]}}]}}]}}
"#;

#[test]
fn all_columns_of_numbers_with_names() {
    let folder = Folder::new();
    let stream = b"\x01\x01\xff\x03\x02\x02\x00\x00s\0\x09\x01\x00\x02";
    folder.file("t/metadata", metadata_2(NAMED)).file("t/s", stream);
    let rows = csv_rows(&folder.run("print t --format csv --columns all").ends(0, &[]).stdout);
    let header = [
        "payload.n",
        "payload.n_label_",
        "payload.n_label",
        "payload.`odd n`",
        "payload.`odd n_label`",
        "payload.m",
        "payload.m_flags",
        "payload.v.none",
        "payload.v.some.s",
    ];
    assert_eq!(rows[0][7..], header);
    assert_eq!(rows[1][7..], ["1", "[\"one\",\"low\"]", "1", "-1", "a,b", "3", "[\"x\",\"y\"]", "{}", ""]);
    assert_eq!(rows[2][7..], ["2", "low", "2", "0", "", "0", "[]", "", "s"]);
    assert_eq!(rows[3][7..], ["9", "", "1", "0", "", "2", "[\"y\"]", "{}", ""]);
}

#[test]
fn flat_lines_have_what_all_columns_have() {
    let folder = Folder::new();
    let stream = b"\x01\x01\xff\x03\x02\x02\x00\x00s\0\x09\x01\x00\x02";
    folder.file("t/metadata", metadata_2(NAMED)).file("t/s", stream);
    let demo = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    for trace in ["traces/mill", "kernel/bakery", "logs/dock.elog", "logs/belt.cpel", "calls/tasting", "samples"] {
        std::os::unix::fs::symlink(demo.join(trace), folder.path(&trace.replace('/', "-"))).expect("a link");
        let trace = &trace.replace('/', "-");
        let rows = csv_rows(&folder.run(&format!("print {trace} -q --format csv --columns all")).stdout);
        let lines = util::json_lines(&folder.run(&format!("print {trace} -q --format jsonl --flat")).stdout);
        assert!(lines.len() > 10 && rows.len() == lines.len() + 1, "{trace}: {}", lines.len());
        for (row, line) in rows[1..].iter().zip(&lines) {
            for (name, cell) in rows[0].iter().zip(row).filter(|(name, _)| *name != "trace") {
                let value = line.get(name).filter(|value| !value.is_null());
                assert!(shows(cell, value) || name == "cycles", "{trace}: {name}: {cell} {value:?}");
            }
            let keys = line.as_object().expect("an object").keys();
            assert!(keys.filter(|key| !rows[0].contains(key)).count() == 0, "{line}");
        }
    }
    let lines = folder.run("print t --format jsonl --flat").stdout;
    let first = "{\"ns\":null,\"name\":\"e\",\"id\":0,\"stream\":0,\"payload.n\":1,\"payload.n_label_\":[\"one\",\"low\"],\
                 \"payload.n_label\":1,\"payload.`odd n`\":-1,\"payload.`odd n_label`\":\"a,b\",\"payload.m\":3,\
                 \"payload.m_flags\":[\"x\",\"y\"],\"payload.v.none\":{}}";
    assert_eq!(lines.lines().next(), Some(first));
    folder.file("flat.jsonl", lines);
    folder.run("print flat.jsonl").ends(3, &["the key `payload.n` is not known", "without --flat"]);
    folder.run("print t --flat").ends(2, &["--format jsonl"]);
    folder.run("print t --follow --format jsonl --flat").ends(2, &["--flat needs traces that are complete"]);
}

#[test]
fn all_columns_are_not_for_traces_that_grow() {
    run("print orders --follow --format csv --columns all").ends(2, &["--columns all needs traces that are complete"]);
    run("print orders --columns all").ends(2, &["--columns is for --format csv"]);
}

#[test]
fn all_columns_have_a_limit() {
    let member = |at: usize| {
        format!(
            r#"{{"name": "f{at}", "field-class": {{"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian"}}}}"#
        )
    };
    let members: Vec<String> = (0..20_000).map(member).collect();
    let class = format!(
        r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {{"type": "structure", "member-classes": [{}]}}}}"#,
        members.join(",")
    );
    let text = format!("{}\n{class}\n", NAMED.lines().take(2).collect::<Vec<_>>().join("\n"));
    let folder = Folder::new();
    folder.file("t/metadata", metadata_2(&text)).file("t/s", vec![0; 20_000]);
    folder.run("print t --format csv --columns all").ends(2, &["at most 16384 columns", "--columns PATH"]);
}

#[test]
fn bad_columns_point_into_the_option() {
    for (list, place) in [
        ("payload.ix,id", "line 1, column 9: no event class of the input has `payload.ix`"),
        ("name,,id", "line 1, column 6: expected a path"),
        ("name,", "line 1, column 6: expected a path, found the end of the list"),
        ("", "line 1, column 1: expected a path, found the end of the list"),
        ("name id", "line 1, column 6: expected `,` or the end of the list, found `id`"),
        ("name.x", "line 1, column 6: `name` has no members"),
        ("event_context", "no event class declares `event_context`"),
    ] {
        run_with("print orders --format csv --columns", &[list]).ends(2, &["error: --columns: ", place]);
    }
    run("print orders --columns name").ends(2, &["--columns is for --format csv"]);
}

#[test]
fn every_number_of_threads_gives_the_same_bytes() {
    let options = ["--format text", "--format jsonl", "--format csv", "--format csv --columns name,payload,$ctx.vtid"];
    for format in options {
        for choice in ["", "--skip 1234 --limit 777", "--limit 1", "--skip 1 --memory 4K"] {
            let print = |jobs| stdout(&format!("print mill orders --jobs {jobs} {format} {choice}"), &[]);
            let one = print(1);
            assert!(one == print(4) && one == print(2), "{format} {choice}");
        }
    }
}

#[test]
fn skip_and_limit_cut_the_lines_after_filters() {
    let all = stdout("print mill --clock-gmt", &[]);
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    for (skip, limit) in [(0, 0), (0, 1), (5, 10), (1999, 5), (63, 2), (64, 200)] {
        let cut = stdout(&format!("print mill --clock-gmt --skip {skip} --limit {limit}"), &[]);
        let end = (skip + limit).min(lines.len());
        assert_eq!(cut, lines[skip.min(end)..end].concat(), "--skip {skip} --limit {limit}");
    }
    let past_the_end = run("print mill --clock-gmt --skip 2000 --limit 5");
    assert_eq!(past_the_end.ends(0, &["no event is selected: --skip 2000 leaves all of them out"]).stdout, "");
    let filtered = stdout("print mill --format jsonl --skip 1 --limit 2 --filter", &["name == \"mill:bell\""]);
    let bells = stdout("print mill --format jsonl --filter", &["name == \"mill:bell\""]);
    assert_eq!(bells.lines().count(), 8);
    assert_eq!(filtered.lines().collect::<Vec<_>>(), bells.lines().skip(1).take(2).collect::<Vec<_>>());
}

#[test]
fn filters_choose_events() {
    let count = |filter: &str| stdout("print orders --format jsonl --filter", &[filter]).lines().count();
    assert_eq!(count("name == \"orders:complaint\""), 20);
    assert_eq!(count("name == \"orders:*\" and not id == 3"), 480);
    assert_eq!(count("payload.id in (1, 2) && $ctx.procname =~ \"^ord\""), 6);
    let nothing = run_with("print orders --format jsonl --filter", &["payload.id == 1 and payload.id == 2"]);
    assert_eq!(nothing.ends(0, &["no event is selected: none matches --filter"]).stdout, "");
    let run = run_with("print orders --filter", &["name == 1"]);
    run.ends(2, &["error: --filter: line 1, column 1", "strings stand in quotes", "^^^^"]);
    run_with("print orders --filter", &["payload.idd == 1"]).ends(2, &["did you mean `id`?"]);
}

#[test]
fn filtering_while_reading_is_filtering_afterwards() {
    const ALL: &str = "print mill orders losses overwritten --format jsonl -q";
    let all = stdout(ALL, &[]);
    let lines: Vec<(&str, Value)> = all.lines().zip(json_lines(&all)).collect();
    // Decided by the class, by the packet, by time, by fields of every scope, and by mixtures.
    type Keep = fn(&Value) -> bool;
    let middle = lines[lines.len() / 2].1["ns"].as_i64().expect("a time");
    let by_time = |first: i64, last: i64| {
        lines.iter().filter(|(_, line)| line["ns"].as_i64().is_some_and(|ns| first <= ns && ns <= last)).count()
    };
    let cases: [(&str, Keep); 9] = [
        (r#"name == "mill:*""#, |line| line["name"].as_str().is_some_and(|name| name.starts_with("mill:"))),
        (r#"not name == "burst:bean""#, |line| line["name"] != "burst:bean"),
        ("cpu == 1", |line| line["cpu"] == 1),
        ("packet_context.packet_seq_num >= 2", |line| line["packet_context"]["packet_seq_num"].as_u64() >= Some(2)),
        ("$ctx.vpid == 11571", |line| line["stream_context"]["vpid"] == 11571),
        ("header.id == \"extended\"", |line| line["header"]["id"]["labels"][0] == "extended"),
        ("payload.id in (1, 2, 3) or name == \"mill:stage\" and cpu == 0", |line| {
            matches!(line["payload"]["id"].as_i64(), Some(1..=3)) || line["name"] == "mill:stage" && line["cpu"] == 0
        }),
        ("id == 0 and not stream == 0", |line| line["id"] == 0 && line["stream"] != 0),
        ("trace == \"losses\" and packet_context.events_discarded > 0", |line| {
            line["trace"].as_str().is_some_and(|name| name.ends_with("losses"))
                && line["packet_context"]["events_discarded"].as_u64() > Some(0)
        }),
    ];
    for (filter, keep) in cases {
        let want: Vec<&str> = lines.iter().filter(|(_, line)| keep(line)).map(|(text, _)| *text).collect();
        assert!(!want.is_empty() && want.len() < lines.len(), "{filter} chooses nothing or all");
        for jobs in ["-j1", "-j3"] {
            let found = stdout(&format!("{ALL} {jobs} --filter"), &[filter]);
            assert_eq!(found.lines().collect::<Vec<_>>(), want, "{filter}");
        }
    }
    for (filter, want) in [
        (format!("ns >= {middle}"), by_time(middle, i64::MAX)),
        (format!("ns < {middle}"), by_time(i64::MIN, middle - 1)),
        (format!("ns >= {middle} and ns <= {}", middle + 1_000_000), by_time(middle, middle + 1_000_000)),
    ] {
        assert_eq!(stdout(&format!("{ALL} --filter"), &[&filter]).lines().count(), want, "{filter}");
    }
}

#[test]
fn streams_are_chosen_by_name_glob_and_id() {
    let count = |options: &str| stdout(&format!("print mill --format jsonl {options}"), &[]).lines().count();
    let (paper, work) = (count("--stream paper_*"), count("--stream work_0 --stream work_1"));
    assert_eq!((paper, paper + work), (193 + 189, 2000));
    assert_eq!(count("--stream 0") + count("--stream 1"), 2000);
    run("print mill --stream nope").ends(2, &["no stream has the name or id `nope`", "`paper_0`, `paper_1`"]);
}

#[test]
fn output_goes_to_the_file_of_o() {
    let folder = Folder::new();
    let path = folder.path("out.jsonl");
    let file = path.to_str().expect("the temporary folder has a plain name");
    assert_eq!(stdout("print orders --format jsonl -o", &[file]), "");
    let written = std::fs::read_to_string(&path).expect("it was written");
    assert_eq!(written, stdout("print orders --format jsonl", &[]));
    run_with("print orders --filter bad( -o", &[file]).ends(2, &[]);
    assert_eq!(std::fs::read_to_string(&path).ok(), Some(written), "wrong usage does not empty the file");
}

#[test]
fn colour_is_asked_for_or_absent() {
    assert!(!stdout("print orders --limit 5", &[]).contains('\u{1b}'));
    assert!(!stdout("print orders --limit 5 --color never", &[]).contains('\u{1b}'));
    let colored = stdout("print orders --limit 5 --clock-gmt --color always", &[]);
    assert!(colored.contains("\u{1b}[36mcpu_id\u{1b}[0m = \u{1b}[1m0\u{1b}[0m"), "{colored}");
    let mut plain = String::new();
    for (at, part) in colored.split('\u{1b}').enumerate() {
        plain += if at == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) };
    }
    assert_eq!(plain, stdout("print orders --limit 5 --clock-gmt", &[]));
    // NO_COLOR does not concern colours that were requested.
    let run = command().args(["print", "orders", "--limit", "1", "--color", "always"]).env("NO_COLOR", "1").output();
    assert!(run.expect("the program starts").stdout.contains(&0x1b));
}

#[test]
fn losses_are_said_on_stderr_unless_quiet() {
    let folder = Folder::new();
    folder.file("t/metadata", ticks_metadata("offset_s = 1;"));
    folder.file("t/s", [ticks_packet(&[(10, 1)], 0), ticks_packet(&[(20, 2)], 5)].concat());
    let run = folder.run("print t --format jsonl").ends(0, &["warning: 5 events discarded by the tracer between ["]);
    assert_eq!(run.stdout.lines().count(), 2);
    assert_eq!(folder.run("print t --format jsonl --quiet").ends(0, &[]).stderr, "");
}

#[test]
fn losses_are_told_where_they_reach_into_the_wanted_time() {
    let folder = Folder::new();
    let packets = |second| [ticks_packet(&[(10, 1), (20, 2)], 0), ticks_packet(&[(40, 3), (60, 4)], second)].concat();
    // Two packets were lost from 20 to 40.
    folder.file("p/metadata", ticks_metadata("").replace("events_discarded", "packet_seq_num"));
    folder.file("p/s", packets(3));
    // Five events were discarded from 20 to 60.
    folder.file("e/metadata", ticks_metadata(""));
    folder.file("e/s", packets(5));
    for (range, packets, events) in [
        ("", true, true),
        ("--end 19ns", false, false),
        ("--end 20ns", true, true),
        ("--begin 25ns --end 30ns", true, true),
        ("--begin 40ns", true, true),
        ("--begin 41ns --end 50ns", false, true),
        ("--begin 61ns", false, false),
    ] {
        for (trace, words, is_told) in [("p", "2 packets lost", packets), ("e", "5 events discarded", events)] {
            let run = folder.run(&format!("print {trace} {range}")).ends(0, &[]);
            assert_eq!(run.stderr.matches(words).count(), usize::from(is_told), "{trace} {range}: {}", run.stderr);
        }
    }
}

#[test]
fn a_trace_of_several_folders_is_named_without_them() {
    let folder = Folder::new();
    let metadata =
        ticks_metadata("").replace("major = 1", "uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; major = 1");
    let metadata = metadata + "env { hostname = \"box\"; };";
    folder.file("t/a/metadata", &metadata).file("t/a/s", ticks_packet(&[(10, 1)], 0));
    let name = |folder: &Folder| {
        let run = folder.run("print t --names all --fields trace").ends(0, &[]);
        run.stdout.lines().map(|line| line.split(", ").nth(2).map(String::from)).collect::<Vec<_>>()
    };
    assert_eq!(name(&folder), [Some("trace = box/a".to_string())]);
    folder.file("t/b/metadata", &metadata).file("t/b/s", ticks_packet(&[(20, 2)], 0));
    assert_eq!(name(&folder), vec![Some("trace = box".to_string()); 2], "as babeltrace2 names it");
}

#[test]
fn options_of_babeltrace2_mean_what_they_mean_there() {
    let folder = Folder::new();
    util::plain_trace(&folder, "t", "event { name = e; id = 0; };", &[0, 10, 5, 4, 0, 20, 5, 4, 0, 30, 5, 4]);
    let all = folder.run("print t").ends(0, &[]).stdout;
    let want = folder.run("print --begin 20ns --end 30ns t").ends(0, &[]).stdout;
    assert_eq!((all.lines().count(), want.lines().count()), (3, 2));
    for range in ["--timerange=20ns,30ns", "-t [20ns,30ns]", "--timerange [20ns,30ns] -i ctf1.8 -d -l W"] {
        assert_eq!(
            folder.run(&format!("print --clock-force-correlate {range} t")).ends(0, &[]).stdout,
            want,
            "{range}"
        );
    }
    folder.run("print -w out t").ends(0, &[]);
    assert_eq!(std::fs::read_to_string(folder.path("out")).expect("it was written"), all);
    folder.run("print --timerange 20ns t").ends(2, &["BEGIN,END"]);
    folder.run("print --timerange 1,2 --begin 3 t").ends(2, &["--begin"]);
    assert_eq!(folder.run("print --retry-duration 5 t").ends(0, &[]).stdout, all);
}
