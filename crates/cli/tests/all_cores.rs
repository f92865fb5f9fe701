//! Whatever the number of threads, everything comes out the same: events, damage, losses, their order, and outputs.

mod util;

use std::fs;

use util::{Folder, content, run, run_with, ticks_metadata, ticks_packet};

/// Commands over traces with several streams, losses and packets that overwrite each other.
const COMMANDS: &[&str] = &[
    "print mill orders losses overwritten",
    "print mill orders losses overwritten --verbose --memory 64K",
    "print losses --format jsonl --begin +100ms --end +200ms",
    "check mill orders losses overwritten",
    "check --json losses",
    "info --count mill losses",
];

#[test]
fn demo_traces() {
    for command in COMMANDS {
        let one = run(&format!("{command} --jobs 1"));
        for jobs in [2, 3, 9] {
            let many = run(&format!("{command} --jobs {jobs}"));
            assert_eq!(
                (many.code, many.stdout, many.stderr),
                (one.code, one.stdout.clone(), one.stderr.clone()),
                "{command}"
            );
        }
    }
    let filter = ["--filter", "name == \"mill:*\" and payload.gear > 1"];
    let [one, many] = ["1", "4"].map(|jobs| run_with(&format!("print mill orders --jobs {jobs}"), &filter).stdout);
    assert!(!one.is_empty() && one == many);
    let [one, many] = ["1", "4"].map(|jobs| run(&format!("report --state mill:* mill orders --jobs {jobs}")).stdout);
    assert!(!one.is_empty() && one == many);
}

#[test]
fn calls_of_tasks() {
    for command in [
        "report",
        "report --format json",
        "graph",
        "graph --function main",
        "flame --format json",
        "dump --flame-graph",
    ] {
        let of = |jobs: u32| {
            let run = run(&format!("{command} ../calls/tasting --jobs {jobs}"));
            (run.code, run.stdout, run.stderr)
        };
        let one = of(1);
        assert!(one.0 == Some(0) && one.1.len() > 100, "{one:?}");
        assert!([2, 7].into_iter().all(|jobs| of(jobs) == one), "{command}");
    }
}

/// The times between events are measured in stretches of the timeline.
#[test]
fn times_between_events() {
    let kernel = "../kernel/bakery --memory 16K";
    let commands = [
        format!("--state sched_switch --by cpu {kernel}"),
        format!("--state sched_switch --by payload.next_tid --within {kernel}"),
        format!("--state * --by name --filter cpu==0 {kernel}"),
        format!("--from sched_waking --to sched_switch --by cpu {kernel}"),
        format!("--from * --to s*_* --by stream --begin +1ms {kernel}"),
        format!("--state sched_switch --by cpu --regress {kernel}"),
        format!("--from *entry* --to *exit* --regress {kernel}"),
        "--state * --by name mill orders losses overwritten --verbose --memory 64K".to_string(),
        "--state mill:* --within mill losses --format json".to_string(),
    ];
    for command in commands {
        let [one, two, nine] = [1, 2, 9].map(|jobs| {
            let run = run(&format!("report {command} --jobs {jobs}"));
            (run.code, run.stdout, run.stderr)
        });
        assert!(one.0 == Some(0) && one.1.len() > 200, "{command}: {one:?}");
        assert!(one == two && one == nine, "{command}");
    }
}

#[test]
fn analyses_of_kernel_traces() {
    for names in ["cpu,sched,irq,syscalls,io,memory,locks,processes,stats", "states", "sched --log", "path --tid 641"] {
        for format in ["json", "table"] {
            let analyze = |jobs: u32| {
                let run = run(&format!("analyze {names} ../kernel/bakery --format {format} --jobs {jobs}"));
                (run.code, run.stdout, run.stderr)
            };
            let one = analyze(1);
            assert!(one.0 == Some(0) && one.1.len() > 1000, "{one:?}");
            assert!([2, 5].into_iter().all(|jobs| analyze(jobs) == one), "{names}");
        }
    }
}

