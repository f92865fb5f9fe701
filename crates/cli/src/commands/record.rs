//! `tracemill record`: programs that record themselves, and what they leave when they are killed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{IsTerminal, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tracemill_calls::rules::{PatternKind, RuleTexts};
use tracemill_engine::output::refuse_input;
use tracemill_live::calls_network::{CALLS_PORT, CallSender};
use tracemill_model::error::{Error, ErrorKind};
use tracemill_record::Recovered;
use tracemill_run::{Built, Obstacle};

use crate::args::{ClockArg, RecordMode, RecordOptions, WhenFull};
use crate::commands::{
    record_control as control, record_debug as debug, record_notes as notes, record_probes as probes,
    record_samples as samples, record_selection as selection,
};
use crate::interrupt;
use crate::report::{self, Outcome};

/// Status when nothing could be recorded.
pub(super) const NOT_RECORDED: i32 = 125;
/// Name of the folder when the user gives none.
const FOLDER: &str = "trace.ctf";
/// A text that every program has in it that is linked with the recorder.
const MARK: &[u8] = b"TRACEMILL_RECORD_MODE";

/// Records a program, or finishes or copies a trace.
pub(crate) fn run(options: &mut RecordOptions) -> Result<Outcome, Error> {
    let is_left = |folder: &&PathBuf| folder.join("info").is_file() && !tracemill_run::is_finished(folder);
    if let Some(folder) = options.recover.as_ref().filter(|folder| is_left(folder) || tracemill_kernel::is_left(folder))
    {
        let has_kernel = tracemill_kernel::is_left(folder);
        if tracemill_run::is_left(folder) || !has_kernel {
            let recorded =
                tracemill_run::recover(folder, debug::describer).map_err(|error| not_recovered(folder, error))?;
            let lost = notes::lost_phrase(recorded.lost);
            let _ =
                writeln!(std::io::stderr(), "{}: {} records were in rings{lost}", folder.display(), recorded.records);
            notes::print_left_out(folder, &recorded);
            notes::print_unrecordable(folder, &recorded);
        }
        if has_kernel {
            let kernel =
                tracemill_kernel::recover_beside(folder, None).map_err(|error| not_recovered(folder, error))?;
            let _ = writeln!(std::io::stderr(), "{}: {} pages were with the kernel", folder.display(), kernel.pages);
        }
        return Ok(Outcome::Done);
    }
    if let Some(output) = options.recover.as_ref().filter(|output| tracemill_kernel::has_parts(output)) {
        let recorded = tracemill_kernel::recover(output, None).map_err(|error| not_recovered(output, error))?;
        let _ = writeln!(std::io::stderr(), "{}: {} pages of {} CPUs", output.display(), recorded.pages, recorded.cpus);
        return Ok(Outcome::Done);
    }
    if let Some(folder) = options.recover.as_ref().filter(|folder| tracemill_run::is_finished(folder)) {
        let _ =
            writeln!(std::io::stderr(), "{}: nothing is left in rings: the recording is finished", folder.display());
        return Ok(Outcome::Done);
    }
    if let Some(folder) = &options.recover {
        let recovered = tracemill_record::recover(folder).map_err(|error| not_recovered(folder, error))?;
        return Ok(print_recovered(folder, &recovered));
    }
    if let (Some(target), Some(output)) = (&options.snapshot, &options.output) {
        let folder = &control::folder_of(target.as_os_str())?;
        refuse_input("snapshot", output, std::slice::from_ref(folder))?;
        let failed = |error| Error::io("copy what is recorded in", folder, &error);
        let copied = tracemill_record::snapshot(folder, output).map_err(failed)?;
        return Ok(print_recovered(output, &copied));
    }
    if let Some(program) = control::listed_program(options) {
        return probes::list(&program);
    }
    if control::is_wanted(options) {
        return control::run(options);
    }
    if let Some(error) = control::misread_disable(options) {
        return Err(error);
    }
    // With --sample, the reason is another one.
    if options.all_tasks && !has_kernel(options) && options.samples.sample.is_none() {
        let error = Error::misuse("--all-tasks needs events or functions of the kernel");
        return Err(error.with_help("name them with --event (-E), or give --kernel (-k)"));
    }
    let (is_timed, begin) = (options.time, Instant::now());
    match record_to(options) {
        Ok(status) => {
            if is_timed {
                print_times(begin);
            }
            std::process::exit(status)
        }
        Err(error) => {
            report::error(&error);
            std::process::exit(NOT_RECORDED);
        }
    }
}

