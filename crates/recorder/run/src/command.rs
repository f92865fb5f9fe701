//! The program that is recorded, and the loop beside it.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracemill_record::Bell;

use crate::answers::Answers;
use crate::descendants::{Descendants, FollowedProcesses, Heirs, RemainingProcess};
use crate::folder::{self, RunFacts};
use crate::left_rings;
use crate::patched::PatchedFunctions;
use crate::probes::RecordedProbes;
use crate::program::ProgramFile;
use crate::rings::Rings;
use crate::rules::{self, Describe, LibraryCalls, Selection};
use crate::times::ClockMapping;
use crate::unrecordable::unrecordable;

/// The library that is loaded before those of the program.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtracemill_calls.so"));
const LIBRARY_NAME: &str = "libtracemill_calls.so";

/// Time between two looks at the rings.
const LOOK: Duration = Duration::from_micros(500);
/// Time between two looks when nothing comes.
const IDLE: Duration = Duration::from_millis(5);
/// Time between the first two readings of the clocks, while the program starts.
const FIRST: Duration = Duration::from_millis(10);
/// Time after the end of the program after which it is said that others go on.
const TELL: Duration = Duration::from_secs(2);
/// Time between two readings of the clocks.
const PAIRS: Duration = Duration::from_millis(100);

/// Behaviour when a thread's ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// The thread waits.
    #[default]
    Wait,
    /// Its calls are lost, and counted.
    Lose,
    /// The ring is followed by one of twice the size, up to a limit; then the thread waits.
    Grow,
}

/// How to record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The data folder; what has its name is renamed.
    pub folder: PathBuf,
    /// The name that the program is called by, its argument 0; its path when `None`.
    pub name: Option<OsString>,
    /// Folder for the rings; one in memory when `None`.
    pub rings: Option<PathBuf>,
    /// Bytes of a slot of a ring, of which a thread has eight.
    pub slot_bytes: usize,
    /// Calls deeper than this are not recorded.
    pub depth: u16,
    /// Behaviour when a ring is full.
    pub when_full: WhenFull,
    /// Bytes of the slots of a ring that has grown, at most.
    pub largest_bytes: usize,
    /// Clock of the times.
    pub clock: SystemClock,
    /// Is the address space the same in each run?
    pub has_fixed_addresses: bool,
    /// Folder with files of symbols that stand for those of programs and libraries.
    pub symbols: Option<PathBuf>,
    /// Selection of calls.
    pub selection: Selection,
    /// Set when recording is to end although processes that came from the program go on. It counts once the program itself
    /// has ended; before that an interrupt is the program's.
    pub stop: Option<&'static AtomicBool>,
    /// Takes the records of tasks in place of the folder, whose files of tasks stay empty.
    pub send: Option<SendRecords>,
    /// Called once when processes go on for a while after the program has ended.
    pub waits_for: Option<fn(&Path, &[RemainingProcess])>,
}

/// A clock of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SystemClock {
    /// `CLOCK_MONOTONIC`.
    #[default]
    Mono,
    /// `CLOCK_MONOTONIC_RAW`, which is not slewed.
    MonoRaw,
    /// `CLOCK_BOOTTIME`, which goes on while the machine sleeps.
    Boot,
}

impl SystemClock {
    /// The number that the system has for it.
    fn number(self) -> i32 {
        match self {
            SystemClock::Mono => 1,
            SystemClock::MonoRaw => 4,
            SystemClock::Boot => 7,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            folder: PathBuf::from("uftrace.data"),
            name: None,
            rings: None,
            slot_bytes: 128 << 10,
            depth: 1024,
            when_full: WhenFull::Wait,
            largest_bytes: 256 << 20,
            clock: SystemClock::Mono,
            has_fixed_addresses: false,
            symbols: None,
            selection: Selection::default(),
            stop: None,
            send: None,
            waits_for: None,
        }
    }
}

/// A function that takes records of a task, by its id.
pub type SendFn = dyn Fn(u32, &[u8]) -> io::Result<()> + Send + Sync;

/// Takes records of a task, by its id.
#[derive(Clone)]
pub struct SendRecords(pub Arc<SendFn>);

impl fmt::Debug for SendRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendRecords")
    }
}

