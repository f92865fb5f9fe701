//! From what a user asks of traces to an open session and the events of it that are wanted.
//!
//! Commands, the library, the Python module, the viewer and clusters open traces by [`Request::open`], which takes the steps
//! in the one order that is right: times are resolved by clocks that are corrected, and conditions see the fields that are
//! redacted afterwards.

use std::ops::ControlFlow;
use std::path::PathBuf;

use tracemill_format::Storage;
use tracemill_model::error::{Error, Result};

use crate::align::{Alignment, Messages, align};
use crate::filter::Filter;
use crate::no_events::{self, NoEventsReason};
use crate::parsed_query::ParsedQuery;
use crate::redact::RedactionQuery;
use crate::selection::{SelectedStream, stream_of_fault, streams};
use crate::session::{ClockMove, OpenOptions, Session};
use crate::timeline::Selection;

/// The traces that a user asks for, and the events of them.
#[derive(Clone, Default)]
pub struct Request {
    /// Files and folders; without any the session is empty.
    pub inputs: Vec<PathBuf>,
    /// How they are opened.
    pub open: OpenOptions,
    /// Messages between the traces that correct their clocks.
    pub correlation: Option<Correlation>,
    /// Corrections of the clocks of some traces, beside all others.
    pub clock_moves: Vec<ClockMove>,
    /// The events that are wanted; `None` where the session alone is: no streams are selected then.
    pub events: Option<EventQuery>,
    /// The fields that must not be seen.
    pub redaction: RedactionQuery,
}

/// A description of messages that [`Messages::parse`] reads.
#[derive(Clone, Debug)]
pub struct Correlation {
    /// The events at the two ends.
    pub events: String,
    /// The fields that both share.
    pub by: Option<String>,
}

/// The events of a session that are wanted, and the means to read them.
#[derive(Clone, Default)]
pub struct EventQuery {
    /// Conditions and times.
    pub choice: ParsedQuery,
    /// Names, patterns and ids of streams; none for all.
    pub streams: Vec<String>,
    /// Are times without a zone universal time?
    pub gmt: bool,
    /// Threads.
    pub jobs: usize,
    /// Memory for events that wait to be merged; the default when it is not given.
    pub memory_bytes: Option<usize>,
}

/// A query that is bound to a session.
pub struct SelectedEvents {
    /// The streams that are read.
    pub streams: Vec<SelectedStream>,
    /// The events of them that are read.
    pub selection: Selection,
    /// The condition, as far as the selection does not hold it.
    pub filter: Option<Filter>,
}

impl EventQuery {
    /// Binds the query to a session.
    ///
    /// # Errors
    /// The errors of [`ParsedQuery::bind`], and when there is no such stream.
    pub fn bind(&self, session: &Session) -> Result<SelectedEvents> {
        let (selection, filter) = self.bind_choice(session)?;
        Ok(SelectedEvents { streams: streams(session, &self.streams)?, selection, filter })
    }

    fn bind_choice(&self, session: &Session) -> Result<(Selection, Option<Filter>)> {
        let (mut selection, filter) = self.choice.bind(session, self.gmt)?;
        // Spines get half of it; the rest is for what is made of the events.
        selection.memory_bytes = self.memory_bytes.unwrap_or(0) / 2;
        selection.jobs = self.jobs;
        Ok((selection, filter))
    }
}

/// The result of a request.
pub struct OpenedTraces {
    /// The session.
    pub session: Session,
    /// The streams that are read.
    pub streams: Vec<SelectedStream>,
    /// The events of them that are read.
    pub selection: Selection,
    /// The condition, as far as the selection does not hold it.
    pub filter: Option<Filter>,
    /// The query that selected them.
    pub query: EventQuery,
}

/// A step of opening that is reported to the caller.
pub enum OpenStep<'s> {
    /// The traces are open: the session has the failures, warnings and errors of that. Names of traces may be changed.
    Opened(&'s mut Session),
    /// Clocks were corrected by messages.
    Correlated(&'s Session, Vec<Alignment>, Vec<Error>),
}

impl Request {
    /// Opens the traces, corrects their clocks, binds the query to them, and redacts them. `None` when `report`, which gets
    /// each step, ends the work.
    ///
    /// # Errors
    /// When an option, a condition, a time, a stream or a field is wrong, and the errors of `report`. Damage to the traces
    /// is no error: it is in the session.
    pub fn open(
        self,
        storage: &dyn Storage,
        report: &mut dyn FnMut(OpenStep<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<Option<OpenedTraces>> {
        let mut session = match &self.inputs[..] {
            [] => Session::default(),
            inputs => Session::open(storage, inputs, &self.open)?,
        };
        if report(OpenStep::Opened(&mut session))?.is_break() {
            return Ok(None);
        }
        if let Some(Correlation { events, by }) = &self.correlation {
            let (alignments, warnings) = align(&mut session, &Messages::parse(events, by.as_deref())?)?;
            if report(OpenStep::Correlated(&session, alignments, warnings))?.is_break() {
                return Ok(None);
            }
        }
        session.move_clocks(&self.clock_moves);
        let bind = |query: &EventQuery| query.bind_choice(&session);
        let (mut selection, mut filter) = self.events.as_ref().map(bind).transpose()?.unwrap_or_default();
        if let Some(redactions) = self.redaction.apply(&mut session)? {
            selection.redactions = Some(redactions);
            // It may ask for fields that are redacted.
            selection.filter = filter.take();
        }
        let find = |query: &EventQuery| streams(&session, &query.streams);
        let streams = self.events.as_ref().map(find).transpose()?.unwrap_or_default();
        Ok(Some(OpenedTraces { session, streams, selection, filter, query: self.events.unwrap_or_default() }))
    }
}

impl OpenedTraces {
    /// Errors of packets that opening found and reading does not meet: a file without packets is no stream, and not all
    /// streams may be read.
    pub fn unread_faults(&self) -> impl Iterator<Item = &Error> {
        self.session.traces.iter().enumerate().flat_map(move |(trace, of)| {
            let of_packets = of.faults.iter().filter(|fault| fault.place().packet.is_some());
            of_packets.filter(move |fault| {
                let stream = stream_of_fault(&of.streams, fault);
                !self.streams.iter().any(|own| own.trace == trace && Some(own.index) == stream)
            })
        })
    }

    /// The reasons why no event was selected, after all were looked at.
    pub fn no_events_reasons(&self) -> Vec<NoEventsReason> {
        no_events::reasons(&self.query.choice, &self.session, &self.streams, &self.selection)
    }

    /// The reasons why no event can be selected, known before any is looked at.
    pub fn certain_no_events_reasons(&self) -> Vec<NoEventsReason> {
        no_events::certain_reasons(&self.query.choice, &self.session, &self.streams, &self.selection)
    }
}
