//! The records of all streams in the order of time.

use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_format::calls::{
    CallJudge, CallKind, CallOrigin, CallRecord, CallSource, CallStream, Findings, event_id, first_two,
};

use crate::select::{Between, CallLimits, CallOptions, LastRead, MixedFilter, SchedFilter, TimeFilter};

/// Merges the streams of a source: the smallest time first; at equal times the first stream.
#[derive(Default)]
pub(crate) struct Merged<'a> {
    heads: Vec<RecordHead<'a>>,
    /// The times of their next records; at the end of a stream the largest one.
    times: Vec<u64>,
    /// The stream of the next record.
    current: usize,
    /// Time and number of the stream that comes next when the current one gets there.
    limit: (u64, usize),
    /// The task of the last record, for records that belong to it.
    last_task: u32,
    /// Damage and warnings of streams that are at their end.
    pub(crate) findings: Findings,
    /// Says that all must stop, where these are the streams of a part of the tasks.
    must_stop: Option<&'a AtomicBool>,
    /// The time of the last record of each task that was read, when calls are held back.
    pub(crate) last_read: Option<LastRead>,
}

struct RecordHead<'a> {
    stream: Box<dyn CallStream + 'a>,
    block: Vec<CallRecord>,
    at: usize,
    is_at_end: bool,
    /// The time of the last record of the blocks before, of a part.
    last: u64,
}

impl RecordHead<'_> {
    /// Makes the next record be there, unless the stream is at its end.
    fn load(&mut self, findings: &mut Findings, must_stop: Option<&AtomicBool>) {
        while self.at >= self.block.len() && !self.is_at_end {
            self.block.clear();
            self.at = 0;
            self.is_at_end = !self.stream.fill(&mut self.block);
            if self.is_at_end {
                findings.append(self.stream.take_findings());
            }
            if let Some(must_stop) = must_stop {
                self.judge_part(must_stop);
            }
        }
    }

    /// Ends the stream when the parts must stop: where records are not in the order of time, the last ones of other tasks
    /// say what came before.
    fn judge_part(&mut self, must_stop: &AtomicBool) {
        for record in &self.block {
            if record.time < self.last || record.kind == CallKind::Lost {
                must_stop.store(true, Ordering::Relaxed);
            }
            self.last = record.time;
        }
        if must_stop.load(Ordering::Relaxed) {
            self.block.clear();
            self.is_at_end = true;
        }
    }

    #[inline]
    fn time(&self) -> Option<u64> {
        self.block.get(self.at).map(|record| record.time)
    }
}

impl<'a> Merged<'a> {
    /// `between`: the times of the records that are wanted, unless all are.
    pub(crate) fn new(source: &'a dyn CallSource, options: &CallOptions, between: Option<(u64, u64)>) -> Self {
        Merged::from_selected(source, 0..source.stream_count(), options, between, None)
    }

    /// As [`Merged::new`], of some of the streams. Those of a part of the tasks end when all must stop, and say so when
    /// that is because of them.
    pub(crate) fn from_selected(
        source: &'a dyn CallSource,
        streams: impl Iterator<Item = usize>,
        options: &CallOptions,
        between: Option<(u64, u64)>,
        must_stop: Option<&'a AtomicBool>,
    ) -> Self {
        let streams = streams.map(|stream| match between {
            None => source.open(stream),
            Some((from, to)) => {
                let stream = source.open_between(stream, from, to);
                Box::new(Between::new(stream, (from, to))) as Box<dyn CallStream + 'a>
            }
        });
        if options.time_filter == 0 && !options.rules.delays {
            return Merged::from_streams(streams, must_stop);
        }
        let last_read = LastRead::new(vec![0; source.tasks().len()].into());
        let limits = CallLimits::new(options, source.tasks().len());
        let mut merged =
            Merged::from_streams(filtered(streams, options, &limits, &last_read, source.is_mixed()), must_stop);
        merged.last_read = Some(last_read);
        merged
    }

