//! Spans that the user names, the analyses over each of them, and conditions on rows.

mod util;

use serde_json::{Value, json};
use util::{Folder, Run, csv_rows, json_lines};

/// Event classes: name and fields; the last field of a switch is a text.
const CLASSES: [(&str, &[&str]); 8] = [
    ("sched_switch", &["prev_tid", "prev_state", "next_tid", "next_prio", "next_comm"]),
    ("syscall_entry_read", &["fd"]),
    ("syscall_exit_read", &["ret"]),
    ("job_begin", &["id"]),
    ("job_end", &["id"]),
    ("stage_begin", &["of", "no"]),
    ("stage_end", &["of", "no"]),
    ("mark", &["cause"]),
];

/// Makes a trace of lines `NS CPU EVENT VALUE..`.
fn trace(folder: &Folder, name: &str, lines: &str) {
    let mut metadata = "/* CTF 1.8 */
        typealias integer { size = 8; align = 8; } := u8;
        typealias integer { size = 32; align = 8; } := u32;
        typealias integer { size = 32; align = 8; signed = true; } := i32;
        typealias integer { size = 64; align = 8; map = clock.c.value; } := t64;
        trace { major = 1; minor = 8; byte_order = le; };
        env { domain = \"kernel\"; tracer_name = \"lttng-modules\"; };
        clock { name = c; freq = 1000000000; };
        stream { packet.context := struct { u32 cpu_id; }; event.header := struct { u8 id; t64 t; }; };\n"
        .to_string();
    for (id, (name, fields)) in CLASSES.iter().enumerate() {
        let field = |field: &&str| format!("{} {field};", if *field == "next_comm" { "string" } else { "i32" });
        let fields: String = fields.iter().map(field).collect();
        metadata += &format!("event {{ name = \"{name}\"; id = {id}; fields := struct {{ {fields} }}; }};\n");
    }
    folder.file(&format!("{name}/metadata"), metadata);
    for cpu in 0..2u32 {
        let mut bytes = cpu.to_le_bytes().to_vec();
        for words in lines.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            let [ns, of, event, values @ ..] = words.as_slice() else { continue };
            if of.parse() != Ok(cpu) {
                continue;
            }
            let id = CLASSES.iter().position(|(name, _)| name == event).expect("it is an event");
            assert_eq!(values.len(), CLASSES[id].1.len(), "{words:?}");
            bytes.push(id as u8);
            bytes.extend(ns.parse::<u64>().expect("a time").to_le_bytes());
            for (value, field) in values.iter().zip(CLASSES[id].1) {
                match *field {
                    "next_comm" => bytes.extend([value.as_bytes(), &[0]].concat()),
                    _ => bytes.extend(value.parse::<i32>().expect("a number").to_le_bytes()),
                }
            }
        }
        folder.file(&format!("{name}/s{cpu}"), bytes);
    }
}

/// Two threads on two CPUs, jobs with stages; job 3 does not end, stage 9 ends with its job.
const STORY: &str = "
    100 0 sched_switch 0 0 11 20 worker
    100 1 sched_switch 0 0 12 15 helper
    120 0 stage_begin 4 4
    130 0 stage_end 4 4
    150 0 job_begin 1
    200 0 syscall_entry_read 3
    210 0 stage_begin 1 7
    250 0 syscall_exit_read 64
    260 1 job_begin 2
    270 1 stage_begin 2 8
    300 0 stage_end 1 7
    320 0 stage_begin 1 9
    350 1 stage_end 2 8
    400 0 job_end 1
    420 0 stage_end 1 9
    450 1 syscall_entry_read 4
    470 1 syscall_exit_read -11
    480 1 job_begin 2
    500 1 job_end 2
    510 0 sched_switch 11 1 0 20 idle
    600 0 job_begin 3
    650 0 stage_begin 5 1
    660 0 stage_end 5 1
    700 1 mark 1
";

const JOB: [&str; 8] = [
    "--period",
    "job",
    "--period-begin",
    "name == \"job_begin\"",
    "--period-end",
    "name == \"job_end\"",
    "--period-match",
    "payload.id",
];

const STAGE: [&str; 10] = [
    "--period",
    "stage",
    "--period-begin",
    "name == \"stage_begin\"",
    "--period-end",
    "name == \"stage_end\"",
    "--period-match",
    "payload.of,payload.no",
    "--period-parent",
    "job",
];

fn story() -> Folder {
    let folder = Folder::new();
    trace(&folder, "t", STORY);
    folder
}

#[track_caller]
fn ok(run: Run) -> String {
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    run.stdout
}

