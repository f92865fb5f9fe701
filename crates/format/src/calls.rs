//! Function calls, as formats offer them to the commands that follow calls.
//!
//! A format whose events are calls hands over records instead of events: small values of one form, in blocks, in the
//! order of each stream. Who follows calls keeps stacks and never decodes a field; names and values of arguments are made
//! for what is shown.

mod color;
mod pattern;

use std::io::{self, Write};

use tracemill_model::error::Error;

pub use color::{Color, ColorStyle};
pub use pattern::PatternKind;

/// The two smallest times of a list with their places, the smaller one first; of equal ones the first. The largest time of
/// 64 bits is none: its place is `usize::MAX`.
#[inline]
pub fn first_two(times: &[u64]) -> [(u64, usize); 2] {
    let none = (u64::MAX, usize::MAX);
    let (mut first, mut second) = (none, none);
    for (at, &time) in times.iter().enumerate() {
        if time < first.0 {
            second = std::mem::replace(&mut first, (time, at));
        } else if time < second.0 {
            second = (time, at);
        }
    }
    [first, second]
}

/// Kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// A function was entered.
    Entry,
    /// A function was left.
    Exit,
    /// Records were lost before the next one of the task: `address` is their number.
    Lost,
    /// Something happened: `address` is the id of the event.
    Event,
}

/// Where a record comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallOrigin {
    /// The task itself.
    Task,
    /// The system, about the task: scheduling, its name.
    System,
    /// The kernel, while it works for the task: its own calls and events. Their depth counts from the task's open calls.
    /// An event says in `symbol` which task has a processor again, by its index and one; 0 is none.
    Kernel,
    /// Other programs; it belongs to the task of the record before it.
    Outside,
}

/// The tasks whose records a stream of calls holds. Bytes say how much there is to read, about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamHolds {
    /// Only calls that a task made itself. A task has one such stream at most.
    Task {
        /// Its index.
        task: usize,
        /// Size of the stream.
        bytes: u64,
    },
    /// News of the system about all tasks: nothing but records of [`CallOrigin::System`].
    System {
        /// Size of the stream.
        bytes: u64,
    },
    /// Anything.
    Mixed,
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRecord {
    /// Its time in cycles of the clock; 0 for lost records, unless they are the kernel's.
    pub time: u64,
    /// Address of the function, or what [`CallKind`] says.
    pub address: u64,
    /// Where its values stand; only the source knows how.
    pub values: u64,
    /// The symbol of the address: an id for [`CallSource::symbol`].
    pub symbol: u32,
    /// Index of its task in [`CallSource::tasks`].
    pub task: u32,
    /// Length of its values, or 0 without values.
    pub values_len: u32,
    /// Depth of the call that the producer states.
    pub depth: u16,
    /// Its CPU, where the recording ties it to one.
    pub cpu: Option<u16>,
    /// Its kind.
    pub kind: CallKind,
    /// Where it comes from.
    pub origin: CallOrigin,
    /// Were values recorded with it?
    pub has_values: bool,
}

impl CallRecord {
    /// A record without values, symbol, depth and CPU.
    #[inline]
    pub fn new(time: u64, task: u32, kind: CallKind, origin: CallOrigin, address: u64) -> Self {
        let (values, values_len, has_values) = (0, 0, false);
        CallRecord { time, address, values, symbol: 0, task, values_len, depth: 0, cpu: None, kind, origin, has_values }
    }

    /// Is it the entry or the exit of a call?
    #[inline]
    pub fn is_call(&self) -> bool {
        matches!(self.kind, CallKind::Entry | CallKind::Exit)
    }

    /// Is it this event?
    #[inline]
    pub fn is_event(&self, id: u64) -> bool {
        self.kind == CallKind::Event && self.address == id
    }

    /// Is it an event by which a task gives its processor away?
    #[inline]
    pub fn is_sched_out(&self) -> bool {
        self.is_event(event_id::SCHED_OUT) || self.is_event(event_id::SCHED_OUT_PREEMPTED)
    }
}

/// A task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallTask {
    /// Its id in the system.
    pub tid: i64,
    /// Id of its process.
    pub pid: i64,
    /// Id of the process that forked it; 0 for others.
    pub parent: i64,
    /// When it began, as far as that is known; 0 otherwise.
    pub start: u64,
    /// Its place in the order in which the tasks were first named.
    pub order: u32,
    /// Name of its program. It may be any bytes, as the next one.
    pub first_name: Vec<u8>,
    /// The name that it got last, as far as that is known without reading records.
    pub name: Vec<u8>,
}

/// Known facts about the recording itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The recorder and its version.
    pub version: Option<String>,
    /// When it was made, as the recorder wrote it.
    pub date: Option<String>,
    /// The command that was typed.
    pub command: Option<String>,
    /// Name of the program.
    pub program: Option<String>,
    /// How long it ran, in ns.
    pub elapsed_ns: Option<u64>,
}

