//! The functions that traced programs call, in assembly: they keep all registers.

use std::arch::{global_asm, naked_asm};
use std::mem::offset_of;
use std::sync::atomic::AtomicUsize;

use crate::rules::CACHED;
use crate::thread::{FrameState, RecordPath, SelectionCell, ThreadData};
use crate::{enter, plt, selective};

/// Text that saves the integer registers that a call may change, in the order of [`Saved`](crate::saved::Saved) from its end.
macro_rules! push_registers {
    () => {
        "push rax
         push rcx
         push rdx
         push rsi
         push rdi
         push r8
         push r9
         push r10
         push r11"
    };
}

/// Takes back what `push_registers` saved.
macro_rules! pop_registers {
    () => {
        "pop r11
         pop r10
         pop r9
         pop r8
         pop rdi
         pop rsi
         pop rdx
         pop rcx
         pop rax"
    };
}

/// Saves the vector registers below `rsp`, which is aligned first, and leaves their place in [`Saved::vectors`](crate::saved::Saved::vectors).
macro_rules! save_vectors {
    ($count:literal) => {
        concat!(
            "and rsp, -16\n",
            "sub rsp, 16 * ",
            $count,
            "\n",
            "mov [rbp - 24], rsp\n",
            ".set tracemill_at, 0\n",
            ".irp register, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n",
            ".if tracemill_at < ",
            $count,
            "\n",
            "movaps [rsp + 16 * \\register], xmm\\register\n",
            ".endif\n",
            ".set tracemill_at, tracemill_at + 1\n",
            ".endr",
        )
    };
}

/// Takes back what `save_vectors` saved.
macro_rules! restore_vectors {
    ($count:literal) => {
        concat!(
            ".set tracemill_at, 0\n",
            ".irp register, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n",
            ".if tracemill_at < ",
            $count,
            "\n",
            "movaps xmm\\register, [rsp + 16 * \\register]\n",
            ".endif\n",
            ".set tracemill_at, tracemill_at + 1\n",
            ".endr",
        )
    };
}

/// Text that puts the thread's data into rcx, and goes on at `selected` or `other` unless calls are plain and nothing stands
/// in the way.
macro_rules! load_thread {
    ($selected:literal, $other:literal) => {
        concat!(
            "mov rcx, qword ptr [rip + tracemill_calls_thread@GOTTPOFF]\n",
            "mov rcx, qword ptr fs:[rcx]\n",
            "test rcx, rcx\n",
            "jz ",
            $other,
            "\n",
            // The path, and that return addresses are not put back, and no slow path is at work.
            "cmp qword ptr [rcx + {path}], {plain}\n",
            "jne ",
            $selected,
        )
    };
}

/// Text that claims a record: r8 is its end, rdx the clock. It goes on at `label` when there is no room; rax is lost.
macro_rules! claim_record {
    ($label:literal) => {
        concat!(
            "inc qword ptr [rcx + {writing}]\n",
            "2:\n",
            "mov r8, qword ptr [rcx + {pos}]\n",
            "rdtsc\n",
            "shl rdx, 32\n",
            "or rdx, rax\n",
            "mov rax, r8\n",
            "add r8, 16\n",
            "cmp r8, qword ptr [rcx + {end}]\n",
            "ja ",
            $label,
            "\n",
            // Again, with another clock, when a signal handler came between.
            "cmpxchg qword ptr [rcx + {pos}], r8\n",
            "jne 2b",
        )
    };
}

/// Text that puts the address that stands for the function into a register. It is the one that the stub returns to, which
/// stands at `at`; for a call to a library, the trampoline has it beside that (see [`plt`](crate::plt)), and for a function
/// whose first instructions were moved, what has those (see [`moved`](crate::moved)).
macro_rules! load_address {
    (function, $to:literal, $at:literal) => {
        concat!("mov ", $to, ", qword ptr [rsp + ", $at, "]")
    };
    (library, $to:literal, $at:literal) => {
        concat!("mov ", $to, ", qword ptr [rsp + ", $at, "]\n", "mov ", $to, ", qword ptr [", $to, " + {beside}]")
    };
}

/// Text that fills the frame at rsi for the place in rdi, and leaves the function's address in rax.
macro_rules! fill_frame {
    ($callee:ident) => {
        concat!(
            "mov rax, qword ptr [rdi]\n",
            "mov qword ptr [rsi], rax\n",
            "mov qword ptr [rsi + 8], rdi\n",
            load_address!($callee, "rax", "56"),
            "\nmov qword ptr [rsi + 16], rax",
        )
    };
}

