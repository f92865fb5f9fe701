//! Writes a trace from two threads that lost events, and reads it back: `.. --example write_trace -- made`.
use tracemill::{Result, Traces, write::Ctf2, write::string, write::u32, write::u64};

pub(crate) fn run(path: &str) -> Result<Traces> {
    let trace = Ctf2::create(path)?;
    let app = trace.stream_class("app").context("tid", u32()).build()?;
    let request = app.event_class("request").field("id", u64()).field("path", string()).build()?;
    let reply = app.event_class("reply").field("id", u64()).build()?;
    let threads = [1, 2].map(|tid| {
        let (app, request, reply) = (app.clone(), request.clone(), reply.clone());
        std::thread::spawn(move || {
            let mut out = app.stream(&format!("thread-{tid}"))?;
            out.set_context(|c| c.u32(tid))?;
            out.event(&request, 100, |e| e.u64(7).str("/x"))?;
            out.add_discarded(12);
            out.event(&reply, 250, |e| e.u64(7))?;
            out.finish()
        })
    });
    threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))?;
    trace.finish()?;
    tracemill::open([path])
}

pub(crate) fn main() -> Result<()> {
    for of in &run(&std::env::args().nth(1).unwrap_or("made".into()))?.count()[0].streams {
        println!("{:?} events, {:?} discarded", of.events(), of.discarded_events);
    }
    Ok(())
}
