//! Probes of `sys/sdt.h`: instructions without effect, of one byte, where a program has something to report.
//!
//! The notes about them are in the files of the program and its libraries, which are not loaded for the most part. So the
//! recorder reads them: this library asks about each file that is loaded, and gets the places that are wanted and the ids of
//! their events. What is one byte long becomes one byte of a jump, or a trap: see [`landings`](crate::landings) and
//! [`traps`](crate::traps). The counter of those who listen is raised, so that the program prepares arguments and comes there.
//!
//! An event is a record of its own, with the id in place of an address, at depth 0, as uftrace writes it. Filters of functions
//! do not apply to it. Entries of open calls that wait for their ends are written before it: records are in the order of
//! their times.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use crate::landings::Landings;
use crate::plt::{EXECUTABLE, LoadedObject, LoaderInfo, READABLE, WRITABLE};
use crate::wakeup::ProbeFate;
use crate::{settings, system, table, traps, wakeup};

/// The instruction without effect.
const NO_OPERATION: u8 = 0x90;
/// The first byte of a jump, and a trap.
const JUMP: u8 = 0xe9;
const TRAP: u8 = 0xcc;

/// Questions that were asked.
static ASKED: AtomicU32 = AtomicU32::new(0);

static SWITCHED: Mutex<Switched> = Mutex::new(Switched { objects: Vec::new(), landings: Landings::new() });

/// The probes that are switched on.
struct Switched {
    objects: Vec<KnownObject>,
    landings: Landings,
}

/// An object that was asked about.
struct KnownObject {
    base: usize,
    name: Vec<u8>,
    /// One of its probes that is switched on: it is not where the object was loaded again; 0 for none.
    place: usize,
}

/// A place of a probe.
#[derive(Clone, Copy)]
struct ProbePlace {
    address: usize,
    /// The counter of those who listen, or 0.
    semaphore: usize,
    id: usize,
}

/// Switches on the probes of what is loaded, if probes are wanted.
///
/// # Safety
/// This is the start of the program.
pub(crate) unsafe fn begin() {
    if settings::number("TRACEMILL_CALLS_PROBES").is_some() {
        traps::begin();
        switch_on_later();
    }
}

/// Switches on the probes of libraries that were loaded since.
pub(crate) fn switch_on_later() {
    if !traps::may_come() {
        return;
    }
    let mut switched = SWITCHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
    // SAFETY: the loader calls the function with what it has described, and with this list.
    unsafe { system::dl_iterate_phdr(add_object, (&raw mut found).cast()) };
    // An object that is gone may make room for another one.
    switched.objects.retain(|known| found.iter().any(|(base, name)| known.is(*base, name)));
    found.retain(|(base, name)| !switched.objects.iter().any(|known| known.is(*base, name)));
    if found.is_empty() {
        return;
    }
    let Some(places) = ask(&found) else { return };
    let known = switched.objects.len();
    switched.objects.extend(found.into_iter().map(|(base, name)| KnownObject { base, name, place: 0 }));
    let mut walk = Walk { switched: &mut switched, first: known, places, seen: 0 };
    // The last ones first: the bytes after a place say where its jump goes, and another place may be among them.
    walk.places.sort_unstable_by_key(|place| std::cmp::Reverse(place.address));
    // SAFETY: as above.
    unsafe { system::dl_iterate_phdr(switch_on_object, (&raw mut walk).cast()) };
    // Addresses that are in no code.
    (walk.seen..walk.places.len()).for_each(|_| wakeup::count_probe(ProbeFate::Left));
}

impl KnownObject {
    /// Is it this one, as it was?
    fn is(&self, base: usize, name: &[u8]) -> bool {
        // SAFETY: an object of this name lies there, of which this address was code.
        let is_on = |place: usize| matches!(unsafe { *(place as *const u8) }, JUMP | TRAP);
        self.base == base && self.name == name && (self.place == 0 || is_on(self.place))
    }
}

/// The name that the loader has for an object.
unsafe fn name<'a>(name: *const c_char) -> &'a [u8] {
    // SAFETY: the loader's text.
    if name.is_null() { b"" } else { unsafe { CStr::from_ptr(name) }.to_bytes() }
}

unsafe extern "C" fn add_object(object: *const c_void, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader's description, and the list of `switch_on_later`.
    unsafe {
        let (info, found) = (&*object.cast::<LoaderInfo>(), &mut *found.cast::<Vec<(usize, Vec<u8>)>>());
        let is_program = found.is_empty();
        let name = name(info.name);
        let is_file = is_program || name.contains(&b'/');
        if is_file && !LoadedObject::new(info).has(add_object as *const () as usize, 0) {
            found.push((info.base, name.to_vec()));
        }
    }
    0
}

