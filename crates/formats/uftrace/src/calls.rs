//! The records of a folder as calls.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;

use super::arguments::Signatures;
use super::classes::{EXTERNAL, EventNames};
use super::dump::{self, Header};
use super::events::{OpenCalls, torn_record, unfounded, wrong_magic};
use super::info::feature;
use super::kernel::{CpuRecords, Kernel};
use super::layout::{MAX_ERRORS, hex};
use super::messages;
use super::names::{Module, Names, Resolver};
use super::naming::shown;
use super::perf;
use super::records::{Kind, Payload, RECORD, Record, Step, TaskBytes};
use super::slices;
use super::values;
use tracemill_format::Demangle;
use tracemill_format::calls::{
    CallJudge, CallKind, CallOrigin, CallProgram, CallRecord, CallSource, CallStream, CallSymbol, CallTask,
    DumpOptions, Findings, Judgement, Recording, ValueStyle, event_id,
};

/// Records of a block.
const BLOCK: usize = 1024;
/// Calls that may be open when the folder does not say.
const MAX_STACK: usize = 65_535;

/// A file of records.
pub(super) enum CallFile {
    /// Of the task of this number.
    Task(usize, Arc<dyn Bytes>),
    /// Of the processor of this number.
    Kernel(u32, Arc<dyn Bytes>),
    Perf(Arc<dyn Bytes>),
    Messages(Arc<dyn Bytes>),
}

/// A finding about a file.
fn place(error: Error, at: usize, path: &Path) -> Error {
    error.at_offset(at as u64).in_file(path)
}

/// The calls of a folder.
pub(super) struct Calls {
    pub order: ByteOrder,
    pub names: Arc<Names>,
    pub event_names: Arc<EventNames>,
    pub signatures: Arc<Signatures>,
    pub kernel: Option<Arc<Kernel>>,
    pub tasks: Vec<CallTask>,
    /// The index of each task that has a file, by its id.
    pub numbers: HashMap<i64, u32>,
    pub programs: Vec<CallProgram>,
    /// In the order in which records of equal time are taken.
    pub files: Vec<CallFile>,
    /// The path of each.
    pub paths: Vec<PathBuf>,
    /// Was the task forked, so that its calls began in another one?
    pub is_forked: Vec<bool>,
    pub max_stack: Option<u16>,
    pub default_options: Vec<String>,
    pub header: Header,
    /// Are there files of the perf rings? uftrace does not show the feature without them.
    pub has_perf: bool,
    pub recording: Recording,
    pub demangle: Demangle,
}

impl Calls {
    pub(super) fn task<'a>(&'a self, bytes: &'a [u8], tid: i64) -> TaskBytes<'a> {
        TaskBytes {
            bytes,
            order: self.order,
            signatures: &self.signatures,
            resolver: Resolver::new(&self.names, tid),
            is_64_bit: self.names.is_64_bit,
        }
    }

    /// The bytes of the values of a record, and their list for calls.
    fn values(&self, record: &CallRecord) -> Option<&[u8]> {
        // Files of processors say their number.
        let number = (record.values >> 48) as usize;
        let mut files = self.files.iter().filter_map(|file| match (file, record.origin) {
            (CallFile::Task(task, bytes), CallOrigin::Task) if *task == record.task as usize => Some(bytes),
            (CallFile::Messages(bytes), CallOrigin::Outside) => Some(bytes),
            (CallFile::Kernel(_, bytes), CallOrigin::Kernel) => Some(bytes),
            (CallFile::Perf(bytes), CallOrigin::System) => Some(bytes),
            _ => None,
        });
        let bytes =
            files.nth(if matches!(record.origin, CallOrigin::Kernel | CallOrigin::System) { number } else { 0 })?;
        let from = (record.values & ((1 << 48) - 1)) as usize;
        bytes.bytes().get(from..from.checked_add(record.values_len as usize)?)
    }
}

