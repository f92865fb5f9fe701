//! Rules of the machine of states (`docs/kernel.md`, section 2), each on a stream of events made by hand.
//!
//! A stream is text, an event a line: `TIME CPU CONCEPT FIELD=VALUE ..`, for instance `100 0 switch prev=0 next=5`. `-` stands
//! for an event without a concept, `context` for one whose context names the thread, `loss` for events lost from that time on,
//! and `!legacy` for the rules of old kernels.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use tracemill_semantics::states::{
    ConceptValues, Counts, CpuPiece, Credit, Happening, Interrupt, Machines, Ns, Observer, RunEnd, Scheduled,
    Suspensions, SystemCall, ThreadIndex, ThreadPiece, Woken,
};
use tracemill_semantics::{Concept, Field};

struct Fields<'a>(Vec<(Field, &'a str)>);

impl Fields<'_> {
    fn find(&self, field: Field) -> Option<&str> {
        self.0.iter().find(|(own, _)| *own == field).map(|(_, value)| *value)
    }
}

impl ConceptValues for Fields<'_> {
    fn integer(&self, field: Field) -> Option<i128> {
        self.find(field)?.parse().ok()
    }

    fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        self.find(field).filter(|value| value.parse::<i128>().is_err()).map(Cow::Borrowed)
    }
}

/// Pieces of something, in their order: begin, end, name.
type Pieces = Vec<(Ns, Ns, String)>;

/// Reports of a machine.
#[derive(Default)]
struct Seen {
    threads: BTreeMap<(i64, u32), Pieces>,
    cpus: BTreeMap<u64, Pieces>,
    waits: Vec<String>,
    calls: Vec<String>,
    interrupts: Vec<String>,
    credits: Vec<String>,
    runs: Vec<String>,
    wakes: Vec<String>,
    births: Vec<String>,
    counts: Counts,
    machines: Option<Machines>,
}

fn put(pieces: &mut Pieces, from: Ns, to: Ns, name: String) {
    assert!(from < to, "a piece without length: {from} {to} {name}");
    match pieces.last_mut() {
        Some(last) if last.1 == from && last.2 == name => last.1 = to,
        Some(last) => {
            assert!(last.1 <= from, "a piece before the last one: {last:?} {from} {name}");
            pieces.push((from, to, name));
        }
        None => pieces.push((from, to, name)),
    }
}

fn shown(pieces: Option<&Pieces>) -> String {
    let mut text = String::new();
    for (from, to, name) in pieces.into_iter().flatten() {
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}{from}-{to} {name}");
    }
    text
}

impl Observer for Seen {
    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        let thread = machines.thread(piece.thread);
        let pieces = self.threads.entry((thread.tid, thread.life())).or_default();
        put(pieces, piece.from, piece.to, piece.state.name().to_string());
    }

    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        let thread = match piece.thread {
            None => "?".to_string(),
            Some(None) => "0".to_string(),
            Some(Some(thread)) => machines.thread(thread).tid.to_string(),
        };
        let pieces = self.cpus.entry(machines.cpu(piece.cpu).number).or_default();
        put(pieces, piece.from, piece.to, format!("{} {thread}", piece.status.name()));
    }

    fn scheduled(&mut self, machines: &Machines, scheduled: &Scheduled) {
        let Scheduled { woken, at, cpu, prio } = scheduled;
        let waker = woken.waker.map(|waker| machines.thread(waker).tid);
        self.waits.push(format!(
            "{}: {}-{at} cpu {} prio {prio:?} by {waker:?} {}",
            machines.thread(woken.thread).tid,
            woken.at,
            machines.cpu(*cpu).number,
            woken.reason.name()
        ));
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        let (tid, reason, ending) = (machines.thread(woken.thread).tid, woken.reason, machines.ending_of(woken));
        let ending = if ending == reason { String::new() } else { format!(", ended by {}", ending.name()) };
        self.wakes.push(format!("{tid}: {}{ending}", reason.name()));
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, _: &Happening<'_>) {
        let tid = machines.thread(call.thread).tid;
        self.calls.push(format!("{tid}: {} {}-{} {:?}", call.name, call.from, call.to, call.ret));
    }

    fn interrupt(&mut self, _: &Machines, interrupt: &Interrupt<'_>) {
        let Interrupt { kind, number, from, to, raised, .. } = interrupt;
        self.interrupts.push(format!("{} {number} {from}-{to} {raised:?}", kind.name()));
    }

    fn credit(&mut self, machines: &Machines, credit: &Credit) {
        let tid = machines.thread(credit.thread).tid;
        self.credits.push(format!("{tid}: {}-{}", credit.from, credit.to));
    }

    fn run_began(&mut self, machines: &Machines, thread: ThreadIndex, has_migrated: bool, at: Ns) {
        let how = if has_migrated { "elsewhere" } else { "begins" };
        self.runs.push(format!("{at} {} {how}", machines.thread(thread).tid));
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        self.runs.push(format!("{at} {} {how:?}", machines.thread(thread).tid));
    }

    fn created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        let thread = machines.thread(thread);
        self.births.push(format!("{at} {}.{}", thread.tid, thread.life()));
    }
}

impl Seen {
    /// The states of the first life of a thread.
    fn thread(&self, tid: i64) -> String {
        self.life(tid, 0)
    }

    fn life(&self, tid: i64, life: u32) -> String {
        shown(self.threads.get(&(tid, life)))
    }

    fn cpu(&self, number: u64) -> String {
        shown(self.cpus.get(&number))
    }

    /// Facts about the newest life of a thread: pid, ppid, comm, and whether it is one of the kernel.
    fn person(&self, tid: i64) -> String {
        let machines = self.machines.as_ref().expect("the stream was played");
        let thread = machines.thread(machines.find_thread(0, tid).expect("it was met"));
        format!("{:?} {:?} {:?} {}", thread.pid(), thread.ppid(), thread.comm.as_deref(), thread.is_kernel())
    }
}

fn play(stream: &str) -> Seen {
    let (mut machines, mut seen) = (Machines::new(1), Seen::default());
    for line in stream.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_ascii_whitespace();
        let ns: Ns = words.next().and_then(|word| word.parse().ok()).expect("a time");
        let cpu: u64 = words.next().and_then(|word| word.parse().ok()).expect("a CPU");
        let name = words.next().expect("a concept");
        let mut fields = Fields(Vec::new());
        let mut is_legacy = false;
        for word in words {
            match word.split_once('=') {
                Some((field, value)) => fields.0.push((Field::from_name(field).expect(field), value)),
                None => is_legacy |= word == "!legacy",
            }
        }
        match name {
            "-" => drop(machines.touch(0, ns, Some(cpu), &mut seen)),
            "loss" => machines.apply_loss(0, cpu, ns),
            // Two CPUs have events; a CPU has none; one has them from, or until, a time.
            "recorded" => machines.record_cpus(0, [0, 1], true),
            "missing" => machines.miss_cpu(0, cpu),
            "from" => machines.cover_cpu(0, cpu, Some(ns), None),
            "unswitched" => machines.set_possible(0, [Concept::Running, Concept::SysEntry, Concept::SysExit].into()),
            // Without soft interrupts.
            "hard" => machines.set_possible(0, [Concept::Switch, Concept::Wake].into()),
            "until" => machines.cover_cpu(0, cpu, None, Some(ns)),
            "context" => {
                let cpu = machines.touch(0, ns, Some(cpu), &mut seen).expect("there is a CPU");
                let happening = Happening { concept: Concept::Running, is_legacy, values: &fields };
                machines.running(cpu, &happening, &mut seen);
            }
            name => {
                let concept = Concept::from_name(name).expect(name);
                let happening = Happening { concept, is_legacy, values: &fields };
                machines.apply_event(0, ns, Some(cpu), &happening, &mut seen);
            }
        }
    }
    machines.finish(&mut seen);
    seen.counts = machines.counts();
    seen.machines = Some(machines);
    seen
}

// ---- Switches -------------------------------------------------------------------------------------------------------

#[test]
fn a_switch_moves_two_threads() {
    let seen = play(
        "100 0 switch prev=0 next=5
         200 0 switch prev=5 next=6 state=1
         300 0 switch prev=6 next=0 state=0
         400 0 -",
    );
    assert_eq!(seen.thread(5), "100-200 RUN/unknown, 200-400 WAIT");
    assert_eq!(seen.thread(6), "200-300 RUN/unknown, 300-400 WAIT_CPU");
    assert_eq!(seen.cpu(0), "100-200 unknown 5, 200-300 unknown 6, 300-400 idle 0");
    assert_eq!(seen.runs, ["100 5 begins", "200 5 Blocked", "200 6 begins", "300 6 Preempted"]);
    assert_eq!(seen.counts, Counts { events: 4, ..Counts::default() });
}

