//! Samples of what threads execute, as they are handed to writers.

use std::sync::Arc;

/// A function on a stack.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// Its name; `[module+0x12]` or `[unknown]` where it is not known.
    pub function: Arc<str>,
    /// The file of its code without folders; empty when it is not known.
    pub module: Arc<str>,
    /// Is it code of the kernel?
    pub is_kernel: bool,
}

/// A sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'r> {
    /// When it was taken, in ns.
    pub ns: Option<i128>,
    /// The thread.
    pub thread: Option<i64>,
    /// Its process.
    pub process: Option<i64>,
    /// Name of the thread.
    pub thread_name: Option<&'r str>,
    /// The CPU.
    pub cpu: Option<u64>,
    /// For how many events it stands, where the trace says it.
    pub weight: Option<u64>,
    /// Its frames by their numbers, the innermost first.
    pub stack: &'r [u32],
    /// All frames that were met so far, by their numbers.
    pub frames: &'r [Frame],
}
