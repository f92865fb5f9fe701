//! Marks of programs: what an event does whose text is one, and the tracks of those that begin and end on any threads.

use std::collections::HashMap;

use tracemill_semantics::{Mark, Shape};

/// Marks that may be open at once; further ones are on one track.
const MAX_OPEN: usize = 1 << 12;

/// The meaning of the last event, when its text is a mark.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Marked {
    /// The part of a slice that it is.
    pub(super) shape: Option<Shape>,
    /// The name of the counter, and its value.
    pub(super) counter: Option<(Vec<u8>, i64)>,
    /// The number of its own track.
    pub(super) track: Option<i64>,
    /// Its name.
    pub(super) name: Vec<u8>,
}

/// What is open on any threads, each on the first track of its name that is free.
#[derive(Debug, Default)]
pub(super) struct AsyncMarks {
    open: HashMap<(usize, i64, Vec<u8>, Vec<u8>), u32>,
    /// By trace, process and name: tracks, and which of them are in use.
    lanes: HashMap<(usize, i64, Vec<u8>), Vec<bool>>,
}

impl Marked {
    /// The meaning of a text of a trace.
    pub(super) fn of(text: &[u8], trace: usize, marks: &mut AsyncMarks) -> Marked {
        match Mark::parse(text) {
            Some(Mark::Begin { name }) => {
                Marked { shape: Some(Shape::Begin), name: name.to_vec(), ..Marked::default() }
            }
            Some(Mark::End) => Marked { shape: Some(Shape::End { says_title: false }), ..Marked::default() },
            Some(Mark::Count { name, value }) => Marked { counter: Some((name.to_vec(), value)), ..Marked::default() },
            Some(Mark::Async { is_end, process, name, cookie }) => {
                let shape = if is_end { Shape::End { says_title: true } } else { Shape::Begin };
                let lane = marks.lane(is_end, (trace, process, name.to_vec()), cookie);
                let number = super::hash(super::hash(u64::from(lane), name), &process.to_le_bytes());
                Marked { shape: Some(shape), track: Some((number >> 1) as i64), name: name.to_vec(), counter: None }
            }
            None => Marked::default(),
        }
    }
}

impl AsyncMarks {
    fn lane(&mut self, is_end: bool, of: (usize, i64, Vec<u8>), cookie: &[u8]) -> u32 {
        let key = (of.0, of.1, of.2.clone(), cookie.to_vec());
        if is_end {
            let lane = self.open.remove(&key).unwrap_or(0);
            if let Some(used) = self.lanes.get_mut(&of).and_then(|lanes| lanes.get_mut(lane as usize)) {
                *used = false;
            }
            return lane;
        }
        if let Some(lane) = self.open.get(&key) {
            return *lane;
        }
        if self.open.len() >= MAX_OPEN {
            return 0;
        }
        let lanes = self.lanes.entry(of).or_default();
        let lane = lanes.iter().position(|used| !used).unwrap_or_else(|| {
            lanes.push(false);
            lanes.len() - 1
        });
        lanes[lane] = true;
        self.open.insert(key, lane as u32);
        lane as u32
    }
}
