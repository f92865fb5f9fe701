//! Rings of calls: their records go to the files of tasks, with times in place of clock values.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracemill_record::Bell;
use tracemill_ring::{self as ring, Header, Pair, SlotContents, header};

use crate::command::SendRecords;
use crate::records::{MARKER, MARKERS, RECORD, SeenPart, TaskRecords, number};
use crate::times::ClockMapping;

/// Where this process notes in a ring how long the file of its task was before a slot, whose number stands before that, and
/// the time of the last record before it.
const NOTE: u64 = 96;

/// The rings of a recording, and the files that they become.
pub(crate) struct Rings {
    folder: PathBuf,
    output: PathBuf,
    known: BTreeMap<u64, OpenRing>,
    tasks: BTreeMap<u32, TaskFile>,
    /// Records that had no room.
    pub(crate) lost: u64,
    /// The first error of files that could not be written.
    pub(crate) failed: Option<io::Error>,
    /// Takes records in place of the files of tasks.
    pub(crate) send: Option<SendRecords>,
    /// Does recording go on after such an error? What cannot be written is lost then; otherwise it stays in its ring.
    goes_on: bool,
    /// Tells threads that there is room.
    bell: Option<Bell>,
    /// Number of the files of tasks that are open.
    open_tasks: usize,
    /// The last readings of the clocks, with their numbers: rings that come later have them, too.
    readings: Vec<(u64, Pair)>,
    /// When it was asked which processes are over.
    asked: Option<Instant>,
    /// A slot, and the records of it.
    slot: Vec<u8>,
    records: TaskRecords,
}

struct OpenRing {
    path: PathBuf,
    /// Open where few others are.
    file: Option<File>,
    header: Header,
    taken: u64,
    /// Has everything been taken that a thread wrote that is over, and no other one has begun?
    is_free: bool,
    /// Does it hold no note of a recorder that died?
    is_ours: bool,
    seen: SeenPart,
}

/// A part of what is in a ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RingPart {
    /// The next slot, which is full.
    Slot,
    /// The open slot of a thread that was killed, which may not even have been begun: what stands there from the round
    /// before is older.
    OpenSlot,
    /// Only the number of those that had no room.
    Lost,
}

/// The part of the header of a ring that changes while a thread writes.
struct Now {
    state: u32,
    done: u64,
    discarded: u64,
    /// Process and thread.
    who: [u32; 2],
}

impl Now {
    fn read(file: &File) -> io::Result<Now> {
        let mut bytes = [0; header::BEACON];
        file.read_exact_at(&mut bytes, 0)?;
        let half = |at: usize| (number(&bytes[at & !7..]) >> (at % 8 * 8)) as u32;
        Ok(Now {
            state: half(header::STATE),
            done: number(&bytes[header::DONE..]),
            discarded: number(&bytes[header::DISCARDED..]),
            who: [half(header::PID), half(header::TID)],
        })
    }
}

struct TaskFile {
    path: PathBuf,
    /// Open while something comes.
    file: Option<File>,
    /// Length of the file in bytes.
    len: u64,
    records: u64,
    /// Time of its last record.
    last: u64,
    /// Records that could not be written, and that no record counts yet.
    unwritten: u64,
}

/// Files of tasks, and rings, that are open at the same time, at most: processes may have thousands of threads.
const OPEN_TASKS: usize = 60;
const OPEN_RINGS: usize = 100;
/// Readings of the clocks that new rings get: a line takes two.
const READINGS: usize = 4;
/// Time between two questions which processes are over.
const ASK: Duration = Duration::from_millis(1);

