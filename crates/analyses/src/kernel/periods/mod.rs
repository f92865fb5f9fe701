//! `periods`: spans between events that the user names (`docs/kernel.md`, section 3.10).
//!
//! A condition sees the event, and the state of its CPU *after* the event, as `stats` counts events: `state.tid` of a switch is
//! the thread that begins to run. Of an event, ends are taken before beginnings, so that one event can end a period and begin
//! the next; inner periods end before outer ones, and begin after them. A begin whose matched values are not all known opens
//! nothing, and an end without them closes nothing: what is unknown equals nothing.

mod bound;
mod definitions;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_engine::filter::{KeyValue, Matcher};
use tracemill_semantics::states::{CpuIndex, CpuStatus, Machines, Ns, Observer, RunEnd, ThreadIndex};

pub use bound::BoundPeriods;
pub use definitions::{Definition, Definitions};

use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::event_paths::{StateOf, cell_of};
use crate::kernel::question::forms::{AnalysisForm, PERIODS, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Column, Table, Unit};
use crate::kernel::value::{Cell, Value};
use definitions::{Bound, Periods};

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    name: "periods",
    about: "spans between events that you name: --period, --period-begin, --period-end",
    forms: &[AnalysisForm::plain(
        &["period", "match"],
        PERIODS,
        RowNouns::for_groups(&["periods", "periods"]).with_spans("periods").with_buckets("periods"),
    )],
    needs: &[],
    needs_for: &[],
    wants: &[],
    over_periods: None,
    example: "periods --log --period order --period-begin 'name == \"net_if_receive_skb\"' --period-end 'name == \"net_dev_xmit\"'",
    make: |query| Box::new(Found::new(query)),
};

/// Periods that are open at the same time, at most.
const MAX_OPEN: usize = 1 << 20;

/// The key that tells apart the open periods.
type OpenKey = (usize, u32, Rc<[KeyValue]>);

/// A definition and the matched values of its periods.
type OpenValues = (usize, Rc<[KeyValue]>);

struct Found {
    spans: Spans<Incomplete>,
    periods: Option<Rc<BoundPeriods>>,
    /// For each definition, the conditions of its begin and of its end.
    matchers: Vec<[Matcher; 2]>,
    /// Open periods by their number, which counts up.
    open: BTreeMap<u64, OpenPeriod>,
    by_key: BTreeMap<OpenKey, u64>,
    /// Open periods that may be the parent of periods of a definition, by the values that both have.
    parents: BTreeMap<OpenKey, BTreeSet<u64>>,
    next: u64,
    /// Groups of `--by match`.
    groups: BTreeMap<OpenValues, i64>,
    without_match: u64,
    unfinished: u64,
    too_many: u64,
    /// The thread that the event makes its CPU leave.
    left: Option<ThreadIndex>,
}

/// The end of a period, and the thread whose event it is.
#[derive(Clone, Copy)]
struct Ending {
    at: Ns,
    tid: Option<i64>,
}

struct OpenPeriod {
    key: OpenKey,
    from: Ns,
    parent: Option<u64>,
    parent_definition: Option<usize>,
    children: BTreeSet<u64>,
    is_wanted: bool,
}

/// Periods that their parents ended.
#[derive(Clone, Default)]
struct Incomplete(u64);

impl Sum for Incomplete {
    fn add(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Aggregate for Incomplete {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.0);
    }
}

impl SpanFigures for Incomplete {
    const COLUMNS: &'static [ColumnOf<'static, Self>] =
        &[own_column("incomplete", Unit::Count, "periods that their parents ended", |incomplete| incomplete.0.into())];
}

/// A period, as lists show it: its name, the values that were matched, and what follows these.
struct PeriodRow<'r> {
    name: &'r str,
    parent: Option<&'r str>,
    is_completed: bool,
    /// The thread that ended it.
    tid: Option<i64>,
    span: SpanTimes,
}

/// Meaning of a column.
const PERIOD: &str = "name of the period";

impl<'r> PeriodRow<'r> {
    const FIRST: &'r [ColumnOf<'r, Self>] = &[own_column("period", Unit::Name, PERIOD, |row| Value::Text(row.name))];
    const LAST: &'r [ColumnOf<'r, Self>] = &[
        column("from", Unit::Time, |row| row.span.from.into()),
        column("to", Unit::Time, |row| row.span.to.into()),
        column("duration_ns", Unit::Duration, |row| row.span.duration.into()),
        own_column("completed", Unit::Name, "did its own end end it, not that of its parent?", |row| {
            Value::Bool(row.is_completed)
        }),
        own_column("parent", Unit::Name, "name of the parent", |row| Value::text(row.parent)),
        own_column("tid", Unit::Name, "thread that ended it", |row| Value::integer(row.tid)),
    ];
}

