//! Function calls of traces whose events are not calls only.

mod util;

use serde_json::Value;
use util::{Folder, demo, run_with};

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.c.value; } := stamp_t;
stream {
    event.header := struct { uint8_t id; stamp_t timestamp; };
    event.context := struct { int32_t _vpid; int32_t _vtid; };
};
event { id = 0; name = "lttng_ust_cyg_profile:func_entry"; fields := struct { uint64_t _addr; }; };
event { id = 1; name = "lttng_ust_cyg_profile:func_exit"; fields := struct { uint64_t _addr; }; };
event { id = 2; name = "lttng_ust_statedump:bin_info";
        fields := struct { uint64_t _baddr; uint64_t _memsz; string _path; }; };
"#;

/// An event of task `tid` of process 7.
fn event(id: u8, time: u64, tid: i32, fields: &[u64]) -> Vec<u8> {
    let mut bytes = vec![id];
    bytes.extend(time.to_le_bytes());
    bytes.extend(7i32.to_le_bytes());
    bytes.extend(tid.to_le_bytes());
    bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    bytes
}

/// A program with two tasks; the second one leaves two calls at once, and one is never left.
fn folder() -> Folder {
    let (entry, exit) = (0, 1);
    let mut bytes = event(2, 1, 7, &[0x1000, 0x100]);
    bytes.extend(b"/srv/prog\0");
    for (kind, time, tid, address) in [
        (exit, 5, 7, 0x10f0),
        (entry, 10, 7, 0x1010),
        (entry, 20, 8, 0x1020),
        (entry, 30, 8, 0x1030),
        (entry, 35, 7, 0x9000),
        (entry, 40, 8, 0x1010),
        (exit, 45, 7, 0x9000),
        (exit, 50, 8, 0x1030),
        (exit, 1090, 8, 0x1020),
        (exit, 1100, 8, 0x5555),
        (entry, 1110, 8, 0x1040),
    ] {
        bytes.extend(event(kind, time, tid, &[address]));
    }
    let folder = Folder::new();
    folder.file("t/metadata", METADATA).file("t/s", bytes);
    folder
}

#[test]
fn the_last_one_of_an_option_counts() {
    let folder = folder();
    let text = |command: &str| {
        let run = folder.run(command);
        assert_eq!(run.code, Some(0), "{command}: {}", run.stderr);
        run.stdout
    };
    assert_eq!(text("replay t -q -D 1 -f none -D 2 -f tid --flat --flat"), text("replay t -q -D 2 -f tid --flat"));
    assert_eq!(text("graph t -q -f all --no-event --no-event -f none"), text("graph t -q -f none --no-event"));
    assert_eq!(text("dump t -q -D 1 -D 3"), text("dump t -q -D 3"));
    assert_eq!(text("report t -q -s call -D 1 -s func -D 3"), text("report t -q -s func -D 3"));
}

#[test]
fn columns_that_are_named_are_not_those_of_averages() {
    let folder = folder();
    for columns in ["all", "+size", "total,call"] {
        let plain = folder.run(&format!("report t -q -f {columns}")).stdout;
        assert!(!plain.is_empty());
        for average in ["--avg-total", "--avg-self"] {
            assert_eq!(folder.run(&format!("report t -q {average} -f {columns}")).stdout, plain, "{average} {columns}");
        }
    }
}

#[test]
fn a_trace_that_only_describes_calls_has_none() {
    let folder = Folder::new();
    let module = [event(2, 1, 7, &[0x1000, 0x100]), b"/srv/prog\0".to_vec()].concat();
    folder.file("t/metadata", METADATA).file("t/s", module);
    for command in ["replay", "report", "graph", "flame", "dump --chrome"] {
        let run =
            folder.run(&format!("{command} t")).ends(1, &["the trace has no function calls", "formats with calls"]);
        assert_eq!(run.stdout, "", "{command}");
    }
}

