//! `cgroup`: what the threads of control groups and containers used (`docs/kernel.md`, section 3.21).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Credit, Happening, Machines, Map, Ns, Observer, SystemCall, ThreadIndex, ThreadPiece, ThreadState,
};
use tracemill_semantics::{Concept, Field};

use crate::kernel::aggregate::groups::Names;
use crate::kernel::aggregate::keys::{NO_KEY, TELL_MODES, known_key};
use crate::kernel::aggregate::sum::Sum;
use crate::kernel::analyses::io::Class;
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, AnalysisOption, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, own_column};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of groups.
    By {
        /// The control group and both namespaces.
        Container = "container",
        /// The control group.
        Cgroup = "cgroup",
        /// The namespace of control groups.
        CgroupNs = "cgroup_ns",
        /// The namespace of processes.
        PidNs = "pid_ns",
    }
}

/// Options of the sums. Events before a period say where threads are, so that these are not made for periods.
const SUMS: &[AnalysisOption] = {
    use AnalysisOption::{Begin, By, Comm, Pid, Step, Tid};
    &[By, Step, Tid, Pid, Comm, Begin]
};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "cgroup",
    about: "CPU time, waits and I/O of control groups and containers",
    forms: &[AnalysisForm::plain(
        By::NAMES,
        SUMS,
        RowNouns::for_groups(&["containers", "control groups", "namespaces", "namespaces"]),
    )],
    needs: &[&[Concept::Switch], &[Concept::CgroupAttach, Concept::Namespace]],
    needs_for: &[
        ("cgroup", &[Concept::CgroupAttach]),
        ("cgroup_ns", &[Concept::Namespace]),
        ("pid_ns", &[Concept::Namespace]),
    ],
    wants: &[
        (Concept::CgroupAttach, "control groups by their paths"),
        (Concept::Namespace, "namespaces"),
        (Concept::Wake, "how long threads could run and did not"),
        (Concept::SysExit, "bytes read and written"),
    ],
    over_periods: None,
    example: "cgroup demo/guests/host.jsonl",
    make: |query| {
        Box::new(Cgroups {
            query: query.clone(),
            by: query.key(By::from_name).unwrap_or(By::Container),
            names: Names::default(),
            threads: Map::default(),
            sums: Map::default(),
        })
    },
};

/// The groups of a thread, as far as events say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Container {
    /// The path of its control group, as a number.
    cgroup: i64,
    cgroup_ns: i64,
    pid_ns: i64,
}

impl Default for Container {
    fn default() -> Self {
        Container { cgroup: NO_KEY, cgroup_ns: NO_KEY, pid_ns: NO_KEY }
    }
}

impl Container {
    /// Takes the namespaces that an event states.
    fn learn(&mut self, happening: &Happening<'_>) {
        self.cgroup_ns = happening.number(Field::CgroupNs).unwrap_or(self.cgroup_ns);
        self.pid_ns = happening.number(Field::PidNs).unwrap_or(self.pid_ns);
    }

    /// Takes namespaces that were stated later, where it has none: no event of the thread was before that statement.
    fn filled(self, first: Container) -> Container {
        let known = |own: i64, first: i64| if own == NO_KEY { first } else { own };
        let Container { cgroup, cgroup_ns, pid_ns } = self;
        Container { cgroup, cgroup_ns: known(cgroup_ns, first.cgroup_ns), pid_ns: known(pid_ns, first.pid_ns) }
    }

    /// The parts by which rows are grouped.
    fn by(self, by: By) -> Container {
        let Container { cgroup, cgroup_ns, pid_ns } = self;
        let none = Container::default();
        match by {
            By::Container => self,
            By::Cgroup => Container { cgroup, ..none },
            By::CgroupNs => Container { cgroup_ns, ..none },
            By::PidNs => Container { pid_ns, ..none },
        }
    }
}

/// Where a thread was.
#[derive(Default)]
struct Story {
    /// Its groups from some times on; those before the last time that was reported are dropped.
    changes: Vec<(Ns, Container)>,
    /// The first namespaces that were stated.
    first: Container,
}

