//! Writes a trace of LTTng 0.7 of any size, for benchmarks:
//!
//!     cargo run -p tracemill-bench --release --bin legacy_trace -- OUT_DIR EVENTS [BLOCK_BYTES]
#![forbid(unsafe_code)]

#[path = "../legacy.rs"]
mod legacy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).map(|text| text.replace('_', "").parse::<u64>());
    let (Some(out), Some(Ok(events)), block) = (arguments.first(), number(1), number(2)) else {
        eprintln!("usage: legacy_trace OUT_DIR EVENTS [BLOCK_BYTES]");
        return ExitCode::from(2);
    };
    let block = block.and_then(Result::ok).unwrap_or(1 << 20).clamp(4096, 1 << 31) as usize;
    match legacy::write_trace(Path::new(out), events, block) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("legacy_trace: {out}: {error}");
            ExitCode::FAILURE
        }
    }
}
