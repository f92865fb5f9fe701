//! Indexes that were kept, of traces whose events are read again, held to what was kept.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_lod::search::{self, Direction};
use tracemill_lod::statistics::{self, StatisticsRange};
use tracemill_lod::store::IndexParts;
use tracemill_lod::{Index, Progress, Source, Timeline, index, store, tiles};

use crate::made::{self, Packet};

/// A trace of more events than are read at once, of which one stream ends early and one begins late.
fn many(folder: &made::Folder) -> std::path::PathBuf {
    let mut state = 8u64;
    let mut below = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut stream = |begin: u64, count: u64, step: u64| -> Vec<Packet> {
        let mut time = begin;
        let mut events = Vec::new();
        for at in 0..count {
            time += below(step);
            events.push(((2 + at % 3 * below(2)) as u8, time, 1));
        }
        events.chunks(3000).map(|events| Packet::new(events.to_vec())).collect()
    };
    let streams = [stream(1_000_000, 120_000, 300), stream(1_000_100, 9_000, 300), stream(9_000_000, 90_000, 200)];
    folder.trace("many", &streams)
}

struct Known {
    session: Arc<Session>,
    streams: Vec<SelectedStream>,
    selection: Selection,
    timeline: Timeline,
    index: Index,
    bytes: Vec<u8>,
}

impl Known {
    fn new(path: std::path::PathBuf) -> Known {
        let (session, streams) = made::open(&[path]);
        let selection = Selection::default();
        let timeline = crate::counted(&session, &streams, 1);
        let source = Source { session: &session, streams: &streams, selection: &selection, filter: None };
        let index = index::read(&timeline, &source, &Progress::default()).expect("nobody stops it");
        let mut bytes = Vec::new();
        let known = IndexParts { timeline: &timeline, index: &index, calls: None, states: None };
        assert!(store::write(known, b"mine", &mut bytes).expect("memory"));
        Known { session, streams, selection, timeline, index, bytes }
    }

    fn source(&self) -> Source<'_> {
        let Known { session, streams, selection, .. } = self;
        Source { session, streams, selection, filter: None }
    }

    /// The same, of which nothing is known but what was kept.
    fn kept(&self) -> (Timeline, Index) {
        let of = (&self.session, &self.source());
        let kept = store::read(of, b"mine", &mut &self.bytes[..], self.bytes.len() as u64).expect("it was kept");
        (kept.timeline, kept.index)
    }

    fn assert_same(&self, index: &Index, events: impl Iterator<Item = usize>) {
        for event in events {
            assert_eq!((index.ns(event), index.kind(event)), (self.index.ns(event), self.index.kind(event)), "{event}");
        }
    }
}

#[test]
fn what_was_not_kept_of_events_is_read_again() {
    let folder = made::Folder::new();
    let known = Known::new(many(&folder));
    let count = known.index.events();
    assert_eq!(count, 219_000);
    assert!(known.bytes.len() * 10 < count * 4, "{} bytes", known.bytes.len());
    // One by one, from the end.
    let (timeline, index) = known.kept();
    known.assert_same(&index, (0..count).rev().step_by(7919));
    for event in (0..count).step_by(911) {
        assert_eq!(index.place_before(event), known.index.place_before(event));
    }
    assert!(known.index.place_before(count - 1).is_some_and(|(_, number)| number % 65_536 > 61_000));
    for jobs in [1, 3] {
        // All, while somebody asks.
        let (_, index) = known.kept();
        let progress = Progress::default();
        std::thread::scope(|scope| {
            scope.spawn(|| index.fill(jobs, &progress));
            known.assert_same(&index, (0..count).step_by(30_011));
        });
        known.assert_same(&index, 0..count);
        assert!(!index.is_broken());
    }
    let (begin, end) = (known.index.begin, known.index.end);
    let length = end - begin;
    for (from, to) in [(0, 8), (3, 4), (7, 7)] {
        let part = StatisticsRange {
            range: Some((begin + length * from / 8, begin + length * to / 8)),
            ..StatisticsRange::default()
        };
        let sums = |index: &Index| format!("{:?}", statistics::sums(index, part, &|| false));
        assert_eq!(sums(&known.kept().1), sums(&known.index));
        let (_, index) = known.kept();
        for track in 0..index.tracks.len() {
            let found =
                |index: &Index| search::locate(index, Some(track), begin + length * from / 8, Direction::Nearest, None);
            assert_eq!(found(&index), found(&known.index));
        }
    }
    let tracks: Vec<usize> = (0..index.tracks.len()).collect();
    for level in [0, 4, 8, 12, 20] {
        let tile = (length / 2) as u64 >> (level + 10);
        let density = |of: (&Timeline, &Index), must_be_exact: bool| {
            tiles::density((of.0, Some(of.1)), &known.source(), &tracks, level, (tile, tile + 2), must_be_exact)
        };
        let whole = density((&known.timeline, &known.index), true);
        let (timeline, index) = known.kept();
        for (quick, whole) in density((&timeline, &index), false).iter().zip(&whole) {
            assert!(quick == whole || !quick.is_exact);
            assert!(whole.at.iter().all(|at| quick.at.contains(at)));
        }
        assert_eq!(density((&timeline, &index), true), whole, "level {level}");
    }
    drop(timeline);
}

#[test]
fn events_that_are_not_what_they_were_are_told() {
    let folder = made::Folder::new();
    let path = many(&folder);
    let known = Known::new(path.clone());
    let (_, index) = known.kept();
    assert_eq!(index.ns(0), known.index.ns(0));
    // The time of an event near the end is another one.
    let mut file = std::fs::File::options().write(true).open(path.join("stream_2")).expect("a file");
    file.seek(SeekFrom::End(-12)).expect("it is long");
    file.write_all(&u64::MAX.to_le_bytes()[1..]).expect("room");
    assert_eq!(index.ns(0), known.index.ns(0));
    assert!(!index.is_broken());
    assert_eq!(index.ns(index.events() - 1), None);
    assert!(index.is_broken());
}
