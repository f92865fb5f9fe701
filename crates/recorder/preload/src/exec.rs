//! Programs that the program becomes or starts: they are recorded as well, whatever environment they are given, and what was
//! recorded before is the recorder's at once.
//!
//! These are functions that the program calls as it does without us, also in signal handlers and in children of `vfork`, which
//! have the memory of their parents. So each call has memory of its own for an environment.

use std::arch::naked_asm;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::local::local;
use crate::same_thread::SameThread;
use crate::thread::current;
use crate::{fork, settings, system};

/// A list of texts that ends with a null pointer.
type TextList = *const *const c_char;

/// The functions that stand before those of the C library, in the order of their numbers.
const NAMES: [&CStr; 5] = [c"execve", c"execvpe", c"fexecve", c"posix_spawn", c"posix_spawnp"];
const EXECVE: usize = 0;
const EXECVPE: usize = 1;
const FEXECVE: usize = 2;
const SPAWN: usize = 3;
const SPAWN_IN_PATH: usize = 4;

static REAL: [AtomicPtr<c_void>; 5] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 5];

/// Our variables begin with this.
const OURS: &[u8] = b"TRACEMILL_CALLS";
/// The one that all others come with.
const FIRST: &[u8] = b"TRACEMILL_CALLS=";

/// The parts of an environment that programs need to be recorded.
struct Environment {
    /// The variables that are ours alone.
    own: Vec<CString>,
    shared: [SharedVariable; 2],
    /// The library, and the folder of rings: both are there until the recording is finished.
    files: [CString; 2],
    /// The file in the folder of rings that lists the programs that are started.
    list: CString,
}

/// A variable that others have a use for, too.
struct SharedVariable {
    /// Its name, and `=`.
    name: &'static [u8],
    /// Our part of its value.
    part: Vec<u8>,
    /// Does our part stand after theirs?
    is_last: bool,
}

/// A text of an environment for another program.
enum EnvironmentText<'a> {
    /// One that is there.
    There(&'a CStr),
    /// One that is put together.
    Made([&'a [u8]; 4]),
}

static KEPT: AtomicPtr<Environment> = AtomicPtr::new(std::ptr::null_mut());

/// Keeps what programs need, and finds the functions: later there may be locks in the way.
///
/// # Safety
/// This is the start of the program, and `environment` is a whole list.
pub(crate) unsafe fn keep(environment: TextList, folder: &[u8], rings: &[u8]) {
    for number in 0..NAMES.len() {
        real(number);
    }
    // SAFETY: the caller's.
    let all = unsafe { texts(environment) };
    let preload = all.clone().find_map(|text| text.to_bytes().strip_prefix(b"LD_PRELOAD="));
    let is_in = |path: &[u8], folder| path.strip_prefix(folder).is_some_and(|name| name.starts_with(b"/"));
    let is_ours = |path: &&[u8]| is_in(path, folder) || is_in(path, rings);
    let Some(library) = preload.and_then(|paths| parts(paths).find(is_ours)) else { return };
    let list = CString::new([rings, b"/execs"].concat());
    let (Ok(file), Ok(rings), Ok(list)) = (CString::new(library), CString::new(rings), list) else { return };
    let kept = Environment {
        own: all.filter(|text| text.to_bytes().starts_with(OURS)).map(CStr::to_owned).collect(),
        shared: [
            SharedVariable { name: b"LD_PRELOAD=", part: library.to_vec(), is_last: false },
            // Of two that contradict each other the last one holds.
            SharedVariable { name: b"GLIBC_TUNABLES=", part: b"glibc.cpu.x86_shstk=off".to_vec(), is_last: true },
        ],
        files: [file, rings],
        list,
    };
    KEPT.store(Box::into_raw(Box::new(kept)), Ordering::Release);
}

/// The parts of the value of a variable.
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| b": ".contains(byte))
}

fn real(number: usize) -> *mut c_void {
    let known = REAL[number].load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name is a whole text.
    let real = unsafe { system::dlsym(system::RTLD_NEXT, NAMES[number].as_ptr()) };
    if real.is_null() {
        std::process::abort();
    }
    REAL[number].store(real, Ordering::Relaxed);
    real
}

