//! The file while it grows. Its head states the records that are there after each round, so it can be read at every instant,
//! whatever becomes of the recorder; the features follow at the end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tracemill_model::error::{Error, Result};
use tracemill_perf::records::{HEADER, kind, misc};
use tracemill_perf::write::{self, FeatureBuilder, SAMPLE_TIME_AT, WrittenEvent};

/// Where the head says how many bytes of records there are.
const RECORD_BYTES_AT: u64 = 48;
/// Records that a full disk did not take and that later ones need: so many bytes are kept for when there is room.
const MAX_KEPT: usize = 16 << 20;
/// Files of code whose build ids are looked for.
const MAX_FILES: usize = 1 << 16;

/// The file of a recording.
#[derive(Debug)]
pub(crate) struct SampleFile {
    file: File,
    path: PathBuf,
    /// The earlier recording, under the name that it has now.
    old: Option<PathBuf>,
    /// Where records begin and end.
    begin: u64,
    end: u64,
    /// Has the head the present end?
    is_stated: bool,
    pub(crate) seen: SeenRecords,
    /// Records for which there was no room, without samples and switches.
    kept: Vec<u8>,
    /// The number of the others.
    unwritten: u64,
    /// The first error.
    pub(crate) failed: Option<io::Error>,
}

/// Facts out of the records.
#[derive(Debug, Default)]
pub(crate) struct SeenRecords {
    /// Samples in the file.
    pub(crate) samples: u64,
    /// Records that the kernel had no room for, or the disk.
    pub(crate) lost: u64,
    /// Times of the first and the last sample.
    pub(crate) times: Option<(u64, u64)>,
    /// Files of code, with the build ids that records have.
    pub(crate) files: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

fn u64_at(record: &[u8], at: usize) -> Option<u64> {
    record.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

/// Records one after the other: the type, the flags, and all bytes.
fn records(bytes: &[u8]) -> impl Iterator<Item = (u32, u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let head: [u8; HEADER] = *rest.first_chunk()?;
        let [a, b, c, d, misc @ .., low, high] = head;
        let record = rest.get(..usize::from(u16::from_le_bytes([low, high])).max(HEADER))?;
        rest = &rest[record.len()..];
        Some((u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes(misc), record))
    })
}

impl SeenRecords {
    fn add(&mut self, bytes: &[u8]) {
        for (kind, misc, record) in records(bytes) {
            match kind {
                kind::SAMPLE => {
                    self.samples += 1;
                    if let Some(time) = u64_at(record, SAMPLE_TIME_AT) {
                        let (first, last) = self.times.unwrap_or((time, time));
                        self.times = Some((first.min(time), last.max(time)));
                    }
                }
                kind::LOST => self.lost += u64_at(record, 16).unwrap_or(0),
                kind::MMAP2 if misc & misc::MMAP_DATA == 0 => self.add_file(misc, record),
                _ => {}
            }
        }
    }

    fn add_file(&mut self, misc: u16, record: &[u8]) {
        let Some((head, path)) = record.split_at_checked(72) else { return };
        let path = &path[..path.iter().position(|byte| *byte == 0).unwrap_or(path.len())];
        if !path.starts_with(b"/") || path.starts_with(b"//") || self.files.len() >= MAX_FILES {
            return;
        }
        let has_id = misc & misc::MMAP_BUILD_ID != 0;
        let id = has_id.then(|| head[44..][..usize::from(head[40]).min(20)].to_vec());
        self.files.insert(path.to_vec(), id);
    }
}

