//! Samples in the commands that follow calls: opening, options, symbols.

use std::sync::Arc;

use tracemill_calls::TimeRange;
use tracemill_calls::profile::{
    CpuTime, Profile, ProfileGroup, ProfileQuery, ProfileSource, WeightUnit, sample_events,
};
use tracemill_calls::text::by_name;
use tracemill_codec::text::pattern::Pattern;
use tracemill_engine::samples::{SampleReader, Symbolizer};
use tracemill_engine::selection;
use tracemill_engine::session::Session;
use tracemill_engine::survey::ends_of;
use tracemill_engine::timeline::Selection;
use tracemill_format::Demangle;
use tracemill_model::error::Error;
use tracemill_render::time::{TimeStyle, WallClock};

use super::calls::{self, OpenCalls};
use super::losses::report_note;
use super::request::jobs;
use crate::args::{CallArgs, CpuArg, SampleArgs, SymbolArgs, WeightArg};
use crate::report::{Outcome, Reporter, counted};

/// A recording, by what the commands that follow calls take of it.
pub(super) enum OpenRecording {
    Calls(Box<OpenCalls>),
    Samples(OpenSamples),
}

/// An open trace with samples.
pub(super) struct OpenSamples {
    session: Arc<Session>,
    pub(super) reporter: Reporter,
}

/// Opens the trace of the options: one with calls, otherwise one with samples. `by` is what samples are grouped by. `None`
/// when it cannot be read (reported on stderr).
pub(super) fn open(args: &CallArgs, samples: &SampleArgs, by: Option<&str>) -> Result<Option<OpenRecording>, Error> {
    let Some((session, reporter)) = calls::open_session(args)? else { return Ok(None) };
    if tracemill_engine::samples::has_samples(&session) && (!samples.event.is_empty() || !calls::has_calls(&session)) {
        return Ok(Some(OpenRecording::Samples(OpenSamples { session, reporter })));
    }
    let unused = [("--event", !samples.event.is_empty()), ("--by", by.is_some())];
    if let Some((option, _)) = unused.iter().find(|(_, is_typed)| *is_typed) {
        let what = if calls::has_calls(&session) { "calls are read from this trace" } else { "this trace has none" };
        let error = Error::misuse(format!("{option} is for samples, and {what}")).in_file(&calls::path(args));
        return Err(error.with_help(
            "`tracemill report` also groups the time between events: name them with --state, or with --from and --to",
        ));
    }
    Ok(Some(OpenRecording::Calls(Box::new(calls::of_session(args, session, reporter)?))))
}

/// Opens a trace whose samples are compared with those of another one.
pub(super) fn open_other(args: &CallArgs, samples: &SampleArgs) -> Result<Option<OpenSamples>, Error> {
    match open(args, samples, None)? {
        None => Ok(None),
        Some(OpenRecording::Samples(open)) => Ok(Some(open)),
        Some(OpenRecording::Calls(_)) => {
            let error = Error::misuse("samples are compared with samples, and this trace has calls");
            Err(error.in_file(&calls::path(args)))
        }
    }
}

