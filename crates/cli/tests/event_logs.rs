//! `tracemill convert --to cpel` and `--to elog`: logs as themselves, cut, moved, and of other traces.

mod util;

use std::fs;
use std::path::Path;

use serde_json::Value;
use util::{Folder, json_lines};

fn log(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/logs").join(name).display().to_string()
}

/// Lines without the name of their trace.
fn lines(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    let run = folder.run_with("print --format jsonl -q", arguments).ends(0, &[]);
    let mut lines = json_lines(&run.stdout);
    for line in &mut lines {
        line.as_object_mut().expect("a line is an object").remove("trace");
    }
    lines
}

fn file(folder: &Folder, name: &str) -> Vec<u8> {
    fs::read(folder.path(name)).expect("it can be read")
}

const LOGS: [(&str, &str); 2] = [("belt.cpel", "cpel"), ("dock.elog", "elog")];

#[test]
fn a_log_as_itself_is_the_same_file() {
    let folder = Folder::new();
    for (name, to) in LOGS {
        let want = fs::read(log(name)).expect("the demo is there");
        folder.run_with(&format!("convert -q --to {to} -o copy.{to}"), &[&log(name)]).ends(0, &[]);
        assert_eq!(file(&folder, &format!("copy.{to}")), want);
        // Event by event: events of CPEL then stand in the order of time.
        folder.run_with(&format!("convert -q --to {to} --limit 999999999 -o made.{to}"), &[&log(name)]).ends(0, &[]);
        let made = file(&folder, &format!("made.{to}"));
        assert!(to == "cpel" || made == want, "{name}");
        assert_eq!(made.len(), want.len(), "{name}");
        assert_eq!(lines(&folder, &[&format!("made.{to}")]), lines(&folder, &[&log(name)]), "{name}");
        folder.run(&format!("convert -q --to {to} --limit 999999999 -o again.{to} made.{to}")).ends(0, &[]);
        assert_eq!(file(&folder, &format!("again.{to}")), made, "{name}");
        folder.run_with("convert -q --force --to ctf2 -o ctf2", &[&log(name)]).ends(0, &[]);
        folder.run(&format!("convert -q --to {to} -o back.{to} ctf2")).ends(0, &[]);
        // By way of CTF 2 the seconds of an elog are the nearest ones that have their ns.
        let back = file(&folder, &format!("back.{to}"));
        assert!(to == "elog" || back == made, "{name}");
        assert_eq!(back.len(), made.len(), "{name}");
        assert_eq!(lines(&folder, &[&format!("back.{to}")]), lines(&folder, &[&log(name)]), "{name}");
    }
}

#[test]
fn a_cut_keeps_what_is_wanted() {
    let folder = Folder::new();
    for (name, to) in LOGS {
        let all = lines(&folder, &[&log(name)]);
        let time = |at: usize| format!("{}ns", all[at]["ns"]);
        let (begin, end) = (time(all.len() / 4), time(all.len() / 2));
        for options in [
            &["--begin", &begin, "--end", &end][..],
            &["--filter", "track == 1"],
            &["--skip", "3", "--limit", "5"],
            &["--filter", "track == 99"],
        ] {
            let input = log(name);
            let arguments = [options, &[&input]].concat();
            folder.run_with(&format!("convert -q --force --to {to} -o cut.{to}"), &arguments).ends(0, &[]);
            let (cut, want) = (lines(&folder, &[&format!("cut.{to}")]), lines(&folder, &arguments));
            assert_eq!(cut, want, "{name} {options:?}");
            assert!(cut.len() < all.len());
            folder.run(&format!("check -q cut.{to}")).ends(0, &[]);
        }
        folder.run_with(&format!("convert -q --to {to} --split time=10ms -o parts.{to}"), &[&log(name)]).ends(0, &[]);
        let mut parts = lines(&folder, &[&format!("parts.{to}")]);
        parts.sort_by_key(|line| line["ns"].as_u64());
        assert_eq!(parts.len(), all.len(), "{name}");
        fs::remove_dir_all(folder.path(&format!("parts.{to}"))).expect("it is a folder");
    }
}

#[test]
fn a_part_ends_at_its_size() {
    let folder = Folder::new();
    folder
        .run_with("convert -q --to cpel --split size=8k -o parts", &[&log("belt.cpel"), &log("dock.elog")])
        .ends(0, &[]);
    let parts = fs::read_dir(folder.path("parts")).expect("it is a folder").count();
    let all = lines(&folder, &[&log("belt.cpel"), &log("dock.elog")]).len();
    assert_eq!(lines(&folder, &["parts"]).len(), all);
    // 256 events are looked at together.
    assert!(parts > 1 || all < 500, "{parts} parts of {all} events");
}

