//! Converts the events of CPU 0 to another format: `.. --example convert -- demo/traces/orders perfetto out.pftrace`.
use tracemill::Result;

pub(crate) fn run(input: &str, to: &str, output: &str) -> Result<u64> {
    let traces = tracemill::open([input])?;
    let converted = traces.events().filter("cpu == 0")?.conversion(to)?.replace().write(output)?;
    for (kind, count) in converted.not_kept.report() {
        eprintln!("not kept: {kind} ({count})");
    }
    for error in &converted.damage {
        eprintln!("{error}");
    }
    Ok(converted.events)
}

pub(crate) fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, to, output] = arguments.as_slice() else {
        return Err(tracemill::Error::misuse("usage: convert INPUT FORMAT OUTPUT"));
    };
    println!("{} events", run(input, to, output)?);
    Ok(())
}
