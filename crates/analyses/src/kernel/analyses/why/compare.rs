//! `why --per` over all periods: the mean path of the slowest beside that of the fastest, and what makes the difference.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::Ns;

use super::cause::{Cause, NamedThread, UnitOf, list};
use super::{FOR_PROGRAMS, OBJECT, SOURCE, STATE, WHY_TEXT};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::rows::column_of::{ColumnOf, columns_of, own_column, share, values_of};
use crate::kernel::table::{Column, Order, Table, Unit};
use crate::kernel::value::{Cell, Value};

/// Of all periods, one of so many is slow.
const SLOW_ONE_IN: usize = 100;

/// The tables of periods as they are wanted: all of them, the longest ones, or one that compares them.
pub(super) fn over_periods(query: &AnalysisQuery, mut tables: Vec<Table>) -> Vec<Table> {
    match query.view {
        View::Top(most) => {
            let mut lengths: Vec<(Ns, usize)> = tables.iter().map(length).zip(0..).collect();
            lengths.sort_by_key(|(length, at)| (std::cmp::Reverse(*length), *at));
            let mut taken: Vec<usize> = lengths.into_iter().take(most).map(|(_, at)| at).collect();
            taken.sort_unstable();
            let taken = taken.into_iter().map(|at| std::mem::take(&mut tables[at]));
            taken.collect()
        }
        View::Statistics => vec![compared(query, &tables)],
        _ => tables,
    }
}

/// The table of no periods.
pub(super) fn empty(query: &AnalysisQuery, range: Option<(Ns, Ns)>) -> Table {
    let columns = query.columns(columns_of(DifferenceRow::COLUMNS));
    Table { analysis: "why", range, columns, order: Order::Found, for_programs: FOR_PROGRAMS, ..Table::default() }
}

/// The length of the period of a table.
fn length(table: &Table) -> Ns {
    table.period.as_ref().map_or(0, |period| period.to - period.from)
}

/// Times of a cause in the fastest and in the slowest periods.
#[derive(Default)]
struct CauseSums {
    fast: Ns,
    slow: Ns,
    /// The part of the cause that is common to all, of slow periods where there are any.
    common: Option<(bool, Cause)>,
}

impl CauseSums {
    fn add(&mut self, cause: Cause, time: Ns, is_slow: bool) {
        let CauseSums { fast, slow, common } = self;
        *(if is_slow { slow } else { fast }) += time;
        match common {
            Some((of_slow, known)) if *of_slow == is_slow => known.keep_common(&cause),
            Some((true, _)) => {}
            _ => *common = Some((is_slow, cause)),
        }
    }
}

impl Cause {
    /// Forgets what another cause has not.
    pub(super) fn keep_common(&mut self, other: &Cause) {
        fn keep<T: PartialEq>(own: &mut Option<T>, other: &Option<T>) {
            if *own != *other {
                *own = None;
            }
        }
        keep(&mut self.thread.tid, &other.thread.tid);
        keep(&mut self.thread.comm, &other.thread.comm);
        keep(&mut self.object, &other.object);
        keep(&mut self.cpu, &other.cpu);
        keep(&mut self.through, &other.through);
        if let (Some(own), Some(other)) = (&mut self.by, &other.by) {
            keep(&mut own.tid, &other.tid);
        }
    }

    /// The part of a cause that tells periods apart: threads by their names, as each period may have others.
    pub(super) fn kind(&self) -> Cause {
        let no_number =
            |named: &NamedThread| NamedThread { tid: named.tid.filter(|tid| *tid == 0), comm: named.comm.clone() };
        Cause {
            // Own time is one cause, whichever thread ended a period.
            thread: if self.is_own { NamedThread::default() } else { no_number(&self.thread) },
            by: self.by.as_ref().map(no_number),
            object: None,
            cpu: None,
            through: None,
            ..self.clone()
        }
    }

    /// The cause of a row of the totals of a period.
    fn from_cells(columns: &[Column], cells: &[Cell]) -> Option<(Cause, Ns)> {
        let at = |name: &str| Some(&cells[columns.iter().position(|column| column.name == name)?]);
        let text = |name: &str| match at(name) {
            Some(Cell::Text(text)) => Some(Rc::from(&**text)),
            _ => None,
        };
        let number = |name: &str| match at(name) {
            Some(Cell::Integer(number)) => i64::try_from(*number).ok(),
            _ => None,
        };
        let state = match at("state")? {
            Cell::Text(std::borrow::Cow::Borrowed(word)) => *word,
            _ => return None,
        };
        let by = NamedThread { tid: number("by"), comm: text("by_comm").filter(|_| number("by") != Some(0)) };
        let total = match at("total_ns")? {
            Cell::Integer(total) => *total,
            _ => return None,
        };
        let cause = Cause {
            machine: 0,
            thread: NamedThread { tid: number("tid"), comm: text("comm") },
            is_own: at("own") == Some(&Cell::Bool(true)),
            state,
            call: text("call"),
            object: text("object"),
            source: text("source"),
            cpu: number("cpu").and_then(|cpu| u64::try_from(cpu).ok()),
            by: (by != NamedThread::default()).then_some(by),
            through: text("through"),
        };
        Some((cause, total))
    }
}

