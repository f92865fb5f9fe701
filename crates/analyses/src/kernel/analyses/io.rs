//! `io`: system calls that read and write, requests of disks, packets of the network (`docs/kernel.md`, section 3.6).

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::states::{
    Comm, CpuIndex, Happening, Machines, Map, Ns, Observer, RunEnd, SystemCall, Thread, ThreadIndex,
};
use tracemill_semantics::{Concept, Field};

use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{NO_KEY, duration, error_of};
use crate::kernel::aggregate::latest::Latest;
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analyses::files::Files;
use crate::kernel::analyses::states::MAX_REQUESTS;
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{Form, RowNouns, SPANS, SUMS};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::rows::column_of::{ColumnOf, cells_of, column, columns_of, own_column, values_of};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

/// Keys of groups that are no system calls: each has a form of its own.
const DISK: &str = "disk";
const NET: &str = "net";

tracemill_semantics::named! {
    /// Keys of groups of system calls.
    By {
        /// The effect of the system calls.
        Class = "class",
        /// The thread that called.
        Thread = "thread",
        /// Its process.
        Process = "process",
        /// The file.
        File = "file",
    }
}

impl By {
    fn of(query: &AnalysisQuery) -> By {
        query.key(By::of_name).unwrap_or(By::Class)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "io",
    about: "system calls that read and write, requests of disks, packets of the network",
    forms: &[
        Form::plain(By::NAMES, SPANS, RowNouns::of(&["classes", "rows", "rows", "rows"]).with_spans("system calls")),
        Form {
            option: "--by disk",
            word: None,
            keys: &[DISK],
            takes: SPANS,
            nouns: RowNouns::ROWS.with_spans("requests"),
        },
        Form { option: "--by net", word: None, keys: &[NET], takes: SUMS, nouns: RowNouns::of(&["interfaces"]) },
    ],
    needs: &[&[Concept::SysExit, Concept::RqIssue, Concept::RqComplete, Concept::NetIn, Concept::NetOut]],
    needs_for: &[(DISK, &[Concept::RqIssue, Concept::RqComplete]), (NET, &[Concept::NetIn, Concept::NetOut])],
    wants: &[
        (Concept::SysEntry, "what system calls did"),
        (Concept::RqComplete, "what disks did"),
        (Concept::NetIn, "what came from the network"),
    ],
    example: "io --by file --limit 5",
    make: |query| match query.by.as_deref() {
        Some(DISK) => Box::new(Disks::new(query)),
        Some(NET) => Box::new(Net { query: query.clone(), ..Net::default() }),
        _ => Box::new(Calls::new(query)),
    },
};

tracemill_semantics::named! {
    /// Effect of a system call on files.
    pub(crate) Class {
        Open = "open",
        Read = "read",
        Write = "write",
        Sync = "sync",
        Copy = "copy",
        Close = "close",
    }
}

impl Class {
    /// The class of a system call.
    pub(crate) fn of(name: &str) -> Option<Class> {
        Some(match name {
            "open" | "openat" | "openat2" | "creat" | "socket" | "accept" | "accept4" | "dup" | "dup2" | "dup3"
            | "pipe" | "pipe2" => Class::Open,
            "read" | "readv" | "pread" | "pread64" | "preadv" | "preadv2" | "recv" | "recvfrom" | "recvmsg"
            | "recvmmsg" => Class::Read,
            "write" | "writev" | "pwrite" | "pwrite64" | "pwritev" | "pwritev2" | "send" | "sendto" | "sendmsg"
            | "sendmmsg" => Class::Write,
            "sync" | "syncfs" | "fsync" | "fdatasync" | "sync_file_range" | "sync_file_range2" | "msync" => Class::Sync,
            "splice" | "tee" | "vmsplice" | "sendfile" | "sendfile64" | "copy_file_range" => Class::Copy,
            "close" => Class::Close,
            _ => return None,
        })
    }

    /// Bytes that a call of a name has moved.
    fn bytes(self, name: &str, ret: Option<i64>) -> u64 {
        match (self, name) {
            // They return a number of messages.
            (_, "recvmmsg" | "sendmmsg") => 0,
            (Class::Read | Class::Write | Class::Copy, _) => ret.and_then(|ret| u64::try_from(ret).ok()).unwrap_or(0),
            _ => 0,
        }
    }
}

/// System calls.
struct Calls {
    by: By,
    spans: Spans<Moved>,
    role: PeriodRole,
    /// Only when rows name files.
    files: Option<Rc<RefCell<KnownFiles>>>,
    names: Names,
}

/// Files of the system calls.
#[derive(Default)]
struct KnownFiles {
    files: Files,
    /// That of the call that ended last.
    of_ended: Option<Rc<str>>,
}

/// Bytes that system calls moved, and how many of them failed.
#[derive(Clone, Default)]
struct Moved {
    bytes: u128,
    errors: u64,
}

impl Sum for Moved {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.errors += other.errors;
    }
}

