//! Events that are calls, as records: for traces whose calls stand between other events.
//!
//! The format says which events are calls and where a call's function is
//! ([`PacketReader::call_events`](tracemill_format::PacketReader::call_events)), or the trace itself does, class by class
//! ([`EventClass::call`](tracemill_model::schema::EventClass::call)); nothing here knows a format. One
//! reading finds the tasks and the functions, every other one gives the records in the order of time.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use tracemill_format::calls::{
    CallKind, CallOrigin, CallProgram, CallRecord, CallSource, CallStream, CallSymbol, CallTask, DumpOptions, Findings,
    Recording,
};
use tracemill_format::open_calls::{End, OpenCalls};
use tracemill_model::error::Error;
use tracemill_model::schema::{CallHalf, EventClassId, Scope};
use tracemill_semantics::{CpuOf, EventShape, Mark, Semantics, member, names};

use crate::event::Event;
use crate::events::{Events, Step};
use crate::filter::{ClassFields, Filter, KeyBy, KeyReader, KeyValue};
use crate::merge::Note;
use crate::selection::{self, ClassSet, SelectedStream};
use crate::session::Session;
use crate::timeline::Selection;

/// Calls that may be open at once in a task.
const MAX_DEPTH: usize = 65_535;
/// Events that are read at once.
const BATCH: usize = 4096;
/// Tasks and functions that are distinguished; a trace with more of them is none that anybody can look at.
const MAX_NAMES: usize = 1 << 20;

/// Meaning of an event class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallMeaning {
    None,
    /// A call of the kind of this index; the symbol is given when the name of the class has it.
    Call {
        is_exit: bool,
        symbol: u32,
    },
    Module,
    /// A text, which may be the beginning or the end of a call.
    Mark,
}

/// Which fields are read of an event.
const TASK: usize = 0;
const PROCESS: usize = 1;
const TASK_NAME: usize = 2;
const ADDRESS: usize = 3;
/// The first of three: address, size and path of a module.
const MODULE: usize = 4;
/// The text that may be a mark.
const MARK: usize = 7;
/// The name of the function of a call.
const SYMBOL: usize = 8;

/// The calls of a session.
pub struct EventCalls {
    session: Arc<Session>,
    streams: Vec<SelectedStream>,
    selection: Selection,
    /// A filter beside that.
    filter: Option<Filter>,
    /// By trace and event class.
    meanings: Vec<Vec<CallMeaning>>,
    /// Fields that are read of events.
    fields: KeyBy,
    tasks: Vec<CallTask>,
    by_task: HashMap<(i128, i128), u32>,
    symbols: Vec<CallSymbol>,
    by_address: HashMap<(i128, u64), u32>,
    /// Symbols of the calls whose names their events say: in a field, or in a mark.
    by_name: HashMap<Vec<u8>, u32>,
    /// Are marks calls?
    has_marks: bool,
    programs: Vec<CallProgram>,
    /// The time that is 0 in records: the smallest one when it is below 0.
    base_ns: i128,
}

/// A half of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallEdge {
    pub(crate) task: u32,
    pub(crate) time: u64,
    pub(crate) symbol: u32,
    pub(crate) address: u64,
    pub(crate) is_exit: bool,
}

/// Contents of an event.
struct CallContents {
    task: i128,
    process: i128,
    name: Option<String>,
    address: u64,
}

impl EventCalls {
    /// The calls of a session, `None` when it has no events that are calls.
    pub fn open(session: &Arc<Session>) -> Option<EventCalls> {
        Self::from_session(session, |_| true, false)
    }

    /// The calls of one of its traces, as if it stood alone: threads of other traces are other threads.
    pub fn from_trace(session: &Arc<Session>, trace: usize) -> Option<EventCalls> {
        Self::from_session(session, |at| at == trace, false)
    }

    /// As [`EventCalls::from_trace`], with what only names say to be a call: pairs of classes such as `X_entry` and `X_exit`, or
    /// `X_begin` and `X_end`. Where events tell the states of threads, these say what begins and ends.
    pub fn with_pairs(session: &Arc<Session>, trace: usize) -> Option<EventCalls> {
        Self::from_session(session, |at| at == trace, true)
    }

