//! The fields of a scope as values of Python.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::layout::{DataFields, is_character};
use tracemill_codec::plan::{DecoderState, Fault, NodeId, Plan, Visitor, VisitorCall};
use tracemill_model::schema::{
    Encoding, EventClassId, FieldClassId, FieldKind, FieldPath, IntegerClass, Mapping, PathStep, Schema, Scope,
    StreamClassId,
};

use crate::values::{integer, wide};

/// Whose values they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ValueStyle {
    /// Of bt2: fields that only say where packets and events are do not exist. Structures are tuples without names, variants
    /// pairs of the index of their option and its value: the classes know the rest.
    Bt2,
    /// Of babeltrace 1: all fields exist. Structures inside of a scope are dictionaries, enumerations their first label.
    Babeltrace1,
}

enum NodeForm {
    Hidden,
    /// A number, and all that becomes what it is.
    Plain,
    /// Text of this encoding.
    Text(Encoding),
    /// Text that a format makes.
    Rendered,
    /// An enumeration by its label: its mappings and the name of the field.
    Enumeration(Arc<[Mapping]>, String),
    Struct(Option<Vec<Py<PyString>>>),
    Array,
    /// An array of characters.
    Characters,
    Variant,
    Optional,
}

/// How the fields that a plan shows become values.
pub(crate) struct FieldForms {
    style: ValueStyle,
    nodes: Vec<NodeForm>,
}

impl FieldForms {
    /// Of a plan whose sections are these scopes.
    fn new(
        py: Python<'_>,
        style: ValueStyle,
        schema: &Schema,
        data: &DataFields,
        plan: &Plan,
        scopes: &[Scope],
    ) -> Self {
        let mut forms = FieldForms { style, nodes: Vec::with_capacity(plan.nodes.len()) };
        for (root, scope) in plan.roots.iter().zip(scopes) {
            let Some(root) = root else { continue };
            let mut path = FieldPath { scope: *scope, steps: Vec::new() };
            forms.add(py, schema, data, plan.nodes[*root as usize].class, &mut path, ("", true));
        }
        forms
    }

    /// Adds a field and all below it, in the order in which plans number their nodes.
    fn add(
        &mut self,
        py: Python<'_>,
        schema: &Schema,
        data: &DataFields,
        id: FieldClassId,
        path: &mut FieldPath,
        (name, is_root): (&str, bool),
    ) {
        let is_shown = self.style == ValueStyle::Babeltrace1 || is_root || data.has(schema, id, path);
        let at = self.nodes.len();
        let kind = &schema.field_class(id).kind;
        self.nodes.push(NodeForm::Hidden);
        let mut below = |forms: &mut Self, step: PathStep, id: FieldClassId, name: &str| {
            path.steps.push(step);
            forms.add(py, schema, data, id, path, (name, false));
            path.steps.pop();
        };
        match kind {
            FieldKind::Struct(of) => {
                let members = of.members.iter().enumerate();
                members.for_each(|(at, of)| below(self, PathStep::Member(at as u32), of.class, schema.peer_name(of)));
            }
            FieldKind::Array(of) => below(self, PathStep::Element, of.element, ""),
            FieldKind::Optional(of) => below(self, PathStep::Content, of.content, name),
            FieldKind::Variant(of) => {
                let options = of.options.iter().enumerate();
                options.for_each(|(at, of)| {
                    below(self, PathStep::Option(at as u32), of.class, of.name.as_deref().unwrap_or_default());
                });
            }
            _ => {}
        }
        if !is_shown {
            self.nodes[at..].iter_mut().for_each(|node| *node = NodeForm::Hidden);
            return;
        }
        self.nodes[at] = match kind {
            FieldKind::Integer(IntegerClass { mappings: Some(mappings), .. })
                if self.style == ValueStyle::Babeltrace1 =>
            {
                NodeForm::Enumeration(mappings.clone(), name.to_string())
            }
            FieldKind::String(of) => NodeForm::Text(of.encoding),
            FieldKind::Rendered(_) => NodeForm::Rendered,
            FieldKind::Struct(of) => {
                let has_names = self.style == ValueStyle::Babeltrace1 && !is_root && !of.is_tuple();
                let names = of.members.iter().map(|of| PyString::intern(py, schema.peer_name(of)).unbind());
                NodeForm::Struct(has_names.then(|| names.collect()))
            }
            FieldKind::Array(of) if self.style == ValueStyle::Babeltrace1 && is_character(schema, of.element) => {
                NodeForm::Characters
            }
            FieldKind::Array(_) => NodeForm::Array,
            FieldKind::Variant(_) => NodeForm::Variant,
            FieldKind::Optional(_) => NodeForm::Optional,
            _ => NodeForm::Plain,
        };
    }

