//! Traces that are still being written, as far as they are whole.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_engine::session::Session;
use tracemill_engine::source::FileSystem;
use tracemill_format::{Entry, EntryKind, FirstBytes, OpenTrace, Storage, UnpackedSink};
use tracemill_ftrace::parts;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::packet_list::PacketList;

use crate::metadata;

/// The file system, without what is being written: declarations that came in part, lines without an end. A `trace.dat` that is
/// still recorded is a folder of its parts.
#[derive(Clone, Debug, Default)]
pub struct UnfinishedFiles {
    /// Files that are not there yet, but as parts.
    in_parts: Vec<PathBuf>,
}

impl UnfinishedFiles {
    /// The files of some inputs.
    pub fn of(inputs: &[PathBuf]) -> UnfinishedFiles {
        UnfinishedFiles { in_parts: inputs.iter().filter(|input| has_parts(input)).cloned().collect() }
    }

    /// Where a path is on disk.
    fn real<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        let is_in_parts = |path: &Path| self.in_parts.iter().any(|own| own == path);
        match (path.parent(), path.file_name()) {
            _ if self.in_parts.is_empty() => Cow::Borrowed(path),
            _ if is_in_parts(path) => Cow::Owned(parts::folder(path)),
            (Some(parent), Some(name)) if is_in_parts(parent) => Cow::Owned(parts::folder(parent).join(name)),
            _ => Cow::Borrowed(path),
        }
    }
}

/// Is a file still recorded, so that it is there in parts?
pub(crate) fn has_parts(output: &Path) -> bool {
    parts::folder(output).join(parts::HEAD).is_file()
}

/// The length up to the last whole line.
fn whole_lines(text: &[u8]) -> usize {
    text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

impl Storage for UnfinishedFiles {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let mut entries = FileSystem.list(&self.real(directory))?;
        entries.iter_mut().for_each(|entry| entry.path = directory.join(entry.path.file_name().unwrap_or_default()));
        Ok(entries)
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        // An index is written before or after its packets; headers say the same.
        let is_index = path.parent().is_some_and(|folder| folder.file_name().is_some_and(|name| name == "index"));
        FileSystem.kind(&self.real(path)).filter(|_| !is_index)
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let bytes = FileSystem.open(&self.real(file))?;
        let all = bytes.bytes();
        let extension = file.extension().and_then(|extension| extension.to_str());
        let len = match (file.file_name().and_then(|name| name.to_str()), all.first()) {
            (Some("metadata"), _) => metadata::whole_len(all),
            // Tasks and maps of uftrace.
            (Some("task.txt"), _) => whole_lines(all),
            _ if extension == Some("map") => whole_lines(all),
            // Lines of JSON.
            (_, Some(b'{')) => whole_lines(all),
            _ => all.len(),
        };
        Ok(FirstBytes::of(bytes, len))
    }

    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>> {
        FileSystem.read_start(&self.real(file), len)
    }

    fn is_unfinished(&self) -> bool {
        true
    }

    fn unpacked(&self) -> Box<dyn UnpackedSink> {
        FileSystem.unpacked()
    }

    fn canonical(&self, path: &Path) -> PathBuf {
        match self.real(path) {
            Cow::Borrowed(path) => FileSystem.canonical(path),
            Cow::Owned(_) => path.to_path_buf(),
        }
    }
}

/// Leaves out of traces what is being written: packets that are not whole, and what was found wrong after the last whole one.
pub fn leave_unfinished(session: &mut Session) {
    leave_notes(session);
    session.traces.iter_mut().for_each(leave_unfinished_packets);
}

/// Leaves out that rings are read as they are: they are read so on purpose.
pub(crate) fn leave_notes(session: &mut Session) {
    for trace in &mut session.traces {
        trace.warnings.retain(|warning| !warning.message().contains("has not finished recording"));
    }
}

fn leave_unfinished_packets(trace: &mut OpenTrace) {
    for stream in &mut trace.streams {
        let Some(last) = stream.packets.last() else { continue };
        let path = &stream.files[last.file as usize].path;
        let is_in_last =
            |fault: &Error| fault.place().file.as_ref() == Some(path) && fault.place().packet == Some(last.index);
        let is_cut = trace.faults.iter().any(|fault| fault.kind() == ErrorKind::Truncated && is_in_last(fault));
        let end = if is_cut { last.offset_bytes } else { last.offset_bytes + last.total_bits / 8 };
        if is_cut {
            let mut whole = PacketList::default();
            stream.packets.range(0..stream.packets.len() - 1).for_each(|packet| whole.push(&packet));
            stream.packets = whole;
        }
        trace.faults.retain(|fault| {
            let is_after = fault.place().offset.is_none_or(|offset| offset >= end);
            fault.place().file.as_ref() != Some(path) || !is_after
        });
    }
    // A file whose first packet is not whole has no stream.
    let known: Vec<PathBuf> = trace.data_files().map(|file| file.path.clone()).collect();
    let is_new = |error: &Error| {
        let file = error.place().file.as_ref();
        file.is_some_and(|file| !known.contains(file) && file.file_name().is_some_and(|name| name != "metadata"))
    };
    trace.faults.retain(|fault| !is_new(fault));
    trace.warnings.retain(|warning| !is_new(warning));
}
