//! States of CPUs and threads as slices: what a [`StatesBuilder`] receives from the machines of `semantics` while events are read.

mod builder;
mod custom;
mod kept;
mod lanes;
mod running;
mod sums;
mod words;

use std::cmp::Reverse;

use tracemill_semantics::states::Ns;

use crate::calls::TimelineSlice;
use crate::lane::distance;
use crate::search::Direction;

use self::lanes::{Gathered, StateLane, StoredPiece};
use self::words::is_running;

pub use self::builder::StatesBuilder;
pub use self::running::has_cpu_events;
pub use self::sums::{StateKind, StateStatistics};
pub use self::words::UNKNOWN;

/// Whose states a track shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Of {
    /// A CPU, by its number. Its first lane is what it runs, the second one in which state.
    Cpu(u64),
    /// A thread: its number, and how many of this number there were before.
    Thread(i64, u32),
    /// A key of a user's definition: the number of the definition, and the number of the key.
    Custom(u32, u32),
}

/// A track of states.
#[derive(Debug)]
pub struct Track {
    /// The machine, as those who read number them.
    pub machine: u32,
    /// The thing that has these states.
    pub of: Of,
    /// Its name.
    pub name: String,
    /// The track of its parent.
    pub parent: Option<usize>,
    lanes: Vec<StateLane>,
}

impl Track {
    /// Lanes of slices, the last one of states.
    pub fn depth(&self) -> usize {
        self.lanes.len()
    }

    /// Pieces of time in all lanes.
    pub fn pieces(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.pieces).sum()
    }
}

/// A piece of time of a track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatePiece {
    /// First ns.
    pub from: i128,
    /// One past the last ns.
    pub to: i128,
    /// The lane.
    pub depth: u32,
    /// A number of [`States::names`].
    pub name: u32,
}

/// A thread that could not run was woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// Its time.
    pub at: i128,
    /// The track of the thread that was woken.
    pub woken: usize,
    /// The track of the thread that woke it, where one ran and has a track.
    pub waker: Option<usize>,
}

/// A wake by the numbers of threads or of tracks; `u32::MAX` is none.
#[derive(Clone, Copy, Debug)]
struct StoredWake {
    at: i64,
    woken: u32,
    waker: u32,
}

/// States of CPUs, of threads, and of what users define: CPUs first, then threads by number.
#[derive(Debug, Default)]
pub struct States {
    /// The tracks.
    pub tracks: Vec<Track>,
    /// Names of states and of threads.
    pub names: Vec<String>,
    /// The things that are not shown, in words.
    pub left_out: Vec<String>,
    base: Ns,
    /// In the order of time.
    wakes: Vec<StoredWake>,
}

impl States {
    /// A single track of spans, in lanes: those of a lane are in the order of time and do not overlap. Each has a beginning, an
    /// end and a number of `names`.
    pub fn from_spans(track: (u32, Of), name: String, names: Vec<String>, spans: &[Vec<(i128, i128, u32)>]) -> States {
        let base = spans.iter().filter_map(|lane| lane.first()).map(|(from, ..)| *from).min().unwrap_or(0);
        let lane = |spans: &Vec<(i128, i128, u32)>| {
            let mut lane = StateLane::default();
            for (from, to, name) in spans {
                let (from, to) = (clamp_ns(from - base), clamp_ns(to - base));
                lane.push(StoredPiece { from, to, name: *name }, false);
            }
            lane.finish();
            lane
        };
        let (machine, of) = track;
        let track = Track { machine, of, name, parent: None, lanes: spans.iter().map(lane).collect() };
        States { tracks: vec![track], names, base, ..States::default() }
    }

    /// Slices of a track in a range of ns, both ends included, in buckets of 2^level ns from its beginning. Slices shorter than
    /// a bucket stand together, by bucket and lane.
    pub fn slices(&self, track: usize, level: u32, range: (i128, i128)) -> Vec<TimelineSlice> {
        let (begin, end) = (clamp_ns(range.0.saturating_sub(self.base)), clamp_ns(range.1.saturating_sub(self.base)));
        let mut slices = Vec::new();
        for (lane, depth) in self.tracks[track].lanes.iter().zip(0..) {
            let mut gathered = Gathered { begin, end, level, depth, slices: &mut slices, open: None };
            lane.gather(&mut gathered);
            gathered.close();
        }
        slices
    }

