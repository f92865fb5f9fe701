//! Prints events with their fields: `cargo run -p tracemill --example iterate -- demo 'cpu == 0'`.
use std::io::Write;

use tracemill::{Result, Step};

pub(crate) fn run(path: &str, condition: &str, out: &mut impl Write) -> Result<()> {
    let traces = tracemill::open([path])?;
    for step in traces.events().filter(condition)?.steps()? {
        // A closed pipe is not an error.
        let _ = match step {
            Step::Event(event) => {
                let fields: Vec<String> =
                    event.fields()?.map(|field| format!("{}={:?}", field.path, field.value)).collect();
                writeln!(out, "{} {:?} {} {}", event.time(), event.thread(), event.name(), fields.join(" "))
            }
            Step::Lost(loss) => writeln!(out, "{:?} of {} were lost", loss.count, loss.stream),
            Step::Damage(error) | Step::Warning(error) => writeln!(out, "{error}"),
        };
    }
    Ok(())
}

pub(crate) fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, default: &'static str| arguments.get(at).map_or(default, |text| text);
    run(argument(0, "demo"), argument(1, "true"), &mut std::io::stdout().lock())
}
