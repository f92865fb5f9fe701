//! Events of traces: choosing them, and iterating over them.

use std::rc::Rc;
use std::sync::Arc;

use tracemill_engine::item::ReadyChunk;
use tracemill_engine::merge::{Note, StreamIndex};
use tracemill_engine::request::{EventQuery, SelectedEvents};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::walk::{Turn, Walker};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind};

use crate::event::{Event, EventReading};
use crate::latency::Latency;
use crate::traces::Traces;

/// Events of the first batch: few, so that the first event comes soon.
const FIRST_BATCH: usize = 64;

/// Events of traces, before anything is read: all of them, or what is chosen of them.
///
/// It becomes an iterator over [`Event`]s in the order of time, where damage is an `Err`: a program that goes on reads
/// what is after it. [`Events::steps`] also gives what was lost.
///
/// ```
/// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces");
/// let traces = tracemill::open([demo])?;
/// let some = traces.events().filter("cpu == 0 and payload.id")?.begin("+10ms")?.end("-10ms")?;
/// for event in some.streams(["desk_?", "work_0"]) {
///     let event = event?;
///     assert_eq!(event.cpu(), Some(0));
/// }
/// # Ok::<(), tracemill::Error>(())
/// ```
///
/// Times and streams are checked against the traces when the events are read: what is wrong with them is the first `Err`.
#[derive(Clone)]
pub struct Events<'t> {
    pub(crate) traces: &'t Traces,
    query: EventQuery,
}

impl<'t> Events<'t> {
    pub(crate) fn new(traces: &'t Traces) -> Self {
        Events { traces, query: EventQuery { jobs: traces.jobs, ..EventQuery::default() } }
    }

    /// Only events for which a condition is true, in the language of `--filter`: `name == "sched_*" and cpu == 0`.
    ///
    /// # Errors
    /// When the text is no condition, or no event class has one of its fields.
    pub fn filter(mut self, condition: &str) -> Result<Self> {
        self.query.choice.set_filter("filter", condition)?;
        self.select()?;
        Ok(self)
    }

    /// Only events from this time on, written as for `--begin`: `2026-11-21 08:31:10`, `08:31:10.5`, `+1.5s` after the
    /// first event, seconds, or `1700000000000000000ns`.
    ///
    /// # Errors
    /// When the text is no time.
    pub fn begin(mut self, time: &str) -> Result<Self> {
        self.query.choice.set_begin("begin", time)?;
        Ok(self)
    }

    /// Only events up to this time, which is included; see [`Events::begin`]. `-200ms` is before the last event.
    ///
    /// # Errors
    /// When the text is no time.
    pub fn end(mut self, time: &str) -> Result<Self> {
        self.query.choice.set_end("end", time)?;
        Ok(self)
    }

    /// Times without a zone are universal time, not local time.
    #[must_use]
    pub fn utc(mut self) -> Self {
        self.query.gmt = true;
        self
    }

    /// Only events of these streams: their names, with `*` and `?`, or their ids.
    #[must_use]
    pub fn streams<S: Into<String>>(mut self, streams: impl IntoIterator<Item = S>) -> Self {
        self.query.streams.extend(streams.into_iter().map(Into::into));
        self
    }

    /// Durations from each of the events of one name to the next of another; see [`Latency`].
    pub fn latency(self, from: &str, to: &str) -> Latency<'t> {
        Latency::new(self, from, to)
    }

    /// Events, and everything that comes up between them.
    ///
    /// ```
    /// use tracemill::Step;
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/losses");
    ///
    /// let traces = tracemill::open([demo])?;
    /// let mut lost = 0;
    /// for step in traces.events().steps()? {
    ///     match step {
    ///         Step::Event(_) => {}
    ///         Step::Lost(loss) => lost += loss.count.unwrap_or(1),
    ///         Step::Damage(error) | Step::Warning(error) => eprintln!("{error}"),
    ///     }
    /// }
    /// assert_eq!(lost, 7070);
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a choice does not fit the traces.
    pub fn steps(self) -> Result<Steps<'t>> {
        let SelectedEvents { streams, selection, filter } = self.select()?;
        let streams: Rc<[SelectedStream]> = streams.into();
        let walker = Walker::new(&self.traces.session, streams.clone(), &selection, filter.as_ref());
        let reading = Rc::new(EventReading::new(self.traces, streams));
        Ok(Steps {
            walker: walker.with_first_batch(FIRST_BATCH),
            batch: Rc::new(Batch { chunks: Vec::new(), reading }),
        })
    }

    /// Binds the choices to the traces.
    pub(crate) fn select(&self) -> Result<SelectedEvents> {
        let mut selected = self.query.bind(&self.traces.session)?;
        selected.selection.redactions = self.traces.redactions.clone();
        Ok(selected)
    }
}

