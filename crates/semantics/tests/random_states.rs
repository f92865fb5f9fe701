//! The machine of states beside a naive one, on random streams of events.
//!
//! The naive machine is written from section 2 of `docs/kernel.md`, not from the code: it searches everything each time, and says
//! at each step of time what each CPU and each thread does. Streams are full of contradictions.
//!
//! `TRACEMILL_SEED=17 cargo test` runs one seed only, `TRACEMILL_SEEDS=1000000` that many. A failure shows the first events of
//! the stream up to the difference, and those of them without which there is none.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use tracemill_semantics::states::{
    ConceptValues, CpuPiece, Credit, Happening, Interrupt, Machines, Ns, Observer, RunEnd, Scheduled, SystemCall,
    ThreadIndex, ThreadPiece, ThreadState, Woken,
};
use tracemill_semantics::{Concept, Field};

// ---- Streams --------------------------------------------------------------------------------------------------------

struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            rng.next();
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Integer(i64),
    Text(&'static str),
}

#[derive(Clone, Debug)]
enum Act {
    /// An event without a concept.
    Nothing,
    /// Events may be lost from the time on.
    Loss,
    Event(Concept, Vec<(Field, Value)>),
}

/// An event, or the news of a loss.
#[derive(Clone, Debug)]
struct Step {
    ns: Ns,
    cpu: Option<u64>,
    /// The thread that the context of the event names.
    context: Option<i64>,
    act: Act,
}

impl ConceptValues for Step {
    fn integer(&self, field: Field) -> Option<i128> {
        match self.find(field)? {
            Value::Integer(value) => Some(i128::from(value)),
            Value::Text(_) => None,
        }
    }

    fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        match self.find(field)? {
            Value::Integer(_) => None,
            Value::Text(text) => Some(Cow::Borrowed(text)),
        }
    }
}

/// The context of an event.
struct Context(i64);

impl ConceptValues for Context {
    fn integer(&self, field: Field) -> Option<i128> {
        (field == Field::Tid).then_some(i128::from(self.0))
    }

    fn text(&self, _: Field) -> Option<Cow<'_, str>> {
        None
    }
}

impl Step {
    fn find(&self, field: Field) -> Option<Value> {
        let Act::Event(_, fields) = &self.act else { return None };
        fields.iter().find(|(own, _)| *own == field).map(|(_, value)| *value)
    }

