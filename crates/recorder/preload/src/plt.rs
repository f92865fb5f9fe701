//! Calls to libraries: where the program jumps through its table of imported functions, it goes through ours first.
//!
//! # What a call to a library is
//!
//! Code calls a function of another file through a word that the loader fills: a slot of the global offset table. The linker
//! puts a piece of code before it, the procedure linkage table (`call puts@plt`, relocation `R_X86_64_JUMP_SLOT`); with
//! `-fno-plt` the compiler calls through the slot itself (`call *puts@GOTPCREL(%rip)`, `R_X86_64_GLOB_DAT`). What stands in
//! the slot is all that matters. The form of the table of code (with landing pads for IBT, for retpolines, none) does not.
//!
//! So each slot gets the address of a *trampoline* of its own, in memory of ours:
//!
//! ```text
//!     endbr64                      the slot is reached by an indirect jump
//!     call [common]                tells the recorder, as `call __fentry__` does in a function
//!     jmp  [target]                where the slot led before
//! ```
//!
//! Its stack is that of a function that was built with `-mfentry`: the return address to the trampoline, and above it the one
//! of the caller. So the stub for it is the same code: it keeps all registers, has the same plain path without vector
//! registers, and replaces the same return address. Filters, depth, time and values apply as to functions of the program. A
//! `call` and its `ret` are a pair for the processor's stack of return addresses, and each trampoline has a jump of its own,
//! whose target is always the same: nothing is mispredicted.
//!
//! # The address of a function
//!
//! A record has the address of the slot, and the file of symbols has a symbol of type `P` there, which the recorder finds in
//! the relocations. uftrace has the address of the piece of code before the slot. But with `-fno-plt` there is none, and for
//! the other forms it can be found only by taking the code apart; readers want no more than a name at an address.
//!
//! # Binding
//!
//! *Immediate* (`-z now`, `LD_BIND_NOW`): the slot has the function's address, and is read-only from then on (RELRO). Its pages
//! are made writable for the moment.
//!
//! *Lazy*: the slot leads to code that calls the loader. This finds the function, and writes its address into the slot: the
//! trampoline would be gone after the first call. But the loader takes the slot's address from the relocation, so that is
//! changed: it writes into the `target` of the trampoline. The function is found by the loader, of the right version, once,
//! and no thread can see a state between. uftrace gives the slot back after each first call; calls that other threads make in
//! between are not recorded there.
//!
//! # What is not hooked
//!
//! * The functions by which programs call this library, those around `main`, and those of exceptions that look at the stack:
//!   the list is uftrace's, so counts are the same.
//! * Without `--nest-libcall` all but the program itself. With it the C library, the loader and this library, as in uftrace.
//! * A slot of `R_X86_64_GLOB_DAT` that no instruction calls through: a program has it to know a function's address.
//! * A slot of `R_X86_64_GLOB_DAT` that is only jumped through: the linker makes such code (`.plt.got`) for functions that are
//!   called and whose address is used as well. The address would be the trampoline's, and comparing it with that of a library
//!   would fail. uftrace does not record these calls either. (With `-fno-plt` the slot has a `call` somewhere, unless the
//!   function is only called last in others.)
//!
//! # Functions that do not simply return
//!
//! Their trampolines call other stubs; see [`special`](crate::special).
//!
//! # Guards
//!
//! The library does not record itself: its own slots are never changed, and what it calls in other libraries meets a
//! thread that is `busy`, or that has no data yet. An allocator with hooked slots is the same.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{rules, settings, stubs, system, table};

/// The objects whose calls are recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hooked {
    /// The program.
    Program,
    /// The program and its libraries.
    All,
}

impl Hooked {
    /// The choice that the environment has.
    pub(crate) fn wanted() -> Option<Hooked> {
        match settings::number("TRACEMILL_CALLS_LIBRARIES")? {
            1 => Some(Hooked::Program),
            2 => Some(Hooked::All),
            _ => None,
        }
    }
}

/// The functions by which programs report their calls.
const REPORTS: [&CStr; 4] = [c"mcount", c"_mcount", c"__fentry__", c"__cyg_profile_func_enter"];

