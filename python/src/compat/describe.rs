//! The parts of traces as plain values of Python, from which `tracemill/bt2` and `tracemill/babeltrace` make classes.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use tracemill_codec::layout::{self, DataFields};
use tracemill_model::schema::{
    ByteOrder, ClockId, ClockOrigin, EnvValue, FieldClassId, FieldKind, FieldPath, IntegerClass, Length, PathStep,
    Presence, Range, Role, Schema, Scope, StreamClassId, StringLength,
};

use super::fields::{ValueStyle, utf8};
use super::messages::ReadTraces;
use crate::values::integer;

/// A path: the number of its scope, and its items as [`Describer::path`] gives them.
type DescribedPath = (u8, Vec<i64>);

/// The specific context and the payload of an event class.
pub(crate) type EventRoots<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// Describes the field classes of a schema.
struct Describer<'a, 'py> {
    py: Python<'py>,
    schema: &'a Schema,
    data: &'a DataFields,
    style: ValueStyle,
}

impl<'py> Describer<'_, 'py> {
    fn is_shown(&self, id: FieldClassId, path: &mut FieldPath) -> bool {
        self.style == ValueStyle::Babeltrace1 || self.data.has(self.schema, id, path)
    }

    fn ranges(&self, ranges: &[Range]) -> PyResult<Bound<'py, PyAny>> {
        let pair = |(low, high): &Range| Ok((integer(self.py, *low)?, integer(self.py, *high)?));
        Ok(PyList::new(self.py, ranges.iter().map(pair).collect::<PyResult<Vec<_>>>()?)?.into_any())
    }

    /// A path as its scope and indexes of members that are shown; -1 is the element of an array, -2 the content of an option.
    fn path(&self, path: &FieldPath) -> DescribedPath {
        let mut at = FieldPath { scope: path.scope, steps: Vec::new() };
        let mut class = self.root(path.scope, path);
        let mut items = Vec::new();
        for step in &path.steps {
            let kind = class.map(|class| &self.schema.field_class(class).kind);
            items.push(match (step, kind) {
                (PathStep::Member(index), Some(FieldKind::Struct(of))) => {
                    let before = of.members.iter().enumerate().take(*index as usize).filter(|(before, member)| {
                        at.steps.push(PathStep::Member(*before as u32));
                        let is_shown = self.is_shown(member.class, &mut at);
                        at.steps.pop();
                        is_shown
                    });
                    before.count() as i64
                }
                (PathStep::Member(index) | PathStep::Option(index) | PathStep::Selected(index), _) => i64::from(*index),
                (PathStep::Element, _) => -1,
                (PathStep::Content, _) => -2,
            });
            class = class.and_then(|class| layout::child(self.schema.field_class(class), *step));
            at.steps.push(*step);
        }
        (path.scope as u8, items)
    }

    /// The root of a scope that has this path: a path does not name the class that it belongs to.
    fn root(&self, scope: Scope, path: &FieldPath) -> Option<FieldClassId> {
        let has = |root: &FieldClassId| {
            let mut at = FieldPath { scope, steps: Vec::new() };
            self.holds(*root, path, &mut at)
        };
        let streams = self.schema.streams().iter();
        let events = self.schema.events().iter();
        match scope {
            Scope::PacketHeader => self.schema.packet_header,
            Scope::PacketContext => streams.filter_map(|of| of.packet_context).find(has),
            Scope::EventHeader => streams.filter_map(|of| of.event_header).find(has),
            Scope::CommonContext => streams.filter_map(|of| of.common_context).find(has),
            Scope::SpecificContext => events.filter_map(|of| of.specific_context).find(has),
            Scope::Payload => events.filter_map(|of| of.payload).find(has),
        }
    }

    fn holds(&self, id: FieldClassId, path: &FieldPath, at: &mut FieldPath) -> bool {
        let Some(step) = path.steps.get(at.steps.len()) else { return true };
        let next = layout::child(self.schema.field_class(id), *step);
        at.steps.push(*step);
        next.is_some_and(|next| self.holds(next, path, at))
    }

    fn integer(&self, of: &IntegerClass) -> PyResult<Bound<'py, PyAny>> {
        let bits = if of.is_variable_length() { 64 } else { of.len_bits };
        let base = [2, 8, 10, 16][of.base as usize];
        let is_little = of.byte_order == ByteOrder::Little;
        let mappings = match &of.mappings {
            None => self.py.None().into_bound(self.py),
            Some(mappings) => {
                let one = |of: &tracemill_model::schema::Mapping| Ok((of.label.to_string(), self.ranges(&of.ranges)?));
                PyList::new(self.py, mappings.iter().map(one).collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
        };
        let parts = ("integer", of.signed, bits, base, is_little, of.is_character, mappings);
        Ok(parts.into_pyobject(self.py)?.into_any())
    }

    fn length(&self, length: &Length) -> PyResult<(Option<u64>, Option<DescribedPath>)> {
        Ok(match length {
            Length::Static(length) => (Some(*length), None),
            Length::Field(path) | Length::Table { selector: path, .. } => (None, Some(self.path(path))),
            Length::Inline(_) | Length::Located => (None, None),
        })
    }

    /// A field class: a tuple of its kind and what that has.
    fn class(&self, id: FieldClassId, path: &mut FieldPath) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let below = |step: PathStep, id: FieldClassId, path: &mut FieldPath| {
            path.steps.push(step);
            let class = self.class(id, path);
            path.steps.pop();
            class
        };
        let tuple = match &self.schema.field_class(id).kind {
            FieldKind::Integer(of) => return self.integer(of),
            FieldKind::BitArray(of) => ("bits", of.len_bits, PyList::empty(py)).into_pyobject(py)?,
            FieldKind::BitMap(of) => {
                let flag = |of: &tracemill_model::schema::Mapping| Ok((of.label.to_string(), self.ranges(&of.ranges)?));
                let flags = of.flags.iter().map(flag).collect::<PyResult<Vec<_>>>()?;
                ("bits", of.len_bits, PyList::new(py, flags)?).into_pyobject(py)?
            }
            FieldKind::Boolean(of) => return Ok(("boolean", of.len_bits).into_pyobject(py)?.into_any()),
            FieldKind::Float(of) => return Ok(("real", of.len_bits).into_pyobject(py)?.into_any()),
            FieldKind::String(of) => {
                let (length, by) = match &of.length {
                    StringLength::NullTerminated => (None, None),
                    StringLength::Bytes(length) => self.length(length)?,
                };
                let is_terminated = matches!(of.length, StringLength::NullTerminated);
                return Ok(("string", is_terminated, length, by).into_pyobject(py)?.into_any());
            }
            FieldKind::Rendered(_) => {
                return Ok(("string", true, None::<u64>, None::<DescribedPath>).into_pyobject(py)?.into_any());
            }
            FieldKind::Blob(of) => {
                let (length, by) = self.length(&of.length)?;
                return Ok(("blob", &*of.media_type, length, by).into_pyobject(py)?.into_any());
            }
            FieldKind::Struct(of) => {
                let members = PyList::empty(py);
                for (at, member) in of.members.iter().enumerate() {
                    path.steps.push(PathStep::Member(at as u32));
                    if self.is_shown(member.class, path) {
                        members.append((self.schema.peer_name(member), self.class(member.class, path)?))?;
                    }
                    path.steps.pop();
                }
                return Ok(("structure", members).into_pyobject(py)?.into_any());
            }
            FieldKind::Array(of) => {
                let (length, by) = self.length(&of.length)?;
                let element = below(PathStep::Element, of.element, path)?;
                return Ok(("array", length, by, element).into_pyobject(py)?.into_any());
            }
            FieldKind::Optional(of) => {
                let content = below(PathStep::Content, of.content, path)?;
                let ranges = match &of.presence {
                    Presence::Boolean => Some((true, self.ranges(&[])?)),
                    Presence::Ranges(ranges) => Some((false, self.ranges(ranges)?)),
                    Presence::Unmarked(_) => None,
                };
                let selector = ranges.is_some().then(|| self.path(&of.selector));
                return Ok(("option", ranges, selector, self.is_signed(&of.selector), content)
                    .into_pyobject(py)?
                    .into_any());
            }
            FieldKind::Variant(of) => {
                let options = PyList::empty(py);
                for (at, option) in of.options.iter().enumerate() {
                    let class = below(PathStep::Option(at as u32), option.class, path)?;
                    options.append((option.name.as_deref(), self.ranges(&option.ranges)?, class))?;
                }
                let is_signed = self.is_signed(&of.selector);
                return Ok(("variant", self.path(&of.selector), is_signed, options).into_pyobject(py)?.into_any());
            }
        };
        Ok(tuple.into_any())
    }

    /// Is the field at a path a signed integer?
    fn is_signed(&self, path: &FieldPath) -> bool {
        let root = self.root(path.scope, path);
        let class = path.steps.iter().fold(root, |class, step| layout::child(self.schema.field_class(class?), *step));
        let kind = class.map(|class| &self.schema.field_class(class).kind);
        matches!(kind, Some(FieldKind::Integer(of)) if of.signed)
    }

    fn scope(&self, scope: Scope, root: Option<FieldClassId>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut path = FieldPath { scope, steps: Vec::new() };
        let root = root.filter(|root| self.is_shown(*root, &mut path));
        root.map(|root| self.class(root, &mut path)).transpose()
    }

    fn clock(&self, id: ClockId) -> PyResult<Bound<'py, PyDict>> {
        let (of, dict) = (self.schema.clock(id), PyDict::new(self.py));
        dict.set_item("name", of.name.as_deref().or(Some(&*of.id)).filter(|name| !name.is_empty()))?;
        dict.set_item("description", of.description.as_deref())?;
        dict.set_item("frequency", of.frequency)?;
        dict.set_item("seconds", of.seconds)?;
        dict.set_item("precision", of.precision)?;
        dict.set_item("offset_seconds", of.offset_seconds)?;
        dict.set_item("offset_cycles", integer(self.py, of.offset_cycles)?)?;
        dict.set_item("is_unix", of.origin == ClockOrigin::Unix)?;
        dict.set_item("uuid", of.uid.as_deref())?;
        Ok(dict)
    }

    /// Has the packet context of a stream class a field of this meaning at its top?
    fn has_role(&self, class: StreamClassId, role: Role) -> bool {
        let members = self.schema.members(self.schema.stream(class).packet_context);
        members.iter().any(|member| self.schema.field_class(member.class).roles.has(role))
    }
}

