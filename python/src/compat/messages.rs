//! Iterates over messages: events, and what is between them.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Deref};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::class::basic::CompareOp;
use pyo3::exceptions::{PyKeyError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};
use tracemill_codec::chunk::PacketData;
use tracemill_codec::layout::DataFields;
use tracemill_engine::event;
use tracemill_engine::filter::damage;
use tracemill_engine::item::ReadyChunk;
use tracemill_engine::merge::StreamIndex;
use tracemill_engine::option_values::default_jobs;
use tracemill_engine::request::{EventQuery, OpenStep, Request};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::survey::{ends, survey};
use tracemill_engine::timeline::{Selection, merger, ranks, shared_times};
use tracemill_format::Stream;
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;
use tracemill_model::schema::{EventClassId, Scope, StreamClassId};

use super::describe::{EventRoots, describe, describe_event};
use super::fields::{
    FieldForms, SharedForms, ValueStyle, event_header, event_scope, packet_context, packet_header, utf8,
};
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
    names: Vec<PyOnceLock<Py<PyString>>>,
}

/// Ns at which something begins and ends, as far as it is known.
type KnownTimes = (Option<Py<PyAny>>, Option<Py<PyAny>>);

/// First and last ns.
type TimeRange = (Py<PyAny>, Py<PyAny>);

/// An event class as Python knows it.
struct EventInfo {
    class: Py<PyAny>,
    /// By name the scope, the index in it, the type of the field and its class.
    fields: Py<PyDict>,
    /// Types of the fields that scopes are, and their classes: common context, specific context, payload.
    scopes: [Option<(Py<PyAny>, Py<PyAny>)>; 3],
}

/// Traces with all that does not refer to objects of Python that refer to them in turn, so that no circle keeps them open.
pub(crate) struct ReadTraces {
    pub(crate) session: Session,
    pub(crate) streams: Vec<SelectedStream>,
    pub(crate) style: ValueStyle,
    pub(crate) traces: Vec<CompatTrace>,
}

/// The state that all events of an iteration share.
struct CompatReading {
    of: Arc<ReadTraces>,
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
            }
        };
        let traces = session.traces.iter().map(trace).collect();
        ReadTraces { session, streams, style, traces }
    }

    fn event_forms(&self, py: Python<'_>, trace: usize, class: EventClassId) -> SharedForms {
        let make = || {
            let of = &self.traces[trace];
            Arc::new(FieldForms::of_event(py, self.style, &self.session.traces[trace].plans, &of.data, class))
        };
        self.traces[trace].events[class.0 as usize].get_or_init(py, make).clone()
    }

    fn stream_forms(&self, py: Python<'_>, trace: usize, class: StreamClassId, scope: Scope) -> SharedForms {
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

    fn packet_context(&self, py: Python<'_>, trace: usize, packet: &PacketData) -> PyResult<Option<Py<PyAny>>> {
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

    fn factory<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        let factory = self.factory.get(py).map(|factory| factory.bind(py));
        factory.ok_or_else(|| PyValueError::new_err("the messages have no factory"))
    }

    fn event_info(&self, py: Python<'_>, trace: usize, class: EventClassId) -> PyResult<&EventInfo> {
        self.classes[trace][class.0 as usize].get_or_try_init(py, || {
            let made = self.factory(py)?.call_method1("event_info", (trace, class.0))?;
            let (class, fields, scopes) = made.extract()?;
            Ok(EventInfo { class, fields, scopes })
        })
    }
}

/// Chunks that events point into.
pub(crate) struct CompatBatch {
    chunks: Vec<(StreamIndex, Arc<ReadyChunk>)>,
    /// Objects of the packets of the chunks.
    packets: Vec<PyOnceLock<Py<PyAny>>>,
    reading: Arc<CompatReading>,
}

