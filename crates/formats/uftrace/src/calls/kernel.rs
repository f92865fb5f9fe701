//! The records of all processors of the kernel, in the order of time.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::streams::BLOCK;
use super::{CallFile, FolderCalls};
use crate::kernel::{CpuRecords, Kernel, KernelRecord};
use crate::names::SymbolNames;
use tracemill_format::calls::{
    CallJudge, CallKind, CallOrigin, CallRecord, CallStream, Findings, Judgement, first_two,
};

/// The records of all processors of the kernel, in the order of time.
pub(super) struct KernelCalls<'a> {
    kernel: Option<&'a Kernel>,
    cpus: Vec<KernelCpu<'a>>,
    /// The times of their next records; at the end of a file the largest one.
    times: Vec<u64>,
    /// The processor whose records that were ready are taken.
    spent: Option<usize>,
    tasks: TaskNumbers<'a>,
    functions: KernelFunctions<'a>,
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
struct KernelCpu<'a> {
    records: CpuRecords<'a>,
    /// Records that are ready, each after what was lost before it, and which of them is the next.
    ready: Vec<CallRecord>,
    at: usize,
    /// Records after them that the peer reads when the others are taken, where it matters when they are read: something is
    /// wrong, or a function is met that no processor has entered.
    held: Option<Vec<CallRecord>>,
    paused: Option<Box<Paused>>,
    is_at_end: bool,
    /// The task of the last record that was read, by its index and one; 0 for one that was not traced.
    last_task: u32,
    /// The file, and where the pages begin that are not read.
    rest: (&'a [u8], usize),
    path: &'a Path,
    number: Option<u16>,
}

/// A stretch of records that is not read to its end.
struct Paused {
    /// The next record.
    next: Option<KernelRecord>,
    /// Losses before it, the task before, and how many records are ready.
    lost: Option<u64>,
    before: Option<u32>,
    count: usize,
}

impl KernelCpu<'_> {
    #[inline]
    fn time(&self) -> Option<u64> {
        self.ready.get(self.at).map(|next| next.time)
    }
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
    fn get(&self, tid: i64) -> Option<u32> {
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
struct KernelFunctions<'a> {
    names: &'a SymbolNames,
    all: Vec<KernelFunction>,
    by_address: HashMap<u64, u32>,
    /// Their places in `all`, by the ends of their addresses.
    recent: Vec<u32>,
}

/// A function of the kernel.
#[derive(Clone, Copy)]
struct KernelFunction {
    address: u64,
    symbol: u32,
    /// Exits from functions that were never entered are left out: the trace began inside of them.
    is_entered: bool,
}

/// A power of two.
const RECENT_FUNCTIONS: usize = 1024;

impl<'a> KernelFunctions<'a> {
    fn new(names: &'a SymbolNames) -> Self {
        KernelFunctions { names, all: Vec::new(), by_address: HashMap::new(), recent: vec![0; RECENT_FUNCTIONS] }
    }

    #[inline]
    fn entry(&mut self, address: u64) -> &mut KernelFunction {
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
            self.all.push(KernelFunction { address, symbol: self.names.kernel_id(address), is_entered: false });
        }
        self.recent[slot] = at;
        at as usize
    }
}

impl<'a> KernelCalls<'a> {
    pub(super) fn new(calls: &'a FolderCalls, files: Range<usize>, between: (u64, u64), is_near: bool) -> Self {
        let kernel = calls.definitions.kernel.as_deref();
        let cpus = files.filter_map(|at| match (&calls.files[at], kernel) {
            (CallFile::Kernel(number, bytes), Some(kernel)) => {
                let bytes = bytes.bytes();
                let pages = if is_near { kernel.pages_around(bytes, between) } else { (0, bytes.len()) };
                let records = CpuRecords::from_pages(kernel, bytes, pages);
                let (ready, rest, path) = (Vec::new(), (bytes, pages.1), &*calls.paths[at]);
                Some(KernelCpu {
                    records,
                    ready,
                    at: 0,
                    held: None,
                    paused: None,
                    is_at_end: false,
                    last_task: 0,
                    rest,
                    path,
                    number: u16::try_from(*number).ok(),
                })
            }
            _ => None,
        });
        // No task has this id.
        let none = || Cell::new((i64::MIN, None));
        KernelCalls {
            kernel,
            cpus: cpus.collect(),
            times: Vec::new(),
            spent: None,
            tasks: TaskNumbers { all: &calls.numbers, recent: std::array::from_fn(|_| none()) },
            functions: KernelFunctions::new(&calls.definitions.names),
            between,
            judge: None,
            findings: Findings::default(),
        }
    }

