//! Changes between the cursors of a session and their readers: filters on fields, and [`tracemill_format::redact`].

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_codec::layout;
use tracemill_format::redact::{FieldPlace, Redaction, Redactor};
use tracemill_format::target;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::{FieldClassId, FieldKind, Origin, Schema};
use tracemill_semantics::names::is_of_who;

use crate::cursor::Cursor;
use crate::filter::{ColumnList, Filter, Matcher};
use crate::item::{Item, ReadyChunk};
use crate::parsed_query::misuse_of;
use crate::selection::SelectedStream;
use crate::session::Session;

/// The fields of traces that must not be seen, as paths that a user typed.
#[derive(Clone, Debug, Default)]
pub struct RedactionQuery {
    /// Fields whose values are replaced by others.
    pub hidden: FieldPaths,
    /// Fields that are left out.
    pub dropped: FieldPaths,
}

/// Paths of fields, and how errors speak of them.
#[derive(Clone, Debug, Default)]
pub struct FieldPaths {
    /// The paths.
    pub paths: Vec<String>,
    /// The option that names them, where one does.
    pub option: Option<&'static str>,
    /// The participle for what is done to the fields: `dropped`.
    pub action: &'static str,
}

impl RedactionQuery {
    /// Redacts a session. `None` when no field is named.
    ///
    /// # Errors
    /// When no event has one of the fields, and the errors of [`Redactions::apply`].
    pub fn apply(&self, session: &mut Session) -> Result<Option<Arc<Redactions>>> {
        let (hidden, dropped) = (self.hidden.bind(session)?, self.dropped.bind(session)?);
        if hidden.is_empty() && dropped.is_empty() {
            return Ok(None);
        }
        Redactions::apply(session, &hidden, &dropped).map(Some)
    }
}

impl FieldPaths {
    /// The fields of each trace; none when there are no paths.
    fn bind(&self, session: &Session) -> Result<Vec<Vec<FieldPlace>>> {
        if self.paths.is_empty() {
            return Ok(Vec::new());
        }
        let reported = |error| match self.option {
            Some(option) => misuse_of(option, error),
            None => error,
        };
        let columns = ColumnList::parse(&self.paths.join(",")).map_err(reported)?.bind(session).map_err(reported)?;
        session.traces.iter().map(|trace| columns.fields(&trace.schema, self.action)).collect()
    }
}

/// The redaction of each trace of a session.
pub struct Redactions {
    /// `None` for a trace that stays as it is.
    traces: Vec<Option<Arc<Redaction>>>,
    hides_tasks: bool,
}

impl Redactions {
    /// Hides fields of each trace of a session, and leaves others out: the traces have their redacted schemas from now on,
    /// and what is read with [`Selection::redactions`](crate::timeline::Selection::redactions) has events of those. All
    /// that looks at the events as they were must be bound before; so is
    /// [`Selection::filter`](crate::timeline::Selection::filter), which may ask for fields that are redacted.
    ///
    /// # Errors
    /// When other fields could not be read without one of them.
    pub fn apply(
        session: &mut Session,
        hidden: &[Vec<FieldPlace>],
        dropped: &[Vec<FieldPlace>],
    ) -> Result<Arc<Redactions>> {
        let mut traces = Vec::with_capacity(session.traces.len());
        let mut hides_tasks = false;
        for (at, trace) in session.traces.iter().enumerate() {
            let [hidden, dropped] = [hidden, dropped].map(|of| of.get(at).map_or(&[][..], |fields| fields));
            let mut fields = hidden.iter().chain(dropped);
            let hides = fields.any(|field| names_task(&trace.schema, field));
            hides_tasks |= hides;
            let is_redacted = !hidden.is_empty() || !dropped.is_empty();
            let redaction = is_redacted.then(|| Redaction::new(&trace.plans, hidden, dropped, hides)).transpose();
            traces.push(redaction.map_err(|error| error.in_file(&trace.path))?.map(Arc::new));
        }
        for (trace, redaction) in session.traces.iter_mut().zip(&traces) {
            if let Some(redaction) = redaction {
                trace.schema = redaction.redacted_plans().schema().clone();
                trace.plans = redaction.redacted_plans().clone();
            }
        }
        Ok(Arc::new(Redactions { traces, hides_tasks }))
    }

