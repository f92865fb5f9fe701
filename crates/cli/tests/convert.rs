//! `tracemill convert`: what comes out reads as what went in, and nothing half-written looks whole.

mod util;

use std::fs;
use std::path::Path;

use serde_json::Value;
use util::{Folder, Run, json_lines, run, stdout, ticks_metadata, ticks_packet};

const TRACES: [&str; 4] = ["losses", "mill", "orders", "overwritten"];

fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace).display().to_string()
}

fn convert(folder: &Folder, trace: &str, output: &str, arguments: &str) -> Run {
    let trace = demo(trace);
    folder.run_with(&format!("convert {arguments}"), &["-o", output, &trace])
}

/// Times, names and payloads.
fn events(folder: &Folder, trace: &str) -> Vec<(Value, Value, Value)> {
    let run = folder.run_with("print --format jsonl -q", &[trace]).ends(0, &[]);
    let part = |line: &Value, key: &str| line.get(key).cloned().unwrap_or(Value::Null);
    json_lines(&run.stdout).iter().map(|line| (part(line, "ns"), part(line, "name"), part(line, "payload"))).collect()
}

#[test]
fn events_are_the_same_in_every_form() {
    let folder = Folder::new();
    for trace in TRACES {
        let want = events(&folder, &demo(trace));
        assert!(!want.is_empty(), "{trace}");
        for (at, form) in [
            "--to ctf2",
            "--to ctf2 --byte-order big",
            "--to ctf2 --packet-size 500",
            "--to ctf1.8 --byte-order little",
            "--to ctf1.8 --byte-order big --packet-size 4K",
            "--to ctf1.8",
        ]
        .iter()
        .enumerate()
        {
            let output = format!("{trace}{at}");
            convert(&folder, trace, &output, form).ends(0, &[]);
            assert_eq!(events(&folder, &output), want, "{trace} {form}");
            folder.run_with("check -q", &[&output]).ends(0, &[]);
        }
    }
}

#[test]
fn losses_of_the_producer_are_kept() {
    let folder = Folder::new();
    for trace in ["losses", "overwritten"] {
        let losses = |trace: &str| {
            let run = folder.run_with("info --json -q", &[trace]).ends(0, &[]);
            let info: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
            let streams = info["traces"][0]["streams"].as_array().expect("it has streams").clone();
            let sum = |key: &str| streams.iter().filter_map(|stream| stream[key].as_u64()).sum::<u64>();
            (sum("discarded_events"), sum("lost_packets"))
        };
        let want = losses(&demo(trace));
        convert(&folder, trace, trace, "--to ctf2").ends(0, &[]);
        assert_eq!(losses(trace), want, "{trace}");
    }
}

#[test]
fn ctf_1_8_becomes_ctf_2_and_itself_again() {
    let folder = Folder::new();
    for trace in TRACES {
        convert(&folder, trace, &format!("{trace}.2"), "--to ctf2").ends(0, &[]);
        let all = |trace: &str| {
            let run = folder.run_with("print --format jsonl -q", &[trace]).ends(0, &[]);
            json_lines(&run.stdout)
        };
        let (two, back) = (format!("{trace}.2"), format!("{trace}.1"));
        folder.run_with("convert --to ctf1.8", &["-o", &back, &two]).ends(0, &[]);
        for entry in fs::read_dir(demo(trace)).expect("the demo is there").flatten() {
            let name = entry.file_name();
            if entry.path().is_file() {
                let of = |folder: &Path| fs::read(folder.join(&name)).expect("it can be read");
                assert!(of(&folder.path(&back)) == of(Path::new(&demo(trace))), "{trace} {name:?}");
                let is_same = of(&folder.path(&two)) == of(Path::new(&demo(trace)));
                assert_eq!(is_same, name != "metadata", "{trace} {name:?}: packets keep their bytes");
            }
        }
        assert_eq!(all(&back), all(&demo(trace)), "{trace}");
    }
}

#[test]
fn a_cut_keeps_packets_and_events_as_they_are() {
    let folder = Folder::new();
    for trace in TRACES {
        let lines = |trace: &str, arguments: &str| {
            let run = folder.run_with(&format!("print --format jsonl -q {arguments}"), &[trace]).ends(0, &[]);
            let mut lines = json_lines(&run.stdout);
            for line in &mut lines {
                let line = line.as_object_mut().expect("a line is an object");
                // Sizes and times of a packet are those of what is left of it.
                line.remove("packet_context");
                line.remove("trace");
            }
            lines
        };
        let all = lines(&demo(trace), "");
        let ns = |at: usize| all[at]["ns"].as_i64().expect("a time");
        let range = format!("--begin {}ns --end {}ns", ns(all.len() / 5), ns(all.len() * 4 / 5));
        for to in ["ctf1.8", "ctf2"] {
            let output = format!("{trace}.{to}");
            convert(&folder, trace, &output, &format!("--to {to} {range}")).ends(0, &[]);
            assert_eq!(lines(&output, ""), lines(&demo(trace), &range), "{trace} {to} {range}");
            folder.run_with("check -q --strict", &[&output]);
            let again = format!("{output}.again");
            folder.run_with(&format!("convert --to {to} {range}"), &["-o", &again, &output]).ends(0, &[]);
            for entry in fs::read_dir(folder.path(&output)).expect("it was written").flatten() {
                let other = fs::read(folder.path(&again).join(entry.file_name())).expect("it can be read");
                assert!(fs::read(entry.path()).expect("it can be read") == other, "{output}: twice is once");
            }
        }
    }
}

