//! Queries and their rows.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use tracemill_model::error::Error;
use tracemill_sql::rows::{Explained, Next, Prepared, Rows};

use crate::cells::Cells;
use crate::errors::{raised, refused};
use crate::opened::SharedTraces;

/// How long a query runs before Python is asked whether somebody pressed Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(40);

/// A query that was planned: it runs each time its rows are asked for.
#[pyclass(frozen, module = "tracemill")]
pub(crate) struct Answer {
    pub(crate) shared: Arc<SharedTraces>,
    pub(crate) prepared: Prepared,
}

#[pymethods]
impl Answer {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.prepared.columns().to_vec()
    }

    /// Rows, from the first one. With `watch`, the addresses of the buffers that are handed out are kept, for tests.
    #[pyo3(signature = (watch = false))]
    fn stream(&self, py: Python<'_>, watch: bool) -> PyResult<Stream> {
        let rows = py.detach(|| self.shared.queries.rows(&self.prepared)).map_err(|error| refused(py, &error))?;
        let schema = rows.schema().clone();
        let flow = Flow { shared: self.shared.clone(), rows };
        let kept = Arc::new(Mutex::new(RowFacts::default()));
        Ok(Stream { shared: self.shared.clone(), schema, flow: Mutex::new(Some(flow)), kept, watch })
    }

    /// The plan, as a query of its own.
    fn explain(&self, py: Python<'_>, analyze: bool) -> PyResult<Answer> {
        let prepared = py.detach(|| self.shared.queries.explain(&self.prepared, analyze));
        let prepared = prepared.map_err(|error| refused(py, &error))?;
        Ok(Answer { shared: self.shared.clone(), prepared })
    }
}

/// Rows on their way.
struct Flow {
    shared: Arc<SharedTraces>,
    rows: Rows,
}

/// How rows end before their end.
enum Ended {
    Query(Explained),
    Damage(Error),
    /// Python has an exception of its own: somebody pressed Ctrl-C.
    Interrupt(PyErr),
}

impl Flow {
    fn next(&mut self) -> Result<Next, Ended> {
        let next = self.rows.next(PATIENCE).map_err(Ended::Query)?;
        // Damage is known when the rows are that it costs.
        self.shared.collect(matches!(next, Next::End)).map_err(Ended::Damage)?;
        Ok(next)
    }
}

impl Ended {
    fn raised(&self, py: Python<'_>) -> PyErr {
        match self {
            Ended::Query(error) => refused(py, error),
            Ended::Damage(error) => raised(py, error),
            Ended::Interrupt(error) => error.clone_ref(py),
        }
    }

    fn text(&self) -> String {
        match self {
            Ended::Query(error) => error.error.to_string(),
            Ended::Damage(error) => error.to_string(),
            Ended::Interrupt(_) => "interrupted".to_string(),
        }
    }
}

/// Facts about rows that somebody else takes.
#[derive(Default)]
struct RowFacts {
    error: Option<Ended>,
    addresses: Vec<Vec<usize>>,
}

/// The rows of a query, once.
#[pyclass(frozen, module = "tracemill")]
pub(crate) struct Stream {
    shared: Arc<SharedTraces>,
    schema: SchemaRef,
    flow: Mutex<Option<Flow>>,
    kept: Arc<Mutex<RowFacts>>,
    watch: bool,
}

impl Stream {
    fn take_flow(&self) -> PyResult<Flow> {
        let flow = self.flow.lock().unwrap_or_else(PoisonError::into_inner).take();
        flow.ok_or_else(|| PyRuntimeError::new_err("the rows are taken already: ask for them anew"))
    }
}

#[pymethods]
impl Stream {
    /// The rows of the next batch as tuples; `None` at the end.
    fn batch<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut flow = self.take_flow()?;
        loop {
            let (back, next) = py.detach(move || {
                let next = flow.next();
                (flow, next)
            });
            flow = back;
            py.check_signals()?;
            self.shared.found.warn(py)?;
            match next.map_err(|ended| ended.raised(py))? {
                Next::Later => {}
                Next::End => return Ok(None),
                Next::Batch(batch) => {
                    *self.flow.lock().unwrap_or_else(PoisonError::into_inner) = Some(flow);
                    let columns = batch.columns().iter().map(Cells::new).collect::<PyResult<Vec<_>>>()?;
                    let list = PyList::empty(py);
                    for at in 0..batch.num_rows() {
                        let cells = columns.iter().map(|column| column.value(py, at));
                        list.append(PyTuple::new(py, cells.collect::<PyResult<Vec<_>>>()?)?)?;
                    }
                    return Ok(Some(list));
                }
            }
        }
    }

    /// The rows by Arrow's C stream interface, without a copy. The types are those of the query, whatever is asked for.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = Reader {
            flow: Some(self.take_flow()?),
            schema: self.schema.clone(),
            kept: self.kept.clone(),
            watch: self.watch,
            thread: main_thread(py)?,
        };
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    /// The types of the columns by Arrow's C interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref());
        let schema = schema.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The error that ended the rows that somebody takes by Arrow's interface.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.error.as_ref().map(|ended| ended.raised(py).into_value(py).into_any())
    }

    /// The addresses of the first buffer of each column, by batch.
    #[getter]
    fn addresses(&self) -> Vec<Vec<usize>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).addresses.clone()
    }

    /// Warns of the damage that was met while the rows were taken.
    fn warn(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.found.warn(py)
    }
}

/// This thread, when it is the one to which signals of the program come.
fn main_thread(py: Python<'_>) -> PyResult<Option<ThreadId>> {
    let threading = py.import("threading")?;
    let (own, main) = (threading.call_method0("current_thread")?, threading.call_method0("main_thread")?);
    Ok(own.is(&main).then(|| std::thread::current().id()))
}

/// Rows for a consumer that may be no Python.
struct Reader {
    flow: Option<Flow>,
    schema: SchemaRef,
    kept: Arc<Mutex<RowFacts>>,
    watch: bool,
    thread: Option<ThreadId>,
}

impl Reader {
    fn keep_error(&self, error: Ended) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).error.get_or_insert(error);
    }

    /// Asks Python whether somebody pressed Ctrl-C. Only on the thread that signals come to, and that made this reader:
    /// another one might be waited for by somebody who holds the interpreter's lock.
    fn is_interrupted(&self) -> bool {
        if self.thread != Some(std::thread::current().id()) {
            return false;
        }
        Python::attach(|py| {
            let Err(error) = py.check_signals() else { return false };
            self.keep_error(Ended::Interrupt(error));
            // The consumer will raise what it makes of an error: the interrupt comes again after it.
            let again = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
            if let Err(error) = again {
                self.keep_error(Ended::Interrupt(error));
            }
            true
        })
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let next = self.flow.as_mut()?.next();
            if self.is_interrupted() {
                self.flow = None;
                return Some(Err(ArrowError::ComputeError("interrupted".into())));
            }
            match next {
                Ok(Next::Later) => {}
                Ok(Next::End) => self.flow = None,
                Ok(Next::Batch(batch)) => {
                    if self.watch {
                        let address = |column: &Arc<dyn Array>| {
                            column.to_data().buffers().first().map_or(0, |buffer| buffer.as_ptr() as usize)
                        };
                        let addresses = batch.columns().iter().map(address).collect();
                        self.kept.lock().unwrap_or_else(PoisonError::into_inner).addresses.push(addresses);
                    }
                    return Some(Ok(batch));
                }
                Err(ended) => {
                    self.flow = None;
                    let text = ended.text();
                    self.keep_error(ended);
                    return Some(Err(ArrowError::ComputeError(text)));
                }
            }
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
