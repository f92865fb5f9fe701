//! Writes a session in every format, and reads what came out.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tracemill_engine::convert::{Conversion, ConvertOptions, sources};
use tracemill_engine::item::Item;
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::{Selection, cursors};
use tracemill_format::target::{Target, WriteOptions};
use tracemill_formats::TARGETS;
use tracemill_model::schema::ByteOrder;

/// A folder that is removed with its content.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Scratch(std::env::temp_dir().join(format!("tracemill-fuzz-{}-{number}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is no output when no event was written.
        let _ = std::fs::remove_dir_all(&self.0).or_else(|_| std::fs::remove_file(&self.0));
    }
}

/// Writes all events in every format: with packets as they were, and rebuilt.
pub(crate) fn write_all(session: &Session) {
    for target in TARGETS {
        let anew =
            WriteOptions { packet_bytes: Some(512), byte_order: Some(ByteOrder::Big), ..WriteOptions::default() };
        for options in [WriteOptions { is_cut: true, ..WriteOptions::default() }, anew] {
            let out = Scratch::new();
            if let Some(events) = write(session, target, &options, &out.0) {
                check(target, &out.0, events);
            }
        }
    }
}

/// The number of events that were written; nothing when the target refuses.
fn write(session: &Session, target: &Target, options: &WriteOptions, out: &Path) -> Option<u64> {
    let streams = streams(session, &[]).ok()?;
    let sources = sources(session, &streams).ok()?;
    let selection = Selection::default();
    let conversion = Conversion {
        session,
        streams: &streams,
        selection: &selection,
        options: &ConvertOptions::default(),
        in_order: target.wants_order,
    };
    let writer = (target.create)(&FileSystem.path(out), &sources, options).ok()?;
    Some(conversion.run(writer, &mut |_| ControlFlow::Continue(())).ok()?.events)
}

fn open(out: &Path) -> Session {
    Session::open(&FileSystem, &[out.to_path_buf()], &OpenOptions::new(tracemill_formats::FORMATS))
        .expect("the options are right")
}

/// The output can be read without faults; CTF 2 and CTF 1.8 with the same number of events.
fn check(target: &Target, out: &Path, events: u64) {
    let (session, name) = (open(out), target.names[0]);
    if events == 0 {
        return;
    }
    for error in session.failures.iter().chain(session.traces.iter().flat_map(|trace| &trace.faults)) {
        panic!("{name}: {error}");
    }
    let streams = streams(&session, &[]).expect("all streams are wanted");
    let mut found = 0;
    for mut cursor in cursors(&session, &streams, &Selection::default()) {
        while let Some(item) = cursor.next() {
            match item {
                Item::Chunk(ready) => found += ready.chunk.len() as u64,
                Item::Fault(error) => panic!("{name}: {error}"),
                _ => {}
            }
        }
    }
    // Others count what they cannot hold as lost.
    let is_ctf = ["ctf2", "ctf1.8"].contains(&name);
    assert!(!is_ctf || found == events, "{name}: {events} events became {found}");
}
