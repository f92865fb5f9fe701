//! Requests of disks, for `io` and for the states of disks (`docs/kernel.md`, section 3.6).

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::states::{Comm, CpuIndex, Happening, Machines, Map, Ns, Observer};
use tracemill_semantics::{Concept, Field};

use super::DIRECTION;
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::duration;
use crate::kernel::aggregate::latest::Latest;
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analysis::{Analysis, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

/// A request of a disk, as its events identify it.
pub(crate) struct DiskRequest {
    /// Number of the disk.
    pub(crate) dev: i64,
    /// First sector.
    pub(crate) sector: i128,
    /// Number of sectors, more than 0.
    pub(crate) sectors: i128,
}

impl DiskRequest {
    /// The request that an event is about; `None` where a part is unknown, and for those without sectors, such as flushes.
    pub(crate) fn from_event(happening: &Happening<'_>) -> Option<DiskRequest> {
        let integer = |field| happening.values.integer(field);
        let (dev, sector) = (happening.number(Field::Dev)?, integer(Field::Sector)?);
        let sectors = integer(Field::NrSector).filter(|sectors| *sectors > 0)?;
        Some(DiskRequest { dev, sector, sectors })
    }
}

/// Requests of a disk that are kept at most.
pub(crate) const MAX_REQUESTS: usize = 65_536;

/// Requests of disks.
pub(super) struct Disks {
    spans: Spans<Requests>,
    role: PeriodRole,
    open: Rc<RefCell<OpenRequests>>,
}

/// Requests of all disks that are not completed.
#[derive(Default)]
struct OpenRequests {
    disks: Map<(u32, i64), Disk>,
    names: Map<(u32, i64), Box<str>>,
    dropped: u64,
    /// The one that was completed last.
    done: Option<Done>,
}

/// A request that was completed, and what is known of it.
#[derive(Clone)]
struct Done {
    dev: i64,
    sector: i128,
    sectors: i128,
    issue: Option<Issue>,
}

/// Requests of a disk that are not completed.
struct Disk {
    /// When requests were inserted, by their first sector: drivers may lengthen them until they are issued.
    inserted: Latest<i128, Ns>,
    /// By first sector and number of sectors.
    issued: Latest<(i128, i128), Issue>,
}

/// A request that a driver has.
#[derive(Clone)]
struct Issue {
    at: Ns,
    /// How long it waited, when that is known.
    queue: Option<u64>,
    is_write: bool,
    /// The thread that issued it, by its number and, for lists, its name.
    tid: Option<i64>,
    comm: Option<Comm>,
    is_wanted: bool,
}

/// Work of a disk.
#[derive(Clone, Default)]
struct Requests {
    completed: u64,
    bytes: i128,
    queue_total: u128,
    queue_max: Option<u64>,
}

impl Sum for Requests {
    fn add(&mut self, other: Self) {
        self.completed += other.completed;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.queue_total += other.queue_total;
        self.queue_max = self.queue_max.max(other.queue_max);
    }
}

impl Aggregate for Requests {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.completed);
        packing.number(&mut self.bytes);
        packing.number(&mut self.queue_total);
        packing.option(&mut self.queue_max);
    }
}

impl SpanFigures for Requests {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("completed", Unit::Count, "requests that were completed", |of| of.completed.into()),
        own_column("bytes", Unit::Count, "bytes that were moved", |of| of.bytes.into()),
        own_column("queue_total_ns", Unit::Duration, "sum of the times between insert and issue", |of| {
            Value::Integer(of.queue_total as i128)
        }),
        own_column("queue_max_ns", Unit::Duration, "longest time between insert and issue", |of| {
            Value::integer(of.queue_max)
        }),
    ];
}

/// A request, as lists show it.
struct RequestRow<'r> {
    disk: Option<&'r str>,
    done: &'r Done,
    issue: &'r Issue,
    span: SpanTimes,
}

