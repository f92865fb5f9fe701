//! `io`: system calls that read and write, requests of disks, packets of the network (`docs/kernel.md`, section 3.6).

pub(crate) mod disks;
mod net;

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Ns, Observer, RunEnd, SystemCall, Thread, ThreadIndex,
};

use self::disks::Disks;
use self::net::Net;
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{NO_KEY, error_of};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analyses::files::Files;
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, RowNouns, SPANS, SUMS};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Table, Unit};
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
    fn from_query(query: &AnalysisQuery) -> By {
        query.key(By::from_name).unwrap_or(By::Class)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "io",
    about: "system calls that read and write, requests of disks, packets of the network",
    forms: &[
        AnalysisForm::plain(
            By::NAMES,
            SPANS,
            RowNouns::for_groups(&["classes", "rows", "rows", "rows"]).with_spans("system calls"),
        ),
        AnalysisForm {
            option: "--by disk",
            word: None,
            keys: &[DISK],
            takes: SPANS,
            nouns: RowNouns::ROWS.with_spans("requests"),
        },
        AnalysisForm {
            option: "--by net",
            word: None,
            keys: &[NET],
            takes: SUMS,
            nouns: RowNouns::for_groups(&["interfaces"]),
        },
    ],
    needs: &[&[Concept::SysExit, Concept::RqIssue, Concept::RqComplete, Concept::NetIn, Concept::NetOut]],
    needs_for: &[(DISK, &[Concept::RqIssue, Concept::RqComplete]), (NET, &[Concept::NetIn, Concept::NetOut])],
    wants: &[
        (Concept::SysEntry, "what system calls did"),
        (Concept::RqComplete, "what disks did"),
        (Concept::NetIn, "what came from the network"),
    ],
    over_periods: None,
    example: "io --by file --limit 5",
    make: |query| match query.by.as_deref() {
        Some(DISK) => Box::new(Disks::new(query)),
        Some(NET) => Box::new(Net::new(query)),
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
    pub(crate) fn from_call(name: &str) -> Option<Class> {
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
    pub(crate) fn bytes(self, name: &str, ret: Option<i64>) -> u64 {
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
        let by = By::from_query(query);
        let has_files = by == By::File || matches!(query.view, View::Log | View::Top(_));
        let files = has_files.then(Rc::default);
        Calls { by, spans: Spans::new(query), role: PeriodRole::Alone, files, names: Names::default() }
    }

    fn add(&mut self, machines: &Machines, call: &SystemCall<'_>) {
        let Some(class) = Class::from_call(call.name) else { return };
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
            *of_ended = files.file_of_call(call.thread).cloned();
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(Class::from_call(name), class, "{name}");
        }
        for (at, class) in Class::ALL.iter().copied().enumerate() {
            assert_eq!(
                (class as usize, Class::from_call(class.name())),
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
}
