//! Every option of `analyze` is honoured or refused: the table of which analysis takes which, against what the program
//! does.

mod util;

use std::collections::HashSet;

use serde_json::{Value, json};
use tracemill_analyses::kernel::{ANALYSES, AnalysisForm, AnalysisOption, Descriptor};
use util::{Folder, Run, csv_rows, demo};

/// Objects and locks of the kernel, which two threads of two processes make and take on two CPUs.
fn objects(folder: &Folder) -> String {
    let event = |ns: u64, cpu: u64, name: &str, payload: Value| {
        json!({"ns": ns * 1_000_000, "name": name, "cpu": cpu, "payload": payload}).to_string() + "\n"
    };
    let fork = |ns, tid: u64, pid: u64, comm: &str| {
        let payload = json!({"parent_tid": 1, "parent_pid": 1, "child_tid": tid, "child_pid": pid, "child_comm": comm});
        event(ns, 0, "sched_process_fork", payload)
    };
    let switch = |ns, cpu, prev: u64, next: u64| {
        let payload = json!({"prev_tid": prev, "prev_state": 1, "next_tid": next, "next_prio": 20});
        event(ns, cpu, "sched_switch", payload)
    };
    let alloc = |ns, cpu, ptr: u64, bytes: u64, site: u64| {
        event(ns, cpu, "kmem_kmalloc", json!({"call_site": site, "ptr": ptr, "bytes_alloc": bytes}))
    };
    let free = |ns, cpu, ptr: u64| event(ns, cpu, "kmem_kfree", json!({"call_site": 99, "ptr": ptr}));
    let lock = |ns, cpu, step: &str, lock: u64| {
        event(ns, cpu, &format!("lock_{step}"), json!({"name": format!("lock {lock}"), "lockdep_addr": lock}))
    };
    let lines = [
        fork(0, 641, 640, "oven-1"),
        fork(1, 700, 700, "grind"),
        switch(10, 0, 0, 641),
        switch(20, 1, 0, 700),
        alloc(30, 0, 16, 64, 7),
        alloc(40, 1, 32, 128, 8),
        lock(50, 0, "acquired", 7),
        lock(60, 1, "contended", 7),
        lock(90, 0, "release", 7),
        lock(91, 1, "acquired", 7),
        lock(95, 1, "release", 7),
        switch(100, 0, 641, 0),
        switch(340, 0, 0, 641),
        lock(345, 0, "acquired", 8),
        free(350, 0, 16),
        lock(355, 0, "release", 8),
        lock(356, 0, "acquired", 7),
        lock(358, 0, "release", 7),
        alloc(360, 1, 64, 32, 8),
        free(370, 1, 32),
        switch(400, 0, 641, 0),
        switch(500, 1, 700, 0),
    ];
    folder.file("objects.jsonl", lines.concat());
    folder.path("objects.jsonl").display().to_string()
}

/// Periods of the trace of the demo, and of any trace with switches.
const PERIOD: [&str; 8] = [
    "--period",
    "run",
    "--period-begin",
    "name == \"sched_switch\" and next_tid == 641",
    "--period-end",
    "name == \"sched_switch\" and prev_tid == 641",
    "--period-match",
    "next_tid=prev_tid",
];

/// States and counters of the trace of the demo.
const CUSTOM: &str = "states thread by next_tid\n\
    on sched_switch by prev_tid if prev_state != 0 -> waits\n\
    on sched_switch by prev_tid -> \"could run\"\n\
    on sched_switch -> runs\n\
    counter switches by cpu\n\
    on sched_switch -> +1\n\
    counter prio by cpu\n\
    on sched_switch -> = next_prio\n";

