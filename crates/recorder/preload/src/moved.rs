//! Functions without room for a call: their first instructions are moved, and a jump stands in their place.
//!
//! The recorder has looked at the whole file, and found which functions can be changed so. Here is written what it says. Each
//! function gets a *slot*, in memory near it:
//!
//! ```text
//!     call [common]                tells the recorder, as `call __fentry__` does in a function
//!     moved instructions
//!     jmp  rest of the function
//! ```
//!
//! The stack is that of a function built with `-mfentry`: so the stub is the same code. The address that stands for the
//! function is at the end of the slot, where the stub finds it from its return address: other functions do not get slower.
//!
//! No page can be written and executed at the same time. All of this is done before the program runs: by then no thread is
//! between the bytes that change.

use std::ffi::{c_int, c_void};

use crate::patch::{PAGE, REACH};
use crate::plt::{EXECUTABLE, LoadedObject, LoaderInfo, READABLE};
use crate::table::{self, FunctionEntry};
use crate::{landings, rules, stubs, system, wakeup};

/// Bytes of a slot.
const LEN: usize = 64;
/// Where the call of a slot returns to.
const RETURNS: usize = 6;
// The function's address is at the end, after the moved instructions.
const _: () = assert!(RETURNS + stubs::MOVED_BESIDE == LEN - 8 && stubs::MOVED_BESIDE >= table::BODY_LEN);
/// Bytes before the slots: the address that they call.
const HEAD: usize = LEN;
/// Bytes of the mark of where indirect jumps may go: the room of a function may be after it.
const MARK: usize = 4;
/// Bytes of a jump.
const JUMP: usize = 5;

/// Is this a function whose first instructions are moved, or that is known to stay as it is?
pub(crate) fn is_known(address: usize) -> bool {
    let has = |address: usize| rules::entries().binary_search_by_key(&(address as u64), |entry| entry.address).is_ok();
    has(address) || has(address.wrapping_sub(MARK))
}

/// Patches the functions of the program that have no room, but for those that are done.
///
/// # Safety
/// The table is that of this process, and no other thread runs yet.
pub(crate) unsafe fn patch_others(done: &[usize]) {
    let is_done = |entry: &&FunctionEntry| {
        let address = entry.address as usize;
        [address, address + MARK].iter().any(|at| done.binary_search(at).is_ok())
    };
    let mut code: Vec<[usize; 2]> = Vec::new();
    // SAFETY: the loader calls the function with what it has described, and with this list.
    unsafe { system::dl_iterate_phdr(add_code, (&raw mut code).cast()) };
    let mut entries = Vec::new();
    for entry in rules::entries().iter().filter(|entry| !is_done(entry)) {
        match entry.original_len {
            0 => wakeup::count_left(entry.mark),
            // SAFETY: code of the program is only compared where it is.
            _ if unsafe { is_same(entry, &code) } => entries.push(entry),
            _ => wakeup::count_left(table::LEFT_CHANGED),
        }
    }
    let Some(first) = entries.first() else { return };
    // SAFETY: the mapping is new, and as long as the slots need it.
    let slots = unsafe { make_slots(&entries, place(first) & !(PAGE - 1)) };
    // Functions on the same pages, or on pages that follow each other, are changed together.
    let mut rest = &entries[..];
    while let Some(first) = rest.first() {
        let mut end = end_page(first);
        let mut count = 1;
        while let Some(next) = rest.get(count).filter(|next| place(next) & !(PAGE - 1) <= end) {
            end = end_page(next).max(end);
            count += 1;
        }
        let begin = place(first) & !(PAGE - 1);
        // SAFETY: the pages are code of the program, which no thread executes now.
        let is_patched = slots.is_some_and(|slots| unsafe {
            let protect = |protection| system::mprotect(begin as *mut c_void, end - begin, protection) == 0;
            let is_open = protect(system::PROT_READ_WRITE);
            if is_open {
                rest[..count].iter().for_each(|entry| jump(entry, slots, &entries));
                protect(system::PROT_READ_EXEC);
            }
            is_open
        });
        for entry in &rest[..count] {
            match is_patched && slots.is_some_and(|slots| slot_of(entry, slots, &entries).is_some()) {
                true => wakeup::count_patch(true),
                false => wakeup::count_left(table::LEFT_CHANGED),
            }
        }
        rest = &rest[count..];
    }
}

/// Where the instructions stand that are moved.
fn place(entry: &FunctionEntry) -> usize {
    (entry.address + entry.mark) as usize
}

/// The end of the last page that a jump changes.
fn end_page(entry: &FunctionEntry) -> usize {
    (place(entry) + JUMP).next_multiple_of(PAGE)
}