#[test]
fn calls_between_other_events_are_followed() {
    let folder = folder();
    let run = folder.run("replay t").ends(0, &["1 ends of calls belong to no open call"]);
    let expected = "# DURATION     TID     FUNCTION
            [     7] | } /* prog+0xf0 */
            [     7] | prog+0x10() {
            [     8] | prog+0x20() {
            [     8] |   prog+0x30() {
            [     7] |   <9000>() {
            [     8] |     prog+0x10() {
   0.010 us [     7] |   } /* <9000> */
   0.010 us [     8] |     } /* prog+0x10 */
   0.020 us [     8] |   } /* prog+0x30 */
   1.070 us [     8] | } /* prog+0x20 */
            [     8] | prog+0x40() {

uftrace stopped tracing with remaining functions
================================================
task: 7
[0] prog+0x10

task: 8
[0] prog+0x40

";
    assert_eq!(run.stdout, expected);
    let run = folder.run("report t -f call").ends(0, &[]);
    assert!(run.stdout.contains("           2  prog+0x10\n"), "{}", run.stdout);
    let run = folder.run("graph t -F prog.0x20").ends(0, &[]);
    assert!(run.stdout.contains("(1) prog+0x20\n"), "{}", run.stdout);
    let run = folder.run("dump t --tid 7").ends(0, &[]);
    assert!(run.stdout.ends_with("0.000000045      7: [exit ] <9000>(9000) depth: 1\n"), "{}", run.stdout);
}

#[test]
fn time_filters_keep_tasks_apart() {
    let run = folder().run("replay t -f none -t 1us").ends(0, &[]);
    // A call without an exit cannot be short.
    let expected = "} /* prog+0xf0 */\nprog+0x10() {\nprog+0x20();\nprog+0x40() {\n";
    assert!(run.stdout.starts_with(expected), "{}", run.stdout);
}

#[test]
fn chrome_traces_of_calls_are_json() {
    let run = folder().run("dump t --chrome --balanced").ends(0, &[]);
    let object: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let events = object["traceEvents"].as_array().expect("events");
    let count = |kind: &str| events.iter().filter(|event| event["ph"] == kind).count();
    assert_eq!((count("B"), count("E")), (6, 6));
}

/// An event log of VPP: two nodes on a track, one inside of the other.
fn event_log() -> Vec<u8> {
    let text = |text: &str| [&[(text.len() << 1 | 1) as u8], text.as_bytes()].concat();
    // The low half comes first.
    let wide = |value: u64| [(value as u32).to_be_bytes(), ((value >> 32) as u32).to_be_bytes()].concat();
    let mut out = [&7u32.to_be_bytes()[..], b"elog v0", &16u32.to_be_bytes()].concat();
    let times = [2_000_000_000u64, 2_000_000_000, 1_000_000_000, 1_000_000_000];
    out.extend(times.iter().flat_map(|&word| wide(word)));
    let types = ["input-call: %d", "input-return: %d", "lookup-call: %d", "lookup-return: %d"];
    out.extend((types.len() as u32).to_be_bytes());
    for (at, name) in types.iter().enumerate() {
        out.extend(text(name));
        out.extend(text("i4"));
        out.extend((at as u32 + 1).to_be_bytes());
        out.extend(0u32.to_be_bytes());
    }
    out.extend(1u32.to_be_bytes());
    out.extend(text("worker"));
    out.extend(0u32.to_be_bytes());
    out.extend(4u32.to_be_bytes());
    for (at, kind) in [0u16, 2, 3, 1].into_iter().enumerate() {
        out.extend([kind.to_be_bytes(), [0, 0]].concat());
        out.extend(wide((0.25 * (at + 1) as f64).to_bits()));
        out.extend(9u32.to_be_bytes());
    }
    out
}

#[test]
fn dispatches_of_event_logs_are_calls() {
    let folder = Folder::new();
    folder.file("log.elog", event_log());
    let run = folder.run("replay log.elog").ends(0, &[]);
    let lines =
        "            [     0] | input() {\n 250.000 ms [     0] |   lookup();\n 750.000 ms [     0] | } /* input */\n";
    assert!(run.stdout.ends_with(lines), "{}{}", run.stdout, run.stderr);
    let run = folder.run("graph log.elog -f none").ends(0, &[]);
    assert!(run.stdout.ends_with("(1) worker\n(1) input\n(1) lookup\n\n"), "{}", run.stdout);
}

#[test]
fn text_has_colours_and_pages_when_they_are_asked_for() {
    let folder = folder();
    let plain = folder.run("replay t");
    assert!(!plain.stdout.contains('\x1b'), "stdout is not a terminal");
    for never in ["no", "never", "false"] {
        assert_eq!(folder.run(&format!("replay t --color {never}")).stdout, plain.stdout);
    }
    let colored = folder.run("replay t --color yes").stdout;
    assert!(colored.contains("\x1b[90m /* "), "{colored}");
    let without: String = colored
        .split('\x1b')
        .enumerate()
        .map(|(at, part)| match at {
            0 => part,
            _ => part.split_once('m').map_or(part, |(_, rest)| rest),
        })
        .collect();
    assert_eq!(without, plain.stdout);
    for command in ["replay", "report", "graph"] {
        let page = folder.run(&format!("{command} t --format html")).stdout;
        assert!(page.starts_with("<html>\n") && page.ends_with("</html>\n"), "{command}: {page}");
        let page = folder.run(&format!("{command} t --format html --color no")).stdout;
        assert!(!page.contains("<span"), "{command}: {page}");
    }
    folder.run("dump t --format html").ends(2, &["records have no page"]);
}

#[test]
fn options_for_recording_change_nothing() {
    let folder = folder();
    let plain = folder.run("replay t").stdout;
    let run = folder.run("replay t -k -K 3 -A f@arg1 -a -b 4K --no-pltbind -E x");
    assert_eq!(run.stdout, plain);
}

#[test]
fn options_about_the_looks_of_other_commands_change_nothing() {
    let folder = folder();
    let all = "--avg-self --column-offset 2 --diff-policy full --sample-time 1us --sort-column 1 --flat --libname \
        --no-args --no-comment --no-merge --srcline --task-newline --column-view --sort call";
    // Options that a command implements itself are left out.
    let own = [
        ("report", vec!["--avg-self", "--srcline", "--sort call"]),
        ("graph", vec!["--srcline"]),
        ("dump", vec!["--no-args"]),
    ];
    for (command, own) in own {
        let mut options = all.to_string();
        own.iter().for_each(|option| options = options.replace(option, ""));
        let plain = folder.run(&format!("{command} t")).ends(0, &[]).stdout;
        assert_eq!(folder.run(&format!("{command} t {options}")).ends(0, &[]).stdout, plain, "{command}");
    }
    let plain = folder.run("replay t").stdout;
    let run =
        folder.run("replay t --avg-total --avg-self -s call --diff-policy full --sample-time 1us --sort-column 1");
    assert_eq!(run.stdout, plain);
    for option in ["--chrome", "--diff t", "--flame-graph", "--graphviz", "--mermaid", "--task", "--debug"] {
        assert_eq!(folder.run(&format!("replay t {option}")).ends(0, &[]).stdout, plain, "{option}");
    }
    // An option that would give another result is refused.
    folder.run("replay t --script x").ends(2, &["--script"]);
    assert_eq!(folder.run("replay t --output-fields none").stdout, folder.run("replay t -f none").stdout);
    assert_eq!(folder.run("dump t -f none").stdout, folder.run("dump t").stdout);
}

/// Bytes of a number.
fn number(out: &mut Vec<u8>, value: u64, len: usize) {
    out.extend(&value.to_le_bytes()[..len]);
}

/// A format file of the kernel: fields with their places and sizes after the common ones.
fn event_format(name: &str, id: u16, fields: &str) -> String {
    let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
    format!("name: {name}\nID: {id}\nformat:\n{common}\n{fields}\nprint fmt: \"\"\n")
}

/// A `trace.dat`, version 6, of one processor on which tasks 7 and 8 call functions in turn.
fn trace_dat() -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut records = Vec::new();
    for (delta, entry, pid, address, depth) in [
        (0u64, true, 7u64, 0x1000u64, 0u64),
        (100, true, 7, 0x2000, 1),
        (100, true, 8, 0x3000, 0),
        (50, false, 7, 0x2000, 1),
        (50, false, 8, 0x3000, 0),
        (700, false, 7, 0x1000, 0),
        (10, true, 8, 0x4000, 0),
    ] {
        let mut data = Vec::new();
        for (value, len) in [(if entry { 11 } else { 10 }, 2), (0, 2), (pid, 4), (address, 8), (depth, 4)] {
            number(&mut data, value, len);
        }
        if !entry {
            data.resize(40, 0);
        }
        number(&mut records, (data.len() as u64 / 4) | delta << 5, 4);
        records.extend(data);
    }
    let mut page = Vec::new();
    number(&mut page, 1_000_000, 8);
    number(&mut page, records.len() as u64, 8);
    page.extend(records);
    page.resize(PAGE, 0);
    let mut out = b"\x17\x08\x44tracing6\0\0\x08".to_vec();
    number(&mut out, PAGE as u64, 4);
    let header = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    for (name, content) in [("header_page\0", header), ("header_event\0", "# events\n")] {
        out.extend(name.bytes());
        number(&mut out, content.len() as u64, 8);
        out.extend(content.bytes());
    }
    let call = "\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;\n";
    let times = "\tfield:unsigned long long calltime;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned long long rettime;\toffset:32;\tsize:8;\tsigned:0;\n";
    let formats =
        [event_format("funcgraph_entry", 11, call), event_format("funcgraph_exit", 10, &format!("{call}{times}"))];
    number(&mut out, formats.len() as u64, 4);
    for format in &formats {
        number(&mut out, format.len() as u64, 8);
        out.extend(format.bytes());
    }
    number(&mut out, 0, 4);
    for text in ["", ""] {
        number(&mut out, text.len() as u64, 4);
    }
    let comms = "7 worker\n8 other\n";
    number(&mut out, comms.len() as u64, 8);
    out.extend(comms.bytes());
    number(&mut out, 1, 4);
    out.extend(b"options  \0");
    number(&mut out, 0, 2);
    out.extend(b"flyrecord\0");
    let offset = (out.len() + 16).next_multiple_of(PAGE);
    number(&mut out, offset as u64, 8);
    number(&mut out, page.len() as u64, 8);
    out.resize(offset, 0);
    out.extend(page);
    out
}

