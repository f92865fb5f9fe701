//! Samples of what threads execute: who, when, for how much, and in which functions.
//!
//! Which events are samples is what [`Semantics::sample`] answers; the files of code that processes had mapped come from the format
//! ([`CodeMaps`]), and the names of functions from a [`Symbolizer`]. Nothing here knows a format.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::plan::{DecoderState, NodeId, Visitor};
use tracemill_format::code::{CodeKind, CodeMachine, CodeMaps, CodeModule, CodePlace, SampleRegisters};
pub use tracemill_format::samples::{Frame, Sample, UNKNOWN};
use tracemill_model::schema::EventClassId;
use tracemill_semantics::{CpuOf, SampleFields, Semantics, TurnFields, WakeFields, names, node_of};

use crate::event::Event;
use crate::filter::{ClassFields, KeyBy, KeyReader, KeyValue};
use crate::selection::ClassSet;
use crate::session::Session;

/// Finds the functions of code.
pub trait Symbolizer: Send + Sync {
    /// The functions at a place in a module that a process had mapped, the innermost first: those that were inlined, then the one
    /// that they were inlined into. None when nothing is known.
    fn functions(&self, module: &CodeModule, process: i64, place: CodePlace) -> Vec<String>;

    /// Follows the stack of a thread by a copy of it. Gives addresses of functions, the innermost first: the address of the code that
    /// ran, then, of each caller, one inside of its call. They end where the stack cannot be followed any further.
    fn unwind(&self, _stack: &StackCopy<'_>) -> Vec<u64> {
        Vec::new()
    }
}

/// Registers of a thread and a copy of its stack, at a time.
#[derive(Clone, Copy)]
pub struct StackCopy<'c> {
    /// The machine.
    pub machine: CodeMachine,
    /// The address of the code that ran.
    pub instruction: u64,
    /// The stack pointer, where the copy begins.
    pub stack: u64,
    /// The frame pointer.
    pub frame: u64,
    /// The return address, where the machine has it in a register.
    pub link: Option<u64>,
    /// The copy. It may end before the stack does.
    pub bytes: &'c [u8],
    /// The code that processes had mapped.
    pub maps: &'c dyn CodeMaps,
    /// The process.
    pub process: i64,
    /// The time, as a value of the clock.
    pub cycles: u64,
}

/// Threads that leave CPUs and get them by an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turn {
    /// The thread that leaves a CPU.
    pub leaves: Option<i64>,
    /// Could that thread have run on?
    pub is_preempted: bool,
    /// The thread that gets a CPU.
    pub gets: Option<i64>,
}

/// A thread that an event wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WokenThread {
    /// The thread.
    pub thread: i64,
    /// Does the event say that an interrupt woke it, and not the thread that ran?
    pub by_interrupt: bool,
}

/// Addresses from here on are the kernel's.
const FIRST_OF_KERNEL: u64 = 1 << 63;
/// The name of the kernel as a module.
const KERNEL: &str = "[kernel.kallsyms]";

/// Indexes of the fields that are read by [`KeyReader`].
const THREAD: usize = 0;
const PROCESS: usize = 1;
const THREAD_NAME: usize = 2;
const ADDRESS: usize = 3;
const SYMBOL: usize = 4;
const FILE: usize = 5;
const WEIGHT: usize = 6;
const SAMPLE_CPU: usize = 7;
const NEXT: usize = 8;
const PREV: usize = 9;
const STATE: usize = 10;
const OUT: usize = 11;
const PREEMPTED: usize = 12;
const ABI: usize = 13;
const WOKEN: usize = 14;
const CONTEXT: usize = 15;

/// Reads the samples of a session.
pub struct SampleReader<'s> {
    session: &'s Session,
    symbolizer: Option<&'s dyn Symbolizer>,
    /// By trace and event class.
    classes: Vec<Vec<Option<SampleFields>>>,
    turns: Vec<Vec<Option<TurnFields>>>,
    wakes: Vec<Vec<Option<WakeFields>>>,
    keys: KeyReader,
    key: Vec<u8>,
    nodes: HashMap<(usize, u32), StackNodes>,
    cpus: Vec<CpuOf>,
    state: DecoderState,
    arrays: StackArrays,
    stack: Vec<u32>,
    thread_name: String,
    frames: Frames,
}

