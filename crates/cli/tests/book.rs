//! The guide (`docs/book`) and the README: every command in them is run, and prints what the page shows.
//!
//! A block whose first word is `console` holds commands and their output. A line that begins with `$ ` is a command, and
//! lines that begin with `> ` continue it; the other lines are its output, standard output first. More words of the block:
//!
//! | word | meaning |
//! |---|---|
//! | `status=N` | the exit status of its last command; that of all others is 0 |
//! | `width=N` | longer lines of the output are cut there, and end with ` ...` |
//! | `shape` | numbers differ from run to run: only the text between them is compared |
//! | `sql`, `columnar` | needs this feature; other builds leave the block out |
//! | `needs=TOOL` | left out where TOOL is not installed; in CI that is a failure |
//! | `not-run REASON` | cannot be run by a test; only the names of commands and options are checked |
//!
//! A line `...` stands for any number of lines. Commands in tables (`` `tracemill print TRACE` ``) are run too: a comment
//! `<!-- TRACE=demo/traces/mill -->` above the table says what the words in capitals stand for.
//!
//! `TRACEMILL_BLESS=1 cargo test -p tracemill-cli --features full --test book` writes the outputs again.
#![cfg(unix)]

mod util;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use util::{Folder, stdout};

/// Blocks that no test runs: a book whose examples are mostly of this kind would be untested.
const MOST_BLOCKS_NOT_RUN: usize = 23;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// The README and the pages of the guide.
fn pages() -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![root().join("docs/book")], vec![root().join("README.md")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the guide") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The name of a page in messages.
fn shown(page: &Path) -> String {
    page.strip_prefix(root()).unwrap_or(page).display().to_string()
}

/// A fenced block: the words after its fence, and its lines.
struct Block {
    info: String,
    lines: Range<usize>,
}

impl Block {
    fn is_console(&self) -> bool {
        self.info.split(' ').next() == Some("console")
    }

    fn has(&self, word: &str) -> bool {
        self.info.split(' ').any(|known| known == word)
    }

    fn number(&self, name: &str) -> Option<usize> {
        let word = self.info.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        Some(word.parse().expect("a number"))
    }

    /// Why no test runs it.
    fn reason(&self) -> Option<&str> {
        self.info.strip_prefix("console not-run").map(str::trim)
    }
}

fn blocks(lines: &[String]) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(String, usize)> = None;
    for (at, line) in lines.iter().enumerate() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        match open.take() {
            None => open = Some((info.trim().to_string(), at + 1)),
            Some((info, begin)) => found.push(Block { info, lines: begin..at }),
        }
    }
    assert!(open.is_none(), "a block has no end");
    found
}

/// A command of a block, as a shell takes it, the lines that show it, and those of its output.
struct Example {
    command: String,
    output: Range<usize>,
}

fn examples(lines: &[String], block: &Block) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    for at in block.lines.clone() {
        let line = &lines[at];
        if let Some(command) = line.strip_prefix("$ ") {
            found.push(Example { command: command.to_string(), output: at + 1..at + 1 });
            continue;
        }
        let example = found.last_mut().expect("a block of commands begins with one");
        match line.strip_prefix("> ").filter(|_| example.output.start == at) {
            Some(more) => {
                example.command += &format!("\n{more}");
                example.output = at + 1..at + 1;
            }
            None => example.output.end = at + 1,
        }
    }
    found
}

/// Runs the commands of a page in a shell that has the program on its path.
struct Shell {
    folder: Folder,
}

impl Shell {
    /// A folder with the demo traces, as in a clone.
    fn new() -> Self {
        let folder = Folder::new();
        fs::create_dir(folder.path("bin")).expect("a new folder");
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, folder.path(name)).expect("a link");
        link(Path::new(env!("CARGO_BIN_EXE_tracemill")), "bin/tracemill");
        fs::create_dir(folder.path("clone")).expect("a new folder");
        link(&root().join("demo"), "clone/demo");
        Shell { folder }
    }

    fn run(&self, command: &str) -> (Option<i32>, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.folder.path("clone"))
            .env("PATH", format!("{}:{path}", self.folder.path("bin").display()))
            // Examples do not depend on the time zone of their reader.
            .env("TZ", "Asia/Kolkata")
            .env("HOME", self.folder.path(""))
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .output()
            .expect("a shell starts");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    }
}