/// Records, and converts the recording when another format is wanted; gives the status of the program.
fn record_to(options: &mut RecordOptions) -> Result<i32, Error> {
    let (Some(to), Some(output)) = (options.to.take(), options.output.clone()) else { return record(options) };
    // A format that cannot be written is refused before the program runs.
    tracemill::target(&to, &[])?;
    if output.exists() {
        return Err(Error::misuse("the output exists").in_file(&output).with_help("give another one with -o"));
    }
    let mut name = OsString::from(".");
    name.push(output.file_name().unwrap_or_default());
    name.push(".recording");
    let recording = output.with_file_name(name);
    options.output = Some(recording.clone());
    let status = record(options)?;
    // A program that nothing was recorded of, because it was to run all the same.
    if !recording.exists() {
        return Ok(status);
    }
    let converted = tracemill::open([&recording]).and_then(|traces| traces.convert(&to, &output));
    let converted = converted.map_err(|error| match error.help() {
        Some(_) => error,
        None => error.with_help(format!("the recording is kept: {}", recording.display())),
    })?;
    let mut stderr = std::io::stderr().lock();
    for (kind, count) in converted.not_kept.report() {
        // Best effort: stderr may be closed.
        let _ = writeln!(stderr, "warning: not kept in {to}: {kind} ({count})");
    }
    let removed = if recording.is_dir() { fs::remove_dir_all(&recording) } else { fs::remove_file(&recording) };
    removed.map_err(|error| Error::io("remove", &recording, &error))?;
    Ok(status)
}

/// Tells how long it took, and how long all children worked.
fn print_times(begin: Instant) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit_once(") ").map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
    // The fields 16 and 17 of the line, in hundredths of a second on Linux.
    let children = |at: usize| fields.get(at - 3).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
    let lines = [("elapsed", begin.elapsed().as_secs_f64()), ("system", children(17)), ("user", children(16))];
    for (name, seconds) in lines {
        let _ = writeln!(std::io::stderr(), "{name:>7} time: {seconds:16.9} sec");
    }
}

fn not_recovered(folder: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            let error = Error::misuse("there are no rings: the trace is finished, or is none").in_file(folder);
            error.with_help("only a folder in which a recorder was killed can be recovered")
        }
        _ => Error::io("recover the trace in", folder, &error),
    }
}

/// Prints on stderr what was found.
fn print_recovered(folder: &Path, recovered: &Recovered) -> Outcome {
    let mut stderr = std::io::stderr().lock();
    let discarded = notes::discarded_phrase(recovered.discarded);
    // Best effort: stderr may be closed.
    let _ = writeln!(stderr, "{}: {} packets were in rings{discarded}", folder.display(), recovered.packets);
    for why in &recovered.damaged {
        let _ = writeln!(stderr, "error: {}: {why}", folder.display());
    }
    if recovered.damaged.is_empty() { Outcome::Done } else { Outcome::Partial }
}

/// How to record calls.
fn run_options(options: &RecordOptions) -> tracemill_run::Options {
    let mut how = tracemill_run::Options::default();
    if let Some(folder) = &options.output {
        how.folder.clone_from(folder);
    }
    how.name = options.program.first().cloned();
    let calls = &options.calls;
    how.rings.clone_from(&calls.rings.ring_dir);
    how.slot_bytes = calls.rings.buffer;
    how.depth = calls.max_stack.min(1024);
    how.when_full = match calls.rings.when_full {
        WhenFull::Wait => tracemill_run::WhenFull::Wait,
        WhenFull::Lose => tracemill_run::WhenFull::Lose,
        WhenFull::Grow => tracemill_run::WhenFull::Grow,
    };
    how.largest_bytes = calls.rings.max_buffer;
    how.clock = match calls.clock {
        ClockArg::Mono => tracemill_run::SystemClock::Mono,
        ClockArg::MonoRaw => tracemill_run::SystemClock::MonoRaw,
        ClockArg::Boot => tracemill_run::SystemClock::Boot,
    };
    how.stop = Some(interrupt::stop());
    how.waits_for = Some(notes::print_wait);
    how.has_fixed_addresses = calls.no_randomize_addr;
    how.symbols.clone_from(&calls.with_syms);
    how.selection.library_calls = match (calls.no_libcall, calls.nest_libcall) {
        (true, _) => tracemill_run::LibraryCalls::None,
        (false, true) => tracemill_run::LibraryCalls::OfAll,
        (false, false) => tracemill_run::LibraryCalls::OfProgram,
    };
    how.selection.of_any_program = options.force;
    how.selection.depth = calls.depth;
    how.selection.time_ns = calls.time_filter.unwrap_or(0);
    how.selection.size = calls.rules.0.size;
    how.selection.starts_off = calls.disable.is_some() || calls.trace.as_deref() == Some("off");
    how.selection.guesses_ends = calls.estimate_return;
    let values = tracemill_run::ValueLines { arguments: calls.argument.join(";"), results: calls.retval.join(";") };
    let not = calls.unpatch.iter().filter(|name| !probes::is_pattern(name)).map(|name| format!("!{name}"));
    let filters = calls.patch.iter().cloned().chain(not).filter(|name| !probes::is_pattern(name)).collect();
    let patches = RuleTexts { filters, patterns: calls.rules.0.patterns, ..RuleTexts::default() };
    how.selection.has_auto_values = has_auto_values(options);
    how.selection.has_lines = calls.srcline;
    how.selection.has_named_types = selection::names_types(&values);
    let has_values = !values.arguments.is_empty() || !values.results.is_empty() || how.selection.has_auto_values;
    how.selection.only_patches = calls.rules.0.is_empty() && !has_values;
    how.selection.decide = selection::decide(&calls.rules.0, &values, &patches, how.selection.has_auto_values);
    how.selection.probes = probes::choose(options);
    how.selection.describe = debug::describer(&how.selection);
    how.selection.values = values;
    how.selection.has_globs = calls.rules.0.patterns == PatternKind::Glob;
    how
}

