//! `tracemill convert --to perfetto`, decoded by messages written for this test from the public schema.

mod util;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use prost::Message;
use util::{Folder, json_lines, plain_trace};

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
    #[prost(message, optional, tag = "45")]
    system: Option<SystemInfo>,
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    sequence: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    sequence_flags: u32,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Message)]
struct Bundle {
    #[prost(uint32, tag = "1")]
    cpu: u32,
    #[prost(message, repeated, tag = "2")]
    events: Vec<KernelEvent>,
    #[prost(bool, tag = "3")]
    has_lost_events: bool,
}

#[derive(Message)]
struct KernelEvent {
    #[prost(uint64, tag = "1")]
    timestamp: u64,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    switch: Option<SchedSwitch>,
    #[prost(message, optional, tag = "17")]
    wakeup: Option<Woken>,
    #[prost(message, optional, tag = "20")]
    waking: Option<Woken>,
    #[prost(message, optional, tag = "36")]
    irq_entry: Option<Irq>,
    #[prost(message, optional, tag = "235")]
    new_task: Option<NewTask>,
    #[prost(message, optional, tag = "239")]
    fork: Option<Forked>,
}

#[derive(Clone, PartialEq, Message)]
struct SchedSwitch {
    #[prost(int32, tag = "2")]
    prev: i32,
    #[prost(int64, tag = "4")]
    prev_state: i64,
    #[prost(string, tag = "5")]
    next_comm: String,
    #[prost(int32, tag = "6")]
    next: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Woken {
    #[prost(int32, tag = "2")]
    pid: i32,
    #[prost(int32, tag = "5")]
    target_cpu: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Irq {
    #[prost(int32, tag = "1")]
    irq: i32,
}

#[derive(Clone, PartialEq, Message)]
struct NewTask {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(uint64, tag = "3")]
    clone_flags: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Forked {
    #[prost(int32, tag = "2")]
    parent: i32,
    #[prost(int32, tag = "4")]
    child: i32,
}

#[derive(Message)]
struct ProcessTree {
    #[prost(message, repeated, tag = "2")]
    threads: Vec<TreeThread>,
}

#[derive(Message)]
struct TreeThread {
    #[prost(int32, tag = "1")]
    tid: i32,
    #[prost(int32, tag = "3")]
    tgid: i32,
}

#[derive(Message)]
struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    names: Option<Uname>,
}

#[derive(Message)]
struct Uname {
    #[prost(string, tag = "3")]
    release: String,
}

#[derive(Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
    #[prost(uint32, tag = "2")]
    primary: u32,
}

#[derive(Message)]
struct Clock {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(uint64, tag = "2")]
    timestamp: u64,
}

#[derive(Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    annotations: Vec<Annotation>,
    #[prost(uint32, tag = "9")]
    kind: u32,
    #[prost(uint64, tag = "10")]
    name_iid: u64,
    #[prost(uint64, tag = "11")]
    track: u64,
    #[prost(fixed64, repeated, tag = "47")]
    flows: Vec<u64>,
    #[prost(int64, optional, tag = "30")]
    counter: Option<i64>,
    #[prost(double, optional, tag = "44")]
    real_counter: Option<f64>,
}

#[derive(Message)]
struct Annotation {
    #[prost(uint64, tag = "1")]
    name_iid: u64,
    #[prost(uint64, optional, tag = "3")]
    unsigned: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    signed: Option<i64>,
    #[prost(double, optional, tag = "5")]
    real: Option<f64>,
    #[prost(string, optional, tag = "6")]
    text: Option<String>,
    #[prost(message, repeated, tag = "11")]
    entries: Vec<Annotation>,
    #[prost(message, repeated, tag = "12")]
    elements: Vec<Annotation>,
}

#[derive(Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "3")]
    annotation_names: Vec<InternedString>,
}

#[derive(Message)]
struct InternedString {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(string, tag = "2")]
    text: String,
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
    #[prost(uint64, tag = "5")]
    parent: u64,
    #[prost(message, optional, tag = "8")]
    counter: Option<Counter>,
}

