//! States as they are reported, kept while events are read.

use std::collections::HashMap;

use tracemill_semantics::states::{
    Comm, CpuPiece, Machines, Map, Ns, Observer, ThreadIndex, ThreadPiece, Woken, missing_events, thread_title,
};

use super::custom::{self, CustomTracks};
use super::lanes::{StateLane, StoredPiece};
use super::words::{WORDS, word_of_state, word_of_status};
use super::{Of, States, StoredWake, Track, clamp_ns};

/// Bytes of pieces and names that are kept at most. What comes later is left out, and said to be.
const MAX_BYTES: usize = 48 << 20;

/// Threads that have tracks at most.
const MAX_THREADS: usize = 4096;

/// How deep threads stand below each other at most: deeper ones stand beside their parents.
const MAX_LEVELS: usize = 32;

/// Keeps what machines tell of states.
pub struct StatesBuilder {
    pub(super) states: States,
    /// The wanted times; pieces are cut to them.
    pub(super) range: (Option<Ns>, Option<Ns>),
    pub(super) max_bytes: usize,
    pub(super) bytes: usize,
    /// The bytes from which on there is no more room for reports of states now; `None` once that was said.
    pub(super) room: Option<usize>,
    /// The end of what is kept, since there was no more room.
    pub(super) full: Option<Ns>,
    /// The first ns, from which all are counted.
    pub(super) base: Option<Ns>,
    /// For each CPU its track, and what it ran in its last piece.
    pub(super) cpus: Vec<Option<(usize, Option<Option<ThreadIndex>>)>>,
    /// For each thread its track, unless there was no room for one.
    pub(super) threads: Map<ThreadIndex, Option<usize>>,
    /// Threads that have tracks.
    pub(super) shown: Vec<ThreadIndex>,
    /// For each key of a definition its track, unless there was no room for one.
    pub(super) customs: CustomTracks,
    pub(super) of_name: HashMap<String, u32>,
    /// The name of a thread when it was asked for last.
    pub(super) names: Map<ThreadIndex, (Option<Comm>, u32)>,
}

impl StatesBuilder {
    /// Keeps states from one time to another.
    pub fn new(range: (Option<i128>, Option<i128>)) -> StatesBuilder {
        StatesBuilder {
            states: States { names: WORDS.map(str::to_string).to_vec(), ..States::default() },
            range,
            max_bytes: MAX_BYTES,
            bytes: 0,
            room: Some(MAX_BYTES),
            full: None,
            base: None,
            cpus: Vec::new(),
            threads: Map::default(),
            shown: Vec::new(),
            customs: CustomTracks::default(),
            of_name: HashMap::new(),
            names: Map::default(),
        }
    }

    /// Several tell of states, one after the other: it is the turn of this one of so many, and each has as much room.
    pub fn begin_source(&mut self, turn: usize, of: usize) {
        self.room = Some(self.max_bytes / of.max(1) * (turn + 1));
    }

    /// Something until a time was kept; what is after it is not when there is no more room.
    pub(super) fn limit_room(&mut self, to: Ns) {
        if self.room.is_some_and(|room| self.bytes > room) {
            self.room = None;
            self.full = Some(self.full.map_or(to, |full| full.min(to)));
        }
    }

    /// A piece cut to the wanted times.
    pub(super) fn cut(&mut self, from: Ns, to: Ns) -> Option<(i64, i64)> {
        let from = self.range.0.map_or(from, |begin| begin.max(from));
        let to = [self.range.1, self.full].into_iter().flatten().fold(to, Ns::min);
        if from >= to {
            return None;
        }
        let base = *self.base.get_or_insert(from);
        Some((clamp_ns(from - base), clamp_ns(to - base)))
    }

    pub(super) fn push(&mut self, (track, lane): (usize, usize), piece: StoredPiece, may_go_on: bool, to: Ns) {
        let lanes = &mut self.states.tracks[track].lanes;
        self.bytes += lanes[lane].push(piece, may_go_on);
        self.limit_room(to);
    }

    /// The name of a thread now.
    pub(super) fn name_of(&mut self, machines: &Machines, thread: ThreadIndex) -> u32 {
        let of = machines.thread(thread);
        let is_same = |known: &Option<Comm>| match (known, &of.comm) {
            (Some(known), Some(now)) => known.is_same(now),
            (None, None) => true,
            _ => false,
        };
        if let Some((known, name)) = self.names.get(&thread)
            && is_same(known)
        {
            return *name;
        }
        let name = self.number_of(thread_title(of.comm.as_deref(), of.tid));
        self.names.insert(thread, (of.comm.clone(), name));
        name
    }

