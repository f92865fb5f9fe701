//! The process: what the recorder wants of it, and what it tells the recorder: sessions, tasks, forks, libraries.

use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::system::{self, Text};
use crate::{bell, exec, fork, full, patch, rules, stubs, thread};

/// The settings that the environment has.
pub(crate) struct Settings {
    pub(crate) slot_size: AtomicUsize,
    pub(crate) depth: AtomicUsize,
    /// Is it said when calls are deeper?
    pub(crate) tells_depth: AtomicBool,
    pub(crate) waits: AtomicBool,
    /// Bytes of the slots of a ring that has grown, at most; 0 when rings do not grow.
    pub(crate) largest: AtomicUsize,
    clock: AtomicI32,
    /// Are calls selected one by one?
    pub(crate) is_full: AtomicBool,
    /// Are ends of calls guessed?
    pub(crate) guesses: AtomicBool,
    /// Depth below what is let in.
    pub(crate) nesting: AtomicUsize,
    /// Shortest time of a call, in counts of the clock.
    pub(crate) time: AtomicU64,
    /// Smallest size of a function.
    pub(crate) size: AtomicU64,
}

impl Settings {
    /// The clock of the lines of sessions and tasks, as the system numbers it.
    pub(crate) fn clock(&self) -> c_int {
        self.clock.load(Ordering::Relaxed)
    }
}

pub(crate) static SETTINGS: Settings = Settings {
    slot_size: AtomicUsize::new(128 << 10),
    depth: AtomicUsize::new(1024),
    tells_depth: AtomicBool::new(false),
    waits: AtomicBool::new(true),
    largest: AtomicUsize::new(0),
    clock: AtomicI32::new(1),
    is_full: AtomicBool::new(false),
    guesses: AtomicBool::new(false),
    nesting: AtomicUsize::new(usize::MAX),
    time: AtomicU64::new(0),
    size: AtomicU64::new(0),
};

static IS_ON: AtomicBool = AtomicBool::new(false);
static KEY: AtomicU32 = AtomicU32::new(0);
static RECORDER: AtomicI32 = AtomicI32::new(0);

/// A path that is set once, at the start.
struct Path(std::cell::UnsafeCell<[u8; 512]>, AtomicUsize);

// SAFETY: written by the constructor, before there are threads.
unsafe impl Sync for Path {}

impl Path {
    const fn new() -> Path {
        Path(std::cell::UnsafeCell::new([0; 512]), AtomicUsize::new(0))
    }

    fn set(&self, bytes: &[u8]) -> bool {
        if bytes.len() > 400 {
            return false;
        }
        // SAFETY: the constructor writes before there are other threads, and the length was looked at.
        unsafe { (&mut *self.0.get())[..bytes.len()].copy_from_slice(bytes) };
        self.1.store(bytes.len(), Ordering::Release);
        true
    }

    fn get(&self) -> &[u8] {
        // SAFETY: nobody writes any more once the length is there.
        unsafe { &(&*self.0.get())[..self.1.load(Ordering::Acquire)] }
    }
}

static FOLDER: Path = Path::new();
static RINGS: Path = Path::new();
static SESSION: Path = Path::new();

/// Are calls recorded?
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// The folder of rings.
pub(crate) fn ring_folder() -> &'static [u8] {
    RINGS.get()
}

/// Does the recorder live?
pub(crate) fn has_recorder() -> bool {
    system::is_process(RECORDER.load(Ordering::Relaxed))
}

/// Has a thread's data looked after when the thread ends.
pub(crate) unsafe fn set_key(pages: *mut c_void) {
    // SAFETY: the key was made at the start; the pages live until its destructor gets them.
    unsafe { system::pthread_setspecific(KEY.load(Ordering::Relaxed), pages) };
}

/// Appends a line to the list of tasks, by one write.
pub(crate) fn tell(line: &Text) {
    let name = Text::new().add(FOLDER.get()).add(b"/task.txt");
    // SAFETY: the name and the bytes of the line outlive the calls, which take no more than their length.
    unsafe {
        let file = system::open(name.as_ptr(), system::O_WRONLY_CREAT_APPEND_CLOEXEC, 0o644);
        if file >= 0 {
            system::write(file, line.bytes().as_ptr().cast(), line.bytes().len());
            system::close(file);
        }
    }
}

