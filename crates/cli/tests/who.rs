//! The same event is on the same thread in every output: each is read back, and must say the same.

mod util;

use std::collections::HashMap;
use std::fs;

use prost::Message;
use util::{Folder, csv_rows, demo, json_lines};

#[derive(Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Message)]
struct Packet {
    #[prost(message, optional, tag = "1")]
    kernel: Option<Bundle>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

/// Events of the kernel of one CPU.
#[derive(Message)]
struct Bundle {
    #[prost(uint32, tag = "1")]
    cpu: u32,
    #[prost(message, repeated, tag = "2")]
    events: Vec<KernelEvent>,
}

#[derive(Message)]
struct KernelEvent {
    #[prost(uint64, tag = "1")]
    timestamp: u64,
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
    #[prost(message, optional, tag = "4")]
    thread: Option<Thread>,
}

#[derive(Message)]
struct Thread {
    #[prost(int32, tag = "2")]
    tid: i32,
}

const COUNTER: u32 = 4;

/// Where an event is, as far as an output says so.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Who {
    Thread(i64),
    Cpu(i64),
    /// A track of a log, by its name.
    Track(String),
    /// Neither: a stream.
    Nobody,
}
use Who::{Cpu, Nobody, Thread as On};

/// The place that the name of a track says: `CPU 1`, `thread 5`, `name (5)`.
fn named(name: &str, tracks: &[&str]) -> Who {
    let number = |text: &str| text.parse().ok();
    let thread = || number(name.strip_prefix("thread ")?);
    let with_name = || number(name.rsplit_once(" (")?.1.strip_suffix(')')?);
    match name.strip_prefix("CPU ").and_then(number) {
        Some(cpu) => Cpu(cpu),
        None if tracks.contains(&name) => Who::Track(name.into()),
        None => thread().or_else(with_name).map_or(Nobody, On),
    }
}

fn of_perfetto(folder: &Folder, trace: &str, tracks: &[&str]) -> Vec<(u64, Who)> {
    folder.run_with("convert -q --force --to perfetto -o out", &[trace]).ends(0, &[]);
    let bytes = fs::read(folder.path("out")).expect("it was written");
    let (mut events, mut known) = (Vec::new(), HashMap::new());
    for packet in Trace::decode(bytes.as_slice()).expect("it is a message").packet {
        if let Some(track) = packet.track_descriptor {
            let who = match &track.thread {
                Some(thread) => On(thread.tid.into()),
                None => named(&track.name, tracks),
            };
            // The slices of what a CPU runs only repeat the events.
            known.insert(track.uuid, (who, track.name.ends_with(" runs")));
        }
        if let Some(bundle) = packet.kernel {
            let cpu = Cpu(bundle.cpu.into());
            events.extend(bundle.events.iter().map(|event| (event.timestamp, cpu.clone())));
        }
        let Some(event) = packet.track_event else { continue };
        let (who, is_running) = &known[&event.track];
        if event.kind != COUNTER && !is_running {
            events.push((packet.timestamp.expect("an event has a time"), who.clone()));
        }
    }
    // Bundles are written when they are full.
    events.sort_by_key(|(ns, _)| *ns);
    events
}

/// Of a log, in the order of its events.
fn of_log(folder: &Folder, format: &str, trace: &str, tracks: &[&str]) -> Vec<Who> {
    folder.run_with(&format!("convert -q --force --to {format} -o out"), &[trace]).ends(0, &[]);
    let lines = json_lines(&folder.run("print -q --format jsonl out").ends(0, &[]).stdout);
    lines.iter().map(|line| named(line["payload"]["track_name"].as_str().unwrap_or_default(), tracks)).collect()
}

/// Tasks of folders of uftrace that stand for streams have numbers below this one; no thread of these tests has.
const FIRST_THREAD: i64 = 100;

fn of_uftrace(folder: &Folder, trace: &str) -> Vec<(u64, Who)> {
    folder.run_with("convert -q --force --to uftrace -o tasks", &[trace]).ends(0, &[]);
    let lines = json_lines(&folder.run("print -q --format jsonl tasks").ends(0, &[]).stdout);
    let of = |line: &serde_json::Value| {
        let tid = line["payload"]["tid"].as_i64().filter(|&tid| tid >= FIRST_THREAD);
        (line["ns"].as_u64().expect("an event has a time"), tid.map_or(Nobody, On))
    };
    lines.iter().map(of).collect()
}