/// The nodes of a class's plan that hold its stack.
#[derive(Clone, Copy, Default)]
struct StackNodes {
    kernel: Option<NodeId>,
    user: Option<NodeId>,
    frames: Option<NodeId>,
    registers: Option<NodeId>,
    stack_copy: Option<NodeId>,
    layout: Option<SampleRegisters>,
}

/// The sample classes of each trace; none where no event is a sample.
pub(crate) fn sample_classes(session: &Session) -> Vec<Vec<Option<SampleFields>>> {
    let of_trace = |trace: &tracemill_format::OpenTrace| {
        let semantics = Semantics::new(&trace.schema);
        (0..trace.schema.events().len()).map(|at| semantics.sample(EventClassId(at as u32))).collect()
    };
    session.traces.iter().map(of_trace).collect()
}

/// May a session have samples?
pub fn has_samples(session: &Session) -> bool {
    sample_classes(session).iter().flatten().any(Option::is_some)
}

impl<'s> SampleReader<'s> {
    /// A reader of the samples of a session; without a symbolizer functions have names only where the trace has them.
    pub fn new(session: &'s Session, symbolizer: Option<&'s dyn Symbolizer>) -> Self {
        let classes = sample_classes(session);
        let turns = session.traces.iter().map(|trace| {
            let semantics = Semantics::new(&trace.schema);
            (0..trace.schema.events().len()).map(|at| semantics.turn(EventClassId(at as u32))).collect()
        });
        let turns: Vec<Vec<Option<TurnFields>>> = turns.collect();
        let wakes = session.traces.iter().map(|trace| {
            let semantics = Semantics::new(&trace.schema);
            (0..trace.schema.events().len()).map(|at| semantics.woken(EventClassId(at as u32))).collect()
        });
        let wakes: Vec<Vec<Option<WakeFields>>> = wakes.collect();
        let of_traces = session.traces.iter().zip(classes.iter().zip(turns.iter().zip(&wakes)));
        let fields = of_traces.map(|(trace, (classes, (turns, wakes)))| {
            let semantics = Semantics::new(&trace.schema);
            type OfClass<'c> = (&'c Option<SampleFields>, (&'c Option<TurnFields>, &'c Option<WakeFields>));
            let of_class = |(at, (sample, (turn, woken))): (usize, OfClass<'_>)| -> ClassFields {
                if sample.is_none() && turn.is_none() && woken.is_none() {
                    return Vec::new();
                }
                let sample = sample.clone().unwrap_or_default();
                let [next, prev, state, out, preempted, name] = match turn.clone() {
                    Some(TurnFields::Switch { next, prev, state, name }) => [Some(next), prev, state, None, None, name],
                    Some(TurnFields::Own { out, preempted }) => [None, None, None, Some(out), preempted, None],
                    Some(TurnFields::Leaves) | None => [const { None }; 6],
                };
                let who = semantics.who(EventClassId(at as u32));
                let paths = [
                    (THREAD, who.id),
                    (PROCESS, who.process),
                    (THREAD_NAME, who.name.or(name)),
                    (ADDRESS, sample.address.clone()),
                    (SYMBOL, sample.symbol.clone()),
                    (FILE, sample.file.clone()),
                    (WEIGHT, sample.weight.clone()),
                    (SAMPLE_CPU, sample.cpu.clone()),
                    (NEXT, next),
                    (PREV, prev),
                    (STATE, state),
                    (OUT, out),
                    (PREEMPTED, preempted),
                    (ABI, sample.abi.clone()),
                    (WOKEN, woken.as_ref().map(|woken| woken.thread.clone())),
                    (CONTEXT, woken.as_ref().and_then(|woken| woken.context.clone())),
                ];
                paths.into_iter().filter_map(|(index, path)| Some((index as u8, path?))).collect()
            };
            classes.iter().zip(turns.iter().zip(wakes)).enumerate().map(of_class).collect()
        });
        let fields = KeyBy::Fields(Arc::new(fields.collect()));
        SampleReader {
            session,
            symbolizer,
            keys: KeyReader::new(session, &fields),
            key: Vec::new(),
            nodes: HashMap::new(),
            cpus: session.traces.iter().map(|_| CpuOf::default()).collect(),
            state: DecoderState::default(),
            arrays: StackArrays::default(),
            stack: Vec::new(),
            thread_name: String::new(),
            frames: Frames::default(),
            classes,
            turns,
            wakes,
        }
    }

    /// The classes of samples of each trace, for a selection.
    pub fn class_sets(&self) -> Vec<Option<Arc<ClassSet>>> {
        let set = |classes: &Vec<Option<SampleFields>>| {
            Some(Arc::new(ClassSet::new(classes.len(), |class| classes.get(class).is_some_and(Option::is_some))))
        };
        self.classes.iter().map(set).collect()
    }

    /// The classes of samples among those that a selection wants; `wanted` is by trace, and all are wanted of one without a set.
    pub fn wanted_class_sets(&self, wanted: &[Option<Arc<ClassSet>>]) -> Vec<Option<Arc<ClassSet>>> {
        let set = |(trace, classes): (usize, &Vec<Option<SampleFields>>)| {
            let wanted = wanted.get(trace).and_then(Option::as_ref);
            let is_wanted = |class: usize| wanted.is_none_or(|wanted| wanted.has(class as u32));
            let is_sample = |class: usize| classes.get(class).is_some_and(Option::is_some);
            Some(Arc::new(ClassSet::new(classes.len(), |class| is_sample(class) && is_wanted(class))))
        };
        self.classes.iter().enumerate().map(set).collect()
    }

    /// As [`SampleReader::class_sets`], with the classes of events by which threads leave and get CPUs, and of those that wake
    /// threads.
    pub fn class_sets_with_turns(&self, has_wakes: bool) -> Vec<Option<Arc<ClassSet>>> {
        let set = |trace: usize| {
            let classes = &self.classes[trace];
            let is_sample = |class: usize| classes.get(class).is_some_and(Option::is_some);
            let is_turn = |class: usize| self.turns[trace].get(class).is_some_and(Option::is_some);
            let is_wake = |class: usize| has_wakes && self.wakes[trace].get(class).is_some_and(Option::is_some);
            let is_wanted = |class: usize| is_sample(class) || is_turn(class) || is_wake(class);
            Some(Arc::new(ClassSet::new(classes.len(), is_wanted)))
        };
        (0..self.classes.len()).map(set).collect()
    }

    /// Do any events say which threads are woken?
    pub fn has_wakes(&self) -> bool {
        self.wakes.iter().flatten().any(Option::is_some)
    }

    /// The thread that an event wakes; `None` when it is not such an event.
    pub fn woken(&mut self, event: &Event<'_>) -> Option<WokenThread> {
        self.wakes.get(event.trace)?.get(event.raw.class().0 as usize)?.as_ref()?;
        let values = self.keys.values(event, &mut self.key);
        let integer = |at: usize| match value(&values, at) {
            Some(KeyValue::Integer(number)) => i64::try_from(*number).ok(),
            _ => None,
        };
        let by_interrupt = integer(CONTEXT).is_some_and(|flags| flags & names::IN_HARD_INTERRUPT != 0);
        Some(WokenThread { thread: integer(WOKEN)?, by_interrupt })
    }

    /// Do any events say when threads leave and get CPUs?
    pub fn has_turns(&self) -> bool {
        self.turns.iter().flatten().any(Option::is_some)
    }

    /// The threads that leave and get CPUs by an event; `None` when it says nothing about that.
    pub fn turn(&mut self, event: &Event<'_>) -> Option<Turn> {
        let fields = self.turns.get(event.trace)?.get(event.raw.class().0 as usize)?.as_ref()?;
        let values = self.keys.values(event, &mut self.key);
        let integer = |at: usize| match value(&values, at) {
            Some(KeyValue::Integer(number)) => i64::try_from(*number).ok(),
            _ => None,
        };
        let flag = |at: usize| value(&values, at) == Some(&KeyValue::Bool(true));
        Some(match fields {
            TurnFields::Switch { .. } => Turn {
                leaves: integer(PREV).or_else(|| integer(THREAD)),
                is_preempted: match value(&values, STATE) {
                    // Above the states that threads wait in stands a bit for those that were preempted.
                    Some(KeyValue::Integer(state)) => state & 0xff == 0,
                    Some(KeyValue::Text(state)) => state.first() == Some(&b'R'),
                    _ => false,
                },
                gets: integer(NEXT),
            },
            TurnFields::Own { .. } if flag(OUT) => {
                Turn { leaves: integer(THREAD), is_preempted: flag(PREEMPTED), gets: None }
            }
            TurnFields::Leaves => Turn { leaves: integer(THREAD), is_preempted: false, gets: None },
            TurnFields::Own { .. } => Turn { leaves: None, is_preempted: false, gets: integer(THREAD) },
        })
    }

    /// The frames that were met so far, by their numbers.
    pub fn frames(&self) -> &[Frame] {
        &self.frames.list
    }

    /// The sample that an event is, when that has a stack.
    pub fn read_stack(&mut self, event: &Event<'_>) -> Option<Sample<'_>> {
        self.classes.get(event.trace)?.get(event.raw.class().0 as usize)?.as_ref()?;
        self.read(event).filter(|sample| !sample.stack.is_empty())
    }

    /// The sample that an event is; `None` when it is not one. An event that is none and says that a thread leaves a CPU, or wakes
    /// one, is given as a sample without a stack.
    pub fn read(&mut self, event: &Event<'_>) -> Option<Sample<'_>> {
        let class = event.raw.class();
        let fields = self.classes.get(event.trace)?.get(class.0 as usize)?.as_ref();
        let turn = || self.turns.get(event.trace)?.get(class.0 as usize)?.as_ref();
        let woken = || self.wakes.get(event.trace)?.get(class.0 as usize)?.as_ref();
        let none = SampleFields::default();
        let fields = fields.or_else(|| (turn().is_some() || woken().is_some()).then_some(&none))?;
        let values = self.keys.values(event, &mut self.key);
        let integer = |at: usize| match value(&values, at) {
            Some(KeyValue::Integer(number)) => Some(*number),
            _ => None,
        };
        let number = |at: usize| integer(at).and_then(|number| i64::try_from(number).ok());
        let unsigned = |at: usize| integer(at).and_then(|number| u64::try_from(number).ok());
        let text = |at: usize| match value(&values, at) {
            Some(KeyValue::Text(text)) => Some(text.as_slice()),
            _ => None,
        };
        let process = number(PROCESS).or_else(|| number(THREAD));
        let code = CodeContext {
            trace: event.trace,
            maps: self.session.code_maps(event.trace),
            symbolizer: self.symbolizer,
            process: process.unwrap_or(-1),
            cycles: event.raw.cycles(),
        };
        self.stack.clear();
        self.arrays.clear();
        let stacks = [&fields.kernel, &fields.user, &fields.frames, &fields.stack_copy];
        if stacks.iter().any(|path| path.is_some()) {
            let plan = event.raw.chunk.packet.plans.event_rows(class);
            let node = |path: &Option<_>| path.as_ref().and_then(|path| node_of(plan, path));
            self.arrays.nodes = *self.nodes.entry((event.trace, class.0)).or_insert_with(|| StackNodes {
                kernel: node(&fields.kernel),
                user: node(&fields.user),
                frames: node(&fields.frames),
                registers: node(&fields.registers),
                stack_copy: node(&fields.stack_copy),
                layout: self.session.traces[event.trace].reader.sample_registers(class),
            });
            // Errors were reported by the scan of the packet.
            let _ = event.raw.visit_flat(&mut self.state, &mut self.arrays);
            let unwound = self.arrays.stack_copy(&code, unsigned(ABI)).filter(|_| self.arrays.user.len() <= 1);
            let unwound = unwound.zip(self.symbolizer).map(|(copy, symbolizer)| symbolizer.unwind(&copy));
            let mut add = |address: u64, is_return: bool| {
                self.stack.extend_from_slice(self.frames.at(&code, address, is_return));
            };
            self.arrays.kernel.iter().enumerate().for_each(|(at, &address)| add(address, at > 0));
            match unwound.filter(|addresses| !addresses.is_empty()) {
                Some(addresses) => addresses.into_iter().for_each(|address| add(address, false)),
                None => self.arrays.user.iter().enumerate().for_each(|(at, &address)| add(address, at > 0)),
            }
            for at in 0..self.arrays.texts.len() {
                self.stack.push(self.frames.of_text(&self.arrays.texts[at]));
            }
        }
        if self.stack.is_empty() {
            match (text(SYMBOL), unsigned(ADDRESS)) {
                (Some(symbol), _) => {
                    let frame = named_frame(symbol, text(FILE).unwrap_or_default());
                    self.stack.push(self.frames.number(frame));
                }
                (None, Some(address)) => self.stack.extend_from_slice(self.frames.at(&code, address, false)),
                (None, None) => {}
            }
        }
        let thread_name = text(THREAD_NAME);
        self.thread_name.clear();
        self.thread_name.push_str(&String::from_utf8_lossy(thread_name.unwrap_or_default()));
        let cpu = unsigned(SAMPLE_CPU).or_else(|| self.cpus[event.trace].cpu(event.stream, &event.raw.chunk.packet));
        Some(Sample {
            ns: event.ns,
            thread: number(THREAD),
            process,
            thread_name: thread_name.map(|_| self.thread_name.as_str()),
            cpu,
            weight: unsigned(WEIGHT),
            stack: &self.stack,
            frames: &self.frames.list,
        })
    }
}

fn value(values: &[(usize, KeyValue)], at: usize) -> Option<&KeyValue> {
    values.iter().find(|(index, _)| *index == at).map(|(_, value)| value)
}

/// Collects the arrays of a stack.
#[derive(Default)]
struct StackArrays {
    nodes: StackNodes,
    kernel: Vec<u64>,
    user: Vec<u64>,
    texts: Vec<Vec<u8>>,
    registers: Vec<u64>,
    stack_copy: Vec<u8>,
}

impl StackArrays {
    fn clear(&mut self) {
        self.kernel.clear();
        self.user.clear();
        self.texts.clear();
        self.registers.clear();
        self.stack_copy.clear();
    }

    /// The copy of the stack, if there is one; `abi` is the kind of machine code that the sample says.
    fn stack_copy<'c>(&'c self, code: &CodeContext<'c>, abi: Option<u64>) -> Option<StackCopy<'c>> {
        let layout = self.nodes.layout.filter(|layout| Some(layout.abi) == abi && !self.stack_copy.is_empty())?;
        let register = |index: usize| self.registers.get(index).copied();
        Some(StackCopy {
            machine: layout.machine,
            instruction: register(layout.instruction)?,
            stack: register(layout.stack)?,
            frame: register(layout.frame)?,
            link: layout.link.and_then(register),
            bytes: &self.stack_copy,
            maps: code.maps?,
            process: code.process,
            cycles: code.cycles,
        })
    }
}

impl Visitor for StackArrays {
    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        // The element of an array is the node after it.
        let array = node.checked_sub(1);
        if array.is_some() && array == self.nodes.user {
            self.user.push(value);
        } else if array.is_some() && array == self.nodes.kernel {
            self.kernel.push(value);
        } else if array.is_some() && array == self.nodes.registers {
            self.registers.push(value);
        }
    }

    #[inline]
    fn unsigned_element(&mut self, array: NodeId, index: u64, value: u64) {
        // Stacks have thousands of bytes, so their array is compared first.
        if Some(array) == self.nodes.stack_copy {
            self.stack_copy.push(value as u8);
        } else {
            self.element(array, index);
            self.unsigned(array + 1, value);
        }
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        let array = node.checked_sub(1);
        if array.is_some() && array == self.nodes.frames {
            self.texts.push(bytes.to_vec());
        }
    }
}

