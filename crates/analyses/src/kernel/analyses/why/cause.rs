//! Causes: what a part of the critical path was spent on, in columns and in words.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::rc::Rc;

use tracemill_semantics::states::{Machines, Ns, ThreadIndex, thread_title};
use tracemill_table::Address;

use super::facts::{Facts, Wait};
use crate::kernel::analyses::occupancy::Occupant;
use crate::kernel::analyses::path::search::{PathPiece, Walk};
use crate::kernel::analyses::wait_facts::{CallObject, OpenCall};

/// A thread, as rows and sentences name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct NamedThread {
    /// Its number; none where several threads of a name are meant.
    pub(super) tid: Option<i64>,
    pub(super) comm: Option<Rc<str>>,
}

impl NamedThread {
    pub(super) fn new(machines: &Machines, thread: ThreadIndex) -> NamedThread {
        let of = machines.thread(thread);
        NamedThread { tid: Some(of.tid), comm: of.comm.as_deref().map(Rc::from) }
    }

    /// Its name and its number.
    pub(super) fn title(&self) -> String {
        match (self.tid, &self.comm) {
            (Some(tid), comm) => thread_title(comm.as_deref(), tid),
            (None, Some(comm)) => comm.to_string(),
            (None, None) => "a thread without a name".to_string(),
        }
    }
}

/// The cause of a part of the path. Parts of one cause are alike in all of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Cause {
    pub(super) machine: u32,
    /// The thread of the part.
    pub(super) thread: NamedThread,
    /// Is it the thread that the path is about?
    pub(super) is_own: bool,
    /// As `path` has it.
    pub(super) state: &'static str,
    /// The system call in which it waits, and the file, the peer or the lock that the call is about.
    pub(super) call: Option<Rc<str>>,
    pub(super) object: Option<Rc<str>>,
    /// The disk or the interrupt that ended the wait; the interrupt that had the CPU.
    pub(super) source: Option<Rc<str>>,
    /// The CPU that it waits for.
    pub(super) cpu: Option<u64>,
    /// The thread that had that CPU; 0 is the idle one.
    pub(super) by: Option<NamedThread>,
    /// The waits that led here from the thread that the path is about, in words.
    pub(super) through: Option<Rc<str>>,
}

/// Number of the idle thread.
const IDLE: i64 = 0;

