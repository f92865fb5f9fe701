//! Entries of functions that can be patched: where the compiler left room, a call of ours is put, before the program runs.

use std::ffi::c_void;

use crate::{moved, rules, stubs, system, table, wakeup};

pub(crate) const PAGE: usize = 4096;
/// How far a call reaches, with some room for the module itself.
pub(crate) const REACH: usize = 1 << 30;
/// A call with a distance of 32 bits.
const CALL: usize = 5;
const NO_OPERATION: u8 = 0x90;
/// Most bytes of the room that are looked at before a function.
const MOST_BEFORE: usize = 256;
/// Prefixes of an instruction without effect that takes more bytes.
const PREFIXES: [u8; 2] = [0x66, 0x2e];
/// The longest instruction.
const LONGEST: usize = 15;
/// The mark of where indirect jumps may go.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Patches what the table says, of all modules.
///
/// # Safety
/// The table is that of this process, and no other thread runs yet.
pub(crate) unsafe fn patch_all() {
    let mut done = Vec::new();
    for &[list, bytes] in rules::patches() {
        // SAFETY: the loader has put the section of addresses there, and relocated it.
        let addresses = unsafe { std::slice::from_raw_parts(list as *const usize, bytes as usize / 8) };
        // SAFETY: the compiler left instructions without effect there, and a function after those.
        let entries = addresses.iter().map(|address| unsafe { entry(*address) });
        let mut relay = None;
        for address in entries.filter(|address| rules::action_at(*address).flags & table::PATCH != 0) {
            relay = relay.or_else(|| make_relay(address));
            // SAFETY: the address is that of a function's entry.
            let is_patched = relay.is_some_and(|relay| unsafe { patch(address, relay) });
            if is_patched {
                done.push(address);
            }
            // The other functions have another way.
            if is_patched || !moved::is_known(address) {
                wakeup::count_patch(is_patched);
            }
        }
    }
    done.sort_unstable();
    // SAFETY: the caller's.
    unsafe { moved::patch_others(&done) };
}

/// Code that a call near `address` reaches, and that goes on to ours.
fn make_relay(address: usize) -> Option<usize> {
    let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS | system::MAP_FIXED_NOREPLACE);
    let below = (1..REACH >> 20).map(|step| (address & !(PAGE - 1)).wrapping_sub(step << 20));
    for at in below {
        // SAFETY: a new page, where nothing is; what it holds is a jump through the address after it.
        unsafe {
            let page = system::mmap(at as *mut c_void, PAGE, protection, flags, -1, 0);
            if page as usize == at {
                page.cast::<[u8; 6]>().write([0xff, 0x25, 0, 0, 0, 0]);
                page.cast::<u8>().add(6).cast::<usize>().write_unaligned(stubs::__fentry__ as *const () as usize);
                system::mprotect(page, PAGE, system::PROT_READ_EXEC);
                return Some(at);
            }
            if page as isize != -1 {
                // A system that does not know the flag.
                system::munmap(page, PAGE);
            }
        }
    }
    None
}

/// Bytes of the one instruction without effect that stands here, if there is room for a call in it.
unsafe fn long_room(at: *const u8) -> Option<usize> {
    // SAFETY: this is code, and bytes are looked at only where the instruction goes on.
    let byte = |offset: usize| unsafe { *at.add(offset) };
    let prefixes = (0..LONGEST - 8).take_while(|&offset| PREFIXES.contains(&byte(offset))).count();
    if byte(prefixes) != 0x0f || byte(prefixes + 1) != 0x1f {
        return None;
    }
    // With an address of a register, or of two, and a distance of 8 or 32 bits.
    let len = match byte(prefixes + 2) {
        0x44 => 5,
        0x80 => 7,
        0x84 => 8,
        _ => return None,
    };
    Some(prefixes + len)
}

/// The entry of the function whose room begins here: with `-fpatchable-function-entry=N,M` a part of that stands before it.
unsafe fn entry(address: usize) -> usize {
    // SAFETY: this is code, and bytes are looked at only while instructions without effect go on.
    let is_nothing = |at: &usize| unsafe { *(*at as *const u8) == NO_OPERATION };
    let before = (address..).take(MOST_BEFORE).take_while(is_nothing).count();
    (address..=address + before).find(|at| rules::is_beginning(*at)).unwrap_or(address)
}

/// Puts a call into the room at a function's entry. `false` when there is not enough.
unsafe fn patch(address: usize, relay: usize) -> bool {
    // SAFETY: this is code of the program, which it has where its section says; no thread runs it now.
    unsafe {
        let at = match *(address as *const [u8; 4]) {
            LANDING => address + LANDING.len(),
            _ => address,
        };
        let is_short = *(at as *const [u8; CALL]) == [NO_OPERATION; CALL];
        let room = if is_short { Some(CALL) } else { long_room(at as *const u8) };
        let Some(room) = room else { return false };
        let Ok(distance) = i32::try_from(relay as isize - (at + CALL) as isize) else { return false };
        let page = at & !(PAGE - 1);
        let len = at + room - page;
        let is_open = system::mprotect(page as *mut c_void, len, system::PROT_READ_WRITE | system::PROT_READ_EXEC) == 0;
        if is_open {
            let [a, b, c, d] = distance.to_le_bytes();
            (at as *mut [u8; CALL]).write([0xe8, a, b, c, d]);
            // The rest of a longer instruction.
            ((at + CALL) as *mut u8).write_bytes(NO_OPERATION, room - CALL);
            system::mprotect(page as *mut c_void, len, system::PROT_READ_EXEC);
        }
        is_open
    }
}
