//! What is known of a session, as bytes: written once, read when the same session is opened again.
//!
//! The bytes end with a checksum, and every number that another part is found by is checked, so bytes that are cut off,
//! damaged or of another session give nothing. Memory is never taken in proportion to a number that stands there, but to the
//! bytes that follow it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use crc32fast::Hasher;
use tracemill_codec::bits::put_leb;
use tracemill_engine::session::Session;

use crate::again::Again;
use crate::calls::Calls;
use crate::events::Columns;
use crate::index::{Index, Loss, LossKind, Track};
use crate::kinds::Kind;
use crate::places::Places;
use crate::segments::Spool;
use crate::states::States;
use crate::timeline::{Source, Timeline};

/// The bytes begin with this; the number changes with the form of the rest.
const MAGIC: &[u8] = b"tracemill index 5\n";

/// Bytes that are gathered before they are written.
const GATHERED: usize = 1 << 16;

/// Writes numbers, texts and a checksum.
pub(crate) struct Writer<'w> {
    out: &'w mut dyn Write,
    gathered: Vec<u8>,
    sum: Hasher,
}

impl Writer<'_> {
    pub(crate) fn number(&mut self, number: u64) {
        put_leb(&mut self.gathered, number, false);
    }

    pub(crate) fn size(&mut self, size: usize) {
        self.number(size as u64);
    }

    /// A number that may be below 0.
    pub(crate) fn step(&mut self, step: i64) {
        self.number(((step << 1) ^ (step >> 63)) as u64);
    }

    pub(crate) fn wide(&mut self, number: i128) {
        self.gathered.extend_from_slice(&number.to_le_bytes());
    }

    fn range(&mut self, range: Option<(i128, i128)>) {
        self.number(range.is_some().into());
        range.into_iter().flat_map(|(first, last)| [first, last]).for_each(|end| self.wide(end));
    }

    fn maybe(&mut self, number: Option<u64>) {
        self.number(number.is_some().into());
        number.into_iter().for_each(|number| self.number(number));
    }

    /// Bytes, with how many they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.size(bytes.len());
        self.plain(bytes)
    }

    /// Bytes whose number the reader knows.
    pub(crate) fn plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sum.update(&self.gathered);
        self.out.write_all(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }

    pub(crate) fn track(&mut self, track: &Track) -> io::Result<()> {
        self.size(track.trace);
        self.maybe(track.stream.map(|stream| stream as u64));
        self.bytes(track.name.as_bytes())?;
        self.number(track.events);
        self.number(track.untimed);
        self.range(track.range);
        Ok(())
    }
}

/// Reads what a [`Writer`] wrote. `None` is what everything gives when the bytes cannot be right.
pub(crate) struct Reader<'r> {
    input: &'r mut dyn Read,
    /// Bytes of all, and those that are left, without the checksum.
    len: u64,
    left: u64,
    /// Bytes that were read together, and the next of them.
    gathered: Vec<u8>,
    at: usize,
    sum: Hasher,
}

