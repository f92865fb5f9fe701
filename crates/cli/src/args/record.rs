//! The options of `tracemill record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgGroup, ArgMatches, Args, ValueEnum};

use tracemill_calls::text::parse_time;

use super::calls::{RuleArgs, hidden};
use super::parse_size;

/// `tracemill record`.
#[derive(Args)]
#[command(
    after_help = "Options of `uftrace record` are known: those without a line here have no effect, or say why they cannot \
    be had.\n`tracemill record --help running` lists the options for a program that runs: its events, contexts and triggers.\n\n\
    Exit status: that of PROGRAM (128 and the number for a signal); 125 when nothing could be recorded."
)]
#[command(group = ArgGroup::new("of_kernel").multiple(true).args(["kernel_events", "kernel", "kernel_depth"]))]
pub(crate) struct RecordOptions {
    /// The program to record, and its arguments; with the options for a program that runs its process id, or the folder of
    /// its trace
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        required_unless_present_any = ["recover", "snapshot", "all_tasks", "all", "SampleArgs"]
    )]
    pub(crate) program: Vec<OsString>,

    /// Record events of the kernel, next to the calls of an instrumented program, otherwise into `trace.dat`:
    /// SYSTEM:NAME, SYSTEM or NAME, with globs; `if CONDITION` after them is the kernel's own filter, as in
    /// 'sched:sched_switch if prev_pid > 0'
    #[arg(long = "event", short = 'E', value_name = "PATTERN,...", help_heading = KERNEL)]
    pub(crate) kernel_events: Vec<String>,

    /// Record functions of the kernel, beside calls as with -E: those that the program enters it by
    #[arg(long, short = 'k', help_heading = KERNEL)]
    pub(crate) kernel: bool,

    /// As -k, functions nested at most so deep; 0 is any depth
    #[arg(long, short = 'K', value_name = "DEPTH", help_heading = KERNEL)]
    pub(crate) kernel_depth: Option<u32>,

    /// With -E or -k: record all tasks, and no calls, while PROGRAM runs, or without one until an interrupt
    #[arg(long, help_heading = KERNEL)]
    pub(crate) all_tasks: bool,

    /// With -E the same as --all-tasks, without it as --auto-args
    #[arg(short = 'a', id = "all")]
    pub(crate) all: bool,

    /// With -E: size of the kernel's buffer of each CPU
    #[arg(long, short = 'B', value_name = "SIZE", default_value = "4M", value_parser = parse_size, help_heading = KERNEL)]
    pub(crate) kernel_buffer: usize,

    #[command(flatten)]
    pub(crate) samples: SampleArgs,

    /// Finish the trace in this folder, whose recorder was killed; of kernel events the name of their file
    #[arg(long, value_name = "DIR", conflicts_with_all = ["program", "snapshot"])]
    pub(crate) recover: Option<PathBuf>,

    /// Copy what is recorded so far in this folder, by a process that lives or died, or by the process of this id, to the
    /// folder that -o names
    #[arg(long, value_name = "DIR", conflicts_with = "program", requires = "output")]
    pub(crate) snapshot: Option<PathBuf>,

    /// The folder of the trace: `uftrace.data` for calls, whose predecessor becomes `.old`; `trace.ctf` for events, which
    /// must not exist; the file `trace.dat` for events of the kernel; the file `perf.data` for samples
    #[arg(long, short, short_alias = 'd', alias = "data", value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,

    /// Convert the recording when it is over, to a format that `convert` writes; -o then names what it becomes
    #[arg(long, value_name = "FORMAT", requires = "output", conflicts_with_all = ["recover", "snapshot"])]
    pub(crate) to: Option<String>,

    /// Run the program also when nothing of it can be recorded
    #[arg(long)]
    pub(crate) force: bool,

    /// Print how long the program and its children ran, on stderr
    #[arg(long)]
    pub(crate) time: bool,

    /// Say what was recorded, on stderr
    #[arg(long, short, visible_alias = "debug")]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) calls: RecordCalls,

    #[arg(long, value_name = "MODE", help_heading = EVENTS, help = "What happens when a thread's ring of events is full")]
    pub(crate) mode: Option<RecordMode>,

    /// Events to record: globs of their names, with a dash before those to leave out; the last one that matches decides
    #[arg(long, value_name = "GLOB,..", allow_hyphen_values = true, help_heading = EVENTS)]
    pub(crate) events: Option<String>,

    /// Size of the ring of events of each thread, such as 16M
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = EVENTS)]
    pub(crate) size: Option<usize>,

    #[command(flatten)]
    pub(crate) control: ControlArgs,

    #[command(flatten)]
    pub(crate) refused: Refused,
}

