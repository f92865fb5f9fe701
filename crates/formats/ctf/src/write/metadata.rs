//! The metadata of CTF 2: a JSON text sequence made of a schema.

use std::fmt::Write;

use tracemill_codec::layout;
use tracemill_codec::text::base64;
use tracemill_model::schema::{
    BitsClass, ByteOrder, ClockClass, ClockOrigin, Encoding, EnvValue, EventClass, FieldClassId, FieldKind, FieldPath,
    IntegerClass, Length, Mapping, Member, Origin, PathStep, Presence, Range, Role, Roles, Schema, Scope, StreamClass,
    StringLength,
};

use super::json::{Object, put_list, put_string};
use super::marks::{BEFORE, Mark, Marks};
use super::radix;
use crate::ctf2::attributes::NAMESPACE;
use crate::ctf2::locations::origin_text;

/// The namespace under which babeltrace2 keeps what CTF 2 has no property for.
const ATTRIBUTES: &str = "babeltrace.org,2020";

/// Writes the metadata of a schema whose fields have classes of CTF 2 only.
pub(super) fn write(schema: &Schema, marks: &Marks, comment: &str) -> Vec<u8> {
    let mut writer = Writer { schema, marks, out: String::new() };
    writer.fragment("preamble", |object, _| {
        object.number("version", 2);
        if let Some(uuid) = &schema.uuid {
            let _ = write!(object.key("uuid"), "{uuid:?}");
        }
        own(object, |own| {
            own.string("comment", comment);
            if let Some(summary) = &schema.summary {
                let mut object = Object::begin(own.key("summary"));
                object.string("before", &summary.before);
                object.number("has-name", summary.has_name);
                object.string("after", &summary.after);
                object.end();
            }
            if let Some(of) = &schema.origin {
                origin(own, of);
            }
        });
    });
    writer.fragment("trace-class", |object, writer| {
        object.optional_string("namespace", schema.namespace.as_deref());
        object.optional_string("name", schema.name.as_deref());
        object.optional_string("uid", schema.uid.as_deref());
        environment(object, schema);
        writer.root(object, "packet-header-field-class", Scope::PacketHeader, schema.packet_header);
    });
    for clock in schema.clocks() {
        writer.fragment("clock-class", |object, _| clock_class(object, clock));
    }
    for stream in schema.streams() {
        writer.fragment("data-stream-class", |object, writer| writer.stream(object, stream));
    }
    for event in schema.events() {
        writer.fragment("event-record-class", |object, writer| writer.event(object, event));
    }
    writer.out.into_bytes()
}

/// Puts our attributes into an object.
fn own(object: &mut Object<'_>, put: impl FnOnce(&mut Object<'_>)) {
    let mut attributes = Object::begin(object.key("attributes"));
    own_of(&mut attributes, put);
    attributes.end();
}

/// Puts our attributes into the attributes of an object.
fn own_of(attributes: &mut Object<'_>, put: impl FnOnce(&mut Object<'_>)) {
    let mut own = Object::begin(attributes.key(NAMESPACE));
    put(&mut own);
    own.end();
}

/// Puts the trace that was converted: its format, files and parts.
fn origin(own: &mut Object<'_>, of: &Origin) {
    let mut object = Object::begin(own.key("origin"));
    object.string("format", &of.format);
    let _ = write!(object.key("version"), "[{},{}]", of.version.0, of.version.1);
    if of.has_same_packets {
        object.number("same-packets", true);
    }
    if of.moved_ns != 0 {
        object.number("moved-ns", of.moved_ns);
    }
    list(object.key("parts"), &of.parts, |object, part| {
        object.string("name", &part.name);
        match std::str::from_utf8(&part.bytes) {
            Ok(text) => object.string("text", text),
            Err(_) => {
                let mut text = String::new();
                base64(&part.bytes, |piece| text += piece);
                object.string("base64", &text);
            }
        }
    });
    list(object.key("streams"), &of.streams, |object, (file, name)| {
        object.string("file", file);
        object.string("name", name);
    });
    object.end();
}

/// Writes an array of objects.
fn list<T>(out: &mut String, values: &[T], put: impl Fn(&mut Object<'_>, &T)) {
    put_list(out, values, |out, value| {
        let mut object = Object::begin(out);
        put(&mut object, value);
        object.end();
    });
}

struct Writer<'a> {
    schema: &'a Schema,
    marks: &'a Marks,
    out: String,
}

