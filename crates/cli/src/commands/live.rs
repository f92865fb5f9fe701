//! Live sessions of relay daemons as inputs of commands.

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use tracemill_codec::text::out::Out;
use tracemill_engine::growth::GrowingSource;
use tracemill_engine::output::{Pending, is_flow};
use tracemill_live::client::LiveClient;
use tracemill_live::follow::{FollowOptions, FollowSource};
use tracemill_live::keep::keep;
use tracemill_live::protocol::LiveSession;
use tracemill_live::source::{LiveSource, Patience};
use tracemill_live::streams::{StreamOptions, StreamSource};
use tracemill_live::viewer::ViewerOptions;
use tracemill_live::{LiveUrl, is_live};
use tracemill_model::error::{Error, ErrorKind};
use tracemill_table::{Align, Layout, LayoutColumn};

use crate::args::{InputOptions, LiveOptions};
use crate::interrupt;
use crate::report::{self, Outcome, OutputSink, Reporter, printable};

/// How long a reply may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Live timers that a stream is waited for of which nothing is known.
const PATIENCE: u32 = 10;
/// How often an interrupt is looked for while nothing comes.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// Name of the folder of streams in messages.
const STREAMS: &str = "stream";
/// Bytes of packets that may be held.
const MEMORY: usize = 64 << 20;

/// Is one of the inputs a live session?
pub(super) fn is_asked(input: &InputOptions) -> bool {
    input.traces.iter().any(|path| is_live(path))
}

