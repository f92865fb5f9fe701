//! Rings of our own recorder: packets that were not moved to stream files, since the program still runs or was killed.

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_format::{EntryKind, FirstBytes, Storage};
use tracemill_model::error::Error;
use tracemill_ring::{self as ring, Header, SlotContents};

/// The rings of a trace.
#[derive(Default)]
pub(super) struct Rings {
    rings: Vec<EventRing>,
    /// Files that should be rings and are not.
    pub(super) faults: Vec<Error>,
}

/// A ring of events.
struct EventRing {
    number: u64,
    path: std::path::PathBuf,
    header: Header,
    bytes: Arc<dyn Bytes>,
    /// The last packet that its stream file holds, and its sequence number.
    last: Option<Vec<u8>>,
    moved: Option<u64>,
}

/// The packets of a ring, as its stream file would hold them.
pub(super) struct RingFile {
    /// The file of the ring.
    pub(super) path: std::path::PathBuf,
    /// The name of the stream file.
    pub(super) name: String,
    /// The packets.
    pub(super) bytes: Vec<u8>,
    /// Reasons why slots are left out.
    pub(super) faults: Vec<Error>,
}

impl Rings {
    /// Finds the rings of the trace in this folder.
    pub(super) fn open(storage: &dyn Storage, folder: &Path) -> Rings {
        let mut rings = Rings::default();
        let folder = folder.join(ring::FOLDER);
        if storage.kind(&folder) != Some(EntryKind::Directory) {
            return rings;
        }
        for entry in storage.list(&folder).unwrap_or_default() {
            let (Some(number), EntryKind::File(_)) = (ring::number_of(&entry.name), entry.kind) else { continue };
            let read = storage.open(&entry.path).and_then(|bytes| {
                let header = Header::read(bytes.bytes(), bytes.bytes().len() as u64).map_err(Error::malformed)?;
                Ok((header, bytes))
            });
            match read {
                Ok((header, bytes)) if header.kind == SlotContents::Events => {
                    rings.rings.push(EventRing { number, path: entry.path, header, bytes, last: None, moved: None });
                }
                Ok(_) => {}
                Err(error) => rings.faults.push(error.in_file(&entry.path)),
            }
        }
        rings
    }

    /// The whole packets of a stream file. What follows them in the file of a ring's stream was being written when the
    /// program died; the ring has it.
    pub(super) fn whole_packets(&mut self, name: &str, bytes: Arc<dyn Bytes>) -> Arc<dyn Bytes> {
        let Some(ring) = self.rings.iter_mut().find(|one| ring::stream_name(one.number) == name) else { return bytes };
        let end = ring::stream_end_of(bytes.bytes());
        ring.moved = end.sequence;
        let header = bytes.bytes().get(end.last_offset as usize..).and_then(|last| last.get(..ring::packet::LEN));
        ring.last = header.filter(|_| end.len > 0).map(<[u8]>::to_vec);
        FirstBytes::of(bytes, end.len as usize)
    }

    /// A sentence about rings that are read, if there are any.
    pub(super) fn warning(&self, folder: &Path) -> Option<Error> {
        let first = self.rings.first()?;
        let (count, pid) = (self.rings.len(), first.header.pid);
        let rings = match count {
            1 => "1 ring is read as it is".to_string(),
            count => format!("{count} rings are read as they are"),
        };
        let message = format!("process {pid} has not finished recording: {rings}");
        let help = format!("`tracemill record --recover {}` makes it a trace for other readers", folder.display());
        Some(Error::inconsistent(message).in_file(folder).with_help(help))
    }

    /// The packets that are in rings only.
    pub(super) fn into_files(self) -> impl Iterator<Item = RingFile> {
        self.rings.into_iter().map(EventRing::into_file)
    }
}

impl EventRing {
    fn into_file(self) -> RingFile {
        let slots = ring::slots(&self.header, self.bytes.bytes(), self.moved);
        let (mut bytes, mut last) = (Vec::new(), self.last);
        for slot in &slots.packets {
            // A slot that was written over while it was copied is gone.
            let Some(copy) = ring::copy_of(&self.header, self.bytes.bytes(), slot) else { continue };
            last = copy.get(..ring::packet::LEN).map(<[u8]>::to_vec);
            bytes.extend_from_slice(&copy);
        }
        bytes.extend(ring::closing_packet(&self.header, self.number, last.as_deref()).unwrap_or_default());
        let fault = |message: String| Error::malformed(message).in_file(&self.path);
        let faults = slots.damaged.into_iter().map(fault).collect();
        RingFile { path: self.path, name: ring::stream_name(self.number), bytes, faults }
    }
}
