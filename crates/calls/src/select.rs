//! Selection of calls.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use tracemill_format::calls::{
    CallJudge, CallKind, CallOrigin, CallRecord, CallStream, ColorStyle, Findings, Judgement, event_id,
};

use crate::rules::{Rule, Rules};

/// A stretch of time (`-r`): both ends are included, and 0 where one is open. uftrace's own words for times decide which
/// clock an end is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Where it begins, in ns.
    pub start: u64,
    /// Does that count from the first record?
    pub is_start_elapsed: bool,
    /// Where it ends, in ns.
    pub stop: u64,
    /// Does that count from the first record?
    pub is_stop_elapsed: bool,
}

impl TimeRange {
    /// Is it the whole trace?
    pub fn is_whole(&self) -> bool {
        self.start == 0 && self.stop == 0
    }

    /// Is one of its ends counted from the first record?
    pub fn is_elapsed(&self) -> bool {
        self.is_start_elapsed || self.is_stop_elapsed
    }

    /// The times that it is, when the first record has the time `first`.
    pub(crate) fn between(&self, first: u64) -> (u64, u64) {
        let from = if self.is_start_elapsed && self.start > 0 { first } else { 0 };
        let to = if self.is_stop_elapsed { first } else { 0 };
        let stop = if self.stop == 0 { u64::MAX } else { self.stop.saturating_add(to) };
        (self.start.saturating_add(from), stop)
    }
}

/// Events that are shown, unless it says otherwise those inside of functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventOptions {
    /// No events (`--no-event`).
    pub none: bool,
    /// Events outside of all functions too (`--event-full`).
    pub all: bool,
    /// No scheduling events (`--no-sched`).
    pub no_sched: bool,
    /// No scheduling events that are preemptions (`--no-sched-preempt`).
    pub no_preemptions: bool,
}

/// Calls and events of the kernel that are shown, unless it says otherwise those inside of functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelOptions {
    /// Calls outside of all functions too (`--kernel-full`).
    pub all: bool,
    /// Only the calls of the kernel (`--kernel-only`).
    pub only: bool,
}

/// Options of all commands that follow calls.
///
/// ```
/// use tracemill_calls::{CallOptions, EventOptions};
/// let events = EventOptions { no_sched: true, ..EventOptions::default() };
/// let options = CallOptions { depth: 3, time_filter: 50_000, events, ..CallOptions::default() };
/// assert!(options.tids.is_empty(), "all tasks");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOptions {
    /// Deepest calls that are shown, counted from 1 (`-D`).
    pub depth: i32,
    /// Only calls that take this many ns, and what they are inside of (`-t`); 0 for all.
    pub time_filter: u64,
    /// Only these tasks (`--tid`); empty for all.
    pub tids: Vec<i64>,
    /// Leave out calls to libraries (`--no-libcall`).
    pub no_library_calls: bool,
    /// Choice of events.
    pub events: EventOptions,
    /// Choice of what the kernel did.
    pub kernel: KernelOptions,
    /// Show nothing before a trigger asks for it (`--disable`).
    pub is_disabled: bool,
    /// The stretch of time that is wanted (`-r`).
    pub range: TimeRange,
    /// Functions that are shown, left out, or that change what is (`-F -N -C -H -T -Z`).
    pub rules: Rules,
    /// Form of the colors of the output.
    pub colors: ColorStyle,
    /// Threads that follow tasks, where a result lets them; it does not depend on their number.
    pub jobs: usize,
}

impl CallOptions {
    /// Are the calls of a task wanted?
    pub(crate) fn wants_task(&self, tid: i64) -> bool {
        self.tids.is_empty() || self.tids.contains(&tid)
    }

    /// May an empty graph be empty because of what was asked for? As in uftrace, only some of the options count.
    pub(crate) fn has_filter(&self) -> bool {
        self.rules.has_filters || self.time_filter > 0 || self.depth != CallOptions::default().depth
    }
}