/// Ways to give an option: one of them has to change the answer.
fn values(known: &Descriptor, form: &AnalysisForm, option: AnalysisOption) -> Vec<Vec<String>> {
    let name = option.name();
    // Its lists are of periods.
    if known.name == "why" && matches!(option, AnalysisOption::Log | AnalysisOption::Top) {
        let per = ["--per", "run"].into_iter().chain(PERIOD);
        let count = (option == AnalysisOption::Top).then_some("1");
        return vec![[name].into_iter().chain(count).chain(per).map(str::to_string).collect()];
    }
    let with = |values: &[&str]| values.iter().map(|value| vec![name.to_string(), value.to_string()]).collect();
    match option {
        // The key that chooses a form is given with it.
        AnalysisOption::By if form.option.contains(name) => Vec::new(),
        AnalysisOption::By if form.keys.is_empty() => with(&["thread"]),
        AnalysisOption::By => with(form.keys),
        AnalysisOption::Log | AnalysisOption::Tree => vec![vec![name.to_string()]],
        AnalysisOption::Top => with(&["1"]),
        AnalysisOption::Hist => with(&["4", "log2"]),
        AnalysisOption::Step => with(&["100ms"]),
        AnalysisOption::Tid => with(&["641", "700"]),
        AnalysisOption::Pid => with(&["640", "700"]),
        AnalysisOption::Comm => with(&["oven-1", "grind"]),
        AnalysisOption::Cpu => with(&["1", "0"]),
        AnalysisOption::Min | AnalysisOption::Max => with(&["2us", "100us", "10ms"]),
        AnalysisOption::Begin => with(&["+300ms"]),
        AnalysisOption::Per => {
            let words = [name, "run"].into_iter().chain(PERIOD);
            vec![words.map(str::to_string).collect()]
        }
    }
}

/// The question that chooses a form. `path` is about a thread, `periods` and `custom` about definitions.
fn question(known: &Descriptor, form: &AnalysisForm) -> Vec<String> {
    let mut words: Vec<String> = form.title(known).split(' ').map(str::to_string).collect();
    match known.name {
        "path" | "why" => words.extend(["--tid", "643"].map(str::to_string)),
        "periods" => words.extend(PERIOD.map(str::to_string)),
        "custom" => words.extend(["--states", "custom.states"].map(str::to_string)),
        _ => {}
    }
    words
}

struct Asker {
    folder: Folder,
    traces: [String; 6],
}

impl Asker {
    fn new() -> Self {
        let folder = Folder::new();
        folder.file("custom.states", CUSTOM);
        let traces = [
            demo("../kernel/bakery"),
            objects(&folder),
            demo("../idle/night.jsonl"),
            demo("../guests/host.jsonl"),
            demo("../heap/larder.jsonl"),
            demo("../ros2/kitchen.jsonl"),
        ];
        Asker { folder, traces }
    }

    /// The rows of the answer of the first trace that has any; `None` when no trace has what is needed.
    fn rows(&self, words: &[String]) -> Option<(String, Vec<Value>)> {
        self.traces.iter().find_map(|trace| {
            let run = self.run(words, trace);
            (run.code == Some(0)).then(|| (trace.clone(), rows_of(&run)))
        })
    }

    fn run(&self, words: &[String], trace: &str) -> Run {
        let mut arguments: Vec<&str> = words.iter().map(|word| &**word).collect();
        // A path is about the last thread that is given.
        if ["path", "why"].contains(&&*words[0]) && words.iter().filter(|word| *word == "--tid").count() > 1 {
            arguments.drain(1..3);
        }
        arguments.extend([trace, "--json", "-q"]);
        self.folder.run_with("analyze", &arguments)
    }
}

/// The rows of an answer, of all periods.
fn rows_of(run: &Run) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
    match answer["analyses"].as_array() {
        Some(analyses) => analyses.iter().flat_map(|one| one["rows"].as_array().expect("rows").clone()).collect(),
        None => answer["rows"].as_array().expect("rows").clone(),
    }
}

#[test]
fn every_option_of_every_form_changes_the_answer_or_is_refused() {
    let asker = Asker::new();
    let (mut pairs, mut ignored) = ([0, 0], Vec::new());
    for known in ANALYSES {
        for form in known.forms {
            let plain = question(known, form);
            let (trace, before) = asker.rows(&plain).unwrap_or_else(|| panic!("{plain:?} has no answer"));
            assert!(!before.is_empty(), "{plain:?}");
            for &option in AnalysisOption::ALL {
                let is_taken = form.takes.contains(&option);
                let mut changes = false;
                for value in values(known, form, option) {
                    // Threads have other names in the fields of ftrace.
                    let is_of_ftrace = trace.ends_with("night.jsonl");
                    let value =
                        value.into_iter().map(|word| if is_of_ftrace { word.replace("_tid", "_pid") } else { word });
                    let given = plain.iter().cloned().chain(value).collect::<Vec<_>>();
                    let run = asker.run(&given, &trace);
                    if is_taken {
                        let run = run.ends(0, &[]);
                        changes |= rows_of(&run) != before;
                    } else {
                        // The message names the form and the option, and the help the analyses that take it.
                        let said = format!("` does not take {}", option.name());
                        run.ends(2, &[&said, "help:", &format!("{} is for `", option.name())]);
                    }
                }
                // The only key of a form is that which it has without.
                let is_only_key = option == AnalysisOption::By && form.keys.len() == 1;
                if is_taken && !changes && !is_only_key {
                    ignored.push(format!("{} {}", plain.join(" "), option.name()));
                }
                pairs[usize::from(is_taken)] += 1;
            }
        }
    }
    assert_eq!(ignored, [""; 0], "these print what they print without the option");
    assert!(pairs[0] > 50 && pairs[1] > 100, "{pairs:?}");
}

