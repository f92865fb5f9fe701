//! Writes events with the library's builder, and says how long one takes:
//!
//!     cargo run --release -p tracemill-bench --example write_events -- 10000000 FOLDER
//!
//! The folder must not be there; what is written to it counts, what brings it to the disk in the end does not.

use std::time::{Duration, Instant};

use tracemill::write::{Ctf2, EventClass, FieldWriter, Stream, Value, list, string, u16, u32, u64};

fn main() -> tracemill::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((events, path)) = args.first().and_then(|text| text.parse().ok()).zip(args.get(1)) else {
        eprintln!("usage: write_events EVENTS FOLDER");
        std::process::exit(2);
    };
    let trace = Ctf2::create(path)?;
    let app = trace.stream_class("app").context("tid", u32()).build()?;
    let number = app.event_class("number").field("value", u64()).build()?;
    let call = app.event_class("call").field("fd", u32()).field("count", u64()).field("flags", u16()).build()?;
    let text = app.event_class("text").field("id", u64()).field("path", string()).build()?;
    let sizes = app.event_class("sizes").field("of", list(u32())).build()?;
    let mut out = app.stream("main")?;
    out.set_context(|c| c.u32(4711))?;
    let mut from = 0;
    from = measure("one integer", &mut out, &number, from..from + events, |e, at| e.u64(at))?;
    from = measure("three integers", &mut out, &call, from..from + events, |e, at| e.u32(3).u64(at).u32(7))?;
    from =
        measure("integer, 15 bytes", &mut out, &text, from..from + events, |e, at| e.u64(at).str("/usr/lib/x/y.so"))?;
    from = measure("list of four", &mut out, &sizes, from..from + events, |e, _| {
        e.array([1, 2, 3, 4], |e, at| e.u32(at))
    })?;
    let begin = Instant::now();
    for at in from..from + events {
        out.event_values(&text, at, &[Value::from(at), "/usr/lib/x/y.so".into()])?;
    }
    say("the same as values", events, begin.elapsed());
    out.finish()?;
    trace.finish()
}

fn measure(
    name: &str,
    out: &mut Stream,
    class: &EventClass,
    times: std::ops::Range<u64>,
    fields: impl for<'w, 'a> Fn(&'w mut FieldWriter<'a>, u64) -> &'w mut FieldWriter<'a>,
) -> tracemill::Result<u64> {
    let begin = Instant::now();
    for time in times.clone() {
        out.event(class, time, |e| fields(e, time))?;
    }
    say(name, times.end - times.start, begin.elapsed());
    Ok(times.end)
}

fn say(name: &str, events: u64, took: Duration) {
    let each = took.as_secs_f64() / events.max(1) as f64;
    println!("{name:20} {:6.1} ns an event, {:6.1} million events a second", each * 1e9, 1e-6 / each);
}
