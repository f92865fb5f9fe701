//! `custom`: the time that each key of the user's state machines spends in each state.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_semantics::states::{CpuIndex, Machines, Ns, Observer};

use super::counters::CustomCounters;
use super::definitions::CustomKind;
use super::follower::{CustomChange, CustomFollower, Held, SeenEvent};
use crate::durations::Durations;
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, CUSTOM_COUNTERS, CUSTOM_STATES, FormWord, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Column, Table, Unit};
use crate::kernel::value::{Cell, Value};

pub(in crate::kernel) const DESCRIPTOR: Descriptor = Descriptor {
    name: "custom",
    about: "states and counters that you define in a file: --states FILE",
    forms: &[
        AnalysisForm::plain(
            &["key", "state"],
            CUSTOM_STATES,
            RowNouns::for_groups(&["rows", "states"]).with_spans("visits").with_buckets("visits"),
        ),
        AnalysisForm {
            option: "--of counters",
            word: Some(FormWord::Counters),
            keys: &[],
            takes: CUSTOM_COUNTERS,
            nouns: RowNouns::for_groups(&["counters"]).with_spans("changes"),
        },
    ],
    needs: &[],
    needs_for: &[],
    wants: &[],
    over_periods: None,
    example: "custom --states demo/states/orders.states --by state demo/traces/orders",
    make: |query| match query.has(FormWord::Counters) {
        true => Box::new(CustomCounters::new(query)),
        false => Box::new(CustomStates::new(query)),
    },
};

/// The name of a definition, and its state.
pub(super) const NAME: (&str, &str) = ("name", "the name after `states` or `counter` in the file");
const STATE: (&str, &str) = ("state", "the state");

/// Stands for all keys.
const ALL_KEYS: i64 = -1;

struct CustomStates {
    spans: Spans<Cut>,
    follower: Option<CustomFollower>,
    /// The groups that were met: definition, state, key.
    met: BTreeSet<(i64, i64, i64)>,
    /// Storage.
    changes: Vec<CustomChange>,
}

/// Visits that the range cuts.
#[derive(Clone, Default)]
struct Cut(u64);

impl Sum for Cut {
    fn add(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Aggregate for Cut {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.0);
    }
}

impl SpanFigures for Cut {
    const COLUMNS: &'static [ColumnOf<'static, Self>] =
        &[own_column("cut", Unit::Count, "visits of which the range has only a part", |cut| cut.0.into())];
}

/// A visit in a list, behind the values of its key.
struct Visit<'r> {
    state: &'r str,
    span: SpanTimes,
    is_cut: bool,
}

impl<'r> Visit<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        own_column(STATE.0, Unit::Name, STATE.1, |row| Value::Text(row.state)),
        column("from", Unit::Time, |row| row.span.from.into()),
        column("to", Unit::Time, |row| row.span.to.into()),
        column("duration_ns", Unit::Duration, |row| row.span.duration.into()),
        own_column("cut", Unit::Name, "does the range have only a part of it?", |row| Value::Bool(row.is_cut)),
    ];
}

impl CustomStates {
    fn new(query: &AnalysisQuery) -> Self {
        let follower = query.custom.as_ref().map(|bound| CustomFollower::new(bound, Some(CustomKind::States)));
        CustomStates { spans: Spans::new(query), follower, met: BTreeSet::new(), changes: Vec::new() }
    }

    /// A key was in a state from one time to another, and maybe longer.
    fn visit(&mut self, machines: &Machines, key: u32, (from, to): (Ns, Ns), state: u32, is_open: bool) {
        let CustomStates { spans, follower: Some(follower), met, .. } = self else { return };
        let Some((first, last)) = clip(&spans.query, from, to) else { return };
        let of = &follower.keys()[key as usize];
        let is_cut = is_open || (first, last) != (from, to);
        let other = if spans.query.by.as_deref() == Some("state") { ALL_KEYS } else { key.into() };
        let group = GroupKey { machine: of.machine, number: of.definition as i64, name: state.into(), other };
        met.insert((group.number, group.name, group.other));
        let span = SpanTimes::new(machines, of.machine, (first, last));
        let cells: OnceCell<Vec<Cell>> = OnceCell::new();
        spans.add(machines, &span, group, Cut(is_cut.into()), || {
            let cells = cells.get_or_init(|| follower.cells(of).collect());
            let visit = Visit { state: follower.state(state), span, is_cut };
            let key = cells.iter().map(Value::from);
            [Value::Text(follower.name(of))].into_iter().chain(key).chain(values_of(Visit::COLUMNS, visit))
        });
    }
}