    /// The piece of time at an instant of a track, or beside it: that of a lane, or the deepest one.
    pub fn locate(&self, track: usize, at: i128, direction: Direction, depth: Option<u32>) -> Option<StatePiece> {
        let time = clamp_ns(at.saturating_sub(self.base));
        let lanes =
            self.tracks[track].lanes.iter().zip(0u32..).filter(|(_, own)| depth.is_none_or(|depth| depth == *own));
        let found = lanes.flat_map(|(lane, depth)| lane.pieces_near(time).into_iter().map(move |piece| (depth, piece)));
        let found: Vec<(u32, StoredPiece)> = found.collect();
        let before = || found.iter().filter(|(_, piece)| piece.from < time).max_by_key(|(_, piece)| piece.from);
        let behind = || found.iter().rev().filter(|(_, piece)| piece.from > time).min_by_key(|(_, piece)| piece.from);
        let inside =
            || found.iter().filter(|(_, piece)| piece.from <= time && time < piece.to).max_by_key(|(depth, _)| *depth);
        let (depth, piece) = *match direction {
            Direction::Next => behind(),
            Direction::Previous => before(),
            Direction::Nearest => inside().or_else(before).or_else(behind),
        }?;
        let ns = |time: i64| self.base + i128::from(time);
        Some(StatePiece { from: ns(piece.from), to: ns(piece.to), depth, name: piece.name })
    }

    /// The piece of a track at a time, in a lane or the deepest one: what a pointer is on. Where there is none, the nearest that is
    /// at most `slack` ns away.
    pub fn locate_at(&self, track: usize, at: i128, depth: Option<u32>, slack: i64) -> Option<StatePiece> {
        let time = clamp_ns(at.saturating_sub(self.base));
        let lanes =
            self.tracks[track].lanes.iter().zip(0u32..).filter(|(_, own)| depth.is_none_or(|depth| depth == *own));
        let found = lanes.flat_map(|(lane, depth)| lane.pieces_near(time).into_iter().map(move |piece| (depth, piece)));
        let away = |(_, piece): &(u32, StoredPiece)| distance((piece.from, piece.to), time);
        let near_enough = found.filter(|found| away(found).1 <= slack.unsigned_abs());
        let (depth, piece) = near_enough.min_by_key(|found| (away(found), Reverse(found.0), Reverse(found.1.from)))?;
        let ns = |time: i64| self.base + i128::from(time);
        Some(StatePiece { from: ns(piece.from), to: ns(piece.to), depth, name: piece.name })
    }

    /// Wakes of the thread of a track, and those of others by it, in a range of ns with both ends included.
    pub fn wakes(&self, track: usize, range: (i128, i128)) -> impl Iterator<Item = Wake> {
        self.all_wakes(range).filter(move |wake| wake.woken == track || wake.waker == Some(track))
    }

    /// All wakes in a range of ns with both ends included, in the order of time.
    pub fn all_wakes(&self, range: (i128, i128)) -> impl Iterator<Item = Wake> {
        let (begin, end) = (clamp_ns(range.0.saturating_sub(self.base)), clamp_ns(range.1.saturating_sub(self.base)));
        let first = self.wakes.partition_point(|wake| wake.at < begin);
        let own = self.wakes[first..].iter().take_while(move |wake| wake.at <= end);
        own.map(|wake| Wake {
            at: self.base + i128::from(wake.at),
            woken: wake.woken as usize,
            waker: (wake.waker != u32::MAX).then_some(wake.waker as usize),
        })
    }

    /// Is any wake known?
    pub fn has_wakes(&self) -> bool {
        !self.wakes.is_empty()
    }

    /// The pieces of a lane of a track that overlap a range of ns with both ends included, in the order of time.
    pub fn pieces_in(&self, track: usize, depth: usize, range: (i128, i128)) -> impl Iterator<Item = StatePiece> {
        let (begin, end) = (clamp_ns(range.0.saturating_sub(self.base)), clamp_ns(range.1.saturating_sub(self.base)));
        let lane = self.tracks.get(track).and_then(|track| track.lanes.get(depth));
        lane.into_iter().flat_map(move |lane| lane.pieces_in(begin, end)).map(move |piece| StatePiece {
            from: self.base + i128::from(piece.from),
            to: self.base + i128::from(piece.to),
            depth: depth as u32,
            name: piece.name,
        })
    }

    /// Times at which the first piece of a track begins and the last one ends; `None` without any.
    pub fn ends(&self, track: usize) -> Option<(i128, i128)> {
        let lanes = self.tracks.get(track).into_iter().flat_map(|track| &track.lanes);
        let blocks = lanes.flat_map(|lane| &lane.blocks).map(|block| (block.from, block.to));
        let (from, to) = blocks.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some((self.base + i128::from(from), self.base + i128::from(to)))
    }

    /// Is it the state of a thread that a CPU executes? `name` is a number of [`States::names`].
    pub fn is_running(&self, name: u32) -> bool {
        is_running(name)
    }

    /// All pieces of a track, lane by lane.
    pub fn pieces(&self, track: usize) -> impl Iterator<Item = StatePiece> {
        self.tracks[track].lanes.iter().zip(0..).flat_map(move |(lane, depth)| {
            (0..lane.blocks.len()).flat_map(|block| lane.decoded(block)).map(move |piece| StatePiece {
                from: self.base + i128::from(piece.from),
                to: self.base + i128::from(piece.to),
                depth,
                name: piece.name,
            })
        })
    }
}

/// Ns since the base, as near as 64 bits hold them.
fn clamp_ns(ns: i128) -> i64 {
    ns.clamp((i64::MIN / 2).into(), (i64::MAX / 2).into()) as i64
}
