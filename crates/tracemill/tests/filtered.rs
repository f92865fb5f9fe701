//! Events that are left out while they are read are those that would be left out of everything afterwards.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use tracemill_engine::events::Events;
use tracemill_engine::filter::{Expression, Filter, TimeContext};
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::{Selection, merger};
use tracemill_render::lines::{LineFormat, LinePlan};
use tracemill_render::print::{PrintOutput, print};

/// Lines of the events of a session, and how many losses, warnings and faults were reported between them: those that a filter
/// of the reader leaves over, and of these those that one of the lines does.
fn lines(session: &Session, read: Option<Filter>, shown: Option<Filter>, jobs: usize) -> (String, usize) {
    let streams = streams(session, &[]).expect("all streams are wanted");
    let selection = Selection { filter: read, jobs, ..Selection::default() };
    let mut merger = merger(session, &streams, &selection);
    let plan = LinePlan { format: LineFormat::Jsonl, streams, filter: shown, many_traces: false, with_ends: false };
    let (mut text, mut notes) = (Vec::new(), 0);
    print(session, &mut merger, &Arc::new(plan), jobs, |output| {
        match output {
            PrintOutput::Lines(rendered) => text.extend_from_slice(rendered.out.written()),
            PrintOutput::Fault(_) | PrintOutput::Note(_) => notes += 1,
        }
        ControlFlow::Continue(())
    });
    (String::from_utf8(text).expect("lines are text"), notes)
}

#[test]
fn reading_less_is_showing_less() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    let cases = [
        ("traces/mill", "payload.grams > 100"),
        ("traces/mill", "not payload.grams > 100 and cpu == 0"),
        ("traces/mill", "payload.steps[1] != -398"),
        ("traces/losses", "payload.weight > 5 and payload.number < 3000"),
        ("traces/overwritten", "stream_context.vtid > 0"),
        ("traces/orders", "payload.id >= 100"),
        ("kernel/bakery", "payload.prev_tid == 0 or payload.next_tid == 0"),
        ("calls", "payload.tid == 12529 and payload.source == \"perf\""),
    ];
    let mut some = 0;
    for (trace, expression) in cases {
        let options = OpenOptions::new(tracemill_formats::FORMATS);
        let session = Session::open(&FileSystem, &[demo.join(trace)], &options).expect("the options are right");
        let expression = Expression::parse(expression).expect(expression);
        let filter = expression.bind(&session, &TimeContext::default()).expect(trace);
        let (all, _) = lines(&session, None, None, 1);
        let (afterwards, notes) = lines(&session, None, Some(filter.clone()), 1);
        some += usize::from(!afterwards.is_empty() && afterwards.len() < all.len());
        for jobs in [1, 2, 5] {
            let read = lines(&session, Some(filter.clone()), None, jobs);
            assert!(read == (afterwards.clone(), notes), "{trace} with {jobs} jobs:\n{}\n{afterwards}", read.0);
        }
    }
    assert!(some > 3, "filters that leave some events are needed, not {some}");
}

#[test]
fn a_reader_that_stops_early_has_seen_the_same_with_any_number_of_jobs() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces/losses");
    let options = OpenOptions::new(tracemill_formats::FORMATS);
    let session = Session::open(&FileSystem, &[demo], &options).expect("the options are right");
    let streams = streams(&session, &[]).expect("all streams are wanted");
    let read = |jobs: usize, notes: usize| {
        let selection = Selection { jobs, ..Selection::default() };
        let (mut times, mut left) = (Vec::new(), notes);
        Events::new(&session, &streams, &selection, None).for_each(
            |event| times.push(event.ns),
            |_| {
                left = left.saturating_sub(1);
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        times
    };
    let all = read(1, usize::MAX);
    assert!(!all.is_empty() && all == read(2, usize::MAX) && all == read(5, usize::MAX));
    let some = read(1, 1);
    assert!(some.len() < all.len() && some == read(2, 1) && some == read(5, 1));
}
