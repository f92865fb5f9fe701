//! Jumps of one byte: those of probes.
//!
//! A jump has five bytes, a probe one. But the four bytes after it, which belong to the instructions that follow and stay as
//! they are, are a distance all the same: with the first byte of a jump before them, it leads to one certain address, up to
//! 2 GiB away. If nothing is there, a page of ours can be, with this code at the address, the *landing*:
//!
//! ```text
//!     lea  rsp, [rsp - 128]        a function may keep data below its stack
//!     push ID
//!     call [common]                records the event, and changes no register
//!     lea  rsp, [rsp + 136]
//!     jmp  PROBE + 1               goes on with the instruction that follows
//! ```
//!
//! So one byte of the program changes, at once, and no instruction is moved. Code that jumps to what follows the probe finds
//! it unchanged. What may not change any more are the four bytes: a debugger's breakpoint there would lead the jump astray.
//!
//! It is not possible where the address is not free: below the first page, above the last one, in another mapping, or where a
//! stack or the heap could grow into it. Those probes become a trap ([`traps`](crate::traps)).

use std::arch::naked_asm;
use std::ffi::c_void;
use std::mem::offset_of;

use crate::events;
use crate::stubs::{aside, claim_record, load_thread, pop_registers, push_registers, restore_vectors, save_vectors};
use crate::system;
use crate::thread::{RecordPath, ThreadData};

const PAGE: usize = 4096;
/// Bytes of a landing.
const LEN: usize = 37;
/// Landings, at most: each has a mapping of its own, of which a process may have 65,530.
const MOST: usize = 4096;
/// Addresses of programs end here.
const END: usize = (1 << 47) - PAGE;
/// The first address that a program may map anywhere.
const BEGIN: usize = 1 << 16;
/// Room that stays free for the heap.
const HEAP: usize = 256 << 20;
/// Room that stays free for the first stack, which may grow up to its limit. The system keeps so much, too.
const STACK: usize = 128 << 20;

/// The landings that there are.
pub(crate) struct Landings {
    pages: Vec<usize>,
    used: Vec<Landing>,
}

struct Landing {
    at: usize,
    /// The probe that leads there.
    probe: usize,
}

impl Landings {
    pub(crate) const fn new() -> Landings {
        Landings { pages: Vec::new(), used: Vec::new() }
    }

    /// Makes the landing of a probe. `false` where that is not possible.
    ///
    /// # Safety
    /// The five bytes at the address can be read, and the last four do not change any more.
    pub(crate) unsafe fn add(&mut self, probe: usize, id: usize) -> bool {
        // SAFETY: the caller's.
        let distance = unsafe { (probe as *const u8).add(1).cast::<i32>().read_unaligned() };
        let Some(at) = (probe + 5).checked_add_signed(distance as isize) else { return false };
        let is_here = |used: &&Landing| used.at.abs_diff(at) < LEN;
        if let Some(used) = self.used.iter().find(is_here) {
            // The object was loaded again.
            if used.at != at || used.probe != probe {
                return false;
            }
        } else if self.used.len() == MOST {
            return false;
        }
        let Some(code) = code(at, probe, id) else { return false };
        // SAFETY: the pages are new ones, or hold landings only; what others execute stays as it is.
        unsafe {
            let Some(new) = self.take_pages(at) else { return false };
            let (begin, end) = (at & !(PAGE - 1), (at + LEN).next_multiple_of(PAGE));
            let all = system::PROT_READ_WRITE | system::PROT_EXEC;
            if system::mprotect(begin as *mut c_void, end - begin, all) != 0 {
                unmap(&new);
                return false;
            }
            (at as *mut [u8; LEN]).write(code);
            system::mprotect(begin as *mut c_void, end - begin, system::PROT_READ_EXEC);
            self.pages.extend(new);
        }
        if !self.used.iter().any(|used| used.at == at) {
            self.used.push(Landing { at, probe });
        }
        true
    }

    /// Maps the pages of a landing that are not there. Gives those; `None` where something else is.
    unsafe fn take_pages(&self, at: usize) -> Option<Vec<usize>> {
        let pages = [at & !(PAGE - 1), (at + LEN - 1) & !(PAGE - 1)];
        let wanted = if pages[0] == pages[1] { &pages[..1] } else { &pages[..] };
        let mut new = Vec::new();
        for &page in wanted.iter().filter(|page| !self.pages.contains(page)) {
            // SAFETY: a new page, where nothing is.
            unsafe {
                let (protection, flags) =
                    (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS | system::MAP_FIXED_NOREPLACE);
                let made = match is_free(page) {
                    true => system::mmap(page as *mut c_void, PAGE, protection, flags, -1, 0),
                    false => -1_isize as *mut c_void,
                };
                if made as usize != page {
                    if made as isize != -1 {
                        // A system that does not know the flag.
                        system::munmap(made, PAGE);
                    }
                    unmap(&new);
                    return None;
                }
            }
            new.push(page);
        }
        Some(new)
    }
}