    fn from_session(session: &Arc<Session>, is_meant: impl Fn(usize) -> bool, with_pairs: bool) -> Option<EventCalls> {
        let (mut symbols, mut fields) = (Vec::new(), Vec::new());
        let mut by_name: HashMap<String, u32> = HashMap::new();
        // Id 0 is no symbol.
        symbols.push(symbol_of(String::new(), None));
        let mut has_calls = false;
        let meanings = session.traces.iter().enumerate().map(|(at, trace)| {
            let (kinds, modules) = match is_meant(at) {
                true => (trace.reader.call_events(), trace.reader.module_events()),
                false => Default::default(),
            };
            let semantics = Semantics::new(&trace.schema);
            let with_pairs = with_pairs && is_meant(at) && semantics.has_pairs() && !semantics.has_states();
            let mut of_trace = vec![Vec::new(); trace.schema.events().len()];
            let classes = trace.schema.events().iter().enumerate().map(|(at_class, class)| {
                let Some(name) = class.name.as_deref().filter(|_| !class.is_untimed) else { return CallMeaning::None };
                let fields = |own: &[(usize, &str)]| -> ClassFields {
                    let who = semantics.who(EventClassId(at_class as u32));
                    let who = [(TASK, who.id), (PROCESS, who.process), (TASK_NAME, who.name)];
                    let payload = |name| member(&trace.schema, Scope::Payload, class.payload, name);
                    let own = own.iter().map(|&(index, name)| (index, payload(name)));
                    who.into_iter().chain(own).filter_map(|(index, path)| Some((index as u8, path?))).collect()
                };
                let mut symbol_named = |function: &str| {
                    *by_name.entry(function.to_string()).or_insert_with(|| {
                        symbols.push(symbol_of(function.to_string(), None));
                        symbols.len() as u32 - 1
                    })
                };
                if let Some(half) = class.call.filter(|_| is_meant(at)) {
                    has_calls = true;
                    of_trace[at_class] = fields(&[]);
                    return CallMeaning::Call {
                        is_exit: half == CallHalf::Exit,
                        symbol: symbol_named(names::call_name(name, half)),
                    };
                }
                for kind in kinds {
                    let found = function_of(kind.entry, name).map(|function| (function, false));
                    let Some((function, is_exit)) =
                        found.or_else(|| function_of(kind.exit, name).map(|function| (function, true)))
                    else {
                        continue;
                    };
                    has_calls = true;
                    let own = [(ADDRESS, kind.address), (SYMBOL, kind.symbol)];
                    let own: Vec<(usize, &str)> = own.iter().filter_map(|(at, name)| Some((*at, (*name)?))).collect();
                    of_trace[at_class] = fields(&own);
                    if !own.is_empty() {
                        return CallMeaning::Call { is_exit, symbol: 0 };
                    }
                    return CallMeaning::Call { is_exit, symbol: symbol_named(function) };
                }
                if with_pairs && let Some((is_exit, title)) = half_of(semantics.shape(EventClassId(at_class as u32))) {
                    has_calls = true;
                    of_trace[at_class] = fields(&[]);
                    return CallMeaning::Call { is_exit, symbol: title.map_or(0, |title| symbol_named(&title)) };
                }
                let mark = is_meant(at).then(|| semantics.mark(EventClassId(at_class as u32))).flatten();
                if let Some(path) = mark {
                    has_calls = true;
                    of_trace[at_class] = fields(&[]);
                    of_trace[at_class].push((MARK as u8, path));
                    return CallMeaning::Mark;
                }
                let Some(module) = modules.iter().find(|module| module.name == name) else { return CallMeaning::None };
                let [base, size, path] = module.fields;
                of_trace[at_class] = fields(&[(MODULE, base), (MODULE + 1, size), (MODULE + 2, path)]);
                CallMeaning::Module
            });
            let classes = classes.collect();
            fields.push(of_trace);
            classes
        });
        let meanings: Vec<Vec<CallMeaning>> = meanings.collect();
        if !has_calls {
            return None;
        }
        let mut streams = selection::streams(session, &[]).ok()?;
        streams.retain(|of| is_meant(of.trace));
        let classes = meanings.iter().map(|classes| {
            let is_wanted = |class: usize| classes.get(class).is_some_and(|&meaning| meaning != CallMeaning::None);
            Some(Arc::new(ClassSet::new(classes.len(), is_wanted)))
        });
        let selection = Selection { classes: classes.collect(), ..Selection::default() };
        let mut calls = EventCalls {
            session: session.clone(),
            streams,
            selection,
            filter: None,
            meanings,
            fields: KeyBy::Fields(Arc::new(fields)),
            tasks: Vec::new(),
            by_task: HashMap::new(),
            symbols,
            by_address: HashMap::new(),
            by_name: HashMap::new(),
            has_marks: false,
            programs: Vec::new(),
            base_ns: 0,
        };
        calls.survey();
        // Some formats describe calls in every trace.
        (!calls.tasks.is_empty()).then_some(calls)
    }