#[test]
fn a_switch_from_another_thread_makes_the_running_one_unknown() {
    let seen = play(
        "100 0 switch prev=0 next=5
         150 0 sys_entry name=read
         200 0 switch prev=6 next=7 state=1
         300 0 switch prev=7 next=5 state=1
         350 0 sys_exit ret=0
         400 0 -",
    );
    // The system call is forgotten with the rest, so that its exit ends no span.
    assert_eq!(seen.thread(5), "100-150 RUN/unknown, 150-200 RUN/syscall, 300-350 RUN/unknown, 350-400 RUN/user");
    assert_eq!(seen.thread(6), "200-400 WAIT");
    assert_eq!(seen.counts.inconsistent_switches, 1);
    assert_eq!(seen.counts.unmatched_syscall_exits, 1);
    assert_eq!(seen.calls, [""; 0]);
    let from_idle = play("100 0 switch prev=5 next=0 state=1\n200 0 switch prev=6 next=0 state=1\n300 0 -");
    assert_eq!(from_idle.counts.inconsistent_switches, 1);
    assert_eq!(from_idle.thread(6), "200-300 WAIT");
}

#[test]
fn a_thread_runs_on_one_cpu() {
    let seen = play(
        "100 0 switch prev=0 next=5
         200 1 switch prev=0 next=5
         300 0 switch prev=8 next=0 state=1
         400 1 -",
    );
    assert_eq!(seen.cpu(0), "100-200 unknown 5, 200-300 unknown ?, 300-400 idle 0");
    assert_eq!(seen.cpu(1), "100-200 unknown ?, 200-400 unknown 5");
    assert_eq!(seen.thread(5), "100-400 RUN/unknown");
    assert_eq!(seen.runs[1], "200 5 elsewhere");
    // The third switch is not inconsistent: the thread of its CPU was unknown.
    assert_eq!(seen.counts.inconsistent_switches, 0);
}

#[test]
fn a_switch_without_its_threads_is_counted() {
    let seen = play("100 0 switch prev=0 next=5\n200 0 switch prev=5\n300 0 switch next=6\n400 0 -");
    assert_eq!(seen.thread(5), "100-400 RUN/unknown");
    assert_eq!(seen.counts.bad_fields, 2);
}

#[test]
fn a_switch_empties_the_stack_of_its_cpu() {
    let seen = play(
        "100 0 switch prev=0 next=5
         110 0 irq_entry nr=1
         120 0 soft_entry nr=3
         130 0 switch prev=5 next=6 state=0
         140 0 irq_exit nr=1
         150 0 -",
    );
    assert_eq!(seen.counts.cleared_interrupts, 2);
    assert_eq!(seen.counts.unmatched_irq_exits, 1);
    assert_eq!(seen.interrupts, [""; 0]);
    assert_eq!(seen.thread(5), "100-110 RUN/unknown, 110-130 INTERRUPTED, 130-150 WAIT_CPU");
    assert_eq!(seen.cpu(0), "100-110 unknown 5, 110-120 irq 5, 120-130 softirq 5, 130-150 unknown 6");
}

/// Decision K6: the bits of the state that a thread is left in.
#[test]
fn bits_of_the_state_say_what_a_thread_does() {
    let after = |state: i64, before: &str, legacy: &str| {
        let stream = format!(
            "100 0 switch prev=0 next=5 {legacy}
             {before}
             200 0 switch prev=5 next=0 state={state} {legacy}
             300 0 -"
        );
        let seen = play(&stream);
        seen.thread(5).rsplit(' ').next().unwrap_or_default().to_string()
    };
    for (state, plain, exited) in [
        (0, "WAIT_CPU", "WAIT_CPU"),
        (1, "WAIT", "WAIT"),
        (2, "WAIT", "WAIT"),
        (4, "WAIT", "WAIT"),
        (8, "WAIT", "WAIT"),
        (16, "ZOMBIE", "ZOMBIE"),
        (32, "ZOMBIE", "ZOMBIE"),
        (64, "WAIT", "ZOMBIE"),
        (128, "WAIT", "ZOMBIE"),
        (256, "WAIT_CPU", "WAIT_CPU"),
        (1024, "WAIT_CPU", "WAIT_CPU"),
        (1 | 64, "WAIT", "ZOMBIE"),
        (2 | 1024, "WAIT", "WAIT"),
        (16 | 64, "ZOMBIE", "ZOMBIE"),
        (16 | 4096, "ZOMBIE", "ZOMBIE"),
    ] {
        assert_eq!(after(state, "", ""), plain, "{state}");
        assert_eq!(after(state, "150 0 exit tid=5", ""), exited, "{state} after its exit");
        // One that was freed is dead at its next switch, whatever that says.
        assert_eq!(after(state, "150 0 exit tid=5\n160 0 free tid=5", ""), "DEAD", "{state} after it was freed");
    }
    for (state, plain, exited) in
        [(0, "WAIT_CPU", "WAIT_CPU"), (1, "WAIT", "WAIT"), (16, "WAIT", "ZOMBIE"), (32, "WAIT", "DEAD")]
    {
        assert_eq!(after(state, "", "!legacy"), plain, "legacy {state}");
        assert_eq!(after(state, "150 0 exit tid=5 !legacy", "!legacy"), exited, "legacy {state} after its exit");
    }
}

// ---- Wakes ----------------------------------------------------------------------------------------------------------

#[test]
fn the_first_wake_counts() {
    let seen = play(
        "100 0 switch prev=0 next=5
         100 1 switch prev=0 next=6
         200 0 switch prev=5 next=0 state=1
         300 1 wake tid=5 cpu=0
         350 1 switch prev=6 next=7 state=0
         400 1 wake tid=5 cpu=0
         500 0 switch prev=0 next=5 prio=120
         600 0 -",
    );
    assert_eq!(seen.thread(5), "100-200 RUN/unknown, 200-300 WAIT, 300-500 WAIT_CPU, 500-600 RUN/unknown");
    assert_eq!(seen.waits, ["5: 300-500 cpu 0 prio Some(120) by Some(6) thread"]);
}

#[test]
fn a_running_thread_cannot_be_woken() {
    let seen = play(
        "100 0 switch prev=0 next=5
         200 1 wake tid=5 cpu=0
         250 0 wake tid=0 cpu=0
         300 0 switch prev=5 next=0 state=0
         400 0 switch prev=0 next=5
         450 0 exit tid=5
         460 1 wake tid=5 cpu=0
         500 0 -",
    );
    assert_eq!(seen.thread(5), "100-300 RUN/unknown, 300-400 WAIT_CPU, 400-450 RUN/unknown, 450-500 EXIT");
    // It was preempted, and no wake is older than its last run.
    assert_eq!((seen.waits.len(), seen.wakes.len()), (0, 0));
}

#[test]
fn a_wake_ends_with_a_switch_to_its_thread() {
    let seen = play(
        "100 1 switch prev=0 next=6
         110 1 wake tid=5 cpu=0
         200 0 switch prev=5 next=0 state=1
         300 1 wake tid=5 cpu=0
         400 0 switch prev=0 next=5
         500 0 -",
    );
    // It ran before 200, but the switch that ran it was lost: the first wake is that of the next one.
    assert_eq!(seen.waits, ["5: 110-400 cpu 0 prio None by Some(6) thread"]);
}

#[test]
fn wakes_of_threads_nobody_saw_make_them_runnable() {
    let seen = play("100 0 -\n200 0 wake tid=5 cpu=3 comm=sh prio=20\n300 0 -");
    assert_eq!(seen.thread(5), "200-300 WAIT_CPU");
    assert_eq!(seen.person(5), "None None Some(\"sh\") false");
    assert_eq!(seen.wakes, ["5: unknown"]);
}

