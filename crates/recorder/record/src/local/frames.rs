//! The calls that led to an event, by frame pointers: at each is the one of the caller, and the address to return to.
//!
//! In functions that have none, the register holds anything: so memory is read by a call of the system, which refuses what is not
//! there.

/// The frame pointer of the function that this is a part of, if it has one.
#[inline(always)]
pub(crate) fn pointer() -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let frame;
        // SAFETY: a register is copied.
        unsafe { core::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags)) };
        frame
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let frame;
        // SAFETY: as above.
        unsafe { core::arch::asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags)) };
        frame
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        0
    }
}

/// Bytes of a stack that are read together.
const PIECE: usize = 1024;

/// The return addresses from a frame on, the innermost first.
pub(crate) fn walk(mut frame: usize, calls: &mut [u64]) -> &[u64] {
    let mut piece = [0_u8; PIECE];
    let (mut begin, mut len) = (0, 0);
    let mut count = 0;
    while count < calls.len() && frame != 0 && frame.is_multiple_of(size_of::<usize>()) {
        if frame < begin || frame + 16 > begin + len {
            (begin, len) = (frame, read(frame, &mut piece));
            if len < 16 {
                break;
            }
        }
        let word = |at: usize| piece[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (next, call) = (word(frame - begin) as usize, word(frame - begin + 8));
        if call == 0 {
            break;
        }
        calls[count] = call;
        count += 1;
        // Stacks grow down: a caller's frame is above.
        if next <= frame {
            break;
        }
        frame = next;
    }
    &calls[..count]
}

/// Reads memory of this process that may not be there. Gives the number of bytes.
fn read(at: usize, bytes: &mut [u8]) -> usize {
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // To the end of a page, and from there on: the page after a stack may be missing.
    let rest = (4096 - at % 4096).min(bytes.len());
    let from = [
        libc::iovec { iov_base: at as *mut libc::c_void, iov_len: rest },
        libc::iovec { iov_base: (at + rest) as *mut libc::c_void, iov_len: bytes.len() - rest },
    ];
    let count = if rest < bytes.len() { 2 } else { 1 };
    // SAFETY: the kernel writes to the bytes of the caller, and reads what it finds mapped.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, from.as_ptr(), count, 0) };
    usize::try_from(read).unwrap_or(0)
}
