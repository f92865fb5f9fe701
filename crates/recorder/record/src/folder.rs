//! Folders of traces whose packets are in rings: finished, recovered, copied. Files only: it does not matter which
//! process recorded, or whether it lives.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tracemill_ring::{self as ring_file, Header, Pair, SlotContents, header, packet};

use crate::metadata::{self, RecordedClock};
use crate::trigger;

/// The findings of finishing a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// Packets that were in rings.
    pub packets: u64,
    /// Events that were discarded.
    pub discarded: u64,
    /// The damage of slots and rings that are left out, in words.
    pub damaged: Vec<String>,
}

/// A ring of a folder, copied.
struct FolderRing {
    number: u64,
    header: Header,
    bytes: Vec<u8>,
}

/// Makes the folder of a recorder that died a plain trace.
///
/// # Errors
/// When there are no rings, a process still writes to them, or files cannot be read or written: then what is there stays.
pub fn recover(folder: &Path) -> io::Result<Recovered> {
    let mut problems = Vec::new();
    let rings = read_rings(folder, &mut problems)?;
    for ring in &rings {
        if is_written(folder, ring) {
            let message = format!("process {} still records into it; a snapshot can copy it", ring.header.pid);
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
        }
    }
    // A part of a trigger's snapshot is of no use: all of it is in the rings.
    let _ = fs::remove_dir_all(trigger::unfinished(&folder.canonicalize()?));
    let pairs = rings.iter().map(|ring| &ring.header.pairs).max_by_key(|pairs| pairs.last().map(|pair| pair.cycles));
    let clock = pairs.and_then(|pairs| estimated(pairs));
    finish_rings((folder, folder), rings, clock, true, problems, 0)
}

/// Makes the folder of a new recording, and those above it.
pub(crate) fn make(folder: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder.parent().unwrap_or(Path::new("")))?;
    let made = match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let next = after_exec(folder)?.ok_or(error)?;
            fs::create_dir(&next)?;
            next
        }
        made => made.map(|()| folder.to_path_buf())?,
    };
    made.canonicalize()
}

/// The folder in which a program goes on recording after `exec`, `FIRST.2`, `FIRST.3` and so on, when the program before it
/// in this process left rings: they are finished, as at its end (R15). `None` when the folder is of somebody else.
fn after_exec(first: &Path) -> io::Result<Option<PathBuf>> {
    let mut last = first.to_path_buf();
    for number in 2_u64.. {
        let mut next = first.as_os_str().to_owned();
        next.push(format!(".{number}"));
        let next = PathBuf::from(next);
        if next.try_exists()? {
            last = next;
            continue;
        }
        let rings = match read_rings(&last, &mut Vec::new()) {
            Ok(rings) => rings,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if rings.iter().all(|ring| ring.header.pid != std::process::id()) {
            return Ok(None);
        }
        for damage in recover(&last)?.damaged {
            let _ = writeln!(io::stderr(), "tracemill-record: {}: {damage}", last.display());
        }
        return Ok(Some(next));
    }
    Ok(None)
}

/// Finishes a trace, when its recorder has ended.
pub(crate) fn finish(folder: &Path, clock: Option<RecordedClock>, sync: bool) -> io::Result<Recovered> {
    let mut problems = Vec::new();
    let rings = read_rings(folder, &mut problems)?;
    finish_rings((folder, folder), rings, clock, sync, problems, 0)
}

/// Copies what is in the folder of a recorder, alive or dead, to the folder `to`, which must not exist.
///
/// # Errors
/// When there are no rings, or files cannot be read or written.
pub fn snapshot(from: &Path, to: &Path) -> io::Result<Recovered> {
    snapshot_since(from, to, 0)
}

/// As [`snapshot`], without packets that end before this time of their clock.
pub(crate) fn snapshot_since(from: &Path, to: &Path, since: u64) -> io::Result<Recovered> {
    fs::create_dir(to)?;
    let copied = copy(from, to, since);
    if copied.is_err() {
        // A part of a copy is of no use.
        let _ = fs::remove_dir_all(to);
    }
    copied
}

fn copy(from: &Path, to: &Path, since: u64) -> io::Result<Recovered> {
    let mut problems = Vec::new();
    // Rings first: what is moved out of them meanwhile is in both, and told apart by its number.
    let rings = read_rings(from, &mut problems)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("stream_") {
            copy_packets(&entry.path(), &to.join(name), since)?;
        }
    }
    let clock = rings.iter().find_map(|ring| estimated(&ring.header.pairs));
    // Classes are described before their events are written: so metadata come last.
    fs::copy(from.join("metadata"), to.join("metadata"))?;
    let mut copied = finish_rings((from, to), rings, clock, false, problems, since)?;
    // Slots that were being written over are no damage.
    copied.damaged.clear();
    Ok(copied)
}