#[track_caller]
fn object(run: Run) -> Value {
    serde_json::from_str(&ok(run)).expect("it is JSON")
}

/// The rows of a list without keys that are null.
#[track_caller]
fn rows(run: Run) -> Vec<Value> {
    let mut rows = object(run)["rows"].as_array().expect("a list").clone();
    rows.iter_mut().for_each(|row| row.as_object_mut().expect("an object").retain(|_, value| !value.is_null()));
    rows
}

#[test]
fn ends_close_what_began_with_their_values() {
    let folder = story();
    let run = || folder.run_with("analyze periods --log --json t", &JOB);
    assert_eq!(
        rows(run()),
        [
            json!({"period": "job", "payload.id": 1, "from": 150, "to": 400, "duration_ns": 250, "completed": true, "tid": 11}),
            // The second begin of job 2 opens nothing: one is open.
            json!({"period": "job", "payload.id": 2, "from": 260, "to": 500, "duration_ns": 240, "completed": true, "tid": 12}),
        ]
    );
    assert_eq!(object(run())["notes"]["unfinished"], 1);
    let until = |end: &str| object(folder.run_with(&format!("analyze periods --json --end {end}ns t"), &JOB));
    assert_eq!(until("450")["notes"]["unfinished"], 1, "job 2 goes on behind the end, job 3 has not begun");
    assert_eq!(until("450")["rows"][0]["count"], 1);
}

#[test]
fn the_latest_parent_holds_what_shares_no_value() {
    let folder = story();
    let arguments: Vec<&str> = JOB.iter().chain(&STAGE).copied().collect();
    let found = rows(folder.run_with("analyze periods --log --json t", &arguments));
    let mut stages: Vec<Value> = found.into_iter().filter(|row| row["period"] == "stage").collect();
    stages.iter_mut().for_each(|row| drop(row.as_object_mut().expect("an object").remove("tid")));
    let stage = |of: u32, no: u32, from: u32, to: u32| {
        json!({"period": "stage", "payload.of": of, "payload.no": no, "from": from, "to": to, "duration_ns": to - from,
            "completed": true, "parent": "job"})
    };
    let mut outside = stage(4, 4, 120, 130);
    outside.as_object_mut().expect("an object").remove("parent");
    // Stage 9 is in job 2, which began later than job 1, whose end is no end of it.
    let want = [outside, stage(1, 7, 210, 300), stage(2, 8, 270, 350), stage(1, 9, 320, 420), stage(5, 1, 650, 660)];
    assert_eq!(stages, want);
}

#[test]
fn parents_end_their_children_and_values_of_one_name_choose_the_parent() {
    let folder = story();
    // The thread of both: job 1 of thread 11 ends its stage 9.
    let mut arguments: Vec<&str> = JOB.to_vec();
    arguments[7] = "state.tid";
    arguments.extend(STAGE);
    arguments[15] = "state.tid,payload.no";
    let found = rows(folder.run_with("analyze periods --log --json t", &arguments));
    let found: Vec<Value> = found
        .iter()
        .map(|row| {
            json!([row["period"], row["state.tid"], row["payload.no"], row["to"], row["completed"], row["parent"]])
        })
        .collect();
    assert_eq!(
        found,
        [
            json!(["stage", 11, 4, 130, true, null]),
            json!(["stage", 11, 7, 300, true, "job"]),
            json!(["stage", 12, 8, 350, true, "job"]),
            json!(["stage", 11, 9, 400, false, "job"]),
            json!(["job", 11, null, 400, true, null]),
            json!(["job", 12, null, 500, true, null]),
            json!(["stage", 0, 1, 660, true, "job"]),
        ]
    );
}

#[test]
fn both_ends_may_name_their_values_differently() {
    let folder = story();
    let arguments = [
        "--period",
        "p",
        "--period-begin",
        "name == \"stage_begin\"",
        "--period-end",
        "name == \"job_end\"",
        "--period-match",
        "payload.of = payload.id",
    ];
    let found = rows(folder.run_with("analyze periods --log --json t", &arguments));
    assert_eq!(
        found,
        [
            json!({"period": "p", "payload.of": 1, "from": 210, "to": 400, "duration_ns": 190, "completed": true, "tid": 11}),
            json!({"period": "p", "payload.of": 2, "from": 270, "to": 500, "duration_ns": 230, "completed": true, "tid": 12}),
        ]
    );
}