    /// Makes the next records of traced tasks be there.
    #[cold]
    fn load(&mut self, at: usize) {
        let cpu = &mut self.cpus[at];
        cpu.at = 0;
        cpu.ready.clear();
        if let Some(held) = cpu.held.take() {
            cpu.ready = held;
            if cpu.paused.is_none() {
                return self.collect_faults(at);
            }
        }
        let mut from = 0;
        loop {
            self.read_stretch(at, from > 0);
            let cpu = &mut self.cpus[at];
            if cpu.paused.is_some() {
                cpu.held = Some(cpu.ready.split_off(from));
                return;
            }
            for event in cpu.ready[from..].iter_mut().filter(|record| record.kind == CallKind::Event) {
                event.symbol = cpu.last_task;
            }
            if !cpu.records.faults.is_empty() {
                if from == 0 {
                    return self.collect_faults(at);
                }
                cpu.held = Some(cpu.ready.split_off(from));
                return;
            }
            // A judge's decisions depend on records that others read meanwhile.
            if cpu.is_at_end || cpu.ready.len() >= BLOCK || self.judge.is_some() {
                return;
            }
            from = cpu.ready.len();
        }
    }

    /// Tells what is wrong with a file.
    fn collect_faults(&mut self, at: usize) {
        let cpu = &mut self.cpus[at];
        let faults = cpu.records.faults.drain(..).map(|error| error.in_file(cpu.path));
        self.findings.faults.extend(faults);
    }

    /// Reads the records that the peer reads at once. Ahead of the time when it reads them this pauses at the first one of
    /// a function that was not entered.
    fn read_stretch(&mut self, at: usize, is_ahead: bool) {
        let cpu = &mut self.cpus[at];
        let (mut next, mut lost, mut before, mut count) = match cpu.paused.take() {
            None => (None, None, None, 0),
            Some(paused) => (paused.next, paused.lost, paused.before, paused.count),
        };
        while count < READ_AHEAD {
            let is_traced = |tid: i64| self.tasks.get(tid).is_some();
            let Some(next) = next.take().or_else(|| cpu.records.next(is_traced)) else {
                cpu.is_at_end = true;
                // The peer reads on to the end of the file.
                let last = self.kernel.and_then(|it| CpuRecords::last_task(it, cpu.rest.0, cpu.rest.1, is_traced));
                cpu.last_task = last.map_or(cpu.last_task, |tid| self.tasks.get(tid).map_or(0, |task| task + 1));
                break;
            };
            // A loss before a record that is earlier than the time range lies before the range, too.
            lost = next.lost.or(lost).filter(|_| next.time >= self.between.0);
            let task = self.tasks.get(next.tid);
            cpu.last_task = task.map_or(0, |task| task + 1);
            let Some(task) = task.filter(|_| (self.between.0..=self.between.1).contains(&next.time)) else { continue };
            let record = match next.call {
                Some((address, depth, is_exit)) => {
                    let function = self.functions.entry(address);
                    if is_ahead && !function.is_entered {
                        let next = Some(KernelRecord { lost: None, ..next });
                        cpu.paused = Some(Box::new(Paused { next, lost, before, count }));
                        return;
                    }
                    if is_exit && !function.is_entered {
                        continue;
                    }
                    function.is_entered = true;
                    let kind = if is_exit { CallKind::Exit } else { CallKind::Entry };
                    let call = CallRecord::new(next.time, task, kind, CallOrigin::Kernel, address);
                    CallRecord { depth, symbol: function.symbol, cpu: cpu.number, ..call }
                }
                None => CallRecord {
                    values: next.from as u64 | (at as u64) << 48,
                    values_len: next.len as u32,
                    has_values: true,
                    cpu: cpu.number,
                    ..CallRecord::new(next.time, task, CallKind::Event, CallOrigin::Kernel, next.id.into())
                },
            };
            let is_exit = record.kind == CallKind::Exit;
            let judgement = match &mut self.judge {
                Some(judge) => judge.judge(&record),
                None => Judgement::default(),
            };
            if judgement.is_dropped && is_exit {
                continue;
            }
            let is_other = before.replace(task).is_some_and(|before| before != task);
            let is_left_out = |entry: &usize| {
                let is_short = next.time.wrapping_sub(cpu.ready[*entry].time) < judgement.threshold;
                (is_short || judgement.is_unwanted) && !judgement.is_shown
            };
            let entry = || cpu.ready.iter().rposition(CallRecord::is_call).filter(is_left_out);
            // Calls are left out only where there is a judge.
            if is_exit
                && self.judge.is_some()
                && let Some(entry) = entry()
            {
                // A loss before a call that is left out is reported with the next one.
                let has_lost = entry > 0 && cpu.ready[entry - 1].kind == CallKind::Lost;
                let left_out = cpu.ready.drain(entry - usize::from(has_lost)..);
                let (losses, left_out): (Vec<_>, Vec<_>) = left_out.partition(|record| record.kind == CallKind::Lost);
                count -= left_out.len();
                lost = losses.first().map(|loss| loss.address).or(lost);
            } else if !judgement.is_dropped {
                if let Some(lost) = lost.take() {
                    cpu.ready.push(CallRecord::new(record.time, record.task, CallKind::Lost, record.origin, lost));
                }
                cpu.ready.push(record);
                count += 1;
                if is_exit {
                    break;
                }
            }
            if is_other && count > 0 {
                break;
            }
        }
    }

