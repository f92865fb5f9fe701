//! Signals that lead to a snapshot. What the program does about them without this happens afterwards.
//!
//! A handler only reads statics, leaves a note for the thread of the recorder, and sleeps.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::trigger;

/// Signals of Linux.
const SIGNALS: usize = 65;

/// For each signal the trigger, and one; 0 without.
static TRIGGERS: [AtomicU32; SIGNALS] = [const { AtomicU32::new(0) }; SIGNALS];
/// For each signal what was done about it before: the pointer to a `sigaction`, which stays for ever.
static BEFORE: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// Signals that lead to a snapshot alone, unless the program handles them.
fn is_for_users(signal: i32) -> bool {
    signal == libc::SIGUSR1 || signal == libc::SIGUSR2 || signal >= 32
}

/// Signals that the system ignores by default.
fn is_ignored(signal: i32) -> bool {
    [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT].contains(&signal)
}

/// Can a program handle this signal?
pub(crate) fn can_be_watched(signal: i32) -> bool {
    let is_of_threads = (32..34).contains(&signal);
    (1..SIGNALS as i32).contains(&signal) && ![libc::SIGKILL, libc::SIGSTOP].contains(&signal) && !is_of_threads
}

/// Has a signal lead to the snapshot of a trigger.
pub(crate) fn watch(signal: i32, trigger: u32) {
    if !can_be_watched(signal) {
        return;
    }
    let at = signal as usize;
    TRIGGERS[at].store(trigger + 1, Ordering::Relaxed);
    if BEFORE[at].load(Ordering::Relaxed) != 0 {
        return;
    }
    // SAFETY: zeros are a `sigaction`; pointers to this stack and to memory that stays; the handler is of the type that the flag
    // says.
    unsafe {
        let before: &'static mut libc::sigaction = Box::leak(Box::new(std::mem::zeroed()));
        if libc::sigaction(signal, std::ptr::null(), before) != 0 {
            return;
        }
        BEFORE[at].store(std::ptr::from_mut(before) as usize, Ordering::Release);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        action.sa_mask = before.sa_mask;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Has no signal lead to a snapshot any more.
pub(crate) fn forget() {
    TRIGGERS.iter().for_each(|trigger| trigger.store(0, Ordering::Relaxed));
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the place of this thread's error number.
    let errno = unsafe { *libc::__errno_location() };
    let at = signal as usize;
    // SAFETY: set before this handler was.
    let before = unsafe { &*(BEFORE[at].load(Ordering::Acquire) as *const libc::sigaction) };
    let trigger = TRIGGERS[at].load(Ordering::Relaxed).checked_sub(1);
    let ends_program = !is_ignored(signal) && !is_for_users(signal) && before.sa_sigaction != libc::SIG_IGN;
    match trigger {
        // Also where it is handled: by the standard library of Rust, for one, which lets it end the program afterwards.
        Some(trigger) if ends_program => trigger::fire_at_the_end(trigger),
        Some(trigger) => {
            trigger::fire(trigger);
        }
        None => {}
    }
    match before.sa_sigaction {
        libc::SIG_IGN => {}
        libc::SIG_DFL if is_ignored(signal) || is_for_users(signal) && trigger.is_some() => {}
        libc::SIG_DFL => {
            // It ends the process, which takes its memory along, but no ring.
            // SAFETY: pointers to memory that stays; the signal comes again when this handler returns.
            unsafe {
                libc::sigaction(signal, before, std::ptr::null_mut());
                libc::raise(signal);
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: the program said so.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: the program said so.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(i32)>(handler) };
            handler(signal);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
