//! The events of all CPUs and threads, with one ring for each CPU, as perf has them.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_perf::write::{SampleRate, SampleSource, SampledEvent, UserStack, WrittenEvent};

use crate::recording::{CallGraph, Options};
use crate::sys::{PerfEvent, SampleRing};

/// Threads that are sampled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SampledThreads {
    /// Programs that this thread executes in its children, and all that they make.
    Children,
    /// The threads of processes, and all that they make.
    Of(Vec<u32>),
}

/// Events that are open.
#[derive(Debug)]
pub(crate) struct OpenEvents {
    /// For the file.
    pub(crate) events: Vec<WrittenEvent>,
    /// Instances of each, in the same order.
    instances: Vec<Vec<PerfEvent>>,
    /// Threads that are followed; those that ended meanwhile are none.
    pub(crate) threads: Vec<(u32, u32)>,
    /// The number of rings, one for each CPU.
    ring_count: usize,
    /// Do events wait for an `exec`? Otherwise for [`OpenEvents::enable`].
    waits_for_exec: bool,
}

/// Rings are halved down to this, where the system does not allow larger ones.
const SMALLEST_RING: usize = 32 << 10;

impl OpenEvents {
    /// Opens the events of a recording, and maps their rings.
    pub(crate) fn open(options: &Options, of: &SampledThreads) -> Result<(OpenEvents, Vec<SampleRing>)> {
        check_rate(options.hz)?;
        let cpus = online_cpus();
        let waits_for_exec = *of == SampledThreads::Children;
        let threads = match of {
            SampledThreads::Children => Vec::new(),
            SampledThreads::Of(processes) => threads_of(processes, &[])?,
        };
        // Thread 0 is the one that calls: its children inherit events that wait for an `exec`.
        let first = threads.first().map_or(0, |(_, thread)| *thread);
        let events = events(options, waits_for_exec, first, &cpus)?;
        if !waits_for_exec {
            raise_file_limit();
        }
        let instances = events.iter().map(|_| Vec::new()).collect();
        let events = events.into_iter().map(|event| WrittenEvent { event, ids: Vec::new() }).collect();
        let mut opened = OpenEvents { events, instances, threads, ring_count: 0, waits_for_exec };
        let mut rings = CpuRings { options, cpus: &cpus, firsts: vec![None; cpus.len()], rings: Vec::new() };
        if waits_for_exec {
            opened.add_thread(0, &mut rings)?;
        }
        let mut new = std::mem::take(&mut opened.threads);
        // Threads that others made before their events were open: until there are no more of them.
        while let SampledThreads::Of(processes) = of
            && !new.is_empty()
        {
            for thread in &new {
                if opened.add_thread(thread.1, &mut rings)? {
                    opened.threads.push(*thread);
                }
            }
            // An enabled event makes threads inherit enabled ones.
            opened.enable()?;
            let seen = [&opened.threads[..], &new].concat();
            new = threads_of(processes, &seen).unwrap_or_default();
        }
        opened.ring_count = rings.rings.len();
        match opened.ring_count {
            0 => Err(Error::new(ErrorKind::Io, "the process has ended")),
            _ => Ok((opened, rings.rings)),
        }
    }

    /// Opens the events of a thread on all CPUs; `false` when it has ended.
    fn add_thread(&mut self, thread: u32, rings: &mut CpuRings<'_>) -> Result<bool> {
        for at in 0..rings.cpus.len() {
            let cpu = rings.cpus[at];
            for number in 0..self.events.len() {
                let attr = self.events[number].event.attr();
                let event = match PerfEvent::open(&attr, thread as i32, cpu) {
                    Ok(event) => event,
                    Err(error) => match Errno::from_io_error(&error) {
                        Some(Errno::SRCH) => return Ok(false),
                        // A CPU that was switched off meanwhile.
                        Some(Errno::NODEV) => continue,
                        _ => return Err(refused(&error, thread)),
                    },
                };
                let failed = |error: io::Error| refused(&error, thread);
                self.events[number].ids.push(event.id().map_err(failed)?);
                match rings.firsts[at] {
                    Some((of, place)) => {
                        let other: &PerfEvent = &self.instances[of][place];
                        event.write_into(other).map_err(failed)?;
                    }
                    None => {
                        rings.rings.push(map_ring(&event, rings.options.ring_bytes)?);
                        rings.firsts[at] = Some((number, self.instances[number].len()));
                    }
                }
                self.instances[number].push(event);
            }
        }
        Ok(true)
    }

