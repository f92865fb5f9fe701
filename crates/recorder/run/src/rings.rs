//! Rings of calls: their records go to the files of tasks, with times in place of clock values.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tracemill_ring::{self as ring, Header, Kind, Pair, header};

use crate::times::Times;

/// Length of a record in bytes.
const RECORD: usize = 16;
/// The kind of a record that counts lost ones.
const LOST: u64 = 2;
/// The marker that every record has in its second word.
const MARKER: u64 = 5 << 3;
/// The bits of the marker.
const MARKERS: u64 = 7 << 3;
/// Values follow, with their length before them, which the files of tasks do not have.
const MORE: u64 = 4;
/// Where this process notes in a ring how long the file of its task was before a slot, whose number stands before that, and
/// the time of the last record before it.
const NOTE: u64 = 96;

/// The rings of a recording, and the files that they become.
pub(crate) struct Rings {
    folder: PathBuf,
    output: PathBuf,
    known: BTreeMap<u64, Ring>,
    tasks: BTreeMap<u32, Task>,
    /// Records that had no room.
    pub(crate) lost: u64,
    /// The first error of files that could not be written.
    pub(crate) failed: Option<io::Error>,
    /// Does recording go on after such an error? What cannot be written is lost then; otherwise it stays in its ring.
    goes_on: bool,
}

struct Ring {
    path: PathBuf,
    /// Open where few others are.
    file: Option<File>,
    header: Header,
    taken: u64,
    /// Clock of its last record.
    clock: u64,
    /// Lost records that its records count.
    lost: u64,
}

struct Task {
    path: PathBuf,
    /// Open while something comes.
    file: Option<File>,
    records: u64,
    /// Time of its last record.
    last: u64,
    /// Records that could not be written, and that no record counts yet.
    unwritten: u64,
}

/// Files of tasks, and rings, that are open at the same time, at most: processes may have thousands of threads.
const OPEN_TASKS: usize = 60;
const OPEN_RINGS: usize = 100;

impl Task {
    fn new(path: PathBuf, last: u64) -> Task {
        Task { path, file: None, records: 0, last, unwritten: 0 }
    }

    fn file(&mut self) -> io::Result<&File> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(File::options().append(true).create(true).open(&self.path)?)),
        }
    }

    /// Appends records, or nothing: a part of them would end inside of one.
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        let mut file = self.file()?;
        let before = file.metadata()?.len();
        file.write_all(records).inspect_err(|_| {
            let _ = file.set_len(before);
        })
    }
}

impl Rings {
    /// Takes rings of `folder`, and writes to files of `output`; with `goes_on` also when some cannot be written.
    pub(crate) fn new(folder: &Path, output: &Path, goes_on: bool) -> Rings {
        Rings {
            folder: folder.to_path_buf(),
            output: output.to_path_buf(),
            known: BTreeMap::new(),
            tasks: BTreeMap::new(),
            lost: 0,
            failed: None,
            goes_on,
        }
    }

