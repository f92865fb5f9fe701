//! CPU time of a thread an event, in ns: `cost KIND FOLDER EVENTS`. `bench/recorder/measure.py` runs it beside others.
//!
//! | kind | |
//! |---|---|
//! | `flight`, `stream`, `off` | an event of two integers; the last one is filtered out |
//! | `text` | one with a text of 16 bytes in place of an integer |
//! | `pair` | two threads that record at once: each |
//! | `consumer` | the thread that moves packets |
//! | `tracing`, `tracing-empty` | an event of the crate `tracing` in a registry with our layer, and with one that does nothing |
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

fn of_threads() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    threads.map(|thread| cpu_ns(&format!("self/task/{}", thread.file_name().to_string_lossy()))).sum()
}

/// A layer that does nothing.
struct Empty;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Empty {}

fn run(kind: &str, count: u64) {
    match kind {
        "text" => (0..count).for_each(|i| event!(target: "mill", "text", a = i, b = black_box("sixteen bytes is"))),
        "clock" => (0..count).for_each(|_| {
            black_box(std::time::Instant::now());
        }),
        #[cfg(target_arch = "x86_64")]
        "counter" => (0..count).for_each(|_| {
            // SAFETY: every x86-64 processor has the instruction.
            black_box(unsafe { core::arch::x86_64::_rdtsc() });
        }),
        "tracing" | "tracing-empty" => (0..count).for_each(|i| tracing::info!(a = i, b = 2 * i)),
        _ => (0..count).for_each(|i| event!(target: "mill", "tick", a = i, b = 2 * i)),
    }
}

/// CPU time an event, after a round that makes all pages present.
fn measured(kind: &str, count: u64) -> f64 {
    run(kind, count / 10);
    let begin = cpu_ns("thread-self");
    run(kind, count);
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
        "clock" | "counter" | "tracing-empty" => None,
        _ => Some(options.flight(4 << 20).start().expect("it starts")),
    };
    let set = |subscriber| tracing::dispatcher::set_global_default(subscriber).expect("the only one");
    match kind.as_str() {
        "tracing" => set(tracing_subscriber::registry().with(tracemill_record::tracing::Layer::new()).into()),
        "tracing-empty" => set(tracing_subscriber::registry().with(Empty).into()),
        _ => {}
    }
    let cost = match kind.as_str() {
        "pair" => std::thread::scope(|scope| {
            let threads = [0; 2].map(|_| scope.spawn(|| measured(kind, count)));
            threads.map(|thread| thread.join().expect("it ends")).into_iter().fold(0.0, f64::max)
        }),
        "consumer" => {
            let begin = of_threads() - cpu_ns("thread-self");
            run(kind, count);
            (of_threads() - cpu_ns("thread-self") - begin) / count as f64
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
