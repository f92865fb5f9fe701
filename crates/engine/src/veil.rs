//! Fields that are hidden or left out of all that comes from a session: see [`tracemill_format::veil`].

use std::sync::Arc;

use tracemill_codec::layout;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::Stream;
use tracemill_format::target::{HiddenField, Source};
use tracemill_format::veil::{Veil, Veiler};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::{FieldClassId, FieldKind, Origin, Schema};

use crate::filter::{Filter, FilterEvent, Matcher};
use crate::item::{Item, ReadyChunk};
use crate::selection::StreamOf;
use crate::session::Session;

/// The names of fields that say which task an event is of.
const TASKS: &[&str] = &["tid", "pid", "vtid", "vpid", "procname", "comm"];

/// What is hidden of each trace of a session.
pub struct Veils {
    traces: Vec<Arc<Veil>>,
    /// Which events are wanted: it may ask for what is hidden.
    filter: Option<Filter>,
    hides_tasks: bool,
}

impl Veils {
    /// Hides fields of each trace of a session, and leaves others out: the traces have their schemas without them from now
    /// on, and cursors that know of it ([`Selection::veils`](crate::timeline::Selection::veils)) give events of those.
    /// Everything that looks at the events as they were must be bound before; so is the filter.
    ///
    /// # Errors
    /// When other fields could not be read without one of them.
    pub fn apply(
        session: &mut Session,
        hidden: &[Vec<HiddenField>],
        dropped: &[Vec<HiddenField>],
        filter: Option<Filter>,
    ) -> Result<Arc<Veils>> {
        let of = |fields: &[Vec<HiddenField>], trace: usize| fields.get(trace).cloned().unwrap_or_default();
        let mut traces = Vec::with_capacity(session.traces.len());
        let mut hides_tasks = false;
        for (at, trace) in session.traces.iter().enumerate() {
            let (hidden, dropped) = (of(hidden, at), of(dropped, at));
            let mut fields = hidden.iter().chain(&dropped);
            hides_tasks |= fields.any(|field| names_task(&trace.schema, field));
            let veil = Veil::new(&trace.plans, &hidden, &dropped).map_err(|error| error.in_file(&trace.path))?;
            traces.push(Arc::new(veil));
        }
        for (trace, veil) in session.traces.iter_mut().zip(&traces) {
            trace.schema = veil.to().schema().clone();
            trace.plans = veil.to().clone();
        }
        Ok(Arc::new(Veils { traces, filter, hides_tasks }))
    }

    /// Takes from what a target gets to know what could show what is hidden: tables, and what the traces were before.
    pub fn cover(&self, sources: &mut [Source]) {
        for source in sources {
            source.parts.clear();
            source.origin = Arc::new(Origin::default());
            if self.hides_tasks {
                source.tasks.clear();
            }
        }
    }

    pub(crate) fn stream(self: &Arc<Self>, of: &StreamOf) -> Veiled {
        let veil = self.traces[of.trace].clone();
        Veiled {
            veiler: Veiler::new(veil.clone()),
            veil,
            matcher: self.filter.as_ref().map(Filter::matcher),
            trace: of.trace,
            index: of.index,
            clock: of.clock,
            stream: of.stream.clone(),
            waiting: None,
        }
    }
}

/// Is the field, or one inside it, the id or the name of a task?
fn names_task(schema: &Schema, field: &HiddenField) -> bool {
    let mut root = schema.scope_root(field.scope, field.class);
    let mut name = None;
    for child in &field.children {
        let Some(class) = root.map(|root| schema.field_class(root)) else { return false };
        if let FieldKind::Struct(structure) = &class.kind {
            name = structure.members.get(*child as usize).map(|member| member.name.clone());
        }
        root = layout::children(class).into_iter().nth(*child as usize);
    }
    name.is_some_and(|name| TASKS.contains(&&*name)) || root.is_some_and(|root| has_task(schema, root))
}

/// Does a field have the id or the name of a task inside?
fn has_task(schema: &Schema, id: FieldClassId) -> bool {
    let class = schema.field_class(id);
    let is_one = matches!(&class.kind, FieldKind::Struct(structure)
        if structure.members.iter().any(|member| TASKS.contains(&&*member.name)));
    is_one || layout::children(class).into_iter().any(|child| has_task(schema, child))
}

/// The items of one stream, with its fields hidden.
pub(crate) struct Veiled {
    veil: Arc<Veil>,
    veiler: Veiler,
    matcher: Option<Matcher>,
    trace: usize,
    index: usize,
    clock: Option<ClockMap>,
    stream: Arc<Stream>,
    /// A chunk of which events are left, from this one on.
    waiting: Option<(ReadyChunk, usize)>,
}

impl Veiled {
    /// Plans of the events as they are read.
    pub(crate) fn plans(&self) -> Arc<TracePlans> {
        self.veil.from().clone()
    }

    /// The next item; `more` gives those that are not hidden yet.
    pub(crate) fn next(&mut self, mut more: impl FnMut() -> Option<Item>) -> (Option<Item>, Option<Error>) {
        loop {
            if let Some((ready, from)) = self.waiting.take() {
                let (chunk, next, fault) = self.veiler.chunk(&ready.chunk, from);
                let floors = ready.floors.as_ref().map(|floors| floors[from..from + chunk.len()].to_vec());
                let packet = &ready.chunk.packet.packet;
                let fault = fault.map(|fault| {
                    let message = format!("an event can no longer be read: {}", fault.kind);
                    let error = Error::new(ErrorKind::Io, message).in_packet(packet.index);
                    let error = error.with_help("the file has changed while it was read");
                    error.in_file(&self.stream.files[packet.file as usize].path)
                });
                if next < ready.chunk.len() {
                    self.waiting = Some((ready, next));
                }
                if !chunk.is_empty() {
                    return (Some(Item::Chunk(ReadyChunk { chunk, floors })), fault);
                }
                if let Some(fault) = fault {
                    return (Some(Item::Fault(fault)), None);
                }
                continue;
            }
            match more() {
                Some(Item::Chunk(mut ready)) => {
                    self.choose(&mut ready);
                    self.waiting = (!ready.chunk.is_empty()).then_some((ready, 0));
                }
                Some(Item::Packet(packet, events)) => {
                    return (Some(Item::Packet(Arc::new(self.veiler.packet(&packet)), events)), None);
                }
                other => return (other, None),
            }
        }
    }

    /// Keeps the events that are wanted.
    fn choose(&mut self, ready: &mut ReadyChunk) {
        let Some(matcher) = &mut self.matcher else { return };
        let (trace, stream, clock) = (self.trace, self.index, self.clock);
        let mut wanted = Vec::with_capacity(ready.chunk.len());
        for at in 0..ready.chunk.len() {
            let event = ready.chunk.event(at);
            let is_untimed = ready.chunk.packet.plans.schema().event(event.class()).is_untimed;
            let ns = clock.filter(|_| !is_untimed).map(|clock| clock.ns(event.cycles()));
            wanted.push(matcher.matches(&FilterEvent { trace, stream, event, ns }));
        }
        if let Some(floors) = &mut ready.floors {
            let mut kept = wanted.iter();
            floors.retain(|_| kept.next().copied().unwrap_or(true));
        }
        ready.chunk.retain(|_, at| wanted[at]);
    }
}