impl Calls {
    /// Which of the files are the kernel's; they stand side by side.
    fn kernel_files(&self) -> std::ops::Range<usize> {
        let is_kernel = |file: &CallFile| matches!(file, CallFile::Kernel(..));
        let start = self.files.iter().position(is_kernel).unwrap_or(self.files.len());
        start..start + self.files[start..].iter().take_while(|file| is_kernel(file)).count()
    }

    /// Appends an event of the kernel as the kernel would have printed it.
    pub(super) fn put_kernel_event(&self, id: u64, record: &[u8], out: &mut Vec<u8>) {
        let Some(format) = self.kernel.as_ref().and_then(|kernel| kernel.format(id)) else {
            out.extend_from_slice(hex(record).as_bytes());
            return;
        };
        let name = |address: u64, with_offset: bool| {
            let symbol = self.names.symbol(self.names.kernel_id(address))?;
            let name = shown(symbol.name, self.demangle);
            match with_offset {
                true => Some(format!("{name}+{:#x}/{:#x}", address - symbol.address, symbol.size)),
                false => Some(name),
            }
        };
        format.print.put(record, &name, out);
    }

    /// The first file of a stream: the kernel's are one.
    fn file_of(&self, stream: usize) -> usize {
        let kernel = self.kernel_files();
        if stream > kernel.start { stream + kernel.len().saturating_sub(1) } else { stream }
    }

    /// Reads what all files of the kernel have of a stretch of time; only the pages around it, if that is wanted.
    pub(super) fn kernel_between(&self, between: (u64, u64), is_near: bool) -> Box<dyn CallStream + '_> {
        Box::new(KernelCalls::new(self, self.kernel_files(), between, is_near))
    }

    /// Reads a file; of a task's what begins in a part of it, which begins where a record does.
    fn open_at(&self, stream: usize, start: usize, end: usize) -> Box<dyn CallStream + '_> {
        match &self.files[stream] {
            CallFile::Kernel(..) => self.kernel_between((0, u64::MAX), false),
            CallFile::Task(task, bytes) => {
                let tid = self.tasks[*task].tid;
                let bytes = bytes.bytes();
                Box::new(TaskCalls {
                    task: self.task(&bytes[..end.min(bytes.len())], tid),
                    number: *task as u32,
                    at: start,
                    time: 0,
                    path: &self.paths[stream],
                    open_calls: OpenCalls::new(!self.is_forked[*task] && start == 0),
                    unread: None,
                    findings: Findings::default(),
                })
            }
            CallFile::Perf(bytes) => {
                let before = self.files[..stream].iter().filter(|file| matches!(file, CallFile::Perf(_))).count();
                Box::new(PerfCalls {
                    bytes: bytes.bytes(),
                    order: self.order,
                    numbers: &self.numbers,
                    at: 0,
                    file: before as u64,
                    path: &self.paths[stream],
                    findings: Findings::default(),
                })
            }
            CallFile::Messages(bytes) => {
                // Without tasks there is none that they could belong to.
                let has_tasks = !self.tasks.is_empty();
                let messages = if has_tasks { messages::places(bytes.bytes()) } else { Vec::new() };
                Box::new(MessageCalls { messages: messages.into_iter() })
            }
        }
    }
}

impl CallSource for Calls {
    fn tasks(&self) -> &[CallTask] {
        &self.tasks
    }

    fn is_estimated(&self) -> bool {
        self.header.features & feature::ESTIMATE_RETURN != 0
    }

    fn has_reference(&self) -> bool {
        true
    }

    fn recording(&self) -> Recording {
        self.recording.clone()
    }

    fn programs(&self) -> &[CallProgram] {
        &self.programs
    }

    fn program_at(&self, task: usize, time: u64) -> (Option<usize>, (u64, u64)) {
        let tid = self.tasks.get(task).map_or(0, |task| task.tid);
        (self.names.tasks.session_at(tid, time), self.names.tasks.unchanged_around(time))
    }

    fn max_depth(&self) -> usize {
        self.max_stack.map_or(MAX_STACK, usize::from)
    }

    fn stream_count(&self) -> usize {
        // The kernel's files are one stream: they share what is known of its functions.
        self.files.len() - self.kernel_files().len().saturating_sub(1)
    }