    /// Takes the next records of a processor, all that come before those of the others, `room` at most, each with what
    /// was lost before it; false at the end.
    #[inline]
    fn next_records(&mut self, out: &mut Vec<CallRecord>, room: usize) -> bool {
        if self.spent.is_some() || self.times.is_empty() {
            self.load_spent();
        }
        let [first, limit] = first_two(&self.times);
        let at = match first.1 {
            // A record may have the largest time.
            usize::MAX => self.cpus.iter().position(|cpu| cpu.time().is_some()).unwrap_or(usize::MAX),
            at => at,
        };
        let Some(cpu) = self.cpus.get_mut(at) else { return false };
        let ready = cpu.ready.get(cpu.at..).unwrap_or(&[]);
        // At equal times the first processor goes on.
        let end = limit.0.saturating_add(u64::from(at < limit.1 && limit.0 < u64::MAX));
        let mut count = 0;
        let mut taken = 0;
        while let Some(record) = ready.get(count).filter(|record| count == 0 || taken == 0 || record.time < end)
            && taken < room.max(1)
        {
            taken += usize::from(record.kind != CallKind::Lost);
            count += 1;
        }
        out.extend_from_slice(&ready[..count]);
        cpu.at += count;
        match cpu.time() {
            Some(time) => self.times[at] = time,
            None => self.spent = Some(at),
        }
        true
    }

    /// Makes the next records of a processor be there whose others are taken, or of all in the beginning.
    #[cold]
    fn load_spent(&mut self) {
        let all = 0..self.cpus.len();
        let spent = self.spent.take().map_or(all, |at| at..at + 1);
        self.times.resize(self.cpus.len(), u64::MAX);
        for at in spent {
            let cpu = &self.cpus[at];
            if cpu.is_at_end && cpu.held.is_none() {
                self.cpus[at].ready.clear();
            } else {
                self.load(at);
            }
            self.times[at] = self.cpus[at].time().unwrap_or(u64::MAX);
        }
    }
}

impl CallStream for KernelCalls<'_> {
    fn set_judge(&mut self, judge: &mut Option<Box<dyn CallJudge>>) {
        self.judge = judge.take();
    }

    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        if self.judge.is_some() {
            return self.next_records(out, 1);
        }
        let end = out.len() + BLOCK;
        while out.len() < end {
            if !self.next_records(out, end - out.len()) {
                return false;
            }
        }
        true
    }

    fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }
}
