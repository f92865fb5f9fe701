//! `--begin` and `--end` in all their forms, and clocks that are moved.

mod util;

use util::{Folder, json_lines, run, run_with, stdout, ticks_metadata, ticks_packet};

/// Five ticks, half a second from each other, from 2023-11-14 22:13:20 UTC.
fn ticks() -> Folder {
    let folder = Folder::new();
    let events: Vec<(u64, u32)> = (0..5).map(|n| (u64::from(n) * 500_000_000, n)).collect();
    folder.file("t/metadata", ticks_metadata("offset_s = 1700000000;")).file("t/s", ticks_packet(&events, 0));
    folder
}

/// The numbers of the ticks that are printed.
fn numbers(folder: &Folder, options: &[&str]) -> Vec<u64> {
    let run = folder.run_with("print t --format jsonl", options).ends(0, &[]);
    json_lines(&run.stdout).iter().filter_map(|line| line["payload"]["n"].as_u64()).collect()
}

#[test]
fn begin_and_end_in_every_form() {
    let folder = ticks();
    for begin in [
        "1700000000.5",
        "1700000000.500000000",
        "1700000000500000000ns",
        "2023-11-14 22:13:20.5",
        "2023-11-14T22:13:20.5Z",
        "2023-11-14 23:13:20.5+01:00",
        "22:13:20.5",
        "+500ms",
        "+0.5s",
        "-1.5s",
        "-1500ms",
    ] {
        assert_eq!(numbers(&folder, &["--begin", begin]), [1, 2, 3, 4], "--begin {begin}");
        assert_eq!(numbers(&folder, &[&format!("--begin={begin}")]), [1, 2, 3, 4], "--begin={begin}");
        assert_eq!(numbers(&folder, &["--end", begin]), [0, 1], "--end {begin}");
    }
    assert_eq!(numbers(&folder, &["-b", "+500ms", "-e", "+1000ms"]), [1, 2]);
    assert_eq!(numbers(&folder, &["--begin", "2023-11-15", "--clock-gmt"]), [0; 0]);
    assert_eq!(numbers(&folder, &["--begin", "2023-11-14 22:13", "--end", "2023-11-14 22:14"]), [0, 1, 2, 3, 4]);
}

#[test]
fn times_in_filters_are_the_same_times() {
    let folder = ticks();
    assert_eq!(numbers(&folder, &["--filter", "time >= \"+500ms\" and time < \"22:13:21.5\""]), [1, 2]);
    assert_eq!(numbers(&folder, &["--filter", "ns == 1700000001000000000"]), [2]);
}

#[test]
fn local_times_are_those_of_the_zone() {
    let folder = ticks();
    let mut command = util::command();
    command.current_dir(folder.path("")).env("TZ", "Asia/Tokyo");
    command.args(["print", "t", "--format", "csv", "--columns", "n", "--begin", "2023-11-15 07:13:21.5"]);
    let run = util::Run::from_output(command.output().expect("the program starts"));
    assert_eq!((run.code, &*run.stdout), (Some(0), "n\n3\n4\n"), "{}", run.stderr);
}

#[test]
fn bad_times_point_into_the_option() {
    for (option, text) in [("--begin", "yesterday"), ("--end", "12:99"), ("--begin", "+5"), ("--end", "1.0000000001")] {
        let run = run_with("print orders", &[&format!("{option}={text}")]);
        run.ends(2, &[&format!("error: {option}: line 1, column ")]);
    }
}

#[test]
fn clocks_are_moved_by_seconds_and_ns() {
    let first = |options: &str| {
        json_lines(&stdout(&format!("print orders --format jsonl --limit 1 {options}"), &[]))[0]["ns"].as_i64()
    };
    let ns = 1_795_249_870_190_152_266;
    assert_eq!(first(""), Some(ns));
    assert_eq!(first("--clock-offset 2"), Some(ns + 2_000_000_000));
    assert_eq!(first("--clock-offset -1.25"), Some(ns - 1_250_000_000));
    assert_eq!(first("--clock-offset-ns -7 --clock-offset 1"), Some(ns + 999_999_993));
    assert_eq!(first("--clock-offset orders=1"), Some(ns + 1_000_000_000));
    for (option, hint) in [
        ("--clock-offset=x", "`x` is not a number of seconds"),
        ("--clock-offset=1e3", "`1e3` is not a number of seconds"),
        ("--clock-offset-ns=1.5", "`1.5` is not a number of nanoseconds"),
        ("--clock-offset=nope=1", "no trace has the name `nope`"),
    ] {
        run_with("print orders", &[option]).ends(2, &[hint, "help: "]);
    }
}

