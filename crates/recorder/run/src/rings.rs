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
}

struct Ring {
    path: PathBuf,
    file: File,
    header: Header,
    taken: u64,
    /// Clock of its last record.
    clock: u64,
    /// Lost records that its records count.
    lost: u64,
}

struct Task {
    file: File,
    records: u64,
    /// Time of its last record.
    last: u64,
}

impl Rings {
    /// Takes rings of `folder`, and writes to files of `output`.
    pub(crate) fn new(folder: &Path, output: &Path) -> Rings {
        Rings {
            folder: folder.to_path_buf(),
            output: output.to_path_buf(),
            known: BTreeMap::new(),
            tasks: BTreeMap::new(),
            lost: 0,
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
            let file = File::options().read(true).write(true).open(entry.path())?;
            let header = read_header(&file)?;
            if header.kind == Kind::Calls {
                self.known
                    .insert(number, Ring { path: entry.path(), file, taken: header.taken, header, clock: 0, lost: 0 });
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
            let at = header::PAIRS as u64 + number % header::PAIRS_KEPT * header::PAIR_LEN as u64;
            let values = [pair.cycles, pair.monotonic_ns, pair.realtime_ns as u64];
            let bytes: Vec<u8> = values.into_iter().flat_map(u64::to_le_bytes).collect();
            let kept = ring.file.write_all_at(&bytes, at);
            // Without it times are less exact after a crash, no more.
            let _ = kept.and_then(|()| ring.file.write_all_at(&(number + 1).to_le_bytes(), header::PAIR_COUNT as u64));
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
        for number in numbers {
            let Some(mut ring) = self.known.remove(&number) else { continue };
            // Before the slots: what a thread wrote before it ended is there then.
            let state = read_header(&ring.file)?;
            let is_over =
                state.state != header::WRITING || newest[&ring.header.tid] != number || is_dead(ring.header.pid);
            let done = read_header(&ring.file)?.done;
            while ring.taken < done {
                self.take(&mut ring, times, false)?;
                ring.taken += 1;
                ring.file.write_all_at(&ring.taken.to_le_bytes(), header::TAKEN as u64)?;
                is_busy = true;
            }
            if is_over {
                self.take(&mut ring, times, true)?;
                fs::remove_file(&ring.path)?;
            } else {
                self.known.insert(number, ring);
            }
        }
        Ok((self.known.len(), is_busy))
    }

    /// Appends the records of the next slot to the file of its task: of a slot that is full, or of the last one, which may
    /// not even have been begun. What stands there from the round before is older.
    fn take(&mut self, ring: &mut Ring, times: &Times, is_last: bool) -> io::Result<()> {
        let mut slot = vec![0; ring.header.slot_size as usize];
        ring.file.read_exact_at(&mut slot, ring.header.slot_offset(ring.taken))?;
        let mut last = match self.tasks.get(&ring.header.tid) {
            Some(task) => task.last,
            None => {
                let mut noted = [0; 8];
                ring.file.read_exact_at(&mut noted, NOTE + 16)?;
                let path = self.output.join(format!("{}.dat", ring.header.tid));
                if number(&noted) > 0 { number(&noted) } else { last_time(&path)? }
            }
        };
        let before_slot = last;
        let mut kept = Vec::with_capacity(slot.len());
        let mut records = 0;
        let mut keep = |time: u64, word: u64, values: &[u8]| {
            kept.extend_from_slice(&time.to_le_bytes());
            kept.extend_from_slice(&word.to_le_bytes());
            kept.extend_from_slice(values);
            records += 1;
        };
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
                keep(0, word, &[]);
            } else {
                // Lines between other readings of the clocks may differ by some ns.
                last = last.max(times.ns(clock));
                keep(last, word, values);
            }
        }
        // What was lost since is counted in the header only.
        let uncounted = if is_last { read_header(&ring.file)?.discarded.saturating_sub(ring.lost) } else { 0 };
        if uncounted > 0 {
            keep(0, LOST | MARKER | uncounted << 16, &[]);
            ring.lost += uncounted;
        }
        if is_last {
            self.lost += ring.lost;
        }
        if kept.is_empty() {
            return Ok(());
        }
        let tid = ring.header.tid;
        if !self.tasks.contains_key(&tid) {
            let path = self.output.join(format!("{tid}.dat"));
            let file = File::options().append(true).create(true).open(path)?;
            self.tasks.insert(tid, Task { file, records: 0, last });
        }
        if let Some(task) = self.tasks.get_mut(&tid) {
            let mut note = [0; 24];
            ring.file.read_exact_at(&mut note, NOTE)?;
            let len = task.file.metadata()?.len();
            match (number(&note[..8]), number(&note[8..16])) {
                // A recorder that died had begun with this slot.
                (slot, before) if slot == ring.taken + 1 && before <= len => task.file.set_len(before)?,
                _ => {
                    let note = [(ring.taken + 1).to_le_bytes(), len.to_le_bytes(), before_slot.to_le_bytes()].concat();
                    ring.file.write_all_at(&note, NOTE)?;
                }
            }
            task.file.write_all(&kept)?;
            task.last = last;
            task.records += records;
        }
        Ok(())
    }

    /// Records that were written.
    pub(crate) fn records(&self) -> u64 {
        self.tasks.values().map(|task| task.records).sum()
    }
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
