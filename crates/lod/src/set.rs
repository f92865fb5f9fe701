//! Sets of events.

/// A set of events, by number.
#[derive(Clone, Default)]
pub struct EventSet {
    words: Vec<u64>,
    len: usize,
    /// Events in the set before each 64 words.
    before: Vec<usize>,
}

/// Words between counts.
const STEP: usize = 64;

impl EventSet {
    /// Adds an event after those that are in the set.
    pub fn push(&mut self, event: usize) {
        let word = event / 64;
        while self.words.len() <= word {
            if self.words.len().is_multiple_of(STEP) {
                self.before.push(self.len);
            }
            self.words.push(0);
        }
        self.words[word] |= 1 << (event % 64);
        self.len += 1;
    }

    /// The events that are in one of two sets.
    #[must_use]
    pub fn or(&self, other: &EventSet) -> EventSet {
        let (long, short) = if self.words.len() >= other.words.len() { (self, other) } else { (other, self) };
        let both = long.words.iter().enumerate().map(|(at, word)| word | short.words.get(at).copied().unwrap_or(0));
        let mut set = EventSet::default();
        for word in both {
            if set.words.len().is_multiple_of(STEP) {
                set.before.push(set.len);
            }
            set.words.push(word);
            set.len += word.count_ones() as usize;
        }
        set
    }

    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        (self.words.capacity() + self.before.capacity()) * 8
    }

    /// Is an event in it?
    pub fn has(&self, event: usize) -> bool {
        self.words.get(event / 64).is_some_and(|word| word >> (event % 64) & 1 == 1)
    }

    /// Events in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is no event in it?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many of its events stand before this one.
    pub fn rank(&self, event: usize) -> usize {
        let word = (event / 64).min(self.words.len());
        let step = word / STEP;
        let start = self.before.get(step).copied().unwrap_or(self.len);
        if step >= self.before.len() {
            return self.len;
        }
        let whole: u32 = self.words[step * STEP..word].iter().map(|word| word.count_ones()).sum();
        let rest = self.words.get(word).map_or(0, |bits| (bits & ((1 << (event % 64)) - 1)).count_ones());
        start + whole as usize + rest as usize
    }

    /// Shows all events in it.
    pub fn for_each(&self, mut see: impl FnMut(usize)) {
        for (at, word) in self.words.iter().enumerate() {
            let mut bits = *word;
            while bits != 0 {
                see(at * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// The event of this rank.
    pub fn select(&self, rank: usize) -> Option<usize> {
        if rank >= self.len {
            return None;
        }
        let step = self.before.partition_point(|before| *before <= rank) - 1;
        let mut left = rank - self.before[step];
        for (at, word) in self.words.iter().enumerate().skip(step * STEP) {
            let ones = word.count_ones() as usize;
            if left < ones {
                let mut bits = *word;
                (0..left).for_each(|_| bits &= bits - 1);
                return Some(at * 64 + bits.trailing_zeros() as usize);
            }
            left -= ones;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_events_of_a_set_fit() {
        let events: Vec<usize> = (0..20_000).filter(|at| at % 7 == 3 || at / 640 == 9).collect();
        let mut set = EventSet::default();
        events.iter().for_each(|event| set.push(*event));
        assert_eq!(set.len(), events.len());
        for (rank, event) in events.iter().enumerate() {
            assert_eq!((set.select(rank), set.rank(*event)), (Some(*event), rank));
            assert!(set.has(*event));
        }
        assert_eq!((set.select(events.len()), set.rank(1 << 40)), (None, events.len()));
        assert!(!set.has(0) && !set.has(1 << 40) && EventSet::default().is_empty());
        let mut other = EventSet::default();
        (0..30_000).filter(|at| at % 5 == 1).for_each(|event| other.push(event));
        for both in [set.or(&other), other.or(&set)] {
            let wanted: Vec<usize> = (0..30_000).filter(|at| set.has(*at) || other.has(*at)).collect();
            assert!((0..both.len()).filter_map(|rank| both.select(rank)).eq(wanted.iter().copied()));
            assert_eq!((both.len(), both.rank(12_345)), (wanted.len(), wanted.partition_point(|at| *at < 12_345)));
        }
    }
}
