//! Open files of processes: the file that each file descriptor refers to (`docs/kernel.md`, section 3.6).

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Map, Ns, Observer, RunEnd, SystemCall, Thread, ThreadIndex, ThreadState,
};
use tracemill_semantics::{Concept, Field};

use crate::kernel::analysis::{Analysis, ReportKind, ReportTimes};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, own_column};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

/// Files of all processes that are kept at most; those beyond are not known.
const MAX_FILES: usize = 1 << 18;

/// The name of a socket whose peer is not known.
const SOCKET: &str = "socket";

/// A process: its machine and its number.
type Process = (u32, i64);

/// Names by descriptor. A new process shares the table of its parent until one of them changes its own.
type Descriptors = Rc<BTreeMap<i64, Rc<str>>>;

/// Names of the files that processes have open.
pub(crate) struct Files {
    tables: Map<Process, Descriptors>,
    /// Processes by the address of their table, where a state dump says so.
    by_table: Map<(u32, i64), i64>,
    /// Files in all tables.
    count: usize,
    most: usize,
    /// Files that have asked for room since the processes that have ended made some.
    query: usize,
    left_out: u64,
    /// System calls that have begun, by thread.
    calls: Map<ThreadIndex, Call>,
}

/// A system call that is about files.
struct Call {
    effect: Effect,
    fd: Option<i64>,
    /// The file behind the descriptor when the call began.
    file: Option<Rc<str>>,
    /// The path, or the peer, that the call names.
    argument: Option<Rc<str>>,
}

/// Effect of a call that succeeds on the descriptors of its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    None,
    /// Its result is a descriptor of its argument.
    Open,
    /// Its result is a descriptor of a socket.
    Socket,
    /// Its result is a descriptor of a socket, whose peer the exit names.
    Accept,
    /// The socket has a peer.
    Connect,
    /// Its result is a descriptor of the same file.
    Duplicate,
    Close,
    /// All descriptors from its argument to this one are closed.
    CloseTo(i64),
}

impl Effect {
    fn from_call(name: &str, happening: &Happening<'_>) -> Effect {
        match name {
            "open" | "openat" | "openat2" | "creat" => Effect::Open,
            "socket" => Effect::Socket,
            "accept" | "accept4" => Effect::Accept,
            "connect" => Effect::Connect,
            "dup" | "dup2" | "dup3" => Effect::Duplicate,
            // F_DUPFD and F_DUPFD_CLOEXEC.
            "fcntl" | "fcntl64" if matches!(happening.number(Field::Op), Some(0 | 1030)) => Effect::Duplicate,
            "close" => Effect::Close,
            // CLOSE_RANGE_CLOEXEC closes them with the next exec, which closes no files here.
            "close_range" if happening.number(Field::Op).unwrap_or(0) & 4 == 0 => {
                // The last descriptor is most often the largest number there is.
                Effect::CloseTo(
                    happening.values.integer(Field::New).map_or(-1, |last| last.min(i64::MAX.into()) as i64),
                )
            }
            _ => Effect::None,
        }
    }
}

impl Default for Files {
    fn default() -> Self {
        Files::with_room_for(MAX_FILES)
    }
}

impl Files {
    fn with_room_for(most: usize) -> Self {
        Files {
            tables: Map::default(),
            count: 0,
            most,
            query: most,
            left_out: 0,
            calls: Map::default(),
            by_table: Map::default(),
        }
    }

    /// The file that the system call of a thread is about: its path, or what stood behind its descriptor when it began.
    pub(crate) fn file_of_call(&self, thread: ThreadIndex) -> Option<&Rc<str>> {
        let call = self.calls.get(&thread)?;
        call.argument.as_ref().filter(|_| call.effect == Effect::Open).or(call.file.as_ref())
    }

    /// Open files: machine, process, descriptor, name.
    pub(crate) fn open(&self) -> impl Iterator<Item = (u32, i64, i64, &str)> {
        self.tables
            .iter()
            .flat_map(|(&(machine, pid), table)| table.iter().map(move |(&fd, name)| (machine, pid, fd, &**name)))
    }

