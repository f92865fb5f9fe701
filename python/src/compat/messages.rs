//! Iterates over messages: events, and what is between them.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Deref};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use tracemill_codec::chunk::PacketData;
use tracemill_codec::layout::{self, DataFields};
use tracemill_engine::item::ReadyChunk;
use tracemill_engine::merge::StreamIndex;
use tracemill_engine::option_values::default_jobs;
use tracemill_engine::parsed_query::ParsedQuery;
use tracemill_engine::request::{EventQuery, OpenStep, Request};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::survey::{ends, survey};
use tracemill_engine::timeline::{Selection, merger, ranks, shared_times};
use tracemill_format::Stream;
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;
use tracemill_model::schema::{EventClassId, FieldClassId, Role, Schema, Scope, StreamClass, StreamClassId};

use super::describe::{EventRoots, describe, describe_event};
use super::events::{ClockOf, ClockSnapshot, EventMessage, EventPlace, OldEvent};
use super::fields::{FieldForms, SharedForms, ValueStyle, packet_context};
use super::order::{MessageMark, MessageOrder, Ordered, PacketOpener};
use crate::errors::{FoundFaults, raised};
use crate::values::integer;

/// The state of a trace while its events are read.
pub(crate) struct CompatTrace {
    pub(crate) data: DataFields,
    /// Forms of the fields of event classes.
    events: Vec<PyOnceLock<SharedForms>>,
    /// Forms of the packet header, and of the packet contexts and event headers of stream classes.
    header: PyOnceLock<SharedForms>,
    contexts: Vec<PyOnceLock<SharedForms>>,
    event_headers: Vec<PyOnceLock<SharedForms>>,
    /// Names of event classes.
    pub(super) names: Vec<PyOnceLock<Py<PyString>>>,
    /// By stream class: do its events have times in babeltrace 1?
    pub(super) has_old_times: Vec<bool>,
}

/// In babeltrace 1, events of CTF whose headers have no time have none, whatever their packets say.
fn has_old_times(schema: &Schema, class: &StreamClass) -> bool {
    !schema.has_peer_text || class.event_header.is_some_and(|header| has_time(schema, header))
}

fn has_time(schema: &Schema, root: FieldClassId) -> bool {
    let class = schema.field_class(root);
    class.roles.has(Role::Timestamp) || layout::children(class).into_iter().any(|child| has_time(schema, child))
}

/// Ns at which something begins and ends, as far as it is known.
type KnownTimes = (Option<Py<PyAny>>, Option<Py<PyAny>>);

/// First and last ns.
type TimeRange = (Py<PyAny>, Py<PyAny>);

/// An event class as Python knows it.
pub(super) struct EventInfo {
    pub(super) class: Py<PyAny>,
    /// By name the scope, the index in it, the type of the field and its class.
    pub(super) fields: Py<PyDict>,
    /// Types of the fields that scopes are, and their classes: common context, specific context, payload.
    pub(super) scopes: [Option<(Py<PyAny>, Py<PyAny>)>; 3],
}

/// Traces with all that does not refer to objects of Python that refer to them in turn, so that no circle keeps them open.
pub(crate) struct ReadTraces {
    pub(crate) session: Session,
    pub(crate) streams: Vec<SelectedStream>,
    pub(crate) style: ValueStyle,
    pub(crate) traces: Vec<CompatTrace>,
}

/// The state that all events of an iteration share.
pub(super) struct CompatReading {
    pub(super) of: Arc<ReadTraces>,
    found: FoundFaults,
    /// The object of Python that makes classes.
    factory: PyOnceLock<Py<PyAny>>,
    /// The event classes of each trace as Python knows them.
    classes: Vec<Vec<PyOnceLock<EventInfo>>>,
}

impl Deref for CompatReading {
    type Target = ReadTraces;

    fn deref(&self) -> &ReadTraces {
        &self.of
    }
}

fn once<T>(count: usize) -> Vec<PyOnceLock<T>> {
    (0..count).map(|_| PyOnceLock::new()).collect()
}

