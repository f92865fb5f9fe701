//! Calls: what is asked about all of a function's, against what each call says.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::{demo, input_of, ns, serve, served, served_of};

#[test]
fn durations_are_those_of_the_calls() {
    let served = serve("calls/tasting");
    served.when_counted();
    let mut all: Vec<(i128, i128)> = Vec::new();
    let tracks = served.json("tracks");
    for track in tracks["tracks"].as_array().expect("a list").iter().filter(|track| track["kind"] == "calls") {
        let id = track["id"].as_str().expect("a text");
        for number in 0..track["calls"].as_u64().expect("a number") {
            let call = served.json(&format!("call/{id}/{number}"));
            if call["name"] == "usleep" && call["duration"] != Value::Null {
                all.push((ns(&call["begin"]), ns(&call["duration"])));
            }
        }
    }
    all.sort_unstable();
    assert!(all.len() > 5);
    let points = |question: &str| -> Vec<(i128, i128)> {
        let told = served.json(question);
        let list: Vec<(i128, i128)> = (told["points"].as_array().expect("a list").iter())
            .map(|point| (ns(&point["begin"]), ns(&point["duration"])))
            .collect();
        let counted: u64 = (told["histogram"].as_array().expect("a list").iter())
            .map(|bar| {
                let (power, count) = (bar[0].as_u64().expect("a number"), bar[1].as_u64().expect("a number"));
                let own = list.iter().filter(|(_, duration)| u64::from(duration.ilog2()) == power).count();
                assert_eq!(own as u64, count);
                count
            })
            .sum();
        assert_eq!(counted, list.len() as u64);
        list
    };
    assert_eq!(points("durations?name=usleep"), all);
    // Only what begins and ends inside.
    let (begin, end) = (all[1].0, all[all.len() - 2].0 + all[all.len() - 2].1);
    let inside = all.iter().filter(|(from, length)| *from >= begin && from + length <= end).copied();
    assert_eq!(points(&format!("durations?name=usleep&begin={begin}&end={end}")), inside.collect::<Vec<_>>());
    assert_eq!(served.ask("GET", "/api/durations?name=nothing", "").0, 404);
    assert_eq!(served.ask("GET", "/api/durations", "").0, 400);
    let features = &served.json("session")["features"];
    assert!(features.as_array().expect("a list").contains(&"durations".into()));
    served.end();
}

#[test]
fn cpus_show_which_task_they_run() {
    let served = serve("calls/tasting");
    served.when_counted();
    // Begin and end of what each CPU runs, and the task, by the lines.
    let mut expected: BTreeMap<String, Vec<(i128, i128, String)>> = BTreeMap::new();
    let mut open: HashMap<String, (i128, String)> = HashMap::new();
    for (row, line) in served.rows("") {
        let payload = &line["payload"];
        let what = payload["event"].as_str().unwrap_or_default().to_string();
        if !what.starts_with("linux:sched-") {
            continue;
        }
        let (cpu, at) = (format!("CPU {}", payload["cpu"]), ns(&row["ns"]));
        if let Some((since, task)) = open.remove(&cpu) {
            expected.entry(cpu.clone()).or_default().push((since, at, task));
        }
        if what == "linux:sched-in" {
            open.insert(cpu, (at, payload["tid"].to_string()));
        }
    }
    assert!(expected.values().map(Vec::len).sum::<usize>() > 5, "{expected:?}");
    // A task that runs at the end runs until then.
    let end = ns(&served.json("session")["end"]);
    assert!(!open.is_empty());
    for (cpu, (since, task)) in open {
        expected.entry(cpu).or_default().push((since, end, task));
    }
    let tracks = served.json("tracks");
    let states = tracks["tracks"].as_array().expect("a list").iter().filter(|track| track["kind"] == "state");
    let mut found: BTreeMap<String, Vec<(i128, i128, String)>> = BTreeMap::new();
    for track in states {
        assert_eq!((&track["parent"], &track["depth"]), (&"g0".into(), &1.into()));
        let (id, name) = (track["id"].as_str().expect("a text"), track["name"].as_str().expect("a text"));
        let mut at = i128::from(i64::MIN / 4);
        loop {
            let piece = served.json(&format!("locate?track={id}&at={at}&direction=next"));
            if piece["begin"] == Value::Null {
                break;
            }
            at = ns(&piece["begin"]);
            let (end, task) = (ns(&piece["end"]), piece["name"].as_str().expect("a text"));
            let tid = task.rsplit(' ').next().expect("a number").to_string();
            found.entry(name.to_string()).or_default().push((at, end, tid));
        }
    }
    assert_eq!(found, expected);
    served.end();
}