/// The part of a piece of time that is in the range of a question; an instant is one.
pub(super) fn clip(query: &AnalysisQuery, from: Ns, to: Ns) -> Option<(Ns, Ns)> {
    if from == to { query.has_instant(from).then_some((from, to)) } else { query.clip(from, to) }
}

/// The column of the names, and those of the keys.
pub(super) fn first_columns(query: &AnalysisQuery, kind: CustomKind) -> Vec<Column> {
    let name = Column { meaning: NAME.1, ..Column::new(NAME.0, Unit::Name) };
    let keys = query.custom.iter().flat_map(|bound| bound.columns(kind));
    [name].into_iter().chain(keys.map(|name| Column::new(name.to_string(), Unit::Name))).collect()
}

impl Observer for CustomStates {}

impl Analysis for CustomStates {
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
        for change in &changes {
            if let Some((from, Held::State(state))) = change.before {
                self.visit(machines, change.key, (from, at.max(from)), state, false);
            }
        }
        self.changes = changes;
    }

    fn finish(mut self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let keys = self.follower.as_ref().map_or(0, |follower| follower.keys().len() as u32);
        for key in 0..keys {
            let held = self.follower.as_ref().and_then(|follower| follower.keys()[key as usize].held());
            if let (Some((from, Held::State(state))), Some((_, end))) = (held, range)
                && from <= end
            {
                self.visit(machines, key, (from, end), state, true);
            }
        }
        let CustomStates { spans, follower, met, .. } = *self;
        let by = ByState::new(&spans.query, follower.as_ref(), met);
        let log = first_columns(&spans.query, CustomKind::States).into_iter().chain(columns_of(Visit::COLUMNS));
        let labels = GroupLabels { by, machines: machines.clone(), names: Names::default() };
        let mut table = spans.finish(DESCRIPTOR.name, range, log, labels);
        table.notes.extend(follower.iter().flat_map(|follower| follower.passed().notes()));
        table
    }
}

/// Visits by the state, and by the key unless all are one group.
struct ByState {
    columns: Vec<Column>,
    cells: BTreeMap<(i64, i64, i64), Vec<Cell>>,
}

impl ByState {
    fn new(query: &AnalysisQuery, follower: Option<&CustomFollower>, met: BTreeSet<(i64, i64, i64)>) -> ByState {
        let is_by_state = query.by.as_deref() == Some("state");
        let mut columns = first_columns(query, CustomKind::States);
        columns.truncate(if is_by_state { 1 } else { columns.len() });
        columns.push(Column { meaning: STATE.1, ..Column::new(STATE.0, Unit::Name) });
        let cells = |follower: &CustomFollower, (definition, state, key): (i64, i64, i64)| {
            let name = Cell::text(Some(follower.definition_name(definition as usize)));
            let of_key = follower.keys().get(key as usize).filter(|_| !is_by_state);
            let of_key = of_key.into_iter().flat_map(|key| follower.cells(key));
            let state = Cell::text(Some(follower.state(state as u32)));
            [name].into_iter().chain(of_key).chain([state]).collect()
        };
        let groups = follower.into_iter().flat_map(|of| met.iter().map(move |group| (*group, cells(of, *group))));
        ByState { columns, cells: groups.collect() }
    }
}

impl<'r> SpanGroup<'r, ByState> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[];
}

impl GroupBy for ByState {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, ByState>>] {
        SpanGroup::<ByState>::COLUMNS
    }

    fn asked_columns(&self) -> &[Column] {
        &self.columns
    }

    fn asked_cells(&self, key: &GroupKey) -> &[Cell] {
        self.cells.get(&(key.number, key.name, key.other)).map_or(&[], |cells| cells)
    }

    fn has_row(&self, durations: &Durations) -> bool {
        durations.moments.count > 0
    }
}
