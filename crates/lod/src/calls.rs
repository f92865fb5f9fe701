//! Calls of a session as slices: begin, end, depth, name.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracemill_calls::CallOptions;
use tracemill_calls::follow::{CallChange, Follower};
use tracemill_engine::collector::Collector;
use tracemill_engine::session::Session;
use tracemill_engine::trace_calls::TraceCalls;
use tracemill_format::open_calls::OpenCalls;
use tracemill_model::error::Error;

use crate::lane::{CallEnd, CallEvent, CallLane, LaneCalls, OpenCall};
use crate::progress::Progress;
use crate::ranks::Ranks;
use crate::search::Direction;
use crate::segments::{Segments, Spool};
use crate::slices::{self, Levels};
use crate::source::Source;
use crate::store::bytes::{Reader, Writer};

pub use crate::lane::Call;
pub use crate::slices::TimelineSlice;

/// A thread whose calls are followed.
#[derive(Clone, Debug)]
pub struct FollowedTask {
    /// Index of its trace.
    pub trace: usize,
    /// Its id in the system.
    pub tid: i64,
    /// Its name.
    pub name: String,
    /// Its calls.
    pub calls: u64,
    /// Most calls that are open at once.
    pub depth: u64,
    /// When it ends: calls without an end last until then.
    pub end: i64,
}

/// The key of a name of a call: an address only where there is no symbol.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum NameKey {
    Symbol(u32),
    Address(u64),
    Wait(&'static str),
}

/// The numbers of names.
struct NumbersOfNames(HashMap<String, u32>);

impl NumbersOfNames {
    /// The number of a name in a list beside that of modules. Functions of one name stand together.
    fn number(
        &mut self,
        (names, modules): (&mut Vec<String>, &mut Vec<Option<String>>),
        name: String,
        module: Option<String>,
    ) -> u32 {
        if let Some(&at) = self.0.get(&name) {
            let own = &mut modules[at as usize];
            if *own != module {
                *own = None;
            }
            return at;
        }
        let at = names.len() as u32;
        names.push(name.clone());
        modules.push(module);
        self.0.insert(name, at);
        at
    }
}

/// The calls of a session. They take some five bytes each, most of them in a file when there are many, and what shows them from
/// far away a little more.
#[derive(Default)]
pub struct SessionCalls {
    /// The tasks.
    pub tasks: Vec<FollowedTask>,
    /// Names of functions.
    pub names: Vec<String>,
    /// Their modules, where one is known for all functions of the name.
    pub modules: Vec<Option<String>>,
    /// The time of the first call.
    pub begin: i64,
    /// The time of the last begin or end of a call.
    pub end: i64,
    /// Errors of reading while calls were followed.
    pub faults: Vec<Error>,
    /// Warnings about them.
    pub warnings: Vec<Error>,
    lanes: Vec<CallLane>,
    /// The steps of lanes.
    segments: Segments,
    levels: Vec<Option<Levels>>,
}