    fn open(&self, stream: usize) -> Box<dyn CallStream + '_> {
        self.open_at(self.file_of(stream), 0, usize::MAX)
    }

    fn open_between(&self, stream: usize, from: u64, to: u64) -> Box<dyn CallStream + '_> {
        let stream = self.file_of(stream);
        if matches!(self.files[stream], CallFile::Kernel(..)) {
            return self.kernel_between((from, to), true);
        }
        let (mut start, mut end) = (0, usize::MAX);
        if let CallFile::Task(task, bytes) = &self.files[stream] {
            let mut task = self.task(bytes.bytes(), self.tasks[*task].tid);
            (start, end) = slices::around(&mut task, from, to);
        }
        self.open_at(stream, start, end)
    }

    fn symbol(&self, id: u32, address: u64) -> CallSymbol {
        let module = self.names.module(id).filter(|_| id > 0).map(|module| module.name().to_string());
        match self.names.symbol(id).filter(|_| id > 0) {
            Some(symbol) => CallSymbol {
                name: shown(symbol.name, self.demangle),
                module,
                is_library_call: symbol.kind == b'P',
                size: symbol.size,
            },
            None => CallSymbol { name: format!("<{address:x}>"), module, is_library_call: false, size: 0 },
        }
    }

    fn each_symbol(&self, see: &mut dyn FnMut(u32, &CallSymbol)) {
        for (at, module) in self.names.modules.iter().enumerate() {
            for symbol_at in 0..module.symbols.get().len() {
                let id = self.names.id(at, Some(symbol_at));
                see(id, &self.symbol(id, 0));
            }
        }
    }

    fn source_file(&self, id: u32) -> Option<String> {
        let (module, symbol) = (self.names.module(id)?, self.names.symbol(id)?);
        let (_, file) = module.debug.functions.get(&symbol.address)?.source.as_ref()?;
        Some(file.to_string())
    }

    fn source_line(&self, id: u32) -> Option<(String, u32)> {
        let (module, symbol) = (self.names.module(id)?, self.names.symbol(id)?);
        // As the peer, which shows none for functions that several modules may have.
        if !matches!(symbol.kind, b'T' | b't') {
            return None;
        }
        let (line, file) = module.debug.functions.get(&symbol.address)?.source.as_ref()?;
        Some((file.to_string(), *line))
    }

    fn shown_name(&self, stored: &str) -> String {
        shown(stored, self.demangle)
    }

    fn library_of(&self, name: &str) -> Option<String> {
        // The program itself may have a copy of what it calls in a library.
        let is_program =
            |module: &Module| self.names.tasks.sessions.iter().any(|session| session.exename == module.path);
        let has = |module: &&Module| {
            if is_program(module) {
                return false;
            }
            let mut symbols = module.symbols.get().iter();
            symbols.any(|symbol| symbol.kind != b'P' && shown(symbol.name, self.demangle) == name)
        };
        self.names.modules.iter().find(has).map(|module| module.name().to_string())
    }

    fn put_values(&self, record: &CallRecord, style: ValueStyle, out: &mut Vec<u8>) {
        let list = self.signatures.list(record.symbol, record.kind == CallKind::Exit);
        let (Some(specs), Some(payload)) = (self.signatures.lists.get(list as usize), self.values(record)) else {
            return;
        };
        let tid = self.tasks.get(record.task as usize).map_or(0, |task| task.tid);
        let name_of = |address: u64| {
            let id = self.names.id_at(tid, record.time, address);
            self.names.symbol(id).filter(|_| id > 0).map(|symbol| shown(symbol.name, self.demangle))
        };
        values::put(specs, payload, self.order, self.names.is_64_bit, style, &name_of, out);
    }

    fn event_name(&self, record: &CallRecord) -> String {
        self.event_names.name(record.address as u32)
    }

    fn put_event_data(&self, record: &CallRecord, out: &mut Vec<u8>) {
        let Some(data) = self.values(record).filter(|_| record.has_values) else { return };
        match record.address {
            id if record.origin == CallOrigin::Kernel => self.put_kernel_event(id, data, out),
            event_id::TASK_NAME => {
                out.extend_from_slice(b"comm=\"");
                out.extend_from_slice(data);
                out.push(b'"');
            }
            event_id::EXTERNAL => out.extend_from_slice(data),
            id => {
                let mut text = String::new();
                values::put_event(id as u32, data, self.order, true, &mut text);
                out.extend_from_slice(text.as_bytes());
            }
        }
    }

    fn dump(
        &self,
        options: DumpOptions<'_>,
        want: &mut dyn FnMut(&CallRecord) -> bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        dump::write(self, options, want, out)
    }

    fn default_options(&self) -> &[String] {
        &self.default_options
    }
}

