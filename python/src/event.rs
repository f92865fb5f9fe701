//! An event, whose fields are decoded when they are asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tracemill_engine::event;
use tracemill_engine::filter::{Access, Captured, CapturedValue, FieldReader, PathHead, damage};
use tracemill_engine::item::ReadyChunk;
use tracemill_engine::merge::{Batch, Run, StreamIndex};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_model::schema::{ClockOrigin, FieldClassId, Schema, Scope};
use tracemill_render::lines::{LineFormat, LinePlan, LineRenderer, Rendered};
use tracemill_semantics::CpuOf;

use crate::errors::raised;
use crate::values::{Labelled, Maker, integer, text, time};

/// The state that all events of an iteration share.
pub(crate) struct EventReading {
    pub(crate) session: Arc<Session>,
    pub(crate) streams: Vec<SelectedStream>,
    state: Mutex<ReadState>,
}

struct ReadState {
    fields: FieldReader,
    cpus: CpuOf,
    labelled: Labelled,
    /// Names of classes, by trace and class.
    names: Vec<Vec<Option<Py<PyString>>>>,
    lines: Option<LineRenderer>,
    /// Storage of events that are gone.
    pool: Vec<Captured>,
}

impl EventReading {
    pub(crate) fn new(session: Arc<Session>, streams: Vec<SelectedStream>) -> Self {
        let names = session.traces.iter().map(|trace| trace.schema.events().iter().map(|_| None).collect());
        let state = ReadState {
            fields: FieldReader::new(&session),
            cpus: CpuOf::default(),
            labelled: Labelled::default(),
            names: names.collect(),
            lines: None,
            pool: Vec::new(),
        };
        EventReading { session, streams, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, ReadState> {
        // The state stays consistent wherever a panic broke off: paths, names, storage.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The chunks that events point into: kept as long as one of these events is.
pub(crate) struct Chunks {
    pub(crate) chunks: Vec<(StreamIndex, Arc<ReadyChunk>)>,
    pub(crate) reading: Arc<EventReading>,
}

/// An event of a trace.
///
/// It is valid for ever, also when the traces are closed. A field is decoded when it is asked for: ``event["load"]`` looks
/// where a word of a filter looks (``payload``, then the contexts), ``event["payload.list[2]"]`` takes a path.
#[pyclass(frozen, module = "tracemill")]
pub(crate) struct Event {
    pub(crate) chunks: Arc<Chunks>,
    pub(crate) chunk: u32,
    pub(crate) at: u32,
    captured: Mutex<Option<Captured>>,
}

impl Drop for Event {
    fn drop(&mut self) {
        let captured = self.captured.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(captured) = captured.take() {
            self.chunks.reading.state().pool.push(captured);
        }
    }
}

impl Event {
    pub(crate) fn new(chunks: Arc<Chunks>, chunk: u32, at: u32) -> Self {
        Event { chunks, chunk, at, captured: Mutex::new(None) }
    }

    fn reading(&self) -> &EventReading {
        &self.chunks.reading
    }

    fn stream_and_chunk(&self) -> (&SelectedStream, StreamIndex, &ReadyChunk) {
        let (stream, ready) = &self.chunks.chunks[self.chunk as usize];
        (&self.reading().streams[stream.0 as usize], *stream, ready)
    }

    fn inner(&self) -> event::Event<'_> {
        let (of, _, ready) = self.stream_and_chunk();
        of.event(ready.chunk.event(self.at as usize))
    }

    fn schema(&self) -> &Schema {
        &self.reading().session.traces[self.stream_and_chunk().0.trace].schema
    }

    /// The value at a path; `None` when the event does not have it.
    fn find(&self, py: Python<'_>, path: &str) -> PyResult<Option<Py<PyAny>>> {
        let inner = self.inner();
        let mut state = self.reading().state();
        let access = state.fields.find(&inner, path);
        let mut maker = Maker { schema: self.schema(), trace: inner.trace, labelled: &mut state.labelled };
        let chunk = inner.raw.chunk;
        match access {
            Access::Absent => Ok(None),
            Access::Fixed(fixed, class) => {
                let Some(bits) = fixed.read(chunk.packet.input(), chunk.body_bits(inner.raw.at)) else {
                    return Ok(None);
                };
                let value = if fixed.is_signed() { i128::from(bits as i64) } else { i128::from(bits) };
                maker.integer(py, value, class).map(Some)
            }
            Access::FixedText(fixed, _) => {
                let bytes = fixed.read(chunk.packet.input(), chunk.body_bits(inner.raw.at));
                Ok(bytes.map(|bytes| text(py, bytes)))
            }
            Access::Field(index, class) => self.captured(py, &inner, &mut state, index, class),
            Access::Head(head) => {
                drop(state);
                self.head(py, head)
            }
        }
    }

    fn captured(
        &self,
        py: Python<'_>,
        inner: &event::Event<'_>,
        state: &mut ReadState,
        index: usize,
        class: FieldClassId,
    ) -> PyResult<Option<Py<PyAny>>> {
        let ReadState { fields, pool, labelled, .. } = state;
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let captured = captured.get_or_insert_with(|| {
            let mut captured = pool.pop().unwrap_or_default();
            fields.capture(inner, &mut captured);
            captured
        });
        // A path that was met first when the others had been read already is read alone.
        let value = if captured.lacks(index) {
            CapturedValue::Tree
        } else {
            match captured.get(index) {
                Some(value) => value,
                None => return Ok(None),
            }
        };
        let mut maker = Maker { schema: self.schema(), trace: inner.trace, labelled };
        let value = match value {
            CapturedValue::Integer(value) => maker.integer(py, value, class)?,
            CapturedValue::Wide(value) => maker.wide(py, value, class)?,
            CapturedValue::Real(value) => value.into_pyobject(py)?.into_any().unbind(),
            CapturedValue::Boolean(value) => value.into_pyobject(py)?.to_owned().into_any().unbind(),
            CapturedValue::Text(bytes) => text(py, bytes),
            CapturedValue::Tree => match fields.tree(inner, index).map_err(|error| raised(py, &error))? {
                Some(tree) => maker.tree(py, &tree, class)?,
                None => return Ok(None),
            },
        };
        Ok(Some(value))
    }

    fn head(&self, py: Python<'_>, head: PathHead) -> PyResult<Option<Py<PyAny>>> {
        let inner = self.inner();
        let number = |value: u64| integer(py, value.into()).map(Some);
        match head {
            PathHead::Name => Ok(Some(self.name(py).into_any())),
            PathHead::Id => number(inner.id()),
            PathHead::Stream => number(self.schema().stream(inner.class().stream).id),
            PathHead::StreamName => Ok(Some(text(py, self.stream_name().as_bytes()))),
            PathHead::Cpu => self.cpu().map_or(Ok(None), number),
            PathHead::Trace => Ok(Some(text(py, self.trace().as_bytes()))),
            PathHead::Ns | PathHead::Time => inner.ns.map(|ns| integer(py, ns)).transpose(),
            PathHead::Cycles => number(inner.raw.cycles()),
            PathHead::Scope(scope) => self.scope(py, scope),
            // Not values, and what only those know who look at states.
            PathHead::Context | PathHead::Bare | PathHead::Beside { .. } => Ok(None),
        }
    }

    fn scope(&self, py: Python<'_>, scope: Scope) -> PyResult<Option<Py<PyAny>>> {
        let inner = self.inner();
        let values = inner.raw.values(scope).map_err(|fault| raised(py, &damage(&inner, fault)))?;
        let root = self.schema().scope_root(scope, inner.raw.class());
        let Some((values, root)) = values.zip(root) else { return Ok(None) };
        let mut state = self.reading().state();
        let mut maker = Maker { schema: self.schema(), trace: inner.trace, labelled: &mut state.labelled };
        maker.tree(py, &values, root).map(Some)
    }

    /// The JSON line.
    fn line(&self) -> Vec<u8> {
        let reading = self.reading();
        let mut state = reading.state();
        let lines = state.lines.get_or_insert_with(|| {
            let plan = LinePlan {
                format: LineFormat::Jsonl,
                streams: reading.streams.clone(),
                filter: None,
                many_traces: reading.session.traces.len() > 1,
                with_ends: false,
            };
            LineRenderer::new(Arc::new(plan), &reading.session)
        });
        let chunks = vec![self.chunks.chunks[self.chunk as usize].clone()];
        let runs = vec![Run { chunk: 0, from: self.at, to: self.at + 1 }];
        let batch = Batch { chunks, runs, events: 1, notes: Vec::new() };
        lines.render(&batch, Rendered::default()).out.written().to_vec()
    }
}

#[pymethods]
impl Event {
    /// Ns since the origin of the clock, which is 1970 where clocks know it; ``None`` without time.
    #[getter]
    fn ns(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.inner().ns.map(|ns| integer(py, ns)).transpose()
    }

    /// The same as a date in UTC; ``None`` when the clock has no known origin.
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let inner = self.inner();
        let schema = self.schema();
        let clock = schema.stream(inner.class().stream).default_clock;
        let has_origin = clock.is_some_and(|clock| schema.clock(clock).origin == ClockOrigin::Unix);
        inner.ns.filter(|_| has_origin).map(|ns| time(py, ns)).transpose()
    }

    /// The name of its class; empty when it has none.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        let inner = self.inner();
        let mut storage = Vec::new();
        if inner.class().open_ids.is_some() {
            let name = inner.name(&mut storage).unwrap_or_default();
            return PyString::new(py, &String::from_utf8_lossy(name)).unbind();
        }
        let mut state = self.reading().state();
        let known = &mut state.names[inner.trace][inner.raw.class().0 as usize];
        let name = known
            .get_or_insert_with(|| PyString::intern(py, inner.class().name.as_deref().unwrap_or_default()).unbind());
        name.clone_ref(py)
    }

    /// The numeric id of its class.
    #[getter]
    fn id(&self) -> u64 {
        self.inner().id()
    }

    /// The CPU on which it happened, when the trace says so.
    #[getter]
    fn cpu(&self) -> Option<u64> {
        let (_, stream, ready) = self.stream_and_chunk();
        self.reading().state().cpus.cpu(stream.0 as usize, &ready.chunk.packet)
    }

    /// The value of its clock.
    #[getter]
    fn cycles(&self) -> u64 {
        self.inner().raw.cycles()
    }

    /// The name of its trace.
    #[getter]
    fn trace(&self) -> &str {
        &self.reading().session.traces[self.stream_and_chunk().0.trace].name
    }

    /// The name of its stream.
    #[getter]
    fn stream_name(&self) -> &str {
        &self.stream_and_chunk().0.stream.name
    }

    /// The fields of the payload, as a dictionary.
    #[getter]
    fn payload(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.scope(py, Scope::Payload)
    }

    /// The context that all events of its stream have, as a dictionary; ``None`` when there is none.
    #[getter]
    fn stream_context(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.scope(py, Scope::CommonContext)
    }

    /// The context of its class, as a dictionary; ``None`` when there is none.
    #[getter]
    fn event_context(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.scope(py, Scope::SpecificContext)
    }

    /// The context of its packet, as a dictionary; ``None`` when there is none.
    #[getter]
    fn packet_context(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.scope(py, Scope::PacketContext)
    }

    /// The fields of its header, as a dictionary; ``None`` when there is none.
    #[getter]
    fn header(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.scope(py, Scope::EventHeader)
    }

    fn __getitem__(&self, py: Python<'_>, path: &str) -> PyResult<Py<PyAny>> {
        self.find(py, path)?.ok_or_else(|| PyKeyError::new_err(path.to_string()))
    }

    fn __contains__(&self, py: Python<'_>, path: &str) -> PyResult<bool> {
        Ok(self.find(py, path)?.is_some())
    }

    /// The value of a field; ``default`` when the event does not have it.
    #[pyo3(signature = (path, default = None))]
    fn get(&self, py: Python<'_>, path: &str, default: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.find(py, path)?.or(default))
    }

    /// The event as its JSON line, read: see ``docs/jsonl.md``.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let line = self.line();
        py.import("json")?.call_method1("loads", (String::from_utf8_lossy(&line),))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let payload = match self.payload(py)? {
            Some(payload) => payload.bind(py).cast::<PyDict>().map(|dict| dict.repr()).ok().transpose()?,
            None => None,
        };
        let ns = self.inner().ns.map_or("None".to_string(), |ns| ns.to_string());
        let name = self.name(py);
        let payload = payload.map_or(String::new(), |payload| format!(" {payload}"));
        Ok(format!("<tracemill.Event {} ns={ns}{payload}>", name.bind(py).repr()?))
    }
}
