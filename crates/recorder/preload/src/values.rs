//! Arguments and return values: from saved registers and the stack to the bytes of a record.
//!
//! No function of the C library is called here, and no loop that the compiler could take for one: those may change vector
//! registers of the program.

use std::arch::asm;

use crate::saved::Saved;
use crate::table::{self, CallValue};

/// Bytes of the values of a call, at most.
pub(crate) const MOST: usize = 1024;
/// Of these the values themselves, as uftrace has it.
const MOST_VALUES: usize = MOST - 4;
/// Room for them: what is written after the last value is no more than a text.
pub(crate) const ROOM: usize = MOST + 128;
/// Texts of this length and longer ones are cut, and end in dots.
const LONGEST: usize = 98;
/// Words of the stack after a return address that every thread has.
const NEAR: usize = 100;
const PAGE: usize = 4096;
const SYS_PROCESS_VM_READV: usize = 310;

/// Writes values to `out`, which has [`ROOM`] bytes. Gives their length, a multiple of 8; 0 when they are too long.
pub(crate) unsafe fn collect(values: &[CallValue], saved: &Saved, own: usize, out: *mut u8) -> usize {
    let mut at = 0;
    for value in values {
        let size = value.size as usize;
        let is_text = matches!(value.form, table::TEXT | table::STD_STRING);
        if at + if is_text { 0 } else { size } > MOST_VALUES {
            return 0;
        }
        // SAFETY: there is room for the longest text after `at`, and for this value; the stub saved the registers, and the
        // caller's frame has what the convention puts on the stack, or at least readable bytes.
        unsafe {
            let out = out.add(at);
            at += match value.form {
                table::TEXT => text(raw(value, saved)[0] as usize, LONGEST, own, out),
                table::STD_STRING => std_string(raw(value, saved)[0] as usize, own, out),
                table::BEHIND => bytes(raw(value, saved)[0] as usize, size, own, out),
                table::BYTES => {
                    let address = saved.place + value.index as usize * 8;
                    match value.index as usize + size.div_ceil(8) <= NEAR {
                        true => {
                            for at in 0..size.div_ceil(4) {
                                let part = (address as *const u32).add(at).read_volatile();
                                out.cast::<u32>().add(at).write_volatile(part);
                            }
                            size
                        }
                        false => bytes(address, size, own, out),
                    }
                }
                _ => {
                    let raw = raw(value, saved);
                    out.cast::<u64>().write_unaligned(raw[0]);
                    if size > 8 {
                        out.cast::<u64>().add(1).write_unaligned(raw[1]);
                    }
                    size
                }
            };
            at = at.next_multiple_of(4);
        }
        if at > MOST_VALUES {
            return 0;
        }
    }
    at.next_multiple_of(8)
}

/// The bytes of a value, or its address.
unsafe fn raw(value: &CallValue, saved: &Saved) -> [u64; 2] {
    let index = value.index as usize;
    let integers = [saved.rdi, saved.rsi, saved.rdx, saved.rcx, saved.r8, saved.r9];
    // SAFETY: as in `collect`.
    let stack = |word: usize| unsafe {
        let place = (saved.place as *const u64).add(word);
        [place.read(), place.add(1).read()]
    };
    match value.place {
        table::INTEGER => match integers.get(index) {
            Some(&register) => [register as u64, 0],
            None => stack(index - 5),
        },
        // SAFETY: the stub saved that many of them.
        table::VECTOR if index < 8 => unsafe { (*saved.vectors.add(index)).map(f64::to_bits) },
        table::VECTOR => stack(index - 7),
        table::STACK => stack(index),
        table::RESULT => [if index == 0 { saved.rax } else { saved.rdx } as u64, 0],
        // SAFETY: as above; there are two.
        table::FLOAT_RESULT => unsafe { (*saved.vectors.add(index.min(1))).map(f64::to_bits) },
        _ => {
            let mut bytes = [0_u64; 2];
            // SAFETY: it stores the top of the stack of floats, which a function that returns a `long double` left there,
            // and puts it back.
            unsafe { asm!("fstp tbyte ptr [{0}]", "fld tbyte ptr [{0}]", in(reg) &raw mut bytes, options(nostack)) };
            bytes
        }
    }
}