    /// The number of a name.
    pub(super) fn number_of(&mut self, text: String) -> u32 {
        let (states, bytes) = (&mut self.states, &mut self.bytes);
        *self.of_name.entry(text).or_insert_with_key(|text| {
            *bytes += 2 * (text.len() + size_of::<String>());
            states.names.push(text.clone());
            states.names.len() as u32 - 1
        })
    }

    pub(super) fn track(&mut self, machine: u32, of: Of, lanes: usize) -> usize {
        let lanes = (0..lanes).map(|_| StateLane::default()).collect();
        self.states.tracks.push(Track { machine, of, name: String::new(), parent: None, lanes });
        self.states.tracks.len() - 1
    }

    /// The states, when the machines have reported all.
    pub fn finish(mut self, machines: &Machines) -> States {
        for (thread, track) in self.threads.iter().filter_map(|(thread, track)| Some((thread, (*track)?))) {
            let thread = machines.thread(*thread);
            self.states.tracks[track].name = thread_title(thread.comm.as_deref(), thread.tid);
        }
        self.find_parents(machines);
        let unseen: Vec<u64> = machines.unseen_cpus().into_iter().map(|(_, cpu)| cpu).collect();
        if !unseen.is_empty() {
            self.states.left_out.push(missing_events(&unseen));
        }
        let suspensions = machines.suspensions();
        if suspensions.count > 0 {
            self.states.left_out.push(suspensions.sentence());
        }
        self.closed()
    }

    /// The states, when there are no machines that tell of any.
    pub fn closed(self) -> States {
        let mut states = self.states;
        if let Some(full) = self.full {
            let text = format!(
                "states are shown until {}.{:09}: {} MiB are kept of them; --begin and --end show another part",
                full.div_euclid(1_000_000_000),
                full.rem_euclid(1_000_000_000),
                self.max_bytes >> 20
            );
            states.left_out.push(text);
        }
        let left = self.threads.len() - self.shown.len();
        if left > 0 {
            let text = format!("states of {left} threads are not shown: those of the first {MAX_THREADS} are");
            states.left_out.push(text);
        }
        states.left_out.extend(custom::left_out(&self.customs));
        states.base = self.base.unwrap_or(0);
        // Of threads only those are known from now on that have tracks.
        let track_of = |thread: u32| self.threads.get(&ThreadIndex(thread)).copied().flatten();
        states.wakes.retain_mut(|wake| {
            let (Some(woken), waker) = (track_of(wake.woken), track_of(wake.waker)) else { return false };
            (wake.woken, wake.waker) = (woken as u32, waker.map_or(u32::MAX, |waker| waker as u32));
            true
        });
        states.wakes.sort_by_key(|wake| wake.at);
        states.wakes.shrink_to_fit();
        // All end together: the states that were reported first may reach further than there was room for others.
        let end = self.full.map_or(i64::MAX, |full| clamp_ns(full - states.base));
        states.wakes.retain(|wake| wake.at <= end);
        for lane in states.tracks.iter_mut().flat_map(|track| &mut track.lanes) {
            lane.finish();
            lane.end_at(end);
        }
        let key = |track: &Track| (track.machine, track.of);
        let mut order: Vec<usize> = (0..states.tracks.len()).collect();
        order.sort_by_key(|at| key(&states.tracks[*at]));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, from)| place[*from] = to);
        states.tracks.iter_mut().for_each(|track| track.parent = track.parent.map(|parent| place[parent]));
        states.tracks.sort_by_key(key);
        for wake in &mut states.wakes {
            wake.woken = place[wake.woken as usize] as u32;
            wake.waker = place.get(wake.waker as usize).map_or(u32::MAX, |waker| *waker as u32);
        }
        states
    }

    /// The nearest thread above each that has a track.
    pub(super) fn find_parents(&mut self, machines: &Machines) {
        let above = |thread: ThreadIndex| {
            let of = machines.thread(thread);
            let find = |tid: i64| machines.find_thread(of.machine, tid).filter(|found| *found != thread);
            let leader = of.pid().filter(|pid| *pid != of.tid).and_then(find);
            leader.or_else(|| of.ppid().and_then(find)).or(of.creator().filter(|creator| *creator != thread))
        };
        let track_of = |thread: ThreadIndex| self.threads.get(&thread).copied().flatten();
        for thread in &self.shown {
            let (thread, Some(own)) = (*thread, track_of(*thread)) else { continue };
            let mut parent = above(thread);
            // Threads without a track are skipped; the number of steps is limited, as numbers may name each other in a
            // circle.
            for _ in 0..MAX_LEVELS {
                let Some(found) = parent else { break };
                if track_of(found).is_some() {
                    break;
                }
                parent = above(found);
            }
            let Some(found) = parent.and_then(track_of) else { continue };
            let tracks = &self.states.tracks;
            let ancestors = std::iter::successors(Some(found), |track| tracks[*track].parent).take(MAX_LEVELS);
            let ancestors: Vec<usize> = ancestors.collect();
            if !ancestors.contains(&own) {
                let parent = if ancestors.len() == MAX_LEVELS { ancestors.get(1).copied() } else { Some(found) };
                self.states.tracks[own].parent = parent;
            }
        }
    }
}

