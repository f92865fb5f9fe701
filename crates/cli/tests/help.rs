//! The program's own descriptions: help, completions, manual pages, formats.

mod util;

use serde_json::Value;
use util::{Folder, run, stdout};

const COMMANDS: [&str; 12] = [
    "info",
    "print",
    "check",
    "convert",
    "replay",
    "report",
    "graph",
    "flame",
    "dump",
    "formats",
    "completions",
    "man",
];

/// Options of every command that reads traces.
const INPUT: [&str; 9] = [
    "--input-format",
    "--clock-offset",
    "--clock-offset-ns",
    "--jobs",
    "--memory",
    "--progress",
    "--quiet",
    "--strict",
    "TRACE",
];

/// Options that `-h` leaves out.
const RARE: [&str; 3] = ["--clock-offset", "--clock-offset-ns", "--memory"];

const PRINT: [&str; 19] = [
    "--begin",
    "--end",
    "--filter",
    "--stream",
    "--skip",
    "--limit",
    "--format",
    "--output",
    "--color",
    "--clock-gmt",
    "--clock-date",
    "--clock-seconds",
    "--clock-cycles",
    "--no-delta",
    "--names",
    "--fields",
    "--columns",
    "jsonl",
    "csv",
];

#[test]
fn help_lists_the_commands_and_the_exit_statuses() {
    let help = stdout("--help", &[]);
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is not in {help}");
    }
    assert!(help.contains("Exit status: 0 done; 1 nothing could be done; 2 wrong usage; 3 done"));
    assert!(stdout("--version", &[]).starts_with("tracemill "));
}

#[test]
fn help_is_a_command_too() {
    assert_eq!(stdout("help", &[]), stdout("--help", &[]));
    for command in COMMANDS {
        assert_eq!(stdout(&format!("help {command}"), &[]), stdout(&format!("{command} --help"), &[]), "{command}");
    }
    assert_eq!(stdout("help analyze periods", &[]), stdout("analyze --help periods", &[]));
    run("help prnt").ends(2, &["there is no command `prnt`", "did you mean `print`?"]);
}

#[test]
fn options_of_other_programs_lead_to_the_filter() {
    let filter = "choose events by their names with --filter 'name == \"sched_*\"'";
    run("print --event tick mill").ends(2, &["`print` has no option --event", filter]);
    run("convert --name=tick --to ctf2 -o x mill").ends(2, &["`convert` has no option --name", filter]);
    run("formats --event tick").ends(2, &["unexpected argument '--event'"]);
}

#[test]
fn a_trace_in_the_place_of_a_command_is_taken_for_what_it_is() {
    run("mill").ends(2, &["`mill` is not a command but a file or folder", "did you mean `tracemill print mill`?"]);
    run("mill --begin 5").ends(2, &["did you mean `tracemill print mill`?"]);
    let folder = Folder::new();
    folder.file("a b", "");
    folder.run_with("", &["a b"]).ends(2, &["did you mean `tracemill print 'a b'`?"]);
    run("nowhere/x").ends(2, &["`nowhere/x` is not a command, and there is no such file or folder"]);
    run("prnt").ends(2, &["a similar subcommand exists: 'print'"]);
}

#[test]
fn help_of_each_command_lists_its_options() {
    let has = |command: &str, words: &[&str]| {
        let [long, short] = ["--help", "-h"].map(|help| stdout(&format!("{command} {help}"), &[]));
        for help in [&long, &short] {
            for word in words {
                let is_left_out = help.len() < long.len() && RARE.contains(word);
                assert!(is_left_out != help.contains(word), "{word} in the help of {command}: {help}");
            }
        }
    };
    for command in ["print", "info", "check"] {
        has(command, &INPUT);
    }
    has("print", &PRINT);
    let words = [
        "--state",
        "--from",
        "--to",
        "--regress",
        "--within",
        "--by",
        "--lane",
        "--model",
        "--sort",
        "--format",
        "--filter",
    ];
    has("report", &words);
    has("report", &INPUT);
    has("info", &["--count", "--json", "--packets"]);
    has("check", &["--json"]);
    has("formats", &["--json"]);
    has("man", &["--dir"]);
    has("completions", &["bash", "zsh", "fish", "powershell", "elvish"]);
}