impl Default for CallOptions {
    fn default() -> Self {
        CallOptions {
            depth: 1024,
            time_filter: 0,
            tids: Vec::new(),
            no_library_calls: false,
            events: EventOptions::default(),
            kernel: KernelOptions::default(),
            is_disabled: false,
            range: TimeRange::default(),
            rules: Rules::default(),
            colors: ColorStyle::None,
            jobs: 1,
        }
    }
}

/// Passes on the calls that take long enough, are large enough and lead to the wanted functions, with all that they are
/// inside of, and the events around them.
///
/// An entry waits for the exit that decides about it.
pub(crate) struct TimeFilter<'a> {
    stream: Box<dyn CallStream + 'a>,
    held: Held,
    block: VecDeque<CallRecord>,
    is_at_end: bool,
    last_read: LastRead,
}

/// By task: the time of the last record that was read, whether it is left out or not.
pub(crate) type LastRead = Rc<RefCell<Vec<u64>>>;

/// Notes that a record was read.
fn note(last_read: &LastRead, record: &CallRecord) {
    if let Some(time) = last_read.borrow_mut().get_mut(record.task as usize) {
        *time = record.time;
    }
}

/// Records of a task that wait for the exits that decide about them.
struct Held {
    limits: CallLimits,
    waiting: Vec<CallRecord>,
}

/// How long and how large calls must be, which triggers change from their functions on. Calls of a task and those of the
/// kernel for it change it for each other, as in uftrace: what is read first counts.
#[derive(Clone)]
pub(crate) struct CallLimits {
    threshold: u64,
    rules: Rules,
    /// By task.
    below: Rc<RefCell<Vec<Vec<Below>>>>,
}

/// Settings of a trigger, from its call on.
#[derive(Clone, Copy)]
struct Below {
    depth: u16,
    is_kernel: bool,
    threshold: u64,
    size: u64,
}

impl CallLimits {
    pub(crate) fn new(options: &CallOptions, tasks: usize) -> CallLimits {
        let below = Rc::new(RefCell::new(vec![Vec::new(); tasks]));
        CallLimits { threshold: options.time_filter, rules: options.rules.clone(), below }
    }

    /// Conditions of a record: its rule, the time that it must take and the size that it must have.
    #[inline]
    fn for_record(&self, record: &CallRecord) -> (Rule, u64, u64) {
        if self.rules.is_empty() {
            return (Rule::default(), self.threshold, self.rules.size);
        }
        self.apply_rules(record)
    }

    fn apply_rules(&self, record: &CallRecord) -> (Rule, u64, u64) {
        let rule =
            if record.is_call() { self.rules.for_symbol(record.symbol).copied() } else { None }.unwrap_or_default();
        let mut below = self.below.borrow_mut();
        let Some(below) = below.get_mut(record.task as usize) else {
            return (rule, self.threshold, self.rules.size);
        };
        let (threshold, size) =
            below.last().map_or((self.threshold, self.rules.size), |last| (last.threshold, last.size));
        let (threshold, size) = (rule.time.unwrap_or(threshold), rule.size.unwrap_or(size));
        let is_kernel = record.origin == CallOrigin::Kernel;
        match record.kind {
            CallKind::Entry if rule.time.is_some() || rule.size.is_some() => {
                below.push(Below { depth: record.depth, is_kernel, threshold, size });
            }
            CallKind::Exit => {
                below.pop_if(|last| (last.depth, last.is_kernel) == (record.depth, is_kernel));
            }
            _ => {}
        }
        (rule, threshold, size)
    }

    /// Is the call smaller than it must be? What has no symbol has no size, and goes in with the small ones.
    fn is_small(&self, record: &CallRecord, size: u64) -> bool {
        size > 0
            && match (self.rules.size_of(record.symbol), record.kind) {
                (Some(own), _) => own < size,
                (None, kind) => kind == CallKind::Entry,
            }
    }

    /// Is a call left out, other than because it is short?
    fn is_unwanted(&self, rule: &Rule) -> bool {
        self.rules.has_callers && !rule.is_caller
    }
}