/// Gives pages back.
unsafe fn unmap(pages: &[usize]) {
    for &page in pages {
        // SAFETY: the caller has mapped it, and has no use for it.
        unsafe { system::munmap(page as *mut c_void, PAGE) };
    }
}

/// Is an address one that neither the first stack nor the heap needs later?
pub(crate) fn is_free(page: usize) -> bool {
    // SAFETY: it only gives the end of the heap.
    let heap = unsafe { system::sbrk(0) } as usize;
    (BEGIN..END).contains(&page)
        && !(heap..heap.saturating_add(HEAP)).contains(&page)
        && !(stack_begin()..=usize::MAX).contains(&page)
}

/// Where the first stack may begin when it has grown.
fn stack_begin() -> usize {
    const RLIMIT_STACK: i32 = 3;
    let mut limit = [usize::MAX; 2];
    // SAFETY: the system writes two numbers. The environment stands on the first stack, unless the program has set another.
    unsafe { system::getrlimit(RLIMIT_STACK, &mut limit) };
    // Without a limit the system keeps five sixths of all addresses; no library is that near.
    let len = limit[0].clamp(STACK, 1 << 32);
    system::first_stack().saturating_sub(len + (16 << 20))
}

/// The code of a landing; `None` where the way back is too far.
fn code(at: usize, probe: usize, id: usize) -> Option<[u8; LEN]> {
    const CALLED: usize = 16;
    const BACK: usize = 29;
    let id = i32::try_from(id).ok()?.to_le_bytes();
    let back = i32::try_from((probe + 1) as isize - (at + BACK) as isize).ok()?.to_le_bytes();
    let common = ((BACK - CALLED) as u32).to_le_bytes();
    let parts: [&[u8]; 9] = [
        &[0x48, 0x8d, 0x64, 0x24, 0x80],
        &[0x68],
        &id,
        &[0xff, 0x15],
        &common,
        &[0x48, 0x8d, 0xa4, 0x24, 136, 0, 0, 0],
        &[0xe9],
        &back,
        &(landed as *const () as usize).to_le_bytes(),
    ];
    let mut code = [0; LEN];
    let mut end = 0;
    for part in parts {
        code[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    Some(code)
}

/// Bytes from the place of the id to where the stack of the program ends.
const TO_STACK: usize = 8 + 128;

/// Records the event whose id stands above the return address. It changes no register and no flag.
#[unsafe(naked)]
unsafe extern "C" fn landed() {
    naked_asm!(
        "pushfq",
        "cld",
        push_registers!(),
        // The plain case, without vector registers.
        load_thread!("8f", "8f"),
        "lea rdi, [rsp + {stack}]",
        "mov rax, qword ptr [rcx + {depth}]",
        "test rax, rax",
        "jz 3f",
        // The last call was left when its place is below the stack.
        "lea rax, [rax + 2 * rax]",
        "cmp qword ptr [rcx + 8 * rax + {frames} - 16], rdi",
        "jb 8f",
        "3:",
        claim_record!("7f"),
        "movsxd rax, dword ptr [rsp + {id}]",
        "shl rax, 16",
        "add rax, 43",
        "mov qword ptr [r8 - 16], rdx",
        "mov qword ptr [r8 - 8], rax",
        "dec qword ptr [rcx + {writing}]",
        "jmp 9f",
        "7:",
        "dec qword ptr [rcx + {writing}]",
        "8:",
        "lea rdi, [rsp + {id}]",
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 32",
        "mov [rbp - 8], rdi",
        save_vectors!("16"),
        "call {event}",
        "test rax, rax",
        "jz 2f",
        "mov rdi, [rbp - 8]",
        "lea rdx, [rip + {slow}]",
        "call {aside}",
        "2:",
        restore_vectors!("16"),
        "mov rsp, rbp",
        "pop rbp",
        "9:",
        pop_registers!(),
        "popfq",
        "ret",
        // Nine registers, the flags and the return address.
        id = const 11 * 8,
        stack = const 11 * 8 + TO_STACK,
        event = sym event,
        slow = sym slow_event,
        aside = sym aside,
        path = const offset_of!(ThreadData, path),
        plain = const RecordPath::Plain as u8,
        writing = const offset_of!(ThreadData, writing),
        pos = const offset_of!(ThreadData, pos),
        end = const offset_of!(ThreadData, not_in_children),
        depth = const offset_of!(ThreadData, depth),
        frames = const size_of::<ThreadData>(),
    )
}

/// Records an event. Not 0 when the slow path is needed.
unsafe extern "C" fn event(id: *const usize) -> usize {
    // SAFETY: the stub is called by a landing, which pushed the id.
    unsafe { usize::from(!events::record(*id, id as usize + TO_STACK)) }
}

/// As [`event`], after vector registers were put aside.
unsafe extern "C" fn slow_event(id: *const usize) -> usize {
    // SAFETY: as in `event`.
    unsafe { events::slow_record(*id, id as usize + TO_STACK) };
    0
}