/// Text that puts what the call of number `index` has beside its frame into `to`.
macro_rules! load_extra {
    ($to:literal, $index:literal) => {
        concat!("imul ", $to, ", ", $index, ", {extra}\n", "add ", $to, ", qword ptr [rcx + {extras}]")
    };
}

/// Text that takes back what the stubs of plain calls save.
macro_rules! pop_plain {
    () => {
        "pop r9
         pop r8
         pop rdi
         pop rsi
         pop rdx
         pop rcx
         pop rax"
    };
}

/// Text that saves it.
macro_rules! push_plain {
    () => {
        "push rax
         push rcx
         push rdx
         push rsi
         push rdi
         push r8
         push r9"
    };
}

pub(crate) use {claim_record, load_thread, pop_registers, push_registers, restore_vectors, save_vectors};

/// How far the function's address is from where the call of its slot returns to.
pub(crate) const MOVED_BESIDE: usize = 50;

/// Bytes that `xsave` needs; 0 when the processor has none.
static XSAVE: AtomicUsize = AtomicUsize::new(0);

/// Calls the function in rdx with rdi while all vector registers are put aside.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn aside() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rbx",
        "push r12",
        "mov rbx, rdx",
        "mov rax, [rip + {size}]",
        "test rax, rax",
        "jz 2f",
        "sub rsp, rax",
        "and rsp, -64",
        // The header of the area.
        "xor eax, eax",
        "mov [rsp + 512], rax",
        "mov [rsp + 520], rax",
        "mov [rsp + 528], rax",
        "mov [rsp + 536], rax",
        "mov [rsp + 544], rax",
        "mov [rsp + 552], rax",
        "mov [rsp + 560], rax",
        "mov [rsp + 568], rax",
        "mov eax, 0xe7",
        "xor edx, edx",
        "xsave [rsp]",
        "call rbx",
        "mov r12, rax",
        "mov eax, 0xe7",
        "xor edx, edx",
        "xrstor [rsp]",
        "mov rax, r12",
        "jmp 3f",
        "2:",
        "and rsp, -16",
        "call rbx",
        "3:",
        "lea rsp, [rbp - 16]",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        size = sym XSAVE,
    )
}

