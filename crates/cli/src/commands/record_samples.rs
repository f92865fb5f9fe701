//! `tracemill record --sample`: samples of any program, alone or next to its calls, its events and those of the kernel.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use tracemill_model::error::Error;
use tracemill_sample::{CallGraph, Options, Recorded, SampleClock};

use super::record;
use crate::args::{CallGraphArg, ClockArg, RecordOptions};
use crate::interrupt;

/// Name of the file of samples.
const SAMPLES: &str = "perf.data";
/// Name of the folder of a recording with samples and something else.
const FOLDER: &str = "recording";
/// Rings that copied stacks do not fill at once.
const DWARF_BUFFER: usize = 8 << 20;

/// Samples a program or processes, and gives the status of the program.
pub(super) fn record(options: &mut RecordOptions) -> Result<i32, Error> {
    if !options.samples.pid.is_empty() {
        return record_processes(options);
    }
    reread_rate(options)?;
    if options.program.is_empty() {
        let error = Error::misuse("--sample needs a program, or a process (-p)");
        return Err(error.with_help("`tracemill record --sample ./program`"));
    }
    if record::has_all_tasks(options) {
        let error = Error::misuse(
            "--sample samples a program or processes, not the whole machine: it cannot be combined with --all-tasks",
        );
        return Err(error.with_help(
            "-p samples processes that run already; `perf record -a -g` samples the machine, and its file is read here",
        ));
    }
    if let Some(name) = beside(options)? {
        return record_both(options, name);
    }
    let mut command = Command::new(record::found(&options.program[0])?);
    command.args(&options.program[1..]);
    let how = sample_options(options, options.output.clone().unwrap_or_else(|| PathBuf::from(SAMPLES)));
    interrupt::leave_to_children();
    let recorded = tracemill_sample::record(command, &how)?;
    print(&how, &recorded, options.verbose);
    Ok(recorded.status.map_or(record::NOT_RECORDED, record::status_of))
}

/// Begins again if a rate stands after `--sample` and a blank, where options look for the program: a number that is not the
/// name of one.
fn reread_rate(options: &RecordOptions) -> Result<(), Error> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let Some(at) = words.len().checked_sub(options.program.len()).filter(|at| *at < words.len()) else { return Ok(()) };
    let is_rate = words[at].to_str().is_some_and(|word| word.parse::<u64>().is_ok());
    if words[at - 1] != "--sample" || !is_rate || record::found(&words[at]).is_ok() {
        return Ok(());
    }
    let rate = words.remove(at);
    words[at - 1] = OsString::from(format!("--sample={}", rate.to_string_lossy()));
    let own = std::env::current_exe().map_err(|error| Error::io("run", Path::new("tracemill"), &error))?;
    let error = Command::new(&own).arg0(&words[0]).args(&words[1..]).exec();
    Err(Error::io("run", &own, &error))
}

/// The name that a recording of something else than samples has in the folder of both; `None` of samples alone.
fn beside(options: &RecordOptions) -> Result<Option<&'static str>, Error> {
    let name = options.output.as_deref().and_then(Path::file_name);
    if name.is_some_and(|name| name.as_encoded_bytes().ends_with(SAMPLES.as_bytes())) && !record::has_kernel(options) {
        return Ok(None);
    }
    let path = record::found(&options.program[0])?;
    let file = tracemill_run::inspect(&path);
    let has_calls = file.obstacle.is_none() && record::is_instrumented(file.built, options);
    Ok(match (has_calls, record::has_kernel(options)) {
        (true, _) => Some("uftrace.data"),
        (false, true) => Some("trace.dat"),
        (false, false) => record::has_mark(&path).then_some("trace.ctf"),
    })
}