/// Runs a program, records its calls, and gives its status.
fn record_calls(path: &Path, options: &RecordOptions) -> Result<i32, Error> {
    selection::check(&options.calls.rules.0)?;
    selection::check_values(&options.calls.argument, &options.calls.retval)?;
    let mut how = run_options(options);
    let has_files = !options.calls.rules.0.locations.is_empty();
    debug::check(has_files || how.selection.describe.is_some())?;
    let arguments = &options.program[1..];
    // The command that is run again sends.
    let sends = options.calls.beside.is_none() && !tracemill_run::has_children();
    let sent = if sends { SentRecording::begin(options, &mut how)? } else { None };
    let failed = |error| Error::io("record calls into", &how.folder, &error);
    if options.calls.keep_pid && options.calls.beside.is_none() {
        if has_kernel(options) {
            let error = Error::misuse(
                "--keep-pid cannot be combined with events of the kernel: no process is left to record them",
            );
            return Err(error.with_help("leave out one of --keep-pid and --event"));
        }
        return Err(failed(tracemill_run::become_program(path, arguments, &how, start_beside)));
    }
    if tracemill_run::has_children() {
        return run_again();
    }
    if options.calls.beside.is_none() && !options.calls.nop {
        let swept = tracemill_run::sweep(how.rings.as_deref(), debug::describer);
        // A quiet run that records something else need not report them; their data is kept.
        if options.verbose || std::io::stderr().is_terminal() {
            swept.iter().for_each(notes::print_swept);
        }
    }
    // Until the program has ended an interrupt is the program's alone.
    interrupt::only_stop();
    let recorded = match options.calls.beside {
        _ if options.calls.nop => {
            let status = tracemill_run::run_idle(path, arguments, &mut start);
            return status.map(status_of).map_err(|error| Error::io("run", path, &error));
        }
        Some(pid) => tracemill_run::record_beside(pid, path, arguments, &how).map_err(failed)?,
        None if has_kernel(options) => record_both(path, arguments, &how, options)?,
        None => tracemill_run::record(path, arguments, &how, &mut start).map_err(failed)?,
    };
    let is_sent = sent.is_some();
    let why = match sent.map(|sent| sent.finish(&how.folder)) {
        Some(Err(error)) => Some(error.to_string()),
        _ => recorded.failed.clone(),
    };
    print_failed(&how.folder, why.as_deref(), !is_sent && tracemill_run::is_left(&how.folder));
    if recorded.lost > 0 || options.verbose {
        let lost = notes::lost_phrase(recorded.lost);
        let _ = writeln!(std::io::stderr(), "{}: {} records{lost}", how.folder.display(), recorded.records);
    }
    notes::print_left_out(&how.folder, &recorded);
    probes::print_left_out(&how.folder, options, &recorded.probes);
    notes::print_unrecordable(&how.folder, &recorded);
    notes::print_remaining(&how.folder, &recorded.remaining);
    notes::print_nothing_recorded(path, &how, &recorded);
    Ok(recorded.status.map_or(NOT_RECORDED, status_of))
}

