//! CPU time of a thread an event, in ns: `cost KIND FOLDER EVENTS`, where KIND is `flight`, `stream`, `text`, `off` or
//! `clock`. `bench/recorder/measure.py` runs it beside others.

use std::hint::black_box;
use std::path::PathBuf;

use tracemill_record::{Recorder, event};

/// CPU time of this thread in ns, by the system's count, which has the clock's price alone.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0)
}

fn run(kind: &str, count: u64) {
    match kind {
        "text" => (0..count).for_each(|i| event!(target: "mill", "text", a = i, b = black_box("sixteen bytes is"))),
        "clock" => (0..count).for_each(|_| {
            black_box(std::time::Instant::now());
        }),
        _ => (0..count).for_each(|i| event!(target: "mill", "tick", a = i, b = 2 * i)),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, kind, folder, count] = arguments.as_slice() else { panic!("cost KIND FOLDER EVENTS") };
    let count: u64 = count.parse().expect("a number of events");
    let options = Recorder::options(PathBuf::from(folder));
    let recorder = match kind.as_str() {
        "stream" => Some(options.stream(64 << 20).start().expect("it starts")),
        "off" => Some(options.filter("-*").start().expect("it starts")),
        "clock" => None,
        _ => Some(options.flight(4 << 20).start().expect("it starts")),
    };
    // The first round makes all pages present.
    run(kind, count / 10);
    let begin = cpu_ns();
    run(kind, count);
    eprintln!("{:.3}", (cpu_ns() - begin) / count as f64);
    if let Some(summary) = recorder.map(|recorder| recorder.finish().expect("it finishes")) {
        assert!(kind == "stream" || summary.discarded == 0);
        if summary.discarded > 0 {
            eprintln!("{} were discarded", summary.discarded);
        }
    }
}
