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

impl Frame {
    /// Appends a frame as a text of [`tracemill_semantics::names::FRAMES`]: its name, and after it the file of its code in
    /// parentheses. A name that begins as an address does gets one before it, and one that ends as a file would gets a file after it,
    /// so that it stays whole. Without a file, the name may have one in it.
    pub fn put_text(name: &[u8], module: Option<&[u8]>, out: &mut Vec<u8>) {
        let digits = name.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let module = match module.unwrap_or_default() {
            b"" if module.is_some() && name.ends_with(b")") => UNKNOWN.as_bytes(),
            module => module,
        };
        let after = name.get(digits).copied().or((!module.is_empty()).then_some(b' '));
        if digits > 0 && after == Some(b' ') {
            out.extend_from_slice(b"0 ");
        }
        out.extend_from_slice(name);
        if !module.is_empty() {
            out.extend_from_slice(b" (");
            out.extend_from_slice(module);
            out.push(b')');
        }
    }
}

/// The name of code of which nothing is known, and of its file.
pub const UNKNOWN: &str = "[unknown]";

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