/// Everything that decides which function an address is in.
struct CodeContext<'c> {
    trace: usize,
    maps: Option<&'c dyn CodeMaps>,
    symbolizer: Option<&'c dyn Symbolizer>,
    process: i64,
    cycles: u64,
}

/// All frames, each once.
#[derive(Default)]
struct Frames {
    list: Vec<Frame>,
    by_frame: HashMap<Frame, u32>,
    /// Frames of places that were asked for, by trace and process, and by whether the place is one to return to.
    places: HashMap<(usize, i64, CodePlace, bool), Box<[u32]>>,
    /// Frames of addresses in the kernel, of traces that do not say which code is where.
    unmapped: HashMap<u64, Box<[u32]>>,
    texts: HashMap<Vec<u8>, u32>,
    /// Frames of unknown addresses: of programs, and of the kernel.
    unknown: [Option<[u32; 1]>; 2],
}

impl Frames {
    fn number(&mut self, frame: Frame) -> u32 {
        if let Some(&number) = self.by_frame.get(&frame) {
            return number;
        }
        let number = self.list.len() as u32;
        self.by_frame.insert(frame.clone(), number);
        self.list.push(frame);
        number
    }

    /// The frames at an address, the innermost first. Before an address to return to is the call, which may be in another function than
    /// what follows it.
    fn at(&mut self, code: &CodeContext<'_>, address: u64, is_return: bool) -> &[u32] {
        let is_kernel = address >= FIRST_OF_KERNEL;
        let place = code.maps.and_then(|maps| Some((maps, maps.place(code.process, code.cycles, address)?)));
        let found = place.and_then(|(maps, place)| Some((maps.modules().get(place.module as usize)?, place)));
        let call = address.wrapping_sub(is_return.into());
        if is_kernel && code.maps.is_none() && self.find_unmapped(code, call) {
            return &self.unmapped[&call];
        }
        let Some((module, place)) = found else {
            if self.unknown[usize::from(is_kernel)].is_none() {
                let frame = Frame { function: UNKNOWN.into(), module: "".into(), is_kernel };
                self.unknown[usize::from(is_kernel)] = Some([self.number(frame)]);
            }
            return self.unknown[usize::from(is_kernel)].as_ref().map_or(&[], |frame| frame.as_slice());
        };
        let key = (code.trace, code.process, place, is_return);
        if !self.places.contains_key(&key) {
            let before = u64::from(is_return && place.offset > 0);
            let call =
                CodePlace { offset: place.offset - before, address: place.address.wrapping_sub(before), ..place };
            let names = code.symbolizer.map(|symbolizer| symbolizer.functions(module, code.process, call));
            let mut names = names.unwrap_or_default();
            let short = module.short_name();
            if names.is_empty() {
                names.push(match module.kind {
                    tracemill_format::code::CodeKind::Function => short.to_string(),
                    _ => format!("[{}+{:#x}]", short.trim_matches(['[', ']']), place.offset),
                });
            }
            let module: Arc<str> = short.into();
            let frame = |name: String| self.number(Frame { function: name.into(), module: module.clone(), is_kernel });
            let numbers = names.into_iter().map(frame).collect();
            self.places.insert(key, numbers);
        }
        &self.places[&key]
    }