/// The records of a task.
struct TaskCalls<'a> {
    task: TaskBytes<'a>,
    number: u32,
    at: usize,
    time: u64,
    path: &'a Path,
    open_calls: OpenCalls,
    /// Where the first values are that cannot be read, and how many are.
    unread: Option<(usize, u64)>,
    findings: Findings,
}

impl TaskCalls<'_> {
    /// Appends the calls without values that come next, up to `end` records.
    fn plain_calls(&mut self, out: &mut Vec<CallRecord>, end: usize) {
        let bytes = self.task.bytes;
        let rest = bytes.get(self.at..).unwrap_or(&[]);
        for chunk in rest.chunks_exact(RECORD).take(end.saturating_sub(out.len())) {
            let Some(record) = Record::of(chunk, self.task.order).filter(|record| record.is_plain_call()) else {
                return;
            };
            let address = self.task.address(record);
            let symbol = self.task.resolver.id(record.time, address);
            let is_exit = record.kind() == Kind::Exit;
            if self.open_calls.is_unfounded(record.depth(), is_exit) {
                self.findings.warnings.push(place(unfounded(record.depth()), self.at, self.path));
            }
            self.time = record.time;
            self.at += RECORD;
            out.push(CallRecord {
                time: record.time,
                address,
                values: 0,
                symbol,
                task: self.number,
                values_len: 0,
                depth: record.depth(),
                kind: if is_exit { CallKind::Exit } else { CallKind::Entry },
                origin: CallOrigin::Task,
                has_values: false,
            });
        }
    }
}

impl CallStream for TaskCalls<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let end = out.len() + BLOCK;
        out.reserve(BLOCK);
        while out.len() < end {
            self.plain_calls(out, end);
            if out.len() >= end {
                break;
            }
            match self.task.step(self.at, self.time) {
                Step::Record { record, symbol, payload, next } => {
                    let (kind, address) = match record.kind() {
                        Kind::Entry => (CallKind::Entry, self.task.address(record)),
                        Kind::Exit => (CallKind::Exit, self.task.address(record)),
                        Kind::Lost => (CallKind::Lost, record.address()),
                        Kind::Event => (CallKind::Event, record.address()),
                    };
                    if kind != CallKind::Lost {
                        self.time = record.time;
                    }
                    let (values, values_len, has_values) = match payload {
                        Payload::None => (0, 0, false),
                        Payload::Values { from, len, .. } | Payload::Data { from, len } => (from, len, true),
                        Payload::Unknown | Payload::Torn => {
                            self.unread.get_or_insert((self.at, 0)).1 += 1;
                            (0, 0, false)
                        }
                    };
                    match kind {
                        CallKind::Entry | CallKind::Exit => {
                            let is_exit = kind == CallKind::Exit;
                            if self.open_calls.is_unfounded(record.depth(), is_exit) {
                                let error = unfounded(record.depth());
                                self.findings.warnings.push(place(error, self.at, self.path));
                            }
                        }
                        CallKind::Lost => self.open_calls.forget(),
                        CallKind::Event => {}
                    }
                    out.push(CallRecord {
                        time: record.time,
                        address,
                        values: values as u64,
                        symbol,
                        task: self.number,
                        values_len: values_len as u32,
                        depth: record.depth(),
                        kind,
                        origin: CallOrigin::Task,
                        has_values,
                    });
                    self.at = next;
                }
                Step::Bad { magic } => {
                    self.open_calls.forget();
                    let next = self.task.resume(self.at + 8, self.time, usize::MAX);
                    let end = next.unwrap_or(self.task.bytes.len());
                    if self.findings.faults.len() < MAX_ERRORS {
                        let error = wrong_magic(magic, end - self.at, next.map(|next| next as u64));
                        self.findings.faults.push(place(error, self.at, self.path));
                    }
                    self.at = end;
                }
                Step::Torn => {
                    let left = self.task.bytes.len().saturating_sub(self.at);
                    if left > 0 {
                        self.findings.faults.push(place(torn_record(left), self.at, self.path));
                    }
                    if let Some((at, count)) = self.unread {
                        let message = format!("the values of {count} calls and events cannot be read");
                        let error = Error::malformed(message).with_help("they are left out");
                        self.findings.faults.push(place(error, at, self.path));
                    }
                    return false;
                }
            }
        }
        true
    }

    fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }
}