    /// Takes from what a target gets to know all that could show redacted values: tables, and what the traces were before.
    pub fn clear_origins(&self, sources: &mut [target::Source]) {
        for (source, _) in sources.iter_mut().zip(&self.traces).filter(|(_, redaction)| redaction.is_some()) {
            source.parts.clear();
            source.origin = Arc::new(Origin::default());
            if self.hides_tasks {
                source.tasks.clear();
            }
        }
    }
}

/// Is the field, or one inside it, the id or the name of a task?
fn names_task(schema: &Schema, field: &FieldPlace) -> bool {
    let mut root = schema.scope_root(field.scope, field.class);
    let mut name = None;
    for child in &field.children {
        let Some(class) = root.map(|root| schema.field_class(root)) else { return false };
        if let FieldKind::Struct(structure) = &class.kind {
            name = structure.members.get(*child as usize).map(|member| member.name.clone());
        }
        root = layout::children(class).into_iter().nth(*child as usize);
    }
    name.is_some_and(|name| is_of_who(&name)) || root.is_some_and(|root| has_task(schema, root))
}

/// Does a field have the id or the name of a task inside?
fn has_task(schema: &Schema, id: FieldClassId) -> bool {
    let class = schema.field_class(id);
    let is_one = matches!(&class.kind, FieldKind::Struct(structure)
        if structure.members.iter().any(|member| is_of_who(&member.name)));
    is_one || layout::children(class).into_iter().any(|child| has_task(schema, child))
}

/// Reads one stream: the items of a cursor, without the events that a filter leaves out, redacted where the session is.
pub struct StreamReader {
    cursor: Cursor,
    changed: Option<Box<Changed>>,
}

impl StreamReader {
    pub(crate) fn new(
        mut cursor: Cursor,
        redactions: Option<&Redactions>,
        choice: Option<&Arc<EventFilter>>,
        of: &SelectedStream,
    ) -> Self {
        let redaction = redactions.and_then(|redactions| redactions.traces[of.trace].clone());
        if let Some(redaction) = &redaction {
            cursor.read_by(redaction.from());
        }
        let redactor = redaction.map(Redactor::new);
        let is_other = redactor.is_some() || choice.is_some();
        let changed = is_other.then(|| Changed::new(redactor, choice, of));
        StreamReader { cursor, changed }
    }

    /// Reads some of the packets alone, if that can be done.
    pub(crate) fn part(&self, packets: Range<usize>) -> StreamReader {
        StreamReader { cursor: self.cursor.part(packets), changed: self.changed_again() }
    }

    /// Reads the events of some of the packets in a range of clock values.
    pub(crate) fn part_of_time(&self, packets: Range<usize>, cycles: (u64, u64)) -> StreamReader {
        StreamReader { cursor: self.cursor.part_of_time(packets, cycles), changed: self.changed_again() }
    }

    fn changed_again(&self) -> Option<Box<Changed>> {
        self.changed.as_deref().map(|changed| Changed::new(None, changed.choice.as_ref(), &changed.of))
    }

    /// See [`Cursor::ends_in_time`].
    pub(crate) fn ends_in_time(&self) -> bool {
        self.cursor.ends_in_time()
    }

    /// The items of a cursor as they are.
    pub(crate) fn from_cursor(cursor: Cursor) -> StreamReader {
        StreamReader { cursor, changed: None }
    }

    /// See [`Cursor::end_of_part`].
    pub(crate) fn end_of_part(&self, first: usize, bytes: u64) -> usize {
        self.cursor.end_of_part(first, bytes)
    }

    /// Its cursor, unless what was read before decides about the items after it.
    pub(crate) fn divisible(&mut self) -> Option<&mut Cursor> {
        let is_redacted = self.changed.as_ref().is_some_and(|changed| changed.redactor.is_some());
        if is_redacted { None } else { Some(&mut self.cursor) }
    }

    /// Gives packets as they are where all their events are wanted ([`Cursor::give_packets`]); never redacted ones.
    pub fn give_packets(&mut self) {
        if self.changed.is_none() {
            self.cursor.give_packets();
        }
    }

    /// Gives packets without events, too ([`Cursor::give_empty_packets`]), unless a filter may have left them empty.
    pub fn give_empty_packets(&mut self) {
        if self.changed.as_ref().is_none_or(|changed| changed.choice.is_none()) {
            self.cursor.give_empty_packets();
        }
    }