    /// Finds the function of the kernel at an address of a trace without maps, whose symbols may still be there: a list next to the
    /// recording is taken to be of the boot that was recorded.
    fn find_unmapped(&mut self, code: &CodeContext<'_>, address: u64) -> bool {
        if !self.unmapped.contains_key(&address) {
            let (path, kind) = (KERNEL.to_string(), CodeKind::Kernel { symbol: String::new(), address: 0 });
            let module = CodeModule { path, build_id: None, kind };
            let place = CodePlace { module: 0, offset: address, address };
            let names = code.symbolizer.map(|symbolizer| symbolizer.functions(&module, code.process, place));
            let frame =
                |name: String| self.number(Frame { function: name.into(), module: KERNEL.into(), is_kernel: true });
            let frames = names.unwrap_or_default().into_iter().map(frame).collect();
            self.unmapped.insert(address, frames);
        }
        !self.unmapped[&address].is_empty()
    }

    /// The frame that a line of a stack shows.
    fn of_text(&mut self, text: &[u8]) -> u32 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        // `401136 main+0x2a (/usr/bin/x)`: the address, the name and the file.
        let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let rest = if text.get(digits) == Some(&b' ') { &text[digits + 1..] } else { text };
        let open = memchr::memmem::rfind(rest, b" (").filter(|_| rest.last() == Some(&b')'));
        let (name, file) = match open {
            Some(at) => (&rest[..at], &rest[at + 2..rest.len() - 1]),
            None => (rest, &b""[..]),
        };
        let number = self.number(named_frame(name, file));
        self.texts.insert(text.to_vec(), number);
        number
    }
}

