//! The traces: where they are, recording them, and one without its index.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::Result;
use crate::args::Options;
use crate::host::bench_dir;
use crate::logs;

/// A trace that can be measured.
#[derive(Clone, Debug)]
pub(crate) struct BenchTrace {
    /// Name of its folder.
    pub(crate) name: String,
    /// Its folder.
    pub(crate) path: PathBuf,
}

/// The traces that are measured; `None` for those that are not there.
pub(crate) struct BenchTraces {
    /// 20 million events.
    pub(crate) large: Option<BenchTrace>,
    /// A million events of the same kinds.
    pub(crate) small: Option<BenchTrace>,
    /// 40 event classes.
    pub(crate) wide_40: Option<BenchTrace>,
    /// 2,000 event classes.
    pub(crate) wide_2000: Option<BenchTrace>,
    /// A million packets of one event.
    pub(crate) tiny: Option<BenchTrace>,
    /// Two million events of a kernel.
    pub(crate) kernel: Option<BenchTrace>,
    /// 10 million events of LTTng 0.7.
    pub(crate) legacy: Option<BenchTrace>,
    /// 20 million events of a CPEL log.
    pub(crate) cpel: Option<BenchTrace>,
    /// The same of a VPP event log.
    pub(crate) elog: Option<BenchTrace>,
}

impl BenchTraces {
    /// The traces that were named, else those of the default folder, else recorded now.
    pub(crate) fn find(options: &Options) -> Result<BenchTraces> {
        Ok(BenchTraces {
            large: find(options.trace.as_deref(), "ust-20m", &["20000000"])?,
            small: find(options.small.as_deref(), "ust-1m", &["1000000"])?,
            wide_40: find(options.wide_40.as_deref(), "wide-40", &["2000000", "40"])?,
            wide_2000: find(options.wide_2000.as_deref(), "wide-2000", &["2000000", "2000"])?,
            tiny: if options.only.is_empty() || options.only.contains(&10) { Some(tiny()?) } else { None },
            kernel: if options.only.is_empty() || options.only.iter().any(|row| [11, 12].contains(row)) {
                Some(kernel(options)?)
            } else {
                None
            },
            legacy: if options.only.is_empty() || options.only.contains(&9) { find_legacy(options)? } else { None },
            cpel: log(options, options.cpel.as_deref(), "cpel")?,
            elog: log(options, options.elog.as_deref(), "elog")?,
        })
    }
}

fn find(given: Option<&Path>, name: &str, arguments: &[&str]) -> Result<Option<BenchTrace>> {
    if let Some(path) = given {
        let name = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        return match name {
            Some(name) if path.join("metadata").is_file() => Ok(Some(BenchTrace { name, path: path.to_path_buf() })),
            _ => Err(format!("{}: no trace is there", path.display())),
        };
    }
    let path = bench_dir().join("traces").join(name);
    if !path.join("metadata").is_file() && !record(&path, arguments) {
        return Ok(None);
    }
    Ok(Some(BenchTrace { name: name.to_string(), path }))
}

/// The trace of packets of one event, written now when it is not there.
fn tiny() -> Result<BenchTrace> {
    let name = "tiny-1m";
    let path = bench_dir().join("traces").join(name);
    if !path.join("metadata").is_file() {
        eprintln!("writing {}", path.display());
        crate::tiny::write_trace(&path, 1_000_000).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(BenchTrace { name: name.to_string(), path })
}

/// The kernel trace, written now when it is not there.
fn kernel(options: &Options) -> Result<BenchTrace> {
    let path = options.kernel.clone().unwrap_or_else(|| bench_dir().join("traces").join("kernel-2m"));
    if !path.join("metadata").is_file() {
        if options.kernel.is_some() {
            return Err(format!("{}: no trace is there", path.display()));
        }
        eprintln!("writing {}", path.display());
        crate::kernel::write_trace(&path, 2_000_000, crate::kernel::CPUS, crate::kernel::FORK_EVERY)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let name = path.file_name().map_or_else(|| "kernel".into(), |name| name.to_string_lossy().into_owned());
    Ok(BenchTrace { name, path })
}

/// The trace of LTTng 0.7, written now when it is not there.
fn find_legacy(options: &Options) -> Result<Option<BenchTrace>> {
    let path = options.legacy.clone().unwrap_or_else(|| bench_dir().join("traces").join("legacy-10m"));
    if !path.join("control").is_dir() {
        if options.legacy.is_some() {
            return Err(format!("{}: no trace is there", path.display()));
        }
        eprintln!("writing {}", path.display());
        crate::legacy::write_trace(&path, 10_000_000, 1 << 20)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let name = path.file_name().map_or_else(|| "legacy".into(), |name| name.to_string_lossy().into_owned());
    Ok(Some(BenchTrace { name, path }))
}

/// An event log: the one that was named, else the one of the default folder, else one that is written now.
fn log(options: &Options, given: Option<&Path>, kind: &str) -> Result<Option<BenchTrace>> {
    if !options.only.is_empty() && !options.only.contains(&9) {
        return Ok(None);
    }
    let name = format!("{kind}-20m.{kind}");
    let path = given.map_or_else(|| bench_dir().join("traces").join(&name), Path::to_path_buf);
    if !path.is_file() && given.is_none() {
        eprintln!("writing {}", path.display());
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(bench_dir().join("traces")).map_err(failed)?;
        // Under its name only when it is whole.
        let part = path.with_extension("part");
        logs::write(kind, 20_000_000, &part).and_then(|()| std::fs::rename(&part, &path)).map_err(failed)?;
    }
    match path.file_name() {
        Some(name) if path.is_file() => {
            Ok(Some(BenchTrace { name: name.to_string_lossy().into_owned(), path: path.clone() }))
        }
        _ => Err(format!("{}: no log is there", path.display())),
    }
}

/// Records a trace; says what to do when that is not possible.
fn record(path: &Path, arguments: &[&str]) -> bool {
    let script = bench_dir().join("record").join("record-ust.sh");
    let shown = format!("{} {} {}", script.display(), path.display(), arguments.join(" "));
    let has_lttng = Command::new("lttng").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !has_lttng.is_ok_and(|status| status.success()) {
        eprintln!("NOTE: no trace {}, its rows are left out; with lttng-tools installed, record it by", path.display());
        eprintln!("      {shown}");
        return false;
    }
    eprintln!("recording: {shown}");
    let status = Command::new(&script).arg(path).args(arguments).status();
    let is_done = status.is_ok_and(|status| status.success());
    if !is_done {
        eprintln!("NOTE: {} could not be recorded, its rows are left out", path.display());
    }
    is_done
}

/// The same trace in a temporary folder, by links, without the folder `index`.
pub(crate) fn without_index(trace: &BenchTrace) -> Result<(TempDir, PathBuf)> {
    let failed = |error: std::io::Error| format!("{} cannot be linked elsewhere: {error}", trace.path.display());
    let folder = tempfile::tempdir().map_err(failed)?;
    let path = folder.path().join(&trace.name);
    std::fs::create_dir(&path).map_err(failed)?;
    let source = trace.path.canonicalize().map_err(failed)?;
    for entry in std::fs::read_dir(&source).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_file() {
            std::os::unix::fs::symlink(entry.path(), path.join(entry.file_name())).map_err(failed)?;
        }
    }
    Ok((folder, path))
}
