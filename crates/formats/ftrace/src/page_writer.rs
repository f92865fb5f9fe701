//! Pages of the ring buffer, the other way round: records with their times, in the form that `ring_buffer` reads.
//!
//! A page ends when the next record does not fit, when time goes back, and where events are missing.

use tracemill_codec::bits::put_uint;
use tracemill_model::schema::ByteOrder;

use crate::record_writer::{number_bytes, put_bytes};
use crate::ring_buffer::{DELTA_BITS, EVENTS_MISSED, MISSED_STORED, PageLayout, TIME_EXTEND};

/// Data up to this length says it in the head of its record.
const SHORT_BYTES: usize = 28 * 4;
/// Bits of the time that head and word of a [`TIME_EXTEND`] hold.
const EXTENDED_BITS: u32 = DELTA_BITS + 32;

/// Writes the pages of one CPU.
#[derive(Default)]
pub struct PageWriter {
    /// Header and records of the page that is open.
    page: Vec<u8>,
    /// Time of its last record.
    time: u64,
    /// The events lost before the next page: their number, 0 when it is unknown.
    missed: Option<u64>,
}

impl PageWriter {
    /// Appends a record; pages that are full go to `out`. `false` when it is too large for any page.
    pub fn push(&mut self, layout: &PageLayout, time: u64, record: &[u8], out: &mut Vec<u8>) -> bool {
        let order = layout.machine.byte_order;
        let len = record.len().next_multiple_of(4);
        let head = if len == 0 || len > SHORT_BYTES { 8 } else { 4 };
        // A time of its own may stand before it, and after the last one how many events are missing before the page.
        let room = head + len + 8 + usize::from(layout.machine.long_bytes);
        if layout.data_offset + room > layout.page_bytes {
            return false;
        }
        let is_later = time.checked_sub(self.time).is_some_and(|delta| delta >> EXTENDED_BITS == 0);
        if !self.page.is_empty() && (!is_later || self.page.len() + room > layout.page_bytes) {
            self.end_page(layout, out);
        }
        if self.page.is_empty() {
            self.page.resize(layout.data_offset, 0);
            put_bytes(&mut self.page, layout.time_offset, &number_bytes(order, time, 8));
            self.time = time;
        }
        let mut delta = time - self.time;
        self.time = time;
        if delta >> DELTA_BITS != 0 {
            self.put_head(order, TIME_EXTEND.into(), delta & ((1 << DELTA_BITS) - 1));
            put_uint(&mut self.page, delta >> DELTA_BITS, 4, order);
            delta = 0;
        }
        if head == 4 {
            self.put_head(order, len as u64 / 4, delta);
        } else {
            self.put_head(order, 0, delta);
            put_uint(&mut self.page, len as u64 + 4, 4, order);
        }
        self.page.extend_from_slice(record);
        self.page.resize(self.page.len() + len - record.len(), 0);
        true
    }

    fn put_head(&mut self, order: ByteOrder, kind: u64, delta: u64) {
        let word = match order {
            ByteOrder::Little => kind | delta << 5,
            ByteOrder::Big => kind << DELTA_BITS | delta,
        };
        put_uint(&mut self.page, word, 4, order);
    }

    /// Events are missing here: so many, when somebody knows.
    pub fn gap(&mut self, layout: &PageLayout, count: Option<u64>, out: &mut Vec<u8>) {
        self.end_page(layout, out);
        let count = count.unwrap_or(0);
        self.missed =
            Some(self.missed.map_or(count, |missed| if count == 0 { 0 } else { missed.saturating_add(count) }));
    }

    /// Are events missing after the last record? No page says so, as that would be the next one.
    pub fn has_open_gap(&self) -> bool {
        self.missed.is_some()
    }

    /// Ends the page that is open.
    pub fn end_page(&mut self, layout: &PageLayout, out: &mut Vec<u8>) {
        if self.page.is_empty() {
            return;
        }
        let order = layout.machine.byte_order;
        let long = usize::from(layout.machine.long_bytes);
        let mut commit = (self.page.len() - layout.data_offset) as u64;
        match self.missed.take() {
            Some(0) => commit |= EVENTS_MISSED,
            Some(count) => {
                commit |= EVENTS_MISSED | MISSED_STORED;
                put_uint(&mut self.page, count, long, order);
            }
            None => {}
        }
        put_bytes(&mut self.page, layout.commit_offset, &number_bytes(order, commit, long));
        self.page.resize(layout.page_bytes, 0);
        out.append(&mut self.page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_format::Machine;
    use crate::ring_buffer::Missed;

    #[test]
    fn pages_are_read_as_they_were_written() {
        for byte_order in [ByteOrder::Little, ByteOrder::Big] {
            let layout = PageLayout::new(Machine { byte_order, long_bytes: 8 }, 256);
            let (mut pages, mut out) = (PageWriter::default(), Vec::new());
            let far = 1u64 << EXTENDED_BITS;
            let records =
                [(1000, 8), (1005, 0), (1 << 28, 120), ((1 << 28) + 9, 112), (500, 4), (500 + far, 3), (far + 600, 6)];
            for (at, &(time, len)) in records.iter().enumerate() {
                assert!(pages.push(&layout, time, &vec![at as u8; len], &mut out));
            }
            assert!(!pages.push(&layout, 0, &[0; 240], &mut out));
            pages.gap(&layout, Some(5), &mut out);
            pages.gap(&layout, Some(2), &mut out);
            assert!(pages.push(&layout, far + 700, &[7; 4], &mut out));
            pages.gap(&layout, None, &mut out);
            assert!(pages.push(&layout, far + 800, &[8; 4], &mut out));
            pages.end_page(&layout, &mut out);
            pages.end_page(&layout, &mut out);
            let (mut found, mut missed) = (Vec::new(), Vec::new());
            assert!(out.len().is_multiple_of(256));
            for bytes in out.chunks(256) {
                let page = layout.page(bytes).expect("a header");
                assert_eq!(page.bad_commit, None);
                missed.extend(page.missed);
                for record in layout.records(&page) {
                    let record = record.expect("a record");
                    found.push((record.time, bytes[record.offset..record.offset + record.len].to_vec()));
                }
            }
            // Lengths are rounded up to whole words.
            let want = |at: usize, &(time, len): &(u64, usize)| {
                let mut bytes = vec![at as u8; len];
                bytes.resize(len.next_multiple_of(4), 0);
                (time, bytes)
            };
            let mut want: Vec<_> = records.iter().enumerate().map(|(at, record)| want(at, record)).collect();
            want.extend([(far + 700, vec![7; 4]), (far + 800, vec![8; 4])]);
            assert_eq!(found, want);
            assert_eq!(missed, [Missed::Count(7), Missed::Some]);
        }
    }
}
