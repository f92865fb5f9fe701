//! The calls of a task in little memory: their begins and ends in order, as numbers of variable length, some five bytes a
//! call, of which all but the first ones wait in a file ([`Segments`]). From marks on the way they can be followed from
//! anywhere.

use std::cmp::Reverse;
use std::io;
use std::sync::Arc;

use tracemill_codec::bits::{put_leb, take_leb};

use crate::segments::{Segments, Spool};
use crate::store::bytes::{Reader, Writer};

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// When it begins, in ns.
    pub begin: i64,
    /// When it ends; `None` when nothing says so.
    pub end: Option<i64>,
    /// Its number among the calls of its task, in the order of beginnings.
    pub number: u64,
    /// Its name: an index of [`SessionCalls::names`](crate::calls::SessionCalls::names).
    pub name: u32,
    /// The number of the call that made it.
    pub parent: Option<u64>,
    /// Calls that it stands on.
    pub depth: usize,
    /// Ns of the calls that it made, as far as these ended.
    pub inner: i64,
}

/// A call that is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    pub(crate) begin: i64,
    pub(crate) name: u32,
    /// Its number among the calls of its task, in the order of beginnings.
    pub(crate) number: u64,
}

/// An occurrence in a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallEvent {
    Begin(OpenCall),
    /// With the number of calls that it stands on.
    End(OpenCall, usize, CallEnd),
}

/// When a call ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallEnd {
    At(i64),
    /// After the last time that was asked for.
    Later,
    /// At no time that is known.
    Never,
}

/// A place from which calls can be followed: a segment begins there.
struct Mark {
    time: i64,
    /// Calls that began before.
    calls: u64,
    open: Box<[OpenCall]>,
}

/// The calls of a task.
#[derive(Default)]
pub(crate) struct CallLane {
    /// The segments that are full, and the steps of the one that is being filled. For each begin these are the ns since the
    /// step before, doubled, and the name; for each end the ns, doubled, and one.
    segments: Vec<u32>,
    steps: Vec<u8>,
    /// Of each segment but the first one, how it begins.
    marks: Vec<Mark>,
    first: i64,
    time: i64,
    calls: u64,
    /// Calls that are open; at the end, those that nothing ended.
    open: Vec<OpenCall>,
    since_mark: usize,
}

/// Steps between marks. There are more when many calls are open, which a mark keeps.
const STEPS: usize = 4096;

impl CallLane {
    /// Times that go back stand still.
    fn step(&mut self, time: i64, bit: u64, segments: &mut Segments) {
        if self.is_empty() {
            (self.first, self.time) = (time, time);
        } else if self.since_mark >= STEPS.max(self.open.len() * 8) {
            self.close(segments);
            self.marks.push(Mark { time: self.time, calls: self.calls, open: self.open.clone().into() });
            self.since_mark = 0;
        }
        let time = time.max(self.time);
        put_leb(&mut self.steps, (time.abs_diff(self.time)) << 1 | bit, false);
        self.time = time;
        self.since_mark += 1;
    }

    fn close(&mut self, segments: &mut Segments) {
        self.segments.push(segments.len() as u32);
        segments.push(&self.steps);
        self.steps.clear();
    }

    fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.segments.is_empty()
    }

    pub(crate) fn begin(&mut self, time: i64, name: u32, segments: &mut Segments) {
        self.step(time, 0, segments);
        put_leb(&mut self.steps, name.into(), false);
        self.open.push(OpenCall { begin: self.time, name, number: self.calls });
        self.calls += 1;
    }

    /// Ends the innermost call.
    pub(crate) fn end(&mut self, time: i64, segments: &mut Segments) {
        if !self.open.is_empty() {
            self.step(time, 1, segments);
            self.open.pop();
        }
    }

    /// No more calls come.
    pub(crate) fn finish(&mut self, segments: &mut Segments) {
        if !self.steps.is_empty() {
            self.close(segments);
        }
        self.steps = Vec::new();
        self.segments.shrink_to_fit();
        self.marks.shrink_to_fit();
    }

    /// The lane as its steps are kept; names are below `names`.
    pub(crate) fn kept_in<'k>(&'k self, segments: &'k Segments, names: usize) -> LaneCalls<'k> {
        LaneCalls { lane: self, segments, names }
    }

    pub(crate) fn write(&self, segments: &Segments, to: &mut Writer<'_>) -> io::Result<()> {
        to.step(self.first);
        to.number(self.time.abs_diff(self.first));
        to.number(self.calls);
        self.write_frames(&self.open, to)?;
        to.size(self.segments.len());
        let mut buffer = Vec::new();
        for (at, segment) in self.segments.iter().enumerate() {
            if let Some(mark) = at.checked_sub(1).and_then(|at| self.marks.get(at)) {
                to.number(mark.time.abs_diff(self.first));
                to.number(mark.calls);
                self.write_frames(&mark.open, to)?;
            }
            let segment = *segment as usize;
            let bytes = segments.part(segment, (0, segments.bytes_of(segment)), &mut buffer);
            to.bytes(bytes.ok_or(io::ErrorKind::UnexpectedEof)?)?;
        }
        Ok(())
    }

    fn write_frames(&self, frames: &[OpenCall], to: &mut Writer<'_>) -> io::Result<()> {
        to.size(frames.len());
        for OpenCall { begin, name, number } in frames {
            to.number(begin.abs_diff(self.first));
            to.number((*name).into());
            to.number(*number);
        }
        to.plain(&[])
    }

    /// Reads what was written; names are below `names`. Where it stands in a file, its steps stay there, and are looked at
    /// when they are wanted.
    pub(crate) fn read(
        from: &mut Reader<'_>,
        names: usize,
        segments: &mut Segments,
        file: Option<&Arc<Spool>>,
    ) -> Option<CallLane> {
        // Differences of times must fit.
        let first = from.step().filter(|first| first.unsigned_abs() < 1 << 62)?;
        let time = |from: &mut Reader<'_>| {
            let time = first.checked_add_unsigned(from.number()?)?;
            (time < 1 << 62).then_some(time)
        };
        let last = time(from)?;
        let calls = from.number()?;
        let frames = |from: &mut Reader<'_>| {
            from.list(|from| Some(OpenCall { begin: time(from)?, name: from.small(names)?, number: from.number()? }))
        };
        let mut lane = CallLane { first, time: last, calls, open: frames(from)?, ..CallLane::default() };
        for segment in 0..from.count()? {
            if segment > 0 {
                lane.marks.push(Mark { time: time(from)?, calls: from.number()?, open: frames(from)?.into() });
            }
            let len = from.size()?;
            lane.segments.push(u32::try_from(segments.len()).ok()?);
            let place = from.place();
            let bytes = from.many(len)?;
            match file {
                Some(file) => segments.push_place(file, place, len),
                None => segments.push(&bytes),
            }
        }
        let is_rising = lane.marks.windows(2).all(|two| two[0].time <= two[1].time && two[0].calls <= two[1].calls);
        let is_below = |number: u64| number < calls;
        let frames = lane.marks.iter().flat_map(|mark| &mark.open).chain(&lane.open);
        let is_right = is_rising && frames.into_iter().all(|frame| is_below(frame.number) && frame.begin <= last);
        is_right.then_some(lane)
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// The times of the first and the last step.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        (!self.is_empty()).then_some((self.first, self.time))
    }

    /// Memory that it takes beside its segments.
    pub(crate) fn bytes(&self) -> usize {
        let frames: usize = self.marks.iter().map(|mark| mark.open.len()).sum();
        let segments = self.segments.capacity() * size_of::<u32>();
        segments + self.marks.capacity() * size_of::<Mark>() + frames * size_of::<OpenCall>()
    }
}

/// The calls of a task, to be followed.
#[derive(Clone, Copy)]
pub(crate) struct LaneCalls<'k> {
    lane: &'k CallLane,
    segments: &'k Segments,
    names: usize,
}

