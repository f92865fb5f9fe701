//! Names of Linux' system calls by their numbers, which each kind of machine has of its own. Events of `raw_syscalls` have nothing
//! but the number.

use std::sync::OnceLock;

/// Lines `NUMBER NAME`, from the headers of Linux (`asm/unistd.h`).
const X86_64: &str = include_str!("syscalls/x86_64.txt");
const I386: &str = include_str!("syscalls/i386.txt");
/// Of the machines that came after the list was made common to all: 64-bit Arm, RISC-V and LoongArch.
const GENERIC: &str = include_str!("syscalls/generic.txt");

/// Names by number.
type NamesByNumber = Vec<Option<&'static str>>;

/// The name of a system call on a machine, which `uname -m` or the last word of `uname -a` names. `None` of a number that has none
/// there, and of machines whose numbers are not known here.
///
/// Programs of 32 bits on a machine of 64 bits have other numbers, and an event does not say which it has.
///
/// ```
/// use tracemill_semantics::syscall_name;
///
/// assert_eq!(syscall_name("x86_64", 202), Some("futex"));
/// assert_eq!(syscall_name("Linux board 6.12.1 #1 SMP aarch64", 98), Some("futex"));
/// assert_eq!(syscall_name("s390x", 238), None);
/// ```
pub fn syscall_name(machine: &str, number: i64) -> Option<&'static str> {
    static TABLES: [OnceLock<NamesByNumber>; 3] = [const { OnceLock::new() }; 3];
    let (table, lines) = match machine.trim_end().rsplit(' ').next()? {
        "x86_64" => (0, X86_64),
        "i386" | "i486" | "i586" | "i686" => (1, I386),
        "aarch64" | "arm64" | "riscv64" | "loongarch64" => (2, GENERIC),
        _ => return None,
    };
    let names = TABLES[table].get_or_init(|| names(lines));
    *names.get(usize::try_from(number).ok()?)?
}

fn names(lines: &'static str) -> NamesByNumber {
    let mut names = NamesByNumber::new();
    for line in lines.lines() {
        if let Some((number, name)) = line.split_once(' ')
            && let Ok(number) = number.parse::<u16>()
        {
            let at = usize::from(number);
            names.resize(names.len().max(at + 1), None);
            names[at] = Some(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_read() {
        for lines in [X86_64, I386, GENERIC] {
            let names = names(lines);
            assert_eq!(names.iter().flatten().count(), lines.lines().count());
            assert!(
                names
                    .iter()
                    .flatten()
                    .all(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
            );
        }
    }

    #[test]
    fn numbers_without_a_name_have_none() {
        for number in [-1, 100_000, i64::MAX, i64::MIN] {
            assert_eq!(syscall_name("x86_64", number), None, "{number}");
        }
        assert_eq!(syscall_name("", 1), None);
        assert_eq!([syscall_name("i686", 1), syscall_name("x86_64", 1)], [Some("exit"), Some("write")]);
    }
}
