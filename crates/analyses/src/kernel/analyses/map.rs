//! `map`: what all CPUs run, at each switch (`docs/kernel.md`, section 3.18).

use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{Comm, CpuIndex, Current, Machines, Map, Ns, Observer, ThreadIndex};

use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, CPU_ROWS, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::rows::store::Rows;
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "map",
    about: "what all CPUs run, side by side, at each switch",
    forms: &[AnalysisForm::plain(&[], CPU_ROWS, RowNouns::for_groups(&["switches"]))],
    needs: &[&[Concept::Switch]],
    needs_for: &[],
    wants: &[],
    over_periods: None,
    example: "map --begin +271.3ms --limit 12",
    make: |query| Box::new(CpuMap { query: query.clone(), ..CpuMap::default() }),
};

/// The threads of CPUs over time. Rows are written at the end, when all CPUs and threads are known, so that their columns are as wide.
#[derive(Default)]
struct CpuMap {
    query: AnalysisQuery,
    switches: Vec<Switch>,
    /// Threads that CPUs turned to, in the order of the switches at which it was noticed.
    changes: Vec<Change>,
    /// The thread of each CPU at the last switch, by its index.
    running: Vec<Current>,
}

/// A switch that has a row.
struct Switch {
    at: Ns,
    cpu: CpuIndex,
    next: Option<ThreadIndex>,
    /// The name that the thread has then.
    comm: Option<Comm>,
    /// The number of changes up to it.
    changes: usize,
}

struct Change {
    cpu: CpuIndex,
    to: Current,
}

impl Observer for CpuMap {
    fn switched(&mut self, machines: &Machines, cpu: CpuIndex, next: Option<ThreadIndex>, at: Ns) {
        let CpuMap { query, switches, changes, running } = self;
        if !query.has_instant(at) || !query.wants_cpu(machines, Some(cpu)) || !query.wants_thread(machines, next) {
            return;
        }
        // Other CPUs may be lost, or turn to threads that are not wanted, without a row.
        let known = changes.len();
        running.resize(machines.cpus().len(), Current::Unknown);
        for ((at, of), last) in machines.cpus().iter().enumerate().zip(running) {
            if *last != of.current() {
                *last = of.current();
                changes.push(Change { cpu: CpuIndex(at as u32), to: *last });
            }
        }
        // Threads are named in the order of their CPUs.
        changes[known..].sort_by_key(|change| machines.cpu(change.cpu).number);
        let comm = next.and_then(|thread| machines.thread(thread).comm.clone());
        switches.push(Switch { at, cpu, next, comm, changes: changes.len() });
    }
}

/// Short names of threads, in the order in which they are met: A0 to Z0, A1 to Z1, and so on.
#[derive(Default)]
struct ShortNames(Map<ThreadIndex, usize>);

impl ShortNames {
    fn number(&mut self, thread: ThreadIndex) -> usize {
        let next = self.0.len();
        *self.0.entry(thread).or_insert(next)
    }

    fn name(&mut self, thread: ThreadIndex) -> String {
        short_name(self.number(thread))
    }
}

fn short_name(number: usize) -> String {
    format!("{}{}", char::from(b'A' + (number % 26) as u8), number / 26)
}

/// A row of the map.
struct MapRow<'r> {
    switch: &'r Switch,
    cpu: u64,
    cells: &'r str,
    short: Option<&'r str>,
    tid: i64,
}

/// Meanings of columns.
const AT: &str = "when a CPU turned to another thread";
const CELLS: &str =
    "what each CPU runs, by number: short name of a thread, . idle, - unknown; * at the CPU that switched";

impl<'r> MapRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        own_column("at_ns", Unit::Time, AT, |row| row.switch.at.into()),
        own_column("cpus", Unit::Name, CELLS, |row| Value::Text(row.cells)),
        column("cpu", Unit::Name, |row| row.cpu.into()),
        own_column("short", Unit::Name, "short name of the thread that it turned to", |row| Value::text(row.short)),
        column("tid", Unit::Name, |row| row.tid.into()),
        column("comm", Unit::Name, |row| Value::text(row.switch.comm.as_deref())),
    ];
}

