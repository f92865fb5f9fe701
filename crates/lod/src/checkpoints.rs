//! Places from which all streams can be read on, and the numbers of the events after them.

use tracemill_engine::item::StreamPlace;

use crate::source::Source;
use crate::store::bytes::{Reader, Writer};

/// Events between places, unless there are very many streams.
pub(crate) const BETWEEN: usize = 1 << 16;
/// Events that are merged at once, at most: places are known between them.
pub(crate) const BATCH: usize = 4096;

/// The places, in the order of the numbers.
#[derive(Default)]
pub(crate) struct Checkpoints(Vec<(usize, Box<[StreamPlace]>)>);

impl Checkpoints {
    /// Adds the places of all streams that are after those so far.
    pub(crate) fn push(&mut self, number: usize, places: Box<[StreamPlace]>) {
        self.0.push((number, places));
    }

    /// The last places that are not after an event, and the number of the event after them. `None` where that is the
    /// beginning.
    pub(crate) fn before(&self, event: usize) -> Option<(&[StreamPlace], usize)> {
        let at = self.0.partition_point(|(number, _)| *number <= event).checked_sub(1)?;
        let (number, places) = &self.0[at];
        Some((places, *number))
    }

    /// The number of those that are there, and for each the number of the event after it with the places.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &[StreamPlace])> + ExactSizeIterator {
        self.0.iter().map(|(number, places)| (*number, &**places))
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(_, places)| places.len() * size_of::<StreamPlace>()).sum()
    }

    /// Writes how far it is from each place of a stream to the next; a stream that has not moved takes a byte.
    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        to.size(self.0.len());
        let mut last: (usize, Vec<[u64; 4]>) = (0, Vec::new());
        for (number, places) in &self.0 {
            to.size(number - last.0);
            last.0 = *number;
            last.1.resize(places.len(), [0; 4]);
            for (place, last) in places.iter().zip(&mut last.1) {
                let numbers = place.numbers();
                to.number(u64::from(numbers != *last));
                if numbers != *last {
                    numbers.iter().zip(last).for_each(|(number, last)| {
                        to.step(number.wrapping_sub(*last) as i64);
                        *last = *number;
                    });
                }
            }
        }
    }

    /// Reads what was written; no number of an event is above `events`.
    pub(crate) fn read(from: &mut Reader<'_>, source: &Source<'_>, events: usize) -> Option<Checkpoints> {
        let mut last: (usize, Vec<[u64; 4]>) = (0, vec![[0; 4]; source.streams.len()]);
        let list = from.list(|from| {
            let number = last.0.checked_add(from.size()?).filter(|number| *number > last.0 && *number <= events)?;
            last.0 = number;
            let places = source.streams.iter().zip(&mut last.1).map(|(of, last)| {
                if from.flag()? {
                    for number in last.iter_mut() {
                        *number = number.wrapping_add(from.step()? as u64);
                    }
                }
                // The end of a stream is after all of its packets.
                let is_inside = last[0] <= of.stream.packets.len() as u64 || last[0] == usize::MAX as u64;
                is_inside.then(|| StreamPlace::from_numbers(*last))
            });
            Some((number, places.collect::<Option<Box<[StreamPlace]>>>()?))
        })?;
        Some(Checkpoints(list))
    }
}
