//! `tracemill convert` of a part of a trace to its own format: packets stay, and events keep their bytes.

mod util;

use std::fs;
use std::path::Path;

use serde_json::Value;
use util::{Folder, demo, json_lines};

const TRACES: [&str; 4] = ["losses", "mill", "orders", "overwritten"];

/// Lines without what describes packets.
fn lines(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    let run = folder.run_with("print --format jsonl -q", arguments).ends(0, &[]);
    let mut lines = json_lines(&run.stdout);
    for line in &mut lines {
        line.as_object_mut().expect("a line is an object").remove("packet_context");
        line.as_object_mut().expect("a line is an object").remove("trace");
    }
    lines
}

fn packets(folder: &Folder, trace: &str) -> Vec<Value> {
    let run = folder.run_with("info --json --packets -q", &[trace]).ends(0, &[]);
    let info: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
    info["traces"][0]["packets"].as_array().expect("it has packets").clone()
}

fn file(folder: &Folder, name: &str) -> Vec<u8> {
    fs::read(folder.path(name)).expect("it can be read")
}

#[test]
fn events_of_a_cut_keep_everything() {
    let folder = Folder::new();
    for trace in TRACES {
        for options in [
            ["--begin", "+100ms"],
            ["--end", "+50ms"],
            ["--filter", "cycles & 1 == 0"],
            ["--filter", "cycles & 127 == 5"],
            ["--filter", "name == \"*a*\""],
            ["--stream", "*0"],
        ] {
            folder
                .run_with("convert -q --force --to ctf1.8 -o out", &[options[0], options[1], &demo(trace)])
                .ends(0, &[]);
            let want = lines(&folder, &[options[0], options[1], &demo(trace)]);
            assert_eq!(lines(&folder, &["out"]), want, "{trace} {options:?}");
            let metadata = fs::read(Path::new(&demo(trace)).join("metadata")).expect("the demo is there");
            assert_eq!(file(&folder, "out/metadata"), metadata, "{trace} {options:?}");
            folder.run("check -q out").ends(0, &[]);
        }
    }
}

#[test]
fn whole_packets_are_copied() {
    let folder = Folder::new();
    let all = packets(&folder, &demo("mill"));
    // In the middle of the first packet of `work_0`.
    let first = all.iter().find(|packet| packet["file"] == "work_0").expect("it has packets");
    let middle = (first["timestamp_begin"].as_u64().unwrap_or(0) + first["timestamp_end"].as_u64().unwrap_or(0)) / 2;
    let lines = json_lines(&folder.run_with("print --format jsonl -q", &[&demo("mill")]).ends(0, &[]).stdout);
    let from = lines.iter().find(|line| line["cycles"].as_u64() >= Some(middle)).expect("it has later events");
    let begin = format!("{}ns", from["ns"]);
    folder.run_with("convert --to ctf1.8 -o out", &["--begin", &begin, &demo("mill")]).ends(0, &[]);
    let (before, after) =
        (fs::read(Path::new(&demo("mill")).join("work_0")).expect("it is there"), file(&folder, "out/work_0"));
    let of = |packets: &[Value], file: &str| -> Vec<(usize, usize)> {
        let own = packets.iter().filter(|packet| packet["file"] == file);
        let number = |packet: &Value, key: &str| packet[key].as_u64().unwrap_or(0) as usize;
        own.map(|packet| (number(packet, "offset"), number(packet, "packet_size"))).collect()
    };
    let (old, new) = (of(&all, "work_0"), of(&packets(&folder, "out"), "work_0"));
    assert_eq!(old.len(), new.len());
    assert!(new[0].1 < old[0].1, "the first one is cut");
    for (old, new) in old.iter().zip(&new).skip(1) {
        assert!(before[old.0..old.0 + old.1] == after[new.0..new.0 + new.1], "{old:?} {new:?}");
    }
}

#[test]
fn an_index_of_a_cut_describes_it() {
    let folder = Folder::new();
    folder.run_with("convert --to ctf1.8 --index -o out --begin +100ms", &[&demo("mill")]).ends(0, &[]);
    assert!(folder.path("out/index").is_dir());
    let indexed = packets(&folder, "out");
    folder.run("check out").ends(0, &[]);
    fs::remove_dir_all(folder.path("out/index")).expect("it is there");
    assert_eq!(packets(&folder, "out"), indexed);
}