/// Compares all outputs of a trace with what is expected of its events, in their order.
#[track_caller]
fn check(folder: &Folder, trace: &str, expected: &[Who]) {
    let mut of_time = of_perfetto(folder, trace, &[]);
    // Calls that are open at the end get an end after the last event.
    of_time.truncate(expected.len());
    let found: Vec<Who> = of_time.iter().map(|(_, who)| who.clone()).collect();
    assert_eq!(found, expected, "{trace} in Perfetto");
    for format in ["elog", "cpel"] {
        assert_eq!(of_log(folder, format, trace, &[]), expected, "{trace} in {format}");
    }
    let mut of_time: Vec<(u64, Who)> =
        of_time.into_iter().map(|(ns, who)| (ns, if matches!(who, On(_)) { who } else { Nobody })).collect();
    let mut tasks = of_uftrace(folder, trace);
    of_time.sort();
    tasks.sort();
    assert_eq!(tasks, of_time, "{trace} in uftrace");
}

/// The values of a column of CSV.
fn column(folder: &Folder, trace: &str, path: &str) -> Vec<Option<i64>> {
    let run = folder.run_with(&format!("print -q --format csv --columns {path}"), &[trace]).ends(0, &[]);
    csv_rows(&run.stdout).iter().skip(1).map(|row| row[0].parse().ok()).collect()
}

/// A trace of one packet: a byte each for its CPU or thread, for ids and times of events, and for all fields.
fn trace(folder: &Folder, name: &str, stream: &str, classes: &[(&str, &str)], bytes: &[u8]) {
    let classes = classes.iter().enumerate().map(|(id, (name, fields))| {
        format!("event {{ name = \"{name}\"; id = {id}; fields := struct {{ {fields} }}; }};\n")
    });
    let metadata = format!(
        "/* CTF 1.8 */
        typealias integer {{ size = 8; align = 8; signed = false; }} := u8;
        typealias integer {{ size = 8; align = 8; signed = false; map = clock.c.value; }} := t8;
        trace {{ major = 1; minor = 8; byte_order = le; }};
        clock {{ name = c; freq = 1000000000; }};
        stream {{ {stream} }};
        {}",
        classes.collect::<String>()
    );
    folder.file(&format!("{name}/metadata"), metadata).file(&format!("{name}/s"), bytes);
}

const HEADER: &str = "event.header := struct { u8 id; t8 t; };";

#[test]
fn threads_go_before_threads_of_namespaces() {
    let folder = Folder::new();
    let context = "event.context := struct { u8 _vpid; u8 _vtid; u8 _pid; u8 _tid; };";
    let stream = format!("packet.context := struct {{ u8 cpu_id; }}; {HEADER} {context}");
    // Id, time, the four numbers.
    let bytes = [&[1][..], &[0, 1, 10, 11, 200, 201], &[0, 2, 10, 12, 200, 202]].concat();
    trace(&folder, "both", &stream, &[("work", "")], &bytes);
    check(&folder, "both", &[On(201), On(202)]);
    assert_eq!(column(&folder, "both", "stream_context.tid"), [Some(201), Some(202)]);
    assert_eq!(column(&folder, "both", "cpu"), [Some(1), Some(1)]);
    let text = folder.run("print -q both").ends(0, &[]).stdout;
    assert!(text.lines().zip(["tid = 201", "tid = 202"]).all(|(line, tid)| line.contains(tid)), "{text}");

    let context = "event.context := struct { u8 _vpid; u8 _vtid; };";
    trace(&folder, "vtid", &format!("{HEADER} {context}"), &[("work", "")], &[0, 1, 110, 111, 0, 2, 110, 112]);
    check(&folder, "vtid", &[On(111), On(112)]);
    assert_eq!(column(&folder, "vtid", "stream_context.vtid"), [Some(111), Some(112)]);
}