/// Options of [`CompatMessages`].
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct CompatOptions {
    begin_ns: Option<i128>,
    end_ns: Option<i128>,
    intersection: bool,
    clock_offset_ns: i64,
    input_format: Option<String>,
    /// `bt2` or `babeltrace`.
    style: String,
    /// Are only events wanted?
    only_events: bool,
    jobs: Option<usize>,
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
    fn open(paths: Vec<PathBuf>, options: &CompatOptions) -> Result<(Arc<CompatReading>, MessageOrder), Error> {
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
        let selection = Selection {
            begin_ns: options.begin_ns,
            end_ns: options.end_ns,
            of_traces_ns: of_traces.clone(),
            faults_in_place: true,
            ..opened.selection
        };
        let style = if options.style == "babeltrace" { ValueStyle::Babeltrace1 } else { ValueStyle::Bt2 };
        let merger = merger(&session, &streams, &selection);
        let ranks = ranks(&session, &streams);
        let times = |of: &SelectedStream| {
            let own = of_traces.get(of.trace).copied().flatten();
            let begin = options.begin_ns.max(own.map(|(begin, _)| begin));
            (begin, options.end_ns.into_iter().chain(own.map(|(_, end)| end)).min())
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
        let opened = py.detach(|| CompatMessages::open(paths, &options)).map_err(|error| raised(py, &error))?;
        let (reading, order) = opened;
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
            let file = stream.files.first().map(|file| file.path.to_string_lossy().into_owned());
            (of.trace, of.index, stream.class.0, stream.id, file.unwrap_or_else(|| stream.name.clone()))
        };
        self.0.streams.iter().map(one).collect()
    }

    /// The times of the first and of the last event.
    fn ends(&self, py: Python<'_>) -> PyResult<KnownTimes> {
        let session = &self.0.session;
        let (first, last) = py.detach(|| ends(session, (true, true)));
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
    reading: Arc<ReadTraces>,
    stream: usize,
    index: usize,
    data: Option<Arc<PacketData>>,
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

/// The place of an event in its batch.
#[derive(Clone)]
struct EventPlace {
    batch: Arc<CompatBatch>,
    chunk: u32,
    at: u32,
}

impl EventPlace {
    fn reading(&self) -> &CompatReading {
        &self.batch.reading
    }

    fn stream(&self) -> (usize, &SelectedStream, &ReadyChunk) {
        let (stream, ready) = &self.batch.chunks[self.chunk as usize];
        (stream.0 as usize, &self.batch.reading.streams[stream.0 as usize], ready)
    }

    fn event(&self) -> event::Event<'_> {
        let (_, of, ready) = self.stream();
        of.event(ready.chunk.event(self.at as usize))
    }

    fn name(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let event = self.event();
        let class = event.class();
        if class.open_ids.is_some() {
            let mut storage = Vec::new();
            return event.name(&mut storage).map(|name| utf8(py, name)).transpose();
        }
        let Some(name) = class.name.as_deref() else { return Ok(None) };
        let known = &self.reading().traces[event.trace].names[event.raw.class().0 as usize];
        Ok(Some(known.get_or_init(py, || PyString::intern(py, name).unbind()).clone_ref(py).into_any()))
    }

    fn info(&self, py: Python<'_>) -> PyResult<&EventInfo> {
        let (_, of, ready) = self.stream();
        self.reading().event_info(py, of.trace, ready.chunk.class(self.at as usize))
    }

    /// The fields of a scope; `None` when it is not declared.
    fn scope(&self, py: Python<'_>, scope: Scope) -> PyResult<Option<Py<PyAny>>> {
        let event = self.event();
        let (reading, trace) = (self.reading(), event.trace);
        let class = event.raw.chunk.packet.packet.class;
        let failed = |fault| raised(py, &damage(&event, fault));
        match scope {
            Scope::PacketContext => reading.packet_context(py, trace, &event.raw.chunk.packet),
            Scope::PacketHeader => {
                let forms = reading.stream_forms(py, trace, class, scope);
                packet_header(py, &forms, &event.raw.chunk.packet).map_err(failed)?
            }
            Scope::EventHeader => {
                let forms = reading.stream_forms(py, trace, class, scope);
                event_header(py, &forms, &event.raw).map_err(failed)?
            }
            _ => {
                let forms = reading.event_forms(py, trace, event.raw.class());
                event_scope(py, &forms, &event.raw, scope).map_err(failed)?
            }
        }
    }
}

/// An event message.
#[pyclass(name = "_EventMessageConst", frozen, module = "bt2")]
pub(crate) struct EventMessage {
    place: EventPlace,
}

#[pymethods]
impl EventMessage {
    /// The event.
    #[getter]
    fn event(&self) -> EventConst {
        EventConst { place: self.place.clone(), scopes: Default::default() }
    }

    /// The time of the event; ``ValueError`` when its stream has no clock.
    #[getter]
    fn default_clock_snapshot(&self) -> PyResult<ClockSnapshot> {
        let event = self.place.event();
        let (stream, of, _) = self.place.stream();
        let Some(clock) = &of.clock else {
            return Err(PyValueError::new_err(
                "cannot get default clock snapshot: stream class has no default clock class",
            ));
        };
        let cycles = event.raw.cycles();
        let ns = event.ns.unwrap_or_else(|| clock.ns(cycles));
        Ok(ClockSnapshot { class: ClockOf::Stream(self.place.batch.reading.clone(), stream), cycles, ns })
    }

    /// A number that no other message has.
    #[getter]
    fn addr(this: PyRef<'_, Self>) -> usize {
        this.as_ptr() as usize
    }
}

/// An event.
#[pyclass(name = "_EventConst", frozen, mapping, module = "bt2")]
pub(crate) struct EventConst {
    place: EventPlace,
    /// Common context, specific context, payload, as they were read.
    scopes: [PyOnceLock<Option<Py<PyAny>>>; 3],
}

/// The scopes whose fields an event has, by the number that Python gives them.
const SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// The number that Python gives the packet context.
const PACKET_CONTEXT: usize = 3;

impl EventConst {
    fn values(&self, py: Python<'_>, scope: usize) -> PyResult<Option<&Py<PyAny>>> {
        let values = self.scopes[scope].get_or_try_init(py, || self.place.scope(py, SCOPES[scope]))?;
        Ok(values.as_ref())
    }

    fn field(&self, py: Python<'_>, scope: usize) -> PyResult<Option<Py<PyAny>>> {
        let Some((field, class)) = &self.place.info(py)?.scopes[scope] else { return Ok(None) };
        let Some(values) = self.values(py, scope)? else { return Ok(None) };
        field.call1(py, (values, class)).map(Some)
    }

    fn find(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let Ok(key) = key.cast::<PyString>() else {
            let of = key.get_type().name()?;
            return Err(PyTypeError::new_err(format!("'{of}' is not a 'str' object")));
        };
        let Some(found) = self.place.info(py)?.fields.bind(py).get_item(key)? else { return Ok(None) };
        let (scope, index, field, class): (usize, usize, Bound<'_, PyAny>, Bound<'_, PyAny>) = found.extract()?;
        if scope == PACKET_CONTEXT {
            let packet = self.packet(py)?;
            let context = packet.bind(py).getattr("context_field")?;
            return context.get_item(key).map(|value| Some(value.unbind()));
        }
        let Some(values) = self.values(py, scope)? else { return Ok(None) };
        let value = values.bind(py).cast::<PyTuple>()?.get_item(index)?;
        field.call1((value, class)).map(|field| Some(field.unbind()))
    }
}

#[pymethods]
impl EventConst {
    /// The name of its class.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.place.name(py)
    }

    /// The id of its class.
    #[getter]
    fn id(&self) -> u64 {
        self.place.event().id()
    }

    /// Its class.
    #[getter]
    fn cls(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.place.info(py)?.class.clone_ref(py))
    }

    /// Its packet.
    #[getter]
    fn packet(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let place = &self.place;
        let packet = place.batch.packets[place.chunk as usize].get_or_try_init(py, || {
            let (stream, _, ready) = place.stream();
            let data = ready.chunk.packet.clone();
            let index = data.packet.index as usize;
            let packet = PacketPlace { reading: place.batch.reading.of.clone(), stream, index, data: Some(data) };
            let made = place.reading().factory(py)?.call_method1("packet", (Py::new(py, packet)?,))?;
            Ok::<_, PyErr>(made.unbind())
        })?;
        Ok(packet.clone_ref(py))
    }

    /// Its stream.
    #[getter]
    fn stream(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let made = self.place.reading().factory(py)?.call_method1("stream", (self.place.stream().0,))?;
        Ok(made.unbind())
    }

    /// The fields that all events of its stream class have.
    #[getter]
    fn common_context_field(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.field(py, 0)
    }

    /// The context of its class.
    #[getter]
    fn specific_context_field(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.field(py, 1)
    }

    /// Its payload.
    #[getter]
    fn payload_field(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.field(py, 2)
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.find(py, key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.place.info(py)?.fields.bind(py).contains(key)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.place.info(py)?.fields.bind(py).len())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.place.info(py)?.fields.bind(py).try_iter()?.into_any().unbind())
    }

    /// The names of its fields.
    fn keys(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.place.info(py)?.fields.bind(py).call_method0("keys")?.unbind())
    }

    /// Its fields.
    #[pyo3(name = "values")]
    fn all_values(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.items(py).map(|items| items.into_iter().map(|(_, value)| value).collect())
    }

    /// The names of its fields, with the fields.
    fn items(&self, py: Python<'_>) -> PyResult<Vec<(Py<PyAny>, Py<PyAny>)>> {
        let keys = self.place.info(py)?.fields.bind(py).try_iter()?;
        keys.map(|key| {
            let key = key?;
            Ok((key.clone().unbind(), self.__getitem__(py, &key)?))
        })
        .collect()
    }

    /// A field; ``default`` when the event does not have it.
    #[pyo3(signature = (key, default = None))]
    fn get(&self, py: Python<'_>, key: &Bound<'_, PyAny>, default: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.find(py, key)?.or(default))
    }

    /// A number that no other event has.
    #[getter]
    fn addr(this: PyRef<'_, Self>) -> usize {
        this.as_ptr() as usize
    }
}