#[test]
fn damaged_streams_and_tiny_packets() {
    let metadata = ticks_metadata("freq = 1000000000;");
    let folder = Folder::new();
    folder.file("t/metadata", metadata);
    // Packets of one event and of many; the content of some is longer than they are.
    for stream in 0..4u64 {
        let packet = |at: u64| {
            let count = if at.is_multiple_of(7) { 60 } else { 1 };
            let events: Vec<(u64, u32)> = (0..count).map(|n| (at * 1000 + n * 10 + stream, n as u32)).collect();
            let mut bytes = ticks_packet(&events, at / 50);
            if (stream + at) % 97 == 3 {
                bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
            }
            bytes
        };
        folder.file(&format!("t/s{stream}"), (0..300).flat_map(packet).collect::<Vec<u8>>());
    }
    for command in [
        "print t",
        "print --verbose t",
        "check t",
        "convert --to ctf2 --packet-size 1K -o OUT t --loss-report -",
        "report --state * --by stream --verbose t",
        "report --state * --within --by payload.n t --memory 4K",
        "report --from * --to * --by stream,payload.n t",
    ] {
        let results = [1, 2, 5].map(|jobs| {
            let out = format!("out{jobs}");
            let run = folder.run(&format!("{} --jobs {jobs}", command.replace("OUT", &out)));
            let written = if folder.path(&out).exists() { content(&folder.path(&out)) } else { Vec::new() };
            let _ = fs::remove_dir_all(folder.path(&out));
            (run.code, run.stdout, run.stderr.replace(&out, "out"), written)
        });
        assert_eq!(results[0], results[1], "{command}");
        assert_eq!(results[0], results[2], "{command}");
        assert!(!results[0].2.is_empty() || !results[0].1.is_empty(), "{command}");
        assert_eq!(results[0].0, Some(3), "{command}: {:?}", results[0].2);
    }
}

/// Streams that may be divided by time, and streams that only seem so: packets whose events lie outside of their times, that
/// overlap, that lost events, or that cannot be read.
#[test]
fn streams_with_times_that_lie() {
    let folder = Folder::new();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    for trace in 0..60u64 {
        let clock = ["freq = 1000000000;", "freq = 3000000000;", "freq = 1000;"][trace as usize % 3];
        folder.file("t/metadata", ticks_metadata(clock));
        // Every fifth trace is in order; of the others some packets are not.
        let kinds = if trace % 5 == 0 { 0 } else { 1 + trace % 6 };
        for stream in 0..1 + below(3) {
            let (mut time, mut lost) = (below(500), 0);
            let mut bytes = Vec::new();
            for _ in 0..40 + below(60) {
                let first = time;
                let events = (0..1 + below(5)).map(|_| {
                    time += below(40);
                    (time, below(4) as u32)
                });
                let events: Vec<_> = events.collect();
                let (mut begin, mut end, mut size) = (first, time, None);
                // A cut must fall between the end of a packet and an event of it.
                if below(if kinds == 1 { 2 } else { 30 }) == 0 {
                    match kinds {
                        1 => end = first + below(10).min(time - first),
                        2 => begin = time,
                        3 => time = first.saturating_sub(below(60)),
                        4 => lost += 1,
                        5 => size = Some(below(1 << 20)),
                        6 => (begin, end) = (first + below(300), time + below(300)),
                        _ => {}
                    }
                }
                let mut packet = ticks_packet(&events, lost);
                packet[16..24].copy_from_slice(&begin.to_le_bytes());
                packet[24..32].copy_from_slice(&end.to_le_bytes());
                if let Some(size) = size {
                    packet[..8].copy_from_slice(&size.to_le_bytes());
                }
                bytes.extend(packet);
            }
            folder.file(&format!("t/s{stream}"), bytes);
        }
        for question in
            ["--state * --by payload.n", "--from * --to * --by payload.n,stream --begin +200ns", "--state t* --verbose"]
        {
            let report = |jobs: u32| {
                let run = folder.run(&format!("report {question} t --jobs {jobs}"));
                (run.code, run.stdout, run.stderr)
            };
            let one = report(1);
            assert!(one.0 == Some(0) || one.0 == Some(3), "{one:?}");
            assert!([2, 3, 8].into_iter().all(|jobs| report(jobs) == one), "trace {trace}, {question}: {one:?}");
        }
        fs::remove_dir_all(folder.path("t")).expect("it is there");
    }
}

