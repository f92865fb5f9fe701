//! A viewer of a live session: asks the relay daemon in turn for what is new, and hands it over.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tracemill_model::error::{Error, ErrorKind, Result};

use crate::client::{LiveClient, PIECE_BYTES, error_of};
use crate::feed::{Feed, FeedPacket};
use crate::protocol::{
    LiveIndex, LiveSession, LiveStream, MAX_METADATA, NEW_METADATA, NEW_STREAMS, ReplyError, ReplyFault, index, status,
};
use crate::url::LiveUrl;

/// How a session is viewed.
#[derive(Clone, Debug)]
pub struct ViewerOptions {
    /// The session.
    pub url: LiveUrl,
    /// Is it read from its beginning, not from now on?
    pub from_beginning: bool,
    /// Is a session waited for that is not there?
    pub waits: bool,
    /// Is a broken connection made again?
    pub reconnects: bool,
    /// How long a reply may take.
    pub timeout: Duration,
    /// How long the metadata of a trace may take to come.
    pub metadata_wait: Duration,
    /// Bytes of packets that may be held.
    pub memory: usize,
}

impl ViewerOptions {
    /// The usual `metadata_wait`.
    pub const METADATA_WAIT: Duration = Duration::from_secs(30);
}

/// How long empty pieces of metadata are asked for again, and how often.
const EMPTY_WAIT: Duration = Duration::from_secs(60);
const EMPTY_STEP: Duration = Duration::from_millis(100);
/// How often sessions are listed while one is waited for.
const LIST_STEP: Duration = Duration::from_millis(500);
/// How often a connection is tried again, and how many times.
const RECONNECT_STEP: Duration = Duration::from_secs(1);
const RECONNECTS: u32 = 60;
/// How often one packet is asked for again because something else had to come first.
const MAX_REPEATS: u32 = 8;

/// The minor version from which on a relay daemon gives all packets of a process that has ended.
const MINOR_OF_LAST_PACKETS: u32 = 14;
/// How long a session may take to close after its streams: longer than that, and it went on without them.
const CLOSING: Duration = Duration::from_secs(1);

/// Why viewing stops.
enum ViewerStop {
    /// The reader wants no more.
    Asked,
    /// The connection failed or is worthless.
    Reply(ReplyError),
    /// The session cannot be viewed any more.
    Fault(Error),
}

impl From<ReplyError> for ViewerStop {
    fn from(error: ReplyError) -> Self {
        ViewerStop::Reply(error)
    }
}

type Viewed<T> = std::result::Result<T, ViewerStop>;

struct AttachedSession {
    id: u64,
    is_closed: bool,
}

struct ViewedTrace {
    session: u64,
    path: String,
    /// The stream of the metadata; `None` before it is known.
    metadata: Option<u64>,
    received: u64,
    is_over: bool,
    since: Instant,
    next_ask: Instant,
}

struct ViewedStream {
    session: u64,
    trace: u64,
    path: String,
    channel: String,
    /// The index of a packet that is not here yet.
    held: Option<LiveIndex>,
    next_ask: Instant,
    is_over: bool,
    /// Since when has the relay daemon said so?
    ended: Option<Instant>,
    /// Was a time seen that goes back?
    went_back: bool,
    end: u64,
}

impl ViewedStream {
    /// Is it one of the buffers that a process has for itself?
    fn is_of_process(&self) -> bool {
        self.path.starts_with("ust/pid/")
    }
}

struct Viewer<'a> {
    client: LiveClient,
    feed: &'a Feed,
    options: &'a ViewerOptions,
    sessions: Vec<AttachedSession>,
    traces: BTreeMap<u64, ViewedTrace>,
    streams: BTreeMap<u64, ViewedStream>,
    /// How long an answer "later" is believed.
    pause: Duration,
    next_streams: Instant,
    /// Was there a warning of packets that were withheld?
    is_withholding_told: bool,
}

/// Views a session until it ends, or the reader of the feed has enough. What ends it too early is in the feed.
pub(crate) fn view(client: LiveClient, options: &ViewerOptions, feed: &Feed) {
    let failure = view_all(client, options, feed).err();
    feed.change(|state| {
        state.is_over = true;
        state.failure = failure;
        state.streams.values_mut().for_each(|stream| stream.is_over = true);
    });
}

