//! Events that need more than to be written (conditions, contexts, triggers), interrupted at each of their instructions: there a
//! signal handler records such an event, too. As in the tests of the ring, the processor stops after each instruction.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod util;

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tracemill_record::control::{Cause, Command, Contexts, EventCondition, Trigger, ask};
use tracemill_record::{Recorder, event};
use tracemill_ring::condition::{Comparison, FieldCondition, Literal, Number, Operand, OperandPart};
use util::{Folder, discarded, events};

/// Instructions of the event so far, and the one at which a handler comes.
static STEP: AtomicUsize = AtomicUsize::new(0);
static AT: AtomicUsize = AtomicUsize::new(MANY);
/// Many handlers come, and then none, or the event would never take its place: it tries again after each.
const MANY: usize = usize::MAX;
/// Events of handlers.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// A pair of events of the handler, and one that its condition drops.
fn inner() {
    let i = HANDLED.fetch_add(1, Ordering::Relaxed);
    event!(target: "s", "inner", i = i, text = "inside");
    event!(target: "s", "inner", i = i, text = "inside");
    event!(target: "s", "dropped", i = i + 1_000_000_000);
}

fn outer(i: u64) {
    event!(target: "s", "outer", i = i, text = "outside");
}

extern "C" fn on_step(_: libc::c_int) {
    let (step, at) = (STEP.fetch_add(1, Ordering::Relaxed), AT.load(Ordering::Relaxed));
    if step == at || at == MANY && step < 100 * 61 && step.is_multiple_of(61) {
        inner();
    }
}

/// Runs something, one instruction at a time. Gives their number.
fn stepped(work: impl FnOnce()) -> usize {
    STEP.store(0, Ordering::Relaxed);
    // SAFETY: the flag makes the processor call the handler of SIGTRAP, which is there; nothing else changes.
    unsafe { core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    work();
    // SAFETY: as above.
    unsafe { core::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    STEP.load(Ordering::Relaxed)
}

fn condition(comparison: Comparison, floor: i128) -> FieldCondition {
    let i = Operand { parts: vec![OperandPart::Field("i".to_string())] };
    FieldCondition::Compare(i, comparison, Literal::Number(Number { floor, has_fraction: false, real: None }))
}

/// Has the events need all that there is.
fn tell_needs(path: &Path) {
    let about = |floor, comparison| EventCondition {
        events: "s:*".to_string(),
        source: String::new(),
        condition: condition(comparison, floor),
    };
    let trigger = |cause| Command::Trigger(Trigger { cause, before: Duration::ZERO });
    let (begin, end, by) = ("s:*".to_string(), "s:*".to_string(), Some("i".to_string()));
    let commands = [
        Command::Filter(about(1_000_000_000, Comparison::Less)),
        // Neither comes true; both look at each event.
        trigger(Cause::Longer { begin, end, by, limit: Duration::from_secs(3600) }),
        trigger(Cause::Event(about(-1, Comparison::Equal))),
    ];
    ask(path, &commands).expect("it answers");
    let contexts = |names| {
        let contexts = Contexts::parse(names).expect("contexts");
        ask(path, &[Command::Contexts { events: "s:*".to_string(), contexts }])
    };
    if let Err(error) = contexts("cpu,tid,perf:page-faults,callstack") {
        eprintln!("!!! SKIPPED: {error}");
        contexts("cpu,tid,callstack").expect("it answers");
    }
}

#[test]
fn handlers_record_at_each_instruction_of_an_event_with_needs() {
    // SAFETY: the handler is a function of this file, and no other test is in it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_step as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
    let folder = Folder::new("steps");
    let path = folder.join("t");
    // A packet has room for all events: where one ends, those of handlers are discarded and counted.
    let recorder = Recorder::options(&path).flight(16 << 20).packet(8 << 20).start().expect("it starts");
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let stride = if std::env::var_os("TRACEMILL_LONG").is_some() { 1 } else { 307 };
    // A handler does not ask the recorder about a place: that takes its lock.
    outer(0);
    inner();
    tell_needs(&path);
    outer(1);
    inner();
    let before = descriptors();
    let steps = std::thread::spawn(move || {
        // A ring is there, and the counters are opened by the first event that is stepped through.
        event!(target: "w", "warm", i = 0_u64);
        let mut count = 2;
        let mut step = || {
            let steps = stepped(|| outer(count));
            count += 1;
            steps
        };
        let at_once = step();
        // One handler at a time.
        for at in (0..at_once).step_by(stride) {
            AT.store(at, Ordering::Relaxed);
            step();
        }
        (count, at_once)
    });
    let (outer_count, at_once) = steps.join().expect("it ends");
    assert!(at_once > 200, "{at_once} instructions");
    assert_eq!(descriptors(), before, "a counter is open");
    assert_eq!(recorder.finish().expect("it finishes").discarded, 0);
    let lines = events(&path);
    let of = |name: &str| -> Vec<String> {
        let lines = lines.iter().filter_map(|line| line.strip_prefix(name));
        lines.map(|rest| rest.split(' ').find_map(|field| field.strip_prefix("i=")).expect("i").to_string()).collect()
    };
    let numbers = |range: std::ops::Range<u64>| range.map(|i| i.to_string()).collect::<Vec<_>>();
    assert_eq!(of("s:outer "), numbers(0..outer_count));
    let handled = HANDLED.load(Ordering::Relaxed);
    assert_eq!(of("s:inner ").len() as u64, 2 * handled);
    // The first one was recorded before there was a condition.
    assert_eq!(of("s:dropped ").len(), 1);
    let mut inner = of("s:inner ");
    inner.dedup();
    assert_eq!(inner, numbers(0..handled), "pairs are not torn apart");
    assert_eq!(discarded(&path), 0);
    assert!(!folder.join("t.trigger1").exists());
}