impl LaneCalls<'_> {
    pub(crate) fn calls(&self) -> u64 {
        self.lane.calls
    }

    /// See [`CallLane::range`].
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        self.lane.range()
    }

    /// Shows what happens from somewhere before `range.0` up to `range.1`, both included: first the calls that are open
    /// there, last the ends of those that are open then. Goes on as long as `see` says so.
    pub(crate) fn for_each_event(&self, range: (i64, i64), see: impl FnMut(CallEvent) -> bool) {
        self.each_from(self.lane.marks.partition_point(|mark| mark.time < range.0), range.1, see);
    }

    /// As [`LaneCalls::for_each_event`], from the first step of a segment on.
    fn each_from(&self, segment: usize, last: i64, mut see: impl FnMut(CallEvent) -> bool) {
        let mark = segment.checked_sub(1).map(|at| &self.lane.marks[at]);
        let (mut time, mut calls) = mark.map_or((self.lane.first, 0), |mark| (mark.time, mark.calls));
        let mut open: Vec<OpenCall> = Vec::new();
        for frame in mark.map_or(&[][..], |mark| &mark.open) {
            if !see(CallEvent::Begin(*frame)) {
                return;
            }
            open.push(*frame);
        }
        let mut buffer = Vec::new();
        'segments: for &number in self.lane.segments.iter().skip(segment) {
            let number = number as usize;
            // `Segments::is_broken` says that one cannot be read.
            let all = (0, self.segments.bytes_of(number));
            let Some(mut rest) = self.segments.part(number, all, &mut buffer) else { break };
            while !rest.is_empty() {
                let step = take_leb(&mut rest);
                time = time.saturating_add_unsigned(step >> 1);
                if time > self.lane.time {
                    self.segments.set_broken();
                    break 'segments;
                }
                if time > last {
                    break 'segments;
                }
                let goes_on = if step & 1 == 0 {
                    let name = take_leb(&mut rest);
                    if name >= self.names as u64 {
                        self.segments.set_broken();
                        break 'segments;
                    }
                    let frame = OpenCall { begin: time, name: name as u32, number: calls };
                    calls += 1;
                    open.push(frame);
                    see(CallEvent::Begin(frame))
                } else {
                    let Some(frame) = open.pop() else {
                        self.segments.set_broken();
                        break 'segments;
                    };
                    see(CallEvent::End(frame, open.len(), CallEnd::At(time)))
                };
                if !goes_on {
                    return;
                }
            }
        }
        while let Some(frame) = open.pop() {
            // At the end of the lane the outermost open calls have no end.
            let is_never = self.lane.open.get(open.len()).is_some_and(|own| own.number == frame.number);
            if !see(CallEvent::End(frame, open.len(), if is_never { CallEnd::Never } else { CallEnd::Later })) {
                return;
            }
        }
    }

    /// A call by its number.
    pub(crate) fn call(&self, number: u64) -> Option<Call> {
        let segment = self.lane.marks.partition_point(|mark| mark.calls <= number);
        let (mut open, mut found, mut inner): (Vec<u64>, Option<Call>, i64) = (Vec::new(), None, 0);
        self.each_from(segment, i64::MAX, |step| match step {
            CallEvent::Begin(frame) => {
                open.push(frame.number);
                true
            }
            CallEvent::End(frame, depth, end) => {
                open.pop();
                let end = if let CallEnd::At(time) = end { Some(time) } else { None };
                let OpenCall { begin, name, number: own } = frame;
                if own == number {
                    found = Some(Call { begin, end, number, name, parent: open.last().copied(), depth, inner });
                } else if open.last() == Some(&number) {
                    inner = inner.saturating_add(end.map_or(0, |end| end - begin));
                }
                own != number
            }
        });
        found
    }

    /// The first call that begins after a time.
    pub(crate) fn next(&self, time: i64) -> Option<u64> {
        let mut found = None;
        self.for_each_event((time, i64::MAX), |step| {
            if let CallEvent::Begin(frame) = step
                && frame.begin > time
            {
                found = Some(frame.number);
            }
            found.is_none()
        });
        found
    }

    /// The last call that begins before a time.
    pub(crate) fn previous(&self, time: i64) -> Option<u64> {
        let mut segment = self.lane.marks.partition_point(|mark| mark.time < time);
        loop {
            let mut found = None;
            let known = segment.checked_sub(1).map_or(0, |mark| self.lane.marks[mark].calls);
            self.each_from(segment, time.saturating_sub(1), |step| {
                if let CallEvent::Begin(frame) = step {
                    found = Some(frame.number).filter(|number| *number >= known);
                }
                true
            });
            if found.is_some() || segment == 0 {
                return found;
            }
            segment -= 1;
        }
    }

    /// The call at a time, at a depth or the innermost one; where there is none, the nearest that is at most `slack` ns away.
    pub(crate) fn call_at(&self, time: i64, depth: Option<usize>, slack: i64) -> Option<u64> {
        let mut nearest = None;
        self.for_each_event((time.saturating_sub(slack), time.saturating_add(slack)), |step| {
            let CallEvent::End(frame, own, end) = step else { return true };
            let end = if let CallEnd::At(end) = end { end } else { i64::MAX };
            let away = distance((frame.begin, end), time);
            let is_at_depth = depth.is_none_or(|depth| depth == own);
            let key = (away, Reverse(own), Reverse(frame.begin));
            if is_at_depth && away.1 <= slack.unsigned_abs() && nearest.is_none_or(|(known, _)| key < known) {
                nearest = Some((key, frame.number));
            }
            true
        });
        nearest.map(|(_, number)| number)
    }

    /// The innermost call at a time.
    pub(crate) fn innermost(&self, time: i64) -> Option<u64> {
        let mut found: Option<(usize, u64)> = None;
        self.for_each_event((time, time), |step| {
            if let CallEvent::End(frame, depth, end) = step
                && (end == CallEnd::Later || end == CallEnd::Never || end == CallEnd::At(time))
                && found.is_none_or(|(deepest, _)| depth > deepest)
            {
                found = Some((depth, frame.number));
            }
            true
        });
        found.map(|(_, number)| number)
    }
}

