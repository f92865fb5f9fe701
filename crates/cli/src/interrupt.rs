//! An interrupt (Ctrl-C) ends the program between lines, with 130.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracemill_engine::output::{Pending, Remains};
use tracemill_model::error::Error;

use crate::progress;

/// Held while lines are written.
static WRITING: Mutex<()> = Mutex::new(());

/// Set when an interrupt waits for the lines begun: no more are. A lock alone is not enough, since a writer that takes it again
/// as soon as it has given it back can keep others from it until all is written.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Unfinished outputs, under their temporary names: an interrupt removes them.
static PARTS: Mutex<Vec<Remains>> = Mutex::new(Vec::new());

/// Status for the shell: 128 and the number of the signal.
pub(crate) const STATUS: u8 = 130;

/// From now on an interrupt ends the program as soon as the lines begun are whole, whatever it is busy with.
pub(crate) fn watch() {
    static SEEN: AtomicBool = AtomicBool::new(false);
    // Without a handler an interrupt ends the program as it does by default.
    let _ = ctrlc::set_handler(|| {
        if ENDS_GROWING.swap(false, Ordering::SeqCst) {
            HAS_ENDED_GROWING.store(true, Ordering::SeqCst);
            return;
        }
        if ENDS_QUERY.load(Ordering::SeqCst) {
            STOP.store(true, Ordering::SeqCst);
            return;
        }
        // The reader of a pipe may never take the rest: a second interrupt does not wait for it.
        if SEEN.swap(true, Ordering::Relaxed) {
            std::process::exit(STATUS.into());
        }
        std::thread::spawn(|| {
            STOP.store(true, Ordering::SeqCst);
            wait_for_writer();
            ENDS.store(true, Ordering::SeqCst);
            let _whole = lock();
            progress::clear();
            remove_parts();
            std::process::exit(STATUS.into());
        });
    });
}

/// From now on an interrupt is for the program that runs: this one goes on until that has ended.
#[cfg(has_recorder)]
pub(crate) fn leave_to_children() {
    on_signals(|| {});
}

/// From now on an interrupt sets [`stop`] and nothing else: what goes on until then is finished in order.
#[cfg(has_recorder)]
pub(crate) fn only_stop() {
    on_signals(|| STOP.store(true, Ordering::SeqCst));
}

/// Calls `then` for each signal that would end the recorder. An interrupt of a terminal goes to the program as well, `SIGTERM`
/// as `kill`, service managers and containers send it to this process alone: it is passed on.
#[cfg(has_recorder)]
fn on_signals(then: fn()) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // Without handlers a signal ends the recorder alone, and what it has so far can be recovered.
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGTERM {
                IS_TERMINATED.store(true, Ordering::SeqCst);
                pass_on();
            }
            then();
        }
    });
}

/// Process id of the program that is recorded; 0 before it runs.
#[cfg(has_recorder)]
static PROGRAM: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Has `SIGTERM` come?
#[cfg(has_recorder)]
static IS_TERMINATED: AtomicBool = AtomicBool::new(false);

/// From now on `SIGTERM` is passed on to this child, also one that has come before.
#[cfg(has_recorder)]
pub(crate) fn pass_on_to(child: u32) {
    PROGRAM.store(child, Ordering::SeqCst);
    if IS_TERMINATED.load(Ordering::SeqCst) {
        pass_on();
    }
}

#[cfg(has_recorder)]
fn pass_on() {
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
    let program = i32::try_from(PROGRAM.load(Ordering::SeqCst)).ok().and_then(Pid::from_raw);
    let Some(program) = program else { return };
    // When the program has been waited for, its id may be that of another process, which is no child.
    let looks = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    if waitid(WaitId::Pid(program), looks).is_ok() {
        // It may have ended just now.
        let _ = kill_process(program, Signal::TERM);
    }
}

/// Set when an interrupt ends the program: writers stop by themselves.
static STOP: AtomicBool = AtomicBool::new(false);

/// Set in a shell: an interrupt ends what it does, not the program.
static ENDS_QUERY: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt ends what a shell does, and never the program. One that came before is over: a shell asks for
/// this before each prompt, so that an interrupt holds for the line that was typed last, whether its work has begun or not.
#[cfg(feature = "sql")]
pub(crate) fn ends_one_line() {
    ENDS_QUERY.store(true, Ordering::SeqCst);
    STOP.store(false, Ordering::SeqCst);
}

/// Set while something is read that grows: the first interrupt ends growing, and what has come is finished in order.
static ENDS_GROWING: AtomicBool = AtomicBool::new(false);

/// Set when an interrupt has ended growing.
static HAS_ENDED_GROWING: AtomicBool = AtomicBool::new(false);

/// From now on the first interrupt only ends growing: [`has_ended_growing`] says so.
pub(crate) fn ends_growing() {
    ENDS_GROWING.store(true, Ordering::SeqCst);
}

/// Growing is over: interrupts end the program again.
pub(crate) fn grows_no_more() {
    ENDS_GROWING.store(false, Ordering::SeqCst);
}

/// Has an interrupt ended growing? The program then ends with the status of an interrupt.
pub(crate) fn has_ended_growing() -> bool {
    HAS_ENDED_GROWING.load(Ordering::SeqCst)
}

/// Set when no writer is left.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether some writer looks at [`stop`].
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// The flag that writers look at: they end soon after it is set, and call [`end_if_stopped`].
pub(crate) fn stop() -> &'static AtomicBool {
    IS_ASKED.store(true, Ordering::SeqCst);
    &STOP
}

/// Ends the program after an interrupt, once `clean` is dropped; otherwise gives `clean` back.
pub(crate) fn end_if_stopped<T>(clean: T) -> T {
    if !STOP.load(Ordering::SeqCst) {
        return clean;
    }
    drop(clean);
    STOPPED.store(true, Ordering::SeqCst);
    wait_for_end()
}

/// The thread of the interrupt ends the program.
fn wait_for_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// Gives a writer 3 s to stop: files that it creates after the removal would stay.
fn wait_for_writer() {
    for _ in 0..600 {
        if !IS_ASKED.load(Ordering::SeqCst) || STOPPED.load(Ordering::SeqCst) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Holds interrupts back until the guard is dropped. After an interrupt it does not return.
pub(crate) fn block() -> MutexGuard<'static, ()> {
    let guard = lock();
    if ENDS.load(Ordering::SeqCst) {
        drop(guard);
        wait_for_end();
    }
    guard
}

fn lock() -> MutexGuard<'static, ()> {
    // There is nothing behind the lock that a panic could have left half done.
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins an output, which an interrupt removes: none comes between the folders around it and the word of them.
pub(crate) fn begin(path: &Path) -> Result<Pending, Error> {
    let _whole = block();
    let pending = Pending::new(path)?;
    PARTS.lock().unwrap_or_else(PoisonError::into_inner).push(pending.remains().clone());
    Ok(pending)
}

/// Gives an output its name. An interrupt comes before or after the change of names, not between.
pub(crate) fn commit(pending: Pending) -> Result<(), Error> {
    let _whole = block();
    pending.commit()
}

/// Removes unfinished outputs. The main thread may still write: files that it creates are removed again.
fn remove_parts() {
    for remains in PARTS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        for _ in 0..20 {
            remains.remove();
            if remains.is_gone() {
                break;
            }
        }
    }
}