impl Writer<'_> {
    fn fragment(&mut self, kind: &str, properties: impl FnOnce(&mut Object<'_>, &mut Parts<'_>)) {
        self.out.push('\u{1e}');
        let mut object = Object::begin(&mut self.out);
        object.string("type", kind);
        properties(
            &mut object,
            &mut Parts {
                schema: self.schema,
                marks: self.marks,
                scope: Scope::PacketHeader,
                roots: [self.schema.packet_header, None, None, None, None, None],
                before: "".into(),
            },
        );
        object.end();
        self.out.push('\n');
    }
}

fn environment(object: &mut Object<'_>, schema: &Schema) {
    if schema.environment.is_empty() {
        return;
    }
    let mut values = Object::begin(object.key("environment"));
    for (at, (name, value)) in schema.environment.iter().enumerate() {
        // A key stands once; the last value counts.
        if schema.environment.iter().skip(at + 1).any(|(other, _)| other == name) {
            continue;
        }
        match value {
            EnvValue::Integer(value) => values.number(name, value),
            EnvValue::String(value) => values.string(name, value),
        }
    }
    values.end();
}

fn clock_class(object: &mut Object<'_>, clock: &ClockClass) {
    object.string("id", &clock.id);
    object.optional_string("namespace", clock.namespace.as_deref());
    object.optional_string("name", clock.name.as_deref());
    object.optional_string("uid", clock.uid.as_deref());
    object.optional_string("description", clock.description.as_deref());
    let (ticks, unit) = (clock.frequency.max(1), u64::from(clock.seconds.max(1)));
    object.number("frequency", (ticks / unit).max(1));
    if let Some(precision) = clock.precision {
        object.number("precision", precision);
    }
    if let Some(accuracy) = clock.accuracy {
        object.number("accuracy", accuracy);
    }
    let mut offset = Object::begin(object.key("offset-from-origin"));
    // The last cycle before the zero, for those who do not read our attributes.
    let frequency = i128::from(ticks);
    let is_ratio = unit > 1;
    if is_ratio {
        let seconds = clock.offset_cycles.saturating_mul(unit.into()).div_euclid(frequency);
        offset.number("seconds", i128::from(clock.offset_seconds).saturating_add(seconds));
    } else {
        let cycles = clock.offset_cycles + i128::from(clock.offset_ns) * frequency / 1_000_000_000;
        offset.number("seconds", i128::from(clock.offset_seconds) + cycles.div_euclid(frequency));
        offset.number("cycles", cycles.rem_euclid(frequency));
    }
    offset.end();
    match &clock.origin {
        ClockOrigin::Unix => object.string("origin", "unix-epoch"),
        ClockOrigin::Unknown => {}
        ClockOrigin::Custom { namespace, name, uid } => {
            let mut origin = Object::begin(object.key("origin"));
            origin.optional_string("namespace", namespace.as_deref());
            origin.string("name", name);
            origin.string("uid", uid);
            origin.end();
        }
    }
    if clock.frequency == 0 || clock.has_made_cycles || clock.offset_ns != 0 || is_ratio {
        own(object, |own| {
            if clock.frequency == 0 {
                own.number("unknown-frequency", true);
            }
            if clock.has_made_cycles {
                own.number("made-cycles", true);
            }
            if is_ratio {
                let mut object = Object::begin(own.key("ratio"));
                object.number("ticks", ticks);
                object.number("seconds", unit);
                object.end();
            }
            if clock.offset_ns != 0 || is_ratio {
                let mut object = Object::begin(own.key("offset"));
                object.number("seconds", clock.offset_seconds);
                object.number("cycles", clock.offset_cycles);
                object.number("ns", clock.offset_ns);
                object.end();
            }
        });
    }
}

/// Writes field classes.
struct Parts<'a> {
    schema: &'a Schema,
    marks: &'a Marks,
    scope: Scope,
    roots: Roots,
    /// Name of the member that was written last.
    before: std::sync::Arc<str>,
}

