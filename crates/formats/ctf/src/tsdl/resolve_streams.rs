//! The blocks `stream` and `event` (CTF 1.8.3, 5 and 6).

use tracemill_codec::text::Span;
use tracemill_model::error::Result;
use tracemill_model::schema::{EventClass, EventClassId, Scope, StreamClass, StreamClassId};

use super::ast::{BlockItem, Expr, TypeSpec};
use super::attributes::SeenAttributes;
use super::instance::Roots;
use super::resolve::{ResolvedStream, TsdlResolver};
use super::types::{Clocks, TypeRef};
use crate::same_class::is_same_event;

/// Contents of an event block, before its stream class is known.
#[derive(Default)]
struct EventContents {
    name: Option<String>,
    id: Option<u64>,
    stream_id: Option<u64>,
    log_level: Option<i64>,
    emf_uri: Option<String>,
    context: Option<TypeRef>,
    fields: Option<TypeRef>,
}

impl TsdlResolver<'_> {
    /// The type of a scope: a structure.
    pub(super) fn scope_type(&mut self, spec: &TypeSpec<'_>) -> Result<TypeRef> {
        let ty = self.spec(spec)?;
        if ty.as_struct().is_none() {
            return Err(self.malformed(spec.span, format!("expected a structure, found {}", ty.noun())));
        }
        Ok(ty)
    }

    /// `stream { ... };`
    pub(super) fn stream(&mut self, items: &[BlockItem<'_>], span: Span) -> Result<()> {
        let mut seen = SeenAttributes::default();
        let mut id = None;
        let keyword = self.keyword(span);
        let mut stream =
            ResolvedStream { span: keyword, packet_context: None, event_header: None, common_context: None };
        self.scopes.push(None);
        for item in items {
            match item {
                BlockItem::Assign(left, value) if left.dotted().as_deref() == Some("id") => {
                    seen.mark_known(self, left, &["id"], item.span())?;
                    id = Some((self.unsigned(value)?, value.span()));
                }
                BlockItem::Define(left, spec) => self.stream_scope(left, spec, &mut seen, &mut stream)?,
                item => self.block_item(item)?,
            }
        }
        self.scopes.pop();
        if id.is_none() && !self.streams.is_empty() {
            let message = "`stream` block has no `id`, and there is another stream class";
            return Err(self.contradiction(keyword, message, self.streams[0].span));
        }
        let (id, id_span) = id.unwrap_or((0, keyword));
        stream.span = id_span;
        self.add_stream(id, stream).map(drop)
    }

    fn stream_scope(
        &mut self,
        left: &Expr<'_>,
        spec: &TypeSpec<'_>,
        seen: &mut SeenAttributes,
        stream: &mut ResolvedStream,
    ) -> Result<()> {
        let name = seen.mark_known(self, left, &["packet.context", "event.header", "event.context"], left.span())?;
        if name.is_empty() {
            return self.spec(spec).map(drop);
        }
        let ty = self.scope_type(spec)?;
        match name {
            "packet.context" => stream.packet_context = Some(self.packet_context_roles(&ty, spec.span)?),
            "event.header" => stream.event_header = Some(self.event_header_roles(&ty, spec.span)?),
            _ => stream.common_context = Some(ty),
        }
        Ok(())
    }

    fn add_stream(&mut self, id: u64, stream: ResolvedStream) -> Result<StreamClassId> {
        if let Some(first) = self.schema.stream_by_id(id) {
            let first = self.streams[first.0 as usize].span;
            return Err(self.duplicate(stream.span, &format!("stream class {id}"), first));
        }
        let span = stream.span;
        let roots = self.stream_roots(&stream);
        let types = [&stream.packet_context, &stream.event_header, &stream.common_context];
        let clocks = types.into_iter().flatten().fold(Clocks::None, |clocks, ty| clocks.and(ty.clocks));
        let class = StreamClass {
            id,
            default_clock: match clocks {
                Clocks::None => None,
                Clocks::One(clock) => Some(clock),
                Clocks::Two(first, second) => return Err(self.two_clocks(first, second, span)),
            },
            packet_context: self.instantiate_root(Scope::PacketContext, roots.clone(), span)?,
            event_header: self.instantiate_root(Scope::EventHeader, roots.clone(), span)?,
            common_context: self.instantiate_root(Scope::CommonContext, roots, span)?,
            ..StreamClass::default()
        };
        self.streams.push(stream);
        Ok(self.schema.add_stream(class).expect("the id is free: it was looked up above"))
    }

    fn stream_roots(&self, stream: &ResolvedStream) -> Roots {
        [
            self.packet_header.clone(),
            stream.packet_context.clone(),
            stream.event_header.clone(),
            stream.common_context.clone(),
            None,
            None,
        ]
    }

    /// `event { ... };`
    pub(super) fn event(&mut self, items: &[BlockItem<'_>], span: Span) -> Result<()> {
        let mut seen = SeenAttributes::default();
        let mut event = EventContents::default();
        self.scopes.push(None);
        for item in items {
            match item {
                BlockItem::Assign(left, value) => {
                    self.event_attribute(left, value, item.span(), &mut seen, &mut event)?
                }
                BlockItem::Define(left, spec) => self.event_scope(left, spec, &mut seen, &mut event)?,
                item => self.block_item(item)?,
            }
        }
        self.scopes.pop();
        let name = event.name.clone();
        let keyword = self.keyword(span);
        self.add_event(event, &seen, keyword).map_err(|error| match name {
            Some(name) => error.in_event(name),
            None => error,
        })
    }

    fn event_attribute(
        &mut self,
        left: &Expr<'_>,
        value: &Expr<'_>,
        span: Span,
        seen: &mut SeenAttributes,
        event: &mut EventContents,
    ) -> Result<()> {
        const NAMES: [&str; 5] = ["name", "id", "stream_id", "loglevel", "model.emf.uri"];
        // Errors about ids point to their values.
        let is_id = matches!(left.dotted().as_deref(), Some("id" | "stream_id"));
        match seen.mark_known(self, left, &NAMES, if is_id { value.span() } else { span })? {
            "name" => event.name = Some(self.text(value)?),
            "id" => event.id = Some(self.unsigned(value)?),
            "stream_id" => event.stream_id = Some(self.unsigned(value)?),
            "loglevel" => {
                let level = i64::try_from(self.signed(value)?);
                event.log_level = Some(level.map_err(|_| self.expected(value, "a log level"))?);
            }
            "model.emf.uri" => event.emf_uri = Some(self.text(value)?).filter(|uri| !uri.is_empty()),
            _ => {}
        }
        Ok(())
    }

    fn event_scope(
        &mut self,
        left: &Expr<'_>,
        spec: &TypeSpec<'_>,
        seen: &mut SeenAttributes,
        event: &mut EventContents,
    ) -> Result<()> {
        match seen.mark_known(self, left, &["context", "fields"], left.span())? {
            "context" => event.context = Some(self.scope_type(spec)?),
            "fields" => event.fields = Some(self.scope_type(spec)?),
            _ => drop(self.spec(spec)?),
        }
        Ok(())
    }

    fn add_event(&mut self, event: EventContents, seen: &SeenAttributes, span: Span) -> Result<()> {
        let stream = self.stream_of_event(&event, seen, span)?;
        let (id, first) = self.event_id(&event, stream, span)?;
        let roots = {
            let mut roots = self.stream_roots(&self.streams[stream.0 as usize]);
            roots[Scope::SpecificContext as usize] = event.context;
            roots[Scope::Payload as usize] = event.fields;
            roots
        };
        self.event_clock(&roots, stream, span)?;
        let specific_context = self.instantiate_root(Scope::SpecificContext, roots.clone(), span)?;
        let payload = self.instantiate_root(Scope::Payload, roots, span)?;
        let class = EventClass {
            // babeltrace2 takes an empty name for none.
            name: event.name.filter(|name| !name.is_empty()).map(Into::into),
            log_level: event.log_level,
            emf_uri: event.emf_uri.map(Into::into),
            specific_context,
            payload,
            ..EventClass::new(id, stream)
        };
        if let Some(first) = first {
            return self.second_event(first, &class, seen.span("id").unwrap_or(span));
        }
        let id = self.schema.add_event(class).expect("the id is free: it was looked up before");
        self.event_spans.insert(id, seen.span("id").unwrap_or(span));
        Ok(())
    }

    fn stream_of_event(&mut self, event: &EventContents, seen: &SeenAttributes, span: Span) -> Result<StreamClassId> {
        if let Some(id) = event.stream_id {
            let span = seen.span("stream_id").unwrap_or(span);
            return self
                .schema
                .stream_by_id(id)
                .ok_or_else(|| self.malformed(span, format!("no stream class has the id {id}")));
        }
        match self.streams.len() {
            0 => {
                let stream = ResolvedStream { span, packet_context: None, event_header: None, common_context: None };
                self.add_stream(0, stream)
            }
            1 => Ok(StreamClassId(0)),
            count => {
                let message = format!("`event` block has no `stream_id`, and there are {count} stream classes");
                Err(self.malformed(span, message))
            }
        }
    }

    /// An id that is declared already: the first class is used.
    fn second_event(&self, first: EventClassId, second: &EventClass, span: Span) -> Result<()> {
        let of_first = self.event_spans.get(&first).copied().unwrap_or_default();
        let way = match is_same_event(&self.schema, self.schema.event(first), second) {
            true => "twice, in the same way",
            false => "again, in another way",
        };
        let error = || {
            self.malformed(span, format!("event class {} is declared {way}", second.id))
                .with_related("first declared here", of_first.place(self.source))
        };
        self.oddities.tolerate(error, || "the first declaration is used".into())
    }

    /// The id of an event class, and the class that has it already.
    fn event_id(
        &self,
        event: &EventContents,
        stream: StreamClassId,
        span: Span,
    ) -> Result<(u64, Option<EventClassId>)> {
        let others = &self.schema.stream(stream).events;
        let header = self.streams[stream.0 as usize].event_header.as_ref();
        if let Some(first) = others.values().next() {
            let first = self.event_spans.get(first).copied().unwrap_or_default();
            if event.id.is_none() {
                let message = "`event` block has no `id`, and its stream class has another event class";
                return Err(self.contradiction(span, message, first));
            }
            let has_id = header
                .and_then(|header| header.as_struct())
                .and_then(|header| header.fields.by_display_name("id"))
                .is_some_and(|(_, id)| id.ty.as_integer().is_some_and(|class| !class.signed));
            if !has_id {
                let message = "stream class has several event classes, but its event header has no `id`";
                return Err(self.malformed(span, message));
            }
        }
        let id = event.id.unwrap_or(0);
        Ok((id, others.get(&id).copied()))
    }

    /// Integers of an event class count for the clock of its stream class too.
    fn event_clock(&mut self, roots: &Roots, stream: StreamClassId, span: Span) -> Result<()> {
        let default = self.schema.stream(stream).default_clock.map_or(Clocks::None, Clocks::One);
        let types = [&roots[Scope::SpecificContext as usize], &roots[Scope::Payload as usize]];
        match types.into_iter().flatten().fold(default, |clocks, ty| clocks.and(ty.clocks)) {
            Clocks::Two(first, second) => Err(self.two_clocks(first, second, span)),
            Clocks::One(clock) => {
                self.schema.stream_mut(stream).default_clock = Some(clock);
                Ok(())
            }
            Clocks::None => Ok(()),
        }
    }

    /// Rules that need all streams.
    pub(super) fn check_streams(&self) -> Result<()> {
        match self.streams.as_slice() {
            [_, second, ..] if !self.has_stream_id => {
                let message = "trace has several stream classes, but its packet header has no `stream_id`";
                Err(self.malformed(second.span, message))
            }
            _ => Ok(()),
        }
    }
}