/// A program that ran: a process from its beginning, or from `exec` on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallProgram {
    /// Id of the run.
    pub id: String,
    /// Name of the program.
    pub name: String,
    /// Id of the process.
    pub pid: i64,
    /// When it began.
    pub start: u64,
}

/// A symbol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallSymbol {
    /// Name for people; an address in angle brackets when nothing is known.
    pub name: String,
    /// Name of its module.
    pub module: Option<String>,
    /// Is it an entry of a linkage table, so that the call goes to a library?
    pub is_library_call: bool,
    /// Size in bytes; 0 when unknown.
    pub size: u64,
}

/// Which values of a call are wanted, and how they are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueStyle {
    /// As in source text, with colours where there are some.
    Text(ColorStyle),
    /// To stand inside of a JSON string.
    Json,
}

/// Events that are calls: a format that has such events says how they are read, and they become records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallEvents {
    /// Name of the events that enter a function. A `*` in it stands for the name of the function.
    pub entry: &'static str,
    /// Name of the events that leave it.
    pub exit: &'static str,
    /// The member of the payload with its address, `None` when events have its name instead.
    pub address: Option<&'static str>,
    /// The member of the payload with its name, when neither an address nor the name of the event says it. An exit need not have it.
    pub symbol: Option<&'static str>,
}

impl CallEvents {
    /// Events whose names hold the name of the function.
    pub const fn named(entry: &'static str, exit: &'static str) -> CallEvents {
        CallEvents { entry, exit, address: None, symbol: None }
    }

    /// Events with the address of the function in a member of the payload.
    pub const fn by_address(entry: &'static str, exit: &'static str, address: &'static str) -> CallEvents {
        CallEvents { address: Some(address), ..CallEvents::named(entry, exit) }
    }

    /// Events with the name of the function in a member of the payload.
    pub const fn by_symbol(entry: &'static str, exit: &'static str, symbol: &'static str) -> CallEvents {
        CallEvents { symbol: Some(symbol), ..CallEvents::named(entry, exit) }
    }
}

/// Events that give the place of code in the memory of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModuleEvents {
    /// Their name.
    pub name: &'static str,
    /// Members of the payload with the first address, the size and the path.
    pub fields: [&'static str; 3],
}

/// The calls of a trace.
pub trait CallSource: Send + Sync {
    /// Tasks, in the order in which records of equal time are taken.
    fn tasks(&self) -> &[CallTask];

    /// Are the times of exits guesses of the recorder, half way to the next entry?
    fn is_estimated(&self) -> bool {
        false
    }

    /// Is there a program that shows the same recordings, whose texts are kept wherever they can be?
    fn has_reference(&self) -> bool {
        false
    }

    /// Does a stream hold records of several tasks?
    fn is_mixed(&self) -> bool {
        false
    }

    /// The name that each task got last. Records may be read for it.
    fn last_names(&self) -> Vec<Vec<u8>> {
        self.tasks().iter().map(|task| task.name.clone()).collect()
    }

    /// Known facts about the recording.
    fn recording(&self) -> Recording;

    /// The recorder's account of the run, as its own program shows it.
    fn summary(&self) -> Option<Vec<u8>> {
        None
    }

    /// The programs that ran.
    fn programs(&self) -> &[CallProgram];

    /// The program of a task at a time, by its index, and from when and before when that holds.
    fn program_at(&self, task: usize, time: u64) -> (Option<usize>, (u64, u64));

    /// Calls that may be open at once: a depth that a record can have, and one.
    fn max_depth(&self) -> usize;

    /// Streams of records; at equal times those of the first come first.
    fn stream_count(&self) -> usize;

    /// The tasks whose records a stream holds; this decides whether tasks can be followed one without the others.
    fn holds(&self, _stream: usize) -> StreamHolds {
        StreamHolds::Mixed
    }

    /// The stream of the trace that a stream of records is read from, by its index there; `None` where it is not one alone.
    fn stream_of_trace(&self, _stream: usize) -> Option<usize> {
        None
    }

    /// Reads a stream from its beginning.
    fn open(&self, stream: usize) -> Box<dyn CallStream + '_>;