    fn number(&self, field: Field) -> Option<i64> {
        self.integer(field).and_then(|value| i64::try_from(value).ok())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu.map_or("none".to_string(), |cpu| cpu.to_string());
        write!(out, "{} {cpu}", self.ns)?;
        if let Some(tid) = self.context {
            write!(out, " (context tid={tid})")?;
        }
        match &self.act {
            Act::Nothing => write!(out, " -"),
            Act::Loss => write!(out, " loss"),
            Act::Event(concept, fields) => {
                write!(out, " {concept:?}")?;
                for (field, value) in fields {
                    match value {
                        Value::Integer(value) => write!(out, " {field:?}={value}")?,
                        Value::Text(text) => write!(out, " {field:?}={text}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

struct Stream {
    is_legacy: bool,
    steps: Vec<Step>,
}

const TIDS: [i64; 8] = [0, 1, 2, 3, 4, 5, -1, -7];
const TASK_STATES: [i64; 14] = [0, 0, 0, 1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256];
const CALLS: [&str; 4] = ["read", "sys_write", "futex", "exit_group"];

fn random_stream(seed: u64) -> Stream {
    let mut rng = Rng::new(seed);
    let is_legacy = rng.one_in(5);
    let cpus = 1 + rng.below(3);
    let tids = &TIDS[..3 + rng.below(TIDS.len() as u64 - 2) as usize];
    // Some streams tell of a kernel that works, others of nothing that could be.
    let nonsense = rng.choose(&[4, 10, 40, 400]);
    let losses = rng.choose(&[15, 60, 1000]);
    let contexts = rng.choose(&[5, 50, 1000]);
    let mut running: Vec<i64> = vec![0; cpus as usize];
    let mut now: Ns = 1000;
    let mut steps = Vec::new();
    for _ in 0..rng.choose(&[12, 40, 120, 250]) {
        now += match rng.below(10) {
            0 | 1 => 0,
            2 if rng.one_in(3) => -Ns::from(rng.below(30)),
            _ => 1 + Ns::from(rng.below(20)),
        };
        let cpu = rng.below(cpus);
        let at = cpu as usize;
        let context = rng.one_in(contexts).then(|| if rng.one_in(nonsense) { rng.choose(tids) } else { running[at] });
        let mut step = Step { ns: now, cpu: (!rng.one_in(50)).then_some(cpu), context, act: Act::Nothing };
        if rng.one_in(losses) {
            let ns = now + Ns::from(rng.below(80)) - 30;
            steps.push(Step { ns, cpu: Some(rng.below(cpus + 1)), context: None, act: Act::Loss });
            continue;
        }
        if rng.one_in(400) {
            for _ in 0..70 {
                let act = Act::Event(Concept::IrqEntry, vec![(Field::Nr, Value::Integer(1))]);
                steps.push(Step { act, context: None, ..step.clone() });
            }
        }
        step.act = random_act(&mut rng, tids, nonsense, cpus, &mut running[at]);
        steps.push(step);
    }
    Stream { is_legacy, steps }
}

fn random_act(rng: &mut Rng, tids: &[i64], nonsense: u64, cpus: u64, running: &mut i64) -> Act {
    let mut fields: Vec<(Field, Value)> = Vec::new();
    let mut put = |field: Field, value: i64| fields.push((field, Value::Integer(value)));
    let tid = rng.choose(tids);
    let concept = match rng.below(44) {
        0..=10 => {
            let prev = if rng.one_in(nonsense) { rng.choose(tids) } else { *running };
            put(Field::State, rng.choose(&TASK_STATES));
            if !rng.one_in(120) {
                put(Field::Prev, prev);
            }
            if !rng.one_in(120) {
                put(Field::Next, tid);
                *running = tid;
            }
            if rng.one_in(2) {
                put(Field::Prio, rng.below(40) as i64);
            }
            Concept::Switch
        }
        11..=16 => {
            put(Field::Tid, tid);
            if !rng.one_in(3) {
                put(Field::Cpu, rng.below(cpus) as i64);
            }
            Concept::Wake
        }
        17 => {
            put(Field::Tid, tid);
            put(Field::Cpu, rng.below(cpus) as i64);
            Concept::Migrate
        }
        18..=20 => {
            let parent = if rng.one_in(nonsense) { rng.choose(tids) } else { *running };
            put(Field::Parent, parent);
            put(Field::Child, tid);
            if rng.one_in(2) {
                put(Field::Pid, 100 + rng.below(3) as i64);
                put(Field::Ppid, 100 + rng.below(3) as i64);
            }
            Concept::Fork
        }
        21 | 22 => {
            put(Field::Tid, if rng.one_in(nonsense) { tid } else { *running });
            Concept::Exit
        }
        23 => {
            put(Field::Tid, tid);
            Concept::Free
        }
        24..=27 => {
            fields.push((Field::Name, Value::Text(rng.choose(&CALLS))));
            Concept::SysEntry
        }
        28..=30 => {
            put(Field::Ret, rng.below(9) as i64 - 4);
            Concept::SysExit
        }
        31 | 32 => {
            put(Field::Nr, rng.below(2) as i64);
            Concept::IrqEntry
        }
        33 | 34 => {
            if !rng.one_in(4) {
                put(Field::Nr, rng.below(2) as i64);
            }
            Concept::IrqExit
        }
        35 | 36 => {
            put(Field::Nr, rng.below(10) as i64);
            rng.choose(&[Concept::SoftRaise, Concept::SoftEntry, Concept::SoftEntry])
        }
        37 => {
            put(Field::Nr, rng.below(10) as i64);
            Concept::SoftExit
        }
        38 => Concept::TrapEntry,
        39 => Concept::TrapExit,
        40 => rng.choose(&[Concept::TimerEntry, Concept::TimerExit, Concept::TimerExit]),
        41 => rng.choose(&[Concept::IpiEntry, Concept::IpiExit, Concept::IpiExit]),
        42 => {
            put(Field::Tid, tid);
            put(Field::Pid, 100 + rng.below(3) as i64);
            put(Field::Ppid, rng.below(3) as i64);
            put(Field::Type, rng.below(2) as i64);
            put(Field::Mode, rng.below(6) as i64);
            put(Field::Status, rng.below(9) as i64);
            Concept::DumpTask
        }
        _ => return Act::Nothing,
    };
    Act::Event(concept, fields)
}

// ---- What a machine says --------------------------------------------------------------------------------------------

/// Rows of something, in their order: begin, end, name.
type Rows = Vec<(Ns, Ns, String)>;

#[derive(Default, PartialEq, Eq)]
struct Said {
    cpus: BTreeMap<u64, Rows>,
    threads: BTreeMap<(i64, u32), Rows>,
    /// By kind, in their order.
    spans: BTreeMap<&'static str, Vec<String>>,
    counts: BTreeMap<&'static str, u64>,
    /// Process, parent and kernel, by life.
    people: BTreeMap<(i64, u32), String>,
}

fn add(rows: &mut Rows, from: Ns, to: Ns, name: &str) {
    match rows.last_mut() {
        Some(last) if last.1 == from && last.2 == name => last.1 = to,
        _ => rows.push((from, to, name.to_string())),
    }
}

impl Said {
    fn span(&mut self, kind: &'static str, text: String) {
        self.spans.entry(kind).or_default().push(text);
    }

    /// All of it, a line a fact.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let shown = |rows: &Rows| {
            rows.iter().fold(String::new(), |mut text, (from, to, name)| {
                let _ = write!(text, " {from}-{to} {name},");
                text
            })
        };
        lines.extend(self.cpus.iter().map(|(cpu, rows)| format!("cpu {cpu}:{}", shown(rows))));
        lines.extend(self.threads.iter().map(|((tid, life), rows)| format!("thread {tid}.{life}:{}", shown(rows))));
        lines.extend(self.spans.iter().map(|(kind, spans)| format!("{kind}: {}", spans.join(", "))));
        lines.extend(self.counts.iter().map(|(name, count)| format!("{name}: {count}")));
        lines.extend(self.people.iter().map(|((tid, life), text)| format!("person {tid}.{life}: {text}")));
        lines
    }
}

/// A number or nothing.
fn maybe<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or("-".to_string(), |value| value.to_string())
}

// ---- The machine that is tested --------------------------------------------------------------------------------------

#[derive(Default)]
struct Heard {
    said: Said,
    born: BTreeMap<(i64, u32), Ns>,
    faults: Vec<String>,
}

fn life_of(machines: &Machines, thread: ThreadIndex) -> (i64, u32) {
    let thread = machines.thread(thread);
    (thread.tid, thread.life())
}

fn life_name(machines: &Machines, thread: ThreadIndex) -> String {
    let (tid, life) = life_of(machines, thread);
    format!("{tid}.{life}")
}

impl Heard {
    /// Rows follow each other, and none is empty.
    fn check(&mut self, owner: &str, rows: &Rows, from: Ns, to: Ns) {
        if from >= to || rows.last().is_some_and(|last| last.1 > from) {
            self.faults.push(format!("{owner}: {from}-{to} after {:?}", rows.last()));
        }
    }
}

impl Observer for Heard {
    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        let life = life_of(machines, piece.thread);
        let mut rows = self.said.threads.remove(&life).unwrap_or_default();
        self.check("a thread", &rows, piece.from, piece.to);
        add(&mut rows, piece.from, piece.to, piece.state.name());
        self.said.threads.insert(life, rows);
    }

    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        let number = machines.cpu(piece.cpu).number;
        let thread = match piece.thread {
            None => "?".to_string(),
            Some(None) => "0".to_string(),
            Some(Some(thread)) => life_name(machines, thread),
        };
        let mut rows = self.said.cpus.remove(&number).unwrap_or_default();
        self.check("a CPU", &rows, piece.from, piece.to);
        add(&mut rows, piece.from, piece.to, &format!("{} {thread}", piece.status.name()));
        self.said.cpus.insert(number, rows);
    }

    fn scheduled(&mut self, machines: &Machines, scheduled: &Scheduled) {
        let Scheduled { woken, at, cpu, prio } = scheduled;
        let text = format!(
            "{} {}-{at} on {} prio {} by {} {}",
            life_name(machines, woken.thread),
            woken.at,
            machines.cpu(*cpu).number,
            maybe(*prio),
            maybe(woken.waker.map(|waker| life_name(machines, waker))),
            woken.reason.name()
        );
        self.said.span("sched", text);
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        self.said.span("woken", format!("{} {}", life_name(machines, woken.thread), woken.at));
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, _: &Happening<'_>) {
        let (thread, cpu) = (life_name(machines, call.thread), machines.cpu(call.cpu).number);
        let text = format!("{thread} {} {}-{} on {cpu} ret {}", call.name, call.from, call.to, maybe(call.ret));
        self.said.span("syscalls", text);
    }

    fn interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>) {
        let Interrupt { kind, number, cpu, from, to, raised, .. } = interrupt;
        let cpu = machines.cpu(*cpu).number;
        self.said.span("irq", format!("{} {number} {from}-{to} on {cpu} raised {}", kind.name(), maybe(*raised)));
    }

    fn credit(&mut self, machines: &Machines, credit: &Credit) {
        let (thread, cpu) = (life_name(machines, credit.thread), machines.cpu(credit.cpu).number);
        self.said.span("credits", format!("{thread} {}-{} on {cpu}", credit.from, credit.to));
    }

    fn run_began(&mut self, machines: &Machines, thread: ThreadIndex, has_migrated: bool, at: Ns) {
        let how = if has_migrated { "migrated" } else { "began" };
        self.said.span("runs", format!("{} {how} {at}", life_name(machines, thread)));
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        let how = match how {
            RunEnd::Preempted => "preempted",
            RunEnd::Blocked => "blocked",
            RunEnd::Ended => "ended",
            RunEnd::Unknown => "unknown",
        };
        self.said.span("runs", format!("{} {how} {at}", life_name(machines, thread)));
    }

    fn created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        self.born.insert(life_of(machines, thread), at);
    }
}