impl ReadTraces {
    fn new(session: Session, streams: Vec<SelectedStream>, style: ValueStyle) -> Self {
        let trace = |of: &tracemill_format::OpenTrace| {
            let schema = &of.schema;
            let (events, classes) = (schema.events().len(), schema.streams().len());
            let mut data = DataFields::new(schema);
            let roots = schema.events().iter().flat_map(|class| schema.event_roots(class)).flatten();
            roots.for_each(|root| data.add_references(schema, root));
            CompatTrace {
                data,
                events: once(events),
                header: PyOnceLock::new(),
                contexts: once(classes),
                event_headers: once(classes),
                names: once(events),
                has_old_times: schema.streams().iter().map(|class| has_old_times(schema, class)).collect(),
            }
        };
        let traces = session.traces.iter().map(trace).collect();
        ReadTraces { session, streams, style, traces }
    }

    /// Do the events of a stream have times?
    pub(super) fn has_times(&self, of: &SelectedStream) -> bool {
        self.style != ValueStyle::Babeltrace1 || self.traces[of.trace].has_old_times[of.stream.class.0 as usize]
    }

    pub(super) fn event_forms(&self, py: Python<'_>, trace: usize, class: EventClassId) -> SharedForms {
        let make = || {
            let of = &self.traces[trace];
            Arc::new(FieldForms::of_event(py, self.style, &self.session.traces[trace].plans, &of.data, class))
        };
        self.traces[trace].events[class.0 as usize].get_or_init(py, make).clone()
    }

    pub(super) fn stream_forms(&self, py: Python<'_>, trace: usize, class: StreamClassId, scope: Scope) -> SharedForms {
        let of = &self.traces[trace];
        let make = || {
            let plans = &self.session.traces[trace].plans;
            Arc::new(FieldForms::of_stream(py, self.style, plans, &of.data, class, scope))
        };
        let known = match scope {
            Scope::PacketHeader => &of.header,
            Scope::PacketContext => &of.contexts[class.0 as usize],
            _ => &of.event_headers[class.0 as usize],
        };
        known.get_or_init(py, make).clone()
    }

    pub(super) fn packet_context(
        &self,
        py: Python<'_>,
        trace: usize,
        packet: &PacketData,
    ) -> PyResult<Option<Py<PyAny>>> {
        let class = packet.packet.class;
        if self.session.traces[trace].schema.stream(class).packet_context.is_none() {
            return Ok(None);
        }
        let forms = self.stream_forms(py, trace, class, Scope::PacketContext);
        let fault = |fault| raised(py, &Error::from(fault).in_packet(packet.packet.index));
        packet_context(py, &forms, packet).map_err(fault)?
    }
}

impl CompatReading {
    fn new(of: ReadTraces) -> Self {
        let classes = of.traces.iter().map(|trace| once(trace.events.len())).collect();
        let found = FoundFaults::new(false, false);
        CompatReading { of: Arc::new(of), found, factory: PyOnceLock::new(), classes }
    }

    pub(super) fn factory<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        let factory = self.factory.get(py).map(|factory| factory.bind(py));
        factory.ok_or_else(|| PyValueError::new_err("the messages have no factory"))
    }

    pub(super) fn event_info(&self, py: Python<'_>, trace: usize, class: EventClassId) -> PyResult<&EventInfo> {
        self.classes[trace][class.0 as usize].get_or_try_init(py, || {
            let made = self.factory(py)?.call_method1("event_info", (trace, class.0))?;
            let (class, fields, scopes) = made.extract()?;
            Ok(EventInfo { class, fields, scopes })
        })
    }
}

/// Chunks that events point into.
pub(crate) struct CompatBatch {
    pub(super) chunks: Vec<(StreamIndex, Arc<ReadyChunk>)>,
    /// Objects of the packets of the chunks.
    pub(super) packets: Vec<PyOnceLock<Py<PyAny>>>,
    pub(super) reading: Arc<CompatReading>,
}

/// Options of [`CompatMessages`].
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct CompatOptions {
    begin_ns: Option<i128>,
    end_ns: Option<i128>,
    /// Begins and ends as trimmers have them, and whether those without a zone are universal time.
    trims: Vec<(Option<String>, Option<String>, bool)>,
    intersection: bool,
    clock_offset_ns: i64,
    input_format: Option<String>,
    /// `bt2` or `babeltrace`.
    style: String,
    /// Are only events wanted?
    only_events: bool,
    jobs: Option<usize>,
}

/// Why messages cannot be read: the traces, or times that are wanted of them.
enum NotOpened {
    Traces(Error),
    Times(Error),
}

impl From<Error> for NotOpened {
    fn from(error: Error) -> Self {
        NotOpened::Traces(error)
    }
}

