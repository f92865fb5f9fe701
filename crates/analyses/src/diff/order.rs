//! The order of events: where the sequences of their names differ first, stream by stream.

use std::collections::{HashMap, VecDeque};

use tracemill_engine::event::Event;
use tracemill_engine::events::{Events, Step};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::timeline::Selection;

use super::names::{EventNames, NameLookup};
use super::reading::Side;
use crate::run::Input;

/// Events that are shown before the first difference, and of each side after it.
const CONTEXT: usize = 3;

/// The streams of two sides, as far as they can be compared.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct StreamPairs {
    /// Streams that both sides have, by their places in the inputs.
    pub both: Vec<(usize, usize)>,
    /// Streams that only one side has, by side.
    pub only: [Vec<usize>; 2],
}

/// Pairs streams by their names, those of one name in their order. The only stream of each side is that of the other one, whatever
/// their names are.
pub fn pair_streams(a: &[SelectedStream], b: &[SelectedStream]) -> StreamPairs {
    let name = |of: &SelectedStream| of.stream.name.clone();
    pair_names(&a.iter().map(name).collect::<Vec<_>>(), &b.iter().map(name).collect::<Vec<_>>())
}

fn pair_names(a: &[String], b: &[String]) -> StreamPairs {
    let mut places: HashMap<&str, VecDeque<usize>> = HashMap::new();
    b.iter().zip(0..).for_each(|(name, at)| places.entry(name).or_default().push_back(at));
    let mut pairs = StreamPairs::default();
    for (name, at) in a.iter().zip(0..) {
        match places.get_mut(name.as_str()).and_then(VecDeque::pop_front) {
            Some(other) => pairs.both.push((at, other)),
            None => pairs.only[0].push(at),
        }
    }
    pairs.only[1] = places.into_values().flatten().collect();
    pairs.only[1].sort_unstable();
    if (a.len(), b.len()) == (1, 1) {
        return StreamPairs { both: vec![(0, 0)], only: Default::default() };
    }
    pairs
}

/// An event in a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencePlace {
    /// Its name.
    pub name: u32,
    /// Its time in ns.
    pub ns: Option<i128>,
}

/// Where two sequences of names differ first.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct FirstDifference {
    /// Events that are the same.
    pub same: u64,
    /// The last ones of them, as the first side has them.
    pub before: Vec<SequencePlace>,
    /// The events that follow on each side; none where a side ends.
    pub after: [Vec<SequencePlace>; 2],
}

/// Where the sequences of a pair of streams differ first; `None` when they do not. Only sequences that differ are read again.
pub fn first_difference(
    inputs: [&Input<'_>; 2],
    sides: [&Side; 2],
    pair: (usize, usize),
    names: &mut EventNames,
) -> Option<FirstDifference> {
    if sides[0].streams.get(pair.0) == sides[1].streams.get(pair.1) {
        return None;
    }
    let streams = [&inputs[0].streams[pair.0..=pair.0], &inputs[1].streams[pair.1..=pair.1]];
    compare([0, 1].map(|side| SequenceReader::new(inputs[side], streams[side])), names)
}

/// As [`first_difference`], of all streams in one order: for sides whose streams cannot be paired.
pub fn first_difference_of_all(inputs: [&Input<'_>; 2], names: &mut EventNames) -> Option<FirstDifference> {
    compare(inputs.map(|input| SequenceReader::new(input, input.streams)), names)
}

fn compare([mut a, mut b]: [SequenceReader<'_>; 2], names: &mut EventNames) -> Option<FirstDifference> {
    let mut found = FirstDifference::default();
    let mut before: VecDeque<SequencePlace> = VecDeque::new();
    let after = loop {
        match [a.next(names), b.next(names)] {
            [None, None] => return None,
            [Some(one), Some(other)] if one.name == other.name => {
                found.same += 1;
                if before.len() == CONTEXT {
                    before.pop_front();
                }
                before.push_back(one);
            }
            after => break after,
        }
    };
    found.before = before.into();
    for (side, (first, reader)) in after.into_iter().zip([&mut a, &mut b]).enumerate() {
        found.after[side].extend(first);
        while first.is_some() && found.after[side].len() < CONTEXT {
            let Some(next) = reader.next(names) else { break };
            found.after[side].push(next);
        }
    }
    Some(found)
}

/// The names of the events of some streams.
struct SequenceReader<'a> {
    events: Events<'a>,
    lookup: NameLookup,
}

impl<'a> SequenceReader<'a> {
    fn new(input: &Input<'_>, streams: &'a [SelectedStream]) -> Self {
        // Both sides are read in steps: threads that read ahead would wait for each other.
        let selection = Selection { jobs: 1, ..input.selection.clone() };
        let events = Events::new(input.session, streams, &selection, input.filter.as_ref());
        SequenceReader { events, lookup: NameLookup::new(input.session) }
    }

    fn next(&mut self, names: &mut EventNames) -> Option<SequencePlace> {
        let SequenceReader { events, lookup } = self;
        let place = |event: &Event<'_>, lookup: &mut NameLookup, names: &mut EventNames| SequencePlace {
            name: lookup.id(event, names),
            ns: event.ns,
        };
        loop {
            match events.next()? {
                Step::Event(_, event) => return Some(place(&event, lookup, names)),
                // They were reported when the events were counted.
                Step::Note(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_paired_by_name() {
        let pairs = |a: &[&str], b: &[&str]| {
            let [a, b] = [a, b].map(|names| names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
            pair_names(&a, &b)
        };
        let found = pairs(&["x", "y", "x"], &["x", "z", "x", "x"]);
        assert_eq!((found.both, found.only), (vec![(0, 0), (2, 2)], [vec![1], vec![1, 3]]));
        assert_eq!(pairs(&["a"], &["c"]).both, [(0, 0)]);
        let none = pairs(&["a", "b"], &["c"]);
        assert_eq!((none.both.len(), none.only), (0, [vec![0, 1], vec![0]]));
    }
}