impl Story {
    fn now(&self) -> Container {
        self.changes.last().map_or(Container::default(), |(_, container)| *container)
    }

    fn change(&mut self, at: Ns, container: Container) {
        if container != self.now() {
            self.changes.push((at, container));
        }
        self.first = self.first.filled(container);
    }

    /// The groups in a time, each with its part.
    fn parts(&self, from: Ns, to: Ns) -> Vec<(Container, Ns, Ns)> {
        let (mut at, mut container, mut parts) = (from, Container::default(), Vec::new());
        for (since, next) in &self.changes {
            if *since > at && *since < to {
                parts.push((container, at, *since));
                at = *since;
            }
            if *since < to || *since <= from {
                container = *next;
            }
        }
        parts.push((container, at, to));
        parts
    }

    fn forget_before(&mut self, at: Ns) {
        let kept = self.changes.partition_point(|(since, _)| *since <= at).saturating_sub(1);
        self.changes.drain(..kept);
    }
}

/// Amounts that threads used.
#[derive(Clone, Copy, Default)]
struct Used {
    cpu: Ns,
    wait_cpu: Ns,
    wait: Ns,
    read: i128,
    written: i128,
}

impl Sum for Used {
    fn add(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.wait_cpu += other.wait_cpu;
        self.wait += other.wait;
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
    }
}

struct Cgroups {
    query: AnalysisQuery,
    by: By,
    /// Paths of control groups.
    names: Names,
    threads: Map<ThreadIndex, Story>,
    /// By step, thread and group.
    sums: Map<(i64, (ThreadIndex, Container)), Used>,
}

impl Cgroups {
    fn story(&mut self, thread: ThreadIndex) -> &mut Story {
        self.threads.entry(thread).or_default()
    }

    fn add(
        &mut self,
        machines: &Machines,
        thread: ThreadIndex,
        (from, to): (Ns, Ns),
        amount: impl Fn(&mut Used) -> &mut Ns,
    ) {
        let Cgroups { query, threads, sums, .. } = self;
        if !query.wants_thread(machines, Some(thread)) {
            return;
        }
        let parts = threads.get(&thread).map_or(vec![(Container::default(), from, to)], |of| of.parts(from, to));
        for (container, from, to) in parts {
            query.each_step(machines.begin(), from, to, |step, length| {
                *amount(sums.entry((step, (thread, container))).or_default()) += length;
            });
        }
    }
}

impl Observer for Cgroups {
    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        let times = (piece.from, piece.to);
        match piece.state {
            state if state.is_running() => self.add(machines, piece.thread, times, |used| &mut used.cpu),
            ThreadState::WaitCpu => self.add(machines, piece.thread, times, |used| &mut used.wait_cpu),
            ThreadState::Wait => self.add(machines, piece.thread, times, |used| &mut used.wait),
            _ => {}
        }
        if let Some(story) = self.threads.get_mut(&piece.thread) {
            story.forget_before(piece.to);
        }
    }

    fn credit(&mut self, machines: &Machines, credit: &Credit) {
        self.add(machines, credit.thread, (credit.from, credit.to), |used| &mut used.cpu);
    }

    fn forked(&mut self, _: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        let of_parent = parent.and_then(|parent| self.threads.get(&parent)).map(Story::now);
        if let Some(container) = of_parent {
            self.story(child).change(at, container);
        }
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, _: &Happening<'_>) {
        let class =
            Class::from_call(call.name).filter(|class| matches!(class, Class::Read | Class::Write | Class::Copy));
        let Some(class) = class else { return };
        let bytes = i128::from(class.bytes(call.name, call.ret));
        if bytes == 0 || !self.query.has_instant(call.to) || !self.query.wants_thread(machines, Some(call.thread)) {
            return;
        }
        let container = self.threads.get(&call.thread).map_or(Container::default(), Story::now);
        let step = self.query.step_of(machines.begin(), call.to);
        let used = self.sums.entry((step, (call.thread, container))).or_default();
        used.read += if class == Class::Write { 0 } else { bytes };
        used.written += if class == Class::Read { 0 } else { bytes };
    }

    fn context(&mut self, machines: &Machines, cpu: CpuIndex, happening: &Happening<'_>) {
        let Some(thread) = machines.cpu(cpu).current().thread() else { return };
        let story = self.story(thread);
        let mut container = story.now();
        container.learn(happening);
        story.change(machines.now(), container);
    }

    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if !matches!(happening.concept, Concept::CgroupAttach | Concept::Namespace) {
            return;
        }
        let thread = happening.number(Field::Tid).and_then(|tid| machines.find_thread(machine, tid));
        let Some(thread) = thread else { return };
        let path = happening.text(Field::Path).map(|path| self.names.number(&path));
        let story = self.story(thread);
        let mut container = story.now();
        container.learn(happening);
        container.cgroup = path.unwrap_or(container.cgroup);
        story.change(at, container);
    }
}