#[test]
fn function_graphs_of_the_kernel_are_calls() {
    let folder = Folder::new();
    folder.file("trace.dat", trace_dat());
    let run = folder.run("replay trace.dat").ends(0, &[]);
    let expected = "# DURATION     TID     FUNCTION
            [     7] | <1000>() {
            [     7] |   <2000>() {
            [     8] | <3000>() {
   0.150 us [     7] |   } /* <2000> */
   0.100 us [     8] | } /* <3000> */
   1.000 us [     7] | } /* <1000> */
            [     8] | <4000>() {

uftrace stopped tracing with remaining functions
================================================
task: 8
[0] <4000>

";
    assert_eq!(run.stdout, expected);
    let run = folder.run("report trace.dat -f total,self,call").ends(0, &[]);
    assert!(run.stdout.contains("  1.000 us    0.850 us           1  <1000>\n"), "{}", run.stdout);
    let run = folder.run("graph trace.dat --tid 7").ends(0, &[]);
    assert!(run.stdout.contains("    0.150 us : (1) <2000>\n"), "{}", run.stdout);
    let run = folder.run("report trace.dat -r 100ns~300ns --format json").ends(0, &[]);
    let object: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let names: Vec<&str> =
        object["functions"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["<2000>", "<3000>"]);
}

#[test]
fn functions_of_legacy_traces_are_calls() {
    let folder = Folder::new();
    let mut bytes = Vec::new();
    for (kind, time, address) in [(0u8, 100u64, 0x1000u64), (0, 200, 0x2000), (1, 450, 0x2000), (1, 1100, 0x1000)] {
        bytes.push(kind);
        bytes.extend(time.to_le_bytes());
        bytes.extend(address.to_le_bytes());
    }
    let metadata = METADATA.split("    event.context").next().unwrap().to_string()
        + "};\nevent { id = 0; name = \"user_generic.function_entry\"; fields := struct { uint64_t this_fn; }; };\n\
           event { id = 1; name = \"user_generic.function_exit\"; fields := struct { uint64_t this_fn; }; };\n";
    folder.file("t/metadata", metadata).file("t/s", bytes);
    folder.run("convert t --to lttng-legacy -o old").ends(0, &[]);
    let run = folder.run("report old -f total,self,call").ends(0, &[]);
    assert!(run.stdout.contains("  1.000 us    0.750 us           1  <1000>\n"), "{}", run.stdout);
}

fn tasting() -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/calls/tasting");
    folder.display().to_string()
}