/// How a recording went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// How the program ended; `None` of a recording that was recovered.
    pub status: Option<ExitStatus>,
    /// Records in the folder.
    pub records: u64,
    /// Records that had no room.
    pub lost: u64,
    /// Why some of the recording could not be written, while the program went on.
    pub failed: Option<String>,
    /// Threads for which no ring could be made, and their calls.
    pub ringless: (u32, u64),
    /// The greatest depth, when there were calls beyond it, which are left out.
    pub too_deep: Option<u16>,
    /// Processes that came from the program and went on when recording was stopped.
    pub remaining: Vec<RemainingProcess>,
    /// Programs into which the recorder's library was loaded.
    pub sessions: usize,
    /// Calls of threads in seccomp's strict mode, in which no clock can be read.
    pub strict_calls: u64,
    /// The fate of functions that were to be patched.
    pub patches: PatchedFunctions,
    /// The probes of `sys/sdt.h`.
    pub probes: RecordedProbes,
    /// Processes that the system killed for a call that their seccomp filter forbids.
    pub killed_by_filter: u32,
    /// Programs that were started and could not be recorded.
    pub unrecordable: Vec<(PathBuf, ProgramFile)>,
    /// Files of programs and libraries whose symbols could not be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// Runs a program, and records its calls. `start` starts it when the folder is there; what that writes into the folder beside is
/// told in `info` at the end: events of the kernel, by `kernel_header`.
///
/// # Errors
/// When the folder cannot be made; those of `start`. The folder is left as far as it is then.
pub fn record(
    program: &Path,
    arguments: &[OsString],
    options: &Options,
    start: &mut dyn FnMut(&mut Command) -> io::Result<Child>,
) -> io::Result<Recorded> {
    let recording = Recording::begin(program, arguments, options)?;
    Descendants::adopt()?;
    let child = start(&mut recording.command(arguments, options, std::process::id())).inspect_err(|_| {
        let _ = remove_rings(&recording.folder);
    })?;
    recording.follow(arguments, FollowedProcesses::Descendants(Descendants::new(child.id())), options)
}

/// Becomes the program, whose calls the process records that `start` starts: it gets the id of this process, and gives its
/// own. Returns only when that is not possible.
pub fn become_program(
    program: &Path,
    arguments: &[OsString],
    options: &Options,
    start: impl FnOnce() -> io::Result<u32>,
) -> io::Error {
    let begun = Recording::begin(program, arguments, options);
    let command = begun.and_then(|recording| Ok(recording.command(arguments, options, start()?)));
    match command {
        Ok(mut command) => command.exec(),
        Err(error) => error,
    }
}

/// Records the calls of a process that [`become_program`] began, into the folder that is there.
///
/// # Errors
/// When files cannot be read or written.
pub fn record_beside(pid: u32, program: &Path, arguments: &[OsString], options: &Options) -> io::Result<Recorded> {
    let folder = options.folder.canonicalize()?;
    let rings = folder.join(tracemill_ring::FOLDER).canonicalize()?;
    let (program, rate) = (program.canonicalize()?, rate(options));
    let library = folder.join(LIBRARY_NAME);
    let rings_lock = left_rings::lock(&rings).ok();
    let begin = Instant::now();
    let recording = Recording { program, folder, rings, library, begin, rate, _rings_lock: rings_lock };
    // How it ended only its parent knows.
    let heirs = Heirs::new(pid, FOLDER_VARIABLE, recording.folder.as_os_str());
    recording.follow(arguments, FollowedProcesses::Process(heirs), options)
}

/// Runs a program that finds the library, and records nothing. `start` starts it.
///
/// # Errors
/// When the program cannot be started.
pub fn run_idle(
    program: &Path,
    arguments: &[OsString],
    start: &mut dyn FnMut(&mut Command) -> io::Result<Child>,
) -> io::Result<ExitStatus> {
    let library = std::env::temp_dir().join(format!("tracemill-{}-{LIBRARY_NAME}", std::process::id()));
    fs::write(&library, LIBRARY)?;
    let mut command = Command::new(program);
    let child = start(command.args(arguments).env("LD_PRELOAD", preload(library.clone())));
    let status = child.and_then(|mut child| child.wait());
    fs::remove_file(library)?;
    status
}

/// Counts of the clock in 2^20 ns; 0 when it is not needed.
fn rate(options: &Options) -> u64 {
    let selection = &options.selection;
    if selection.time_ns == 0 && selection.decide.is_none() {
        return 0;
    }
    let first = tracemill_record::clock_pair();
    std::thread::sleep(FIRST);
    let last = tracemill_record::clock_pair();
    let (counts, ns) = (last.cycles - first.cycles, last.monotonic_ns - first.monotonic_ns);
    u64::try_from((u128::from(counts) << 20) / u128::from(ns.max(1))).unwrap_or(0)
}