#[test]
fn cpus_show_nothing_of_streams_that_are_left_out() {
    // Names of what CPUs run, where only some streams are wanted.
    let run = |wanted: &[&str]| -> Vec<String> {
        let mut input = input_of(&[demo("calls/tasting")], &[]);
        input.traces.streams.retain(|of| wanted.iter().any(|name| of.stream.name.starts_with(name)));
        assert!(!input.traces.streams.is_empty());
        let served = served_of(input);
        served.when_counted();
        let session = served.json("session");
        let whole = ns(&session["end"]) - ns(&session["origin"]);
        let level = (0..62).find(|level| whole >> (level + 10) == 0).expect("one tile holds all");
        let tracks = served.json("tracks");
        let states = tracks["tracks"].as_array().expect("a list").iter().filter(|track| track["kind"] == "state");
        let ids: Vec<&str> = states.filter_map(|track| track["id"].as_str()).collect();
        let mut names = Vec::new();
        for id in ids {
            let told = served.json(&format!("tiles?tracks={id}&level={level}&from=0&to=0"));
            names
                .extend(told["names"].as_object().expect("names").values().filter_map(Value::as_str).map(String::from));
        }
        names.sort();
        names.dedup();
        served.end();
        names
    };
    let all = run(&[""]);
    assert!(all.len() > 1 && all.iter().any(|name| name.ends_with("12529")), "{all:?}");
    assert_eq!(run(&["perf-cpu"]), all);
    assert_eq!(run(&["12529"]), [""; 0]);
    let one = run(&["12529", "perf-cpu"]);
    assert!(one.len() == 1 && one[0].ends_with("12529"), "{one:?}");
}

#[test]
fn whoever_asks_for_no_lane_is_told_of_all_and_others_which_they_are_told() {
    let folder = std::env::temp_dir().join(format!("tracemill-deep-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for file in std::fs::read_dir(demo("calls/tasting")).expect("it is there") {
        let file = file.expect("it can be listed");
        std::fs::copy(file.path(), folder.join(file.file_name())).expect("it can be copied");
    }
    // Calls of the first task that are 100 deep: time, then kind, magic, depth and address.
    let (begin, magic, address) = (7_896_537_000_000u64, 5 << 3, 0x40_0000 << 16);
    let word = |kind: u64, depth: u64| kind | magic | depth << 6 | address;
    let entries = (0..100).map(|depth| (begin + depth, word(0, depth)));
    let exits = (0..100).map(|at| (begin + 200 + at, word(1, 99 - at)));
    let records: Vec<u8> =
        entries.chain(exits).flat_map(|(time, word)| [time.to_le_bytes(), word.to_le_bytes()].concat()).collect();
    std::fs::write(folder.join("12529.dat"), records).expect("a file");
    let served = served(std::slice::from_ref(&folder));
    served.when_counted();
    let tracks = served.json("tracks");
    let deep = tracks["tracks"].as_array().expect("a list").iter().find(|track| track["depth"] == 100);
    let id = deep.expect("it is there")["id"].as_str().expect("a text");
    let session = served.json("session");
    let whole = ns(&session["end"]) - ns(&session["origin"]);
    let level = (0..62).find(|level| whole >> (level + 10) == 0).expect("one tile holds all");
    let told = |lane: &str| {
        let told = served.json(&format!("tiles?tracks={id}&level={level}&from=0&to=0{lane}"));
        let depths = told["tracks"][0]["depth"].as_array().expect("a list").iter().filter_map(Value::as_u64);
        (depths.min(), told["tracks"][0]["depth"].as_array().map(Vec::len), told["tracks"][0]["lanes"].to_string())
    };
    assert_eq!(told(""), (Some(0), Some(100), "null".to_string()));
    assert_eq!(told("&lane=0"), (Some(0), Some(64), r#"{"from":0,"to":64,"all":100}"#.to_string()));
    assert_eq!(told("&lane=64"), (Some(64), Some(36), r#"{"from":64,"to":100,"all":100}"#.to_string()));
    served.end();
    std::fs::remove_dir_all(&folder).expect("it was made");
}

#[test]
fn slices_are_told_from_a_lane_on() {
    let served = serve("calls/tasting");
    served.when_counted();
    let session = served.json("session");
    let whole = ns(&session["end"]) - ns(&session["origin"]);
    let level = (0..62).find(|level| whole >> (level + 10) == 0).expect("one tile holds all");
    let slices = |lane: &str| -> Vec<(u64, i64, i64)> {
        let told = served.json(&format!("tiles?tracks=c0&level={level}&from=0&to=0{lane}"));
        let column = |name: &str| told["tracks"][0][name].as_array().expect("a list").clone();
        let rows = column("depth").into_iter().zip(column("at")).zip(column("n"));
        rows.map(|((depth, at), n)| (depth.as_u64().unwrap_or(0), at.as_i64().unwrap_or(0), n.as_i64().unwrap_or(0)))
            .collect()
    };
    let (all, deep) = (slices(""), slices("&lane=2"));
    assert!(all.iter().any(|(depth, _, _)| *depth < 2) && !deep.is_empty());
    assert_eq!(deep, all.into_iter().filter(|(depth, _, _)| *depth >= 2).collect::<Vec<_>>());
    assert!(slices("&lane=60000").is_empty());
    served.end();
}