#[test]
fn the_demo_of_calls_jumps_and_its_stacks_are_right() {
    let folder = Folder::new();
    let demo = tasting();
    let run = |command: &str| folder.run_with(command, &[&demo]).ends(0, &[]).stdout;
    let replay = run("replay -F tasting::leave -f none");
    let lines: Vec<&str> = replay.lines().map(str::trim_end).collect();
    let begin = lines.iter().position(|line| *line == "        longjmp() {").expect("it jumps");
    assert_eq!(lines[begin + 1..][..2], ["  } /* _setjmp */", "  tasting::rinse() {"], "{replay}");
    // `rinse` is called by `leave`, not by what `longjmp` left.
    let value: Value = serde_json::from_str(&run("flame --format json")).expect("it is JSON");
    let nodes = value["nodes"].as_array().expect("a list");
    let path = |name: &str| {
        let mut at = nodes.iter().position(|node| node["name"] == name).expect("it was called");
        let mut names = Vec::new();
        while at > 0 {
            names.push(nodes[at]["name"].as_str().expect("a name"));
            at = nodes[at]["parent"].as_u64().expect("a number") as usize;
        }
        names
    };
    assert_eq!(path("tasting::rinse"), ["tasting::rinse", "tasting::leave", "main"]);
    assert_eq!(path("longjmp")[1..4], ["tasting::spit"; 3]);
    let is_wait = |node: &&Value| node["is_wait"] == true;
    assert!(
        nodes.iter().filter(is_wait).all(|node| node["name"].as_str().is_some_and(|name| name.contains("schedule")))
    );
    assert!(nodes.iter().any(|node| node["is_wait"] == true && node["total_ns"].as_u64() > Some(1_000_000)));
    folder.run_with("convert -q --to folded", &["-o", "folded", &demo]).ends(0, &[]);
    let text = std::fs::read_to_string(folder.path("folded")).expect("it was written");
    assert!(text.contains(";main;tasting::leave;tasting::rinse;usleep "), "{text}");
}

