//! Writes a trace in the shape of LTTng's kernel tracer, of any size, for benchmarks:
//!
//!     cargo run -p tracemill-bench --release --bin kernel_trace -- OUT_DIR EVENTS [CPUS [SLICES]]
//!
//! One in so many slices of a CPU's time makes a thread that ends soon: with 1, one event in 24 makes one.
#![forbid(unsafe_code)]

#[path = "../kernel.rs"]
mod kernel;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let events = arguments.get(1).and_then(|text| text.replace('_', "").parse::<u64>().ok());
    let cpus = arguments.get(2).map_or(Some(kernel::CPUS), |text| text.parse::<u32>().ok().filter(|&cpus| cpus > 0));
    let slices =
        arguments.get(3).map_or(Some(kernel::FORK_EVERY), |text| text.parse::<u64>().ok().filter(|&of| of > 0));
    let (Some(out), Some(events), Some(cpus), Some(slices)) = (arguments.first(), events, cpus, slices) else {
        eprintln!("usage: kernel_trace OUT_DIR EVENTS [CPUS [SLICES]]");
        return ExitCode::from(2);
    };
    match kernel::write_trace(Path::new(out), events, cpus, slices) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernel_trace: {out}: {error}");
            ExitCode::FAILURE
        }
    }
}