/// Are libraries hooked that are loaded later?
static HOOKS_LATER: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Hooks what is loaded.
///
/// # Safety
/// This is the start of the program.
pub(crate) unsafe fn hook_loaded(hooked: Hooked) {
    HOOKS_LATER.store(hooked == Hooked::All, Ordering::Relaxed);
    // SAFETY: the caller's.
    unsafe { hook_objects(hooked) };
}

/// Hooks libraries that the program has loaded since, if that is wanted.
pub(crate) fn hook_later() {
    if HOOKS_LATER.load(Ordering::Relaxed) {
        // SAFETY: they are relocated by now.
        unsafe { hook_objects(Hooked::All) };
    }
}

unsafe fn hook_objects(hooked: Hooked) {
    let mut hooks = HOOKS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut walk = Walk { hooks: &mut hooks, hooked, count: 0 };
    // SAFETY: the loader calls the function with what it has described, while nothing is loaded or unloaded.
    unsafe { system::dl_iterate_phdr(hook_one, (&raw mut walk).cast()) };
}

/// The way through the loaded objects.
struct Walk<'a> {
    hooks: &'a mut Hooks,
    hooked: Hooked,
    count: usize,
}

unsafe extern "C" fn hook_one(object: *const c_void, _size: usize, walk: *mut c_void) -> c_int {
    // SAFETY: the loader's description, and the structure of `hook_objects`.
    unsafe {
        let (info, walk) = (&*object.cast::<LoaderInfo>(), &mut *walk.cast::<Walk<'_>>());
        walk.count += 1;
        let is_program = walk.count == 1;
        let object = LoadedObject::new(info);
        // A shell that runs the program has calls, too, which nobody asked for.
        if is_program && settings::number("TRACEMILL_CALLS_ANY").is_none() && !object.is_instrumented() {
            HOOKS_LATER.store(false, Ordering::Relaxed);
            return 1;
        }
        if is_program || !object.is_left_out(info.name) {
            walk.hooks.hook(&object);
        }
        c_int::from(walk.hooked == Hooked::Program)
    }
}

/// The loader's description of an object: `dl_phdr_info`.
#[repr(C)]
pub(crate) struct LoaderInfo {
    pub(crate) base: usize,
    pub(crate) name: *const c_char,
    segments: *const Segment,
    count: u16,
}

/// A program header.
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    _offset: u64,
    address: usize,
    _physical: usize,
    _file_len: usize,
    len: usize,
    _alignment: usize,
}

const LOADED: u32 = 1;
const DYNAMIC: u32 = 2;
const READ_ONLY_LATER: u32 = 0x6474_e552;
pub(crate) const EXECUTABLE: u32 = 1;
pub(crate) const WRITABLE: u32 = 2;
pub(crate) const READABLE: u32 = 4;

/// A relocation with an addend.
#[repr(C)]
struct Relocation {
    place: usize,
    info: u64,
    _addend: i64,
}

const GLOB_DAT: u32 = 6;
const JUMP_SLOT: u32 = 7;

/// A symbol.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    _other: u8,
    _section: u16,
    _value: usize,
    _len: usize,
}

/// An object that the loader has mapped.
pub(crate) struct LoadedObject<'a> {
    base: usize,
    segments: &'a [Segment],
    functions: [usize; 2],
    others: [usize; 2],
    symbols: *const Symbol,
    texts: *const c_char,
}

/// A slot that is to lead to a trampoline.
struct PltSlot {
    place: usize,
    /// Its relocation, when the loader binds it later.
    lazy: Option<*mut Relocation>,
    kind: FunctionKind,
    /// May the slot be there to know the function's address?
    is_address: bool,
}

/// The kind of a function, by the stub that its trampoline calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FunctionKind {
    Usual = 0,
    Momentary,
    Setjmp,
    Longjmp,
    Last,
    Vfork,
}

/// Functions whose slots stay as they are.
const LEFT_ALONE: [&CStr; 15] = [
    c"mcount",
    c"_mcount",
    c"__fentry__",
    c"__gnu_mcount_nc",
    c"__cyg_profile_func_enter",
    c"__cyg_profile_func_exit",
    c"_mcleanup",
    c"__libc_start_main",
    c"__cxa_throw",
    c"__cxa_rethrow",
    c"__cxa_begin_catch",
    c"__cxa_end_catch",
    c"__cxa_finalize",
    c"_Unwind_Resume",
    c"__tls_get_addr",
];

