//! Seccomp's strict mode: the kernel kills a thread for every call of the system but four, and for reading the processor's
//! clock. So nothing can be recorded there: calls are counted in memory, and the program goes on as without us.

use std::arch::{asm, naked_asm};
use std::ffi::{c_int, c_long};

use crate::local::{DatalessState, local};
use crate::same_thread::SameThread;
use crate::{system, thread};

const SYS_PRCTL: c_long = 157;
const SYS_SECCOMP: c_long = 317;
const PR_SET_SECCOMP: c_long = 22;
const SECCOMP_MODE_STRICT: c_long = 1;
const SECCOMP_SET_MODE_STRICT: c_long = 0;

/// A call of the system, whose result has the error in it.
unsafe fn call(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> c_long {
    let result;
    // SAFETY: the program's own call.
    unsafe {
        asm!(
            "syscall",
            inout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result
}

fn is_strict(number: c_long, first: c_long, second: c_long) -> bool {
    match number {
        SYS_PRCTL => first == PR_SET_SECCOMP && second == SECCOMP_MODE_STRICT,
        _ => number == SYS_SECCOMP && first == SECCOMP_SET_MODE_STRICT,
    }
}

/// A call of the system that may begin the strict mode.
unsafe extern "C" fn guarded(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: the program's own call.
    unsafe {
        let before = is_strict(number, a, b).then(enter);
        let result = call(number, [a, b, c, d, e, f]);
        if let Some(before) = before.filter(|_| result < 0) {
            leave(before);
        }
        if (-4095..0).contains(&result) {
            system::set_errno(-result as c_int);
            return -1;
        }
        result
    }
}

/// Records nothing more of this thread. Gives its state.
fn enter() -> DatalessState {
    let state = local().state();
    match thread::current() {
        Some(thread) => {
            thread.busy.change(|busy| busy + 1);
            thread.is_strict.set(true);
        }
        None if state == DatalessState::New => local().set_state(DatalessState::Strict),
        None => {}
    }
    state
}

/// The call failed: all is as before.
fn leave(state: DatalessState) {
    match thread::current() {
        Some(thread) => {
            thread.busy.change(|busy| busy - 1);
            thread.is_strict.set(false);
        }
        None => local().set_state(state),
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: c_long, b: c_long, c: c_long, d: c_long) -> c_int {
    // SAFETY: the program's own call.
    unsafe { guarded(SYS_PRCTL, option.into(), a, b, c, d, 0) as c_int }
}

/// As the C library's, which has no place before it that could be asked: constructors call it before this library begins.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall() {
    naked_asm!(
        "cmp rdi, {prctl}",
        "je {guarded}",
        "cmp rdi, {seccomp}",
        "je {guarded}",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "push rax",
        "call {errno}",
        "pop rcx",
        "neg ecx",
        "mov [rax], ecx",
        "mov rax, -1",
        "ret",
        prctl = const SYS_PRCTL,
        seccomp = const SYS_SECCOMP,
        guarded = sym guarded,
        errno = sym system::errno_place,
    )
}
