//! Concepts: events of kernels, whatever a tracer calls them. The table is `concepts.txt`; users may put lines before it.

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::text::pattern::Pattern;
use tracemill_codec::text::{Span, suggest};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{EnvValue, EventClassId, FieldPath, Schema, Scope};

use crate::built_in;
use crate::fields::member;
use crate::recording::Recording;

crate::named! {
    /// Meaning of an event for a machine.
    pub Concept {
        /// A CPU turns from one thread to another.
        Switch = "switch",
        /// A thread becomes runnable.
        Wake = "wake",
        /// A thread is queued on another CPU.
        Migrate = "migrate",
        /// A thread makes another one.
        Fork = "fork",
        /// A thread becomes another program.
        Exec = "exec",
        /// A thread ends.
        Exit = "exit",
        /// The kernel forgets a thread.
        Free = "free",
        /// A parent waits for a child.
        Reap = "reap",
        /// The priority of a thread changes.
        Prio = "prio",
        /// The handler of an interrupt begins.
        IrqEntry = "irq_entry",
        /// The handler of an interrupt ends.
        IrqExit = "irq_exit",
        /// A soft interrupt is asked for.
        SoftRaise = "soft_raise",
        /// A soft interrupt begins.
        SoftEntry = "soft_entry",
        /// A soft interrupt ends.
        SoftExit = "soft_exit",
        /// A timer of the kernel is set.
        TimerStart = "timer_start",
        /// The function of a timer begins.
        TimerEntry = "timer_entry",
        /// The function of a timer ends.
        TimerExit = "timer_exit",
        /// A timer of a process has expired.
        TimerExpired = "timer_expired",
        /// A timer of a process is set.
        TimerSet = "timer_set",
        /// A function is queued for a worker of the kernel.
        WorkQueue = "work_queue",
        /// A worker begins a function.
        WorkStart = "work_start",
        /// A worker ends a function.
        WorkEnd = "work_end",
        /// An interrupt between CPUs begins.
        IpiEntry = "ipi_entry",
        /// An interrupt between CPUs ends.
        IpiExit = "ipi_exit",
        /// A system call begins.
        SysEntry = "sys_entry",
        /// A system call ends.
        SysExit = "sys_exit",
        /// A trap begins.
        TrapEntry = "trap_entry",
        /// A trap ends.
        TrapExit = "trap_exit",
        /// A page fault, reported as one instant.
        Fault = "fault",
        /// A state dump lists a thread.
        DumpTask = "dump_task",
        /// A state dump lists an open file.
        DumpFile = "dump_file",
        /// A state dump lists a disk.
        DumpDisk = "dump_disk",
        /// A state dump lists an interrupt.
        DumpIrq = "dump_irq",
        /// A state dump lists a network device.
        DumpNet = "dump_net",
        /// A state dump ends.
        DumpEnd = "dump_end",
        /// A request is queued for a disk.
        RqInsert = "rq_insert",
        /// A request is handed to the driver of a disk.
        RqIssue = "rq_issue",
        /// A disk has done a request.
        RqComplete = "rq_complete",
        /// A thread begins to wait for a lock of the kernel.
        ContendBegin = "contend_begin",
        /// A thread has got a lock of the kernel, or gives up.
        ContendEnd = "contend_end",
        /// A thread tries to get a lock of the kernel, as its lock validator (lockdep) sees it, or has just got it by trying.
        LockAcquire = "lock_acquire",
        /// It has to wait for that lock.
        LockContended = "lock_contended",
        /// It has got that lock.
        LockAcquired = "lock_acquired",
        /// A thread releases a lock of the kernel, or gives up to wait for it.
        LockRelease = "lock_release",
        /// Pages are allocated.
        PageAlloc = "page_alloc",
        /// Pages are freed.
        PageFree = "page_free",
        /// An object of the kernel is allocated.
        SlabAlloc = "slab_alloc",
        /// An object of the kernel is freed.
        SlabFree = "slab_free",
        /// A program allocates a block of memory.
        HeapAlloc = "heap_alloc",
        /// A program changes the size of a block, which may move.
        HeapRealloc = "heap_realloc",
        /// A program frees a block.
        HeapFree = "heap_free",
        /// A ROS 2 program makes a node.
        Ros2Node = "ros2_node",
        /// It makes a publisher.
        Ros2Publisher = "ros2_publisher",
        /// Its middleware makes what writes messages of a topic.
        Ros2Writer = "ros2_writer",
        /// It makes a subscription.
        Ros2Subscription = "ros2_subscription",
        /// It makes a service.
        Ros2Service = "ros2_service",
        /// It makes a timer.
        Ros2Timer = "ros2_timer",
        /// It ties a timer to a node.
        Ros2TimerNode = "ros2_timer_node",
        /// It says that an object, such as a callback, is a part of another one.
        Ros2Part = "ros2_part",
        /// It says which function a callback is.
        Ros2Symbol = "ros2_symbol",
        /// A callback begins.
        Ros2Start = "ros2_start",
        /// A callback ends.
        Ros2End = "ros2_end",
        /// A message is published.
        Ros2Publish = "ros2_publish",
        /// The middleware gives a published message its time stamp.
        Ros2Sent = "ros2_sent",
        /// The middleware hands over a message.
        Ros2Take = "ros2_take",
        /// A message is put into a buffer inside of the process.
        Ros2Enqueue = "ros2_enqueue",
        /// A message is taken out of such a buffer.
        Ros2Dequeue = "ros2_dequeue",
        /// A packet comes in.
        NetIn = "net_in",
        /// A packet goes out.
        NetOut = "net_out",
        /// A segment of a connection is handed to the network.
        SegmentOut = "segment_out",
        /// A segment of a connection has arrived.
        SegmentIn = "segment_in",
        /// A signal is sent.
        SignalSend = "signal_send",
        /// A signal is delivered.
        SignalTake = "signal_take",
        /// An idle CPU enters or leaves a C-state.
        Idle = "idle",
        /// The frequency of a CPU changes.
        Frequency = "frequency",
        /// The machine is suspended, or goes on.
        Suspend = "suspend",
        /// A thread that runs a CPU of a virtual machine enters it.
        VmEntry = "vm_entry",
        /// The CPU of a virtual machine is left for the host.
        VmExit = "vm_exit",
        /// A thread moves to a control group.
        CgroupAttach = "cgroup_attach",
        /// A state dump, or a context, says in which namespaces a thread is.
        Namespace = "namespace",
        /// A function of a program is entered.
        CallEntry = "call_entry",
        /// A function of a program is entered, and its arguments are recorded.
        CallValues = "call_values",
        /// A function of a program is left.
        CallExit = "call_exit",
        /// A program loads a library.
        Load = "load",
        /// A program unloads a library.
        Unload = "unload",
        /// A context names the thread that runs.
        Running = "running",
    }
}

