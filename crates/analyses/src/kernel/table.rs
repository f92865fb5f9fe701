//! Tables: what an analysis says, in rows of cells, for whatever shows them.

use std::rc::Rc;

use tracemill_semantics::states::{Ns, Suspensions, list_of_cpus, missing_events};
pub use tracemill_table::{Column, Unit};

use crate::kernel::rows::state_rows::StateRows;
use crate::kernel::rows::store::Rows;
use crate::kernel::value::{Cell, Value};

/// The order in which tables for people show columns with these keys: a duration stands next to its end. Scripts find columns
/// of CSV by their places, so one that came later is the last one there.
pub(crate) fn shown_order<'n>(keys: impl Iterator<Item = &'n str>) -> Vec<usize> {
    let keys: Vec<&str> = keys.collect();
    let at = |key: &str| keys.iter().position(|own| *own == key);
    let mut order: Vec<usize> = (0..keys.len()).collect();
    if let (Some(to), Some(duration)) = (at("to"), at("duration_ns"))
        && duration > to
    {
        order[to + 1..=duration].rotate_right(1);
    }
    order
}

/// The column of a key, with its turn to be left out.
pub(crate) fn known_column(key: &'static str, unit: Unit) -> Column {
    let turn = SPARED.iter().position(|spared| *spared == key);
    Column::new(key, unit).spared(turn.map(|turn| turn as u8))
}

/// Keys of columns that say least: they are left out first, in this order, where there is no room for all.
const SPARED: [&str; 15] = [
    "suspended_ns",
    "waker_comm",
    "to",
    "run_ns",
    "deviation_ns",
    "p95_ns",
    "p90_ns",
    "raise_min_ns",
    "p50_ns",
    "freed_ns",
    "exit_ns",
    "wait_fork_ns",
    "zombie_ns",
    "born_ns",
    "life",
];

/// How rows are ordered unless the user says otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// As they are.
    #[default]
    Found,
    /// By the columns from the first on.
    Keys,
    /// By this column, the largest first, then by the columns from the first on.
    Largest(&'static str),
}

/// A period that a table is about.
#[derive(Clone, PartialEq, Debug)]
pub struct PeriodOf {
    /// Name of the period.
    pub name: String,
    /// Its beginning.
    pub from: Ns,
    /// Its end.
    pub to: Ns,
    /// The thread that ended it.
    pub tid: Option<i64>,
    /// The values that both of its ends have.
    pub values: Vec<(String, Cell)>,
}

impl PeriodOf {
    /// The period of a row in a list of `periods`.
    pub fn from_row(columns: &[Column], row: &[Cell]) -> Option<PeriodOf> {
        let at = |name: &str| columns.iter().position(|column| column.name == name);
        let (name, from, to) = (at("period")?, at("from")?, at("to")?);
        // Values stand between the name and the times.
        let values = (name + 1..from).filter(|&at| *row.get(at).unwrap_or(&Cell::Null) != Cell::Null);
        let values = values.map(|at| (columns[at].name.to_string(), row[at].clone())).collect();
        let tid = match at("tid").and_then(|at| row.get(at)) {
            Some(Cell::Integer(tid)) => i64::try_from(*tid).ok(),
            _ => None,
        };
        match (row.get(name)?, row.get(from)?, row.get(to)?) {
            (Cell::Text(name), Cell::Integer(from), Cell::Integer(to)) => {
                Some(PeriodOf { name: name.to_string(), from: *from, to: *to, tid, values })
            }
            _ => None,
        }
    }
}

/// A line below a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// The line.
    pub text: String,
    /// Does it say that something is missing?
    pub is_warning: bool,
}

