//! A trace that is written, and what its metadata say.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracemill_ctf::write::build::{Definitions, EventDefinition, EventLayout, Field, StreamDefinition, StreamLayout};
use tracemill_engine::output::Pending;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::EnvValue;

use super::clock::Clock;
use super::stream::Stream;

/// Size of packets unless another is given.
const PACKET_BYTES: usize = 256 << 10;

/// CTF 2, as [`Ctf2::create`] writes it.
#[derive(Clone, Copy, Debug)]
pub struct Ctf2;

impl Ctf2 {
    /// A trace that will be the folder `path`.
    ///
    /// # Errors
    /// When there is something of this name, or the folders around it cannot be made.
    pub fn create(path: impl AsRef<Path>) -> Result<Trace> {
        Trace::new(path.as_ref(), Definitions::ctf2())
    }
}

/// CTF 1.8, as [`Ctf18::create`] writes it.
///
/// It has no optional fields; booleans and blobs become integers and arrays of integers.
#[derive(Clone, Copy, Debug)]
pub struct Ctf18;

impl Ctf18 {
    /// A trace that will be the folder `path`.
    ///
    /// # Errors
    /// When there is something of this name, or the folders around it cannot be made.
    pub fn create(path: impl AsRef<Path>) -> Result<Trace> {
        Trace::new(path.as_ref(), Definitions::ctf18())
    }
}

/// A trace that is written.
///
/// Its folder gets its name when [`Trace::finish`] is called. One that is dropped before leaves nothing.
pub struct Trace {
    shared: Arc<SharedTrace>,
    pending: Pending,
}

/// State that the trace, its classes and its streams share.
pub(super) struct SharedTrace {
    state: Mutex<WriterState>,
    /// Where its files are until it is finished.
    pub(super) folder: PathBuf,
    /// Where they will be.
    pub(super) target: PathBuf,
}

pub(super) struct WriterState {
    definitions: Definitions,
    streams: Vec<OpenStream>,
    /// No class and no stream is added any more.
    is_finished: bool,
}

struct OpenStream {
    name: String,
    is_finished: bool,
}

impl SharedTrace {
    /// A thread that panicked held no half-made definition: they are added whole.
    fn state(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_state(&self) -> Result<MutexGuard<'_, WriterState>> {
        let state = self.state();
        if state.is_finished {
            return Err(Error::misuse("the trace is finished").in_file(&self.target));
        }
        Ok(state)
    }

    pub(super) fn finish_stream(&self, at: usize) {
        if let Some(stream) = self.state().streams.get_mut(at) {
            stream.is_finished = true;
        }
    }
}

impl Trace {
    fn new(path: &Path, definitions: Definitions) -> Result<Trace> {
        if path.symlink_metadata().is_ok() {
            let error = Error::misuse("the trace would replace what is there").in_file(path);
            return Err(error.with_help("give another name, or remove it first"));
        }
        let mut pending = Pending::new(path)?;
        pending.make_folder().map_err(pending.naming())?;
        let state = WriterState { definitions, streams: Vec::new(), is_finished: false };
        let (folder, target) = (pending.path().to_path_buf(), path.to_path_buf());
        Ok(Trace { shared: Arc::new(SharedTrace { state: Mutex::new(state), folder, target }), pending })
    }

    /// Sets a value of the environment: text, or an integer.
    ///
    /// # Errors
    /// When the name is none that the format has: an identifier of C in CTF 1.8.
    pub fn set_environment(&mut self, name: &str, value: impl Into<EnvValue>) -> Result<()> {
        let set = self.shared.state().definitions.set_environment(name, value.into());
        set.map_err(|error| error.in_file(&self.shared.target))
    }

    /// Begins a stream class: what streams have in common whose events have the same context and clock.
    pub fn stream_class(&self, name: &str) -> StreamClassBuilder {
        let definition = StreamDefinition {
            name: name.into(),
            clock: Clock::unix_ns().0,
            packet_context: Vec::new(),
            context: Vec::new(),
        };
        StreamClassBuilder { shared: self.shared.clone(), definition, packet_bytes: PACKET_BYTES }
    }