/// Libraries whose own calls are not recorded, up to a digit or a dot that follows.
const LIBRARIES_LEFT_OUT: [&[u8]; 7] =
    [b"libtracemill_calls", b"libc", b"libgcc_s", b"libpthread", b"libdl", b"linux-vdso", b"ld-linux-"];

impl FunctionKind {
    /// How a function of this name is called; `None` when it is left alone.
    fn of(name: &CStr) -> Option<FunctionKind> {
        if LEFT_ALONE.contains(&name) {
            return None;
        }
        Some(match name.to_bytes() {
            name if table::SETJMPS.contains(&name) => FunctionKind::Setjmp,
            name if table::LONGJMPS.contains(&name) => FunctionKind::Longjmp,
            name if table::VFORKS.contains(&name) => FunctionKind::Vfork,
            // They keep the return address for later, or look at it to know who calls.
            name if table::SWITCHES.contains(&name) => FunctionKind::Momentary,
            b"dlsym" | b"dlvsym" | b"dlmopen" => FunctionKind::Momentary,
            b"exit" | b"_exit" | b"_Exit" | b"quick_exit" | b"abort" | b"daemon" | b"fork" => FunctionKind::Last,
            b"execl" | b"execlp" | b"execle" | b"execv" | b"execve" | b"execvp" | b"execvpe" | b"fexecve" => {
                FunctionKind::Last
            }
            b"posix_spawn" | b"posix_spawnp" | b"pthread_exit" => FunctionKind::Last,
            _ => FunctionKind::Usual,
        })
    }

    fn stub(self) -> unsafe extern "C" fn() {
        match self {
            FunctionKind::Usual => stubs::tracemill_calls_library,
            FunctionKind::Momentary => stubs::library_momentary,
            FunctionKind::Setjmp => stubs::library_setjmp,
            FunctionKind::Longjmp => stubs::library_longjmp,
            FunctionKind::Last => stubs::library_last,
            FunctionKind::Vfork => stubs::library_vfork,
        }
    }
}

const KINDS: [FunctionKind; 6] = [
    FunctionKind::Usual,
    FunctionKind::Momentary,
    FunctionKind::Setjmp,
    FunctionKind::Longjmp,
    FunctionKind::Last,
    FunctionKind::Vfork,
];

