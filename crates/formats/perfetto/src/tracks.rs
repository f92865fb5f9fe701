//! Tracks: what their descriptors say, and whose they are (`SPEC.md`, section 5).

use std::collections::HashMap;

use tracemill_format::perfetto::{WireFields, WireValue};
use tracemill_format::slices::SliceIds;

/// Tracks above a track that are looked at.
const MAX_PARENTS: usize = 64;

/// The contents of the descriptors of a track.
#[derive(Clone, Debug, Default)]
struct TrackDescriptor {
    parent: u64,
    name: Vec<u8>,
    process: Option<(i64, Vec<u8>)>,
    thread: Option<(i64, i64, Vec<u8>)>,
    counter: Option<CounterDescriptor>,
}

/// The part of a descriptor that is about a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterDescriptor {
    /// One that Perfetto knows: 1 is the time of the thread, 2 its instructions.
    kind: u64,
    pub(crate) multiplier: i64,
    pub(crate) is_incremental: bool,
}

/// A track, as its events need it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrackOwner {
    pub(crate) ids: SliceIds,
    pub(crate) pid: i64,
    pub(crate) tid: i64,
    pub(crate) name: Vec<u8>,
}

/// All tracks.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    by_uuid: HashMap<u64, TrackDescriptor>,
    /// Names of threads, and of processes with the thread 0, as descriptors of tracks say them.
    pub(crate) names: Vec<((i64, i64), Vec<u8>)>,
}

impl Tracks {
    /// Takes in a descriptor; a later one adds to what those before it said.
    pub(crate) fn take_in(&mut self, content: &[u8]) {
        let uuid = WireFields::new(content).find(|(number, _)| *number == 1).map_or(0, |(_, value)| value.number());
        let track = self.by_uuid.entry(uuid).or_default();
        for (number, value) in WireFields::new(content) {
            match (number, value) {
                (5, value) => track.parent = value.number(),
                (2 | 10 | 13, WireValue::Bytes(name)) => track.name = name.to_vec(),
                (3, WireValue::Bytes(process)) => {
                    let (mut pid, mut name) = (0, Vec::new());
                    for (number, value) in WireFields::new(process) {
                        match (number, value) {
                            (1, value) => pid = i64::from(value.number() as i32),
                            (6, value) => name = value.bytes().to_vec(),
                            (2, value) if name.is_empty() => name = value.bytes().to_vec(),
                            _ => {}
                        }
                    }
                    if !name.is_empty() {
                        self.names.push(((pid, 0), name.clone()));
                    }
                    track.process = Some((pid, name));
                }
                (4, WireValue::Bytes(thread)) => {
                    let (mut pid, mut tid, mut name) = (0, 0, Vec::new());
                    for (number, value) in WireFields::new(thread) {
                        match (number, value) {
                            (1, value) => pid = i64::from(value.number() as i32),
                            (2, value) => tid = value.number() as i64,
                            (5, value) => name = value.bytes().to_vec(),
                            _ => {}
                        }
                    }
                    if !name.is_empty() {
                        self.names.push(((pid, tid), name.clone()));
                    }
                    track.thread = Some((pid, tid, name));
                }
                (8, WireValue::Bytes(counter)) => {
                    let mut own = CounterDescriptor { kind: 0, multiplier: 1, is_incremental: false };
                    for (number, value) in WireFields::new(counter) {
                        match number {
                            1 => own.kind = value.number(),
                            4 if value.number() != 0 => own.multiplier = value.number() as i64,
                            5 => own.is_incremental = value.number() != 0,
                            _ => {}
                        }
                    }
                    track.counter = Some(own);
                }
                _ => {}
            }
        }
    }

    /// The counter that a track is.
    pub(crate) fn counter(&self, uuid: u64) -> Option<CounterDescriptor> {
        self.by_uuid.get(&uuid)?.counter
    }