/// A recording that is sent to another machine. The files beside those of tasks are in a folder in memory until its end.
struct SentRecording {
    sender: Arc<CallSender>,
    folder: PathBuf,
}

impl SentRecording {
    /// Connects, and has records sent, when the options ask for it.
    fn begin(options: &RecordOptions, how: &mut tracemill_run::Options) -> Result<Option<SentRecording>, Error> {
        let rings = &options.calls.rings;
        let Some(host) = &rings.host else { return Ok(None) };
        let name = how.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sender = Arc::new(CallSender::connect(host, rings.port.unwrap_or(CALLS_PORT), &name)?);
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = parent.join(format!("tracemill-sent-{}", std::process::id()));
        how.folder = folder.join(&name);
        let records = sender.clone();
        how.send = Some(tracemill_run::SendRecords(Arc::new(move |task, bytes| records.data(task, bytes))));
        Ok(Some(SentRecording { sender, folder }))
    }

    /// Sends what is left.
    fn finish(self, folder: &Path) -> std::io::Result<()> {
        self.sender.finish(folder)
    }
}

impl Drop for SentRecording {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Tells why a recording is not complete, and how it can be finished when something is left.
pub(super) fn print_failed(output: &Path, why: Option<&str>, is_left: bool) {
    let Some(why) = why else { return };
    let error = Error::new(ErrorKind::Io, format!("the recording is not complete: {why}")).in_file(output);
    report::error(&match is_left {
        true => error.with_help(format!("finish it by `tracemill record --recover {}`", output.display())),
        false => error,
    });
}

/// Runs this command as a child. A shell that became this process may have left it children of its own, which could not be
/// told from those of the program.
pub(super) fn run_again() -> Result<i32, Error> {
    interrupt::leave_to_children();
    let failed = |error| Error::io("run", Path::new("tracemill"), &error);
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(std::env::args_os().skip(1));
    run_to_end(&mut command).map(status_of).map_err(failed)
}

/// Starts the program that is recorded: it gets what ends this one.
fn start(command: &mut Command) -> std::io::Result<Child> {
    command.spawn().inspect(|child| interrupt::pass_on_to(child.id()))
}

/// Runs the program that is recorded, and waits for its end.
fn run_to_end(command: &mut Command) -> std::io::Result<ExitStatus> {
    start(command)?.wait()
}

/// Runs a program, and records its calls, and events of the kernel meanwhile, in one folder.
fn record_both(
    path: &Path,
    arguments: &[OsString],
    how: &tracemill_run::Options,
    options: &RecordOptions,
) -> Result<tracemill_run::Recorded, Error> {
    let mut of_kernel = kernel_options(options);
    of_kernel.output.clone_from(&how.folder);
    of_kernel.clock = match options.calls.clock {
        ClockArg::Mono => "mono",
        ClockArg::MonoRaw => "mono_raw",
        ClockArg::Boot => "boot",
    };
    let (recorded, kernel) = tracemill_kernel::record_beside(&of_kernel, |start| {
        let mut refused = None;
        let recorded = tracemill_run::record(path, arguments, how, &mut |command| {
            start(command).map_err(|error| {
                let said = std::io::Error::other(error.to_string());
                refused = Some(error);
                said
            })
        });
        recorded.map_err(|error| refused.unwrap_or_else(|| Error::io("record calls into", &how.folder, &error)))
    })?;
    print_lost(&how.folder, kernel.lost);
    print_failed(&how.folder, kernel.failed.as_deref(), tracemill_kernel::is_left(&how.folder));
    Ok(recorded)
}

/// Tells that events of the kernel were lost.
fn print_lost(output: &Path, lost: u64) {
    if lost > 0 {
        let output = output.display();
        // Best effort: stderr may be closed.
        let _ = writeln!(std::io::stderr(), "{output}: {lost} events were lost; --kernel-buffer makes room for more");
    }
}

/// Starts this program with its own options, to record the process that it is now.
fn start_beside() -> std::io::Result<u32> {
    let mut beside = Command::new(std::env::current_exe()?);
    let mut words = std::env::args_os().skip(1);
    beside.args(words.next()).args(["--beside", &std::process::id().to_string()]);
    beside.args(words).stdin(Stdio::null()).spawn().map(|child| child.id())
}

/// The status that a shell shows.
pub(super) fn status_of(status: std::process::ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Records events of the kernel, while a program runs when one is named, and gives its status.
fn record_kernel(options: &RecordOptions) -> Result<i32, Error> {
    let command = match options.program.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(found(program)?);
            command.args(arguments);
            interrupt::leave_to_children();
            Some(command)
        }
        None => {
            interrupt::only_stop();
            None
        }
    };
    let how = kernel_options(options);
    let is_alone = command.is_none();
    let recorded = tracemill_kernel::record(command, &how, &|| interrupt::stop().load(Ordering::SeqCst))?;
    if recorded.failed.is_none() && recorded.lost == 0 && is_alone {
        let output = how.output.display();
        // Best effort: stderr may be closed.
        let _ = writeln!(std::io::stderr(), "{output}: {} pages of {} CPUs", recorded.pages, recorded.cpus);
    }
    print_lost(&how.output, recorded.lost);
    print_failed(&how.output, recorded.failed.as_deref(), tracemill_kernel::has_parts(&how.output));
    Ok(recorded.status.map_or(if recorded.failed.is_some() { NOT_RECORDED } else { 0 }, status_of))
}

