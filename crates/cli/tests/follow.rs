//! Traces that are followed while they are written.
#![cfg(unix)]

#[path = "../../live/tests/relay/mod.rs"]
mod relay;
mod util;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use relay::{METADATA, MORE, Packet};
use serde_json::Value;
use util::{Folder, command};

/// Starts the program in a folder.
fn start(folder: &Folder, arguments: &str) -> Child {
    let mut command = command();
    command.args(arguments.split_whitespace()).current_dir(folder.path("."));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// Its lines, once it has ended with this status.
fn lines(child: Child, status: i32) -> (Vec<Value>, String) {
    let output = child.wait_with_output().expect("it ends");
    let messages = util::messages_of_follower(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{messages}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect(), messages)
}

fn values(lines: &[Value]) -> Vec<u64> {
    lines.iter().map(|line| line["payload"]["value"].as_u64().expect("a number")).collect()
}

fn append(path: &Path, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(bytes)).expect("it can be written");
}

/// Packets of two streams, whose events take turns.
fn streams() -> [Vec<u8>; 2] {
    let of = |first: u64| -> Vec<u8> {
        let packet = |at: u64| Packet::new(at * 100, at * 100 + 99, at, &[at * 100 + first, at * 100 + first + 40]);
        (0..12).flat_map(|at| packet(at).bytes()).collect()
    };
    [of(1), of(2)]
}

/// Appends bytes to files in turns, in pieces that end anywhere.
fn grow(files: &mut [(std::path::PathBuf, &[u8])], pause: Duration) {
    let mut seed = 7u64;
    while files.iter().any(|(_, rest)| !rest.is_empty()) {
        for (path, rest) in files.iter_mut() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (piece, left) = rest.split_at(rest.len().min((seed >> 33) as usize % 500));
            append(path, piece);
            *rest = left;
        }
        sleep(pause);
    }
}

#[test]
fn a_folder_that_is_copied_in_pieces() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("t")).expect("a folder");
    append(&folder.path("t/metadata"), &METADATA.as_bytes()[..METADATA.len() - 30]);
    let child = start(&folder, "print --format jsonl --follow --until-idle 4s t");
    sleep(Duration::from_millis(400));
    append(&folder.path("t/metadata"), &METADATA.as_bytes()[METADATA.len() - 30..]);
    let [one, two] = streams();
    let mut files = [(folder.path("t/one"), &one[..]), (folder.path("t/two"), &two[..])];
    grow(&mut files, Duration::from_millis(60));
    let (followed, messages) = lines(child, 0);
    assert_eq!(messages, "");
    // As the whole is read, but for events that came after their place.
    let all = util::json_lines(&folder.run("print --format jsonl t").ends(0, &[]).stdout);
    let [mut followed, all] = [followed, all].map(|lines| values(&lines));
    assert_eq!(followed.len(), all.len());
    let late = followed.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(late < 6, "{followed:?}");
    followed.sort_unstable();
    assert_eq!(followed, all);
}

/// An empty screen is explained, once.
#[test]
fn a_folder_without_metadata_is_waited_for() {
    use std::io::{BufRead, BufReader, Read};
    let folder = Folder::new();
    std::fs::create_dir(folder.path("t")).expect("a folder");
    append(&folder.path("t/one"), &Packet::new(0, 99, 0, &[1]).bytes());
    let mut child = start(&folder, "print --format jsonl --follow --limit 1 t");
    let mut messages = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut message = String::new();
    messages.read_line(&mut message).expect("a line");
    assert_eq!(message, "note: waiting, as nothing can be read so far: t: no trace in this folder or below it\n");
    append(&folder.path("t/metadata"), METADATA.as_bytes());
    let (followed, _) = lines(child, 0);
    assert_eq!(values(&followed), [1]);
    let mut more = String::new();
    messages.read_to_string(&mut more).expect("messages are UTF-8");
    assert_eq!(more, "");
}

