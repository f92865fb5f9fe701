//! A recording from its beginning to its end.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_perf::write::{FeatureBuilder, SampleSource, lost_samples_record};

use crate::events::{OpenEvents, SampledThreads, paranoid};
use crate::file::SampleFile;
use crate::{known, machine};

/// Time between two looks at rings that are not half full.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Time between two looks at processes that are not our children.
const LOOK_AT_PROCESSES: Duration = Duration::from_millis(5);

/// How the stacks of the program are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallGraph {
    /// By frame pointers, while it is sampled.
    #[default]
    FramePointers,
    /// By unwinding tables, when the recording is read: so many bytes of the stack are copied.
    Dwarf(u32),
}

/// Clocks of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SampleClock {
    /// `CLOCK_MONOTONIC`.
    #[default]
    Mono,
    /// `CLOCK_MONOTONIC_RAW`, which is not slewed.
    MonoRaw,
    /// `CLOCK_BOOTTIME`, which goes on while the machine sleeps; hardware counters cannot read it.
    Boot,
}

impl SampleClock {
    /// The number that the system has for it.
    pub(crate) fn number(self) -> i32 {
        match self {
            SampleClock::Mono => 1,
            SampleClock::MonoRaw => 4,
            SampleClock::Boot => 7,
        }
    }
}

/// Settings of a recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The file; an earlier recording becomes `.old`.
    pub output: PathBuf,
    /// Samples in each second of a CPU.
    pub hz: u64,
    /// How stacks of the program are found.
    pub call_graph: CallGraph,
    /// Is the stack of each thread recorded that a CPU leaves?
    pub has_off_cpu: bool,
    /// Size of the ring of each CPU; smaller where the system does not allow it.
    pub ring_bytes: usize,
    /// Clock of the times.
    pub clock: SampleClock,
    /// Is the time since 1970 stated? Not next to traces whose clocks have no origin.
    pub has_origin: bool,
    /// The command, for the head.
    pub command: Vec<String>,
    /// Called with the process id of the program once it runs, such as to pass signals on to it.
    pub on_start: Option<fn(u32)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            output: PathBuf::from("perf.data"),
            hz: 999,
            call_graph: CallGraph::FramePointers,
            has_off_cpu: false,
            ring_bytes: 1 << 20,
            clock: SampleClock::Mono,
            has_origin: true,
            command: Vec::new(),
            on_start: None,
        }
    }
}

/// How a recording went.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// Exit status of the program that [`record`] ran.
    pub status: Option<ExitStatus>,
    /// Samples in the file.
    pub samples: u64,
    /// Samples and other records that had no room.
    pub lost: u64,
    /// The setting `kernel.perf_event_paranoid` that keeps samples of the kernel away.
    pub without_kernel: Option<String>,
    /// Are samples taken by the clock, as there are no counters of cycles?
    pub is_by_clock: bool,
    /// Why some of the recording could not be written, while the program went on.
    pub failed: Option<String>,
}

/// Samples a program and all that it makes, until it ends.
///
/// # Errors
/// When the system does not allow samples, the program cannot be started, or the file cannot be made.
pub fn record(mut command: Command, options: &Options) -> Result<Recorded> {
    let ((status, failed), recorded) = record_beside(options, || {
        let program = PathBuf::from(command.get_program());
        let mut child = command.spawn().map_err(|error| Error::io("run", &program, &error))?;
        if let Some(tell) = options.on_start {
            tell(child.id());
        }
        // The recording is finished even if the end of the program cannot be seen.
        Ok(match child.wait() {
            Ok(status) => (Some(status), None),
            Err(error) => (None, Some(format!("the program cannot be waited for: {error}"))),
        })
    })?;
    Ok(Recorded { status, failed: recorded.failed.clone().or(failed), ..recorded })
}

/// Samples the programs that `run` starts on this thread or on threads that it makes, and all that these programs make.
///
/// # Errors
/// The errors of `run`; when the system does not allow samples, or the file cannot be made.
pub fn record_beside<T>(options: &Options, run: impl FnOnce() -> Result<T>) -> Result<(T, Recorded)> {
    sample(options, &SampledThreads::Children, run)
}

