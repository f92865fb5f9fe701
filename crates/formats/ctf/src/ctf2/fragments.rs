//! The fragments of a metadata stream, read one by one into a schema (CTF 2, 5.4 to 5.9).

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tracemill_codec::text::{Span, uuid_text};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    ClockClass, ClockId, ClockOrigin, EnvValue, EventClass, EventClassId, FieldClassId, Schema, Scope, StreamClass,
    StreamClassId,
};

use super::attributes::Own;
use super::field_class::{Alias, Aliases, FieldClassNode, NodeKind};
use super::instantiate::Instantiation;
use super::json::{JsonKind, JsonValue};
use super::locations::NameIndex;
use super::object::{Object, array, integer, mismatch};
use super::words::{quoted, suggest};
use crate::metadata_text::MetadataText;
use crate::same_class::is_same_event;

const TYPES: [&str; 6] =
    ["preamble", "field-class-alias", "trace-class", "clock-class", "data-stream-class", "event-record-class"];

/// Properties of everything that has a name.
const NAMES: &[&str] = &["namespace", "name", "uid"];

/// Properties of the root classes of the scopes, in the order of [`Scope::ALL`].
pub(crate) const ROOTS: [&str; 6] = [
    "packet-header-field-class",
    "packet-context-field-class",
    "event-record-header-field-class",
    "event-record-common-context-field-class",
    "specific-context-field-class",
    "payload-field-class",
];

/// Field classes that any metadata may have, however short it is.
const FREE_FIELD_CLASSES: u64 = 1_000_000;

/// Reads fragments and keeps what later ones may refer to.
pub(super) struct FragmentReader<'a> {
    source: &'a MetadataText<'a>,
    schema: Schema,
    index: NameIndex,
    aliases: Aliases,
    preamble: Option<Span>,
    trace_class: Option<Span>,
    clocks: HashMap<Arc<str>, (ClockId, Span)>,
    streams: HashMap<u64, Span>,
    events: HashMap<(StreamClassId, u64), (EventClassId, Span)>,
}

impl<'a> FragmentReader<'a> {
    /// A reader that has read nothing yet.
    pub(super) fn new(source: &'a MetadataText<'a>) -> Self {
        let mut schema = Schema::new("ctf2").with_peer_text();
        schema.version = (2, 0);
        FragmentReader {
            source,
            schema,
            index: NameIndex::default(),
            aliases: Aliases::default(),
            preamble: None,
            trace_class: None,
            clocks: HashMap::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
        }
    }

    /// The schema, once all fragments are read.
    pub(super) fn finish(self) -> Result<Schema> {
        match self.preamble {
            Some(_) => Ok(self.schema),
            None => {
                let end = Span::new(self.source.len(), self.source.len());
                Err(end.malformed(self.source, "the metadata has no fragment, expected a `preamble`"))
            }
        }
    }

    /// Reads one fragment.
    pub(super) fn fragment(&mut self, value: &JsonValue<'_>) -> Result<()> {
        let fragment = Object::new(self.source, value, "a fragment")?;
        let type_value = fragment.required("type")?;
        let name = fragment.required_string("type")?;
        if !TYPES.contains(&name) {
            let message = format!("unknown type {} of a fragment", quoted(name));
            return Err(suggest(type_value.span.malformed(self.source, message), name, TYPES));
        }
        if self.preamble.is_none() && name != "preamble" {
            let message = format!("the first fragment is a `{name}`, expected a `preamble`");
            return Err(type_value.span.malformed(self.source, message));
        }
        match name {
            "preamble" => self.preamble(Object { what: "a preamble", ..fragment }),
            "field-class-alias" => self.alias(Object { what: "a field class alias", ..fragment }),
            "trace-class" => self.trace_class(Object { what: "a trace class", ..fragment }),
            "clock-class" => self.clock_class(Object { what: "a clock class", ..fragment }),
            "data-stream-class" => self.stream_class(Object { what: "a data stream class", ..fragment }),
            _ => self.event_class(Object { what: "an event record class", ..fragment }),
        }
    }

    fn preamble(&mut self, fragment: Object<'_>) -> Result<()> {
        fragment.check_typed(&[&["version", "uuid"]])?;
        if let Some(first) = self.preamble {
            return Err(fragment.second(fragment.span, "a second preamble, expected only one", first));
        }
        let version = fragment.required("version")?;
        match version.kind {
            JsonKind::Integer(2) => {}
            JsonKind::Integer(other) => {
                return Err(version.span.unsupported(self.source, format!("CTF version `{other}`, expected 2")));
            }
            _ => return Err(mismatch(self.source, "version", version, "2")),
        }
        self.schema.uuid = self.uuid(&fragment)?;
        let own = Own::from_object(&fragment);
        self.schema.origin = own.origin();
        self.schema.summary = own.summary();
        self.preamble = Some(fragment.span);
        Ok(())
    }