impl Parts<'_> {
    fn stream(&mut self, object: &mut Object<'_>, stream: &StreamClass) {
        self.roots = stream_roots(self.schema, stream);
        object.number("id", stream.id);
        object.optional_string("namespace", stream.namespace.as_deref());
        object.optional_string("name", stream.name.as_deref());
        object.optional_string("uid", stream.uid.as_deref());
        if let Some(clock) = stream.default_clock {
            object.string("default-clock-class-id", &self.schema.clock(clock).id);
        }
        self.root(object, "packet-context-field-class", Scope::PacketContext, stream.packet_context);
        self.root(object, "event-record-header-field-class", Scope::EventHeader, stream.event_header);
        let scope = Scope::CommonContext;
        self.root(object, "event-record-common-context-field-class", scope, stream.common_context);
    }

    fn event(&mut self, object: &mut Object<'_>, event: &EventClass) {
        self.roots = stream_roots(self.schema, self.schema.stream(event.stream));
        self.roots[Scope::SpecificContext as usize] = event.specific_context;
        self.roots[Scope::Payload as usize] = event.payload;
        object.number("id", event.id);
        object.number("data-stream-class-id", self.schema.stream(event.stream).id);
        object.optional_string("namespace", event.namespace.as_deref());
        object.optional_string("name", event.name.as_deref());
        object.optional_string("uid", event.uid.as_deref());
        let level = event.log_level.and_then(log_level_name);
        if level.is_some() || event.emf_uri.is_some() || event.is_untimed {
            let mut attributes = Object::begin(object.key("attributes"));
            if level.is_some() || event.emf_uri.is_some() {
                let mut of_peer = Object::begin(attributes.key(ATTRIBUTES));
                of_peer.optional_string("log-level", level);
                of_peer.optional_string("emf-uri", event.emf_uri.as_deref());
                of_peer.end();
            }
            if event.is_untimed {
                own_of(&mut attributes, |own| own.number("untimed", true));
            }
            attributes.end();
        }
        self.root(object, "specific-context-field-class", Scope::SpecificContext, event.specific_context);
        self.root(object, "payload-field-class", Scope::Payload, event.payload);
    }

    fn root(&mut self, object: &mut Object<'_>, name: &str, scope: Scope, root: Option<FieldClassId>) {
        if let Some(root) = root {
            self.scope = scope;
            self.class(object.key(name), root);
        }
    }

    fn class(&mut self, out: &mut String, id: FieldClassId) {
        let class = self.schema.field_class(id);
        let mut object = Object::begin(out);
        match &class.kind {
            FieldKind::Integer(integer) => self.integer(&mut object, integer, class.align_bits),
            FieldKind::BitArray(bits) => fixed(&mut object, "fixed-length-bit-array", bits, class.align_bits),
            FieldKind::BitMap(bits) => {
                fixed(&mut object, "fixed-length-bit-map", bits, class.align_bits);
                mappings(object.key("flags"), &bits.flags);
            }
            FieldKind::Boolean(bits) => fixed(&mut object, "fixed-length-boolean", bits, class.align_bits),
            FieldKind::Float(float) => {
                object.string("type", "fixed-length-floating-point-number");
                layout(&mut object, float.len_bits, float.byte_order, float.reversed_bits, class.align_bits);
            }
            FieldKind::String(string) => {
                match &string.length {
                    StringLength::NullTerminated => object.string("type", "null-terminated-string"),
                    StringLength::Bytes(length) => {
                        self.length(&mut object, "static-length-string", "dynamic-length-string", length);
                    }
                }
                encoding(&mut object, string.encoding);
            }
            FieldKind::Blob(blob) => {
                self.length(&mut object, "static-length-blob", "dynamic-length-blob", &blob.length);
                object.string("media-type", &blob.media_type);
            }
            // Not of CTF 2: the mapping leaves none.
            FieldKind::Rendered(_) => object.string("type", "null-terminated-string"),
            FieldKind::Struct(structure) => {
                object.string("type", "structure");
                put_list(object.key("member-classes"), structure.members.iter().enumerate(), |out, (at, member)| {
                    let mut object = Object::begin(out);
                    object.string("name", unique_name(member));
                    if let Some(before) = at.checked_sub(1).and_then(|at| structure.members.get(at)) {
                        self.before = unique_name(before).into();
                    }
                    self.class(object.key("field-class"), member.class);
                    if unique_name(member) != &*member.name {
                        own(&mut object, |own| own.string("name", &member.name));
                    }
                    object.end();
                });
                // Of the members or its own, whichever is larger.
                if class.align_bits > self.schema.struct_align_bits(&structure.members, 1) {
                    object.number("minimum-alignment", class.align_bits);
                }
            }
            FieldKind::Array(array) => {
                self.length(&mut object, "static-length-array", "dynamic-length-array", &array.length);
                self.class(object.key("element-field-class"), array.element);
                if class.align_bits > self.schema.field_class(array.element).align_bits {
                    object.number("minimum-alignment", class.align_bits);
                }
            }
            FieldKind::Optional(optional) => {
                object.string("type", "optional");
                self.location(object.key("selector-field-location"), &optional.selector);
                if let Presence::Ranges(list) = &optional.presence {
                    ranges(object.key("selector-field-ranges"), list);
                }
                self.class(object.key("field-class"), optional.content);
            }
            FieldKind::Variant(variant) => {
                object.string("type", "variant");
                self.location(object.key("selector-field-location"), &variant.selector);
                put_list(object.key("options"), &variant.options, |out, option| {
                    let mut object = Object::begin(out);
                    object.optional_string("name", option.name.as_deref());
                    ranges(object.key("selector-field-ranges"), &option.ranges);
                    self.class(object.key("field-class"), option.class);
                    object.end();
                });
            }
        }
        roles(&mut object, class.roles, self.scope);
        match (self.marks.get(&id), &class.kind) {
            (Some(Mark::WithLength), _) => own(&mut object, |own| own.number("with-length", true)),
            (Some(Mark::BitMap), _) => own(&mut object, |own| own.number("bit-map", true)),
            (Some(Mark::Mappings(labels)), _) => own(&mut object, |own| {
                list(own.key("mappings"), labels, |object, label| {
                    object.string("label", &label.label);
                    ranges(object.key("ranges"), &label.ranges);
                });
            }),
            (None, FieldKind::String(string)) if string.encoding == Encoding::Ascii => {
                own(&mut object, |own| own.number("ascii", true));
            }
            (None, FieldKind::Struct(structure)) if structure.is_tuple() => {
                own(&mut object, |own| own.number("tuple", true));
            }
            (None, _) => {}
        }
        object.end();
    }

    fn integer(&mut self, object: &mut Object<'_>, integer: &IntegerClass, align_bits: u32) {
        let kind = match (integer.is_variable_length(), integer.signed) {
            (false, false) => "fixed-length-unsigned-integer",
            (false, true) => "fixed-length-signed-integer",
            (true, false) => "variable-length-unsigned-integer",
            (true, true) => "variable-length-signed-integer",
        };
        object.string("type", kind);
        if !integer.is_variable_length() {
            layout(object, integer.len_bits, integer.byte_order, integer.reversed_bits, align_bits);
        }
        let base = radix(integer.base);
        if base != 10 {
            object.number("preferred-display-base", base);
        }
        if let Some(labels) = &integer.mappings {
            mappings(object.key("mappings"), labels);
        }
    }

    fn length(&mut self, object: &mut Object<'_>, fixed: &str, dynamic: &str, length: &Length) {
        match length {
            Length::Static(len) => {
                object.string("type", fixed);
                object.number("length", len);
            }
            Length::Field(path) => {
                object.string("type", dynamic);
                self.location(object.key("length-field-location"), path);
            }
            // Not of CTF 2: the mapping leaves none.
            Length::Inline(_) | Length::Table { .. } | Length::Located => object.string("type", fixed),
        }
    }

    /// The names of the members on the way: what stands between them (elements, options) goes without saying.
    fn location(&self, out: &mut String, path: &FieldPath) {
        let mut object = Object::begin(out);
        if path.steps == [PathStep::Member(BEFORE)] {
            // Without an origin, the structure around the field is meant; ours has two members.
            put_list(object.key("path"), [&self.before], |out, name| put_string(out, name));
            object.end();
            return;
        }
        object.string("origin", origin_text(path.scope));
        let names = member_names(self.schema, &self.roots, path);
        put_list(object.key("path"), names, |out, name| put_string(out, &name));
        object.end();
    }
}