    /// Begins, unless an `exec` does it.
    pub(crate) fn enable(&self) -> Result<()> {
        if self.waits_for_exec {
            return Ok(());
        }
        let failed = |error: io::Error| Error::new(ErrorKind::Io, format!("samples cannot be begun: {error}"));
        self.all().try_for_each(PerfEvent::enable).map_err(failed)
    }

    /// Ends, for all that inherited them as well.
    pub(crate) fn disable(&self) {
        for event in self.all() {
            // One of a thread that has ended needs no end.
            let _ = event.disable();
        }
    }

    fn all(&self) -> impl Iterator<Item = &PerfEvent> {
        self.instances.iter().flatten()
    }

    /// The events that own rings, to wait for records.
    pub(crate) fn first_instances(&self) -> impl Iterator<Item = &PerfEvent> {
        self.instances.first().into_iter().flatten().take(self.ring_count)
    }

    /// For each instance its id, and the samples that it lost.
    pub(crate) fn losses(&self) -> Vec<(u64, u64)> {
        let each = self.events.iter().zip(&self.instances);
        let counts = each.flat_map(|(event, instances)| {
            instances.iter().filter_map(|instance| instance.counts(event.event.counts_losses).ok())
        });
        counts.filter(|counts| counts.lost > 0).map(|counts| (counts.id, counts.lost)).collect()
    }
}

/// The rings that are mapped so far.
struct CpuRings<'o> {
    options: &'o Options,
    cpus: &'o [u32],
    /// For each CPU the event that owns its ring: its number, and its place among the instances.
    firsts: Vec<Option<(usize, usize)>>,
    rings: Vec<SampleRing>,
}

fn map_ring(event: &PerfEvent, bytes: usize) -> Result<SampleRing> {
    let mut bytes = bytes.next_power_of_two().max(rustix::param::page_size());
    loop {
        match SampleRing::map(event, bytes) {
            Ok(ring) => return Ok(ring),
            // More than `kernel.perf_event_mlock_kb` allows.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) && bytes > SMALLEST_RING => bytes /= 2,
            Err(error) => {
                let error = Error::new(ErrorKind::Io, format!("a ring of {bytes} bytes cannot be mapped: {error}"));
                return Err(error.with_help("--sample-buffer asks for smaller ones"));
            }
        }
    }
}

/// The events, as far as this kernel and these rights allow them.
fn events(options: &Options, begins_at_exec: bool, thread: u32, cpus: &[u32]) -> Result<Vec<SampledEvent>> {
    let user_stack = match options.call_graph {
        CallGraph::FramePointers => UserStack::FramePointers,
        CallGraph::Dwarf(bytes) => UserStack::Copied(USER_REGISTERS, bytes),
    };
    let wanted = SampledEvent {
        source: SampleSource::Cycles,
        rate: SampleRate::Hz(options.hz),
        user_stack,
        excludes_kernel: false,
        is_tracker: true,
        has_build_ids: true,
        counts_losses: true,
        is_inherited: true,
        begins_at_exec,
        clock_id: options.clock.number(),
    };
    // CPUs of two kinds may not have the same counters.
    let main = cpus.iter().try_fold(wanted, |event, cpu| allowed(event, thread, *cpu))?;
    let mut events = vec![main.clone()];
    if options.has_off_cpu {
        // Switches happen in the kernel.
        if main.excludes_kernel {
            let error = Error::unsupported(format!(
                "stacks of threads that wait cannot be recorded: kernel.perf_event_paranoid is {}, 1 or less allows it",
                paranoid()
            ));
            return Err(error.with_help(format!("as root: {ALLOW_KERNEL}; or leave out --off-cpu")));
        }
        let (source, rate) = (SampleSource::ContextSwitches, SampleRate::Every(1));
        events.push(SampledEvent { source, rate, is_tracker: false, ..main });
    }
    Ok(events)
}

/// The registers of programs that unwinding needs, and all others that perf takes: without segments.
#[cfg(target_arch = "x86_64")]
const USER_REGISTERS: u64 = 0xff_0fff;
#[cfg(target_arch = "aarch64")]
const USER_REGISTERS: u64 = 0x1_ffff_ffff;

const ALLOW_KERNEL: &str = "`sysctl kernel.perf_event_paranoid=1`";

/// An event without the wishes that the system refuses.
fn allowed(mut event: SampledEvent, thread: u32, cpu: u32) -> Result<SampledEvent> {
    loop {
        let error = match PerfEvent::open(&event.attr(), thread as i32, cpu) {
            Ok(_) => return Ok(event),
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM) if !event.excludes_kernel => event.excludes_kernel = true,
            Some(Errno::INVAL) if event.counts_losses => event.counts_losses = false,
            Some(Errno::INVAL) if event.has_build_ids => event.has_build_ids = false,
            // No counters, as in most virtual machines; or a clock that interrupts without masks cannot read.
            Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP | Errno::INVAL)
                if event.source == SampleSource::Cycles =>
            {
                let (counts_losses, has_build_ids) = (true, true);
                event = SampledEvent { source: SampleSource::CpuClock, counts_losses, has_build_ids, ..event };
            }
            _ => return Err(refused(&error, thread)),
        }
    }
}

