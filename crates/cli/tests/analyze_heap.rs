//! `analyze heap` on a recording of a program: against the events as `print` shows them, and with the names of places.

mod util;

use std::collections::BTreeMap;

use serde_json::Value;
use util::{Folder, demo};

fn answer(folder: &Folder, words: &str) -> Value {
    let run = folder.run(&format!("analyze heap {words} --json {}", demo("../heap/larder.jsonl"))).ends(0, &[]);
    serde_json::from_str(&run.stdout).expect("it is JSON")
}

/// The events of the C library, one by one.
fn events(folder: &Folder) -> Vec<(String, Value)> {
    let run = folder.run(&format!("print --format jsonl {}", demo("../heap/larder.jsonl"))).ends(0, &[]);
    let events = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
    let events = events.filter_map(|event| {
        let name = event["name"].as_str()?.strip_prefix("lttng_ust_libc:")?.to_string();
        Some((name, event["payload"].clone()))
    });
    events.collect()
}

#[test]
fn sums_are_those_of_the_events() {
    let folder = Folder::new();
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let [mut allocs, mut frees, mut failed, mut bytes, mut freed, mut peak] = [0; 6];
    for (name, payload) in events(&folder) {
        let of = |field: &str| payload[field].as_u64().unwrap_or(0);
        let size = of("size") * if name == "calloc" { of("nmemb") } else { 1 };
        let (old, new) = match &*name {
            "free" => (of("ptr"), 0),
            "realloc" if of("ptr") != 0 || size == 0 => (of("in_ptr"), of("ptr")),
            "posix_memalign" if of("result") != 0 => (0, 0),
            "posix_memalign" => (0, of("out_ptr")),
            _ => (0, of("ptr")),
        };
        if let Some(size) = live.remove(&old) {
            (frees, freed) = (frees + 1, freed + size);
        }
        match new {
            0 => failed += u64::from(name != "free" && size > 0),
            new => {
                assert_eq!(live.insert(new, size), None);
                (allocs, bytes) = (allocs + 1, bytes + size);
            }
        }
        peak = peak.max(live.values().sum());
    }
    let found = answer(&folder, "");
    let expected = [
        ("allocs", allocs),
        ("frees", frees),
        ("unknown_frees", 0),
        ("failed", failed),
        ("bytes", bytes),
        ("bytes_freed", freed),
        ("begin_bytes", 0),
        ("live", live.len() as u64),
        ("live_bytes", live.values().sum()),
        ("peak_bytes", peak),
    ];
    for (column, value) in expected {
        assert_eq!(found["rows"][0][column], value, "{column}");
        assert_eq!(found["all"][column], value, "{column}");
    }
    assert_eq!((found["rows"].as_array().map(Vec::len), allocs > 50, failed), (Some(1), true, 2));
    // Threads, calls and places share them.
    for key in ["thread", "call", "place"] {
        let found = answer(&folder, &format!("--by {key}"));
        for (column, value) in [("allocs", allocs), ("bytes", bytes), ("bytes_freed", freed), ("failed", failed)] {
            let rows = found["rows"].as_array().expect("rows").iter();
            assert_eq!(rows.map(|row| row[column].as_u64().expect(column)).sum::<u64>(), value, "{key} {column}");
        }
    }
    // Blocks that were not freed, by place and by process.
    for key in ["place", "process"] {
        let found = answer(&folder, &format!("--of leaks --by {key}"));
        assert_eq!((&found["all"]["blocks"], &found["all"]["bytes"]), (&expected[7].1.into(), &expected[8].1.into()));
    }
}

#[cfg(feature = "debug-info")]
#[test]
fn places_have_the_names_that_the_files_of_programs_say() {
    let folder = Folder::new();
    let places = |words: &str| -> Vec<String> {
        let found = answer(&folder, words);
        let rows = found["rows"].as_array().expect("rows").clone();
        rows.iter().map(|row| row["place"].as_str().expect("a place").to_string()).collect()
    };
    // Without the program, the addresses.
    let empty = folder.path("empty");
    std::fs::create_dir(&empty).expect("a folder");
    let plain = places(&format!("--by place --debug-info-target-prefix {}", empty.display()));
    assert!(plain.len() > 5 && plain.iter().all(|place| place.starts_with("0x")), "{plain:?}");
    // With it, the function, and how far in it the call returns.
    let prefix = demo("../heap/root");
    let named = places(&format!("--by place --debug-info-target-prefix {prefix}"));
    let functions = ["stack_crates+0x2a", "note+0x29", "forget_label+0xd", "main+0x7c"];
    functions.iter().for_each(|name| assert!(named.iter().any(|place| place == name), "{name}: {named:?}"));
    let left = places(&format!("--of leaks --debug-info-target-prefix {prefix}"));
    assert!(left.contains(&"forget_label+0xd".to_string()) && !left.contains(&"note+0x29".to_string()), "{left:?}");
}

