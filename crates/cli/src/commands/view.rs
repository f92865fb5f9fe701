//! `tracemill view`: traces in the browser.

#[cfg(feature = "viewer")]
pub(super) use shown::{ShownOptions, check_states, growing_input, input};
#[cfg(feature = "viewer")]
pub(crate) use shown::{hand_to_perfetto, index_cache, run};

#[cfg(not(feature = "viewer"))]
use tracemill_model::error::Error;

#[cfg(not(feature = "viewer"))]
use crate::args::ViewOptions;
#[cfg(not(feature = "viewer"))]
use crate::report::Outcome;

/// Says how to get a program that can do this.
#[cfg(not(feature = "viewer"))]
pub(crate) fn run(_: &ViewOptions) -> Result<Outcome, Error> {
    Err(super::built_without("the viewer", "viewer"))
}

/// Says how to get a program that can do this.
#[cfg(not(feature = "viewer"))]
pub(crate) fn hand_to_perfetto(_: &std::path::Path) -> Result<(), Error> {
    Err(super::built_without("the server of the viewer", "viewer"))
}

#[cfg(feature = "viewer")]
mod shown {
    use std::io::Write as _;
    use std::ops::ControlFlow;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use tracemill_analyses::kernel::{CustomDefinitions, CustomKind};
    use tracemill_answers::index_cache::{self, IndexCache};
    use tracemill_answers::{AnswerInput, Cutter, Querier, Reopener, ShownCustom, ShownTraces, can_grow};
    use tracemill_engine::convert::{ConvertOptions, convert};
    use tracemill_engine::filter::Expression;
    use tracemill_engine::output::Pending;
    use tracemill_engine::parsed_query;
    use tracemill_engine::request::OpenedTraces;
    use tracemill_engine::samples::Symbolizer;
    use tracemill_engine::selection::SelectedStream;
    use tracemill_engine::session::{ClockMove, Session};
    use tracemill_engine::timeline::Selection;
    use tracemill_format::target::Target;
    use tracemill_format::{Demangle, Settings as FormatOptions};
    use tracemill_live::follow::FOLLOWED;
    use tracemill_model::error::{Error, ErrorKind};
    use tracemill_server::{HandOver, ServerSettings, TspSettings, listen, listen_tsp};

    use super::super::request::{RedactionOptions, RequestOptions};
    use super::super::samples::Symbols;
    use super::super::{custom_states, no_events};
    use crate::args::{CacheOptions, EventOptions, InputOptions, MessageOptions, SymbolArgs, ViewOptions};
    use crate::report::{Outcome, Reporter, shell_quoted};