fn feed(machines: &mut Machines, stream: &Stream, step: &Step, heard: &mut Heard) {
    let is_legacy = stream.is_legacy;
    if let (Act::Loss, Some(cpu)) = (&step.act, step.cpu) {
        machines.apply_loss(0, cpu, step.ns);
        return;
    }
    let cpu = machines.touch(0, step.ns, step.cpu, heard);
    if let (Some(tid), Some(cpu)) = (step.context, cpu) {
        let values = Context(tid);
        machines.running(cpu, &Happening { concept: Concept::Running, is_legacy, values: &values }, heard);
    }
    if let Act::Event(concept, _) = step.act {
        machines.apply(0, cpu, &Happening { concept, is_legacy, values: step }, heard);
    }
}

/// Reports of the machine on a stream.
fn said_by_machine(stream: &Stream, steps: &[Step]) -> Said {
    let (mut machines, mut heard) = (Machines::new(1), Heard::default());
    for step in steps {
        feed(&mut machines, stream, step, &mut heard);
    }
    machines.finish(&mut heard);
    let counts = machines.counts();
    let mut said = heard.said;
    said.counts = BTreeMap::from([
        ("events", counts.events),
        ("unmatched_syscall_exits", counts.unmatched_syscall_exits),
        ("replaced_syscalls", counts.replaced_syscalls),
        ("unmatched_irq_exits", counts.unmatched_irq_exits),
        ("inconsistent_switches", counts.inconsistent_switches),
        ("cleared_interrupts", counts.cleared_interrupts),
        ("bad_fields", counts.bad_fields),
        ("time_back", counts.time_back),
        ("too_deep", counts.too_deep),
    ]);
    for (index, thread) in machines.threads() {
        let text = format!("pid {} ppid {} kernel {}", maybe(thread.pid()), maybe(thread.ppid()), thread.is_kernel());
        said.people.insert(life_of(&machines, index), text);
    }
    said
}

