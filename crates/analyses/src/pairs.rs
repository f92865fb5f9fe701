//! Durations from one event to another of the same key.

use std::ops::ControlFlow;

use tracemill_engine::event::Event;
use tracemill_engine::filter::KeyBy;
use tracemill_engine::merge::Note;
use tracemill_model::error::Result;

use crate::report::{LeftOut, Report};
use crate::run::{Input, Part, Role, Wanted, run_of, run_parts};
use crate::stats::{Joined, Table, entry};
use crate::target::Target;

/// Parameters of the analysis.
pub struct PairsQuery<'a> {
    /// The event that begins.
    pub from: &'a Target,
    /// The event that ends.
    pub to: &'a Target,
    /// Key that the durations are grouped by, equal for both events of a pair.
    pub by: &'a KeyBy,
    /// Are lines wanted?
    pub regress: bool,
}

/// Measures pairs. The latest beginning of a group counts; an event that is both ends the pair before and begins the
/// next one.
///
/// # Errors
/// Errors of [`Target::bind`].
pub fn report(
    input: &Input<'_>,
    question: &PairsQuery<'_>,
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
) -> Result<Report> {
    measure(input, (question.from, Some(question.to)), question.by, question.regress, note)
}

/// As [`report`], of some events only; `each` receives when each pair begins and ends, in the order of their ends.
///
/// # Errors
/// Errors of [`Target::bind`].
pub fn report_of(
    input: &Input<'_>,
    question: &PairsQuery<'_>,
    wanted: Option<Wanted<'_>>,
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
    mut each: impl FnMut(i128, i128),
) -> Result<Report> {
    let mut table = Table::new(input.session, question.by, question.regress);
    let mut open: Vec<Option<i128>> = Vec::new();
    let targets = (question.from, Some(question.to));
    let untimed = run_of(input, targets, wanted, note, |role, ns, event| {
        let group = table.group(event);
        if let Some(from) = step(entry(&mut open, group), role, ns, &mut table.left_out) {
            table.add(group, ns - from);
            each(from, ns);
        }
    })?;
    table.left_out.untimed = untimed;
    table.left_out.unfinished = open.iter().flatten().count() as u64;
    Ok(table.report())
}

/// Measures pairs with all jobs.
pub(crate) fn measure(
    input: &Input<'_>,
    targets: (&Target, Option<&Target>),
    by: &KeyBy,
    regress: bool,
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
) -> Result<Report> {
    let mut joined = Joined::default();
    let mut open: Vec<Option<i128>> = Vec::new();
    let make = || {
        let table = Table::for_part(input, by, regress);
        Pairs { table, groups: Vec::new(), met: Vec::new(), stretch: 1 }
    };
    let (parts, untimed) = run_parts(input, targets, regress, note, make, |part, edge: Edge| {
        joined.number_groups(part, edge.fresh);
        for (group, of) in edge.groups {
            let group = joined.group(part, group);
            let begun = entry(&mut open, group);
            if let Some(from) = step(begun, of.role, of.first_ns, &mut joined.left_out) {
                joined.add(group, of.first_ns - from);
            }
            *begun = of.open;
        }
    })?;
    joined.left_out.untimed = untimed;
    joined.left_out.unfinished = open.iter().flatten().count() as u64;
    Ok(joined.report(parts.into_iter().map(|part| part.table).collect()))
}

/// Takes the next event of a group: gives the beginning of the pair that it ends. `open` is the time of the beginning
/// that is open.
#[inline]
fn step(open: &mut Option<i128>, role: Role, ns: i128, left_out: &mut LeftOut) -> Option<i128> {
    let mut from = None;
    if role.ends {
        from = open.take();
        // An event that is both has nothing to end the first time.
        left_out.only_ends += u64::from(from.is_none() && !role.begins);
    }
    if role.begins && open.replace(ns).is_some() {
        left_out.restarted += 1;
    }
    from
}

/// The pairs of stretches.
struct Pairs {
    table: Table,
    groups: Vec<OfStretch>,
    /// Groups of this stretch.
    met: Vec<u32>,
    /// Number of the stretch, from 1.
    stretch: u64,
}

/// A group in a stretch.
#[derive(Clone, Copy, Default)]
struct OfStretch {
    stretch: u64,
    /// Role and time of its first event, which those before the stretch decide about.
    role: Role,
    first_ns: i128,
    /// Time of the beginning that is open.
    open: Option<i128>,
}

/// The groups of a stretch, and which are new in it.
struct Edge {
    groups: Vec<(u32, OfStretch)>,
    fresh: Vec<Box<[u8]>>,
}

impl Part for Pairs {
    type Edge = Edge;

    #[inline]
    fn add_event(&mut self, role: Role, ns: i128, event: &Event) {
        let group = self.table.group(event);
        let of = entry(&mut self.groups, group);
        if of.stretch != self.stretch {
            *of = OfStretch { stretch: self.stretch, role, first_ns: ns, open: role.begins.then_some(ns) };
            self.met.push(group);
            return;
        }
        if let Some(from) = step(&mut of.open, role, ns, &mut self.table.left_out) {
            self.table.add(group, ns - from);
        }
    }

    fn end(&mut self) -> Edge {
        self.stretch += 1;
        let groups = self.met.drain(..).map(|group| (group, self.groups[group as usize])).collect();
        Edge { groups, fresh: self.table.fresh() }
    }
}
