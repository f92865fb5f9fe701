//! Numbers, texts and tracks as bytes.

use std::io::{self, Read, Write};

use crc32fast::Hasher;
use tracemill_codec::bits::put_leb;

use crate::source::Source;
use crate::track::Track;

/// Bytes that are gathered before they are written.
const GATHERED: usize = 1 << 16;

/// Writes numbers, texts and a checksum.
pub(crate) struct Writer<'w> {
    out: &'w mut dyn Write,
    gathered: Vec<u8>,
    sum: Hasher,
}

impl Writer<'_> {
    pub(crate) fn new(out: &mut dyn Write) -> Writer<'_> {
        Writer { out, gathered: Vec::new(), sum: Hasher::new() }
    }

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

    pub(crate) fn range(&mut self, range: Option<(i128, i128)>) {
        self.number(range.is_some().into());
        range.into_iter().flat_map(|(first, last)| [first, last]).for_each(|end| self.wide(end));
    }

    pub(crate) fn maybe(&mut self, number: Option<u64>) {
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

    /// Writes the checksum after all.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.out.write_all(&self.sum.finalize().to_le_bytes())
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
    /// A reader of so many bytes, the checksum after them not counted.
    pub(crate) fn new(input: &mut dyn Read, len: u64) -> Reader<'_> {
        Reader { input, len, left: len, gathered: Vec::new(), at: 0, sum: Hasher::new() }
    }

    /// Reads the checksum that stands after all; says whether it is that of what was read.
    pub(crate) fn finish(self) -> bool {
        let mut stored = [0; 4];
        self.left == 0
            && self.input.read_exact(&mut stored).is_ok()
            && u32::from_le_bytes(stored) == self.sum.finalize()
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

    /// Reads `count` bytes; `None` when there are fewer.
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

    pub(crate) fn range(&mut self) -> Option<Option<(i128, i128)>> {
        let range = if self.flag()? { Some((self.wide()?, self.wide()?)) } else { None };
        range.is_none_or(|(first, last)| first <= last).then_some(range)
    }

    pub(crate) fn maybe(&mut self, end: usize) -> Option<Option<usize>> {
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