// ---- The naive machine -----------------------------------------------------------------------------------------------

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cur {
    Unknown,
    Idle,
    /// The place of its life.
    Life(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Unknown,
    WaitFork,
    WaitCpu,
    Wait,
    Runs,
    Zombie,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Irq,
    Softirq,
    Trap,
}

struct OnCpu {
    kind: Kind,
    number: i64,
    since: Ns,
    raised: Option<Ns>,
}

enum OnThread {
    Trap,
    /// A system call, and its entry when that was seen.
    Call(Option<(String, Ns)>),
}

struct NaiveCpu {
    cur: Cur,
    stack: Vec<OnCpu>,
    raises: BTreeMap<i64, Ns>,
    is_in_timer: bool,
    is_in_ipi: bool,
    /// Beginning of the trace or end of a loss, when nothing named a thread since.
    unknown_since: Option<Ns>,
}

struct Wake {
    at: Ns,
    waker: Option<usize>,
    reason: &'static str,
}

struct Life {
    tid: i64,
    number: u32,
    does: Does,
    stack: Vec<OnThread>,
    is_mode_known: bool,
    is_kernel: bool,
    pid: Option<i64>,
    ppid: Option<i64>,
    ran_on: Option<u64>,
    /// The CPU that it ran on or was queued on last.
    belongs_to: Option<u64>,
    wake: Option<Wake>,
    named: Option<Ns>,
    has_exited: bool,
    is_freed: bool,
    has_had_state: bool,
    is_over: bool,
}

#[derive(Default)]
struct Naive {
    is_legacy: bool,
    begin: Option<Ns>,
    now: Ns,
    cpus: BTreeMap<u64, NaiveCpu>,
    lives: Vec<Life>,
    losses: Vec<(Ns, u64)>,
    said: Said,
}

impl Naive {
    fn count(&mut self, name: &'static str, by: usize) {
        *self.said.counts.entry(name).or_default() += by as u64;
    }

    fn name(&self, life: usize) -> String {
        format!("{}.{}", self.lives[life].tid, self.lives[life].number)
    }

    fn cpu(&mut self, number: u64) -> &mut NaiveCpu {
        let (begin, now) = (self.begin.unwrap_or(self.now), self.now);
        if !self.cpus.contains_key(&number) && begin < now {
            self.said.cpus.insert(number, vec![(begin, now, "unknown ?".to_string())]);
        }
        self.cpus.entry(number).or_insert(NaiveCpu {
            cur: Cur::Unknown,
            stack: Vec::new(),
            raises: BTreeMap::new(),
            is_in_timer: false,
            is_in_ipi: false,
            unknown_since: Some(begin),
        })
    }

    fn newest(&self, tid: i64) -> Option<usize> {
        self.lives.iter().rposition(|life| life.tid == tid)
    }

    fn runs_on(&self, life: usize) -> Option<u64> {
        self.cpus.iter().find(|(_, cpu)| cpu.cur == Cur::Life(life)).map(|(number, _)| *number)
    }

    /// Another CPU than this one has the thread: not any more.
    fn leave_others(&mut self, life: usize, here: Option<u64>) {
        for (number, cpu) in &mut self.cpus {
            if cpu.cur == Cur::Life(life) && Some(*number) != here {
                cpu.cur = Cur::Unknown;
            }
        }
    }

    fn new_life(&mut self, tid: i64) -> usize {
        let before = self.newest(tid);
        if let Some(before) = before {
            self.leave_others(before, None);
            self.lives[before].is_over = true;
        }
        self.lives.push(Life {
            tid,
            number: before.map_or(0, |before| self.lives[before].number + 1),
            does: Does::Unknown,
            stack: Vec::new(),
            is_mode_known: false,
            is_kernel: false,
            pid: None,
            ppid: None,
            ran_on: None,
            belongs_to: None,
            wake: None,
            named: None,
            has_exited: false,
            is_freed: false,
            has_had_state: false,
            is_over: false,
        });
        self.lives.len() - 1
    }

    fn met(&mut self, tid: i64) -> usize {
        self.newest(tid).unwrap_or_else(|| self.new_life(tid))
    }

    /// By a switch, a wake or a context: a thread that has ended is another one by now.
    fn alive(&mut self, tid: i64) -> usize {
        match self.newest(tid) {
            Some(life) if !matches!(self.lives[life].does, Does::Zombie | Does::Dead) => life,
            _ => self.new_life(tid),
        }
    }

    /// The mode by the stack of a thread (K5).
    fn mode(&self, life: usize) -> &'static str {
        let life = &self.lives[life];
        match life.stack.last() {
            Some(OnThread::Trap) => "trap",
            Some(OnThread::Call(_)) => "syscall",
            None if life.is_kernel => "kernel",
            None if life.is_mode_known => "user",
            None => "unknown",
        }
    }

    fn thread_state(&self, life: usize) -> String {
        let is_interrupted = || self.runs_on(life).is_some_and(|cpu| !self.cpus[&cpu].stack.is_empty());
        let text = match self.lives[life].does {
            Does::Unknown => "UNKNOWN",
            Does::WaitFork => "WAIT_FORK",
            Does::WaitCpu => "WAIT_CPU",
            Does::Wait => "WAIT",
            Does::Zombie => "ZOMBIE",
            Does::Dead => "DEAD",
            Does::Runs if self.lives[life].has_exited => "EXIT",
            Does::Runs if is_interrupted() => "INTERRUPTED",
            Does::Runs => return format!("RUN/{}", self.mode(life)),
        };
        text.to_string()
    }

    fn cpu_status(&self, cpu: &NaiveCpu) -> String {
        let (own, thread) = match cpu.cur {
            Cur::Unknown => ("unknown", "?".to_string()),
            Cur::Idle => ("idle", "0".to_string()),
            Cur::Life(life) => (self.mode(life), self.name(life)),
        };
        let status = match cpu.stack.last().map(|top| top.kind) {
            Some(Kind::Irq) => "irq",
            Some(Kind::Softirq) => "softirq",
            Some(Kind::Trap) => "trap",
            None => own,
        };
        format!("{status} {thread}")
    }

    /// Time goes on: everything did until then what it does now.
    fn advance(&mut self, to: Ns) {
        if to <= self.now {
            return;
        }
        let cpus: Vec<_> = self.cpus.iter().map(|(number, cpu)| (*number, self.cpu_status(cpu))).collect();
        for (number, status) in cpus {
            add(self.said.cpus.entry(number).or_default(), self.now, to, &status);
        }
        for at in 0..self.lives.len() {
            let state = self.thread_state(at);
            if !self.lives[at].is_over && state != "UNKNOWN" {
                let life = (self.lives[at].tid, self.lives[at].number);
                add(self.said.threads.entry(life).or_default(), self.now, to, &state);
            }
        }
        self.now = to;
    }

    /// The state of a thread becomes unknown (`docs/kernel.md`, section 2.5).
    fn forget(&mut self, at: usize) {
        self.leave_others(at, None);
        let life = &mut self.lives[at];
        life.does = Does::Unknown;
        life.stack.clear();
        life.is_mode_known = false;
        life.wake = None;
    }

    /// Losses take effect in the order of their times, at the latest now.
    fn lose_until(&mut self, until: Ns) {
        self.losses.sort_unstable();
        while let Some(&(at, number)) = self.losses.first().filter(|(at, _)| *at <= until) {
            self.losses.remove(0);
            self.advance(at);
            let now = self.now;
            let cpu = self.cpu(number);
            let cur = std::mem::replace(&mut cpu.cur, Cur::Unknown);
            cpu.stack.clear();
            cpu.raises.clear();
            (cpu.is_in_timer, cpu.is_in_ipi) = (false, false);
            cpu.unknown_since = Some(now);
            for at in 0..self.lives.len() {
                let has_ended = matches!(self.lives[at].does, Does::Zombie | Does::Dead) || self.lives[at].is_over;
                if cur == Cur::Life(at) || self.lives[at].belongs_to == Some(number) && !has_ended {
                    self.forget(at);
                }
            }
        }
    }

    fn apply(&mut self, step: &Step) {
        if let (Act::Loss, Some(cpu)) = (&step.act, step.cpu) {
            self.losses.push((step.ns, cpu));
            return;
        }
        self.count("events", 1);
        if self.begin.is_none() {
            (self.begin, self.now) = (Some(step.ns), step.ns);
        }
        if step.ns < self.now {
            self.count("time_back", 1);
        }
        let ns = step.ns.max(self.now);
        self.lose_until(ns);
        self.advance(ns);
        if let Some(number) = step.cpu {
            self.cpu(number);
            if let Some(tid) = step.context {
                self.running(number, tid);
                self.note_states();
            }
        }
        if let Act::Event(concept, _) = step.act {
            self.happens(concept, step);
        }
        self.note_states();
    }

    fn note_states(&mut self) {
        for life in &mut self.lives {
            life.has_had_state |= life.does != Does::Unknown;
        }
    }

    fn running(&mut self, number: u64, tid: i64) {
        if self.cpu(number).cur != Cur::Unknown {
            return;
        }
        self.cpu(number).unknown_since = None;
        if tid == 0 {
            self.cpu(number).cur = Cur::Idle;
            return;
        }
        let life = self.alive(tid);
        self.begins_to_run(life, number);
    }

    fn begins_to_run(&mut self, at: usize, number: u64) {
        self.leave_others(at, Some(number));
        self.cpu(number).cur = Cur::Life(at);
        let life = &mut self.lives[at];
        life.does = Does::Runs;
        (life.ran_on, life.belongs_to) = (Some(number), Some(number));
        life.wake = None;
    }

    fn happens(&mut self, concept: Concept, step: &Step) {
        let tid = step.number(Field::Tid).filter(|tid| *tid != 0);
        match (concept, step.cpu, tid) {
            (Concept::Wake, _, Some(tid)) => self.wake(step, tid),
            (Concept::Migrate, _, Some(tid)) => {
                let life = self.met(tid);
                if self.lives[life].does != Does::Runs {
                    self.queue(life, step);
                }
            }
            (Concept::Fork, ..) => self.fork(step),
            (Concept::Exit, _, Some(tid)) => {
                let life = self.met(tid);
                let life = &mut self.lives[life];
                life.has_exited = true;
                if life.stack.is_empty() {
                    life.stack.push(OnThread::Call(None));
                }
            }
            (Concept::Free, _, Some(tid)) => {
                let life = self.met(tid);
                self.lives[life].is_freed = true;
                if self.runs_on(life).is_none() {
                    self.lives[life].does = Does::Dead;
                }
            }
            (Concept::DumpTask, _, Some(tid)) => self.dump(step, tid),
            (Concept::Switch, Some(cpu), _) => self.switch(step, cpu),
            (_, Some(cpu), _) => self.happens_on(concept, step, cpu),
            _ => {}
        }
    }

    fn wake(&mut self, step: &Step, tid: i64) {
        if self.newest(tid).is_some_and(|life| self.lives[life].does == Does::Runs) {
            return;
        }
        let at = self.alive(tid);
        let cur = step.cpu.map_or(Cur::Unknown, |number| self.cpus[&number].cur);
        let waker = match cur {
            Cur::Life(life) => Some(life),
            _ => None,
        };
        // A trap on the stack of a CPU has interrupted an interrupt.
        let reason = match step.cpu.map(|number| &self.cpus[&number]) {
            None => "unknown",
            Some(cpu) if cpu.is_in_timer => "timer",
            Some(cpu) if cpu.is_in_ipi => "ipi",
            Some(cpu) => match cpu.stack.last().map(|top| (top.kind, top.number)) {
                Some((Kind::Irq | Kind::Trap, _)) => "irq",
                Some((Kind::Softirq, 1 | 8)) => "timer",
                Some((Kind::Softirq, 2 | 3)) => "network",
                Some((Kind::Softirq, 4 | 5)) => "disk",
                Some((Kind::Softirq, _)) => "softirq",
                None => waker.map_or("unknown", |_| "thread"),
            },
        };
        let now = self.now;
        let life = &mut self.lives[at];
        life.named = Some(now);
        if matches!(life.does, Does::Wait | Does::WaitFork | Does::Unknown) {
            life.does = Does::WaitCpu;
        }
        if life.wake.is_none() {
            life.wake = Some(Wake { at: now, waker, reason });
            let text = format!("{} {now}", self.name(at));
            self.said.span("woken", text);
        }
        self.queue(at, step);
    }

    /// It waits for the CPU that the event names.
    fn queue(&mut self, life: usize, step: &Step) {
        if let Some(cpu) = step.number(Field::Cpu).and_then(|cpu| u64::try_from(cpu).ok()) {
            self.cpu(cpu);
            self.lives[life].belongs_to = Some(cpu);
        }
    }

    fn fork(&mut self, step: &Step) {
        let (Some(parent), Some(child)) = (step.number(Field::Parent), step.number(Field::Child)) else { return };
        if child == 0 {
            return;
        }
        let maker = (parent != 0).then(|| self.met(parent));
        let before = self.newest(child);
        let has_had_state = before.is_some_and(|life| self.lives[life].has_had_state);
        // One that is unknown again may be another one by now.
        let is_alive = |life: usize| !matches!(self.lives[life].does, Does::Unknown | Does::Zombie | Does::Dead);
        if self.is_legacy && before.is_some_and(is_alive) {
            return;
        }
        let mut said = (step.number(Field::Pid), step.number(Field::Ppid));
        let listed = before.filter(|_| !has_had_state).map(|life| (self.lives[life].pid, self.lives[life].ppid));
        if let (None, None, Some((Some(pid), Some(ppid)))) = (said.0, said.1, listed)
            && maker.is_some_and(|maker| self.lives[maker].pid.is_none_or(|known| known == ppid))
        {
            said = (Some(pid), Some(ppid));
        }
        let (pid, said_ppid) = said;
        let maker_pid = said_ppid.or(maker.and_then(|life| self.lives[life].pid));
        let maker_ppid = maker.and_then(|life| self.lives[life].ppid);
        let is_kernel = parent == 2 || maker.is_some_and(|life| self.lives[life].is_kernel);
        if let Some(maker) = maker {
            self.lives[maker].pid = self.lives[maker].pid.or(maker_pid);
        }
        let at = before.filter(|_| !has_had_state).unwrap_or_else(|| self.new_life(child));
        let is_thread = pid.is_some() && pid == said_ppid;
        let now = self.now;
        let life = &mut self.lives[at];
        life.pid = pid;
        life.ppid = if is_thread { maker_ppid } else { maker_pid.or(Some(parent)) };
        life.is_kernel = is_kernel;
        life.does = Does::WaitFork;
        life.is_mode_known = true;
        life.named = Some(now);
        (life.has_exited, life.is_freed) = (false, false);
        life.stack.clear();
        if !is_kernel {
            life.stack.push(OnThread::Call(None));
        }
    }

    fn dump(&mut self, step: &Step, tid: i64) {
        let at = self.met(tid);
        let life = &mut self.lives[at];
        life.pid = life.pid.or(step.number(Field::Pid));
        life.ppid = life.ppid.or(step.number(Field::Ppid));
        life.is_kernel |= step.number(Field::Type) == Some(1);
        if life.does != Does::Unknown {
            return;
        }
        life.does = match step.number(Field::Status) {
            Some(1) => Does::WaitFork,
            Some(2 | 6) => Does::WaitCpu,
            Some(3) => {
                life.has_exited = true;
                Does::Runs
            }
            Some(4) => Does::Zombie,
            Some(5) => Does::Wait,
            Some(7) => Does::Dead,
            _ => Does::Unknown,
        };
        let mode = step.number(Field::Mode);
        life.is_mode_known |= matches!(mode, Some(0..=2));
        life.stack.clear();
        match mode {
            Some(1) => life.stack.push(OnThread::Call(None)),
            Some(2) => life.stack.push(OnThread::Trap),
            _ => {}
        }
    }

    fn switch(&mut self, step: &Step, number: u64) {
        let (Some(prev), Some(next)) = (step.number(Field::Prev), step.number(Field::Next)) else {
            self.count("bad_fields", 1);
            return;
        };
        let now = self.now;
        let open = self.cpu(number).stack.len();
        self.count("cleared_interrupts", open);
        let cpu = self.cpu(number);
        cpu.stack.clear();
        (cpu.is_in_timer, cpu.is_in_ipi) = (false, false);
        let unknown_since = cpu.unknown_since.take();
        let cur = std::mem::replace(&mut cpu.cur, Cur::Unknown);
        let was_prev = match cur {
            Cur::Unknown => true,
            Cur::Idle => prev == 0,
            Cur::Life(life) => self.lives[life].tid == prev,
        };
        if !was_prev {
            self.count("inconsistent_switches", 1);
            if let Cur::Life(life) = cur {
                self.forget(life);
            }
        }
        if prev != 0 {
            let at = self.alive(prev);
            self.leave_others(at, None);
            if let Some(since) = unknown_since {
                let from = self.lives[at].named.map_or(since, |named| named.max(since));
                if from < now {
                    let text = format!("{} {from}-{now} on {number}", self.name(at));
                    self.said.span("credits", text);
                }
            }
            let state = step.number(Field::State).unwrap_or_default();
            let does = after_switch(&self.lives[at], state, self.is_legacy);
            let life = &mut self.lives[at];
            life.does = does;
            life.named = Some(now);
            (life.ran_on, life.belongs_to) = (Some(number), Some(number));
            let how = match does {
                Does::WaitCpu => "preempted",
                Does::Wait => "blocked",
                _ => "ended",
            };
            let text = format!("{} {how} {now}", self.name(at));
            self.said.span("runs", text);
        }
        if next == 0 {
            self.cpu(number).cur = Cur::Idle;
            return;
        }
        let at = self.alive(next);
        let name = self.name(at);
        if let Some(wake) = self.lives[at].wake.take() {
            let waker = maybe(wake.waker.map(|waker| self.name(waker)));
            let prio = maybe(step.number(Field::Prio));
            let Wake { at, reason, .. } = wake;
            self.said.span("sched", format!("{name} {at}-{now} on {number} prio {prio} by {waker} {reason}"));
        }
        let has_migrated = self.lives[at].ran_on.is_some_and(|before| before != number);
        let how = if has_migrated { "migrated" } else { "began" };
        self.said.span("runs", format!("{name} {how} {now}"));
        self.begins_to_run(at, number);
        self.lives[at].named = Some(now);
    }

    /// Something that happens on a CPU, or to the thread that it runs.
    fn happens_on(&mut self, concept: Concept, step: &Step, number: u64) {
        let now = self.now;
        let nr = step.number(Field::Nr);
        let cur = match self.cpu(number).cur {
            Cur::Life(life) => Some(life),
            _ => None,
        };
        let is_interrupted = !self.cpu(number).stack.is_empty();
        match concept {
            Concept::IrqEntry => self.interrupted(number, Kind::Irq, nr.unwrap_or(-1)),
            Concept::SoftEntry => self.interrupted(number, Kind::Softirq, nr.unwrap_or(-1)),
            Concept::TrapEntry if is_interrupted => self.interrupted(number, Kind::Trap, -1),
            Concept::IrqExit => self.interrupt_ends(number, Kind::Irq, nr),
            Concept::SoftExit => self.interrupt_ends(number, Kind::Softirq, nr),
            Concept::TrapExit if is_interrupted => {
                let stack = &mut self.cpu(number).stack;
                if let Some(at) = stack.iter().rposition(|on| on.kind == Kind::Trap) {
                    stack.truncate(at);
                }
            }
            Concept::SoftRaise => {
                if let Some(nr) = nr {
                    self.cpu(number).raises.entry(nr).or_insert(now);
                }
            }
            Concept::TimerEntry => self.cpu(number).is_in_timer = true,
            Concept::TimerExit => self.cpu(number).is_in_timer = false,
            Concept::IpiEntry => self.cpu(number).is_in_ipi = true,
            Concept::IpiExit => self.cpu(number).is_in_ipi = false,
            Concept::TrapEntry => {
                if let Some(life) = cur {
                    self.lives[life].stack.push(OnThread::Trap);
                }
            }
            Concept::TrapExit => {
                let Some(life) = cur else { return };
                let stack = &mut self.lives[life].stack;
                if let Some(at) = stack.iter().rposition(|on| matches!(on, OnThread::Trap)) {
                    stack.truncate(at);
                }
            }
            Concept::SysEntry => {
                let (Some(life), Some(name)) = (cur, step.text(Field::Name)) else { return };
                let name = name.strip_prefix("sys_").unwrap_or(&name).to_string();
                let stack = &mut self.lives[life].stack;
                let before = stack.len();
                stack.retain(|on| matches!(on, OnThread::Trap));
                let replaced = before - stack.len();
                stack.push(OnThread::Call(Some((name, now))));
                self.lives[life].is_mode_known = true;
                self.count("replaced_syscalls", replaced);
            }
            Concept::SysExit => {
                let Some(life) = cur else { return };
                self.lives[life].is_mode_known = true;
                let stack = &mut self.lives[life].stack;
                let Some(at) = stack.iter().rposition(|on| matches!(on, OnThread::Call(_))) else {
                    self.count("unmatched_syscall_exits", 1);
                    return;
                };
                let popped = stack.drain(at..).next();
                if let Some(OnThread::Call(Some((call, from)))) = popped {
                    let (thread, ret) = (self.name(life), maybe(step.number(Field::Ret)));
                    self.said.span("syscalls", format!("{thread} {call} {from}-{now} on {number} ret {ret}"));
                }
            }
            _ => {}
        }
    }

    fn interrupted(&mut self, number: u64, kind: Kind, nr: i64) {
        let now = self.now;
        let cpu = self.cpu(number);
        let raised = if kind == Kind::Softirq { cpu.raises.remove(&nr) } else { None };
        if cpu.stack.len() == 64 {
            self.count("too_deep", 1);
        } else {
            cpu.stack.push(OnCpu { kind, number: nr, since: now, raised });
        }
    }

    fn interrupt_ends(&mut self, number: u64, kind: Kind, nr: Option<i64>) {
        let now = self.now;
        let stack = &mut self.cpu(number).stack;
        let is_it = |on: &OnCpu| on.kind == kind && nr.is_none_or(|nr| nr == on.number);
        let Some(at) = stack.iter().rposition(is_it) else {
            self.count("unmatched_irq_exits", 1);
            return;
        };
        let kind = if kind == Kind::Irq { "irq" } else { "softirq" };
        for OnCpu { number: nr, since, raised, .. } in stack.drain(at..).take(1).collect::<Vec<_>>() {
            let text = format!("{kind} {nr} {since}-{now} on {number} raised {}", maybe(raised));
            self.said.span("irq", text);
        }
    }
}

