//! Measures what tracemill costs on large traces, with `babeltrace2` beside it: `docs/benchmarks.md`.
//!
//!     cargo run -p tracemill-bench --release
#![forbid(unsafe_code)]

#[cfg(unix)]
mod args;
#[cfg(unix)]
mod decode;
#[cfg(unix)]
mod host;
#[cfg(unix)]
mod kernel;
#[cfg(unix)]
mod legacy;
mod logs;
#[cfg(unix)]
mod measure;
mod others;
#[cfg(unix)]
mod report;
#[cfg(unix)]
mod suite;
mod tiny;
#[cfg(unix)]
mod traces;

use std::process::ExitCode;

/// Errors are messages for the person at the terminal.
#[cfg(unix)]
type Result<T> = std::result::Result<T, String>;

#[cfg(unix)]
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tracemill-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(unix)]
fn run() -> Result<()> {
    use clap::Parser;

    let options = args::Options::parse();
    if cfg!(debug_assertions) {
        eprintln!(
            "NOTE: this is a debug build, its figures mean nothing: use `cargo run -p tracemill-bench --release`"
        );
    }
    let peer = measure::peer_version();
    if peer.is_none() {
        eprintln!("NOTE: babeltrace2 is not installed: OUR FIGURES ONLY, nothing is compared");
        eprintln!("      (Debian and Ubuntu: package `babeltrace2`)");
    }
    let host = host::Host::detect();
    let setup = suite::Setup {
        tracemill: host::tracemill(options.tracemill.as_deref())?,
        peer: peer.is_some(),
        runs: options.runs.max(1) as usize,
        only: options.only.clone(),
        traces: traces::BenchTraces::find(&options)?,
    };
    let rows = suite::run(&setup)?;
    print!("{}", report::table(&rows));
    let out = options.out.unwrap_or_else(|| host.result_file());
    report::write(&out, &report::json(&host, peer.as_deref(), &setup, &rows))?;
    eprintln!("raw results: {}", out.display());
    Ok(())
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("tracemill-bench: CPU time and memory are measured on Unix systems only");
    ExitCode::FAILURE
}
