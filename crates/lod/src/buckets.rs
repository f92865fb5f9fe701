//! Events counted in buckets, for one question.

/// A bucket in which events are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bucket {
    pub(crate) at: u64,
    pub(crate) events: u64,
    /// The commonest name.
    pub(crate) name: u32,
}

/// Buckets of a track, made event by event.
#[derive(Default)]
pub(crate) struct Buckets {
    done: Vec<Bucket>,
    at: Option<u64>,
    /// Names in the open bucket, and how often.
    names: Vec<(u32, u64)>,
    is_unsorted: bool,
}

impl Buckets {
    /// Counts events in a bucket.
    #[inline]
    pub(crate) fn add(&mut self, at: u64, name: u32, events: u64) {
        if self.at != Some(at) {
            self.close();
            self.at = Some(at);
        }
        match self.names.iter_mut().find(|(own, _)| *own == name) {
            Some((_, count)) => *count += events,
            None => self.names.push((name, events)),
        }
    }

    /// All events.
    pub(crate) fn events(&self) -> u64 {
        let open = self.names.iter().map(|(_, count)| count);
        self.done.iter().map(|bucket| bucket.events).sum::<u64>() + open.sum::<u64>()
    }

    fn close(&mut self) {
        let Some(at) = self.at.take() else { return };
        self.is_unsorted |= self.done.last().is_some_and(|last| last.at >= at);
        let events = self.names.iter().map(|(_, count)| count).sum();
        let name = self.names.iter().max_by_key(|(name, count)| (*count, u32::MAX - name)).map_or(0, |(name, _)| *name);
        self.done.push(Bucket { at, events, name });
        self.names.clear();
    }

    /// The buckets in order, each once.
    pub(crate) fn finish(mut self) -> Vec<Bucket> {
        self.close();
        if !self.is_unsorted {
            return self.done;
        }
        self.done.sort_by_key(|bucket| bucket.at);
        let mut buckets: Vec<Bucket> = Vec::with_capacity(self.done.len());
        for bucket in self.done {
            match buckets.last_mut().filter(|last| last.at == bucket.at) {
                Some(last) => {
                    if bucket.events > last.events {
                        last.name = bucket.name;
                    }
                    last.events += bucket.events;
                }
                None => buckets.push(bucket),
            }
        }
        buckets
    }
}