/// Decision K6.
fn after_switch(life: &Life, state: i64, is_legacy: bool) -> Does {
    let has = |bits: &[i64]| bits.iter().any(|bit| state & bit != 0);
    if life.is_freed {
        return Does::Dead;
    }
    if life.has_exited && has(&[16, 32, 64, 128]) {
        return if is_legacy && has(&[32]) { Does::Dead } else { Does::Zombie };
    }
    if is_legacy {
        return if state == 0 { Does::WaitCpu } else { Does::Wait };
    }
    if has(&[1, 2, 4, 8]) {
        Does::Wait
    } else if has(&[16, 32]) {
        Does::Zombie
    } else if has(&[64, 128]) {
        Does::Wait
    } else {
        Does::WaitCpu
    }
}

fn said_by_naive(stream: &Stream, steps: &[Step]) -> Said {
    let mut naive = Naive { is_legacy: stream.is_legacy, ..Naive::default() };
    for name in [
        "events",
        "unmatched_syscall_exits",
        "replaced_syscalls",
        "unmatched_irq_exits",
        "inconsistent_switches",
        "cleared_interrupts",
        "bad_fields",
        "time_back",
        "too_deep",
    ] {
        naive.count(name, 0);
    }
    for step in steps {
        naive.apply(step);
    }
    if naive.begin.is_some() {
        naive.lose_until(naive.now);
    }
    let mut said = naive.said;
    for life in &naive.lives {
        let text = format!("pid {} ppid {} kernel {}", maybe(life.pid), maybe(life.ppid), life.is_kernel);
        said.people.insert((life.tid, life.number), text);
    }
    said
}