/// Asks the recorder about objects. `None` when there is no answer: it is gone.
fn ask(objects: &[(usize, Vec<u8>)]) -> Option<Vec<ProbePlace>> {
    let folder = PathBuf::from(OsStr::from_bytes(settings::folder()));
    let (pid, number) = (std::process::id(), ASKED.fetch_add(1, Ordering::Relaxed));
    // Processes of other namespaces may have the same id.
    let answer = folder.join(format!("{}{pid}-{number}-{:x}", table::PROBE_FILE, system::now()));
    let with = |end: &str| {
        let mut name = answer.clone().into_os_string();
        name.push(end);
        PathBuf::from(name)
    };
    let mut question = Vec::new();
    for (base, name) in objects {
        // The program has no name.
        let path = match name.as_slice() {
            b"" => std::fs::read_link("/proc/self/exe"),
            name => std::fs::canonicalize(OsStr::from_bytes(name)),
        };
        let Ok(path) = path else { continue };
        write!(question, "{base:x} ").ok()?;
        question.extend_from_slice(path.as_os_str().as_bytes());
        question.push(b'\n');
    }
    std::fs::write(with(".new"), question).ok()?;
    std::fs::rename(with(".new"), with(table::QUESTION)).ok()?;
    wakeup::wake_recorder();
    while settings::has_recorder() {
        if let Ok(bytes) = std::fs::read(&answer) {
            let _ = std::fs::remove_file(&answer);
            return read(&bytes);
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    let _ = std::fs::remove_file(with(table::QUESTION));
    None
}

/// The places of an answer.
fn read(bytes: &[u8]) -> Option<Vec<ProbePlace>> {
    let rest = bytes.strip_prefix(table::PROBES)?;
    let mut words = rest.chunks_exact(8).filter_map(|word| word.first_chunk()).map(|word| usize::from_le_bytes(*word));
    let mut places = Vec::new();
    while let (Some(address), Some(semaphore), Some(id)) = (words.next(), words.next(), words.next()) {
        places.push(ProbePlace { address, semaphore, id });
    }
    Some(places)
}

/// The way through the loaded objects.
struct Walk<'a> {
    switched: &'a mut Switched,
    /// Number of the first object that is new.
    first: usize,
    places: Vec<ProbePlace>,
    /// Places that were in the code of an object.
    seen: usize,
}

unsafe extern "C" fn switch_on_object(object: *const c_void, _size: usize, walk: *mut c_void) -> c_int {
    // SAFETY: the loader's description, and the structure of `switch_on_later`.
    unsafe {
        let (info, walk) = (&*object.cast::<LoaderInfo>(), &mut *walk.cast::<Walk<'_>>());
        let (object, name) = (LoadedObject::new(info), name(info.name));
        let Switched { objects, landings } = &mut *walk.switched;
        let known = objects[walk.first..].iter_mut().find(|known| known.base == info.base && known.name == name);
        let Some(known) = known else { return 0 };
        // Inside of the C library signals may be blocked without a call that could be seen. The program has no name.
        let may_trap = name.is_empty() || !object.is_left_out(info.name);
        for place in walk.places.iter().filter(|place| object.has(place.address, EXECUTABLE)) {
            let byte = switch_on(&object, place, landings, may_trap);
            wakeup::count_probe(match byte {
                Some(JUMP) => ProbeFate::Jump,
                Some(_) => ProbeFate::Trap,
                None => ProbeFate::Left,
            });
            walk.seen += 1;
            if byte.is_some() {
                known.place = place.address;
            }
        }
    }
    0
}

/// Switches a probe on. Gives the byte that stands there now; `None` where it stays as it is: the note is wrong, something
/// else is there, or there is no way.
unsafe fn switch_on(
    object: &LoadedObject<'_>,
    &ProbePlace { address, semaphore, id }: &ProbePlace,
    landings: &mut Landings,
    may_trap: bool,
) -> Option<u8> {
    // SAFETY: the object has these addresses, of code that can be read and data that can be written. One byte is written, which
    // is an instruction before and, with what stands after it, one after that: threads execute the one or the other.
    unsafe {
        let is_code = object.has(address, EXECUTABLE | READABLE) && object.has(address + 4, EXECUTABLE | READABLE);
        let has_counter = semaphore == 0 || semaphore % 2 == 0 && object.has(semaphore, READABLE | WRITABLE);
        let place = &*(address as *const AtomicU8);
        if !is_code || !has_counter || place.load(Ordering::Relaxed) != NO_OPERATION {
            return None;
        }
        let byte = match () {
            () if landings.add(address, id) => JUMP,
            () if may_trap && traps::add(address, id) => TRAP,
            () => return None,
        };
        let is_written = object.while_open([address, address + 1], object.protection(address), || {
            place.store(byte, Ordering::Release);
        });
        if is_written && semaphore != 0 {
            (*(semaphore as *const AtomicU16)).fetch_add(1, Ordering::Relaxed);
        }
        is_written.then_some(byte)
    }
}
