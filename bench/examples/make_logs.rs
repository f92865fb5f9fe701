//! Writes large CPEL, Gist and VPP event logs, to measure with:
//!
//!     cargo run --release -p tracemill-bench --example make_logs -- cpel 20000000 OUT.cpel
//!     cargo run --release -p tracemill-bench --example make_logs -- elog 20000000 OUT.elog
//!
//! `cpel-unsorted` has events out of order as several processors leave them, `gist` no names. The same arguments give
//! the same file.

use std::io;
use std::path::Path;

#[path = "../src/logs.rs"]
mod logs;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, events, path] = args.as_slice() else {
        eprintln!("usage: make_logs cpel|cpel-unsorted|gist|elog EVENTS FILE");
        std::process::exit(2);
    };
    let events: u32 = events.parse().map_err(|_| io::Error::other(format!("`{events}` is no number of events")))?;
    logs::write(kind, events, Path::new(path))
}