impl Reader<'_> {
    /// A reader of so many bytes, the checksum behind them not counted.
    fn new(input: &mut dyn Read, len: u64) -> Reader<'_> {
        Reader { input, len, left: len, gathered: Vec::new(), at: 0, sum: Hasher::new() }
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        if self.at == self.gathered.len() {
            self.gather()?;
        }
        let byte = self.gathered[self.at];
        self.at += 1;
        self.left -= 1;
        Some(byte)
    }

    /// Reads the next bytes when all that were read together are taken.
    #[cold]
    fn gather(&mut self) -> Option<()> {
        let count = self.left.min(GATHERED as u64);
        (self.at, self.gathered) = (0, self.read(count as usize)?);
        (count > 0).then_some(())
    }

    fn read(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count);
        self.input.take(count as u64).read_to_end(&mut bytes).ok()?;
        self.sum.update(&bytes);
        (bytes.len() == count).then_some(bytes)
    }

    pub(crate) fn plain<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Some(bytes)
    }

    /// Where the next byte stands.
    pub(crate) fn place(&self) -> u64 {
        self.len - self.left
    }

    /// So many bytes.
    pub(crate) fn many(&mut self, count: usize) -> Option<Vec<u8>> {
        let left = self.left.checked_sub(count as u64)?;
        let here = &self.gathered[self.at..];
        let here = &here[..count.min(here.len())];
        self.at += here.len();
        self.left = left;
        if here.len() == count {
            return Some(here.to_vec());
        }
        let mut bytes = here.to_vec();
        bytes.append(&mut self.read(count - bytes.len())?);
        Some(bytes)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn step(&mut self) -> Option<i64> {
        let step = self.number()?;
        Some((step >> 1) as i64 ^ -((step & 1) as i64))
    }

    pub(crate) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// How many things follow; each of them takes a byte at least.
    pub(crate) fn count(&mut self) -> Option<usize> {
        self.size().filter(|count| *count as u64 <= self.left)
    }

    /// A number below another one.
    pub(crate) fn below(&mut self, end: usize) -> Option<usize> {
        self.size().filter(|number| *number < end)
    }

    pub(crate) fn small(&mut self, end: usize) -> Option<u32> {
        u32::try_from(self.below(end)?).ok()
    }

    /// Times, whose sums must fit.
    pub(crate) fn wide(&mut self) -> Option<i128> {
        self.plain().map(i128::from_le_bytes).filter(|number| number.unsigned_abs() >> 110 == 0)
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        Some(self.below(2)? == 1)
    }

    fn range(&mut self) -> Option<Option<(i128, i128)>> {
        let range = if self.flag()? { Some((self.wide()?, self.wide()?)) } else { None };
        range.is_none_or(|(first, last)| first <= last).then_some(range)
    }

    fn maybe(&mut self, end: usize) -> Option<Option<usize>> {
        if self.flag()? { Some(Some(self.below(end)?)) } else { Some(None) }
    }

    pub(crate) fn bytes(&mut self) -> Option<Vec<u8>> {
        let count = self.size()?;
        self.many(count)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    /// Things, one after the other.
    pub(crate) fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| one(self)).collect()
    }

    pub(crate) fn track(&mut self, source: &Source<'_>) -> Option<Track> {
        let trace = self.below(source.session.traces.len())?;
        let stream = self.maybe(source.session.traces[trace].streams.len())?;
        let name = self.text()?;
        Some(Track { trace, stream, name, events: self.number()?, untimed: self.number()?, range: self.range()? })
    }
}

/// All that is known of a session, to be written.
#[derive(Clone, Copy)]
pub struct ToKeep<'k> {
    /// Its density, which was counted.
    pub timeline: &'k Timeline,
    /// Its index.
    pub index: &'k Index,
    /// Its calls, when it has any.
    pub calls: Option<&'k Calls>,
    /// States of CPUs and threads, when it tells of any, and for each machine a number that is below that of the traces.
    pub states: Option<(&'k States, &'k [Option<usize>])>,
}

/// A session as it was [written](ToKeep), read again.
pub struct Kept {
    /// See [`ToKeep::timeline`].
    pub timeline: Timeline,
    /// See [`ToKeep::index`].
    pub index: Index,
    /// See [`ToKeep::calls`].
    pub calls: Option<Calls>,
    /// See [`ToKeep::states`].
    pub states: Option<(States, Vec<Option<usize>>)>,
}

/// Writes what is known of a session. `identity` says of which one, in words of the caller. False when that cannot be kept:
/// something was damaged, or a name is no text.
///
/// # Errors
/// When the bytes cannot be written.
pub fn write(known: ToKeep<'_>, identity: &[u8], out: &mut dyn Write) -> io::Result<bool> {
    let ToKeep { timeline, index, calls, states } = known;
    let is_text = |name: &String| !name.contains(char::REPLACEMENT_CHARACTER);
    let is_whole = calls.is_none_or(|calls| calls.faults.is_empty() && calls.warnings.is_empty());
    if !is_whole || !index.faults.is_empty() || !index.warnings.is_empty() || !index.names.iter().all(is_text) {
        return Ok(false);
    }
    let mut to = Writer { out, gathered: Vec::new(), sum: Hasher::new() };
    to.plain(MAGIC)?;
    to.bytes(identity)?;
    to.wide(index.origin);
    to.wide(index.begin);
    to.wide(index.end);
    to.number(index.untimed);
    to.size(index.names.len());
    index.names.iter().try_for_each(|name| to.bytes(name.as_bytes()))?;
    to.size(index.tracks.len());
    index.tracks.iter().try_for_each(|track| to.track(track))?;
    to.size(index.kinds.len());
    for kind in &index.kinds {
        to.number(kind.track.into());
        to.number(kind.name.into());
    }
    to.size(index.losses.len());
    for loss in &index.losses {
        to.maybe(loss.track.map(|track| track as u64));
        to.number(u64::from(loss.kind == LossKind::Packets));
        to.maybe(loss.count);
        for end in [loss.begin, loss.end] {
            to.range(end.map(|end| (end, end)));
        }
    }
    index.columns.write(&mut to)?;
    index.places.write(&mut to);
    if !timeline.write(&mut to)? {
        return Ok(false);
    }
    to.number(calls.is_some().into());
    calls.map_or(Ok(()), |calls| calls.write(&mut to))?;
    to.number(states.is_some().into());
    if let Some((states, traces)) = states {
        states.write(&mut to)?;
        to.size(traces.len());
        traces.iter().for_each(|trace| to.maybe(trace.map(|trace| trace as u64)));
    }
    to.flush()?;
    let sum = to.sum.finalize();
    out.write_all(&sum.to_le_bytes())?;
    Ok(true)
}

