//! Packets of the network, for `io` (`docs/kernel.md`, section 3.6).

use std::rc::Rc;

use tracemill_semantics::states::{CpuIndex, Happening, Machines, Map, Ns, Observer};
use tracemill_semantics::{Concept, Field};

use crate::kernel::aggregate::groups::Names;
use crate::kernel::aggregate::keys::NO_KEY;
use crate::kernel::aggregate::sum::Sum;
use crate::kernel::analysis::{Analysis, ReportKind, ReportTimes};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, cells_of, own_column};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

/// Packets of network devices. They are no spans: all views are counts.
#[derive(Default)]
pub(super) struct Net {
    query: AnalysisQuery,
    names: Names,
    /// By step, machine and name.
    devices: Map<(i64, (u32, i64)), Packets>,
}

/// Packets and bytes that came in and went out.
#[derive(Clone, Copy, Default)]
struct Packets {
    packets_in: i128,
    bytes_in: i128,
    packets_out: i128,
    bytes_out: i128,
}

impl Sum for Packets {
    fn add(&mut self, other: Packets) {
        self.packets_in = self.packets_in.saturating_add(other.packets_in);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.packets_out = self.packets_out.saturating_add(other.packets_out);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
    }
}

/// A row of an interface.
#[derive(Default)]
struct NetRow<'r> {
    net: Option<&'r str>,
    packets: Packets,
}

impl<'r> NetRow<'r> {
    const NET: ColumnOf<'r, Self> = own_column("net", Unit::Name, "name of the interface", |row| Value::text(row.net));
    const PACKETS_IN: ColumnOf<'r, Self> =
        own_column("packets_in", Unit::Count, "packets that came in", |row| row.packets.packets_in.into());
    const BYTES_IN: ColumnOf<'r, Self> =
        own_column("bytes_in", Unit::Count, "bytes that came in", |row| row.packets.bytes_in.into());
    const PACKETS_OUT: ColumnOf<'r, Self> =
        own_column("packets_out", Unit::Count, "packets that went out", |row| row.packets.packets_out.into());
    const BYTES_OUT: ColumnOf<'r, Self> =
        own_column("bytes_out", Unit::Count, "bytes that went out", |row| row.packets.bytes_out.into());
    const PACKETS: &'r [ColumnOf<'r, Self>] = &[Self::PACKETS_IN, Self::BYTES_IN, Self::PACKETS_OUT, Self::BYTES_OUT];
    const COLUMNS: &'r [ColumnOf<'r, Self>] =
        &[Self::NET, Self::PACKETS_IN, Self::BYTES_IN, Self::PACKETS_OUT, Self::BYTES_OUT];
}

impl Net {
    pub(super) fn new(query: &AnalysisQuery) -> Self {
        Net { query: query.clone(), ..Net::default() }
    }
}

impl Observer for Net {
    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        let is_in = match happening.concept {
            Concept::NetIn => true,
            Concept::NetOut => false,
            _ => return,
        };
        let running = cpu.and_then(|cpu| machines.cpu(cpu).current().thread());
        let Net { query, names, devices } = self;
        if !query.has_instant(at) || !query.wants_cpu(machines, cpu) || !query.wants_thread(machines, running) {
            return;
        }
        let name = happening.text(Field::Dev).map_or(NO_KEY, |name| names.number(&name));
        let bytes = happening.values.integer(Field::Len).unwrap_or(0).max(0);
        let packets = match is_in {
            true => Packets { packets_in: 1, bytes_in: bytes, ..Packets::default() },
            false => Packets { packets_out: 1, bytes_out: bytes, ..Packets::default() },
        };
        devices.entry((query.step_of(machines.begin(), at), (machine, name))).or_default().add(packets);
    }
}

impl Analysis for Net {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Applied], ReportTimes::Range)
    }

    fn finish(self: Box<Self>, _: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Net { query, names, devices } = *self;
        let mut all = NetRow::default();
        let row = |((step, (machine, name)), packets): ((i64, (u32, i64)), Packets)| {
            all.packets.add(packets);
            (step, machine, NetRow { net: names.name(name), packets })
        };
        let found = query.by_last_step(range, devices).into_iter().map(row);
        let (columns, rows) = query.step_rows(range, NetRow::COLUMNS, found);
        let all = cells_of(NetRow::PACKETS, &all);
        Table { analysis: "io", range, columns, rows, all, order: Order::Keys, ..Table::default() }
    }
}