impl SampleFile {
    /// Makes the file; an earlier recording becomes `.old`.
    pub(crate) fn create(path: &Path, events: &[WrittenEvent]) -> Result<SampleFile> {
        let failed = |error: io::Error| Error::io("make the recording", path, &error);
        let old = is_earlier(path)?.then(|| {
            let mut old = OsString::from(path);
            old.push(".old");
            PathBuf::from(old)
        });
        if let Some(old) = &old {
            fs::rename(path, old).map_err(failed)?;
        }
        // Copied stacks may hold secrets of the program.
        let file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let beginning = write::beginning(events);
        let begin = beginning.len() as u64;
        let made = SampleFile {
            file,
            path: path.to_path_buf(),
            old,
            begin,
            end: begin,
            is_stated: true,
            seen: SeenRecords::default(),
            kept: Vec::new(),
            unwritten: 0,
            failed: None,
        };
        match made.file.write_all_at(&beginning, 0) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.remove();
                Err(failed(error))
            }
        }
    }

    /// Removes a recording that did not begin, and gives the earlier one its name again.
    pub(crate) fn remove(self) {
        // Best effort: the reason why it did not begin is reported.
        let _ = match &self.old {
            Some(old) => fs::rename(old, &self.path),
            None => fs::remove_file(&self.path),
        };
    }

    /// Adds records.
    pub(crate) fn write(&mut self, records: &[u8]) {
        if records.is_empty() {
            return;
        }
        if self.kept.is_empty() && self.unwritten == 0 {
            return match self.file.write_all_at(records, self.end) {
                Ok(()) => {
                    self.end += records.len() as u64;
                    self.is_stated = false;
                    self.seen.add(records);
                }
                Err(error) => self.keep(records, error),
            };
        }
        // Records that had no room are older, so they come first, with the number of those that are missing.
        let lost = write::lost_record(0, self.unwritten);
        let before = [&self.kept[..], if self.unwritten > 0 { &lost } else { &[] }].concat();
        if let Err(error) = self.file.write_all_at(&before, self.end) {
            return self.keep(records, error);
        }
        self.end += before.len() as u64;
        self.is_stated = false;
        self.seen.add(&before);
        self.kept.clear();
        self.unwritten = 0;
        self.write(records);
    }

    /// Keeps of records what later ones need, since there is no room.
    fn keep(&mut self, bytes: &[u8], error: io::Error) {
        self.failed.get_or_insert(error);
        for (kind, _, record) in records(bytes) {
            let is_needed =
                matches!(kind, kind::MMAP | kind::MMAP2 | kind::COMM | kind::FORK | kind::EXIT | kind::LOST);
            if is_needed && self.kept.len() + record.len() <= MAX_KEPT {
                self.kept.extend(record);
            } else {
                self.unwritten += 1;
            }
        }
    }

    /// Ends a round over all rings: the head states what is there.
    pub(crate) fn end_round(&mut self) {
        if self.is_stated {
            return;
        }
        let round = write::finished_round();
        let ended = self.file.write_all_at(&round, self.end).and_then(|()| {
            self.end += round.len() as u64;
            self.file.write_all_at(&(self.end - self.begin).to_le_bytes(), RECORD_BYTES_AT)
        });
        match ended {
            Ok(()) => self.is_stated = true,
            Err(error) => {
                self.failed.get_or_insert(error);
            }
        }
    }

    /// Writes the features, and the head that names them. The rest of the file stays as it is if there is no room.
    pub(crate) fn finish(&mut self, events: &[WrittenEvent], features: &FeatureBuilder) {
        self.end_round();
        self.seen.lost += self.unwritten;
        let finished = (|| {
            // Of a record that had no room a part may stand there.
            self.file.set_len(self.end)?;
            self.file.write_all_at(&features.tail(self.end), self.end)?;
            self.file.write_all_at(&write::head(events, self.end - self.begin, features), 0)
        })();
        if let Err(error) = finished {
            let _ = self.file.set_len(self.end);
            self.failed.get_or_insert(error);
        }
    }
}

/// Is a recording of samples there? Nothing else is replaced.
fn is_earlier(path: &Path) -> Result<bool> {
    let refused = |why: &str| Err(Error::misuse(why).in_file(path).with_help("give the file another name with -o"));
    match fs::metadata(path) {
        Err(_) => Ok(false),
        Ok(of) if of.is_dir() => refused("the output is a folder"),
        Ok(_) => {
            let mut begin = Vec::new();
            let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut begin));
            match read.is_ok() && (begin.is_empty() || begin == b"PERFILE2") {
                true => Ok(true),
                false => refused("it exists and is not a recording of samples"),
            }
        }
    }
}