/// Are the values recorded that debugging information describes?
fn has_auto_values(options: &RecordOptions) -> bool {
    options.calls.auto_args || options.all && !has_kernel(options)
}

/// Does the kernel tell of something?
pub(super) fn has_kernel(options: &RecordOptions) -> bool {
    !options.kernel_events.is_empty() || options.kernel || options.kernel_depth.is_some()
}

/// Are events of all tasks recorded?
pub(super) fn has_all_tasks(options: &RecordOptions) -> bool {
    options.all_tasks || options.all && has_kernel(options)
}

/// How to record events of the kernel.
fn kernel_options(options: &RecordOptions) -> tracemill_kernel::Options {
    let mut how = tracemill_kernel::Options::default();
    if let Some(output) = &options.output {
        how.output.clone_from(output);
    }
    how.events.clone_from(&options.kernel_events);
    how.functions = options.kernel_depth.or(options.kernel.then_some(1));
    how.all_tasks = has_all_tasks(options);
    how.buffer_kib = (options.kernel_buffer as u64).div_ceil(1024).max(1);
    how.on_start = Some(interrupt::pass_on_to);
    how
}

/// Are calls recorded beside events of the kernel, into one folder? Of all tasks, and where the output is named as that of
/// events alone, they are not.
fn has_both(options: &RecordOptions) -> Result<bool, Error> {
    let is_of_events = options.output.as_ref().is_some_and(|output| output.extension().is_some_and(|end| end == "dat"));
    let Some(program) = options.program.first().filter(|_| !has_all_tasks(options) && !is_of_events) else {
        return Ok(false);
    };
    let file = tracemill_run::inspect(&found(program)?);
    Ok(file.obstacle.is_none() && is_instrumented(file.built, options))
}

/// Are calls of a program that was built so recorded?
pub(super) fn is_instrumented(built: Built, options: &RecordOptions) -> bool {
    match built {
        Built::ForCalls => true,
        Built::Patchable | Built::Plain => !options.calls.patch.is_empty(),
        Built::Unknown => false,
    }
}

/// The file of a program, or the error that there is none.
pub(super) fn found(program: &OsStr) -> Result<PathBuf, Error> {
    find(Path::new(program)).ok_or_else(|| {
        let error = Error::new(ErrorKind::Io, "there is no such program").in_file(Path::new(program));
        error.with_help("programs without a `/` are looked for in PATH")
    })
}

/// Runs a program that records its own events, and gives its status.
fn record(options: &mut RecordOptions) -> Result<i32, Error> {
    if let Some(sentence) = options.refused.sentences.first() {
        return Err(Error::unsupported(sentence.clone()).with_help("`tracemill record --help` lists what there is"));
    }
    if options.samples.sample.is_some() {
        return samples::record(options);
    }
    let recorded = record_unsampled(options);
    let program = options.program.first().filter(|_| !options.kernel_events.is_empty());
    recorded.map_err(|error| match program.and_then(|program| find(Path::new(program))) {
        Some(program) => probes::with_hint(options, &program, error),
        None => error,
    })
}

