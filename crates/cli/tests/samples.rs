//! Samples in `report`, `graph` and `flame`: the demo's recording of perf, its text, and recordings that were changed.
#![cfg(feature = "debug-info")]

mod util;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use util::{Folder, Run, csv_rows, demo, json_lines, run_with, stdout};

fn recording() -> String {
    demo("../samples/bakery.data")
}

/// An object that the program prints of the demo.
fn object(arguments: &str) -> Value {
    serde_json::from_str(&stdout(arguments, &[&recording()])).expect("an object")
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The symbols of the program, by the bytes of its file alone: `nm`'s way to them, without any code that is tested.
fn program_symbols() -> Vec<(u64, String)> {
    let bytes = std::fs::read(demo("../samples/bakery")).expect("the program");
    let number =
        |at: usize, len: usize| bytes[at..at + len].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let (sections, size, count) = (number(0x28, 8) as usize, number(0x3a, 2) as usize, number(0x3c, 2) as usize);
    let section = |index: usize| {
        let at = sections + index * size;
        (number(at + 4, 4), number(at + 24, 8) as usize, number(at + 32, 8) as usize, number(at + 40, 4) as usize)
    };
    let (_, begin, len, names) = (0..count).map(section).find(|section| section.0 == 2).expect("a table of symbols");
    let names = section(names).1;
    let symbol = |at: usize| {
        let name = names + number(at, 4) as usize;
        let end = bytes[name..].iter().position(|byte| *byte == 0).expect("an end");
        (number(at + 8, 8), String::from_utf8_lossy(&bytes[name..name + end]).into_owned(), number(at + 4, 1) & 15)
    };
    let all = (begin..begin + len).step_by(24).map(symbol);
    // Functions and labels of assembly, in the part that is executed.
    let mut found: Vec<(u64, String)> = all
        .filter(|(at, name, kind)| *at >= 0x40_0000 && !name.is_empty() && matches!(kind, 0 | 2))
        .map(|(at, name, _)| (at, name))
        .collect();
    found.retain(|(_, name)| !name.contains('.') && !["__bss_start", "_edata", "_end"].contains(&&**name));
    found.sort();
    found
}

/// Stacks are not read from fields alone, so an output with them would show fields that are hidden.
#[test]
fn hidden_fields_are_not_shown_by_stacks() {
    let folder = Folder::new();
    let stacks = "payload.callchain_user,payload.callchain_kernel,payload.ip,payload.bin";
    for option in ["--drop-field", "--anonymise"] {
        for (format, names_functions) in [("chrome", true), ("perfetto", true), ("ctf2", false), ("jsonl", false)] {
            let words = format!("convert --force --to {format} -o out.{format}");
            let told = folder.run_with(&words, &[option, stacks, &recording()]).ends(0, &[]).stderr;
            assert_eq!(told.contains("no stacks by name"), names_functions, "{format}: {told}");
            let report = folder.run_with("flame --format folded -q", &[&format!("out.{format}")]);
            let shown = ["knead", "__schedule"].iter().any(|name| report.stdout.contains(name));
            assert!(!shown, "{option} {format}: {}", report.stdout);
            // The same file with its stacks has them.
            folder
                .run_with(&format!("convert -q --force --to {format} -o whole.{format}"), &[&recording()])
                .ends(0, &[]);
            if names_functions {
                let [hidden, whole] = ["out", "whole"].map(|name| {
                    let bytes = std::fs::read(folder.path(&format!("{name}.{format}"))).expect("a file");
                    String::from_utf8_lossy(&bytes).contains("knead")
                });
                assert!(!hidden && whole, "{option} {format}");
            }
        }
        for format in ["folded", "speedscope", "firefox", "svg"] {
            let run = folder.run_with(&format!("convert --to {format} -o never"), &[option, stacks, &recording()]);
            run.ends(2, &[&format!("{option} cannot hide fields of samples in {format}"), "help:"]);
            assert!(!folder.path("never").exists());
        }
    }
}

/// Samples of each thread and function, by the events themselves: their addresses in the program, whose file is not moved.
#[test]
fn sums_are_those_of_the_events() {
    let symbols = program_symbols();
    let function = |address: u64| {
        let after = symbols.partition_point(|(begin, _)| *begin <= address);
        symbols[after - 1].1.clone()
    };
    let mut own: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut total: BTreeMap<(String, String), u64> = BTreeMap::new();
    for event in json_lines(&stdout("print --format jsonl --filter", &["name == \"cpu-clock*\"", &recording()])) {
        let chain = |key: &str| -> Vec<u64> {
            event["payload"][key]
                .as_array()
                .expect("a chain")
                .iter()
                .map(|address| address.as_u64().expect("an address"))
                .collect()
        };
        let comm = event["event_context"]["comm"].as_str().expect("a name").to_string();
        let user: Vec<String> = chain("callchain_user").into_iter().map(function).collect();
        if chain("callchain_kernel").is_empty() {
            *own.entry((comm.clone(), user[0].clone())).or_default() += 1;
        }
        let mut met: Vec<String> = user;
        met.sort();
        met.dedup();
        for name in met {
            *total.entry((comm.clone(), name)).or_default() += 1;
        }
    }
    let report = object("report --event cpu-clock --by comm --format json");
    let rows = report["functions"].as_array().expect("functions").iter().filter(|row| text(row, "module") == "bakery");
    let sums = |key: &str| -> BTreeMap<(String, String), u64> {
        let row =
            |row: &Value| ((text(row, "comm").into(), text(row, "name").into()), row[key].as_u64().expect("a number"));
        rows.clone().map(row).filter(|(_, count)| *count > 0).collect()
    };
    assert_eq!(sums("self_samples"), own);
    assert_eq!(sums("total_samples"), total);
    assert_eq!(
        report["samples"],
        total.iter().filter(|((_, name), _)| name == "day").map(|(_, count)| count).sum::<u64>()
    );
    // The period is fixed, and no sample has it.
    assert_eq!(report["total_ns"], report["samples"].as_u64().expect("a number") * 4_000_000);
}

/// The times off the CPU, by the switches of threads as events.
#[test]
fn times_off_the_cpu_are_those_between_switches() {
    let mut since: HashMap<i64, i64> = HashMap::new();
    let mut off: BTreeMap<String, i64> = BTreeMap::new();
    let mut names: HashMap<i64, String> = HashMap::new();
    for event in json_lines(&stdout("print --format jsonl", &[&recording()])) {
        let (payload, context) = (&event["payload"], &event["event_context"]);
        let (Some(ns), Some(tid)) = (event["ns"].as_i64(), context["tid"].as_i64()) else { continue };
        names.insert(tid, text(context, "comm").to_string());
        let name = text(&event, "name");
        // A thread that is sampled runs, also between its switch and the record of that.
        let gets = match name {
            "sched_switch" => payload["next_pid"].as_i64(),
            _ if name.starts_with("cpu-clock") || name == "PERF_RECORD_SWITCH" && payload["out"] == false => Some(tid),
            _ => None,
        };
        if let Some((gets, from)) = gets.and_then(|gets| Some((gets, since.remove(&gets)?))) {
            *off.entry(names[&gets].clone()).or_default() += ns - from;
        }
        if name == "sched_switch" {
            since.insert(payload["prev_pid"].as_i64().expect("a thread"), ns);
        }
    }
    assert_eq!(off.len(), 2, "{off:?}");
    let report = object("report --cpu off --by comm --format json");
    let mut own: BTreeMap<String, i64> = BTreeMap::new();
    for row in report["functions"].as_array().expect("functions") {
        *own.entry(text(row, "comm").into()).or_default() += row["self_ns"].as_i64().expect("a time");
    }
    assert_eq!(own, off);
    let both = object("report --cpu both --format json");
    let on = object("report --cpu on --event cpu-clock --format json");
    let sum = |report: &Value| report["total_ns"].as_u64().expect("a time");
    assert_eq!(sum(&both), sum(&on) + sum(&report));
}

/// From a profile the same sums come back, by event, thread and function.
#[test]
fn profiles_can_be_read_back() {
    let folder = Folder::new();
    let sums = |trace: &str, by: &str| -> BTreeMap<String, [u64; 2]> {
        let report: Value =
            serde_json::from_str(&stdout("report --format json --by", &[by, trace])).expect("an object");
        let row = |row: &Value| {
            let key = ["event", "comm", "name"].map(|key| text(row, key).to_string()).join("|");
            (key, ["self", "total"].map(|key| row[key].as_u64().expect("a number")))
        };
        report["functions"].as_array().expect("functions").iter().map(row).collect()
    };
    let want = sums(&recording(), "event,comm");
    for name in ["out.speedscope.json", "out.firefox.json"] {
        folder.run_with("convert", &[&recording(), name]).ends(0, &["no samples (118)"]);
        let path = folder.path(name).display().to_string();
        assert_eq!(sums(&path, "event,comm"), want, "{name}");
        // And once more.
        folder.run_with("convert -o", &[&format!("again.{name}"), &path]).ends(0, &[]);
        assert_eq!(sums(&folder.path(&format!("again.{name}")).display().to_string(), "event,comm"), want, "{name}");
    }
    folder.run_with("convert", &[&recording(), "out.folded"]).ends(0, &["no samples (118)"]);
    let path = folder.path("out.folded").display().to_string();
    let written = std::fs::read_to_string(&path).expect("a file");
    let again = stdout("flame --format folded", &[&path]);
    let lines = |text: &str| text.lines().map(str::to_string).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(lines(&again), lines(&written));
    // Calls are calls again.
    let calls = demo("../calls/tasting");
    folder.run_with("convert", &[&calls, "calls.speedscope.json"]).ends(0, &["not kept"]);
    let path = folder.path("calls.speedscope.json").display().to_string();
    // Of threads without `longjmp`, whose ends are no records; and without the times that uftrace derives from scheduling.
    let functions = |trace: &str| -> BTreeMap<String, [u64; 2]> {
        let report: Value =
            serde_json::from_str(&stdout("report --format json --tid 12531,12532", &[trace])).expect("an object");
        let row = |row: &Value| {
            let numbers = ["calls", "total_ns"].map(|key| row[key].as_u64().expect("a number"));
            (text(row, "name").to_string(), numbers)
        };
        let rows = report["functions"].as_array().expect("functions").iter().map(row);
        rows.filter(|(name, _)| !name.starts_with("linux:")).collect()
    };
    assert_eq!(functions(&path), functions(&calls));
}

/// To Perfetto and back, functions have the same numbers of samples: it has no place for weights, and says nothing of time then.
#[test]
fn samples_in_perfetto_have_their_stacks() {
    let folder = Folder::new();
    let told = "fields of samples, beside their thread, CPU and stack (3)";
    folder.run_with("convert", &[&recording(), "bakery.pftrace"]).ends(0, &[told]);
    let path = folder.path("bakery.pftrace").display().to_string();
    let samples = |trace: &str| -> BTreeMap<String, [u64; 2]> {
        let report: Value =
            serde_json::from_str(&stdout("report --event cpu-clock* --by thread --format json", &[trace]))
                .expect("an object");
        let row = |row: &Value| {
            let key = ["thread", "name", "module"].map(|key| text(row, key).to_string()).join("|");
            (key, ["self_samples", "total_samples"].map(|key| row[key].as_u64().expect("a number")))
        };
        assert_eq!(report["samples"], 30);
        report["functions"].as_array().expect("functions").iter().map(row).collect()
    };
    assert_eq!(samples(&path), samples(&recording()));
    let report: Value =
        serde_json::from_str(&stdout("report --event cpu-clock* --format json", &[&path])).expect("an object");
    assert_eq!((&report["unit"], &report["total_ns"]), (&Value::from("samples"), &Value::Null));
}

/// Contexts with stacks, as LTTng has them, and the kernel's symbols next to the trace.
/// Stacks of samples in trace JSON: those of its lists, and those that are read back.
#[test]
fn samples_in_chrome_have_their_stacks() {
    let folder = Folder::new();
    let recording = recording();
    let run = folder.run_with("convert -q --to chrome -o out.json --loss-report losses.json", &[&recording]);
    run.ends(0, &[]);
    let losses = std::fs::read_to_string(folder.path("losses.json")).expect("a report");
    assert!(!losses.contains("samples"), "{losses}");
    // Events of CPUs stand on them, not on their threads.
    let flame = "flame --format folded --by event";
    let want = stdout(flame, &[&recording]);
    assert_eq!(folder.run(&format!("{flame} out.json")).ends(0, &[]).stdout, want);
    // Again, as its functions are named in fields now.
    folder.run("convert -q out.json again.ctf").ends(0, &[]);
    folder.run("convert -q again.ctf again.json").ends(0, &[]);
    assert_eq!(folder.run(&format!("{flame} again.json")).ends(0, &[]).stdout, want);

    let text = std::fs::read_to_string(folder.path("out.json")).expect("a file");
    let document: Value = serde_json::from_str(&text).expect("an object");
    let frames = &document["stackFrames"];
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for sample in document["samples"].as_array().expect("a list") {
        let mut names = Vec::new();
        let mut next = Some(sample["sf"].to_string());
        while let Some(number) = next {
            let frame = &frames[number.as_str()];
            names.push(text_of(frame, "name"));
            next = frame["parent"].as_str().map(str::to_string);
        }
        names.reverse();
        *sums.entry(names.join(";")).or_default() += sample["weight"].as_u64().expect("a number");
    }
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    for line in stdout("flame --format folded", &[&recording]).lines() {
        let (stack, weight) = line.rsplit_once(' ').expect("a weight");
        let stack = stack.split_once(';').expect("the event").1;
        *folded.entry(stack.to_string()).or_default() += weight.parse::<u64>().expect("a number");
    }
    assert_eq!(sums, folded);
}

#[test]
fn stacks_of_contexts_say_where_threads_wait_and_who_woke_them() {
    let kernel = |offset: u64| 0xffff_ffff_8100_0000 + offset;
    let event = |ns: u64, name: &str, (tid, procname): (i64, Option<&str>), stack: [u64; 2], payload: Value| {
        let mut context = serde_json::json!({"tid": tid, "callstack_kernel": stack.map(kernel)});
        if let Some(procname) = procname {
            context["procname"] = procname.into();
        }
        serde_json::json!({"ns": ns, "name": name, "cpu": 0, "stream_context": context, "payload": payload}).to_string()
            + "\n"
    };
    let switch = |prev: i64, comm: &str, state: i64, next: i64| serde_json::json!({"prev_comm": comm, "prev_tid": prev, "prev_state": state, "next_tid": next, "next_comm": "x"});
    let wake = serde_json::json!({"tid": 5, "comm": "oven", "prio": 20, "target_cpu": 0});
    let lines = [
        event(1000, "sched_switch", (5, None), [0x12, 0x25], switch(5, "oven", 1, 6)),
        event(2000, "sched_waking", (6, Some("log")), [0x42, 0x55], wake.clone()),
        // Only the first wake counts.
        event(2100, "sched_wakeup", (6, Some("other")), [0x42, 0x25], wake),
        event(2500, "sched_switch", (6, None), [0x12, 0x25], switch(6, "log", 0, 5)),
        event(3000, "sched_switch", (5, None), [0x12, 0x25], switch(5, "oven", 1, 6)),
    ];
    let folder = Folder::new();
    folder.file("t.jsonl", lines.concat());
    let trace = folder.path("t.jsonl").display().to_string();
    let off = |more: &[&str]| {
        let arguments: Vec<&str> = more.iter().copied().chain(["--by", "comm", &*trace]).collect();
        stdout("flame --cpu off --format folded", &arguments)
    };
    assert_eq!(off(&[]), "log;[unknown];[unknown];(preempted) 500\noven;[unknown];[unknown] 1500\n");
    let symbols =
        [(0, "_text"), (0x10, "__schedule"), (0x20, "futex_wait"), (0x40, "try_to_wake_up"), (0x50, "wake_q")];
    let list = symbols.map(|(offset, name)| format!("{:016x} T {name}\n", kernel(offset)));
    folder.file("kallsyms", list.concat());
    assert_eq!(off(&[]), "log;futex_wait;__schedule;(preempted) 500\noven;futex_wait;__schedule 1500\n");
    let preempted = "log;futex_wait;__schedule;(preempted) 500\n";
    let woken = "oven;futex_wait;__schedule;(woken by);try_to_wake_up;wake_q;log 1500\n";
    assert_eq!(off(&["--wakers"]), format!("{preempted}{woken}"));
    // The thread that an interrupt had interrupted woke no one.
    folder.file("kallsyms", list.concat().replace("wake_q", "asm_sysvec_apic_timer_interrupt"));
    let by_timer = lines.map(|line| match line.contains("sched_waking") {
        true => line.replace("\"stream_context\":{", "\"stream_context\":{\"common_flags\":9,"),
        false => line,
    });
    folder.file("t.jsonl", by_timer.concat());
    let by_timer =
        "oven;futex_wait;__schedule;(woken by);try_to_wake_up;asm_sysvec_apic_timer_interrupt;(interrupt) 1500\n";
    assert_eq!(off(&["--wakers"]), format!("{preempted}{by_timer}"));
    run_with("flame", &["--wakers", &trace]).ends(2, &["--wakers is about time without a CPU", "--cpu off"]);
}

#[test]
fn a_text_of_perf_script_is_the_same_profile() {
    let folder = Folder::new();
    let lines = "app 7 1.000001: 250 cycles:u: \n\t401136 leaf+0x2a (/bin/app)\n\t401200 main+0x1 (/bin/app)\n\n\
                 app 7 1.000002: 750 cycles:u: \n\tffffffff81 do_idle+0x1 ([kernel.kallsyms])\n\t401200 main+0x9 (/bin/app)\n\n";
    folder.file("perf.txt", lines);
    let path = folder.path("perf.txt").display().to_string();
    let folded = stdout("flame --format folded", &[&path]);
    assert_eq!(folded, "main;do_idle 750\nmain;leaf 250\n");
    let rows = csv_rows(&stdout("report --format csv --sort function", &[&path]));
    assert_eq!(rows[0].join(","), "self,total,self_events,total_events,samples,total_samples,module,function");
    assert_eq!(rows[1].join(","), "0.75,0.75,750,750,1,1,[kernel.kallsyms],do_idle");
    assert_eq!(rows[3].join(","), "0.0,1.0,0,1000,0,2,app,main");
    assert_eq!(stdout("flame --format folded --weight count", &[&path]), "main;do_idle 1\nmain;leaf 1\n");
    assert_eq!(stdout("flame --format folded --by comm,event -F leaf", &[&path]), "app;cycles:u;leaf 250\n");
    run_with("report --cpu both", &[&path]).ends(2, &["--cpu both adds times", "--event cpu-clock"]);
    run_with("report --cpu off", &[&path]).ends(0, &["no event says when threads leave their CPUs"]);
    run_with("report --event cache-misses", &[&path]).ends(0, &["no event with samples has this name", "are cycles:u"]);
}

#[test]
fn all_forms_of_a_flame_graph_agree() {
    let of = |format: &str| stdout(&format!("flame --event cpu-clock --format {format}"), &[&recording()]);
    let folded = of("folded");
    let sum: u64 =
        folded.lines().map(|line| line.rsplit_once(' ').expect("a number").1.parse::<u64>().expect("a number")).sum();
    let nested: Value = serde_json::from_str(&of("nested")).expect("an object");
    assert_eq!(nested["value"], sum);
    let json: Value = serde_json::from_str(&of("json")).expect("an object");
    let nodes = json["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.iter().map(|node| node["self_ns"].as_u64().expect("a time")).sum::<u64>(), sum);
    assert_eq!(nodes[0]["samples"], 30);
    let svg = of("svg");
    assert!(
        svg.contains("Samples of cpu-clock/period=4000000/") && svg.contains("knead (19 samples, 76.000 ms, 63.33%)"),
        "{svg}"
    );
    let folder = Folder::new();
    folder.file("stacks.txt", &folded);
    let stacks = folder.path("stacks.txt").display().to_string();
    assert_eq!(stdout("flame --folded --format folded", &[&stacks]), folded);
    let same = stdout("flame --event cpu-clock --diff", &[&recording(), &recording()]);
    assert!(
        same.contains("+0.00% from 76.000 ms") && !same.contains("%, new"),
        "a recording does not differ from itself"
    );
    let same = stdout("report --format csv --event cpu-clock --diff", &[&recording(), &recording()]);
    assert!(csv_rows(&same)[1..].iter().all(|row| row[0] == row[1] && row[2] == "0.0"), "{same}");
}

#[test]
fn files_with_another_build_id_have_no_say() {
    let folder = Folder::new();
    let copy = |name: &str| {
        let bytes = std::fs::read(demo("../samples").to_string() + "/" + name).expect("a file of the demo");
        std::fs::write(folder.path(name), &bytes).expect("a copy");
        bytes
    };
    copy("bakery.data");
    copy("kallsyms");
    let run = |folder: &PathBuf, more: &[&str]| {
        let mut command: Command = util::command();
        let path = folder.join("bakery.data");
        command.env("HOME", folder).args(["report", "--event", "cpu-clock", "--format", "csv"]).args(more).arg(path);
        Run::from_output(command.output().expect("the program starts"))
    };
    let root = folder.path("");
    let found = run(&root, &[]).ends(0, &["28 samples", "/usr/local/bin/bakery"]).stdout;
    assert!(found.contains("[bakery+0x") && found.contains("finish_task_switch"), "{found}");
    let program = copy("bakery");
    assert!(run(&root, &[]).ends(0, &[]).stdout.contains(",bakery,knead"));
    // Its build id is the only place with these bytes.
    let at = program.windows(4).position(|bytes| bytes == b"GNU\0").expect("a note") + 4;
    let mut other = program.clone();
    other[at] ^= 1;
    std::fs::write(folder.path("bakery"), &other).expect("another program");
    assert!(!run(&root, &[]).ends(0, &["/usr/local/bin/bakery"]).stdout.contains("knead"));
    // The file system of the other machine.
    std::fs::create_dir_all(folder.path("root/usr/local/bin")).expect("folders");
    std::fs::write(folder.path("root/usr/local/bin/bakery"), &program).expect("the program");
    let prefix = folder.path("root").display().to_string();
    assert!(run(&root, &["--symfs", &prefix]).ends(0, &[]).stdout.contains(",bakery,knead"));
    // Symbols of a kernel that is at another address now.
    let moved = std::fs::read_to_string(folder.path("kallsyms")).expect("symbols");
    let moved: String = moved
        .lines()
        .map(|line| {
            format!("{:016x}{}\n", u64::from_str_radix(&line[..16], 16).expect("an address") + 0x1200_0000, &line[16..])
        })
        .collect();
    folder.file("moved", &moved);
    let list = folder.path("moved").display().to_string();
    std::fs::remove_file(folder.path("kallsyms")).expect("it was there");
    let found = run(&root, &["--kallsyms", &list, "--symfs", &prefix]).ends(0, &[]).stdout;
    assert!(found.contains("finish_task_switch"), "{found}");
}

/// Commands that name functions of samples take the same options.
#[test]
fn inlined_functions_can_be_left_out() {
    let folder = Folder::new();
    if !util::put_program_with_inlined(&folder) {
        return;
    }
    let recording = recording();
    let folded = |more: &str| -> BTreeMap<String, u64> {
        folder.run(&format!("convert -q --symfs root {more} --to folded --force -o out {recording}")).ends(0, &[]);
        let text = std::fs::read_to_string(folder.path("out")).expect("a file");
        let line =
            |line: &str| line.rsplit_once(' ').map(|(stack, weight)| (stack.to_string(), weight.parse().expect("ns")));
        text.lines().filter_map(line).collect()
    };
    let (with, without) = (folded(""), folded("--no-inline"));
    let inlined = ["often", "mix", "stir"];
    assert!(with.keys().any(|stack| stack.ends_with("_start;often;mix;stir")), "{with:?}");
    let mut folded_up: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, weight) in with {
        let names: Vec<&str> = stack.split(';').filter(|name| !inlined.contains(name)).collect();
        *folded_up.entry(names.join(";")).or_default() += weight;
    }
    assert_eq!(folded_up, without);

    let report = |more: &str| {
        let run = folder.run(&format!("report -q --format csv --symfs root {more} {recording}"));
        run.ends(0, &[]).stdout.contains(",bakery,stir")
    };
    assert!(report("") && !report("--no-inline"));
}

#[test]
fn commands_for_calls_say_that_samples_are_none() {
    run_with("replay", &[&recording()]).ends(1, &["the trace has samples", "`tracemill report`, `graph` and `flame`"]);
    run_with("dump", &[&recording()]).ends(1, &["the trace has samples"]);
    run_with("report --by nosuch", &[&recording()]).ends(2, &["cannot be grouped by `nosuch`", "event, thread"]);
    run_with("report --task", &[&recording()]).ends(2, &["--by thread"]);
    run_with("flame --event cycles", &[&demo("../calls/tasting")]).ends(2, &["--event is for samples"]);
    run_with("graph --event cpu-clock --function nosuch", &[&recording()])
        .ends(0, &["no sample is in a function `nosuch`"]);
    run_with("report --event cpu-clock -t 5us", &[&recording()]).ends(0, &["--time-filter has no effect on samples"]);
}

/// Compares the numbers with those of `perf report`, where that is installed.
#[test]
fn perf_reports_the_same() {
    let mut perf = Command::new("perf");
    perf.args(["report", "--stdio", "--no-children", "-g", "none", "-f", "-F", "sample,comm,sym", "-t", ";"]);
    perf.args(["--symfs", &demo("../samples/nosuch"), "-i", &recording()]).env("HOME", "/nosuch");
    let Ok(output) = perf.output() else { return };
    if !output.status.success() {
        return;
    }
    // By event and name of the thread: perf has no symbols here.
    let mut theirs: BTreeMap<String, u64> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split(';').map(str::trim).collect();
        if let [count, comm, _] = cells[..] {
            *theirs.entry(comm.to_string()).or_default() += count.parse::<u64>().unwrap_or(0);
        }
    }
    let mut ours: BTreeMap<String, u64> = BTreeMap::new();
    for row in object("report --by comm --format json")["functions"].as_array().expect("functions") {
        *ours.entry(text(row, "comm").to_string()).or_default() += row["self_samples"].as_u64().expect("a number");
    }
    assert_eq!(ours, theirs);
}