/// Adds the code of the program, which is the first object.
unsafe extern "C" fn add_code(object: *const c_void, _size: usize, code: *mut c_void) -> c_int {
    // SAFETY: the loader's description, and the list of `patch_others`.
    unsafe {
        let object = LoadedObject::new(&*object.cast::<LoaderInfo>());
        (*code.cast::<Vec<[usize; 2]>>()).extend(object.loaded(EXECUTABLE | READABLE));
    }
    1
}

/// Are the instructions in memory those that the recorder has seen?
unsafe fn is_same(entry: &FunctionEntry, code: &[[usize; 2]]) -> bool {
    let (begin, len) = (place(entry), entry.original_len as usize);
    let is_code = code.iter().any(|[first, end]| *first <= entry.address as usize && begin + len <= *end);
    // SAFETY: the bytes are in a segment that can be read.
    is_code && unsafe { std::slice::from_raw_parts(begin as *const u8, len) } == &entry.original[..len]
}

/// Writes the slots for these functions. Gives where they are.
unsafe fn make_slots(entries: &[&FunctionEntry], near: usize) -> Option<usize> {
    let len = (HEAD + entries.len() * LEN).next_multiple_of(PAGE);
    let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS | system::MAP_FIXED_NOREPLACE);
    let steps = || (1..REACH >> 20).map(|step| step << 20);
    let below = steps().filter_map(|step| near.checked_sub(step)).filter(|at| near - at >= len);
    // Where the heap and the stack do not grow to.
    let above = steps().map(|step| near + step).filter(|at| landings::is_free(*at) && landings::is_free(at + len));
    for at in below.chain(above) {
        // SAFETY: new pages, where nothing is; what is written is inside of them.
        unsafe {
            let made = system::mmap(at as *mut c_void, len, protection, flags, -1, 0);
            if made as usize == at {
                (at as *mut usize).write(stubs::tracemill_calls_moved as *const () as usize);
                for (number, entry) in entries.iter().enumerate() {
                    // One that is too far away is not used.
                    if let Some(code) = code(entry, at + HEAD + number * LEN, at) {
                        ((at + HEAD + number * LEN) as *mut [u8; LEN]).write(code);
                    }
                }
                if system::mprotect(made, len, system::PROT_READ_EXEC) == 0 {
                    return Some(at);
                }
            }
            if made as isize != -1 {
                // A system that does not know the flag.
                system::munmap(made, len);
            }
        }
    }
    None
}

/// The code of a slot; `None` where something is too far away from it.
fn code(entry: &FunctionEntry, at: usize, common: usize) -> Option<[u8; LEN]> {
    let mut code = [0xcc; LEN];
    code[..2].copy_from_slice(&[0xff, 0x15]);
    let distance = i32::try_from(common as isize - (at + RETURNS) as isize).ok()?;
    code[2..RETURNS].copy_from_slice(&distance.to_le_bytes());
    let body = &mut code[RETURNS..RETURNS + table::BODY_LEN];
    let len = entry.body_len as usize;
    body[..len].copy_from_slice(&entry.body[..len]);
    let moved_by = i32::try_from(place(entry) as isize - (at + RETURNS) as isize).ok()?;
    for distance in entry.distances.iter().filter(|at| **at != table::NO_DISTANCE) {
        let bytes: &mut [u8; 4] = body[..len].get_mut(usize::from(*distance)..)?.first_chunk_mut()?;
        *bytes = i32::from_le_bytes(*bytes).checked_add(moved_by)?.to_le_bytes();
    }
    code[LEN - 8..].copy_from_slice(&entry.address.to_le_bytes());
    jump_to(entry, at)?;
    Some(code)
}

/// The jump from a function's entry to its slot; `None` where that is too far away.
fn jump_to(entry: &FunctionEntry, slot: usize) -> Option<[u8; JUMP]> {
    let distance = i32::try_from(slot as isize - (place(entry) + JUMP) as isize).ok()?;
    let [a, b, c, d] = distance.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

/// The slot of a function, if it reaches all that it must.
fn slot_of(entry: &FunctionEntry, slots: usize, entries: &[&FunctionEntry]) -> Option<usize> {
    let number = entries.binary_search_by_key(&entry.address, |entry| entry.address).ok()?;
    let at = slots + HEAD + number * LEN;
    code(entry, at, slots).map(|_| at)
}

/// Writes the jump of a function.
unsafe fn jump(entry: &FunctionEntry, slots: usize, entries: &[&FunctionEntry]) {
    if let Some(jump) = slot_of(entry, slots, entries).and_then(|slot| jump_to(entry, slot)) {
        // SAFETY: the caller has opened the page, and the bytes are instructions that were moved.
        unsafe { (place(entry) as *mut [u8; JUMP]).write(jump) };
    }
}