/// The frame of a function with a distance after its name, and of its file.
fn named_frame(name: &[u8], file: &[u8]) -> Frame {
    let (name, file) = (String::from_utf8_lossy(name), String::from_utf8_lossy(file));
    let is_distance = |text: &str| {
        text.strip_prefix("0x")
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let function = match name.trim().rsplit_once('+') {
        Some((function, distance)) if is_distance(distance) => function,
        _ => name.trim(),
    };
    const OF_PROGRAMS: [&str; 6] = ["[vdso]", "[vsyscall]", "[unknown]", "[heap]", "[stack]", "[uprobes]"];
    let is_kernel = (file.starts_with('[') && !OF_PROGRAMS.contains(&&*file)) && !file.starts_with("[anon")
        || [".ko", ".ko.gz", ".ko.xz", ".ko.zst"].iter().any(|end| file.ends_with(end))
        || file.ends_with("/vmlinux");
    let module = match &*file {
        UNKNOWN | "inlined" => "",
        file => file.rsplit('/').next().unwrap_or(file),
    };
    Frame { function: function.into(), module: module.into(), is_kernel }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_stacks_name_functions() {
        let mut frames = Frames::default();
        let mut shown = |text: &str| {
            let number = frames.of_text(text.as_bytes());
            let Frame { function, module, is_kernel } = frames.list[number as usize].clone();
            format!("{function}|{module}|{is_kernel}")
        };
        assert_eq!(shown("401136 main+0x2a (/usr/bin/x y)"), "main|x y|false");
        assert_eq!(shown("ffff81 do_idle+0x1 ([kernel.kallsyms])"), "do_idle|[kernel.kallsyms]|true");
        assert_eq!(shown("ffff82 xfs_read+0x1 ([xfs])"), "xfs_read|[xfs]|true");
        assert_eq!(shown("7f [unknown] ([unknown])"), "[unknown]||false");
        assert_eq!(shown("7f operator+ (a)(inlined) (libx.so)"), "operator+ (a)(inlined)|libx.so|false");
        assert_eq!(shown("7f clock_gettime+0x9 ([vdso])"), "clock_gettime|[vdso]|false");
        assert_eq!(shown("add"), "add||false");
    }

    /// Maps of one file at 0x1000, and the names of its functions of 16 bytes.
    struct Code([CodeModule; 1]);

    impl CodeMaps for Code {
        fn modules(&self) -> &[CodeModule] {
            &self.0
        }

        fn place(&self, _process: i64, _cycles: u64, address: u64) -> Option<CodePlace> {
            Some(CodePlace { module: 0, offset: address.checked_sub(0x1000)?, address })
        }
    }

    impl Symbolizer for Code {
        fn functions(&self, _module: &CodeModule, _process: i64, place: CodePlace) -> Vec<String> {
            assert_eq!(place.address - place.offset, 0x1000);
            if place.offset < 0x100 { vec![format!("f{}", place.offset / 16)] } else { Vec::new() }
        }
    }

    fn code() -> Code {
        Code([CodeModule { path: "/bin/app".into(), build_id: None, kind: tracemill_format::code::CodeKind::File }])
    }

    #[test]
    fn callers_are_named_by_their_calls() {
        let code = code();
        let context = CodeContext { trace: 0, maps: Some(&code), symbolizer: Some(&code), process: 1, cycles: 0 };
        let mut frames = Frames::default();
        let mut name = |address: u64, is_return: bool| {
            let number = frames.at(&context, address, is_return)[0];
            frames.list[number as usize].function.to_string()
        };
        assert_eq!((name(0x101f, false), name(0x1020, false)), ("f1".into(), "f2".into()));
        // The call is the last instruction of a function.
        assert_eq!((name(0x1020, true), name(0x1021, true)), ("f1".into(), "f2".into()));
        assert_eq!((name(0x1000, true), name(0x1200, true)), ("f0".into(), "[app+0x200]".into()));
        assert_eq!(name(0x10, true), UNKNOWN);
    }

    #[test]
    fn copies_of_stacks_have_registers_of_their_machine() {
        let code = code();
        let context = CodeContext { trace: 0, maps: Some(&code), symbolizer: None, process: 1, cycles: 0 };
        let machine = CodeMachine::X86_64;
        let layout = SampleRegisters { machine, abi: 2, instruction: 2, stack: 1, frame: 0, link: None };
        let mut arrays = StackArrays { registers: vec![7, 8, 9], stack_copy: vec![1], ..StackArrays::default() };
        assert!(arrays.stack_copy(&context, Some(2)).is_none(), "it is not known which registers these are");
        arrays.nodes.layout = Some(layout);
        let copy = arrays.stack_copy(&context, Some(2)).expect("a copy");
        assert_eq!((copy.frame, copy.stack, copy.instruction, copy.link), (7, 8, 9, None));
        assert!(arrays.stack_copy(&context, Some(1)).is_none(), "code of an older machine");
        arrays.registers.pop();
        assert!(arrays.stack_copy(&context, Some(2)).is_none(), "a register is missing");
    }
}
