//! A viewer for tests.
#![allow(dead_code, unreachable_pub, reason = "several test files compile this module, and each uses a part of it")]

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tracemill_engine::growth::{GrowingSource, GrowthPlaces};
use tracemill_engine::merge::{Merger, Note};
use tracemill_engine::request::{EventQuery, OpenStep, Request};
use tracemill_engine::session::OpenOptions;
use tracemill_live::LiveUrl;
use tracemill_live::source::{LiveSource, Patience};
use tracemill_live::viewer::ViewerOptions;
use tracemill_model::error::Result;

/// Everything that a viewer saw.
#[derive(Default, Debug)]
pub struct Watched {
    /// Class, time and value of each event, in the order in which they were shown.
    pub events: Vec<(u64, u64, u32)>,
    pub faults: Vec<String>,
    pub warnings: Vec<String>,
    /// Lost packets and discarded events.
    pub lost: u64,
    pub rounds: usize,
}

impl Watched {
    pub fn times(&self) -> Vec<u64> {
        self.events.iter().map(|event| event.1).collect()
    }
}

pub fn options(port: u16) -> ViewerOptions {
    ViewerOptions {
        url: LiveUrl::parse(&format!("net://127.0.0.1:{port}/host/mill/flour")).expect("it is one"),
        from_beginning: true,
        waits: false,
        reconnects: false,
        timeout: Duration::from_secs(2),
        metadata_wait: ViewerOptions::METADATA_WAIT,
        memory: 1 << 20,
    }
}

/// Views a session to its end.
pub fn watch(port: u16) -> Watched {
    watch_with(options(port), Patience::Timers(10)).expect("the connection is made")
}

pub fn watch_with(options: ViewerOptions, patience: Patience) -> Result<Watched> {
    let mut source = LiveSource::open(options, patience)?;
    let mut places = GrowthPlaces::new(false);
    let mut watched = Watched::default();
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < Duration::from_secs(60), "it hangs: {watched:?}");
        let round = source.next_round(Duration::from_millis(20))?;
        let (faults, warnings) = source.take_faults();
        watched.faults.extend(faults.iter().map(ToString::to_string));
        watched.warnings.extend(warnings.iter().map(ToString::to_string));
        let Some(round) = round else { continue };
        watched.rounds += 1;
        let request = Request {
            inputs: round.inputs.clone(),
            open: OpenOptions::new(&[&tracemill_ctf::FORMAT]),
            events: Some(EventQuery::default()),
            ..Request::default()
        };
        let is_last = round.is_last;
        let opened = request.open(&*round.storage, &mut |step| {
            let OpenStep::Opened(session) = step else { return Ok(ControlFlow::Continue(())) };
            let begun = !session.traces.is_empty();
            watched.faults.extend(session.failures.iter().filter(|_| begun).map(ToString::to_string));
            watched.faults.extend(source.look_at(session, &mut places).iter().map(ToString::to_string));
            Ok(if begun { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        if let Some(opened) = opened {
            let mut merger = places.merger(&opened.session, &opened.streams, &opened.selection, &source);
            take(&mut merger, &mut watched);
            places.keep(&opened.session, &opened.streams, &mut merger);
            source.release(&mut places);
        }
        if is_last {
            let (faults, warnings) = source.take_faults();
            watched.faults.extend(faults.iter().map(ToString::to_string));
            watched.warnings.extend(warnings.iter().map(ToString::to_string));
            return Ok(watched);
        }
    }
}

/// Takes what a merger gives.
pub fn take(merger: &mut Merger, watched: &mut Watched) {
    while let Some(batch) = merger.next_batch(5) {
        for run in &batch.runs {
            let (_, ready) = &batch.chunks[run.chunk as usize];
            for at in run.from..run.to {
                let event = ready.chunk.event(at as usize);
                let value = u32::from_le_bytes(event.body()[..4].try_into().expect("4 bytes"));
                watched.events.push((event.id(), event.cycles(), value));
            }
        }
        for note in batch.notes {
            match note {
                Note::Gap(_, gap) => watched.lost += gap.count.unwrap_or(0),
                Note::Fault(error) => watched.faults.push(error.to_string()),
                Note::Warning(error) => watched.warnings.push(error.to_string()),
            }
        }
    }
}