/// The amounts of a group.
struct ContainerRow<'r> {
    container: Container,
    names: &'r Names,
    threads: u64,
    used: Used,
    has_wakes: bool,
    has_calls: bool,
}

impl<'r> ContainerRow<'r> {
    const CGROUP: ColumnOf<'r, Self> = own_column("cgroup", Unit::Name, "path of the control group", |row| {
        Value::text(row.names.name(row.container.cgroup))
    });
    const CGROUP_NS: ColumnOf<'r, Self> =
        own_column("cgroup_ns", Unit::Name, "number of the namespace of control groups", |row| {
            Value::integer(known_key(row.container.cgroup_ns))
        });
    const PID_NS: ColumnOf<'r, Self> =
        own_column("pid_ns", Unit::Name, "number of the namespace of processes", |row| {
            Value::integer(known_key(row.container.pid_ns))
        });
    const THREADS: ColumnOf<'r, Self> =
        own_column("threads", Unit::Count, "threads of which something is counted", |row| row.threads.into());
    const CPU: ColumnOf<'r, Self> =
        own_column("cpu_ns", Unit::Duration, "time in which its threads had a CPU", |row| row.used.cpu.into());
    const WAIT_CPU: ColumnOf<'r, Self> =
        column("wait_cpu_ns", Unit::Duration, |row| Value::integer(row.has_wakes.then_some(row.used.wait_cpu)));
    const WAIT: ColumnOf<'r, Self> =
        own_column("wait_ns", Unit::Duration, "time in which its threads were blocked", |row| row.used.wait.into());
    const READ: ColumnOf<'r, Self> =
        own_column("bytes_read", Unit::Count, "bytes that calls of its threads read", |row| {
            Value::integer(row.has_calls.then_some(row.used.read))
        });
    const WRITTEN: ColumnOf<'r, Self> =
        own_column("bytes_written", Unit::Count, "bytes that calls of its threads wrote", |row| {
            Value::integer(row.has_calls.then_some(row.used.written))
        });

    fn columns(by: By) -> &'r [ColumnOf<'r, Self>] {
        macro_rules! with_amounts {
            ($($key:ident),*) => {
                &[$(Self::$key,)* Self::THREADS, Self::CPU, Self::WAIT_CPU, Self::WAIT, Self::READ, Self::WRITTEN]
            };
        }
        match by {
            By::Container => with_amounts!(CGROUP, CGROUP_NS, PID_NS),
            By::Cgroup => with_amounts!(CGROUP),
            By::CgroupNs => with_amounts!(CGROUP_NS),
            By::PidNs => with_amounts!(PID_NS),
        }
    }
}