/// Where the class of a clock is found.
enum ClockOf {
    Stream(Arc<CompatReading>, usize),
    Class(Py<PyAny>),
}

/// A value of a clock.
#[pyclass(name = "_ClockSnapshotConst", frozen, module = "bt2")]
pub(crate) struct ClockSnapshot {
    class: ClockOf,
    cycles: u64,
    ns: i128,
}

#[pymethods]
impl ClockSnapshot {
    /// The cycles.
    #[getter]
    fn value(&self) -> u64 {
        self.cycles
    }

    /// Ns since the origin of the clock.
    #[getter]
    fn ns_from_origin(&self) -> PyResult<i64> {
        i64::try_from(self.ns).map_err(|_| {
            PyOverflowError::new_err("cannot get clock snapshot's nanoseconds from origin: they do not fit 64 bits")
        })
    }

    /// The class of the clock.
    #[getter]
    fn clock_class(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.class {
            ClockOf::Stream(reading, stream) => {
                Ok(reading.factory(py)?.call_method1("clock_class", (*stream,))?.unbind())
            }
            ClockOf::Class(class) => Ok(class.clone_ref(py)),
        }
    }

    fn __richcmp__(&self, py: Python<'_>, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let other = match other.cast::<ClockSnapshot>() {
            Ok(_) => return Ok(py.NotImplemented()),
            Err(_) => other.call_method0("__index__").and_then(|other| other.extract::<i128>()),
        };
        let Ok(other) = other else { return Ok(py.NotImplemented()) };
        let is = op.matches(i128::from(self.cycles).cmp(&other));
        Ok(is.into_pyobject(py)?.to_owned().into_any().unbind())
    }
}

