//! Traps in place of probes that no jump of one byte can take, and the signal that they send: `SIGTRAP`.
//!
//! The kernel kills a process whose thread meets a trap while it blocks the signal. So the program must not block it: the
//! functions of the C library by which it could stand here, and leave this one signal out of its sets. That is done wherever
//! probes are recorded, as a library with traps may come later, and a thread keeps its mask. Masks that the program sets by
//! system calls of its own, or by a context (`setcontext`), are not seen.
//!
//! The program's own handler of the signal is kept here, and is called for signals that are not from our traps, with the
//! mask that it wants and the actions that the kernel has for none.
//!
//! The handler may interrupt everything, as the trap stands anywhere. It runs on the stack that the program is on, with other
//! signals as they are: what it does is what a landing does, which is prepared for handlers of signals.

use std::ffi::{CStr, c_int, c_long, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::{events, system};

const SIGTRAP: c_int = 5;
/// The bit of the signal in the first word of a set.
const BIT: u64 = 1 << (SIGTRAP - 1);
const SIG_BLOCK: c_int = 0;
const SIG_UNBLOCK: c_int = 1;
const SIG_DEFAULT: usize = 0;
const SIG_IGNORE: usize = 1;
const SIG_ERROR: usize = usize::MAX;
const SA_SIGINFO: c_int = 4;
const SA_ONSTACK: c_int = 0x0800_0000;
const SA_RESTART: c_int = 0x1000_0000;
const SA_NODEFER: c_int = 0x4000_0000;
const SA_RESETHAND: c_int = 0x8000_0000_u32 as c_int;
const SYS_TGKILL: c_long = 234;
/// The kernel sends it for the instruction.
const SI_KERNEL: c_int = 0x80;

/// A set of signals of the C library.
type SignalSet = [u64; 16];

/// As the C library has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Disposition {
    handler: usize,
    mask: SignalSet,
    flags: c_int,
    restorer: usize,
}

/// A trap, by its address, and the id of its events.
type Trap = (usize, usize);

/// Sorted. What was there before is not freed: a handler may look at it.
static TRAPS: AtomicPtr<Vec<Trap>> = AtomicPtr::new(std::ptr::null_mut());

/// The program's own handler.
static HANDLER: AtomicUsize = AtomicUsize::new(SIG_DEFAULT);
static FLAGS: AtomicI32 = AtomicI32::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);

/// The functions that stand before those of the C library, in the order of their numbers.
const NAMES: [&CStr; 8] =
    [c"sigaction", c"signal", c"sigprocmask", c"pthread_sigmask", c"sigsuspend", c"ppoll", c"pselect", c"epoll_pwait"];
const SIGACTION: usize = 0;
const SIGNAL: usize = 1;
const SIGPROCMASK: usize = 2;
const PTHREAD_SIGMASK: usize = 3;
const SIGSUSPEND: usize = 4;
const PPOLL: usize = 5;
const PSELECT: usize = 6;
const EPOLL_PWAIT: usize = 7;

static REAL: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

type SigactionFn = unsafe extern "C" fn(c_int, *const Disposition, *mut Disposition) -> c_int;
type SignalFn = unsafe extern "C" fn(c_int, usize) -> usize;
type MaskFn = unsafe extern "C" fn(c_int, *const SignalSet, *mut SignalSet) -> c_int;
type SuspendFn = unsafe extern "C" fn(*const SignalSet) -> c_int;
type PollFn = unsafe extern "C" fn(*mut c_void, u64, *const c_void, *const SignalSet) -> c_int;
type SelectFn =
    unsafe extern "C" fn(c_int, *mut c_void, *mut c_void, *mut c_void, *const c_void, *const SignalSet) -> c_int;
type EpollFn = unsafe extern "C" fn(c_int, *mut c_void, c_int, c_int, *const SignalSet) -> c_int;

