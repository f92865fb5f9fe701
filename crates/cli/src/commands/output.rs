//! Checks of the paths that `tracemill convert` may write to.

use std::path::Path;

use tracemill_engine::convert::is_trace;
use tracemill_engine::output::{canonical, is_flow, refuse_output};
use tracemill_engine::source::FileSystem;
use tracemill_export::is_output;
use tracemill_formats::FORMATS;
use tracemill_model::error::{Error, ErrorKind};

use crate::args::ConvertOptions;

/// Refuses a loss report that would spoil an input or the output.
fn refuse_report(options: &ConvertOptions) -> Result<(), Error> {
    let Some(report) = options.loss_report.as_deref() else { return Ok(()) };
    if is_flow(report) {
        let both = [report, &options.output];
        return match both.iter().all(|path| is_stdout(path)) || both[0] == both[1] {
            true => {
                let error = Error::misuse("the output and the loss report would be mixed: both go to one place");
                Err(error.with_help("give one of them a file"))
            }
            false => Ok(()),
        };
    }
    let own = canonical(report);
    let bad = |message: &str| {
        let error = Error::new(ErrorKind::Io, message).in_file(report);
        Err(error.with_help("give --loss-report a name outside of it"))
    };
    if options.input.traces.iter().any(|input| own.starts_with(canonical(input))) {
        return bad("the loss report would lie inside an input");
    }
    if !is_flow(&options.output) && own.starts_with(canonical(&options.output)) {
        return bad("the loss report would lie inside the output");
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
    refuse_output(&options.output, &options.input.traces, is_folder, options.force, &is_known)
}
