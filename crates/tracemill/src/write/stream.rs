//! One stream of a trace that is written.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::field_writer::FieldWriter;
use tracemill_codec::value::Value;
use tracemill_ctf::write::build::PacketWriter;
use tracemill_model::error::{Error, Result};

use super::trace::{EventClass, StreamClass};

/// A stream that is written: the events of one thread, CPU or whatever else has an order of its own.
///
/// It belongs to one thread at a time, and may be moved to another. Its file is there with its first packet; a stream
/// without events has none.
pub struct Stream {
    class: StreamClass,
    packets: PacketWriter,
    path: PathBuf,
    /// Its name in errors.
    named: PathBuf,
    file: Option<File>,
    /// Its number among the streams of the trace.
    at: usize,
    /// Why nothing can be written any more.
    failure: Option<Error>,
}

impl Stream {
    pub(super) fn new(class: StreamClass, name: &str, at: usize) -> Self {
        let packets = PacketWriter::new(&class.0.layout, at as u64, class.0.packet_bytes);
        let (path, named) = (class.0.shared.folder.join(name), class.0.shared.target.join(name));
        Stream { class, packets, path, named, file: None, at, failure: None }
    }

    /// Sets the context of the events from here on: the fields that [`context`](super::StreamClassBuilder::context) added.
    /// They are encoded once.
    ///
    /// # Errors
    /// When the values are not those of the fields.
    ///
    /// ```
    /// use tracemill::write::{Ctf2, string, u32};
    /// # fn main() -> tracemill::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("tracemill-context-doc-{}", std::process::id()));
    /// # let trace = Ctf2::create(&path)?;
    /// let app = trace.stream_class("app").context("tid", u32()).context("user", string()).build()?;
    /// let login = app.event_class("login").build()?;
    /// let mut out = app.stream("main")?;
    /// assert!(out.event(&login, 1, |e| e).is_err(), "nobody said the thread yet");
    /// out.set_context(|c| c.u32(4711).str("ada"))?;
    /// out.event(&login, 1, |e| e)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_context(
        &mut self,
        fields: impl for<'w, 'a> FnOnce(&'w mut FieldWriter<'a>) -> &'w mut FieldWriter<'a>,
    ) -> Result<()> {
        let set = self.packets.set_context(&self.class.0.layout, fields);
        set.map_err(|error| error.in_file(&self.named))
    }

    /// Sets the context of the packets from here on: the fields that
    /// [`packet_context`](super::StreamClassBuilder::packet_context) added. The packet that is being written ends.
    ///
    /// # Errors
    /// When the values are not those of the fields, or the disk does not take the packet.
    pub fn set_packet_context(
        &mut self,
        fields: impl for<'w, 'a> FnOnce(&'w mut FieldWriter<'a>) -> &'w mut FieldWriter<'a>,
    ) -> Result<()> {
        let set = self.packets.set_packet_context(&self.class.0.layout, fields);
        self.write_done()?;
        set.map_err(|error| error.in_file(&self.named))
    }

    /// Writes an event. `time` is the value of the stream's clock: nanoseconds since 1970 where no other was named.
    ///
    /// The closure gives the values in the order of the fields, those of the event's own context first. Members of
    /// structures follow one another without a call of their own.
    ///
    /// # Errors
    /// When the time is before that of the last event, the values are not those of the class, the class is not one of
    /// this stream, or the disk does not take a packet. But for the disk, the stream is then as if nothing had been
    /// asked.
    ///
    /// ```
    /// use tracemill::write::{Ctf2, string, u64};
    /// # fn main() -> tracemill::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("tracemill-event-doc-{}", std::process::id()));
    /// # let trace = Ctf2::create(&path)?;
    /// # let app = trace.stream_class("app").build()?;
    /// let request = app.event_class("request").field("id", u64()).field("path", string()).build()?;
    /// let mut out = app.stream("main")?;
    /// out.event(&request, 10, |e| e.u64(7).str("/x"))?;
    ///
    /// let error = out.event(&request, 11, |e| e.str("/x").u64(7)).unwrap_err();
    /// assert_eq!(error.message(), "expected an unsigned integer of 64 bits, not the string \"/x\"");
    /// assert_eq!(error.place().event.as_deref(), Some("request"));
    /// assert_eq!(error.place().field.as_deref(), Some("payload.id"));
    ///
    /// let error = out.event(&request, 9, |e| e.u64(7).str("/x")).unwrap_err();
    /// assert_eq!(error.message(), "the time 9 is before 10, that of the event before it");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn event(
        &mut self,
        class: &EventClass,
        time: u64,
        fields: impl for<'w, 'a> FnOnce(&'w mut FieldWriter<'a>) -> &'w mut FieldWriter<'a>,
    ) -> Result<()> {
        if !Arc::ptr_eq(&class.0.stream.0, &self.class.0) {
            return Err(self.in_event(class, Error::misuse("its event class is one of another stream class")));
        }
        if let Err(error) = self.packets.event(&class.0.layout, time, fields) {
            return Err(self.in_event(class, error));
        }
        if !self.packets.done().is_empty() {
            self.write_done()?;
        }
        Ok(())
    }

    /// Writes an event whose values the program learns while it runs: see [`FieldWriter::values`].
    ///
    /// # Errors
    /// As [`Stream::event`].
    ///
    /// ```
    /// use tracemill::write::{Ctf2, Value, list, string, u64};
    /// # fn main() -> tracemill::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("tracemill-values-doc-{}", std::process::id()));
    /// # let trace = Ctf2::create(&path)?;
    /// # let app = trace.stream_class("app").build()?;
    /// let sample = app.event_class("sample").field("name", string()).field("values", list(u64())).build()?;
    /// let mut out = app.stream("main")?;
    /// out.event_values(&sample, 10, &["load".into(), Value::from(vec![3u64, 1, 2])])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn event_values(&mut self, class: &EventClass, time: u64, values: &[Value]) -> Result<()> {
        self.event(class, time, |e| e.values(values))
    }

    /// Counts events that were discarded after the last one. The packet that is being written ends, so that readers see
    /// between which events they are missing.
    pub fn add_discarded(&mut self, count: u64) {
        self.packets.add_discarded(count);
    }

    /// Ends the packet that is being written, so that its bytes are in the file. Nothing without events.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn end_packet(&mut self) -> Result<()> {
        self.packets.end_packet();
        self.write_done()
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// When the disk does not take its last packet; the trace then cannot be finished.
    pub fn finish(mut self) -> Result<()> {
        self.packets.end().map_err(|error| error.in_file(&self.named))?;
        self.write_done()?;
        self.class.0.shared.finish_stream(self.at);
        Ok(())
    }

    /// Writes the packets that are whole.
    fn write_done(&mut self) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let done = self.packets.done();
        if done.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => Ok(file),
            // The folder is not made again: without it the trace was dropped.
            none => File::create_new(&self.path).map(|file| none.insert(file)),
        };
        let written = file.and_then(|file| file.write_all(done));
        done.clear();
        written.map_err(|error| {
            let error = Error::io("write the stream", &self.named, &error);
            self.failure = Some(error.clone());
            error
        })
    }

    #[cold]
    fn in_event(&self, class: &EventClass, error: Error) -> Error {
        error.in_file(&self.named).in_event(&*class.0.name)
    }
}