impl Aggregate for Moved {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.bytes);
        packing.number(&mut self.errors);
    }
}

impl SpanFigures for Moved {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("bytes", Unit::Count, "bytes that were moved", |moved| Value::Integer(moved.bytes as i128)),
        column("errors", Unit::Count, |moved| moved.errors.into()),
    ];
}

/// A system call, as lists show it.
struct CallRow<'r> {
    class: Class,
    call: &'r SystemCall<'r>,
    file: Option<&'r str>,
    thread: &'r Thread,
    cpu: u64,
    span: SpanTimes,
}

/// Meanings of columns.
const CLASS: &str = "open, read, write, sync, copy or close";
const DIRECTION: &str = "read or write";

impl<'r> CallRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("class", Unit::Name, CLASS, |row| Value::Word(row.class.name())),
        own_column("name", Unit::Name, "name of the system call", |row| Value::Text(row.call.name)),
        column("file", Unit::Name, |row| Value::text(row.file)),
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        column("cpu", Unit::Name, |row| row.cpu.into()),
        column("from", Unit::Time, |row| row.span.from.into()),
        column("to", Unit::Time, |row| row.span.to.into()),
        column("duration_ns", Unit::Duration, |row| row.span.duration.into()),
        column("ret", Unit::Name, |row| Value::integer(row.call.ret)),
    ];
}

impl Calls {
    fn new(query: &AnalysisQuery) -> Self {
        let by = By::of(query);
        let has_files = by == By::File || matches!(query.view, View::Log | View::Top(_));
        let files = has_files.then(Rc::default);
        Calls { by, spans: Spans::new(query), role: PeriodRole::Alone, files, names: Names::default() }
    }

    fn add(&mut self, machines: &Machines, call: &SystemCall<'_>) {
        let Some(class) = Class::of(call.name) else { return };
        let query = &self.spans.query;
        if !query.wants_cpu(machines, Some(call.cpu)) || !query.wants_thread(machines, Some(call.thread)) {
            return;
        }
        let thread = machines.thread(call.thread);
        let file = self.files.as_ref().and_then(|known| known.borrow().of_ended.clone());
        let (number, name) = match self.by {
            By::Thread => (thread.tid, 0),
            By::Process => (thread.pid().unwrap_or(NO_KEY), 0),
            By::File => (0, file.as_ref().map_or(NO_KEY, |file| self.names.number(file))),
            By::Class => (0, 0),
        };
        let key = GroupKey { machine: thread.machine, number, name, other: class as i64 };
        let moved =
            Moved { bytes: class.bytes(call.name, call.ret).into(), errors: error_of(call.ret).is_some().into() };
        let span = SpanTimes::new(machines, thread.machine, (call.from, call.to));
        self.spans.add(machines, &span, key, moved, || {
            let (file, cpu) = (file.as_deref(), machines.cpu(call.cpu).number);
            values_of(CallRow::LOG, CallRow { class, call, file, thread, cpu, span })
        });
    }
}

impl Observer for Calls {
    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, of: &Happening<'_>, at: Ns) {
        self.files.iter().for_each(|known| known.borrow_mut().files.call_began(machines, thread, name, of, at));
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, happening: &Happening<'_>) {
        if self.role.is_tracking()
            && let Some(known) = &self.files
        {
            let KnownFiles { files, of_ended } = &mut *known.borrow_mut();
            *of_ended = files.of_call(call.thread).cloned();
            files.call_ended(machines, call, happening);
        }
        if self.role.has_table() {
            self.add(machines, call);
        }
    }

    fn created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        self.files.iter().for_each(|known| known.borrow_mut().files.created(machines, thread, at));
    }

    fn forked(&mut self, machines: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        self.files.iter().for_each(|known| known.borrow_mut().files.forked(machines, parent, child, at));
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        self.files.iter().for_each(|known| known.borrow_mut().files.run_ended(machines, thread, how, at));
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, of: &Happening<'_>, at: Ns) {
        self.files.iter().for_each(|known| known.borrow_mut().files.applied(machines, machine, cpu, of, at));
    }
}

