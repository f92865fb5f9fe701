//! The examples that the help of each command begins with: they stand there, and they run.

mod util;

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use util::{Folder, demo, stdout};

/// Commands of the help of the program, and whether this build has them.
fn commands() -> Vec<(String, bool)> {
    let help = stdout("--help", &[]);
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let (list, _) = list.split_once("\n\n").expect("an end of the list");
    let lines = list.lines().filter(|line| !line.starts_with("   ") && !line.trim().is_empty());
    let mut found = Vec::new();
    for line in lines {
        let (name, about) = line.trim().split_once(' ').expect("a name and what it is");
        found.push((name.to_string(), about.to_string()));
    }
    // A description may go on below, and so may its mark.
    let is_there = |name: &str| {
        let (_, behind) = list.split_once(&format!("  {name} ")).expect("it is listed");
        let own = behind.split("\n  ").take_while(|part| part.starts_with(' ') || behind.starts_with(part));
        !own.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ").contains("(not in this build)")
    };
    found.iter().map(|(name, _)| (name.clone(), is_there(name))).collect()
}

/// The examples in the help of a command.
fn examples(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nExamples:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    lines.map(str::trim).filter(|line| !line.starts_with('#')).map(str::to_string).collect()
}

/// A folder with what the examples name.
fn folder() -> Folder {
    let folder = Folder::new();
    let link = |from: &str, to: &str| {
        let from = std::fs::canonicalize(demo(from)).expect("the demo is there");
        std::os::unix::fs::symlink(from, folder.path(to)).expect("a link");
    };
    link("mill", "my-trace");
    link("orders", "other-trace");
    link("../kernel/bakery", "kernel-trace");
    link("../calls/tasting", "uftrace.data");
    link("../calls/tasting", "other.data");
    link("../samples/bakery.data", "perf.data");
    folder.file("question.sql", "select name, count(*) from events group by name;\n");
    folder.file("stacks.txt", "main;parse 10\nmain 5\n");
    folder
}

/// A shell in a folder that knows the program, in a group of its own.
fn shell(line: &str, folder: &Folder) -> Child {
    use std::os::unix::process::CommandExt as _;
    let program = Path::new(env!("CARGO_BIN_EXE_tracemill")).parent().expect("a folder");
    let path = std::env::join_paths(
        std::iter::once(program.to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    Command::new("bash")
        .args(["-c", line])
        .current_dir(folder.path("."))
        .env("PATH", path.expect("a path"))
        .env("XDG_CACHE_HOME", folder.path("cache"))
        // No browser is opened: the program finds none.
        .env("BROWSER", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("bash starts")
}

/// Ends a shell and all that it started.
fn end(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-TERM", "--", &group]).status();
}

/// Status and messages of a line; no status where it goes on until it is ended.
fn run(line: &str, folder: &Folder, lasts: bool) -> (Option<i32>, String) {
    let mut child = shell(line, folder);
    let mut pipes = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    let messages = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = pipes.1.read_to_string(&mut text);
        text
    });
    let output = std::thread::spawn(move || std::io::copy(&mut pipes.0, &mut std::io::sink()));
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().expect("it can be waited for") {
            Some(status) => break status.code(),
            // Two seconds are enough to fail in, if it fails.
            None if lasts && begin.elapsed() > Duration::from_secs(2) => {
                end(&mut child);
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let _ = output.join();
    (status, messages.join().unwrap_or_default())
}

#[test]
fn each_command_begins_with_examples() {
    for (command, _) in commands() {
        let help = stdout(&format!("{command} --help"), &[]);
        let examples = examples(&help);
        assert!((3..=6).contains(&examples.len()), "{command} has {} examples: {help}", examples.len());
        let [before, usage] = ["\nExamples:\n", "\nUsage: "].map(|text| help.find(text).expect("it is there"));
        assert!(before < usage, "{command}: {help}");
    }
    let folder = Folder::new();
    folder.run("man --dir pages").ends(0, &[]);
    for (command, _) in commands() {
        let page = std::fs::read_to_string(folder.path(&format!("pages/tracemill-{command}.1"))).expect("a page");
        let [examples, options] = [".SH EXAMPLES", ".SH DESCRIPTION"].map(|head| page.find(head).expect("a section"));
        assert!(examples < options, "{command}");
    }
}

/// Commands that end when somebody ends them, and a terminal that a test does not have.
const LASTING: [&str; 3] = ["tracemill view ", "tracemill cluster ", "tracemill recv "];

#[test]
fn examples_run() {
    let mut count = 0;
    for (command, is_there) in commands() {
        if !is_there {
            continue;
        }
        let folder = folder();
        for line in examples(&stdout(&format!("{command} --help"), &[])) {
            if line.contains("tracemill record ") || line.contains("--cluster ") || line.contains("--allow /traces") {
                // `record_examples_run`, and the tests of clusters: an executor needs a scheduler, and that folder.
                continue;
            }
            let lasts = LASTING.iter().any(|begin| line.starts_with(begin));
            let (status, messages) = run(&line, &folder, lasts);
            count += 1;
            if line.starts_with("tracemill tui ") && !line.contains("--plain") {
                assert!(status == Some(1) && messages.contains("no terminal"), "{line}: {status:?} {messages}");
            } else if lasts {
                assert!(status.is_none(), "`{line}` ended with {status:?}: {messages}");
            } else if line.contains("tracemill diff ") && status == Some(4) {
                assert_eq!(messages, "", "{line}");
            } else {
                assert!(status == Some(0), "`{line}` ended with {status:?}: {messages}");
            }
        }
    }
    assert!(count > 40, "{count} examples");
}

#[test]
fn record_examples_run() {
    let source = "#include <stdio.h>\nint parse(int n) { return n + 1; }\n\
        int main(void) { int n = 0; for (int at = 0; at < 5; at++) n = parse(n); return n != 5; }\n";
    for line in examples(&stdout("record --help", &[])) {
        let folder = Folder::new();
        folder.file("program.c", source);
        let built = run("cc -pg -g -O0 -o program program.c", &folder, false);
        assert_eq!(built.0, Some(0), "{}", built.1);
        let (status, messages) = run(&line, &folder, false);
        if line.contains("-E ") || line.contains("--sample") {
            // The kernel may be out of reach here, or the process over already; then one sentence says how to reach it.
            assert!(status == Some(0) || status == Some(125) && messages.lines().count() <= 3, "{line}: {messages}");
        } else {
            assert_eq!(status, Some(0), "`{line}`: {messages}");
        }
    }
}

#[test]
fn the_program_alone_says_what_to_type() {
    let run = Command::new(env!("CARGO_BIN_EXE_tracemill")).output().expect("it starts");
    assert_eq!((run.status.code(), &*run.stdout), (Some(2), &b""[..]));
    let text = String::from_utf8(run.stderr).expect("text");
    assert!(text.lines().count() < 20 && text.contains("tracemill help"), "{text}");
    let known: Vec<String> = commands().into_iter().map(|(name, _)| name).collect();
    let mut count = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("    tracemill ")) {
        let name = line.split_whitespace().next().expect("a command");
        assert!(known.iter().any(|own| own == name), "{name}");
        count += 1;
    }
    assert!(count >= 5, "{text}");
}