impl Observer for StatesBuilder {
    fn woken(&mut self, _: &Machines, woken: &Woken) {
        let is_wanted = self.range.0.is_none_or(|begin| begin <= woken.at)
            && self.range.1.into_iter().chain(self.full).all(|end| woken.at <= end);
        if !is_wanted {
            return;
        }
        let base = *self.base.get_or_insert(woken.at);
        let waker = woken.waker.map_or(u32::MAX, |waker| waker.0);
        self.states.wakes.push(StoredWake { at: clamp_ns(woken.at - base), woken: woken.thread.0, waker });
        self.bytes += size_of::<StoredWake>();
        self.limit_room(woken.at);
    }

    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        let Some((from, to)) = self.cut(piece.from, piece.to) else { return };
        let at = piece.cpu.0 as usize;
        self.cpus.resize(self.cpus.len().max(at + 1), None);
        let (track, before) = self.cpus[at].unwrap_or_else(|| {
            let cpu = machines.cpu(piece.cpu);
            let track = self.track(cpu.machine, Of::Cpu(cpu.number), 2);
            self.states.tracks[track].name = format!("CPU {}", cpu.number);
            (track, piece.thread)
        });
        self.cpus[at] = Some((track, piece.thread));
        if let Some(thread) = piece.thread.flatten() {
            let name = self.name_of(machines, thread);
            self.push((track, 0), StoredPiece { from, to, name }, before == piece.thread, piece.to);
        }
        if let Some(name) = word_of_status(piece.status) {
            self.push((track, 1), StoredPiece { from, to, name }, before == piece.thread, piece.to);
        }
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        let Some(name) = word_of_state(piece.state) else { return };
        let Some((from, to)) = self.cut(piece.from, piece.to) else { return };
        let track = match self.threads.get(&piece.thread) {
            Some(track) => *track,
            None => {
                let of = machines.thread(piece.thread);
                let has_room = self.shown.len() < MAX_THREADS;
                let track = has_room.then(|| self.track(of.machine, Of::Thread(of.tid, of.life()), 1));
                self.threads.insert(piece.thread, track);
                self.shown.extend(track.map(|_| piece.thread));
                track
            }
        };
        let Some(track) = track else { return };
        self.push((track, 0), StoredPiece { from, to, name }, true, piece.to);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use tracemill_semantics::states::{ConceptValues, Happening};
    use tracemill_semantics::{Concept, Field};

    use super::*;
    use crate::states::lanes::PieceBlock;

    /// A switch from one thread to another, which is blocked.
    struct Switch(i128, i128);

    impl ConceptValues for Switch {
        fn integer(&self, field: Field) -> Option<i128> {
            match field {
                Field::Prev => Some(self.0),
                Field::Next => Some(self.1),
                Field::State => Some(1),
                _ => None,
            }
        }

