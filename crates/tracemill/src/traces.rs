//! Opening traces, and the questions that are asked of them as a whole.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_engine::check;
use tracemill_engine::filter::check_path;
use tracemill_engine::option_values::default_jobs;
use tracemill_engine::redact::{FieldPaths, RedactionQuery, Redactions};
use tracemill_engine::request::{OpenStep, OpenedTraces, Request};
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::survey::{TraceSurvey, survey};
use tracemill_format::{Format, OpenTrace, Storage};
use tracemill_formats::FORMATS;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::Schema;

use crate::conversion::Converted;
use crate::events::Events;
use crate::latency::Latency;

/// Opens all traces in and below the paths, with the default [`Options`].
///
/// ```
/// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces");
/// let traces = tracemill::open([demo])?;
/// assert_eq!(traces.iter().count(), 4);
/// assert!(tracemill::open(["no-such-folder"]).is_err());
/// # Ok::<(), tracemill::Error>(())
/// ```
///
/// # Errors
/// The errors of [`Options::open`].
pub fn open<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Result<Traces> {
    Options::new().open(paths)
}

/// Wishes for opening traces.
///
/// ```
/// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/mill");
/// use tracemill::Options;
///
/// // The clock of the trace is one second late.
/// let traces = Options::new().input_format("ctf2").clock_offset_ns("mill", -1_000_000_000).open([demo]);
/// assert_eq!(traces.is_err(), tracemill::open([demo])?.iter().all(|trace| trace.format() != "ctf2"));
/// # Ok::<(), tracemill::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    open: OpenOptions,
    settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        let open = OpenOptions { jobs: default_jobs(), ..OpenOptions::new(FORMATS) };
        Options { open, settings: Vec::new() }
    }
}

impl Options {
    /// All formats are looked for, and nothing is corrected.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a format of the program's own. It is asked before those that are known already.
    #[must_use]
    pub fn format(mut self, format: &'static Format) -> Self {
        self.open.formats.insert(0, format);
        self
    }

    /// Names the format of the input, which is detected otherwise.
    #[must_use]
    pub fn input_format(mut self, name: &str) -> Self {
        self.open.input_format = Some(name.to_string());
        self
    }

    /// Moves the clocks of the trace of this name (or tail of a name).
    #[must_use]
    pub fn clock_offset_ns(mut self, trace: &str, ns: i64) -> Self {
        self.open.clock_offsets.push((Some(trace.to_string()), ns));
        self
    }

    /// Treats violations of a specification as errors, also where the data could be read.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.open.strict = strict;
        self
    }

    /// Sets an option that a format defines, as the option of the command line that has this name: `ticks-per-us`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_string(), value.to_string()));
        self
    }

    /// Bytes that a packed file may hold unpacked, instead of what its size allows.
    #[must_use]
    pub fn max_unpacked(mut self, bytes: u64) -> Self {
        self.open.max_unpacked = Some(bytes);
        self
    }

    /// Threads that work which is done by several may use; all processors, at most 16, otherwise.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.open.jobs = jobs.max(1);
        self
    }

    /// Opens all traces in and below the paths.
    ///
    /// # Errors
    /// When there is nothing at a path or no trace below it, when a trace that is named cannot be read at all, and when an
    /// option is wrong. Damage to traces, and traces below a folder that cannot be read beside others that can, are kept:
    /// see [`Traces::damage`].
    pub fn open<P: Into<PathBuf>>(self, paths: impl IntoIterator<Item = P>) -> Result<Traces> {
        self.open_in(&FileSystem, paths)
    }

    /// Opens traces as [`Options::open`], from files of another kind.
    ///
    /// # Errors
    /// The errors of [`Options::open`].
    pub fn open_in<P: Into<PathBuf>>(
        mut self,
        storage: &dyn Storage,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Traces> {
        for (name, value) in self.settings {
            let known = tracemill_format::settings_of(&self.open.formats);
            let Some(setting) = known.into_iter().find(|setting| setting.name == name) else {
                return Err(Error::misuse(format!("no format has the option `{name}`")));
            };
            self.open.settings.0.insert(setting.name, value);
        }
        let paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
        let jobs = self.open.jobs;
        let request = Request { inputs: paths.clone(), open: self.open, ..Request::default() };
        let opened = request.open(storage, &mut |step| {
            let OpenStep::Opened(session) = step else { return Ok(ControlFlow::Continue(())) };
            let is_named = |failure: &&Error| failure.place().file.as_ref().is_some_and(|file| paths.contains(file));
            let fatal = session.failures.iter().find(is_named);
            match fatal.or(session.failures.first().filter(|_| session.traces.is_empty())) {
                Some(failure) => Err(failure.clone()),
                None if session.traces.is_empty() => Ok(ControlFlow::Break(())),
                None => Ok(ControlFlow::Continue(())),
            }
        })?;
        let OpenedTraces { session, .. } = opened.ok_or_else(|| Error::misuse("no paths to open"))?;
        Ok(Traces { session, jobs, redactions: None })
    }
}