/// The address of the live session that the inputs name: the only one of them.
pub(super) fn url(input: &InputOptions) -> Result<LiveUrl, Error> {
    let [path] = &input.traces[..] else {
        let error = Error::misuse("a live session is read alone, not together with other traces");
        return Err(
            error.with_help("give one address, or keep the session with `convert` and read all traces afterwards")
        );
    };
    LiveUrl::parse(&text(path))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Connects to the session that the options name.
pub(super) fn open(input: &InputOptions, options: &LiveOptions) -> Result<LiveSource, Error> {
    let url = url(input)?;
    if url.session.is_none() {
        let error = Error::misuse(format!("`{url}` names no session"));
        return Err(error.with_help(format!("`tracemill info {url}` lists the sessions of the relay daemon")));
    }
    let patience = options.patience.map_or(Patience::Timers(PATIENCE), Patience::Time);
    let options = ViewerOptions {
        url,
        from_beginning: options.from_beginning,
        waits: !options.no_wait,
        reconnects: options.reconnect,
        timeout: options.timeout.unwrap_or(TIMEOUT),
        metadata_wait: ViewerOptions::METADATA_WAIT,
        memory: input.memory.unwrap_or(MEMORY),
    };
    LiveSource::open(options, patience)
}

/// How long a file that does not grow holds the others up.
const FILE_PATIENCE: Duration = Duration::from_secs(2);

/// Follows the files and folders that the options name.
pub(super) fn follow(input: &InputOptions, options: &LiveOptions) -> Result<FollowSource, Error> {
    FollowSource::open(FollowOptions {
        inputs: input.traces.clone(),
        patience: options.patience.unwrap_or(FILE_PATIENCE),
        until_idle: options.until_idle,
        pid: options.while_pid,
    })
}

/// Reads the streams that the options name into a folder, which is called `name` in messages. `None` without --metadata.
fn streams(
    input: &InputOptions,
    options: &LiveOptions,
    folder: &Path,
    reporter: &Reporter,
) -> Result<Option<StreamSource>, Error> {
    let Some(metadata) = &options.metadata else { return Ok(None) };
    let source = StreamSource::open(StreamOptions {
        metadata: metadata.clone(),
        inputs: input.traces.clone(),
        listen: options.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        folder: folder.to_path_buf(),
        patience: options.patience.unwrap_or(FILE_PATIENCE),
        until_idle: options.until_idle,
        files_grow: options.follow,
    })?;
    report::show_as(folder, STREAMS);
    for address in source.ports() {
        reporter.note(&format!("listening on {address}: an interrupt (Ctrl-C) ends it"));
    }
    Ok(Some(source))
}

/// Streams that the options name, and the folder into which they are read, which is removed with it.
pub(super) fn open_streams(
    input: &InputOptions,
    options: &LiveOptions,
    output: Option<&Path>,
    reporter: &Reporter,
) -> Result<Option<(StreamSource, KeptInput)>, Error> {
    if options.metadata.is_none() {
        return Ok(None);
    }
    let folder = interrupt::begin(&near(output))?;
    let traces = folder.path().join(STREAMS);
    let Some(source) = streams(input, options, &traces, reporter)? else { return Ok(None) };
    let input = InputOptions { traces: vec![traces], ..input.clone() };
    Ok(Some((source, KeptInput { input, _folder: Some(folder) })))
}

/// Where a folder may be that can get large: next to the output is room for it, as a rule.
fn near(output: Option<&Path>) -> PathBuf {
    let near = output.filter(|path| !is_flow(path)).and_then(|path| Some((path, path.file_name()?.to_string_lossy())));
    near.map_or(PathBuf::from("-"), |(path, name)| path.with_file_name(format!(".{name}.live")))
}

/// Waits until files and folders grow no more. `meanwhile` is called between looks at them.
fn wait_for_end(
    source: &mut dyn GrowingSource,
    input: &InputOptions,
    options: &LiveOptions,
    reporter: &mut Reporter,
    meanwhile: &mut dyn FnMut(&InputOptions) -> Result<(), Error>,
) -> Result<(), Error> {
    let until = options.for_duration.map(|time| Instant::now() + time);
    interrupt::ends_growing();
    loop {
        let is_over = until.is_some_and(|until| until <= Instant::now());
        if is_over || interrupt::has_ended_growing() {
            source.leave();
        }
        let is_last = source.next_round(TICK)?.is_some_and(|round| round.is_last);
        let (faults, warnings) = source.take_faults();
        warnings.iter().for_each(|warning| reporter.warning(warning));
        if is_last || faults.iter().filter(|fault| reporter.fault(fault)).count() > 0 {
            break;
        }
        meanwhile(input)?;
    }
    interrupt::grows_no_more();
    report::keep_faults(reporter);
    Ok(())
}

/// Tables of what is there so far, every so often.
pub(super) struct RepeatedTables {
    every: Option<Duration>,
    last: Instant,
}

impl RepeatedTables {
    pub(super) fn new(every: Option<Duration>) -> Self {
        RepeatedTables { every, last: Instant::now() }
    }

    /// Is it time for one? Then a terminal is emptied for it.
    pub(super) fn begin(&mut self) -> Result<bool, Error> {
        if self.every.is_none_or(|every| self.last.elapsed() < every) {
            return Ok(false);
        }
        if std::io::stdout().is_terminal() {
            // To the top of an empty screen.
            OutputSink::stdout().print(b"\x1b[H\x1b[2J", Outcome::Done)?;
        }
        Ok(true)
    }

    /// The input of a table: losses are reported with the last one, not with each.
    pub(super) fn quiet(input: &InputOptions) -> InputOptions {
        let mut input = input.clone();
        input.messages.quiet = true;
        input
    }

    /// The table is there. Events and fields that are asked for may still come.
    pub(super) fn end(&mut self, table: Result<Outcome, Error>) -> Result<(), Error> {
        self.last = Instant::now();
        match table {
            Err(error) if matches!(error.kind(), ErrorKind::Misuse | ErrorKind::Unsupported) => Ok(()),
            shown => shown.map(|_| ()),
        }
    }
}

/// Inputs of a command that needs all of a trace: of a live session, a folder that holds it.
pub(super) struct KeptInput {
    pub(super) input: InputOptions,
    /// Removes the folder.
    _folder: Option<Pending>,
}

impl KeptInput {
    /// The inputs themselves, or a live session, which is read to its end. `output` is the file or folder near which a large
    /// folder may be. `None` when nothing was read, which is reported.
    pub(super) fn new(
        input: &InputOptions,
        options: &LiveOptions,
        output: Option<&Path>,
    ) -> Result<Option<KeptInput>, Error> {
        KeptInput::with_reports(input, options, output, &mut |_| Ok(()))
    }

    /// The inputs themselves, or what a live session has recorded until now. `None` when that is nothing, which is reported.
    #[cfg(feature = "sql")]
    pub(super) fn so_far(input: &InputOptions) -> Result<Option<KeptInput>, Error> {
        if !is_asked(input) {
            return Ok(Some(KeptInput { input: input.clone(), _folder: None }));
        }
        let options = LiveOptions { from_beginning: true, no_wait: true, ..LiveOptions::default() };
        let mut reporter = Reporter::new(input.messages);
        KeptInput::of_session(input, &options, None, &mut reporter, &mut |source, _| !source.is_caught_up())
    }

    /// As [`KeptInput::new`]; `meanwhile` is called every now and then with what is there so far.
    pub(super) fn with_reports(
        input: &InputOptions,
        options: &LiveOptions,
        output: Option<&Path>,
        meanwhile: &mut dyn FnMut(&InputOptions) -> Result<(), Error>,
    ) -> Result<Option<KeptInput>, Error> {
        let mut reporter = Reporter::new(input.messages);
        if let Some((mut source, kept)) = open_streams(input, options, output, &reporter)? {
            wait_for_end(&mut source, &kept.input, options, &mut reporter, meanwhile)?;
            return Ok(Some(kept));
        }
        if options.follow && !is_asked(input) {
            wait_for_end(&mut follow(input, options)?, input, options, &mut reporter, meanwhile)?;
        }
        if !is_asked(input) {
            return Ok(Some(KeptInput { input: input.clone(), _folder: None }));
        }
        let mut failed = None;
        let until = options.for_duration.map(|time| Instant::now() + time);
        let kept = KeptInput::of_session(input, options, output, &mut reporter, &mut |_, so_far| {
            failed = failed.take().or(meanwhile(so_far).err());
            failed.is_none() && until.is_none_or(|until| Instant::now() < until)
        });
        failed.map_or(kept, Err)
    }

    /// A live session, read into a folder until it ends or `goes_on` says no.
    fn of_session(
        input: &InputOptions,
        options: &LiveOptions,
        output: Option<&Path>,
        reporter: &mut Reporter,
        goes_on: &mut dyn FnMut(&LiveSource, &InputOptions) -> bool,
    ) -> Result<Option<KeptInput>, Error> {
        let mut source = open(input, options)?;
        let address = url(input)?.to_string();
        let folder = interrupt::begin(&near(output))?;
        // The folder itself is called unfinished, and is never opened.
        let traces = folder.path().join("session");
        report::show_as(&traces, &address);
        interrupt::ends_growing();
        let mut report = |source: &mut LiveSource| {
            let (faults, warnings) = source.take_faults();
            warnings.iter().for_each(|warning| reporter.warning(warning));
            faults.iter().filter(|fault| reporter.fault(fault)).count() > 0
        };
        let so_far = InputOptions { traces: vec![traces.clone()], ..input.clone() };
        let packets = keep(&mut source, &traces, |source| {
            let is_stopped = report(source);
            goes_on(source, &so_far) && !is_stopped && !interrupt::has_ended_growing()
        })?;
        interrupt::grows_no_more();
        report(&mut source);
        if packets == 0 {
            if matches!(reporter.outcome(), Outcome::Done) {
                reporter.fault(&Error::new(ErrorKind::Io, "the session gave no packets").in_file(Path::new(&address)));
            }
            return Ok(None);
        }
        report::keep_faults(reporter);
        let input = InputOptions { traces: vec![traces.clone()], ..input.clone() };
        Ok(Some(KeptInput { input, _folder: Some(folder) }))
    }
}

/// The sessions of the relay daemon that the inputs name, as text; `None` when they name something else.
pub(super) fn sessions(input: &InputOptions, options: &LiveOptions, as_json: bool) -> Result<Option<String>, Error> {
    if !is_asked(input) {
        return Ok(None);
    }
    let url = url(input)?;
    if url.session.is_some() {
        return Ok(None);
    }
    let mut client = LiveClient::connect(&url, options.timeout.unwrap_or(TIMEOUT))?;
    let sessions = client.sessions().map_err(|error| {
        Error::malformed(error.to_string()).in_file(Path::new(&url.to_string())).at_offset(error.offset)
    })?;
    Ok(Some(if as_json { sessions_as_json(&sessions, &url) } else { sessions_as_text(&sessions, &url) }))
}

fn format_of(session: &LiveSession) -> Option<&'static str> {
    session.format()
}

