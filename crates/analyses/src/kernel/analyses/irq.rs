//! `irq`: how long interrupts took, and how long soft interrupts waited (`docs/kernel.md`, section 3.4).

use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{CpuIndex, Interrupt, InterruptKind, Machines, Ns, Observer};

use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{NO_KEY, duration};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, RowNouns, SPANS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of groups.
    By {
        /// The kind and the number of the interrupt, and its handler.
        Number = "number",
        /// These, and the CPU.
        Cpu = "cpu",
    }
}

impl By {
    fn from_query(query: &AnalysisQuery) -> By {
        query.key(By::from_name).unwrap_or(By::Number)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "irq",
    about: "how long interrupts took, and how long soft interrupts waited to be served",
    forms: &[AnalysisForm::plain(
        By::NAMES,
        SPANS,
        RowNouns::for_groups(&["interrupts", "rows"]).with_spans("interrupts").with_buckets("interrupts"),
    )],
    needs: &[&[Concept::IrqEntry, Concept::SoftEntry]],
    needs_for: &[],
    wants: &[
        (Concept::IrqEntry, "interrupts"),
        (Concept::SoftEntry, "soft interrupts"),
        (Concept::SoftRaise, "raises of soft interrupts"),
    ],
    over_periods: None,
    example: "irq --by cpu",
    make: |query| Box::new(Irq { by: By::from_query(query), spans: Spans::new(query), names: Names::default() }),
};

/// Names of the soft interrupts of Linux, by number.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The name of an interrupt: of a soft one by its number, of others as its entry stated it.
pub(super) fn interrupt_name(kind: InterruptKind, number: i64, stated: Option<&str>) -> Option<&str> {
    let soft_name = || usize::try_from(number).ok().and_then(|at| SOFTIRQS.get(at)).copied();
    if kind == InterruptKind::Softirq { soft_name() } else { stated }
}

struct Irq {
    by: By,
    spans: Spans<Raises>,
    names: Names,
}

/// Runs whose raise was seen, and the time from raise to entry.
#[derive(Clone, Default)]
struct Raises {
    count: u64,
    total: u128,
    min: Option<u64>,
    max: Option<u64>,
}

impl Sum for Raises {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
        self.min = self.min.into_iter().chain(other.min).min();
        self.max = self.max.max(other.max);
    }
}

impl Aggregate for Raises {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.count);
        packing.number(&mut self.total);
        packing.option(&mut self.min);
        packing.option(&mut self.max);
    }
}

impl SpanFigures for Raises {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("raises", Unit::Count, "runs whose raise was seen", |raises| raises.count.into()),
        own_column("raise_total_ns", Unit::Duration, "sum of the times from raise to entry", |raises| {
            Value::Integer(raises.total as i128)
        }),
        own_column("raise_min_ns", Unit::Duration, "shortest time from raise to entry", |raises| {
            Value::integer(raises.min)
        }),
        own_column("raise_max_ns", Unit::Duration, "longest time from raise to entry", |raises| {
            Value::integer(raises.max)
        }),
    ];
}

/// A run of an interrupt, as lists show it.
struct InterruptRow<'r> {
    interrupt: &'r Interrupt<'r>,
    name: Option<&'r str>,
    cpu: u64,
    span: SpanTimes,
}

impl<'r> InterruptRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        column("kind", Unit::Name, |run| Value::Word(run.interrupt.kind.name())),
        column("nr", Unit::Name, |run| run.interrupt.number.into()),
        own_column("name", Unit::Name, NAME, |run| Value::text(run.name)),
        column("cpu", Unit::Name, |run| run.cpu.into()),
        column("from", Unit::Time, |run| run.span.from.into()),
        column("to", Unit::Time, |run| run.span.to.into()),
        column("duration_ns", Unit::Duration, |run| run.span.duration.into()),
        own_column("raise_ns", Unit::Time, "when it was raised", |run| Value::integer(run.interrupt.raised)),
    ];
}

/// Meaning of a column.
const NAME: &str = "name of the handler";

impl Observer for Irq {
    fn interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>) {
        if interrupt.kind == InterruptKind::Trap || !self.spans.query.wants_interrupt(machines, interrupt) {
            return;
        }
        let cpu = machines.cpu(interrupt.cpu);
        let is_soft = interrupt.kind == InterruptKind::Softirq;
        let name = interrupt_name(interrupt.kind, interrupt.number, interrupt.name);
        let name_number = name.map_or(NO_KEY, |name| self.names.number(name));
        let of_cpu = match self.by {
            By::Cpu => i64::from(interrupt.cpu.0),
            By::Number => 0,
        };
        let wait = interrupt.raised.map(|raised| duration(machines, cpu.machine, raised, interrupt.from));
        let more = Raises { count: wait.is_some().into(), total: wait.unwrap_or(0).into(), min: wait, max: wait };
        let other = of_cpu << 1 | i64::from(is_soft);
        let key = GroupKey { machine: cpu.machine, number: interrupt.number, name: name_number, other };
        let span = SpanTimes::new(machines, cpu.machine, (interrupt.from, interrupt.to));
        self.spans.add(machines, &span, key, more, || {
            values_of(InterruptRow::LOG, InterruptRow { interrupt, name, cpu: cpu.number, span })
        });
    }
}

