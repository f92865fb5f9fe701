//! CPU time of a thread an event, in ns: `cost KIND FOLDER EVENTS`. `bench/recorder/measure.py` runs it beside others.
//!
//! | kind | |
//! |---|---|
//! | `flight`, `stream`, `off` | an event of two integers; the last one is filtered out |
//! | `text` | one with a text of 16 bytes in place of an integer |
//! | `pair` | two threads that record at once: the slower one |
//! | `alone`, `alone-pair` | a control of that: reading the counter and writing 24 bytes to memory of the thread's own, which is not shared; in one thread, and the slower one of two at once |
//! | `consumer` | the thread that moves packets |
//! | `tracing`, `tracing-empty` | an event of the crate `tracing` in a registry with our layer, and with one that does nothing |
//! | `tracing-subscriber` | the same by our subscriber, without a registry |
//! | `counter`, `clock` | reading the processor's counter; the standard library's clock |

use std::hint::black_box;
use std::path::PathBuf;

use tracemill_record::{Recorder, event};
use tracing_subscriber::layer::SubscriberExt as _;

/// CPU time in ns, of this thread or of a whole process, by the system's count.
fn cpu_ns(of: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{of}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0)
}

fn measure_threads() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    threads.map(|thread| cpu_ns(&format!("self/task/{}", thread.file_name().to_string_lossy()))).sum()
}

/// A layer that does nothing.
struct Empty;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Empty {}

/// The work of an event for the machine, in memory that no other thread has: 24 bytes and a reading of the counter.
fn alone(memory: &mut [[u64; 3]], count: u64) {
    let len = memory.len();
    let mut at = 0;
    for i in 0..count {
        memory[at] = [counter(), i, 2 * i];
        black_box(&mut memory[at]);
        at = if at + 1 < len { at + 1 } else { 0 };
    }
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

fn run(kind: &str, count: u64) {
    match kind {
        "text" => (0..count).for_each(|i| event!(target: "mill", "text", a = i, b = black_box("sixteen bytes is"))),
        "clock" => (0..count).for_each(|_| {
            black_box(std::time::Instant::now());
        }),
        "counter" => (0..count).for_each(|_| {
            black_box(counter());
        }),
        "tracing" | "tracing-empty" | "tracing-subscriber" => (0..count).for_each(|i| tracing::info!(a = i, b = 2 * i)),
        _ => (0..count).for_each(|i| event!(target: "mill", "tick", a = i, b = 2 * i)),
    }
}

/// CPU time an event, after a round that makes all pages present.
fn measured(kind: &str, count: u64) -> f64 {
    // As much memory as a ring has.
    let mut memory = vec![[1; 3]; if kind.starts_with("alone") { (4 << 20) / 24 } else { 0 }];
    let mut run = |count| if memory.is_empty() { run(kind, count) } else { alone(&mut memory, count) };
    run(count / 10);
    let begin = cpu_ns("thread-self");
    run(count);
    (cpu_ns("thread-self") - begin) / count as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, kind, folder, count] = arguments.as_slice() else { panic!("cost KIND FOLDER EVENTS") };
    let count: u64 = count.parse().expect("a number of events");
    let options = Recorder::options(PathBuf::from(folder));
    let recorder = match kind.as_str() {
        "stream" => Some(options.stream(64 << 20).start().expect("it starts")),
        "consumer" => Some(options.block(1 << 20).start().expect("it starts")),
        "off" => Some(options.filter("-*").start().expect("it starts")),
        "clock" | "counter" | "tracing-empty" | "alone" | "alone-pair" => None,
        _ => Some(options.flight(4 << 20).start().expect("it starts")),
    };
    let set = |subscriber| tracing::dispatcher::set_global_default(subscriber).expect("the only one");
    match kind.as_str() {
        "tracing" => set(tracing_subscriber::registry().with(tracemill_record::tracing::Layer::new()).into()),
        "tracing-subscriber" => set(tracemill_record::tracing::Subscriber::new().into()),
        "tracing-empty" => set(tracing_subscriber::registry().with(Empty).into()),
        _ => {}
    }
    let cost = match kind.as_str() {
        "pair" | "alone-pair" => std::thread::scope(|scope| {
            let threads = [0; 2].map(|_| scope.spawn(|| measured(kind, count)));
            threads.map(|thread| thread.join().expect("it ends")).into_iter().fold(0.0, f64::max)
        }),
        "consumer" => {
            let begin = measure_threads() - cpu_ns("thread-self");
            run(kind, count);
            (measure_threads() - cpu_ns("thread-self") - begin) / count as f64
        }
        // So little that it takes more of them to be seen.
        "off" => measured(kind, count * 100),
        _ => measured(kind, count),
    };
    eprintln!("{cost:.3}");
    if let Some(summary) = recorder.map(|recorder| recorder.finish().expect("it finishes")) {
        assert!(kind == "stream" || summary.discarded == 0);
        if summary.discarded > 0 {
            eprintln!("{} were discarded", summary.discarded);
        }
    }
}
