//! Names of threads, as the records of the file give and change them (`SPEC.md`, section 7).

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::bits::u32_at;
use tracemill_model::schema::{ByteOrder, Render};

/// Names and forks that are kept; of files with more, the names of later threads are not known.
const MAX_ENTRIES: usize = 1 << 22;
/// The number of a name that is not known.
pub(crate) const NO_NAME: u32 = u32::MAX;
/// The name of the thread 0.
const IDLE: &str = "swapper";

/// A thread gets a name.
#[derive(Clone, Copy, Debug)]
struct Naming {
    tid: i32,
    time: u64,
    source: NameSource,
}

#[derive(Clone, Copy, Debug)]
enum NameSource {
    /// Its number.
    Own(u32),
    /// That of the thread that made it.
    Parent(i32),
}

/// Collects names.
#[derive(Debug, Default)]
pub(crate) struct CommsBuilder {
    namings: Vec<Naming>,
    names: Vec<Arc<str>>,
    by_name: HashMap<Vec<u8>, u32>,
    /// Some were not kept.
    pub(crate) is_cut: bool,
}

impl CommsBuilder {
    fn add(&mut self, tid: i32, time: u64, source: NameSource) {
        if self.namings.len() < MAX_ENTRIES {
            self.namings.push(Naming { tid, time, source })
        } else {
            self.is_cut = true
        }
    }

    fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(&known) = self.by_name.get(name) {
            return known;
        }
        let number = self.names.len() as u32;
        self.names.push(String::from_utf8_lossy(name).into());
        self.by_name.insert(name.to_vec(), number);
        number
    }

    /// A thread has a name from now on.
    pub(crate) fn name(&mut self, tid: i32, time: u64, name: &[u8]) {
        if self.namings.len() < MAX_ENTRIES {
            let number = self.number(name);
            self.add(tid, time, NameSource::Own(number));
        } else {
            self.is_cut = true;
        }
    }

    /// A thread makes another one.
    pub(crate) fn fork(&mut self, tid: i32, time: u64, parent: i32) {
        if tid != parent {
            self.add(tid, time, NameSource::Parent(parent));
        }
    }

    /// All names.
    pub(crate) fn finish(mut self) -> Comms {
        let idle = self.number(IDLE.as_bytes());
        self.namings.sort_by_key(|naming| naming.time);
        let mut of: HashMap<i32, Vec<(u64, u32)>> = HashMap::from([(0, vec![(0, idle)])]);
        for Naming { tid, time, source } in self.namings {
            let number = match source {
                NameSource::Own(number) => number,
                NameSource::Parent(parent) => {
                    of.get(&parent).and_then(|names| names.last()).map_or(NO_NAME, |&(_, number)| number)
                }
            };
            let names = of.entry(tid).or_default();
            if names.last().is_none_or(|&(_, last)| last != number) {
                names.push((time, number));
            }
        }
        Comms { of, names: self.names }
    }
}

/// Names of threads at all times.
#[derive(Debug, Default)]
pub(crate) struct Comms {
    of: HashMap<i32, Vec<(u64, u32)>>,
    names: Vec<Arc<str>>,
}

impl Comms {
    /// The number of the name of a thread at a time. The answer is kept: it is mostly that of the next question.
    #[inline]
    pub(crate) fn number(&self, tid: i32, time: u64, known: &mut NameSpan) -> u32 {
        if known.tid != tid || time < known.from || time > known.to {
            *known = self.look_up(tid, time);
        }
        known.number
    }

    fn look_up(&self, tid: i32, time: u64) -> NameSpan {
        let names = self.of.get(&tid).map_or(&[][..], Vec::as_slice);
        let after = names.partition_point(|&(from, _)| from <= time);
        let (from, number) = after.checked_sub(1).map_or((0, NO_NAME), |at| names[at]);
        let to = names.get(after).map_or(u64::MAX, |&(next, _)| next - 1);
        NameSpan { tid, from, to, number }
    }
}

/// The name of a thread from one time to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameSpan {
    tid: i32,
    from: u64,
    to: u64,
    number: u32,
}

impl Default for NameSpan {
    fn default() -> Self {
        // Of no time.
        NameSpan { tid: 0, from: 1, to: 0, number: NO_NAME }
    }
}

/// Shows the name of a number.
#[derive(Debug)]
pub(crate) struct CommText(pub(crate) Arc<Comms>);

impl Render for CommText {
    fn render(&self, _event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let name = u32_at(own, 0, ByteOrder::Little).and_then(|number| self.0.names.get(number as usize));
        out.extend_from_slice(name.map_or("", |name| name).as_bytes());
        name.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_the_name_of_their_maker_until_they_get_one() {
        let mut builder = CommsBuilder::default();
        builder.name(7, 50, b"late");
        builder.name(5, 0, b"shell");
        builder.fork(7, 20, 5);
        builder.fork(8, 60, 7);
        let comms = Arc::new(builder.finish());
        let text = CommText(comms.clone());
        let mut known = NameSpan::default();
        let mut name = |tid, time| {
            let mut out = Vec::new();
            let number = comms.number(tid, time, &mut known);
            text.render(&[], &number.to_le_bytes(), &mut out).then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(name(7, 19), None);
        assert_eq!(name(7, 20).as_deref(), Some("shell"));
        assert_eq!(name(7, 50).as_deref(), Some("late"));
        assert_eq!(name(8, 99).as_deref(), Some("late"));
        assert_eq!(name(0, 0).as_deref(), Some("swapper"));
    }
}
