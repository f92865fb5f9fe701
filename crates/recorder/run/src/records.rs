//! Records as a thread writes them into a slot, and as the file of its task has them: times in place of clock values, and
//! no lengths of values.

use crate::times::{ClockLine, ClockMapping};

/// Length of a record in bytes.
pub(crate) const RECORD: usize = 16;
/// The kind of a record that counts lost ones.
const LOST: u64 = 2;
/// The marker that every record has in its second word.
pub(crate) const MARKER: u64 = 5 << 3;
/// The bits of the marker.
pub(crate) const MARKERS: u64 = 7 << 3;
/// Values follow, with their length before them, which the files of tasks do not have.
const MORE: u64 = 4;

/// The part of what a thread wrote that was seen before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeenPart {
    /// Clock of its last record.
    clock: u64,
    /// Lost records that its records count.
    pub(crate) lost: u64,
}

/// Records for the file of a task.
#[derive(Debug, Default)]
pub(crate) struct TaskRecords {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u64,
    /// Records of lost ones, and how many those are.
    pub(crate) told: (u64, u64),
}

impl TaskRecords {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.told) = (0, (0, 0));
    }

    #[inline(always)]
    fn append(&mut self, time: u64, word: u64, values: &[u8]) {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&time.to_le_bytes());
        record[8..].copy_from_slice(&word.to_le_bytes());
        self.bytes.extend_from_slice(&record);
        if !values.is_empty() {
            self.bytes.extend_from_slice(values);
        }
        self.count += 1;
    }

    /// Adds a record of lost ones, if there are some.
    pub(crate) fn append_lost(&mut self, count: u64) {
        if count > 0 {
            self.told = (self.told.0 + 1, self.told.1 + count);
            self.append(0, LOST | MARKER | count << 16, &[]);
        }
    }

    /// Adds the records of a slot: of a full one, or of the last one, where older ones may stand after them. `last` is the
    /// time of the last record.
    pub(crate) fn add(
        &mut self,
        slot: &[u8],
        times: &ClockMapping,
        is_last: bool,
        seen: &mut SeenPart,
        last: &mut u64,
    ) {
        self.bytes.reserve(slot.len() + RECORD);
        let mut line = ClockLine::default();
        let mut time = |clock: u64, last: u64| {
            if !line.cycles.contains(&clock) {
                line = times.line(clock);
            }
            // Lines between other readings of the clocks may differ by some ns.
            last.max(line.ns(clock))
        };
        let mut rest = slot;
        while let Some((record, behind)) = rest.split_at_checked(RECORD) {
            rest = behind;
            let (clock, word) = (number(&record[..8]), number(&record[8..]));
            // Nearly all: an entry or an exit without values.
            if word & (MARKERS | MORE | LOST) == MARKER && !is_last {
                (seen.clock, *last) = (clock, time(clock, *last));
                self.append(*last, word, &[]);
                continue;
            }
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
            if is_last && clock < seen.clock {
                break;
            }
            seen.clock = clock;
            if word & 3 == LOST {
                seen.lost += word >> 16;
                self.append_lost(word >> 16);
            } else {
                *last = time(clock, *last);
                self.append(*last, word, values);
            }
        }
    }
}

/// The number that these bytes begin with.
#[inline(always)]
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn records_keep_their_order_and_their_values() {
        let (entry, lost) = (7 << 16 | MARKER, 3 << 16 | LOST | MARKER);
        // An entry, one with five bytes of values, one that was never finished, lost ones, an exit, unused bytes.
        let words = [10, entry, 20, entry | MORE, 5, 0x1122_3344_5566, 25, 2 << 16, 0, 0, 0, lost, 30, entry | 1, 0, 0];
        let (mut records, mut seen, mut last) = (TaskRecords::default(), SeenPart::default(), 0);
        records.add(&slot(&words), &ClockMapping::default(), false, &mut seen, &mut last);
        let mut expected = slot(&[10, entry, 20, entry | MORE, 0x1122_3344_5566]);
        expected.truncate(37);
        expected.extend(slot(&[0, lost, 30, entry | 1]));
        assert_eq!(records.bytes, expected);
        assert_eq!((records.count, records.told, seen.lost, last), (4, (1, 3), 3, 30));
        // An event of a probe, by its id.
        records.clear();
        let event = 1_000_000 << 16 | MARKER | 3;
        records.add(&slot(&[35, event]), &ClockMapping::default(), false, &mut seen, &mut last);
        assert_eq!((&records.bytes, records.count, last), (&slot(&[35, event]), 1, 35));
        // Of the last slot, what stands there from the round before is older.
        records.clear();
        let words = [40, entry, 41, entry | 1, 12, entry, 13, entry];
        records.add(&slot(&words), &ClockMapping::default(), true, &mut seen, &mut last);
        assert_eq!((records.count, records.bytes.len(), last), (2, 32, 41));
    }
}