/// What stands before the knowledge itself: the words of whoever wrote it.
pub fn identity(input: &mut dyn Read, len: u64) -> Option<Vec<u8>> {
    let len = len.checked_sub(4)?;
    head(&mut Reader::new(input, len))
}

fn head(from: &mut Reader<'_>) -> Option<Vec<u8>> {
    (from.many(MAGIC.len())? == MAGIC).then(|| from.bytes())?
}

/// Reads a file that [`write()`] wrote of a source, whose session this is; `None` when it is not that. Times and kinds of events
/// are read from the traces again when they are wanted: see [`Index::fill`]. The steps of calls stay in the file, and are looked
/// at when they are wanted.
pub fn read_file(of: (&Arc<Session>, &Source<'_>), own: &[u8], file: File) -> Option<Kept> {
    let len = file.metadata().ok()?.len();
    let mut input = file.try_clone().ok()?;
    read_from(of, own, (&mut input, len), Some(&Arc::new(Spool::new(file))))
}

/// The same of `len` bytes.
pub fn read(of: (&Arc<Session>, &Source<'_>), own: &[u8], input: &mut dyn Read, len: u64) -> Option<Kept> {
    read_from(of, own, (input, len), None)
}

fn read_from(
    (session, source): (&Arc<Session>, &Source<'_>),
    own: &[u8],
    (input, len): (&mut dyn Read, u64),
    file: Option<&Arc<Spool>>,
) -> Option<Kept> {
    let len = len.checked_sub(4)?;
    let mut from = Reader::new(&mut *input, len);
    if head(&mut from)? != own {
        return None;
    }
    let (origin, begin, end) = (from.wide()?, from.wide()?, from.wide()?);
    let untimed = from.number()?;
    let names = from.list(Reader::text)?;
    let tracks = from.list(|from| from.track(source))?;
    let kinds = from.list(|from| Some(Kind { track: from.small(tracks.len())?, name: from.small(names.len())? }))?;
    let losses = from.list(|from| {
        let track = from.maybe(tracks.len())?;
        let kind = if from.flag()? { LossKind::Packets } else { LossKind::Events };
        let count = if from.flag()? { Some(from.number()?) } else { None };
        let mut time = || Some(from.range()?.map(|(time, _)| time));
        Some(Loss { track, kind, count, begin: time()?, end: time()? })
    })?;
    let mut columns = Columns::read(&mut from)?;
    let places = Arc::new(Places::read(&mut from, source, columns.len())?);
    let timeline = Timeline::read(&mut from, source, (origin, end), &names)?;
    let calls = if from.flag()? { Some(Calls::read(&mut from, source, file)?) } else { None };
    let states = match from.flag()? {
        true => Some((States::read(&mut from)?, from.list(|from| from.maybe(source.session.traces.len()))?)),
        false => None,
    };
    let Reader { left: 0, sum, .. } = from else { return None };
    let mut stored = [0; 4];
    input.read_exact(&mut stored).ok()?;
    let events = tracks.iter().try_fold(0u64, |sum, track| sum.checked_add(track.events));
    let is_right = begin <= end && untimed <= columns.len() as u64;
    let is_whole = is_right && u32::from_le_bytes(stored) == sum.finalize() && events == Some(columns.len() as u64);
    columns.read_by(Again::new(session, source, &timeline, (&places, &kinds)), kinds.len());
    let index = Index {
        tracks,
        names,
        origin,
        begin,
        end,
        losses,
        faults: Vec::new(),
        warnings: Vec::new(),
        untimed,
        columns,
        places,
        kinds,
    };
    is_whole.then_some(Kept { timeline, index, calls, states })
}
