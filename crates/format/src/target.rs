//! Formats that can be written.
//!
//! A [`Target`] is one static value and one line in the registry, like a [`Format`](crate::Format). It gets the
//! traces that are converted ([`Source`]), says at once what it cannot hold of their schemas ([`Losses`]), and then takes
//! events, stream by stream or in the order of time. It writes below the path that it is given and nowhere else; the
//! caller gives that its final name when everything is there.

use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_model::clock::{ClockMap, Drift};
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, ClockClass, Origin, Schema, StreamClassId, TracePart};

use crate::calls::CallTask;
use crate::lost::{Losses, Lost};
use crate::samples::Sample;
use crate::{OutPath, Setting, Settings};

/// A format that can be written: one static value, one line in the registry.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Target {
    /// Names by which the user knows it; the first is the one that is listed.
    pub names: &'static [&'static str],
    /// Endings of file names that ask for it, without the dot before them. One ending belongs to one target.
    pub endings: &'static [&'static str],
    /// One line about it, for the list of formats.
    pub description: &'static str,
    /// Losses that it causes whatever the trace, for the list of formats.
    pub cannot_hold: &'static [Lost],
    /// Is a trace of it a folder (otherwise a file)?
    pub is_folder: bool,
    /// Must events of all streams come in the order of time (otherwise stream after stream)?
    pub wants_order: bool,
    /// Begins to write traces at a path where nothing is. Touches no file yet.
    pub create: Create,
    /// Options that it adds to `convert`.
    pub settings: &'static [Setting],
    /// Would its writer keep packets that it could not put together of some of their events? All of them must be sound
    /// then; of others it makes its packets when only some events come ([`WriteOptions::is_cut`]).
    pub needs_sound_packets: NeedsSoundPackets,
}

impl Target {
    /// A target whose traces are folders, written stream after stream.
    pub const fn folder(names: &'static [&'static str], description: &'static str, create: Create) -> Target {
        Target {
            names,
            endings: &[],
            description,
            cannot_hold: &[],
            is_folder: true,
            wants_order: false,
            create,
            settings: &[],
            needs_sound_packets: |_, _| false,
        }
    }

    /// A target whose traces are files, written in the order of time.
    pub const fn file(names: &'static [&'static str], description: &'static str, create: Create) -> Target {
        Target { is_folder: false, wants_order: true, ..Target::folder(names, description, create) }
    }

    /// Sets [`Target::endings`].
    pub const fn with_endings(self, endings: &'static [&'static str]) -> Target {
        Target { endings, ..self }
    }

    /// Sets [`Target::cannot_hold`].
    pub const fn cannot_hold(self, cannot_hold: &'static [Lost]) -> Target {
        Target { cannot_hold, ..self }
    }

    /// Sets [`Target::wants_order`].
    pub const fn in_order(self) -> Target {
        Target { wants_order: true, ..self }
    }

    /// Sets [`Target::needs_sound_packets`].
    pub const fn needs_sound_packets(self, needs_sound_packets: NeedsSoundPackets) -> Target {
        Target { needs_sound_packets, ..self }
    }

    /// Adds options.
    pub const fn with_settings(self, settings: &'static [Setting]) -> Target {
        Target { settings, ..self }
    }
}

/// See [`Target::create`].
pub type Create = fn(&OutPath, &[Source], &WriteOptions) -> Created;

/// See [`Target::needs_sound_packets`].
pub type NeedsSoundPackets = fn(&[Source], &WriteOptions) -> bool;

/// A writer, or why there is none.
pub type Created = Result<Box<dyn TraceWriter>>;

/// A trace that is written.
#[derive(Clone)]
pub struct Source {
    /// Its name among the traces that are read.
    pub name: String,
    /// Name that orders its events of equal time.
    pub own_name: String,
    /// Its schema.
    pub schema: Arc<Schema>,
    /// Ns to add to its clocks.
    pub correction_ns: i64,
    /// Its format, or the one that it had before it was converted to what is read now. A writer of that format makes it
    /// again; for all others it is a trace of another format.
    pub origin: Arc<Origin>,
    /// How its corrected clocks drift.
    pub drift: Option<Drift>,
    /// Its own parts, beside events and packets: those of `origin` when it is what it was.
    pub parts: Vec<TracePart>,
    /// Its streams that are written.
    pub streams: Vec<SourceStream>,
    /// The tasks whose calls its events are, where the format knows them.
    pub tasks: Vec<CallTask>,
}

impl Source {
    /// Ns to add to the times that it had as what it was ([`Source::origin`]).
    pub fn moved_ns(&self) -> i64 {
        self.origin.moved_ns.saturating_add(self.correction_ns)
    }