#[test]
fn uftrace_takes_events_of_tasks_and_comes_back_from_ctf_2() {
    let folder = Folder::new();
    for (trace, order) in [("orders", "little"), ("losses", "big")] {
        convert(&folder, trace, trace, &format!("--to uftrace --byte-order {order}")).ends(0, &[]);
        // Every event is one of its task, by name and time; what was discarded is reported where it was.
        let want: Vec<_> = events(&folder, &demo(trace)).into_iter().map(|(ns, name, _)| (ns, name)).collect();
        let of_task = |(ns, _, payload): (Value, Value, Value)| (ns, payload["event"].clone());
        let found = events(&folder, trace).into_iter().filter(|(ns, ..)| !ns.is_null()).map(of_task);
        assert_eq!(found.collect::<Vec<_>>(), want, "{trace}");
        let (two, back) = (format!("{trace}.2"), format!("{trace}.back"));
        folder.run_with("convert --to ctf2", &["-o", &two, trace]).ends(0, &[]);
        folder.run_with("convert --to uftrace", &["-o", &back, &two]).ends(0, &[]);
        for entry in fs::read_dir(folder.path(trace)).expect("it was written").flatten() {
            let other = fs::read(folder.path(&back).join(entry.file_name())).expect("it is there");
            assert!(fs::read(entry.path()).expect("it can be read") == other, "{trace} {:?}", entry.file_name());
        }
    }
}

#[test]
fn a_trace_as_itself_is_copied() {
    let folder = Folder::new();
    convert(&folder, "orders", "first", "--to ctf1.8").ends(0, &[]);
    for entry in fs::read_dir(demo("orders")).expect("the demo is there").flatten() {
        if entry.path().is_file() {
            let copy = fs::read(folder.path("first").join(entry.file_name())).expect("it was copied");
            assert_eq!(copy, fs::read(entry.path()).expect("it can be read"));
        }
    }
}

#[test]
fn copies_warn_of_times_that_go_back() {
    let folder = Folder::new();
    let packets = [ticks_packet(&[(10, 1), (50, 2), (30, 3)], 0), ticks_packet(&[(20, 4)], 0)].concat();
    folder.file("t/metadata", ticks_metadata("")).file("t/s", &packets);
    let warning = "packet 0: time goes back in stream `s`, from 50 to 30 cycles";
    // As itself, and packet by packet.
    for (output, arguments) in [("copy", ""), ("cut", " --stream s")] {
        let run = folder.run(&format!("convert --to ctf1.8 -o {output} t{arguments}")).ends(0, &[warning]);
        assert_eq!(run.stderr.matches("from 50 to 30").count(), 1, "{}", run.stderr);
        assert_eq!(fs::read(folder.path(output).join("s")).expect("it was copied"), packets);
    }
}

#[test]
fn packets_without_events_stay() {
    let folder = Folder::new();
    let mut empty = ticks_packet(&[], 4);
    empty[16..24].copy_from_slice(&25u64.to_le_bytes());
    empty[24..32].copy_from_slice(&30u64.to_le_bytes());
    let mut last = ticks_packet(&[], 9);
    last[16..24].copy_from_slice(&50u64.to_le_bytes());
    last[24..32].copy_from_slice(&60u64.to_le_bytes());
    let packets = [ticks_packet(&[(10, 1), (20, 2)], 0), empty, ticks_packet(&[(40, 3)], 4), last].concat();
    folder.file("t/metadata", ticks_metadata("")).file("t/s", &packets);
    let packets_of = |trace: &str| {
        let info = folder.run_with("info --json --packets --count -q", &[trace]).ends(0, &[]).stdout;
        let info: Value = serde_json::from_str(&info).expect("it is JSON");
        let keys = ["timestamp_begin", "timestamp_end", "events", "discarded_before"];
        let list = info["traces"][0]["packets"].as_array().expect("a list").clone();
        list.iter().map(|packet| keys.map(|key| packet[key].clone())).collect::<Vec<_>>()
    };
    let want = packets_of("t");
    assert_eq!((want.len(), &want[1][2], &want[3][0]), (4, &0.into(), &50.into()));
    for (at, form) in
        ["--to ctf1.8", "--to ctf2", "--to ctf2 --byte-order big", "--to ctf1.8 --index"].iter().enumerate()
    {
        folder.run(&format!("convert {form} -o out{at} t")).ends(0, &[]);
        assert_eq!(packets_of(&format!("out{at}")), want, "{form}");
    }
    folder.run("convert --to ctf2 --packet-size 4K -o one t").ends(0, &[]);
    assert_eq!(packets_of("one").iter().map(|packet| packet[2].as_u64().unwrap_or(0)).sum::<u64>(), 3);
}

