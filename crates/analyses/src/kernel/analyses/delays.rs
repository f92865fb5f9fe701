//! Delays of runs: how late they began, next to the statistics of how long they were.

use crate::kernel::aggregate::spans::SpanFigures;
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::rows::column_of::{ColumnOf, own_column};
use crate::kernel::table::Unit;
use crate::kernel::value::Value;

/// Runs whose delay is known, and their delays.
#[derive(Clone, Default)]
pub(super) struct Delays {
    count: u64,
    total: u128,
    max: Option<u64>,
}

impl Delays {
    /// The delay of one run.
    pub(super) fn of_run(delay: Option<u64>) -> Delays {
        Delays { count: delay.is_some().into(), total: delay.unwrap_or(0).into(), max: delay }
    }

    fn known(&self, value: Value<'static>) -> Value<'static> {
        if self.count > 0 { value } else { Value::Null }
    }
}

impl Sum for Delays {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
        self.max = self.max.max(other.max);
    }
}

impl Aggregate for Delays {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.count);
        packing.number(&mut self.total);
        packing.option(&mut self.max);
    }
}

impl SpanFigures for Delays {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("delays", Unit::Count, "runs whose delay is known", |of| of.count.into()),
        own_column("delay_total_ns", Unit::Duration, "sum of the delays", |of| {
            of.known(Value::Integer(of.total as i128))
        }),
        own_column("delay_mean_ns", Unit::Duration, "mean of the delays", |of| {
            of.known(Value::Real(of.total as f64 / of.count as f64))
        }),
        own_column("delay_max_ns", Unit::Duration, "longest delay", |of| of.known(Value::integer(of.max))),
    ];
}