/// The records of a processor.
struct PerfCalls<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    numbers: &'a HashMap<i64, u32>,
    at: usize,
    file: u64,
    path: &'a Path,
    findings: Findings,
}

impl CallStream for PerfCalls<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let end = out.len() + BLOCK;
        while out.len() < end {
            let (next, found) = match perf::next(self.bytes, self.order, self.at) {
                Some(Ok(found)) => found,
                Some(Err(error)) => {
                    self.findings.faults.push(error.in_file(self.path));
                    return false;
                }
                None => return false,
            };
            self.at = next;
            let Some(found) = found else { continue };
            let Some(&task) = self.numbers.get(&i64::from(found.tid)) else { continue };
            let (from, len) = found.name;
            out.push(CallRecord {
                time: found.time,
                address: u64::from(found.id),
                values: from as u64 | self.file << 48,
                symbol: 0,
                task,
                values_len: len as u32,
                depth: 0,
                kind: CallKind::Event,
                origin: CallOrigin::System,
                has_values: u64::from(found.id) == event_id::TASK_NAME,
            });
        }
        true
    }

    fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }
}

/// The records of all processors of the kernel, in the order of time.
struct KernelCalls<'a> {
    kernel: Option<&'a Kernel>,
    cpus: Vec<Cpu<'a>>,
    tasks: TaskNumbers<'a>,
    functions: Functions<'a>,
    /// The first and the last time of what is wanted.
    between: (u64, u64),
    /// Decides which calls are wanted, unless all are.
    judge: Option<Box<dyn CallJudge>>,
    findings: Findings,
}

/// A processor, and its next records.
///
/// uftrace reads records up to the first one of another task, or to the end of a call, and takes all of them for those
/// of the task of the last record that it has read. Here that decides only when a task that waits is taken to run again.
struct Cpu<'a> {
    records: CpuRecords<'a>,
    ready: VecDeque<Ready>,
    is_at_end: bool,
    /// The task of the last record that was read, by its index and one; 0 for one that was not traced.
    last_task: u32,
    /// The file, and where the pages begin that are not read.
    rest: (&'a [u8], usize),
    path: &'a Path,
}

/// A record, and how many were lost before it.
struct Ready {
    record: CallRecord,
    lost: Option<u64>,
}

/// Records of a processor that are read ahead.
const READ_AHEAD: usize = 4096;

/// The numbers of tasks by their ids; those that were asked for last are at hand.
struct TaskNumbers<'a> {
    all: &'a HashMap<i64, u32>,
    recent: [Cell<(i64, Option<u32>)>; RECENT_TASKS],
}

/// A power of two.
const RECENT_TASKS: usize = 16;

impl TaskNumbers<'_> {
    #[inline]
    fn of(&self, tid: i64) -> Option<u32> {
        let recent = &self.recent[tid as usize % RECENT_TASKS];
        let (known, number) = recent.get();
        if known == tid {
            return number;
        }
        let number = self.all.get(&tid).copied();
        recent.set((tid, number));
        number
    }
}