/// Decision K7.
#[test]
fn reasons_of_wakes() {
    for (before, reason) in [
        ("", "thread"),
        ("110 0 irq_entry nr=1", "irq"),
        ("110 0 soft_entry nr=0", "softirq"),
        ("110 0 soft_entry nr=1", "timer"),
        ("110 0 soft_entry nr=8", "timer"),
        ("110 0 soft_entry nr=2", "network"),
        ("110 0 soft_entry nr=3", "network"),
        ("110 0 soft_entry nr=4", "disk"),
        ("110 0 soft_entry nr=5", "disk"),
        ("110 0 soft_entry nr=6", "softirq"),
        ("110 0 soft_entry nr=3\n120 0 irq_entry nr=1", "irq"),
        ("110 0 irq_entry nr=1\n120 0 timer_entry", "timer"),
        ("110 0 timer_entry\n120 0 timer_exit", "thread"),
        ("110 0 irq_entry nr=1\n120 0 ipi_entry", "ipi"),
        ("110 0 ipi_entry\n120 0 ipi_exit", "thread"),
        ("110 0 switch prev=6 next=0 state=1", "unknown"),
        ("110 1 irq_entry nr=1", "thread"),
    ] {
        let seen = play(&format!("100 0 switch prev=0 next=6\n{before}\n200 0 wake tid=5 cpu=1"));
        assert_eq!(seen.wakes, [format!("5: {reason}")], "after {before}");
    }
}

/// Events of ftrace say what the CPU does, also where no event shows the interrupt.
#[test]
fn reasons_of_wakes_in_interrupts_that_no_event_shows() {
    for (wake, reason) in [
        ("wake tid=5 cpu=1 from=1 context=1", "thread"),
        ("wake tid=5 cpu=1 from=1 context=9", "irq"),
        ("wake tid=5 cpu=1 from=1 context=64", "irq"),
        // It was asked for by another CPU, perhaps.
        ("wake tid=5 cpu=1 context=9", "unknown"),
        // Soft interrupts are shown: there was none, whatever an old kernel says of what is only disabled.
        ("wake tid=5 cpu=1 from=1 context=16", "thread"),
        ("soft_entry nr=3\n150 0 wake tid=5 cpu=1 from=1 context=25", "network"),
    ] {
        let seen = play(&format!("100 0 switch prev=0 next=6\n150 0 {wake}"));
        assert_eq!(seen.wakes, [format!("5: {reason}")], "{wake}");
    }
    let seen = play("100 0 hard\n100 0 switch prev=0 next=6\n150 0 wake tid=5 cpu=1 from=1 context=16");
    assert_eq!(seen.wakes, ["5: softirq"]);
    let seen = play("100 0 switch prev=6 next=0 state=1\n150 0 wake tid=5 cpu=1 from=1 context=9");
    assert_eq!(seen.wakes, ["5: irq"]);
}

/// Events of `raw_syscalls` have numbers, which the machine gives a name.
#[test]
fn calls_that_only_have_a_number_are_named_by_the_machine() {
    for (call, name) in [
        ("nr=202 machine=x86_64", "futex"),
        ("nr=98 machine=aarch64", "futex"),
        ("nr=202 machine=mips", "syscall_202"),
        ("nr=9999 machine=x86_64", "syscall_9999"),
        ("nr=202", "syscall_202"),
    ] {
        let seen = play(&format!("100 0 switch prev=0 next=6\n110 0 sys_entry {call}\n120 0 sys_exit ret=0"));
        assert_eq!(seen.calls, [format!("6: {name} 110-120 Some(0)")]);
    }
}

/// Decision K16.
#[test]
fn a_sleep_ends_with_a_timer_or_a_signal() {
    let ending = |call: &str, before: &str, wake: &str| {
        let sleep = format!(
            "100 1 switch prev=0 next=5\n110 1 sys_entry name={call}\n120 1 switch prev=5 next=0 state=1
             130 0 switch prev=0 next=6\n{before}\n200 0 wake tid=5 cpu=1 {wake}"
        );
        play(&sleep).wakes
    };
    for call in ["nanosleep", "clock_nanosleep", "clock_nanosleep_time32"] {
        assert_eq!(ending(call, "", ""), ["5: thread, ended by timer"], "{call}");
    }
    assert_eq!(ending("nanosleep", "140 0 switch prev=6 next=0 state=1", ""), ["5: unknown, ended by timer"]);
    assert_eq!(ending("nanosleep", "140 0 irq_entry nr=11", ""), ["5: irq, ended by timer"]);
    assert_eq!(ending("nanosleep", "", "from=1 context=9"), ["5: irq, ended by timer"]);
    // Another one may end a wait for a file, a signal a sleep, and an event may say that no interrupt did.
    assert_eq!(ending("read", "", ""), ["5: thread"]);
    assert_eq!(ending("nanosleep", "140 0 sys_entry name=tgkill", ""), ["5: thread"]);
    assert_eq!(ending("nanosleep", "140 0 exit tid=6", ""), ["5: thread"]);
    assert_eq!(ending("nanosleep", "", "from=1 context=1"), ["5: thread"]);
}

/// Decision K16.
#[test]
fn a_thread_that_sends_to_its_own_machine_wakes_the_receiver() {
    let wakes = |before: &str| {
        play(&format!("100 0 switch prev=0 next=6\n{before}\n190 0 soft_entry nr=3\n200 0 wake tid=5 cpu=1")).wakes
    };
    let (sender, network) = (["5: network, ended by thread"], ["5: network"]);
    assert_eq!(wakes("110 0 sys_entry name=sendto\n120 0 soft_raise nr=3"), sender);
    assert_eq!(wakes("110 0 sys_entry name=sendto\n120 0 soft_raise nr=3\n130 0 soft_raise nr=3"), sender);
    for other in [
        "110 0 sys_entry name=sendto",
        "110 0 sys_entry name=sendto\n120 0 soft_raise nr=1",
        "120 0 soft_raise nr=3",
        "110 0 sys_entry name=sendto\n120 0 soft_raise nr=3 context=9",
        "110 0 sys_entry name=sendto\n115 0 irq_entry nr=9\n120 0 soft_raise nr=3\n125 0 irq_exit nr=9",
        // Packets from elsewhere came, too.
        "110 0 sys_entry name=sendto\n112 0 soft_raise nr=3\n115 0 irq_entry nr=9\n120 0 soft_raise nr=3\n125 0 irq_exit nr=9",
        // Another thread serves it.
        "110 0 sys_entry name=sendto\n120 0 soft_raise nr=3\n130 0 switch prev=6 next=7 state=0",
    ] {
        assert_eq!(wakes(other), network, "{other}");
    }
}

// ---- Births and ends ------------------------------------------------------------------------------------------------

#[test]
fn a_child_returns_from_its_fork() {
    let seen = play(
        "100 0 dump_task tid=5 pid=5 ppid=1 comm=sh type=0 mode=0 status=5
         110 0 switch prev=0 next=5
         120 0 sys_entry name=clone
         130 0 fork parent=5 child=6 ppid=5 pid=6 comm=sh
         140 0 wake tid=6 cpu=1
         150 1 switch prev=0 next=6
         160 1 sys_exit ret=0
         170 0 sys_exit ret=6
         180 0 -",
    );
    assert_eq!(seen.thread(6), "130-140 WAIT_FORK, 140-150 WAIT_CPU, 150-160 RUN/syscall, 160-180 RUN/user");
    assert_eq!(seen.person(6), "Some(6) Some(5) Some(\"sh\") false");
    // The call of the child has no entry of its own: it is no span, and nothing is wrong with it.
    assert_eq!(seen.calls, ["5: clone 120-170 Some(6)"]);
    assert_eq!(seen.counts.unmatched_syscall_exits, 0);
}

#[test]
fn children_inherit() {
    let start = "100 0 dump_task tid=5 pid=5 ppid=1 comm=sh type=0 mode=0 status=5\n";
    let child = |fork: &str| play(&format!("{start}200 0 fork parent=5 child=6 {fork}\n300 0 -")).person(6);
    // A thread has the parent of its process, a process has the process that made it.
    assert_eq!(child("ppid=5 pid=5"), "Some(5) Some(1) Some(\"sh\") false");
    assert_eq!(child("ppid=5 pid=6 comm=ls"), "Some(6) Some(5) Some(\"ls\") false");
    assert_eq!(child(""), "None Some(5) Some(\"sh\") false");
    // An event that does not name the process of the parent does not say that the child is a thread of it.
    assert_eq!(child("pid=5"), "Some(5) Some(5) Some(\"sh\") false");
    // A list that came before names the processes, unless it is about another child.
    let listed = |list: &str| {
        let list = format!("{start}150 0 dump_task tid=6 {list}\n200 0 fork parent=5 child=6\n300 0 -");
        play(&list).person(6)
    };
    assert_eq!(listed("pid=6 ppid=5"), "Some(6) Some(5) Some(\"sh\") false");
    assert_eq!(listed("pid=5 ppid=5"), "Some(5) Some(1) Some(\"sh\") false");
    assert_eq!(listed("pid=6 ppid=4"), "None Some(5) Some(\"sh\") false");
    assert_eq!(listed("pid=6 ppid=5 status=5"), "None Some(5) Some(\"sh\") false");
    let unknown = play("100 0 fork parent=7 child=8\n200 0 -");
    assert_eq!(unknown.person(8), "None Some(7) None false");
}