    /// No records.
    pub(crate) fn empty() -> Self {
        Merged::from_streams(std::iter::empty(), None)
    }

    fn from_streams(
        streams: impl IntoIterator<Item = Box<dyn CallStream + 'a>>,
        must_stop: Option<&'a AtomicBool>,
    ) -> Self {
        let head = |stream| RecordHead { stream, block: Vec::new(), at: 0, is_at_end: false, last: 0 };
        let heads = streams.into_iter().map(head).collect();
        let mut merged = Merged { heads, must_stop, ..Merged::default() };
        for head in &mut merged.heads {
            head.load(&mut merged.findings, must_stop);
        }
        merged.choose();
        merged
    }

    /// The next record, without taking it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<CallRecord> {
        let head = self.heads.get(self.current)?;
        let mut record = *head.block.get(head.at)?;
        if record.origin == CallOrigin::Outside {
            record.task = self.last_task;
        }
        Some(record)
    }

    /// Takes the next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<CallRecord> {
        let record = self.peek()?;
        self.last_task = record.task;
        let current = self.current;
        let head = &mut self.heads[current];
        head.at += 1;
        if head.at == head.block.len() {
            head.load(&mut self.findings, self.must_stop);
        }
        match head.time() {
            Some(time) if (time, current) < self.limit => {}
            time => self.choose_after(current, time),
        }
        Some(record)
    }

    /// The stream of the next record.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// Are there records of this origin? All of a stream have the same.
    pub(crate) fn has(&self, origin: CallOrigin) -> bool {
        self.heads.iter().flat_map(|head| head.block.get(head.at)).any(|record| record.origin == origin)
    }

    /// Takes the next record of a stream when it says that a task gets its processor back; it happens at `time` then.
    pub(crate) fn take_sched_in(&mut self, stream: usize, task: u32, time: u64) -> Option<CallRecord> {
        let head = self.heads.get_mut(stream)?;
        let record = *head.block.get(head.at)?;
        if record.task != task || !record.is_event(event_id::SCHED_IN) {
            return None;
        }
        head.at += 1;
        head.load(&mut self.findings, self.must_stop);
        self.choose();
        Some(CallRecord { time, ..record })
    }

    /// Takes the next record of a stream, whatever the others have; it belongs to `task`.
    pub(crate) fn take_of(&mut self, stream: usize, task: u32) {
        self.last_task = task;
        if let Some(head) = self.heads.get_mut(stream) {
            head.at += 1;
            head.load(&mut self.findings, self.must_stop);
        }
        self.choose();
    }

    /// The next record of a task's own stream. When its time is changed, [`Merged::choose`] puts it in order.
    pub(crate) fn own_head(&mut self, task: u32) -> Option<&mut CallRecord> {
        let heads = self.heads.iter_mut().filter_map(|head| head.block.get_mut(head.at));
        let mut own = heads.filter(|record| record.task == task && record.origin == CallOrigin::Task);
        own.next()
    }

    /// Takes all records of the current stream that come before those of the others, at most as many as it has ready.
    pub(crate) fn take_run(&mut self, out: &mut Vec<CallRecord>) {
        let (current, limit) = (self.current, self.limit);
        let Some(head) = self.heads.get_mut(current) else { return };
        let ready = head.block.get(head.at..).unwrap_or(&[]);
        // At equal times the first stream goes on.
        let last = if current < limit.1 { limit.0 } else { limit.0.wrapping_sub(1) };
        let count = match last {
            u64::MAX => ready.len(),
            last => ready.iter().take_while(|record| record.time <= last).count().max(1).min(ready.len()),
        };
        let from = out.len();
        if from == 0 && head.at == 0 && count == head.block.len() {
            // The whole block, without a copy of it.
            std::mem::swap(out, &mut head.block);
            head.block.clear();
        } else {
            out.extend_from_slice(&ready[..count]);
            head.at += count;
        }
        // All records of a stream come from the same place.
        if out.get(from).is_some_and(|record| record.origin == CallOrigin::Outside) {
            for record in &mut out[from..] {
                record.task = self.last_task;
            }
        }
        self.last_task = out.last().map_or(self.last_task, |record| record.task);
        if head.at >= head.block.len() {
            head.load(&mut self.findings, self.must_stop);
        }
        match head.time() {
            Some(time) if (time, current) < limit => {}
            time => self.choose_after(current, time),
        }
    }

    /// As [`Merged::choose`], where only one stream has another next record.
    #[inline]
    fn choose_after(&mut self, changed: usize, time: Option<u64>) {
        self.times[changed] = time.unwrap_or(u64::MAX);
        let [first, second] = first_two(&self.times);
        if second.0 == u64::MAX {
            // Which streams are at their end the times do not say.
            return self.choose();
        }
        self.current = first.1;
        self.limit = second;
    }

    pub(crate) fn choose(&mut self) {
        let none = (u64::MAX, usize::MAX);
        self.times.clear();
        self.times.extend(self.heads.iter().map(|head| head.time().unwrap_or(u64::MAX)));
        let (mut first, mut second) = (none, none);
        for (at, head) in self.heads.iter().enumerate() {
            let Some(time) = head.time() else { continue };
            if (time, at) < first {
                second = std::mem::replace(&mut first, (time, at));
            } else if (time, at) < second {
                second = (time, at);
            }
        }
        self.current = first.1;
        self.limit = second;
    }
}

