//! The calls of a trace as a selection of its events leaves them.
//!
//! A call is two events. Where a selection leaves one of them out, a format that gives calls as records says nothing of it:
//! the events are read beside the records then, and each record looks for its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, CallSource};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Error;
use tracemill_model::schema::EventClassId;
use tracemill_semantics::Semantics;

use crate::calls::EventCalls;
use crate::event::Event;
use crate::events::{Events, Step};
use crate::filter::{ClassFields, Filter, KeyBy, KeyReader, KeyValue};
use crate::merge::Note;
use crate::selection::{ClassSet, SelectedStream};
use crate::session::Session;
use crate::timeline::Selection;

/// The calls of a trace, and which of their records are wanted.
pub struct TraceCalls<'a> {
    session: &'a Arc<Session>,
    trace: usize,
    source: RecordSource<'a>,
    clock: Option<ClockMap>,
    /// The streams of the trace that are wanted.
    streams: Vec<SelectedStream>,
    selection: Selection,
    filter: Option<Filter>,
    /// First and last wanted time in ns.
    between: (i128, i128),
}

enum RecordSource<'a> {
    Records(&'a dyn CallSource),
    Events(Box<EventCalls>),
}

impl<'a> TraceCalls<'a> {
    /// The calls of a trace that the selection and the filter leave, of these streams of the session; `None` when the trace
    /// has none at all.
    pub fn open(
        session: &'a Arc<Session>,
        trace: usize,
        streams: &[SelectedStream],
        selection: &Selection,
        filter: Option<&Filter>,
    ) -> Option<TraceCalls<'a>> {
        TraceCalls::for_trace(session, trace, (streams, selection, filter), EventCalls::from_trace)
    }

    /// As [`TraceCalls::open`], with pairs of events that only their names say to be calls: see [`EventCalls::with_pairs`].
    pub fn with_pairs(
        session: &'a Arc<Session>,
        trace: usize,
        streams: &[SelectedStream],
        selection: &Selection,
        filter: Option<&Filter>,
    ) -> Option<TraceCalls<'a>> {
        TraceCalls::for_trace(session, trace, (streams, selection, filter), EventCalls::with_pairs)
    }

    fn for_trace(
        session: &'a Arc<Session>,
        trace: usize,
        (streams, selection, filter): (&[SelectedStream], &Selection, Option<&Filter>),
        calls: impl FnOnce(&Arc<Session>, usize) -> Option<EventCalls>,
    ) -> Option<TraceCalls<'a>> {
        let of = &session.traces[trace];
        let source = match of.reader.calls() {
            Some(source) => RecordSource::Records(source),
            None => {
                let calls = calls(session, trace)?;
                RecordSource::Events(Box::new(calls.narrowed(streams, &selection.classes, filter)))
            }
        };
        let of_trace = selection.of_traces_ns.get(trace).copied().flatten();
        let begin = selection.begin_ns.max(of_trace.map(|(begin, _)| begin));
        let end = selection.end_ns.into_iter().chain(of_trace.map(|(_, end)| end)).min();
        Some(TraceCalls {
            session,
            trace,
            source,
            clock: of.streams.first().and_then(|stream| session.clock_map(trace, stream.class)),
            streams: streams.iter().filter(|own| own.trace == trace).cloned().collect(),
            selection: selection.clone(),
            filter: filter.cloned(),
            between: (begin.unwrap_or(i128::MIN), end.unwrap_or(i128::MAX)),
        })
    }

    /// The first and the last wanted time in ns.
    pub fn between(&self) -> (i128, i128) {
        self.between
    }

    /// All that is wanted but for the times: also what begins before and ends after them.
    #[must_use]
    pub fn at_any_time(mut self) -> Self {
        self.between = (i128::MIN, i128::MAX);
        self
    }

    /// Their records, also those that are not wanted.
    pub fn source(&self) -> &dyn CallSource {
        match &self.source {
            RecordSource::Records(source) => *source,
            RecordSource::Events(calls) => &**calls,
        }
    }

    /// Was a stream of its records left out of the wanted ones?
    pub fn is_left_out(&self, stream: usize) -> bool {
        let own = self.source().stream_of_trace(stream);
        own.is_some_and(|own| self.streams.iter().all(|of| of.index != own))
    }

    /// A time of a record in ns.
    #[inline]
    pub fn ns(&self, time: u64) -> i128 {
        match (&self.source, &self.clock) {
            (RecordSource::Events(calls), _) => calls.base_ns() + i128::from(time),
            (RecordSource::Records(_), Some(clock)) => clock.ns(time),
            (RecordSource::Records(_), None) => time.into(),
        }
    }

    /// Decides which records are wanted. `values` makes a text of the event of a record.
    pub fn wanted<'v>(&'v self, values: Option<EventTextFn<'v>>) -> WantedRecords<'v> {
        let all = self.session.traces[self.trace].streams.len();
        let has_all_classes = self.selection.classes.get(self.trace).is_none_or(Option::is_none);
        let is_whole = self.streams.len() == all && has_all_classes && self.filter.is_none();
        // Records that are made of events are those of the wanted ones.
        let has_all = matches!(self.source, RecordSource::Events(_)) || is_whole;
        let has_texts = values.is_some();
        WantedRecords {
            calls: self,
            has_all,
            has_texts,
            halves: (has_texts || !has_all).then(|| Halves::new(self, values)),
        }
    }
}

