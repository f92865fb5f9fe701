//! Two fields of each event, by a visitor over rows and by the library:
//!
//!     cargo run --release -p tracemill-bench --example library -- TRACE payload.id payload.what
//!
//! The visitor reads stream after stream; the library merges them, and looks the fields up by their paths.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use tracemill::schema::EventClassId;
use tracemill_codec::plan::{DecoderState, NodeId, Visitor};
use tracemill_engine::cursor::Cursor;
use tracemill_engine::item::Item;
use tracemill_engine::selection::{SpineFilter, streams};

/// Rounds, of which the best one counts.
const ROUNDS: usize = 7;

/// Adds up the values of wanted nodes.
#[derive(Default)]
struct Wanted {
    nodes: Vec<NodeId>,
    sum: u64,
}

impl Wanted {
    #[inline]
    fn add(&mut self, node: NodeId, value: u64) {
        if self.nodes.contains(&node) {
            self.sum = self.sum.wrapping_add(value);
        }
    }
}

impl Visitor for Wanted {
    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.add(node, value);
    }
    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        self.add(node, value as u64);
    }
    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        self.add(node, bytes.len() as u64);
    }
}

fn main() -> tracemill::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [trace, fields @ ..] = arguments.as_slice() else {
        return Err(tracemill::Error::misuse("usage: library TRACE PATH..."));
    };
    let traces = tracemill::open([PathBuf::from(trace)])?;
    let by_row = best(|| rows(&traces, fields))?;
    let by_path = best(|| library(&traces, fields))?;
    println!("rows {:.1} ns, library {:.1} ns an event; {} events", by_row.0, by_path.0, by_row.1.0);
    assert_eq!(by_row.1, by_path.1, "the same fields of the same events");
    println!("{:.2} times", by_path.0 / by_row.0);
    Ok(())
}

/// The least ns of an event, and what was found.
fn best(mut run: impl FnMut() -> tracemill::Result<(u64, u64)>) -> tracemill::Result<(f64, (u64, u64))> {
    let (mut least, mut found) = (f64::MAX, (0, 0));
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        found = black_box(run()?);
        least = least.min(begin.elapsed().as_nanos() as f64 / found.0.max(1) as f64);
    }
    Ok((least, found))
}

/// The number of events, and the sum of the fields.
fn library(traces: &tracemill::Traces, fields: &[String]) -> tracemill::Result<(u64, u64)> {
    let (mut events, mut sum) = (0, 0u64);
    for event in traces.events() {
        let event = event?;
        events += 1;
        for field in fields {
            if let Some(value) = event.get(field) {
                let number = value.as_i128().map(|number| number as u64);
                let number = number.or_else(|| Some(value.as_bytes()?.len() as u64));
                sum = sum.wrapping_add(number.unwrap_or_default());
            }
        }
    }
    Ok((events, sum))
}

fn rows(traces: &tracemill::Traces, fields: &[String]) -> tracemill::Result<(u64, u64)> {
    let session = traces.session();
    let (mut events, mut wanted, mut state) = (0, Wanted::default(), DecoderState::default());
    for of in streams(session, &[])? {
        let mut nodes: HashMap<EventClassId, Vec<NodeId>> = HashMap::new();
        let trace = &session.traces[of.trace];
        let mut cursor = Cursor::new(trace, of.stream.clone(), of.clock, SpineFilter::default(), 8192);
        let mut class = None;
        while let Some(item) = cursor.next() {
            let Item::Chunk(ready) = item else { continue };
            for at in 0..ready.chunk.len() {
                let event = ready.chunk.event(at);
                events += 1;
                if class != Some(event.class()) {
                    class = Some(event.class());
                    wanted.nodes = nodes.entry(event.class()).or_insert_with(|| find(event, fields)).clone();
                }
                event.visit_flat(&mut state, &mut wanted)?;
            }
        }
    }
    Ok((events, wanted.sum))
}

/// The nodes of the fields: members of the payload or of a context.
fn find(event: tracemill_codec::chunk::EventRef<'_>, fields: &[String]) -> Vec<NodeId> {
    let plan = event.chunk.packet.plans.event_rows(event.class());
    let scopes = ["stream_context", "event_context", "payload"];
    let node = |path: &String| {
        let (scope, name) = path.split_once('.')?;
        let root = plan.roots[scopes.iter().position(|of| *of == scope)?]?;
        let of = |node: &tracemill_codec::plan::PlanNode| node.parent == root && *node.name == *name;
        plan.nodes.iter().position(of).map(|at| at as NodeId)
    };
    fields.iter().filter_map(node).collect()
}