/// Commands for the recorder of a program that runs.
#[derive(Args)]
#[command(next_help_heading = RUNNING)]
pub(crate) struct ControlArgs {
    /// List the events that it has met so far; of a program's file, the probes of sys/sdt.h. --filter EXPR records those only of which a condition is true; --trigger makes
    /// a snapshot: 'EVENT if EXPR', 'EVENT..EVENT > TIME by FIELD', signal:NAME or panic. These two, --context and --before
    /// are also for a program that is run
    #[arg(long)]
    pub(crate) list: bool,

    /// Switch events on: globs of their names, `@LEVEL` after one for events of at least that level; `--disable=GLOB,..`
    /// switches off
    #[arg(long, value_name = "GLOB,..", allow_hyphen_values = true)]
    pub(crate) enable: Vec<String>,

    /// Record with events: cpu, tid, callstack, perf:cycles and others; `-` is none
    #[arg(long, value_name = "NAME,..", allow_hyphen_values = true)]
    pub(crate) context: Option<String>,

    /// With --trigger: the snapshot has so much of the time before, such as 500ms; without, all that there is
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) before: Option<u64>,

    /// Take its triggers away
    #[arg(long)]
    pub(crate) no_triggers: bool,

    /// Finish its trace, and have it go on in the folder that -o names
    #[arg(long, requires = "output", conflicts_with = "stop")]
    pub(crate) rotate: bool,

    /// Finish its trace, and have it record no more
    #[arg(long)]
    pub(crate) stop: bool,
}

/// How a program is sampled.
#[derive(Args)]
#[command(next_help_heading = "Samples")]
pub(crate) struct SampleArgs {
    /// Sample a program of any kind, so many times in each second of a CPU [default: 999], into `perf.data`. With -E, or if
    /// the program records calls or events, the folder `recording` has these, too; -o perf.data has samples alone
    #[arg(
        long,
        value_name = "HZ",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "999",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["recover", "snapshot", "keep_pid", "nop"]
    )]
    pub(crate) sample: Option<u64>,

    /// With --sample: sample these processes, with what they start, until they end or until an interrupt
    #[arg(long, short, value_name = "PID,..", value_delimiter = ',', requires = "sample", conflicts_with = "program")]
    pub(crate) pid: Vec<u32>,

    /// With --sample: find stacks of the program by its frame pointers, `fp` [default], or copy SIZE bytes of them [default:
    /// 8192], `dwarf`, for programs without; `perf script` and `perf report` unwind these
    #[arg(long, value_name = "fp|dwarf[,SIZE]", requires = "sample", value_parser = call_graph)]
    pub(crate) call_graph: Option<CallGraphArg>,

    /// With --sample: record a stack also where a thread begins to wait, as the event `context-switches`
    #[arg(long, requires = "sample")]
    pub(crate) off_cpu: bool,

    /// With --sample: size of the ring of each CPU [default: 1M, with dwarf 8M]; less where the system allows no more
    #[arg(long, value_name = "SIZE", requires = "sample", value_parser = parse_size)]
    pub(crate) sample_buffer: Option<usize>,
}

/// How stacks of samples are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(has_recorder), allow(dead_code, reason = "only the recorder looks at them"))]
pub(crate) enum CallGraphArg {
    /// By frame pointers.
    FramePointers,
    /// By so many copied bytes.
    Dwarf(u32),
}

fn call_graph(text: &str) -> Result<CallGraphArg, String> {
    /// The kernel takes no more.
    const MOST: usize = 65_528;
    match text.split_once(',').unwrap_or((text, "8192")) {
        ("fp", _) if text == "fp" => Ok(CallGraphArg::FramePointers),
        ("dwarf", size) => match parse_size(size)? {
            bytes @ 1..=MOST => Ok(CallGraphArg::Dwarf(bytes.next_multiple_of(8) as u32)),
            _ => Err(format!("expected 1 to {MOST} bytes of each stack")),
        },
        ("lbr", _) => Err("branch records of processors are not taken; `fp` and `dwarf` are there".to_string()),
        _ => Err("expected `fp`, `dwarf` or `dwarf,SIZE`".to_string()),
    }
}

