//! A session of the loopback interface is viewed at not less than half the speed at which its folder is read.
//!
//! Seconds on a shared machine are a rumour: both are done in turn, several times, and the best of each counts.

mod relay;
#[path = "relay/watch.rs"]
mod watching;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use relay::{METADATA, Packet, Script, ScriptStep};
use tracemill_engine::request::{EventQuery, Request};
use tracemill_engine::session::OpenOptions;
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::merger;
use watching::{Watched, options, take, watch_with};

/// Packets of a stream, and events of a packet: 256 KiB.
const PACKETS: u64 = 24;
const EVENTS: u64 = 16_380;
const TRIES: usize = 5;

fn packets(first: u64) -> Vec<Packet> {
    let times = |at: u64| (0..EVENTS).map(|event| (at * EVENTS + event) * 2 + first).collect::<Vec<u64>>();
    let packet = |at: u64| Packet::new(at * EVENTS * 2, (at + 1) * EVENTS * 2 - 1, at, &times(at));
    (0..PACKETS).map(packet).collect()
}

/// The events of a folder, in order, with one thread.
fn read(folder: &Path) -> Watched {
    let request = Request {
        inputs: vec![folder.to_path_buf()],
        open: OpenOptions::new(&[&tracemill_ctf::FORMAT]),
        events: Some(EventQuery { jobs: 1, ..EventQuery::default() }),
        ..Request::default()
    };
    let opened =
        request.open(&FileSystem, &mut |_| Ok(ControlFlow::Continue(()))).expect("it is right").expect("a trace");
    let mut watched = Watched::default();
    take(&mut merger(&opened.session, &opened.streams, &opened.selection), &mut watched);
    watched
}

#[test]
fn a_session_is_viewed_at_half_the_speed_of_its_folder_or_more() {
    let streams = [packets(0), packets(1)];
    let folder = std::env::temp_dir().join(format!("tracemill-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("metadata"), METADATA).expect("there is room");
    for (at, packets) in streams.iter().enumerate() {
        let bytes: Vec<u8> = packets.iter().flat_map(|packet| packet.encoded().to_vec()).collect();
        std::fs::write(folder.join(format!("c_{at}")), bytes).expect("there is room");
    }
    let steps = |packets: &[Packet]| packets.iter().cloned().map(ScriptStep::Packet).collect::<Vec<_>>();
    let [one, two] = [steps(&streams[0]), steps(&streams[1])];
    let (mut of_folder, mut of_session) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIES {
        let begin = Instant::now();
        let whole = read(&folder);
        of_folder = of_folder.min(begin.elapsed());
        assert_eq!((whole.events.len() as u64, whole.faults.len()), (2 * PACKETS * EVENTS, 0));
        let viewed =
            tracemill_live::viewer::ViewerOptions { memory: 16 << 20, ..options(Script::new(&[&one, &two]).serve()) };
        let begin = Instant::now();
        let watched = watch_with(viewed, tracemill_live::source::Patience::Timers(10)).expect("the connection is made");
        of_session = of_session.min(begin.elapsed());
        assert!(watched.events == whole.events, "{:?}", watched.faults);
        if of_session <= of_folder * 2 {
            break;
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    println!("the folder is read in {of_folder:?}, the session is viewed in {of_session:?}");
    assert!(
        of_session <= of_folder * 2,
        "the folder is read in {of_folder:?}, the session is viewed in {of_session:?}"
    );
}