#[test]
fn children_of_the_kernel_are_of_the_kernel() {
    let seen = play(
        "100 0 fork parent=2 child=9
         110 0 fork parent=9 child=10
         120 0 wake tid=9 cpu=0
         130 0 switch prev=0 next=9
         140 0 irq_entry nr=1
         150 0 irq_exit nr=1
         160 0 -",
    );
    let runs = "130-140 RUN/kernel, 140-150 INTERRUPTED, 150-160 RUN/kernel";
    assert_eq!(seen.thread(9), format!("100-120 WAIT_FORK, 120-130 WAIT_CPU, {runs}"));
    assert_eq!(seen.cpu(0), "100-130 unknown ?, 130-140 kernel 9, 140-150 irq 9, 150-160 kernel 9");
    assert!(seen.person(10).ends_with("true"));
}

#[test]
fn programs_give_their_names() {
    let name = |exec: &str| {
        let seen = play(&format!("100 0 switch prev=0 next=5 next_comm=sh\n200 0 exec {exec}\n300 0 -"));
        seen.person(5)
    };
    assert_eq!(name("tid=5 name=/usr/bin/make"), "None None Some(\"make\") false");
    assert_eq!(name("tid=5 name=/bin/a_very_long_program_name"), "None None Some(\"a_very_long_pro\") false");
    assert_eq!(name("tid=5 name=./fourteen_bytesé"), "None None Some(\"fourteen_bytes\") false");
    assert_eq!(name("tid=5"), "None None Some(\"sh\") false");
    // Old kernels state no thread, and the text is the name.
    assert_eq!(name("name=/bin/ls !legacy"), "None None Some(\"/bin/ls\") false");
}

#[test]
fn a_thread_ends_in_three_steps() {
    let seen = play(
        "100 0 switch prev=0 next=5
         150 0 sys_entry name=exit_group
         200 0 exit tid=5
         220 0 irq_entry nr=1
         240 0 irq_exit nr=1
         300 0 switch prev=5 next=0 state=64
         400 0 free tid=5
         500 0 -",
    );
    assert_eq!(seen.thread(5), "100-150 RUN/unknown, 150-200 RUN/syscall, 200-300 EXIT, 300-400 ZOMBIE, 400-500 DEAD");
    assert_eq!(seen.cpu(0), "100-150 unknown 5, 150-220 syscall 5, 220-240 irq 5, 240-300 syscall 5, 300-500 idle 0");
    assert_eq!(seen.runs.last().map(String::as_str), Some("300 5 Ended"));
}

#[test]
fn a_thread_that_exits_may_be_preempted_and_wait() {
    let seen = play(
        "100 0 switch prev=0 next=5
         200 0 exit tid=5
         300 0 switch prev=5 next=0 state=0
         400 0 switch prev=0 next=5
         500 0 switch prev=5 next=0 state=2
         600 0 wake tid=5 cpu=0
         700 0 switch prev=0 next=5
         800 0 switch prev=5 next=0 state=16
         900 0 -",
    );
    let ends = "400-500 EXIT, 500-600 WAIT, 600-700 WAIT_CPU, 700-800 EXIT, 800-900 ZOMBIE";
    assert_eq!(seen.thread(5), format!("100-200 RUN/unknown, 200-300 EXIT, 300-400 WAIT_CPU, {ends}"));
    assert_eq!(seen.births.len(), 1);
}

#[test]
fn a_thread_that_runs_is_freed_at_its_next_switch() {
    let seen = play("100 0 switch prev=0 next=5\n200 1 free tid=5\n300 0 switch prev=5 next=0 state=0\n400 0 -");
    assert_eq!(seen.thread(5), "100-300 RUN/unknown, 300-400 DEAD");
}

// ---- Reused numbers -------------------------------------------------------------------------------------------------

#[test]
fn a_number_lives_again() {
    let ended = "100 0 switch prev=0 next=5\n200 0 exit tid=5\n300 0 switch prev=5 next=0 state=16\n";
    for (again, state) in [
        ("400 0 fork parent=1 child=5", "WAIT_FORK"),
        ("400 0 wake tid=5 cpu=0", "WAIT_CPU"),
        ("400 0 switch prev=0 next=5", "RUN/unknown"),
        ("400 1 switch prev=5 next=0 state=1", "WAIT"),
    ] {
        for (freed, end) in [("", "ZOMBIE"), ("300 0 free tid=5\n", "DEAD")] {
            let seen = play(&format!("{ended}{freed}{again}\n500 0 -"));
            assert_eq!(seen.thread(5), format!("100-200 RUN/unknown, 200-300 EXIT, 300-400 {end}"), "{again}");
            assert_eq!(seen.life(5, 1), format!("400-500 {state}"), "{again}");
        }
    }
}

#[test]
fn a_life_keeps_its_priority_when_the_number_lives_again() {
    let seen = play(
        "100 0 switch prev=0 next=5 prio=120
         200 0 prio tid=5 prio=-9000000000
         300 0 switch prev=5 next=0 state=16
         400 0 fork parent=1 child=5
         500 0 switch prev=0 next=5 prio=98
         600 0 -",
    );
    let machines = seen.machines.expect("the stream was played");
    let prios = machines.threads().filter(|(_, thread)| thread.tid == 5).map(|(_, thread)| thread.prio());
    assert_eq!(prios.collect::<Vec<_>>(), [Some(-9_000_000_000), Some(98)]);
}

#[test]
fn a_fork_begins_a_new_life_when_the_end_was_not_seen() {
    let seen = play(
        "100 0 switch prev=0 next=5
         200 1 fork parent=1 child=5
         300 0 -",
    );
    assert_eq!(seen.thread(5), "100-200 RUN/unknown");
    assert_eq!(seen.life(5, 1), "200-300 WAIT_FORK");
    assert_eq!(seen.cpu(0), "100-200 unknown 5, 200-300 unknown ?");
    // One of which only the name is known has not lived yet.
    let named = play("100 0 dump_task tid=5 comm=old\n200 0 fork parent=1 child=5 comm=new\n300 0 -");
    assert_eq!(named.thread(5), "200-300 WAIT_FORK");
    assert_eq!(named.births, ["100 5.0", "200 1.0"]);
    // Its end was seen and nothing else: the fork begins its life all the same.
    let ended = play("100 0 exit tid=5\n200 0 fork parent=1 child=5\n300 0 switch prev=0 next=5\n400 0 -");
    assert_eq!(ended.thread(5), "200-300 WAIT_FORK, 300-400 RUN/syscall");
    // Old kernels tell of forks late.
    let late = play("100 0 switch prev=0 next=5 !legacy\n200 1 fork parent=1 child=5 !legacy\n300 0 -");
    assert_eq!((late.thread(5), late.births.len()), ("100-300 RUN/unknown".to_string(), 2));
}

// ---- System calls ---------------------------------------------------------------------------------------------------

#[test]
fn system_calls_belong_to_threads() {
    let seen = play(
        "100 0 switch prev=0 next=5
         110 0 sys_entry name=read
         120 0 switch prev=5 next=6 state=1
         130 0 sys_entry name=write
         140 0 sys_exit ret=-4
         150 1 switch prev=0 next=5
         160 1 sys_exit ret=7
         170 1 -",
    );
    assert_eq!(seen.calls, ["6: write 130-140 Some(-4)", "5: read 110-160 Some(7)"]);
    assert_eq!(
        seen.thread(5),
        "100-110 RUN/unknown, 110-120 RUN/syscall, 120-150 WAIT, 150-160 RUN/syscall, 160-170 RUN/user"
    );
}