/// Opened traces, on one timeline.
pub struct Traces {
    pub(crate) session: Session,
    pub(crate) jobs: usize,
    pub(crate) redactions: Option<Arc<Redactions>>,
}

/// A trace of [`Traces`].
#[derive(Clone, Copy)]
pub struct Trace<'t>(&'t OpenTrace);

impl<'t> Trace<'t> {
    /// Its name: the path as the user reaches it.
    pub fn name(self) -> &'t str {
        &self.0.name
    }

    /// The folder or file that it was opened from.
    pub fn path(self) -> &'t Path {
        &self.0.path
    }

    /// The name of its format: `ctf2`.
    pub fn format(self) -> &'static str {
        self.0.schema.format
    }

    /// Its event classes, stream classes, clocks and environment.
    pub fn schema(self) -> &'t Schema {
        &self.0.schema
    }

    /// The names of its streams.
    pub fn streams(self) -> impl Iterator<Item = &'t str> {
        self.0.streams.iter().map(|stream| &*stream.name)
    }
}

/// Findings of [`Traces::check`].
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Number of events that could be read.
    pub events: u64,
    /// Everything that is wrong, in the order of traces and streams.
    pub findings: Vec<check::Finding>,
}

impl Traces {
    /// The traces, in the order in which they were given or found.
    pub fn iter(&self) -> impl Iterator<Item = Trace<'_>> {
        self.session.traces.iter().map(Trace)
    }

    /// All events in the order of time, that of `tracemill print`. Narrow them down before they are iterated, converted
    /// or measured.
    ///
    /// ```
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
    /// let traces = tracemill::open([demo])?;
    /// let mut labels = 0;
    /// for event in traces.events().filter("name == \"orders:*\"")? {
    ///     let event = event?;
    ///     labels += usize::from(event.get("payload.id").is_some());
    /// }
    /// assert!(labels > 0);
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    pub fn events(&self) -> Events<'_> {
        Events::new(self)
    }

    /// Converts all events to the format of this name, at a path where nothing is; [`Events::conversion`] has options.
    ///
    /// ```
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
    /// # let folder = std::env::temp_dir().join(format!("tracemill-convert-doc-{}", std::process::id()));
    /// # let path = folder.join("out");
    /// let traces = tracemill::open([demo])?;
    /// traces.convert("ctf2", &path)?;
    /// assert_eq!(tracemill::open([&path])?.iter().next().map(|trace| trace.format()), Some("ctf2"));
    /// # std::fs::remove_dir_all(&folder).expect("the folder was made");
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Events::convert`].
    pub fn convert(&self, to: &str, path: impl AsRef<Path>) -> Result<Converted> {
        self.events().convert(to, path)
    }

    /// Hides the values of some fields, and leaves others out, of all events from here on: a hidden number is another
    /// number, a hidden text another text, the same in all places.
    ///
    /// ```
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
    /// let mut traces = tracemill::open([demo])?;
    /// traces.redact(&["payload.customer"], &["payload.goods"])?;
    /// let event = traces.events().into_iter().next().expect("there are some")?;
    /// assert_ne!(event.get("payload.customer").expect("it is still there").as_str(), Some("千春"));
    /// assert!(event.get("payload.goods").is_none());
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    ///
    /// # Errors
    /// When no event has one of the fields, or another field could not be read without one that is left out; and when
    /// fields were redacted before.
    pub fn redact(&mut self, hidden: &[&str], dropped: &[&str]) -> Result<()> {
        if self.redactions.is_some() {
            return Err(Error::misuse("the fields of these traces are redacted already"));
        }
        let fields = |paths: &[&str], action| {
            let paths = paths.iter().map(|path| path.to_string()).collect();
            FieldPaths { paths, option: None, action }
        };
        let query = RedactionQuery { hidden: fields(hidden, "hidden"), dropped: fields(dropped, "dropped") };
        self.redactions = query.apply(&mut self.session)?;
        Ok(())
    }

    /// Durations from each event of one name to the next of another; see [`Latency`].
    ///
    /// ```
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
    /// let traces = tracemill::open([demo])?;
    /// let report = traces.latency("orders:placed", "orders:shipped").by("payload.id").run();
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    pub fn latency(&self, from: &str, to: &str) -> Latency<'_> {
        self.events().latency(from, to)
    }

    /// A summary of the traces, as far as headers and indexes tell: no event is read.
    ///
    /// ```
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/losses");
    /// let traces = tracemill::open([demo])?;
    /// let lost: u64 = traces.survey()[0].streams.iter().filter_map(|stream| stream.discarded_events).sum();
    /// assert_eq!(lost, 7070);
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    pub fn survey(&self) -> Vec<TraceSurvey> {
        survey(&self.session, false, self.jobs)
    }

    /// A summary of the traces, with every event counted by several threads.
    ///
    /// ```
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/losses");
    /// let traces = tracemill::open([demo])?;
    /// let events: Option<u64> = traces.count()[0].streams.iter().map(|stream| stream.events()).sum();
    /// assert_eq!(events, Some(931));
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    pub fn count(&self) -> Vec<TraceSurvey> {
        survey(&self.session, true, self.jobs)
    }

    /// Everything that is wrong with the traces: damage, broken rules, losses. Reads every event.
    ///
    /// ```
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/losses");
    /// let checked = tracemill::open([demo])?.check();
    /// assert_eq!(checked.events, 931);
    /// assert!(!checked.findings.is_empty());
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    pub fn check(&self) -> Checked {
        let mut findings = Vec::new();
        let events = check::check(&self.session, self.jobs, |finding| {
            findings.push(finding);
            true
        });
        Checked { events, findings }
    }

    /// Traces that could not be opened beside those that could, and parts of these that cannot be read. Damage that is met
    /// later is an `Err` among the events.
    pub fn damage(&self) -> impl Iterator<Item = &Error> {
        self.session.failures.iter().chain(self.session.traces.iter().flat_map(|trace| &trace.faults))
    }

    /// Something to know that costs no event: an index that is ignored, clocks that cannot be compared.
    pub fn warnings(&self) -> impl Iterator<Item = &Error> {
        self.session.warnings.iter().chain(self.session.traces.iter().flat_map(|trace| &trace.warnings))
    }

    /// Checks that some event has a field of this path: [`Event::get`](crate::Event::get) gives `None` for a path that
    /// is nowhere.
    ///
    /// ```
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
    /// let traces = tracemill::open([demo])?;
    /// traces.check_path("payload.id")?;
    /// assert!(traces.check_path("payload.idd").unwrap_err().to_string().contains("did you mean"));
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    ///
    /// # Errors
    /// When no event class has it, or it is no path.
    pub fn check_path(&self, path: &str) -> Result<()> {
        check_path(&self.session, path)
    }

    /// The session after the traces, for what is not here; its crate may change at any time.
    pub fn session(&self) -> &Session {
        &self.session
    }
}