/// Why an event cannot be had, and what to do.
fn refused(error: &io::Error, thread: u32) -> Error {
    let of = |what: String| Error::new(ErrorKind::Io, what);
    match Errno::from_io_error(error) {
        Some(Errno::NOSYS) => of("samples cannot be recorded: this kernel has no perf events".to_string())
            .with_help("a kernel with CONFIG_PERF_EVENTS has them"),
        Some(Errno::SRCH) => of("the process has ended".to_string()),
        Some(Errno::MFILE | Errno::NFILE) => of(format!("samples cannot be recorded: {error}"))
            .with_help("each thread takes a descriptor for each CPU; raise the limit: `ulimit -Hn`"),
        Some(Errno::ACCESS | Errno::PERM) => {
            let level = paranoid();
            match level.parse::<i32>() {
                Ok(..=2) if thread != 0 => {
                    of("samples of the process cannot be recorded: it belongs to another user, or is \
                    protected from being traced"
                        .to_string())
                    .with_help("run `tracemill record` as its user or as root")
                }
                Ok(..=2) => of("samples cannot be recorded: perf_event_open is forbidden here, though \
                    kernel.perf_event_paranoid allows it"
                    .to_string())
                .with_help("a container needs a seccomp profile with perf_event_open, or the capability PERFMON"),
                _ => {
                    of(format!("samples cannot be recorded: kernel.perf_event_paranoid is {level}")).with_help(format!(
                        "2 allows samples of your own programs, 1 also those in the kernel; as root: {ALLOW_KERNEL}"
                    ))
                }
            }
        }
        _ => of(format!("samples cannot be recorded: {error}")),
    }
}

/// The kernel's setting of who may sample what.
pub(crate) fn paranoid() -> String {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    level.map_or_else(|_| "not readable".to_string(), |level| level.trim().to_string())
}

fn check_rate(hz: u64) -> Result<()> {
    let most = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok();
    let most = most.and_then(|most| most.trim().parse::<u64>().ok()).unwrap_or(u64::MAX);
    if (1..=most).contains(&hz) {
        return Ok(());
    }
    let error = Error::misuse(format!("{hz} samples a second: the kernel takes 1 to {most}"));
    Err(error.with_help("kernel.perf_event_max_sample_rate is the limit"))
}

/// The CPUs that are online; at least one.
fn online_cpus() -> Vec<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = cpu_list(&list);
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// The numbers of a list such as `0-3,8`.
fn cpu_list(text: &str) -> Vec<u32> {
    // The kernel numbers at most some thousand.
    const MOST: u32 = 1 << 16;
    let ranges = text.trim().split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?.min(MOST)))
    });
    ranges.flat_map(|(from, to)| from..=to).collect()
}

/// The threads of processes, without those that are known: each with its process.
fn threads_of(processes: &[u32], known: &[(u32, u32)]) -> Result<Vec<(u32, u32)>> {
    let mut threads = Vec::new();
    for process in processes {
        let folder = format!("/proc/{process}/task");
        let tasks = match fs::read_dir(&folder) {
            Ok(tasks) => tasks,
            Err(error) if known.is_empty() => {
                return Err(match error.kind() {
                    io::ErrorKind::NotFound => Error::misuse(format!("there is no process {process}")),
                    _ => Error::io("list the threads in", Path::new(&folder), &error),
                });
            }
            Err(_) => continue,
        };
        let numbers = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
        threads.extend(numbers.map(|thread| (*process, thread)));
    }
    let known: std::collections::HashSet<_> = known.iter().collect();
    threads.retain(|thread| !known.contains(thread));
    threads.sort_unstable();
    Ok(threads)
}

/// Allows as many descriptors as the system lets this process have. Only where no program inherits the limit.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // With less, an error says it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_ranges() {
        assert_eq!(cpu_list("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(cpu_list(""), [0_u32; 0]);
        assert_eq!(cpu_list("0-99999999999,x,5"), [5]);
        assert!(cpu_list("0-4294967295").len() <= (1 << 16) + 1);
    }

    #[test]
    fn a_rate_that_the_kernel_refuses_is_refused_with_its_limit() {
        let error = check_rate(0).expect_err("no samples");
        assert!(error.message().contains("0 samples a second"), "{error}");
        assert!(check_rate(99).is_ok());
    }
}
