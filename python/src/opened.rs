//! Opened traces.

use std::collections::BTreeMap;
#[cfg(feature = "sql")]
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(feature = "distributed")]
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyList;
#[cfg(feature = "sql")]
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
#[cfg(feature = "sql")]
use tracemill_analyses::kernel::{BoundCustom, CustomDefinitions};
#[cfg(feature = "sql")]
use tracemill_debug_info::{SymbolFiles, SymbolSearch};
#[cfg(feature = "sql")]
use tracemill_engine::option_values::default_query_memory;
use tracemill_engine::option_values::{Unit, clock_offset, default_jobs, size};
use tracemill_engine::parsed_query::ParsedQuery;
use tracemill_engine::request::{self, Correlation, EventQuery, OpenStep, Request, SelectedEvents};
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::survey::survey;
use tracemill_format::settings_of;
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;
use tracemill_render::info::Described;
#[cfg(feature = "sql")]
use tracemill_sql::database::Database;
#[cfg(feature = "sql")]
use tracemill_sql::query::{MemoryLimits, Queries};
#[cfg(feature = "sql")]
use tracemill_sql::rows::Parameter;

#[cfg(feature = "sql")]
use crate::answer::Answer;
use crate::errors::{FoundFaults, object, raised};
#[cfg(feature = "sql")]
use crate::errors::{misuse, refused};
use crate::events::Events;

/// The state that all results of opened traces keep alive.
pub(crate) struct SharedTraces {
    session: Arc<Session>,
    #[cfg(feature = "sql")]
    pub(crate) queries: Queries,
    pub(crate) found: Arc<FoundFaults>,
    wishes: Wishes,
    /// These traces where queries are run elsewhere, by address.
    #[cfg(feature = "distributed")]
    elsewhere: Mutex<HashMap<String, Arc<SharedTraces>>>,
}

/// Wishes of opening that are used again.
#[derive(Clone)]
struct Wishes {
    query: EventQuery,
    /// The condition of the query as text.
    filter: Option<String>,
    /// Facts that executors of a cluster must know, too: the paths, and options as words of the command line.
    #[cfg(feature = "distributed")]
    opened: (Vec<PathBuf>, Vec<String>),
    /// Were clocks corrected by messages?
    #[cfg(feature = "distributed")]
    is_correlated: bool,
    /// Did the user define states?
    #[cfg(feature = "distributed")]
    has_states: bool,
}