crate::named! {
    /// A field of a concept.
    pub Field {
        /// The thread that the CPU leaves.
        Prev = "prev",
        /// The thread that the CPU turns to.
        Next = "next",
        /// State of the thread that the CPU leaves, in the kernel's numbers; of an idle CPU, its C-state.
        State = "state",
        /// Priority.
        Prio = "prio",
        /// Name of the thread that the CPU leaves.
        PrevComm = "prev_comm",
        /// Name of the thread that the CPU turns to.
        NextComm = "next_comm",
        /// The thread that the event is about.
        Tid = "tid",
        /// Its process.
        Pid = "pid",
        /// The parent of its process; of a fork, the parent's process.
        Ppid = "ppid",
        /// Its name.
        Comm = "comm",
        /// A CPU.
        Cpu = "cpu",
        /// The CPU on which the thread was before, or went to sleep.
        From = "from",
        /// The thread that makes another one.
        Parent = "parent",
        /// The thread that is made.
        Child = "child",
        /// A name: of a program, an interrupt, a system call, a file, a device.
        Name = "name",
        /// A number: of an interrupt, a trap, a system call.
        Nr = "nr",
        /// A result.
        Ret = "ret",
        /// File descriptor of a system call.
        Fd = "fd",
        /// Address of the table of files of a process.
        Table = "table",
        /// Second file descriptor: that which is written to.
        Out = "out",
        /// File descriptor that a call asks for.
        New = "new",
        /// Path of a file.
        Path = "path",
        /// Address of a lock.
        Uaddr = "uaddr",
        /// Operation on a lock or a file descriptor; of a lock of the kernel, its kind, or how it is taken.
        Op = "op",
        /// Address of a peer, as bytes.
        Address = "address",
        /// Port of a peer.
        Port = "port",
        /// Kind of a thread: 1 is one of the kernel.
        Type = "type",
        /// Mode of a thread.
        Mode = "mode",
        /// Status of a thread.
        Status = "status",
        /// Number of a thread in its namespace.
        Vtid = "vtid",
        /// Number of a process in its namespace.
        Vpid = "vpid",
        /// Number of a disk, or name of a network device.
        Dev = "dev",
        /// First sector of a request.
        Sector = "sector",
        /// Sectors of a request.
        NrSector = "nr_sector",
        /// Kind of a request.
        Rwbs = "rwbs",
        /// Two to this power pages.
        Order = "order",
        /// A page.
        Page = "page",
        /// A pointer: to an object, a timer, a work.
        Ptr = "ptr",
        /// A function of the kernel.
        Function = "function",
        /// When a timer expires.
        Expires = "expires",
        /// The time by the clock of a timer.
        Now = "now",
        /// Bytes that an object takes.
        Bytes = "bytes",
        /// Number of elements, each of which takes that many bytes.
        Count = "count",
        /// The pointer to the object that another one belongs to.
        Owner = "owner",
        /// The handle that the middleware of ROS 2 has for a publisher or a subscription.
        Rmw = "rmw",
        /// Time stamp of a message, which all who take it see.
        Stamp = "stamp",
        /// Period of a timer in ns.
        Period = "period",
        /// Did the message stay inside of the process?
        Intra = "intra",
        /// The pointer to a block before its size changed.
        Old = "old",
        /// Place of a call: in the kernel, or in a program.
        Site = "site",
        /// A packet of the network.
        Skb = "skb",
        /// Length in bytes.
        Len = "len",
        /// Number of the first byte of a segment.
        Seq = "seq",
        /// Number of the next byte that the sender of a segment expects.
        AckSeq = "ack_seq",
        /// Flags of a segment.
        Flags = "flags",
        /// Number of a signal.
        Sig = "sig",
        /// Frequency.
        Khz = "khz",
        /// Address of a function.
        Addr = "addr",
        /// Number of calls that a call stands in.
        Depth = "depth",
        /// Arguments of a call.
        Args = "args",
        /// Address where a library begins.
        Baddr = "baddr",
        /// Which of several.
        Which = "which",
        /// The part of suspending a machine that begins or ends.
        Action = "action",
        /// Does it begin?
        Start = "start",
        /// Number of the CPU of a virtual machine.
        Vcpu = "vcpu",
        /// Why something was left: a number of the hardware, or a name.
        Reason = "reason",
        /// Number of a namespace of control groups.
        CgroupNs = "cgroup_ns",
        /// Number of a namespace of processes.
        PidNs = "pid_ns",
        /// The kind of virtualisation whose numbers these are: 1 is VMX, 2 is SVM.
        Isa = "isa",
    }
}