    /// Of the common context, the specific context and the payload.
    pub(crate) fn of_event(
        py: Python<'_>,
        style: ValueStyle,
        plans: &tracemill_codec::trace_plans::TracePlans,
        data: &DataFields,
        class: EventClassId,
    ) -> Self {
        let scopes = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
        FieldForms::new(py, style, plans.schema(), data, plans.event_rows(class), &scopes)
    }

    /// Of a header or a packet context.
    pub(crate) fn of_stream(
        py: Python<'_>,
        style: ValueStyle,
        plans: &tracemill_codec::trace_plans::TracePlans,
        data: &DataFields,
        class: StreamClassId,
        scope: Scope,
    ) -> Self {
        let plan = match scope {
            Scope::PacketHeader => plans.packet_header_rows(),
            Scope::PacketContext => plans.packet_context_rows(class),
            _ => plans.header_rows(class),
        };
        FieldForms::new(py, style, plans.schema(), data, plan, &[scope])
    }
}

/// The fields of a scope of an event's own; `None` when it is not declared.
pub(crate) fn event_scope(
    py: Python<'_>,
    forms: &FieldForms,
    event: &EventRef<'_>,
    scope: Scope,
) -> Result<PyResult<Option<Py<PyAny>>>, Fault> {
    let mut state = DecoderState::default();
    let mut values = FieldValues::new(py, forms);
    event.fields(&mut state).visit(scope, &mut state, &mut values)?;
    Ok(values.finish())
}

/// The fields of the header of an event.
pub(crate) fn event_header(
    py: Python<'_>,
    forms: &FieldForms,
    event: &EventRef<'_>,
) -> Result<PyResult<Option<Py<PyAny>>>, Fault> {
    let mut values = FieldValues::new(py, forms);
    event.visit_header(&mut DecoderState::default(), &mut values)?;
    Ok(values.finish())
}

/// The fields of the context of a packet.
pub(crate) fn packet_context(
    py: Python<'_>,
    forms: &FieldForms,
    packet: &PacketData,
) -> Result<PyResult<Option<Py<PyAny>>>, Fault> {
    let mut values = FieldValues::new(py, forms);
    packet.visit_context(&mut values)?;
    Ok(values.finish())
}

/// The fields of the header of a packet.
pub(crate) fn packet_header(
    py: Python<'_>,
    forms: &FieldForms,
    packet: &PacketData,
) -> Result<PyResult<Option<Py<PyAny>>>, Fault> {
    let mut values = FieldValues::new(py, forms);
    packet.visit_header(&mut values)?;
    Ok(values.finish())
}

/// Makes the values of the fields that a plan shows.
struct FieldValues<'a, 'py> {
    py: Python<'py>,
    forms: &'a FieldForms,
    /// Begun and not ended, with the number of values before it, and its option.
    open: Vec<(NodeId, usize, usize)>,
    values: Vec<Py<PyAny>>,
    /// An enumeration of babeltrace 1 that has no label: what is around it cannot be had either.
    unlabelled: Option<Py<PyAny>>,
    failed: Option<PyErr>,
}

impl<'a, 'py> FieldValues<'a, 'py> {
    fn new(py: Python<'py>, forms: &'a FieldForms) -> Self {
        FieldValues {
            py,
            forms,
            open: Vec::with_capacity(4),
            values: Vec::with_capacity(8),
            unlabelled: None,
            failed: None,
        }
    }

    fn finish(mut self) -> PyResult<Option<Py<PyAny>>> {
        self.failed.map_or_else(|| Ok(self.values.pop()), Err)
    }

    fn push(&mut self, value: PyResult<Py<PyAny>>) {
        match value {
            Ok(value) => self.values.push(value),
            Err(error) => {
                self.failed = Some(error);
                self.values.push(self.py.None());
            }
        }
    }