impl Analysis for Cgroups {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CallEnded, Context, Credit, Forked, ThreadPiece};
        (&[ThreadPiece, Credit, Forked, CallEnded, Context, Applied], ReportTimes::All)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Cgroups { query, by, names, threads, sums } = *self;
        // The threads of a group by their lives.
        let mut groups: BTreeMap<(i64, u32, Container), (BTreeSet<u32>, Used)> = BTreeMap::new();
        for ((step, (thread, container)), used) in query.by_last_step(range, sums) {
            let first = threads.get(&thread).map_or(Container::default(), |story| story.first);
            let key = (step, machines.thread(thread).machine, container.filled(first).by(by));
            let group = groups.entry(key).or_default();
            group.0.insert(thread.0);
            group.1.add(used);
        }
        let rows = groups.into_iter().map(|((step, machine, container), (threads, used))| {
            let has_wakes = machines.can_have(machine, &[Concept::Wake]);
            let has_calls = machines.can_have(machine, TELL_MODES);
            let threads = threads.len() as u64;
            (step, machine, ContainerRow { container, names: &names, threads, used, has_wakes, has_calls })
        });
        let (columns, rows) = query.step_rows(range, ContainerRow::columns(by), rows);
        let order = if query.step.is_some() { Order::Keys } else { Order::Largest("cpu_ns") };
        Table { analysis: "cgroup", range, columns, rows, order, ..Table::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Numbers;
    use crate::kernel::testing::played::{played, rows};

    fn by(key: &str) -> AnalysisQuery {
        AnalysisQuery { by: Some(key.to_string()), ..AnalysisQuery::default() }
    }

    const COLUMNS: [&str; 6] = ["threads", "cpu_ns", "wait_cpu_ns", "wait_ns", "bytes_read", "bytes_written"];

    fn found(query: &AnalysisQuery, key: &str, stream: &str) -> Vec<String> {
        rows(&played(&DESCRIPTOR, query, stream), &[&[key], &COLUMNS[..]].concat())
    }

    const STREAM: &str = "100 0 switch prev=0 next=5
        110 0 cgroup_attach tid=5 path=/web
        120 0 fork parent=5 child=6 pid=6 ppid=5
        125 0 sys_entry name=read
        130 0 sys_exit ret=70
        140 0 wake tid=6 cpu=0
        150 0 switch prev=5 next=6 state=1
        160 0 sys_entry name=write
        165 0 sys_exit ret=8
        170 0 cgroup_attach tid=6 path=/db
        190 0 switch prev=6 next=7 state=1
        200 0 -";

    #[test]
    fn groups_hold_from_the_event_that_says_so() {
        // Threads that are made are in the group of their parent; where 5 was before is not known.
        let expected = ["/web 2 60 10 50 70 8", "- 2 20 0 0 0 0", "/db 1 20 0 10 0 0"];
        assert_eq!(found(&by("cgroup"), "cgroup", STREAM), expected);
        let only = AnalysisQuery { tids: Numbers::parse("6"), begin: Some(160), ..by("cgroup") };
        assert_eq!(found(&only, "cgroup", STREAM), ["/db 1 20 0 10 0 0", "/web 1 10 0 0 0 8"]);
        let steps = AnalysisQuery { step: Some(60), ..by("cgroup") };
        let columns = ["from", "cgroup", "cpu_ns"];
        let found = rows(&played(&DESCRIPTOR, &steps, STREAM), &columns);
        assert_eq!(found, ["100 - 10", "100 /web 50", "160 - 10", "160 /db 20", "160 /web 10"]);
    }

    #[test]
    fn contexts_name_the_namespaces_of_the_thread_that_runs() {
        let stream = "100 0 switch prev=0 next=5
            110 0 running tid=5 cgroup_ns=71 pid_ns=81
            120 0 namespace tid=7 cgroup_ns=72
            150 0 switch prev=5 next=6 state=1
            160 0 running tid=6 cgroup_ns=71 pid_ns=82
            180 0 running tid=6 cgroup_ns=73 pid_ns=82
            190 0 switch prev=6 next=7 state=1
            200 0 -";
        // The first statement holds for the time before it.
        let found_in = |key: &str| rows(&played(&DESCRIPTOR, &by(key), stream), &[key, "threads", "cpu_ns"]);
        assert_eq!(found_in("cgroup_ns"), ["71 2 80", "- 1 10", "73 1 10"]);
        assert_eq!(found_in("pid_ns"), ["81 1 50", "82 1 40", "- 1 10"]);
    }
}
