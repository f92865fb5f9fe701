//! Threads and processes in exports: they are called what the state machine of kernel events calls them, as in `view` and
//! `analyze`, and what is open at the end ends there.

mod util;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use prost::Message;
use serde_json::Value;
use util::Folder;

const METADATA: &str = "/* CTF 1.8 */
    typealias integer { size = 8; align = 8; signed = false; } := u8;
    typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := c8;
    typealias integer { size = 8; align = 8; signed = false; map = clock.c.value; } := t8;
    trace { major = 1; minor = 8; byte_order = le; };
    env { domain = \"kernel\"; hostname = \"mill\"; };
    clock { name = c; freq = 1000000000; };
    stream {
        packet.context := struct { u8 cpu_id; };
        event.header := struct { u8 id; t8 t; };
    };
    event { name = \"sched_switch\"; id = 0; fields := struct {
        c8 prev_comm[6]; u8 prev_tid; u8 prev_prio; u8 prev_state; c8 next_comm[6]; u8 next_tid; u8 next_prio; }; };
    event { name = \"sched_process_fork\"; id = 1; fields := struct {
        u8 parent_tid; u8 parent_pid; u8 child_tid; u8 child_pid; c8 child_comm[6]; }; };
    event { name = \"sched_process_exec\"; id = 2; fields := struct { string filename; u8 tid; }; };
    event { name = \"sched_process_exit\"; id = 3; fields := struct { u8 tid; }; };
    event { name = \"sched_process_free\"; id = 4; fields := struct { u8 tid; }; };
    event { name = \"syscall_entry_read\"; id = 5; };
    event { name = \"syscall_exit_read\"; id = 6; };";

/// A name of six bytes.
fn comm(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(6, 0);
    bytes
}

fn switch(time: u8, prev: (&str, u8), state: u8, next: (&str, u8)) -> Vec<u8> {
    [vec![0, time], comm(prev.0), vec![prev.1, 20, state], comm(next.0), vec![next.1, 20]].concat()
}

fn fork(time: u8, child: u8) -> Vec<u8> {
    [vec![1, time, 5, 5, child, child], comm("sh")].concat()
}

fn exec(time: u8, name: &str, tid: u8) -> Vec<u8> {
    [vec![2, time], name.as_bytes().to_vec(), vec![0, tid]].concat()
}

/// Thread 6 is `baker`, reads when it dies, and then another one, which is `miller`, and reads until the end.
fn trace(folder: &Folder) {
    let idle = ("idle", 0);
    let events = [
        vec![0],
        switch(10, idle, 0, ("sh", 5)),
        fork(12, 6),
        switch(14, ("sh", 5), 1, ("sh", 6)),
        exec(15, "/bin/baker", 6),
        vec![5, 16],
        vec![3, 18, 6],
        switch(20, ("baker", 6), 16, idle),
        vec![4, 22, 6],
        switch(30, idle, 0, ("sh", 5)),
        fork(31, 6),
        switch(33, ("sh", 5), 1, ("sh", 6)),
        exec(34, "/bin/miller", 6),
        vec![5, 36],
        switch(40, ("miller", 6), 1, idle),
        switch(60, idle, 0, ("sh", 5)),
    ];
    fs::create_dir(folder.path("t")).expect("a new folder");
    fs::write(folder.path("t/metadata"), METADATA).expect("the folder is there");
    fs::write(folder.path("t/s"), events.concat()).expect("the folder is there");
}

fn bakery() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/kernel/bakery").display().to_string()
}

fn exported(folder: &Folder, to: &str, trace: &str) -> Vec<u8> {
    folder.run_with(&format!("convert -q --force --to {to}"), &["-o", "out", trace]).ends(0, &[]);
    fs::read(folder.path("out")).expect("it was written")
}

fn json(folder: &Folder, to: &str, trace: &str) -> Value {
    serde_json::from_slice(&exported(folder, to, trace)).expect("it is JSON")
}

/// The last name of each thread in Chrome's JSON, as `NAME TID`.
fn chrome_names(file: &Value, kind: &str) -> BTreeSet<String> {
    let events = file["traceEvents"].as_array().expect("events").iter();
    let named = events.filter(|event| event["name"] == kind);
    let last: std::collections::BTreeMap<(i64, i64), String> = named
        .map(|event| {
            let id = |key: &str| event[key].as_i64().expect("a number");
            ((id("pid"), id("tid")), event["args"]["name"].as_str().expect("a name").to_string())
        })
        .collect();
    let title =
        |((pid, tid), name): ((i64, i64), String)| format!("{name} {}", if kind == "process_name" { pid } else { tid });
    last.into_iter().filter(|((_, tid), _)| *tid < 1 << 30).map(title).collect()
}

#[derive(Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Message)]
struct Packet {
    #[prost(message, optional, tag = "1")]
    kernel: Option<Bundle>,
    #[prost(message, optional, tag = "2")]
    process_tree: Option<ProcessTree>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Message)]
struct Bundle {
    #[prost(message, repeated, tag = "2")]
    events: Vec<KernelEvent>,
}

#[derive(Message)]
struct KernelEvent {
    #[prost(message, optional, tag = "236")]
    rename: Option<Rename>,
}

#[derive(Message)]
struct Rename {
    #[prost(int32, tag = "1")]
    tid: i32,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Message)]
struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    processes: Vec<TreeProcess>,
    #[prost(message, repeated, tag = "2")]
    threads: Vec<TreeThread>,
}

#[derive(Message)]
struct TreeProcess {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, repeated, tag = "3")]
    command: Vec<String>,
}

