//! `tracemill record` in a program that cannot record.

use tracemill_model::error::Error;

use crate::args::RecordOptions;
use crate::report::{self, Outcome};

/// Status when nothing could be recorded, as in a program that records.
const NOT_RECORDED: i32 = 125;

/// Says why nothing is recorded.
pub(crate) fn run(_: &RecordOptions) -> Result<Outcome, Error> {
    report::error(&reason());
    std::process::exit(NOT_RECORDED);
}

/// The system has a recorder, and this program was built without it.
#[cfg(not(feature = "record"))]
fn reason() -> Error {
    super::built_without("recording", "record")
}

/// The system has no recorder.
#[cfg(feature = "record")]
fn reason() -> Error {
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    let error = Error::unsupported(format!("there is no recorder for {system} on {processor}"));
    error.with_help("record on Linux, on x86-64 or AArch64; this program reads what was recorded there")
}
