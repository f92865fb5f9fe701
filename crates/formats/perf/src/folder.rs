//! Folders of `perf record --threads`: the file `data` has the head and the records of perf itself, and `data.0`, `data.1`, .. those of
//! the threads that read the rings. They are put together in the order of time (`SPEC.md`, section 14).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_format::{EntryKind, Storage};
use tracemill_model::error::{Error, Result};

use super::file::{IdCache, PerfFile};
use super::records::{PerfRecord, Records, kind};
use super::unpack::unpack;

/// Files of threads, at most.
const MAX_FILES: usize = 1 << 14;
/// Faults of each file that are reported.
const MAX_FAULTS: usize = 16;

/// The files of threads next to the one with the head, in the order of their numbers.
pub(crate) fn files_beside(storage: &dyn Storage, head: &Path) -> Vec<PathBuf> {
    let prefix = format!("{}.", head.file_name().unwrap_or_default().to_string_lossy());
    let entries = head.parent().and_then(|folder| storage.list(folder).ok()).unwrap_or_default();
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix(&prefix)?.parse::<u32>().ok();
    let files = entries.into_iter().filter(|entry| matches!(entry.kind, EntryKind::File(_)));
    let mut files: Vec<(u32, PathBuf)> = files.filter_map(|entry| Some((number(&entry.path)?, entry.path))).collect();
    files.sort();
    files.truncate(MAX_FILES);
    files.into_iter().map(|(_, path)| path).collect()
}

/// A file: its path, its bytes, and where its records are.
type ThreadFile<'p> = (&'p Path, Arc<dyn Bytes>, (usize, usize));

/// The records of a file on their way.
struct ThreadRecords<'b> {
    records: Records<'b>,
    next: Option<PerfRecord<'b>>,
    /// The time of the last record that had one: those without follow it.
    time: u64,
    path: &'b Path,
    faults: Vec<Error>,
}

impl<'b> ThreadRecords<'b> {
    /// Goes to the next record.
    fn advance(&mut self, file: &PerfFile, ids: &mut IdCache) {
        self.next = None;
        while let Some(record) = self.records.next() {
            match record {
                // Each thread ends rounds of its own, which say nothing about the others.
                Ok(record) if record.kind == kind::FINISHED_ROUND => {}
                Ok(record) => {
                    let event = file.event_of(&record, ids);
                    let time = file.sample_id(event, &record).time;
                    self.time = time.map_or(self.time, |time| time.max(self.time));
                    self.next = Some(record);
                    return;
                }
                Err(error) if self.faults.len() < MAX_FAULTS => self.faults.push(error.in_file(self.path)),
                Err(_) => {}
            }
        }
    }
}

/// All records of a folder, one after the other, and what cannot be read.
///
/// # Errors
/// When a file cannot be read, or there is no room for the records.
pub(crate) fn join(
    storage: &dyn Storage,
    file: &PerfFile,
    (head, bytes): (&Path, &Arc<dyn Bytes>),
    files: &[PathBuf],
) -> Result<(Arc<dyn Bytes>, Vec<Error>)> {
    let mut faults = Vec::new();
    let mut contents: Vec<ThreadFile<'_>> = vec![(head, bytes.clone(), file.data)];
    for path in files {
        match storage.open(path) {
            Ok(bytes) => {
                let len = bytes.bytes().len();
                contents.push((path, bytes, (0, len)));
            }
            Err(error) => faults.push(error.in_file(path)),
        }
    }
    if file.is_compressed {
        for (path, bytes, place) in &mut contents {
            let (unpacked, found) = unpack(storage, bytes.bytes(), file.order, *place)?;
            faults.extend(found.into_iter().map(|error| error.in_file(path)));
            let len = unpacked.bytes().len();
            (*bytes, *place) = (unpacked, (0, len));
        }
    }
    let mut ids = IdCache::default();
    let mut open: Vec<ThreadRecords<'_>> = Vec::with_capacity(contents.len());
    for (path, bytes, (from, to)) in &contents {
        let records = Records::new(bytes.bytes(), file.order, *from, *to);
        let mut thread = ThreadRecords { records, next: None, time: 0, path, faults: Vec::new() };
        thread.advance(file, &mut ids);
        open.push(thread);
    }
    let mut sink = storage.unpacked();
    let waiting = open.iter().enumerate().filter(|(_, thread)| thread.next.is_some());
    let mut order: BinaryHeap<Reverse<(u64, usize)>> = waiting.map(|(at, thread)| Reverse((thread.time, at))).collect();
    while let Some(Reverse((_, at))) = order.pop() {
        let thread = &mut open[at];
        if let Some(record) = &thread.next {
            sink.write(record.bytes)?;
            sink.write(record.extra)?;
        }
        thread.advance(file, &mut ids);
        if thread.next.is_some() {
            order.push(Reverse((thread.time, at)));
        }
    }
    faults.extend(open.into_iter().flat_map(|thread| thread.faults));
    Ok((sink.finish()?, faults))
}