fn sessions_as_json(sessions: &[LiveSession], url: &LiveUrl) -> String {
    let one = |of: &LiveSession| {
        json!({
            "url": url.with_session(&of.host, &of.name).to_string(), "id": of.id, "host": of.host, "name": of.name,
            "live_timer_us": of.timer_us, "viewers": of.clients, "streams": of.streams, "format": format_of(of),
        })
    };
    format!("{}\n", json!({ "sessions": sessions.iter().map(one).collect::<Vec<_>>() }))
}

fn sessions_as_text(sessions: &[LiveSession], url: &LiveUrl) -> String {
    if sessions.is_empty() {
        return "the relay daemon has no sessions\n".into();
    }
    let head = ["host", "session", "timer ms", "viewers", "streams", "format", "address"].map(str::to_string);
    let row = |of: &LiveSession| {
        let timer = if of.timer_us == 0 { "not live".into() } else { format!("{}", f64::from(of.timer_us) / 1000.0) };
        let (host, name) = (printable(&of.host).into_owned(), printable(&of.name).into_owned());
        let address = printable(&url.with_session(&of.host, &of.name).to_string()).into_owned();
        let format = format_of(of).unwrap_or("?").to_string();
        [host, name, timer, of.clients.to_string(), of.streams.to_string(), format, address]
    };
    let rows: Vec<[String; 7]> = std::iter::once(head).chain(sessions.iter().map(row)).collect();
    let column = |at: usize| {
        let width = rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        LayoutColumn::new(
            if (2..5).contains(&at) { Align::Right } else { Align::Left },
            if at == 6 { 0 } else { width },
        )
    };
    let layout = Layout::new((0..7).map(column));
    let mut out = Out::default();
    rows.iter().for_each(|row| layout.put_line(&mut out, row));
    String::from_utf8_lossy(out.written()).into_owned()
}