const WITHOUT_FRAME_POINTERS: &str = "
#include <stdlib.h>
#include <string.h>
static volatile unsigned sink;
__attribute__((noinline)) unsigned leaf(unsigned n) { for (int i = 0; i < 2000; i++) n = n * 31 ^ n >> 3; return n; }
static int order(const void *a, const void *b) { return leaf(*(const unsigned *)a) < leaf(*(const unsigned *)b) ? -1 : 1; }
__attribute__((noinline)) unsigned sorting(unsigned n) {
    unsigned all[8];
    for (int i = 0; i < 8; i++) all[i] = n * i;
    qsort(all, 8, sizeof *all, order);
    return all[3];
}
__attribute__((noinline)) unsigned deep(unsigned n, int level) {
    unsigned found = level ? deep(n, level - 1) + 1 : leaf(n);
    sink += found;
    return found ^ level;
}
__attribute__((noinline)) unsigned room(unsigned n) { char all[3000]; memset(all, n, sizeof all); return leaf(n) + all[n % 3000]; }
int main(void) {
    for (unsigned at = 0; at < 3000; at++) sink += sorting(at) + deep(at, at % 12) + room(at);
}
";

/// Stacks that perf copied, as `perf script` follows them: the functions of the program in each sample.
#[test]
fn copied_stacks_have_the_callers_that_perf_finds() {
    let folder = Folder::new();
    folder.file("app.c", WITHOUT_FRAME_POINTERS);
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(folder.path("")).env("HOME", folder.path("")).args(arguments);
        command.output().ok().filter(|output| output.status.success())
    };
    if run("gcc", &["-O2", "-fomit-frame-pointer", "-o", "app", "app.c"]).is_none() {
        return eprintln!("left out: there is no gcc");
    }
    let recorded =
        run("perf", &["record", "-q", "-e", "cpu-clock:u", "--call-graph", "dwarf", "-o", "app.data", "./app"]);
    if recorded.is_none() {
        return eprintln!("left out: perf is not installed or may not record");
    }
    let script =
        run("perf", &["script", "-F", "ip,sym", "--no-inline", "-i", "app.data"]).expect("perf reads its file");
    let known = ["main", "leaf", "order", "sorting", "deep", "room"];
    let mut theirs: BTreeMap<String, i64> = BTreeMap::new();
    for sample in String::from_utf8_lossy(&script.stdout).split("\n\n") {
        let names = sample.lines().rev().filter_map(|line| line.split_whitespace().nth(1));
        let names: Vec<&str> = names.filter(|name| known.contains(name)).collect();
        *theirs.entry(names.join(";")).or_default() += i64::from(!sample.trim().is_empty());
    }
    let mut differing = theirs.clone();
    let arguments = "flame --format folded --weight count --no-inline";
    for line in folder.run(&format!("{arguments} app.data")).ends(0, &[]).stdout.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a number");
        let names: Vec<&str> = stack.split(';').filter(|name| known.contains(name)).collect();
        *differing.entry(names.join(";")).or_default() -= count.parse::<i64>().expect("a number");
    }
    let samples: i64 = theirs.values().sum();
    let differ: i64 = differing.values().map(|count| count.abs()).sum::<i64>() / 2;
    assert!(samples >= 20, "{theirs:?}");
    assert!(differ * 20 <= samples, "{differ} of {samples} samples: {differing:?}");
    assert!(theirs.keys().any(|stack| stack.ends_with("sorting;order;leaf")), "{theirs:?}");
}