/// Samples processes that run already, until they have ended or `must_stop` says so.
///
/// # Errors
/// When there is no such process, the system does not allow samples of it, or the file cannot be made.
pub fn record_processes(processes: &[u32], options: &Options, must_stop: &dyn Fn() -> bool) -> Result<Recorded> {
    let wait = || {
        while !must_stop() && !processes.iter().all(|process| is_over(*process)) {
            std::thread::sleep(LOOK_AT_PROCESSES);
        }
        Ok(())
    };
    sample(options, &SampledThreads::Of(processes.to_vec()), wait).map(|((), recorded)| recorded)
}

/// Has a process ended? One that its parent has not waited for yet has.
fn is_over(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return true };
    // The state follows the name, which may hold anything. It is that of the first thread, which may end before others.
    let has_ended = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']));
    has_ended && std::fs::read_dir(format!("/proc/{process}/task")).map_or(true, |threads| threads.count() <= 1)
}

fn sample<T>(options: &Options, of: &SampledThreads, run: impl FnOnce() -> Result<T>) -> Result<(T, Recorded)> {
    let failed = |error: io::Error| Error::io("record samples into", &options.output, &error);
    let (opened, mut rings) = OpenEvents::open(options, of)?;
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
    let mut file = SampleFile::create(&options.output, &opened.events)?;
    let main = opened.events[0].event.clone();
    let is_over = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            if !main.excludes_kernel {
                file.write(&known::kernel_records());
            }
            file.write(&known::process_records(&opened.threads, options.call_graph != CallGraph::FramePointers));
            let mut watched: Vec<PollFd<'_>> = vec![PollFd::new(&bell, PollFlags::IN)];
            watched.extend(opened.first_instances().map(|event| PollFd::new(event, PollFlags::IN)));
            let mut records = Vec::new();
            loop {
                let is_last = is_over.load(Ordering::Acquire);
                for ring in &mut rings {
                    ring.take(&mut records);
                    file.write(&records);
                    records.clear();
                }
                file.end_round();
                if is_last {
                    break;
                }
                // An interrupted wait is a short one.
                let _ = poll(&mut watched, Some(&LOOK));
                // The event of a thread that has ended is always ready, and never again.
                watched.retain(|fd| !fd.revents().intersects(PollFlags::HUP | PollFlags::ERR));
            }
        });
        let result = run();
        opened.disable();
        is_over.store(true, Ordering::Release);
        let _ = rustix::io::write(&bell, &1_u64.to_ne_bytes());
        let moved = moving.join();
        let broken = |_| Error::new(ErrorKind::Io, "the thread that moves samples has failed");
        moved.map_err(broken).and(result)
    });
    let result = match result {
        Ok(result) => result,
        Err(error) => {
            file.remove();
            return Err(error);
        }
    };
    // The kernel reports a loss when it has room again: at the end it may have none.
    let losses = opened.losses();
    let counted: u64 = losses.iter().map(|(_, lost)| lost).sum();
    losses.iter().for_each(|(id, lost)| file.write(&lost_samples_record(*id, *lost)));
    let mut features = FeatureBuilder::default();
    machine::add_machine(&mut features);
    machine::add_clock(&mut features, options);
    features.command(options.command.iter().map(String::as_str));
    features.events(&opened.events);
    if let Some((first, last)) = file.seen.times {
        features.sample_times(first, last);
    }
    features.build_ids(&machine::build_ids(&file.seen.files, !main.excludes_kernel));
    file.finish(&opened.events, &features);
    let recorded = Recorded {
        status: None,
        samples: file.seen.samples,
        lost: file.seen.lost.max(counted),
        without_kernel: main.excludes_kernel.then(paranoid),
        is_by_clock: main.source == SampleSource::CpuClock,
        failed: file.failed.as_ref().map(ToString::to_string),
    };
    Ok((result, recorded))
}
