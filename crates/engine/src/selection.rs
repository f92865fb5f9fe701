//! The streams of a session that are read, and the event classes of them.

use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_format::Stream;
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};

use crate::event::Event;
use crate::pattern::Pattern;
use crate::session::Session;

/// A stream of a session that is read.
#[derive(Clone)]
pub struct StreamOf {
    /// Index of its trace in the session.
    pub trace: usize,
    /// Index in its trace.
    pub index: usize,
    /// The stream.
    pub stream: Arc<Stream>,
    /// Its clock.
    pub clock: Option<ClockMap>,
    /// Are there classes in its trace whose events have no time? Most traces have none, and need not look each one up.
    pub has_untimed: bool,
}

impl StreamOf {
    /// An event of the stream, with its time.
    #[inline]
    pub fn event<'e>(&self, raw: EventRef<'e>) -> Event<'e> {
        let clock = self.clock.as_ref();
        let ns = if self.has_untimed { raw.ns(clock) } else { clock.map(|clock| clock.ns(raw.cycles())) };
        Event { trace: self.trace, stream: self.index, raw, ns }
    }
}

/// All wanted streams of a session, in the order of traces and names.
pub fn streams(session: &Session, wanted: &[String]) -> Result<Vec<StreamOf>> {
    let patterns: Vec<Pattern> = wanted.iter().map(|text| Pattern::glob(text)).collect();
    let mut streams = Vec::new();
    for (trace, of) in session.traces.iter().enumerate() {
        let has_untimed = of.schema.events().iter().any(|class| class.is_untimed);
        for (index, stream) in of.streams.iter().enumerate() {
            let is_wanted = wanted.is_empty()
                || patterns.iter().any(|pattern| pattern.matches(stream.name.as_bytes()))
                || wanted.iter().any(|id| stream.id.is_some_and(|own| *id == own.to_string()));
            if is_wanted {
                let clock = session.clock_map(trace, stream.class);
                streams.push(StreamOf { trace, index, stream: Arc::new(stream.clone()), clock, has_untimed });
            }
        }
    }
    if streams.is_empty() && !wanted.is_empty() {
        let names: Vec<String> =
            session.traces.iter().flat_map(|trace| &trace.streams).map(|stream| format!("`{}`", stream.name)).collect();
        let error = Error::misuse(format!("no stream has the name or id `{}`", wanted.join("`, `")));
        return Err(match names.as_slice() {
            [] => error.with_help("the traces have no streams"),
            names => error.with_help(format!("the streams are {}", names.join(", "))),
        });
    }
    Ok(streams)
}

/// The wanted stream, by index, whose packets hold an error that opening a trace found.
pub fn stream_of_fault(streams: &[StreamOf], trace: usize, fault: &Error) -> Option<usize> {
    fault.place().packet?;
    let path = fault.place().file.as_deref()?;
    streams.iter().position(|of| of.trace == trace && of.stream.files.iter().any(|file| file.path == path))
}

/// A set of event classes, by index.
#[derive(Clone, Debug, Default)]
pub struct ClassSet(Vec<u64>);

impl ClassSet {
    /// The classes below `count` for which `wanted` is true.
    pub fn new(count: usize, wanted: impl Fn(usize) -> bool) -> Self {
        let mut words = vec![0u64; count.div_ceil(64)];
        for at in (0..count).filter(|&at| wanted(at)) {
            words[at / 64] |= 1 << (at % 64);
        }
        ClassSet(words)
    }

    /// Is the class in the set?
    #[inline]
    pub fn has(&self, class: u32) -> bool {
        self.0.get(class as usize / 64).is_some_and(|word| word >> (class % 64) & 1 == 1)
    }
}

/// Which events of a stream are wanted, as far as the spine shows.
#[derive(Clone, Debug, Default)]
pub struct SpineFilter {
    /// First and last wanted clock value; `None` for all.
    pub cycles: Option<(u64, u64)>,
    /// Wanted event classes; `None` for all.
    pub classes: Option<Arc<ClassSet>>,
}
