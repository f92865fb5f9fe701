//! Runs single cases and shows what they give: `cargo run -p tracemill-conformance -- FILE...`.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use tracemill_conformance::case::load;
use tracemill_conformance::run::{check, run};

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        eprintln!("usage: tracemill-conformance FILE.case...");
        return ExitCode::from(2);
    }
    let mut failed = 0;
    for file in &files {
        println!("{}", file.display());
        let case = match load(file) {
            Ok(case) => case,
            Err(why) => {
                println!("  cannot be read: {why}");
                failed += 1;
                continue;
            }
        };
        let outcome = run(&case, 1);
        for line in &outcome.lines {
            println!("  {line}");
        }
        for said in &outcome.said {
            println!("  {said}");
        }
        let wrong = check(&case);
        for why in &wrong {
            println!("  WRONG: {why}");
        }
        println!("  {}", if wrong.is_empty() { "as expected" } else { "not as expected" });
        failed += usize::from(!wrong.is_empty());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
