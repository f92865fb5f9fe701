//! Folders, what readers find in traces, and this program again as another process.
#![allow(dead_code, reason = "every test file compiles this module and uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tracemill::Severity;

/// A folder that is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tracemill-record-{name}-{}", std::process::id()));
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

/// Name and fields of each event of a trace.
pub(crate) fn events(path: &Path) -> Vec<String> {
    let traces = tracemill::open([path]).expect("a trace");
    let mut lines = Vec::new();
    for event in traces.events() {
        let event = event.expect("a sound event");
        let fields = event.fields().expect("sound fields");
        let fields = fields.filter(|field| field.path.starts_with("payload.") && !field.path.ends_with("_length"));
        let fields: Vec<_> = fields.map(|field| format!("{}={}", &field.path[8..], field.value)).collect();
        lines.push(format!("{} {}", event.name(), fields.join(" ")));
    }
    lines
}

/// The numbers `i` of the events of a trace, in their order.
pub(crate) fn numbers(path: &Path) -> Vec<u64> {
    let traces = tracemill::open([path]).expect("a trace");
    let number = |event: tracemill::Result<tracemill::Event<'_>>| {
        let event = event.expect("a sound event");
        event.get("payload.i").and_then(|value| value.as_u64()).expect("a number")
    };
    traces.events().into_iter().map(number).collect()
}

/// Discarded events as readers see them; the trace has no damage, no lost packet, and times that never go back.
pub(crate) fn discarded(path: &Path) -> u64 {
    let traces = tracemill::open([path]).expect("a trace");
    let findings = traces.check().findings;
    let bad: Vec<_> = findings.iter().filter(|finding| finding.severity != Severity::Loss).collect();
    assert!(bad.is_empty(), "{bad:?}");
    let surveys = traces.count();
    let streams = surveys.iter().flat_map(|trace| &trace.streams);
    streams.map(|stream| stream.discarded_events.unwrap_or(0)).sum()
}

/// Runs a test of this file again, in another process, with an argument. It returns before the test's own end.
pub(crate) fn again(test: &str, argument: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env("TRACEMILL_TEST_CHILD", argument);
    command
}

/// The argument of this process, when it was started by [`again`].
pub(crate) fn argument() -> Option<PathBuf> {
    std::env::var_os("TRACEMILL_TEST_CHILD").map(PathBuf::from)
}
