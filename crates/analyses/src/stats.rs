//! Durations by the number of their group.

use crate::durations::Durations;
use crate::groups::Groups;
use crate::line::Line;
use crate::report::{LeftOut, Report, Row};

/// Collects durations.
pub(crate) struct Table {
    groups: Vec<(Durations, Line)>,
    regress: bool,
    pub(crate) left_out: LeftOut,
}

impl Table {
    pub(crate) fn new(regress: bool) -> Self {
        Table { groups: Vec::new(), regress, left_out: LeftOut::default() }
    }

    /// Adds a duration. Those below zero and those over 64 bits are only counted.
    #[inline]
    pub(crate) fn add(&mut self, group: u32, ns: i128) {
        let Ok(ns) = u64::try_from(ns) else {
            let count = if ns < 0 { &mut self.left_out.negative } else { &mut self.left_out.too_long };
            *count += 1;
            return;
        };
        let at = group as usize;
        if self.groups.len() <= at {
            self.groups.resize_with(at + 1, Default::default);
        }
        let (durations, line) = &mut self.groups[at];
        if self.regress {
            line.add(durations.moments.count, ns);
        }
        durations.add(ns);
    }

    /// The rows of all groups that have durations.
    pub(crate) fn report(self, groups: Groups) -> Report {
        let (names, keys) = groups.into_parts();
        let rows = self.groups.into_iter().zip(keys).filter(|((durations, _), _)| durations.moments.count > 0);
        let rows = rows.map(|((durations, line), group)| Row {
            key: group.key,
            label: group.label,
            durations,
            line: self.regress.then_some(line),
        });
        Report { names, rows: rows.collect(), left_out: self.left_out }
    }
}
