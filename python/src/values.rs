//! Values of fields as Python's.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple, PyType};
use tracemill_codec::bits::Wide;
use tracemill_codec::text::fields_json::{has_flag, has_wide_flag};
use tracemill_codec::value::Value;
use tracemill_model::schema::{FieldClassId, FieldKind, Schema};

use crate::errors::class;

/// Enumerations that were made, by trace, field class and value: each has its labels.
#[derive(Default)]
pub(crate) struct Labelled(HashMap<(usize, FieldClassId, i128), Py<PyAny>>);

/// Enumerations that are kept.
const MOST_LABELLED: usize = 4096;

/// An integer.
pub(crate) fn integer(py: Python<'_>, value: i128) -> PyResult<Py<PyAny>> {
    // 64 bits take a short way into Python.
    Ok(match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (_, Ok(value)) => value.into_pyobject(py)?.into_any().unbind(),
        _ => value.into_pyobject(py)?.into_any().unbind(),
    })
}

/// An integer of more than 128 bits.
pub(crate) fn wide(py: Python<'_>, value: &Wide) -> PyResult<Py<PyAny>> {
    match value.to_i128() {
        Some(value) => integer(py, value),
        None => Ok(py.get_type::<PyInt>().call1((value.to_decimal(),))?.unbind()),
    }
}

/// A text.
pub(crate) fn text(py: Python<'_>, bytes: &[u8]) -> Py<PyAny> {
    match std::str::from_utf8(bytes) {
        Ok(text) => PyString::new(py, text).into_any().unbind(),
        Err(_) => PyString::new(py, &String::from_utf8_lossy(bytes)).into_any().unbind(),
    }
}

/// A time in ns since 1970; `None` outside of Python's years.
pub(crate) fn time(py: Python<'_>, ns: i128) -> PyResult<Py<PyAny>> {
    static FROM_NS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let from_ns = FROM_NS.import(py, "tracemill._values", "time_of_ns")?;
    Ok(from_ns.call1((integer(py, ns)?,))?.unbind())
}

/// Bytes with their media type.
fn blob(py: Python<'_>, bytes: &[u8], media_type: &str) -> PyResult<Py<PyAny>> {
    static BLOB: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(class(py, &BLOB, "Blob")?.call1((PyBytes::new(py, bytes), media_type))?.unbind())
}

/// Makes values of the fields of one trace.
pub(crate) struct Maker<'a> {
    pub(crate) schema: &'a Schema,
    /// The trace in its session.
    pub(crate) trace: usize,
    pub(crate) labelled: &'a mut Labelled,
}

