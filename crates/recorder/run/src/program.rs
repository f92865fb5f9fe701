//! The kind of a program, and whether its calls can be recorded.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::elf::Elf;

/// How a program was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Built {
    /// It is instrumented.
    ForCalls,
    /// Its functions can be patched so that their calls are recorded.
    Patchable,
    /// It is not instrumented.
    Plain,
    /// It is no program of this system.
    Unknown,
}

/// The reason why the recorder's library cannot be loaded into a program, or why that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Its file cannot be read, for this reason.
    Unreadable(String),
    /// It is linked statically: no loader runs that could load a library.
    Static,
    /// It gets rights that its caller does not have: for such programs the loader ignores `LD_PRELOAD`.
    Privileged,
    /// It is for processors of this kind.
    Machine(&'static str),
}

/// A program, as its file shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProgramFile {
    /// How it was built.
    pub built: Built,
    /// Why it cannot be recorded itself.
    pub obstacle: Option<Obstacle>,
    /// Does it only run other programs: is it a script, a shell or the like?
    pub runs_others: bool,
}

/// Finds out what a program is.
pub fn inspect(program: &Path) -> ProgramFile {
    let bytes = match read(program) {
        Ok(bytes) => bytes,
        Err(error) => {
            let obstacle = Some(Obstacle::Unreadable(error.to_string()));
            return ProgramFile { built: Built::Unknown, obstacle, runs_others: false };
        }
    };
    if bytes.starts_with(b"#!") {
        return ProgramFile { built: Built::Unknown, obstacle: None, runs_others: true };
    }
    let (elf, machine) = (Elf::read(&bytes), other_machine(&bytes));
    let built = elf.as_ref().filter(|_| machine.is_none()).map_or(Built::Unknown, built_as);
    let obstacle = match elf {
        _ if machine.is_some() => machine.map(Obstacle::Machine),
        Some(elf) if !elf.has_loader => Some(Obstacle::Static),
        Some(_) if is_privileged(program) => Some(Obstacle::Privileged),
        _ => None,
    };
    ProgramFile { built, runs_others: obstacle.is_none() && runs_others(program), obstacle }
}

/// A script is not read to its end.
fn read(program: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(program)?;
    let mut bytes = Vec::new();
    file.by_ref().take(2).read_to_end(&mut bytes)?;
    if bytes != b"#!" {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

pub(crate) fn built_as(elf: &Elf) -> Built {
    let tells = ["mcount", "_mcount", "__fentry__", "__cyg_profile_func_enter"];
    // A static program has these functions in itself.
    let has = |name: &str| tells.contains(&name);
    let is_told = elf.wanted.iter().any(|name| has(name));
    match is_told || !elf.has_loader && elf.symbols.values().any(|(_, _, name)| has(name)) {
        true => Built::ForCalls,
        false if !elf.patchable.is_empty() => Built::Patchable,
        false => Built::Plain,
    }
}

/// The name of the processors that an ELF file is for, unless it is for those that calls are recorded on.
fn other_machine(bytes: &[u8]) -> Option<&'static str> {
    let (head, machine) = bytes.split_first_chunk::<18>()?;
    let machine = u16::from_le_bytes([*machine.first()?, *machine.get(1)?]);
    let is_elf = head.starts_with(b"\x7fELF");
    match (head[4], head[5], machine) {
        _ if !is_elf => None,
        (2, 1, 62) => None,
        (2, 1, 183) => Some("AArch64"),
        (2, 1, 243) => Some("RISC-V"),
        (1, 1, 3) => Some("32-bit x86"),
        (1, 1, 62) => Some("x86-64 with 32-bit addresses"),
        (1, 1, 40) => Some("32-bit ARM"),
        _ => Some("another kind"),
    }
}

/// Does a program get rights that this process does not have?
fn is_privileged(program: &Path) -> bool {
    let Ok(status) = fs::metadata(program) else { return false };
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let has = |bits: u32| status.mode() & bits == bits;
    // Without the right to execute, the bit of the group means locks.
    let changes = has(0o4000) && status.uid() != user || has(0o2010) && status.gid() != group;
    let has_capabilities = || {
        let mut value = [0_u8; 64];
        rustix::fs::getxattr(program, c"security.capability", &mut value).is_ok()
    };
    changes || user != 0 && has_capabilities()
}

/// Programs that do nothing but run others, by their names.
const RUNNERS: [&str; 28] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "busybox", "env", "nice", "ionice", "nohup", "setsid",
    "timeout", "time", "taskset", "numactl", "chrt", "stdbuf", "xargs", "make", "sudo", "setarch", "unshare", "chroot",
    "runuser", "prlimit",
];

fn runs_others(program: &Path) -> bool {
    // A link such as `sh` may lead to a program of another name.
    let names = [Some(program.to_path_buf()), program.canonicalize().ok()];
    let is_runner = |name: &std::ffi::OsStr| RUNNERS.iter().any(|runner| name == *runner);
    names.into_iter().flatten().any(|path| path.file_name().is_some_and(is_runner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_what_they_show() {
        let folder = std::env::temp_dir().join(format!("tracemill-program-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let inspected = |name: &str, bytes: &[u8]| {
            fs::write(folder.join(name), bytes).expect("a file");
            inspect(&folder.join(name))
        };
        let script = inspected("script", b"#!/bin/sh\ntrue\n");
        assert_eq!((script.built, script.obstacle, script.runs_others), (Built::Unknown, None, true));
        assert_eq!(inspected("text", b"#").obstacle, None);
        assert!(!inspected("text", b"").runs_others);
        let mut own = fs::read(std::env::current_exe().expect("a path")).expect("it can be read");
        assert_eq!((inspected("own", &own).built, inspected("own", &own).obstacle), (Built::Plain, None));
        assert!(!inspected("own", &own).runs_others && inspected("sh", &own).runs_others);
        own[18] = 183;
        assert_eq!(inspected("own", &own).obstacle, Some(Obstacle::Machine("AArch64")));
        own[4] = 1;
        assert_eq!(inspected("own", &own).obstacle, Some(Obstacle::Machine("another kind")));
        assert!(matches!(inspect(&folder.join("none")).obstacle, Some(Obstacle::Unreadable(_))));
        fs::remove_dir_all(folder).expect("it is removed");
    }
}