    /// Files that were left out because there were too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The process of a thread. What a thread did before its process was known is moved there.
    fn process(&mut self, machines: &Machines, thread: ThreadIndex) -> Process {
        let of = machines.thread(thread);
        let (own, process) = ((of.machine, of.tid), (of.machine, of.pid().unwrap_or(of.tid)));
        if own != process
            && let Some(early) = self.tables.remove(&own)
        {
            let table = Rc::make_mut(self.tables.entry(process).or_default());
            let before = early.len() + table.len();
            for (fd, name) in early.iter() {
                table.entry(*fd).or_insert_with(|| name.clone());
            }
            self.count -= before - table.len();
        }
        process
    }

    /// Ties a descriptor to a name; without one, nothing is known of it any more.
    fn set(&mut self, machines: &Machines, process: Process, fd: i64, name: Option<Rc<str>>) {
        let is_known = self.tables.get(&process).is_some_and(|table| table.contains_key(&fd));
        let Some(name) = name else {
            if let Some(table) = self.tables.get_mut(&process).filter(|_| is_known) {
                Rc::make_mut(table).remove(&fd);
                self.count -= 1;
            }
            return;
        };
        if !is_known && !self.has_room(machines, 1) {
            self.left_out += 1;
            return;
        }
        self.count += usize::from(!is_known);
        Rc::make_mut(self.tables.entry(process).or_default()).insert(fd, name);
    }

    /// Is there room for more files? When there is none, processes that have ended make some, but not each time: that
    /// takes a look at all of them.
    fn has_room(&mut self, machines: &Machines, more: usize) -> bool {
        self.query = self.query.saturating_add(more);
        if self.count + more > self.most && self.query > self.most / 4 {
            self.query = 0;
            let has_ended = |machine, tid| {
                let state = machines.find_thread(machine, tid).map(|thread| machines.thread(thread).state());
                matches!(state, Some(ThreadState::Zombie | ThreadState::Dead))
            };
            self.tables.retain(|&(machine, pid), _| !has_ended(machine, pid));
            self.count = self.tables.values().map(|table| table.len()).sum();
        }
        self.count + more <= self.most
    }

    fn forget(&mut self, process: Process) {
        self.count -= self.tables.remove(&process).map_or(0, |table| table.len());
    }
}

impl Observer for Files {
    fn created(&mut self, machines: &Machines, thread: ThreadIndex, _: Ns) {
        let of = machines.thread(thread);
        if of.life() > 0 {
            self.forget((of.machine, of.tid));
        }
    }

    fn forked(&mut self, machines: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, _: Ns) {
        let of = machines.thread(child);
        let (own, process) = ((of.machine, of.tid), (of.machine, of.pid().unwrap_or(of.tid)));
        // The files that an earlier thread of this number left.
        self.forget(own);
        let Some(parent) = parent.map(|parent| self.process(machines, parent)) else { return };
        if parent == process {
            return;
        }
        self.forget(process);
        let Some(table) = self.tables.get(&parent).filter(|table| !table.is_empty()).cloned() else { return };
        if !self.has_room(machines, table.len()) {
            self.left_out += table.len() as u64;
            return;
        }
        self.count += table.len();
        self.tables.insert(process, table);
    }