/// Runs a program, and records its calls, its own events or those of the kernel.
pub(super) fn record_unsampled(options: &RecordOptions) -> Result<i32, Error> {
    if has_kernel(options) && !has_both(options)? {
        return record_kernel(options);
    }
    let (program, arguments) = options.program.split_first().ok_or_else(|| Error::misuse("no program is named"))?;
    let path = found(program)?;
    let file = tracemill_run::inspect(&path);
    let has_mark = has_mark(&path);
    // A program that only runs others is recorded for their sake; `--force` records every program.
    let is_recorded = match &file.obstacle {
        None => is_instrumented(file.built, options) || (file.runs_others || options.force) && !has_mark,
        Some(Obstacle::Unreadable(_)) => options.force,
        Some(_) => false,
    };
    if is_recorded {
        return record_calls(&path, options);
    }
    if !has_mark {
        let refusal = notes::refusal(&path, &file);
        if !options.force {
            return Err(refusal);
        }
        // Best effort: stderr may be closed.
        let _ = writeln!(std::io::stderr(), "warning: {}: {}", path.display(), refusal.message());
    }
    let folder = options.output.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
    if folder.exists() {
        let error = Error::misuse("the folder of the trace exists").in_file(&folder);
        return Err(error.with_help("give another one with -o"));
    }
    let folder = std::path::absolute(&folder).map_err(|error| Error::io("find the folder", &folder, &error))?;
    interrupt::leave_to_children();
    let known = folders_of(&folder);
    let mut command = Command::new(&path);
    command.args(arguments).env("TRACEMILL_RECORD", &folder);
    let mode = options.mode.map(|mode| match mode {
        RecordMode::Stream => "stream",
        RecordMode::Flight => "flight",
        RecordMode::Block => "block",
    });
    let size = options.size.map(|size| size.to_string());
    for (name, value) in [("MODE", mode), ("EVENTS", options.events.as_deref()), ("SIZE", size.as_deref())] {
        if let Some(value) = value {
            command.env(format!("TRACEMILL_RECORD_{name}"), value);
        }
    }
    let rules = control::rules(options, "*")?;
    if !rules.is_empty() {
        command.env("TRACEMILL_RECORD_RULES", tracemill_record::control::rules(&rules));
    }
    let status = run_to_end(&mut command).map_err(|error| Error::io("run", &path, &error))?;
    finish_left(&folder, &known);
    if has_mark && folders_of(&folder).iter().all(|folder| known.contains(folder)) {
        notes::print_no_trace(&path, &folder);
    }
    Ok(status_of(status))
}

/// The folders that a program, its children and those that it becomes record into, as far as they are there: those of others
/// than the program have a number after the name.
fn folders_of(folder: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name().and_then(OsStr::to_str)) else {
        return Vec::new();
    };
    let is_of_program = |path: &PathBuf| {
        let number = path.file_name().and_then(OsStr::to_str).and_then(|other| other.strip_prefix(name));
        number.is_some_and(|number| {
            number.is_empty() || number.strip_prefix('.').is_some_and(|n| n.parse::<u64>().is_ok())
        })
    };
    let mut folders: Vec<PathBuf> =
        fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.retain(is_of_program);
    folders.sort();
    folders
}

/// Has a trace a ring? One without any may be one that somebody has just begun.
fn has_ring(folder: &Path) -> bool {
    let files = fs::read_dir(folder.join(tracemill_record::RINGS));
    files.into_iter().flatten().flatten().any(|file| file.path().extension().is_some_and(|end| end == "ring"))
}

/// Finishes what a program, its children and those that it became left in rings: it was killed, or became one that does not
/// record. Folders that were `known` before are not theirs.
fn finish_left(folder: &Path, known: &[PathBuf]) {
    let is_left = |path: &PathBuf| !known.contains(path) && has_ring(path);
    for folder in folders_of(folder).into_iter().filter(is_left) {
        match tracemill_record::recover(&folder) {
            Ok(recovered) => {
                let _ = writeln!(std::io::stderr(), "{}: the program did not finish it, it is now", folder.display());
                print_recovered(&folder, &recovered);
            }
            // A child that goes on finishes its own.
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {}
            Err(error) => report::error(&not_recovered(&folder, error)),
        }
    }
}

/// The file of a program, as a shell finds it.
pub(super) fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_path_buf());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Is a program linked with the recorder?
pub(super) fn has_mark(path: &Path) -> bool {
    let Ok(mut file) = std::fs::File::open(path) else { return false };
    let (mut buffer, mut kept) = (vec![0; 1 << 20], 0);
    loop {
        let Ok(read @ 1..) = file.read(&mut buffer[kept..]) else { return false };
        let len = kept + read;
        if buffer[..len].windows(MARK.len()).any(|window| window == MARK) {
            return true;
        }
        // The mark may lie across two pieces.
        kept = len.min(MARK.len() - 1);
        buffer.copy_within(len - kept..len, 0);
    }
}