    /// Only the records of events of these streams that are of selected classes and match the filter. Tasks and functions are
    /// those of all events, which say where functions are.
    #[must_use]
    pub fn narrowed(
        mut self,
        streams: &[SelectedStream],
        classes: &[Option<Arc<ClassSet>>],
        filter: Option<&Filter>,
    ) -> Self {
        let is_wanted = |of: &SelectedStream| streams.iter().any(|own| (own.trace, own.index) == (of.trace, of.index));
        self.streams.retain(is_wanted);
        for (trace, own) in self.selection.classes.iter_mut().enumerate() {
            let Some(wanted) = classes.get(trace).and_then(Option::as_ref) else { continue };
            let has = |class: usize| own.as_ref().is_none_or(|own| own.has(class as u32)) && wanted.has(class as u32);
            *own = Some(Arc::new(ClassSet::new(self.meanings[trace].len(), has)));
        }
        self.filter = filter.cloned();
        self
    }

    /// The time in ns that is 0 in the records.
    pub fn base_ns(&self) -> i128 {
        self.base_ns
    }

    /// Finds tasks and functions.
    fn survey(&mut self) {
        let (mut keys, mut key) = (KeyReader::new(&self.session, &self.fields), Vec::new());
        // By process: first address, size, path; the last one counts.
        let mut loaded: HashMap<i128, Vec<(u64, u64, String)>> = HashMap::new();
        let mut found: Vec<((i128, i128), Option<String>, i128)> = Vec::new();
        let mut addresses: Vec<(i128, u64)> = Vec::new();
        let (mut by_task, mut by_address) = (HashMap::new(), HashMap::new());
        let mut base_ns = 0;
        let mut marks: Vec<((i128, i128), Option<String>, i128)> = Vec::new();
        let (mut marking, mut own_names, mut mark_names) = (HashSet::new(), Names::default(), Names::default());
        let mut has_functions = false;
        let take = |event: &Event<'_>| {
            let Some((meaning, ns)) = self.meaning(event) else { return };
            base_ns = ns.min(base_ns);
            let values = keys.values(event, &mut key);
            let said = CallContents::from_event(event, &values);
            match meaning {
                CallMeaning::Module => {
                    let number = |at| number(&values, at).and_then(|value| u64::try_from(value).ok());
                    if let (Some(base), Some(size), Some(path)) =
                        (number(MODULE), number(MODULE + 1), text(&values, MODULE + 2))
                    {
                        loaded.entry(said.process).or_default().push((base, size, path));
                    }
                }
                CallMeaning::Mark => {
                    let Some(Mark::Begin { name }) = mark(&values) else { return };
                    mark_names.add(name);
                    let key = (said.process, said.task);
                    if marking.len() < MAX_NAMES && marking.insert(key) {
                        marks.push((key, said.name, ns));
                    }
                }
                CallMeaning::Call { symbol, .. } => {
                    has_functions = true;
                    let key = (said.process, said.task);
                    if found.len() < MAX_NAMES && !by_task.contains_key(&key) {
                        by_task.insert(key, found.len() as u32);
                        found.push((key, said.name, ns));
                    }
                    let key = (said.process, said.address);
                    if symbol == 0 && said.address > 0 && addresses.len() < MAX_NAMES && !by_address.contains_key(&key)
                    {
                        by_address.insert(key, addresses.len() as u32);
                        addresses.push(key);
                    }
                    if let Some(KeyValue::Text(name)) = value(&values, SYMBOL) {
                        own_names.add(name);
                    }
                }
                CallMeaning::None => {}
            }
        };
        Events::new(&self.session, &self.streams, &self.selection, None).for_each(take, |_| ControlFlow::Continue(()));
        // Functions of the kernel that write marks end before the calls that these begin: they cannot nest.
        if !has_functions {
            for (key, name, ns) in marks {
                by_task.insert(key, found.len() as u32);
                found.push((key, name, ns));
            }
            self.has_marks = true;
            own_names = mark_names;
        }
        for name in own_names.list {
            self.symbols.push(symbol_of(String::from_utf8_lossy(&name).into_owned(), None));
            self.by_name.insert(name, self.symbols.len() as u32 - 1);
        }
        for (process, address) in addresses {
            let module = loaded
                .get(&process)
                .and_then(|modules| modules.iter().rev().find(|(base, size, _)| address.wrapping_sub(*base) < *size));
            let (name, module) = match module {
                Some((base, _, path)) => {
                    let file = path.rsplit('/').next().unwrap_or(path).to_string();
                    (format!("{file}+{:#x}", address - base), Some(file))
                }
                None => (format!("<{address:x}>"), None),
            };
            self.by_address.insert((process, address), self.symbols.len() as u32);
            self.symbols.push(symbol_of(name, module));
        }
        for (order, ((process, task), name, start)) in found.into_iter().enumerate() {
            let small = |value: i128| i64::try_from(value).unwrap_or(-1);
            let name = name.unwrap_or_default();
            let start = since(base_ns, start);
            if !self.programs.iter().any(|program| program.pid == small(process)) {
                self.programs.push(CallProgram {
                    id: process.to_string(),
                    name: name.clone(),
                    pid: small(process),
                    start,
                });
            }
            self.tasks.push(CallTask {
                tid: small(task),
                pid: small(process),
                parent: 0,
                start,
                order: order as u32,
                first_name: name.clone().into_bytes(),
                name: name.into_bytes(),
            });
        }
        self.by_task = by_task;
        self.base_ns = base_ns;
    }

    /// Fields that are read of each event.
    pub(crate) fn fields(&self) -> &KeyBy {
        &self.fields
    }

    /// The classes of a trace of which events are read.
    pub(crate) fn classes(&self, trace: usize) -> Option<Arc<ClassSet>> {
        self.selection.classes.get(trace).cloned().flatten()
    }

    /// The half of a call that an event is, as the record that is made of it says it; `None` for other events.
    pub(crate) fn half(&self, event: &Event<'_>, values: &[(usize, KeyValue)]) -> Option<CallEdge> {
        let (meaning, ns) = self.meaning(event)?;
        let said = CallContents::from_event(event, values);
        let task = *self.by_task.get(&(said.process, said.task))?;
        let time = since(self.base_ns, ns);
        let (is_exit, symbol) = match meaning {
            CallMeaning::Call { is_exit, symbol } => (is_exit, symbol),
            CallMeaning::Mark => {
                let (symbol, is_exit) = match mark(values)? {
                    Mark::Begin { name } => (*self.by_name.get(name)?, false),
                    Mark::End if self.has_marks => (0, true),
                    _ => return None,
                };
                return Some(CallEdge { task, time, symbol, address: symbol.into(), is_exit });
            }
            CallMeaning::None | CallMeaning::Module => return None,
        };
        let symbol = match symbol {
            0 => match value(values, SYMBOL) {
                Some(KeyValue::Text(name)) => self.by_name.get(name.as_slice()).copied().unwrap_or(0),
                _ => self.by_address.get(&(said.process, said.address)).copied().unwrap_or(0),
            },
            symbol => symbol,
        };
        // Names have no address: their number identifies them.
        let address = if said.address > 0 { said.address } else { symbol.into() };
        Some(CallEdge { task, time, symbol, address, is_exit })
    }

    /// The meaning of an event and its time; `None` when it has none of them.
    fn meaning(&self, event: &Event) -> Option<(CallMeaning, i128)> {
        let meaning = *self.meanings[event.trace].get(event.raw.class().0 as usize)?;
        Some((meaning, event.ns.filter(|_| meaning != CallMeaning::None)?))
    }
}