/// The name of a member that no other has.
fn unique_name(member: &Member) -> &str {
    if member.raw_name.is_empty() { &member.name } else { &member.raw_name }
}

/// The names of the members that a path goes through, below the roots of the scopes.
pub(super) fn member_names(schema: &Schema, roots: &Roots, path: &FieldPath) -> Vec<String> {
    let mut names = Vec::new();
    walk(schema, roots, path, |member| names.push(unique_name(member).to_string()));
    names
}

/// The class at the end of a path.
pub(super) fn class_at(schema: &Schema, roots: &Roots, path: &FieldPath) -> Option<FieldClassId> {
    walk(schema, roots, path, |_| {})
}

fn walk(schema: &Schema, roots: &Roots, path: &FieldPath, mut through: impl FnMut(&Member)) -> Option<FieldClassId> {
    let mut at = roots[path.scope as usize]?;
    for step in &path.steps {
        let class = schema.field_class(at);
        if let (FieldKind::Struct(class), PathStep::Member(index)) = (&class.kind, step) {
            through(class.members.get(*index as usize)?);
        }
        at = layout::child(class, *step)?;
    }
    Some(at)
}

/// Roots of the scopes that stand before and around what is written.
pub(super) type Roots = [Option<FieldClassId>; 6];

/// The roots of a stream class.
pub(super) fn stream_roots(schema: &Schema, stream: &StreamClass) -> Roots {
    [schema.packet_header, stream.packet_context, stream.event_header, stream.common_context, None, None]
}

