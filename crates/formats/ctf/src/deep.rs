//! Room on the stack for metadata that are nested deeply.

use std::panic::resume_unwind;
use std::thread::{self, Builder};

/// Most levels of types and field classes inside one another, named ones and aliases included.
pub(crate) const MAX_LEVELS: u32 = 1_000;

/// Three times what the deepest metadata need in a build without optimization. Only what is used of it takes memory.
const STACK_BYTES: usize = 48 << 20;

/// Runs `work`, which calls itself for each level of the metadata, on a stack of its own: callers may be threads whose
/// stack is small. Making one takes a few hundredths of a millisecond.
pub(crate) fn with_room<T: Send>(work: impl Fn() -> T + Sync) -> T {
    thread::scope(|scope| match Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, &work) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
        // No thread can be made here: the usual depth needs none.
        Err(_) => work(),
    })
}