impl CallJudge for CallLimits {
    fn judge(&mut self, record: &CallRecord) -> Judgement {
        let (rule, threshold, size) = self.for_record(record);
        Judgement {
            threshold,
            is_dropped: record.is_call() && self.is_small(record, size),
            is_unwanted: self.is_unwanted(&rule),
            is_shown: rule.is_traced,
        }
    }
}

impl<'a> TimeFilter<'a> {
    pub(crate) fn new(stream: Box<dyn CallStream + 'a>, limits: CallLimits, last_read: LastRead) -> Self {
        let held = Held { limits, waiting: Vec::new() };
        TimeFilter { stream, held, block: VecDeque::new(), is_at_end: false, last_read }
    }

    fn next(&mut self) -> Option<CallRecord> {
        while self.block.is_empty() && !self.is_at_end {
            let mut records = Vec::new();
            self.is_at_end = !self.stream.fill(&mut records);
            self.block.extend(records);
        }
        self.block.pop_front()
    }
}

impl Held {
    /// Takes a record; true when all that waits can go on.
    fn push(&mut self, record: CallRecord) -> bool {
        let (rule, threshold, size) = self.limits.for_record(&record);
        match record.kind {
            CallKind::Entry => {
                if !self.limits.is_small(&record, size) {
                    self.waiting.push(record);
                }
                false
            }
            CallKind::Exit => {
                if self.limits.is_small(&record, size) {
                    return false;
                }
                let entry = self.waiting.iter().rposition(|waiting| waiting.kind == CallKind::Entry);
                let is_left_out = |entry: usize| {
                    let is_short = record.time.wrapping_sub(self.waiting[entry].time) < threshold;
                    (is_short || self.limits.is_unwanted(&rule)) && !rule.is_traced
                };
                match entry {
                    Some(at) if is_left_out(at) => {
                        self.waiting.truncate(at);
                        false
                    }
                    _ => {
                        self.waiting.push(record);
                        true
                    }
                }
            }
            CallKind::Lost => {
                self.waiting.push(record);
                true
            }
            CallKind::Event => {
                self.waiting.push(record);
                record.address >= event_id::FIRST_USER
            }
        }
    }
}

impl CallStream for TimeFilter<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        while let Some(record) = self.next() {
            note(&self.last_read, &record);
            if self.held.push(record) {
                out.append(&mut self.held.waiting);
                return true;
            }
        }
        // The last undecided record counts as the last one that is read, as in uftrace.
        if let Some(last) = self.held.waiting.last() {
            note(&self.last_read, last);
        }
        out.append(&mut self.held.waiting);
        false
    }

    fn take_findings(&mut self) -> Findings {
        self.stream.take_findings()
    }
}

/// Selection in a stream with the records of several tasks: each has a filter of its own, and what they pass on is put in
/// the order of the stream again.
pub(crate) struct MixedFilter<'a> {
    stream: Box<dyn CallStream + 'a>,
    limits: CallLimits,
    last_read: LastRead,
    /// By task: the records that wait, and their places in the stream.
    held: HashMap<u32, (Held, Vec<u64>)>,
    /// Records with their places in the stream that were passed on and wait for those before them, by place.
    passed: BTreeMap<u64, CallRecord>,
    next: u64,
}

impl<'a> MixedFilter<'a> {
    pub(crate) fn new(stream: Box<dyn CallStream + 'a>, limits: CallLimits, last_read: LastRead) -> Self {
        MixedFilter { stream, limits, last_read, held: HashMap::new(), passed: BTreeMap::new(), next: 0 }
    }

    fn push(&mut self, record: CallRecord) {
        let place = self.next;
        self.next += 1;
        note(&self.last_read, &record);
        let new = || (Held { limits: self.limits.clone(), waiting: Vec::new() }, Vec::new());
        let (held, places) = self.held.entry(record.task).or_insert_with(new);
        let before = held.waiting.len();
        // A record is added at the end, or some are taken from there.
        let passes_on = held.push(record);
        match held.waiting.len() {
            after if after > before => places.push(place),
            after => places.truncate(after),
        }
        if passes_on {
            self.passed.extend(places.drain(..).zip(held.waiting.drain(..)));
        }
    }
}

