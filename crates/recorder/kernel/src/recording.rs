//! A recording from its beginning to its end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tracemill_ftrace::write::{Description, Options as FileOptions};
use tracemill_model::error::{Error, Result};

use crate::pages;
use crate::parts;
use crate::tracefs::{self, Chosen, Instance, Tracefs, read};

/// Time between two looks at the program.
const LOOK: Duration = Duration::from_millis(5);
/// First bytes of a `trace.dat`.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Settings of a recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The file that is made; one of trace-cmd or of an earlier recording is replaced when the new one is whole.
    pub output: PathBuf,
    /// The events: `SYSTEM:NAME`, `SYSTEM` or `NAME`, each with globs; ` if CONDITION` after them is the kernel's filter.
    pub events: Vec<String>,
    /// Record functions of the kernel as well, nested at most so deep; 0 is any depth.
    pub functions: Option<u32>,
    /// Record all tasks, not only the program and those that it makes.
    pub all_tasks: bool,
    /// Size of the buffer of each CPU, in KiB.
    pub buffer_kib: u64,
    /// Clock of the times, by the kernel's name: `mono`, `mono_raw`, `boot`.
    pub clock: &'static str,
    /// Folder in which the tracer is; without one that of `TRACEMILL_TRACEFS`, then tracefs where it is mounted, then one
    /// that only this process sees.
    pub tracefs: Option<PathBuf>,
    /// Called with the process id of the program once it runs, such as to pass signals on to it.
    pub on_start: Option<fn(u32)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            output: PathBuf::from("trace.dat"),
            events: Vec::new(),
            functions: None,
            all_tasks: false,
            buffer_kib: 4096,
            clock: "mono",
            tracefs: None,
            on_start: None,
        }
    }
}

/// Result of a recording.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// Exit status of the program; `None` without one, and of a recording that was recovered.
    pub status: Option<ExitStatus>,
    /// Pages in the file.
    pub pages: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Events that were written over before they could be moved, or had no room.
    pub lost: u64,
    /// Why pages are missing that the kernel had: what was moved before is there.
    pub failed: Option<String>,
}

/// Records events of the kernel while a program runs, or, without one, until `must_stop` says so.
///
/// # Errors
/// When tracefs cannot be had or used, an event is not there, the program cannot be started, or the file not be written.
pub fn record(command: Option<Command>, options: &Options, must_stop: &(dyn Fn() -> bool + Sync)) -> Result<Recorded> {
    refuse_other_file(&options.output)?;
    let tracefs = Tracefs::find(options.tracefs.as_deref())?;
    let (chosen, instance) = set_up(&tracefs, options)?;
    let output = &options.output;
    let folder = parts::folder(output);
    let failed = |error: io::Error| Error::io("make the recording", output, &error);
    let page_bytes = page_bytes(&instance);
    let cpus = instance.cpus()?;
    let begun = prepare(&folder, &tracefs, &instance, &chosen, page_bytes, &cpus)
        .and_then(|()| add_comms(&folder, &tracefs))
        .and_then(|()| cpu_files(&folder, &instance, &cpus))
        .map_err(failed)
        .and_then(|files| instance.limit_depth().map(|()| files));
    let files = begun.inspect_err(|_| {
        let _ = fs::remove_dir_all(&folder);
    })?;
    let is_over = AtomicBool::new(false);
    let (status, moved) = std::thread::scope(|scope| {
        let copies: Vec<_> = files
            .iter()
            .map(|(from, to)| scope.spawn(|| pages::copy(from, to, page_bytes as usize, &is_over)))
            .collect();
        let status = watch(command, &instance, options, must_stop);
        instance.try_set("tracing_on", "0");
        is_over.store(true, Ordering::Relaxed);
        let broken = || Err(io::Error::other("a thread that moves pages has failed"));
        let moved: io::Result<Vec<u64>> =
            copies.into_iter().map(|copy| copy.join().unwrap_or_else(|_| broken())).collect();
        (status, moved)
    });
    let status = status.inspect_err(|_| {
        // A recording that could not start leaves no files: its error is reported.
        let _ = fs::remove_dir_all(&folder);
    })?;
    // The data that was moved is kept, even when there is no room for the output.
    let known = describe_end(&folder, &tracefs, &instance, &cpus);
    let finished = moved.and(known).and_then(|lost| Ok(Recorded { lost, ..parts::finish(output)? }));
    Ok(match finished {
        Ok(recorded) => Recorded { status, ..recorded },
        Err(error) => {
            let lost = losses(&instance, &cpus).0;
            Recorded { status, lost, failed: Some(error.to_string()), ..Recorded::default() }
        }
    })
}