    fn uuid(&self, fragment: &Object<'_>) -> Result<Option<[u8; 16]>> {
        let Some(uuid) = fragment.optional("uuid") else { return Ok(None) };
        let bytes = array(self.source, "uuid", uuid)?;
        let mut read = [0; 16];
        if bytes.len() != read.len() {
            let message = format!("property `uuid` has {} elements, expected 16", bytes.len());
            return Err(uuid.span.malformed(self.source, message));
        }
        for (place, byte) in read.iter_mut().zip(bytes) {
            *place = integer(self.source, "uuid", byte, 0, 255)? as u8;
        }
        Ok(Some(read))
    }

    fn alias(&mut self, fragment: Object<'_>) -> Result<()> {
        fragment.check_typed(&[&["name", "field-class"]])?;
        let name = fragment.required_string("name")?;
        let span = fragment.required("name")?.span;
        if let Some(first) = self.aliases.0.get(name) {
            return Err(fragment.second(
                span,
                format!("two field class aliases are named {}", quoted(name)),
                first.span,
            ));
        }
        let node = self.aliases.field_class(self.source, fragment.required("field-class")?, 1)?;
        self.aliases.0.insert(name.into(), Alias { span, node });
        Ok(())
    }

    fn trace_class(&mut self, fragment: Object<'_>) -> Result<()> {
        fragment.check_typed(&[NAMES, &["environment", "uuid"], &ROOTS[..1]])?;
        if let Some(first) = self.trace_class {
            return Err(fragment.second(fragment.span, "a second trace class, expected at most one", first));
        }
        if let Some(first) = self.streams.values().min_by_key(|span| span.start) {
            let error = fragment.span.malformed(self.source, "a trace class after a data stream class");
            return Err(error.with_related("the first data stream class", first.place(self.source)));
        }
        if let Some(uuid) = self.uuid(&fragment)? {
            let span = fragment.required("uuid")?.span;
            self.source.candidate(span, "property `uuid` of a trace class")?;
            if self.schema.uuid.is_some_and(|of_preamble| of_preamble != uuid) {
                let error = || span.malformed(self.source, "the trace class has another `uuid` than the preamble");
                self.source.tolerate(error, || "that of the preamble is used".into())?;
            }
            self.schema.uuid.get_or_insert(uuid);
        }
        self.schema.namespace = fragment.string("namespace")?;
        self.schema.name = fragment.string("name")?;
        self.schema.uid = fragment.string("uid")?;
        if let Some(environment) = fragment.optional("environment") {
            for entry in Object::new(self.source, environment, "the environment")?.properties {
                let value = match &entry.value.kind {
                    JsonKind::Integer(value) => EnvValue::Integer(*value),
                    JsonKind::String(text) => EnvValue::String(text.as_ref().into()),
                    _ => {
                        let message = format!(
                            "environment entry {} is {}, expected an integer or a string",
                            quoted(&entry.key),
                            entry.value.describe(self.source)
                        );
                        return Err(entry.value.span.malformed(self.source, message));
                    }
                };
                self.schema.environment.push((entry.key.as_ref().into(), value));
            }
        }
        self.trace_class = Some(fragment.span);
        self.schema.packet_header = self.root(&fragment, Scope::PacketHeader, [None; 6], false)?;
        Ok(())
    }

