//! `info` and `check`: what traces hold and what is wrong with them.

mod util;

use serde_json::Value;
use util::{Folder, demo, run, stdout, ticks_metadata, ticks_packet};

fn info(arguments: &str) -> Value {
    let text = stdout(&format!("info --json {arguments}"), &[]);
    serde_json::from_str(&text).expect("one JSON object")
}

#[test]
fn info_json_has_every_key() {
    let object = info("orders");
    let trace = &object["traces"][0];
    let keys: Vec<&str> = trace.as_object().expect("an object").keys().map(String::as_str).collect();
    let want = [
        "name",
        "path",
        "format",
        "version",
        "uuid",
        "environment",
        "clocks",
        "streams",
        "event_classes",
        "begin_ns",
        "end_ns",
        "faults",
    ];
    assert_eq!(keys, want);
    assert_eq!((&trace["name"], &trace["format"]), (&"orders".into(), &"ctf1.8".into()));
    assert_eq!(trace["environment"]["procname"], "orders");
    assert_eq!(
        (&trace["clocks"][0]["frequency"], &trace["clocks"][0]["origin"]),
        (&1_000_000_000.into(), &"unix".into())
    );
    let stream = &trace["streams"][0];
    for key in ["id", "class", "packets", "bytes", "begin_ns", "end_ns", "discarded_events", "lost_packets"] {
        assert!(stream[key].is_number(), "{key} of {stream}");
    }
    assert!(stream["events"].is_null() && trace["event_classes"][0]["events"].is_null(), "nothing was counted");
    assert_eq!(trace["event_classes"][0]["fields"][1], "customer");
    assert!(trace.get("packets").is_none());
}

#[test]
fn info_counts_when_asked_whatever_the_threads() {
    let counted = info("mill orders --count --jobs 1");
    assert_eq!(counted, info("mill orders --count --jobs 3"));
    let sum = |trace: usize, list: &str| {
        let list = counted["traces"][trace][list].as_array().expect("a list").clone();
        list.iter().filter_map(|one| one["events"].as_u64()).sum::<u64>()
    };
    assert_eq!((sum(0, "streams"), sum(0, "event_classes")), (2000, 2000));
    assert_eq!((sum(1, "streams"), sum(1, "event_classes")), (500, 500));
}

#[test]
fn info_lists_packets_in_the_order_of_files() {
    let object = info("losses --packets --count");
    let packets = object["traces"][0]["packets"].as_array().expect("a list");
    assert_eq!(packets.len(), 12);
    let keys: Vec<&str> = packets[0].as_object().expect("an object").keys().map(String::as_str).collect();
    let want = [
        "file",
        "index",
        "offset",
        "packet_size",
        "content_size",
        "packet_bits",
        "content_bits",
        "timestamp_begin",
        "timestamp_end",
        "events",
        "discarded_before",
        "lost_packets_before",
    ];
    assert_eq!(keys, want);
    let places = packets.iter().map(|packet| (packet["file"].as_str(), packet["offset"].as_u64()));
    assert!(places.is_sorted());
    assert_eq!(packets.iter().filter_map(|packet| packet["discarded_before"].as_u64()).sum::<u64>(), 7070);
    assert_eq!(packets.iter().filter_map(|packet| packet["events"].as_u64()).sum::<u64>(), 931);
}

#[test]
fn info_tells_lost_packets() {
    let object = info("overwritten");
    let streams = object["traces"][0]["streams"].as_array().expect("a list");
    assert_eq!(streams.iter().filter_map(|stream| stream["lost_packets"].as_u64()).sum::<u64>(), 59);
}