fn view_all(client: LiveClient, options: &ViewerOptions, feed: &Feed) -> Result<()> {
    let now = Instant::now();
    let mut viewer = Viewer {
        client,
        feed,
        options,
        sessions: Vec::new(),
        traces: BTreeMap::new(),
        streams: BTreeMap::new(),
        pause: Duration::from_millis(10),
        next_streams: now,
        is_withholding_told: false,
    };
    let mut from_beginning = options.from_beginning;
    loop {
        let known: Vec<u64> = viewer.sessions.iter().map(|session| session.id).collect();
        let stop = match viewer.attach_all(from_beginning, &known).and_then(|()| viewer.run()) {
            Ok(()) | Err(ViewerStop::Asked) => {
                viewer.detach();
                return Ok(());
            }
            Err(stop) => stop,
        };
        let error = match stop {
            ViewerStop::Fault(error) => return Err(error),
            ViewerStop::Reply(error) => {
                let can_repeat = !matches!(error.fault, ReplyFault::Unexpected(_));
                let error = error_of(&options.url, &error);
                if !can_repeat || !options.reconnects || viewer.sessions.is_empty() {
                    return Err(error);
                }
                error
            }
            ViewerStop::Asked => return Ok(()),
        };
        let lost = "the connection broke and is made again: what was recorded meanwhile may be missing";
        feed.change(|state| state.warnings.push(Error::new(ErrorKind::Io, format!("{}; {lost}", error.message()))));
        let Some(client) = reconnected(options, feed, error)? else { return Ok(()) };
        (viewer.client, from_beginning) = (client, false);
        viewer.streams.values_mut().for_each(|stream| stream.held = None);
    }
}