/// Describes a trace: a dictionary of texts, numbers, tuples and lists.
pub(crate) fn describe<'py>(py: Python<'py>, reading: &ReadTraces, trace: usize) -> PyResult<Bound<'py, PyDict>> {
    let of = &reading.session.traces[trace];
    let schema = &*of.schema;
    let describer = Describer { py, schema, data: &reading.traces[trace].data, style: reading.style };
    let dict = PyDict::new(py);
    // Of CTF, babeltrace 2 names each trace.
    dict.set_item("name", Some(&of.own_name).filter(|name| schema.has_peer_text || !name.is_empty()))?;
    dict.set_item("path", of.path.to_string_lossy())?;
    dict.set_item("format", schema.format)?;
    dict.set_item("uuid", schema.uuid)?;
    let environment = PyList::empty(py);
    for (name, value) in &schema.environment {
        let value = match value {
            EnvValue::Integer(value) => integer(py, *value)?,
            EnvValue::String(text) => utf8(py, text.as_bytes())?,
        };
        environment.append((&**name, value))?;
    }
    dict.set_item("environment", environment)?;
    dict.set_item("packet_header", describer.scope(Scope::PacketHeader, schema.packet_header)?)?;
    let ids = schema.distinct_stream_ids();
    let streams = PyList::empty(py);
    for (at, class) in schema.streams().iter().enumerate() {
        let id = StreamClassId(at as u32);
        let one = PyDict::new(py);
        one.set_item("id", ids[at])?;
        one.set_item("name", class.name.as_deref())?;
        one.set_item("clock", class.default_clock.map(|clock| describer.clock(clock)).transpose()?)?;
        one.set_item("packet_context", describer.scope(Scope::PacketContext, class.packet_context)?)?;
        one.set_item("event_header", describer.scope(Scope::EventHeader, class.event_header)?)?;
        one.set_item("common_context", describer.scope(Scope::CommonContext, class.common_context)?)?;
        let mut own = reading.streams.iter().filter(|of| of.trace == trace && of.stream.class == id).peekable();
        let is_read = own.peek().is_some();
        let has_times = |has: &dyn Fn(&tracemill_model::packet::Packet) -> bool| {
            is_read
                && reading
                    .streams
                    .iter()
                    .filter(|of| of.trace == trace && of.stream.class == id)
                    .all(|of| of.stream.packets.first().is_some_and(|packet| has(&packet)))
        };
        let begins = describer.has_role(id, Role::PacketBegin) || has_times(&|packet| packet.begin_cycles.is_some());
        let ends = describer.has_role(id, Role::PacketEnd) || has_times(&|packet| packet.end_cycles.is_some());
        one.set_item("has_begins", begins && class.default_clock.is_some())?;
        one.set_item("has_ends", ends && class.default_clock.is_some())?;
        let is_ctf = schema.has_peer_text;
        one.set_item("counts_discarded", describer.has_role(id, Role::DiscardedEvents) || !is_ctf)?;
        one.set_item("counts_packets", describer.has_role(id, Role::PacketSequence) || !is_ctf)?;
        streams.append(one)?;
    }
    dict.set_item("stream_classes", streams)?;
    let ids = schema.distinct_event_ids();
    let events = PyList::empty(py);
    for (at, class) in schema.events().iter().enumerate() {
        let emf = class.emf_uri.as_deref();
        let log_level = class.log_level;
        events.append(PyTuple::new(
            py,
            [
                class.stream.0.into_pyobject(py)?.into_any(),
                ids[at].into_pyobject(py)?.into_any(),
                class.name.as_deref().into_pyobject(py)?.into_any(),
                log_level.into_pyobject(py)?.into_any(),
                emf.into_pyobject(py)?.into_any(),
            ],
        )?)?;
    }
    dict.set_item("event_classes", events)?;
    Ok(dict)
}

/// Describes the specific context and the payload of an event class.
pub(crate) fn describe_event<'py>(
    py: Python<'py>,
    reading: &ReadTraces,
    trace: usize,
    class: usize,
) -> PyResult<EventRoots<'py>> {
    let schema = &*reading.session.traces[trace].schema;
    let describer = Describer { py, schema, data: &reading.traces[trace].data, style: reading.style };
    let Some(class) = schema.events().get(class) else { return Ok((None, None)) };
    Ok((
        describer.scope(Scope::SpecificContext, class.specific_context)?,
        describer.scope(Scope::Payload, class.payload)?,
    ))
}
