//! The names by which traces say what events mean, each with its place in the order of preference.
//!
//! A leading `_` of a field's name does not count.

use tracemill_model::schema::CallHalf;

/// Number of the thread that an event is of.
///
/// | name | said by | why here |
/// |---|---|---|
/// | `tid` | LTTng's kernel tracer, uftrace | unique on a machine, and the number that switches of threads name: events of programs and of the kernel meet on one thread |
/// | `vtid` | LTTng-UST | the number within the thread's namespace, which is `tid` outside of containers; where both are there, only `tid` fits the events of the kernel |
/// | `common_pid` | ftrace, in headers | the kernel's word for the number of a thread |
/// | `pthread_id` | LTTng-UST | a pointer: it tells threads of one process apart, and nothing else has it |
///
/// `pid` and `vpid` are not among them: alone they name a process, and its events may be of any of its threads. Such an
/// event has no known thread. (The `pid` of old kernel tracers, which is a thread, stands in payloads and speaks of
/// others: see [`Concepts`](crate::Concepts).)
pub const THREAD: &[&str] = &["tid", "vtid", "common_pid", "pthread_id"];

/// Process of the thread: the machine's number before that of a namespace, for the same reason as for [`THREAD`]; `tgid`
/// is the kernel's word, `process` that of tracers without a kernel.
pub const PROCESS: &[&str] = &["pid", "vpid", "tgid", "process"];

/// Name of the thread: LTTng's context, the kernel's word with and without ftrace's prefix; the process has a name too
/// where the thread has none.
pub const THREAD_NAME: &[&str] = &["procname", "comm", "common_comm", "process_name"];

/// Number and name of a track that a log numbers itself; a number without the name beside it is a field as any other.
pub const TRACK: (&str, &str) = ("track", "track_name");

/// Fields that say what an event of a log is about: the argument of a call, otherwise its track.
pub const ABOUT: &[&str] = &["datum", TRACK.0];

/// CPU of a packet.
pub const CPU: &str = "cpu_id";

/// Fields of the payload of kernel events that say which thread, which name and which CPU the event is about: those of ftrace,
/// of LTTng, and of legacy LTTng.
pub const ABOUT_TASK: &[&str] = &["pid", "tid"];
/// See [`ABOUT_TASK`].
pub const ABOUT_NAME: &[&str] = &["comm"];
/// See [`ABOUT_TASK`].
pub const ABOUT_CPU: &[&str] = &["target_cpu", "cpu", CPU];

/// The first members of ftrace's event headers: the thread, the state of the CPU, and the number of the event class.
pub const FTRACE_HEADER: [&str; 3] = ["common_pid", "common_flags", "common_type"];

/// Bits of `common_flags`: the CPU was in a hard interrupt, or in one that cannot be masked (`include/linux/trace_events.h`).
pub const IN_HARD_INTERRUPT: i64 = 0x08 | 0x40;
/// See [`IN_HARD_INTERRUPT`]: in a soft one.
pub const IN_SOFT_INTERRUPT: i64 = 0x10;

/// Beginnings of the names of the kernel's functions by which interrupts enter it, on x86 and 64-bit Arm: the frames that call them
/// are those of the code that was interrupted.
pub const INTERRUPT_ENTRIES: &[&str] = &[
    "asm_sysvec_",
    "asm_common_interrupt",
    "asm_exc_nmi",
    "apic_timer_interrupt",
    "common_interrupt",
    "ret_from_intr",
    "el0t_64_irq",
    "el1h_64_irq",
    "el0_irq",
    "el1_irq",
];

/// The member that holds what an event header held in the format that a trace had before it was converted to CTF 2.
pub const STORED: &str = "stored";

/// The members of a structure that holds an array and, before it, its length: conversions to CTF 1.8, which has no other form for an
/// array whose length no field says, write it.
pub const LENGTH: &str = "length";
/// See [`LENGTH`].
pub const ELEMENTS: &str = "elements";

/// Last words of names of event classes that enter a function, and those that leave one. The last pair is so common that
/// only an address makes it a call.
pub const CALLS: &[(&str, &str)] =
    &[("func_entry", "func_exit"), ("funcgraph_entry", "funcgraph_exit"), ("entry", "exit")];

/// Address of the function of a call.
pub const ADDRESS: &[&str] = &["addr", "func", "ip"];

/// Name of the function of a call.
pub const SYMBOL: &str = "symbol";

