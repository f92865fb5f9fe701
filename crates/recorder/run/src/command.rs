//! The program that is recorded, and the loop beside it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::elf::Elf;
use crate::folder::{self, Run};
use crate::rings::Rings;
use crate::times::Times;

/// The library that is loaded before those of the program.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtracemill_calls.so"));
const LIBRARY_NAME: &str = "libtracemill_calls.so";

/// Time between two looks at the rings.
const LOOK: Duration = Duration::from_micros(500);
/// Time between two looks when nothing comes.
const IDLE: Duration = Duration::from_millis(5);
/// Time between two readings of the clocks.
const PAIRS: Duration = Duration::from_millis(100);

/// What happens when a thread's ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// The thread waits.
    #[default]
    Wait,
    /// Its calls are lost, and counted.
    Lose,
}

/// How to record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The data folder; what has its name is renamed.
    pub folder: PathBuf,
    /// Folder for the rings; one in memory when `None`.
    pub rings: Option<PathBuf>,
    /// Bytes of a slot of a ring, of which a thread has eight.
    pub slot_bytes: usize,
    /// Calls deeper than this are not recorded.
    pub depth: u16,
    /// What happens when a ring is full.
    pub when_full: WhenFull,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            folder: PathBuf::from("uftrace.data"),
            rings: None,
            slot_bytes: 128 << 10,
            depth: 1024,
            when_full: WhenFull::Wait,
        }
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
}

/// How a program was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Built {
    /// It tells its calls.
    ForCalls,
    /// Its functions can be patched, which is not done yet.
    Patchable,
    /// It tells nothing.
    Plain,
    /// It is no program of this system.
    Unknown,
}

/// Finds out how a program was built.
pub fn built(program: &Path) -> Built {
    let Some(elf) = fs::read(program).ok().and_then(|bytes| Elf::read(&bytes)) else { return Built::Unknown };
    let tells = ["mcount", "_mcount", "__fentry__", "__cyg_profile_func_enter"];
    match elf.wanted.iter().any(|name| tells.contains(&name.as_str())) {
        true => Built::ForCalls,
        false if elf.is_patchable => Built::Patchable,
        false => Built::Plain,
    }
}

/// Runs a program, and records its calls.
///
/// # Errors
/// When the folder cannot be made, or the program cannot be started; the folder is left as far as it is then.
pub fn record(program: &Path, arguments: &[OsString], options: &Options) -> io::Result<Recorded> {
    if LIBRARY.is_empty() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "calls are recorded on x86-64 Linux only"));
    }
    let program = program.canonicalize()?;
    let folder = make_folder(&options.folder)?;
    folder::begin(&folder, options.depth)?;
    let rings = ring_folder(&folder, options.rings.as_deref())?;
    let library = folder.join(LIBRARY_NAME);
    fs::write(&library, LIBRARY)?;
    let mut watch = Watch::new(Rings::new(&rings, &folder));
    watch.read_clocks();
    std::thread::sleep(Duration::from_millis(10));
    watch.read_clocks();
    let begin = Instant::now();
    let mut command = Command::new(&program);
    command.args(arguments).env("TRACEMILL_CALLS", &folder).env("TRACEMILL_CALLS_RINGS", &rings);
    command.env("TRACEMILL_CALLS_RECORDER", std::process::id().to_string());
    command.env("TRACEMILL_CALLS_SLOT", options.slot_bytes.next_power_of_two().clamp(4096, 16 << 20).to_string());
    command.env("TRACEMILL_CALLS_DEPTH", options.depth.to_string());
    if options.when_full == WhenFull::Lose {
        command.env("TRACEMILL_CALLS_LOSE", "1");
    }
    if !tracemill_record::has_counter() {
        command.env("TRACEMILL_CALLS_SYSTEM_CLOCK", "1");
    }
    // Return addresses are replaced, which shadow stacks of the processor are there to prevent.
    let tunables = std::env::var("GLIBC_TUNABLES").map_or_else(|_| String::new(), |known| known + ":");
    command.env("GLIBC_TUNABLES", tunables + "glibc.cpu.x86_shstk=off");
    let mut preload = library.into_os_string();
    if let Some(known) = std::env::var_os("LD_PRELOAD") {
        preload.push(":");
        preload.push(known);
    }
    command.env("LD_PRELOAD", preload);
    let mut child = command.spawn()?;
    let mut status = None;
    loop {
        if status.is_none() {
            status = child.try_wait()?;
        }
        let was_over = status.is_some();
        let (left, is_busy) = watch.look(&is_dead)?;
        // Children that go on alone are recorded, too.
        if was_over && left == 0 {
            break;
        }
        std::thread::sleep(if is_busy { LOOK } else { IDLE });
    }
    let words = std::iter::once(program.as_os_str()).chain(arguments.iter().map(OsString::as_os_str));
    let run = Run {
        command: words.map(|word| word.to_string_lossy().into_owned()).collect(),
        program,
        status: status.map(ExitStatusExt::into_raw),
        elapsed: begin.elapsed(),
        depth: options.depth,
    };
    watch.finish(&folder, &run, status)
}

