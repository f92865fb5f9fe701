//! Pages of the kernel's ring buffer, and the records in them.
//!
//! ```text
//! page      u64 time, long commit, records
//! commit    bytes of records in the low 27 bits; bit 31: events are missing before the page; bit 30: their number
//!           stands after the records, as a long
//! record    u32 head: 5 bits of kind, 27 bits of time since the record before (big-endian machines: kind on top)
//! kind      1..=28   data of 4 times as many bytes
//!           0        u32 length, itself included, then the data
//!           29       padding: to the end of the page without time, otherwise u32 length, itself included
//!           30       time extension: u32 more bits of time, above the 27
//!           31       time stamp: u32 more bits; the whole is the time, without its upper 5 bits
//! ```

use tracemill_codec::bits::u32_at;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::event_format::Machine;

/// Bits of the commit that are a length.
const COMMIT_MASK: u64 = (1 << 27) - 1;
/// Bit of the commit: events were lost before this page.
pub const EVENTS_MISSED: u64 = 1 << 31;
/// Bit of the commit: the number of lost events stands after the last record.
pub const MISSED_STORED: u64 = 1 << 30;
/// Bits of time in the head of a record.
pub const DELTA_BITS: u32 = 27;
/// Bits of a time stamp record.
const STAMP_BITS: u32 = 59;

/// Type of a record that fills a page.
const PADDING: u32 = 29;
/// Type of a record that adds the upper bits of a time delta.
pub const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// The largest page: larger than the kernel's largest sub-buffers.
pub const MAX_PAGE_BYTES: usize = 1 << 22;

/// How the pages of a trace are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageLayout {
    /// The kernel that wrote them; its `long` is that of the commit.
    pub machine: Machine,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Offset of the time.
    pub time_offset: usize,
    /// Offset of the commit.
    pub commit_offset: usize,
    /// Offset of the first record.
    pub data_offset: usize,
}

/// A page whose header makes sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page<'p> {
    /// Time to which the first record adds.
    pub time: u64,
    /// The records, as far as they are there.
    pub records: &'p [u8],
    /// Bytes before them.
    pub data_offset: usize,
    /// Were events lost before the page?
    pub missed: Option<Missed>,
    /// Bytes that the page says it holds, when it cannot: `records` is then all that follows the header.
    pub bad_commit: Option<u64>,
}

/// Events that were lost before a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missed {
    /// Their number is unknown.
    Some,
    /// This number.
    Count(u64),
}

/// A record with data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its time.
    pub time: u64,
    /// Offset of its data in the page.
    pub offset: usize,
    /// Bytes of its data.
    pub len: usize,
}

impl PageLayout {
    /// The layout of all kernels that we know.
    pub fn new(machine: Machine, page_bytes: usize) -> Self {
        let data_offset = 8 + usize::from(machine.long_bytes);
        PageLayout { machine, page_bytes, time_offset: 0, commit_offset: 8, data_offset }
    }

    /// The layout that `events/header_page` describes. Its `commit` says how large a `long` of the kernel is, which
    /// need not be that of the programs that were traced.
    ///
    /// # Errors
    /// When it describes no page of this size.
    pub fn from_header_page(text: &str, byte_order: ByteOrder, page_bytes: usize) -> Result<Self> {
        let number = |name: &str, key: &str| -> Option<usize> {
            let line = text.lines().find(|line| {
                let declaration = line.split(';').next().unwrap_or("");
                declaration.split_whitespace().next_back() == Some(name)
            })?;
            let value = line.split(';').find_map(|part| part.trim().strip_prefix(key)?.strip_prefix(':'))?;
            value.trim().parse().ok()
        };
        let missing = |name: &str| Error::malformed(format!("the header page does not say where `{name}` is"));
        let of = |name: &str| number(name, "offset").ok_or_else(|| missing(name));
        let (time_offset, commit_offset, data_offset) = (of("timestamp")?, of("commit")?, of("data")?);
        let long_bytes = match number("commit", "size") {
            Some(4) => 4,
            Some(8) => 8,
            _ => return Err(Error::malformed("the header page has a commit of neither 4 nor 8 bytes")),
        };
        let machine = Machine { byte_order, long_bytes };
        let layout = PageLayout { machine, page_bytes, time_offset, commit_offset, data_offset };
        let end = |offset: usize, bytes: usize| offset.checked_add(bytes).is_some_and(|end| end <= data_offset);
        if !end(time_offset, 8) || !end(commit_offset, long_bytes.into()) || data_offset >= page_bytes {
            let message =
                format!("the header page describes a header that is not part of a page of {page_bytes} bytes");
            return Err(Error::malformed(message));
        }
        Ok(layout)
    }

