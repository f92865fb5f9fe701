//! Conversions of CTF traces whose packets do not say how large they are: each one is a file. Files that say they are much
//! larger than what was written to them.

mod util;

use serde_json::Value;
use util::{Folder, json_lines};

const TRACE: &str = "/* CTF 1.8 */ typealias integer { size = 8; align = 8; signed = false; } := u8;
trace { major = 1; minor = 8; byte_order = le; uuid = \"00112233-4455-6677-8899-aabbccddeeff\";
    packet.header := struct { u8 stream_instance_id; }; };
stream { packet.context := struct { u8 timestamp_begin; u8 timestamp_end; }; event.header := struct { u8 id; u8 timestamp; }; };
event { name = a; id = 0; fields := struct { u8 n; string s; }; };
";

/// Times, names and payloads.
fn lines(folder: &Folder, trace: &str, code: i32) -> Vec<[Value; 3]> {
    let run = folder.run(&format!("print -q --format jsonl {trace}")).ends(code, &[]);
    let lines = json_lines(&run.stdout).into_iter();
    lines.map(|line| [line["ns"].clone(), line["name"].clone(), line["payload"].clone()]).collect()
}

/// The trace `t` as CTF, whole and cut.
fn converts(folder: &Folder, code: i32) {
    let want = lines(folder, "t", code);
    for (at, options) in
        ["ctf2", "ctf1.8", "ctf2 --limit 99", "ctf1.8 --limit 99", "ctf2 --begin 0.0"].iter().enumerate()
    {
        folder.run(&format!("convert -q --to {options} -o out{at} t")).ends(code, &[]);
        assert_eq!(lines(folder, &format!("out{at}"), 0), want, "{options}");
        folder.run(&format!("check -q out{at}")).ends(0, &[]);
    }
    folder.run("convert -q --to ctf1.8 -o back out0").ends(0, &[]);
    assert_eq!(lines(folder, "back", 0), want, "back");
}

#[test]
fn files_of_one_stream_are_put_together() {
    let folder = Folder::new();
    folder.file("t/metadata", TRACE);
    folder.file("t/a", [1, 10, 20, 0, 15, 7, b'x', 0]);
    folder.file("t/b", [1, 30, 40, 0, 35, 8, 0, 0, 36, 9, b'y', b'z', 0]);
    assert_eq!(lines(&folder, "t", 0).len(), 3);
    converts(&folder, 0);
}

/// Damaged packets, too: they lose only the events that cannot be read.
#[test]
fn each_packet_has_a_file_of_its_own() {
    let folder = Folder::new();
    let metadata = TRACE.replace(" u8 timestamp; };", " };");
    for (at, (byte, code)) in [(0, 0), (9, 3)].into_iter().enumerate() {
        let trace = format!("t{at}");
        folder.file(&format!("{trace}/metadata"), &metadata);
        folder.file(&format!("{trace}/a"), [1, 10, 20, 0, 7, b'x', 0]);
        folder.file(&format!("{trace}/b"), [1, 30, 30, 0, 8, 0, byte, 9, b'y', b'z', 0]);
        folder.run(&format!("convert -q --to ctf2 -o {trace}.ctf2 {trace}")).ends(code, &[]);
        folder.run(&format!("convert -q --to ctf1.8 -o {trace}.back {trace}.ctf2")).ends(0, &[]);
        let all = |name: &str, code| {
            let lines = json_lines(&folder.run(&format!("print -q --format jsonl {name}")).ends(code, &[]).stdout);
            let plain = lines.into_iter().map(|mut line| {
                line.as_object_mut().and_then(|line| line.remove("trace"));
                line
            });
            plain.collect::<Vec<_>>()
        };
        let want = all(&trace, code);
        assert_eq!(want.len(), 3 - at);
        assert_eq!((all(&format!("{trace}.ctf2"), 0), all(&format!("{trace}.back"), 0)), (want.clone(), want));
        for form in ["ctf2", "back"] {
            let second = std::fs::read(folder.path(&format!("{trace}.{form}/a.000001"))).expect("it was written");
            assert_eq!(second.len(), if at == 0 { 11 } else { 6 });
        }
    }
}

