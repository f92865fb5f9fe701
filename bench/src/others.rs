//! Rows 12: files of perf, ftrace, Chrome and Perfetto, beside the programs that read them.
//!
//! They are made of the kernel trace, and so have the same events; perf records its own file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::host::bench_dir;
use crate::measure::{self, Samples};
use crate::report::{Measure, ReportRow};
use crate::suite::{Round, Setup, rounds};
use crate::traces::BenchTrace;

/// A file, with the way to read it and that of the other program.
struct OtherFile {
    id: &'static str,
    what: &'static str,
    path: PathBuf,
    /// Our command and its options.
    ours: (&'static str, &'static [&'static str]),
    /// The other program and its words.
    peer: Option<(&'static str, Vec<String>)>,
    target: Measure,
    /// Is the figure MB a second, and not a ratio?
    is_rate: bool,
}

/// Can a program be started? `trace-cmd --version` ends with an error.
fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Makes a file when it is not there; it gets its name when it is whole.
fn made(path: &Path, make: impl FnOnce(&Path) -> Result<bool>) -> Result<bool> {
    if path.is_file() {
        return Ok(true);
    }
    eprintln!("writing {}", path.display());
    let part = path.with_extension("part");
    if !make(&part)? {
        return Ok(false);
    }
    std::fs::rename(&part, path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(true)
}

fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    Ok(status.success())
}

/// Rows 12. `kernel` is the trace that the files are made of.
pub(crate) fn rows(setup: &Setup, kernel: &BenchTrace, rows: &mut Vec<ReportRow>) -> Result<()> {
    for file in files(setup, kernel)? {
        row(setup, &file, rows)?;
    }
    Ok(())
}

fn files(setup: &Setup, kernel: &BenchTrace) -> Result<Vec<OtherFile>> {
    let folder = bench_dir().join("traces");
    let path = |ending: &str| folder.join(format!("{}.{ending}", kernel.name));
    let convert = |to: &'static str| {
        move |part: &Path| {
            let mut command = Command::new(&setup.tracemill);
            command.args(["convert", "-q", "--force", "--to", to, "-o"]).arg(part).arg(&kernel.path);
            succeeds(&mut command)
        }
    };
    let mut files = Vec::new();
    // perf: this machine, for some seconds.
    let perf = folder.join("perf.data");
    let record = |part: &Path| {
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-a", "-g", "-F", "4999", "-e", "cpu-clock", "-e", "sched:*", "-o"]).arg(part);
        // Something has to run.
        succeeds(command.args(["--", "sh", "-c"]).arg("for i in 1 2 3 4; do ls -lR /usr > /dev/null; done"))
    };
    if is_there("perf") && made(&perf, record).unwrap_or(false) {
        files.push(OtherFile {
            id: "12a",
            what: "print -j1 of perf.data, to `perf script`",
            peer: Some(("perf", vec!["script".into(), "-i".into(), perf.display().to_string()])),
            path: perf,
            ours: ("print", &["-q", "-j1"]),
            target: Measure::AtLeast(5.0),
            is_rate: false,
        });
    } else {
        eprintln!("NOTE: perf is not there or may not record: row 12a is left out");
    }
    let (data, text) = (path("dat"), path("txt"));
    if !made(&data, convert("ftrace"))? {
        return Err(format!("{} cannot be written", data.display()));
    }
    let report = |part: &Path| {
        let out = std::fs::File::create(part).map_err(|error| format!("{}: {error}", part.display()))?;
        succeeds(Command::new("trace-cmd").args(["report", "-i"]).arg(&data).stdout(out).stderr(Stdio::null()))
    };
    if is_there("trace-cmd") && made(&text, report)? {
        let inputs = [
            ("12b", "print -j1 of text of ftrace, to `trace-cmd report` of its trace.dat", text),
            ("12e", "print -j1 of this trace.dat, to `trace-cmd report`", data.clone()),
        ];
        for (id, what, path) in inputs {
            let peer = vec!["report".into(), "-i".into(), data.display().to_string()];
            files.push(OtherFile {
                id,
                what,
                path,
                ours: ("print", &["-q", "-j1"]),
                peer: Some(("trace-cmd", peer)),
                target: Measure::AtLeast(5.0),
                is_rate: false,
            });
        }
    } else {
        eprintln!("NOTE: trace-cmd is not there: row 12b is left out");
    }
    let (chrome, perfetto) = (path("json"), path("pftrace"));
    if !made(&chrome, convert("chrome"))? || !made(&perfetto, convert("perfetto"))? {
        return Err(format!("{} cannot be converted", kernel.path.display()));
    }
    files.push(OtherFile {
        id: "12c",
        what: "info --count -j1 of trace JSON of Chrome, MB/s",
        path: chrome,
        ours: ("info", &["-q", "--count", "-j1"]),
        peer: None,
        target: Measure::AtLeast(200.0),
        is_rate: true,
    });
    // trace_processor as a program, or as its page has it (`conformance/trace_processor.py`).
    let words = std::env::var("TRACE_PROCESSOR").ok();
    let mut words = words.iter().flat_map(|text| text.split_whitespace()).map(str::to_string);
    let program = words.next().map(|program| -> &'static str { program.leak() });
    if program.is_none() {
        eprintln!("NOTE: TRACE_PROCESSOR names no program: row 12d has no peer");
    }
    files.push(OtherFile {
        id: "12d",
        what: "info --count -j1 of a trace of Perfetto, to trace_processor's import",
        peer: program.map(|program| (program, words.chain([perfetto.display().to_string()]).collect())),
        path: perfetto,
        ours: ("info", &["-q", "--count", "-j1"]),
        target: Measure::AtLeast(1.0),
        is_rate: false,
    });
    Ok(files)
}

fn row(setup: &Setup, file: &OtherFile, rows: &mut Vec<ReportRow>) -> Result<()> {
    let (command, options) = file.ours;
    let peer = file
        .peer
        .as_ref()
        .map(|(program, words)| -> Round<'_> { Box::new(move || measure::child(Command::new(program).args(words))) });
    let tasks = [Some(setup.ours(command, &file.path, options)), peer];
    let [ours, peer] = rounds(&format!("row {}", file.id), setup.runs, tasks)?;
    let ours: Samples = ours.unwrap_or_default();
    let bytes = std::fs::metadata(&file.path).map(|data| data.len()).ok();
    let seconds = ours.cpu().median;
    let events = counted(setup, &file.path)?;
    let ratio = peer.as_ref().map(|peer| peer.cpu().median / seconds);
    let rate = bytes.map(|bytes| bytes as f64 / 1e6 / seconds);
    rows.push(ReportRow {
        id: file.id,
        what: file.what.to_string(),
        trace: file.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        events: Some(events),
        bytes,
        result: if file.is_rate { rate } else { ratio },
        peer,
        peer_ns: None,
        ours,
        unit: if file.is_rate { " MB/s" } else { "x" },
        target: file.target,
        aim: None,
    });
    Ok(())
}

/// The events of a file.
fn counted(setup: &Setup, path: &Path) -> Result<u64> {
    measure::lines(&mut setup.program("print", path, &["-q", "--format", "jsonl"]))
}