/// Finishes a folder whose recorder died.
///
/// # Errors
/// When the program still runs, or files cannot be read or written.
pub fn recover(folder: &Path) -> io::Result<Recorded> {
    let folder = folder.canonicalize()?;
    let rings = folder.join(tracemill_ring::FOLDER).canonicalize()?;
    let mut rings = Rings::new(&rings, &folder);
    rings.look()?;
    let mut watch = Watch::new(rings);
    watch.rings.pairs().into_iter().for_each(|pair| watch.times.add(pair));
    let (left, _) = watch.rings.drain(&watch.times, &is_dead)?;
    if left > 0 {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the program that was recorded still runs"));
    }
    let tasks = fs::read_to_string(folder.join("task.txt")).unwrap_or_default();
    let program = tasks.lines().find_map(|line| line.split_once("exename=\"")?.1.strip_suffix('"')).unwrap_or_default();
    let run = Run { program: program.into(), command: vec![program.into()], depth: 1024, ..Run::default() };
    watch.finish(&folder, &run, None)
}

/// Does the folder hold a recording of calls?
pub(crate) fn is_dead(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state follows the name, which may hold anything.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// The rings of a recording and the clocks.
struct Watch {
    rings: Rings,
    times: Times,
    pairs: u64,
    paired: Instant,
}

impl Watch {
    fn new(rings: Rings) -> Watch {
        Watch { rings, times: Times::default(), pairs: 0, paired: Instant::now() }
    }

    fn read_clocks(&mut self) {
        let pair = tracemill_record::clock_pair();
        self.times.add(pair);
        self.rings.keep_pair(self.pairs, pair);
        self.pairs += 1;
        self.paired = Instant::now();
    }

    fn look(&mut self, is_dead: &dyn Fn(u32) -> bool) -> io::Result<(usize, bool)> {
        self.rings.look()?;
        if self.paired.elapsed() >= PAIRS {
            self.read_clocks();
        }
        self.rings.drain(&self.times, is_dead)
    }

    fn finish(self, folder: &Path, run: &Run, status: Option<ExitStatus>) -> io::Result<Recorded> {
        folder::finish(folder, run)?;
        let rings = folder.join(tracemill_ring::FOLDER);
        if let Ok(target) = fs::read_link(&rings) {
            let _ = fs::remove_dir_all(target);
            fs::remove_file(&rings)?;
        } else {
            fs::remove_dir_all(&rings)?;
        }
        let _ = fs::remove_file(folder.join(LIBRARY_NAME));
        Ok(Recorded { status, records: self.rings.records(), lost: self.rings.lost })
    }
}

/// Makes the data folder; one of its name becomes `.old`, as uftrace does it.
fn make_folder(folder: &Path) -> io::Result<PathBuf> {
    if folder.exists() {
        let is_recording = folder.join("info").is_file() || fs::read_dir(folder)?.next().is_none();
        if !is_recording {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is no recording of calls"));
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

/// Makes the folder of rings: in memory where that can be had. The data folder has a link to it, for a recovery.
fn ring_folder(folder: &Path, wanted: Option<&Path>) -> io::Result<PathBuf> {
    let link = folder.join(tracemill_ring::FOLDER);
    let name = format!("tracemill-{}-{}", std::process::id(), tracemill_record::clock_pair().monotonic_ns);
    let outside = match wanted {
        Some(wanted) => Some(wanted.canonicalize()?.join(&name)),
        None => Some(Path::new("/dev/shm").join(&name)),
    };
    let made = outside.filter(|path| fs::create_dir(path).is_ok());
    match made {
        Some(path) => {
            std::os::unix::fs::symlink(&path, &link)?;
            Ok(path)
        }
        None if wanted.is_some() => Err(io::Error::other("the folder for rings cannot be written")),
        None => fs::create_dir(&link).map(|()| link),
    }
}
