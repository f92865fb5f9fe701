//! The walls of ARCHITECTURE.md, held by looking at what cargo and the sources say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates that each crate may use, itself not named. A crate that is not here is a mistake of this list.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("codec", &["model"]),
    ("columns", &["codec", "model"]),
    ("referee", &["codec", "model"]),
    ("table", &["codec"]),
    ("semantics", &["codec", "model"]),
    ("format", &["semantics", "codec", "model"]),
    ("ring", &[]),
    ("record", &["ring"]),
    ("record-c", &["record"]),
    ("preload", &[]),
    ("run", &["record", "ring"]),
    ("kernel", &["ftrace", "codec", "model"]),
    ("sample", &["perf", "model"]),
    ("ctf", &["ring", "format", "semantics", "codec", "model"]),
    ("lttng", &["format", "semantics", "codec", "model"]),
    ("cpel", &["format", "semantics", "codec", "model"]),
    ("ftrace", &["format", "semantics", "codec", "model"]),
    ("perf", &["ftrace", "format", "semantics", "codec", "model"]),
    ("uftrace", &["perf", "ftrace", "format", "semantics", "codec", "model"]),
    ("jsonl", &["format", "semantics", "codec", "model"]),
    ("chrome", &["format", "semantics", "codec", "model"]),
    ("profile", &["format", "semantics", "codec", "model"]),
    ("perfetto", &["format", "semantics", "codec", "model"]),
    ("ftrace-text", &["format", "semantics", "codec", "model"]),
    (
        "formats",
        &[
            "ctf",
            "lttng",
            "cpel",
            "ftrace",
            "ftrace-text",
            "perf",
            "uftrace",
            "jsonl",
            "chrome",
            "perfetto",
            "profile",
            "format",
        ],
    ),
    ("engine", &["ring", "format", "semantics", "codec", "model"]),
    ("render", &["engine", "format", "semantics", "codec", "model"]),
    ("debug-info", &["render", "engine", "format", "semantics", "codec", "model"]),
    ("columnar", &["columns", "engine", "format", "semantics", "codec", "model"]),
    ("export", &["columnar", "engine", "format", "semantics", "codec", "model"]),
    ("calls", &["engine", "format", "semantics", "codec", "model"]),
    ("analyses", &["table", "engine", "format", "semantics", "codec", "model"]),
    ("live", &["ctf", "ftrace", "ring", "engine", "format", "codec", "model"]),
    ("lod", &["calls", "engine", "format", "semantics", "codec", "model"]),
    ("page", &[]),
    ("answers", &["page", "lod", "calls", "analyses", "render", "engine", "semantics", "codec", "model"]),
    ("server", &["page", "answers", "lod", "render", "engine", "codec", "model"]),
    ("tui", &["answers", "lod", "render", "engine", "codec", "model"]),
    ("sql", &["analyses", "calls", "columns", "table", "engine", "format", "semantics", "codec", "model"]),
    ("cluster", &["sql", "engine", "format", "codec", "model"]),
    (
        "python",
        &[
            "cluster",
            "sql",
            "analyses",
            "debug-info",
            "render",
            "formats",
            "engine",
            "format",
            "semantics",
            "codec",
            "model",
        ],
    ),
];

/// Crates that may use every other one, but not each other, save `cli`, which may use the library too.
const TOPS: &[&str] = &["tracemill", "cli"];

/// Crates that build heavy dependencies: only features that are off by default may lead to them.
const HEAVY: &[&str] = &["columnar", "columns", "sql", "python"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The only crate that serves a page, and the libraries it uses for that: the terminal, and a page in one file, link
/// none of them.
const WEB: (&str, &[&str]) = ("server", &["axum", "hyper", "tokio", "tower"]);

/// A dependency of one crate of the workspace on another.
#[derive(Clone, Debug)]
struct Arrow {
    to: String,
    is_optional: bool,
}

/// The crates of `crates/`, `python/` and `web/`, as cargo lists them.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]).current_dir(root());
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages").iter();
    let is_of_product = |package: &&Value| {
        let path = text(&package["manifest_path"]);
        path.contains("/crates/") || ["/python/Cargo.toml", "/web/Cargo.toml"].iter().any(|end| path.ends_with(end))
    };
    packages.filter(is_of_product).cloned().collect()
}

/// The dependencies of a package outside of its tests.
fn dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    let all = package["dependencies"].as_array().expect("a list of dependencies").iter();
    all.filter(|dependency| dependency["kind"] != "dev")
}