// ---- Both ------------------------------------------------------------------------------------------------------------

/// Lines in which the machines differ.
fn difference(stream: &Stream, steps: &[Step]) -> Option<String> {
    let (machine, naive) = (said_by_machine(stream, steps), said_by_naive(stream, steps));
    if machine == naive {
        return None;
    }
    let (machine, naive) = (machine.lines(), naive.lines());
    let mut text = String::new();
    for line in machine.iter().filter(|line| !naive.contains(line)) {
        let _ = writeln!(text, "machine: {line}");
    }
    for line in naive.iter().filter(|line| !machine.contains(line)) {
        let _ = writeln!(text, "naive:   {line}");
    }
    Some(text)
}

/// Some steps of a stream that still fail.
fn shortest(steps: &[Step], fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let length = (1..steps.len()).find(|length| fails(&steps[..*length])).unwrap_or(steps.len());
    let mut steps = steps[..length].to_vec();
    let mut at = steps.len();
    while at > 0 {
        at -= 1;
        let taken = steps.remove(at);
        if !fails(&steps) {
            steps.insert(at, taken);
        }
    }
    steps
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("TRACEMILL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRACEMILL_SEEDS").unwrap_or(count),
    }
}

fn listed(steps: &[Step]) -> String {
    steps.iter().fold(String::new(), |mut text, step| {
        let _ = writeln!(text, "{step}");
        text
    })
}