#[test]
fn traces_are_also_named_by_folders_around_them() {
    let folder = util::Folder::new();
    folder.copy_of("orders", "a/deep/orders").copy_of("mill", "a/mill").copy_of("losses", "b/kernel/x");
    let moved = |options: &str| {
        let run = folder.run(&format!("print a b --format jsonl {options}")).ends(0, &[]);
        let mut moved = std::collections::BTreeMap::new();
        for line in json_lines(&run.stdout) {
            let name = line["trace"].as_str().expect("a name").to_string();
            moved.entry(name).or_insert(line["ns"].as_i64().expect("a time"));
        }
        moved
    };
    let (before, near) =
        (moved(""), moved("--clock-offset-ns a=5 --clock-offset-ns deep=10 --clock-offset-ns kernel=100"));
    let by: Vec<i64> = before.iter().map(|(name, ns)| near[name] - ns).collect();
    assert_eq!((before.keys().collect::<Vec<_>>(), by), (near.keys().collect(), vec![15, 5, 100]));
    folder.run("print a b --clock-offset nope=1").ends(2, &["no trace has the name `nope`"]);
}

#[test]
fn one_trace_of_several_is_moved_by_its_name() {
    let text = stdout("print mill orders --format jsonl --clock-offset orders=3600", &[]);
    let lines = json_lines(&text);
    assert!(lines[..2000].iter().all(|line| line["trace"] == "mill"));
    assert!(lines[2000..].iter().all(|line| line["trace"] == "orders"));
    assert!(lines.iter().filter_map(|line| line["ns"].as_i64()).is_sorted());
}

#[test]
fn the_time_range_reads_several_traces_from_one_origin() {
    let all = json_lines(&stdout("print mill orders --format jsonl", &[]));
    let first = all[0]["ns"].as_i64().expect("it has a time");
    let want = all.iter().filter(|line| line["ns"].as_i64().is_some_and(|ns| ns <= first + 100_000_000)).count();
    let run = run("print mill orders --format jsonl --end +100ms").ends(0, &[]);
    assert_eq!(run.stdout.lines().count(), want);
    assert!(want > 0 && want < all.len());
}

#[test]
fn a_stream_without_any_time_in_the_range_leaves_the_others_theirs() {
    let folder = Folder::new();
    // The clock of the first trace begins after the range.
    folder.file("a/metadata", ticks_metadata("freq = 1000000000; offset_s = 1000;"));
    folder.file("b/metadata", ticks_metadata("freq = 1000000000;"));
    for trace in ["a", "b"] {
        folder.file(&format!("{trace}/s"), ticks_packet(&[(5, 1), (7, 2)], 0));
    }
    let run = folder.run("print -q --format csv --columns ns,trace --end 6ns a b").ends(0, &[]);
    assert_eq!(run.stdout, "ns,trace\n5,b\n");
}

/// An event log of two sections, one of 100 kHz and one of 1 GHz, whose times leave 64 bits of ns.
fn far_times() -> Folder {
    let section = |rate: u32, events: &[(u64, u32)]| {
        let mut data = vec![0; 64];
        data[0] = b'T';
        data.extend([(events.len() as u32).to_be_bytes(), rate.to_be_bytes()].concat());
        for (time, code) in events {
            data.extend(time.to_be_bytes());
            data.extend([1, *code, 0].map(u32::to_be_bytes).concat());
        }
        [5u32.to_be_bytes().to_vec(), (data.len() as u32).to_be_bytes().to_vec(), data].concat()
    };
    let mut file = vec![1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4, b'T', 0, 0, 0];
    file.extend(section(100_000, &[(1, 1), (1 << 63, 2), (u64::MAX, 3)]));
    file.extend(section(1_000_000_000, &[(1 << 63, 4), (u64::MAX, 5)]));
    let folder = Folder::new();
    folder.file("far.cpel", file);
    folder
}

