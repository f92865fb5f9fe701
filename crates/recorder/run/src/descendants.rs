//! The processes that come from the program, however they are made.
//!
//! This process is a *subreaper*: a descendant whose parent ends becomes its child. A process is a descendant from the
//! instant at which it is made, so there is no moment between `fork` and its first call at which it could be overlooked, and
//! the kernel says when the last one has ended (`ECHILD`). This holds for raw system calls, for processes that close all
//! descriptors, and for programs that do not load the library.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, WaitOptions, set_child_subreaper, wait, waitid};

/// The signal by which a seccomp filter kills.
const SIGSYS: i32 = 31;

/// A process that came from the program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemainingProcess {
    /// Its id.
    pub pid: u32,
    /// Its name, as the system has it.
    pub name: String,
}

/// Has this process children already? Those it could not tell from descendants of the program.
pub fn has_children() -> bool {
    let looks = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, looks), Err(Errno::CHILD))
}

/// The processes whose end is the end of a recording.
pub(crate) enum FollowedProcesses {
    /// The program that this process started, and whatever came from it.
    Descendants(Descendants),
    /// A process that is not this one's child, and those that have its environment.
    Process(Heirs),
}

impl FollowedProcesses {
    /// Takes note of those that ended.
    pub(crate) fn poll(&mut self) -> io::Result<()> {
        match self {
            FollowedProcesses::Descendants(descendants) => descendants.reap(),
            FollowedProcesses::Process(heirs) => {
                heirs.poll();
                Ok(())
            }
        }
    }

    /// How the program ended, if that is known here.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        match self {
            FollowedProcesses::Descendants(descendants) => descendants.status,
            FollowedProcesses::Process(_) => None,
        }
    }

    /// Has the program itself ended?
    pub(crate) fn is_program_over(&self) -> bool {
        match self {
            FollowedProcesses::Descendants(descendants) => descendants.status.is_some() || descendants.are_over,
            FollowedProcesses::Process(heirs) => heirs.is_program_over,
        }
    }

    /// The number of those that their seccomp filter killed.
    pub(crate) fn killed_by_filter(&self) -> u32 {
        match self {
            FollowedProcesses::Descendants(descendants) => descendants.killed_by_filter,
            FollowedProcesses::Process(_) => 0,
        }
    }

    /// Have all of them ended?
    pub(crate) fn are_over(&self) -> bool {
        match self {
            FollowedProcesses::Descendants(descendants) => descendants.are_over,
            FollowedProcesses::Process(heirs) => heirs.are_over,
        }
    }

    /// The live processes, as far as the system lists them.
    pub(crate) fn remaining(&self) -> Vec<RemainingProcess> {
        match self {
            FollowedProcesses::Descendants(_) => remaining(),
            FollowedProcesses::Process(heirs) => heirs.remaining(),
        }
    }
}

/// A program that is not a child of this process, and the processes that have inherited its environment. Those that run with
/// another one cannot be recorded: they do not load the library.
pub(crate) struct Heirs {
    program: u32,
    /// A variable that only this recording sets.
    variable: Vec<u8>,
    looked: Option<Instant>,
    /// Processes that had no environment, and when that was seen first.
    bare: BTreeMap<u32, Instant>,
    /// Were there none at the last look?
    are_none: bool,
    is_program_over: bool,
    are_over: bool,
}

/// Time between two looks at the environments of all processes.
const LOOK_AT_HEIRS: Duration = Duration::from_millis(20);

/// A process that becomes another program has no environment for a moment, which may be long on a busy machine. One that has
/// none for so long has none of ours.
const WITHOUT_ENVIRONMENT: Duration = Duration::from_secs(1);

impl Heirs {
    /// The processes of a program in whose environment a variable has this value.
    pub(crate) fn new(program: u32, name: &str, value: &OsStr) -> Heirs {
        let variable = [name.as_bytes(), b"=", value.as_bytes()].concat();
        let bare = BTreeMap::new();
        Heirs { program, variable, looked: None, bare, are_none: false, is_program_over: false, are_over: false }
    }

    fn poll(&mut self) {
        self.is_program_over = self.is_program_over || crate::command::is_dead(self.program);
        if !self.is_program_over || self.are_over || self.looked.is_some_and(|at| at.elapsed() < LOOK_AT_HEIRS) {
            return;
        }
        let found = processes(|pid| Some(self.environment(pid)).filter(|found| *found != Environment::Other));
        self.bare.retain(|pid, _| found.get(pid) == Some(&Environment::None));
        let mut are_none = true;
        for (pid, environment) in found {
            are_none &= environment == Environment::None
                && self.bare.entry(pid).or_insert_with(Instant::now).elapsed() >= WITHOUT_ENVIRONMENT;
        }
        // The numbers of processes begin anew at some time, behind the place that a look has reached: look twice.
        self.are_over = self.are_none && are_none;
        self.are_none = are_none;
        self.looked = Some(Instant::now());
    }