/// The texts of a list, which may be null.
unsafe fn texts<'a>(list: TextList) -> impl Iterator<Item = &'a CStr> + Clone {
    let mut at = list;
    std::iter::from_fn(move || {
        // SAFETY: the caller's list ends with a null pointer, and is left there.
        unsafe {
            let text = if at.is_null() { std::ptr::null() } else { *at };
            (!text.is_null()).then(|| {
                at = at.add(1);
                CStr::from_ptr(text)
            })
        }
    })
}

impl SharedVariable {
    /// The variable with our part beside theirs.
    fn join_with<'a>(&'a self, theirs: &'a [u8]) -> EnvironmentText<'a> {
        let colon: &[u8] = if theirs.is_empty() { b"" } else { b":" };
        EnvironmentText::Made(match self.is_last {
            true => [self.name, theirs, colon, &self.part],
            false => [self.name, &self.part, colon, theirs],
        })
    }
}

impl Environment {
    /// A text of theirs, with our part where it needs that.
    fn entry<'a>(&'a self, text: &'a CStr) -> EnvironmentText<'a> {
        let shared = self.shared.iter().find_map(|shared| Some((shared, text.to_bytes().strip_prefix(shared.name)?)));
        match shared {
            Some((shared, theirs)) if parts(theirs).all(|part| part != shared.part) => shared.join_with(theirs),
            _ => EnvironmentText::There(text),
        }
    }

    /// Their environment with what is missing; `None` when that is nothing, or when it is for somebody else's recorder.
    fn environment<'a>(
        &'a self,
        theirs: impl Iterator<Item = &'a CStr> + Clone + 'a,
    ) -> Option<impl Iterator<Item = EnvironmentText<'a>> + Clone + 'a> {
        let is_first = |text: &&CStr| text.to_bytes().starts_with(FIRST);
        let known = theirs.clone().find(is_first);
        if known.is_some() && known != self.own.iter().map(CString::as_c_str).find(is_first) {
            return None;
        }
        let has_own = known.is_some();
        let own = self.own.iter().filter(move |_| !has_own).map(|text| EnvironmentText::There(text));
        let of_theirs = theirs.clone().filter(move |text| has_own || !text.to_bytes().starts_with(OURS));
        let others = theirs.clone();
        let is_missing =
            move |shared: &&SharedVariable| others.clone().all(|text| !text.to_bytes().starts_with(shared.name));
        let shared = self.shared.iter().filter(is_missing).map(|shared| shared.join_with(b""));
        let all = of_theirs.map(|text| self.entry(text)).chain(own).chain(shared);
        let is_more = !has_own || all.clone().any(|entry| matches!(entry, EnvironmentText::Made(_)));
        is_more.then_some(all)
    }
}

/// Memory for an environment, which stands after this.
#[repr(C)]
struct EnvironmentBlock {
    /// The next one of those that were left, or 0.
    next: usize,
    len: usize,
    /// The child of `vfork` that uses it; 0 for the process itself.
    user: c_int,
}

/// Leaves memory for [`forget_left`].
unsafe fn leave(room: *mut EnvironmentBlock) {
    let left = &local().environments;
    let mut next = left.load(Ordering::Relaxed);
    loop {
        // SAFETY: the caller's room is mapped, and in no list.
        unsafe { (*room).next = next };
        match left.compare_exchange(next, room as usize, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => next = other,
        }
    }
}

/// Gives back the memory that children of `vfork` left, which became other programs: only this process can do that.
pub(crate) unsafe fn forget_left() {
    let mut at = local().environments.swap(0, Ordering::Relaxed) as *mut EnvironmentBlock;
    // SAFETY: what was left is mapped, and was taken out here alone.
    unsafe {
        let alive = [system::getpid(), system::getppid()];
        while !at.is_null() {
            let (room, EnvironmentBlock { next, len, user }) = (at, at.read());
            at = next as *mut EnvironmentBlock;
            // A handler may have interrupted who uses it, and have called `vfork` itself.
            if alive.contains(&user) {
                leave(room);
            } else {
                system::munmap(room.cast(), len);
            }
        }
    }
}