#[test]
fn each_line_of_help_stands_alone() {
    for command in COMMANDS {
        for line in stdout(&format!("{command} --help"), &[]).lines() {
            // Options are listed by several commands, in any order: a text must not lean on the one before it.
            for word in ["The same", "Those ", "These ", "What ", "It ", "Say "] {
                assert!(!line.trim_start().starts_with(word), "{command}: {line}");
            }
        }
    }
}

#[test]
fn every_shell_has_completions_with_all_options() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = stdout(&format!("completions {shell}"), &[]);
        for word in COMMANDS {
            assert!(script.contains(word), "{word} is not completed by {shell}");
        }
        for option in INPUT.iter().chain(&PRINT).filter_map(|word| word.strip_prefix("--")) {
            assert!(script.contains(option), "--{option} is not completed by {shell}");
        }
    }
}

#[test]
fn manual_pages_are_printed_and_written() {
    assert!(stdout("man", &[]).contains(".TH tracemill 1"));
    let folder = Folder::new();
    folder.run("man --dir pages").ends(0, &[]);
    for command in COMMANDS {
        let page = std::fs::read_to_string(folder.path(&format!("pages/tracemill-{command}.1")));
        let page = page.expect("every command has a page");
        assert!(page.contains(&format!("tracemill\\-{command}")) || page.contains(command), "{page}");
    }
    let page = std::fs::read_to_string(folder.path("pages/tracemill-print.1")).expect("it was written");
    for option in PRINT.iter().filter(|word| word.starts_with("--")) {
        assert!(page.contains(&option.replace('-', "\\-")), "{option} is not in the page of print");
    }
    folder.file("file", "").run("man --dir file/pages").ends(1, &["error: file/pages: cannot make the folder"]);
}

#[test]
fn formats_are_listed_for_people_and_for_programs() {
    let text = stdout("formats", &[]);
    for line in [
        "ctf1.8 read,write",
        "ctf2 read,write",
        "chrome read,write",
        "ftrace-text read",
        "text write",
        "jsonl read,write",
        "csv write",
    ] {
        let words =
            |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace("read, write", "read,write");
        let is_there = text.lines().any(|found| words(found).starts_with(line));
        assert!(is_there, "{line} is not in {text}");
    }
    let json: Value = serde_json::from_str(&stdout("formats --json", &[])).expect("one JSON object");
    let list = json["formats"].as_array().expect("a list");
    let of = |name: &str| list.iter().find(|format| format["name"] == name);
    assert_eq!(of("ctf2").map(|format| (&format["read"], &format["write"])), Some((&true.into(), &true.into())));
    assert_eq!(of("csv").map(|format| (&format["read"], &format["write"])), Some((&false.into(), &true.into())));
}

#[test]
fn a_mistyped_command_or_option_is_answered_with_a_hint() {
    run("prin orders").ends(2, &["tip: a similar subcommand exists: 'print'"]);
    run("print orders --colums x").ends(2, &["tip: a similar argument exists: '--columns'"]);
}

#[test]
fn help_of_reading_commands_is_short_and_rare_options_stand_at_its_end() {
    for command in ["info", "print", "check", "convert", "report", "replay", "graph", "flame", "dump", "view", "tui"] {
        let [short, long] = ["-h", "--help"].map(|help| stdout(&format!("{command} {help}"), &[]));
        assert!(short.lines().count() <= 75 && long.lines().count() < 120, "{command}");
    }
    assert!(stdout("analyze --help", &[]).lines().count() < 120);
    for command in ["info", "print", "check", "convert", "report"] {
        let [short, long] = ["-h", "--help"].map(|help| stdout(&format!("{command} {help}"), &[]));
        assert!(!short.contains("--ticks-per-us"), "{command}");
        let headings = ["Options:", "Reading and messages:", "Rarely needed:", "Options of input formats:"];
        let places = headings.map(|heading| long.find(heading).expect("it is there"));
        assert!(places.is_sorted(), "{command}: {long}");
        let (common, rare) = long.split_at(places[2]);
        assert!(common.contains("--strict") && rare.contains("--ticks-per-us"), "{command}");
        assert!(!common.contains("--correlate") && rare.contains("--correlate"), "{command}");
    }
}