impl CompatOptions {
    /// The first and the last wanted ns.
    fn times(&self, session: &Session) -> Result<(Option<i128>, Option<i128>), Error> {
        let (mut begin_ns, mut end_ns) = (self.begin_ns, self.end_ns);
        if let Some((begin, end)) = begin_ns.zip(end_ns).filter(|(begin, end)| begin > end) {
            return Err(Error::misuse(format!("`begin` ({begin} ns) lies after `end` ({end} ns)")));
        }
        for (begin, end, gmt) in &self.trims {
            let mut choice = ParsedQuery::default();
            begin.iter().try_for_each(|begin| choice.set_begin("begin", begin))?;
            end.iter().try_for_each(|end| choice.set_end("end", end))?;
            let (trim, _) = choice.bind(session, *gmt)?;
            begin_ns = begin_ns.max(trim.begin_ns);
            end_ns = end_ns.into_iter().chain(trim.end_ns).min();
        }
        Ok((begin_ns, end_ns))
    }
}

/// An iterator over the messages of traces, in the order of time.
#[pyclass(module = "tracemill._native")]
pub(crate) struct CompatMessages {
    reading: Arc<CompatReading>,
    source: Option<Mutex<MessageOrder>>,
    batch: Arc<CompatBatch>,
    items: VecDeque<Ordered>,
    only_events: bool,
}

/// Batches without a message that is wanted, after which Python is asked whether somebody pressed Ctrl-C.
const PATIENCE: usize = 64;