macro_rules! entry {
    ($(#[$doc:meta])* $name:ident, $callee:ident, $plain_place:literal, $place:literal, $entry:path, $slow:path $(, $beside:expr)?) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                // A plain call, as nearly all are: without vector registers.
                push_plain!(),
                $plain_place,
                load_thread!("4f", "8f"),
                "mov r9, qword ptr [rcx + {depth}]",
                "lea rsi, [r9 + 2 * r9]",
                "lea rsi, [rcx + 8 * rsi + {frames}]",
                "test r9, r9",
                "jz 3f",
                // Something may be dead when the last frame does not stand above this one.
                "cmp qword ptr [rsi - 16], rdi",
                "jbe 8f",
                "cmp r9, qword ptr [rcx + {limit}]",
                "jae 22f",
                "3:",
                fill_frame!($callee),
                // Calls of a signal handler stand after this one from here on.
                "lea rax, [r9 + 1]",
                "mov qword ptr [rcx + {depth}], rax",
                claim_record!("7f"),
                // Again: a handler that came before may have had its own there.
                fill_frame!($callee),
                "shl rax, 16",
                "shl r9, 6",
                "lea rax, [rax + r9 + 40]",
                "mov qword ptr [r8 - 16], rdx",
                "mov qword ptr [r8 - 8], rax",
                "dec qword ptr [rcx + {writing}]",
                "lea rax, [rip + tracemill_calls_returned]",
                "mov qword ptr [rdi], rax",
                "9:",
                pop_plain!(),
                "ret",
                "22:",
                "cmp byte ptr [rcx + {tells_depth}], 0",
                "je 9b",
                "jmp 8f",
                // Calls are selected: here are those of functions without an action.
                "4:",
                "cmp qword ptr [rcx + {path}], {selected}",
                "jne 8f",
                "mov r9, qword ptr [rcx + {depth}]",
                "cmp r9, qword ptr [rcx + {limit}]",
                "jae 8f",
                "lea rsi, [r9 + 2 * r9]",
                "lea rsi, [rcx + 8 * rsi + {frames}]",
                "test r9, r9",
                "jz 5f",
                "cmp qword ptr [rsi - 16], rdi",
                "jbe 8f",
                "5:",
                "mov r8, qword ptr [rcx + {cache}]",
                "test r8, r8",
                "jz 5f",
                // The cache has the address, and 0 for no action.
                load_address!($callee, "rdx", "56"),
                "mov rax, rdx",
                "shr rax, 16",
                "xor rax, rdx",
                "and eax, {cached} - 1",
                "shl rdx, 16",
                "cmp qword ptr [r8 + 8 * rax], rdx",
                "jne 8f",
                "5:",
                "cmp byte ptr [rcx + {skips}], 0",
                "jne 9b",
                "cmp qword ptr [rcx + {recorded}], r9",
                "jne 8f",
                "lea rax, [r9 + 1]",
                "mov qword ptr [rcx + {recorded}], rax",
                fill_frame!($callee),
                "lea rax, [r9 + 1]",
                "mov qword ptr [rcx + {depth}], rax",
                "cmp byte ptr [rcx + {is_late}], 0",
                "jne 6f",
                claim_record!("7f"),
                fill_frame!($callee),
                "shl rax, 16",
                "mov rsi, r9",
                "shl rsi, 6",
                "lea rax, [rax + rsi + 40]",
                "mov qword ptr [r8 - 16], rdx",
                "mov qword ptr [r8 - 8], rax",
                "dec qword ptr [rcx + {writing}]",
                load_extra!("rax", "r9"),
                "shl r9, 32",
                "add r9, {written}",
                "mov qword ptr [rax + {flags}], r9",
                "lea rax, [rip + tracemill_calls_returned]",
                "mov qword ptr [rdi], rax",
                "jmp 9b",
                // The entry waits for the end of the call.
                "6:",
                fill_frame!($callee),
                load_extra!("r8", "r9"),
                "rdtsc",
                "shl rdx, 32",
                "or rdx, rax",
                "mov qword ptr [r8 + {clock}], rdx",
                "shl r9, 32",
                "add r9, {waiting}",
                "mov qword ptr [r8 + {flags}], r9",
                "lea rax, [rip + tracemill_calls_returned]",
                "mov qword ptr [rdi], rax",
                "jmp 9b",
                "7:",
                "dec qword ptr [rcx + {writing}]",
                "mov qword ptr [rcx + {depth}], r9",
                "mov qword ptr [rcx + {recorded}], r9",
                "8:",
                pop_plain!(),
                push_registers!(),
                load_address!($callee, "rsi", "72"),
                $place,
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, 32",
                "mov [rbp - 8], rdi",
                "mov [rbp - 16], rsi",
                save_vectors!("16"),
                "lea rdi, [rbp - 24]",
                "call {entry}",
                "test eax, eax",
                "jz 2f",
                "lea rdi, [rbp - 24]",
                "lea rdx, [rip + {slow}]",
                "call {aside}",
                "2:",
                restore_vectors!("16"),
                "mov rsp, rbp",
                "pop rbp",
                pop_registers!(),
                "ret",
                entry = sym $entry,
                slow = sym $slow,
                aside = sym aside,
                path = const offset_of!(ThreadData, path),
                plain = const RecordPath::Plain as u8,
                selected = const RecordPath::Selected as u8,
                cache = const offset_of!(ThreadData, selected.cache),
                cached = const CACHED,
                skips = const offset_of!(ThreadData, selected.skips),
                is_late = const offset_of!(ThreadData, selected.is_late),
                recorded = const offset_of!(ThreadData, selected.now) + offset_of!(SelectionCell, recorded),
                extras = const offset_of!(ThreadData, selected.extras),
                extra = const size_of::<FrameState>(),
                clock = const offset_of!(FrameState, clock),
                flags = const offset_of!(FrameState, flags),
                written = const selective::RECORDED | selective::WRITTEN | selective::SIMPLE,
                waiting = const selective::RECORDED | selective::SIMPLE,
                writing = const offset_of!(ThreadData, writing),
                pos = const offset_of!(ThreadData, pos),
                end = const offset_of!(ThreadData, not_in_children),
                depth = const offset_of!(ThreadData, depth),
                limit = const offset_of!(ThreadData, limit),
                tells_depth = const offset_of!(ThreadData, tells_depth),
                frames = const size_of::<ThreadData>(),
                $(beside = const $beside,)?
            )
        }
    };
}

entry! {
    /// Called by functions built with `-pg`, after their frame pointer.
    mcount, function, "lea rdi, [rbp + 8]",
    "lea rdi, [rbp + 8]",
    enter::entry, enter::slow_entry
}
entry! {
    /// Its other name.
    _mcount, function, "lea rdi, [rbp + 8]",
    "lea rdi, [rbp + 8]",
    enter::entry, enter::slow_entry
}
entry! {
    /// Called by functions built with `-pg -mfentry`, as their first instruction, and by patched ones.
    __fentry__, function, "lea rdi, [rsp + 64]",
    "lea rdi, [rsp + 80]",
    enter::entry, enter::slow_entry
}