#[test]
fn the_machine_says_what_the_naive_one_says() {
    let mut kinds = BTreeSet::new();
    let seeds = seeds(800);
    let is_whole = seeds.end - seeds.start >= 100;
    for seed in seeds {
        let stream = random_stream(seed);
        if difference(&stream, &stream.steps).is_some() {
            let length =
                (1..=stream.steps.len()).find(|length| difference(&stream, &stream.steps[..*length]).is_some());
            let steps = shortest(&stream.steps, |steps| difference(&stream, steps).is_some());
            panic!(
                "seed {seed} differs after {} steps (legacy: {}); enough for that:\n{}\n{}",
                length.unwrap_or_default(),
                stream.is_legacy,
                listed(&steps),
                difference(&stream, &steps).unwrap_or_default()
            );
        }
        let said = said_by_naive(&stream, &stream.steps);
        kinds.extend(said.spans.keys().map(|kind| kind.to_string()));
        kinds.extend(said.counts.iter().filter(|(_, count)| **count > 0).map(|(name, _)| name.to_string()));
        kinds.extend(said.threads.values().flatten().map(|row| row.2.clone()));
    }
    // A state that no stream reaches would not be tested.
    let expected = 6 + 9 + 12;
    assert!(!is_whole || kinds.len() == expected, "{} of {expected}: {kinds:?}", kinds.len());
}