#[test]
fn clocks_move_by_any_number_of_ns() {
    let folder = Folder::new();
    for (name, to) in LOGS {
        for ns in ["5", "-12345678", "1000000000000"] {
            let option = format!("--clock-offset-ns={ns}");
            folder
                .run_with(&format!("convert -q --force --to {to} -o moved.{to}"), &[&option, &log(name)])
                .ends(0, &[]);
            let ns_of = |arguments: &[&str]| -> Vec<Value> {
                lines(&folder, arguments).iter().map(|line| line["ns"].clone()).collect()
            };
            assert_eq!(ns_of(&[&format!("moved.{to}")]), ns_of(&[&option, &log(name)]), "{name} {ns}");
        }
    }
}

#[test]
fn byte_orders_of_cpel() {
    let folder = Folder::new();
    let want = lines(&folder, &[&log("belt.cpel")]);
    for (order, first) in [("little", 0x81), ("big", 1)] {
        let arguments = [&log("belt.cpel")[..], "--byte-order", order];
        folder.run_with("convert -q --force --to cpel -o out.cpel", &arguments).ends(0, &[]);
        assert_eq!(file(&folder, "out.cpel")[0], first);
        assert_eq!(lines(&folder, &["out.cpel"]), want);
        folder
            .run_with("convert -q --force --to cpel -o other.cpel --byte-order", &[order, &log("dock.elog")])
            .ends(0, &[]);
        assert_eq!(file(&folder, "other.cpel")[0], first);
    }
}

#[test]
fn other_traces_become_logs_and_what_is_lost_is_said() {
    let folder = Folder::new();
    folder.run("convert --to ctf2 -o none none.cpel").ends(1, &[]);
    for to in ["cpel", "elog"] {
        for trace in ["mill", "orders", "losses"] {
            let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace);
            let demo = demo.display().to_string();
            let arguments = ["--loss-report", "report.json", &demo];
            folder.run_with(&format!("convert --force --to {to} -o out.{to}"), &arguments).ends(0, &["not kept in"]);
            let report: Value = serde_json::from_slice(&file(&folder, "report.json")).expect("it is JSON");
            assert!(report["losses"].as_array().is_some_and(|losses| !losses.is_empty()), "{report}");
            let (want, found) = (lines(&folder, &[&demo]), lines(&folder, &[&format!("out.{to}")]));
            assert_eq!(report["events"], want.len());
            let ns = |lines: &[Value]| lines.iter().map(|line| line["ns"].clone()).collect::<Vec<_>>();
            assert_eq!(ns(&found), ns(&want), "{trace} as {to}");
            folder.run(&format!("check -q out.{to}")).ends(0, &[]);
            folder
                .run_with(&format!("convert -q --strict --to {to} -o strict.{to}"), &[&demo])
                .ends(1, &["--strict forbids that"]);
            assert!(!folder.path(&format!("strict.{to}")).exists());
        }
    }
    // No temporary file is left next to the outputs.
    let left: Vec<String> = fs::read_dir(folder.path("."))
        .expect("it is a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_log_of_several_has_all_their_tracks() {
    let folder = Folder::new();
    let both = [&log("belt.cpel")[..], &log("dock.elog")];
    for to in ["cpel", "elog"] {
        folder.run_with(&format!("convert -q --to {to} -o both.{to}"), &both).ends(0, &[]);
        let found = lines(&folder, &[&format!("both.{to}")]);
        assert_eq!(found.len(), lines(&folder, &both).len());
        let of = |log: &str| {
            let is_it = |line: &&Value| line["payload"]["track_name"].as_str().is_some_and(|name| name.contains(log));
            found.iter().filter(is_it).count()
        };
        assert_eq!(of("belt.cpel: ") + of("dock.elog: "), found.len());
        assert_eq!(of("belt.cpel: "), lines(&folder, &[&log("belt.cpel")]).len());
    }
}

#[test]
fn a_log_that_is_cut_off_becomes_a_whole_one() {
    let folder = Folder::new();
    for (name, to) in LOGS {
        let bytes = fs::read(log(name)).expect("the demo is there");
        let cut = format!("cut.{to}");
        folder.file(&cut, &bytes[..bytes.len() - 30]);
        let run = folder.run(&format!("convert --to {to} -o whole.{to} {cut}"));
        run.ends(3, &[]);
        let want = json_lines(&folder.run(&format!("print --format jsonl -q {cut}")).ends(3, &[]).stdout).len();
        assert_eq!(lines(&folder, &[&format!("whole.{to}")]).len(), want);
        folder.run(&format!("check -q whole.{to}")).ends(0, &[]);
    }
}

