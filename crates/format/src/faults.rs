//! Errors of a file or a packet, as many of them as anybody reads.

use tracemill_model::error::Error;

/// Errors of which the first `MOST` are kept, and the others counted.
#[derive(Debug, Default)]
pub struct Faults<const MOST: usize> {
    told: Vec<Error>,
    more: u64,
    /// The first of those that are counted.
    next: Option<Error>,
}

impl<const MOST: usize> Faults<MOST> {
    /// Keeps one more, or counts it.
    #[cold]
    pub fn report(&mut self, error: impl FnOnce() -> Error) {
        if self.told.len() < MOST {
            return self.told.push(error());
        }
        self.more += 1;
        self.next.get_or_insert_with(error);
    }

    /// All of them; where some are counted only, with one that says how many more `what` says of them, at the place of the
    /// first.
    pub fn finish(mut self, what: &str) -> Vec<Error> {
        if let Some(first) = self.next {
            let error = Error::malformed(format!("{} more {what}", self.more));
            let error = first.place().file.iter().fold(error, |error, file| error.in_file(file));
            self.told.push(first.place().offset.into_iter().fold(error, Error::at_offset));
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_not_kept_is_counted_at_the_place_of_the_first() {
        let (place, what) = (Path::new("file"), "faults like these");
        let told = |count: u64| {
            let mut faults = Faults::<2>::default();
            (0..count).for_each(|at| faults.report(|| Error::malformed("a fault").in_file(place).at_offset(at)));
            faults.finish(what)
        };
        assert_eq!(told(2).len(), 2);
        let all = told(5);
        assert_eq!((all.len(), all[2].message()), (3, "3 more faults like these"));
        assert_eq!(all[2].place().offset, Some(2));
        assert_eq!(all[2].place().file, all[0].place().file);
    }
}
