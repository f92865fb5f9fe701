//! Statistics of states in a range of time: how long, how often, and how long at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::lanes::StoredPiece;
use super::{Of, StatePiece, States, clamp_ns, is_running};
use crate::ranks::Ranks;

/// The percentiles that statistics have.
const PERCENTILES: [u64; 3] = [50, 90, 99];
/// After how many pieces it is asked whether the answer is still wanted.
const PIECES_AT_ONCE: u64 = 4096;

/// The things that are in a state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateKind {
    /// States of CPUs.
    Cpu,
    /// States of threads.
    Thread,
    /// Threads that CPUs run.
    Running,
    /// States that a user defines.
    Custom,
}

/// Statistics of one state.
#[derive(Clone, Debug)]
pub struct StateStatistics {
    /// The thing that is in this state.
    pub kind: StateKind,
    /// A number of [`States::names`]; `None` for CPUs that are idle.
    pub name: Option<u32>,
    /// Pieces of time that overlap the range.
    pub pieces: u64,
    /// Ns of them inside of the range.
    pub total: i128,
    durations: Ranks,
}

impl StateStatistics {
    /// Pieces that begin and end inside of the range.
    pub fn complete_count(&self) -> u64 {
        self.durations.count()
    }

    /// The shortest of these, their mean, and the longest.
    pub fn durations(&self) -> Option<(i64, i64, i64)> {
        let ((min, max), mean) = self.durations.ends().zip(self.durations.mean())?;
        Some((min, mean, max))
    }

    /// The duration that p of 100 of these do not exceed: 50, 90 and 99 are known.
    pub fn percentile(&self, p: u64) -> Option<i64> {
        self.durations.percentile(p)
    }
}

impl States {
    /// Statistics of the states of some tracks in a range of ns with both ends included: by kind, those of most time
    /// first. `None` once `is_over`, which is asked on the way.
    pub fn statistics(
        &self,
        range: Option<(i128, i128)>,
        tracks: &[usize],
        is_over: &dyn Fn() -> bool,
    ) -> Option<Vec<StateStatistics>> {
        let (begin, last) = match range {
            Some((begin, last)) => {
                (clamp_ns(begin.saturating_sub(self.base)), clamp_ns(last.saturating_sub(self.base)))
            }
            None => (i64::MIN / 2, i64::MAX / 2),
        };
        let is_whole = |from: i64, to: i64| begin <= from && to <= last;
        let mut rows: HashMap<(StateKind, Option<u32>), StateStatistics> = HashMap::new();
        self.each_piece(tracks, is_over, &mut |kind, name, (from, to)| {
            if from > last || to <= begin {
                return;
            }
            let new = StateStatistics { kind, name, pieces: 0, total: 0, durations: Ranks::default() };
            let row = rows.entry((kind, name)).or_insert(new);
            row.pieces += 1;
            row.total += i128::from(to.min(last) - from.max(begin));
            if is_whole(from, to) {
                row.durations.add(to - from);
            }
        })?;
        rows.values_mut().for_each(|row| row.durations.want(&PERCENTILES));
        self.each_piece(tracks, is_over, &mut |kind, name, (from, to)| {
            if is_whole(from, to)
                && let Some(row) = rows.get_mut(&(kind, name))
            {
                row.durations.add_again(to - from);
            }
        })?;
        let mut rows: Vec<StateStatistics> = rows.into_values().collect();
        let text = |row: &StateStatistics| row.name.map_or("", |name| &self.names[name as usize]);
        rows.sort_by(|a, b| a.kind.cmp(&b.kind).then_with(|| b.total.cmp(&a.total)).then_with(|| text(a).cmp(text(b))));
        Some(rows)
    }

    /// The states that occur, of CPUs and of threads, in the order of [`States::names`].
    pub fn present(&self, tracks: &[usize]) -> BTreeSet<(StateKind, Option<u32>)> {
        let mut present = BTreeSet::new();
        let mut see = |kind, name, _| {
            if kind != StateKind::Running {
                present.insert((kind, name));
            }
        };
        // It is never over.
        let _ = self.each_piece(tracks, &|| false, &mut see);
        present
    }