    fn clock_class(&mut self, fragment: Object<'_>) -> Result<()> {
        fragment.check_typed(&[
            &["id"],
            NAMES,
            &["frequency", "origin", "offset-from-origin", "precision", "accuracy", "description", "uuid"],
        ])?;
        let uuid = self.uuid(&fragment)?;
        if uuid.is_some() {
            let span = fragment.required("uuid")?.span;
            self.source.candidate(span, "property `uuid` of a clock class")?;
        }
        // In the release candidates, the name of a clock class is what data stream classes refer to.
        let key = match (fragment.optional("id"), fragment.optional("name")) {
            (None, Some(name)) => {
                self.source.candidate(name.span, "a clock class without property `id`")?;
                "name"
            }
            _ => "id",
        };
        let id: Arc<str> = fragment.required_string(key)?.into();
        let span = fragment.required(key)?.span;
        if let Some((_, first)) = self.clocks.get(&id) {
            return Err(fragment.second(span, format!("two clock classes have the id {}", quoted(&id)), *first));
        }
        let frequency =
            fragment.integer("frequency", 1, u64::MAX.into())?.ok_or_else(|| fragment.missing("frequency"))? as u64;
        let (offset_seconds, offset_cycles) = self.clock_offset(&fragment, frequency)?;
        let mut clock = ClockClass {
            id: Arc::clone(&id),
            name: fragment.string("name")?,
            namespace: fragment.string("namespace")?,
            uid: fragment.string("uid")?.or_else(|| uuid.map(|uuid| uuid_text(&uuid).into())),
            description: fragment.string("description")?,
            frequency,
            seconds: 1,
            precision: fragment.unsigned("precision")?,
            accuracy: fragment.unsigned("accuracy")?,
            offset_seconds,
            offset_cycles,
            offset_ns: 0,
            origin: self.clock_origin(&fragment)?,
            has_made_cycles: false,
        };
        Own::from_object(&fragment).complete_clock(&mut clock);
        self.clocks.insert(id, (self.schema.add_clock(clock), span));
        Ok(())
    }

    fn clock_offset(&self, fragment: &Object<'_>, frequency: u64) -> Result<(i64, i128)> {
        let Some(value) = fragment.optional("offset-from-origin") else { return Ok((0, 0)) };
        let offset = Object::new(self.source, value, "a clock offset")?;
        offset.check_properties(&["seconds", "cycles"])?;
        let seconds = offset.integer("seconds", i64::MIN.into(), i64::MAX.into())?.unwrap_or(0) as i64;
        let cycles = offset.unsigned("cycles")?.unwrap_or(0);
        if cycles >= frequency {
            let span = offset.required("cycles")?.span;
            let message = format!("property `cycles` is `{cycles}`, expected less than the frequency `{frequency}`");
            return Err(span.malformed(self.source, message));
        }
        Ok((seconds, cycles.into()))
    }

    fn clock_origin(&self, fragment: &Object<'_>) -> Result<ClockOrigin> {
        let Some(value) = fragment.optional("origin") else { return Ok(ClockOrigin::Unknown) };
        match &value.kind {
            JsonKind::String(_) => {
                Ok(fragment.word("origin", &[("unix-epoch", ())])?.map_or(ClockOrigin::Unknown, |()| ClockOrigin::Unix))
            }
            JsonKind::Object(_) => {
                let origin = Object::new(self.source, value, "a clock origin")?;
                origin.check_properties(&["namespace", "name", "uid"])?;
                Ok(ClockOrigin::Custom {
                    namespace: origin.string("namespace")?,
                    name: origin.required_string("name")?.into(),
                    uid: origin.required_string("uid")?.into(),
                })
            }
            _ => Err(mismatch(self.source, "origin", value, "`unix-epoch` or an object")),
        }
    }

    fn stream_class(&mut self, fragment: Object<'_>) -> Result<()> {
        fragment.check_typed(&[
            &["id"],
            NAMES,
            &["default-clock-class-id", "default-clock-class-name"],
            &ROOTS[1..4],
        ])?;
        let id = fragment.unsigned("id")?.unwrap_or(0);
        let span = id_span(&fragment);
        if let Some(first) = self.streams.insert(id, span) {
            return Err(fragment.second(span, format!("two data stream classes have the id `{id}`"), first));
        }
        let default_clock = self.default_clock(&fragment)?;
        let has_clock = default_clock.is_some();
        let mut roots = self.schema.stream_roots(&StreamClass::default());
        for scope in [Scope::PacketContext, Scope::EventHeader, Scope::CommonContext] {
            roots[scope as usize] = self.root(&fragment, scope, roots, has_clock)?;
        }
        let stream = StreamClass {
            id,
            name: fragment.string("name")?,
            namespace: fragment.string("namespace")?,
            uid: fragment.string("uid")?,
            default_clock,
            packet_context: roots[Scope::PacketContext as usize],
            event_header: roots[Scope::EventHeader as usize],
            common_context: roots[Scope::CommonContext as usize],
            ..StreamClass::default()
        };
        let added = self.schema.add_stream(stream);
        debug_assert!(added.is_some(), "ids were compared above");
        Ok(())
    }

