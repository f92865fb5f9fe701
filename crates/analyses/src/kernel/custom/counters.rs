//! `custom --of counters`: the values of the user's counters.

use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_semantics::states::{CpuIndex, Machines, Ns, Observer};

use super::definitions::CustomKind;
use super::follower::{CustomChange, CustomFollower, Held, SeenEvent};
use super::states::{DESCRIPTOR, clip, first_columns};
use crate::kernel::analysis::{Analysis, ReportKind, ReportTimes};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::rows::column_of::{ColumnOf, columns_of, own_column, values_of};
use crate::kernel::rows::store::Rows;
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::{Cell, Value};

pub(super) struct CustomCounters {
    query: AnalysisQuery,
    follower: Option<CustomFollower>,
    /// By key.
    sums: Vec<CounterValues>,
    rows: Rows,
    /// Storage.
    changes: Vec<CustomChange>,
}

/// The values of a counter in the range.
#[derive(Clone, Copy, Default)]
struct CounterValues {
    changes: u64,
    /// The least and the greatest one.
    bounds: Option<(f64, f64)>,
    last: f64,
    /// Sum of the values times the ns for which it had them, and of these.
    area: f64,
    known_ns: Ns,
}

impl CounterValues {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("changes", Unit::Count, "events that changed it, or set it once more", |of| of.changes.into()),
        own_column("min", Unit::Count, "least value", |of| number(of.bounds.map(|bounds| bounds.0))),
        own_column("max", Unit::Count, "greatest value", |of| number(of.bounds.map(|bounds| bounds.1))),
        own_column("mean", Unit::Count, "mean of its values over the time for which it had one", |of| {
            number((of.known_ns > 0).then(|| of.area / of.known_ns as f64))
        }),
        own_column("last", Unit::Count, "its last value", |of| number(of.bounds.map(|_| of.last))),
    ];

    /// The counter had a value from one time to another.
    fn add(&mut self, value: f64, (from, to): (Ns, Ns)) {
        let (least, greatest) = self.bounds.unwrap_or((value, value));
        self.bounds = Some((least.min(value), greatest.max(value)));
        self.last = value;
        self.area += value * (to - from) as f64;
        self.known_ns += to - from;
    }
}

/// A value that most often is an integer.
fn number(value: Option<f64>) -> Value<'static> {
    // Beyond 2^53 not every integer is a value.
    const EXACT: f64 = (1u64 << 53) as f64;
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() <= EXACT => Value::Integer(value as i128),
        value => value.map_or(Value::Null, Value::Real),
    }
}

/// A change in a list, behind the values of its key.
struct ChangeRow {
    at: Ns,
    value: Option<f64>,
}

impl ChangeRow {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("time", Unit::Time, "time of the change", |row| row.at.into()),
        own_column("value", Unit::Count, "value from then on; empty where it has none any more", |row| {
            number(row.value)
        }),
    ];
}

impl CustomCounters {
    pub(super) fn new(query: &AnalysisQuery) -> Self {
        CustomCounters {
            follower: query.custom.as_ref().map(|bound| CustomFollower::new(bound, Some(CustomKind::Counter))),
            query: query.clone(),
            sums: Vec::new(),
            rows: Rows::default(),
            changes: Vec::new(),
        }
    }

    fn add_change(&mut self, change: &CustomChange, at: Ns) {
        let CustomCounters { query, follower: Some(follower), sums, rows, .. } = self else { return };
        let key = &follower.keys()[change.key as usize];
        sums.resize(sums.len().max(follower.keys().len()), CounterValues::default());
        let values = &mut sums[change.key as usize];
        if let Some((from, Held::Number(value))) = change.before
            && let Some(part) = clip(query, from, at.max(from))
        {
            values.add(value, part);
        }
        if query.has_instant(at) {
            values.changes += 1;
            if query.view == View::Log {
                let value = match change.now {
                    Some(Held::Number(value)) => Some(value),
                    _ => None,
                };
                let cells: Vec<Cell> = follower.cells(key).collect();
                let row = values_of(ChangeRow::COLUMNS, ChangeRow { at, value });
                let row = [Value::Text(follower.name(key))].into_iter().chain(cells.iter().map(Value::from)).chain(row);
                query.emit_row(key.machine, row, rows);
            }
        }
    }
}

impl Observer for CustomCounters {}

impl Analysis for CustomCounters {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Event], ReportTimes::All)
    }

    fn on_event<'e>(
        &mut self,
        machines: &Machines,
        machine: u32,
        cpu: Option<CpuIndex>,
        event: &dyn Fn() -> Event<'e>,
        at: Ns,
    ) {
        let Some(follower) = &mut self.follower else { return };
        let mut changes = std::mem::take(&mut self.changes);
        follower.apply(&SeenEvent { machines, machine, cpu, at }, event, &mut changes);
        changes.iter().for_each(|change| self.add_change(change, at));
        self.changes = changes;
    }

    fn finish(self: Box<Self>, _: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let CustomCounters { query, follower, mut sums, mut rows, .. } = *self;
        let first = first_columns(&query, CustomKind::Counter);
        let notes = follower.iter().flat_map(|follower| follower.passed().notes()).collect();
        let mut table = Table { analysis: DESCRIPTOR.name, range, notes, ..Table::default() };
        if query.view == View::Log {
            table.columns = query.columns(first.into_iter().chain(columns_of(ChangeRow::COLUMNS)));
            table.rows = rows;
            return table;
        }
        for (key, values) in follower.iter().flat_map(|follower| follower.keys()).zip(&mut sums) {
            if let (Some((from, Held::Number(value))), Some((_, end))) = (key.held(), range)
                && from <= end
                && let Some(part) = clip(&query, from, end)
            {
                values.add(value, part);
            }
            let Some(follower) = follower.as_ref().filter(|_| values.bounds.is_some()) else { continue };
            let cells: Vec<Cell> = follower.cells(key).collect();
            let row = [Value::Text(follower.name(key))].into_iter().chain(cells.iter().map(Value::from));
            let row = row.chain(values_of(CounterValues::COLUMNS, *values));
            let row: Vec<Value<'_>> = query.row_values(key.machine, row).collect();
            if query.keeps_values(&row) {
                rows.push_values(row.into_iter());
            }
        }
        table.columns = query.columns(first.into_iter().chain(columns_of(CounterValues::COLUMNS)));
        table.rows = rows;
        table.order = Order::Keys;
        table
    }
}