    /// Reads a stream of which only the records from one time to another are wanted: it may begin and end anywhere
    /// around them. Records without time need not be there before the first wanted one.
    fn open_between(&self, stream: usize, _from: u64, _to: u64) -> Box<dyn CallStream + '_> {
        self.open(stream)
    }

    /// The symbol of an id; an unknown one is named by `address`.
    fn symbol(&self, id: u32, address: u64) -> CallSymbol;

    /// Shows every symbol that a record may have: its id, and what is known of it.
    fn each_symbol(&self, _see: &mut dyn FnMut(u32, &CallSymbol)) {}

    /// The file with the source text of a function, also of one whose line is not shown.
    fn source_file(&self, id: u32) -> Option<String> {
        self.source_line(id).map(|(file, _)| file)
    }

    /// Where the source text of a function begins: its file and line.
    fn source_line(&self, _id: u32) -> Option<(String, u32)> {
        None
    }

    /// A name as records store it, in the form in which it is shown.
    fn shown_name(&self, stored: &str) -> String {
        stored.to_string()
    }

    /// The module that has the function which a library call of this name goes to.
    fn library_of(&self, _name: &str) -> Option<String> {
        None
    }

    /// Appends the values of a record, as a call shows them: `1, "text"`. Texts are the bytes that were recorded, which
    /// need not be UTF-8, but for [`ValueStyle::Json`].
    fn put_values(&self, _record: &CallRecord, _style: ValueStyle, _out: &mut Vec<u8>) {}

    /// The name of an event.
    fn event_name(&self, record: &CallRecord) -> String;

    /// Appends the data of an event: `cpu=1`; nothing without data. Texts are the bytes that were recorded.
    fn put_event_data(&self, _record: &CallRecord, _out: &mut Vec<u8>) {}

    /// Writes the records as they are stored, for those who look for mistakes of a producer. `want` is asked of every
    /// record of a task before it is written, one task after the other. Gives the findings that opening did not have.
    ///
    /// # Errors
    /// Errors of the writer.
    fn dump(
        &self,
        options: DumpOptions<'_>,
        want: &mut dyn FnMut(&CallRecord) -> bool,
        out: &mut dyn Write,
    ) -> io::Result<Findings>;

    /// Options that the recording asks every reader to apply: words as they are typed.
    fn default_options(&self) -> &[String] {
        &[]
    }
}

/// Contents of a dump of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DumpOptions<'a> {
    /// Show bytes too.
    pub hex: bool,
    /// Leave out arguments and return values.
    pub no_values: bool,
    /// Leave out events.
    pub no_events: bool,
    /// Leave out where tasks gave processors away and got them.
    pub no_sched: bool,
    /// Leave out the records of tasks themselves: the kernel and the system are shown.
    pub no_tasks: bool,
    /// First and last time of what is shown.
    pub between: Option<(u64, u64)>,
    /// First and last time of records of system and kernel, in files of all tasks.
    pub between_of_all: Option<(u64, u64)>,
    /// The tasks whose records are read; empty for all.
    pub tids: &'a [i64],
}

/// The records of a stream, block by block.
pub trait CallStream {
    /// Appends the next records; false at the end.
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool;

    /// Gives a stream that was not read yet the judge of its calls: it leaves those out that the judge does not want,
    /// with the events inside of them. A judge is `None` again when the stream took it; the others leave it to their
    /// readers.
    ///
    /// A stream that has a judge reads no further than it must, since what others read meanwhile changes the judgements.
    fn set_judge(&mut self, _judge: &mut Option<Box<dyn CallJudge>>) {}

    /// Findings so far: parts that could not be read, and warnings. Each is given once.
    fn take_findings(&mut self) -> Findings {
        Findings::default()
    }
}

/// Decides which calls of a stream are wanted while they are read.
pub trait CallJudge {
    /// Sees the next record of the stream: what decides about it.
    fn judge(&mut self, record: &CallRecord) -> Judgement;
}

/// Decision about a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Judgement {
    /// A call that takes less, in ns, is left out when it ends.
    pub threshold: u64,
    /// The record is left out, and nothing else with it.
    pub is_dropped: bool,
    /// A call that ends is left out, however long it took.
    pub is_unwanted: bool,
    /// A call that ends is shown, however short it was, with all that it is inside of.
    pub is_shown: bool,
}

/// Errors and warnings of a stream.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Parts that could not be read.
    pub faults: Vec<Error>,
    /// Warnings that are no errors.
    pub warnings: Vec<Error>,
}

impl Findings {
    /// Adds those of another stream.
    pub fn append(&mut self, mut other: Findings) {
        self.faults.append(&mut other.faults);
        self.warnings.append(&mut other.warnings);
    }
}

/// Ids of events that those who follow calls know.
pub mod event_id {
    /// A task got a processor.
    pub const SCHED_IN: u64 = 200_001;
    /// A task gave its processor away.
    pub const SCHED_OUT: u64 = 200_002;
    /// Both, with nothing between them.
    pub const SCHED_BOTH: u64 = 200_003;
    /// A task got a name.
    pub const TASK_NAME: u64 = 200_006;
    /// A task was made to give its processor away.
    pub const SCHED_OUT_PREEMPTED: u64 = 200_007;
    /// A task was made to give its processor away, and got one again.
    pub const SCHED_BOTH_PREEMPTED: u64 = 200_008;
    /// Ids from here on are those of users.
    pub const FIRST_USER: u64 = 1_000_000;
    /// A message from outside.
    pub const EXTERNAL: u64 = 2_000_000;
}