    /// The time at the beginning of a page, `None` when its header is not there.
    pub fn time(&self, page: &[u8]) -> Option<u64> {
        let bytes = page.get(self.time_offset..self.time_offset.checked_add(8)?)?;
        Some(self.machine.number(bytes))
    }

    /// Reads the header of a page.
    ///
    /// # Errors
    /// When the bytes end inside it.
    pub fn page<'p>(&self, bytes: &'p [u8]) -> Result<Page<'p>> {
        let long = usize::from(self.machine.long_bytes);
        let commit = bytes.get(self.commit_offset..self.commit_offset + long).map(|bytes| self.machine.number(bytes));
        let (Some(time), Some(commit), Some(data)) = (self.time(bytes), commit, bytes.get(self.data_offset..)) else {
            let message = format!("the data ends inside the header of a page, {} bytes of it are there", bytes.len());
            return Err(Error::truncated(message));
        };
        let used = commit & COMMIT_MASK;
        let bad_commit = (used > (self.page_bytes - self.data_offset) as u64).then_some(used);
        let records = match usize::try_from(used) {
            Ok(used) if bad_commit.is_none() => &data[..used.min(data.len())],
            _ => data,
        };
        let missed = (commit & EVENTS_MISSED != 0).then(|| {
            let stored = (commit & MISSED_STORED != 0 && bad_commit.is_none()).then(|| {
                let behind = usize::try_from(used).ok()?;
                data.get(behind..behind + long).map(|bytes| self.machine.number(bytes))
            });
            stored.flatten().map_or(Missed::Some, Missed::Count)
        });
        Ok(Page { time, records, data_offset: self.data_offset, missed, bad_commit })
    }

    /// The records of a page.
    pub fn records<'p>(&self, page: &Page<'p>) -> Records<'p> {
        Records { bytes: page.records, at: 0, base: page.data_offset, time: page.time, machine: self.machine }
    }
}

/// Goes through the records of a page. After an error there is nothing more.
pub struct Records<'p> {
    bytes: &'p [u8],
    at: usize,
    base: usize,
    time: u64,
    machine: Machine,
}