/// The other crates of the workspace that each uses outside of its tests.
fn arrows() -> BTreeMap<String, Vec<Arrow>> {
    let mut arrows = BTreeMap::new();
    for package in packages() {
        let own = dependencies(&package).filter(|dependency| dependency["path"].is_string());
        let own = own.map(|dependency| Arrow {
            to: short(&text(&dependency["name"])),
            is_optional: dependency["optional"] == true,
        });
        arrows.insert(short(&text(&package["name"])), own.collect());
    }
    arrows
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

/// The name of a crate without the project's.
fn short(name: &str) -> String {
    name.strip_prefix("tracemill-").unwrap_or(name).to_string()
}

#[test]
fn crates_use_only_the_crates_below_them() {
    for (from, to) in arrows() {
        if TOPS.contains(&from.as_str()) {
            let above = to.iter().find(|arrow| arrow.to == "cli");
            assert!(above.is_none(), "{from} uses the program");
            continue;
        }
        let allowed = ARROWS.iter().find(|(name, _)| *name == from);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("`{from}` has no line in ARROWS"));
        for arrow in to {
            assert!(allowed.contains(&arrow.to.as_str()), "{from} -> {} is not in ARCHITECTURE.md", arrow.to);
        }
    }
}

/// A crate, and all crates of the workspace that it cannot be built without.
fn reached(from: &str) -> BTreeSet<String> {
    let arrows = arrows();
    let mut reached = BTreeSet::new();
    let mut open = vec![from.to_string()];
    while let Some(from) = open.pop() {
        if reached.insert(from.clone()) {
            open.extend(arrows[&from].iter().filter(|arrow| !arrow.is_optional).map(|arrow| arrow.to.clone()));
        }
    }
    reached
}

#[test]
fn a_terminal_links_no_web_server() {
    let (server, web) = WEB;
    let packages = packages();
    let uses = |name: &str| {
        let package = packages.iter().find(|package| short(&text(&package["name"])) == name);
        let used = dependencies(package.expect("a crate")).map(|dependency| text(&dependency["name"]));
        used.filter(|used| web.contains(&used.as_str())).collect::<Vec<String>>()
    };
    assert!(uses(server).len() > 1, "{server} is built with something else");
    // `html` is a module of `answers`.
    for top in ["tui", "answers"] {
        for name in reached(top) {
            assert!(name != server && uses(&name).is_empty(), "{top} links {name}, with {:?}", uses(&name));
        }
    }
}

#[test]
fn the_program_builds_without_heavy_crates() {
    let reached = reached("cli");
    // Formats are features, too; those of the registry are on by default.
    assert!(reached.contains("formats") && reached.contains("engine"), "{reached:?}");
    assert!(HEAVY.iter().all(|heavy| !reached.contains(*heavy)), "{reached:?}");
}

/// Crates that only run where programs can be recorded.
const RECORDERS: &[&str] = &["record", "run", "kernel", "sample", "preload"];

#[test]
fn traces_are_read_without_a_recorder() {
    for top in ["cli", "tracemill", "sql", "server", "tui", "python"] {
        let reached = reached(top);
        assert!(RECORDERS.iter().all(|recorder| !reached.contains(*recorder)), "{top}: {reached:?}");
    }
}

/// Crates that reach files only through a `Storage` or a `Sink`.
const WITHOUT_FILES: &[&str] =
    &["model", "codec", "semantics", "columns", "table", "format", "formats", "render", "export", "columnar", "sql"];

/// Names by which Rust reaches files, the environment and other processes.
const OUTSIDE: &[&str] = &["std::fs", "std::env", "std::process", "fs::", "File::"];

/// Adds the Rust files below a folder that are no tests.
fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !["tests", "target"].contains(&name.as_str()) {
            add_sources(&path, files);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            files.push(path);
        }
    }
}

/// The product's lines of a source file, with their numbers: its tests stand last.
fn product(path: &Path) -> Vec<(usize, String)> {
    let text = std::fs::read_to_string(path).expect("sources are text");
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    product.lines().enumerate().map(|(at, line)| (at + 1, line.to_string())).collect()
}

/// Does a line of code say a name, and not as the end of another one?
fn says(line: &str, name: &str) -> bool {
    let code = line.trim_start();
    let is_whole = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    !code.starts_with("//") && code.match_indices(name).any(|(at, _)| is_whole(at))
}