impl Maker<'_> {
    /// An integer of a field: an enumeration and a bit map have their labels and flags.
    #[inline]
    pub(crate) fn integer(&mut self, py: Python<'_>, value: i128, class: FieldClassId) -> PyResult<Py<PyAny>> {
        match &self.schema.field_class(class).kind {
            FieldKind::Integer(of) if of.mappings.is_none() => integer(py, value),
            FieldKind::Integer(_) | FieldKind::BitMap(_) => self.labelled(py, value, class),
            FieldKind::Boolean(_) => Ok((value != 0).into_pyobject(py)?.to_owned().into_any().unbind()),
            _ => integer(py, value),
        }
    }

    fn labelled(&mut self, py: Python<'_>, value: i128, of: FieldClassId) -> PyResult<Py<PyAny>> {
        static ENUMERATION: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let key = (self.trace, of, value);
        if let Some(known) = self.labelled.0.get(&key) {
            return Ok(known.clone_ref(py));
        }
        let made = match &self.schema.field_class(of).kind {
            FieldKind::Integer(of) => {
                let labels: Vec<&str> = of.labels(value).map(|label| &**label).collect();
                let labels = PyTuple::new(py, labels)?;
                class(py, &ENUMERATION, "Enumeration")?.call1((integer(py, value)?, labels))?.unbind()
            }
            FieldKind::BitMap(of) => {
                let flags = of.flags.iter().filter(|flag| has_flag(flag, value));
                flagged(py, integer(py, value)?, flags.map(|flag| &*flag.label))?
            }
            _ => integer(py, value)?,
        };
        if self.labelled.0.len() >= MOST_LABELLED {
            self.labelled.0.clear();
        }
        self.labelled.0.insert(key, made.clone_ref(py));
        Ok(made)
    }

    /// An integer of more than 128 bits.
    pub(crate) fn wide(&mut self, py: Python<'_>, value: &Wide, class: FieldClassId) -> PyResult<Py<PyAny>> {
        match (&self.schema.field_class(class).kind, value.to_i128()) {
            (_, Some(value)) => self.integer(py, value, class),
            (FieldKind::BitMap(of), None) => {
                let flags = of.flags.iter().filter(|flag| has_wide_flag(flag, value));
                flagged(py, wide(py, value)?, flags.map(|flag| &*flag.label))
            }
            _ => wide(py, value),
        }
    }

    /// Any value. What is absent is `None`.
    pub(crate) fn tree(&mut self, py: Python<'_>, value: &Value, mut class: FieldClassId) -> PyResult<Py<PyAny>> {
        let schema = self.schema;
        while let FieldKind::Optional(optional) = &schema.field_class(class).kind {
            class = optional.content;
        }
        let kind = &schema.field_class(class).kind;
        Ok(match (value, kind) {
            (Value::Null, _) => py.None(),
            (Value::Unsigned(value), _) => self.integer(py, (*value).into(), class)?,
            (Value::Signed(value), _) => self.integer(py, (*value).into(), class)?,
            (Value::Wide(value), _) => self.wide(py, value, class)?,
            (Value::Boolean(value), _) => value.into_pyobject(py)?.to_owned().into_any().unbind(),
            (Value::Real(value), _) => value.into_pyobject(py)?.into_any().unbind(),
            (Value::Text(bytes), FieldKind::String(of)) => {
                PyString::new(py, &of.encoding.to_utf8(bytes)).into_any().unbind()
            }
            (Value::Text(bytes), _) => text(py, bytes),
            (Value::Blob(bytes), FieldKind::Blob(of)) => blob(py, bytes, &of.media_type)?,
            (Value::Blob(bytes), _) => PyBytes::new(py, bytes).into_any().unbind(),
            (Value::Struct(members), FieldKind::Struct(of)) => {
                let dict = PyDict::new(py);
                for ((name, value), of) in members.iter().zip(&of.members) {
                    if !value.is_null() {
                        dict.set_item(&**name, self.tree(py, value, of.class)?)?;
                    }
                }
                dict.into_any().unbind()
            }
            (Value::List(elements), kind) => {
                let list = PyList::empty(py);
                for (at, value) in elements.iter().enumerate() {
                    let class = match kind {
                        FieldKind::Array(of) => Some(of.element),
                        FieldKind::Struct(of) => of.members.get(at).map(|member| member.class),
                        _ => None,
                    };
                    list.append(class.map_or(Ok(py.None()), |class| self.tree(py, value, class))?)?;
                }
                list.into_any().unbind()
            }
            (Value::Option(at, name, value), FieldKind::Variant(of)) => {
                let dict = PyDict::new(py);
                if let Some(option) = of.options.get(*at) {
                    let name = name.as_deref().map_or_else(|| at.to_string(), str::to_string);
                    dict.set_item(name, self.tree(py, value, option.class)?)?;
                }
                dict.into_any().unbind()
            }
            // A tree is of the class that it was read by.
            (Value::Struct(_) | Value::Option(..), _) => py.None(),
        })
    }
}

fn flagged<'f>(py: Python<'_>, value: Py<PyAny>, flags: impl Iterator<Item = &'f str>) -> PyResult<Py<PyAny>> {
    static BIT_MAP: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let flags = PyTuple::new(py, flags.collect::<Vec<_>>())?;
    Ok(class(py, &BIT_MAP, "BitMap")?.call1((value, flags))?.unbind())
}
