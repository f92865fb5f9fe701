//! The options of `tracemill record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::parse_size;

/// `tracemill record`.
#[derive(Args)]
#[command(
    after_help = "Exit status: that of PROGRAM (128 and the number for a signal); 125 when nothing could be recorded."
)]
pub(crate) struct RecordOptions {
    /// The program to record, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, required_unless_present_any = ["recover", "snapshot", "all_tasks"])]
    pub(crate) program: Vec<OsString>,

    /// Record events of the kernel into `trace.dat`: SYSTEM:NAME, SYSTEM or NAME, with globs; `if CONDITION` behind them is
    /// the kernel's own filter, as in 'sched:sched_switch if prev_pid > 0'
    #[arg(long = "event", short = 'E', value_name = "PATTERN")]
    pub(crate) kernel_events: Vec<String>,

    /// With -E: record all tasks, while PROGRAM runs, or without one until an interrupt
    #[arg(long, short, requires = "kernel_events")]
    pub(crate) all_tasks: bool,

    /// With -E: size of the kernel's buffer of each CPU
    #[arg(long, short = 'B', value_name = "SIZE", default_value = "4M", value_parser = parse_size)]
    pub(crate) kernel_buffer: usize,

    /// Finish the trace in this folder, whose recorder was killed; of kernel events the name of their file
    #[arg(long, value_name = "DIR", conflicts_with_all = ["program", "snapshot"])]
    pub(crate) recover: Option<PathBuf>,

    /// Copy what is recorded so far in this folder, by a process that lives or died, to the folder that -o names
    #[arg(long, value_name = "DIR", conflicts_with = "program", requires = "output")]
    pub(crate) snapshot: Option<PathBuf>,

    /// The folder of the trace: `uftrace.data` for calls, whose predecessor becomes `.old`; `trace.ctf` for events, which
    /// must not exist; the file `trace.dat` for events of the kernel
    #[arg(long, short, short_alias = 'd', value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,

    /// Leave out calls deeper than this
    #[arg(long, short = 'D', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) depth: Option<u16>,

    /// Greatest depth of the stack of calls; deeper ones are not recorded
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) max_stack: u16,

    /// Size of a slot of the ring of calls, of which each thread has eight
    #[arg(long, short, value_name = "SIZE", default_value = "128K", value_parser = parse_size)]
    pub(crate) buffer: usize,

    /// What happens when a thread's ring of calls is full
    #[arg(long, value_name = "WHAT", default_value = "wait")]
    pub(crate) when_full: WhenFull,

    /// Keep the rings of calls in this folder, not in memory
    #[arg(long, value_name = "DIR")]
    pub(crate) ring_dir: Option<PathBuf>,

    /// Run the program also when nothing of it can be recorded
    #[arg(long)]
    pub(crate) force: bool,

    /// Without effect: calls into libraries are not recorded
    #[arg(long, hide = true)]
    pub(crate) no_libcall: bool,

    /// What happens when a thread's ring of events is full
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<RecordMode>,

    /// Events to record: globs of their names, with a dash before those to leave out; the last one that matches decides
    #[arg(long, value_name = "GLOB,..", allow_hyphen_values = true)]
    pub(crate) events: Option<String>,

    /// Size of the ring of events of each thread, such as 16M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) size: Option<usize>,
}

/// Behaviour when a ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum RecordMode {
    /// Packets are moved to files all the time; events are discarded, and counted, when that is too slow.
    Stream,
    /// The oldest events are written over.
    Flight,
    /// As stream, but the program waits in place of discarding.
    Block,
}

/// Behaviour when a ring of calls is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum WhenFull {
    /// The program waits.
    Wait,
    /// Calls are lost, and counted.
    Lose,
}