/// Tells that a library was loaded.
pub(crate) fn tell_library(time: u64, base: u64, path: &[u8]) {
    let line = Text::new().add(b"DLOP timestamp=").time(time).add(b" tid=").number(system::gettid().into(), 1);
    let line = line.add(b" sid=").add(SESSION.get()).add(b" base=").hex(base).add(b" libname=\"");
    tell(&line.add(path).add(b"\"\n"));
}

/// Tells of the calling thread.
pub(crate) fn tell_task(time: u64) {
    // SAFETY: it takes nothing and cannot fail.
    let (tid, pid) = (system::gettid(), unsafe { system::getpid() });
    let line = Text::new().add(b"TASK timestamp=").time(time).add(b" tid=").number(tid.into(), 1);
    tell(&line.add(b" pid=").number(pid as u64, 1).add(b"\n"));
}

/// Sets a number from the environment.
fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// The loader gives it what `main` gets.
extern "C" fn at_start(_count: c_int, arguments: *const *const c_char, environment: *const *const c_char) {
    let Some(folder) = std::env::var_os("TRACEMILL_CALLS") else { return };
    if number("TRACEMILL_CALLS_FIXED").is_some() {
        // SAFETY: both are the lists of the process, which end with a null pointer.
        unsafe { fix_addresses(arguments, environment) };
    }
    SETTINGS.clock.store(number("TRACEMILL_CALLS_CLOCK").unwrap_or(1) as c_int, Ordering::Relaxed);
    let rings = std::env::var_os("TRACEMILL_CALLS_RINGS").unwrap_or_default();
    if !FOLDER.set(folder.as_bytes()) || !RINGS.set(rings.as_bytes()) {
        return;
    }
    if let Some(size) = number("TRACEMILL_CALLS_SLOT").filter(|size| size.is_power_of_two() && *size >= 4096) {
        SETTINGS.slot_size.store(size, Ordering::Relaxed);
    }
    if let Some(depth) = number("TRACEMILL_CALLS_DEPTH") {
        SETTINGS.depth.store(depth, Ordering::Relaxed);
    }
    SETTINGS.tells_depth.store(number("TRACEMILL_CALLS_TELLS_DEPTH").is_some(), Ordering::Relaxed);
    SETTINGS.largest.store(number("TRACEMILL_CALLS_LARGEST").unwrap_or(0), Ordering::Relaxed);
    SETTINGS.waits.store(number("TRACEMILL_CALLS_LOSE").is_none(), Ordering::Relaxed);
    system::HAS_COUNTER.store(u32::from(number("TRACEMILL_CALLS_SYSTEM_CLOCK").is_none()), Ordering::Relaxed);
    RECORDER.store(number("TRACEMILL_CALLS_RECORDER").unwrap_or(0) as i32, Ordering::Relaxed);
    let leaf = core::arch::x86_64::__cpuid(1);
    if leaf.ecx & 1 << 27 != 0 {
        // The size for what the system has switched on.
        let size = core::arch::x86_64::__cpuid_count(0xd, 0).ebx as usize;
        stubs::set_xsave(size.max(1024) + 64);
    }
    let mut key = 0;
    // SAFETY: the key is written to a number of ours, and the handlers are functions of this library, which is never unloaded.
    unsafe {
        if system::pthread_key_create(&mut key, thread::end) != 0 {
            return;
        }
        KEY.store(key, Ordering::Relaxed);
        fork::prepare();
    }
    let set = |place: &AtomicU64, name: &str| place.store(number(name).unwrap_or(0) as u64, Ordering::Relaxed);
    set(&SETTINGS.time, "TRACEMILL_CALLS_TIME");
    set(&SETTINGS.size, "TRACEMILL_CALLS_SIZE");
    SETTINGS.nesting.store(number("TRACEMILL_CALLS_NESTING").unwrap_or(usize::MAX), Ordering::Relaxed);
    SETTINGS.is_full.store(number("TRACEMILL_CALLS_FULL").is_some(), Ordering::Relaxed);
    SETTINGS.guesses.store(number("TRACEMILL_CALLS_GUESS").is_some(), Ordering::Relaxed);
    if number("TRACEMILL_CALLS_OFF").is_some() {
        full::start_off();
    }
    // SAFETY: this is the constructor, and the list is the process's, which ends with a null pointer.
    unsafe {
        bell::find(RINGS.get());
        exec::keep(environment, FOLDER.get(), RINGS.get());
    }
    if let Some(session) = begin_session(&folder) {
        if number("TRACEMILL_CALLS_RULES").is_some() {
            rules::load(&folder, &session, has_recorder);
        }
        // SAFETY: the table is of this session, and this is the constructor.
        unsafe { patch::patch_all() };
        IS_ON.store(true, Ordering::Release);
    }
}