/// A new connection; `None` when nobody wants it any more.
fn reconnected(options: &ViewerOptions, feed: &Feed, mut failure: Error) -> Result<Option<LiveClient>> {
    for _ in 0..RECONNECTS {
        if feed.wait_to_ask(RECONNECT_STEP) {
            return Ok(None);
        }
        match LiveClient::connect(&options.url, options.timeout) {
            Ok(client) => return Ok(Some(client)),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// How the sessions of a relay daemon are called in a message.
pub fn names_of_sessions(sessions: &[LiveSession], url: &LiveUrl) -> String {
    let name = |session: &LiveSession| format!("`{}`", url.with_session(&session.host, &session.name));
    match sessions {
        [] => "the relay daemon has no sessions".into(),
        sessions => format!("there is {}", sessions.iter().map(name).collect::<Vec<_>>().join(", ")),
    }
}

impl Viewer<'_> {
    fn place(&self, error: Error) -> Error {
        error.in_file(Path::new(&self.options.url.to_string()))
    }

    fn fault<T>(&self, message: String) -> Viewed<T> {
        Err(ViewerStop::Fault(self.place(Error::malformed(message))))
    }

    /// Attaches to all sessions of the wanted name; again only to those of `known` numbers, if there are any.
    fn attach_all(&mut self, from_beginning: bool, known: &[u64]) -> Viewed<()> {
        if self.client.create_session()? != status::OK {
            return self.fault("the relay daemon makes no session for a viewer".into());
        }
        let wanted = self.options.url.session.clone().unwrap_or_default();
        let found = loop {
            let sessions = self.client.sessions()?;
            let is_wanted = |of: &LiveSession| (&of.host, &of.name) == (&wanted.0, &wanted.1);
            let is_known = |of: &LiveSession| known.is_empty() || known.contains(&of.id);
            let found: Vec<LiveSession> = sessions.iter().filter(|of| is_wanted(of) && is_known(of)).cloned().collect();
            if !found.is_empty() {
                break found;
            }
            if !known.is_empty() {
                // It ended while nobody looked.
                return Ok(());
            }
            if !self.options.waits {
                let error = Error::new(ErrorKind::NotThisFormat, "there is no such session");
                let error = error.with_help(names_of_sessions(&sessions, &self.options.url));
                return Err(ViewerStop::Fault(self.place(error)));
            }
            if self.feed.wait_to_ask(LIST_STEP) {
                return Err(ViewerStop::Asked);
            }
        };
        self.sessions.clear();
        let timer = found.iter().map(|session| session.timer_us).filter(|&timer| timer > 0).min().unwrap_or(1_000_000);
        let timer = Duration::from_micros(timer.into());
        self.pause = (timer / 4).clamp(Duration::from_millis(10), Duration::from_millis(500));
        for session in found {
            let (status, streams) = self.client.attach(session.id, from_beginning)?;
            let why = match status {
                1 => {
                    self.sessions.push(AttachedSession { id: session.id, is_closed: false });
                    self.add_streams(session.id, streams);
                    continue;
                }
                // It has ended since it was listed.
                3 => continue,
                2 => "another viewer is attached to the session already".to_string(),
                4 => "the session is not live: it was made without --live".to_string(),
                5 => "the relay daemon refuses to begin where it was asked to".to_string(),
                6 => "the relay daemon has forgotten this viewer".to_string(),
                other => format!("the relay daemon answers `attach` with status {other}, expected 1 to 6"),
            };
            return Err(ViewerStop::Fault(self.place(Error::new(ErrorKind::Inconsistent, why))));
        }
        self.feed.change(|state| {
            state.is_attached = true;
            state.timer = timer;
        });
        Ok(())
    }

    fn add_streams(&mut self, session: u64, added: Vec<LiveStream>) {
        let now = Instant::now();
        for new in added {
            let LiveStream { id, trace, is_metadata, path, channel } = new;
            let known = self.traces.get(&trace);
            let is_other_trace = known.is_some_and(|known| known.path != path);
            let of_metadata = self.traces.iter().find(|(_, of)| of.metadata == Some(id)).map(|(trace, _)| *trace);
            let is_other_stream = match self.streams.get(&id) {
                Some(old) => is_metadata || (old.trace, &old.path, &old.channel) != (trace, &path, &channel),
                None => of_metadata.is_some_and(|old| !is_metadata || old != trace),
            };
            let has_metadata = known.and_then(|known| known.metadata).is_some_and(|own| is_metadata && own != id);
            if is_other_trace || is_other_stream || has_metadata {
                let message = format!("the server names stream {id} of trace {trace} a second time, as something else");
                let warning = self.place(Error::inconsistent(message).with_help("the later one is ignored"));
                self.feed.change(|state| state.warnings.push(warning));
                continue;
            }
            let own = self.traces.entry(trace).or_insert_with(|| ViewedTrace {
                session,
                path: path.clone(),
                metadata: None,
                received: 0,
                is_over: false,
                since: now,
                next_ask: now,
            });
            own.session = session;
            if is_metadata {
                own.metadata = Some(id);
                self.feed.change(|state| state.add_trace(trace, &path));
                continue;
            }
            let ViewedTrace { path, .. } = own;
            let path = path.clone();
            self.feed.change(|state| {
                state.add_trace(trace, &path);
                state.add_stream(id, trace, &channel);
            });
            let stream = ViewedStream {
                session,
                trace,
                path,
                channel,
                held: None,
                next_ask: now,
                is_over: false,
                ended: None,
                went_back: false,
                end: 0,
            };
            // After a broken connection it is the same stream.
            self.streams.entry(id).or_insert(stream).session = session;
        }
    }

    /// Asks in turn until all sessions are closed, and all that is left of their streams was read.
    fn run(&mut self) -> Viewed<()> {
        while self.sessions.iter().any(|session| !session.is_closed)
            || self.streams.values().any(|stream| !stream.is_over)
        {
            self.ask_for_metadata()?;
            // Streams that the others wait for come first.
            let mut due: Vec<(bool, u64)> = Vec::new();
            {
                let (now, state) = (Instant::now(), self.feed.lock());
                for (&id, _) in self.streams.iter().filter(|(_, stream)| !stream.is_over && stream.next_ask <= now) {
                    if state.has_room(id, self.options.memory) {
                        due.push((state.streams.get(&id).is_some_and(|stream| !stream.packets.is_empty()), id));
                    }
                }
            }
            due.sort_unstable();
            for (_, id) in &due {
                self.ask(*id)?;
                if self.feed.wait_to_ask(Duration::ZERO) {
                    return Err(ViewerStop::Asked);
                }
            }
            if self.streams.values().all(|stream| stream.is_over) && self.next_streams <= Instant::now() {
                self.ask_for_streams()?;
                self.next_streams = Instant::now() + self.pause;
            }
            self.note_withholding()?;
            if self.feed.wait_to_ask(self.until_next(!due.is_empty())) {
                return Err(ViewerStop::Asked);
            }
        }
        for (id, trace) in &self.traces {
            let has_streams = self.streams.values().any(|stream| stream.trace == *id);
            if trace.received == 0 && !trace.is_over && has_streams {
                let path = shown(&trace.path);
                let error = Error::malformed(format!("the metadata of trace {id} (`{path}`) did not come"));
                let error = self.place(error.with_help("its events cannot be shown"));
                self.feed.change(|state| state.faults.push(error));
            }
        }
        Ok(())
    }

    /// The time until something is to be asked.
    fn until_next(&self, was_busy: bool) -> Duration {
        let now = Instant::now();
        let state = self.feed.lock();
        let open = self.streams.iter().filter(|(_, stream)| !stream.is_over);
        let mut next = self.pause;
        let mut is_any = false;
        for (id, stream) in open {
            is_any = true;
            if state.has_room(*id, self.options.memory) {
                next = next.min(stream.next_ask.saturating_duration_since(now));
            }
        }
        // A full memory is emptied by the reader, which says so.
        if is_any && was_busy { next } else { next.max(Duration::from_millis(1)) }
    }

    fn ask_for_streams(&mut self) -> Viewed<()> {
        for at in 0..self.sessions.len() {
            let AttachedSession { id, is_closed } = self.sessions[at];
            if is_closed {
                continue;
            }
            match self.client.new_streams(id)? {
                (status::OK, streams) => self.add_streams(id, streams),
                (status::RETRY, _) => {}
                (status::ENDED, _) => self.sessions[at].is_closed = true,
                (status::ERROR, _) => return self.fault("the relay daemon cannot say which streams are new".into()),
                (other, _) => {
                    return self
                        .fault(format!("the relay daemon answers `new streams` with status {other}, expected 1 to 4"));
                }
            }
        }
        Ok(())
    }

    /// Warns when a process ended while its session went on: relay daemons before 2.14 lose their place in the buffers of a process
    /// when it ends. They say then that a stream has ended though its last packets were not given yet, and nothing else tells it.
    fn note_withholding(&mut self) -> Viewed<()> {
        if self.is_withholding_told || self.client.minor() >= MINOR_OF_LAST_PACKETS {
            return Ok(());
        }
        let Some((trace, session)) = self.streams.values().find_map(|of| {
            let is_long_ago = of.ended.is_some_and(|ended| ended.elapsed() >= CLOSING);
            (is_long_ago && of.is_of_process() && self.is_open(of.session)).then_some((of.trace, of.session))
        }) else {
            return Ok(());
        };
        // It may have closed meanwhile.
        self.ask_for_streams()?;
        if !self.is_open(session) {
            return Ok(());
        }
        self.is_withholding_told = true;
        let path = self.traces.get(&trace).map_or("?".into(), |of| shown(&of.path));
        let minor = self.client.minor();
        let message = format!(
            "trace {trace} (`{path}`) ended before its session: the last events of its process may be missing; said once for the session"
        );
        let help = format!(
            "the relay daemon is LTTng 2.{minor}; before 2.14 it withholds them when each process has its own buffers. \
             The folder that it writes has them, and channels with --buffers-uid are not affected"
        );
        let warning = self.place(Error::inconsistent(message).with_help(help));
        self.feed.change(|state| state.warnings.push(warning));
        Ok(())
    }

    fn is_open(&self, session: u64) -> bool {
        self.sessions.iter().any(|of| of.id == session && !of.is_closed)
    }

    /// Asks for the metadata of traces that have none yet, or of which a declaration came in part.
    fn ask_for_metadata(&mut self) -> Viewed<()> {
        let now = Instant::now();
        let cut: Vec<u64> = {
            let state = self.feed.lock();
            state.traces.iter().filter(|(_, trace)| trace.is_cut()).map(|(id, _)| *id).collect()
        };
        let ids: Vec<u64> = self.traces.keys().copied().collect();
        for id in ids {
            let Some(trace) = self.traces.get_mut(&id) else { continue };
            if trace.is_over || trace.received > 0 && !cut.contains(&id) || trace.next_ask > now {
                continue;
            }
            trace.next_ask = now + self.pause;
            let is_late = trace.received == 0 && trace.since.elapsed() > self.options.metadata_wait;
            if is_late {
                let path = shown(&trace.path);
                return self.fault(format!("the metadata of trace {id} (`{path}`) do not come"));
            }
            if trace.metadata.is_some() {
                self.read_metadata(id)?;
            }
        }
        Ok(())
    }

    /// Reads what is new of the metadata of a trace.
    fn read_metadata(&mut self, trace: u64) -> Viewed<()> {
        let empty_until = Instant::now() + EMPTY_WAIT;
        loop {
            let Some(of) = self.traces.get_mut(&trace).filter(|of| !of.is_over) else { return Ok(()) };
            let Some(stream) = of.metadata else { return Ok(()) };
            match self.client.metadata(stream, MAX_METADATA - of.received)? {
                (status::OK, bytes) if bytes.is_empty() => {
                    if Instant::now() > empty_until {
                        return self.fault(format!("the metadata of trace {trace} stay empty"));
                    }
                    if self.feed.wait_to_ask(EMPTY_STEP) {
                        return Err(ViewerStop::Asked);
                    }
                }
                (status::OK, bytes) => {
                    of.received += bytes.len() as u64;
                    self.feed.change(|state| state.add_metadata(trace, &bytes));
                }
                (status::RETRY, _) => return Ok(()),
                // Once the stream has ended, there is no more of it to ask for.
                (status::ERROR, _) if of.received > 0 => {
                    of.is_over = true;
                    return Ok(());
                }
                (other, _) => {
                    of.is_over = true;
                    let why = match other {
                        status::ERROR => "cannot be read by the relay daemon".to_string(),
                        other => format!("are answered with status {other}, expected 1 to 3"),
                    };
                    let path = shown(&of.path);
                    let error = Error::malformed(format!("the metadata of trace {trace} (`{path}`) {why}"));
                    let error = self.place(error.with_help("its streams are left out"));
                    self.feed.change(|state| state.faults.push(error));
                    let own: Vec<u64> =
                        self.streams.iter().filter(|(_, of)| of.trace == trace).map(|(id, _)| *id).collect();
                    own.into_iter().for_each(|id| self.end(id));
                    return Ok(());
                }
            }
        }
    }

    fn end(&mut self, stream: u64) {
        if let Some(own) = self.streams.get_mut(&stream) {
            (own.is_over, own.held) = (true, None);
        }
        self.feed.change(|state| state.end_stream(stream));
    }

    /// Gives a stream up.
    fn give_up(&mut self, stream: u64, why: String) {
        let channel = self.streams.get(&stream).map_or("?".to_string(), |of| shown(&of.channel));
        let error = Error::malformed(format!("stream {stream} (`{channel}`): {why}"));
        let error = self.place(error.with_help("nothing more of this stream is read"));
        self.feed.change(|state| state.faults.push(error));
        self.end(stream);
    }

    fn later(&mut self, stream: u64) {
        let next = Instant::now() + self.pause;
        if let Some(own) = self.streams.get_mut(&stream) {
            own.next_ask = next;
        }
    }

    /// Does what has to be done before a packet of a stream is asked for.
    fn follow_flags(&mut self, stream: u64, flags: u32) -> Viewed<()> {
        if flags & NEW_STREAMS != 0 {
            self.ask_for_streams()?;
        }
        if flags & NEW_METADATA != 0
            && let Some(trace) = self.streams.get(&stream).map(|of| of.trace)
        {
            self.read_metadata(trace)?;
        }
        Ok(())
    }

    /// Asks for the next packet of a stream.
    fn ask(&mut self, id: u64) -> Viewed<()> {
        let Some(held) = self.streams.get(&id).map(|of| of.held) else { return Ok(()) };
        let index = match held {
            Some(index) => index,
            None => {
                let index = self.client.next_index(id)?;
                match index.status {
                    index::OK => {}
                    index::RETRY => {
                        self.feed.change(|state| state.is_unknown(id));
                        self.later(id);
                        return self.follow_flags(id, index.flags);
                    }
                    index::INACTIVE => {
                        self.feed.change(|state| state.quiet_until(id, index.end));
                        if let Some(own) = self.streams.get_mut(&id) {
                            own.end = own.end.max(index.end);
                        }
                        self.later(id);
                        return self.follow_flags(id, index.flags);
                    }
                    index::ENDED | index::END_OF_FILE => {
                        if let Some(own) = self.streams.get_mut(&id) {
                            own.ended = Some(Instant::now());
                        }
                        self.end(id);
                        return Ok(());
                    }
                    index::ERROR => {
                        self.give_up(id, "the relay daemon cannot read its index".into());
                        return Ok(());
                    }
                    other => {
                        self.give_up(id, format!("`next index` is answered with status {other}, expected 1 to 6"));
                        return Ok(());
                    }
                }
                if let Some(fault) = index.fault() {
                    self.give_up(id, format!("its index describes {fault}"));
                    return Ok(());
                }
                self.note_time(id, &index);
                if let Some(own) = self.streams.get_mut(&id) {
                    own.held = Some(index);
                }
                // The index is given only once, so its packet is asked for after this.
                self.follow_flags(id, index.flags)?;
                index
            }
        };
        let Some(bytes) = self.packet(id, &index)? else { return Ok(()) };
        if let Some(own) = self.streams.get_mut(&id) {
            own.held = None;
        }
        let packet = FeedPacket { bytes: bytes.into(), index };
        self.feed.change(|state| state.add_packet(id, packet));
        Ok(())
    }

    /// Warns of times that cannot be, once for a stream.
    fn note_time(&mut self, id: u64, index: &LiveIndex) {
        let Some(own) = self.streams.get_mut(&id) else { return };
        let is_odd = index.end < index.begin || index.begin < own.end;
        let before = own.end;
        own.end = own.end.max(index.end);
        if !is_odd || std::mem::replace(&mut own.went_back, true) {
            return;
        }
        let LiveIndex { begin, end, .. } = index;
        let channel = shown(&own.channel);
        let message = format!(
            "stream {id} (`{channel}`): times go back: a packet from {begin} to {end} cycles comes after {before}; said once for the stream"
        );
        let warning = self.place(Error::inconsistent(message).with_help("its events keep their order"));
        self.feed.change(|state| state.warnings.push(warning));
    }

    /// The bytes of a packet, in pieces when it is large; `None` when it is not to be had, now or ever.
    fn packet(&mut self, id: u64, index: &LiveIndex) -> Viewed<Option<Vec<u8>>> {
        let total = index.packet_bits / 8;
        let (mut bytes, mut repeats) = (Vec::new(), 0);
        while (bytes.len() as u64) < total {
            let done = bytes.len() as u64;
            let asked = (total - done).min(PIECE_BYTES.into()) as u32;
            let reply = self.client.packet(id, index.offset.saturating_add(done), asked)?;
            let needs = reply.flags & (NEW_METADATA | NEW_STREAMS);
            match (reply.status, reply.bytes) {
                (status::OK, Some(piece)) => bytes.extend_from_slice(&piece),
                (status::OK, None) => {
                    let why = format!("a packet of {asked} bytes is answered with {} bytes", reply.length);
                    self.give_up(id, why);
                    return Ok(None);
                }
                (status::RETRY | status::ERROR, _) if needs != 0 && repeats < MAX_REPEATS => {
                    repeats += 1;
                    self.follow_flags(id, needs)?;
                }
                (status::RETRY, _) => {
                    // It is asked for again from its beginning.
                    self.later(id);
                    return Ok(None);
                }
                (status::ERROR, _) => {
                    let channel = self.streams.get(&id).map_or("?".into(), |of| shown(&of.channel));
                    let LiveIndex { begin, end, .. } = index;
                    let message = format!(
                        "stream {id} (`{channel}`): the relay daemon refuses the packet from {begin} to {end} cycles: it is lost"
                    );
                    let error = self.place(Error::inconsistent(message));
                    self.feed.change(|state| state.faults.push(error));
                    if let Some(own) = self.streams.get_mut(&id) {
                        own.held = None;
                    }
                    return Ok(None);
                }
                (status::ENDED, _) => {
                    self.end(id);
                    return Ok(None);
                }
                (other, _) => {
                    self.give_up(id, format!("`get packet` is answered with status {other}, expected 1 to 4"));
                    return Ok(None);
                }
            }
        }
        Ok(Some(bytes))
    }

    /// Leaves the sessions; what the server says to that changes nothing.
    fn detach(&mut self) {
        for session in &self.sessions {
            if self.client.detach(session.id).is_err() {
                return;
            }
        }
    }
}

/// A text of the server, for people.
fn shown(text: &str) -> String {
    const MAX: usize = 100;
    let rest = if text.chars().nth(MAX).is_some() { "..." } else { "" };
    let start: String = text.chars().take(MAX).collect();
    format!("{}{rest}", start.escape_debug())
}