#[test]
fn rows_have_no_holes_but_unknown_ones() {
    for seed in seeds(300) {
        let stream = random_stream(seed);
        if let Some(fault) = hole(&stream, &stream.steps) {
            let steps = shortest(&stream.steps, |steps| hole(&stream, steps).is_some());
            panic!(
                "seed {seed} (legacy: {}): {fault}; enough for that:\n{}{}",
                stream.is_legacy,
                listed(&steps),
                hole(&stream, &steps).unwrap_or_default()
            );
        }
    }
}

/// A fault of the rows themselves: some that overlap, time of a life without a row in which the thread was known, or time of
/// a CPU without one.
fn hole(stream: &Stream, steps: &[Step]) -> Option<String> {
    let (mut machines, mut heard) = (Machines::new(1), Heard::default());
    // For each life, times at which it was unknown from that time on, and at which it was known or over.
    let mut known: BTreeMap<(i64, u32), Vec<(Ns, bool)>> = BTreeMap::new();
    let mut losses: Vec<Ns> = Vec::new();
    let look = |machines: &Machines, known: &mut BTreeMap<(i64, u32), Vec<(Ns, bool)>>| {
        for (index, thread) in machines.threads() {
            let is_newest = machines.find_thread(0, thread.tid) == Some(index);
            let is_known = is_newest && thread.state() != ThreadState::Unknown;
            known.entry((thread.tid, thread.life())).or_default().push((machines.now(), is_known));
        }
    };
    for step in steps {
        if let Act::Loss = step.act {
            losses.push(step.ns);
        } else if machines.begin().is_some() {
            // A loss takes effect between events: look there too.
            losses.sort_unstable();
            for at in losses.extract_if(.., |at| *at <= step.ns.max(machines.now())).collect::<Vec<_>>() {
                machines.touch(0, at, None, &mut heard);
                look(&machines, &mut known);
            }
        }
        feed(&mut machines, stream, step, &mut heard);
        look(&machines, &mut known);
    }
    machines.finish(&mut heard);
    let (begin, end) = (machines.begin()?, machines.now());
    if let Some(fault) = heard.faults.first() {
        return Some(fault.clone());
    }
    for (life, looks) in &known {
        let mut ends = looks.iter().map(|look| look.0).skip(1).chain([end]);
        let mut expected = Vec::new();
        for (from, is_known) in looks {
            let to = ends.next().unwrap_or(end);
            if *is_known && *from < to {
                match expected.last_mut() {
                    Some((_, last)) if *last == *from => *last = to,
                    _ => expected.push((*from, to)),
                }
            }
        }
        let mut covered: Vec<(Ns, Ns)> = Vec::new();
        for (from, to, _) in heard.said.threads.get(life).into_iter().flatten() {
            match covered.last_mut() {
                Some((_, last)) if *last == *from => *last = *to,
                _ => covered.push((*from, *to)),
            }
        }
        if covered != expected {
            return Some(format!("thread {life:?}: rows over {covered:?}, known over {expected:?}"));
        }
        if let (Some(born), Some(first)) = (heard.born.get(life), covered.first())
            && first.0 < *born
        {
            return Some(format!("thread {life:?} was born at {born}, and has a row from {}", first.0));
        }
    }
    for cpu in machines.cpus() {
        let rows = heard.said.cpus.get(&cpu.number).map_or(&[][..], |rows| rows);
        let is_whole = rows.windows(2).all(|pair| pair[0].1 == pair[1].0);
        let ends = rows.first().zip(rows.last()).map(|(first, last)| (first.0, last.1));
        if !is_whole || ends != (begin < end).then_some((begin, end)) {
            return Some(format!("cpu {}: {rows:?}, not all of {begin}-{end}", cpu.number));
        }
    }
    None
}