/// Finds the functions of the C library, while it can be asked: a signal handler cannot do it.
pub(crate) fn find() {
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

/// The function of the C library.
///
/// # Safety
/// It has this type.
unsafe fn function<F>(number: usize) -> F {
    // SAFETY: the address of a function, which is the caller's type.
    unsafe { std::mem::transmute_copy(&real(number)) }
}

/// Are probes recorded?
static MAY_COME: AtomicBool = AtomicBool::new(false);

/// Are probes recorded, so that some may become traps?
pub(crate) fn may_come() -> bool {
    MAY_COME.load(Ordering::Relaxed)
}

/// Probes are recorded: this thread does not block the signal, and those that it makes do not either.
pub(crate) fn begin() {
    MAY_COME.store(true, Ordering::Relaxed);
    let mut set: SignalSet = [0; 16];
    set[0] = BIT;
    // SAFETY: the set is a whole one.
    unsafe { function::<MaskFn>(PTHREAD_SIGMASK)(SIG_UNBLOCK, &set, std::ptr::null_mut()) };
}

fn traps() -> &'static [Trap] {
    // SAFETY: null, or a list that was leaked, and is not written any more.
    unsafe { TRAPS.load(Ordering::Acquire).as_ref() }.map_or(&[], |traps| traps)
}

/// Makes ready for a trap at an address. `false` when the signal cannot be had. The caller has the lock on what is switched
/// on.
pub(crate) fn add(address: usize, id: usize) -> bool {
    let mut all = traps().to_vec();
    if all.is_empty() && !take_signal() {
        return false;
    }
    match all.binary_search_by_key(&address, |(at, _)| *at) {
        Ok(known) => all[known].1 = id,
        Err(at) => all.insert(at, (address, id)),
    }
    TRAPS.store(Box::into_raw(Box::new(all)), Ordering::Release);
    true
}

/// Puts our handler before that of the program.
fn take_signal() -> bool {
    let mut theirs = Disposition { handler: 0, mask: [0; 16], flags: 0, restorer: 0 };
    // SAFETY: the structure is that of the C library.
    let is_known = unsafe { function::<SigactionFn>(SIGACTION)(SIGTRAP, std::ptr::null(), &mut theirs) == 0 };
    if is_known && theirs.handler != trapped as *const () as usize {
        keep(&theirs);
    }
    is_known && install()
}

fn keep(theirs: &Disposition) {
    HANDLER.store(theirs.handler, Ordering::Relaxed);
    FLAGS.store(theirs.flags, Ordering::Relaxed);
    MASK.store(theirs.mask[0], Ordering::Relaxed);
}

/// The program's own handler, as it was set.
fn kept() -> Disposition {
    let (handler, flags) = (HANDLER.load(Ordering::Relaxed), FLAGS.load(Ordering::Relaxed));
    let mut mask = [0; 16];
    mask[0] = MASK.load(Ordering::Relaxed);
    Disposition { handler, mask, flags, restorer: 0 }
}

/// Installs our handler, on the stack that the program's wants.
fn install() -> bool {
    let own = FLAGS.load(Ordering::Relaxed) & (SA_ONSTACK | SA_RESTART);
    let flags = SA_SIGINFO | SA_NODEFER | own;
    let ours = Disposition { handler: trapped as *const () as usize, mask: [0; 16], flags, restorer: 0 };
    // SAFETY: as in `take_signal`.
    unsafe { function::<SigactionFn>(SIGACTION)(SIGTRAP, &ours, std::ptr::null_mut()) == 0 }
}

/// Where registers stand in what a handler gets.
const REGISTERS: usize = 5;
const STACK: usize = REGISTERS + 15;
const NEXT: usize = REGISTERS + 16;

/// A trap, of a probe or of something else.
unsafe extern "C" fn trapped(signal: c_int, info: *mut c_int, context: *mut usize) {
    // SAFETY: the kernel gives both, of the sizes that it has for them.
    let (code, stack, next) = unsafe { (*info.add(2), *context.add(STACK), *context.add(NEXT)) };
    let known = traps().binary_search_by_key(&next.wrapping_sub(1), |(at, _)| *at);
    match known.ok().filter(|_| code == SI_KERNEL).and_then(|at| traps().get(at)) {
        // SAFETY: the thread was at the probe, and all its registers are put aside.
        Some(&(_, id)) => unsafe { events::slow_record(id, stack) },
        // SAFETY: as above.
        None => unsafe { pass_on(signal, info, context, code > 0) },
    }
}