#[test]
fn info_for_people_says_the_same() {
    let text = stdout("info orders --count --packets", &[]);
    for line in [
        "orders\n",
        "format       ctf1.8",
        "Hz, offset",
        "environment  procname = orders",
        "desk_1 (class 0",
        "0/3 orders:complaint 20 events: ",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(text.contains("    desk_0 0 at 0: "), "{text}");
    assert_eq!(stdout("info mill orders", &[]).matches("  event classes\n").count(), 2);
}

#[test]
fn info_tells_a_fault_once_and_lists_it() {
    let folder = Folder::new();
    folder.copy_of("orders", "t");
    let mut bytes = std::fs::read(folder.path("t/desk_1")).expect("it was copied");
    bytes[9025..9425].fill(0xa5);
    folder.file("t/desk_1", bytes);
    let run = folder.run("info t --json --count").ends(3, &["error: t/desk_1: byte ", "packet 2", "is skipped"]);
    assert_eq!(run.stderr.matches("error: ").count(), 1, "{}", run.stderr);
    let object: Value = serde_json::from_str(&run.stdout).expect("one JSON object");
    let faults = object["traces"][0]["faults"].as_array().expect("a list");
    assert_eq!((faults.len(), &faults[0]["file"]), (1, &"t/desk_1".into()));
    assert!(faults[0]["offset"].as_u64().is_some_and(|offset| (8192..12288).contains(&offset)));
}

#[test]
fn check_finds_nothing_in_a_good_trace() {
    assert_eq!(stdout("check orders", &[]), "1 trace, 500 events: 0 faults, 0 warnings, 0 losses\n");
    let run = run("check mill orders --strict").ends(0, &[]);
    assert_eq!(run.stdout, "2 traces, 2500 events: 0 faults, 0 warnings, 0 losses\n");
}

#[test]
fn check_tells_losses_which_only_strict_minds() {
    let run = run("check losses").ends(0, &[]);
    assert!(run.stdout.starts_with("loss: losses/tiny_0: 1814 events were discarded between "), "{}", run.stdout);
    assert!(run.stdout.ends_with("0 warnings, 5 losses\n"));
    assert_eq!(util::run("check losses --quiet").ends(0, &[]).stdout.lines().count(), 1);
    let strict = util::run("check losses --strict").ends(1, &[]);
    assert_eq!(strict.stdout.matches("loss: ").count(), 1, "it stops at the first: {}", strict.stdout);
}

#[test]
fn check_tells_faults_with_their_place() {
    let folder = Folder::new();
    let packets = [ticks_packet(&[(10, 1)], 0), ticks_packet(&[(20, 2), (30, 3)], 0)].concat();
    folder.file("t/metadata", ticks_metadata("")).file("t/s", &packets[..packets.len() - 4]);
    let run = folder.run("check t").ends(3, &[]);
    assert!(run.stdout.contains("fault: t/s: byte 52, packet 1: "), "{}", run.stdout);
    assert!(
        run.stdout.ends_with(": 2 faults, 0 warnings, 0 losses\n"),
        "the packet, and its last event: {}",
        run.stdout
    );
    folder.run("check t --strict").ends(1, &[]);
    let json: Value = serde_json::from_str(&folder.run("check t --json").ends(3, &[]).stdout).expect("one JSON object");
    assert_eq!((&json["faults"], &json["findings"][0]["severity"]), (&2.into(), &"fault".into()));
    assert_eq!((&json["findings"][0]["file"], &json["findings"][0]["offset"]), (&"t/s".into(), &52.into()));
}

#[test]
fn check_warns_of_times_and_of_bytes_that_nothing_reaches() {
    let folder = Folder::new();
    let packets = [ticks_packet(&[(10, 1), (50, 2), (30, 3)], 0), ticks_packet(&[(20, 4)], 0)].concat();
    folder.file("t/metadata", ticks_metadata("")).file("t/s", packets);
    let run = folder.run("check t").ends(0, &[]);
    for text in [
        "warning: t/s: byte 76, packet 1: the packet begins at 20 cycles, before the end of the one before at 30",
        "packet 0: an event at 50 cycles is outside of the times of its packet",
        "packet 0: time goes back in stream `s`, from 50 to 30 cycles",
    ] {
        assert!(run.stdout.contains(text), "`{text}` is not in {}", run.stdout);
    }
    folder.run("check t --strict").ends(1, &[]);
}

#[test]
fn an_index_that_says_other_times_than_the_packets_is_ignored() {
    let folder = Folder::new();
    folder.run_with("convert --to ctf1.8 --index -o out", &[&demo("mill")]).ends(0, &[]);
    let path = folder.path("out/index/work_0.idx");
    let right = std::fs::read(&path).expect("it is there");
    let entries = (right.len() - 16) / 72;
    assert!(entries > 2);
    let (events, ends) = (folder.run("print out").stdout, folder.run("print out --begin +100ms").stdout);
    // Begin and end of an entry in the middle, and of the last one.
    for (entry, field, what) in [(entries / 2, 3, "begins"), (entries / 2, 4, "ends"), (entries - 1, 4, "ends")] {
        let mut wrong = right.clone();
        wrong[16 + entry * 72 + field * 8 + 7] ^= 1;
        std::fs::write(&path, wrong).expect("it can be written");
        let said =
            format!("out/index/work_0.idx: the index is ignored: its entry {entry} says that the packet {what} at");
        assert_eq!(folder.run("print out").ends(0, &[&said]).stdout, events);
        assert_eq!(folder.run("print out --begin +100ms").ends(0, &[&said]).stdout, ends);
    }
}

#[test]
fn a_trace_of_another_format_than_the_one_named_is_refused() {
    run("print mill --input-format ctf1.8 --limit 1").ends(0, &[]);
    run("print mill --input-format ctf2").ends(1, &["mill: the trace is `ctf1.8`, not `ctf2`"]);
}

#[cfg(target_os = "linux")]
#[test]
fn paths_that_are_no_utf_8_have_an_exact_form() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    util::plain_trace(&folder, "t", "event { name = e; id = 0; };", &[0, 10, 5, 4]);
    let odd = std::ffi::OsStr::from_bytes(b"o\xffd");
    std::fs::rename(folder.path("t"), folder.path(".").join(odd)).expect("any name will do");
    std::fs::rename(folder.path(".").join(odd).join("s"), folder.path(".").join(odd).join(odd)).expect("so does this");
    let shown: Value = serde_json::from_str(&folder.run("info --json --packets .").ends(0, &[]).stdout).expect("JSON");
    let trace = &shown["traces"][0];
    let path = trace["path_base64"].as_str().expect("it is there");
    assert!(trace["path"].as_str().expect("it is there").ends_with("o\u{fffd}d"));
    // The last letters are `/o\xffd`, or part of them.
    assert!(path.ends_with("v/2Q=") || path.ends_with("b/9k") || path.ends_with("L2//ZA=="), "{path}");
    assert_eq!(trace["packets"][0]["file_base64"], "b/9k");
    let whole: Value = serde_json::from_str(&folder.run_with("info --json", &[&demo("orders")]).stdout).expect("JSON");
    assert_eq!(whole["traces"][0].get("path_base64"), None);
}