/// The groups of a list of names.
pub(super) fn groups(text: Option<&str>) -> Result<Vec<ProfileGroup>, Error> {
    let mut groups = Vec::new();
    for name in text.into_iter().flat_map(|text| text.split(',')).map(str::trim).filter(|name| !name.is_empty()) {
        let group = by_name(&ProfileGroup::ALL, name).ok_or_else(|| {
            let known: Vec<&str> = ProfileGroup::ALL.iter().map(|(name, _)| *name).collect();
            let error = Error::misuse(format!("samples cannot be grouped by `{name}`, in --by"));
            error.with_help(format!("groups are {}", known.join(", ")))
        })?;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Ok(groups)
}

impl OpenSamples {
    /// The samples that are wanted, added up. `None` when `--strict` stops at an error.
    pub(super) fn profile(
        &mut self,
        args: &CallArgs,
        samples: &SampleArgs,
        by: Option<&str>,
    ) -> Result<Option<Profile>, Error> {
        warn_of_unused(args, &self.reporter);
        let query = ProfileQuery {
            events: samples.event.iter().flat_map(|name| patterns_of(name)).collect(),
            tids: args.choice.tid.clone(),
            by: groups(by)?,
            counts_samples: samples.weight == WeightArg::Count,
            cpu: match samples.cpu {
                CpuArg::On => CpuTime::On,
                CpuArg::Off => CpuTime::Off,
                CpuArg::Both => CpuTime::Both,
            },
            has_wakers: samples.wakers,
        };
        if samples.wakers && samples.cpu != CpuArg::Off {
            let error = Error::misuse("--wakers is about time without a CPU");
            return Err(error.with_help("add --cpu off"));
        }
        let session = &*self.session;
        let streams = selection::streams(session, &[])?;
        let mut selection = Selection { jobs: jobs(args.jobs), ..Selection::default() };
        let range = args.choice.time_range.as_deref().map(calls::time_range).transpose()?.unwrap_or_default();
        (selection.begin_ns, selection.end_ns) = bounds(&range, || ends_of(session, &streams, (true, false)).0);
        let symbols = Symbols::new(&samples.symbols, args.demangle.form(), session);
        let mut wall = WallClock::new(TimeStyle { date: true, ..TimeStyle::default() });
        let mut stopped = false;
        let reporter = &mut self.reporter;
        let note = |note| {
            let flow = report_note(note, reporter, &mut wall, session, &streams);
            stopped |= flow.is_break();
            flow
        };
        let source = ProfileSource {
            session,
            streams: &streams,
            selection: &selection,
            filter: None,
            is_wanted: None,
            symbolizer: symbols.symbolizer(),
            is_over: &|| false,
        };
        let profile = Profile::collect(&source, &query, note);
        if stopped {
            return Ok(None);
        }
        let is_time = profile.unit == WeightUnit::Ns || profile.total().1 == 0;
        if query.cpu == CpuTime::Both && !is_time {
            let error = Error::misuse("--cpu both adds times, and these samples count other things");
            let events = profile.events.join(", ");
            return Err(error.with_help(format!("choose a clock with --event cpu-clock; the events are {events}")));
        }
        if profile.total().1 == 0 {
            self.explain_empty(&query);
        } else if query.has_wakers && !SampleReader::new(&self.session, None).has_wakes() {
            self.reporter.warning(&"no event says which threads are woken: record sched_waking");
        }
        symbols.warn(&profile, &self.reporter);
        session.code_warnings().iter().for_each(|warning| self.reporter.warning(warning));
        let depth = args.choice.depth.and_then(|depth| usize::try_from(depth).ok());
        let mut warnings = Vec::new();
        let profile = profile.selected(&args.rules.0, depth, &mut warnings);
        warnings.iter().for_each(|warning| self.reporter.warning(warning));
        Ok(Some(profile))
    }

    /// Says why no sample was selected.
    fn explain_empty(&self, query: &ProfileQuery) {
        let reader = SampleReader::new(&self.session, None);
        let all = sample_events(&self.session, &reader, &ProfileQuery::default());
        let wanted = sample_events(&self.session, &reader, query);
        if wanted.is_empty() && !query.events.is_empty() {
            let message = format!("no event with samples has this name; events with samples are {}", all.join(", "));
            return self.reporter.warning(&message);
        }
        if query.cpu == CpuTime::Off && !reader.has_turns() {
            let message =
                "no event says when threads leave their CPUs: record sched:sched_switch, or with --switch-events";
            return self.reporter.warning(&message);
        }
        self.reporter.warning(&"no sample is selected");
    }

    /// The outcome of the command.
    pub(super) fn finish(self) -> Outcome {
        self.reporter.outcome()
    }
}

/// The patterns of an event: traces have tracepoints without the system that perf puts before them.
fn patterns_of(name: &str) -> impl Iterator<Item = Pattern> {
    let short = name.split_once(':').map(|(_, name)| name);
    [Some(name), short].into_iter().flatten().map(Pattern::glob)
}

/// The first and last wanted time in ns. `first` finds the time of the first event.
fn bounds(range: &TimeRange, first: impl FnOnce() -> Option<i128>) -> (Option<i128>, Option<i128>) {
    let base = if range.is_elapsed() { first().unwrap_or(0) } else { 0 };
    let end = |ns: u64, is_elapsed: bool| (ns > 0).then(|| i128::from(ns) + if is_elapsed { base } else { 0 });
    (end(range.start, range.is_start_elapsed), end(range.stop, range.is_stop_elapsed))
}

/// Warns of options that mean something for calls only.
fn warn_of_unused(args: &CallArgs, reporter: &Reporter) {
    let choice = &args.choice;
    let rules = &args.rules.0;
    let typed = [
        ("--time-filter", choice.time_filter.is_some()),
        ("--no-libcall", choice.no_libcall),
        ("--disable", choice.disable),
        ("--trigger", !rules.triggers.is_empty()),
        ("--size-filter", rules.size > 0),
        ("--loc-filter", !rules.locations.is_empty()),
        ("--kernel-only", args.kernel_only),
    ];
    for (option, _) in typed.iter().filter(|(_, is_typed)| *is_typed) {
        reporter.warning(&format!("{option} has no effect on samples"));
    }
}

/// Symbols of the programs of a recording, where this program can read them.
pub(super) struct Symbols {
    #[cfg(feature = "debug-info")]
    files: tracemill_debug_info::SymbolFiles,
}

impl Symbols {
    /// Symbols as the options of a command ask for them.
    #[cfg(feature = "debug-info")]
    pub(super) fn new(options: &SymbolArgs, demangle: Demangle, session: &Session) -> Symbols {
        let search = tracemill_debug_info::SymbolSearch {
            dir: options.dir.clone(),
            target_prefix: options.target_prefix.clone(),
            kallsyms: options.kallsyms.clone(),
            demangle,
            skips_inlined: options.no_inline,
            ..tracemill_debug_info::SymbolSearch::for_session(session)
        };
        Symbols { files: tracemill_debug_info::SymbolFiles::new(search) }
    }

    #[cfg(not(feature = "debug-info"))]
    pub(super) fn new(_: &SymbolArgs, _: Demangle, _: &Session) -> Symbols {
        Symbols {}
    }
}

#[cfg(feature = "debug-info")]
impl Symbols {
    pub(super) fn symbolizer(&self) -> Option<&dyn Symbolizer> {
        Some(&self.files)
    }

    /// To be kept as long as queries are asked.
    #[cfg(any(feature = "sql", feature = "viewer"))]
    pub(super) fn into_symbolizer(self) -> Option<Arc<dyn Symbolizer>> {
        Some(Arc::new(self.files))
    }

    /// Says which functions have no names, and why.
    fn warn(&self, profile: &Profile, reporter: &Reporter) {
        /// Modules that are named in a warning.
        const LISTED: usize = 3;
        let missing = self.files.missing();
        if missing.is_empty() || profile.unnamed == 0 {
            return;
        }
        let mut reasons: Vec<String> =
            missing.iter().take(LISTED).map(|(module, reason)| format!("{module} ({reason})")).collect();
        if missing.len() > LISTED {
            reasons.push(format!("{} more", missing.len() - LISTED));
        }
        reporter.warning(&format!(
            "{} in functions without names; no symbols of {}",
            counted(profile.unnamed, "sample"),
            reasons.join("; ")
        ));
    }
}

#[cfg(not(feature = "debug-info"))]
impl Symbols {
    pub(super) fn symbolizer(&self) -> Option<&dyn Symbolizer> {
        None
    }

    #[cfg(any(feature = "sql", feature = "viewer"))]
    pub(super) fn into_symbolizer(self) -> Option<Arc<dyn Symbolizer>> {
        None
    }

    fn warn(&self, profile: &Profile, reporter: &Reporter) {
        if profile.unnamed > 0 {
            let count = counted(profile.unnamed, "sample");
            reporter.warning(&format!("{count} in functions without names: this program was built without debug-info"));
        }
    }
}
