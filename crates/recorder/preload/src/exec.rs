//! Programs that the program becomes or starts: they are recorded as well, whatever environment they are given, and what was
//! recorded before is the recorder's at once.
//!
//! These are functions that the program calls as it does without us, so they may use the C library. A child of `vfork` has the
//! memory of its parent: what it maps for an environment belongs to the thread, which uses it again.

use std::arch::naked_asm;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::system::{self, local};
use crate::{process, thread};

/// A list of texts that ends with a null pointer.
type List = *const *const c_char;

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
/// Variables that others have a use for, too: theirs stands behind ours.
const SHARED: [&[u8]; 2] = [b"LD_PRELOAD=", b"GLIBC_TUNABLES="];

/// The variables that programs need to be recorded.
static KEPT: AtomicPtr<Vec<CString>> = AtomicPtr::new(std::ptr::null_mut());

/// Keeps the variables that programs need, and finds the functions: later there may be locks in the way.
///
/// # Safety
/// This is the start of the program, and `environment` is a whole list.
pub(crate) unsafe fn keep(environment: List) {
    // SAFETY: the caller's.
    let all = unsafe { texts(environment) };
    let is_needed =
        |text: &&CStr| text.to_bytes().starts_with(OURS) || SHARED.iter().any(|name| text.to_bytes().starts_with(name));
    let kept: Vec<CString> = all.filter(is_needed).map(CStr::to_owned).collect();
    KEPT.store(Box::into_raw(Box::new(kept)), Ordering::Release);
    for number in 0..NAMES.len() {
        real(number);
    }
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
unsafe fn texts<'a>(list: List) -> impl Iterator<Item = &'a CStr> + Clone {
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

/// The environment with what programs need to be recorded, unless that is in it. As it is where there is no memory.
unsafe fn with_ours(given: List) -> List {
    // SAFETY: what stands there was leaked, and is never written again; the caller's list is whole. What is written fits the
    // room, which was computed of the same texts.
    unsafe {
        let Some(kept) = KEPT.load(Ordering::Acquire).as_ref().filter(|_| process::is_on()) else { return given };
        let theirs = texts(given);
        if theirs.clone().any(|text| text.to_bytes().starts_with(FIRST)) {
            return given;
        }
        let shared = |text: &CStr| SHARED.iter().find(|name| text.to_bytes().starts_with(name)).copied();
        let of_theirs = |name: &[u8]| theirs.clone().find(|text| text.to_bytes().starts_with(name));
        let pointers = theirs.clone().count() + kept.len() + 1;
        let bytes: usize = theirs.clone().map(|text| text.to_bytes().len()).sum::<usize>()
            + kept.iter().map(|text| text.to_bytes().len() + 2).sum::<usize>();
        let base = room(pointers * 8 + bytes);
        if base.is_null() {
            return given;
        }
        let (list, mut text_at) = (base.cast::<*const c_char>(), base.add(pointers * 8));
        let mut count = 0;
        let mut add = |text: *const c_char| {
            list.add(count).write(text);
            count += 1;
        };
        theirs.clone().filter(|text| shared(text).is_none()).for_each(|text| add(text.as_ptr()));
        for ours in kept {
            let Some((name, theirs)) = shared(ours).and_then(|name| Some((name, of_theirs(name)?))) else {
                add(ours.as_ptr());
                continue;
            };
            add(text_at.cast());
            for part in [ours.to_bytes(), b":", &theirs.to_bytes()[name.len()..], b"\0"] {
                std::ptr::copy_nonoverlapping(part.as_ptr(), text_at, part.len());
                text_at = text_at.add(part.len());
            }
        }
        add(std::ptr::null());
        list
    }
}

/// Memory of the thread for an environment of so many bytes; null when there is none.
unsafe fn room(bytes: usize) -> *mut u8 {
    // SAFETY: the thread's own words; what is unmapped was mapped with this length.
    unsafe {
        let [.., base, len] = *local();
        if len >= bytes {
            return base as *mut u8;
        }
        forget_environment();
        let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS);
        let pages = system::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        if pages as isize == -1 {
            return std::ptr::null_mut();
        }
        ((*local())[2], (*local())[3]) = (pages as usize, bytes);
        pages.cast()
    }
}

/// Gives back the memory of [`room`].
pub(crate) unsafe fn forget_environment() {
    // SAFETY: as in `room`.
    unsafe {
        let [.., base, len] = *local();
        if len > 0 {
            system::munmap(base as *mut c_void, len);
            ((*local())[2], (*local())[3]) = (0, 0);
        }
    }
}

unsafe extern "C" {
    static environ: List;
}

/// Becomes another program.
unsafe fn become_program(path: *const c_char, arguments: List, environment: List, is_in_path: bool) -> c_int {
    type Exec = unsafe extern "C" fn(*const c_char, List, List) -> c_int;
    let real = real(if is_in_path { EXECVPE } else { EXECVE });
    // SAFETY: what `dlsym` found has this type; the program's own arguments.
    unsafe {
        thread::before_exec();
        std::mem::transmute::<*mut c_void, Exec>(real)(path, arguments, with_ours(environment))
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: List, environment: List) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { become_program(path, arguments, environment, false) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, arguments: List, environment: List) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { become_program(file, arguments, environment, true) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: List) -> c_int {
    // SAFETY: the program's own arguments, and its environment.
    unsafe { become_program(path, arguments, environ, false) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: List) -> c_int {
    // SAFETY: the program's own arguments, and its environment.
    unsafe { become_program(file, arguments, environ, true) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(file: c_int, arguments: List, environment: List) -> c_int {
    type Exec = unsafe extern "C" fn(c_int, List, List) -> c_int;
    // SAFETY: what `dlsym` found has this type; the program's own arguments.
    unsafe {
        thread::before_exec();
        std::mem::transmute::<*mut c_void, Exec>(real(FEXECVE))(file, arguments, with_ours(environment))
    }
}

/// Behind the arguments stands an environment, when `has_environment`.
unsafe extern "C" fn exec_list(
    path: *const c_char,
    arguments: List,
    is_in_path: usize,
    has_environment: usize,
) -> c_int {
    // SAFETY: the stub put the program's arguments into one list, which ends with a null pointer.
    unsafe {
        let behind = arguments.add(texts(arguments).count() + 1);
        let environment = if has_environment != 0 { behind.cast::<List>().read() } else { environ };
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

type Spawn = unsafe extern "C" fn(*mut c_int, *const c_char, *const c_void, *const c_void, List, List) -> c_int;

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut c_int,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: List,
    environment: List,
) -> c_int {
    // SAFETY: what `dlsym` found has this type; the program's own arguments.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Spawn>(real(SPAWN));
        real(pid, path, actions, attributes, arguments, with_ours(environment))
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut c_int,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: List,
    environment: List,
) -> c_int {
    // SAFETY: what `dlsym` found has this type; the program's own arguments.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Spawn>(real(SPAWN_IN_PATH));
        real(pid, file, actions, attributes, arguments, with_ours(environment))
    }
}