#[test]
fn a_recording_does_not_differ_from_itself_and_events_before_a_program_have_no_module() {
    let folder = Folder::new();
    let demo = tasting();
    let difference = folder.run_with("report --diff-policy full", &["--diff", &demo, &demo]).ends(0, &[]).stdout;
    let calls = difference.lines().filter(|line| !line.starts_with('#') && line.contains("+0"));
    let functions = difference.lines().filter(|line| line.contains(" us ") || line.contains(" ms ")).count();
    assert!(functions > 20 && calls.count() == functions, "{difference}");
    let replay = folder.run_with("replay --event-full -f module", &[&demo]).ends(0, &[]).stdout;
    let modules: Vec<&str> = replay.lines().filter_map(|line| Some(line.split_once(" | ")?.0.trim())).collect();
    let first = modules.iter().position(|module| *module == "tasting").expect("it calls");
    assert!(modules[..first].contains(&"[unknown]") && modules[first..].contains(&"[event]"), "{replay}");
    assert!(!modules[first..].contains(&"[unknown]"), "{replay}");
}

#[test]
fn options_come_from_a_file_and_messages_go_to_one() {
    let folder = Folder::new();
    let trace = demo("../calls/tasting");
    let report = |options: &str| folder.run_with(&format!("report {options}"), &[&trace]).ends(0, &[]).stdout;
    folder.file("opts", "# sorted by\n  -s call\n-f call --no-libcall\n");
    let plain = report("-s call -f call --no-libcall");
    assert_ne!(plain, report(""));
    // The options of the file apply, wherever the file is named.
    for options in ["--opt-file opts", "--opt-file=opts -s total", "-f total --opt-file opts"] {
        assert_eq!(report(options), plain, "{options}");
    }
    folder.run_with("report --opt-file none", &[&trace]).ends(2, &["none: options cannot be read"]);
    folder.file("bad", "--no-such-option");
    folder.run_with("graph --opt-file bad", &[&trace]).ends(2, &["--no-such-option"]);

    let run = folder.run("replay --logfile log nowhere").ends(1, &[]);
    assert_eq!(run.stderr, "");
    let log = std::fs::read_to_string(folder.path("log")).expect("it was written");
    assert!(log.starts_with("error: nowhere"), "{log}");
    folder.copy_of("../calls/tasting", "own");
    folder.run("replay --logfile own/info own").ends(2, &["would replace an input", "own/info"]);
    assert!(std::fs::read(folder.path("own/info")).expect("it is there").starts_with(b"Ftrace!"));
}