/// A time as uftrace reads it: three digits before the point and after it. What does not fit is cut off.
fn short_time(ns: u64) -> String {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (unit, scale) = units.into_iter().find(|(_, scale)| ns / scale < 1000).unwrap_or(("s", 1_000_000_000));
    let whole = (ns / scale).min(999);
    match ns % scale * 1000 / scale {
        0 => format!("{whole}{unit}"),
        part => format!("{whole}.{part:03}{unit}"),
    }
}

/// The words of a command.
fn words(program: &Path, arguments: &[OsString]) -> Vec<String> {
    let words = std::iter::once(program.as_os_str()).chain(arguments.iter().map(OsString::as_os_str));
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The libraries to load before those of the program.
fn preload(library: PathBuf) -> OsString {
    let mut preload = library.into_os_string();
    if let Some(known) = std::env::var_os("LD_PRELOAD") {
        preload.push(":");
        preload.push(known);
    }
    preload
}

/// Bytes of the longest path that the library has room for.
const LONGEST_PATH: usize = 400;

fn too_long(what: &str) -> io::Error {
    let message =
        format!("the path of {what} is longer than {LONGEST_PATH} bytes: there is no room for it in the program");
    io::Error::new(io::ErrorKind::InvalidFilename, message)
}

/// Writes the library, and gives it a name that the loader takes: to it blanks and colons divide libraries.
fn library(folder: &Path, rings: &Path) -> io::Result<PathBuf> {
    let is_whole = |path: &Path| !path.as_os_str().as_encoded_bytes().iter().any(|byte| b" \t\n:;".contains(byte));
    let library = folder.join(LIBRARY_NAME);
    fs::write(&library, LIBRARY)?;
    if is_whole(&library) {
        return Ok(library);
    }
    let link = rings.join(LIBRARY_NAME);
    if !is_whole(&link) {
        let message = "the loader of programs takes no library from a folder with a blank or a colon in its path, and the \
            folder of rings has one, too: --ring-dir names another";
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, message));
    }
    std::os::unix::fs::symlink(library, &link)?;
    Ok(link)
}

/// The state of a recording before its program runs.
struct Recording {
    program: PathBuf,
    folder: PathBuf,
    rings: PathBuf,
    /// The library, under a name that the loader takes.
    library: PathBuf,
    begin: Instant,
    /// Counts of the clock in 2^20 ns, when times are compared while recording.
    rate: u64,
    /// Tells other recorders that the rings are in use.
    _rings_lock: Option<fs::File>,
}

