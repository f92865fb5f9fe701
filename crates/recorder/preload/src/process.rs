//! The beginning and the end of the process.

use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use crate::settings::number;
use crate::{
    exec, exit, fork, lifetime, patch, plt, probes, rules, selective, session, settings, stubs, system, traps, wakeup,
};

/// The loader gives it what `main` gets.
extern "C" fn at_start(_count: c_int, arguments: *const *const c_char, environment: *const *const c_char) {
    traps::find();
    let Some(folder) = std::env::var_os("TRACEMILL_CALLS") else { return };
    if number("TRACEMILL_CALLS_FIXED").is_some() {
        // SAFETY: both are the lists of the process, which end with a null pointer.
        unsafe { fix_addresses(arguments, environment) };
    }
    if !settings::load(&folder) {
        return;
    }
    #[allow(unused_unsafe, reason = "the minimum version of Rust calls it unsafe")]
    // SAFETY: all processors of this architecture have the instruction.
    let leaf = unsafe { core::arch::x86_64::__cpuid(1) };
    if leaf.ecx & 1 << 27 != 0 {
        // The size for what the system has switched on.
        #[allow(unused_unsafe, reason = "the minimum version of Rust calls it unsafe")]
        // SAFETY: as before; processors with `xsave` have this leaf.
        let size = unsafe { core::arch::x86_64::__cpuid_count(0xd, 0) }.ebx as usize;
        stubs::set_xsave(size.max(1024) + 64);
    }
    // SAFETY: this is the constructor.
    unsafe {
        if !lifetime::prepare() {
            return;
        }
        fork::prepare();
    }
    if number("TRACEMILL_CALLS_OFF").is_some() {
        selective::start_off();
    }
    let rings = settings::ring_folder();
    // SAFETY: this is the constructor, and the list is the process's, which ends with a null pointer.
    unsafe {
        wakeup::find(rings);
        exec::keep(environment, folder.as_bytes(), rings);
        system::keep_first_stack(environment as usize);
    }
    if let Some(session) = session::begin(&folder) {
        if number("TRACEMILL_CALLS_RULES").is_some() {
            rules::load(&folder, &session, settings::has_recorder);
        }
        // SAFETY: the table is of this session, and this is the constructor.
        unsafe {
            patch::patch_all();
            if let Some(hooked) = plt::Hooked::wanted() {
                plt::hook_loaded(hooked);
            }
            probes::begin();
        }
        settings::switch_on();
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

/// The C library's profiler would write a file of its own, and interrupt the program.
#[unsafe(no_mangle)]
pub extern "C" fn __monstartup(_low: usize, _high: usize) {}

/// See [`__monstartup`].
#[unsafe(no_mangle)]
pub extern "C" fn _mcleanup() {}

extern "C" fn at_end() {
    exit::end_guessed();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = at_start;