/// Writes the length and the bytes of a text of at most `most` bytes, without its end. Gives how many that are.
unsafe fn text(address: usize, most: usize, own: usize, out: *mut u8) -> usize {
    // SAFETY: there is room after `out` for the longest text.
    unsafe {
        let bytes = out.add(2);
        if address == 0 {
            bytes.cast::<[u8; 4]>().write(*b"NULL");
            out.cast::<u16>().write_unaligned(4);
            return 6;
        }
        let Some(read) = read(address, most, own, bytes) else { return unreadable(address, out) };
        let mut len = 0;
        while len < read && bytes.add(len).read_volatile() != 0 {
            len += 1;
        }
        if len >= LONGEST {
            len = LONGEST;
            bytes.add(LONGEST - 3).cast::<[u8; 3]>().write(*b"...");
        }
        out.cast::<u16>().write_unaligned(len as u16);
        len + 2
    }
}

/// As [`text`], of the C++ library of GCC: an address and a length.
unsafe fn std_string(address: usize, own: usize, out: *mut u8) -> usize {
    // SAFETY: as in `text`.
    unsafe {
        match read(address, 16, own, out) {
            Some(16) => {
                let [data, len] = out.cast::<[usize; 2]>().read_unaligned();
                match len {
                    0 => {
                        out.cast::<u16>().write_unaligned(0);
                        2
                    }
                    _ => text(data, len.min(LONGEST), own, out),
                }
            }
            _ => unreadable(address, out),
        }
    }
}

/// Copies bytes, of which those that cannot be read are 0. Gives how many.
unsafe fn bytes(address: usize, len: usize, own: usize, out: *mut u8) -> usize {
    // SAFETY: there is room after `out` for that many bytes, says the caller.
    unsafe {
        let read = read(address, len, own, out).unwrap_or(0);
        for at in read..len {
            out.add(at).write_volatile(0);
        }
    }
    len
}

/// Writes the address in place of the text that cannot be read there.
unsafe fn unreadable(address: usize, out: *mut u8) -> usize {
    let mut len = 2;
    let mut put = |byte: u8| {
        // SAFETY: as in `text`; 20 bytes are fewer than the longest text has.
        unsafe { out.add(len).write_volatile(byte) };
        len += 1;
    };
    put(b'<');
    put(b'0');
    put(b'x');
    let digits = (16 - address.leading_zeros() / 4).max(1);
    for digit in (0..digits).rev() {
        let digit = (address >> (digit * 4)) as u8 & 15;
        put(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
    put(b'>');
    // SAFETY: as above.
    unsafe { out.cast::<u16>().write_unaligned(len as u16 - 2) };
    len
}

/// Reads bytes of this process, up to where there are none; `None` when there is none at all.
unsafe fn read(address: usize, len: usize, own: usize, out: *mut u8) -> Option<usize> {
    let first = len.min(PAGE - address % PAGE);
    let to: [usize; 2] = [out as usize, len];
    // A transfer ends between two of these, not inside of one.
    let from: [usize; 4] = [address, first, address.wrapping_add(first), len - first];
    let count = 1 + usize::from(first < len);
    let result: isize;
    // SAFETY: the system writes at most `len` bytes after `out`, and looks itself whether those at the address are there.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") SYS_PROCESS_VM_READV as isize => result,
            in("rdi") own,
            in("rsi") &raw const to,
            in("rdx") 1,
            in("r10") &raw const from,
            in("r8") count,
            in("r9") 0,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    usize::try_from(result).ok().filter(|&read| read > 0)
}

/// Copies words of 8 bytes, without the C library: a multiple of 8 bytes.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    for at in 0..len / 8 {
        // SAFETY: both have that many bytes, says the caller. The compiler does not make a call of this.
        unsafe { to.cast::<u64>().add(at).write_volatile(from.cast::<u64>().add(at).read_volatile()) };
    }
}
