//! `syscalls`: how long system calls took, and how they failed (`docs/kernel.md`, section 3.5).

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::OnceLock;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{Happening, Machines, Ns, Observer, SystemCall, Thread, returns};

use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{MAX_ERRNO, NO_KEY, error_of};
use crate::kernel::aggregate::spans::{CountsColumn, SpanFigures, SpanTimes, Spans};
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
        /// The system call.
        Name = "name",
        /// The thread that called, and the system call.
        Thread = "thread",
        /// Its process, and the system call.
        Process = "process",
        /// The error, and the system call.
        Errno = "errno",
    }
}

impl By {
    fn from_query(query: &AnalysisQuery) -> By {
        query.key(By::from_name).unwrap_or(By::Name)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "syscalls",
    about: "how long system calls took, and how they failed",
    forms: &[AnalysisForm::plain(
        By::NAMES,
        SPANS,
        RowNouns::for_groups(&["system calls", "rows", "rows", "rows"]).with_spans("system calls"),
    )],
    needs: &[&[Concept::SysEntry], &[Concept::SysExit], &[Concept::Switch, Concept::Running]],
    needs_for: &[],
    wants: &[],
    over_periods: None,
    example: "syscalls --by thread --comm 'oven-*' --where 'max_us > 1000'",
    make: |query| Box::new(Calls { by: By::from_query(query), spans: Spans::new(query), names: Names::default() }),
};

struct Calls {
    by: By,
    spans: Spans<Errors>,
    names: Names,
}

/// Calls that failed, by the number of the error.
#[derive(Clone, Default)]
struct Errors {
    /// The error of one call.
    one: Option<i64>,
    /// Counts of all calls that were added.
    counts: BTreeMap<i64, u64>,
}

impl Errors {
    /// The errors of one call.
    fn from_return(ret: Option<i64>) -> Errors {
        Errors { one: error_of(ret), counts: BTreeMap::new() }
    }
}

impl Sum for Errors {
    #[inline]
    fn add(&mut self, other: Self) {
        if let Some(number) = other.one {
            *self.counts.entry(number).or_default() += 1;
        }
        for (number, count) in other.counts {
            *self.counts.entry(number).or_default() += count;
        }
    }
}

impl Aggregate for Errors {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        let mut counts: Vec<(i64, u64)> = std::mem::take(&mut self.counts).into_iter().collect();
        packing.list(&mut counts, |packing, (number, count)| {
            packing.number(number);
            packing.number(count);
        });
        self.counts = counts.into_iter().collect();
    }
}

impl SpanFigures for Errors {
    const COLUMNS: &'static [ColumnOf<'static, Self>] =
        &[own_column("errors", Unit::Count, "calls that returned -4095 to -1", |errors| {
            errors.counts.values().sum::<u64>().into()
        })];

    const COUNTS: Option<CountsColumn<Self>> = Some(CountsColumn {
        name: "errnos",
        meaning: "how often each error occurred",
        counts: |errors| {
            let name = |number: i64| errno_name(number).unwrap_or_default().to_string();
            errors.counts.iter().map(|(number, count)| (name(*number), *count)).collect()
        },
    });
}

/// A system call, as lists show it.
struct SyscallRow<'r> {
    call: &'r SystemCall<'r>,
    thread: &'r Thread,
    cpu: u64,
    span: SpanTimes,
}

/// Meaning of a column.
const NAME: &str = "name of the system call";

impl<'r> SyscallRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("name", Unit::Name, NAME, |of| Value::Text(of.call.name)),
        column("tid", Unit::Name, |of| of.thread.tid.into()),
        column("comm", Unit::Name, |of| Value::text(of.thread.comm.as_deref())),
        column("cpu", Unit::Name, |of| of.cpu.into()),
        column("from", Unit::Time, |of| of.span.from.into()),
        column("to", Unit::Time, |of| of.span.to.into()),
        column("duration_ns", Unit::Duration, |of| of.span.duration.into()),
        column("ret", Unit::Name, |of| Value::integer(of.call.ret)),
    ];
}