impl Recording {
    fn begin(program: &Path, arguments: &[OsString], options: &Options) -> io::Result<Recording> {
        if LIBRARY.is_empty() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "calls are recorded on x86-64 Linux only"));
        }
        let program = program.canonicalize()?;
        let folder = make_folder(&options.folder)?;
        if folder.as_os_str().len() > LONGEST_PATH {
            let _ = fs::remove_dir(&folder);
            return Err(too_long("the data folder"));
        }
        folder::begin(&folder, options.depth, &options.selection, &words(&program, arguments))?;
        if options.selection.time_ns > 0 {
            // Readers of the folder leave out the same calls.
            fs::write(folder.join("default.opts"), format!("-t {}", short_time(options.selection.time_ns)))?;
        }
        let (rings, rings_lock) = ring_folder(&folder, options.rings.as_deref())?;
        let recording = Recording::with_rings(program, &folder, rings, rings_lock, options);
        // A recording that never began leaves no rings to recover.
        recording.inspect_err(|_| {
            let _ = remove_rings(&folder);
        })
    }

    fn with_rings(
        program: PathBuf,
        folder: &Path,
        rings: PathBuf,
        rings_lock: Option<fs::File>,
        options: &Options,
    ) -> io::Result<Recording> {
        // Without it threads and the recorder look again after a while.
        let _ = Bell::make(&rings);
        if rings.as_os_str().len() > LONGEST_PATH {
            return Err(too_long("the folder of rings"));
        }
        let library = library(folder, &rings)?;
        let (folder, begin) = (folder.to_path_buf(), Instant::now());
        Ok(Recording { program, folder, rings, library, begin, rate: rate(options), _rings_lock: rings_lock })
    }

    /// The program with what the library needs to know.
    fn command(&self, arguments: &[OsString], options: &Options, recorder: u32) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(name) = &options.name {
            command.arg0(name);
        }
        command.args(arguments).env(FOLDER_VARIABLE, &self.folder).env("TRACEMILL_CALLS_RINGS", &self.rings);
        let slot = options.slot_bytes.next_power_of_two().clamp(4096, 16 << 20);
        let mut set = |name: &str, value: u64| {
            command.env(format!("TRACEMILL_CALLS_{name}"), value.to_string());
        };
        set("RECORDER", recorder.into());
        set("SLOT", slot as u64);
        set("DEPTH", options.depth.into());
        set("CLOCK", options.clock.number() as u64);
        if options.when_full == WhenFull::Grow {
            set("LARGEST", options.largest_bytes as u64);
        }
        let selection = &options.selection;
        set("TIME", rules::cycles(self.rate, selection.time_ns));
        set("SIZE", selection.size);
        match selection.library_calls {
            LibraryCalls::None => {}
            LibraryCalls::OfProgram => set("LIBRARIES", 1),
            LibraryCalls::OfAll => set("LIBRARIES", 2),
        }
        if let Some(depth) = selection.depth {
            // Without anything else it is a limit of the stack.
            match selection.is_needed() {
                true => set("NESTING", depth.into()),
                false => set("DEPTH", depth.min(options.depth).into()),
            }
        }
        let flags = [
            // A smaller depth is what was asked for.
            ("TELLS_DEPTH", selection.is_needed() || selection.depth.is_none_or(|depth| depth > options.depth)),
            ("FULL", selection.is_needed()),
            ("ANY", selection.of_any_program),
            ("OFF", selection.starts_off),
            ("GUESS", selection.guesses_ends),
            ("RULES", selection.decide.is_some()),
            ("PROBES", selection.probes.is_some()),
            ("LOSE", options.when_full == WhenFull::Lose),
            ("SYSTEM_CLOCK", !tracemill_record::has_counter()),
            ("FIXED", options.has_fixed_addresses),
        ];
        flags.into_iter().filter(|(_, is_set)| *is_set).for_each(|(name, _)| set(name, 1));
        // Return addresses are replaced, which shadow stacks of the processor are there to prevent.
        let tunables = std::env::var("GLIBC_TUNABLES").map_or_else(|_| String::new(), |known| known + ":");
        command.env("GLIBC_TUNABLES", tunables + "glibc.cpu.x86_shstk=off");
        command.env("LD_PRELOAD", preload(self.library.clone()));
        command
    }

    /// Takes what the program and its descendants record, to their end.
    fn follow(
        self,
        arguments: &[OsString],
        mut followed: FollowedProcesses,
        options: &Options,
    ) -> io::Result<Recorded> {
        let mut watch = RingWatch::new(Rings::new(&self.rings, &self.folder, true), options.clock);
        watch.rings.send.clone_from(&options.send);
        watch.rings.find_bell();
        watch.read_clocks();
        let selection = &options.selection;
        let mut answers = Answers::new(selection, self.rate, &self.rings);
        let mut waiting = WaitForOthers::default();
        let mut remaining = Vec::new();
        loop {
            answers.find_new(&self.folder)?;
            followed.poll()?;
            // Before the rings: what a process wrote before it ended is there then.
            let were_over = followed.are_over();
            let is_stopped = followed.is_program_over() && waiting.is_stopped(&followed, options);
            let rung = watch.rings.bell().map_or(0, Bell::signal_count);
            let (left, is_busy) = watch.find_rings(&is_dead).unwrap_or_else(|error| {
                // The program is to run to its end, and does not wait: the next look may succeed.
                watch.rings.failed.get_or_insert(error);
                (usize::from(!were_over), false)
            });
            if were_over && left == 0 {
                break;
            }
            if is_stopped {
                remaining = followed.remaining();
                watch.take_all();
                break;
            }
            watch.sleep(rung, if is_busy { LOOK } else { IDLE });
        }
        let status = followed.status();
        let run = RunFacts {
            command: words(&self.program, arguments),
            status: status.map(ExitStatusExt::into_raw),
            elapsed: self.begin.elapsed(),
            depth: options.depth,
            selection: selection.clone(),
            symbols: options.symbols.clone(),
            program: self.program,
        };
        let recorded = watch.finish(&self.folder, &run, status)?;
        let probes = answers.into_probes();
        Ok(Recorded { remaining, killed_by_filter: followed.killed_by_filter(), probes, ..recorded })
    }
}