impl<'t> IntoIterator for Events<'t> {
    type Item = Result<Event<'t>>;
    type IntoIter = EventIter<'t>;

    fn into_iter(self) -> EventIter<'t> {
        EventIter(self.steps().map_err(Some))
    }
}

/// Iterates over events; see [`Events`].
pub struct EventIter<'t>(Result<Steps<'t>, Option<Error>>);

impl<'t> Iterator for EventIter<'t> {
    type Item = Result<Event<'t>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Ok(steps) => loop {
                match steps.next()? {
                    Step::Event(event) => return Some(Ok(event)),
                    Step::Damage(error) => return Some(Err(error)),
                    Step::Lost(_) | Step::Warning(_) => {}
                }
            },
            Err(error) => error.take().map(Err),
        }
    }
}

/// An event, or what comes up after the events so far.
pub enum Step<'t> {
    /// An event.
    Event(Event<'t>),
    /// Events or packets that the tracer lost.
    Lost(Loss),
    /// A part that cannot be read.
    Damage(Error),
    /// Something to know that costs no event.
    Warning(Error),
}

/// Events or packets that the tracer lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Discarded events, or lost packets.
    pub kind: GapKind,
    /// Their number, when the trace says it.
    pub count: Option<u64>,
    /// The stream.
    pub stream: String,
    /// The time before which nothing of it is missing, in ns.
    pub begin_ns: Option<i128>,
    /// The time after which nothing of it is missing, in ns.
    pub end_ns: Option<i128>,
}

impl Loss {
    fn new(of: &SelectedStream, gap: &Gap) -> Self {
        let ns = |cycles: Option<u64>| of.clock.zip(cycles).map(|(clock, cycles)| clock.ns(cycles));
        let (begin_ns, end_ns) = (ns(gap.begin_cycles), ns(gap.end_cycles));
        Loss { kind: gap.kind, count: gap.count, stream: of.stream.name.clone(), begin_ns, end_ns }
    }
}

/// Iterates over events and what comes up between them; see [`Events::steps`].
pub struct Steps<'t> {
    walker: Walker<Rc<[SelectedStream]>>,
    batch: Rc<Batch<'t>>,
}

/// The chunks that events point into: kept as long as one of these events is.
pub(crate) struct Batch<'t> {
    pub(crate) chunks: Vec<(StreamIndex, Arc<ReadyChunk>)>,
    pub(crate) reading: Rc<EventReading<'t>>,
}

impl<'t> Iterator for Steps<'t> {
    type Item = Step<'t>;

    #[inline]
    fn next(&mut self) -> Option<Step<'t>> {
        loop {
            match self.walker.next_turn()? {
                Turn::Event(position) => return Some(Step::Event(Event::new(&self.batch, position))),
                Turn::Batch => {
                    let chunks = self.walker.chunks().to_vec();
                    self.batch = Rc::new(Batch { chunks, reading: self.batch.reading.clone() });
                }
                Turn::Note(Note::Gap(stream, gap)) => {
                    return Some(Step::Lost(Loss::new(&self.batch.reading.streams[stream.0 as usize], &gap)));
                }
                Turn::Note(Note::Fault(error)) => return Some(Step::Damage(error)),
                Turn::Note(Note::Warning(error)) => return Some(Step::Warning(error)),
            }
        }
    }
}