    fn run_ended(&mut self, _: &Machines, thread: ThreadIndex, how: RunEnd, _: Ns) {
        if how == RunEnd::Ended {
            self.calls.remove(&thread);
        }
    }

    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, _: Ns) {
        let effect = Effect::from_call(name, happening);
        if effect == Effect::None && crate::kernel::analyses::io::Class::from_call(name).is_none() {
            self.calls.remove(&thread);
            return;
        }
        let fd = happening.number(Field::Fd);
        let process = self.process(machines, thread);
        let file = fd.and_then(|fd| self.tables.get(&process)?.get(&fd)).cloned();
        let argument = match effect {
            Effect::Open => happening.text(Field::Path).map(|path| path.into()),
            Effect::Connect => peer(happening),
            _ => None,
        };
        self.calls.insert(thread, Call { effect, fd, file, argument });
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, happening: &Happening<'_>) {
        let Some(Call { effect, fd, file, argument }) = self.calls.remove(&call.thread) else { return };
        let Some(ret) = call.ret.filter(|_| effect != Effect::None) else { return };
        let process = self.process(machines, call.thread);
        let name = match effect {
            Effect::None => return,
            Effect::Open => argument,
            Effect::Socket => Some(SOCKET.into()),
            Effect::Accept => Some(peer(happening).unwrap_or_else(|| SOCKET.into())),
            Effect::Duplicate => file,
            Effect::Connect => {
                // A socket that does not block gets its peer later: EINPROGRESS.
                if let (0 | -115, Some(fd), Some(peer)) = (ret, fd, argument) {
                    self.set(machines, process, fd, Some(peer));
                }
                return;
            }
            Effect::Close => {
                if let (0, Some(fd)) = (ret, fd) {
                    self.set(machines, process, fd, None);
                }
                return;
            }
            Effect::CloseTo(last) => {
                if let (0, Some(first)) = (ret, fd.filter(|first| *first <= last))
                    && let Some(table) = self.tables.get_mut(&process)
                {
                    let before = table.len();
                    if table.range(first..=last).next().is_some() {
                        Rc::make_mut(table).retain(|fd, _| !(first..=last).contains(fd));
                    }
                    self.count -= before - table.len();
                }
                return;
            }
        };
        if ret >= 0 {
            self.set(machines, process, ret, name);
        }
    }

    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, _: Ns) {
        match happening.concept {
            Concept::DumpFile => {
                // Newer tracers name the table of a process instead of the process.
                let by_table = || self.by_table.get(&(machine, happening.number(Field::Table)?)).copied();
                let (pid, fd) = (happening.number(Field::Pid).or_else(by_table), happening.number(Field::Fd));
                if let (Some(pid), Some(fd), Some(name)) = (pid, fd, happening.text(Field::Name)) {
                    self.set(machines, (machine, pid), fd, Some(name.into()));
                }
            }
            Concept::DumpTask => {
                let (table, pid) = (happening.number(Field::Table), happening.number(Field::Pid));
                if let (Some(table), Some(pid)) = (table, pid)
                    && self.by_table.len() < self.most
                {
                    self.by_table.insert((machine, table), pid);
                }
            }
            // The first thread of a process is the last that the kernel forgets.
            Concept::Free => {
                if let Some(tid) = happening.number(Field::Tid) {
                    self.forget((machine, tid));
                }
            }
            _ => {}
        }
    }
}

/// The peer of a socket, `IPV4:PORT`.
fn peer(happening: &Happening<'_>) -> Option<Rc<str>> {
    let address: [u8; 4] = happening.values.bytes(Field::Address)?.try_into().ok()?;
    let port = happening.number(Field::Port)?;
    Some(format!("{}:{port}", std::net::Ipv4Addr::from(address)).into())
}

/// `processes --of files`: the files that are open at the end of the range.
pub(crate) struct OpenFiles {
    query: AnalysisQuery,
    files: Files,
}

impl OpenFiles {
    pub(crate) fn new(query: &AnalysisQuery) -> Self {
        OpenFiles { query: query.clone(), files: Files::default() }
    }

    fn is_over(&self, at: Ns) -> bool {
        self.query.end.is_some_and(|end| at > end)
    }
}

impl Observer for OpenFiles {
    fn created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        if !self.is_over(at) {
            self.files.created(machines, thread, at);
        }
    }

    fn forked(&mut self, machines: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        if !self.is_over(at) {
            self.files.forked(machines, parent, child, at);
        }
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        if !self.is_over(at) {
            self.files.run_ended(machines, thread, how, at);
        }
    }

    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {
        if !self.is_over(at) {
            self.files.call_began(machines, thread, name, happening, at);
        }
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, happening: &Happening<'_>) {
        if !self.is_over(call.to) {
            self.files.call_ended(machines, call, happening);
        }
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if !self.is_over(at) {
            self.files.applied(machines, machine, cpu, happening, at);
        }
    }
}