impl Records<'_> {
    /// The time of the record read last, or of the page.
    pub fn time(&self) -> u64 {
        self.time
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u32> {
        u32_at(self.bytes, at, self.machine.byte_order)
    }

    #[inline]
    fn split(&self, head: u32) -> (u32, u64) {
        match self.machine.byte_order {
            ByteOrder::Little => (head & 31, u64::from(head >> 5)),
            ByteOrder::Big => (head >> DELTA_BITS, u64::from(head & ((1 << DELTA_BITS) - 1))),
        }
    }

    /// The next record, when its length stands in its head; otherwise nothing is taken.
    #[inline]
    pub fn next_short(&mut self) -> Option<Record> {
        let (kind, delta) = self.split(self.word(self.at)?);
        let (data, len) = (self.at + 4, kind as usize * 4);
        if !(1..=28).contains(&kind) || data + len > self.bytes.len() {
            return None;
        }
        self.at = data + len;
        self.time = self.time.wrapping_add(delta);
        Some(Record { time: self.time, offset: self.base + data, len })
    }

    #[cold]
    fn fail(&mut self, at: usize, what: &str) -> Option<Result<Record>> {
        let left = self.bytes.len() - at;
        self.at = self.bytes.len();
        let message = format!("{what}; {left} bytes of the page are left");
        Some(Err(Error::malformed(message).at_offset((self.base + at) as u64)))
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record>;

    #[inline]
    fn next(&mut self) -> Option<Result<Record>> {
        loop {
            let at = self.at;
            if at >= self.bytes.len() {
                return None;
            }
            let Some(head) = self.word(at) else { return self.fail(at, "a record ends inside its head") };
            let (kind, delta) = self.split(head);
            let (data, len) = match kind {
                1..=28 => (at + 4, kind as usize * 4),
                PADDING if delta == 0 => {
                    self.at = self.bytes.len();
                    return None;
                }
                _ => {
                    let Some(word) = self.word(at + 4) else { return self.fail(at, "a record ends inside its head") };
                    match kind {
                        0 if word < 4 => return self.fail(at, &format!("a record of impossible length {word}")),
                        // Its length is rounded up to whole words.
                        0 => (at + 8, (word as usize - 4).next_multiple_of(4)),
                        PADDING if word < 4 => return self.fail(at, &format!("padding of impossible length {word}")),
                        // A discarded event: its time counts.
                        PADDING => {
                            self.time = self.time.wrapping_add(delta);
                            self.at = (at + 4).saturating_add(word as usize);
                            if self.at > self.bytes.len() {
                                return self.fail(at, &format!("padding of impossible length {word}"));
                            }
                            continue;
                        }
                        _ => {
                            let value = u64::from(word) << DELTA_BITS | delta;
                            self.time = match kind {
                                TIME_EXTEND => self.time.wrapping_add(value),
                                _ => stamp(value, self.time),
                            };
                            self.at = at + 8;
                            continue;
                        }
                    }
                }
            };
            let end = data.saturating_add(len);
            if end > self.bytes.len() {
                return self.fail(at, &format!("a record of {len} bytes does not fit"));
            }
            self.at = end;
            self.time = self.time.wrapping_add(delta);
            return Some(Ok(Record { time: self.time, offset: self.base + data, len }));
        }
    }
}

const _: () = assert!(TIME_STAMP == 31);

/// The full time of a stamp of 59 bits that follows `before`: its upper bits are those of the time before, one more
/// when the stamp has wrapped.
fn stamp(value: u64, before: u64) -> u64 {
    let low = value & ((1 << STAMP_BITS) - 1);
    let upper = before >> STAMP_BITS << STAMP_BITS;
    if upper == 0 {
        return low;
    }
    let full = upper | low;
    if full < before { full.wrapping_add(1 << STAMP_BITS) } else { full }
}

#[cfg(test)]
mod tests {
    use tracemill_model::error::ErrorKind;

    use super::*;
    use crate::builder::PageBuilder;

    fn layout(order: ByteOrder, long_bytes: u8) -> PageLayout {
        PageLayout::new(Machine { byte_order: order, long_bytes }, 256)
    }

    fn records(layout: PageLayout, bytes: &[u8]) -> (Vec<(u64, usize)>, Option<String>) {
        let page = layout.page(bytes).unwrap();
        let (mut good, mut fault) = (Vec::new(), None);
        for record in layout.records(&page) {
            match record {
                Ok(record) => {
                    assert!(bytes.get(record.offset..record.offset + record.len).is_some());
                    good.push((record.time, record.len));
                }
                Err(error) => fault = Some(error.message().to_string()),
            }
        }
        (good, fault)
    }

    #[test]
    fn every_kind_of_record_in_both_byte_orders() {
        for (order, long) in [(ByteOrder::Little, 8), (ByteOrder::Little, 4), (ByteOrder::Big, 8), (ByteOrder::Big, 4)]
        {
            let mut page = PageBuilder::new(order, long, 1000);
            page.event(5, &[1; 8]);
            page.long_event(0, &[2; 120]);
            page.discarded(3, 8);
            page.time_extend(1 << 27 | 9);
            page.event(1, &[3; 4]);
            page.time_stamp(2_000_000_000);
            page.event(7, &[4; 12]);
            page.end_padding();
            let bytes = page.build(256);
            let (good, fault) = records(layout(order, long), &bytes);
            let extended = 1008 + (1 << 27) + 9;
            assert_eq!(good, [(1005, 8), (1005, 120), (extended + 1, 4), (2_000_000_007, 12)]);
            assert_eq!(fault, None);
        }
    }

    #[test]
    fn missed_events_with_and_without_their_number() {
        for (order, long) in [(ByteOrder::Little, 8), (ByteOrder::Big, 4)] {
            let layout = layout(order, long);
            let mut page = PageBuilder::new(order, long, 7);
            page.event(0, &[0; 8]);
            assert_eq!(layout.page(&page.clone().build(256)).unwrap().missed, None);
            assert_eq!(layout.page(&page.clone().missed(None).build(256)).unwrap().missed, Some(Missed::Some));
            let counted = page.missed(Some(17)).build(256);
            assert_eq!(layout.page(&counted).unwrap().missed, Some(Missed::Count(17)));
            assert_eq!(records(layout, &counted), (vec![(7, 8)], None));
        }
    }

    #[test]
    fn impossible_lengths() {
        let layout = layout(ByteOrder::Little, 8);
        let fault = |words: &[u32], commit: u64| {
            let mut bytes = 5u64.to_le_bytes().to_vec();
            bytes.extend(commit.to_le_bytes());
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            bytes.resize(256, 0);
            (layout.page(&bytes).unwrap().bad_commit, records(layout, &bytes).1.unwrap_or_default())
        };
        assert_eq!(fault(&[28], 12).1, "a record of 112 bytes does not fit; 12 bytes of the page are left");
        assert_eq!(fault(&[0, 3], 12).1, "a record of impossible length 3; 12 bytes of the page are left");
        assert_eq!(
            fault(&[0, u32::MAX], 12).1,
            "a record of 4294967292 bytes does not fit; 12 bytes of the page are left"
        );
        assert_eq!(fault(&[29 | 1 << 5, 2], 12).1, "padding of impossible length 2; 12 bytes of the page are left");
        assert_eq!(fault(&[29 | 1 << 5, 900], 12).1, "padding of impossible length 900; 12 bytes of the page are left");
        assert_eq!(fault(&[30], 4).1, "a record ends inside its head; 4 bytes of the page are left");
        assert_eq!(fault(&[29], 241), (Some(241), String::new()));
        let error = layout.page(&[0; 15]).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Truncated, "the data ends inside the header of a page, 15 bytes of it are there")
        );
    }

    #[test]
    fn stamps_keep_the_upper_bits() {
        assert_eq!(stamp(5, 100), 5);
        let high = 3u64 << 59;
        assert_eq!(stamp(200, high | 100), high | 200);
        assert_eq!(stamp(50, high | 100), (4 << 59) | 50);
    }

    #[test]
    fn header_pages() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        let layout = PageLayout::from_header_page(text, ByteOrder::Big, 4096).unwrap();
        assert_eq!(layout, PageLayout::new(Machine { byte_order: ByteOrder::Big, long_bytes: 4 }, 4096));
        let fault =
            |text: &str| PageLayout::from_header_page(text, ByteOrder::Big, 4096).unwrap_err().message().to_string();
        assert_eq!(fault(""), "the header page does not say where `timestamp` is");
        assert_eq!(fault(&text.replace("size:4;", "size:6;")), "the header page has a commit of neither 4 nor 8 bytes");
        let wrong = "the header page describes a header that is not part of a page of 4096 bytes";
        assert_eq!(fault(&text.replace("offset:12", "offset:5000")), wrong);
        assert_eq!(fault(&text.replace("offset:12", "offset:10")), wrong);
    }
}
