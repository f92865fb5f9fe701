//! Callbacks and chains of messages of ROS 2 programs: `analyze ros2`.

mod util;

use serde_json::{Value, json};
use util::{Folder, demo, run, stdout};

fn table(question: &str) -> Value {
    let text = stdout(&format!("analyze {question} --json {}", demo("../ros2/kitchen.jsonl")), &[]);
    serde_json::from_str(&text).expect("JSON")
}

/// The book of the program that wrote the trace: how many chains, their times together, and the longest.
const BOOK: [(&str, u64, u64, u64); 2] = [
    (
        "/kitchen/scale (timer 20 ms) -> /weight -> /kitchen/mixer -> /dough -> /kitchen/oven",
        24,
        186_620_000,
        11_533_000,
    ),
    ("/kitchen/scale (timer 20 ms) -> /weight -> /kitchen/mixer", 24, 82_991_000, 6_527_000),
];

#[test]
fn chains_are_those_of_the_book() {
    let found = table("ros2 --of chains");
    let rows = found["rows"].as_array().expect("rows");
    let part = |row: &Value, name: &str| row[format!("{name}_total_ns")].as_u64().expect("a time");
    for (row, (chain, count, total, longest)) in rows.iter().zip(BOOK) {
        let own = ["chain", "count", "total_ns", "max_ns"].map(|column| row[column].clone());
        assert_eq!(own, [json!(chain), json!(count), json!(total), json!(longest)]);
        assert_eq!(part(row, "running") + part(row, "transport") + part(row, "waiting"), total);
    }
    assert_eq!((rows.len(), &found["notes"]["unknown_messages"]), (2, &json!(5)));
}

#[test]
fn callbacks_belong_to_nodes_topics_and_timers() {
    let found = table("ros2 --by topic");
    let rows = found["rows"].as_array().expect("rows");
    let mut own: Vec<[Value; 5]> = rows
        .iter()
        .map(|row| ["kind", "topic", "period_ns", "count", "delays"].map(|column| row[column].clone()))
        .collect();
    own.sort_by_key(|row| row[1].to_string());
    let of = |topic: &str, delays: u64, count: u64| {
        [json!("subscription"), json!(topic), Value::Null, json!(count), json!(delays)]
    };
    let timer = [json!("timer"), Value::Null, json!(20_000_000), json!(24), json!(0)];
    assert_eq!(own, [of("/dough", 24, 24), of("/heat", 0, 5), of("/weight", 24, 24), timer]);
    let log = table("ros2 --log --min 3ms");
    let topics = log["rows"].as_array().expect("rows").iter().map(|row| row["topic"].as_str());
    assert!(topics.clone().count() > 20 && topics.flatten().all(|topic| topic != "/weight"), "mixing takes less");
}

#[test]
fn a_trace_without_such_events_says_what_to_record() {
    let run = run(&format!("analyze ros2 {}", demo("../kernel/bakery")));
    run.ends(1, &["ros2_start", "lttng enable-event --userspace 'ros2:*,dds:*'"]);
    let list = stdout(&format!("analyze {}", demo("../ros2/kitchen.jsonl")), &[]);
    let own = list.split("\nros2").nth(1).expect("it is in the list");
    assert!(!own.lines().nth(1).expect("more").contains("not possible"), "{own}");
}

#[test]
fn messages_without_time_stamps_are_unknown() {
    // Before ROS 2 Jazzy, `rmw_publish` did not say with which time stamp a message goes.
    let folder = Folder::new();
    let text = std::fs::read_to_string(demo("../ros2/kitchen.jsonl")).expect("it is there");
    let old: String = text
        .lines()
        .map(|line| {
            let mut event: Value = serde_json::from_str(line).expect("JSON");
            if event["name"] == "ros2:rmw_publish" {
                event["payload"].as_object_mut().expect("fields").remove("timestamp");
            }
            event.to_string() + "\n"
        })
        .collect();
    folder.file("t.jsonl", old);
    let run = folder.run("analyze ros2 --of chains --json t.jsonl");
    let found: Value = serde_json::from_str(&run.stdout).expect("JSON");
    // Dough goes inside of the process, but the run that made it was started by a message that is not known.
    assert_eq!((&found["rows"], &found["notes"]["unknown_messages"]), (&json!([]), &json!(29)));
    assert!(run.stderr.contains("messages between processes"), "{}", run.stderr);
}