/// Sums of the innermost functions, in the three formats of stacks.
#[test]
fn stacks_of_samples_are_written_for_other_tools() {
    let folder = Folder::new();
    let recording = recording();
    let mut flame: BTreeMap<String, u64> = BTreeMap::new();
    let folded = stdout("flame --format folded --by event,thread", &[&recording]);
    let split = |line: &str| {
        let (stack, weight) = line.rsplit_once(' ').expect("a weight");
        (stack.rsplit(';').next().expect("a function").to_string(), weight.parse::<u64>().expect("a number"))
    };
    for line in folded.lines() {
        let (function, weight) = split(line);
        *flame.entry(function).or_default() += weight;
    }
    assert!(flame.len() > 3, "{folded}");
    let told = "events that are no samples (118)";
    folder.run(&format!("convert {recording} out.folded")).ends(0, &[told]);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let written = std::fs::read_to_string(folder.path("out.folded")).expect("a file");
    for (function, weight) in written.lines().map(split) {
        *sums.entry(function).or_default() += weight;
    }
    assert_eq!(sums, flame);

    folder.run(&format!("convert {recording} out.speedscope.json")).ends(0, &[told]);
    let text = std::fs::read_to_string(folder.path("out.speedscope.json")).expect("a file");
    let profile: Value = serde_json::from_str(&text).expect("an object");
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let names: Vec<String> = list(&profile["shared"]["frames"]).iter().map(|frame| text_of(frame, "name")).collect();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for thread in list(&profile["profiles"]) {
        let is_clock = text_of(&thread, "name").starts_with("cpu-clock");
        assert_eq!(text_of(&thread, "unit"), if is_clock { "nanoseconds" } else { "none" });
        let weights: Vec<u64> =
            list(&thread["weights"]).iter().map(|weight| weight.as_u64().expect("a number")).collect();
        assert_eq!(thread["endValue"].as_u64(), Some(weights.iter().sum()));
        for (stack, weight) in list(&thread["samples"]).iter().zip(weights) {
            let last = list(stack).last().and_then(Value::as_u64).expect("a frame");
            *sums.entry(names[last as usize].clone()).or_default() += weight;
        }
    }
    assert_eq!(sums, flame);

    folder.run(&format!("convert {recording} out.firefox.json")).ends(0, &[told]);
    let text = std::fs::read_to_string(folder.path("out.firefox.json")).expect("a file");
    let profile: Value = serde_json::from_str(&text).expect("an object");
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for thread in list(&profile["threads"]) {
        let names = list(&thread["stringArray"]);
        let of = |at: &Value| {
            let frame = &thread["stackTable"]["frame"][at.as_u64().expect("a stack") as usize];
            let function = &thread["frameTable"]["func"][frame.as_u64().expect("a frame") as usize];
            let name = &thread["funcTable"]["name"][function.as_u64().expect("a function") as usize];
            names[name.as_u64().expect("a name") as usize].as_str().expect("a text").to_string()
        };
        let scale = if text_of(&thread["samples"], "weightType") == "tracing-ms" { 1e6 } else { 1.0 };
        for (stack, weight) in list(&thread["samples"]["stack"]).iter().zip(list(&thread["samples"]["weight"])) {
            *sums.entry(of(stack)).or_default() += (weight.as_f64().expect("a number") * scale).round() as u64;
        }
    }
    assert_eq!(sums, flame);

    folder.run_with("convert", &[&recording, "some.folded", "--filter", "name == \"sched_switch\""]).ends(0, &[]);
    let some = std::fs::read_to_string(folder.path("some.folded")).expect("a file");
    assert_eq!(some.lines().map(|line| split(line).1).sum::<u64>(), 54, "{some}");
    folder.run(&format!("convert {recording} one.folded --limit 1")).ends(0, &[]);
    assert_eq!(std::fs::read_to_string(folder.path("one.folded")).expect("a file").lines().count(), 1);
    folder.run(&format!("convert {recording} --to folded --split stream -o parts")).ends(2, &["of samples"]);
    folder.run(&format!("convert {recording} out.svg")).ends(0, &[told]);
}

fn text_of(value: &Value, key: &str) -> String {
    text(value, key).to_string()
}