#[test]
fn an_event_ends_one_period_and_begins_the_next() {
    let folder = story();
    let any = "name == \"stage_*\"";
    let arguments = ["--period", "p", "--period-begin", any, "--period-end", any];
    let object = object(folder.run_with("analyze periods --json --log t", &arguments));
    let times = object["rows"].as_array().unwrap().iter().map(|row| (row["from"].as_u64(), row["to"].as_u64()));
    let times: Vec<(u64, u64)> = times.map(|(from, to)| (from.unwrap(), to.unwrap())).collect();
    assert_eq!(times[..2], [(120, 130), (130, 210)]);
    assert_eq!(times[2..], [(210, 270), (270, 300), (300, 320), (320, 350), (350, 420), (420, 650), (650, 660)]);
    assert_eq!(object["notes"]["unfinished"], 1);
}

#[test]
fn conditions_see_the_state_behind_the_event() {
    let folder = story();
    let of = |begin: &str, end: &str| {
        let arguments = ["--period", "p", "--period-begin", begin, "--period-end", end];
        let found = rows(folder.run_with("analyze periods --log --json t", &arguments));
        found.iter().map(|row| (row["from"].as_u64().unwrap(), row["to"].as_u64().unwrap())).collect::<Vec<_>>()
    };
    let switch = "name == \"sched_switch\" and state.";
    assert_eq!(of(&format!("{switch}tid == 11"), &format!("{switch}status == \"idle\"")), [(100, 510)]);
    assert_eq!(of(&format!("{switch}comm == \"wor*\""), "state.tid == 0"), [(100, 510)]);
    assert_eq!(of("name == \"syscall_entry_*\" and state.prio < 20", "state.status != \"syscall\""), [(450, 470)]);
    // Processes are unknown here, and a comparison with an unknown value never holds.
    assert_eq!(of("state.pid == 0 or state.pid == 11", "name == \"mark\""), [(510, 700)]);
}

#[test]
fn unknown_values_open_nothing() {
    let folder = Folder::new();
    trace(&folder, "t", "100 0 mark 1\n200 0 mark 2\n300 0 sched_switch 5 1 6 20 x\n400 0 mark 1\n500 0 mark 2");
    let arguments =
        ["--period", "p", "--period-begin", "cause == 1", "--period-end", "cause == 2", "--period-match", "state.tid"];
    let object = object(folder.run_with("analyze periods --log --json t", &arguments));
    assert_eq!(object["rows"].as_array().unwrap().len(), 1);
    assert_eq!((&object["rows"][0]["from"], &object["rows"][0]["state.tid"]), (&json!(400), &json!(6)));
    assert_eq!(object["notes"]["without_match"], 2);
}

#[test]
fn statistics_are_those_of_spans() {
    let folder = story();
    let with = |more: &str| folder.run_with(&format!("analyze periods {more} t"), &JOB);
    assert_eq!(
        ok(with("")),
        "period  count  total_us  min_us  max_us  mean_us  deviation_us  p50_us  p90_us  p95_us  p99_us  incomplete\n\
         job         2     0.490   0.240   0.250    0.245         0.005   0.240   0.250   0.250   0.250           0\n\
         1 unfinished\n"
    );
    let by_match = object(with("--by match --json"));
    let counts: Vec<Value> =
        by_match["rows"].as_array().unwrap().iter().map(|row| json!([row["payload.id"], row["total_ns"]])).collect();
    assert_eq!(counts, [json!([1, 250]), json!([2, 240])]);
    assert_eq!(object(with("--top 1 --json"))["rows"][0]["payload.id"], 1);
    assert_eq!(object(with("--hist 2 --json"))["rows"][1], json!({"from_ns": 245, "to_ns": 250, "count": 1}));
    assert_eq!(object(with("--step 350ns --json"))["rows"].as_array().unwrap().len(), 2);
    assert_eq!(object(with("--tid 12 --json"))["rows"][0]["total_ns"], 240);
    assert_eq!(object(with("--min 245ns --json"))["rows"][0]["count"], 1);
}

#[test]
fn a_file_defines_periods_too() {
    let folder = story();
    folder.file(
        "my.periods",
        "# jobs\njob; begin = name == \"job_begin\"; end = name == \"job_end\"; match = payload.id\n\n\
         stage; begin = name == \"stage_begin\"; end = name == \"stage_end\"; match = payload.of, payload.no; parent = job\n",
    );
    let both: Vec<&str> = JOB.iter().chain(&STAGE).copied().collect();
    let of_options = ok(folder.run_with("analyze periods --log --format csv t", &both));
    assert_eq!(ok(folder.run("analyze periods --log --format csv --periods my.periods t")), of_options);
    assert_eq!(csv_rows(&of_options).len(), 8);
    folder.file("bad.periods", "\njob; begin = nam == \"x\"; end = id == 1\n");
    let run = folder.run("analyze periods --periods bad.periods t");
    run.ends(2, &["bad.periods: line 2, column 14: no event class of the input has `nam`", "| job; begin = nam"]);
}