    /// Writes the metadata and gives the folder its name, once everything is on the disk.
    ///
    /// # Errors
    /// When a stream is not finished, or the disk does not take it. The trace is then gone.
    ///
    /// ```
    /// use tracemill::write::Ctf2;
    /// # fn main() -> tracemill::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("tracemill-finish-doc-{}", std::process::id()));
    /// let trace = Ctf2::create(&path)?;
    /// let stream = trace.stream_class("app").build()?.stream("main")?;
    /// let error = trace.finish().unwrap_err();
    /// assert_eq!(error.message(), "the stream `main` is not finished");
    /// assert!(!path.exists());
    /// # Ok(())
    /// # }
    /// ```
    pub fn finish(self) -> Result<()> {
        let metadata = {
            let mut state = self.shared.open_state()?;
            state.is_finished = true;
            if let Some(stream) = state.streams.iter().find(|stream| !stream.is_finished) {
                let error = Error::misuse(format!("the stream `{}` is not finished", stream.name));
                return Err(error.in_file(&self.shared.target).with_help("call `finish` of every stream first"));
            }
            state.definitions.metadata()
        };
        let path = self.shared.folder.join("metadata");
        let named = self.shared.target.join("metadata");
        std::fs::write(&path, metadata).map_err(|error| Error::io("write the metadata", &named, &error))?;
        self.pending.commit()
    }
}

/// A stream class that is being described: [`Trace::stream_class`].
#[must_use = "a stream class is there once `build` was called"]
pub struct StreamClassBuilder {
    shared: Arc<SharedTrace>,
    definition: StreamDefinition,
    packet_bytes: usize,
}

impl StreamClassBuilder {
    /// The clock of the times of its events: [`Clock::unix_ns`] where none is named.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.definition.clock = clock.0;
        self
    }

    /// Adds a field that each event has before its own. Its values stay what [`Stream::set_context`] set.
    pub fn context(mut self, name: &str, field: Field) -> Self {
        self.definition.context.push((name.into(), field));
        self
    }

    /// Adds a field that each packet has, such as `cpu_id`. Its values stay what [`Stream::set_packet_context`] set.
    pub fn packet_context(mut self, name: &str, field: Field) -> Self {
        self.definition.packet_context.push((name.into(), field));
        self
    }

    /// Size of packets in bytes, 256 KiB unless another is given. A packet ends before the event that would make it
    /// larger; an event that is larger itself has one of its own. A reader skips packets as a whole, a writer holds
    /// one in memory.
    pub fn packet_bytes(mut self, bytes: usize) -> Self {
        self.packet_bytes = bytes;
        self
    }

    /// Adds it to the trace.
    ///
    /// # Errors
    /// When the name is taken, or a field makes no sense; the error names it.
    pub fn build(self) -> Result<StreamClass> {
        let layout = self.shared.open_state()?.definitions.add_stream_class(&self.definition);
        let layout = layout.map_err(|error| error.in_file(&self.shared.target))?;
        Ok(StreamClass(Arc::new(StreamClassInner { shared: self.shared, layout, packet_bytes: self.packet_bytes })))
    }
}

/// A stream class of a trace. Cheap to clone, and may be sent to other threads.
#[derive(Clone)]
pub struct StreamClass(pub(super) Arc<StreamClassInner>);

pub(super) struct StreamClassInner {
    pub(super) shared: Arc<SharedTrace>,
    pub(super) layout: StreamLayout,
    pub(super) packet_bytes: usize,
}

impl StreamClass {
    /// Begins an event class of its streams.
    ///
    /// ```
    /// use tracemill::write::{Ctf2, list, string, structure, u8, u32, u64};
    /// # fn main() -> tracemill::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("tracemill-class-doc-{}", std::process::id()));
    /// # let trace = Ctf2::create(&path)?;
    /// let app = trace.stream_class("app").build()?;
    /// let reply = app
    ///     .event_class("reply")
    ///     .field("state", u8().label("done", 0).labels("failed", 1..=255))
    ///     .field("address", u64().hex())
    ///     .field("headers", list(structure([("name", string()), ("len", u32())])))
    ///     .build()?;
    /// let mut out = app.stream("main")?;
    /// let headers = [("host", 4), ("accept", 6)];
    /// out.event(&reply, 10, |e| {
    ///     e.label("done").u64(0xffff_0000).array(headers, |e, (name, len)| e.str(name).u32(len))
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn event_class(&self, name: &str) -> EventClassBuilder {
        let definition = EventDefinition { name: name.into(), ..EventDefinition::default() };
        EventClassBuilder { stream: self.clone(), definition }
    }