impl CallStream for MixedFilter<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let mut records = Vec::new();
        let goes_on = self.stream.fill(&mut records);
        for record in records {
            self.push(record);
        }
        if !goes_on {
            for (held, places) in self.held.values_mut() {
                self.passed.extend(places.drain(..).zip(held.waiting.drain(..)));
            }
        }
        let first_held = self.held.values().filter_map(|(_, places)| places.first().copied()).min().unwrap_or(u64::MAX);
        let rest = self.passed.split_off(&first_held);
        out.extend(std::mem::replace(&mut self.passed, rest).into_values());
        goes_on
    }

    fn take_findings(&mut self) -> Findings {
        self.stream.take_findings()
    }
}

/// Leaves out where a task gives its processor away for less than the threshold.
pub(crate) struct SchedFilter<'a> {
    stream: Box<dyn CallStream + 'a>,
    threshold: u64,
    /// Records after a task's giving away, whose end decides.
    waiting: VecDeque<(CallRecord, bool)>,
}

impl<'a> SchedFilter<'a> {
    pub(crate) fn new(stream: Box<dyn CallStream + 'a>, threshold: u64) -> Self {
        SchedFilter { stream, threshold, waiting: VecDeque::new() }
    }

    fn push(&mut self, record: CallRecord) {
        if record.is_event(event_id::SCHED_IN) {
            let is_open = |(waiting, is_open): &(CallRecord, bool)| *is_open && waiting.task == record.task;
            if let Some(at) = self.waiting.iter().rposition(is_open) {
                if record.time.wrapping_sub(self.waiting[at].0.time) < self.threshold {
                    self.waiting.remove(at);
                    return;
                }
                self.waiting[at].1 = false;
            }
        }
        self.waiting.push_back((record, record.is_sched_out()));
    }
}

impl CallStream for SchedFilter<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let mut records = Vec::new();
        let goes_on = self.stream.fill(&mut records);
        for record in records {
            self.push(record);
        }
        while self.waiting.front().is_some_and(|(_, is_open)| !is_open || !goes_on) {
            out.extend(self.waiting.pop_front().map(|(record, _)| record));
        }
        goes_on
    }

    fn take_findings(&mut self) -> Findings {
        self.stream.take_findings()
    }
}

/// A stretch of time, and how far a stream is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    from: u64,
    to: u64,
    /// The time of the last record that has one.
    last: u64,
}

impl Stretch {
    pub(crate) fn new((from, to): (u64, u64)) -> Self {
        Stretch { from, to, last: 0 }
    }

    /// Does the next record of the stream lie in it? What was lost has no time, so that it lies in a stretch without
    /// beginning only, and there unless the record before is later.
    #[inline]
    pub(crate) fn has(&mut self, record: &CallRecord) -> bool {
        if record.kind == CallKind::Lost && record.time == 0 {
            return self.from == 0 && self.last <= self.to;
        }
        self.last = record.time;
        (self.from..=self.to).contains(&record.time)
    }
}

/// Passes on what lies in a stretch of time.
pub(crate) struct Between<'a> {
    stream: Box<dyn CallStream + 'a>,
    stretch: Stretch,
}

impl<'a> Between<'a> {
    pub(crate) fn new(stream: Box<dyn CallStream + 'a>, stretch: (u64, u64)) -> Self {
        Between { stream, stretch: Stretch::new(stretch) }
    }
}

impl CallStream for Between<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let start = out.len();
        let goes_on = self.stream.fill(out);
        let mut kept = start;
        for at in start..out.len() {
            if self.stretch.has(&out[at]) {
                out[kept] = out[at];
                kept += 1;
            }
        }
        out.truncate(kept);
        goes_on
    }

    fn set_judge(&mut self, judge: &mut Option<Box<dyn CallJudge>>) {
        self.stream.set_judge(judge);
    }

    fn take_findings(&mut self) -> Findings {
        self.stream.take_findings()
    }
}