/// How far a time is from a slice, which does not hold its end unless it is all of it: first whether the time is outside, then
/// by how many ns.
pub(crate) fn distance((begin, end): (i64, i64), time: i64) -> (bool, u64) {
    match time {
        _ if time < begin => (true, begin.abs_diff(time)),
        _ if time < end || time == begin => (false, 0),
        _ => (true, time.abs_diff(end)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A call as it was made: begin, end, name, depth, parent.
    pub(crate) type LaneCall = (i64, Option<i64>, u32, usize, Option<u64>);

    /// A lane of random calls, of which some never end, and the calls.
    pub(crate) fn lane(seed: u64, steps: usize) -> (CallLane, Segments, Vec<LaneCall>) {
        let mut segments = Segments::default();
        let mut state = seed;
        let mut below = move |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let (mut lane, mut made, mut open): (CallLane, Vec<LaneCall>, Vec<u64>) =
            (CallLane::default(), Vec::new(), Vec::new());
        let mut time = -5000i64;
        for _ in 0..steps {
            // Mostly at once, sometimes much later.
            let wait = below(24);
            time += if below(100) == 0 { below(1 << wait) as i64 * 50 } else { below(40) as i64 };
            if open.is_empty() || open.len() < 40 && below(2) == 0 {
                let name = below(9) as u32;
                open.push(made.len() as u64);
                let parent = open.len().checked_sub(2).map(|place| open[place]);
                made.push((time, None, name, open.len() - 1, parent));
                lane.begin(time, name, &mut segments);
            } else if let Some(number) = open.pop() {
                made[number as usize].1 = Some(time);
                lane.end(time, &mut segments);
            }
        }
        lane.finish(&mut segments);
        (lane, segments, made)
    }

    #[test]
    fn calls_are_found_by_number_and_time() {
        let (lane, segments, made) = lane(1, 60_000);
        assert_eq!(lane.calls(), made.len() as u64);
        let bytes = lane.bytes() + segments.memory_bytes();
        assert!(segments.len() > 5 && bytes < made.len() * 8, "{bytes}");
        let lane = lane.kept_in(&segments, 9);
        let inner = |number: u64| -> i64 {
            let own = made.iter().filter(|call| call.4 == Some(number));
            own.filter_map(|call| Some(call.1? - call.0)).sum()
        };
        for number in (0..made.len() as u64).step_by(997).chain([made.len() as u64 - 1]) {
            let (begin, end, name, depth, parent) = made[number as usize];
            let own = lane.call(number).expect("it is there");
            assert_eq!((own.begin, own.end, own.name, own.depth, own.parent), (begin, end, name, depth, parent));
            assert_eq!(own.inner, inner(number), "{number}");
        }
        assert!(lane.call(made.len() as u64).is_none());
        let (first, last) = lane.range().expect("it has calls");
        for at in 0..200 {
            let time = first - 10 + (last - first + 20) / 199 * at;
            let begin = |number: u64| made[number as usize].0;
            let behind = made.iter().map(|call| call.0).find(|begin| *begin > time);
            assert_eq!(lane.next(time).map(begin), behind, "behind {time}");
            let before = made.iter().map(|call| call.0).rfind(|begin| *begin < time);
            assert_eq!(lane.previous(time).map(begin), before, "before {time}");
            let holds = |call: &&LaneCall| call.0 <= time && call.1.is_none_or(|end| end >= time);
            let depth = made.iter().filter(holds).map(|call| call.3).max();
            let own = lane.innermost(time).map(|number| made[number as usize].3);
            assert!(own == depth || time > last, "at {time}: {own:?} {depth:?}");
        }
    }
}
