//! Helpers that tests of formats share: files in memory, read and written, and events as text.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink, PacketData};
use tracemill_codec::plan::DecoderState;
use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::schema::Origin;

use crate::format::Format;
use crate::lost::Losses;
use crate::open::{FoundTrace, OpenContext, OpenTrace};
use crate::sink::{Extent, OutPath, Sink, SinkFile};
use crate::storage::{Entry, EntryKind, Storage};
use crate::target::{Source, SourceStream, Target, WriteOptions};

/// One file in memory, under any path.
pub struct OneFile(Arc<Vec<u8>>);

impl OneFile {
    /// A file of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        OneFile(Arc::new(bytes.into()))
    }

    /// Does a format recognize it?
    pub fn is_of(&self, format: &Format) -> bool {
        (format.probe)(self, Path::new("t"))
    }

    /// The file as a trace of a format.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_as(&self, format: &Format) -> Result<OpenTrace> {
        let found = FoundTrace { path: "t".into(), name: "t".into(), below: String::new() };
        (format.open)(&OpenContext::new(self), &[found]).remove(0)
    }
}

impl Storage for OneFile {
    fn list(&self, _: &Path) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }

    fn kind(&self, _: &Path) -> Option<EntryKind> {
        Some(EntryKind::File(self.0.len() as u64))
    }

    fn open(&self, _: &Path) -> Result<Arc<dyn Bytes>> {
        Ok(self.0.clone())
    }
}

/// Bytes of a file in memory.
type MadeBytes = Arc<Mutex<Vec<u8>>>;

/// The files that a writer makes, in memory.
#[derive(Clone, Default)]
pub struct MadeFiles(Arc<Mutex<BTreeMap<PathBuf, MadeBytes>>>);

impl MadeFiles {
    /// Writes a trace in the format of a target at the path `out`, stream after stream. `change` may change what the
    /// writer knows of the trace.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn convert(
        &self,
        trace: &OpenTrace,
        target: &Target,
        options: &WriteOptions,
        change: impl FnOnce(&mut Source),
    ) -> Result<Losses> {
        let mut source = source_of(trace)?;
        change(&mut source);
        let path = OutPath::new(Arc::new(self.clone()), "out");
        let mut writer = (target.create)(&path, &[source], options)?;
        for (at, stream) in trace.streams.iter().enumerate() {
            for packet in 0..stream.packets.len() {
                let chunk = events_of(trace.reader.open_packet(&trace.plans, stream, packet, 0)?.data);
                (0..chunk.len()).try_for_each(|event| writer.event(at, chunk.event(event)))?;
            }
            writer.end_stream(at)?;
        }
        writer.finish()
    }

    /// The files by their paths below `out`, which is empty for the file `out` itself.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let name = |path: &Path| path.strip_prefix("out").unwrap_or(path).display().to_string();
        let files = locked(&self.0);
        files.iter().map(|(path, content)| (name(path), locked(content).clone())).collect()
    }

    fn add(&self, path: &Path) -> Box<dyn SinkFile> {
        let content = MadeBytes::default();
        locked(&self.0).insert(path.to_path_buf(), content.clone());
        Box::new(MadeFile { content, at: 0 })
    }
}

/// A trace as a writer gets it.
fn source_of(trace: &OpenTrace) -> Result<Source> {
    let parts = trace.reader.parts()?;
    let origin = Origin {
        format: trace.schema.format.to_string(),
        version: trace.schema.version,
        parts: parts.clone(),
        ..Origin::default()
    };
    let streams = trace.streams.iter().map(|stream| SourceStream {
        name: stream.name.clone(),
        origin_name: stream.name.clone(),
        class: stream.class,
        id: stream.id,
        is_joined: false,
    });
    Ok(Source {
        name: trace.name.clone(),
        own_name: trace.own_name.clone(),
        schema: trace.schema.clone(),
        correction_ns: 0,
        origin: Arc::new(origin),
        drift: None,
        parts,
        streams: streams.collect(),
        tasks: Vec::new(),
    })
}

/// A test that fails with a lock held has failed already.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sink for MadeFiles {
    fn make_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        Ok(self.add(path))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        let is_there = locked(&self.0).contains_key(path);
        if is_there { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(self.add(path)) }
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        let content = locked(&self.0).get(path).cloned().ok_or(io::ErrorKind::NotFound)?;
        let at = locked(&content).len();
        Ok(Box::new(MadeFile { content, at }))
    }

    fn temporary(&self, _: &Path) -> io::Result<Box<dyn SinkFile>> {
        Ok(Box::new(MadeFile { content: MadeBytes::default(), at: 0 }))
    }

    fn extent(&self, path: &Path) -> Option<Extent> {
        let files = locked(&self.0);
        let mut below = files.iter().filter(|(name, _)| name.starts_with(path)).peekable();
        below.peek()?;
        let add = |sum: Extent, (_, content): (&PathBuf, &MadeBytes)| Extent {
            files: sum.files + 1,
            bytes: sum.bytes + locked(content).len() as u64,
        };
        Some(below.fold(Extent::default(), add))
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// One of them, open.
struct MadeFile {
    content: MadeBytes,
    at: usize,
}

impl Read for MadeFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = locked(&self.content).get(self.at..).unwrap_or_default().read(out)?;
        self.at += count;
        Ok(count)
    }
}

impl Write for MadeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut content = locked(&self.content);
        let end = self.at + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[self.at..end].copy_from_slice(bytes);
        self.at = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for MadeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(at) => (0, at as i64),
            SeekFrom::Current(by) => (self.at as i64, by),
            SeekFrom::End(by) => (locked(&self.content).len() as i64, by),
        };
        self.at = usize::try_from(base + by).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(self.at as u64)
    }
}

impl SinkFile for MadeFile {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        locked(&self.content).resize(len as usize, 0);
        Ok(())
    }
}

/// All events of a packet.
pub fn events_of(packet: PacketData) -> Chunk {
    let packet = Arc::new(packet);
    let mut chunk = Chunk::new(packet.clone(), packet.first_event(), 1 << 16);
    let mut sink = ChunkSink::new(&mut chunk, usize::MAX);
    packet.scan(&mut packet.first_event(), &mut DecoderState::default(), &mut sink);
    chunk
}

/// A value as text: members with their names, texts in quotes.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        other => shown_by(other, &shown),
    }
}

/// As [`shown`], with texts as they are.
pub fn shown_plain(value: &Value) -> String {
    match value {
        Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => shown_by(other, &shown_plain),
    }
}

fn shown_by(value: &Value, inner: &dyn Fn(&Value) -> String) -> String {
    let joined = |texts: Vec<String>| texts.join(" ");
    match value {
        Value::Struct(members) => {
            joined(members.iter().map(|(name, value)| format!("{name}={}", inner(value))).collect())
        }
        Value::List(items) => format!("[{}]", joined(items.iter().map(inner).collect())),
        Value::Unsigned(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Null => "null".into(),
        other => format!("{other:?}"),
    }
}