    /// Its cursor, unless the items of that one are changed.
    pub(crate) fn plain(&mut self) -> Option<&mut Cursor> {
        if self.changed.is_none() { Some(&mut self.cursor) } else { None }
    }

    /// The next item, `None` at the end of the stream.
    #[expect(clippy::should_implement_trait, reason = "`Iterator` would offer adapters that lose the reader")]
    pub fn next(&mut self) -> Option<Item> {
        match &mut self.changed {
            Some(changed) => changed.next(&mut self.cursor),
            None => self.cursor.next(),
        }
    }
}

/// The events that a filter leaves, for all readers of a session.
pub(crate) struct EventFilter {
    filter: Filter,
    /// Matchers that no thread uses. One prepares each class of events when it meets it first, which is too much work to do
    /// it for every part of a stream again.
    spare: Mutex<Vec<Matcher>>,
}

impl EventFilter {
    pub(crate) fn new(filter: &Filter) -> EventFilter {
        EventFilter { filter: filter.clone(), spare: Mutex::default() }
    }

    /// Keeps the events that are wanted. `kept` is storage that is used again and again.
    fn keep(&self, ready: &mut ReadyChunk, of: &SelectedStream, kept: &mut Vec<bool>) {
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let known = spare().pop();
        let mut matcher = known.unwrap_or_else(|| self.filter.matcher());
        let events = (0..ready.chunk.len()).map(|at| of.event(ready.chunk.event(at)));
        kept.clear();
        kept.extend(events.map(|event| matcher.matches(&event)));
        spare().push(matcher);
        ready.retain(kept);
        ready.place = None;
        // Room for all events of a packet, of which few are left, would be kept until those are printed.
        ready.chunk.shrink();
    }
}

/// The changes of the items of one stream.
struct Changed {
    redactor: Option<Redactor>,
    choice: Option<Arc<EventFilter>>,
    /// By event of a chunk: is it wanted?
    kept: Vec<bool>,
    of: SelectedStream,
    /// A chunk of which events are left, from this one on.
    waiting: Option<(ReadyChunk, usize)>,
    /// An error to report before anything else.
    fault: Option<Error>,
}

impl Changed {
    fn new(redactor: Option<Redactor>, choice: Option<&Arc<EventFilter>>, of: &SelectedStream) -> Box<Changed> {
        let (choice, of) = (choice.cloned(), of.clone());
        Box::new(Changed { redactor, choice, kept: Vec::new(), of, waiting: None, fault: None })
    }

    fn next(&mut self, cursor: &mut Cursor) -> Option<Item> {
        loop {
            if let Some(fault) = self.fault.take() {
                return Some(Item::Fault(fault));
            }
            if let Some((ready, from)) = self.waiting.take() {
                let ready = self.rewritten(ready, from);
                if !ready.chunk.is_empty() {
                    return Some(Item::Chunk(ready));
                }
                continue;
            }
            match (cursor.next()?, &mut self.redactor) {
                (Item::Chunk(mut ready), _) => {
                    if let Some(choice) = &self.choice {
                        choice.keep(&mut ready, &self.of, &mut self.kept);
                    }
                    self.waiting = (!ready.chunk.is_empty()).then_some((ready, 0));
                }
                (Item::Packet(packet, events), Some(redactor)) => {
                    return Some(Item::Packet(Arc::new(redactor.packet(&packet)), events));
                }
                (other, _) => return Some(other),
            }
        }
    }

    /// The events from `from` on, redacted, as many as a chunk should hold; the others wait.
    fn rewritten(&mut self, ready: ReadyChunk, from: usize) -> ReadyChunk {
        let Some(redactor) = &mut self.redactor else { return ready };
        let (chunk, next, fault) = redactor.chunk(&ready.chunk, from);
        let floors = ready.floors.as_ref().map(|floors| floors[from..from + chunk.len()].to_vec());
        let packet = &ready.chunk.packet.packet;
        self.fault = fault.map(|fault| {
            let message = format!("an event can no longer be read: {}", fault.kind);
            let error = Error::new(ErrorKind::Io, message).in_packet(packet.index);
            let error = error.with_help("the file has changed while it was read");
            error.in_file(&self.of.stream.files[packet.file as usize].path)
        });
        if next < ready.chunk.len() {
            self.waiting = Some((ready, next));
        }
        ReadyChunk { chunk, floors, place: None }
    }
}