    fn environment(&self, pid: u32) -> Environment {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return Environment::Other };
        match environment.split(|byte| *byte == 0).any(|variable| variable == self.variable) {
            _ if crate::command::is_dead(pid) => Environment::Other,
            true => Environment::Ours,
            // Threads of the kernel run no program.
            false if environment.is_empty() && fs::read_link(format!("/proc/{pid}/exe")).is_ok() => Environment::None,
            false => Environment::Other,
        }
    }

    fn remaining(&self) -> Vec<RemainingProcess> {
        let found = processes(|pid| (self.environment(pid) == Environment::Ours).then_some(()));
        found.into_keys().map(RemainingProcess::read).collect()
    }
}

/// The environment of a process that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Environment {
    /// It has the variable of this recording.
    Ours,
    /// It has none, or none yet.
    None,
    Other,
}

/// All other processes of which `look` finds something. Those that are made meanwhile are looked at, too: a process may end
/// when it is listed and not yet looked at, and what it has made is not in that list.
///
/// Some are never looked at where others make new ones all the time.
fn processes<T>(mut look: impl FnMut(u32) -> Option<T>) -> BTreeMap<u32, T> {
    let mut known = BTreeSet::from([std::process::id()]);
    let mut found = BTreeMap::new();
    for _ in 0..10 {
        let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
        let listed = listed.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
        let new: Vec<u32> = listed.filter(|pid| known.insert(*pid)).collect();
        if new.is_empty() {
            break;
        }
        found.extend(new.into_iter().filter_map(|pid| Some((pid, look(pid)?))));
    }
    found
}

impl RemainingProcess {
    fn read(pid: u32) -> RemainingProcess {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        RemainingProcess { pid, name: name.trim_end_matches('\n').to_string() }
    }
}

/// The program and its descendants, which are this process's children once their parents have ended.
pub(crate) struct Descendants {
    program: u32,
    status: Option<ExitStatus>,
    are_over: bool,
    killed_by_filter: u32,
}

impl Descendants {
    /// Has the kernel give orphans to this process: before the program starts.
    pub(crate) fn adopt() -> io::Result<()> {
        // Any process id stands for "yes".
        Ok(set_child_subreaper(Some(rustix::process::getpid()))?)
    }

    /// Follows the program that was just started.
    pub(crate) fn new(program: u32) -> Descendants {
        Descendants { program, status: None, are_over: false, killed_by_filter: 0 }
    }

    /// Takes note of those that ended.
    pub(crate) fn reap(&mut self) -> io::Result<()> {
        while !self.are_over {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    self.killed_by_filter += u32::from(status.terminating_signal() == Some(SIGSYS));
                    if pid.as_raw_nonzero().get().cast_unsigned() == self.program {
                        self.status = Some(ExitStatus::from_raw(status.as_raw()));
                    }
                }
                Err(Errno::INTR) => {}
                Ok(None) => return Ok(()),
                Err(Errno::CHILD) => self.are_over = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// All descendants of this process that live, as far as the system lists them.
fn remaining() -> Vec<RemainingProcess> {
    let (mut found, mut parents) = (Vec::new(), vec![std::process::id()]);
    while let Some(parent) = parents.pop() {
        for pid in children(parent) {
            // A zombie has a parent that does not wait for it, and does nothing.
            if crate::command::is_dead(pid) || found.iter().any(|known: &RemainingProcess| known.pid == pid) {
                continue;
            }
            found.push(RemainingProcess::read(pid));
            parents.push(pid);
        }
    }
    found.sort_by_key(|process| process.pid);
    found
}

/// The children of a process: of each of its threads.
fn children(parent: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_live_are_listed_with_those_that_they_made() {
        let mut shell = std::process::Command::new("sh");
        // A shell that has a child, which reads until the pipe is closed.
        let mut shell = shell.args(["-c", "cat; :"]).stdin(std::process::Stdio::piped()).spawn().expect("it runs");
        let of_shell = || remaining().into_iter().filter(|process| process.name == "cat").count();
        for _ in 0..2000 {
            if of_shell() == 1 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let is_listed = std::path::Path::new("/proc/thread-self/children").exists();
        assert!(of_shell() == 1 || !is_listed);
        assert!(has_children());
        drop(shell.stdin.take());
        assert!(shell.wait().expect("it ends").success());
    }
}
