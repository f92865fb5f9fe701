//! `syscalls`: how long system calls took, and how they failed (`docs/kernel.md`, section 3.5).

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::OnceLock;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{Machines, Ns, Observer, SystemCall, returns};

use crate::kernel::aggregate::account::{Account, Sum};
use crate::kernel::aggregate::keys::{MAX_ERRNO, error_of};
use crate::kernel::aggregate::keys::{NO_KEY, duration, key_value, thread_of, thread_values};
use crate::kernel::aggregate::spans::{GroupNaming, Key, Names, SpanFigures, Spans};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{Form, RowNouns, SPANS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::table::{Column, Listed, Table, Unit, listed};
use crate::kernel::value::{Cell, Value};

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
    fn of(query: &AnalysisQuery) -> By {
        query.key(By::of_name).unwrap_or(By::Name)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "syscalls",
    about: "how long system calls took, and how they failed",
    forms: &[Form::plain(
        By::NAMES,
        SPANS,
        RowNouns::of(&["system calls", "rows", "rows", "rows"]).with_spans("system calls"),
    )],
    needs: &[&[Concept::SysEntry], &[Concept::SysExit], &[Concept::Switch, Concept::Running]],
    needs_for: &[],
    wants: &[],
    example: "syscalls --by thread --comm 'oven-*' --where 'max_us > 1000'",
    make: |query| Box::new(Calls { by: By::of(query), spans: Spans::new(query), names: Names::default() }),
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
    fn of(ret: Option<i64>) -> Errors {
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

impl Account for Errors {
    fn put(&self, cells: &mut Vec<Cell>) {
        cells.push((self.counts.len() as u64).into());
        cells.extend(self.counts.iter().flat_map(|(number, count)| [Cell::from(*number), Cell::from(*count)]));
    }

    fn take(&mut self, numbers: &mut impl Iterator<Item = Option<i128>>) {
        for _ in 0..numbers.next().flatten().unwrap_or(0) {
            if let (Some(Some(number)), Some(Some(count))) = (numbers.next(), numbers.next()) {
                *self.counts.entry(number as i64).or_default() += count as u64;
            }
        }
    }
}

impl SpanFigures for Errors {
    const COLUMNS: Listed<'static> = &[(Unit::Count, &["errors", "errnos"])];

    fn cells(&self) -> Vec<Cell> {
        let name = |number: i64| errno_name(number).unwrap_or_default().to_string();
        let names = self.counts.iter().map(|(number, count)| (name(*number), *count)).collect();
        vec![self.counts.values().sum::<u64>().into(), Cell::Counts(names)]
    }
}

impl Observer for Calls {
    fn call_ended(
        &mut self,
        machines: &Machines,
        call: &SystemCall<'_>,
        _: &tracemill_semantics::states::Happening<'_>,
    ) {
        let query = &self.spans.query;
        if !query.wants_cpu(machines, Some(call.cpu)) || !query.wants_thread(machines, Some(call.thread)) {
            return;
        }
        let thread = machines.thread(call.thread);
        let machine = i64::from(thread.machine);
        let name = self.names.number(call.name);
        let key = match self.by {
            By::Thread => [machine, thread.tid, name, 0],
            By::Process => [machine, thread.pid().unwrap_or(NO_KEY), name, 0],
            By::Errno => [machine, error_of(call.ret).unwrap_or(NO_KEY), name, 0],
            By::Name => [machine, name, 0, 0],
        };
        let times = (call.from, call.to);
        self.spans.add(machines, times, (thread.machine, key), Errors::of(call.ret), |machine, put| {
            let [tid, comm] = thread_values(machines, Some(call.thread));
            put(&[
                machine,
                Value::Text(call.name),
                tid,
                comm,
                Value::Integer(machines.cpu(call.cpu).number.into()),
                Value::Integer(call.from),
                Value::Integer(call.to),
                Value::Integer(duration(machines, thread.machine, call.from, call.to).into()),
                Value::integer(call.ret),
            ]);
        });
    }
}

impl Analysis for Calls {
    fn hears(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::CallEnded], ReportTimes::Range)
    }

    fn columns(&self) -> Vec<Column> {
        self.spans.query.columns(LOG)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Calls { by, spans, names } = *self;
        let query = spans.query.clone();
        let own: &[_] = match by {
            By::Thread => &["tid", "comm", "name"],
            By::Process => &["pid", "name"],
            By::Errno => &["errno", "name"],
            By::Name => &["name"],
        };
        let naming = SyscallLabels { by, names, machines: machines.clone() };
        let keys = [(Unit::Name, own)];
        let mut table = spans.finish("syscalls", range, listed(&keys), query.columns(LOG), naming);
        let threads = machines.threads().filter(|(thread, _)| query.wants_thread(machines, Some(*thread)));
        let open = threads.flat_map(|(thread, _)| machines.open_calls(thread));
        table.notes.push(("unfinished", open.filter(|name| returns(name)).count() as u64));
        table
    }
}

/// The names of groups.
struct SyscallLabels {
    by: By,
    names: Names,
    machines: Rc<Machines>,
}

impl GroupNaming<Errors> for SyscallLabels {
    fn name<'s>(&'s self, key: &Key, values: &mut Vec<Value<'s>>) {
        let call = match self.by {
            By::Thread => {
                values.extend(thread_values(&self.machines, thread_of(&self.machines, key[0], key[1])));
                key[2]
            }
            By::Process => {
                values.push(key_value(key[1]));
                key[2]
            }
            By::Errno => {
                values.push(Value::text(errno_name(key[1])));
                key[2]
            }
            By::Name => key[1],
        };
        values.push(Value::text(self.names.name(call)));
    }

    fn number(&self, key: &Key) -> Option<i64> {
        matches!(self.by, By::Thread | By::Process).then_some(key[1])
    }

    fn more(&self, _: &Key, errors: &Errors) -> Vec<Cell> {
        errors.cells()
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

/// Columns of lists.
const LOG: Listed<'_> = &[
    (Unit::Name, &["name", "tid", "comm", "cpu"]),
    (Unit::Time, &["from", "to"]),
    (Unit::Duration, &["duration_ns"]),
    (Unit::Name, &["ret"]),
];

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