#[derive(Message)]
struct Process {
    #[prost(int32, tag = "1")]
    pid: i32,
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

#[derive(Message)]
struct Counter {}

/// The names of strings, and each event with its track.
struct Shown {
    names: HashMap<u64, String>,
    keys: HashMap<u64, String>,
    tracks: HashMap<u64, TrackDescriptor>,
    events: Vec<(u64, TrackEvent)>,
    snapshots: Vec<ClockSnapshot>,
}

fn shown(path: &Path) -> Shown {
    let trace = Trace::decode(fs::read(path).expect("it was written").as_slice()).expect("it is a message");
    let (names, keys, tracks) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut shown = Shown { names, keys, tracks, events: Vec::new(), snapshots: Vec::new() };
    for (at, packet) in trace.packet.into_iter().enumerate() {
        let expected = if packet.track_descriptor.is_some() { (2, 0) } else { (1, if at == 0 { 1 } else { 2 }) };
        assert_eq!((packet.sequence, packet.sequence_flags), expected);
        let data = packet.interned_data.unwrap_or_default();
        shown.names.extend(data.event_names.into_iter().map(|name| (name.iid, name.text)));
        shown.keys.extend(data.annotation_names.into_iter().map(|name| (name.iid, name.text)));
        shown.snapshots.extend(packet.clock_snapshot);
        shown.tracks.extend(packet.track_descriptor.map(|track| (track.uuid, track)));
        if let Some(event) = packet.track_event {
            assert!(shown.tracks.contains_key(&event.track), "a track is announced before it is used");
            assert!(event.name_iid == 0 || shown.names.contains_key(&event.name_iid));
            shown.events.push((packet.timestamp.expect("an event has a time"), event));
        }
    }
    shown
}

fn converted(folder: &Folder, trace: &str, arguments: &str) -> Shown {
    folder.run_with(&format!("convert --force --to perfetto {arguments}"), &["-o", "out", trace]).ends(0, &[]);
    shown(&folder.path("out"))
}

fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace).display().to_string()
}

#[test]
fn threads_are_tracks_and_fields_are_annotations() {
    let folder = Folder::new();
    let shown = converted(&folder, &demo("mill"), "");
    let lines = json_lines(&folder.run_with("print --format jsonl -q", &[&demo("mill")]).ends(0, &[]).stdout);
    assert_eq!(shown.events.len(), lines.len());
    for ((ns, event), line) in shown.events.iter().zip(&lines) {
        assert_eq!((Some(*ns), 3), (line["ns"].as_u64(), event.kind));
        assert_eq!(shown.names[&event.name_iid], line["name"]);
        let thread = shown.tracks[&event.track].thread.as_ref().expect("events of threads stand there");
        assert_eq!(i64::from(thread.tid), line["stream_context"]["vtid"]);
        assert_eq!(i64::from(thread.pid), line["stream_context"]["vpid"]);
        assert_eq!(thread.name, line["stream_context"]["procname"]);
        let payload = event.annotations.last().expect("a payload");
        assert_eq!(shown.keys[&payload.name_iid], "payload");
        assert_eq!(payload.entries.len(), line["payload"].as_object().expect("an object").len());
        for entry in &payload.entries {
            let value = &line["payload"][&shown.keys[&entry.name_iid]];
            let text = (value.as_str(), value.as_i64(), value.as_array().map(Vec::len));
            let number = entry.signed.or(entry.unsigned.map(|value| value as i64));
            match text {
                (Some(text), _, _) if entry.real.is_some() => {
                    assert_eq!(
                        text.trim_start_matches("+").replace("Infinity", "inf"),
                        format!("{}", entry.real.unwrap_or(0.0))
                    );
                }
                (Some(text), _, _) => assert_eq!(entry.text.as_deref(), Some(text)),
                (_, Some(value), _) => assert_eq!(number, Some(value)),
                (_, _, Some(len)) => assert_eq!(entry.elements.len(), len),
                _ => {}
            }
        }
    }
    let clocks = &shown.snapshots[0].clocks;
    assert_eq!(shown.snapshots.len(), 1);
    assert_eq!((clocks[0].id, clocks[1].id, clocks[2].id), (6, 1, 128));
    assert_eq!(
        (Some(clocks[0].timestamp), Some(clocks[2].timestamp)),
        (lines[0]["ns"].as_u64(), lines[0]["cycles"].as_u64())
    );
    assert_eq!(shown.snapshots[0].primary, 6);
}

