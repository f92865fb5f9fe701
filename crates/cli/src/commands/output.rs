//! Checks of the paths that `tracemill convert` may write to.

use std::fs;
use std::path::{Path, PathBuf};

use tracemill_engine::convert::is_trace;
use tracemill_engine::output::is_flow;
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
    let output = &options.output;
    let bad = |message: String, help: &str| {
        Err(Error::new(ErrorKind::Io, message).in_file(output).with_help(help.to_string()))
    };
    if is_flow(output) {
        let help = "name a folder with --output, or write a format that is one file";
        return if is_folder {
            bad("the output is a folder, which no pipe or device takes".into(), help)
        } else {
            Ok(())
        };
    }
    let own = canonical(output);
    if options.input.traces.iter().map(|path| canonical(path)).any(|input| input.starts_with(&own)) {
        return bad("the output would replace an input, or part of one".into(), "give another name");
    }
    if options.input.traces.iter().map(|path| canonical(path)).any(|input| own.starts_with(&input)) {
        return bad("the output would lie inside an input".into(), "give a name outside of it");
    }
    let Ok(of) = fs::symlink_metadata(output) else { return Ok(()) };
    if !options.force {
        return bad("the output exists already".into(), "give another name, or replace it with --force");
    }
    if of.is_dir() != is_folder {
        let (is, would) = if is_folder { ("file", "folder") } else { ("folder", "file") };
        return bad(format!("the output is a {is} and would be a {would}"), "remove it first");
    }
    let is_empty = || fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_none());
    if of.is_dir() && !is_empty() && !is_trace(&FileSystem, FORMATS, output) && !is_output(&FileSystem, output) {
        return bad("the output is a folder that holds no trace".into(), "it is not replaced; remove it first");
    }
    Ok(())
}

/// The path without links and dots; of a path that does not exist yet, the folder that it will be in is resolved.
fn canonical(path: &Path) -> PathBuf {
    if let Ok(known) = path.canonicalize() {
        return known;
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => canonical(parent),
        Some(_) => Path::new(".").canonicalize().unwrap_or_default(),
        None => PathBuf::new(),
    };
    path.file_name().map_or(parent.clone(), |name| parent.join(name))
}