    fn default_clock(&self, fragment: &Object<'_>) -> Result<Option<ClockId>> {
        let mut key = "default-clock-class-id";
        if let (None, Some(name)) = (fragment.optional(key), fragment.optional("default-clock-class-name")) {
            key = "default-clock-class-name";
            self.source.candidate(name.span, "property `default-clock-class-name`")?;
        }
        let Some(id) = fragment.string(key)? else { return Ok(None) };
        if let Some(&(clock, _)) = self.clocks.get(&id) {
            return Ok(Some(clock));
        }
        let span = fragment.required(key)?.span;
        let error = span.malformed(self.source, format!("no clock class has the id {} before this point", quoted(&id)));
        Err(suggest(error, &id, self.clocks.keys().map(|key| &**key)))
    }

    fn event_class(&mut self, fragment: Object<'_>) -> Result<()> {
        fragment.check_typed(&[&["id", "data-stream-class-id"], NAMES, &ROOTS[4..]])?;
        let id = fragment.unsigned("id")?.unwrap_or(0);
        let stream_id = fragment.unsigned("data-stream-class-id")?.unwrap_or(0);
        let Some(stream) = self.schema.stream_by_id(stream_id) else {
            let span = fragment.optional("data-stream-class-id").map_or(fragment.span, |value| value.span);
            let message = format!("no data stream class has the id `{stream_id}` before this point");
            return Err(span.malformed(self.source, message));
        };
        let span = id_span(&fragment);
        let parent = self.schema.stream(stream);
        let has_clock = parent.default_clock.is_some();
        let mut roots = self.schema.stream_roots(parent);
        for scope in [Scope::SpecificContext, Scope::Payload] {
            roots[scope as usize] = self.root(&fragment, scope, roots, has_clock)?;
        }
        let event = EventClass {
            name: fragment.string("name")?,
            namespace: fragment.string("namespace")?,
            uid: fragment.string("uid")?,
            specific_context: roots[Scope::SpecificContext as usize],
            payload: roots[Scope::Payload as usize],
            is_untimed: Own::from_object(&fragment).has("untimed"),
            call: Own::from_object(&fragment).call(),
            ..EventClass::new(id, stream)
        };
        if let Some(&(first, of_first)) = self.events.get(&(stream, id)) {
            let way = match is_same_event(&self.schema, self.schema.event(first), &event) {
                true => "they are the same",
                false => "they differ",
            };
            let message =
                format!("two event record classes of the data stream class `{stream_id}` have the id `{id}`; {way}");
            let error = || fragment.second(span, message, of_first);
            return self.source.tolerate(error, || "the first one is used".into());
        }
        let added = self.schema.add_event(event).expect("ids were compared above");
        self.events.insert((stream, id), (added, span));
        Ok(())
    }

    /// Makes the root structure of a scope, if the fragment has one.
    fn root(
        &mut self,
        fragment: &Object<'_>,
        scope: Scope,
        roots: [Option<FieldClassId>; 6],
        has_clock: bool,
    ) -> Result<Option<FieldClassId>> {
        let name = ROOTS[scope as usize];
        let Some(value) = fragment.optional(name) else { return Ok(None) };
        let node: Rc<FieldClassNode> = self.aliases.field_class(self.source, value, 1)?;
        if !matches!(node.kind, NodeKind::Struct { .. }) {
            return Err(value.span.malformed(self.source, format!("property `{name}` is not a structure field class")));
        }
        let limit = (FREE_FIELD_CLASSES + self.source.len() as u64).min(u32::MAX.into());
        if node.weight > limit {
            let message = format!("property `{name}` has more than {limit} fields when every alias is written out");
            return Err(value.span.malformed(self.source, message));
        }
        let mut instantiation = Instantiation {
            source: self.source,
            schema: &mut self.schema,
            index: &mut self.index,
            limit,
            roots,
            scope,
            has_clock,
            frames: Vec::new(),
        };
        let class = instantiation.class(&node).map_err(|error| self.say_use(error, value.span))?;
        Ok(Some(class))
    }

    /// Adds where an alias is used to an error inside it, which may be one only there.
    fn say_use(&self, error: Error, user: Span) -> Error {
        match &error.place().text {
            Some(text) if text.offset < user.start || text.offset >= user.end => {
                error.with_related("used from here", user.place(self.source))
            }
            _ => error,
        }
    }
}

/// Where the id of a fragment is written, or the fragment when its id is the default.
fn id_span(fragment: &Object<'_>) -> Span {
    fragment.optional("id").map_or(fragment.span, |value| value.span)
}
