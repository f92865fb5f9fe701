//! The functions that traced programs call, in assembly: they keep all registers.

use std::arch::{global_asm, naked_asm};
use std::sync::atomic::AtomicUsize;

// The thread's pointer, and its state. Of the initial-exec model: reading it is two loads and no call.
global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 16",
    ".globl tracemill_calls_thread",
    ".hidden tracemill_calls_thread",
    ".type tracemill_calls_thread, @object",
    ".size tracemill_calls_thread, 16",
    "tracemill_calls_thread:",
    ".zero 16",
    ".text",
);

/// Bytes that `xsave` needs; 0 when the processor has none.
static XSAVE: AtomicUsize = AtomicUsize::new(0);

/// Calls the function in rdx with rdi and rsi while all vector registers are put aside.
#[unsafe(naked)]
unsafe extern "C" fn aside() {
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
    ($(#[$doc:meta])* $name:ident, $place:literal) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "push rax",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "push r8",
                "push r9",
                "push r10",
                "push r11",
                "mov rsi, [rsp + 72]",
                $place,
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, 16",
                "mov [rbp - 8], rdi",
                "mov [rbp - 16], rsi",
                "and rsp, -16",
                "sub rsp, 256",
                "movaps [rsp], xmm0",
                "movaps [rsp + 16], xmm1",
                "movaps [rsp + 32], xmm2",
                "movaps [rsp + 48], xmm3",
                "movaps [rsp + 64], xmm4",
                "movaps [rsp + 80], xmm5",
                "movaps [rsp + 96], xmm6",
                "movaps [rsp + 112], xmm7",
                "movaps [rsp + 128], xmm8",
                "movaps [rsp + 144], xmm9",
                "movaps [rsp + 160], xmm10",
                "movaps [rsp + 176], xmm11",
                "movaps [rsp + 192], xmm12",
                "movaps [rsp + 208], xmm13",
                "movaps [rsp + 224], xmm14",
                "movaps [rsp + 240], xmm15",
                "call {entry}",
                "test eax, eax",
                "jz 2f",
                "mov rdi, [rbp - 8]",
                "mov rsi, [rbp - 16]",
                "lea rdx, [rip + {slow}]",
                "call {aside}",
                "2:",
                "movaps xmm0, [rsp]",
                "movaps xmm1, [rsp + 16]",
                "movaps xmm2, [rsp + 32]",
                "movaps xmm3, [rsp + 48]",
                "movaps xmm4, [rsp + 64]",
                "movaps xmm5, [rsp + 80]",
                "movaps xmm6, [rsp + 96]",
                "movaps xmm7, [rsp + 112]",
                "movaps xmm8, [rsp + 128]",
                "movaps xmm9, [rsp + 144]",
                "movaps xmm10, [rsp + 160]",
                "movaps xmm11, [rsp + 176]",
                "movaps xmm12, [rsp + 192]",
                "movaps xmm13, [rsp + 208]",
                "movaps xmm14, [rsp + 224]",
                "movaps xmm15, [rsp + 240]",
                "mov rsp, rbp",
                "pop rbp",
                "pop r11",
                "pop r10",
                "pop r9",
                "pop r8",
                "pop rdi",
                "pop rsi",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "ret",
                entry = sym super::thread::entry,
                slow = sym super::thread::slow_entry,
                aside = sym aside,
            )
        }
    };
}

entry! {
    /// Called by functions built with `-pg`, behind their frame pointer.
    mcount, "lea rdi, [rbp + 8]"
}
entry! {
    /// Its other name.
    _mcount, "lea rdi, [rbp + 8]"
}
entry! {
    /// Called by functions built with `-pg -mfentry`, as their first instruction, and by patched ones.
    __fentry__, "lea rdi, [rsp + 80]"
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
    "push rax",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "lea rdi, [rsp + 72]",
    "push rbp",
    "mov rbp, rsp",
    "sub rsp, 16",
    "mov [rbp - 8], rdi",
    "and rsp, -16",
    "sub rsp, 64",
    "movaps [rsp], xmm0",
    "movaps [rsp + 16], xmm1",
    "movaps [rsp + 32], xmm2",
    "movaps [rsp + 48], xmm3",
    "call {exit}",
    "test rax, rax",
    "jnz 2f",
    "mov rdi, [rbp - 8]",
    "lea rdx, [rip + {slow}]",
    "call {aside}",
    "2:",
    "mov [rbp + 80], rax",
    "movaps xmm0, [rsp]",
    "movaps xmm1, [rsp + 16]",
    "movaps xmm2, [rsp + 32]",
    "movaps xmm3, [rsp + 48]",
    "mov rsp, rbp",
    "pop rbp",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "add rsp, 8",
    "jmp [rsp - 8]",
    exit = sym crate::thread::exit,
    slow = sym crate::thread::slow_exit,
    aside = sym aside,
);

unsafe extern "C" {
    #[link_name = "tracemill_calls_returned"]
    pub(crate) fn returned();
}

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
                prepare = sym super::unwind::prepare,
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
}

/// Sets the bytes that `xsave` needs.
pub(crate) fn set_xsave(bytes: usize) {
    XSAVE.store(bytes, std::sync::atomic::Ordering::Relaxed);
}