#[test]
fn options_of_uftrace_about_itself_are_taken_by_each_command() {
    let trace = demo("../calls/tasting");
    for command in ["replay", "report", "graph", "dump", "flame"] {
        let plain = run_with(command, &[&trace]).ends(0, &[]).stdout;
        assert_eq!(run_with(&format!("{command} --symbols --list-event"), &[&trace]).ends(0, &[]).stdout, plain);
        let version = format!("tracemill-{command} {}\n", env!("CARGO_PKG_VERSION"));
        for option in ["-V", "--version"] {
            assert_eq!(run_with(&format!("{command} {option}"), &[]).ends(0, &[]).stdout, version, "{command}");
        }
        let usage = run_with(&format!("{command} --usage"), &[]).ends(0, &[]).stdout;
        assert!(usage.contains(&format!("Usage: tracemill {command}")), "{usage}");
    }
}

#[test]
fn the_filter_of_a_report_is_for_what_is_reported() {
    let trace = demo("../calls/tasting");
    let report = |options: &str| run_with(&format!("report {options}"), &[&trace]).ends(0, &[]).stdout;
    let main = report("-F main");
    assert_ne!(main, report(""));
    assert_eq!(report("--filter main"), main);
    assert_eq!(report("--filter=main -N nothing"), main);
    // Each of them counts, the last one where two name a function.
    assert_eq!(report("--filter nothing --filter main"), report("-F nothing -F main"));
    assert_eq!(report("-N main --filter main"), report("-N main -F main"));
    assert_eq!(report("--filter main -N main"), report("-F main -N main"));
    // Between events it is an expression, of which the last one counts.
    let between = |filter: &str| run_with("report --state entry --by tid", &["--filter", filter, &trace]);
    between("tid > 0").ends(0, &[]);
    between("tid >").ends(2, &["--filter"]);
    let twice = run_with("report --state entry --by tid --filter tid>", &["--filter", "tid > 0", &trace]);
    assert_eq!(twice.ends(0, &[]).stdout, between("tid > 0").stdout);
}