#[test]
fn a_lost_exit_replaces_its_call() {
    let seen = play(
        "100 0 switch prev=0 next=5
         110 0 sys_entry name=read
         120 0 sys_entry name=write
         130 0 sys_exit ret=1
         140 0 sys_exit ret=2
         150 0 -",
    );
    assert_eq!(seen.calls, ["5: write 120-130 Some(1)"]);
    assert_eq!((seen.counts.replaced_syscalls, seen.counts.unmatched_syscall_exits), (1, 1));
    // When the thread of a CPU is not known, its calls are passed by.
    let unknown = play("100 0 sys_entry name=read\n200 0 sys_exit ret=0\n300 0 -");
    assert_eq!(unknown.counts, Counts { events: 3, ..Counts::default() });
}

/// Decision K5.
#[test]
fn a_mode_is_known_from_the_first_call_on() {
    let mode = |event: &str| {
        let seen = play(&format!("90 0 -\n{event}\n100 0 switch prev=0 next=5\n200 0 -"));
        seen.thread(5).rsplit(' ').next().unwrap_or_default().to_string()
    };
    assert_eq!(mode(""), "RUN/unknown");
    assert_eq!(mode("95 0 dump_task tid=5 mode=0 status=5"), "RUN/user");
    assert_eq!(mode("95 0 dump_task tid=5 mode=1 status=5"), "RUN/syscall");
    assert_eq!(mode("95 0 dump_task tid=5 mode=2 status=5"), "RUN/trap");
    assert_eq!(mode("95 0 dump_task tid=5 mode=5 status=5"), "RUN/unknown");
    assert_eq!(mode("95 0 dump_task tid=5 mode=5 type=1 status=5"), "RUN/kernel");
    let exit = play("100 0 switch prev=0 next=5\n200 0 sys_exit ret=0\n300 0 -");
    assert_eq!(exit.thread(5), "100-200 RUN/unknown, 200-300 RUN/user");
}

// ---- Interrupts and traps -------------------------------------------------------------------------------------------

#[test]
fn interrupts_nest() {
    let seen = play(
        "100 0 switch prev=0 next=5
         110 0 soft_entry nr=3
         120 0 irq_entry nr=7
         130 0 irq_exit nr=7
         140 0 soft_exit nr=3
         150 0 -",
    );
    assert_eq!(seen.interrupts, ["irq 7 120-130 None", "softirq 3 110-140 None"]);
    assert_eq!(
        seen.cpu(0),
        "100-110 unknown 5, 110-120 softirq 5, 120-130 irq 5, 130-140 softirq 5, 140-150 unknown 5"
    );
    assert_eq!(seen.thread(5), "100-110 RUN/unknown, 110-140 INTERRUPTED, 140-150 RUN/unknown");
}

#[test]
fn an_exit_takes_what_lost_its_own() {
    let seen = play(
        "100 0 switch prev=0 next=0
         110 0 irq_entry nr=7
         120 0 irq_entry nr=8
         130 0 soft_entry nr=8
         140 0 irq_exit nr=9
         150 0 irq_exit nr=7
         160 0 irq_exit nr=8
         170 0 -",
    );
    // That of 7 ends 8 and the soft interrupt too, of which no end is known.
    assert_eq!(seen.interrupts, ["irq 7 110-150 None"]);
    assert_eq!(seen.counts.unmatched_irq_exits, 2);
    // An exit without a number is that of the topmost.
    let unnumbered = play("100 0 irq_entry nr=7\n110 0 irq_entry nr=8\n120 0 irq_exit\n130 0 irq_exit\n140 0 irq_exit");
    assert_eq!(unnumbered.interrupts, ["irq 8 110-120 None", "irq 7 100-130 None"]);
    assert_eq!(unnumbered.counts.unmatched_irq_exits, 1);
}

#[test]
fn the_first_raise_is_served() {
    let seen = play(
        "100 0 soft_raise nr=3
         110 0 soft_raise nr=3
         115 1 soft_raise nr=3
         120 0 soft_entry nr=3
         130 0 soft_raise nr=3
         140 0 soft_exit nr=3
         150 0 soft_entry nr=3
         160 0 soft_exit nr=3
         170 0 soft_entry nr=3
         180 0 soft_exit nr=3",
    );
    assert_eq!(
        seen.interrupts,
        ["softirq 3 120-140 Some(100)", "softirq 3 150-160 Some(130)", "softirq 3 170-180 None"]
    );
}

#[test]
fn traps_stand_on_what_they_interrupt() {
    let seen = play(
        "100 0 switch prev=0 next=5
         110 0 sys_entry name=read
         120 0 trap_entry nr=14
         130 0 irq_entry nr=7
         140 0 trap_entry nr=14
         150 0 trap_exit
         160 0 irq_exit nr=7
         170 0 trap_exit
         180 0 sys_exit ret=0
         190 0 -",
    );
    assert_eq!(
        seen.cpu(0),
        "100-110 unknown 5, 110-120 syscall 5, 120-130 trap 5, 130-140 irq 5, 140-150 trap 5, 150-160 irq 5, \
         160-170 trap 5, 170-180 syscall 5, 180-190 user 5"
    );
    assert_eq!(
        seen.thread(5),
        "100-110 RUN/unknown, 110-120 RUN/syscall, 120-130 RUN/trap, 130-160 INTERRUPTED, 160-170 RUN/trap, \
         170-180 RUN/syscall, 180-190 RUN/user"
    );
    assert_eq!(seen.interrupts, ["irq 7 130-160 None"]);
}

#[test]
fn lost_exits_of_traps_end_with_what_they_stand_on() {
    // On the thread: the exit of the call takes the trap above it.
    let call = play(
        "100 0 switch prev=0 next=5
         110 0 sys_entry name=read
         120 0 trap_entry nr=14
         130 0 sys_exit ret=3
         140 0 -",
    );
    assert_eq!(call.calls, ["5: read 110-130 Some(3)"]);
    assert_eq!(call.thread(5), "100-110 RUN/unknown, 110-120 RUN/syscall, 120-130 RUN/trap, 130-140 RUN/user");
    // On the CPU: an exit inside an interrupt does not reach the trap of the thread.
    let inside = play(
        "100 0 switch prev=0 next=5
         110 0 trap_entry nr=14
         120 0 irq_entry nr=7
         130 0 trap_exit
         140 0 irq_exit nr=7
         150 0 -",
    );
    assert_eq!(inside.thread(5), "100-110 RUN/unknown, 110-120 RUN/trap, 120-140 INTERRUPTED, 140-150 RUN/trap");
}

#[test]
fn stacks_have_an_end() {
    let mut stream = "10 0 switch prev=0 next=5\n".to_string();
    for at in 0..70 {
        let _ = writeln!(stream, "{} 0 irq_entry nr={at}", 100 + at);
    }
    for at in (0..70).rev() {
        let _ = writeln!(stream, "{} 0 irq_exit nr={at}", 300 - at);
    }
    let seen = play(&stream);
    assert_eq!((seen.counts.too_deep, seen.counts.unmatched_irq_exits, seen.interrupts.len()), (6, 6, 64));
    assert_eq!(seen.interrupts[0], "irq 63 163-237 None");
    let mut traps = "10 0 switch prev=0 next=5\n".to_string();
    for at in 0..70 {
        let _ = writeln!(traps, "{} 0 trap_entry nr=14", 100 + at);
    }
    for at in 0..65 {
        let _ = writeln!(traps, "{} 0 trap_exit", 200 + at);
    }
    let seen = play(&traps);
    assert_eq!(seen.counts.too_deep, 6);
    assert_eq!(seen.thread(5), "10-100 RUN/unknown, 100-263 RUN/trap, 263-264 RUN/unknown");
}

// ---- What is not known ----------------------------------------------------------------------------------------------

#[test]
fn dumps_fill_what_is_not_known() {
    for (status, state) in [
        (1, "100-300 WAIT_FORK"),
        (2, "100-300 WAIT_CPU"),
        (3, "100-300 EXIT"),
        (4, "100-300 ZOMBIE"),
        (5, "100-300 WAIT"),
        (6, "100-300 WAIT_CPU"),
        (7, "100-300 DEAD"),
        (0, ""),
    ] {
        let seen = play(&format!("100 0 dump_task tid=5 status={status}\n300 0 -"));
        assert_eq!(seen.thread(5), state, "{status}");
    }
    let known = play(
        "100 0 switch prev=0 next=5 next_comm=new
         200 0 dump_task tid=5 pid=4 ppid=1 comm=old type=1 mode=1 status=5
         300 0 dump_task tid=5 pid=8 ppid=9
         400 0 dump_task tid=0 pid=0 comm=idle status=5",
    );
    assert_eq!(known.person(5), "Some(4) Some(1) Some(\"new\") true");
    let renamed =
        play("100 0 dump_task tid=5 comm=old\n200 0 dump_task tid=5 name=new\n300 0 dump_task tid=5 comm=old");
    assert_eq!(renamed.person(5), "None None Some(\"new\") false");
    assert_eq!(known.thread(5), "100-200 RUN/unknown, 200-400 RUN/kernel");
    assert!(known.machines.is_some_and(|machines| machines.find_thread(0, 0).is_none()));
}