/// Lines that tie events to concepts, the first ones before the others.
#[derive(Clone, Debug, Default)]
pub struct Concepts {
    lines: Vec<ConceptLine>,
    /// Do the lines that are built in stand after them?
    has_built_in: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ConceptLine {
    concept: Concept,
    events: Vec<Name>,
    fields: Vec<RequestedField>,
    is_legacy: bool,
}

/// A name of events, with globs.
#[derive(Clone, Debug)]
struct Name {
    text: String,
    glob: Option<Pattern>,
}

#[derive(Clone, Debug)]
struct RequestedField {
    field: Field,
    is_optional: bool,
    from: From,
}

#[derive(Clone, Debug)]
enum From {
    /// The first path that exists.
    Paths(Vec<NamedPath>),
    /// The text that a glob stands for.
    Glob,
    /// A text.
    Text(Arc<str>),
}

/// A path as it is written: where, and the member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedPath {
    /// Where it is looked for; nowhere in the event, if it is a key of the environment.
    pub scopes: &'static [Scope],
    /// The name of the member, or the key.
    pub name: String,
}

/// A line's statement about an event class; `P` is the place of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tie<P = FieldPath> {
    /// The concept.
    pub concept: Concept,
    /// The fields of the concept that the class has.
    pub fields: Vec<(Field, Origin<P>)>,
    /// Do the rules of the kernels apply that LTTng 0.x and the markers of 2.x record?
    pub is_legacy: bool,
}