#[test]
fn the_summary_of_the_recorder_is_that_of_uftrace() {
    let folder = Folder::new();
    folder.copy_of("../calls/tasting", "own");
    let want = "# system information
# ==================
# program version     : v0.13 ( x86_64 dwarf python3 luajit tui perf sched dynamic )
# recorded on         : Sun Nov 22 21:43:45 2026
# cmdline             : uftrace record -d tasting.data ./tasting
# cpu info            : AMD EPYC
# number of cpus      : 2 / 2 (online / possible)
# memory info         : 8.9 / 23.5 GB (free / total)
# system load         : 5.08 / 6.29 / 6.67 (1 / 5 / 15 min)
# kernel version      : Linux 6.18.44-fc-v657
# hostname            : vm
# distro              : \"Debian GNU/Linux 12 (bookworm)\"
#
# process information
# ===================
# number of tasks     : 3
# task list           : 12529(tasting), 12531(tasting), 12532(tasting)
# exe image           : /tmp/roastery/tasting
# build id            : 7e6e21611758b5b71205e57e7e9be2a2b1971b00
# pattern             : regex
# exit status         : exited with code: 0
# elapsed time        : 0.020732413 sec
# cpu time            : 0.004 / 0.004 sec (sys / user)
# context switch      : 14 / 6 (voluntary / involuntary)
# max rss             : 7532 KB
# page fault          : 2 / 652 (major / minor)
# disk iops           : 616 / 16 (read / write)
";
    let summary = || folder.run("dump --info own").ends(0, &[]).stdout;
    assert_eq!(summary(), format!("{want}\n"));
    folder.file("own/note.txt", "with milk\nand sugar");
    let notes = "#\n# extra note information\n# ======================\nwith milk\nand sugar\n";
    assert_eq!(summary(), format!("{want}{notes}"));
    folder.run("dump --info --chrome own").ends(2, &["cannot be used with"]);
    // Other recorders say nothing of the kind.
    let folder = self::folder();
    folder.run("dump --info t").ends(1, &["no notes of its recorder", "tracemill info"]);
}

#[test]
fn symbols_come_from_another_folder_where_it_has_them() {
    let folder = Folder::new();
    folder.copy_of("../calls/tasting", "own");
    let symbols = std::fs::read_to_string(folder.path("own/tasting.sym")).expect("it is there");
    let renamed = symbols.replace(" main\n", " other_main\n");
    assert_ne!(renamed, symbols);
    folder.file("syms/tasting.sym", renamed.clone());
    let names = |options: &str| folder.run(&format!("report own -f none {options}")).ends(0, &[]).stdout;
    let (plain, other) = (names(""), names("--with-syms syms"));
    assert!(plain.contains("\n  main\n") && !plain.contains("other_main"), "{plain}");
    assert_eq!(other, plain.replace("  main\n", "  other_main\n"));
    // Events have them too.
    let events = folder.run("print own --with-syms syms").ends(0, &[]).stdout;
    assert!(events.contains("\"other_main\""), "{events}");
    // A folder without a file that fits changes nothing.
    folder.file("syms/tasting.sym", renamed.replace("# build-id: 7e", "# build-id: 8e"));
    assert_eq!(names("--with-syms syms"), plain);
    folder.file("none/other.sym", renamed);
    assert_eq!(names("--with-syms none"), plain);
    std::fs::remove_file(folder.path("own/tasting.sym")).expect("it is there");
    assert!(!names("").contains("main"));
    folder
        .run("report own --with-syms nowhere")
        .ends(2, &["--with-syms names `nowhere`: there is no such file or folder"]);
}