/// An instance that is ready to record the chosen events.
pub(crate) fn set_up<'t>(tracefs: &'t Tracefs, options: &Options) -> Result<(Vec<Chosen>, Instance<'t>)> {
    let chosen = tracefs.choose(&options.events)?;
    let instance = Instance::new(tracefs)?;
    instance.set("trace_clock", options.clock)?;
    instance.set("buffer_size_kb", &options.buffer_kib.to_string())?;
    // A reader is woken when the buffer is half full, where the kernel can wait for that.
    instance.try_set("buffer_percent", "50");
    for event in &chosen {
        instance.enable(event)?;
    }
    let instance = match options.functions {
        Some(depth) => instance.with_functions(depth)?,
        None => instance,
    };
    Ok((chosen, instance))
}

/// Finishes the recording of a recorder that was killed. Pages that are still with the kernel are taken, unless another
/// recording has begun since, or tracefs is not to be had any more.
///
/// `tracefs` is as [`Options::tracefs`].
///
/// # Errors
/// When there is no such recording, its recorder still runs, or files cannot be read or written.
pub fn recover(output: &Path, tracefs: Option<&Path>) -> io::Result<Recorded> {
    let folder = parts::folder(output);
    let name = fs::read_to_string(folder.join(parts::INSTANCE))?;
    let (name, tracefs) = (name.trim(), Tracefs::find(tracefs).ok());
    if tracefs::is_alive(name) {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "its recorder still runs"));
    }
    if let (Some(tracefs), Ok(depth)) = (&tracefs, fs::read_to_string(folder.join(parts::DEPTH))) {
        tracefs.put_back_depth(&depth);
    }
    let instance = tracefs.as_ref().and_then(|tracefs| Some((tracefs, Instance::leftover(tracefs, name)?)));
    let Some((tracefs, instance)) = instance else { return parts::finish(output) };
    instance.try_set("tracing_on", "0");
    let cpus = instance.cpus().map_err(|error| io::Error::other(error.to_string()))?;
    let page_bytes = parts::page_bytes(&folder)?;
    for (from, file) in cpu_files(&folder, &instance, &cpus)? {
        pages::copy(&from, &file, page_bytes as usize, &AtomicBool::new(true))?;
    }
    let lost = describe_end(&folder, tracefs, &instance, &cpus)?;
    Ok(Recorded { lost, ..parts::finish(output)? })
}

/// Notes what is known at the end, and gives the number of events that were lost.
fn describe_end(folder: &Path, tracefs: &Tracefs, instance: &Instance<'_>, cpus: &[u32]) -> io::Result<u64> {
    add_comms(folder, tracefs)?;
    let (options, lost) = file_options(instance, cpus);
    parts::replace(&folder.join(parts::OPTIONS), options.as_bytes())?;
    Ok(lost)
}