/// The variable that gives programs the folder of their recording.
const FOLDER_VARIABLE: &str = "TRACEMILL_CALLS";

/// The time after the end of the program, while other processes go on.
#[derive(Default)]
struct WaitForOthers {
    since: Option<Instant>,
    is_told: bool,
}

impl WaitForOthers {
    /// Is recording to end before them? The user gets a message about them after a while.
    fn is_stopped(&mut self, followed: &FollowedProcesses, options: &Options) -> bool {
        let Some(since) = self.since else {
            // An interrupt until now was for the program.
            options.stop.inspect(|stop| stop.store(false, Ordering::SeqCst));
            self.since = Some(Instant::now());
            return false;
        };
        if !self.is_told && since.elapsed() >= TELL {
            self.is_told = true;
            let remaining = followed.remaining();
            options.waits_for.filter(|_| !remaining.is_empty()).inspect(|tell| tell(&options.folder, &remaining));
        }
        options.stop.is_some_and(|stop| stop.load(Ordering::SeqCst))
    }
}

/// Is this the folder of a recording of calls that was finished?
pub fn is_finished(folder: &Path) -> bool {
    !is_left(folder) && folder.join("task.txt").is_file() && folder::is_finished(folder)
}

/// Has a recording of this folder not been finished?
pub fn is_left(folder: &Path) -> bool {
    folder.join(tracemill_ring::FOLDER).exists()
}

/// Finishes a folder whose recorder died. `describe` is asked for what [`Selection::describe`] was, if files were described.
///
/// # Errors
/// When the program or its recorder still runs, another process finishes the folder at this moment, or files cannot be read
/// or written.
pub fn recover(folder: &Path, describe: impl FnOnce(&Selection) -> Option<Describe>) -> io::Result<Recorded> {
    let rings = folder.join(tracemill_ring::FOLDER).canonicalize()?;
    // The next recorder finishes what others left, too, and both would write the same files.
    let _lock = left_rings::lock(&rings).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::ResourceBusy, "its recorder still runs, or another process finishes it now")
        }
        _ => error,
    })?;
    recover_locked(folder, &rings, describe)
}

/// [`recover`] for who holds the lock on the folder of rings.
pub(crate) fn recover_locked(
    folder: &Path,
    rings: &Path,
    describe: impl FnOnce(&Selection) -> Option<Describe>,
) -> io::Result<Recorded> {
    let folder = folder.canonicalize()?;
    let mut rings = Rings::new(rings, &folder, false);
    rings.find_new()?;
    let mut watch = RingWatch::new(rings, SystemClock::Mono);
    watch.rings.find_bell();
    watch.rings.pairs().into_iter().for_each(|pair| watch.times.add(pair));
    let (left, _) = watch.rings.drain(&watch.times, &is_dead)?;
    if left > 0 {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the program that was recorded still runs"));
    }
    let tasks = fs::read_to_string(folder.join("task.txt")).unwrap_or_default();
    let program = tasks.lines().find_map(|line| line.split_once("exename=\"")?.1.strip_suffix('"')).unwrap_or_default();
    let mut run = folder::read_leftover(&folder);
    run.program = program.into();
    run.selection.describe = describe(&run.selection);
    watch.finish(&folder, &run, None)
}

/// Is a process over?
pub(crate) fn is_dead(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state follows the name, which may hold anything. It is that of the first thread, which may end before others.
    let has_ended = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']));
    has_ended && fs::read_dir(format!("/proc/{pid}/task")).map_or(true, |threads| threads.count() <= 1)
}

/// The rings of a recording and the clocks.
struct RingWatch {
    rings: Rings,
    times: ClockMapping,
    clock: SystemClock,
    pairs: u64,
    paired: Instant,
}

impl RingWatch {
    fn new(rings: Rings, clock: SystemClock) -> RingWatch {
        RingWatch { rings, times: ClockMapping::default(), clock, pairs: 0, paired: Instant::now() }
    }

    fn read_clocks(&mut self) {
        let pair = tracemill_record::clock_pair_of(self.clock.number());
        self.times.add(pair);
        self.rings.keep_pair(self.pairs, pair);
        self.pairs += 1;
        self.paired = Instant::now();
    }