#[test]
fn a_gist_log_becomes_cpel() {
    let folder = Folder::new();
    let mut gist = 3u32.to_be_bytes().to_vec();
    for (time, code) in [(1000u32, 7u32), (2000, 8), (2500, 7)] {
        [0, time, 42, code, time / 3].iter().for_each(|word: &u32| gist.extend(word.to_be_bytes()));
    }
    folder.file("log.gist", &gist).file("points.h", "#define RX 7 /* rx packet: %d */\n#define TX 8 /* 100% tx */\n");
    for options in ["", "--ticks-per-us 1000", "--pointdefs points.h", "--ticks-per-us 3 --pointdefs points.h"] {
        folder.run(&format!("convert -q --force --to cpel -o out.cpel {options} log.gist")).ends(0, &[]);
        let mut want = lines(
            &folder,
            &[&options.split(' ').filter(|one| !one.is_empty()).collect::<Vec<_>>()[..], &["log.gist"]].concat(),
        );
        // It has a string table and definitions before its events.
        want.iter_mut().for_each(|line| line["stream"] = 3.into());
        assert_eq!(lines(&folder, &["out.cpel"]), want, "{options}");
    }
}

#[test]
fn gist_logs_are_written() {
    let folder = Folder::new();
    let mut gist = 3u32.to_be_bytes().to_vec();
    // The second event comes too late.
    for (time, code) in [(1000u32, 7u32), (2500, 8), (2000, 7)] {
        [0, time, 42, code, time / 3].iter().for_each(|word: &u32| gist.extend(word.to_be_bytes()));
    }
    folder.file("log.gist", &gist);
    // As itself, by its ending: a copy.
    folder.run("convert -q --strict log.gist copy.gist").ends(0, &[]);
    assert_eq!(file(&folder, "copy.gist"), gist);
    let [head, a, b, c] = [&gist[..4], &gist[4..24], &gist[24..44], &gist[44..]];
    let sorted = [head, a, c, b].concat();
    for way in ["cpel", "ctf2"] {
        folder.run(&format!("convert -q --strict --to {way} -o way.{way} log.gist")).ends(0, &[]);
        folder.run(&format!("convert -q --strict -o {way}.gist way.{way}")).ends(0, &[]);
        assert_eq!(file(&folder, &format!("{way}.gist")), sorted, "{way}");
    }
    folder.run("convert -q -o cut.gist --skip 1 --limit 1 log.gist").ends(0, &[]);
    assert_eq!(file(&folder, "cut.gist"), [&1u32.to_be_bytes()[..], c].concat());
    folder.run("convert -q -o none.gist --limit 0 log.gist").ends(0, &[]);
    assert_eq!(file(&folder, "none.gist"), [0; 4]);
    for name in ["belt.cpel", "dock.elog"] {
        let lost = ["not kept in", "names of event classes (codes stand for them)"];
        folder.run_with("convert --force -o out.gist", &[&log(name)]).ends(0, &lost);
        let of = |arguments: &[&str], member: &str| -> Vec<Value> {
            lines(&folder, arguments).iter().map(|line| line[member].clone()).collect()
        };
        let made = ["--ticks-per-us", "1000", "out.gist"];
        assert_eq!(of(&made, "ns"), of(&[&log(name)], "ns"), "{name}");
        let codes: Vec<Value> = lines(&folder, &made).iter().map(|line| line["payload"]["code"].clone()).collect();
        assert_eq!(codes, of(&[&log(name)], "id"), "{name}");
        folder.run("check -q out.gist").ends(0, &[]);
    }
    folder.run_with("convert --strict -o strict.gist", &[&log("dock.elog")]).ends(1, &["gist cannot hold everything"]);
}

#[test]
fn times_since_1970_are_no_loss_where_they_show_it() {
    let folder = Folder::new();
    let line = |ns: u64| format!("{{\"ns\":{ns},\"name\":\"gate\",\"payload\":{{\"lot\":{}}}}}\n", ns % 7);
    fs::write(folder.path("late.jsonl"), line(1_700_000_000_000_000_001) + &line(1_700_000_000_000_000_009))
        .expect("it can be written");
    // A clock that counts from 1970 and says so: CTF keeps that.
    folder.run("convert -q --to ctf2 -o late late.jsonl").ends(0, &[]);
    let back_to = |ns: i64| format!("--clock-offset-ns late={}", ns - 1_700_000_000_000_000_001);
    folder.run("convert -q --strict --to cpel -o late.cpel late").ends(0, &[]);
    let ns: Vec<Value> = lines(&folder, &["late.cpel"]).iter().map(|line| line["ns"].clone()).collect();
    assert_eq!(ns, [1_700_000_000_000_000_001_u64, 1_700_000_000_000_000_009]);
    let early = format!("convert --strict --to cpel -o early.cpel {} late", back_to(999_999_999_000_000_000));
    folder.run(&early).ends(1, &["origins of the times of events before September 2001 (times are the same) (2)"]);
}