impl Analysis for Calls {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CallBegan, CallEnded, Created, Forked, RunEnded};
        match self.files {
            Some(_) if self.role.is_tracking() => {
                (&[Created, Forked, RunEnded, CallBegan, CallEnded, Applied], ReportTimes::All)
            }
            _ => (&[CallEnded], ReportTimes::Range),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        let files = Some(self.files.clone()?);
        self.role = PeriodRole::Tracker;
        Some(Box::new(Calls {
            by: self.by,
            spans: Spans::new(period),
            role: PeriodRole::View,
            files,
            names: Names::default(),
        }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Calls { by, spans, files, names, .. } = *self;
        let labels = GroupLabels { by, names, machines: machines.clone() };
        let mut table = spans.finish("io", range, columns_of(CallRow::LOG), labels);
        let left_out = files.map_or(0, |known| known.borrow().files.left_out());
        table.notes.extend((left_out > 0).then_some(("files_left_out", left_out)));
        table
    }
}

impl<'r> SpanGroup<'r, By> {
    const CLASS: ColumnOf<'r, Self> = own_column("class", Unit::Name, CLASS, |group| {
        Class::ALL.get(group.key.other as usize).map_or(Value::Null, |class| Value::Word(class.name()))
    });
    const FILE: ColumnOf<'r, Self> = column("file", Unit::Name, |group| Value::text(group.name()));
    const BY_CLASS: &'r [ColumnOf<'r, Self>] = &[Self::CLASS];
    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[Self::TID, Self::COMM, Self::CLASS];
    const BY_PROCESS: &'r [ColumnOf<'r, Self>] = &[Self::PID, Self::CLASS];
    const BY_FILE: &'r [ColumnOf<'r, Self>] = &[Self::FILE, Self::CLASS];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Class => SpanGroup::<By>::BY_CLASS,
            By::Thread => SpanGroup::<By>::BY_THREAD,
            By::Process => SpanGroup::<By>::BY_PROCESS,
            By::File => SpanGroup::<By>::BY_FILE,
        }
    }

    fn is_by_number(&self) -> bool {
        matches!(self, By::Thread | By::Process)
    }
}

/// Requests of disks.
struct Disks {
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
        column("dev", Unit::Name, |row| row.done.dev.into()),
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
    fn new(query: &AnalysisQuery) -> Self {
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
        let integer = |field| happening.values.integer(field);
        let (Some(dev), Some(sector), Some(sectors)) =
            (happening.number(Field::Dev), integer(Field::Sector), integer(Field::NrSector))
        else {
            return;
        };
        if sectors <= 0 {
            return;
        }
        let issue = (happening.concept == Concept::RqIssue)
            .then(|| Self::issue(&self.spans.query, machines, machine, cpu, happening, at));
        let new = || Disk { inserted: Latest::new(MAX_REQUESTS), issued: Latest::new(MAX_REQUESTS) };
        let OpenRequests { disks, dropped, done, .. } = &mut *self.open.borrow_mut();
        let disk = disks.entry((machine, dev)).or_insert_with(new);
        match (happening.concept, issue) {
            (Concept::RqInsert, _) => *dropped += u64::from(disk.inserted.put(sector, at).is_some()),
            (_, Some(mut issue)) => {
                issue.queue = disk.inserted.take(&sector).map(|inserted| duration(machines, machine, inserted, at));
                *dropped += u64::from(disk.issued.put((sector, sectors), issue).is_some());
            }
            _ => *done = Some(Done { dev, sector, sectors, issue: disk.issued.take(&(sector, sectors)) }),
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
        column("dev", Unit::Name, |group| group.key.number.into()),
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

/// Packets of network devices. They are no spans: all views are counts.
#[derive(Default)]
struct Net {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};

    #[test]
    fn system_calls_have_classes() {
        for (name, class) in [
            ("openat", Some(Class::Open)),
            ("pipe2", Some(Class::Open)),
            ("recvmmsg", Some(Class::Read)),
            ("pwrite64", Some(Class::Write)),
            ("sync_file_range2", Some(Class::Sync)),
            ("sendfile64", Some(Class::Copy)),
            ("close", Some(Class::Close)),
            ("connect", None),
            ("reading", None),
        ] {
            assert_eq!(Class::of(name), class, "{name}");
        }
        for (at, class) in Class::ALL.iter().copied().enumerate() {
            assert_eq!(
                (class as usize, Class::of(class.name())),
                (at, if class == Class::Copy { None } else { Some(class) })
            );
        }
    }

    #[test]
    fn results_are_bytes_where_calls_move_some() {
        assert_eq!(Class::Read.bytes("read", Some(100)), 100);
        assert_eq!(Class::Copy.bytes("splice", Some(7)), 7);
        assert_eq!((Class::Write.bytes("write", Some(-28)), Class::Write.bytes("write", None)), (0, 0));
        assert_eq!((Class::Read.bytes("recvmmsg", Some(3)), Class::Write.bytes("sendmmsg", Some(3))), (0, 0));
        assert_eq!((Class::Open.bytes("open", Some(3)), Class::Sync.bytes("msync", Some(3))), (0, 0));
    }

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