/// The streams with short calls left out. What the system reports of a task may be spread over several streams, so these
/// are one before they are filtered.
fn filtered<'a>(
    streams: impl Iterator<Item = Box<dyn CallStream + 'a>>,
    options: &CallOptions,
    limits: &CallLimits,
    last_read: &LastRead,
    is_mixed: bool,
) -> Vec<Box<dyn CallStream + 'a>> {
    let (mut wanted, mut of_system): (Vec<Box<dyn CallStream + 'a>>, _) = (Vec::new(), Vec::new());
    for mut stream in streams {
        let mut judge: Option<Box<dyn CallJudge>> = Some(Box::new(limits.clone()));
        stream.set_judge(&mut judge);
        if judge.is_none() {
            wanted.push(stream);
            continue;
        }
        let mut block = Vec::new();
        while block.is_empty() && stream.fill(&mut block) {}
        let origin = block.first().map_or(CallOrigin::Task, |record| record.origin);
        let begun = Box::new(Begun { block, stream });
        match origin {
            CallOrigin::System if options.time_filter > 0 => of_system.push(begun as Box<dyn CallStream + 'a>),
            CallOrigin::System => wanted.push(begun),
            CallOrigin::Task if is_mixed => {
                wanted.push(Box::new(MixedFilter::new(begun, limits.clone(), last_read.clone())))
            }
            CallOrigin::Task => wanted.push(Box::new(TimeFilter::new(begun, limits.clone(), last_read.clone()))),
            CallOrigin::Kernel | CallOrigin::Outside => wanted.push(begun),
        }
    }
    if options.time_filter > 0 {
        wanted.push(Box::new(SchedFilter::new(Box::new(Merged::from_streams(of_system, None)), options.time_filter)));
    }
    wanted
}

/// A stream whose first block was read.
struct Begun<'a> {
    block: Vec<CallRecord>,
    stream: Box<dyn CallStream + 'a>,
}

impl CallStream for Begun<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        if !self.block.is_empty() {
            out.append(&mut self.block);
            return true;
        }
        self.stream.fill(out)
    }

    fn take_findings(&mut self) -> Findings {
        self.stream.take_findings()
    }
}

impl CallStream for Merged<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        for _ in 0..256 {
            let Some(record) = self.next() else { return false };
            out.push(record);
        }
        true
    }

    fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }
}
