//! Checks of the paths that `tracemill convert` may write to.

use std::path::Path;

use tracemill_engine::convert::is_trace;
use tracemill_engine::output::{canonical, is_flow, refuse_input, refuse_output};
use tracemill_engine::source::FileSystem;
use tracemill_export::is_output;
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;

use crate::args::ConvertOptions;

/// Refuses a loss report that would spoil an input or the output.
fn refuse_report(options: &ConvertOptions) -> Result<(), Error> {
    let Some(report) = options.loss_report.as_deref() else { return Ok(()) };
    if is_flow(report) {
        let both = [report, options.output()];
        if both.iter().all(|path| is_stdout(path)) || both[0] == both[1] {
            let error = Error::misuse("the output and the loss report would be mixed: both go to one place");
            return Err(error.with_help("give one of them a file"));
        }
        return Ok(());
    }
    refuse_input("loss report", report, &options.input.traces)?;
    if !is_flow(options.output()) && canonical(report).starts_with(canonical(options.output())) {
        let error = Error::misuse("the loss report would lie inside the output").in_file(report);
        return Err(error.with_help("give --loss-report a name outside of it"));
    }
    Ok(())
}

/// Whether the path is one of the names of standard output.
fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// Refuses an output that is, contains or lies inside an input, and one that exists, unless `--force` replaces it by an
/// output of its kind.
pub(super) fn refuse(options: &ConvertOptions, is_folder: bool) -> Result<(), Error> {
    refuse_report(options)?;
    let is_known = |path: &Path| is_trace(&FileSystem, FORMATS, path) || is_output(&FileSystem, path);
    refuse_output(options.output(), &options.input.traces, is_folder, options.force, &is_known)
}