/// The lines of an output as a block shows them.
fn cut(output: &str, width: Option<usize>) -> Vec<String> {
    let cut = |line: &str| match width {
        Some(width) if line.chars().count() > width => {
            let begin: String = line.chars().take(width).collect();
            format!("{} ...", begin.trim_end())
        }
        _ => line.trim_end().to_string(),
    };
    output.lines().map(cut).collect()
}

/// A line without its numbers and the blanks around them.
fn shape(line: &str) -> String {
    let text = line.replace(|c: char| c.is_ascii_digit() || ".,".contains(c), " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fits(want: &[String], have: &[String], is_shape: bool) -> bool {
    let same = |a: &String, b: &String| if is_shape { shape(a) == shape(b) } else { a == b };
    let all = |want: &[String], have: &[String]| want.iter().zip(have).all(|(a, b)| same(a, b));
    let mut parts = want.split(|line| line == "...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = have.get(first.len()..).filter(|_| all(first, have)) else { return false };
    let mut parts: Vec<&[String]> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = (0..=rest.len().saturating_sub(part.len())).find(|at| all(part, &rest[*at..])) else {
            return false;
        };
        let Some(after) = rest.get(at + part.len()..) else { return false };
        rest = after;
    }
    rest.len() >= last.len() && all(last, &rest[rest.len() - last.len()..])
}

/// The lines of an output with as many left out as before: those before the first `...` and after the last one are shown.
fn anew(want: &[String], have: &[String]) -> Vec<String> {
    let Some(first) = want.iter().position(|line| line == "...") else { return have.to_vec() };
    let last = want.len() - 1 - want.iter().rposition(|line| line == "...").unwrap_or(first);
    if have.len() <= first + last {
        return have.to_vec();
    }
    let gap = ["...".to_string()];
    have[..first].iter().chain(&gap).chain(&have[have.len() - last..]).cloned().collect()
}

fn is_installed(tool: &str) -> bool {
    let mut command = Command::new(tool);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Can this build and this machine run a block?
fn can_run(block: &Block) -> bool {
    let lacks_feature =
        block.has("sql") && !cfg!(feature = "sql") || block.has("columnar") && !cfg!(feature = "columnar");
    let tool = block.info.split(' ').find_map(|word| word.strip_prefix("needs="));
    let lacks_tool = tool.is_some_and(|tool| {
        let is_missing = !is_installed(tool);
        assert!(!is_missing || std::env::var("CI").as_deref() != Ok("true"), "{tool} is not installed");
        is_missing
    });
    block.reason().is_none() && !lacks_feature && !lacks_tool
}

#[test]
fn commands_print_what_the_pages_show() {
    let is_blessing = std::env::var_os("TRACEMILL_BLESS").is_some();
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        let mut outputs: BTreeMap<usize, (Range<usize>, Vec<String>)> = BTreeMap::new();
        // The commands of a page follow each other in one folder, so that one may use the file that another wrote.
        let shell = Shell::new();
        for block in blocks(&lines).iter().filter(|block| block.is_console()) {
            if !can_run(block) {
                continue;
            }
            let examples = examples(&lines, block);
            let last = examples.len() - 1;
            for (at, example) in examples.into_iter().enumerate() {
                let status = block.number("status").filter(|_| at == last).unwrap_or(0);
                let (code, output) = shell.run(&example.command);
                let have = cut(&output, block.number("width"));
                let want = &lines[example.output.clone()];
                let place = format!("{}:{}: {}", shown(&page), example.output.start, example.command);
                assert_eq!(code, i32::try_from(status).ok(), "{place}\n{output}");
                count += 1;
                if fits(want, &have, block.has("shape")) {
                    continue;
                }
                if is_blessing {
                    outputs.insert(example.output.start, (example.output, anew(want, &have)));
                } else {
                    wrong.push(format!("{place}\nprints:\n{}", have.join("\n")));
                }
            }
        }
        let mut blessed = lines;
        for (range, output) in outputs.into_values().rev() {
            blessed.splice(range, output);
        }
        if is_blessing {
            fs::write(&page, blessed.join("\n") + "\n").expect("the page can be written");
        }
    }
    let again = "TRACEMILL_BLESS=1 cargo test -p tracemill-cli --features full --test book writes the outputs anew";
    assert!(wrong.is_empty(), "{}\n\n{again}", wrong.join("\n\n"));
    assert!(count > 80, "{count} commands");
}

/// The values of the words in capitals: `<!-- TRACE=demo/traces/mill DIR=demo/calls/tasting -->`.
fn stand_ins(line: &str) -> Option<HashMap<String, String>> {
    let words = line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    words.split_whitespace().map(|word| word.split_once('=').map(|(a, b)| (a.to_string(), b.to_string()))).collect()
}

/// The commands between backquotes in a line.
fn inline_commands(line: &str) -> impl Iterator<Item = String> {
    let pieces = line.split('`').skip(1).step_by(2);
    // A bar between the cells of a table is escaped.
    pieces.filter(|piece| piece.starts_with("tracemill ")).map(|piece| piece.replace("\\|", "|"))
}

/// Asserts that the commands of the program in a line, and their options, exist. `known` is a completion script, which has
/// all of them.
fn check_names(place: &str, line: &str, known: &str) {
    for part in line.split(['|', ';', '\n']).map(|part| part.trim_start_matches("sudo ").trim()) {
        let Some(words) = part.strip_prefix("tracemill ") else { continue };
        let Some(command) = words.split_whitespace().next().filter(|word| !word.starts_with(['-', '<'])) else {
            continue;
        };
        if command == "cluster" {
            continue;
        }
        let is_of = ["\"", ";"].map(|end| format!("__fish_tracemill_using_subcommand {command}{end}"));
        let options: Vec<&str> = known.lines().filter(|line| is_of.iter().any(|is_of| line.contains(is_of))).collect();
        assert!(!options.is_empty(), "{place}: there is no `tracemill {command}`");
        if matches!(command, "sql" | "query") && !cfg!(feature = "sql") {
            continue;
        }
        let used = words.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        for option in used.map(|word| word.split('=').next().unwrap_or(word)).filter(|word| !word.is_empty()) {
            let is_known = options.iter().any(|line| line.contains(&format!(" -l {option} ")));
            assert!(is_known, "{place}: `tracemill {command}` has no --{option}");
        }
    }
}

/// Commands that do not end by themselves, or need rights that a test lacks.
const WITHOUT_END: [&str; 7] = ["recv", "view", "tui", "record", "cluster", "cache", "man"];

#[test]
fn commands_in_tables_and_texts_run() {
    let known = stdout("completions fish", &[]);
    let (mut run, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        let blocks = blocks(&lines);
        let (shell, mut words) = (Shell::new(), HashMap::new());
        for (at, line) in lines.iter().enumerate() {
            let place = format!("{}:{}", shown(&page), at + 1);
            if let Some(found) = stand_ins(line) {
                words = found;
            }
            if blocks.iter().any(|block| block.lines.contains(&at)) {
                continue;
            }
            for command in inline_commands(line) {
                check_names(&place, &command, &known);
                let is_table = line.starts_with('|');
                let name = command.split_whitespace().nth(1).unwrap_or_default();
                let lacks = matches!(name, "sql" | "query") && !cfg!(feature = "sql")
                    || command.contains("--to parquet") && !cfg!(feature = "columnar");
                if !is_table || WITHOUT_END.contains(&name) || lacks || command.contains("...") {
                    continue;
                }
                let filled: Vec<&str> =
                    command.split(' ').map(|word| words.get(word).map_or(word, String::as_str)).collect();
                let (code, output) = shell.run(&filled.join(" "));
                if code != Some(0) {
                    wrong.push(format!("{place}: {command}\n{output}"));
                }
                run += 1;
            }
        }
        for block in blocks.iter().filter(|block| block.is_console()) {
            for example in examples(&lines, block) {
                let place = format!("{}:{}", shown(&page), example.output.start);
                check_names(&place, &example.command, &known);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run > 60, "{run} commands");
}

/// Commands of the other pages: those on the demo run, and the names in all of them exist.
#[test]
fn commands_of_the_reference_run() {
    let known = stdout("completions fish", &[]);
    let folders = ["docs", "docs/convert", "demo"].map(|folder| root().join(folder));
    let (mut named, mut run, mut wrong) = (0, 0, Vec::new());
    for folder in folders {
        let entries = fs::read_dir(folder).expect("a folder of pages").map(|entry| entry.expect("an entry").path());
        for page in entries.filter(|path| path.extension().is_some_and(|end| end == "md")) {
            let text = fs::read_to_string(&page).expect("a page");
            let shell = Shell::new();
            for (line, number) in text.lines().zip(1..) {
                let Some(command) = line.strip_prefix("    tracemill ") else { continue };
                let command = format!("tracemill {}", command.split(" # ").next().unwrap_or_default().trim());
                let place = format!("{}:{number}", shown(&page));
                check_names(&place, &command, &known);
                named += 1;
                let name = command.split(' ').nth(1).unwrap_or_default();
                let lacks = command.contains("--to parquet") && !cfg!(feature = "columnar");
                if !command.contains("demo/") || WITHOUT_END.contains(&name) || lacks {
                    continue;
                }
                let (code, output) = shell.run(&command);
                run += 1;
                if code != Some(0) {
                    wrong.push(format!("{place}: {command}\n{output}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(named > 50 && run > 20, "{named} commands, {run} run");
}

/// A command of the guide is in a block that is run, or says why not.
#[test]
fn no_command_hides_from_the_test() {
    let mut reasons = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        let blocks = blocks(&lines);
        for block in &blocks {
            match block.reason() {
                Some(reason) => {
                    let words = reason.split_whitespace().count();
                    assert!(words >= 3, "{}: `{}` gives no reason", shown(&page), block.info);
                    reasons.push(reason.to_string());
                }
                None if block.is_console() => {}
                None => {
                    let has_command = lines[block.lines.clone()].iter().any(|line| {
                        line.trim_start_matches("$ ").trim_start_matches("sudo ").starts_with("tracemill ")
                    });
                    assert!(!has_command, "{}:{}: a block `console` is run", shown(&page), block.lines.start);
                }
            }
        }
        let is_readme = page.ends_with("README.md");
        for (at, line) in lines.iter().enumerate() {
            let is_in_block = blocks.iter().any(|block| block.lines.contains(&at));
            let is_indented = line.starts_with("    tracemill ") || line.starts_with("    $ tracemill ");
            assert!(is_in_block || is_readme || !is_indented, "{}:{}: use a block", shown(&page), at + 1);
        }
    }
    assert!(reasons.len() <= MOST_BLOCKS_NOT_RUN, "{} blocks are not run: {reasons:#?}", reasons.len());
}

#[test]
fn outputs_are_compared_line_by_line() {
    let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
    let (have, gap) = (lines("a 1\nb 2\nc 3\nd 4"), "...");
    for (want, is_shape, expected) in [
        ("a 1\nb 2\nc 3\nd 4", false, true),
        ("a 1\nb 2\nc 3", false, false),
        ("a 1\nb 2\nc 3\nd 5", false, false),
        ("a 9\nb 2\nc 3\nd 5.5", true, true),
        ("a 9\nb 2\nc 3\ne 5", true, false),
        ("a 1\n...\nd 4", false, true),
        ("a 1\n...\nc 3", false, false),
        ("...\nc 3\n...", false, true),
        ("...\nc 4\n...", false, false),
        ("a 1\nb 2\nc 3\nd 4\n...\nd 4", false, false),
    ] {
        assert_eq!(fits(&lines(want), &have, is_shape), expected, "{want}");
    }
    assert_eq!(anew(&lines("x\n...\ny"), &have), ["a 1", gap, "d 4"]);
    assert_eq!(anew(&lines("x"), &have), have);
    assert_eq!(cut("abcdef\nabc", Some(4)), ["abcd ...", "abc"]);
}

/// The sentences of a page: its paragraphs and lists, without code, tables and headings.
fn sentences(text: &str) -> Vec<String> {
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    let blocks = blocks(&lines);
    let mut paragraphs = vec![String::new()];
    for (at, line) in lines.iter().enumerate() {
        let is_code = blocks.iter().any(|block| block.lines.contains(&at)) || line.starts_with("    ");
        let is_text = !is_code && !line.trim_start().starts_with(['#', '|', '<', '`', '!']);
        let begins = !is_text || line.trim().is_empty() || line.trim_start().starts_with("- ");
        if begins {
            paragraphs.push(String::new());
        }
        if is_text {
            let paragraph = paragraphs.last_mut().expect("there is one");
            *paragraph += line.trim();
            paragraph.push(' ');
        }
    }
    let ends = |paragraph: &String| {
        let mut found = vec![String::new()];
        for word in paragraph.split_whitespace().filter(|word| *word != "-") {
            let sentence = found.last_mut().expect("there is one");
            *sentence += word;
            sentence.push(' ');
            // A number or a dot inside of a word ends no sentence.
            if word.trim_end_matches([')', '*', '_', '"']).ends_with(['.', '?', '!', ':']) {
                found.push(String::new());
            }
        }
        found
    };
    // Shorter ones are labels and links.
    paragraphs.iter().flat_map(ends).filter(|sentence| sentence.split_whitespace().count() > 2).collect()
}

/// Pages for users next to the guide.
const REFERENCE: [&str; 17] = [
    "CHANGELOG.md",
    "demo/README.md",
    "docs/analyze.md",
    "docs/calls.md",
    "docs/cli.md",
    "docs/convert.md",
    "docs/diff.md",
    "docs/filters.md",
    "docs/jsonl.md",
    "docs/packed.md",
    "docs/python.md",
    "docs/record.md",
    "docs/report.md",
    "docs/samples.md",
    "docs/sql.md",
    "docs/tui.md",
    "docs/view.md",
];

#[test]
fn sentences_are_short() {
    let words = |sentence: &String| sentence.split_whitespace().count();
    let mut all = Vec::new();
    for page in pages().iter().filter(|page| page.file_stem().is_none_or(|name| name != "SUMMARY")) {
        let found = sentences(&fs::read_to_string(page).expect("a page"));
        let longest = found.iter().max_by_key(|sentence| words(sentence)).cloned().unwrap_or_default();
        assert!(words(&longest) <= 45, "{}: {longest}", shown(page));
        all.extend(found.iter().map(words));
    }
    let mean = all.iter().sum::<usize>() as f64 / all.len() as f64;
    assert!(all.len() > 200, "{} sentences", all.len());
    assert!(mean < 18.0, "a sentence has {mean:.1} words");
    // The reference, page by page: it has rules, which may need a long sentence.
    for page in REFERENCE {
        let found = sentences(&fs::read_to_string(root().join(page)).expect("a page"));
        let mean = found.iter().map(words).sum::<usize>() as f64 / found.len() as f64;
        assert!(mean < 18.0, "{page}: a sentence has {mean:.1} words");
    }
}

/// A visitor decides on the first screen; the commands there are the ones that a clone is tried with.
#[test]
fn the_readme_is_short_and_begins_with_what_to_type() {
    let text = fs::read_to_string(root().join("README.md")).expect("the page");
    assert!(text.lines().count() < 200, "{} lines", text.lines().count());
    let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("    cargo ")).collect();
    assert!(commands[0].starts_with("run --release -- print demo "), "{commands:?}");
    assert!(commands[1].starts_with("test --workspace "), "{commands:?}");
}

/// Figures of speed are those of the raw results that stand next to them.
#[test]
fn figures_of_the_readme_are_measured() {
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(root().join("bench/results").join(name)).expect("raw results");
        serde_json::from_str(&text).expect("results are JSON")
    };
    let ours = read("2026-11-21-linux-x86_64-2cpu.json");
    let calls = read("2026-11-22-linux-x86_64-2cpu-uftrace.json");
    let rows = |results: &Value| results["rows"].as_array().expect("rows").clone();
    let row = |name: &str| {
        let row = rows(&ours).into_iter().find(|row| row["row"] == name).expect("a row");
        row["result"].as_f64().expect("a ratio")
    };
    let command = |name: &str| {
        let row = rows(&calls).into_iter().find(|row| row["command"] == name).expect("a command");
        row["uftrace_s"].as_f64().expect("seconds") / row["tracemill_s"].as_f64().expect("seconds")
    };
    let three = ["report", "graph", "dump"].map(command);
    let (least, most) = (three.into_iter().fold(f64::MAX, f64::min), three.into_iter().fold(0.0, f64::max));
    let readme = fs::read_to_string(root().join("README.md")).expect("the page");
    for (what, figure) in [
        ("count events", format!("{:.1} times", row("4a"))),
        ("filter selects", format!("{:.1} times", row("4b"))),
        ("print all events as text", format!("{:.1} times", row("3a"))),
        ("encode every field again", format!("{:.1} times", row("20i"))),
        ("`replay`, against", format!("{:.1} times", command("replay"))),
        ("`report`, `graph`, `dump`, against", format!("{least:.1} to {most:.1} times")),
        ("`dump --flame-graph`", format!("{:.1} times", command("dump --flame-graph"))),
    ] {
        let line =
            readme.lines().find(|line| line.starts_with('|') && line.contains(what)).expect("a row of the table");
        assert!(line.contains(&format!("| {figure} |")), "{line}: {figure}");
    }
}
