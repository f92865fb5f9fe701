//! Traces whose clocks cannot be compared, moved so that they begin together.
//!
//! A viewer has one time axis. A clock without an origin next to one that counts from the epoch would be 56 years away
//! from it: nothing could be seen of either. Such a trace is moved as a user would move it with `--clock-offset-ns`.

use tracemill_format::OpenTrace;
use tracemill_model::error::Error;
use tracemill_model::schema::{ClockClass, ClockOrigin};

use crate::session::Session;
use crate::survey;

/// A trace that was moved so that it begins where another one does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BeginAlignment {
    /// The trace that was moved.
    pub trace: usize,
    /// The trace at whose begin it begins now, it or the traces that share its clock.
    pub by: usize,
    /// Ns that were added to its clock.
    pub offset_ns: i64,
}

/// Clocks of one reference can be compared.
#[derive(PartialEq, Eq)]
enum Reference<'a> {
    /// The epoch, or a place that the user chose.
    Absolute,
    /// An origin or a clock with an id of its own.
    Named(&'a str),
    /// Only the format is known: its clock is usually that of the machine.
    OfFormat(&'static str),
}

/// Traces of one reference, and the first and the last ns of all of them.
struct ReferenceGroup<'a> {
    reference: Reference<'a>,
    traces: Vec<usize>,
    range: (i128, i128),
    /// The trace that begins first.
    first: usize,
}

/// Moves traces whose clocks cannot be compared with those of the others, so that all begin together. Traces whose clocks
/// the user corrected stay where they are.
pub fn align_begins(session: &mut Session) -> Vec<BeginAlignment> {
    let mut found = Vec::new();
    if session.traces.len() < 2 {
        return found;
    }
    let groups = groups(session);
    // Times since the epoch stay what they are.
    let anchor = groups.iter().position(|group| group.reference == Reference::Absolute).unwrap_or(0);
    let Some(ReferenceGroup { range: (begin, _), first: by, .. }) = groups.get(anchor) else { return found };
    for (_, group) in groups.iter().enumerate().filter(|(at, _)| *at != anchor) {
        let Ok(offset_ns) = i64::try_from(begin - group.range.0) else { continue };
        found.extend(group.traces.iter().map(|trace| BeginAlignment { trace: *trace, by: *by, offset_ns }));
    }
    for BeginAlignment { trace, offset_ns, .. } in &found {
        session.corrections[*trace] = session.corrections[*trace].saturating_add(*offset_ns);
    }
    found
}

/// A sentence for the user about traces that were aligned.
pub(crate) fn sentence(session: &Session, found: &[BeginAlignment]) -> Option<Error> {
    let by = found.first()?.by;
    let name = |at: usize| format!("`{}`", session.traces[at].name);
    let names: Vec<String> = found.iter().map(|one| name(one.trace)).collect();
    let (clocks, they) = if names.len() == 1 { ("clock", "it is") } else { ("clocks", "they are") };
    let message = format!(
        "the {clocks} of {} cannot be compared with that of {}: {they} aligned at their begins",
        names.join(", "),
        name(by)
    );
    Some(Error::inconsistent(message).with_help("move a clock with --clock-offset TRACE=SECONDS"))
}

/// Traces by their references, in the order of the traces. Those without times are in none.
fn groups(session: &Session) -> Vec<ReferenceGroup<'_>> {
    let mut groups: Vec<ReferenceGroup<'_>> = Vec::new();
    let references =
        session.traces.iter().enumerate().filter_map(|(at, trace)| Some((at, reference(session, at, trace)?)));
    let references: Vec<(usize, Reference<'_>)> = references.collect();
    // Finding where traces begin reads them: not where all can be compared anyway.
    if references.iter().all(|(_, reference)| *reference == Reference::Absolute) {
        return groups;
    }
    for (trace, reference) in references {
        let (Some(begin), Some(end)) = survey::ends_of_trace(session, trace, (true, true)) else { continue };
        let is_near = |group: &ReferenceGroup<'_>| {
            group.reference == reference
                && (!matches!(reference, Reference::OfFormat(_))
                    || (begin - group.range.1 <= FAR_APART_NS && group.range.0 - end <= FAR_APART_NS))
        };
        match groups.iter_mut().find(|group| is_near(group)) {
            Some(group) => {
                if begin < group.range.0 {
                    group.first = trace;
                }
                group.range = (group.range.0.min(begin), group.range.1.max(end));
                group.traces.push(trace);
            }
            None => groups.push(ReferenceGroup { reference, traces: vec![trace], range: (begin, end), first: trace }),
        }
    }
    groups
}

/// Recordings of one machine that were made together are nearer than that; farther apart, their clocks are hardly one.
const FAR_APART_NS: i128 = 3_600_000_000_000;

/// The origin of the times of a trace; `None` without times.
fn reference<'a>(session: &Session, at: usize, trace: &'a OpenTrace) -> Option<Reference<'a>> {
    let clocks: Vec<&ClockClass> = trace.default_clocks().collect();
    let first = clocks.first()?;
    let is_corrected = session.corrections[at] != 0 || session.drift(at).is_some();
    if is_corrected || clocks.iter().any(|clock| clock.origin == ClockOrigin::Unix) {
        return Some(Reference::Absolute);
    }
    if let ClockOrigin::Custom { uid, .. } = &first.origin {
        return Some(Reference::Named(uid));
    }
    Some(first.uid.as_deref().map_or(Reference::OfFormat(trace.schema.format), Reference::Named))
}
