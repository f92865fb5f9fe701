//! The registers of the program, as the stubs save them.

/// The state of the program that a stub saved on its stack.
#[repr(C)]
pub(crate) struct Saved {
    /// The vector registers, from xmm0 on.
    pub(crate) vectors: *const [f64; 2],
    /// An address in the function; not of returns.
    pub(crate) address: usize,
    /// Where the return address stands.
    pub(crate) place: usize,
    _frame: usize,
    _scratch: [usize; 2],
    pub(crate) r9: usize,
    pub(crate) r8: usize,
    pub(crate) rdi: usize,
    pub(crate) rsi: usize,
    pub(crate) rdx: usize,
    pub(crate) rcx: usize,
    pub(crate) rax: usize,
}