/// Where the value of a field comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin<P = FieldPath> {
    /// From a field of the event.
    Field(P),
    /// From the name of the event, from the table, or from the environment of the trace.
    Text(Arc<str>),
}

impl<P> Tie<P> {
    /// Origin of a field.
    pub fn origin(&self, field: Field) -> Option<&Origin<P>> {
        self.fields.iter().find(|(own, _)| *own == field).map(|(_, origin)| origin)
    }

    /// Place in the event of a field.
    pub fn field(&self, field: Field) -> Option<&P> {
        match self.origin(field)? {
            Origin::Field(place) => Some(place),
            Origin::Text(_) => None,
        }
    }
}

/// The table that is built in, as text.
pub const TEXT: &str = include_str!("concepts.txt");

const PAYLOAD: &[Scope] = &[Scope::Payload];
const CONTEXTS: &[Scope] = &[Scope::CommonContext, Scope::SpecificContext, Scope::PacketContext];
const HEADER: &[Scope] = &[Scope::EventHeader];
const ENVIRONMENT: &[Scope] = &[];

impl Concepts {
    /// The table that is built in.
    pub fn built_in() -> &'static Concepts {
        static TABLE: Concepts = Concepts { lines: Vec::new(), has_built_in: true };
        &TABLE
    }

    /// Reads lines in the form of [`TEXT`].
    ///
    /// ```
    /// use tracemill_semantics::{Concept, Concepts};
    ///
    /// assert!(Concepts::parse("wake my_wakeup tid=who").is_ok());
    /// let error = Concepts::parse("# mine\nwoke my_wakeup tid=who").unwrap_err();
    /// assert_eq!(error.message(), "`woke` is not a concept");
    /// ```
    ///
    /// # Errors
    /// When a line is not in that form, with its place in the text.
    pub fn parse(text: &str) -> Result<Concepts> {
        let mut lines = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let content = &line[..line.find('#').unwrap_or(line.len())];
            lines.extend(read_line(text, content, start)?);
            start += line.len();
        }
        Ok(Concepts { lines, has_built_in: false })
    }

    /// Reads the lines of a file, and puts those that are built in after them.
    ///
    /// # Errors
    /// As [`Concepts::parse`], with the name of the file.
    pub fn with_built_in(file: &Path, text: &str) -> Result<Concepts> {
        let own = Concepts::parse(text).map_err(|error| error.in_file(file))?;
        Ok(Concepts { has_built_in: true, ..own })
    }

    /// The concept of an event of this name, when `place` finds the fields that it needs. A concept that contexts have beside
    /// another one is no answer.
    pub fn find<P>(&self, event: &str, place: impl Fn(&NamedPath) -> Option<P>) -> Option<Tie<P>> {
        self.first(&[event], false, place, |_| None)
    }

    /// The concept of an event class. Reads the table: ask once for a class.
    pub fn tie(&self, schema: &Schema, class: EventClassId) -> Option<Tie> {
        self.find_in_class(schema, class, false)
    }

    /// The context of an event class that names the thread that runs.
    pub fn running(&self, schema: &Schema, class: EventClassId) -> Option<Tie> {
        self.find_in_class(schema, class, true)
    }

    fn find_in_class(&self, schema: &Schema, class: EventClassId, is_running: bool) -> Option<Tie> {
        let name = schema.event(class).name.as_deref().unwrap_or_default();
        // Programs name their events themselves: what stands before the colon is a part of the name.
        let is_of_kernel = Recording::from_schema(schema).domain != Some("ust");
        let short = name.rsplit(':').next().filter(|_| is_of_kernel).unwrap_or(name);
        let names: &[&str] = if short == name { &[name] } else { &[name, short] };
        let place = |named: &NamedPath| {
            let find = |scope: &Scope| member(schema, *scope, schema.scope_root(*scope, class), &named.name);
            named.scopes.iter().find_map(find)
        };
        self.first(names, is_running, place, |key| match schema.env(key)? {
            EnvValue::Integer(value) => Some(value.to_string().into()),
            EnvValue::String(text) => Some((&**text).into()),
        })
    }

    fn first<P>(
        &self,
        names: &[&str],
        is_running: bool,
        place: impl Fn(&NamedPath) -> Option<P>,
        env: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Option<Tie<P>> {
        let own = self.lines.iter().find_map(|line| line.tie(names, is_running, &place, &env));
        own.or_else(|| {
            let mut built_in = self.has_built_in.then(|| built_in::find_lines(names, is_running))?;
            built_in.find_map(|line| line.tie(names, is_running, &place, &env))
        })
    }

    /// Events of the table that a concept is tied to, as they are written, and without those of legacy tracers.
    pub fn events(&self, concept: Concept) -> impl Iterator<Item = &str> {
        let built_in = self.has_built_in.then(built_in::lines).into_iter().flatten().map(|line: &ConceptLine| line);
        let lines = self.lines.iter().chain(built_in).filter(move |line| line.concept == concept && !line.is_legacy);
        lines.flat_map(|line| line.events.iter().map(|name| &*name.text))
    }
}