entry! {
    /// Called by slots of functions whose first instructions were moved, and not by the program.
    tracemill_calls_moved, library, "lea rdi, [rsp + 64]", "lea rdi, [rsp + 80]",
    enter::entry, enter::slow_entry, MOVED_BESIDE
}

entry! {
    /// Called by trampolines of calls to libraries, and not by the program.
    tracemill_calls_library, library, "lea rdi, [rsp + 64]", "lea rdi, [rsp + 80]",
    enter::library_entry, enter::slow_library_entry, plt::BESIDE
}

macro_rules! special {
    ($($(#[$doc:meta])* $name:ident: $function:path,)*) => {$(
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            naked_asm!(
                push_registers!(),
                load_address!(library, "rsi", "72"),
                "lea rdi, [rsp + 80]",
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, 32",
                "mov [rbp - 8], rdi",
                "mov [rbp - 16], rsi",
                save_vectors!("16"),
                "lea rdi, [rbp - 24]",
                "lea rdx, [rip + {function}]",
                "call {aside}",
                restore_vectors!("16"),
                "mov rsp, rbp",
                "pop rbp",
                pop_registers!(),
                "ret",
                function = sym $function,
                aside = sym aside,
                beside = const plt::BESIDE,
            )
        }
    )*};
}

// Stubs of functions that do not simply return. They are rare, so all registers are put aside at once.
special! {
    /// Before a function whose return address must stay.
    library_momentary: crate::special::momentary,
    /// Before a function of the family of `setjmp`.
    library_setjmp: crate::special::setjmp,
    /// Before a function of the family of `longjmp`.
    library_longjmp: crate::special::longjmp,
    /// Before a function that the process or its memory may not outlive.
    library_last: crate::special::last,
    /// Before `vfork`.
    library_vfork: crate::special::vfork,
}

/// `vfork`, in place of the C library's: it tells when it returns, in the child and in the parent.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn library_vfork_itself() {
    naked_asm!(
        // The child has the same stack: what stands there is not the parent's any more.
        "pop rdi",
        "mov eax, 58",
        "syscall",
        "push rdi",
        "push rax",
        "lea rdi, [rsp + 8]",
        "test rax, rax",
        "jz 3f",
        "cmp rax, -4095",
        "jb 2f",
        "call {errno}",
        "pop rcx",
        "neg ecx",
        "mov [rax], ecx",
        "push -1",
        "lea rdi, [rsp + 8]",
        "2:",
        "call {parent}",
        "pop rax",
        "ret",
        "3:",
        "call {child}",
        "pop rax",
        "ret",
        errno = sym crate::system::errno_place,
        parent = sym crate::special::after_vfork,
        child = sym crate::special::after_vfork_in_child,
    )
}

