//! Durations by the number of their group.

use std::collections::HashMap;

use tracemill_engine::event::Event;
use tracemill_engine::filter::KeyBy;
use tracemill_engine::session::Session;

use crate::durations::Durations;
use crate::groups::Groups;
use crate::line::Line;
use crate::report::{LeftOut, Report, Row};
use crate::run::Input;

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
        let groups = Groups::new(session, by);
        Table { groups, durations: Vec::new(), regress, left_out: LeftOut::default() }
    }

    /// A table for a part of the input's events, of which there may be others.
    pub(crate) fn for_part(input: &Input<'_>, by: &KeyBy, regress: bool) -> Self {
        let mut table = Table::new(input.session, by, regress);
        if input.selection.jobs > 1 && !regress {
            table.groups = Groups::one_of_many(input.session, by);
        }
        table
    }

    /// See [`Groups::fresh`].
    pub(crate) fn fresh(&mut self) -> Vec<Box<[u8]>> {
        self.groups.fresh()
    }

    /// The number of the event's group.
    #[inline]
    pub(crate) fn group(&mut self, event: &Event) -> u32 {
        self.groups.number(event)
    }

    /// Adds a duration. Those below zero and those over 64 bits are only counted.
    #[inline]
    pub(crate) fn add(&mut self, group: u32, ns: i128) {
        let Some(ns) = self.left_out.duration(ns) else { return };
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

/// The tables of several threads as one, whose groups have their numbers in the order in which the timeline has them.
#[derive(Default)]
pub(crate) struct Joined {
    numbers: HashMap<Box<[u8]>, u32>,
    /// By table, the numbers of its groups. None of a table that is alone.
    of_tables: Vec<Vec<u32>>,
    /// By group, the table that has met it first, and its number there.
    first: Vec<(usize, u32)>,
    /// By group, the durations that no table has: those from one stretch into another.
    across: Vec<Durations>,
    pub(crate) left_out: LeftOut,
}

impl Joined {
    /// Numbers the groups that a table has met in its last stretch.
    pub(crate) fn number_groups(&mut self, table: usize, fresh: Vec<Box<[u8]>>) {
        let of_table = entry(&mut self.of_tables, table as u32);
        for key in fresh {
            let next = self.first.len() as u32;
            let number = *self.numbers.entry(key).or_insert(next);
            if number == next {
                self.first.push((table, of_table.len() as u32));
            }
            of_table.push(number);
        }
    }

    /// The number of a group of a table.
    pub(crate) fn group(&self, table: usize, group: u32) -> u32 {
        self.of_tables[table].get(group as usize).copied().unwrap_or(group)
    }

    /// Adds a duration from one stretch into another.
    pub(crate) fn add(&mut self, group: u32, ns: i128) {
        if let Some(ns) = self.left_out.duration(ns) {
            entry(&mut self.across, group).add(ns);
        }
    }

    /// The report of all tables.
    pub(crate) fn report(mut self, mut tables: Vec<Table>) -> Report {
        self.left_out.add(&tables.iter().fold(LeftOut::default(), |mut sum, table| {
            sum.add(&table.left_out);
            sum
        }));
        if let [_] = &tables[..]
            && let Some(mut table) = tables.pop()
        {
            table.left_out = self.left_out;
            return table.report();
        }
        let mut durations = self.across;
        durations.resize_with(self.first.len(), Durations::default);
        let (mut names, mut found) = (Vec::new(), Vec::new());
        for (table, numbers) in tables.into_iter().zip(&self.of_tables) {
            let keys;
            (names, keys) = table.groups.into_parts();
            found.push(keys.into_iter().map(Some).collect::<Vec<_>>());
            for ((of_group, _), number) in table.durations.into_iter().zip(numbers) {
                durations[*number as usize].append(of_group);
            }
        }
        let keys = self.first.iter().map(|(table, group)| found.get_mut(*table)?.get_mut(*group as usize)?.take());
        let rows = keys.zip(durations).filter(|(_, durations)| durations.moments.count > 0);
        let rows = rows.filter_map(|(group, durations)| {
            group.map(|group| Row { key: group.key, label: group.label, durations, line: None })
        });
        Report { names, rows: rows.collect(), left_out: self.left_out }
    }
}