#[test]
fn the_first_switch_names_who_ran() {
    let seen = play("100 0 -\n150 1 -\n200 0 switch prev=5 next=0 state=1\n300 1 switch prev=0 next=6\n400 0 -");
    assert_eq!(seen.credits, ["5: 100-200"]);
    assert_eq!(seen.thread(5), "200-400 WAIT");
    assert_eq!(seen.cpu(1), "100-300 unknown ?, 300-400 unknown 6");
    // Not before the last event that named it.
    let woken = play("100 0 -\n150 1 wake tid=5 cpu=0\n200 0 switch prev=5 next=0 state=1");
    assert_eq!(woken.credits, ["5: 150-200"]);
    let forked = play("100 0 -\n160 1 fork parent=1 child=5\n200 0 switch prev=5 next=0 state=1");
    assert_eq!(forked.credits, ["5: 160-200"]);
    let ran =
        play("100 0 -\n110 1 switch prev=0 next=5\n170 1 switch prev=5 next=0 state=1\n200 0 switch prev=5 next=0");
    assert_eq!(ran.credits, ["5: 170-200"]);
}

/// Decision K9.
#[test]
fn contexts_name_threads_that_nothing_else_names() {
    let seen = play(
        "100 0 -
         150 0 context tid=5 pid=4 comm=sh
         200 0 context tid=9
         250 0 switch prev=5 next=6 state=1
         300 0 context tid=9
         350 0 -",
    );
    assert_eq!(seen.thread(5), "150-250 RUN/unknown, 250-350 WAIT");
    assert_eq!(seen.person(5), "Some(4) None Some(\"sh\") false");
    assert_eq!((seen.thread(6), seen.thread(9)), ("250-350 RUN/unknown".to_string(), String::new()));
    assert_eq!(seen.credits, [""; 0]);
    let idle = play("100 0 context tid=0\n200 0 switch prev=0 next=5");
    assert_eq!(idle.cpu(0), "100-200 idle 0");
}

#[test]
fn contexts_name_all_threads_where_no_event_can_be_a_switch() {
    let stream = "100 0 context tid=5
        100 0 sys_entry name=read
        150 0 context tid=6
        150 0 sys_entry name=write
        160 0 context tid=6
        160 0 sys_exit ret=1
        200 1 context tid=5
        200 1 sys_exit ret=0
        250 1 context tid=0
        300 1 context tid=5
        350 0 -";
    let seen = play(&format!("100 0 unswitched\n{stream}"));
    // The state of a thread between its events is not known, but its calls go on.
    assert_eq!(seen.calls, ["6: write 150-160 Some(1)", "5: read 100-200 Some(0)"]);
    assert_eq!(seen.thread(5), "100-150 RUN/syscall, 200-250 RUN/user, 300-350 RUN/user");
    assert_eq!(seen.cpu(0), "100-150 syscall 5, 150-160 syscall 6, 160-350 user 6");
    assert_eq!((seen.counts.unmatched_syscall_exits, seen.counts.replaced_syscalls), (0, 0));
    // A loss ends them.
    let lost = stream.replace("160 0 context tid=6", "155 0 loss\n160 0 context tid=6");
    assert_eq!(play(&format!("100 0 unswitched\n{lost}")).calls, [""; 0]);
    // Where switches are recorded, a context does not overrule them.
    assert_eq!(play(stream).calls, ["5: write 150-160 Some(1)"]);
}

#[test]
fn a_loss_makes_its_cpu_unknown() {
    let seen = play(
        "100 0 switch prev=0 next=5
         100 1 switch prev=0 next=6
         110 0 sys_entry name=read
         120 0 soft_raise nr=3
         130 0 irq_entry nr=1
         150 0 loss
         150 1 sys_entry name=write
         200 0 irq_exit nr=1
         210 0 soft_entry nr=3
         220 0 soft_exit nr=3
         250 1 sys_exit ret=1
         300 0 switch prev=5 next=0 state=1
         400 0 -",
    );
    // The loss takes effect when it may have begun, not when it is reported.
    assert_eq!(seen.thread(5), "100-110 RUN/unknown, 110-130 RUN/syscall, 130-150 INTERRUPTED, 300-400 WAIT");
    assert_eq!(
        seen.cpu(0),
        "100-110 unknown 5, 110-130 syscall 5, 130-150 irq 5, 150-210 unknown ?, 210-220 softirq ?, \
         220-300 unknown ?, 300-400 idle 0"
    );
    assert_eq!(seen.counts.unmatched_irq_exits, 1);
    assert_eq!(seen.interrupts, ["softirq 3 210-220 None"]);
    // The other CPU goes on, and the first switch after the loss names who ran.
    assert_eq!(seen.calls, ["6: write 150-250 Some(1)"]);
    assert_eq!(seen.credits, ["5: 150-300"]);
}

#[test]
fn a_loss_touches_threads_that_were_there_last() {
    let seen = play(
        "100 0 switch prev=0 next=5
         110 0 switch prev=5 next=6 state=1
         120 0 switch prev=6 next=7 state=16
         130 0 switch prev=7 next=8 state=0
         140 0 wake tid=9 cpu=0
         150 0 wake tid=10 cpu=1
         160 0 migrate tid=7 cpu=1
         170 0 switch prev=8 next=0 state=1
         180 1 switch prev=0 next=8
         200 0 loss
         300 1 switch prev=8 next=9 state=1
         400 1 -",
    );
    let last = |tid: i64| seen.thread(tid).rsplit(", ").next().unwrap_or_default().to_string();
    // 5 waits there, 9 is queued there; 6 has ended, 7 was moved, 8 runs elsewhere, 10 is queued elsewhere.
    assert_eq!(last(5), "110-200 WAIT");
    assert_eq!(seen.thread(9), "140-200 WAIT_CPU, 300-400 RUN/unknown");
    assert_eq!(last(6), "120-400 ZOMBIE");
    assert_eq!(last(7), "130-400 WAIT_CPU");
    assert_eq!(last(8), "300-400 WAIT");
    assert_eq!(last(10), "150-400 WAIT_CPU");
    // The wake of 9 is forgotten.
    assert_eq!(seen.waits, [""; 0]);
}

#[test]
fn a_wake_without_a_cpu_leaves_a_thread_where_it_was() {
    let seen = play(
        "100 0 switch prev=0 next=5
         110 0 switch prev=5 next=0 state=1
         200 0 loss
         300 1 wake tid=5
         400 0 loss
         500 1 -",
    );
    assert_eq!(seen.thread(5), "100-110 RUN/unknown, 110-200 WAIT, 300-400 WAIT_CPU");
}

#[test]
fn time_does_not_go_back() {
    let seen = play("100 0 switch prev=0 next=5\n300 0 sys_entry name=read\n200 0 sys_exit ret=0\n400 0 -");
    assert_eq!(seen.thread(5), "100-300 RUN/unknown, 300-400 RUN/user");
    assert_eq!(seen.calls, ["5: read 300-300 Some(0)"]);
    assert_eq!(seen.counts.time_back, 1);
}

/// Of threads that were on a CPU only those are remembered that a loss there may concern.
#[test]
fn a_loss_finds_all_threads_of_a_cpu_after_many_have_come_and_gone() {
    let mut stream = "50 0 -\n".to_string();
    let mut at = 100;
    for tid in 1000..1400 {
        // Each fourth stays, each fourth moves to another CPU, each fourth moves there and back, the rest is freed.
        let _ = writeln!(stream, "{at} 0 wake tid={tid} cpu=1");
        let moves: &[&str] = match tid % 4 {
            0 => &[],
            1 => &["migrate tid=# cpu=2"],
            2 => &["migrate tid=# cpu=2", "migrate tid=# cpu=1"],
            _ => &["exit tid=#", "free tid=#"],
        };
        for event in moves {
            at += 1;
            let _ = writeln!(stream, "{at} 0 {}", event.replace('#', &tid.to_string()));
        }
        at += 1;
    }
    let _ = write!(stream, "5000 1 loss\n6000 0 -");
    let seen = play(&stream);
    for tid in 1000..1400 {
        let (end, state) = match tid % 4 {
            0 | 2 => (5000, "WAIT_CPU"),
            1 => (6000, "WAIT_CPU"),
            _ => (6000, "DEAD"),
        };
        let pieces = seen.thread(tid);
        assert!(pieces.ends_with(&format!("-{end} {state}")), "{tid}: {pieces}");
    }
}