/// Events of 24 bits that begin at multiples of 32: what stands after the last one is padding up to there, or the rest
/// of a byte, or nothing that is known.
#[test]
fn bits_that_no_event_can_take_are_warnings() {
    let folder = Folder::new();
    let metadata = "/* CTF 1.8 */ typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 3; align = 1; signed = false; } := u3;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u8 stream_id; }; };
stream { packet.context := struct { u8 content_size; u8 packet_size; };
    event.header := struct { u8 id; } align(32); };
event { name = e; id = 0; fields := struct { u8 a; u8 b; }; };
event { name = bits; id = 1; fields := struct { u8 a; u3 b; }; };
";
    let (head, event) = (32, [0, 7, 8, 0]);
    let packet = |content: u8, events: &[[u8; 4]]| [&[0, content, 128, 0][..], &events.concat(), &[0; 16]].concat();
    for (content, events, warning) in [
        (head + 24, &[event][..], None),
        (head + 32, &[event], None),
        (head + 26, &[event], Some("byte 7, packet 0: 2 bits of the packet's content")),
        (head + 32 + 24, &[event, event], None),
        (head + 19, &[[1, 7, 2, 0]], None),
        (head + 24, &[[1, 7, 2, 0]], None),
        (head + 25, &[[1, 7, 2, 0]], Some("byte 6 bit 3, packet 0: 6 bits of the packet's content")),
        (head, &[], None),
        // No event at all, and no room for one.
        (24, &[], None),
        (27, &[], Some("byte 3, packet 0: 3 bits of the packet's content after its last event")),
    ] {
        let bytes = packet(content, events);
        folder.file("t/metadata", metadata).file("t/stream", &bytes[..16]);
        let (checked, printed) = (folder.run("check t").ends(0, &[]), folder.run("print t").ends(0, &[]));
        let told: Vec<&str> = checked.stdout.lines().filter(|line| line.starts_with("warning: ")).collect();
        match warning {
            Some(text) => assert!(told.len() == 1 && told[0].contains(text), "{content}: {told:?}"),
            None => assert!(told.is_empty(), "{content}: {told:?}"),
        }
        assert_eq!((printed.stderr.as_str(), printed.stdout.lines().count()), ("", events.len()), "{content}");
    }
}