impl Observer for Calls {
    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, _: &Happening<'_>) {
        let query = &self.spans.query;
        if !query.wants_cpu(machines, Some(call.cpu)) || !query.wants_thread(machines, Some(call.thread)) {
            return;
        }
        let thread = machines.thread(call.thread);
        let number = match self.by {
            By::Thread => thread.tid,
            By::Process => thread.pid().unwrap_or(NO_KEY),
            By::Errno => error_of(call.ret).unwrap_or(NO_KEY),
            By::Name => 0,
        };
        let key = GroupKey { machine: thread.machine, number, name: self.names.number(call.name), other: 0 };
        let span = SpanTimes::new(machines, thread.machine, (call.from, call.to));
        self.spans.add(machines, &span, key, Errors::from_return(call.ret), || {
            values_of(SyscallRow::LOG, SyscallRow { call, thread, cpu: machines.cpu(call.cpu).number, span })
        });
    }
}

impl Analysis for Calls {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::CallEnded], ReportTimes::Range)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Calls { by, spans, names } = *self;
        let query = spans.query.clone();
        let labels = GroupLabels { by, names, machines: machines.clone() };
        let mut table = spans.finish("syscalls", range, columns_of(SyscallRow::LOG), labels);
        let threads = machines.threads().filter(|(thread, _)| query.wants_thread(machines, Some(*thread)));
        let open = threads.flat_map(|(thread, _)| machines.open_calls(thread));
        table.notes.push(("unfinished", open.filter(|name| returns(name)).count() as u64));
        table
    }
}

impl<'r> SpanGroup<'r, By> {
    const NAME: ColumnOf<'r, Self> = own_column("name", Unit::Name, NAME, |group| Value::text(group.name()));
    const ERRNO: ColumnOf<'r, Self> =
        own_column("errno", Unit::Name, "the error; none for calls that succeeded", |group| {
            Value::text(errno_name(group.key.number))
        });
    const BY_NAME: &'r [ColumnOf<'r, Self>] = &[Self::NAME];
    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[Self::TID, Self::COMM, Self::NAME];
    const BY_PROCESS: &'r [ColumnOf<'r, Self>] = &[Self::PID, Self::NAME];
    const BY_ERRNO: &'r [ColumnOf<'r, Self>] = &[Self::ERRNO, Self::NAME];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Name => SpanGroup::<By>::BY_NAME,
            By::Thread => SpanGroup::<By>::BY_THREAD,
            By::Process => SpanGroup::<By>::BY_PROCESS,
            By::Errno => SpanGroup::<By>::BY_ERRNO,
        }
    }

    fn is_by_number(&self) -> bool {
        matches!(self, By::Thread | By::Process)
    }
}

/// The name of an error of Linux; its number when it has none. `None` when it is no error.
pub(crate) fn errno_name(number: i64) -> Option<&'static str> {
    static NAMES: OnceLock<HashMap<i64, &'static str>> = OnceLock::new();
    static OTHERS: [OnceLock<Box<str>>; MAX_ERRNO as usize + 1] = [const { OnceLock::new() }; MAX_ERRNO as usize + 1];
    let names = NAMES.get_or_init(|| {
        let pairs = ERRNOS.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.filter_map(|(number, name)| Some((number.parse().ok()?, name))).collect()
    });
    let other = || Some(&**OTHERS.get(usize::try_from(number).ok()?)?.get_or_init(|| number.to_string().into()));
    names.get(&number).copied().or_else(other)
}

