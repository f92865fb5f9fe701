//! Recordings of perf: threads that are listed before the first event, and events without switches, whose contexts name the threads.

mod util;

use util::{Folder, csv_rows};

/// Columns of the rows of an analysis of a trace.
fn rows(trace: &str, analysis: &str, columns: &str) -> Vec<String> {
    let folder = Folder::new();
    folder.file("perf.jsonl", trace);
    let run = folder.run(&format!("analyze {analysis} --format csv perf.jsonl")).ends(0, &[]);
    let mut rows = csv_rows(&run.stdout).into_iter();
    let header = rows.next().expect("there is a header");
    let place = |name: &str| header.iter().position(|own| own == name).expect("a column");
    let places: Vec<usize> = columns.split(' ').map(place).collect();
    rows.map(|row| places.iter().map(|&at| row[at].as_str()).collect::<Vec<_>>().join(" ")).collect()
}

/// Records that `perf record -a` writes for each thread before it begins, without a time.
const LISTED: &str = r#"{"ns":null,"name":"PERF_RECORD_FORK","payload":{"pid":4,"ppid":4,"tid":5,"ptid":4}}
{"ns":null,"name":"PERF_RECORD_COMM","payload":{"pid":4,"tid":5,"exec":false,"comm":"oven"}}
{"ns":null,"name":"PERF_RECORD_MMAP2","payload":{"pid":4,"tid":5}}
"#;

fn event(ns: u64, cpu: u64, (tid, comm): (u64, &str), name: &str, payload: &str) -> String {
    let context = format!(r#"{{"pid":4,"tid":{tid},"comm":"{comm}","common_pid":{tid}}}"#);
    format!(r#"{{"ns":{ns},"name":"{name}","cpu":{cpu},"event_context":{context},"payload":{{{payload}}}}}"#) + "\n"
}

#[test]
fn threads_that_are_listed_without_a_time_have_processes_and_names() {
    let switch = |ns, prev, next| {
        event(ns, 0, (prev, "x"), "sched_switch", &format!(r#""prev_pid":{prev},"prev_state":1,"next_pid":{next}"#))
    };
    let trace = [LISTED, &switch(100, 0, 5), &switch(200, 5, 0)].concat();
    assert_eq!(rows(&trace, "timehist", "out_ns tid pid comm"), ["200 5 4 oven"]);
    assert_eq!(rows(&trace, "processes", "tid pid ppid comm"), ["5 4 4 oven"]);
    // A later record is a change of the name.
    let renamed =
        r#"{"ns":50,"name":"PERF_RECORD_COMM","cpu":0,"payload":{"pid":4,"tid":5,"exec":true,"comm":"grind"}}"#;
    let trace = [LISTED, renamed, "\n", &switch(100, 0, 5), &switch(200, 5, 0)].concat();
    assert_eq!(rows(&trace, "timehist", "tid pid comm"), ["5 4 grind"]);
    // They are counted in words, if they are left out.
    let folder = Folder::new();
    folder.file("perf.jsonl", &trace);
    let table = folder.run("analyze timehist perf.jsonl").ends(0, &[]);
    assert!(table.stdout.ends_with("\n1 event without a time left out\n"), "{}", table.stdout);
}

#[test]
fn waits_for_locks_belong_to_the_threads_of_contexts() {
    let begin = |ns, cpu, thread| event(ns, cpu, thread, "contention_begin", r#""lock_addr":64,"flags":4"#);
    let end = |ns, cpu, thread| event(ns, cpu, thread, "contention_end", r#""lock_addr":64,"ret":0"#);
    let (oven, grind) = ((5, "oven"), (6, "grind"));
    // The first waits on one CPU and goes on on another one, after the second one has waited.
    let trace = [begin(100, 0, oven), begin(150, 0, grind), end(160, 0, grind), end(300, 1, oven)].concat();
    let by_thread = rows(&trace, "contention --by thread", "tid comm count total_ns");
    assert_eq!(by_thread, ["5 oven 1 200", "6 grind 1 10"]);
}