#[test]
fn writing_twice_changes_nothing_more() {
    let folder = Folder::new();
    convert(&folder, "mill", "one", "--to ctf2").ends(0, &[]);
    folder.run("convert --to ctf2 --byte-order little -o two one").ends(0, &[]);
    folder.run("convert --to ctf2 --byte-order little -o three two").ends(0, &[]);
    let print = |name: &str| folder.run(&format!("print --format jsonl {name}")).ends(0, &[]).stdout;
    assert_eq!(print("two"), print("three"));
    for entry in fs::read_dir(folder.path("two")).expect("it is there").flatten() {
        let name = entry.file_name();
        let [two, three] = ["two", "three"].map(|of| fs::read(folder.path(of).join(&name)).expect("both have it"));
        assert!(name == "metadata" || two == three, "{name:?}");
    }
}

#[test]
fn parts_are_what_print_shows_of_them() {
    let folder = Folder::new();
    let all = events(&folder, &demo("orders"));
    convert(&folder, "orders", "limited", "--to ctf2 --skip 3 --limit 5").ends(0, &[]);
    assert_eq!(events(&folder, "limited"), all[3..8]);
    let (begin, end) = (all[2].0.to_string(), all[all.len() - 2].0.to_string());
    convert(&folder, "orders", "cut", &format!("--to ctf2 --begin {begin}ns --end {end}ns")).ends(0, &[]);
    let want: Vec<_> = all.iter().filter(|event| event.0.as_i64() >= all[2].0.as_i64()).collect();
    let want: Vec<_> = want.into_iter().filter(|event| event.0.as_i64() <= all[all.len() - 2].0.as_i64()).collect();
    assert_eq!(events(&folder, "cut").iter().collect::<Vec<_>>(), want);
    let name = all[0].1.as_str().expect("it has a name").to_string();
    let (trace, filter) = (demo("orders"), format!("name == \"{name}\""));
    folder.run_with("convert --to ctf2 -o named", &["--filter", &filter, &trace]).ends(0, &[]);
    let want: Vec<_> = all.iter().filter(|event| event.1 == all[0].1).cloned().collect();
    assert_eq!(events(&folder, "named"), want);
}

#[test]
fn several_traces_become_a_folder_each() {
    let folder = Folder::new();
    let (one, two) = (demo("orders"), demo("mill"));
    folder.run_with("convert --to ctf2 -o both", &[&one, &two]).ends(0, &[]);
    let both = folder.run_with("print --format jsonl -q", &[&one, &two]).ends(0, &[]);
    assert_eq!(events(&folder, "both").len(), json_lines(&both.stdout).len());
}

#[test]
fn several_traces_become_one_on_request() {
    let folder = Folder::new();
    let traces = TRACES.map(demo);
    let inputs: Vec<&str> = traces.iter().map(String::as_str).collect();
    let of = |run: Run| {
        let part = |line: &Value, key: &str| line.get(key).cloned().unwrap_or(Value::Null);
        let keys = ["ns", "name", "payload", "stream_context", "event_context"];
        let lines = json_lines(&run.ends(0, &[]).stdout);
        let mut lines: Vec<String> =
            lines.iter().map(|line| format!("{:?}", keys.map(|key| part(line, key)))).collect();
        // Events of equal time stand in the order of their stream classes, which are others.
        lines.sort();
        lines
    };
    let want = of(folder.run_with("print --format jsonl -q", &inputs));
    for (at, form) in ["ctf2", "ctf1.8", "ctf2 --byte-order big --packet-size 4K --index"].iter().enumerate() {
        let output = format!("one{at}");
        let merged = [&["-o", output.as_str()], &*inputs].concat();
        folder.run_with(&format!("convert --merge --to {form}"), &merged).ends(0, &[]);
        assert_eq!(of(folder.run_with("print --format jsonl -q", &[&output])), want, "{form}");
        folder.run_with("check -q", &[&output]).ends(0, &[]);
        let info = folder.run_with("info --json -q", &[&output]).ends(0, &[]).stdout;
        let info: Value = serde_json::from_str(&info).expect("it is JSON");
        assert_eq!(info["traces"].as_array().map(Vec::len), Some(1));
        let names = info["traces"][0]["streams"].as_array().expect("it has streams").iter();
        assert!(
            names.clone().any(|stream| stream["name"].as_str().is_some_and(|name| name.contains("mill"))),
            "{form}"
        );
        // Again, as any other trace.
        folder.run_with(&format!("convert --force --to ctf2 -o again {output}"), &[]).ends(0, &[]);
        assert_eq!(of(folder.run("print --format jsonl -q again")), want, "{form}");
    }
    let to_uftrace = [&["-o", "calls"], &*inputs].concat();
    folder.run_with("convert --merge --to uftrace", &to_uftrace).ends(2, &["--merge cannot write uftrace"]);
}