/// The scopes of babeltrace 1, by the number that Python gives them.
const OLD_SCOPES: [Scope; 6] = [
    Scope::PacketHeader,
    Scope::PacketContext,
    Scope::EventHeader,
    Scope::CommonContext,
    Scope::SpecificContext,
    Scope::Payload,
];

/// An event as babeltrace 1 knows it: what `tracemill/babeltrace` is made of.
#[pyclass(frozen, module = "tracemill._native")]
pub(crate) struct OldEvent {
    place: EventPlace,
    scopes: [PyOnceLock<Option<Py<PyAny>>>; 6],
}

#[pymethods]
impl OldEvent {
    /// The name of its class.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.place.name(py)
    }

    /// Its clock value.
    #[getter]
    fn cycles(&self) -> u64 {
        self.place.event().raw.cycles()
    }

    /// Ns since the origin of its clock; ``None`` when it has none.
    #[getter]
    fn timestamp(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.place.event().ns.map(|ns| integer(py, ns)).transpose()
    }

    /// The index of its trace.
    #[getter]
    fn trace(&self) -> usize {
        self.place.event().trace
    }

    /// The index of its event class.
    #[getter]
    fn class_index(&self) -> u32 {
        self.place.event().raw.class().0
    }

    /// The values of the fields of a scope; ``None`` when it is not declared.
    fn values(&self, py: Python<'_>, scope: usize) -> PyResult<Option<Py<PyAny>>> {
        let Some(known) = self.scopes.get(scope) else { return Ok(None) };
        let values = known.get_or_try_init(py, || self.place.scope(py, OLD_SCOPES[scope]))?;
        Ok(values.as_ref().map(|values| values.clone_ref(py)))
    }
}