impl Analysis for CpuMap {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Switched], ReportTimes::Range)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let CpuMap { query, switches, changes, .. } = *self;
        // The wanted CPUs of each machine, by their numbers.
        let mut shown: Vec<CpuIndex> = (0..machines.cpus().len() as u32).map(CpuIndex).collect();
        shown.retain(|cpu| query.wants_cpu(machines, Some(*cpu)));
        shown.sort_by_key(|cpu| (machines.cpu(*cpu).machine, machines.cpu(*cpu).number));
        let mut names = ShortNames::default();
        for change in changes.iter().filter(|change| query.wants_cpu(machines, Some(change.cpu))) {
            if let Some(thread) = change.to.thread() {
                names.number(thread);
            }
        }
        let width = short_name(names.0.len().saturating_sub(1)).len();
        let mut running = vec![Current::Unknown; machines.cpus().len()];
        let (mut rows, mut done, mut cells) = (Rows::default(), 0, String::new());
        for switch in &switches {
            for change in &changes[done..switch.changes] {
                running[change.cpu.0 as usize] = change.to;
            }
            done = switch.changes;
            let machine = machines.cpu(switch.cpu).machine;
            cells.clear();
            for cpu in shown.iter().filter(|cpu| machines.cpu(**cpu).machine == machine) {
                let name = match running[cpu.0 as usize] {
                    Current::Unknown => "-".to_string(),
                    Current::Idle => ".".to_string(),
                    Current::Thread(thread) => names.name(thread),
                };
                cells.push(if *cpu == switch.cpu { '*' } else { ' ' });
                cells.push_str(&format!("{name:width$} "));
            }
            let short = switch.next.map(|thread| names.name(thread));
            let row = MapRow {
                switch,
                cpu: machines.cpu(switch.cpu).number,
                cells: cells.trim_end(),
                short: short.as_deref(),
                tid: switch.next.map_or(0, |thread| machines.thread(thread).tid),
            };
            query.emit_row(machine, values_of(MapRow::COLUMNS, row), &mut rows);
        }
        let columns = query.columns(columns_of(MapRow::COLUMNS));
        Table { analysis: "map", range, columns, rows, ..Table::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Numbers;
    use crate::kernel::testing::played::{played, rows};

    #[test]
    fn threads_have_the_names_of_the_time() {
        let stream = "100 0 switch prev=0 next=5 next_comm=sh
            110 0 exec tid=5 name=/bin/ls
            120 0 switch prev=5 next=0 state=1
            130 0 switch prev=0 next=5";
        let table = played(&DESCRIPTOR, &AnalysisQuery::default(), stream);
        assert_eq!(rows(&table, &["at_ns", "short", "comm"]), ["100 A0 sh", "120 - -", "130 A0 ls"]);
    }

    const STREAM: &str = "100 1 -
        110 0 switch prev=0 next=5
        120 1 switch prev=0 next=6
        130 0 switch prev=5 next=7 state=1
        135 1 loss
        140 0 switch prev=7 next=0 state=1
        150 2 switch prev=0 next=5";

    #[test]
    fn a_row_shows_all_cpus_at_a_switch() {
        let found =
            |query: &AnalysisQuery| rows(&played(&DESCRIPTOR, query, STREAM), &["at_ns", "cpus", "short", "tid"]);
        let expected = [
            "110 *A0  -   - A0 5",
            "120  A0 *B0  - B0 6",
            "130 *C0  B0  - C0 7",
            // Events of CPU 1 were lost.
            "140 *.   -   - - 0",
            "150  .   -  *A0 A0 5",
        ];
        assert_eq!(found(&AnalysisQuery::default()), expected);
        // The threads of CPUs before a range are known; names begin anew.
        let late = AnalysisQuery { begin: Some(125), end: Some(135), ..AnalysisQuery::default() };
        assert_eq!(found(&late), ["130 *A0  B0  - A0 7"]);
        let of_cpu = AnalysisQuery { cpus: Numbers::parse("1"), ..AnalysisQuery::default() };
        assert_eq!(found(&of_cpu), ["120 *A0 A0 6"]);
        let of_thread = AnalysisQuery { tids: Numbers::parse("7"), ..AnalysisQuery::default() };
        assert_eq!(found(&of_thread), ["130 *A0  B0  - A0 7"]);
    }

    #[test]
    fn names_go_on_after_the_alphabet() {
        assert_eq!([0, 25, 26, 259, 260].map(short_name), ["A0", "Z0", "A1", "Z9", "A10"]);
    }
}