#[test]
fn every_analysis_takes_the_options_of_all() {
    let asker = Asker::new();
    for known in ANALYSES {
        for form in known.forms {
            let plain = question(known, form);
            let (trace, before) = asker.rows(&plain).expect("an answer");
            let with = |words: &[&str]| {
                let words = plain.iter().cloned().chain(words.iter().map(|word| word.to_string()));
                rows_of(&asker.run(&words.collect::<Vec<_>>(), &trace).ends(0, &[]))
            };
            assert!(with(&["--where", "false"]).is_empty(), "{plain:?}");
            assert_eq!(with(&["--where", "true"]), before, "{plain:?}");
            assert!(with(&["--limit", "0"]).is_empty(), "{plain:?}");
            assert_eq!(with(&["--limit", "1"]).len(), 1, "{plain:?}");
            assert!(["+1us", "+100ms"].iter().any(|end| with(&["--end", end]) != before), "{plain:?}");
            assert!(["*0", "*1"].iter().any(|stream| with(&["--stream", stream]) != before), "{plain:?}");
            // Rows in the order of each column, which do not stand so by all of them before.
            let csv: Vec<String> =
                plain.iter().cloned().chain(["--format", "csv", "-q", &trace].map(str::to_string)).collect();
            let csv: Vec<&str> = csv.iter().map(|word| &**word).collect();
            let header = csv_rows(&asker.folder.run_with("analyze", &csv).ends(0, &[]).stdout).swap_remove(0);
            let is_moved = header.iter().any(|column| with(&["--sort", column]) != before);
            assert!(is_moved || before.len() <= 2, "{plain:?} is in one order by all columns");
        }
    }
}

#[test]
fn of_several_analyses_those_that_do_not_take_an_option_are_left_out() {
    let folder = Folder::new();
    let trace = demo("../kernel/bakery");
    let names = |run: Run| {
        let answer: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
        let analyses = answer["analyses"].as_array().expect("a list").clone();
        analyses.iter().map(|one| one["analysis"].as_str().expect("a name").to_string()).collect::<Vec<_>>()
    };
    let run = folder.run(&format!("analyze cpu,sched,stats --top 3 --json {trace}"));
    let said = ["`cpu` does not take --top: it is left out", "`stats` does not take --top: it is left out"];
    assert_eq!(names(run.ends(0, &said)), ["sched"]);
    // A word of one analysis says nothing to the others.
    let run = folder.run(&format!("analyze cpu,sched --switches --json {trace}"));
    assert_eq!(names(run.ends(0, &[])), ["cpu", "sched"]);
    let run = folder.run(&format!("analyze states --of disks,cpus --tid 641 --format jsonl {trace}"));
    let run = run.ends(0, &["`states --of disks` does not take --tid: it is left out"]);
    assert!(run.stdout.contains("\"cpu\":1") && !run.stdout.contains("sda"));
    folder.run(&format!("analyze cpu,stats --top 3 {trace}")).ends(2, &["`cpu` does not take --top"]);
    folder.run(&format!("analyze cpu,stats --switches {trace}")).ends(2, &["`cpu` does not take --switches"]);
    folder.run(&format!("analyze sched --of switches {trace}")).ends(2, &["unknown kind of rows `switches`"]);
    folder.run(&format!("analyze sched --of disks {trace}")).ends(2, &["`sched` does not take --of disks", "`states`"]);
    folder.run(&format!("analyze sched --log --by prio {trace}")).ends(2, &["--by groups statistics"]);
}