#[test]
fn files_and_classes_that_are_new_are_read() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("t")).expect("a folder");
    append(&folder.path("t/metadata"), METADATA.as_bytes());
    append(&folder.path("t/one"), &Packet::new(0, 99, 0, &[1, 2]).bytes());
    let child = start(&folder, "print --format jsonl --follow --until-idle 4s --patience 100ms t");
    sleep(Duration::from_millis(700));
    append(&folder.path("t/metadata"), MORE.as_bytes());
    let other = Packet { events: vec![(1, 150, 150), (0, 160, 160)], ..Packet::new(140, 199, 0, &[]) };
    append(&folder.path("t/two"), &other.bytes());
    let (followed, messages) = lines(child, 0);
    assert_eq!((values(&followed), messages.as_str()), (vec![1, 2, 150, 160], ""));
    assert_eq!(followed[2]["name"], "sift");
}

#[test]
fn lines_of_json_are_followed() {
    let folder = Folder::new();
    let text = folder.run("print --format jsonl --limit 40 t").stdout;
    assert_eq!(text, "", "there is no trace");
    let line = |at: u64| format!("{{\"ns\":{at},\"name\":\"tick\",\"payload\":{{\"value\":{at}}}}}\n");
    let all: String = (1..40).map(line).collect();
    append(&folder.path("t.jsonl"), &all.as_bytes()[..all.len() / 3]);
    let child = start(&folder, "print --format jsonl --follow --until-idle 4s t.jsonl");
    sleep(Duration::from_millis(500));
    let mut files = [(folder.path("t.jsonl"), &all.as_bytes()[all.len() / 3..])];
    grow(&mut files, Duration::from_millis(40));
    let (followed, messages) = lines(child, 0);
    assert_eq!((values(&followed), messages.as_str()), ((1..40).collect(), ""));
}

/// An event is printed while the rest is still to come.
#[test]
fn an_event_is_printed_soon() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::new();
    std::fs::create_dir(folder.path("t")).expect("a folder");
    append(&folder.path("t/metadata"), METADATA.as_bytes());
    append(&folder.path("t/one"), &Packet::new(0, 99, 0, &[1]).bytes());
    let mut child = start(&folder, "print --format jsonl --follow --while-pid 1 --for 20s t");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    for at in 1..4u64 {
        line.clear();
        out.read_line(&mut line).expect("a line");
        assert!(line.contains(&format!("\"value\":{}", (at - 1) * 100 + 1)), "{line}");
        append(&folder.path("t/one"), &Packet::new(at * 100, at * 100 + 99, at, &[at * 100 + 1]).bytes());
    }
    child.kill().expect("it runs");
    let _ = child.wait();
}

#[test]
fn reports_are_repeated() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("t")).expect("a folder");
    append(&folder.path("t/metadata"), METADATA.as_bytes());
    let [one, _] = streams();
    append(&folder.path("t/one"), &one[..600]);
    let child = start(&folder, "report --state grind --follow --until-idle 4s --every 300ms t");
    sleep(Duration::from_millis(700));
    append(&folder.path("t/one"), &one[600..]);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.matches("time from each `grind`").count() >= 3, "{text}");
    let last = text.rsplit("time from each").next().expect("a table");
    assert!(last.contains("23"), "{last}");
}

#[test]
fn analyses_are_repeated() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("t")).expect("a folder");
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/kernel/bakery");
    let [metadata, one, two] =
        ["metadata", "channel0_0", "channel0_1"].map(|name| std::fs::read(demo.join(name)).expect("it is there"));
    append(&folder.path("t/metadata"), &metadata);
    let child = start(&folder, "analyze cpu --follow --until-idle 4s --every 300ms t");
    for part in 0..4 {
        for (name, bytes) in [("channel0_0", &one), ("channel0_1", &two)] {
            let len = bytes.len() / 4;
            append(&folder.path("t").join(name), &bytes[part * len..][..len]);
        }
        sleep(Duration::from_millis(400));
    }
    let output = child.wait_with_output().expect("it ends");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), messages.matches("warning").count()), (Some(0), 1), "{messages}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tables: Vec<&str> = text.split("tid ").skip(1).collect();
    assert!(tables.len() >= 3, "{text}");
    // The last one is of all that there is.
    let whole = folder.run("analyze cpu t").ends(0, &[]).stdout;
    assert!(whole.ends_with(tables[tables.len() - 1]) && tables[0] != tables[tables.len() - 1], "{text}");
}