/// Starts the program again without random addresses, if it has those. Where that is forbidden it keeps them.
unsafe fn fix_addresses(arguments: *const *const c_char, environment: *const *const c_char) {
    const ADDR_NO_RANDOMIZE: u64 = 0x4_0000;
    const ASK: u64 = 0xffff_ffff;
    // SAFETY: the caller's lists are whole, the name is ours; `personality` takes a number.
    unsafe {
        let now = system::personality(ASK) as u64;
        if now & ADDR_NO_RANDOMIZE == 0 && system::personality(now | ADDR_NO_RANDOMIZE) != -1 {
            system::execve(c"/proc/self/exe".as_ptr(), arguments, environment);
        }
    }
}

/// Writes the map of the process and the line of the session.
fn begin_session(folder: &std::ffi::OsStr) -> Option<String> {
    let time = system::clock_ns(SETTINGS.clock());
    let pid = std::process::id();
    let id = format!("{:016x}", time ^ u64::from(pid) << 40 ^ system::now().rotate_left(20));
    SESSION.set(id.as_bytes());
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let mut lines: Vec<(u64, u64, String, Vec<u8>)> = Vec::new();
    for line in maps.split(|&byte| byte == b'\n') {
        let mut words = line.splitn(6, |&byte| byte == b' ');
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let path = words.nth(3).unwrap_or_default();
        let path = &path[path.iter().position(|&byte| byte != b' ').unwrap_or(path.len())..];
        if !path.starts_with(b"/") && path != b"[stack]" || path.starts_with(RINGS.get()) {
            continue;
        }
        let range = std::str::from_utf8(range).ok()?;
        let (begin, end) = range.split_once('-')?;
        let (begin, end) = (u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let rights = String::from_utf8_lossy(rights).into_owned();
        match lines.iter_mut().find(|known| known.3 == path) {
            Some(known) => {
                known.1 = known.1.max(end);
                if rights.contains('x') {
                    known.2 = rights;
                }
            }
            None => lines.push((begin, end, rights, path.to_vec())),
        }
    }
    let name = std::path::Path::new(folder).join(format!("sid-{id}.map"));
    let unfinished = name.with_extension("new");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&unfinished).ok()?);
    for (begin, end, rights, path) in lines {
        write!(file, "{begin:08x}-{end:08x} {rights} 00000000 00:00 0                          ").ok()?;
        file.write_all(&path).ok()?;
        file.write_all(b"\n").ok()?;
    }
    file.flush().ok()?;
    // The recorder makes its table of a map that is whole.
    std::fs::rename(unfinished, name).ok()?;
    let program = std::fs::read_link("/proc/self/exe").ok()?;
    let line = Text::new().add(b"SESS timestamp=").time(time).add(b" pid=").number(pid.into(), 1);
    let line = line.add(b" sid=").add(id.as_bytes()).add(b" exename=\"");
    tell(&line.add(program.as_os_str().as_bytes()).add(b"\"\n"));
    Some(id)
}

/// The C library's profiler would write a file of its own, and interrupt the program.
#[unsafe(no_mangle)]
pub extern "C" fn __monstartup(_low: usize, _high: usize) {}

/// See [`__monstartup`].
#[unsafe(no_mangle)]
pub extern "C" fn _mcleanup() {}

extern "C" fn at_end() {
    thread::end_guessed();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = at_start;
