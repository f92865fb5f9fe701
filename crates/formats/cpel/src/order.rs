//! The order of time of records that do not stand in it, with memory that does not grow with their number.
//!
//! The place of every record in the order would be four octets for each. Of a long section only bounds are kept, which
//! cut the order into groups; the order within a group is found when its events are read, by one pass over the records
//! from the first to the last one of the group. Where times are nearly in order, as with records of several processors,
//! these are few more than the group has.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Most records of the groups of all sections that are at hand.
const RECORDS: usize = 8 << 20;
/// Most records of a group, whatever the number of sections.
const MIN_GROUP: usize = 1 << 14;
/// Groups of a section that are at hand.
const USED: usize = 2;
/// Slices of the range of keys that are counted at once.
const SLICES: usize = 4096;

/// The records of a section, to be put into the order of time.
pub(super) trait Timed {
    /// Shows the times of these records, one after the other.
    fn for_each(&self, records: Range<u32>, take: impl FnMut(u32, u64));

    /// The time of one.
    fn time(&self, record: u32) -> u64;
}

/// The order of the records of a section: by time, equal times as they stand in the file.
pub(super) struct RecordOrder {
    groups: Vec<KeyGroup>,
    /// The groups used last, the last one first. Threads that read packets side by side are in two at most.
    used: Mutex<Vec<(usize, Arc<Vec<u32>>)>>,
}

#[derive(Debug)]
struct KeyGroup {
    keys: Range<u128>,
    /// From its first to its last record.
    records: Range<u32>,
    /// How many records come before it in the order.
    rank: u64,
    len: usize,
}

/// Records that have the same key do not exist.
fn key(time: u64, record: u32) -> u128 {
    u128::from(time) << 32 | u128::from(record)
}

impl KeyGroup {
    fn empty(keys: Range<u128>) -> Self {
        KeyGroup { keys, records: Range { start: u32::MAX, end: 0 }, rank: 0, len: 0 }
    }
}

impl RecordOrder {
    /// The order of the first `len` records of one of so many sections.
    pub(super) fn from_timed(timed: &impl Timed, len: u32, sections: usize) -> Self {
        Self::in_groups(timed, len, (RECORDS / USED / sections.max(1)).max(MIN_GROUP))
    }

    fn in_groups(timed: &impl Timed, len: u32, most: usize) -> Self {
        let mut keys = Range { start: u128::MAX, end: 0 };
        timed.for_each(0..len, |record, time| {
            let key = key(time, record);
            keys = keys.start.min(key)..keys.end.max(key + 1);
        });
        let mut order = RecordOrder { groups: Vec::new(), used: Mutex::default() };
        if len > 0 {
            order.cut(timed, KeyGroup { keys, records: 0..len, rank: 0, len: len as usize }, most);
        }
        let mut rank = 0;
        for group in &mut order.groups {
            group.rank = rank;
            rank += group.len as u64;
        }
        order
    }

    /// Adds a group, cut into parts that are small enough.
    fn cut(&mut self, timed: &impl Timed, group: KeyGroup, most: usize) {
        if group.len <= most.max(1) {
            self.groups.push(group);
            return;
        }
        let Range { start, end } = group.keys;
        let width = (end - start).div_ceil(SLICES as u128).max(1);
        let slices = (0..SLICES as u128).map(|at| start + at * width).take_while(|&from| from < end);
        let mut slices: Vec<KeyGroup> = slices.map(|from| KeyGroup::empty(from..end.min(from + width))).collect();
        timed.for_each(group.records, |record, time| {
            let Some(place) = key(time, record).checked_sub(start) else { return };
            if let Some(slice) = slices.get_mut(usize::try_from(place / width).unwrap_or(usize::MAX)) {
                slice.records = slice.records.start.min(record)..slice.records.end.max(record + 1);
                slice.len += 1;
            }
        });
        // Keys differ, so a slice of one key has one record, and the parts of parts become small enough.
        let mut open: Option<KeyGroup> = None;
        for slice in slices.into_iter().filter(|slice| slice.len > 0) {
            open = match open {
                Some(group) if group.len + slice.len <= most => Some(KeyGroup {
                    keys: group.keys.start..slice.keys.end,
                    records: group.records.start.min(slice.records.start)..group.records.end.max(slice.records.end),
                    rank: 0,
                    len: group.len + slice.len,
                }),
                Some(group) => {
                    self.cut(timed, group, most);
                    Some(slice)
                }
                None => Some(slice),
            };
        }
        if let Some(group) = open {
            self.cut(timed, group, most);
        }
    }

