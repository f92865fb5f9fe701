//! Analyses of parts of a kernel's trace: a CPU without events, or with events for some of the time. What is said of a part
//! must be what is said of the whole.

mod util;

use std::collections::{BTreeMap, HashSet};

use util::{Folder, demo};

/// A trace of switches alone: two threads, an event each 100 ns.
const SWITCHES: &str = "/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; map = clock.c.value; } := stamp;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; align = 8; } magic; }; };
clock { name = c; freq = 1000000000; offset = 0; };
stream { packet.context := struct { integer { size = 32; align = 8; } cpu_id; }; event.header := struct { stamp timestamp; }; };
event { name = sched_switch; fields := struct { i32 prev_tid; i32 prev_state; i32 next_tid; }; };
";

fn switches(folder: &Folder, name: &str, threads: &[(i32, i32)]) {
    let mut bytes = [0xC1FC_1FC1u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
    for ((prev, next), at) in threads.iter().zip(1u64..) {
        bytes.extend((at * 100).to_le_bytes());
        bytes.extend([*prev, 1, *next].map(i32::to_le_bytes).concat());
    }
    folder.file(&format!("{name}/metadata"), SWITCHES);
    folder.file(&format!("{name}/stream"), bytes);
}

const PACKET: usize = 16384;

/// A trace with some packets of each CPU of the bakery.
fn part(folder: &Folder, name: &str, packets: [std::ops::Range<usize>; 2]) {
    let read = |file: &str| std::fs::read(format!("{}/{file}", demo("../kernel/bakery"))).expect("the demo is there");
    folder.file(&format!("{name}/metadata"), read("metadata"));
    for (cpu, packets) in packets.into_iter().enumerate().filter(|(_, packets)| !packets.is_empty()) {
        let file = format!("channel0_{cpu}");
        let bytes = read(&file);
        let (from, to) = (packets.start * PACKET, bytes.len().min(packets.end * PACKET));
        folder.file(&format!("{name}/{file}"), &bytes[from..to]);
    }
}

type Pieces = BTreeMap<(String, String), Vec<(i64, i64)>>;

/// The rows of `analyze states`: whose they are, the state, and their times.
fn states(folder: &Folder, trace: &str) -> Pieces {
    let text = folder.run(&format!("analyze states --format csv {trace}")).ends(0, &[]).stdout;
    let mut pieces = Pieces::new();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [cpu, from, to, tid, status, state, _] = cells[..] else { panic!("{line}") };
        let whose = if cpu.is_empty() { format!("thread {tid}") } else { format!("cpu {cpu}") };
        let times = (from.parse().expect("a time"), to.parse().expect("a time"));
        pieces.entry((whose, format!("{status}{state}"))).or_default().push(times);
    }
    pieces
}

/// The spans of an analysis, without the names of threads: those may not be known in a part.
fn spans(folder: &Folder, analysis: &str, trace: &str) -> HashSet<String> {
    let text = folder.run(&format!("analyze {analysis} --log --format csv {trace}")).ends(0, &[]).stdout;
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().expect("a line of names").split(',').collect();
    let is_kept = |column: &str| !column.ends_with("comm") && column != "pid";
    let row = |line: &str| {
        let cells = columns.iter().zip(line.split(',')).filter(|(column, _)| is_kept(column));
        cells.map(|(column, cell)| format!("{column}={cell} ")).collect()
    };
    lines.map(row).collect()
}

/// Each state of a part is a state of the whole, all of the time; gives the time of all threads in known states.
fn hold_states(folder: &Folder, part: &str, whole: &Pieces) -> i64 {
    let mut known = 0;
    for ((whose, state), pieces) in states(folder, part) {
        if state == "unknown" || state == "RUN/unknown" {
            continue;
        }
        let truth = whole.get(&(whose.clone(), state.clone())).map_or(&[][..], |pieces| pieces);
        for (from, to) in pieces {
            let common: i64 = truth.iter().map(|own| (to.min(own.1) - from.max(own.0)).max(0)).sum();
            assert_eq!(common, to - from, "{part}: {whose} is {state} from {from} to {to}");
            known += if state.starts_with(char::is_uppercase) { common } else { 0 };
        }
    }
    known
}

