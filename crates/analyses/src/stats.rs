//! Durations by the number of their group.

use tracemill_engine::event::Event;
use tracemill_engine::filter::KeyBy;
use tracemill_engine::session::Session;

use crate::durations::Durations;
use crate::groups::Groups;
use crate::line::Line;
use crate::report::{LeftOut, Report, Row};

/// The entry of a group in a list that grows with the groups.
#[inline]
pub(crate) fn entry<T: Default>(list: &mut Vec<T>, group: u32) -> &mut T {
    let at = group as usize;
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}

/// Collects durations.
pub(crate) struct Table {
    groups: Groups,
    durations: Vec<(Durations, Line)>,
    regress: bool,
    pub(crate) left_out: LeftOut,
}

impl Table {
    pub(crate) fn new(session: &Session, by: &KeyBy, regress: bool) -> Self {
        Table { groups: Groups::new(session, by), durations: Vec::new(), regress, left_out: LeftOut::default() }
    }

    /// The number of the event's group.
    #[inline]
    pub(crate) fn group(&mut self, event: &Event) -> u32 {
        self.groups.number(event)
    }

    /// Adds a duration. Those below zero and those over 64 bits are only counted.
    #[inline]
    pub(crate) fn add(&mut self, group: u32, ns: i128) {
        let Ok(ns) = u64::try_from(ns) else {
            let count = if ns < 0 { &mut self.left_out.negative } else { &mut self.left_out.too_long };
            *count += 1;
            return;
        };
        let (durations, line) = entry(&mut self.durations, group);
        if self.regress {
            line.add(durations.moments.count, ns);
        }
        durations.add(ns);
    }

    /// The rows of all groups that have durations.
    pub(crate) fn report(self) -> Report {
        let (names, keys) = self.groups.into_parts();
        let rows = self.durations.into_iter().zip(keys).filter(|((durations, _), _)| durations.moments.count > 0);
        let rows = rows.map(|((durations, line), group)| Row {
            key: group.key,
            label: group.label,
            durations,
            line: self.regress.then_some(line),
        });
        Report { names, rows: rows.collect(), left_out: self.left_out }
    }
}
