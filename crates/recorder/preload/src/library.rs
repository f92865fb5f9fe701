//! Libraries that the program loads while it runs.

use std::arch::naked_asm;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use crate::settings::{self, SETTINGS};
use crate::thread::current;
use crate::{frames, plt, probes, session, system};

type OpenLibrary = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

/// As the C library's. It looks where the library that calls it says (`DT_RUNPATH`), so it is told who that is.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen() {
    naked_asm!("mov rdx, [rsp]", "jmp {open}", open = sym open)
}

/// Opens a library, and reports where it lies.
unsafe extern "C" fn open(name: *const c_char, flags: c_int, caller: *const c_void) -> *mut c_void {
    // SAFETY: what `dlsym` found is the C library's function of this name; the program's own arguments.
    unsafe {
        let open = system::dlsym(system::RTLD_NEXT, c"dlopen".as_ptr());
        if open.is_null() {
            return std::ptr::null_mut();
        }
        let open = std::mem::transmute::<*mut c_void, OpenLibrary>(open);
        let time = system::clock_ns(SETTINGS.clock());
        let caller = frames::original_return(caller as usize) as *const c_void;
        let path = find(open, name, caller);
        let library = open(path.as_ref().map_or(name, |path| path.as_ptr()), flags);
        if settings::is_on() && !library.is_null() && !name.is_null() {
            without_recording(|| {
                record_library(library, name, time);
                plt::hook_later();
                probes::switch_on_later();
            });
        }
        library
    }
}

/// Does something that is not the program's.
fn without_recording(work: impl FnOnce()) {
    match current() {
        Some(thread) => thread.while_busy(work),
        None => work(),
    }
}

/// Tells of a library that was opened by this name.
unsafe fn record_library(library: *mut c_void, name: *const c_char, time: u64) {
    // SAFETY: a handle leads to where the library lies, and to its path; both names are the loader's or the program's.
    let (base, known) = unsafe {
        let [base, path] = *library.cast::<[usize; 2]>();
        let path = path as *const c_char;
        (base as u64, CStr::from_ptr(if path.is_null() || *path == 0 { name } else { path }))
    };
    // As the recorder finds it, which may be in another folder.
    let path = std::fs::canonicalize(OsStr::from_bytes(known.to_bytes()));
    match &path {
        Ok(path) => session::append_library(time, base, path.as_os_str().as_bytes()),
        Err(_) => session::append_library(time, base, known.to_bytes()),
    }
}

/// The file that a library without a folder in its name is, where its caller has folders of its own: the C library takes this
/// library for the caller. `None` when it finds it all the same.
unsafe fn find(open: OpenLibrary, name: *const c_char, caller: *const c_void) -> Option<CString> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the program's own name, and addresses of code.
    unsafe {
        let name = CStr::from_ptr(name);
        if name.is_empty() || name.to_bytes().contains(&b'/') {
            return None;
        }
        let (theirs, ours) = (folders(caller), folders(self::open as *const c_void));
        let own = theirs.len().checked_sub(ours.len()).filter(|own| *own > 0)?;
        // It may be there already, from wherever.
        let known = open(name.as_ptr(), system::RTLD_LAZY | system::RTLD_NOLOAD);
        if !known.is_null() {
            system::dlclose(known);
            return None;
        }
        // Folders of the environment may stand before them, the usual ones after.
        let before = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
        let paths = theirs.iter().take(before + own).map(|folder| [folder.to_bytes(), b"/", name.to_bytes()].concat());
        let (at, path) = paths.map(CString::new).enumerate().find_map(|(at, path)| {
            let path = path.ok()?;
            (system::access(path.as_ptr(), READ) == 0).then_some((at, path))
        })?;
        (at >= before).then_some(path)
    }
}

/// Asks whether a file can be read.
const READ: c_int = 4;

/// The folders in which libraries are looked for that this code asks for.
unsafe fn folders(code: *const c_void) -> Vec<CString> {
    /// Ask for the library that has an address; for the folders, and for the room that they need.
    const LINK_MAP: c_int = 2;
    const FOLDERS: c_int = 4;
    const ROOM: c_int = 5;
    let (mut found, mut library, mut room) = ([0; 4], std::ptr::null_mut(), [0_usize; 2]);
    // SAFETY: the answers go to variables of the sizes that the C library wants: those of `Dl_info`, and of the head of
    // `Dl_serinfo`, which says how long the list is; its texts are in the same memory.
    unsafe {
        let is_known = system::dladdr1(code, &mut found, &mut library, LINK_MAP) != 0 && !library.is_null();
        if !is_known || system::dlinfo(library, ROOM, room.as_mut_ptr().cast()) != 0 {
            return Vec::new();
        }
        let mut list = vec![0_usize; room[0].div_ceil(size_of::<usize>()).max(2)];
        list[..2].copy_from_slice(&room);
        if system::dlinfo(library, FOLDERS, list.as_mut_ptr().cast()) != 0 {
            return Vec::new();
        }
        let count = list[1] as u32 as usize;
        let paths = list[2..].chunks_exact(2).take(count);
        paths.map(|path| CStr::from_ptr(path[0] as *const c_char).to_owned()).collect()
    }
}