impl Cause {
    /// The causes of a part of the path, each with its time.
    pub(super) fn of_part(
        machines: &Machines,
        facts: &Facts,
        walks: &[Walk<'_>],
        found: PathPiece,
    ) -> Vec<(Cause, Ns)> {
        let through = through(machines, facts, walks);
        let wait = facts.wait_at(machines, found.thread, found.to).filter(|_| is_wait(found.state));
        let call = wait.and_then(|wait| wait.call.as_ref());
        let cause = Cause {
            machine: machines.thread(found.thread).machine,
            thread: NamedThread::new(machines, found.thread),
            is_own: walks.first().is_none_or(|first| first.search.thread == found.thread),
            state: found.state,
            call: call.map(|call| call.name.clone()),
            object: call.and_then(|call| call.object.as_ref()).map(CallObject::text),
            source: wait.filter(|_| found.state != "blocked").and_then(|wait| wait.source.clone()),
            through: (!through.is_empty()).then(|| through.into()),
            ..Cause::default()
        };
        let range = (found.from, found.to);
        match found.state {
            "wait_cpu" => {
                let mut parts = Vec::new();
                for (cpu, from, to) in facts.occupancy.queued(machines, found.thread, range) {
                    let of_cpu = Cause { cpu: cpu.map(|cpu| machines.cpu(cpu).number), ..cause.clone() };
                    let Some(cpu) = cpu else {
                        parts.push((of_cpu, to - from));
                        continue;
                    };
                    for (occupant, time) in facts.occupancy.occupants(machines, cpu, (from, to)) {
                        let mut one = of_cpu.clone();
                        match occupant {
                            Occupant::Thread(thread) => one.by = Some(NamedThread::new(machines, thread)),
                            Occupant::Idle => one.by = Some(NamedThread { tid: Some(IDLE), comm: None }),
                            Occupant::Interrupt(interrupt) => {
                                let title = interrupt.map(|interrupt| facts.title(cause.machine, interrupt));
                                one.source = Some(title.map_or_else(|| INTERRUPTS.into(), Rc::from));
                            }
                            Occupant::Unknown => {}
                        }
                        parts.push((one, time));
                    }
                }
                parts.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
                parts
            }
            "interrupted" => {
                let interrupt = facts.interrupt_of(machines, found.thread, range);
                let source = interrupt.map(|interrupt| facts.title(cause.machine, interrupt).into());
                vec![(Cause { source, ..cause }, found.to - found.from)]
            }
            _ => vec![(cause, found.to - found.from)],
        }
    }

    /// The cause in words, without the waits that led there.
    pub(super) fn phrase(&self) -> String {
        let mut text = String::new();
        let source = self.source.as_deref();
        let _ = match self.state {
            "running" if self.is_own => write!(text, "running"),
            "running" => write!(text, "while {} ran", self.thread.title()),
            "interrupted" => write!(text, "interrupted by {}", source.unwrap_or(INTERRUPTS)),
            "wait_cpu" => self.put_cpu(&mut text),
            "disk" => write!(text, "waiting for {}", source.unwrap_or("a disk")),
            "network" => write!(text, "waiting for the network"),
            "timer" => write!(text, "waiting for a timer"),
            "irq" | "softirq" => write!(text, "waiting for {}", source.unwrap_or("an interrupt")),
            "ipi" => write!(text, "waiting for another CPU"),
            "blocked" => write!(text, "blocked, by what is unknown"),
            "suspended" => write!(text, "while the machine was suspended"),
            "ended" => write!(text, "after {} had ended", self.thread.title()),
            _ => write!(text, "in an unknown state"),
        };
        if let Some(call) = &self.call {
            let _ = write!(text, " in {}", call_text(call, self.object.as_deref()));
        }
        text
    }

    fn put_cpu(&self, text: &mut String) -> std::fmt::Result {
        match self.cpu {
            Some(cpu) => write!(text, "for CPU {cpu}")?,
            None => write!(text, "for a CPU")?,
        }
        match (&self.by, &self.source) {
            (Some(by), _) if by.tid == Some(IDLE) => write!(text, ", which was idle"),
            (Some(by), _) => write!(text, ", which {} had", by.title()),
            (None, Some(source)) => write!(text, ", which {source} had"),
            (None, None) => Ok(()),
        }
    }

    /// The cause in words, and the waits that led there.
    pub(super) fn words(&self) -> String {
        let mut text = self.phrase();
        if let Some(through) = &self.through {
            let _ = write!(text, " ({through})");
        }
        text
    }

    /// The words for the idle thread in columns.
    pub(super) fn by_comm(&self) -> Option<&str> {
        let by = self.by.as_ref()?;
        if by.tid == Some(IDLE) { Some("idle") } else { by.comm.as_deref() }
    }
}

/// Interrupts of which no more is known.
const INTERRUPTS: &str = "interrupts";

fn is_wait(state: &str) -> bool {
    !matches!(state, "running" | "interrupted" | "wait_cpu" | "unknown" | "ended" | "suspended")
}

fn call_text(call: &str, object: Option<&str>) -> String {
    object.map_or_else(|| call.to_string(), |object| format!("{call} of {object}"))
}

/// The waits that led from the first thread of a path to the last one, in words.
fn through(machines: &Machines, facts: &Facts, walks: &[Walk<'_>]) -> String {
    let mut links = Vec::new();
    for pair in walks.windows(2) {
        let [waiter, waker] = [&pair[0], &pair[1]].map(|walk| NamedThread::new(machines, walk.search.thread).title());
        let text = match facts.wait_at(machines, pair[0].search.thread, pair[0].at) {
            Some(Wait { call: Some(OpenCall { object: Some(CallObject::Lock(lock)), .. }), is_released, .. }) => {
                let how = if *is_released { format!("which {waker} released") } else { format!("and {waker} woke it") };
                format!("{waiter} waited for lock {}, {how}", Address(*lock))
            }
            Some(Wait { call: Some(call), .. }) => {
                let object = call.object.as_ref().map(CallObject::text);
                format!("{waiter} waited for {waker} in {}", call_text(&call.name, object.as_deref()))
            }
            Some(_) => format!("{waiter} waited for {waker}"),
            None => format!("{waiter} was made by {waker}"),
        };
        links.push(text);
    }
    links.join("; ")
}

/// Causes that differ in the numbers of threads, CPUs and locks only as one, the largest first.
pub(super) fn alike(causes: &BTreeMap<Cause, Ns>) -> Vec<(Cause, Ns)> {
    let mut sorted: Vec<(&Cause, Ns)> = causes.iter().map(|(cause, total)| (cause, *total)).collect();
    sorted.sort_by_key(|(_, total)| Reverse(*total));
    let mut groups: BTreeMap<(Cause, String), (Cause, Ns)> = BTreeMap::new();
    for (cause, total) in sorted {
        let through = cause.through.as_deref().map(without_numbers).unwrap_or_default();
        match groups.entry((cause.kind(), through)) {
            Entry::Vacant(new) => drop(new.insert((cause.clone(), total))),
            Entry::Occupied(mut known) => {
                let (common, sum) = known.get_mut();
                // The numbers of the largest one can be looked for.
                let through = common.through.take();
                common.keep_common(cause);
                common.through = match (through, &cause.through) {
                    (Some(first), Some(other)) if first != *other && !first.ends_with(OTHERS) => {
                        Some([&first, OTHERS].concat().into())
                    }
                    (first, _) => first,
                };
                *sum += total;
            }
        }
    }
    let mut causes: Vec<(Cause, Ns)> = groups.into_values().collect();
    causes.sort_by_key(|(_, total)| Reverse(*total));
    causes
}

/// The end of the words for what led to several causes that are alike.
const OTHERS: &str = "; and others like that";

/// A text without its words that begin with a digit.
fn without_numbers(text: &str) -> String {
    let words = text.split(' ').filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// A duration for people, in the unit of a whole of which it is a part.
pub(super) struct UnitOf {
    name: &'static str,
    ns: f64,
}

impl UnitOf {
    /// The unit in which a whole is a number that people can read.
    pub(super) fn new(whole: Ns) -> UnitOf {
        let (name, ns) = match whole {
            1_000_000_000.. => ("s", 1e9),
            1_000_000.. => ("ms", 1e6),
            1_000.. => ("us", 1e3),
            _ => ("ns", 1.0),
        };
        UnitOf { name, ns }
    }

    /// The number.
    pub(super) fn number(&self, ns: f64) -> String {
        format!("{:.*}", usize::from(self.ns > 1.0), ns / self.ns)
    }

    /// The number with its unit.
    pub(super) fn whole(&self, ns: f64) -> String {
        format!("{} {}", self.number(ns), self.name)
    }
}

/// Causes that a sentence names at most, and the part of the whole below which it names none.
const MOST_CAUSES: usize = 4;
const LEAST_SHARE: f64 = 0.01;

/// The causes of a whole, the largest first, as a list: `31.0 waiting for disk sda, 13.3 for CPU 1, which grind 700 had`.
pub(super) fn list(unit: &UnitOf, whole: f64, causes: impl Iterator<Item = (f64, String)>) -> String {
    let (mut parts, mut rest) = (Vec::new(), 0.0);
    for (ns, words) in causes {
        if parts.len() < MOST_CAUSES && ns >= whole * LEAST_SHARE && ns > 0.0 {
            parts.push(format!("{} {words}", unit.number(ns)));
        } else {
            rest += ns;
        }
    }
    // The rest is told where it shows.
    let rest_text = unit.number(rest);
    if rest_text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) {
        parts.push(format!("{rest_text} for the rest"));
    }
    parts.join(", ")
}
