//! Counts the events of each class and the bytes of the strings in their payloads: what a program does that wants
//! fields.
//!
//!     cargo run -p tracemill --example count -- demo

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use tracemill::{
    FORMATS, FileSystem, NodeId, Note, OpenOptions, Result, Scope, Selection, Session, State, Visitor, merger, streams,
};

/// What was counted of an event class.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// Events.
    pub(crate) events: u64,
    /// Bytes of the strings in their payloads.
    pub(crate) string_bytes: u64,
}

/// Adds up the lengths of strings.
#[derive(Default)]
struct Strings(u64);

impl Visitor for Strings {
    fn string(&mut self, _node: NodeId, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }
}

/// Counts by name of the event class; the second number is that of lost events.
pub(crate) fn count(paths: &[PathBuf]) -> Result<(BTreeMap<String, Count>, u64)> {
    let session = Session::open(&FileSystem, paths, &OpenOptions::new(FORMATS))?;
    for failure in &session.failures {
        eprintln!("{failure}");
    }
    let streams = streams(&session, &[])?;
    let mut merger = merger(&session, &streams, &Selection::default());
    let (mut counts, mut lost) = (BTreeMap::<String, Count>::new(), 0);
    let mut state = State::default();
    while let Some(batch) = merger.next_batch(4096) {
        for run in &batch.runs {
            let (stream, ready) = &batch.chunks[run.chunk as usize];
            let schema = &session.traces[streams[stream.0 as usize].trace].schema;
            for at in run.from as usize..run.to as usize {
                let event = ready.chunk.event(at);
                let name = schema.event(event.class()).name.as_deref().unwrap_or("(no name)");
                let mut strings = Strings::default();
                event.fields(&mut state).visit(Scope::Payload, &mut state, &mut strings)?;
                if !counts.contains_key(name) {
                    counts.insert(name.to_string(), Count::default());
                }
                if let Some(count) = counts.get_mut(name) {
                    count.events += 1;
                    count.string_bytes += strings.0;
                }
            }
        }
        for note in &batch.notes {
            match note {
                Note::Gap(_, gap) if gap.kind == tracemill::GapKind::DiscardedEvents => lost += gap.count.unwrap_or(0),
                Note::Gap(..) => {}
                Note::Fault(error) | Note::Warning(error) => eprintln!("{error}"),
            }
        }
    }
    Ok((counts, lost))
}

// The tests of the crate include this file for `count`.
#[allow(dead_code)]
fn main() -> Result<()> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (counts, lost) = count(&paths)?;
    let mut out = std::io::stdout().lock();
    for (name, Count { events, string_bytes }) in counts {
        // A closed pipe is no reason to complain.
        let _ = writeln!(out, "{events:8} {string_bytes:8} {name}");
    }
    let _ = writeln!(out, "{lost} events were lost");
    Ok(())
}