/// Large files without an index are opened side by side; what is wrong with them is reported file by file all the same.
#[test]
fn large_files() {
    let folder = Folder::new();
    folder.file("t/metadata", ticks_metadata("freq = 1000000000;"));
    for stream in 0..4u64 {
        let packet = |at: u64| {
            let events: Vec<(u64, u32)> = (0..4000).map(|n| (at * 1_000_000 + n * 10, n as u32)).collect();
            let mut bytes = ticks_packet(&events, at / 50);
            if (stream + at) % 40 == 3 {
                bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
            }
            bytes
        };
        let bytes: Vec<u8> = (0..120).flat_map(packet).collect();
        assert!(bytes.len() > 5 << 20, "four of them are more than what is opened by one thread");
        folder.file(&format!("t/s{stream}"), bytes);
    }
    let results = [1, 2, 3, 9].map(|jobs| {
        let run = folder.run(&format!("info --verbose t --jobs {jobs}"));
        (run.code, run.stdout, run.stderr)
    });
    assert_eq!(results[0].0, Some(3), "{}", results[0].2);
    assert!(
        ["s0", "s1", "s2", "s3"].iter().all(|file| results[0].2.contains(&format!("t/{file}: "))),
        "{}",
        results[0].2
    );
    assert!(results[1..].iter().all(|of| *of == results[0]));
}

#[test]
fn streams_written_side_by_side() {
    let commands = [
        "--to ctf2 mill orders losses overwritten",
        "--to ctf2 --byte-order big mill orders losses",
        "--to ctf1.8 --merge mill orders losses",
        "--to ctf2 --index losses --filter name==\"burst*\"",
        "--to ctf2 --begin +10ms --end +90ms losses mill",
        "--to ctf2 --strict --packet-size 1K losses mill",
    ];
    for command in commands {
        let folder = Folder::new();
        let results = [1, 2, 8].map(|jobs| {
            let out = folder.path(&format!("out{jobs}"));
            let fixed = ["convert", "--verbose", "--loss-report", "-", "-o", out.to_str().expect("UTF-8"), "--jobs"];
            let jobs = jobs.to_string();
            let mut args: Vec<&str> = fixed.into_iter().chain([&*jobs]).collect();
            args.extend(command.split(' '));
            let run = run_with("", &args);
            let written = if out.exists() { content(&out) } else { Vec::new() };
            let name = out.display().to_string();
            let relative = |(path, bytes): (String, Vec<u8>)| (path.replace(&name, ""), bytes);
            let written: Vec<_> = written.into_iter().map(relative).collect();
            (run.code, run.stdout.replace(&name, "out"), run.stderr.replace(&name, "out"), written)
        });
        assert!(
            results[0] == results[1] && results[0] == results[2],
            "{command}: {:?}",
            results.map(|of| (of.0, of.1, of.2))
        );
        assert!(results[0].0 == Some(0) && !results[0].3.is_empty(), "{command}: {:?}", results[0].2);
    }
}

/// One stream of large packets, which is divided among threads, and how it is odd.
fn divided(oddity: &str) -> Vec<u8> {
    let packet = |at: u64| {
        let time = |n: u64| match (oddity, at, n) {
            // In a packet, into the one before, and after the one that comes next.
            ("back", 5, 3000) => at * 100_000,
            ("before", 8, 0) => at * 100_000 - 45_000,
            ("behind", 7, 5999) => (at + 1) * 100_000 + 50_000,
            _ => at * 100_000 + n * 10,
        };
        let events: Vec<(u64, u32)> = (0..6000).map(|n| (time(n), n as u32)).collect();
        let mut bytes = ticks_packet(&events, if oddity == "losses" { at / 4 } else { 0 });
        if oddity == "ends" && at == 7 {
            // The last event is not whole.
            bytes[..8].copy_from_slice(&((40 + 12 * 6000 - 2) * 8u64).to_le_bytes());
        }
        if oddity == "late" && at == 6 {
            // It says that it begins later than the one after it.
            bytes[16..24].copy_from_slice(&750_000u64.to_le_bytes());
        }
        bytes
    };
    (0..16).flat_map(packet).collect()
}

