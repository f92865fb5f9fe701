//! Reads a session in every way that the program has.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use tracemill_analyses::kernel::{ANALYSES, AnalysisQuery, Descriptor, Input, Reading};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_engine::check::check;
use tracemill_engine::event::Event;
use tracemill_engine::events::{Events, Step};
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::survey::{ends, survey};
use tracemill_engine::timeline::{Selection, merger};
use tracemill_format::{DataFile, OpenTrace, Stream};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{Schema, StreamClassId};
use tracemill_render::lines::{LineFormat, LinePlan};
use tracemill_render::print::{PrintOutput, print};
use tracemill_render::text::TextOptions;
use tracemill_semantics::Concepts;

use crate::check_size;
use crate::storage::Folder;

/// Lines after which a print is stopped: what is after them is of the same kind.
const MAX_LINES: u64 = 10_000;

/// Opens a folder.
pub(crate) fn open(folder: &Folder) -> Session {
    let options = OpenOptions::new(tracemill_formats::FORMATS);
    Session::open(folder, &[PathBuf::from(Folder::PATH)], &options).expect("the options are right")
}

/// Opens a folder and reads it; the number of its events.
pub(crate) fn read(folder: &Folder) -> u64 {
    let session = open(folder);
    check_size(&session, folder.metadata_bytes());
    for error in session.failures.iter().chain(&session.warnings) {
        assert!(!error.to_string().is_empty());
    }
    read_session(&session)
}

/// Reads bytes as one packet of a schema.
pub(crate) fn read_with_schema(schema: Arc<Schema>, bytes: &[u8]) {
    let bits = bytes.len() as u64 * 8;
    let class = StreamClassId(0);
    let packet = Packet::new(class, 0, bits);
    let file = DataFile {
        path: "stream".into(),
        relative: "stream".into(),
        bytes: Arc::new(bytes.to_vec()),
        is_indexed: false,
    };
    let stream = Stream { name: "stream".into(), class, id: None, files: vec![file], packets: vec![packet].into() };
    let trace = OpenTrace {
        name: "random".into(),
        path: "random".into(),
        own_name: "random".into(),
        plans: Arc::new(TracePlans::new(schema.clone())),
        schema,
        has_other_bytes: false,
        reader: Arc::new(tracemill_ctf::CtfReader { metadata: None }),
        streams: vec![stream],
        sections: Vec::new(),
        remarks: Vec::new(),
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    let session = Session { traces: vec![trace], corrections: vec![0], ..Session::default() };
    read_session(&session);
}

fn read_session(session: &Session) -> u64 {
    let counted: Option<u64> =
        survey(session, true, 1).iter().flat_map(|trace| &trace.streams).map(|stream| stream.events()).sum();
    let counted = counted.expect("all events were counted");
    ends(session, (true, true));
    analyze(session, Concepts::built_in());
    let checked = check(session, 1, |_| true);
    assert_eq!(counted, checked, "events that were counted and checked");
    let text = TextOptions::default();
    for format in [LineFormat::Text(Arc::new(text)), LineFormat::Jsonl, LineFormat::Csv(None)] {
        let lines = print_lines(session, format);
        assert_eq!(counted.min(MAX_LINES), lines.min(MAX_LINES), "events that were counted and printed");
    }
    counted
}

/// Prints; the number of lines.
fn print_lines(session: &Session, format: LineFormat) -> u64 {
    let selection = Selection::default();
    let streams = streams(session, &[]).expect("all streams are wanted");
    let mut merger = merger(session, &streams, &selection);
    let plan = LinePlan { format, streams, filter: None, many_traces: false, with_ends: true };
    let mut lines = 0;
    print(session, &mut merger, &Arc::new(plan), 1, |output| {
        match output {
            PrintOutput::Lines(rendered) => {
                lines += rendered.lines;
                assert_eq!(rendered.ends.len() as u64, rendered.lines);
            }
            PrintOutput::Fault(fault) => panic!("counted, but not shown: {fault}"),
            PrintOutput::Note(_) => {}
        }
        if lines < MAX_LINES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    lines
}

/// Runs all analyses of kernel traces, in all their forms.
pub(crate) fn analyze(session: &Session, concepts: &Concepts) {
    let streams = streams(session, &[]).expect("all streams are wanted");
    let most = ANALYSES.iter().map(|known| known.forms.len()).max().expect("there are analyses");
    for at in 0..most {
        let input = Input { session, streams: &streams, selection: Selection::default(), concepts, same_host: false };
        let reading = Reading::new(input);
        let make = |known: &Descriptor| {
            let form = &known.forms[at.min(known.forms.len() - 1)];
            let words = form.word.into_iter().collect();
            (known.make)(&AnalysisQuery {
                by: form.keys.last().map(|key| key.to_string()),
                words,
                ..AnalysisQuery::default()
            })
        };
        // Without events that have a time there is nothing to say.
        let _ = reading.run(ANALYSES.iter().map(make).collect(), &mut |_| ControlFlow::Continue(()));
    }
}

/// Calls `take` with every event.
pub(crate) fn for_each_event(session: &Session, mut take: impl FnMut(Event<'_>)) {
    let streams = streams(session, &[]).expect("all streams are wanted");
    let mut events = Events::new(session, &streams, &Selection::default(), None);
    while let Some(step) = events.next() {
        if let Step::Event(_, event) = step {
            take(event);
        }
    }
}