/// Follows the calls of all traces: those that a format offers as such, and those of events. Times without processor are calls,
/// as they are for all commands that follow calls. `None` when there are none, or
/// when [`Progress::stop`] was set. Begins and ends that are not within the times of the selection are as if they were not
/// there, but for the begins of calls that are open when it begins; so are those of other streams, and of events that do not
/// match the filter. Wide buckets are counted from `origin`.
pub fn follow(session: &Arc<Session>, source: &Source<'_>, origin: i128, progress: &Progress) -> Option<SessionCalls> {
    let Source { selection, streams, filter, .. } = *source;
    let collector = &Collector::default();
    let mut calls = SessionCalls::default();
    let (mut has_source, mut first) = (false, i64::MAX);
    for trace in 0..session.traces.len() {
        let Some(own) = TraceCalls::with_pairs(session, trace, streams, selection, filter) else { continue };
        has_source = true;
        let between = own.between();
        first = first.min(between.0.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
        calls.add((&own.at_any_time(), trace, between), collector, progress)?;
    }
    let origin = origin.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let SessionCalls { tasks, names, lanes, segments, levels, .. } = &mut calls;
    let many = lanes.iter().filter(|lane| slices::are_many(lane.calls())).count();
    for (task, lane) in tasks.iter_mut().zip(lanes) {
        lane.finish(segments);
        task.calls = lane.calls();
        levels.push(Levels::new(lane.kept_in(segments, names.len()), origin, many));
    }
    let ranges = || calls.lanes.iter().filter_map(CallLane::range);
    calls.begin = ranges().map(|(first, _)| first).min().unwrap_or(0);
    // A call that was open before the wanted range is open when that begins.
    calls.end = ranges().map(|(_, last)| last.max(first)).max().unwrap_or(0);
    (calls.faults, calls.warnings) = collector.take();
    has_source.then_some(calls)
}

/// Is a stream that of a task? It is called like it, up to a point.
pub fn is_of_task(stream: &str, tid: i64) -> bool {
    stream.split('.').next().and_then(|head| head.parse().ok()) == Some(tid)
}

impl SessionCalls {
    fn add(
        &mut self,
        (of, trace, (first, last)): (&TraceCalls<'_>, usize, (i128, i128)),
        collector: &Collector,
        progress: &Progress,
    ) -> Option<()> {
        let (source, mut wanted) = (of.source(), of.wanted(None));
        let first_task = self.tasks.len();
        let names = source.last_names();
        self.tasks.extend(source.tasks().iter().zip(&names).map(|(task, name)| {
            let name = String::from_utf8_lossy(name).into_owned();
            FollowedTask { trace, tid: task.tid, name, calls: 0, depth: 0, end: i64::MIN }
        }));
        self.lanes.resize_with(self.tasks.len(), CallLane::default);
        // Of each open call, whether it is shown.
        let mut open: Vec<OpenCalls<bool>> =
            source.tasks().iter().map(|_| OpenCalls::new(source.max_depth())).collect();
        let mut depths: Vec<u64> = vec![0; open.len()];
        // Calls that began before the requested range.
        let mut early: Vec<Vec<(i64, u32)>> = vec![Vec::new(); open.len()];
        let mut of_symbol: HashMap<NameKey, u32> = HashMap::new();
        let is_whole = wanted.is_everything();
        let mut of_name = NumbersOfNames(self.names.iter().zip(0..).map(|(name, at)| (name.clone(), at)).collect());
        let mut follower = Follower::new(source, CallOptions::default());
        let mut count = 0u64;
        while let Some(record) = follower.next() {
            count += 1;
            if count.is_multiple_of(4096) {
                progress.wait();
                if progress.stop.load(Ordering::Relaxed) {
                    return None;
                }
            }
            let is_shown = follower.step(&record).is_some();
            let at = record.task as usize;
            let Some(change) = CallChange::from_record(&record).filter(|_| wanted.has(&record)) else { continue };
            let Some(of_task) = open.get_mut(at) else { continue };
            let (lane, task) = (&mut self.lanes[first_task + at], &mut self.tasks[first_task + at]);
            let segments = &mut self.segments;
            let level = change.level();
            let time = of.ns(record.time);
            if time > last {
                continue;
            }
            let is_early = time < first;
            let time = time.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            if !is_early {
                early[at].drain(..).for_each(|(begin, name)| lane.begin(begin, name, segments));
                task.depth = task.depth.max(depths[at]);
            }
            for _ in 0..of_task.abandoned_at(Some(level)) {
                if of_task.pop() == Some(true) {
                    depths[at] -= 1;
                    if early[at].pop().is_none() {
                        lane.end(time, segments);
                    }
                }
            }
            let key = match change {
                CallChange::End(_) => continue,
                // Where calls are left out, so are the times without processor inside of them.
                CallChange::Wait(..) if !is_whole && of_task.is_empty() => continue,
                CallChange::Wait(_, name) => NameKey::Wait(name),
                CallChange::Call(_) if record.symbol == 0 => NameKey::Address(record.address),
                CallChange::Call(_) => NameKey::Symbol(record.symbol),
            };
            if !of_task.begin(Some(level), is_shown) || !is_shown {
                continue;
            }
            let name = *of_symbol.entry(key).or_insert_with(|| {
                let (name, module) = match key {
                    NameKey::Wait(name) => (name.to_string(), None),
                    NameKey::Address(_) | NameKey::Symbol(_) => {
                        let symbol = source.symbol(record.symbol, record.address);
                        (symbol.name, symbol.module)
                    }
                };
                of_name.number((&mut self.names, &mut self.modules), name, module)
            });
            depths[at] += 1;
            if is_early {
                early[at].push((time, name));
            } else {
                lane.begin(time, name, segments);
                task.depth = task.depth.max(depths[at]);
            }
        }
        for (at, early) in early.into_iter().enumerate() {
            let end = of.ns(follower.end_of(at)).min(last);
            self.tasks[first_task + at].end = end.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            let depth = early.len() as u64;
            let lane = &mut self.lanes[first_task + at];
            early.into_iter().for_each(|(begin, name)| lane.begin(begin, name, &mut self.segments));
            let task = &mut self.tasks[first_task + at];
            task.depth = task.depth.max(depth);
        }
        wanted.take_faults().into_iter().for_each(|fault| collector.fault(fault));
        let findings = follower.take_findings();
        findings.faults.into_iter().for_each(|fault| collector.fault(fault));
        findings.warnings.into_iter().for_each(|warning| collector.warning(warning));
        Some(())
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) -> io::Result<()> {
        to.size(self.names.len());
        for (name, module) in self.names.iter().zip(&self.modules) {
            to.bytes(name.as_bytes())?;
            to.number(module.is_some().into());
            module.iter().try_for_each(|module| to.bytes(module.as_bytes()))?;
        }
        to.step(self.begin);
        to.step(self.end);
        to.size(self.tasks.len());
        for (at, FollowedTask { trace, tid, name, calls, depth, end }) in self.tasks.iter().enumerate() {
            to.size(*trace);
            to.step(*tid);
            to.bytes(name.as_bytes())?;
            to.number(*calls);
            to.number(*depth);
            to.step(*end);
            self.lanes[at].write(&self.segments, to)?;
            to.number(self.levels[at].is_some().into());
            self.levels[at].iter().try_for_each(|levels| levels.write(to))?;
        }
        Ok(())
    }

    /// Reads what was written of the same source. Where it stands in a file, the steps of calls stay there.
    pub(crate) fn read(from: &mut Reader<'_>, source: &Source<'_>, file: Option<&Arc<Spool>>) -> Option<SessionCalls> {
        let mut calls = SessionCalls::default();
        for _ in 0..from.count()? {
            calls.names.push(from.text()?);
            calls.modules.push(if from.flag()? { Some(from.text()?) } else { None });
        }
        (calls.begin, calls.end) = (from.step()?, from.step()?);
        for _ in 0..from.count()? {
            let (trace, tid, name) = (from.below(source.session.traces.len())?, from.step()?, from.text()?);
            let (of_task, depth, end) = (from.number()?, from.number()?, from.step()?);
            calls.tasks.push(FollowedTask { trace, tid, name, calls: of_task, depth, end });
            calls.lanes.push(CallLane::read(from, calls.names.len(), &mut calls.segments, file)?);
            calls.levels.push(if from.flag()? { Some(Levels::read(from, calls.names.len())?) } else { None });
        }
        Some(calls)
    }

    /// Memory that they take, in bytes.
    pub fn bytes(&self) -> usize {
        let levels: usize = self.levels.iter().flatten().map(Levels::bytes).sum();
        self.lanes.iter().map(CallLane::bytes).sum::<usize>() + self.segments.memory_bytes() + levels
    }

    /// Could what waits in a file not be read any more? Then answers lack some.
    pub fn is_broken(&self) -> bool {
        self.segments.is_broken()
    }

    /// The calls of a task, to be followed.
    fn lane(&self, task: usize) -> Option<LaneCalls<'_>> {
        Some(self.lanes.get(task)?.kept_in(&self.segments, self.names.len()))
    }

    /// Shows what happens in some tasks from before a range to its end: the task, and what.
    /// `None` when the answer is not wanted any more, which is asked on the way.
    fn for_each_event(
        &self,
        range: (i64, i64),
        tasks: Option<&[usize]>,
        is_over: &dyn Fn() -> bool,
        mut see: impl FnMut(usize, CallEvent),
    ) -> Option<()> {
        let (mut steps, mut goes_on) = (0u64, true);
        for (task, lane) in self.lanes.iter().enumerate() {
            if tasks.is_none_or(|tasks| tasks.contains(&task)) {
                lane.kept_in(&self.segments, self.names.len()).for_each_event(range, |step| {
                    see(task, step);
                    steps += 1;
                    goes_on = !steps.is_multiple_of(4096) || !is_over();
                    goes_on
                });
                if !goes_on || is_over() {
                    return None;
                }
            }
        }
        Some(())
    }

    /// The ns of a call inside of a range; `None` when it does not overlap that.
    fn ns_inside(&self, task: usize, frame: &OpenCall, end: CallEnd, (begin, last): (i64, i64)) -> Option<i64> {
        let end = match end {
            CallEnd::At(time) => time,
            CallEnd::Later => i64::MAX,
            CallEnd::Never => self.tasks[task].end.max(frame.begin),
        };
        (frame.begin <= last && end >= begin).then(|| end.min(last).saturating_sub(frame.begin.max(begin)).max(0))
    }

    /// Statistics by name, the largest total first, then by name. A call belongs to the range when it overlaps it.
    /// `None` when the answer is not wanted any more, which is asked on the way.
    pub fn statistics(
        &self,
        range: (i64, i64),
        tasks: Option<&[usize]>,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Vec<FunctionTotals>> {
        let mut rows: Vec<FunctionTotals> = (0..self.names.len())
            .map(|name| FunctionTotals { name: name as u32, ..FunctionTotals::default() })
            .collect();
        // Of each open call, the ns of the calls that it made inside of the range.
        let mut inner: Vec<i64> = Vec::new();
        self.for_each_event(range, tasks, is_over, |task, step| match step {
            CallEvent::Begin(_) => inner.push(0),
            CallEvent::End(frame, _, end) => {
                let of_inner = inner.pop().unwrap_or(0);
                let Some(inside) = self.ns_inside(task, &frame, end, range) else { return };
                inner.last_mut().into_iter().for_each(|around| *around += inside);
                let row = &mut rows[frame.name as usize];
                row.calls += 1;
                row.total += i128::from(inside);
                row.own += i128::from(inside - of_inner);
                if let Some(duration) = complete_ns(&frame, end, range) {
                    row.durations.add(duration);
                }
            }
        })?;
        rows.iter_mut().for_each(|row| row.durations.want(&PERCENTILES));
        self.for_each_event(range, tasks, is_over, |_, step| {
            if let CallEvent::End(frame, _, end) = step
                && let Some(duration) = complete_ns(&frame, end, range)
            {
                rows[frame.name as usize].durations.add_again(duration);
            }
        })?;
        rows.retain(|row| row.calls > 0);
        let name = |of: &FunctionTotals| &self.names[of.name as usize];
        rows.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| name(a).cmp(name(b))));
        Some(rows)
    }

    /// Shows begin and duration of the calls of a name that begin and end inside of a range. `None` when it is no longer wanted
    /// any more, which is asked on the way.
    pub fn durations(
        &self,
        name: u32,
        range: (i64, i64),
        tasks: Option<&[usize]>,
        is_over: &dyn Fn() -> bool,
        mut see: impl FnMut(i64, i64),
    ) -> Option<()> {
        self.for_each_event(range, tasks, is_over, |_, step| {
            if let CallEvent::End(frame, _, end) = step
                && frame.name == name
                && let Some(duration) = complete_ns(&frame, end, range)
            {
                see(frame.begin, duration);
            }
        })
    }

    /// Shows begin, duration and name of the calls that begin inside of a range and have an end, be that later. `None` when they are
    /// no longer wanted, which is asked on the way.
    pub fn for_each_begun(
        &self,
        range: (i64, i64),
        tasks: Option<&[usize]>,
        is_over: &dyn Fn() -> bool,
        mut see: impl FnMut(i64, i64, u32),
    ) -> Option<()> {
        self.for_each_event(range, tasks, is_over, |task, step| {
            let CallEvent::End(frame, _, end) = step else { return };
            if frame.begin < range.0 || frame.begin > range.1 {
                return;
            }
            let end = match end {
                CallEnd::At(time) => Some(time),
                CallEnd::Later => self.call(task, frame.number).and_then(|call| call.end),
                CallEnd::Never => None,
            };
            end.into_iter().for_each(|end| see(frame.begin, end.saturating_sub(frame.begin), frame.name));
        })
    }

    /// Shows the calls of a task that overlap a range, as they end: begin, end, name and the calls it stands on. One that goes on
    /// after the range ends at its last ns. `None` when they are no longer wanted, which is asked on the way.
    pub fn for_each_in(
        &self,
        task: usize,
        range: (i64, i64),
        is_over: &dyn Fn() -> bool,
        mut see: impl FnMut((i64, i64), u32, usize),
    ) -> Option<()> {
        self.for_each_event(range, Some(&[task]), is_over, |task, step| {
            let CallEvent::End(frame, depth, end) = step else { return };
            let end = match end {
                CallEnd::At(time) => time,
                CallEnd::Later => range.1,
                CallEnd::Never => self.tasks[task].end.max(frame.begin),
            };
            if frame.begin <= range.1 && end >= range.0 {
                see((frame.begin, end), frame.name, depth);
            }
        })
    }

    /// The stacks inside of a range, and what they took. The first one is the root, below all. `None` when it is no longer wanted
    /// any more, which is asked on the way.
    pub fn stacks(
        &self,
        range: (i64, i64),
        tasks: Option<&[usize]>,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Vec<StackTotals>> {
        let mut stacks = vec![StackTotals::default()];
        let mut known: HashMap<(usize, u32), usize> = HashMap::new();
        // Of each open call: its name, its stack when that is known, and the ns of the calls that it made.
        let mut open: Vec<(u32, Option<usize>, i64)> = Vec::new();
        self.for_each_event(range, tasks, is_over, |task, step| match step {
            CallEvent::Begin(frame) => open.push((frame.name, None, 0)),
            CallEvent::End(frame, depth, end) => {
                if let Some(inside) = self.ns_inside(task, &frame, end, range) {
                    // The calls below it overlap the range too.
                    let first = open.iter().rposition(|(_, stack, _)| stack.is_some()).map_or(0, |place| place + 1);
                    for place in first..open.len() {
                        let below = place.checked_sub(1).and_then(|below| open[below].1).unwrap_or(0);
                        let name = open[place].0;
                        let stack = *known.entry((below, name)).or_insert_with(|| {
                            stacks.push(StackTotals { parent: below, name: Some(name), ..StackTotals::default() });
                            stacks.len() - 1
                        });
                        open[place].1 = Some(stack);
                    }
                    let (_, stack, inner) = open[depth];
                    let stack = &mut stacks[stack.unwrap_or(0)];
                    stack.calls += 1;
                    stack.total += i128::from(inside);
                    stack.own += i128::from(inside - inner);
                    match depth.checked_sub(1) {
                        Some(below) => open[below].2 += inside,
                        None => stacks[0].total += i128::from(inside),
                    }
                }
                open.pop();
            }
        })?;
        Some(stacks)
    }

    /// A call of a task by its number.
    pub fn call(&self, task: usize, number: u64) -> Option<Call> {
        self.lane(task)?.call(number)
    }

    /// All calls of a task, by their numbers.
    pub fn list(&self, task: usize) -> Vec<Call> {
        let mut calls: Vec<Call> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let Some(lane) = self.lane(task) else { return calls };
        lane.for_each_event((i64::MIN, i64::MAX), |step| {
            match step {
                CallEvent::Begin(OpenCall { begin, name, number }) => {
                    let (parent, depth) = (open.last().map(|at| calls[*at].number), open.len());
                    open.push(calls.len());
                    calls.push(Call { begin, end: None, number, name, parent, depth, inner: 0 });
                }
                CallEvent::End(frame, _, end) => {
                    if let (Some(at), CallEnd::At(end)) = (open.pop(), end) {
                        calls[at].end = Some(end);
                        open.last().into_iter().for_each(|around| calls[*around].inner += end - frame.begin);
                    }
                }
            }
            true
        });
        calls
    }

    /// The call of a task that is next to a time: the first that begins after it, the last that begins before it, or the
    /// innermost one that is open then, or else one of those.
    pub fn locate(&self, task: usize, time: i64, direction: Direction) -> Option<Call> {
        let lane = self.lane(task)?;
        let number = match direction {
            Direction::Next => lane.next(time),
            Direction::Previous => lane.previous(time),
            Direction::Nearest => lane.innermost(time).or_else(|| lane.previous(time)).or_else(|| lane.next(time)),
        };
        self.call(task, number?)
    }

    /// The call of a task at a time, at a depth or the innermost one: what a pointer is on. Where there is none, the nearest that
    /// is at most `slack` ns away.
    pub fn locate_at(&self, task: usize, time: i64, depth: Option<usize>, slack: i64) -> Option<Call> {
        self.call(task, self.lane(task)?.call_at(time, depth, slack)?)
    }

    /// Slices of some tasks in a range whose first ns is `range.0`, in buckets of 2^level ns. Slices that are shorter than a
    /// bucket stand together, by bucket and depth.
    pub fn slices(&self, tasks: &[usize], level: u32, range: (i64, i64)) -> Vec<Vec<TimelineSlice>> {
        let of = |task: &usize| {
            let levels = self.levels.get(*task).and_then(Option::as_ref);
            self.lane(*task).map_or(Vec::new(), |lane| slices::slices(lane, levels, level, range))
        };
        tasks.iter().map(of).collect()
    }
}

/// The ns of a call that begins and ends inside of a range.
fn complete_ns(frame: &OpenCall, end: CallEnd, range: (i64, i64)) -> Option<i64> {
    match end {
        CallEnd::At(time) if frame.begin >= range.0 && time <= range.1 => Some(time - frame.begin),
        _ => None,
    }
}

/// The percentiles that are reported of durations.
const PERCENTILES: [u64; 3] = [50, 90, 99];

/// Calls of one function.
#[derive(Clone, Default, Debug)]
pub struct FunctionTotals {
    /// An index of [`SessionCalls::names`].
    pub name: u32,
    /// Its calls that overlap the range.
    pub calls: u64,
    /// Their time inside of it, in ns.
    pub total: i128,
    /// That without the calls that they made.
    pub own: i128,
    /// Durations of those that begin and end inside.
    durations: Ranks,
}

impl FunctionTotals {
    /// Calls that begin and end inside of the range.
    pub fn complete_count(&self) -> u64 {
        self.durations.count()
    }

    /// Shortest, mean, and longest duration of those.
    pub fn durations(&self) -> Option<(i64, i64, i64)> {
        let (min, max) = self.durations.ends()?;
        Some((min, self.durations.mean()?, max))
    }

    /// The duration that 50, 90 or 99 of 100 of those do not exceed.
    pub fn percentile(&self, p: u64) -> Option<i64> {
        self.durations.percentile(p)
    }
}

/// Calls on one stack.
#[derive(Clone, Default, Debug)]
pub struct StackTotals {
    /// The stack below, by index.
    pub parent: usize,
    /// Name of the function; `None` for the root.
    pub name: Option<u32>,
    /// Calls.
    pub calls: u64,
    /// Their ns.
    pub total: i128,
    /// Their ns without the calls that they made.
    pub own: i128,
}