#[test]
fn folders_of_a_rotation_are_put_together() {
    let folder = Folder::new();
    folder.file("t/1/metadata", TRACE);
    folder.file("t/1/a", [1, 10, 20, 0, 15, 7, b'x', 0]);
    folder.file("t/2/metadata", format!("{TRACE}event {{ name = b; id = 1; }};\n"));
    folder.file("t/2/a", [1, 30, 40, 1, 35]);
    assert_eq!(lines(&folder, "t", 0).len(), 2);
    converts(&folder, 0);
}

/// After the last event that can be read are bits that would be another one.
#[test]
fn a_damaged_end_is_not_copied() {
    let folder = Folder::new();
    let metadata = TRACE.replace("align = 8", "align = 1");
    folder.file("t/metadata", metadata.replace("string s;", "integer { size = 3; align = 1; signed = false; } m;"));
    folder.file("t/a", [1, 10, 20, 0, 15, 7, 5, 0xff, 0xff]);
    assert_eq!(lines(&folder, "t", 3).len(), 1);
    converts(&folder, 3);
}

/// The end of a file completes its last byte.
#[test]
fn a_size_that_is_no_whole_number_of_bytes_becomes_one() {
    let folder = Folder::new();
    let metadata = TRACE.replace("u8 timestamp_begin", "u8 packet_size; u8 content_size; u8 timestamp_begin");
    let metadata = metadata.replace(
        "u8 n; string s;",
        "integer { size = 4; align = 4; byte_order = le; } n; integer { size = 4; align = 1; byte_order = le; } m[1];",
    );
    folder.file("t/metadata", metadata.replace("m[1]", "m[0]"));
    folder.file("t/a", [1, 60, 60, 10, 20, 0, 15, 7]);
    assert_eq!(lines(&folder, "t", 3).len(), 1);
    converts(&folder, 3);
}

/// An option that no label names is never there, and CTF 2 has none of it: the packets stay as they are.
#[test]
fn options_without_a_label_are_no_reason_to_make_packets_anew() {
    let folder = Folder::new();
    let fields = "enum : u8 { one = 1, two = 2 } tag; variant <tag> { u8 one; string two; u8 three; } v;";
    folder.file("t/metadata", TRACE.replace("u8 n; string s;", fields));
    folder.file("t/a", [1, 10, 20, 0, 15, 1, 5, 0, 16, 2, b'x', 0]);
    let want = folder.run("print -q --format jsonl t").ends(0, &[]).stdout;
    folder.run("convert -q --to ctf2 -o c t").ends(0, &[]);
    folder.run("convert -q --to ctf1.8 -o back c").ends(0, &[]);
    assert_eq!(want, folder.run("print -q --format jsonl back").ends(0, &[]).stdout);
    assert_eq!(lines(&folder, "c", 0), lines(&folder, "t", 0));
    assert_eq!(std::fs::read(folder.path("back/a")).ok(), std::fs::read(folder.path("t/a")).ok());
}

/// A cut rebuilds the packets, and the variant keeps its selector.
#[test]
fn options_without_a_label_need_no_tag() {
    let folder = Folder::new();
    let fields = "enum : u8 { one = 1, two = 2 } tag; variant <tag> { u8 three; u8 one; string two; } v;";
    folder.file("t/metadata", TRACE.replace("u8 n; string s;", fields));
    folder.file("t/a", [1, 10, 20, 0, 15, 1, 5, 0, 16, 2, b'x', 0]);
    folder.run("convert --to ctf1.8 --limit 9 -o out t").ends(0, &["options of variants that no selector chooses (1)"]);
    assert_eq!(lines(&folder, "out", 0), lines(&folder, "t", 0));
    folder.run("convert -q --to ctf2 --byte-order big -o anew t").ends(0, &[]);
    assert_eq!(lines(&folder, "anew", 0), lines(&folder, "t", 0));
}