    /// Finds new rings.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(number) = ring::number_of(&entry.file_name().to_string_lossy()) else { continue };
            if self.known.contains_key(&number) {
                continue;
            }
            let header = read_header(&open_ring(&entry.path())?)?;
            if header.kind == Kind::Calls {
                let (path, taken) = (entry.path(), header.taken);
                self.known.insert(number, Ring { path, file: None, taken, header, clock: 0, lost: 0 });
            }
        }
        Ok(())
    }

    /// Readings of the clocks that a dead recorder left.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let mut pairs: Vec<_> = self.known.values().flat_map(|ring| ring.header.pairs.iter().copied()).collect();
        pairs.sort_by_key(|pair| pair.cycles);
        pairs
    }

    /// Writes a reading of the clocks to all rings, for the case that this process dies.
    pub(crate) fn keep_pair(&self, number: u64, pair: Pair) {
        for ring in self.known.values() {
            // Without it times are less exact after a crash, no more.
            let opened = if ring.file.is_none() { open_ring(&ring.path).ok() } else { None };
            let Some(file) = ring.file.as_ref().or(opened.as_ref()) else { continue };
            let at = header::PAIRS as u64 + number % header::PAIRS_KEPT * header::PAIR_LEN as u64;
            let values = [pair.cycles, pair.monotonic_ns, pair.realtime_ns as u64];
            let bytes: Vec<u8> = values.into_iter().flat_map(u64::to_le_bytes).collect();
            let kept = file.write_all_at(&bytes, at);
            let _ = kept.and_then(|()| file.write_all_at(&(number + 1).to_le_bytes(), header::PAIR_COUNT as u64));
        }
    }

    /// Takes all slots that are full, and the open ones of threads that are over. Returns how many rings are left, and
    /// whether there was something to take.
    pub(crate) fn drain(&mut self, times: &Times, is_dead: &dyn Fn(u32) -> bool) -> io::Result<(usize, bool)> {
        let numbers: Vec<u64> = self.known.keys().copied().collect();
        // After `exec` the thread of the same id has another ring.
        let mut newest = BTreeMap::new();
        for (number, ring) in &self.known {
            newest.insert(ring.header.tid, *number);
        }
        let mut is_busy = false;
        let mut open = self.known.values().filter(|ring| ring.file.is_some()).count();
        for number in numbers {
            let Some(mut ring) = self.known.remove(&number) else { continue };
            let file = match ring.file.take() {
                Some(file) => {
                    open -= 1;
                    file
                }
                None => open_ring(&ring.path)?,
            };
            // Before the slots: what a thread wrote before it ended is there then.
            let state = read_header(&file)?;
            let is_over =
                state.state != header::WRITING || newest[&ring.header.tid] != number || is_dead(ring.header.pid);
            let done = read_header(&file)?.done;
            while ring.taken < done {
                self.take(&mut ring, &file, times, false)?;
                ring.taken += 1;
                file.write_all_at(&ring.taken.to_le_bytes(), header::TAKEN as u64)?;
                is_busy = true;
            }
            if is_over {
                self.take(&mut ring, &file, times, true)?;
                fs::remove_file(&ring.path)?;
                if let Some(task) = self.tasks.get_mut(&ring.header.tid) {
                    task.file = None;
                }
            } else {
                if open < OPEN_RINGS {
                    ring.file = Some(file);
                    open += 1;
                }
                self.known.insert(number, ring);
            }
        }
        Ok((self.known.len(), is_busy))
    }

    /// Appends the records of the next slot to the file of its task: of a slot that is full, or of the last one, which may
    /// not even have been begun. What stands there from the round before is older.
    fn take(&mut self, ring: &mut Ring, file: &File, times: &Times, is_last: bool) -> io::Result<()> {
        let mut slot = vec![0; ring.header.slot_size as usize];
        file.read_exact_at(&mut slot, ring.header.slot_offset(ring.taken))?;
        let tid = ring.header.tid;
        let mut last = match self.tasks.get(&tid) {
            Some(task) => task.last,
            None => {
                let mut noted = [0; 8];
                file.read_exact_at(&mut noted, NOTE + 16)?;
                let path = self.output.join(format!("{tid}.dat"));
                if number(&noted) > 0 { number(&noted) } else { last_time(&path)? }
            }
        };
        let unwritten = self.tasks.get(&tid).map_or(0, |task| task.unwritten);
        let before_slot = last;
        let mut kept = Vec::with_capacity(slot.len());
        let mut records = 0;
        let mut keep = |time: u64, word: u64, values: &[u8]| {
            kept.extend_from_slice(&time.to_le_bytes());
            kept.extend_from_slice(&word.to_le_bytes());
            kept.extend_from_slice(values);
            records += 1;
        };
        // Records of lost ones, and how many those are.
        let mut told = (0, 0);
        if unwritten > 0 {
            told = (1, unwritten);
            keep(0, LOST | MARKER | unwritten << 16, &[]);
        }
        let mut rest = slot.as_slice();
        while let Some((record, behind)) = rest.split_at_checked(RECORD) {
            rest = behind;
            let (clock, word) = (number(&record[..8]), number(&record[8..]));
            // A record that was being written when its thread died: without a marker, but with its length when it is longer.
            if word & MARKERS != MARKER {
                let len = usize::try_from(word >> 16).unwrap_or(0).saturating_sub(1).saturating_mul(RECORD);
                rest = rest.get(len..).unwrap_or_default();
                continue;
            }
            let values = match word & MORE {
                0 => &[][..],
                _ => {
                    let len = rest.get(..8).map_or(0, number) as usize;
                    let Some(values) = rest.get(8..).and_then(|values| values.get(..len)) else { break };
                    rest = rest.get((8 + len).next_multiple_of(RECORD)..).unwrap_or_default();
                    values
                }
            };
            if is_last && clock < ring.clock {
                break;
            }
            ring.clock = clock;
            if word & 3 == LOST {
                ring.lost += word >> 16;
                told = (told.0 + 1, told.1 + (word >> 16));
                keep(0, word, &[]);
            } else {
                // Lines between other readings of the clocks may differ by some ns.
                last = last.max(times.ns(clock));
                keep(last, word, values);
            }
        }
        // What was lost since is counted in the header only.
        let uncounted = if is_last { read_header(file)?.discarded.saturating_sub(ring.lost) } else { 0 };
        if uncounted > 0 {
            keep(0, LOST | MARKER | uncounted << 16, &[]);
            told = (told.0 + 1, told.1 + uncounted);
            ring.lost += uncounted;
        }
        if is_last {
            self.lost += ring.lost;
        }
        if kept.is_empty() {
            return Ok(());
        }
        if !self.tasks.contains_key(&tid) {
            if self.tasks.values().filter(|task| task.file.is_some()).count() >= OPEN_TASKS {
                self.tasks.values_mut().for_each(|task| task.file = None);
            }
            self.tasks.insert(tid, Task::new(self.output.join(format!("{tid}.dat")), last));
        }
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let mut write = || {
            let mut note = [0; 24];
            file.read_exact_at(&mut note, NOTE)?;
            let len = task.file()?.metadata()?.len();
            match (number(&note[..8]), number(&note[8..16])) {
                // A recorder that died had begun with this slot.
                (slot, before) if slot == ring.taken + 1 && before <= len => task.file()?.set_len(before)?,
                _ => {
                    let note = [(ring.taken + 1).to_le_bytes(), len.to_le_bytes(), before_slot.to_le_bytes()].concat();
                    file.write_all_at(&note, NOTE)?;
                }
            }
            task.append(&kept)
        };
        match write() {
            Ok(()) => {
                task.unwritten = 0;
                task.last = last;
                task.records += records;
            }
            Err(error) if self.goes_on => {
                let records = records - told.0;
                task.unwritten = told.1 + records;
                self.lost += records;
                self.failed.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Records that were written.
    pub(crate) fn records(&self) -> u64 {
        self.tasks.values().map(|task| task.records).sum()
    }
}

fn open_ring(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

/// Time of the last record of a task's file that has one; 0 without a file.
fn last_time(path: &Path) -> io::Result<u64> {
    let Ok(file) = File::open(path) else { return Ok(0) };
    let records = file.metadata()?.len() / RECORD as u64;
    for at in (0..records).rev() {
        let mut record = [0; RECORD];
        file.read_exact_at(&mut record, at * RECORD as u64)?;
        if number(&record[..8]) > 0 && number(&record[8..]) & MARKERS == MARKER {
            return Ok(number(&record[..8]));
        }
    }
    Ok(0)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

fn read_header(file: &File) -> io::Result<Header> {
    let mut bytes = [0; header::LEN];
    file.read_exact_at(&mut bytes, 0)?;
    Header::read(&bytes, file.metadata()?.len()).map_err(io::Error::other)
}