        fn text(&self, _: Field) -> Option<Cow<'_, str>> {
            None
        }
    }

    /// A thread is woken.
    struct Woke(i128);

    impl ConceptValues for Woke {
        fn integer(&self, field: Field) -> Option<i128> {
            (field == Field::Tid).then_some(self.0)
        }

        fn text(&self, _: Field) -> Option<Cow<'_, str>> {
            None
        }
    }

    #[test]
    fn wakes_are_known_from_both_sides() {
        let mut builder = StatesBuilder::new((None, Some(1700)));
        let mut machines = Machines::new(1);
        let mut take = |at: i128, concept: Concept, values: &dyn ConceptValues| {
            let happening = Happening { concept, is_legacy: false, values: &values };
            machines.apply_event(0, at, Some(0), &happening, &mut builder);
        };
        take(1000, Concept::Switch, &Switch(1, 2));
        take(1100, Concept::Wake, &Woke(1));
        take(1200, Concept::Switch, &Switch(2, 1));
        take(1300, Concept::Wake, &Woke(2));
        take(1400, Concept::Switch, &Switch(1, 2));
        take(1500, Concept::Wake, &Woke(1));
        take(1600, Concept::Switch, &Switch(2, 1));
        take(1800, Concept::Wake, &Woke(2));
        machines.finish(&mut builder);
        let states = builder.finish(&machines);
        let named = |name: &str| states.tracks.iter().position(|track| track.name == name).unwrap();
        let (one, two) = (named("1"), named("2"));
        let wakes = |track: usize, range| -> Vec<(i128, usize, Option<usize>)> {
            states.wakes(track, range).map(|wake| (wake.at, wake.woken, wake.waker)).collect()
        };
        let all = [(1100, one, Some(two)), (1300, two, Some(one)), (1500, one, Some(two))];
        assert_eq!(wakes(one, (0, 2000)), all);
        assert_eq!(wakes(two, (0, 2000)), all);
        assert_eq!(wakes(one, (1300, 1499)), all[1..2]);
        assert_eq!(wakes(0, (0, 2000)), [], "a CPU wakes nobody");
    }

    /// Two threads that take turns every 100 ns.
    fn turns(max_bytes: usize, count: i128) -> States {
        let mut builder = StatesBuilder { max_bytes, room: Some(max_bytes), ..StatesBuilder::new((None, None)) };
        let mut machines = Machines::new(1);
        for turn in 0..count {
            let (prev, next) = if turn % 2 == 0 { (1, 2) } else { (2, 1) };
            let switch = Switch(prev, next);
            let happening = Happening { concept: Concept::Switch, is_legacy: false, values: &switch };
            machines.apply_event(0, 1000 + 100 * turn, Some(0), &happening, &mut builder);
        }
        machines.finish(&mut builder);
        builder.finish(&machines)
    }

    #[test]
    fn what_has_no_room_is_left_out_from_one_time_on_and_said() {
        let whole = turns(MAX_BYTES, 10_000);
        assert!(whole.left_out.is_empty());
        let part = turns(8192, 10_000);
        assert_eq!(part.left_out.len(), 1, "{:?}", part.left_out);
        let ends: Vec<i128> =
            (0..part.tracks.len()).filter_map(|at| part.pieces(at).map(|piece| piece.to).max()).collect();
        assert_eq!(ends.len(), 3);
        assert!(ends.iter().all(|end| *end == ends[0] && *end < 200_000), "{ends:?}");
        for at in 0..3 {
            let until = |states: &States| states.pieces(at).filter(|piece| piece.to < ends[0]).collect::<Vec<_>>();
            assert_eq!(until(&part), until(&whole));
        }
        let bytes: usize = part.tracks.iter().flat_map(|track| &track.lanes).map(|lane| lane.bytes.len()).sum();
        assert!(bytes < 8192 + 64, "{bytes}");
    }

    #[test]
    fn all_who_tell_of_states_have_a_part_of_the_room_and_one_end() {
        let mut builder = StatesBuilder { max_bytes: 3 * 4096, ..StatesBuilder::new((None, None)) };
        // Pieces of the first and the last one are short: these have no room for all.
        for (turn, length) in [(0, 100), (1, 100_000), (2, 10)] {
            builder.begin_source(turn, 3);
            let track = builder.track(turn as u32, Of::Cpu(0), 1);
            for from in (0..1_000_000).step_by(length) {
                let to = from + length as Ns;
                if let Some((from, to)) = builder.cut(from, to) {
                    let name = (from / length as i64 % 2) as u32;
                    builder.push((track, 0), StoredPiece { from, to, name }, false, to.into());
                }
            }
        }
        // Each may have the piece that was too much.
        assert!(builder.bytes < builder.max_bytes + 3 * 64, "{}", builder.bytes);
        let states = builder.closed();
        assert_eq!(states.left_out.len(), 1);
        let ends: Vec<i128> = (0..3).filter_map(|at| states.pieces(at).map(|piece| piece.to).max()).collect();
        assert!(ends.len() == 3 && ends.iter().all(|end| *end == ends[0] && *end < 100_000), "{ends:?}");
    }

    #[test]
    fn a_piece_takes_few_bytes() {
        let states = turns(MAX_BYTES, 10_000);
        let lanes = || states.tracks.iter().flat_map(|track| &track.lanes);
        let bytes: usize = lanes().map(|lane| lane.bytes.len() + lane.blocks.len() * size_of::<PieceBlock>()).sum();
        let pieces: u64 = lanes().map(|lane| lane.pieces).sum();
        assert!(bytes as u64 <= 5 * pieces, "{bytes} bytes for {pieces} pieces");
    }
}