/// How the rows of a table, each about a pair, make a matrix.
#[derive(Clone, Copy, Debug)]
pub struct MatrixForm {
    /// Keys of the columns that name the first of a pair, of which each has a line of the matrix.
    pub lines: &'static [&'static str],
    /// Keys of the columns that name the second one, of which each has a column.
    pub across: &'static [&'static str],
    /// The title of a column, from its names: values of `across`, without those that the table does not have.
    pub title: fn(&[Value<'_>]) -> String,
    /// Key of the column that has the amounts.
    pub amount: &'static str,
    /// The word for its lines.
    pub noun: &'static str,
    /// How it is to be read, in one line.
    pub legend: &'static str,
}

/// Result of an analysis.
#[derive(Clone, Default)]
pub struct Table {
    /// Name of the analysis.
    pub analysis: &'static str,
    /// The period that it is about, when it is made for each of them.
    pub period: Option<Rc<PeriodOf>>,
    /// The range that it is about; `None` without any event.
    pub range: Option<(Ns, Ns)>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Their values, row by row.
    pub rows: Rows,
    /// In their place, when they were wanted so: those of `states`.
    pub states: Option<StateRows>,
    /// The spans of which the rows are the longest, when each of them was counted.
    pub found: Option<u64>,
    /// Order of the rows.
    pub order: Order,
    /// Values over all rows.
    pub all: Vec<(Column, Cell)>,
    /// A second table: its name, columns and rows.
    pub totals: Option<(Vec<Column>, Vec<Vec<Cell>>)>,
    /// How people see its rows as a matrix, when they are about pairs.
    pub matrix: Option<MatrixForm>,
    /// Columns that people do not see, as others say the same in words.
    pub for_programs: &'static [&'static str],
    /// The answer in sentences.
    pub sentences: Vec<String>,
    /// Things that were left out or did not fit together.
    pub notes: Vec<(&'static str, u64)>,
    /// CPUs that lost events.
    pub lost_on: Vec<u64>,
    /// CPUs whose events are not there, or not for all of the time.
    pub unseen: Vec<u64>,
    /// How often, and for how long, the machines were suspended.
    pub suspensions: Suspensions,
    /// Columns of values and a bar of their sizes.
    pub is_histogram: bool,
    /// Are percentiles exact?
    pub is_rough: bool,
}

impl Table {
    /// Index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The columns in the order in which people see them, each with its index.
    pub fn shown_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        let order = shown_order(self.columns.iter().map(|column| &*column.name));
        let is_shown = |(_, column): &(usize, &Column)| !self.for_programs.contains(&&*column.name);
        order.into_iter().map(|at| (at, &self.columns[at])).filter(is_shown)
    }

    /// The lines below it: things that are missing, or did not fit together.
    pub fn remarks(&self) -> Vec<Remark> {
        let line = |text: String| Remark { text, is_warning: false };
        let warning = |text: String| Remark { text, is_warning: true };
        let mut remarks = Vec::new();
        if self.is_rough {
            remarks.push(line("percentiles of groups with more than a million spans are within 1 %".to_string()));
        }
        for (name, count) in self.notes.iter().filter(|(_, count)| *count > 0) {
            remarks.push(match *name {
                // The line of the suspensions has their time.
                "events" | "suspended_ns" => continue,
                "losses" => {
                    let cpus = list_of_cpus(&self.lost_on);
                    warning(format!("{count} events lost on {cpus}; what they touched is unknown"))
                }
                "assumed_cpus" => line("no event says its CPU: all are taken to be of one, cpu 0".to_string()),
                "unseen_cpus" => warning(missing_events(&self.unseen)),
                "suspensions" => warning(self.suspensions.sentence()),
                name => line(counted(name, *count)),
            });
        }
        remarks
    }

    /// Sorts the rows in their order.
    pub fn sort(&mut self) {
        match self.order {
            Order::Found => {}
            Order::Keys => self.rows.sort(),
            Order::Largest(name) => {
                self.rows.sort();
                if let Some(column) = self.column(name) {
                    self.rows.sort_by_column(column, true);
                }
            }
        }
    }

    /// Sorts the rows by a column: amounts fall, names and times rise. Equal rows stay in their order.
    ///
    /// Gives false when no column has this key or title.
    pub fn sort_by(&mut self, name: &str) -> bool {
        let is_called = |column: &Column| column.names().any(|(own, _)| own == name);
        let by_title = || self.columns.iter().position(is_called);
        let Some(at) = self.column(name).or_else(by_title) else { return false };
        self.rows.sort_by_column(at, self.columns[at].unit.is_amount());
        true
    }
}

/// A count of the notes, in words.
fn counted(name: &str, count: u64) -> String {
    let is_one = count == 1;
    let words = match name {
        "inconsistent_switches" if is_one => "inconsistent switch",
        "entries_without_exit" if is_one => "entry without exit",
        "entries_without_exit" => "entries without exit",
        "untimed" if is_one => "event without a time left out",
        "untimed" => "events without a time left out",
        "time_back" if is_one => "event with a time before that of the previous one",
        "time_back" => "events with a time before that of the previous one",
        "too_deep" if is_one => "interrupt or call nested too deep",
        "too_deep" => "interrupts or calls nested too deep",
        name if is_one => return format!("1 {}", name.strip_suffix('s').unwrap_or(name).replace('_', " ")),
        name => return format!("{count} {}", name.replace('_', " ")),
    };
    format!("{count} {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_counted_in_words() {
        let notes = |count: u64| {
            let names =
                ["inconsistent_switches", "cleared_interrupts", "entries_without_exit", "untimed", "unfinished"];
            let table = Table { notes: names.map(|name| (name, count)).to_vec(), ..Table::default() };
            table.remarks().into_iter().map(|remark| remark.text).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(
            notes(1),
            "1 inconsistent switch\n1 cleared interrupt\n1 entry without exit\n1 event without a time left out\n1 unfinished"
        );
        assert_eq!(
            notes(2),
            "2 inconsistent switches\n2 cleared interrupts\n2 entries without exit\n2 events without a time left out\n2 unfinished"
        );
    }
}