#[derive(Message)]
struct TreeThread {
    #[prost(int32, tag = "1")]
    tid: i32,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Message)]
struct TrackEvent {
    #[prost(uint32, tag = "9")]
    kind: u32,
    #[prost(uint64, tag = "11")]
    track: u64,
}

#[derive(Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, optional, tag = "3")]
    process: Option<Process>,
    #[prost(message, optional, tag = "4")]
    thread: Option<Thread>,
}

#[derive(Message)]
struct Process {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, optional, tag = "6")]
    name: Option<String>,
}

#[derive(Message)]
struct Thread {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(int32, tag = "2")]
    tid: i32,
    #[prost(string, tag = "5")]
    name: String,
}

/// Names of threads and processes as trace_processor takes them: the last one of a thread; the first one of a process, unless
/// its first thread is renamed.
fn perfetto_names(trace: &Trace) -> (BTreeSet<String>, BTreeSet<String>) {
    let descriptors = || trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref());
    let mut threads = std::collections::BTreeMap::new();
    let mut processes = std::collections::BTreeMap::new();
    for thread in descriptors().filter_map(|of| of.thread.as_ref()) {
        threads.insert(thread.tid, format!("{} {}", thread.name, thread.tid));
    }
    for tree in trace.packet.iter().filter_map(|packet| packet.process_tree.as_ref()) {
        for thread in tree.threads.iter().filter(|thread| !thread.name.is_empty()) {
            threads.insert(thread.tid, format!("{} {}", thread.name, thread.tid));
        }
        for process in tree.processes.iter().filter(|process| !process.command.is_empty()) {
            processes.entry(process.pid).or_insert_with(|| format!("{} {}", process.command.join(" "), process.pid));
        }
    }
    for process in descriptors().filter_map(|of| of.process.as_ref()) {
        if let Some(name) = &process.name {
            processes.entry(process.pid).or_insert_with(|| format!("{name} {}", process.pid));
        }
    }
    let bundles = trace.packet.iter().filter_map(|packet| packet.kernel.as_ref());
    for rename in bundles.flat_map(|bundle| &bundle.events).filter_map(|event| event.rename.as_ref()) {
        threads.insert(rename.tid, format!("{} {}", rename.name, rename.tid));
        processes.insert(rename.tid, format!("{} {}", rename.name, rename.tid));
    }
    (threads.into_values().collect(), processes.into_values().collect())
}