impl CompatMessages {
    fn open(paths: Vec<PathBuf>, options: &CompatOptions) -> Result<(Arc<CompatReading>, MessageOrder), NotOpened> {
        let mut open = OpenOptions::new(FORMATS);
        open.input_format = options.input_format.clone();
        if options.clock_offset_ns != 0 {
            open.clock_offsets.push((None, options.clock_offset_ns));
        }
        let jobs = options.jobs.unwrap_or_else(default_jobs).max(1);
        let query = EventQuery { gmt: true, jobs, ..EventQuery::default() };
        let request = Request { inputs: paths, open, events: Some(query), ..Request::default() };
        let opened = request.open(&FileSystem, &mut |step| {
            if let OpenStep::Opened(session) = step
                && session.traces.is_empty()
                && let Some(failure) = session.failures.first()
            {
                return Err(failure.clone());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let opened = opened.ok_or_else(|| Error::misuse("the traces were not opened"))?;
        let (session, streams) = (opened.session, opened.streams);
        let of_traces = if options.intersection { shared_times(&session)? } else { Vec::new() };
        let (begin_ns, end_ns) = options.times(&session).map_err(NotOpened::Times)?;
        let selection =
            Selection { begin_ns, end_ns, of_traces_ns: of_traces.clone(), faults_in_place: true, ..opened.selection };
        let style = if options.style == "babeltrace" { ValueStyle::Babeltrace1 } else { ValueStyle::Bt2 };
        let merger = merger(&session, &streams, &selection);
        let ranks = ranks(&session, &streams);
        let times = |of: &SelectedStream| {
            let own = of_traces.get(of.trace).copied().flatten();
            let begin = begin_ns.max(own.map(|(begin, _)| begin));
            (begin, end_ns.into_iter().chain(own.map(|(_, end)| end)).min())
        };
        let opener = |of: &SelectedStream| {
            let trace = &session.traces[of.trace];
            PacketOpener { reader: trace.reader.clone(), plans: trace.plans.clone() }
        };
        let own = streams.iter().zip(ranks).map(|(of, rank)| ((of.clone(), opener(of)), rank, times(of)));
        let order = MessageOrder::new(merger, own);
        let reading = CompatReading::new(ReadTraces::new(session, streams, style));
        let session = &reading.session;
        let of_traces = session.traces.iter().flat_map(|trace| &trace.warnings);
        session.warnings.iter().chain(of_traces).for_each(|warning| reading.found.warning(warning.to_string()));
        // Traces beside those that could be opened. Damage inside of them is raised where it stands.
        session.failures.iter().try_for_each(|failure| reading.found.fault(failure.clone()))?;
        Ok((Arc::new(reading), order))
    }
}

#[pymethods]
impl CompatMessages {
    #[new]
    fn new(py: Python<'_>, paths: Vec<PathBuf>, options: CompatOptions) -> PyResult<Self> {
        let (reading, order) =
            py.detach(|| CompatMessages::open(paths, &options)).map_err(|not_opened| match not_opened {
                NotOpened::Traces(error) => raised(py, &error),
                NotOpened::Times(error) => PyValueError::new_err(error.to_string()),
            })?;
        reading.found.warn(py)?;
        Ok(CompatMessages {
            batch: Arc::new(CompatBatch { chunks: Vec::new(), packets: Vec::new(), reading: reading.clone() }),
            reading,
            source: Some(Mutex::new(order)),
            items: VecDeque::new(),
            only_events: options.only_events,
        })
    }

    /// Sets the object that makes classes and messages.
    fn set_factory(&self, py: Python<'_>, factory: Py<PyAny>) {
        let _ = self.reading.factory.set(py, factory);
    }

    /// The traces.
    fn read_traces(&self) -> CompatTraces {
        CompatTraces(self.reading.of.clone())
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        loop {
            match self.items.pop_front() {
                Some(Ordered::Event(chunk, at)) => {
                    let place = EventPlace { batch: self.batch.clone(), chunk, at };
                    return match self.reading.style {
                        ValueStyle::Bt2 => Ok(Some(Py::new(py, EventMessage { place })?.into_any())),
                        ValueStyle::Babeltrace1 => {
                            let factory = self.reading.factory(py)?;
                            let core = Py::new(py, OldEvent { place, scopes: Default::default() })?;
                            factory.call1((core,)).map(|event| Some(event.unbind()))
                        }
                    };
                }
                Some(Ordered::Mark(_)) if self.only_events => {}
                Some(Ordered::Mark(mark)) => {
                    if let Some(message) = self.mark(py, &mark)? {
                        return Ok(Some(message));
                    }
                }
                // Version 1 has no error for it: its events end there. Here they go on.
                Some(Ordered::Fault(fault)) if self.reading.style == ValueStyle::Babeltrace1 => {
                    let _ = self.reading.found.fault(fault);
                    self.reading.found.warn(py)?;
                }
                Some(Ordered::Fault(fault)) => {
                    let raise = self.reading.factory(py)?.getattr("failed")?;
                    let error = crate::errors::object(py, &fault)?;
                    return Err(raise.call1((error,)).map_or_else(|error| error, |error| PyErr::from_value(error)));
                }
                Some(Ordered::Warning(warning)) => {
                    self.reading.found.warning(warning.to_string());
                    self.reading.found.warn(py)?;
                }
                None => {
                    let Some(source) = &mut self.source else { return Ok(None) };
                    let source = source.get_mut().unwrap_or_else(PoisonError::into_inner);
                    let batch = py.detach(|| {
                        for _ in 0..PATIENCE {
                            match source.next_batch() {
                                Some(batch) if batch.items.is_empty() => {}
                                batch => return batch,
                            }
                        }
                        Some(super::order::OrderedBatch::default())
                    });
                    py.check_signals()?;
                    let Some(batch) = batch else {
                        self.source = None;
                        return Ok(None);
                    };
                    let packets = once(batch.chunks.len());
                    self.items = batch.items;
                    self.batch = Arc::new(CompatBatch { chunks: batch.chunks, packets, reading: self.reading.clone() });
                }
            }
        }
    }
}

impl CompatMessages {
    /// The message of a mark, which Python makes.
    fn mark(&self, py: Python<'_>, mark: &MessageMark) -> PyResult<Option<Py<PyAny>>> {
        let stream = mark.stream.0 as usize;
        let clock = self.reading.streams[stream].clock.as_ref();
        let time = |cycles: Option<u64>| -> PyResult<Option<(u64, Py<PyAny>)>> {
            let Some((cycles, clock)) = cycles.zip(clock) else { return Ok(None) };
            Ok(Some((cycles, integer(py, clock.ns(cycles))?)))
        };
        let packet = PacketPlace { reading: self.reading.of.clone(), stream, index: mark.packet, data: None };
        let parts = (
            mark.kind as u8,
            stream,
            Py::new(py, packet)?,
            time(mark.begin_cycles)?,
            time(mark.end_cycles)?,
            mark.count,
        );
        let made = self.reading.factory(py)?.call_method1("mark", parts)?;
        Ok((!made.is_none()).then(|| made.unbind()))
    }
}

/// The traces of an iteration, and what they are made of.
#[pyclass(frozen, module = "tracemill._native")]
pub(crate) struct CompatTraces(Arc<ReadTraces>);

#[pymethods]
impl CompatTraces {
    /// The number of traces.
    fn traces(&self) -> usize {
        self.0.session.traces.len()
    }

    /// A trace as plain values.
    fn trace<'py>(&self, py: Python<'py>, trace: usize) -> PyResult<Bound<'py, PyDict>> {
        describe(py, &self.0, trace)
    }

    /// The specific context and the payload of an event class as plain values.
    fn event_class<'py>(&self, py: Python<'py>, trace: usize, class: usize) -> PyResult<EventRoots<'py>> {
        describe_event(py, &self.0, trace, class)
    }

    /// The streams: trace, index in it, class, id, file.
    fn streams(&self) -> Vec<(usize, usize, u32, Option<u64>, String)> {
        let one = |of: &SelectedStream| {
            let stream: &Stream = &of.stream;
            // The file that was begun first: rotation may have written over the first by name.
            let first = stream.packets.first().and_then(|packet| stream.files.get(packet.file as usize));
            let file = first.or(stream.files.first()).map(|file| file.path.to_string_lossy().into_owned());
            (of.trace, of.index, stream.class.0, stream.id, file.unwrap_or_else(|| stream.name.clone()))
        };
        self.0.streams.iter().map(one).collect()
    }

    /// The times of the first and of the last event.
    fn ends(&self, py: Python<'_>) -> PyResult<KnownTimes> {
        let session = &self.0.session;
        let has_times = |of: &SelectedStream| self.0.has_times(of);
        let (first, last) = match self.0.streams.iter().any(has_times) {
            true => py.detach(|| ends(session, (true, true))),
            false => (None, None),
        };
        let ns = |ns: Option<i128>| ns.map(|ns| integer(py, ns)).transpose();
        Ok((ns(first)?, ns(last)?))
    }

    /// The times at which the packets of a stream begin and end, as far as they say so.
    fn stream_times(&self, py: Python<'_>, stream: usize) -> PyResult<KnownTimes> {
        let Some(of) = self.0.streams.get(stream) else { return Ok((None, None)) };
        let surveys = survey(&self.0.session, false, 1);
        let ns = |ns: Option<i128>| ns.map(|ns| integer(py, ns)).transpose();
        let stream = &surveys[of.trace].streams[of.index];
        Ok((ns(stream.begin_ns)?, ns(stream.end_ns)?))
    }

    /// The times from which to which all streams of each trace have packets.
    fn shared_times(&self, py: Python<'_>) -> PyResult<Vec<Option<TimeRange>>> {
        let times = shared_times(&self.0.session).map_err(|error| raised(py, &error))?;
        let one = |(first, last)| Ok((integer(py, first)?, integer(py, last)?));
        times.into_iter().map(|times| times.map(one).transpose()).collect()
    }

    /// A snapshot of the clock of a stream, whose class is given.
    fn clock_snapshot(&self, stream: usize, cycles: u64, class: Py<PyAny>) -> PyResult<ClockSnapshot> {
        let clock = self.0.streams.get(stream).and_then(|of| of.clock);
        let ns = clock.map(|clock| clock.ns(cycles)).ok_or_else(|| PyValueError::new_err("the stream has no clock"))?;
        Ok(ClockSnapshot { class: ClockOf::Class(class), cycles, ns })
    }
}

/// A packet whose context can be asked for.
#[pyclass(frozen, module = "tracemill._native")]
pub(crate) struct PacketPlace {
    pub(super) reading: Arc<ReadTraces>,
    pub(super) stream: usize,
    pub(super) index: usize,
    pub(super) data: Option<Arc<PacketData>>,
}

#[pymethods]
impl PacketPlace {
    /// The index of its stream.
    #[getter]
    fn stream(&self) -> usize {
        self.stream
    }

    /// The fields of its context; `None` when there is none.
    fn context(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let of = &self.reading.streams[self.stream];
        if let Some(data) = &self.data {
            return self.reading.packet_context(py, of.trace, data);
        }
        let trace = &self.reading.session.traces[of.trace];
        let clock = of.stream.packets.get(self.index).and_then(|packet| packet.begin_cycles).unwrap_or(0);
        let opened = trace.reader.open_packet(&trace.plans, &of.stream, self.index, clock);
        let opened = opened.map_err(|error| raised(py, &error.in_packet(self.index as u64)))?;
        self.reading.packet_context(py, of.trace, &opened.data)
    }
}