impl Analysis for OpenFiles {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CallBegan, CallEnded, Created, Forked, RunEnded};
        (&[Created, Forked, RunEnded, CallBegan, CallEnded, Applied], ReportTimes::All)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        // Files belong to processes: those of the threads that are wanted.
        let AnalysisQuery { tids, comms, pids, .. } = &self.query;
        let of_threads = (tids.is_some() || comms.is_some()).then(|| {
            let wanted = machines.threads().filter(|(thread, _)| self.query.wants_thread(machines, Some(*thread)));
            let process = |(_, of): (ThreadIndex, &Thread)| Some((of.machine, of.pid()?));
            wanted.filter_map(process).collect::<HashSet<_>>()
        });
        let is_wanted = |machine: u32, pid: i64| {
            pids.as_ref().is_none_or(|pids| pids.has(pid))
                && of_threads.as_ref().is_none_or(|wanted| wanted.contains(&(machine, pid)))
        };
        let open = self.files.open().filter(|(machine, pid, ..)| is_wanted(*machine, *pid));
        let open = open.map(|(machine, pid, fd, file)| (0, machine, FileRow { pid, fd, file }));
        let (columns, rows) = self.query.step_rows(range, FileRow::COLUMNS, open);
        let notes = vec![("files_left_out", self.files.left_out())];
        Table { analysis: "processes", range, columns, rows, order: Order::Keys, notes, ..Table::default() }
    }
}

/// An open file.
struct FileRow<'r> {
    pid: i64,
    fd: i64,
    file: &'r str,
}