/// Makes a text of an event.
pub type EventTextFn<'v> = Box<dyn FnMut(&Event<'_>) -> Option<String> + 'v>;

/// Decides which records of calls are wanted: they are asked for in their order.
pub struct WantedRecords<'a> {
    calls: &'a TraceCalls<'a>,
    /// Is every record of the wanted times wanted?
    has_all: bool,
    /// Are texts made of records?
    has_texts: bool,
    /// The wanted events, where records do not come of these alone.
    halves: Option<Halves<'a>>,
}

impl WantedRecords<'_> {
    /// Are all records wanted?
    pub fn is_everything(&self) -> bool {
        self.has_all && self.calls.between == (i128::MIN, i128::MAX)
    }

    /// Are texts made of some records?
    pub fn has_texts(&self) -> bool {
        self.has_texts
    }

    /// Is a record wanted? Only calls are left out.
    #[inline]
    pub fn has(&mut self, record: &CallRecord) -> bool {
        self.select(record).is_some()
    }

    /// The text of a record's event, where there is one; `None` when the record is not wanted.
    #[inline]
    pub fn select(&mut self, record: &CallRecord) -> Option<Option<String>> {
        if !record.is_call() {
            return Some(None);
        }
        let (first, last) = self.calls.between;
        let is_in_time = (first, last) == (i128::MIN, i128::MAX) || {
            let ns = self.calls.ns(record.time);
            first <= ns && ns <= last
        };
        if !is_in_time {
            return None;
        }
        match &mut self.halves {
            None => Some(None),
            Some(halves) => halves.find_event(record),
        }
    }

    /// Errors of reading events, so far.
    pub fn take_faults(&mut self) -> Vec<Error> {
        self.halves.as_mut().map_or_else(Vec::new, |halves| std::mem::take(&mut halves.faults))
    }
}

/// The halves of calls that are wanted, as events say them.
struct Halves<'a> {
    events: Events<'a>,
    keys: KeyReader,
    key: Vec<u8>,
    values: Option<EventTextFn<'a>>,
    classes: Vec<Option<EdgeMeaning>>,
    /// Numbers of the tasks in the system.
    tids: Vec<i64>,
    /// Exits have times that no event has.
    is_estimated: bool,
    /// The maker of records, where they are made of events.
    of_events: Option<&'a EventCalls>,
    /// Calls that were read and have not met their record, with their texts.
    ready: HashMap<EdgeKey, VecDeque<Option<String>>>,
    /// How many may wait before those are dropped that no record will ask for.
    most_ready: usize,
    /// The latest time that was read.
    read_to: u64,
    is_over: bool,
    faults: Vec<Error>,
}

/// The meaning of an event class.
#[derive(Clone, Copy)]
struct EdgeMeaning {
    is_exit: bool,
    is_of_kernel: bool,
}

/// A half of a call: task, time, depth (for records that are made of events: the symbol), and whether it is an exit and one of
/// the kernel's.
type EdgeKey = (i64, u64, Option<i128>, bool, bool);

/// Halves that wait for their records, at least, before any are dropped.
const READY: usize = 1 << 14;

const TASK: usize = 0;
const DEPTH: usize = 1;