/// Addresses of the stack of a thread in the kernel and in its program: fields of perf, and contexts of LTTng.
pub const KERNEL_STACK: &[&str] = &["callchain_kernel", "callstack_kernel"];
/// See [`KERNEL_STACK`].
pub const USER_STACK: &[&str] = &["callchain_user", "callstack_user"];

/// Beginning of the names of perf's records that are not samples.
pub const PERF_RECORD: &str = "PERF_RECORD_";

/// Records by which perf says that a process maps code, that the kernel gets a function, that a process becomes another program,
/// and that one makes another.
pub const MAPS_CODE: &[&str] = &["PERF_RECORD_MMAP", "PERF_RECORD_MMAP2"];
/// See [`MAPS_CODE`].
pub const NEW_FUNCTION: &str = "PERF_RECORD_KSYMBOL";
/// See [`MAPS_CODE`].
pub const NEW_NAME: &str = "PERF_RECORD_COMM";
/// See [`MAPS_CODE`].
pub const NEW_PROCESS: &str = "PERF_RECORD_FORK";

/// Frames of a stack as texts.
pub const FRAMES: &[&str] = &["callchain"];

/// Registers of the program when a sample was taken, the kind of machine code that they are of, and a copy of its stack from the
/// stack pointer on.
pub const USER_REGISTERS: &str = "user_regs";
/// See [`USER_REGISTERS`].
pub const USER_ABI: &str = "user_abi";
/// See [`USER_REGISTERS`].
pub const USER_STACK_COPY: &str = "user_stack";

/// Address of the code that ran when a sample was taken, and the place of that in its file.
pub const CODE_ADDRESS: &str = "ip";
/// See [`CODE_ADDRESS`].
pub const CODE_PLACE: &str = "bin";
/// File of the code at [`CODE_ADDRESS`].
pub const CODE_FILE: &str = "dso";

/// The number of events for which a sample stands.
pub const PERIOD: &str = "period";

/// Sampled events that count the time of a clock in ns.
pub const CLOCK_EVENTS: &[&str] = &["cpu-clock", "task-clock", WALL_CLOCK];

/// The event of samples that stand for time, where nothing says which clock counted it.
pub const WALL_CLOCK: &str = "wall-clock";

/// Records by which a thread says that it leaves a CPU or gets one, and their flags for leaving, and for leaving although it could
/// have run on.
pub const OWN_SWITCHES: &[&str] = &["PERF_RECORD_SWITCH", "PERF_RECORD_SWITCH_CPU_WIDE"];
/// See [`OWN_SWITCHES`].
pub const OWN_SWITCH_FLAGS: [&str; 2] = ["out", "preempt"];

/// Samples that are taken when their thread leaves a CPU: perf's name of the event, without modifiers.
pub const LEAVING_SAMPLE: &str = "context-switches";

/// CPU of a sample that has it as a field.
pub const SAMPLE_CPU: &str = "cpu";

/// Fields that describe a sample and nothing else: of perf's records, and of the lines of perf's script.
pub const OF_SAMPLES: &[&str] = &[
    "addr",
    "bin",
    "branch_counters",
    "branch_flags",
    "branch_from",
    "branch_hw_index",
    "branch_to",
    "callchain",
    "callchain_kernel",
    "callchain_user",
    "cgroup",
    "code_page_size",
    "comm",
    "cpu",
    "data_page_size",
    "data_src",
    "dso",
    "id",
    "intr_abi",
    "intr_regs",
    "ip",
    "period",
    "phys_addr",
    "pid",
    "stream_id",
    "symbol",
    "tid",
    "time_enabled",
    "time_running",
    "transaction",
    "user_abi",
    "user_regs",
    "user_stack",
    "value_ids",
    "value_lost",
    "values",
    "weight",
    "weight2",
    "weight3",
];

/// Depth of a call among the calls of its thread.
pub const DEPTH: &str = "depth";

/// The maker of a call other than the thread's program: only calls of the kernel have it. Their depth counts from where the
/// kernel was entered.
pub const SOURCE: &str = "source";

/// Name of the class of events of tasks that are no calls, and of the field of its payload that names the event.
pub const EVENT: &str = "event";

/// Words in names of event classes that begin something, and those that end it.
pub const PAIRS: &[(&str, &str)] = &[("entry", "exit"), ("enter", "exit"), ("begin", "end")];