impl TaskFile {
    fn new(path: PathBuf, last: u64) -> TaskFile {
        TaskFile { path, file: None, len: 0, records: 0, last, unwritten: 0 }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => {
                let file = File::options().append(true).create(true).open(&self.path)?;
                self.len = file.metadata()?.len();
                Ok(none.insert(file))
            }
        }
    }

    /// Appends records, or nothing: a part of them would end inside of one.
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.file()?;
        let before = self.len;
        let file = self.file()?;
        file.write_all(records).inspect_err(|_| {
            let _ = file.set_len(before);
        })?;
        self.len = before + records.len() as u64;
        Ok(())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.len = len;
        self.file()?.set_len(len)
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
            send: None,
            goes_on,
            bell: None,
            open_tasks: 0,
            readings: Vec::new(),
            asked: None,
            slot: Vec::new(),
            records: TaskRecords::default(),
        }
    }

    /// Finds the bell by which threads wake this process, and it them.
    pub(crate) fn find_bell(&mut self) {
        self.bell = Bell::open(&self.folder).ok();
    }

    pub(crate) fn bell(&self) -> Option<&Bell> {
        self.bell.as_ref()
    }

    /// Finds new rings.
    pub(crate) fn find_new(&mut self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(number) = ring::number_of(&entry.file_name().to_string_lossy()) else { continue };
            if self.known.contains_key(&number) {
                continue;
            }
            let file = open_ring(&entry.path())?;
            let header = read_header(&file)?;
            if header.kind == SlotContents::Calls {
                for (number, pair) in &self.readings {
                    let _ = put_pair(&file, *number, *pair);
                }
                let (path, taken, is_free) = (entry.path(), header.taken, header.state == header::FREE);
                let seen = SeenPart::default();
                self.known.insert(number, OpenRing { path, file: None, taken, header, is_free, is_ours: false, seen });
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
    pub(crate) fn keep_pair(&mut self, number: u64, pair: Pair) {
        for ring in self.known.values() {
            // Without it times are less exact after a crash, no more.
            let opened = if ring.file.is_none() { open_ring(&ring.path).ok() } else { None };
            let Some(file) = ring.file.as_ref().or(opened.as_ref()) else { continue };
            let _ = put_pair(file, number, pair);
        }
        if self.readings.len() == READINGS {
            self.readings.remove(0);
        }
        self.readings.push((number, pair));
    }

    /// Has the next look ask for each process whether it is over.
    pub(crate) fn recheck_processes(&mut self) {
        self.asked = None;
    }

    /// Takes all slots that are full, and the open ones of threads that are over. Returns how many rings are left, and
    /// whether there was something to take.
    pub(crate) fn drain(&mut self, times: &ClockMapping, is_dead: &dyn Fn(u32) -> bool) -> io::Result<(usize, bool)> {
        let numbers: Vec<u64> = self.known.keys().copied().collect();
        // After `exec` the thread of the same id has another ring.
        let used = self.known.iter().filter(|(_, ring)| !ring.is_free);
        let newest: BTreeMap<u32, u64> = used.map(|(number, ring)| (ring.header.tid, *number)).collect();
        // Asking costs more than a look at a ring.
        let asks = self.asked.is_none_or(|asked| asked.elapsed() >= ASK);
        if asks {
            self.asked = Some(Instant::now());
        }
        let mut dead: BTreeMap<u32, bool> = BTreeMap::new();
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
            let is_over = asks && *dead.entry(ring.header.pid).or_insert_with_key(|pid| is_dead(*pid));
            let is_newest = |tid: u32| newest.get(&tid).is_none_or(|newest| *newest == number);
            let drained = self.drain_ring(&mut ring, &file, times, is_over, &is_newest);
            let is_kept = !matches!(drained, Ok((_, true)));
            if is_kept {
                if open < OPEN_RINGS {
                    ring.file = Some(file);
                    open += 1;
                }
                self.known.insert(number, ring);
            } else {
                fs::remove_file(&ring.path)?;
            }
            is_busy |= drained?.0;
        }
        Ok((self.known.len(), is_busy))
    }

    /// Takes what is in a ring, whose process may be over. Returns whether there was something, and whether nothing more
    /// comes. A thread whose `exec` left the ring has a newer one.
    fn drain_ring(
        &mut self,
        ring: &mut OpenRing,
        file: &File,
        times: &ClockMapping,
        is_over: bool,
        is_newest: &dyn Fn(u32) -> bool,
    ) -> io::Result<(bool, bool)> {
        // The state before the slots: what a thread wrote before it ended is there then.
        let state = Now::read(file)?.state;
        let now = Now::read(file)?;
        if ring.is_free {
            // Another thread may have had it since, all its life.
            let was_given =
                state != header::FREE && (now.done > ring.taken || now.who != [ring.header.pid, ring.header.tid]);
            if state == header::FREE || state == header::CLOSED && !was_given {
                return Ok((false, is_over || state == header::CLOSED));
            }
            // Another thread has it.
            [ring.header.pid, ring.header.tid] = now.who;
            (ring.is_free, ring.seen) = (false, SeenPart::default());
        }
        let mut is_busy = false;
        while ring.taken < now.done {
            self.move_records(ring, file, times, RingPart::Slot)?;
            ring.taken += 1;
            file.write_all_at(&ring.taken.to_le_bytes(), header::TAKEN as u64)?;
            if let Some(bell) = &self.bell {
                bell.signal_room();
            }
            is_busy = true;
        }
        if state == header::WRITING && !is_over && is_newest(ring.header.tid) {
            return Ok((is_busy, false));
        }
        // A thread that ends in order ends its slot.
        self.move_records(
            ring,
            file,
            times,
            if state == header::WRITING { RingPart::OpenSlot } else { RingPart::Lost },
        )?;
        if let Some(task) = self.tasks.get_mut(&ring.header.tid) {
            self.open_tasks -= usize::from(task.file.take().is_some());
        }
        if is_over || state != header::ENDED {
            return Ok((is_busy, true));
        }
        ring.is_free = true;
        file.write_all_at(&header::FREE.to_le_bytes(), header::STATE as u64)?;
        Ok((true, false))
    }

    /// Appends the records of a part of a ring to the file of its task.
    fn move_records(
        &mut self,
        ring: &mut OpenRing,
        file: &File,
        times: &ClockMapping,
        part: RingPart,
    ) -> io::Result<()> {
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
        let before_slot = last;
        let unwritten = self.tasks.get(&tid).map_or(0, |task| task.unwritten);
        self.records.clear();
        self.records.append_lost(unwritten);
        if part != RingPart::Lost {
            self.slot.resize(ring.header.slot_size as usize, 0);
            file.read_exact_at(&mut self.slot, ring.header.slot_offset(ring.taken))?;
            self.records.add(&self.slot, times, part == RingPart::OpenSlot, &mut ring.seen, &mut last);
        }
        if part != RingPart::Slot {
            // Losses since then are counted in the header only.
            let uncounted = Now::read(file)?.discarded.saturating_sub(ring.seen.lost);
            self.records.append_lost(uncounted);
            ring.seen.lost += uncounted;
            self.lost += ring.seen.lost;
        }
        if self.records.bytes.is_empty() {
            return Ok(());
        }
        match self.write(ring, file, before_slot) {
            Ok(()) => {
                if let Some(task) = self.tasks.get_mut(&tid) {
                    (task.unwritten, task.last) = (0, last);
                    task.records += self.records.count;
                }
            }
            Err(error) if self.goes_on => {
                let records = self.records.count - self.records.told.0;
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.unwritten = self.records.told.1 + records;
                }
                self.lost += records;
                self.failed.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Appends the records that were found to the file of the ring's task.
    fn write(&mut self, ring: &mut OpenRing, file: &File, before_slot: u64) -> io::Result<()> {
        let tid = ring.header.tid;
        if self.tasks.get(&tid).is_none_or(|task| task.file.is_none()) && self.open_tasks >= OPEN_TASKS {
            self.tasks.values_mut().for_each(|task| task.file = None);
            self.open_tasks = 0;
        }
        let task = self.tasks.entry(tid);
        let task = task.or_insert_with(|| TaskFile::new(self.output.join(format!("{tid}.dat")), before_slot));
        if task.file.is_none() {
            task.file()?;
            self.open_tasks += 1;
        }
        let mut noted = [0; 16];
        if !ring.is_ours {
            file.read_exact_at(&mut noted, NOTE)?;
            ring.is_ours = true;
        }
        match (number(&noted[..8]), number(&noted[8..])) {
            // A recorder that died had begun with this slot.
            (slot, before) if slot == ring.taken + 1 && before <= task.len => task.cut(before)?,
            _ => {
                let note = [(ring.taken + 1).to_le_bytes(), task.len.to_le_bytes(), before_slot.to_le_bytes()].concat();
                file.write_all_at(&note, NOTE)?;
            }
        }
        match &self.send {
            Some(send) => {
                (send.0)(tid, &self.records.bytes)?;
                task.len += self.records.bytes.len() as u64;
                Ok(())
            }
            None => task.append(&self.records.bytes),
        }
    }

    /// Records that were written.
    pub(crate) fn records(&self) -> u64 {
        self.tasks.values().map(|task| task.records).sum()
    }
}

/// Writes a reading of the clocks into a ring.
fn put_pair(file: &File, number: u64, pair: Pair) -> io::Result<()> {
    let at = header::PAIRS as u64 + number % header::PAIRS_KEPT * header::PAIR_LEN as u64;
    let values = [pair.cycles, pair.monotonic_ns, pair.realtime_ns as u64];
    let bytes: Vec<u8> = values.into_iter().flat_map(u64::to_le_bytes).collect();
    file.write_all_at(&bytes, at)?;
    file.write_all_at(&(number + 1).to_le_bytes(), header::PAIR_COUNT as u64)
}

/// The processes that rings of a folder belong to.
pub(crate) fn processes_of(folder: &Path) -> Vec<u32> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let rings = files.filter(|file| ring::number_of(&file.file_name().to_string_lossy()).is_some());
    rings.filter_map(|file| Some(read_header(&File::open(file.path()).ok()?).ok()?.pid)).collect()
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

fn read_header(file: &File) -> io::Result<Header> {
    let mut bytes = [0; header::LEN];
    file.read_exact_at(&mut bytes, 0)?;
    Header::read(&bytes, file.metadata()?.len()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_the_last_readings_and_is_emptied_of_two_threads_between_two_looks() {
        let folder = std::env::temp_dir().join(format!("tracemill-rings-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(ring::file_name(1));
        let mut bytes = vec![0; header::LEN + 2 * 4096];
        let put = |bytes: &mut [u8], at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let state = |state: u32| 2 | u64::from(state) << 32;
        let who = |tid: u64| u64::from(std::process::id()) | tid << 32;
        put(&mut bytes, 0, u64::from_le_bytes(header::MAGIC));
        for (at, value) in [
            (header::KIND, state(header::ENDED)),
            (header::SLOT_SIZE, 4096),
            (header::SLOTS, 2),
            (header::PID, who(7)),
            (header::MODE, 1),
        ] {
            put(&mut bytes, at, value);
        }
        fs::write(&path, &bytes).expect("a ring");
        let (times, is_dead) = (ClockMapping::default(), |_| false);
        let mut rings = Rings::new(&folder, &folder, false);
        let readings = [5, 6].map(|at| Pair { cycles: at * 100, monotonic_ns: at * 10, realtime_ns: at as i64 });
        (5..).zip(readings).for_each(|(number, pair)| rings.keep_pair(number, pair));
        rings.find_new().expect("it is found");
        assert_eq!(rings.drain(&times, &is_dead).expect("it is read"), (1, true));
        // A recorder may die before it reads the clocks again.
        assert_eq!(read_header(&open_ring(&path).expect("it is there")).expect("a header").pairs, readings);
        // The next thread gets the ring, which is closed at its end: there are enough.
        let file = open_ring(&path).expect("it is there");
        assert_eq!(Now::read(&file).expect("a header").state, header::FREE);
        let record = [10_u64.to_le_bytes(), (7 << 16 | MARKER).to_le_bytes()].concat();
        file.write_all_at(&record, header::LEN as u64).expect("a record");
        for (at, value) in [(header::PID, who(8)), (header::DONE, 1), (header::KIND, state(header::CLOSED))] {
            file.write_all_at(&value.to_le_bytes(), at as u64).expect("a header");
        }
        assert_eq!(rings.drain(&times, &is_dead).expect("it is read"), (0, true));
        assert_eq!(fs::read(folder.join("8.dat")).expect("the file of its task").len(), RECORD);
        assert!(!path.exists() && rings.records() == 1);
        fs::remove_dir_all(&folder).expect("it is removed");
    }
}