impl ConceptLine {
    /// Its meaning for events of these names, of which the first one that fits counts.
    fn tie<P>(
        &self,
        names: &[&str],
        is_running: bool,
        place: impl Fn(&NamedPath) -> Option<P>,
        env: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Option<Tie<P>> {
        if (self.concept == Concept::Running) != is_running {
            return None;
        }
        let fitting = |own| Some((own, *names.iter().find(|name| Name::fits(own, name))?));
        let (own, name) = self.events.iter().find_map(fitting)?;
        let mut fields = Vec::new();
        for wanted in &self.fields {
            let origin = match &wanted.from {
                From::Paths(paths) => paths.iter().find_map(|path| match path.scopes {
                    ENVIRONMENT => env(&path.name).map(Origin::Text),
                    _ => place(path).map(Origin::Field),
                }),
                From::Glob => Some(Origin::Text(own.stands_for(name).into())),
                From::Text(text) => Some(Origin::Text(text.clone())),
            };
            match origin {
                Some(origin) => fields.push((wanted.field, origin)),
                None if wanted.is_optional => {}
                None => return None,
            }
        }
        Some(Tie { concept: self.concept, fields, is_legacy: self.is_legacy })
    }
}

impl Name {
    fn fits(&self, name: &str) -> bool {
        self.text == "*" || self.glob.as_ref().map_or(self.text == name, |glob| glob.matches(name.as_bytes()))
    }

    /// The text that the first `*` stands for, with what stands for all globs after it.
    fn stands_for<'n>(&self, name: &'n str) -> &'n str {
        let (Some(first), Some(last)) = (self.text.find('*'), self.text.rfind('*')) else { return name };
        name.get(first..name.len().saturating_sub(self.text.len() - last - 1)).unwrap_or(name)
    }
}

/// Reads the content of a line that begins at `start`; `None` when it says nothing.
pub(crate) fn read_line(text: &str, content: &str, start: usize) -> Result<Option<ConceptLine>> {
    let mut words = words(content, start);
    words.next().map(|(span, word)| line_of(text, span, word, &mut words)).transpose()
}

/// The words of a line that begins at `start`, with their places.
fn words(line: &str, start: usize) -> impl Iterator<Item = (Span, &str)> {
    line.split_ascii_whitespace().map(move |word| {
        let at = start + (word.as_ptr() as usize - line.as_ptr() as usize);
        (Span::new(at, at + word.len()), word)
    })
}