#[test]
fn a_process_alone_is_no_thread() {
    let folder = Folder::new();
    let context = "event.context := struct { u8 _pid; };";
    let stream = format!("packet.context := struct {{ u8 cpu_id; }}; {HEADER} {context}");
    trace(&folder, "cpu", &stream, &[("work", "")], &[3, 0, 1, 120, 0, 2, 121]);
    check(&folder, "cpu", &[Cpu(3), Cpu(3)]);
    assert_eq!(column(&folder, "cpu", "cpu"), [Some(3), Some(3)]);
    trace(&folder, "stream", &format!("{HEADER} {context}"), &[("work", "")], &[0, 1, 120, 0, 2, 121]);
    check(&folder, "stream", &[Nobody, Nobody]);
}

#[test]
fn packets_and_headers_name_threads() {
    let folder = Folder::new();
    let stream = format!("packet.context := struct {{ u8 tid; }}; {HEADER}");
    trace(&folder, "packet", &stream, &[("work", "")], &[130, 0, 1, 0, 2]);
    check(&folder, "packet", &[On(130), On(130)]);
    assert_eq!(column(&folder, "packet", "packet_context.tid"), [Some(130), Some(130)]);
    let stream = "packet.context := struct { u8 cpu_id; }; event.header := struct { u8 id; t8 t; u8 common_pid; };";
    trace(&folder, "header", stream, &[("work", "")], &[1, 0, 1, 140, 0, 2, 141]);
    check(&folder, "header", &[On(140), On(141)]);
    assert_eq!(column(&folder, "header", "header.common_pid"), [Some(140), Some(141)]);
}

#[test]
fn events_of_kernels_stand_on_threads_and_cpus() {
    let folder = Folder::new();
    let classes = [
        ("sched_switch", "u8 prev_tid; u8 next_tid;"),
        ("sched_wakeup", "u8 _tid;"),
        ("syscall_entry_read", "u8 _fd;"),
        ("syscall_exit_read", "u8 _ret;"),
        ("irq_handler_entry", "u8 _irq;"),
        ("irq_handler_exit", "u8 _irq;"),
    ];
    let stream = format!("packet.context := struct {{ u8 cpu_id; }}; {HEADER}");
    let bytes = [&[2][..], &[2, 1, 7], &[0, 2, 150, 151], &[2, 3, 7], &[4, 4, 9], &[1, 5, 152], &[5, 6, 9], &[3, 7, 0]];
    trace(&folder, "kernel", &stream, &classes, &bytes.concat());
    // The running thread is unknown before the first switch; a thread that is woken does not wake itself.
    check(&folder, "kernel", &[Cpu(2), Cpu(2), On(151), Cpu(2), Cpu(2), Cpu(2), On(151)]);
    assert_eq!(column(&folder, "kernel", "cpu"), [Some(2); 7]);
}

#[test]
fn the_demo_is_the_same_in_all_outputs() {
    let folder = Folder::new();
    for name in ["mill", "orders"] {
        let trace = demo(name);
        let threads = column(&folder, &trace, "stream_context.vtid");
        assert!(threads.iter().all(Option::is_some), "{name}");
        check(&folder, &trace, &threads.into_iter().flatten().map(On).collect::<Vec<_>>());
    }
}

#[test]
fn tracks_of_logs_stay_tracks() {
    let folder = Folder::new();
    for name in ["belt.cpel", "dock.elog"] {
        let log = demo(&format!("../logs/{name}"));
        let lines = json_lines(&folder.run_with("print -q --format jsonl", &[&log]).ends(0, &[]).stdout);
        let expected: Vec<&str> =
            lines.iter().map(|line| line["payload"]["track_name"].as_str().expect("a name")).collect();
        let expected_tracks: Vec<Who> = expected.iter().map(|name| Who::Track((*name).into())).collect();
        folder.run_with("convert -q --force --to ctf2 -o ctf", &[&log]).ends(0, &[]);
        for trace in [log.as_str(), "ctf"] {
            let found = of_perfetto(&folder, trace, &expected).into_iter().map(|(_, who)| who);
            assert_eq!(found.collect::<Vec<_>>(), expected_tracks, "{name} in Perfetto");
            let other = if name.ends_with("elog") { "cpel" } else { "elog" };
            assert_eq!(of_log(&folder, other, trace, &expected), expected_tracks, "{name} in {other}");
        }
    }
}