impl<'a> Halves<'a> {
    fn new(calls: &'a TraceCalls<'a>, values: Option<EventTextFn<'a>>) -> Self {
        let schema = &calls.session.traces[calls.trace].schema;
        let semantics = Semantics::new(schema);
        let count = schema.events().len();
        let (mut halves, mut fields) = (Vec::new(), Vec::new());
        for class in (0..count as u32).map(EventClassId) {
            let call = semantics.call(class);
            let mut of_class: ClassFields = Vec::new();
            if let Some(call) = &call {
                of_class.extend(semantics.who(class).id.map(|path| (TASK as u8, path)));
                of_class.extend(call.depth.clone().map(|path| (DEPTH as u8, path)));
            }
            halves.push(call.map(|call| EdgeMeaning { is_exit: call.is_exit, is_of_kernel: call.is_of_kernel }));
            fields.push(of_class);
        }
        let selected = calls.selection.classes.get(calls.trace).and_then(Option::as_ref);
        let is_wanted =
            |class: usize| halves[class].is_some() && selected.is_none_or(|selected| selected.has(class as u32));
        let set = Arc::new(ClassSet::new(count, is_wanted));
        let traces = calls.session.traces.len();
        let mut selection = Selection { memory_bytes: calls.selection.memory_bytes, ..Selection::default() };
        selection.classes = (0..traces).map(|at| (at == calls.trace).then(|| set.clone())).collect();
        let mut all = vec![Vec::new(); traces];
        all[calls.trace] = fields;
        let source = calls.source();
        let (of_events, fields) = match &calls.source {
            RecordSource::Events(of) => (Some(&**of), of.fields().clone()),
            RecordSource::Records(_) => (None, KeyBy::Fields(Arc::new(all))),
        };
        if let Some(of) = of_events {
            selection.classes[calls.trace] = of.classes(calls.trace);
        }
        Halves {
            events: Events::new(calls.session, &calls.streams, &selection, calls.filter.as_ref()),
            keys: KeyReader::new(calls.session, &fields),
            key: Vec::new(),
            values,
            classes: halves,
            tids: source.tasks().iter().map(|task| task.tid).collect(),
            is_estimated: source.is_estimated(),
            of_events,
            ready: HashMap::new(),
            most_ready: READY,
            read_to: 0,
            is_over: false,
            faults: Vec::new(),
        }
    }

    /// Finds the event of a record.
    fn find_event(&mut self, record: &CallRecord) -> Option<Option<String>> {
        let is_exit = record.kind == CallKind::Exit;
        if is_exit && self.is_estimated {
            // Without its beginning it is nothing.
            return Some(None);
        }
        self.read(record.time);
        if self.of_events.is_some() {
            let key = (record.task.into(), record.time, Some(record.symbol.into()), is_exit, false);
            // A call that ends with an outer one has no event of its own.
            return Some(self.pop(&key).flatten());
        }
        let tid = self.tids.get(record.task as usize).copied().unwrap_or(-1);
        let is_of_kernel = record.origin == CallOrigin::Kernel;
        for depth in [Some(record.depth.into()), None] {
            if let Some(text) = self.pop(&(tid, record.time, depth, is_exit, is_of_kernel)) {
                return Some(text);
            }
        }
        None
    }

    fn pop(&mut self, key: &EdgeKey) -> Option<Option<String>> {
        let found = self.ready.get_mut(key)?;
        let text = found.pop_front().flatten();
        if found.is_empty() {
            self.ready.remove(key);
        }
        Some(text)
    }

    /// Reads events up to a time, and those of that time.
    fn read(&mut self, time: u64) {
        while !self.is_over && self.read_to <= time {
            let event = match self.events.next() {
                Some(Step::Event(_, event)) => event,
                Some(Step::Note(note)) => {
                    if let Note::Fault(fault) = note {
                        self.faults.push(fault);
                    }
                    continue;
                }
                None => {
                    self.is_over = true;
                    return;
                }
            };
            if let Some(calls) = self.of_events {
                let half = calls.half(&event, &self.keys.values(&event, &mut self.key));
                let Some(half) = half else { continue };
                self.read_to = self.read_to.max(half.time);
                // Others have no text, and are not looked up.
                if let Some(text) = self.values.as_mut().and_then(|values| values(&event)) {
                    let key = (half.task.into(), half.time, Some(half.symbol.into()), half.is_exit, false);
                    self.ready.entry(key).or_default().push_back(Some(text));
                    if self.ready.len() > self.most_ready {
                        // Ends of calls that never began make no records, and records come in the order of time.
                        self.ready.retain(|(_, own, ..), _| *own >= time);
                        self.most_ready = READY.max(2 * self.ready.len());
                    }
                }
                continue;
            }
            let cycles = event.raw.cycles();
            self.read_to = self.read_to.max(cycles);
            let Some(half) = self.classes[event.raw.class().0 as usize] else { continue };
            let (mut tid, mut depth) = (-1, None);
            for (field, value) in self.keys.values(&event, &mut self.key) {
                match (field, value) {
                    (TASK, KeyValue::Integer(number)) => tid = i64::try_from(number).unwrap_or(-1),
                    (DEPTH, KeyValue::Integer(number)) => depth = Some(number),
                    _ => {}
                }
            }
            let text = self.values.as_mut().and_then(|values| values(&event));
            self.ready.entry((tid, cycles, depth, half.is_exit, half.is_of_kernel)).or_default().push_back(text);
        }
    }
}
