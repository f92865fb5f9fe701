//! Folders that are not what they seem: loops of links, pipes, files that say absurd things of themselves.
#![cfg(unix)]

mod folder;

use std::os::unix::fs::symlink;
use std::process::Command;

use folder::{Folder, METADATA, packet};
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::survey::survey;

fn open(folder: &Folder) -> Session {
    Session::open(&FileSystem, &[folder.path()], &OpenOptions::new(tracemill_formats::FORMATS))
        .expect("the options are right")
}

fn events(session: &Session) -> u64 {
    survey(session, true, 1).iter().flat_map(|trace| &trace.streams).filter_map(|stream| stream.events()).sum()
}

#[test]
fn links_to_folders_above_are_followed_once() {
    let folder = Folder::new("loop");
    folder.write("a/trace/metadata", METADATA.as_bytes());
    folder.write("a/trace/stream", &packet(0, 10));
    for name in ["a/up", "a/up2", "a/up3"] {
        symlink("..", folder.path().join(name)).expect("a link can be made");
    }
    symlink("trace", folder.path().join("a/zz")).expect("a link can be made");
    let session = open(&folder);
    assert_eq!(session.traces.len(), 1);
    assert_eq!(events(&session), 10);
    assert!(session.failures.is_empty());
}

#[test]
fn pipes_with_names_of_files_are_not_waited_for() {
    let folder = Folder::new("pipe");
    let pipe = |name: &str| {
        let made = Command::new("mkfifo").arg(folder.path().join(name)).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo works");
    };
    folder.write("metadata", METADATA.as_bytes());
    folder.write("stream", &packet(0, 10));
    folder.write("index/other.idx", b"");
    pipe("pipe");
    pipe("index/stream.idx");
    folder.write("below/stream", b"");
    pipe("below/metadata");
    let session = open(&folder);
    assert_eq!(events(&session), 10);
    let below =
        Session::open(&FileSystem, &[folder.path().join("below")], &OpenOptions::new(tracemill_formats::FORMATS));
    assert_eq!(below.expect("the options are right").failures.len(), 1);
}

#[test]
fn schemas_that_grow_by_multiplication_are_refused() {
    let doubled = |level: usize| format!("struct s{level} {{ struct s{0} x; struct s{0} y; }};\n", level - 1);
    let tsdl = |levels: usize| {
        let types: String = (1..=levels).map(doubled).collect();
        format!(
            "/* CTF 1.8 */\ntrace {{ major = 1; minor = 8; byte_order = le; }};\nstruct s0 {{ integer {{ size = 8; }} x; }};\n{types}event {{ name = e; fields := struct {{ struct s{levels} all; }}; }};\n"
        )
    };
    let alias = |name: usize, class: &str| {
        format!("\u{1e}{{\"type\": \"field-class-alias\", \"name\": \"s{name}\", \"field-class\": {class}}}\n")
    };
    let member = |name: &str, class: usize| format!("{{\"name\": \"{name}\", \"field-class\": \"s{class}\"}}");
    let structure = |members: &str| format!("{{\"type\": \"structure\", \"member-classes\": [{members}]}}");
    let ctf2 = |levels: usize| {
        let integer = "{\"type\": \"fixed-length-unsigned-integer\", \"length\": 8, \"byte-order\": \"little-endian\"}";
        let mut text = String::from("\u{1e}{\"type\": \"preamble\", \"version\": 2}\n");
        text += &alias(0, integer);
        for level in 1..=levels {
            let members = format!("{}, {}", member("x", level - 1), member("y", level - 1));
            text += &alias(level, &structure(&members));
        }
        text += "\u{1e}{\"type\": \"data-stream-class\"}\n";
        let payload = structure(&member("all", levels));
        text + &format!("\u{1e}{{\"type\": \"event-record-class\", \"payload-field-class\": {payload}}}\n")
    };
    let cases =
        [("tsdl", tsdl(15), true), ("tsdl", tsdl(60), false), ("ctf2", ctf2(15), true), ("ctf2", ctf2(60), false)];
    for (language, metadata, is_read) in cases {
        let folder = Folder::new("growth");
        folder.write("metadata", metadata.as_bytes());
        folder.write("stream", &[7; 1 << 16]);
        let session = open(&folder);
        if is_read {
            assert!(session.failures.is_empty(), "{language}: {:?}", session.failures);
            continue;
        }
        let [failure] = session.failures.as_slice() else { panic!("{language}: {:?}", session.failures) };
        let limit = (1_000_000 + metadata.len()).to_string();
        assert!(failure.message().contains(&limit), "{language}: {failure}");
        assert!(failure.place().file.as_ref().is_some_and(|file| file.ends_with("metadata")), "{language}: {failure}");
    }
}