impl LoadedObject<'_> {
    /// # Safety
    /// The loader describes an object that stays mapped as long as this is used.
    pub(crate) unsafe fn new(info: &LoaderInfo) -> LoadedObject<'_> {
        const PLT_BYTES: usize = 2;
        const TEXTS: usize = 5;
        const SYMBOLS: usize = 6;
        const OTHERS: usize = 7;
        const OTHER_BYTES: usize = 8;
        const PLT: usize = 23;
        // SAFETY: the caller's; the list of tags ends with 0.
        unsafe {
            let segments = std::slice::from_raw_parts(info.segments, info.count.into());
            let mut found = [0_usize; 24];
            if let Some(dynamic) = segments.iter().find(|segment| segment.kind == DYNAMIC) {
                let mut at = (info.base + dynamic.address) as *const [usize; 2];
                while (*at)[0] != 0 {
                    if let Some(place) = found.get_mut((*at)[0]) {
                        *place = (*at)[1];
                    }
                    at = at.add(1);
                }
            }
            // The loader has made addresses of them, but where the list is read-only.
            let absolute = |tag: usize| match found[tag] {
                0 => 0,
                address if address < info.base => address + info.base,
                address => address,
            };
            LoadedObject {
                base: info.base,
                segments,
                functions: [absolute(PLT), found[PLT_BYTES]],
                others: [absolute(OTHERS), found[OTHER_BYTES]],
                symbols: absolute(SYMBOLS) as *const Symbol,
                texts: absolute(TEXTS) as *const c_char,
            }
        }
    }

    /// Was it compiled so that its calls are recorded?
    unsafe fn is_instrumented(&self) -> bool {
        // SAFETY: the tables are those that the loader has used.
        unsafe {
            let tables = [self.functions, self.others].map(|table| self.relocations(table));
            let mut names = tables.into_iter().flatten().filter_map(|relocation| self.name(relocation));
            names.any(|name| REPORTS.contains(&name))
                || rules::patches().iter().any(|&[at, _]| self.has(at as usize, 0))
                || rules::entries().iter().any(|entry| self.has(entry.address as usize, EXECUTABLE))
        }
    }

    fn symbol(&self, relocation: &Relocation) -> Option<&Symbol> {
        // SAFETY: the loader has used the table.
        (!self.symbols.is_null()).then(|| unsafe { &*self.symbols.add((relocation.info >> 32) as usize) })
    }

    /// The name of the function, or of anything else, whose address a relocation puts into a slot.
    unsafe fn name(&self, relocation: &Relocation) -> Option<&CStr> {
        if !matches!(relocation.info as u32, JUMP_SLOT | GLOB_DAT) || self.texts.is_null() {
            return None;
        }
        let symbol = self.symbol(relocation)?;
        // SAFETY: as in `symbol`.
        Some(unsafe { CStr::from_ptr(self.texts.add(symbol.name as usize)) })
    }

    /// Are the calls of this library not recorded?
    pub(crate) unsafe fn is_left_out(&self, name: *const c_char) -> bool {
        let own = hook_one as *const () as usize;
        if self.has(own, 0) || name.is_null() {
            return true;
        }
        // SAFETY: the loader's text.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let is_known = |known: &&[u8]| {
            let rest = name.strip_prefix(*known);
            rest.is_some_and(|rest| known.ends_with(b"-") || rest.starts_with(b".so") || rest.starts_with(b"-2."))
        };
        name.is_empty() || LIBRARIES_LEFT_OUT.iter().any(is_known)
    }

    /// Has a segment with these flags this address?
    pub(crate) fn has(&self, address: usize, flags: u32) -> bool {
        self.loaded(flags).any(|[begin, end]| (begin..end).contains(&address))
    }

    /// Where segments with these flags are.
    pub(crate) fn loaded(&self, flags: u32) -> impl Iterator<Item = [usize; 2]> {
        let segments = self.segments.iter().filter(move |of| of.kind == LOADED && of.flags & flags == flags);
        segments.map(|segment| [self.base + segment.address, self.base + segment.address + segment.len])
    }

    /// Relocations of a table.
    unsafe fn relocations(&self, [at, bytes]: [usize; 2]) -> &[Relocation] {
        match at {
            0 => &[],
            // SAFETY: the loader has used the table.
            _ => unsafe { std::slice::from_raw_parts(at as *const Relocation, bytes / size_of::<Relocation>()) },
        }
    }

    /// The slots that are to be hooked.
    unsafe fn slots(&self) -> Vec<PltSlot> {
        let mut slots = Vec::new();
        // SAFETY: the tables are those that the loader has used.
        unsafe {
            for (table, kind) in [(self.functions, JUMP_SLOT), (self.others, GLOB_DAT)] {
                for relocation in self.relocations(table).iter().filter(|relocation| relocation.info as u32 == kind) {
                    // Functions, and those that are chosen when they are bound.
                    let is_function = |symbol: &Symbol| kind == JUMP_SLOT || matches!(symbol.info & 15, 2 | 10);
                    if !self.symbol(relocation).is_some_and(is_function) {
                        continue;
                    }
                    let Some(called) = self.name(relocation).and_then(FunctionKind::of) else { continue };
                    let place = self.base + relocation.place;
                    let target = (*(place as *const AtomicUsize)).load(Ordering::Relaxed);
                    // One that is bound leads elsewhere, or to a function of the object itself: the same is done for that.
                    let lazy = kind == JUMP_SLOT && self.has(target, EXECUTABLE);
                    let lazy = lazy.then_some((&raw const *relocation).cast_mut());
                    if target != 0 {
                        slots.push(PltSlot { place, lazy, kind: called, is_address: kind == GLOB_DAT });
                    }
                }
            }
            if slots.iter().any(|slot| slot.is_address) {
                self.find_calls(&mut slots);
            }
        }
        slots
    }

    /// Leaves out slots that no instruction calls through, of those that are not only for that.
    unsafe fn find_calls(&self, slots: &mut Vec<PltSlot>) {
        /// `call [rip + ...]`.
        const CALL: [u8; 2] = [0xff, 0x15];
        const LEN: usize = 6;
        let mut known: Vec<_> = slots.iter().filter(|slot| slot.is_address).map(|slot| (slot.place, false)).collect();
        known.sort_unstable();
        for [begin, end] in self.loaded(EXECUTABLE) {
            // SAFETY: the segment is mapped; what is not readable is not loaded like this.
            let code = unsafe { std::slice::from_raw_parts(begin as *const u8, end - begin) };
            for (at, bytes) in code.windows(LEN).enumerate() {
                if bytes[..2] == CALL {
                    let distance = i32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
                    let place = (begin + at + LEN).wrapping_add_signed(distance as isize);
                    if let Ok(found) = known.binary_search_by_key(&place, |(place, _)| *place) {
                        known[found].1 = true;
                    }
                }
            }
        }
        slots.retain(|slot| !slot.is_address || known.contains(&(slot.place, true)));
    }

    /// Does something while the pages of this range can be written.
    pub(crate) unsafe fn while_open(&self, [begin, end]: [usize; 2], protection: c_int, work: impl FnOnce()) -> bool {
        let begin = begin & !(PAGE - 1);
        let (at, len) = (begin as *mut c_void, end.next_multiple_of(PAGE) - begin);
        // SAFETY: the pages are those of the object, and get back what they had.
        unsafe {
            let is_open = system::mprotect(at, len, protection | system::PROT_READ_WRITE) == 0;
            if is_open {
                work();
                system::mprotect(at, len, protection);
            }
            is_open
        }
    }

    /// The pages that the loader has made read-only.
    fn read_only_later(&self) -> Option<[usize; 2]> {
        let segment = self.segments.iter().find(|segment| segment.kind == READ_ONLY_LATER)?;
        let begin = self.base + segment.address;
        let pages = [begin & !(PAGE - 1), (begin + segment.len) & !(PAGE - 1)];
        (pages[0] < pages[1]).then_some(pages)
    }

    /// The protection of the segment that has this address.
    pub(crate) fn protection(&self, address: usize) -> c_int {
        let segment = self.segments.iter().find(|segment| {
            let begin = self.base + segment.address;
            segment.kind == LOADED && (begin..begin + segment.len).contains(&address)
        });
        let flags = segment.map_or(READABLE, |segment| segment.flags);
        let parts = [(READABLE, system::PROT_READ), (WRITABLE, system::PROT_WRITE), (EXECUTABLE, system::PROT_EXEC)];
        parts.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, protection)| protection).sum()
    }
}

