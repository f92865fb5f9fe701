//! Errors and damage as Python knows them.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
#[cfg(feature = "sql")]
use tracemill_engine::collector::Collector;
use tracemill_model::error::{Error, ErrorKind};
#[cfg(feature = "sql")]
use tracemill_sql::rows::Explained;

/// A class of `tracemill._values`.
pub(crate) fn class<'py>(
    py: Python<'py>,
    known: &'static PyOnceLock<Py<PyType>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyType>> {
    known.import(py, "tracemill._values", name)
}

/// An error as a `tracemill.Error`, not raised.
pub(crate) fn object<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let place = error.place();
    let line = place.text.as_ref().map(|text| (text.line, text.column));
    let offset = place.offset.or(place.text.as_ref().map(|text| text.offset as u64));
    // A mistake in an option has the name of the option there.
    let is_option = error.kind() == ErrorKind::Misuse && line.is_some();
    let file = place.file.as_deref().filter(|_| !is_option);
    new_error(py, &error.to_string(), (file, offset.filter(|_| !is_option)), line, error.help())
}

fn new_error<'py>(
    py: Python<'py>,
    message: &str,
    (file, offset): (Option<&std::path::Path>, Option<u64>),
    line: Option<(u32, u32)>,
    help: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    static ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let parts = PyDict::new(py);
    parts.set_item("file", file.map(|file| file.to_string_lossy().into_owned()))?;
    parts.set_item("offset", offset)?;
    parts.set_item("line", line.map(|(line, _)| line))?;
    parts.set_item("column", line.map(|(_, column)| column))?;
    parts.set_item("help", help)?;
    class(py, &ERROR, "Error")?.call((message,), Some(&parts))
}

/// An error, to be raised.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    object(py, error).map_or_else(|failed| failed, PyErr::from_value)
}

/// An error of a query, to be raised.
#[cfg(feature = "sql")]
pub(crate) fn refused(py: Python<'_>, error: &Explained) -> PyErr {
    let place = error.error.place();
    let message = error.error.to_string();
    let help = error.help.as_deref().or(error.error.help());
    let made = new_error(py, &message, (place.file.as_deref(), place.offset), error.place, help);
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// A mistake in an argument.
#[cfg(feature = "sql")]
pub(crate) fn misuse(py: Python<'_>, message: impl Into<String>) -> PyErr {
    raised(py, &Error::misuse(message))
}

/// Errors and warnings of reading so far. Everything is reported once.
pub(crate) struct FoundFaults {
    list: Mutex<FaultList>,
    /// Is damage an error?
    is_strict: bool,
    /// Are there no warnings?
    is_quiet: bool,
}

#[derive(Default)]
struct FaultList {
    faults: Vec<Error>,
    known: HashSet<String>,
    /// Not yet reported as Python's warnings.
    untold: Vec<String>,
}

impl FoundFaults {
    /// An empty list.
    pub(crate) fn new(is_strict: bool, is_quiet: bool) -> Self {
        FoundFaults { list: Mutex::default(), is_strict, is_quiet }
    }

    fn list(&self) -> MutexGuard<'_, FaultList> {
        // The list stays consistent when a thread panics.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps damage. It is an `Err` when that is wanted.
    pub(crate) fn fault(&self, fault: Error) -> Result<(), Error> {
        let mut list = self.list();
        let text = fault.to_string();
        if list.known.insert(text.clone()) {
            list.faults.push(fault.clone());
            list.untold.push(text);
        }
        if self.is_strict { Err(fault) } else { Ok(()) }
    }

    /// Keeps something to know that costs no event.
    pub(crate) fn warning(&self, text: String) {
        let mut list = self.list();
        if !self.is_quiet && list.known.insert(text.clone()) {
            list.untold.push(text);
        }
    }

    /// Keeps what the scans of queries met.
    #[cfg(feature = "sql")]
    pub(crate) fn collect(&self, collector: &Collector) -> Result<(), Error> {
        let (faults, warnings) = collector.take();
        warnings.iter().for_each(|warning| self.warning(warning.to_string()));
        faults.into_iter().try_for_each(|fault| self.fault(fault))
    }

    /// Damage so far.
    pub(crate) fn faults(&self) -> Vec<Error> {
        self.list().faults.clone()
    }

    /// Reports what was not reported yet, as warnings of Python.
    pub(crate) fn warn(&self, py: Python<'_>) -> PyResult<()> {
        static WARNING: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let untold = std::mem::take(&mut self.list().untold);
        if untold.is_empty() {
            return Ok(());
        }
        let category = class(py, &WARNING, "TraceWarning")?;
        let warn = py.import("warnings")?.getattr("warn")?;
        for text in untold {
            // Of the line of the program that called us.
            warn.call1((text, category, 2))?;
        }
        Ok(())
    }
}