impl Found {
    fn new(query: &AnalysisQuery) -> Self {
        let matchers = |of: &Bound| [of.begin.matcher(), of.end.matcher()];
        let definitions = query.periods.iter().flat_map(|bound| &bound.periods.definitions);
        Found {
            matchers: definitions.map(matchers).collect(),
            spans: Spans::new(query),
            periods: query.periods.clone(),
            open: BTreeMap::new(),
            by_key: BTreeMap::new(),
            parents: BTreeMap::new(),
            next: 0,
            groups: BTreeMap::new(),
            without_match: 0,
            unfinished: 0,
            too_many: 0,
            left: None,
        }
    }

    fn begin(&mut self, periods: &Periods, key: OpenKey, is_wanted: bool, at: Ns) {
        if self.by_key.contains_key(&key) {
            return;
        }
        if self.open.len() == MAX_OPEN {
            self.too_many += 1;
            return;
        }
        let number = self.next;
        self.next += 1;
        let (definition, machine, values) = &key;
        let of = &periods.definitions[*definition];
        let link = of.parent.and_then(|parent| {
            periods.definitions[parent].children.iter().find(|child| child.definition == *definition)
        });
        let parent = link.and_then(|link| {
            let shared = link.of_child.iter().map(|at| values[*at].clone()).collect();
            self.parents.get(&(*definition, *machine, shared))?.last().copied()
        });
        if let Some(parent) = parent.and_then(|parent| self.open.get_mut(&parent)) {
            parent.children.insert(number);
        }
        for child in parent_keys(periods, &key) {
            self.parents.entry(child).or_default().insert(number);
        }
        let parent_definition = parent.and(of.parent);
        let open =
            OpenPeriod { from: at, parent, parent_definition, children: BTreeSet::new(), is_wanted, key: key.clone() };
        self.open.insert(number, open);
        self.by_key.insert(key, number);
    }

    /// Ends a period, and those in it first.
    fn end(&mut self, machines: &Machines, periods: &Periods, number: u64, is_completed: bool, by: Ending) {
        let Some(open) = self.open.remove(&number) else { return };
        for child in &open.children {
            self.end(machines, periods, *child, false, by);
        }
        self.by_key.remove(&open.key);
        for key in parent_keys(periods, &open.key) {
            if let Some(numbers) = self.parents.get_mut(&key) {
                numbers.remove(&number);
                if numbers.is_empty() {
                    self.parents.remove(&key);
                }
            }
        }
        if let Some(parent) = open.parent.and_then(|parent| self.open.get_mut(&parent)) {
            parent.children.remove(&number);
        }
        if open.is_wanted {
            self.add(machines, periods, &open, is_completed, by);
        }
    }

    fn add(
        &mut self,
        machines: &Machines,
        periods: &Periods,
        open: &OpenPeriod,
        is_completed: bool,
        Ending { at: to, tid }: Ending,
    ) {
        let (definition, machine, values) = &open.key;
        let query = &self.spans.query;
        // The range ends before the period does.
        if query.end.is_some_and(|end| open.from <= end && to > end) {
            self.unfinished += 1;
        }
        let group = match query.by.as_deref() {
            Some("match") => {
                let next = self.groups.len() as i64;
                *self.groups.entry((*definition, values.clone())).or_insert(next)
            }
            _ => 0,
        };
        let key = GroupKey { machine: *machine, number: *definition as i64, name: 0, other: group };
        let incomplete = Incomplete(u64::from(!is_completed));
        let span = SpanTimes::new(machines, *machine, (open.from, to));
        let name = |definition: usize| &*periods.definitions[definition].name;
        let cells = OnceCell::new();
        self.spans.add(machines, &span, key, incomplete, || {
            let parent = open.parent_definition.map(name);
            let row = || PeriodRow { name: name(*definition), parent, is_completed, tid, span };
            let cells = cells.get_or_init(|| value_cells(periods, *definition, values)).iter().map(Value::from);
            values_of(PeriodRow::FIRST, row()).chain(cells).chain(values_of(PeriodRow::LAST, row()))
        });
    }
}

/// Keys under which a period is found as a parent.
fn parent_keys(periods: &Periods, (definition, machine, values): &OpenKey) -> Vec<OpenKey> {
    let children = periods.definitions[*definition].children.iter();
    let key = |child: &definitions::Child| {
        let shared = child.of_parent.iter().map(|at| values[*at].clone()).collect();
        (child.definition, *machine, shared)
    };
    children.map(key).collect()
}

/// The cells of the columns of matched values.
fn value_cells(periods: &Periods, definition: usize, values: &[KeyValue]) -> Vec<Cell> {
    let mut cells = vec![Cell::Null; periods.columns.len()];
    for (column, value) in periods.definitions[definition].columns.iter().zip(values) {
        cells[*column] = cell_of(value);
    }
    cells
}