    fn find_rings(&mut self, is_dead: &dyn Fn(u32) -> bool) -> io::Result<(usize, bool)> {
        let found = self.rings.find_new();
        // Lines need two readings, some time apart.
        if self.pairs == 1 {
            std::thread::sleep(FIRST);
            self.read_clocks();
        }
        if self.paired.elapsed() >= PAIRS {
            self.read_clocks();
        }
        // Rings that are known already must not wait for one that cannot be opened.
        let drained = self.rings.drain(&self.times, is_dead);
        found.and(drained)
    }

    /// Takes all that threads have written up to now, of processes that go on as well: recording ends.
    fn take_all(&mut self) {
        self.rings.recheck_processes();
        if let Err(error) = self.find_rings(&|_| true) {
            self.rings.failed.get_or_insert(error);
        }
    }

    /// Waits for threads that have more: so long, or until a ring is half full.
    fn sleep(&self, rung: u32, time: Duration) {
        match self.rings.bell() {
            Some(bell) => bell.sleep(rung, time),
            None => std::thread::sleep(time),
        }
    }

    fn finish(self, folder: &Path, run: &RunFacts, status: Option<ExitStatus>) -> io::Result<Recorded> {
        let finished = folder::finish(folder, run);
        let bell = self.rings.bell();
        let mut recorded = Recorded {
            status,
            records: self.rings.records(),
            lost: self.rings.lost,
            ringless: bell.map_or((0, 0), Bell::ringless),
            too_deep: bell.filter(|bell| bell.is_too_deep()).map(|_| run.depth),
            failed: self.rings.failed.as_ref().map(ToString::to_string),
            remaining: Vec::new(),
            sessions: folder::sessions(folder),
            strict_calls: bell.map_or(0, Bell::strict_calls),
            patches: bell.map_or_else(PatchedFunctions::default, PatchedFunctions::counted),
            probes: RecordedProbes::default(),
            killed_by_filter: 0,
            unrecordable: unrecordable(&folder.join(tracemill_ring::FOLDER)),
            unreadable: Vec::new(),
        };
        let error = finished.map(|unreadable| recorded.unreadable = unreadable).err();
        if let Some(error) = error {
            // The program is over: what it did is its status, whatever became of the recording. That can be finished later.
            recorded.failed = recorded.failed.or(Some(error.to_string())).filter(|_| status.is_some());
            return if recorded.failed.is_some() { Ok(recorded) } else { Err(error) };
        }
        remove_rings(folder)?;
        let _ = fs::remove_file(folder.join(LIBRARY_NAME));
        Ok(recorded)
    }
}

/// Makes the data folder; one of its name becomes `.old`, as uftrace does it.
fn make_folder(folder: &Path) -> io::Result<PathBuf> {
    if folder.exists() {
        let is_recording = folder.join("info").is_file() || fs::read_dir(folder)?.next().is_none();
        if !is_recording {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is not a recording of calls"));
        }
        let mut old = folder.as_os_str().to_owned();
        old.push(".old");
        if Path::new(&old).join("info").is_file() {
            fs::remove_dir_all(&old)?;
        }
        fs::rename(folder, &old)?;
    }
    fs::create_dir_all(folder)?;
    folder.canonicalize()
}

/// Makes the folder of rings: in memory where that can be had. The data folder has a link to it, for a recovery. It is in use
/// as long as the file is open, that is given where there is such a folder.
fn ring_folder(folder: &Path, wanted: Option<&Path>) -> io::Result<(PathBuf, Option<fs::File>)> {
    let link = folder.join(tracemill_ring::FOLDER);
    let parent = wanted.map(Path::canonicalize).transpose()?;
    match left_rings::make(parent.as_deref().unwrap_or(Path::new(left_rings::IN_MEMORY)), folder) {
        Ok((path, lock)) => {
            std::os::unix::fs::symlink(&path, &link)?;
            Ok((path, Some(lock)))
        }
        Err(_) if wanted.is_some() => Err(io::Error::other("the folder for rings cannot be written")),
        Err(_) => fs::create_dir(&link).map(|()| (link, None)),
    }
}

/// Removes the rings of a recording, and the link to them.
fn remove_rings(folder: &Path) -> io::Result<()> {
    let rings = folder.join(tracemill_ring::FOLDER);
    match fs::read_link(&rings) {
        Ok(target) => {
            let _ = fs::remove_dir_all(target);
            fs::remove_file(&rings)
        }
        Err(_) => fs::remove_dir_all(&rings),
    }
}