#[test]
fn analyses_that_the_traces_cannot_feed_are_left_out() {
    let folder = Folder::new();
    let trace = objects(&folder);
    let run = folder.run(&format!("analyze cpu,irq,memory --json {trace}"));
    let run = run.ends(0, &["`irq` needs events of irq_entry or soft_entry, and the traces have none: it is left out"]);
    let answer: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
    let analyses: Vec<&Value> = answer["analyses"].as_array().expect("a list").iter().collect();
    assert_eq!(analyses.iter().map(|one| &one["analysis"]).collect::<Vec<_>>(), ["cpu", "memory"]);
    // The form of the output does not depend on the traces.
    let run = folder.run(&format!("analyze irq,cpu --json {trace}"));
    assert!(run.ends(0, &[]).stdout.starts_with("{\"analyses\":[{\"analysis\":\"cpu\""));
    let run = folder.run(&format!("analyze irq,cpu --format jsonl {trace}"));
    assert!(run.ends(0, &[]).stdout.starts_with("{\"analysis\":\"cpu\","));
    folder.run(&format!("analyze irq,locks {trace}")).ends(1, &["`irq` needs", "`locks` needs", "help:"]);
}

#[test]
fn all_are_the_analyses_that_the_traces_can_feed() {
    let folder = Folder::new();
    let all = |more: &str, trace: &str| {
        let run = folder
            .run(&format!("analyze all {more} --json {trace}"))
            .ends(0, &["`states` is not part of `all`", "`timehist` is not part"]);
        let answer: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
        let names = answer["analyses"].as_array().expect("a list").iter().map(|one| one["analysis"].clone());
        names.collect::<Vec<_>>()
    };
    let bakery = demo("../kernel/bakery");
    let sums = [
        "cpu",
        "sched",
        "irq",
        "work",
        "syscalls",
        "io",
        "memory",
        "locks",
        "contention",
        "offcpu",
        "processes",
        "stats",
    ];
    assert_eq!(all("", &bakery), sums);
    assert_eq!(all("--tid 641", &bakery), [&sums[..], &["path", "why"]].concat());
    assert_eq!(
        all("", &demo("../idle/night.jsonl")),
        ["cpu", "sched", "irq", "work", "idle", "contention", "offcpu", "processes", "stats"]
    );
    assert_eq!(
        all("", &demo("../guests/host.jsonl")),
        ["cpu", "sched", "syscalls", "io", "locks", "contention", "offcpu", "vm", "cgroup", "processes", "stats"]
    );
    assert_eq!(all("", &demo("../heap/larder.jsonl")), ["heap", "stats"]);
    assert_eq!(all("", &demo("../ros2/kitchen.jsonl")), ["ros2", "stats"]);
    assert_eq!(all("", &objects(&folder)), ["cpu", "sched", "memory", "contention", "offcpu", "processes", "stats"]);
    let run = folder.run(&format!("analyze states,timehist,map,all --limit 1 --format csv {bakery}")).ends(0, &[]);
    assert!(!run.stderr.contains("is not part of"), "{}", run.stderr);
}

#[test]
fn every_header_is_taken_by_sort_and_where() {
    let asker = Asker::new();
    let mut sorted = HashSet::new();
    for known in ANALYSES {
        for form in known.forms {
            let mut questions = vec![question(known, form)];
            // The lists of `why` are of periods.
            if form.has_spans() && known.name != "why" {
                questions.push([question(known, form), vec!["--log".to_string()]].concat());
                let has_durations = form.takes.contains(&AnalysisOption::Hist);
                let hist = || [question(known, form), vec!["--hist".to_string(), "3".to_string()]].concat();
                questions.extend(has_durations.then(hist));
            }
            // A matrix has titles of another kind.
            let matrix = known.matrix_of(form, form.keys.first().copied());
            let as_list = matrix.map_or(&[][..], |_| &["--sort", "total_ns"][..]);
            for plain in questions {
                let (trace, _) = asker.rows(&plain).expect("an answer");
                let table = |more: &[&str]| {
                    let words = plain.iter().map(|word| &**word).chain(more.iter().copied());
                    let words: Vec<&str> = words.chain([&*trace, "-q", "--limit", "1", "--end", "+400ms"]).collect();
                    asker.folder.run_with("analyze", &words).ends(0, &[]).stdout
                };
                for clock in [&[][..], &["--clock-seconds"]] {
                    let text = table(&[clock, as_list].concat());
                    let titles: Vec<&str> = text.lines().next().expect("a header").split_whitespace().collect();
                    let condition = titles.iter().map(|title| format!("(`{title}` or true)")).collect::<Vec<_>>();
                    table(&["--where", &condition.join(" and ")]);
                    for title in titles.into_iter().filter(|title| sorted.insert(title.to_string())) {
                        table(&["--sort", title]);
                    }
                }
            }
        }
    }
}

