//! Marks of programs: what an event does whose text is one, and the lanes of those that begin and end on any threads.

use tracemill_semantics::{EventShape, Mark};

use super::lanes::{LaneGroup, Lanes, SliceKey};

/// The meaning of the last event, when its text is a mark.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Marked {
    /// The part of a slice that it is.
    pub(super) shape: Option<EventShape>,
    /// The name of the counter, and its value.
    pub(super) counter: Option<(Vec<u8>, i64)>,
    /// Its lane.
    pub(super) lane: Option<u32>,
    /// Its name.
    pub(super) name: Vec<u8>,
}

impl Marked {
    /// The meaning of a text of a trace of a machine.
    pub(super) fn from_text(text: &[u8], trace: usize, machine: u32, lanes: &mut Lanes) -> Marked {
        match Mark::parse(text) {
            Some(Mark::Begin { name }) => {
                Marked { shape: Some(EventShape::Begin), name: name.to_vec(), ..Marked::default() }
            }
            Some(Mark::End) => Marked { shape: Some(EventShape::End { says_title: false }), ..Marked::default() },
            Some(Mark::Count { name, value }) => Marked { counter: Some((name.to_vec(), value)), ..Marked::default() },
            Some(Mark::Async { is_end, process, name, cookie }) => {
                let key = SliceKey::Mark(trace, process, name.to_vec(), cookie.to_vec());
                let group = LaneGroup { trace, machine, process: Some(process), parent: None, name: name.to_vec() };
                let (lane, shape) = match is_end {
                    true => (lanes.end(&key).or_else(|| lanes.free_lane(&group)), EventShape::End { says_title: true }),
                    false => (lanes.begin(key, group), EventShape::Begin),
                };
                let shape = if lane.is_some() { shape } else { EventShape::Instant };
                Marked { shape: Some(shape), lane, name: name.to_vec(), counter: None }
            }
            None => Marked::default(),
        }
    }
}