fn line_of<'t>(
    source: &str,
    span: Span,
    word: &str,
    words: &mut impl Iterator<Item = (Span, &'t str)>,
) -> Result<ConceptLine> {
    let wrong = |span: Span, message: String| {
        let help = "`tracemill analyze --concepts` prints the lines that are built in";
        Error::misuse(message).at_text(span.place(source)).with_help(help)
    };
    let Some(concept) = Concept::from_name(word) else {
        let known = Concept::ALL.iter().map(|known| known.name());
        return Err(suggest(wrong(span, format!("`{word}` is not a concept")), word, known));
    };
    let Some((_, events)) = words.next() else {
        return Err(wrong(span, format!("the concept `{word}` has no event")));
    };
    let mut line = ConceptLine { concept, events: Vec::new(), fields: Vec::new(), is_legacy: false };
    for text in events.split('|').filter(|text| !text.is_empty()) {
        let glob = text.bytes().any(built_in::is_glob).then(|| Pattern::glob(text));
        line.events.push(Name { text: text.to_string(), glob });
    }
    for (span, word) in words {
        if word == "!legacy" {
            line.is_legacy = true;
            continue;
        }
        let (name, paths) = word.split_once('=').map_or((word, None), |(name, paths)| (name, Some(paths)));
        let (name, is_optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        let Some(field) = Field::from_name(name) else {
            let known = Field::ALL.iter().map(|known| known.name());
            return Err(suggest(wrong(span, format!("`{name}` is not a field of a concept")), name, known));
        };
        let from = match paths {
            None => From::Paths(vec![path(name)]),
            Some("*") => From::Glob,
            Some(text) if text.starts_with('=') => From::Text(text[1..].into()),
            Some("") => return Err(wrong(span, format!("`{name}` has no path"))),
            Some(paths) => From::Paths(paths.split('|').filter(|path| !path.is_empty()).map(path).collect()),
        };
        if line.fields.iter().any(|known| known.field == field) {
            return Err(wrong(span, format!("`{name}` stands twice in the line")));
        }
        line.fields.push(RequestedField { field, is_optional, from });
    }
    Ok(line)
}

fn path(text: &str) -> NamedPath {
    let known = [("payload.", PAYLOAD), ("$ctx.", CONTEXTS), ("header.", HEADER), ("$env.", ENVIRONMENT)];
    let found = known.into_iter().find_map(|(start, scopes)| Some((scopes, text.strip_prefix(start)?)));
    let (scopes, name) = found.unwrap_or((PAYLOAD, text));
    NamedPath { scopes, name: name.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concept_of(concepts: &Concepts, event: &str, fields: &[&str]) -> Option<Tie<String>> {
        concepts.find(event, |named| fields.contains(&&*named.name).then(|| named.name.clone()))
    }

    #[test]
    fn the_built_in_table_is_sound() {
        let concepts = Concepts::parse(TEXT).expect("it can be read");
        assert!(concepts.lines.len() > 80);
        for concept in Concept::ALL {
            assert!(concepts.lines.iter().any(|line| line.concept == *concept), "{concept:?} has no line");
        }
        for field in Field::ALL {
            let has = |line: &ConceptLine| line.fields.iter().any(|wanted| wanted.field == *field);
            assert!(concepts.lines.iter().any(has), "{field:?} is in no line");
        }
    }

    #[test]
    fn lines_that_are_read_when_they_are_used_say_what_all_of_them_say() {
        let (all, lazy) = (Concepts::parse(TEXT).expect("it can be read"), Concepts::built_in());
        let names = all.lines.iter().flat_map(|line| &line.events).map(|name| name.text.replace(['*', '?'], "x"));
        let others = ["", "sys_", "sys_exit", "syscall_entry_", "funcgraph_entry", "x", "kernel.sched_schedul"];
        let mut found = 0;
        for name in names.chain(others.map(String::from)) {
            for is_running in [false, true] {
                let place = |named: &NamedPath| (!named.name.len().is_multiple_of(3)).then(|| named.name.clone());
                for names in [&[&*name][..], &["sched_switch", &*name], &[&*name, "x"]] {
                    let of = |concepts: &Concepts| concepts.first(names, is_running, place, |_| None);
                    assert_eq!(of(&all), of(lazy), "{names:?}");
                    found += usize::from(of(lazy).is_some());
                }
            }
        }
        assert!(found > 200, "{found}");
        for concept in Concept::ALL {
            assert!(all.events(*concept).eq(lazy.events(*concept)), "{concept:?}");
        }
    }

    #[test]
    fn what_the_environment_says_comes_after_the_contexts() {
        let place = |named: &NamedPath| (named.name != "vpid").then(|| named.name.clone());
        let env = |key: &str| (key == "vpid").then(|| "17".into());
        let found = Concepts::built_in().first(&["lttng_ust_libc:free"], false, place, env).expect("a concept");
        assert_eq!(found.origin(Field::Vpid), Some(&Origin::Field("pid".to_string())));
        let none = |named: &NamedPath| (named.name == "ptr").then(|| named.name.clone());
        let found = Concepts::built_in().first(&["lttng_ust_libc:free"], false, none, env).expect("a concept");
        assert_eq!(found.origin(Field::Vpid), Some(&Origin::Text("17".into())));
        assert_eq!((found.concept, found.origin(Field::Vtid)), (Concept::HeapFree, None));
    }

    #[test]
    fn the_first_line_whose_fields_exist_wins() {
        let concepts = Concepts::built_in();
        let fork = concept_of(concepts, "sched_process_fork", &["parent_pid", "child_pid"]).expect("of ftrace");
        assert_eq!((fork.field(Field::Child), fork.field(Field::Pid)), (Some(&"child_pid".to_string()), None));
        let fork = concept_of(concepts, "sched_process_fork", &["parent_pid", "child_pid", "parent_tid", "child_tid"]);
        assert_eq!(fork.expect("of LTTng").field(Field::Pid), Some(&"child_pid".to_string()));
        assert_eq!(concept_of(concepts, "sched_switch", &["prev_tid"]), None);
        assert_eq!(concept_of(concepts, "my_switch", &["prev_tid", "next_tid"]), None);
    }

    #[test]
    fn globs_name_system_calls() {
        let concepts = Concepts::built_in();
        let name = |event: &str, fields: &[&str]| {
            let tie = concept_of(concepts, event, fields)?;
            match tie.origin(Field::Name) {
                Some(Origin::Text(text)) => Some((tie.concept, text.to_string())),
                _ => None,
            }
        };
        let entry = |name: &str| Some((Concept::SysEntry, name.to_string()));
        let exit = |name: &str| Some((Concept::SysExit, name.to_string()));
        assert_eq!(name("syscall_entry_openat", &["filename"]), entry("openat"));
        assert_eq!(name("compat_syscall_entry_futex", &[]), entry("futex"));
        assert_eq!(name("sys_open", &[]), entry("open"));
        assert_eq!(name("sys_enter_open", &[]), entry("open"));
        assert_eq!(name("sys_exit_open", &["ret"]), exit("open"));
        assert_eq!(name("syscall_exit_accept", &["ret"]), exit("accept"));
        assert_eq!(concept_of(concepts, "exit_syscall", &["ret"]).map(|tie| tie.concept), Some(Concept::SysExit));
    }

    #[test]
    fn errors_have_places() {
        for (text, message, line, column) in [
            ("switch", "the concept `switch` has no event", 1, 1),
            ("\nwake x tid tid=y", "`tid` stands twice in the line", 2, 12),
            ("wake x who=tid", "`who` is not a field of a concept", 1, 8),
            ("# ok\n  wakes x", "`wakes` is not a concept", 2, 3),
            ("wake x tid=", "`tid` has no path", 1, 8),
        ] {
            let error = Concepts::parse(text).expect_err(text);
            let place = error.place().text.clone().expect("there is a place");
            assert_eq!((error.message(), place.line, place.column), (message, line, column), "{text}");
        }
    }
}