    /// Opens a stream. It is a file of this name in the trace, and belongs to one thread at a time.
    ///
    /// # Errors
    /// When the name is taken or is no name of a file.
    ///
    /// ```
    /// use tracemill::write::{Ctf2, u32};
    /// # fn main() -> tracemill::Result<()> {
    /// # let folder = std::env::temp_dir().join(format!("tracemill-stream-doc-{}", std::process::id()));
    /// # let trace = Ctf2::create(folder.join("made"))?;
    /// let app = trace.stream_class("app").build()?;
    /// let tick = app.event_class("tick").field("number", u32()).build()?;
    /// std::thread::scope(|scope| {
    ///     let threads = ["a", "b"].map(|name| {
    ///         let (app, tick) = (&app, &tick);
    ///         scope.spawn(move || {
    ///             let mut out = app.stream(name)?;
    ///             (0..100).try_for_each(|at| out.event(tick, at.into(), |e| e.u32(at)))?;
    ///             out.finish()
    ///         })
    ///     });
    ///     threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    /// })?;
    /// trace.finish()?;
    /// # std::fs::remove_dir_all(&folder).expect("the folder was made");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self, name: &str) -> Result<Stream> {
        let shared = &self.0.shared;
        let mut state = shared.open_state()?;
        let refused = |text: String| Err(Error::misuse(text).in_file(&shared.target));
        let is_plain = !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        if name.is_empty() || !is_plain || ["metadata", "index"].contains(&name) {
            return refused(format!("`{name}` is not a name of a stream"));
        }
        if state.streams.iter().any(|stream| stream.name == name) {
            return refused(format!("there is a stream `{name}` already"));
        }
        let at = state.streams.len();
        state.streams.push(OpenStream { name: name.into(), is_finished: false });
        Ok(Stream::new(self.clone(), name, at))
    }
}

/// An event class that is being described: [`StreamClass::event_class`].
#[must_use = "an event class is there once `build` was called"]
pub struct EventClassBuilder {
    stream: StreamClass,
    definition: EventDefinition,
}

impl EventClassBuilder {
    /// Adds a field of the payload.
    pub fn field(mut self, name: &str, field: Field) -> Self {
        self.definition.payload.push((name.into(), field));
        self
    }

    /// Adds a field of the event's own context. Its values come before those of the payload. In CTF 1.8 it should be no
    /// list, blob or variant, nor hold one: babeltrace2 2.0.4 stops there.
    pub fn context(mut self, name: &str, field: Field) -> Self {
        self.definition.context.push((name.into(), field));
        self
    }

    /// Log level, 0 (emergency) to 14 (debug), as LTTng numbers them.
    pub fn log_level(mut self, level: u8) -> Self {
        self.definition.log_level = Some(level.into());
        self
    }

    /// Adds it to the trace.
    ///
    /// # Errors
    /// When the name is taken, or a field makes no sense; the error names it.
    ///
    /// ```
    /// use tracemill::write::{Ctf18, optional, u64, unsigned};
    /// # fn main() -> tracemill::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("tracemill-build-doc-{}", std::process::id()));
    /// # let trace = Ctf18::create(&path)?;
    /// let app = trace.stream_class("app").build()?;
    /// let error = app.event_class("wide").field("sum", unsigned(65)).build().err().expect("too wide");
    /// assert_eq!(error.message(), "an integer of 65 bits; 1 to 64 are possible");
    /// assert_eq!(error.place().field.as_deref(), Some("payload.sum"));
    /// let error = app.event_class("maybe").field("sum", optional(u64())).build().err().expect("not in 1.8");
    /// assert_eq!(error.message(), "CTF 1.8 has no optional fields");
    /// # Ok(())
    /// # }
    /// ```
    pub fn build(self) -> Result<EventClass> {
        let inner = &self.stream.0;
        let layout = inner.shared.open_state()?.definitions.add_event_class(inner.layout.class, &self.definition);
        let layout = layout.map_err(|error| error.in_file(&inner.shared.target))?;
        Ok(EventClass(Arc::new(EventClassInner { stream: self.stream, layout, name: self.definition.name })))
    }
}

/// An event class of a trace. Cheap to clone, and may be sent to other threads.
#[derive(Clone)]
pub struct EventClass(pub(super) Arc<EventClassInner>);

pub(super) struct EventClassInner {
    pub(super) stream: StreamClass,
    pub(super) layout: EventLayout,
    pub(super) name: String,
}