    /// Ns for which a thread runs in a range of ns with both ends included; 0 for what is no thread.
    pub fn running(&self, track: usize, (begin, last): (i128, i128)) -> i64 {
        let (begin, last) = (clamp_ns(begin.saturating_sub(self.base)), clamp_ns(last.saturating_sub(self.base)));
        let Some(track) = self.tracks.get(track).filter(|track| matches!(track.of, Of::Thread(..))) else { return 0 };
        let Some(lane) = track.lanes.last() else { return 0 };
        let pieces = lane.pieces_in(begin, last).filter(|piece| is_running(piece.name));
        pieces.map(|piece| (piece.to.min(last) - piece.from.max(begin)).max(0)).sum()
    }

    /// The nearest piece of some tracks in a state that begins after a time, or before it.
    pub fn find_state(
        &self,
        tracks: &[usize],
        is_meant: &dyn Fn(u32) -> bool,
        at: i128,
        is_next: bool,
    ) -> Option<(usize, StatePiece)> {
        let time = clamp_ns(at.saturating_sub(self.base));
        let mut best: Option<(usize, u32, StoredPiece)> = None;
        for &track in tracks {
            let Some((lane, depth)) = self.tracks.get(track).and_then(|track| track.lanes.iter().zip(0..).last())
            else {
                continue;
            };
            let found = match is_next {
                true => lane.pieces_in(time, i64::MAX / 2).find(|piece| piece.from > time && is_meant(piece.name)),
                false => lane.last_before(time, is_meant),
            };
            let is_nearer = |piece: &StoredPiece| {
                best.is_none_or(|(_, _, best)| if is_next { piece.from < best.from } else { piece.from > best.from })
            };
            if let Some(piece) = found.filter(is_nearer) {
                best = Some((track, depth, piece));
            }
        }
        let ns = |time: i64| self.base + i128::from(time);
        best.map(|(track, depth, of)| (track, StatePiece { from: ns(of.from), to: ns(of.to), depth, name: of.name }))
    }

    /// Shows all pieces of some tracks in ns since the base. Nothing is kept of the times in which a CPU is idle: they are
    /// between its states, and before and after them as long as anything is known of its machine.
    fn each_piece(
        &self,
        tracks: &[usize],
        is_over: &dyn Fn() -> bool,
        see: &mut dyn FnMut(StateKind, Option<u32>, (i64, i64)),
    ) -> Option<()> {
        let known = self.known_times();
        let mut seen = 0u64;
        for track in tracks.iter().filter_map(|at| self.tracks.get(*at)) {
            for (lane, depth) in track.lanes.iter().zip(1..) {
                let kind = match track.of {
                    Of::Thread(..) => StateKind::Thread,
                    Of::Custom(..) => StateKind::Custom,
                    Of::Cpu(_) if depth == 1 => StateKind::Running,
                    Of::Cpu(_) => StateKind::Cpu,
                };
                let is_cpu = kind == StateKind::Cpu;
                let (begin, end) = known.get(&track.machine).copied().filter(|_| is_cpu).unwrap_or((0, 0));
                let mut idle_since = begin;
                for piece in (0..lane.blocks.len()).flat_map(|block| lane.decoded(block)) {
                    if is_cpu && idle_since < piece.from {
                        see(kind, None, (idle_since, piece.from));
                    }
                    idle_since = piece.to;
                    see(kind, Some(piece.name), (piece.from, piece.to));
                    seen += 1;
                    if seen.is_multiple_of(PIECES_AT_ONCE) && is_over() {
                        return None;
                    }
                }
                if is_cpu && idle_since < end {
                    see(kind, None, (idle_since, end));
                }
            }
        }
        (!is_over()).then_some(())
    }

    /// The first ns of each machine of which something is known, and one past the last.
    fn known_times(&self) -> BTreeMap<u32, (i64, i64)> {
        let mut known: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
        for track in &self.tracks {
            for lane in &track.lanes {
                let Some((from, to)) = lane.range() else { continue };
                let own = known.entry(track.machine).or_insert((from, to));
                *own = (own.0.min(from), own.1.max(to));
            }
        }
        known
    }
}
