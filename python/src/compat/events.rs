//! Events as the interfaces of babeltrace show them.

use std::sync::Arc;

use pyo3::class::basic::CompareOp;
use pyo3::exceptions::{PyKeyError, PyNotImplementedError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use tracemill_engine::event;
use tracemill_engine::filter::damage;
use tracemill_engine::item::ReadyChunk;
use tracemill_engine::selection::SelectedStream;
use tracemill_model::schema::Scope;

use super::fields::{event_header, event_scope, packet_header, utf8};
use super::messages::{CompatBatch, CompatReading, EventInfo, PacketPlace};
use crate::errors::raised;
use crate::values::integer;

/// The place of an event in its batch.
#[derive(Clone)]
pub(super) struct EventPlace {
    pub(super) batch: Arc<CompatBatch>,
    pub(super) chunk: u32,
    pub(super) at: u32,
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
    pub(super) place: EventPlace,
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

    fn __copy__(&self) -> PyResult<()> {
        uncopied()
    }

    fn __deepcopy__(&self, _memo: Py<PyAny>) -> PyResult<()> {
        uncopied()
    }
}

/// Objects of bt2 cannot be copied.
fn uncopied() -> PyResult<()> {
    Err(PyNotImplementedError::new_err(()))
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
        let key = text(key)?;
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

/// The name of a field.
fn text<'a, 'py>(key: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyString>> {
    key.cast::<PyString>().or_else(|_| {
        let of = key.get_type().name()?;
        Err(PyTypeError::new_err(format!("'{of}' is not a 'str' object")))
    })
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
        self.place.info(py)?.fields.bind(py).contains(text(key)?)
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

    fn __copy__(&self) -> PyResult<()> {
        uncopied()
    }

    fn __deepcopy__(&self, _memo: Py<PyAny>) -> PyResult<()> {
        uncopied()
    }
}

/// Where the class of a clock is found.
pub(super) enum ClockOf {
    Stream(Arc<CompatReading>, usize),
    Class(Py<PyAny>),
}

/// A value of a clock.
#[pyclass(name = "_ClockSnapshotConst", frozen, module = "bt2")]
pub(crate) struct ClockSnapshot {
    pub(super) class: ClockOf,
    pub(super) cycles: u64,
    pub(super) ns: i128,
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

    /// A number that no other snapshot has.
    #[getter]
    fn addr(this: PyRef<'_, Self>) -> usize {
        this.as_ptr() as usize
    }

    fn __copy__(&self) -> PyResult<()> {
        uncopied()
    }

    fn __deepcopy__(&self, _memo: Py<PyAny>) -> PyResult<()> {
        uncopied()
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
    pub(super) place: EventPlace,
    pub(super) scopes: [PyOnceLock<Option<Py<PyAny>>>; 6],
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
        let (_, stream, _) = self.place.stream();
        let ns = self.place.event().ns.filter(|_| self.place.batch.reading.has_times(stream));
        ns.map(|ns| integer(py, ns)).transpose()
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