impl<'r> RequestRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        column("disk", Unit::Name, |row| Value::text(row.disk)),
        column("dev", Unit::Device, |row| row.done.dev.into()),
        own_column("sector", Unit::Name, "its first sector", |row| row.done.sector.into()),
        own_column("sectors", Unit::Count, "its sectors, of 512 bytes", |row| row.done.sectors.into()),
        own_column("op", Unit::Name, DIRECTION, |row| Value::Word(op(row.issue.is_write))),
        column("from", Unit::Time, |row| row.span.from.into()),
        column("to", Unit::Time, |row| row.span.to.into()),
        column("duration_ns", Unit::Duration, |row| row.span.duration.into()),
        own_column("queue_ns", Unit::Duration, "time between insert and issue", |row| Value::integer(row.issue.queue)),
        column("tid", Unit::Name, |row| Value::integer(row.issue.tid)),
        column("comm", Unit::Name, |row| Value::text(row.issue.comm.as_deref())),
    ];
}

/// Bytes of a sector.
const SECTOR_BYTES: i128 = 512;

impl Disks {
    pub(super) fn new(query: &AnalysisQuery) -> Self {
        Disks { spans: Spans::new(query), role: PeriodRole::Alone, open: Rc::default() }
    }

    fn issue(
        query: &AnalysisQuery,
        machines: &Machines,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_>,
        at: Ns,
    ) -> Issue {
        let running = cpu.and_then(|cpu| machines.cpu(cpu).current().thread());
        let stated = happening.number(Field::Tid);
        let thread = stated.map_or(running, |tid| machines.find_thread(machine, tid));
        let comm = || {
            let stated = happening.text(Field::Comm).filter(|comm| !comm.is_empty()).map(|comm| Comm::from(&*comm));
            stated.or_else(|| machines.thread(thread?).comm.clone())
        };
        Issue {
            at,
            queue: None,
            is_write: is_write(happening).unwrap_or(false),
            tid: stated.or_else(|| running.map(|thread| machines.thread(thread).tid)),
            comm: if matches!(query.view, View::Log | View::Top(_)) { comm() } else { None },
            is_wanted: query.wants_cpu(machines, cpu) && query.wants_thread(machines, thread),
        }
    }

    fn request(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        let Some(DiskRequest { dev, sector, sectors }) = DiskRequest::from_event(happening) else { return };
        let issue = (happening.concept == Concept::RqIssue)
            .then(|| Self::issue(&self.spans.query, machines, machine, cpu, happening, at));
        let new = || Disk { inserted: Latest::new(MAX_REQUESTS), issued: Latest::new(MAX_REQUESTS) };
        let OpenRequests { disks, dropped, done, .. } = &mut *self.open.borrow_mut();
        let disk = disks.entry((machine, dev)).or_insert_with(new);
        match (happening.concept, issue) {
            (Concept::RqInsert, _) => *dropped += u64::from(disk.inserted.insert(sector, at).is_some()),
            (_, Some(mut issue)) => {
                issue.queue = disk.inserted.remove(&sector).map(|inserted| duration(machines, machine, inserted, at));
                *dropped += u64::from(disk.issued.insert((sector, sectors), issue).is_some());
            }
            _ => *done = Some(Done { dev, sector, sectors, issue: disk.issued.remove(&(sector, sectors)) }),
        }
    }

    fn complete(
        &mut self,
        machines: &Machines,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_>,
        at: Ns,
    ) {
        let open = self.open.clone();
        let open = open.borrow();
        let Some(done) = &open.done else { return };
        let Done { dev, sectors, issue, .. } = done;
        let query = &self.spans.query;
        let is_wanted = match issue {
            Some(issue) => issue.is_wanted,
            // The thread that issued the request is unknown.
            None => query.wants_thread(machines, None) && query.wants_cpu(machines, cpu),
        };
        if !is_wanted {
            return;
        }
        let key = |is_write: bool| GroupKey { machine, number: *dev, name: 0, other: i64::from(is_write) };
        let issued_write = issue.as_ref().map(|issue| issue.is_write);
        if query.view == View::Statistics && query.has_instant(at) {
            let is_write = is_write(happening).or(issued_write).unwrap_or(false);
            let done = Requests { completed: 1, bytes: sectors.saturating_mul(SECTOR_BYTES), ..Requests::default() };
            self.spans.group(machines.begin(), at, key(is_write)).1.add(done);
        }
        let Some(issue) = issue else { return };
        let queued =
            Requests { queue_total: issue.queue.unwrap_or(0).into(), queue_max: issue.queue, ..Requests::default() };
        let span = SpanTimes::new(machines, machine, (issue.at, at));
        self.spans.add(machines, &span, key(issue.is_write), queued, || {
            let disk = open.names.get(&(machine, *dev)).map(|name| &**name);
            values_of(RequestRow::LOG, RequestRow { disk, done, issue, span })
        });
    }
}