fn fixed(object: &mut Object<'_>, kind: &str, bits: &BitsClass, align_bits: u32) {
    object.string("type", kind);
    layout(object, bits.len_bits, bits.byte_order, bits.reversed_bits, align_bits);
}

fn layout(object: &mut Object<'_>, len_bits: u32, order: ByteOrder, is_reversed: bool, align_bits: u32) {
    object.number("length", len_bits);
    let (name, first_to_last) = match order {
        ByteOrder::Little => ("little-endian", true),
        ByteOrder::Big => ("big-endian", false),
    };
    object.string("byte-order", name);
    if is_reversed {
        object.string("bit-order", if first_to_last { "last-to-first" } else { "first-to-last" });
    }
    if align_bits > 1 {
        object.number("alignment", align_bits);
    }
}

fn encoding(object: &mut Object<'_>, encoding: Encoding) {
    match encoding {
        Encoding::Utf8 | Encoding::Ascii => {}
        Encoding::Utf16Be => object.string("encoding", "utf-16be"),
        Encoding::Utf16Le => object.string("encoding", "utf-16le"),
        Encoding::Utf32Be => object.string("encoding", "utf-32be"),
        Encoding::Utf32Le => object.string("encoding", "utf-32le"),
    }
}

fn mappings(out: &mut String, mappings: &[Mapping]) {
    let mut object = Object::begin(out);
    for mapping in mappings {
        ranges(object.key(&mapping.label), &mapping.ranges);
    }
    object.end();
}

fn ranges(out: &mut String, ranges: &[Range]) {
    put_list(out, ranges, |out, (low, high)| {
        let _ = write!(out, "[{low},{high}]");
    });
}

fn roles(object: &mut Object<'_>, roles: Roles, scope: Scope) {
    if roles.is_empty() {
        return;
    }
    let names = [
        (Role::PacketMagic, "packet-magic-number"),
        (Role::TraceUuid, "metadata-stream-uuid"),
        (Role::StreamClassId, "data-stream-class-id"),
        (Role::StreamId, "data-stream-id"),
        (Role::PacketTotalSize, "packet-total-length"),
        (Role::PacketContentSize, "packet-content-length"),
        (Role::PacketBegin, "default-clock-timestamp"),
        (Role::PacketEnd, "packet-end-default-clock-timestamp"),
        (Role::DiscardedEvents, "discarded-event-record-counter-snapshot"),
        (Role::PacketSequence, "packet-sequence-number"),
        (Role::EventClassId, "event-record-class-id"),
    ];
    let mut list: Vec<&str> = names.iter().filter(|(role, _)| roles.has(*role)).map(|&(_, name)| name).collect();
    if scope == Scope::EventHeader && roles.has(Role::Timestamp) {
        list.push("default-clock-timestamp");
    }
    if !list.is_empty() {
        let _ = write!(object.key("roles"), "{list:?}");
    }
}

/// The names of log levels of CTF 1.8 as LTTng numbers them.
fn log_level_name(level: i64) -> Option<&'static str> {
    let names = [
        "emergency",
        "alert",
        "critical",
        "error",
        "warning",
        "notice",
        "info",
        "debug:system",
        "debug:program",
        "debug:process",
        "debug:module",
        "debug:unit",
        "debug:function",
        "debug:line",
        "debug",
    ];
    names.get(usize::try_from(level).ok()?).copied()
}