/// The environment with what programs need to be recorded, in memory of its own. `None` when it is fine as it is, when nothing
/// is recorded any more, or when there is no memory.
unsafe fn make(given: TextList) -> Option<*mut EnvironmentBlock> {
    // SAFETY: what stands there was leaked, and is never written again; the caller's list is whole. The room is as long as
    // was computed, and what is written is compared with that.
    unsafe {
        let kept = KEPT.load(Ordering::Acquire).as_ref().filter(|_| settings::is_on())?;
        let entries = kept.environment(texts(given))?;
        if kept.files.iter().any(|file| system::access(file.as_ptr(), 0) != 0) {
            return None;
        }
        forget_left();
        let pointers = entries.clone().count() + 1;
        let made = |entry: EnvironmentText<'_>| match entry {
            EnvironmentText::There(_) => 0,
            EnvironmentText::Made(parts) => parts.iter().map(|part| part.len()).sum::<usize>() + 1,
        };
        let bytes = entries.clone().map(made).sum::<usize>();
        let len = size_of::<EnvironmentBlock>() + pointers * size_of::<TextList>() + bytes;
        let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS);
        let room = system::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0).cast::<EnvironmentBlock>();
        if room as isize == -1 {
            return None;
        }
        let user = if fork::is_itself() { 0 } else { system::getpid() };
        room.write(EnvironmentBlock { next: 0, len, user });
        if user != 0 {
            leave(room);
        }
        let base = room.add(1).cast::<*const c_char>();
        let list = std::slice::from_raw_parts_mut(base, pointers);
        let mut text = std::slice::from_raw_parts_mut(base.add(pointers).cast::<u8>(), bytes);
        // The last pointer, and the last byte of each text, are 0 already.
        for (place, entry) in list[..pointers - 1].iter_mut().zip(entries) {
            *place = match entry {
                EnvironmentText::There(text) => text.as_ptr(),
                EnvironmentText::Made(parts) => {
                    let begin = text.as_ptr();
                    for part in parts {
                        text.split_off_mut(..part.len())?.copy_from_slice(part);
                    }
                    text.split_off_mut(..1)?;
                    begin.cast()
                }
            };
        }
        Some(room)
    }
}

/// Bytes of a path that is listed, at most.
const LONGEST: usize = 4096;
/// Bytes of the list, at most.
const LONGEST_LIST: i64 = 1 << 20;

/// Lists a program that is about to be started, for the recorder: nothing else reports one that the library is not loaded
/// into. An entry is the working folder, which is empty where the path needs none, and the path, each with a 0 after it.
unsafe fn list_program(path: *const c_char) {
    system::keeping_errno(|| {
        // SAFETY: what stands there was leaked; the caller's path is a whole text. The buffer has room for two paths, and is in
        // memory that no thread uses: stacks of signal handlers are small.
        unsafe {
            let Some(kept) = KEPT.load(Ordering::Acquire).as_ref().filter(|_| settings::is_on() && !path.is_null())
            else {
                return;
            };
            let text = CStr::from_ptr(path).to_bytes_with_nul();
            if text.len() > LONGEST || text.len() == 1 {
                return;
            }
            let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS);
            let room = system::mmap(std::ptr::null_mut(), 2 * LONGEST, protection, flags, -1, 0);
            if room as isize == -1 {
                return;
            }
            let len = write_entry(std::slice::from_raw_parts_mut(room.cast(), 2 * LONGEST), path, text);
            let file = system::open(kept.list.as_ptr(), system::O_WRONLY_CREAT_APPEND_CLOEXEC, 0o600);
            if file >= 0 {
                if system::end_of(file) < LONGEST_LIST {
                    system::write(file, room, len);
                }
                system::close(file);
            }
            system::munmap(room, 2 * LONGEST);
        }
    });
}

/// Writes an entry of the list, and gives its length.
unsafe fn write_entry(room: &mut [u8], path: *const c_char, text: &[u8]) -> usize {
    // In the recorder such a path leads elsewhere.
    if text.starts_with(b"/proc/self/") {
        // SAFETY: the caller's path is a whole text.
        let len = unsafe { system::read_link(path, &mut room[1..LONGEST]) };
        return len.map_or(0, |len| len + 2);
    }
    let mut len = 1;
    if text[0] != b'/' && text.contains(&b'/') {
        match system::working_folder(&mut room[..LONGEST]) {
            Some(with_end) => len = with_end,
            None => return 0,
        }
    }
    room[len..len + text.len()].copy_from_slice(text);
    len + text.len()
}