#[test]
fn damage_leaves_a_gap() {
    let folder = Folder::new();
    folder.copy_of("mill", "damaged");
    let mut bytes = file(&folder, "damaged/work_0");
    // Unknown ids, in the second packet.
    bytes[20_000..32_742].fill(0xff);
    folder.file("damaged/work_0", &bytes);
    let want = folder.run("print --format jsonl -q damaged").ends(3, &["error: damaged/work_0"]);
    for to in ["ctf1.8", "ctf2"] {
        folder.run(&format!("convert --to {to} -o {to} damaged")).ends(3, &["error: damaged/work_0"]);
        let found = folder.run(&format!("print --format jsonl -q {to}")).ends(0, &[]);
        assert_eq!(json_lines(&found.stdout).len(), json_lines(&want.stdout).len(), "{to}");
        let info: Value = serde_json::from_str(&folder.run(&format!("info --json -q {to}")).stdout).expect("JSON");
        let streams = info["traces"][0]["streams"].as_array().expect("it has streams").clone();
        let lost: Vec<_> = streams.iter().filter(|stream| stream["lost_packets"] == 1).collect();
        assert_eq!(lost.len(), 1, "{to}: {streams:?}");
        folder.run(&format!("convert --strict --to {to} -o strict damaged")).ends(1, &["error: damaged/work_0"]);
        assert!(!folder.path("strict").exists());
    }
}

/// A trace whose events begin at bytes and hold fields of larger alignments, with strings between them.
fn wide(folder: &Folder, order: &str) {
    let metadata = format!(
        "/* CTF 1.8 */
        typealias integer {{ size = 8; align = 8; }} := u8;
        typealias integer {{ size = 32; align = 32; }} := u32;
        typealias integer {{ size = 64; align = 64; }} := u64;
        trace {{ major = 1; minor = 8; byte_order = {order}; packet.header := struct {{ u32 magic; }}; }};
        clock {{ name = c; freq = 1000000000; }};
        stream {{
            packet.context := struct {{ u32 packet_size; u32 content_size; }};
            event.header := struct {{ u8 id; integer {{ size = 64; align = 8; map = clock.c.value; }} t; }};
        }};
        event {{ name = text; id = 0; fields := struct {{ string s; u32 n; }}; }};
        event {{ name = bits; id = 1; fields := struct {{
            integer {{ size = 3; align = 1; }} a; integer {{ size = 13; align = 1; }} b; u8 len; u64 list[len]; u8 last;
        }}; }};
        event {{ name = none; id = 2; }};"
    );
    let is_big = order == "be";
    let number = |value: u64, len: usize| -> Vec<u8> {
        if is_big { value.to_be_bytes()[8 - len..].to_vec() } else { value.to_le_bytes()[..len].to_vec() }
    };
    let mut bytes = [number(0xc1fc_1fc1, 4), vec![0; 8]].concat();
    let align = |bytes: &mut Vec<u8>, to: usize| bytes.resize(bytes.len().next_multiple_of(to), 0xaa);
    for at in 0..40_u8 {
        // The largest alignment inside is that of the structure, too.
        bytes.push(at % 3);
        bytes.extend(number(u64::from(at), 8));
        match at % 3 {
            0 => {
                align(&mut bytes, 4);
                bytes.extend(std::iter::repeat_n(b'x', usize::from(at % 7)));
                bytes.push(0);
                align(&mut bytes, 4);
                bytes.extend(number(u64::from(at) * 1_000_003, 4));
            }
            1 => {
                align(&mut bytes, 8);
                bytes.extend([at, !at, at % 4]);
                align(&mut bytes, 8);
                (0..at % 4).for_each(|n| bytes.extend(number(u64::from(n) << 40, 8)));
                bytes.push(at);
            }
            _ => {}
        }
    }
    let size = number(bytes.len() as u64 * 8, 4);
    bytes[4..8].copy_from_slice(&size);
    bytes[8..12].copy_from_slice(&size);
    fs::create_dir_all(folder.path("wide")).expect("a folder");
    folder.file("wide/metadata", metadata).file("wide/s", bytes);
}

#[test]
fn events_move_to_places_of_other_alignments() {
    let folder = Folder::new();
    for order in ["le", "be"] {
        wide(&folder, order);
        assert_eq!(lines(&folder, &["wide"]).len(), 40, "{order}");
        for filter in ["cycles & 1 == 0", "cycles & 3 == 1 or name == \"text\"", "name != \"text\"", "cycles > 7"] {
            for to in ["ctf1.8", "ctf2"] {
                folder
                    .run_with(&format!("convert -q --force --to {to} -o out"), &["--filter", filter, "wide"])
                    .ends(0, &[]);
                let want = lines(&folder, &["--filter", filter, "wide"]);
                assert_eq!(lines(&folder, &["out"]), want, "{order} {to} {filter}");
                folder.run("check -q out").ends(0, &[]);
                if to == "ctf1.8" {
                    assert_eq!(file(&folder, "out/metadata"), file(&folder, "wide/metadata"), "{order} {filter}");
                }
            }
        }
    }
}