#[test]
fn headers_are_in_their_units() {
    let folder = Folder::new();
    let trace = demo("../kernel/bakery");
    let tids = |condition: &str| {
        let run = folder.run_with(&format!("analyze cpu --format csv -q {trace}"), &["--where", condition]);
        csv_rows(&run.ends(0, &[]).stdout)[1..].iter().map(|row| row[0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(tids("time_us > 16000"), ["700", "641"]);
    assert_eq!(tids("time_us > 16000"), tids("time_ns > 16000000"));
    assert_eq!(tids("time_us == 16918.014"), ["641"]);
    assert_eq!(tids("share_pct > 18"), tids("share > 0.18"));
    let run = folder.run_with(&format!("analyze cpu {trace}"), &["--where", "time_uss > 1"]);
    run.ends(2, &["the table has no column `time_uss`", "did you mean `time_us`?"]);
    folder.run(&format!("analyze cpu --sort tim_us {trace}")).ends(2, &["has no column `tim_us`", "did you mean"]);
}

#[test]
fn rows_losses_and_options_have_one_clock() {
    let folder = Folder::new();
    let trace = demo("../kernel/bakery");
    let run = |more: &str| folder.run(&format!("analyze syscalls --log {more} {trace}")).ends(0, &[]);
    for (clock, loss) in [("", "[08:31:10.821503448]"), ("--clock-seconds", "[1795249870.821503448]")] {
        let whole = run(clock);
        assert!(whole.stderr.contains(loss), "{}", whole.stderr);
        let row = whole.stdout.lines().nth(300).expect("a row");
        let to = row.split_whitespace().nth(5).expect("a time").to_string();
        // A time of a row is an option as it stands.
        let cut = run(&format!("{clock} --begin {to} --end {to}"));
        assert!(cut.stdout.lines().nth(1).is_some_and(|line| line.contains(&to)), "{}", cut.stdout);
    }
    // Dates are shown when there is more than one.
    let days = folder.file("days.jsonl", concat!(
        "{\"ns\":86399000000000,\"name\":\"sched_switch\",\"cpu\":0,\"payload\":{\"prev_tid\":0,\"prev_state\":0,\"next_tid\":5,\"next_prio\":20}}\n",
        "{\"ns\":86401000000000,\"name\":\"sched_switch\",\"cpu\":0,\"payload\":{\"prev_tid\":5,\"prev_state\":0,\"next_tid\":0,\"next_prio\":20}}\n",
    ));
    let table = days.run("analyze states --of cpus days.jsonl").ends(0, &[]).stdout;
    assert!(table.contains("1970-01-01 23:59:59.000000000  1970-01-02 00:00:01.000000000"), "{table}");
}

#[test]
fn a_choice_of_nothing_says_why() {
    let folder = Folder::new();
    let trace = demo("../kernel/bakery");
    for (question, said) in [
        ("cpu --tid 99", "no thread has tid 99: there are 15 threads, from 1 to 9003"),
        ("cpu --tid 6410", "no thread has tid 6410; did you mean `--tid 640`?"),
        ("irq --pid 641", "641: it is a thread of process 640; did you mean `--tid 641` or `--pid 640`?"),
        ("sched --comm ovn-1", "no thread is called `ovn-1`; did you mean `--comm oven-1`?"),
        ("sched --comm oven", "no thread is called `oven`; did you mean `--comm oven*`?"),
        ("syscalls --log --comm zz*", "no thread's name fits `zz*`: there are 12 names, from clerk to weigh"),
        ("states --cpu 7", "no event is of cpu 7: the cpus are 0, 1"),
        ("path --tid 99", "no thread has tid 99"),
        ("cpu --tid 641 --comm grind", "no thread fits `--tid 641` and `--comm grind` at once"),
        ("irq --tid 57", "`irq` found nothing that fits --tid 57"),
        ("syscalls --min 10s", "`syscalls` found nothing that fits --min"),
        ("cpu --begin 2030-01-01", "but the last event is at 2026-11-21 08:31:10.821503448"),
    ] {
        for format in ["table", "json", "jsonl", "csv"] {
            folder.run(&format!("analyze {question} --format {format} {trace}")).ends(0, &[said]);
        }
    }
    // A question that has an answer gets no note about missing threads.
    for question in ["cpu --tid 99,641", "cpu --comm oven*", "states --tid 641", "sched --min 1us"] {
        let run = folder.run(&format!("analyze {question} --format jsonl {trace}")).ends(0, &[]);
        assert!(!run.stderr.contains("no thread") && !run.stderr.contains("found nothing"), "{}", run.stderr);
    }
}