impl Wishes {
    /// The events of a session that more conditions leave; each has the name by which errors call it.
    fn select(&self, session: &Session, more: &[(&'static str, &str)]) -> Result<SelectedEvents, Error> {
        let mut query = self.query.clone();
        let own = self.filter.as_deref().map(|text| ("filter", text));
        let conditions: Vec<(&'static str, &str)> = own.into_iter().chain(more.iter().copied()).collect();
        match conditions[..] {
            [] => {}
            [(name, text)] => query.choice.set_filter(name, text)?,
            [(first, _), ..] => {
                // Each alone first: an error is about what the user wrote.
                for (name, text) in &conditions {
                    let mut alone = ParsedQuery::default();
                    alone.set_filter(name, text)?;
                    alone.bind(session, true)?;
                }
                let all: Vec<String> = conditions.iter().map(|(_, text)| format!("({text})")).collect();
                query.choice.set_filter(first, &all.join(" and "))?;
            }
        }
        query.bind(session)
    }
}

impl SharedTraces {
    /// The traces.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Keeps what the scans of queries met; with what they could not show when one has ended.
    #[cfg(feature = "sql")]
    pub(crate) fn collect(&self, is_over: bool) -> Result<(), Error> {
        let database = self.queries.database();
        if is_over {
            database.losses().into_iter().for_each(|loss| self.found.warning(loss));
        }
        self.found.collect(&database.collector)
    }

    /// The traces as a cluster reads them.
    #[cfg(feature = "distributed")]
    fn on_cluster(&self, address: &str) -> Result<Arc<SharedTraces>, Error> {
        let mut all = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(address) {
            return Ok(known.clone());
        }
        let (session, wishes) = (self.session(), &self.wishes);
        if wishes.is_correlated {
            let error = Error::unsupported("clocks that `correlate` corrected are not for clusters");
            return Err(error.with_help("leave `cluster` or `correlate` out"));
        }
        if wishes.has_states {
            let error = Error::unsupported("`states` is not for clusters");
            return Err(error.with_help("leave `cluster` or `states` out"));
        }
        let (paths, words) = &wishes.opened;
        if let Some(word) =
            words.iter().find(|word| word.starts_with("--clock-offset") && word.matches('=').count() > 1)
        {
            let error =
                Error::unsupported(format!("on a cluster, the clock of one trace cannot be moved alone: {word}"));
            return Err(error.with_help("leave `cluster` out, or the name of the trace"));
        }
        let named = tracemill_cluster::NamedTraces::new(session, paths, words.clone())?;
        let EventQuery { jobs, memory_bytes, .. } = wishes.query;
        let cluster = crate::cluster::connect(address, &named, jobs)?;
        let SelectedEvents { streams, selection, filter } = wishes.query.bind(session)?;
        let database = Database::from_streams(session.clone(), streams, selection, filter, jobs);
        let memory_bytes = memory_bytes.unwrap_or_else(default_query_memory);
        let mut queries = Queries::new(database, MemoryLimits { memory_bytes, spills: true })?;
        queries.set_remote(cluster);
        let (found, wishes) = (self.found.clone(), wishes.clone());
        let session = session.clone();
        let shared = Arc::new(SharedTraces { session, queries, found, wishes, elsewhere: Mutex::default() });
        all.insert(address.to_string(), shared.clone());
        Ok(shared)
    }

    #[cfg(all(feature = "sql", not(feature = "distributed")))]
    fn on_cluster(&self, _: &str) -> Result<Arc<SharedTraces>, Error> {
        let error = Error::unsupported("this module was built without `distributed`");
        Err(error.with_help("leave `cluster` out, or build it with that feature"))
    }
}

/// Options of opening, as `tracemill.open` passes them on.
#[derive(FromPyObject, Default)]
#[pyo3(from_item_all)]
struct TracesOptions {
    begin: Option<String>,
    end: Option<String>,
    filter: Option<String>,
    stream: Vec<String>,
    jobs: Option<usize>,
    memory: Option<String>,
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "only queries spill"))]
    spill: bool,
    input_format: Option<String>,
    clock_offset: Vec<String>,
    clock_offset_ns: Vec<String>,
    correlate: Option<String>,
    correlate_by: Option<String>,
    max_unpacked: Option<String>,
    strict: bool,
    quiet: bool,
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "only queries name functions"))]
    symbols: SymbolsOptions,
    /// The file that defines states and counters.
    states: Option<PathBuf>,
    /// Options of formats.
    settings: BTreeMap<String, String>,
}

/// Options that say how functions of samples are named.
#[derive(FromPyObject, Default)]
#[pyo3(from_item_all)]
#[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "only queries name functions"))]
struct SymbolsOptions {
    kallsyms: Option<PathBuf>,
    target_prefix: Option<PathBuf>,
    dir: Option<PathBuf>,
    no_inline: bool,
}

#[cfg(feature = "sql")]
impl SymbolsOptions {
    /// The symbols of a session, as the program takes them.
    fn files(self, session: &Session) -> SymbolFiles {
        SymbolFiles::new(SymbolSearch {
            kallsyms: self.kallsyms,
            target_prefix: self.target_prefix,
            dir: self.dir,
            skips_inlined: self.no_inline,
            ..SymbolSearch::for_session(session)
        })
    }
}

#[cfg(feature = "distributed")]
impl TracesOptions {
    /// The options that executors open traces with, as words of the command line, but for those of formats.
    fn words(&self) -> Vec<String> {
        let one = |name: &str, value: &String| format!("--{name}={value}");
        let single = [
            ("begin", &self.begin),
            ("end", &self.end),
            ("filter", &self.filter),
            ("input-format", &self.input_format),
            ("max-unpacked", &self.max_unpacked),
        ];
        let lists = [
            ("stream", &self.stream),
            ("clock-offset", &self.clock_offset),
            ("clock-offset-ns", &self.clock_offset_ns),
        ];
        let single = single.into_iter().filter_map(|(name, value)| Some(one(name, value.as_ref()?)));
        single.chain(lists.into_iter().flat_map(|(name, all)| all.iter().map(move |value| one(name, value)))).collect()
    }
}

/// Traces that were opened.
#[pyclass(frozen, module = "tracemill")]
pub(crate) struct Opened(Arc<SharedTraces>);

fn bytes(text: &Option<String>, name: &str) -> Result<Option<usize>, Error> {
    let read = |text: &String| size(text).map_err(|why| Error::misuse(format!("{name} `{text}`: {why}")));
    text.as_ref().map(read).transpose()
}