/// Names of functions, each once, in the order in which they were met.
#[derive(Default)]
struct Names {
    list: Vec<Vec<u8>>,
    known: HashSet<Vec<u8>>,
}

impl Names {
    fn add(&mut self, name: &[u8]) {
        if self.list.len() < MAX_NAMES && !self.known.contains(name) {
            self.known.insert(name.to_vec());
            self.list.push(name.to_vec());
        }
    }
}

/// Whether something ends, and what it is called; `None` when nothing begins or ends that has a name.
fn half_of((shape, title): (EventShape, String)) -> Option<(bool, Option<String>)> {
    match shape {
        EventShape::Instant => None,
        EventShape::Begin => Some((false, Some(title))),
        EventShape::End { says_title } => Some((true, Some(title).filter(|_| says_title))),
    }
    .filter(|(_, title)| title.as_deref() != Some(""))
}

/// A symbol of which nothing but its name is known, and maybe its module.
fn symbol_of(name: String, module: Option<String>) -> CallSymbol {
    CallSymbol { name, module, is_library_call: false, size: 0 }
}

impl CallContents {
    /// The contents from the values of an event. Without a thread it is of its stream's, without a process of its trace's.
    fn from_event(event: &Event, values: &[(usize, KeyValue)]) -> Self {
        CallContents {
            task: number(values, TASK).unwrap_or((event.trace as i128) << 32 | event.stream as i128),
            process: number(values, PROCESS).unwrap_or(event.trace as i128),
            name: text(values, TASK_NAME),
            address: number(values, ADDRESS).map_or(0, |address| address as u64),
        }
    }
}

