//! Notes between events: damage, warnings, losses.

use std::ops::ControlFlow;

use tracemill_codec::text::out::Out;
use tracemill_codec::text::uuid_text;
use tracemill_engine::merge::Note;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_model::packet::{Gap, GapKind};
use tracemill_render::time::WallClock;

use crate::report::{ReportedLoss, Reporter};

/// Reports a note; says whether the work goes on.
pub(super) fn report_note(
    note: Note,
    reporter: &mut Reporter,
    wall: &mut WallClock,
    session: &Session,
    streams: &[SelectedStream],
) -> ControlFlow<()> {
    match note {
        Note::Fault(error) if reporter.fault(&error) => return ControlFlow::Break(()),
        Note::Fault(_) => {}
        Note::Warning(error) => reporter.warning(&error),
        Note::Gap(stream, gap) => reporter.missing(loss_of(wall, session, &streams[stream.0 as usize], &gap)),
    }
    ControlFlow::Continue(())
}

/// A loss in words: what, how many, when, where.
fn loss_of(wall: &mut WallClock, session: &Session, of: &SelectedStream, gap: &Gap) -> ReportedLoss {
    let trace = &session.traces[of.trace];
    let (thing, verb) = match gap.kind {
        GapKind::DiscardedEvents => ("event", "discarded by the tracer"),
        GapKind::LostPackets => ("packet", "lost"),
    };
    let mut time = |cycles: Option<u64>| {
        let ns = of.clock.as_ref()?.ns(cycles?);
        let mut out = Out::default();
        wall.write(&mut out, ns);
        Some(String::from_utf8_lossy(out.written()).into_owned())
    };
    let uuid = trace.schema.uuid.as_ref().map_or("no uuid".to_string(), |uuid| format!("uuid {}", uuid_text(uuid)));
    let class = trace.schema.stream(of.stream.class).id;
    let id = of.stream.id.map_or("no id".to_string(), |id| format!("id {id}"));
    ReportedLoss {
        thing,
        verb,
        count: gap.count.unwrap_or(0),
        is_unknown: gap.count.is_none(),
        stretches: 1,
        begin: time(gap.begin_cycles),
        end: time(gap.end_cycles),
        place: format!("trace `{}` ({uuid}), stream `{}` (class {class}, {id})", trace.name, of.stream.name),
    }
}