// ---- Namespaces -----------------------------------------------------------------------------------------------------

#[test]
fn a_program_names_its_thread_as_its_namespace_calls_it() {
    let dump = "100 0 dump_task tid=50 pid=49 vtid=5 vpid=4 status=5
        100 0 dump_task tid=60 pid=60 vtid=6 vpid=6 status=5
        100 0 dump_task tid=70 pid=70 vtid=6 vpid=7 status=5\n";
    let ran = |context: &str| {
        let seen = play(&format!("{dump}200 1 context {context}\n300 1 -"));
        [50, 60, 70].into_iter().find(|tid| seen.thread(*tid).contains("200-300 RUN"))
    };
    assert_eq!(ran("vtid=5 vpid=4"), Some(50));
    assert_eq!(ran("vtid=6 vpid=7"), Some(70));
    // The process tells two threads of one number apart; without it nothing does.
    assert_eq!((ran("vtid=5"), ran("vtid=6")), (Some(50), None));
    // No event named such a thread: numbers of namespaces are not numbers of the kernel.
    assert_eq!((ran("vtid=5 vpid=9"), ran("vtid=50")), (None, None));
    // The number of the kernel is there, too.
    assert_eq!(ran("tid=60 vtid=5 vpid=4"), Some(60));
    // The thread has ended: its namespace may call another one so.
    let ended = play(&format!("{dump}150 0 free tid=50\n200 1 context vtid=5 vpid=4\n300 1 -"));
    assert_eq!(ended.cpu(1), "100-300 unknown ?");
}

// ---- CPUs that are not seen -----------------------------------------------------------------------------------------

#[test]
fn an_unseen_cpu_takes_what_is_queued_there() {
    let seen = play(
        "0 0 recorded
         100 0 switch prev=0 next=5
         150 0 wake tid=6 cpu=0 from=0
         160 0 wake tid=6 cpu=7
         200 0 switch prev=5 next=6 state=1
         300 0 -",
    );
    // The wake put it on a CPU that has no events: what it did until its switch is not known, nor how long it waited.
    assert_eq!(seen.thread(6), "150-160 WAIT_CPU, 200-300 RUN/unknown");
    assert_eq!(seen.waits, [""; 0]);
    assert_eq!(seen.cpu(7), "100-300 unknown ?");
    assert_eq!(seen.machines.as_ref().expect("it was played").unseen_cpus(), [(0, 7)]);
    let moved = play(
        "0 0 recorded
         100 0 switch prev=5 next=6 state=0
         150 0 migrate tid=5 cpu=7 from=0
         200 0 switch prev=6 next=5 state=1
         300 0 -",
    );
    assert_eq!(moved.thread(5), "100-150 WAIT_CPU, 200-300 RUN/unknown");
}

#[test]
fn a_wait_is_known_when_its_wake_proves_it() {
    let stream = |wake: &str| {
        play(&format!(
            "0 0 recorded
             0 3 missing
             100 0 switch prev=0 next=5
             110 0 sys_entry name=read
             120 0 switch prev=5 next=0 state=1
             {wake}
             220 0 switch prev=0 next=5
             230 0 sys_exit ret=1
             300 0 -"
        ))
    };
    let proven = stream("200 0 wake tid=5 cpu=0 from=0\n201 0 wake tid=5 cpu=0");
    let rows = "100-110 RUN/unknown, 110-120 RUN/syscall, 120-200 WAIT, 200-220 WAIT_CPU, 220-230 RUN/syscall, 230-300 RUN/user";
    assert_eq!(proven.thread(5), rows);
    assert_eq!((proven.waits.len(), proven.calls.len()), (1, 1));
    // It slept on another CPU; the wake does not say where; another wake came before; nothing put it into the queue.
    let rows = "100-110 RUN/unknown, 110-120 RUN/syscall, 200-220 WAIT_CPU, 220-230 RUN/unknown, 230-300 RUN/user";
    let elsewhere = stream("200 0 wake tid=5 cpu=1 from=1\n201 0 wake tid=5 cpu=0");
    assert_eq!((elsewhere.thread(5).as_str(), elsewhere.waits.len(), elsewhere.calls.len()), (rows, 1, 0));
    let second = stream("200 0 wake tid=5 cpu=0");
    assert_eq!((second.thread(5).as_str(), second.waits.len(), second.calls.len()), (rows, 0, 0));
    let rows = "100-110 RUN/unknown, 110-120 RUN/syscall, 120-200 WAIT, 220-230 RUN/unknown, 230-300 RUN/user";
    let unplaced = stream("200 0 wake tid=5 cpu=0 from=0");
    assert_eq!((unplaced.thread(5).as_str(), unplaced.waits.len(), unplaced.calls.len()), (rows, 0, 0));
    let twice = "180 0 wake tid=5 cpu=0 from=0\n200 0 wake tid=5 cpu=0 from=0\n201 0 wake tid=5 cpu=0";
    let rows = "100-110 RUN/unknown, 110-120 RUN/syscall, 120-180 WAIT, 200-220 WAIT_CPU, 220-230 RUN/unknown, 230-300 RUN/user";
    assert_eq!(stream(twice).thread(5), rows);
}

#[test]
fn a_thread_that_ran_unseen_has_no_wait() {
    let seen = play(
        "0 0 recorded
         0 3 missing
         100 0 switch prev=0 next=5
         120 0 switch prev=5 next=6 state=1
         140 0 switch prev=6 next=5 state=0
         160 0 fork parent=5 child=8
         170 0 wake tid=8 cpu=0
         180 1 fork parent=5 child=9
         190 0 -",
    );
    // No event woke thread 5, so the time at which it became runnable is unknown; 6 is in the queue, but may have been
    // taken from it.
    assert_eq!(seen.thread(5), "100-120 RUN/unknown, 140-190 RUN/unknown");
    assert_eq!(seen.thread(6), "120-140 RUN/unknown");
    // A child is woken by its parent; what is open at the end may have ended unseen.
    assert_eq!((seen.thread(8), seen.thread(9)), ("160-170 WAIT_FORK".to_string(), String::new()));
}

#[test]
fn a_cpu_is_seen_again() {
    let seen = play(
        "0 0 recorded
         150 1 from
         400 0 until
         100 0 switch prev=0 next=5
         120 0 switch prev=5 next=6 state=1
         180 1 switch prev=5 next=0 state=1
         200 0 wake tid=5 cpu=0 from=1
         400 0 switch prev=6 next=5 state=0
         500 1 -",
    );
    // Thread 5 ran on CPU 1 at 150, which is when that begins to be seen.
    assert_eq!(seen.thread(5), "100-120 RUN/unknown, 180-200 WAIT, 200-400 WAIT_CPU");
    assert_eq!(seen.cpu(0), "100-120 unknown 5, 120-400 unknown 6, 400-500 unknown ?");
    assert_eq!(seen.cpu(1), "100-180 unknown ?, 180-500 idle 0");
}

// ---- Suspended machines ---------------------------------------------------------------------------------------------

const SECOND: Ns = 1_000_000_000;