    fn end(&mut self) {
        let Some((node, first, option)) = self.open.pop() else { return };
        let py = self.py;
        let value = {
            let mut own = self.values.drain(first..);
            match &self.forms.nodes[node as usize] {
                NodeForm::Struct(Some(names)) => {
                    let dict = PyDict::new(py);
                    let set = names.iter().zip(own).try_for_each(|(name, value)| dict.set_item(name, value));
                    set.map(|()| dict.into_any().unbind())
                }
                NodeForm::Characters => {
                    let bytes: Vec<u8> =
                        own.filter_map(|value| value.extract::<i64>(py).ok()).map(|at| at as u8).collect();
                    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                    utf8(py, &bytes[..end])
                }
                NodeForm::Array if self.forms.style == ValueStyle::Babeltrace1 => {
                    PyList::new(py, own).map(|list| list.into_any().unbind())
                }
                NodeForm::Variant => {
                    let value = own.next().unwrap_or_else(|| py.None());
                    match self.forms.style {
                        ValueStyle::Babeltrace1 => Ok(value),
                        ValueStyle::Bt2 => (option, value).into_pyobject(py).map(|pair| pair.into_any().unbind()),
                    }
                }
                _ => PyTuple::new(py, own).map(|tuple| tuple.into_any().unbind()),
            }
        };
        let value = match (&self.unlabelled, self.open.len()) {
            (Some(unlabelled), 1..) => Ok(unlabelled.clone_ref(py)),
            _ => value,
        };
        if self.open.len() < 2 {
            self.unlabelled = None;
        }
        self.push(value);
    }

    fn integer(&mut self, node: NodeId, value: i128) -> PyResult<Py<PyAny>> {
        let NodeForm::Enumeration(mappings, name) = &self.forms.nodes[node as usize] else {
            return integer(self.py, value);
        };
        // Labels of one value come before those of ranges, of which the last one counts.
        let is_one = |of: &&Mapping| of.ranges.contains(&(value, value));
        let of_range = || mappings.iter().rev().find(|of| of.contains(value));
        match mappings.iter().find(is_one).or_else(of_range) {
            Some(of) => Ok(PyString::new(self.py, &of.label).into_any().unbind()),
            None => {
                static UNLABELLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let class = UNLABELLED.import(self.py, "tracemill.babeltrace.babeltrace", "_Unlabelled")?;
                let made = class.call1((name,))?.unbind();
                if self.open.len() > 1 {
                    self.unlabelled = Some(made.clone_ref(self.py));
                }
                Ok(made)
            }
        }
    }

    fn text(&self, node: NodeId, bytes: &[u8]) -> PyResult<Py<PyAny>> {
        match &self.forms.nodes[node as usize] {
            NodeForm::Text(encoding) if encoding.unit_bytes() > 1 => {
                Ok(PyString::new(self.py, &encoding.to_utf8(bytes)).into_any().unbind())
            }
            _ => utf8(self.py, bytes),
        }
    }
}

/// A text; bytes that are no UTF-8 as Python keeps them in names of files, so that none is lost.
pub(crate) fn utf8(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any().unbind()),
        Err(_) => Ok(PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogateescape"))?.unbind()),
    }
}

impl Visitor for FieldValues<'_, '_> {
    fn any_call(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        let (py, form) = (self.py, &self.forms.nodes[node as usize]);
        if matches!(form, NodeForm::Hidden) {
            return;
        }
        let value = match shown {
            VisitorCall::Unsigned(value) => self.integer(node, value.into()),
            VisitorCall::Signed(value) => self.integer(node, value.into()),
            VisitorCall::Wide(value) => wide(py, value),
            VisitorCall::Boolean(value) => {
                value.into_pyobject(py).map_err(Into::into).map(|it| it.to_owned().into_any().unbind())
            }
            VisitorCall::Real(value) => value.into_pyobject(py).map_err(Into::into).map(|it| it.into_any().unbind()),
            VisitorCall::String(bytes) => self.text(node, bytes),
            VisitorCall::Blob(bytes) => Ok(PyBytes::new(py, bytes).into_any().unbind()),
            VisitorCall::BeginStruct | VisitorCall::BeginArray(_) => {
                self.open.push((node, self.values.len(), 0));
                return;
            }
            VisitorCall::BeginVariant(option) => {
                self.open.push((node, self.values.len(), option));
                return;
            }
            VisitorCall::EndStruct | VisitorCall::EndArray | VisitorCall::EndVariant => return self.end(),
            VisitorCall::Element(_) | VisitorCall::BeginOptional | VisitorCall::EndOptional => return,
            VisitorCall::Absent if matches!(form, NodeForm::Rendered) => utf8(py, b""),
            VisitorCall::Absent => Ok(py.None()),
        };
        self.push(value);
    }
}

/// Forms that are shared.
pub(crate) type SharedForms = Arc<FieldForms>;