#[test]
fn files_are_reached_from_the_engine_up() {
    let mut files = Vec::new();
    WITHOUT_FILES.iter().for_each(|name| add_sources(&root().join("crates").join(name), &mut files));
    assert!(files.len() > 200, "{} files", files.len());
    for path in files {
        for (at, line) in product(&path) {
            let outside = OUTSIDE.iter().find(|name| says(&line, name));
            assert!(outside.is_none(), "{}:{at}: {line}", path.display());
        }
    }
    assert!(says("use std::fs::File;", "std::fs") && says("File::open(path)", "File::"));
    assert!(!says("DefinitionFile::parse(text)", "File::") && !says("/// std::fs", "std::fs"));
}

#[test]
fn sessions_are_opened_by_requests() {
    let mut files = Vec::new();
    add_sources(&root().join("crates"), &mut files);
    add_sources(&root().join("python"), &mut files);
    assert!(files.len() > 600, "{} files", files.len());
    let opens = |line: &String| says(line, "Session::open");
    let callers = files.iter().filter(|path| product(path).iter().any(|(_, line)| opens(line)));
    let callers: Vec<_> = callers.map(|path| path.strip_prefix(root()).unwrap_or(path)).collect();
    assert_eq!(callers, [Path::new("crates/engine/src/request.rs")]);
}

/// Crates that know no format and no event: all but the formats, the registry and `semantics`.
const WITHOUT_NAMES: &[&str] = &[
    "model",
    "codec",
    "columns",
    "table",
    "format",
    "engine",
    "render",
    "export",
    "columnar",
    "calls",
    "analyses",
    "sql",
    "tracemill",
    "cli",
];

/// Lines that may say such a name all the same: what the user types, not what a trace says.
const TYPED: &[&str] = &["TaskColumn::", "TaskGraphField::", "ReplayField::"];

/// Is a file one of those that make and show the tables of `analyze` and of queries, whose columns have names of their own?
fn is_analysis(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.contains("analyses/src/kernel/")
        || path.contains("crates/sql/src/")
        || path.contains("cli/src/") && path.contains("/analyze")
}

#[test]
fn names_of_formats_and_fields_stand_in_their_crates() {
    use tracemill_semantics::{Concept, Concepts, names};

    // Forms of lines are the printer's, and some outputs that others show can be read back.
    let is_form =
        |name: &&str| ["text", "csv", "jsonl", "chrome", "perfetto", "folded", "speedscope", "firefox"].contains(name);
    let targets = tracemill_formats::TARGETS.iter().flat_map(|target| target.names);
    let formats = tracemill_formats::FORMATS.iter().flat_map(|format| format.names).chain(targets);
    let fields = [names::THREAD, names::PROCESS, names::THREAD_NAME, names::FLOWS, names::ABOUT, &[names::CPU]];
    // Words of English, and of Chrome's trace events.
    let fields = fields.iter().copied().flatten().filter(|name| !name.starts_with("process"));
    fn quoted(name: impl std::fmt::Display) -> String {
        format!("\"{name}\"")
    }
    let formats: BTreeSet<String> = formats.filter(|name| !is_form(name)).map(quoted).collect();
    let names: BTreeSet<String> = formats.iter().cloned().chain(fields.map(quoted)).collect();
    assert!(names.contains("\"uftrace\"") && names.contains("\"vtid\""), "{names:?}");
    // Analyses of kernels name columns of their tables, which have the words of people; never an event.
    let concepts = Concept::ALL.iter().flat_map(|concept| Concepts::built_in().events(*concept));
    let events: BTreeSet<String> = formats.into_iter().chain(concepts.map(quoted)).collect();
    assert!(events.contains("\"sched_switch\""), "{events:?}");
    let mut files = Vec::new();
    WITHOUT_NAMES.iter().for_each(|name| add_sources(&root().join("crates").join(name).join("src"), &mut files));
    assert!(files.len() > 150, "{} files", files.len());
    for path in files {
        for (at, line) in product(&path) {
            let is_code = !line.trim_start().starts_with("//") && !TYPED.iter().any(|typed| line.contains(typed));
            let names = if is_analysis(&path) { &events } else { &names };
            let said = names.iter().find(|name| is_code && line.contains(name.as_str()));
            assert!(said.is_none(), "{}:{at}: {line}", path.display());
        }
    }
}
