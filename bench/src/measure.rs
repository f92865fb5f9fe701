//! CPU time, elapsed time and memory of one run, and what many runs say together.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::Result;

/// The cost of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// CPU seconds of all threads, user and system.
    pub(crate) cpu: f64,
    /// Elapsed seconds.
    pub(crate) wall: f64,
}

/// Runs of the same thing.
#[derive(Clone, Default, Debug)]
pub(crate) struct Samples(pub(crate) Vec<Run>);

/// Smallest, middle and largest of some numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// The smallest.
    pub(crate) min: f64,
    /// The middle one, or the mean of the two in the middle.
    pub(crate) median: f64,
    /// The largest.
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one number.
    pub(crate) fn from_numbers(numbers: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = numbers.collect();
        sorted.sort_by(f64::total_cmp);
        let (len, last) = (sorted.len(), sorted.len() - 1);
        Spread { min: sorted[0], median: (sorted[last / 2] + sorted[len / 2]) / 2.0, max: sorted[last] }
    }
}

impl Samples {
    /// CPU seconds.
    pub(crate) fn cpu(&self) -> Spread {
        Spread::from_numbers(self.0.iter().map(|run| run.cpu))
    }

    /// Elapsed seconds.
    pub(crate) fn wall(&self) -> Spread {
        Spread::from_numbers(self.0.iter().map(|run| run.wall))
    }
}

/// CPU seconds of this process or of its children that have ended.
fn cpu_seconds(who: UsageWho) -> Result<f64> {
    let usage = getrusage(who).map_err(|error| format!("the CPU time cannot be read: {error}"))?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

fn timed<T>(who: UsageWho, work: impl FnOnce() -> Result<T>) -> Result<(T, Run)> {
    let (cpu, wall) = (cpu_seconds(who)?, Instant::now());
    let value = work()?;
    let wall = wall.elapsed().as_secs_f64();
    Ok((value, Run { cpu: cpu_seconds(who)? - cpu, wall }))
}

/// Measures work in this process, which has no other thread.
pub(crate) fn in_process<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Run)> {
    timed(UsageWho::RUSAGE_SELF, work)
}

/// Measures a program whose output goes to /dev/null.
pub(crate) fn child(command: &mut Command) -> Result<Run> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (status, run) =
        timed(UsageWho::RUSAGE_CHILDREN, || command.status().map_err(|error| not_started(command, &error)))?;
    if status.success() { Ok(run) } else { Err(format!("{}: {status}", name_of(command))) }
}

/// The bytes that a program writes on stdout.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| not_started(command, &error))?;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("{}: {}", name_of(command), output.status)) }
}

/// Counts the lines that a program writes.
pub(crate) fn lines(command: &mut Command) -> Result<u64> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| not_started(command, &error))?;
    let mut lines = 0;
    if let Some(mut pipe) = child.stdout.take() {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(len @ 1..) = pipe.read(&mut buffer) {
            lines += buffer[..len].iter().filter(|&&byte| byte == b'\n').count() as u64;
        }
    }
    let status = child.wait().map_err(|error| not_started(command, &error))?;
    if status.success() { Ok(lines) } else { Err(format!("{}: {status}", name_of(command))) }
}

/// Elapsed time from the start of a program to its first byte of output. Then the pipe is closed, and the program has
/// to end by that.
pub(crate) fn first_byte(command: &mut Command) -> Result<Run> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (wall, run) = timed(UsageWho::RUSAGE_CHILDREN, || {
        let start = Instant::now();
        let mut child = command.spawn().map_err(|error| not_started(command, &error))?;
        let len = child.stdout.take().and_then(|mut pipe| pipe.read(&mut [0]).ok());
        let wall = start.elapsed().as_secs_f64();
        // Whatever its status is: it may have been ended by the signal of a closed pipe.
        child.wait().map_err(|error| not_started(command, &error))?;
        if len == Some(1) { Ok(wall) } else { Err(format!("{}: no output", name_of(command))) }
    })?;
    Ok(Run { wall, ..run })
}

/// The largest private memory of a program, in bytes, looked at every two milliseconds; `None` where the system does
/// not tell.
pub(crate) fn peak_private_bytes(command: &mut Command) -> Result<Option<u64>> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| not_started(command, &error))?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = None;
    loop {
        if let Some(kib) = private_kib(Path::new(&status_file)) {
            peak = peak.max(Some(kib * 1024));
        }
        match child.try_wait().map_err(|error| not_started(command, &error))? {
            None => std::thread::sleep(Duration::from_millis(2)),
            Some(status) if status.success() => return Ok(peak),
            Some(status) => return Err(format!("{}: {status}", name_of(command))),
        }
    }
}

/// `RssAnon` of a process: memory in RAM that is no part of a file.
fn private_kib(status_file: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(status_file).ok()?;
    let rest = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    rest.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The other reader, with nothing asked of it yet.
pub(crate) fn peer() -> Command {
    Command::new("babeltrace2")
}

/// The version that the other reader states.
pub(crate) fn peer_version() -> Option<String> {
    let output = output(peer().arg("--version")).ok()?;
    Some(String::from_utf8_lossy(&output).lines().next()?.to_string())
}

fn name_of(command: &Command) -> String {
    let mut name = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        name.push(' ');
        name.push_str(&argument.to_string_lossy());
    }
    name
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("{}: {error}", name_of(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even() {
        assert_eq!(Spread::from_numbers([3.0, 1.0, 2.0].into_iter()).median, 2.0);
        assert_eq!(Spread::from_numbers([4.0, 1.0, 2.0, 3.0].into_iter()).median, 2.5);
        let one = Spread::from_numbers([7.0].into_iter());
        assert_eq!((one.min, one.median, one.max), (7.0, 7.0, 7.0));
    }

    #[test]
    fn cpu_of_a_child_is_counted() {
        let run = child(Command::new("sh").args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])).unwrap();
        assert!(run.cpu > 0.0 && run.wall > 0.0, "{run:?}");
        assert!(child(Command::new("sh").args(["-c", "exit 3"])).is_err());
    }

    #[test]
    fn lines_and_first_byte() {
        assert_eq!(lines(Command::new("sh").args(["-c", "echo a; echo b"])), Ok(2));
        let endless = first_byte(Command::new("sh").args(["-c", "while echo y; do :; done"])).unwrap();
        assert!(endless.wall < 60.0);
        assert!(first_byte(&mut Command::new("true")).is_err());
    }
}