/// Has the thread of a period a path? Of a period whose thread is unknown there is none.
fn has_path(table: &&Table) -> bool {
    table.totals.as_ref().is_some_and(|(_, rows)| !rows.is_empty())
}

/// The mean of a sum; 0 of none.
fn mean(sum: Ns, count: usize) -> f64 {
    if count > 0 { sum as f64 / count as f64 } else { 0.0 }
}

/// The mean length of some periods.
fn mean_length(tables: &[&Table]) -> f64 {
    mean(tables.iter().map(|table| length(table)).sum(), tables.len())
}

/// The times of each cause in some periods, and in those that are slower.
fn causes_of(fast: &[&Table], slow: &[&Table]) -> BTreeMap<Cause, CauseSums> {
    let mut sums: BTreeMap<Cause, CauseSums> = BTreeMap::new();
    for (tables, is_slow) in [(slow, true), (fast, false)] {
        for (columns, rows) in tables.iter().filter_map(|table| table.totals.as_ref()) {
            for (cause, time) in rows.iter().filter_map(|row| Cause::from_cells(columns, row)) {
                sums.entry(cause.kind()).or_default().add(cause, time, is_slow);
            }
        }
    }
    sums
}

/// The mean paths of the periods of two sides, such as two traces.
#[derive(Clone, PartialEq, Debug)]
pub struct PathComparison {
    /// Name of the periods.
    pub name: String,
    /// Periods whose path is known, by side.
    pub periods: [usize; 2],
    /// Periods of which no event says which thread ended them.
    pub unknown: [usize; 2],
    /// Their mean length in ns; `None` without any.
    pub mean_ns: [Option<f64>; 2],
    /// The causes of their time, those that differ most first.
    pub causes: Vec<PathCause>,
    /// The difference in a sentence; `None` where one side has no periods.
    pub sentence: Option<String>,
}

/// A kind of wait, or what was done instead: its mean time in a period of each side.
#[derive(Clone, PartialEq, Debug)]
pub struct PathCause {
    /// In words, as `analyze why` has them.
    pub why: String,
    /// The state, as `analyze path` has it.
    pub state: &'static str,
    /// Is it a time of the thread that ended the periods?
    pub is_own: bool,
    /// Ns of a period, by side.
    pub mean_ns: [f64; 2],
}

impl PathCause {
    /// By how much the second side is longer.
    pub fn change(&self) -> f64 {
        self.mean_ns[1] - self.mean_ns[0]
    }
}

impl PathComparison {
    /// Compares the tables that `why` has for the periods of two sides.
    pub fn new(name: &str, sides: [&[Table]; 2]) -> PathComparison {
        let known = sides.map(|tables| tables.iter().filter(has_path).collect::<Vec<&Table>>());
        let [a, b] = [&known[0], &known[1]].map(|tables| &tables[..]);
        let counts = [a.len(), b.len()];
        let mean_ns = [a, b].map(|tables| (!tables.is_empty()).then(|| mean_length(tables)));
        let cause = |sums: CauseSums| {
            let cause = sums.common?.1;
            let mean_ns = [mean(sums.fast, counts[0]), mean(sums.slow, counts[1])];
            Some(PathCause { why: cause.words(), state: cause.state, is_own: cause.is_own, mean_ns })
        };
        let mut causes: Vec<PathCause> = causes_of(a, b).into_values().filter_map(cause).collect();
        // Equal changes come in the order of their time.
        let size = |cause: &PathCause| (cause.change().abs(), cause.mean_ns[0].max(cause.mean_ns[1]));
        causes.sort_by(|one, other| {
            let (one, other) = (size(one), size(other));
            other.0.total_cmp(&one.0).then(other.1.total_cmp(&one.1))
        });
        let sentence = mean_ns[0].zip(mean_ns[1]).map(|(of_a, of_b)| {
            let unit = UnitOf::new(of_a.max(of_b) as Ns);
            let whole = |mean: f64| unit.whole(mean);
            let difference = (of_b - of_a).abs();
            if difference < 1.0 {
                return format!("`{name}` took {} in A and in B", whole(of_a));
            }
            let word = if of_b < of_a { "less" } else { "more" };
            let way = (of_b - of_a).signum();
            let parts = causes.iter().map(|cause| (cause.change() * way, cause.why.clone()));
            let parts = list(&unit, difference, parts.filter(|(change, _)| *change > 0.0));
            let (of_a, of_b) = (whole(of_a), whole(of_b));
            format!("`{name}` took {of_a} in A and {of_b} in B, {} {word}: {parts}", whole(difference))
        });
        let unknown = [sides[0].len() - counts[0], sides[1].len() - counts[1]];
        PathComparison { name: name.to_string(), periods: counts, unknown, mean_ns, causes, sentence }
    }
}