/// The name of a call by that of the class of its beginnings or ends: these are called `NAME_entry` and `NAME_exit`.
pub fn call_name(class: &str, half: CallHalf) -> &str {
    let (entry, exit) = PAIRS[0];
    let word = if half == CallHalf::Entry { entry } else { exit };
    class.strip_suffix(word).and_then(|name| name.strip_suffix('_')).unwrap_or(class)
}

/// Prefix of classes of system calls in old kernel traces, and the one class that ends them all.
pub const SYSTEM_CALLS: (&str, &str) = ("sys_", "exit_syscall");

/// Beginnings of names of what interrupts threads: it belongs to the CPU, whatever thread runs there.
pub const CPU_BOUND: &[&str] = &["irq", "softirq", "tasklet", "hrtimer_expire", "timer_expire", "ipi", "sched_switch"];

/// Last words of names of event classes whose numbers are counted.
pub const COUNTED: &[&str] = &["counter", "counters", "gauge", "metric", "metrics"];

/// Event classes of well-known numbers of CPUs: their field `state`, of the CPU that the payload names.
pub const CPU_COUNTERS: &[&str] = &["cpu_frequency", "cpu_idle", "power_cpu_frequency", "power_cpu_idle"];

/// Prefixes of contexts that are counters: of the thread, of the CPU.
pub const PERF_COUNTERS: (&str, &str) = ("perf_", "perf_cpu_");

/// Units of well-known numbers of CPUs, by event class; others of them have none.
pub const CPU_UNITS: &[(&str, &str)] = &[("cpu_frequency", "kHz"), ("power_cpu_frequency", "kHz")];

/// Ends of names of fields that say the unit of their numbers.
pub const UNITS: &[(&str, &str)] = &[
    ("_bytes", "B"),
    ("_kb", "kB"),
    ("_ns", "ns"),
    ("_us", "\u{b5}s"),
    ("_ms", "ms"),
    ("_hz", "Hz"),
    ("_khz", "kHz"),
    ("_mhz", "MHz"),
    ("_percent", "%"),
];

/// The unit that the name of a field says.
///
/// ```
/// use tracemill_semantics::names;
///
/// assert_eq!((names::unit("sent_bytes"), names::unit("bytes")), (Some("B"), None));
/// ```
pub fn unit(field: &str) -> Option<&'static str> {
    let field = field.to_ascii_lowercase();
    UNITS.iter().find(|(end, _)| field.ends_with(end)).map(|(_, unit)| *unit)
}

/// Fields that are counted under the name of their event class alone.
pub const COUNTED_FIELDS: &[&str] = &["value", "val", "state", "count"];

/// Event classes whose texts may be marks of programs ([`Mark`](crate::Mark)), and the field with the text: what is written to
/// the kernel's `trace_marker`, and texts of `trace_printk`.
pub const MARKS: &[(&str, &str)] = &[
    ("print", "buf"),
    ("print", "msg"),
    ("tracing_mark_write", "buf"),
    ("tracing_mark_write", "msg"),
    ("bprint", "text"),
    ("bputs", "text"),
];

/// Last word of names of event classes that close a span with a number, whose other events are those of a call.
pub const CLOSE: &str = "close";

/// Number of a span.
pub const SPAN: &str = "span_id";

/// Number of the span that a span is in, 0 for none.
pub const PARENT_SPAN: &str = "parent_span_id";

/// Fields whose equal values link events.
pub const FLOWS: &[&str] = &["flow_id", "correlation_id", "request_id", "transaction_id", "message_id", SPAN];

/// Is it the name of a field that says which thread or process an event is of?
///
/// ```
/// use tracemill_semantics::names;
///
/// assert!(names::is_of_who("vtid") && names::is_of_who("procname"));
/// assert!(!names::is_of_who("fd"));
/// ```
pub fn is_of_who(name: &str) -> bool {
    [THREAD, PROCESS, THREAD_NAME].iter().any(|names| names.iter().any(|known| is_name(name, known)))
}

/// Is a field's name this one?
pub(crate) fn is_name(name: &str, known: &str) -> bool {
    name.strip_prefix('_').unwrap_or(name) == known
}

/// The part of the name of an event class after its provider: `lttng_ust_x:NAME`, `facility.NAME`.
pub fn short(name: &str) -> &str {
    name.rsplit([':', '.']).next().unwrap_or(name)
}