// Where functions return to whose return address was replaced. It leaves by a jump: a `ret` would take a prediction from
// the processor's stack of return addresses, and spoil those of all callers. There is no unwind information for it: an
// unwinder that gets here without having asked (`pthread_cancel`) is at the end of the stack.
global_asm!(
    ".balign 16",
    // Unwinders look at the address before.
    ".fill 16, 1, 0x90",
    ".globl tracemill_calls_returned",
    ".hidden tracemill_calls_returned",
    "tracemill_calls_returned:",
    "sub rsp, 8",
    push_plain!(),
    "lea rdi, [rsp + 56]",
    load_thread!("4f", "8f"),
    "mov rsi, qword ptr [rcx + {depth}]",
    "sub rsi, 1",
    "jb 8f",
    "lea r9, [rsi + 2 * rsi]",
    "lea r9, [rcx + 8 * r9 + {frames}]",
    "cmp qword ptr [r9 + 8], rdi",
    "jne 8f",
    claim_record!("7f"),
    "mov rax, qword ptr [r9 + 16]",
    "shl rax, 16",
    "mov rdi, rsi",
    "shl rdi, 6",
    "lea rax, [rax + rdi + 41]",
    "mov qword ptr [r8 - 16], rdx",
    "mov qword ptr [r8 - 8], rax",
    "dec qword ptr [rcx + {writing}]",
    "9:",
    "mov rax, qword ptr [r9]",
    "mov qword ptr [rcx + {depth}], rsi",
    "mov qword ptr [rsp + 56], rax",
    pop_plain!(),
    "add rsp, 8",
    "jmp [rsp - 8]",
    // A call that the stub began, or that is as if it had.
    "4:",
    "cmp qword ptr [rcx + {path}], {selected}",
    "jne 8f",
    "mov rsi, qword ptr [rcx + {depth}]",
    "sub rsi, 1",
    "jb 8f",
    "lea r9, [rsi + 2 * rsi]",
    "lea r9, [rcx + 8 * r9 + {frames}]",
    "cmp qword ptr [r9 + 8], rdi",
    "jne 8f",
    load_extra!("rdi", "rsi"),
    "mov eax, dword ptr [rdi + {flags}]",
    "test eax, {simple}",
    "jz 8f",
    "cmp byte ptr [rcx + {is_late}], 0",
    "jne 5f",
    claim_record!("7f"),
    "mov dword ptr [rdi + {flags}], 0",
    "mov rax, qword ptr [r9 + 16]",
    "shl rax, 16",
    "mov rdi, rsi",
    "shl rdi, 6",
    "lea rax, [rax + rdi + 41]",
    "mov qword ptr [r8 - 16], rdx",
    "mov qword ptr [r8 - 8], rax",
    "dec qword ptr [rcx + {writing}]",
    "mov qword ptr [rcx + {recorded}], rsi",
    "jmp 9b",
    // One that is short is forgotten.
    "5:",
    "test eax, {written}",
    "jnz 8f",
    "rdtsc",
    "shl rdx, 32",
    "or rdx, rax",
    "sub rdx, qword ptr [rdi + {clock}]",
    "cmp rdx, qword ptr [rcx + {time}]",
    "ja 8f",
    "mov dword ptr [rdi + {flags}], 0",
    "mov qword ptr [rcx + {recorded}], rsi",
    "jmp 9b",
    "7:",
    "dec qword ptr [rcx + {writing}]",
    "8:",
    pop_plain!(),
    push_registers!(),
    "lea rdi, [rsp + 72]",
    "push rbp",
    "mov rbp, rsp",
    "sub rsp, 32",
    "mov [rbp - 8], rdi",
    save_vectors!("16"),
    "lea rdi, [rbp - 24]",
    "call {exit}",
    "test rax, rax",
    "jnz 2f",
    "lea rdi, [rbp - 24]",
    "lea rdx, [rip + {slow}]",
    "call {aside}",
    "2:",
    "mov [rbp + 80], rax",
    restore_vectors!("16"),
    "mov rsp, rbp",
    "pop rbp",
    pop_registers!(),
    "add rsp, 8",
    "jmp [rsp - 8]",
    exit = sym crate::exit::exit,
    slow = sym crate::exit::slow_exit,
    aside = sym aside,
    path = const offset_of!(ThreadData, path),
    plain = const RecordPath::Plain as u8,
    selected = const RecordPath::Selected as u8,
    is_late = const offset_of!(ThreadData, selected.is_late),
    recorded = const offset_of!(ThreadData, selected.now) + offset_of!(SelectionCell, recorded),
    time = const offset_of!(ThreadData, selected.now) + offset_of!(SelectionCell, time),
    extras = const offset_of!(ThreadData, selected.extras),
    extra = const size_of::<FrameState>(),
    clock = const offset_of!(FrameState, clock),
    flags = const offset_of!(FrameState, flags),
    simple = const selective::SIMPLE,
    written = const selective::WRITTEN,
    writing = const offset_of!(ThreadData, writing),
    pos = const offset_of!(ThreadData, pos),
    end = const offset_of!(ThreadData, not_in_children),
    depth = const offset_of!(ThreadData, depth),
    frames = const size_of::<ThreadData>(),
);

macro_rules! unwinding {
    ($($name:ident $number:literal)*) => {$(
        /// A function of the unwinder: the program's return addresses are put back before it looks at them.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "lea rdi, [rsp + 48]",
                concat!("mov esi, ", $number),
                "push rbp",
                "mov rbp, rsp",
                "and rsp, -16",
                "call {prepare}",
                "mov rsp, rbp",
                "pop rbp",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                prepare = sym crate::unwind::prepare,
            )
        }
    )*};
}

unwinding! {
    _Unwind_RaiseException 0
    _Unwind_ForcedUnwind 1
    _Unwind_Resume 2
    _Unwind_Backtrace 3
    backtrace 4
    __cxa_begin_catch 5
    pthread_exit 6
    _Unwind_Resume_or_Rethrow 7
}

/// Sets the bytes that `xsave` needs.
pub(crate) fn set_xsave(bytes: usize) {
    XSAVE.store(bytes, std::sync::atomic::Ordering::Relaxed);
}
