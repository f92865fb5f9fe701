//! The records of all processors of the kernel, in the order of time.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::Path;

use super::streams::BLOCK;
use super::{CallFile, Calls, bare};
use crate::kernel::{CpuRecords, Kernel};
use crate::names::Names;
use tracemill_format::calls::{CallJudge, CallKind, CallOrigin, CallRecord, CallStream, Findings, Judgement};

/// The records of all processors of the kernel, in the order of time.
pub(super) struct KernelCalls<'a> {
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
    /// Exits from functions that were never entered are left out: the trace began inside of them.
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
    pub(super) fn new(calls: &'a Calls, files: Range<usize>, between: (u64, u64), is_near: bool) -> Self {
        let kernel = calls.definitions.kernel.as_deref();
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
            functions: Functions::new(&calls.definitions.names),
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
                values: next.from as u64 | (at as u64) << 48,
                symbol: cpu.last_task,
                values_len: next.len as u32,
                has_values: true,
                ..bare(next.time, task, CallKind::Event, CallOrigin::Kernel, next.id.into())
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
            out.push(bare(record.time, record.task, CallKind::Lost, record.origin, count));
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
