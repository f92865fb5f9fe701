//! Where damage is shown.

use tracemill_engine::timeline::Selection;
use tracemill_ftrace::builder::{FileBuilder, format, pack};
use tracemill_lod::{Progress, Source, Timeline, index, tiles};
use tracemill_model::schema::ByteOrder;

use crate::made::{self, Packet};

#[test]
fn damage_is_shown_on_its_track_where_events_are_missing() {
    let folder = made::Folder::new();
    // No event is of class 99: the rest of the packet is lost.
    let broken = vec![(2, 5000, 1), (3, 6000, 1), (99, 6500, 1), (2, 8999, 1)];
    let whole = |from: u64| Packet::new((0..10).map(|at| (2, from + at * 100, 1)).collect());
    let paths = [folder.trace("cut", &[vec![whole(1000)], vec![whole(2000), Packet::new(broken), whole(20_000)]])];
    let (session, streams) = made::open(&paths);
    let selection = Selection::default();
    let source = Source { session: &session, streams: &streams, selection: &selection, filter: None };
    let timeline = Timeline::new(&source, (Some(0), Some(30_000)));
    assert_eq!(timeline.count(&source, &Progress::default()), Ok(true));
    let index = index::read(&timeline, &source, &Progress::default()).expect("nobody stops it");
    let faults: Vec<_> = index.faults.iter().map(|fault| (fault.track, fault.range)).collect();
    assert_eq!(faults, [(Some(1), Some((6000, 8999)))]);
    // In buckets of 1,024 ns.
    let shown = |track| tiles::damage(&index, track, 10, (0, 0)).collect::<Vec<_>>();
    assert_eq!((shown(0), shown(1)), (vec![], vec![(5, 4)]));
    assert_eq!(tiles::damage(&index, 1, 10, (1, 4)).count(), 0);
}

#[test]
fn damage_is_shown_on_the_cpu_that_has_it_when_all_are_in_one_file() {
    let order = ByteOrder::Little;
    let tick = pack(order, &[(9, 2), (0, 1), (0, 1), (7, 4), (1, 4)]);
    for pages_packed in [0, 1] {
        let mut file = FileBuilder::new(order, 8, 256);
        file.systems = vec![("t", vec![format("tick", 9, &["int n;8;4;1"])])];
        file.pages_packed = pages_packed;
        for cpu in 0..3 {
            let mut page = file.page(1000 * (cpu + 1));
            (0..5).for_each(|_| page.event(100, &tick));
            if cpu == 1 {
                // A record that is longer than what is left of the page.
                page.event(0, &[0; 100]);
                page = page.commit(5 * 16 + 40);
            }
            file.cpu(vec![page]);
        }
        let folder = made::Folder::new();
        let (session, streams) = made::open(&[folder.file("trace.dat", &file.build_v7())]);
        let selection = Selection::default();
        let source = Source { session: &session, streams: &streams, selection: &selection, filter: None };
        let timeline = Timeline::new(&source, (Some(0), Some(30_000)));
        assert_eq!(timeline.count(&source, &Progress::default()), Ok(true));
        let index = index::read(&timeline, &source, &Progress::default()).expect("nobody stops it");
        let faults: Vec<_> =
            index.faults.iter().map(|fault| index.tracks[fault.track.expect("one")].name.clone()).collect();
        assert_eq!(faults, ["cpu1"], "{pages_packed}");
    }
}