#[test]
fn a_suspended_machine_has_a_state_of_its_own() {
    let seen = play(
        "100 0 switch prev=0 next=5
         110 0 sys_entry name=write
         120 1 switch prev=6 next=0 state=1
         150 0 suspend action=suspend_enter start=1
         160 0 suspend action=machine_suspend start=1
         165 1 suspend action=machine_suspend start=1
         170 1 suspend action=timekeeping_freeze start=0
         260 0 suspend action=machine_suspend start=0
         265 0 suspend action=machine_suspend start=0
         270 0 suspend action=suspend_enter start=0
         280 0 sys_exit ret=1
         300 0 switch prev=5 next=0 state=1
         310 1 switch prev=0 next=6
         400 0 -",
    );
    let rows = "100-110 RUN/unknown, 110-160 RUN/syscall, 160-260 SUSPENDED, 260-280 RUN/syscall, 280-300 RUN/user, 300-400 WAIT";
    assert_eq!(seen.thread(5), rows);
    assert_eq!(seen.thread(6), "120-160 WAIT, 160-260 SUSPENDED, 260-310 WAIT, 310-400 RUN/unknown");
    let rows =
        "100-110 unknown 5, 110-160 syscall 5, 160-260 suspended ?, 260-280 syscall 5, 280-300 user 5, 300-400 idle 0";
    assert_eq!(seen.cpu(0), rows);
    assert_eq!(
        seen.cpu(1),
        "100-120 unknown ?, 120-160 idle 0, 160-260 suspended ?, 260-310 idle 0, 310-400 unknown 6"
    );
    assert_eq!(seen.credits, ["6: 100-120"]);
    let machines = seen.machines.expect("it was played");
    assert_eq!(machines.length(0, 110, 280), 70);
    assert_eq!(machines.suspensions(), Suspensions { count: 1, total: 100, inferred: 0 });
}

#[test]
fn other_names_of_a_suspension() {
    let suspended = |events: &str| play(&format!("100 0 switch prev=0 next=5\n{events}\n900 0 -")).thread(5);
    // The event of older kernels.
    let rows = "100-200 RUN/unknown, 200-700 SUSPENDED, 700-900 RUN/unknown";
    assert_eq!(suspended("200 0 suspend state=3\n700 0 suspend state=4294967295"), rows);
    assert_eq!(suspended("200 0 suspend state=3\n700 0 suspend state=-1"), rows);
    // A name of which only the address is there: it is what nothing else happens in.
    assert_eq!(suspended("200 0 suspend action=77 start=1\n700 0 suspend action=77 start=0"), rows);
    for other in ["700 0 suspend action=78 start=0", "300 0 -\n700 0 suspend action=77 start=0", "700 0 -"] {
        assert_eq!(suspended(&format!("200 0 suspend action=77 start=1\n{other}")), "100-900 RUN/unknown", "{other}");
    }
    // One that has not ended, one whose begin was not seen, one whose end may have been lost.
    assert_eq!(suspended("200 0 suspend state=3"), "100-200 RUN/unknown, 200-900 SUSPENDED");
    assert_eq!(suspended("700 0 suspend state=-1"), "100-900 RUN/unknown");
    assert_eq!(
        suspended("200 1 suspend state=3\n300 1 loss"),
        "100-200 RUN/unknown, 200-300 SUSPENDED, 300-900 RUN/unknown"
    );
}

#[test]
fn a_jump_of_the_clock_while_there_is_work_is_a_suspension() {
    let jump = |before: &str, seconds: Ns, after: &str| {
        let after: String = after
            .lines()
            .map(|line| {
                let (at, rest) = line.trim().split_once(' ').expect("a time");
                format!("{} {rest}\n", at.parse::<Ns>().expect("a number") + seconds * SECOND)
            })
            .collect();
        play(&format!("{before}\n{after}"))
    };
    let count = |seen: &Seen| seen.machines.as_ref().expect("it was played").suspensions().inferred;
    let running = "100 0 switch prev=0 next=5\n150 1 switch prev=0 next=6";
    let after = "200 0 switch prev=5 next=0 state=1\n300 1 -";
    let seen = jump(running, 3600, after);
    let end = 3600 * SECOND + 200;
    assert_eq!(seen.thread(5), format!("100-150 RUN/unknown, 150-{end} SUSPENDED, {end}-{} WAIT", end + 100));
    assert_eq!(count(&seen), 1);
    // A wait to be run, an interrupt, and a thread that only its switch names.
    assert_eq!(count(&jump("100 0 switch prev=5 next=0 state=1\n150 0 wake tid=5 cpu=0", 30, after)), 1);
    assert_eq!(count(&jump("100 0 switch prev=5 next=0 state=1\n150 0 irq_entry nr=1", 30, "200 0 irq_exit nr=1")), 1);
    let unnamed = jump("100 0 -\n110 0 -", 30, "200 0 switch prev=5 next=0 state=1\n300 0 -");
    assert_eq!((count(&unnamed), unnamed.credits), (1, vec![format!("5: 100-110")]));
    // All are idle; it is too short; such a time was there before; a CPU that is not seen or whose events were lost.
    let idle = "100 0 switch prev=5 next=0 state=1\n150 1 switch prev=6 next=0 state=1";
    assert_eq!(count(&jump(idle, 3600, "200 0 switch prev=0 next=5\n300 1 -")), 0);
    assert_eq!(count(&jump(running, 19, after)), 0);
    assert_eq!(count(&jump(&format!("{running}\n{} 0 -", 4 * SECOND), 40, after)), 0);
    assert_eq!(count(&jump(&format!("0 3 missing\n{running}"), 3600, after)), 0);
    let lost = jump("100 0 switch prev=0 next=5\n150 0 -\n160 0 loss", 3600, after);
    assert!(count(&lost) == 0 && lost.thread(5).starts_with("100-160 RUN/unknown, 3600"), "{}", lost.thread(5));
}

/// A stream as it is, and as it would be with a machine that was suspended meanwhile.
#[test]
fn a_suspension_changes_nothing_else() {
    let mut seed = 1u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..300 {
        let (mut plain, mut with, mut shift, mut now) = (String::new(), String::new(), 0, 100);
        let mut suspended: Vec<(Ns, Ns)> = Vec::new();
        for _ in 0..40 {
            now += Ns::from(random(30));
            if random(6) == 0 {
                let (from, length) = (now + shift, 1 + Ns::from(random(1000)));
                let cpu = random(2);
                let _ = writeln!(with, "{from} {cpu} suspend action=machine_suspend start=1");
                let _ = writeln!(with, "{} {cpu} suspend action=machine_suspend start=0", from + length);
                // The first stream has the same events, so that the trace begins and ends with it.
                let _ = writeln!(plain, "{now} {cpu} -\n{now} {cpu} -");
                suspended.push((from, from + length));
                shift += length;
            }
            let [cpu, one, two] = [2, 5, 5].map(&mut random);
            let event = match random(10) {
                0..4 => format!("switch prev={one} next={two} state={}", random(2)),
                4 | 5 => format!("wake tid={} cpu={}", 1 + one, random(2)),
                6 => format!("sys_entry name=call{one}"),
                7 => "sys_exit ret=0".to_string(),
                8 => format!("irq_entry nr={one}"),
                _ => format!("irq_exit nr={one}"),
            };
            let _ = writeln!(plain, "{now} {cpu} {event}");
            let _ = writeln!(with, "{} {cpu} {event}", now + shift);
        }
        let (plain, with) = (play(&plain), play(&with));
        let awake = |at: Ns| -> Ns { at - suspended.iter().map(|(from, to)| (at.min(*to) - from).max(0)).sum::<Ns>() };
        let joined = |pieces: &Pieces| {
            let mut found = Pieces::new();
            for (from, to, name) in pieces.iter().filter(|(.., name)| !name.to_lowercase().starts_with("suspended")) {
                put(&mut found, awake(*from), awake(*to), name.clone());
            }
            found
        };
        let all = |pieces: &BTreeMap<_, Pieces>| pieces.values().map(joined).collect::<Vec<_>>();
        assert_eq!(all(&with.threads), plain.threads.values().cloned().collect::<Vec<_>>());
        let of_cpus = |seen: &Seen| seen.cpus.values().map(joined).collect::<Vec<_>>();
        assert_eq!(of_cpus(&with), plain.cpus.values().cloned().collect::<Vec<_>>());
        assert_eq!((&with.births.len(), &with.runs.len()), (&plain.births.len(), &plain.runs.len()));
        let time = |seen: &Seen| -> Ns {
            let length = |credit: &String| {
                let (from, to) = credit.split_once(": ").and_then(|(_, times)| times.split_once('-')).expect("times");
                to.parse::<Ns>().expect("a time") - from.parse::<Ns>().expect("a time")
            };
            seen.credits.iter().map(length).sum()
        };
        assert_eq!(time(&with), time(&plain));
        assert_eq!(with.waits.len(), plain.waits.len());
        let machines = with.machines.expect("it was played");
        let total: Ns = suspended.iter().map(|(from, to)| to - from).sum();
        assert_eq!(machines.suspensions().total, total);
        assert_eq!(machines.length(0, 0, machines.now()), machines.now() - total);
    }
}