#[test]
fn what_traces_say_of_themselves_stands_side_by_side_in_one() {
    let folder = Folder::new();
    let bytes = ticks_packet(&[(10, 1), (20, 2)], 0);
    for (name, host) in [("a", "north"), ("b", "south"), ("c", "west")] {
        let metadata = ticks_metadata("") + &format!(r#"env {{ hostname = "{host}"; domain = "ust"; }};"#);
        folder.file(&format!("{name}/metadata"), metadata).file(&format!("{name}/s"), &bytes);
    }
    folder.run("convert --merge --to ctf2 -o one --clock-offset c=7 a b c").ends(0, &[]);
    let info: Value = serde_json::from_str(&folder.run("info --json -q one").ends(0, &[]).stdout).expect("it is JSON");
    let trace = &info["traces"][0];
    let environment = &trace["environment"];
    assert_eq!(environment["domain"], "ust");
    assert_eq!((&environment["a_hostname"], &environment["c_hostname"]), (&"north".into(), &"west".into()));
    assert_eq!(environment.get("hostname"), None);
    assert_eq!(trace["clocks"].as_array().map(Vec::len), Some(2), "a and b have the same clock");
    let ids: Vec<_> = trace["streams"].as_array().expect("a list").iter().map(|stream| &stream["class"]).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
}

#[test]
fn clock_offsets_become_part_of_the_clock() {
    let folder = Folder::new();
    let moved = |event: &(Value, Value, Value)| event.0.as_i64().map(|ns| ns - 1_500_000_000);
    convert(&folder, "orders", "moved", "--to ctf2 --clock-offset -1.5").ends(0, &[]);
    let want: Vec<_> = events(&folder, &demo("orders")).iter().map(moved).collect();
    let found: Vec<_> = events(&folder, "moved").iter().map(|event| event.0.as_i64()).collect();
    assert_eq!(found, want);
}

#[test]
fn an_output_that_exists_is_replaced_only_by_force() {
    let folder = Folder::new();
    convert(&folder, "orders", "out", "--to ctf2").ends(0, &[]);
    convert(&folder, "mill", "out", "--to ctf2").ends(1, &["exists already", "--force"]);
    assert_eq!(events(&folder, "out"), events(&folder, &demo("orders")));
    convert(&folder, "mill", "out", "--to ctf2 --force").ends(0, &[]);
    assert_eq!(events(&folder, "out"), events(&folder, &demo("mill")));
    folder.run("convert --to ctf1.8 --force -o out out").ends(2, &["would replace an input"]);
    folder.file("mine/letter.txt", "dear").copy_of("orders", "mine/orders");
    convert(&folder, "mill", "mine", "--to ctf2 --force").ends(1, &["holds no trace"]);
    assert_eq!(fs::read(folder.path("mine/letter.txt")).expect("it is still there"), b"dear");
}

#[test]
fn nothing_stays_behind_a_failure() {
    let folder = Folder::new();
    convert(&folder, "orders", "missing/deep/out", "--to ctf2").ends(0, &[]);
    folder.file("file", "");
    convert(&folder, "orders", "file/out", "--to ctf2").ends(1, &["file"]);
    let names = |path: &str| {
        let entries = fs::read_dir(folder.path(path)).expect("it is a folder").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("missing/deep"), ["out"]);
    assert_eq!(names("."), ["file", "missing"]);
}

#[test]
fn an_output_never_lies_in_an_input() {
    let folder = Folder::new();
    folder.copy_of("orders", "in/orders");
    for output in ["in", "in/out", "in/orders/out", "in/../in/new/deep", "./in/orders/x.json"] {
        let to = if output.ends_with("json") { "chrome" } else { "ctf2" };
        let of = format!("convert --force --to {to} -o {output} in");
        folder.run(&of).ends(2, &["input", "give a"]);
    }
    folder.run("convert --to ctf2 -o in/orders/out in/orders").ends(2, &["inside an input"]);
    folder.run("convert --to jsonl -o in/orders/lines in/orders").ends(2, &["inside an input"]);
    folder.run("convert --to ctf2 -o in/beside in/orders").ends(0, &[]);
    for report in ["in/orders/metadata", "in/new", "other", "other/report"] {
        folder
            .run(&format!("convert --to ctf2 -o other --loss-report {report} in"))
            .ends(2, &["the loss report would"]);
    }
    assert!(!folder.path("other").exists());
    assert!(!folder.path("in/out").exists() && !folder.path("in/orders/out").exists());
}

#[test]
fn standard_output_and_pipes_take_files() {
    let folder = Folder::new();
    for to in ["jsonl", "csv", "text", "chrome", "perfetto", "cpel", "elog"] {
        convert(&folder, "orders", to, &format!("-q --to {to}")).ends(0, &[]);
        let want = fs::read(folder.path(to)).expect("it was written");
        for output in ["-", "/dev/stdout"] {
            let mut command = util::command();
            command.args(["convert", "-q", "--to", to, "-o", output]).arg(demo("orders"));
            let found = command.current_dir(folder.path(".")).output().expect("it runs");
            assert!(found.status.success(), "{to} {output}");
            // An event log says when its file was made.
            assert_eq!(found.stdout.len(), want.len(), "{to} {output}");
            assert!(found.stdout == want || to == "elog" || to == "cpel", "{to} {output}");
        }
    }
    convert(&folder, "orders", "-", "--to ctf2").ends(1, &["the output is a folder"]);
    assert!(!folder.path("-").exists());
}

#[cfg(unix)]
#[test]
fn devices_are_written_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let folder = Folder::new();
    // A link, so that a mistake replaces that and not the device.
    std::os::unix::fs::symlink("/dev/null", folder.path("null")).expect("it is made");
    std::os::unix::fs::symlink("/dev/full", folder.path("full")).expect("it is made");
    for to in ["jsonl", "chrome"] {
        convert(&folder, "orders", "null", &format!("--force --to {to}")).ends(0, &[]);
        let of = fs::metadata(folder.path("null")).expect("it is there");
        assert!(of.file_type().is_char_device(), "{to}");
        convert(&folder, "orders", "full", &format!("--to {to}")).ends(1, &["make room"]);
    }
}