/// The files from which a recorder makes a `trace.dat`: all but pages, and the pages of each CPU.
struct Parts {
    others: Vec<(&'static str, Vec<u8>)>,
    cpus: Vec<Vec<u8>>,
}

const PAGE: usize = 4096;

fn number(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) as usize
}

/// Takes a file of version 6 apart.
fn parts_of(file: &[u8]) -> Parts {
    let find = |text: &[u8], from: usize| {
        from + file[from..].windows(text.len()).position(|bytes| bytes == text).expect("it is one of version 6")
    };
    let options = find(b"options  \0", 0);
    let table = find(b"flyrecord\0", options) + 10;
    // Names of tasks stand after their length, before the number of CPUs.
    let names = (0..=options - 12).rev().find(|at| number(file, *at) == options - 12 - at).expect("names of tasks");
    let count = u32::from_le_bytes(file[options - 4..options].try_into().expect("4 bytes")) as usize;
    let pages = |at: usize| {
        let (place, len) = (number(file, table + at * 16), number(file, table + at * 16 + 8));
        file[place..place + len].to_vec()
    };
    let others = vec![
        ("head", file[..names].to_vec()),
        ("comms", file[names + 8..options - 4].to_vec()),
        ("options", file[options + 10..table - 12].to_vec()),
        ("page_bytes", format!("{PAGE}\n").into_bytes()),
    ];
    Parts { others, cpus: (0..count).map(pages).collect() }
}

/// A `trace.dat`, and the folder of its parts, which a process makes.
fn recorded_kernel(folder: &Folder, recorder: u32) -> (Vec<u8>, Parts) {
    let lines: String = (0..6_000u64)
        .map(|at| {
            format!("{{\"ns\":{},\"name\":\"tick\",\"cpu\":{},\"payload\":{{\"value\":{at}}}}}\n", at * 100, at % 2)
        })
        .collect();
    append(&folder.path("t.jsonl"), lines.as_bytes());
    folder.run("convert -q --to ftrace -o whole.dat t.jsonl").ends(0, &[]);
    let file = std::fs::read(folder.path("whole.dat")).expect("it was written");
    let parts = parts_of(&file);
    std::fs::create_dir(folder.path(".x.dat.parts")).expect("a folder");
    for (name, bytes) in &parts.others {
        append(&folder.path(".x.dat.parts").join(name), bytes);
    }
    append(&folder.path(".x.dat.parts/instance"), format!("tracemill-{recorder}").as_bytes());
    (file, parts)
}

/// Pages of the recorder of the kernel are followed, through the moment at which its parts become a file.
#[test]
fn a_trace_dat_that_is_recorded_is_followed() {
    let folder = Folder::new();
    let (file, parts) = recorded_kernel(&folder, std::process::id());
    let child = start(&folder, "print --format jsonl --follow x.dat");
    sleep(Duration::from_millis(300));
    let path = |cpu: usize| folder.path(&format!(".x.dat.parts/cpu{cpu}"));
    let files = parts.cpus.iter().enumerate().map(|(cpu, pages)| (path(cpu), pages));
    // Pages are moved one by one, and may be there in part.
    for piece in 0..10 {
        for (path, pages) in files.clone() {
            append(&path, &pages[pages.len() * piece / 10..pages.len() * (piece + 1) / 10]);
        }
        sleep(Duration::from_millis(100));
    }
    append(&folder.path("x.dat.new"), &file);
    std::fs::rename(folder.path("x.dat.new"), folder.path("x.dat")).expect("it is there");
    std::fs::remove_dir_all(folder.path(".x.dat.parts")).expect("they are there");
    let (followed, messages) = lines(child, 0);
    let whole = util::json_lines(&folder.run("print --format jsonl x.dat").ends(0, &[]).stdout);
    assert_eq!((followed.len(), messages.as_str()), (6_000, ""));
    assert!(followed == whole);
}