#[test]
fn events_are_chosen_before_they_are_written() {
    let folder = Folder::new();
    let all = converted(&folder, &demo("orders"), "").events.len();
    let cut = converted(&folder, &demo("orders"), "--begin +10ms --end +20ms");
    let first = cut.events[0].0;
    assert!(cut.events.len() < all && cut.events.iter().all(|(ns, _)| *ns - first <= 10_000_000));
    let chosen = converted(&folder, &demo("orders"), "--limit 7");
    assert_eq!(chosen.events.len(), 7);
}

#[test]
fn pairs_are_slices_counters_count_and_ids_link() {
    let folder = Folder::new();
    let classes = "
        event { name = \"work_begin\"; id = 0; fields := struct { u8 _request_id; }; };
        event { name = \"work_end\"; id = 1; fields := struct { u8 _request_id; }; };
        event { name = \"free_pages_counter\"; id = 2; fields := struct { u8 _value; }; };";
    // Id, time, thread, process, field.
    let events = [[0, 1, 5, 4, 9], [2, 2, 5, 4, 7], [1, 3, 5, 4, 9], [2, 4, 5, 4, 7], [2, 5, 5, 4, 8], [0, 6, 6, 4, 9]];
    plain_trace(&folder, "t", classes, events.as_flattened());
    let shown = converted(&folder, "t", "");
    let of = |(ns, event): &(u64, TrackEvent)| {
        let name = shown.names.get(&event.name_iid).map_or("", String::as_str);
        (*ns, event.kind, name.to_string(), event.counter, event.flows.len())
    };
    let events: Vec<_> = shown.events.iter().map(of).collect();
    let counter = "free_pages_counter".to_string();
    let expected = [
        (1, 1, "work".into(), None, 1),
        (2, 3, counter.clone(), None, 0),
        (2, 4, String::new(), Some(7), 0),
        (3, 2, "work".into(), None, 1),
        (4, 3, counter.clone(), None, 0),
        (5, 3, counter.clone(), None, 0),
        (5, 4, String::new(), Some(8), 0),
        (6, 1, "work".into(), None, 1),
        // It has no end: it ends with the last event of its thread.
        (6, 2, String::new(), None, 0),
    ];
    assert_eq!(events, expected);
    assert_eq!(shown.events[0].1.flows, shown.events[7].1.flows);
    assert_ne!(shown.events[0].1.track, shown.events[7].1.track);
    let counted = &shown.tracks[&shown.events[2].1.track];
    assert!(counted.counter.is_some());
    assert_eq!(counted.name, counter);
}

#[test]
fn what_is_left_without_an_end_does_not_take_ends_of_others() {
    let folder = Folder::new();
    let classes = "
        event { name = \"func_entry\"; id = 0; fields := struct { u8 _addr; u8 _depth; }; };
        event { name = \"func_exit\"; id = 1; fields := struct { u8 _addr; u8 _depth; }; };";
    // Id, time, thread, process, function, depth: 3 jumps back to the second end of 2, where 9 is called; 1 does not end.
    let events = [
        [0, 1, 5, 4, 1, 0],
        [0, 2, 5, 4, 2, 1],
        [1, 3, 5, 4, 2, 1],
        [0, 4, 5, 4, 3, 1],
        [0, 5, 5, 4, 3, 2],
        [1, 6, 5, 4, 2, 1],
        [0, 7, 5, 4, 9, 1],
        [1, 8, 5, 4, 9, 1],
        [0, 9, 6, 4, 8, 0],
    ];
    plain_trace(&folder, "t", classes, events.as_flattened());
    let run = folder.run_with("convert --to perfetto", &["-o", "out", "t"]);
    run.ends(
        0,
        &[
            "ends whose beginning is missing (they are instants) (1)",
            "slices whose end is missing (they end where others show that they are over) (2)",
            "slices that have not ended (they end with their thread, or with the last event of their track) (2)",
        ],
    );
    let shown = shown(&folder.path("out"));
    let of = |(ns, event): &(u64, TrackEvent)| {
        let thread = shown.tracks[&event.track].thread.as_ref().map_or(0, |thread| thread.tid);
        (*ns, thread, event.kind, shown.names.get(&event.name_iid).map_or("", String::as_str))
    };
    let (begin, end, instant) = (1, 2, 3);
    let expected = [
        (1, 5, begin, "0x1"),
        (2, 5, begin, "0x2"),
        (3, 5, end, "0x2"),
        (4, 5, begin, "0x3"),
        (5, 5, begin, "0x3"),
        (6, 5, end, ""),
        (6, 5, end, ""),
        (6, 5, instant, "0x2"),
        (7, 5, begin, "0x9"),
        (8, 5, end, "0x9"),
        (9, 6, begin, "0x8"),
        (8, 5, end, ""),
        (9, 6, end, ""),
    ];
    assert_eq!(shown.events.iter().map(of).collect::<Vec<_>>(), expected);
    // Chrome's slices and profiles are the same ones.
    folder.run_with("convert --to chrome", &["-o", "chrome", "t"]).ends(0, &["slices that have not ended", "(2)"]);
    let text = fs::read_to_string(folder.path("chrome")).expect("it was written");
    let file: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let events = file["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] != "M");
    let base: u64 = file["otherData"]["base_ns"].as_str().and_then(|base| base.parse().ok()).expect("a base");
    let places: Vec<_> = events
        .map(|event| {
            let kind = match event["ph"].as_str() {
                Some("B") => begin,
                Some("E") => end,
                _ => instant,
            };
            (base + (event["ts"].as_f64().expect("a time") * 1000.0).round() as u64, kind)
        })
        .collect();
    assert_eq!(places, expected.map(|(ns, _, kind, _)| (ns, kind)));
    folder.run_with("convert --to folded", &["-q", "-o", "folded", "t"]).ends(0, &[]);
    let text = fs::read_to_string(folder.path("folded")).expect("it was written");
    assert!(text.contains(";0x1;0x9 1\n") && text.contains(";0x1;0x3;0x3 1\n"), "{text}");
}

/// Times, phases and names of the slices of one track.
type SlicesOfTrack = Vec<(u64, u32, String)>;

/// An async program: two tasks, 1 and 2, are polled in turns by threads 5 and 6; each has a child `read`, and 2 is not over
/// at the end. A span that is closed and was never entered, 9, is none of them.
fn spans_of_tasks(folder: &Folder) {
    let classes = "
        event { name = \"app:task_entry\"; id = 0; fields := struct { u8 span_id; u8 parent_span_id; u8 n; }; };
        event { name = \"app:task_exit\"; id = 1; fields := struct { u8 span_id; }; };
        event { name = \"app:task_close\"; id = 2; fields := struct { u8 span_id; }; };
        event { name = \"app:read_entry\"; id = 3; fields := struct { u8 span_id; u8 parent_span_id; }; };
        event { name = \"app:read_exit\"; id = 4; fields := struct { u8 span_id; }; };
        event { name = \"app:read_close\"; id = 5; fields := struct { u8 span_id; }; };";
    // Id, time, thread, process, fields.
    let events: [&[u8]; 18] = [
        &[0, 10, 5, 4, 1, 0, 70],
        &[3, 11, 5, 4, 3, 1],
        &[0, 12, 6, 4, 2, 0, 71],
        &[4, 13, 5, 4, 3],
        &[1, 14, 5, 4, 1],
        &[3, 15, 6, 4, 4, 2],
        &[4, 16, 6, 4, 4],
        &[1, 17, 6, 4, 2],
        &[0, 20, 6, 4, 1, 0, 70],
        &[3, 21, 6, 4, 3, 1],
        &[4, 22, 6, 4, 3],
        &[5, 23, 6, 4, 3],
        &[1, 24, 6, 4, 1],
        &[2, 25, 6, 4, 1],
        &[2, 26, 6, 4, 9],
        &[0, 30, 5, 4, 2, 0, 71],
        &[1, 31, 5, 4, 2],
        &[5, 32, 5, 4, 4],
    ];
    plain_trace(folder, "t", classes, &events.concat());
}

#[test]
fn spans_are_async_slices_from_the_first_entry_to_the_close() {
    let folder = Folder::new();
    spans_of_tasks(&folder);
    let run = folder.run_with("convert --to perfetto", &["-o", "out", "t"]);
    run.ends(0, &["slices that have not ended", "(1)"]);
    let shown = shown(&folder.path("out"));
    let mut lanes: Vec<(u64, SlicesOfTrack)> = Vec::new();
    for (ns, event) in &shown.events {
        if shown.tracks[&event.track].thread.is_some() {
            continue;
        }
        let name = shown.names.get(&event.name_iid).cloned().unwrap_or_default();
        let slice = (*ns, event.kind, name);
        match lanes.iter_mut().find(|(track, _)| *track == event.track) {
            Some((_, slices)) => slices.push(slice),
            None => lanes.push((event.track, vec![slice])),
        }
    }
    let of = |name: &str, begin, end| vec![(begin, 1, name.to_string()), (end, 2, String::new())];
    let (task, read) = ("app:task", "app:read");
    let expected = [of(task, 10, 25), of(read, 11, 23), of(task, 12, 32), of(read, 15, 32)];
    assert_eq!(lanes.iter().map(|(_, slices)| slices.clone()).collect::<Vec<_>>(), expected);
    // Tasks are below the process, what they do below them.
    let track = |at: usize| &shown.tracks[&lanes[at].0];
    assert_eq!((&*track(0).name, &*track(1).name), (task, read));
    let is_process = |track: &&TrackDescriptor| track.process.as_ref().is_some_and(|process| process.pid == 4);
    let process = shown.tracks.values().find(is_process).expect("a process");
    assert_eq!((track(0).parent, track(2).parent), (process.uuid, process.uuid));
    assert_eq!((track(1).parent, track(3).parent), (lanes[0].0, lanes[2].0));
    // The slice has the fields of the span; polls are slices of threads as ever.
    let begin = shown.events.iter().find(|(_, event)| event.track == lanes[0].0).expect("it begins");
    let fields = &begin.1.annotations.last().expect("a payload").entries;
    assert_eq!(fields.iter().map(|field| field.unsigned).collect::<Vec<_>>(), [Some(1), Some(0), Some(70)]);
    let polls = shown.events.iter().filter(|(_, event)| shown.tracks[&event.track].thread.is_some() && event.kind == 1);
    assert_eq!(polls.count(), 7);
}

#[test]
fn chrome_has_async_events_of_spans() {
    let folder = Folder::new();
    spans_of_tasks(&folder);
    folder.run_with("convert -q --to chrome", &["-o", "chrome", "t"]).ends(0, &[]);
    let text = fs::read_to_string(folder.path("chrome")).expect("it was written");
    let file: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let events = file["traceEvents"].as_array().expect("events").iter();
    let of_spans = events.filter(|event| event.get("id2").is_some());
    let short = |event: &serde_json::Value| {
        assert_eq!((event["pid"].as_i64(), event["cat"].as_str()), (Some(4), Some("async")));
        let text = |of: &serde_json::Value| of.as_str().expect("a text").to_string();
        let id = text(&event["id2"]["local"]);
        (
            text(&event["ph"]),
            id,
            text(&event["name"]),
            (event["ts"].as_f64().expect("a time") * 1000.0).round() as u64 + 10,
        )
    };
    let event = |phase: &str, id: &str, name: &str, ns| (phase.into(), id.into(), format!("app:{name}"), ns);
    let expected = [
        event("b", "0x0", "task", 10),
        event("b", "0x1", "read", 11),
        event("b", "0x2", "task", 12),
        event("b", "0x3", "read", 15),
        event("e", "0x1", "read", 23),
        event("e", "0x0", "task", 25),
        event("e", "0x3", "read", 32),
        event("e", "0x2", "task", 32),
    ];
    assert_eq!(of_spans.map(short).collect::<Vec<(String, String, String, u64)>>(), expected);
}

/// A trace of a kernel in a folder `kernel`; `environment` are entries of its metadata, `bytes` the packets of one file.
fn kernel_trace(folder: &Folder, environment: &str, classes: &[(&str, &str)], bytes: &[u8]) -> Vec<Packet> {
    let mut metadata = format!(
        "/* CTF 1.8 */
        typealias integer {{ size = 8; align = 8; signed = false; }} := u8;
        typealias integer {{ size = 16; align = 8; signed = false; }} := u16;
        typealias integer {{ size = 8; align = 8; signed = false; map = clock.c.value; }} := t8;
        trace {{ major = 1; minor = 8; byte_order = le; }};
        env {{ domain = \"kernel\"; {environment} }};
        clock {{ name = c; freq = 1000000000; }};
        stream {{ packet.context := struct {{ u8 cpu_id; }}; event.header := struct {{ u8 id; t8 t; }}; }};"
    );
    for (id, (name, fields)) in classes.iter().enumerate() {
        metadata.push_str(&format!("event {{ name = \"{name}\"; id = {id}; fields := struct {{ {fields} }}; }};"));
    }
    let path = folder.path("kernel");
    fs::create_dir(&path).expect("a new folder");
    fs::write(path.join("metadata"), metadata).expect("the folder is there");
    fs::write(path.join("s"), bytes).expect("the folder is there");
    folder.run("convert -q --to perfetto -o out kernel").ends(0, &[]);
    Trace::decode(fs::read(folder.path("out")).expect("it was written").as_slice()).expect("it is a message").packet
}

fn kernel_events(packets: &[Packet]) -> Vec<(u32, &KernelEvent)> {
    packets
        .iter()
        .filter_map(|packet| packet.kernel.as_ref())
        .flat_map(|bundle| bundle.events.iter().map(|event| (bundle.cpu, event)))
        .collect()
}

#[test]
fn events_of_kernels_are_messages_of_perfetto() {
    let folder = Folder::new();
    let classes = [
        ("sched_switch", "u8 prev_tid; u16 prev_state; string next_comm; u8 next_tid;"),
        ("sched_wakeup", "u8 tid; u8 target_cpu;"),
        ("irq_handler_entry", "u8 irq; u8 more;"),
        ("sched_process_fork", "u8 parent_tid; u8 child_tid; u8 child_pid;"),
    ];
    let switch =
        |t: u8, prev: u8, state: u16, next: u8| [&[0, t, prev][..], &state.to_le_bytes(), b"mill\0", &[next]].concat();
    let bytes = [
        vec![3],
        vec![1, 1, 8, 3],
        switch(2, 0, 256, 7),
        vec![1, 3, 8, 3],
        vec![2, 4, 30, 9],
        vec![3, 5, 7, 9, 7],
        switch(6, 7, 1, 8),
    ];
    let packets = kernel_trace(&folder, "", &classes, &bytes.concat());
    let events = kernel_events(&packets);
    assert!(events.iter().all(|(cpu, _)| *cpu == 3));
    let switches: Vec<_> =
        events.iter().filter_map(|(_, event)| Some((event.timestamp, event.pid, event.switch.clone()?))).collect();
    let expected = |prev, prev_state, next| SchedSwitch { prev, prev_state, next_comm: "mill".into(), next };
    assert_eq!(switches, [(2, Some(0), expected(0, 256, 7)), (6, Some(7), expected(7, 1, 8))]);
    // There is no `sched_waking`, so a wake is one; the first has no known waker, and is an instant.
    let wakes: Vec<_> =
        events.iter().filter_map(|(_, event)| Some((event.timestamp, event.pid, event.waking.clone()?))).collect();
    assert_eq!(wakes, [(3, Some(7), Woken { pid: 8, target_cpu: 3 })]);
    assert!(events.iter().all(|(_, event)| event.wakeup.is_none()));
    let irqs: Vec<_> = events.iter().filter_map(|(_, event)| event.irq_entry.clone()).collect();
    assert_eq!(irqs, [Irq { irq: 30 }]);
    // The child is a thread of its parent's process.
    let tasks: Vec<_> = events.iter().filter_map(|(_, event)| Some((event.pid, event.new_task.clone()?))).collect();
    assert_eq!(tasks, [(Some(7), NewTask { pid: 9, clone_flags: 0x10000 })]);
    let forks: Vec<_> = events.iter().filter_map(|(_, event)| event.fork.clone()).collect();
    assert_eq!(forks, [Forked { parent: 7, child: 9 }]);
    // Events that do not fit into their message are instants: the wake before the first switch, the interrupt, a fork.
    let shown = packets.iter().filter_map(|packet| packet.track_event.as_ref().map(|_| packet.timestamp));
    assert_eq!(shown.collect::<Vec<_>>(), [Some(1), Some(4), Some(5)]);
    let release = packets.iter().find_map(|packet| Some(packet.system.as_ref()?.names.as_ref()?.release.clone()));
    assert_eq!(release.as_deref(), Some("4.14.0 (assumed: the trace names no kernel)"));
}

#[test]
fn old_kernels_have_another_mark_of_preemption() {
    for (environment, state) in
        [("", 2048), (r#"kernel_release = "5.10.0-8";"#, 2048), (r#"kernel_release = "3.13.0-24";"#, 0)]
    {
        let folder = Folder::new();
        let classes = [("sched_switch", "u8 prev_tid; u16 prev_state; u8 next_tid;")];
        let packets =
            kernel_trace(&folder, environment, &classes, &[&[1, 0, 1, 7][..], &2048u16.to_le_bytes(), &[8]].concat());
        let states: Vec<_> =
            kernel_events(&packets).iter().filter_map(|(_, event)| Some(event.switch.as_ref()?.prev_state)).collect();
        assert_eq!(states, [state], "{environment}");
    }
}

#[test]
fn processes_of_a_dump_are_a_tree_and_programs_name_their_events_themselves() {
    let folder = Folder::new();
    let classes = [
        ("lttng_statedump_process_state", "u8 tid; u8 pid; u8 ppid; string name; u8 status;"),
        ("sched_switch", "u8 prev_tid; u8 prev_state; u8 next_tid;"),
    ];
    let bytes = [&[0][..], &[0, 1, 8, 7, 1], b"mill\0", &[5, 1, 2, 0, 0, 8]].concat();
    let packets = kernel_trace(&folder, "", &classes, &bytes);
    let threads = packets.iter().filter_map(|packet| packet.process_tree.as_ref()).flat_map(|tree| &tree.threads);
    assert_eq!(threads.map(|thread| (thread.tid, thread.tgid)).collect::<Vec<_>>(), [(8, 7)]);
    let of_program = Folder::new();
    let packets = kernel_trace(&of_program, "", &[("ust:sched_switch", "u8 prev_tid; u8 next_tid;")], &[0, 0, 1, 2, 3]);
    assert_eq!(kernel_events(&packets).len(), 1, "a kernel may have providers");
    let metadata = fs::read_to_string(of_program.path("kernel").join("metadata")).expect("it is there");
    fs::write(of_program.path("kernel").join("metadata"), metadata.replace("\"kernel\"", "\"ust\""))
        .expect("it is there");
    of_program.run("convert -q --force --to perfetto -o out kernel").ends(0, &[]);
    let bytes = fs::read(of_program.path("out")).expect("it was written");
    assert!(kernel_events(&Trace::decode(bytes.as_slice()).expect("it is a message").packet).is_empty());
}