#[test]
fn a_part_says_nothing_that_the_whole_does_not_say() {
    let folder = Folder::new();
    let bakery = demo("../kernel/bakery");
    let whole = states(&folder, &bakery);
    let analyses = ["sched", "syscalls", "irq", "locks"];
    let all: Vec<HashSet<String>> = analyses.iter().map(|of| spans(&folder, of, &bakery)).collect();
    // Packets of CPU 0 and of CPU 1; the least ms that are known of threads, and the least spans of each analysis.
    let parts = [
        ("only-0", [0..4, 0..0], 2700, [91, 200, 140, 0]),
        ("only-1", [0..0, 0..5], 900, [19, 350, 40, 0]),
        ("late-1", [0..4, 2..5], 4000, [140, 400, 160, 20]),
        ("late-0", [2..4, 0..5], 2500, [80, 440, 90, 15]),
        ("early-1", [0..4, 0..3], 6000, [180, 520, 170, 30]),
        ("early-0", [0..2, 0..5], 5000, [140, 520, 130, 20]),
    ];
    for (name, packets, least, least_spans) in parts {
        part(&folder, name, packets);
        let known = hold_states(&folder, name, &whole) / 1_000_000;
        assert!(known >= least, "{name}: {known} ms of threads are known");
        for ((analysis, all), least) in analyses.iter().zip(&all).zip(least_spans) {
            let own = spans(&folder, analysis, name);
            let wrong: Vec<&String> = own.difference(all).collect();
            assert!(wrong.is_empty(), "{name}: {analysis}: {wrong:?}");
            assert!(own.len() >= least, "{name}: {analysis} has {} spans", own.len());
        }
        let table = folder.run(&format!("analyze sched {name}")).ends(0, &[]).stdout;
        let cpu = &name[name.len() - 1..];
        let missing = if name.starts_with("only") { if cpu == "0" { "1" } else { "0" } } else { cpu };
        assert!(table.contains(&format!("events of cpu {missing} are missing")), "{table}");
        let json = folder.run(&format!("analyze sched --json {name}")).ends(0, &[]).stdout;
        assert!(json.contains("\"unseen_cpus\":1"), "{json}");
    }
    assert!(!folder.run(&format!("analyze sched --json {bakery}")).ends(0, &[]).stdout.contains("unseen_cpus"));
}

#[test]
fn a_stream_that_is_not_chosen_leaves_its_cpu_unseen() {
    let folder = Folder::new();
    let bakery = demo("../kernel/bakery");
    part(&folder, "only-0", [0..4, 0..0]);
    // From the first event on, and not only since an event names the CPU: so there is nothing more than in the part.
    let chosen = format!("--stream channel0_0 {bakery}");
    for analysis in ["sched", "syscalls", "locks"] {
        let (own, part) = (spans(&folder, analysis, &chosen), spans(&folder, analysis, "only-0"));
        assert!(own.is_subset(&part), "{analysis}");
    }
    let table = folder.run(&format!("analyze cpu --by cpu {chosen}")).ends(0, &[]).stdout;
    assert!(table.contains("events of cpu 1 are missing for some or all of the time"), "{table}");
    let row = table.lines().find(|line| line.starts_with("1 ")).expect("a row of the CPU");
    let cells: Vec<&str> = row.split_ascii_whitespace().collect();
    assert_eq!((cells[1], cells[6], cells[8]), ("0.000", "0.000", "0.00"), "{row}");
}

#[test]
fn what_no_event_tells_is_null() {
    let folder = Folder::new();
    switches(&folder, "trace", &[(0, 7), (7, 0), (0, 7)]);
    let json = folder.run("analyze processes --json trace").ends(0, &["cannot tell user_ns and system_ns"]).stdout;
    for key in ["kernel", "user_ns", "system_ns", "irq_ns", "wait_cpu_ns"] {
        assert!(json.contains(&format!("\"{key}\":null")), "{key}: {json}");
    }
    assert!(json.contains("\"wait_ns\":100") && json.contains("\"switches\":2"), "{json}");
    let csv = folder.run("analyze processes --format csv trace").ends(0, &[]).stdout;
    assert!(csv.contains("\n7,0,,,,,,,,,,,,100,0,0,100,2,0,0,0\n"), "{csv}");
    let table = folder.run("analyze processes trace").ends(0, &[]).stdout;
    assert!(!table.contains("no "), "{table}");
}