/// The functions of the kernel that were met; those that were met last are at hand.
struct Functions<'a> {
    names: &'a Names,
    all: Vec<Function>,
    by_address: HashMap<u64, u32>,
    /// Their places in `all`, by the ends of their addresses.
    recent: Vec<u32>,
}

/// A function of the kernel.
#[derive(Clone, Copy)]
struct Function {
    address: u64,
    symbol: u32,
    /// What is left and was never entered is left out: the trace began inside of it.
    is_entered: bool,
}

/// A power of two.
const RECENT_FUNCTIONS: usize = 1024;

impl<'a> Functions<'a> {
    fn new(names: &'a Names) -> Self {
        Functions { names, all: Vec::new(), by_address: HashMap::new(), recent: vec![0; RECENT_FUNCTIONS] }
    }

    #[inline]
    fn at(&mut self, address: u64) -> &mut Function {
        // Functions begin at multiples of 16.
        let slot = (address ^ address >> 4 ^ address >> 14) as usize % RECENT_FUNCTIONS;
        let recent = self.recent[slot] as usize;
        let is_known = self.all.get(recent).is_some_and(|function| function.address == address);
        let at = if is_known { recent } else { self.find(address, slot) };
        &mut self.all[at]
    }

    #[cold]
    fn find(&mut self, address: u64, slot: usize) -> usize {
        let next = self.all.len() as u32;
        let at = *self.by_address.entry(address).or_insert(next);
        if at == next {
            self.all.push(Function { address, symbol: self.names.kernel_id(address), is_entered: false });
        }
        self.recent[slot] = at;
        at as usize
    }
}

impl<'a> KernelCalls<'a> {
    fn new(calls: &'a Calls, files: std::ops::Range<usize>, between: (u64, u64), is_near: bool) -> Self {
        let kernel = calls.kernel.as_deref();
        let cpus = files.filter_map(|at| match (&calls.files[at], kernel) {
            (CallFile::Kernel(_, bytes), Some(kernel)) => {
                let bytes = bytes.bytes();
                let pages = if is_near { kernel.pages_around(bytes, between) } else { (0, bytes.len()) };
                let records = CpuRecords::of_pages(kernel, bytes, pages);
                let (ready, rest) = (VecDeque::new(), (bytes, pages.1));
                Some(Cpu { records, ready, is_at_end: false, last_task: 0, rest, path: &calls.paths[at] })
            }
            _ => None,
        });
        // No task has this id.
        let none = || Cell::new((i64::MIN, None));
        KernelCalls {
            kernel,
            cpus: cpus.collect(),
            tasks: TaskNumbers { all: &calls.numbers, recent: std::array::from_fn(|_| none()) },
            functions: Functions::new(&calls.names),
            between,
            judge: None,
            findings: Findings::default(),
        }
    }