impl Analysis for Irq {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Interrupt], ReportTimes::Range)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Irq { by, spans, names } = *self;
        spans.finish("irq", range, columns_of(InterruptRow::LOG), GroupLabels { by, names, machines: machines.clone() })
    }
}

/// The last number of a key has the CPU, and whether it is a soft interrupt.
fn is_soft(key: &GroupKey) -> bool {
    key.other & 1 != 0
}

impl<'r> SpanGroup<'r, By> {
    const KIND: ColumnOf<'r, Self> = column("kind", Unit::Name, |group| {
        let kind = if is_soft(&group.key) { InterruptKind::Softirq } else { InterruptKind::Irq };
        Value::Word(kind.name())
    });
    const NR: ColumnOf<'r, Self> = column("nr", Unit::Name, |group| group.key.number.into());
    const NAME: ColumnOf<'r, Self> = own_column("name", Unit::Name, NAME, |group| Value::text(group.name()));
    const CPU: ColumnOf<'r, Self> = column("cpu", Unit::Name, |group| {
        group.labels.machines.cpu(CpuIndex((group.key.other >> 1) as u32)).number.into()
    });
    const BY_NUMBER: &'r [ColumnOf<'r, Self>] = &[Self::KIND, Self::NR, Self::NAME];
    const BY_CPU: &'r [ColumnOf<'r, Self>] = &[Self::KIND, Self::NR, Self::NAME, Self::CPU];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Cpu => SpanGroup::<By>::BY_CPU,
            By::Number => SpanGroup::<By>::BY_NUMBER,
        }
    }

    fn has_figures(&self, key: &GroupKey) -> bool {
        is_soft(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::View;
    use crate::kernel::testing::played::{played, rows};

    const STREAM: &str = "100 0 soft_raise nr=3
        110 0 irq_entry nr=5 name=eth0
        115 0 irq_entry nr=6 name=disk
        125 0 irq_exit nr=6
        130 0 irq_exit nr=5
        140 0 soft_entry nr=3
        170 0 soft_exit nr=3
        200 1 irq_entry nr=5 name=usb
        210 1 irq_exit nr=5
        220 0 -";

    #[test]
    fn outer_interrupts_include_inner_ones_and_each_handler_has_a_row() {
        let table = played(&DESCRIPTOR, &AnalysisQuery::default(), STREAM);
        let columns = ["kind", "nr", "name", "count", "total_ns", "raises", "raise_total_ns"];
        let expected =
            ["softirq 3 NET_RX 1 30 1 40", "irq 5 eth0 1 20 - -", "irq 5 usb 1 10 - -", "irq 6 disk 1 10 - -"];
        assert_eq!(rows(&table, &columns), expected);
        let cpus = AnalysisQuery { by: Some("cpu".to_string()), ..AnalysisQuery::default() };
        let found = rows(&played(&DESCRIPTOR, &cpus, STREAM), &["kind", "nr", "cpu", "total_ns"]);
        assert_eq!(found, ["softirq 3 0 30", "irq 5 0 20", "irq 5 1 10", "irq 6 0 10"]);
    }

    #[test]
    fn equal_spans_stand_in_the_order_of_their_ends() {
        let top = AnalysisQuery { view: View::Top(3), ..AnalysisQuery::default() };
        let found = rows(&played(&DESCRIPTOR, &top, STREAM), &["kind", "nr", "from", "to", "raise_ns"]);
        assert_eq!(found, ["softirq 3 140 170 100", "irq 5 110 130 -", "irq 6 115 125 -"]);
    }

    #[test]
    fn buckets_may_be_powers_of_two() {
        let query = AnalysisQuery { view: View::PowersOfTwo, ..AnalysisQuery::default() };
        let found = rows(&played(&DESCRIPTOR, &query, STREAM), &["from_ns", "to_ns", "count"]);
        assert_eq!(found, ["8 16 2", "16 32 2"]);
        let edges = "100 0 irq_entry nr=5\n100 0 irq_exit nr=5\n100 0 irq_entry nr=5\n104 0 irq_exit nr=5\n\
            110 0 irq_entry nr=5\n113 0 irq_exit nr=5";
        let found = rows(&played(&DESCRIPTOR, &query, edges), &["from_ns", "to_ns", "count"]);
        assert_eq!(found, ["0 1 1", "1 2 0", "2 4 1", "4 8 1"]);
    }

    #[test]
    fn buckets_are_equally_wide() {
        let buckets = |count| AnalysisQuery { view: View::Histogram(count), ..AnalysisQuery::default() };
        let columns = ["from_ns", "to_ns", "count"];
        let found = rows(&played(&DESCRIPTOR, &buckets(4), STREAM), &columns);
        assert_eq!(found, ["10 15 2", "15 20 0", "20 25 1", "25 30 1"]);
        let found = rows(&played(&DESCRIPTOR, &buckets(3), STREAM), &columns);
        assert_eq!(found, ["10 16 2", "16 23 1", "23 30 1"]);
        // The shortest is the longest: all are in the first bucket.
        let one = "100 0 irq_entry nr=5\n110 0 irq_exit nr=5\n120 0 irq_entry nr=5\n130 0 irq_exit nr=5";
        assert_eq!(rows(&played(&DESCRIPTOR, &buckets(2), one), &columns), ["10 10 2", "10 10 0"]);
    }
}