const PAGE: usize = 4096;
/// Bytes of a trampoline, and of what belongs to it.
const LEN: usize = 16;
/// Trampolines of a block: a page of code, a page of what belongs to them, a page with what they call.
const MOST: usize = PAGE / LEN;
/// How far the address of the slot is from where the trampoline calls the recorder.
pub(crate) const BESIDE: usize = PAGE - RETURNS;
/// Where the call in a trampoline returns to.
const RETURNS: usize = 10;

/// The data of a trampoline. Its place never changes, and the loader writes the target.
#[repr(C)]
struct Beside {
    slot: usize,
    target: AtomicUsize,
}

/// Trampolines that there are.
struct Hooks {
    used: Vec<Used>,
}

struct Used {
    kind: FunctionKind,
    slot: usize,
    code: usize,
}

static HOOKS: Mutex<Hooks> = Mutex::new(Hooks { used: Vec::new() });

impl Hooks {
    /// Hooks the slots of an object that are not yet.
    unsafe fn hook(&mut self, object: &LoadedObject<'_>) {
        // SAFETY: the loader has mapped and relocated the object.
        unsafe {
            let mut slots = object.slots();
            slots.retain(|slot| !self.has(slot));
            if slots.is_empty() {
                return;
            }
            let codes = self.trampolines(&slots);
            let hooked: Vec<_> = slots.iter().zip(codes).collect();
            // Where the loader writes the address of a function that it binds. A slot that it would write itself stays.
            let table = [object.functions[0], object.functions[0] + object.functions[1]];
            let is_lazy = hooked.iter().any(|(slot, _)| slot.lazy.is_some());
            let write_tables = || {
                for (slot, code) in &hooked {
                    if let Some(relocation) = slot.lazy {
                        let target = &raw const (*beside(*code)).target as usize;
                        (*relocation).place = target.wrapping_sub(object.base);
                    }
                }
            };
            let has_tables = !is_lazy || object.while_open(table, object.protection(object.functions[0]), write_tables);
            let write_slots = || {
                for (slot, code) in hooked.iter().filter(|(slot, _)| has_tables || slot.lazy.is_none()) {
                    (*(slot.place as *const AtomicUsize)).store(*code, Ordering::Release);
                }
            };
            let read_only = object.read_only_later();
            let is_closed = |slot: &PltSlot| read_only.is_some_and(|[begin, end]| (begin..end).contains(&slot.place));
            match read_only.filter(|_| slots.iter().any(is_closed)) {
                Some(pages) => drop(object.while_open(pages, system::PROT_READ, write_slots)),
                None => write_slots(),
            }
        }
    }

