//! Reads a format of its own, lines of ns, name and number after the word SENSORS: `.. --example own_format -- FILE`.
use std::path::Path;

use tracemill::own::{Decoded, Format, FoundTrace, OpenTrace};
use tracemill::{Options, Result, Traces, write::i64};

static SENSORS: Format = Format::new(
    &["sensors"],
    "lines of ns, name and number",
    |storage, path| storage.read_start(path, 8).is_ok_and(|start| start == b"SENSORS\n"),
    |context, found| found.iter().map(|found| decode(found, context.storage.open(&found.path)?.bytes())).collect(),
);

fn decode(found: &FoundTrace, bytes: &[u8]) -> Result<OpenTrace> {
    let mut trace = Decoded::new("sensors", found);
    for line in String::from_utf8_lossy(bytes).lines().skip(1) {
        let [ns, name, number] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let class = trace.event_class(name, [("number", i64())])?;
        trace.event(&class, ns.parse().unwrap_or(0), |e| e.i64(number.parse().unwrap_or(0)))?;
    }
    trace.finish()
}

pub(crate) fn run(path: &Path) -> Result<Traces> {
    Options::new().format(&SENSORS).open([path])
}

pub(crate) fn main() -> Result<()> {
    run(std::env::args().nth(1).unwrap_or_default().as_ref())?.convert("ctf2", "sensors.ctf").map(|_| ())
}