#[test]
fn parts_of_a_stream() {
    let commands = [
        "print t",
        "print t --begin 00:00:00.0003 --end 00:00:00.001",
        "print --format jsonl t --memory 64K --filter payload.n<50",
        "check t",
        "report --state tick t",
        "convert --to ctf2 -o OUT t --loss-report -",
        "convert --to ctf2 -o OUT t --byte-order big --loss-report -",
    ];
    for oddity in ["none", "losses", "back", "before", "behind", "ends", "late"] {
        let folder = Folder::new();
        folder.file("t/metadata", ticks_metadata("freq = 1000000000;"));
        folder.file("t/s", divided(oddity));
        for command in commands {
            let results = [1, 2, 8].map(|jobs| {
                let out = format!("out{jobs}");
                let run = folder.run(&format!("{} --jobs {jobs} --verbose", command.replace("OUT", &out)));
                let written = if folder.path(&out).exists() { content(&folder.path(&out)) } else { Vec::new() };
                let _ = fs::remove_dir_all(folder.path(&out));
                (run.code, run.stdout, run.stderr.replace(&out, "out"), written)
            });
            assert!(results[0] == results[1] && results[0] == results[2], "{oddity}: {command}");
            assert!(!results[0].1.is_empty() && results[0].0.is_some_and(|code| code % 3 == 0), "{oddity}: {command}");
            let is_sound = results[0].1.ends_with(": 0 faults, 0 warnings, 0 losses\n");
            assert!(command != "check t" || is_sound == (oddity == "none"), "{oddity}: {}", results[0].1);
        }
    }
}

/// Parts in which nearly nothing is wanted are read far ahead; they are dropped where a packet before them is damaged.
#[test]
fn few_events_of_many_parts() {
    const PACKETS: u64 = 80;
    let classes = "event { name = \"rare\"; id = 1; fields := struct { integer { size = 64; } n; }; };
        event { name = \"tick\"; id = 0; fields := struct { integer { size = 8; } bytes[1000]; }; };";
    let metadata =
        ticks_metadata("freq = 1000000000;").replace("event.header := struct {", "event.header := struct { u64 id;");
    let metadata = format!("{}{classes}", metadata.split("event {").next().expect("what stands before the events"));
    for is_damaged in [false, true] {
        let packet = |at: u64| {
            let mut body: Vec<u8> = Vec::new();
            for n in 0..270 {
                let id = u64::from(n == 100 && at % 39 == 1) + 7 * u64::from(is_damaged && at == 30 && n == 7);
                [id, at * 1000 + n].iter().for_each(|word| body.extend(word.to_le_bytes()));
                body.extend(if id == 1 { at.to_le_bytes().to_vec() } else { vec![n as u8; 1000] });
            }
            let bits = (40 + body.len() as u64) * 8;
            let words = [bits, bits, at * 1000, at * 1000 + 269, 0];
            words.into_iter().flat_map(u64::to_le_bytes).chain(body).collect::<Vec<u8>>()
        };
        let folder = Folder::new();
        folder.file("t/metadata", &metadata).file("t/s", (0..PACKETS).flat_map(packet).collect::<Vec<u8>>());
        let runs = [1, 2, 5].map(|jobs| {
            let run = folder.run_with(&format!("print t --jobs {jobs} --filter"), &["name == \"rare\""]);
            (run.code, run.stdout, run.stderr)
        });
        assert!(runs[0] == runs[1] && runs[0] == runs[2], "{runs:?}");
        let numbers: Vec<&str> = runs[0].1.lines().filter_map(|line| line.split("n = ").nth(1)).collect();
        assert_eq!(numbers, ["1 }", "40 }", "79 }"]);
        assert_eq!(runs[0].0, Some(if is_damaged { 3 } else { 0 }), "{}", runs[0].2);
    }
}

#[test]
fn readers_that_stop_early_leave_no_thread_waiting() {
    for command in ["print mill orders losses --limit 3", "check --strict losses", "print --strict losses"] {
        let [one, many] = ["1", "4"].map(|jobs| run(&format!("{command} --jobs {jobs}")));
        assert_eq!((one.code, one.stdout), (many.code, many.stdout), "{command}");
    }
}
