//! A trace of LTTng 0.7, as the program shows it.

mod util;

use util::Folder;

const FS: &str = "<facility name=fs><event name=open><field name=filename><sequence><uint><uchar></sequence></field>
                  <field name=fd><uint size=4/></field></event></facility>";

/// A block of a 32-bit machine, 1 MHz, that began at 1000.25 s.
fn block(events: &[(u32, [u8; 2], &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let size = 106 + events.iter().map(|(_, _, data)| 8 + data.len() as u32).sum::<u32>();
    for word in [500u64, 1000, 5000, 1000] {
        bytes.extend(word.to_le_bytes());
    }
    for word in [0, size, 0x00D6_B7ED, 1, 0, 1234] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend([4, 0, 7, 0, 1, 0]);
    bytes.extend(1000u32.to_le_bytes());
    for word in [1000u64, 500, 0, 1000, 250_000] {
        bytes.extend(word.to_le_bytes());
    }
    for (time, ids, data) in events {
        bytes.extend(time.to_le_bytes());
        bytes.extend(ids);
        bytes.extend((data.len() as u16).to_le_bytes());
        bytes.extend(*data);
    }
    bytes
}

fn trace() -> Folder {
    let folder = Folder::new();
    let mut load = b"fs\0".to_vec();
    // The checksum is not that of the file, which is reported.
    for word in [7u32, 3, 4, 4, 4, 4, 0] {
        load.extend(word.to_le_bytes());
    }
    let open = |name: &[u8], fd: u32| [&(name.len() as u32).to_le_bytes(), name, &fd.to_le_bytes()].concat();
    let (plain, binary) = (open(b"/etc/passwd\0", 3), open(&[1, 2], 4));
    let short = &open(b"/x", 5)[..6];
    folder.file("t/eventdefs/fs.xml", FS);
    folder.file("t/control/facilities_0", block(&[(501, [0, 0], &load)]));
    folder.file("t/cpu_1", block(&[(600, [3, 0], &plain), (700, [3, 0], &binary), (800, [3, 0], short)]));
    folder
}

#[test]
fn text_shows_bytes_and_what_they_say() {
    let run = trace().run("print --clock-gmt t");
    let run =
        run.ends(3, &["checksum", "t/cpu_1: byte 152, packet 0, field `fd`: an event of 6 bytes of data is too short"]);
    let lines: Vec<&str> = run.stdout.lines().skip(1).collect();
    let bytes = "[0] = 47, [1] = 101, [2] = 116, [3] = 99, [4] = 47, [5] = 112, [6] = 97, [7] = 115, [8] = 115, [9] = 119, \
                 [10] = 100, [11] = 0";
    let expected = [
        format!(
            "[00:16:40.250100000] (+0.000099000) fs.open: {{ filename = ( \"/etc/passwd\" : container = [ {bytes} ] ), \
             fd = 3 }}"
        ),
        "[00:16:40.250200000] (+0.000100000) fs.open: { filename = [ [0] = 1, [1] = 2 ], fd = 4 }".into(),
        "[00:16:40.250300000] (+0.000100000) fs.open: { filename = ( \"/x\" : container = [ [0] = 47, [1] = 120 ] ), \
         fd = <none> }"
            .into(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn json_has_arrays_and_nulls_and_the_cpu() {
    let folder = trace();
    let run = folder.run("print --format jsonl t").ends(3, &[]);
    let lines: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[1]["name"], "fs.open");
    assert_eq!((lines[1]["cpu"].as_u64(), lines[1]["cycles"].as_u64()), (Some(1), Some(600)));
    assert_eq!(lines[2]["payload"]["filename"], serde_json::json!([1, 2]));
    assert_eq!(lines[3]["payload"], serde_json::json!({"filename": [47, 120], "fd": null}));
    let run = folder.run("print --format csv --columns name,payload.fd t").ends(3, &[]);
    assert_eq!(run.stdout, "name,payload.fd\ncore.facility_load,\nfs.open,3\nfs.open,4\nfs.open,\n");
    let run = folder.run_with("print --format jsonl t --filter", &["payload.fd >= 4 or not payload.fd > 0"]);
    assert_eq!(run.stdout.lines().count(), 3);
}

#[test]
fn an_event_that_ends_early_does_not_move_those_behind_it() {
    let folder = trace();
    for to in ["ctf2", "ctf1.8"] {
        let run = folder.run(&format!("convert --to {to} -o {to} t")).ends(3, &["byte 152"]);
        let told = format!("not kept in {to}: fields after the end of their event (they become zeros) (1)");
        assert!(run.stderr.contains(&told), "{}", run.stderr);
        assert_eq!(events(&folder, to, &["name", "ns"]), events(&folder, "t", &["name", "ns"]), "{to}");
        folder.run_with("check", &[to]).ends(0, &[]);
        let run = folder.run(&format!("print -q --format csv --columns ns,name,payload.fd {to}")).ends(0, &[]);
        let lines: Vec<&str> = run.stdout.lines().skip(2).map(|line| &line[line.find(',').unwrap_or(0)..]).collect();
        assert_eq!(lines, [",fs.open,3", ",fs.open,4", ",fs.open,0"], "{to}");
    }
    // A dropped field leaves the end of its event where it is.
    folder.run("convert -q --to jsonl -o lines --drop-field filename t").ends(3, &[]);
    let lines = std::fs::read_to_string(folder.path("lines")).expect("it was written");
    let payloads: Vec<&str> = lines.lines().skip(1).filter_map(|line| line.split("\"payload\":").nth(1)).collect();
    assert_eq!(payloads, ["{\"fd\":3}}", "{\"fd\":4}}", "{\"fd\":null}}"]);
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Tracefiles of 0.7 whose blocks lie about their beginning and end.
fn lying_blocks(numbers: &mut Numbers, has_heartbeat: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let mut time = 1000;
    for _ in 0..1 + numbers.below(5) {
        let events: Vec<u64> = (0..numbers.below(6))
            .map(|_| {
                time += numbers.below(50);
                time - numbers.below(30)
            })
            .collect();
        let mut lie = || time.saturating_sub(100) + numbers.below(150);
        let (begin, end) = (lie(), lie());
        let mut bytes = block(&[]);
        bytes[0..8].copy_from_slice(&begin.to_le_bytes());
        bytes[16..24].copy_from_slice(&end.to_le_bytes());
        bytes[60] = u8::from(has_heartbeat);
        for event in events {
            let stamp = event.to_le_bytes();
            bytes.extend(if has_heartbeat { &stamp[..4] } else { &stamp });
            bytes.extend([0, 2, 0, 0]);
        }
        let size = bytes.len() as u32;
        bytes[36..40].copy_from_slice(&size.to_le_bytes());
        file.extend(bytes);
    }
    file
}

/// Channels of 2.5 that do the same.
fn lying_sub_buffers(numbers: &mut Numbers, is_metadata: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let mut time = 1000;
    for _ in 0..1 + numbers.below(5) {
        let mut bytes = Vec::new();
        let mut lie = || (time + numbers.below(150)).saturating_sub(100);
        for word in [lie(), lie()] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(0x00D6_B7EDu32.to_le_bytes());
        bytes.extend([2, 5, 4, 0]);
        for word in [1000u64, 250_000, 1_000_000] {
            bytes.extend(word.to_le_bytes());
        }
        for word in [1u32, 0, 0, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        for _ in 0..numbers.below(6) {
            time += numbers.below(50);
            // Id 29: id, size, and the whole clock.
            bytes.extend((29u32 << 27 | (time as u32 & 0x7ff_ffff)).to_le_bytes());
            bytes.extend(if is_metadata { [7, 0, 0, 0] } else { [9, 0, 0, 0] });
            bytes.extend((time - numbers.below(30)).to_le_bytes());
        }
        let size = bytes.len() as u32;
        bytes[52..56].copy_from_slice(&size.to_le_bytes());
        bytes[56..60].copy_from_slice(&size.to_le_bytes());
        file.extend(bytes);
    }
    file
}

#[test]
fn a_range_of_time_gives_what_a_filter_gives() {
    let mut numbers = Numbers(11);
    for round in 0..40 {
        let folder = Folder::new();
        let is_old = round % 2 == 0;
        if is_old {
            folder.file("t/eventdefs/none.xml", " ");
            folder.file("t/control/facilities_0", lying_blocks(&mut numbers, true));
            folder.file("t/cpu_0", lying_blocks(&mut numbers, true));
            folder.file("t/cpu_1", lying_blocks(&mut numbers, false));
        } else {
            folder.file("t/metadata_0", lying_sub_buffers(&mut numbers, true));
            folder.file("t/k_0", lying_sub_buffers(&mut numbers, false));
        }
        let ns = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["ns"].as_i64();
        let all = folder.run("print --quiet --format jsonl t").stdout;
        let times: Vec<i64> = all.lines().filter_map(ns).collect();
        let (Some(first), Some(last)) = (times.iter().min(), times.iter().max()) else { continue };
        let mut at = || first + numbers.below((last - first + 2) as u64) as i64;
        let (begin, end) = (at(), at());
        for (begin, end) in [(Some(begin), None), (None, Some(end)), (Some(begin.min(end)), Some(begin.max(end)))] {
            let mut options = "print --quiet --format jsonl t".to_string();
            options.extend(begin.map(|ns| format!(" --begin {ns}ns")));
            options.extend(end.map(|ns| format!(" --end {ns}ns")));
            let is_in = |line: &&str| {
                ns(line).is_some_and(|ns| begin.is_none_or(|begin| ns >= begin) && end.is_none_or(|end| ns <= end))
            };
            let expected: Vec<&str> = all.lines().filter(is_in).collect();
            let found = folder.run(&options).stdout;
            assert_eq!(found.lines().collect::<Vec<_>>(), expected, "round {round}: {options}");
        }
    }
}

#[test]
fn info_shows_clock_facilities_and_checksums() {
    let run = trace().run("info --json t");
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let trace = &json["traces"][0];
    assert_eq!((trace["format"].as_str(), trace["version"].as_str()), (Some("lttng-legacy"), Some("0.7")));
    let sections = trace["sections"].to_string();
    for word in ["facilities", "frequency_hz", "1000000", "definition_checksum", "eventdefs/fs.xml"] {
        assert!(sections.contains(word), "{word}: {sections}");
    }
}

/// The events of a trace without those that loads make, each with some of its keys.
fn events(folder: &Folder, trace: &str, keys: &[&str]) -> Vec<serde_json::Value> {
    let run = folder.run(&format!("print --quiet --format jsonl {trace}"));
    let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    let lines = run.stdout.lines().map(parse);
    let lines = lines.filter(|line| !line["name"].as_str().is_some_and(|name| name.starts_with("core.")));
    lines.map(|line| keys.iter().map(|key| (key.to_string(), line[key].clone())).collect()).collect()
}

#[test]
fn a_trace_goes_through_ctf_2_and_comes_back() {
    let folder = trace();
    let keys = ["ns", "cycles", "name", "id", "cpu", "payload"];
    let before = events(&folder, "t", &keys);
    // The last event is damaged: it ends before its last field.
    folder.run("convert --quiet --to ctf2 -o two --end 1000.25025 t");
    folder.run("convert --quiet --to lttng-legacy -o back two").ends(0, &[]);
    assert_eq!(events(&folder, "back", &keys), before[..2]);
    // As itself the files are copied, with their damage, which is reported.
    folder.run("convert --quiet --to lttng-legacy -o own t").ends(3, &["its data end inside of the field"]);
    assert_eq!(events(&folder, "own", &keys), before);
    folder.run("convert --quiet --to lttng-legacy -o cut --begin 1000.2501 --end 1000.25015 two").ends(0, &[]);
    assert_eq!(events(&folder, "cut", &keys), before[..1]);
    for name in ["back", "own"] {
        let written = std::fs::read(folder.path(&format!("{name}/eventdefs/fs.xml"))).expect("it is written");
        assert_eq!(written, FS.as_bytes());
    }
}

#[test]
fn redacted_events_keep_ids_and_names_beside_events_of_unknown_facilities() {
    let folder = trace();
    let close = FS.replace("</facility>", "<event name=close><field name=fd><uint size=4/></field></event></facility>");
    folder.file("t/eventdefs/fs.xml", close);
    let close = 5u32.to_le_bytes();
    folder.file("t/cpu_1", block(&[(600, [3, 1], &close), (700, [9, 1], &[1, 2]), (800, [3, 1], &close)]));
    let keys = ["ns", "name", "id", "payload"];
    let mut wanted = events(&folder, "t", &keys);
    assert_eq!(wanted[1]["id"], 0x901, "{wanted:?}");
    folder.run("convert --quiet --to ctf2 -o two --anonymise fd t").ends(0, &[]);
    let found = events(&folder, "two", &keys);
    for (wanted, found) in wanted.iter_mut().zip(&found) {
        if let Some(hidden) = found["payload"].get("fd") {
            assert_ne!(*hidden, 5);
            wanted["payload"]["fd"] = hidden.clone();
        }
    }
    assert_eq!(found, wanted);
}

#[test]
fn any_trace_becomes_one_of_facilities_in_both_byte_orders() {
    let folder = Folder::new();
    let mut numbers = Numbers(3);
    folder.file("m/metadata_0", lying_sub_buffers(&mut numbers, true));
    folder.file("m/kernel_1", lying_sub_buffers(&mut numbers, false));
    let keys = ["ns", "name", "cpu"];
    let before = events(&folder, "m", &keys);
    assert!(!before.is_empty());
    folder.run("convert --to jsonl -o m.jsonl m");
    for order in ["little", "big"] {
        let run = folder.run(&format!("convert --to lttng-legacy --byte-order {order} -o {order} m.jsonl"));
        assert_eq!(events(&folder, order, &keys), before, "{order}: {}", run.stderr);
        let info = folder.run(&format!("info --json {order}")).stdout;
        assert!(info.contains("\"0.7\""), "{info}");
        // From 0.7, and from the other format.
        for (name, input) in [("new", order), ("newer", "m.jsonl")] {
            let options = format!("--lttng-version 0.8 --byte-order {order} --force -o {name}");
            folder.run(&format!("convert --to lttng-legacy {options} {input}"));
            assert_eq!(events(&folder, name, &keys), before, "{order} {name}");
            let info = folder.run(&format!("info --json {name}")).ends(0, &[]).stdout;
            assert!(info.contains("\"0.8\""), "{info}");
            folder.run(&format!("check -q {name}")).ends(0, &[]);
            // A copy keeps the version.
            folder.run(&format!("convert --to lttng-legacy --force -o copy {name}")).ends(0, &[]);
            assert_eq!(events(&folder, "copy", &keys), before, "{order} {name}");
            let info = folder.run("info --json copy").ends(0, &[]).stdout;
            assert!(info.contains("\"0.8\""), "{info}");
        }
    }
    folder.run("convert --to lttng-legacy --lttng-version 2.6 -o markers m.jsonl").ends(0, &[]);
    // Events that define others are made anew, and the name of their channel is not free.
    let sorted = |events: Vec<serde_json::Value>| {
        let lines = events.iter().map(|event| event.to_string().replace("_metadata.", "metadata."));
        let mut lines: Vec<String> = lines.filter(|line| !line.contains("metadata.core_marker")).collect();
        lines.sort();
        lines
    };
    for options in ["markers", "--wall-clock markers"] {
        assert_eq!(sorted(events(&folder, options, &keys)), sorted(before.clone()), "{options}");
    }
    folder.run("check -q markers").ends(0, &[]);
    folder.run("convert --to lttng-legacy --lttng-version 1 -o x m.jsonl").ends(2, &["not one of 0.7, 0.8 and 2.6"]);
}

/// Changes bytes of a file of a trace.
fn change(folder: &Folder, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(folder.path(file)).expect("it is there");
    change(&mut bytes);
    folder.file(file, bytes);
}

/// A trace with a facility, two blocks of two events in `cpu_0`, and one block in `cpu_1`.
fn sound() -> Folder {
    let folder = Folder::new();
    let mut load = b"m\0".to_vec();
    for word in [CHECKSUM, 3, 4, 4, 4, 4, 0] {
        load.extend(word.to_le_bytes());
    }
    let two = |from: u32| {
        let data = [from, from + 1].map(u32::to_le_bytes);
        block(&[(600 + from, [3, 0], &data[0]), (601 + from, [3, 0], &data[1])])
    };
    folder.file("t/eventdefs/m.xml", M).file("t/control/facilities_0", block(&[(501, [0, 0], &load)]));
    folder.file("t/cpu_0", [two(1), two(3)].concat()).file("t/cpu_1", two(5));
    folder
}

const M: &str = "<facility name=m>
                 <event name=e><field name=n><uint/></field></event>
                 <event name=q><field name=s><sequence><uint/><uchar/></sequence></field></event></facility>";
/// CRC-32 of the names and types of `M`, from another program.
const CHECKSUM: u32 = 2_369_600_678;
/// Bytes of a block of `cpu_0`.
const BLOCK: usize = 106 + 2 * 12;

#[test]
fn damage_is_told_with_its_place_and_what_is_sound_is_printed() {
    // The damaged traces of the issue: name, damage, the values left, the status, the message.
    type Case = (&'static str, fn(&Folder), &'static [u32], i32, &'static str);
    let cases: [Case; 11] = [
        ("sound", |_| {}, &[1, 2, 3, 4, 5, 6], 0, ""),
        (
            "magic number",
            |folder| change(folder, "t/cpu_1", |bytes| bytes[40..44].copy_from_slice(&[0xef, 0xbe, 0xad, 0xde])),
            &[1, 2, 3, 4],
            3,
            "error: t/cpu_1: byte 40: no magic number: 0xdeadbeef",
        ),
        (
            "major version",
            |folder| change(folder, "t/cpu_1", |bytes| bytes[57] = 2),
            &[1, 2, 3, 4],
            3,
            "error: t/cpu_1: byte 57",
        ),
        (
            "block of 0 bytes",
            |folder| change(folder, "t/cpu_1", |bytes| bytes[36..40].fill(0)),
            &[1, 2, 3, 4],
            3,
            "error: t/cpu_1: byte 0, packet 0: the block says that it has 0 bytes",
        ),
        (
            "unused bytes",
            |folder| change(folder, "t/cpu_0", |bytes| bytes[32..36].copy_from_slice(&0xffff_fff0u32.to_le_bytes())),
            &[3, 4, 5, 6],
            3,
            "error: t/cpu_0: byte 0, packet 0: 4294967280 bytes at the end of the block are said to be unused",
        ),
        (
            "no loads",
            |folder| std::fs::remove_file(folder.path("t/control/facilities_0")).expect("it is there"),
            &[],
            3,
            "no `control/facilities_N` that can be read",
        ),
        (
            "length of a sequence",
            |folder| {
                change(folder, "t/cpu_0", |bytes| {
                    bytes[106 + 5] = 1;
                    bytes[114..118].copy_from_slice(&0x4000_0000u32.to_le_bytes());
                });
            },
            &[2, 3, 4, 5, 6],
            3,
            "error: t/cpu_0: byte 106, packet 0, field `s`: an event of 4 bytes of data is too short for its fields: a \
             sequence of 1073741824 elements",
        ),
        (
            "cut block",
            |folder| change(folder, "t/cpu_0", |bytes| bytes.truncate(BLOCK + 106 + 12 + 7)),
            &[1, 2, 3, 5, 6],
            3,
            "error: t/cpu_0: byte 130, packet 1: the file ends inside of the block: 125 of its 130 bytes",
        ),
        (
            "unknown event without a size",
            |folder| {
                change(folder, "t/cpu_0", |bytes| {
                    bytes[118 + 4] = 9;
                    bytes[118 + 6..118 + 8].fill(0xff);
                });
            },
            &[1, 3, 4, 5, 6],
            3,
            "error: t/cpu_0: byte 118, packet 0: event 0 of facility 9, which nothing describes, does not say its size",
        ),
        (
            "broken definition",
            |folder| {
                folder.file("t/eventdefs/m.xml", &M[..60]);
            },
            &[],
            3,
            "error: t/eventdefs/m.xml: line 2, column ",
        ),
        (
            "version",
            |folder| {
                for file in ["t/control/facilities_0", "t/cpu_0", "t/cpu_1"] {
                    change(folder, file, |bytes| bytes[58] = 3);
                }
            },
            &[],
            1,
            "error: t/control/facilities_0: byte 57: a trace of LTTng version 0.3, which is not read",
        ),
    ];
    for (what, damage, values, code, told) in cases {
        let folder = sound();
        damage(&folder);
        let run = folder.run("print --format jsonl t").ends(code, &[told]);
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        let lines: Vec<serde_json::Value> = run.stdout.lines().map(parse).collect();
        let found: Vec<u64> = lines.iter().filter_map(|line| line["payload"]["n"].as_u64()).collect();
        assert_eq!(found, values.iter().map(|&value| value.into()).collect::<Vec<u64>>(), "{what}: {}", run.stderr);
        let unnamed = lines.iter().filter(|line| line["name"].as_str().is_some_and(|name| name.ends_with("event_0")));
        let expected = if matches!(what, "no loads" | "broken definition") { 6 } else { 0 };
        assert_eq!(unnamed.count(), expected, "{what}: {}", run.stdout);
        let strict = folder.run("print --format jsonl --strict t");
        assert_eq!(strict.code, Some(if code == 0 { 0 } else { 1 }), "{what}: {}", strict.stderr);
        folder.run("check t").ends(code, &[]);
    }
}

#[test]
fn times_that_go_back_are_told_and_stay_in_the_order_of_the_file() {
    let folder = sound();
    // The times of the first block of `cpu_0` after those of the second.
    change(&folder, "t/cpu_0", |bytes| {
        for at in [106, 118] {
            bytes[at + 1] += 8;
        }
    });
    let run = folder.run("print --format jsonl --stream cpu_0 t").ends(0, &["warning: t/cpu_0: byte 236, packet 1: "]);
    let values = run.stdout.lines().filter(|line| line.contains("m.e")).map(|line| &line[line.len() - 3..]);
    assert_eq!(values.collect::<Vec<_>>(), ["1}}", "2}}", "3}}", "4}}"]);
}

#[test]
fn info_shows_system_and_bookmarks() {
    let folder = sound();
    folder.file("t/info/system.xml", "<system node_name=\"box\" cpu=2 arch_size=ILP32>a machine</system>");
    folder.file("t/info/bookmarks.xml", "<bookmarks><location name=one cpu=1 time=12.5>here</location></bookmarks>");
    let text = folder.run("info t").ends(0, &[]).stdout;
    for word in ["node_name", "box", "a machine", "12.5", "here"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&folder.run("info --json t").stdout).expect("JSON");
    let sections = json["traces"][0]["sections"].to_string();
    for word in ["system", "bookmarks", "ILP32", "12.5", "here"] {
        assert!(sections.contains(word), "{word}: {sections}");
    }
}

/// A sub-buffer of 2.5 on a 32-bit machine, 1 MHz, of one page: events with their header word, bytes after it.
fn sub_buffer(begin: u64, lost: u32, events: &[(u32, u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = [begin, begin + 1000].map(u64::to_le_bytes).concat();
    bytes.extend(0x00D6_B7EDu32.to_le_bytes());
    bytes.extend([2, 5, 4, 0]);
    bytes.extend([1000u64, 250_000, 1_000_000].map(u64::to_le_bytes).concat());
    let events: Vec<u8> = events
        .iter()
        .flat_map(|(id, clock, rest)| {
            let word = id << 27 | (*clock as u32 & 0x7ff_ffff);
            [&word.to_le_bytes(), rest.as_slice()].concat()
        })
        .collect();
    bytes.extend([1, 68 + events.len() as u32, 4096, lost, 0].map(u32::to_le_bytes).concat());
    bytes.extend(events);
    bytes.resize(4096, 0);
    bytes
}

/// Markers `k.open` (id 3) and `k.far` (id 40), with their events; one event is of a marker that nothing defines.
fn markers() -> Folder {
    let folder = Folder::new();
    let id = |name: &str, id: u8| [b"k\0", name.as_bytes(), &[0, id, 0, 4, 4, 4, 4, 0]].concat();
    let format = |name: &str, format: &str| format!("k\0{name}\0{format}\0").into_bytes();
    let metadata = [
        (0, 1001, id("open", 3)),
        (1, 1002, format("open", "name %s fd %d net #n2u%u")),
        (0, 1003, id("far", 40)),
        (1, 1004, format("far", " ")),
    ];
    folder.file("t/metadata_0", sub_buffer(1000, 0, &metadata));
    let open = |name: &str, fd: i32| [name.as_bytes(), &[0], &fd.to_le_bytes(), &[1, 2]].concat();
    let whole_clock = |clock: u64| [&[40, 0, 0, 0][..], &clock.to_le_bytes()].concat();
    let late = 1 << 30;
    let first = [(3, 1100, open("/a", 3)), (31, 1101, vec![40, 0]), (30, 1102, vec![9, 0, 2, 0, 7, 7])];
    let second = [(29, late, whole_clock(late)), (3, late + 1, open("", -1))];
    folder.file("t/k_0", [sub_buffer(1050, 0, &first), sub_buffer(late - 5, 4, &second)].concat());
    folder.file("t/info/bookmarks", "a note");
    folder
}

#[test]
fn markers_are_written_as_they_were() {
    let folder = markers();
    let lines = |run: util::Run| run.stdout.lines().map(str::to_owned).collect::<Vec<_>>();
    let expected = lines(folder.run("print --format jsonl t").ends(0, &["no format is known for event 9"]));
    assert_eq!(expected.len(), 9);
    let far = folder.path("t/k_0");
    for (name, options) in [("copy", "t"), ("anew", "--filter true t"), ("back", "c")] {
        folder.run("convert --to ctf2 --force -o c t").ends(0, &[]);
        folder.run(&format!("convert --to lttng-legacy -o {name} {options}")).ends(0, &[]);
        let found = lines(folder.run(&format!("print --format jsonl {name}")).ends(0, &[]));
        assert_eq!(found, expected, "{name}");
        assert_eq!(std::fs::read(folder.path(&format!("{name}/info/bookmarks"))).expect("it is there"), b"a note");
        let info = folder.run(&format!("info {name}")).ends(0, &[]);
        assert!(info.stdout.contains("2 packets, 8192 bytes"), "{}", info.stdout);
        // But for the bytes that nothing describes, down to the byte.
        let (one, other) =
            (std::fs::read(&far).expect("the trace"), std::fs::read(folder.path(&format!("{name}/k_0"))));
        assert_eq!(one[4096..], other.expect("the output")[4096..], "{name}");
    }
}

#[test]
fn markers_that_are_used_are_always_defined() {
    let folder = markers();
    folder.run_with("convert --to lttng-legacy -o cut t --filter", &["name == \"k.open\""]).ends(0, &[]);
    let names = |folder: &Folder| {
        let run = folder.run("print --format csv --columns name,payload.name cut").ends(0, &[]);
        run.stdout.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let defined = ["metadata.core_marker_id,open", "metadata.core_marker_format,open", "k.open,/a", "k.open,"];
    assert_eq!(names(&folder), defined);
    folder.run_with("convert --to lttng-legacy --force -o cut t --stream", &["k_0"]).ends(0, &[]);
    assert_eq!(names(&folder).len(), 4 + 5);
    // The byte order is turned around with everything in it.
    folder.run("convert --to lttng-legacy --force -o cut --byte-order big t").ends(0, &[]);
    assert_eq!(std::fs::read(folder.path("cut/k_0")).expect("the output")[16..20], [0, 0xD6, 0xB7, 0xED]);
    assert_eq!(names(&folder).len(), 9);
}