/// Copies the whole packets of a stream file, from the first one on that does not end before this time.
fn copy_packets(from: &Path, to: &Path, since: u64) -> io::Result<()> {
    let mut file = File::open(from)?;
    let end = end_of(&file)?;
    let mut begin = 0;
    while since > 0 && begin < end.len {
        let mut start = [0; packet::LEN];
        file.read_exact_at(&mut start, begin)?;
        let len = number_at(&start, packet::TOTAL) / 8;
        if number_at(&start, packet::END) >= since || len == 0 {
            break;
        }
        begin += len;
    }
    let wanted = end.len.saturating_sub(begin);
    io::Seek::seek(&mut file, io::SeekFrom::Start(begin))?;
    let copied = io::copy(&mut io::Read::take(file, wanted), &mut File::create_new(to)?)?;
    if copied < wanted { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// A number of a packet's header.
fn number_at(packet: &[u8], at: usize) -> u64 {
    packet.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

fn end_of(file: &File) -> io::Result<ring_file::StreamEnd> {
    let len = file.metadata()?.len();
    Ok(ring_file::stream_end(len, |at| {
        let mut start = [0; packet::LEN];
        file.read_exact_at(&mut start, at).ok().map(|()| start)
    }))
}

fn estimated(pairs: &[Pair]) -> Option<RecordedClock> {
    let (frequency, origin_ns) = ring_file::estimate(*pairs.first()?, *pairs.last()?)?;
    Some(RecordedClock { frequency, origin_ns })
}

/// The rings of events of a trace, in the order of their numbers.
fn read_rings(folder: &Path, problems: &mut Vec<String>) -> io::Result<Vec<FolderRing>> {
    let folder = folder.join(ring_file::FOLDER);
    let mut rings = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        let Some(number) = ring_file::number_of(&entry.file_name().to_string_lossy()) else { continue };
        let file = File::open(entry.path())?;
        let bytes = copy_of_ring(file.metadata()?.len(), |bytes, at| file.read_exact_at(bytes, at))?;
        match Header::read(&bytes, bytes.len() as u64) {
            Ok(header) if header.kind == SlotContents::Events => rings.push(FolderRing { number, header, bytes }),
            Ok(_) => problems.push(format!("{}: it is a ring of calls", entry.path().display())),
            Err(why) => problems.push(format!("{}: {why}", entry.path().display())),
        }
    }
    rings.sort_by_key(|ring| ring.number);
    Ok(rings)
}

/// A copy of a ring's file whose slots are sound, also while it is written: of each, the bytes that were committed when
/// it was first looked at. Slots that were written over meanwhile are empty, and so are those that were begun since: there
/// may be events between them and what was committed in the slot before. The header is read last, so that no slot is newer
/// than it says.
fn copy_of_ring(len: u64, read_at: impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut start = [0; header::LEN];
    read_at(&mut start, 0)?;
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?];
    if let Ok(header) = Header::read(&start, len) {
        for at in 0..header.slots {
            let offset = header.slot_offset(at);
            let slot = &mut bytes[offset as usize..(offset + header.slot_size) as usize];
            // The number before and after all else: the rest of a packet's header may be of two packets.
            let (mut before, mut first, mut after) = ([0; 8], [0; packet::LEN], [0; 8]);
            read_at(&mut before, offset + packet::SEQUENCE as u64)?;
            read_at(&mut first, offset)?;
            read_at(slot, offset)?;
            read_at(&mut after, offset + packet::SEQUENCE as u64)?;
            slot[..packet::LEN].copy_from_slice(&first);
            if [&before[..], &first[packet::SEQUENCE..packet::SEQUENCE + 8]] != [&after; 2] {
                slot.fill(0);
            }
        }
    }
    read_at(&mut bytes[..header::LEN], 0)?;
    if let (Ok(first), Ok(last)) = (Header::read(&start, len), Header::read(&bytes, len)) {
        for slot in bytes[header::LEN..].chunks_exact_mut(first.slot_size as usize) {
            let sequence = slot[packet::SEQUENCE..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
            if (first.done + 1..=last.done).contains(&sequence) {
                slot.fill(0);
            }
        }
    }
    Ok(bytes)
}

/// Does a process still write to this ring?
fn is_written(folder: &Path, ring: &FolderRing) -> bool {
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let path = path.join(ring_file::FOLDER).join(ring_file::file_name(ring.number));
    // The process may be another one of the same number: it is ours when it has the ring in memory.
    match fs::read(format!("/proc/{}/maps", ring.header.pid)) {
        Ok(maps) => String::from_utf8_lossy(&maps).lines().any(|line| line.ends_with(&*path.to_string_lossy())),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// Moves what is in copies of the rings of `from` to the stream files of `to`; with `sync` they are on the disk before the
/// rings are removed. Packets that end before the time `since` are left out.
fn finish_rings(
    (from, to): (&Path, &Path),
    rings: Vec<FolderRing>,
    clock: Option<RecordedClock>,
    sync: bool,
    problems: Vec<String>,
    since: u64,
) -> io::Result<Recovered> {
    let mut recovered = Recovered { damaged: problems, ..Recovered::default() };
    for ring in rings {
        recovered.discarded += ring.header.discarded;
        ring.finish(to, sync, since, &mut recovered)?;
    }
    if let Some(clock) = clock {
        let (path, new) = (to.join("metadata"), to.join(".metadata.new"));
        let text = fs::read_to_string(&path)?;
        let mut file = File::create(&new)?;
        file.write_all(metadata::with_clock(&text, clock).as_bytes())?;
        file.sync_data()?;
        fs::rename(&new, &path)?;
    }
    if from == to {
        fs::remove_dir_all(from.join(ring_file::FOLDER))?;
    }
    Ok(recovered)
}

impl FolderRing {
    fn finish(self, to: &Path, sync: bool, since: u64, recovered: &mut Recovered) -> io::Result<()> {
        let path = to.join(ring_file::stream_name(self.number));
        let file = File::options().read(true).append(true).create(true).open(&path)?;
        let end = end_of(&file)?;
        let mut last = [0; packet::LEN];
        if end.len > 0 {
            file.read_exact_at(&mut last, end.last_offset)?;
        }
        let mut last = (end.len > 0).then_some(last);
        // A packet that was being moved when the process died: the ring has it.
        file.set_len(end.len)?;
        let slots = ring_file::slots(&self.header, &self.bytes, end.sequence);
        let ring = self.number;
        recovered.damaged.extend(slots.damaged.into_iter().map(|why| format!("ring {ring}: {why}")));
        for slot in &slots.packets {
            let Some(packet) = ring_file::copy_of(&self.header, &self.bytes, slot) else { continue };
            if number_at(&packet, packet::END) < since {
                continue;
            }
            (&file).write_all(&packet)?;
            last = packet.first_chunk().copied();
            recovered.packets += 1;
        }
        let closing = ring_file::closing_packet(&self.header, ring, last.as_ref().map(|last| &last[..]));
        (&file).write_all(&closing.unwrap_or_default())?;
        if sync {
            file.sync_data()?;
        }
        if file.metadata()?.len() == 0 {
            fs::remove_file(&path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_begun_anew_while_its_header_is_read_is_left_out() {
        let mut ring = vec![0; header::LEN + 2 * 4096];
        let put = |ring: &mut [u8], at: usize, value: u64| ring[at..at + 8].copy_from_slice(&value.to_le_bytes());
        ring[..8].copy_from_slice(&header::MAGIC);
        for (at, value) in
            [(header::KIND, 1), (header::SLOT_SIZE, 4096), (header::SLOTS, 2), (header::MODE, 2), (header::DONE, 3)]
        {
            put(&mut ring, at, value);
        }
        for (slot, sequence) in [(0, 2), (1, 3)] {
            let at = header::LEN + slot * 4096;
            put(&mut ring, at, packet::MAGIC.into());
            put(&mut ring, at + packet::SEQUENCE, sequence);
            put(&mut ring, at + packet::CONTENT, 4096 * 8);
        }
        let len = ring.len() as u64;
        let begins = |change: bool| {
            let ring = std::cell::RefCell::new(ring.clone());
            let copy = copy_of_ring(len, |bytes, at| {
                let begin = at as usize;
                bytes.copy_from_slice(&ring.borrow()[begin..begin + bytes.len()]);
                if change && begin == header::LEN && bytes.len() == packet::LEN {
                    // The content is still that of packet 2.
                    bytes[packet::SEQUENCE] = 4;
                    let mut ring = ring.borrow_mut();
                    put(&mut ring, header::LEN + packet::SEQUENCE, 4);
                    put(&mut ring, header::LEN + packet::CONTENT, packet::LEN as u64 * 8);
                }
                Ok(())
            });
            let copy = copy.expect("it is read");
            [0, 1].map(|slot| copy[header::LEN + slot * 4096] != 0)
        };
        assert_eq!((begins(false), begins(true)), ([true, true], [false, true]));
    }
}