    /// Whose a track is, and its name. One that is never described belongs to nobody.
    pub(crate) fn owner(&self, uuid: u64) -> TrackOwner {
        let Some(own) = self.by_uuid.get(&uuid) else {
            return TrackOwner { ids: SliceIds::None, ..TrackOwner::default() };
        };
        if let (Some((pid, tid, name)), None) = (&own.thread, own.counter) {
            return TrackOwner { ids: SliceIds::Thread, pid: *pid, tid: *tid, name: name.clone() };
        }
        let mut owner = TrackOwner { ids: SliceIds::None, name: own.name.clone(), ..TrackOwner::default() };
        if let (true, Some(counter)) = (owner.name.is_empty(), own.counter) {
            owner.name = match counter.kind {
                1 => b"thread_time_ns".to_vec(),
                2 => b"thread_instruction_count".to_vec(),
                _ => Vec::new(),
            };
        }
        let mut above = own;
        for _ in 0..MAX_PARENTS {
            if let Some((pid, tid, _)) = above.thread {
                // A slice on a track below that of a thread is not one of its calls; a counter there is the thread's.
                let ids = if own.counter.is_some() { SliceIds::Thread } else { SliceIds::Process };
                (owner.ids, owner.pid, owner.tid) = (ids, pid, tid);
                break;
            }
            if let Some((pid, name)) = &above.process {
                (owner.ids, owner.pid) = (SliceIds::Process, *pid);
                if owner.name.is_empty() && std::ptr::eq(above, own) {
                    owner.name = name.clone();
                }
                break;
            }
            let Some(next) =
                Some(above.parent).filter(|parent| *parent != 0).and_then(|parent| self.by_uuid.get(&parent))
            else {
                break;
            };
            above = next;
        }
        owner
    }
}

#[cfg(test)]
mod tests {
    use tracemill_format::perfetto::ProtoWriter;

    use super::*;

    fn track(tracks: &mut Tracks, uuid: u64, parent: u64, name: &str, more: impl FnOnce(&mut ProtoWriter)) {
        let mut out = ProtoWriter::default();
        out.unsigned(1, uuid);
        out.unsigned(5, parent);
        out.bytes(2, name.as_bytes());
        more(&mut out);
        tracks.take_in(out.written());
    }

    #[test]
    fn tracks_belong_to_those_above_them() {
        let mut tracks = Tracks::default();
        track(&mut tracks, 1, 0, "", |out| {
            out.begin(3);
            out.signed(1, 12);
            out.bytes(6, b"mill");
            out.end();
        });
        track(&mut tracks, 2, 1, "", |out| {
            out.begin(4);
            out.signed(1, 12);
            out.signed(2, 13);
            out.bytes(5, b"grinder");
            out.end();
        });
        track(&mut tracks, 3, 2, "lane", |_| {});
        track(&mut tracks, 4, 3, "grams", |out| {
            out.begin(8);
            out.unsigned(4, 1000);
            out.end();
        });
        // A circle.
        track(&mut tracks, 5, 6, "a", |_| {});
        track(&mut tracks, 6, 5, "b", |_| {});
        let shown = |uuid| {
            let owner = tracks.owner(uuid);
            (owner.ids, owner.pid, owner.tid, String::from_utf8(owner.name).expect("text"))
        };
        assert_eq!(shown(1), (SliceIds::Process, 12, 0, "mill".into()));
        assert_eq!(shown(2), (SliceIds::Thread, 12, 13, "grinder".into()));
        assert_eq!(shown(3), (SliceIds::Process, 12, 13, "lane".into()));
        assert_eq!(shown(4), (SliceIds::Thread, 12, 13, "grams".into()));
        assert_eq!(shown(5), (SliceIds::None, 0, 0, "a".into()));
        assert_eq!(shown(7), (SliceIds::None, 0, 0, "".into()));
        assert_eq!(tracks.counter(4).map(|counter| counter.multiplier), Some(1000));
        assert_eq!(tracks.names, [((12, 0), b"mill".to_vec()), ((12, 13), b"grinder".to_vec())]);
    }
}
