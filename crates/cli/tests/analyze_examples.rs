//! The kernel trace of the demo: the examples of the documents, and the story that the script which made it tells.

mod util;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use util::{Run, command};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words of a line of a shell: separated by blanks, with single quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().expect("there is one").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The examples of a page: a command, and the lines shown below it.
fn examples(page: &str) -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(root().join(page)).expect("a page");
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let (mut is_open, mut goes_on) = (false, false);
    for line in text.lines() {
        let Some(line) = line.strip_prefix("    ") else {
            is_open = false;
            continue;
        };
        if goes_on || line.starts_with("$ tracemill ") {
            let (part, more) = match line.strip_suffix('\\') {
                Some(part) => (part, true),
                None => (line, false),
            };
            match found.last_mut().filter(|_| goes_on) {
                Some((command, _)) => command.push_str(part),
                None => found.push((part.trim_start_matches("$ ").to_string(), Vec::new())),
            }
            (is_open, goes_on) = (true, more);
        } else if is_open {
            found.last_mut().expect("a command stands above").1.push(line.to_string());
        }
    }
    // Commands without an output show how an option is written.
    found.retain(|(_, lines)| !lines.is_empty());
    found
}

#[test]
fn examples_of_the_documents_are_what_the_program_prints() {
    let mut count = 0;
    for page in
        ["docs/analyze.md", "docs/states.md", "docs/report.md", "docs/calls.md", "docs/samples.md", "docs/jsonl.md"]
    {
        for (example, want) in examples(page) {
            let mut run: Command = command();
            // Examples do not depend on the time zone.
            run.current_dir(root()).env("TZ", "Asia/Kolkata").args(&words(&example)[1..]);
            let run = Run::from_output(run.output().expect("the program starts"));
            let have = format!("{}{}", run.stdout, run.stderr);
            let mut lines = have.lines();
            for want in want.iter().filter(|want| *want != "...") {
                // Long lines are cut, and lines between may be left out.
                let fits = |line: &str| match want.strip_suffix(" ...") {
                    Some(begin) => line.starts_with(begin),
                    None => line.trim_end() == want.trim_end(),
                };
                assert!(lines.any(fits), "{page}: `{example}` does not print, in this order:\n{want}\nbut:\n{have}");
            }
            count += 1;
        }
    }
    assert!(count > 15, "{count} examples");
}

/// The example of each analysis, as its help shows it.
#[test]
fn examples_of_the_help_have_rows() {
    for known in tracemill_analyses::kernel::ANALYSES {
        let mut help = command();
        let help = Run::from_output(help.args(["analyze", known.name, "--help"]).output().expect("the program starts"));
        let help = help.ends(0, &[]).stdout;
        let line = help.lines().find_map(|line| line.strip_prefix("Example: tracemill ")).expect("an example");
        let mut run = command();
        run.current_dir(root()).args(words(line)).args(["-q", "--format", "csv"]);
        let run = Run::from_output(run.output().expect("the program starts")).ends(0, &[]);
        assert!(run.stdout.lines().count() > 2, "{line}: {}", run.stdout);
        // The page names the columns of the answer.
        for key in run.stdout.lines().next().expect("a header").split(',') {
            let is_named = help.contains(&format!("({key})")) || help.contains(&format!("\n    {key} "));
            assert!(is_named || line.contains("--step") && matches!(key, "from" | "to"), "{}: {key}", known.name);
        }
    }
}

fn analyze(arguments: &str) -> Value {
    let arguments = format!("analyze --json -q {arguments} demo/kernel/bakery");
    let mut run = command();
    run.current_dir(root()).args(words(&arguments));
    let run = Run::from_output(run.output().expect("the program starts")).ends(0, &[]);
    serde_json::from_str(&run.stdout).expect("an object")
}

/// Sum of a column over the rows that fit.
fn sum(answer: &Value, column: &str, fits: impl Fn(&Value) -> bool) -> u64 {
    let rows = answer["rows"].as_array().expect("rows").iter().filter(|row| fits(row));
    rows.map(|row| row[column].as_u64().expect("a number")).sum()
}

/// `demo/kernel.py` prints these numbers, from its own books.
#[test]
fn the_story_of_the_kernel_trace_is_told() {
    let disk = analyze("io --by disk");
    assert_eq!((&disk["all"]["count"], &disk["all"]["max_ns"]), (&Value::from(27), &Value::from(31_003_813)));
    let net = analyze("io --by net");
    assert_eq!(sum(&net, "packets_in", |_| true), 43);
    let calls = analyze("syscalls");
    let errnos = &calls["all"]["errnos"];
    assert_eq!([&errnos["ENOENT"], &errnos["EAGAIN"], &errnos["ECHILD"]], [46, 43, 4]);
    let locks = analyze("locks");
    assert_eq!(sum(&locks, "count", |row| row["uaddr"] == 0x7F3A_5C00_12A0_u64), 5);
    let children = analyze("processes --comm weigh");
    assert_eq!(children["rows"].as_array().map(Vec::len), Some(4));
    assert!(
        children["rows"].as_array().into_iter().flatten().all(|row| row["freed_ns"].is_u64() && row["ppid"] == 520)
    );
    // The late order: the disk, and twice the batch job.
    let path = analyze("path --tid 641 --begin 08:31:10.5214 --end 08:31:10.56657");
    let of = |tid: u64, state: &str| {
        let totals = path["totals"].as_array().expect("totals");
        totals
            .iter()
            .filter(|row| row["tid"] == tid && row["state"] == state)
            .filter_map(|row| row["total_ns"].as_u64())
            .sum::<u64>()
    };
    assert!((30_900_000..31_100_000).contains(&of(212, "disk")), "{path}");
    assert!((13_000_000..14_000_000).contains(&of(641, "wait_cpu")), "{path}");
    // Events contradict each other only after the gap, where contradictions are not counted.
    let notes = &calls["notes"];
    assert_eq!((&notes["events"], &notes["losses"]), (&Value::from(4134), &Value::from(21)));
    for count in ["replaced_syscalls", "unmatched_irq_exits", "inconsistent_switches", "cleared_interrupts"] {
        assert_eq!(notes[count], 0, "{count}");
    }
}