/// The errors of Linux on most machines (`asm-generic/errno.h`).
const ERRNOS: &str = "1=EPERM 2=ENOENT 3=ESRCH 4=EINTR 5=EIO 6=ENXIO 7=E2BIG 8=ENOEXEC 9=EBADF 10=ECHILD 11=EAGAIN \
    12=ENOMEM 13=EACCES 14=EFAULT 15=ENOTBLK 16=EBUSY 17=EEXIST 18=EXDEV 19=ENODEV 20=ENOTDIR 21=EISDIR 22=EINVAL \
    23=ENFILE 24=EMFILE 25=ENOTTY 26=ETXTBSY 27=EFBIG 28=ENOSPC 29=ESPIPE 30=EROFS 31=EMLINK 32=EPIPE 33=EDOM 34=ERANGE \
    35=EDEADLK 36=ENAMETOOLONG 37=ENOLCK 38=ENOSYS 39=ENOTEMPTY 40=ELOOP 42=ENOMSG 43=EIDRM 44=ECHRNG 45=EL2NSYNC \
    46=EL3HLT 47=EL3RST 48=ELNRNG 49=EUNATCH 50=ENOCSI 51=EL2HLT 52=EBADE 53=EBADR 54=EXFULL 55=ENOANO 56=EBADRQC \
    57=EBADSLT 59=EBFONT 60=ENOSTR 61=ENODATA 62=ETIME 63=ENOSR 64=ENONET 65=ENOPKG 66=EREMOTE 67=ENOLINK 68=EADV \
    69=ESRMNT 70=ECOMM 71=EPROTO 72=EMULTIHOP 73=EDOTDOT 74=EBADMSG 75=EOVERFLOW 76=ENOTUNIQ 77=EBADFD 78=EREMCHG \
    79=ELIBACC 80=ELIBBAD 81=ELIBSCN 82=ELIBMAX 83=ELIBEXEC 84=EILSEQ 85=ERESTART 86=ESTRPIPE 87=EUSERS 88=ENOTSOCK \
    89=EDESTADDRREQ 90=EMSGSIZE 91=EPROTOTYPE 92=ENOPROTOOPT 93=EPROTONOSUPPORT 94=ESOCKTNOSUPPORT 95=EOPNOTSUPP \
    96=EPFNOSUPPORT 97=EAFNOSUPPORT 98=EADDRINUSE 99=EADDRNOTAVAIL 100=ENETDOWN 101=ENETUNREACH 102=ENETRESET \
    103=ECONNABORTED 104=ECONNRESET 105=ENOBUFS 106=EISCONN 107=ENOTCONN 108=ESHUTDOWN 109=ETOOMANYREFS 110=ETIMEDOUT \
    111=ECONNREFUSED 112=EHOSTDOWN 113=EHOSTUNREACH 114=EALREADY 115=EINPROGRESS 116=ESTALE 117=EUCLEAN 118=ENOTNAM \
    119=ENAVAIL 120=EISNAM 121=EREMOTEIO 122=EDQUOT 123=ENOMEDIUM 124=EMEDIUMTYPE 125=ECANCELED 126=ENOKEY \
    127=EKEYEXPIRED 128=EKEYREVOKED 129=EKEYREJECTED 130=EOWNERDEAD 131=ENOTRECOVERABLE 132=ERFKILL 133=EHWPOISON";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};

    #[test]
    fn results_from_minus_4095_to_minus_1_are_errors() {
        let stream = "100 0 switch prev=0 next=5
            110 0 sys_entry name=open
            120 0 sys_exit ret=-2
            130 0 sys_entry name=mmap
            140 0 sys_exit ret=-4096
            150 0 sys_entry name=open
            160 0 sys_exit ret=-4095
            170 0 sys_entry name=open
            180 0 sys_exit ret=3
            190 0 sys_entry name=read
            200 0 -";
        let table = played(&DESCRIPTOR, &AnalysisQuery::default(), stream);
        assert_eq!(rows(&table, &["name", "count", "total_ns", "errors"]), ["open 3 30 2", "mmap 1 10 0"]);
        assert!(table.notes.contains(&("unfinished", 1)), "{:?}", table.notes);
    }
}