/// Readers look for another event in bits that are content and that no field has.
#[test]
fn bits_behind_the_last_field_are_no_content() {
    let folder = Folder::new();
    folder.file(
        "t/metadata",
        "/* CTF 1.8 */ typealias integer { size = 8; align = 8; } := u8;
        trace { major = 1; minor = 8; byte_order = be; packet.header := struct { u8 stream_instance_id; }; };
        stream {
            packet.context := struct {
                u8 packet_size; u8 content_size; u8 timestamp_begin; u8 timestamp_end; integer { size = 12; align = 8; } flags;
            };
            event.header := struct { u8 id; };
        };
        event { name = none; id = 0; };
        event { name = list; id = 1; fields := struct { integer { size = 3; align = 8; } list[2]; }; };
        event { name = empty; id = 2; fields := struct { u8 n; integer { size = 5; align = 8; } m; u8 list[n]; }; };
        event { name = text; id = 3; fields := struct { integer { size = 5; align = 8; } m; string s; }; };
        ",
    );
    let packets: [(&[u8], u64); 5] = [(&[], 4), (&[0], 0), (&[1, 0, 0], 5), (&[2, 0, 0], 0), (&[3, 8, 0], 0)];
    for (at, (event, _)) in packets.iter().enumerate() {
        let mut bytes = vec![at as u8, 56 + 8 * event.len() as u8, 52, 1, 1, 0, 0];
        bytes.extend(*event);
        if !event.is_empty() {
            bytes[2] = bytes[1];
        }
        folder.file(&format!("t/stream{at}"), bytes);
    }
    folder.run("convert -q --to ctf1.8 --byte-order little -o out t").ends(0, &[]);
    for (at, (event, loose)) in packets.iter().enumerate() {
        let bytes = std::fs::read(folder.path(&format!("out/stream{at}"))).expect("it was written");
        // The sizes stand after the magic number and the ids of the stream.
        let sizes: Vec<u64> =
            bytes[12..].chunks(8).map(|of| u64::from_le_bytes(of.try_into().unwrap_or_default())).collect();
        let total = bytes.len() as u64 * 8;
        let found = sizes.windows(2).find(|of| of[0] == total).map(|of| of[1]);
        assert_eq!(found, Some(total - loose), "{event:?}: {bytes:?}");
    }
    folder.run("check -q out").ends(0, &[]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_sparse_file_of_one_tebibyte_is_refused_by_name_at_once() {
    let folder = Folder::new();
    folder.file("t/metadata", TRACE);
    folder.file("t/a", [1, 10, 20, 0, 15, 7, b'x', 0]);
    folder.file("t/b", [1, 30, 40, 0, 35, 8, 0, 0]);
    folder.file("lone.bin", [1, 2, 3]);
    folder.file("log.cpel", [0x81, 0, 0, 1, 0, 0, 0, 0]);
    for name in ["t/b", "lone.bin", "log.cpel"] {
        let file = std::fs::OpenOptions::new().write(true).open(folder.path(name)).expect("it was just written");
        if file.set_len(1 << 40).is_err() {
            return; // The file system holds no file of that size.
        }
    }
    let sentence = "claims 1099511627776 bytes";
    for command in ["info --count t", "print t", "convert --to ctf2 -o out t"] {
        folder.run(command).ends(3, &["t/b", sentence]);
    }
    // Damage is what `check` prints.
    let check = folder.run("check t").ends(3, &[]).stdout;
    assert!(check.contains("t/b") && check.contains(sentence), "{check}");
    assert_eq!(lines(&folder, "t", 3).len(), 1, "the other stream is read");
    for name in ["lone.bin", "log.cpel"] {
        folder.run(&format!("print {name}")).ends(1, &[name, sentence]);
    }
}
