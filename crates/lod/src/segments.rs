//! Bytes that are looked at now and then, in segments: in memory as long as they are few, then in a file without a name, or
//! where they stand in a file that is kept.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes that stay in memory.
const KEPT: usize = 16 << 20;

/// A file that is read at any place.
pub(crate) struct Spool {
    file: File,
    /// Its name, where a file that is open cannot lose it.
    path: Option<PathBuf>,
    /// A file that cannot be read at a place without moving there first.
    #[cfg(not(unix))]
    moving: std::sync::Mutex<()>,
}

impl Spool {
    pub(crate) fn new(file: File) -> Spool {
        Spool {
            file,
            path: None,
            #[cfg(not(unix))]
            moving: std::sync::Mutex::default(),
        }
    }

    /// A file of this process alone, which goes with it.
    fn temporary() -> io::Result<Spool> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tracemill-{}-{}.index", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let mut options = File::options();
        // A name that somebody else has put there is not taken.
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut spool = Spool::new(options.open(&path)?);
        spool.path = std::fs::remove_file(&path).is_err().then_some(path);
        Ok(spool)
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        #[cfg(unix)]
        {
            std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, offset)
        }
        #[cfg(not(unix))]
        {
            use std::io::{Read as _, Seek as _};
            let _moving = self.moving.lock();
            (&self.file).seek(io::SeekFrom::Start(offset))?;
            (&self.file).read_exact(bytes)
        }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(unix)]
        {
            std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, offset)
        }
        #[cfg(not(unix))]
        {
            use std::io::{Seek as _, Write as _};
            let _moving = self.moving.lock();
            (&self.file).seek(io::SeekFrom::Start(offset))?;
            (&self.file).write_all(bytes)
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // A drop cannot report errors: the file is left.
        self.path.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

/// Bytes, in memory or in a file.
pub(crate) enum Segment {
    Memory(Box<[u8]>),
    /// Offset and length.
    File(Arc<Spool>, u64, usize),
}

impl Segment {
    pub(crate) fn len(&self) -> usize {
        match self {
            Segment::Memory(bytes) => bytes.len(),
            Segment::File(_, _, len) => *len,
        }
    }

    /// A part of it, in `buffer` when it is not in memory. `None` when the file cannot be read, or that is no part.
    pub(crate) fn part<'b>(&'b self, (from, to): (usize, usize), buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        match self {
            Segment::Memory(bytes) => bytes.get(from..to),
            Segment::File(file, offset, len) => {
                if to > *len || from > to {
                    return None;
                }
                buffer.resize(to - from, 0);
                file.read(buffer, offset + from as u64).ok()?;
                Some(buffer)
            }
        }
    }
}

/// Where segments are put: in memory as long as they are few, then in a file.
#[derive(Default)]
pub(crate) struct SegmentStore {
    /// Bytes in memory.
    kept: usize,
    /// The file of those that do not stay there, and its bytes.
    file: Option<(Arc<Spool>, u64)>,
    /// Is there no room for such a file? Then they stay in memory.
    is_refused: bool,
}

impl SegmentStore {
    pub(crate) fn store(&mut self, bytes: &[u8]) -> Segment {
        let segment = if self.kept + bytes.len() > KEPT { self.spooled(bytes) } else { None };
        segment.unwrap_or_else(|| {
            self.kept += bytes.len();
            Segment::Memory(bytes.into())
        })
    }

    fn spooled(&mut self, bytes: &[u8]) -> Option<Segment> {
        if self.is_refused {
            return None;
        }
        self.is_refused = true;
        let (file, end) = match self.file.take() {
            Some(known) => known,
            None => (Arc::new(Spool::temporary().ok()?), 0),
        };
        file.write(bytes, end).ok()?;
        self.is_refused = false;
        self.file = Some((file.clone(), end + bytes.len() as u64));
        Some(Segment::File(file, end, bytes.len()))
    }

    /// Bytes that are in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.kept
    }
}

/// The segments, by number.
#[derive(Default)]
pub(crate) struct Segments {
    list: Vec<Segment>,
    room: SegmentStore,
    is_broken: AtomicBool,
}

impl Segments {
    /// Adds bytes after the others.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.list.push(self.room.store(bytes));
    }

    /// Adds bytes that stand in a file.
    pub(crate) fn push_place(&mut self, file: &Arc<Spool>, offset: u64, len: usize) {
        self.list.push(Segment::File(file.clone(), offset, len));
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes of a segment.
    pub(crate) fn bytes_of(&self, at: usize) -> usize {
        self.list[at].len()
    }

    /// A part of a segment, in `buffer` when it is not in memory. `None` when the file cannot be read.
    pub(crate) fn part<'b>(
        &'b self,
        at: usize,
        (from, to): (usize, usize),
        buffer: &'b mut Vec<u8>,
    ) -> Option<&'b [u8]> {
        let segment = self.list.get(at)?;
        let part = segment.part((from, to), buffer);
        if part.is_none() && from <= to && to <= segment.len() {
            self.set_broken();
        }
        part
    }

    /// Bytes that are in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.room.memory_bytes()
    }

    /// Says that what was read is not what was written.
    pub(crate) fn set_broken(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Could something not be read?
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_do_not_fit_into_memory_are_read_from_a_file() {
        let mut segments = Segments::default();
        let bytes = |at: usize| -> Vec<u8> { (0..1 << 20).map(|place| (place * 7 + at) as u8).collect() };
        (0..40).for_each(|at| segments.push(&bytes(at)));
        assert!(segments.memory_bytes() <= KEPT && segments.len() == 40, "{}", segments.memory_bytes());
        let mut buffer = Vec::new();
        for at in [0, 15, 16, 17, 39] {
            assert_eq!(segments.bytes_of(at), 1 << 20);
            assert_eq!(segments.part(at, (0, 1 << 20), &mut buffer), Some(&bytes(at)[..]), "{at}");
            assert_eq!(segments.part(at, (77, 99), &mut buffer), Some(&bytes(at)[77..99]), "{at}");
            assert_eq!(segments.part(at, (77, (1 << 20) + 1), &mut buffer), None, "{at}");
        }
        assert_eq!(segments.part(40, (0, 1), &mut buffer), None);
        assert!(!segments.is_broken());
        let name = format!("tracemill-{}-", std::process::id());
        let listed = std::fs::read_dir(std::env::temp_dir()).expect("it is there").flatten();
        #[cfg(unix)]
        assert_eq!(
            listed
                .filter(|of| of.file_name().to_string_lossy().starts_with(&name)
                    && of.file_name().to_string_lossy().ends_with(".index"))
                .count(),
            0
        );
        #[cfg(not(unix))]
        drop((listed, name));
    }

    #[test]
    fn a_file_that_became_shorter_is_told() {
        let mut segments = Segments::default();
        let spool = Arc::new(Spool::temporary().expect("a file"));
        spool.write(b"abcdef", 0).expect("room");
        segments.push_place(&spool, 2, 4);
        let mut buffer = Vec::new();
        assert_eq!(segments.part(0, (1, 3), &mut buffer), Some(&b"de"[..]));
        spool.file.set_len(3).expect("it is ours");
        assert_eq!(segments.part(0, (1, 3), &mut buffer), None);
        assert!(segments.is_broken());
    }
}
