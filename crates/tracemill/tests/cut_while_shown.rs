//! A file that is cut between finding its events and showing them: whatever is shown was recorded, wherever the cut falls.
#![cfg(unix)]

mod folder;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use folder::{Folder, HEADER_BYTES, PACKET_BYTES, first_event_of, trace};
use tracemill_codec::chunk::Bytes;
use tracemill_engine::convert::{Conversion, ConvertOptions, sources};
use tracemill_engine::filter::{Expression, Filter, TimeContext};
use tracemill_engine::merge::Note;
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::{Selection, merger};
use tracemill_format::target::WriteOptions;
use tracemill_format::{Entry, EntryKind, Storage};
use tracemill_model::error::Result;
use tracemill_render::lines::{LineFormat, LinePlan};
use tracemill_render::print::{PrintOutput, print};

/// Where the file is cut: inside its fourth packet.
const CUT: u64 = 3 * PACKET_BYTES + 1234;

/// The file system, in which a file is cut before its bytes are asked for once more than some number of times.
#[derive(Clone)]
struct CutMeanwhile {
    left: Arc<AtomicI64>,
}

struct CutBytes {
    inner: Arc<dyn Bytes>,
    path: PathBuf,
    left: Arc<AtomicI64>,
}

impl Bytes for CutBytes {
    fn bytes(&self) -> &[u8] {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            let file = std::fs::OpenOptions::new().write(true).open(&self.path).expect("it is there");
            file.set_len(CUT).expect("it can be cut");
        }
        self.inner.bytes()
    }

    fn len_now(&self) -> u64 {
        self.inner.len_now()
    }

    fn can_vanish(&self) -> bool {
        self.inner.can_vanish()
    }
}

impl Storage for CutMeanwhile {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        FileSystem.list(directory)
    }

    fn names(&self, directory: &Path) -> Result<Vec<OsString>> {
        FileSystem.names(directory)
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        FileSystem.kind(path)
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let inner = FileSystem.open(file)?;
        if !file.ends_with("stream") {
            return Ok(inner);
        }
        Ok(Arc::new(CutBytes { inner, path: file.to_path_buf(), left: self.left.clone() }))
    }
}

/// A trace that is opened whole, and is cut before its bytes are asked for once more than `steps` times after that.
fn opened(folder: &Folder, steps: i64) -> (Session, Arc<AtomicI64>) {
    trace(folder, &["stream"]);
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let storage = CutMeanwhile { left: left.clone() };
    let session = Session::open(&storage, &[folder.path()], &OpenOptions::new(tracemill_formats::FORMATS))
        .expect("the options are right");
    left.store(steps, Ordering::Relaxed);
    (session, left)
}

/// Steps to try: all of the first, then ever fewer.
fn steps() -> impl Iterator<Item = i64> {
    (0..90).chain((90..10_000).step_by(797))
}

/// Numbers of the lines that are printed with a filter, and of the faults between them.
fn printed(session: &Session, jobs: usize, expression: Option<&str>) -> (Vec<u64>, usize) {
    let streams = streams(session, &[]).expect("all streams are wanted");
    let bind = |text: &str| -> Filter {
        Expression::parse(text)
            .expect("it is right")
            .bind(session, &TimeContext::default())
            .expect("the fields are there")
    };
    let selection = Selection { filter: expression.map(bind), jobs, memory_bytes: 256 << 10, ..Selection::default() };
    let mut merger = merger(session, &streams, &selection);
    let plan = LinePlan { format: LineFormat::Jsonl, streams, filter: None, many_traces: false, with_ends: false };
    let (mut text, mut faults) = (Vec::new(), 0);
    print(session, &mut merger, &Arc::new(plan), jobs, |output| {
        match output {
            PrintOutput::Lines(rendered) => text.extend_from_slice(rendered.out.written()),
            PrintOutput::Fault(_) | PrintOutput::Note(Note::Fault(_)) => faults += 1,
            PrintOutput::Note(_) => {}
        }
        ControlFlow::Continue(())
    });
    let number = |line: &str| {
        let value = |key: &str| {
            let behind = line.split_once(&format!("\"{key}\":")).expect("each line has it").1;
            behind.split([',', '}']).next().and_then(|digits| digits.trim().parse::<u64>().ok()).expect("a number")
        };
        assert_eq!(value("cycles"), value("number"), "{line}");
        value("cycles")
    };
    (String::from_utf8(text).expect("lines are text").lines().map(number).collect(), faults)
}

#[test]
fn lines_are_of_events_that_were_there() {
    let all = first_event_of(folder::PACKETS);
    let kept = first_event_of(3) + (1234 - HEADER_BYTES) / folder::EVENT_BYTES;
    for (jobs, expression) in [(1, None), (2, None), (1, Some("payload.number >= 0"))] {
        let mut cuts = 0;
        for steps in steps() {
            let folder = Folder::new("shown");
            let (session, left) = opened(&folder, steps);
            let (numbers, faults) = printed(&session, jobs, expression);
            let is_cut = left.load(Ordering::Relaxed) < 0;
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{jobs} {expression:?}, step {steps}");
            // Events read before the cut are shown whole, and the rest is reported.
            let count = numbers.len() as u64;
            assert!(count == all || (count >= kept && faults == 1 && is_cut), "step {steps}: {count} events, {faults}");
            cuts += usize::from(faults == 1);
        }
        assert!(cuts > 20, "{cuts} of the cuts fell into reading");
    }
}

#[test]
fn conversions_hold_events_that_were_there_or_fail() {
    let kept = first_event_of(3) + (1234 - HEADER_BYTES) / folder::EVENT_BYTES;
    for name in ["ctf1.8", "ctf2"] {
        let (mut failed, mut part) = (0, 0);
        for steps in (0..60).chain((60..4000).step_by(397)) {
            let folder = Folder::new("converted");
            let (session, _) = opened(&folder, steps);
            let streams = streams(&session, &[]).expect("all streams are wanted");
            let sources = sources(&session, &streams).expect("there are no parts");
            let out = folder.path().join("out");
            let target = tracemill::target(name, &[]).expect("it is known");
            let to = FileSystem.path(&out);
            let writer = (target.create)(&to, &sources, &WriteOptions::default()).expect("it can be written");
            let options = ConvertOptions::default();
            let selection = Selection { memory_bytes: 64 << 10, ..Selection::default() };
            let (session, streams) = (&session, &streams);
            let conversion =
                Conversion { session, streams, selection: &selection, options: &options, in_order: target.wants_order };
            let mut faults = 0;
            let ended = conversion.run(writer, &mut |note| {
                faults += usize::from(matches!(note, Note::Fault(_)));
                ControlFlow::Continue(())
            });
            if let Err(error) = ended {
                assert!(error.to_string().contains("was cut to"), "{error}");
                failed += 1;
                continue;
            }
            let written = Session::open(&FileSystem, &[out], &OpenOptions::new(tracemill_formats::FORMATS));
            let (numbers, _) = printed(&written.expect("the options are right"), 1, None);
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{name}, step {steps}");
            let count = numbers.len() as u64;
            assert!(count == first_event_of(folder::PACKETS) || (count >= kept && faults == 1), "{name}, step {steps}");
            part += faults;
        }
        assert!(failed + part > 5, "{name}: {failed} failed, {part} were told");
    }
}