    /// Makes the next records of traced tasks be there.
    fn load(&mut self, at: usize) {
        let cpu = &mut self.cpus[at];
        let (mut lost, mut before) = (None, None);
        while cpu.ready.len() < READ_AHEAD {
            let is_traced = |tid: i64| self.tasks.of(tid).is_some();
            let Some(next) = cpu.records.next(is_traced) else {
                cpu.is_at_end = true;
                // The peer reads on to the end of the file.
                let last = self.kernel.and_then(|it| CpuRecords::last_task(it, cpu.rest.0, cpu.rest.1, is_traced));
                cpu.last_task = last.map_or(cpu.last_task, |tid| self.tasks.of(tid).map_or(0, |task| task + 1));
                break;
            };
            // What was lost before something earlier than the stretch of time lies before that too.
            lost = next.lost.or(lost).filter(|_| next.time >= self.between.0);
            let task = self.tasks.of(next.tid);
            cpu.last_task = task.map_or(0, |task| task + 1);
            let Some(task) = task.filter(|_| (self.between.0..=self.between.1).contains(&next.time)) else { continue };
            let mut record = CallRecord {
                time: next.time,
                address: next.id.into(),
                values: next.from as u64 | (at as u64) << 48,
                symbol: cpu.last_task,
                task,
                values_len: next.len as u32,
                depth: 0,
                kind: CallKind::Event,
                origin: CallOrigin::Kernel,
                has_values: true,
            };
            if let Some((address, depth, is_exit)) = next.call {
                let function = self.functions.at(address);
                if is_exit && !function.is_entered {
                    continue;
                }
                function.is_entered = true;
                record.kind = if is_exit { CallKind::Exit } else { CallKind::Entry };
                (record.address, record.depth, record.symbol) = (address, depth, function.symbol);
                (record.values, record.values_len, record.has_values) = (0, 0, false);
            }
            let is_exit = record.kind == CallKind::Exit;
            let judgement = match &mut self.judge {
                Some(judge) => judge.see(&record),
                None => Judgement::default(),
            };
            if judgement.is_dropped && is_exit {
                continue;
            }
            let is_other = before.replace(task).is_some_and(|before| before != task);
            let entry = || cpu.ready.iter().rposition(|before| before.record.kind != CallKind::Event);
            let is_left_out = |entry: usize| {
                let is_short = next.time.wrapping_sub(cpu.ready[entry].record.time) < judgement.threshold;
                (is_short || judgement.is_unwanted) && !judgement.is_shown
            };
            // Who judges nothing leaves nothing out.
            let may_be_left_out = is_exit && self.judge.is_some();
            if may_be_left_out && let Some(entry) = entry().filter(|&entry| is_left_out(entry)) {
                // What was lost before a call that is left out is told with the next one.
                lost = cpu.ready.drain(entry..).find_map(|left_out| left_out.lost).or(lost);
            } else if !judgement.is_dropped {
                cpu.ready.push_back(Ready { record, lost: lost.take() });
                if is_exit {
                    break;
                }
            }
            if is_other && !cpu.ready.is_empty() {
                break;
            }
        }
        if !cpu.records.faults.is_empty() {
            let faults = cpu.records.faults.drain(..).map(|error| error.in_file(cpu.path));
            self.findings.faults.extend(faults);
        }
    }

    /// Takes the next record, and what was lost before it; false at the end.
    fn take(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let mut first: Option<(u64, usize)> = None;
        for at in 0..self.cpus.len() {
            if self.cpus[at].ready.is_empty() && !self.cpus[at].is_at_end {
                self.load(at);
            }
            let time = self.cpus[at].ready.front().map(|next| next.record.time);
            if let Some(time) = time.filter(|&time| first.is_none_or(|(first, _)| time < first)) {
                first = Some((time, at));
            }
        }
        let Some(cpu) = first.and_then(|(_, at)| self.cpus.get_mut(at)) else { return false };
        let Some(Ready { mut record, lost }) = cpu.ready.pop_front() else { return false };
        if record.kind == CallKind::Event {
            record.symbol = cpu.last_task;
        }
        if let Some(count) = lost {
            let lost = CallRecord { kind: CallKind::Lost, address: count, values: 0, symbol: 0, ..record };
            out.push(CallRecord { values_len: 0, depth: 0, has_values: false, ..lost });
        }
        out.push(record);
        true
    }
}

impl CallStream for KernelCalls<'_> {
    fn be_judged(&mut self, judge: &mut Option<Box<dyn CallJudge>>) {
        self.judge = judge.take();
    }

    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        if self.judge.is_some() {
            return self.take(out);
        }
        let end = out.len() + BLOCK;
        while out.len() < end {
            if !self.take(out) {
                return false;
            }
        }
        true
    }

    fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }
}

/// The messages of other programs.
struct MessageCalls {
    messages: std::vec::IntoIter<messages::Message>,
}

impl CallStream for MessageCalls {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        out.extend(self.messages.by_ref().map(|message| CallRecord {
            time: message.time,
            address: u64::from(EXTERNAL),
            values: message.from as u64,
            symbol: 0,
            task: 0,
            values_len: (message.to - message.from) as u32,
            depth: 0,
            kind: CallKind::Event,
            origin: CallOrigin::Outside,
            has_values: true,
        }));
        false
    }
}