#[test]
fn what_a_killed_recorder_of_the_kernel_left_is_read() {
    let folder = Folder::new();
    // Numbers of processes end before this one.
    let (_, parts) = recorded_kernel(&folder, 1 << 23);
    for (cpu, pages) in parts.cpus.iter().enumerate() {
        append(&folder.path(&format!(".x.dat.parts/cpu{cpu}")), &pages[..pages.len() / 2 + 100]);
    }
    let (followed, messages) = lines(start(&folder, "print --format jsonl --follow x.dat"), 0);
    assert!(messages.contains("ended without finishing its recording"), "{messages}");
    assert!((1_000..4_000).contains(&followed.len()), "{}", followed.len());
}

/// A session of LTTng that is rotated: what was written is moved, and goes on elsewhere.
#[test]
fn what_is_moved_stays_what_it_is() {
    let folder = Folder::new();
    let metadata = METADATA.replace("trace { ", "trace { uuid = \"01020304-0506-0708-090a-0b0c0d0e0f10\"; ");
    let metadata =
        metadata.replace("u32 magic; u32 stream_id; }", "u32 magic; u32 stream_id; u64 stream_instance_id; }");
    let numbered = |packet: Packet, stream: u64| {
        let mut bytes = packet.bytes();
        let total = bytes.len() as u64;
        bytes.splice(8..8, stream.to_le_bytes());
        // The sizes of the content and of the packet.
        bytes[32..40].copy_from_slice(&((packet.content_bytes() as u64 + 8) * 8).to_le_bytes());
        bytes[40..48].copy_from_slice(&((total + 8) * 8).to_le_bytes());
        bytes
    };
    let chunk = |name: &str, from: u64| {
        std::fs::create_dir_all(folder.path(name)).expect("a folder");
        append(&folder.path(name).join("metadata"), metadata.as_bytes());
        for stream in [1, 2] {
            let packet =
                Packet::new(from * 100, from * 100 + 99, from, &[from * 100 + stream, from * 100 + stream + 50]);
            append(&folder.path(name).join(format!("c0_{stream}")), &numbered(packet, stream));
        }
    };
    chunk("s/ust/uid", 0);
    let child = start(&folder, "print --format jsonl --follow --until-idle 4s s");
    sleep(Duration::from_millis(600));
    std::fs::create_dir_all(folder.path("s/archives/0")).expect("a folder");
    std::fs::rename(folder.path("s/ust"), folder.path("s/archives/0/ust")).expect("it can be moved");
    chunk("s/ust/uid", 1);
    sleep(Duration::from_millis(600));
    std::fs::create_dir_all(folder.path("s/archives/1")).expect("a folder");
    std::fs::rename(folder.path("s/ust"), folder.path("s/archives/1/ust")).expect("it can be moved");
    sleep(Duration::from_millis(600));
    chunk("s/next/ust/uid", 2);
    let (followed, messages) = lines(child, 0);
    assert_eq!(messages, "");
    assert_eq!(values(&followed), [1, 2, 51, 52, 101, 102, 151, 152, 201, 202, 251, 252]);
}

#[test]
fn what_cannot_be_followed_is_said() {
    let folder = Folder::new();
    let demo = std::fs::canonicalize(util::demo("../logs")).expect("the demo is there");
    let log = std::fs::read_dir(demo).expect("logs").flatten().map(|entry| entry.path()).find(|path| path.is_file());
    let log = log.expect("a log").display().to_string();
    folder.run(&format!("print --follow --until-idle 1s {log}")).ends(1, &["cannot be followed", "jsonl"]);
    folder.run("print --follow nothing").ends(1, &["nothing"]);
    folder.run("print --until-idle 1s t").ends(2, &["--follow"]);
}