/// For each CPU the kernel's file of its pages and ours, whose whole pages stay.
fn cpu_files(folder: &Path, instance: &Instance<'_>, cpus: &[u32]) -> io::Result<Vec<(PathBuf, File)>> {
    let page_bytes = u64::from(parts::page_bytes(folder)?);
    let file = |cpu: &u32| {
        let file = File::options().create(true).append(true).open(folder.join(format!("cpu{cpu}")))?;
        let bytes = file.metadata()?.len();
        file.set_len(bytes - bytes % page_bytes)?;
        drop(file);
        // Pages are moved after those; a file that is opened to append takes none from a pipe.
        let mut file = File::options().write(true).open(folder.join(format!("cpu{cpu}")))?;
        file.seek(SeekFrom::End(0))?;
        Ok((instance.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw")), file))
    };
    cpus.iter().map(file).collect()
}

/// Adds the names of tasks that the kernel knows to those of the recording: it keeps only those of the last ones.
fn add_comms(folder: &Path, tracefs: &Tracefs) -> io::Result<()> {
    let path = folder.join(parts::COMMS);
    let mut names = BTreeMap::new();
    for text in [fs::read(&path).unwrap_or_default(), tracefs.read("saved_cmdlines")] {
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some((pid, name)) = line.trim_start().split_once(' ')
                && let Ok(pid) = pid.parse::<u64>()
            {
                names.insert(pid, name.to_string());
            }
        }
    }
    let text: String = names.iter().map(|(pid, name)| format!("{pid} {name}\n")).collect();
    parts::replace(&path, text.as_bytes())
}

/// A file that is no recording is not replaced by one.
fn refuse_other_file(output: &Path) -> Result<()> {
    let refused = |why: &str| Err(Error::misuse(why).in_file(output).with_help("give the file another name with -o"));
    match fs::metadata(output) {
        Err(_) => Ok(()),
        Ok(of) if of.is_dir() => refused("the output is a folder"),
        Ok(of) if of.len() == 0 => Ok(()),
        Ok(_) => {
            let mut begin = Vec::new();
            let read = File::open(output).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut begin));
            match read.is_ok() && begin != MAGIC {
                true => refused("it exists and is not a recording of kernel events"),
                false => Ok(()),
            }
        }
    }
}

/// Runs the program to its end, or waits.
fn watch(
    command: Option<Command>,
    instance: &Instance<'_>,
    options: &Options,
    must_stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<ExitStatus>> {
    let Some(mut command) = command else {
        instance.set("tracing_on", "1")?;
        while !must_stop() {
            std::thread::sleep(LOOK);
        }
        return Ok(None);
    };
    let mut child = start(&mut command, instance, options)?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(Some(status)),
            Ok(None) => std::thread::sleep(LOOK),
            Err(error) => return Err(Error::io("wait for", Path::new("the program"), &error)),
        }
    }
}

/// Starts a program, of which events are recorded from its first instant.
pub(crate) fn start(command: &mut Command, instance: &Instance<'_>, options: &Options) -> Result<Child> {
    let start = move || -> Result<Child> {
        if !options.all_tasks {
            // Recorded are this thread and what it begins: so the program is, from its first instant, and when this thread
            // has ended only the program is left.
            let this = rustix::thread::gettid().as_raw_nonzero().to_string();
            instance.set("options/event-fork", "1")?;
            instance.set("set_event_pid", &this)?;
            if options.functions.is_some() {
                instance.set("options/function-fork", "1")?;
                instance.set("set_ftrace_pid", &this)?;
            }
        }
        instance.set("tracing_on", "1")?;
        let child = command.spawn();
        let child = child.map_err(|error| Error::io("run", Path::new(command.get_program()), &error))?;
        if let Some(tell) = options.on_start {
            tell(child.id());
        }
        Ok(child)
    };
    let started = std::thread::scope(|scope| scope.spawn(start).join());
    started.unwrap_or_else(|_| Err(Error::unsupported("the thread that runs the program has failed")))
}

/// Bytes of a page of the ring buffer.
pub(crate) fn page_bytes(instance: &Instance<'_>) -> u32 {
    let text = String::from_utf8_lossy(&instance.read("buffer_subbuf_size_kb")).trim().parse::<u32>();
    text.ok()
        .and_then(|kib| kib.checked_mul(1024))
        .filter(|bytes| *bytes > 0)
        .unwrap_or(rustix::param::page_size() as u32)
}