fn value(values: &[(usize, KeyValue)], field: usize) -> Option<&KeyValue> {
    values.iter().find(|(index, _)| *index == field).map(|(_, value)| value)
}

fn number(values: &[(usize, KeyValue)], field: usize) -> Option<i128> {
    match value(values, field)? {
        KeyValue::Integer(value) => Some(*value),
        KeyValue::Bool(value) => Some(i128::from(*value)),
        _ => None,
    }
}

/// The meaning of the text of an event.
fn mark(values: &[(usize, KeyValue)]) -> Option<Mark<'_>> {
    match value(values, MARK)? {
        KeyValue::Text(text) => Mark::parse(text),
        _ => None,
    }
}

fn text(values: &[(usize, KeyValue)], field: usize) -> Option<String> {
    match value(values, field)? {
        KeyValue::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// The name of the function when an event of this name is meant: empty when the pattern has no `*`.
fn function_of<'n>(pattern: &str, name: &'n str) -> Option<&'n str> {
    let parts: Vec<&str> = pattern.split('*').collect();
    match parts.as_slice() {
        [whole] => (*whole == name).then_some(""),
        [before, after] => name.strip_prefix(before)?.strip_suffix(after),
        [before, middle, _] => {
            let rest = name.strip_prefix(before)?;
            rest.find(middle).map(|at| &rest[..at])
        }
        _ => None,
    }
    .filter(|function| parts.len() == 1 || !function.is_empty())
}

/// The ns from one time to another, as records of calls count them.
fn since(base_ns: i128, ns: i128) -> u64 {
    (ns - base_ns).clamp(0, u64::MAX.into()) as u64
}

impl CallSource for EventCalls {
    fn tasks(&self) -> &[CallTask] {
        &self.tasks
    }

    fn is_mixed(&self) -> bool {
        true
    }

    fn recording(&self) -> Recording {
        let program = self.programs.first().map(|program| program.name.clone());
        Recording { program, ..Recording::default() }
    }

    fn programs(&self) -> &[CallProgram] {
        &self.programs
    }

    fn program_at(&self, task: usize, _time: u64) -> (Option<usize>, (u64, u64)) {
        let pid = self.tasks.get(task).map(|task| task.pid);
        (self.programs.iter().position(|program| Some(program.pid) == pid), (0, u64::MAX))
    }

    fn max_depth(&self) -> usize {
        MAX_DEPTH
    }

    fn stream_count(&self) -> usize {
        1
    }

    fn open(&self, _stream: usize) -> Box<dyn CallStream + '_> {
        Box::new(MergedRecords {
            calls: self,
            events: Events::new(&self.session, &self.streams, &self.selection, self.filter.as_ref()),
            keys: KeyReader::new(&self.session, &self.fields),
            key: Vec::new(),
            cpus: CpuOf::default(),
            findings: Findings::default(),
            open: vec![OpenCalls::new(MAX_DEPTH); self.tasks.len()],
            begun: vec![false; self.tasks.len()],
            unfounded: 0,
        })
    }

    fn symbol(&self, id: u32, address: u64) -> CallSymbol {
        match self.symbols.get(id as usize).filter(|_| id > 0) {
            Some(symbol) => symbol.clone(),
            None => symbol_of(format!("<{address:x}>"), None),
        }
    }

    fn each_symbol(&self, see: &mut dyn FnMut(u32, &CallSymbol)) {
        for (id, symbol) in self.symbols.iter().enumerate().skip(1) {
            see(id as u32, symbol);
        }
    }

    fn event_name(&self, record: &CallRecord) -> String {
        format!("event:{}", record.address)
    }

    fn dump(
        &self,
        options: DumpOptions<'_>,
        want: &mut dyn FnMut(&CallRecord) -> bool,
        out: &mut dyn Write,
    ) -> io::Result<Findings> {
        let mut stream = self.open(0);
        let (mut records, mut goes_on) = (Vec::new(), true);
        while goes_on {
            records.clear();
            goes_on = stream.fill(&mut records);
            for record in &records {
                let is_in_time = options.between.is_none_or(|(from, to)| (from..=to).contains(&record.time));
                if !want(record) || !is_in_time || options.no_tasks {
                    continue;
                }
                let word = if record.kind == CallKind::Exit { "exit " } else { "entry" };
                let (seconds, ns) = (record.time / 1_000_000_000, record.time % 1_000_000_000);
                let tid = self.tasks[record.task as usize].tid;
                let (name, address, depth) =
                    (self.symbol(record.symbol, record.address).name, record.address, record.depth);
                writeln!(out, "{seconds}.{ns:09}  {tid:5}: [{word}] {name}({address:x}) depth: {depth}")?;
            }
        }
        Ok(stream.take_findings())
    }
}