#[test]
fn times_of_centuries_are_exact_and_in_order() {
    let folder = far_times();
    let shown = |command: &str| folder.run(command).ends(0, &[]).stdout;
    let ids = |command: &str| -> Vec<u64> {
        json_lines(&shown(command)).iter().filter_map(|line| line["id"].as_u64()).collect()
    };
    let want =
        "ns\n10000\n9223372036854775808\n18446744073709551615\n92233720368547758080000\n184467440737095516150000\n";
    assert_eq!(shown("print far.cpel --format csv --columns ns"), want);
    assert!(shown("print far.cpel --format jsonl --limit 4").ends_with(
        "{\"ns\":92233720368547758080000,\"cycles\":9223372036854775808,\"name\":\"E2\",\"id\":2,\"stream\":2,\
         \"payload\":{\"code\":2,\"track\":1,\"track_name\":\"1\",\"datum\":0,\"datum_text\":\"\"}}\n"
    ));
    assert_eq!(ids("print far.cpel --format jsonl --begin 9223372036854775809ns"), [5, 2, 3]);
    assert_eq!(ids("print far.cpel --format jsonl --begin 18446744073.709551616 --end 99999999999999"), [2]);
    assert_eq!(ids("print far.cpel --format jsonl --end=-1ns"), [1, 4, 5, 2]);
    assert_eq!(ids("print far.cpel --format jsonl --filter ns>18446744073709551615"), [2, 3]);
    let text = shown("print far.cpel --begin 18446744073.709551615");
    assert_eq!(
        text,
        "[18446744073.709551615] (+?.?????????) 1 E5\n\
         [92233720368547.758080000] (+92215273624474.048528385) 1 E2\n\
         [184467440737095.516150000] (+92233720368547.758070000) 1 E3\n"
    );
    let info: serde_json::Value = serde_json::from_str(&shown("info --json far.cpel")).expect("an object");
    assert_eq!(info["traces"][0]["end_ns"].to_string(), "184467440737095516150000");
}

#[test]
fn a_begin_after_the_end_is_refused() {
    run("print mill --begin +2s --end +1s").ends(2, &["--begin `+2s` (", "lies after --end `+1s` ("]);
    run("print mill --begin +1s --end +1s").ends(0, &[]);
}

#[test]
fn the_intersection_of_streams_is_that_of_each_trace() {
    let folder = Folder::new();
    let metadata = ticks_metadata("freq = 1000000000;");
    let stream = |times: &[u64]| {
        let events: Vec<(u64, u32)> = times.iter().map(|&time| (time, time as u32)).collect();
        // Two packets each: the range is that of the whole stream.
        let (first, second) = events.split_at(1);
        [ticks_packet(first, 0), ticks_packet(second, 0)].concat()
    };
    folder
        .file("t/metadata", &metadata)
        .file("t/a", stream(&[10, 30, 49, 50]))
        .file("t/b", stream(&[30, 45, 50, 51, 90]));
    folder.file("u/metadata", &metadata).file("u/a", stream(&[200, 300]));
    folder.file("apart/metadata", &metadata).file("apart/a", stream(&[1, 2])).file("apart/b", stream(&[3, 4]));
    let numbers = |arguments: &str| -> Vec<u64> {
        let run = folder.run(&format!("print --format jsonl {arguments}")).ends(0, &[]);
        json_lines(&run.stdout).iter().map(|line| line["cycles"].as_u64().expect("a time")).collect()
    };
    assert_eq!(numbers("--stream-intersection t"), [30, 30, 45, 49, 50, 50]);
    assert_eq!(numbers("--stream-intersection t u"), [30, 30, 45, 49, 50, 50, 200, 300]);
    assert_eq!(numbers("--stream-intersection --end 49ns -j3 t u"), [30, 30, 45, 49]);
    assert_eq!(numbers("--stream-intersection --begin 0ns u"), [200, 300]);
    assert_eq!(numbers("--stream-intersection apart"), [0u64; 0]);
    // A stream that `--stream` leaves out still counts for the intersection.
    assert_eq!(numbers("--stream-intersection --stream a t"), [30, 49, 50]);
}