impl Opened {
    fn open(paths: &[PathBuf], options: TracesOptions) -> Result<SharedTraces, Error> {
        #[cfg(feature = "distributed")]
        let words = options.words();
        let mut open = OpenOptions::new(FORMATS);
        open.input_format = options.input_format;
        open.strict = options.strict;
        open.max_unpacked = bytes(&options.max_unpacked, "max_unpacked")?.map(|size| size as u64);
        for (texts, name, unit) in [
            (&options.clock_offset, "clock_offset", Unit::Seconds),
            (&options.clock_offset_ns, "clock_offset_ns", Unit::Ns),
        ] {
            for text in texts {
                open.clock_offsets.push(clock_offset(text, name, unit)?);
            }
        }
        for (name, value) in options.settings {
            let known = settings_of(FORMATS).into_iter().find(|setting| setting.name == name);
            let Some(setting) = known else {
                let error = Error::misuse(format!("open() has no option `{}`", name.replace('-', "_")));
                return Err(error.with_help("its options are those of `tracemill sql --help`, with `_` for `-`"));
            };
            open.settings.0.insert(setting.name, value);
        }
        let mut choice = ParsedQuery::default();
        options.begin.as_deref().map_or(Ok(()), |text| choice.set_begin("begin", text))?;
        options.end.as_deref().map_or(Ok(()), |text| choice.set_end("end", text))?;
        options.filter.as_deref().map_or(Ok(()), |text| choice.set_filter("filter", text))?;
        let jobs = options.jobs.unwrap_or_else(default_jobs).max(1);
        let memory_bytes = bytes(&options.memory, "memory")?;
        let wishes = Wishes {
            query: EventQuery { choice, streams: options.stream, gmt: true, jobs, memory_bytes },
            filter: options.filter,
            #[cfg(feature = "distributed")]
            opened: (paths.to_vec(), {
                let settings = tracemill_cluster::setting_words(FORMATS, &open.settings);
                words.into_iter().chain(settings).collect()
            }),
            #[cfg(feature = "distributed")]
            is_correlated: options.correlate.is_some(),
            #[cfg(feature = "distributed")]
            has_states: options.states.is_some(),
        };
        let found = FoundFaults::new(options.strict, options.quiet);
        let request = Request {
            inputs: paths.to_vec(),
            open,
            correlation: options.correlate.map(|events| Correlation { events, by: options.correlate_by }),
            events: Some(wishes.query.clone()),
            ..Request::default()
        };
        let opened = request.open(&FileSystem, &mut |step| {
            match step {
                OpenStep::Opened(session) => {
                    let failure = session.failures.first().filter(|_| session.traces.is_empty());
                    failure.cloned().map_or(Ok(()), Err)?;
                }
                OpenStep::Correlated(_, _, others) => {
                    others.iter().for_each(|other| found.warning(other.to_string()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let opened = opened.ok_or_else(|| Error::misuse("the traces were not opened"))?;
        #[cfg(not(feature = "sql"))]
        if options.states.is_some() {
            let error = Error::unsupported("this module was built without `sql`, which has the tables of `states`");
            return Err(error.with_help("leave `states` out, or build it with that feature"));
        }
        #[cfg(feature = "sql")]
        let request::OpenedTraces { session, streams, selection, filter, .. } = opened;
        #[cfg(not(feature = "sql"))]
        let request::OpenedTraces { session, .. } = opened;
        let of_traces = session.traces.iter().flat_map(|trace| &trace.warnings);
        session.warnings.iter().chain(of_traces).for_each(|warning| found.warning(warning.to_string()));
        let faults = session.failures.iter().chain(session.traces.iter().flat_map(|trace| &trace.faults));
        faults.cloned().try_for_each(|fault| found.fault(fault))?;
        let session = Arc::new(session);
        #[cfg(feature = "sql")]
        let queries = {
            let mut database = Database::from_streams(session.clone(), streams, selection, filter, jobs);
            database.name_functions_by(Arc::new(options.symbols.files(&session)));
            if let Some(file) = &options.states {
                let definitions = CustomDefinitions::open(file)?;
                // Times without a zone are universal time, as in the statements.
                let bound = BoundCustom::new(&definitions, &session, true)?;
                bound.unknown_events().iter().for_each(|error| found.warning(error.to_string()));
                database.define_states(Arc::new(definitions), true)?;
            }
            let memory_bytes = memory_bytes.unwrap_or_else(default_query_memory);
            Queries::new(database, MemoryLimits { memory_bytes, spills: options.spill })?
        };
        Ok(SharedTraces {
            session,
            #[cfg(feature = "sql")]
            queries,
            found: Arc::new(found),
            wishes,
            #[cfg(feature = "distributed")]
            elsewhere: Mutex::default(),
        })
    }
}

#[pymethods]
impl Opened {
    #[new]
    fn new(py: Python<'_>, paths: Vec<PathBuf>, options: TracesOptions) -> PyResult<Self> {
        let shared = py.detach(|| Opened::open(&paths, options)).map_err(|error| raised(py, &error))?;
        shared.found.warn(py)?;
        Ok(Opened(Arc::new(shared)))
    }

    #[cfg(feature = "sql")]
    /// Plans a query, which a cluster runs where there is an address.
    fn prepare(
        &self,
        py: Python<'_>,
        text: &str,
        parameters: HashMap<String, Bound<'_, PyAny>>,
        cluster: Option<&str>,
    ) -> PyResult<Answer> {
        let of = |(name, value): (String, Bound<'_, PyAny>)| Ok((name.clone(), parameter(&name, &value)?));
        let parameters = parameters.into_iter().map(of).collect::<PyResult<HashMap<_, _>>>()?;
        let shared = match cluster {
            None => self.0.clone(),
            Some(address) => py.detach(|| self.0.on_cluster(address)).map_err(|error| raised(py, &error))?,
        };
        let prepared = py.detach(|| {
            let prepared = shared.queries.prepare(text, &parameters);
            let damage = shared.collect(false);
            (prepared, damage)
        });
        self.0.found.warn(py)?;
        prepared.1.map_err(|error| raised(py, &error))?;
        let prepared = prepared.0.map_err(|error| refused(py, &error))?;
        Ok(Answer { shared, prepared })
    }

    /// Events of classes with these names, or of all.
    fn events(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        condition: Option<&str>,
        limit: Option<u64>,
    ) -> PyResult<Events> {
        let quoted = |name: &String| format!("name == \"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
        let of_names = names.iter().map(quoted).collect::<Vec<_>>().join(" or ");
        let of_names = (!names.is_empty()).then_some(("name", of_names.as_str()));
        let more: Vec<(&'static str, &str)> =
            of_names.into_iter().chain(condition.map(|text| ("where", text))).collect();
        let shared = &*self.0;
        let events = py.detach(|| {
            let session = shared.session();
            let selected = shared.wishes.select(session, &more)?;
            Ok(Events::new(session, selected, shared.found.clone(), limit))
        });
        events.map_err(|error| raised(py, &error))
    }

    #[cfg(feature = "sql")]
    /// The names of the tables: ours, then those of event classes.
    fn tables(&self) -> Vec<String> {
        self.0.queries.database().tables().map(str::to_string).collect()
    }

    /// The output of `tracemill info --json`, as text.
    fn info(&self, py: Python<'_>, count: bool, packets: bool) -> PyResult<String> {
        let shared = &*self.0;
        let text = py.detach(|| {
            let session = shared.session();
            let surveys = survey(session, count, shared.wishes.query.jobs);
            let faults = surveys.iter().flat_map(|survey| &survey.faults);
            faults.cloned().try_for_each(|fault| shared.found.fault(fault))?;
            let traces = surveys.iter().enumerate();
            let traces =
                traces.map(|(at, survey)| Described::new(session, at, survey, packets).into_json().to_string());
            Ok(format!("{{\"traces\":[{}]}}", traces.collect::<Vec<_>>().join(",")))
        });
        self.0.found.warn(py)?;
        text.map_err(|error: Error| raised(py, &error))
    }

    /// The damage that was met so far, as errors.
    fn faults<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.0.found.warn(py)?;
        let faults = self.0.found.faults();
        PyList::new(py, faults.iter().map(|fault| object(py, fault)).collect::<PyResult<Vec<_>>>()?)
    }
}

/// A value of Python as that of a parameter.
#[cfg(feature = "sql")]
fn parameter(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Parameter> {
    let py = value.py();
    if value.is_none() {
        return Ok(Parameter::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Parameter::Boolean(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        let small = value.extract().map(Parameter::Integer).or_else(|_| value.extract().map(Parameter::Unsigned));
        return small.map_err(|_| misuse(py, format!("the value of ${name} does not fit 64 bits")));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Parameter::Real(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Parameter::Text(value.extract()?));
    }
    // Numbers of numpy, which say that they are some.
    let number = value.call_method0("__index__").and_then(|number| number.extract().map(Parameter::Integer));
    let number = number.or_else(|_| value.call_method0("__float__")?.extract().map(Parameter::Real));
    let of = value.get_type().name()?;
    number.map_err(|_| misuse(py, format!("the value of ${name} is of the type `{of}`: give a number, a text, None")))
}