#[cfg(unix)]
#[test]
fn a_limit_of_file_sizes_ends_in_an_error() {
    let folder = Folder::new();
    for to in ["ctf2", "jsonl", "perfetto", "csv"] {
        let program = util::command().get_program().to_os_string();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -f 1; \"$0\" convert -q --to \"$1\" -o out \"$2\""]);
        shell.arg(program).args([to, &demo("mill")]).current_dir(folder.path("."));
        let run = Run::from_output(shell.output().expect("it runs"));
        run.ends(1, &["File too large", "ulimit -f"]);
        assert_eq!(fs::read_dir(folder.path(".")).expect("it is a folder").count(), 0, "{to}");
    }
}

/// A trace of CTF 2 with an optional field, which CTF 1.8 has not.
fn optional(folder: &Folder) {
    let byte = r#"{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian","alignment":8}"#;
    let flag = r#"{"type":"fixed-length-boolean","length":8,"byte-order":"little-endian","alignment":8}"#;
    let member = |name: &str, class: &str| format!(r#"{{"name":"{name}","field-class":{class}}}"#);
    let optional = format!(
        r#"{{"type":"optional","selector-field-location":{{"origin":"event-record-payload","path":["has"]}},"field-class":{byte}}}"#
    );
    let fragments = [
        r#"{"type":"preamble","version":2}"#.to_string(),
        r#"{"type":"trace-class"}"#.to_string(),
        r#"{"type":"data-stream-class"}"#.to_string(),
        format!(
            r#"{{"type":"event-record-class","name":"may","payload-field-class":{{"type":"structure","member-classes":[{},{}]}}}}"#,
            member("has", flag),
            member("n", &optional)
        ),
    ];
    let metadata: String = fragments.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect();
    folder.file("optional/metadata", metadata).file("optional/stream", [1, 7, 0, 1, 9]);
}

#[test]
fn names_that_ctf_1_8_forbids_come_back() {
    let folder = Folder::new();
    let byte = r#"{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian","alignment":8}"#;
    let names = ["a b", "a_x20_b", "é", "_x5f_", "plain", "_"];
    let members = names.map(|name| format!(r#"{{"name":"{name}","field-class":{byte}}}"#)).join(",");
    let fragments = [
        r#"{"type":"preamble","version":2}"#.to_string(),
        r#"{"type":"trace-class"}"#.to_string(),
        r#"{"type":"data-stream-class"}"#.to_string(),
        format!(
            r#"{{"type":"event-record-class","name":"odd","payload-field-class":{{"type":"structure","member-classes":[{members}]}}}}"#
        ),
    ];
    let metadata: String = fragments.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect();
    folder.file("odd/metadata", metadata).file("odd/stream", [1, 2, 3, 4, 5, 6]);
    let want = events(&folder, "odd");
    assert_eq!(want[0].2.as_object().map(|payload| payload.len()), Some(names.len()));
    folder.run("convert --strict --to ctf1.8 -o one odd").ends(0, &[]);
    let plain = &events(&folder, "one")[0].2;
    assert_eq!(*plain, want[0].2);
    // Text shows the metadata's names, as the peer does; a filter takes the others.
    let text = folder.run_with("print one", &["--filter", "payload.`a b` == 1"]).ends(0, &[]).stdout;
    assert!(text.contains("{ a_x20_b = 1, a_x5f_x20_b = 2, "), "{text}");
    // Copied, rebuilt, and with the packets as they are.
    folder.run("convert --to ctf1.8 -o copy one").ends(0, &[]);
    folder.run("convert --to ctf1.8 --byte-order big -o anew copy").ends(0, &[]);
    assert_eq!(events(&folder, "anew")[0].2, *plain);
    for (at, from) in ["one", "copy", "anew"].iter().enumerate() {
        folder.run(&format!("convert --to ctf2 -o same{at} {from}")).ends(0, &[]);
        assert_eq!(events(&folder, &format!("same{at}")), want, "{from}");
        folder.run(&format!("convert --to ctf2 --byte-order big -o two{at} {from}")).ends(0, &[]);
        assert_eq!(events(&folder, &format!("two{at}")), want, "{from}");
        folder.run(&format!("convert --to ctf1.8 -o back{at} same{at}")).ends(0, &[]);
        assert_eq!(events(&folder, &format!("back{at}"))[0].2, *plain, "{from}");
    }
}

#[test]
fn what_the_target_cannot_hold_is_told() {
    let folder = Folder::new();
    optional(&folder);
    let run = folder.run("convert --to ctf1.8 -o out --loss-report report optional");
    run.ends(0, &["not kept in ctf1.8: optional fields", "not kept in ctf1.8: booleans"]);
    let report: Value =
        serde_json::from_slice(&fs::read(folder.path("report")).expect("it was written")).expect("JSON");
    assert_eq!(report["events"], 3);
    assert_eq!(report["losses"].as_array().map(Vec::len), Some(2));
    let payloads: Vec<Value> = events(&folder, "out").into_iter().map(|event| event.2).collect();
    assert_eq!(payloads[0].to_string(), r#"{"has":1,"n":{"present":1,"content":[7]}}"#);
    assert_eq!(payloads[1].to_string(), r#"{"has":0,"n":{"present":0,"content":[]}}"#);
    folder.run("convert --to ctf1.8 -o strict --strict optional").ends(1, &["cannot hold everything"]);
    assert!(!folder.path("strict").exists());
    folder.run("convert --to ctf2 --byte-order big -o kept --strict optional").ends(0, &[]);
    assert_eq!(events(&folder, "kept"), events(&folder, "optional"));
}

#[test]
fn the_loss_report_counts_events_in_every_form() {
    let folder = Folder::new();
    let all = events(&folder, &demo("orders")).len();
    for (options, want) in [("", all), ("--limit 7", 7), ("--begin +10ms", 0), ("--filter id==0", 0)] {
        let selected = folder.run_with(&format!("print -q --format jsonl {options}"), &[&demo("orders")]).ends(0, &[]);
        let want = if want == 0 { selected.stdout.lines().count() } else { want };
        for to in ["ctf1.8", "ctf2", "ctf1.6", "uftrace", "cpel", "perfetto", "chrome", "jsonl", "csv", "text"] {
            let form = format!("-q --force --to {to} --loss-report report {options}");
            convert(&folder, "orders", to, &form).ends(0, &[]);
            let text = fs::read_to_string(folder.path("report")).expect("it was written");
            let report: Value = serde_json::from_str(&text).expect("it is JSON");
            assert_eq!(report["events"], want, "{to} {options}");
        }
    }
}

#[test]
fn lines_are_targets_too() {
    let folder = Folder::new();
    for form in ["jsonl", "csv", "text"] {
        convert(&folder, "orders", form, &format!("--to {form}")).ends(0, &[]);
        let want = folder.run_with(&format!("print --format {form}"), &[&demo("orders")]).ends(0, &[]).stdout;
        assert_eq!(fs::read_to_string(folder.path(form)).expect("it was written"), want);
    }
}

#[test]
fn chrome_json_is_whole_and_exact() {
    let folder = Folder::new();
    for trace in TRACES {
        convert(&folder, trace, trace, "--to chrome").ends(0, &[]);
        let text = fs::read_to_string(folder.path(trace)).expect("it was written");
        let json: Value = serde_json::from_str(&text).expect("it is strict JSON");
        let list = json["traceEvents"].as_array().expect("it has events");
        let is_own = |event: &&Value| event["ph"] == "i" && event["args"].get("count").is_none();
        let found: Vec<_> = list.iter().filter(is_own).collect();
        let want = events(&folder, &demo(trace));
        assert_eq!(found.len(), want.len(), "{trace}");
        for (found, want) in found.iter().zip(&want) {
            assert_eq!((&found["name"], &found["args"]["payload"]), (&want.1, &want.2));
        }
        // Programs read times as numbers of 64 bits: these have every ns.
        let base = json["otherData"]["base_ns"].as_str().and_then(|base| base.parse::<i64>().ok()).expect("a base");
        let time = |event: &&Value| base + (event["ts"].as_f64().expect("a number") * 1000.0).round() as i64;
        let times: Vec<i64> = found.iter().map(time).collect();
        let want: Vec<i64> = want.iter().filter_map(|event| event.0.as_i64()).collect();
        assert_eq!(times, want, "{trace}");
    }
}

#[test]
fn formats_lists_what_can_be_written() {
    let list: Value = serde_json::from_str(&stdout("formats --json", &[])).expect("it is JSON");
    let of = |name: &str| {
        let formats = list["formats"].as_array().expect("a list").iter();
        formats.clone().find(|format| format["name"] == name).cloned().unwrap_or(Value::Null)
    };
    for name in ["ctf1.8", "ctf2"] {
        assert_eq!((&of(name)["read"], &of(name)["write"]), (&Value::Bool(true), &Value::Bool(true)), "{name}");
    }
    run("convert --to nonsense -o x orders").ends(2, &["unknown output format", "ctf2", "jsonl"]);
}

/// The page and section with the rules of an output format: a file in `docs/convert`, and its heading.
fn rules_of(format: &str) -> Option<(&'static str, &'static str)> {
    Some(match format {
        "ctf2" => ("ctf.md", "CTF 2"),
        "ctf1.8" => ("ctf.md", "CTF 1.8"),
        "ctf1.1" | "ctf1.6" => ("drafts.md", "Converting to the drafts of CTF"),
        "lttng-legacy" => ("lttng.md", "Converting to legacy LTTng"),
        "cpel" | "gist" | "elog" => ("event-logs.md", "Converting to CPEL, Gist and VPP's event logs"),
        "uftrace" => ("uftrace.md", "Converting to uftrace"),
        "ftrace" => ("trace-dat.md", "Converting to trace.dat"),
        "perfetto" => ("perfetto.md", "Converting to Perfetto"),
        "chrome" => ("chrome.md", "Converting to Chrome's trace JSON"),
        "firefox" | "speedscope" | "folded" | "svg" => {
            ("profiles.md", "Converting to profiles: folded, speedscope, firefox")
        }
        "parquet" | "arrow" => ("tables.md", "Converting to tables: Parquet and Arrow"),
        "jsonl" | "csv" | "text" => ("lines.md", "Converting to lines"),
        "html" => ("html.md", "Converting to one page"),
        _ => return None,
    })
}

/// The link to the rules of an output format, from `docs/convert.md`.
fn link_to(page: &str, title: &str) -> String {
    match title.strip_prefix("Converting to ") {
        Some(name) => format!("[{}](convert/{page})", name.strip_prefix("the ").unwrap_or(name)),
        None => {
            let anchor: String = title.chars().filter(|c| c.is_alphanumeric() || " -".contains(*c)).collect();
            format!("[{title}](convert/{page}#{})", anchor.to_lowercase().replace(' ', "-"))
        }
    }
}

/// A text in one line.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Holds the part of a page between two marks to what the program says, or writes it with `TRACEMILL_BLESS`. `entries` are
/// the parts of the formats, after `head`; each begins with a line whose first word is the name.
fn hold_page(page: &Path, mark: &str, head: &str, entries: &str) {
    let text = fs::read_to_string(page).expect("the page is there");
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
    let (before, rest) = text.split_once(&begin).expect("the part begins");
    let (found, after) = rest.split_once(&end).expect("the part ends");
    if std::env::var_os("TRACEMILL_BLESS").is_some() {
        if !cfg!(feature = "columnar") {
            panic!("the page describes the whole program: add --features columnar");
        }
        return fs::write(page, format!("{before}{begin}{head}{entries}{end}{after}"))
            .expect("the page can be written");
    }
    // The page describes the whole program, which may be built without tables.
    let is_built = |name: &str| cfg!(feature = "columnar") || !["parquet", "arrow"].contains(&name);
    let (mut kept, mut is_kept) = (String::new(), true);
    for line in found.split_inclusive('\n') {
        if let Some((name, _)) = line.trim_start_matches("| ").strip_prefix('`').and_then(|line| line.split_once('`')) {
            is_kept = is_built(name);
        }
        kept.extend(is_kept.then_some(line));
    }
    let again = "write it anew with TRACEMILL_BLESS=1 cargo test -p tracemill-cli --features columnar --test convert";
    assert_eq!(kept, format!("{head}{entries}"), "{again}");
}

#[test]
fn the_pages_on_formats_are_those_of_the_program() {
    let list: Value = serde_json::from_str(&stdout("formats --json", &[])).expect("it is JSON");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let help = unwrapped(&stdout("convert --help limits", &[]));
    let (mut table, mut limits) = (String::new(), String::new());
    for format in list["formats"].as_array().expect("a list") {
        let name = format["name"].as_str().unwrap_or("");
        let can = |key: &str| if format[key] == true { "yes" } else { "" };
        let rules = rules_of(name).filter(|_| format["write"] == true);
        assert_eq!(rules.is_some(), format["write"] == true, "{name} is written, and no page has its rules");
        if let Some((page, title)) = rules {
            let text = fs::read_to_string(docs.join("convert").join(page)).expect("the page is there");
            assert!(text.lines().any(|line| line.trim_start_matches('#').trim() == title), "{page} has no {title}");
        }
        let link = rules.map(|(page, title)| link_to(page, title)).unwrap_or_default();
        table += &format!("| `{name}` | {} | {} | {link} |\n", can("read"), can("write"));
        let lacks: Vec<&str> =
            format["cannot_hold"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        for lack in &lacks {
            assert!(help.contains(lack), "the help does not say: {lack}");
        }
        if !lacks.is_empty() {
            let lacks: String = lacks.iter().map(|lack| format!("- {lack}\n")).collect();
            limits += &format!("`{name}`\n\n{lacks}\n");
        }
    }
    let head = "| format | read | write | rules |\n|---|---|---|---|\n";
    hold_page(&docs.join("convert.md"), "formats", head, &table);
    hold_page(&docs.join("convert/limits.md"), "limits", "\n", &limits);
}

#[test]
fn an_index_describes_the_packets() {
    let folder = Folder::new();
    for (trace, to) in [("losses", "ctf1.8"), ("overwritten", "ctf2"), ("mill", "ctf1.8")] {
        convert(&folder, trace, "plain", &format!("--to {to} --byte-order little --force")).ends(0, &[]);
        convert(&folder, trace, "indexed", &format!("--to {to} --index --force")).ends(0, &[]);
        assert!(folder.path("indexed/index").is_dir(), "{trace}");
        let packets = |name: &str| {
            let run = folder.run_with("info --json --packets", &[name]).ends(0, &[]);
            assert!(!run.stderr.contains("the index is ignored"), "{}", run.stderr);
            let info: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
            info["traces"][0]["packets"].clone()
        };
        assert_eq!(packets("indexed"), packets("plain"), "{trace}");
        assert_eq!(events(&folder, "indexed"), events(&folder, "plain"), "{trace}");
    }
}

#[test]
fn a_program_that_is_killed_leaves_nothing_that_looks_whole() {
    let folder = Folder::new();
    let want = events(&folder, &demo("mill"));
    for milliseconds in [0, 1, 3, 5, 8, 12, 20, 35, 60] {
        let mut child = util::command();
        child.current_dir(folder.path(".")).args(["convert", "--to", "ctf2", "--force", "-o", "out"]).arg(demo("mill"));
        let mut child = child.spawn().expect("the program starts");
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        // It may have ended already.
        let _ = child.kill();
        child.wait().expect("it ends");
        if folder.path("out").exists() {
            assert_eq!(events(&folder, "out"), want, "after {milliseconds} ms");
        }
    }
}

#[test]
fn the_ending_of_the_output_chooses_the_format() {
    let folder = Folder::new();
    let list: Value = serde_json::from_str(&stdout("formats --json", &[])).expect("it is JSON");
    let tasting = demo("../calls/tasting");
    for format in list["formats"].as_array().expect("a list") {
        for ending in format["endings"].as_array().expect("a list").iter().filter_map(Value::as_str) {
            let name = format["name"].as_str().expect("a name");
            let (by_ending, by_name) = (format!("a.{ending}"), format!("b.{ending}"));
            folder.run_with("convert -q", &[&tasting, &by_ending]).ends(0, &[]);
            folder.run_with(&format!("convert -q --to {name} -o {by_name}"), &[&tasting]).ends(0, &[]);
            let content = |name: &str| util::content(&folder.path(name));
            let (own, other) = (content(&by_ending), content(&by_name));
            // A page holds the command that made it; the name of a trace of CTF is that of its folder.
            if !["html", "ctf2"].contains(&name) {
                assert!(own == other, "{ending} is not {name}");
            }
            assert_eq!(own.len(), other.len(), "{ending}");
        }
    }
    // The longest ending counts, and nothing is guessed.
    folder.run_with("convert -q", &[&tasting, "x.speedscope.json"]).ends(0, &[]);
    let text = fs::read_to_string(folder.path("x.speedscope.json")).expect("it was written");
    assert!(text.contains("speedscope.app"), "{text:.200}");
    for name in ["x", "x.y", "json", "x.JSON"] {
        let ended = folder.run_with("convert -q", &[&tasting, name]);
        ended.ends(2, &["the ending of the name does not say which format is wanted"]);
        assert!(!folder.path(name).exists());
    }
    folder.run_with("convert -q", &[&tasting]).ends(2, &["there is no path for the output"]);
    folder.run_with("convert -q --open --to chrome -o -", &[&tasting]).ends(2, &["--open shows one file"]);
    folder.run_with("convert -q --open", &[&tasting, "x.csv"]).ends(2, &["--open shows one file in ui.perfetto.dev"]);
    // Without an option the last path is the output, also of several traces.
    folder.run_with("convert -q", &[&tasting, &demo("mill"), "two.jsonl"]).ends(0, &[]);
    assert!(folder.path("two.jsonl").is_file());
    folder.run_with("convert -q", &[&tasting, "two.jsonl"]).ends(1, &["exists"]);
}