const EVENTS: &str = "Events of the program";
/// The heading of options for a program that runs and records its events, which stand on a page of their own.
pub(super) const RUNNING: &str = "A program that runs";
const KERNEL: &str = "Events of the kernel";

/// Rings of calls: their place, their size, and what happens when they are full.
#[derive(Args)]
#[command(next_help_heading = "Calls")]
pub(crate) struct RingArgs {
    /// Size of a slot of the ring of calls, of which each thread has eight
    #[arg(long, short, value_name = "SIZE", default_value = "128K", value_parser = parse_size)]
    pub(crate) buffer: usize,

    #[arg(
        long,
        value_name = "WHAT",
        default_value = "wait",
        help = "What happens when a thread's ring of calls is full"
    )]
    pub(crate) when_full: WhenFull,

    /// With --when-full grow: size of the ring of a thread, at most
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub(crate) max_buffer: usize,

    /// Keep the rings of calls in this folder, not in memory
    #[arg(long, value_name = "DIR")]
    pub(crate) ring_dir: Option<PathBuf>,

    /// Send the recording of calls to this machine, where `recv` takes it, and write nothing here
    #[arg(long, value_name = "HOST", conflicts_with_all = ["of_kernel", "recover", "snapshot", "keep_pid", "nop", "SampleArgs"])]
    pub(crate) host: Option<String>,

    /// With --host: the port there [default: 8090]
    #[arg(long, value_name = "PORT", requires = "host")]
    pub(crate) port: Option<u16>,
}

/// How calls are recorded.
#[derive(Args)]
#[command(next_help_heading = "Calls")]
pub(crate) struct RecordCalls {
    #[command(flatten)]
    pub(crate) rules: RuleArgs,

    /// Leave out calls that take less than this, such as 50us, unless they lead to longer ones
    #[arg(long, short, value_name = "TIME", value_parser = time)]
    pub(crate) time_filter: Option<u64>,

    /// Record arguments of these functions, as in 'copy@arg1/s,arg2/i32,fparg1': FORMAT is d, i, u, x, c, f, s, S or p,
    /// with a size in bits, or t with the bytes of a structure. FUNC alone: those whose types debugging information tells
    #[arg(long, short = 'A', value_name = "FUNC[@argN[/FORMAT],...]")]
    pub(crate) argument: Vec<String>,

    /// Record return values of these functions, as in 'copy@retval/i32', or of FUNC alone as -A does it
    #[arg(long, short = 'R', value_name = "FUNC[@retval[/FORMAT]]")]
    pub(crate) retval: Vec<String>,

    /// Record arguments and return values of all functions whose types debugging information has
    #[arg(long)]
    pub(crate) auto_args: bool,

    /// Record the source lines of functions, out of debugging information
    #[arg(long)]
    pub(crate) srcline: bool,

    /// Record these functions of a program that is not instrumented; `.` is all of them. Those that cannot be patched
    /// are counted; compiled with -fpatchable-function-entry=5, all can.
    /// 'sdt:PROVIDER:NAME', with globs: probes of sys/sdt.h, of any program
    #[arg(long, short = 'P', value_name = "FUNC")]
    pub(crate) patch: Vec<String>,

    /// With -P: do not record these functions, or probes
    #[arg(long, short = 'U', value_name = "FUNC", requires = "patch")]
    pub(crate) unpatch: Vec<String>,

    /// Record calls that libraries make to other libraries as well; by default, only those of the program itself are
    #[arg(long, short = 'l', conflicts_with = "no_libcall")]
    pub(crate) nest_libcall: bool,

    /// Do not record calls to libraries, such as `malloc` and `puts`
    #[arg(long)]
    pub(crate) no_libcall: bool,

    /// Record nothing until a `trace_on` trigger; with globs, switch these events of a program that runs off
    #[arg(long, value_name = "GLOB,..", num_args = 0..=1, require_equals = true)]
    pub(crate) disable: Option<Option<String>>,

    /// `off` is --disable
    #[arg(long, value_name = "STATE", hide = true, value_parser = ["on", "off"])]
    pub(crate) trace: Option<String>,