    /// Does a slot lead to a trampoline already?
    unsafe fn has(&self, slot: &PltSlot) -> bool {
        // SAFETY: the object is mapped.
        let target = unsafe { (*(slot.place as *const AtomicUsize)).load(Ordering::Relaxed) };
        self.used.iter().any(|used| used.code == target)
    }

    /// The addresses of trampolines for these slots, which lead where the slots do. One that an object had in this place
    /// before, which is gone, is used again.
    unsafe fn trampolines(&mut self, slots: &[PltSlot]) -> Vec<usize> {
        let mut codes = Vec::with_capacity(slots.len());
        let known = self.used.len();
        let mut block = (0, MOST);
        for (at, slot) in slots.iter().enumerate() {
            let used = self.used[..known].iter().find(|used| used.slot == slot.place && used.kind == slot.kind);
            let code = match used {
                Some(used) => used.code,
                None => {
                    if block.1 == MOST {
                        // SAFETY: a new block, of which nothing is used yet.
                        block = (unsafe { make_block(&slots[at..]) }, 0);
                        if block.0 == 0 {
                            break;
                        }
                    }
                    block.1 += 1;
                    block.0 + (block.1 - 1) * LEN
                }
            };
            // SAFETY: the place belongs to this trampoline, and the slot is mapped.
            unsafe {
                let target = match slot.kind {
                    FunctionKind::Vfork => stubs::library_vfork_itself as *const () as usize,
                    _ => (*(slot.place as *const AtomicUsize)).load(Ordering::Relaxed),
                };
                (*beside(code)).slot = slot.place;
                (*beside(code)).target.store(target, Ordering::Release);
            }
            self.used.push(Used { kind: slot.kind, slot: slot.place, code });
            codes.push(code);
        }
        codes
    }
}

/// The data of a trampoline.
fn beside(code: usize) -> *mut Beside {
    (code + PAGE) as *mut Beside
}

/// Writes the code of trampolines for the first of these slots. Gives where they are, or 0 when there is no memory.
unsafe fn make_block(slots: &[PltSlot]) -> usize {
    let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS);
    // SAFETY: a new mapping of three pages, which nobody else knows yet.
    unsafe {
        let pages = system::mmap(std::ptr::null_mut(), 3 * PAGE, protection, flags, -1, 0).cast::<u8>();
        if pages as isize == -1 {
            return 0;
        }
        for kind in KINDS {
            pages.add(2 * PAGE).cast::<usize>().add(kind as usize).write(kind.stub() as usize);
        }
        for (at, slot) in slots.iter().take(MOST).enumerate() {
            let begin = at * LEN;
            let to_common = (2 * PAGE + 8 * slot.kind as usize - begin - RETURNS) as u32;
            let to_target = (PAGE + 8 - LEN) as u32;
            let code = pages.add(begin);
            code.cast::<[u8; 6]>().write([0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x15]);
            code.add(6).cast::<u32>().write_unaligned(to_common);
            code.add(RETURNS).cast::<[u8; 2]>().write([0xff, 0x25]);
            code.add(RETURNS + 2).cast::<u32>().write_unaligned(to_target);
        }
        if system::mprotect(pages.cast(), PAGE, system::PROT_READ_EXEC) != 0 {
            system::munmap(pages.cast(), 3 * PAGE);
            return 0;
        }
        pages as usize
    }
}
