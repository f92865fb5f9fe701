//! Shared by the tests of programs in C: the libraries, compilers and other tools, and traces that are read back.
#![allow(dead_code, reason = "every test file compiles this module and uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.canonicalize().expect("the workspace is there")
}

/// A folder that is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tracemill-record-c-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The folder with the two libraries, which are built first.
pub(crate) fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        build(&[]);
        built("debug")
    })
}

pub(crate) fn build(arguments: &[&str]) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet", "-p", "tracemill-record-c"]).args(arguments).current_dir(root());
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    assert!(cargo.status().expect("cargo runs").success(), "the library is built");
}

/// A folder with what was built.
pub(crate) fn built(name: &str) -> PathBuf {
    // This test is at target/debug/deps/.
    let program = std::env::current_exe().expect("this program");
    let folder = program.ancestors().nth(3).expect("the folder of what is built").join(name);
    assert!(folder.join("libtracemill_record.so").exists(), "{}", folder.display());
    folder
}

/// Is a tool there? Says so when it is not.
pub(crate) fn has(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("!!! SKIPPED: {tool} is not installed");
    }
    is_there
}

pub(crate) const WARNINGS: [&str; 6] = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"];

pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Name and fields of each event of a trace.
pub(crate) fn events(path: &Path) -> Vec<String> {
    let traces = tracemill::open([path]).expect("a trace");
    let line = |event: tracemill::Result<tracemill::Event<'_>>| {
        let event = event.expect("a sound event");
        let fields = event.fields().expect("sound fields").filter(|field| field.path.starts_with("payload."));
        let fields: Vec<_> = fields.map(|field| format!(" {}={}", &field.path[8..], field.value)).collect();
        event.name().to_string() + &fields.concat()
    };
    traces.events().into_iter().map(line).collect()
}

/// Discarded events, as readers see them. Nothing else is wrong with the trace.
pub(crate) fn discarded(path: &Path) -> u64 {
    let traces = tracemill::open([path]).expect("a trace");
    let findings = traces.check().findings;
    let bad: Vec<_> = findings.iter().filter(|finding| finding.severity != tracemill::Severity::Loss).collect();
    assert!(bad.is_empty(), "{bad:?}");
    let surveys = traces.count();
    surveys.iter().flat_map(|trace| &trace.streams).map(|stream| stream.discarded_events.unwrap_or(0)).sum()
}

/// Events as babeltrace2 shows them, without times and contexts of packets.
pub(crate) fn by_babeltrace(path: &Path) -> Vec<String> {
    let output = run(Command::new("babeltrace2").arg("--names=payload").arg(path));
    output.lines().map(|line| line.split_once("}, {").expect("contexts and payload").1.to_string()).collect()
}