/// The slowest one of a hundred periods, at least one, beside the faster half of all.
fn compared(query: &AnalysisQuery, tables: &[Table]) -> Table {
    let range = tables.iter().filter_map(|table| table.range);
    let range = range.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let mut table = empty(query, range);
    let mut order: Vec<&Table> = tables.iter().filter(has_path).collect();
    order.sort_by_key(|table| length(table));
    let count = order.len();
    let slow_count = count.div_ceil(SLOW_ONE_IN);
    let fast_count = (count / 2).min(count - slow_count);
    let (fast, slow) = (&order[..fast_count], &order[count - slow_count..]);
    let [fast_mean, slow_mean] = [fast, slow].map(mean_length);
    let mut rows: Vec<Difference> = causes_of(fast, slow)
        .into_values()
        .filter_map(|sums| {
            let cause = sums.common?.1;
            let (fast, slow) = (mean(sums.fast, fast_count), mean(sums.slow, slow_count));
            Some(Difference { words: cause.words(), cause, fast: (fast_count > 0).then_some(fast), slow })
        })
        .collect();
    rows.sort_by(|one, other| other.change().abs().total_cmp(&one.change().abs()));
    let difference = slow_mean - fast_mean;
    for row in &rows {
        let values: Vec<Value<'_>> = values_of(DifferenceRow::COLUMNS, DifferenceRow { row, difference }).collect();
        let values = query.row_values(row.cause.machine, values.into_iter()).map(Cell::from).collect::<Vec<_>>();
        if query.accepts_row(&values) {
            table.rows.push(&values);
        }
    }
    let name = tables.first().and_then(|table| table.period.as_ref()).map_or("", |period| &period.name);
    if count > 0 {
        let unit = UnitOf::new(slow_mean as Ns);
        let slowest = match slow_count {
            1 => format!("the slowest of {count} periods `{name}` took {}", unit.whole(slow_mean)),
            _ => format!("the slowest {slow_count} of {count} periods `{name}` took {} each", unit.whole(slow_mean)),
        };
        let larger = rows.iter().filter(|row| row.change() > 0.0).map(|row| (row.change(), row.words.clone()));
        table.sentences.push(match fast_count {
            0 => format!("{slowest}; there is no other one to compare it with"),
            _ => format!(
                "{slowest}, {} more than the mean of the fastest {fast_count} ({}): {}",
                unit.number(difference),
                unit.whole(fast_mean),
                list(&unit, difference, larger)
            ),
        });
    }
    table.notes = [
        ("periods", count),
        ("fastest_periods", fast_count),
        ("slowest_periods", slow_count),
        ("periods_of_unknown_threads", tables.len() - count),
    ]
    .map(|(name, count)| (name, count as u64))
    .into();
    if let Some(first) = tables.first() {
        table.notes.splice(0..0, first.notes.iter().copied());
        (table.lost_on, table.unseen) = (first.lost_on.clone(), first.unseen.clone());
        table.suspensions = first.suspensions;
    }
    table
}

/// Mean times of a cause.
struct Difference {
    cause: Cause,
    words: String,
    /// `None` where there are no fast periods.
    fast: Option<f64>,
    slow: f64,
}

impl Difference {
    fn change(&self) -> f64 {
        self.slow - self.fast.unwrap_or(0.0)
    }
}

struct DifferenceRow<'r> {
    row: &'r Difference,
    difference: f64,
}

/// A mean, in whole ns.
fn ns(mean: f64) -> Value<'static> {
    Value::Integer(mean.round() as i128)
}

impl<'r> DifferenceRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        own_column("slow_mean_ns", Unit::Duration, "mean time of the slowest hundredth of the periods", |of| {
            ns(of.row.slow)
        }),
        own_column("fast_mean_ns", Unit::Duration, "mean time of the fastest half of the periods", |of| {
            of.row.fast.map_or(Value::Null, ns)
        }),
        own_column("difference_ns", Unit::Duration, "by how much the first is longer", |of| {
            of.row.fast.map_or(Value::Null, |_| ns(of.row.change()))
        }),
        own_column("part", Unit::Share, "part of the difference of the periods", |of| match of.row.fast {
            Some(_) => share(of.row.change().round() as Ns, of.difference.round() as Ns),
            None => Value::Null,
        }),
        own_column("comm", Unit::Name, "name of the thread on which the period depends", |of| {
            Value::text(of.row.cause.thread.comm.as_deref())
        }),
        own_column("state", Unit::Name, STATE, |of| Value::Word(of.row.cause.state)),
        own_column("why", Unit::Name, WHY_TEXT, |of| Value::Text(&of.row.words)),
        own_column("call", Unit::Name, super::CALL, |of| Value::text(of.row.cause.call.as_deref())),
        own_column("object", Unit::Name, OBJECT, |of| Value::text(of.row.cause.object.as_deref())),
        own_column("source", Unit::Name, SOURCE, |of| Value::text(of.row.cause.source.as_deref())),
        own_column("cpu", Unit::Name, super::CPU, |of| Value::integer(of.row.cause.cpu)),
        own_column("by_comm", Unit::Name, "name of the thread that had that CPU", |of| {
            Value::text(of.row.cause.by_comm())
        }),
        own_column("through", Unit::Name, super::THROUGH, |of| Value::text(of.row.cause.through.as_deref())),
    ];
}