#[test]
fn help_of_convert_and_analyze_has_pages_for_what_is_long() {
    let page = |help: &str| stdout(help, &[]);
    let (convert, limits) = (page("convert --help"), page("convert --help limits"));
    assert!(
        convert.contains("`tracemill convert --help limits`") && !convert.contains("origins of clocks"),
        "{convert}"
    );
    assert!(limits.starts_with("Limits of the output formats") && limits.contains("  ctf1.1: "), "{limits}");
    assert_eq!(page("convert -h limits"), limits);
    let samples = page("convert --help samples");
    assert!(!convert.contains("--no-inline") && convert.contains("`tracemill convert --help samples`"), "{convert}");
    assert!(
        samples.contains("--no-inline") && samples.contains("--kallsyms") && !samples.contains("--to"),
        "{samples}"
    );
    let analyze = page("analyze --help");
    assert!(!analyze.contains("--period-begin") && !analyze.contains("--same-host") && analyze.contains("--where"));
    let [periods, analyses] = ["periods", "analyses"].map(|topic| {
        assert!(analyze.contains(&format!("--help {topic}`")), "{analyze}");
        page(&format!("analyze --help {topic}"))
    });
    assert!(
        periods.contains("--period-begin") && periods.contains("--per ") && !periods.contains("--where"),
        "{periods}"
    );
    assert!(analyses.contains("--switches") && analyses.contains("--same-host") && !analyses.contains("--jobs"));
    // Manual pages have everything.
    let folder = Folder::new();
    folder.run("man --dir pages").ends(0, &[]);
    for (command, text) in
        [("convert", "origins of clocks"), ("analyze", "\\-\\-period\\-begin"), ("analyze", "\\-\\-switches")]
    {
        let page =
            std::fs::read_to_string(folder.path(&format!("pages/tracemill-{command}.1"))).expect("it was written");
        assert!(page.contains(text), "{command}: {text}");
    }
}

#[test]
fn help_of_report_is_divided_by_what_is_reported() {
    let [times, short] = ["report --help", "report -h"].map(|help| stdout(help, &[]));
    for help in [&times, &short] {
        assert!(
            help.lines().count() < 120 && help.contains("--state") && help.contains("`tracemill report --help calls`")
        );
        assert!(!help.contains("--percentiles") && !help.contains("--time-filter"), "{help}");
    }
    let calls = stdout("report --help calls", &[]);
    assert_eq!(stdout("report -h calls", &[]), calls);
    assert!(calls.contains("Usage: tracemill report [OPTIONS]"), "{calls}");
    assert!(calls.lines().count() < 100 && calls.contains("--percentiles") && calls.contains("--time-filter"));
    assert!(!calls.contains("--state") && !calls.contains("--ticks-per-us"), "{calls}");
    // The manual page has all of them.
    let folder = Folder::new();
    folder.run("man --dir pages").ends(0, &[]);
    let page = std::fs::read_to_string(folder.path("pages/tracemill-report.1")).expect("it was written");
    assert!(page.contains("\\-\\-percentiles") && page.contains("\\-\\-state"));
}

#[test]
fn options_for_live_sessions_have_a_page() {
    for command in ["info", "print", "convert", "report"] {
        let [page, help] = ["--help live", "--help"].map(|help| stdout(&format!("{command} {help}"), &[]));
        assert!(page.contains("--from-beginning") && page.contains("--patience"), "{page}");
        assert!(!page.contains("--strict") && !page.contains("--begin "), "{page}");
        assert!(!help.contains("--from-beginning"), "{help}");
        assert!(help.contains(&format!("`tracemill {command} --help live`")), "{help}");
    }
}

#[test]
fn formats_that_are_not_built_in_are_named() {
    let formats = stdout("formats", &[]);
    let parquet = formats.lines().find(|line| line.starts_with("parquet")).expect("it is listed");
    assert_eq!(parquet.contains("not in this build"), !cfg!(feature = "columnar"), "{parquet}");
    assert!(formats.lines().any(|line| line.starts_with("gist ") && !line.contains("CPEL")));
}

#[test]
fn an_analysis_has_a_page_of_its_own() {
    let page = stdout("analyze cpu --help", &[]);
    for text in
        ["--by thread (default), process, cpu", "time_us (time_ns)", "share_pct (share)", "Needs events of switch"]
    {
        assert!(page.contains(text), "`{text}` is not in {page}");
    }
    assert_eq!(stdout("help analyze cpu", &[]), page);
    assert_eq!(stdout("analyze --help cpu", &[]), page);
    assert!(stdout("analyze cpu,path -h", &[]).contains("`path`: the critical path"));
    assert!(stdout("analyze --help periods", &[]).contains("--period-begin"));
}