impl<'r> FileRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("pid", Unit::Name, |row| row.pid.into()),
        own_column("fd", Unit::Name, "file descriptor", |row| row.fd.into()),
        column("file", Unit::Name, |row| Value::Text(row.file)),
    ];
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use tracemill_semantics::states::ConceptValues;

    use super::*;

    /// Fields of an event: numbers, texts, bytes.
    #[derive(Default)]
    struct Given<'a> {
        numbers: &'a [(Field, i128)],
        texts: &'a [(Field, &'a str)],
        address: Option<[u8; 4]>,
    }

    impl ConceptValues for Given<'_> {
        fn integer(&self, field: Field) -> Option<i128> {
            self.numbers.iter().find(|(own, _)| *own == field).map(|(_, value)| *value)
        }
        fn text(&self, field: Field) -> Option<Cow<'_, str>> {
            self.texts.iter().find(|(own, _)| *own == field).map(|(_, text)| Cow::Borrowed(*text))
        }
        fn bytes(&self, field: Field) -> Option<Vec<u8>> {
            self.address.filter(|_| field == Field::Address).map(|address| address.to_vec())
        }
    }

    /// A machine with one CPU, and the files of its processes.
    struct Scene {
        machines: Machines,
        files: Files,
        running: i128,
    }

    impl Scene {
        fn new(most: usize) -> Self {
            Scene { machines: Machines::new(1), files: Files::with_room_for(most), running: 0 }
        }

        fn apply(&mut self, concept: Concept, values: &Given<'_>) {
            let happening = Happening { concept, is_legacy: false, values };
            self.machines.apply_event(0, self.machines.now() + 1, Some(0), &happening, &mut self.files);
        }

        fn run(&mut self, tid: i128) {
            let numbers = &[(Field::Prev, self.running), (Field::Next, tid), (Field::State, 1)];
            self.apply(Concept::Switch, &Given { numbers, ..Given::default() });
            self.running = tid;
        }

        fn fork(&mut self, parent: i128, child: i128, pid: i128) {
            let numbers = &[(Field::Parent, parent), (Field::Child, child), (Field::Pid, pid), (Field::Ppid, parent)];
            self.apply(Concept::Fork, &Given { numbers, ..Given::default() });
        }

        fn begin(&mut self, name: &str, numbers: &[(Field, i128)], path: Option<&str>, address: Option<[u8; 4]>) {
            let texts: Vec<(Field, &str)> = [(Field::Name, Some(name)), (Field::Path, path)]
                .into_iter()
                .filter_map(|(f, t)| Some((f, t?)))
                .collect();
            self.apply(Concept::SysEntry, &Given { numbers, texts: &texts, address });
        }

        fn end(&mut self, numbers: &[(Field, i128)], address: Option<[u8; 4]>) {
            self.apply(Concept::SysExit, &Given { numbers, texts: &[], address });
        }

        fn call(&mut self, name: &str, numbers: &[(Field, i128)], ret: i128) {
            self.begin(name, numbers, None, None);
            self.end(&[(Field::Ret, ret)], None);
        }

        fn open(&mut self, path: &str, ret: i128) {
            self.begin("openat", &[], Some(path), None);
            self.end(&[(Field::Ret, ret)], None);
        }

        /// Open files of a process.
        fn open_files(&self, pid: i64) -> Vec<(i64, &str)> {
            let all: Vec<_> = self.files.open().collect();
            assert_eq!(all.len(), self.files.count);
            all.into_iter().filter(|(_, own, ..)| *own == pid).map(|(_, _, fd, name)| (fd, name)).collect()
        }
    }

    #[test]
    fn calls_open_copy_and_close() {
        let mut scene = Scene::new(MAX_FILES);
        scene.run(5);
        scene.open("/a", 3);
        scene.open("/nope", -2);
        scene.call("dup2", &[(Field::Fd, 3), (Field::New, 9)], 9);
        scene.call("fcntl", &[(Field::Fd, 3), (Field::Op, 1030)], 10);
        scene.call("fcntl", &[(Field::Fd, 3), (Field::Op, 3)], 4);
        assert_eq!(scene.open_files(5), [(3, "/a"), (9, "/a"), (10, "/a")]);
        // Only 0 says that it is closed.
        for other in [-4, -9, 5] {
            scene.call("close", &[(Field::Fd, 9)], other);
        }
        scene.call("close", &[(Field::Fd, 3)], 0);
        // The file of descriptor 77 is unknown, so descriptor 10 names no file afterwards.
        scene.call("dup2", &[(Field::Fd, 77), (Field::New, 10)], 10);
        assert_eq!(scene.open_files(5), [(9, "/a")]);
        let numbers = &[(Field::Pid, 5), (Field::Fd, 1)];
        scene.apply(Concept::DumpFile, &Given { numbers, texts: &[(Field::Name, "/dev/tty")], address: None });
        assert_eq!(scene.open_files(5), [(1, "/dev/tty"), (9, "/a")]);
        scene.apply(Concept::Free, &Given { numbers: &[(Field::Tid, 5)], ..Given::default() });
        assert_eq!(scene.open_files(5), []);
    }

    #[test]
    fn a_call_is_about_the_file_behind_its_descriptor_when_it_begins() {
        let mut scene = Scene::new(MAX_FILES);
        scene.run(5);
        scene.open("/a", 3);
        let of_call = |scene: &Scene| {
            let thread = scene.machines.find_thread(0, 5).expect("it runs");
            scene.files.file_of_call(thread).map(|name| name.to_string())
        };
        scene.begin("close", &[(Field::Fd, 3)], None, None);
        assert_eq!(of_call(&scene).as_deref(), Some("/a"));
        scene.end(&[(Field::Ret, 0)], None);
        scene.begin("creat", &[(Field::Fd, 3)], Some("/b"), None);
        assert_eq!(of_call(&scene).as_deref(), Some("/b"));
        // A call of no class follows, and nothing is left of the one before.
        scene.begin("getpid", &[(Field::Fd, 3)], None, None);
        assert_eq!(of_call(&scene), None);
    }

    #[test]
    fn a_range_of_descriptors_is_closed() {
        let mut scene = Scene::new(MAX_FILES);
        scene.run(5);
        (3..9).for_each(|fd| scene.open("/a", fd));
        let fds = |scene: &Scene| scene.open_files(5).iter().map(|(fd, _)| *fd).collect::<Vec<_>>();
        scene.call("close_range", &[(Field::Fd, 4), (Field::New, 5)], 0);
        assert_eq!(fds(&scene), [3, 6, 7, 8]);
        // It failed, its last descriptor is before the first one, or they are closed later.
        scene.call("close_range", &[(Field::Fd, 3), (Field::New, 9)], -22);
        scene.call("close_range", &[(Field::Fd, 7), (Field::New, 6)], 0);
        scene.call("close_range", &[(Field::Fd, 3), (Field::New, 9), (Field::Op, 4)], 0);
        assert_eq!(fds(&scene), [3, 6, 7, 8]);
        scene.call("close_range", &[(Field::Fd, 7), (Field::New, u32::MAX.into())], 0);
        assert_eq!(fds(&scene), [3, 6]);
        scene.call("close_range", &[(Field::Fd, 0), (Field::New, u64::MAX.into())], 0);
        assert_eq!(fds(&scene), [0; 0]);
    }

    #[test]
    fn sockets_are_named_after_their_peers() {
        let mut scene = Scene::new(MAX_FILES);
        scene.run(5);
        for (fd, ret) in [(3, 0), (4, -115), (5, -111)] {
            scene.call("socket", &[], fd);
            scene.begin("connect", &[(Field::Fd, fd), (Field::Port, 80)], None, Some([10, 0, 0, 1]));
            scene.end(&[(Field::Ret, ret)], None);
        }
        scene.begin("accept4", &[(Field::Fd, 5)], None, None);
        scene.end(&[(Field::Ret, 6), (Field::Port, 4242)], Some([127, 0, 0, 1]));
        scene.call("accept", &[(Field::Fd, 5)], 7);
        let expected = [(3, "10.0.0.1:80"), (4, "10.0.0.1:80"), (5, SOCKET), (6, "127.0.0.1:4242"), (7, SOCKET)];
        assert_eq!(scene.open_files(5), expected);
    }

    #[test]
    fn threads_share_files_and_processes_copy_them() {
        let mut scene = Scene::new(MAX_FILES);
        scene.run(5);
        scene.open("/a", 3);
        scene.fork(5, 6, 5);
        scene.fork(5, 7, 7);
        scene.run(6);
        scene.call("close", &[], 0);
        scene.open("/thread", 4);
        scene.run(7);
        scene.open("/process", 4);
        assert_eq!(scene.open_files(5), [(3, "/a"), (4, "/thread")]);
        assert_eq!(scene.open_files(7), [(3, "/a"), (4, "/process")]);
        assert_eq!(scene.open_files(6), []);
    }

    #[test]
    fn what_a_thread_opened_belongs_to_its_process_once_that_is_known() {
        let mut scene = Scene::new(MAX_FILES);
        scene.run(6);
        scene.open("/early", 3);
        scene.open("/both", 4);
        for (fd, name) in [(4, "/dump"), (5, "/other")] {
            let numbers = &[(Field::Pid, 5), (Field::Fd, fd)];
            scene.apply(Concept::DumpFile, &Given { numbers, texts: &[(Field::Name, name)], address: None });
        }
        let numbers = &[(Field::Tid, 6), (Field::Pid, 5)];
        scene.apply(Concept::DumpTask, &Given { numbers, ..Given::default() });
        assert_eq!(scene.open_files(6).len(), 2);
        scene.open("/late", 6);
        assert_eq!(scene.open_files(6), []);
        assert_eq!(scene.open_files(5), [(3, "/early"), (4, "/dump"), (5, "/other"), (6, "/late")]);
    }

    #[test]
    fn files_beyond_the_room_are_left_out() {
        let mut scene = Scene::new(8);
        scene.run(5);
        (0..6).for_each(|fd| scene.open("/a", fd));
        scene.fork(5, 7, 7);
        assert_eq!((scene.open_files(5).len(), scene.open_files(7).len(), scene.files.left_out()), (6, 0, 6));
        (6..12).for_each(|fd| scene.open("/b", fd));
        assert_eq!((scene.open_files(5).len(), scene.files.left_out()), (8, 10));
        // A process that has ended makes room, but that is not looked for each time.
        scene.apply(Concept::Exit, &Given { numbers: &[(Field::Tid, 5)], ..Given::default() });
        let numbers = &[(Field::Prev, 5), (Field::Next, 7), (Field::State, 64)];
        scene.apply(Concept::Switch, &Given { numbers, ..Given::default() });
        (0..4).for_each(|fd| scene.open("/c", fd));
        assert_eq!((scene.open_files(5).len(), scene.open_files(7).len(), scene.files.left_out()), (0, 2, 12));
    }
}
