//! Traces that come through standard input, and lines of several traces.

mod util;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use util::{Run, command, stdout};

fn log(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/logs").join(name).display().to_string()
}

/// Runs the program with bytes to read.
fn fed(arguments: &[&str], bytes: &[u8]) -> Run {
    let mut command = command();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    child.stdin.take().expect("it is a pipe").write_all(bytes).expect("it reads all");
    Run::from_output(child.wait_with_output().expect("it ends"))
}

#[test]
fn a_file_is_read_from_standard_input() {
    let bytes = std::fs::read(log("dock.elog")).expect("it is there");
    for format in ["text", "jsonl"] {
        let run = fed(&["print", "--format", format, "-"], &bytes).ends(0, &[]);
        assert_eq!(run.stdout, stdout("print --format", &[format, &log("dock.elog")]));
    }
    fed(&["print", "-"], b"no trace").ends(1, &["error: -: the file is not a trace of a known format"]);
}

#[test]
fn lines_of_several_logs_name_them() {
    let run = util::run_with("print -q", &[&log("dock.elog"), &log("belt.cpel")]).ends(0, &[]);
    let names = [log("dock.elog"), log("belt.cpel")];
    assert!(run.stdout.lines().all(|line| names.iter().any(|name| line.contains(&format!(") {name} ")))));
    let one = util::run_with("print -q", &[&log("belt.cpel")]).ends(0, &[]).stdout;
    // Its clock has no origin: seconds since its zero, and no name.
    assert!(one.starts_with("[0.") && !one.contains("belt.cpel"), "{}", one.lines().next().unwrap_or_default());
}