    /// Leave return addresses of the program as they are, and guess when calls end
    #[arg(long, short)]
    pub(crate) estimate_return: bool,

    /// Leave out calls deeper than this, counted from those that -F names
    #[arg(long, short = 'D', value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) depth: Option<u16>,

    /// Greatest depth of the stack of calls; deeper ones are not recorded. More than 1024 count as that
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_stack: u16,

    #[command(flatten)]
    pub(crate) rings: RingArgs,

    /// Clock of the times
    #[arg(long, value_name = "CLOCK", default_value = "mono")]
    pub(crate) clock: ClockArg,

    /// Give the program the process id that this command has; another process records
    #[arg(long, conflicts_with = "time")]
    pub(crate) keep_pid: bool,

    /// Give the program the same addresses in each run
    #[arg(long)]
    pub(crate) no_randomize_addr: bool,

    /// Take symbols from the `.sym` files of this folder, where it has them
    #[arg(long, value_name = "DIR")]
    pub(crate) with_syms: Option<PathBuf>,

    /// Run the program with the library that records calls, and record nothing: for comparisons of speed
    #[arg(long)]
    pub(crate) nop: bool,

    /// The process to record, which made the folder: what `--keep-pid` starts.
    #[arg(long, hide = true)]
    pub(crate) beside: Option<u32>,
}

fn time(text: &str) -> Result<u64, String> {
    parse_time(text).ok_or_else(|| "expected a time with ns, us, ms, s or m".to_string())
}

/// Clocks of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ClockArg {
    /// `CLOCK_MONOTONIC`.
    Mono,
    /// `CLOCK_MONOTONIC_RAW`: it is not slewed.
    #[value(name = "mono_raw")]
    MonoRaw,
    /// `CLOCK_BOOTTIME`: it goes on while the machine sleeps.
    Boot,
}

/// Options of uftrace that are typed, and have no place of their own.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(has_recorder), allow(dead_code, reason = "only the recorder looks at them"))]
pub(crate) struct Refused {
    /// Sentences about recorders that cannot be had.
    pub(crate) sentences: Vec<String>,
}

/// Options of uftrace that cannot be had: name, letter, whether they have a value, and the reason.
const REFUSED: &[(&str, Option<char>, bool, &str)] = &[
    ("list-event", None, false, "tracefs lists events of the kernel: /sys/kernel/tracing/available_events"),
    ("script", Some('S'), true, "scripts are not run; SQL, Python and `--format json` read what was recorded"),
    (
        "watch",
        Some('W'),
        true,
        "variables are not looked at between calls; -A and -R record values, -E sched the CPU of a task",
    ),
    (
        "agent",
        Some('g'),
        false,
        "the recorder of calls takes no commands; -T FUNC@trace_on and trace_off switch it. --enable and --disable=GLOB are for \
         programs that record events of their own",
    ),
    (
        "signal",
        None,
        true,
        "calls have no triggers by signals; -T FUNC@trace_on and trace_off switch recording, also for a handler",
    ),
    (
        "rt-prio",
        None,
        true,
        "the recorder needs no priority: the program waits for it unless --when-full says otherwise",
    ),
    ("opt-file", None, true, "options are not read from files here"),
];

/// Options of uftrace that have no effect here; those of the first list have a value.
const UNUSED: [&str; 2] = [
    "num-thread color libmcount-path debug-domain demangle logfile",
    "libmcount-single no-pltbind no-event no-sched no-sched-preempt no-pager",
];

impl Refused {
    fn add_to(command: clap::Command) -> clap::Command {
        let refused = REFUSED.iter().map(|&(name, letter, has_value, _)| hidden(name, letter, has_value));
        let lists = UNUSED.into_iter().zip([true, false]);
        let unused = lists.flat_map(|(list, has_value)| list.split(' ').map(move |name| hidden(name, None, has_value)));
        command.args(refused).args(unused)
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let typed = REFUSED.iter().filter(|(name, ..)| is_typed(name));
        let sentences = typed.map(|(name, _, _, reason)| format!("--{name} cannot be had: {reason}")).collect();
        Ok(Refused { sentences })
    }
}

by_hand!(Refused);

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
    /// The ring is followed by one of twice the size, up to --max-buffer; then the program waits.
    Grow,
}