#[test]
fn threads_have_the_names_that_analyses_show() {
    let folder = Folder::new();
    let rows = folder.run_with("analyze processes --format csv -q", &[&bakery()]).ends(0, &[]).stdout;
    let mut lines = rows.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let column = |name: &str| header.iter().position(|own| own.split(' ').next() == Some(name)).expect("a column");
    let (tid, pid, comm) = (column("tid"), column("pid"), column("comm"));
    let (mut known, mut processes) = (BTreeSet::new(), BTreeSet::new());
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        known.insert(format!("{} {}", cells[comm], cells[tid]));
        if cells[tid] == cells[pid] {
            processes.insert(format!("{} {}", cells[comm], cells[pid]));
        }
    }
    let is_thread = |name: &String| !name.starts_with("CPU ");
    let chrome = json(&folder, "chrome", &bakery());
    let names = chrome_names(&chrome, "thread_name");
    assert!(names.contains("oven-1 641") && names.contains("weigh 9003"), "{names:?}");
    assert!(names.is_subset(&known), "{names:?}");
    let own = chrome_names(&chrome, "process_name");
    let own: BTreeSet<String> = own.into_iter().filter(|name| !name.contains("bakery")).collect();
    assert!(own.contains("weigh 9003") && own.is_subset(&processes), "{own:?}");

    let trace = Trace::decode(exported(&folder, "perfetto", &bakery()).as_slice()).expect("it is a message");
    // Kernel events name threads that have no track.
    let (threads, of_perfetto) = perfetto_names(&trace);
    assert!(names.is_subset(&threads) && threads.is_subset(&known), "{threads:?}");
    assert!(own.is_subset(&of_perfetto) && of_perfetto.is_subset(&processes), "{of_perfetto:?}");

    let text = String::from_utf8(exported(&folder, "folded", &bakery())).expect("it is text");
    let folded: BTreeSet<String> = text.lines().filter_map(|line| Some(line.split_once(';')?.0.to_string())).collect();
    let folded: BTreeSet<String> = folded.into_iter().filter(is_thread).collect();
    assert!(folded.contains("oven-1 641") && folded.is_subset(&known), "{folded:?}");
    for (to, list) in [("speedscope", "profiles"), ("firefox", "threads")] {
        let file = json(&folder, to, &bakery());
        let of = file[list].as_array().expect("a list").iter();
        let of: BTreeSet<String> =
            of.filter_map(|of| Some(of["name"].as_str()?.to_string())).filter(is_thread).collect();
        assert!(
            of.is_superset(&folded) && of.iter().filter(|name| *name != "channel0_1").all(|name| known.contains(name)),
            "{to}: {of:?}"
        );
    }
    let firefox = json(&folder, "firefox", &bakery());
    let oven = firefox["threads"].as_array().expect("a list").iter().find(|of| of["name"] == "oven-1 641");
    assert_eq!(oven.expect("it is there")["processName"], "counter");
}

#[test]
fn a_number_that_is_used_again_is_another_thread_and_what_is_open_ends_at_the_end() {
    let folder = Folder::new();
    trace(&folder);
    let text = String::from_utf8(exported(&folder, "folded", "t")).expect("it is text");
    // The first one dies at 22, the other one lives until 60.
    assert_eq!(text, "baker 6;syscall_read 6\nmiller 6;syscall_read 24\n");
    let file = json(&folder, "speedscope", "t");
    let ends = |at: usize| file["profiles"][at]["events"][1]["at"].clone();
    assert_eq!((ends(0), ends(1)), (Value::from(12), Value::from(50)), "{file}");

    let chrome = json(&folder, "chrome", "t");
    let events = chrome["traceEvents"].as_array().expect("events");
    let slices = |phase: &str| -> Vec<(i64, i64)> {
        let of = events.iter().filter(|event| event["ph"] == phase);
        of.map(|event| {
            (event["tid"].as_i64().expect("a number"), (event["ts"].as_f64().expect("a time") * 1000.0).round() as i64)
        })
        .collect()
    };
    let (begins, ends) = (slices("B"), slices("E"));
    assert_eq!(begins.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [6, 26]);
    assert_eq!(ends, [(begins[0].0, 12), (begins[1].0, 50)]);
    assert!(begins[0].0 == 6 && begins[1].0 != 6, "{begins:?}");

    let perfetto = Trace::decode(exported(&folder, "perfetto", "t").as_slice()).expect("it is a message");
    // Every slice ends, those of what CPUs run too: at the end of the trace.
    let mut open = std::collections::BTreeMap::new();
    let mut last = 0;
    for packet in &perfetto.packet {
        let (Some(event), Some(at)) = (&packet.track_event, packet.timestamp) else { continue };
        *open.entry(event.track).or_insert(0) += match event.kind {
            1 => 1,
            2 => -1,
            _ => 0,
        };
        last = at.max(last);
    }
    assert!(open.values().all(|count| *count == 0) && last == 60, "{open:?} {last}");
    let named = |wanted: &str| {
        let mut all = perfetto.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref());
        all.any(|of| of.uuid > 0 && (of.name == wanted || of.thread.as_ref().is_some_and(|of| of.name == wanted)))
    };
    assert!(named("baker") && named("miller 6"));
}