/// Calls a function that takes an environment.
unsafe fn with_ours(given: TextList, call: impl FnOnce(TextList) -> c_int) -> c_int {
    // SAFETY: the caller's list is whole; the room is this call's until it is given back.
    unsafe {
        let Some(room) = system::keeping_errno(|| make(given)) else { return call(given) };
        let result = call(room.add(1).cast::<*const c_char>());
        system::keeping_errno(|| {
            if (*room).user == 0 {
                system::munmap(room.cast(), (*room).len);
            } else {
                // No process has this number.
                (*room).user = -1;
                forget_left();
            }
        });
        result
    }
}

unsafe extern "C" {
    static environ: TextList;
}

/// The thread becomes another program: what it has recorded is the recorder's. A child that has the ring of its parent must
/// not end the slot in which that goes on.
fn before_exec() {
    if !fork::is_itself() {
        return;
    }
    if let Some(thread) = current().filter(|thread| thread.busy.get() == 0 && thread.writing.get() == 0) {
        thread.while_busy(|| thread.end_slot());
    }
}

/// Becomes another program.
unsafe fn become_program(path: *const c_char, arguments: TextList, environment: TextList, is_in_path: bool) -> c_int {
    type Exec = unsafe extern "C" fn(*const c_char, TextList, TextList) -> c_int;
    let real = real(if is_in_path { EXECVPE } else { EXECVE });
    // SAFETY: what `dlsym` found has this type; the program's own arguments.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Exec>(real);
        before_exec();
        list_program(path);
        with_ours(environment, |environment| real(path, arguments, environment))
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: TextList, environment: TextList) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { become_program(path, arguments, environment, false) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, arguments: TextList, environment: TextList) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { become_program(file, arguments, environment, true) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: TextList) -> c_int {
    // SAFETY: the program's own arguments, and its environment.
    unsafe { become_program(path, arguments, environ, false) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: TextList) -> c_int {
    // SAFETY: the program's own arguments, and its environment.
    unsafe { become_program(file, arguments, environ, true) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(file: c_int, arguments: TextList, environment: TextList) -> c_int {
    type Exec = unsafe extern "C" fn(c_int, TextList, TextList) -> c_int;
    // SAFETY: what `dlsym` found has this type; the program's own arguments.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Exec>(real(FEXECVE));
        before_exec();
        if file >= 0 {
            list_program(system::StackText::new().add(b"/proc/self/fd/").number(file as u64, 1).as_ptr());
        }
        with_ours(environment, |environment| real(file, arguments, environment))
    }
}

/// After the arguments stands an environment, when `has_environment`.
unsafe extern "C" fn exec_list(
    path: *const c_char,
    arguments: TextList,
    is_in_path: usize,
    has_environment: usize,
) -> c_int {
    // SAFETY: the stub put the program's arguments into one list, which ends with a null pointer.
    unsafe {
        let behind = arguments.add(texts(arguments).count() + 1);
        let environment = if has_environment != 0 { behind.cast::<TextList>().read() } else { environ };
        become_program(path, arguments, environment, is_in_path != 0)
    }
}

macro_rules! lists {
    ($($name:ident $is_in_path:literal $has_environment:literal)*) => {$(
        /// As the C library's. The registers with arguments are put before those on the stack, so that all are a list.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "pop r10",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push rbp",
                "mov rbp, rsp",
                "push r10",
                "and rsp, -16",
                concat!("mov edx, ", $is_in_path),
                concat!("mov ecx, ", $has_environment),
                "call {list}",
                "mov r10, [rbp - 8]",
                "mov rsp, rbp",
                "pop rbp",
                "add rsp, 40",
                "push r10",
                "ret",
                list = sym exec_list,
            )
        }
    )*};
}

lists! {
    execl 0 0
    execlp 1 0
    execle 0 1
}

type Spawn = unsafe extern "C" fn(*mut c_int, *const c_char, *const c_void, *const c_void, TextList, TextList) -> c_int;

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut c_int,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: TextList,
    environment: TextList,
) -> c_int {
    // SAFETY: what `dlsym` found has this type; the program's own arguments.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Spawn>(real(SPAWN));
        list_program(path);
        with_ours(environment, |environment| real(pid, path, actions, attributes, arguments, environment))
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut c_int,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: TextList,
    environment: TextList,
) -> c_int {
    // SAFETY: what `dlsym` found has this type; the program's own arguments.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Spawn>(real(SPAWN_IN_PATH));
        list_program(file);
        with_ours(environment, |environment| real(pid, file, actions, attributes, arguments, environment))
    }
}
