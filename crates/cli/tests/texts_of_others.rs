//! Texts that other programs write, read as traces: text of ftrace, trace JSON of Chrome.

mod util;

use serde_json::Value;
use util::{Folder, json_lines};

fn lines(folder: &Folder, trace: &str) -> Vec<Value> {
    json_lines(&folder.run_with("print --format jsonl -q", &[trace]).ends(0, &[]).stdout)
}

/// Two threads on a CPU, a system call, marks, and a wake-up from another CPU.
const FTRACE: &str = "# tracer: nop
#
# entries-in-buffer/entries-written: 11/11   #P:2
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
           baker-7       [000] d..2.     1.000000: sched_switch: prev_comm=baker prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=oven log next_pid=8 next_prio=110
        oven log-8       [000] .....     1.000100: sys_read(fd: 3, buf: 7ffd1000, count: 40)
        oven log-8       [000] .....     1.000200: sys_read -> 0x10
        oven log-8       [000] .....     1.000250: tracing_mark_write: B|8|knead
        oven log-8       [000] .....     1.000750: tracing_mark_write: E|8
CPU:1 [LOST 3 EVENTS]
          <idle>-0       [001] dNh3.     1.000800: sched_waking: comm=baker pid=7 prio=120 target_cpu=000
        oven log-8       [000] d..2.     1.001000: sched_switch: prev_comm=oven log prev_pid=8 prev_prio=110 prev_state=R+ ==> next_comm=baker next_pid=7 next_prio=120
           baker-7       [000] d..2.     1.001500: sched_switch: prev_comm=baker prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

#[test]
fn analyses_work_on_text_of_ftrace() {
    let folder = Folder::new();
    folder.file("trace.txt", FTRACE);
    let rows = |analysis: &str| {
        json_lines(&folder.run(&format!("analyze {analysis} -q --format jsonl trace.txt")).ends(0, &[]).stdout)
    };
    let cpu = rows("cpu");
    let of = |tid: u64| cpu.iter().find(|row| row["tid"] == tid).expect("a row of the thread");
    assert_eq!((&of(8)["comm"], &of(8)["time_ns"]), (&"oven log".into(), &1_000_000.into()));
    assert_eq!(of(7)["time_ns"], 500_000);
    let syscalls = rows("syscalls");
    assert_eq!((&syscalls[0]["name"], &syscalls[0]["total_ns"]), (&"read".into(), &100_000.into()));
    let sched = rows("sched");
    assert!(sched.iter().any(|row| row["tid"] == 7 && row["total_ns"] == 200_000), "{sched:?}");
    // Marks of programs are calls.
    let report = folder.run("report -q trace.txt").ends(0, &[]).stdout;
    assert!(report.contains("knead") && report.contains("500.000 us"), "{report}");
    let check = folder.run("check trace.txt").ends(0, &[]).stdout;
    assert!(check.contains("3 events were discarded") && check.contains("1 loss"), "{check}");
}

#[test]
fn a_text_of_ftrace_is_read_when_there_is_no_trace_beside_it() {
    let folder = Folder::new();
    folder.file("one/trace.txt", FTRACE).file("two/trace.txt", FTRACE);
    let all = lines(&folder, "one").len();
    assert_eq!(all, 8);
    folder.run("convert --to ctf2 -o two/trace one").ends(0, &[]);
    assert_eq!(lines(&folder, "two/trace").len(), all);
    assert_eq!(lines(&folder, "two").len(), all, "the text is a transcript");
}

#[test]
fn an_output_for_chrome_is_read_back() {
    let folder = Folder::new();
    folder.file("trace.txt", FTRACE);
    folder.run("convert -q --to chrome -o trace.json trace.txt").ends(0, &[]);
    let (want, have) = (lines(&folder, "trace.txt"), lines(&folder, "trace.json"));
    let times = |lines: &[Value]| lines.iter().map(|line| line["ns"].clone()).collect::<Vec<_>>();
    let of = |name: &str, lines: &[Value]| {
        let own = lines.iter().filter(|line| line["name"] == name);
        own.map(|line| (line["ns"].clone(), line["payload"].clone())).collect::<Vec<_>>()
    };
    // The loss is an instant in the output.
    assert_eq!(have.len(), want.len() + 1);
    assert!(times(&want).iter().all(|time| times(&have).contains(time)));
    for name in ["sched_switch", "sched_waking"] {
        assert!(!of(name, &want).is_empty());
        assert_eq!(of(name, &have), of(name, &want), "{name}");
    }
    // As it is, it is copied.
    folder.run("convert -q --to chrome -o again.json trace.json").ends(0, &[]);
    let read = |name: &str| std::fs::read(folder.path(name)).expect("it is there");
    assert_eq!(read("again.json"), read("trace.json"));
    folder.run("convert -q --to ctf2 -o ctf trace.json").ends(0, &[]);
    assert_eq!(times(&lines(&folder, "ctf")), times(&have));
}

#[test]
fn slices_of_chrome_are_calls_and_spans() {
    let folder = Folder::new();
    folder.file(
        "trace.json",
        r#"[{"name":"process_name","ph":"M","pid":7,"args":{"name":"bakery"}},
            {"name":"inner","ph":"X","ts":2,"dur":3,"pid":7,"tid":8},
            {"name":"outer","ph":"X","ts":1,"dur":9,"pid":7,"tid":8},
            {"name":"loose","ph":"B","ts":20,"pid":7,"tid":8},
            {"ph":"E","ts":25.5,"pid":7,"tid":8},
            {"name":"bread","cat":"order","ph":"b","id":1,"ts":1,"pid":7,"tid":8},
            {"name":"bread","cat":"order","ph":"e","id":1,"ts":30,"pid":7,"tid":9},
            {"name":"flour","ph":"C","ts":3,"pid":7,"args":{"kg":5}},
            {"name":"cut"#,
    );
    let report = folder.run("report -q trace.json").ends(3, &[]).stdout;
    for text in ["9.000 us", "3.000 us", "5.500 us", "outer", "inner", "loose"] {
        assert!(report.contains(text), "{text}: {report}");
    }
    let run = folder.run("print -q trace.json").ends(3, &["the file ends in the middle of an event"]);
    assert_eq!(run.stdout.lines().count(), 9);
    // A span and a counter are those of the output, too.
    folder.run("convert -q --to chrome --begin 0ns -o again.json trace.json").ends(3, &[]);
    let text = std::fs::read_to_string(folder.path("again.json")).expect("it is there");
    for phase in ["\"ph\":\"b\"", "\"ph\":\"e\"", "\"ph\":\"B\"", "\"ph\":\"E\"", "\"ph\":\"C\""] {
        assert!(text.contains(phase), "{phase}: {text}");
    }
}
