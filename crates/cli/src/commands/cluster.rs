//! `tracemill cluster`, and the traces of `tracemill sql --cluster`.

#[cfg(feature = "distributed")]
pub(crate) use parts::{connect, run};

#[cfg(not(feature = "distributed"))]
use tracemill_model::error::Error;

#[cfg(not(feature = "distributed"))]
use crate::args::ClusterOptions;
#[cfg(not(feature = "distributed"))]
use crate::report::Outcome;

/// Says how to get a program that can do this.
#[cfg(not(feature = "distributed"))]
pub(crate) fn missing() -> Error {
    super::built_without("clusters", "distributed")
}

/// Says how to get a program that can do this.
#[cfg(not(feature = "distributed"))]
pub(crate) fn run(_: &ClusterOptions) -> Result<Outcome, Error> {
    Err(missing())
}

#[cfg(feature = "distributed")]
mod parts {
    use std::collections::VecDeque;
    use std::ops::ControlFlow;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex, PoisonError};

    use clap::Parser;
    use tracemill_cluster::{Allow, Cluster, Executor, NamedTraces, executor, names_file, scheduler, setting_words};
    use tracemill_engine::option_values::{default_jobs, default_query_memory};
    use tracemill_engine::request::{EventQuery, OpenStep, Request, SelectedEvents};
    use tracemill_engine::session::Session;
    use tracemill_engine::source::FileSystem;
    use tracemill_format::Settings;
    use tracemill_formats::FORMATS;
    use tracemill_model::error::Error;
    use tracemill_sql::database::Database;
    use tracemill_sql::query::Queries;
    use tracemill_sql::remote::SessionResolver;

    use super::super::request::{RequestOptions, jobs};
    use crate::args::{Cli, ClusterOptions, ClusterPart, Command, SqlOptions};
    use crate::report::Outcome;

    /// Runs a part of a cluster until somebody ends it.
    pub(crate) fn run(options: &ClusterOptions) -> Result<Outcome, Error> {
        let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let threads = threads.map_err(|error| Error::unsupported(format!("no threads for a cluster: {error}")))?;
        match &options.part {
            ClusterPart::Scheduler(options) => {
                eprintln!("note: the scheduler listens at {}", options.bind);
                threads.block_on(scheduler(options.bind, Arc::new(TraceCache::default())))?;
            }
            ClusterPart::Executor(options) => {
                let own = Executor {
                    scheduler: options.scheduler.clone(),
                    bind: options.bind,
                    jobs: options.jobs.map_or_else(default_jobs, usize::from),
                    memory_bytes: options.memory.unwrap_or_else(default_query_memory),
                    allow: options.allow.clone(),
                };
                let traces = TraceCache {
                    allow: own.allowed()?,
                    settings: options.formats.0.clone(),
                    place: format!("the executor at {}", options.bind),
                    opened: Mutex::default(),
                };
                eprintln!("note: the executor listens at {}", options.bind);
                threads.block_on(executor(own, Arc::new(traces)))?;
            }
        }
        Ok(Outcome::Done)
    }

    /// Has queries run on a cluster.
    pub(crate) fn connect(address: &str, options: &SqlOptions, queries: &mut Queries) -> Result<(), Error> {
        if let Some(text) =
            options.input.clock_offset.iter().chain(&options.input.clock_offset_ns).find(|t| t.contains('='))
        {
            let error =
                Error::unsupported(format!("on a cluster, the clock of one trace cannot be moved alone: {text}"));
            return Err(error.with_help("leave --cluster out, or the name of the trace"));
        }
        let text = described(options, queries.database().session())?;
        let opens = TraceCache {
            settings: options.input.formats.0.clone(),
            place: "the cluster in this process".into(),
            ..TraceCache::default()
        };
        let jobs = jobs(options.input.jobs);
        let cluster = Cluster::connect(address, &text, Arc::new(opens), jobs)?;
        queries.set_remote(Arc::new(cluster));
        Ok(())
    }

    /// The text by which executors open the traces as they are open here.
    fn described(options: &SqlOptions, session: &Session) -> Result<String, Error> {
        let (input, events) = (&options.input, &options.events);
        let mut words = Vec::new();
        let mut add = |name: &str, value: &str| words.push(format!("--{name}={value}"));
        input.input_format.iter().for_each(|value| add("input-format", value));
        input.clock_offset.iter().for_each(|value| add("clock-offset", value));
        input.clock_offset_ns.iter().for_each(|value| add("clock-offset-ns", value));
        input.max_unpacked.iter().for_each(|value| add("max-unpacked", &value.to_string()));
        events.begin.iter().for_each(|value| add("begin", value));
        events.end.iter().for_each(|value| add("end", value));
        events.filter.iter().for_each(|value| add("filter", value));
        events.stream.iter().for_each(|value| add("stream", value));
        if input.correlate.is_some() {
            let error =
                Error::unsupported("--correlate is not for clusters: each executor would look for messages anew");
            return Err(error.with_help("leave --cluster out"));
        }
        words.extend(setting_words(FORMATS, &input.formats.0));
        Ok(NamedTraces::new(session, &input.traces, words)?.text())
    }

    /// Opens traces that a text names, and keeps the last ones open.
    #[derive(Debug, Default)]
    struct TraceCache {
        allow: Allow,
        /// Options of formats that name files.
        settings: Settings,
        /// Name of the process that opens, for messages.
        place: String,
        opened: Mutex<VecDeque<(String, Arc<CachedTraces>)>>,
    }

    struct CachedTraces {
        session: Arc<Session>,
        query: EventQuery,
    }

    impl std::fmt::Debug for CachedTraces {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "Opened({} traces)", self.session.traces.len())
        }
    }

    /// Sessions that stay open.
    const KEPT: usize = 8;

    impl SessionResolver for TraceCache {
        fn open(&self, text: &str) -> Result<Database, Error> {
            let opened = self.opened(text).map_err(|error| {
                let place = &self.place;
                Error::new(error.kind(), format!("{place}: {error}"))
            })?;
            let CachedTraces { session, query } = &*opened;
            // Files that change while they are open are found by the next query.
            let SelectedEvents { streams, selection, filter } = query.bind(session)?;
            Ok(Database::from_streams(session.clone(), streams, selection, filter, 1))
        }
    }

    impl TraceCache {
        fn opened(&self, text: &str) -> Result<Arc<CachedTraces>, Error> {
            let known = NamedTraces::parse(text)?;
            let mut kept = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = kept.iter().position(|(own, _)| own == text) {
                if let Some((_, opened)) = kept.get(at)
                    && known.check(&opened.session).is_ok()
                {
                    return Ok(opened.clone());
                }
                kept.remove(at);
            }
            let paths = &known.paths;
            for path in paths {
                self.allow.check(Path::new(path))?;
            }
            let words = ["tracemill", "sql"].map(str::to_string).into_iter().chain(known.words.iter().cloned());
            let words = words.chain(["--".to_string()]).chain(paths.iter().cloned());
            let wrong = |_| Error::unsupported("the options of the traces are not known here");
            let Command::Sql(command) = Cli::try_parse_from(words).map_err(wrong)?.command else {
                return Err(Error::unsupported("the options of the traces are not known here"));
            };
            let mut options = std::mem::take(&mut { command }.0);
            // Only those were checked.
            if !options.input.traces.iter().map(PathBuf::as_path).eq(paths.iter().map(Path::new)) {
                return Err(Error::unsupported("the options of the traces name other traces"));
            }
            options.input.formats.0.0.retain(|name, _| !names_file(FORMATS, name));
            let own = self.settings.0.iter().filter(|(name, _)| names_file(FORMATS, name));
            options.input.formats.0.0.extend(own.map(|(name, value)| (*name, value.clone())));
            // Messages of clocks were refused where the text was made.
            let request = RequestOptions::events(&options.input, &options.events, true).request()?;
            let request = Request { correlation: None, ..request };
            let opened = request.open(&FileSystem, &mut |step| {
                if let OpenStep::Opened(session) = step {
                    self.compare(&known, session)?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
            let opened = opened.ok_or_else(|| Error::unsupported("the traces were not opened"))?;
            let opened = Arc::new(CachedTraces { session: Arc::new(opened.session), query: opened.query });
            kept.push_back((text.to_string(), opened.clone()));
            if kept.len() > KEPT {
                kept.pop_front();
            }
            Ok(opened)
        }

        /// Gives traces the names that they have where the query was asked, and checks that they are the same ones, from
        /// files that may be read.
        fn compare(&self, known: &NamedTraces, session: &mut Session) -> Result<(), Error> {
            let names = &known.names;
            if names.len() != session.traces.len() {
                let error = format!("{} traces are here, and {} were meant", session.traces.len(), names.len());
                return Err(Error::unsupported(error));
            }
            for (trace, name) in session.traces.iter_mut().zip(names) {
                trace.name.clone_from(name);
            }
            for file in session.traces.iter().flat_map(|trace| &trace.streams).flat_map(|stream| &stream.files) {
                // An entry of an archive is where the archive is.
                if file.path.exists() {
                    self.allow.check(&file.path)?;
                }
            }
            known.check(session)
        }
    }
}