impl Observer for Found {
    fn run_ended(&mut self, _: &Machines, thread: ThreadIndex, _: RunEnd, _: Ns) {
        self.left = Some(thread);
    }
}

impl Analysis for Found {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::RunEnded, ReportKind::Event], ReportTimes::All)
    }

    fn on_event<'e>(
        &mut self,
        machines: &Machines,
        machine: u32,
        cpu: Option<CpuIndex>,
        event: &dyn Fn() -> Event<'e>,
        at: Ns,
    ) {
        let Some(bound) = self.periods.clone() else { return };
        let event = &event();
        let periods = &bound.periods;
        let state = StateOf { machines, cpu };
        // Of a switch, the thread that was left. What an interrupt does is not done by the thread that it interrupts.
        let running = |cpu: CpuIndex| {
            let of = machines.cpu(cpu);
            let is_interrupt = matches!(of.status(), CpuStatus::Irq | CpuStatus::Softirq);
            of.current().thread().filter(|_| !is_interrupt)
        };
        let thread = self.left.take().or_else(|| cpu.and_then(running));
        let tid = thread.map(|thread| machines.thread(thread).tid);
        for &definition in periods.outer_first.iter().rev() {
            if self.matchers[definition][1].matches_with(event, &state) {
                match bound.values(definition, 1, event, &state) {
                    Some(values) => {
                        if let Some(number) = self.by_key.get(&(definition, machine, values)).copied() {
                            self.end(machines, periods, number, true, Ending { at, tid });
                        }
                    }
                    None => self.without_match += 1,
                }
            }
        }
        for &definition in &periods.outer_first {
            if self.matchers[definition][0].matches_with(event, &state) {
                match bound.values(definition, 0, event, &state) {
                    Some(values) => {
                        let query = &self.spans.query;
                        let thread = cpu.and_then(|cpu| machines.cpu(cpu).current().thread());
                        let is_wanted = query.wants_cpu(machines, cpu) && query.wants_thread(machines, thread);
                        self.begin(periods, (definition, machine, values), is_wanted, at);
                    }
                    None => self.without_match += 1,
                }
            }
        }
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Found { spans, periods, open, groups, without_match, unfinished, too_many, .. } = *self;
        let query = spans.query.clone();
        let names = periods.iter().flat_map(|bound| &bound.periods.columns);
        let own: Vec<Column> = names.map(|name| Column::new(name.to_string(), Unit::Name)).collect();
        let log = columns_of(PeriodRow::FIRST).chain(own.clone()).chain(columns_of(PeriodRow::LAST));
        let is_by_match = query.by.as_deref() == Some("match");
        let values_of = |(definition, values): OpenValues| {
            periods.as_ref().map_or(Vec::new(), |bound| value_cells(&bound.periods, definition, &values))
        };
        let groups = if is_by_match { groups } else { BTreeMap::new() };
        let by = ByDefinition {
            values: groups.into_iter().map(|(of, group)| (group, values_of(of))).collect(),
            columns: if is_by_match { own } else { Vec::new() },
            periods: periods.clone(),
        };
        let labels = GroupLabels { by, machines: machines.clone(), names: Names::default() };
        let mut table = spans.finish("periods", range, log, labels);
        let is_open = |open: &&OpenPeriod| open.is_wanted && query.end.is_none_or(|end| open.from <= end);
        table.notes.push(("unfinished", unfinished + open.values().filter(is_open).count() as u64));
        let more = [("without_match", without_match), ("too_many_open", too_many)];
        table.notes.extend(more.into_iter().filter(|(_, count)| *count > 0));
        table
    }
}

/// Periods by their definitions and, with `--by match`, their matched values.
struct ByDefinition {
    periods: Option<Rc<BoundPeriods>>,
    /// Columns of the matched values, and those of each group.
    columns: Vec<Column>,
    values: BTreeMap<i64, Vec<Cell>>,
}

impl<'r> SpanGroup<'r, ByDefinition> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[own_column("period", Unit::Name, PERIOD, |group| {
        let bound = group.labels.by.periods.as_ref();
        let definition = bound.and_then(|bound| bound.periods.definitions.get(group.key.number as usize));
        Value::text(definition.map(|definition| &*definition.name))
    })];
}

impl GroupBy for ByDefinition {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, ByDefinition>>] {
        SpanGroup::<ByDefinition>::COLUMNS
    }

    fn asked_columns(&self) -> &[Column] {
        &self.columns
    }

    fn asked_cells(&self, key: &GroupKey) -> &[Cell] {
        self.values.get(&key.other).map_or(&[], |cells| cells)
    }
}