#[test]
fn mistakes_are_told() {
    let folder = story();
    for (arguments, texts) in [
        (&["periods", "t"][..], &["no period is defined"][..]),
        (&["periods", "t", "--period", "a", "--period-begin", "id"], &["--period is given once, --period-end 0 times"]),
        (&["periods", "t", "--period-match", "id"], &["--period-match stands before its --period"]),
        (
            &["periods", "t", "--period", "a", "--period-begin", "id ==", "--period-end", "id"],
            &["--period-begin: line 1, column 6: expected a path or a value"],
        ),
        (
            &["periods", "t", "--period", "a", "--period-begin", "id", "--period-end", "state.tid == \"x\""],
            &["--period-end: line 1, column 1: `state.tid` is an integer and cannot be compared with a string"],
        ),
        (
            &[
                "periods",
                "t",
                "--period",
                "a",
                "--period-begin",
                "id",
                "--period-end",
                "id",
                "--period-match",
                "state.x",
            ],
            &["--period-match: line 1, column 1: there is no `state.x`", "`state.tid`, `state.pid`"],
        ),
        (
            &["periods", "t", "--period", "a", "--period-begin", "id", "--period-end", "id", "--period-match", "id,zz"],
            &["--period-match: line 1, column 4: no event class of the input has `zz`"],
        ),
        (
            &["periods", "t", "--period", "a", "--period-begin", "id", "--period-end", "id", "--period-parent", "b"],
            &["there is no period `b`"],
        ),
        (
            &["cpu", "t", "--period", "a", "--period-begin", "id", "--period-end", "id"],
            &["`cpu` does not take --period"],
        ),
        (
            &["cpu", "t", "--per", "b", "--period", "a", "--period-begin", "id", "--period-end", "id"],
            &["--per: there is no period `b`"],
        ),
        (
            &["periods", "t", "--per", "a", "--period", "a", "--period-begin", "id", "--period-end", "id"],
            &["`periods` does not take --per", "--per is for `states`"],
        ),
    ] {
        folder.run_with("analyze", arguments).ends(2, texts);
    }
}

#[test]
fn analyses_are_made_for_each_period() {
    let folder = story();
    let per = |more: &str| folder.run_with(&format!("analyze syscalls,sched,stats --per job {more} t"), &JOB);
    let whole: Value = serde_json::from_str(&per("--json").ends(0, &[]).stdout).expect("it is JSON");
    let objects = whole["analyses"].as_array().expect("a list");
    assert_eq!(objects.len(), 6);
    // Each says what the analysis says of that range.
    for (at, (from, to)) in [(150, 400), (260, 500)].into_iter().enumerate() {
        let alone = format!("analyze syscalls,sched,stats --begin {from}ns --end {to}ns --json t");
        let alone: Value = serde_json::from_str(&folder.run(&alone).ends(0, &[]).stdout).expect("it is JSON");
        for (place, want) in alone["analyses"].as_array().expect("a list").iter().enumerate() {
            let mut object = objects[3 * at + place].clone();
            let keys = object.as_object_mut().expect("an object");
            assert_eq!(keys.remove("period"), Some(json!("job")));
            assert_eq!((keys.remove("from"), keys.remove("to")), (Some(json!(from)), Some(json!(to))));
            assert_eq!(keys.remove("match"), Some(json!({"payload.id": at + 1})));
            assert_eq!(object, *want);
        }
    }
    let syscalls = |more: &str| ok(folder.run_with(&format!("analyze syscalls --per job {more} t"), &JOB));
    let lines = json_lines(&syscalls("--log --format jsonl"));
    let times = |line: &Value| json!([line["analysis"], line["period_from_ns"], line["from"], line["ret"]]);
    assert_eq!(
        lines.iter().map(times).collect::<Vec<_>>(),
        [json!(["syscalls", 150, 200, 64]), json!(["syscalls", 260, 450, -11])]
    );
    let csv = csv_rows(&syscalls("--log --format csv"));
    assert_eq!(csv.len(), 3);
    assert_eq!(csv[0][..4], ["period", "period_from_ns", "period_to_ns", "name"]);
    assert!(
        syscalls("")
            .starts_with("syscalls: job from 00:00:00.000000150 to 00:00:00.000000400, payload.id 1\nname  count")
    );
    // Times and conditions choose periods and rows.
    assert_eq!(json_lines(&syscalls("--log --format jsonl --begin 450ns")).len(), 1);
    assert_eq!(json_lines(&syscalls("--format jsonl --where errors>0")).len(), 1);
}