/// Does a request write? LTTng states flags, ftrace letters.
fn is_write(happening: &Happening<'_>) -> Option<bool> {
    let flags = happening.values.integer(Field::Rwbs).map(|flags| flags & 1 != 0);
    flags.or_else(|| happening.text(Field::Rwbs).map(|letters| letters.contains('W')))
}

fn op(is_write: bool) -> &'static str {
    if is_write { "write" } else { "read" }
}

impl Observer for Disks {
    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        match happening.concept {
            Concept::DumpDisk => {
                if let (Some(dev), Some(name)) = (happening.number(Field::Dev), happening.text(Field::Name))
                    && self.role.is_tracking()
                {
                    self.open.borrow_mut().names.insert((machine, dev), name.into());
                }
            }
            Concept::RqInsert | Concept::RqIssue | Concept::RqComplete => {
                if self.role.is_tracking() {
                    self.open.borrow_mut().done = None;
                    self.request(machines, machine, cpu, happening, at);
                }
                if self.role.has_table() && happening.concept == Concept::RqComplete {
                    self.complete(machines, machine, cpu, happening, at);
                }
            }
            _ => {}
        }
    }
}

impl Analysis for Disks {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Applied], if self.role.is_tracking() { ReportTimes::All } else { ReportTimes::Range })
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        Some(Box::new(Disks { spans: Spans::new(period), role: PeriodRole::View, open: self.open.clone() }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Disks { spans, open, .. } = *self;
        let (names, dropped) = (open.borrow().names.clone(), open.borrow().dropped);
        let labels = GroupLabels { by: DiskNames(names), names: Names::default(), machines: machines.clone() };
        let mut table = spans.finish("io", range, columns_of(RequestRow::LOG), labels);
        table.notes.extend((dropped > 0).then_some(("dropped_requests", dropped)));
        table
    }
}

/// Names of disks, by machine and number.
struct DiskNames(Map<(u32, i64), Box<str>>);

impl<'r> SpanGroup<'r, DiskNames> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("dev", Unit::Device, |group| group.key.number.into()),
        column("disk", Unit::Name, |group| {
            Value::text(group.labels.by.0.get(&(group.key.machine, group.key.number)).map(|name| &**name))
        }),
        own_column("op", Unit::Name, DIRECTION, |group| Value::Word(op(group.key.other != 0))),
    ];
}

impl GroupBy for DiskNames {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, DiskNames>>] {
        SpanGroup::<DiskNames>::COLUMNS
    }
}

#[cfg(test)]
mod tests {
    use crate::kernel::analyses::io::DESCRIPTOR;
    use crate::kernel::question::query::AnalysisQuery;
    use crate::kernel::testing::played::{played, rows};

    #[test]
    fn requests_without_sectors_are_left_out() {
        let stream = "100 0 rq_insert dev=8 sector=1 nr_sector=8 rwbs=1
            110 0 rq_issue dev=8 sector=1 nr_sector=8 rwbs=1
            150 0 rq_complete dev=8 sector=1 nr_sector=8 rwbs=1
            160 0 rq_issue dev=8 sector=9 nr_sector=0 rwbs=1
            170 0 rq_complete dev=8 sector=9 nr_sector=0 rwbs=1
            180 0 rq_complete dev=8 sector=99 nr_sector=2 rwbs=1
            190 0 -";
        let disks = AnalysisQuery { by: Some("disk".to_string()), ..AnalysisQuery::default() };
        let columns = ["dev", "op", "count", "total_ns", "completed", "bytes", "queue_total_ns", "queue_max_ns"];
        assert_eq!(rows(&played(&DESCRIPTOR, &disks, stream), &columns), ["8 write 1 40 2 5120 10 10"]);
    }
}