#[test]
fn many_classes_that_share_one_large_type_are_refused() {
    let types: String =
        (1..=15).map(|at| format!("struct s{at} {{ struct s{0} x; struct s{0} y; }};\n", at - 1)).collect();
    let events: String = (0..400)
        .map(|at| {
            format!("event {{ name = e{at}; id = {at}; fields := struct {{ integer {{ size = 8; }} n; struct s15 a[n]; }}; }};\n")
        })
        .collect();
    let metadata = format!(
        "/* CTF 1.8 */\ntrace {{ major = 1; minor = 8; byte_order = le; }};\nstruct s0 {{ integer {{ size = 8; }} x; }};\n{types}stream {{ event.header := struct {{ integer {{ size = 16; }} id; }}; }};\n{events}"
    );
    let folder = Folder::new("shared");
    folder.write("metadata", metadata.as_bytes());
    folder.write("stream", &[0; 300]);
    let session = open(&folder);
    let [failure] = session.failures.as_slice() else { panic!("{:?}", session.failures) };
    assert!(failure.message().contains("classes have"), "{failure}");
}

#[test]
fn a_billion_tiny_packets_do_not_take_memory_for_each() {
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        stream { packet.context := struct { integer { size = 8; } packet_size; }; };
        event { name = e; fields := struct { integer { size = 8; } n; }; };";
    let folder = Folder::new("tiny");
    folder.write("metadata", metadata.as_bytes());
    folder.write("stream", &vec![16; 8 << 20]);
    let session = open(&folder);
    let trace = &session.traces[0];
    assert_eq!(trace.streams[0].packets.len(), 1 << 20);
    let [fault] = trace.faults.as_slice() else { panic!("{:?}", trace.faults) };
    assert_eq!(fault.place().offset, Some(2 << 20), "{fault}");
}

#[test]
fn a_thousand_faults_of_packet_headers_are_enough() {
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        stream { packet.context := struct { integer { size = 16; } packet_size; integer { size = 16; } content_size; }; };
        event { name = e; fields := struct { integer { size = 8; } n; }; };";
    let folder = Folder::new("faults");
    folder.write("metadata", metadata.as_bytes());
    // A content larger than the packet; the packet is skipped.
    folder.write("stream", &[32, 0, 40, 0].repeat(3000));
    let session = open(&folder);
    let faults = &session.traces[0].faults;
    assert_eq!(faults.len(), 1001);
    assert!(faults[1000].message().starts_with("2000 more"), "{}", faults[1000]);
    assert_eq!(faults[1000].place().offset, Some(4000));
}

#[test]
fn good_packets_behind_bad_ones_are_found_in_bounded_time() {
    let folder = Folder::new("resync");
    folder.write("metadata", METADATA.as_bytes());
    let mut bytes = packet(0, 3);
    bytes.extend([1; 1000]);
    bytes.extend(packet(3, 6));
    folder.write("stream", &bytes);
    let session = open(&folder);
    assert_eq!(events(&session), 6);
    assert_eq!(session.traces[0].faults.len(), 1);
    // Only beginnings of packets, with a size of zero.
    let folder = Folder::new("magics");
    folder.write("metadata", METADATA.as_bytes());
    let begin = [&[0xc1, 0x1f, 0xfc, 0xc1], [0; 16].as_slice()].concat();
    folder.write("stream", &[begin.repeat(1 << 20), packet(0, 3)].concat());
    let start = std::time::Instant::now();
    let session = open(&folder);
    assert_eq!(events(&session), 0);
    assert!(session.traces[0].faults.len() <= 1001);
    // Searching again from each of them would take hours.
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
}