    /// The options of a command that shows traces which say what is shown.
    #[derive(Clone, Copy)]
    pub(in super::super) struct ShownOptions<'a> {
        pub(in super::super) input: &'a InputOptions,
        pub(in super::super) events: &'a EventOptions,
        pub(in super::super) symbols: &'a SymbolArgs,
        /// Are times without a zone universal time?
        pub(in super::super) gmt: bool,
        /// The file that defines states.
        pub(in super::super) states: Option<&'a Path>,
    }

    /// Opens traces for a viewer. `None` when there is none; that was reported.
    pub(in super::super) fn input(
        options: ShownOptions<'_>,
        redaction: RedactionOptions<'_>,
    ) -> Result<Option<(AnswerInput, Reporter)>, Error> {
        opened(&Opening { options, clock_moves: &[], redaction, follows: false })
    }

    /// Opens traces that still grow.
    pub(in super::super) fn growing_input(options: ShownOptions<'_>) -> Result<(AnswerInput, Reporter), Error> {
        let opening = Opening { options, clock_moves: &[], redaction: RedactionOptions::default(), follows: true };
        opened(&opening)?.ok_or_else(|| {
            let path = options.input.traces.first().cloned().unwrap_or_default();
            let error =
                Error::new(ErrorKind::NotThisFormat, "there is no trace yet that can be followed").in_file(&path);
            error.with_help(format!("--follow reads {}", FOLLOWED.join(", ")))
        })
    }

    /// The traces to open, and how.
    #[derive(Clone, Copy)]
    struct Opening<'o> {
        options: ShownOptions<'o>,
        /// Clocks that were moved while the traces are shown.
        clock_moves: &'o [ClockMove],
        /// Fields that are hidden.
        redaction: RedactionOptions<'o>,
        /// Do the traces still grow?
        follows: bool,
    }

    /// Traces that cannot be extended when they grow are refused: to read them anew each time would not be following them.
    fn check_growth(traces: &ShownTraces) -> Result<(), Error> {
        let of_other = traces.session.traces.iter().find(|trace| !FOLLOWED.contains(&trace.schema.format));
        if let Some(trace) = of_other {
            let error =
                Error::unsupported(format!("`{}` cannot be followed", trace.schema.format)).in_file(&trace.path);
            return Err(error.with_help(format!("--follow reads {}", FOLLOWED.join(", "))));
        }
        if can_grow(&traces.source()) {
            return Ok(());
        }
        let error = Error::unsupported("traces without clocks, or with tracks in their events, cannot be followed");
        Err(error.with_help("leave --follow out: what was written later is read when the files change"))
    }

    fn opened(opening: &Opening<'_>) -> Result<Option<(AnswerInput, Reporter)>, Error> {
        let Opening { options: ShownOptions { input, events, symbols, gmt, states }, clock_moves, redaction, follows } =
            *opening;
        let now = SystemTime::now();
        let request = RequestOptions::events(input, events, gmt);
        let is_unfinished = follows;
        let request = RequestOptions { redaction, aligns_begins: true, clock_moves, is_unfinished, ..request };
        let Some((opened, reporter)) = request.open()? else { return Ok(None) };
        let OpenedTraces { session, .. } = &opened;
        let of_opening = session.traces.iter().flat_map(|trace| &trace.faults).chain(&session.failures).cloned();
        let warnings = session.traces.iter().flat_map(|trace| &trace.warnings).chain(&session.warnings);
        let mut problems: (_, Vec<String>) =
            (of_opening.collect(), warnings.map(|warning| warning.message().to_string()).collect());
        for sentence in no_events::certain_sentences(&opened) {
            reporter.warning(&sentence);
            problems.1.push(sentence);
        }
        if opened.selection.redactions.is_some() {
            problems.1.push("calls and states are left out: they would show fields that are hidden".to_string());
        }
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let OpenedTraces { session, streams, selection, filter, query } = opened;
        let mut traces = ShownTraces::new(session, streams, selection, filter);
        traces.custom = states.map(|file| custom(file, &traces.session, gmt, &reporter)).transpose()?;
        if follows {
            check_growth(&traces)?;
        }
        let parts = (traces.session.clone(), traces.streams.clone(), traces.selection.clone());
        let cut = tracemill_formats::USUAL.map(|target| cutter(target, parts, events.filter.clone(), gmt));
        let symbolizer = Symbols::new(symbols, Demangle::default(), &traces.session).into_symbolizer();
        let query = querier(&traces, query.jobs, symbolizer.clone());
        let shown = AnswerInput {
            traces,
            query,
            problems,
            program: concat!("tracemill ", env!("CARGO_PKG_VERSION")).to_string(),
            command: words.map(|word| shell_quoted(&word)).collect::<Vec<_>>().join(" "),
            cut,
            symbolizer,
            reopen: reopener(opening),
            follows,
            opened: now,
            cache: None,
        };
        Ok(Some((shown, reporter)))
    }

    /// Reads a file that defines states. Mistakes in it are reported now, and not when the states are followed.
    fn custom(file: &Path, session: &Session, gmt: bool, reporter: &Reporter) -> Result<Arc<ShownCustom>, Error> {
        let custom = defined(file, gmt)?;
        custom_states::bind(&custom.definitions, session, gmt, reporter)?;
        Ok(custom)
    }

    /// Checks that the user's file defines states, where counters are not shown.
    pub(in super::super) fn check_states(input: &AnswerInput, file: Option<&Path>) -> Result<(), Error> {
        match (&input.traces.custom, file) {
            (Some(custom), Some(file)) => custom.definitions.check_has(file, CustomKind::States),
            _ => Ok(()),
        }
    }

    /// Reads a file that defines states of traces that are opened later.
    fn defined(file: &Path, gmt: bool) -> Result<Arc<ShownCustom>, Error> {
        Ok(Arc::new(ShownCustom { definitions: Arc::new(CustomDefinitions::open(file)?), gmt }))
    }

    /// Answers queries about what is shown, where SQL is built in: they may read these traces, and nothing else.
    #[cfg(feature = "sql")]
    fn querier(traces: &ShownTraces, jobs: usize, symbolizer: Option<Arc<dyn Symbolizer>>) -> Option<Querier> {
        use std::sync::OnceLock;

        use tracemill_answers::{MOST, QueryColumn, QueryRows, Refused};
        use tracemill_sql::database::Database;
        use tracemill_sql::query::{MemoryLimits, Queries};

        // A server has little memory for them; what does not fit is written to a temporary file.
        const LIMITS: MemoryLimits = MemoryLimits { memory_bytes: 96 << 20, spills: true };
        let traces = traces.clone();
        let queries: OnceLock<Result<Queries, Error>> = OnceLock::new();
        let refused = |error: &Error| Refused {
            message: error.message().lines().next().unwrap_or_default().to_string(),
            help: error.help().map(str::to_string),
            span: None,
        };
        Some(Box::new(move |text, is_over| {
            let make = || {
                let ShownTraces { session, selection, filter, streams, .. } = &traces;
                let mut database =
                    Database::from_streams(session.clone(), streams.clone(), selection.clone(), filter.clone(), jobs);
                database.read_only();
                symbolizer.iter().for_each(|symbols| database.name_functions_by(symbols.clone()));
                if let Some(custom) = &traces.custom {
                    database.define_states(custom.definitions.clone(), custom.gmt)?;
                }
                Queries::new(database, LIMITS)
            };
            let queries = queries.get_or_init(make).as_ref().map_err(refused)?;
            // Queries number all events of the traces, also when only some are shown: then their numbers are not the page's.
            let ShownTraces { session, selection, filter, streams, .. } = &traces;
            let count: usize = session.traces.iter().map(|trace| trace.streams.len()).sum();
            let is_narrowed = selection.begin_ns.is_some()
                || selection.end_ns.is_some()
                || filter.is_some()
                || selection.classes.iter().any(Option::is_some)
                || streams.len() < count;
            let kind = |column: &tracemill_sql::page::PageColumn| {
                if is_narrowed && column.name == "event" { "other" } else { column.kind }
            };
            let page = queries.page(text, MOST, is_over).map_err(|explained| {
                let span = explained.place.map(|(line, column)| {
                    let before = text.lines().take(line as usize - 1).map(|line| line.chars().count() + 1);
                    let begin = before.sum::<usize>() + column as usize - 1;
                    let word = text.chars().skip(begin).take_while(|sign| sign.is_alphanumeric() || *sign == '_');
                    (begin, begin + word.count().max(1))
                });
                Refused { help: explained.help.clone(), span, ..refused(&explained.error) }
            })?;
            Ok(page.map(|page| QueryRows {
                columns: page.columns.iter().map(|of| QueryColumn { name: of.name.clone(), kind: kind(of) }).collect(),
                rows: page.rows,
                is_cut: page.is_cut,
            }))
        }))
    }

    #[cfg(not(feature = "sql"))]
    fn querier(_: &ShownTraces, _: usize, _: Option<Arc<dyn Symbolizer>>) -> Option<Querier> {
        None
    }

    /// Opens the same traces again, and says nothing that was said. What came through a pipe is not there any more.
    fn reopener(&Opening { options, follows, .. }: &Opening<'_>) -> Option<Reopener> {
        let gmt = options.gmt;
        let is_pipe = options.input.traces.iter().any(|path| path.as_os_str() == "-");
        let mut input = options.input.clone();
        (input.messages.quiet, input.messages.verbose) = (true, false);
        let (events, symbols) = (options.events.clone(), options.symbols.clone());
        let states = options.states.map(Path::to_path_buf);
        let reopen = move |clock_moves: &[ClockMove]| {
            let states = states.as_deref();
            let options = ShownOptions { input: &input, events: &events, symbols: &symbols, gmt, states };
            let opening = Opening { options, clock_moves, redaction: RedactionOptions::default(), follows };
            let (input, _) = opened(&opening)?.ok_or_else(|| Error::misuse("the traces cannot be opened any more"))?;
            Ok(input)
        };
        (!is_pipe).then(|| Arc::new(reopen) as Reopener)
    }

    /// Writes parts of what is shown.
    fn cutter(
        target: &'static Target,
        (session, streams, shown): (Arc<Session>, Vec<SelectedStream>, Selection),
        filter: Option<String>,
        gmt: bool,
    ) -> Cutter {
        Box::new(move |cut, path| {
            // The filter of the command line and that of the page.
            let filter = match (&filter, &cut.filter) {
                (Some(shown), Some(own)) => Some(format!("({shown}) and ({own})")),
                (shown, own) => shown.clone().or_else(|| own.clone()),
            };
            let bound = filter.map(|text| {
                let expression = Expression::parse(&text)?;
                expression.bind(&session, &parsed_query::times(&session, gmt, expression.needs()))
            });
            let selection = Selection {
                begin_ns: shown.begin_ns.max(cut.begin),
                end_ns: shown.end_ns.into_iter().chain(cut.end).min(),
                ..shown.clone()
            };
            let wanted = match &cut.streams {
                Some(list) => list.iter().map(|at| streams[*at].clone()).collect(),
                None => streams.clone(),
            };
            let (filter, stop) = (bound.transpose()?, Some(&*cut.stop));
            let options = ConvertOptions { selection, filter, stop, ..ConvertOptions::default() };
            let mut pending = Pending::new(path)?;
            // Damage is reported by `problems`.
            let written =
                convert(&session, &wanted, target, &mut pending, &options, &mut |_| ControlFlow::Continue(()))?;
            if written.is_stopped {
                return Err(Error::new(ErrorKind::Io, "the viewer has stopped waiting for this trace"));
            }
            pending.commit()
        })
    }

    /// Where the index of traces is kept. It is that of all events with their own times: `None` when options leave some out or
    /// change how they are read, and for what comes through a pipe.
    pub(crate) fn index_cache(
        input: &InputOptions,
        events: &EventOptions,
        options: &CacheOptions,
        opened: SystemTime,
    ) -> Option<IndexCache> {
        // Without `..`, so that a new option must say here whether it changes what is shown.
        let InputOptions {
            traces,
            input_format,
            clock_offset,
            clock_offset_ns,
            correlate,
            correlate_by,
            jobs: _,
            memory: _,
            max_unpacked,
            progress: _,
            messages: MessageOptions { quiet: _, verbose: _, strict },
            formats,
        } = input;
        let EventOptions { begin, end, filter, stream } = events;
        let is_pipe = traces.iter().any(|path| path.as_os_str() == "-");
        let moves =
            !clock_offset.is_empty() || !clock_offset_ns.is_empty() || correlate.is_some() || correlate_by.is_some();
        let reads = input_format.is_some() || max_unpacked.is_some() || *strict || formats.0 != FormatOptions::new();
        let narrows = begin.is_some() || end.is_some() || filter.is_some() || !stream.is_empty();
        if is_pipe || moves || reads || narrows || options.no_cache {
            return None;
        }
        let folder = options.cache_dir.clone().or_else(index_cache::usual_folder)?;
        Some(IndexCache::new(folder, traces.clone(), opened))
    }

    /// Serves a page about traces until it is asked to end.
    pub(crate) fn run(options: &ViewOptions) -> Result<Outcome, Error> {
        if let Some(port) = options.tsp {
            return serve_front_ends(options, port);
        }
        let ViewOptions { input: of_input, events, symbols, .. } = options;
        let states = options.states.as_deref();
        let shown = ShownOptions { input: of_input, events, symbols, gmt: false, states };
        let (input, reporter) = if options.follow {
            growing_input(shown)?
        } else {
            let Some((mut input, reporter)) = input(shown, RedactionOptions::default())? else {
                return Ok(Outcome::Nothing);
            };
            input.cache = index_cache(&options.input, &options.events, &options.cache, input.opened);
            (input, reporter)
        };
        let settings = ServerSettings {
            address: options.listen,
            port: options.port,
            hosts: options.allow_host.clone(),
            idle_exit: options.idle_exit.map(Duration::from_nanos),
        };
        let server = listen(input, &settings)?;
        if !options.listen.is_loopback() {
            reporter.warning(
                &"the connection is not encrypted; `ssh -L PORT:127.0.0.1:PORT HOST` reaches a server that listens on \
                  its own machine only",
            );
        }
        print_address(&server.url())?;
        if !options.no_open
            && let Some(url) = server.url_with_ticket()
        {
            show(&url);
        }
        server.run()?;
        Ok(Outcome::Done)
    }

    /// Serves clients of the Trace Server Protocol until it is asked to end. They say which traces they open.
    fn serve_front_ends(options: &ViewOptions, port: u16) -> Result<Outcome, Error> {
        let settings = TspSettings {
            address: options.listen,
            port,
            hosts: options.allow_host.clone(),
            origins: options.tsp_allow.clone(),
            roots: options.input.traces.clone(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let (mut input, events, cache) = (options.input.clone(), options.events.clone(), options.cache.clone());
        let symbols = options.symbols.clone();
        let custom = options.states.as_deref().map(|file| defined(file, false)).transpose()?;
        // Clients are told what goes wrong.
        (input.messages.quiet, input.messages.verbose) = (true, false);
        let open = move |paths: &[PathBuf]| {
            let input = InputOptions { traces: paths.to_vec(), ..input.clone() };
            let shown = ShownOptions { input: &input, events: &events, symbols: &symbols, gmt: false, states: None };
            let opened = self::input(shown, RedactionOptions::default())?;
            Ok(opened.map(|(mut own, _)| {
                own.cache = index_cache(&input, &events, &cache, own.opened);
                // Traces that have none of its events are shown without states of the user.
                own.traces.custom.clone_from(&custom);
                own
            }))
        };
        let server = listen_tsp(Box::new(open), settings)?;
        print_address(&server.url())?;
        server.run()?;
        Ok(Outcome::Done)
    }

    /// Opens a file in the page of Perfetto, and waits until that page has fetched it.
    pub(crate) fn hand_to_perfetto(path: &Path) -> Result<(), Error> {
        let server = HandOver::new(path)?;
        print_address(&server.url())?;
        show(&server.url());
        server.run()
    }

    fn print_address(url: &str) -> Result<(), Error> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{url}").and_then(|()| out.flush()).map_err(|error| {
            Error::new(tracemill_model::error::ErrorKind::Io, format!("cannot print the address: {error}"))
        })
    }

    /// Opens the address in the browser of the user, when there is a display. What goes wrong there is no error: the
    /// address was printed.
    fn show(url: &str) {
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let has_display = cfg!(target_os = "macos")
            || ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(|name| std::env::var_os(name).is_some());
        if has_display {
            let mut command = Command::new(opener);
            let command = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if let Ok(mut child) = command.spawn() {
                std::thread::spawn(move || drop(child.wait()));
            }
        }
    }
}