/// Writes what is known before the first event.
fn prepare(
    folder: &Path,
    tracefs: &Tracefs,
    instance: &Instance<'_>,
    chosen: &[Chosen],
    page_bytes: u32,
    cpus: &[u32],
) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir(folder)?;
    let mut systems: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    for event in chosen {
        let format = instance.read(&format!("events/{}/{}/format", event.system, event.name));
        systems.entry(&event.system).or_default().push(format);
    }
    let mut ftrace = Vec::new();
    let mut names: Vec<PathBuf> = fs::read_dir(tracefs.path("events/ftrace"))
        .map(|entries| entries.flatten().map(|entry| entry.path().join("format")).collect())
        .unwrap_or_default();
    names.sort();
    for name in names {
        ftrace.extend(Some(read(&name)).filter(|format| !format.is_empty()));
    }
    let description = Description {
        page_bytes,
        header_page: tracefs.read("events/header_page"),
        header_event: tracefs.read("events/header_event"),
        ftrace,
        systems: systems.into_iter().map(|(system, formats)| (system.to_string(), formats)).collect(),
        symbols: symbols(),
        printk_formats: tracefs.read("printk_formats"),
    };
    fs::write(folder.join(parts::HEAD), description.head())?;
    fs::write(folder.join(parts::PAGE_BYTES), format!("{page_bytes}\n"))?;
    fs::write(folder.join(parts::INSTANCE), instance.name())?;
    if let Some(depth) = instance.changed_depth() {
        fs::write(folder.join(parts::DEPTH), depth)?;
    }
    let (options, _) = file_options(instance, cpus);
    fs::write(folder.join(parts::OPTIONS), options.as_bytes())
}

/// The number of events that these CPUs lost, and what the kernel counts of each.
pub(crate) fn losses(instance: &Instance<'_>, cpus: &[u32]) -> (u64, Vec<String>) {
    let mut lost = 0;
    let statistics = cpus.iter().map(|cpu| {
        let text = instance.read(&format!("per_cpu/cpu{cpu}/stats"));
        let text = String::from_utf8_lossy(&text).into_owned();
        for line in text.lines() {
            if let Some(("overrun" | "dropped events" | "commit overrun", count)) = line.split_once(": ") {
                lost += count.trim().parse::<u64>().unwrap_or(0);
            }
        }
        text
    });
    let statistics = statistics.collect();
    (lost, statistics)
}

/// The symbols of the kernel; nothing without the permission to see addresses, which are all zeros then, and of no use.
pub(crate) fn symbols() -> Vec<u8> {
    let symbols = read(Path::new("/proc/kallsyms"));
    let has_addresses =
        symbols.split(|byte| *byte == b'\n').take(64).any(|line| line.iter().take(16).any(|b| *b != b'0'));
    if has_addresses { symbols } else { Vec::new() }
}

/// Options of the file, and the number of events that these CPUs lost.
fn file_options(instance: &Instance<'_>, cpus: &[u32]) -> (FileOptions, u64) {
    let mut options = FileOptions::default();
    let ns = |clock| {
        let time = clock_gettime(clock);
        i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
    };
    let offset = ns(ClockId::Realtime) - ns(ClockId::Monotonic);
    options.date(i64::try_from(offset / 1000).unwrap_or(0));
    options.clock(&String::from_utf8_lossy(&instance.read("trace_clock")));
    let system = rustix::system::uname();
    let words = [system.sysname(), system.nodename(), system.release(), system.version(), system.machine()];
    options.uname(&words.map(|word| word.to_string_lossy().into_owned()).join(" "));
    let (lost, statistics) = losses(instance, cpus);
    for (cpu, text) in cpus.iter().zip(statistics) {
        options.cpu_statistics(&format!("CPU: {cpu}\n{text}"));
    }
    if let Some(last) = cpus.last() {
        options.cpu_count(last + 1);
    }
    (options, lost)
}