/// Memory by path of calls, as the entries and exits that `print` shows say it: calls are nested by their depths.
#[test]
fn recorded_calls_say_the_path_to_each_block() {
    let folder = Folder::new();
    let trace = demo("../heap/pantry");
    let run = folder.run(&format!("print --format jsonl {trace}")).ends(0, &[]);
    let mut open: BTreeMap<i64, Vec<(String, Value)>> = BTreeMap::new();
    let mut live: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    let mut made: BTreeMap<String, u64> = BTreeMap::new();
    for line in run.stdout.lines() {
        let event: Value = serde_json::from_str(line).expect("it is JSON");
        let (name, payload) = (event["name"].as_str().expect("a name"), &event["payload"]);
        let Some(depth) = payload["depth"].as_u64() else { continue };
        let stack = open.entry(payload["tid"].as_i64().expect("a thread")).or_default();
        let symbol = payload["symbol"].as_str().expect("a symbol").to_string();
        let (freed, allocated) = match name {
            "entry" => {
                stack.truncate(depth as usize);
                let is_free = ["free", "_ZdlPvm", "_ZdaPv"].contains(&&*symbol);
                let freed = payload["args"][0].as_u64().filter(|_| is_free);
                stack.push((symbol.clone(), payload["args"].clone()));
                (freed, None)
            }
            _ => {
                let args = stack.pop().expect("a call").1;
                let arg = |at: usize| args[at].as_u64().expect("a number");
                match &*symbol {
                    "malloc" | "_Znwm" | "_Znam" => (None, Some(arg(0))),
                    "realloc" => (Some(arg(0)), Some(arg(1))),
                    _ => (None, None),
                }
            }
        };
        if let Some(freed) = freed.filter(|freed| *freed != 0) {
            assert!(live.remove(&freed).is_some(), "{line}");
        }
        if let Some(bytes) = allocated {
            let path: Vec<&str> = stack.iter().map(|(symbol, _)| &**symbol).collect();
            live.insert(payload["retval"].as_u64().expect("a pointer"), (path.join(";"), bytes));
            *made.entry(path.join(";")).or_default() += bytes;
        }
    }
    let table = |words: &str| -> Value {
        let run = folder.run(&format!("analyze heap {words} --json {trace}")).ends(0, &[]);
        serde_json::from_str(&run.stdout).expect("it is JSON")
    };
    // Functions have their names of C++ there.
    let by_bytes = |table: &Value| -> Vec<u64> {
        let rows = table["rows"].as_array().expect("rows").iter();
        let mut sums: Vec<u64> = rows.filter_map(|row| row["bytes"].as_u64()).filter(|sum| *sum > 0).collect();
        sums.sort_unstable();
        sums
    };
    let sorted = |sums: &BTreeMap<String, u64>| {
        let mut sums: Vec<u64> = sums.values().copied().collect();
        sums.sort_unstable();
        sums
    };
    assert_eq!(by_bytes(&table("--by path")), sorted(&made));
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    live.into_values().for_each(|(path, bytes)| *left.entry(path).or_default() += bytes);
    let found = table("--of leaks --by path");
    assert_eq!((by_bytes(&found), left.len()), (sorted(&left), 3));
    assert_eq!(found["rows"][1]["path"], "main;stock_shelf;fill_jar;write_label");
    assert_eq!(found["all"]["bytes"], left.values().sum::<u64>());
    // Lines of JSON, where arguments are arrays, give equal rows; only the process has no number there.
    let lines = folder.path("pantry.jsonl");
    std::fs::write(&lines, &run.stdout).expect("it is written");
    let run = folder.run(&format!("analyze heap --by path --json {}", lines.display())).ends(0, &[]);
    let again: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
    assert_eq!(by_bytes(&again), sorted(&made));
}

#[test]
fn recordings_without_values_say_how_to_record_them() {
    let folder = Folder::new();
    let help = ["`heap` needs events of heap_alloc", "tracemill record -a ./program"];
    folder.run(&format!("analyze heap {}", demo("../calls/tasting"))).ends(1, &help);
    let list = folder.run(&format!("analyze {}", demo("../heap/pantry"))).ends(0, &[]).stdout;
    let heap = list.split("\nheap ").nth(1).and_then(|rest| rest.split("\nlocks ").next()).expect("both are listed");
    assert!(!heap.contains("not possible") && !heap.contains("without"), "{heap}");
}

#[test]
fn traces_without_these_events_say_how_to_record_them() {
    let folder = Folder::new();
    let help = ["`heap` needs events of heap_alloc or heap_realloc or heap_free", "liblttng-ust-libc-wrapper.so"];
    folder.run(&format!("analyze heap {}", demo("../kernel/bakery"))).ends(1, &help);
    let list = folder.run(&format!("analyze {}", demo("../kernel/bakery"))).ends(0, &[]).stdout;
    assert!(list.contains("not possible: no heap_alloc or heap_realloc or heap_free"), "{list}");
}