/// The records of all tasks.
struct MergedRecords<'a> {
    calls: &'a EventCalls,
    events: Events<'a>,
    keys: KeyReader,
    key: Vec<u8>,
    cpus: CpuOf,
    findings: Findings,
    /// By task: symbols and addresses of the open calls.
    open: Vec<OpenCalls<(u32, u64)>>,
    /// By task: was a call seen to begin?
    begun: Vec<bool>,
    /// Ends inside of calls that they do not belong to.
    unfounded: u64,
}

impl CallStream for MergedRecords<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let MergedRecords { calls, events, keys, key, cpus, findings, open, begun, unfounded } = self;
        for _ in 0..BATCH {
            let (stream, event) = match events.next() {
                Some(Step::Event(stream, event)) => (stream, event),
                Some(Step::Note(note)) => {
                    match note {
                        Note::Fault(error) => findings.faults.push(error),
                        Note::Warning(error) => findings.warnings.push(error),
                        Note::Gap(..) => {}
                    }
                    continue;
                }
                None => {
                    if *unfounded > 0 {
                        let message = format!("{unfounded} ends of calls belong to no open call");
                        findings.warnings.push(Error::malformed(message).with_help("they are left out"));
                        *unfounded = 0;
                    }
                    return false;
                }
            };
            let half = calls.half(&event, &keys.values(&event, key));
            let Some(CallEdge { task, time, symbol, address, is_exit }) = half else { continue };
            let open = &mut open[task as usize];
            let cpu = cpus.cpu(stream, &event.raw.chunk.packet).and_then(|cpu| u16::try_from(cpu).ok());
            let mut put = |(symbol, address): (u32, u64), depth: usize, kind| {
                let call = CallRecord::new(time, task, kind, CallOrigin::Task, address);
                out.push(CallRecord { symbol, depth: depth.min(MAX_DEPTH) as u16, cpu, ..call });
            };
            let call = (symbol, address);
            if !is_exit {
                begun[task as usize] = true;
                let depth = open.len();
                if open.begin(None, call) {
                    put(call, depth, CallKind::Entry);
                }
                continue;
            }
            // An end that does not say of what ends the last call.
            match open.end(None, |of| address == 0 || *of == call) {
                // The calls inside of it were left another way.
                (End::OfCall, inside) => {
                    for _ in 0..=inside {
                        if let Some(inner) = open.pop() {
                            put(inner, open.len(), CallKind::Exit);
                        }
                    }
                }
                (End::OfDeepCall, _) => {}
                // It began before the trace.
                (End::Lone, _) if !begun[task as usize] => put(call, 0, CallKind::Exit),
                (End::Lone, _) => *unfounded += 1,
            }
        }
        true
    }

    fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }
}

#[cfg(test)]
mod tests {
    use super::function_of;

    #[test]
    fn names_of_events_hold_names_of_functions() {
        assert_eq!(function_of("x:func_entry", "x:func_entry"), Some(""));
        assert_eq!(function_of("x:func_entry", "x:func_exit"), None);
        assert_eq!(function_of("*-call:*", "ip4-lookup-call: %d"), Some("ip4-lookup"));
        assert_eq!(function_of("*-call:*", "ip4-lookup-return: %d"), None);
        assert_eq!(function_of("call *", "call f"), Some("f"));
        assert_eq!(function_of("*-call:*", "-call: %d"), None);
    }
}