#[test]
fn no_period_gives_no_object() {
    let folder = story();
    let mut arguments = JOB.to_vec();
    arguments[3] = "name == \"mark\" and cause == 9";
    arguments.truncate(6);
    let run = |format: &str| ok(folder.run_with(&format!("analyze stats --per job --format {format} t"), &arguments));
    assert_eq!(run("json"), "{\"analyses\":[]}\n");
    assert_eq!(run("table"), "nothing found\n");
    assert_eq!(run("csv"), "");
}

#[test]
fn there_are_only_so_many_periods_to_analyse() {
    let folder = Folder::new();
    let lines: String = (0..10_002).map(|at| format!("{} 0 mark {at}\n", at * 10)).collect();
    trace(&folder, "t", &lines);
    let any = "name == \"mark\"";
    let arguments = ["--period", "p", "--period-begin", any, "--period-end", any];
    let run = folder.run_with("analyze stats --per p t", &arguments);
    run.ends(2, &["--per: there are more than 10000 periods `p`", "--begin and --end"]);
    let run = folder.run_with("analyze stats --per p --format jsonl --by trace --end 200ns t", &arguments);
    assert_eq!(json_lines(&ok(run)).len(), 20);
}

#[test]
fn conditions_choose_rows() {
    let folder = story();
    let keys = |arguments: &str, condition: &str, key: &str| {
        let run = folder.run_with(&format!("analyze {arguments} --json t"), &["--where", condition]);
        let object: Value = serde_json::from_str(&run.ends(0, &[]).stdout).expect("it is JSON");
        let rows = object["rows"].as_array().expect("a list").iter();
        (rows.map(|row| row[key].clone()).collect::<Vec<_>>(), object["all"].clone())
    };
    let (rows, all) = keys("syscalls --by thread", "errors > 0 and name == \"re*\"", "tid");
    assert_eq!((rows, &all["count"]), (vec![json!(12)], &json!(2)));
    assert_eq!(keys("syscalls --log", "ret >= 0", "ret").0, [json!(64)]);
    assert_eq!(keys("syscalls --top 1", "ret < 0", "ret").0, [json!(-11)]);
    assert_eq!(keys("syscalls --hist 3", "count > 0", "count").0, [json!(1), json!(1)]);
    assert_eq!(keys("cpu", "comm != \"worker\"", "tid").0, [json!(12)]);
    assert_eq!(keys("states --of cpus", "status == \"syscall\"", "cpu").0, [json!(0), json!(1)]);
    assert_eq!(keys("stats --by event", "name == \"mark\"", "events").0, [json!(1)]);
    let lines = folder.run_with("analyze syscalls --log --format csv t", &["--where", "tid == 12"]);
    assert_eq!(csv_rows(&lines.ends(0, &[]).stdout).len(), 2);
    let run = folder.run_with("analyze syscalls t", &["--where", "ret < 0"]);
    run.ends(2, &["--where: line 1, column 1: the table has no column `ret`", "its columns are name, count"]);
    let run = folder.run_with("analyze syscalls t", &["--where", "count == \"x\""]);
    run.ends(2, &["`count` is an integer and cannot be compared with a string"]);
}

#[test]
fn steps_that_are_too_many_are_refused_soon() {
    let folder = Folder::new();
    trace(&folder, "t", "1 0 sched_switch 0 0 5 20 a\n9000000000000000000 0 sched_switch 5 1 0 20 b");
    for names in ["cpu", "cpu --by cpu", "processes"] {
        let run = folder.run(&format!("analyze {names} --step 1ns t"));
        run.ends(2, &["more than 131072 steps", "take a longer step"]);
    }
    folder.run("analyze cpu --step 1000000000s t").ends(0, &[]);
}

#[test]
fn traces_of_machines_without_a_name_are_kept_apart_with_a_warning() {
    let folder = Folder::new();
    trace(&folder, "t/a", "100 0 sched_switch 0 0 5 20 a\n200 0 sched_switch 5 1 0 20 a");
    trace(&folder, "t/b", "100 0 sched_switch 0 0 5 20 b\n300 0 sched_switch 5 1 0 20 b");
    let times = |options: &str| {
        let run = folder.run(&format!("analyze cpu --json {options} t"));
        let answer: Value = serde_json::from_str(&run.stdout).expect("an object");
        let rows = answer["rows"].as_array().expect("rows").iter().map(|row| row["time_ns"].clone());
        (rows.collect::<Vec<_>>(), run.stderr.contains("do not say of which machine"))
    };
    assert_eq!(times(""), (vec![json!(200), json!(100)], true));
    assert!(!times("--same-host").1);
}