    /// The record at a place of the order.
    pub(super) fn record(&self, timed: &impl Timed, place: u64) -> Option<u32> {
        self.records(timed, place..place + 1).first().copied()
    }

    /// The records at these places of the order.
    pub(super) fn records(&self, timed: &impl Timed, places: Range<u64>) -> Vec<u32> {
        let mut records = Vec::with_capacity(((places.end - places.start) as usize).min(RECORDS));
        let first = self.groups.partition_point(|group| group.rank + group.len as u64 <= places.start);
        for (at, group) in self.groups.iter().enumerate().skip(first) {
            if group.rank >= places.end {
                break;
            }
            let order = self.order_of(timed, at);
            let from = places.start.saturating_sub(group.rank) as usize;
            let to = (places.end - group.rank).min(order.len() as u64) as usize;
            records.extend_from_slice(order.get(from..to).unwrap_or(&[]));
        }
        records
    }

    fn order_of(&self, timed: &impl Timed, at: usize) -> Arc<Vec<u32>> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = used.iter().position(|(group, _)| *group == at) {
            used[..=place].rotate_right(1);
            return used[0].1.clone();
        }
        // Freed before the next one is made.
        used.truncate(USED - 1);
        let group = &self.groups[at];
        let mut order = Vec::with_capacity(group.len);
        timed.for_each(group.records.clone(), |record, time| {
            if group.keys.contains(&key(time, record)) {
                order.push(record);
            }
        });
        order.sort_unstable_by_key(|&record| (timed.time(record), record));
        let order = Arc::new(order);
        used.insert(0, (at, order.clone()));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Timed for Vec<u64> {
        fn for_each(&self, records: Range<u32>, mut take: impl FnMut(u32, u64)) {
            for record in records {
                take(record, self[record as usize]);
            }
        }

        fn time(&self, record: u32) -> u64 {
            self[record as usize]
        }
    }

    #[test]
    fn groups_of_any_size_give_the_order_of_all() {
        let mut random = 1u64;
        let mut next = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 11
        };
        let few: Vec<u64> = (0..3000).map(|_| next() % 5).collect();
        let anywhere: Vec<u64> = (0..3000).map(|_| next() << 11).collect();
        let near: Vec<u64> = (0..3000).map(|at| at * 10 + next() % 100).collect();
        let ends: Vec<u64> = (0..3000).map(|at| if at % 2 == 0 { u64::MAX } else { 0 }).collect();
        for times in [few, anywhere, near, ends, vec![7; 3000], vec![3], Vec::new()] {
            let mut want: Vec<u32> = (0..times.len() as u32).collect();
            want.sort_by_key(|&record| times[record as usize]);
            for most in [1, 7, 100, 2999, 5000] {
                let order = RecordOrder::in_groups(&times, times.len() as u32, most);
                assert!(order.groups.iter().all(|group| group.len <= most));
                assert_eq!(order.records(&times, 0..times.len() as u64), want);
                for part in [0..0, 5..9, 90..310, 2990..4000] {
                    let part = part.start.min(want.len())..part.end.min(want.len());
                    assert_eq!(order.records(&times, part.start as u64..part.end as u64), want[part]);
                }
                assert_eq!(order.record(&times, times.len() as u64), None);
            }
        }
    }
}