/// Samples a program while it is recorded in another way: two traces in one folder, with one clock.
fn record_both(options: &mut RecordOptions, name: &str) -> Result<i32, Error> {
    if tracemill_run::has_children() {
        return record::run_again();
    }
    let folder = options.output.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
    make_folder(&folder)?;
    let mut how = sample_options(options, folder.join(SAMPLES));
    // Calls have times without an origin.
    how.has_origin = name != "uftrace.data";
    options.output = Some(folder.join(name));
    let recorded = tracemill_sample::record_beside(&how, || record::record_unsampled(options));
    let (status, recorded) = recorded.inspect_err(|_| {
        // Only if nothing was recorded.
        let _ = fs::remove_dir(&folder);
    })?;
    print(&how, &recorded, options.verbose);
    Ok(status)
}

/// Makes the folder; an earlier recording becomes `.old`.
fn make_folder(folder: &Path) -> Result<(), Error> {
    let failed = |error| Error::io("make the folder", folder, &error);
    let is_recording = |folder: &Path| folder.join(SAMPLES).is_file();
    if folder.exists() && fs::read_dir(folder).map_err(failed)?.next().is_some() {
        if !is_recording(folder) {
            let error = Error::misuse("it exists and is not a recording with samples").in_file(folder);
            return Err(error.with_help("give another folder with -o; `-o perf.data` records samples alone"));
        }
        let mut old = OsString::from(folder);
        old.push(".old");
        if is_recording(Path::new(&old)) {
            fs::remove_dir_all(&old).map_err(failed)?;
        }
        fs::rename(folder, &old).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)
}

/// Samples processes that run already.
fn record_processes(options: &RecordOptions) -> Result<i32, Error> {
    if record::has_kernel(options) {
        return Err(Error::misuse("-p samples processes: it cannot be combined with --event or --kernel"));
    }
    let how = sample_options(options, options.output.clone().unwrap_or_else(|| PathBuf::from(SAMPLES)));
    interrupt::only_stop();
    let must_stop = || interrupt::stop().load(Ordering::SeqCst);
    let recorded = tracemill_sample::record_processes(&options.samples.pid, &how, &must_stop)?;
    print(&how, &recorded, true);
    Ok(if recorded.failed.is_some() { record::NOT_RECORDED } else { 0 })
}

fn sample_options(options: &RecordOptions, output: PathBuf) -> Options {
    let (mut how, samples) = (Options::default(), &options.samples);
    how.output = output;
    how.hz = samples.sample.unwrap_or(how.hz);
    how.on_start = Some(interrupt::pass_on_to);
    how.has_off_cpu = samples.off_cpu;
    if let Some(CallGraphArg::Dwarf(bytes)) = samples.call_graph {
        (how.call_graph, how.ring_bytes) = (CallGraph::Dwarf(bytes), DWARF_BUFFER);
    }
    how.ring_bytes = samples.sample_buffer.unwrap_or(how.ring_bytes);
    how.clock = match options.calls.clock {
        ClockArg::Mono => SampleClock::Mono,
        ClockArg::MonoRaw => SampleClock::MonoRaw,
        ClockArg::Boot => SampleClock::Boot,
    };
    how.command = std::env::args_os().map(|word| OsStr::to_string_lossy(&word).into_owned()).collect();
    how
}

/// Reports what is missing; with `says_all` also how much is there.
fn print(how: &Options, recorded: &Recorded, says_all: bool) {
    let (mut stderr, output) = (std::io::stderr().lock(), how.output.display());
    // Best effort: stderr may be closed.
    if recorded.lost > 0 {
        let _ = writeln!(
            stderr,
            "{output}: {} samples; {} records were lost: --sample-buffer makes room for more",
            recorded.samples, recorded.lost
        );
    } else if says_all {
        let _ = writeln!(stderr, "{output}: {} samples", recorded.samples);
    }
    if let Some(level) = &recorded.without_kernel {
        let _ = writeln!(
            stderr,
            "{output}: samples in the kernel are missing: kernel.perf_event_paranoid is {level}, 1 or less allows them"
        );
    }
    if recorded.samples == 0 && recorded.lost == 0 {
        let hz = how.hz;
        let _ =
            writeln!(stderr, "{output}: no sample: no thread ran for 1/{hz} s; a higher rate (--sample=HZ) finds more");
    }
    drop(stderr);
    record::print_failed(&how.output, recorded.failed.as_deref(), false);
}
