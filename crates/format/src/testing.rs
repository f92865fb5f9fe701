//! Helpers that tests of formats share: a file in memory, and its events as text.

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink, PacketData};
use tracemill_codec::plan::DecoderState;
use tracemill_codec::value::Value;
use tracemill_model::error::Result;

use crate::format::Format;
use crate::open::{FoundTrace, OpenContext, OpenTrace};
use crate::storage::{Entry, EntryKind, Storage};

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