    /// The corrected times of one of its clocks.
    pub fn clock_map(&self, clock: &ClockClass) -> ClockMap {
        ClockMap::new(clock, self.correction_ns).with_drift(self.drift)
    }

    /// The corrected times of the streams of a class, when they have a clock of a known frequency.
    pub fn stream_clock(&self, class: StreamClassId) -> Option<ClockMap> {
        let clock = self.schema.clock(self.schema.stream(class).default_clock?);
        (clock.frequency > 0).then(|| self.clock_map(clock))
    }
}

/// A stream of a trace that is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceStream {
    /// Its name.
    pub name: String,
    /// The name that it had in the format that the trace has or had ([`Source::origin`]).
    pub origin_name: String,
    /// Its class.
    pub class: StreamClassId,
    /// Its numeric id.
    pub id: Option<u64>,
    /// Do its packets stand in several files?
    pub is_joined: bool,
}

/// The user's wishes for writing.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Size at which packets end; without it packets end where those of the input do.
    pub packet_bytes: Option<usize>,
    /// Order of the bytes of numbers; `None` when the user leaves it to the format.
    pub byte_order: Option<ByteOrder>,
    /// Write index files beside streams, where the format knows them.
    pub index: bool,
    /// Are only some of the events of the streams wanted?
    pub is_cut: bool,
    /// Do other outputs hold what comes before and after? Packets then begin and end with the events that they hold.
    pub is_part: bool,
    /// Do several sources become one trace?
    pub merge: bool,
    /// Options that the target adds ([`Target::settings`]), as they were typed.
    pub settings: Settings,
}

/// The forms of traces and packets that a writer takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// It makes one trace of several sources ([`WriteOptions::merge`]). A writer of a file always does.
    pub joined_traces: bool,
    /// It takes packets whole, as they are ([`TraceWriter::packet`]).
    pub whole_packets: bool,
    /// It takes samples with the names of their functions ([`TraceWriter::sample`]).
    pub samples: bool,
}

/// Writes events.
pub trait TraceWriter {
    /// Its needs from the caller that gives it events.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Losses that are known before the first event. Counted in fields, classes or streams.
    fn losses(&self) -> Losses {
        Losses::default()
    }

    /// Writes the next event of a stream: its place among the streams of all sources, in their order.
    ///
    /// # Errors
    /// When the output cannot be written; nothing more can be done then.
    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()>;

    /// Writes the next event of a stream, which is a sample with a stack. Only when it takes samples, and events in the order of
    /// time.
    ///
    /// # Errors
    /// As for events.
    fn sample(&mut self, stream: usize, event: EventRef<'_>, _sample: &Sample<'_>) -> Result<()> {
        self.event(stream, event)
    }

    /// Writes a packet of a stream as it is, with all its events. Only when it takes packets.
    ///
    /// # Errors
    /// As for events.
    fn packet(&mut self, _stream: usize, _packet: &PacketData) -> Result<()> {
        Ok(())
    }

    /// A packet of a stream holds no events. Only when it does not take packets.
    ///
    /// # Errors
    /// As for events.
    fn empty_packet(&mut self, _stream: usize, _packet: &PacketData) -> Result<()> {
        Ok(())
    }

    /// Something is missing between the events of a stream so far and its next one.
    ///
    /// # Errors
    /// As for events.
    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()>;

    /// No more events come of a stream.
    ///
    /// # Errors
    /// As for events.
    fn end_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }

    /// The streams in their order, each to be written by itself, maybe by a thread of its own; `None` when they depend on
    /// each other. Who writes them so calls nothing else but [`TraceWriter::finish`] after it.
    fn streams(&mut self) -> Option<Vec<Box<dyn StreamTarget + Send + '_>>> {
        None
    }

    /// Everything is there. Gives all that was lost.
    ///
    /// # Errors
    /// As for events.
    fn finish(self: Box<Self>) -> Result<Losses>;
}

/// A stream that is written by itself. Its methods are those of [`TraceWriter`], for this stream.
pub trait StreamTarget {
    /// See [`TraceWriter::event`].
    ///
    /// # Errors
    /// As there.
    fn event(&mut self, event: EventRef<'_>) -> Result<()>;

    /// See [`TraceWriter::packet`].
    ///
    /// # Errors
    /// As there.
    fn packet(&mut self, packet: &PacketData) -> Result<()>;

    /// See [`TraceWriter::empty_packet`].
    ///
    /// # Errors
    /// As there.
    fn empty_packet(&mut self, packet: &PacketData) -> Result<()>;

    /// See [`TraceWriter::gap`].
    ///
    /// # Errors
    /// As there.
    fn gap(&mut self, gap: &Gap) -> Result<()>;

    /// See [`TraceWriter::end_stream`].
    ///
    /// # Errors
    /// As there.
    fn end(&mut self) -> Result<()>;
}