/// Does what would have been done without us.
unsafe fn pass_on(signal: c_int, info: *mut c_int, context: *mut usize, is_forced: bool) {
    let theirs = kept();
    let resets = theirs.flags & SA_RESETHAND != 0;
    match theirs.handler {
        SIG_IGNORE if !is_forced => {}
        // No handler: that ends the process, as the kernel does it.
        SIG_DEFAULT | SIG_IGNORE => {
            let default = Disposition { handler: SIG_DEFAULT, mask: [0; 16], flags: 0, restorer: 0 };
            // SAFETY: as in `take_signal`; the numbers are those of this thread.
            unsafe {
                function::<SigactionFn>(SIGACTION)(SIGTRAP, &default, std::ptr::null_mut());
                system::syscall(SYS_TGKILL, system::getpid(), system::gettid(), SIGTRAP);
            }
        }
        handler => {
            if resets {
                HANDLER.store(SIG_DEFAULT, Ordering::Relaxed);
            }
            let mask = without(&theirs.mask);
            // SAFETY: the program's handler, with what the kernel gave to ours. The mask ends with it: the kernel restores what
            // the context has.
            unsafe {
                function::<MaskFn>(PTHREAD_SIGMASK)(SIG_BLOCK, &mask, std::ptr::null_mut());
                let handler =
                    std::mem::transmute::<usize, unsafe extern "C" fn(c_int, *mut c_int, *mut usize)>(handler);
                handler(signal, info, context);
            }
        }
    }
}

/// A set without the signal.
fn without(set: &SignalSet) -> SignalSet {
    let mut set = *set;
    set[0] &= !BIT;
    set
}

/// A set for a function of the C library: the program's, or the same without the signal.
unsafe fn allowed(set: *const SignalSet, room: &mut SignalSet) -> *const SignalSet {
    // SAFETY: the program's set, or null.
    match unsafe { set.as_ref() }.filter(|_| may_come()) {
        Some(set) => {
            *room = without(set);
            room
        }
        None => set,
    }
}

/// As the C library's. The handler of the signal of traps is kept, and others do not block it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const Disposition, old: *mut Disposition) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe {
        let real = function::<SigactionFn>(SIGACTION);
        if !may_come() || new.is_null() && signal != SIGTRAP {
            return real(signal, new, old);
        }
        if signal != SIGTRAP {
            let new = Disposition { mask: without(&(*new).mask), ..*new };
            return real(signal, &new, old);
        }
        // One that is there before the first trap is the kernel's to know.
        if traps().is_empty() {
            return real(signal, new, old);
        }
        let before = kept();
        if let Some(new) = new.as_ref() {
            keep(new);
            install();
        }
        if let Some(old) = old.as_mut() {
            *old = before;
        }
        0
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    if signal != SIGTRAP || !may_come() {
        // SAFETY: the program's own arguments.
        return unsafe { function::<SignalFn>(SIGNAL)(signal, handler) };
    }
    let new = Disposition { handler, mask: [0; 16], flags: SA_RESTART, restorer: 0 };
    let mut old = new;
    // SAFETY: both are whole structures.
    if unsafe { sigaction(signal, &new, &mut old) } == 0 { old.handler } else { SIG_ERROR }
}

/// Sets a mask, which never blocks the signal.
unsafe fn set_mask(number: usize, how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int {
    let mut room = [0; 16];
    // SAFETY: the program's own arguments; the function is one of two of this type.
    unsafe {
        let set = if how == SIG_UNBLOCK { set } else { allowed(set, &mut room) };
        function::<MaskFn>(number)(how, set, old)
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { set_mask(SIGPROCMASK, how, set, old) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { set_mask(PTHREAD_SIGMASK, how, set, old) }
}

/// As the C library's: a handler that it lets in has the same mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigsuspend(set: *const SignalSet) -> c_int {
    let mut room = [0; 16];
    // SAFETY: the program's own arguments.
    unsafe { function::<SuspendFn>(SIGSUSPEND)(allowed(set, &mut room)) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(files: *mut c_void, count: u64, time: *const c_void, set: *const SignalSet) -> c_int {
    let mut room = [0; 16];
    // SAFETY: the program's own arguments.
    unsafe { function::<PollFn>(PPOLL)(files, count, time, allowed(set, &mut room)) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut c_void,
    write: *mut c_void,
    other: *mut c_void,
    time: *const c_void,
    set: *const SignalSet,
) -> c_int {
    let mut room = [0; 16];
    // SAFETY: the program's own arguments.
    unsafe { function::<SelectFn>(PSELECT)(count, read, write, other, time, allowed(set, &mut room)) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    file: c_int,
    events: *mut c_void,
    count: c_int,
    time: c_int,
    set: *const SignalSet,
) -> c_int {
    let mut room = [0; 16];
    // SAFETY: the program's own arguments.
    unsafe { function::<EpollFn>(EPOLL_PWAIT)(file, events, count, time, allowed(set, &mut room)) }
}
